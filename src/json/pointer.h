#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "json/value.h"

namespace cadre::json {

// A place in a JSON document (RFC 6901): "/spec/containers/0/image". An immutable value.
class Pointer {
 public:
  Pointer() = default;  // the whole document
  explicit Pointer(std::vector<std::string> tokens) : tokens_(std::move(tokens)) {}

  // InvalidArgument when it does not start with a slash or has a ~ that is neither ~0 nor ~1.
  static Result<Pointer> parse(std::string_view text);

  const std::vector<std::string>& tokens() const { return tokens_; }
  bool isRoot() const { return tokens_.empty(); }
  // The place that this one is a member or element of; the root's is the root.
  Pointer parent() const;
  bool isWithin(const Pointer& outer) const;  // the same place or further inside
  std::string text() const;

  // What is there, null when nothing is.
  const Value* find(const Value& document) const;
  Value* find(Value& document) const;

  bool operator==(const Pointer&) const = default;

 private:
  std::vector<std::string> tokens_;
};

// A key as it stands in a pointer: ~ becomes ~0, / becomes ~1. And back; a stray ~ stays.
std::string escapeToken(std::string_view key);
std::string unescapeToken(std::string_view token);

// The position that a token stands for in an array: digits without a leading zero.
std::optional<std::size_t> arrayIndex(std::string_view token);

}  // namespace cadre::json
