#include "hub/custom.h"

#include <algorithm>
#include <limits>

#include "base/format.h"
#include "base/strings.h"
#include "hub/builtin.h"
#include "hub/json_path.h"
#include "json/texts.h"
#include "json/write.h"
#include "kube/object_meta.h"
#include "kube/structural.h"

namespace cadre::hub {

namespace {

using kube::Fault;
using kube::FieldError;

constexpr std::string_view kNotAsked =
    "Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation";

std::string withoutDot(std::string_view path) {
  return std::string(path.starts_with('.') ? path.substr(1) : path);
}

// As whoever reads the headers is told.
std::string deprecationOf(const json::Value& spec, const json::Value& version) {
  if (!version["deprecated"].boolean()) return {};
  if (version["deprecationWarning"].isString()) return version["deprecationWarning"].string();
  const std::string &group = spec["group"].string(), &kind = spec["names"]["kind"].string();
  std::string text = format("{}/{} {} is deprecated", group, version["name"].string(), kind);
  std::string_view best = version["name"].string();
  for (const json::Value& other : spec["versions"].array())
    if (other["served"].boolean() && !other["deprecated"].boolean() &&
        isPreferred(other["name"].string(), best))
      best = other["name"].string();
  if (best != version["name"].string()) text += format("; use {}/{} {}", group, best, kind);
  return text;
}

bool hasRules(const json::Value& schema) {
  if (schema.isArray()) return std::ranges::any_of(schema.array(), hasRules);
  if (!schema.isObject()) return false;
  if (!schema["x-kubernetes-validations"].array().empty()) return true;
  if (hasRules(schema["items"]) || hasRules(schema["additionalProperties"])) return true;
  return std::ranges::any_of(schema["properties"].object(),
                             [](const auto& field) { return hasRules(field.second); });
}

void collectRules(const json::Value& schema, const std::string& path,
                  std::vector<std::string>& out) {
  for (const json::Value& rule : schema["x-kubernetes-validations"].array())
    out.push_back(format("{}: the rule `{}` is not evaluated", path.empty() ? "the object" : path,
                         shorten(rule["rule"].string(), 200)));
  for (const auto& [name, inner] : schema["properties"].object())
    collectRules(inner, path.empty() ? name : format("{}.{}", path, name), out);
  if (schema["items"].isObject()) collectRules(schema["items"], path + "[]", out);
  if (schema["additionalProperties"].isObject())
    collectRules(schema["additionalProperties"], path + "{}", out);
}

// By its name, or by a schema that is the same to the last rule, whatever it is called there.
const kube::Kind* nativeOf(Natives natives, const json::Value& spec, const json::Value& version) {
  kube::GroupVersionKind gvk{spec["group"].string(), version["name"].string(),
                             spec["names"]["kind"].string()};
  for (const kube::Kind* one : natives)
    if (one->gvk() == gvk ||
        kube::crd(*one)["spec"]["versions"].at(0)["schema"] == version["schema"])
      return one;
  return nullptr;
}

struct Printed {
  Kind::Column column;
  std::optional<JsonPath> path;  // none: it is not understood, and nothing is found
};

class CustomKind final : public Kind {
 public:
  using SchemaRef = std::shared_ptr<const kube::Schema>;

  CustomKind(const json::Value& crd, const json::Value& version, SchemaRef schema, SchemaRef stored,
             const kube::Kind* native)
      : shared_(std::move(schema)),
        schema_(*shared_),
        stored_(std::move(stored)),
        since_(parseInt(kube::resourceVersion(crd)).value_or(0)),
        open_api_(version["schema"]["openAPIV3Schema"]),
        native_(native),
        has_rules_(hasRules(open_api_)) {
    const json::Value &spec = crd["spec"], &names = spec["names"];
    resource = {.group = spec["group"].string(),
                .version = version["name"].string(),
                .plural = names["plural"].string(),
                .kind = names["kind"].string(),
                .namespaced = spec["scope"].string() != "Cluster"};
    singular = names["singular"].string();
    if (singular.empty()) singular = lower(resource.kind);
    short_names = textsOf(names["shortNames"]);
    categories = textsOf(names["categories"]);
    list_kind = names["listKind"].string();
    needs_version = true;
    deprecation = deprecationOf(spec, version);
    served = version["served"].boolean();
    going = kube::isDeleting(crd);
    storage = resource.group + "/" + resource.plural;
    for (const json::Value& one : spec["versions"].array())
      if (one["storage"].boolean()) stored_version = one["name"].string();
    const json::Value& subresources = version["subresources"];
    has_status = subresources["status"].isObject();
    if (const json::Value& scale = subresources["scale"]; scale.isObject()) {
      has_scale = true;
      scale_ = {withoutDot(scale["specReplicasPath"].string()),
                withoutDot(scale["statusReplicasPath"].string()),
                withoutDot(scale["labelSelectorPath"].string())};
    }
    for (const json::Value& one : version["selectableFields"].array())
      selectable_.push_back({.path = withoutDot(one["jsonPath"].string())});
    addColumns(version["additionalPrinterColumns"]);
  }

