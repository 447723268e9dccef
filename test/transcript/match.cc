#include "transcript/match.h"

#include <algorithm>
#include <optional>

#include "base/format.h"
#include "base/strings.h"
#include "base/time.h"
#include "json/pointer.h"
#include "json/write.h"

namespace cadre::transcript {

namespace {

constexpr std::size_t kShownBytes = 400;
constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
constexpr std::string_view kNameCharacters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";

// The name in the braces that a text starts with; empty when those hold something else.
std::string_view nameIn(std::string_view text) {
  std::size_t end = text.find_first_not_of(kNameCharacters, 1);
  if (end == std::string_view::npos || end == 1 || text[end] != '}') return {};
  if (kLetters.find(text[1]) == std::string_view::npos) return {};
  return text.substr(1, end - 1);
}

Error unknownName(std::string_view name) {
  return {.code = Code::InvalidArgument,
          .message = format("{{{}}} is not known here: no earlier step saved it", name)};
}

std::string asText(const json::Value& value) {
  return value.isString() ? value.string() : json::write(value);
}

template <class Escape>
Result<std::string> fillWith(std::string_view text, const Names& names, Escape escape) {
  std::string out;
  while (!text.empty()) {
    std::size_t open = text.find('{');
    out += text.substr(0, open);
    if (open == std::string_view::npos) break;
    text.remove_prefix(open);
    std::string_view name = nameIn(text);
    if (name.empty()) {
      out += '{';
      text.remove_prefix(1);
      continue;
    }
    auto found = names.find(name);
    if (found == names.end()) return unknownName(name);
    out += escape(asText(found->second));
    text.remove_prefix(name.size() + 2);
  }
  return out;
}

std::string shown(const json::Value* value) {
  return value ? shorten(json::write(*value), kShownBytes) : "absent";
}

std::optional<std::int64_t> wholeNumber(const json::Value& value) {
  if (value.isString()) return parseInt(value.string());
  if (value.isInteger()) return value.integer();
  return std::nullopt;
}

bool containsText(const json::Value& value, std::string_view text) {
  return value.isString() && value.string().find(text) != std::string::npos;
}

std::string member(const std::string& path, std::string_view key) {
  bool plain = !key.empty() && std::all_of(key.begin(), key.end(), [](char c) {
    return kNameCharacters.find(c) != std::string_view::npos || c == '-' || c == ':';
  });
  if (!plain) return format("{}[\"{}\"]", path, key);
  return path.empty() ? std::string(key) : format("{}.{}", path, key);
}

class Matcher {
 public:
  Matcher(const Names& names, Match& out) : names_(names), out_(out) {}

  void value(const json::Value& expected, const json::Value* actual, const std::string& pointer,
             const std::string& path) {
    if (expected.isString()) return text(expected.string(), actual, pointer, path);
    if (!actual) return differs(shown(&expected), actual, pointer, path);
    if (expected.isObject() && actual->isObject())
      return object(expected.object(), actual->object(), pointer, path);
    if (expected.isArray() && actual->isArray()) {
      const std::string& mark = expected.at(0).string();
      if (mark == "$some" || mark == "$unordered")
        return anyOrder(expected.array(), *actual, pointer, path);
      return array(expected.array(), *actual, pointer, path);
    }
    if (!(expected == *actual)) differs(shown(&expected), actual, pointer, path);
  }

 private:
  void object(const json::Object& expected, const json::Object& actual, const std::string& pointer,
              const std::string& path) {
    for (const auto& [written_key, value] : expected) {
      if (written_key == "$only") continue;
      std::string inner = pointer + "/" + json::escapeToken(written_key);
      auto key = fillText(written_key, names_);
      if (!key) {
        fail(key.error().message, inner, path);
        continue;
      }
      this->value(value, actual.find(*key), inner, member(path, *key));
    }
    if (!expected.contains("$only")) return;
    for (const auto& [key, value] : actual) {
      bool wanted = std::any_of(expected.begin(), expected.end(), [&](const auto& other) {
        auto filled = fillText(other.first, names_);
        return filled && *filled == key;
      });
      if (!wanted) differs("nothing else ($only)", &value, pointer, member(path, key));
    }
  }

  void array(const json::Array& expected, const json::Value& actual, const std::string& pointer,
             const std::string& path) {
    const json::Array& items = actual.array();
    if (expected.size() != items.size())
      fail(format("expected {} items, has {}: {}", expected.size(), items.size(), shown(&actual)),
           pointer, path);
    for (std::size_t i = 0; i < expected.size() && i < items.size(); ++i)
      value(expected[i], &items[i], format("{}/{}", pointer, i), format("{}[{}]", path, i));
  }

