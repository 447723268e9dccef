#pragma once

#include <string>

#include "base/log.h"
#include "base/metrics.h"
#include "kube/client.h"

namespace cadre::engine {

struct ElectionOptions {
  kube::ObjectKey lease;
  std::string identity;     // no other process has it
  Duration duration = 15s;  // a lease that is not renewed for so long may be taken
  Duration deadline = 10s;  // one that we cannot renew for so long is lost
  Duration retry = 2s;
  Logger* logger = nullptr;
  Metrics* metrics = nullptr;
};

// One of several programs leads: the one that holds the Lease. How old it is, is measured by when
// we saw it change, never by the times in it: clocks differ. Belongs to the client's thread.
class Election {
 public:
  // `changed` is told true when we lead, and false when we no longer may. After that it does not
  // try again: a program that has lost its lease ends.
  Election(kube::Client& client, Random& random, ElectionOptions options,
           Function<void(bool leads)> changed);

  // We lead, and the lease has been renewed lately: a process that was stopped for a while knows
  // from this that it no longer leads, before any timer runs. To be asked before every write.
  bool holds() const;
  // Gives the lease up, so that another need not wait for it. Only when nothing is written any
  // more. Calls back when that is done, or cannot be done.
  void release(Function<void()> done);
  // What a health check says: the lease is lost, or should have been renewed long ago. Empty when
  // all is well, also while another one leads.
  std::string trouble() const;

 private:
  void tryLater(Duration delay);
  void attempt();
  void look();
  void looked(Result<json::Value> got);
  void write(json::Value lease, bool is_new);
  void wrote(Result<json::Value> result);
  void lose(std::string why);
  void giveUp(int tries);
  void show();
  json::Value record(json::Value lease, bool new_holder) const;

  kube::Client& client_;
  Random& random_;
  const ElectionOptions options_;
  Logger& logger_;
  const Function<void(bool)> changed_;
  Pending pending_, timer_, deadline_;
  json::Value lease_;    // as we last saw it
  Instant observed_at_;  // when it changed
  Instant renewed_at_;   // when we last began a renewal that went well
  Instant began_at_;
  Function<void()> released_;
  bool leads_ = false;
  bool lost_ = false;
  bool slow_ = false;  // the next attempt looks first
};

}  // namespace cadre::engine
