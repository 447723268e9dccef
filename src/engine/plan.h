#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/object.h"
#include "kube/conditions.h"
#include "kube/config.h"

namespace cadre::engine {

// Something that should exist.
struct Child {
  enum class Keep {
    InStep,  // made, repaired, and pruned when no plan returns it any more
    Once,    // made under its name, then never changed and never pruned
  };
  // What to do where the server refuses to change a field that differs.
  enum class Immutable { Report, Replace };

  kube::Resource resource;
  json::Value object;  // with apiVersion, kind, name and namespace; exactly the fields that we mean
  Keep keep = Keep::InStep;
  Immutable immutable = Immutable::Report;
  // Else it stays when the object goes, and whatever has its name will do: for what is made once.
  bool owned = true;
  // Waits until every child of a lower wave is there, as wanted, and healthy (kube/health.h).
  int wave = 0;
  kube::Impersonation as = {};  // whose rights it is written with; empty: ours
  // Of a Secret that is made once: keys that get a random value when it is made, behind this
  // prefix.
  std::map<std::string, std::string> generate = {};

  Ref ref() const { return {resource, kube::ObjectKey::of(object)}; }
};

// What metadata has to say, beside what a child says of itself: a merge patch.
struct Amendment {
  Ref ref;
  json::Value metadata;
};

// Told once per id: what is no transition of a condition.
struct Event {
  std::string id;
  bool warning = false;
  std::string reason, message;
};

// Something that must happen once outside of the cluster, such as a call. The intent is all that it
// needs, and is written to the status before it begins: whoever comes after a crash goes on with
// it. It is done again only under another id, and cancelled when no plan returns it any more.
struct Act {
  std::string id;    // of this doing, among the object's
  std::string what;  // the class, which says how it is done
  json::Value intent;
};

// What should be, for one object: its children, and what its status says. Made by a plan function,
// which is pure: it looks at nothing but the object and its World.
struct Plan {
  std::vector<Child> children;
  std::vector<Ref> removals;          // deleted now: its own, or the object itself
  std::vector<Amendment> amendments;  // of what it takes, which has no owner, or lets go
  // Something is missing: nothing that exists is changed or pruned, and nothing new is made.
  bool hold = false;
  std::vector<kube::Condition> conditions;
  json::Object status;  // everything but conditions and observedGeneration
  // Of the object itself, written along with its status: so they are no change of what is wanted.
  // Built-in kinds alone allow for it.
  std::map<std::string, std::string> annotations;
  std::vector<Event> events;
  std::vector<Act> acts;
  // A finalizer of ours that the object must have before anything is made for it. It goes when the
  // object is being deleted, no child is returned and none is left.
  std::string finalizer;
  std::vector<std::string> foreign_finalizers;  // removed on sight

  void child(kube::Resource resource, json::Value object) {
    children.push_back({std::move(resource), std::move(object)});
  }
  void condition(std::string type, bool holds, std::string reason, std::string message = {}) {
    condition(std::move(type), holds ? kube::ConditionStatus::True : kube::ConditionStatus::False,
              std::move(reason), std::move(message));
  }
  void condition(std::string type, kube::ConditionStatus status, std::string reason,
                 std::string message = {}) {
    conditions.push_back({.type = std::move(type),
                          .status = status,
                          .reason = std::move(reason),
                          .message = std::move(message)});
  }
  // The condition of this type, as the plan has it so far; null when it has none.
  const kube::Condition* find(std::string_view type) const;
  bool holds(std::string_view type) const;
};

}  // namespace cadre::engine
