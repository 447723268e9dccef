#include "wire/sse.h"

#include <algorithm>
#include <utility>

#include "base/format.h"
#include "base/strings.h"
#include "json/utf8.h"

namespace cadre::wire {

namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr std::string_view kLineEnds = "\r\n";
constexpr std::int64_t kMaxRetryMillis = 24LL * 60 * 60 * 1000;

std::string_view firstLine(std::string_view text) {
  return text.substr(0, text.find_first_of(kLineEnds));
}

}  // namespace

struct SseParser::State {
  OnEvent on_event;
  SseLimits limits;
  bool dropped = false;  // the parser is gone: nothing more is handed on
  std::optional<Error> failure;

  bool started = false;   // the place of the byte order mark is behind us
  bool after_cr = false;  // an LF that comes now belongs to the line before
  std::string line;       // the beginning of a line whose end is not there yet
  std::string type, data, id_buffer;
  std::string last_id;
  std::optional<Duration> retry;

  Result<> fail(std::string_view what, std::size_t limit) {
    failure =
        Error{.code = Code::ResourceExhausted,
              .message = format("{} of the event stream is larger than {} bytes", what, limit)};
    line = {};
    data = {};
    return *failure;
  }

  Result<> feed(std::string_view piece) {
    if (failure) return *failure;
    while (!piece.empty() && !dropped) {
      if (std::exchange(after_cr, false) && piece[0] == '\n') {
        piece.remove_prefix(1);
        continue;
      }
      std::size_t end = piece.find_first_of(kLineEnds);
      std::string_view part = piece.substr(0, end);
      if (line.size() + part.size() > limits.line_bytes) return fail("a line", limits.line_bytes);
      if (end == std::string_view::npos) {
        line += part;
        return {};
      }
      after_cr = piece[end] == '\r';
      piece.remove_prefix(end + 1);
      if (line.empty()) {
        CADRE_TRY(takeLine(part));
      } else {
        line += part;
        std::string whole = std::exchange(line, {});
        CADRE_TRY(takeLine(whole));
      }
    }
    return {};
  }

  Result<> takeLine(std::string_view text) {
    if (!std::exchange(started, true) && text.starts_with(kByteOrderMark))
      text.remove_prefix(kByteOrderMark.size());
    if (text.empty()) {
      dispatch();
      return {};
    }
    auto [name, value] = cut(text, ":");
    if (value.starts_with(' ')) value.remove_prefix(1);
    return takeField(name, value);
  }

  // A comment is a field without a name: as unknown as any other.
  Result<> takeField(std::string_view name, std::string_view value) {
    if (name == "data") {
      data += value;
      data += '\n';
    } else if (name == "event") {
      type = value;
    } else if (name == "id") {
      if (value.find('\0') == std::string_view::npos) id_buffer = value;
    } else if (name == "retry") {
      bool digits = !value.empty() && std::all_of(value.begin(), value.end(),
                                                  [](char c) { return c >= '0' && c <= '9'; });
      auto millis = digits ? parseInt(value) : std::nullopt;
      if (millis) retry = std::chrono::milliseconds(std::min(*millis, kMaxRetryMillis));
    }
    if (data.size() + type.size() + id_buffer.size() > limits.event_bytes)
      return fail("an event", limits.event_bytes);
    return {};
  }

  void dispatch() {
    last_id = json::utf8Repair(id_buffer);
    std::string named = std::exchange(type, {});
    std::string text = std::exchange(data, {});
    if (text.empty()) return;
    text.pop_back();  // the last line's end
    on_event(SseEvent{.type = named.empty() ? "message" : json::utf8Repair(named),
                      .data = json::utf8Repair(text),
                      .id = last_id});
  }
};

SseParser::SseParser(OnEvent on_event, SseLimits limits) : state_(std::make_shared<State>()) {
  state_->on_event = std::move(on_event);
  state_->limits = limits;
}

SseParser::~SseParser() {
  if (state_) state_->dropped = true;
}
SseParser::SseParser(SseParser&&) noexcept = default;
SseParser& SseParser::operator=(SseParser&& other) noexcept {
  if (this != &other) {
    if (state_) state_->dropped = true;
    state_ = std::move(other.state_);
  }
  return *this;
}

Result<> SseParser::feed(std::string_view piece) {
  auto keep = state_;
  return keep->feed(piece);
}

const std::string& SseParser::lastId() const { return state_->last_id; }
std::optional<Duration> SseParser::retry() const { return state_->retry; }

std::string writeSse(const SseEvent& event) {
  std::string out;
  std::string_view type = firstLine(event.type);
  if (!type.empty() && type != "message") out += format("event: {}\n", type);
  if (std::string_view id = firstLine(event.id); !id.empty()) out += format("id: {}\n", id);
  std::string_view rest = event.data;
  for (;;) {
    std::string_view line = firstLine(rest);
    out += format("data: {}\n", line);
    if (line.size() == rest.size()) break;
    rest.remove_prefix(line.size() + (rest.substr(line.size()).starts_with("\r\n") ? 2 : 1));
  }
  out += '\n';
  return out;
}

std::string writeSseComment(std::string_view text) { return format(": {}\n\n", firstLine(text)); }

std::string writeSseRetry(Duration retry) {
  auto millis = std::chrono::duration_cast<std::chrono::milliseconds>(retry).count();
  return format("retry: {}\n\n", std::max<std::int64_t>(millis, 0));
}

}  // namespace cadre::wire
