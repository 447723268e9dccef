#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

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

// Lists of a collection show it as it was, and watches of it tell nothing new until a time.
struct Stale {
  std::string plural;
  std::int64_t revision = 0;
  Instant until;
};

// What everybody's requests go through. All of it may change at any time.
struct Network {
  Scheduler& scheduler;
  Random& random;
  Faults faults = {};
  std::optional<Stale> stale = {};
  std::vector<std::shared_ptr<void>> strays = {};  // under way, and nobody waits for the answer
};

// The scheduler of one process, which can be stopped for a while: then time passes, and what
// becomes due runs when it goes on. Timers and answers that are late then come in any order.
class Process final : public Scheduler {
 public:
  explicit Process(Scheduler& world) : world_(world) {}
  void post(Function<void()> task) override;
  Pending after(Duration delay, Function<void()> task) override;
  const Clock& clock() const override { return world_.clock(); }

  bool stopped() const { return state_->stopped; }
  void stop() { state_->stopped = true; }
  void goOn(Random& random);

 private:
  struct Timer {
    Function<void()> task;
    Pending pending = {};
  };
  struct State {
    bool stopped = false;
    std::vector<Function<void()>> posted;
    std::vector<std::shared_ptr<Timer>> late;
  };

  void arm(const std::shared_ptr<Timer>& timer, Duration delay);

  Scheduler& world_;
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

// A process's way to a server. A write that it has sent arrives, even if it is stopped, gives it up
// or ends meanwhile; what it hears, it hears in its own time. `arrives` is told of each request
// that reaches the server.
class FaultyTransport final : public net::HttpClient {
 public:
  FaultyTransport(Network& network, Process& process, std::unique_ptr<net::HttpClient> inner,
                  Function<void(const net::HttpRequest& request)> arrives)
      : network_(network),
        process_(process),
        way_(std::make_shared<Way>(std::move(inner), std::move(arrives))) {}
  Pending send(net::HttpRequest request, net::ResponseHandler handler) override;

 private:
  struct Exchange;
  struct Way {
    std::unique_ptr<net::HttpClient> inner;
    Function<void(const net::HttpRequest& request)> arrives;
  };

  Network& network_;
  Process& process_;
  std::shared_ptr<Way> way_;
};

// A webhook that is down, slow, or says no to everything.
class BadWebhook final : public net::HttpClient {
 public:
  BadWebhook(Scheduler& scheduler, Random& random) : scheduler_(scheduler), random_(random) {}
  Pending send(net::HttpRequest request, net::ResponseHandler handler) override;

 private:
  Scheduler& scheduler_;
  Random& random_;
};

}  // namespace cadre::sim
