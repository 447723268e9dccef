#include "net/nftables.h"

#include <cerrno>
#include <cstring>

#include <arpa/inet.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <sys/socket.h>

#include "base/descriptor.h"
#include "base/format.h"

namespace cadre::net {
namespace {

std::uint16_t typeOf(int message) {
  return static_cast<std::uint16_t>(NFNL_SUBSYS_NFTABLES << 8 | message);
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
  return Error{.code = said.error == -EPERM ? Code::Forbidden : Code::Unavailable,
               .message = format("nftables: {}", std::strerror(-said.error))};
}

}  // namespace

const std::uint16_t Nftables::kRuleExpressions = NFTA_RULE_EXPRESSIONS;

Nftables::Nftables(std::uint8_t family, std::string table)
    : family_(family), table_(std::move(table)) {
  begin(NFNL_MSG_BATCH_BEGIN, 0, AF_UNSPEC, NFNL_SUBSYS_NFTABLES);
}

// ---- Tables, chains, rules

void Nftables::addTable() {
  beginChange(NFT_MSG_NEWTABLE, NLM_F_CREATE);
  text(NFTA_TABLE_NAME, table_);
}

void Nftables::removeTable() {
  beginChange(NFT_MSG_DELTABLE, 0);
  text(NFTA_TABLE_NAME, table_);
}

void Nftables::addChain(const Chain& chain) {
  beginChange(NFT_MSG_NEWCHAIN, NLM_F_CREATE);
  text(NFTA_CHAIN_TABLE, table_);
  text(NFTA_CHAIN_NAME, chain.name);
  nested(NFTA_CHAIN_HOOK, [&] {
    number(NFTA_HOOK_HOOKNUM, chain.hook);
    number(NFTA_HOOK_PRIORITY, static_cast<std::uint32_t>(chain.priority));
  });
  number(NFTA_CHAIN_POLICY, chain.otherwise);
  text(NFTA_CHAIN_TYPE, chain.type);
}

void Nftables::beginRule(std::string_view chain) {
  beginChange(NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND);
  text(NFTA_RULE_TABLE, table_);
  text(NFTA_RULE_CHAIN, chain);
}

// ---- Expressions

void Nftables::loadMeta(std::uint32_t key) {
  expression("meta", [&] {
    number(NFTA_META_KEY, key);
    number(NFTA_META_DREG, NFT_REG_1);
  });
}

void Nftables::loadNetworkHeader(std::uint32_t offset, std::uint32_t size) {
  loadPayload(NFT_PAYLOAD_NETWORK_HEADER, offset, size);
}

void Nftables::loadTransportHeader(std::uint32_t offset, std::uint32_t size) {
  loadPayload(NFT_PAYLOAD_TRANSPORT_HEADER, offset, size);
}

void Nftables::loadPayload(std::uint32_t base, std::uint32_t offset, std::uint32_t size) {
  expression("payload", [&] {
    number(NFTA_PAYLOAD_DREG, NFT_REG_1);
    number(NFTA_PAYLOAD_BASE, base);
    number(NFTA_PAYLOAD_OFFSET, offset);
    number(NFTA_PAYLOAD_LEN, size);
  });
}

void Nftables::loadConnectionState() {
  expression("ct", [&] {
    number(NFTA_CT_DREG, NFT_REG_1);
    number(NFTA_CT_KEY, NFT_CT_STATE);
  });
}

void Nftables::load(std::string_view value) {
  expression("immediate", [&] {
    number(NFTA_IMMEDIATE_DREG, NFT_REG_1);
    data(NFTA_IMMEDIATE_DATA, value);
  });
}

void Nftables::mask(std::string_view bits) {
  expression("bitwise", [&] {
    number(NFTA_BITWISE_SREG, NFT_REG_1);
    number(NFTA_BITWISE_DREG, NFT_REG_1);
    number(NFTA_BITWISE_LEN, static_cast<std::uint32_t>(bits.size()));
    data(NFTA_BITWISE_MASK, bits);
    data(NFTA_BITWISE_XOR, std::string(bits.size(), '\0'));
  });
}

void Nftables::equals(std::string_view value) { compare(NFT_CMP_EQ, value); }

void Nftables::differs(std::string_view value) { compare(NFT_CMP_NEQ, value); }

void Nftables::compare(std::uint32_t how, std::string_view value) {
  expression("cmp", [&] {
    number(NFTA_CMP_SREG, NFT_REG_1);
    number(NFTA_CMP_OP, how);
    data(NFTA_CMP_DATA, value);
  });
}

void Nftables::isWithin(std::string_view first, std::string_view last) {
  expression("range", [&] {
    number(NFTA_RANGE_SREG, NFT_REG_1);
    number(NFTA_RANGE_OP, NFT_RANGE_EQ);
    data(NFTA_RANGE_FROM_DATA, first);
    data(NFTA_RANGE_TO_DATA, last);
  });
}

void Nftables::accept() {
  expression("immediate", [&] {
    number(NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
    nested(NFTA_IMMEDIATE_DATA,
           [&] { nested(NFTA_DATA_VERDICT, [&] { number(NFTA_VERDICT_CODE, NF_ACCEPT); }); });
  });
}

void Nftables::redirect() {
  expression("redir", [&] { number(NFTA_REDIR_REG_PROTO_MIN, NFT_REG_1); });
}

// ---- Bytes

void Nftables::begin(std::uint16_t type, std::uint16_t flags, std::uint8_t family,
                     std::uint16_t about) {
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

void Nftables::beginChange(int message, std::uint16_t flags) {
  begin(typeOf(message), flags, family_, 0);
}

void Nftables::finishMessage() {
  auto size = static_cast<std::uint32_t>(bytes_.size() - message_);
  if (size > 0) std::memcpy(bytes_.data() + message_, &size, sizeof size);
}

void Nftables::put(const void* value, std::size_t size) {
  bytes_.append(static_cast<const char*>(value), size);
  bytes_.append((4 - bytes_.size() % 4) % 4, '\0');
}

void Nftables::attribute(std::uint16_t type, std::string_view value) {
  nlattr head{.nla_len = static_cast<std::uint16_t>(sizeof(nlattr) + value.size()),
              .nla_type = type};
  put(&head, sizeof head);
  put(value.data(), value.size());
}

void Nftables::text(std::uint16_t type, std::string_view value) {
  attribute(type, std::string(value) + '\0');
}

void Nftables::number(std::uint16_t type, std::uint32_t value) {
  attribute(type, bytesOf(htonl(value)));
}

void Nftables::data(std::uint16_t type, std::string_view value) {
  nested(type, [&] { attribute(NFTA_DATA_VALUE, value); });
}

template <class Fill>
void Nftables::expression(std::string_view name, Fill fill) {
  nested(NFTA_LIST_ELEM, [&] {
    text(NFTA_EXPR_NAME, name);
    nested(NFTA_EXPR_DATA, fill);
  });
}

std::size_t Nftables::beginNested(std::uint16_t type) {
  std::size_t at = bytes_.size();
  nlattr head{.nla_len = 0, .nla_type = static_cast<std::uint16_t>(type | NLA_F_NESTED)};
  put(&head, sizeof head);
  return at;
}

void Nftables::endNested(std::size_t at) {
  auto size = static_cast<std::uint16_t>(bytes_.size() - at);
  std::memcpy(bytes_.data() + at, &size, sizeof size);
}

Result<> Nftables::commit() {
  // Only the last change is answered where all goes well.
  nlmsghdr last{};
  std::memcpy(&last, bytes_.data() + message_, sizeof last);
  last.nlmsg_flags |= NLM_F_ACK;
  std::memcpy(bytes_.data() + message_, &last, sizeof last);
  begin(NFNL_MSG_BATCH_END, 0, AF_UNSPEC, NFNL_SUBSYS_NFTABLES);
  finishMessage();
  auto failed = [] {
    return Error{.code = Code::Unavailable, .message = format("netlink: {}", std::strerror(errno))};
  };
  Descriptor socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER));
  if (!socket) return failed();
  // It must all fit into one call. In a user namespace the system allows less.
  int room = static_cast<int>(bytes_.size()) + 4096;
  if (setsockopt(socket.get(), SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof room) != 0)
    setsockopt(socket.get(), SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
  if (send(socket.get(), bytes_.data(), bytes_.size(), 0) != static_cast<ssize_t>(bytes_.size()))
    return failed();
  return answerOf(socket.get());
}

}  // namespace cadre::net
