#include "engine/slots.h"

#include <random>

#include "base/format.h"

namespace cadre::engine {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const kube::Resource kLamps{.group = "test", .version = "v1", .plural = "lamps", .kind = "Lamp"};
Ref lamp(std::string name) { return {kLamps, {"ns", std::move(name)}}; }

TEST(Slots, SoManyAtATimeAndWhoAskedFirstComesFirst) {
  Slots slots;
  const Turn turn{"builds", 2};
  for (auto [name, admitted] : {std::pair{"a", true}, {"b", true}, {"c", false}, {"d", false}}) {
    EXPECT_EQ(slots.admits(lamp(name), turn), admitted) << name;
    EXPECT_THAT(slots.ask(lamp(name), {turn}), IsEmpty());
  }
  EXPECT_TRUE(slots.admits(lamp("a"), turn)) << "who has it keeps it";
  EXPECT_THAT(slots.ask(lamp("a"), {}), ElementsAre(lamp("c")));
  EXPECT_FALSE(slots.admits(lamp("d"), turn));
  EXPECT_FALSE(slots.admits(lamp("new"), turn)) << "not before those who wait";
  EXPECT_TRUE(slots.admits(lamp("c"), turn));
  EXPECT_THAT(slots.ask(lamp("c"), {}), ElementsAre(lamp("d"))) << "who waited may have gone";
  EXPECT_THAT(slots.ask(lamp("d"), {turn}), IsEmpty());
  EXPECT_THAT(slots.ready(), IsEmpty());
}

TEST(Slots, PoolsAreApart) {
  Slots slots;
  slots.ask(lamp("a"), {{"x", 1}, {"y", 1}});
  EXPECT_FALSE(slots.admits(lamp("b"), {"x", 1}));
  EXPECT_TRUE(slots.admits(lamp("b"), {"z", 1}));
  slots.ask(lamp("b"), {{"x", 1}, {"y", 1}});
  EXPECT_THAT(slots.ask(lamp("a"), {{"x", 1}}), ElementsAre(lamp("b"))) << "y is free";
  EXPECT_TRUE(slots.admits(lamp("b"), {"y", 1}));
  EXPECT_FALSE(slots.admits(lamp("b"), {"x", 1}));
}

TEST(Slots, WhoHasBegunKeepsItsTurnWhateverTheLimit) {
  Slots slots;
  slots.ask(lamp("a"), {{"x", 1}});
  EXPECT_TRUE(slots.admits(lamp("b"), {"x", 1, true}));
  slots.ask(lamp("b"), {{"x", 1, true}});
  slots.ask(lamp("c"), {{"x", 1}});
  EXPECT_THAT(slots.ask(lamp("a"), {}), IsEmpty()) << "b has it";
  EXPECT_THAT(slots.ask(lamp("b"), {}), ElementsAre(lamp("c")));
}

TEST(Slots, ALimitMayChange) {
  Slots slots;
  slots.ask(lamp("a"), {{"x", 1}});
  slots.ask(lamp("b"), {{"x", 1}});
  slots.ask(lamp("c"), {{"x", 1}});
  EXPECT_THAT(slots.ask(lamp("a"), {{"x", 3}}), ElementsAre(lamp("b"), lamp("c")));
  EXPECT_FALSE(slots.admits(lamp("d"), {"y", 0})) << "none at all";
}

TEST(Slots, UntilItOpensOnlyThoseWhoHaveBegun) {
  Slots slots;
  slots.open(false);
  slots.ask(lamp("a"), {{"x", 1}});
  slots.ask(lamp("b"), {{"x", 1, true}});
  EXPECT_FALSE(slots.admits(lamp("a"), {"x", 1}));
  EXPECT_TRUE(slots.admits(lamp("b"), {"x", 1})) << "it has it";
  slots.open(true);
  EXPECT_THAT(slots.ready(), IsEmpty());
  EXPECT_THAT(slots.ask(lamp("b"), {}), ElementsAre(lamp("a")));
}

// Whatever happens, no more than the limit have their turn, and when nobody asks any more nothing
// is left.
TEST(Slots, HoldsUnderAnyOrder) {
  for (std::uint32_t seed = 1; seed <= 200; ++seed) {
    std::mt19937 random(seed);
    Slots slots;
    std::set<Ref> holding, asking;
    auto run = [&](const Ref& who, bool asks) {
      std::vector<Turn> turns;
      holding.erase(who);
      asking.erase(who);
      if (asks) {
        turns.push_back({"x", 3});
        asking.insert(who);
        if (slots.admits(who, turns[0])) holding.insert(who);
      }
      return slots.ask(who, turns);
    };
    for (int step = 0; step < 300; ++step) {
      std::vector<Ref> woken = run(lamp(format("{}", random() % 10)), random() % 3 > 0);
      while (!woken.empty()) {  // as the engine does
        Ref next = woken.back();
        woken.pop_back();
        if (asking.contains(next)) run(next, true);
      }
      ASSERT_LE(holding.size(), 3u) << "seed " << seed;
      ASSERT_EQ(holding.size(), std::min<std::size_t>(3, asking.size())) << "seed " << seed;
    }
    for (int i = 0; i < 10; ++i) run(lamp(format("{}", i)), false);
    EXPECT_THAT(slots.ready(), IsEmpty());
  }
}

}  // namespace
}  // namespace cadre::engine
