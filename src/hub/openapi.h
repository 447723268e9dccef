#pragma once

#include "hub/kind.h"

namespace cadre::hub {

// The API as OpenAPI 3, a document for each group and version: what `kubectl explain` shows and
// what clients find out about servers. Without texts for built-in kinds, which clients do not need.
// Pure.

// "api/v1", "apis/apps/v1"
std::string openApiName(const Kinds::Group& group, const Kinds::Version& version);
json::Value openApi(const Kinds::Group& group, const Kinds::Version& version);

// Of OpenAPI 2 the one thing that kubectl still asks it for, when it applies a List: that fields
// are validated here. In protobuf, the only form that it asks in.
std::string openApi2();

}  // namespace cadre::hub
