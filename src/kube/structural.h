#pragma once

#include <cstddef>

#include "base/result.h"
#include "json/value.h"
#include "kube/schema.h"

namespace cadre::kube {

// The schema of a CRD, which comes from outside, as a description: the openAPIV3Schema of one of
// its versions. Documentation is left where it is. A schema that is not structural is read as far
// as it means something.
//
// ResourceExhausted when it is too deep or has too many parts.
Result<Schema> readSchema(const json::Value& open_api);

inline constexpr std::size_t kMaxSchemaDepth = 64;
inline constexpr std::size_t kMaxSchemaParts = 100'000;

}  // namespace cadre::kube
