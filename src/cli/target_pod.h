#pragma once

#include "cli/cluster.h"
#include "json/value.h"

namespace cadre::cli {

// A pod that runs, by what a person calls it: "web", "pod/web", or one of those that "deploy/web",
// "svc/web" and other kinds with a selector have.
Result<json::Value> findPod(Cluster& cluster, const std::string& target);

}  // namespace cadre::cli
