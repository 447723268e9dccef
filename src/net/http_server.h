#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "net/http.h"
#include "net/loop.h"
#include "net/tls.h"
#include "net/web_socket.h"

namespace cadre::net {

// One request and the means to answer it, once: with a whole answer, as a stream, or by becoming a
// WebSocket. A request that is dropped unanswered answers 500; one that is dropped in mid-stream
// cuts the connection, so that the client can tell. Belongs to the server's loop.
class ServerRequest {
 public:
  std::string method;
  std::string target;
  Headers headers;
  std::string body;
  std::string peer;
  // Who the client's certificate says it is, if it showed one that the CA signed.
  std::string client_name;
  std::vector<std::string> client_groups;

  virtual ~ServerRequest() = default;
  virtual void respond(int status, Headers headers, std::string body) = 0;

  // With a Content-Length among the headers, what is written has to be as long as that.
  virtual void begin(int status, Headers headers) = 0;
  // Queues a piece. The backlog is what the client has not taken yet.
  virtual void write(std::string_view piece) = 0;
  virtual std::size_t backlog() const = 0;
  virtual void end() = 0;
  // Called once if the client goes away before the answer is complete.
  virtual void onGone(Function<void()> gone) = 0;

  virtual bool wantsWebSocket() const = 0;
  // Accepts with one of the subprotocols that the client offered, or none.
  virtual void acceptWebSocket(std::string subprotocol,
                               Function<void(std::unique_ptr<WebSocket>)> accepted) = 0;
};

// One that is handed over when its head is there: `body` stays empty, and the body is read as it
// comes. It may also be answered by going on in another protocol.
class StreamedRequest : public ServerRequest {
 public:
  // None: the client does not know it yet.
  virtual std::optional<std::uint64_t> bodyLength() const = 0;
  // Calls once, and not from inside, with the next piece; an empty one is the end. Until then only
  // a little is taken from the network. A client that sends nothing for `body_timeout` is cut off.
  virtual void readBody(Function<void(std::string_view piece)> got) = 0;
  // Calls once, and not from inside, when the client has taken all that was written.
  virtual void onTaken(Function<void()> taken) = 0;
  // Answers 101. From then on all that is written goes out as it is, and readBody() gives what
  // comes as it is, with no limit of time.
  virtual void switchProtocol(Headers headers) = 0;
};

struct HttpServerOptions {
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;  // 0: any free one
  std::optional<TlsServerOptions> tls;
  // For one more, the one that is idle longest is closed, or the one that is longest in its head;
  // while every one has a request, more wait in the system's queue.
  std::size_t max_connections = 4096;
  std::uint32_t max_header_bytes = 64 << 10;
  std::size_t max_body_bytes = 3 << 20;      // more is answered 413; streamed ones have no limit
  std::size_t max_backlog_bytes = 64 << 20;  // a client that takes nothing is cut off here
  // And where all of them together take too little, those that are furthest behind.
  std::size_t max_backlog_together = 512 << 20;
  // Bodies that have begun and not ended, of all clients: beyond that the oldest are cut off.
  std::size_t max_bodies_together = 128 << 20;
  Duration head_timeout = 10s;  // from connecting, or from the first byte, to a complete head
  Duration body_timeout = 60s;
  Duration idle_timeout = 120s;  // between requests
  Duration linger_timeout = 2s;  // for a refused client to finish, and then hear why
};

// An HTTP/1.1 server. Destroying it closes every connection.
class HttpServer {
 public:
  using Handler = Function<void(std::shared_ptr<ServerRequest>)>;
  using StreamHandler = Function<void(std::shared_ptr<StreamedRequest>)>;
  virtual ~HttpServer() = default;
  virtual std::uint16_t port() const = 0;
  virtual std::size_t connections() const = 0;
  // New connections use it; those that are open keep what they have.
  virtual Result<> setTls(const TlsServerOptions& tls) = 0;
  // Takes no new connections and closes the idle ones; calls back when the last answer is out.
  virtual void drain(Function<void()> drained) = 0;

  static Result<std::unique_ptr<HttpServer>> listen(Loop& loop, HttpServerOptions options,
                                                    Handler handler);
  static Result<std::unique_ptr<HttpServer>> listenStreamed(Loop& loop, HttpServerOptions options,
                                                            StreamHandler handler);
};

std::string_view statusText(int status);

}  // namespace cadre::net
