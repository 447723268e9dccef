#pragma once

// Private to `net`: a WebSocket of Beast's on a Stream of ours.

#include <boost/asio/post.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/websocket/rfc6455.hpp>
#include <boost/beast/websocket/stream.hpp>
#include <deque>

#include "net/stream.h"
#include "net/web_socket.h"

namespace cadre::net {

namespace http = boost::beast::http;
namespace websocket = boost::beast::websocket;

// Beast's WebSocket asks how to end the layer below it.
template <class Handler>
void async_teardown(boost::beast::role_type, Stream& stream, Handler&& handler) {
  stream.close();
  asio::post(stream.get_executor(),
             [handler = std::forward<Handler>(handler)]() mutable { handler(ErrorCode()); });
}
inline void teardown(boost::beast::role_type, Stream& stream, ErrorCode&) { stream.close(); }
inline void beast_close_socket(Stream& stream) { stream.close(); }

inline constexpr std::size_t kMaxWebSocketMessage = 16 << 20;
inline constexpr std::size_t kMaxWebSocketBacklog = 64 << 20;  // a peer that takes nothing is cut

class WebSocketOverStream final : public WebSocket {
 public:
  WebSocketOverStream(std::unique_ptr<Stream> stream)
      : state_(std::make_shared<State>(std::move(stream))) {}
  ~WebSocketOverStream() override { state_->drop(); }

  void accept(const http::request<http::empty_body>& request, const std::string& subprotocol,
              Function<void(bool)> done) {
    if (!subprotocol.empty())
      state_->socket.set_option(
          websocket::stream_base::decorator([subprotocol](websocket::response_type& response) {
            response.set(http::field::sec_websocket_protocol, subprotocol);
          }));
    state_->socket.async_accept(
        request, [state = state_, done = std::move(done)](ErrorCode error) { done(!error); });
  }

  // As a client.
  void greet(const WebSocketRequest& request, Function<void(ErrorCode, int, std::string)> done) {
    state_->socket.set_option(
        websocket::stream_base::timeout::suggested(boost::beast::role_type::client));
    state_->socket.set_option(websocket::stream_base::decorator(
        [headers = request.headers, subprotocol = request.subprotocol](auto& head) {
          for (const auto& [name, value] : headers) head.insert(name, value);
          head.set(http::field::sec_websocket_protocol, subprotocol);
        }));
    auto answer = std::make_shared<websocket::response_type>();
    state_->socket.async_handshake(
        *answer, request.url.authority(), request.target,
        [state = state_, answer, done = std::move(done)](ErrorCode error) {
          done(error, static_cast<int>(answer->result_int()), answer->body());
        });
  }

  void listen(Handler handler) override {
    state_->handler = std::move(handler);
    state_->read();
  }

  void send(bool text, std::string message) override {
    if (state_->dropped) return;
    state_->backlog += message.size();
    if (state_->backlog > kMaxWebSocketBacklog) {
      // Not from here: the one who sends may own what hears it.
      asio::post(state_->owned->get_executor(), [state = state_] {
        if (!state->dropped) state->gone();
      });
      return;
    }
    state_->outgoing.push_back({text, std::move(message)});
    state_->write();
  }

  std::size_t backlog() const override { return state_->backlog; }

  void close(std::uint16_t code, std::string_view reason) override {
    state_->goodbye = websocket::close_reason(static_cast<websocket::close_code>(code),
                                              std::string(reason.substr(0, 120)));
    state_->write();
  }

 private:
  struct Message {
    bool text;
    std::string data;
  };
  // Beast's operations refer to the stream until they end, so it lives on until then.
  struct State : std::enable_shared_from_this<State> {
    explicit State(std::unique_ptr<Stream> stream) : owned(std::move(stream)), socket(*owned) {
      socket.read_message_max(kMaxWebSocketMessage);
      socket.set_option(
          websocket::stream_base::timeout::suggested(boost::beast::role_type::server));
    }

    void read() {
      socket.async_read(buffer, [self = shared_from_this()](ErrorCode error, std::size_t) {
        if (self->dropped) return;
        if (error) return self->gone();
        auto bytes = self->buffer.data();
        if (self->handler.message)
          self->handler.message(self->socket.got_text(),
                                {static_cast<const char*>(bytes.data()), bytes.size()});
        self->buffer.consume(self->buffer.size());
        if (!self->dropped) self->read();
      });
    }

    void write() {
      if (writing || dropped) return;
      if (outgoing.empty()) {
        if (!goodbye) return;
        writing = true;
        return socket.async_close(*goodbye, [self = shared_from_this()](ErrorCode) {});
      }
      writing = true;
      socket.text(outgoing.front().text);
      socket.async_write(
          asio::const_buffer(outgoing.front().data.data(), outgoing.front().data.size()),
          [self = shared_from_this()](ErrorCode error, std::size_t) {
            self->writing = false;
            self->backlog -= self->outgoing.front().data.size();
            self->outgoing.pop_front();
            if (!error) self->write();
          });
    }

    void gone() {
      dropped = true;
      owned->close();
      if (handler.closed) std::exchange(handler.closed, nullptr)();
    }
    void drop() {
      dropped = true;
      owned->close();
    }

    std::unique_ptr<Stream> owned;
    websocket::stream<Stream&, /*deflateSupported=*/false> socket;
    boost::beast::flat_buffer buffer;
    std::deque<Message> outgoing;
    std::size_t backlog = 0;
    std::optional<websocket::close_reason> goodbye;
    Handler handler;
    bool writing = false, dropped = false;
  };
  std::shared_ptr<State> state_;
};

}  // namespace cadre::net
