#pragma once

#include "base/result.h"
#include "json/value.h"
#include "kube/types.h"

namespace cadre::kube {

// A strategic merge patch, as the API server does it: objects are merged member by member and null
// removes one, as in a merge patch, but lists whose fields say so are merged too, by their merge
// key or as sets. A patch may direct it otherwise:
//   $patch: replace | delete            in an object, or in an element of a merged list
//   $retainKeys: [...]                  drops the members that are not named
//   $deleteFromPrimitiveList/<field>    takes values out of a list
//   $setElementOrder/<field>            gives the order of a list
// What the table does not describe is merged as a merge patch (RFC 7386).
//
// Fails with "spec: containers: ...", InvalidArgument, where an element has no merge key or a
// directive is not one. Pure; linear, but for finding elements in lists that are merged.
Result<json::Value> strategicMerge(Type type, json::Value current, const json::Value& patch);

}  // namespace cadre::kube
