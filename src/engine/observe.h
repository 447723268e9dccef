#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/backoff.h"
#include "base/scheduler.h"
#include "engine/world.h"
#include "kube/client.h"

namespace cadre::engine {

// How one class of slow facts is looked at.
struct ObservationClass {
  std::string name;
  Duration refresh = 10min;  // after a good look
  Duration timeout = 10s;    // of one look
  std::size_t limit = 8;     // looks at a time
  // Where a look goes to, and how many go there at a time; null: they have nowhere in common.
  Function<std::string(const json::Value& input)> host = nullptr;
  std::size_t per_host = 4;
  Backoff::Options backoff = {.first = 5s, .limit = 5min, .factor = 2, .jitter = 0.2};
  // Looks, on the loop and without blocking it. Dropping the Pending ends the look.
  Function<Pending(const json::Value& input, Function<void(Result<json::Value>)> done)> look;
};

// "list": the objects of a kind as the API server has them, not as a watch shows them a moment
// later; for what a stale view must not decide. By {group, version, plural, kind, namespace,
// labels}. Not for Secrets.
ObservationClass consistentList(kube::Client& client);

// The slow facts that plans have asked for. Each is looked at again and again as long as somebody
// reads it. One thread.
class Observer {
 public:
  // `changed` is told when a fact is other than before.
  Observer(Scheduler& scheduler, Random& random, std::vector<ObservationClass> classes,
           Function<void(const std::string& key)> changed);

  // What is known now. Asked for the first time, it begins to look.
  Fact ask(const Observation& observation);
  // Nobody reads it any more.
  void forget(const std::string& key);

 private:
  struct Look;
  bool hasRoom(const Look& look) const;
  void queue(const std::shared_ptr<Look>& look);
  void start(const std::shared_ptr<Look>& look);
  void finish(const std::shared_ptr<Look>& look, Result<json::Value> result);

  Scheduler& scheduler_;
  Random& random_;
  std::map<std::string, ObservationClass> classes_;
  Function<void(const std::string& key)> changed_;
  std::map<std::string, std::shared_ptr<Look>> looks_;
  std::map<std::string, std::size_t> running_;                       // per class
  std::map<std::pair<std::string, std::string>, std::size_t> at_;    // per class and host
  std::map<std::string, std::vector<std::weak_ptr<Look>>> waiting_;  // per class
};

}  // namespace cadre::engine
