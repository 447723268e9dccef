#pragma once

#include <deque>
#include <string>

#include "base/scheduler.h"
#include "hub/kind.h"
#include "hub/objects.h"
#include "hub/registry.h"

namespace cadre::hub {

// Events go an hour after they were written last: else they would be more and more.
class EventExpiry {
 public:
  EventExpiry(Scheduler& scheduler, const Objects& objects, const Kinds& kinds, Registry& registry)
      : scheduler_(scheduler), objects_(objects), kinds_(kinds), registry_(registry) {}

  void told(const Change& change);

 private:
  struct Due {
    Instant at;
    std::string resource;
    kube::ObjectKey key;
    std::int64_t revision = 0;  // of the last write
  };
  void wait();
  void look();

  Scheduler& scheduler_;
  const Objects& objects_;
  const Kinds& kinds_;
  Registry& registry_;
  std::deque<Due> due_;
  Pending timer_;
};

}  // namespace cadre::hub
