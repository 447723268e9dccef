#include "net/terminal.h"

#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstdlib>

#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "net/asio.h"

namespace cadre::net {
namespace {

constexpr Duration kPause = 10ms;  // until somebody who is behind is asked again

struct termios as_it_was;
bool is_raw = false;

void restore() {
  if (std::exchange(is_raw, false)) ::tcsetattr(STDIN_FILENO, TCSANOW, &as_it_was);
}

void makeRaw() {
  if (!isTerminal(STDIN_FILENO) || ::tcgetattr(STDIN_FILENO, &as_it_was) != 0) return;
  struct termios raw = as_it_was;
  ::cfmakeraw(&raw);
  static const int kRegistered = std::atexit(restore);  // however this program ends by itself
  is_raw = kRegistered == 0 && ::tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
}

class Reader final : public std::enable_shared_from_this<Reader> {
 public:
  Reader(Loop& loop, Typing::Handler handler)
      : loop_(loop), handler_(std::move(handler)), input_(contextOf(loop)) {
    struct stat about;
    // A file is always ready, and nobody tells.
    waits_ = ::fstat(STDIN_FILENO, &about) == 0 && !S_ISREG(about.st_mode);
    if (waits_) input_.assign(::dup(STDIN_FILENO));
  }

  void next() {
    if (handler_.full && handler_.full()) return later(kPause);
    if (!waits_) return later(0s);
    input_.async_wait(asio::posix::stream_descriptor::wait_read,
                      [weak = weak_from_this()](ErrorCode error) {
                        if (auto self = weak.lock(); self && !error) self->read();
                      });
  }

 private:
  void later(Duration pause) {
    timer_ = loop_.after(pause, [weak = weak_from_this()] {
      auto self = weak.lock();
      if (!self) return;
      if (self->waits_ || (self->handler_.full && self->handler_.full())) return self->next();
      self->read();
    });
  }

  void read() {
    char buffer[16384];
    // NOLINTNEXTLINE(clang-analyzer-unix.BlockInCriticalSection): a weak_ptr's lock is none.
    ssize_t bytes = ::read(STDIN_FILENO, buffer, sizeof buffer);
    if (bytes <= 0) return handler_.ended();
    handler_.typed({buffer, static_cast<std::size_t>(bytes)});
    next();
  }

  Loop& loop_;
  const Typing::Handler handler_;
  asio::posix::stream_descriptor input_;
  bool waits_ = false;
  Pending timer_;
};

// Whoever holds it ends it.
class Held final : public Typing {
 public:
  explicit Held(std::shared_ptr<Reader> reader) : reader_(std::move(reader)) {}
  ~Held() override { restore(); }

 private:
  const std::shared_ptr<Reader> reader_;
};

}  // namespace

std::unique_ptr<Typing> Typing::begin(Loop& loop, bool raw, Handler handler) {
  if (raw) makeRaw();
  auto reader = std::make_shared<Reader>(loop, std::move(handler));
  reader->next();
  return std::make_unique<Held>(std::move(reader));
}

bool isTerminal(int descriptor) { return ::isatty(descriptor) == 1; }

std::optional<TerminalSize> terminalSize(int descriptor) {
  struct winsize size{};
  if (::ioctl(descriptor, TIOCGWINSZ, &size) != 0) return std::nullopt;
  return TerminalSize{size.ws_row, size.ws_col};
}

}  // namespace cadre::net
