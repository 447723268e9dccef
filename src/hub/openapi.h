#pragma once

#include "hub/kind.h"

namespace cadre::hub {

// The API as OpenAPI 3, a document for each group and version: what `kubectl explain` shows and
// what clients find out about servers. Without texts for built-in kinds, which clients do not need.
// Pure.

// "api/v1", "apis/apps/v1"
std::string openApiName(const Kinds::Group& group, const Kinds::Version& version);
json::Value openApi(const Kinds::Group& group, const Kinds::Version& version);

}  // namespace cadre::hub
