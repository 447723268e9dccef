#include "kube/object_meta.h"

#include <algorithm>
#include <array>
#include <set>

#include "base/format.h"
#include "base/strings.h"
#include "base/time.h"
#include "json/write.h"
#include "kube/pattern.h"

namespace cadre::kube {

namespace {

constexpr std::size_t kMaxAnnotationBytes = 256u << 10;

// A sentence of the server about what a text must be, with its examples and its expression.
struct Rule {
  std::string_view what, expression;
  std::vector<std::string_view> examples;
  std::size_t limit = 0;
  Pattern pattern = {};

  Rule(std::string_view what_is, std::string_view matches, std::vector<std::string_view> such_as,
       std::size_t most)
      : what(what_is),
        expression(matches),
        examples(std::move(such_as)),
        limit(most),
        pattern(*Pattern::parse(format("^{}$", matches))) {}

  std::string sentence() const {
    std::string list;
    for (std::string_view example : examples)
      list += format("{}'{}', ", list.empty() ? "" : " or ", example);
    return format("{} (e.g. {}regex used for validation is '{}')", what, list, expression);
  }
  std::string tooLong() const { return format("must be no more than {} characters", limit); }

  std::vector<std::string> faults(std::string_view text) const {
    std::vector<std::string> out;
    if (text.size() > limit) out.push_back(tooLong());
    if (!pattern.matches(text)) out.push_back(sentence());
    return out;
  }
};

const Rule& subdomain() {
  static const Rule rule(
      "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
      "'.', and must start and end with an alphanumeric character",
      "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", {"example.com"}, 253);
  return rule;
}
const Rule& dnsLabel() {
  static const Rule rule(
      "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
      "must start and end with an alphanumeric character",
      "[a-z0-9]([-a-z0-9]*[a-z0-9])?", {"my-name", "123-abc"}, 63);
  return rule;
}
const Rule& dns1035() {
  static const Rule rule(
      "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
      "alphabetic character, and end with an alphanumeric character",
      "[a-z]([-a-z0-9]*[a-z0-9])?", {"my-name", "abc-123"}, 63);
  return rule;
}
const Rule& qualified() {
  static const Rule rule(
      "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
      "alphanumeric character",
      "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]", {"MyName", "my.name", "123-abc"}, 63);
  return rule;
}
const Rule& labelValue() {
  static const Rule rule(
      "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
      "'.', and must start and end with an alphanumeric character",
      "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?", {"MyValue", "my_value", "12345"}, 63);
  return rule;
}

// Errors about fields below one path.
class Faults {
 public:
  explicit Faults(std::string path) : path_(std::move(path)) {}

  void add(std::string_view field, Fault fault, std::string message) {
    std::string path = field.empty() ? path_ : path_ + "." + std::string(field);
    found.push_back({.path = std::move(path), .fault = fault, .message = std::move(message)});
  }
  void invalid(std::string_view field, const json::Value& value, std::string_view why) {
    add(field, Fault::Invalid, format("Invalid value: {}: {}", json::write(value), why));
  }
  void invalid(std::string_view field, const json::Value& value,
               const std::vector<std::string>& reasons) {
    for (const std::string& why : reasons) invalid(field, value, why);
  }

  std::vector<FieldError> found;

