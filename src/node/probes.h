#pragma once

#include <memory>

#include "json/value.h"
#include "net/loop.h"
#include "node/pod_step.h"

namespace cadre::node {

// How a program in a container is run beside it: exit code 0 is well.
using RunInside = Function<Pending(const std::vector<std::string>& command, Duration timeout,
                                   Function<void(Result<>)> done)>;

// Whom to ask.
struct Asked {
  net::Loop& loop;
  const json::Value& container;
  const std::string& address;  // of its pod
  const RunInside& run_inside;
};
// Once, as a probe or a hook says: an HTTP request, a connection, a command or a pause.
Pending askContainer(const Asked& asked, const json::Value& how, Duration timeout,
                     Function<void(Result<>)> done);

// Asks one running container again and again how it is, by its startup, readiness and liveness
// probes. Ends when it is dropped.
class Probes {
 public:
  struct Said {
    bool up = true, ready = true, alive = true;
    bool operator==(const Said&) const = default;
  };
  Probes(net::Loop& loop, const json::Value& container, const std::string& address,
         RunInside run_inside, Function<void(const Said&)> changed,
         Function<void(std::string_view which, const std::string& why)> failed);
  ~Probes();

  // Whether there is anything to ask.
  static bool areWanted(const json::Value& container);
  // What is so before the first answer.
  static Said before(const json::Value& container);

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace cadre::node
