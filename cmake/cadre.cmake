# cadre_module(NAME [USES lower modules...] [OWNS third-party libraries...])
#
# One folder, one idea, one static library `cadre_NAME` from its *.cc, and one test program `NAME_test` from
# its *_test.cc. What it OWNS is linked privately: nobody above sees those headers.
function(cadre_module NAME)
  cmake_parse_arguments(ARG "" "" "USES;OWNS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  file(GLOB tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*_test.cc)
  list(REMOVE_ITEM sources ${tests})
  list(TRANSFORM ARG_USES PREPEND cadre_)

  add_library(cadre_${NAME} STATIC ${sources})
  target_include_directories(cadre_${NAME} PUBLIC ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(cadre_${NAME} PUBLIC ${ARG_USES} PRIVATE ${ARG_OWNS} Threads::Threads)

  if(tests AND NOT CADRE_FUZZ)
    cadre_test(${NAME}_test SOURCES ${tests} USES ${NAME})
  endif()
endfunction()

# cadre_test(NAME SOURCES files... USES modules...): a GoogleTest program with the shared precompiled header.
function(cadre_test NAME)
  cmake_parse_arguments(ARG "" "" "SOURCES;USES" ${ARGN})
  list(TRANSFORM ARG_USES PREPEND cadre_)
  add_executable(${NAME} ${ARG_SOURCES})
  target_link_libraries(${NAME} PRIVATE ${ARG_USES} GTest::gmock GTest::gtest_main)
  target_compile_options(${NAME} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)  # so that ccache can see through it
  target_precompile_headers(${NAME} PRIVATE <gtest/gtest.h> <gmock/gmock.h> <string> <vector> <memory> <functional>)
  set_target_properties(${NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  add_test(NAME ${NAME} COMMAND ${NAME})
endfunction()
