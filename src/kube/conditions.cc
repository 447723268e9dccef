#include "kube/conditions.h"

#include <algorithm>

#include "base/format.h"
#include "base/strings.h"
#include "kube/names.h"

namespace cadre::kube {

namespace {

Error invalid(std::string message) {
  return Error{.code = Code::InvalidArgument, .message = std::move(message)};
}

// An upper case letter, then letters, digits and what else Kubernetes allows within a reason.
bool isCamelCase(std::string_view text) {
  auto is_word = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  return !text.empty() && text.front() >= 'A' && text.front() <= 'Z' && is_word(text.back()) &&
         std::ranges::all_of(text, [&](char c) { return is_word(c) || c == ',' || c == ':'; });
}

ConditionStatus readStatus(std::string_view text) {
  if (text == "True") return ConditionStatus::True;
  if (text == "False") return ConditionStatus::False;
  return ConditionStatus::Unknown;
}

bool isOfType(const json::Value& condition, std::string_view type) {
  return condition["type"].isString() && condition["type"].string() == type;
}

}  // namespace

std::string_view conditionStatusName(ConditionStatus status) {
  switch (status) {
    case ConditionStatus::True:
      return "True";
    case ConditionStatus::False:
      return "False";
    case ConditionStatus::Unknown:
      break;
  }
  return "Unknown";
}

std::optional<Condition> findCondition(const json::Value& object, std::string_view type) {
  for (const json::Value& value : object["status"]["conditions"].array())
    if (isOfType(value, type))
      return Condition{
          .type = std::string(type),
          .status = readStatus(value["status"].string()),
          .reason = value["reason"].string(),
          .message = value["message"].string(),
          .observed_generation = value["observedGeneration"].integer(),
          .last_transition_time = parseTime(value["lastTransitionTime"].string()).value_or(Time{})};
  return std::nullopt;
}

bool isConditionTrue(const json::Value& object, std::string_view type) {
  auto condition = findCondition(object, type);
  return condition && condition->status == ConditionStatus::True;
}

Result<bool> setCondition(json::Array& conditions, const Condition& condition, Time now) {
  if (auto problem = checkQualifiedName(condition.type))
    return invalid("the condition type " + *problem);
  if (!isCamelCase(condition.reason))
    return invalid(
        format("the condition {} has the reason {}, which is not CamelCase: write one or more "
               "words without spaces, such as WaitingForModel",
               condition.type, inQuotes(condition.reason)));
  if (condition.reason.size() > kMaxConditionReason)
    return invalid(
        format("the condition {} has a reason of {} characters, at most {} are "
               "allowed: put the details into the message",
               condition.type, condition.reason.size(), kMaxConditionReason));

  auto of_type = [&](const json::Value& value) { return isOfType(value, condition.type); };
  auto place = std::ranges::find_if(conditions, of_type);
  bool is_new = place == conditions.end();
  json::Value updated = is_new ? json::Value(json::Object{}) : *place;
  std::string_view status = conditionStatusName(condition.status);
  bool moved =
      updated["status"].string() != status || !parseTime(updated["lastTransitionTime"].string());
  updated.make("type") = condition.type;
  updated.make("status") = status;
  updated.make("reason") = condition.reason;
  updated.make("message") = shorten(condition.message, kMaxConditionMessage);
  if (moved) updated.make("lastTransitionTime") = formatTime(now);
  if (condition.observed_generation != 0)
    updated.make("observedGeneration") = condition.observed_generation;
  else
    updated.makeObject().erase("observedGeneration");

  if (is_new) {
    conditions.push_back(std::move(updated));
    return true;
  }
  bool changed = !(updated == *place);
  if (changed) *place = std::move(updated);
  auto doubles = std::remove_if(place + 1, conditions.end(), of_type);
  changed = changed || doubles != conditions.end();
  conditions.erase(doubles, conditions.end());
  return changed;
}

}  // namespace cadre::kube
