// The client against a real kube-apiserver: what it relies on, and what it promises when that
// server dies.
#include <map>
#include <set>

#include "component/cluster_fixture.h"
#include "json/parse.h"
#include "kube/discovery.h"
#include "kube/watch.h"

namespace cadre::kube {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

json::Value configMap(std::string_view ns, std::string_view name, json::Object data,
                      json::Object labels = {}) {
  json::Object metadata{{"name", name}, {"namespace", ns}};
  if (!labels.empty()) metadata.set("labels", std::move(labels));
  return json::Object{{"apiVersion", "v1"},
                      {"kind", "ConfigMap"},
                      {"metadata", std::move(metadata)},
                      {"data", std::move(data)}};
}

json::Value deployment(std::string_view ns, std::string_view name) {
  return *json::parse(format(
      R"({{"apiVersion":"apps/v1","kind":"Deployment","metadata":{{"name":"{1}","namespace":"{0}"}},
    "spec":{{"replicas":1,"selector":{{"matchLabels":{{"app":"{1}"}}}},"template":{{"metadata":{{"labels":{{"app":"{1}"}}}},
    "spec":{{"containers":[{{"name":"main","image":"main:1"}}]}}}}}}}})",
      ns, name));
}

using KubeClusterTest = ClusterTest;

TEST_F(KubeClusterTest, WritesReadsAndDeletes) {
  json::Value made = create(kConfigMaps, configMap(ns, "a", {{"k", "1"}}));
  EXPECT_FALSE(uid(made).empty());
  json::Value got =
      must([&](auto done) { return client->get(kConfigMaps, {ns, "a"}, std::move(done)); });
  EXPECT_EQ(got["data"]["k"].string(), "1");

  got.make("data").make("k") = "2";
  json::Value updated =
      must([&](auto done) { return client->update(kConfigMaps, got, {}, std::move(done)); });
  auto stale =
      run([&](auto done) { return client->update(kConfigMaps, got, {}, std::move(done)); });
  ASSERT_FALSE(stale);
  EXPECT_EQ(stale.error().code, Code::Conflict);
  EXPECT_EQ(stale.error().reason, "Conflict");

  auto again = run([&](auto done) {
    return client->create(kConfigMaps, configMap(ns, "a", {}), {}, std::move(done));
  });
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Code::AlreadyExists);

  auto other = run([&](auto done) {
    return client->remove(kConfigMaps, {ns, "a"}, {.uid = "another"}, std::move(done));
  });
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, Code::Conflict);
  must([&](auto done) {
    return client->remove(kConfigMaps, {ns, "a"}, {.uid = std::string(uid(made))}, std::move(done));
  });
  auto missing =
      run([&](auto done) { return client->get(kConfigMaps, {ns, "a"}, std::move(done)); });
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::NotFound);
  EXPECT_EQ(missing.error().text(), "configmaps \"a\" not found");
}

TEST_F(KubeClusterTest, PatchesInFourWays) {
  create(kDeployments, deployment(ns, "web"));
  ObjectKey web{ns, "web"};
  auto patch = [&](PatchType type, std::string_view text, WriteOptions options = {}) {
    return must([&](auto done) {
      return client->patch(kDeployments, web, type, *json::parse(text), options, std::move(done));
    });
  };
  EXPECT_EQ(patch(PatchType::Json,
                  R"([{"op":"replace","path":"/spec/replicas","value":2}])")["spec"]["replicas"]
                .integer(),
            2);
  EXPECT_EQ(patch(PatchType::Merge, R"({"spec":{"replicas":3}})")["spec"]["replicas"].integer(), 3);
  json::Value strategic =
      patch(PatchType::Strategic,
            R"({"spec":{"template":{"spec":{"containers":[{"name":"side","image":"side:1"}]}}}})");
  EXPECT_THAT(strategic["spec"]["template"]["spec"]["containers"].array(), SizeIs(2));
  json::Value applied = patch(
      PatchType::Apply,
      format(
          R"({{"apiVersion":"apps/v1","kind":"Deployment","metadata":{{"name":"web","namespace":"{}"}},"spec":{{"replicas":4}}}})",
          ns),
      {.force = true});
  EXPECT_EQ(applied["spec"]["replicas"].integer(), 4);
  json::Value status =
      patch(PatchType::Merge, R"({"status":{"observedGeneration":9}})", {.subresource = "status"});
  EXPECT_EQ(status["status"]["observedGeneration"].integer(), 9);
}

