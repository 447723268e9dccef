#include "kube/names.h"

#include <set>

namespace cadre::kube {
namespace {

using testing::HasSubstr;

const std::string k63(63, 'a'), k64(64, 'a'), k253(253, 'a'), k254(254, 'a');

TEST(Names, WhatIsRight) {
  for (const std::string& text :
       {std::string("a"), std::string("0"), std::string("a-b--c"), std::string("123"), k63})
    EXPECT_EQ(checkDnsLabel(text), std::nullopt) << text;
  for (const std::string& text :
       {std::string("a"), std::string("a.b-c.0"), std::string("1.2.3"), k253})
    EXPECT_EQ(checkDnsSubdomain(text), std::nullopt) << text;
  for (const std::string& text : {std::string("a"), std::string("a-0"), k63})
    EXPECT_EQ(checkDns1035Label(text), std::nullopt) << text;
  for (const std::string& text :
       {std::string("a"), std::string("A_b.C-d"), std::string("example.com/Name"), k63,
        k253 + "/" + k63, std::string("0/0")}) {
    EXPECT_EQ(checkQualifiedName(text), std::nullopt) << text;
    EXPECT_EQ(checkLabelKey(text), std::nullopt) << text;
  }
  for (const std::string& text : {std::string(), std::string("a"), std::string("A_b.C-d"), k63})
    EXPECT_EQ(checkLabelValue(text), std::nullopt) << text;
}

TEST(Names, WhatIsWrongAndWhatWouldBeRight) {
  struct Case {
    NameProblem (*check)(std::string_view);
    std::string text, says;
  };
  for (const Case& c : {
           Case{checkDnsLabel, "", "\"\" is not a DNS label: it is empty; use up to 63"},
           Case{checkDnsLabel, "My-App", "it has 'M' at position 1"},
           Case{checkDnsLabel, "my_app", "it has '_' at position 3; use up to 63 lower case"},
           Case{checkDnsLabel, "a.b", "it has '.' at position 2"},
           Case{checkDnsLabel, "-a", "it starts with '-'"},
           Case{checkDnsLabel, "a-", "it ends with '-'"},
           Case{checkDnsLabel, k64, "it has 64 characters, at most 63 are allowed"},
           Case{checkDnsLabel, "a\nb", "\"a\\nb\" is not a DNS label: it has the byte 0x0a at"},
           Case{checkDnsLabel, "é", "the byte 0xc3"},
           Case{checkDnsSubdomain, "a..b", "two dots"},
           Case{checkDnsSubdomain, ".a", "starts with '.'"},
           Case{checkDnsSubdomain, "a.", "ends with '.'"},
           Case{checkDnsSubdomain, "a.-b", "has the part \"-b\", which starts with '-'"},
           Case{checkDnsSubdomain, "a-.b", "has the part \"a-\", which ends with '-'"},
           Case{checkDnsSubdomain, k254, "at most 253"},
           Case{checkDns1035Label, "0a", "starts with '0'"},
           Case{checkDns1035Label, "", "is empty"},
           Case{checkDns1035Label, "a.b", "has '.'"},
           Case{checkLabelKey, "", "\"\" is not a label key: it is empty"},
           Case{checkLabelKey, "a/b/c", "more than one '/'"},
           Case{checkLabelKey, "/a", "the part before '/' is empty"},
           Case{checkLabelKey, "a/", "the part after '/' is empty"},
           Case{checkLabelKey, "Example.com/a", "the part before '/' has 'E' at position 1"},
           Case{checkLabelKey, "_a", "starts with '_'"},
           Case{checkLabelKey, "x/" + k64, "the part after '/' has 64 characters"},
           Case{checkQualifiedName, "a b", "is not a qualified name: it has ' ' at position 2"},
           Case{checkLabelValue, "a/b", "\"a/b\" is not a label value: it has '/' at position 2"},
           Case{checkLabelValue, k64, "64 characters"},
           Case{checkLabelValue, "a.", "ends with '.'"},
       }) {
    NameProblem problem = c.check(c.text);
    ASSERT_TRUE(problem) << c.text;
    EXPECT_THAT(*problem, HasSubstr(c.says));
    EXPECT_LT(problem->size(), 400u) << *problem;
  }
}

TEST(Names, ShortNamesStay) {
  for (const std::string& name :
       {std::string("a"), std::string("agent-web"), std::string("a.b"), k63}) {
    EXPECT_EQ(boundedName(name), name);
    EXPECT_EQ(boundedName(boundedName(name)), name);
  }
  EXPECT_EQ(boundedName("agent", "-web"), "agent-web");
}

TEST(Names, LongNamesAreCutAndTold) {
  EXPECT_EQ(boundedName(k64), std::string(54, 'a') + "-" + boundedName(k64).substr(55));
  EXPECT_EQ(boundedName(k64).size(), 63u);
  // No separator before the hash but its own.
  std::string dashed = std::string(53, 'a') + "--..--" + std::string(20, 'b');
  EXPECT_EQ(boundedName(dashed).substr(0, 54), std::string(53, 'a') + "-");
  EXPECT_EQ(boundedName(dashed).size(), 53u + 9u);
}

TEST(Names, BoundedNamesAreValidAndDiffer) {
  std::set<std::string> seen;
  std::size_t count = 0;
  for (const std::string& stem :
       {std::string(), std::string("A"), std::string("-"), std::string("."), std::string("a_b"),
        std::string("a..b"), std::string("Ünï"), std::string("a.-.b"), std::string(1, '\0'), k253,
        std::string(100, '-'), std::string(40, 'x') + std::string(40, '.')})
    for (int i = 0; i < 50; ++i) {
      std::string input = stem + std::to_string(i) + "_";
      std::string name = boundedName(input);
      EXPECT_EQ(checkDnsSubdomain(name), std::nullopt) << name;
      EXPECT_LE(name.size(), 63u);
      EXPECT_EQ(name, boundedName(input));
      EXPECT_EQ(name, boundedName(name));
      seen.insert(name);
      ++count;
    }
  EXPECT_EQ(seen.size(), count);
  EXPECT_EQ(checkDnsLabel(boundedName("")), std::nullopt);
  EXPECT_NE(boundedName("A"), boundedName("a"));
}

TEST(Names, EveryLimitHolds) {
  for (std::size_t limit = 1; limit <= 80; ++limit) {
    std::string name = boundedName(std::string(50, 'n') + "." + std::string(50, 'm'), "-x", limit);
    EXPECT_LE(name.size(), limit);
    EXPECT_EQ(checkDnsSubdomain(name), std::nullopt) << name;
  }
}

}  // namespace
}  // namespace cadre::kube
