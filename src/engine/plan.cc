#include "engine/plan.h"

namespace cadre::engine {

const kube::Condition* Plan::find(std::string_view type) const {
  for (const kube::Condition& condition : conditions)
    if (condition.type == type) return &condition;
  return nullptr;
}

bool Plan::holds(std::string_view type) const {
  const kube::Condition* found = find(type);
  return found && found->status == kube::ConditionStatus::True;
}

}  // namespace cadre::engine
