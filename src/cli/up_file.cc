#include "cli/up_file.h"

#include <cstdlib>
#include <utility>

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
  if (file.descriptor_ >= 0 && flock(file.descriptor_, LOCK_EX | LOCK_NB) != 0)
    return Error{.code = Code::Conflict,
                 .message = format("{} is up already, as process {}: use it, or `cadre down` first",
                                   data.string(), file.process())};
  if (!isInPlace(file.descriptor_, pathOf(data))) return take(data);
  std::string text = format("{}\n", getpid());
  if (ftruncate(file.descriptor_, 0) == 0)
    (void)!pwrite(file.descriptor_, text.data(), text.size(), 0);
  return file;
}

UpFile::UpFile(const fs::path& data)
    : descriptor_(open(pathOf(data).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {}

UpFile::UpFile(UpFile&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

UpFile::~UpFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

bool UpFile::isHeld() const {
  if (descriptor_ < 0 || flock(descriptor_, LOCK_SH | LOCK_NB) != 0) return descriptor_ >= 0;
  flock(descriptor_, LOCK_UN);
  return false;
}

pid_t UpFile::process() const {
  char text[32] = {};
  (void)!pread(descriptor_, text, sizeof text - 1, 0);
  return static_cast<pid_t>(parseInt(trim(text)).value_or(0));
}

}  // namespace cadre::cli
