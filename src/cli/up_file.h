#pragma once

#include <filesystem>
#include <string>

#include <sys/types.h>

#include "base/descriptor.h"
#include "base/result.h"

namespace cadre::cli {

// ~/.cadre: where `cadre up` keeps what it has, unless --data says otherwise.
std::string defaultFolder();

// up.pid in the folder of a `cadre up`: the process that it is, locked while it lives.
class UpFile {
 public:
  // Takes the folder for this process as long as this is there. Conflict: it is up already.
  static Result<UpFile> take(const std::filesystem::path& data);
  // Only to look at; made where there is none.
  explicit UpFile(const std::filesystem::path& data);

  static std::filesystem::path pathOf(const std::filesystem::path& data) { return data / "up.pid"; }

  bool isHeld() const;
  pid_t process() const;  // the last one that took it; 0: none ever did

 private:
  Descriptor file_;
};

}  // namespace cadre::cli
