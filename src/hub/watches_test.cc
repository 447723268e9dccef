#include "hub/watches.h"

#include "base/format.h"
#include "hub/builtin_kind.h"
#include "hub/hub.h"
#include "hub/transport.h"
#include "json/parse.h"

namespace cadre::hub {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A client that takes what it is sent when the test says so.
class SlowClient final : public net::ServerRequest {
 public:
  struct Seen {
    std::vector<std::string> lines;
    std::size_t backlog = 0;
    bool ended = false;
    Function<void()> gone;
  };
  explicit SlowClient(std::shared_ptr<Seen> seen) : seen_(std::move(seen)) {}

  void respond(int, net::Headers, std::string) override {}
  void begin(int, net::Headers) override {}
  void write(std::string_view piece) override {
    seen_->lines.emplace_back(piece);
    seen_->backlog += piece.size();
  }
  std::size_t backlog() const override { return seen_->backlog; }
  void end() override { seen_->ended = true; }
  void onGone(Function<void()> gone) override { seen_->gone = std::move(gone); }
  bool wantsWebSocket() const override { return false; }
  void acceptWebSocket(std::string, Function<void(std::unique_ptr<net::WebSocket>)>) override {}

 private:
  std::shared_ptr<Seen> seen_;
};

struct Fixture {
  FakeScheduler scheduler;
  Watches watches{scheduler, {.count = 10, .backlog = 10'000, .bookmarks = 60s}};
  KindRef kind;
  std::int64_t revision = 1;

  Fixture() {
    for (const KindRef& one : servedBuiltIns())
      if (one->storage == "configmaps") kind = one;
  }
  std::shared_ptr<SlowClient::Seen> open(Selection selection = {}, bool bookmarks = false,
                                         const std::vector<State>& initial = {}) {
    auto seen = std::make_shared<SlowClient::Seen>();
    watches.open(
        std::make_shared<SlowClient>(seen),
        {.kind = kind, .selection = std::move(selection), .bookmarks = bookmarks, .timeout = 10min},
        initial, revision, false);
    return seen;
  }
  State state(std::string_view name, std::string_view label = "") {
    Stored stored{
        .key = {"ns", std::string(name)},
        .revision = ++revision,
        .text = format(R"({{"metadata":{{"name":"{}","namespace":"ns"}},"data":{{"x":"{}"}}}})",
                       name, std::string(1000, 'x'))};
    if (!label.empty()) stored.labels = {{"app", label}};
    return std::make_shared<const Stored>(std::move(stored));
  }
  void tell(State before, State after) {
    watches.told({.revision = ++revision,
                  .resource = "configmaps",
                  .before = std::move(before),
                  .after = std::move(after)});
  }
};

std::string typeOf(const std::string& line) { return (*json::parse(line))["type"].string(); }

TEST(Watches, OneThatTakesNothingIsEndedWithWordsAndKeepsNobodyBack) {
  Fixture f;
  auto slow = f.open(), quick = f.open();
  for (int i = 0; i < 50; ++i) {
    f.tell(nullptr, f.state(format("c-{}", i)));
    quick->backlog = 0;
  }
  EXPECT_TRUE(slow->ended);
  EXPECT_LT(slow->lines.size(), 15u) << "nothing is kept for it";
  EXPECT_THAT(slow->lines.back(), HasSubstr(R"("code":410)"));
  EXPECT_EQ(quick->lines.size(), 50u);
  EXPECT_FALSE(quick->ended);
  EXPECT_EQ(f.watches.count(), 1u);
}

TEST(Watches, BeginWithAListOfAnyLength) {
  Fixture f;
  std::vector<State> many;
  for (int i = 0; i < 50; ++i) many.push_back(f.state(format("c-{}", i)));
  auto reader = f.open({}, false, many);
  EXPECT_EQ(reader->lines.size(), 50u);
  EXPECT_FALSE(reader->ended) << "who begins to read a long list is not behind";
  f.tell(nullptr, f.state("one"));
  EXPECT_FALSE(reader->ended);
  reader->backlog = 0;  // it has read all
  for (int i = 0; i < 50; ++i) f.tell(nullptr, f.state(format("d-{}", i)));
  EXPECT_TRUE(reader->ended) << "now it is";
}

TEST(Watches, AreToldWhatItLooksLikeFromThere) {
  Fixture f;
  auto selector = *kube::LabelSelector::parse("app=paint");
  auto seen = f.open({.ns = "", .labels = selector, .fields = {}});
  State without = f.state("a"), with = f.state("a", "paint");
  f.tell(nullptr, without);
  f.tell(without, with);
  f.tell(with, f.state("a", "paint"));
  f.tell(with, without);
  f.tell(without, nullptr);
  std::vector<std::string> types;
  for (const std::string& line : seen->lines) types.push_back(typeOf(line));
  EXPECT_THAT(types, ElementsAre("ADDED", "MODIFIED", "DELETED"));
}

TEST(Watches, EndInTheirTimeAndWithTheirClientOrKind) {
  Fixture f;
  auto timed = f.open({}, true);
  f.scheduler.advance(9min);
  EXPECT_EQ(timed->lines.size(), 9u) << "a bookmark each minute";
  EXPECT_EQ(typeOf(timed->lines[0]), "BOOKMARK");
  f.scheduler.advance(1min);
  EXPECT_TRUE(timed->ended);
  auto gone = f.open(), closed = f.open();
  gone->gone();
  EXPECT_EQ(f.watches.count(), 1u);
  f.watches.end("configmaps");
  EXPECT_TRUE(closed->ended);
  EXPECT_EQ(f.watches.count(), 0u);
}

// Who may watch cannot keep everybody else from it.
TEST(Hub, NobodyHasAllTheWatches) {
  FakeScheduler scheduler;
  Random random{1};
  Hub hub(scheduler, random, {.watches = {.count = 4, .of_one_user = 2}});
  hub.furnish();
  auto ask = [&](net::HttpClient& client, std::string method, std::string target,
                 std::string body) {
    auto status = std::make_shared<int>(0);
    net::ResponseHandler handler;
    handler.head = [status](const net::ResponseHead& head) { *status = head.status; };
    handler.data = [](std::string_view) {};
    handler.end = [](const Result<>&) {};
    Pending pending = client.send({.method = std::move(method),
                                   .target = std::move(target),
                                   .headers = {{"content-type", "application/json"}},
                                   .body = std::move(body)},
                                  std::move(handler));
    scheduler.advance(1s);
    return std::pair(*status, std::move(pending));
  };
  auto admin = directTransport(scheduler, hub, "admin", {"system:masters"});
  EXPECT_EQ(
      201,
      ask(*admin, "POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
          R"({"metadata":{"name":"readers"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"view"},"subjects":[{"kind":"Group","name":"readers","apiGroup":"rbac.authorization.k8s.io"}]})")
          .first);
  std::vector<Pending> open;
  auto watch = [&](net::HttpClient& client) {
    auto [status, pending] = ask(client, "GET", "/api/v1/configmaps?watch=1", "");
    open.push_back(std::move(pending));
    return status;
  };
  auto jane = directTransport(scheduler, hub, "jane", {"readers"});
  auto joe = directTransport(scheduler, hub, "joe", {"readers"});
  auto ann = directTransport(scheduler, hub, "ann", {"readers"});
  EXPECT_EQ(watch(*jane), 200);
  EXPECT_EQ(watch(*jane), 200);
  EXPECT_EQ(watch(*jane), 429) << "that is her share";
  EXPECT_EQ(watch(*joe), 200);
  EXPECT_EQ(watch(*joe), 200);
  EXPECT_EQ(watch(*ann), 429) << "that is all";
  EXPECT_EQ(watch(*admin), 200) << "who can put an end to it can look";
  open.clear();
  scheduler.advance(1s);
  EXPECT_EQ(watch(*jane), 200);
}

std::string body(FakeScheduler& scheduler, Hub& hub, std::string target) {
  auto admin = directTransport(scheduler, hub, "admin", {"system:masters"});
  std::string body;
  net::ResponseHandler handler;
  handler.head = [](const net::ResponseHead&) {};
  handler.data = [&](std::string_view data) { body += data; };
  handler.end = [](const Result<>&) {};
  Pending pending = admin->send({.method = "GET", .target = std::move(target)}, std::move(handler));
  scheduler.advance(1s);
  return body;
}

// Its data are older than what the client has seen of it.
TEST(Hub, WhoKnowsMoreListsAgain) {
  FakeScheduler scheduler;
  Random random{1};
  Hub hub(scheduler, random, {});
  hub.furnish();
  scheduler.advance(1s);
  std::string now = format("{}", hub.objects().revision()),
              later = format("{}", hub.objects().revision() + 1);
  std::string watch = "/api/v1/configmaps?watch=1&resourceVersion=";
  EXPECT_EQ(body(scheduler, hub, watch + now), "");
  auto told = json::parse(body(scheduler, hub, watch + later));
  ASSERT_TRUE(told.ok());
  EXPECT_EQ((*told)["type"].string(), "ERROR");
  EXPECT_EQ((*told)["object"]["code"].integer(), 410);
  EXPECT_EQ((*told)["object"]["reason"].string(), "Expired");
}

TEST(Hub, NamesWhatItAnswers) {
  FakeScheduler scheduler;
  Random random{1};
  Hub alone(scheduler, random, {});
  std::string named = body(scheduler, alone, "/api/v1");
  for (std::string_view part : {"pods/log", "pods/exec", "pods/attach", "pods/portforward"})
    EXPECT_EQ(named.find(part), std::string::npos) << part;
  HubOptions options;
  options.node = [](const Asked&, const json::Value&, std::shared_ptr<net::ServerRequest>) {};
  Hub beside(scheduler, random, std::move(options));
  named = body(scheduler, beside, "/api/v1");
  for (std::string_view part : {"pods/log", "pods/exec", "pods/attach", "pods/portforward"})
    EXPECT_NE(named.find(part), std::string::npos) << part;
}

// Killed between a write and the count of it.
TEST(Hub, CountsWhatItFinds) {
  FakeScheduler scheduler;
  Random random{1};
  Hub hub(scheduler, random, {});
  auto load = [&](std::string_view key, std::string_view object) {
    ASSERT_TRUE(hub.objects().load(key, object).ok());
  };
  load("namespaces /box", R"({"metadata":{"name":"box","uid":"1","resourceVersion":"1"}})");
  load("configmaps box/a",
       R"({"metadata":{"name":"a","namespace":"box","uid":"2","resourceVersion":"2"}})");
  load(
      "resourcequotas box/q",
      R"({"metadata":{"name":"q","namespace":"box","uid":"3","resourceVersion":"3"},"spec":{"hard":{"count/configmaps":"5"}},"status":{"hard":{"count/configmaps":"5"},"used":{"count/configmaps":"0"}}})");
  hub.objects().loaded(3, 3);
  hub.furnish();
  scheduler.advance(1s);
  EXPECT_EQ(hub.objects()
                .find("resourcequotas", {"box", "q"})
                ->value()["status"]["used"]["count/configmaps"]
                .string(),
            "1");
}

}  // namespace
}  // namespace cadre::hub
