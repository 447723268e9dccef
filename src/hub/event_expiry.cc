#include "hub/event_expiry.h"

#include <algorithm>

namespace cadre::hub {
namespace {

constexpr Duration kLife = 1h;
constexpr Duration kPause = 10s;  // many go at once
constexpr Duration kAgain = 1min;

}  // namespace

void EventExpiry::told(const Change& change) {
  if (change.resource != "events" && change.resource != "events.k8s.io/events") return;
  Name name{change.resource, (change.after ? change.after : change.before)->key};
  if (auto last = ends_.find(name); last != ends_.end()) {
    due_.erase({last->second, name});
    ends_.erase(last);
  }
  if (change.after) endAt(scheduler_.clock().instant() + kLife, std::move(name));
}

void EventExpiry::endAt(Instant instant, Name name) {
  due_.insert({instant, name});
  ends_[std::move(name)] = instant;
  if (!waits_) wait();
}

void EventExpiry::wait() {
  waits_ = !due_.empty();
  if (!waits_) return;
  timer_ = scheduler_.after(
      std::max<Duration>(due_.begin()->first - scheduler_.clock().instant(), kPause),
      [this] { look(); });
}

void EventExpiry::look() {
  Instant now = scheduler_.clock().instant();
  while (!due_.empty() && due_.begin()->first <= now) {
    Name name = due_.begin()->second;
    due_.erase(due_.begin());
    (void)static_cast<bool>(registry_.remove(kinds_.stored(name.first), name.second, {}));
    // Until it is told that it is gone: a full disk keeps nothing.
    endAt(now + kAgain, std::move(name));
  }
  wait();
}

}  // namespace cadre::hub
