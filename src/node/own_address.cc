#include "node/own_address.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <iterator>

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <linux/sock_diag.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "base/format.h"
#include "base/strings.h"

namespace cadre::node {
namespace {

#if defined(__x86_64__)
constexpr unsigned kMachine = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr unsigned kMachine = AUDIT_ARCH_AARCH64;
#else
constexpr unsigned kMachine = 0;  // nothing is asked about
#endif
constexpr std::uint8_t kListens = 10;  // TCP_LISTEN, which headers of the kernel do not have

// Asks about bind and connect, and about nothing else.
int install() {
  auto load = [](std::size_t offset) {
    return sock_filter{BPF_LD | BPF_W | BPF_ABS, 0, 0, static_cast<unsigned>(offset)};
  };
  auto is = [](unsigned value, std::uint8_t yes, std::uint8_t no) {
    return sock_filter{BPF_JMP | BPF_JEQ | BPF_K, yes, no, value};
  };
  auto answer = [](unsigned action) { return sock_filter{BPF_RET | BPF_K, 0, 0, action}; };
  sock_filter filter[] = {load(offsetof(seccomp_data, arch)),
                          is(kMachine, 0, 3),
                          load(offsetof(seccomp_data, nr)),
                          is(SYS_bind, 2, 0),
                          is(SYS_connect, 1, 0),
                          answer(SECCOMP_RET_ALLOW),
                          answer(SECCOMP_RET_USER_NOTIF)};
  sock_fprog program{std::size(filter), filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return -1;
  // Signals wait until we have answered: else a bind that they interrupt happens twice.
  for (unsigned flags : {SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV,
                         SECCOMP_FILTER_FLAG_NEW_LISTENER})
    if (long made = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program); made >= 0)
      return static_cast<int>(made);
  return -1;
}

bool isMapped(const in6_addr& address) { return IN6_IS_ADDR_V4MAPPED(&address); }

// Both families as one: IPv4 is within IPv6.
sockaddr_in6 mapped(in_addr address, in_port_t port) {
  sockaddr_in6 out{.sin6_family = AF_INET6, .sin6_port = port};
  out.sin6_addr.s6_addr[10] = out.sin6_addr.s6_addr[11] = 0xff;
  std::memcpy(&out.sin6_addr.s6_addr[12], &address, sizeof address);
  return out;
}

in_addr inner(const in6_addr& address) {
  in_addr out{};
  std::memcpy(&out, &address.s6_addr[12], sizeof out);
  return out;
}

bool isEvery(const sockaddr_in6& to) {
  return isMapped(to.sin6_addr) ? inner(to.sin6_addr).s_addr == htonl(INADDR_ANY)
                                : IN6_IS_ADDR_UNSPECIFIED(&to.sin6_addr);
}

bool isLocalhost(const sockaddr_in6& to) {
  return isMapped(to.sin6_addr) ? inner(to.sin6_addr).s_addr == htonl(INADDR_LOOPBACK)
                                : IN6_IS_ADDR_LOOPBACK(&to.sin6_addr);
}

iovec placeOf(std::uint64_t place, std::size_t size) {
  return {reinterpret_cast<void*>(place), size};  // NOLINT: it is in another process
}

std::optional<sockaddr_in6> readAddress(int process, std::uint64_t place, std::uint64_t size) {
  sockaddr_in6 out{};
  iovec here{&out, std::min<std::size_t>(size, sizeof out)};
  iovec there = placeOf(place, here.iov_len);
  ssize_t got = process_vm_readv(process, &here, 1, &there, 1, 0);
  if (got < static_cast<ssize_t>(sizeof(sockaddr_in))) return std::nullopt;
  if (out.sin6_family == AF_INET6 && got == sizeof out) return out;
  if (out.sin6_family != AF_INET) return std::nullopt;
  sockaddr_in four{};
  std::memcpy(&four, &out, sizeof four);
  return mapped(four.sin_addr, four.sin_port);
}

int option(int socket, int level, int name) {
  int value = -1;
  socklen_t size = sizeof value;
  return getsockopt(socket, level, name, &value, &size) == 0 ? value : -1;
}

bool isTaken(int type) { return type == SOCK_STREAM || type == SOCK_DGRAM; }

int pidfdOf(int process) { return static_cast<int>(syscall(SYS_pidfd_open, process, 0)); }

}  // namespace

OwnAddress::OwnAddress(const std::string& address) {
  int pair[2];
  if (inet_pton(AF_INET, address.c_str(), &address_) != 1 || kMachine == 0 ||
      socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
    return;
  ours_ = Descriptor(pair[0]);
  theirs_ = Descriptor(pair[1]);
  processes_ = Descriptor(open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC));
}

void OwnAddress::begin() {
  if (!theirs_) return;
  int listener = install();
  char byte = 0;
  iovec piece{&byte, 1};
  alignas(cmsghdr) char space[CMSG_SPACE(sizeof listener)] = {};
  msghdr message{.msg_iov = &piece, .msg_iovlen = 1};
  if (listener >= 0) {
    message.msg_control = space;
    message.msg_controllen = sizeof space;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    *header = {
        .cmsg_len = CMSG_LEN(sizeof listener), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    std::memcpy(CMSG_DATA(header), &listener, sizeof listener);
  }
  (void)!sendmsg(theirs_.get(), &message, 0);
  if (listener >= 0) ::close(listener);
}

void OwnAddress::listen() {
  theirs_.close();
  if (!ours_) return;
  char byte = 0;
  iovec piece{&byte, 1};
  int listener = -1;
  alignas(cmsghdr) char space[CMSG_SPACE(sizeof listener)] = {};
  msghdr message{
      .msg_iov = &piece, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
  while (recvmsg(ours_.get(), &message, MSG_CMSG_CLOEXEC) < 0 && errno == EINTR) {
  }
  ours_.close();
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (!header || header->cmsg_type != SCM_RIGHTS) return;
  std::memcpy(&listener, CMSG_DATA(header), sizeof listener);
  asked_ = Descriptor(listener);
}

void OwnAddress::answer(int found) {
  if ((found & POLLIN) == 0) return asked_.close();  // nobody is left; older kernels would wait
  seccomp_notif asked{};
  if (ioctl(asked_.get(), SECCOMP_IOCTL_NOTIF_RECV, &asked) != 0) {
    if (errno != EINTR && errno != ENOENT) asked_.close();
    return;
  }
  const int process = static_cast<int>(asked.pid);
  const auto& args = asked.data.args;
  auto to = readAddress(process, args[1], args[2]);
  // What was read is of the one who asks only as long as he waits.
  bool waits = ioctl(asked_.get(), SECCOMP_IOCTL_NOTIF_ID_VALID, &asked.id) == 0;
  std::optional<int> done;
  if (waits && to && to->sin6_port != 0) {
    if (asked.data.nr == SYS_bind && (isEvery(*to) || isLocalhost(*to)))
      done = bind(process, static_cast<int>(args[0]), *to);
    if (asked.data.nr == SYS_connect && isLocalhost(*to))
      redirect(process, static_cast<int>(args[0]), *to, args[1]);
  }
  seccomp_notif_resp out{.id = asked.id};
  if (done)
    out.error = -*done;
  else
    out.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
  (void)ioctl(asked_.get(), SECCOMP_IOCTL_NOTIF_SEND, &out);
}

std::optional<int> OwnAddress::bind(int process, int number, const sockaddr_in6& to) const {
  Descriptor socket = socketOf(process, number);
  if (!socket || !isTaken(option(socket.get(), SOL_SOCKET, SO_TYPE))) return std::nullopt;
  sockaddr_in four{.sin_family = AF_INET, .sin_port = to.sin6_port, .sin_addr = address_};
  sockaddr_in6 six = mapped(address_, to.sin6_port);
  const bool is_six = option(socket.get(), SOL_SOCKET, SO_DOMAIN) == AF_INET6;
  // No pod has an address of IPv6: who wants nothing else is where nobody comes.
  if (is_six && option(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY) == 1)
    six = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
  int bound = is_six ? ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&six), sizeof six)
                     : ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&four), sizeof four);
  return bound == 0 ? 0 : errno;
}

