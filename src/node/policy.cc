#include "node/policy.h"

#include <algorithm>
#include <set>

#include <arpa/inet.h>
#include <netinet/in.h>

#include "base/format.h"
#include "base/strings.h"
#include "kube/meta.h"
#include "kube/selector.h"
#include "node/pods.h"

namespace cadre::node {
namespace {

using json::Value;
using net::Traffic;

constexpr std::pair<std::string_view, std::uint8_t> kProtocols[] = {
    {"TCP", IPPROTO_TCP}, {"UDP", IPPROTO_UDP}, {"SCTP", IPPROTO_SCTP}};

std::uint8_t protocolOf(const Value& port) {
  for (const auto& [name, number] : kProtocols)
    if (port["protocol"].string() == name) return number;
  return IPPROTO_TCP;
}

std::string_view protocolName(std::uint8_t protocol) {
  for (const auto& [name, number] : kProtocols)
    if (number == protocol) return name;
  return "";
}

std::optional<std::uint32_t> addressOf(const std::string& text) {
  in_addr address{};
  if (inet_pton(AF_INET, text.c_str(), &address) != 1) return std::nullopt;
  return ntohl(address.s_addr);
}

std::string addressText(std::uint32_t address) {
  return format("{}.{}.{}.{}", address >> 24, address >> 16 & 255, address >> 8 & 255,
                address & 255);
}

// ---- Ranges of addresses

struct Range {
  std::uint32_t first = 0, last = 0xffffffff;
};
using Ranges = std::vector<Range>;

// Nothing, of what is no IPv4: there is no other traffic here.
Ranges rangeOf(const std::string& cidr) {
  auto [text, bits_text] = cut(cidr, "/");
  auto address = addressOf(std::string(text));
  auto bits = parseInt(bits_text);
  if (!address || !bits || *bits < 0 || *bits > 32) return {};
  std::uint32_t mask = *bits == 0 ? 0 : ~std::uint32_t{0} << (32 - *bits);
  return {{*address & mask, *address | ~mask}};
}

// The same addresses in as few ranges as there can be.
Ranges joined(Ranges ranges) {
  std::ranges::sort(ranges, std::less<>(), &Range::first);
  Ranges out;
  for (const Range& one : ranges)
    if (!out.empty() && (one.first == 0 || one.first - 1 <= out.back().last))
      out.back().last = std::max(out.back().last, one.last);
    else
      out.push_back(one);
  return out;
}

// All of the block but what it excepts.
Ranges blockOf(const Value& block) {
  Ranges whole = rangeOf(block["cidr"].string()), holes, out;
  if (whole.empty()) return {};
  for (const Value& except : block["except"].array())
    for (const Range& hole : rangeOf(except.string())) holes.push_back(hole);
  std::uint64_t next = whole[0].first, end = std::uint64_t{whole[0].last} + 1;
  auto addUntil = [&](std::uint64_t stop) {
    if (next < stop)
      out.push_back({static_cast<std::uint32_t>(next), static_cast<std::uint32_t>(stop - 1)});
  };
  for (const Range& hole : joined(std::move(holes))) {
    addUntil(std::min<std::uint64_t>(hole.first, end));
    next = std::max(next, std::uint64_t{hole.last} + 1);
  }
  addUntil(end);
  return out;
}

// ---- Pods

// An ended one has left its address to others.
std::optional<std::uint32_t> addressOf(const Value& pod) {
  if (isFinished(pod)) return std::nullopt;
  return addressOf(pod["status"]["podIP"].string());
}

std::vector<std::uint16_t> portsNamed(const Value& pod, std::string_view name,
                                      std::uint8_t protocol) {
  std::vector<std::uint16_t> out;
  for (std::string_view list : {"initContainers", "containers"})
    for (const Value& container : pod["spec"][list].array())
      for (const Value& port : container["ports"].array())
        if (port["name"].string() == name && protocolOf(port) == protocol)
          out.push_back(static_cast<std::uint16_t>(port["containerPort"].integer()));
  return out;
}

// What the API takes can be read; whatever else gets in selects as is said.
kube::LabelSelector selectorOf(const Value& selector, const kube::LabelSelector& otherwise) {
  auto read = kube::LabelSelector::fromObject(selector);
  return read ? *std::move(read) : otherwise;
}

const kube::LabelSelector& selectsNothing() {
  static const kube::LabelSelector kNothing = *kube::LabelSelector::parse("none,!none");
  return kNothing;
}

bool hasType(const Value& spec, std::string_view type) {
  const json::Array& types = spec["policyTypes"].array();
  if (!types.empty()) return std::ranges::find(types, Value(type)) != types.end();
  return type == "Ingress" || !spec["egress"].array().empty();
}

// ---- What policies say

// Each once, up to a limit.
struct Allowed {
  std::set<Traffic> entries;
  bool too_many = false;

