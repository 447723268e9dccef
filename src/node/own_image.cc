#include "node/own_image.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <vector>

#include <link.h>
#include <sys/stat.h>

#include "base/format.h"
#include "base/strings.h"
#include "wire/tar.h"

namespace cadre::node {
namespace {

namespace fs = std::filesystem;

// What the system has loaded for this process, by the names under which it was found.
std::vector<std::string> librariesOfThisProcess() {
  std::vector<std::string> out;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* found) {
        if (info->dlpi_name && info->dlpi_name[0] == '/')
          static_cast<std::vector<std::string>*>(found)->emplace_back(info->dlpi_name);
        return 0;
      },
      &out);
  return out;
}

Error cannotRead(const std::string& path) {
  return {.code = Code::Unavailable,
          .message = format("cannot read {}: {}", path, std::strerror(errno))};
}

void addMember(std::string& tar, std::string name, wire::TarMember::Type type,
               std::string_view bytes) {
  tar +=
      wire::tarHead({.name = std::move(name), .type = type, .mode = 0755, .bytes = bytes.size()});
  tar += bytes;
  tar.append(wire::tarPadding(bytes.size()), '\0');
}

Result<> addFile(std::string& tar, const std::string& source, const std::string& target) {
  std::error_code code;
  std::uintmax_t size = fs::file_size(source, code);
  std::string bytes(code ? 0 : static_cast<std::size_t>(size), '\0');
  std::ifstream file(source, std::ios::binary);
  if (code || !file.read(bytes.data(), static_cast<std::streamsize>(bytes.size())))
    return cannotRead(source);
  addMember(tar, target.substr(1), wire::TarMember::Type::File, bytes);
  return {};
}

void addFolders(std::string& tar, const std::string& path, std::set<std::string>& made) {
  std::string folder = fs::path(path).parent_path();
  if (folder == "/" || made.contains(folder)) return;
  addFolders(tar, folder, made);
  addMember(tar, folder.substr(1), wire::TarMember::Type::Folder, {});
  made.insert(folder);
}

}  // namespace

Result<OwnImage> describeOwnImage(const std::string& program) {
  std::string about;
  std::vector<std::string> files = librariesOfThisProcess();
  files.push_back(program);
  for (const std::string& path : files) {
    struct stat found{};
    if (stat(path.c_str(), &found) != 0) return cannotRead(path);
    about +=
        format("{} {} {}.{}\n", path, found.st_size, found.st_mtim.tv_sec, found.st_mtim.tv_nsec);
  }
  return OwnImage{.tag = shortHash(about)};
}

Result<std::string> packOwnImage(const OwnImage& image, const std::string& program) {
  std::string tar;
  std::set<std::string> folders;
  CADRE_TRY(addFile(tar, program, image.program));
  for (const std::string& path : librariesOfThisProcess()) {
    addFolders(tar, path, folders);
    CADRE_TRY(addFile(tar, path, path));
  }
  for (const char* folder : {"/tmp/x", "/services/x"}) addFolders(tar, folder, folders);
  tar += wire::tarEnd();
  return tar;
}

}  // namespace cadre::node
