#include "hub/definition.h"

#include <algorithm>
#include <set>

#include "base/format.h"
#include "base/strings.h"
#include "json/write.h"
#include "kube/object_meta.h"
#include "kube/pattern.h"
#include "kube/structural.h"

namespace cadre::hub {

namespace {

using kube::Fault;
using kube::FieldError;
using Errors = std::vector<FieldError>;

std::string quoted(std::string_view text) { return json::write(text); }

// Errors with the words of the server.
class Faults {
 public:
  void required(std::string path, std::string_view why = {}) {
    add(std::move(path), Fault::Required, "Required value", "", why);
  }
  void forbidden(std::string path, std::string_view why) {
    add(std::move(path), Fault::Forbidden, "Forbidden", "", why);
  }
  void invalid(std::string path, const json::Value& value, std::string_view why) {
    add(std::move(path), Fault::Invalid, "Invalid value", shorten(json::write(value), 1000), why);
  }
  void notSupported(std::string path, const json::Value& value,
                    const std::vector<std::string_view>& supported) {
    std::string list;
    for (std::string_view one : supported) list += (list.empty() ? "" : ", ") + quoted(one);
    add(std::move(path), Fault::NotSupported, "Unsupported value", json::write(value),
        "supported values: " + list);
  }
  void duplicate(std::string path, const json::Value& value) {
    add(std::move(path), Fault::Duplicate, "Duplicate value", json::write(value), "");
  }
  void add(Errors errors) { std::ranges::move(errors, std::back_inserter(found)); }

  Errors found;

 private:
  void add(std::string path, Fault fault, std::string_view words, std::string_view value,
           std::string_view why) {
    if (found.size() >= kube::kMaxFieldErrors) return;
    std::string message(words);
    for (std::string_view part : {value, why})
      if (!part.empty()) message += format(": {}", part);
    found.push_back({.path = std::move(path), .fault = fault, .message = std::move(message)});
  }
};

// ------------------------------------------------------------------------------------------------
// Schemas

const std::vector<std::string_view> kTypes = {"array",  "boolean", "integer",
                                              "number", "object",  "string"};

bool isIntOrString(const json::Value& any_of) {
  static const json::Value kPair =
      json::Array{json::Object{{"type", "integer"}}, json::Object{{"type", "string"}}};
  return any_of == kPair;
}

bool isSet(const json::Value& schema, std::string_view name) {
  const json::Value& value = schema[name];
  if (value.isBool()) return value.boolean();
  return !value.isNull() && !(value.isString() && value.string().empty()) &&
         !(value.isArray() && value.array().empty()) &&
         !(value.isObject() && value.object().empty());
}

std::string at(const std::string& path, std::string_view field) {
  return path + "." + std::string(field);
}
std::string at(const std::string& path, std::string_view field, std::string_view key) {
  return format("{}.{}[{}]", path, field, key);
}
std::string at(const std::string& path, std::string_view field, std::size_t index) {
  return format("{}.{}[{}]", path, field, index);
}

// Calls with each schema in allOf, anyOf, oneOf and not, and its path.
template <class Look>
void eachNested(const json::Value& schema, const std::string& path, Look look) {
  for (std::string_view name : {"allOf", "anyOf", "oneOf"}) {
    const json::Array& list = schema[name].array();
    for (std::size_t i = 0; i < list.size(); ++i) look(name, list[i], at(path, name, i));
  }
  if (schema["not"].isObject()) look("not", schema["not"], at(path, "not"));
}

// What makes a schema structural: each field has a type, and what is said in anyOf and the like
// only narrows that.
class StructuralRules {
 public:
  enum class Level { Root, Items, Field };

  explicit StructuralRules(Faults& out) : out_(out) {}

  void look(const json::Value& schema, Level level, const std::string& path) {
    const std::string& type = schema["type"].string();
    if (type == "array" && !schema["items"].isObject())
      out_.required(at(path, "items"), "must be specified");
    if (schema["items"].isObject()) look(schema["items"], Level::Items, at(path, "items"));
    for (const auto& [name, inner] : schema["properties"].object())
      look(inner, Level::Field, at(path, "properties", name));
    const json::Value& others = schema["additionalProperties"];
    if (!others.isNull() && level == Level::Root)
      out_.forbidden(at(path, "additionalProperties"), "must not be used at the root");
    if (others.isObject()) look(others, Level::Field, at(path, "additionalProperties"));
    extensions(schema, path);
    validations(schema, isIntOrString(schema["anyOf"]),
                isIntOrString(schema["allOf"].at(0)["anyOf"]), path);
    typeOf(schema, level, path);
    metadata(schema, level, path);
  }

  // Everything that is said in anyOf and the like must be said of a field that there is.
  void completeRoot(const json::Value& schema, const std::string& path) {
    eachNested(schema, path,
               [&](std::string_view, const json::Value& inner, const std::string& inner_path) {
                 completeNested(inner, schema, path, inner_path);
               });
  }

 private:
  void completeNested(const json::Value& nested, const json::Value& schema, const std::string& path,
                      const std::string& nested_path) {
    eachNested(nested, nested_path,
               [&](std::string_view, const json::Value& inner, const std::string& inner_path) {
                 completeNested(inner, schema, path, inner_path);
               });
    auto follow = [&](const json::Value& inner, const json::Value* counterpart,
                      const std::string& own, const std::string& other) {
      if (!counterpart)
        out_.required(own, "because it is defined in " + other);
      else
        completeNested(inner, *counterpart, own, other);
    };
    if (nested["items"].isObject())
      follow(nested["items"], schema["items"].isObject() ? &schema["items"] : nullptr,
             at(path, "items"), at(nested_path, "items"));
    for (const auto& [name, inner] : nested["properties"].object())
      follow(inner, schema["properties"].object().find(name), at(path, "properties", name),
             at(nested_path, "properties", name));
  }