TEST_F(KubeClusterTest, ApplyConflictsAreData) {
  json::Value mine = configMap(ns, "a", {{"k", "mine"}});
  must([&](auto done) {
    return client->apply(kConfigMaps, mine, {.field_manager = "one"}, std::move(done));
  });
  json::Value yours = configMap(ns, "a", {{"k", "yours"}});
  auto conflict = run([&](auto done) {
    return client->apply(kConfigMaps, yours, {.field_manager = "two"}, std::move(done));
  });
  ASSERT_FALSE(conflict);
  EXPECT_EQ(conflict.error().code, Code::Conflict);
  ASSERT_THAT(conflict.error().details, SizeIs(1));
  EXPECT_EQ(conflict.error().details[0].reason, "FieldManagerConflict");
  EXPECT_EQ(conflict.error().details[0].field, ".data.k");
  EXPECT_THAT(conflict.error().details[0].message, HasSubstr("\"one\""));
  json::Value forced = must([&](auto done) {
    return client->apply(kConfigMaps, yours, {.field_manager = "two", .force = true},
                         std::move(done));
  });
  EXPECT_EQ(forced["data"]["k"].string(), "yours");
}

TEST_F(KubeClusterTest, InvalidObjectsNameTheirFields) {
  json::Value bad = deployment(ns, "web");
  bad.make("spec").make("replicas") = -1;
  auto refused =
      run([&](auto done) { return client->create(kDeployments, bad, {}, std::move(done)); });
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::InvalidArgument);
  ASSERT_THAT(refused.error().details, SizeIs(1));
  EXPECT_EQ(refused.error().details[0].field, "spec.replicas");
}

TEST_F(KubeClusterTest, BothWaysToLogIn) {
  for (std::string context : {"admin", "admin-cert"}) {
    auto other = connect(context);
    auto version = net::await<json::Value>(
        loop, [&](auto done) { return serverVersion(*other, std::move(done)); }, kSoon);
    ASSERT_TRUE(version) << context << ": " << version.error().text();
    EXPECT_EQ((*version)["major"].string(), "1");
  }
  Config config = client->config();
  config.token = "wrong";
  auto stranger = *Client::connect(loop, config);
  auto refused = net::await<json::Value>(
      loop, [&](auto done) { return stranger->get(kConfigMaps, {ns, "a"}, std::move(done)); },
      kSoon);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::Unauthenticated);
}

TEST_F(KubeClusterTest, Discovers) {
  auto discovery = net::await<Discovery>(
      loop, [&](auto done) { return Discovery::load(*client, std::move(done)); }, kSoon);
  ASSERT_TRUE(discovery) << discovery.error().text();
  const ServedResource* deployments = discovery->named("deploy");
  ASSERT_TRUE(deployments);
  EXPECT_EQ(deployments->resource, kDeployments);
  EXPECT_THAT(deployments->subresources, testing::Contains("scale"));
  EXPECT_EQ(discovery->named("cm")->resource, kConfigMaps);
  EXPECT_EQ(discovery->named("ns")->resource, kNamespaces);
  EXPECT_EQ(discovery->named("leases.coordination.k8s.io")->resource.kind, "Lease");
}

TEST_F(KubeClusterTest, ListsInPages) {
  for (int i = 0; i < 7; ++i)
    create(kConfigMaps, configMap(ns, format("c{}", i), {}, {{"odd", i % 2 ? "yes" : "no"}}));
  EXPECT_THAT(list({.select = {.ns = ns}, .page = 2}), SizeIs(7));
  EXPECT_THAT(list({.select = {.ns = ns, .labels = "odd=yes"}, .page = 2}), SizeIs(3));
  EXPECT_THAT(list({.select = {.ns = ns, .fields = "metadata.name=c3"}}), SizeIs(1));
  EXPECT_TRUE(list({.select = {.ns = ns}})[0]["metadata"]["managedFields"].isNull());
}

