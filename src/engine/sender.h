#pragma once

#include <string>
#include <vector>

#include "engine/reconcile.h"
#include "kube/client.h"

namespace cadre::engine {

// Sends writes, each in as many steps as it takes.
class Sender {
 public:
  // `may_write` is asked before every step after the first; when it says no, nothing more is sent
  // or said. `predecessors`: as in EngineOptions.
  Sender(kube::Client& client, std::vector<std::string> predecessors, Function<bool()> may_write)
      : client_(client), predecessors_(std::move(predecessors)), may_write_(std::move(may_write)) {}

  // `done` gets what the server then has: null when the object is gone. Dropped, it is given up. A
  // Conflict is not for sending.
  Pending send(Write write, Function<void(Result<json::Value>)> done);

 private:
  class Sending;

  kube::Client& client_;
  const std::vector<std::string> predecessors_;
  const Function<bool()> may_write_;
};

}  // namespace cadre::engine
