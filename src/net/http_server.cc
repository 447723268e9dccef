#include "net/http_server.h"

#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/status.hpp>
#include <deque>
#include <set>

#include <malloc.h>

#include "base/format.h"
#include "base/strings.h"
#include "net/http1_parser.h"
#include "net/stream.h"
#include "net/web_socket_stream.h"

namespace cadre::net {

namespace {

constexpr std::size_t kReadBuffer = 64 << 10;
constexpr std::size_t kMaxPipelined = 64 << 10;
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
constexpr std::size_t kMaxDropped = 16 << 20;  // of what a refused client still sends

constexpr std::size_t kMany = 200;  // connections, whose memory is worth a look
constexpr Duration kTrimAfter = 2s;

class ServerConnection;
class Server;

class Answer final : public StreamedRequest {
 public:
  explicit Answer(std::weak_ptr<ServerConnection> connection)
      : connection_(std::move(connection)) {}
  ~Answer() override;

  void respond(int status, Headers answer_headers, std::string answer_body) override;
  void begin(int status, Headers answer_headers) override;
  void write(std::string_view piece) override;
  std::size_t backlog() const override;
  void end() override;
  void onGone(Function<void()> gone) override { gone_ = std::move(gone); }
  bool wantsWebSocket() const override {
    return equalsIgnoreCase(headers.get("upgrade"), "websocket");
  }
  void acceptWebSocket(std::string subprotocol,
                       Function<void(std::unique_ptr<WebSocket>)> accepted) override;
  std::optional<std::uint64_t> bodyLength() const override { return body_length; }
  void readBody(Function<void(std::string_view piece)> got) override;
  void onTaken(Function<void()> taken) override;
  void switchProtocol(Headers answer_headers) override;

  std::optional<std::uint64_t> body_length;
  bool keep_alive = true;
  bool chunks =
      true;  // HTTP/1.0 knows none: there the end of the connection is the end of the answer
  bool begun() const { return state_ != State::Open; }
  void clientGone() {
    state_ = State::Done;
    if (gone_) std::exchange(gone_, nullptr)();
  }

 private:
  enum class State { Open, Streaming, Done };
  std::string head(int status, const Headers& answer_headers, std::string_view framing) const;

  std::weak_ptr<ServerConnection> connection_;
  Function<void()> gone_;
  std::optional<std::uint64_t> left_;  // of the answer's body, where its length was told
  State state_ = State::Open;
};

class ServerConnection : public std::enable_shared_from_this<ServerConnection> {
 public:
  ServerConnection(Loop& loop, Server& server, const HttpServerOptions& options,
                   std::unique_ptr<Stream> stream, std::shared_ptr<TlsContext> tls)
      : loop_(loop),
        server_(&server),
        options_(options),
        stream_(std::move(stream)),
        tls_(std::move(tls)),
        peer_(stream_->peer()) {}

  void start() {
    enter(Phase::Head);
    expect(options_.head_timeout);
    // TLS begins with the client: who says nothing has no need of what it takes.
    if (tls_)
      stream_->waitReadable(weakly(&ServerConnection::startTls));
    else
      nextRequest();
  }

  void close();
  bool idle() const { return !busy_ && !parsing_; }
  // May it be closed so that another one gets in, and how gladly: the least first.
  bool mayGo() const { return phase_ != Phase::Request && outgoing_.empty(); }
  auto worth() const { return std::pair(phase_, since_); }
  void closeWhenIdle() {
    last_request_ = true;
    if (idle()) close();
  }

