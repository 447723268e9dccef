#include "kube/schema.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "base/format.h"
#include "base/strings.h"
#include "base/time.h"
#include "json/write.h"
#include "kube/describe.h"
#include "kube/names.h"
#include "kube/quantity.h"
#include "kube/validate.h"

namespace cadre::kube {

namespace {

using Type = Schema::Type;

constexpr std::string_view kQuantity =
    R"(^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$)";
constexpr std::string_view kConditionType =
    R"(^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?)"
    R"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$)";
constexpr std::string_view kConditionReason = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$";

// `kubectl apply` keeps the whole object in an annotation of at most 256 KiB.
constexpr std::size_t kMaxCrdBytes = 200'000;

json::Array texts(const std::vector<std::string>& list) { return {list.begin(), list.end()}; }

// 5 rather than 5.0, where that is the same.
json::Value number(double value) {
  json::Value whole(value);
  return whole.integer(0) == whole.integer(1) ? json::Value(whole.integer()) : whole;
}

// A field as CEL wants it: its own words are marked.
std::string celName(const std::string& field) {
  static const std::set<std::string_view> kWords = {
      "as",       "break",   "const",  "continue", "else", "false", "for",
      "function", "if",      "import", "in",       "let",  "loop",  "namespace",
      "null",     "package", "return", "true",     "var",  "void",  "while"};
  return kWords.contains(field) ? "__" + field + "__" : field;
}

Rule countOf(std::vector<std::string> fields, bool none_too, Fault reason) {
  std::string list = join(fields, ", ");
  std::vector<std::string> has;
  std::ranges::transform(fields, std::back_inserter(has), [](const std::string& field) {
    return "has(self." + celName(field) + ")";
  });
  return {.cel = format("[{}].filter(x, x).size() {} 1", join(has, ", "), none_too ? "<=" : "=="),
          .message = format("{} one of {} must be set", none_too ? "at most" : "exactly", list),
          .reason = reason,
          .holds = [fields = std::move(fields), none_too](const json::Value& self) {
            auto count = std::ranges::count_if(
                fields, [&](const auto& field) { return self.object().contains(field); });
            return count == 1 || (none_too && count == 0);
          }};
}

// What the pattern lets through: amounts that are too large.
void checkQuantity(const json::Value& self, Report& report) {
  static const Pattern pattern = *Pattern::parse(kQuantity);
  if (self.isString() && !pattern.matches(self.string())) return;
  if (auto quantity = Quantity::fromJson(self); !quantity)
    report.invalid("", quantity.error().message);
}

}  // namespace

const Property* Schema::field(std::string_view name) const {
  if (is_sorted) {
    auto place = std::ranges::lower_bound(fields, name, {}, &Property::name);
    return place == fields.end() || place->name != name ? nullptr : &*place;
  }
  auto found = std::ranges::find(fields, name, &Property::name);
  return found == fields.end() ? nullptr : &*found;
}

std::vector<const Property*> Schema::fieldsFor(const json::Object& object) const {
  std::vector<const Property*> out;
  if (!is_sorted || object.size() + awaited.size() >= fields.size()) {
    for (const Property& one : fields) out.push_back(&one);
    return out;
  }
  for (const auto& [name, member] : object)
    if (const Property* one = field(name)) out.push_back(one);
  for (std::size_t index : awaited) out.push_back(&fields[index]);
  std::ranges::sort(out);
  out.erase(std::ranges::unique(out).begin(), out.end());
  return out;
}

Rule exactlyOneOf(std::vector<std::string> fields, Fault reason) {
  return countOf(std::move(fields), false, reason);
}
Rule atMostOneOf(std::vector<std::string> fields, Fault reason) {
  return countOf(std::move(fields), true, reason);
}

std::string_view typeName(const Schema& schema) {
  switch (schema.type) {
    case Type::Any:
      break;
    case Type::Boolean:
      return "boolean";
    case Type::Integer:
      return "integer";
    case Type::Number:
      return "number";
    case Type::String:
      return "string";
    case Type::IntOrString:
      return "integer or string";
    case Type::Array:
      return "array";
    case Type::Object:
    case Type::Map:
      return "object";
  }
  return "";
}

// ------------------------------------------------------------------------------------------------
// Describing

Described Described::required() {
  schema_->required = true;
  return *this;
}
Described Described::defaults() { return defaults(schema_->initial); }
Described Described::defaults(json::Value value) {
  schema_->fallback = std::move(value);
  return *this;
}
Described Described::oneOf(std::vector<std::string> values) {
  schema_->one_of = texts(values);
  return *this;
}
Described Described::pattern(std::string_view text) {
  auto pattern = Pattern::parse(text);
  if (pattern)
    schema_->pattern = *std::move(pattern);
  else
    schema_->bad_pattern = pattern.error().message;
  return *this;
}
Described Described::dnsLabel() { return pattern(kDnsLabel).maxLength(63); }
Described Described::minLength(std::int64_t characters) {
  schema_->least_size = characters;
  return *this;
}
Described Described::maxLength(std::int64_t characters) {
  schema_->most_size = characters;
  return *this;
}
Described Described::min(double value) {
  schema_->least = value;
  return *this;
}
Described Described::max(double value) {
  schema_->most = value;
  return *this;
}
Described Described::minItems(std::int64_t count) { return minLength(count); }
Described Described::maxItems(std::int64_t count) { return maxLength(count); }
Described Described::set() {
  schema_->list = Schema::List::Set;
  return *this;
}
Described Described::keyedBy(std::vector<std::string> keys) {
  schema_->list = Schema::List::Map;
  schema_->keys = std::move(keys);
  return *this;
}
Described Described::format(std::string_view name) {
  schema_->format = name;
  return *this;
}
Described Described::nullable() {
  schema_->nullable = true;
  return *this;
}
Described Described::secret() {
  schema_->secret = true;
  return *this;
}
Described Described::deprecated(std::string_view instead) {
  schema_->deprecated = instead;
  return *this;
}
Described Described::preserveUnknown() {
  schema_->preserve_unknown = true;
  return *this;
}
Described Described::untyped() {
  schema_->type = Type::Any;
  schema_->preserve_unknown = true;
  return *this;
}
Described Described::intOrString() {
  schema_->type = Type::IntOrString;
  schema_->preserve_unknown = false;
  return *this;
}
Described Described::quantity() { return intOrString().pattern(kQuantity).check(checkQuantity); }
Described Described::anyOf(std::vector<std::string> fields) {
  schema_->any_of = std::move(fields);
  return *this;
}
Described Described::immutable() {
  return rule(
      {.cel = "self == oldSelf",
       .message = "is immutable",
       .holds = [](const json::Value& self, const json::Value& old) { return self == old; }});
}
Described Described::rule(Rule rule) {
  schema_->rules.push_back(std::move(rule));
  return *this;
}
Described Described::check(Check check) {
  schema_->checks.push_back(std::move(check));
  return *this;
}
Described Described::each() {
  // A description that asks this of a text has a problem; it must not be a crash.
  if (!schema_->items) schema_->items = std::make_unique<Schema>();
  return Described(*schema_->items);
}

void CommonStatus::describe(Fields<CommonStatus>& f) {
  f("observedGeneration", &CommonStatus::observed_generation,
    "The metadata.generation that this status is about; -1 before there is one.")
      .min(-1);
  f("conditions", &CommonStatus::conditions, "What holds and what does not, and why.")
      .keyedBy({"type"});
}

Schema Codec<Condition>::schema() {
  Schema schema{.type = Type::Object};
  auto add = [&](std::string_view name, std::string_view doc, Type type = Type::String) {
    Property& field = schema.fields.emplace_back(Property{std::string(name), {.type = type}});
    field.schema.doc = doc;
    return Described(field.schema);
  };
  add("type", "What it is about.").required().pattern(kConditionType).maxLength(316);
  add("status", "Whether it holds.").required().oneOf({"True", "False", "Unknown"});
  add("reason", "Why, in a word for programs.")
      .required()
      .pattern(kConditionReason)
      .minLength(1)
      .maxLength(kMaxConditionReason);
  add("message", "Why, in a sentence for people.").required().maxLength(kMaxConditionMessage);
  add("lastTransitionTime", "When the status changed last.").required().format("date-time");
  add("observedGeneration", "The metadata.generation that it is about.", Type::Integer)
      .format("int64")
      .min(0);
  return schema;
}

bool Codec<Condition>::read(const json::Value& value, Condition& out) {
  if (!value.isObject()) return false;
  json::Object object{
      {"status", json::Object{{"conditions", json::Array{value}}}}};  // as findCondition wants it
  auto condition = findCondition(object, value["type"].string());
  if (!condition) return false;
  out = *std::move(condition);
  return true;
}

json::Value Codec<Condition>::write(const Condition& condition) {
  json::Object object{{"type", condition.type},
                      {"status", conditionStatusName(condition.status)},
                      {"reason", condition.reason},
                      {"message", condition.message},
                      {"lastTransitionTime", formatTime(condition.last_transition_time)}};
  if (condition.observed_generation != 0)
    object.set("observedGeneration", condition.observed_generation);
  return object;
}

// ------------------------------------------------------------------------------------------------
// The CRD

namespace {

json::Value celRules(const std::vector<Rule>& rules) {
  json::Array out;
  for (const Rule& rule : rules) {
    json::Object one{{"rule", rule.cel}, {"message", rule.message}};
    if (!rule.field_path.empty()) one.set("fieldPath", rule.field_path);
    if (rule.reason != Fault::Invalid) one.set("reason", reasonName(rule.reason));
    out.emplace_back(std::move(one));
  }
  return out;
}

std::string description(const Schema& schema) {
  if (schema.deprecated.empty()) return schema.doc;
  return schema.doc + (schema.doc.empty() ? "" : " ") + "Deprecated: " + schema.deprecated;
}

json::Value openApi(const Schema& schema);

void addConstraints(const Schema& schema, json::Object& out) {
  bool counted = schema.type == Type::Array, mapped = schema.type == Type::Map;
  if (schema.least_size)
    out.set(counted ? "minItems" : mapped ? "minProperties" : "minLength", *schema.least_size);
  if (schema.most_size)
    out.set(counted ? "maxItems" : mapped ? "maxProperties" : "maxLength", *schema.most_size);
  if (schema.least) out.set("minimum", number(*schema.least));
  if (schema.most) out.set("maximum", number(*schema.most));
  if (!schema.one_of.empty()) out.set("enum", schema.one_of);
  if (!schema.pattern.empty()) out.set("pattern", schema.pattern.text());
  if (!schema.format.empty()) out.set("format", schema.format);
  if (schema.nullable) out.set("nullable", true);
  if (schema.fallback) out.set("default", *schema.fallback);
  if (!schema.rules.empty()) out.set("x-kubernetes-validations", celRules(schema.rules));
}

json::Value openApi(const Schema& schema) {
  json::Object out;
  if (std::string text = description(schema); !text.empty()) out.set("description", text);
  if (schema.type == Type::IntOrString)
    out.set("x-kubernetes-int-or-string", true);
  else if (schema.type != Type::Any)
    out.set("type", typeName(schema));
  if (schema.preserve_unknown || schema.type == Type::Any)
    out.set("x-kubernetes-preserve-unknown-fields", true);
  addConstraints(schema, out);
  if (schema.type == Type::Array) {
    constexpr std::string_view kNames[] = {"atomic", "set", "map"};
    out.set("x-kubernetes-list-type", kNames[static_cast<int>(schema.list)]);
    if (!schema.keys.empty()) out.set("x-kubernetes-list-map-keys", texts(schema.keys));
  }
  if (schema.items)
    out.set(schema.type == Type::Map ? "additionalProperties" : "items", openApi(*schema.items));
  if (!schema.fields.empty()) {
    json::Object properties;
    json::Array required;
    for (const Property& field : schema.fields) {
      properties.set(field.name, openApi(field.schema));
      if (field.schema.required) required.emplace_back(field.name);
    }
    out.set("properties", std::move(properties));
    if (!required.empty()) out.set("required", std::move(required));
    json::Array any_of;
    for (const std::string& name : schema.any_of)
      any_of.emplace_back(json::Object{{"required", json::Array{name}}});
    if (!any_of.empty()) out.set("anyOf", std::move(any_of));
  }
  return out;
}

json::Value rootSchema(const Kind& kind) {
  json::Object metadata{{"type", "object"}};
  if (kind.names != Kind::Names::DnsSubdomain)
    metadata.set("properties", json::Object{{"name", openApi(kind.nameSchema())}});
  json::Object properties{{"apiVersion", json::Object{{"type", "string"}}},
                          {"kind", json::Object{{"type", "string"}}},
                          {"metadata", std::move(metadata)},
                          {"spec", openApi(kind.spec)},
                          {"status", openApi(kind.status)}};
  json::Object root{{"type", "object"}, {"properties", std::move(properties)}};
  if (!kind.doc.empty()) root.set("description", kind.doc);
  if (kind.needsSpec()) root.set("required", json::Array{"spec"});
  if (!kind.rules.empty()) root.set("x-kubernetes-validations", celRules(kind.rules));
  return root;
}

json::Value printerColumns(const Kind& kind) {
  json::Array out;
  for (const Column& column : kind.columns) {
    json::Object one{{"name", column.name}, {"type", column.type}, {"jsonPath", column.path}};
    if (column.wide) one.set("priority", 1);
    out.emplace_back(std::move(one));
  }
  out.emplace_back(
      json::Object{{"name", "Age"}, {"type", "date"}, {"jsonPath", ".metadata.creationTimestamp"}});
  return out;
}

}  // namespace

Resource Kind::resource() const {
  return {.group = group,
          .version = version,
          .plural = plural,
          .kind = kind,
          .namespaced = scope == Scope::Namespaced};
}

bool Kind::needsSpec() const {
  return !spec.rules.empty() || !spec.checks.empty() || !spec.any_of.empty() ||
         std::ranges::any_of(spec.fields,
                             [](const Property& field) { return field.schema.required; });
}

Schema Kind::nameSchema() const {
  Schema schema{.type = Type::String};
  if (names != Names::DnsSubdomain)
    Described(schema).pattern(names == Names::DnsLabel ? kDnsLabel : kDns1035Label).maxLength(63);
  return schema;
}

json::Value crd(const Kind& kind) {
  json::Array categories{"cadre"};
  for (const std::string& category : kind.categories) categories.emplace_back(category);
  json::Object names{{"plural", kind.plural},
                     {"singular", kind.singular},
                     {"kind", kind.kind},
                     {"listKind", kind.kind + "List"},
                     {"categories", std::move(categories)}};
  if (!kind.short_names.empty()) names.set("shortNames", texts(kind.short_names));

  json::Object subresources{{"status", json::Object{}}};
  if (kind.scale) {
    json::Object scale{{"specReplicasPath", kind.scale->replicas},
                       {"statusReplicasPath", kind.scale->status_replicas}};
    if (!kind.scale->selector.empty()) scale.set("labelSelectorPath", kind.scale->selector);
    subresources.set("scale", std::move(scale));
  }
  json::Object version{{"name", kind.version},
                       {"served", true},
                       {"storage", true},
                       {"subresources", std::move(subresources)},
                       {"additionalPrinterColumns", printerColumns(kind)},
                       {"schema", json::Object{{"openAPIV3Schema", rootSchema(kind)}}}};
  bool namespaced = kind.scope == Kind::Scope::Namespaced;
  return json::Object{{"apiVersion", "apiextensions.k8s.io/v1"},
                      {"kind", "CustomResourceDefinition"},
                      {"metadata", json::Object{{"name", kind.plural + "." + kind.group}}},
                      {"spec", json::Object{{"group", kind.group},
                                            {"scope", namespaced ? "Namespaced" : "Cluster"},
                                            {"names", std::move(names)},
                                            {"versions", json::Array{std::move(version)}}}}};
}

// ------------------------------------------------------------------------------------------------
// Defaults

namespace {

// Whether a null is left for the member to be: the others are as if they were not there.
bool dropsNull(const json::Value& value, const Schema& schema) {
  return value.isNull() && !schema.nullable;
}

// About how long it is as text.
std::size_t lengthOf(const json::Value& value) {
  std::size_t length = 8 + value.string().size();
  for (const json::Value& item : value.array()) length += lengthOf(item);
  for (const auto& [key, item] : value.object()) length += key.size() + lengthOf(item);
  return length;
}

class Filling {
 public:
  void fill(json::Value& value, const Schema& schema) {
    if (value.isArray()) {
      if (!schema.items) return;
      for (json::Value& item : value.makeArray()) {
        setIfLeft(item, *schema.items);
        fill(item, *schema.items);
      }
      return;
    }
    if (!value.isObject()) return;
    json::Object& object = value.makeObject();
    if (schema.type == Type::Map && schema.items) {
      std::vector<json::Object::Member> kept;
      for (auto& [key, item] : object) {
        setIfLeft(item, *schema.items);
        if (dropsNull(item, *schema.items)) continue;
        fill(item, *schema.items);
        kept.emplace_back(key, std::move(item));
      }
      object = json::Object::fromSorted(std::move(kept));
      return;
    }
    for (const Property* field : schema.fieldsFor(object)) {
      json::Value* member = object.find(field->name);
      if (!member || dropsNull(*member, field->schema)) {
        if (!field->schema.fallback || !mayAdd(*field->schema.fallback)) {
          object.erase(field->name);
          continue;
        }
        member = &object[field->name];
        *member = *field->schema.fallback;
      }
      fill(*member, field->schema);
    }
  }

