#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "json/yaml.h"

namespace cadre::cli {

// An object from a file, and where it stands there.
struct FromFile {
  std::string file;
  json::Document document;
};

// A whole file, of up to 64 MiB; "-" is the standard input.
Result<std::string> readAll(const std::string& path);

// The objects of YAML or JSON files, folders (their *.yaml, *.yml and *.json) and "-" for the
// standard input; Lists are taken apart. Fails with the file and the line.
Result<std::vector<FromFile>> readObjects(const std::vector<std::string>& paths);

}  // namespace cadre::cli
