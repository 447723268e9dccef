#include "net/web_socket.h"

#include "base/format.h"
#include "net/web_socket_stream.h"

namespace cadre::net {
namespace {

// While it dials, and then while it greets.
struct Opening {
  WebSocketRequest request;
  Function<void(Result<std::unique_ptr<WebSocket>>)> done;
  Pending dialling;
  std::unique_ptr<WebSocketOverStream> socket;

  void finish(Result<std::unique_ptr<WebSocket>> result) {
    if (done) std::exchange(done, nullptr)(std::move(result));
  }
};

Error refusal(const WebSocketRequest& request, ErrorCode error, int status,
              const std::string& body) {
  if (status > 101) return request.refused(status, body);
  return {.code = Code::Unavailable,
          .message = format("{}: {}", request.url.origin(), error.message())};
}

}  // namespace

Pending openWebSocket(Loop& loop, WebSocketRequest request,
                      Function<void(Result<std::unique_ptr<WebSocket>>)> done) {
  auto opening = std::make_shared<Opening>();
  ConnectOptions options{.url = request.url, .unix_path = {}, .proxy = request.proxy};
  options.timeout = request.timeout;
  opening->request = std::move(request);
  opening->done = std::move(done);
  auto cancel = [opening] {
    opening->done = nullptr;
    opening->dialling = {};
    opening->socket.reset();
  };
  if (opening->request.url.scheme == "https") {
    auto tls = TlsContext::client(opening->request.tls, {"http/1.1"});
    if (!tls) {
      opening->dialling = loop.after(
          0s, [opening = opening.get(), error = tls.error()] { opening->finish(error); });
      return Pending(cancel);
    }
    options.tls = *std::move(tls);
  }
  opening->dialling =
      connect(loop, std::move(options),
              [weak = std::weak_ptr(opening)](Result<std::unique_ptr<Stream>> stream) {
                auto opening = weak.lock();
                if (!opening) return;
                if (!stream) return opening->finish(stream.error());
                opening->socket = std::make_unique<WebSocketOverStream>(*std::move(stream));
                opening->socket->greet(
                    opening->request, [weak](ErrorCode error, int status, const std::string& body) {
                      auto opening = weak.lock();
                      if (!opening) return;
                      if (error)
                        return opening->finish(refusal(opening->request, error, status, body));
                      opening->finish(std::unique_ptr<WebSocket>(std::move(opening->socket)));
                    });
              });
  return Pending(cancel);
}

}  // namespace cadre::net
