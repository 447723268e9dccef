#include "engine/observe.h"

#include "base/format.h"

namespace cadre::engine {

struct Observer::Look {
  Observation observation;
  const ObservationClass* how;
  Backoff backoff;
  Fact fact = {};
  Pending pending = {}, timer = {};
  bool running = false;
};

Observer::Observer(Scheduler& scheduler, Random& random, std::vector<ObservationClass> classes,
                   Function<void(const std::string& key)> changed)
    : scheduler_(scheduler), random_(random), changed_(std::move(changed)) {
  for (ObservationClass& one : classes) classes_.emplace(one.name, std::move(one));
}

Fact Observer::ask(const Observation& observation) {
  auto how = classes_.find(observation.what);
  if (how == classes_.end()) return {.error = format("nobody can look at {}", observation.what)};
  std::shared_ptr<Look>& look = looks_[observation.key()];
  if (!look) {
    look = std::make_shared<Look>(observation, &how->second, Backoff(how->second.backoff, random_));
    queue(look);
  }
  return look->fact;
}

void Observer::forget(const std::string& key) {
  auto found = looks_.find(key);
  if (found == looks_.end()) return;
  std::shared_ptr<Look> look = found->second;
  looks_.erase(found);
  if (look->running) finish(look, Error{.code = Code::Cancelled, .message = "nobody asks"});
}

// One at a time beyond the limit of its class waits for another to end.
void Observer::queue(const std::shared_ptr<Look>& look) {
  if (running_[look->how->name] >= look->how->limit) {
    waiting_[look->how->name].push_back(look);
    return;
  }
  ++running_[look->how->name];
  look->running = true;
  look->timer = scheduler_.after(0s, [this, weak = std::weak_ptr(look)] {
    if (auto look = weak.lock()) start(look);
  });
}

void Observer::start(const std::shared_ptr<Look>& look) {
  auto weak = std::weak_ptr(look);
  look->timer = scheduler_.after(look->how->timeout, [this, weak] {
    if (auto look = weak.lock())
      finish(look, Error{.code = Code::DeadlineExceeded,
                         .message = "no answer within " + formatDuration(look->how->timeout)});
  });
  look->pending =
      look->how->look(look->observation.input, [this, weak](Result<json::Value> result) {
        if (auto look = weak.lock()) finish(look, std::move(result));
      });
}

void Observer::finish(const std::shared_ptr<Look>& look, Result<json::Value> result) {
  if (!look->running) return;
  look->running = false;
  look->pending.reset();
  look->timer.reset();
  const std::string& name = look->how->name;
  --running_[name];
  auto& waiting = waiting_[name];
  while (!waiting.empty() && running_[name] < look->how->limit) {
    auto next = waiting.front().lock();
    waiting.erase(waiting.begin());
    if (next) queue(next);
  }
  std::string key = look->observation.key();
  if (auto held = looks_.find(key); held == looks_.end() || held->second != look) return;

  Fact before = look->fact;
  Time now = scheduler_.clock().now();
  Duration again = look->how->refresh;
  if (result) {
    look->backoff.reset();
    bool same = before.known && before.value == *result;
    look->fact = {.known = true, .value = *std::move(result), .since = same ? before.since : now};
  } else {
    again = look->backoff.next();
    look->fact.error = result.error().text();
    if (before.error.empty() && !before.known) look->fact.since = now;
  }
  look->timer = scheduler_.after(again, [this, weak = std::weak_ptr(look)] {
    if (auto look = weak.lock()) queue(look);
  });
  if (before.known != look->fact.known || before.value != look->fact.value ||
      before.error != look->fact.error)
    changed_(key);
}

}  // namespace cadre::engine
