#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/function.h"
#include "base/result.h"
#include "base/scheduler.h"

namespace cadre::net {

// Header fields in the order they were given. Names are compared without case.
class Headers {
 public:
  using Field = std::pair<std::string, std::string>;

  Headers() = default;
  Headers(std::initializer_list<Field> fields) : fields_(fields) {}

  void add(std::string name, std::string value) {
    fields_.emplace_back(std::move(name), std::move(value));
  }
  void set(std::string_view name, std::string value);
  // The first of that name; empty when there is none.
  std::string_view get(std::string_view name) const;
  bool contains(std::string_view name) const;

  auto begin() const { return fields_.begin(); }
  auto end() const { return fields_.end(); }
  std::size_t size() const { return fields_.size(); }

 private:
  std::vector<Field> fields_;
};

// scheme://user:password@host:port/path?query, taken apart. IPv6 hosts are without their brackets.
struct Url {
  std::string scheme;
  std::string user_info;  // as written; a secret
  std::string host;
  std::uint16_t port = 0;  // the scheme's own when none is written
  std::string target;      // path and query, empty when there is none

  static Result<Url> parse(std::string_view text);
  // "host:port", with brackets where IPv6 wants them.
  std::string authority() const;
  // "scheme://host:port": what connections are shared by.
  std::string origin() const;
};

std::string authority(std::string_view host, std::uint16_t port);

// What a server sees of a request's path and query, decoded.
struct Target {
  std::string path;
  std::vector<std::pair<std::string, std::string>> query;

  static Target parse(std::string_view target);
  // The first of that name; empty when there is none.
  std::string_view parameter(std::string_view name) const;
};

struct HttpRequest {
  std::string method = "GET";
  std::string target = "/";
  Headers headers = {};
  std::string body = {};
  // How long until the answer's head is there; 0 waits for ever.
  Duration head_timeout = 60s;
  // How long until the answer is complete; 0 waits for ever (a watch).
  Duration timeout = 0s;
};

struct ResponseHead {
  int status = 0;
  Headers headers;
};

// Who listens to an answer as it comes. `end` is called exactly once, unless the exchange is
// dropped before; after a failure mid-body it says so. Called on the loop's thread; the handler may
// drop its exchange in any of them.
struct ResponseHandler {
  Function<void(ResponseHead)> head;
  Function<void(std::string_view)> data;
  Function<void(Result<>)> end;
};

// Sends requests to one server.
class HttpClient {
 public:
  virtual ~HttpClient() = default;
  // Dropping the Pending cancels the exchange.
  virtual Pending send(HttpRequest request, ResponseHandler handler) = 0;
};

struct HttpResponse {
  int status = 0;
  Headers headers;
  std::string body;
};

// The whole answer at once, up to `limit` bytes of body: more is ResourceExhausted.
Pending fetch(HttpClient& client, HttpRequest request, std::size_t limit,
              Function<void(Result<HttpResponse>)> done);

}  // namespace cadre::net
