#include "hub/event_expiry.h"

#include <algorithm>

namespace cadre::hub {
namespace {

constexpr Duration kLife = 1h;
constexpr Duration kPause = 10s;  // many go at once

}  // namespace

void EventExpiry::told(const Change& change) {
  if (!change.after || (change.resource != "events" && change.resource != "events.k8s.io/events"))
    return;
  due_.push_back({scheduler_.clock().instant() + kLife, change.resource, change.after->key,
                  change.after->revision});
  if (due_.size() == 1) wait();
}

void EventExpiry::wait() {
  timer_ = {};
  if (due_.empty()) return;
  timer_ =
      scheduler_.after(std::max<Duration>(due_.front().at - scheduler_.clock().instant(), kPause),
                       [this] { look(); });
}

void EventExpiry::look() {
  while (!due_.empty() && due_.front().at <= scheduler_.clock().instant()) {
    Due one = std::move(due_.front());
    due_.pop_front();
    State there = objects_.find(one.resource, one.key);
    if (there && there->revision == one.revision)
      (void)static_cast<bool>(registry_.remove(kinds_.stored(one.resource), one.key, {}));
  }
  wait();
}

}  // namespace cadre::hub
