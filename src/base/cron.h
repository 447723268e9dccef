#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "base/time.h"
#include "base/zone.h"

namespace cadre {

// When something is due, as CronJobs say it: "*/5 9-17 * * mon-fri", "@daily", "@every 90s".
//
// Five fields: minute, hour, day of the month, month, day of the week (0 is Sunday), each a list of
// numbers, names of months and days, ranges and steps. Where both days are restricted, one of them
// is enough. A local time that is left out when clocks go forward does not come that day; one that
// comes twice when they go back is due twice.
class Cron {
 public:
  static Result<Cron> parse(std::string_view text);

  // The first time after that one; nothing within the next five years ("0 0 30 2 *").
  std::optional<Time> next(Time after, const TimeZone& zone = {}) const;
  // The last time after the one and not after the other; nothing where none is due between them.
  std::optional<Time> last(Time after, Time until, const TimeZone& zone = {}) const;

 private:
  std::optional<std::chrono::seconds> nextLocal(std::chrono::seconds from,
                                                std::chrono::seconds until) const;
  bool fits(std::chrono::sys_days day) const;

  Duration every_ = 0s;  // else the fields, a bit for each number
  std::uint64_t minutes_ = 0, hours_ = 0, days_ = 0, months_ = 0, weekdays_ = 0;
  bool any_day_ = false, any_weekday_ = false;
};

}  // namespace cadre
