#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "hub/registry.h"
#include "kube/quantity.h"

namespace cadre::hub {

// What a namespace lets its objects have: LimitRanges for each of them, ResourceQuotas for all
// together, and the class of a claim for its size. Of quotas, scopes are not looked at: one with
// scopes limits nothing, and says so.

using Amounts = std::map<std::string, kube::Quantity>;  // "requests.cpu", "count/secrets"

// What an object takes of what quotas count.
Amounts amountsOf(const Kind& kind, const json::Value& object);

// Containers without requests and limits get those of the LimitRanges. Then why the object is
// refused, if it is.
// Whether it gave any.
bool setLimits(const std::vector<json::Value>& ranges, const Kind& kind, json::Value& object);
std::vector<std::string> beyondLimits(const std::vector<json::Value>& ranges, const Kind& kind,
                                      const json::Value& object);

class Limits {
 public:
  Limits(Scheduler& scheduler, Objects& objects, const Kinds& kinds, Registry& registry);

  // Before a write: sets what is missing, and says why it may not be.
  bool complete(Draft& draft) const;
  std::optional<Failure> check(const Draft& draft) const;

  // After one: what is used is written down.
  void told(const Change& change);

 private:
  std::vector<json::Value> inNamespace(std::string_view resource, const std::string& ns) const;
  bool mayGrow(const Draft& draft) const;
  Amounts usedIn(const std::string& ns, const Amounts& counted) const;
  const Amounts& takenBy(const Kind& kind, const State& state) const;
  void writeDown();

  Scheduler& scheduler_;
  Objects& objects_;
  const Kinds& kinds_;
  Registry& registry_;
  struct Taken {
    State of;
    Amounts amounts;
  };
  mutable std::map<std::pair<std::string, kube::ObjectKey>, Taken> taken_;  // as it was read last
  std::set<std::string> outdated_;                                          // namespaces
  Pending writing_;
};

}  // namespace cadre::hub
