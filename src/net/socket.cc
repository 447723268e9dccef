#include "net/socket.h"

#include <boost/asio/write.hpp>

#include "net/listening.h"

namespace cadre::net {
namespace {

using Tcp = asio::ip::tcp;

constexpr std::size_t kPiece = 32u << 10;
constexpr Duration kPause = 10ms;  // until somebody who is behind is asked again

class AnySocket final : public Socket {
 public:
  AnySocket(Loop& loop, Any::socket socket)
      : state_(std::make_shared<State>(loop, std::move(socket))) {
    ErrorCode ignored;
    state_->socket.set_option(Tcp::no_delay(true), ignored);  // where there is such a thing
  }
  ~AnySocket() override { state_->close(); }

  void listen(Handler handler) override {
    state_->handler = std::move(handler);
    state_->read();
  }
  void send(std::string_view piece) override {
    state_->waiting += piece;
    state_->write();
  }
  std::size_t backlog() const override { return state_->waiting.size() + state_->going.size(); }
  void finish() override {
    state_->finishing = true;
    state_->write();
  }

 private:
  // Operations refer to it until they end.
  struct State : std::enable_shared_from_this<State> {
    State(Loop& loop, Any::socket socket) : loop(loop), socket(std::move(socket)) {}

    void read() {
      if (closed) return;
      if (handler.full && handler.full()) {
        later = loop.after(kPause, [weak = weak_from_this()] {
          if (auto self = weak.lock()) self->read();
        });
        return;
      }
      buffer.resize(kPiece);
      socket.async_read_some(asio::buffer(buffer),
                             [self = shared_from_this()](ErrorCode error, std::size_t got) {
                               if (self->closed) return;
                               if (error) return self->end();
                               self->handler.data(std::string_view(self->buffer).substr(0, got));
                               self->read();
                             });
    }

    void write() {
      if (closed || !going.empty()) return;
      if (waiting.empty()) {
        ErrorCode ignored;
        if (finishing) socket.shutdown(Any::socket::shutdown_send, ignored);
        return;
      }
      going.swap(waiting);
      asio::async_write(socket, asio::buffer(going),
                        [self = shared_from_this()](ErrorCode error, std::size_t) {
                          self->going.clear();
                          if (error) return self->end();
                          self->write();
                        });
    }

    void end() {
      if (closed) return;
      if (auto ended = std::exchange(handler.ended, nullptr)) ended();
    }
    void close() {
      closed = true;
      later = {};
      ErrorCode ignored;
      socket.close(ignored);
    }

    Loop& loop;
    Any::socket socket;
    Handler handler;
    std::string buffer, waiting, going;
    bool finishing = false, closed = false;
    Pending later;
  };
  const std::shared_ptr<State> state_;
};

struct Dialling {
  explicit Dialling(Loop& loop) : socket(contextOf(loop)) {}
  Any::socket socket;
  Function<void(Result<std::unique_ptr<Socket>>)> done;
  Pending timer;

  void finish(Result<std::unique_ptr<Socket>> result) {
    timer = {};
    if (done) std::exchange(done, nullptr)(std::move(result));
  }
};

class AnyAcceptorOf final : public Acceptor {
 public:
  struct Impl {
    Impl(Loop& loop, Function<void(std::unique_ptr<Socket>)> took)
        : loop(loop), acceptor(contextOf(loop)), took(std::move(took)) {}
    void came(Any::socket socket) { took(std::make_unique<AnySocket>(loop, std::move(socket))); }

    Loop& loop;
    AnyAcceptor acceptor;
    Function<void(std::unique_ptr<Socket>)> took;
    Pending again;
  };

  explicit AnyAcceptorOf(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::uint16_t port() const override { return portOf(impl_->acceptor); }

 private:
  const std::shared_ptr<Impl> impl_;
};

Pending begin(Loop& loop, const Any::endpoint& to, const std::string& name, Duration timeout,
              Function<void(Result<std::unique_ptr<Socket>>)> done) {
  auto dialling = std::make_shared<Dialling>(loop);
  dialling->done = std::move(done);
  auto cannot = [name](std::string_view why) {
    return Error{.code = Code::Unavailable,
                 .message = format("cannot connect to {}: {}", name, why)};
  };
  dialling->timer = loop.after(timeout, [dialling = dialling.get(), cannot] {
    ErrorCode ignored;
    dialling->socket.close(ignored);
    dialling->finish(cannot("no answer"));
  });
  dialling->socket.async_connect(to, [dialling, cannot, &loop](ErrorCode failed) {
    if (!dialling->done) return;
    if (failed) return dialling->finish(cannot(failed.message()));
    dialling->finish(
        std::unique_ptr<Socket>(std::make_unique<AnySocket>(loop, std::move(dialling->socket))));
  });
  return Pending([dialling] {
    dialling->done = nullptr;
    dialling->timer = {};
    ErrorCode ignored;
    dialling->socket.close(ignored);
  });
}

}  // namespace

Pending dial(Loop& loop, const Place& place, Duration timeout,
             Function<void(Result<std::unique_ptr<Socket>>)> done) {
  auto endpoint = endpointOf(place);
  if (!endpoint)
    return loop.after(0s, [done = std::move(done), error = endpoint.error()] { done(error); });
  return begin(loop, *endpoint, place.text(), timeout, std::move(done));
}

Result<std::unique_ptr<Acceptor>> Acceptor::listen(Loop& loop, const Place& place,
                                                   Function<void(std::unique_ptr<Socket>)> came) {
  auto impl = std::make_shared<AnyAcceptorOf::Impl>(loop, std::move(came));
  CADRE_TRY(beginListening(impl->acceptor, place));
  acceptNext(std::weak_ptr(impl));
  return std::unique_ptr<Acceptor>(std::make_unique<AnyAcceptorOf>(std::move(impl)));
}

}  // namespace cadre::net