 private:
  void setIfLeft(json::Value& item, const Schema& schema) {
    if (dropsNull(item, schema) && schema.fallback && mayAdd(*schema.fallback))
      item = *schema.fallback;
  }
  bool mayAdd(const json::Value& fallback) {
    if (added_ < kMaxDefaults) added_ += lengthOf(fallback);
    return added_ < kMaxDefaults;
  }

  std::size_t added_ = 0;
};

}  // namespace

void setDefaults(const Schema& schema, json::Value& value) { Filling().fill(value, schema); }

json::Value withDefaults(const Kind& kind, json::Value object) {
  if (!object.isObject()) return object;
  for (auto [name, schema] : {std::pair{"spec", &kind.spec}, std::pair{"status", &kind.status}}) {
    json::Value* part = object.makeObject().find(name);
    if (!part && schema->fallback) object.makeObject().set(name, *schema->fallback);
    if (!part) continue;
    if (dropsNull(*part, *schema))
      object.makeObject().erase(name);
    else
      setDefaults(*schema, *part);
  }
  return object;
}

// ------------------------------------------------------------------------------------------------
// Descriptions that are wrong

namespace {

class Critic {
 public:
  std::vector<std::string> found;

  void look(const Schema& schema, const std::string& path) {
    auto say = [&](std::string text) { found.push_back(path + ": " + std::move(text)); };
    if (!schema.bad_pattern.empty()) say(schema.bad_pattern);
    if (schema.doc.empty() && !path.ends_with(']') && !path.ends_with('}'))
      say("has no documentation");
    if (schema.required && schema.fallback)
      say("is required and has a default: that is never used");
    if (schema.fallback) lookAtDefault(schema, path);
    bool text = schema.type == Type::String || schema.type == Type::IntOrString;
    bool numeric = schema.type == Type::Integer || schema.type == Type::Number;
    bool list = schema.type == Type::Array;
    if (!text && (!schema.pattern.empty() || !schema.one_of.empty()))
      say("has a pattern or an enumeration, but is no text");
    if (!schema.format.empty() && !knownFormat(schema.format))
      say(format("has the format {}, which is not checked here", schema.format));
    if (!numeric && (schema.least || schema.most)) say("has a range, but is no number");
    if (!text && !list && schema.type != Type::Map && (schema.least_size || schema.most_size))
      say("has a size, but is no text, list or map");
    if ((list || schema.type == Type::Map) != (schema.items != nullptr))
      say("each() is for lists and maps");
    if (!list && schema.list != Schema::List::Atomic) say("is a set or has keys, but is no list");
    for (const std::string& key : schema.keys) {
      const Property* field = schema.items ? schema.items->field(key) : nullptr;
      if (!field || (!field->schema.required && !field->schema.fallback))
        say(format("the key {} must be a field that is required or has a default", key));
    }
    for (const std::string& name : schema.any_of)
      if (!schema.field(name)) say(format("one of its fields is to be {}, which is none", name));
    lookAtRules(schema.rules, path);
    if (schema.items) look(*schema.items, path + (schema.type == Type::Map ? "{}" : "[]"));
    std::set<std::string_view> names;
    for (const Property& field : schema.fields) {
      if (!names.insert(field.name).second) say(format("has two fields {}", field.name));
      look(field.schema, path + "." + field.name);
    }
  }

