#pragma once

#include <string_view>

#include "json/value.h"

namespace cadre::kube {

// The object as a server-side apply leaves it, as far as fields go that `manager` applied before
// and no longer has in `wanted`. `object` carries its managedFields; fields that others hold as
// well stay.
json::Value withoutDropped(json::Value object, std::string_view manager, const json::Value& wanted);

}  // namespace cadre::kube
