#include "net/stream.h"

#include <boost/asio/connect.hpp>
#include <boost/asio/post.hpp>

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/format.h"
#include "base/strings.h"

namespace cadre::net {

std::string proxyAuthorization(const Url& proxy) {
  // A plus is a plus here, unlike in a query.
  std::string text;
  for (char c : proxy.user_info) text += c == '+' ? "%2B" : std::string(1, c);
  return "Basic " + base64Encode(urlDecode(text));
}

namespace {

// A peer that is gone without a word is noticed within 45 s on every connection: 30 s idle, then
// three probes.
void noticeDeadPeers(int fd) {
  auto set = [fd](int level, int option, int value) {
    ::setsockopt(fd, level, option, &value, sizeof value);  // best effort: Unix sockets refuse
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 30);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 45000);
  set(IPPROTO_TCP, TCP_NODELAY, 1);
}

constexpr Duration kAttemptTimeout = 3s;

std::string systemText(int error_number) {
  return lower(std::error_code(error_number, std::generic_category()).message());
}

}  // namespace

Stream::Stream(Socket socket) : socket_(std::move(socket)) {
  ErrorCode ignored;
  (void)socket_.non_blocking(true, ignored);
  noticeDeadPeers(socket_.native_handle());
}

Stream::~Stream() { close(); }

void Stream::startClientTls(std::shared_ptr<TlsContext> context, const std::string& host) {
  context_ = std::move(context);
  ssl_ = SSL_new(static_cast<SSL_CTX*>(context_->native()));
  SSL_set_fd(ssl_, socket_.native_handle());
  const std::string& name = context_->serverName().empty() ? host : context_->serverName();
  unsigned char address[16];
  bool numeric = inet_pton(AF_INET, name.c_str(), address) == 1 ||
                 inet_pton(AF_INET6, name.c_str(), address) == 1;
  if (!numeric) SSL_set_tlsext_host_name(ssl_, name.c_str());
  if (context_->verify()) {
    if (numeric)
      X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl_), name.c_str());
    else
      SSL_set1_host(ssl_, name.c_str());
  }
  SSL_set_connect_state(ssl_);
}

void Stream::startServerTls(std::shared_ptr<TlsContext> context) {
  context_ = std::move(context);
  ssl_ = SSL_new(static_cast<SSL_CTX*>(context_->native()));
  SSL_set_fd(ssl_, socket_.native_handle());
  SSL_set_accept_state(ssl_);
}

Stream::Status Stream::handshake() {
  ERR_clear_error();
  int result = SSL_do_handshake(ssl_);
  if (result == 1) return Status::Ok;
  Status status = sslStatus(result, "TLS handshake");
  if (status == Status::Closed) {
    error_ = Error{.code = Code::Unavailable,
                   .message = "TLS handshake: the peer closed the connection"};
    return Status::Failed;
  }
  if (status != Status::Failed) return status;
  if (long verdict = SSL_get_verify_result(ssl_); verdict != X509_V_OK && !SSL_is_server(ssl_))
    error_ = Error{.code = Code::Unauthenticated,
                   .message = format("the server's certificate is not accepted: {}",
                                     X509_verify_cert_error_string(verdict)),
                   .reason = "CertificateRefused"};
  return status;
}

std::string Stream::protocol() const {
  const unsigned char* name = nullptr;
  unsigned length = 0;
  if (ssl_) SSL_get0_alpn_selected(ssl_, &name, &length);
  return {reinterpret_cast<const char*>(name), length};
}

std::optional<Stream::PeerIdentity> Stream::peerIdentity() const {
  if (!ssl_) return std::nullopt;
  X509* certificate = SSL_get0_peer_certificate(ssl_);
  if (!certificate || SSL_get_verify_result(ssl_) != X509_V_OK) return std::nullopt;
  PeerIdentity identity;
  X509_NAME* subject = X509_get_subject_name(certificate);
  for (int i = 0; i < X509_NAME_entry_count(subject); ++i) {
    X509_NAME_ENTRY* entry = X509_NAME_get_entry(subject, i);
    unsigned char* text = nullptr;
    int length = ASN1_STRING_to_UTF8(&text, X509_NAME_ENTRY_get_data(entry));
    if (length < 0) continue;
    std::string value(reinterpret_cast<char*>(text), static_cast<std::size_t>(length));
    OPENSSL_free(text);
    switch (OBJ_obj2nid(X509_NAME_ENTRY_get_object(entry))) {
      case NID_commonName:
        identity.common_name = value;
        break;
      case NID_organizationName:
        identity.organizations.push_back(value);
        break;
      default:
        break;
    }
  }
  return identity;
}

