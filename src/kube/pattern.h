#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace re2 {
class RE2;
}

namespace cadre::kube {

// A regular expression as CRDs have it, in Go's syntax. An immutable value; thread-safe.
//
// Matching takes time in proportion to the text, whatever the pattern: texts come from outside.
class Pattern {
 public:
  Pattern() = default;  // matches everything

  // InvalidArgument for what is wrong, in the words of an API server: "missing closing ]: `[a`".
  static Result<Pattern> parse(std::string_view text);

  // Whether it is found anywhere in the text, as Go's MatchString has it: ^ and $ are to be written
  // where the whole is meant. A byte that is not UTF-8 counts as U+FFFD.
  bool matches(std::string_view text) const;

  const std::string& text() const { return text_; }
  bool empty() const { return text_.empty(); }

 private:
  std::string text_;
  std::shared_ptr<const re2::RE2> compiled_;
};

}  // namespace cadre::kube
