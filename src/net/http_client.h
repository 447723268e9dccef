#pragma once

#include <memory>
#include <optional>
#include <string>

#include "net/http.h"
#include "net/loop.h"
#include "net/tls.h"

namespace cadre::net {

struct HttpClientOptions {
  Url url;                   // scheme, host and port; the path is not looked at
  std::string unix_path;     // a Unix socket instead of host and port
  std::optional<Url> proxy;  // http://[user:password@]host:port
  TlsClientOptions tls;      // for https
  bool http2 = true;         // offered by ALPN, taken if the server takes it
  bool only_http2 = false;   // the server is known to speak it: also without TLS
  std::size_t max_connections = 64;
  Duration connect_timeout = 30s;
  Duration idle_timeout = 90s;  // a connection without requests is closed after it
  // HTTP/2: after so long without a byte from the peer a PING is sent, and must be answered within
  // ping_timeout.
  Duration ping_after = 30s;
  Duration ping_timeout = 15s;
};

// What a client is doing now.
struct HttpClientStats {
  std::size_t connections = 0;  // connected now
  std::size_t active = 0;       // requests being answered now
  std::size_t waiting = 0;      // requests that have no connection yet
  std::size_t dialled = 0;      // connections ever opened
};

// A pool of connections to one server, HTTP/2 where the server speaks it: many requests share one
// connection, and another is opened before the peer's stream limit is reached. A request that the
// peer says it did not look at (GOAWAY, REFUSED_STREAM) goes out again on another connection;
// nothing else is retried here. Destroying it drops every exchange. Belongs to its loop's thread.
class PooledHttpClient : public HttpClient {
 public:
  virtual HttpClientStats stats() const = 0;
};

// Fails when the TLS material cannot be used. Nothing is dialled before the first request.
Result<std::unique_ptr<PooledHttpClient>> makeHttpClient(Loop& loop, HttpClientOptions options);

}  // namespace cadre::net
