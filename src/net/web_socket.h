#pragma once

#include <memory>
#include <string>

#include "net/http.h"
#include "net/loop.h"
#include "net/tls.h"

namespace cadre::net {

// One end of an upgraded connection. Dropping it closes the connection.
class WebSocket {
 public:
  struct Handler {
    Function<void(bool text, std::string_view message)> message;
    // Called once, when the peer is gone or said goodbye; not when we drop it.
    Function<void()> closed;
  };
  virtual ~WebSocket() = default;
  virtual void listen(Handler handler) = 0;
  virtual void send(bool text, std::string message) = 0;
  // What was sent and the peer has not taken yet; beyond 64 MiB the connection is cut.
  virtual std::size_t backlog() const = 0;
  // Says goodbye after what was sent before.
  virtual void close(std::uint16_t code, std::string_view reason) = 0;
};

struct WebSocketRequest {
  Url url;                   // of the server
  std::optional<Url> proxy;  // as an HttpClient takes it
  TlsClientOptions tls;      // for https
  std::string target;
  Headers headers;
  std::string subprotocol;  // that the server must take
  // What an answer means that is none.
  Function<Error(int status, std::string_view body)> refused;
  Duration timeout = 30s;
};

// Opens one to a server.
Pending openWebSocket(Loop& loop, WebSocketRequest request,
                      Function<void(Result<std::unique_ptr<WebSocket>>)> done);

}  // namespace cadre::net
