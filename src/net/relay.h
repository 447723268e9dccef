#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "net/loop.h"

namespace cadre::net {

// An address and a port, or the path of a Unix socket.
struct Place {
  std::string address;
  std::uint16_t port = 0;

  bool isUnix() const { return address.starts_with('/'); }
  std::string text() const;

  auto operator<=>(const Place&) const = default;
};

// Listens at one place, and passes each connection on to another, which is chosen when it comes by
// the place that the client has asked for (see redirect.h: it may be another than that one);
// nothing: it is closed. Both ways at their own pace, in bounded memory, until both have ended.
// Dropping it closes everything. Belongs to its loop.
class Relay {
 public:
  // Forbidden, Conflict or Unavailable, with words, when nobody can listen there.
  static Result<std::unique_ptr<Relay>> listen(
      Loop& loop, const Place& place, Function<std::optional<Place>(const Place& asked)> choose);
  ~Relay();

  // Whoever comes from now on is refused; who came before stays. Until accept(), which may fail as
  // listen() does.
  void refuse();
  Result<> accept();

  std::uint16_t port() const;
  std::size_t connections() const;

 private:
  struct Impl;
  explicit Relay(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace cadre::net
