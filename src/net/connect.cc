#include "net/connect.h"

#include "base/format.h"
#include "net/asio.h"
#include "net/http.h"

namespace cadre::net {

Pending tryConnect(Loop& loop, const std::string& host, std::uint16_t port, Duration timeout,
                   Function<void(Result<>)> done) {
  struct Trial {
    explicit Trial(Loop& loop) : socket(contextOf(loop)) {}
    asio::ip::tcp::socket socket;
    Pending timer;
    Function<void(Result<>)> done;
    void end(Result<> result) {
      auto then = std::exchange(done, nullptr);
      timer.reset();
      ErrorCode ignored;
      socket.close(ignored);
      if (then) then(std::move(result));
    }
  };
  auto trial = std::make_shared<Trial>(loop);
  trial->done = std::move(done);
  auto fail = [place = authority(host, port)](std::string_view why) {
    return Error{.code = Code::Unavailable, .message = format("dial tcp {}: {}", place, why)};
  };
  ErrorCode error;
  auto address = asio::ip::make_address(host, error);
  std::weak_ptr<Trial> weak = trial;
  auto end = [weak](Result<> result) {
    if (auto self = weak.lock()) self->end(std::move(result));
  };
  if (error) {
    trial->timer = loop.after(0s, [end, fail] { end(fail("that is no address")); });
  } else {
    trial->timer = loop.after(timeout, [end, fail] { end(fail("timeout")); });
    trial->socket.async_connect({address, port}, [end, fail](ErrorCode failed) {
      if (failed == asio::error::operation_aborted) return;
      end(failed ? Result<>(fail(failed.message())) : Result<>());
    });
  }
  return Pending([trial]() mutable { trial.reset(); });
}

}  // namespace cadre::net
