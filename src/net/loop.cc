#include "net/loop.h"

#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <csignal>

#include "net/asio.h"

namespace cadre::net {

namespace {

// What is due at once needs no timer, and so no system call to set one.
Pending soon(Loop& loop, Function<void()> task) {
  auto held = std::make_shared<Function<void()>>(std::move(task));
  loop.post([held] {
    if (auto task = std::exchange(*held, nullptr)) task();
  });
  return Pending([held] { *held = nullptr; });
}

}  // namespace

Loop::Loop() : impl_(std::make_unique<Impl>()) { std::signal(SIGPIPE, SIG_IGN); }
Loop::~Loop() = default;

void Loop::post(Function<void()> task) { asio::post(impl_->context, std::move(task)); }

Pending Loop::after(Duration delay, Function<void()> task) {
  if (delay <= 0s) return soon(*this, std::move(task));
  // The timer and its task live together until one of both ends: the timer fires, or the Pending
  // goes.
  struct Timer {
    asio::steady_timer timer;
    Function<void()> task;
  };
  auto timer =
      std::make_shared<Timer>(Timer{asio::steady_timer(impl_->context, delay), std::move(task)});
  timer->timer.async_wait([weak = std::weak_ptr(timer)](ErrorCode error) {
    auto timer = weak.lock();
    if (error || !timer || !timer->task) return;
    auto task = std::exchange(timer->task, nullptr);
    timer.reset();
    task();
  });
  return Pending([timer] {
    timer->task = nullptr;
    timer->timer.cancel();
  });
}

const Clock& Loop::clock() const { return impl_->clock; }

void Loop::run() {
  auto work = asio::make_work_guard(impl_->context);
  impl_->context.restart();
  impl_->context.run();
}

Pending onSignals(Loop& loop, std::vector<int> signals, Function<void(int signal)> got) {
  struct Waiting {
    Waiting(Loop& loop, Function<void(int)> got) : set(loop.impl().context), got(std::move(got)) {}
    asio::signal_set set;
    Function<void(int)> got;
    static void wait(const std::shared_ptr<Waiting>& self) {
      self->set.async_wait([weak = std::weak_ptr(self)](ErrorCode error, int signal) {
        auto self = weak.lock();
        if (error || !self) return;
        wait(self);
        self->got(signal);
      });
    }
  };
  auto waiting = std::make_shared<Waiting>(loop, std::move(got));
  for (int signal : signals) waiting->set.add(signal);
  Waiting::wait(waiting);
  return Pending([waiting]() mutable { waiting.reset(); });
}

void Loop::stop() { impl_->context.stop(); }

bool Loop::runUntil(const Function<bool()>& done, Duration timeout) {
  auto work = asio::make_work_guard(impl_->context);
  Instant end = impl_->clock.instant() + timeout;
  impl_->context.restart();
  while (!done()) {
    if (impl_->clock.instant() >= end) return false;
    impl_->context.run_one_until(end);
  }
  return true;
}

}  // namespace cadre::net
