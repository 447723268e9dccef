#pragma once

// Private to `net`: a connected socket, plain or TLS, and how one comes about.

#include <memory>
#include <span>
#include <string>
#include <type_traits>

#include <openssl/ssl.h>

#include "net/asio.h"
#include "net/http.h"
#include "net/tls.h"

namespace cadre::net {

// A non-blocking byte stream over a TCP or Unix socket, with or without TLS. OpenSSL works on the
// socket itself: no buffer stands between them. It also models Asio's AsyncReadStream and
// AsyncWriteStream, so that Beast's WebSocket can run on it. Belongs to its loop.
class Stream {
 public:
  using Socket = asio::generic::stream_protocol::socket;
  using executor_type = Socket::executor_type;

  enum class Status { Ok, WantRead, WantWrite, Closed, Failed };
  struct Io {
    Status status;
    std::size_t bytes = 0;
  };

  explicit Stream(Socket socket);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // Puts TLS on it; drive handshake() until it is Ok.
  void startClientTls(std::shared_ptr<TlsContext> context, const std::string& host);
  void startServerTls(std::shared_ptr<TlsContext> context);
  Status handshake();
  // What ALPN chose; empty without.
  std::string protocol() const;
  // The verified certificate that the peer showed: its subject's common name and organizations.
  struct PeerIdentity {
    std::string common_name;
    std::vector<std::string> organizations;
  };
  std::optional<PeerIdentity> peerIdentity() const;

  // Moves what can be moved now, never blocks.
  Io read(std::span<char> into);
  Io write(std::string_view from);
  // Why the last call Failed.
  const Error& error() const { return error_; }

  // Calls back once when the socket is ready; nothing after close().
  void waitReadable(Function<void()> ready);
  void waitWritable(Function<void()> ready);
  // Says that nothing more will be written; what the peer sends can still be read.
  void finish();
  void close();
  bool open() const { return socket_.is_open(); }
  std::string peer() const;

  executor_type get_executor() { return socket_.get_executor(); }
  template <class Buffers, class Token>
  auto async_read_some(const Buffers& buffers, Token&& token) {
    return asio::async_initiate<Token, void(ErrorCode, std::size_t)>(
        [this](auto handler, Buffers into) {
          this->transfer(*asio::buffer_sequence_begin(into), std::move(handler),
                         /*reading=*/std::true_type());
        },
        token, buffers);
  }
  template <class Buffers, class Token>
  auto async_write_some(const Buffers& buffers, Token&& token) {
    return asio::async_initiate<Token, void(ErrorCode, std::size_t)>(
        [this](auto handler, Buffers from) {
          this->transfer(*asio::buffer_sequence_begin(from), std::move(handler),
                         /*reading=*/std::false_type());
        },
        token, buffers);
  }

 private:
  template <class Buffer, class Handler, class Reading>
  void transfer(Buffer buffer, Handler handler, Reading reading);
  void sayGoodbye();
  Status sslStatus(int result, const char* doing);
  Status systemStatus(int error_number, bool reading, const char* doing);

  Socket socket_;
  std::shared_ptr<TlsContext> context_;
  SSL* ssl_ = nullptr;
  Error error_;
  bool shut_ = false;  // no close_notify may be sent: TLS failed for good, or it is out
};

// Bytes on their way out. Taking from the front costs nothing until it is empty.
class SendBuffer {
 public:
  void append(std::string_view bytes) { data_ += bytes; }
  std::string_view view() const { return std::string_view(data_).substr(sent_); }
  void consume(std::size_t bytes) {
    sent_ += bytes;
    if (sent_ == data_.size()) clear();
  }
  void clear() {
    data_.clear();
    // A burst does not pin its memory for the rest of the connection's life.
    if (data_.capacity() > 256 << 10) data_.shrink_to_fit();
    sent_ = 0;
  }
  std::size_t size() const { return data_.size() - sent_; }
  bool empty() const { return size() == 0; }

 private:
  std::string data_;
  std::size_t sent_ = 0;
};

struct ConnectOptions {
  Url url;                          // scheme, host, port
  std::string unix_path;            // instead of host and port
  std::optional<Url> proxy;         // an HTTP proxy: CONNECT for https, as it is for http
  std::shared_ptr<TlsContext> tls;  // for https
  Duration timeout = 30s;           // for all of it: names, connecting, proxy, TLS
};

// What a proxy's URL says of who we are, as the header's value.
std::string proxyAuthorization(const Url& proxy);

// Dials. The errors name what was dialled.
Pending connect(Loop& loop, ConnectOptions options,
                Function<void(Result<std::unique_ptr<Stream>>)> done);

template <class Buffer, class Handler, class Reading>
void Stream::transfer(Buffer buffer, Handler handler, Reading reading) {
  Io io;
  if (buffer.size() == 0) {
    io = {Status::Ok, 0};
  } else if constexpr (Reading::value) {
    io = read({static_cast<char*>(buffer.data()), buffer.size()});
  } else {
    io = write({static_cast<const char*>(buffer.data()), buffer.size()});
  }
  auto again = [this, buffer, reading, handler = std::make_shared<Handler>(std::move(handler))](
                   Status status, std::size_t bytes) mutable {
    auto retry = [this, buffer, reading, handler] {
      transfer(buffer, std::move(*handler), reading);
    };
    switch (status) {
      case Status::WantRead:
        return waitReadable(std::move(retry));
      case Status::WantWrite:
        return waitWritable(std::move(retry));
      default:
        break;
    }
    ErrorCode code;
    if (status == Status::Closed) code = asio::error::eof;
    if (status == Status::Failed) code = asio::error::connection_reset;
    asio::post(socket_.get_executor(),
               [handler, code, bytes]() mutable { std::move (*handler)(code, bytes); });
  };
  again(io.status, io.bytes);
}

}  // namespace cadre::net
