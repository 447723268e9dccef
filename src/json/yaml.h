#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "json/value.h"

namespace cadre::json {

// Which line each value of a document came from. Holds hashes of the paths, not the paths: small,
// and on the one chance in billions a wrong line in a message.
class LineIndex {
 public:
  // By JSON pointer ("/spec/replicas"): the line of the key, or of the nearest value around it that
  // has one; 0 when nothing is known.
  int find(std::string_view pointer) const;

  // For readers: a path is built from kRoot step by step, values are added in any order, and
  // finish() comes before find().
  static constexpr std::uint64_t kRoot = 0x9E3779B97F4A7C15;
  static std::uint64_t step(std::uint64_t parent, std::string_view key);
  static std::uint64_t step(std::uint64_t parent, std::size_t index);
  void add(std::uint64_t path, int line) { lines_.emplace_back(path, line); }
  void finish();

 private:
  std::vector<std::pair<std::uint64_t, int>> lines_;
};

struct Document {
  Value value;
  int line = 1;  // where it begins
  LineIndex lines;

  // The line of a value by JSON pointer; the document's own when nothing better is known.
  int lineOf(std::string_view pointer) const;
};

// The documents of a YAML or JSON text; empty ones are left out. Scalars mean what they mean to
// kubectl today: yes, on and y are true, 017 is fifteen, dates are strings. Keys become strings.
// Aliases are expanded by copy, within the limits; of a merge key (<<) the explicit keys win.
//
// Fails with "agents.yaml:12:3: ...": InvalidArgument for what is wrong, for duplicate keys, keys
// that are no scalars, unknown tags and numbers that JSON lacks, ResourceExhausted beyond a limit.
Result<std::vector<Document>> parseYaml(std::string_view text, std::string_view source_name,
                                        const Limits& limits = {});

// A value as YAML in the block style of kubectl's output, with a line break at the end. Strings are
// quoted only where reading them back would give something else. Never fails; what write() replaces
// is replaced here too.
std::string writeYaml(const Value& value);

// The piece, for whoever writes YAML around values: a text in double quotes, on one line.
void appendYamlQuoted(std::string& out, std::string_view text);

}  // namespace cadre::json
