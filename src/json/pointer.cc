#include "json/pointer.h"

#include <algorithm>
#include <charconv>

namespace cadre::json {

namespace {

// The value one step further in, null when there is none.
const Value* step(const Value& from, const std::string& token) {
  if (from.isObject()) return from.object().find(token);
  auto index = arrayIndex(token);
  return index && *index < from.array().size() ? &from.array()[*index] : nullptr;
}

bool isEscaped(std::string_view token) {
  for (std::size_t i = 0; i < token.size(); ++i) {
    if (token[i] != '~') continue;
    if (i + 1 == token.size() || (token[i + 1] != '0' && token[i + 1] != '1')) return false;
  }
  return true;
}

}  // namespace

Result<Pointer> Pointer::parse(std::string_view text) {
  auto invalid = [&](std::string_view why) {
    std::string message = "JSON pointer \"" + std::string(text.substr(0, 200)) + "\" ";
    return Error{.code = Code::InvalidArgument, .message = message.append(why)};
  };
  std::vector<std::string> tokens;
  if (!text.empty() && text[0] != '/') return invalid("does not start with a slash");
  for (std::string_view rest = text; !rest.empty();) {
    rest.remove_prefix(1);
    std::string_view token = rest.substr(0, rest.find('/'));
    if (!isEscaped(token)) return invalid("has a ~ that is neither ~0 nor ~1");
    tokens.push_back(unescapeToken(token));
    rest.remove_prefix(token.size());
  }
  return Pointer(std::move(tokens));
}

Pointer Pointer::parent() const {
  if (isRoot()) return *this;
  return Pointer(std::vector<std::string>(tokens_.begin(), tokens_.end() - 1));
}

bool Pointer::isWithin(const Pointer& outer) const {
  return outer.tokens_.size() <= tokens_.size() &&
         std::equal(outer.tokens_.begin(), outer.tokens_.end(), tokens_.begin());
}

std::string Pointer::text() const {
  std::string out;
  for (const std::string& token : tokens_) out.append("/").append(escapeToken(token));
  return out;
}

const Value* Pointer::find(const Value& document) const {
  const Value* at = &document;
  for (const std::string& token : tokens_) {
    at = step(*at, token);
    if (!at) return nullptr;
  }
  return at;
}

Value* Pointer::find(Value& document) const {
  return const_cast<Value*>(find(static_cast<const Value&>(document)));
}

std::string escapeToken(std::string_view key) {
  std::string out;
  for (char c : key) {
    if (c == '~') {
      out += "~0";
    } else if (c == '/') {
      out += "~1";
    } else {
      out += c;
    }
  }
  return out;
}

std::string unescapeToken(std::string_view token) {
  std::string out;
  for (std::size_t i = 0; i < token.size(); ++i) {
    char next = token[i] == '~' && i + 1 < token.size() ? token[i + 1] : '\0';
    if (next == '0' || next == '1') {
      out += next == '0' ? '~' : '/';
      ++i;
    } else {
      out += token[i];
    }
  }
  return out;
}

std::optional<std::size_t> arrayIndex(std::string_view token) {
  std::size_t index = 0;
  const char* end = token.data() + token.size();
  if (token.empty() || (token.size() > 1 && token[0] == '0')) return std::nullopt;
  auto read = std::from_chars(token.data(), end, index);
  if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
  return index;
}

}  // namespace cadre::json
