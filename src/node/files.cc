#include "node/files.h"

#include <fstream>

#include "base/format.h"
#include "json/parse.h"
#include "json/write.h"

namespace cadre::node {

namespace fs = std::filesystem;

std::string readText(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

json::Value readJson(const fs::path& path) {
  auto value = json::parse(readText(path));
  return value ? *std::move(value) : json::Value();
}

Result<> writeJson(const fs::path& path, const json::Value& value) {
  std::error_code code;
  fs::create_directories(path.parent_path(), code);
  fs::path part = path.string() + ".part";
  {
    std::ofstream file(part, std::ios::binary | std::ios::trunc);
    file << json::write(value);
    if (!file.flush())
      return Error{.code = Code::Unavailable,
                   .message = format("{} cannot be written: is the disk full?", part.string())};
  }
  fs::rename(part, path, code);
  if (!code) return {};
  return Error{.code = Code::Unavailable,
               .message = format("{} cannot be written: {}", path.string(), code.message())};
}

}  // namespace cadre::node