  // For Answer.
  void send(std::string_view bytes) {
    if (closed_) return;
    // One answer may be as large as it likes: who takes it is not slow.
    if (outgoing_.size() > options_.max_backlog_bytes) return close();
    outgoing_.append(bytes);
    flush();
    if (!closed_ && !noteBacklog()) close();
  }
  std::size_t backlog() const { return outgoing_.size(); }
  std::size_t noted() const { return noted_; }
  std::size_t countedBody() const { return counted_; }
  void answered(bool keep_alive) {
    if (closed_) return;
    busy_ = false;
    current_.reset();
    wanted_ = nullptr;
    taken_ = nullptr;
    refused_ = !bodyIsOver();
    if (!keep_alive || last_request_ || refused_) {
      closing_ = true;
      return flush();
    }
    // Not from here: the handler that has just answered is still on the stack.
    loop_.post([weak = weak_from_this()] {
      if (auto self = weak.lock(); self && !self->closed_) self->nextRequest();
    });
  }
  void abort() { close(); }
  std::unique_ptr<Stream> release();
  bool bodyIsOver() const { return switched_ ? ended_ && pending_.empty() : parser_->is_done(); }
  void readBody(Function<void(std::string_view)> got) {
    if (closed_) return;
    wanted_ = std::move(got);
    auto request = current_.lock();
    if (std::exchange(awaits_word_, false) && request && !request->begun()) send(kContinue);
    loop_.post(weakly(&ServerConnection::giveBody));
  }
  void onTaken(Function<void()> taken) {
    if (closed_) return;
    taken_ = std::move(taken);
    loop_.post(weakly(&ServerConnection::tellIfTaken));
  }
  void switchProtocol() { switched_ = true; }

 private:
  template <class Step>
  Function<void()> weakly(Step step) {
    return [weak = weak_from_this(), step] {
      if (auto self = weak.lock(); self && !self->closed_) (self.get()->*step)();
    };
  }

  bool noteBacklog();
  void countBody();

  enum class Phase { Idle, Head, Body, Request };
  void enter(Phase phase) {
    phase_ = phase;
    since_ = loop_.clock().instant();
  }

  void expect(Duration within) { timer_ = loop_.after(within, weakly(&ServerConnection::close)); }

  void startTls() {
    stream_->startServerTls(std::exchange(tls_, nullptr));
    handshake();
  }

  void handshake() {
    switch (stream_->handshake()) {
      case Stream::Status::Ok:
        break;
      case Stream::Status::WantRead:
        return stream_->waitReadable(weakly(&ServerConnection::handshake));
      case Stream::Status::WantWrite:
        return stream_->waitWritable(weakly(&ServerConnection::handshake));
      default:
        return close();
    }
    identity_ = stream_->peerIdentity();
    nextRequest();
  }

  void nextRequest() {
    parser_ = std::make_unique<Http1Parser</*isRequest=*/true>>(options_.max_header_bytes);
    body_ = {};
    countBody();
    too_large_ = head_seen_ = parsing_ = awaits_word_ = false;
    parser_->on_body = [this](std::string_view data) {
      if (!streams() && body_.size() + data.size() > options_.max_body_bytes)
        too_large_ = true;
      else
        body_ += data;
      countBody();
    };
    if (!pending_.empty()) {
      auto keep = shared_from_this();
      parse();
      if (closed_) return;
    } else if (std::exchange(first_, false)) {
      expect(options_.head_timeout);
    } else {
      enter(Phase::Idle);
      expect(options_.idle_timeout);
    }
    waitForBytes();
    tellIfItMayGo();
  }
  void tellIfItMayGo();

  void waitForBytes() {
    if (reading_ || closed_ || ended_ || pending_.size() > kMaxPipelined) return;
    reading_ = true;
    stream_->waitReadable(weakly(&ServerConnection::readBytes));
  }

  void readBytes() {
    auto keep = shared_from_this();
    reading_ = false;
    static thread_local char buffer[kReadBuffer];
    Stream::Io io = stream_->read(buffer);
    switch (io.status) {
      case Stream::Status::WantRead:
      case Stream::Status::WantWrite:
        return waitForBytes();
      case Stream::Status::Closed:
        if (!switched_ || lingering_) return close();
        ended_ = true;  // what has come before is still to be read
        return giveBody();
      case Stream::Status::Failed:
        return close();
      case Stream::Status::Ok:
        break;
    }
    if (lingering_) {
      dropped_ += io.bytes;
      return dropped_ > kMaxDropped ? close() : waitForBytes();
    }
    pending_.append(buffer, io.bytes);
    if (!busy_ && !closing_)
      parse();
    else
      giveBody();
    waitForBytes();
  }

