#pragma once

// Private to `store`: the files that are touched without SQLite.

#include <string>

#include "base/result.h"

namespace cadre::store {

// A file descriptor that is closed in the end.
class File {
 public:
  File() = default;
  explicit File(int descriptor) : descriptor_(descriptor) {}
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  ~File();

  explicit operator bool() const { return descriptor_ >= 0; }
  int get() const { return descriptor_; }

 private:
  int descriptor_ = -1;
};

// "/data/hub.db cannot be made: the disk is full; free some space": what, why, and what to do.
Error fileError(const std::string& path, std::string_view what, int error);

// Makes the folder of a file, for its owner alone, if that one folder is missing.
Result<void> makeFolderOf(const std::string& path);

// Makes an empty file for its owner alone; what is there is removed.
Result<void> makeEmpty(const std::string& path);

// Puts a whole file in its place so that a power cut leaves either the old one there or the new.
Result<void> moveInto(const std::string& from, const std::string& path);

// 0 when there is no such file.
std::uint64_t sizeOf(const std::string& path);

// A process's claim on PATH, which the kernel ends with the process. Another one's is a Conflict.
Result<File> lock(const std::string& path);
// Whether somebody has that claim now; makes no file.
Result<void> checkUnlocked(const std::string& path);

// PATH.last: the last revision that somebody was told is safe. It is written over and over and
// never waited for, so after a power cut it may be behind; ahead it is only of a file that lost
// something.
class Mark {
 public:
  static Mark open(const std::string& path);
  static std::string pathOf(const std::string& path) { return path + ".last"; }

  std::int64_t read() const;  // 0: nothing is known
  void write(std::int64_t revision) const;

 private:
  File file_;  // none on a disk that was full from the start: then nothing is known
};

}  // namespace cadre::store
