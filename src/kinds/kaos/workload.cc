#include "kinds/kaos/workload.h"

#include <algorithm>

#include "base/format.h"
#include "base/strings.h"
#include "json/patch.h"
#include "json/write.h"
#include "kinds/kaos/check.h"
#include "kube/names.h"
#include "kube/strategic_merge.h"
#include "kube/types.h"
#include "kube/validate.h"
#include "net/tls.h"

namespace cadre::kaos {

const kube::Resource kAgents{"kaos.tools", "v1alpha1", "agents", "Agent"};
const kube::Resource kModelApis{"kaos.tools", "v1alpha1", "modelapis", "ModelAPI"};
const kube::Resource kMcpServers{"kaos.tools", "v1alpha1", "mcpservers", "MCPServer"};
const kube::Resource kDeployments{"apps", "v1", "deployments", "Deployment"};
const kube::Resource kServices{"", "v1", "services", "Service"};
const kube::Resource kConfigMaps{"", "v1", "configmaps", "ConfigMap"};
const kube::Resource kSecrets{"", "v1", "secrets", "Secret"};
const kube::Resource kPods{"", "v1", "pods", "Pod"};
const kube::Resource kHttpRoutes{"gateway.networking.k8s.io", "v1", "httproutes", "HTTPRoute"};

namespace {

constexpr int kUser = 65532;
constexpr std::string_view kHashAnnotation = "kaos.tools/pod-spec-hash";

json::Value metadata(const Subject& subject, std::string_view name) {
  return json::Object{{"name", name}, {"namespace", subject.ns}, {"labels", subject.labels()}};
}

const json::Value* conditionOf(const json::Value& status, std::string_view type) {
  for (const json::Value& condition : status["conditions"].array())
    if (condition["type"].string() == type) return &condition;
  return nullptr;
}

// ---- Views: what a plan reads of other objects

json::Value ownerView(const json::Value& object) {
  const json::Value& metadata = object["metadata"];
  return json::Object{{"metadata", json::Object{{"labels", metadata["labels"]},
                                                {"ownerReferences", metadata["ownerReferences"]}}}};
}

json::Value rolloutView(const json::Value& deployment) {
  json::Value view = ownerView(deployment);
  view.make("generation") = kube::generation(deployment);
  view.make("replicas") = deployment["spec"]["replicas"];
  view.make("status") = deployment["status"];
  return view;
}

json::Value troubleView(const json::Value& pod) {
  json::Object view{{"name", kube::name(pod)}};
  if (const json::Value* placed = conditionOf(pod["status"], "PodScheduled");
      placed && (*placed)["status"].string() == "False")
    view.set("unplaced", (*placed)["message"]);
  for (std::string_view list : {"initContainerStatuses", "containerStatuses"}) {
    json::Array states;
    for (const json::Value& status : pod["status"][list].array())
      states.push_back(json::Object{{"name", status["name"]},
                                    {"waiting", status["state"]["waiting"]},
                                    {"running", !status["state"]["running"].isNull()},
                                    {"terminated", status["state"]["terminated"]},
                                    {"lastMessage", status["lastState"]["terminated"]["message"]}});
    view.set(list, std::move(states));
  }
  return view;
}

json::Value dataView(const json::Value& object) {
  return json::Object{{"data", object["data"]}, {"binaryData", object["binaryData"]}};
}

json::Value parentsView(const json::Value& route) {
  json::Value view = ownerView(route);
  view.make("parents") = route["status"]["parents"];
  return view;
}

struct Reason {
  std::string reason, message;
};

// Why its pods do not run, from what they say themselves.
std::optional<Reason> podTrouble(const std::vector<const json::Value*>& pods) {
  for (const json::Value* pod : pods) {
    if (const json::Value& why = (*pod)["unplaced"]; !why.isNull())
      return Reason{"PodsNotReady", format("pod {} has no node: {}", (*pod)["name"].string(),
                                           std::string(trim(why.string())))};
    for (std::string_view list : {"initContainerStatuses", "containerStatuses"})
      for (const json::Value& state : (*pod)[list].array()) {
        const std::string& waiting = state["waiting"]["reason"].string();
        const std::string& container = state["name"].string();
        std::string where = format("pod {}, container {}", (*pod)["name"].string(), container);
        std::string detail = state["waiting"]["message"].string();
        if (const std::string& last = state["lastMessage"].string(); !last.empty())
          detail = std::string(trim(last));
        bool pull = container == "pull-model";
        if (waiting == "ErrImagePull" || waiting == "ImagePullBackOff" ||
            waiting == "InvalidImageName" || waiting == "ErrImageNeverPull")
          return Reason{"ImagePullFailed", format("{}: {}", where, detail)};
        if (waiting == "CrashLoopBackOff")
          return Reason{pull ? "PullFailed" : "CrashLooping", format("{}: {}", where, detail)};
        if (waiting == "CreateContainerConfigError" || waiting == "CreateContainerError")
          return Reason{"PodsNotReady", format("{}: {}", where, detail)};
        if (const json::Value& ended = state["terminated"];
            pull && ended["exitCode"].integer() != 0)
          return Reason{"PullFailed",
                        format("{}: {}", where, std::string(trim(ended["message"].string())))};
        if (pull && state["running"].boolean())
          return Reason{"PullingModel", format("pod {} pulls the model", (*pod)["name"].string())};
      }
  }
  return std::nullopt;
}

}  // namespace

// ---- Names

std::string Subject::workload() const { return kube::boundedName(word + "-", name); }

json::Value Subject::selector() const { return json::Object{{"app", word}, {word, name}}; }

std::string Subject::selectorText() const { return format("app={},{}={}", word, word, name); }

json::Value Subject::labels() const {
  json::Value labels = selector();
  labels.make("app.kubernetes.io/name") = word;
  labels.make("app.kubernetes.io/instance") = name;
  labels.make("app.kubernetes.io/part-of") = "kaos";
  return labels;
}

std::string Subject::endpoint(const Settings& settings) const {
  return format("http://{}.{}.svc.{}:{}", workload(), ns, settings.cluster_domain, port);
}

Subject agentSubject(const std::string& ns, const std::string& name) {
  return {"agent", "agent", "agent", name, ns, 8000, true};
}

Subject modelApiSubject(const std::string& ns, const std::string& name, bool hosted) {
  return {"modelapi", "modelapi", "model-api", name, ns, hosted ? 11434 : 8000, false};
}

Subject mcpServerSubject(const std::string& ns, const std::string& name) {
  return {"mcpserver", "mcp", "mcp-server", name, ns, 8000, true};
}

// ---- The pod

namespace {

// Nulls count as absent: typed clients write them for what they do not mean.
json::Value withoutNulls(const json::Value& value) {
  if (value.isArray()) {
    json::Array list;
    for (const json::Value& element : value.array())
      if (!element.isNull()) list.push_back(withoutNulls(element));
    return list;
  }
  if (!value.isObject()) return value;
  json::Object object;
  for (const auto& [name, member] : value.object())
    if (!member.isNull()) object.set(name, withoutNulls(member));
  return object;
}

// Of what it is merged into, nothing stays that is not named here.
void retainOnly(json::Value& element) {
  if (!element.isObject()) return;
  json::Array names;
  for (const auto& [name, member] : element.object()) names.emplace_back(name);
  element.make("$retainKeys") = std::move(names);
}

}  // namespace

Result<json::Value> podSpec(PodParts parts, const CommonSpec& spec, const json::Value& resources) {
  json::Value container = std::move(parts.container);
  container.make("imagePullPolicy") = "IfNotPresent";
  json::Value security = json::Object{{"allowPrivilegeEscalation", false},
                                      {"readOnlyRootFilesystem", parts.read_only_root},
                                      {"capabilities", json::Object{{"drop", json::Array{"ALL"}}}}};
  // Generated, and what the container itself has of it.
  json::Value& own = container.make("securityContext");
  own = json::applyMergePatch(security, own.isNull() ? json::Object{} : own);
  for (json::Value& init : parts.init_containers) {
    init.make("imagePullPolicy") = "IfNotPresent";
    if (init["securityContext"].isNull()) init.make("securityContext") = security;
  }
  if (!parts.env.generates("HOME")) parts.env.add("HOME", parts.home);
  container.make("env") = parts.env.finish();

  parts.mounts.set("/tmp", json::Object{{"name", "tmp"}});
  parts.volumes.push_back(json::Object{{"name", "tmp"}, {"emptyDir", json::Object{}}});
  json::Array mounts;
  for (auto& [path, mount] : parts.mounts) {
    json::Value one = mount;
    one.make("mountPath") = path;
    mounts.push_back(std::move(one));
  }
  container.make("volumeMounts") = std::move(mounts);

  if (!resources.isNull()) container.make("resources") = resources;
  if (spec.container) {
    const Container& over = *spec.container;
    if (!over.image.empty()) container.make("image") = over.image;
    auto replace = [&](std::string_view field, const std::vector<std::string>& words) {
      if (words.empty()) return;
      json::Array list;
      for (const std::string& word : words) list.emplace_back(word);
      container.make(field) = std::move(list);
    };
    replace("command", over.command);
    replace("args", over.args);
    if (!over.resources.isNull()) container.make("resources") = over.resources;
  }

  json::Value pod =
      json::Object{{"securityContext",
                    json::Object{{"runAsNonRoot", true},
                                 {"runAsUser", kUser},
                                 {"runAsGroup", kUser},
                                 {"fsGroup", kUser},
                                 {"seccompProfile", json::Object{{"type", "RuntimeDefault"}}}}},
                   {"containers", json::Array{std::move(container)}},
                   {"volumes", std::move(parts.volumes)}};
  if (!parts.init_containers.empty()) pod.make("initContainers") = std::move(parts.init_containers);
  bool token = parts.token || !parts.service_account.empty() ||
               !spec.pod_spec["serviceAccountName"].string().empty() ||
               !spec.pod_spec["serviceAccount"].string().empty();
  if (!parts.service_account.empty()) pod.make("serviceAccountName") = parts.service_account;
  pod.make("automountServiceAccountToken") = token;
  if (!spec.pod_spec.isObject()) return pod;

  const kube::Type type = kube::Type::of("", "v1", "Pod").field("spec")->type();
  json::Value over = withoutNulls(spec.pod_spec);
  // A volume or claim has one source: another one takes its place.
  for (std::string_view list : {"volumes", "resourceClaims"})
    if (over[list].isArray())
      for (json::Value& element : over.make(list).makeArray()) retainOnly(element);
  // The old name of the account, which servers write beside the new one.
  if (over["serviceAccountName"].isNull() && over["serviceAccount"].isString())
    over.make("serviceAccountName") = json::Value(over["serviceAccount"]);
  return kube::strategicMerge(type, std::move(pod), over);
}

bool Inputs::look(engine::World& world, const std::string& ns, bool secret, const std::string& name,
                  const std::string& key, bool optional) {
  std::string kind = secret ? "Secret" : "ConfigMap";
  const json::Value& found =
      world.get(secret ? kSecrets : kConfigMaps, {ns, name}, {"data", dataView});
  std::string_view value = found["data"][key].string();
  if (value.empty() && !found["data"][key].isString()) value = found["binaryData"][key].string();
  bool there = found["data"][key].isString() || found["binaryData"][key].isString();
  if (there) texts.push_back(format("{} {} {}={}", kind, name, key, value));
  if (there || optional) return there;
  if (found.isNull()) {
    missing.push_back({kind + "NotFound", format("{} \"{}\" not found (key \"{}\" is needed); "
                                                 "create it in namespace {}",
                                                 kind, name, key, ns)});
  } else {
    missing.push_back(
        {"KeyNotFound", format("{} \"{}\" has no key \"{}\"; add it", kind, name, key)});
  }
  return false;
}

Inputs inputsOf(engine::World& world, const std::string& ns, const json::Value& pod_spec,
                const Made& made) {
  Inputs inputs;
  for (std::string_view list : {"initContainers", "containers"})
    for (const json::Value& container : pod_spec[list].array()) {
      for (const json::Value& variable : container["env"].array())
        for (bool secret : {true, false}) {
          const json::Value& ref =
              variable["valueFrom"][secret ? "secretKeyRef" : "configMapKeyRef"];
          if (ref.isNull()) continue;
          bool is_made = secret && !made.secret.empty() && ref["name"].string() == made.secret;
          bool there = inputs.look(world, ns, secret, ref["name"].string(), ref["key"].string(),
                                   is_made || ref["optional"].boolean());
          if (is_made && !there && !made.by.empty())
            inputs.missing.push_back(
                {"KeyNotFound",
                 format("{} has not made its key in Secret \"{}\" yet; its conditions "
                        "say why",
                        made.by, made.secret)});
        }
      for (const json::Value& source : container["envFrom"].array())
        for (bool secret : {true, false}) {
          const json::Value& ref = source[secret ? "secretRef" : "configMapRef"];
          if (ref.isNull()) continue;
          const json::Value& found = world.get(secret ? kSecrets : kConfigMaps,
                                               {ns, ref["name"].string()}, {"data", dataView});
          std::string kind = secret ? "Secret" : "ConfigMap";
          if (!found.isNull()) {
            inputs.texts.push_back(kind + json::write(found["data"]));
          } else if (!ref["optional"].boolean()) {
            inputs.missing.push_back(
                {kind + "NotFound", format("{} \"{}\" not found; create it in namespace {}", kind,
                                           ref["name"].string(), ns)});
          }
        }
    }
  return inputs;
}

json::Value deployment(const Subject& subject, json::Value pod_spec,
                       const std::vector<std::string>& texts, std::optional<int> replicas) {
  std::string hashed = json::write(pod_spec);
  for (const std::string& text : texts) hashed += '\0' + text;
  json::Value spec = json::Object{
      {"selector", json::Object{{"matchLabels", subject.selector()}}},
      {"strategy", json::Object{{"type", "RollingUpdate"},
                                {"rollingUpdate",
                                 json::Object{{"maxSurge", "25%"}, {"maxUnavailable", "25%"}}}}},
      {"template",
       json::Object{{"metadata",
                     json::Object{{"labels", subject.labels()},
                                  {"annotations",
                                   json::Object{{std::string(kHashAnnotation),
                                                 hexEncode(net::sha256(hashed)).substr(0, 16)}}}}},
                    {"spec", std::move(pod_spec)}}}};
  if (replicas) spec.make("replicas") = *replicas;
  return json::Object{{"metadata", metadata(subject, subject.workload())},
                      {"spec", std::move(spec)}};
}

json::Value service(const Subject& subject) {
  json::Array ports{json::Object{
      {"name", "http"}, {"port", subject.port}, {"targetPort", subject.port}, {"protocol", "TCP"}}};
  if (subject.also_port_80)
    ports.push_back(json::Object{
        {"name", "http80"}, {"port", 80}, {"targetPort", subject.port}, {"protocol", "TCP"}});
  return json::Object{{"metadata", metadata(subject, subject.workload())},
                      {"spec", json::Object{{"type", "ClusterIP"},
                                            {"selector", subject.selector()},
                                            {"ports", std::move(ports)}}}};
}

// ---- Gateway

json::Value httpRoute(const Subject& subject, const Settings& settings,
                      const std::optional<GatewayRoute>& route, const std::string& usual_timeout) {
  std::string timeout = route && !route->timeout.empty() ? route->timeout : usual_timeout;
  json::Value rule = json::Object{
      {"matches", json::Array{json::Object{
                      {"path", json::Object{{"type", "PathPrefix"},
                                            {"value", format("/{}/{}/{}", subject.ns, subject.route,
                                                             subject.name)}}}}}},
      {"filters",
       json::Array{json::Object{
           {"type", "URLRewrite"},
           {"urlRewrite", json::Object{{"path", json::Object{{"type", "ReplacePrefixMatch"},
                                                             {"replacePrefixMatch", "/"}}}}}}}},
      {"backendRefs",
       json::Array{json::Object{{"name", subject.workload()}, {"port", subject.port}}}}};
  if (timeout != "0s") rule.make("timeouts").make("request") = timeout;
  std::string gateway_namespace =
      settings.gateway_namespace.empty() ? settings.system_namespace : settings.gateway_namespace;
  return json::Object{
      {"metadata", metadata(subject, kube::boundedName(subject.route + "-", subject.name))},
      {"spec",
       json::Object{{"parentRefs", json::Array{json::Object{{"name", settings.gateway_name},
                                                            {"namespace", gateway_namespace}}}},
                    {"rules", json::Array{std::move(rule)}}}}};
}

void addRoute(engine::Plan& plan, engine::World& world, const Subject& subject,
              const Settings& settings, std::string_view owner_uid,
              const std::optional<GatewayRoute>& route, const std::string& usual_timeout) {
  if (!settings.gateway) return;
  if (!world.serves(kHttpRoutes))
    return plan.condition("RouteReady", false, "GatewayAPIMissing",
                          "the cluster has no HTTPRoute: install the Gateway API's CRDs");
  json::Value wanted = httpRoute(subject, settings, route, usual_timeout);
  kube::ObjectKey key = kube::ObjectKey::of(wanted);
  if (!plan.hold) plan.child(kHttpRoutes, std::move(wanted));
  const json::Value& there = world.get(kHttpRoutes, key, {"parents", parentsView});
  const json::Value parents =
      engine::belongsTo(there, owner_uid) ? there["parents"] : json::Value();
  for (const json::Value& parent : parents.array())
    if (const json::Value* accepted = conditionOf(parent, "Accepted");
        accepted && (*accepted)["status"].string() == "True")
      return plan.condition("RouteReady", true, "Accepted", (*accepted)["message"].string());
  std::string why = "the gateway has not accepted the route yet";
  for (const json::Value& parent : parents.array())
    if (const json::Value* accepted = conditionOf(parent, "Accepted"))
      why = (*accepted)["message"].string();
  plan.condition("RouteReady", false, "NotAccepted", why);
}

// ---- Telemetry

TelemetrySettled settled(const Settings& settings, const std::optional<Telemetry>& telemetry) {
  TelemetrySettled result{settings.telemetry, settings.telemetry_endpoint};
  if (!telemetry) return result;
  result.enabled = telemetry->enabled;
  if (!telemetry->endpoint.empty()) result.endpoint = telemetry->endpoint;
  return result;
}

void addTelemetryCondition(engine::Plan& plan, const TelemetrySettled& telemetry, bool supported) {
  if (!telemetry.enabled) return;
  if (!supported)
    return plan.condition("TelemetryReady", false, "NotSupported",
                          "Ollama sends no telemetry: nothing else changes");
  if (telemetry.endpoint.empty())
    return plan.condition("TelemetryReady", false, "EndpointMissing",
                          "telemetry is on, but no endpoint is set: set telemetry.endpoint");
  plan.condition("TelemetryReady", true, "Configured", telemetry.endpoint);
}

// ---- Status

void addConfig(engine::Plan& plan, json::Value config_map) {
  plan.children.push_back({.resource = kConfigMaps,
                           .object = std::move(config_map),
                           .immutable = engine::Child::Immutable::Replace,
                           .wave = kBeforePods});
}

void addWorkload(engine::Plan& plan, engine::World& world, const Subject& subject,
                 std::string_view owner_uid, std::optional<int> replicas) {
  const json::Value& view =
      world.get(kDeployments, subject.key(subject.workload()), {"rollout", rolloutView});
  bool is_there = engine::belongsTo(view, owner_uid);  // one of somebody else tells nothing of us
  if (!is_there && plan.hold)
    return plan.condition("WorkloadReady", false, "WaitingForInputs",
                          "the Deployment is made when its inputs are there");
  if (!is_there && !world.troubles().empty())
    return plan.condition("WorkloadReady", false, "WaitingForInputs",
                          "the Deployment cannot be made: Accepted says why");
  if (!is_there)
    return plan.condition("WorkloadReady", false, "RollingOut",
                          format("Deployment ready replicas: 0/{}", replicas.value_or(1)));
  const json::Value& status = view["status"];
  std::int64_t wanted = view["replicas"].integer(1), ready = status["readyReplicas"].integer(),
               updated = status["updatedReplicas"].integer(),
               available = status["availableReplicas"].integer(),
               all = status["replicas"].integer();
  json::Array conditions;
  for (const json::Value& condition : status["conditions"].array()) {
    json::Value one =
        json::Object{{"type", condition["type"]},
                     {"status", condition["status"]},
                     {"reason", condition["reason"].string().empty() ? json::Value("Unknown")
                                                                     : condition["reason"]},
                     {"message", condition["message"].string()},
                     {"lastTransitionTime", condition["lastTransitionTime"]}};
    conditions.push_back(std::move(one));
  }
  plan.status.set("deployment", json::Object{{"replicas", all},
                                             {"readyReplicas", ready},
                                             {"availableReplicas", available},
                                             {"updatedReplicas", updated},
                                             {"conditions", std::move(conditions)}});
  if (subject.word != "mcpserver") {
    plan.status.set("observedReplicas", all);
    plan.status.set("selector", subject.selectorText());
  }

  std::string counts = format("Deployment ready replicas: {}/{}", ready, wanted);
  auto notReady = [&](std::string reason, std::string_view more) {
    plan.condition("WorkloadReady", false, std::move(reason),
                   more.empty() ? counts : format("{}; {}", counts, more));
  };
  bool current = status["observedGeneration"].integer() >= view["generation"].integer();
  if (wanted == 0) return notReady("ScaledToZero", "replicas is 0: scale it up to run it");
  // Only pods of the newest template count, and only when no older one is left.
  if (current && updated >= wanted && all == updated && available >= wanted)
    return plan.condition("WorkloadReady", true, "Available", counts);
  auto trouble =
      podTrouble(world.list(kPods, engine::kByOwner, owner_uid, {"trouble", troubleView}));
  if (trouble) return notReady(trouble->reason, trouble->message);
  if (const json::Value* failure = conditionOf(status, "ReplicaFailure");
      failure && (*failure)["status"].string() == "True")
    return notReady((*failure)["message"].string().find("exceeded quota") != std::string::npos
                        ? "QuotaExceeded"
                        : "PodsNotReady",
                    (*failure)["message"].string());
  if (const json::Value* progress = conditionOf(status, "Progressing");
      progress && (*progress)["reason"].string() == "ProgressDeadlineExceeded")
    return notReady("ProgressDeadlineExceeded", (*progress)["message"].string());
  if (!current || updated < wanted || all > updated) return notReady("RollingOut", "");
  notReady("PodsNotReady", "");
}

void hold(engine::Plan& plan, engine::World& world, const Subject& subject,
          const Settings& settings, std::string_view owner_uid) {
  plan.hold = true;
  addWorkload(plan, world, subject, owner_uid, std::nullopt);
  addEndpoint(plan, world, subject, settings, owner_uid);
}

void addEndpoint(engine::Plan& plan, engine::World& world, const Subject& subject,
                 const Settings& settings, std::string_view owner_uid) {
  const json::Value& service =
      world.get(kServices, subject.key(subject.workload()), {"owner", ownerView});
  if (engine::belongsTo(service, owner_uid))
    plan.status.set("endpoint", subject.endpoint(settings));
}

void refusePod(engine::Plan& plan, const Error& error) {
  std::erase_if(plan.conditions, [](const auto& one) { return one.type == "Accepted"; });
  plan.condition("Accepted", false, "InvalidPodSpec", "spec.podSpec: " + error.text());
}

void conclude(engine::Plan& plan, const std::vector<std::string>& gates) {
  const kube::Condition* first = nullptr;
  for (const std::string& gate : gates) {
    const kube::Condition* condition = plan.find(gate);
    if (condition && condition->status != kube::ConditionStatus::True && !first) first = condition;
  }
  // What makes it fail is the message, even where something else is not ready either.
  auto failed = [&](std::string_view type, std::initializer_list<std::string_view> reasons = {}) {
    const kube::Condition* condition = plan.find(type);
    if (!condition || condition->status != kube::ConditionStatus::False) return false;
    if (reasons.size() > 0 &&
        std::find(reasons.begin(), reasons.end(), condition->reason) == reasons.end())
      return false;
    first = condition;
    return true;
  };
  std::string phase = "Ready";
  if (failed("Accepted") || failed("ModelSupported") || failed("RuntimeResolved") ||
      failed("ConfigReady", {"InvalidConfigYaml", "ModelNotInList"}) ||
      failed("WorkloadReady", {"PullFailed", "ProgressDeadlineExceeded"})) {
    phase = "Failed";
  } else if (first) {
    phase = first->type == "WorkloadReady" ? "Pending" : "Waiting";
  }
  const kube::Condition* workload = plan.find("WorkloadReady");
  std::string message = first ? first->message : workload ? workload->message : "";
  std::string reason = first ? first->reason : "Ready";
  bool unknown = first && first->status == kube::ConditionStatus::Unknown;
  plan.condition("Ready",
                 !first    ? kube::ConditionStatus::True
                 : unknown ? kube::ConditionStatus::Unknown
                           : kube::ConditionStatus::False,
                 reason, message);
  plan.status.set("phase", phase);
  plan.status.set("ready", phase == "Ready");
  plan.status.set("message", message);
}

engine::Plan going(engine::Plan plan, const json::Value& object) {
  std::string waits;
  for (std::string_view finalizer : kube::finalizers(object))
    waits += format("{}{}", waits.empty() ? "; it waits for those who set the finalizers " : ", ",
                    shorten(finalizer, 100));
  // What was known stays, for as long as it runs.
  const json::Value& before = object["status"];
  for (const auto& [name, value] : before.object())
    if (name != "conditions" && name != "observedGeneration") plan.status.set(name, value);
  for (const json::Value& one : before["conditions"].array())
    if (auto told = kube::findCondition(object, one["type"].string());
        told && told->type != "Ready" && told->type != "WorkloadReady")
      plan.conditions.push_back(*std::move(told));
  plan.condition("WorkloadReady", false, "Deleting",
                 format("it is being deleted{}", shorten(waits, 500)));
  conclude(plan, {"WorkloadReady"});
  return plan;
}

namespace {

// As much as a person reads, and a status holds.
std::string inShort(std::vector<std::string> texts) {
  constexpr std::size_t kMost = 20, kLength = 500;
  std::size_t more = texts.size() > kMost ? texts.size() - kMost : 0;
  texts.resize(texts.size() - more);
  for (std::string& text : texts) text = shorten(text, kLength);
  if (more > 0) texts.push_back(format("and {} more", more));
  return join(texts, "; ");
}

}  // namespace

bool addAccepted(engine::Plan& plan, const engine::World& world, const kube::Kind& kind,
                 const json::Value& object) {
  kube::Validation validation = kube::validate(kind, object);
  if (!validation.ok()) {
    std::vector<std::string> texts;
    bool pod = false;
    for (const kube::FieldError& error : validation.errors) {
      texts.push_back(error.text());
      pod |= error.path.starts_with("spec.podSpec");
    }
    plan.condition("Accepted", false, pod ? "InvalidPodSpec" : "InvalidSpec",
                   inShort(std::move(texts)));
    return false;
  }
  if (!world.troubles().empty()) {
    std::vector<std::string> texts;
    for (const engine::Trouble& trouble : world.troubles()) texts.push_back(trouble.message);
    plan.condition("Accepted", false, world.troubles()[0].reason, inShort(std::move(texts)));
    return true;  // the children are still wanted: that is how it heals
  }
  plan.condition("Accepted", true, "Valid", join(validation.warnings, "; "));
  return true;
}

void addChildren(json::Object& linked, engine::World& world, const Subject& subject,
                 std::string_view owner_uid, const std::vector<kube::Resource>& kinds) {
  for (const kube::Resource& kind : kinds) {
    std::string name = kind == kHttpRoutes ? kube::boundedName(subject.route + "-", subject.name)
                                           : subject.workload();
    if (engine::belongsTo(world.get(kind, subject.key(name), {"owner", ownerView}), owner_uid))
      linked.set(lower(kind.kind), name);
  }
}

void tellIgnored(engine::Plan& plan, const EnvList& env) {
  for (const std::string& name : env.ignored())
    plan.events.push_back({.id = "EnvIgnored " + name,
                           .warning = true,
                           .reason = "EnvIgnored",
                           .message = format("the variable {} is set by the operator; "
                                             "yours is passed over",
                                             name)});
}

}  // namespace cadre::kaos
