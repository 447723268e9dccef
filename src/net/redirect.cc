#include "net/redirect.h"

#include <arpa/inet.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <netinet/in.h>

#include "base/format.h"
#include "net/nftables.h"

namespace cadre::net {
namespace {

constexpr std::string_view kTable = "cadre", kChain = "services";
constexpr std::int32_t kBeforeRouting = -100;     // where addresses of destinations are changed
constexpr std::uint32_t kDestinationOffset = 16;  // in an IPv4 header

}  // namespace

// What `nft` would be told as
//   table ip cadre { chain services { type nat hook output priority -100;
//     meta l4proto tcp ip daddr NETWORK/BITS redirect to :PORT } }
Result<> redirectConnections(const std::string& network, unsigned prefix_bits, std::uint16_t port) {
  in_addr address{};
  if (prefix_bits > 32 || inet_pton(AF_INET, network.c_str(), &address) != 1)
    return Error{.code = Code::InvalidArgument,
                 .message = format("{}/{} is no network", network, prefix_bits)};
  Nftables changes(NFPROTO_IPV4, std::string(kTable));
  changes.addTable();
  changes.addChain({.name = kChain,
                    .type = "nat",
                    .hook = NF_INET_LOCAL_OUT,
                    .priority = kBeforeRouting,
                    .otherwise = NF_ACCEPT});
  changes.addRule(kChain, [&] {
    changes.loadMeta(NFT_META_L4PROTO);
    changes.equals(bytesOf(std::uint8_t{IPPROTO_TCP}));
    changes.loadNetworkHeader(kDestinationOffset, sizeof address);
    changes.mask(bytesOf(htonl(prefix_bits == 0 ? 0 : ~0U << (32 - prefix_bits))));
    changes.equals(bytesOf(address));
    changes.load(bytesOf(htons(port)));
    changes.redirect();
  });
  if (auto done = changes.commit(); !done)
    return done.error().context("connections cannot be redirected");
  return {};
}

}  // namespace cadre::net
