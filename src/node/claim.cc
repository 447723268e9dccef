#include "node/pods.h"
#include "node/workloads.h"

namespace cadre::node {

// Every claim is a folder, made when the first pod has it: there is nothing to wait for.
engine::Plan planClaim(const json::Value& claim, engine::World&) {
  engine::Plan plan;
  if (kube::isDeleting(claim)) return plan;
  const json::Value& spec = claim["spec"];
  plan.status.set("phase", "Bound");
  plan.status.set("accessModes", spec["accessModes"]);
  plan.status.set("capacity", json::Object{{"storage", spec["resources"]["requests"]["storage"]}});
  return plan;
}

}  // namespace cadre::node
