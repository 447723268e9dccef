#include "cli/files.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/format.h"

namespace cadre::cli {
namespace {

namespace fs = std::filesystem;
constexpr std::uintmax_t kMaxFile = 64u << 20;

}  // namespace

Result<std::string> readAll(const std::string& path) {
  std::FILE* file = path == "-" ? stdin : std::fopen(path.c_str(), "re");
  if (!file)
    return Error{.code = Code::NotFound, .message = format("{}: the file cannot be opened", path)};
  std::string text;
  char buffer[65536];
  while (std::size_t got = std::fread(buffer, 1, sizeof buffer, file)) {
    text.append(buffer, got);
    if (text.size() > kMaxFile) break;
  }
  if (file != stdin) std::fclose(file);
  if (text.size() > kMaxFile)
    return Error{.code = Code::ResourceExhausted,
                 .message = format("{}: the file is larger than 64 MiB", path)};
  return text;
}

namespace {

std::vector<std::string> expand(const std::string& path) {
  std::error_code error;
  if (path == "-" || !fs::is_directory(path, error)) return {path};
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(path, error)) {
    std::string suffix = entry.path().extension().string();
    if (suffix == ".yaml" || suffix == ".yml" || suffix == ".json")
      files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

Result<std::vector<FromFile>> readObjects(const std::vector<std::string>& paths) {
  std::vector<FromFile> objects;
  for (const std::string& path : paths)
    for (const std::string& file : expand(path)) {
      auto text = readAll(file);
      if (!text) return text.error();
      auto documents = json::parseYaml(*text, file == "-" ? "standard input" : file);
      if (!documents) return documents.error();
      for (json::Document& document : *documents) {
        if (!document.value["kind"].string().ends_with("List") ||
            !document.value["items"].isArray()) {
          objects.push_back({file, std::move(document)});
          continue;
        }
        for (const json::Value& item : document.value["items"].array())
          objects.push_back({file, {.value = item, .line = document.line, .lines = {}}});
      }
    }
  return objects;
}

}  // namespace cadre::cli