  void extensions(const json::Value& schema, const std::string& path) {
    if (!schema["x-kubernetes-int-or-string"].boolean()) return;
    for (std::string_view name :
         {"x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"})
      if (schema[name].boolean())
        out_.invalid(at(path, name), true, "must be false if x-kubernetes-int-or-string is true");
  }

  void validations(const json::Value& schema, bool skip_any, bool skip_first_all,
                   const std::string& path) {
    eachNested(schema, path,
               [&](std::string_view name, const json::Value& inner, const std::string& inner_path) {
                 if (name == "anyOf" && skip_any) return;
                 bool first = name == "allOf" && inner_path.ends_with("[0]");
                 nested(inner, first && skip_first_all, inner_path);
               });
    const std::string& pattern = schema["pattern"].string();
    if (auto parsed = kube::Pattern::parse(pattern); !parsed)
      out_.invalid(at(path, "pattern"), pattern,
                   "must be a valid regular expression, but isn't: error parsing regexp: " +
                       parsed.error().message);
  }

  void nested(const json::Value& schema, bool skip_any, const std::string& path) {
    validations(schema, skip_any, false, path);
    if (schema["items"].isObject()) nested(schema["items"], false, at(path, "items"));
    for (const auto& [name, inner] : schema["properties"].object())
      nested(inner, false, at(path, "properties", name));
    struct Rule {
      std::string_view name, must;
    };
    for (auto [name, must] :
         {Rule{"type", "empty"}, Rule{"additionalProperties", "undefined"},
          Rule{"default", "undefined"}, Rule{"title", "empty"}, Rule{"description", "empty"},
          Rule{"nullable", "false"}, Rule{"x-kubernetes-preserve-unknown-fields", "false"},
          Rule{"x-kubernetes-embedded-resource", "false"},
          Rule{"x-kubernetes-int-or-string", "false"}, Rule{"x-kubernetes-list-map-keys", "empty"},
          Rule{"x-kubernetes-list-type", "undefined"}, Rule{"x-kubernetes-map-type", "undefined"},
          Rule{"x-kubernetes-validations", "empty"}}) {
      bool there = must == "undefined" ? !schema[name].isNull() : isSet(schema, name);
      if (there) out_.forbidden(at(path, name), format("must be {} to be structural", must));
    }
    if (schema["properties"].object().contains("metadata"))
      out_.forbidden(at(path, "properties", "metadata"),
                     "must not be specified in a nested context");
  }

  void typeOf(const json::Value& schema, Level level, const std::string& path) {
    const std::string& type = schema["type"].string();
    bool embedded = schema["x-kubernetes-embedded-resource"].boolean();
    bool keeps = schema["x-kubernetes-preserve-unknown-fields"].boolean();
    if (embedded && type != "object") {
      constexpr std::string_view kWhy = "must be object if x-kubernetes-embedded-resource is true";
      if (type.empty())
        out_.required(at(path, "type"), kWhy);
      else
        out_.invalid(at(path, "type"), type, kWhy);
    } else if (type.empty() && !schema["x-kubernetes-int-or-string"].boolean() && !keeps) {
      out_.required(at(path, "type"), level == Level::Root    ? "must not be empty at the root"
                                      : level == Level::Items ? "must not be empty for specified "
                                                                "array items"
                                                              : "must not be empty for specified "
                                                                "object fields");
    }
    if (embedded && !schema["additionalProperties"].isNull())
      out_.forbidden(at(path, "additionalProperties"),
                     "must not be used if x-kubernetes-embedded-resource is set");
    if (level == Level::Root && !type.empty() && type != "object")
      out_.invalid(at(path, "type"), type, "must be object at the root");
    if (embedded && !keeps && schema["properties"].object().empty())
      out_.required(at(path, "properties"),
                    "must not be empty if x-kubernetes-embedded-resource is true without "
                    "x-kubernetes-preserve-unknown-fields");
  }

  void metadata(const json::Value& schema, Level level, const std::string& path) {
    const json::Object& fields = schema["properties"].object();
    if (level != Level::Root && !schema["x-kubernetes-embedded-resource"].boolean()) return;
    for (std::string_view name : {"kind", "apiVersion"})
      if (const json::Value* field = fields.find(name))
        if (const json::Value& type = (*field)["type"]; type.string() != "string")
          out_.invalid(at(at(path, "properties", name), "type"), type.string(), "must be string");
    const json::Value* own = fields.find("metadata");
    if (!own) return;
    std::string place = at(path, "properties", "metadata");
    if ((*own)["type"].string() != "object")
      out_.invalid(at(place, "type"), (*own)["type"].string(), "must be object");
    if (level != Level::Root) return;
    bool more = false;
    for (const auto& [name, inner] : (*own)["properties"].object())
      more = more || (name != "name" && name != "generateName");
    for (const auto& [name, value] : own->object())
      more = more ||
             (name != "type" && name != "properties" && name != "default" && isSet(*own, name));
    if (more)
      out_.forbidden(place,
                     "must not specify anything other than name and generateName, but metadata is "
                     "implicitly specified");
  }

  Faults& out_;
};

// What is forbidden in schemas, structural or not.
class SchemaRules {
 public:
  explicit SchemaRules(Faults& out) : out_(out) {}

  struct Around {
    bool no_defaults = false;
    std::string why_not = {};
    bool in_metadata = false;
  };

