#include "node/overlay.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/format.h"

namespace cadre::node {
namespace {

namespace fs = std::filesystem;

Error cannot(std::string_view what) {
  return {.code = Code::Unavailable, .message = format("{}: {}", what, std::strerror(errno))};
}

// Who is not root becomes the root of a namespace in which he is the same user as before.
Result<> leaveOthersAlone() {
  const auto user = geteuid();
  const auto group = getegid();
  if (unshare(CLONE_NEWNS | (user == 0 ? 0 : CLONE_NEWUSER)) != 0)
    return cannot("no namespace for an image");
  if (user != 0) {
    std::ofstream("/proc/self/setgroups") << "deny";
    std::ofstream("/proc/self/uid_map") << format("{0} {0} 1", user);
    std::ofstream("/proc/self/gid_map") << format("{0} {0} 1", group);
  }
  if (mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0)
    return cannot("no namespace for an image");
  return {};
}

}  // namespace

Result<> enterOverlay(const std::string& tree, const std::string& folder) {
  CADRE_TRY(leaveOthersAlone());
  std::error_code ignored;
  // Paths are passed on as open files: in the words for the mount, some characters mean others.
  Descriptor open_folders[3];
  std::string paths[3] = {tree, folder + "/upper", folder + "/work"};
  for (int i = 0; i < 3; ++i) {
    if (i > 0) fs::create_directories(paths[i], ignored);
    open_folders[i] = Descriptor(open(paths[i].c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!open_folders[i]) return cannot(paths[i]);
    paths[i] = format("/proc/self/fd/{}", open_folders[i].get());
  }
  const std::string merged = folder + "/merged";
  fs::create_directories(merged, ignored);
  const std::string how = format("lowerdir={},upperdir={},workdir={}{}", paths[0], paths[1],
                                 paths[2], geteuid() == 0 ? "" : ",userxattr");
  if (mount("overlay", merged.c_str(), "overlay", 0, how.c_str()) != 0)
    return cannot("an image cannot be written to");
  return {};
}

void openOverlay(const std::string& folder) {
  std::error_code ignored;
  fs::permissions(fs::path(folder) / "work" / "work", fs::perms::owner_all, ignored);
}

bool canOverlay(const std::string& folder) {
  const std::string place = folder + "/.overlay";
  std::error_code ignored;
  fs::create_directories(place + "/tree", ignored);
  pid_t child = fork();
  if (child == 0) {
    bool works = enterOverlay(place + "/tree", place).ok() &&
                 mkdir((place + "/merged/made").c_str(), 0700) == 0;
    _exit(works ? 0 : 1);
  }
  int status = 1;
  while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  openOverlay(place);
  fs::remove_all(place, ignored);
  return status == 0;
}

}  // namespace cadre::node
