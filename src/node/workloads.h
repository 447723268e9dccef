#pragma once

#include "engine/engine.h"

namespace cadre::node {

// The kinds of workloads that every cluster has, as plans: what their controllers do elsewhere.
// Children are known by their owners alone, and carry no label of ours.

// All of them, for an engine; and what else they look at and make. `authority`: the certificate by
// which pods know the API.
std::vector<engine::Served> workloadKinds(const std::string& authority = {});
std::vector<engine::Scope> workloadScopes();

engine::Plan planReplicaSet(const json::Value& set, engine::World& world);
engine::Plan planDeployment(const json::Value& deployment, engine::World& world);
engine::Plan planStatefulSet(const json::Value& set, engine::World& world);
engine::Plan planJob(const json::Value& job, engine::World& world);
engine::Plan planService(const json::Value& service, engine::World& world);
engine::Plan planNamespace(const json::Value& object, engine::World& world,
                           const std::string& authority);
engine::Plan planIngress(const json::Value& ingress, engine::World& world);
engine::Plan planClaim(const json::Value& claim, engine::World& world);
engine::Plan planCronJob(const json::Value& cron_job, engine::World& world);

// The class that Ingresses have where they name none; its annotation says at which port they are
// served. 0: at none yet.
inline constexpr std::string_view kIngressPort = "cadre.dev/port";
json::Value ingressClass(std::uint16_t port);

}  // namespace cadre::node