  bool unsupported = false;  // there is something that makes everything else meaningless

  void look(const json::Value& schema, const std::string& path, const Around& around, bool root) {
    support(schema, path, around);
    if (schema["uniqueItems"].boolean())
      out_.forbidden(at(path, "uniqueItems"),
                     "uniqueItems cannot be set to true since the runtime complexity becomes "
                     "quadratic");
    const json::Value& others = schema["additionalProperties"];
    if (!others.isNull() && !schema["properties"].object().empty() &&
        !(others.isBool() && others.boolean()))
      out_.forbidden(at(path, "additionalProperties"),
                     "additionalProperties and properties are mutual exclusive");
    if (others.isObject()) {
      Around inner = around;
      if (around.in_metadata)
        inner = {.no_defaults = true,
                 .why_not = "inside additionalProperties applying to object metadata",
                 .in_metadata = true};
      look(others, at(path, "additionalProperties"), inner, false);
    }
    for (const auto& [name, field] : schema["properties"].object()) {
      Around inner = around;
      bool meta = name == "metadata" || name == "kind" || name == "apiVersion";
      if (meta && (root || schema["x-kubernetes-embedded-resource"].boolean())) {
        inner.in_metadata = true;
        if (root) {
          inner.no_defaults = true;
          inner.why_not = "in top-level " + name;
        }
      }
      look(field, at(path, "properties", name), inner, false);
    }
    eachNested(schema, path,
               [&](std::string_view, const json::Value& inner, const std::string& inner_path) {
                 look(inner, inner_path, around, false);
               });
    if (schema["items"].isObject()) look(schema["items"], at(path, "items"), around, false);
    if (const json::Value& keeps = schema["x-kubernetes-preserve-unknown-fields"];
        keeps.isBool() && !keeps.boolean())
      out_.invalid(at(path, "x-kubernetes-preserve-unknown-fields"), false,
                   "must be true or undefined");
    kinds(schema, path);
    keys(schema, path);
    rules(schema, path);
  }

 private:
  void support(const json::Value& schema, const std::string& path, const Around& around) {
    const std::string& type = schema["type"].string();
    if (!type.empty() && std::ranges::find(kTypes, type) == kTypes.end())
      out_.notSupported(at(path, "type"), type, kTypes);
    if (!schema["default"].isNull() && around.no_defaults)
      out_.forbidden(at(path, "default"), "must not be set " + around.why_not);
    for (std::string_view name :
         {"id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"}) {
      bool always = name == "additionalItems" || name == "dependencies" || name == "$ref";
      if (always ? schema[name].isNull() : !isSet(schema, name)) continue;
      unsupported = true;
      out_.forbidden(at(path, name), format("{} is not supported", name));
    }
    if (type == "null") {
      unsupported = true;
      out_.forbidden(at(path, "type"),
                     "type cannot be set to null, use nullable as an alternative");
    }
    if (!schema["items"].array().empty()) {
      unsupported = true;
      out_.forbidden(at(path, "items"), "items must be a schema object and not an array");
    }
    if (around.in_metadata && schema["x-kubernetes-embedded-resource"].boolean())
      out_.forbidden(at(path, "x-kubernetes-embedded-resource"),
                     "must not be used inside of resource meta");
  }

  void kinds(const json::Value& schema, const std::string& path) {
    const std::string& type = schema["type"].string();
    auto only = [&](std::string_view name, std::string_view wanted) {
      if (schema[name].isNull() || type == wanted) return;
      std::string why = format("must be {} if {} is specified", wanted, name);
      if (type.empty())
        out_.required(at(path, "type"), why);
      else
        out_.invalid(at(path, "type"), type, why);
    };
    only("x-kubernetes-map-type", "object");
    only("x-kubernetes-list-type", "array");
    const json::Value &map = schema["x-kubernetes-map-type"],
                      &list = schema["x-kubernetes-list-type"], &items = schema["items"];
    if (!map.isNull() && map.string() != "atomic" && map.string() != "granular")
      out_.notSupported(at(path, "x-kubernetes-map-type"), map, {"atomic", "granular"});
    if (list.string() == "set" && type == "array" && items.isObject()) {
      constexpr std::string_view kWhy =
          "must be atomic as item of a list with x-kubernetes-list-type=set";
      const json::Value& inner_list = items["x-kubernetes-list-type"];
      if (items["type"].string() == "array" && !inner_list.isNull() &&
          inner_list.string() != "atomic")
        out_.invalid(at(path, "items.x-kubernetes-list-type"), inner_list, kWhy);
      if (items["type"].string() == "object" && items["x-kubernetes-map-type"].string() != "atomic")
        out_.invalid(at(path, "items.x-kubernetes-map-type"), inner_list, kWhy);
    }
    if (!list.isNull() && list.string() != "atomic" && list.string() != "set" &&
        list.string() != "map")
      out_.notSupported(at(path, "x-kubernetes-list-type"), list, {"atomic", "set", "map"});
  }

