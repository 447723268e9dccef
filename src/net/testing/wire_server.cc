#include "net/testing/wire_server.h"

#include <map>
#include <set>

#include <nghttp2/nghttp2.h>

#include "base/format.h"
#include "base/strings.h"
#include "net/http_server.h"
#include "net/stream.h"

namespace cadre::net {

const CertificateAndKey& testCa() {
  static const CertificateAndKey ca =
      *makeCertificate({.common_name = "test CA", .authority = true});
  return ca;
}

CertificateAndKey testCertificate(const std::string& common_name, std::vector<std::string> names,
                                  const std::string& organization) {
  return *makeCertificate(
      {.common_name = common_name, .organization = organization, .names = std::move(names)},
      &testCa());
}

namespace {

const CertificateAndKey& loopbackIdentity() {
  static const CertificateAndKey identity =
      testCertificate("wire server", {"127.0.0.1", "localhost"});
  return identity;
}

class Http2Server;

// The server's side of one HTTP/2 connection.
class Peer : public std::enable_shared_from_this<Peer> {
 public:
  Peer(Loop& loop, Http2Server& server, std::unique_ptr<Stream> stream, std::size_t number)
      : loop_(loop), server_(&server), stream_(std::move(stream)), number_(number) {}
  ~Peer() { nghttp2_session_del(session_); }

  void start(std::shared_ptr<TlsContext> tls) {
    stream_->startServerTls(std::move(tls));
    handshake();
  }
  void close();
  void freeze() { frozen_ = true; }
  void goAway() {
    if (!session_) return;
    nghttp2_submit_goaway(session_, NGHTTP2_FLAG_NONE,
                          nghttp2_session_get_last_proc_stream_id(session_), NGHTTP2_NO_ERROR,
                          nullptr, 0);
    flush();
  }

  struct Outgoing {
    std::string data;
    bool over = false;
    bool deferred = false;
  };
  void head(std::int32_t id, int status, const Headers& headers);
  void data(std::int32_t id, std::string_view piece, bool over);
  void reset(std::int32_t id, std::uint32_t code) {
    if (closed_) return;
    nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, id, code);
    flush();
  }

 private:
  void handshake() {
    auto again = [weak = weak_from_this()] {
      if (auto self = weak.lock(); self && !self->closed_) self->handshake();
    };
    switch (stream_->handshake()) {
      case Stream::Status::Ok:
        return serve();
      case Stream::Status::WantRead:
        return stream_->waitReadable(again);
      case Stream::Status::WantWrite:
        return stream_->waitWritable(again);
      default:
        return close();
    }
  }
  void serve();
  void read();
  void flush();
  void wait() {
    stream_->waitReadable([weak = weak_from_this()] {
      if (auto self = weak.lock(); self && !self->closed_) self->read();
    });
  }

  Loop& loop_;
  Http2Server* server_;
  std::unique_ptr<Stream> stream_;
  const std::size_t number_;
  nghttp2_session* session_ = nullptr;
  std::map<std::int32_t, WireServer::Request> requests_;
  std::map<std::int32_t, Outgoing> outgoing_;
  SendBuffer buffer_;
  bool frozen_ = false, closed_ = false, writing_ = false;
};

class Http2Reply final : public WireServer::Reply {
 public:
  Http2Reply(std::weak_ptr<Peer> peer, std::int32_t id) : peer_(std::move(peer)), id_(id) {}
  void head(int status, Headers headers) override {
    if (auto peer = peer_.lock()) peer->head(id_, status, headers);
  }
  void data(std::string_view piece) override {
    if (auto peer = peer_.lock()) peer->data(id_, piece, false);
  }
  void end() override {
    if (auto peer = peer_.lock()) peer->data(id_, "", true);
  }
  void reset() override {
    if (auto peer = peer_.lock()) peer->reset(id_, NGHTTP2_INTERNAL_ERROR);
  }
  void stop() override {
    if (auto peer = peer_.lock()) peer->reset(id_, NGHTTP2_NO_ERROR);
  }
  void refuse() override {
    if (auto peer = peer_.lock()) peer->reset(id_, NGHTTP2_REFUSED_STREAM);
  }

