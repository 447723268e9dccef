#pragma once

#include <algorithm>

#include "base/random.h"

namespace cadre {

// Waits that grow by a factor up to a limit, with jitter so that many clients do not come back at
// once.
class Backoff {
 public:
  struct Options {
    Duration first = 800ms;
    Duration limit = 30s;
    double factor = 2;
    double jitter = 1;  // up to this share is added
  };

  Backoff(Options options, Random& random) : options_(options), random_(random) {}

  Duration next() {
    Duration base = next_.count() ? next_ : options_.first;
    next_ = std::min(
        options_.limit,
        Duration(static_cast<Duration::rep>(static_cast<double>(base.count()) * options_.factor)));
    return random_.jitter(base, options_.jitter);
  }
  void reset() { next_ = Duration(0); }

 private:
  Options options_;
  Random& random_;
  Duration next_{0};
};

}  // namespace cadre