  std::vector<std::string> unknownFields(const json::Value& object) const override {
    json::Value copy = object;
    std::vector<std::string> paths = kube::prune(schema_, copy);
    std::ranges::sort(paths);
    return paths;
  }

  json::Value pruned(json::Value object) const override {
    kube::prune(schema_, object);
    return object;
  }

  std::optional<std::string> undecodable(const json::Value& object) const override {
    auto why = kube::unreadableMetadata(object["metadata"]);
    if (!why) return std::nullopt;
    return format("{} in version \"{}\" cannot be handled as a {}: {}", resource.kind,
                  resource.version, resource.kind, *why);
  }

  void setDefaults(json::Value& object) const override { kube::setDefaults(schema_, object); }

  bool differs(std::int64_t revision) const override {
    return revision < since_ || resource.version != stored_version;
  }
  void asStored(json::Value& object) const override {
    kube::prune(*stored_, object);
    kube::setDefaults(*stored_, object);
  }
  void asShown(json::Value& object) const override { kube::prune(schema_, object); }
  void defaultAsStored(json::Value& object) const override { kube::setDefaults(*stored_, object); }

  std::vector<FieldError> validate(const json::Value& object, const json::Value& old,
                                   bool status) const override {
    std::vector<FieldError> errors = typeErrors(object);
    if (!errors.empty()) return errors;
    auto add = [&](std::vector<FieldError> more) {
      std::ranges::move(more, std::back_inserter(errors));
    };
    using Scope = kube::MetadataOptions::Scope;
    kube::MetadataOptions options{.scope =
                                      resource.namespaced ? Scope::Namespaced : Scope::Cluster};
    add(old.isNull() ? kube::validateMetadata(object["metadata"], options)
                     : kube::validateMetadataChange(object["metadata"], old["metadata"], options));
    status ? addStatusErrors(object, old, add) : addErrors(object, old, add);
    add(ruleErrors(object, old, status, errors));
    return errors;
  }

  bool isNewGeneration(const json::Value& before, const json::Value& after) const override {
    auto rest = [&](const json::Value& object) {
      json::Object out = object.object();
      out.erase("metadata");
      if (has_status) out.erase("status");
      return out;
    };
    return !(rest(before) == rest(after));
  }
  bool hasGeneration() const override { return true; }

  const json::Value* schema() const override { return &open_api_; }
  std::vector<Selectable> selectable() const override { return selectable_; }

  std::vector<Column> columns() const override {
    std::vector<Column> out{{.name = "Name",
                             .type = "string",
                             .format = "name",
                             .description = "What the object is called; it cannot be changed."}};
    for (const Printed& one : printed_) out.push_back(one.column);
    return out;
  }

  json::Array cells(const json::Value& object, Time now) const override {
    json::Array out{object["metadata"]["name"]};
    for (const Printed& one : printed_) {
      auto found = one.path ? one.path->find(object) : std::vector<const json::Value*>();
      out.push_back(found.empty() ? json::Value() : cell(one.column.type, *found.front(), now));
    }
    return out;
  }

  Scale scale() const override { return scale_; }

