#pragma once

#include <string>

#include "base/result.h"

namespace cadre::node {

// A tree that stays as it is, and what is written into it beside it: for this process and those
// that it starts from now on, FOLDER/merged is both. All of it is gone with them, but what they
// wrote: that is in FOLDER/upper. Needs no rights, but a system that lets users have namespaces and
// overlays in them.
Result<> enterOverlay(const std::string& tree, const std::string& folder);
// What the system leaves in there that nobody may look into, so that the folder can be removed.
void openOverlay(const std::string& folder);
// Whether that works here; tried in another process.
bool canOverlay(const std::string& folder);

}  // namespace cadre::node
