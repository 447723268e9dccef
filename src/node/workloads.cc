#include "node/workloads.h"

#include "node/pods.h"

namespace cadre::node {

std::vector<engine::Served> workloadKinds(const std::string& authority) {
  std::vector<engine::Served> kinds;
  kinds.push_back(
      {.resource = kReplicaSets, .plan = planReplicaSet, .conditions = {"ReplicaFailure"}});
  kinds.push_back({.resource = kDeployments,
                   .plan = planDeployment,
                   .conditions = {"Available", "Progressing", "ReplicaFailure"}});
  kinds.push_back({.resource = kStatefulSets, .plan = planStatefulSet});
  kinds.push_back(
      {.resource = kJobs,
       .plan = planJob,
       .conditions = {"Suspended", "SuccessCriteriaMet", "Complete", "FailureTarget", "Failed"}});
  kinds.push_back({.resource = kCronJobs, .plan = planCronJob});
  kinds.push_back({.resource = kClaims, .plan = planClaim});
  kinds.push_back({.resource = kServices, .plan = planService});
  kinds.push_back({.resource = kNamespaces,
                   .plan = [authority](const json::Value& object, engine::World& world) {
                     return planNamespace(object, world, authority);
                   }});
  kinds.push_back({.resource = kIngresses, .plan = planIngress});
  return kinds;
}

std::vector<engine::Scope> workloadScopes() {
  return {
      {.resource = kPods, .which = engine::Scope::Which::All, .indexes = {kByNamespace, kOrphans}},
      {.resource = kSlices, .which = engine::Scope::Which::All},
      {.resource = kIngressClasses, .which = engine::Scope::Which::All},
      {.resource = kControllerRevisions, .which = engine::Scope::Which::All},
      {.resource = kServiceAccounts, .which = engine::Scope::Which::All},
      {.resource = kConfigMaps, .which = engine::Scope::Which::None, .named = true}};
}

}  // namespace cadre::node
