#include "engine/election.h"

#include "base/format.h"
#include "json/parse.h"
#include "json/write.h"
#include "kube/testing/fake_transport.h"

namespace cadre::engine {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// An election against an API server that keeps one lease, and fails as the test wants it to.
struct Elected : kube::FakeApi {
  Random random{1};
  Metrics metrics;
  std::vector<bool> told;
  std::vector<std::string> said;  // requests, as "PUT me" with the holder that was written
  json::Value lease;              // null: there is none
  int version = 10;
  std::size_t seen = 0;
  std::unique_ptr<Election> election;

  explicit Elected(json::Value lease = {}) : lease(std::move(lease)) {
    election = std::make_unique<Election>(
        *client, random,
        ElectionOptions{.lease = {"ns", "cadre"}, .identity = "me", .metrics = &metrics},
        [this](bool leads) { told.push_back(leads); });
  }
  static json::Value heldBy(std::string_view holder) {
    return json::Object{
        {"metadata",
         json::Object{{"name", "cadre"}, {"namespace", "ns"}, {"resourceVersion", "5"}}},
        {"spec", json::Object{{"holderIdentity", holder}, {"leaseTransitions", 3}}}};
  }
  void writtenBy(std::string_view holder) {
    lease.make("spec").make("holderIdentity") = holder;
    lease.make("spec").make("renewTime") = format("{}", version);
    lease.make("metadata").make("resourceVersion") = format("{}", ++version);
  }
  void serve(kube::FakeTransport::Sent& sent) {
    const std::string& method = sent.request.method;
    auto refuse = [&](int code, std::string_view reason) {
      sent.answer(code, format(R"({{"kind":"Status","status":"Failure","reason":"{}","code":{}}})",
                               reason, code));
    };
    if (method == "GET") {
      said.push_back("GET");
      if (lease.isNull()) return refuse(404, "NotFound");
      return sent.answer(200, json::write(lease));
    }
    json::Value wanted = *json::parse(sent.request.body);
    said.push_back(format("{} {}", method, wanted["spec"]["holderIdentity"].string()));
    if (method == "POST" && !lease.isNull()) return refuse(409, "AlreadyExists");
    if (method == "PUT" && lease.isNull()) return refuse(404, "NotFound");
    if (method == "PUT" && kube::resourceVersion(wanted) != kube::resourceVersion(lease))
      return refuse(409, "Conflict");
    lease = wanted;
    lease.make("metadata").make("resourceVersion") = format("{}", ++version);
    sent.answer(200, json::write(lease));
  }
  // Lets time pass; requests are answered at once, or not at all.
  void advance(Duration by, bool answers = true) {
    Instant end = scheduler.clock().instant() + by;
    do {
      scheduler.runReady();
      for (; answers && seen < requests->sent.size(); ++seen) serve(*requests->sent[seen]);
      Duration left = end - scheduler.clock().instant();
      scheduler.advance(std::min<Duration>(left, 100ms));
    } while (scheduler.clock().instant() < end);
    scheduler.runReady();
    if (!answers) seen = requests->sent.size();
  }
  double shown() {
    return metrics.gauge("leader_election_master_status", "", {{"name", "cadre"}}).value();
  }
};

TEST(Election, TakesALeaseThatIsFree) {
  struct Case {
    std::string_view what;
    json::Value lease;
    std::vector<std::string> said;
    int transitions;
  };
  for (const Case& c :
       std::vector<Case>{{"there is none", {}, {"GET", "POST me"}, 1},
                         {"it was released", Elected::heldBy(""), {"GET", "PUT me"}, 4},
                         {"it is ours from before", Elected::heldBy("me"), {"GET", "PUT me"}, 3}}) {
    Elected e(c.lease);
    EXPECT_EQ(e.shown(), 0);
    e.advance(1s);
    EXPECT_EQ(e.said, c.said) << c.what;
    EXPECT_THAT(e.told, ElementsAre(true)) << c.what;
    EXPECT_TRUE(e.election->holds());
    EXPECT_EQ(e.shown(), 1);
    EXPECT_EQ(e.lease["spec"]["leaseTransitions"].integer(), c.transitions) << c.what;
    EXPECT_EQ(e.lease["spec"]["leaseDurationSeconds"].integer(), 15);
  }
}

TEST(Election, WaitsByTheTimeThatItHasSeenPass) {
  Elected e(Elected::heldBy("other"));
  // A date from long ago says nothing: clocks differ.
  e.lease.make("spec").make("renewTime") = "2001-01-01T00:00:00.000000Z";
  e.advance(14s);
  EXPECT_THAT(e.told, IsEmpty());
  e.writtenBy("other");
  e.advance(14s);
  EXPECT_THAT(e.told, IsEmpty()) << "it was renewed";
  e.advance(5s);
  EXPECT_THAT(e.told, ElementsAre(true));
  EXPECT_EQ(e.lease["spec"]["holderIdentity"].string(), "me");
}

TEST(Election, OfTwoWhoTakeItOneGetsIt) {
  Elected e(Elected::heldBy(""));
  e.scheduler.runReady();
  e.serve(*e.requests->sent[e.seen++]);  // it looks free
  e.writtenBy("other");
  e.advance(10s);
  EXPECT_THAT(e.told, IsEmpty());
  EXPECT_EQ(e.lease["spec"]["holderIdentity"].string(), "other");
  Elected created;
  created.scheduler.runReady();
  created.serve(*created.requests->sent[created.seen++]);
  created.lease = Elected::heldBy("other");
  created.advance(10s);
  EXPECT_THAT(created.told, IsEmpty());
}

TEST(Election, RenewsWithoutLooking) {
  Elected e;
  e.advance(1s);
  e.said.clear();
  e.advance(20s);
  EXPECT_EQ(e.said, std::vector<std::string>(10, "PUT me"));
  EXPECT_TRUE(e.election->holds());
  EXPECT_EQ(e.told.size(), 1u);
  EXPECT_EQ(e.election->trouble(), "");
}

// Whoever was told so has stopped for good.
TEST(Election, OnceItDoesNotHoldItNeverDoesAgain) {
  Elected e;
  e.advance(1s);
  e.advance(7s, /*answers=*/false);
  e.serve(*e.requests->sent.back());  // the second attempt looks first
  e.scheduler.runReady();
  e.scheduler.stall(4s);
  EXPECT_FALSE(e.election->holds());
  e.serve(*e.requests->sent.back());  // it goes well, before the timer of the deadline runs
  EXPECT_EQ(e.said.back(), "PUT me");
  EXPECT_FALSE(e.election->holds());
  EXPECT_THAT(e.told, ElementsAre(true, false));
}

TEST(Election, LosesItToAnother) {
  Elected e;
  e.advance(1s);
  e.writtenBy("other");
  e.advance(5s);
  EXPECT_THAT(e.told, ElementsAre(true, false));
  EXPECT_FALSE(e.election->holds());
  EXPECT_EQ(e.shown(), 0);
  EXPECT_EQ(e.election->trouble(), "the lease is lost");
  std::size_t requests = e.requests->sent.size();
  e.writtenBy("");
  e.advance(1min);
  EXPECT_EQ(e.requests->sent.size(), requests) << "who has lost it ends";
}

TEST(Election, AForeignHandThatLeavesTheHolderIsNoOtherLeader) {
  Elected e;
  e.advance(1s);
  e.writtenBy("me");  // somebody labelled it
  e.advance(20s);
  EXPECT_THAT(e.told, ElementsAre(true));
  EXPECT_TRUE(e.election->holds());
}

TEST(Election, ALeaseThatIsDeletedIsMadeAnew) {
  Elected e;
  e.advance(1s);
  e.lease = {};
  e.advance(20s);
  EXPECT_THAT(e.told, ElementsAre(true));
  EXPECT_TRUE(e.election->holds());
  EXPECT_EQ(e.lease["spec"]["holderIdentity"].string(), "me");
}

TEST(Election, LosesItWhenItCannotBeRenewedInTime) {
  Elected e;
  e.advance(1s);
  // The renewal at 2 s never comes back, nor does what follows.
  e.advance(8900ms, /*answers=*/false);
  EXPECT_TRUE(e.election->holds());
  EXPECT_THAT(e.told, ElementsAre(true));
  e.advance(300ms, /*answers=*/false);
  EXPECT_FALSE(e.election->holds());
  EXPECT_THAT(e.told, ElementsAre(true, false)) << "at the deadline, not when the request ends";
}

TEST(Election, ARequestThatHangsIsFollowedByAnother) {
  Elected e;
  e.advance(1s);
  e.advance(2s, /*answers=*/false);
  EXPECT_EQ(e.said.back(), "POST me");
  e.advance(20s);
  EXPECT_THAT(e.told, ElementsAre(true));
  EXPECT_TRUE(e.election->holds());

  Elected first;
  first.advance(1s, /*answers=*/false);
  first.advance(6s);
  EXPECT_THAT(first.told, ElementsAre(true)) << "also before it leads";
}

TEST(Election, AServerThatFailsForAWhileIsNoLoss) {
  Elected e;
  e.advance(1s);
  e.scheduler.advance(1100ms);
  e.requests->sent[e.seen++]->answer(500, R"({"kind":"Status","code":500,"message":"no leader"})");
  e.advance(20s);
  EXPECT_THAT(e.told, ElementsAre(true));
  EXPECT_TRUE(e.election->holds());
}

TEST(Election, AProcessThatWasStoppedKnowsBeforeAnyTimerRuns) {
  Elected e;
  e.advance(1s);
  e.scheduler.stall(8s);
  EXPECT_TRUE(e.election->holds());
  e.scheduler.stall(3s);
  EXPECT_FALSE(e.election->holds());
  EXPECT_THAT(e.election->trouble(), HasSubstr("the lease was last renewed 12s ago"));
}

TEST(Election, AReleasedLeaseIsFreeAtOnce) {
  Elected e;
  e.advance(1s);
  bool done = false;
  e.election->release([&] { done = true; });
  EXPECT_FALSE(e.election->holds());
  e.advance(1s);
  EXPECT_TRUE(done);
  EXPECT_EQ(e.lease["spec"]["holderIdentity"].string(), "");
  EXPECT_EQ(e.lease["spec"]["leaseDurationSeconds"].integer(), 1);
  EXPECT_EQ(e.shown(), 0);
  EXPECT_EQ(e.election->trouble(), "");
  EXPECT_THAT(e.told, ElementsAre(true)) << "who gives it up knows it";
}

TEST(Election, ARenewalUnderWayDoesNotSpoilTheRelease) {
  Elected e;
  e.advance(1s);
  e.scheduler.advance(1100ms);
  bool done = false;
  auto renewal = e.requests->sent[e.seen];
  e.election->release([&] { done = true; });
  ASSERT_TRUE(renewal->dropped);
  e.advance(1s);  // the server took the renewal all the same
  EXPECT_TRUE(done);
  EXPECT_EQ(e.lease["spec"]["holderIdentity"].string(), "");
}

TEST(Election, WhoDoesNotLeadHasNothingToRelease) {
  Elected e(Elected::heldBy("other"));
  e.advance(1s);
  bool done = false;
  e.election->release([&] { done = true; });
  e.advance(1s);
  EXPECT_TRUE(done);
  EXPECT_EQ(e.lease["spec"]["holderIdentity"].string(), "other");
}

}  // namespace
}  // namespace cadre::engine