  void keys(const json::Value& schema, const std::string& path) {
    const json::Value &list = schema["x-kubernetes-list-type"],
                      &keys = schema["x-kubernetes-list-map-keys"], &items = schema["items"];
    const bool map = list.string() == "map";
    if (!keys.array().empty() && !map) {
      constexpr std::string_view kWhy = "must be map if x-kubernetes-list-map-keys is non-empty";
      if (list.isNull())
        out_.required(at(path, "x-kubernetes-list-type"), kWhy);
      else
        out_.invalid(at(path, "x-kubernetes-list-type"), list, kWhy);
    }
    if ((map || list.string() == "set") && items["nullable"].boolean())
      out_.forbidden(at(path, "items.nullable"),
                     "cannot be nullable when x-kubernetes-list-type is " + list.string());
    if (!map) return;
    if (keys.array().empty())
      out_.required(at(path, "x-kubernetes-list-map-keys"),
                    "must not be empty if x-kubernetes-list-type is map");
    if (items.isNull())
      out_.required(at(path, "items"), "must have a schema if x-kubernetes-list-type is map");
    else if (items["type"].string() != "object")
      return out_.invalid(at(path, "items.type"), items["type"].string(),
                          "must be object if parent array's x-kubernetes-list-type is map");
    std::set<std::string> seen;
    for (const json::Value& key : keys.array()) {
      const std::string& name = key.string();
      if (!seen.insert(name).second)
        out_.invalid(at(path, "x-kubernetes-list-map-keys"), keys,
                     "must not contain duplicate entries");
      const json::Value* field = items["properties"].object().find(name);
      if (!field) {
        out_.invalid(at(path, "x-kubernetes-list-map-keys"), keys,
                     "entries must all be names of item properties");
        continue;
      }
      std::string place = at(path + ".items", "properties", name);
      const std::string& type = (*field)["type"].string();
      if (type == "array" || type == "object")
        out_.invalid(at(place, "type"), items["type"],
                     "must be a scalar type if parent array's x-kubernetes-list-type is map");
      const json::Array& required = items["required"].array();
      if (std::ranges::find(required, key) == required.end() && (*field)["default"].isNull())
        out_.required(at(place, "default"),
                      "this property is in x-kubernetes-list-map-keys, so it must have a default "
                      "or be a required property");
      if ((*field)["nullable"].boolean())
        out_.forbidden(at(place, "nullable"),
                       "this property is in x-kubernetes-list-map-keys, so it cannot be nullable");
    }
  }

  void rules(const json::Value& schema, const std::string& path) {
    const json::Array& list = schema["x-kubernetes-validations"].array();
    for (std::size_t i = 0; i < list.size(); ++i) {
      std::string place = at(path, "x-kubernetes-validations", i);
      std::string_view rule = trim(list[i]["rule"].string());
      const std::string& message = list[i]["message"].string();
      auto lines = [](std::string_view text) {
        return text.find_first_of("\n\r") != std::string_view::npos;
      };
      if (rule.empty())
        out_.required(at(place, "rule"), "rule is not specified");
      else if (!message.empty() && trim(message).empty())
        out_.invalid(at(place, "message"), message, "must be non-empty if specified");
      else if (lines(trim(message)))
        out_.invalid(at(place, "message"), message, "must not contain line breaks");
      else if (lines(rule) && trim(message).empty())
        out_.required(at(place, "message"),
                      "message must be specified if rule contains line breaks");
      const std::string& reason = list[i]["reason"].string();
      const std::vector<std::string_view> reasons = {"FieldValueDuplicate", "FieldValueForbidden",
                                                     "FieldValueInvalid", "FieldValueRequired"};
      if (!reason.empty() && std::ranges::find(reasons, reason) == reasons.end())
        out_.notSupported(at(place, "reason"), reason, reasons);
    }
  }

  Faults& out_;
};

// Defaults must themselves be what their schema says. Not in maps.
void checkDefaults(const json::Value& json, const std::string& path, bool root, Faults& out) {
  if (const json::Value& value = json["default"]; !value.isNull()) {
    auto read = kube::readSchema(json);
    if (!read) return;
    bool embedded = root || read->embedded;
    std::string place = at(path, "default");
    json::Value pruned = value;
    read->embedded = embedded;
    kube::prune(*read, pruned);
    if (!(pruned == value)) out.invalid(place, value, "must not have unknown fields");
    Errors errors;
    if (embedded && value.isObject()) errors = kube::validateEmbeddedObject(value, place);
    if (errors.empty()) errors = kube::validateEmbedded(*read, value, place);
    if (errors.empty()) errors = kube::validateShape(*read, value, {.root = place});
    out.add(std::move(errors));
  }
  if (json["items"].isObject()) checkDefaults(json["items"], at(path, "items"), false, out);
  for (const auto& [name, field] : json["properties"].object()) {
    bool meta = name == "metadata" || name == "kind" || name == "apiVersion";
    if (meta && (root || json["x-kubernetes-embedded-resource"].boolean())) continue;
    checkDefaults(field, at(path, "properties", name), false, out);
  }
}

void checkSchema(const json::Value& schema, const std::string& path, bool status, Faults& out) {
  if (auto read = kube::readSchema(schema); !read)
    return out.invalid(path, "", read.error().message);
  if (status) {
    static const std::set<std::string_view> kAllowed = {"description",
                                                        "format",
                                                        "title",
                                                        "maximum",
                                                        "exclusiveMaximum",
                                                        "minimum",
                                                        "exclusiveMinimum",
                                                        "maxLength",
                                                        "minLength",
                                                        "pattern",
                                                        "maxItems",
                                                        "minItems",
                                                        "uniqueItems",
                                                        "multipleOf",
                                                        "required",
                                                        "items",
                                                        "properties",
                                                        "externalDocs",
                                                        "example",
                                                        "type",
                                                        "x-kubernetes-preserve-unknown-fields",
                                                        "x-kubernetes-validations"};
    if (const std::string& type = schema["type"].string(); !type.empty() && type != "object")
      out.invalid(at(path, "type"), type,
                  "only \"object\" is allowed as the type at the root of the schema if the status "
                  "subresource is enabled");
    for (const auto& [name, value] : schema.object())
      if (!kAllowed.contains(name) && (isSet(schema, name) || value.isNumber())) {
        out.invalid(path, json::Object{{name, value}},
                    "only [Description Type Format Title Maximum ExclusiveMaximum Minimum "
                    "ExclusiveMinimum MaxLength MinLength Pattern MaxItems MinItems UniqueItems "
                    "MultipleOf Required Items Properties ExternalDocs Example "
                    "XPreserveUnknownFields XValidations] fields are allowed at the root of the "
                    "schema if the status subresource is enabled");
        break;
      }
  }
  if (schema["nullable"].boolean())
    out.forbidden(at(path, "nullable"), "nullable cannot be true at the root");
  Faults basic;
  SchemaRules rules(basic);
  rules.look(schema, path, {}, true);
  if (!rules.unsupported) {
    Faults structural;
    StructuralRules walk(structural);
    walk.look(schema, StructuralRules::Level::Root, path);
    walk.completeRoot(schema, path);
    if (structural.found.empty()) checkDefaults(schema, path, true, structural);
    out.add(std::move(structural.found));
  }
  out.add(std::move(basic.found));
}

// ------------------------------------------------------------------------------------------------
// The definition

class DefinitionRules {
 public:
  DefinitionRules(const json::Value& crd, const json::Value& old)
      : crd_(crd), old_(old), spec_(crd["spec"]), versions_(spec_["versions"].array()) {}