  void add(const Traffic& one) {
    too_many |= entries.size() >= PolicyTable::kMost && !entries.contains(one);
    if (!too_many) entries.insert(one);
  }
};

struct PortName {
  std::string name;
  std::uint8_t protocol = 0;
};

struct Rule {
  Allowed allowed;
  // To these ports of the pod itself; others may have them under other numbers.
  std::vector<PortName> own_ports;
  Ranges peers;
};
using Rules = std::optional<std::vector<Rule>>;  // nothing: this direction is not isolated

}  // namespace

struct PolicyTable::One {
  std::string ns;
  kube::LabelSelector selector;
  Rules ingress, egress;
};

namespace {

class Reader {
 public:
  Reader(const std::vector<Value>& pods, const std::map<std::string, Value>& namespaces)
      : pods_(pods), namespaces_(namespaces) {}

  Rules ingressOf(const Value& policy) const {
    if (!hasType(policy["spec"], "Ingress")) return std::nullopt;
    std::vector<Rule> out;
    for (const Value& rule : policy["spec"]["ingress"].array())
      out.push_back(ingressRule(rule, kube::ns(policy)));
    return out;
  }

  Rules egressOf(const Value& policy) const {
    if (!hasType(policy["spec"], "Egress")) return std::nullopt;
    std::vector<Rule> out;
    for (const Value& rule : policy["spec"]["egress"].array())
      out.push_back(egressRule(rule, kube::ns(policy)));
    return out;
  }

 private:
  struct Peers {
    Ranges ranges;
    std::vector<const Value*> pods;  // those of them that are pods, for the names of their ports
  };

  Peers peersOf(const Value& list, std::string_view ns) const {
    Peers out;
    if (list.array().empty()) {
      out.ranges.emplace_back();
      for (const Value& pod : pods_)
        if (addressOf(pod)) out.pods.push_back(&pod);
    }
    for (const Value& peer : list.array()) {
      if (peer["ipBlock"].isObject())
        for (const Range& one : blockOf(peer["ipBlock"])) out.ranges.push_back(one);
      else
        addPods(out, peer, ns);
    }
    out.ranges = joined(std::move(out.ranges));
    return out;
  }

  // Without a selector of namespaces it is about the policy's own; without one of pods about all.
  void addPods(Peers& out, const Value& peer, std::string_view ns) const {
    const Value &of_pods = peer["podSelector"], &of_namespaces = peer["namespaceSelector"];
    if (of_pods.isNull() && of_namespaces.isNull()) return;
    kube::LabelSelector pods, namespaces;
    if (!of_pods.isNull()) pods = selectorOf(of_pods, selectsNothing());
    if (!of_namespaces.isNull()) namespaces = selectorOf(of_namespaces, selectsNothing());
    for (const Value& pod : pods_) {
      auto address = addressOf(pod);
      if (!address || !pods.matches(pod["metadata"]["labels"].object())) continue;
      auto there = namespaces_.find(std::string(kube::ns(pod)));
      if (of_namespaces.isNull()
              ? kube::ns(pod) != ns
              : there == namespaces_.end() || !namespaces.matches(there->second.object()))
        continue;
      out.ranges.push_back({*address, *address});
      out.pods.push_back(&pod);
    }
  }

  static void addAll(Rule& rule, const Ranges& peers) {
    for (const Range& one : peers)
      rule.allowed.add({.first_address = one.first, .last_address = one.last});
  }

  // A port by number, a range of them, or all of a protocol.
  static void addPort(Rule& rule, const Ranges& peers, const Value& port) {
    auto first = static_cast<std::uint16_t>(port["port"].integer());
    auto last = static_cast<std::uint16_t>(port["endPort"].integer(first));
    if (port["port"].isNull()) last = 0xffff;
    if (rule.allowed.too_many) return;
    for (const Range& one : peers)
      rule.allowed.add({one.first, one.last, protocolOf(port), first, last});
  }

  static void addNamedPort(Rule& rule, const std::vector<const Value*>& pods, const Value& port) {
    for (const Value* pod : pods)
      for (std::uint16_t number : portsNamed(*pod, port["port"].string(), protocolOf(port)))
        rule.allowed.add({*addressOf(*pod), *addressOf(*pod), protocolOf(port), number, number});
  }

