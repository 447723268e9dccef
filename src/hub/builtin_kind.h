#pragma once

#include "hub/builtin.h"
#include "hub/kind.h"

namespace cadre::hub {

// The built-in kinds as the hub serves them.
std::vector<KindRef> servedBuiltIns();

}  // namespace cadre::hub
