#include "engine/world.h"

#include "base/format.h"
#include "base/function.h"

namespace cadre::engine {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const kube::Resource kLamps{.group = "test", .version = "v1", .plural = "lamps", .kind = "Lamp"};
const kube::Resource kSlow{.group = "test", .version = "v1", .plural = "slows", .kind = "Slow"};
const kube::Resource kNowhere{.group = "test", .version = "v1", .plural = "nones", .kind = "None"};

std::vector<std::string> everything(const json::Value&) { return {"all"}; }
const Index kAll{"all", everything};
json::Value specOf(const json::Value& object) { return object["spec"]; }
const View kSpec{"spec", specOf};

json::Value lamp(std::string_view name, std::string_view version, int bulbs) {
  return json::Object{
      {"metadata", json::Object{{"name", name}, {"namespace", "ns"}, {"resourceVersion", version}}},
      {"spec", json::Object{{"bulbs", bulbs}}}};
}

struct FakeSource final : Source {
  std::map<std::string, json::Value> lamps;  // by name
  Fact fact;

  State state(const Ref& ref) override { return state(ref.resource); }
  State state(const kube::Resource& resource) override {
    return resource == kLamps ? State::Known
                              : (resource == kSlow ? State::NotYet : State::NotServed);
  }
  std::optional<json::Value> find(const Ref& ref) override {
    auto found = lamps.find(ref.key.name);
    if (ref.resource != kLamps || found == lamps.end()) return std::nullopt;
    return found->second;
  }
  std::vector<kube::ObjectKey> keys(const kube::Resource& resource, const Index&,
                                    const std::string& value) override {
    std::vector<kube::ObjectKey> keys;
    if (resource == kLamps && value == "all")
      for (const auto& [name, object] : lamps) keys.push_back({"ns", name});
    return keys;
  }
  Fact observe(const Observation&) override { return fact; }
};

TEST(World, RecordsEveryLookAlsoMisses) {
  FakeSource source;
  source.lamps = {{"a", lamp("a", "5", 1)}, {"b", lamp("b", "6", 2)}};
  World world(source, {});
  EXPECT_EQ(world.get(kLamps, {"ns", "a"})["spec"]["bulbs"].integer(), 1);
  EXPECT_EQ(world.get(kLamps, {"ns", "b"}, kSpec)["bulbs"].integer(), 2);
  EXPECT_TRUE(world.get(kLamps, {"ns", "missing"}).isNull());
  EXPECT_EQ(world.list(kLamps, kAll, "all", kSpec).size(), 2u);
  EXPECT_THAT(world.list(kLamps, kAll, "nothing"), IsEmpty());
  EXPECT_TRUE(world.serves(kLamps));
  EXPECT_FALSE(world.serves(kNowhere));
  EXPECT_FALSE(world.observe({"tools", "http://x"}).known);

  std::vector<std::string> said;
  for (const Read& read : world.reads())
    said.push_back(format("{} {} {} {} {} {}", static_cast<int>(read.what), read.ref.key.name,
                          read.view.name, read.value, read.seen != 0, read.members.size()));
  EXPECT_THAT(said,
              ElementsAre("0 a whole  true 0", "0 b spec  true 0", "0 missing whole  false 0",
                          "1  spec all false 2", "1  whole nothing false 0", "2  whole  true 0",
                          "2  whole  false 0", R"(3  whole tools "http://x" true 0)"));
  EXPECT_TRUE(world.complete());
}

TEST(World, IsCompleteWhenAllOfItCouldBeAnswered) {
  struct Case {
    std::string_view what;
    Function<void(World&)> look;
    bool complete;
  };
  std::vector<Case> cases;
  cases.push_back({"nothing", [](World&) {}, true});
  cases.push_back({"known", [](World& w) { w.get(kLamps, {"ns", "a"}); }, true});
  cases.push_back({"not served", [](World& w) { w.get(kNowhere, {"ns", "a"}); }, true});
  cases.push_back({"not yet", [](World& w) { w.get(kSlow, {"ns", "a"}); }, false});
  cases.push_back({"a list of it", [](World& w) { w.list(kSlow, kAll, "all"); }, false});
  cases.push_back({"is it served", [](World& w) { w.serves(kSlow); }, false});
  cases.push_back({"before something known",
                   [](World& w) {
                     w.get(kSlow, {"ns", "a"});
                     w.get(kLamps, {"ns", "a"});
                   },
                   false});
  cases.push_back(
      {"a fact has its own way to say it", [](World& w) { w.observe({"tools", 1}); }, true});
  for (const Case& c : cases) {
    FakeSource source;
    World world(source, {});
    c.look(world);
    EXPECT_EQ(world.complete(), c.complete) << c.what;
  }
}

TEST(World, AHashChangesWithWhatTheViewShows) {
  json::Value before = lamp("a", "5", 1), relabelled = lamp("a", "6", 1), other = lamp("a", "7", 2);
  EXPECT_EQ(hashOf(kSpec, before), hashOf(kSpec, relabelled));
  EXPECT_NE(hashOf(kSpec, before), hashOf(kSpec, other));
  EXPECT_NE(hashOf(kWhole, before), hashOf(kWhole, relabelled));
  EXPECT_NE(hashOf(kSpec, json::Value()), 0u) << "0 is what does not exist";
}

TEST(World, FactsThatDifferAreSeenDifferently) {
  std::set<std::uint64_t> seen;
  std::vector<Fact> facts{{},
                          {.known = true, .value = 1},
                          {.known = true, .value = 2},
                          {.known = true, .value = 2, .error = "gone"},
                          {.error = "gone"}};
  for (const Fact& fact : facts) {
    FakeSource source;
    source.fact = fact;
    World world(source, {});
    world.observe({"tools", 1});
    seen.insert(world.reads()[0].seen);
  }
  EXPECT_EQ(seen.size(), facts.size());
}

TEST(World, WhatItShowsStaysAsLongAsItself) {
  FakeSource source;
  source.lamps = {{"a", lamp("a", "5", 1)}};
  World world(source, {});
  const json::Value& a = world.get(kLamps, {"ns", "a"});
  const Fact& fact = world.observe({"tools", 0});
  source.lamps.clear();
  for (int i = 0; i < 100; ++i) {
    world.get(kLamps, {"ns", format("{}", i)});
    world.observe({"tools", i});
  }
  EXPECT_EQ(kube::name(a), "a");
  EXPECT_FALSE(fact.known);
}

TEST(World, TheEarliestTimeCounts) {
  FakeSource source;
  World world(source, {});
  EXPECT_FALSE(world.dueTime());
  world.due(Time{} + 5min);
  world.due(Time{} + 2min);
  world.due(Time{} + 7min);
  EXPECT_EQ(world.dueTime(), Time{} + 2min);
}

}  // namespace
}  // namespace cadre::engine
