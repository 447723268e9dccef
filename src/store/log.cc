#include "store/log.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/format.h"
#include "base/strings.h"
#include "store/files.h"
#include "store/sqlite.h"

namespace cadre::store {

namespace {

constexpr std::int64_t kApplication = 0x43614c67;  // "CaLg", in the file's header
constexpr std::int64_t kVersion = 1;

// Most Kubernetes objects fit into one; for speed 4 and 16 KiB do as well, as far as was measured.
constexpr int kPageBytes = 8192;
// Every so many pages what is in FILE-wal moves into the file, within the append that filled it.
constexpr int kCheckpointPages = 1024;
constexpr int kWalBytes = 16 << 20;  // what an unusually large append leaves of it

// How much one call of compact() does at most. What it drops may lie on a page each, and every one
// of those is written.
constexpr std::int64_t kCompactRows = 200;
constexpr std::int64_t kCompactBytes = 8 << 20;

// More than were written between a backup and its restoration.
constexpr Revision kRestoredAhead = 1'000'000'000;

// `previous` is the revision of the value that the change replaces, 0 if there was none. With it
// neither compaction nor a deletion's last value needs an index by key, which would cost every
// append another page (README.md has what that was measured to cost). `sum` finds what a disk made
// of the rest.
constexpr std::string_view kTables[] = {
    "CREATE TABLE compacted (revision INTEGER NOT NULL, sum INTEGER NOT NULL) STRICT",
    "CREATE TABLE revision (revision INTEGER PRIMARY KEY, previous INTEGER NOT NULL, sum INTEGER "
    "NOT NULL, key BLOB NOT NULL, value BLOB) STRICT",
};

using Keys = std::map<std::string, Revision, std::less<>>;

std::string walPath(const std::string& path) { return path + "-wal"; }

// ---------------------------------------------------------------------------------------------
// Sums: against accidents, not against attackers; part of the format

class Sum {
 public:
  Sum& add(std::uint64_t word) {
    state_ = (state_ ^ word) * 0x9e3779b97f4a7c15;
    state_ ^= state_ >> 32;
    return *this;
  }
  Sum& add(std::string_view bytes) {
    add(bytes.size());
    std::uint64_t word = 0;
    for (; bytes.size() >= sizeof word; bytes.remove_prefix(sizeof word)) {
      std::memcpy(&word, bytes.data(), sizeof word);
      add(word);
    }
    word = 0;
    if (!bytes.empty()) std::memcpy(&word, bytes.data(), bytes.size());
    return add(word);
  }
  std::int64_t value() const { return static_cast<std::int64_t>(state_); }

 private:
  std::uint64_t state_ = 0x43616472654c6f67;
};

std::int64_t sumOf(const Change& change, Revision previous) {
  Sum sum;
  sum.add(static_cast<std::uint64_t>(change.revision)).add(static_cast<std::uint64_t>(previous));
  sum.add(change.key).add(change.value ? 1 : 0).add(change.value.value_or(""));
  return sum.value();
}

std::int64_t sumOf(Revision compacted) {
  return Sum().add(static_cast<std::uint64_t>(compacted)).value();
}

// ---------------------------------------------------------------------------------------------
// Looking at a file before it is trusted

// What SQLite would not say in words, or would not mind.
Result<void> checkHeader(const std::string& path) {
  File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file && errno == ENOENT)
    return Error{Code::NotFound, format("{} does not exist: check the path", path)};
  if (!file) return fileError(path, "cannot be read", errno);
  struct stat about{};
  if (fstat(file.get(), &about) != 0) return fileError(path, "cannot be read", errno);
  if (S_ISDIR(about.st_mode)) return fileError(path, "cannot be read", EISDIR);
  if (!S_ISREG(about.st_mode))
    return Error{Code::InvalidArgument, format("{} is no file: name one on a disk", path)};
  if (about.st_size == 0) return damaged(path, "it is empty");

