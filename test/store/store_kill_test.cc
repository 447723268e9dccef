// A log whose writer is killed at any time, again and again: what the writer had said yes to is
// there, in order and whole, and revisions never go back. CADRE_KILLS says how often (20).

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <random>

#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/format.h"
#include "base/strings.h"
#include "store/log.h"

namespace cadre::store {
namespace {

constexpr std::size_t kKeys = 40;

struct Row {
  Revision revision;
  std::string key;
  std::optional<std::string> value, before;

  bool operator==(const Row&) const = default;
};

// All that is ever written follows from the revision before it: so that whoever looks at a log
// knows what must be in it, up to its last revision, and where an append ended.
class History {
 public:
  Revision last() const { return last_; }
  const std::map<std::string, Row>& state() const { return state_; }

  // What comes next, as one append.
  std::vector<Row> next() {
    std::mt19937 random(static_cast<unsigned>(last_));
    std::vector<Row> rows(1 + random() % 12);
    for (Row& row : rows) {
      row = {last_ += 1 + random() % 3, format("key-{}", random() % kKeys), {}, {}};
      auto found = state_.find(row.key);
      bool there = found != state_.end();
      if (there) row.before = found->second.value;
      bool gone = there && random() % 4 == 0;
      std::size_t size = random() % 20 == 0 ? random() % 100000 : random() % 3000;
      if (!gone) row.value = format("{} {}", row.revision, std::string(size, 'v'));
      if (gone)
        state_.erase(found);
      else
        state_.insert_or_assign(row.key, row);
    }
    return rows;
  }

 private:
  Revision last_ = 0;
  std::map<std::string, Row> state_;
};

std::optional<std::string> owned(std::optional<std::string_view> bytes) {
  return bytes ? std::optional<std::string>(*bytes) : std::nullopt;
}

struct Kill {
  enum class From { Start, FirstAppend } from;  // on a busy machine the first may take long
  std::chrono::microseconds after;
};

// The kernel does it, wherever the process then is.
void killMeAfter(std::chrono::microseconds time) {
  struct sigevent event{};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGKILL;
  timer_t timer{};
  struct itimerspec when{};
  when.it_value.tv_nsec = std::chrono::nanoseconds(time).count();
  if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 ||
      timer_settime(timer, 0, &when, nullptr) != 0)
    _exit(6);
}

// Writes until it is killed, and tells of each append that was taken.
[[noreturn]] void writeForever(const std::string& path, const Options& options, const Kill& kill,
                               int told) {
  if (kill.from == Kill::From::Start) killMeAfter(kill.after);
  auto log = Log::open(path, options);
  if (!log.ok()) _exit(1);
  History history;
  while (history.last() < log->last()) history.next();
  for (bool first = true;; first = false) {
    std::vector<Row> rows = history.next();
    std::vector<Change> changes;
    for (const Row& row : rows) changes.push_back({row.revision, row.key, row.value});
    if (!log->append(changes).ok()) _exit(2);
    Revision last = log->last();
    if (write(told, &last, sizeof last) != sizeof last) _exit(3);
    if (first && kill.from == Kill::From::FirstAppend) killMeAfter(kill.after);
    if (last % 7 == 0 && !log->compact(std::max<Revision>(last - 100, 0)).ok()) _exit(4);
    if (last % 211 == 0 && !log->backup(path + ".backup").ok()) _exit(5);
  }
}

// Starts a writer, kills it after a while, and gives the last revision that it told of.
Revision killedWriter(const std::string& path, const Options& options, const Kill& kill,
                      Revision before) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    writeForever(path, options, kill, ends[1]);
  }
  close(ends[1]);
  Revision told = before, revision = 0;
  while (read(ends[0], &revision, sizeof revision) == sizeof revision) {
    EXPECT_GT(revision, told);
    told = revision;
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status)) << "the writer failed with " << WEXITSTATUS(status);
  return told;
}

void expectWhole(const Log& log) {
  History history;
  std::vector<Row> events;
  while (history.last() < log.last()) {
    std::vector<Row> rows = history.next();
    for (Row& row : rows) {
      if (row.revision > log.compacted()) events.push_back(std::move(row));
    }
  }
  ASSERT_EQ(history.last(), log.last()) << "an append is torn";

  std::vector<Row> state, found;
  for (const auto& [key, row] : history.state())
    state.push_back({row.revision, key, row.value, {}});
  std::sort(state.begin(), state.end(),
            [](const Row& a, const Row& b) { return a.revision < b.revision; });
  Result<void> loaded = log.load([&](const Change& change) -> Result<void> {
    found.push_back({change.revision, std::string(change.key), owned(change.value), {}});
    return {};
  });
  ASSERT_TRUE(loaded.ok()) << loaded.error().text();
  ASSERT_TRUE(found == state) << "what is there is not what was written";

  found.clear();
  Result<void> told = log.since(log.compacted(), [&](const Event& event) -> Result<void> {
    found.push_back(
        {event.revision, std::string(event.key), owned(event.value), owned(event.before)});
    return {};
  });
  ASSERT_TRUE(told.ok()) << told.error().text();
  ASSERT_TRUE(found == events) << "what happened is not what was written";
}

int kills() {
  const char* given = std::getenv("CADRE_KILLS");
  return given ? static_cast<int>(parseInt(given).value_or(0)) : 20;
}

class StoreKill : public testing::TestWithParam<bool> {};

TEST_P(StoreKill, NothingIsLost) {
  std::string folder = (std::filesystem::temp_directory_path() / "cadre-kill-XXXXXX").string();
  ASSERT_TRUE(mkdtemp(folder.data()));
  const std::string path = folder + "/hub.db";
  const Options options{.durable = GetParam()};
  std::mt19937 random(std::random_device{}());
  Revision last = 0, compacted = 0;
  int appends = 0, count = kills();
  ASSERT_GT(count, 0);
  for (int i = 0; i < count; ++i) {
    bool starting = i % 5 == 0;
    Kill kill{starting ? Kill::From::Start : Kill::From::FirstAppend,
              std::chrono::microseconds(1 + random() % (starting ? 20000 : 100000))};
    Revision told = killedWriter(path, options, kill, last);
    appends += told > last;
    auto log = Log::open(path, options);
    ASSERT_TRUE(log.ok()) << log.error().text();
    ASSERT_GE(log->last(), told) << "something is lost";
    ASSERT_GE(log->compacted(), compacted);
    expectWhole(*log);
    if (HasFatalFailure()) FAIL() << "after " << i + 1 << " kills; kept in " << folder;
    last = log->last();
    compacted = log->compacted();
    if (std::filesystem::exists(path + ".backup")) {
      ASSERT_TRUE(Log::verify(path + ".backup").ok()) << "a backup is there as a whole or not";
    }
    // History is generated from its beginning each time: not for too long.
    if (last < 100000) continue;
    log = Error{Code::Cancelled, "closed"};
    std::filesystem::remove(path);
    last = compacted = 0;
  }
  EXPECT_GE(appends, count * 4 / 5);
  std::printf("%d kills, %d of them while it wrote, last revision %lld\n", count, appends,
              static_cast<long long>(last));
  std::filesystem::remove_all(folder);
}

INSTANTIATE_TEST_SUITE_P(, StoreKill, testing::Bool(),
                         [](const auto& info) { return info.param ? "durable" : "fast"; });

}  // namespace
}  // namespace cadre::store
