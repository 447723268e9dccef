#include "node/shim.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/format.h"
#include "base/strings.h"
#include "json/parse.h"
#include "json/texts.h"
#include "json/write.h"
#include "node/files.h"
#include "node/log_file.h"
#include "node/overlay.h"
#include "node/own_address.h"

namespace cadre::node {
namespace {

constexpr std::size_t kMaxOrder = 4u << 20;
constexpr std::size_t kMaxLine = 16u << 10;  // longer ones are written in parts
constexpr std::size_t kMaxError = 4096;

struct Pipe {
  Descriptor read, write;
};

Error systemError(std::string_view what) {
  return {.code = Code::Unavailable, .message = format("{}: {}", what, std::strerror(errno))};
}

Result<Pipe> makePipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return systemError("cannot make a pipe");
  return Pipe{Descriptor(ends[0]), Descriptor(ends[1])};
}

json::Array listOf(const std::vector<std::string>& words) {
  json::Array out;
  for (const std::string& one : words) out.emplace_back(one);
  return out;
}

std::string stateFile(const std::string& folder) { return folder + "/state.json"; }

void writeState(const std::string& folder, const json::Value& state) {
  std::string part = stateFile(folder) + ".part";
  {
    Descriptor file(open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (!file || !writeAll(file.get(), json::write(state)))
      return;  // a full disk: nothing is known
  }
  (void)rename(part.c_str(), stateFile(folder).c_str());
}

json::Value readState(const std::string& folder) { return readJson(stateFile(folder)); }

// The lock of a folder, if nobody has it; `held`: somebody does, or nobody can tell.
Descriptor takeLock(const std::string& folder, bool& held) {
  Descriptor file(
      open((folder + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  held = !file && errno != ENOENT;  // a folder that is gone has no lock
  if (file && flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    held = true;
    file.close();
  }
  return file;
}

// "bwrap: execvp no-such-program: No such file or directory" is about the container.
std::string inOurWords(std::string_view error) {
  constexpr std::string_view kBegin = "bwrap: execvp ", kMissing = ": No such file or directory";
  if (!error.starts_with(kBegin) || !error.ends_with(kMissing)) return std::string(error);
  error.remove_prefix(kBegin.size());
  error.remove_suffix(kMissing.size());
  return format("exec: \"{}\": executable file not found in the container", error);
}

// One of its two streams.
class Stream {
 public:
  Stream(std::string_view name, Descriptor from, LogFile& log)
      : name_(name), from_(std::move(from)), log_(log) {}

  int descriptor() const { return from_.get(); }
  const std::string& beginning() const { return beginning_; }

  void take() {
    char buffer[16u << 10];
    ssize_t got = ::read(from_.get(), buffer, sizeof buffer);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (got <= 0) return end();
    std::string_view text(buffer, static_cast<std::size_t>(got));
    beginning_ += text.substr(0, kMaxError - std::min(kMaxError, beginning_.size()));
    line_ += text;
    std::size_t done = 0;
    for (;;) {
      std::size_t end = line_.find('\n', done);
      if (end == std::string::npos) break;
      put(std::string_view(line_).substr(done, end - done), true);
      done = end + 1;
    }
    line_.erase(0, done);
    if (line_.size() < kMaxLine) return;
    put(line_, false);
    line_.clear();
  }
  void end() {
    if (!line_.empty()) put(line_, false);
    line_.clear();
    from_.close();
  }

 private:
  void put(std::string_view line, bool whole) {
    for (; line.size() > kMaxLine; line.remove_prefix(kMaxLine))
      add(line.substr(0, kMaxLine), false);
    add(line, whole);
  }

  void add(std::string_view text, bool whole) {
    log_.add(logLine(formatTimeMicros(SystemClock().now()), name_, text, whole));
  }

  const std::string_view name_;
  Descriptor from_;
  LogFile& log_;
  std::string line_, beginning_;
};

// The process that stays.
class Shim {
 public:
  Shim(std::string folder, const ShimOrder& order)
      : folder_(std::move(folder)),
        order_(order),
        log_(order.log, order.max_log_bytes),
        network_(order.address) {}

  // Says on `ready` how the start went: nothing, or why not.
  void run(Descriptor ready) {
    bool held = false;
    Descriptor lock = takeLock(folder_, held);
    // Somebody has given it up, or it is there twice.
    if (!lock || !readState(folder_).isNull()) return report(ready, "this run is given up already");
    std::string process = format("{}\n", getpid());
    (void)!pwrite(lock.get(), process.data(), process.size(), 0);
    if (auto started = begin(); !started) {
      finish(128, started.error().text());
      return report(ready, started.error().text());
    }
    watch(ready);
  }

 private:
  static void report(Descriptor& ready, std::string_view text) {
    if (ready) writeAll(ready.get(), text);
    ready.close();
  }

  Result<> begin() {
    sigset_t signals;
    sigemptyset(&signals);
    for (int one : {SIGCHLD, SIGTERM, SIGINT, SIGUSR1}) sigaddset(&signals, one);
    sigprocmask(SIG_BLOCK, &signals, nullptr);
    signals_ = Descriptor(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!signals_) return systemError("cannot listen to signals");

    CADRE_LET(groups_, makeGroups(controlFolders(), groupName(), order_.limits));
    CADRE_LET(Pipe out, makePipe());
    CADRE_LET(Pipe errors, makePipe());
    CADRE_LET(Pipe status, makePipe());
    // Arguments with values that others must not see: not on a command line.
    Descriptor arguments(memfd_create("order", 0));
    std::string joined;
    for (const std::string& one : order_.sandbox) joined.append(one).push_back('\0');
    if (!arguments || !writeAll(arguments.get(), joined) ||
        lseek(arguments.get(), 0, SEEK_SET) != 0)
      return systemError("cannot pass the arguments on");
    std::string arguments_number = format("{}", arguments.get());
    std::string status_number = format("{}", status.write.get());
    std::vector<const char*> argv{
        "bwrap", "--args", arguments_number.c_str(), "--json-status-fd", status_number.c_str(),
        "--"};
    for (const std::string& one : order_.command) argv.push_back(one.c_str());
    argv.push_back(nullptr);
    const char* env[] = {"PATH=/usr/local/bin:/usr/bin:/bin", nullptr};
    child_ = fork();
    if (child_ < 0) return systemError("cannot start a process");
    if (child_ == 0) {
      sigset_t none;
      sigemptyset(&none);
      sigprocmask(SIG_SETMASK, &none, nullptr);
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      int nothing = open("/dev/null", O_RDONLY);
      if (dup2(nothing, 0) < 0 || dup2(out.write.get(), 1) < 0 || dup2(errors.write.get(), 2) < 0)
        _exit(127);
      fcntl(status.write.get(), F_SETFD, 0);
      if (!enterGroups(groups_)) {
        writeAll(2, "bwrap: its limits cannot be set\n");
        _exit(127);
      }
      if (!order_.tree.empty())
        if (auto written = enterOverlay(order_.tree, folder_); !written) {
          writeAll(2, format("bwrap: {}\n", written.error().message));
          _exit(127);
        }
      network_.begin();
      execvpe("bwrap", const_cast<char**>(argv.data()), const_cast<char**>(env));
      std::string why = format("bwrap: {}; install bubblewrap\n", std::strerror(errno));
      writeAll(2, why);
      _exit(127);
    }
    network_.listen();
    status_ = std::move(status.read);
    streams_.emplace_back("stdout", std::move(out.read), log_);
    streams_.emplace_back("stderr", std::move(errors.read), log_);
    return {};
  }

  void watch(Descriptor& ready) {
    while (!ended_ ||
           std::ranges::any_of(streams_, [](auto& one) { return one.descriptor() >= 0; })) {
      pollfd all[5] = {{signals_.get(), POLLIN, 0},
                       {status_.get(), POLLIN, 0},
                       {streams_[0].descriptor(), POLLIN, 0},
                       {streams_[1].descriptor(), POLLIN, 0},
                       {network_.descriptor(), POLLIN, 0}};
      // Everything in it is gone with it; only somebody outside could still hold its output.
      int found = poll(all, 5, ended_ ? 1000 : -1);
      if (found < 0 && errno != EINTR) break;
      if (found == 0) break;
      if (all[4].revents != 0) network_.answer(all[4].revents);
      if (all[1].revents != 0) takeStatus(ready);
      for (std::size_t i = 0; i < 2; ++i)
        if (all[2 + i].revents != 0) streams_[i].take();
      if (all[0].revents != 0) takeSignals();
    }
    for (Stream& one : streams_) one.end();
    // bwrap tells the exit code only of what it got to run.
    std::string_view errors = trim(streams_[1].beginning());
    bool failed = !ran_ && code_ != 0 && errors.starts_with("bwrap: ");
    finish(failed ? 128 : code_, failed ? inOurWords(errors) : "");
    if (ready) report(ready, failed ? errors : "it ended before it ran");
  }

  // {"child-pid": 17} when it begins, {"exit-code": 0} when it has ended by itself.
  void takeStatus(Descriptor& ready) {
    char buffer[1024];
    ssize_t got = ::read(status_.get(), buffer, sizeof buffer);
    if (got <= 0) return status_.close();
    status_text_.append(buffer, static_cast<std::size_t>(got));
    for (std::size_t end = 0; (end = status_text_.find('\n')) != std::string::npos;) {
      auto said = json::parse(std::string_view(status_text_).substr(0, end));
      status_text_.erase(0, end + 1);
      if (!said) continue;
      if (!(*said)["exit-code"].isNull()) ran_ = true;
      if ((*said)["child-pid"].isNull() || started_) continue;
      inner_ = static_cast<pid_t>((*said)["child-pid"].integer());
      started_ = SystemClock().now();
      writeState(folder_, state());
      report(ready, "");
    }
  }

  void takeSignals() {
    signalfd_siginfo info{};
    while (::read(signals_.get(), &info, sizeof info) == sizeof info) {
      switch (static_cast<int>(info.ssi_signo)) {
        case SIGCHLD: {
          int status = 0;
          if (waitpid(child_, &status, WNOHANG) != child_) break;
          code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
          ended_ = true;
          break;
        }
        case SIGUSR1:
          if (!ended_) kill(inner_ > 0 ? inner_ : child_, SIGKILL);
          break;
        default:
          if (!ended_ && inner_ > 0) kill(inner_, SIGTERM);
      }
    }
  }

  // By its folder, which nobody else has: the last parts of it are for people.
  std::string groupName() const {
    std::filesystem::path run(folder_), container = run.parent_path(),
                                        pod = container.parent_path();
    return format("cadre-{:08x}-{}-{}-{}", std::hash<std::string>()(folder_) & 0xffffffff,
                  pod.filename().string(), container.filename().string(), run.filename().string());
  }

  json::Value state() const {
    json::Object out{{"pid", inner_},
                     {"address", order_.address},
                     {"image", order_.image},
                     {"groups", listOf(groups_)}};
    if (started_) out.set("startedAt", formatTimeMicros(*started_));
    return out;
  }

  void finish(int code, const std::string& error) {
    json::Value end = state();
    end.make("finishedAt") = formatTimeMicros(SystemClock().now());
    end.make("exitCode") = code;
    if (wasShortOfMemory(groups_)) end.make("shortOfMemory") = true;
    removeGroups(groups_);
    if (!error.empty()) end.make("error") = error;
    writeState(folder_, end);
  }

  const std::string folder_;
  const ShimOrder& order_;
  LogFile log_;
  OwnAddress network_;
  Descriptor signals_, status_;
  ControlGroups groups_;
  std::vector<Stream> streams_;
  std::string status_text_;
  pid_t child_ = -1, inner_ = 0;
  std::optional<Time> started_;
  bool ran_ = false, ended_ = false;
  int code_ = 0;
};

// The process that was called for it ends; this one is nobody's child, and holds no file of his.
[[noreturn]] void stay(const std::string& folder, const ShimOrder& order, Descriptor ready) {
  setsid();
  prctl(PR_SET_PDEATHSIG, 0);
  prctl(PR_SET_NAME, "cadre-shim");
  (void)!chdir("/");
  int nothing = open("/dev/null", O_RDWR);
  for (int standard : {0, 1, 2}) dup2(nothing, standard);
  Shim(folder, order).run(std::move(ready));
  _exit(0);
}

}  // namespace

json::Value ShimOrder::toJson() const {
  return json::Object{{"sandbox", listOf(sandbox)},
                      {"command", listOf(command)},
                      {"log", log},
                      {"address", address},
                      {"image", image},
                      {"tree", tree},
                      {"memoryBytes", limits.memory_bytes},
                      {"cpuMillis", limits.cpu_millis},
                      {"processes", limits.processes},
                      {"maxLogBytes", max_log_bytes}};
}

Result<ShimOrder> ShimOrder::parse(const json::Value& value) {
  ShimOrder order{.sandbox = textsOf(value["sandbox"]),
                  .command = textsOf(value["command"]),
                  .log = value["log"].string(),
                  .address = value["address"].string(),
                  .image = value["image"].string(),
                  .tree = value["tree"].string(),
                  .limits = {.memory_bytes = value["memoryBytes"].integer(),
                             .cpu_millis = value["cpuMillis"].integer(),
                             .processes = value["processes"].integer()}};
  order.max_log_bytes = static_cast<std::size_t>(value["maxLogBytes"].integer(kMaxLogBytes));
  if (order.command.empty() || order.log.empty())
    return Error{
        .code = Code::InvalidArgument,
        .message = "an order has `command` and `log`: `cadre shim` is for the node itself"};
  return order;
}

Result<> startShim(const std::string& folder) {
  std::string text;
  char buffer[64u << 10];
  for (ssize_t got = 0; (got = ::read(0, buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<std::size_t>(got));
    if (text.size() > kMaxOrder)
      return Error{.code = Code::ResourceExhausted, .message = "the order is too long"};
  }
  CADRE_LET(json::Value value, json::parse(text));
  CADRE_LET(ShimOrder order, ShimOrder::parse(value));
  CADRE_LET(Pipe ready, makePipe());
  pid_t child = fork();
  if (child < 0) return systemError("cannot start a process");
  if (child == 0) {
    ready.read.close();
    stay(folder, order, std::move(ready.write));
  }
  ready.write.close();
  std::string said;
  for (ssize_t got = 0; (got = ::read(ready.read.get(), buffer, sizeof buffer)) > 0;)
    said.append(buffer, static_cast<std::size_t>(got));
  if (!said.empty()) return Error{.code = Code::Unavailable, .message = said};
  return {};
}

ShimState readShim(const std::string& folder) {
  bool held = false;
  Descriptor lock = takeLock(folder, held);
  json::Value state = readState(folder);
  ShimState out{.alive = held,
                .inner = static_cast<int>(state["pid"].integer()),
                .address = state["address"].string(),
                .image = state["image"].string(),
                .groups = textsOf(state["groups"]),
                .was_short = state["shortOfMemory"].boolean(),
                .started = parseTime(state["startedAt"].string()),
                .finished = parseTime(state["finishedAt"].string()),
                .code = static_cast<int>(state["exitCode"].integer()),
                .error = state["error"].string()};
  std::ifstream(folder + "/lock") >> out.process;
  if (out.alive || out.finished) return out;
  // It never began, or was killed. Whoever is late finds that it is over.
  removeGroups(out.groups);
  out.finished = SystemClock().now();
  out.code = 137;
  out.error = out.started ? "the process that watched over it was killed" : "it was never started";
  state.make("finishedAt") = formatTimeMicros(*out.finished);
  state.make("exitCode") = out.code;
  state.make("error") = out.error;
  writeState(folder, state);
  return out;
}

}  // namespace cadre::node
