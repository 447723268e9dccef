#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "hub/hub.h"
#include "kube/client.h"
#include "sim/faults.h"

namespace cadre::sim {

// A system under simulation: what users write, and what serves it.
struct System {
  std::string name;
  std::vector<json::Value> crds;
  // What the engine has to know.
  Function<void(Scheduler& scheduler, engine::EngineOptions& options)> serve;
  // An object as a user might write it: a kind and a name of few, a spec by chance, maybe one that
  // cannot be served.
  Function<json::Value(Random& random)> draw;
  // What users want in the end: all of it can be served. (While something is missing, what runs is
  // kept, so there the past would show.)
  Function<std::vector<json::Value>(Random& random)> last;
};

// A hub, an operator, users and what stands for nodes, in one thread under one virtual clock. The
// same seed gives the same run, to the last byte.
class Simulation {
 public:
  Simulation(const System& system, std::uint64_t seed);
  ~Simulation();

  // Things go wrong, and users do what users do. Then nothing goes wrong any more, and all has to
  // come to rest. What is wrong after that, in words; empty when all is well.
  std::vector<std::string> run();

  // What was written to the hub, for whoever looks for a difference between two runs.
  std::uint64_t digest() const { return digest_; }
  // How often the operator was killed, and how much it wrote.
  int kills() const { return kills_; }
  std::uint64_t writes() const { return writes_; }

 private:
  struct Operator;

  void start();
  void kill();
  void act();
  void want(json::Value object);
  void drop(const std::string& id);
  void wait(Duration time);
  void tendDeployments();
  void write(std::string_view method, const kube::Resource& resource, const kube::ObjectKey& key,
             const json::Value& body, std::string_view subresource = {});
  std::optional<std::string> settle();
  // All objects, without what differs from run to run.
  std::map<std::string, json::Value> picture() const;

  const System& system_;
  FakeScheduler scheduler_;
  Random random_;
  Faults faults_;
  std::uint64_t writes_ = 0, digest_ = 0;
  int kills_ = 0;
  std::unique_ptr<hub::Hub> hub_;
  std::unique_ptr<kube::Client> admin_;
  std::unique_ptr<Operator> operator_;
  std::vector<Pending> requests_;
  std::map<kube::ObjectKey, std::int64_t> tended_;  // Deployments that are well, as of when
  std::map<std::string, json::Value> wanted_;  // what users want in the end
  std::vector<std::string> troubles_;
};

}  // namespace cadre::sim
