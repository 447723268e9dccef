// The workload kinds on the hub, in one thread under a virtual clock. Pods are played: each gets
// ready a while after it was made, and is gone a while after it was deleted.
#include "node/workloads.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/format.h"
#include "base/scheduler.h"
#include "engine/engine.h"
#include "hub/hub.h"
#include "hub/transport.h"
#include "json/patch.h"
#include "json/write.h"
#include "json/yaml.h"
#include "kube/client.h"
#include "kube/conditions.h"
#include "node/pods.h"

namespace cadre::node {
namespace {

constexpr Duration kStarts = 3s, kStops = 2s;

const kube::Resource& resourceOf(const json::Value& object) {
  for (const kube::Resource* one : {&kDeployments, &kStatefulSets, &kJobs, &kCronJobs})
    if (one->kind == object["kind"].string()) return *one;
  ADD_FAILURE() << "no such kind: " << object["kind"].string();
  return kDeployments;
}

class Node {
 public:
  Node() {
    hub_ = std::make_unique<hub::Hub>(scheduler_, random_, hub::HubOptions{});
    hub_->furnish();
    scheduler_.runReady();
    client_ = hub::directClient(scheduler_, [this] {
      return hub::directTransport(scheduler_, *hub_, "node", {"system:masters"});
    });
    engine::EngineOptions options;
    options.whole = true;
    options.kinds = workloadKinds();
    options.scopes = workloadScopes();
    options.controller = "cadre-node";
    engine_ = std::make_unique<engine::Engine>(*client_, random_, std::move(options));
    engine_->lead(true);
    pass(1s);
  }

  // An object as YAML: made, or merged into what is there.
  void apply(std::string_view text) {
    auto documents = json::parseYaml(text, "test");
    ASSERT_TRUE(documents.ok()) << documents.error().text();
    for (const json::Document& document : *documents) {
      json::Value object = document.value;
      object.make("metadata").make("namespace") = "default";
      bool done = false;
      Pending sent =
          client_->apply(resourceOf(object), object, {.field_manager = "user", .force = true},
                         [&](Result<json::Value> answer) {
                           done = true;
                           EXPECT_TRUE(answer.ok()) << answer.error().text();
                         });
      scheduler_.runReady();
      ASSERT_TRUE(done);
    }
  }
  void remove(const kube::Resource& resource, const std::string& name) {
    Pending sent = client_->remove(resource, {"default", name}, {}, [](auto) {});
    scheduler_.runReady();
  }

  std::vector<json::Value> all(const kube::Resource& resource) {
    std::vector<json::Value> found;
    std::string storage =
        resource.group.empty() ? resource.plural : resource.group + "/" + resource.plural;
    for (const auto& [key, state] : hub_->objects().all(storage))
      if (key.ns == "default") found.push_back(state->value());
    return found;
  }
  json::Value get(const kube::Resource& resource, std::string_view name) {
    for (json::Value& one : all(resource))
      if (kube::name(one) == name) return one;
    return {};
  }

  // Time passes, and pods do what pods do. `look` sees every step of it.
  void pass(Duration time, const std::function<void()>& look = {}) {
    for (Duration passed{}; passed < time; passed += 100ms) {
      for (const json::Value& pod : all(kPods)) play(pod);
      scheduler_.advance(100ms);
      if (look) look();
    }
  }
  std::int64_t revision() const { return hub_->objects().revision(); }

 private:
  void play(const json::Value& pod) {
    Instant now = scheduler_.clock().instant();
    std::string uid(kube::uid(pod));
    if (kube::isDeleting(pod)) {
      if (now - gone_.try_emplace(uid, now).first->second < kStops) return;
      Pending sent =
          client_->remove(kPods, kube::ObjectKey::of(pod), {.grace_seconds = 0}, [](auto) {});
      scheduler_.runReady();
      return;
    }
    bool fails = pod["spec"]["containers"].at(0)["image"].string().starts_with("bad");
    bool ends = pod["spec"]["restartPolicy"].string() == "Never";
    if (isFinished(pod) || isReady(pod) || (fails && !ends) ||
        now - made_.try_emplace(uid, now).first->second < kStarts)
      return;
    json::Value status = pod;
    status.make("status") = json::Object{
        {"phase", !ends   ? "Running"
                  : fails ? "Failed"
                          : "Succeeded"},
        {"conditions",
         json::Array{json::Object{{"type", "Ready"},
                                  {"status", ends ? "False" : "True"},
                                  {"lastTransitionTime", formatTime(scheduler_.clock().now())}}}}};
    Pending sent = client_->update(kPods, status, {.subresource = "status"}, [](auto answer) {
      EXPECT_TRUE(answer.ok()) << answer.error().text();
    });
    scheduler_.runReady();
  }