 private:
  const std::string path_;
};

// As Go writes a struct: its fields in their own order, those that are empty left out.
std::string ownerText(const json::Value& owner) {
  std::string out = "{";
  for (std::string_view name :
       {"apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"}) {
    const json::Value* member = owner.object().find(name);
    bool always = name != "controller" && name != "blockOwnerDeletion";
    if ((!member || member->isNull()) && !always) continue;
    out += format("{}\"{}\":{}", out.size() > 1 ? "," : "", name,
                  member ? json::write(*member) : "\"\"");
  }
  return out + "}";
}

void owners(const json::Value& list, Faults& out) {
  std::string controller;
  for (const json::Value& owner : list.array()) {
    const std::string &api_version = owner["apiVersion"].string(), &kind = owner["kind"].string();
    std::string_view version = cut(api_version, "/").second;
    if (api_version.find('/') == std::string::npos) version = api_version;
    if (version.empty())
      out.invalid("ownerReferences.apiVersion", api_version, "version must not be empty");
    if (kind.empty()) out.invalid("ownerReferences.kind", kind, "must not be empty");
    for (std::string_view name : {"name", "uid"})
      if (owner[name].string().empty())
        out.invalid(format("ownerReferences.{}", name), "", "must not be empty");
    if (api_version == "v1" && kind == "Event")
      out.add("ownerReferences", Fault::Invalid,
              format("Invalid value: {}: /v1, Kind=Event is disallowed from being an owner",
                     ownerText(owner)));
    if (!owner["controller"].boolean()) continue;
    std::string current = kind + "/" + owner["name"].string();
    if (controller.empty()) {
      controller = std::move(current);
      continue;
    }
    std::string all;
    for (const json::Value& one : list.array()) all += (all.empty() ? "" : ",") + ownerText(one);
    out.add("ownerReferences", Fault::Invalid,
            format("Invalid value: [{}]: Only one reference can have Controller set to true. Found "
                   "\"true\" in references for {} and {}",
                   all, controller, current));
  }
}

void finalizers(const json::Value& list, Faults& out) {
  bool orphan = false, foreground = false;
  for (const json::Value& one : list.array()) {
    out.invalid("finalizers", one, qualifiedNameFaults(one.string()));
    orphan = orphan || one == json::Value("orphan");
    foreground = foreground || one == json::Value("foregroundDeletion");
  }
  if (orphan && foreground)
    out.invalid("finalizers", list, "finalizer orphan and foregroundDeletion cannot be both set");
}

void labelsAndAnnotations(const json::Value& metadata, Faults& out) {
  for (const auto& [key, value] : metadata["labels"].object()) {
    out.invalid("labels", key, qualifiedNameFaults(key));
    out.invalid("labels", value, labelValue().faults(value.string()));
  }
  std::size_t bytes = 0;
  for (const auto& [key, value] : metadata["annotations"].object()) {
    out.invalid("annotations", key, qualifiedNameFaults(lower(key)));
    bytes += key.size() + value.string().size();
  }
  if (bytes > kMaxAnnotationBytes)
    out.add("annotations", Fault::TooLong,
            format("Too long: may not be more than {} bytes", kMaxAnnotationBytes));
}

void names(const json::Value& metadata, const MetadataOptions& options, Faults& out) {
  const std::string &name = metadata["name"].string(), &prefix = metadata["generateName"].string();
  // A prefix may end in what stands between it and the rest.
  if (!prefix.empty()) {
    std::string shown = prefix;
    if (shown.ends_with('-')) shown.back() = 'a';
    out.invalid("generateName", prefix, options.name_rule(shown));
  }
  if (!name.empty())
    out.invalid("name", name, options.name_rule(name));
  else if (options.needs_name)
    out.add("name", Fault::Required, "Required value: name or generateName is required");

  const std::string& ns = metadata["namespace"].string();
  using Scope = MetadataOptions::Scope;
  if (options.scope == Scope::Cluster && !ns.empty())
    out.add("namespace", Fault::Forbidden, "Forbidden: not allowed on this type");
  else if (options.scope == Scope::Namespaced && ns.empty())
    out.add("namespace", Fault::Required, "Required value");
  else if (!ns.empty())
    out.invalid("namespace", ns, dnsLabelFaults(ns));
}

}  // namespace

std::vector<std::string> subdomainFaults(std::string_view name) { return subdomain().faults(name); }
std::vector<std::string> dnsLabelFaults(std::string_view name) { return dnsLabel().faults(name); }
std::vector<std::string> dns1035Faults(std::string_view name) { return dns1035().faults(name); }

std::vector<std::string> pathSegmentFaults(std::string_view name) {
  if (name == "." || name == "..") return {format("may not be '{}'", name)};
  std::vector<std::string> out;
  for (char c : {'/', '%'})
    if (name.find(c) != std::string_view::npos) out.push_back(format("may not contain '{}'", c));
  return out;
}

std::vector<std::string> qualifiedNameFaults(std::string_view name) {
  std::vector<std::string> out;
  auto slash = name.find('/');
  if (slash != std::string_view::npos) {
    std::string_view prefix = name.substr(0, slash);
    if (name.find('/', slash + 1) != std::string_view::npos)
      return {
          format("a qualified name {} with an optional DNS subdomain prefix and '/' (e.g. "
                 "'example.com/MyName')",
                 qualified().sentence())};
    if (prefix.empty())
      out.emplace_back("prefix part must be non-empty");
    else
      for (const std::string& fault : subdomainFaults(prefix))
        out.push_back("prefix part " + fault);
    name = name.substr(slash + 1);
  }
  if (name.empty()) out.emplace_back("name part must be non-empty");
  for (const std::string& fault : qualified().faults(name)) out.push_back("name part " + fault);
  return out;
}

std::vector<FieldError> validateMetadata(const json::Value& metadata,
                                         const MetadataOptions& options) {
  Faults out(options.path);
  names(metadata, options, out);
  if (metadata["generation"].integer() < 0)
    out.invalid("generation", metadata["generation"], "must be greater than or equal to 0");
  labelsAndAnnotations(metadata, out);
  owners(metadata["ownerReferences"], out);
  finalizers(metadata["finalizers"], out);
  return std::move(out.found);
}

std::vector<FieldError> validateMetadataChange(const json::Value& metadata, const json::Value& old,
                                               MetadataOptions options) {
  options.name_rule = pathSegmentFaults;
  std::vector<FieldError> found = validateMetadata(metadata, options);
  Faults out(options.path);
  if (!old["deletionTimestamp"].isNull()) {
    std::set<std::string> added;
    for (const json::Value& one : metadata["finalizers"].array()) added.insert(one.string());
    for (const json::Value& one : old["finalizers"].array()) added.erase(one.string());
    std::string list;
    for (const std::string& one : added) list += (list.empty() ? "" : ", ") + json::write(one);
    if (!added.empty())
      out.add("finalizers", Fault::Forbidden,
              format("Forbidden: no new finalizers can be added if the object is being deleted, "
                     "found new finalizers []string{{{}}}",
                     list));
  }
  for (std::string_view name :
       {"name", "namespace", "deletionTimestamp", "deletionGracePeriodSeconds"})
    if (!(metadata[name] == old[name])) out.invalid(name, metadata[name], "field is immutable");
  std::ranges::move(out.found, std::back_inserter(found));
  return found;
}

std::vector<FieldError> validateEmbeddedObject(const json::Value& object, const std::string& path) {
  Faults out(path);
  for (std::string_view name : {"apiVersion", "kind"}) {
    const json::Value* value = object.object().find(name);
    if (!value) {
      out.add(name, Fault::Required, "Required value");
    } else if (!value->isString()) {
      out.invalid(name, *value, "must be a string");
    } else if (value->string().empty()) {
      out.invalid(name, *value, "must not be empty");
    } else if (name == "apiVersion") {
      if (std::ranges::count(value->string(), '/') > 1)
        out.invalid(name, *value, "unexpected GroupVersion string: " + value->string());
    } else {
      std::vector<std::string> faults = dns1035Faults(lower(value->string()));
      if (!faults.empty())
        out.invalid(name, *value,
                    "may have mixed case, but should otherwise match: " + join(faults, ","));
    }
  }
  if (const json::Value* metadata = object.object().find("metadata")) {
    if (auto unreadable = unreadableMetadata(*metadata)) {
      out.invalid("metadata", *metadata, *unreadable);
    } else {
      std::ranges::move(validateMetadata(*metadata, {.name_rule = pathSegmentFaults,
                                                     .path = path + ".metadata",
                                                     .needs_name = false,
                                                     .scope = MetadataOptions::Scope::Either}),
                        std::back_inserter(out.found));
    }
  }
  return std::move(out.found);
}

std::vector<std::string> metadataWarnings(const json::Value& metadata, const json::Value& old) {
  std::set<std::string> added;
  for (const json::Value& one : metadata["finalizers"].array()) added.insert(one.string());
  for (const json::Value& one : old["finalizers"].array()) added.erase(one.string());
  std::vector<std::string> out;
  for (const std::string& name : added) {
    for (const std::string& fault : qualifiedNameFaults(name))
      out.push_back(format("metadata.finalizers: {}: {}", json::write(name), fault));
    bool known = name == "orphan" || name == "foregroundDeletion" || name == "kubernetes";
    if (known || name.find('/') != std::string::npos) continue;
    out.push_back(format(
        "metadata.finalizers: {}: prefer a domain-qualified finalizer name{} to avoid accidental "
        "conflicts with other finalizer writers",
        json::write(name), name.find('.') == std::string::npos ? "" : " including a path (/)"));
  }
  return out;
}

// ------------------------------------------------------------------------------------------------
// Its fields

namespace {

enum class Form { Text, Number, Boolean, Time, Texts, TextMap, Owners, Managed, Any };

struct Field {
  std::string_view name;
  Form form;
};

constexpr std::array kMetadata = {Field{"annotations", Form::TextMap},
                                  Field{"creationTimestamp", Form::Time},
                                  Field{"deletionGracePeriodSeconds", Form::Number},
                                  Field{"deletionTimestamp", Form::Time},
                                  Field{"finalizers", Form::Texts},
                                  Field{"generateName", Form::Text},
                                  Field{"generation", Form::Number},
                                  Field{"labels", Form::TextMap},
                                  Field{"managedFields", Form::Managed},
                                  Field{"name", Form::Text},
                                  Field{"namespace", Form::Text},
                                  Field{"ownerReferences", Form::Owners},
                                  Field{"resourceVersion", Form::Text},
                                  Field{"selfLink", Form::Text},
                                  Field{"uid", Form::Text}};
constexpr std::array kOwner = {
    Field{"apiVersion", Form::Text},    Field{"blockOwnerDeletion", Form::Boolean},
    Field{"controller", Form::Boolean}, Field{"kind", Form::Text},
    Field{"name", Form::Text},          Field{"uid", Form::Text}};
constexpr std::array kManaged = {Field{"apiVersion", Form::Text}, Field{"fieldsType", Form::Text},
                                 Field{"fieldsV1", Form::Any},    Field{"manager", Form::Text},
                                 Field{"operation", Form::Text},  Field{"subresource", Form::Text},
                                 Field{"time", Form::Time}};

// The name of a type as Go's decoder tells it.
std::string_view goType(const json::Value& value) {
  if (value.isBool()) return "bool";
  return value.isNumber() ? "number" : value.typeName();
}

class Decoder {
 public:
  // "ObjectMeta", and how the way to the field is called behind the struct that it is in.
  template <class Fields>
  void object(const json::Value& value, const Fields& fields, std::string_view type,
              const std::string& way) {
    for (const Field& field : fields) {
      const json::Value& member = value[field.name];
      if (!problem_ && !member.isNull())
        look(member, field.form, std::string(type), format("{}{}", way, field.name));
    }
  }