  // After the mark, every expected item must be there, wherever; "$unordered" wants no others.
  void anyOrder(const json::Array& expected, const json::Value& actual, const std::string& pointer,
                const std::string& path) {
    std::size_t count = expected.size() - 1;
    if (expected[0].string() == "$unordered" && count != actual.array().size())
      fail(format("expected {} items, has {}: {}", count, actual.array().size(), shown(&actual)),
           pointer, path);
    for (std::size_t i = 1; i < expected.size(); ++i) {
      bool found = std::any_of(actual.array().begin(), actual.array().end(),
                               [&](const json::Value& candidate) {
                                 Match inner = match(expected[i], &candidate, names_);
                                 if (inner.ok()) out_.saved.merge(inner.saved);
                                 return inner.ok();
                               });
      if (!found)
        fail(format("no item is {}; there is {}", shown(&expected[i]), shown(&actual)),
             format("{}/{}", pointer, i), path);
    }
  }

  void text(const std::string& written, const json::Value* actual, const std::string& pointer,
            const std::string& path) {
    if (!written.starts_with('$')) {
      auto expected = fill(json::Value(written), names_);
      if (!expected) return fail(expected.error().message, pointer, path);
      if (!actual || !(*expected == *actual)) differs(shown(&*expected), actual, pointer, path);
      return;
    }
    auto [matcher, written_argument] = cut(written, " ");
    if (matcher == "$save") {
      if (!actual) return differs("something to save", actual, pointer, path);
      out_.saved.insert_or_assign(std::string(written_argument), *actual);
      return;
    }
    auto argument = fill(json::Value(written_argument), names_);
    if (!argument) return fail(argument.error().message, pointer, path);
    auto holds = special(matcher, *argument, actual);
    if (!holds) return fail(format("there is no matcher {}", matcher), pointer, path);
    if (*holds) return;
    std::string expected(matcher);
    if (!written_argument.empty()) expected += " " + asText(*argument);
    differs(expected, actual, pointer, path);
  }

  // Nothing when there is no such matcher.
  static std::optional<bool> special(std::string_view matcher, const json::Value& argument,
                                     const json::Value* actual) {
    if (matcher == "$absent") return actual == nullptr;
    if (matcher == "$any") return actual != nullptr;
    if (matcher == "$string") return actual && actual->isString() && !actual->string().empty();
    if (matcher == "$int") return actual && actual->isInteger();
    if (matcher == "$time") return actual && parseTime(actual->string()).has_value();
    if (matcher == "$contains") return actual && containsText(*actual, asText(argument));
    if (matcher == "$not") return actual && asText(*actual) != asText(argument);
    if (matcher == "$above") {
      auto number = actual ? wholeNumber(*actual) : std::nullopt;
      auto limit = wholeNumber(argument);
      return number && limit && *number > *limit;
    }
    return std::nullopt;
  }

  void differs(std::string_view expected, const json::Value* actual, const std::string& pointer,
               const std::string& path) {
    fail(format("expected {}, is {}", expected, shown(actual)), pointer, path);
  }
  void fail(std::string_view what, const std::string& pointer, const std::string& path) {
    out_.mismatches.push_back(
        {pointer, path.empty() ? std::string(what) : path + ": " + std::string(what)});
  }

  const Names& names_;
  Match& out_;
};

}  // namespace

Result<std::string> fillText(std::string_view text, const Names& names) {
  return fillWith(text, names, [](std::string value) { return value; });
}

Result<std::string> fillTarget(std::string_view text, const Names& names) {
  return fillWith(text, names, [](const std::string& value) { return urlEncode(value); });
}

Result<json::Value> fill(const json::Value& value, const Names& names) {
  if (value.isString()) {
    const std::string& text = value.string();
    if (text.starts_with('{') && nameIn(text).size() + 2 == text.size()) {
      auto found = names.find(nameIn(text));
      if (found == names.end()) return unknownName(nameIn(text));
      return found->second;
    }
    CADRE_LET(std::string filled, fillText(text, names));
    return json::Value(std::move(filled));
  }
  if (value.isArray()) {
    json::Array items;
    for (const json::Value& item : value.array()) {
      CADRE_LET(json::Value filled, fill(item, names));
      items.push_back(std::move(filled));
    }
    return json::Value(std::move(items));
  }
  if (value.isObject()) {
    std::vector<json::Object::Member> members;
    for (const auto& [key, inner] : value.object()) {
      CADRE_LET(std::string filled_key, fillText(key, names));
      CADRE_LET(json::Value filled, fill(inner, names));
      members.emplace_back(std::move(filled_key), std::move(filled));
    }
    return json::Value(json::Object(std::move(members)));
  }
  return value;
}

Match match(const json::Value& expected, const json::Value* actual, const Names& names) {
  Match out;
  Matcher(names, out).value(expected, actual, "", "");
  return out;
}

}  // namespace cadre::transcript
