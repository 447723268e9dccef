#pragma once

#include <cstdio>
#include <cstdlib>
#include <source_location>

// What must hold for every input: otherwise the fuzzer keeps it.
inline void require(bool holds, std::source_location here = std::source_location::current()) {
  if (holds) return;
  std::fprintf(stderr, "%s:%u does not hold\n", here.file_name(), here.line());
  std::abort();
}
