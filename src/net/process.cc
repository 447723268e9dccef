#include "net/process.h"

#include <boost/asio/posix/stream_descriptor.hpp>

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/format.h"
#include "base/strings.h"
#include "net/asio.h"

namespace cadre::net {

namespace {

// What a dead child's descendants may still write after it: they hold the pipes open.
constexpr Duration kGrace = 500ms;

struct Pipe {
  int read = -1, write = -1;
  Pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) == 0) {
      read = ends[0];
      write = ends[1];
    }
  }
  ~Pipe() {
    if (read >= 0) ::close(read);
    if (write >= 0) ::close(write);
  }
  bool ok() const { return read >= 0; }
};

class Process : public std::enable_shared_from_this<Process> {
 public:
  using Descriptor = asio::posix::stream_descriptor;

  Process(Loop& loop, ProcessOptions options, Function<void(Result<ProcessResult>)> done)
      : loop_(loop),
        options_(std::move(options)),
        done_(std::move(done)),
        stdin_(contextOf(loop)),
        stdout_(contextOf(loop)),
        stderr_(contextOf(loop)),
        exit_(contextOf(loop)) {}

  ~Process() { kill(); }

  void start() {
    if (auto started = spawn(); !started) {
      loop_.post([weak = weak_from_this(), error = std::move(started).error()]() mutable {
        if (auto self = weak.lock(); self && self->done_)
          std::exchange(self->done_, nullptr)(std::move(error));
      });
      return;
    }
    timer_ = loop_.after(options_.timeout, [weak = weak_from_this()] {
      if (auto self = weak.lock()) {
        self->result_.timed_out = true;
        self->killGroup();
      }
    });
    waitForExit();
    collect(stdout_, result_.output);
    collect(stderr_, result_.errors);
    feed();
  }

  void cancel() {
    done_ = nullptr;
    timer_.reset();
    kill();
  }

 private:
  Result<> spawn() {
    auto fail = [&](int error) {
      return Error{.code = error == ENOENT ? Code::NotFound : Code::Unavailable,
                   .message = format(
                       "cannot run {}: {}", options_.argv.empty() ? "nothing" : options_.argv[0],
                       lower(std::error_code(error, std::generic_category()).message()))};
    };
    if (options_.argv.empty()) return fail(EINVAL);
    Pipe in, out, err;
    if (!in.ok() || !out.ok() || !err.ok()) return fail(errno);

    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    if (!options_.interactive) posix_spawn_file_actions_adddup2(&actions, in.read, 0);
    posix_spawn_file_actions_adddup2(&actions, out.write, 1);
    if (!options_.interactive) posix_spawn_file_actions_adddup2(&actions, err.write, 2);
    posix_spawn_file_actions_addclosefrom_np(&actions, 3);
    if (!options_.directory.empty())
      posix_spawn_file_actions_addchdir_np(&actions, options_.directory.c_str());
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);  // SIGPIPE kills it, as it expects
    posix_spawnattr_setpgroup(&attributes, 0);
    // In a group of its own it could not read from the terminal.
    posix_spawnattr_setflags(
        &attributes, static_cast<short>(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                        (options_.interactive ? 0 : POSIX_SPAWN_SETPGROUP)));

    std::vector<char*> argv;
    for (std::string& argument : options_.argv) argv.push_back(argument.data());
    argv.push_back(nullptr);
    std::vector<std::string> pairs;
    for (const auto& [name, value] : options_.env) pairs.push_back(name + "=" + value);
    std::vector<char*> env;
    for (std::string& pair : pairs) env.push_back(pair.data());
    env.push_back(nullptr);

