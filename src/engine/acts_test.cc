#include "engine/acts.h"

#include "base/format.h"
#include "json/parse.h"
#include "json/write.h"

namespace cadre::engine {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const kube::Resource kLamps{.group = "test", .version = "v1", .plural = "lamps", .kind = "Lamp"};
const Ref kDesk{kLamps, {"ns", "desk"}};

struct Stage {
  FakeScheduler scheduler;
  Random random{1};
  std::vector<std::string> log;
  std::vector<Function<void(Result<json::Value>)>> performing;
  std::vector<Function<void(Result<>)>> cancelling;
  int woken = 0;
  bool at_once = false;
  std::unique_ptr<Acts> acts;
  json::Value status = json::Array{};  // as written

  Stage() { restart(); }
  void restart() {
    std::vector<ActClass> classes;
    classes.push_back(
        {.name = "call",
         .perform =
             [this](const json::Value& intent, bool resumed, auto done) {
               log.push_back(format("{} {}", resumed ? "resume" : "begin", intent.string()));
               if (at_once) done(json::Value("at once"));
               performing.push_back(std::move(done));
               return Pending([this, name = intent.string()] { log.push_back("end " + name); });
             },
         .cancel =
             [this](const json::Value& intent, auto done) {
               log.push_back("cancel " + intent.string());
               cancelling.push_back(std::move(done));
               return Pending([] {});
             }});
    classes.push_back({.name = "wink", .perform = [](const json::Value&, bool, auto done) {
                         done(json::Value("seen"));
                         return Pending();
                       }});
    acts.reset();
    log.clear();
    acts = std::make_unique<Acts>(scheduler, random, std::move(classes),
                                  [this](const Ref&) { ++woken; });
  }
  // As the engine does: first the status, then the rest. Returns whether it had to be written.
  bool run(const std::vector<Act>& wanted) {
    json::Value next = acts->wanted(kDesk, status, wanted);
    if (next == status) {
      acts->begin(kDesk, wanted);
      return false;
    }
    std::vector<std::string> fresh;
    for (const json::Value& act : next.array()) {
      bool known = false;
      for (const json::Value& before : status.array()) known |= before["id"] == act["id"];
      if (!known) fresh.push_back(act["id"].string());
    }
    status = next;
    acts->wrote(kDesk, fresh);
    return true;
  }
};

TEST(Acts, BeginWhenTheirIntentIsWritten) {
  Stage s;
  Act call{"1", "call", "ann"};
  EXPECT_TRUE(s.run({call}));
  EXPECT_THAT(s.log, IsEmpty()) << "not before";
  EXPECT_EQ(json::write(s.status), R"([{"id":"1","intent":"ann","what":"call"}])");
  EXPECT_FALSE(s.run({call}));
  EXPECT_FALSE(s.run({call}));
  EXPECT_THAT(s.log, ElementsAre("begin ann")) << "once";
  EXPECT_FALSE(s.acts->outcome(kDesk, "1").known);

  s.performing[0](json::Value("fine"));
  EXPECT_EQ(s.woken, 1);
  Fact fact = s.acts->outcome(kDesk, "1");
  EXPECT_TRUE(fact.known);
  EXPECT_EQ(fact.value.string(), "fine");
  EXPECT_FALSE(s.run({call})) << "it is not done again";
  EXPECT_THAT(s.log, ElementsAre("begin ann"));

  EXPECT_TRUE(s.run({})) << "the plan has written what came of it, and is done";
  EXPECT_EQ(json::write(s.status), "[]");
  EXPECT_FALSE(s.run({}));
  EXPECT_THAT(s.log, ElementsAre("begin ann", "end ann")) << "nothing is cancelled";
  EXPECT_FALSE(s.acts->outcome(kDesk, "1").known);
}

TEST(Acts, WhoComesAfterACrashGoesOnWithThem) {
  Stage s;
  Act call{"1", "call", "ann"};
  s.run({call});
  s.run({call});
  s.restart();
  EXPECT_FALSE(s.run({call}));
  EXPECT_THAT(s.log, ElementsAre("resume ann"));
  // Also when this program writes the status for another reason first.
  s.restart();
  Act other{"2", "call", "bob"};
  EXPECT_TRUE(s.run({call, other}));
  EXPECT_FALSE(s.run({call, other}));
  EXPECT_THAT(s.log, ElementsAre("resume ann", "begin bob"));
  s.performing.at(2)(json::Value("fine"));
  EXPECT_TRUE(s.run({other}));
  EXPECT_THAT(s.log, ElementsAre("resume ann", "begin bob")) << "what was resumed is over as well";
}

TEST(Acts, WhatIsNoLongerWantedIsCancelledBeforeItIsForgotten) {
  Stage s;
  Act call{"1", "call", "ann"};
  s.run({call});
  s.run({call});
  EXPECT_FALSE(s.run({}));
  EXPECT_THAT(s.log, ElementsAre("begin ann", "end ann", "cancel ann"));
  EXPECT_EQ(s.status.array().size(), 1u) << "until that is done";
  s.cancelling[0](Error{.code = Code::Unavailable, .message = "later"});
  EXPECT_FALSE(s.run({}));
  s.scheduler.advance(2s);
  EXPECT_THAT(s.log, ElementsAre("begin ann", "end ann", "cancel ann", "cancel ann"));
  int woken = s.woken;
  s.cancelling[1]({});
  EXPECT_EQ(s.woken, woken + 1);
  EXPECT_TRUE(s.run({}));
  EXPECT_EQ(json::write(s.status), "[]");
}

TEST(Acts, WhatIsNoLongerWantedIsCancelledAlsoAfterACrash) {
  Stage s;
  Act call{"1", "call", "ann"};
  s.run({call});
  s.restart();
  EXPECT_FALSE(s.run({}));
  EXPECT_THAT(s.log, ElementsAre("cancel ann"));
  s.cancelling[0]({});
  EXPECT_TRUE(s.run({}));
}

TEST(Acts, WhenTheObjectIsGoneTheyAreCancelled) {
  Stage s;
  Act call{"1", "call", "ann"};
  s.run({call});
  s.run({call});
  s.acts->forget(kDesk);
  EXPECT_THAT(s.log, ElementsAre("begin ann", "end ann", "cancel ann"));
  s.cancelling[0](Error{.code = Code::Unavailable, .message = "later"});
  s.scheduler.advance(2s);
  EXPECT_EQ(s.cancelling.size(), 2u) << "until it has worked";
  int woken = s.woken;
  s.cancelling[1]({});
  EXPECT_EQ(s.woken, woken) << "there is nobody to wake";
}

TEST(Acts, WhoNoLongerLeadsGivesThemUpUncancelled) {
  Stage s;
  Act call{"1", "call", "ann"};
  s.run({call});
  s.run({call});
  s.acts->giveUp();
  EXPECT_THAT(s.log, ElementsAre("begin ann", "end ann"));
  s.performing[0](json::Value("too late"));
  EXPECT_EQ(s.woken, 0);
  s.run({call});
  EXPECT_THAT(s.log, ElementsAre("begin ann", "end ann", "resume ann")) << "if it leads again";
}

TEST(Acts, AnOutcomeMayComeAtOnceOrBeAFailure) {
  Stage s;
  s.run({{"1", "wink", "x"}, {"2", "call", "ann"}, {"3", "sing", "y"}});
  s.at_once = true;
  s.run({{"1", "wink", "x"}, {"2", "call", "ann"}, {"3", "sing", "y"}});
  EXPECT_EQ(s.acts->outcome(kDesk, "1").value.string(), "seen");
  EXPECT_EQ(s.acts->outcome(kDesk, "2").value.string(), "at once");
  EXPECT_EQ(s.acts->outcome(kDesk, "3").error, "nobody does \"sing\"");
  EXPECT_EQ(s.woken, 3);
}

}  // namespace
}  // namespace cadre::engine