  std::optional<std::string> take() { return std::move(problem_); }

 private:
  void look(const json::Value& value, Form form, const std::string& type, const std::string& way) {
    auto expect = [&](bool right, const json::Value& found, std::string_view wanted) {
      if (!right && !problem_)
        problem_ = format("json: cannot unmarshal {} into Go struct field {}.{} of type {}",
                          goType(found), type, way, wanted);
      return right;
    };
    switch (form) {
      case Form::Text:
        expect(value.isString(), value, "string");
        break;
      case Form::Number:
        expect(value.isInteger(), value, "int64");
        break;
      case Form::Boolean:
        expect(value.isBool(), value, "bool");
        break;
      case Form::Time:
        time(value);
        break;
      case Form::Texts:
        if (expect(value.isArray(), value, "[]string"))
          for (const json::Value& one : value.array())
            expect(one.isString() || one.isNull(), one, "string");
        break;
      case Form::TextMap:
        if (expect(value.isObject(), value, "map[string]string"))
          for (const auto& [key, one] : value.object())
            expect(one.isString() || one.isNull(), one, "string");
        break;
      case Form::Owners:
        list(value, kOwner, "v1.OwnerReference", type, way);
        break;
      case Form::Managed:
        list(value, kManaged, "v1.ManagedFieldsEntry", type, way);
        break;
      case Form::Any:
        break;
    }
  }

