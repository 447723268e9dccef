#include "kube/status.h"

#include "base/format.h"
#include "base/strings.h"
#include "json/parse.h"
#include "kube/protobuf.h"
#include "net/http_server.h"

namespace cadre::kube {

namespace {

Code codeOf(int http_status, std::string_view reason) {
  if (reason == "AlreadyExists") return Code::AlreadyExists;
  if (reason == "Expired") return Code::Gone;
  switch (http_status) {
    case 400:
    case 413:
    case 415:
    case 422:
      return Code::InvalidArgument;
    case 401:
      return Code::Unauthenticated;
    case 403:
      return Code::Forbidden;
    case 404:
      return Code::NotFound;
    case 405:
    case 406:
    case 501:
      return Code::Unimplemented;
    case 408:
    case 504:
      return Code::DeadlineExceeded;
    case 409:
    case 412:
      return Code::Conflict;
    case 410:
      return Code::Gone;
    case 429:
      return Code::ResourceExhausted;
    case 500:
      return Code::Internal;
    default:
      return http_status >= 500 ? Code::Unavailable : Code::Internal;
  }
}

}  // namespace

Error errorFromStatus(const json::Value& status) {
  int code = static_cast<int>(status["code"].integer());
  Error error{.code = codeOf(code, status["reason"].string()),
              .message = shorten(status["message"].string(), 4096),
              .reason = status["reason"].string()};
  if (error.message.empty())
    error.message = format("the API server answered {} without saying why", code);
  for (const json::Value& cause : status["details"]["causes"].array())
    error.details.push_back({.field = cause["field"].string(),
                             .reason = cause["reason"].string(),
                             .message = shorten(cause["message"].string(), 4096)});
  if (std::int64_t seconds = status["details"]["retryAfterSeconds"].integer(); seconds > 0)
    error.retry_after = std::chrono::seconds(std::min<std::int64_t>(seconds, 3600));
  return error;
}

Error errorFromAnswer(int http_status, const net::Headers& headers, std::string_view body) {
  Error error;
  bool protobuf = isProtobuf(headers.get("Content-Type"));
  auto parsed = protobuf ? parseProtobuf(body) : json::parse(body);
  if (parsed && (*parsed)["kind"].string() == "Status" &&
      (*parsed)["apiVersion"].string() == "v1") {
    parsed->make("code") = http_status;
    error = errorFromStatus(*parsed);
  } else {
    std::string_view said = protobuf ? "" : trim(body);
    error = Error{.code = codeOf(http_status, ""),
                  .message = format("the API server answered {} {}{}{}", http_status,
                                    net::statusText(http_status), said.empty() ? "" : ": ",
                                    shorten(said, 300))};
  }
  if (auto after = retryAfter(headers)) error.retry_after = after;
  return error;
}

std::optional<Duration> retryAfter(const net::Headers& headers) {
  auto seconds = parseInt(headers.get("Retry-After"));
  if (!seconds || *seconds < 0) return std::nullopt;
  return std::chrono::seconds(std::min<std::int64_t>(*seconds, 3600));
}

}  // namespace cadre::kube
