#include "hub/builtin_defaults.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "base/format.h"
#include "base/strings.h"
#include "hub/builtin_types.h"
#include "kube/field_defaults.h"
#include "kube/quantity.h"

namespace cadre::hub {

namespace {

using json::Value;
using kube::Form;
using kube::Type;

// --- what depends on other fields

bool isEmpty(const Value& value) {
  return value.isNull() || (value.isString() && value.string().empty()) ||
         (value.isArray() && value.array().empty()) ||
         (value.isObject() && value.object().empty()) ||
         (value.isNumber() && value.number() == 0) || (value.isBool() && !value.boolean());
}

void setIfMissing(Value& object, std::string_view name, Value value) {
  if (object[name].isNull()) object.make(name) = std::move(value);
}
void setIfEmpty(Value& object, std::string_view name, Value value) {
  if (isEmpty(object[name])) object.make(name) = std::move(value);
}

// --- names of images

bool isDigit(char c) { return c >= '0' && c <= '9'; }
bool isLowerAlnum(char c) { return isDigit(c) || (c >= 'a' && c <= 'z'); }
bool isAlnum(char c) { return isLowerAlnum(c) || (c >= 'A' && c <= 'Z'); }
bool isHex(char c) { return isDigit(c) || (c >= 'a' && c <= 'f'); }

// example.com:5000
bool isRegistry(std::string_view host) {
  if (host.starts_with('[')) return host.find(']') != std::string_view::npos;
  auto [name, port] = cut(host, ":");
  if (host.ends_with(':') || !std::ranges::all_of(port, isDigit)) return false;
  return std::ranges::all_of(split(name, '.'), [](std::string_view part) {
    return !part.empty() && isAlnum(part.front()) && isAlnum(part.back()) &&
           std::ranges::all_of(part, [](char c) { return isAlnum(c) || c == '-'; });
  });
}

// Letters and digits, between them one dot, one or two underscores, or any number of dashes.
bool isRepositoryPart(std::string_view part) {
  if (part.empty() || !isLowerAlnum(part.front()) || !isLowerAlnum(part.back())) return false;
  for (std::size_t i = 0; i < part.size();) {
    std::size_t end = i;
    while (end < part.size() && !isLowerAlnum(part[end])) ++end;
    std::string_view between = part.substr(i, end - i);
    bool dashes = between.find_first_not_of('-') == std::string_view::npos;
    if (!dashes && between != "." && between != "_" && between != "__") return false;
    i = end + 1;
  }
  return true;
}

bool isTag(std::string_view tag) {
  auto isWord = [](char c) { return isAlnum(c) || c == '_'; };
  return !tag.empty() && tag.size() <= 128 && isWord(tag.front()) &&
         std::ranges::all_of(tag, [&](char c) { return isWord(c) || c == '.' || c == '-'; });
}

bool isDigest(std::string_view digest) {
  auto [algorithm, sum] = cut(digest, ":");
  std::size_t size = algorithm == "sha256"   ? 64
                     : algorithm == "sha384" ? 96
                     : algorithm == "sha512" ? 128
                                             : 0;
  return size != 0 && sum.size() == size && std::ranges::all_of(sum, isHex);
}

// The tag of an image's name: "latest" where there is neither a tag nor a digest, and nothing where
// it is no image's name at all.
std::string_view imageTag(std::string_view image) {
  auto [name, digest] = cut(image, "@");
  bool with_digest = image.size() != name.size();
  auto slash = name.find('/');
  std::string_view host = name.substr(0, slash == std::string_view::npos ? 0 : slash);
  bool has_host = host.find_first_of(".:") != std::string_view::npos || host == "localhost" ||
                  lower(host) != host;
  std::string_view rest = has_host ? name.substr(slash + 1) : name;
  auto colon = rest.find(':');
  std::string_view repository = rest.substr(0, colon);
  bool good = !repository.empty() && std::ranges::all_of(split(repository, '/'), isRepositoryPart);
  // That is the number of an image, not its name.
  if (image.size() == 64 && std::ranges::all_of(image, isHex)) good = false;
  if (!good || (has_host && !isRegistry(host)) || (with_digest && !isDigest(digest))) return {};
  if (colon == std::string_view::npos) return with_digest ? "" : "latest";
  std::string_view tag = rest.substr(colon + 1);
  return isTag(tag) ? tag : std::string_view();
}

std::string_view pullPolicy(const Value& image) {
  return imageTag(image.string()) == "latest" ? "Always" : "IfNotPresent";
}

void defaultContainer(Value& container) {
  setIfEmpty(container, "imagePullPolicy", pullPolicy(container["image"]));
}

void defaultVolume(Value& volume) {
  bool bare = true;
  for (const auto& [name, value] : volume.object()) bare = bare && name == "name";
  if (bare) volume.make("emptyDir") = json::Object{};
  if (volume["image"].isObject() && volume["image"]["pullPolicy"].string().empty())
    volume.make("image").make("pullPolicy") = pullPolicy(volume["image"]["reference"]);
}

// Two names for one field; the newer one is meant where they differ.
void defaultPodSpec(Value& spec) {
  if (!isEmpty(spec["serviceAccount"]))
    setIfEmpty(spec, "serviceAccountName", Value(spec["serviceAccount"]));
  if (isEmpty(spec["serviceAccountName"]))
    spec.makeObject().erase("serviceAccountName");
  else
    spec.make("serviceAccount") = Value(spec["serviceAccountName"]);
  // Only init containers have a say in when they are restarted.
  if (!spec["containers"].isArray()) return;
  for (Value& container : spec.make("containers").makeArray())
    for (std::string_view name : {"restartPolicy", "restartPolicyRules"})
      container.makeObject().erase(name);
}

// Of Pods alone, not of templates.
void defaultPod(Value& pod) {
  Value& spec = pod.make("spec");
  bool host_network = spec["hostNetwork"].boolean();
  for (std::string_view list : {"containers", "initContainers"}) {
    if (!spec[list].isArray()) continue;
    for (Value& container : spec.make(list).makeArray()) {
      const Value limits = container["resources"]["limits"];
      for (const auto& [name, amount] : limits.object())
        setIfMissing(container.make("resources").make("requests"), name, amount);
      if (!host_network || !container["ports"].isArray()) continue;
      for (Value& port : container.make("ports").makeArray())
        setIfEmpty(port, "hostPort", port["containerPort"]);
    }
  }
  setIfMissing(spec, "enableServiceLinks", true);
  if (spec["terminationGracePeriodSeconds"].integer() < 0)
    spec.make("terminationGracePeriodSeconds") = 1;
  const Value limits = spec["resources"]["limits"];
  if (limits.object().empty()) return;
  // What the containers ask for together, then what the pod may use.
  std::map<std::string, kube::Quantity> asked;
  for (const Value& container : spec["containers"].array())
    for (const auto& [name, amount] : container["resources"]["requests"].object())
      if (name == "cpu" || name == "memory") {
        auto one = kube::Quantity::fromJson(amount);
        if (!one) continue;
        auto [at, fresh] = asked.emplace(name, *one);
        if (auto sum = at->second.add(*one); !fresh && sum) at->second = *sum;
      }
  Value& requests = spec.make("resources").make("requests");
  for (const auto& [name, amount] : asked) setIfMissing(requests, name, amount.text());
  for (const auto& [name, amount] : limits.object()) setIfMissing(requests, name, amount);
}

void defaultService(Value& service) {
  Value& spec = service.make("spec");
  // Here and not as rows: what follows looks at them.
  setIfEmpty(spec, "type", "ClusterIP");
  setIfEmpty(spec, "sessionAffinity", "None");
  const std::string type = spec["type"].string();
  if (spec["sessionAffinity"].string() == "None") {
    spec.makeObject().erase("sessionAffinityConfig");
  } else if (spec["sessionAffinity"].string() == "ClientIP" &&
             spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"].isNull()) {
    spec.make("sessionAffinityConfig") =
        json::Object{{"clientIP", json::Object{{"timeoutSeconds", 10800}}}};
  }
  if (spec["ports"].isArray())
    for (Value& port : spec.make("ports").makeArray()) setIfEmpty(port, "targetPort", port["port"]);
  bool reached = type == "NodePort" || type == "LoadBalancer" ||
                 (type == "ClusterIP" && !spec["externalIPs"].array().empty());
  if (reached) setIfEmpty(spec, "externalTrafficPolicy", "Cluster");
  if (type == "NodePort" || type == "LoadBalancer" || type == "ClusterIP")
    setIfMissing(spec, "internalTrafficPolicy", "Cluster");
  if (type == "ExternalName") spec.makeObject().erase("internalTrafficPolicy");
  if (type != "LoadBalancer") return;
  setIfMissing(spec, "allocateLoadBalancerNodePorts", true);
  if (service["status"]["loadBalancer"]["ingress"].isArray())
    for (Value& one : service.make("status").make("loadBalancer").make("ingress").makeArray())
      if (!one["ip"].string().empty()) setIfMissing(one, "ipMode", "VIP");
}

void defaultSecret(Value& secret) {
  const Value texts = secret["stringData"];
  for (const auto& [key, text] : texts.object())
    secret.make("data").make(key) = base64Encode(text.string());
  secret.makeObject().erase("stringData");
}

void defaultNamespace(Value& object) {
  const Value& name = object["metadata"]["name"];
  if (!name.string().empty())
    object.make("metadata").make("labels").make("kubernetes.io/metadata.name") = Value(name);
}

// Again two names for one field.
void defaultNodeSpec(Value& spec) {
  const std::string first = spec["podCIDR"].string();
  if (!first.empty() && spec["podCIDRs"].at(0).string() != first)
    spec.make("podCIDRs") = json::Array{first};
  else if (first.empty() && !spec["podCIDRs"].array().empty())
    spec.make("podCIDR") = Value(spec["podCIDRs"].at(0));
}

// And here: the single one counts.
void defaultPodStatus(Value& status) {
  const std::string first = status["podIP"].string();
  if (!first.empty() && status["podIPs"].at(0)["ip"].string() != first)
    status.make("podIPs") = json::Array{json::Object{{"ip", first}}};
  else if (first.empty() && !status["podIPs"].array().empty())
    status.make("podIP") = Value(status["podIPs"].at(0)["ip"]);
}

void defaultNodeStatus(Value& status) {
  if (!status["capacity"].isNull()) setIfMissing(status, "allocatable", status["capacity"]);
}

void defaultLimitRangeItem(Value& item) {
  if (item["type"].string() != "Container") return;
  auto copy = [&](std::string_view from, std::string_view to) {
    const Value source = item[from];
    for (const auto& [name, amount] : source.object()) setIfMissing(item.make(to), name, amount);
  };
  copy("max", "default");
  copy("default", "defaultRequest");
  copy("min", "defaultRequest");
}

// Old kinds take their labels from the template, and a selector if there is none.
void defaultLabels(Value& object) {
  const Value labels = object["spec"]["template"]["metadata"]["labels"];
  if (!labels.object().empty()) setIfEmpty(object.make("metadata"), "labels", labels);
}
void defaultReplicationController(Value& object) {
  const Value labels = object["spec"]["template"]["metadata"]["labels"];
  if (!labels.object().empty()) setIfEmpty(object.make("spec"), "selector", labels);
  defaultLabels(object);
}

void defaultDeployment(Value& spec) {
  Value& strategy = spec.make("strategy");
  setIfEmpty(strategy, "type", "RollingUpdate");
  if (strategy["type"].string() != "RollingUpdate") return;
  Value& rolling = strategy.make("rollingUpdate");
  setIfMissing(rolling, "maxUnavailable", "25%");
  setIfMissing(rolling, "maxSurge", "25%");
}

void defaultDaemonSet(Value& spec) {
  Value& strategy = spec.make("updateStrategy");
  setIfEmpty(strategy, "type", "RollingUpdate");
  if (strategy["type"].string() != "RollingUpdate") return;
  Value& rolling = strategy.make("rollingUpdate");
  setIfMissing(rolling, "maxUnavailable", 1);
  setIfMissing(rolling, "maxSurge", 0);
}

void defaultStatefulSet(Value& spec) {
  Value& strategy = spec.make("updateStrategy");
  if (strategy["type"].string().empty()) {
    strategy.make("type") = "RollingUpdate";
    setIfMissing(strategy, "rollingUpdate", json::Object{});
  }
  if (strategy["type"].string() == "RollingUpdate" && strategy["rollingUpdate"].isObject())
    setIfMissing(strategy.make("rollingUpdate"), "partition", 0);
  if (!spec["volumeClaimTemplates"].isArray()) return;
  for (Value& claim : spec.make("volumeClaimTemplates").makeArray()) {
    claim.make("apiVersion") = "v1";
    claim.make("kind") = "PersistentVolumeClaim";
  }
}

void defaultJob(Value& job) {
  Value& spec = job.make("spec");
  if (spec["completions"].isNull() && spec["parallelism"].isNull()) spec.make("completions") = 1;
  setIfMissing(spec, "parallelism", 1);
  setIfMissing(
      spec, "backoffLimit",
      spec["backoffLimitPerIndex"].isNull() ? 6 : std::numeric_limits<std::int32_t>::max());
  setIfMissing(spec, "completionMode", "NonIndexed");
  setIfMissing(spec, "suspend", false);
  setIfMissing(spec, "manualSelector", false);
  setIfMissing(spec, "podReplacementPolicy",
               spec["podFailurePolicy"].isNull() ? "TerminatingOrFailed" : "Failed");
  defaultLabels(job);
}

void defaultNetworkPolicy(Value& spec) {
  if (!spec["policyTypes"].array().empty()) return;
  json::Array types = {"Ingress"};
  if (!spec["egress"].array().empty()) types.emplace_back("Egress");
  spec.make("policyTypes") = std::move(types);
}

json::Object scalingPolicy(std::string_view type, int value) {
  return {{"type", type}, {"value", value}, {"periodSeconds", 15}};
}

void defaultAutoscaler(Value& spec) {
  setIfEmpty(
      spec, "metrics",
      json::Array{json::Object{
          {"type", "Resource"},
          {"resource", json::Object{{"name", "cpu"},
                                    {"target", json::Object{{"type", "Utilization"},
                                                            {"averageUtilization", 80}}}}}}});
  if (!spec["behavior"].isObject()) return;
  Value& up = spec.make("behavior").make("scaleUp");
  setIfMissing(up, "stabilizationWindowSeconds", 0);
  setIfMissing(up, "selectPolicy", "Max");
  setIfMissing(up, "policies",
               json::Array{scalingPolicy("Pods", 4), scalingPolicy("Percent", 100)});
  Value& down = spec.make("behavior").make("scaleDown");
  setIfMissing(down, "selectPolicy", "Max");
  setIfMissing(down, "policies", json::Array{scalingPolicy("Percent", 100)});
}

void defaultSubject(Value& subject) {
  const std::string& kind = subject["kind"].string();
  if (kind == "User" || kind == "Group")
    setIfEmpty(subject, "apiGroup", "rbac.authorization.k8s.io");
}

void defaultCustomResourceDefinition(Value& spec) {
  Value& names = spec.make("names");
  const std::string kind = names["kind"].string();
  if (kind.empty()) return;
  setIfEmpty(names, "singular", lower(kind));
  setIfEmpty(names, "listKind", kind + "List");
}

struct Function {
  std::string_view type;
  void (*apply)(Value& value);
};

// Before the rows of what is inside, after those of the type itself.
constexpr Function kFunctions[] = {
    {"core/v1 Container", defaultContainer},
    {"core/v1 EphemeralContainerCommon", defaultContainer},
    {"core/v1 Volume", defaultVolume},
    {"core/v1 PodSpec", defaultPodSpec},
    {"core/v1 Pod", defaultPod},
    {"core/v1 Service", defaultService},
    {"core/v1 Secret", defaultSecret},
    {"core/v1 Namespace", defaultNamespace},
    {"core/v1 NodeSpec", defaultNodeSpec},
    {"core/v1 NodeStatus", defaultNodeStatus},
    {"core/v1 PodStatus", defaultPodStatus},
    {"core/v1 LimitRangeItem", defaultLimitRangeItem},
    {"core/v1 ReplicationController", defaultReplicationController},
    {"apps/v1 DeploymentSpec", defaultDeployment},
    {"apps/v1 DaemonSetSpec", defaultDaemonSet},
    {"apps/v1 StatefulSetSpec", defaultStatefulSet},
    {"batch/v1 Job", defaultJob},
    {"networking/v1 NetworkPolicySpec", defaultNetworkPolicy},
    {"autoscaling/v2 HorizontalPodAutoscalerSpec", defaultAutoscaler},
    {"rbac/v1 Subject", defaultSubject},
    {"apiextensions/v1 CustomResourceDefinitionSpec", defaultCustomResourceDefinition},
};

// What is to be done with values of a type: found once, for there are hundreds of types.
struct Plan {
  std::vector<const kube::FieldDefault*> rows;
  void (*apply)(Value& value) = nullptr;
};

const Plan* planOf(std::string_view type) {
  static const std::map<std::string_view, Plan> kPlans = [] {
    std::map<std::string_view, Plan> plans;
    for (const kube::FieldDefault& row : kube::fieldDefaults())
      plans[row.type].rows.push_back(&row);
    for (const Function& function : kFunctions) plans[function.type].apply = function.apply;
    return plans;
  }();
  auto found = kPlans.find(type);
  return found == kPlans.end() ? nullptr : &found->second;
}

// Amounts of resources are counted in thousandths; what is finer is rounded up.
void roundUp(Value& list) {
  for (auto& [name, amount] : list.makeObject()) {
    auto quantity = kube::Quantity::fromJson(amount);
    if (!quantity) continue;
    kube::Quantity rounded = quantity->roundedToMillis();
    if (rounded != *quantity) amount = rounded.text();
  }
}

void walk(Type type, Value& value);

void walkStruct(Type type, Value& value) {
  if (const Plan* plan = planOf(type.name())) {
    for (const kube::FieldDefault* row : plan->rows) {
      auto field = type.field(row->field);
      if (field && field->isPointer())
        setIfMissing(value, row->field, row->value);
      else
        setIfEmpty(value, row->field, row->value);
    }
    if (plan->apply) plan->apply(value);
  }
  for (std::size_t i = 0; i < type.fieldCount() && type.fieldAt(i).isInline(); ++i)
    walkStruct(type.fieldAt(i).type(), value);
  for (auto& [name, member] : value.makeObject()) {
    if (!member.isObject() && !member.isArray()) continue;
    auto field = type.ownField(name);
    if (!field) continue;
    if (field->goName() == "v1.ResourceList") roundUp(member);
    walk(field->type(), member);
  }
}

void walk(Type type, Value& value) {
  if (type.form() == Form::Struct && value.isObject()) walkStruct(type, value);
  if (type.form() == Form::List && value.isArray() && type.element().form() == Form::Struct)
    for (Value& element : value.makeArray()) walk(type.element(), element);
  if (type.form() == Form::Map && value.isObject() && type.element().form() == Form::Struct)
    for (auto& [key, member] : value.makeObject()) walk(type.element(), member);
}

// --- on create and update

// Of a cluster with IPv4 alone, which the hub's is.
void setIpFamilies(Value& spec) {
  const std::string& type = spec["type"].string();
  if (type == "ExternalName") return;
  const std::string ip = spec["clusterIP"].string();
  if (!ip.empty() && spec["clusterIPs"].array().empty()) spec.make("clusterIPs") = json::Array{ip};
  if (ip.empty() && !spec["clusterIPs"].array().empty())
    spec.make("clusterIP") = Value(spec["clusterIPs"].at(0));
  // Without a selector somebody else makes the endpoints, of whatever family.
  bool free = spec["clusterIP"].string() == "None" && spec["selector"].object().empty();
  setIfMissing(spec, "ipFamilyPolicy", free ? "RequireDualStack" : "SingleStack");
  setIfEmpty(spec, "ipFamilies", free ? json::Array{"IPv4", "IPv6"} : json::Array{"IPv4"});
}

void setJobSelector(Value& job) {
  if (job["spec"]["manualSelector"].boolean()) return;
  const std::string uid = job["metadata"]["uid"].string();
  const std::string name = job["metadata"]["name"].string();
  const json::Object added = {{"controller-uid", uid},
                              {"job-name", name},
                              {"batch.kubernetes.io/controller-uid", uid},
                              {"batch.kubernetes.io/job-name", name}};
  // Labels that the Job took from its template are the same ones still.
  bool shared = !job["metadata"]["labels"].object().empty() &&
                job["metadata"]["labels"] == job["spec"]["template"]["metadata"]["labels"];
  for (const auto& [key, value] : added) {
    job.make("spec").make("template").make("metadata").make("labels").make(key) = value;
    if (shared) job.make("metadata").make("labels").make(key) = value;
  }
  Value& labels = job.make("spec").make("selector").make("matchLabels");
  setIfMissing(labels, "batch.kubernetes.io/controller-uid", uid);
}

// Data sources have two names as well, but not for objects of other namespaces. The older one is
// for claims and snapshots alone, unless it was there.
void mirrorDataSource(Value& spec, const Value& old) {
  const Value& given = spec["dataSource"];
  const std::string &group = given["apiGroup"].string(), &kind = given["kind"].string();
  bool known = (group.empty() && kind == "PersistentVolumeClaim") ||
               (group == "snapshot.storage.k8s.io" && kind == "VolumeSnapshot");
  if (given.isObject() && !known && old["dataSource"].isNull())
    spec.makeObject().erase("dataSource");
  const Value source = spec["dataSource"], reference = spec["dataSourceRef"];
  if (source.isObject() && reference.isNull()) spec.make("dataSourceRef") = source;
  if (source.isNull() && reference.isObject() && reference["namespace"].string().empty())
    spec.make("dataSource") = reference;
}

// Fields of a feature that an API server has not switched on.
void dropCoordination(Value& lease) {
  for (std::string_view name : {"strategy", "preferredHolder"})
    if (lease["spec"].isObject()) lease.make("spec").makeObject().erase(name);
}

void emptyStatus(const BuiltIn& kind, Value& object) {
  if (kind.hasStatus() && !kind.status_on_create) object.makeObject().erase("status");
}

bool sameBut(const Value& a, const Value& b, std::initializer_list<std::string_view> passed_over) {
  json::Object left = a.object(), right = b.object();
  for (std::string_view name : passed_over) {
    left.erase(name);
    right.erase(name);
  }
  return left == right;
}

bool counts(Generation generation, const Value& object, const Value& old) {
  const Value &meta = object["metadata"], &old_meta = old["metadata"];
  switch (generation) {
    case Generation::Never:
    case Generation::First:
      return false;
    case Generation::Spec:
    case Generation::SpecFromNone:
      return object["spec"] != old["spec"];
    case Generation::SpecOrAnnotations:
      return object["spec"] != old["spec"] || meta["annotations"] != old_meta["annotations"];
    case Generation::AllButMetadata:
      return !sameBut(object, old, {"metadata", "status"});
    case Generation::AllButMetadataOrLabels:
      return !sameBut(object, old, {"metadata", "status"}) || meta["labels"] != old_meta["labels"];
  }
  return false;
}

void keep(Value& object, const Value& old, std::string_view name) {
  if (old[name].isNull())
    object.makeObject().erase(name);
  else
    object.make(name) = old[name];
}

}  // namespace

void setDefaults(const BuiltIn& kind, Value& object) { walk(kind.type(), object); }

std::string_view qualityOfService(const Value& pod) {
  using Amounts = std::map<std::string, kube::Quantity>;
  Amounts requests, limits;
  auto add = [](Amounts& to, const Value& list) {
    std::size_t found = 0;
    for (const auto& [name, amount] : list.object()) {
      auto one = kube::Quantity::fromJson(amount);
      if ((name != "cpu" && name != "memory") || !one || *one <= kube::Quantity()) continue;
      ++found;
      auto [at, fresh] = to.emplace(name, *one);
      if (auto sum = at->second.add(*one); !fresh && sum) at->second = *sum;
    }
    return found;
  };
  bool guaranteed = true;
  const Value& spec = pod["spec"];
  auto look = [&](const Value& resources) {
    add(requests, resources["requests"]);
    if (add(limits, resources["limits"]) < 2) guaranteed = false;
  };
  if (spec["resources"].isObject()) {
    look(spec["resources"]);
  } else {
    for (std::string_view list : {"containers", "initContainers"})
      for (const Value& container : spec[list].array()) look(container["resources"]);
  }
  if (requests.empty() && limits.empty()) return "BestEffort";
  return guaranteed && requests == limits ? "Guaranteed" : "Burstable";
}

void prepareForCreate(const BuiltIn& kind, Value& object) {
  emptyStatus(kind, object);
  if (kind.generation == Generation::Never || kind.generation == Generation::SpecFromNone)
    object.make("metadata").makeObject().erase("generation");
  else
    object.make("metadata").make("generation") = 1;
  if (kind.group == "batch" && kind.kind == "Job") setJobSelector(object);
  if (kind.kind == "Lease") dropCoordination(object);
  if (kind.kind == "DaemonSet")
    setIfMissing(object.make("metadata").make("annotations"), kTemplateGeneration, "1");
  if (kind.kind == "CustomResourceDefinition") {
    json::Array stored;
    for (const Value& version : object["spec"]["versions"].array())
      if (version["storage"].boolean() && stored.empty()) stored.push_back(version["name"]);
    object.make("status").make("storedVersions") = std::move(stored);
  }
  if (!kind.group.empty()) return;
  if (kind.kind == "Pod") {
    object.make("status") =
        json::Object{{"phase", "Pending"}, {"qosClass", qualityOfService(object)}};
    if (!object["spec"]["schedulingGates"].array().empty())
      object.make("status").make("conditions") = json::Array{
          json::Object{{"type", "PodScheduled"},
                       {"status", "False"},
                       {"reason", "SchedulingGated"},
                       {"message", "Scheduling is blocked due to non-empty scheduling gates"}}};
  } else if (kind.kind == "Namespace") {
    object.make("status").make("phase") = "Active";
    json::Array& finalizers = object.make("spec").make("finalizers").makeArray();
    if (std::ranges::find(finalizers, Value("kubernetes")) == finalizers.end())
      finalizers.emplace_back("kubernetes");
  } else if (kind.kind == "PersistentVolume" || kind.kind == "PersistentVolumeClaim") {
    object.make("status").make("phase") = "Pending";
    if (kind.kind == "PersistentVolumeClaim") mirrorDataSource(object.make("spec"), {});
  } else if (kind.kind == "Service") {
    setIpFamilies(object.make("spec"));
  }
}

bool hasNodePorts(const Value& spec) {
  return spec["type"].string() == "NodePort" || spec["type"].string() == "LoadBalancer";
}

std::set<std::int64_t> nodePorts(const Value& spec) {
  std::set<std::int64_t> ports;
  for (const Value& port : spec["ports"].array())
    if (auto number = port["nodePort"].integer(); number != 0) ports.insert(number);
  return ports;
}

// A port of that name keeps its number, whatever else becomes of it, unless another one has it.
void keepNodePorts(Value& spec, const Value& old) {
  std::map<std::string, std::int64_t> had;
  for (const Value& port : old["ports"].array())
    had[port["name"].string()] = port["nodePort"].integer();
  std::set<std::int64_t> used = nodePorts(spec);
  for (Value& port : spec.make("ports").makeArray()) {
    auto before = had.find(port["name"].string());
    if (port["nodePort"].integer() != 0 || before == had.end() || before->second == 0) continue;
    if (used.insert(before->second).second) port.make("nodePort") = before->second;
  }
}

// What was allocated stays, unless something else is asked for; and goes, where the type no longer
// has it, unless it is asked for.
void keepAllocated(Value& spec, const Value& old) {
  auto isElsewhere = [](const Value& one) { return one["type"].string() == "ExternalName"; };
  constexpr std::string_view kAddresses[] = {"clusterIP", "clusterIPs", "ipFamilies",
                                             "ipFamilyPolicy"};
  if (!isElsewhere(spec) && !isElsewhere(old))
    for (std::string_view name : kAddresses)
      if (!old[name].isNull() && (name != "ipFamilyPolicy" || spec[name].isNull()))
        setIfEmpty(spec, name, old[name]);
  if (isElsewhere(spec) && !isElsewhere(old)) {
    const bool same_address =
        spec["clusterIP"] == old["clusterIP"] && spec["clusterIPs"] == old["clusterIPs"];
    for (std::string_view name : kAddresses)
      if (name.starts_with("cluster") ? same_address : spec[name] == old[name])
        spec.makeObject().erase(name);
  }
  if (hasNodePorts(spec) && hasNodePorts(old)) {
    keepNodePorts(spec, old);
    if (spec["externalTrafficPolicy"].string() == "Local" && !old["healthCheckNodePort"].isNull())
      setIfEmpty(spec, "healthCheckNodePort", old["healthCheckNodePort"]);
  }
  // Ports may come and go, as long as none asks for another number.
  if (!hasNodePorts(spec) && hasNodePorts(old) &&
      std::ranges::includes(nodePorts(old), nodePorts(spec)))
    for (Value& port : spec.make("ports").makeArray()) port.makeObject().erase("nodePort");
  auto isBalanced = [](const Value& one) { return one["type"].string() == "LoadBalancer"; };
  auto isReached = [](const Value& one) {
    return hasNodePorts(one) ||
           (one["type"].string() == "ClusterIP" && !one["externalIPs"].array().empty());
  };
  auto dropUnless = [&](auto has, std::string_view name) {
    if (has(old) && !has(spec) && spec[name] == old[name]) spec.makeObject().erase(name);
  };
  dropUnless(isBalanced, "allocateLoadBalancerNodePorts");
  dropUnless(isBalanced, "loadBalancerClass");
  dropUnless(isReached, "externalTrafficPolicy");
  dropUnless(
      [&](const Value& one) {
        return isBalanced(one) && one["externalTrafficPolicy"].string() == "Local";
      },
      "healthCheckNodePort");
}

void prepareForUpdate(const BuiltIn& kind, Value& object, const Value& old) {
  if (kind.hasStatus()) keep(object, old, "status");
  if (kind.kind == "Namespace") keep(object.make("spec"), old["spec"], "finalizers");
  if (kind.kind == "Lease") dropCoordination(object);
  if (kind.kind == "PersistentVolumeClaim") mirrorDataSource(object.make("spec"), old["spec"]);
  if (kind.kind == "Service" && kind.group.empty()) {
    Value& spec = object.make("spec");
    keepAllocated(spec, old["spec"]);
    // Who writes one of the two names of it means both.
    if (spec["clusterIP"] != old["spec"]["clusterIP"] &&
        spec["clusterIPs"] == old["spec"]["clusterIPs"])
      spec.make("clusterIPs") = json::Array{spec["clusterIP"]};
    setIpFamilies(spec);
  }
  if (kind.kind == "DaemonSet") {
    auto generation =
        parseInt(old["metadata"]["annotations"][kTemplateGeneration].string()).value_or(0);
    if (object["spec"]["template"] != old["spec"]["template"]) ++generation;
    if (generation > 0)
      object.make("metadata").make("annotations").make(kTemplateGeneration) =
          std::to_string(generation);
  }
  Value& meta = object.make("metadata");
  keep(meta, old["metadata"], "generation");
  if (kind.generation != Generation::Never && counts(kind.generation, object, old))
    meta.make("generation") = old["metadata"]["generation"].integer() + 1;
}

void prepareForStatusUpdate(const BuiltIn& kind, Value& object, const Value& old) {
  Value kept = std::move(object.make("status"));
  Value meta = std::move(object.make("metadata"));
  keep(meta, old["metadata"], "generation");
  if (kind.kind == "Deployment") keep(meta, old["metadata"], "labels");
  if (kind.kind == "Pod") {
    keep(meta, old["metadata"], "ownerReferences");
    setIfEmpty(kept, "qosClass", old["status"]["qosClass"]);
  }
  object = old;
  object.make("metadata") = std::move(meta);
  object.make("status") = std::move(kept);
}

}  // namespace cadre::hub
