#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "json/value.h"

namespace cadre::json {

// What YAML makes of scalars, by the rules of the YAML 1.1 reader that kubectl uses today. Pure.

// The value of a plain (unquoted, untagged) scalar: null, a boolean, a number or the text itself.
// A double that is infinite or not a number stands for .inf and .nan: JSON has no such values.
Value resolvePlainScalar(std::string_view text);

// The value of a scalar with a tag ("tag:yaml.org,2002:int", "!" for quoted text, "?" for plain
// text). The error is a sentence without position.
struct TaggedScalar {
  Value value;
  std::string error;  // empty when there is a value
};
TaggedScalar resolveScalar(std::string_view tag, std::string_view text);

// True when plain text would be read as something else than this text, here or by other common
// readers (dates, sixty-based numbers).
bool looksTyped(std::string_view text);

}  // namespace cadre::json
