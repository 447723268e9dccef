#include "cli/up_file.h"

#include <cstdlib>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/format.h"
#include "base/strings.h"

namespace cadre::cli {
namespace {

namespace fs = std::filesystem;

// Whether the folder still has this very file: `cadre restore` puts another folder in its place.
bool isInPlace(int descriptor, const fs::path& path) {
  struct stat mine{}, there{};
  return fstat(descriptor, &mine) != 0 || stat(path.c_str(), &there) != 0 ||
         (mine.st_dev == there.st_dev && mine.st_ino == there.st_ino);
}

}  // namespace

std::string defaultFolder() {
  const char* home = std::getenv("HOME");
  return format("{}/.cadre", home ? home : ".");
}

Result<UpFile> UpFile::take(const fs::path& data) {
  UpFile file(data);
  if (file.file_ && flock(file.file_.get(), LOCK_EX | LOCK_NB) != 0)
    return Error{.code = Code::Conflict,
                 .message = format("{} is up already, as process {}: use it, or `cadre down` first",
                                   data.string(), file.process())};
  if (!isInPlace(file.file_.get(), pathOf(data))) return take(data);
  std::string text = format("{}\n", getpid());
  if (ftruncate(file.file_.get(), 0) == 0)
    (void)!pwrite(file.file_.get(), text.data(), text.size(), 0);
  return file;
}

UpFile::UpFile(const fs::path& data)
    : file_(open(pathOf(data).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {}

bool UpFile::isHeld() const {
  if (!file_ || flock(file_.get(), LOCK_SH | LOCK_NB) != 0) return bool(file_);
  flock(file_.get(), LOCK_UN);
  return false;
}

pid_t UpFile::process() const {
  char text[32] = {};
  (void)!pread(file_.get(), text, sizeof text - 1, 0);
  return static_cast<pid_t>(parseInt(trim(text)).value_or(0));
}

}  // namespace cadre::cli
