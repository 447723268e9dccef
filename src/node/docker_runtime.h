#pragma once

#include <memory>

#include "base/log.h"
#include "net/loop.h"
#include "node/runtime.h"

namespace cadre::node {

struct DockerRuntimeOptions {
  std::string folder;   // whose pods these are, which runs have ended
  std::string program;  // ourselves, for what the containers of a pod share
  std::string socket;   // of the Engine
  Logger* logger = nullptr;
};

// Containers by Docker's Engine. All that belongs to FOLDER carries its identity as a label; the
// pods are in a network of their own, and the containers of each in that of its first one, which
// runs `cadre sandbox`. What has ended is written down in FOLDER and taken out of Docker:
//   identity.json               whose, and where the Engine listens
//   runs/POD/CONTAINER/ATTEMPT  how a run has ended
// Unavailable, and what to do about it, where no Engine answers.
Result<std::unique_ptr<Runtime>> makeDockerRuntime(net::Loop& loop, DockerRuntimeOptions options);

// The socket of the Engine that a folder's containers are in; NotFound if there never were any.
Result<std::string> dockerSocketOf(const std::string& folder);

// Whether an Engine answers there, now.
Result<> tryDocker(net::Loop& loop, const std::string& socket);

}  // namespace cadre::node