TEST_F(KubeClusterTest, MirrorsByStreamAndByPages) {
  for (int i = 0; i < 5; ++i) create(kConfigMaps, configMap(ns, format("c{}", i), {}));
  for (bool stream : {true, false}) {
    std::vector<std::string> seen;
    Mirror mirror(
        *client, {.resource = kConfigMaps, .select = {.ns = ns}, .stream_lists = stream, .page = 2},
        random, [&](const Mirror::Change& change) {
          seen.push_back(format("{}{}",
                                change.type == EventType::Added     ? "+"
                                : change.type == EventType::Deleted ? "-"
                                                                    : "~",
                                name(change.object)));
        });
    ASSERT_TRUE(loop.runUntil([&] { return mirror.synced(); }, kSoon));
    EXPECT_THAT(seen, ElementsAre("+c0", "+c1", "+c2", "+c3", "+c4"));
    seen.clear();
    create(kConfigMaps, configMap(ns, "extra", {}));
    must([&](auto done) {
      return client->patch(kConfigMaps, {ns, "extra"}, PatchType::Merge,
                           json::Object{{"data", json::Object{{"x", "y"}}}}, {}, std::move(done));
    });
    must(
        [&](auto done) { return client->remove(kConfigMaps, {ns, "extra"}, {}, std::move(done)); });
    ASSERT_TRUE(loop.runUntil([&] { return seen.size() == 3; }, kSoon));
    EXPECT_THAT(seen, ElementsAre("+extra", "~extra", "-extra"));
  }
}

// Writes with several requests in flight and keeps count of what the server has acknowledged. Each
// object is made; if they are to change, of every three one is then changed and one deleted.
class Writer {
 public:
  Writer(Client& client, std::string ns, int count, int in_flight, bool change = false)
      : client_(client), ns_(std::move(ns)), count_(count), change_(change) {
    for (int i = 0; i < in_flight; ++i) next();
  }
  bool done() const { return finished_ == count_; }
  int finished() const { return finished_; }
  int failures() const { return failures_; }
  static bool deletes(int number) { return number % 3 == 2; }

 private:
  void next() {
    if (started_ < count_) create(started_++);
  }
  ObjectKey key(int number) const { return {ns_, format("w{}", number)}; }

  void create(int number) {
    calls_[number] =
        client_.create(kConfigMaps, configMap(ns_, key(number).name, {{"n", "0"}}), {},
                       settle(number, Code::AlreadyExists, &Writer::create, &Writer::change));
  }
  void change(int number) {
    if (!change_ || number % 3 == 0) return finish(number);
    auto then = settle(number, Code::NotFound, &Writer::change, &Writer::finish);
    calls_[number] =
        deletes(number)
            ? client_.remove(kConfigMaps, key(number), {}, std::move(then))
            : client_.patch(kConfigMaps, key(number), PatchType::Merge,
                            json::Object{{"data", json::Object{{"n", "1"}}}}, {}, std::move(then));
  }
  void finish(int) {
    ++finished_;
    next();
  }
  // A lost answer may belong to a write that happened: then it exists, or is gone, already.
  Client::Done settle(int number, Code already, void (Writer::*again)(int),
                      void (Writer::*then)(int)) {
    return [=, this](Result<json::Value> result) {
      if (result || result.error().code == already) return (this->*then)(number);
      ++failures_;
      retries_[number] = client_.scheduler().after(50ms, [=, this] { (this->*again)(number); });
    };
  }

  Client& client_;
  std::string ns_;
  int count_, started_ = 0, finished_ = 0, failures_ = 0;
  bool change_;
  std::map<int, Pending> calls_, retries_;
};

TEST_F(KubeClusterTest, FiveHundredWatchesStayOpenWhileWritesFlow) {
  // Each on one name, as single objects are watched in earnest. (A server that is short of CPU
  // drops watchers that share a namespace by labels: it has to show each of them every event.)
  constexpr int kWatches = 500, kWrites = 1000;
  struct Seen {
    std::multiset<std::string> names;
    std::string ended;  // why, if it did
  };
  std::vector<Seen> seen(kWatches);
  std::vector<Pending> watches;
  std::string from;
  {
    auto page = net::await<ListPage>(
        loop,
        [&](auto done) {
          return client->listPage(
              kConfigMaps, {.select = {.ns = ns}}, [](auto) {}, std::move(done));
        },
        kSoon);
    ASSERT_TRUE(page);
    from = page->resource_version;
  }
  for (int i = 0; i < kWatches; ++i)
    watches.push_back(client->watch(
        kConfigMaps,
        {.select = {.ns = ns, .fields = format("metadata.name=w{}", i)}, .resource_version = from},
        [&seen, i](EventType type, json::Value object) {
          if (type == EventType::Added) seen[i].names.insert(std::string(name(object)));
        },
        [&seen, i](Result<> result) {
          seen[i].ended = result ? "by the server" : result.error().text();
        }));

  Writer writer(*client, ns, kWrites, 16);
  ASSERT_TRUE(loop.runUntil([&] { return writer.done(); }, 120s)) << writer.finished();
  auto events = [&] {
    std::size_t count = 0;
    for (const Seen& one : seen) count += one.names.size();
    return count;
  };
  EXPECT_TRUE(loop.runUntil([&] { return events() >= kWatches; }, kSoon)) << events();
  EXPECT_EQ(events(), static_cast<std::size_t>(kWatches));
  EXPECT_EQ(writer.failures(), 0);
  for (int i = 0; i < kWatches; ++i) {
    EXPECT_EQ(seen[i].ended, "") << i;
    EXPECT_EQ(seen[i].names, std::multiset<std::string>{format("w{}", i)});
  }
}