  // The next piece of a streamed body, if it is there and asked for.
  void giveBody() {
    if (!wanted_) return;
    auto keep = shared_from_this();
    if (!switched_)
      if (ErrorCode error = parseBody()) return refuseBody(error);
    std::string piece = std::exchange(switched_ ? pending_ : body_, {});
    if (!piece.empty() || bodyIsOver()) {
      timer_.reset();
      std::exchange(wanted_, nullptr)(piece);
    } else if (!switched_) {
      expect(options_.body_timeout);
    }
    waitForBytes();
  }

  ErrorCode parseBody() {
    std::string_view rest = pending_;
    ErrorCode error;
    while (!rest.empty() && !parser_->is_done() && !error) {
      std::size_t used = parser_->put(asio::const_buffer(rest.data(), rest.size()), error);
      rest.remove_prefix(used);
      if (used == 0) break;
    }
    pending_.erase(0, pending_.size() - rest.size());
    return error == http::error::need_more ? ErrorCode() : error;
  }

  void refuseBody(ErrorCode error) {
    auto request = current_.lock();
    if (!request || request->begun()) return close();
    busy_ = false;
    wanted_ = nullptr;
    request->clientGone();
    if (!closed_) refuse(400, format("not an HTTP request: {}", error.message()));
  }

  void tellIfTaken() {
    if (outgoing_.empty() && taken_) std::exchange(taken_, nullptr)();
  }

  void parse() {
    if (!parsing_) {
      parsing_ = true;
      if (phase_ != Phase::Head) enter(Phase::Head);
      expect(options_.head_timeout);
    }
    // Others read such lines in other ways (RFC 9112, 5.2). The parser takes the head at once, and
    // only when it is complete.
    if (std::string_view head = std::string_view(pending_).substr(0, pending_.find("\r\n\r\n"));
        !head_seen_ && (head.find("\n ") != head.npos || head.find("\n\t") != head.npos))
      return refuse(400, "a header line begins with a space");
    while (!pending_.empty() && !parser_->is_done()) {
      ErrorCode error;
      std::size_t used = parser_->put(asio::const_buffer(pending_.data(), pending_.size()), error);
      pending_.erase(0, used);
      if (parser_->is_header_done() && !head_seen_) {
        if (std::string_view wrong = badFraming(); !wrong.empty())
          return refuse(400, std::string(wrong));
        headSeen();
        if (streams()) return dispatch();
        if (closed_) return;  // it did not hear that it may go on
      }
      if (error == http::error::need_more) return;
      if (error == http::error::header_limit) return refuse(431, "the request's head is too large");
      if (error) return refuse(400, format("not an HTTP request: {}", error.message()));
      if (too_large_ || parser_->content_length().value_or(0) > options_.max_body_bytes)
        return refuse(
            413, format("the request's body is larger than {} bytes", options_.max_body_bytes));
      if (used == 0) return;
    }
    if (parser_->is_done()) dispatch();
  }

  // Where two programs could disagree about where a request ends, one may be hidden in another:
  // refused.
  std::string_view badFraming() const {
    std::size_t hosts = 0, lengths = 0, codings = 0;
    for (const auto& [name, value] : parser_->headers) {
      if (equalsIgnoreCase(name, "host")) ++hosts;
      if (equalsIgnoreCase(name, "transfer-encoding")) {
        ++codings;
        if (!equalsIgnoreCase(value, "chunked") || parser_->version < 11)
          return "the only transfer coding that is understood is \"chunked\", and only in HTTP/1.1";
      }
      if (equalsIgnoreCase(name, "content-length")) {
        ++lengths;
        if (value.empty() || value.find_first_not_of("0123456789") != std::string::npos)
          return "the Content-Length is not a number";
      }
    }
    if (hosts > 1 || (hosts == 0 && parser_->version >= 11)) return "a request has one Host header";
    if (lengths + codings > 1) return "a request says once how long its body is";
    return {};
  }

  void headSeen() {
    head_seen_ = true;
    enter(Phase::Body);
    expect(options_.body_timeout);
    awaits_word_ = equalsIgnoreCase(parser_->headers.get("expect"), "100-continue");
    if (awaits_word_ && !streams() &&
        parser_->content_length().value_or(0) <= options_.max_body_bytes)
      send(kContinue);
  }

  void refuse(int status, const std::string& why) {
    closing_ = refused_ = true;
    send(
        format("HTTP/1.1 {} {}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n"
               "Connection: close\r\n\r\n{}\n",
               status, statusText(status), why.size() + 1, why));
  }

