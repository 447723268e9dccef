#pragma once

#include <memory>
#include <vector>

#include "base/result.h"
#include "base/scheduler.h"

namespace cadre::net {

// The thread of sockets and timers: one Loop, one thread that runs it. Everything else in this
// module belongs to a Loop and is used on its thread only. Making one ignores SIGPIPE for the
// process: a closed peer is an error, not a death.
class Loop final : public Scheduler {
 public:
  Loop();
  ~Loop() override;
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  void post(Function<void()> task) override;
  Pending after(Duration delay, Function<void()> task) override;
  const Clock& clock() const override;

  // Runs until stop().
  void run();
  // Ends run() after the present task. Any thread may call it.
  void stop();
  // Runs until the condition holds (checked after each task) or the time is over; says whether it
  // holds. For tests and for commands that wait for one answer.
  bool runUntil(const Function<bool()>& done, Duration timeout);

  struct Impl;
  Impl& impl() { return *impl_; }  // for this module: net/asio.h

 private:
  std::unique_ptr<Impl> impl_;
};

// Calls back on the loop for each of these signals that the process gets, instead of what they do
// by themselves. Dropping it gives them back.
Pending onSignals(Loop& loop, std::vector<int> signals, Function<void(int signal)> got);

// Starts an operation that ends in a callback with a Result, and runs the loop until it does:
//   auto pod = await<json::Value>(loop, [&](auto done) { return client.get(..., std::move(done));
//   });
// For commands and tests; nothing that serves others may block like this.
template <class T, class Start>
Result<T> await(Loop& loop, Start start, Duration timeout = 10min) {
  std::optional<Result<T>> outcome;
  Pending pending = start([&](Result<T> result) { outcome.emplace(std::move(result)); });
  if (!loop.runUntil([&] { return outcome.has_value(); }, timeout))
    return Error{.code = Code::DeadlineExceeded,
                 .message = "no answer within " + formatDuration(timeout)};
  return std::move(*outcome);
}

}  // namespace cadre::net
