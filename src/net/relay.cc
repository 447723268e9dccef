#include "net/relay.h"

#include <boost/asio/write.hpp>
#include <set>

#include <linux/netfilter_ipv4.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "net/listening.h"

namespace cadre::net {
namespace {

using Tcp = asio::ip::tcp;

constexpr std::size_t kBuffer = 64u << 10;
constexpr std::size_t kMaxConnections = 4096;
constexpr Duration kConnectTimeout = 10s;

// Where the client meant to go: a redirection is remembered by the system.
Place askedOf(Any::socket& socket) {
  sockaddr_in asked{};
  socklen_t size = sizeof asked;
  if (getsockopt(socket.native_handle(), SOL_IP, SO_ORIGINAL_DST, &asked, &size) != 0) {
    size = sizeof asked;
    getsockname(socket.native_handle(), reinterpret_cast<sockaddr*>(&asked), &size);
  }
  if (asked.sin_family != AF_INET) return {};
  return {asio::ip::address_v4(ntohl(asked.sin_addr.s_addr)).to_string(), ntohs(asked.sin_port)};
}

// Two sockets, and what is on its way between them.
class Pair : public std::enable_shared_from_this<Pair> {
 public:
  Pair(asio::io_context& context, Any::socket client, Function<void(Pair*)> gone)
      : client_(std::move(client)), server_(context), gone_(std::move(gone)) {}

  void begin(Loop& loop, const Any::endpoint& to) {
    timer_ = loop.after(kConnectTimeout, [weak = weak_from_this()] {
      if (auto self = weak.lock()) self->end();
    });
    server_.async_connect(to, [self = shared_from_this()](ErrorCode error) {
      if (error) return self->end();
      self->timer_ = {};
      ErrorCode ignored;
      self->server_.set_option(Tcp::no_delay(true), ignored);
      self->client_.set_option(Tcp::no_delay(true), ignored);
      self->pass(self->client_, self->server_, self->out_);
      self->pass(self->server_, self->client_, self->in_);
    });
  }

  void end() {
    timer_ = {};
    ErrorCode ignored;
    client_.close(ignored);
    server_.close(ignored);
    if (auto gone = std::exchange(gone_, nullptr)) gone(this);
  }

 private:
  void pass(Any::socket& from, Any::socket& to, std::string& buffer) {
    buffer.resize(kBuffer);
    from.async_read_some(asio::buffer(buffer), [self = shared_from_this(), &from, &to, &buffer](
                                                   ErrorCode error, std::size_t got) {
      if (error) return self->finish(to, error == asio::error::eof);
      asio::async_write(to, asio::buffer(buffer.data(), got),
                        [self, &from, &to, &buffer](ErrorCode failed, std::size_t) {
                          if (failed) return self->end();
                          self->pass(from, to, buffer);
                        });
    });
  }

  // One side has said all; the other may still have something to say.
  void finish(Any::socket& to, bool politely) {
    ErrorCode ignored;
    if (politely) to.shutdown(Any::socket::shutdown_send, ignored);
    if (!politely || ++finished_ == 2) end();
  }

  Any::socket client_, server_;
  std::string out_, in_;
  Function<void(Pair*)> gone_;
  int finished_ = 0;
  Pending timer_;
};

}  // namespace

std::string Place::text() const { return isUnix() ? address : authority(address, port); }

struct Relay::Impl : std::enable_shared_from_this<Relay::Impl> {
  Impl(Loop& loop, Place place, Function<std::optional<Place>(const Place&)> choose)
      : loop(loop), place(std::move(place)), acceptor(contextOf(loop)), choose(std::move(choose)) {}

  void came(Any::socket socket) {
    auto place = choose(askedOf(socket));
    if (!place || pairs.size() >= kMaxConnections) return;
    auto endpoint = endpointOf(*place);
    if (!endpoint) return;
    auto pair = std::make_shared<Pair>(contextOf(loop), std::move(socket),
                                       [weak = weak_from_this()](Pair* gone) {
                                         if (auto self = weak.lock()) self->drop(gone);
                                       });
    pairs.insert(pair);
    pair->begin(loop, *endpoint);
  }

  void drop(Pair* gone) {
    std::erase_if(pairs, [&](const auto& one) { return one.get() == gone; });
  }

  Loop& loop;
  const Place place;
  AnyAcceptor acceptor;
  Function<std::optional<Place>(const Place&)> choose;
  std::set<std::shared_ptr<Pair>> pairs;
  Pending again;
};

Result<std::unique_ptr<Relay>> Relay::listen(Loop& loop, const Place& place,
                                             Function<std::optional<Place>(const Place&)> choose) {
  auto relay =
      std::unique_ptr<Relay>(new Relay(std::make_shared<Impl>(loop, place, std::move(choose))));
  CADRE_TRY(relay->accept());
  return relay;
}

Result<> Relay::accept() {
  if (impl_->acceptor.is_open()) return {};
  auto begun = beginListening(impl_->acceptor, impl_->place);
  if (begun)
    acceptNext(std::weak_ptr(impl_));
  else
    refuse();
  return begun;
}

void Relay::refuse() {
  ErrorCode ignored;
  impl_->acceptor.close(ignored);
  impl_->again = {};
}

Relay::Relay(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
Relay::~Relay() {
  refuse();
  for (const auto& pair : std::set(impl_->pairs)) pair->end();
}
std::uint16_t Relay::port() const { return portOf(impl_->acceptor); }
std::size_t Relay::connections() const { return impl_->pairs.size(); }

}  // namespace cadre::net