  Errors look() {
    metadata();
    group();
    oneOf("spec.scope", spec_["scope"], {"Cluster", "Namespaced"});
    for (std::size_t i = 0; i < versions_.size(); ++i)
      if (!versions_[i]["schema"]["openAPIV3Schema"].isObject())
        out_.required(version(i) + ".schema.openAPIV3Schema");
    versions();
    names();
    shared("schema", "spec.validation",
           [&](const json::Value& value, std::string path, bool all, const json::Value& own) {
             const json::Value& schema = value["openAPIV3Schema"];
             if (schema.isObject())
               checkSchema(schema, path + ".openAPIV3Schema", all ? anyStatus() : hasStatus(own),
                           out_);
           });
    shared("subresources", "spec.subresources",
           [&](const json::Value& value, const std::string& path, bool, const json::Value&) {
             scale(value["scale"], path);
           });
    shared("additionalPrinterColumns", "spec.additionalPrinterColumns",
           [&](const json::Value& value, const std::string& path, bool, const json::Value&) {
             columns(value, path);
           });
    shared("selectableFields", "spec.selectableFields",
           [&](const json::Value& value, const std::string& path, bool, const json::Value& own) {
             selectable(value, own["schema"]["openAPIV3Schema"], path);
           });
    conversion();
    if (spec_["preserveUnknownFields"].boolean())
      out_.invalid("spec.preserveUnknownFields", true,
                   "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in "
                   "spec.versions[*].schema instead");
    storedVersions();
    approval();
    changes();
    return std::move(out_.found);
  }

 private:
  static std::string version(std::size_t i) { return format("spec.versions[{}]", i); }
  static bool hasStatus(const json::Value& version) {
    return version["subresources"]["status"].isObject();
  }
  bool anyStatus() const { return std::ranges::any_of(versions_, hasStatus); }

  // What all versions have alike stands at the top for the server, and is told from there.
  template <class Look>
  void shared(std::string_view name, const std::string& top, Look look) {
    auto there = [&](const json::Value& version) {
      return version[name].isArray() ? !version[name].array().empty() : version[name].isObject();
    };
    bool alike = !versions_.empty() && std::ranges::all_of(versions_, [&](const json::Value& one) {
      return there(one) && one[name] == versions_.front()[name];
    });
    if (alike) return look(versions_.front()[name], top, true, versions_.front());
    for (std::size_t i = 0; i < versions_.size(); ++i)
      if (there(versions_[i]))
        look(versions_[i][name], format("{}.{}", version(i), name), false, versions_[i]);
  }

  void oneOf(const std::string& path, const json::Value& value,
             const std::vector<std::string_view>& supported) {
    if (value.string().empty())
      out_.required(path);
    else if (std::ranges::find(supported, value.string()) == supported.end())
      out_.notSupported(path, value, supported);
  }

  void metadata() {
    kube::MetadataOptions options{.scope = kube::MetadataOptions::Scope::Cluster};
    const json::Value& metadata = crd_["metadata"];
    if (!old_.isNull())
      return out_.add(kube::validateMetadataChange(metadata, old_["metadata"], options));
    out_.add(kube::validateMetadata(metadata, options));
    const std::string& name = metadata["name"].string();
    if (!name.empty() && name != spec_["names"]["plural"].string() + "." + spec_["group"].string())
      out_.invalid("metadata.name", name, "must be spec.names.plural+\".\"+spec.group");
  }

  void group() {
    const std::string& group = spec_["group"].string();
    if (group.empty()) return out_.required("spec.group");
    if (auto faults = kube::subdomainFaults(group); !faults.empty())
      out_.invalid("spec.group", group, join(faults, ","));
    else if (group.find('.') == std::string::npos)
      out_.invalid("spec.group", group, "should be a domain with at least one dot");
  }

