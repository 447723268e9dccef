#include "base/scheduler.h"

#include <algorithm>

namespace cadre {

void FakeScheduler::post(Function<void()> task) { ready_.push_back(std::move(task)); }

Pending FakeScheduler::after(Duration delay, Function<void()> task) {
  std::pair key{clock_.instant() + std::max(delay, Duration(0)), next_id_++};
  timers_->emplace(key, std::move(task));
  return Pending([weak = std::weak_ptr(timers_), key] {
    if (auto timers = weak.lock()) timers->erase(key);
  });
}

void FakeScheduler::runReady() {
  for (;;) {
    while (!ready_.empty()) {
      auto tasks = std::exchange(ready_, {});
      for (auto& task : tasks) task();
    }
    if (timers_->empty() || timers_->begin()->first.first > clock_.instant()) return;
    auto timer = timers_->extract(timers_->begin());
    timer.mapped()();
  }
}

void FakeScheduler::advance(Duration by) {
  Instant end = clock_.instant() + by;
  runReady();
  while (!timers_->empty() && timers_->begin()->first.first <= end) runNext();
  clock_.advance(end - clock_.instant());
}

bool FakeScheduler::runNext() {
  runReady();
  if (timers_->empty()) return false;
  clock_.advance(timers_->begin()->first.first - clock_.instant());
  runReady();
  return true;
}

}  // namespace cadre
