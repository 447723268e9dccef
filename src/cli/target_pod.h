#pragma once

#include "cli/objects.h"

namespace cadre::cli {

// Which pods belong to a Deployment, a Service or another kind that selects some, as text.
Result<std::string> podSelector(const Found& owner);

// A pod that runs, by what a person calls it: "web", "pod/web", or one of those that "deploy/web",
// "svc/web" and the like have.
Result<json::Value> findPod(Cluster& cluster, const std::string& target);

}  // namespace cadre::cli
