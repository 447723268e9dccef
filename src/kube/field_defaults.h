#pragma once

#include <string_view>
#include <vector>

#include "json/value.h"

namespace cadre::kube {

// A field of a built-in type that has a value where none is given, whatever else is given.
struct FieldDefault {
  std::string_view type;  // as Type names it
  std::string_view field;
  json::Value value;
};

// All of them: what API servers fill in. Constant.
const std::vector<FieldDefault>& fieldDefaults();

}  // namespace cadre::kube
