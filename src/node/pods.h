#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/world.h"

namespace cadre::node {

extern const kube::Resource kPods, kReplicaSets, kDeployments, kJobs, kCronJobs, kStatefulSets,
    kControllerRevisions, kClaims, kServices, kSlices, kNamespaces, kServiceAccounts, kConfigMaps,
    kIngresses, kIngressClasses, kNetworkPolicies;
// Pods by where they are; and those of them that nobody controls.
extern const engine::Index kByNamespace, kOrphans;

// What there is to say of pods, for those who make them. Pure.

bool isReady(const json::Value& pod);
// Since when it is ready; the epoch when it is not.
Time readySince(const json::Value& pod);
bool isFinished(const json::Value& pod);  // it has succeeded or failed, for good
// Neither finished nor going.
bool isAlive(const json::Value& pod);

// Ready for so many seconds. Asks to be looked at again when that will be so.
bool isAvailable(const json::Value& pod, std::int64_t min_ready_seconds, engine::World& world);

// Those whose controller is that object, by name; also those that are going.
std::vector<const json::Value*> podsOf(engine::World& world, std::string_view owner_uid);

// A pod as a template describes it.
json::Value podFrom(const json::Value& pod_template, std::string_view ns, std::string name,
                    std::string_view name_prefix);
// "web-7d9c5-x2k4f": the first of many such that no pod has.
std::string freeName(std::string_view prefix, const json::Value& owner, engine::World& world,
                     int& tried);

// The least worth keeping first: those that do not run, are not ready, got ready last, were
// restarted most, are the youngest.
std::vector<const json::Value*> byWorth(std::vector<const json::Value*> pods);

// "25%" of so many, or as many as it says.
std::int64_t share(const json::Value& count_or_percent, std::int64_t of, bool round_up);

// A count for a status, where API servers leave out 0.
void setCount(json::Object& status, std::string_view name, std::int64_t count);

}  // namespace cadre::node
