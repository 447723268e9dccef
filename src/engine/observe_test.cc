#include "engine/observe.h"

#include "base/format.h"
#include "json/parse.h"
#include "kube/testing/fake_transport.h"

namespace cadre::engine {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct Observed {
  struct Look {
    std::string input;
    Function<void(Result<json::Value>)> done;
    bool dropped = false;
  };
  FakeScheduler scheduler;
  Random random{1};
  std::vector<std::shared_ptr<Look>> looks;
  std::vector<std::string> changed;
  std::unique_ptr<Observer> observer;

  explicit Observed(std::size_t limit = 8) {
    std::vector<ObservationClass> classes;
    for (const char* name : {"tools", "other"})
      classes.push_back({.name = name,
                         .refresh = 10min,
                         .timeout = 10s,
                         .limit = limit,
                         .backoff = {.first = 5s, .limit = 20s, .factor = 2, .jitter = 0},
                         .look = [this](const json::Value& input, auto done) {
                           auto look =
                               std::make_shared<Look>(Look{input.string(), std::move(done)});
                           looks.push_back(look);
                           return Pending([look] { look->dropped = true; });
                         }});
    observer =
        std::make_unique<Observer>(scheduler, random, std::move(classes),
                                   [this](const std::string& key) { changed.push_back(key); });
  }
  Fact ask(std::string_view input, std::string_view what = "tools") {
    Fact fact = observer->ask({std::string(what), input});
    scheduler.runReady();
    return fact;
  }
  void answer(std::size_t index, Result<json::Value> result) {
    ASSERT_LT(index, looks.size());
    ASSERT_FALSE(looks[index]->dropped);
    looks[index]->done(std::move(result));
    scheduler.runReady();
  }
  // When the next look begins, from now on.
  Duration untilNext() {
    Instant begin = scheduler.clock().instant();
    std::size_t before = looks.size();
    while (looks.size() == before)
      if (!scheduler.runNext()) return -1s;
    return scheduler.clock().instant() - begin;
  }
};

const Error kLost{.code = Code::Unavailable, .message = "lost"};

TEST(Observer, LooksOnceForAllWhoAsk) {
  Observed o;
  EXPECT_FALSE(o.ask("x").known);
  EXPECT_FALSE(o.ask("x").known);
  EXPECT_EQ(o.looks.size(), 1u);
  EXPECT_THAT(o.changed, IsEmpty());
  o.answer(0, json::Value("here"));
  EXPECT_THAT(o.changed, ElementsAre(R"(tools "x")"));
  Fact fact = o.ask("x");
  EXPECT_TRUE(fact.known);
  EXPECT_EQ(fact.value.string(), "here");
  EXPECT_EQ(fact.since, o.scheduler.clock().now());
}

TEST(Observer, NobodyLooksAtAnUnknownClass) {
  Observed o;
  EXPECT_THAT(o.ask("x", "nonsense").error, HasSubstr("nobody can look at nonsense"));
  EXPECT_THAT(o.ask("x", "nonsense").error, HasSubstr("nobody can look at nonsense"));
  o.observer->forget(R"(nonsense "x")");
}

TEST(Observer, LooksAgainAndTellsOnlyWhatIsNew) {
  Observed o;
  o.ask("x");
  o.answer(0, json::Value(1));
  Time first = o.scheduler.clock().now();
  EXPECT_EQ(o.untilNext(), 10min);
  o.answer(1, json::Value(1));
  EXPECT_EQ(o.changed.size(), 1u);
  EXPECT_EQ(o.ask("x").since, first) << "the same value is as old as before";
  EXPECT_EQ(o.untilNext(), 10min);
  o.answer(2, json::Value(2));
  EXPECT_EQ(o.changed.size(), 2u);
  EXPECT_EQ(o.ask("x").since, first + 20min);
}

TEST(Observer, FailuresWaitLongerAndLonger) {
  Observed o;
  o.ask("x");
  Time begin = o.scheduler.clock().now();
  std::size_t look = 0;
  for (Duration expected : {5s, 10s, 20s, 20s}) {
    o.answer(look++, kLost);
    EXPECT_EQ(o.untilNext(), expected);
  }
  Fact fact = o.ask("x");
  EXPECT_FALSE(fact.known);
  EXPECT_EQ(fact.error, "lost");
  EXPECT_EQ(fact.since, begin);
  EXPECT_EQ(o.changed.size(), 1u) << "the same failure is told once";
  o.answer(look++, json::Value(1));
  EXPECT_EQ(o.untilNext(), 10min);
  o.answer(look, kLost);
  EXPECT_EQ(o.untilNext(), 5s) << "a good look starts the backoff again";
}

TEST(Observer, TheLastGoodValueStays) {
  Observed o;
  o.ask("x");
  o.answer(0, json::Value("here"));
  Time since = o.ask("x").since;
  o.untilNext();
  o.answer(1, kLost);
  Fact fact = o.ask("x");
  EXPECT_TRUE(fact.known);
  EXPECT_EQ(fact.value.string(), "here");
  EXPECT_EQ(fact.error, "lost");
  EXPECT_EQ(fact.since, since);
  EXPECT_EQ(o.changed.size(), 2u);
  o.untilNext();
  o.answer(2, json::Value("here"));
  EXPECT_EQ(o.ask("x").error, "");
  EXPECT_EQ(o.changed.size(), 3u);
}

TEST(Observer, ALookThatHangsIsGivenUp) {
  Observed o;
  o.ask("x");
  o.scheduler.advance(11s);
  EXPECT_TRUE(o.looks[0]->dropped);
  EXPECT_THAT(o.ask("x").error, HasSubstr("no answer within 10s"));
}

TEST(Observer, NoMoreAtATimeThanTheClassAllows) {
  Observed o(2);
  for (std::string_view input : {"a", "b", "c", "d"}) o.ask(input);
  EXPECT_EQ(o.looks.size(), 2u);
  o.ask("a", "other");
  EXPECT_EQ(o.looks.size(), 3u) << "classes do not wait for each other";
  o.answer(0, json::Value(1));
  ASSERT_EQ(o.looks.size(), 4u);
  EXPECT_EQ(o.looks[3]->input, "c");
  o.observer->forget(R"(tools "b")");  // under way: its place is free
  o.scheduler.runReady();
  EXPECT_TRUE(o.looks[1]->dropped);
  ASSERT_EQ(o.looks.size(), 5u);
  EXPECT_EQ(o.looks[4]->input, "d");
}

TEST(Observer, WhatNobodyReadsIsNotLookedAt) {
  struct Case {
    std::string_view when;
    Function<void(Observed&)> reach;
  };
  std::vector<Case> cases;
  cases.push_back({"before it began", [](Observed& o) { o.observer->ask({"tools", "x"}); }});
  cases.push_back({"while it looks", [](Observed& o) { o.ask("x"); }});
  cases.push_back({"between two looks", [](Observed& o) {
                     o.ask("x");
                     o.answer(0, json::Value(1));
                   }});
  cases.push_back({"while it waits for a place", [](Observed& o) {
                     o.ask("first");
                     o.ask("x");
                     o.observer->forget(R"(tools "first")");
                   }});
  for (const Case& c : cases) {
    Observed o(1);
    c.reach(o);
    o.observer->forget(R"(tools "x")");
    o.scheduler.runReady();
    std::size_t looks = o.looks.size();
    o.scheduler.advance(1h);
    EXPECT_EQ(o.looks.size(), looks) << c.when;
    EXPECT_EQ(o.scheduler.timers(), 0u) << c.when;
    o.ask("x");
    EXPECT_EQ(o.looks.size(), looks + 1) << c.when << ": asked again, it looks again";
  }
}

TEST(Observer, AnAnswerAtOnceIsAnAnswer) {
  FakeScheduler scheduler;
  Random random{1};
  std::vector<ObservationClass> classes;
  int looks = 0;
  classes.push_back({.name = "tools", .look = [&](const json::Value& input, auto done) {
                       ++looks;
                       done(input);
                       return Pending();
                     }});
  int changed = 0;
  Observer observer(scheduler, random, std::move(classes), [&](const std::string&) { ++changed; });
  observer.ask({"tools", "x"});
  scheduler.runReady();
  EXPECT_EQ(observer.ask({"tools", "x"}).value.string(), "x");
  scheduler.advance(10min);
  EXPECT_EQ(looks, 2);
  EXPECT_EQ(changed, 1);
}

TEST(Observer, NoMoreAtAHostThanItsShare) {
  FakeScheduler scheduler;
  Random random{1};
  std::vector<ObservationClass> classes;
  std::vector<std::string> looks;
  std::vector<Function<void(Result<json::Value>)>> answers;
  classes.push_back({.name = "tools",
                     .limit = 3,
                     .host = [](const json::Value& input) { return input.string().substr(0, 1); },
                     .per_host = 2,
                     .look =
                         [&](const json::Value& input, auto done) {
                           looks.push_back(input.string());
                           answers.push_back(std::move(done));
                           return Pending([] {});
                         }});
  Observer observer(scheduler, random, std::move(classes), [](const std::string&) {});
  for (std::string_view input : {"a1", "a2", "a3", "b1", "b2"})
    observer.ask({"tools", json::Value(input)});
  scheduler.runReady();
  EXPECT_THAT(looks, testing::ElementsAre("a1", "a2", "b1")) << "a3 does not hold up b1";
  answers[2](json::Value(1));
  scheduler.runReady();
  EXPECT_THAT(looks, testing::ElementsAre("a1", "a2", "b1", "b2"));
  answers[0](json::Value(1));
  scheduler.runReady();
  EXPECT_THAT(looks, testing::ElementsAre("a1", "a2", "b1", "b2", "a3"));
}

TEST(Observer, AConsistentListAsksTheServer) {
  kube::FakeApi api;
  ObservationClass list = consistentList(*api.client);
  Result<json::Value> answer = json::Value();
  Pending pending = list.look(
      *json::parse(R"({"version":"v1","plural":"configmaps","kind":"ConfigMap","namespace":"ns",
                       "labels":"a=b"})"),
      [&](Result<json::Value> result) { answer = std::move(result); });
  api.scheduler.runReady();
  ASSERT_EQ(api.requests->sent.size(), 1u);
  const std::string& target = api.requests->sent[0]->request.target;
  EXPECT_THAT(target, testing::StartsWith("/api/v1/namespaces/ns/configmaps?"));
  EXPECT_THAT(target, testing::HasSubstr("labelSelector=a%3Db"));
  EXPECT_THAT(target, testing::Not(testing::HasSubstr("resourceVersion="))) << "the newest";
  api.requests->sent[0]->answer(200, R"({"kind":"ConfigMapList","apiVersion":"v1",
      "metadata":{"resourceVersion":"5"},"items":[{"metadata":{"name":"one"}}]})",
                                {{"Content-Type", "application/json"}});
  api.scheduler.runReady();
  ASSERT_TRUE(answer) << answer.error().text();
  ASSERT_EQ(answer->array().size(), 1u);
  EXPECT_EQ(kube::name(answer->at(0)), "one");
  Pending refused = list.look(*json::parse(R"({"version":"v1","plural":"secrets"})"),
                              [&](Result<json::Value> result) { answer = std::move(result); });
  EXPECT_FALSE(answer);
}

}  // namespace
}  // namespace cadre::engine
