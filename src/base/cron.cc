#include "base/cron.h"

#include <algorithm>
#include <bit>
#include <string>

#include "base/format.h"
#include "base/strings.h"

namespace cadre {
namespace {

using std::chrono::days;
using std::chrono::seconds;
using std::chrono::sys_days;

constexpr days kHorizon{5 * 366};

struct Range {
  std::string_view what;
  int low, high;
  std::string_view names = "";  // three letters each, beginning with `low`
};
constexpr Range kMinutes{"minute", 0, 59}, kHours{"hour", 0, 23}, kDays{"day of the month", 1, 31},
    kMonths{"month", 1, 12, "janfebmaraprmayjunjulaugsepoctnovdec"},
    kWeekdays{"day of the week", 0, 6, "sunmontuewedthufrisat"};

Error wrong(const Range& range, std::string_view text) {
  return {.code = Code::InvalidArgument,
          .message = format(
              "\"{}\" is no {}: it is a number from {} to {}, a range such as {}-{}, a list of "
              "those, or *, each with a step such as */2",
              shorten(text, 50), range.what, range.low, range.high, range.low, range.low + 1)};
}

std::optional<int> numberOf(const Range& range, std::string_view text) {
  std::string name = lower(text);
  for (std::size_t at = 0; name.size() == 3 && at < range.names.size(); at += 3)
    if (range.names.substr(at, 3) == name) return range.low + static_cast<int>(at / 3);
  if (text.empty() || text.find_first_not_of("0123456789") != std::string_view::npos)
    return std::nullopt;
  auto number = parseInt(text);
  if (!number || *number < range.low || *number > range.high) return std::nullopt;
  return static_cast<int>(*number);
}

// `any`: it does not restrict anything.
Result<std::uint64_t> parseField(const Range& range, std::string_view text, bool& any) {
  std::uint64_t bits = 0;
  for (std::string_view part : split(text, ',')) {
    auto [ends, step] = cut(part, "/");
    bool has_step = part.find('/') != std::string_view::npos;
    int low = range.low, high = range.high;
    if (ends != "*" && ends != "?") {
      auto [from, to] = cut(ends, "-");
      auto first = numberOf(range, from);
      if (!first) return wrong(range, text);
      low = *first;
      if (ends.find('-') != std::string_view::npos) {
        auto last = numberOf(range, to);
        if (!last || *last < low) return wrong(range, text);
        high = *last;
      } else if (!has_step) {
        high = low;
      }
    }
    int by = 1;
    if (has_step) {
      auto number = parseInt(step);
      bool plain = step.find_first_not_of("0123456789") == std::string_view::npos;
      if (!number || !plain || *number < 1 || *number > 100) return wrong(range, text);
      by = static_cast<int>(*number);
    }
    if ((ends == "*" || ends == "?") && by == 1) any = true;
    for (int value = low; value <= high; value += by) bits |= std::uint64_t{1} << value;
  }
  return bits;
}

std::string_view spelledOut(std::string_view name) {
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"@yearly", "0 0 1 1 *"}, {"@annually", "0 0 1 1 *"}, {"@monthly", "0 0 1 * *"},
      {"@weekly", "0 0 * * 0"}, {"@daily", "0 0 * * *"},    {"@midnight", "0 0 * * *"},
      {"@hourly", "0 * * * *"}};
  for (const auto& [called, fields] : kNames)
    if (called == name) return fields;
  return "";
}

// The first bit from `at` on.
std::optional<int> nextBit(std::uint64_t bits, int at) {
  bits = at > 63 ? 0 : bits >> at << at;
  if (bits == 0) return std::nullopt;
  return std::countr_zero(bits);
}

}  // namespace