  FakeScheduler scheduler_;
  Random random_{1};
  std::unique_ptr<hub::Hub> hub_;
  std::unique_ptr<kube::Client> client_;
  std::unique_ptr<engine::Engine> engine_;
  std::map<std::string, Instant> made_, gone_;
};

std::string deployment(int replicas, std::string_view image, std::string_view more = "") {
  return format(R"(
apiVersion: apps/v1
kind: Deployment
metadata: {{name: web}}
spec:
  replicas: {}
  selector: {{matchLabels: {{app: web}}}}
  template: {{metadata: {{labels: {{app: web}}}}, spec: {{containers: [{{name: main, image: "{}"}}]}}}}
  {}
)",
                replicas, image, more);
}

struct Seen {
  std::int64_t alive = 0, ready = 0, newest = 0;
};
Seen look(Node& node, std::string_view image) {
  Seen seen;
  for (const json::Value& pod : node.all(kPods)) {
    if (!isAlive(pod)) continue;
    ++seen.alive;
    seen.ready += isReady(pod);
    seen.newest += pod["spec"]["containers"].at(0)["image"].string() == image;
  }
  return seen;
}

TEST(Workloads, ARolloutNeverHasTooFewOrTooMany) {
  struct Case {
    int replicas;
    std::string_view surge, unavailable;
    int least, most;
  };
  for (const Case& c : {Case{4, "25%", "25%", 3, 5},
                        {4, "1", "0", 4, 5},
                        {4, "0", "1", 3, 4},
                        {4, "100%", "0", 4, 8},
                        {1, "25%", "25%", 1, 2},
                        {10, "30%", "30%", 7, 13}}) {
    SCOPED_TRACE(format("{} of {}, {}", c.surge, c.replicas, c.unavailable));
    auto quoted = [](std::string_view count) {
      return count.ends_with('%') ? format("\"{}\"", count) : std::string(count);
    };
    std::string strategy =
        format("strategy: {{rollingUpdate: {{maxSurge: {}, maxUnavailable: {}}}}}", quoted(c.surge),
               quoted(c.unavailable));
    Node node;
    node.apply(deployment(c.replicas, "x:1", strategy));
    node.pass(10s);
    ASSERT_EQ(look(node, "x:1").ready, c.replicas);
    node.apply(deployment(c.replicas, "x:2", strategy));
    node.pass(120s, [&] {
      Seen now = look(node, "x:2");
      EXPECT_GE(now.ready, c.least);
      EXPECT_LE(now.alive, c.most);
    });
    Seen end = look(node, "x:2");
    EXPECT_EQ(end.newest, c.replicas);
    EXPECT_EQ(end.alive, c.replicas);
    const json::Value status = node.get(kDeployments, "web")["status"];
    EXPECT_EQ(status["availableReplicas"].integer(), c.replicas);
    EXPECT_EQ(status["updatedReplicas"].integer(), c.replicas);
    EXPECT_EQ(status["unavailableReplicas"].integer(), 0);
    EXPECT_EQ(node.all(kReplicaSets).size(), 2u);
    // And then nothing is written any more.
    std::int64_t before = node.revision();
    node.pass(60s);
    EXPECT_EQ(node.revision(), before);
  }
}

TEST(Workloads, ARolloutThatFailsLeavesEnoughOfTheOld) {
  Node node;
  node.apply(deployment(4, "x:1"));
  node.pass(10s);
  node.apply(deployment(4, "bad:1"));
  node.pass(700s);
  EXPECT_EQ(look(node, "x:1").newest, 3);
  const json::Value web = node.get(kDeployments, "web");
  EXPECT_TRUE(kube::isConditionTrue(web, "Available"));
  EXPECT_EQ(kube::findCondition(web, "Progressing")->reason, "ProgressDeadlineExceeded");
  node.apply(deployment(4, "x:1"));  // back again
  node.pass(30s);
  EXPECT_EQ(look(node, "x:1").ready, 4);
  EXPECT_EQ(look(node, "x:1").alive, 4);
  EXPECT_EQ(kube::findCondition(node.get(kDeployments, "web"), "Progressing")->reason,
            "NewReplicaSetAvailable");
}

TEST(Workloads, RecreateHasNeverPodsOfBoth) {
  Node node;
  node.apply(deployment(3, "x:1", "strategy: {type: Recreate}"));
  node.pass(10s);
  node.apply(deployment(3, "x:2", "strategy: {type: Recreate}"));
  node.pass(30s, [&] {
    std::set<std::string> images;
    for (const json::Value& pod : node.all(kPods))
      images.insert(pod["spec"]["containers"].at(0)["image"].string());
    EXPECT_LE(images.size(), 1u);
  });
  EXPECT_EQ(look(node, "x:2").ready, 3);
}

TEST(Workloads, WhatIsDeletedComesBackAndAllGoesWithItsOwner) {
  Node node;
  node.apply(deployment(3, "x:1"));
  node.pass(10s);
  std::string name(kube::name(node.all(kPods).at(0)));
  node.remove(kPods, name);
  node.pass(10s);
  EXPECT_EQ(look(node, "x:1").ready, 3);
  node.remove(kReplicaSets, std::string(kube::name(node.all(kReplicaSets).at(0))));
  node.pass(20s);
  EXPECT_EQ(look(node, "x:1").ready, 3);
  EXPECT_EQ(node.all(kReplicaSets).size(), 1u);
  node.apply(deployment(1, "x:1"));
  node.pass(10s);
  EXPECT_EQ(node.all(kPods).size(), 1u);
  node.remove(kDeployments, "web");
  node.pass(10s);
  EXPECT_TRUE(node.all(kReplicaSets).empty());
  EXPECT_TRUE(node.all(kPods).empty());
}

std::string statefulSet(std::string_view image) {
  return format(R"(
apiVersion: apps/v1
kind: StatefulSet
metadata: {{name: db}}
spec:
  replicas: 3
  serviceName: db
  selector: {{matchLabels: {{app: db}}}}
  template: {{metadata: {{labels: {{app: db}}}}, spec: {{containers: [{{name: main, image: "{}"}}]}}}}
  volumeClaimTemplates:
  - metadata: {{name: data}}
    spec: {{accessModes: [ReadWriteOnce], resources: {{requests: {{storage: 1Gi}}}}}}
)",
                image);
}

