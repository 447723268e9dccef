#pragma once

#include "hub/kind.h"

namespace cadre::hub {

// What there is, as clients discover it. Pure.

json::Value coreVersions();                      // /api
json::Value groupList(const Kinds& kinds);       // /apis
json::Value groupOf(const Kinds::Group& group);  // /apis/apps
struct DiscoveryOptions {
  bool has_node = false;  // that answers for what runs a pod
};
json::Value resourceList(const Kinds::Group& group, const Kinds::Version& version,
                         const DiscoveryOptions& options);
// All at once: of the core group, or of all others.
json::Value aggregated(const Kinds& kinds, bool core, const DiscoveryOptions& options);

}  // namespace cadre::hub
