#include "store/log.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <sstream>

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/format.h"
#include "store/files.h"

namespace cadre::store {
namespace {

using testing::AnyOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using namespace std::string_literals;

std::string shown(const Change& change) {
  return format("{} {}{}", change.revision, change.key,
                change.value ? "=" + std::string(*change.value) : " gone");
}

std::vector<std::string> loaded(const Log& log) {
  std::vector<std::string> all;
  Result<void> result = log.load([&](const Change& change) -> Result<void> {
    all.push_back(shown(change));
    return {};
  });
  if (!result.ok()) all.push_back(result.error().text());
  return all;
}

std::vector<std::string> changed(const Log& log, Revision since) {
  std::vector<std::string> all;
  Result<void> result = log.since(since, [&](const Event& event) -> Result<void> {
    all.push_back(shown(event) + (event.before ? ", was " + std::string(*event.before) : ""));
    return {};
  });
  if (!result.ok()) all.push_back(result.error().text());
  return all;
}

std::string contentOf(const std::string& path) {
  std::ostringstream all;
  all << std::ifstream(path, std::ios::binary).rdbuf();
  return all.str();
}

void writeTo(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

mode_t modeOf(const std::string& path) {
  struct stat about{};
  return stat(path.c_str(), &about) == 0 ? about.st_mode & 0777 : 0;
}

// What another process says: the text of the function's result. `ending` is for how it then ends.
std::string inChild(const std::function<std::string()>& work, int ending_signal = 0) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  pid_t child = fork();
  if (child == 0) {
    std::string said = work();
    if (write(ends[1], said.data(), said.size()) < 0) _exit(1);
    if (ending_signal != 0) kill(getpid(), ending_signal);
    _exit(0);
  }
  close(ends[1]);
  std::string said;
  char buffer[4096];
  for (ssize_t got = 0; (got = read(ends[0], buffer, sizeof buffer)) > 0;)
    said.append(buffer, static_cast<std::size_t>(got));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return said;
}

// A folder of its own.
class LogTest : public testing::Test {
 protected:
  LogTest() {
    std::string name = (std::filesystem::temp_directory_path() / "cadre-log-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    path_ = folder_ + "/hub.db";
  }
  ~LogTest() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  Log open(const Options& options = {}) const {
    auto log = Log::open(path_, options);
    if (!log.ok()) ADD_FAILURE() << log.error().text();
    return *std::move(log);
  }
  std::string refusal() const {
    auto log = Log::open(path_);
    return log.ok() ? "it was opened" : log.error().text();
  }
  void sql(const std::string& path, const std::string& statements) const {
    sqlite3* handle = nullptr;
    char* error = nullptr;
    ASSERT_EQ(sqlite3_open(path.c_str(), &handle), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(handle, statements.c_str(), nullptr, nullptr, &error), SQLITE_OK)
        << (error ? error : "");
    sqlite3_close(handle);
  }

  std::string folder_, path_;
};

Result<void> append(Log& log, std::vector<Change> changes) { return log.append(changes); }

// ---------------------------------------------------------------------------------------------
// What it keeps

TEST_F(LogTest, KeepsTheNewestValueOfEachKey) {
  const std::vector<std::string> state = {"2 b=2", "4 a=4", "7 d="};
  {
    Log log = open();
    EXPECT_EQ(log.last(), 0);
    EXPECT_THAT(loaded(log), IsEmpty());
    EXPECT_TRUE(append(log, {{1, "a", "1"}}).ok());
    EXPECT_TRUE(append(log, {{2, "b", "2"}, {3, "c", "3"}, {4, "a", "4"}}).ok());
    EXPECT_TRUE(append(log, {{5, "c", std::nullopt}, {7, "d", ""}}).ok());
    EXPECT_TRUE(append(log, {}).ok());
    EXPECT_EQ(loaded(log), state);
    EXPECT_EQ(log.last(), 7);
  }
  EXPECT_FALSE(std::filesystem::exists(path_ + "-wal")) << "a closed log is one file";
  Log log = open();
  EXPECT_EQ(loaded(log), state);
  EXPECT_EQ(log.last(), 7);
  EXPECT_EQ(log.compacted(), 0);
}

TEST_F(LogTest, BytesAreBytes) {
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  const std::string large(kMaxValueBytes, 'x'), long_key(kMaxKeyBytes, 'k');
  {
    Log log = open();
    ASSERT_TRUE(append(log, {{1, all, all}, {2, long_key, large}, {3, "'; --", "'"}}).ok());
  }
  std::map<std::string, std::string> found;
  EXPECT_TRUE(open()
                  .load([&](const Change& change) -> Result<void> {
                    found[std::string(change.key)] = *change.value;
                    return {};
                  })
                  .ok());
  EXPECT_EQ(found,
            (std::map<std::string, std::string>{{all, all}, {long_key, large}, {"'; --", "'"}}));
}

TEST_F(LogTest, TellsWhatChangedAndWhatWasThere) {
  Log log = open();
  ASSERT_TRUE(append(log, {{10, "a", "1"}, {20, "b", "2"}}).ok());
  ASSERT_TRUE(append(log, {{30, "a", "3"}, {31, "b", std::nullopt}, {32, "b", "4"}}).ok());
  EXPECT_THAT(changed(log, 0),
              ElementsAre("10 a=1", "20 b=2", "30 a=3, was 1", "31 b gone, was 2", "32 b=4"));
  EXPECT_THAT(changed(log, 20), ElementsAre("30 a=3, was 1", "31 b gone, was 2", "32 b=4"));
  EXPECT_THAT(changed(log, 25), ElementsAre("30 a=3, was 1", "31 b gone, was 2", "32 b=4"));
  EXPECT_THAT(changed(log, 32), IsEmpty());
  EXPECT_THAT(changed(log, 33), ElementsAre(HasSubstr("there is no revision 33 yet")));
}

TEST_F(LogTest, ACallbackCanStopIt) {
  Log log = open();
  ASSERT_TRUE(append(log, {{1, "a", "1"}, {2, "b", "2"}}).ok());
  int calls = 0;
  auto stop = [&](const Change&) -> Result<void> {
    ++calls;
    return Error{Code::Cancelled, "enough"};
  };
  EXPECT_EQ(log.load(stop).error().message, "enough");
  EXPECT_EQ(log.since(0, stop).error().message, "enough");
  EXPECT_EQ(calls, 2);
  EXPECT_TRUE(append(log, {{3, "c", "3"}}).ok());
}

TEST_F(LogTest, WrongChangesChangeNothing) {
  Log log = open();
  ASSERT_TRUE(append(log, {{5, "a", "1"}, {6, "b", "2"}}).ok());
  const std::string too_large(kMaxValueBytes + 1, 'x'), too_long(kMaxKeyBytes + 1, 'k');
  struct {
    std::vector<Change> changes;
    const char* error;
  } cases[] = {
      {{{6, "c", "3"}}, "revision 6 of c does not come after 6"},
      {{{-1, "c", "3"}}, "does not come after"},
      {{{8, "c", "3"}, {8, "d", "4"}}, "revision 8 of d does not come after 8"},
      {{{8, "a", "3"}, {7, "d", "4"}}, "does not come after 8"},
      {{{7, "", "3"}}, "a key has 1 to 1024 bytes, not 0"},
      {{{7, "a", std::nullopt}, {8, too_long, "3"}}, "a key has 1 to 1024 bytes, not 1025"},
      {{{7, "new", "1"}, {8, "new", "2"}, {9, "c", too_large}}, "more than 3 MiB"},
      {{{7, "c", std::nullopt}}, "c is not there to be deleted"},
      {{{7, "a", std::nullopt}, {8, "a", std::nullopt}}, "a is not there to be deleted"},
  };
  for (const auto& each : cases) {
    Result<void> result = log.append(each.changes);
    ASSERT_FALSE(result.ok()) << each.error;
    EXPECT_EQ(result.error().code, Code::InvalidArgument);
    EXPECT_THAT(result.error().text(), HasSubstr(each.error));
    EXPECT_THAT(loaded(log), ElementsAre("5 a=1", "6 b=2"));
    EXPECT_EQ(log.last(), 6);
    EXPECT_EQ(log.counts().rows, 2U);
  }
  EXPECT_TRUE(append(log, {{7, "a", std::nullopt}, {8, "new", "3"}}).ok());
  EXPECT_THAT(changed(log, 6), ElementsAre("7 a gone, was 1", "8 new=3"));
}

// ---------------------------------------------------------------------------------------------
// Compaction

TEST_F(LogTest, CompactionKeepsWhatIsStillToldOf) {
  Log log = open();
  ASSERT_TRUE(append(log, {{1, "a", "1"}, {2, "b", "2"}, {3, "c", "3"}}).ok());
  ASSERT_TRUE(append(log, {{4, "a", "4"}, {5, "b", std::nullopt}, {6, "a", "6"}}).ok());
  ASSERT_TRUE(append(log, {{7, "c", std::nullopt}}).ok());
  EXPECT_TRUE(*log.compact(5));
  EXPECT_EQ(log.compacted(), 5);
  EXPECT_EQ(log.counts().rows, 4U) << "c of 3 and a of 4, as of 5, and what came after";
  EXPECT_THAT(changed(log, 5), ElementsAre("6 a=6, was 4", "7 c gone, was 3"));
  EXPECT_THAT(changed(log, 4), ElementsAre(HasSubstr("only what came after 5 is there")));
  EXPECT_EQ(log.since(4, nullptr).error().code, Code::Gone);
  EXPECT_THAT(loaded(log), ElementsAre("6 a=6"));
  EXPECT_TRUE(*log.compact(5)) << "nothing to do";
  EXPECT_TRUE(*log.compact(2)) << "nor here";
  EXPECT_THAT(log.compact(8).error().text(), HasSubstr("there is no revision 8 yet"));

  EXPECT_TRUE(*log.compact(7));
  EXPECT_EQ(log.counts().rows, 1U);
  EXPECT_TRUE(append(log, {{8, "a", std::nullopt}}).ok());
  EXPECT_THAT(changed(log, 7), ElementsAre("8 a gone, was 6"));
}

TEST_F(LogTest, TheLastRevisionOutlivesEverything) {
  {
    Log log = open();
    ASSERT_TRUE(append(log, {{41, "a", "1"}, {42, "a", std::nullopt}}).ok());
    EXPECT_TRUE(*log.compact(42));
    EXPECT_EQ(log.counts().rows, 0U);
    EXPECT_EQ(log.last(), 42);
  }
  sql(path_, "VACUUM");
  {
    Log log = open();
    EXPECT_EQ(log.last(), 42);
    EXPECT_EQ(log.compacted(), 42);
    EXPECT_THAT(loaded(log), IsEmpty());
    EXPECT_FALSE(append(log, {{42, "a", "1"}}).ok());
    EXPECT_TRUE(append(log, {{43, "a", "1"}}).ok());
    EXPECT_TRUE(log.backup(folder_ + "/backup").ok());
  }
  EXPECT_EQ(Log::verify(folder_ + "/backup")->last, 43);
}

TEST_F(LogTest, CompactionGoesInSteps) {
  Log log = open({.durable = false});
  std::vector<Change> changes;
  for (int i = 1; i <= 5000; ++i) changes.push_back({i, "a", "x"});
  ASSERT_TRUE(log.append(changes).ok());
  int steps = 1;
  while (!*log.compact(4990)) {
    ++steps;
    ASSERT_TRUE(append(log, {{log.last() + 1, "b", "y"}}).ok()) << "others get their turn";
    EXPECT_EQ(changed(log, log.compacted()).front(), format("{} a=x, was x", log.compacted() + 1));
  }
  EXPECT_GE(steps, 5);
  EXPECT_THAT(loaded(log), ElementsAre("5000 a=x", format("{} b=y", log.last())));

  const std::string large(kMaxValueBytes, 'x');  // few of those are a step
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(append(log, {{log.last() + 1, "large", large}}).ok());
  EXPECT_FALSE(*log.compact(log.last()));
}

TEST_F(LogTest, FreePagesAreUsedAgain) {
  Log log = open({.durable = false});
  const std::string value(100000, 'x');
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 100; ++i) ASSERT_TRUE(append(log, {{log.last() + 1, "a", value}}).ok());
    while (!*log.compact(log.last())) continue;
  }
  Counts counts = log.counts();
  EXPECT_LT(counts.bytes, 13000000U);
  EXPECT_GT(counts.free_bytes, counts.bytes * 9 / 10);
  EXPECT_GT(counts.wal_bytes, 0U);
  EXPECT_LE(counts.wal_bytes, 20U << 20);
  EXPECT_EQ(counts.keys, 1U);
  EXPECT_EQ(counts.last, 300);
}

// Everything at once, at random, beside the simplest thing that does the same.
TEST_F(LogTest, LikeAModel) {
  struct Row {
    Revision revision;
    std::string key;
    std::optional<std::string> value, before;
  };
  for (unsigned seed = 1; seed <= 3; ++seed) {
    std::filesystem::remove(path_);
    std::mt19937 random(seed);
    auto below = [&](unsigned limit) { return random() % limit; };
    std::vector<Row> rows;  // all that ever were
    std::map<std::string, Row> state;
    std::optional<Log> log = open({.durable = false});
    for (int step = 0; step < 300; ++step) {
      std::vector<Row> batch;
      auto next = state;
      Revision revision = log->last();
      for (unsigned count = 1 + below(8); count > 0; --count) {
        Row row{revision += 1 + below(3), format("key-{}", below(20)),
                std::string(below(10) == 0 ? below(40000) : below(200), 'v'), std::nullopt};
        auto found = next.find(row.key);
        if (found != next.end()) row.before = found->second.value;
        if (found != next.end() && below(3) == 0) row.value.reset();
        row.value ? (void)(next[row.key] = row) : (void)next.erase(row.key);
        batch.push_back(row);
      }
      std::vector<Change> changes;
      for (const Row& row : batch) changes.push_back({row.revision, row.key, row.value});
      bool spoiled = below(10) == 0;
      if (spoiled) changes.push_back({revision, "late", "x"});
      ASSERT_EQ(log->append(changes).ok(), !spoiled);
      if (!spoiled) {
        state = next;
        rows.insert(rows.end(), batch.begin(), batch.end());
      }
      if (below(10) == 0 && !rows.empty()) {
        ASSERT_TRUE(log->compact(rows[below(static_cast<unsigned>(rows.size()))].revision).ok());
      }
      if (below(20) == 0) {
        log.reset();
        ASSERT_TRUE(Log::verify(path_).ok());
        log = open({.durable = false});
      }
      if (step % 10 != 0) continue;
      std::vector<Row> sorted;
      for (const auto& [key, row] : state) sorted.push_back(row);
      std::sort(sorted.begin(), sorted.end(),
                [](const Row& a, const Row& b) { return a.revision < b.revision; });
      std::vector<std::string> expected_state, expected_changes;
      for (const Row& row : sorted)
        expected_state.push_back(shown({row.revision, row.key, row.value}));
      for (const Row& row : rows) {
        if (row.revision > log->compacted())
          expected_changes.push_back(shown({row.revision, row.key, row.value}) +
                                     (row.before ? ", was " + *row.before : ""));
      }
      ASSERT_EQ(loaded(*log), expected_state) << "seed " << seed << ", step " << step;
      ASSERT_EQ(changed(*log, log->compacted()), expected_changes);
      ASSERT_EQ(log->last(), rows.empty() ? 0 : rows.back().revision);
      ASSERT_EQ(log->counts().keys, state.size());
    }
  }
}

// ---------------------------------------------------------------------------------------------
// Files and processes

TEST_F(LogTest, IsForItsOwnerAlone) {
  path_ = folder_ + "/made/hub.db";
  mode_t before = umask(0);
  {
    Log log = open();
    ASSERT_TRUE(append(log, {{1, "a", "1"}}).ok());
    EXPECT_TRUE(log.backup(folder_ + "/made/backup").ok());
    EXPECT_EQ(modeOf(folder_ + "/made"), 0700U);
    for (const char* suffix : {"hub.db", "hub.db-wal", "hub.db.lock", "backup"})
      EXPECT_EQ(modeOf(folder_ + "/made/" + suffix), 0600U) << suffix;
  }
  umask(before);
}

TEST_F(LogTest, OneProcessAtATime) {
  auto tries = [this] { return refusal(); };
  {
    Log log = open();
    std::string expected = format(
        "{} is in use by process {}: end that one first, or use another "
        "file",
        path_, getpid());
    EXPECT_EQ(inChild(tries), expected);
    EXPECT_EQ(refusal(), expected) << "nor twice in one";
    EXPECT_EQ(Log::open(path_).error().code, Code::Conflict);
    EXPECT_THAT(Log::verify(path_).error().text(), HasSubstr("is in use by process"));
    EXPECT_TRUE(append(log, {{1, "a", "1"}}).ok()) << "and it is none the worse for it";
  }
  EXPECT_EQ(inChild(tries), "it was opened");
  EXPECT_EQ(inChild(
                [this] {
                  static std::optional<Log> kept;
                  kept = open();
                  return std::string("killed");
                },
                SIGKILL),
            "killed");
  EXPECT_EQ(refusal(), "it was opened") << "the lock ends with the process";
}

TEST_F(LogTest, AnotherProgramHasIt) {
  (void)open();
  sqlite3* other = nullptr;
  ASSERT_EQ(sqlite3_open(path_.c_str(), &other), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(other, "BEGIN; SELECT * FROM revision", nullptr, nullptr, nullptr),
            SQLITE_OK);
  EXPECT_THAT(inChild([this] { return refusal(); }), HasSubstr("in use by another program"));
  sqlite3_close(other);
  EXPECT_EQ(refusal(), "it was opened");
}

TEST_F(LogTest, PathsThatCannotBe) {
  writeTo(folder_ + "/file", "x");
  ASSERT_EQ(mkfifo((folder_ + "/pipe").c_str(), 0600), 0);
  struct {
    std::string path;
    Code code;
    std::string error;
  } cases[] = {
      {folder_ + "/no/such/hub.db", Code::NotFound,
       "no/such cannot be made: its folder does not exist; make the folder, or check the path"},
      {folder_ + "/file/hub.db", Code::NotFound, "its folder does not exist"},
      {folder_, Code::InvalidArgument, "it is a folder; name a file in it"},
      {folder_ + "/pipe", Code::InvalidArgument, "is no file: name one on a disk"},
  };
  for (const auto& each : cases) {
    auto log = Log::open(each.path);
    ASSERT_FALSE(log.ok()) << each.path;
    EXPECT_EQ(log.error().code, each.code) << each.path;
    EXPECT_THAT(log.error().text(), HasSubstr(each.error));
  }
  std::filesystem::remove(folder_ + ".lock");
}

TEST_F(LogTest, NamesAreNotLookedInto) {
  for (const char* name : {"file:x", "a?mode=memory", "100%41#", "'; --"}) {
    path_ = folder_ + "/" + name;
    {
      EXPECT_TRUE(append(*std::make_unique<Log>(open()), {{1, "a", "1"}}).ok());
    }
    EXPECT_TRUE(std::filesystem::exists(path_)) << name;
    EXPECT_TRUE(Log::verify(path_).ok()) << name;
    EXPECT_TRUE(open().backup(path_ + "2").ok()) << name;
    EXPECT_EQ(Log::verify(path_ + "2")->last, 1) << name;
  }
}

TEST_F(LogTest, NoPermission) {
  {
    (void)open();
  }
  auto asNobody = [&](const std::string& path) {
    return inChild([&] {
      if (getuid() == 0 && setuid(65534) != 0) return "cannot become nobody"s;
      auto log = Log::open(path);
      return log.ok() ? "it was opened"s
                      : format("{} {}", codeName(log.error().code), log.error().text());
    });
  };
  chmod(folder_.c_str(), 0500);  // for others, if root runs this; for us, if not
  if (getuid() == 0) chmod(folder_.c_str(), 0755);
  EXPECT_THAT(
      asNobody(folder_ + "/other/hub.db"),
      HasSubstr("Forbidden " + folder_ + "/other cannot be made: permission denied; let the user"));
  chmod(folder_.c_str(), 0777);
  chmod(path_.c_str(), getuid() == 0 ? 0600 : 0);
  chmod((path_ + ".lock").c_str(), 0666);
  EXPECT_THAT(asNobody(path_), HasSubstr("hub.db cannot be read: permission denied"));
}

TEST(StoreFiles, EachFailureHasItsWords) {
  struct {
    int error;
    Code code;
    const char* words;
  } cases[] = {
      {ENOENT, Code::NotFound, "f cannot be made: its folder does not exist; make the folder"},
      {EACCES, Code::Forbidden, "f cannot be made: permission denied; let the user"},
      {EROFS, Code::Forbidden, "the file system is read-only; use a folder on another one"},
      {ENOSPC, Code::ResourceExhausted, "the disk is full; free some space and try again"},
      {EDQUOT, Code::ResourceExhausted, "the disk is full"},
      {EFBIG, Code::ResourceExhausted, "files may not get that large here; raise the limit"},
      {EMFILE, Code::ResourceExhausted, "too many files are open; raise the limit"},
      {EIO, Code::Unavailable, "f cannot be made: Input/output error; check the disk"},
  };
  for (const auto& each : cases) {
    Error error = fileError("f", "cannot be made", each.error);
    EXPECT_EQ(error.code, each.code) << each.words;
    EXPECT_THAT(error.text(), HasSubstr(each.words));
  }
}

// ---------------------------------------------------------------------------------------------
// Damage

class DamagedLogTest : public LogTest {
 protected:
  // Closed, with history, deletions, a value that has pages of its own, and something compacted.
  DamagedLogTest() {
    Log log = open();
    for (Revision i = 1; i <= 120; ++i) {
      std::string key = format("key-{}", i % 17), value(i == 90 ? 30000 : 100 + i, 'v');
      EXPECT_TRUE(append(log, {{i, key, value}}).ok());
    }
    EXPECT_TRUE(append(log, {{200, "key-3", std::nullopt}}).ok());
    EXPECT_TRUE(*log.compact(60));
    whole_ = everything(log);
  }

