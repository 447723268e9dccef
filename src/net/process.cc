#include "net/process.h"

#include <boost/asio/posix/stream_descriptor.hpp>

#include <fcntl.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
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
constexpr Duration kPause = 10ms;  // until somebody who is behind is asked again

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

constexpr int kFailed = 3;  // where a child says why it could not become the program

// As a shell finds it, but for folders that depend on where we are. Empty: nowhere.
std::string findProgram(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  const char* path = std::getenv("PATH");
  for (std::string_view folder : split(path ? path : "/usr/bin:/bin", ':')) {
    std::string file = format("{}/{}", folder, name);
    struct stat found;
    if (folder.starts_with('/') && ::stat(file.c_str(), &found) == 0 && S_ISREG(found.st_mode) &&
        ::access(file.c_str(), X_OK) == 0)
      return file;
  }
  return {};
}

// As exec wants them.
std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

class Process : public std::enable_shared_from_this<Process> {
 public:
  using Descriptor = asio::posix::stream_descriptor;

  // What a conversation has beyond a program that is only run.
  struct Live {
    bool terminal = false, input = false;
    Function<void(bool errors, std::string_view piece)> said;
    Function<bool()> full;
  };

  Process(Loop& loop, ProcessOptions options, Function<void(Result<ProcessResult>)> done,
          std::optional<Live> live = std::nullopt)
      : loop_(loop),
        options_(std::move(options)),
        done_(std::move(done)),
        live_(std::move(live)),
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
    if (!live_)
      timer_ = loop_.after(options_.timeout, [weak = weak_from_this()] {
        if (auto self = weak.lock()) {
          self->result_.timed_out = true;
          self->killGroup();
        }
      });
    waitForExit();
    collect(stdout_, result_.output);
    if (stderr_.is_open()) collect(stderr_, result_.errors);
    feed();
  }

  // ---- Of a conversation

  void write(std::string_view piece) {
    if (!stdin_.is_open() || !live_->input) return;
    options_.input.erase(0, std::exchange(fed_, 0));
    options_.input += piece;
    if (!feeding_) feed();
  }
  std::size_t backlog() const { return options_.input.size() - fed_; }
  void closeInput() {
    if (!std::exchange(live_->input, false)) return;
    // A terminal is told so by a letter of its own.
    if (live_->terminal) options_.input += '\x04';
    if (!feeding_) feed();
  }
  void resize(int rows, int columns) {
    struct winsize size{};
    size.ws_row = static_cast<unsigned short>(rows);
    size.ws_col = static_cast<unsigned short>(columns);
    if (live_->terminal && stdout_.is_open()) ::ioctl(stdout_.native_handle(), TIOCSWINSZ, &size);
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
    Pipe in, out, err, failed;
    if (!in.ok() || !out.ok() || !err.ok() || !failed.ok()) return fail(errno);
    if (live_ && live_->terminal) {
      // Its own side is all three of its files; ours both reads and writes.
      for (int* end : {&in.read, &in.write, &out.read, &out.write, &err.read, &err.write})
        ::close(std::exchange(*end, -1));
      if (::openpty(&out.read, &in.read, nullptr, nullptr, nullptr) != 0) return fail(errno);
      ::fcntl(out.read, F_SETFD, FD_CLOEXEC);
      ::fcntl(in.read, F_SETFD, FD_CLOEXEC);
      in.write = ::fcntl(out.read, F_DUPFD_CLOEXEC, 0);
    }

    std::string program = findProgram(options_.argv[0]);
    if (program.empty()) return fail(ENOENT);
    std::vector<char*> argv = pointers(options_.argv);
    std::vector<std::string> pairs;
    for (const auto& [name, value] : options_.env) pairs.push_back(name + "=" + value);
    std::vector<char*> env = pointers(pairs);

    // Not posix_spawn: it cannot tie the child's life to ours.
    const pid_t parent = ::getpid();
    sigset_t all, before;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);  // no handler of ours runs in the child
    pid_ = ::fork();
    if (pid_ == 0) {
      bool terminal = live_ && live_->terminal;
      becomeProgram(program.c_str(), argv.data(), env.data(), parent, in.read,
                    terminal ? in.read : out.write, terminal ? in.read : err.write, failed.write);
      int why = errno;
      (void)!::write(kFailed, &why, sizeof why);
      ::_exit(127);
    }
    int error = pid_ < 0 ? errno : 0;
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (pid_ > 0) {
      // The pipe ends with nothing in it when the program has taken over: within moments.
      ::close(std::exchange(failed.write, -1));
      while (::read(failed.read, &error, sizeof error) < 0 && errno == EINTR) {
      }
      if (error) ::waitpid(pid_, nullptr, 0);
    }
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
    if (err.read >= 0) stderr_.assign(std::exchange(err.read, -1));
    if (!options_.interactive) stdin_.assign(std::exchange(in.write, -1));
    for (Descriptor* descriptor : {&stdin_, &stdout_, &stderr_})
      if (descriptor->is_open()) descriptor->native_non_blocking(true);
    return {};
  }

  // In the child, between fork and exec: nothing here may allocate or lock. Comes back, with errno,
  // only if it fails.
  void becomeProgram(const char* program, char** argv, char** env, pid_t parent, int in, int out,
                     int err, int failed) const {
    // It goes when the thread that started it goes, however that ends. A parent that is gone
    // already will send no signal.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(127);
    if (live_ && live_->terminal) {
      ::setsid();
      ::ioctl(in, TIOCSCTTY, 0);
      ::dup2(in, 0);
      ::dup2(err, 2);
    } else if (!options_.interactive) {
      ::setpgid(0, 0);  // in a group of its own it could not read from the terminal
      ::dup2(in, 0);
      ::dup2(err, 2);
    }
    ::dup2(out, 1);
    ::dup3(failed, kFailed, O_CLOEXEC);
    ::closefrom(kFailed + 1);
    if (!options_.directory.empty() && ::chdir(options_.directory.c_str()) < 0) return;
    for (int number = 1; number < NSIG; ++number) ::signal(number, SIG_DFL);  // SIGPIPE kills it
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::execve(program, argv, env);
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
    from.async_wait(Descriptor::wait_read, [weak = weak_from_this(), &from,
                                            &into](ErrorCode error) {
      auto self = weak.lock();
      if (error || !self) return;
      if (self->live_ && self->live_->full && self->live_->full())
        return self->collectLater(from, into);
      char buffer[16384];
      for (int turn = 0; turn < 64; ++turn) {
        ssize_t bytes = ::read(from.native_handle(), buffer, sizeof buffer);
        if (bytes > 0 && self->live_) {
          if (self->live_->said)
            self->live_->said(&from == &self->stderr_, {buffer, static_cast<std::size_t>(bytes)});
          break;
        } else if (bytes > 0) {
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

  void collectLater(Descriptor& from, std::string& into) {
    (&from == &stderr_ ? later_errors_ : later_) =
        loop_.after(kPause, [weak = weak_from_this(), &from, &into] {
          if (auto self = weak.lock()) self->collect(from, into);
        });
  }

  void feed() {
    feeding_ = false;
    if (!stdin_.is_open()) return;
    while (fed_ < options_.input.size()) {
      ssize_t bytes = ::write(stdin_.native_handle(), options_.input.data() + fed_,
                              options_.input.size() - fed_);
      if (bytes < 0 && errno == EAGAIN) {
        feeding_ = true;
        stdin_.async_wait(Descriptor::wait_write, [weak = weak_from_this()](ErrorCode error) {
          auto self = weak.lock();
          if (!error && self) self->feed();
        });
        return;
      }
      if (bytes <= 0) break;  // it does not want to read: its business
      fed_ += static_cast<std::size_t>(bytes);
    }
    if (live_ && live_->input && fed_ == options_.input.size()) return;
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
    if (pid_ > 0) {
      ::waitpid(pid_, &status, 0);  // it has ended or was killed: this does not wait long
      // What it had started was killed, too. It is ours to bury where orphans come to us; one that
      // nobody buries keeps the container it is in from ending.
      while (!options_.interactive && ::waitpid(-pid_, nullptr, 0) > 0) {
      }
    }
    pid_ = -1;
    return status;
  }

  Loop& loop_;
  ProcessOptions options_;
  Function<void(Result<ProcessResult>)> done_;
  std::optional<Live> live_;
  Descriptor stdin_, stdout_, stderr_, exit_;
  ProcessResult result_;
  pid_t pid_ = -1;
  std::size_t fed_ = 0;
  bool exited_ = false, feeding_ = false;
  Pending timer_, later_, later_errors_;
};

class Talk final : public Conversation {
 public:
  explicit Talk(std::shared_ptr<Process> process) : process_(std::move(process)) {}
  ~Talk() override { process_->cancel(); }

  void write(std::string_view piece) override { process_->write(piece); }
  std::size_t backlog() const override { return process_->backlog(); }
  void closeInput() override { process_->closeInput(); }
  void resize(int rows, int columns) override { process_->resize(rows, columns); }

 private:
  const std::shared_ptr<Process> process_;
};

}  // namespace

Pending runProcess(Loop& loop, ProcessOptions options, Function<void(Result<ProcessResult>)> done) {
  auto process = std::make_shared<Process>(loop, std::move(options), std::move(done));
  process->start();
  return Pending([process] { process->cancel(); });
}

std::unique_ptr<Conversation> talk(Loop& loop, ConversationOptions options) {
  auto process = std::make_shared<Process>(
      loop, std::move(options.process),
      [ended = std::move(options.ended)](Result<ProcessResult> result) {
        if (!result) return ended(result.error());
        ended(result->exit_code);
      },
      Process::Live{options.terminal, options.input, std::move(options.said),
                    std::move(options.full)});
  process->start();
  return std::make_unique<Talk>(std::move(process));
}

Pending onProcessEnd(Loop& loop, int process, Function<void()> ended) {
  int descriptor = static_cast<int>(syscall(SYS_pidfd_open, process, 0));
  if (descriptor < 0) return loop.after(0s, std::move(ended));
  using End = asio::posix::stream_descriptor;
  auto end = std::make_shared<End>(contextOf(loop), descriptor);
  end->async_wait(End::wait_read,
                  [weak = std::weak_ptr(end), ended = std::move(ended), process](ErrorCode error) {
                    if (error || !weak.lock()) return;
                    waitpid(process, nullptr, WNOHANG);  // if it has become our child
                    ended();
                  });
  return Pending([end]() mutable { end.reset(); });
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
