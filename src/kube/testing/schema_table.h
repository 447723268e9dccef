#pragma once

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/format.h"
#include "json/patch.h"
#include "json/write.h"
#include "json/yaml.h"
#include "kube/schema.h"
#include "kube/testing/large.h"
#include "kube/validate.h"

namespace cadre::kube {

// For tests: a case of a table in test/schemas, whose README tells what it says.
struct SchemaCase {
  std::string title;
  json::Value object;  // complete
  json::Value before;  // null: it is new
  bool status = false;
  json::Value stored;  // null: not told
  std::vector<std::string> errors, native, unknown, warnings;
};

inline std::vector<std::string> textsOf(const json::Value& list) {
  std::vector<std::string> out;
  for (const json::Value& text : list.array()) out.push_back(text.string());
  return out;
}

inline std::vector<SchemaCase> loadSchemaCases(const std::string& file, const Kind& kind) {
  std::ifstream in(file);
  std::string text((std::istreambuf_iterator<char>(in)), {});
  auto documents = json::parseYaml(text, file);
  if (!documents || documents->empty()) {
    ADD_FAILURE() << (documents ? file + ": nothing there" : documents.error().text());
    return {};
  }
  std::vector<SchemaCase> cases;
  const json::Value all = enlarged(documents->front().value);
  for (const json::Value& entry : all.array()) {
    auto whole = [&](const json::Value& spec) {
      json::Value object = entry["object"].isObject() ? entry["object"] : json::Object{};
      object.make("apiVersion") = kind.gvk().apiVersion();
      object.make("kind") = kind.kind;
      object.make("metadata") =
          json::applyMergePatch(json::Object{{"name", format("case-{}", cases.size())}},
                                entry["metadata"].isNull() ? json::Object{} : entry["metadata"]);
      if (!spec.isNull()) object.make("spec") = spec;
      return object;
    };
    SchemaCase& added = cases.emplace_back();
    added.title = entry["title"].string();
    added.object = whole(entry["spec"]);
    if (!entry["before"].isNull()) added.before = whole(entry["before"]);
    added.status = !entry["status"].isNull();
    if (added.status) added.object.make("status") = entry["status"];
    added.stored = entry["stored"];
    added.errors = textsOf(entry["errors"]);
    added.native = textsOf(entry["native"]);
    added.unknown = textsOf(entry["unknown"]);
    added.warnings = textsOf(entry["warnings"]);
    for (const auto& [key, value] : entry.object()) {
      static const std::vector<std::string> kKeys = {"title",   "spec",   "object",  "metadata",
                                                     "before",  "status", "errors",  "native",
                                                     "unknown", "stored", "warnings"};
      if (std::ranges::find(kKeys, key) == kKeys.end())
        ADD_FAILURE() << added.title << ": a case has no " << key;
    }
  }
  return cases;
}

// Whether what was found is what is expected: each a whole text, or only its path. Says what
// differs.
inline std::string differences(std::vector<std::string> found, std::vector<std::string> expected) {
  std::string out;
  for (const std::string& text : found) {
    auto same = [&](const std::string& one) {
      return one == text || text.starts_with(one + ": ") || one.starts_with(text + ": ");
    };
    auto at = std::ranges::find(expected, text);
    if (at == expected.end()) at = std::ranges::find_if(expected, same);
    if (at == expected.end())
      out += "  not expected: " + text + "\n";
    else
      expected.erase(at);
  }
  for (const std::string& text : expected) out += "  missing:      " + text + "\n";
  return out;
}

inline Validation validateCase(const Kind& kind, const SchemaCase& c) {
  return validate(kind, c.object,
                  {.old = c.before.isNull() ? nullptr : &c.before, .status = c.status});
}

// That we answer to each case as it tells.
inline void expectNativeAnswers(const Kind& kind, const std::vector<SchemaCase>& cases) {
  EXPECT_FALSE(cases.empty());
  for (const SchemaCase& c : cases) {
    SCOPED_TRACE(c.title);
    Validation found = validateCase(kind, c);
    std::vector<std::string> texts, unknown, expected = c.errors;
    for (const FieldError& error : found.errors) texts.push_back(error.text());
    for (const FieldError& error : found.unknown) unknown.push_back(error.path);
    expected.insert(expected.end(), c.native.begin(), c.native.end());
    EXPECT_EQ(differences(texts, expected), "");
    EXPECT_THAT(unknown, testing::UnorderedElementsAreArray(c.unknown));
    EXPECT_THAT(found.warnings, testing::UnorderedElementsAreArray(c.warnings));
    if (c.stored.isNull()) continue;
    EXPECT_EQ(json::write(withDefaults(kind, c.object)["spec"]), json::write(c.stored));
  }
}

}  // namespace cadre::kube
