#include "wire/mcp_exchange.h"

#include <algorithm>
#include <utility>

#include "base/format.h"
#include "base/strings.h"
#include "json/utf8.h"

namespace cadre::wire {

namespace {

// How long an event stream may take to end after its answer, so that the connection can be kept.
constexpr Duration kLinger = 250ms;
constexpr std::size_t kMaxFailedResumptions = 2;
constexpr std::size_t kShownBytes = 300;

std::string mediaType(const net::Headers& headers) {
  return lower(trim(cut(headers.get("Content-Type"), ";").first));
}

Code codeOf(int status) {
  switch (status) {
    case 401:
      return Code::Unauthenticated;
    case 403:
      return Code::Forbidden;
    case 404:
      return Code::NotFound;
    case 413:
    case 429:
      return Code::ResourceExhausted;
    case 502:
    case 503:
    case 504:
      return Code::Unavailable;
    default:
      return status >= 500 ? Code::Internal : Code::InvalidArgument;
  }
}

// Parser's words for what a peer sent: from here on it is the peer that is wrong.
Error nonsense(Error error) {
  Code code = error.code == Code::ResourceExhausted ? error.code : Code::DataLoss;
  return mcpProtocolError(code, error.text());
}

}  // namespace

Error mcpUnreachable(Error error) {
  error.reason = kMcpUnreachable;
  return error;
}

Error mcpProtocolError(Code code, std::string message) {
  return Error{
      .code = code, .message = std::move(message), .reason = std::string(kMcpProtocolError)};
}

Error McpAnswer::httpError() const {
  std::string text = format("it answers with HTTP status {}", status);
  std::string type = mediaType(headers);
  if (!body.empty() && (type == "text/plain" || type == "application/json"))
    text += ": " + shorten(json::utf8Repair(trim(body)), kShownBytes);
  Error error{.code = codeOf(status), .message = std::move(text)};
  if (auto seconds = parseInt(headers.get("Retry-After")); seconds && *seconds >= 0)
    error.retry_after = std::chrono::seconds(std::min<std::int64_t>(*seconds, 86400));
  // A gateway speaks for a server that is not there.
  bool absent = error.code == Code::Unavailable || status == 429;
  error.reason = absent ? kMcpUnreachable : kMcpProtocolError;
  return error;
}

void McpExchange::start(net::HttpRequest request) {
  request_ = std::move(request);
  // Time is kept here and by the owner: an answer may come in several exchanges.
  request_.head_timeout = 0s;
  request_.timeout = 0s;
  if (options_.timeout > 0s)
    timer_ = scheduler_.after(options_.timeout, [weak = weak_from_this()] {
      if (auto self = weak.lock())
        self->fail(mcpUnreachable(
            {.code = Code::DeadlineExceeded,
             .message = format("no answer within {}", formatDuration(self->options_.timeout))}));
    });
  send(request_);
}

void McpExchange::drop() {
  finished_ = true;
  finishOver();
}

void McpExchange::send(net::HttpRequest request) {
  net::ResponseHandler handler;
  handler.head = [weak = weak_from_this()](net::ResponseHead head) {
    if (auto self = weak.lock()) self->head(std::move(head));
  };
  handler.data = [weak = weak_from_this()](std::string_view piece) {
    if (auto self = weak.lock()) self->data(piece);
  };
  handler.end = [weak = weak_from_this()](Result<> result) {
    if (auto self = weak.lock()) self->end(std::move(result));
  };
  body_ = Body::None;
  exchange_ = http_.send(std::move(request), std::move(handler));
}

void McpExchange::head(net::ResponseHead head) {
  if (finished_) return;
  if (head.status == 307 || head.status == 308) {
    if (follow(head)) return;
    return fail(mcpProtocolError(
        Code::NotFound,
        format("it redirects to {}, which is not followed: use the right URL",
               shorten(json::utf8Repair(head.headers.get("Location")), kShownBytes))));
  }
  bool good = head.status >= 200 && head.status < 300;
  std::string type = mediaType(head.headers);
  if (resuming_) {
    if (good && type == "text/event-stream") return beginEvents();
    exchange_.reset();
    return brokenOff(mcpUnreachable(
        {.code = Code::Unavailable,
         .message = format("the event stream broke off and is not resumed (HTTP status {})",
                           head.status)}));
  }
  answer_.status = head.status;
  answer_.headers = std::move(head.headers);
  if (!good) {
    body_ = Body::Error;
  } else if (!options_.expects) {
    body_ = Body::Skipped;
    if (type == "text/event-stream") finish(std::move(answer_));  // which may never end
  } else if (type == "text/event-stream") {
    beginEvents();
  } else if (type == "application/json") {
    body_ = Body::Json;
  } else if (answer_.status == 202 || answer_.status == 204) {
    fail(mcpProtocolError(
        Code::DataLoss,
        format("it takes a request without answering it (HTTP status {})", answer_.status)));
  } else {
    fail(mcpProtocolError(
        Code::DataLoss,
        format("it answers with {}, which is neither JSON nor an event stream",
               type.empty() ? "no Content-Type" : shorten(json::utf8Repair(type), 100))));
  }
}

// Sends the same again to where a redirect points, if that is within the origin.
bool McpExchange::follow(const net::ResponseHead& head) {
  if (std::exchange(redirected_, true)) return false;
  std::string location(head.headers.get("Location"));
  if (!location.starts_with('/') || location.starts_with("//")) {
    auto url = net::Url::parse(location);
    if (!url || lower(url->origin()) != lower(options_.url.origin()) || !url->user_info.empty())
      return false;
    location = url->target.starts_with('/') ? url->target : "/" + url->target;
  }
  request_.target = cut(location, "#").first;
  send(request_);
  return true;
}

void McpExchange::data(std::string_view piece) {
  if (finished_ || body_ == Body::None) return;
  auto keep = shared_from_this();
  answer_.bytes += piece.size();
  if (body_ == Body::Error) {
    // What is more than we show is thrown away.
    std::size_t room =
        options_.limits.error_bytes - std::min(text_.size(), options_.limits.error_bytes);
    text_ += piece.substr(0, room);
    if (answer_.bytes > options_.limits.answer_bytes) ended();
    return;
  }
  if (answer_.bytes > options_.limits.answer_bytes)
    return fail(mcpProtocolError(
        Code::ResourceExhausted,
        format("its answer is larger than {} bytes", options_.limits.answer_bytes)));
  if (body_ == Body::Json) {
    text_ += piece;
  } else if (body_ == Body::Events) {
    if (auto fed = events_->feed(piece); !fed && !finished_) fail(nonsense(std::move(fed).error()));
  }
}

void McpExchange::beginEvents() {
  body_ = Body::Events;
  resuming_ = false;
  std::size_t limit = options_.limits.answer_bytes;
  events_.emplace([this](SseEvent incoming) { event(std::move(incoming)); },
                  SseLimits{.line_bytes = limit, .event_bytes = limit});
}

void McpExchange::event(SseEvent event) {
  if (finished_) return;
  failed_resumptions_ = 0;
  if (event.type != "message" || event.data.empty()) return;
  const McpLimits& limits = options_.limits;
  auto messages = parseRpc(
      event.data,
      json::Limits{.bytes = limits.answer_bytes, .depth = limits.depth, .values = limits.values});
  if (!messages) return fail(nonsense(std::move(messages).error()));
  for (RpcMessage& message : *messages)
    if (!finished_) take(std::move(message));
}

void McpExchange::take(RpcMessage message) {
  if (auto* response = std::get_if<RpcResponse>(&message)) {
    if (!response->id || response->answers(*options_.expects)) {
      answer_.response = std::move(*response);
      return finish(std::move(answer_));
    }
    return fail(
        mcpProtocolError(Code::DataLoss, "it answers a request that was not sent to it here"));
  }
  if (auto* request = std::get_if<RpcRequest>(&message)) {
    if (++server_requests_ > options_.limits.server_requests)
      return fail(mcpProtocolError(
          Code::ResourceExhausted,
          format("it asks more than {} times before it answers", options_.limits.server_requests)));
    if (handler_.request) handler_.request(std::move(*request));
  } else if (handler_.notification) {
    handler_.notification(std::move(std::get<RpcNotification>(message)));
  }
}

void McpExchange::end(Result<> result) {
  if (finished_) return finishOver();
  auto keep = shared_from_this();
  if (result) return ended();
  Error why = mcpUnreachable(std::move(result).error());
  if (body_ == Body::Events || resuming_) return brokenOff(std::move(why));
  fail(std::move(why));
}

void McpExchange::ended() {
  switch (body_) {
    case Body::Json:
      return endedJson();
    case Body::Error:
      return endedError();
    case Body::Events:
      return brokenOff(mcpProtocolError(Code::DataLoss, "its event stream ends without an answer"));
    case Body::None:
    case Body::Skipped:
      return finish(std::move(answer_));
  }
}

void McpExchange::endedJson() {
  const McpLimits& limits = options_.limits;
  auto messages = parseRpc(
      text_,
      json::Limits{.bytes = limits.answer_bytes, .depth = limits.depth, .values = limits.values});
  if (!messages) return fail(nonsense(std::move(messages).error()));
  for (RpcMessage& message : *messages)
    if (!finished_) take(std::move(message));
  if (!finished_)
    fail(mcpProtocolError(Code::DataLoss, "its answer has no answer to the request in it"));
}

// Many servers put a JSON-RPC error beside the HTTP status, some with an id of their own.
void McpExchange::endedError() {
  auto messages = parseRpc(text_, json::Limits{.bytes = options_.limits.error_bytes,
                                               .depth = options_.limits.depth,
                                               .values = options_.limits.values});
  if (messages && messages->size() == 1)
    if (auto* response = std::get_if<RpcResponse>(&messages->front()))
      if (response->error()) answer_.response = std::move(*response);
  answer_.body = std::move(text_);
  finish(std::move(answer_));
}

void McpExchange::brokenOff(Error why) {
  if (events_ && !events_->lastId().empty()) last_event_ = events_->lastId();
  bool hopeless = !options_.resumable || last_event_.empty() ||
                  ++resumptions_ > options_.limits.resumptions ||
                  ++failed_resumptions_ > kMaxFailedResumptions;
  if (hopeless) return fail(std::move(why));
  if (events_ && events_->retry()) resume_after_ = *events_->retry();
  pause_ = scheduler_.after(resume_after_, [weak = weak_from_this()] {
    if (auto self = weak.lock()) self->resume();
  });
}

void McpExchange::resume() {
  if (finished_) return;
  net::HttpRequest request{
      .method = "GET", .target = request_.target, .headers = request_.headers, .head_timeout = 0s};
  request.headers.set("Accept", "text/event-stream");
  request.headers.set("Last-Event-ID", last_event_);
  resuming_ = true;
  send(std::move(request));
}

void McpExchange::finish(Result<McpAnswer> result) {
  if (std::exchange(finished_, true)) return;
  auto keep = shared_from_this();
  // An event stream usually ends right after its answer; then its connection is of use again.
  bool linger = result.ok() && body_ == Body::Events;
  if (linger)
    timer_ = scheduler_.after(kLinger, [weak = weak_from_this()] {
      if (auto self = weak.lock()) self->finishOver();
    });
  auto done = std::exchange(handler_.done, nullptr);
  if (!linger) finishOver();
  if (done) done(std::move(result));
}

void McpExchange::finishOver() {
  if (std::exchange(over_, true)) return;
  auto keep = shared_from_this();
  timer_.reset();
  pause_.reset();
  exchange_.reset();
  auto over = std::exchange(handler_.over, nullptr);
  if (over) over();
}

}  // namespace cadre::wire
