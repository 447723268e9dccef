#pragma once

#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "base/format.h"
#include "hub/kind.h"
#include "json/patch.h"
#include "json/yaml.h"
#include "kube/object_meta.h"
#include "kube/testing/large.h"
#include "kube/testing/schema_table.h"

namespace cadre::hub {

// For tests: the tables in test/hub/custom, whose README tells what they say.
inline constexpr std::string_view kTableNamespace = "default";

inline json::Value loadTable(const std::string& file) {
  std::ifstream in(file);
  std::string text((std::istreambuf_iterator<char>(in)), {});
  auto documents = json::parseYaml(text, file);
  if (documents && !documents->empty()) return kube::enlarged(documents->front().value);
  ADD_FAILURE() << (documents ? file + ": nothing there" : documents.error().text());
  return {};
}

inline json::Value definitionOf(const json::Value& spec, const std::string& name) {
  return json::Object{{"apiVersion", "apiextensions.k8s.io/v1"},
                      {"kind", "CustomResourceDefinition"},
                      {"metadata", json::Object{{"name", name}}},
                      {"spec", spec}};
}

// A definition and objects of it.
struct CustomRow {
  std::string title;
  json::Value object, before;  // complete; before is null when it is new
  bool status = false;
  json::Value stored, cells;  // null: not told
  std::string undecodable;
  std::vector<std::string> errors, unknown, warnings;
};

struct CustomTable {
  json::Value crd;
  std::vector<CustomRow> rows;

  CustomTable(const std::string& file, const std::string& group) {
    const json::Value table = loadTable(file);
    json::Value spec = table["crd"];
    spec.make("group") = group;
    crd = definitionOf(spec, spec["names"]["plural"].string() + "." + group);
    const bool namespaced = spec["scope"].string() == "Namespaced";
    auto whole = [&](const json::Value& given) {
      json::Value object = given;
      object.make("apiVersion") = group + "/v1";
      object.make("kind") = spec["names"]["kind"];
      if (!given["metadata"].isNull() && !given["metadata"].isObject()) return object;
      object.make("metadata") =
          json::applyMergePatch(json::Object{{"name", format("row-{}", rows.size())}},
                                given["metadata"].isNull() ? json::Object{} : given["metadata"]);
      if (namespaced) object.make("metadata").make("namespace") = kTableNamespace;
      return object;
    };
    for (const json::Value& entry : table["rows"].array()) {
      CustomRow row{.title = entry["title"].string(),
                    .object = whole(entry["object"]),
                    .status = entry["write"].string() == "status",
                    .stored = entry["stored"],
                    .cells = entry["cells"],
                    .undecodable = entry["undecodable"].string(),
                    .errors = kube::textsOf(entry["errors"]),
                    .unknown = kube::textsOf(entry["unknown"]),
                    .warnings = kube::textsOf(entry["warnings"])};
      if (!entry["before"].isNull()) row.before = whole(entry["before"]);
      rows.push_back(std::move(row));
    }
  }
};

// What is answered to a row by a kind, asked as a server asks it.
struct CustomAnswer {
  std::string undecodable;
  std::vector<std::string> unknown, warnings;
  std::vector<kube::FieldError> errors;
  json::Value object;

  std::vector<std::string> texts() const {
    std::set<std::string> out;
    for (const kube::FieldError& error : errors) out.insert(error.text());
    return {out.begin(), out.end()};
  }
};

inline CustomAnswer ask(const Kind& kind, const CustomRow& row) {
  CustomAnswer answer;
  json::Value object = row.object;
  if (auto why = kind.undecodable(object)) {
    answer.undecodable = *why;
    return answer;
  }
  answer.unknown = kind.unknownFields(object);
  object = kind.pruned(std::move(object));
  json::Value& metadata = object.make("metadata");
  if (metadata["name"].isNull() && !metadata["generateName"].isNull())
    metadata.make("name") = metadata["generateName"].string() + "x7k2p";
  json::Value old = row.before;
  if (!old.isNull()) {
    kind.setDefaults(old);
    json::Value given = row.status ? json::Value(json::Object{}) : object["metadata"];
    metadata = json::applyMergePatch(old["metadata"], given);
    json::Value status = row.status ? object["status"] : old["status"];
    if (row.status) object = old;
    if (kind.has_status) object.make("status") = status;
    if (status.isNull() && kind.has_status) object.makeObject().erase("status");
  } else if (kind.has_status) {
    object.makeObject().erase("status");
  }
  kind.setDefaults(object);
  answer.errors = kind.validate(object, old, row.status);
  answer.warnings = kube::metadataWarnings(object["metadata"], old["metadata"]);
  answer.object = std::move(object);
  return answer;
}

inline json::Value withoutMetadata(json::Value object) {
  for (std::string_view name : {"apiVersion", "kind", "metadata"}) object.makeObject().erase(name);
  return object;
}

// Definitions, each a change of one that is right.
struct DefinitionRow {
  std::string title, name;
  json::Value crd, before;
  std::vector<std::string> errors;
};

inline std::vector<DefinitionRow> loadDefinitions(const std::string& file,
                                                  const std::string& group) {
  const json::Value table = loadTable(file);
  std::vector<DefinitionRow> rows;
  for (const json::Value& entry : table["rows"].array()) {
    // Each in a group of its own: the name of another is not in its way.
    std::string own =
        entry["group"].isNull() ? format("r{}.{}", rows.size(), group) : entry["group"].string();
    auto make = [&](const json::Value& change) {
      json::Value spec = table["crd"];
      spec.make("group") = own;
      const json::Value first = spec["versions"].at(0);
      json::Array versions{first};
      if (!change["versions"].isNull()) {
        versions.clear();
        for (const json::Value& one : change["versions"].array())
          versions.push_back(json::applyMergePatch(first, one));
      }
      if (!change["version"].isNull())
        versions[0] = json::applyMergePatch(versions[0], change["version"]);
      if (!change["schema"].isNull())
        versions[0].make("schema") = json::Object{{"openAPIV3Schema", change["schema"]}};
      spec.make("versions") = versions;
      if (!change["spec"].isNull()) spec = json::applyMergePatch(spec, change["spec"]);
      std::string plural = spec["names"].isNull() ? "gears" : spec["names"]["plural"].string();
      std::string name = plural + "." + (spec["group"].isNull() ? "x" : spec["group"].string());
      return definitionOf(spec, change["name"].isNull() ? name : change["name"].string());
    };
    DefinitionRow row{.title = entry["title"].string(), .crd = make(entry)};
    if (!entry["before"].isNull()) row.before = make(entry["before"]);
    for (std::string text : kube::textsOf(entry["errors"])) {
      for (std::size_t at = 0; (at = text.find("GROUP", at)) != std::string::npos;)
        text.replace(at, 5, own);
      row.errors.push_back(std::move(text));
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace cadre::hub