    int error = ::posix_spawnp(&pid_, argv[0], &actions, &attributes, argv.data(), env.data());
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    if (error) {
      pid_ = -1;
      return fail(error);
    }
    int pid_fd = static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0));
    if (pid_fd < 0) {
      int why = errno;
      kill();
      return fail(why);
    }
    exit_.assign(pid_fd);
    stdout_.assign(std::exchange(out.read, -1));
    stderr_.assign(std::exchange(err.read, -1));
    if (!options_.interactive) stdin_.assign(std::exchange(in.write, -1));
    for (Descriptor* descriptor : {&stdin_, &stdout_, &stderr_})
      if (descriptor->is_open()) descriptor->native_non_blocking(true);
    return {};
  }

  void waitForExit() {
    exit_.async_wait(Descriptor::wait_read, [weak = weak_from_this()](ErrorCode error) {
      auto self = weak.lock();
      if (error || !self) return;
      self->exited_ = true;
      self->timer_ = self->loop_.after(kGrace, [weak] {
        if (auto self = weak.lock()) self->finish();
      });
      self->finishIfComplete();
    });
  }

  void collect(Descriptor& from, std::string& into) {
    from.async_wait(Descriptor::wait_read,
                    [weak = weak_from_this(), &from, &into](ErrorCode error) {
                      auto self = weak.lock();
                      if (error || !self) return;
                      char buffer[16384];
                      for (int turn = 0; turn < 64; ++turn) {
                        ssize_t bytes = ::read(from.native_handle(), buffer, sizeof buffer);
                        if (bytes > 0) {
                          std::size_t room = self->options_.max_output_bytes - into.size();
                          auto count = static_cast<std::size_t>(bytes);
                          into.append(buffer, std::min(room, count));
                          if (count > room) self->result_.truncated = true;
                        } else if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) {
                          break;
                        } else {
                          ErrorCode ignored;
                          from.close(ignored);
                          return self->finishIfComplete();
                        }
                      }
                      self->collect(from, into);
                    });
  }

  void feed() {
    if (!stdin_.is_open()) return;
    while (fed_ < options_.input.size()) {
      ssize_t bytes = ::write(stdin_.native_handle(), options_.input.data() + fed_,
                              options_.input.size() - fed_);
      if (bytes < 0 && errno == EAGAIN) {
        stdin_.async_wait(Descriptor::wait_write, [weak = weak_from_this()](ErrorCode error) {
          auto self = weak.lock();
          if (!error && self) self->feed();
        });
        return;
      }
      if (bytes <= 0) break;  // it does not want to read: its business
      fed_ += static_cast<std::size_t>(bytes);
    }
    ErrorCode ignored;
    stdin_.close(ignored);
  }

  void finishIfComplete() {
    if (exited_ && !stdout_.is_open() && !stderr_.is_open()) finish();
  }

  void finish() {
    auto keep = shared_from_this();
    timer_.reset();
    // What it left behind in its group goes with it. Only then it is reaped: until here its number
    // is its own.
    int status = kill();
    result_.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (done_) std::exchange(done_, nullptr)(std::move(result_));
  }

  void killGroup() {
    if (pid_ <= 0) return;
    if (!options_.interactive) ::kill(-pid_, SIGKILL);
    ::kill(pid_, SIGKILL);  // it may have left its group
  }

  int kill() {
    killGroup();
    int status = 0;
    if (pid_ > 0)
      ::waitpid(pid_, &status, 0);  // it has ended or was killed: this does not wait long
    pid_ = -1;
    return status;
  }

  Loop& loop_;
  ProcessOptions options_;
  Function<void(Result<ProcessResult>)> done_;
  Descriptor stdin_, stdout_, stderr_, exit_;
  ProcessResult result_;
  pid_t pid_ = -1;
  std::size_t fed_ = 0;
  bool exited_ = false;
  Pending timer_;
};

}  // namespace

Pending runProcess(Loop& loop, ProcessOptions options, Function<void(Result<ProcessResult>)> done) {
  auto process = std::make_shared<Process>(loop, std::move(options), std::move(done));
  process->start();
  return Pending([process] { process->cancel(); });
}

std::map<std::string, std::string> currentEnvironment() {
  std::map<std::string, std::string> out;
  for (char** entry = environ; *entry; ++entry) {
    auto [name, value] = cut(*entry, "=");
    out.emplace(name, value);
  }
  return out;
}

}  // namespace cadre::net
