#include "json/yaml_scalar.h"

#include <string>

#include <gtest/gtest.h>

#include "json/write.h"
#include "json/yaml.h"

namespace cadre::json {
namespace {

struct Case {
  std::string_view text, json;
};

std::string read(std::string_view scalar) {
  auto documents = parseYaml("v: " + std::string(scalar), "f.yaml");
  if (!documents.ok()) return "refused";
  return write(documents->front().value["v"]);
}

// What sigs.k8s.io/yaml v1.6.0 made of each scalar (integers beyond 64 bits with a sign are doubles
// here, so their last digits may differ).
TEST(YamlScalar, MeansWhatItMeansToKubectl) {
  const Case cases[] = {
      {"true", "true"},
      {"True", "true"},
      {"TRUE", "true"},
      {"tRUE", R"("tRUE")"},
      {"false", "false"},
      {"False", "false"},
      {"FALSE", "false"},
      {"yes", "true"},
      {"Yes", "true"},
      {"YES", "true"},
      {"yES", R"("yES")"},
      {"no", "false"},
      {"No", "false"},
      {"NO", "false"},
      {"on", "true"},
      {"On", "true"},
      {"ON", "true"},
      {"off", "false"},
      {"Off", "false"},
      {"OFF", "false"},
      {"y", "true"},
      {"Y", "true"},
      {"n", "false"},
      {"N", "false"},
      {"t", R"("t")"},
      {"f", R"("f")"},
      {"null", "null"},
      {"Null", "null"},
      {"NULL", "null"},
      {"nULL", R"("nULL")"},
      {"~", "null"},
      {"none", R"("none")"},
      {"nil", R"("nil")"},
      {"0", "0"},
      {"1", "1"},
      {"-1", "-1"},
      {"+1", "1"},
      {"--1", R"("--1")"},
      {"+-1", R"("+-1")"},
      {"1_000", "1000"},
      {"_1", R"("_1")"},
      {"1_", "1"},
      {"1__0", "10"},
      {"-1_0", "-10"},
      {"0x1F", "31"},
      {"0X1f", "31"},
      {"0x1f", "31"},
      {"-0x1f", "-31"},
      {"+0x1f", "31"},
      {"0x", R"("0x")"},
      {"0xg", R"("0xg")"},
      {"0x_1f", "31"},
      {"0x1_f", "31"},
      {"0b101", "5"},
      {"0B101", "5"},
      {"-0b101", "-5"},
      {"+0b101", "5"},
      {"0b", R"("0b")"},
      {"0b102", R"("0b102")"},
      {"0b1_0", "2"},
      {"0o17", "15"},
      {"0O17", "15"},
      {"-0o17", "-15"},
      {"+0o17", "15"},
      {"0o", R"("0o")"},
      {"0o18", R"("0o18")"},
      {"0o1_7", "15"},
      {"017", "15"},
      {"-017", "-15"},
      {"+017", "15"},
      {"018", "18"},
      {"0_17", "15"},
      {"00", "0"},
      {"01", "1"},
      {"08", "8"},
      {"0.", "0"},
      {"-0", "0"},
      {"+0", "0"},
      {"007", "7"},
      {"9223372036854775807", "9223372036854775807"},
      {"9223372036854775808", "9223372036854775808"},
      {"-9223372036854775808", "-9223372036854775808"},
      {"-9223372036854775809", "-9223372036854775808"},
      {"18446744073709551615", "18446744073709551616"},
      {"18446744073709551616", "18446744073709551616"},
      {"0xFFFFFFFFFFFFFFFF", "18446744073709551616"},
      {"0x7fffffffffffffff", "9223372036854775807"},
      {"0x8000000000000000", "9223372036854775808"},
      {"0x10000000000000000", R"("0x10000000000000000")"},
      {"-0x8000000000000000", "-9223372036854775808"},
      {"0777777777777777777777", "9223372036854775807"},
      {"01777777777777777777777", "18446744073709551616"},
      {"02000000000000000000000", "2e+21"},
      {"0b1111111111111111111111111111111111111111111111111111111111111111",
       "18446744073709551616"},
      {"1.5", "1.5"},
      {"-1.5", "-1.5"},
      {"+1.5", "1.5"},
      {"1.", "1"},
      {".5", "0.5"},
      {"-.5", "-0.5"},
      {"+.5", "0.5"},
      {".", R"(".")"},
      {"-.", R"("-.")"},
      {"+.", R"("+.")"},
      {"1.5.2", R"("1.5.2")"},
      {"1e3", "1000"},
      {"1E3", "1000"},
      {"1e+3", "1000"},
      {"1e-3", "0.001"},
      {"-1e3", "-1000"},
      {"1.e3", "1000"},
      {".5e3", "500"},
      {"1e", R"("1e")"},
      {"e3", R"("e3")"},
      {"1e3.5", R"("1e3.5")"},
      {"1_000.5", "1000.5"},
      {"1_0e3", "10000"},
      {"1.5_0", "1.5"},
      {"._5", R"("._5")"},
      {"0.1e1", "1"},
      {"01.5", "1.5"},
      {"09.5", "9.5"},
      {"0e0", "0"},
      {"1e400", R"("1e400")"},
      {"1e-400", "0"},
      {"-1e400", R"("-1e400")"},
      {"0x1p4", R"("0x1p4")"},
      {"0x1.8p1", R"("0x1.8p1")"},
      {"0x1.8", R"("0x1.8")"},
      {"1p4", R"("1p4")"},
      {"inf", R"("inf")"},
      {"Inf", R"("Inf")"},
      {".inf", "refused"},
      {".Inf", "refused"},
      {".INF", "refused"},
      {"+.inf", "refused"},
      {"+.Inf", "refused"},
      {"-.inf", "refused"},
      {"-.INF", "refused"},
      {".nan", "refused"},
      {".NaN", "refused"},
      {".NAN", "refused"},
      {"nan", R"("nan")"},
      {"NaN", R"("NaN")"},
      {"Infinity", R"("Infinity")"},
      {"infinity", R"("infinity")"},
      {"+inf", R"("+inf")"},
      {"-inf", R"("-inf")"},
      {"-Inf", R"("-Inf")"},
      {"2001-01-01", R"("2001-01-01")"},
      {"2001-1-1", R"("2001-1-1")"},
      {"2001-12-14t21:59:43.10-05:00", R"("2001-12-14t21:59:43.10-05:00")"},
      {"2001-12-14 21:59:43.10 -5", R"("2001-12-14 21:59:43.10 -5")"},
      {"2001-12-14T21:59:43Z", R"("2001-12-14T21:59:43Z")"},
      {"12:30:45", R"("12:30:45")"},
      {"1:30", R"("1:30")"},
      {"190:20:30.15", R"("190:20:30.15")"},
      {"1.2.3", R"("1.2.3")"},
      {"1,000", R"("1,000")"},
      {"0.1.0", R"("0.1.0")"},
      {"1 2", R"("1 2")"},
      {"1 000", R"("1 000")"},
      {"=", R"("=")"},
      {"<<", R"("<<")"},
      {R"("1")", R"("1")"},
      {"'1'", R"("1")"},
      {R"("true")", R"("true")"},
      {"'~'", R"("~")"},
      {R"("")", R"("")"},
      {"''", R"("")"},
      {"!!str 1", R"("1")"},
      {"!!str true", R"("true")"},
      {"!!str ~", R"("~")"},
      {"!!str null", R"("null")"},
      {R"(!!str "x")", R"("x")"},
      {"!!str 2001-01-01", R"("2001-01-01")"},
      {"!!int 1", "1"},
      {R"(!!int "1")", "1"},
      {"!!int 0x10", "16"},
      {"!!int 1.0", "refused"},
      {"!!int 1.5", "refused"},
      {"!!int x", "refused"},
      {R"(!!int "")", "refused"},
      {"!!int 1_0", "10"},
      {"!!int 0o17", "15"},
      {"!!int true", "refused"},
      {"!!int ~", "refused"},
      {"!!float 1", "1"},
      {R"(!!float "1.5")", "1.5"},
      {"!!float 1e3", "1000"},
      {"!!float x", "refused"},
      {"!!float 017", "15"},
      {"!!float 0x10", "16"},
      {"!!float .inf", "refused"},
      {"!!float ~", "refused"},
      {"!!bool true", "true"},
      {"!!bool yes", "true"},
      {R"(!!bool "true")", "true"},
      {R"(!!bool "on")", "true"},
      {"!!bool y", "true"},
      {"!!bool 1", "refused"},
      {"!!bool x", "refused"},
      {"!!null null", "null"},
      {"!!null ~", "null"},
      {R"(!!null "")", "null"},
      {"!!null x", "refused"},
      {"!!null", "null"},
      {R"(!!null "null")", "null"},
      {"!!binary aGVsbG8=", R"("hello")"},
      {R"(!!binary "aGVsbG8=")", R"("hello")"},
      {"!!binary aGVsbG8", "refused"},
      {R"(!!binary "aGVs bG8=")", "refused"},
      {R"(!!binary "/w==")", R"("�")"},
      {"!!binary x!", "refused"},
      {"!!timestamp 2001-01-01", R"("2001-01-01")"},
      {"! 1", R"("1")"},
      {"! true", R"("true")"},
      {R"(!<tag:yaml.org,2002:int> "7")", "7"},
      {".5_0", "0.5"},
      {".5_", R"(".5_")"},
  };
  for (const Case& c : cases) EXPECT_EQ(read(c.text), c.json) << c.text;
}

// Where we differ on purpose: what go-yaml takes without a word is refused.
TEST(YamlScalar, RefusesTagsItDoesNotKnow) {
  for (std::string_view text :
       {"!foo 1", "!foo bar", "!foo [1]", "!foo {a: 1}", "!<x> 1", "!!str [1]", "!!map [1]",
        "!!set {a}", "!!omap [a: 1]", "!!merge x", "!x"})
    EXPECT_EQ(read(text), "refused") << text;
}

TEST(YamlScalar, LooksTyped) {
  for (std::string_view text : {"", "~", "yes", "1", "1.5", "0x1f", "2026-01-01", "1:30", ".inf",
                                "2026-01-01T00:00:00Z", "-1_0", "190:20:30.15"})
    EXPECT_TRUE(looksTyped(text)) << text;
  for (std::string_view text :
       {"a", "yess", "1.2.3", "10.0.0.1", "-", "--port=1", "0xg", "v1", "10:a", "10.0.0.1:80",
        "8080:80", "1:", "1:75", ":80", "2026-01", "500m", "1e"})
    EXPECT_FALSE(looksTyped(text)) << text;
}

TEST(YamlScalar, KnowsTinyFromHuge) {
  std::string zeros(500, '0');
  EXPECT_EQ(read("0." + zeros + "1"), "0");
  EXPECT_EQ(read("1" + zeros + ".0"), "\"1" + zeros + ".0\"");
  EXPECT_EQ(read("1" + zeros + "e-100"), "\"1" + zeros + "e-100\"");
  EXPECT_EQ(read("1" + zeros + "e-500"), "1");
  EXPECT_EQ(read("0." + zeros + "1e501"), "1");
  EXPECT_EQ(read("0." + zeros + "1e100"), "0");
  EXPECT_EQ(read("1e99999999999999999999"), "\"1e99999999999999999999\"");
  EXPECT_EQ(read("1e-99999999999999999999"), "0");
}

}  // namespace
}  // namespace cadre::json