// A connect may take its time, which is not ours: the process goes on with it, to another address.
void OwnAddress::redirect(int process, int number, const sockaddr_in6& to,
                          std::uint64_t place) const {
  Descriptor socket = socketOf(process, number);
  if (!socket || option(socket.get(), SOL_SOCKET, SO_TYPE) != SOCK_STREAM ||
      !isListening(to.sin6_port))
    return;
  sockaddr_in four{.sin_family = AF_INET, .sin_port = to.sin6_port, .sin_addr = address_};
  sockaddr_in6 six = mapped(address_, to.sin6_port);
  const bool is_six = option(socket.get(), SOL_SOCKET, SO_DOMAIN) == AF_INET6;
  int off = 0;
  if (is_six) setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  iovec here = is_six ? iovec{&six, sizeof six} : iovec{&four, sizeof four};
  iovec there = placeOf(place, here.iov_len);
  (void)!process_vm_writev(process, &here, 1, &there, 1, 0);
}

// Who asks is a thread, and files are of its process.
Descriptor OwnAddress::socketOf(int process, int number) const {
  Descriptor whole(pidfdOf(process));
  if (!whole) {
    Descriptor file(
        openat(processes_.get(), format("{}/status", process).c_str(), O_RDONLY | O_CLOEXEC));
    char text[4096] = {};
    if (!file || read(file.get(), text, sizeof text - 1) <= 0) return Descriptor();
    std::string_view leader = cut(cut(text, "\nTgid:").second, "\n").first;
    whole = Descriptor(pidfdOf(static_cast<int>(parseInt(trim(leader)).value_or(0))));
  }
  return Descriptor(static_cast<int>(syscall(SYS_pidfd_getfd, whole.get(), number, 0)));
}

bool OwnAddress::isListening(std::uint16_t port) const {
  Descriptor kernel(::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  struct {
    nlmsghdr header;
    inet_diag_req_v2 request;
  } question{};
  question.header = {.nlmsg_len = sizeof question,
                     .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                     .nlmsg_flags = NLM_F_REQUEST};
  question.request.sdiag_family = AF_INET;
  question.request.sdiag_protocol = IPPROTO_TCP;
  question.request.idiag_states = 1u << kListens;
  question.request.id.idiag_sport = port;
  question.request.id.idiag_src[0] = address_.s_addr;
  question.request.id.idiag_cookie[0] = question.request.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  alignas(nlmsghdr) char text[1024] = {};
  if (!kernel || send(kernel.get(), &question, sizeof question, 0) < 0) return false;
  ssize_t got = recv(kernel.get(), text, sizeof text, 0);
  if (got < static_cast<ssize_t>(sizeof(nlmsghdr) + sizeof(inet_diag_msg))) return false;
  nlmsghdr header;
  inet_diag_msg found;
  std::memcpy(&header, text, sizeof header);
  std::memcpy(&found, text + sizeof header, sizeof found);
  if (header.nlmsg_type != SOCK_DIAG_BY_FAMILY || found.idiag_state != kListens) return false;
  // Whoever listens at every address is not of this pod.
  in_addr_t at = found.idiag_family == AF_INET6 ? found.id.idiag_src[3] : found.id.idiag_src[0];
  return at == address_.s_addr;
}

}  // namespace cadre::node
