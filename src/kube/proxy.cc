#include "kube/proxy.h"

#include <algorithm>
#include <array>

#include <arpa/inet.h>

#include "base/format.h"
#include "base/strings.h"

namespace cadre::kube {

namespace {

using Address = std::array<unsigned char, 16>;  // IPv4 as ::ffff:a.b.c.d

std::optional<Address> parseAddress(std::string_view text) {
  std::string copy(text);
  Address address{};
  if (inet_pton(AF_INET6, copy.c_str(), address.data()) == 1) return address;
  address[10] = address[11] = 0xff;
  if (inet_pton(AF_INET, copy.c_str(), address.data() + 12) == 1) return address;
  return std::nullopt;
}

bool isV4(const Address& address) {
  return std::all_of(address.begin(), address.begin() + 10, [](auto byte) { return byte == 0; }) &&
         address[10] == 0xff && address[11] == 0xff;
}

bool isLoopback(const Address& address) {
  return isV4(address) ? address[12] == 127 : address == parseAddress("::1");
}

struct Network {
  Address base;
  std::size_t bits;  // of the 128

  static std::optional<Network> parse(std::string_view text) {
    auto [where, length] = cut(text, "/");
    auto base = parseAddress(where);
    auto bits = parseInt(length);
    bool v4 = where.find(':') == std::string_view::npos;
    if (!base || !bits || *bits < 0 || *bits > (v4 ? 32 : 128)) return std::nullopt;
    return Network{*base, static_cast<std::size_t>(*bits) + (v4 ? 96 : 0)};
  }
  bool contains(const Address& address) const {
    if (isV4(base) != isV4(address)) return false;
    for (std::size_t bit = 0; bit < bits; ++bit)
      if ((base[bit / 8] ^ address[bit / 8]) & (0x80 >> bit % 8)) return false;
    return true;
  }
};

// "host:port" and "[::1]:port" apart; without a port all of it is the host, as in "::1".
std::pair<std::string_view, std::string_view> splitPort(std::string_view text) {
  std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return {text, ""};
  std::string_view host = text.substr(0, colon), port = text.substr(colon + 1);
  if (host.starts_with('[') && host.ends_with(']')) return {host.substr(1, host.size() - 2), port};
  if (host.find(':') != std::string_view::npos) return {text, ""};
  return {host, port};
}

// Whether one entry of NO_PROXY is about this host and port.
bool isAbout(std::string_view entry, const std::string& host, const std::optional<Address>& address,
             const std::string& port) {
  if (entry == "*") return true;
  if (auto network = Network::parse(entry)) return address && network->contains(*address);
  auto [name, only_port] = splitPort(entry);
  if (name.empty() || (!only_port.empty() && only_port != port)) return false;
  if (auto same = parseAddress(name)) return address == same;
  if (name.starts_with("*.")) name.remove_prefix(1);
  if (name.starts_with('.')) return host.ends_with(name);
  return host == name || host.ends_with(format(".{}", name));
}

bool isDirect(const net::Url& server, std::string_view no_proxy) {
  std::string host = lower(server.host);
  auto address = parseAddress(host);
  if (host == "localhost" || (address && isLoopback(*address))) return true;
  for (std::string_view entry : split(no_proxy, ','))
    if (isAbout(lower(trim(entry)), host, address, std::to_string(server.port))) return true;
  return false;
}

}  // namespace

Result<std::optional<EnvironmentProxy>> proxyFromEnvironment(
    const net::Url& server, const std::map<std::string, std::string>& env) {
  // The first of two spellings that is not empty.
  auto find = [&](std::string large) -> std::pair<std::string, std::string> {
    for (const std::string& name : {large, lower(large)})
      if (auto found = env.find(name); found != env.end() && !found->second.empty()) return *found;
    return {};
  };
  auto [variable, value] = find(server.scheme == "https" ? "HTTPS_PROXY" : "HTTP_PROXY");
  if (value.empty() || isDirect(server, find("NO_PROXY").second))
    return std::optional<EnvironmentProxy>();
  bool has_scheme = value.find("://") != std::string::npos;
  auto url = net::Url::parse(has_scheme ? value : "http://" + value);
  auto refuse = [&](Code code, std::string_view why) {
    return Error{.code = code,
                 .message = format("{} {}; write it as http://proxy:3128, unset it, or add {} to "
                                   "NO_PROXY",
                                   variable, why, server.host)};
  };
  // What it holds is not shown: there may be a password in it.
  if (!url) return refuse(Code::InvalidArgument, "is no URL");
  if (url->scheme != "http")
    return refuse(Code::Unimplemented,
                  format("names a proxy with the scheme {}, and only http:// ones are spoken to",
                         shorten(url->scheme, 20)));
  return std::optional(EnvironmentProxy{*std::move(url), std::move(variable)});
}

}  // namespace cadre::kube
