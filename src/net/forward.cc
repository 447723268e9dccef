#include "net/forward.h"

#include <set>

#include "base/format.h"
#include "base/strings.h"
#include "net/http1_parser.h"
#include "net/stream.h"

namespace cadre::net {
namespace {

constexpr std::size_t kReadBuffer = 64 << 10;
constexpr std::uint32_t kMaxHeaderBytes = 64 << 10;
constexpr int kMaxInformational = 100;
constexpr std::string_view kOfOneConnection[] = {"connection",
                                                 "keep-alive",
                                                 "proxy-connection",
                                                 "proxy-authenticate",
                                                 "proxy-authorization",
                                                 "te",
                                                 "trailer",
                                                 "transfer-encoding",
                                                 "upgrade",
                                                 "content-length",
                                                 "expect"};

// What its header Connection names, in lower case.
std::set<std::string> connectionNames(const Headers& headers) {
  std::set<std::string> out;
  for (const auto& [field, value] : headers)
    if (equalsIgnoreCase(field, "connection"))
      for (std::string_view one : split(value, ',')) out.insert(lower(trim(one)));
  return out;
}

// Another protocol could carry requests past whoever looks at them here.
bool wantsWebSocket(const StreamedRequest& request) {
  return request.method == "GET" && request.wantsWebSocket() && request.bodyLength() == 0u &&
         connectionNames(request.headers).contains("upgrade");
}

class Forwarding : public std::enable_shared_from_this<Forwarding> {
 public:
  Forwarding(Loop& loop, std::shared_ptr<StreamedRequest> request, ForwardOptions options,
             Function<void()> done)
      : loop_(loop),
        request_(std::move(request)),
        options_(std::move(options)),
        done_(std::move(done)),
        upgrade_(wantsWebSocket(*request_)) {}

  void start() {
    moved_ = loop_.clock().instant();
    watchIdle();
    request_->onGone(weakly(&Forwarding::stop));
    ConnectOptions to{.url = {.scheme = "http",
                              .user_info = {},
                              .host = options_.to.address,
                              .port = options_.to.port,
                              .target = {}},
                      .unix_path = {},
                      .proxy = {},
                      .tls = {},
                      .timeout = options_.connect_timeout};
    dialling_ = connect(loop_, std::move(to),
                        [weak = weak_from_this()](Result<std::unique_ptr<Stream>> stream) {
                          if (auto self = weak.lock()) self->connected(std::move(stream));
                        });
  }

  void stop() {
    if (over_) return;
    over_ = true;
    dialling_.reset();
    idle_.reset();
    if (stream_) stream_->close();
    request_.reset();  // unanswered or in the midst of it: its connection is cut
    loop_.post([weak = weak_from_this()] {
      auto self = weak.lock();
      if (self && self->done_) std::exchange(self->done_, nullptr)();
    });
  }

  void drop() {
    done_ = nullptr;
    stop();
  }

 private:
  template <class Step>
  Function<void()> weakly(Step step) {
    return [weak = weak_from_this(), step] {
      if (auto self = weak.lock(); self && !self->over_) (self.get()->*step)();
    };
  }

  void watchIdle() {
    Duration rest = options_.idle_timeout - (loop_.clock().instant() - moved_);
    if (rest <= 0s)
      return fail(504, format("no byte within {}", formatDuration(options_.idle_timeout)));
    idle_ = loop_.after(rest, weakly(&Forwarding::watchIdle));
  }
  void moved() { moved_ = loop_.clock().instant(); }

  void fail(int status, std::string_view why) {
    if (!begun_)
      request_->respond(status, {{"Content-Type", "text/plain"}},
                        format("{}: {}\n", options_.name, why));
    stop();
  }
  void lost(std::string_view why) {
    fail(502, format("the connection to {} broke before the answer: {}",
                     authority(options_.to.address, options_.to.port), why));
  }

  void connected(Result<std::unique_ptr<Stream>> stream) {
    if (over_) return;
    if (!stream) return fail(502, stream.error().text());
    stream_ = *std::move(stream);
    outgoing_.append(head());
    newParser();
    flush();
    if (!over_) waitForBytes();
  }

  std::string head() {
    std::string out = format("{} {} HTTP/1.1\r\n", request_->method, options_.target);
    for (const auto& [name, value] : options_.headers) out += format("{}: {}\r\n", name, value);
    if (auto length = request_->bodyLength()) {
      body_sent_ = *length == 0;
      if (request_->headers.contains("content-length"))
        out += format("Content-Length: {}\r\n", *length);
    } else {
      chunks_ = true;
      out += "Transfer-Encoding: chunked\r\n";
    }
    out += upgrade_ ? "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
                    : "Connection: close\r\n\r\n";
    return out;
  }

  // ---- From the client to the server

  void flush() {
    while (!outgoing_.empty()) {
      Stream::Io io = stream_->write(outgoing_.view());
      if (io.status == Stream::Status::Ok) {
        moved();
        outgoing_.consume(io.bytes);
      } else if (io.status == Stream::Status::WantWrite) {
        return stream_->waitWritable(weakly(&Forwarding::flush));
      } else {
        // The answer may be there and say why the server takes no more: the reader finds out.
        outgoing_.clear();
        body_sent_ = true;
        return;
      }
    }
    if (switched_ && body_sent_) return stop();
    if (!body_sent_) readBody();
  }

