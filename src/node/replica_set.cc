#include "base/format.h"
#include "node/pods.h"
#include "node/workloads.h"

namespace cadre::node {

// As many pods as it says. A pod that is finished or goes is replaced at once, by one of another
// name.
engine::Plan planReplicaSet(const json::Value& set, engine::World& world) {
  engine::Plan plan;
  if (kube::isDeleting(set)) return plan;  // its pods go with it
  const json::Value& spec = set["spec"];
  const std::int64_t wanted = spec["replicas"].integer(1);
  auto pods = podsOf(world, kube::uid(set));

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
    plan.children.push_back(
        {.resource = kPods,
         .object = podFrom(spec["template"], kube::ns(set),
                           freeName(prefix, kube::uid(set), pods, tried), prefix),
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