Stream::Status Stream::sslStatus(int result, const char* doing) {
  int saved_errno = errno;
  switch (SSL_get_error(ssl_, result)) {
    case SSL_ERROR_WANT_READ:
      return Status::WantRead;
    case SSL_ERROR_WANT_WRITE:
      return Status::WantWrite;
    case SSL_ERROR_ZERO_RETURN:
      return Status::Closed;
    case SSL_ERROR_SYSCALL:
      shut_ = true;
      if (saved_errno) return systemStatus(saved_errno, true, doing);
      // The end of the connection without TLS's own goodbye: anyone on the way could have cut it.
      error_ = Error{.code = Code::Unavailable,
                     .message = format("{}: the peer cut the connection", doing)};
      return Status::Failed;
    default:
      break;
  }
  shut_ = true;
  char text[256] = "protocol error";
  if (unsigned long code = ERR_peek_error()) {
    const char* reason = ERR_reason_error_string(code);
    std::snprintf(text, sizeof text, "%s", reason ? reason : "protocol error");
  }
  ERR_clear_error();
  error_ = Error{.code = Code::Unavailable, .message = format("{}: {}", doing, text)};
  return Status::Failed;
}

Stream::Status Stream::systemStatus(int error_number, bool reading, const char* doing) {
  if (error_number == EAGAIN || error_number == EWOULDBLOCK || error_number == EINTR)
    return reading ? Status::WantRead : Status::WantWrite;
  error_ = Error{.code = Code::Unavailable,
                 .message = format("{}: {}", doing, systemText(error_number))};
  return Status::Failed;
}

Stream::Io Stream::read(std::span<char> into) {
  if (ssl_) {
    ERR_clear_error();
    errno = 0;
    std::size_t bytes = 0;
    int result = SSL_read_ex(ssl_, into.data(), into.size(), &bytes);
    if (result == 1) return {Status::Ok, bytes};
    return {sslStatus(result, "reading")};
  }
  ssize_t bytes = ::recv(socket_.native_handle(), into.data(), into.size(), 0);
  if (bytes > 0) return {Status::Ok, static_cast<std::size_t>(bytes)};
  if (bytes == 0) return {Status::Closed};
  return {systemStatus(errno, true, "reading")};
}

Stream::Io Stream::write(std::string_view from) {
  if (ssl_) {
    ERR_clear_error();
    errno = 0;
    std::size_t bytes = 0;
    int result = SSL_write_ex(ssl_, from.data(), from.size(), &bytes);
    if (result == 1) return {Status::Ok, bytes};
    return {sslStatus(result, "writing")};
  }
  ssize_t bytes = ::send(socket_.native_handle(), from.data(), from.size(), MSG_NOSIGNAL);
  if (bytes >= 0) return {Status::Ok, static_cast<std::size_t>(bytes)};
  return {systemStatus(errno, false, "writing")};
}

void Stream::waitReadable(Function<void()> ready) {
  // Bytes that OpenSSL has already taken off the socket would never make it readable again.
  if (ssl_ && SSL_pending(ssl_) > 0) return asio::post(socket_.get_executor(), std::move(ready));
  socket_.async_wait(Socket::wait_read, [ready = std::move(ready)](ErrorCode error) {
    if (error != asio::error::operation_aborted) ready();
  });
}

void Stream::waitWritable(Function<void()> ready) {
  socket_.async_wait(Socket::wait_write, [ready = std::move(ready)](ErrorCode error) {
    if (error != asio::error::operation_aborted) ready();
  });
}

void Stream::sayGoodbye() {
  if (!ssl_ || std::exchange(shut_, true) || !SSL_is_init_finished(ssl_)) return;
  ERR_clear_error();
  SSL_shutdown(ssl_);  // does not wait for the answer
}