  static std::vector<std::string> everything(const Log& log) {
    std::vector<std::string> all = loaded(log), more = changed(log, log.compacted());
    all.insert(all.end(), more.begin(), more.end());
    all.push_back(format("{} {}", log.last(), log.compacted()));
    return all;
  }

  std::vector<std::string> whole_;
};

TEST_F(DamagedLogTest, IsRefusedAndKept) {
  const std::string good = contentOf(path_);
  struct {
    const char* name;
    std::function<void()> damage;
    Code code;
    const char* error;
  } cases[] = {
      {"empty", [&] { writeTo(path_, ""); }, Code::DataLoss, "is damaged (it is empty)"},
      {"short", [&] { writeTo(path_, good.substr(0, 99)); }, Code::DataLoss, "(it is cut off)"},
      {"half", [&] { writeTo(path_, good.substr(0, good.size() / 2)); }, Code::DataLoss,
       "put a backup in its place, or move it and"},
      {"a page less", [&] { writeTo(path_, good.substr(0, good.size() - 8192)); }, Code::DataLoss,
       "is damaged"},
      {"text", [&] { writeTo(path_, std::string(10000, 'x')); }, Code::DataLoss,
       "(it does not begin as a log does)"},
      {"zeros",
       [&] { writeTo(path_, good.substr(0, 8192) + std::string(good.size() - 8192, '\0')); },
       Code::DataLoss, "is damaged"},
      {"another kind's",
       [&] {
         std::filesystem::remove(path_);
         sql(path_, "CREATE TABLE t (a)");
       },
       Code::InvalidArgument, "is a database, but of some other program: name another file"},
      {"another program's", [&] { sql(path_, "PRAGMA application_id = 7"); }, Code::InvalidArgument,
       "is a database, but of some other program: name another file"},
      {"newer", [&] { sql(path_, "PRAGMA user_version = 2"); }, Code::InvalidArgument,
       "was written by a newer Cadre (format 2, and this one knows 1): use that one"},
      {"older", [&] { sql(path_, "PRAGMA user_version = 0"); }, Code::DataLoss,
       "there is no format 0"},
      {"a trigger",
       [&] {
         sql(path_, "CREATE TRIGGER t AFTER INSERT ON revision BEGIN DELETE FROM revision; END");
       },
       Code::DataLoss, "its tables are not those of a log"},
      {"no mark", [&] { sql(path_, "DELETE FROM compacted"); }, Code::DataLoss, "a row is missing"},
      {"another mark", [&] { sql(path_, "UPDATE compacted SET revision = 70"); }, Code::DataLoss,
       "the compacted revision is not what was written"},
      {"a row less", [&] { sql(path_, "DELETE FROM revision WHERE revision = 80"); },
       Code::DataLoss, "revision 97 is not what was written"},
      {"a row more", [&] { sql(path_, "INSERT INTO revision VALUES (201, 0, 0, x'61', NULL)"); },
       Code::DataLoss, "revision 201 is not what was written"},
  };
  for (const auto& each : cases) {
    each.damage();
    const std::string before = contentOf(path_);
    auto log = Log::open(path_);
    ASSERT_FALSE(log.ok()) << each.name;
    EXPECT_EQ(log.error().code, each.code) << each.name;
    EXPECT_THAT(log.error().text(), HasSubstr(each.error)) << each.name;
    EXPECT_THAT(log.error().text(), Not(HasSubstr("\n"))) << each.name;
    auto verified = Log::verify(path_);
    ASSERT_FALSE(verified.ok()) << each.name;
    EXPECT_EQ(verified.error().text(), log.error().text()) << each.name;
    EXPECT_TRUE(contentOf(path_) == before) << each.name << ": the file was changed";
    writeTo(path_, good);
  }
  EXPECT_EQ(everything(open()), whole_);
}

TEST_F(DamagedLogTest, AnyBitIsNoticedOrDoesNotMatter) {
  const std::string good = contentOf(path_);
  std::mt19937 random(1);
  int refused = 0, same = 0;
  for (int i = 0; i < 400; ++i) {
    std::string bad = good;
    // Half of them where the file says what it is made of: headers and the beginnings of pages.
    std::size_t at = random() % good.size();
    if (i % 2 == 0) at = at / 8192 * 8192 + random() % 110;
    bad[at] = static_cast<char>(bad[at] ^ (1 << random() % 8));
    writeTo(path_, bad);
    auto log = Log::open(path_);
    if (log.ok()) {
      std::vector<std::string> found = everything(*log);
      if (found == whole_) {
        ++same;
        continue;
      }
      ++refused;
      EXPECT_THAT(found, testing::Contains(HasSubstr("is damaged"))) << "byte " << at;
      continue;
    }
    ++refused;
    EXPECT_THAT(log.error().code, AnyOf(Code::DataLoss, Code::InvalidArgument))
        << "byte " << at << ": " << log.error().text();
    EXPECT_TRUE(contentOf(path_) == bad) << "byte " << at << ": the file was changed";
  }
  EXPECT_GT(refused, 100);
  EXPECT_GT(same, 10);  // pages are not full
}

TEST_F(DamagedLogTest, AnyCutIsNoticed) {
  const std::string good = contentOf(path_);
  for (std::size_t size = 0; size < good.size(); size += 997) {
    writeTo(path_, good.substr(0, size));
    auto log = Log::open(path_);
    ASSERT_FALSE(log.ok()) << size;
    EXPECT_EQ(log.error().code, Code::DataLoss) << log.error().text();
    EXPECT_EQ(sizeOf(path_), size);
  }
}

TEST_F(DamagedLogTest, VerifyLooksAtEveryValue) {
  Result<Counts> counts = Log::verify(path_);
  ASSERT_TRUE(counts.ok()) << counts.error().text();
  EXPECT_EQ(counts->last, 200);
  EXPECT_EQ(counts->compacted, 60);
  EXPECT_EQ(counts->keys, 16U);
  EXPECT_EQ(counts->bytes, sizeOf(path_));
  std::string bytes = contentOf(path_);
  bytes[bytes.find(std::string(8000, 'v'))] = 'w';  // of the one large value, which was replaced
  writeTo(path_, bytes);
  EXPECT_THAT(Log::verify(path_).error().text(), HasSubstr("revision 90 is not what was written"));
  EXPECT_THAT(Log::verify(folder_ + "/none").error().text(), HasSubstr("does not exist"));
}

// ---------------------------------------------------------------------------------------------
// What is beside the file

// What a killed process leaves: a file, and FILE-wal with all of these changes.
void leave(const std::string& path, Revision changes) {
  inChild(
      [&] {
        static std::optional<Log> log;
        auto opened = Log::open(path);
        if (!opened.ok()) return opened.error().text();
        log = *std::move(opened);
        for (Revision i = log->last() + 1; i <= changes;) {
          // Batches of 1, 2, 3, 1, 2, 3, ... changes: the last revision tells whether one is torn.
          std::vector<std::string> keys;
          Revision count = 1 + (i % 6 == 1 ? 0 : i % 6 == 2 ? 1 : 2);
          for (Revision each = 0; each < count; ++each) keys.push_back(format("key-{}", i + each));
          std::vector<Change> batch;
          for (Revision each = 0; each < count; ++each)
            batch.push_back({i + each, keys[static_cast<std::size_t>(each)], "value"});
          if (!log->append(batch).ok()) return "failed"s;
          i += count;
        }
        return "done"s;
      },
      SIGKILL);
}

TEST_F(LogTest, AKilledProcessLosesNothing) {
  leave(path_, 60);
  EXPECT_GT(sizeOf(path_ + "-wal"), 0U);
  EXPECT_THAT(Log::verify(path_).error().text(), HasSubstr("open it instead"));
  EXPECT_EQ(loaded(open()).size(), 60U);
  EXPECT_EQ(loaded(open()).back(), "60 key-60=value");
}

// A power cut leaves any part of what was not yet safe. None of it was, to be tried at every point.
TEST_F(LogTest, APowerCutLeavesWholeAppends) {
  leave(path_, 60);
  const std::string file = contentOf(path_), wal = contentOf(path_ + "-wal");
  std::mt19937 random(1);
  std::map<Revision, int> seen;
  for (int i = 0; i < 150; ++i) {
    writeTo(path_, file);
    std::string rest = wal.substr(0, random() % (wal.size() + 1));
    if (i % 3 == 1) rest += std::string(random() % 20000, '\0');  // made longer, but not written
    if (i % 3 == 2) rest += wal.substr(random() % wal.size());    // something old
    writeTo(path_ + "-wal", rest);
    std::filesystem::remove(path_ + ".last");  // it was not on the disk yet
    Log log = open();
    Revision last = log.last();
    ++seen[last];
    EXPECT_THAT(last % 6, AnyOf(0, 1, 3)) << "torn at " << last;
    ASSERT_EQ(loaded(log).size(), static_cast<std::size_t>(last)) << "a hole";
    ASSERT_TRUE(append(log, {{last + 1, "more", "1"}}).ok());
  }
  EXPECT_GT(seen.size(), 10U);
}

TEST_F(LogTest, WhatIsBesideMustBelongToIt) {
  leave(path_, 6);
  std::filesystem::rename(path_, folder_ + "/away");
  EXPECT_THAT(refusal(), HasSubstr("is missing, but " + path_ + "-wal of it is there"));
  EXPECT_FALSE(std::filesystem::exists(path_));
  std::filesystem::rename(folder_ + "/away", path_);
  ASSERT_TRUE(open().backup(folder_ + "/backup").ok());

  leave(path_, 12);
  std::filesystem::copy(folder_ + "/backup", path_,
                        std::filesystem::copy_options::overwrite_existing);
  const std::string left = contentOf(path_ + "-wal");
  EXPECT_THAT(refusal(), HasSubstr("is a backup, but " + path_ +
                                   "-wal beside it is of the file "
                                   "that was there before: move " +
                                   path_ + "-wal away"));
  EXPECT_TRUE(contentOf(path_ + "-wal") == left);
  std::filesystem::remove(path_ + "-wal");
  EXPECT_THAT(refusal(), HasSubstr("or the file is an older one"));
  std::filesystem::remove(path_ + ".last");
  EXPECT_EQ(open().last(), 6);
}

// Nobody cut the power, and the end of what was written is not there.
TEST_F(LogTest, AnEndThatIsMissingIsNoticed) {
  leave(path_, 60);
  const std::string file = contentOf(path_), wal = contentOf(path_ + "-wal");
  auto check = [&](const std::string& rest, const std::string& what) {
    writeTo(path_, file);
    writeTo(path_ + "-wal", rest);
    auto log = Log::open(path_);
    ASSERT_FALSE(log.ok()) << what << ": it ends at " << log->last();
    EXPECT_EQ(log.error().code, Code::DataLoss) << what;
    EXPECT_THAT(log.error().text(), HasSubstr("put")) << what;
    EXPECT_TRUE(contentOf(path_) == file && contentOf(path_ + "-wal") == rest) << what;
  };
  std::mt19937 random(1);
  for (int i = 0; i < 100; ++i) {
    std::string bad = wal;
    std::size_t at = random() % bad.size();
    bad[at] = static_cast<char>(bad[at] ^ (1 << random() % 8));
    // The last bytes of a header say nothing that is checked.
    check(bad, format("byte {} of {}", at, bad.size()));
    check(wal.substr(0, at), format("cut at {}", at));
  }
  check("", "taken away");
  EXPECT_THAT(refusal(), AllOf(HasSubstr("ends at revision 0, but 60 was acknowledged"),
                               HasSubstr("remove " + path_ + ".last to go on")));
  std::filesystem::remove(path_);
  EXPECT_THAT(refusal(), HasSubstr("is missing, but " + path_ + ".last of it is there"));
  writeTo(path_, file);
  writeTo(path_ + "-wal", wal);
  EXPECT_EQ(open().last(), 60);
  writeTo(path_ + ".last", "what");
  EXPECT_EQ(open().last(), 60) << "a mark that cannot be read says nothing";
  EXPECT_EQ(open({.durable = false}).last(), 60);
  EXPECT_FALSE(std::filesystem::exists(path_ + ".last")) << "it promises nothing";
}

TEST_F(LogTest, WhatWasNotFinishedIsNoHindrance) {
  writeTo(path_ + ".new", "half");
  writeTo(path_ + ".new-journal", "half");
  writeTo(path_ + ".lock", "4711\n");
  Log log = open();
  EXPECT_TRUE(append(log, {{1, "a", "1"}}).ok());
  writeTo(folder_ + "/backup.new", "half");
  EXPECT_TRUE(log.backup(folder_ + "/backup").ok());
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/backup.new"));
}

// ---------------------------------------------------------------------------------------------
// No space

TEST_F(LogTest, FullAndThenNot) {
  Log log = open({.max_bytes = 1 << 20});
  const std::string value(50000, 'x');
  Result<void> result;
  while (result.ok()) {
    ASSERT_LT(log.last(), 100);
    result = append(log, {{log.last() + 1, "a", value}, {log.last() + 2, "b", value}});
  }
  EXPECT_EQ(result.error().code, Code::ResourceExhausted);
  EXPECT_THAT(result.error().text(), HasSubstr("hub.db cannot grow: the disk is full, or"));
  Revision last = log.last();
  EXPECT_EQ(last % 2, 0) << "both or none";
  EXPECT_EQ(log.counts().rows, static_cast<std::size_t>(last));
  EXPECT_EQ(changed(log, 0).size(), static_cast<std::size_t>(last));
  EXPECT_EQ(loaded(log).size(), 2U);
  EXPECT_TRUE(*log.compact(last)) << "space can be made";
  EXPECT_TRUE(append(log, {{last + 1, "a", value}, {last + 2, "b", value}}).ok());
  EXPECT_EQ(changed(log, last).size(), 2U);
}

// The system says no at any place: also while FILE-wal is written, or moved into the file.
TEST_F(LogTest, TheSystemSaysNo) {
  for (rlim_t limit : {rlim_t{60000}, rlim_t{200000}, rlim_t{500000}, rlim_t{1000000}}) {
    for (const char* suffix : {"", ".last"}) std::filesystem::remove(path_ + suffix);
    std::string said = inChild([&] {
      std::signal(SIGXFSZ, SIG_IGN);
      std::optional<Log> log = open();
      const std::string value(20000, 'x');
      struct rlimit limits{};
      getrlimit(RLIMIT_FSIZE, &limits);
      limits.rlim_cur = limit;
      setrlimit(RLIMIT_FSIZE, &limits);
      Result<void> result;
      while (result.ok() && log->last() < 1000)
        result = append(*log, {{log->last() + 1, "a", value}, {log->last() + 2, "b", value}});
      if (result.ok()) return "there was no limit"s;
      if (result.error().code != Code::ResourceExhausted) return result.error().text();
      Revision last = log->last();
      if (changed(*log, 0).size() != static_cast<std::size_t>(last)) return "something is torn"s;
      if (log->backup(folder_ + "/backup").ok() != (limit > sizeOf(folder_ + "/backup")))
        return "the backup"s;
      limits.rlim_cur = limits.rlim_max;
      setrlimit(RLIMIT_FSIZE, &limits);
      result = append(*log, {{last + 1, "a", "1"}, {last + 2, "b", "2"}});
      if (!result.ok()) return "afterwards: " + result.error().text();
      log.reset();
      log = open();
      if (log->last() != last + 2 || changed(*log, last).size() != 2) return "it is not there"s;
      return "well"s;
    });
    EXPECT_EQ(said, "well") << limit;
  }
}

TEST_F(LogTest, NoSpaceForANewOne) {
  EXPECT_THAT(inChild([&] {
                std::signal(SIGXFSZ, SIG_IGN);
                struct rlimit limits{5000, 5000};
                setrlimit(RLIMIT_FSIZE, &limits);
                return refusal();
              }),
              HasSubstr("files may not get that large here"));
  EXPECT_FALSE(std::filesystem::exists(path_));
  EXPECT_FALSE(std::filesystem::exists(path_ + ".new"));
  EXPECT_EQ(refusal(), "it was opened");
}

// ---------------------------------------------------------------------------------------------
// Backups

TEST_F(LogTest, ABackupIsALog) {
  const std::string backup = folder_ + "/backup";
  Log log = open();
  ASSERT_TRUE(append(log, {{1, "a", "1"}, {2, "b", "2"}, {3, "a", "3"}}).ok());
  ASSERT_TRUE(*log.compact(2));
  ASSERT_TRUE(log.backup(backup).ok());
  ASSERT_TRUE(append(log, {{4, "b", std::nullopt}}).ok());
  EXPECT_EQ(Log::verify(backup)->last, 3);
  ASSERT_TRUE(log.backup(backup).ok()) << "a newer one takes its place";
  EXPECT_EQ(Log::verify(backup)->last, 4);

  auto restored = Log::open(backup);
  ASSERT_TRUE(restored.ok()) << restored.error().text();
  EXPECT_EQ(loaded(*restored), loaded(log));
  EXPECT_EQ(changed(*restored, 2), changed(log, 2));
  EXPECT_EQ(restored->compacted(), 2);
  EXPECT_TRUE(append(*restored, {{5, "c", "5"}}).ok());
  EXPECT_THAT(log.backup(backup).error().text(), HasSubstr("is in use by process"));
}

TEST_F(LogTest, WhatIsRestoredGoesOnFarBehind) {
  const std::string backup = folder_ + "/backup", place = folder_ + "/new/hub.db";
  Log log = open();
  ASSERT_TRUE(append(log, {{1, "a", "1"}, {2, "b", "2"}, {3, "a", "3"}, {4, "c", "4"}}).ok());
  ASSERT_TRUE(*log.compact(2));
  ASSERT_TRUE(append(log, {{5, "b", "5"}, {6, "c", std::nullopt}, {7, "c", "7"}}).ok());
  ASSERT_TRUE(append(log, {{8, "c", std::nullopt}}).ok());
  ASSERT_TRUE(log.backup(backup).ok());
  ASSERT_TRUE(append(log, {{9, "a", "9"}}).ok());
  for (int again = 0; again < 2; ++again) {  // also over what a lost one had beside it
    Result<Counts> counts = Log::restore(backup, place);
    ASSERT_TRUE(counts.ok()) << counts.error().text();
    EXPECT_EQ(counts->last, 1'000'000'008);
    auto restored = Log::open(place);
    ASSERT_TRUE(restored.ok()) << restored.error().text();
    EXPECT_THAT(loaded(*restored), ElementsAre("3 a=3", "5 b=5"));
    EXPECT_THAT(changed(*restored, 9), ElementsAre(HasSubstr("is gone")));
    EXPECT_THAT(changed(*restored, 1'000'000'008), IsEmpty());
    ASSERT_TRUE(append(*restored, {{1'000'000'009, "a", std::nullopt}}).ok());
    restored = Error{Code::NotFound, "closed"};
    EXPECT_THAT(Log::restore(backup, place).error().text(), HasSubstr("is there: move it away"));
    std::filesystem::remove(place);
  }
  EXPECT_EQ(Log::verify(backup)->last, 8) << "it stays as it is";
}

TEST_F(LogTest, WhereNoBackupGoes) {
  Log log = open();
  ASSERT_TRUE(append(log, {{1, "a", "1"}}).ok());
  EXPECT_THAT(log.backup(path_).error().text(), HasSubstr("is in use by process"));
  EXPECT_THAT(log.backup(folder_ + "/no/backup").error().text(),
              HasSubstr("its folder does not exist"));
  std::filesystem::create_directory(folder_ + "/folder");
  EXPECT_THAT(log.backup(folder_ + "/folder").error().text(), HasSubstr("it is a folder"));
  leave(folder_ + "/killed", 3);
  EXPECT_THAT(log.backup(folder_ + "/killed").error().text(), HasSubstr("was not closed"));
  EXPECT_TRUE(append(log, {{2, "a", "2"}}).ok());
}

}  // namespace
}  // namespace cadre::store
