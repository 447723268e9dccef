// The rules for CustomResourceDefinitions: names, versions, and what makes a schema structural.
#include <algorithm>
#include <set>

#include "base/format.h"
#include "base/strings.h"
#include "hub/builtin_rules.h"
#include "json/write.h"

namespace cadre::hub {

namespace {

using json::Value;

void checkNames(const At& spec) {
  At names = spec["names"];
  for (std::string_view name : {"plural", "singular", "kind", "listKind"})
    if (names[name].isEmpty()) names[name].required();
  for (std::string_view name : {"plural", "singular"})
    if (!names[name].isEmpty()) names[name].all(dns1035Problems(names[name].text()));
  for (std::string_view name : {"kind", "listKind"})
    if (!names[name].isEmpty())
      for (const std::string& problem : dns1035Problems(lower(names[name].text())))
        names[name].invalid(format("may have mixed case, but should otherwise match: {}", problem));
  for (std::string_view list : {"shortNames", "categories"})
    for (const At& name : names[list].items()) name.all(dns1035Problems(name.text()));
  if (!names["kind"].isEmpty() && *names["kind"] == *names["listKind"])
    names["listKind"].invalid("kind and listKind may not be the same");
}

void checkColumns(const At& columns) {
  static const std::set<std::string_view> kTypes = {"boolean", "date", "integer", "number",
                                                    "string"};
  for (const At& column : columns.items()) {
    column["name"].given();
    if (column["type"].isEmpty())
      column["type"].required("must be one of boolean,date,integer,number,string");
    else if (!kTypes.contains(column["type"].text()))
      column["type"].invalid("must be one of boolean,date,integer,number,string");
    At path = column["JSONPath"].with(*column["jsonPath"]);
    if (path.isEmpty())
      path.required();
    else if (!path.text().starts_with('.'))
      path.invalid("must be a simple json path starting with .");
  }
}

// Types that the server knows, and what belongs to each.
void checkSchemaTypes(const At& schema) {
  At type = schema["type"];
  if (!type.isEmpty()) type.oneOf({"array", "boolean", "integer", "number", "object", "string"});
  At items = schema["items"];
  if (type.text() == "array" && !items.isThere()) items.required("must be specified");
  if (items->isObject()) checkSchemaTypes(items);
  At more = schema["additionalProperties"];
  if (more->isObject()) checkSchemaTypes(more);
  if (more.isThere() && !(more->isBool() && !more->boolean()) && !schema["properties"].isEmpty())
    more.forbidden("additionalProperties and properties are mutual exclusive");
  for (const auto& [name, property] : schema["properties"]->object())
    checkSchemaTypes(schema["properties"].key(name));
}

// Where a type must be said.
enum class Level { Root, Field, Item };

void checkStructural(const At& schema, Level level) {
  At items = schema["items"], more = schema["additionalProperties"];
  for (const auto& [name, property] : schema["properties"]->object())
    checkStructural(schema["properties"].key(name), Level::Field);
  if (items->isObject()) checkStructural(items, Level::Item);
  if (more->isObject()) checkStructural(more, Level::Field);
  bool free = (*schema)["x-kubernetes-preserve-unknown-fields"].boolean();
  bool either = (*schema)["x-kubernetes-int-or-string"].boolean();
  At type = schema["type"];
  if (type.isEmpty() && !either && (!free || level == Level::Root)) {
    switch (level) {
      case Level::Root:
        type.required("must not be empty at the root");
        break;
      case Level::Field:
        type.required("must not be empty for specified object fields");
        break;
      case Level::Item:
        type.required("must not be empty for specified array items");
        break;
    }
  }
  if (level == Level::Root && !type.isEmpty() && type.text() != "object")
    type.invalid("must be object at the root");
  if (At embedded = schema["x-kubernetes-embedded-resource"]; embedded->boolean()) {
    if (type.text() != "object")
      type.invalid("must be object if x-kubernetes-embedded-resource is true");
  }
}

void checkVersions(const At& spec) {
  At versions = spec["versions"];
  std::size_t stored = 0;
  bool unique = true;
  std::set<std::string> names;
  // With one version the server tells its parts as those of the whole.
  bool single = versions->array().size() == 1;
  std::vector<At> schemas;
  for (const At& version : versions.items()) {
    At name = version["name"];
    if (version["storage"]->boolean()) ++stored;
    unique = names.insert(name.text()).second && unique;
    name.all(dns1035Problems(name.text()));
    At schema = version["schema"]["openAPIV3Schema"];
    if (!schema.isThere())
      schema.required();
    else
      schemas.push_back(single ? schema.as("spec.validation.openAPIV3Schema") : schema);
    checkColumns(single ? version["additionalPrinterColumns"].as("spec.additionalPrinterColumns")
                        : version["additionalPrinterColumns"]);
  }
  if (!unique) versions.invalid("must contain unique version names");
  if (stored != 1) versions.invalid("must have exactly one version marked as storage version");
  for (const At& schema : schemas) {
    checkSchemaTypes(schema);
    checkStructural(schema, Level::Root);
  }
}

void checkStoredVersions(const At& object) {
  At stored = object["status"]["storedVersions"];
  if (stored.isEmpty()) return stored.invalidShown("null", "must have at least one stored version");
  // Of several that are marked the last one counts.
  std::string last;
  for (const At& version : object["spec"]["versions"].items())
    if (version["storage"]->boolean()) last = version["name"].text();
  const json::Array& all = stored->array();
  if (!last.empty() && std::ranges::find(all, Value(last)) == all.end())
    stored.invalid(format("must have the storage version {}", last));
}

}  // namespace

void checkCustomResourceDefinition(const At& object, const Value& old) {
  At spec = object["spec"], group = spec["group"], name = object["metadata"]["name"];
  if (name.text() != spec["names"]["plural"].text() + "." + group.text())
    name.invalid("must be spec.names.plural+\".\"+spec.group");
  if (group.given()) {
    auto problems = subdomainProblems(group.text());
    group.all(problems);
    if (problems.empty() && group.text().find('.') == std::string::npos)
      group.invalid("should be a domain with at least one dot");
  }
  if (spec["scope"].isEmpty())
    spec["scope"].required();
  else
    spec["scope"].oneOf({"Cluster", "Namespaced"});
  if (spec["preserveUnknownFields"]->boolean())
    spec["preserveUnknownFields"].invalid(
        "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in "
        "spec.versions[*].schema instead");
  checkNames(spec);
  checkVersions(spec);
  checkStoredVersions(object);
  if (old.isNull()) return;
  const Value& before = old["spec"];
  spec["scope"].immutable(before["scope"]);
  spec["names"]["kind"].immutable(before["names"]["kind"]);
  spec["group"].immutable(before["group"]);
  spec["names"]["plural"].immutable(before["names"]["plural"]);
}

}  // namespace cadre::hub
