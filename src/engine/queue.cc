#include "engine/queue.h"

namespace cadre::engine {

constexpr Duration kFirstWaits = 1s;

Queue::Queue(Scheduler& scheduler, Function<void()> ready, Meters meters)
    : scheduler_(scheduler), ready_(std::move(ready)), meters_(std::move(meters)) {}

Meter* Queue::meter(const Ref& ref) const {
  auto found = meters_.find(ref.resource);
  return found == meters_.end() ? nullptr : found->second;
}

void Queue::add(const Ref& ref, Rank rank) {
  later_.erase(ref);
  if (auto taken = taken_.find(ref); taken != taken_.end()) {
    if (taken->second.again != Rank::Live) taken->second.again = rank;
    return;
  }
  insert(ref, rank);
}

void Queue::insert(const Ref& ref, Rank rank) {
  Instant now = scheduler_.clock().instant();
  Instant place = now + (rank == Rank::First ? kFirstWaits : 0s);
  if (auto [waits, is_new] = waiting_.try_emplace(ref, Waits{place, now}); !is_new) {
    if (waits->second.place <= place) return;
    order_.erase({waits->second.place, ref});
    waits->second.place = place;
  } else if (Meter* counts = meter(ref)) {
    counts->added();
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
    order_.erase({waits->second.place, ref});
    waiting_.erase(waits);
    if (Meter* counts = meter(ref)) counts->forgotten();
  }
  if (auto taken = taken_.find(ref); taken != taken_.end()) taken->second.again.reset();
}

std::optional<Ref> Queue::take() {
  if (order_.empty()) return std::nullopt;
  Ref ref = order_.begin()->second;
  order_.erase(order_.begin());
  Instant now = scheduler_.clock().instant();
  auto waits = waiting_.find(ref);
  if (Meter* counts = meter(ref)) counts->taken(now - waits->second.since);
  waiting_.erase(waits);
  taken_.emplace(ref, Taken{.since = now, .again = {}});
  return ref;
}

void Queue::done(const Ref& ref) {
  auto taken = taken_.find(ref);
  if (taken == taken_.end()) return;
  if (Meter* counts = meter(ref))
    counts->worked(scheduler_.clock().instant() - taken->second.since);
  std::optional<Rank> again = taken->second.again;
  taken_.erase(taken);
  if (again) insert(ref, *again);
}

void Queue::measure() const {
  struct Times {
    Duration together{0}, longest{0};
  };
  std::map<Meter*, Times> times;
  for (const auto& [resource, counts] : meters_) times[counts];
  for (const auto& [ref, taken] : taken_) {
    Duration age = scheduler_.clock().instant() - taken.since;
    Times& sum = times[meter(ref)];
    sum.together += age;
    sum.longest = std::max(sum.longest, age);
  }
  for (const auto& [counts, sum] : times)
    if (counts) counts->working(sum.together, sum.longest);
}

}  // namespace cadre::engine
