#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"
#include "json/value.h"

namespace cadre::kube {

enum class ConditionStatus { True, False, Unknown };

std::string_view conditionStatusName(ConditionStatus status);  // "True", "False", "Unknown"

// One thing that an object's status says about it.
struct Condition {
  std::string type;  // "Ready"
  ConditionStatus status = ConditionStatus::Unknown;
  std::string reason = {};  // a word in CamelCase, for programs
  std::string message = {};
  std::int64_t observed_generation = 0;  // 0 when it is not told
  Time last_transition_time = {};        // the epoch when it is not told

  bool operator==(const Condition&) const = default;
};

// A longer message is cut: the API server would refuse it.
inline constexpr std::size_t kMaxConditionMessage = 32768;
inline constexpr std::size_t kMaxConditionReason = 1024;

// The first condition of that type in the object's status. What is of the wrong type in it reads as
// empty, a status that is neither True nor False as Unknown.
std::optional<Condition> findCondition(const json::Value& object, std::string_view type);
// Whether the object has that condition and it is True.
bool isConditionTrue(const json::Value& object, std::string_view type);

// Puts the condition into the list: in the place of the one of its type, with members that are not
// ours kept, or at the end. Its last_transition_time is not looked at: what is in the list stays
// until the status changes, then it is `now`. Conditions of other types are untouched; a second one
// of the same type goes. True when anything in the list changed.
//
// InvalidArgument, with the list as it was, when the type is no qualified name or the reason is not
// CamelCase.
Result<bool> setCondition(json::Array& conditions, const Condition& condition, Time now);

}  // namespace cadre::kube