  void versions() {
    std::set<std::string> seen;
    std::size_t stored = 0;
    bool unique = true;
    for (std::size_t i = 0; i < versions_.size(); ++i) {
      const json::Value& one = versions_[i];
      if (one["storage"].boolean()) ++stored;
      unique = seen.insert(one["name"].string()).second && unique;
      label(version(i) + ".name", one["name"]);
      deprecation(one, version(i) + ".deprecationWarning");
    }
    json::Array shown;
    for (const json::Value& one : versions_) shown.push_back(one["name"]);
    if (!unique) out_.invalid("spec.versions", shown, "must contain unique version names");
    if (stored != 1)
      out_.invalid("spec.versions", shown,
                   "must have exactly one version marked as storage version");
    if (!versions_.empty() && !versions_.front()["name"].string().empty())
      label("spec.version", versions_.front()["name"]);
  }

  void deprecation(const json::Value& version, const std::string& path) {
    const json::Value& warning = version["deprecationWarning"];
    if (warning.isNull()) return;
    if (!version["deprecated"].boolean())
      return out_.invalid(path, warning, "can only be set for deprecated versions");
    const std::string& text = warning.string();
    if (text.size() > 256) out_.invalid(path, warning, "must be <= 256 characters long");
    if (text.empty()) out_.invalid(path, warning, "must not be an empty string");
    for (std::size_t i = 0; i < text.size(); ++i)
      if (static_cast<unsigned char>(text[i]) < 0x20 || text[i] == 0x7f)
        return out_.invalid(path, warning,
                            format("must only contain printable UTF-8 characters; non-printable "
                                   "character found at index {}",
                                   i));
  }

  void label(const std::string& path, const json::Value& value, bool mixed = false) {
    auto faults = kube::dns1035Faults(mixed ? lower(value.string()) : value.string());
    if (faults.empty()) return;
    out_.invalid(
        path, value.string(),
        (mixed ? "may have mixed case, but should otherwise match: " : "") + join(faults, ","));
  }

  void names() {
    const json::Value& names = spec_["names"];
    for (std::string_view name : {"plural", "singular", "kind", "listKind"}) {
      std::string path = format("spec.names.{}", name);
      if (names[name].string().empty())
        out_.required(path);
      else
        label(path, names[name], name == "kind" || name == "listKind");
    }
    for (std::string_view name : {"shortNames", "categories"})
      for (std::size_t i = 0; i < names[name].array().size(); ++i)
        label(format("spec.names.{}[{}]", name, i), names[name].at(i));
    if (!names["kind"].string().empty() && names["kind"] == names["listKind"])
      out_.invalid("spec.names.listKind", names["listKind"],
                   "kind and listKind may not be the same");
  }

  void path(const std::string& place, const json::Value& value,
            const std::vector<std::string_view>& below, std::string_view why) {
    const std::string& text = value.string();
    if (!text.starts_with('.'))
      out_.invalid(place, text, "must be a simple json path starting with .");
    else if (!below.empty() && std::ranges::none_of(below, [&](std::string_view prefix) {
               return text.starts_with(prefix);
             }))
      out_.invalid(place, text, why);
  }

  void scale(const json::Value& scale, const std::string& top) {
    if (!scale.isObject()) return;
    struct Path {
      std::string_view name, prefix;
    };
    for (auto [name, prefix] :
         {Path{"specReplicasPath", ".spec"}, Path{"statusReplicasPath", ".status"}}) {
      std::string place = format("{}.scale.{}", top, name), below = format("{}.", prefix);
      if (scale[name].string().empty())
        out_.required(place);
      else
        path(place, scale[name], {below}, format("should be a json path under {}", prefix));
    }
    if (const json::Value& selector = scale["labelSelectorPath"]; !selector.string().empty())
      path(top + ".scale.labelSelectorPath", selector, {".spec.", ".status."},
           "should be a json path under either .spec or .status");
  }

  void columns(const json::Value& list, const std::string& top) {
    for (std::size_t i = 0; i < list.array().size(); ++i) {
      const json::Value& column = list.at(i);
      std::string place = format("{}[{}]", top, i);
      if (column["name"].string().empty()) out_.required(place + ".name");
      constexpr std::string_view kTypes = "must be one of boolean,date,integer,number,string";
      static const std::set<std::string_view> kKnown = {"boolean", "date", "integer", "number",
                                                        "string"};
      static const std::set<std::string_view> kFormats = {
          "byte", "date", "date-time", "double", "float", "int32", "int64", "password"};
      if (column["type"].string().empty())
        out_.required(place + ".type", kTypes);
      else if (!kKnown.contains(column["type"].string()))
        out_.invalid(place + ".type", column["type"], kTypes);
      if (const std::string& text = column["format"].string();
          !text.empty() && !kFormats.contains(text))
        out_.invalid(place + ".format", text,
                     "must be one of byte,date,date-time,double,float,int32,int64,password");
      if (column["jsonPath"].string().empty())
        out_.required(place + ".JSONPath");
      else
        path(place + ".JSONPath", column["jsonPath"], {}, "");
    }
  }

  void selectable(const json::Value& list, const json::Value& schema, const std::string& top) {
    constexpr std::size_t kMost = 8;
    std::set<std::string> seen;
    for (std::size_t i = 0; i < list.array().size(); ++i) {
      std::string place = format("{}[{}].jsonPath", top, i);
      const json::Value& path = list.at(i)["jsonPath"];
      if (path.string().empty()) {
        out_.required(place);
        continue;
      }
      const json::Value* field = &schema;
      std::string_view rest = path.string();
      if (rest.starts_with('.')) rest.remove_prefix(1);
      for (std::string_view name : split(rest, '.'))
        field = field ? (*field)["properties"].object().find(name) : nullptr;
      if (!field) {
        out_.invalid(place, path, "is an invalid path: does not refer to a valid field");
        continue;
      }
      if (rest == "metadata" || rest.starts_with("metadata."))
        out_.invalid(place, path, "must not point to fields in metadata");
      const std::string& type = (*field)["type"].string();
      if (type != "string" && type != "boolean" && type != "integer")
        out_.invalid(place, path,
                     "must point to a field of type string, boolean or integer. Enum string "
                     "fields and strings with formats are allowed.");
      if (!seen.insert(std::string(rest)).second) out_.duplicate(place, path);
    }
    if (seen.size() > kMost)
      out_.found.push_back(
          {.path = top,
           .fault = Fault::TooMany,
           .message = format("Too many: {}: must have at most {} items", seen.size(), kMost)});
  }

