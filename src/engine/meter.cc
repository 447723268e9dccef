#include "engine/meter.h"

namespace cadre::engine {
namespace {

double seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

// As controller-runtime and client-go have them: rules and dashboards may name a bucket.
const std::vector<double> kReconcileBuckets{
    0.005, 0.01, 0.025, 0.05, 0.1,  0.15, 0.2,  0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6,
    0.7,   0.8,  0.9,   1,    1.25, 1.5,  1.75, 2,    2.5, 3,    3.5, 4,    4.5, 5,
    6,     7,    8,     9,    10,   15,   20,   25,   30,  40,   50,  60};
const std::vector<double> kQueueBuckets{1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3,
                                        0.01, 0.1,  1,    10,   100,  1000};

Labels controller(const std::string& name) { return {{"controller", name}}; }
Labels queue(const std::string& name) { return {{"name", name}}; }

}  // namespace

Meter::Meter(Metrics& metrics, const std::string& name, std::size_t limit)
    : depth_(metrics.gauge("workqueue_depth", "What waits for its turn.", queue(name))),
      active_(metrics.gauge("controller_runtime_active_workers", "What is at work now.",
                            controller(name))),
      unfinished_(metrics.gauge("workqueue_unfinished_work_seconds",
                                "How long all that is at work has been so, together.",
                                queue(name))),
      longest_(metrics.gauge("workqueue_longest_running_processor_seconds",
                             "How long what is at work for the longest has been so.", queue(name))),
      adds_(metrics.counter("workqueue_adds_total", "How often something came to wait.",
                            queue(name))),
      retries_(metrics.counter("workqueue_retries_total", "How often a write was tried again.",
                               queue(name))),
      errors_(metrics.counter("controller_runtime_reconcile_errors_total",
                              "Runs in which a write failed.", controller(name))),
      waited_(metrics.histogram("workqueue_queue_duration_seconds", "How long a turn took to come.",
                                kQueueBuckets, queue(name))),
      worked_(metrics.histogram("workqueue_work_duration_seconds",
                                "From a turn until its last write was answered.", kQueueBuckets,
                                queue(name))),
      reconcile_time_(metrics.histogram("controller_runtime_reconcile_time_seconds",
                                        "From a turn until its last write was answered.",
                                        kReconcileBuckets, controller(name))) {
  const char* results[] = {"success", "error", "requeue", "requeue_after"};
  for (std::size_t i = 0; i < outcomes_.size(); ++i)
    outcomes_[i] = &metrics.counter("controller_runtime_reconcile_total", "Runs, by their result.",
                                    {{"controller", name}, {"result", results[i]}});
  metrics
      .gauge("controller_runtime_max_concurrent_reconciles", "How many writes may be under way.",
             controller(name))
      .set(static_cast<double>(limit));
}

void Meter::taken(Duration waited) {
  depth_.add(-1);
  active_.add(1);
  waited_.observe(seconds(waited));
}

void Meter::worked(Duration time) {
  active_.add(-1);
  worked_.observe(seconds(time));
  reconcile_time_.observe(seconds(time));
}

void Meter::reconciled(Outcome outcome) {
  outcomes_[static_cast<std::size_t>(outcome)]->add();
  if (outcome == Outcome::Error) errors_.add();
}

void Meter::working(Duration together, Duration longest) {
  unfinished_.set(seconds(together));
  longest_.set(seconds(longest));
}

}  // namespace cadre::engine