  void lookAtRules(const std::vector<Rule>& rules, const std::string& path) {
    for (const Rule& rule : rules) {
      auto say = [&](std::string_view text) {
        found.push_back(format("{}: the rule {} {}", path, rule.cel, text));
      };
      if (!rule.holds) say("has no native side");
      if (rule.message.empty()) say("has no message");
      bool change = rule.cel.find("oldSelf") != std::string::npos;
      if (rule.holds && change != rule.holds.ofChange())
        say("is about a change on one of its sides only");
      if (!rule.field_path.empty() && !rule.field_path.starts_with('.'))
        say("has a field path that does not begin with a dot");
      if (rule.reason != Fault::Invalid && rule.reason != Fault::Required &&
          rule.reason != Fault::Forbidden && rule.reason != Fault::Duplicate)
        say("has a reason that a CRD cannot give");
    }
  }

 private:
  void lookAtDefault(const Schema& schema, const std::string& path) {
    for (const FieldError& error : validateValue(schema, *schema.fallback, path))
      found.push_back("the default is wrong: " + error.text());
  }
};

}  // namespace

std::vector<std::string> problems(const Kind& kind) {
  Critic critic;
  critic.look(kind.spec, "spec");
  critic.look(kind.status, "status");
  critic.lookAtRules(kind.rules, "the object");
  const Property* conditions = kind.status.field("conditions");
  if (!conditions || conditions->schema.keys != std::vector<std::string>{"type"})
    critic.found.emplace_back("status: conditions are missing: derive it from CommonStatus");
  for (const Column& column : kind.columns)
    if (column.name == "Age") critic.found.emplace_back("the column Age comes by itself");
  if (std::size_t size = json::write(crd(kind)).size(); size > kMaxCrdBytes)
    critic.found.push_back(
        format("the CRD has {} bytes, `kubectl apply` takes no more than {}", size, kMaxCrdBytes));
  return critic.found;
}

}  // namespace cadre::kube
