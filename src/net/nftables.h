#pragma once

// Private to `net`: what the kernel's nftables are told, without a library.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace cadre::net {

// Changes to one table of this network namespace, which happen all at once or not at all. A rule
// is a row of expressions that work on one register: it goes on while they hold.
class Nftables {
 public:
  Nftables(std::uint8_t family, std::string table);

  // The table, if there is none; or it goes, with all that is in it: it must be there.
  void addTable();
  void removeTable();

  struct Chain {
    std::string_view name, type;
    std::uint32_t hook = 0;
    std::int32_t priority = 0;
    std::uint32_t otherwise = 1;  // NF_ACCEPT or NF_DROP, where no rule says
  };
  void addChain(const Chain& chain);

  // `fill` adds its expressions.
  template <class Fill>
  void addRule(std::string_view chain, Fill fill) {
    beginRule(chain);
    nested(kRuleExpressions, fill);
  }
  // Into the register.
  void loadMeta(std::uint32_t key);
  void loadNetworkHeader(std::uint32_t offset, std::uint32_t size);
  void loadTransportHeader(std::uint32_t offset, std::uint32_t size);
  void loadConnectionState();
  void load(std::string_view value);
  void mask(std::string_view bits);
  // What is in it must be so.
  void equals(std::string_view value);
  void differs(std::string_view value);
  void isWithin(std::string_view first, std::string_view last);
  // How it ends.
  void accept();
  void redirect();  // to the port of this machine that is in the register

  // Forbidden without CAP_NET_ADMIN, Unavailable where the kernel cannot.
  Result<> commit();

 private:
  static const std::uint16_t kRuleExpressions;

  void begin(std::uint16_t type, std::uint16_t flags, std::uint8_t family, std::uint16_t about);
  void beginChange(int message, std::uint16_t flags);
  void beginRule(std::string_view chain);
  void finishMessage();
  void put(const void* value, std::size_t size);
  void attribute(std::uint16_t type, std::string_view value);
  void text(std::uint16_t type, std::string_view value);
  void number(std::uint16_t type, std::uint32_t value);  // in network order, as all numbers
  void data(std::uint16_t type, std::string_view value);
  void compare(std::uint32_t how, std::string_view value);
  void loadPayload(std::uint32_t base, std::uint32_t offset, std::uint32_t size);
  std::size_t beginNested(std::uint16_t type);
  void endNested(std::size_t at);
  template <class Fill>
  void nested(std::uint16_t type, Fill fill) {
    std::size_t at = beginNested(type);
    fill();
    endNested(at);
  }
  template <class Fill>
  void expression(std::string_view name, Fill fill);

  const std::uint8_t family_;
  const std::string table_;
  std::string bytes_;  // messages of netlink, one after the other
  std::size_t message_ = 0;
  std::uint32_t sequence_ = 0;
};

// As it is in memory.
template <class T>
std::string_view bytesOf(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

}  // namespace cadre::net
