// What NetworkPolicies mean for one pod, as a table: pods and namespaces, policies, what is
// allowed.
#include "node/policy.h"

#include "base/format.h"
#include "json/write.h"
#include "json/yaml.h"
#include "kube/meta.h"

namespace cadre::node {
namespace {

using json::Value;

// `at` is an address, `ports` are of the pod's one container.
constexpr std::string_view kPods = R"(
- {name: web, ns: shop, labels: {app: web}, at: 10.0.0.1, ports: [{name: http, containerPort: 8080}, {name: dns, containerPort: 53, protocol: UDP}]}
- {name: api, ns: shop, labels: {app: api, tier: back}, at: 10.0.0.2, ports: [{name: http, containerPort: 9090, protocol: TCP}]}
- {name: db, ns: shop, labels: {app: db, tier: back}, at: 10.0.0.3}
- {name: ended, ns: shop, labels: {app: api}, at: 10.0.0.4, phase: Succeeded}
- {name: waits, ns: shop, labels: {app: api}}
- {name: web, ns: team, labels: {app: web}, at: 10.0.0.9, ports: [{name: http, containerPort: 80}]}
- {name: api, ns: team, labels: {app: api}, at: 10.0.0.7}
- {name: api, ns: lost, labels: {app: api}, at: 10.0.0.8}
)";
constexpr std::string_view kNamespaces = "{shop: {name: shop}, team: {name: team, kind: ours}}";

// Policies are specs in the namespace shop, or with `ns`; `of` is a pod there, web if none is said.
// A direction that is not expected is open.
constexpr std::string_view kCases = R"(
- {title: no policy}
- title: nobody is selected
  policies: [{podSelector: {matchLabels: {app: other}}}]
- title: a policy of another namespace
  policies: [{ns: team, podSelector: {}}]
- title: nothing is allowed in
  policies: [{podSelector: {}}]
  ingress: []
- title: nothing is allowed out, and nothing is said of what comes in
  policies: [{podSelector: {}, policyTypes: [Egress]}]
  egress: []
- title: the types follow from the rules
  policies: [{podSelector: {}, egress: [{}]}]
  ingress: []
  egress: [all]
- title: rules of a type that it does not have do not count
  policies: [{podSelector: {}, policyTypes: [Ingress], egress: [{}]}]
  ingress: []
- title: an empty rule is everything
  policies: [{podSelector: {matchLabels: {app: web}}, ingress: [{}]}]
  ingress: [all]
- title: everybody, at some ports
  policies: [{podSelector: {}, ingress: [{ports: [{port: 80}, {port: 53, protocol: UDP}, {port: 1000, endPort: 2000}, {protocol: SCTP}]}]}]
  ingress: [all TCP 80, all TCP 1000-2000, all UDP 53, all SCTP]
- title: pods of the same namespace
  policies: [{podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {app: api}}}]}]}]
  ingress: [10.0.0.2]
- title: all pods of the same namespace, also itself
  policies: [{podSelector: {}, ingress: [{from: [{podSelector: {}}]}]}]
  ingress: [10.0.0.1-10.0.0.3]
- title: pods of other namespaces
  policies: [{podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {kind: ours}}}]}]}]
  ingress: [10.0.0.7, 10.0.0.9]
- title: pods of all namespaces that there are
  policies: [{podSelector: {}, ingress: [{from: [{namespaceSelector: {}}]}]}]
  ingress: [10.0.0.1-10.0.0.3, 10.0.0.7, 10.0.0.9]
- title: some pods of other namespaces
  policies: [{podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {kind: ours}}, podSelector: {matchLabels: {app: api}}}]}]}]
  ingress: [10.0.0.7]
- title: one or the other
  policies: [{podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {kind: ours}}}, {podSelector: {matchLabels: {app: api}}}]}]}]
  ingress: [10.0.0.2, 10.0.0.7, 10.0.0.9]
- title: expressions
  policies: [{podSelector: {matchExpressions: [{key: app, operator: In, values: [web]}]}, ingress: [{from: [{podSelector: {matchExpressions: [{key: tier, operator: Exists}]}}]}]}]
  ingress: [10.0.0.2-10.0.0.3]
- title: nobody who is there
  policies: [{podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {app: other}}}]}]}]
  ingress: []
- title: what cannot be read selects nobody
  policies: [{podSelector: {}, ingress: [{from: [{podSelector: {matchExpressions: [{key: app, operator: Odd}]}}, {}]}]}]
  ingress: []
