#include "kube/quantity.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "base/format.h"
#include "base/strings.h"
#include "json/write.h"
#include "kube/names.h"

namespace cadre::kube {

namespace {

__extension__ typedef __int128 Int128;

constexpr std::size_t kMaxText = 200;
constexpr Int128 kNano = 1'000'000'000;
constexpr Int128 kMaxWhole = std::numeric_limits<std::int64_t>::max();
constexpr int kMaxDigits = 38;  // of billionths
constexpr std::string_view kDecimalSuffixes[] = {"n", "u", "m", "", "k", "M", "G", "T", "P", "E"};
constexpr std::string_view kBinarySuffixes[] = {"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"};

Error bad(std::string_view text, std::string_view why) {
  return Error{.code = Code::InvalidArgument,
               .message = format("{} is not a quantity: {}; write a number with a suffix, such "
                                 "as 500m, 2, 1.5Gi or 1e3",
                                 inQuotes(text), why)};
}

bool isDigit(char c) { return c >= '0' && c <= '9'; }

std::string_view takeDigits(std::string_view& rest) {
  std::size_t count = 0;
  while (count < rest.size() && isDigit(rest[count])) ++count;
  std::string_view digits = rest.substr(0, count);
  rest.remove_prefix(count);
  return digits;
}

// What comes behind the number: times 10^decimal times 2^binary.
struct Scale {
  std::int64_t decimal = 0;
  int binary = 0;
  bool exponent = false;
};

std::optional<Scale> readSuffix(std::string_view suffix) {
  for (std::size_t i = 0; i < std::size(kDecimalSuffixes); ++i)
    if (suffix == kDecimalSuffixes[i]) return Scale{.decimal = static_cast<int>(i) * 3 - 9};
  for (std::size_t i = 1; i < std::size(kBinarySuffixes); ++i)
    if (suffix == kBinarySuffixes[i]) return Scale{.binary = static_cast<int>(i) * 10};
  if (suffix.empty() || (suffix[0] != 'e' && suffix[0] != 'E')) return std::nullopt;
  std::string_view digits = suffix.substr(1);
  if (digits.starts_with('+')) digits.remove_prefix(1);
  if (digits.empty() || (suffix[1] == '+' && !isDigit(digits[0]))) return std::nullopt;
  auto exponent = parseInt(digits);
  if (!exponent) return std::nullopt;
  // A text of kMaxText is far out of range either way with more than this.
  return Scale{.decimal = std::clamp<std::int64_t>(*exponent, -1000, 1000), .exponent = true};
}

// The digits as billionths, with the point before the digit at `point`, which may lie outside of
// them. Nothing when it does not fit.
std::optional<Int128> decimalNanos(std::string_view digits, std::int64_t point) {
  Int128 nanos = 0;
  bool rest = false;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    std::int64_t power = point - 1 - static_cast<std::int64_t>(i) + 9;  // of ten, in billionths
    if (digits[i] == '0') continue;
    if (power >= kMaxDigits) return std::nullopt;
    if (power < 0) {
      rest = true;
      break;
    }
    Int128 one = digits[i] - '0';
    for (; power > 0; --power) one *= 10;
    nanos += one;
  }
  return nanos + (rest ? 1 : 0);
}

Int128 power10(std::size_t exponent) {
  Int128 out = 1;
  for (; exponent > 0; --exponent) out *= 10;
  return out;
}

// The same for a binary suffix; at most 18 digits behind the point. What is beyond 64 bits is the
// largest number that is not.
Int128 binaryNanos(std::string_view whole, std::string_view fraction, int shift) {
  Int128 units = 0, part = 0;
  for (char c : whole) {
    units = units * 10 + (c - '0');
    if (units > (kMaxWhole >> shift)) return kMaxWhole * kNano;
  }
  for (char c : fraction) part = part * 10 + (c - '0');
  Int128 divisor = power10(fraction.size());
  part <<= shift;  // below 10^18 * 2^60: fits
  units = (units << shift) + part / divisor;
  Int128 nanos = (part % divisor) * kNano;
  return units * kNano + nanos / divisor + (nanos % divisor != 0 ? 1 : 0);
}

std::string digitsOf(Int128 number) {
  if (number == 0) return "0";
  bool negative = number < 0;
  std::string out;
  for (; number != 0; number /= 10) {
    int digit = static_cast<int>(number % 10);
    out += static_cast<char>('0' + (negative ? -digit : digit));
  }
  if (negative) out += '-';
  std::ranges::reverse(out);
  return out;
}

std::int64_t roundedAway(Int128 nanos, Int128 unit) {
  Int128 out = nanos / unit;
  if (nanos % unit != 0) out += nanos < 0 ? -1 : 1;
  return static_cast<std::int64_t>(std::clamp<Int128>(out, std::numeric_limits<std::int64_t>::min(),
                                                      std::numeric_limits<std::int64_t>::max()));
}

}  // namespace

