#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "hub/hub.h"
#include "kube/client.h"
#include "sim/faults.h"
#include "sim/oracles.h"

namespace cadre::sim {

// A Secret that is there from the beginning: {name: kSecretName}, key "key".
inline constexpr std::string_view kSecretName = "known", kSecretValue = "nobody-may-read-this";

// A system under simulation: what users write, and what serves it.
struct System {
  std::string name;
  std::vector<json::Value> crds;
  // What the engine has to know.
  Function<void(Scheduler& scheduler, engine::EngineOptions& options)> serve;
  // An object as a user might write it: a kind and a name of few, a spec by chance, maybe one that
  // cannot be served.
  Function<json::Value(Random& random)> draw;
  // What users want in the end: all of it can be served, and the names are always the same. (While
  // something is missing, what runs is kept, so there the past would show.)
  Function<std::vector<json::Value>(Random& random)> last;
  // For tests of the simulator: what is between the hub and who listens to it.
  Function<std::unique_ptr<net::HttpClient>(std::unique_ptr<net::HttpClient>)> before_listener =
      [](auto way) { return way; };
  // For whoever looks for the reason: what operators log, and what happens at the hub.
  Function<void(std::string_view line)> trace = [](auto) {};
};

// A hub, one or two operators, users and what stands for nodes, in one thread under one virtual
// clock. The same seed gives the same run.
class Simulation {
 public:
  Simulation(const System& system, std::uint64_t seed);
  ~Simulation();

  // Things go wrong, and users do what users do; README.md has the plan. What the oracles say of
  // it; empty when all is well.
  std::vector<std::string> run();

  // Of what happened at the hub, for whoever looks for a difference between two runs.
  std::uint64_t digest() const { return history_.digest(); }
  // How often an operator was killed, and how much they wrote.
  int kills() const { return kills_; }
  std::uint64_t writes() const { return writes_; }

 private:
  struct Operator;

  // Operators
  void start(std::size_t place);
  void kill(std::size_t place);
  void arrived(const std::string& who, const net::HttpRequest& request);

  // What happens
  void userActs();
  void worldActs();
  void meddle();
  void restart();
  void stop();
  void moveClock();
  void breakRules();
  void mendRules();
  void calm();

  // Users and nodes
  void want(json::Value object);
  void drop(const std::string& id);
  void write(std::string_view method, const kube::Resource& resource, const kube::ObjectKey& key,
             const json::Value& body, std::string_view subresource = {});
  void tendDeployments();

  void wait(Duration time);
  void waitUpTo(std::uint64_t milliseconds);
  void settle();

  // Oracles
  void compareWith(Simulation& reference);
  void compareCounts(const Simulation& reference);
  void checkReady();
  void lookForSecrets();
  // All objects, without what differs from run to run.
  std::map<std::string, json::Value> picture() const;

  const System& system_;
  FakeScheduler scheduler_;
  Random random_;
  Network network_{scheduler_, random_};
  std::size_t replicas_ = 1;
  std::uint64_t writes_ = 0;
  int kills_ = 0, started_ = 0;
  Alarms alarms_;
  History history_;
  std::unique_ptr<hub::Hub> hub_;
  std::unique_ptr<kube::Client> admin_;
  std::unique_ptr<Listener> listener_;
  std::vector<std::unique_ptr<Operator>> operators_;
  std::vector<Pending> requests_;
  std::map<kube::ObjectKey, std::int64_t> tended_;  // Deployments that are well, as of when
  std::map<std::string, json::Value> wanted_;       // what users want in the end
  bool was_stale_ = false;                          // since counts began
  std::int64_t furnished_ = 0;                      // the revision at which all began
  std::optional<Instant> mend_at_;                  // rules are broken until then
};

}  // namespace cadre::sim
