#pragma once

// Plans as tables: objects in, objects out. A table is a YAML file whose documents are cases; the
// first one may have `given`: objects that the others name.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/format.h"
#include "engine/plan.h"
#include "json/write.h"
#include "json/yaml.h"

namespace cadre::engine {

// The plan in a form that a person would recognise.
inline json::Value shown(const Plan& plan) {
  json::Value result = json::Object{};
  json::Array children;
  for (const Child& child : plan.children) {
    json::Value object = child.object;
    object.make("kind") = child.resource.kind;
    if (child.keep == Child::Keep::Once) object.make("once") = true;
    if (child.wave != 0) object.make("wave") = child.wave;
    children.push_back(std::move(object));
  }
  if (!children.empty()) result.make("children") = std::move(children);
  for (const Ref& ref : plan.removals) result.make("removals").makeArray().push_back(ref.text());
  for (const Amendment& one : plan.amendments)
    result.make("amendments")
        .makeArray()
        .push_back(json::Object{{"of", one.ref.text()}, {"metadata", one.metadata}});
  if (plan.hold) result.make("hold") = true;
  result.make("status") = plan.status;
  for (const auto& [key, value] : plan.annotations) result.make("annotations").make(key) = value;
  json::Value& conditions = result.make("conditions");
  for (const kube::Condition& condition : plan.conditions)
    conditions.make(condition.type) =
        format("{} {}{}{}", kube::conditionStatusName(condition.status), condition.reason,
               condition.message.empty() ? "" : ": ", condition.message);
  for (const std::string& finalizer : plan.foreign_finalizers)
    result.make("finalizersRemoved").makeArray().push_back(finalizer);
  for (const Event& event : plan.events)
    result.make("events").makeArray().push_back(
        format("{}{}: {}", event.warning ? "Warning " : "", event.reason, event.message));
  return result;
}

// What is expected and is not so. Maps may have more, lists are the same, and a text that ends in
// "..." is the beginning of what is there. "$absent" is not there; {$has: [...]} is a list that has
// these among others, {$lacks: [...]} one that has none of them.
inline std::vector<std::string> differences(const json::Value& expected, const json::Value& actual,
                                            const std::string& path) {
  std::vector<std::string> out;
  auto add = [&](std::vector<std::string> more) {
    out.insert(out.end(), more.begin(), more.end());
  };
  // What keeps the nearest element from being this one; nothing: it is there.
  auto nearest = [&](const json::Value& one) {
    std::vector<std::string> least{format("{} is empty", path)};
    for (std::size_t i = 0; i < actual.array().size(); ++i)
      if (auto found = differences(one, actual.at(i), format("{}[{}]", path, i));
          i == 0 || found.size() < least.size())
        least = std::move(found);
    return least;
  };
  auto is = [&](std::string_view what) {
    out.push_back(format("{} {}: {}", path, what, json::writeYaml(actual)));
  };
  if (!expected["$has"].isNull() || !expected["$lacks"].isNull()) {
    for (const json::Value& one : expected["$has"].array()) add(nearest(one));
    for (const json::Value& one : expected["$lacks"].array())
      if (nearest(one).empty()) is(format("has {} in it", json::write(one)));
  } else if (expected.isObject()) {
    if (!actual.isObject()) is("is no map");
    for (const auto& [key, value] : expected.object()) {
      if (value.isString() && value.string() == "$absent") {
        if (!actual[key].isNull()) out.push_back(format("{}.{} is there", path, key));
      } else {
        add(differences(value, actual[key], format("{}.{}", path, key)));
      }
    }
  } else if (expected.isArray()) {
    if (expected.array().size() != actual.array().size())
      is(format("has {} elements, not {}", actual.array().size(), expected.array().size()));
    for (std::size_t i = 0; out.empty() && i < expected.array().size(); ++i)
      add(differences(expected.at(i), actual.at(i), format("{}[{}]", path, i)));
  } else if (expected.isString() && expected.string().ends_with("...")) {
    if (!actual.string().starts_with(expected.string().substr(0, expected.string().size() - 3)))
      is(format("does not begin with {}", expected.string()));
  } else if (expected != actual) {
    is(format("is not {}", json::write(expected)));
  }
  return out;
}

// A file of cases, with the objects that their worlds name.
struct PlanTable {
  explicit PlanTable(const std::filesystem::path& path) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    auto documents = json::parseYaml(text.str(), path.filename().string());
    if (!documents || documents->empty()) {
      ADD_FAILURE() << (documents ? path.string() + ": nothing there" : documents.error().text());
      return;
    }
    cases = *std::move(documents);
    given = cases.front().value["given"];
    if (!given.isNull()) cases.erase(cases.begin());
  }

  std::vector<json::Document> cases;
  json::Value given;
};

// Those of a folder, in order.
inline std::vector<std::filesystem::path> planTables(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace cadre::engine