Result<Quantity> Quantity::parse(std::string_view text) {
  if (text.size() > kMaxText) return bad(text, format("it is longer than {} characters", kMaxText));
  std::string_view rest = text;
  bool negative = rest.starts_with('-');
  if (negative || rest.starts_with('+')) rest.remove_prefix(1);
  std::string_view whole = takeDigits(rest), fraction;
  if (rest.starts_with('.')) {
    rest.remove_prefix(1);
    fraction = takeDigits(rest);
  }
  if (whole.empty() && fraction.empty()) return bad(text, "it does not start with a number");
  auto scale = readSuffix(rest);
  if (!scale)
    return bad(text, format("after the number comes {}, which is none of n, u, m, k, M, G, T, "
                            "P, E, Ki, Mi, Gi, Ti, Pi, Ei or an exponent",
                            inQuotes(rest)));
  while (fraction.ends_with('0')) fraction.remove_suffix(1);
  std::optional<Int128> nanos;
  if (scale->binary) {
    if (fraction.size() > 18) return bad(text, "it has more than 18 decimal places");
    nanos = binaryNanos(whole, fraction, scale->binary);
  } else {
    nanos = decimalNanos(std::string(whole) + std::string(fraction),
                         static_cast<std::int64_t>(whole.size()) + scale->decimal);
  }
  if (!nanos) return bad(text, "it is beyond 1e29");
  Style style = scale->exponent ? Style::Exponent : Style::Decimal;
  if (scale->binary && *nanos >= kNano) style = Style::Binary;
  return Quantity(negative ? -*nanos : *nanos, style);
}

Result<Quantity> Quantity::fromJson(const json::Value& value) {
  if (value.isString()) return parse(value.string());
  if (value.isNumber()) return parse(json::write(value));
  return Error{
      .code = Code::InvalidArgument,
      .message = format("a quantity must be a string or a number, not {}", value.typeName())};
}

Result<Quantity> Quantity::add(const Quantity& other) const {
  Int128 sum = nanos_ + other.nanos_;
  if (const Int128 most = power10(kMaxDigits); sum >= most || sum <= -most)
    return Error{.code = Code::InvalidArgument,
                 .message = format("the sum of {} and {} is beyond 1e29", text(), other.text())};
  return Quantity(sum, nanos_ == 0 ? other.style_ : style_);
}

std::string Quantity::text() const {
  if (nanos_ == 0) return "0";
  bool small = nanos_ > -1024 * kNano && nanos_ < 1024 * kNano;
  if (style_ == Style::Binary && !small && nanos_ % kNano == 0) {
    Int128 number = nanos_ / kNano;
    std::size_t suffix = 0;
    for (; number % 1024 == 0 && suffix + 1 < std::size(kBinarySuffixes); ++suffix) number /= 1024;
    return digitsOf(number) + std::string(kBinarySuffixes[suffix]);
  }
  Int128 number = nanos_;
  std::size_t suffix = 0;
  const bool has_suffix = style_ != Style::Exponent;
  for (; number % 1000 == 0 && (!has_suffix || suffix + 1 < std::size(kDecimalSuffixes)); ++suffix)
    number /= 1000;
  if (has_suffix) return digitsOf(number) + std::string(kDecimalSuffixes[suffix]);
  int exponent = static_cast<int>(suffix) * 3 - 9;
  return exponent == 0 ? digitsOf(number) : format("{}e{}", digitsOf(number), exponent);
}

Quantity Quantity::roundedToMillis() const {
  constexpr Int128 kMilli = kNano / 1000;
  Int128 rest = nanos_ % kMilli;
  if (rest == 0) return *this;
  return Quantity(nanos_ - rest + (nanos_ < 0 ? -kMilli : kMilli), Style::Decimal);
}

std::int64_t Quantity::value() const { return roundedAway(nanos_, kNano); }
std::int64_t Quantity::milliValue() const { return roundedAway(nanos_, kNano / 1000); }

}  // namespace cadre::kube
