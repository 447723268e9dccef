#include "kube/structural.h"

#include <algorithm>

#include "base/format.h"

namespace cadre::kube {

namespace {

using Type = Schema::Type;

Type typeOf(const json::Value& json) {
  if (json["x-kubernetes-int-or-string"].boolean()) return Type::IntOrString;
  const std::string& type = json["type"].string();
  if (type == "boolean") return Type::Boolean;
  if (type == "integer") return Type::Integer;
  if (type == "number") return Type::Number;
  if (type == "string") return Type::String;
  if (type == "array") return Type::Array;
  if (type != "object") return Type::Any;
  const json::Value& others = json["additionalProperties"];
  return others.isNull() ? Type::Object : Type::Map;
}

std::optional<double> number(const json::Value& value) {
  return value.isNumber() ? std::optional(value.number()) : std::nullopt;
}

class Reader {
 public:
  Schema read(const json::Value& json, std::size_t depth) {
    Schema schema{.type = typeOf(json)};
    if (depth > kMaxSchemaDepth || ++parts_ > kMaxSchemaParts) {
      if (problem_.empty())
        problem_ = depth > kMaxSchemaDepth
                       ? format("the schema is nested more than {} deep", kMaxSchemaDepth)
                       : format("the schema has more than {} parts", kMaxSchemaParts);
      return schema;
    }
    schema.nullable = json["nullable"].boolean();
    schema.preserve_unknown = json["x-kubernetes-preserve-unknown-fields"].boolean();
    schema.embedded = json["x-kubernetes-embedded-resource"].boolean();
    if (const json::Value& fallback = json["default"]; !fallback.isNull())
      schema.fallback = fallback;
    values(json, schema);
    sizes(json, schema);
    lists(json, schema);
    members(json, depth, schema);
    combined(json, depth, schema);
    return schema;
  }

  Result<> result() const {
    if (problem_.empty()) return {};
    return Error{.code = Code::ResourceExhausted, .message = problem_};
  }

 private:
  void values(const json::Value& json, Schema& schema) {
    schema.one_of = json["enum"].array();
    schema.least = number(json["minimum"]);
    schema.most = number(json["maximum"]);
    schema.above_least = json["exclusiveMinimum"].boolean();
    schema.below_most = json["exclusiveMaximum"].boolean();
    schema.multiple_of = number(json["multipleOf"]);
    bool text = schema.type == Type::String || schema.type == Type::Any;
    if (const std::string& name = json["format"].string(); text && knownFormat(name))
      schema.format = name;
    const std::string& pattern = json["pattern"].string();
    if (pattern.empty()) return;
    if (auto parsed = Pattern::parse(pattern))
      schema.pattern = *std::move(parsed);
    else
      schema.bad_pattern = parsed.error().message;  // no such CRD is stored
  }

  // By its type only one of the three means anything; without one, the first that is there.
  static void sizes(const json::Value& json, Schema& schema) {
    struct Names {
      Type type;
      std::string_view least, most;
    };
    for (auto [type, least, most] :
         {Names{Type::String, "minLength", "maxLength"}, Names{Type::Array, "minItems", "maxItems"},
          Names{Type::Map, "minProperties", "maxProperties"}}) {
      Type own = schema.type == Type::IntOrString ? Type::String
                 : schema.type == Type::Object    ? Type::Map
                                                  : schema.type;
      const json::Value &from = json[least], &to = json[most];
      if ((own != type && own != Type::Any) || (!from.isNumber() && !to.isNumber())) continue;
      if (schema.least_size || schema.most_size) continue;
      if (from.isNumber()) schema.least_size = from.integer();
      if (to.isNumber()) schema.most_size = to.integer();
      schema.sized = type;
    }
  }

  static void lists(const json::Value& json, Schema& schema) {
    const std::string& type = json["x-kubernetes-list-type"].string();
    if (type == "set") schema.list = Schema::List::Set;
    if (type == "map") schema.list = Schema::List::Map;
    for (const json::Value& key : json["x-kubernetes-list-map-keys"].array())
      schema.keys.push_back(key.string());
  }

  void members(const json::Value& json, std::size_t depth, Schema& schema) {
    for (const auto& [name, inner] : json["properties"].object())
      schema.fields.push_back({name, read(inner, depth + 1)});
    for (const json::Value& name : json["required"].array()) {
      auto field = std::ranges::find(schema.fields, name.string(), &Property::name);
      if (field == schema.fields.end())
        schema.needs.push_back(name.string());
      else
        field->schema.required = true;
    }
    schema.is_sorted = std::ranges::is_sorted(schema.fields, {}, &Property::name);
    for (std::size_t i = 0; i < schema.fields.size(); ++i)
      if (const Schema& one = schema.fields[i].schema; one.required || one.fallback)
        schema.awaited.push_back(i);
    if (const json::Value& items = json["items"]; items.isObject() && schema.type != Type::Map)
      schema.items = std::make_unique<Schema>(read(items, depth + 1));
    const json::Value& others = json["additionalProperties"];
    if (others.isObject() && schema.type == Type::Map)
      schema.items = std::make_unique<Schema>(read(others, depth + 1));
    schema.closed = others.isBool() && !others.boolean();
  }

  void combined(const json::Value& json, std::size_t depth, Schema& schema) {
    Schema::Combined out;
    auto take = [&](std::string_view name, std::vector<Schema>& into) {
      for (const json::Value& inner : json[name].array()) into.push_back(read(inner, depth + 1));
    };
    take("allOf", out.all);
    take("anyOf", out.any);
    take("oneOf", out.one);
    if (const json::Value& inner = json["not"]; inner.isObject())
      out.none = std::make_unique<Schema>(read(inner, depth + 1));
    if (out.all.empty() && out.any.empty() && out.one.empty() && !out.none) return;
    schema.combined = std::make_shared<Schema::Combined>(std::move(out));
  }

  std::size_t parts_ = 0;
  std::string problem_;
};

}  // namespace

Result<Schema> readSchema(const json::Value& open_api) {
  Reader reader;
  Schema schema = reader.read(open_api, 0);
  CADRE_TRY(reader.result());
  return schema;
}

}  // namespace cadre::kube