 private:
  std::weak_ptr<Peer> peer_;
  std::int32_t id_;
};

class Http2Server final : public WireServer {
 public:
  Http2Server(Loop& loop, Options options, Script script)
      : loop_(loop),
        options_(std::move(options)),
        script_(std::move(script)),
        acceptor_(contextOf(loop)) {
    const CertificateAndKey& identity = options_.identity ? *options_.identity : loopbackIdentity();
    tls_ = *TlsContext::server({.certificate = identity.certificate,
                                .key = identity.key,
                                .client_ca = options_.client_ca,
                                .protocols = {"h2"}});
    asio::ip::tcp::endpoint endpoint(asio::ip::make_address("127.0.0.1"), 0);
    acceptor_.open(endpoint.protocol());
    acceptor_.bind(endpoint);
    acceptor_.listen();
    accept();
  }
  ~Http2Server() override {
    alive_.reset();
    cut();
  }

  std::uint16_t port() const override { return acceptor_.local_endpoint().port(); }
  const std::string& ca() const override { return testCa().certificate; }
  std::size_t connections() const override { return peers_.size(); }
  void goAway() override {
    for (const auto& peer : std::set(peers_)) peer->goAway();
  }
  void freeze() override {
    for (const auto& peer : peers_) peer->freeze();
  }
  void cut() override {
    for (const auto& peer : std::set(peers_)) peer->close();
  }

  void closed(const std::shared_ptr<Peer>& peer) { peers_.erase(peer); }
  void run(Request request, std::shared_ptr<Reply> reply) {
    script_(std::move(request), std::move(reply));
  }
  std::uint32_t maxStreams() const { return options_.max_streams; }
  bool hangsUp() const { return options_.hang_up; }
  std::size_t silentConnections() const { return options_.silent_connections; }

 private:
  void accept() {
    acceptor_.async_accept(
        [this, alive = std::weak_ptr(alive_)](ErrorCode error, asio::ip::tcp::socket socket) {
          if (error || alive.expired()) return;
          auto peer = std::make_shared<Peer>(
              loop_, *this, std::make_unique<Stream>(std::move(socket)), ++accepted_);
          if (peers_.size() < options_.max_connections) {
            peers_.insert(peer);
            peer->start(tls_);
          }
          accept();
        });
  }

