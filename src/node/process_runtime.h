#pragma once

#include <memory>

#include "net/loop.h"
#include "node/runtime.h"

namespace cadre::node {

struct ProcessRuntimeOptions {
  std::string folder;   // of runs: FOLDER/<pod>/<container>/<attempt>
  std::string images;   // folder of trees
  std::string program;  // ourselves, for `cadre shim`
};

// Containers as processes of this machine: in namespaces of their own (bubblewrap), but in its
// network, each watched over by a shim that outlives us. Unavailable, and what to do about it,
// where the system has no such namespaces.
Result<std::unique_ptr<Runtime>> makeProcessRuntime(net::Loop& loop, ProcessRuntimeOptions options);

// Whether this system has what containers as processes need: runs a small one. NotFound, and what
// to do, without bubblewrap; Unavailable where the system refuses the namespaces.
Result<> tryProcesses(net::Loop& loop);

}  // namespace cadre::node
