#include "base/metrics.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>

namespace cadre {

namespace {

std::string labelText(const Labels& labels) {
  std::string out;
  for (const auto& [name, value] : labels) {
    if (!out.empty()) out += ',';
    out += name;
    out += "=\"";
    for (char c : value) {
      if (c == '\\' || c == '"') out += '\\';
      if (c == '\n')
        out += "\\n";
      else
        out += c;
    }
    out += '"';
  }
  return out;
}

std::string braces(const std::string& labels, std::string_view extra = {}) {
  if (labels.empty() && extra.empty()) return {};
  return fmt::format("{{{}{}{}}}", labels, labels.empty() || extra.empty() ? "" : ",", extra);
}

std::string number(double value) {
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

}  // namespace

Histogram::Histogram(std::vector<double> bounds)
    : bounds_(std::move(bounds)),
      counts_(std::make_unique<std::atomic<std::uint64_t>[]>(bounds_.size() + 1)) {}

void Histogram::observe(double value) {
  auto bucket = static_cast<std::size_t>(std::lower_bound(bounds_.begin(), bounds_.end(), value) -
                                         bounds_.begin());
  counts_[bucket].fetch_add(1, std::memory_order_relaxed);
  sum_.fetch_add(value, std::memory_order_relaxed);
}

struct Metrics::Series {
  std::unique_ptr<Counter> counter;
  std::unique_ptr<Gauge> gauge;
  std::unique_ptr<Histogram> histogram;
};

struct Metrics::Family {
  std::string help;
  std::string type;
  std::map<std::string, Series> series;  // by label text
};

Metrics::Metrics() = default;
Metrics::~Metrics() = default;

template <class Make>
Metrics::Series& Metrics::series(std::string_view name, std::string_view help,
                                 std::string_view type, Labels labels, Make make) {
  std::lock_guard lock(mutex_);
  auto& family = families_[std::string(name)];
  if (!family) family.reset(new Family{std::string(help), std::string(type), {}});
  if (family->type != type) {
    std::fprintf(stderr, "cadre: metric %s is a %s and cannot be a %s\n", std::string(name).c_str(),
                 family->type.c_str(), std::string(type).c_str());
    std::abort();
  }
  std::string key = labelText(labels);
  auto found = family->series.find(key);
  if (found == family->series.end() && family->series.size() >= kMaxSeries) {
    key = labelText({{"overflow", "true"}});
    found = family->series.find(key);
  }
  if (found == family->series.end()) {
    found = family->series.emplace(key, Series{}).first;
    make(found->second);
  }
  return found->second;
}

Counter& Metrics::counter(std::string_view name, std::string_view help, Labels labels) {
  return *series(name, help, "counter", std::move(labels), [](Series& made) {
            made.counter = std::make_unique<Counter>();
          }).counter;
}

Gauge& Metrics::gauge(std::string_view name, std::string_view help, Labels labels) {
  return *series(name, help, "gauge", std::move(labels), [](Series& made) {
            made.gauge = std::make_unique<Gauge>();
          }).gauge;
}

Histogram& Metrics::histogram(std::string_view name, std::string_view help,
                              std::vector<double> bounds, Labels labels) {
  return *series(name, help, "histogram", std::move(labels), [&](Series& made) {
            made.histogram = std::make_unique<Histogram>(std::move(bounds));
          }).histogram;
}

void Metrics::remove(std::string_view name, const Labels& labels) {
  std::lock_guard lock(mutex_);
  auto family = families_.find(name);
  if (family != families_.end()) family->second->series.erase(labelText(labels));
}

std::string Metrics::text() const {
  std::lock_guard lock(mutex_);
  std::string out;
  auto line = [&out](std::string_view name, const std::string& labels, const std::string& value) {
    fmt::format_to(std::back_inserter(out), "{}{} {}\n", name, labels, value);
  };
  for (const auto& [name, family] : families_) {
    fmt::format_to(std::back_inserter(out), "# HELP {} {}\n# TYPE {} {}\n", name, family->help,
                   name, family->type);
    for (const auto& [labels, series] : family->series) {
      if (series.counter) line(name, braces(labels), number(series.counter->value()));
      if (series.gauge) line(name, braces(labels), number(series.gauge->value()));
      if (!series.histogram) continue;
      const Histogram& histogram = *series.histogram;
      std::uint64_t total = 0;
      for (std::size_t i = 0; i <= histogram.bounds_.size(); ++i) {
        total += histogram.counts_[i].load(std::memory_order_relaxed);
        std::string bound = i < histogram.bounds_.size() ? number(histogram.bounds_[i]) : "+Inf";
        line(name + "_bucket", braces(labels, fmt::format("le=\"{}\"", bound)),
             std::to_string(total));
      }
      line(name + "_sum", braces(labels), number(histogram.sum_.load(std::memory_order_relaxed)));
      line(name + "_count", braces(labels), std::to_string(total));
    }
  }
  return out;
}

}  // namespace cadre