  constexpr std::size_t kHeader = 100, kPageSize = 16, kReadVersion = 19;
  constexpr std::string_view kMagic("SQLite format 3\0", 16);
  char header[kHeader];
  ssize_t got = pread(file.get(), header, kHeader, 0);
  if (got < 0) return fileError(path, "cannot be read", errno);
  if (static_cast<std::size_t>(got) < kHeader) return damaged(path, "it is cut off");
  if (std::string_view(header, kMagic.size()) != kMagic)
    return damaged(path, "it does not begin as a log does");
  bool wal = sizeOf(walPath(path)) != 0;
  // A page that is not all there is of no account if it is still in FILE-wal.
  auto byte = [&](std::size_t at) { return static_cast<unsigned char>(header[at]); };
  std::int64_t page = byte(kPageSize) << 8 | byte(kPageSize + 1);
  if (!wal && page > 1 && about.st_size % page != 0) return damaged(path, "it is cut off");
  // Only a log that was in use has a FILE-wal, a backup never does. SQLite would mix the two.
  if (byte(kReadVersion) == 1 && wal)
    return Error{
        Code::InvalidArgument,
        format("{} is a backup, but {}-wal beside it is of the file that was there before: "
               "move {}-wal away",
               path, path, path)};
  return {};
}

Result<void> checkTables(const Database& database) {
  const std::string& path = database.path();
  CADRE_LET(auto application, database.number("PRAGMA application_id"));
  if (application != kApplication)
    return Error{Code::InvalidArgument,
                 format("{} is a database, but of some other program: name another file", path)};
  CADRE_LET(auto version, database.number("PRAGMA user_version"));
  if (version > kVersion)
    return Error{Code::InvalidArgument,
                 format("{} was written by a newer Cadre (format {}, and this one knows {}): use "
                        "that one, or another file",
                        path, version, kVersion)};
  if (version != kVersion) return damaged(path, format("there is no format {}", version));
  CADRE_LET(std::string found, database.text("PRAGMA quick_check(1)"));
  if (found != "ok") {
    std::replace(found.begin(), found.end(), '\n', ' ');
    return damaged(path, shorten(found, 200));
  }
  CADRE_LET(std::string tables, database.text("SELECT group_concat(sql, ';') FROM "
                                              "(SELECT sql FROM sqlite_schema ORDER BY name)"));
  if (tables != format("{};{}", kTables[0], kTables[1]))
    return damaged(path, "its tables are not those of a log");
  return {};
}

// What is in the rows, as far as it is kept in memory.
struct Contents {
  Keys keys;
  Revision last = 0, compacted = 0;
  std::size_t rows = 0;

