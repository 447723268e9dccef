#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "json/value.h"
#include "net/filter.h"

namespace cadre::node {

// What NetworkPolicies let a pod take and send. A value, which travels as JSON to the sandbox of
// that pod.
struct Policy {
  // Nothing: no policy isolates the pod in this direction, and all is allowed.
  std::optional<std::vector<net::Traffic>> ingress, egress;
  // Not empty: there was more than can be kept, in words. Then that direction is closed.
  std::string trouble;

  json::Value toJson() const;
  // Of what is no policy both directions are closed.
  static Policy parse(const json::Value& value);
  bool operator==(const Policy&) const = default;
};

// All NetworkPolicies, with the pods and namespaces that they speak of. Pure, immutable.
class PolicyTable {
 public:
  // The most that one pod may be allowed in one direction.
  static constexpr std::size_t kMost = 10'000;

  PolicyTable() = default;
  // `namespaces`: their labels, by name. Of pods only labels, ports and addresses count, and
  // whether they have ended: those have no address any more.
  PolicyTable(const std::vector<json::Value>& policies, const std::vector<json::Value>& pods,
              const std::map<std::string, json::Value>& namespaces);

  Policy of(const json::Value& pod) const;

 private:
  struct One;
  std::shared_ptr<const std::vector<One>> policies_;
};

}  // namespace cadre::node
