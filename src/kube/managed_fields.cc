#include "kube/managed_fields.h"

#include <algorithm>

#include "json/parse.h"

namespace cadre::kube {
namespace {

// Whether a list's element has the keys, as {"containerPort":80}.
bool hasKeys(const json::Value& element, const json::Value& keys) {
  return std::all_of(keys.object().begin(), keys.object().end(),
                     [&](const auto& key) { return element[key.first] == key.second; });
}

const json::Value& elementOf(const json::Value& list, const json::Value& keys) {
  static const json::Value none;
  for (const json::Value& element : list.array())
    if (hasKeys(element, keys)) return element;
  return none;
}

bool isEmpty(const json::Value& value) {
  return (value.isObject() && value.object().empty()) || (value.isArray() && value.array().empty());
}

// Takes away what `fields` (a fieldsV1) names, `wanted` does not have, and nobody else holds.
void drop(json::Value& object, const json::Value& fields, const json::Value& wanted,
          const std::vector<const json::Value*>& held, bool leaves) {
  auto below = [&](const std::string& step) {
    std::vector<const json::Value*> more;
    for (const json::Value* one : held)
      if (!(*one)[step].isNull()) more.push_back(&(*one)[step]);
    return more;
  };
  for (const auto& [step, inside] : fields.object()) {
    auto others = below(step);
    if (step.starts_with("f:")) {
      std::string name = step.substr(2);
      if (!object.isObject() || object[name].isNull()) continue;
      const json::Value& want = wanted[name];
      if (isEmpty(inside)) {
        if (leaves && want.isNull() && others.empty()) object.makeObject().erase(name);
        continue;
      }
      json::Value& member = object.make(name);
      drop(member, inside, want, others, leaves);
      if (want.isNull() && others.empty() && isEmpty(member)) object.makeObject().erase(name);
    } else if (step.starts_with("k:") && object.isArray()) {
      auto keys = json::parse(step.substr(2));
      if (!keys) continue;
      const json::Value& want = elementOf(wanted, *keys);
      json::Array& list = object.makeArray();
      auto element = std::find_if(list.begin(), list.end(),
                                  [&](const json::Value& one) { return hasKeys(one, *keys); });
      if (element == list.end()) continue;
      if (want.isNull() && others.empty()) {
        list.erase(element);
      } else {
        drop(*element, inside, want, others, leaves);
      }
    } else if (step.starts_with("v:") && object.isArray()) {
      auto value = json::parse(step.substr(2));
      if (!value || !others.empty()) continue;
      const json::Array& wants = wanted.array();
      if (std::find(wants.begin(), wants.end(), *value) == wants.end())
        std::erase(object.makeArray(), *value);
    }
  }
}

}  // namespace

json::Value withoutDropped(json::Value object, std::string_view manager,
                           const json::Value& wanted) {
  const json::Value entries = object["metadata"]["managedFields"];
  std::vector<const json::Value*> held;
  for (const json::Value& entry : entries.array())
    if (entry["manager"].string() != manager) held.push_back(&entry["fieldsV1"]);
  for (const json::Value& entry : entries.array())
    if (entry["manager"].string() == manager && entry["subresource"].string().empty())
      // Who made an object also holds the defaults of its fields, which come back.
      drop(object, entry["fieldsV1"], wanted, held, entry["operation"].string() != "Update");
  return object;
}

}  // namespace cadre::kube
