#include "base/time.h"

#include <array>
#include <cstdint>
#include <cstdio>

namespace cadre {

namespace {

using std::chrono::days;
using std::chrono::floor;

struct Civil {
  int year;
  unsigned month, day, hour, minute, second, micros;
};

Civil civil(Time time) {
  auto day = floor<days>(time);
  std::chrono::year_month_day date(day);
  std::chrono::hh_mm_ss clock(floor<std::chrono::microseconds>(time - day));
  return {static_cast<int>(date.year()),
          static_cast<unsigned>(date.month()),
          static_cast<unsigned>(date.day()),
          static_cast<unsigned>(clock.hours().count()),
          static_cast<unsigned>(clock.minutes().count()),
          static_cast<unsigned>(clock.seconds().count()),
          static_cast<unsigned>(clock.subseconds().count())};
}

// Reads exactly `count` digits and steps over them.
bool digits(std::string_view& text, std::size_t count, int& out) {
  if (text.size() < count) return false;
  out = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (text[i] < '0' || text[i] > '9') return false;
    out = out * 10 + (text[i] - '0');
  }
  text.remove_prefix(count);
  return true;
}

bool skip(std::string_view& text, char c) {
  if (text.empty() || text[0] != c) return false;
  text.remove_prefix(1);
  return true;
}

struct Unit {
  std::string_view name;
  std::int64_t nanos;
};
// Longer names first: "ms" must not be read as "m".
constexpr std::array<Unit, 8> kUnits{{{"ns", 1},
                                      {"us", 1'000},
                                      {"µs", 1'000},
                                      {"μs", 1'000},
                                      {"ms", 1'000'000},
                                      {"s", 1'000'000'000},
                                      {"m", 60'000'000'000},
                                      {"h", 3'600'000'000'000}}};

}  // namespace

Time SystemClock::now() const {
  return std::chrono::time_point_cast<Duration>(std::chrono::system_clock::now());
}
Instant SystemClock::instant() const { return std::chrono::steady_clock::now(); }

FakeClock::FakeClock()
    : now_(std::chrono::sys_days(std::chrono::year(2026) / 1 / 1)), instant_(Duration(1h)) {}

void FakeClock::advance(Duration by) {
  now_ += by;
  instant_ += by;
}

void FakeClock::jumpWall(Duration by) { now_ += by; }

std::string formatTime(Time time) {
  Civil c = civil(time);
  char out[40];
  std::snprintf(out, sizeof out, "%04d-%02u-%02uT%02u:%02u:%02uZ", c.year, c.month, c.day, c.hour,
                c.minute, c.second);
  return out;
}

std::string formatTimeMicros(Time time) {
  Civil c = civil(time);
  char out[48];
  std::snprintf(out, sizeof out, "%04d-%02u-%02uT%02u:%02u:%02u.%06uZ", c.year, c.month, c.day,
                c.hour, c.minute, c.second, c.micros);
  return out;
}

std::optional<Time> parseTime(std::string_view text) {
  int year, month, day, hour, minute, second;
  if (!digits(text, 4, year) || !skip(text, '-') || !digits(text, 2, month) || !skip(text, '-') ||
      !digits(text, 2, day) || (!skip(text, 'T') && !skip(text, 't')) || !digits(text, 2, hour) ||
      !skip(text, ':') || !digits(text, 2, minute) || !skip(text, ':') || !digits(text, 2, second))
    return std::nullopt;
  std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(month),
                                   std::chrono::day(day)};
  if (!date.ok() || hour > 23 || minute > 59 || second > 59) return std::nullopt;
  // Outside these years nanoseconds do not fit into 64 bits.
  if (year < 1678 || year > 2261) return std::nullopt;

  std::int64_t nanos = 0;
  if (skip(text, '.')) {
    std::int64_t scale = 100'000'000;
    std::size_t count = 0;
    for (; !text.empty() && text[0] >= '0' && text[0] <= '9'; text.remove_prefix(1), ++count) {
      nanos += (text[0] - '0') * scale;
      scale /= 10;
    }
    if (count == 0) return std::nullopt;
  }

  int offset_minutes = 0;
  if (!skip(text, 'Z') && !skip(text, 'z')) {
    bool west = skip(text, '-');
    int hours, minutes;
    if ((!west && !skip(text, '+')) || !digits(text, 2, hours) || !skip(text, ':') ||
        !digits(text, 2, minutes) || hours > 23 || minutes > 59)
      return std::nullopt;
    offset_minutes = (hours * 60 + minutes) * (west ? -1 : 1);
  }
  if (!text.empty()) return std::nullopt;
  return Time(std::chrono::sys_days(date)) + std::chrono::hours(hour) +
         std::chrono::minutes(minute - offset_minutes) + std::chrono::seconds(second) +
         Duration(nanos);
}

std::string formatDuration(Duration duration) {
  std::int64_t nanos = duration.count();
  if (nanos == 0) return "0s";
  std::string out;
  std::uint64_t left = static_cast<std::uint64_t>(nanos);
  if (nanos < 0) {
    out = "-";
    left = 0 - left;
  }
  // Below a second one unit with its fraction, from a second on h, m and s: as Go prints them.
  auto fraction = [](std::uint64_t value, std::uint64_t unit) {
    std::string text = std::to_string(value / unit);
    if (std::uint64_t rest = value % unit) {
      std::string tail = std::to_string(unit + rest).substr(1);
      tail.erase(tail.find_last_not_of('0') + 1);
      text += '.' + tail;
    }
    return text;
  };
  if (left < 1'000) return out + std::to_string(left) + "ns";
  if (left < 1'000'000) return out + fraction(left, 1'000) + "µs";
  if (left < 1'000'000'000) return out + fraction(left, 1'000'000) + "ms";
  std::uint64_t hours = left / 3'600'000'000'000, minutes = left / 60'000'000'000 % 60;
  if (hours) out += std::to_string(hours) + "h";
  if (hours || minutes) out += std::to_string(minutes) + "m";
  return out + fraction(left % 60'000'000'000, 1'000'000'000) + "s";
}

std::optional<Duration> parseDuration(std::string_view text) {
  bool negative = false;
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) {
    negative = text[0] == '-';
    text.remove_prefix(1);
  }
  if (text == "0") return Duration(0);
  if (text.empty()) return std::nullopt;
  std::int64_t total = 0;
  while (!text.empty()) {
    std::int64_t whole = 0;
    double fraction = 0, scale = 0.1;
    bool any = false;
    auto digit = [&] { return !text.empty() && text[0] >= '0' && text[0] <= '9'; };
    for (; digit(); text.remove_prefix(1), any = true)
      if (__builtin_mul_overflow(whole, 10, &whole) ||
          __builtin_add_overflow(whole, text[0] - '0', &whole))
        return std::nullopt;
    if (!text.empty() && text[0] == '.') {
      text.remove_prefix(1);
      for (; digit(); text.remove_prefix(1), any = true, scale /= 10)
        fraction += (text[0] - '0') * scale;
    }
    if (!any) return std::nullopt;
    const Unit* unit = nullptr;
    for (const Unit& candidate : kUnits)
      if (text.starts_with(candidate.name)) {
        unit = &candidate;
        break;
      }
    if (!unit) return std::nullopt;
    text.remove_prefix(unit->name.size());
    std::int64_t part;
    if (__builtin_mul_overflow(whole, unit->nanos, &part) ||
        __builtin_add_overflow(
            part, static_cast<std::int64_t>(fraction * static_cast<double>(unit->nanos) + 0.5),
            &part) ||
        __builtin_add_overflow(total, part, &total))
      return std::nullopt;
  }
  return Duration(negative ? -total : total);
}

}  // namespace cadre
