#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "json/value.h"
#include "kube/field_set.h"
#include "kube/shape.h"

namespace cadre::kube {

// What server-side apply is made of: values compared, merged and cut by their shape, as the API
// server does it. Pure; as deep as the values are, and linear in their size but for the sorting of
// list items by their keys.

enum class Duplicates {
  Refuse,  // two items of a keyed list or set are the same: as in what is applied
  Allow,   // as in objects that are there already
};
// Whether a value has its shape. Internal, in the API server's words, when it has not.
Result<> conforms(const Shape& shape, const json::Value& value, Duplicates duplicates);

// Every field and item that a value mentions: what its author owns.
FieldSet fieldsOf(const Shape& shape, const json::Value& object);

struct Comparison {
  FieldSet removed, modified, added;
};
Comparison compare(const Shape& shape, const json::Value& before, const json::Value& after);

// What is there with what is wanted in it: nothing goes, what both have is as wanted, and items are
// in the wanted order where it says one.
json::Value merge(const Shape& shape, const json::Value& live, const json::Value& wanted);

// Without the fields and items of the set. What has lost all that it had is null.
json::Value without(const Shape& shape, const json::Value& value, const FieldSet& gone);

// The same set with the fields of structs on the way to something owned: whoever owns
// .spec.selector.app has a part in .spec.
FieldSet withFieldsOnTheWay(const Shape& shape, const FieldSet& set);

// The same set where the shape has become coarser since: what was owned in parts and has one owner
// now is owned as a whole.
FieldSet reconciled(const Shape& shape, FieldSet set);

}  // namespace cadre::kube
