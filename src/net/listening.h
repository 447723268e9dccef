#pragma once

// Private to `net`: where a TCP port is taken.

#include "base/format.h"
#include "net/asio.h"
#include "net/http.h"
#include "net/relay.h"

namespace cadre::net {

inline Result<> beginListening(asio::ip::tcp::acceptor& acceptor, const Place& place) {
  ErrorCode error;
  auto address = asio::ip::make_address(place.address, error);
  asio::ip::tcp::endpoint endpoint(address, place.port);
  if (!error) acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(asio::ip::tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (!error) return {};
  return Error{.code = error == asio::error::access_denied    ? Code::Forbidden
                       : error == asio::error::address_in_use ? Code::Conflict
                                                              : Code::Unavailable,
               .message = format("cannot listen on {}: {}", authority(place.address, place.port),
                                 error.message())};
}

// One connection after the other, for as long as the one who wants them is there.
template <class Owner>
void acceptNext(std::weak_ptr<Owner> weak) {
  auto owner = weak.lock();
  if (!owner) return;
  owner->acceptor.async_accept([weak](ErrorCode error, asio::ip::tcp::socket socket) {
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
