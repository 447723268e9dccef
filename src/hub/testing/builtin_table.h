#pragma once

#include <algorithm>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/format.h"
#include "hub/builtin.h"
#include "hub/builtin_defaults.h"
#include "hub/builtin_types.h"
#include "hub/builtin_validate.h"
#include "json/patch.h"
#include "json/texts.h"
#include "json/write.h"
#include "json/yaml.h"

namespace cadre::hub {

// For tests: a row of a table in test/hub/builtin, whose README tells what it says.
struct BuiltInCase {
  std::string title;
  const BuiltIn* kind = nullptr;
  json::Value object;  // complete
  json::Value change;  // null: it is new
  std::vector<std::string> errors, unknown;
  std::string decode;
};

inline const std::vector<std::string>& builtInTables() {
  static const std::vector<std::string> kFiles = {"batch", "config", "deployment", "network",
                                                  "pod",   "rules",  "service",    "workloads"};
  return kFiles;
}

// A merge patch; but a null for what is not there is kept, as a client may send it.
inline json::Value patched(const json::Value& base, const json::Value& patch) {
  if (!patch.isObject()) return patch;
  json::Value out = base.isObject() ? base : json::Value(json::Object{});
  for (const auto& [name, value] : patch.object()) {
    if (value.isNull() && out.object().contains(name))
      out.makeObject().erase(name);
    else
      out.make(name) = patched(out[name], value);
  }
  return out;
}

inline std::vector<BuiltInCase> loadBuiltInCases(const std::string& file) {
  std::ifstream in(file);
  std::string text((std::istreambuf_iterator<char>(in)), {});
  auto documents = json::parseYaml(text, file);
  if (!documents || documents->empty()) {
    ADD_FAILURE() << (documents ? file + ": nothing there" : documents.error().text());
    return {};
  }
  std::vector<BuiltInCase> cases;
  json::Value base;
  const BuiltIn* kind = nullptr;
  for (const json::Value& row : documents->front().value.array()) {
    if (row["base"].isObject()) {
      base = row["base"];
      auto gvk = kube::GroupVersionKind::of(base);
      kind = gvk ? findBuiltIn(gvk->group, gvk->version, gvk->kind) : nullptr;
      if (!kind) ADD_FAILURE() << file << ": no such kind: " << json::write(base);
      continue;
    }
    BuiltInCase& added = cases.emplace_back();
    added.kind = kind;
    added.title = format("{}: {}", kind ? kind->kind : "", row["title"].string());
    added.object = row["with"].isNull() ? base : patched(base, row["with"]);
    if (row["container"].isObject()) {
      json::Value& first = added.object.make("spec").make("containers").makeArray().front();
      first = patched(first, row["container"]);
    }
    added.change = row["change"];
    added.errors = textsOf(row["errors"]);
    added.unknown = textsOf(row["unknown"]);
    added.decode = row["decode"].string();
  }
  return cases;
}

// Whether a text is the expected one, in which "..." may stand for any part.
inline bool isExpected(const std::string& text, const std::string& expected) {
  auto dots = expected.find("...");
  if (dots == std::string::npos) return text == expected;
  std::string_view before = std::string_view(expected).substr(0, dots);
  std::string_view after = std::string_view(expected).substr(dots + 3);
  return text.size() >= before.size() + after.size() && text.starts_with(before) &&
         text.ends_with(after);
}

// What was found and not expected, and the other way round; empty when nothing.
inline std::string unexpected(std::vector<std::string> found, std::vector<std::string> expected) {
  std::string out;
  for (const std::string& text : found) {
    auto match =
        std::ranges::find_if(expected, [&](const auto& one) { return isExpected(text, one); });
    if (match != expected.end())
      expected.erase(match);
    else
      out += "\n  found:   " + text;
  }
  for (const std::string& text : expected) out += "\n  missing: " + text;
  return out;
}

// What comes of an object on its way into the store.
struct Outcome {
  std::string decode;  // what a 400 says behind "cannot be handled as a ...: "
  std::vector<std::string> unknown;
  json::Value object;
  std::vector<kube::FieldError> errors;
};

inline std::string decodeProblem(const BuiltIn& kind, const json::Value& object) {
  auto result = decodable(kind, object);
  if (result) return "";
  std::string text = result.error().message;
  std::string start = format("cannot be handled as a {}: ", kind.kind);
  return text.substr(text.find(start) + start.size());
}

// The server gives a namespace and a uid before anything is asked.
inline Outcome created(const BuiltIn& kind, const json::Value& object, std::string_view ns = "rows",
                       std::string_view uid = "5c3d82f6-84ae-4864-ad5e-df0a44f97798") {
  Outcome out{.decode = decodeProblem(kind, object), .unknown = unknownFields(kind, object)};
  if (!out.decode.empty()) return out;
  json::Value made = typed(kind, object);
  if (kind.namespaced) made.make("metadata").make("namespace") = ns;
  made.make("metadata").make("uid") = uid;
  setDefaults(kind, made);
  prepareForCreate(kind, made);
  setDefaults(kind, made);
  out.object = typed(kind, made);
  out.errors = validateBuiltIn(kind, out.object);
  return out;
}

inline Outcome updated(const BuiltIn& kind, const json::Value& old, const json::Value& change) {
  json::Value object = json::applyMergePatch(old, change);
  Outcome out{.decode = decodeProblem(kind, object), .unknown = unknownFields(kind, object)};
  if (!out.decode.empty()) return out;
  json::Value made = typed(kind, object);
  setDefaults(kind, made);
  prepareForUpdate(kind, made, old);
  out.object = typed(kind, made);
  out.errors = validateBuiltIn(kind, out.object, &old);
  return out;
}

inline std::vector<std::string> textsOf(const std::vector<kube::FieldError>& errors) {
  std::vector<std::string> out;
  for (const kube::FieldError& error : errors) out.push_back(error.text());
  return out;
}

}  // namespace cadre::hub
