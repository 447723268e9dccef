#include "engine/table.h"

#include "base/format.h"
#include "base/strings.h"

namespace cadre::engine {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> colors(const json::Value& object) {
  std::vector<std::string> found;
  for (const json::Value& color : object["colors"].array()) found.push_back(color.string());
  return found;
}
const Index kColor{"color", colors};

json::Value object(std::string_view name, std::string_view version,
                   std::vector<std::string> found_by = {}, std::string_view ns = "ns") {
  json::Array list;
  for (std::string& color : found_by) list.emplace_back(std::move(color));
  return json::Object{
      {"metadata", json::Object{{"name", name}, {"namespace", ns}, {"resourceVersion", version}}},
      {"colors", std::move(list)}};
}

struct Kept {
  std::vector<std::string> seen;  // "a@5 red green", "-a red"
  Table table{{kColor}, [this](const Table::Change& change) {
                std::string line = change.object ? format("{}@{}", change.key.name,
                                                          kube::resourceVersion(*change.object))
                                                 : "-" + change.key.name;
                for (const auto& [index, value] : change.at) line += " " + value;
                seen.push_back(line);
              }};

  std::vector<std::string> found(const std::string& color) {
    std::vector<std::string> names;
    for (const kube::ObjectKey& key : table.keys("color", color)) names.push_back(key.name);
    return names;
  }
  std::vector<std::string> all() {
    std::vector<std::string> names;
    for (const kube::ObjectKey& key : table.keys())
      names.push_back(format("{}@{}", key.name, kube::resourceVersion(*table.find(key))));
    return names;
  }
};

TEST(Table, IsFoundByNameAndByIndex) {
  Kept t;
  auto picture = t.table.begin();
  t.table.put(object("a", "1", {"red", "green", "red"}), picture);
  t.table.put(object("b", "2", {"red"}), picture);
  EXPECT_THAT(t.found("red"), ElementsAre("a", "b"));
  EXPECT_THAT(t.found("green"), ElementsAre("a"));
  EXPECT_THAT(t.found("blue"), IsEmpty());
  EXPECT_THAT(t.table.keys("no such index", "red"), IsEmpty());
  EXPECT_EQ(*t.table.find({"ns", "b"}), object("b", "2", {"red"}));
  EXPECT_FALSE(t.table.find({"other", "b"}));
  EXPECT_EQ(t.table.size(), 2u);
}

TEST(Table, AChangeTellsWhereItWasAndWhereItIs) {
  Kept t;
  auto picture = t.table.begin();
  t.table.put(object("a", "1", {"red"}), picture);
  t.table.put(object("a", "2", {"green"}), picture);
  EXPECT_THAT(t.found("red"), IsEmpty());
  EXPECT_THAT(t.found("green"), ElementsAre("a"));
  t.table.drop(object("a", "3"));
  EXPECT_THAT(t.found("green"), IsEmpty());
  EXPECT_THAT(t.seen, ElementsAre("a@1 red", "a@2 red green", "-a green"));
}

TEST(Table, WhatIsOlderIsPassedOver) {
  struct Case {
    std::string_view held, comes, then;
  };
  for (const Case& c :
       {Case{"5", "5", "5"}, Case{"5", "4", "5"}, Case{"5", "6", "6"}, Case{"9", "10", "10"},
        Case{"10", "9", "10"}, Case{"5", "opaque", "opaque"}, Case{"opaque", "5", "5"}}) {
    Kept t;
    t.table.put(object("a", c.held));
    t.table.put(object("a", c.comes), t.table.begin());
    EXPECT_THAT(t.all(), ElementsAre(format("a@{}", c.then))) << c.held << " " << c.comes;
  }
}

TEST(Table, ADeletionThatIsOlderIsPassedOver) {
  Kept t;
  t.table.put(object("a", "7"));  // made anew, says the answer to our write
  t.table.drop(object("a", "5"));
  EXPECT_THAT(t.all(), ElementsAre("a@7"));
  t.table.drop(object("a", "8"));
  EXPECT_THAT(t.all(), IsEmpty());
  t.table.drop(object("a", "9"));
  t.table.drop(kube::ObjectKey{"ns", "a"});
  EXPECT_THAT(t.seen, ElementsAre("a@7", "-a"));
}

TEST(Table, AnAnswerThatTheWatchHasOvertakenIsPassedOver) {
  struct Case {
    std::string_view why;
    std::string_view answer;
    std::string_view ns;
    bool comes;
  };
  for (const Case& c : {Case{"it was deleted since", "8", "ns", false},
                        Case{"its end is the answer itself", "9", "ns", false},
                        Case{"it is newer than all that was told", "10", "ns", true},
                        Case{"elsewhere the watch may be behind", "8", "other", true}}) {
    Kept t;
    auto picture = t.table.begin();
    t.table.put(object("a", "7", {}, c.ns), picture);
    t.table.drop(object("a", "9"));
    t.table.drop(kube::ObjectKey{"other", "a"});
    t.seen.clear();
    t.table.put(object("a", c.answer, {}, c.ns));
    EXPECT_EQ(t.seen.size(), c.comes ? 1u : 0u) << c.why;
  }
}

TEST(Table, AnAnswerThatAPictureHasOvertakenIsPassedOver) {
  for (std::string_view ns : {"", "ns"}) {
    Kept t;
    auto picture = t.table.begin();
    t.table.end(picture, "9", ns);
    t.table.put(object("a", "8"));
    EXPECT_THAT(t.all(), IsEmpty()) << "it was made and deleted before";
    t.table.put(object("b", "10"));
    EXPECT_THAT(t.all(), ElementsAre("b@10"));
  }
}

TEST(Table, APictureForgetsWhatIsNotInIt) {
  Kept t;
  auto first = t.table.begin();
  t.table.put(object("a", "1"), first);
  t.table.put(object("b", "2"), first);
  t.table.end(first, "5");
  t.seen.clear();

  auto second = t.table.begin();
  t.table.put(object("b", "2"), second);
  t.table.put(object("c", "6"), second);
  EXPECT_THAT(t.all(), ElementsAre("a@1", "b@2", "c@6")) << "until it is complete";
  t.table.put(object("d", "11"));  // the answer to a write, made after the picture was
  t.table.put(object("e", "9"));   // and before, but it is gone again
  t.table.end(second, "10");
  EXPECT_THAT(t.all(), ElementsAre("b@2", "c@6", "d@11"));
  EXPECT_THAT(t.seen, ElementsAre("c@6", "d@11", "e@9", "-a", "-e"));
}

TEST(Table, APictureThatBrokeOffForgetsNothing) {
  Kept t;
  auto first = t.table.begin();
  t.table.put(object("a", "1"), first);
  t.table.put(object("b", "2"), first);
  t.table.end(first, "5");
  auto broken = t.table.begin();
  t.table.put(object("a", "1"), broken);
  auto whole = t.table.begin();
  t.table.put(object("a", "1"), whole);
  t.table.put(object("b", "2"), whole);
  t.table.end(whole, "7");
  EXPECT_THAT(t.all(), ElementsAre("a@1", "b@2"));
}

TEST(Table, PicturesOfNamespacesDoNotTouchEachOther) {
  Kept t;
  auto one = t.table.begin();
  auto other = t.table.begin();
  t.table.put(object("a", "1", {}, "one"), one);
  t.table.put(object("b", "2", {}, "other"), other);
  t.table.end(one, "5", "one");
  t.table.end(other, "6", "other");
  EXPECT_THAT(t.all(), ElementsAre("a@1", "b@2"));
  t.table.end(t.table.begin(), "9", "one");
  EXPECT_THAT(t.all(), ElementsAre("b@2"));
  t.table.end(t.table.begin(), "9");
  EXPECT_THAT(t.all(), IsEmpty());
}

}  // namespace
}  // namespace cadre::engine
