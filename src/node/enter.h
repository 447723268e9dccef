#pragma once

#include <string>
#include <vector>

namespace cadre::node {

// The whole of `cadre enter`: runs a command in the container whose shim has this folder, in its
// namespaces and its limits, with no more rights than it has, and gives its exit code. As in a
// shell: 127, there is no such command; 126, it cannot be run. With a terminal, which stdin is, it
// is the first of a session of its own: shells cannot do without.
int enterContainer(const std::string& run, bool terminal, const std::vector<std::string>& command);

}  // namespace cadre::node
