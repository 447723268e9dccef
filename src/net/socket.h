#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "net/loop.h"
#include "net/relay.h"

namespace cadre::net {

// A connection, as the bytes on it. Dropping it closes it. Belongs to its loop.
class Socket {
 public:
  struct Handler {
    Function<void(std::string_view piece)> data;
    Function<void()> ended;  // once: the peer says no more, or is gone
    Function<bool()> full;   // whoever listens is behind: nothing is read meanwhile
  };
  virtual ~Socket() = default;
  virtual void listen(Handler handler) = 0;
  virtual void send(std::string_view piece) = 0;
  virtual std::size_t backlog() const = 0;  // what the peer has not taken yet
  // No more is said, after what was sent before.
  virtual void finish() = 0;
};

Pending dial(Loop& loop, const Place& place, Duration timeout,
             Function<void(Result<std::unique_ptr<Socket>>)> done);

// Takes connections at one place. Dropping it closes it, and not what it took.
class Acceptor {
 public:
  // As Relay::listen.
  static Result<std::unique_ptr<Acceptor>> listen(Loop& loop, const Place& place,
                                                  Function<void(std::unique_ptr<Socket>)> came);
  virtual ~Acceptor() = default;
  virtual std::uint16_t port() const = 0;
};

}  // namespace cadre::net