  void dispatch();
  bool streams() const;

  void flush() {
    while (!outgoing_.empty() && !closed_) {
      if (waiting_writable_) return;
      Stream::Io io = stream_->write(outgoing_.view());
      if (io.status == Stream::Status::Ok) {
        outgoing_.consume(io.bytes);
      } else if (io.status == Stream::Status::WantWrite || io.status == Stream::Status::WantRead) {
        waiting_writable_ = true;
        return stream_->waitWritable(weakly(&ServerConnection::writable));
      } else {
        return close();
      }
    }
    if (!closing_ || closed_) return;
    refused_ ? linger() : close();
  }
  // Closing with bytes unread is a reset, which may overtake the answer or stop the client before
  // it listens: what it still sends is taken, for a while.
  void linger() {
    if (std::exchange(lingering_, true)) return;
    enter(Phase::Idle);
    expect(options_.linger_timeout);
    pending_.clear();
    stream_->finish();
    waitForBytes();
  }
  void writable() {
    waiting_writable_ = false;
    flush();
    if (closed_) return;
    noteBacklog();
    tellIfItMayGo();
    tellIfTaken();
  }

  Loop& loop_;
  Server* server_;
  const HttpServerOptions& options_;
  std::unique_ptr<Stream> stream_;
  std::shared_ptr<TlsContext> tls_;  // until it begins
  const std::string peer_;
  std::optional<Stream::PeerIdentity> identity_;
  std::unique_ptr<Http1Parser<true>> parser_;
  std::string pending_, body_;
  SendBuffer outgoing_;
  std::size_t noted_ = 0;    // of outgoing_, in what all have together
  std::size_t counted_ = 0;  // of body_
  std::weak_ptr<Answer> current_;
  Function<void(std::string_view)> wanted_;  // who waits for a piece of the body
  Function<void()> taken_;
  Pending timer_;
  Phase phase_ = Phase::Head;
  Instant since_;  // when it entered that phase
  std::size_t dropped_ = 0;
  bool first_ = true, reading_ = false, parsing_ = false, head_seen_ = false, too_large_ = false;
  bool busy_ = false, closing_ = false, closed_ = false, last_request_ = false,
       waiting_writable_ = false, refused_ = false, lingering_ = false;
  // Of a streamed request: it is to be told to go on; another protocol is spoken; and has ended.
  bool awaits_word_ = false, switched_ = false, ended_ = false;
};

class Server final : public HttpServer {
 public:
  Server(Loop& loop, HttpServerOptions options, Handler handler)
      : loop_(loop),
        options_(std::move(options)),
        handler_(std::move(handler)),
        acceptor_(contextOf(loop)) {}
  Server(Loop& loop, HttpServerOptions options, StreamHandler handler)
      : Server(loop, std::move(options), Handler()) {
    stream_handler_ = std::move(handler);
  }

  ~Server() override {
    alive_.reset();
    auto connections = std::exchange(connections_, {});
    for (const auto& connection : connections) connection->close();
  }

  Result<> open() {
    if (options_.tls) CADRE_TRY(setTls(*options_.tls));
    ErrorCode error;
    auto address = asio::ip::make_address(options_.address, error);
    auto fail = [&] {
      return Error{
          .code = Code::Unavailable,
          .message = format("cannot listen on {}: {}", authority(options_.address, options_.port),
                            lower(error.message()))};
    };
    if (error) return fail();
    asio::ip::tcp::endpoint endpoint(address, options_.port);
    if (acceptor_.open(endpoint.protocol(), error)) return fail();
    acceptor_.set_option(asio::socket_base::reuse_address(true), error);
    if (acceptor_.bind(endpoint, error)) return fail();
    if (acceptor_.listen(asio::socket_base::max_listen_connections, error)) return fail();
    if (acceptor_.non_blocking(true, error)) return fail();
    port_ = acceptor_.local_endpoint(error).port();
    accept();
    return {};
  }

  std::uint16_t port() const override { return port_; }
  std::size_t connections() const override { return connections_.size(); }

  Result<> setTls(const TlsServerOptions& tls) override {
    CADRE_LET(tls_, TlsContext::server(tls));
    return {};
  }

