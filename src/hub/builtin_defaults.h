#pragma once

#include "hub/builtin.h"
#include "json/value.h"

namespace cadre::hub {

// What an API server fills into an object of a built-in kind by that object alone. Pure.
//
// Not here, because it takes a look at other objects: cluster IPs, node ports and the health check
// port of Services; service account, its token's volume, priority, default tolerations and runtime
// class overhead of Pods; default storage and ingress classes; finalizers that protect volumes
// (nobody here would take them off again); limit ranges and quotas.

// The fields that are missing get the values that they have without being set. The object is as
// typed() gives it; afterwards typed() once more adds what new parts have by themselves.
void setDefaults(const BuiltIn& kind, json::Value& object);

// What is the server's own in a new object: status, generation, and what follows from the rest
// once and for all (a Pod's quality of service, a Service's IP families, a Job's selector by its
// uid, which is set before). The object has its defaults.
void prepareForCreate(const BuiltIn& kind, json::Value& object);

// The same for a write to the object itself (not to its status): the status stays as it was, and
// the generation is one more where the kind counts this change. Both have their defaults.
void prepareForUpdate(const BuiltIn& kind, json::Value& object, const json::Value& old);
// And for a write to its status: all but the status and some of the metadata stays as it was.
void prepareForStatusUpdate(const BuiltIn& kind, json::Value& object, const json::Value& old);

// Guaranteed, Burstable or BestEffort: by what a Pod's containers ask for and may use.
std::string_view qualityOfService(const json::Value& pod);

}  // namespace cadre::hub