void Stream::finish() {
  sayGoodbye();
  ErrorCode ignored;
  (void)socket_.shutdown(Socket::shutdown_send, ignored);
}

void Stream::close() {
  sayGoodbye();
  if (ssl_) SSL_free(std::exchange(ssl_, nullptr));
  ErrorCode ignored;
  (void)socket_.close(ignored);
}

std::string Stream::peer() const {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (::getpeername(const_cast<Socket&>(socket_).native_handle(),
                    reinterpret_cast<sockaddr*>(&address), &length) != 0)
    return "";
  char text[INET6_ADDRSTRLEN] = "";
  if (address.ss_family == AF_INET) {
    auto* v4 = reinterpret_cast<sockaddr_in*>(&address);
    inet_ntop(AF_INET, &v4->sin_addr, text, sizeof text);
    return authority(text, ntohs(v4->sin_port));
  }
  if (address.ss_family == AF_INET6) {
    auto* v6 = reinterpret_cast<sockaddr_in6*>(&address);
    inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof text);
    return authority(text, ntohs(v6->sin6_port));
  }
  return "unix socket";
}

namespace {

// One attempt to get connected, step by step: name, socket, proxy, TLS. Kept alive by the Pending
// that the caller holds; each step holds it only weakly.
class Dial : public std::enable_shared_from_this<Dial> {
 public:
  Dial(Loop& loop, ConnectOptions options, Function<void(Result<std::unique_ptr<Stream>>)> done)
      : loop_(loop),
        options_(std::move(options)),
        done_(std::move(done)),
        resolver_(contextOf(loop)),
        socket_(contextOf(loop)) {}

  void start() {
    timer_ = loop_.after(options_.timeout, weakly(&Dial::timedOut));
    if (options_.unix_path.size() >= sizeof(sockaddr_un::sun_path)) {
      last_ = Error{.code = Code::InvalidArgument, .message = "the path of the socket is too long"};
      return loop_.post(weakly(&Dial::connectNext));
    }
    if (!options_.unix_path.empty()) {
      targets_.emplace_back(asio::local::stream_protocol::endpoint(options_.unix_path));
      return connectNext();
    }
    const Url& url = options_.proxy ? *options_.proxy : options_.url;
    ErrorCode error;
    auto address = asio::ip::make_address(url.host, error);
    if (!error) {  // a literal address needs no resolver and not its thread
      targets_.emplace_back(asio::ip::tcp::endpoint(address, url.port));
      return connectNext();
    }
    resolver_.async_resolve(
        url.host, std::to_string(url.port),
        [weak = weak_from_this()](ErrorCode error, asio::ip::tcp::resolver::results_type results) {
          auto self = weak.lock();
          if (!self || !self->done_) return;
          if (error) {
            const Url& url = self->options_.proxy ? *self->options_.proxy : self->options_.url;
            return self->fail(Error{.code = Code::Unavailable,
                                    .message = format("the name {} does not resolve: {}", url.host,
                                                      lower(error.message()))});
          }
          for (const auto& result : results) self->targets_.emplace_back(result.endpoint());
          self->connectNext();
        });
  }

  void cancel() {
    done_ = nullptr;
    timer_.reset();
    attempt_.reset();
    resolver_.cancel();
    ErrorCode ignored;
    (void)socket_.close(ignored);
    stream_.reset();
  }

 private:
  Function<void()> weakly(void (Dial::*step)()) {
    return [weak = weak_from_this(), step] {
      if (auto self = weak.lock(); self && self->done_) (self.get()->*step)();
    };
  }

  void connectNext() {
    if (next_ == targets_.size()) return fail(std::move(last_));
    const auto& target = targets_[next_++];
    ErrorCode ignored;
    (void)socket_.close(ignored);
    // An address that swallows everything must not take the time of those after it.
    if (next_ < targets_.size()) {
      last_ = Error{.code = Code::Unavailable, .message = "connection timed out"};
      attempt_ = loop_.after(kAttemptTimeout, weakly(&Dial::connectNext));
    }
    socket_.async_connect(target, [weak = weak_from_this(), attempt = next_](ErrorCode error) {
      auto self = weak.lock();
      if (!self || !self->done_ || attempt != self->next_) return;
      self->attempt_.reset();
      if (error) {
        self->last_ = Error{.code = Code::Unavailable, .message = systemText(error.value())};
        return self->connectNext();
      }
      self->connected();
    });
  }