 private:
  void addColumns(const json::Value& list) {
    for (const json::Value& one : list.array()) {
      const std::string& text = one["jsonPath"].string();
      auto path = JsonPath::parse(text);
      std::string description = one["description"].string();
      if (description.empty())
        description = format("Custom resource definition column (in JSONPath format): {}", text);
      printed_.push_back({.column = {.name = one["name"].string(),
                                     .type = one["type"].string(),
                                     .format = one["format"].string(),
                                     .description = std::move(description),
                                     .priority = one["priority"].integer()},
                          .path = path ? std::optional(*std::move(path)) : std::nullopt});
    }
    if (!printed_.empty()) return;
    printed_.push_back({.column = {.name = "Age",
                                   .type = "date",
                                   .format = "",
                                   .description = "How long ago the object was made."},
                        .path = *JsonPath::parse(".metadata.creationTimestamp")});
  }

  static json::Value cell(std::string_view type, const json::Value& value, Time now) {
    if (type == "string") {
      if (value.isNull()) return "<no value>";
      return value.isString() ? value : json::Value(json::write(value));
    }
    if (type == "integer" && value.isNumber())
      return value.isInteger() ? value : json::Value(whole(value.number()));
    if (type == "number" && value.isNumber()) return value;
    if (type == "boolean" && value.isBool()) return value;
    if (type != "date" || !value.isString()) return {};
    if (value.string().empty() || value.string() == "null") return "<unknown>";
    auto time = parseTime(value.string());
    return time ? ageText(now - *time) : "<invalid>";
  }

  // A fraction as Go cuts it; what does not fit is the smallest.
  static std::int64_t whole(double number) {
    bool fits = number > -9.2e18 && number < 9.2e18;
    return fits ? static_cast<std::int64_t>(number) : std::numeric_limits<std::int64_t>::min();
  }

  std::vector<FieldError> typeErrors(const json::Value& object) const {
    std::vector<FieldError> out;
    auto only = [&](std::string_view name, const std::string& wanted) {
      if (object[name] == json::Value(wanted)) return;
      out.push_back({.path = std::string(name),
                     .fault = Fault::Invalid,
                     .message = format("Invalid value: {}: must be {}",
                                       json::write(object[name].string()), wanted)});
    };
    only("kind", resource.kind);
    only("apiVersion", resource.apiVersion());
    return out;
  }

  template <class Add>
  void addErrors(const json::Value& object, const json::Value& old, Add add) const {
    add(kube::validateShape(schema_, object, {.old = old.isNull() ? nullptr : &old}));
    if (has_scale) {
      add(replicaErrors(object, scale_.spec_path));
      add(statusScaleErrors(object));
    }
    add(kube::validateEmbedded(schema_, object));
    if (old.isNull() || kube::validateLists(schema_, old).empty())
      add(kube::validateLists(schema_, object));
  }

  template <class Add>
  void addStatusErrors(const json::Value& object, const json::Value& old, Add add) const {
    const kube::Property* field = schema_.field("status");
    const json::Value* now = object.object().find("status");
    const json::Value* before = old.object().find("status");
    if (field && now)
      add(kube::validateShape(field->schema, *now, {.root = "status", .old = before}));
    if (has_scale) add(statusScaleErrors(object));
    if (!field || !now) return;
    add(kube::validateEmbedded(field->schema, *now, "status"));
    if (!before || kube::validateLists(field->schema, *before).empty())
      add(kube::validateLists(field->schema, *now, "status"));
  }

  // What the scale subresource reads, in the words of who looks for it by its path.
  std::optional<FieldError> unreadable(const json::Value& object, const std::string& path,
                                       std::string_view wanted) const {
    const json::Value* at = &object;
    auto fail = [&](std::string_view expected) {
      std::string_view type = at->isString()    ? "string"
                              : at->isInteger() ? "int64"
                              : at->isNumber()  ? "float64"
                              : at->isBool()    ? "bool"
                              : at->isArray()   ? "[]interface {}"
                              : at->isObject()  ? "map[string]interface {}"
                                                : "<nil>";
      std::string shown = at->isString() ? at->string() : at->isNull() ? "<nil>" : json::write(*at);
      return FieldError{
          .path = "." + path,
          .fault = Fault::Invalid,
          .message =
              format("Invalid value: {}: .{} accessor error: {} is of the type {}, expected {}",
                     wanted == "string" ? "\"\"" : "0", path, shown, type, expected)};
    };
    for (std::string_view name : split(path, '.')) {
      if (!at->isObject()) return fail("map[string]interface{}");
      at = at->object().find(name);
      if (!at) return std::nullopt;
    }
    bool right = wanted == "string" ? at->isString() : at->isInteger();
    if (right) return std::nullopt;
    return fail(wanted);
  }

