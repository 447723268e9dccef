#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/function.h"
#include "base/result.h"
#include "base/time.h"
#include "json/value.h"
#include "kube/field_set.h"
#include "kube/meta.h"
#include "kube/shape.h"

namespace cadre::kube {

// Who owns which field of an object, and server-side apply, which goes by it: what an API server
// does with metadata.managedFields. Pure.
//
// An API server asks for this with the object as it has read it from the request, in the form that
// it shows (defaults filled in, unknown fields gone), but before it adds what is its own
// (addresses, what another endpoint of the kind keeps). Fields that are never tracked, such as
// metadata.name and metadata.uid, are left out here.

// A write to an object.
struct Writer {
  std::string manager;  // "unknown" when it is empty
  std::string api_version;
  std::string subresource = {};
  Time now = {};
  // What the endpoint does not let the writer change: see resetFields.
  FieldSet reset = {};
  // The object in another version of its kind that a manager has written, nothing when there is no
  // such version: its entry goes. Without this function, versions differ in their names only.
  struct Versioned {
    Shape shape;
    json::Value object;
  };
  Function<std::optional<Versioned>(const json::Value& object, std::string_view api_version)>
      convert = {};
};

enum class Force { No, Yes };

// What applying `config` makes of the live object (null: there is none), with its new
// managedFields:
//
// - What the manager applied before and no longer does goes, unless others own it too.
// - Items of keyed lists and sets are merged, in the order of the config where it says one; what is
//   atomic is replaced.
// - A null in the config stays null, and is owned: what a kind makes of nulls is its own matter.
// - Where it would change what others own, that is a conflict, or with force takes it from them.
// - An object without managedFields has those of "before-first-apply" then.
// - The time of the manager is `now` where anything changed. Where nothing did, it stays; a manager
//   that only shares what others own has none.
//
// Fails, in the API server's words: Conflict, with a detail for each field; InvalidArgument when
// the config has managedFields; Internal (a 500, and nothing is said of a reason) when the config
// does not have its shape or has duplicates in keyed lists, or when live managedFields are
// malformed.
Result<json::Value> apply(const Shape& shape, const json::Value& live, json::Value config,
                          const Writer& writer, Force force = Force::No);

// The object of a create, update or patch with its new managedFields: what differs from before
// (null: it is new) goes to the writer and away from all others, what is gone goes from all, and
// nothing changes where nothing did. An object without any stays so, until the first apply. Of more
// than ten entries that updated, the oldest are joined into "ancient-changes".
//
// `after` may have managedFields, but not through a subresource: [{}] forgets all, as [] does but
// for custom resources; none or malformed ones are those of before; others are taken as they are.
json::Value update(const Shape& shape, const json::Value& before, json::Value after,
                   const Writer& writer);

// The object without its new times, if nothing else is new: then there is nothing to write. To be
// asked when all that changes an object has done so.
json::Value withoutNewTimes(const json::Value& before, json::Value after);

// What an endpoint of a kind with a status subresource does not let anybody change: the status, or
// through "status" the rest.
FieldSet resetFields(const GroupVersionKind& kind, std::string_view subresource);

}  // namespace cadre::kube
