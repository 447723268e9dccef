// The formats of texts that the API server knows in the schemas of CRDs.
#include <algorithm>
#include <array>
#include <optional>

#include "base/strings.h"
#include "base/time.h"
#include "kube/pattern.h"
#include "kube/schema.h"

namespace cadre::kube {

namespace {

bool isHex(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

// Leading zeros are allowed, as by the server.
bool isIpv4(std::string_view text) {
  auto parts = split(text, '.');
  return parts.size() == 4 && std::ranges::all_of(parts, [](std::string_view part) {
           if (part.empty() || part.size() > 3) return false;
           auto number = parseInt(part);
           return number && *number <= 255 && part[0] >= '0' && part[0] <= '9';
         });
}

bool isIpv6(std::string_view text) {
  std::size_t groups = 0;
  bool gap = false;
  if (text.starts_with("::")) {
    gap = true;
    text.remove_prefix(2);
  }
  while (!text.empty()) {
    std::size_t end = text.find(':');
    std::string_view group = text.substr(0, end);
    if (end == std::string_view::npos && isIpv4(group)) {
      groups += 2;
      break;
    }
    if (group.empty() || group.size() > 4 || !std::ranges::all_of(group, isHex)) return false;
    ++groups;
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
    if (text.empty()) return false;  // a single colon at the end
    if (text.starts_with(':')) {
      if (gap) return false;
      gap = true;
      text.remove_prefix(1);
    }
  }
  return gap ? groups < 8 : groups == 8;
}

bool isCidr(std::string_view text) {
  auto [address, length] = cut(text, "/");
  bool four = isIpv4(address);
  if (!four && !isIpv6(address)) return false;
  auto bits = parseInt(length);
  return bits && length[0] >= '0' && length[0] <= '9' && *bits <= (four ? 32 : 128);
}

// Of 6, 8 or 20 bytes, as pairs with colons or dashes or as fours with dots.
bool isMac(std::string_view text) {
  for (auto [separator, width] : {std::pair(':', 2u), std::pair('-', 2u), std::pair('.', 4u)}) {
    auto parts = split(text, separator);
    std::size_t bytes = parts.size() * width / 2;
    if ((bytes == 6 || bytes == 8 || bytes == 20) &&
        std::ranges::all_of(parts, [width = width](std::string_view part) {
          return part.size() == width && std::ranges::all_of(part, isHex);
        }))
      return true;
  }
  return false;
}

// An absolute address or path.
bool isUri(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0x20 || byte == 0x7f) return false;
    bool escape =
        text[i] != '%' || (i + 2 < text.size() && isHex(text[i + 1]) && isHex(text[i + 2]));
    if (!escape) return false;
  }
  if (text.starts_with('/')) return true;
  static const Pattern kScheme = *Pattern::parse("^[A-Za-z][A-Za-z0-9+.-]*:[^ ]");
  if (!kScheme.matches(text)) return false;
  auto rest = cut(text, ":").second;
  if (!rest.starts_with("//")) return true;
  std::string_view host = rest.substr(2, rest.substr(2).find_first_of("/?#"));
  return host.find_first_of(" <>\"\\^`{|}") == std::string_view::npos;
}

// An address alone, or in <> after a name.
bool isEmail(std::string_view text) {
  static const Pattern kAddress =
      *Pattern::parse("^[^@<>()\\[\\]\\\\,;:\\s]+@[^@<>()\\\\,;:\\s]+$");
  text = trim(text);
  if (text.ends_with('>')) {
    std::size_t open = text.find('<');
    if (open == std::string_view::npos) return false;
    text = text.substr(open + 1, text.size() - open - 2);
  }
  return kAddress.matches(text) && !text.starts_with('.') && text.find("..") == text.npos;
}

bool isTimeUnit(std::string_view word) {
  constexpr std::string_view kShort[] = {"ns", "us", "µs", "ms", "s", "m",
                                         "h",  "hr", "d",  "w",  "wk"};
  constexpr std::string_view kLong[] = {"nano", "micro", "milli", "sec",
                                        "min",  "hour",  "day",   "week"};
  return std::ranges::find(kShort, word) != std::end(kShort) ||
         std::ranges::any_of(kLong, [&](std::string_view unit) { return word.starts_with(unit); });
}

// As the server reads it: a number with a unit somewhere in the text is enough, so that "P1D" is
// one, too.
bool isDuration(std::string_view text) {
  if (parseDuration(text)) return true;
  auto isDigit = [](char c) { return c >= '0' && c <= '9'; };
  auto isSpace = [](char c) {
    return std::string_view(" \t\n\f\r").find(c) != std::string_view::npos;
  };
  auto isLetter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '\xc2' || c == '\xb5';  // µ
  };
  auto take = [&](auto is) {
    std::size_t size = 0;
    while (size < text.size() && is(text[size])) ++size;
    std::string_view taken = text.substr(0, size);
    text.remove_prefix(size);
    return taken;
  };
  bool found = false;
  while (!text.empty()) {
    take([&](char c) { return !isDigit(c); });
    std::string_view number = take(isDigit);
    take(isSpace);
    std::string_view word = take(isLetter);
    if (number.empty() || word.empty()) continue;
    if (!parseInt(number)) return false;
    found = found || isTimeUnit(lower(word));
  }
  return found;
}