  // Takes the next row; false if it does not follow from those before it.
  bool add(const Change& change, Revision previous);
};

bool Contents::add(const Change& change, Revision previous) {
  if (change.revision <= 0 || change.key.empty() || change.key.size() > kMaxKeyBytes) return false;
  ++rows;
  last = std::max(last, change.revision);
  auto found = keys.find(change.key);
  Revision newest = found == keys.end() ? 0 : found->second;
  // Up to the compacted revision there is each key's value at that time, and nothing else.
  if (change.revision <= compacted ? newest != 0 || !change.value : newest != previous)
    return false;
  if (change.value) {
    keys.insert_or_assign(std::string(change.key), change.revision);
    return true;
  }
  if (newest == 0) return false;
  keys.erase(found);
  return true;
}

enum class Values { Skipped, Checked };

Result<Contents> readContents(const Database& database, Values values) {
  Contents contents;
  CADRE_LET(contents.compacted, database.number("SELECT revision FROM compacted"));
  CADRE_LET(auto sum, database.number("SELECT sum FROM compacted"));
  CADRE_LET(auto marks, database.number("SELECT count(*) FROM compacted"));
  if (marks != 1 || sum != sumOf(contents.compacted))
    return damaged(database.path(), "the compacted revision is not what was written");
  contents.last = contents.compacted;

  bool checked = values == Values::Checked;
  // Without values nothing is read of those that have pages of their own.
  CADRE_LET(Statement row,
            database.prepare(checked ? "SELECT revision, previous, key, value, sum FROM revision "
                                       "ORDER BY revision"
                                     : "SELECT revision, previous, key, iif(value IS NULL, NULL, "
                                       "x'') FROM revision ORDER BY revision"));
  int code = row.step();
  for (; code == SQLITE_ROW; code = row.step()) {
    Change change{row.number(0), row.bytes(2).value_or(""), row.bytes(3)};
    if (!contents.add(change, row.number(1)) ||
        (checked && sumOf(change, row.number(1)) != row.number(4)))
      return damaged(database.path(),
                     format("revision {} is not what was written", change.revision));
  }
  if (code != SQLITE_DONE) return database.failure();
  return contents;
}

// Whether it is whole, and what is in it.
Result<Contents> inspect(const Database& database, Values values) {
  Result<void> tables = checkTables(database);
  auto contents = tables.ok() ? readContents(database, values) : std::move(tables).error();
  // What we ask is right: if SQLite finds fault with it, the file is not as it was made.
  if (!contents.ok() && contents.error().code == Code::Internal)
    return damaged(database.path(), contents.error().message);
  return contents;
}

// ---------------------------------------------------------------------------------------------
// A new file: made beside its place, so that whatever is in that place was once whole

Result<void> fill(const std::string& path) {
  CADRE_LET(Database database, Database::open(path, Database::Mode::ReadWrite));
  CADRE_TRY(database.run(format("PRAGMA page_size = {}", kPageBytes)));
  CADRE_TRY(database.run("BEGIN"));
  CADRE_TRY(database.run(format("PRAGMA application_id = {}", kApplication)));
  CADRE_TRY(database.run(format("PRAGMA user_version = {}", kVersion)));
  for (std::string_view table : kTables) CADRE_TRY(database.run(table));
  CADRE_TRY(database.run(format("INSERT INTO compacted VALUES (0, {})", sumOf(0))));
  return database.run("COMMIT");
}

void removeUnfinished(const std::string& path) {
  for (const char* suffix : {"", "-journal"}) unlink((path + suffix).c_str());
}

// Either the whole of it is there in the end, and on the disk, or the place is as it was.
Result<void> copyInto(
    const Database& database, const std::string& path,
    const Function<Result<void>(const std::string&)>& change = [](const auto&) {
      return Result<void>();
    }) {
  std::string unfinished = path + ".new";
  removeUnfinished(unfinished);
  CADRE_TRY(makeEmpty(unfinished));
  auto write = [&]() -> Result<void> {
    CADRE_LET(Statement vacuum, database.prepare("VACUUM INTO ?"));
    std::string name = plainName(unfinished);
    if (vacuum.bindText(1, name).step() != SQLITE_DONE) return database.failure(unfinished);
    return {};
  };
  Result<void> written = write();
  if (written.ok()) written = change(unfinished);
  if (written.ok()) written = moveInto(unfinished, path);
  if (!written.ok()) removeUnfinished(unfinished);
  return written;
}

Result<void> create(const std::string& path) {
  for (const std::string& beside : {walPath(path), Mark::pathOf(path)})
    if (sizeOf(beside) != 0)
      return Error{Code::DataLoss,
                   format("{} is missing, but {} of it is there: put it back, or move {} away to "
                          "begin with nothing",
                          path, beside, beside)};
  std::string unfinished = path + ".new";
  removeUnfinished(unfinished);
  CADRE_TRY(makeEmpty(unfinished));
  Result<void> made = fill(unfinished);
  if (made.ok()) made = moveInto(unfinished, path);
  if (!made.ok()) removeUnfinished(unfinished);
  return made;
}

// Takes the history out, and goes on far behind the last revision: whatever was written after the
// backup, nobody may take a revision of then for one of what comes.
Result<void> beginAnew(const std::string& path) {
  CADRE_LET(Database database, Database::open(path, Database::Mode::ReadWrite));
  CADRE_LET(Contents contents, readContents(database, Values::Skipped));
  Revision begin = contents.last + kRestoredAhead;
  CADRE_TRY(database.run("BEGIN"));
  CADRE_TRY(database.run(
      "DELETE FROM revision WHERE value IS NULL OR revision IN (SELECT previous FROM revision)"));
  CADRE_TRY(
      database.run(format("UPDATE compacted SET revision = {}, sum = {}", begin, sumOf(begin))));
  return database.run("COMMIT");
}

Result<void> checkChange(const Change& change, Revision last) {
  if (change.key.empty() || change.key.size() > kMaxKeyBytes)
    return Error{Code::InvalidArgument,
                 format("a key has 1 to {} bytes, not {}", kMaxKeyBytes, change.key.size())};
  if (change.value && change.value->size() > kMaxValueBytes)
    return Error{Code::InvalidArgument,
                 format("the value of {} has {} bytes, more than {} MiB", shorten(change.key, 200),
                        change.value->size(), kMaxValueBytes >> 20)};
  if (change.revision <= last)
    return Error{Code::InvalidArgument, format("revision {} of {} does not come after {}",
                                               change.revision, shorten(change.key, 200), last)};
  return {};
}

}  // namespace

// ---------------------------------------------------------------------------------------------

struct Log::Impl {
  File lock;  // given back last
  Mark acknowledged;
  Database database;
  Statement begin, commit, rollback, insert, read, history, walk, drop, mark;
  Contents contents;
  std::uint64_t page_bytes = 0;  // not ours, if somebody vacuumed it to other ones

