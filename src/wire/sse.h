#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/function.h"
#include "base/result.h"
#include "base/time.h"

namespace cadre::wire {

// One Server-Sent Event.
struct SseEvent {
  std::string type = "message";
  std::string data = {};  // its lines joined by '\n'
  std::string id = {};    // of this event, or else the last one that the stream named

  bool operator==(const SseEvent&) const = default;
};

struct SseLimits {
  std::size_t line_bytes = 1u << 20;
  std::size_t event_bytes = 4u << 20;  // of all that an event carries
};

// A stream of Server-Sent Events that arrives in pieces, read as the WHATWG's HTML standard says:
// lines end in CR, LF or CRLF; a byte order mark and comments are passed over; what has no data is
// no event; bytes that are not UTF-8 become U+FFFD; an event that the stream's end cuts off is
// dropped. Each event is handed on as soon as its empty line is there. Not thread-safe. The
// callback may destroy the parser.
//
// Fails with ResourceExhausted where a line or an event is beyond its limit. That is final: the
// events before it were handed on, later calls give the same failure.
class SseParser {
 public:
  using OnEvent = Function<void(SseEvent)>;

  explicit SseParser(OnEvent on_event, SseLimits limits = {});
  ~SseParser();
  SseParser(SseParser&&) noexcept;
  SseParser& operator=(SseParser&&) noexcept;

  Result<> feed(std::string_view piece);

  // Where to resume a stream that broke off (Last-Event-ID); empty when it named nothing.
  const std::string& lastId() const;
  // How long the server wants us to wait before that.
  std::optional<Duration> retry() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// An event as text. The type "message" and an empty id are not written. A line break in type or id
// would start another field: what comes after it is left out.
std::string writeSse(const SseEvent& event);
// A comment, which keeps a silent stream alive: readers pass over it.
std::string writeSseComment(std::string_view text = {});
// Tells readers how long to wait before they come back.
std::string writeSseRetry(Duration retry);

}  // namespace cadre::wire
