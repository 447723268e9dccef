#pragma once

#include <string>

#include "cli/cluster.h"

namespace cadre::cli {

// The key that hashes of Secrets are made with: the same for all programs that serve or look at one
// cluster. It is kept in the Secret cadre-hash-key of the operator's namespace.
Result<std::string> readHashKey(Cluster& cluster, const std::string& ns);
// Makes it where there is none.
Result<std::string> makeHashKey(Cluster& cluster, const std::string& ns);

// The hash of one value.
Function<std::string(std::string_view)> hashWith(std::string key);

}  // namespace cadre::cli
