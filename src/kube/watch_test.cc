// The watcher under a virtual clock, against a transport whose answers are written here.
#include "kube/watch.h"

#include <filesystem>
#include <fstream>

#include <unistd.h>

#include "base/format.h"
#include "base/strings.h"
#include "kube/testing/fake_transport.h"

namespace cadre::kube {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

const Resource kConfigMaps{.version = "v1", .plural = "configmaps", .kind = "ConfigMap"};

std::string object(std::string_view name, int version, std::string_view uid = "u") {
  return format(
      R"({{"kind":"ConfigMap","metadata":{{"name":"{}","namespace":"ns","uid":"{}-{}","resourceVersion":"{}"}}}})",
      name, uid, name, version);
}
std::string event(std::string_view type, const std::string& object) {
  return format(R"({{"type":"{}","object":{}}})", type, object) + "\n";
}
std::string bookmark(int version, bool end_of_list) {
  return event("BOOKMARK",
               format(R"({{"kind":"ConfigMap","metadata":{{"resourceVersion":"{}"{}}}}})", version,
                      end_of_list ? R"(,"annotations":{"k8s.io/initial-events-end":"true"})" : ""));
}
std::string gone() {
  return R"({"kind":"Status","apiVersion":"v1","status":"Failure","message":"too old resource version","reason":"Expired","code":410})";
}

struct Watched : FakeApi {
  Random random{1};
  std::unique_ptr<Mirror> mirror;
  std::vector<std::string> seen;