struct Format {
  std::string_view name;  // without dashes, as the server compares them
  bool (*has)(std::string_view text) = nullptr;
  std::string_view pattern = {};
};

constexpr std::string_view kHost =
    "^([a-zA-Z0-9\u0080-\U0010FFFF](-?[a-zA-Z0-9\u0080-\U0010FFFF]{0,62})?|"
    "([a-zA-Z0-9\u0080-\U0010FFFF]([a-zA-Z0-9\u0080-\U0010FFFF-]{0,61}[a-zA-Z0-9\u0080-\U0010FFFF]"
    ")?\\.)+[a-zA-Z\u0080-\U0010FFFF]{2,63})$";

constexpr std::array kFormats = {
    Format{"datetime", [](std::string_view text) { return parseTime(text).has_value(); }},
    Format{"date",
           [](std::string_view text) {
             return text.size() == 10 && parseTime(std::string(text) + "T00:00:00Z").has_value();
           }},
    Format{"byte", nullptr,
           "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$"},
    Format{"ipv4", isIpv4},
    Format{"ipv6", isIpv6},
    Format{"cidr", isCidr},
    Format{"mac", isMac},
    Format{"uri", isUri},
    Format{"email", isEmail},
    Format{"duration", isDuration},
    Format{"hostname", nullptr, kHost},
    Format{"uuid", nullptr,
           "^[0-9A-Fa-f]{8}-?[0-9A-Fa-f]{4}-?[0-9A-Fa-f]{4}-?[0-9A-Fa-f]{4}-?[0-9A-Fa-f]{12}$"},
    Format{"uuid3", nullptr,
           "^[0-9A-Fa-f]{8}-?[0-9A-Fa-f]{4}-?3[0-9A-Fa-f]{3}-?[0-9A-Fa-f]{4}-?[0-9A-Fa-f]{12}$"},
    Format{"uuid4", nullptr,
           "^[0-9A-Fa-f]{8}-?[0-9A-Fa-f]{4}-?4[0-9A-Fa-f]{3}-?[89ABab][0-9A-Fa-f]{3}-?[0-9A-Fa-f]"
           "{12}$"},
    Format{"uuid5", nullptr,
           "^[0-9A-Fa-f]{8}-?[0-9A-Fa-f]{4}-?5[0-9A-Fa-f]{3}-?[89ABab][0-9A-Fa-f]{3}-?[0-9A-Fa-f]"
           "{12}$"},
    Format{"bsonobjectid", nullptr, "^[0-9A-Fa-f]{24}$"},
    Format{"hexcolor", nullptr, "^#?([0-9A-Fa-f]{3}|[0-9A-Fa-f]{6})$"},
    Format{"ssn", nullptr, "^[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}$"},
    Format{"password", [](std::string_view) { return true; }},
};

const Pattern& patternOf(std::size_t at) {
  static const auto kPatterns = [] {
    std::array<Pattern, kFormats.size()> patterns;
    for (std::size_t i = 0; i < kFormats.size(); ++i)
      if (!kFormats[i].pattern.empty()) patterns[i] = *Pattern::parse(kFormats[i].pattern);
    return patterns;
  }();
  return kPatterns[at];
}

std::optional<std::size_t> find(std::string_view format) {
  std::string name(format);
  std::erase(name, '-');
  auto found = std::ranges::find(kFormats, name, &Format::name);
  if (found == kFormats.end()) return std::nullopt;
  return static_cast<std::size_t>(found - kFormats.begin());
}

}  // namespace

bool knownFormat(std::string_view format) {
  return find(format).has_value() || format == "int64";  // its limits are those of our integers
}

bool hasFormat(std::string_view format, std::string_view text) {
  auto at = find(format);
  if (!at) return true;
  return kFormats[*at].has ? kFormats[*at].has(text) : patternOf(*at).matches(text);
}

}  // namespace cadre::kube
