#pragma once

#include <cstddef>

#include "base/result.h"
#include "json/value.h"

namespace cadre::json {

// How much a patch may do. Patches come from outside: a few lines of "copy" could otherwise double
// a document until memory is gone.
struct PatchLimits {
  std::size_t operations = 10'000;
  std::size_t depth = 128;
  // What operations may add to the document, together: values, and bytes of text.
  std::size_t added_values = 1u << 20;
  std::size_t added_bytes = 16u << 20;
  // Values that are looked at or moved to make room, together.
  std::size_t work = 100'000'000;
  // As API servers do it: a member that is not there is replaced, too. Clients rely on it.
  bool replaces_missing = false;
};

// A JSON patch (RFC 6902): add, remove, replace, move, copy, test. All or nothing.
//
// Fails with "operation 3 (replace /spec/replicas): ...": InvalidArgument where the patch is
// malformed or a path leads nowhere, Conflict where a test does not hold, ResourceExhausted beyond
// a limit.
Result<Value> applyJsonPatch(Value target, const Value& patch, const PatchLimits& limits = {});

// A merge patch (RFC 7386): members replace members, null removes one, anything but an object
// replaces all. Never fails. Linear in the members of the objects that it touches.
Value applyMergePatch(Value target, const Value& patch);

// The smallest merge patch that turns one value into the other. A merge patch cannot write a null
// into an object: such a member is missing from the patch's result.
Value makeMergePatch(const Value& from, const Value& to);

}  // namespace cadre::json
