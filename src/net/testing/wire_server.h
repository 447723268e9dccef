#pragma once

#include <memory>
#include <string>
#include <vector>

#include "net/http.h"
#include "net/loop.h"
#include "net/tls.h"

namespace cadre::net {

// A server whose every answer a test writes, piece by piece, over HTTP/2 or HTTP/1.1 and TLS: the
// way to show a client what a bad network and a bad peer do. Runs on the test's own loop, on a free
// loopback port.
class WireServer {
 public:
  struct Options {
    bool http2 = true;
    std::size_t max_connections = 1000;  // HTTP/2: what comes after is closed at once
    bool hang_up = false;                // HTTP/2: closes each connection before its first frame
    std::size_t silent_connections = 0;  // HTTP/2: the first ones, which hear no word after TLS
    std::uint32_t max_streams = 100;     // HTTP/2: what it tells its clients
    const CertificateAndKey* identity = nullptr;  // null: one that its own CA signs for 127.0.0.1
    std::string client_ca = {};  // asks for client certificates that this CA signed
  };

  // One answer in the making. What is not said is not sent: a reply that is kept and left alone
  // hangs.
  class Reply {
   public:
    virtual ~Reply() = default;
    virtual void head(int status, Headers headers = {}) = 0;
    virtual void data(std::string_view piece) = 0;
    virtual void end() = 0;
    // Breaks it off: RST_STREAM in HTTP/2, a closed connection in HTTP/1.1.
    virtual void reset() = 0;
    // Ends the stream as if all were well, whether the answer is complete or not (HTTP/2).
    virtual void stop() = 0;
    // Says that the request was not looked at (HTTP/2 REFUSED_STREAM).
    virtual void refuse() = 0;

    void json(int status, std::string_view body, Headers headers = {}) {
      headers.add("Content-Type", "application/json");
      head(status, std::move(headers));
      data(body);
      end();
    }
  };

  struct Request {
    std::string method, target, body;
    Headers headers;
    std::vector<std::string> never_indexed;  // HTTP/2: those that no compression table may hold
    std::string client_name;                 // from its certificate
    std::size_t connection = 0;              // which of the connections, from 1
  };
  using Script = Function<void(Request, std::shared_ptr<Reply>)>;

  virtual ~WireServer() = default;
  virtual std::uint16_t port() const = 0;
  std::string url() const { return "https://127.0.0.1:" + std::to_string(port()); }
  virtual const std::string& ca() const = 0;
  virtual std::size_t connections() const = 0;  // open now

  // Asks every client to go elsewhere, and still answers what it has begun (HTTP/2).
  virtual void goAway() = 0;
  // Neither reads nor writes any more, as if the network had gone: half-open connections.
  virtual void freeze() = 0;
  // Closes every connection at once; new ones are taken.
  virtual void cut() = 0;

  static std::unique_ptr<WireServer> start(Loop& loop, Options options, Script script);
};

// A CA for tests, and certificates signed by it.
const CertificateAndKey& testCa();
CertificateAndKey testCertificate(const std::string& common_name, std::vector<std::string> names,
                                  const std::string& organization = {});

}  // namespace cadre::net