- title: a selector of pods that cannot be read is for all of them
  policies: [{podSelector: {matchExpressions: [{key: app, operator: Odd}]}}]
  ingress: []

- title: a block
  policies: [{podSelector: {}, policyTypes: [Egress], egress: [{to: [{ipBlock: {cidr: 10.1.2.3/16}}]}]}]
  egress: [10.1.0.0-10.1.255.255]
- title: a block with exceptions
  policies: [{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 0.0.0.0/0, except: [10.0.0.0/8, 0.0.0.0/32, 255.0.0.0/8]}}]}]}]
  ingress: [0.0.0.1-9.255.255.255, 11.0.0.0-254.255.255.255]
- title: exceptions within each other, beside each other, and of everything
  policies: [{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 10.0.0.0/24, except: [10.0.0.64/26, 10.0.0.64/32, 10.0.0.128/25]}}, {ipBlock: {cidr: 10.9.0.0/24, except: [10.9.0.0/24]}}]}]}]
  ingress: [10.0.0.0-10.0.0.63]
- title: blocks that touch are one
  policies: [{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 10.0.1.0/24}}, {ipBlock: {cidr: 10.0.0.0/24}}, {ipBlock: {cidr: 10.0.1.7/32}}]}]}]
  ingress: [10.0.0.0-10.0.1.255]
- title: the last address, and those before it
  policies: [{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 255.255.255.255/32}}, {ipBlock: {cidr: 255.255.255.254/32}}]}]}]
  ingress: [255.255.255.254-255.255.255.255]
- title: IPv6, and what is no block, is nobody
  policies: [{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: "2001:db8::/32"}}, {ipBlock: {cidr: 10.0.0.0}}, {ipBlock: {cidr: 10.0.0.0/33}}]}]}]
  ingress: []

- title: a port by its name is the pod's own
  policies: [{podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {tier: back}}}], ports: [{port: http}, {port: dns, protocol: UDP}]}]}]
  ingress: [10.0.0.2-10.0.0.3 TCP 8080, 10.0.0.2-10.0.0.3 UDP 53]
- title: another pod has it under another number
  of: api
  policies: [{podSelector: {}, ingress: [{ports: [{port: http}]}]}]
  ingress: [all TCP 9090]
- title: nobody has a port of that name and protocol
  policies: [{podSelector: {}, ingress: [{ports: [{port: dns}, {port: none}]}]}]
  ingress: []
- title: to a port by its name, which each has
  policies: [{podSelector: {}, policyTypes: [Egress], egress: [{to: [{podSelector: {}}, {namespaceSelector: {matchLabels: {kind: ours}}}], ports: [{port: http}]}]}]
  egress: [10.0.0.1 TCP 8080, 10.0.0.2 TCP 9090, 10.0.0.9 TCP 80]
- title: to a port by its name, whoever has it
  policies: [{podSelector: {}, policyTypes: [Egress], egress: [{ports: [{port: dns, protocol: UDP}, {port: 443}]}]}]
  egress: [all TCP 443, 10.0.0.1 UDP 53]
- title: a block knows no names of ports
  policies: [{podSelector: {}, policyTypes: [Egress], egress: [{to: [{ipBlock: {cidr: 10.0.0.0/8}}], ports: [{port: http}]}]}]
  egress: []

- title: what one of them allows is allowed
  policies:
    - {podSelector: {}}
    - {podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {matchLabels: {app: api}}}], ports: [{port: 80}]}, {from: [{podSelector: {matchLabels: {app: db}}}]}]}
    - {podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {matchLabels: {app: api}}}], ports: [{port: 80}]}], egress: [{ports: [{port: 53, protocol: UDP}]}]}
    - {podSelector: {matchLabels: {app: db}}, ingress: [{}]}
  ingress: [10.0.0.2 TCP 80, 10.0.0.3]
  egress: [all UDP 53]
)";

Value yaml(std::string_view text) { return json::parseYaml(text, "table", {})->at(0).value; }

Value podOf(const Value& one) {
  Value out = json::Object{
      {"metadata",
       json::Object{{"name", one["name"]}, {"namespace", one["ns"]}, {"labels", one["labels"]}}},
      {"spec", json::Object{{"containers", json::Array{json::Object{{"ports", one["ports"]}}}}}},
      {"status", json::Object{{"podIP", one["at"]}, {"phase", one["phase"]}}}};
  return out;
}

std::vector<Value> pods() {
  std::vector<Value> out;
  const Value list = yaml(kPods);
  for (const Value& one : list.array()) out.push_back(podOf(one));
  return out;
}