  Result<void> set(const Options& options);
  Result<void> prepare();
  // Runs the work and keeps all of it, or nothing.
  Result<void> transaction(const Function<Result<void>()>& work);
  Result<void> done(Statement& statement) {  // of one that gives no rows
    Use use(statement);
    if (use->step() != SQLITE_DONE) return database.failure();
    return {};
  }
  Error wrongRow(Revision revision) const {
    return damaged(database.path(), format("revision {} is not what was written", revision));
  }
};

Result<void> Log::Impl::set(const Options& options) {
  CADRE_LET(std::string mode, database.text("PRAGMA journal_mode = WAL"));
  if (mode != "wal")
    return Error{
        Code::Unavailable,
        format("{} cannot be used with a write-ahead log: use another folder", database.path())};
  // FULL waits for the disk at each commit; OFF leaves the time of writing to the kernel, which
  // may then write a page before the log of it: NORMAL costs as little and keeps the order.
  CADRE_TRY(
      database.run(options.durable ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL"));
  CADRE_TRY(database.run(format("PRAGMA wal_autocheckpoint = {}", kCheckpointPages)));
  CADRE_TRY(database.run(format("PRAGMA journal_size_limit = {}", kWalBytes)));
  // Debian's default writes zeros over all that is dropped, at the price of writing it again.
  CADRE_TRY(database.run("PRAGMA secure_delete = FAST"));
  CADRE_LET(auto page, database.number("PRAGMA page_size"));
  page_bytes = static_cast<std::uint64_t>(page);
  if (options.max_bytes == 0) return {};
  auto pages = std::min<std::uint64_t>(options.max_bytes / page_bytes, INT32_MAX);
  return database.run(format("PRAGMA max_page_count = {}", std::max<std::uint64_t>(pages, 1)));
}

Result<void> Log::Impl::prepare() {
  const std::pair<Statement*, std::string_view> statements[] = {
      {&begin, "BEGIN IMMEDIATE"},
      {&commit, "COMMIT"},
      {&rollback, "ROLLBACK"},
      {&insert, "INSERT INTO revision VALUES (?, ?, ?, ?, ?)"},
      {&read, "SELECT previous, sum, key, value FROM revision WHERE revision = ?"},
      {&history,
       "SELECT r.revision, r.previous, r.sum, r.key, r.value, p.previous, p.sum, p.key, p.value "
       "FROM revision r LEFT JOIN revision p ON p.revision = r.previous "
       "WHERE r.revision > ? ORDER BY r.revision"},
      {&walk,
       "SELECT r.revision, r.previous, r.value IS NULL, length(p.value) "
       "FROM revision r LEFT JOIN revision p ON p.revision = r.previous "
       "WHERE r.revision > ? AND r.revision <= ? ORDER BY r.revision LIMIT ?"},
      {&drop, "DELETE FROM revision WHERE revision = ?"},
      {&mark, "UPDATE compacted SET revision = ?, sum = ?"},
  };
  for (const auto& [statement, sql] : statements) {
    CADRE_LET(*statement, database.prepare(sql));
  }
  return {};
}

Result<void> Log::Impl::transaction(const Function<Result<void>()>& work) {
  CADRE_TRY(done(begin));
  Result<void> result = work();
  if (result.ok()) result = done(commit);
  // Some failures have rolled back by themselves.
  if (!result.ok() && database.inTransaction()) (void)done(rollback);
  return result;
}

Log::Log(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Log::Log(Log&&) noexcept = default;
Log& Log::operator=(Log&&) noexcept = default;
Log::~Log() = default;

Result<Log> Log::open(const std::string& path, const Options& options) {
  auto impl = std::make_unique<Impl>();
  CADRE_TRY(makeFolderOf(path));
  CADRE_LET(impl->lock, lock(path));
  // What need not survive a power cut may well be behind what was once said.
  if (options.durable) {
    impl->acknowledged = Mark::open(path);
  } else {
    unlink(Mark::pathOf(path).c_str());
  }
  Revision acknowledged = impl->acknowledged.read();
  if (access(path.c_str(), F_OK) != 0 && errno == ENOENT) CADRE_TRY(create(path));
  CADRE_TRY(checkHeader(path));
  CADRE_LET(impl->database, Database::open(path, Database::Mode::ReadWrite));
  const Database& database = impl->database;
  auto tidyUpOnClose = [&](bool tidy) {
    sqlite3_db_config(database.handle(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, tidy ? 0 : 1, nullptr);
  };
  tidyUpOnClose(false);  // a file that is refused stays as it is, and so does what is beside it
  // Also needs no third file, for memory that processes would share.
  CADRE_TRY(database.run("PRAGMA locking_mode = EXCLUSIVE"));
  CADRE_LET(impl->contents, inspect(database, Values::Skipped));
  if (impl->contents.last < acknowledged)
    return Error{
        Code::DataLoss,
        format("{} ends at revision {}, but {} was acknowledged: {}-wal is damaged, was taken "
               "away, or the file is an older one; put the right ones back, restore a "
               "backup, or remove {} to go on with what is there",
               path, impl->contents.last, acknowledged, path, Mark::pathOf(path))};
  CADRE_TRY(impl->set(options));
  CADRE_TRY(impl->prepare());
  impl->acknowledged.write(impl->contents.last);
  tidyUpOnClose(true);
  return Log(std::move(impl));
}

Result<void> Log::append(std::span<const Change> changes) {
  Contents& contents = impl_->contents;
  Contents before{.keys = {}, .last = contents.last, .rows = contents.rows};
  std::vector<std::pair<std::string_view, Revision>> replaced;  // to take it all back
  replaced.reserve(changes.size());

  Result<void> result = impl_->transaction([&]() -> Result<void> {
    for (const Change& change : changes) {
      CADRE_TRY(checkChange(change, contents.last));
      auto found = contents.keys.find(change.key);
      Revision previous = found == contents.keys.end() ? 0 : found->second;
      if (!contents.add(change, previous))
        return Error{Code::InvalidArgument,
                     format("{} is not there to be deleted", shorten(change.key, 200))};
      replaced.emplace_back(change.key, previous);
      Use insert(impl_->insert);
      insert->bind(1, change.revision).bind(2, previous).bind(3, sumOf(change, previous));
      insert->bind(4, change.key).bind(5, change.value);
      if (insert->step() != SQLITE_DONE) return impl_->database.failure();
    }
    return {};
  });
  if (result.ok()) {
    impl_->acknowledged.write(contents.last);
    return result;
  }
  contents.last = before.last;
  contents.rows = before.rows;
  std::reverse(replaced.begin(), replaced.end());
  for (const auto& [key, previous] : replaced) {
    if (previous != 0) {
      contents.keys.insert_or_assign(std::string(key), previous);
    } else if (auto found = contents.keys.find(key); found != contents.keys.end()) {
      contents.keys.erase(found);
    }
  }
  return result;
}

Result<void> Log::load(const Function<Result<void>(const Change&)>& callback) const {
  std::vector<Revision> revisions;
  revisions.reserve(impl_->contents.keys.size());
  for (const auto& [key, revision] : impl_->contents.keys) revisions.push_back(revision);
  std::sort(revisions.begin(), revisions.end());
  for (Revision revision : revisions) {
    Use row(impl_->read);
    int code = row->bind(1, revision).step();
    if (code == SQLITE_DONE) return impl_->wrongRow(revision);
    if (code != SQLITE_ROW) return impl_->database.failure();
    Change change{revision, row->bytes(2).value_or(""), row->bytes(3)};
    if (sumOf(change, row->number(0)) != row->number(1)) return impl_->wrongRow(revision);
    CADRE_TRY(callback(change));
  }
  return {};
}

Result<void> Log::since(Revision revision,
                        const Function<Result<void>(const Event&)>& callback) const {
  if (revision < compacted())
    return Error{Code::Gone, format("the history after revision {} is gone: only what came after "
                                    "{} is there; read everything again",
                                    revision, compacted())};
  if (revision > last())
    return Error{Code::InvalidArgument,
                 format("there is no revision {} yet: the last is {}", revision, last())};
  Use row(impl_->history);
  int code = row->bind(1, revision).step();
  for (; code == SQLITE_ROW; code = row->step()) {
    Revision previous = row->number(1);
    Event event{{row->number(0), row->bytes(3).value_or(""), row->bytes(4)}, row->bytes(8)};
    if (sumOf(event, previous) != row->number(2)) return impl_->wrongRow(event.revision);
    Change replaced{previous, row->bytes(7).value_or(""), event.before};
    if (previous != 0 && sumOf(replaced, row->number(5)) != row->number(6))
      return impl_->wrongRow(previous);
    CADRE_TRY(callback(event));
  }
  if (code != SQLITE_DONE) return impl_->database.failure();
  return {};
}

Result<bool> Log::compact(Revision revision) {
  Contents& contents = impl_->contents;
  if (revision > contents.last)
    return Error{Code::InvalidArgument,
                 format("there is no revision {} yet: the last is {}", revision, contents.last)};
  if (revision <= contents.compacted) return true;

  // Going through the changes in order, each makes the one that it replaces superfluous, and a
  // deletion also itself. What stays is each key's value at the last of them.
  std::vector<Revision> superfluous;
  Revision reached = revision;
  {
    Use row(impl_->walk);
    row->bind(1, contents.compacted).bind(2, revision).bind(3, kCompactRows);
    std::int64_t rows = 0, bytes = 0;
    int code = row->step();
    for (; code == SQLITE_ROW; code = row->step()) {
      if (row->number(1) != 0) superfluous.push_back(row->number(1));
      if (row->number(2) != 0) superfluous.push_back(row->number(0));
      bytes += row->number(3);
      if (++rows < kCompactRows && bytes < kCompactBytes) continue;
      reached = row->number(0);
      break;
    }
    if (code != SQLITE_ROW && code != SQLITE_DONE) return impl_->database.failure();
  }
  std::sort(superfluous.begin(), superfluous.end());  // page by page
  CADRE_TRY(impl_->transaction([&]() -> Result<void> {
    for (Revision each : superfluous) {
      impl_->drop.bind(1, each);
      CADRE_TRY(impl_->done(impl_->drop));
    }
    impl_->mark.bind(1, reached).bind(2, sumOf(reached));
    return impl_->done(impl_->mark);
  }));
  contents.compacted = reached;
  contents.rows -= superfluous.size();
  return reached == revision;
}

Result<void> Log::backup(const std::string& path) const {
  CADRE_TRY(checkUnlocked(path));  // that of this log is its own
  if (sizeOf(walPath(path)) != 0)
    return Error{Code::InvalidArgument,
                 format("{} is a log that was not closed, for {}-wal is there: back up to another "
                        "file",
                        path, path)};
  return copyInto(impl_->database, path);
}

Result<Counts> Log::restore(const std::string& backup, const std::string& path) {
  CADRE_TRY(verify(backup));
  for (const std::string& there : {path, walPath(path)})
    if (sizeOf(there) != 0)
      return Error{Code::Conflict,
                   format("{} is there: move it away, or restore to another place", there)};
  CADRE_TRY(makeFolderOf(path));
  CADRE_LET(Database database, Database::open(backup, Database::Mode::ReadOnlyUnchanging));
  unlink(Mark::pathOf(path).c_str());  // of what was there before
  CADRE_TRY(copyInto(database, path, beginAnew));
  return verify(path);
}

Result<Counts> Log::accept(const std::string& arrived, const std::string& path) {
  CADRE_LET(Counts counts, verify(arrived));
  CADRE_TRY(moveInto(arrived, path));
  return counts;
}

Result<Counts> Log::verify(const std::string& path) {
  CADRE_TRY(checkHeader(path));
  CADRE_TRY(checkUnlocked(path));
  if (sizeOf(walPath(path)) != 0)
    return Error{Code::InvalidArgument,
                 format("{} is a log that was not closed, for {}-wal is there: open it instead",
                        path, path)};
  CADRE_LET(Database database, Database::open(path, Database::Mode::ReadOnlyUnchanging));
  CADRE_LET(Contents contents, inspect(database, Values::Checked));
  return Counts{.last = contents.last,
                .compacted = contents.compacted,
                .keys = contents.keys.size(),
                .rows = contents.rows,
                .bytes = sizeOf(path)};
}

Revision Log::last() const { return impl_->contents.last; }
Revision Log::compacted() const { return impl_->contents.compacted; }

Counts Log::counts() const {
  const Database& database = impl_->database;
  auto bytes = [&](std::string_view pragma) {
    auto pages = database.number(pragma);
    return pages.ok() ? static_cast<std::uint64_t>(*pages) * impl_->page_bytes : 0;
  };
  return {.last = last(),
          .compacted = compacted(),
          .keys = impl_->contents.keys.size(),
          .rows = impl_->contents.rows,
          .bytes = bytes("PRAGMA page_count"),
          .free_bytes = bytes("PRAGMA freelist_count"),
          .wal_bytes = sizeOf(walPath(database.path()))};
}

}  // namespace cadre::store
