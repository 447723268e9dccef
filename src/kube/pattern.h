#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace cadre::kube {

// A regular expression as CRDs have it, for the part of Go's syntax that means the same everywhere:
// characters, ., classes ([a-z], [^/], \d \w \s and their opposites, also in classes), groups, |,
// ? * + {m} {m,} {m,n}, and ^ $ for the ends of the text. An immutable value.
//
// Matching takes time in proportion to the text, whatever the pattern: texts come from outside.
class Pattern {
 public:
  Pattern() = default;  // matches everything

  // InvalidArgument for what is wrong, and for what is right in Go but not known here: a pattern
  // that is taken means exactly what it means to the API server.
  static Result<Pattern> parse(std::string_view text);

  // Whether it is found anywhere in the text, as Go's MatchString has it: ^ and $ are to be written
  // where the whole is meant. A byte that is not UTF-8 counts as U+FFFD.
  bool matches(std::string_view text) const;

  const std::string& text() const { return text_; }
  bool empty() const { return text_.empty(); }

 private:
  friend class PatternCompiler;
  using Ranges = std::vector<std::pair<char32_t, char32_t>>;  // both ends included
  struct Step {
    enum class Op { Character, Fork, Begin, End, Found } op = Op::Found;
    Ranges ranges = {};
    std::size_t next = 0, other = 0;  // the other: of a fork
  };

  std::string text_;
  std::vector<Step> steps_;
  std::size_t start_ = 0;
};

}  // namespace cadre::kube
