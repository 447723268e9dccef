#include "json/yaml_scalar.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>

#include "json/utf8.h"

namespace cadre::json {

namespace {

constexpr std::string_view kTagPrefix = "tag:yaml.org,2002:";

bool isDigit(char c) { return c >= '0' && c <= '9'; }

bool isAnyOf(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

// Words that stand for a value.
std::optional<Value> wordValue(std::string_view text) {
  if (text.size() > 5) return std::nullopt;
  if (isAnyOf(text, {"", "~", "null", "Null", "NULL"})) return Value();
  if (isAnyOf(text, {"y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"}))
    return Value(true);
  if (isAnyOf(text, {"n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"}))
    return Value(false);
  if (isAnyOf(text, {".nan", ".NaN", ".NAN"}))
    return Value(std::numeric_limits<double>::quiet_NaN());
  if (isAnyOf(text, {".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"}))
    return Value(std::numeric_limits<double>::infinity());
  if (isAnyOf(text, {"-.inf", "-.Inf", "-.INF"}))
    return Value(-std::numeric_limits<double>::infinity());
  return std::nullopt;
}

struct Sign {
  bool present = false;
  bool negative = false;
};

Sign takeSign(std::string_view& text) {
  Sign sign;
  if (!text.empty() && (text[0] == '+' || text[0] == '-')) {
    sign = {true, text[0] == '-'};
    text.remove_prefix(1);
  }
  return sign;
}

// The base that a prefix announces; removes the prefix.
int takeBase(std::string_view& digits) {
  if (digits.size() < 2 || digits[0] != '0') return 10;
  switch (digits[1]) {
    case 'x':
    case 'X':
      digits.remove_prefix(2);
      return 16;
    case 'b':
    case 'B':
      digits.remove_prefix(2);
      return 2;
    case 'o':
    case 'O':
      digits.remove_prefix(2);
      return 8;
    default:
      digits.remove_prefix(1);
      return 8;
  }
}

std::optional<Value> integerValue(std::string_view text) {
  Sign sign = takeSign(text);
  int base = takeBase(text);
  std::uint64_t size = 0;
  const char* end = text.data() + text.size();
  auto read = std::from_chars(text.data(), end, size, base);
  if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
  constexpr std::uint64_t kLimit = std::uint64_t{1} << 63;
  if (sign.negative) {
    if (size > kLimit) return std::nullopt;
    return Value(static_cast<std::int64_t>(0 - size));
  }
  if (sign.present && size >= kLimit) return std::nullopt;
  return Value(size);
}

// Of a number without sign that no double holds: is it too small rather than too large?
bool isTiny(std::string_view number) {
  std::size_t mantissa = std::min(number.find_first_of("eE"), number.size());
  std::size_t point = std::min(number.find('.'), mantissa);
  std::size_t first = std::min(number.find_first_of("123456789"), mantissa);
  auto magnitude = static_cast<std::int64_t>(point) - static_cast<std::int64_t>(first);
  std::string_view written = number.substr(std::min(mantissa + 1, number.size()));
  if (written.starts_with('+')) written.remove_prefix(1);
  std::int64_t exponent = 0;
  auto read = std::from_chars(written.data(), written.data() + written.size(), exponent);
  if (read.ec == std::errc::result_out_of_range) return written[0] == '-';
  return magnitude + exponent < 0;
}

// [-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?
std::optional<Value> fractionValue(std::string_view text) {
  Sign sign = takeSign(text);
  std::size_t at = 0;
  auto digits = [&] {
    std::size_t start = at;
    while (at < text.size() && isDigit(text[at])) ++at;
    return at - start;
  };
  std::size_t before = digits();
  std::size_t after = 0;
  if (at < text.size() && text[at] == '.') {
    ++at;
    after = digits();
  }
  if (before + after == 0) return std::nullopt;
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
    if (digits() == 0) return std::nullopt;
  }
  if (at != text.size()) return std::nullopt;

  double size = 0;
  auto read = std::from_chars(text.data(), text.data() + text.size(), size);
  if (read.ec == std::errc::result_out_of_range) {
    if (!isTiny(text)) return std::nullopt;  // too large for a number: stays text
    size = 0;
  }
  return Value(sign.negative ? -size : size);
}

// True when each underscore stands between two digits. Only fractions that start with a point are
// held to that.
bool separatesDigits(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') continue;
    if (i == 0 || i + 1 == text.size() || !isDigit(text[i - 1]) || !isDigit(text[i + 1]))
      return false;
  }
  return true;
}

std::optional<Value> numberValue(std::string_view text) {
  if (text[0] == '.' && !separatesDigits(text)) return std::nullopt;
  std::string plain;
  if (text.find('_') != text.npos) {
    for (char c : text)
      if (c != '_') plain += c;
    text = plain;
  }
  if (auto integer = integerValue(text)) return integer;
  return fractionValue(text);
}

// A date, with or without a time: YYYY-M-D and what may follow.
bool isDate(std::string_view text) {
  std::size_t at = 0;
  auto digits = [&](std::size_t least, std::size_t most) {
    std::size_t start = at;
    while (at < text.size() && isDigit(text[at])) ++at;
    return at - start >= least && at - start <= most;
  };
  auto dash = [&] { return at < text.size() && text[at++] == '-'; };
  if (!digits(4, 4) || !dash() || !digits(1, 2) || !dash() || !digits(1, 2)) return false;
  return at == text.size() || text[at] == 'T' || text[at] == 't' || text[at] == ' ';
}

// 1:30, 190:20:30.15: numbers for readers that still know the base sixty. Groups of at most two
// digits follow the first, the last may have a fraction.
bool isSixtyBased(std::string_view text) {
  takeSign(text);
  auto digitsEnd = [&](std::size_t at) {
    while (at < text.size() && (isDigit(text[at]) || text[at] == '_')) ++at;
    return at;
  };
  if (text.empty() || !isDigit(text[0])) return false;
  std::size_t at = digitsEnd(0);
  std::size_t groups = 0;
  for (; at < text.size() && text[at] == ':'; ++groups) {
    std::size_t end = digitsEnd(at + 1);
    std::size_t length = end - at - 1;
    if (length < 1 || length > 2 || (length == 2 && text[at + 1] > '5')) return false;
    at = end;
  }
  if (at < text.size() && text[at] == '.') at = digitsEnd(at + 1);
  return groups > 0 && at == text.size();
}

std::optional<std::string> decodeBase64(std::string_view text) {
  auto digit = [](char c) -> int {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (isDigit(c)) return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
  };
  std::string clean;
  for (char c : text)
    if (c != '\n' && c != '\r') clean += c;
  if (clean.size() % 4 != 0) return std::nullopt;
  std::size_t padding = 0;
  while (padding < 2 && padding < clean.size() && clean[clean.size() - 1 - padding] == '=')
    ++padding;
  std::string out;
  std::uint32_t bits = 0;
  int held = 0;
  for (char c : std::string_view(clean).substr(0, clean.size() - padding)) {
    int value = digit(c);
    if (value < 0) return std::nullopt;
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    held += 6;
    if (held >= 8) {
      held -= 8;
      out += static_cast<char>(bits >> held & 0xFF);
    }
  }
  return out;
}

std::string cannotBe(std::string_view text, std::string_view type) {
  std::string error = "cannot read \"";
  error.append(text.substr(0, 40));
  return error.append(text.size() > 40 ? "...\" as " : "\" as ").append(type);
}

}  // namespace

