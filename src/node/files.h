#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"
#include "json/value.h"

namespace cadre::node {

// Empty where there is none.
std::string readText(const std::filesystem::path& path);
// Null where there is none, or no JSON in it.
json::Value readJson(const std::filesystem::path& path);
// With the folders that it is in; whoever reads it finds the old one or the new one.
Result<> writeJson(const std::filesystem::path& path, const json::Value& value);

}  // namespace cadre::node
