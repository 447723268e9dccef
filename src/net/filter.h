#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"

namespace cadre::net {

// Some of what goes between here and others; if nothing is said, all of it. IPv4: 10.0.0.1 is
// 0x0a000001.
struct Traffic {
  std::uint32_t first_address = 0, last_address = 0xffffffff;  // of the others
  std::uint8_t protocol = 0;                                   // IPPROTO_TCP, ...; 0: any
  std::uint16_t first_port = 0, last_port = 0xffff;            // of whoever is called

  auto operator<=>(const Traffic&) const = default;
};

// What may begin to come in and to go out; nothing: all of it. What belongs to a connection that is
// there goes on, and what stays within the namespace is not touched.
struct Filter {
  std::optional<std::vector<Traffic>> in, out;
};

// Drops everything else in this network namespace from now on, until it is told again: at no moment
// is there another filter than the old one or the new one. A direction that is filtered has no
// IPv6. Forbidden without CAP_NET_ADMIN, Unavailable where the kernel has no nftables.
Result<> filterTraffic(const Filter& filter);

// Whether this kernel could: by a child in a network namespace of its own, which then is gone.
// Forbidden where nobody may make such a namespace.
Result<> tryFilter(const Filter& filter);

}  // namespace cadre::net