Value resolvePlainScalar(std::string_view text) {
  if (text.empty()) return Value();
  if (auto word = wordValue(text)) return *std::move(word);
  if (isDigit(text[0]) || text[0] == '+' || text[0] == '-' || text[0] == '.') {
    if (auto number = numberValue(text)) return *std::move(number);
  }
  return text;
}

TaggedScalar resolveScalar(std::string_view tag, std::string_view text) {
  auto finite = [&](Value value) -> TaggedScalar {
    if (value.isNumber() && !std::isfinite(value.number()))
      return {{}, cannotBe(text, "a number: JSON has no infinity and no NaN")};
    return {std::move(value), {}};
  };
  if (tag == "?") return finite(resolvePlainScalar(text));
  if (tag == "!") return {text, {}};
  if (!tag.starts_with(kTagPrefix)) return {{}, "unknown tag " + std::string(tag)};
  std::string_view type = tag.substr(kTagPrefix.size());
  if (type == "str" || type == "timestamp") return {text, {}};
  if (type == "binary") {
    auto bytes = decodeBase64(text);
    if (!bytes) return {{}, cannotBe(text, "base64")};
    return {utf8Repair(*bytes), {}};
  }
  Value value = resolvePlainScalar(text);
  if (type == "null") {
    if (value.isNull()) return {};
  } else if (type == "bool") {
    if (value.isBool()) return {std::move(value), {}};
  } else if (type == "int") {
    // An integer beyond 64 bits with a sign is a double here and an integer all the same.
    bool integer = value.isInteger() || (value.isNumber() && std::abs(value.number()) >= 0x1p63 &&
                                         text.find_first_of(".eE") == text.npos);
    if (integer) return {std::move(value), {}};
  } else if (type == "float") {
    if (value.isNumber()) return finite(value.number());
  } else {
    return {{}, "unknown tag !!" + std::string(type)};
  }
  return {{}, cannotBe(text, "!!" + std::string(type))};
}

bool looksTyped(std::string_view text) {
  return !resolvePlainScalar(text).isString() || isDate(text) || isSixtyBased(text);
}

}  // namespace cadre::json