  void drain(Function<void()> drained) override {
    drained_ = std::move(drained);
    ErrorCode ignored;
    acceptor_.close(ignored);
    for (const auto& connection : std::set(connections_)) connection->closeWhenIdle();
    tellIfDrained();
  }

  bool streams() const { return static_cast<bool>(stream_handler_); }
  void handle(std::shared_ptr<StreamedRequest> request) {
    streams() ? stream_handler_(std::move(request)) : handler_(std::move(request));
  }

  // False: all have too much together, and this one has more than its share.
  bool note(std::size_t before, std::size_t now) {
    backlog_ += now - before;
    if (backlog_ <= options_.max_backlog_together) return true;
    // Not from here: whoever sends to all must not lose another one meanwhile.
    if (!std::exchange(cutting_, true))
      loop_.post([this, alive = std::weak_ptr(alive_)] {
        if (!alive.expired()) cutSlowest();
      });
    return now < backlog_ / connections_.size();
  }

  void countBodies(std::size_t before, std::size_t now) {
    bodies_ += now - before;
    if (bodies_ <= options_.max_bodies_together || std::exchange(cutting_bodies_, true)) return;
    loop_.post([this, alive = std::weak_ptr(alive_)] {
      if (!alive.expired()) cutOldestBodies();
    });
  }

  void closed(const std::shared_ptr<ServerConnection>& connection) {
    backlog_ -= connection->noted();
    bodies_ -= connection->countedBody();
    connections_.erase(connection);
    mayHaveRoom();
    tellIfDrained();
    if (connections_.size() < most_ / 2 && most_ >= kMany && !std::exchange(trims_, true))
      trimming_ = loop_.after(kTrimAfter, [this] { trim(); });
  }

  void mayHaveRoom() {
    if (acceptor_.is_open() && std::exchange(full_, false)) accept();
  }

 private:
  void cutSlowest() {
    cutting_ = false;
    while (backlog_ > options_.max_backlog_together) {
      auto slowest = *std::max_element(
          connections_.begin(), connections_.end(),
          [](const auto& a, const auto& b) { return a->backlog() < b->backlog(); });
      std::weak_ptr<bool> alive = alive_;
      slowest->close();
      if (alive.expired()) return;
    }
  }

  // Who sends what it has is done long before who only holds on to what it has sent.
  void cutOldestBodies() {
    cutting_bodies_ = false;
    while (bodies_ > options_.max_bodies_together) {
      std::shared_ptr<ServerConnection> oldest;
      for (const auto& connection : connections_)
        if (connection->countedBody() > 0 && (!oldest || connection->worth() < oldest->worth()))
          oldest = connection;
      if (!oldest) return;
      std::weak_ptr<bool> alive = alive_;
      oldest->close();
      if (alive.expired()) return;
    }
  }

  // What many connections had lies between what others have: the allocator keeps it until it is
  // told to look.
  void trim() {
    trims_ = false;
    most_ = connections_.size();
    malloc_trim(0);
  }

  // Never from inside: whoever hears it may destroy the server.
  void tellIfDrained() {
    if (connections_.empty() && drained_) loop_.post(std::exchange(drained_, nullptr));
  }

  // Waits first and takes then: nobody is let go before there is somebody to let in.
  void accept() {
    acceptor_.async_wait(acceptor_.wait_read, [this,
                                               alive = std::weak_ptr(alive_)](ErrorCode gone) {
      if (alive.expired() || gone) return;
      full_ = !makeRoom();
      if (full_) return;  // mayHaveRoom() goes on
      ErrorCode error;
      auto socket = acceptor_.accept(error);
      if (!error) {
        auto connection = std::make_shared<ServerConnection>(
            loop_, *this, options_, std::make_unique<Stream>(std::move(socket)), tls_);
        connections_.insert(connection);
        most_ = std::max(most_, connections_.size());
        connection->start();
      } else if (error != asio::error::would_block && error != asio::error::connection_aborted) {
        // Out of file descriptors, most likely: who does nothing goes, or others in a while.
        retry_ = loop_.after(dropLeast() ? 0ms : 100ms, [this] { accept(); });
        return;
      }
      accept();
    });
  }

  bool makeRoom() { return connections_.size() < options_.max_connections || dropLeast(); }