TEST(Workloads, PodsOfAStatefulSetComeAndChangeInOrder) {
  Node node;
  node.apply(statefulSet("x:1"));
  node.pass(30s, [&] {
    for (int ordinal : {1, 2}) {
      bool there = !node.get(kPods, format("db-{}", ordinal)).isNull();
      EXPECT_TRUE(!there || isReady(node.get(kPods, format("db-{}", ordinal - 1)))) << ordinal;
    }
  });
  ASSERT_EQ(look(node, "x:1").ready, 3);
  EXPECT_EQ(node.all(kClaims).size(), 3u);
  node.apply(statefulSet("x:2"));
  std::vector<std::string> changed;
  node.pass(60s, [&] {
    EXPECT_GE(look(node, "x:2").ready, 2);
    for (const json::Value& pod : node.all(kPods))
      if (pod["spec"]["containers"].at(0)["image"].string() == "x:2" &&
          std::ranges::find(changed, kube::name(pod)) == changed.end())
        changed.emplace_back(kube::name(pod));
  });
  EXPECT_THAT(changed, testing::ElementsAre("db-2", "db-1", "db-0"));
  const json::Value status = node.get(kStatefulSets, "db")["status"];
  EXPECT_EQ(status["currentRevision"], status["updateRevision"]);
  EXPECT_EQ(status["updatedReplicas"].integer(), 3);
  EXPECT_EQ(node.all(kControllerRevisions).size(), 2u);
  std::int64_t before = node.revision();
  node.pass(60s);
  EXPECT_EQ(node.revision(), before);
  node.remove(kStatefulSets, "db");
  node.pass(10s);
  EXPECT_TRUE(node.all(kPods).empty());
  EXPECT_EQ(node.all(kClaims).size(), 3u) << "data stays";
}

TEST(Workloads, AJobForEveryTickAndNoneTwice) {
  Node node;
  node.apply(R"(
apiVersion: batch/v1
kind: CronJob
metadata: {name: tidy}
spec:
  schedule: "*/5 * * * *"
  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: main, image: x}]}}}}
)");
  std::set<std::string> jobs, pods;
  node.pass(31min, [&] {
    for (const json::Value& job : node.all(kJobs)) jobs.insert(std::string(kube::uid(job)));
    for (const json::Value& pod : node.all(kPods)) pods.insert(std::string(kube::uid(pod)));
  });
  EXPECT_EQ(jobs.size(), 6u);
  EXPECT_EQ(pods.size(), 6u);
  EXPECT_EQ(node.all(kJobs).size(), 3u) << "history";
  EXPECT_EQ(node.all(kPods).size(), 3u);
  const json::Value status = node.get(kCronJobs, "tidy")["status"];
  EXPECT_EQ(status["lastScheduleTime"].string(), "2026-01-01T00:30:00Z");
  EXPECT_TRUE(status["active"].isNull());
}

TEST(Workloads, AJobThatFailsIsTriedAgainAndThenGivenUpAndForgotten) {
  Node node;
  node.apply(R"(
apiVersion: batch/v1
kind: Job
metadata: {name: sum}
spec:
  backoffLimit: 2
  ttlSecondsAfterFinished: 60
  template: {spec: {restartPolicy: Never, containers: [{name: main, image: bad}]}}
)");
  node.pass(60s);
  EXPECT_EQ(node.all(kPods).size(), 3u);
  const json::Value job = node.get(kJobs, "sum");
  EXPECT_EQ(kube::findCondition(job, "Failed")->reason, "BackoffLimitExceeded");
  EXPECT_EQ(job["status"]["failed"].integer(), 3);
  node.pass(120s);
  EXPECT_TRUE(node.get(kJobs, "sum").isNull());
  EXPECT_TRUE(node.all(kPods).empty());
}

}  // namespace
}  // namespace cadre::node
