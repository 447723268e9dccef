#pragma once

// Private to `net`: where a TCP port or a Unix socket is taken.

#include <algorithm>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <cstring>

#include <netinet/in.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/format.h"
#include "net/asio.h"
#include "net/http.h"
#include "net/relay.h"

namespace cadre::net {

using Any = asio::generic::stream_protocol;
using AnyAcceptor = asio::basic_socket_acceptor<Any>;

inline Result<Any::endpoint> endpointOf(const Place& place) {
  constexpr std::size_t kMaxUnixPath = 108;
  ErrorCode error;
  if (place.isUnix() && place.address.size() < kMaxUnixPath)
    return Any::endpoint(asio::local::stream_protocol::endpoint(place.address));
  auto address = asio::ip::make_address(place.address, error);
  if (!error) return Any::endpoint(asio::ip::tcp::endpoint(address, place.port));
  return Error{.code = Code::InvalidArgument,
               .message = format("{} is {}", place.address,
                                 place.isUnix() ? "too long a path" : "no address")};
}

inline std::uint16_t portOf(const AnyAcceptor& acceptor) {
  ErrorCode ignored;
  Any::endpoint at = acceptor.local_endpoint(ignored);
  sockaddr_in here{};
  std::memcpy(&here, at.data(), std::min(at.size(), sizeof here));  // both families have it there
  return ntohs(here.sin_port);
}

inline Result<> beginListening(AnyAcceptor& acceptor, const Place& place) {
  CADRE_LET(Any::endpoint endpoint, endpointOf(place));
  ErrorCode error;
  if (place.isUnix()) ::unlink(place.address.c_str());  // of one that is gone
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(asio::ip::tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  // Who may come to it is a matter of its folder.
  if (!error && place.isUnix()) ::chmod(place.address.c_str(), 0666);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (!error) return {};
  return Error{.code = error == asio::error::access_denied    ? Code::Forbidden
                       : error == asio::error::address_in_use ? Code::Conflict
                                                              : Code::Unavailable,
               .message = format("cannot listen on {}: {}", place.text(), error.message())};
}

// One connection after the other, for as long as the one who wants them is there.
template <class Owner>
void acceptNext(std::weak_ptr<Owner> weak) {
  auto owner = weak.lock();
  if (!owner) return;
  owner->acceptor.async_accept([weak](ErrorCode error, Any::socket socket) {
    auto self = weak.lock();
    if (!self || error == asio::error::operation_aborted) return;
    if (!error) {
      self->came(std::move(socket));
      return acceptNext(weak);
    }
    // Too many files are open: it will pass.
    self->again = self->loop.after(100ms, [weak] { acceptNext(weak); });
  });
}

}  // namespace cadre::net
