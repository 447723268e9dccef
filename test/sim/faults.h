#pragma once

#include <memory>

#include "base/random.h"
#include "base/scheduler.h"
#include "net/http.h"

namespace cadre::sim {

// How likely things go wrong on the way to a server, each between 0 and 1.
struct Faults {
  double lost_request = 0;  // it never arrives
  double lost_answer = 0;   // it arrives, and nobody hears what became of it
  double refused = 0;       // 429, 500 or 503
  double conflict = 0;      // a write meets 409, although nobody else wrote
  double cut_watch = 0;     // of each watch: it ends in the middle, after a while
  double gone_watch = 0;    // of each watch: it ends with 410
  double held_watch = 0;    // of each event: it and those behind it are heard seconds later
  Duration delay = 20ms;    // of everything, at most

  // All of them, by chance.
  static Faults draw(Random& random);
};

// Whoever asks through it meets faults, for as long as there are any: `faults` may change at any
// time. Counts the writes that arrived.
class FaultyTransport final : public net::HttpClient {
 public:
  FaultyTransport(Scheduler& scheduler, Random& random, const Faults& faults,
                  std::unique_ptr<net::HttpClient> inner, std::uint64_t& writes);
  Pending send(net::HttpRequest request, net::ResponseHandler handler) override;

 private:
  struct Exchange;

  Scheduler& scheduler_;
  Random& random_;
  const Faults& faults_;
  std::unique_ptr<net::HttpClient> inner_;
  std::uint64_t& writes_;
};

}  // namespace cadre::sim
