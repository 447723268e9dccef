#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/function.h"
#include "base/result.h"

namespace cadre::store {

// A place in the history of a log. The first change has 1 or more, each later one a larger one.
using Revision = std::int64_t;

constexpr std::size_t kMaxKeyBytes = 1024;
constexpr std::size_t kMaxValueBytes = std::size_t{3} << 20;

// One key got a value, or lost the one it had. What it refers to belongs to whoever made it; what
// a log hands out lives until the callback returns.
struct Change {
  Revision revision = 0;
  std::string_view key;                   // bytes, at least one
  std::optional<std::string_view> value;  // bytes, maybe none; nothing: the key was deleted
};

// A change, and what the key had before it: nothing if there was no such key.
struct Event : Change {
  std::optional<std::string_view> before;
};

struct Options {
  // Whether what append() said yes to survives a power cut. Without it a power cut may take the
  // last seconds, in whole appends from the end; a killed process still loses nothing.
  bool durable = true;
  // How large the file may get, without what lies beside it; 0: as large as the disk lets it.
  std::uint64_t max_bytes = 0;
};

struct Counts {
  Revision last = 0;       // of the newest change ever, also when nothing is left of it
  Revision compacted = 0;  // history up to here is gone
  std::size_t keys = 0;    // that have a value
  std::size_t rows = 0;    // changes that are kept
  std::uint64_t bytes = 0, free_bytes = 0;  // of the file, and what of it waits to be used again
  std::uint64_t wal_bytes = 0;              // of the file beside it, which is used over and over
};

// The history of some keys in one file: every change is a row, and compact() drops those that no
// longer matter. Keeps all keys that have a value in memory, but no values.
//
// For one thread; every call waits for the disk. One process at a time has a file open: FILE.lock
// holds its id, and the kernel gives the lock back however it ends. FILE-wal belongs to the file as
// long as it is there, and goes with a log that is closed. FILE.last has the last revision that
// append() said yes to, if durable: a file that ends before it has lost something.
//
// An error is one sentence that says what to do. A file that is damaged, or not ours, is never
// written to.
class Log {
 public:
  // Opens the file, or makes one (for its owner alone, as is its folder if only that is missing).
  // Reads it once to see that it is whole, so it takes a while for a large one.
  //   Conflict           another process has it
  //   DataLoss           damaged, or its end is missing: a backup, or moving it away, helps
  //   InvalidArgument    no log at all, or one from a newer Cadre
  //   NotFound, Forbidden, ResourceExhausted, Unavailable    the folder or the disk
  static Result<Log> open(const std::string& path, const Options& options = {});

  Log(Log&&) noexcept;
  Log& operator=(Log&&) noexcept;
  ~Log();

  // Writes all of them, or none; returns when they are as safe as Options::durable says. Revisions
  // increase from change to change and from append to append; only what is there can be deleted.
  // After an error the log is as it was before, and can be used again.
  //   InvalidArgument    a change that is none
  //   ResourceExhausted  no space: try again when there is some
  //   Unavailable        the disk failed
  Result<void> append(std::span<const Change> changes);

  // Every key's newest value, in the order of their revisions, one at a time. Stops at the first
  // error, of its own or of the callback, which must not use the log.
  //   DataLoss           a value is not what was once written
  Result<void> load(const Function<Result<void>(const Change&)>& callback) const;

  // Every change after a revision, in order, as load() does.
  //   Gone               that history is compacted: start again from load()
  //   InvalidArgument    there was no such revision yet
  Result<void> since(Revision revision, const Function<Result<void>(const Event&)>& callback) const;

  // Forgets what was replaced or deleted up to this revision: since() of it and of all after it
  // still works. Does a bounded part of that, and says whether it was the last: if not, call it
  // again when there is time. The file does not shrink, its free pages are used again.
  Result<bool> compact(Revision revision);

  // Writes the log as it is now into one other file, replacing what is there: a log itself, to be
  // opened in this one's place (when that and its FILE-wal are out of the way). Either it is there
  // as a whole, and on the disk, or the place is as it was.
  Result<void> backup(const std::string& path) const;

  // Gives a backup that came from elsewhere its name, when it is whole and on the disk.
  static Result<Counts> accept(const std::string& arrived, const std::string& path);

  // Puts a backup, which stays as it is, in the place of a log that is to be: nothing may be there.
  // Only its state, without history, and with revisions that begin far behind all that there were:
  // since() of any of those is Gone.
  static Result<Counts> restore(const std::string& backup, const std::string& path);

  // Reads a file that nobody has open, such as a backup, to the last byte and changes nothing:
  // whether Log::open and load would take it.
  static Result<Counts> verify(const std::string& path);

  Revision last() const;       // 0 before the first change
  Revision compacted() const;  // 0 before the first compaction
  Counts counts() const;

 private:
  struct Impl;
  explicit Log(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace cadre::store
