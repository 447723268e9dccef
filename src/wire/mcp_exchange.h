// Private to wire: one message to an MCP server over HTTP, and what comes back for it.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/function.h"
#include "base/result.h"
#include "base/scheduler.h"
#include "net/http.h"
#include "wire/json_rpc.h"
#include "wire/mcp_client.h"
#include "wire/sse.h"

namespace cadre::wire {

// A failure before an MCP server answered, or of what it answered.
Error mcpUnreachable(Error error);
Error mcpProtocolError(Code code, std::string message);

// An HTTP answer that is complete.
struct McpAnswer {
  int status = 0;
  net::Headers headers;
  std::optional<RpcResponse> response;  // to our request, also beside an HTTP error
  std::string body;                     // of an HTTP error
  std::size_t bytes = 0;                // of the whole answer

  // What it means where an answer to a request was wanted and `response` is none.
  Error httpError() const;
};

// Sends a message and reads its answer: JSON or an event stream, which is resumed where that is
// possible. Follows one redirect within the origin. Owned by whoever started it; dropping it ends
// it without a word.
class McpExchange : public std::enable_shared_from_this<McpExchange> {
 public:
  struct Options {
    net::Url url;
    McpLimits limits;
    std::optional<RpcId> expects;  // the request whose answer is waited for
    bool resumable = false;
    Duration timeout = 0s;  // 0: the owner keeps the time
  };
  // Each may drop the exchange.
  struct Handler {
    Function<void(Result<McpAnswer>)> done;  // once
    Function<void()> over;                   // once, after it: nothing is under way any more
    Function<void(RpcRequest)> request;
    Function<void(RpcNotification)> notification;
  };

  McpExchange(Scheduler& scheduler, net::HttpClient& http, Options options, Handler handler)
      : scheduler_(scheduler),
        http_(http),
        options_(std::move(options)),
        handler_(std::move(handler)) {}

  void start(net::HttpRequest request);
  void drop();

 private:
  enum class Body { None, Skipped, Json, Events, Error };

  void send(net::HttpRequest request);
  void head(net::ResponseHead head);
  void data(std::string_view piece);
  void end(Result<> result);
  bool follow(const net::ResponseHead& head);
  void beginEvents();
  void event(SseEvent event);
  void take(RpcMessage message);
  void ended();
  void endedJson();
  void endedError();
  void brokenOff(Error why);
  void resume();
  void finish(Result<McpAnswer> result);
  void fail(Error error) { finish(std::move(error)); }
  void finishOver();

  Scheduler& scheduler_;
  net::HttpClient& http_;
  const Options options_;
  Handler handler_;

  net::HttpRequest request_;  // without its body once that cannot be needed again
  Pending exchange_, timer_, pause_;
  McpAnswer answer_;
  Body body_ = Body::None;
  std::string text_;
  std::optional<SseParser> events_;
  std::string last_event_;
  Duration resume_after_ = 1s;  // until the server says how long
  bool redirected_ = false, resuming_ = false;
  bool finished_ = false, over_ = false;
  std::size_t server_requests_ = 0, resumptions_ = 0, failed_resumptions_ = 0;
};

}  // namespace cadre::wire
