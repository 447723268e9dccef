#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "json/value.h"

namespace cadre::hub {

// The part of Kubernetes's JSONPath that columns of CRDs use: .spec.x, .a\.b, ['a.b'], [0], [-1],
// [1:], [*], [?(@.type=="Ready")]. An immutable value.
class JsonPath {
 public:
  // InvalidArgument for what is wrong, and for what is not known here.
  static Result<JsonPath> parse(std::string_view text);

  // What is found, in order. Empty also where a position is beyond the end of its list.
  std::vector<const json::Value*> find(const json::Value& object) const;

 private:
  struct Field {
    std::string name;
  };
  struct Range {  // of a list; every one is the range of all
    std::int64_t from = 0;
    std::optional<std::int64_t> to = {};
    bool single = false;
  };
  struct All {};
  struct Filter {
    std::vector<std::string> path;
    std::string compare;  // "==", "<=", empty: it is there
    json::Value with;
  };
  using Step = std::variant<Field, Range, All, Filter>;
  class Parser;

  static bool matches(const Filter& filter, const json::Value& value);

  std::vector<Step> steps_;
};

}  // namespace cadre::hub
