#include "net/redirect.h"

#include <cerrno>
#include <cstring>

#include <arpa/inet.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/format.h"

namespace cadre::net {
namespace {

constexpr std::string_view kTable = "cadre", kChain = "services";
constexpr std::int32_t kBeforeRouting = -100;     // where addresses of destinations are changed
constexpr std::uint32_t kDestinationOffset = 16;  // in an IPv4 header
constexpr std::uint32_t kMetaProtocol = NFT_META_L4PROTO;

// Messages of netlink, one after the other. Numbers of nftables are in network order.
class Messages {
 public:
  void begin(std::uint16_t type, std::uint16_t flags, std::uint8_t family, std::uint16_t about) {
    finishMessage();
    message_ = bytes_.size();
    nlmsghdr head{.nlmsg_len = 0,
                  .nlmsg_type = type,
                  .nlmsg_flags = static_cast<std::uint16_t>(NLM_F_REQUEST | flags),
                  .nlmsg_seq = ++sequence_,
                  .nlmsg_pid = 0};
    put(&head, sizeof head);
    nfgenmsg more{.nfgen_family = family, .version = NFNETLINK_V0, .res_id = htons(about)};
    put(&more, sizeof more);
  }
  void text(std::uint16_t type, std::string_view value) {
    attribute(type, std::string(value) + '\0');
  }
  void number(std::uint16_t type, std::uint32_t value) {
    std::uint32_t there = htonl(value);
    attribute(type, {reinterpret_cast<const char*>(&there), sizeof there});
  }
  void attribute(std::uint16_t type, std::string_view value) {
    nlattr head{.nla_len = static_cast<std::uint16_t>(sizeof(nlattr) + value.size()),
                .nla_type = type};
    put(&head, sizeof head);
    put(value.data(), value.size());
  }
  template <class Fill>
  void nested(std::uint16_t type, Fill fill) {
    std::size_t at = bytes_.size();
    nlattr head{.nla_len = 0, .nla_type = static_cast<std::uint16_t>(type | NLA_F_NESTED)};
    put(&head, sizeof head);
    fill();
    auto size = static_cast<std::uint16_t>(bytes_.size() - at);
    std::memcpy(bytes_.data() + at, &size, sizeof size);
  }
  template <class Fill>
  void expression(std::string_view name, Fill fill) {
    nested(NFTA_LIST_ELEM, [&] {
      text(NFTA_EXPR_NAME, name);
      nested(NFTA_EXPR_DATA, fill);
    });
  }
  void data(std::uint16_t type, std::string_view value) {
    nested(type, [&] { attribute(NFTA_DATA_VALUE, value); });
  }
  const std::string& finish() {
    finishMessage();
    return bytes_;
  }

 private:
  void put(const void* value, std::size_t size) {
    bytes_.append(static_cast<const char*>(value), size);
    bytes_.append((4 - bytes_.size() % 4) % 4, '\0');
  }
  void finishMessage() {
    if (message_ == bytes_.size()) return;
    auto size = static_cast<std::uint32_t>(bytes_.size() - message_);
    std::memcpy(bytes_.data() + message_, &size, sizeof size);
    message_ = bytes_.size();
  }

