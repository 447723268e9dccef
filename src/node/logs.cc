#include "node/logs.h"

#include <deque>
#include <filesystem>
#include <fstream>

#include "base/strings.h"

namespace cadre::node {
namespace {

constexpr Duration kPause = 100ms;
constexpr std::size_t kAhead = 1u << 20;  // of what the client has taken

// One answer. Somebody else keeps it: its timer, which goes with the client.
class Sending : public std::enable_shared_from_this<Sending> {
 public:
  Sending(net::Loop& loop, std::string path, LogOptions options, Function<bool()> alive,
          std::shared_ptr<net::ServerRequest> request)
      : loop_(loop),
        path_(std::move(path)),
        options_(options),
        alive_(std::move(alive)),
        request_(std::move(request)) {}

  void begin() {
    request_->begin(200, {{"content-type", "text/plain"}});
    request_->onGone([weak = weak_from_this()] {
      if (auto self = weak.lock()) self->timer_ = {};
    });
    std::error_code ignored;
    old_ = std::filesystem::exists(path_ + ".1", ignored);
    file_.open(old_ ? path_ + ".1" : path_, std::ios::binary);
    step();
  }

 private:
  void later() {
    timer_ = loop_.after(kPause, [self = shared_from_this()] { self->step(); });
  }

  void step() {
    while (request_->backlog() < kAhead) {
      bool lives = !options_.follow || alive_();
      std::string line;
      if (next(line)) {
        if (!put(line)) return request_->end();
        continue;
      }
      if (old_) {  // the rest is in the newer one
        old_ = false;
        file_ = std::ifstream(path_, std::ios::binary);
        continue;
      }
      flushTail();
      if (!options_.follow || !lives) return request_->end();
      return later();
    }
    later();
  }

  // A whole line, or nothing yet.
  bool next(std::string& line) {
    if (!file_.is_open()) file_.open(path_, std::ios::binary);
    if (!file_.is_open()) return false;
    std::streampos place = file_.tellg();
    if (std::getline(file_, line) && !file_.eof()) return true;
    file_.clear();
    file_.seekg(place);
    // It was moved away while it was read.
    std::error_code ignored;
    if (std::filesystem::file_size(path_, ignored) < static_cast<std::uintmax_t>(place)) {
      file_ = std::ifstream(path_, std::ios::binary);
      return false;
    }
    return false;
  }

  // "TIME stdout F text". False: that is all that was asked for.
  bool put(std::string_view line) {
    auto [time, rest] = cut(line, " ");
    auto [stream, more] = cut(rest, " ");
    auto [tag, text] = cut(more, " ");
    if (options_.since)
      if (auto then = parseTime(time); then && *then < *options_.since) return true;
    std::string out;
    if (options_.timestamps && !partial_) out.append(time).append(" ");
    out.append(text);
    partial_ = tag == "P";
    if (!partial_) out.push_back('\n');
    if (options_.tail_lines && !tailed_) {
      tail_.push_back(std::move(out));
      while (tail_.size() >
             static_cast<std::size_t>(std::max<std::int64_t>(0, *options_.tail_lines)))
        tail_.pop_front();
      return true;
    }
    return send(out);
  }

  void flushTail() {
    if (std::exchange(tailed_, true)) return;
    for (const std::string& line : std::exchange(tail_, {}))
      if (!send(line)) return;
  }

  bool send(std::string_view text) {
    if (options_.limit_bytes) {
      auto left =
          static_cast<std::size_t>(std::max<std::int64_t>(0, *options_.limit_bytes - sent_));
      text = text.substr(0, left);
      if (text.empty()) return false;
    }
    sent_ += static_cast<std::int64_t>(text.size());
    request_->write(text);
    return true;
  }

  net::Loop& loop_;
  const std::string path_;
  const LogOptions options_;
  const Function<bool()> alive_;
  const std::shared_ptr<net::ServerRequest> request_;
  std::ifstream file_;
  bool old_ = false, partial_ = false, tailed_ = false;
  std::deque<std::string> tail_;
  std::int64_t sent_ = 0;
  Pending timer_;
};

}  // namespace

void sendLog(net::Loop& loop, const std::string& file, LogOptions options, Function<bool()> alive,
             std::shared_ptr<net::ServerRequest> request) {
  std::make_shared<Sending>(loop, file, options, std::move(alive), std::move(request))->begin();
}

}  // namespace cadre::node