  std::vector<FieldError> replicaErrors(const json::Value& object, const std::string& path) const {
    if (auto error = unreadable(object, path, "int64")) return {*std::move(error)};
    const json::Value* at = &object;
    for (std::string_view name : split(path, '.')) at = &(*at)[name];
    std::int64_t number = at->integer();
    std::string_view why = number < 0 ? "should be a non-negative integer"
                           : number > std::numeric_limits<std::int32_t>::max()
                               ? "should be less than or equal to 2147483647"
                               : "";
    if (why.empty()) return {};
    return {{.path = "." + path,
             .fault = Fault::Invalid,
             .message = format("Invalid value: {}: {}", number, why)}};
  }

  std::vector<FieldError> statusScaleErrors(const json::Value& object) const {
    std::vector<FieldError> out = replicaErrors(object, scale_.status_path);
    if (scale_.selector_path.empty()) return out;
    if (auto error = unreadable(object, scale_.selector_path, "string"))
      out.push_back(*std::move(error));
    return out;
  }

  std::vector<FieldError> ruleErrors(const json::Value& object, const json::Value& old, bool status,
                                     const std::vector<FieldError>& so_far) const {
    if (std::ranges::any_of(so_far, [](const FieldError& e) { return kube::blocksRules(e.fault); }))
      return has_rules_ ? std::vector<FieldError>{{.path = "<nil>",
                                                   .fault = Fault::Invalid,
                                                   .message = std::string(kNotAsked)}}
                        : std::vector<FieldError>();
    if (!native_) return {};
    std::vector<FieldError> errors = kube::validateRules(*native_, object, old, status);
    if (!old.isNull() && !errors.empty()) {
      std::vector<FieldError> before = kube::validateRules(*native_, old, {}, status);
      std::erase_if(errors, [&](const FieldError& error) {
        return std::ranges::find(before, error) != before.end();
      });
    }
    return errors;
  }

  const SchemaRef shared_;  // with the other one, where that is the same
  const kube::Schema& schema_;
  const SchemaRef stored_;
  const std::int64_t since_;  // the definition's revision
  const json::Value open_api_;
  const kube::Kind* const native_;
  const bool has_rules_;
  std::vector<Printed> printed_;
  std::vector<Selectable> selectable_;
  Scale scale_;
};

}  // namespace

std::vector<KindRef> kindsOf(const json::Value& crd, Natives natives) {
  std::vector<KindRef> kinds;
  const json::Value& spec = crd["spec"];
  auto schemaOf = [](const json::Value& version) -> std::shared_ptr<const kube::Schema> {
    auto read = kube::readSchema(version["schema"]["openAPIV3Schema"]);
    if (!read) return nullptr;
    read->embedded = true;  // an object with metadata, whatever its schema says
    return std::make_shared<kube::Schema>(*std::move(read));
  };
  std::shared_ptr<const kube::Schema> stored;
  for (const json::Value& version : spec["versions"].array())
    if (version["storage"].boolean()) stored = schemaOf(version);
  if (!stored) return kinds;
  for (const json::Value& version : spec["versions"].array()) {
    if (!version["served"].boolean() && !version["storage"].boolean()) continue;
    auto schema = version["storage"].boolean() ? stored : schemaOf(version);
    if (!schema) continue;
    kinds.push_back(std::make_shared<CustomKind>(crd, version, std::move(schema), stored,
                                                 nativeOf(natives, spec, version)));
  }
  return kinds;
}

std::vector<std::string> uncheckedOf(const json::Value& crd, Natives natives) {
  std::vector<std::string> out;
  const json::Value& spec = crd["spec"];
  for (const json::Value& version : spec["versions"].array()) {
    const std::string& name = version["name"].string();
    const json::Value& schema = version["schema"]["openAPIV3Schema"];
    std::vector<std::string> found;
    if (auto read = kube::readSchema(schema); !read) found.push_back(read.error().message);
    if (!nativeOf(natives, spec, version)) collectRules(schema, "", found);
    for (std::string& one : found)
      out.push_back(format("{}/{}: {}", spec["names"]["plural"].string(), name,
                           one.starts_with('.') ? one.substr(1) : one));
  }
  return out;
}

}  // namespace cadre::hub
