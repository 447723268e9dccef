#pragma once

#include <optional>

#include "json/diff.h"
#include "json/value.h"
#include "kube/types.h"

namespace cadre::kube {

// Whether everything that is desired is observed already, by meaning: then nothing has to be
// written. Gives the first difference otherwise, `from` what is observed and `to` what is desired;
// its path names elements of keyed lists by their keys: spec.containers[name="main"].image.
//
// - Quantities are compared by amount, times by instant, ports and their like by text.
// - Structs, maps, sets and keyed lists may have more than is desired: servers, defaults and others
//   write them too. Keys that are missing have their defaults (protocol TCP).
// - Atomic lists and maps have as many elements, each of which is covered. So have lists and maps
//   in an atomic struct: one that is not desired is not there.
// - A desired "", 0, false, [] or {} is the same as nothing there, unless the API tells the two
//   apart (a pointer in its Go struct). A desired null asks for nothing.
// - A Secret's stringData is looked for in data. apiVersion and kind may be missing, as in lists.
//
// Without a type, as for custom resources: objects may have more, lists have as many elements, and
// everything else is equal. Linear in the size of both, but for the sorting of keyed lists. Pure.
std::optional<json::Change> covers(Type type, const json::Value& observed,
                                   const json::Value& desired);

// What somebody added to an object that covers what is desired: the first such thing, `from` what
// is observed. Told by the built-in type alone, nothing without one:
//
// - Elements of lists, also a second one with the same keys; keys of maps; fields that have another
//   value than an API server would have filled in. And elements of keyed lists in another order.
// - Not metadata, also of pods, which everybody may write, nor the status; nor `replicas`, which
//   scalers do; nor what a server chooses by other fields or by the cluster (pull policies, cluster
//   IPs, node ports).
std::optional<json::Change> added(Type type, const json::Value& observed,
                                  const json::Value& desired);

}  // namespace cadre::kube