TEST_F(KubeClusterTest, KillingTheServerLosesAndDoublesNothing) {
  constexpr int kWrites = 1500, kMirrors = 20;
  struct Watching {
    std::map<std::string, int> added, deleted;
    std::unique_ptr<Mirror> mirror;
  };
  std::vector<Watching> watching(kMirrors);
  WatcherOptions options{
      .resource = kConfigMaps, .select = {.ns = ns}, .backoff = {.first = 50ms, .limit = 500ms}};
  for (Watching& one : watching)
    one.mirror =
        std::make_unique<Mirror>(*client, options, random, [&one](const Mirror::Change& change) {
          if (change.type == EventType::Added) ++one.added[std::string(name(change.object))];
          if (change.type == EventType::Deleted) ++one.deleted[std::string(name(change.object))];
        });

  // A mirror passes over what it knows already. The watcher below it must not even tell it: between
  // two pictures each version comes once.
  std::set<std::string> told;
  int doubled = 0, told_at_all = 0;
  WatchHandler handler;
  handler.begin = [&] { told.clear(); };
  handler.item = [&](json::Value object) { told.insert(std::string(resourceVersion(object))); };
  handler.changed = [&](EventType, json::Value object) {
    ++told_at_all;
    if (!told.insert(std::string(resourceVersion(object))).second) ++doubled;
  };
  // Ended often by its server, so that it resumes in the middle of the writes and not only after a
  // kill.
  WatcherOptions restless = options;
  restless.shortest_watch = 1s;
  Watcher watcher(*client, restless, random, std::move(handler));
  ASSERT_TRUE(loop.runUntil(
      [&] {
        for (Watching& one : watching)
          if (!one.mirror->synced()) return false;
        return watcher.synced();
      },
      kSoon));

  Writer writer(*client, ns, kWrites, 16, /*change=*/true);
  for (int round = 1; round <= 3; ++round) {
    ASSERT_TRUE(loop.runUntil([&] { return writer.finished() >= round * kWrites / 4; }, 120s));
    bool stopped = false, started = false;
    cluster({"stop", "kube-apiserver", "--kill"}, stopped);
    ASSERT_TRUE(loop.runUntil([&] { return stopped; }, 120s));
    cluster({"start", "kube-apiserver"}, started);
    ASSERT_TRUE(loop.runUntil([&] { return started; }, 120s));
  }
  ASSERT_TRUE(loop.runUntil([&] { return writer.done(); }, 240s)) << writer.finished();
  EXPECT_GT(writer.failures(), 0) << "the server was killed, and no write noticed";

  std::map<ObjectKey, std::string> truth;
  for (const json::Value& object : list({.select = {.ns = ns}}))
    truth.emplace(ObjectKey::of(object), std::string(resourceVersion(object)));
  EXPECT_THAT(truth, SizeIs(kWrites - kWrites / 3));
  auto agrees = [&](const Mirror& mirror) {
    if (mirror.size() != truth.size()) return false;
    for (const auto& [key, version] : truth)
      if (auto held = mirror.find(key); !held || resourceVersion(*held) != version) return false;
    return true;
  };
  for (Watching& one : watching)
    EXPECT_TRUE(loop.runUntil([&] { return agrees(*one.mirror); }, kSoon));

  EXPECT_EQ(doubled, 0);
  EXPECT_GT(told_at_all, 0);
  for (Watching& one : watching)
    for (int i = 0; i < kWrites; ++i) {
      std::string key = format("w{}", i);
      // What was made and deleted while nobody could watch was never there; all else is told once.
      if (Writer::deletes(i)) {
        EXPECT_EQ(one.added[key], one.deleted[key]) << key;
        EXPECT_LE(one.added[key], 1) << key;
      } else {
        EXPECT_EQ(one.added[key], 1) << key;
        EXPECT_EQ(one.deleted.count(key), 0u) << key;
      }
    }
}

}  // namespace
}  // namespace cadre::kube
