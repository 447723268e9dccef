#include <algorithm>

#include "base/format.h"
#include "kube/selector.h"
#include "node/pods.h"
#include "node/workloads.h"

namespace cadre::node {
namespace {

// The owners of a pod, with the set among them or without it.
json::Value owners(const json::Value& pod, const json::Value& set, bool owned) {
  json::Array all;
  for (const json::Value& owner : pod["metadata"]["ownerReferences"].array())
    if (owner["uid"].string() != kube::uid(set)) all.push_back(owner);
  if (owned)
    all.push_back(json::Object{{"apiVersion", kReplicaSets.apiVersion()},
                               {"kind", kReplicaSets.kind},
                               {"name", kube::name(set)},
                               {"uid", kube::uid(set)},
                               {"controller", true},
                               {"blockOwnerDeletion", true}});
  return all.empty() ? json::Value() : json::Value(std::move(all));
}

// Its pods: those that match and have no owner are taken, those that match no longer are let go.
std::vector<const json::Value*> claim(const json::Value& set, engine::World& world,
                                      engine::Plan& plan) {
  auto pods = podsOf(world, kube::uid(set));
  auto selector = kube::LabelSelector::fromObject(set["spec"]["selector"]);
  if (!selector || selector->matchesEverything()) return pods;
  auto matches = [&](const json::Value* pod) {
    return selector->matches((*pod)["metadata"]["labels"].object());
  };
  auto amend = [&](const json::Value* pod, bool owned) {
    plan.amendments.push_back({{kPods, kube::ObjectKey::of(*pod)},
                               json::Object{{"ownerReferences", owners(*pod, set, owned)}}});
  };
  std::erase_if(pods, [&](const json::Value* pod) {
    bool goes = !matches(pod);
    if (goes) amend(pod, false);
    return goes;
  });
  for (const json::Value* pod : world.list(kPods, kOrphans, kube::ns(set)))
    if (matches(pod) && isAlive(*pod)) {
      amend(pod, true);
      pods.push_back(pod);
    }
  return pods;
}

}  // namespace

// As many pods as it says. A pod that is finished or goes is replaced at once, by one of another
// name.
engine::Plan planReplicaSet(const json::Value& set, engine::World& world) {
  engine::Plan plan;
  if (kube::isDeleting(set)) return plan;  // its pods go with it
  const json::Value& spec = set["spec"];
  const std::int64_t wanted = spec["replicas"].integer(1);
  auto pods = claim(set, world, plan);

  std::vector<const json::Value*> alive;
  std::int64_t ready = 0, available = 0;
  for (const json::Value* pod : pods) {
    if (isFinished(*pod) && !kube::isDeleting(*pod))
      plan.removals.push_back({kPods, kube::ObjectKey::of(*pod)});
    if (!isAlive(*pod)) continue;
    alive.push_back(pod);
    ready += isReady(*pod);
    available += isAvailable(*pod, spec["minReadySeconds"].integer(), world);
  }
  const auto there = static_cast<std::int64_t>(alive.size());
  auto least = byWorth(alive);
  for (std::int64_t i = 0; i < there - wanted; ++i)
    plan.removals.push_back({kPods, kube::ObjectKey::of(*least[static_cast<std::size_t>(i)])});
  std::string prefix = format("{}-", kube::name(set));
  int tried = 0;
  for (std::int64_t i = there; i < wanted; ++i)
    plan.children.push_back({.resource = kPods,
                             .object = podFrom(spec["template"], kube::ns(set),
                                               freeName(prefix, set, world, tried), prefix),
                             .keep = engine::Child::Keep::Once});

  plan.status.set("replicas", there);
  setCount(plan.status, "fullyLabeledReplicas", there);
  setCount(plan.status, "readyReplicas", ready);
  setCount(plan.status, "availableReplicas", available);
  if (!world.troubles().empty())
    plan.condition("ReplicaFailure", true, "FailedCreate", world.troubles()[0].message);
  return plan;
}

}  // namespace cadre::node
