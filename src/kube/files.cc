#include "kube/files.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/format.h"
#include "kube/config.h"

namespace cadre::kube {

namespace {

FileProblem problemOf(int error) {
  if (error == ENOENT || error == ENOTDIR)
    return {Code::NotFound, "does not exist", "check the path"};
  if (error == EISDIR)
    return {Code::InvalidArgument, "is a directory", "name the file that is in it"};
  if (error == ENXIO) return {Code::InvalidArgument, "is a device or a socket", "name a file"};
  Code code = error == EACCES || error == EPERM ? Code::Forbidden : Code::Unavailable;
  return {code, format("cannot be read ({})", std::strerror(error)),
          code == Code::Forbidden ? "make it readable for the user that runs this"
                                  : "check the path and the disk"};
}

std::optional<FileProblem> problemOf(const struct stat& about) {
  if (S_ISDIR(about.st_mode)) return problemOf(EISDIR);
  if (S_ISFIFO(about.st_mode))
    return FileProblem{Code::InvalidArgument, "is a pipe",
                       "write what comes out of it to a file, and name that"};
  // /dev/null is how people say "none".
  bool null = S_ISCHR(about.st_mode) && about.st_rdev == makedev(1, 3);
  if (!S_ISREG(about.st_mode) && !null)
    return FileProblem{Code::InvalidArgument, "is a device or a socket", "name a file"};
  return std::nullopt;
}

}  // namespace

std::optional<FileProblem> readFile(const std::string& path, std::string& out) {
  // Not blocking: opening a pipe would wait for somebody to write to it.
  int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file < 0) return problemOf(errno);
  struct Closer {
    int file;
    ~Closer() { close(file); }
  } closer{file};
  struct stat about{};
  if (fstat(file, &about) != 0) return problemOf(errno);
  if (auto problem = problemOf(about)) return problem;
  out.clear();
  char buffer[16384];
  for (;;) {
    ssize_t got = read(file, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return problemOf(errno);
    if (got == 0) return std::nullopt;
    out.append(buffer, static_cast<std::size_t>(got));
    if (out.size() > kMaxConfigBytes)
      return FileProblem{Code::ResourceExhausted,
                         format("is larger than {} MiB", kMaxConfigBytes >> 20),
                         "name the right file"};
  }
}

}  // namespace cadre::kube
