#pragma once

#include <string>

namespace cadre::node {

// The whole of `cadre sandbox FILE`: the first container of a pod in Docker, which holds the
// network that the others share until it is asked to end. For them it is what ServiceProxy is for
// the machine: connections to the addresses of Services go to their pods, as FILE says (see
// ServiceTable), also when that is replaced. They are redirected rather than listened for, so that
// a container may listen on any port at every address. Says "ready" when all that is so.
int runSandbox(const std::string& table);

}  // namespace cadre::node