  void readBody() {
    if (std::exchange(reading_body_, true)) return;
    request_->readBody([weak = weak_from_this()](std::string_view piece) {
      if (auto self = weak.lock(); self && !self->over_) self->send(piece);
    });
  }

  void send(std::string_view piece) {
    reading_body_ = false;
    if (body_sent_) return;  // the server takes no more
    moved();
    body_sent_ = piece.empty();
    if (chunks_) outgoing_.append(format("{:x}\r\n", piece.size()));
    outgoing_.append(piece);
    if (chunks_) outgoing_.append("\r\n");
    flush();
  }

  // ---- From the server to the client

  void newParser() {
    parser_ = std::make_unique<Http1Parser</*isRequest=*/false>>(kMaxHeaderBytes);
    parser_->skip(request_->method == "HEAD");
    parser_->on_body = [this](std::string_view data) { body_ += data; };
  }

  void waitForBytes() { stream_->waitReadable(weakly(&Forwarding::readBytes)); }

  void readBytes() {
    static thread_local char buffer[kReadBuffer];
    Stream::Io io = stream_->read(buffer);
    switch (io.status) {
      case Stream::Status::WantRead:
      case Stream::Status::WantWrite:
        return waitForBytes();
      case Stream::Status::Closed:
        return serverEnded();
      case Stream::Status::Failed:
        return lost(stream_->error().text());
      case Stream::Status::Ok:
        break;
    }
    moved();
    pending_.append(buffer, io.bytes);
    if (!switched_) parse();
    if (over_) return;
    passOn();
    if (over_) return;
    if (!switched_ && parser_->is_done()) return complete();
    request_->onTaken(weakly(&Forwarding::waitForBytes));
  }

  void parse() {
    std::string_view rest = pending_;
    while (!rest.empty() && !parser_->is_done()) {
      ErrorCode error;
      std::size_t used = parser_->put(asio::const_buffer(rest.data(), rest.size()), error);
      rest.remove_prefix(used);
      if (error == http::error::need_more) break;
      if (error) return lost(format("not an HTTP answer ({})", error.message()));
      if (parser_->is_header_done() && !begun_) {
        headCame();
        if (over_ || switched_) break;
      } else if (used == 0) {
        break;
      }
    }
    pending_.erase(0, pending_.size() - rest.size());
    // Chunk extensions and trailers are not in the parser's limit of a head.
    if (!over_ && !switched_ && pending_.size() > kMaxHeaderBytes)
      lost("it sends a line without an end");
  }

  void headCame() {
    int status = parser_->status;
    if (status == 101) return switchProtocol();
    if (status < 200) {
      if (++informational_ > kMaxInformational) return lost("it sends interim answers for ever");
      return newParser();
    }
    begun_ = true;
    Headers headers = endToEnd(parser_->headers);
    if (auto length = parser_->content_length(); length && !parser_->chunked())
      headers.add("Content-Length", std::to_string(*length));
    request_->begin(status, std::move(headers));
  }

  void switchProtocol() {
    if (!upgrade_ || !equalsIgnoreCase(parser_->headers.get("upgrade"), "websocket"))
      return lost("it goes on in a protocol that was not asked for");
    begun_ = switched_ = true;
    Headers headers = endToEnd(parser_->headers);
    headers.add("Connection", "Upgrade");
    headers.add("Upgrade", "websocket");
    request_->switchProtocol(std::move(headers));
    if (over_) return;
    body_sent_ = false;
    flush();
  }

  void passOn() {
    std::string piece = std::exchange(switched_ ? pending_ : body_, {});
    if (!piece.empty()) request_->write(piece);
  }

  // The end of a body without a length, or too early.
  void serverEnded() {
    if (switched_) return complete();
    if (begun_ && parser_->need_eof()) {
      ErrorCode error;
      parser_->put_eof(error);
      if (!error) return complete();
    }
    lost("it was closed");
  }

  void complete() {
    request_->end();
    stop();
  }

  Loop& loop_;
  std::shared_ptr<StreamedRequest> request_;
  const ForwardOptions options_;
  Function<void()> done_;
  const bool upgrade_;
  Pending dialling_, idle_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Http1Parser<false>> parser_;
  SendBuffer outgoing_;
  std::string pending_, body_;  // as it came; what is to be passed on
  Instant moved_;
  int informational_ = 0;
  bool chunks_ = false, reading_body_ = false, body_sent_ = false;
  bool begun_ = false, switched_ = false, over_ = false;
};

}  // namespace

Headers endToEnd(const Headers& headers) {
  std::set<std::string> left_out = connectionNames(headers);
  for (std::string_view name : kOfOneConnection) left_out.emplace(name);
  left_out.erase("host");  // no client takes it away
  Headers out;
  for (const auto& [name, value] : headers)
    if (!left_out.contains(lower(name))) out.add(name, value);
  return out;
}

Pending forward(Loop& loop, std::shared_ptr<StreamedRequest> request, ForwardOptions options,
                Function<void()> done) {
  auto forwarding =
      std::make_shared<Forwarding>(loop, std::move(request), std::move(options), std::move(done));
  forwarding->start();
  return Pending([forwarding] { forwarding->drop(); });
}

}  // namespace cadre::net