  Rule ingressRule(const Value& rule, std::string_view ns) const {
    Rule out;
    out.peers = peersOf(rule["from"], ns).ranges;
    if (rule["ports"].array().empty()) addAll(out, out.peers);
    for (const Value& port : rule["ports"].array())
      if (port["port"].isString())
        out.own_ports.push_back({port["port"].string(), protocolOf(port)});
      else
        addPort(out, out.peers, port);
    return out;
  }

  Rule egressRule(const Value& rule, std::string_view ns) const {
    Rule out;
    Peers peers = peersOf(rule["to"], ns);
    if (rule["ports"].array().empty()) addAll(out, peers.ranges);
    for (const Value& port : rule["ports"].array())
      if (port["port"].isString())
        addNamedPort(out, peers.pods, port);
      else
        addPort(out, peers.ranges, port);
    return out;
  }

  const std::vector<Value>& pods_;
  const std::map<std::string, Value>& namespaces_;
};

void addRule(Allowed& out, const Rule& rule, const Value& pod) {
  for (const Traffic& one : rule.allowed.entries) out.add(one);
  out.too_many |= rule.allowed.too_many;
  for (const PortName& port : rule.own_ports)
    for (std::uint16_t number : portsNamed(pod, port.name, port.protocol))
      for (const Range& peer : rule.peers)
        out.add({peer.first, peer.last, port.protocol, number, number});
}

}  // namespace

PolicyTable::PolicyTable(const std::vector<Value>& policies, const std::vector<Value>& pods,
                         const std::map<std::string, Value>& namespaces) {
  Reader reader(pods, namespaces);
  std::vector<One> out;
  out.reserve(policies.size());
  for (const Value& policy : policies)
    out.push_back({.ns = std::string(kube::ns(policy)),
                   .selector = selectorOf(policy["spec"]["podSelector"], {}),
                   .ingress = reader.ingressOf(policy),
                   .egress = reader.egressOf(policy)});
  policies_ = std::make_shared<const std::vector<One>>(std::move(out));
}

Policy PolicyTable::of(const Value& pod) const {
  Policy out;
  if (!policies_) return out;
  auto add = [&](std::optional<std::vector<Traffic>>& direction, const Rules One::* rules,
                 std::string_view name) {
    Allowed allowed;
    for (const One& policy : *policies_) {
      if (!(policy.*rules) || policy.ns != kube::ns(pod) ||
          !policy.selector.matches(pod["metadata"]["labels"].object()))
        continue;
      direction.emplace();
      for (const Rule& rule : *(policy.*rules)) addRule(allowed, rule, pod);
    }
    if (!allowed.too_many && direction)
      direction->assign(allowed.entries.begin(), allowed.entries.end());
    if (allowed.too_many)
      out.trouble =
          format("all {} is dropped: more than {} addresses and ports are allowed", name, kMost);
  };
  add(out.ingress, &One::ingress, "ingress");
  add(out.egress, &One::egress, "egress");
  return out;
}

// ---- On the way to the sandbox

namespace {

Value listOf(const std::vector<Traffic>& allowed) {
  json::Array out;
  for (const Traffic& one : allowed)
    out.push_back(json::Object{{"first", addressText(one.first_address)},
                               {"last", addressText(one.last_address)},
                               {"protocol", protocolName(one.protocol)},
                               {"port", one.first_port},
                               {"endPort", one.last_port}});
  return out;
}

// Null is everything; what cannot be understood is nothing.
std::optional<std::vector<Traffic>> allowedOf(const Value& list) {
  if (list.isNull()) return std::nullopt;
  std::vector<Traffic> out;
  for (const Value& one : list.array()) {
    auto first = addressOf(one["first"].string()), last = addressOf(one["last"].string());
    if (!first || !last) continue;
    bool any = one["protocol"].string().empty();
    out.push_back({*first, *last, any ? std::uint8_t{0} : protocolOf(one),
                   static_cast<std::uint16_t>(one["port"].integer()),
                   static_cast<std::uint16_t>(one["endPort"].integer())});
  }
  return out;
}

}  // namespace

Value Policy::toJson() const {
  json::Object out;
  if (ingress) out.set("ingress", listOf(*ingress));
  if (egress) out.set("egress", listOf(*egress));
  return out;
}

Policy Policy::parse(const Value& value) {
  if (!value.isObject())
    return {.ingress = std::vector<Traffic>(), .egress = std::vector<Traffic>(), .trouble = {}};
  return {
      .ingress = allowedOf(value["ingress"]), .egress = allowedOf(value["egress"]), .trouble = {}};
}

}  // namespace cadre::node
