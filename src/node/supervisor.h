#pragma once

#include <memory>
#include <string>

#include "base/log.h"
#include "base/random.h"
#include "kube/client.h"
#include "node/runtime.h"

namespace cadre::node {

struct SupervisorOptions {
  std::string node = "cadre";  // its name
  std::string folder;          // of volumes and logs
  std::string host_address = "127.0.0.1";
  Logger* logger = nullptr;
  // Names of Services, as lines of a hosts file.
  Function<std::string(std::string_view ns)> names = [](std::string_view) { return std::string(); };
  // Services as environments have them: the API, and those of a namespace where a pod wants that.
  using Links = std::map<std::string, std::string>;
  Function<Links(std::string_view ns, bool all)> links = [](std::string_view, bool) {
    return Links();
  };
};

// Makes pods run on this machine: takes those that have no node, carries out what stepOf() says,
// and tells what became of them. Finds again what a former one has left running, and ends what
// belongs to no pod. Everything happens on the loop's thread.
class Supervisor {
 public:
  Supervisor(net::Loop& loop, kube::Client& client, Random& random, Runtime& runtime,
             SupervisorOptions options);
  ~Supervisor();

  // Where the output of a container is kept; attempts count from 0.
  static std::string logOf(const std::string& folder, const json::Value& pod,
                           const std::string& container, std::int64_t attempt);
  // Names have changed.
  void refreshNames();
  // Ends everything that runs, and starts nothing more; pods stay in the API, and run again when
  // there is a supervisor again.
  void shutDown(Function<void()> done);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cadre::node
