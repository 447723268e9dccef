#include "kube/pattern.h"

#include "base/format.h"

namespace cadre::kube {
namespace {

TEST(Pattern, Matches) {
  struct Case {
    std::string pattern;
    std::vector<std::string> yes, no;
  };
  const Case cases[] = {
      {"", {"", "x"}, {}},
      {"b", {"b", "abc"}, {"", "ac"}},
      {"^b", {"b", "bc"}, {"ab"}},
      {"b$", {"b", "ab"}, {"bc", "b\n"}},
      {"^$", {""}, {"x"}},
      {"^(a|bc|)$", {"a", "bc", ""}, {"b", "abc"}},
      {"^a|b$", {"ax", "xb"}, {"xa", "bx"}},
      {"^a?b*c+$", {"c", "abbcc", "bc"}, {"ab", "aac"}},
      {"^a{2}$", {"aa"}, {"a", "aaa"}},
      {"^a{2,}$", {"aa", "aaaaa"}, {"a"}},
      {"^a{0,2}$", {"", "aa"}, {"aaa"}},
      {"^(a{1,2}b){2}$", {"abab", "aabab"}, {"ab", "aaab"}},
      {"^(a*)*$", {"", "aaa"}, {"b"}},
      {"^(|a)+$", {"", "aa"}, {"b"}},
      {"^[^a-c]$", {"d", "é", "\n"}, {"a", "b", "", "dd"}},
      {"^.$", {"a", "é", "😀"}, {"\n", "", "ab"}},
      {R"(^\d\w\s\.$)", {"1_ ."}, {"a_ .", "1- .", "1__.", "1_ x"}},
      {R"(^[\d.-]+$)", {"1.2-3"}, {"a", ""}},
      {R"(^\D\W\S$)", {"a-x"}, {"1-x", "aax", "a- "}},
      {R"(^[\W]$)", {"-"}, {"a"}},
      {"^[a\\]-]$", {"a", "]", "-"}, {"\\"}},
      {"^(?:ab)+$", {"abab"}, {"aba"}},
      {"^[é-ü]$", {"ê"}, {"e"}},
      {"^\t\\t$", {"\t\t"}, {"tt"}},
      // What kinds need.
      {"^[A-Za-z0-9_.-]+$", {"openai", "a_b.c-d"}, {"", "a/b", "a b"}},
      {"^([0-9]+(h|m|s|ms)){1,4}$",
       {"0s", "1h30m", "10ms", "1h2m3s4ms"},
       {"", "1", "s", "1d", "1h1h1h1h1h"}},
      {"^[A-Za-z0-9][A-Za-z0-9._/:@-]{0,255}$",
       {"smollm2:135m", "a", std::string(256, 'x')},
       {"", "-a", "a b", std::string(257, 'x')}},
      {"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", {"a", "a-b", "a1"}, {"", "-a", "a-", "A", "a.b"}},
      {R"(^\S+$)", {"a/b"}, {"", "a b", "a\t"}},
  };
  for (const Case& c : cases) {
    auto pattern = Pattern::parse(c.pattern);
    ASSERT_TRUE(pattern) << pattern.error().text();
    EXPECT_EQ(pattern->text(), c.pattern);
    for (const auto& text : c.yes) EXPECT_TRUE(pattern->matches(text)) << c.pattern << ": " << text;
    for (const auto& text : c.no) EXPECT_FALSE(pattern->matches(text)) << c.pattern << ": " << text;
  }
}

TEST(Pattern, KnowsWhatGoKnows) {
  struct Case {
    std::string pattern, yes, no;
  };
  for (const Case& c : {
           Case{"^a+?b$", "aab", "ac"},
           {R"(\bcat\b)", "a cat", "concat"},
           {R"(^\p{Lu}\pL*$)", "École", "école"},
           {R"(^\x41\x{E9}$)", "Aé", "A"},
           {"(?i)^abc$", "aBC", "ab"},
           {"(?s)^a.b$", "a\nb", "ab"},
           {"^(?P<name>a)$", "a", "b"},
           {"^[[:alpha:]]$", "x", "1"},
           {"^a{,2}$", "a{,2}", "aa"},
           {"^]$", "]", "["},
       }) {
    auto pattern = Pattern::parse(c.pattern);
    ASSERT_TRUE(pattern) << c.pattern << ": " << pattern.error().text();
    EXPECT_TRUE(pattern->matches(c.yes)) << c.pattern;
    EXPECT_FALSE(pattern->matches(c.no)) << c.pattern;
  }
}

TEST(Pattern, RefusesWhatGoRefusesInItsWords) {
  for (auto [pattern, why] : std::initializer_list<std::pair<std::string, std::string>>{
           {"(", "missing closing ): `(`"},
           {"a)", "unexpected ): `a)`"},
           {"[a", "missing closing ]: `[a`"},
           {"[z-a]", "invalid character class range: `z-a`"},
           {"*a", "missing argument to repetition operator: `*`"},
           {"a**", "invalid nested repetition operator: `**`"},
           {"a{3,2}", "invalid repeat count: `{3,2}`"},
           {"a{1001}", "invalid repeat count: `{1001}`"},
           {"\\", "trailing backslash at end of expression: ``"},
           {"\\y", "invalid escape sequence: `\\y`"},
           {"(?<", "invalid or unsupported Perl syntax: `(?<`"},
           {"(?=a)", "invalid or unsupported Perl syntax: `(?=`"}}) {
    auto parsed = Pattern::parse(pattern);
    ASSERT_FALSE(parsed) << pattern;
    EXPECT_EQ(parsed.error().message, why);
  }
  EXPECT_FALSE(Pattern::parse("((((a{1000}){1000}))){1000}"));
}

TEST(Pattern, TakesTimeInProportionToTheText) {
  // Each of these takes a backtracking matcher longer than the age of the universe.
  for (std::string text : {"^(a+)+$", "^(a|a)*$", "^(a|aa)+$", "^(a*)*b$"})
    EXPECT_FALSE(Pattern::parse(text)->matches(std::string(20'000, 'a') + "!")) << text;
}

TEST(Pattern, TakesAnyBytes) {
  auto pattern = Pattern::parse("^.*$");
  ASSERT_TRUE(pattern);
  EXPECT_TRUE(pattern->matches("\xff\xc3"));
  EXPECT_TRUE(Pattern().matches("\xff"));
}

}  // namespace
}  // namespace cadre::kube