  template <class Fields>
  void list(const json::Value& value, const Fields& fields, std::string_view item,
            const std::string& type, const std::string& way) {
    auto fail = [&](const json::Value& found, std::string_view prefix) {
      if (!problem_)
        problem_ = format("json: cannot unmarshal {} into Go struct field {}.{} of type {}{}",
                          goType(found), type, way, prefix, item);
    };
    if (!value.isArray()) return fail(value, "[]");
    for (const json::Value& one : value.array()) {
      if (one.isNull()) continue;
      if (!one.isObject()) return fail(one, "");
      object(one, fields, item.substr(3), way + ".");
    }
  }

  void time(const json::Value& value) {
    if (problem_ || (value.isString() && parseTime(value.string()))) return;
    if (!value.isString()) {
      problem_ = format("json: cannot unmarshal {} into Go value of type string", goType(value));
      return;
    }
    std::string text = json::write(value);
    problem_ =
        format("parsing time {} as \"2006-01-02T15:04:05Z07:00\": cannot parse {} as \"2006\"",
               text, text);
  }

  std::optional<std::string> problem_;
};

// What Go leaves out when it writes metadata.
bool isNothing(const Field& field, const json::Value& value) {
  if (value.isNull()) return true;
  switch (field.form) {
    case Form::Text:
      return value.isString() && value.string().empty();
    case Form::Number:
      return field.name == "generation" && value == json::Value(0);
    case Form::Texts:
    case Form::Owners:
    case Form::Managed:
      return value.isArray() && value.array().empty();
    case Form::TextMap:
      return value.isObject() && value.object().empty();
    default:
      return false;
  }
}

template <class Fields>
void pruneFields(json::Value& value, const Fields& fields, const std::string& path,
                 std::vector<std::string>& unknown) {
  if (!value.isObject()) return;
  std::vector<json::Object::Member> kept;
  for (auto& [key, member] : value.makeObject()) {
    std::string here = path + key;
    auto field = std::ranges::find(fields, key, &Field::name);
    if (field == fields.end()) {
      unknown.push_back(std::move(here));
      continue;
    }
    for (std::size_t i = 0; i < member.array().size(); ++i) {
      std::string item = format("{}[{}].", here, i);
      if (field->form == Form::Owners) pruneFields(member.makeArray()[i], kOwner, item, unknown);
      if (field->form == Form::Managed) pruneFields(member.makeArray()[i], kManaged, item, unknown);
    }
    if (field->form == Form::TextMap && member.isObject())
      for (auto& [name, text] : member.makeObject())
        if (text.isNull()) text = "";
    bool inside = !path.empty();  // where texts are written also when they are empty
    if (inside ? !member.isNull() : !isNothing(*field, member))
      kept.emplace_back(key, std::move(member));
  }
  value = json::Object::fromSorted(std::move(kept));
}

}  // namespace

std::optional<std::string> unreadableMetadata(const json::Value& metadata) {
  if (metadata.isNull()) return std::nullopt;
  if (!metadata.isObject())
    return format("json: cannot unmarshal {} into Go value of type v1.ObjectMeta",
                  goType(metadata));
  Decoder decoder;
  decoder.object(metadata, kMetadata, "ObjectMeta", "");
  return decoder.take();
}

std::vector<std::string> pruneMetadata(json::Value& metadata) {
  std::vector<std::string> unknown;
  pruneFields(metadata, kMetadata, "", unknown);
  return unknown;
}

const std::vector<std::string_view>& metadataFields() {
  static const std::vector<std::string_view> kNames = [] {
    std::vector<std::string_view> names;
    names.reserve(std::size(kMetadata));
    for (const Field& field : kMetadata) names.push_back(field.name);
    return names;
  }();
  return kNames;
}

}  // namespace cadre::kube
