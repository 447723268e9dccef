#pragma once

namespace cadre::node {

// The whole of `cadre sandbox`: the first container of a pod in Docker, which holds the network
// that the others share, until it is asked to end.
int runSandbox();

}  // namespace cadre::node
