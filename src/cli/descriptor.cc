#include "cli/descriptor.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/format.h"
#include "base/strings.h"

namespace cadre::cli {

Error cannot(std::string_view what, const std::string& path) {
  const int error = errno;
  Code code = Code::Unavailable;
  std::string_view help;
  if (error == EACCES || error == EPERM) {
    code = Code::Forbidden;
    help = "; become its owner first, or root";
  } else if (error == ENOSPC || error == EDQUOT) {
    code = Code::ResourceExhausted;
    help = "; free some space";
  }
  return {.code = code,
          .message = format("cannot {} {}: {}{}", what, path, std::strerror(error), help)};
}

int holderOf(const std::string& path) {
  Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file || flock(file.get(), LOCK_SH | LOCK_NB) == 0 || errno != EWOULDBLOCK) return 0;
  char text[32] = {};
  (void)!pread(file.get(), text, sizeof text - 1, 0);
  return static_cast<int>(parseInt(trim(text)).value_or(-1));
}

}  // namespace cadre::cli
