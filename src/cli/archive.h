#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "base/descriptor.h"
#include "base/function.h"
#include "base/result.h"
#include "wire/tar.h"

namespace cadre::cli {

// Files in one file: a tar, which tar(1) reads, whose last member is a sum over all before it. What
// is large is never held in memory. Everything blocks.

constexpr std::string_view kArchiveSum = "sha256";  // the last member

// Where files are that somebody else may be changing meanwhile: no path leads out of it, whatever
// links are there or get there. Needs openat2.
class Beneath {
 public:
  static Result<Beneath> open(const std::filesystem::path& folder);

  int get() const { return folder_.get(); }
  // A descriptor, or -1 with errno. Through no link, be it the last one.
  int open(const std::string& path, int flags) const;

 private:
  explicit Beneath(Descriptor folder) : folder_(std::move(folder)) {}
  Descriptor folder_;
};

class ArchiveWriter {
 public:
  // Makes the file, for its owner alone. What is there is replaced.
  static Result<ArchiveWriter> make(const std::string& path);
  ArchiveWriter(ArchiveWriter&&) noexcept;
  ~ArchiveWriter();

  Result<> addText(const std::string& name, std::string_view text);
  Result<> addFile(const std::string& name, const std::filesystem::path& file);
  // A folder and all below it: files, folders, links as they are, pipes. Sockets are left out, and
  // so is what goes away meanwhile. A file that is written meanwhile is taken as it is read.
  Result<> addTree(const std::string& name, const std::filesystem::path& folder);
  // The sum, the end, and all of it is on the disk.
  Result<> finish();

  struct Told {
    std::size_t files = 0;
    std::uint64_t bytes = 0;
    std::size_t changed = 0;  // files that were shorter in the end than in the beginning
    std::size_t devices = 0;  // which are left out
  };
  const Told& told() const;
  Function<void(const Told&)> progress = {};  // after each piece

 private:
  struct Impl;
  explicit ArchiveWriter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Puts the files of an archive into an empty folder, never outside of it. The first member's text
// goes to `begin`, which may refuse the rest; `allow` is asked for each of the others.
//   InvalidArgument   no archive of ours, or what `begin` and `allow` say
//   DataLoss          damaged, or cut off: what is in the folder by then is of no use
struct Unpacked {
  std::size_t files = 0;
  std::size_t not_given = 0;  // that could not be given to their former owners
};
Result<Unpacked> unpackArchive(const std::string& path, const Beneath& folder,
                               const std::string& first,
                               const Function<Result<>(std::string_view)>& begin,
                               const Function<bool(const wire::TarMember&)>& allow);

}  // namespace cadre::cli
