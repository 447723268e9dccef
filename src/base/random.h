#pragma once

#include <cstdint>
#include <random>
#include <string>

#include "base/time.h"

namespace cadre {

// Chance, passed in like time: the same seed gives the same run. Not for secrets. Not thread-safe.
class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  // Seeded by the system, for programs; tests give a seed.
  static Random fromSystem() {
    std::random_device device;
    return Random((std::uint64_t{device()} << 32) | device());
  }

  std::uint64_t next() { return engine_(); }
  // In [0, bound); bound must not be 0.
  std::uint64_t below(std::uint64_t bound) { return engine_() % bound; }
  // In [0, 1).
  double fraction() { return static_cast<double>(engine_() >> 11) * 0x1.0p-53; }
  // The duration, stretched by a random share of up to `factor` of itself: spreads retries out.
  Duration jitter(Duration base, double factor) {
    return base + Duration(static_cast<std::int64_t>(static_cast<double>(base.count()) * factor *
                                                     fraction()));
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace cadre
