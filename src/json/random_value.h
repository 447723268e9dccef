#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>

#include "json/utf8.h"
#include "json/value.h"

namespace cadre::json {

// For tests: values from a seed, with a taste for what goes wrong (words that YAML reads as
// something else, blank space at the edges, line breaks, odd characters, extreme numbers).
class RandomValues {
 public:
  explicit RandomValues(std::uint32_t seed) : engine_(seed) {}

  Value next(int depth = 4) {
    switch (below(depth > 0 ? 10 : 6)) {
      case 0:
        return below(2) ? Value(nullptr) : Value(below(2) == 1);
      case 1:
        return integer();
      case 2:
        return fraction();
      case 3:
      case 4:
      case 5:
        return string();
      case 6:
      case 7: {
        Array array;
        for (auto n = below(5); n > 0; --n) array.push_back(next(depth - 1));
        return array;
      }
      default: {
        Object object;
        for (auto n = below(5); n > 0; --n) object.set(string(), next(depth - 1));
        return object;
      }
    }
  }

  std::string string() {
    static constexpr const char* kPieces[] = {"a",          "b",
                                              "Z",          "0",
                                              "7",          " ",
                                              "  ",         "\n",
                                              "\n\n",       "\t",
                                              "\r",         ":",
                                              ": ",         "#",
                                              " #",         "-",
                                              "- ",         "?",
                                              "? ",         ",",
                                              "[",          "]",
                                              "{",          "}",
                                              "&x",         "*x",
                                              "!",          "!!",
                                              "|",          ">",
                                              "'",          "\"",
                                              "\\",         "%",
                                              "@",          "`",
                                              "<<",         "~",
                                              "null",       "true",
                                              "yes",        "Off",
                                              "y",          "N",
                                              "0x1f",       "0o7",
                                              "017",        "1_0",
                                              "1.5",        "1e3",
                                              ".5",         "+1",
                                              "-1",         ".inf",
                                              "NaN",        ".nan",
                                              "=",          "---",
                                              "...",        "1:30",
                                              "é",          "中",
                                              "😀",         "\u0085",
                                              "\u2028",     "\ufeff",
                                              "\u00a0",     "\x7f",
                                              "\x01",       "word",
                                              "/",          "two words",
                                              "2026-01-01", "2026-01-01T00:00:00Z",
                                              "\x1b",       "e",
                                              ".",          "_",
                                              "(",          "\u200b"};
    std::string out;
    std::size_t pieces = below(8) == 0 ? below(40) : below(4);
    for (; pieces > 0; --pieces) out += kPieces[below(std::size(kPieces))];
    if (below(10) == 0) {
      char32_t any = static_cast<char32_t>(below(0x110000));
      if (any < 0xD800 || any > 0xDFFF) utf8Append(out, any);
    }
    if (below(500) == 0) out += std::string(1500, 'k');
    return out;
  }

 private:
  std::size_t below(std::size_t limit) { return engine_() % limit; }

  std::int64_t integer() {
    auto bits = static_cast<std::int64_t>(std::uint64_t{engine_()} << 32 | engine_());
    return below(2) ? static_cast<std::int64_t>(below(100)) : bits >> below(64);
  }
  double fraction() {
    if (below(2)) return static_cast<double>(integer()) / 8;
    auto number = std::bit_cast<double>(std::uint64_t{engine_()} << 32 | engine_());
    return std::isfinite(number) ? number : 0.5;
  }

  std::mt19937 engine_;
};

// For tests: changes something at random in a value: gone, doubled, null, or something else.
class Mutations {
 public:
  explicit Mutations(std::uint32_t seed) : engine_(seed), values_(seed) {}

  void apply(Value& value) {
    if (value.isObject() && !value.object().empty() && below(5) > 0) {
      Object& object = value.makeObject();
      auto member = object.begin() + static_cast<std::ptrdiff_t>(below(object.size()));
      std::string key = member->first;
      switch (below(9)) {
        case 0:
          object.erase(key);
          return;
        case 1:
          object.set(key + "x", Value(member->second));
          return;
        case 2:
          member->second = nullptr;
          return;
        default:
          return apply(member->second);
      }
    }
    if (value.isArray() && !value.array().empty() && below(4) > 0) {
      Array& array = value.makeArray();
      std::size_t at = below(array.size());
      if (below(3) > 0) return apply(array[at]);
      array.push_back(Value(array[at]));
      return;
    }
    switch (below(4)) {
      case 0:
        value = values_.next(2);
        return;
      case 1:
        if (value.isNumber()) {
          value = value.integer() - 50 + static_cast<std::int64_t>(below(200));
          return;
        }
        [[fallthrough]];
      default:
        if (value.isString()) {
          value = value.string() + values_.string();
        } else if (value.isBool()) {
          value = nullptr;
        } else {
          value = values_.next(1);
        }
    }
  }
  std::size_t below(std::size_t limit) { return engine_() % limit; }

 private:
  std::mt19937 engine_;
  RandomValues values_;
};

}  // namespace cadre::json