  // False: nobody may go.
  bool dropLeast() {
    std::shared_ptr<ServerConnection> least;
    for (const auto& connection : connections_)
      if (connection->mayGo() && (!least || connection->worth() < least->worth()))
        least = connection;
    if (least) least->close();
    return least != nullptr;
  }

  Loop& loop_;
  const HttpServerOptions options_;
  Handler handler_;
  StreamHandler stream_handler_;  // instead of it
  asio::ip::tcp::acceptor acceptor_;
  std::shared_ptr<TlsContext> tls_;
  std::set<std::shared_ptr<ServerConnection>> connections_;
  Function<void()> drained_;
  Pending retry_;
  std::size_t most_ = 0;  // connections, since memory was given back last
  bool trims_ = false;    // in a moment
  Pending trimming_;
  bool full_ = false;        // somebody waits, and nobody may go
  std::size_t backlog_ = 0;  // of all
  bool cutting_ = false;     // the slowest, in a moment
  std::size_t bodies_ = 0;   // of all, as far as they have come
  bool cutting_bodies_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  std::uint16_t port_ = 0;
};

void ServerConnection::dispatch() {
  timer_.reset();
  enter(Phase::Request);
  busy_ = true;
  parsing_ = false;
  auto request = std::make_shared<Answer>(weak_from_this());
  request->keep_alive = parser_->keep_alive();
  request->chunks = parser_->version >= 11;
  if (!parser_->chunked()) request->body_length = parser_->content_length().value_or(0);
  request->method = std::move(parser_->method);
  request->target = std::move(parser_->target);
  request->headers = std::move(parser_->headers);
  request->body = std::exchange(body_, {});
  countBody();
  request->peer = peer_;
  if (identity_) {
    request->client_name = identity_->common_name;
    request->client_groups = identity_->organizations;
  }
  current_ = request;
  server_->handle(std::move(request));
}

bool ServerConnection::streams() const { return server_ && server_->streams(); }

void ServerConnection::tellIfItMayGo() {
  if (!closed_ && mayGo()) server_->mayHaveRoom();
}

bool ServerConnection::noteBacklog() {
  std::size_t before = std::exchange(noted_, outgoing_.size());
  return !server_ || server_->note(before, noted_);
}

void ServerConnection::countBody() {
  std::size_t before = std::exchange(counted_, body_.size());
  if (server_) server_->countBodies(before, counted_);
}

void ServerConnection::close() {
  if (std::exchange(closed_, true)) return;
  auto keep = shared_from_this();
  timer_.reset();
  wanted_ = nullptr;
  taken_ = nullptr;
  if (stream_) stream_->close();
  // First the server: whoever hears that the client is gone may destroy it.
  if (server_) std::exchange(server_, nullptr)->closed(keep);
  if (auto request = current_.lock()) request->clientGone();
}

std::unique_ptr<Stream> ServerConnection::release() {
  auto keep = shared_from_this();
  timer_.reset();
  closed_ = true;
  current_.reset();
  auto stream = std::move(stream_);
  if (server_) std::exchange(server_, nullptr)->closed(keep);
  return stream;
}

bool hasNoBody(int status) { return status == 204 || status == 304; }

std::string Answer::head(int status, const Headers& answer_headers,
                         std::string_view framing) const {
  std::string out = format("HTTP/1.1 {} {}\r\n", status, statusText(status));
  for (const auto& [name, value] : answer_headers)
    if (value.find_first_of("\r\n") == std::string::npos) out += format("{}: {}\r\n", name, value);
  out += framing;
  if (!keep_alive) out += "Connection: close\r\n";
  out += "\r\n";
  return out;
}

void Answer::respond(int status, Headers answer_headers, std::string answer_body) {
  if (std::exchange(state_, State::Done) != State::Open) return;
  auto connection = connection_.lock();
  if (!connection) return;
  keep_alive = keep_alive && connection->bodyIsOver();
  bool bodiless = hasNoBody(status);
  std::string out = head(status, answer_headers,
                         bodiless ? "" : format("Content-Length: {}\r\n", answer_body.size()));
  if (method != "HEAD" && !bodiless) out += answer_body;
  bool keep_open = keep_alive;  // whoever hears that the client is gone may drop this request
  connection->send(out);
  connection->answered(keep_open);
}

void Answer::begin(int status, Headers answer_headers) {
  if (state_ != State::Open) return;
  state_ = State::Streaming;
  if (hasNoBody(status))
    left_ = 0;
  else if (auto length = parseInt(answer_headers.get("content-length")))
    left_ = static_cast<std::uint64_t>(*length);
  keep_alive = keep_alive && (chunks || left_);
  chunks = chunks && !left_;
  if (auto connection = connection_.lock())
    connection->send(head(status, answer_headers, chunks ? "Transfer-Encoding: chunked\r\n" : ""));
}

void Answer::write(std::string_view piece) {
  if (state_ != State::Streaming || method == "HEAD") return;
  if (left_) {
    piece = piece.substr(0, *left_);
    *left_ -= piece.size();
  }
  if (piece.empty()) return;
  if (auto connection = connection_.lock()) {
    if (!chunks) return connection->send(piece);
    std::string chunk = format("{:x}\r\n", piece.size());
    chunk += piece;
    chunk += "\r\n";
    connection->send(chunk);
  }
}

std::size_t Answer::backlog() const {
  auto connection = connection_.lock();
  return connection ? connection->backlog() : 0;
}

void Answer::end() {
  if (state_ != State::Streaming) return;
  state_ = State::Done;
  if (auto connection = connection_.lock()) {
    if (left_.value_or(0) > 0 && method != "HEAD") return connection->abort();
    bool keep_open = keep_alive;  // as in respond()
    if (method != "HEAD" && chunks) connection->send("0\r\n\r\n");
    connection->answered(keep_open);
  }
}

void Answer::readBody(Function<void(std::string_view piece)> got) {
  if (auto connection = connection_.lock()) connection->readBody(std::move(got));
}

void Answer::onTaken(Function<void()> taken) {
  if (auto connection = connection_.lock()) connection->onTaken(std::move(taken));
}

void Answer::switchProtocol(Headers answer_headers) {
  if (state_ != State::Open) return;
  state_ = State::Streaming;
  keep_alive = true;
  std::string out = head(101, answer_headers, "");
  keep_alive = chunks = false;
  if (auto connection = connection_.lock()) {
    connection->switchProtocol();
    connection->send(out);
  }
}

void Answer::acceptWebSocket(std::string subprotocol,
                             Function<void(std::unique_ptr<WebSocket>)> accepted) {
  if (std::exchange(state_, State::Done) != State::Open) return;
  auto connection = connection_.lock();
  if (!connection) return;
  http::request<http::empty_body> request;
  request.version(11);
  request.method(http::verb::get);
  request.target(target);
  for (const auto& [name, value] : headers) request.insert(name, value);
  auto socket = std::make_unique<WebSocketOverStream>(connection->release());
  auto* pointer = socket.get();
  pointer->accept(request, subprotocol,
                  [socket = std::move(socket), accepted = std::move(accepted)](bool ok) mutable {
                    if (ok) accepted(std::move(socket));
                  });
}

Answer::~Answer() {
  if (state_ == State::Done) return;
  auto connection = connection_.lock();
  if (!connection) return;
  if (state_ == State::Open) {
    keep_alive = false;
    respond(500, {{"Content-Type", "text/plain"}}, "the server did not answer this request\n");
  } else {
    connection->abort();
  }
}

}  // namespace

std::string_view statusText(int status) {
  auto text = http::obsolete_reason(static_cast<http::status>(status));
  return {text.data(), text.size()};
}

Result<std::unique_ptr<HttpServer>> HttpServer::listen(Loop& loop, HttpServerOptions options,
                                                       Handler handler) {
  auto server = std::make_unique<Server>(loop, std::move(options), std::move(handler));
  CADRE_TRY(server->open());
  return std::unique_ptr<HttpServer>(std::move(server));
}

Result<std::unique_ptr<HttpServer>> HttpServer::listenStreamed(Loop& loop,
                                                               HttpServerOptions options,
                                                               StreamHandler handler) {
  auto server = std::make_unique<Server>(loop, std::move(options), std::move(handler));
  CADRE_TRY(server->open());
  return std::unique_ptr<HttpServer>(std::move(server));
}

}  // namespace cadre::net
