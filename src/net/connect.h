#pragma once

#include <string>

#include "net/loop.h"

namespace cadre::net {

// Whether somebody takes a TCP connection there; it is closed at once. The host is an address.
Pending tryConnect(Loop& loop, const std::string& host, std::uint16_t port, Duration timeout,
                   Function<void(Result<>)> done);

}  // namespace cadre::net