  Loop& loop_;
  Options options_;
  Script script_;
  asio::ip::tcp::acceptor acceptor_;
  std::shared_ptr<TlsContext> tls_;
  std::set<std::shared_ptr<Peer>> peers_;
  std::size_t accepted_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

void Peer::serve() {
  if (server_->hangsUp()) return close();
  if (number_ <= server_->silentConnections()) return;
  nghttp2_session_callbacks* callbacks;
  nghttp2_session_callbacks_new(&callbacks);
  nghttp2_session_callbacks_set_on_header_callback(
      callbacks, [](nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t* name,
                    std::size_t name_length, const std::uint8_t* value, std::size_t value_length,
                    std::uint8_t flags, void* user) {
        auto& request = static_cast<Peer*>(user)->requests_[frame->hd.stream_id];
        std::string key(reinterpret_cast<const char*>(name), name_length);
        std::string text(reinterpret_cast<const char*>(value), value_length);
        if (flags & NGHTTP2_NV_FLAG_NO_INDEX) request.never_indexed.push_back(key);
        if (key == ":method")
          request.method = text;
        else if (key == ":path")
          request.target = text;
        else
          request.headers.add(key, text);
        return 0;
      });
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(
      callbacks, [](nghttp2_session*, std::uint8_t, std::int32_t id, const std::uint8_t* data,
                    std::size_t length, void* user) {
        static_cast<Peer*>(user)->requests_[id].body.append(reinterpret_cast<const char*>(data),
                                                            length);
        return 0;
      });
  nghttp2_session_callbacks_set_on_frame_recv_callback(
      callbacks, [](nghttp2_session*, const nghttp2_frame* frame, void* user) {
        auto& peer = *static_cast<Peer*>(user);
        bool complete = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
        if ((frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) && complete) {
          std::int32_t id = frame->hd.stream_id;
          auto request = std::move(peer.requests_[id]);
          request.connection = peer.number_;
          if (auto identity = peer.stream_->peerIdentity())
            request.client_name = identity->common_name;
          peer.requests_.erase(id);
          // The script runs outside of nghttp2's callback, where it may do anything.
          peer.loop_.post(
              [weak = peer.weak_from_this(), id, request = std::move(request)]() mutable {
                auto self = weak.lock();
                if (self && self->server_)
                  self->server_->run(std::move(request), std::make_shared<Http2Reply>(weak, id));
              });
        }
        return 0;
      });
  nghttp2_session_callbacks_set_on_stream_close_callback(
      callbacks, [](nghttp2_session*, std::int32_t id, std::uint32_t, void* user) {
        static_cast<Peer*>(user)->requests_.erase(id);
        return 0;
      });
  nghttp2_option* options;
  nghttp2_option_new(&options);
  nghttp2_option_set_max_send_header_block_length(options, 64 << 20);  // a script may overdo it
  nghttp2_session_server_new2(&session_, callbacks, this, options);
  nghttp2_option_del(options);
  nghttp2_session_callbacks_del(callbacks);
  const nghttp2_settings_entry settings[] = {
      {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, server_->maxStreams()}};
  nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings, 1);
  flush();
  wait();
}

void Peer::read() {
  auto keep = shared_from_this();
  if (frozen_) return;
  char buffer[16384];
  for (;;) {
    auto io = stream_->read(buffer);
    if (io.status == Stream::Status::WantRead || io.status == Stream::Status::WantWrite) break;
    if (io.status != Stream::Status::Ok ||
        nghttp2_session_mem_recv(session_, reinterpret_cast<std::uint8_t*>(buffer), io.bytes) < 0)
      return close();
  }
  flush();
  if (!closed_) wait();
}

void Peer::flush() {
  if (frozen_ || closed_ || writing_ || !session_) return;
  for (;;) {
    while (buffer_.empty()) {
      const std::uint8_t* data = nullptr;
      ssize_t size = nghttp2_session_mem_send(session_, &data);
      if (size <= 0) return;
      buffer_.append({reinterpret_cast<const char*>(data), static_cast<std::size_t>(size)});
    }
    auto io = stream_->write(buffer_.view());
    if (io.status == Stream::Status::Ok) {
      buffer_.consume(io.bytes);
    } else if (io.status == Stream::Status::WantWrite) {
      writing_ = true;
      return stream_->waitWritable([weak = weak_from_this()] {
        if (auto self = weak.lock()) {
          self->writing_ = false;
          self->flush();
        }
      });
    } else {
      return close();
    }
  }
}

void Peer::close() {
  if (std::exchange(closed_, true)) return;
  auto keep = shared_from_this();
  stream_->close();
  if (server_) std::exchange(server_, nullptr)->closed(keep);
}

void Peer::head(std::int32_t id, int status, const Headers& headers) {
  if (closed_) return;
  std::string code = std::to_string(status);
  std::vector<std::string> names;
  names.reserve(headers.size());
  std::vector<nghttp2_nv> fields;
  auto add = [&](std::string_view name, std::string_view value) {
    fields.push_back({reinterpret_cast<std::uint8_t*>(const_cast<char*>(name.data())),
                      reinterpret_cast<std::uint8_t*>(const_cast<char*>(value.data())), name.size(),
                      value.size(), NGHTTP2_NV_FLAG_NONE});
  };
  add(":status", code);
  for (const auto& [name, value] : headers) {
    names.push_back(lower(name));
    add(names.back(), value);
  }
  nghttp2_data_provider body{};
  body.source.ptr = &outgoing_[id];
  body.read_callback = [](nghttp2_session*, std::int32_t, std::uint8_t* into, std::size_t room,
                          std::uint32_t* flags, nghttp2_data_source* source, void*) -> ssize_t {
    auto& out = *static_cast<Outgoing*>(source->ptr);
    std::size_t count = std::min(room, out.data.size());
    std::copy_n(out.data.data(), count, into);
    out.data.erase(0, count);
    if (out.data.empty() && out.over) {
      *flags |= NGHTTP2_DATA_FLAG_EOF;
    } else if (count == 0) {
      out.deferred = true;
      return NGHTTP2_ERR_DEFERRED;
    }
    return static_cast<ssize_t>(count);
  };
  nghttp2_submit_response(session_, id, fields.data(), fields.size(), &body);
  flush();
}

void Peer::data(std::int32_t id, std::string_view piece, bool over) {
  if (closed_) return;
  Outgoing& out = outgoing_[id];
  out.data += piece;
  out.over = out.over || over;
  if (std::exchange(out.deferred, false)) nghttp2_session_resume_data(session_, id);
  flush();
}

class Http1Reply final : public WireServer::Reply {
 public:
  explicit Http1Reply(std::shared_ptr<ServerRequest> request) : request_(std::move(request)) {}
  void head(int status, Headers headers) override { request_->begin(status, std::move(headers)); }
  void data(std::string_view piece) override { request_->write(piece); }
  void end() override { request_->end(); }
  void reset() override {
    request_->begin(200, {});  // a request that is dropped in mid-stream cuts the connection
    request_.reset();
  }
  void stop() override { reset(); }
  void refuse() override { reset(); }

