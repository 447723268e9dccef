#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "base/metrics.h"
#include "base/time.h"

namespace cadre::engine {

// The numbers of one kind with plans, under the names that dashboards of Kubernetes operators know.
// All series are there from the start. Any thread.
class Meter {
 public:
  enum class Outcome {
    Success,
    Error,         // a write failed, and is tried again
    Requeue,       // something was not known yet
    RequeueAfter,  // it wants to run again at a time
  };

  // `controller`: the kind in lower case. `limit`: how many writes may be under way.
  Meter(Metrics& metrics, const std::string& controller, std::size_t limit);

  void added() { adds_.add(), depth_.add(1); }
  void forgotten() { depth_.add(-1); }
  void taken(Duration waited);
  void worked(Duration time);  // from its turn until its last write was answered
  void reconciled(Outcome outcome);
  void retried() { retries_.add(); }
  // What is at work now: all of it together, and what is at it for the longest.
  void working(Duration together, Duration longest);

 private:
  Gauge &depth_, &active_, &unfinished_, &longest_;
  Counter &adds_, &retries_, &errors_;
  Histogram &waited_, &worked_, &reconcile_time_;
  std::array<Counter*, 4> outcomes_;
};

}  // namespace cadre::engine
