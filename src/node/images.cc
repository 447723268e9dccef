#include "node/images.h"

#include <filesystem>

#include "base/format.h"
#include "base/strings.h"
#include "json/parse.h"
#include "json/texts.h"
#include "kube/pattern.h"
#include "node/files.h"

namespace cadre::node {
namespace {

namespace fs = std::filesystem;

// "registry:5000/team/web:1.0@sha256:..." is "registry:5000/team/web" and "1.0".
std::pair<std::string, std::string> parts(std::string_view reference) {
  reference = reference.substr(0, reference.find('@'));
  std::size_t colon = reference.rfind(':');
  if (colon == std::string_view::npos || reference.find('/', colon) != std::string_view::npos)
    return {std::string(reference), "latest"};
  return {std::string(reference.substr(0, colon)), std::string(reference.substr(colon + 1))};
}

// A path that stays below its folder.
bool isTame(std::string_view name) {
  for (std::string_view part : split(name, '/'))
    if (part.empty() || part == "." || part == "..") return false;
  return true;
}

}  // namespace

bool isImageName(const std::string& reference) {
  static const kube::Pattern kName = *kube::Pattern::parse(
      "^([a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?([.][a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?)*(:[0-9]+"
      ")?/)?"
      "[a-z0-9]+(([._]|__|-+)[a-z0-9]+)*(/[a-z0-9]+(([._]|__|-+)[a-z0-9]+)*)*"
      "(:[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,127})?"
      "(@[a-zA-Z][a-zA-Z0-9]*([-_+.][a-zA-Z][a-zA-Z0-9]*)*:[0-9a-fA-F]{32,128})?$");
  return kName.matches(reference);
}

Result<Image> findImage(const std::string& folder, const std::string& reference) {
  auto [name, tag] = parts(reference);
  if (name == "cadre")
    return Image{.root = {},
                 .entrypoint = {"/opt/cadre/bin/cadre"},
                 .command = {},
                 .env = {{"PATH", "/opt/cadre/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}},
                 .directory = "/"};
  fs::path place = fs::path(folder) / name / tag;
  std::error_code ignored;
  if (!isTame(name) || !isTame(tag) || !fs::is_directory(place / "rootfs", ignored))
    return Error{.code = Code::NotFound,
                 .message = format("there is no image {} here: put its files into {}/rootfs",
                                   reference, place.string())};
  Image image{.root = place / "rootfs",
              .env = {{"PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}}};
  std::string text = readText(place / "config.json");
  if (text.empty()) return image;
  auto read = json::parse(text);
  if (!read) return read.error().context((place / "config.json").string());
  const json::Value& config = (*read)["config"];
  image.entrypoint = textsOf(config["Entrypoint"]);
  image.command = textsOf(config["Cmd"]);
  image.directory = config["WorkingDir"].string();
  image.user = config["User"].string();
  for (const json::Value& one : config["Env"].array()) {
    auto [key, value] = cut(one.string(), "=");
    image.env[std::string(key)] = value;
  }
  return image;
}

}  // namespace cadre::node
