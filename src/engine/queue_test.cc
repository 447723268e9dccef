#include "engine/queue.h"

#include "base/format.h"

namespace cadre::engine {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Ref lamp(std::string_view name) {
  const kube::Resource lamps{.group = "test", .version = "v1", .plural = "lamps", .kind = "Lamp"};
  return {lamps, {"ns", std::string(name)}};
}

struct Queued {
  FakeScheduler scheduler;
  int told = 0;
  Queue queue{scheduler, [this] { ++told; }};

  // Everything that is ready, in its order; none of it is done.
  std::vector<std::string> take() {
    std::vector<std::string> names;
    while (auto ref = queue.take()) names.push_back(ref->key.name);
    return names;
  }
  std::vector<std::string> takeAndFinish() {
    std::vector<std::string> names = take();
    for (const std::string& name : names) queue.done(lamp(name));
    return names;
  }
};

TEST(Queue, EachWaitsOnce) {
  Queued q;
  for (int i = 0; i < 3; ++i) q.queue.add(lamp("a"));
  EXPECT_EQ(q.queue.depth(), 1u);
  EXPECT_EQ(q.told, 1);
  EXPECT_THAT(q.takeAndFinish(), ElementsAre("a"));
  EXPECT_THAT(q.take(), IsEmpty());
  EXPECT_EQ(q.queue.depth(), 0u);
}

TEST(Queue, WhatCameFirstGoesFirst) {
  Queued q;
  for (std::string_view name : {"c", "a", "b"}) {
    q.queue.add(lamp(name));
    q.scheduler.stall(1ms);
  }
  EXPECT_THAT(q.takeAndFinish(), ElementsAre("c", "a", "b"));
}

TEST(Queue, NeverTwoAtOnce) {
  Queued q;
  q.queue.add(lamp("a"));
  ASSERT_THAT(q.take(), ElementsAre("a"));
  q.queue.add(lamp("a"));
  q.queue.add(lamp("a"));
  EXPECT_THAT(q.take(), IsEmpty()) << "it is at work";
  q.queue.done(lamp("a"));
  EXPECT_THAT(q.takeAndFinish(), ElementsAre("a")) << "once more, however often it was added";
  EXPECT_THAT(q.take(), IsEmpty());
}

TEST(Queue, ATimerThatFiresAtWorkCounts) {
  Queued q;
  q.queue.add(lamp("a"));
  ASSERT_THAT(q.take(), ElementsAre("a"));
  q.queue.addAfter(lamp("a"), 1s);
  q.scheduler.advance(2s);
  EXPECT_THAT(q.take(), IsEmpty());
  q.queue.done(lamp("a"));
  EXPECT_THAT(q.takeAndFinish(), ElementsAre("a"));
}

TEST(Queue, TheEarliestOfSeveralTimesCounts) {
  struct Case {
    std::vector<Duration> delays;
    Duration expected;
  };
  for (const Case& c : {Case{{5s}, 5s}, Case{{5s, 2s}, 2s}, Case{{2s, 5s}, 2s}, Case{{3s, 3s}, 3s},
                        Case{{5s, 0s}, 0s}, Case{{5s, -1s}, 0s}}) {
    Queued q;
    for (Duration delay : c.delays) q.queue.addAfter(lamp("a"), delay);
    if (c.expected > 0s) {
      q.scheduler.advance(c.expected - 1ms);
      EXPECT_THAT(q.take(), IsEmpty());
      q.scheduler.advance(1ms);
    }
    EXPECT_THAT(q.takeAndFinish(), ElementsAre("a"));
    q.scheduler.advance(1h);
    EXPECT_THAT(q.take(), IsEmpty()) << "the later ones do not count any more";
  }
}

TEST(Queue, WhatIsAddedNowDoesNotWaitForItsTime) {
  Queued q;
  q.queue.addAfter(lamp("a"), 5s);
  q.queue.add(lamp("a"));
  EXPECT_THAT(q.takeAndFinish(), ElementsAre("a"));
  q.scheduler.advance(10s);
  EXPECT_THAT(q.take(), IsEmpty());
}

TEST(Queue, ATimeForWhatWaitsAlreadyIsPassedOver) {
  Queued q;
  q.queue.add(lamp("a"));
  q.queue.addAfter(lamp("a"), 5s);
  EXPECT_THAT(q.takeAndFinish(), ElementsAre("a"));
  q.scheduler.advance(10s);
  EXPECT_THAT(q.take(), IsEmpty());
}

TEST(Queue, FirstGoesBehindLiveButNotForEver) {
  Queued q;
  q.queue.add(lamp("first"), Queue::Rank::First);
  q.queue.add(lamp("live-1"));
  q.scheduler.stall(999ms);
  q.queue.add(lamp("live-2"));
  q.scheduler.stall(2ms);
  q.queue.add(lamp("live-3"));
  EXPECT_THAT(q.takeAndFinish(), ElementsAre("live-1", "live-2", "first", "live-3"));
}

TEST(Queue, AChangeMovesWhatIsFirstSeenForward) {
  Queued q;
  q.queue.add(lamp("a"), Queue::Rank::First);
  q.queue.add(lamp("b"), Queue::Rank::First);
  q.queue.add(lamp("b"));
  EXPECT_EQ(q.queue.depth(), 2u);
  EXPECT_THAT(q.takeAndFinish(), ElementsAre("b", "a"));
  // And at work: Live is not forgotten for a First that comes later.
  q.queue.add(lamp("b"));
  ASSERT_THAT(q.take(), ElementsAre("b"));
  q.queue.add(lamp("b"), Queue::Rank::Live);
  q.queue.add(lamp("b"), Queue::Rank::First);
  q.queue.add(lamp("a"), Queue::Rank::First);
  q.queue.done(lamp("b"));
  EXPECT_THAT(q.takeAndFinish(), ElementsAre("b", "a"));
}

TEST(Queue, WhatIsForgottenDoesNotCome) {
  Queued q;
  q.queue.add(lamp("waits"));
  q.queue.addAfter(lamp("later"), 1s);
  q.queue.add(lamp("at work"));
  q.scheduler.runReady();
  for (std::string_view name : {"waits", "later"}) q.queue.forget(lamp(name));
  ASSERT_THAT(q.take(), ElementsAre("at work"));
  q.queue.add(lamp("at work"));
  q.queue.forget(lamp("at work"));
  q.queue.done(lamp("at work"));
  q.scheduler.advance(2s);
  EXPECT_THAT(q.take(), IsEmpty());
  EXPECT_EQ(q.queue.depth(), 0u);
  EXPECT_EQ(q.scheduler.timers(), 0u);
}

}  // namespace
}  // namespace cadre::engine
