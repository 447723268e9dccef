#include "json/write.h"

#include <cmath>
#include <string>

#include <gtest/gtest.h>

#include "json/parse.h"
#include "json/random_value.h"

namespace cadre::json {
namespace {

TEST(Write, IsCompactAndSorted) {
  struct Case {
    Value value;
    std::string_view text;
  };
  const Case cases[] = {
      {nullptr, "null"},
      {true, "true"},
      {false, "false"},
      {0, "0"},
      {INT64_MIN, "-9223372036854775808"},
      {1.0, "1"},
      {-0.0, "-0"},
      {0.1, "0.1"},
      {1.5, "1.5"},
      {1e20, "100000000000000000000"},
      {12345678901234567890.0, "12345678901234567168"},
      {-1e15, "-1000000000000000"},
      {999999999999999.9, "999999999999999.9"},
      {1234567890123456.5, "1234567890123456.5"},
      {-4.5e20, "-450000000000000000000"},
      {1e21, "1e+21"},
      {1.5e300, "1.5e+300"},
      {1e-6, "0.000001"},
      {1e-7, "1e-7"},
      {1.25e-10, "1.25e-10"},
      {5e-324, "5e-324"},
      {123456789.125, "123456789.125"},
      {1.7976931348623157e308, "1.7976931348623157e+308"},
      {NAN, "null"},
      {-INFINITY, "null"},
      {"", "\"\""},
      {"a\"b\\c/\b\f\n\r\t\x01\x1f\x7f",
       "\"a\\\"b\\\\c/\\u0008\\u000c\\n\\r\\t\\u0001\\u001f\x7f\""},
      {std::string_view("\0", 1), "\"\\u0000\""},
      {"é 中 😀 <&>", "\"é 中 😀 <&>\""},
      {"\xff|\xc3|\xc0\x80|\xed\xa0\x80|\xf5\x80\x80\x80|\xe4\xb8",
       "\"\uFFFD|\uFFFD|\uFFFD\uFFFD|\uFFFD\uFFFD\uFFFD|\uFFFD\uFFFD\uFFFD\uFFFD|\uFFFD\uFFFD\""},
      {Array{}, "[]"},
      {Array{1, Array{}, Object{}}, "[1,[],{}]"},
      {Object{{"b", 1}, {"a\n", Array{"x"}}}, "{\"a\\n\":[\"x\"],\"b\":1}"},
  };
  for (const Case& c : cases) EXPECT_EQ(write(c.value), c.text);
}

TEST(Write, AppendsToWhatIsThere) {
  std::string out = "data: ";
  append(out, Object{{"a", 1}});
  EXPECT_EQ(out, "data: {\"a\":1}");
}

TEST(Write, IndentsForPeople) {
  EXPECT_EQ(
      writePretty(Object{{"a", Array{1, Object{{"b", nullptr}}}}, {"c", Object{}}, {"d", Array{}}}),
      R"({
  "a": [
    1,
    {
      "b": null
    }
  ],
  "c": {},
  "d": []
})");
}

TEST(Write, ReadsBackAsTheSameValue) {
  RandomValues random(1);
  for (int i = 0; i < 5000; ++i) {
    Value value = random.next();
    for (const std::string& text : {write(value), writePretty(value)}) {
      auto again = parse(text);
      ASSERT_TRUE(again.ok()) << text << ": " << again.error().text();
      ASSERT_EQ(*again, value) << text;
    }
  }
}

}  // namespace
}  // namespace cadre::json
