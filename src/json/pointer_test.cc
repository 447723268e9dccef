#include "json/pointer.h"

#include <gtest/gtest.h>

#include "json/parse.h"
#include "json/write.h"

namespace cadre::json {
namespace {

// The document and the pointers of RFC 6901, section 5.
TEST(Pointer, FindsWhatTheRfcSays) {
  const Value document = *parse(
      R"({"foo":["bar","baz"],"":0,"a/b":1,"c%d":2,"e^f":3,"g|h":4,"i\\j":5,"k\"l":6," ":7,"m~n":8})");
  struct Case {
    std::string_view pointer, expected;
  };
  const Case cases[] = {
      {"/foo", R"(["bar","baz"])"},
      {"/foo/0", R"("bar")"},
      {"/", "0"},
      {"/a~1b", "1"},
      {"/c%d", "2"},
      {"/e^f", "3"},
      {"/g|h", "4"},
      {"/i\\j", "5"},
      {"/k\"l", "6"},
      {"/ ", "7"},
      {"/m~0n", "8"},
  };
  for (const Case& c : cases) {
    auto pointer = Pointer::parse(c.pointer);
    ASSERT_TRUE(pointer.ok()) << c.pointer;
    ASSERT_NE(pointer->find(document), nullptr) << c.pointer;
    EXPECT_EQ(write(*pointer->find(document)), c.expected);
    EXPECT_EQ(pointer->text(), c.pointer);
  }
  EXPECT_EQ(Pointer::parse("")->find(document), &document);
}

TEST(Pointer, FindsNothingWhereNothingIs) {
  const Value document = *parse(R"({"a":[1,2],"b":"text"})");
  for (std::string_view text : {"/x", "/a/2", "/a/-", "/a/01", "/a/+1", "/a/", "/a/x", "/b/0",
                                "/a/0/0", "/a/99999999999999999999999"})
    EXPECT_EQ(Pointer::parse(text)->find(document), nullptr) << text;
}

TEST(Pointer, RefusesWhatIsNone) {
  struct Case {
    std::string_view text, message;
  };
  const Case cases[] = {
      {"a", R"(JSON pointer "a" does not start with a slash)"},
      {"#/a", R"(JSON pointer "#/a" does not start with a slash)"},
      {"/a~", R"(JSON pointer "/a~" has a ~ that is neither ~0 nor ~1)"},
      {"/~2/b", R"(JSON pointer "/~2/b" has a ~ that is neither ~0 nor ~1)"},
  };
  for (const Case& c : cases) {
    auto pointer = Pointer::parse(c.text);
    ASSERT_FALSE(pointer.ok()) << c.text;
    EXPECT_EQ(pointer.error().text(), c.message);
  }
}

TEST(Pointer, KnowsItsParents) {
  auto at = [](std::string_view text) { return *Pointer::parse(text); };
  EXPECT_EQ(at("/a/b").parent(), at("/a"));
  EXPECT_EQ(at("").parent(), at(""));
  EXPECT_TRUE(at("/a/b").isWithin(at("/a")));
  EXPECT_TRUE(at("/a").isWithin(at("/a")));
  EXPECT_FALSE(at("/ab").isWithin(at("/a")));
  EXPECT_FALSE(at("/a").isWithin(at("/a/b")));
}

TEST(Pointer, EscapesTokens) {
  EXPECT_EQ(escapeToken("a/b~c"), "a~1b~0c");
  EXPECT_EQ(unescapeToken("a~1b~0c~01"), "a/b~c~1");
  EXPECT_EQ(unescapeToken("~"), "~");
}

TEST(Pointer, WritesThroughWhatItFinds) {
  Value document = *parse(R"({"a":[{"b":1}]})");
  *Pointer::parse("/a/0/b")->find(document) = 2;
  EXPECT_EQ(write(document), R"({"a":[{"b":2}]})");
}

}  // namespace
}  // namespace cadre::json
