#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "json/value.h"

namespace cadre::kube {

// An amount of a resource as Kubernetes writes it: "500m", "1.5Gi", "2e3". Exact: a whole number of
// billionths; what is finer is rounded away from zero, so that who asks for a little gets a little.
// An immutable value, compared by meaning: 1 == 1000m == 1e0, 1Ki == 1024.
class Quantity {
 public:
  Quantity() = default;  // 0

  // A number with a suffix (n u m k M G T P E, Ki Mi Gi Ti Pi Ei) or an exponent (e3, E-3).
  // With a binary suffix, what is beyond 64 bits with a sign is the nearest that is not, as in
  // Kubernetes. InvalidArgument for everything else, for amounts from 1e29 on, and for more than 18
  // decimal places before a binary suffix.
  static Result<Quantity> parse(std::string_view text);
  // The same from an object, where a number may stand for its text.
  static Result<Quantity> fromJson(const json::Value& value);

  // InvalidArgument when the sum does not fit. It is written in the style of this one.
  Result<Quantity> add(const Quantity& other) const;

  // The canonical form: no fraction, the largest suffix that allows that, in the style that was
  // parsed (decimal, binary, exponent). Binary falls back to decimal where it cannot be exact.
  std::string text() const;

  // Rounded away from zero to whole units and to thousandths; the latter is the nearest that fits.
  Quantity roundedToMillis() const;
  std::int64_t value() const;
  std::int64_t milliValue() const;

  std::strong_ordering operator<=>(const Quantity& other) const { return nanos_ <=> other.nanos_; }
  bool operator==(const Quantity& other) const { return nanos_ == other.nanos_; }

 private:
  enum class Style : std::uint8_t { Decimal, Binary, Exponent };
  __extension__ typedef __int128 Int128;

  Quantity(Int128 nanos, Style style) : nanos_(nanos), style_(style) {}

  Int128 nanos_ = 0;
  Style style_ = Style::Decimal;
};

}  // namespace cadre::kube