 private:
  std::shared_ptr<ServerRequest> request_;
};

class Http1Server final : public WireServer {
 public:
  Http1Server(Loop& loop, Options options, Script script)
      : loop_(loop), options_(std::move(options)), script_(std::move(script)) {
    open(0);
  }
  std::uint16_t port() const override { return port_; }
  const std::string& ca() const override { return testCa().certificate; }
  std::size_t connections() const override { return server_->connections(); }
  void goAway() override {}
  void freeze() override { frozen_ = true; }
  void cut() override {
    server_.reset();
    held_.clear();
    open(port_);
  }

 private:
  void open(std::uint16_t port) {
    const CertificateAndKey& identity = options_.identity ? *options_.identity : loopbackIdentity();
    TlsServerOptions tls{
        .certificate = identity.certificate, .key = identity.key, .client_ca = options_.client_ca};
    server_ = *HttpServer::listen(
        loop_, {.port = port, .tls = tls}, [this](std::shared_ptr<ServerRequest> request) {
          if (frozen_) return held_.push_back(std::move(request));
          Request seen{.method = request->method,
                       .target = request->target,
                       .body = request->body,
                       .headers = request->headers,
                       .client_name = request->client_name};
          script_(std::move(seen), std::make_shared<Http1Reply>(std::move(request)));
        });
    port_ = server_->port();
  }

  Loop& loop_;
  Options options_;
  Script script_;
  std::vector<std::shared_ptr<ServerRequest>> held_;
  bool frozen_ = false;
  std::uint16_t port_ = 0;
  std::unique_ptr<HttpServer> server_;
};

}  // namespace

std::unique_ptr<WireServer> WireServer::start(Loop& loop, Options options, Script script) {
  if (options.http2)
    return std::make_unique<Http2Server>(loop, std::move(options), std::move(script));
  return std::make_unique<Http1Server>(loop, std::move(options), std::move(script));
}

}  // namespace cadre::net
