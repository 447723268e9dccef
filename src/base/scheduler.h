#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/function.h"
#include "base/time.h"

namespace cadre {

// Something under way: a timer, a request, a watch. Dropping it cancels it, and after that none of
// its callbacks runs. It may be dropped inside its own callback. It outlives its end harmlessly.
// Belongs to the thread of the scheduler that it was made on.
class [[nodiscard]] Pending {
 public:
  Pending() = default;
  explicit Pending(Function<void()> cancel) : cancel_(std::move(cancel)) {}
  ~Pending() { reset(); }
  Pending(Pending&& other) noexcept : cancel_(std::exchange(other.cancel_, nullptr)) {}
  Pending& operator=(Pending&& other) noexcept {
    if (this != &other) {
      reset();
      cancel_ = std::exchange(other.cancel_, nullptr);
    }
    return *this;
  }

  // Cancels now.
  void reset() {
    if (auto cancel = std::exchange(cancel_, nullptr)) cancel();
  }

 private:
  Function<void()> cancel_;
};

// A thread's queue of things to do, now and later. Time comes from its clock.
class Scheduler {
 public:
  virtual ~Scheduler() = default;
  // Runs the task on the scheduler's thread, after what is queued already. The only member that any
  // thread may call.
  virtual void post(Function<void()> task) = 0;
  // Runs the task once that time has passed. On the scheduler's thread only.
  virtual Pending after(Duration delay, Function<void()> task) = 0;
  virtual const Clock& clock() const = 0;
};

// A scheduler whose time is virtual: tests say when it passes, and a minute takes no time. One
// thread only.
class FakeScheduler final : public Scheduler {
 public:
  void post(Function<void()> task) override;
  Pending after(Duration delay, Function<void()> task) override;
  const Clock& clock() const override { return clock_; }

  // Runs what is due now, and what that makes due now, until nothing is left.
  void runReady();
  // Lets time pass in order: each task runs at its own time.
  void advance(Duration by);
  // Time passes and nothing runs, as in a process that is stopped for a while.
  void stall(Duration by) { clock_.advance(by); }
  // The wall clock alone is set, as by a correction.
  void jumpWall(Duration by) { clock_.jumpWall(by); }
  // Goes to the next timer and runs it; false when there is none.
  bool runNext();
  std::size_t timers() const { return timers_->size(); }

 private:
  using Timers = std::map<std::pair<Instant, std::uint64_t>, Function<void()>>;
  FakeClock clock_;
  std::vector<Function<void()>> ready_;
  std::shared_ptr<Timers> timers_ = std::make_shared<Timers>();
  std::uint64_t next_id_ = 0;
};

}  // namespace cadre
