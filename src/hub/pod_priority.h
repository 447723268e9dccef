#pragma once

#include "hub/failure.h"
#include "hub/objects.h"
#include "hub/registry.h"

namespace cadre::hub {

// A new pod has the priority of the class that it names, else of the default one, else 0. Whether
// it changed the pod; or why it is refused: there is no such class, or the pod says something else.
Outcome<bool> givePriority(Draft& draft, const Objects& objects);

}  // namespace cadre::hub
