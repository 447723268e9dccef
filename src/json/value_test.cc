#include "json/value.h"

#include <cmath>
#include <limits>
#include <type_traits>

#include <gtest/gtest.h>

namespace cadre::json {
namespace {

TEST(Value, SaysItsType) {
  struct Case {
    Value value;
    std::string_view name;
  };
  const Case cases[] = {{nullptr, "null"},    {true, "boolean"},    {7, "integer"},
                        {7.5, "number"},      {"text", "string"},   {Array{1}, "array"},
                        {Object{}, "object"}, {7u, "integer"},      {7.0f, "number"},
                        {7ull, "integer"},    {short{7}, "integer"}};
  for (const Case& c : cases) EXPECT_EQ(c.value.typeName(), c.name);
  EXPECT_EQ(Value(std::numeric_limits<std::uint64_t>::max()).typeName(), "number");
}

TEST(Value, ComparesByMeaning) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
  struct Case {
    Value a, b;
    bool equal;
  };
  const Case cases[] = {
      {1, 1.0, true},
      {0, -0.0, true},
      {1, 1.5, false},
      {1, true, false},
      {0, nullptr, false},
      {0, false, false},
      {"1", 1, false},
      {kMax, 0x1p63, false},  // the double nearest to the largest integer is one more
      {kMin, -0x1p63, true},
      {(1ll << 53) + 1, 0x1p53, false},
      {1, std::nan(""), false},
      {1, INFINITY, false},
      {Array{1, 2}, Array{1.0, 2.0}, true},
      {Array{1, 2}, Array{2, 1}, false},
      {Object{{"a", 1}, {"b", 2}}, Object{{"b", 2.0}, {"a", 1}}, true},
      {Object{{"a", 1}}, Object{{"a", nullptr}}, false},
      {Object{{"a", nullptr}}, Object{}, false},
      {Object{}, Array{}, false},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(c.a == c.b, c.equal);
    EXPECT_EQ(c.b == c.a, c.equal);
  }
}

TEST(Value, ReadingTheWrongTypeGivesTheFallback) {
  const Value value = Object{{"spec", Object{{"replicas", 3}}}, {"list", Array{"a"}}};
  EXPECT_EQ(value["spec"]["replicas"].integer(), 3);
  EXPECT_EQ(value["spec"]["missing"]["deeper"].integer(9), 9);
  EXPECT_EQ(value["spec"].integer(5), 5);
  EXPECT_EQ(value["list"].at(0).string(), "a");
  EXPECT_EQ(value["list"].at(1).string(), "");
  EXPECT_TRUE(value["list"].object().empty());
  EXPECT_TRUE(value["spec"].array().empty());
  EXPECT_TRUE(value.boolean(true));
  EXPECT_EQ(Value(3.0).integer(), 3);
  EXPECT_EQ(Value(3.5).integer(-1), -1);
  EXPECT_EQ(Value(1e30).integer(-1), -1);
  EXPECT_EQ(Value(3).number(), 3.0);
  EXPECT_EQ(Value("3").number(1.5), 1.5);
}

TEST(Value, WritingMakesObjectsOnTheWay) {
  Value value;
  value.make("spec").make("template").make("name") = "x";
  EXPECT_EQ(value, Value(Object{{"spec", Object{{"template", Object{{"name", "x"}}}}}}));
  value.make("spec") = 3;
  value.make("spec").make("now") = "an object";
  EXPECT_TRUE(value["spec"].isObject());
  value.make("list").makeArray().push_back(1);
  EXPECT_EQ(value["list"].array().size(), 1u);
  EXPECT_EQ(value.make("list").stringPtr(), nullptr);
}

TEST(Value, IsMovedWithoutThrowing) {
  static_assert(std::is_nothrow_move_constructible_v<Value>);
  static_assert(std::is_nothrow_move_assignable_v<Value>);
  static_assert(!std::is_constructible_v<Value, const int*>);
}

TEST(Object, KeepsMembersSortedAndTheLastOfEqualKeys) {
  const Object object{{"b", 1}, {"a", 2}, {"b", 3}, {"c", 4}, {"a", 5}};
  std::string seen;
  for (const auto& [key, value] : object) seen += key + std::to_string(value.integer());
  EXPECT_EQ(seen, "a5b3c4");
  EXPECT_EQ(object.size(), 3u);
}

TEST(Object, SetsFindsAndErases) {
  Object object;
  EXPECT_TRUE(object.empty());
  object.set("b", 2);
  object.set("a", 1);
  object["c"] = 3;
  object.set("b", 4);
  EXPECT_EQ(object.size(), 3u);
  EXPECT_EQ(object.begin()->first, "a");
  EXPECT_EQ(object.find("b")->integer(), 4);
  EXPECT_EQ(object.find("bb"), nullptr);
  EXPECT_TRUE(object.erase("b"));
  EXPECT_FALSE(object.erase("b"));
  EXPECT_FALSE(object.contains("b"));
}

}  // namespace
}  // namespace cadre::json
