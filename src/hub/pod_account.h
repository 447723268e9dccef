#pragma once

#include <optional>

#include "hub/failure.h"
#include "hub/objects.h"
#include "hub/registry.h"

namespace cadre::hub {

// Where pods run, each new one has an account of its namespace, `default` if it names none, and a
// volume with a token for it, unless it or its account says otherwise. Whether it changed the pod;
// or why it is refused: the account that it names is not there. `default` may still come.
Outcome<bool> giveAccount(Draft& draft, const Objects& objects);

}  // namespace cadre::hub
