#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "json/value.h"

namespace cadre::json {

// One difference between two values.
struct Change {
  // spec.template.spec.containers[0].image; keys that are no plain names as ["a.b/c"]; empty for
  // the whole value. For people: what is beyond any real object's length is cut with "...".
  std::string path;
  std::optional<Value> from;  // nothing: it is new
  std::optional<Value> to;    // nothing: it is gone

  bool operator==(const Change&) const = default;
};

// The differences in the order of the paths. Objects are compared member by member, arrays position
// by position; what is new or gone as a whole is one change. Linear in the size of both.
std::vector<Change> diff(const Value& from, const Value& to);

// A member's step in such a path: ".spec", ["a.b/c"]. A path has no dot at its start.
std::string pathStep(std::string_view key);

// For people, a line per value that is no object or array:
//   ~ spec.replicas: 1 -> 3
//   + metadata.labels.app: web
//   - spec.paused: true
std::string formatDiff(const std::vector<Change>& changes);

}  // namespace cadre::json
