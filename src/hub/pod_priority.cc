#include "hub/pod_priority.h"

#include "base/format.h"

namespace cadre::hub {
namespace {

using json::Value;

constexpr std::string_view kClasses = "scheduling.k8s.io/priorityclasses";
constexpr std::string_view kPreempts = "PreemptLowerPriority";

// Of those that are marked as the default the lowest, as on a cluster; what holds without any.
Value defaultClass(const Objects& objects) {
  Value lowest;
  for (const auto& [key, state] : objects.all(kClasses)) {
    Value one = state->value();
    if (one["globalDefault"].boolean() &&
        (lowest.isNull() || one["value"].integer() < lowest["value"].integer()))
      lowest = std::move(one);
  }
  if (lowest.isNull()) lowest = json::Object{{"value", 0}, {"preemptionPolicy", kPreempts}};
  return lowest;
}

}  // namespace

Outcome<bool> givePriority(Draft& draft, const Objects& objects) {
  if (draft.kind->storage != "pods" || !draft.writing.subresource.empty()) return false;
  Value& spec = draft.object.make("spec");
  if (draft.before) {  // it never changes, and need not be said again
    bool changed = false;
    for (std::string_view field : {"priority", "preemptionPolicy"})
      if (const Value& had = draft.old["spec"][field]; spec[field].isNull() && !had.isNull()) {
        spec.make(field) = had;
        changed = true;
      }
    return changed;
  }
  auto refused = [&](std::string_view why) {
    return forbidden(draft.kind->resource, draft.key.name, why);
  };
  Value found;
  const std::string name = spec["priorityClassName"].string();
  if (name.empty()) {
    found = defaultClass(objects);
  } else if (State state = objects.find(kClasses, {"", name})) {
    found = state->value();
  } else {
    return refused(format("no PriorityClass with name {} was found", name));
  }
  const std::int64_t priority = found["value"].integer();
  if (const Value& own = spec["priority"]; !own.isNull() && own.integer() != priority)
    return refused(
        format("the integer value of priority ({}) must not be provided in pod spec; priority "
               "admission controller computed {} from the given PriorityClass name",
               own.integer(), priority));
  const std::string& policy = found["preemptionPolicy"].string();
  if (const Value& own = spec["preemptionPolicy"]; !own.isNull() && own.string() != policy)
    return refused(
        format("the string value of PreemptionPolicy ({}) must not be provided in pod spec; "
               "priority admission controller computed {} from the given PriorityClass name",
               own.string(), policy));
  bool changed = spec["priority"].isNull() || spec["preemptionPolicy"].isNull();
  if (name.empty() && !kube::name(found).empty()) {
    spec.make("priorityClassName") = kube::name(found);
    changed = true;
  }
  spec.make("priority") = priority;
  spec.make("preemptionPolicy") = policy;
  return changed;
}

}  // namespace cadre::hub
