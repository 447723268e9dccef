#include "net/filter.h"

#include <cerrno>
#include <cstring>

#include <arpa/inet.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_tables.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/format.h"
#include "net/nftables.h"

namespace cadre::net {
namespace {

constexpr const char* kTable = "cadre-policy";
constexpr std::uint32_t kLoopback = 1;  // the index of `lo`, in every namespace
constexpr std::uint32_t kGoesOn =
    NF_CT_STATE_BIT(IP_CT_ESTABLISHED) | NF_CT_STATE_BIT(IP_CT_RELATED);
constexpr std::uint32_t kDestinationPort = 2;  // in a header of TCP, UDP and SCTP

struct Direction {
  std::string_view chain;
  std::uint32_t hook, interface, address;  // where, and where in an IPv4 header the others are
};
constexpr Direction kIn{"in", NF_INET_LOCAL_IN, NFT_META_IIF, 12};
constexpr Direction kOut{"out", NF_INET_LOCAL_OUT, NFT_META_OIF, 16};

// meta nfproto ipv4 ip saddr A-B meta l4proto P th dport C-D accept
void allow(Nftables& changes, const Direction& direction, const Traffic& traffic) {
  changes.addRule(direction.chain, [&] {
    changes.loadMeta(NFT_META_NFPROTO);
    changes.equals(bytesOf(std::uint8_t{NFPROTO_IPV4}));
    if (traffic.first_address != 0 || traffic.last_address != 0xffffffff) {
      changes.loadNetworkHeader(direction.address, sizeof traffic.first_address);
      changes.isWithin(bytesOf(htonl(traffic.first_address)), bytesOf(htonl(traffic.last_address)));
    }
    if (traffic.protocol != 0) {
      changes.loadMeta(NFT_META_L4PROTO);
      changes.equals(bytesOf(traffic.protocol));
      changes.loadTransportHeader(kDestinationPort, sizeof traffic.first_port);
      changes.isWithin(bytesOf(htons(traffic.first_port)), bytesOf(htons(traffic.last_port)));
    }
    changes.accept();
  });
}

// type filter hook input priority 0; policy drop;
//   ct state established,related accept; meta iif lo accept; ...
void filterOne(Nftables& changes, const Direction& direction, const std::vector<Traffic>& allowed) {
  changes.addChain({.name = direction.chain,
                    .type = "filter",
                    .hook = direction.hook,
                    .priority = 0,
                    .otherwise = NF_DROP});
  changes.addRule(direction.chain, [&] {
    changes.loadConnectionState();
    changes.mask(bytesOf(kGoesOn));
    changes.differs(bytesOf(std::uint32_t{0}));
    changes.accept();
  });
  changes.addRule(direction.chain, [&] {
    changes.loadMeta(direction.interface);
    changes.equals(bytesOf(kLoopback));
    changes.accept();
  });
  for (const Traffic& one : allowed) allow(changes, direction, one);
}

}  // namespace

// The table goes and comes in one change, whatever was in it.
Result<> filterTraffic(const Filter& filter) {
  Nftables changes(NFPROTO_INET, kTable);
  changes.addTable();
  changes.removeTable();
  if (filter.in || filter.out) changes.addTable();
  if (filter.in) filterOne(changes, kIn, *filter.in);
  if (filter.out) filterOne(changes, kOut, *filter.out);
  if (auto done = changes.commit(); !done)
    return done.error().context("traffic cannot be filtered");
  return {};
}

Result<> tryFilter(const Filter& filter) {
  constexpr int kNoNamespace = 2;
  pid_t child = fork();
  if (child < 0) return Error{.code = Code::Unavailable, .message = std::strerror(errno)};
  if (child == 0) {
    if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
      _exit(kNoNamespace);
    _exit(filterTraffic(filter) ? 0 : 1);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNoNamespace)
    return Error{.code = Code::Forbidden, .message = "nobody may make a network namespace here"};
  return Error{.code = Code::Unavailable, .message = "this kernel has no nftables with conntrack"};
}

}  // namespace cadre::net
