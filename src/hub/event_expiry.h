#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>

#include "base/scheduler.h"
#include "hub/kind.h"
#include "hub/objects.h"
#include "hub/registry.h"

namespace cadre::hub {

// Events go an hour after they were written last, or were there at the start: else they would be
// more and more.
class EventExpiry {
 public:
  EventExpiry(Scheduler& scheduler, const Kinds& kinds, Registry& registry)
      : scheduler_(scheduler), kinds_(kinds), registry_(registry) {}

  void told(const Change& change);

 private:
  using Name = std::pair<std::string, kube::ObjectKey>;  // resource and key

  void endAt(Instant instant, Name name);
  void wait();
  void look();

  Scheduler& scheduler_;
  const Kinds& kinds_;
  Registry& registry_;
  std::set<std::pair<Instant, Name>> due_;
  std::map<Name, Instant> ends_;  // the same, by name
  bool waits_ = false;
  Pending timer_;
};

}  // namespace cadre::hub