  void connected() {
    reached_ = true;
    stream_ = std::make_unique<Stream>(std::move(socket_));
    if (options_.proxy && options_.url.scheme == "https") {
      outgoing_.append(format("CONNECT {0} HTTP/1.1\r\nHost: {0}\r\n", options_.url.authority()));
      if (!options_.proxy->user_info.empty())
        outgoing_.append(
            format("Proxy-Authorization: {}\r\n", proxyAuthorization(*options_.proxy)));
      outgoing_.append("\r\n");
      return askProxy();
    }
    secure();
  }

  void askProxy() {
    while (!outgoing_.empty()) {
      auto io = stream_->write(outgoing_.view());
      if (io.status == Stream::Status::Ok)
        outgoing_.consume(io.bytes);
      else if (io.status == Stream::Status::WantWrite)
        return stream_->waitWritable(weakly(&Dial::askProxy));
      else
        return fail(stream_->error());
    }
    readProxyAnswer();
  }

  void readProxyAnswer() {
    // Byte by byte up to the empty line: what follows belongs to TLS.
    char byte;
    while (!incoming_.ends_with("\r\n\r\n")) {
      auto io = stream_->read({&byte, 1});
      if (io.status == Stream::Status::WantRead)
        return stream_->waitReadable(weakly(&Dial::readProxyAnswer));
      if (io.status != Stream::Status::Ok || incoming_.size() > 16384)
        return fail(Error{
            .code = Code::Unavailable,
            .message = format("the proxy {} did not answer CONNECT", options_.proxy->authority())});
      incoming_ += byte;
    }
    std::string_view status = cut(incoming_, "\r\n").first;
    if (!cut(status, " ").second.starts_with("200"))
      return fail(Error{.code = Code::Unavailable,
                        .message = format("the proxy {} refused: {}", options_.proxy->authority(),
                                          shorten(status, 200))});
    secure();
  }

  void secure() {
    if (options_.url.scheme != "https") return succeed();
    stream_->startClientTls(options_.tls, options_.url.host);
    handshake();
  }

  void handshake() {
    switch (stream_->handshake()) {
      case Stream::Status::Ok:
        return succeed();
      case Stream::Status::WantRead:
        return stream_->waitReadable(weakly(&Dial::handshake));
      case Stream::Status::WantWrite:
        return stream_->waitWritable(weakly(&Dial::handshake));
      default:
        return fail(stream_->error());
    }
  }

  void succeed() {
    timer_.reset();
    std::exchange(done_, nullptr)(std::move(stream_));
  }

  void timedOut() {
    fail(Error{.code = Code::DeadlineExceeded,
               .message = format("no connection within {}", formatDuration(options_.timeout))});
  }

  void fail(Error error) {
    auto keep = shared_from_this();
    auto done = std::exchange(done_, nullptr);
    cancel();
    std::string what = options_.unix_path.empty() ? options_.url.authority() : options_.unix_path;
    // Until there is a stream, it is the proxy that is not reached.
    if (options_.proxy && !reached_) what = "the proxy " + options_.proxy->authority();
    done(std::move(error).context("connecting to " + what));
  }

  Loop& loop_;
  ConnectOptions options_;
  Function<void(Result<std::unique_ptr<Stream>>)> done_;
  asio::ip::tcp::resolver resolver_;
  Stream::Socket socket_;
  std::vector<Stream::Socket::endpoint_type> targets_;
  std::size_t next_ = 0;
  Error last_{.code = Code::Unavailable, .message = "the name has no address"};
  std::unique_ptr<Stream> stream_;
  SendBuffer outgoing_;
  std::string incoming_;
  Pending timer_, attempt_;
  bool reached_ = false;
};

}  // namespace

Pending connect(Loop& loop, ConnectOptions options,
                Function<void(Result<std::unique_ptr<Stream>>)> done) {
  auto dial = std::make_shared<Dial>(loop, std::move(options), std::move(done));
  dial->start();
  return Pending([dial] { dial->cancel(); });
}

}  // namespace cadre::net
