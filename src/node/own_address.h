#pragma once

#include <optional>
#include <string>

#include <netinet/in.h>

#include "base/descriptor.h"

namespace cadre::node {

// Pods that are processes share this machine's network, and each has an address of its own on the
// loopback. A program that binds every address, or localhost, gets its pod's address instead; and
// what it connects to at localhost is its own pod's, if that listens there. So pods do not meet
// each other's ports, nor does the outside. The kernel asks us about each bind and connect
// (seccomp's user notification); what is asked in the way of no pod is left to it.
class OwnAddress {
 public:
  // Empty, or where the kernel does not ask: programs bind what they say.
  explicit OwnAddress(const std::string& address);

  // In the new process, before it becomes another program; all that come of it are asked about.
  void begin();
  // In its parent, at the same time.
  void listen();

  // To be polled; -1 when there is nobody to ask about. `found`: what poll says of it.
  int descriptor() const { return asked_.get(); }
  void answer(int found);

 private:
  // Nothing: as if nobody had asked. Else 0 or what is wrong.
  std::optional<int> bind(int process, int number, const sockaddr_in6& to) const;
  void redirect(int process, int number, const sockaddr_in6& to, std::uint64_t place) const;
  Descriptor socketOf(int process, int number) const;
  bool isListening(std::uint16_t port) const;

  in_addr address_{};
  Descriptor processes_, ours_, theirs_, asked_;
};

}  // namespace cadre::node
