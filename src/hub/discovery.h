#pragma once

#include "hub/kind.h"

namespace cadre::hub {

// What there is, as clients discover it. Pure.

json::Value coreVersions();                      // /api
json::Value groupList(const Kinds& kinds);       // /apis
json::Value groupOf(const Kinds::Group& group);  // /apis/apps
json::Value resourceList(const Kinds::Group& group, const Kinds::Version& version);
// All at once: of the core group, or of all others.
json::Value aggregated(const Kinds& kinds, bool core);

}  // namespace cadre::hub
