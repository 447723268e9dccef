#include "json/diff.h"

#include <string>

#include <gtest/gtest.h>

#include "json/parse.h"

namespace cadre::json {
namespace {

std::string difference(std::string_view from, std::string_view to) {
  return formatDiff(diff(*parse(from), *parse(to)));
}

TEST(Diff, ReadsLikeAPersonWouldSayIt) {
  struct Case {
    std::string_view from, to, text;
  };
  const Case cases[] = {
      {R"({"a":1})", R"({"a":1.0})", ""},
      {R"({"spec":{"replicas":1}})", R"({"spec":{"replicas":3}})", "~ spec.replicas: 1 -> 3\n"},
      {R"({"a":1,"c":2})", R"({"b":3,"c":2})", "- a: 1\n+ b: 3\n"},
      {R"({"spec":{"containers":[{"image":"a"},{"image":"b"}]}})",
       R"({"spec":{"containers":[{"image":"c"}]}})",
       "~ spec.containers[0].image: \"a\" -> \"c\"\n- spec.containers[1].image: \"b\"\n"},
      {R"({"labels":{"a.b/c":"x","":1}})", R"({"labels":{"a.b/c":"y"}})",
       "- labels[\"\"]: 1\n~ labels[\"a.b/c\"]: \"x\" -> \"y\"\n"},
      {"{}", R"({"m":{"labels":{"a":"b"},"list":[1,{"x":2}],"none":{},"empty":[]}})",
       "+ m.empty: []\n+ m.labels.a: \"b\"\n+ m.list[0]: 1\n+ m.list[1].x: 2\n+ m.none: {}\n"},
      {R"({"a":{"b":1}})", R"({"a":[2]})", "- a.b: 1\n+ a[0]: 2\n"},
      {R"({"a":{}})", R"({"a":null})", "~ a: {} -> null\n"},
      {"1", "\"x\"", "~ 1 -> \"x\"\n"},
      {R"({"a b":[[1]]})", R"({"a b":[[2]]})", "~ [\"a b\"][0][0]: 1 -> 2\n"},
  };
  for (const Case& c : cases) EXPECT_EQ(difference(c.from, c.to), c.text) << c.from;
}

TEST(Diff, KeepsTheValues) {
  auto changes = diff(*parse(R"({"a":1,"b":{"c":2}})"), *parse(R"({"a":2,"d":[3]})"));
  const std::vector<Change> expected = {
      {"a", Value(1), Value(2)},
      {"b", Value(Object{{"c", 2}}), std::nullopt},
      {"d", std::nullopt, Value(Array{3})},
  };
  EXPECT_EQ(changes, expected);
}

TEST(Diff, CutsWhatIsTooLongToRead) {
  std::string start(499, 'x');
  std::string text = formatDiff(diff("a", start + "éé" + std::string(1000, 'y')));
  std::string expected = "~ \"a\" -> \"";
  expected += start;
  expected += "... (1505 bytes)\n";
  EXPECT_EQ(text, expected);
}

TEST(Diff, BoundsThePathsOfHostileObjects) {
  Value from, to;
  Value* deep_from = &from;
  Value* deep_to = &to;
  for (int i = 0; i < 20; ++i) {
    deep_from = &deep_from->make(std::string(10000, 'k'));
    deep_to = &deep_to->make(std::string(10000, 'k'));
  }
  for (int i = 0; i < 1000; ++i) deep_to->makeArray().push_back(i);
  deep_from->makeArray();
  auto changes = diff(from, to);
  ASSERT_EQ(changes.size(), 1000u);
  for (const Change& change : changes) EXPECT_LT(change.path.size(), 3000u);
}

}  // namespace
}  // namespace cadre::json
