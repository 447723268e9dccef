#include "store/files.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/format.h"
#include "base/strings.h"

namespace cadre::store {

namespace {

constexpr mode_t kOwnerOnly = 0600, kOwnerOnlyFolder = 0700;

std::string lockPath(const std::string& path) { return path + ".lock"; }

std::string folderOf(const std::string& path) {
  std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

// What was written there, if there was time, and space, to do so.
std::optional<std::int64_t> numberIn(int file) {
  char text[32];
  ssize_t got = pread(file, text, sizeof text, 0);
  return got > 0 ? parseInt(trim({text, static_cast<std::size_t>(got)})) : std::nullopt;
}

Error taken(const std::string& path, int file) {
  auto process = numberIn(file);
  return {Code::Conflict,
          format("{} is in use by {}: end that one first, or use another file", path,
                 process ? format("process {}", *process) : "another process")};
}

Result<void> syncFile(const std::string& path, int flags) {
  File file(open(path.c_str(), flags | O_CLOEXEC));
  if (!file || fsync(file.get()) != 0) return fileError(path, "cannot be written", errno);
  return {};
}

}  // namespace

File::File(File&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

File& File::operator=(File&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

File::~File() {
  if (descriptor_ >= 0) close(descriptor_);
}

Error fileError(const std::string& path, std::string_view what, int error) {
  struct Words {
    Code code;
    std::string_view why, fix;
  };
  auto words = [error]() -> Words {
    switch (error) {
      case ENOENT:
      case ENOTDIR:
        return {Code::NotFound, "its folder does not exist", "make the folder, or check the path"};
      case EACCES:
      case EPERM:
        return {Code::Forbidden, "permission denied",
                "let the user that runs this read and write it and its folder"};
      case EROFS:
        return {Code::Forbidden, "the file system is read-only", "use a folder on another one"};
      case ENOSPC:
      case EDQUOT:
        return {Code::ResourceExhausted, "the disk is full", "free some space and try again"};
      case EFBIG:
        return {Code::ResourceExhausted, "files may not get that large here",
                "raise the limit (ulimit -f)"};
      case EISDIR:
        return {Code::InvalidArgument, "it is a folder", "name a file in it"};
      case ELOOP:
        return {Code::InvalidArgument, "it is a symbolic link", "name the file itself"};
      case EMFILE:
      case ENFILE:
        return {Code::ResourceExhausted, "too many files are open", "raise the limit (ulimit -n)"};
      default:
        return {Code::Unavailable, "", "check the disk"};
    }
  }();
  return {words.code, format("{} {}: {}; {}", path, what,
                             words.why.empty() ? std::string_view(std::strerror(error)) : words.why,
                             words.fix)};
}

Result<void> makeFolderOf(const std::string& path) {
  std::string folder = folderOf(path);
  if (mkdir(folder.c_str(), kOwnerOnlyFolder) == 0 || errno == EEXIST) return {};
  return fileError(folder, "cannot be made", errno);
}

Result<void> makeEmpty(const std::string& path) {
  if (unlink(path.c_str()) != 0 && errno != ENOENT)
    return fileError(path, "cannot be replaced", errno);
  File file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kOwnerOnly));
  if (!file) return fileError(path, "cannot be made", errno);
  return {};
}

Result<void> moveInto(const std::string& from, const std::string& path) {
  CADRE_TRY(syncFile(from, O_RDONLY));
  if (rename(from.c_str(), path.c_str()) != 0) return fileError(path, "cannot be made", errno);
  return syncFile(folderOf(path), O_RDONLY | O_DIRECTORY);  // the name is on the disk too
}

std::uint64_t sizeOf(const std::string& path) {
  struct stat about{};
  return stat(path.c_str(), &about) == 0 ? static_cast<std::uint64_t>(about.st_size) : 0;
}

Result<File> lock(const std::string& path) {
  std::string name = lockPath(path);
  // Not SQLite's own lock: that is lost when any part of this process opens the file and closes it.
  File file(open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, kOwnerOnly));
  if (!file) return fileError(name, "cannot be made", errno);
  if (flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return taken(path, file.get());
    return fileError(name, "cannot be locked", errno);
  }
  // Who has it is only for people: on a full disk nobody gets to know.
  std::string process = format("{}\n", getpid());
  if (ftruncate(file.get(), 0) == 0) [[maybe_unused]]
    ssize_t ignored = pwrite(file.get(), process.data(), process.size(), 0);
  return file;
}

Result<void> checkUnlocked(const std::string& path) {
  File file(open(lockPath(path).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (file && flock(file.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    return taken(path, file.get());
  return {};
}

Mark Mark::open(const std::string& path) {
  Mark mark;
  mark.file_ =
      File(::open(pathOf(path).c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, kOwnerOnly));
  return mark;
}

std::int64_t Mark::read() const { return file_ ? numberIn(file_.get()).value_or(0) : 0; }

void Mark::write(std::int64_t revision) const {
  std::string text = format("{:20}\n", revision);  // always as long: it needs no more space
  if (file_) [[maybe_unused]]
    ssize_t ignored = pwrite(file_.get(), text.data(), text.size(), 0);
}

}  // namespace cadre::store
