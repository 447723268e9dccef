#include "engine/queue.h"

namespace cadre::engine {

constexpr Duration kFirstWaits = 1s;

Queue::Queue(Scheduler& scheduler, Function<void()> ready)
    : scheduler_(scheduler), ready_(std::move(ready)) {}

void Queue::add(const Ref& ref, Rank rank) {
  later_.erase(ref);
  if (auto taken = taken_.find(ref); taken != taken_.end()) {
    if (taken->second != Rank::Live) taken->second = rank;
    return;
  }
  insert(ref, rank);
}

void Queue::insert(const Ref& ref, Rank rank) {
  Instant place = scheduler_.clock().instant() + (rank == Rank::First ? kFirstWaits : 0s);
  if (auto [waits, is_new] = waiting_.try_emplace(ref, place); !is_new) {
    if (waits->second <= place) return;
    order_.erase({waits->second, ref});
    waits->second = place;
  }
  order_.emplace(place, ref);
  ready_();
}

void Queue::addAfter(const Ref& ref, Duration delay) {
  if (delay <= 0s) return add(ref);
  if (waiting_.contains(ref)) return;
  Instant at = scheduler_.clock().instant() + delay;
  auto [later, is_new] = later_.try_emplace(ref, Later{at, {}});
  if (!is_new && later->second.at <= at) return;
  later->second.at = at;
  later->second.timer = scheduler_.after(delay, [this, ref] { add(ref); });
}

void Queue::forget(const Ref& ref) {
  later_.erase(ref);
  if (auto waits = waiting_.find(ref); waits != waiting_.end()) {
    order_.erase({waits->second, ref});
    waiting_.erase(waits);
  }
  if (auto taken = taken_.find(ref); taken != taken_.end()) taken->second.reset();
}

std::optional<Ref> Queue::take() {
  if (order_.empty()) return std::nullopt;
  Ref ref = order_.begin()->second;
  order_.erase(order_.begin());
  waiting_.erase(ref);
  taken_.emplace(ref, std::nullopt);
  return ref;
}

void Queue::done(const Ref& ref) {
  auto taken = taken_.find(ref);
  if (taken == taken_.end()) return;
  std::optional<Rank> again = taken->second;
  taken_.erase(taken);
  if (again) insert(ref, *again);
}

}  // namespace cadre::engine
