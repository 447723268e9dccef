#include "kube/health.h"

#include "base/format.h"
#include "kube/conditions.h"
#include "kube/meta.h"

namespace cadre::kube {
namespace {

using State = Health::State;

Health progressing(std::string why) { return {State::Progressing, std::move(why)}; }
Health failed(std::string why) { return {State::Failed, std::move(why)}; }

// A condition that has to be True.
Health needs(const json::Value& object, std::string_view type) {
  auto condition = findCondition(object, type);
  if (condition && condition->status == ConditionStatus::True) return {};
  if (!condition) return progressing(format("it is not {} yet", type));
  return progressing(format("{} is {}: {}", type, conditionStatusName(condition->status),
                            condition->message.empty() ? condition->reason : condition->message));
}

// Counts in the status that have to reach what is wanted.
Health reaches(const json::Value& status, std::int64_t wanted,
               std::initializer_list<std::string_view> counts) {
  for (std::string_view count : counts)
    if (status[count].integer() < wanted)
      return progressing(format("{} is {} of {}", count, status[count].integer(), wanted));
  return {};
}

std::int64_t replicasOf(const json::Value& object) {
  const json::Value& given = object["spec"]["replicas"];
  return given.isNull() ? 1 : given.integer();
}

Health ofDeployment(const json::Value& object) {
  const json::Value& status = object["status"];
  if (auto progress = findCondition(object, "Progressing");
      progress && progress->reason == "ProgressDeadlineExceeded")
    return failed(progress->message);
  std::int64_t wanted = replicasOf(object);
  if (Health health = reaches(status, wanted, {"updatedReplicas", "availableReplicas"});
      !health.ok())
    return health;
  if (status["replicas"].integer() > status["updatedReplicas"].integer())
    return progressing("older replicas are still going");
  return {};
}

Health ofStatefulSet(const json::Value& object) {
  const json::Value& status = object["status"];
  if (Health health = reaches(status, replicasOf(object), {"readyReplicas"}); !health.ok())
    return health;
  if (object["spec"]["updateStrategy"]["type"].string() != "OnDelete" &&
      status["currentRevision"] != status["updateRevision"])
    return progressing("it is being updated");
  return {};
}

Health ofJob(const json::Value& object) {
  if (isConditionTrue(object, "Failed")) return failed(findCondition(object, "Failed")->message);
  return needs(object, "Complete");
}

Health ofPod(const json::Value& object) {
  const std::string& phase = object["status"]["phase"].string();
  if (phase == "Succeeded") return {};
  if (phase == "Failed") return failed(object["status"]["message"].string());
  return needs(object, "Ready");
}

}  // namespace

Health healthOf(const json::Value& object) {
  if (isDeleting(object)) return progressing("it is being deleted");
  const json::Value& status = object["status"];
  const json::Value& observed = status["observedGeneration"];
  if (!observed.isNull() && observed.integer() < generation(object))
    return progressing("its last change has not been seen yet");
  auto gvk = GroupVersionKind::of(object);
  if (!gvk) return {};
  const std::string& kind = gvk->kind;
  if (gvk->group == "apps") {
    if (observed.isNull()) return progressing("it has not been seen yet");
    if (kind == "Deployment") return ofDeployment(object);
    if (kind == "StatefulSet") return ofStatefulSet(object);
    if (kind == "ReplicaSet") return reaches(status, replicasOf(object), {"availableReplicas"});
    if (kind == "DaemonSet")
      return reaches(status, status["desiredNumberScheduled"].integer(),
                     {"updatedNumberScheduled", "numberAvailable"});
  }
  if (gvk->group == "batch" && kind == "Job") return ofJob(object);
  if (gvk->group == "apiextensions.k8s.io") return needs(object, "Established");
  if (gvk->group.empty()) {
    if (kind == "Pod") return ofPod(object);
    if (kind == "PersistentVolumeClaim" && status["phase"].string() != "Bound")
      return progressing("it is not bound yet");
    if (kind == "Service" && object["spec"]["type"].string() == "LoadBalancer" &&
        status["loadBalancer"]["ingress"].array().empty())
      return progressing("it has no address yet");
  }
  if (findCondition(object, "Ready")) return needs(object, "Ready");
  return {};
}

}  // namespace cadre::kube
