#include "node/network_policies.h"

#include "node/pods.h"

namespace cadre::node {
namespace {

using json::Value;

// So that most changes of a pod are none here.
Value whatCounts(const Value& pod) {
  auto portsOf = [&](std::string_view list) {
    json::Array out;
    for (const Value& container : pod["spec"][list].array())
      if (!container["ports"].array().empty())
        out.push_back(json::Object{{"ports", container["ports"]}});
    return out;
  };
  return json::Object{
      {"metadata",
       json::Object{{"namespace", kube::ns(pod)}, {"labels", pod["metadata"]["labels"]}}},
      {"spec", json::Object{{"initContainers", portsOf("initContainers")},
                            {"containers", portsOf("containers")}}},
      {"status", json::Object{{"podIP", isFinished(pod) ? Value() : pod["status"]["podIP"]}}}};
}

}  // namespace

NetworkPolicies::NetworkPolicies(net::Loop& loop, kube::Client& client, Random& random,
                                 Function<void()> changed)
    : loop_(loop),
      changed_(std::move(changed)),
      policies_(client, {.resource = kNetworkPolicies}, random,
                [this](const auto&) { lookSoon(); }),
      namespaces_(client, {.resource = kNamespaces}, random, [this](const auto&) { lookSoon(); }) {}

void NetworkPolicies::see(const Value& pod) {
  Value now = whatCounts(pod);
  Value& known = pods_[std::string(kube::uid(pod))];
  if (known == now) return;
  known = std::move(now);
  lookSoon();
}

void NetworkPolicies::forget(const std::string& uid) {
  if (pods_.erase(uid) > 0) lookSoon();
}

void NetworkPolicies::lookSoon() {
  is_old_ = true;
  soon_ = loop_.after(0s, [this] { changed_(); });
}

Policy NetworkPolicies::of(const std::string& uid) {
  if (std::exchange(is_old_, false)) {
    std::vector<Value> policies, pods;
    std::map<std::string, Value> namespaces;
    policies_.forEach([&](const auto&, const Value& policy) { policies.push_back(policy); });
    namespaces_.forEach([&](const kube::ObjectKey& key, const Value& one) {
      namespaces[key.name] = one["metadata"]["labels"];
    });
    if (!policies.empty())  // else nobody asks who they are
      for (const auto& [one, pod] : pods_) pods.push_back(pod);
    table_ = PolicyTable(policies, pods, namespaces);
  }
  auto known = pods_.find(uid);
  return known == pods_.end() ? Policy::parse(Value()) : table_.of(known->second);
}

}  // namespace cadre::node