Result<Cron> Cron::parse(std::string_view text) {
  Cron cron;
  text = trim(text);
  constexpr std::string_view kEvery = "@every ";
  if (text.starts_with(kEvery)) {
    auto every = parseDuration(text.substr(kEvery.size()));
    if (!every || *every < 1s)
      return Error{
          .code = Code::InvalidArgument,
          .message = format("\"{}\" is no duration of at least a second, such as 90s or 1h30m",
                            shorten(text.substr(kEvery.size()), 50))};
    cron.every_ = std::chrono::floor<seconds>(*every);
    return cron;
  }
  std::string_view whole = text;
  if (text.starts_with('@')) {
    whole = spelledOut(text);
    if (whole.empty())
      return Error{.code = Code::InvalidArgument,
                   .message = format("there is no \"{}\", only @yearly, @monthly, @weekly, @daily, "
                                     "@hourly and @every DURATION",
                                     shorten(text, 50))};
  }
  std::vector<std::string_view> fields;
  for (std::string_view field : split(whole, ' '))
    if (!field.empty()) fields.push_back(field);
  if (fields.size() != 5)
    return Error{.code = Code::InvalidArgument,
                 .message = format("\"{}\" has {} fields, not 5: minute, hour, day of the month, "
                                   "month, day of the week",
                                   shorten(text, 100), fields.size())};
  bool ignored = false;
  CADRE_LET(cron.minutes_, parseField(kMinutes, fields[0], ignored));
  CADRE_LET(cron.hours_, parseField(kHours, fields[1], ignored));
  CADRE_LET(cron.days_, parseField(kDays, fields[2], cron.any_day_));
  CADRE_LET(cron.months_, parseField(kMonths, fields[3], ignored));
  CADRE_LET(cron.weekdays_, parseField(kWeekdays, fields[4], cron.any_weekday_));
  return cron;
}

bool Cron::fits(sys_days day) const {
  std::chrono::year_month_day date(day);
  bool by_day = days_ >> unsigned(date.day()) & 1;
  bool by_weekday = weekdays_ >> std::chrono::weekday(day).c_encoding() & 1;
  bool either = any_day_ || any_weekday_ ? by_day && by_weekday : by_day || by_weekday;
  return (months_ >> unsigned(date.month()) & 1) && either;
}

// In local time, which goes on evenly between the two; seconds since 1970 there.
std::optional<seconds> Cron::nextLocal(seconds from, seconds until) const {
  seconds start = std::chrono::ceil<std::chrono::minutes>(from);
  for (sys_days day(std::chrono::floor<days>(start)); day.time_since_epoch() < until;
       day += days(1)) {
    if (!fits(day)) continue;
    auto in_day = std::max<seconds>(start - day.time_since_epoch(), 0s);
    int hour = static_cast<int>(in_day / 1h), minute = static_cast<int>(in_day % 1h / 1min);
    for (auto at = nextBit(hours_, hour); at; at = nextBit(hours_, *at + 1))
      if (auto then = nextBit(minutes_, *at == hour ? minute : 0)) {
        seconds found =
            day.time_since_epoch() + std::chrono::hours(*at) + std::chrono::minutes(*then);
        if (found < until) return found;
        return std::nullopt;
      }
  }
  return std::nullopt;
}

std::optional<Time> Cron::next(Time after, const TimeZone& zone) const {
  if (every_ > 0s) return std::chrono::floor<seconds>(after) + every_;
  Time at = std::chrono::floor<seconds>(after) + 1s;
  const Time horizon = after + kHorizon;
  while (at < horizon) {
    seconds offset = zone.offsetAt(at);
    Time until = std::min(zone.changesAfter(at).value_or(horizon), horizon);
    auto local = [&](Time time) {
      return std::chrono::floor<seconds>(time.time_since_epoch()) + offset;
    };
    if (auto found = nextLocal(local(at), local(until))) return Time(*found - offset);
    at = until;
  }
  return std::nullopt;
}

std::optional<Time> Cron::last(Time after, Time until, const TimeZone& zone) const {
  if (every_ > 0s) {
    Time start = std::chrono::floor<seconds>(after);
    if (until < start + every_) return std::nullopt;
    return start + (until - start) / every_ * every_;
  }
  // Not through years of minutes: the last hour first.
  for (Duration back : {Duration(1h), Duration(24h), Duration(days(31)), Duration(kHorizon)}) {
    Time from = std::max(after, until - back);
    std::optional<Time> found;
    for (auto at = next(from, zone); at && *at <= until; at = next(*at, zone)) found = at;
    if (found || from == after) return found;
  }
  return std::nullopt;
}

}  // namespace cadre
