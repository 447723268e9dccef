#include "kube/covers.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/format.h"
#include "base/strings.h"
#include "base/time.h"
#include "json/patch.h"
#include "json/write.h"
#include "kube/field_defaults.h"
#include "kube/quantity.h"

namespace cadre::kube {

namespace {

using json::Value;
using Difference = std::optional<json::Change>;  // its path begins where we are

Difference compare(Type type, const Value& have, const Value& want);

Difference differ(const Value& have, const Value& want) {
  json::Change change;
  if (!have.isNull()) change.from = have;
  if (!want.isNull()) change.to = want;
  return change;
}

Difference within(std::string_view step, Difference difference) {
  if (difference) difference->path.insert(0, step);
  return difference;
}

std::string text(const Value& scalar) {
  return scalar.isString() ? scalar.string() : json::write(scalar);
}

bool isEmpty(const Value& value) {
  return value.isNull() || value == Value("") || value == Value(0) || value == Value(false) ||
         (value.isArray() && value.array().empty()) || (value.isObject() && value.object().empty());
}

// --- values that are no list, map or struct

template <class Unit>
bool sameInstant(const Value& have, const Value& want) {
  auto a = parseTime(have.string()), b = parseTime(want.string());
  return a && b && std::chrono::floor<Unit>(*a) == std::chrono::floor<Unit>(*b);
}

bool sameQuantity(const Value& have, const Value& want) {
  auto a = Quantity::fromJson(have), b = Quantity::fromJson(want);
  return a && b && *a == *b;
}

bool sameBytes(const Value& have, const Value& want) {
  auto a = base64Decode(have.string()), b = base64Decode(want.string());
  return a && b && *a == *b;
}

bool sameScalar(Form form, const Value& have, const Value& want) {
  if (have == want || (have.isNull() && isEmpty(want))) return true;
  if (have.isNull()) return false;
  switch (form) {
    case Form::Quantity:
      return sameQuantity(have, want);
    case Form::IntOrString:
      return text(have) == text(want);
    case Form::Time:
      return sameInstant<std::chrono::seconds>(have, want);
    case Form::MicroTime:
      return sameInstant<std::chrono::microseconds>(have, want);
    case Form::Bytes:
      return have.isString() && want.isString() && sameBytes(have, want);
    default:
      return false;
  }
}

// --- what is not described

Difference compareUntyped(const Value& have, const Value& want) {
  if (have.isObject() && want.isObject()) {
    for (const auto& [key, value] : want.object()) {
      if (value.isNull()) continue;
      if (auto found = compareUntyped(have[key], value))
        return within(json::pathStep(key), std::move(found));
    }
    return std::nullopt;
  }
  if (have.isArray() && want.isArray() && have.array().size() == want.array().size()) {
    for (std::size_t i = 0; i < want.array().size(); ++i)
      if (auto found = compareUntyped(have.at(i), want.at(i)))
        return within("[" + std::to_string(i) + "]", std::move(found));
    return std::nullopt;
  }
  return have == want ? std::nullopt : differ(have, want);
}

// --- structs and maps

Difference compareField(const Field& field, const Value& have, const Value& want) {
  if (have.isNull()) {
    if (field.isPointer()) return differ(have, want);
    if (field.number() == 0) return std::nullopt;  // apiVersion and kind
  }
  return compare(field.type(), have, want);
}

// Servers fill in single values of an atomic struct, but hardly a list or a map.
Difference findUndesired(Type type, const Value& have, const Value& want) {
  for (const auto& [key, value] : have.object()) {
    bool many = (value.isArray() || value.isObject()) && !isEmpty(value);
    if (!many || !want[key].isNull()) continue;
    auto field = type.field(key);
    Form form = field ? field->type().form() : Form::Any;
    if (form == Form::List || form == Form::Map)
      return within(json::pathStep(key), differ(value, Value()));
  }
  return std::nullopt;
}

Difference compareStruct(Type type, const Value& have, const Value& want) {
  for (const auto& [key, value] : want.object()) {
    if (value.isNull()) continue;
    auto field = type.field(key);
    auto found = field ? compareField(*field, have[key], value) : compareUntyped(have[key], value);
    if (found) return within(json::pathStep(key), std::move(found));
  }
  if (type.relation() == Relation::Atomic) return findUndesired(type, have, want);
  return std::nullopt;
}

Difference compareMap(Type type, const Value& have, const Value& want) {
  for (const auto& [key, value] : want.object()) {
    if (value.isNull()) continue;
    const Value& there = have[key];
    auto found = there.isNull() ? differ(there, value) : compare(type.element(), there, value);
    if (found) return within(json::pathStep(key), std::move(found));
  }
  if (type.relation() == Relation::Atomic)
    for (const auto& [key, value] : have.object())
      if (want[key].isNull()) return within(json::pathStep(key), differ(value, Value()));
  return std::nullopt;
}

// --- lists

// What tells an element from the others in a set or keyed list, with defaults filled in.
std::string identity(const std::vector<Type::Key>& keys, const Value& element) {
  if (keys.empty()) return text(element);
  std::string out;
  for (const Type::Key& key : keys) {
    const Value& value = element[key.name];
    out += value.isNull() ? std::string(key.otherwise) : text(value);
    out += '\0';
  }
  return out;
}

// [name="main"], ["a-finalizer"].
std::string stepTo(const std::vector<Type::Key>& keys, const Value& element) {
  std::string step = "[";
  for (const Type::Key& key : keys) {
    const Value& value = element[key.name];
    if (step.size() > 1) step += ',';
    step.append(key.name) += '=';
    json::append(step, value.isNull() ? Value(key.otherwise) : value);
  }
  if (keys.empty()) json::append(step, element);
  return shorten(step, 400) + "]";
}

Difference compareKeyed(Type type, const json::Array& have, const json::Array& want) {
  std::vector<Type::Key> keys = type.keys();
  std::vector<std::pair<std::string, const Value*>> index;
  for (const Value& element : have) index.emplace_back(identity(keys, element), &element);
  std::ranges::sort(index);  // of equal keys in the order of the list
  for (const Value& element : want) {
    // Where several have the same keys, which servers of old allow, one of them is enough.
    Difference first = differ(Value(), element);
    auto same = std::ranges::equal_range(index, identity(keys, element), {},
                                         [](auto& entry) -> auto& { return entry.first; });
    for (auto entry = same.begin(); entry != same.end() && first; ++entry) {
      Difference found = compare(type.element(), *entry->second, element);
      if (entry == same.begin() || !found) first = std::move(found);
    }
    if (first) return within(stepTo(keys, element), std::move(first));
  }
  return std::nullopt;
}

Difference compareList(Type type, const Value& have, const Value& want) {
  if (type.relation() != Relation::Atomic) return compareKeyed(type, have.array(), want.array());
  if (have.array().size() != want.array().size()) return differ(have, want);
  for (std::size_t i = 0; i < want.array().size(); ++i)
    if (auto found = compare(type.element(), have.at(i), want.at(i)))
      return within("[" + std::to_string(i) + "]", std::move(found));
  return std::nullopt;
}

Difference compare(Type type, const Value& have, const Value& want) {
  switch (type.form()) {
    case Form::Any:
      return compareUntyped(have, want);
    case Form::Struct:
    case Form::Map:
      if (!want.isObject() || !(have.isObject() || have.isNull())) break;
      return type.form() == Form::Map ? compareMap(type, have, want)
                                      : compareStruct(type, have, want);
    case Form::List:
      if (!want.isArray() || !(have.isArray() || have.isNull())) break;
      return compareList(type, have, want);
    default:
      if (sameScalar(type.form(), have, want)) return std::nullopt;
      break;
  }
  return have == want ? std::nullopt : differ(have, want);
}

// What a server makes of stringData, which it never shows.
Value withStringData(const Value& secret) {
  std::vector<json::Object::Member> data;
  for (const auto& [key, value] : secret["stringData"].object())
    data.emplace_back(key, base64Encode(value.string()));
  json::Object change{{"stringData", nullptr}};
  change.set("data", json::Object::fromSorted(std::move(data)));
  return json::applyMergePatch(secret, std::move(change));
}

// --- what was added

// Not null: what a server writes into that field when it is not given. Null inside: it depends.
const Value* filledIn(std::string_view type, std::string_view field) {
  using Place = std::pair<std::string_view, std::string_view>;
  static const std::map<Place, Value> kFilledIn = [] {
    std::map<Place, Value> places = {
        {{"core/v1 Container", "imagePullPolicy"}, {}},
        {{"core/v1 ImageVolumeSource", "pullPolicy"}, {}},
        {{"core/v1 PodSpec", "serviceAccount"}, {}},  // the old name of serviceAccountName
        {{"core/v1 ResourceFieldSelector", "divisor"}, "0"},
        {{"core/v1 ServicePort", "targetPort"}, {}},
        {{"core/v1 ServicePort", "nodePort"}, {}},
        {{"core/v1 ServiceSpec", "allocateLoadBalancerNodePorts"}, true},
        {{"core/v1 ServiceSpec", "clusterIP"}, {}},
        {{"core/v1 ServiceSpec", "clusterIPs"}, {}},
        {{"core/v1 ServiceSpec", "externalTrafficPolicy"}, "Cluster"},
        {{"core/v1 ServiceSpec", "healthCheckNodePort"}, {}},
        {{"core/v1 ServiceSpec", "internalTrafficPolicy"}, "Cluster"},
        {{"core/v1 ServiceSpec", "ipFamilies"}, {}},
        {{"core/v1 ServiceSpec", "ipFamilyPolicy"}, "SingleStack"},
        {{"core/v1 ServiceSpec", "sessionAffinity"}, "None"},
        {{"core/v1 ServiceSpec", "sessionAffinityConfig"}, {}},
        {{"core/v1 ServiceSpec", "type"}, "ClusterIP"},
        {{"apps/v1 DaemonSetUpdateStrategy", "type"}, "RollingUpdate"},
        {{"apps/v1 DeploymentStrategy", "type"}, "RollingUpdate"},
        {{"apps/v1 RollingUpdateDaemonSet", "maxSurge"}, 0},
        {{"apps/v1 RollingUpdateDaemonSet", "maxUnavailable"}, 1},
        {{"apps/v1 RollingUpdateDeployment", "maxSurge"}, "25%"},
        {{"apps/v1 RollingUpdateDeployment", "maxUnavailable"}, "25%"},
        {{"apps/v1 RollingUpdateStatefulSetStrategy", "partition"}, 0},
        {{"apps/v1 StatefulSetUpdateStrategy", "type"}, "RollingUpdate"},
    };
    for (const FieldDefault& row : fieldDefaults()) places[{row.type, row.field}] = row.value;
    for (std::string_view scaled : {"apps/v1 DeploymentSpec", "apps/v1 StatefulSetSpec"})
      places[{scaled, "replicas"}] = {};
    return places;
  }();
  auto found = kFilledIn.find({type, field});
  return found == kFilledIn.end() ? nullptr : &found->second;
}

Difference findAdded(Type type, const Value& have, const Value& want);

Difference findAddedField(Type type, const Field& field, const Value& have, const Value& want) {
  if (want.isNull()) {
    const Value* usual = filledIn(type.name(), field.name());
    if (usual && (usual->isNull() || have == *usual)) return std::nullopt;
    bool many = have.isArray() || have.isObject();
    // Behind a pointer, 0 and false are something.
    if (isEmpty(have) && (many || have.isNull() || !field.isPointer())) return std::nullopt;
    if (!many) return differ(have, want);
  }
  return findAdded(field.type(), have, want);
}

Difference findAddedElement(Type type, const json::Array& have, const json::Array& want) {
  std::vector<Type::Key> keys = type.keys();
  bool keyed = type.relation() == Relation::Keyed;
  for (std::size_t i = 0; i < have.size(); ++i) {
    bool same = i < want.size() && (!keyed || identity(keys, have[i]) == identity(keys, want[i]));
    auto found = same ? findAdded(type.element(), have[i], want[i]) : differ(have[i], Value());
    if (found) return within(keyed ? stepTo(keys, have[i]) : format("[{}]", i), std::move(found));
  }
  return std::nullopt;
}

Difference findAdded(Type type, const Value& have, const Value& want) {
  switch (type.form()) {
    case Form::Struct:
      for (const auto& [key, value] : have.object()) {
        auto field = type.field(key);
        if (!field || key == "metadata" || key == "status") continue;
        if (field->number() == 0) continue;  // apiVersion and kind
        if (auto found = findAddedField(type, *field, value, want[key]))
          return within(json::pathStep(key), std::move(found));
      }
      return std::nullopt;
    case Form::Map:
      for (const auto& [key, value] : have.object())
        if (want[key].isNull()) return within(json::pathStep(key), differ(value, Value()));
      return std::nullopt;
    case Form::List:
      if (isEmpty(want) && !isEmpty(have)) return differ(have, Value());
      if (type.relation() == Relation::Set) return std::nullopt;
      return findAddedElement(type, have.array(), want.array());
    default:
      return std::nullopt;
  }
}

}  // namespace

std::optional<json::Change> added(Type type, const Value& observed, const Value& desired) {
  auto found = findAdded(type, observed, desired);
  if (found && found->path.starts_with('.')) found->path.erase(0, 1);
  return found;
}

std::optional<json::Change> covers(Type type, const Value& observed, const Value& desired) {
  bool folded = type.name() == "core/v1 Secret" && !desired["stringData"].isNull();
  auto found =
      folded ? compare(type, observed, withStringData(desired)) : compare(type, observed, desired);
  if (found && found->path.starts_with('.')) found->path.erase(0, 1);
  return found;
}

}  // namespace cadre::kube
