// The matchers, as a table: what is expected, what came, what is said.
#include "transcript/match.h"

#include "json/yaml.h"

namespace cadre::transcript {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

json::Value yaml(std::string_view text) { return json::parseYaml(text, "test")->at(0).value; }

std::vector<std::string> mismatches(std::string_view expected, std::string_view actual,
                                    const Names& names = {}) {
  json::Value value = yaml(actual);
  std::vector<std::string> out;
  for (const Mismatch& mismatch : match(yaml(expected), &value, names).mismatches)
    out.push_back(mismatch.text);
  return out;
}

TEST(Match, NamedKeysMustMatchAndOthersAreFree) {
  EXPECT_THAT(mismatches("{a: 1, b: {c: x}}", "{a: 1, b: {c: x, d: y}, e: 2}"), IsEmpty());
  EXPECT_THAT(mismatches("{a: 1, b: {c: x}}", "{a: 2, b: {}}"),
              ElementsAre("a: expected 1, is 2", R"(b.c: expected "x", is absent)"));
  EXPECT_THAT(mismatches("{$only: true, a: 1}", "{a: 1}"), IsEmpty());
  EXPECT_THAT(mismatches("{$only: true, a: 1}", "{a: 1, 'x/y': 2}"),
              ElementsAre(R"(["x/y"]: expected nothing else ($only), is 2)"));
}

TEST(Match, ListsAreExactUnlessSomeItemsAreAskedFor) {
  EXPECT_THAT(mismatches("[1, 2]", "[1, 2]"), IsEmpty());
  EXPECT_THAT(mismatches("[1, 2]", "[1]"), ElementsAre("expected 2 items, has 1: [1]"));
  EXPECT_THAT(mismatches("[{size: 1}]", "[{size: 2}]"), ElementsAre("[0].size: expected 1, is 2"));
  EXPECT_THAT(mismatches("[$some, {size: 2}]", "[{size: 1}, {size: 2}]"), IsEmpty());
  EXPECT_THAT(mismatches("[$unordered, 2, 1]", "[1, 2]"), IsEmpty());
  EXPECT_THAT(mismatches("[$unordered, 2, 1]", "[1, 2, 3]"),
              ElementsAre("expected 2 items, has 3: [1,2,3]"));
  EXPECT_THAT(mismatches("[$some, {size: 3}]", "[{size: 1}]"),
              ElementsAre(R"(no item is {"size":3}; there is [{"size":1}])"));
}

TEST(Match, Matchers) {
  EXPECT_THAT(mismatches("{a: $any, b: $string, c: $int, d: $time, e: $contains ell, f: $absent}",
                         "{a: null, b: x, c: 3, d: '2026-01-01T00:00:00Z', e: hello}"),
              IsEmpty());
  EXPECT_THAT(mismatches("{a: $any, b: $string, c: $int, d: $time, e: $contains ell, f: $absent}",
                         "{b: 1, c: x, d: later, e: help, f: 1}"),
              ElementsAre("a: expected $any, is absent", "b: expected $string, is 1",
                          R"(c: expected $int, is "x")", R"(d: expected $time, is "later")",
                          R"(e: expected $contains ell, is "help")", "f: expected $absent, is 1"));
  EXPECT_THAT(mismatches("{a: '$above {rv}', b: '$not {rv}'}", "{a: '10', b: '8'}", {{"rv", "9"}}),
              IsEmpty());
  EXPECT_THAT(mismatches("{a: '$above {rv}', b: '$not {rv}'}", "{a: '9', b: '9'}", {{"rv", "9"}}),
              ElementsAre(R"(a: expected $above 9, is "9")", R"(b: expected $not 9, is "9")"));
  EXPECT_THAT(mismatches("{a: $typo}", "{a: 1}"), ElementsAre("a: there is no matcher $typo"));
}

TEST(Match, SavesAndComparesWithWhatWasSaved) {
  json::Value answer = yaml("{a: 7, b: [{c: x}]}");
  Match result = match(yaml("{a: $save number, b: [$some, {c: $save letter}]}"), &answer, {});
  EXPECT_TRUE(result.ok());
  EXPECT_EQ(result.saved, (Names{{"number", 7}, {"letter", "x"}}));
  EXPECT_THAT(mismatches("{a: '{number}', b: 'no. {number}'}", "{a: 7, b: no. 7}", result.saved),
              IsEmpty());
  EXPECT_THAT(mismatches("{a: '{other}'}", "{a: 7}"),
              ElementsAre(HasSubstr("{other} is not known here")));
}

TEST(Match, PointersLeadToWhatWasExpected) {
  json::Value answer = yaml("{a: {'b/c': 1}}");
  EXPECT_EQ(match(yaml("{a: {'b/c': 2}}"), &answer, {}).mismatches.at(0).pointer, "/a/b~1c");
}

TEST(Fill, ReplacesNamesAndNothingElse) {
  Names names{{"ns", "shop"}, {"count", 3}, {"token", "a/b="}};
  EXPECT_EQ(*fillText("x-{ns}", names), "x-shop");
  EXPECT_EQ(*fillText(R"({"a": {}} {1} {a b})", names), R"({"a": {}} {1} {a b})");
  EXPECT_EQ(*fillTarget("/x?continue={token}", names), "/x?continue=a%2Fb%3D");
  EXPECT_EQ(*fill(yaml("{'{ns}.io': ['{count}', 'n{count}']}"), names), yaml("{shop.io: [3, n3]}"));
  EXPECT_EQ(fillText("{nobody}", names).error().code, Code::InvalidArgument);
}

}  // namespace
}  // namespace cadre::transcript
