#pragma once

// Private to `net`: what the pool and its two kinds of client connection say to each other.

#include <memory>

#include "base/format.h"
#include "net/http_client.h"
#include "net/stream.h"

namespace cadre::net {

// One request and whoever listens to its answer.
class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  Exchange(HttpRequest request, ResponseHandler handler)
      : request(std::move(request)), handler_(std::move(handler)) {}

  HttpRequest request;
  int attempts = 0;
  bool answered = false;     // the head has come
  Function<void()> abandon;  // how the connection that carries it lets go of it

  bool over() const { return over_; }
  void armTimers(Loop& loop);
  void head(ResponseHead head);
  void data(std::string_view data);
  void end(Result<> result);
  // Ends it without a word, and frees its place on the connection.
  void cancel();

 private:
  void fail(Error error);

  ResponseHandler handler_;
  Pending head_timer_, timer_;
  bool over_ = false;
};

class Connection;

class ConnectionOwner {
 public:
  virtual ~ConnectionOwner() = default;
  // There may be room for a waiting request now.
  virtual void roomMade() = 0;
  // The peer did not look at it: send it again elsewhere.
  virtual void retry(std::shared_ptr<Exchange> exchange, Error error) = 0;
  // It is closed and carries nothing any more.
  virtual void closed(Connection* connection, const Error& why) = 0;
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Loop& loop, std::unique_ptr<Stream> stream, const HttpClientOptions& options,
             ConnectionOwner& owner)
      : loop_(loop),
        stream_(std::move(stream)),
        options_(options),
        owner_(&owner),
        peer_(stream_->peer()) {}
  virtual ~Connection() = default;
  virtual void start() = 0;
  virtual bool hasRoom() const = 0;
  // Open, but it has not taken a request yet and has no room for one: what it will take is not
  // known.
  bool opening() const { return carried_ == 0 && !hasRoom() && !doubtful_; }
  // How many requests it was given, ever.
  std::size_t carried() const { return carried_; }
  virtual std::size_t active() const = 0;
  virtual void carry(std::shared_ptr<Exchange> exchange) = 0;
  // Ends everything on it without telling anyone: the owner goes away.
  virtual void shutdown() = 0;

 protected:
  Error lost(std::string_view why) const {
    return Error{.code = Code::Unavailable,
                 .message = format("connection to {} lost: {}", peer_, why)};
  }

  Loop& loop_;
  std::unique_ptr<Stream> stream_;
  const HttpClientOptions& options_;  // of the owner, and only looked at while there is one
  ConnectionOwner* owner_;            // null when it is gone
  const std::string peer_;
  std::size_t carried_ = 0;
  bool doubtful_ = false;  // its peer has yet to say its first word: others are dialled beside it
};

std::shared_ptr<Connection> makeHttp1Connection(Loop& loop, std::unique_ptr<Stream> stream,
                                                const HttpClientOptions& options,
                                                ConnectionOwner& owner);
std::shared_ptr<Connection> makeHttp2Connection(Loop& loop, std::unique_ptr<Stream> stream,
                                                const HttpClientOptions& options,
                                                ConnectionOwner& owner);

}  // namespace cadre::net
