#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"
#include "kube/conditions.h"
#include "kube/schema.h"

namespace cadre::kube {

// Binds C++ structs to their description:
//
//   struct Network {
//     std::vector<std::string> access;
//     bool expose = true;
//
//     static void describe(Fields<Network>& f) {
//       f("access", &Network::access, "Agents that this one may call.").set().maxItems(64);
//       f("expose", &Network::expose, "Whether others can reach it.").defaults();
//     }
//   };
//   Network network = read<Network>(object["spec"]["network"]);
//
// Members are std::string, bool, int, std::int64_t, double, Time, json::Value, Condition, structs
// that are described themselves, and std::vector, std::map<std::string, ...> and std::optional of
// all these.
//
// Reading never fails: what is missing, null or of the wrong type stays at its C++ initial value,
// and validate() tells. Writing leaves out what reading would make of nothing: absent optionals,
// empty texts, lists and maps, null, structs that are as they were; numbers and booleans are always
// written, and so is what is required.

template <class T>
class Fields;

template <class T>
concept HasDescription = requires(Fields<T>& fields) { T::describe(fields); };

// How a type is described, read (false: it was something else, and nothing is changed) and written.
template <class T>
struct Codec;

// What every status has. A kind's own status derives from it, and describes only what it adds.
struct CommonStatus {
  std::int64_t observed_generation = 0;
  std::vector<Condition> conditions;

  static void describe(Fields<CommonStatus>& f);
};

// The description of a struct with its ways to read and write; made once for each.
template <class T>
struct Binding {
  struct Member {
    std::function<void(const json::Value&, T&)> read;
    std::function<json::Value(const T&)> write;
  };
  Schema schema;
  std::vector<Member> members;  // one for each field of the schema

  static const Binding& get() {
    static const Binding binding = make();
    return binding;
  }
  static Binding make() {
    Binding binding{.schema = {.type = Schema::Type::Object}, .members = {}};
    Fields<T> fields(binding);
    if constexpr (std::derived_from<T, CommonStatus> && !std::same_as<T, CommonStatus>)
      fields.template include<CommonStatus>();
    T::describe(fields);
    return binding;
  }
};

// What T::describe speaks to.
template <class T>
class Fields {
 public:
  explicit Fields(Binding<T>& binding) : binding_(binding) {}

  template <class B, class M>
    requires std::derived_from<T, B>
  Described operator()(std::string_view name, M B::* member, std::string_view doc) {
    Schema schema = Codec<M>::schema();
    schema.doc = doc;
    schema.initial = Codec<M>::write(initial_.*member);
    binding_.members.push_back(
        {.read = [member](const json::Value& value,
                          T& object) { Codec<M>::read(value, object.*member); },
         .write = [member](const T& object) { return Codec<M>::write(object.*member); }});
    return Described(
        binding_.schema.fields.emplace_back(Property{std::string(name), std::move(schema)}).schema);
  }

  // The fields and rules of a base class, here.
  template <class B>
    requires std::derived_from<T, B>
  void include() {
    Binding<B> base = Binding<B>::make();
    for (auto& member : base.members)
      binding_.members.push_back(
          {.read = std::move(member.read), .write = std::move(member.write)});
    Schema &from = base.schema, &to = binding_.schema;
    std::move(from.fields.begin(), from.fields.end(), std::back_inserter(to.fields));
    to.rules.insert(to.rules.end(), from.rules.begin(), from.rules.end());
    to.checks.insert(to.checks.end(), from.checks.begin(), from.checks.end());
    to.any_of.insert(to.any_of.end(), from.any_of.begin(), from.any_of.end());
  }

  // About the struct as a whole.
  void rule(Rule rule) { Described(binding_.schema).rule(std::move(rule)); }
  void check(Check check) { Described(binding_.schema).check(std::move(check)); }
  void preserveUnknown() { Described(binding_.schema).preserveUnknown(); }
  void anyOf(std::vector<std::string> fields) {
    Described(binding_.schema).anyOf(std::move(fields));
  }

