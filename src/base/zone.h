#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace cadre {

// A time zone, as a file of the system's database describes it (RFC 8536), for all times: those
// after the file's last entry follow its rule. Immutable and thread-safe; a value.
class TimeZone {
 public:
  TimeZone() = default;  // UTC
  // "Europe/Berlin" or "UTC", from the database in that folder. No name leads out of it.
  static Result<TimeZone> load(std::string_view name, const std::string& folder = kDatabase);
  // From what such a file holds.
  static Result<TimeZone> parse(std::string_view bytes);

  // What is added to UTC for the local time, at that time.
  std::chrono::seconds offsetAt(Time time) const;
  // When it next changes, or may: local time goes on evenly until then. Nothing: for ever.
  std::optional<Time> changesAfter(Time time) const;

 private:
  static constexpr const char* kDatabase = "/usr/share/zoneinfo";

  // A day of a year, and a time on it.
  struct Day {
    enum class How { MonthWeek, Julian, Zero } how = How::Zero;  // M3.5.0, J60, 59
    int month = 1, week = 1, day = 0;
    std::int64_t seconds = 2 * 3600;
  };
  // What holds after the last change in the file: "CET-1CEST,M3.5.0,M10.5.0/3".
  struct Rule {
    std::int64_t standard = 0, summer = 0;  // seconds
    bool has_summer = false;
    Day begin, end;  // of the summer
  };
  struct Change {
    std::int64_t at, offset;  // seconds
  };
  class RuleParser;

  static std::int64_t secondsOf(const Day& day, int year);
  std::vector<Change> byRule(int year) const;

  std::int64_t first_ = 0;  // the offset before the first change
  std::vector<Change> changes_;
  std::optional<Rule> rule_;
};

// RFC 3339 as the clocks there show it: "2026-01-01T05:45:00+05:45".
std::string formatTime(Time time, const TimeZone& zone);

}  // namespace cadre
