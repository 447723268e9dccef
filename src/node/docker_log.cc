#include "node/docker_log.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/strings.h"

namespace cadre::node {
namespace {

constexpr Duration kAgain = 500ms, kLastLines = 5s;
// Both streams of a container are stamped before they are written down in turn: a line may come
// after a newer one, but not by much.
constexpr Duration kOutOfOrder = 1s;
constexpr std::size_t kTail = 1u << 20;

std::optional<Time> timeOf(std::string_view line) { return parseTime(cut(line, " ").first); }

std::string withFolder(std::string path) {
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  return path;
}

}  // namespace

DockerLog::DockerLog(net::Loop& loop, wire::Docker& docker, std::string container, std::string path,
                     Function<void()> stopped)
    : loop_(loop),
      docker_(docker),
      container_(std::move(container)),
      path_(withFolder(std::move(path))),
      stopped_(std::move(stopped)),
      file_(path_) {}

void DockerLog::follow() {
  following_ = true;
  reading_ = read(true, [this] {
    following_ = false;
    if (finished_) return catchUp();
    timer_ = loop_.after(kAgain, [this] { follow(); });
    stopped_();
  });
}

void DockerLog::finish(Function<void()> done) {
  finished_ = std::move(done);
  if (!following_) return catchUp();
  timer_ = loop_.after(kLastLines, [this] { catchUp(); });
}

// Once more, to its end: whoever follows may be told of an end before the last lines.
void DockerLog::catchUp() {
  timer_ = loop_.after(kLastLines, [this] { end(); });
  reading_ = read(false, [this] { end(); });
}

void DockerLog::end() {
  timer_ = {};
  auto done = std::exchange(finished_, nullptr);
  if (done) done();  // we may be gone
}

Pending DockerLog::read(bool follow, Function<void()> then) {
  there_.clear();
  LogTail tail = readLogTail(path_, kTail);
  std::optional<Time> since;
  for (const std::string& line : tail.lines)
    if (auto time = timeOf(line); time && (!since || *time > *since)) since = time;
  if (since) {
    Time newest = *std::exchange(since, *since - kOutOfOrder);
    if (!tail.is_all) since = std::max(*since, timeOf(tail.lines.front()).value_or(newest));
    for (std::string& line : tail.lines)
      if (auto time = timeOf(line); time && *time >= *since) ++there_[std::move(line)];
  }
  return docker_.logs(
      container_, {.since = since, .follow = follow},
      [this](wire::DockerStream stream, std::string_view text) { take(stream, text); },
      [then = std::move(then)](const Result<>&) { then(); });
}

void DockerLog::take(wire::DockerStream stream, std::string_view text) {
  auto [time, rest] = cut(text, " ");
  bool whole = rest.ends_with('\n');
  if (whole) rest.remove_suffix(1);
  std::string line =
      logLine(time, stream == wire::DockerStream::Stderr ? "stderr" : "stdout", rest, whole);
  if (auto known = there_.find(line); known != there_.end()) {
    if (--known->second == 0) there_.erase(known);
    return;
  }
  file_.add(line);
}

}  // namespace cadre::node
