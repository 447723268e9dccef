// A client's HTTP/1.1 connection: one request at a time, kept for the next one where the server
// allows it.

#include "base/format.h"
#include "net/connection.h"
#include "net/http1_parser.h"

namespace cadre::net {

namespace {

constexpr std::size_t kReadBuffer = 64 << 10;
constexpr std::uint32_t kMaxHeaderBytes = 256 << 10;
constexpr int kMaxInformational = 100;
constexpr std::string_view kTlsAlert = "\x15\x03";  // how a TLS record of that kind begins
using ResponseParser = Http1Parser</*isRequest=*/false>;

class Http1Connection final : public Connection {
 public:
  using Connection::Connection;

  void start() override {
    idle();
    waitForBytes();
  }

  bool hasRoom() const override { return !closed_ && !exchange_; }
  std::size_t active() const override { return exchange_ ? 1 : 0; }

  void carry(std::shared_ptr<Exchange> exchange) override {
    ++carried_;
    idle_timer_.reset();
    exchange_ = std::move(exchange);
    informational_ = 0;
    exchange_->abandon = [weak = weak_from_this()] {
      // An answer that nobody waits for cannot be skipped in HTTP/1.1: the connection goes with it.
      if (auto self = std::static_pointer_cast<Http1Connection>(weak.lock())) {
        self->exchange_.reset();
        self->close(self->lost("the request was given up"));
      }
    };
    const HttpRequest& request = exchange_->request;
    bool through_proxy = options_.proxy && options_.url.scheme == "http";
    std::string head = format("{} {}{} HTTP/1.1\r\n", request.method,
                              through_proxy ? options_.url.origin() : "", request.target);
    if (!request.headers.contains("host"))
      head += format("Host: {}\r\n",
                     options_.unix_path.empty() ? options_.url.authority() : "localhost");
    if (through_proxy && !options_.proxy->user_info.empty())
      head += format("Proxy-Authorization: {}\r\n", proxyAuthorization(*options_.proxy));
    for (const auto& [name, value] : request.headers) head += format("{}: {}\r\n", name, value);
    if (!request.body.empty() || request.method == "POST" || request.method == "PUT" ||
        request.method == "PATCH")
      head += format("Content-Length: {}\r\n", request.body.size());
    head += "\r\n";
    outgoing_.append(head);
    outgoing_.append(request.body);

    newParser();
    flush();
  }

  void shutdown() override {
    owner_ = nullptr;
    if (auto exchange = std::exchange(exchange_, nullptr)) {
      exchange->abandon = nullptr;
      exchange->cancel();
    }
    close(lost("the client was closed"));
  }

 private:
  void newParser() {
    parser_ = std::make_unique<ResponseParser>(kMaxHeaderBytes);
    parser_->skip(exchange_->request.method == "HEAD");
    parser_->on_body = [this](std::string_view data) {
      if (auto exchange = exchange_) exchange->data(data);
    };
    head_given_ = false;
  }

  template <class Step>
  Function<void()> weakly(Step step) {
    return [weak = weak_from_this(), step] {
      auto self = std::static_pointer_cast<Http1Connection>(weak.lock());
      if (self && !self->closed_) (self.get()->*step)();
    };
  }

  void flush() {
    while (!outgoing_.empty()) {
      Stream::Io io = stream_->write(outgoing_.view());
      if (io.status == Stream::Status::Ok) {
        outgoing_.consume(io.bytes);
      } else if (io.status == Stream::Status::WantWrite || io.status == Stream::Status::WantRead) {
        return stream_->waitWritable(weakly(&Http1Connection::flush));
      } else {
        // The answer may already be there and say why the server stopped reading: let the reader
        // find out.
        outgoing_.clear();
        return;
      }
    }
  }

  void waitForBytes() { stream_->waitReadable(weakly(&Http1Connection::readBytes)); }

  void readBytes() {
    auto keep = shared_from_this();
    static thread_local char buffer[kReadBuffer];
    Stream::Io io = stream_->read(buffer);
    switch (io.status) {
      case Stream::Status::WantRead:
      case Stream::Status::WantWrite:
        return waitForBytes();
      case Stream::Status::Closed:
        return ended();
      case Stream::Status::Failed:
        return close(lost(stream_->error().text()));
      case Stream::Status::Ok:
        break;
    }
    if (!exchange_) return close(lost("the server spoke without being asked"));
    parse({buffer, io.bytes});
    if (!closed_) waitForBytes();
  }

  void parse(std::string_view bytes) {
    pending_ += bytes;
    if (!head_given_ && pending_.starts_with(kTlsAlert))
      return close(lost("the server speaks TLS on this port, not plain HTTP"));
    while (!pending_.empty() && exchange_ && !closed_) {
      ErrorCode error;
      std::size_t used = parser_->put(asio::const_buffer(pending_.data(), pending_.size()), error);
      pending_.erase(0, used);
      if (error == http::error::need_more) {
        // Chunk extensions and trailers are not in Beast's limit of a head.
        if (pending_.size() > kMaxHeaderBytes) return close(lost("it sends a line without an end"));
        return;
      }
      if (error) return close(lost(format("not an HTTP answer ({})", error.message())));
      if (closed_ || !exchange_) return;
      if (parser_->is_header_done() && !head_given_) {
        if (parser_->status < 200) {
          if (++informational_ > kMaxInformational)
            return close(lost("it sends interim answers without an end"));
          newParser();
          continue;
        }
        head_given_ = true;
        auto exchange = exchange_;
        exchange->head(
            ResponseHead{.status = parser_->status, .headers = std::move(parser_->headers)});
        if (closed_ || !exchange_) return;
      }
      if (parser_->is_done()) return complete();
      if (used == 0) return;
    }
  }

  void complete() {
    bool keep_alive = parser_->keep_alive() && pending_.empty() && outgoing_.empty();
    auto exchange = std::exchange(exchange_, nullptr);
    exchange->abandon = nullptr;
    if (!keep_alive) close(lost("the server does not keep it open"));
    if (!closed_) idle();
    exchange->end({});  // its handler may have the next request carried at once
    if (!closed_ && !exchange_ && owner_) owner_->roomMade();
  }

  // The server ended its side: the end of a body without a length, or too early.
  void ended() {
    if (exchange_ && head_given_ && parser_->need_eof()) {
      ErrorCode error;
      parser_->put_eof(error);
      if (!error) return complete();
    }
    close(lost("the server closed the connection"));
  }

  void idle() {
    idle_timer_ = loop_.after(options_.idle_timeout, [weak = weak_from_this()] {
      if (auto self = std::static_pointer_cast<Http1Connection>(weak.lock()))
        self->close(self->lost("it was idle"));
    });
  }

  void close(Error error) {
    if (std::exchange(closed_, true)) return;
    auto keep = shared_from_this();
    idle_timer_.reset();
    stream_->close();
    if (auto exchange = std::exchange(exchange_, nullptr)) {
      exchange->abandon = nullptr;
      exchange->end(error);
    }
    if (owner_) owner_->closed(this, error);
  }

  std::shared_ptr<Exchange> exchange_;
  std::unique_ptr<ResponseParser> parser_;
  SendBuffer outgoing_;
  std::string pending_;
  bool head_given_ = false, closed_ = false;
  int informational_ = 0;
  Pending idle_timer_;
};

}  // namespace

std::shared_ptr<Connection> makeHttp1Connection(Loop& loop, std::unique_ptr<Stream> stream,
                                                const HttpClientOptions& options,
                                                ConnectionOwner& owner) {
  return std::make_shared<Http1Connection>(loop, std::move(stream), options, owner);
}

}  // namespace cadre::net
