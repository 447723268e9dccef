#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "json/value.h"

namespace cadre::transcript {

// What a case knows by name: {ns}, and what $save kept from earlier answers.
using Names = std::map<std::string, json::Value, std::less<>>;

// The text with each {name} replaced. InvalidArgument for a name that is not known. Braces around
// anything but a name (letters, digits and _, a letter first) stay as they are.
Result<std::string> fillText(std::string_view text, const Names& names);
// The same for a path with a query: what is put in is escaped.
Result<std::string> fillTarget(std::string_view text, const Names& names);
// The same for every key and text of a value. A text that is one {name} and nothing else becomes
// the value itself, with its type.
Result<json::Value> fill(const json::Value& value, const Names& names);

// One place where an answer is not what was expected.
struct Mismatch {
  std::string pointer;  // into what was expected: leads to a line
  std::string text;     // details.name: expected "web", is "db"

  bool operator==(const Mismatch&) const = default;
};

struct Match {
  std::vector<Mismatch> mismatches;
  Names saved;  // by $save

  bool ok() const { return mismatches.empty(); }
};

// Whether an answer is as expected, by the rules in test/cases/README.md. Null stands for an answer
// that is not there. Pure.
Match match(const json::Value& expected, const json::Value* actual, const Names& names);

}  // namespace cadre::transcript