  explicit Watched(WatcherOptions options = {}) {
    options.resource = kConfigMaps;
    options.backoff.jitter = 0;
    mirror =
        std::make_unique<Mirror>(*client, options, random, [this](const Mirror::Change& change) {
          std::string_view sign = change.type == EventType::Added      ? "+"
                                  : change.type == EventType::Modified ? "~"
                                                                       : "-";
          seen.push_back(
              format("{}{}@{}", sign, name(change.object), resourceVersion(change.object)));
        });
    scheduler.runReady();
  }
  FakeTransport::Sent& watch(std::size_t index) {
    EXPECT_GT(watches->sent.size(), index);
    return *watches->sent.at(index);
  }
  std::string target(std::size_t index) { return watch(index).request.target; }
  // A first picture with one object, at version 10.
  void sync() {
    watch(0).head(200);
    watch(0).data(event("ADDED", object("a", 5)) + bookmark(10, true));
    ASSERT_TRUE(mirror->synced());
    ASSERT_THAT(seen, ElementsAre("+a@5"));
    seen.clear();
  }
};

TEST(Watcher, StreamsTheFirstPictureAndGoesOn) {
  Watched w;
  EXPECT_THAT(w.target(0), HasSubstr("/api/v1/configmaps?watch=true&allowWatchBookmarks=true"));
  EXPECT_THAT(w.target(0), HasSubstr("sendInitialEvents=true&resourceVersionMatch=NotOlderThan"));
  w.sync();
  w.watch(0).data(event("MODIFIED", object("a", 11)) + event("ADDED", object("b", 12)));
  w.watch(0).data(event("DELETED", object("a", 13)));
  EXPECT_THAT(w.seen, ElementsAre("~a@11", "+b@12", "-a@13"));
  EXPECT_EQ(w.watches->sent.size(), 1u);
}

TEST(Watcher, AnUnmarkedBookmarkIsNotTheEndOfTheList) {
  Watched w;
  w.watch(0).head(200);
  w.watch(0).data(event("ADDED", object("a", 5)) + bookmark(6, false));
  EXPECT_FALSE(w.mirror->synced());
}

TEST(Watcher, ResumesWhereItWasAfterTheUsualEnd) {
  Watched w;
  w.sync();
  w.watch(0).data(event("MODIFIED", object("a", 20)) + bookmark(30, false));
  w.scheduler.advance(5min);
  w.watch(0).end();
  w.scheduler.runReady();
  EXPECT_THAT(w.target(1), HasSubstr("resourceVersion=30&"));
  EXPECT_THAT(w.target(1), Not(HasSubstr("sendInitialEvents")));
  w.watch(1).head(200);
  w.watch(1).data(event("MODIFIED", object("a", 31)));
  EXPECT_THAT(w.seen, ElementsAre("~a@20", "~a@31"));
}

TEST(Watcher, ResumesWithBackoffWhenTheConnectionIsLost) {
  Watched w;
  w.sync();
  Error lost{.code = Code::Unavailable, .message = "connection lost"};
  w.watch(0).data(event("MODIFIED", object("a", 20)));
  w.watch(0).end(lost);
  EXPECT_THAT(w.mirror->trouble(), HasSubstr("connection lost"));
  std::vector<Duration> waits;
  for (std::size_t i = 1; i <= 7; ++i) {
    Instant before = w.scheduler.clock().instant();
    while (w.watches->sent.size() == i) ASSERT_TRUE(w.scheduler.runNext());
    waits.push_back(w.scheduler.clock().instant() - before);
    EXPECT_THAT(w.target(i), HasSubstr("resourceVersion=20&"));
    w.watch(i).end(lost);
  }
  EXPECT_THAT(waits, ElementsAre(800ms, 1600ms, 3200ms, 6400ms, 12800ms, 25600ms, 30s));
  EXPECT_THAT(w.seen, ElementsAre("~a@20"));
}

TEST(Watcher, AWatchThatTheServerNeverEndsIsGivenUpAndResumed) {
  Watched w;
  w.sync();
  // The server was told when to end it. What it does not do then is done here, soon after.
  std::string target = w.target(0);
  std::string_view seconds = cut(cut(target, "timeoutSeconds=").second, "&").first;
  auto asked = std::chrono::seconds(parseInt(seconds).value_or(0));
  EXPECT_GE(asked, 5min);
  Duration patience = w.watch(0).request.timeout;
  EXPECT_GT(patience, asked);
  EXPECT_LE(patience, asked + 10s);
  w.scheduler.advance(patience);
  w.watch(0).end(Error{.code = Code::DeadlineExceeded, .message = "no complete answer"});
  w.scheduler.advance(1s);
  EXPECT_THAT(w.target(1), HasSubstr("resourceVersion=10&"));
}

TEST(Watcher, APageThatNeverEndsIsGivenUp) {
  Watched w({.stream_lists = false});
  EXPECT_EQ(w.requests->sent.at(0)->request.timeout, ClientOptions().timeout);
}

TEST(Watcher, WhatIsNoEventOfItsKindIsNotBelieved) {
  struct Case {
    std::string_view event, trouble;
  };
  for (
      const Case& c :
      {Case{R"({"type":"ADDED"})", "type \"ADDED\" without an object"},
       Case{R"({"type":"ADDED","object":[1]})", "without an object"},
       Case{
           R"({"type":"ADDED","object":{"kind":"Secret","metadata":{"name":"x","resourceVersion":"50"}}})",
           "the watch of ConfigMap sent a Secret"},
       Case{R"({"type":"SNEEZED","object":{}})", "an event of type \"SNEEZED\""}}) {
    Watched w;
    w.sync();
    w.watch(0).data(std::string(c.event) + "\n");
    w.scheduler.runReady();
    EXPECT_TRUE(w.watch(0).dropped) << c.event;
    EXPECT_THAT(w.seen, IsEmpty()) << c.event;
    EXPECT_THAT(w.mirror->trouble(), HasSubstr(c.trouble));
  }
}

TEST(Watcher, TroubleIsOverAfterTheNextEvent) {
  Watched w;
  w.sync();
  w.watch(0).end(Error{.code = Code::Unavailable, .message = "lost"});
  EXPECT_FALSE(w.mirror->trouble().empty());
  w.scheduler.advance(1s);
  w.watch(1).head(200);
  w.watch(1).data(event("MODIFIED", object("a", 31)));
  EXPECT_TRUE(w.mirror->trouble().empty());
}

TEST(Watcher, GoneAsAnAnswerDrawsThePictureAnew) {
  Watched w;
  w.sync();
  w.scheduler.advance(5min);
  w.watch(0).end();
  w.scheduler.runReady();
  w.watch(1).answer(410, gone());
  w.scheduler.runReady();
  EXPECT_THAT(w.target(2), HasSubstr("sendInitialEvents=true"));
  EXPECT_THAT(w.target(2), Not(HasSubstr("resourceVersion=10")));
}

TEST(Watcher, GoneInsideTheStreamDrawsThePictureAnewAndFindsWhatWasMissed) {
  Watched w;
  w.sync();
  w.watch(0).data(event("ADDED", object("b", 12)) + event("ERROR", gone()));
  w.scheduler.runReady();
  ASSERT_EQ(w.watches->sent.size(), 2u);
  EXPECT_TRUE(w.watch(0).dropped);
  w.seen.clear();
  // Meanwhile a was deleted, b is unchanged, c is new.
  w.watch(1).head(200);
  w.watch(1).data(event("ADDED", object("b", 12)) + event("ADDED", object("c", 90)) +
                  bookmark(100, true));
  EXPECT_THAT(w.seen, ElementsAre("+c@90", "-a@5"));
}

TEST(Watcher, GoneAfterEveryPictureIsGivenTimeToo) {
  Watched w;
  w.sync();
  w.watch(0).data(event("ERROR", gone()));
  w.scheduler.runReady();
  for (std::size_t i = 1; i < 6; ++i) {
    ASSERT_EQ(w.watches->sent.size(), i + 1);
    w.watch(i).head(200);
    w.watch(i).data(event("ADDED", object("a", 12)) + bookmark(100, true) + event("ERROR", gone()));
    w.scheduler.runReady();
    ASSERT_EQ(w.watches->sent.size(), i + 1) << "it must not come back at once";
    while (w.watches->sent.size() == i + 1) ASSERT_TRUE(w.scheduler.runNext());
  }
}

TEST(Watcher, GoneAgainAndAgainIsGivenTime) {
  Watched w;
  w.sync();
  w.watch(0).data(event("ERROR", gone()));
  w.scheduler.runReady();
  for (std::size_t i = 1; i < 6; ++i) {
    ASSERT_EQ(w.watches->sent.size(), i + 1);
    w.watch(i).answer(410, gone());
    w.scheduler.runReady();
    ASSERT_EQ(w.watches->sent.size(), i + 1) << "it must not come back at once";
    while (w.watches->sent.size() == i + 1) ASSERT_TRUE(w.scheduler.runNext());
  }
}

TEST(Watcher, FallsBackToPagesWhereTheServerRefusesToStream) {
  Watched w({.page = 2});
  w.watch(0).answer(
      422,
      R"({"kind":"Status","apiVersion":"v1","reason":"Invalid","message":"sendInitialEvents is forbidden","code":422})");
  w.scheduler.runReady();
  ASSERT_EQ(w.requests->sent.size(), 1u);
  EXPECT_EQ(w.requests->sent[0]->request.target, "/api/v1/configmaps?limit=2");
  w.requests->sent[0]->answer(
      200,
      format(
          R"({{"kind":"ConfigMapList","metadata":{{"resourceVersion":"50","continue":"next"}},"items":[{},{}]}})",
          object("a", 1), object("b", 2)));
  w.scheduler.runReady();
  EXPECT_FALSE(w.mirror->synced());
  EXPECT_EQ(w.requests->sent[1]->request.target, "/api/v1/configmaps?limit=2&continue=next");
  w.requests->sent[1]->answer(
      200, format(R"({{"metadata":{{"resourceVersion":"50"}},"items":[{}]}})", object("c", 3)));
  w.scheduler.runReady();
  EXPECT_TRUE(w.mirror->synced());
  EXPECT_THAT(w.seen, ElementsAre("+a@1", "+b@2", "+c@3"));
  EXPECT_THAT(w.target(1), HasSubstr("resourceVersion=50&"));
}

TEST(Watcher, FallsBackWhereTheMarkedBookmarkNeverComes) {
  Watched w;
  w.watch(0).head(200);
  w.watch(0).data(event("ADDED", object("a", 5)));
  w.scheduler.advance(9s);
  w.watch(0).data(event("ADDED", object("b", 6)));  // it is still coming: patience
  w.scheduler.advance(9s);
  EXPECT_TRUE(w.requests->sent.empty());
  w.scheduler.advance(2s);
  EXPECT_TRUE(w.watch(0).dropped);
  ASSERT_EQ(w.requests->sent.size(), 1u);
  w.requests->sent[0]->answer(
      200, format(R"({{"metadata":{{"resourceVersion":"50"}},"items":[{},{}]}})", object("a", 5),
                  object("b", 6)));
  w.scheduler.runReady();
  EXPECT_TRUE(w.mirror->synced());
  EXPECT_THAT(w.seen, ElementsAre("+a@5", "+b@6"));  // each once, though it came twice
}

TEST(Watcher, APageThatExpiredBeginsAgain) {
  Watched w({.page = 1});
  w.watch(0).answer(
      400,
      R"({"kind":"Status","apiVersion":"v1","reason":"BadRequest","message":"no","code":400})");
  w.scheduler.runReady();
  w.requests->sent[0]->answer(
      200, format(R"({{"metadata":{{"resourceVersion":"50","continue":"x"}},"items":[{}]}})",
                  object("a", 1)));
  w.scheduler.runReady();
  w.requests->sent[1]->answer(410, gone());
  w.scheduler.runReady();
  EXPECT_EQ(w.requests->sent[2]->request.target, "/api/v1/configmaps?limit=1");
  w.requests->sent[2]->answer(
      200, format(R"({{"metadata":{{"resourceVersion":"60"}},"items":[{}]}})", object("b", 2)));
  w.scheduler.runReady();
  EXPECT_TRUE(w.mirror->synced());
  EXPECT_THAT(w.seen, ElementsAre("+a@1", "+b@2", "-a@1"));
}

TEST(Watcher, APictureThatBreaksOffForgetsNothing) {
  Watched w;
  w.sync();
  w.watch(0).data(event("ADDED", object("b", 12)) + event("ERROR", gone()));
  w.scheduler.runReady();
  w.seen.clear();
  w.watch(1).head(200);
  w.watch(1).data(event("ADDED", object("a", 5)));
  EXPECT_TRUE(w.mirror->contains({"ns", "b"}))
      << "the old picture is shown until the new one is there";
  w.watch(1).end(Error{.code = Code::Unavailable, .message = "lost"});
  w.scheduler.advance(1s);
  w.watch(2).head(200);
  w.watch(2).data(event("ADDED", object("a", 5)) + event("ADDED", object("b", 12)) +
                  bookmark(100, true));
  EXPECT_THAT(w.seen, IsEmpty());
  EXPECT_EQ(w.mirror->size(), 2u);
}

TEST(Watcher, TruncatedJsonIsAnErrorAndHeals) {
  Watched w;
  w.sync();
  w.watch(0).data(R"({"type":"MODIFIED","object":{"meta)");
  w.watch(0).end();
  EXPECT_THAT(w.mirror->trouble(), Not(IsEmpty()));
  w.scheduler.advance(1s);
  EXPECT_THAT(w.target(1), HasSubstr("resourceVersion=10&"));
}

TEST(Watcher, NonsenseInTheStreamIsAnErrorAndHeals) {
  for (std::string_view bad :
       {"nonsense", "[]", R"({"type":"WHATEVER","object":{}})", R"({"object":1})", "\x01\x02"}) {
    Watched w;
    w.sync();
    w.watch(0).data(std::string(bad) + "\n");
    w.scheduler.advance(1s);
    EXPECT_EQ(w.watches->sent.size(), 2u) << bad;
    EXPECT_THAT(w.target(1), HasSubstr("resourceVersion=10&"));
  }
}

TEST(Watcher, AServerThatEndsItAtOnceIsNotHammered) {
  Watched w;
  w.sync();
  w.scheduler.advance(5min);
  w.watch(0).end();
  w.scheduler.runReady();
  w.watch(1).head(200);
  w.watch(1).end();
  w.scheduler.runReady();
  EXPECT_EQ(w.watches->sent.size(), 2u);
  w.scheduler.advance(900ms);
  EXPECT_EQ(w.watches->sent.size(), 3u);
}

TEST(Watcher, WaitsAsLongAsTheServerAsks) {
  Watched w;
  w.watch(0).answer(
      429,
      R"({"kind":"Status","apiVersion":"v1","reason":"TooManyRequests","message":"later","code":429})",
      {{"Retry-After", "20"}});
  w.scheduler.advance(19s);
  EXPECT_EQ(w.watches->sent.size(), 1u);
  w.scheduler.advance(2s);
  EXPECT_EQ(w.watches->sent.size(), 2u);
}

TEST(Watcher, WhatIsDeletedWhileThePictureIsDrawnIsNotInIt) {
  Watched w;
  w.watch(0).head(200);
  w.watch(0).data(event("ADDED", object("a", 5)) + event("ADDED", object("b", 6)) +
                  event("DELETED", object("a", 8)) + bookmark(10, true));
  EXPECT_THAT(w.seen, ElementsAre("+a@5", "+b@6", "-a@8"));
  EXPECT_EQ(w.mirror->size(), 1u);
  w.watch(0).data(event("ERROR", gone()));
  w.scheduler.runReady();
  w.seen.clear();
  w.watch(1).head(200);
  w.watch(1).data(event("ADDED", object("b", 6)) + event("DELETED", object("b", 20)) +
                  bookmark(30, true));
  EXPECT_THAT(w.seen, ElementsAre("-b@20"));
}

TEST(Watcher, AWatchThatLivedLongStartsTheBackoffAgain) {
  Watched w;
  w.sync();
  Error lost{.code = Code::Unavailable, .message = "lost"};
  for (std::size_t i = 0; i < 3; ++i) {
    w.watch(i).end(lost);
    while (w.watches->sent.size() == i + 1) ASSERT_TRUE(w.scheduler.runNext());
  }
  w.watch(3).head(200);
  w.watch(3).data(event("MODIFIED", object("a", 40)));
  w.scheduler.advance(3min);
  w.watch(3).end(lost);
  w.scheduler.advance(900ms);
  EXPECT_EQ(w.watches->sent.size(), 5u);
}

TEST(Watcher, ANewUidUnderAnOldNameIsAnotherObject) {
  Watched w;
  w.sync();
  w.watch(0).data(event("ERROR", gone()));
  w.scheduler.runReady();
  w.watch(1).head(200);
  w.watch(1).data(event("ADDED", object("a", 50, "other")) + bookmark(60, true));
  EXPECT_THAT(w.seen, ElementsAre("-a@5", "+a@50"));
}

TEST(Watcher, EndsWhenDropped) {
  Watched w;
  w.sync();
  w.mirror.reset();
  EXPECT_TRUE(w.watch(0).dropped);
  EXPECT_EQ(w.scheduler.timers(), 0u);
}

TEST(Watcher, MayBeDroppedByItsOwnHandler) {
  Watched w;
  w.mirror.reset();
  std::unique_ptr<Watcher> watcher;
  int items = 0;
  watcher = std::make_unique<Watcher>(*w.client, WatcherOptions{.resource = kConfigMaps}, w.random,
                                      WatchHandler{.item = [&](json::Value) {
                                        ++items;
                                        watcher.reset();
                                      }});
  w.scheduler.runReady();
  auto& watch = *w.watches->sent.back();
  watch.head(200);
  watch.data(event("ADDED", object("a", 1)) + event("ADDED", object("b", 2)));
  EXPECT_EQ(items, 1);
  EXPECT_TRUE(watch.dropped);
}

TEST(Client, ARotatedCertificateStays) {
  FakeScheduler scheduler;
  std::vector<net::TlsClientOptions> made;
  auto make = [&](const net::TlsClientOptions& tls) -> Result<Client::Transport> {
    made.push_back(tls);
    Client::Transport transport;
    transport.requests = std::make_unique<FakeTransport>();
    transport.watches = std::make_unique<FakeTransport>();
    return transport;
  };
  std::filesystem::path folder =
      std::filesystem::temp_directory_path() / format("cadre-rotation-{}", ::getpid());
  std::filesystem::create_directory(folder);
  auto write = [&](const char* name, std::string_view text) {
    std::ofstream(folder / name) << text;
    return (folder / name).string();
  };
  Config config{.server = *net::Url::parse("https://api"),
                .tls = {.ca = "ca 1", .certificate = "certificate 1", .key = "key 1"},
                .ca_file = write("ca", "ca 1"),
                .certificate_file = write("certificate", "certificate 1"),
                .key_file = write("key", "key 1")};
  Client client(scheduler, config, *make(config.tls), make, std::make_unique<NoCredentials>(), {});
  std::vector<Pending> gets;
  auto get = [&] {
    gets.push_back(client.get(kConfigMaps, {"ns", "a"}, [](auto) {}));
    scheduler.runReady();
  };
  get();
  write("certificate", "certificate 2");
  write("key", "key 2");
  get();
  EXPECT_EQ(made.size(), 1u) << "the files are not read for every request";
  scheduler.advance(5min);
  get();
  ASSERT_EQ(made.size(), 2u);
  EXPECT_EQ(made[1].certificate, "certificate 2");
  EXPECT_EQ(made[1].key, "key 2");
  EXPECT_EQ(made[1].ca, "ca 1");
  get();  // neither back to the old one now,
  scheduler.advance(5min);
  get();  // nor another of the same after the next look
  EXPECT_EQ(made.size(), 2u);
  EXPECT_EQ(client.config().tls.certificate, "certificate 2");
  write("ca", "ca 2");
  scheduler.advance(5min);
  get();
  get();
  ASSERT_EQ(made.size(), 3u);
  EXPECT_EQ(made[2].ca, "ca 2");
  EXPECT_EQ(made[2].certificate, "certificate 2");
  std::filesystem::remove_all(folder);
}

TEST(Client, TheRateLimitSpreadsRequestsOut) {
  FakeApi api({.qps = 10, .burst = 3});
  std::vector<Pending> gets;
  for (int i = 0; i < 8; ++i)
    gets.push_back(api.client->get(kConfigMaps, {"ns", "a"}, [](auto) {}));
  api.scheduler.runReady();
  EXPECT_EQ(api.requests->sent.size(), 3u);
  api.scheduler.advance(200ms);
  EXPECT_EQ(api.requests->sent.size(), 5u);
  api.scheduler.advance(1s);
  EXPECT_EQ(api.requests->sent.size(), 8u);
}

}  // namespace
}  // namespace cadre::kube