Value policyOf(Value spec) {
  Value ns = spec["ns"].isNull() ? Value("shop") : spec["ns"];
  spec.makeObject().erase("ns");
  return json::Object{{"metadata", json::Object{{"name", "p"}, {"namespace", ns}}},
                      {"spec", std::move(spec)}};
}

std::map<std::string, Value> namespaces() {
  std::map<std::string, Value> out;
  const Value list = yaml(kNamespaces);
  for (const auto& [name, labels] : list.object()) out[name] = labels;
  return out;
}

// "10.0.0.1-10.0.0.3 TCP 80", as the sandbox gets to know it.
Value shown(const Value& list) {
  if (list.isNull()) return "open";
  json::Array out;
  for (const Value& one : list.array()) {
    const std::string &first = one["first"].string(), &last = one["last"].string();
    std::string text = first == "0.0.0.0" && last == "255.255.255.255" ? "all" : first;
    if (text != "all" && first != last) text += "-" + last;
    std::int64_t port = one["port"].integer(), end = one["endPort"].integer();
    if (const std::string& protocol = one["protocol"].string(); !protocol.empty())
      text += " " + protocol;
    if (port != 0 || end != 65535)
      text += port == end ? format(" {}", port) : format(" {}-{}", port, end);
    out.emplace_back(std::move(text));
  }
  return out;
}

TEST(Policy, IsWhatPoliciesSay) {
  const std::vector<Value> all = pods();
  const Value rows = yaml(kCases);
  for (const Value& row : rows.array()) {
    SCOPED_TRACE(row["title"].string());
    std::vector<Value> policies;
    for (const Value& spec : row["policies"].array()) policies.push_back(policyOf(spec));
    std::string name = row["of"].isNull() ? "web" : row["of"].string();
    auto pod = std::ranges::find_if(
        all, [&](const Value& one) { return kube::name(one) == name && kube::ns(one) == "shop"; });
    Policy policy = PolicyTable(policies, all, namespaces()).of(*pod);
    EXPECT_EQ(policy.trouble, "");
    EXPECT_EQ(Policy::parse(policy.toJson()), policy);
    for (const char* direction : {"ingress", "egress"}) {
      Value expected = row[direction].isNull() ? Value("open") : row[direction];
      EXPECT_EQ(json::write(shown(policy.toJson()[direction])), json::write(expected)) << direction;
    }
  }
}

// More than can be kept: closed, and told; the other direction is not touched.
TEST(Policy, HasALimit) {
  auto table = [](std::size_t blocks, std::size_t ports) {
    json::Array from, numbers;
    for (std::size_t i = 0; i < blocks; ++i)
      from.push_back(json::Object{
          {"ipBlock", json::Object{{"cidr", format("10.{}.{}.1/32", i / 256, i % 256)}}}});
    for (std::size_t i = 0; i < ports; ++i) numbers.push_back(json::Object{{"port", 1 + i}});
    Value rule = json::Object{{"from", std::move(from)}, {"ports", std::move(numbers)}};
    Value spec = json::Object{{"podSelector", json::Object()},
                              {"policyTypes", json::Array{"Ingress", "Egress"}},
                              {"ingress", json::Array{rule, rule}},
                              {"egress", json::Array{json::Object()}}};
    return PolicyTable({policyOf(spec)}, {}, {});
  };
  const Value pod = pods()[0];
  Policy most = table(100, 100).of(pod);
  EXPECT_EQ(most.ingress->size(), PolicyTable::kMost);
  EXPECT_EQ(most.trouble, "");
  for (auto [blocks, ports] : {std::pair{101, 100}, {40'000, 40'000}}) {
    Policy more = table(blocks, ports).of(pod);
    EXPECT_TRUE(more.ingress && more.ingress->empty());
    EXPECT_EQ(more.egress->size(), 1);
    EXPECT_EQ(more.trouble,
              "all ingress is dropped: more than 10000 addresses and ports are allowed");
  }
}

TEST(Policy, WhatIsNoPolicyClosesAll) {
  for (const Value& value : {Value(), Value("text"), Value(json::Array())}) {
    Policy policy = Policy::parse(value);
    EXPECT_TRUE(policy.ingress && policy.ingress->empty() && policy.egress &&
                policy.egress->empty());
  }
  EXPECT_EQ(Policy::parse(json::Object()), Policy());
  Policy odd = Policy::parse(
      json::Object{{"ingress", 7}, {"egress", json::Array{json::Object{{"first", "x"}}}}});
  EXPECT_TRUE(odd.ingress->empty() && odd.egress->empty());
}

}  // namespace
}  // namespace cadre::node
