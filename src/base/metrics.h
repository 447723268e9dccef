#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cadre {

using Labels = std::vector<std::pair<std::string, std::string>>;

// Numbers that a scrape shows. Each may be changed from any thread, without a lock. References to
// them stay valid as long as their registry, unless the series is removed.
class Counter {
 public:
  void add(double by = 1) { value_.fetch_add(by, std::memory_order_relaxed); }
  double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_{0};
};

class Gauge {
 public:
  void set(double value) { value_.store(value, std::memory_order_relaxed); }
  void add(double by) { value_.fetch_add(by, std::memory_order_relaxed); }
  double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_{0};
};

class Histogram {
 public:
  explicit Histogram(std::vector<double> bounds);
  void observe(double value);

 private:
  friend class Metrics;
  const std::vector<double> bounds_;
  std::unique_ptr<std::atomic<std::uint64_t>[]> counts_;  // one per bound, and one beyond the last
  std::atomic<double> sum_{0};
};

// A registry, printed in the text format that Prometheus reads. Thread-safe. Asking twice for the
// same name and labels gives the same series. A family holds at most kMaxSeries: beyond that all
// new labels share one series labelled overflow="true", so that hostile label values cannot fill
// the memory.
class Metrics {
 public:
  static constexpr std::size_t kMaxSeries = 2000;

  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  Counter& counter(std::string_view name, std::string_view help, Labels labels = {});
  Gauge& gauge(std::string_view name, std::string_view help, Labels labels = {});
  Histogram& histogram(std::string_view name, std::string_view help, std::vector<double> bounds,
                       Labels labels = {});
  // Drops one series, so that what is gone does not show for ever. References to it end here.
  void remove(std::string_view name, const Labels& labels);

  std::string text() const;

 private:
  struct Family;
  struct Series;
  template <class Make>
  Series& series(std::string_view name, std::string_view help, std::string_view type, Labels labels,
                 Make make);

  mutable std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Family>, std::less<>> families_;
};

}  // namespace cadre
