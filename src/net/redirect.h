#pragma once

#include <string>

#include "base/result.h"

namespace cadre::net {

// From now on, TCP connections that begin in this network namespace and go to one of these
// addresses arrive at a port of 127.0.0.1 instead, where a Relay knows what they asked for. So
// nobody has to listen on those addresses, and their ports stay free for others. Until the
// namespace is gone. Forbidden without CAP_NET_ADMIN, Unavailable where the kernel has no nftables.
Result<> redirectConnections(const std::string& network, unsigned prefix_bits, std::uint16_t port);

}  // namespace cadre::net
