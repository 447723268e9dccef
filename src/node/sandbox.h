#pragma once

#include <string>

namespace cadre::node {

// The whole of `cadre sandbox TABLE POLICY`: the first container of a pod in Docker, which holds
// the network that the others share until it is asked to end. For them it is what ServiceProxy is
// for the machine: connections to the addresses of Services go to their pods, as TABLE says (see
// ServiceTable), also when that is replaced. They are redirected rather than listened for, so that
// a container may listen on any port at every address. What the file POLICY (see Policy) does not
// allow is dropped before any of that, except what comes from the node. Says "ready" when all that
// is so; ends, and the pod with it, where the policy cannot be kept.
int runSandbox(const std::string& table, const std::string& policy);

}  // namespace cadre::node
