#pragma once

#include <string>
#include <vector>

#include "json/value.h"

namespace cadre::json {

// The texts of a list; what is no text in it is an empty one, what is no list has none.
inline std::vector<std::string> textsOf(const Value& list) {
  std::vector<std::string> out;
  for (const Value& one : list.array()) out.push_back(one.string());
  return out;
}

}  // namespace cadre::json
