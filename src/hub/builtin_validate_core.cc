// The rules for everything that is neither a Pod, makes Pods nor stores what they keep.
#include <algorithm>
#include <map>
#include <set>

#include "base/format.h"
#include "base/strings.h"
#include "hub/builtin_rules.h"
#include "json/parse.h"
#include "json/write.h"
#include "kube/quantity.h"

namespace cadre::hub {

namespace {

using json::Value;

constexpr std::size_t kMaxData = 1u << 20;  // of a ConfigMap or Secret

// --- configuration

// How many bytes a text of base64 stands for.
std::size_t decodedSize(const std::string& text) {
  auto padding = std::ranges::count(text, '=');
  return text.size() / 4 * 3 - static_cast<std::size_t>(std::min<std::ptrdiff_t>(padding, 2));
}

// Fields that do not change once the object is immutable.
void checkFrozen(const At& object, const Value& old,
                 std::initializer_list<std::string_view> fields) {
  if (!old["immutable"].boolean()) return;
  constexpr std::string_view kFrozen = "field is immutable when `immutable` is set";
  if (!object["immutable"]->boolean()) object["immutable"].forbidden(kFrozen);
  for (std::string_view field : fields)
    if (*object[field] != old[field]) object[field].forbidden(kFrozen);
}

void checkKeys(const At& data) {
  for (const auto& [key, value] : data->object())
    for (const std::string& problem : configKeyProblems(key))
      data.key(key).invalidText(key, problem);
}

}  // namespace

void checkConfigMap(const At& object, const Value& old) {
  At data = object["data"], bytes = object["binaryData"];
  std::size_t size = 0;
  for (const auto& [key, value] : data->object()) {
    if (bytes->object().contains(key))
      data.key(key).invalidText(key, "duplicate of key present in binaryData");
    size += value.string().size();
  }
  for (const auto& [key, value] : bytes->object()) size += decodedSize(value.string());
  checkKeys(data);
  checkKeys(bytes);
  if (size > kMaxData)
    object.addFinding({.path = "",
                       .fault = kube::Fault::TooLong,
                       .message = format("Too long: may not be more than {} bytes", kMaxData)});
  checkFrozen(object, old, {"data", "binaryData"});
}

namespace {

// Keys that secrets of a type must have, and whether they may be empty.
struct SecretType {
  std::string_view type;
  std::vector<std::string_view> keys;
  bool any = false;  // one of them is enough
  bool filled = false;
  bool is_json = false;
};

const std::vector<SecretType>& secretTypes() {
  static const std::vector<SecretType> kTypes = {
      {.type = "kubernetes.io/tls", .keys = {"tls.crt", "tls.key"}},
      {.type = "kubernetes.io/dockerconfigjson", .keys = {".dockerconfigjson"}, .is_json = true},
      {.type = "kubernetes.io/dockercfg", .keys = {".dockercfg"}, .is_json = true},
      {.type = "kubernetes.io/basic-auth", .keys = {"username", "password"}, .any = true},
      {.type = "kubernetes.io/ssh-auth", .keys = {"ssh-privatekey"}, .filled = true},
  };
  return kTypes;
}

// As Go's parser says what is wrong with a text that is no JSON, as far as it is the first
// character, or a word that is not one of JSON's.
std::string jsonProblem(std::string_view text) {
  if (text.empty()) return "unexpected end of JSON input";
  for (std::string_view word : {"null", "true", "false"}) {
    if (text.front() != word.front()) continue;
    for (std::size_t i = 1; i < word.size(); ++i) {
      if (i >= text.size()) return "unexpected end of JSON input";
      if (text[i] != word[i])
        return format("invalid character '{}' in literal {} (expecting '{}')", text[i], word,
                      word[i]);
    }
  }
  return format("invalid character '{}' looking for beginning of value", text.front());
}

void checkSecretType(const At& object, const SecretType& type) {
  At data = object["data"];
  auto has = [&](std::string_view key) {
    const Value* value = data->object().find(key);
    return value && !(type.filled && value->string().empty());
  };
  if (type.any && std::ranges::any_of(type.keys, has)) return;
  for (std::string_view key : type.keys) {
    if (!has(key)) {
      data.key(key).required();
      continue;
    }
    if (!type.is_json) continue;
    std::string text = base64Decode((*data)[key].string()).value_or("");
    auto parsed = json::parse(text);
    if (!parsed)
      data.key(key).invalidText("<secret contents redacted>", jsonProblem(text));
    else if (!parsed->isObject() && !parsed->isNull())
      data.key(key).invalidText(
          "<secret contents redacted>",
          format("json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                 parsed->isBool()     ? "bool"
                 : parsed->isNumber() ? "number"
                                      : parsed->typeName()));
  }
}

}  // namespace

void checkSecret(const At& object, const Value& old) {
  At data = object["data"];
  checkKeys(data);
  std::size_t size = 0;
  for (const auto& [key, value] : data->object()) size += decodedSize(value.string());
  if (size > kMaxData)
    data.addFinding({.path = data.path(),
                     .fault = kube::Fault::TooLong,
                     .message = format("Too long: may not be more than {} bytes", kMaxData)});
  const std::string& type = object["type"].text();
  for (const SecretType& row : secretTypes())
    if (row.type == type) checkSecretType(object, row);
  constexpr std::string_view kAccount = "kubernetes.io/service-account.name";
  if (type == "kubernetes.io/service-account-token" &&
      object["metadata"]["annotations"].key(kAccount).isEmpty())
    object["metadata"]["annotations"].key(kAccount).required();
  if (old.isNull()) return;
  object["type"].immutable(old["type"]);
  checkFrozen(object, old, {"data"});
}

// --- namespaces, nodes

namespace {

bool isStandardFinalizer(std::string_view name) {
  return name == "kubernetes" || name == "orphan" || name == "foregroundDeletion";
}

}  // namespace

void checkNamespace(const At& object, const Value&) {
  At finalizers = object["spec"]["finalizers"];
  for (const At& one : finalizers.items()) {
    for (const std::string& problem : qualifiedProblems(one.text()))
      finalizers.invalidText(one.text(), problem);
    if (one.text().find('/') == std::string::npos && !isStandardFinalizer(one.text()))
      finalizers.invalidText(one.text(),
                             "name is neither a standard finalizer name nor is it fully qualified");
  }
}

namespace {

// One of each family at most.
void checkNetworks(const At& networks) {
  std::set<int> families;
  for (const At& network : networks.items()) {
    network.all(cidrProblems(network.text()));
    families.insert(ipFamily(cut(network.text(), "/").first));
  }
  if (networks->array().size() > families.size())
    networks.invalid("may specify no more than one CIDR for each IP family");
}

}  // namespace

void checkNode(const At& object, const Value& old) {
  std::set<std::pair<std::string, std::string>> seen;
  // The server names the wrong part of the object.
  At taints = object["spec"]["taints"].as("metadata.taints");
  for (const At& taint : taints.items()) {
    taint["key"].all(qualifiedProblems(taint["key"].text()));
    if (!taint["value"].isEmpty()) taint["value"].all(labelValueProblems(taint["value"].text()));
    if (taint["effect"].isEmpty())
      taint["effect"].required();
    else
      taint["effect"].oneOf({"NoSchedule", "PreferNoSchedule", "NoExecute"});
    if (!seen.emplace(taint["key"].text(), taint["effect"].text()).second)
      taint.duplicateShown(json::write(*taint) + ": taints must be unique by key and effect pair");
  }
  checkNetworks(object["spec"]["podCIDRs"]);
  // Given once, to a node that is what it is.
  for (auto [field, called] :
       {std::pair("providerID", "providerID"), std::pair("podCIDRs", "podCIDR")})
    if (const Value& before = old["spec"][field];
        !before.isNull() && *object["spec"][field] != before)
      object["spec"][field].forbidden(
          format("node updates may not change {} except from \"\" to valid", called));
  if (!old.isNull() && *object["spec"]["externalID"] != old["spec"]["externalID"])
    object["spec"]["externalID"].forbidden("may not be updated");
}

// --- services

namespace {

void checkServicePorts(const At& spec) {
  At ports = spec["ports"];
  const std::string& type = spec["type"].text();
  std::set<std::string> names;
  std::set<std::string> numbers;
  bool needs_names = ports->array().size() > 1;
  for (const At& port : ports.items()) {
    At name = port["name"];
    if (name.isEmpty()) {
      if (needs_names) name.required();
    } else {
      auto problems = labelProblems(name.text());
      name.all(problems);
      if (!names.insert(name.text()).second) name.duplicate();
    }
    port["port"].port();
    port["protocol"].oneOf({"SCTP", "TCP", "UDP"});
    port["targetPort"].portOrName();
    if (port["appProtocol"].isThere())
      port["appProtocol"].all(qualifiedProblems(port["appProtocol"].text()));
    if (type == "ClusterIP" && !port["nodePort"].isEmpty())
      port["nodePort"].forbidden("may not be used when `type` is 'ClusterIP'");
    std::string key = format("{}/{}", port["protocol"].text(), port["port"]->integer());
    if (!numbers.insert(key).second) port.duplicate();
  }
}

// Where `cadre up` has pods that are processes: 127.64.0.0/11.
bool isOfPods(std::string_view address) {
  auto [first, rest] = cut(address, ".");
  auto second = parseInt(cut(rest, ".").first).value_or(0);
  return first == "127" && second >= 64 && second < 96;
}

// An address that others can reach; what is none is told by others.
void checkReachable(const At& ip) {
  const std::string text = lower(ip.text());
  if (ipFamily(text) == 0) return;
  if (text == "0.0.0.0" || text == "::")
    ip.invalid(format("may not be unspecified ({})", ip.text()));
  if (text.starts_with("127.") || text == "::1")
    ip.invalid("may not be in the loopback range (127.0.0.0/8, ::1/128)");
  if (text.starts_with("169.254.") || text.starts_with("fe80:"))
    ip.invalid("may not be in the link-local range (169.254.0.0/16, fe80::/10)");
  if (text.starts_with("224.0.0.") || text.starts_with("ff02:"))
    ip.invalid("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)");
}

// Of a cluster with IPv4 alone. The server looks no further than the first step that finds a fault.
void checkFamilies(const At& spec) {
  At families = spec["ipFamilies"], policy = spec["ipFamilyPolicy"], addresses = spec["clusterIPs"];
  bool good = true, headless = spec["clusterIP"].text() == "None";
  policy.oneOf({"PreferDualStack", "RequireDualStack", "SingleStack"});
  std::set<std::string> seen;
  for (const At& family : families.items()) {
    family.oneOf({"IPv4", "IPv6"});
    good = good && (family.text() == "IPv4" || family.text() == "IPv6");
    if (seen.insert(family.text()).second) continue;
    family.duplicate();
    good = false;
  }
  for (std::size_t i = 0; i < families->array().size() && !headless; ++i) {
    At address = addresses.item(i);
    int family = ipFamily(address.text());
    const std::string& wanted = families.item(i).text();
    if (!good || family == 0 || wanted == format("IPv{}", family)) continue;
    address.invalid(format("expected an {} value as indicated by `ipFamilies[{}]`", wanted, i));
    good = false;
  }
  if (!good) return;
  if (policy.text() == "SingleStack" && seen.size() > 1)
    return policy.invalid(
        "must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified");
  if (headless && spec["selector"].isEmpty()) return;
  if (policy.text() == "RequireDualStack")
    policy.invalid("this cluster is not configured for dual-stack services");
  for (const At& family : families.items())
    if (family.text() == "IPv6") family.invalid("not configured on this cluster");
}

bool isHealthChecked(const Value& spec) {
  return spec["type"].string() == "LoadBalancer" &&
         spec["externalTrafficPolicy"].string() == "Local";
}

void checkBalancer(const At& spec, const Value& old) {
  bool balanced = spec["type"].text() == "LoadBalancer";
  At class_name = spec["loadBalancerClass"], health = spec["healthCheckNodePort"];
  if (class_name.isThere() && !balanced)
    class_name.forbidden("may only be used when `type` is 'LoadBalancer'");
  else if (class_name.isThere())
    class_name.all(qualifiedProblems(class_name.text()));
  if (balanced && old["type"].string() == "LoadBalancer" && *class_name != old["loadBalancerClass"])
    class_name.invalid("may not change once set");
  if (health.isEmpty()) return;  // then it is given
  if (!isHealthChecked(*spec))
    return health.invalid(
        "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'");
  health.port();
  const Value& before = old["healthCheckNodePort"];
  if (isHealthChecked(old) && !before.isNull() && *health != before)
    health.forbidden("field is immutable");
}

}  // namespace

namespace {

// What was there is taken as it is.
void checkClusterIps(const At& spec, const Value& old) {
  At addresses = spec["clusterIPs"];
  const std::string& type = spec["type"].text();
  std::set<std::string> before;
  for (const Value& ip : old.array()) before.insert(ip.string());
  std::set<int> families;
  bool good = true;
  for (std::size_t i = 0; i < addresses->array().size(); ++i) {
    At ip = addresses.item(i);
    families.insert(ipFamily(ip.text()));
    if (i == 0 && ip.text() == "None") {
      if (type == "LoadBalancer" || type == "NodePort")
        ip.invalid(format("may not be set to 'None' for {} services", type));
      good = addresses->array().size() == 1;
      if (!good) addresses.invalid("'None' must be the first and only value");
    } else if (!before.contains(ip.text())) {
      auto problems = ipProblems(ip.text());
      ip.all(problems);
      good = good && problems.empty();
    }
  }
  if (good && addresses->array().size() > families.size())
    addresses.invalid("may specify no more than one IP for each IP family");
}

}  // namespace

void checkService(const At& object, const Value& old) {
  At spec = object["spec"];
  const std::string& type = spec["type"].text();
  bool headless = spec["clusterIP"].text() == "None";
  bool balanced = type == "LoadBalancer", elsewhere = type == "ExternalName";
  spec["type"].oneOf({"ClusterIP", "ExternalName", "LoadBalancer", "NodePort"});
  if (spec["ports"].isEmpty() && !headless && !elsewhere) spec["ports"].required();
  checkServicePorts(spec);
  checkLabels(spec["selector"]);
  spec["sessionAffinity"].oneOf({"ClientIP", "None"});
  At timeout = spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"];
  if (timeout.isThere() && (timeout->integer() <= 0 || timeout->integer() > 86400))
    timeout.invalid("must be greater than 0 and less than 86400");
  if (elsewhere) {
    At name = spec["externalName"];
    std::string_view text = name.text();
    if (text.ends_with('.')) text.remove_suffix(1);
    if (text.empty())
      name.required();
    else
      name.all(subdomainProblems(text));
  }
  checkClusterIps(spec, old["spec"]["clusterIPs"]);
  for (const At& ip : spec["externalIPs"].items()) {
    ip.all(ipProblems(ip.text()));
    checkReachable(ip);
  }
  // The server tells these with a capital letter.
  At ranges = spec["loadBalancerSourceRanges"].as("spec.LoadBalancerSourceRanges");
  if (!ranges.isEmpty() && !balanced)
    ranges.forbidden("may only be used when `type` is 'LoadBalancer'");
  else
    for (const At& range : ranges.items()) range.all(cidrProblems(range.text()));
  checkBalancer(spec, old["spec"]);
  if (At allocate = spec["allocateLoadBalancerNodePorts"]; allocate.isThere() && !balanced)
    allocate.forbidden("may only be used when `type` is 'LoadBalancer'");
  At external = spec["externalTrafficPolicy"];
  bool reached =
      balanced || type == "NodePort" || (type == "ClusterIP" && !spec["externalIPs"].isEmpty());
  if (!external.isEmpty() && !reached)
    external.invalid("may only be set for externally-accessible services");
  else if (!external.isEmpty())
    external.oneOf({"Cluster", "Local"});
  spec["internalTrafficPolicy"].oneOf({"Cluster", "Local"});
  spec["trafficDistribution"].oneOf({"PreferClose", "PreferSameZone", "PreferSameNode"});
  if (!elsewhere) checkFamilies(spec);
  for (std::string_view name : {"clusterIPs", "ipFamilies", "ipFamilyPolicy"}) {
    bool there = !spec[name].isEmpty() || (name == "clusterIPs" && !spec["clusterIP"].isEmpty());
    if (elsewhere && there) spec[name].forbidden("may not be set for ExternalName services");
  }
  if (old.isNull() || elsewhere || old["spec"]["type"].string() == "ExternalName") return;
  const Value& before = old["spec"]["clusterIPs"];
  if (!before.array().empty() && !spec["clusterIPs"].isEmpty() &&
      before.at(0) != spec["clusterIPs"]->at(0))
    spec["clusterIPs"].item(0).invalidShown(json::write(*spec["clusterIPs"]),
                                            "may not change once set");
}

namespace {

void checkAppProtocol(const At& port) {
  At protocol = port["appProtocol"];
  if (protocol.isThere()) protocol.all(qualifiedProblems(protocol.text()));
}

void checkEndpointAddress(const At& address) {
  At ip = address["ip"], host = address["hostname"], node = address["nodeName"];
  auto problems = ipProblems(ip.text());
  ip.all(problems);
  if (!problems.empty()) ip.invalid("must be a valid IP address");
  checkReachable(ip);
  if (!host.isEmpty()) host.all(labelProblems(host.text()));
  if (node.isThere()) node.all(subdomainProblems(node.text()));
}

}  // namespace

void checkEndpoints(const At& object, const Value&) {
  for (const At& subset : object["subsets"].items()) {
    At addresses = subset["addresses"], not_ready = subset["notReadyAddresses"];
    if (addresses.isEmpty() && not_ready.isEmpty())
      subset.required("must specify `addresses` or `notReadyAddresses`");
    for (const At& list : {addresses, not_ready})
      for (const At& address : list.items()) checkEndpointAddress(address);
    bool needs_names = subset["ports"]->array().size() > 1;
    for (const At& port : subset["ports"].items()) {
      if (port["name"].isEmpty()) {
        if (needs_names) port["name"].required();
      } else {
        port["name"].all(labelProblems(port["name"].text()));
      }
      port["port"].port();
      port["protocol"].oneOf({"SCTP", "TCP", "UDP"});
      checkAppProtocol(port);
    }
  }
}

namespace {

void checkFullName(const At& address) {
  std::string_view text = address.text();
  if (text.empty()) return address.required();
  if (text.ends_with('.')) text.remove_suffix(1);
  auto problems = subdomainProblems(text);
  address.all(problems);
  if (problems.empty() && split(text, '.').size() < 2)
    address.invalid("should be a domain with at least two segments separated by dots");
}

void checkSliceAddress(const At& addresses, const At& address, const std::string& type) {
  if (type == "FQDN") return checkFullName(address);
  if (type != "IPv4" && type != "IPv6") return;
  address.all(ipProblems(address.text()));
  int family = ipFamily(address.text());
  if (family != 0 && format("IPv{}", family) != type)
    addresses.with(*address).invalid(format("must be an {} address", type));
  if (!isOfPods(address.text())) checkReachable(address);
}

void checkHints(const At& hints) {
  std::set<std::string> zones, nodes;
  if (!hints["forZones"].atMost(8)) return;
  for (const At& zone : hints["forZones"].items()) {
    if (!zones.insert(zone["name"].text()).second) zone["name"].duplicate();
    zone["name"].all(labelValueProblems(zone["name"].text()));
  }
  if (!hints["forNodes"].atMost(8)) return;
  for (const At& node : hints["forNodes"].items()) {
    if (!nodes.insert(node["name"].text()).second) node["name"].duplicate();
    for (const std::string& problem : subdomainProblems(node["name"].text()))
      node["name"].invalidText(node["name"].text(), problem);
  }
}

void checkSliceEndpoint(const At& endpoint, const std::string& type) {
  At addresses = endpoint["addresses"], host = endpoint["hostname"], node = endpoint["nodeName"];
  if (addresses.isEmpty()) addresses.required("must contain at least 1 address");
  for (const At& address : addresses.items()) checkSliceAddress(addresses, address, type);
  if (node.isThere()) node.all(subdomainProblems(node.text()));
  if (host.isThere()) host.all(labelProblems(host.text()));
  checkHints(endpoint["hints"]);
}

}  // namespace

void checkEndpointSlice(const At& object, const Value& old) {
  At type = object["addressType"];
  if (type.isEmpty())
    type.required();
  else
    type.oneOf({"FQDN", "IPv4", "IPv6"});
  if (old.isNull() || *object["endpoints"] != old["endpoints"])
    for (const At& endpoint : object["endpoints"].items())
      checkSliceEndpoint(endpoint, type.text());
  std::set<std::string> names;
  for (const At& port : object["ports"].items()) {
    At name = port["name"];
    if (!name.isEmpty()) name.all(labelProblems(name.text()));
    if (!names.insert(name.text()).second) name.duplicate();
    port["protocol"].oneOf({"SCTP", "TCP", "UDP"});
    checkAppProtocol(port);
  }
  if (!old.isNull()) type.immutable(old["addressType"]);
}

// --- quotas and limits

namespace {

bool isIntegerResource(std::string_view name) {
  static const std::set<std::string_view> kNames = {"pods",
                                                    "resourcequotas",
                                                    "services",
                                                    "replicationcontrollers",
                                                    "secrets",
                                                    "configmaps",
                                                    "persistentvolumeclaims",
                                                    "services.nodeports",
                                                    "services.loadbalancers"};
  return kNames.contains(name) || name.starts_with("count/");
}

void checkQuotaAmount(const At& amount, std::string_view name) {
  auto problems = qualifiedProblems(name);
  for (const std::string& problem : problems) amount.invalidText(name, problem);
  if (name.find('/') == std::string_view::npos && !isStandardResource(name))
    amount.invalidText(name, "must be a standard resource for quota");
  auto quantity = kube::Quantity::fromJson(*amount);
  if (!quantity) return;
  if (*quantity < kube::Quantity())
    amount.invalidText(quantity->text(), "must be greater than or equal to 0");
  if (isIntegerResource(name) && quantity->milliValue() % 1000 != 0)
    amount.invalidText(quantity->text(), "must be an integer");
}

// Which resources a scope can be asked about.
bool scopeFits(std::string_view scope, std::string_view resource) {
  static const std::set<std::string_view> kCompute = {
      "cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory", "pods"};
  if (scope == "BestEffort") return resource == "pods";
  if (scope == "Terminating" || scope == "NotTerminating" || scope == "NotBestEffort" ||
      scope == "PriorityClass" || scope == "CrossNamespacePodAffinity")
    return kCompute.contains(resource);
  return true;
}

bool isScope(std::string_view name) {
  static const std::set<std::string_view> kScopes = {
      "Terminating",          "NotTerminating", "BestEffort",
      "NotBestEffort",        "PriorityClass",  "CrossNamespacePodAffinity",
      "VolumeAttributesClass"};
  return kScopes.contains(name);
}

bool areInConflict(const std::set<std::string_view>& scopes) {
  return (scopes.contains("BestEffort") && scopes.contains("NotBestEffort")) ||
         (scopes.contains("Terminating") && scopes.contains("NotTerminating"));
}

// The server names no single expression.
void checkScopeSelector(const At& selector, const Value& hard) {
  At all = selector["matchExpressions"];
  std::set<std::string_view> asked;
  for (const Value& one : all->array()) {
    At scope = all["scopeName"].with(one["scopeName"]), op = all["operator"].with(one["operator"]),
       values = all["values"].with(one["values"]);
    asked.insert(scope.text());
    if (!isScope(scope.text())) scope.invalid("unsupported scope");
    for (const auto& [name, value] : hard.object())
      if (isStandardResource(name) && !scopeFits(scope.text(), name))
        all.with(*selector).invalid("unsupported scope applied to resource");
    bool has_values = scope.text() == "PriorityClass" || scope.text() == "VolumeAttributesClass";
    if (isScope(scope.text()) && !has_values && op.text() != "Exists")
      op.invalid(
          "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, "
          "ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, "
          "ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity");
    if (op.text() == "In" || op.text() == "NotIn") {
      if (values.isEmpty())
        values.required(
            "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector");
    } else if (op.text() == "Exists" || op.text() == "DoesNotExist") {
      if (!values.isEmpty())
        values.invalid(
            "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector");
    } else {
      op.invalid("not a valid selector operator");
    }
  }
  if (areInConflict(asked)) all.invalidShown("null", "conflicting scopes");
}

}  // namespace

void checkQuota(const At& object, const Value& old) {
  At spec = object["spec"], hard = spec["hard"], scopes = spec["scopes"];
  for (const auto& [name, value] : hard->object()) checkQuotaAmount(hard.key(name), name);
  std::set<std::string_view> asked;
  for (const At& scope : scopes.items()) {
    asked.insert(scope.text());
    if (!isScope(scope.text())) scopes.invalid("unsupported scope");
    for (const auto& [name, value] : hard->object())
      if (isStandardResource(name) && !scopeFits(scope.text(), name))
        scopes.invalid("unsupported scope applied to resource");
  }
  if (areInConflict(asked)) scopes.invalid("conflicting scopes");
  checkScopeSelector(spec["scopeSelector"], *hard);
  if (!old.isNull()) scopes.immutable(old["spec"]["scopes"]);
}

namespace {

void checkLimitType(const At& type) {
  static const std::set<std::string_view> kTypes = {"Pod", "Container", "PersistentVolumeClaim"};
  auto problems = qualifiedProblems(type.text());
  type.all(problems);
  if (problems.empty() && type.text().find('/') == std::string::npos &&
      !kTypes.contains(type.text()))
    type.invalid("must be a standard limit type or fully qualified");
}

void checkLimitName(const At& amount, const std::string& name, const std::string& type) {
  if (type == "Pod" || type == "Container") return checkAmountName(amount, name);
  auto problems = qualifiedProblems(name);
  for (const std::string& problem : problems) amount.invalidText(name, problem);
  if (problems.empty() && name.find('/') == std::string::npos && !isStandardResource(name))
    amount.invalidText(name, "must be a standard resource type or fully qualified");
}

// The amounts of one resource, one beside the other.
void checkLimitAmounts(const At& limit, const std::string& name) {
  auto amount = [&](std::string_view list) -> std::optional<kube::Quantity> {
    const Value* found = limit[list]->object().find(name);
    auto quantity = found ? kube::Quantity::fromJson(*found) : Result<kube::Quantity>(Error{});
    if (!quantity) return std::nullopt;
    return *quantity;
  };
  auto most = amount("max"), least = amount("min"), normal = amount("default"),
       request = amount("defaultRequest"), ratio = amount("maxLimitRequestRatio");
  // Of two amounts the first may not be more than the second; which one is shown is up to the
  // server.
  auto order = [&](std::string_view list, const auto& shown, const auto& a, std::string_view called,
                   const auto& b, std::string_view other) {
    if (a && b && *a > *b)
      limit[list].key(name).invalidText(
          shown->text(),
          format("{} value {} is greater than {} value {}", called, a->text(), other, b->text()));
  };
  order("min", least, least, "min", most, "max");
  if (limit["type"].text() != "Pod") {
    order("defaultRequest", request, least, "min", request, "default request");
    order("defaultRequest", request, request, "default request", most, "max");
    order("defaultRequest", request, request, "default request", normal, "default limit");
    order("default", least, least, "min", normal, "default");
    order("default", most, normal, "default", most, "max");
  }
  if (!ratio) return;
  At shown = limit["maxLimitRequestRatio"].key(name);
  auto milli = ratio->milliValue();
  if (milli < 1000)
    shown.invalidText(ratio->text(), format("ratio {} is less than 1", ratio->text()));
  if (!most || !least || least->milliValue() == 0) return;
  double spread =
      static_cast<double>(most->milliValue()) / static_cast<double>(least->milliValue());
  if (static_cast<double>(milli) / 1000 > spread)
    shown.invalidText(ratio->text(),
                      format("ratio {} is greater than max/min = {:.6f}", ratio->text(), spread));
}

}  // namespace

void checkLimitRange(const At& object, const Value&) {
  std::set<std::string> types;
  for (const At& limit : object["spec"]["limits"].items()) {
    At type = limit["type"];
    checkLimitType(type);
    if (!types.insert(type.text()).second) type.duplicate();
    std::set<std::string> names;
    for (std::string_view list :
         {"max", "min", "default", "defaultRequest", "maxLimitRequestRatio"}) {
      if (type.text() == "Pod" && list.starts_with("default")) {
        if (!limit[list].isEmpty())
          limit[list].forbidden("may not be specified when `type` is 'Pod'");
        continue;
      }
      for (const auto& [name, value] : limit[list]->object()) {
        checkLimitName(limit[list].key(name), name, type.text());
        names.insert(name);
      }
    }
    if (type.text() == "PersistentVolumeClaim" && !limit["min"]->object().contains("storage") &&
        !limit["max"]->object().contains("storage"))
      limit["limits"].required(
          "either minimum or maximum storage value is required, but neither was provided");
    for (const std::string& name : names) checkLimitAmounts(limit, name);
  }
}

// --- events

namespace {

// An event that says when it happened says more; what it is about may be in another namespace.
void checkAnyEvent(const At& object, std::string_view regarding, std::string_view controller_name) {
  At ns = object[regarding]["namespace"].as("involvedObject.namespace");
  const std::string& own = object["metadata"]["namespace"].text();
  bool timed = !object["eventTime"].isEmpty();
  bool free = own == "default" || (timed && own == "kube-system");
  if (ns.isEmpty() ? !free : !timed && ns.text() != own)
    ns.invalidText(ns.text(), "does not match event.namespace");
  if (!timed) return;
  At controller = object[controller_name];
  controller.given();
  controller.all(qualifiedProblems(controller.text()));
  for (std::string_view field : {"reportingInstance", "action", "reason"}) {
    object[field].given();
    if (object[field].text().size() > 128)
      object[field].invalidText("", "can have at most 128 characters");
  }
  At note = object[object["note"].isThere() ? "note" : "message"].as("message");
  if (note.text().size() > 1024) note.invalidText("", "can have at most 1024 characters");
}

void checkSeries(const At& series) {
  if (!series.isThere()) return;
  if (series["count"]->integer() < 2) series["count"].invalidText("", "should be at least 2");
  series["lastObservedTime"].given();
}

// Fields that have older names for the server.
constexpr std::pair<std::string_view, std::string_view> kOlderNames[] = {
    {"deprecatedFirstTimestamp", "firstTimestamp"},
    {"deprecatedLastTimestamp", "lastTimestamp"},
    {"deprecatedCount", "count"},
    {"deprecatedSource", "source"}};

}  // namespace

void checkEvent(const At& object, const Value&) {
  checkAnyEvent(object, "involvedObject", "reportingComponent");
}

void checkNewEvent(const At& object, const Value& old) {
  checkAnyEvent(object, "regarding", "reportingController");
  if (old.isNull() || *object["series"] != old["series"]) checkSeries(object["series"]);
  if (old.isNull()) {
    object["eventTime"].given();
    if (object["type"].text() != "Normal" && object["type"].text() != "Warning")
      object["type"].invalidText("", format("has invalid value: {}", object["type"].text()));
    for (auto [field, older] : kOlderNames)
      if (!object[field].isEmpty())
        object[field].as(std::string(older)).invalidText("", "needs to be unset");
    return;
  }
  for (auto [field, older] : kOlderNames)
    object[field].as(std::string(older)).immutable(old[field]);
  object["regarding"].as("involvedObject").immutable(old["regarding"]);
  object["note"].as("message").immutable(old["note"]);
  // Of one of them the server speaks twice.
  for (std::string_view field : {"reason", "reason", "type", "eventTime", "action", "related",
                                 "reportingController", "reportingInstance"})
    object[field].immutable(old[field]);
}

// --- networking

namespace {

constexpr std::string_view kWildcard =
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which "
    "must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric "
    "character (e.g. '*.example.com', regex used for validation is "
    "'\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

void checkHost(const At& host) {
  std::string_view text = host.text();
  if (text.find('*') == std::string_view::npos) return host.all(subdomainProblems(text));
  if (!text.starts_with("*.") || !subdomainProblems(text.substr(2)).empty())
    host.invalid(kWildcard);
}

// An object of any kind.
void checkTypedReference(const At& reference) {
  At group = reference["apiGroup"];
  if (group.isThere()) group.all(subdomainProblems(group.text()));
  for (std::string_view name : {"kind", "name"})
    if (reference[name].given()) reference[name].all(pathSegmentProblems(reference[name].text()));
}

void checkBackend(const At& backend) {
  At service = backend["service"], resource = backend["resource"], port = service["port"];
  if (service.isThere() && resource.isThere())
    return backend.invalidText("", "cannot set both resource and service backends");
  if (resource.isThere()) return checkTypedReference(resource);
  if (!service.isThere()) return backend.invalidText("", "resource or service backend is required");
  if (service["name"].given()) service["name"].all(dns1035Problems(service["name"].text()));
  bool named = !port["name"].isEmpty(), numbered = !port["number"].isEmpty();
  if (named && numbered)
    backend.invalidText("", "cannot set both port name & port number");
  else if (named)
    port["name"].all(portNameProblems(port["name"].text()));
  else if (numbered)
    port["number"].port();
  else
    backend.required("port name or number is required");
}

void checkIngressPath(const At& one) {
  At type = one["pathType"], path = one["path"];
  if (!type.isThere()) {
    type.required("pathType must be specified");
  } else if (type.text() == "Exact" || type.text() == "Prefix") {
    if (!path.text().starts_with('/')) path.invalidText(path.text(), "must be an absolute path");
    for (std::string_view bad : {"//", "/./", "/../", "%2f", "%2F"})
      if (path.text().find(bad) != std::string::npos)
        path.invalid(format("must not contain '{}'", bad));
    for (std::string_view bad : {"/..", "/."})
      if (path.text().ends_with(bad)) path.invalid(format("cannot end with '{}'", bad));
  } else if (type.text() == "ImplementationSpecific") {
    if (!path.isEmpty() && !path.text().starts_with('/')) path.invalid("must be an absolute path");
  } else {
    type.unsupported({"Exact", "ImplementationSpecific", "Prefix"});
  }
  checkBackend(one["backend"]);
}

}  // namespace

void checkIngress(const At& object, const Value&) {
  At spec = object["spec"], rules = spec["rules"], fallback = spec["defaultBackend"];
  if (rules.isEmpty() && !fallback.isThere())
    spec.invalidShown("null", "either `defaultBackend` or `rules` must be specified");
  if (fallback.isThere()) checkBackend(fallback);
  for (const At& rule : rules.items()) {
    At host = rule["host"], http = rule["http"];
    if (!host.isEmpty()) {
      if (ipFamily(host.text()) != 0)
        host.invalid("must be a DNS name, not an IP address");
      else
        checkHost(host);
    }
    if (!http.isThere()) continue;
    if (http["paths"].isEmpty()) http["paths"].required();
    for (const At& path : http["paths"].items()) checkIngressPath(path);
  }
  for (const At& tls : spec["tls"].items()) {
    for (const At& host : tls["hosts"].items()) checkHost(host);
    if (!tls["secretName"].isEmpty())
      tls["secretName"].all(subdomainProblems(tls["secretName"].text()));
  }
  if (At name = spec["ingressClassName"]; name.isThere()) name.all(subdomainProblems(name.text()));
}

namespace {

void checkParameters(const At& parameters) {
  checkTypedReference(parameters);
  At scope = parameters["scope"], ns = parameters["namespace"];
  scope.oneOf({"Cluster", "Namespace"});
  if (scope.text() == "Cluster" && ns.isThere())
    ns.forbidden("`parameters.scope` is set to 'Cluster'");
  if (scope.text() != "Namespace") return;
  if (!ns.isThere())
    ns.required("`parameters.scope` is set to 'Namespace'");
  else
    ns.all(labelProblems(ns.text()));
}

}  // namespace

void checkIngressClass(const At& object, const Value& old) {
  At controller = object["spec"]["controller"];
  controller.fits(250);
  controller.all(domainPathProblems(controller.text()));
  At parameters = object["spec"]["parameters"];
  if (parameters.isThere()) checkParameters(parameters);
  if (!old.isNull()) controller.immutable(old["spec"]["controller"]);
}

namespace {

// An IPv4 network; IPv6 ones are not compared.
struct Network {
  std::uint32_t address = 0;
  std::int64_t bits = -1;
};

Network networkOf(std::string_view text) {
  auto [address, bits] = cut(text, "/");
  if (ipFamily(address) != 4) return {};
  Network out{.bits = parseInt(bits).value_or(-1)};
  for (std::string_view part : split(address, '.'))
    out.address = out.address << 8 | static_cast<std::uint32_t>(parseInt(part).value_or(0));
  return out;
}

bool isWithin(const Network& inner, const Network& outer) {
  if (inner.bits <= outer.bits || outer.bits < 0) return false;
  std::uint32_t mask = outer.bits == 0 ? 0 : ~std::uint32_t{0} << (32 - outer.bits);
  return (inner.address & mask) == (outer.address & mask);
}

void checkPeer(const At& peer) {
  At block = peer["ipBlock"];
  bool selects = peer["podSelector"].isThere() || peer["namespaceSelector"].isThere();
  for (std::string_view name : {"podSelector", "namespaceSelector"}) checkSelector(peer[name]);
  if (!selects && !block.isThere()) return peer.required("must specify a peer");
  if (!block.isThere()) return;
  if (selects) return peer.forbidden("may not specify both ipBlock and another peer");
  At cidr = block["cidr"];
  if (!cidr.given()) return;
  auto problems = cidrProblems(cidr.text());
  cidr.all(problems);
  if (!problems.empty()) return;
  Network outer = networkOf(cidr.text());
  for (const At& one : block["except"].items()) {
    auto bad = cidrProblems(one.text());
    one.all(bad);
    if (bad.empty() && outer.bits >= 0 && !isWithin(networkOf(one.text()), outer))
      one.invalid("must be a strict subset of `cidr`");
  }
}

void checkPolicyPort(const At& one) {
  At port = one["port"], end = one["endPort"];
  one["protocol"].oneOf({"TCP", "UDP", "SCTP"});
  if (port.isThere()) port.portOrName();
  if (!end.isThere()) return;
  if (!port.isThere())
    end.invalid("may not be specified when `port` is not specified");
  else if (port->isString())
    end.invalid("may not be specified when `port` is non-numeric");
  else if (end->integer() < port->integer())
    end.invalidShown(json::write(*port), "must be greater than or equal to `port`");
  else
    end.port();
}

}  // namespace

void checkNetworkPolicy(const At& object, const Value&) {
  At spec = object["spec"], types = spec["policyTypes"];
  checkSelector(spec["podSelector"]);
  for (auto [direction, peers] :
       {std::pair<std::string_view, std::string_view>{"ingress", "from"}, {"egress", "to"}})
    for (const At& rule : spec[direction].items()) {
      for (const At& port : rule["ports"].items()) checkPolicyPort(port);
      for (const At& peer : rule[peers].items()) checkPeer(peer);
    }
  if (types->array().size() > 2) return types.invalid("may not specify more than two policyTypes");
  for (const At& type : types.items()) type.oneOf({"Ingress", "Egress"});
}

// --- permissions

namespace {

void checkPolicyRules(const At& object, bool namespaced) {
  for (const At& rule : object["rules"].items()) {
    At urls = rule["nonResourceURLs"];
    if (rule["verbs"].isEmpty()) rule["verbs"].required("verbs must contain at least one value");
    if (!urls.isEmpty()) {
      if (namespaced) urls.invalid("namespaced rules cannot apply to non-resource URLs");
      for (std::string_view name : {"apiGroups", "resources", "resourceNames"})
        if (!rule[name].isEmpty()) {
          urls.invalid("rules cannot apply to both regular resources and non-resource URLs");
          break;
        }
      continue;
    }
    if (rule["apiGroups"].isEmpty())
      rule["apiGroups"].required("resource rules must supply at least one api group");
    if (rule["resources"].isEmpty())
      rule["resources"].required("resource rules must supply at least one resource");
  }
}

constexpr std::string_view kRbacGroup = "rbac.authorization.k8s.io";

void checkSubject(const At& subject, bool namespaced) {
  At name = subject["name"], group = subject["apiGroup"];
  name.given();
  const std::string& kind = subject["kind"].text();
  if (kind == "ServiceAccount") {
    if (!name.isEmpty()) name.all(subdomainProblems(name.text()));
    if (!group.isEmpty()) group.unsupported({""});
    if (!namespaced && subject["namespace"].isEmpty()) subject["namespace"].required();
  } else if (kind == "User" || kind == "Group") {
    if (group.text() != kRbacGroup) group.unsupported({kRbacGroup});
  } else {
    subject["kind"].unsupported({"ServiceAccount", "User", "Group"});
  }
}

void checkAnyBinding(const At& object, const Value& old, bool namespaced) {
  At role = object["roleRef"];
  if (role["apiGroup"].text() != kRbacGroup) role["apiGroup"].unsupported({kRbacGroup});
  std::vector<std::string_view> kinds = {"Role", "ClusterRole"};
  if (!namespaced) kinds = {"ClusterRole"};
  if (std::ranges::find(kinds, role["kind"].text()) == kinds.end()) role["kind"].unsupported(kinds);
  if (role["name"].given()) role["name"].all(pathSegmentProblems(role["name"].text()));
  for (const At& subject : object["subjects"].items()) checkSubject(subject, namespaced);
  if (!old.isNull() && *role != old["roleRef"]) role.invalid("cannot change roleRef");
}

}  // namespace

void checkRole(const At& object, const Value&) { checkPolicyRules(object, true); }

void checkClusterRole(const At& object, const Value&) {
  checkPolicyRules(object, false);
  At aggregation = object["aggregationRule"], selectors = aggregation["clusterRoleSelectors"];
  if (!aggregation.isThere()) return;
  if (selectors.isEmpty())
    selectors.required("at least one clusterRoleSelector required if aggregationRule is non-nil");
  for (const At& selector : selectors.items()) checkSelector(selector);
}

void checkBinding(const At& object, const Value& old) { checkAnyBinding(object, old, true); }
void checkClusterBinding(const At& object, const Value& old) {
  checkAnyBinding(object, old, false);
}

// --- small ones

void checkPriorityClass(const At& object, const Value& old) {
  constexpr std::int64_t kHighest = 1000000000;
  constexpr std::string_view kSystem = "system-";
  At name = object["metadata"]["name"];
  if (name.text().starts_with(kSystem) && name.text() != "system-node-critical" &&
      name.text() != "system-cluster-critical")
    name.forbidden(
        format("priority class names with '{}' prefix are reserved for system use only. "
               "error: {} is not a known system priority class",
               kSystem, name.text()));
  else if (!name.text().starts_with(kSystem) && object["value"]->integer() > kHighest)
    object["value"].forbidden(
        format("maximum allowed value of a user defined priority is {}", kHighest));
  object["preemptionPolicy"].oneOf({"PreemptLowerPriority", "Never"});
  if (old.isNull()) return;
  for (std::string_view field : {"value", "preemptionPolicy"})
    if (*object[field] != old[field]) object[field].forbidden("may not be changed in an update.");
}

void checkRuntimeClass(const At& object, const Value& old) {
  At handler = object["handler"], overhead = object["overhead"], where = object["scheduling"];
  if (!old.isNull()) return handler.immutable(old["handler"]);
  handler.all(labelProblems(handler.text()));
  // The server looks at it as at what a container has.
  const Value resources = json::Object{{"limits", *overhead["podFixed"]}};
  checkResources(overhead.with(resources));
  checkLabels(where["nodeSelector"]);
  At tolerations = where["tolerations"];
  checkTolerations(tolerations["tolerations"].with(*tolerations));
  std::set<std::string> seen;
  for (const At& toleration : tolerations.items())
    if (!seen.insert(withoutSeconds(*toleration)).second) toleration.duplicate();
}

void checkLease(const At& object, const Value&) {
  At spec = object["spec"];
  if (At seconds = spec["leaseDurationSeconds"]; seconds.isThere() && seconds->integer() <= 0)
    seconds.invalid("must be greater than 0");
  spec["leaseTransitions"].notNegative();
}

namespace {

void checkUrl(const At& url) {
  constexpr std::string_view kForm = "desired format: https://host[/path]";
  auto [scheme, rest] = cut(url.text(), "://");
  if (scheme != "https")
    url.invalidText(rest.empty() ? "" : scheme,
                    format("'https' is the only allowed URL scheme; {}", kForm));
  auto end = rest.find_first_of("/?#");
  std::string_view host = rest.substr(0, end);
  if (host.empty()) url.invalidText(host, format("host must be specified; {}", kForm));
  if (host.find('@') != std::string_view::npos)
    url.invalidText(host.substr(0, host.find('@')), "user information is not permitted in the URL");
}

void checkServicePath(const At& path) {
  std::string_view text = path.text();
  if (text.empty() || text == "/") return;
  if (text == "//") return path.invalid("segment[0] may not be empty");
  if (!text.starts_with('/')) path.invalid("must start with a '/'");
  text.remove_prefix(1);
  if (text.ends_with('/')) text.remove_suffix(1);
  auto segments = split(text, '/');
  if (segments.empty()) segments.emplace_back();
  for (std::size_t i = 0; i < segments.size(); ++i) {
    if (segments[i].empty()) {
      path.invalid(format("segment[{}] may not be empty", i));
      continue;
    }
    for (const std::string& problem : subdomainProblems(segments[i]))
      path.invalid(format("segment[{}]: {}", i, problem));
  }
}

void checkHookService(const At& service) {
  for (std::string_view field : {"name", "namespace"}) service[field].given();
  At port = service["port"];
  if (port.isThere() && (port->integer() < 1 || port->integer() > 65535))
    port.invalid("port is not valid: must be between 1 and 65535, inclusive");
  checkServicePath(service["path"]);
}

void checkReviewVersions(const At& versions) {
  if (versions.isEmpty()) return versions.required("must specify one of v1, v1beta1");
  std::set<std::string> seen;
  for (const At& version : versions.items())
    if (!seen.insert(version.text()).second)
      version.invalid("duplicate version");
    else
      version.all(dns1035Problems(version.text()));
  if (!seen.contains("v1") && !seen.contains("v1beta1"))
    versions.invalid("must include at least one of v1, v1beta1");
}

void checkConditions(const At& conditions) {
  if (!conditions.atMost(64)) return;
  std::set<std::string> names;
  for (const At& condition : conditions.items()) {
    At name = condition["name"], expression = condition["expression"];
    if (trim(expression.text()).empty()) expression.required();
    if (!name.given()) continue;
    name.all(qualifiedProblems(name.text()));
    if (!names.insert(name.text()).second) name.duplicate();
  }
}

void checkWebhookResources(const At& resources) {
  std::set<std::string_view> all_parts, all_resources;  // x/* and */x
  bool all = false, plain = false, everything = false;
  for (const At& one : resources.items()) {
    const std::string& text = one.text();
    if (text.empty()) {
      one.required();
      continue;
    }
    everything = everything || text == "*/*";
    all = all || text == "*";
    auto [resource, part] = cut(text, "/");
    if (text.find('/') == std::string::npos) {
      plain = text != "*";
      continue;
    }
    if (all_parts.contains(resource))
      one.invalid(format("if '{}/*' is present, must not specify {}", resource, text));
    if (all_resources.contains(part))
      one.invalid(format("if '*/{}' is present, must not specify {}", part, text));
    if (part == "*") all_parts.insert(resource);
    if (resource == "*") all_resources.insert(part);
  }
  if (resources->array().size() > 1 && everything)
    resources.invalid("if '*/*' is present, must not specify other resources");
  if (all && plain)
    resources.invalid("if '*' is present, must not specify other resources without subresources");
}

void checkWebhookRule(const At& rule) {
  for (std::string_view name : {"operations", "apiGroups", "apiVersions", "resources"})
    if (rule[name].isEmpty()) rule[name].required();
  for (const At& operation : rule["operations"].items())
    operation.oneOf({"*", "CONNECT", "CREATE", "DELETE", "UPDATE"});
  if (rule["operations"]->array().size() > 1)
    for (const At& operation : rule["operations"].items())
      if (operation.text() == "*")
        rule["operations"].invalid("if '*' is present, must not specify other operations");
  for (auto [name, what] : {std::pair("apiGroups", "API groups"), {"apiVersions", "API versions"}})
    if (const json::Array& list = rule[name]->array();
        list.size() > 1 && std::ranges::find(list, Value("*")) != list.end())
      rule[name].invalid(format("if '*' is present, must not specify other {}", what));
  for (const At& version : rule["apiVersions"].items()) version.given();
  checkWebhookResources(rule["resources"]);
  rule["scope"].oneOf({"*", "Cluster", "Namespaced"});
}

}  // namespace

void checkWebhooks(const At& object, const Value&) {
  std::set<std::string> names;
  for (const At& hook : object["webhooks"].items()) {
    At name = hook["name"], effects = hook["sideEffects"], config = hook["clientConfig"];
    if (name.isEmpty()) {
      name.required();
    } else {
      auto problems = subdomainProblems(name.text());
      name.all(problems);
      if (problems.empty() && split(name.text(), '.').size() < 3)
        name.invalid("should be a domain with at least three segments separated by dots");
    }
    if (!names.insert(name.text()).second) name.duplicate();
    for (const At& rule : hook["rules"].items()) checkWebhookRule(rule);
    hook["failurePolicy"].oneOf({"Fail", "Ignore"});
    hook["matchPolicy"].oneOf({"Equivalent", "Exact"});
    hook["reinvocationPolicy"].oneOf({"IfNeeded", "Never"});
    if (!effects.isThere())
      effects.required("must specify one of None, NoneOnDryRun");
    else
      effects.oneOf({"None", "NoneOnDryRun"});
    At timeout = hook["timeoutSeconds"];
    if (timeout.isThere() && (timeout->integer() < 1 || timeout->integer() > 30))
      timeout.invalid("the timeout value must be between 1 and 30 seconds");
    checkSelector(hook["namespaceSelector"]);
    checkSelector(hook["objectSelector"]);
    if (config["url"].isThere() == config["service"].isThere())
      config.required("exactly one of url or service is required");
    else if (config["url"].isThere())
      checkUrl(config["url"]);
    else
      checkHookService(config["service"]);
    checkReviewVersions(hook["admissionReviewVersions"]);
    checkConditions(hook["matchConditions"]);
  }
}

}  // namespace cadre::hub
