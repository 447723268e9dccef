#include "kube/explain.h"

#include <algorithm>
#include <iterator>

#include "base/format.h"
#include "base/strings.h"
#include "json/write.h"

namespace cadre::kube {

namespace {

using Type = Schema::Type;

std::string number(double value) {
  std::string out;
  json::appendNumber(out, value);
  return out;
}

// "[]string", "map[string]Object": as kubectl writes types.
std::string shortType(const Schema& schema) {
  switch (schema.type) {
    case Type::Any:
      return "any";
    case Type::Array:
      return "[]" + (schema.items ? shortType(*schema.items) : "any");
    case Type::Map:
      return "map[string]" + (schema.items ? shortType(*schema.items) : "any");
    case Type::Object:
      return "Object";
    default:
      return std::string(typeName(schema));
  }
}

// Either may be empty.
std::string range(const std::string& least, const std::string& most) {
  if (least.empty()) return "at most " + most;
  return most.empty() ? "at least " + least : least + " to " + most;
}

// What is allowed, in words: "Default: 6", "1 to 100". Patterns are put into marks that keep them
// as they are.
std::vector<std::string> constraints(const Schema& schema, std::string_view mark = "") {
  std::vector<std::string> out;
  if (schema.fallback) out.push_back("Default: " + json::write(*schema.fallback));
  std::vector<std::string> values;
  for (const json::Value& value : schema.one_of)
    values.push_back(value.isString() ? value.string() : json::write(value));
  if (!values.empty()) out.push_back("One of: " + join(values, ", "));
  std::string least, most;
  if (schema.least && *schema.least != kLeastInt) least = number(*schema.least);
  if (schema.most && *schema.most != kMostInt) most = number(*schema.most);
  if (!least.empty() || !most.empty()) out.push_back(range(least, most));
  if (schema.least_size || schema.most_size)
    out.push_back(range(schema.least_size ? std::to_string(*schema.least_size) : "",
                        schema.most_size ? std::to_string(*schema.most_size) : "") +
                  (schema.type == Type::Array ? " items"
                   : schema.type == Type::Map ? " entries"
                                              : " characters"));
  if (schema.list == Schema::List::Set) out.emplace_back("Each value once");
  if (schema.list == Schema::List::Map) out.push_back("One per " + join(schema.keys, ", "));
  if (!schema.pattern.empty())
    out.push_back(format("Matches {0}{1}{0}", mark, schema.pattern.text()));
  if (!schema.format.empty() && schema.type == Type::String)
    out.push_back("Format: " + schema.format);
  if (schema.nullable) out.emplace_back("May be null");
  if (!schema.any_of.empty()) out.push_back("At least one of: " + join(schema.any_of, ", "));
  if (schema.items && schema.items->fields.empty())
    for (std::string& one : constraints(*schema.items, mark)) out.push_back("each: " + one);
  return out;
}

std::string wrap(std::string_view text, std::size_t indent) {
  constexpr std::size_t kWidth = 80;
  std::string out, line(indent, ' ');
  for (std::string_view word : split(text, ' ')) {
    if (line.size() > indent && line.size() + 1 + word.size() > kWidth) {
      out += line + "\n";
      line.assign(indent, ' ');
    }
    if (line.size() > indent) line += ' ';
    line += word;
  }
  return out + line + "\n";
}

std::string description(const Schema& schema) {
  std::string out = schema.doc;
  if (!schema.deprecated.empty())
    out += (out.empty() ? "" : " ") + ("Deprecated: " + schema.deprecated);
  return out.empty() ? "(no description)" : out;
}

// What a list or map holds in the end.
const Schema& innermost(const Schema& schema) {
  return schema.items ? innermost(*schema.items) : schema;
}

void appendMeaning(std::string& out, const Schema& schema) {
  out += wrap(description(schema), 4);
  auto allowed = constraints(schema);
  if (!allowed.empty()) out += wrap(join(allowed, "; "), 4);
}

// The object itself, as if it were described like its parts; those are in the kind.
Schema wholeOf(const Kind& kind) {
  Schema root{.type = Type::Object, .doc = kind.doc};
  auto add = [&](std::string_view name, std::string_view doc, Type type, bool required) {
    Property& field = root.fields.emplace_back(Property{std::string(name), {.type = type}});
    field.schema.doc = doc;
    field.schema.required = required;
  };
  add("apiVersion", format("Always {}.", kind.gvk().apiVersion()), Type::String, true);
  add("kind", format("Always {}.", kind.kind), Type::String, true);
  add("metadata", "Name, namespace, labels and annotations, as in all kinds of Kubernetes.",
      Type::Object, true);
  add("spec", kind.spec.doc, Type::Object, kind.needsSpec());
  add("status", kind.status.doc, Type::Object, false);
  return root;
}

Result<const Schema*> walk(const Kind& kind, const Schema& root, std::string_view path) {
  const Schema* at = &root;
  std::string walked;
  for (std::string_view name : split(path, '.')) {
    const Schema& holder = innermost(*at);
    const Property* field = holder.field(name);
    if (!field) {
      std::vector<std::string> names;
      std::ranges::transform(holder.fields, std::back_inserter(names), &Property::name);
      return Error{
          .code = Code::NotFound,
          .message = format(
              "{} has no field \"{}\"; {}", walked.empty() ? kind.kind : walked, name,
              names.empty() ? "it has none that are described" : "it has " + join(names, ", "))};
    }
    at = at != &root        ? &field->schema
         : name == "spec"   ? &kind.spec
         : name == "status" ? &kind.status
                            : &field->schema;
    walked += format("{}{}", walked.empty() ? "" : ".", name);
  }
  return at;
}

}  // namespace

Result<std::string> explain(const Kind& kind, std::string_view path) {
  const Schema root = wholeOf(kind);
  const Schema* at = &root;
  std::string out = format("GROUP:      {}\nKIND:       {}\nVERSION:    {}\n\n", kind.group,
                           kind.kind, kind.version);
  if (!path.empty()) {
    CADRE_LET(at, walk(kind, root, path));
    out += format("FIELD: {} <{}>{}\n\n", path.substr(path.rfind('.') + 1), shortType(*at),
                  at->required ? " -required-" : "");
  }
  out += "DESCRIPTION:\n";
  appendMeaning(out, *at);
  const std::vector<Property>& fields = innermost(*at).fields;
  if (!fields.empty()) out += "\nFIELDS:\n";
  for (const Property& field : fields) {
    out += format("  {}\t<{}>{}\n", field.name, shortType(field.schema),
                  field.schema.required ? " -required-" : "");
    appendMeaning(out, field.schema);
    out += "\n";
  }
  return out;
}

namespace {

// A text in a cell of a table.
std::string cell(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '|') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

void appendRows(std::string& out, const Schema& schema, const std::string& prefix) {
  for (const Property& field : schema.fields) {
    std::string path = prefix + field.name;
    std::string text = field.schema.doc;
    if (!field.schema.deprecated.empty())
      text += format(" **Deprecated**: {}", field.schema.deprecated);
    out += format("| `{}` | {}{} | {} | {} |\n", path, shortType(field.schema),
                  field.schema.required ? ", required" : "",
                  cell(join(constraints(field.schema, "`"), "; ")), cell(text));
    const Schema* inner = &field.schema;
    for (; inner->items; inner = inner->items.get()) path += inner->type == Type::Map ? "{}" : "[]";
    appendRows(out, *inner, path + ".");
  }
}

void appendRules(std::string& out, const Schema& schema, const std::string& path) {
  for (const Rule& rule : schema.rules)
    out += format("- `{}{}`: {}\n", path, rule.field_path, rule.message);
  if (schema.items)
    appendRules(out, *schema.items, path + (schema.type == Type::Map ? "{}" : "[]"));
  for (const Property& field : schema.fields)
    appendRules(out, field.schema, path + "." + field.name);
}

}  // namespace

std::string reference(const Kind& kind) {
  std::string out = format("# {}\n\n", kind.kind);
  if (!kind.doc.empty()) out += kind.doc + "\n\n";
  out += format(
      "`apiVersion: {}`, `kind: {}`, {}. `kubectl get {}`", kind.gvk().apiVersion(), kind.kind,
      kind.scope == Kind::Scope::Namespaced ? "in a namespace" : "cluster-wide", kind.plural);
  if (!kind.short_names.empty()) out += format(", short: `{}`", join(kind.short_names, "`, `"));
  out += ".\n";
  for (auto [name, schema] : {std::pair{"spec", &kind.spec}, std::pair{"status", &kind.status}}) {
    out += format("\n## {}\n\n{}\n\n| field | type | allowed | meaning |\n|---|---|---|---|\n",
                  name, schema->doc);
    appendRows(out, *schema, "");
  }
  std::string rules;
  for (const Rule& rule : kind.rules)
    rules +=
        format("- `{}`: {}\n", rule.field_path.empty() ? "the object" : rule.field_path.substr(1),
               rule.message);
  appendRules(rules, kind.spec, "spec");
  if (!rules.empty()) out += "\n## Rules\n\n" + rules;
  out += "\n## Columns\n\n| column | from | |\n|---|---|---|\n";
  for (const Column& column : kind.columns)
    out += format("| {} | `{}` | {} |\n", column.name, column.path,
                  column.wide ? "with `-o wide`" : "");
  out += "| Age | `.metadata.creationTimestamp` | |\n";
  return out;
}

}  // namespace cadre::kube