 private:
  Binding<T>& binding_;
  const T initial_{};
};

template <class T>
T read(const json::Value& value) {
  T object{};
  Codec<T>::read(value, object);
  return object;
}

template <class T>
json::Value write(const T& object) {
  return Codec<T>::write(object);
}

template <HasDescription T>
Schema specOf(std::string_view doc = "What is wanted.") {
  Schema schema = Binding<T>::make().schema;
  schema.doc = doc;
  return schema;
}

template <HasDescription T>
  requires std::derived_from<T, CommonStatus>
Schema statusOf(std::string_view doc = "What was observed.") {
  Schema schema = Binding<T>::make().schema;
  schema.doc = doc;
  // Nobody has looked at an object that was just made. Without this, programs that compare
  // generations (kstatus, Helm) take it for done until its first status is written.
  schema.fallback = json::Object{{"observedGeneration", -1}};
  return schema;
}

// ------------------------------------------------------------------------------------------------
// The types that members may have

template <>
struct Codec<std::string> {
  static Schema schema() { return {.type = Schema::Type::String}; }
  static bool read(const json::Value& value, std::string& out) {
    if (value.isString()) out = value.string();
    return value.isString();
  }
  static json::Value write(const std::string& text) { return text; }
};

template <>
struct Codec<bool> {
  static Schema schema() { return {.type = Schema::Type::Boolean}; }
  static bool read(const json::Value& value, bool& out) {
    if (value.isBool()) out = value.boolean();
    return value.isBool();
  }
  static json::Value write(bool value) { return value; }
};

template <class T>
  requires(std::same_as<T, int> || std::same_as<T, std::int64_t>)
struct Codec<T> {
  // Not every server looks at the format int32, so its limits are written out.
  static Schema schema() {
    if (sizeof(T) == 8) return {.type = Schema::Type::Integer, .format = "int64"};
    return {.type = Schema::Type::Integer, .least = kLeastInt, .most = kMostInt};
  }
  static bool read(const json::Value& value, T& out) {
    // Two answers to the same question: it is an integer if it does not depend on the fallback.
    std::int64_t number = value.integer(0);
    bool fits = number == value.integer(1) && std::in_range<T>(number);
    if (fits) out = static_cast<T>(number);
    return fits;
  }
  static json::Value write(T value) { return value; }
};

template <>
struct Codec<double> {
  static Schema schema() { return {.type = Schema::Type::Number}; }
  static bool read(const json::Value& value, double& out) {
    if (value.isNumber()) out = value.number();
    return value.isNumber();
  }
  static json::Value write(double value) { return value; }
};

// The epoch stands for "not told".
template <>
struct Codec<Time> {
  static Schema schema() { return {.type = Schema::Type::String, .format = "date-time"}; }
  static bool read(const json::Value& value, Time& out) {
    auto time = value.isString() ? parseTime(value.string()) : std::nullopt;
    if (time) out = *time;
    return time.has_value();
  }
  static json::Value write(Time time) {
    return time == Time{} ? json::Value() : json::Value(formatTime(time));
  }
};

template <>
struct Codec<json::Value> {
  static Schema schema() { return {.type = Schema::Type::Object, .preserve_unknown = true}; }
  static bool read(const json::Value& value, json::Value& out) {
    out = value;
    return true;
  }
  static json::Value write(const json::Value& value) { return value; }
};

template <>
struct Codec<Condition> {
  static Schema schema();
  static bool read(const json::Value& value, Condition& out);
  static json::Value write(const Condition& condition);
};

template <HasDescription T>
struct Codec<T> {
  static Schema schema() { return Binding<T>::make().schema; }
  static bool read(const json::Value& value, T& out) {
    if (!value.isObject()) return false;
    const Binding<T>& binding = Binding<T>::get();
    for (std::size_t i = 0; i < binding.members.size(); ++i)
      if (const json::Value* member = value.object().find(binding.schema.fields[i].name))
        binding.members[i].read(*member, out);
    return true;
  }
  static json::Value write(const T& object) {
    const Binding<T>& binding = Binding<T>::get();
    std::vector<json::Object::Member> written;
    for (std::size_t i = 0; i < binding.members.size(); ++i) {
      const Property& field = binding.schema.fields[i];
      json::Value value = binding.members[i].write(object);
      if (!leftOut(field.schema, value)) written.emplace_back(field.name, std::move(value));
    }
    return json::Object(std::move(written));
  }

 private:
  static bool leftOut(const Schema& schema, const json::Value& value) {
    if (value.isNull()) return !schema.nullable || schema.initial.isNull();
    if (schema.required || !(value == schema.initial)) return false;
    switch (schema.type) {
      case Schema::Type::Object:
        return true;
      case Schema::Type::String:
        return value.string().empty();
      case Schema::Type::Array:
      case Schema::Type::Map:
        return value.array().empty() && value.object().empty();
      default:
        return false;
    }
  }
};

template <class T>
struct Codec<std::vector<T>> {
  static Schema schema() {
    return {.type = Schema::Type::Array, .items = std::make_unique<Schema>(Codec<T>::schema())};
  }
  // An element of the wrong type is there, at its initial value: positions stay what they are.
  static bool read(const json::Value& value, std::vector<T>& out) {
    if (!value.isArray()) return false;
    out.clear();
    for (const json::Value& element : value.array()) out.push_back(kube::read<T>(element));
    return true;
  }
  static json::Value write(const std::vector<T>& list) {
    json::Array array;
    for (const auto& element : list) array.push_back(Codec<T>::write(element));
    return array;
  }
};

template <class T>
struct Codec<std::map<std::string, T>> {
  static Schema schema() {
    return {.type = Schema::Type::Map, .items = std::make_unique<Schema>(Codec<T>::schema())};
  }
  static bool read(const json::Value& value, std::map<std::string, T>& out) {
    if (!value.isObject()) return false;
    out.clear();
    for (const auto& [key, element] : value.object()) out[key] = kube::read<T>(element);
    return true;
  }
  static json::Value write(const std::map<std::string, T>& map) {
    std::vector<json::Object::Member> members;
    members.reserve(map.size());
    for (const auto& [key, element] : map) members.emplace_back(key, Codec<T>::write(element));
    return json::Object(std::move(members));
  }
};

template <class T>
struct Codec<std::optional<T>> {
  static Schema schema() { return Codec<T>::schema(); }
  static bool read(const json::Value& value, std::optional<T>& out) {
    T inner{};
    if (value.isNull() || !Codec<T>::read(value, inner)) return false;
    out = std::move(inner);
    return true;
  }
  static json::Value write(const std::optional<T>& value) {
    return value ? Codec<T>::write(*value) : json::Value();
  }
};

}  // namespace cadre::kube
