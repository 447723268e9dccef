#include "node/pods.h"

#include <algorithm>
#include <tuple>

#include "base/format.h"
#include "base/strings.h"
#include "kube/conditions.h"

namespace cadre::node {

const kube::Resource kPods{.version = "v1", .plural = "pods", .kind = "Pod"};
const kube::Resource kReplicaSets{
    .group = "apps", .version = "v1", .plural = "replicasets", .kind = "ReplicaSet"};
const kube::Resource kDeployments{
    .group = "apps", .version = "v1", .plural = "deployments", .kind = "Deployment"};
const kube::Resource kJobs{.group = "batch", .version = "v1", .plural = "jobs", .kind = "Job"};
const kube::Resource kCronJobs{
    .group = "batch", .version = "v1", .plural = "cronjobs", .kind = "CronJob"};
const kube::Resource kStatefulSets{
    .group = "apps", .version = "v1", .plural = "statefulsets", .kind = "StatefulSet"};
const kube::Resource kControllerRevisions{.group = "apps",
                                          .version = "v1",
                                          .plural = "controllerrevisions",
                                          .kind = "ControllerRevision"};
const kube::Resource kClaims{
    .version = "v1", .plural = "persistentvolumeclaims", .kind = "PersistentVolumeClaim"};

const kube::Resource kServices{.version = "v1", .plural = "services", .kind = "Service"};
const kube::Resource kSlices{.group = "discovery.k8s.io",
                             .version = "v1",
                             .plural = "endpointslices",
                             .kind = "EndpointSlice"};
const kube::Resource kNamespaces{
    .version = "v1", .plural = "namespaces", .kind = "Namespace", .namespaced = false};
const kube::Resource kServiceAccounts{
    .version = "v1", .plural = "serviceaccounts", .kind = "ServiceAccount"};
const kube::Resource kConfigMaps{.version = "v1", .plural = "configmaps", .kind = "ConfigMap"};
const kube::Resource kIngresses{
    .group = "networking.k8s.io", .version = "v1", .plural = "ingresses", .kind = "Ingress"};
const kube::Resource kIngressClasses{.group = "networking.k8s.io",
                                     .version = "v1",
                                     .plural = "ingressclasses",
                                     .kind = "IngressClass",
                                     .namespaced = false};
const kube::Resource kNetworkPolicies{.group = "networking.k8s.io",
                                      .version = "v1",
                                      .plural = "networkpolicies",
                                      .kind = "NetworkPolicy"};
const engine::Index kByNamespace{"namespace", [](const json::Value& object) {
                                   return std::vector{std::string(kube::ns(object))};
                                 }};
const engine::Index kOrphans{"orphans", [](const json::Value& object) {
                               std::vector<std::string> found;
                               if (!kube::controllerOf(object))
                                 found.emplace_back(kube::ns(object));
                               return found;
                             }};

bool isReady(const json::Value& pod) { return kube::isConditionTrue(pod, "Ready"); }

Time readySince(const json::Value& pod) {
  auto ready = kube::findCondition(pod, "Ready");
  bool holds = ready && ready->status == kube::ConditionStatus::True;
  return holds ? ready->last_transition_time : Time();
}

bool isFinished(const json::Value& pod) {
  const std::string& phase = pod["status"]["phase"].string();
  return phase == "Succeeded" || phase == "Failed";
}

bool isAlive(const json::Value& pod) { return !isFinished(pod) && !kube::isDeleting(pod); }

bool isAvailable(const json::Value& pod, std::int64_t min_ready_seconds, engine::World& world) {
  if (!isReady(pod)) return false;
  if (min_ready_seconds <= 0) return true;
  Time then = readySince(pod) + std::chrono::seconds(min_ready_seconds);
  if (then <= world.now()) return true;
  world.due(then);
  return false;
}

std::vector<const json::Value*> podsOf(engine::World& world, std::string_view owner_uid) {
  auto pods = world.list(kPods, engine::kByOwner, owner_uid);
  std::erase_if(pods, [&](const json::Value* pod) {
    auto owner = kube::controllerOf(*pod);
    return !owner || owner->uid != owner_uid;
  });
  return pods;
}

json::Value podFrom(const json::Value& pod_template, std::string_view ns, std::string name,
                    std::string_view name_prefix) {
  json::Value metadata = json::Object{{"name", std::move(name)}, {"namespace", ns}};
  for (std::string_view field : {"labels", "annotations", "finalizers"})
    if (const json::Value& given = pod_template["metadata"][field]; !given.isNull())
      metadata.make(field) = given;
  metadata.make("generateName") = name_prefix;
  return json::Object{{"metadata", std::move(metadata)}, {"spec", pod_template["spec"]}};
}

constexpr engine::View kIsThere{"is there", [](const json::Value&) { return json::Value(true); }};

std::string freeName(std::string_view prefix, const json::Value& owner, engine::World& world,
                     int& tried) {
  for (;;) {
    std::string hash = shortHash(format("{} {}", kube::uid(owner), tried++));
    std::string name = format("{}{}", prefix, hash.substr(0, 5));
    if (world.get(kPods, {std::string(kube::ns(owner)), name}, kIsThere).isNull()) return name;
  }
}

std::vector<const json::Value*> byWorth(std::vector<const json::Value*> pods) {
  auto worth = [](const json::Value* pod) {
    std::int64_t restarts = 0;
    for (const json::Value& container : (*pod)["status"]["containerStatuses"].array())
      restarts += container["restartCount"].integer();
    bool runs = (*pod)["status"]["phase"].string() == "Running";
    // Later times are worth less; ISO times sort as texts do.
    return std::tuple(runs, isReady(*pod), -readySince(*pod).time_since_epoch().count(), -restarts);
  };
  std::ranges::stable_sort(pods, [&](const json::Value* a, const json::Value* b) {
    auto of_a = worth(a), of_b = worth(b);
    if (of_a != of_b) return of_a < of_b;
    auto age = [](const json::Value* pod) -> const std::string& {
      return (*pod)["metadata"]["creationTimestamp"].string();
    };
    return age(a) > age(b);
  });
  return pods;
}

std::int64_t share(const json::Value& count_or_percent, std::int64_t of, bool round_up) {
  if (!count_or_percent.isString()) return count_or_percent.integer();
  std::string_view text = count_or_percent.string();
  if (!text.ends_with('%')) return parseInt(text).value_or(0);
  std::int64_t hundredths = parseInt(text.substr(0, text.size() - 1)).value_or(0) * of;
  return (hundredths + (round_up ? 99 : 0)) / 100;
}

void setCount(json::Object& status, std::string_view name, std::int64_t count) {
  if (count != 0) status.set(name, count);
}

}  // namespace cadre::node