  std::string bytes_;
  std::size_t message_ = 0;
  std::uint32_t sequence_ = 0;
};

std::uint16_t typeOf(int message) {
  return static_cast<std::uint16_t>(NFNL_SUBSYS_NFTABLES << 8 | message);
}

// What `nft` would be told as
//   table ip cadre { chain services { type nat hook output priority -100;
//     meta l4proto tcp ip daddr NETWORK/BITS redirect to :PORT } }
std::string batchOf(in_addr network, unsigned prefix_bits, std::uint16_t port) {
  Messages out;
  auto bytesOf = [](const auto& value) {
    return std::string_view(reinterpret_cast<const char*>(&value), sizeof value);
  };
  std::uint32_t mask = htonl(prefix_bits == 0 ? 0 : ~0U << (32 - prefix_bits)), nothing = 0;
  std::uint16_t port_there = htons(port);
  const char tcp = IPPROTO_TCP;
  out.begin(NFNL_MSG_BATCH_BEGIN, 0, AF_UNSPEC, NFNL_SUBSYS_NFTABLES);
  out.begin(typeOf(NFT_MSG_NEWTABLE), NLM_F_CREATE, NFPROTO_IPV4, 0);
  out.text(NFTA_TABLE_NAME, kTable);
  out.begin(typeOf(NFT_MSG_NEWCHAIN), NLM_F_CREATE, NFPROTO_IPV4, 0);
  out.text(NFTA_CHAIN_TABLE, kTable);
  out.text(NFTA_CHAIN_NAME, kChain);
  out.nested(NFTA_CHAIN_HOOK, [&] {
    out.number(NFTA_HOOK_HOOKNUM, NF_INET_LOCAL_OUT);
    out.number(NFTA_HOOK_PRIORITY, static_cast<std::uint32_t>(kBeforeRouting));
  });
  out.text(NFTA_CHAIN_TYPE, "nat");
  out.begin(typeOf(NFT_MSG_NEWRULE), NLM_F_CREATE | NLM_F_APPEND | NLM_F_ACK, NFPROTO_IPV4, 0);
  out.text(NFTA_RULE_TABLE, kTable);
  out.text(NFTA_RULE_CHAIN, kChain);
  auto equals = [&](std::string_view value) {
    out.expression("cmp", [&] {
      out.number(NFTA_CMP_SREG, NFT_REG_1);
      out.number(NFTA_CMP_OP, NFT_CMP_EQ);
      out.data(NFTA_CMP_DATA, value);
    });
  };
  out.nested(NFTA_RULE_EXPRESSIONS, [&] {
    out.expression("meta", [&] {
      out.number(NFTA_META_KEY, kMetaProtocol);
      out.number(NFTA_META_DREG, NFT_REG_1);
    });
    equals(bytesOf(tcp));
    out.expression("payload", [&] {
      out.number(NFTA_PAYLOAD_DREG, NFT_REG_1);
      out.number(NFTA_PAYLOAD_BASE, NFT_PAYLOAD_NETWORK_HEADER);
      out.number(NFTA_PAYLOAD_OFFSET, kDestinationOffset);
      out.number(NFTA_PAYLOAD_LEN, sizeof(in_addr));
    });
    out.expression("bitwise", [&] {
      out.number(NFTA_BITWISE_SREG, NFT_REG_1);
      out.number(NFTA_BITWISE_DREG, NFT_REG_1);
      out.number(NFTA_BITWISE_LEN, sizeof(in_addr));
      out.data(NFTA_BITWISE_MASK, bytesOf(mask));
      out.data(NFTA_BITWISE_XOR, bytesOf(nothing));
    });
    equals(bytesOf(network.s_addr));
    out.expression("immediate", [&] {
      out.number(NFTA_IMMEDIATE_DREG, NFT_REG_1);
      out.data(NFTA_IMMEDIATE_DATA, bytesOf(port_there));
    });
    out.expression("redir", [&] { out.number(NFTA_REDIR_REG_PROTO_MIN, NFT_REG_1); });
  });
  out.begin(NFNL_MSG_BATCH_END, 0, AF_UNSPEC, NFNL_SUBSYS_NFTABLES);
  return out.finish();
}

// The system's answer comes with the call: either the last message is taken, or one of them fails.
Result<> answerOf(int socket) {
  char buffer[8192];
  ssize_t got = recv(socket, buffer, sizeof buffer, MSG_DONTWAIT);
  nlmsghdr head{};
  nlmsgerr said{};
  if (got < static_cast<ssize_t>(sizeof head + sizeof said.error))
    return Error{.code = Code::Unavailable, .message = "the system does not say whether it did"};
  std::memcpy(&head, buffer, sizeof head);
  std::memcpy(&said.error, buffer + sizeof head, sizeof said.error);
  if (head.nlmsg_type == NLMSG_ERROR && said.error == 0) return {};
  return Error{
      .code = said.error == -EPERM ? Code::Forbidden : Code::Unavailable,
      .message = format("connections cannot be redirected: {}", std::strerror(-said.error))};
}

}  // namespace

Result<> redirectConnections(const std::string& network, unsigned prefix_bits, std::uint16_t port) {
  in_addr address{};
  if (prefix_bits > 32 || inet_pton(AF_INET, network.c_str(), &address) != 1)
    return Error{.code = Code::InvalidArgument,
                 .message = format("{}/{} is no network", network, prefix_bits)};
  int socket = ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
  if (socket < 0)
    return Error{.code = Code::Unavailable,
                 .message = format("no netlink: {}", std::strerror(errno))};
  std::string batch = batchOf(address, prefix_bits, port);
  ssize_t sent = send(socket, batch.data(), batch.size(), 0);
  Result<> result = sent == static_cast<ssize_t>(batch.size())
                        ? answerOf(socket)
                        : Result<>(Error{.code = Code::Unavailable,
                                         .message = format("netlink: {}", std::strerror(errno))});
  close(socket);
  return result;
}

}  // namespace cadre::net
