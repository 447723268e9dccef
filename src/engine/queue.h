#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>

#include "base/scheduler.h"
#include "engine/meter.h"
#include "engine/object.h"

namespace cadre::engine {

// What waits for its turn, each once. What is first seen goes behind what just changed, but by no
// more than a second, so that nothing starves. One thread.
class Queue {
 public:
  enum class Rank { Live, First };

  // `ready` is told when there is something to take. `meters`: where each kind is counted; those
  // that have none are not.
  using Meters = std::map<kube::Resource, Meter*>;
  Queue(Scheduler& scheduler, Function<void()> ready, Meters meters = {});

  // Its turn comes as soon as can be; what waits for a later time no longer does.
  void add(const Ref& ref, Rank rank = Rank::Live);
  // Not before that time has passed; the earliest of several counts.
  void addAfter(const Ref& ref, Duration delay);
  void forget(const Ref& ref);

  // The next one, which does not come again before it is done. Nothing when none is ready.
  std::optional<Ref> take();
  // It may be taken again, and is, when it was added meanwhile.
  void done(const Ref& ref);

  std::size_t depth() const { return order_.size(); }
  // Tells the meters how long what is at work has been so. Before they are read.
  void measure() const;

 private:
  struct Waits {
    Instant place;  // where it stands in the order
    Instant since;
  };
  struct Taken {
    Instant since;
    std::optional<Rank> again;  // it was added meanwhile
  };
  struct Later {
    Instant at;
    Pending timer;
  };
  void insert(const Ref& ref, Rank rank);
  Meter* meter(const Ref& ref) const;

  Scheduler& scheduler_;
  const Function<void()> ready_;
  const Meters meters_;
  std::set<std::pair<Instant, Ref>> order_;
  std::map<Ref, Waits> waiting_;
  std::map<Ref, Taken> taken_;
  std::map<Ref, Later> later_;
};

}  // namespace cadre::engine
