#include "engine/observe.h"

#include "base/format.h"

namespace cadre::engine {

struct Observer::Look {
  Observation observation;
  const ObservationClass* how;
  Backoff backoff;
  std::string host;
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
    look = std::make_shared<Look>(observation, &how->second, Backoff(how->second.backoff, random_),
                                  how->second.host ? how->second.host(observation.input) : "");
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

bool Observer::hasRoom(const Look& look) const {
  auto in = [](const auto& counts, const auto& key) {
    auto found = counts.find(key);
    return found == counts.end() ? 0 : found->second;
  };
  return in(running_, look.how->name) < look.how->limit &&
         (look.host.empty() || in(at_, std::pair(look.how->name, look.host)) < look.how->per_host);
}

// One too many waits for another to end.
void Observer::queue(const std::shared_ptr<Look>& look) {
  if (!hasRoom(*look)) {
    waiting_[look->how->name].push_back(look);
    return;
  }
  ++running_[look->how->name];
  if (!look->host.empty()) ++at_[{look->how->name, look->host}];
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
  if (!look->host.empty()) {
    auto at = at_.find({name, look->host});
    if (--at->second == 0) at_.erase(at);
  }
  auto& waiting = waiting_[name];
  for (auto at = waiting.begin(); at != waiting.end();) {
    auto next = at->lock();
    if (next && !hasRoom(*next)) {
      ++at;
    } else {
      at = waiting.erase(at);
      if (next) queue(next);
    }
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

ObservationClass consistentList(kube::Client& client) {
  return {.name = "list",
          .refresh = 1min,
          .timeout = 30s,
          .limit = 4,
          .look = [&client](const json::Value& input,
                            Function<void(Result<json::Value>)> done) -> Pending {
            kube::Resource resource{input["group"].string(), input["version"].string(),
                                    input["plural"].string(), input["kind"].string()};
            resource.namespaced = !input["namespace"].isNull();
            if (resource.group.empty() && resource.plural == "secrets") {
              done(Error{.code = Code::InvalidArgument, .message = "Secrets are not listed"});
              return {};
            }
            return client.list(
                resource,
                {.select = {.ns = input["namespace"].string(), .labels = input["labels"].string()}},
                [done = std::move(done)](Result<std::vector<json::Value>> listed) {
                  if (!listed) return done(listed.error());
                  done(json::Value(json::Array(listed->begin(), listed->end())));
                });
          }};
}

}  // namespace cadre::engine