  void conversion() {
    const json::Value &conversion = spec_["conversion"], &webhook = conversion["webhook"];
    if (!conversion.isObject()) return;
    oneOf("spec.conversion.strategy", conversion["strategy"], {"None", "Webhook"});
    const json::Value &client = webhook["clientConfig"],
                      &reviews = webhook["conversionReviewVersions"];
    const std::string client_path = "spec.conversion.webhookClientConfig",
                      reviews_path = "spec.conversion.conversionReviewVersions";
    if (conversion["strategy"].string() != "Webhook") {
      constexpr std::string_view kWhy = "should not be set when strategy is not set to Webhook";
      if (client.isObject()) out_.forbidden(client_path, kWhy);
      if (!reviews.array().empty()) out_.forbidden(reviews_path, kWhy);
      return;
    }
    if (!client.isObject())
      out_.required(client_path, "required when strategy is set to Webhook");
    else if (client["url"].isNull() == client["service"].isNull())
      out_.required(client_path, "exactly one of url or service is required");
    if (reviews.array().empty()) return out_.required(reviews_path);
    std::set<std::string> seen;
    for (std::size_t i = 0; i < reviews.array().size(); ++i) {
      std::string place = format("{}[{}]", reviews_path, i);
      if (!seen.insert(reviews.at(i).string()).second)
        out_.invalid(place, reviews.at(i), "duplicate version");
      else
        label(place, reviews.at(i));
    }
    if (!seen.contains("v1") && !seen.contains("v1beta1"))
      out_.invalid(reviews_path, reviews, "must include at least one of v1, v1beta1");
  }

  void storedVersions() {
    const json::Value& stored = crd_["status"]["storedVersions"];
    const std::string path = "status.storedVersions";
    if (stored.array().empty())
      return out_.invalid(path, json::Value(), "must have at least one stored version");
    std::set<std::string> there;
    for (const json::Value& one : versions_) {
      const json::Value& name = one["name"];
      there.insert(name.string());
      if (one["storage"].boolean() &&
          std::ranges::find(stored.array(), name) == stored.array().end())
        out_.invalid(path, stored, "must have the storage version " + name.string());
    }
    for (std::size_t i = 0; i < stored.array().size(); ++i) {
      const std::string& name = stored.at(i).string();
      if (there.contains(name)) continue;
      out_.invalid(format("{}[{}]", path, i), name,
                   format("missing from spec.versions; {0} was previously a storage version, and "
                          "must remain in spec.versions until a storage migration ensures no data "
                          "remains persisted in {0} and removes {0} from status.storedVersions",
                          name));
    }
  }

  void approval() {
    const std::string& group = spec_["group"].string();
    constexpr std::string_view kName = "api-approved.kubernetes.io";
    constexpr std::string_view kSee = "https://github.com/kubernetes/enhancements/pull/1111";
    if (!group.ends_with(".k8s.io") && !group.ends_with(".kubernetes.io")) return;
    const json::Value& value = crd_["metadata"]["annotations"][kName];
    std::string path = format("metadata.annotations[{}]", kName);
    if (value.string().empty())
      out_.required(path, format("protected groups must have approval annotation \"{}\", see {}",
                                 kName, kSee));
    else if (!value.string().starts_with("unapproved") &&
             value.string().find("://") == std::string::npos)
      out_.invalid(path, value,
                   format("protected groups must have approval annotation \"{}\" with either a URL "
                          "or a reason starting with \"unapproved\", see {}",
                          kName, kSee));
  }

  void changes() {
    if (old_.isNull()) return;
    const json::Value& before = old_["spec"];
    auto immutable = [&](std::string path, const json::Value& now, const json::Value& then) {
      if (!(now == then)) out_.invalid(std::move(path), now, "field is immutable");
    };
    if (isEstablished(old_)) {
      immutable("spec.scope", spec_["scope"], before["scope"]);
      immutable("spec.names.kind", spec_["names"]["kind"], before["names"]["kind"]);
    }
    immutable("spec.group", spec_["group"], before["group"]);
    immutable("spec.names.plural", spec_["names"]["plural"], before["names"]["plural"]);
  }

  const json::Value &crd_, &old_, &spec_;
  const json::Array& versions_;
  Faults out_;
};

// ------------------------------------------------------------------------------------------------
// The status

const json::Value* conditionOf(const json::Value& status, std::string_view type) {
  for (const json::Value& one : status["conditions"].array())
    if (one["type"].string() == type) return &one;
  return nullptr;
}

// With the time at which it became so.
void setCondition(json::Value& status, std::string_view type, bool holds, std::string_view reason,
                  std::string_view message, Time now) {
  std::string_view word = holds ? "True" : "False";
  const json::Value* before = conditionOf(status, type);
  json::Value since = before && (*before)["status"].string() == word
                          ? (*before)["lastTransitionTime"]
                          : json::Value(formatTime(now));
  json::Value condition = json::Object{{"type", type},
                                       {"status", word},
                                       {"reason", reason},
                                       {"message", message},
                                       {"lastTransitionTime", std::move(since)}};
  json::Array& list = status.make("conditions").makeArray();
  auto at = std::ranges::find_if(
      list, [&](const json::Value& one) { return one["type"].string() == type; });
  if (at == list.end())
    list.push_back(std::move(condition));
  else
    *at = std::move(condition);
}

// The names that others of the group have.
struct Taken {
  std::set<std::string> resources, kinds;

