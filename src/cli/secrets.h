#pragma once

#include <string_view>

#include "json/value.h"

namespace cadre::cli {

// Whether a variable of this name is likely to hold what is nobody's business.
bool looksSecret(std::string_view variable);

// For people to see: without the values of such variables and fields. `path`: where it stands, for
// lists whose elements are told by their names.
json::Value withoutSecrets(const json::Value& value, std::string_view path = {});

}  // namespace cadre::cli
