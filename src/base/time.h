#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace cadre {

using Duration = std::chrono::nanoseconds;
// A point on the wall clock: what timestamps in objects mean. It may jump.
using Time = std::chrono::time_point<std::chrono::system_clock, Duration>;
// A point on the monotonic clock: what timeouts and ages are measured with. It never goes back.
using Instant = std::chrono::time_point<std::chrono::steady_clock, Duration>;

using namespace std::chrono_literals;  // NOLINT: durations are written as 5s, 20ms everywhere

// Where time comes from. Passed in, never global: below apps/ nothing asks the system by itself.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual Time now() const = 0;
  virtual Instant instant() const = 0;
};

// The machine's own clocks. Stateless and thread-safe.
class SystemClock final : public Clock {
 public:
  Time now() const override;
  Instant instant() const override;
};

// A clock that stands still until a test moves it. Not thread-safe.
class FakeClock final : public Clock {
 public:
  // Starts at 2026-01-01T00:00:00Z: a date that a person recognises in a golden file.
  FakeClock();
  Time now() const override { return now_; }
  Instant instant() const override { return instant_; }

  void advance(Duration by);   // both clocks
  void jumpWall(Duration by);  // the wall clock alone, as after a correction or a suspend
 private:
  Time now_;
  Instant instant_{};
};

// RFC 3339 in UTC with seconds ("2026-01-01T00:00:00Z"), as Kubernetes writes metadata times.
std::string formatTime(Time time);
// The same with microseconds, as Kubernetes writes lease times and as logs want it.
std::string formatTimeMicros(Time time);
// Any RFC 3339 time, with a fraction and an offset if it has them; nothing if it is not one.
std::optional<Time> parseTime(std::string_view text);

// "1h2m3s", "250ms", "0s": as Go writes durations, without a fraction of the smallest unit below.
std::string formatDuration(Duration duration);
// What Go's time.ParseDuration takes ("1h30m", "1.5s", "-2ms"); nothing if it does not parse or
// does not fit.
std::optional<Duration> parseDuration(std::string_view text);

}  // namespace cadre