  Taken(const json::Value& crd, const std::vector<json::Value>& others) {
    for (const json::Value& other : others) {
      bool same_group = other["spec"]["group"] == crd["spec"]["group"];
      if (!same_group || other["metadata"]["name"] == crd["metadata"]["name"]) continue;
      const json::Value& names = other["status"]["acceptedNames"];
      for (std::string_view name : {"plural", "singular"}) resources.insert(names[name].string());
      for (const json::Value& name : names["shortNames"].array()) resources.insert(name.string());
      for (std::string_view name : {"kind", "listKind"}) kinds.insert(names[name].string());
    }
  }
};

}  // namespace

json::Value defaulted(json::Value crd, const json::Value& old) {
  json::Value& spec = crd.make("spec");
  json::Value& names = spec.make("names");
  const std::string kind = names["kind"].string();
  if (!kind.empty()) {
    if (names["singular"].string().empty()) names.make("singular") = lower(kind);
    if (names["listKind"].string().empty()) names.make("listKind") = kind + "List";
  }
  if (names.object().empty()) spec.makeObject().erase("names");
  if (crd["spec"]["conversion"].isNull())
    crd.make("spec").make("conversion") = json::Object{{"strategy", "None"}};
  const json::Value& service = crd["spec"]["conversion"]["webhook"]["clientConfig"]["service"];
  if (service.isObject() && service["port"].isNull())
    crd.make("spec")
        .make("conversion")
        .make("webhook")
        .make("clientConfig")
        .make("service")
        .make("port") = 443;
  json::Value status = old["status"];
  if (!status.isObject())
    status = json::Object{{"conditions", json::Value()},
                          {"acceptedNames", json::Object{{"plural", ""}, {"kind", ""}}},
                          {"storedVersions", json::Value()}};
  for (const json::Value& version : crd["spec"]["versions"].array()) {
    if (!version["storage"].boolean()) continue;
    json::Array& stored = status.make("storedVersions").makeArray();
    if (std::ranges::find(stored, version["name"]) == stored.end())
      stored.push_back(version["name"]);
    break;
  }
  crd.make("status") = std::move(status);
  return crd;
}

std::vector<kube::FieldError> validateCrd(const json::Value& crd, const json::Value& old) {
  return DefinitionRules(crd, old).look();
}

bool isEstablished(const json::Value& crd) {
  const json::Value* condition = conditionOf(crd["status"], "Established");
  return condition && (*condition)["status"].string() == "True";
}

json::Value acceptedStatus(const json::Value& crd, const std::vector<json::Value>& others,
                           Time now) {
  const json::Value &wanted = crd["spec"]["names"], &had = crd["status"]["acceptedNames"];
  const Taken taken(crd, others);
  json::Value status = crd["status"].isObject() ? crd["status"] : json::Object{};
  json::Value names = had.isObject() ? had : json::Object{};
  std::string reason, message;
  auto give = [&](std::string_view name, const std::set<std::string>& used, std::string_view why) {
    bool own = wanted[name] == had[name];
    if (!own && used.contains(wanted[name].string())) {
      reason = why;
      message = format("{} is already in use", quoted(wanted[name].string()));
    } else if (!wanted[name].isNull()) {
      names.make(name) = wanted[name];
    }
  };
  give("plural", taken.resources, "PluralConflict");
  give("singular", taken.resources, "SingularConflict");
  std::vector<std::string> conflicts;
  const json::Array& own_short = had["shortNames"].array();
  for (const json::Value& name : wanted["shortNames"].array())
    if (std::ranges::find(own_short, name) == own_short.end() &&
        taken.resources.contains(name.string()))
      conflicts.push_back(format("{} is already in use", quoted(name.string())));
  if (!conflicts.empty()) {
    reason = "ShortNamesConflict";
    message = conflicts.size() == 1 ? conflicts[0] : "[" + join(conflicts, ", ") + "]";
  } else if (wanted["shortNames"].isNull()) {
    names.makeObject().erase("shortNames");
  } else {
    names.make("shortNames") = wanted["shortNames"];
  }
  give("kind", taken.kinds, "KindConflict");
  give("listKind", taken.kinds, "ListKindConflict");
  if (wanted["categories"].isNull())
    names.makeObject().erase("categories");
  else
    names.make("categories") = wanted["categories"];
  status.make("acceptedNames") = std::move(names);

  const bool accepted = reason.empty();
  setCondition(status, "NamesAccepted", accepted, accepted ? "NoConflicts" : reason,
               accepted ? "no conflicts found" : message, now);
  // What was established stays so: its objects are there.
  if (accepted)
    setCondition(status, "Established", true, "InitialNamesAccepted",
                 "the initial names have been accepted", now);
  else if (!isEstablished(crd))
    setCondition(status, "Established", false, "NotAccepted", "not all names are accepted", now);
  return status;
}

json::Value terminatingStatus(const json::Value& crd, Time now) {
  json::Value status = crd["status"].isObject() ? crd["status"] : json::Object{};
  setCondition(status, "Terminating", true, "InstanceDeletionInProgress",
               "CustomResource deletion is in progress", now);
  return status;
}

}  // namespace cadre::hub
