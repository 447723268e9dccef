#include "kube/meta.h"
#include "node/pods.h"
#include "node/workloads.h"

namespace cadre::node {

// What pods of every namespace count on: an account, and the authority by which they know the API.
engine::Plan planNamespace(const json::Value& object, engine::World& world,
                           const std::string& authority) {
  engine::Plan plan;
  if (kube::isDeleting(object)) return plan;
  auto add = [&](const kube::Resource& resource, std::string_view name, json::Object fields) {
    fields.set("metadata", json::Object{{"name", name}, {"namespace", kube::name(object)}});
    plan.children.push_back({.resource = resource,
                             .object = std::move(fields),
                             .keep = engine::Child::Keep::Once,
                             .owned = false});
    // Read, so that it is made again when somebody takes it away: it is not owned.
    (void)world.get(resource, {std::string(kube::name(object)), std::string(name)});
  };
  add(kServiceAccounts, "default", {});
  add(kConfigMaps, "kube-root-ca.crt", {{"data", json::Object{{"ca.crt", authority}}}});
  return plan;
}

}  // namespace cadre::node
