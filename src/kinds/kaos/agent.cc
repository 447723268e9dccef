// The Agent: what spec §3.3 says, in its order.
#include <algorithm>
#include <set>

#include "base/format.h"
#include "base/strings.h"
#include "json/write.h"
#include "kinds/kaos/check.h"
#include "kinds/kaos/plans.h"
#include "kinds/kaos/workload.h"

namespace cadre::kaos {
namespace {

constexpr std::size_t kMaxTextInEnv = 96u << 10;
constexpr std::string_view kConfigFolder = "/etc/kaos/agent";

// ---- What is read of others

json::Value dependencyView(const json::Value& object) {
  return json::Object{
      {"ready", kube::isConditionTrue(object, "Ready")},
      {"message", object["status"]["message"]},
      {"mode", object["spec"]["mode"]},
      {"hosted", object["spec"]["hostedConfig"]["model"].isNull()
                     ? object["spec"]["serverConfig"]["model"]
                     : object["spec"]["hostedConfig"]["model"]},
      {"masterKey", object["spec"]["proxyConfig"]["masterKey"]},
      {"supported", object["status"]["supportedModels"]},
      {"observed", object["status"]["observedGeneration"].integer() == kube::generation(object)}};
}

json::Value peerView(const json::Value& agent) {
  const json::Value& network = agent["spec"]["agentNetwork"];
  return json::Object{{"exposed", network["expose"].boolean(true)},
                      {"ready", kube::isConditionTrue(agent, "Ready")},
                      {"message", agent["status"]["message"]}};
}

json::Value accessView(const json::Value& agent) { return agent["spec"]["agentNetwork"]["access"]; }

std::vector<std::string> sorted(std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

// The way from one agent back to another along `access`, as names; empty when there is none.
std::vector<std::string> wayBack(engine::World& world, const std::string& ns,
                                 const std::string& from, const std::string& to) {
  std::map<std::string, std::string> came_from{{from, ""}};
  std::vector<std::string> next{from};
  while (!next.empty()) {
    std::string at = std::move(next.back());
    next.pop_back();
    for (const json::Value& peer : world.get(kAgents, {ns, at}, {"access", accessView}).array()) {
      if (!came_from.emplace(peer.string(), at).second) continue;
      if (peer.string() == to) {
        std::vector<std::string> way;
        for (std::string step = to; !step.empty(); step = came_from[step]) way.push_back(step);
        std::reverse(way.begin(), way.end());
        return way;
      }
      next.push_back(peer.string());
    }
  }
  return {};
}

class AgentPlan {
 public:
  AgentPlan(const json::Value& object, engine::World& world, const Settings& settings)
      : object_(object),
        world_(world),
        settings_(settings),
        ns_(kube::ns(object)),
        name_(kube::name(object)),
        subject_(agentSubject(ns_, name_)),
        spec_(kube::read<AgentSpec>(object["spec"])) {}

  engine::Plan make() {
    plan_.foreign_finalizers = {"kaos.tools/agent-finalizer"};
    if (kube::isDeleting(object_)) return going(std::move(plan_), object_);
    if (!addAccepted(plan_, world_, agentKind(), object_)) {
      hold(plan_, world_, subject_, settings_, kube::uid(object_));
      return finish();
    }
    checkModelApi();
    checkMcpServers();
    checkPeers();

    auto pod = podSpec(podParts(), spec_, spec_.resources);
    bool waits = !model_api_found_ || !plan_.holds("ModelSupported") ||
                 (spec_.wait_for_dependencies &&
                  (!plan_.holds("DependenciesReady") || !plan_.holds("PeersReady")));
    if (!pod) {
      refusePod(plan_, pod.error());
      waits = true;
    } else {
      Made key;
      if (master_key_["generate"].boolean())
        key = {masterKeySecret(model_api_), format("ModelAPI \"{}\"", spec_.model_api)};
      Inputs inputs = inputsOf(world_, ns_, *pod, key);
      if (!inputs.missing.empty()) {
        plan_.condition("ConfigReady", false, inputs.missing[0].reason, inputs.missing[0].message);
        waits = true;
      } else {
        plan_.condition("ConfigReady", true, "Generated");
      }
      if (!waits) {
        for (const std::string& text : configTexts()) inputs.texts.push_back(text);
        plan_.child(kDeployments,
                    deployment(subject_, *std::move(pod), inputs.texts, spec_.replicas));
        addConfig(plan_, configMap());
        tellIgnored(plan_, env_);
      }
    }
    bool exposed = spec_.agent_network.expose;
    if (waits) {
      hold(plan_, world_, subject_, settings_, kube::uid(object_));
      if (!exposed) plan_.status.erase("endpoint");
      return finish();
    }
    if (exposed) {
      plan_.child(kServices, service(subject_));
      addEndpoint(plan_, world_, subject_, settings_, kube::uid(object_));
    }
    addWorkload(plan_, world_, subject_, kube::uid(object_), spec_.replicas);
    return finish();
  }

 private:
  engine::Plan finish() {
    if (!model_.empty()) plan_.status.set("model", model_);
    std::vector<std::string> gates{"Accepted"};
    if (spec_.wait_for_dependencies) gates.push_back("DependenciesReady");
    gates.push_back("ModelSupported");
    if (spec_.wait_for_dependencies) gates.push_back("PeersReady");
    gates.insert(gates.end(), {"ConfigReady", "WorkloadReady"});
    conclude(plan_, gates);
    plan_.status.set("linkedResources", linkedResources());
    if (spec_.agent_network.expose)
      addRoute(plan_, world_, subject_, settings_, kube::uid(object_), spec_.gateway_route,
               settings_.gateway_timeout_agent);
    addTelemetryCondition(plan_, telemetry(), true);
    return std::move(plan_);
  }

  // ---- Dependencies

  void checkModelApi() {
    const json::Value& api =
        world_.get(kModelApis, {ns_, spec_.model_api}, {"dependency", dependencyView});
    model_api_found_ = !api.isNull();
    hosted_ = api["mode"].string() == "Hosted";
    model_api_ = modelApiSubject(ns_, spec_.model_api, hosted_);
    if (!hosted_) master_key_ = api["masterKey"];
    if (!model_api_found_) {
      depend("ModelAPINotFound", format("Failed to resolve ModelAPI: modelapis.kaos.tools \"{}\" "
                                        "not found",
                                        spec_.model_api));
      plan_.condition("ModelSupported", kube::ConditionStatus::Unknown, "ModelAPINotFound",
                      format("it is not known what ModelAPI \"{}\" supports", spec_.model_api));
      model_ = askedModel();
      return;
    }
    if (!api["ready"].boolean())
      depend("ModelAPINotReady",
             format("ModelAPI is not ready: {}: {}", spec_.model_api, api["message"].string()));
    checkModel(api);
  }

  // The model that the Agent itself names: spec.model, else MODEL_NAME.
  std::string askedModel() {
    if (!spec_.model.empty()) return spec_.model;
    for (const EnvVar& variable : userEnv())
      if (variable.name == "MODEL_NAME") {
        model_from_user_ = !variable.value_from.isNull();
        return variable.value.value_or("");
      }
    return "";
  }

  // What it names, else what the ModelAPI leaves no choice about.
  void checkModel(const json::Value& api) {
    std::vector<std::string> supported, concrete;
    for (const json::Value& model : api["supported"].array()) supported.push_back(model.string());
    for (const std::string& model : supported)
      if (!isPattern(model)) concrete.push_back(model);
    model_ = askedModel();
    if (model_from_user_)
      return plan_.condition("ModelSupported", true, "NotChecked",
                             "MODEL_NAME comes from a reference");
    if (api["supported"].isNull())  // the ModelAPI has not been looked at, or is wrong itself
      return plan_.condition(
          "ModelSupported", kube::ConditionStatus::Unknown, "ModelAPINotReady",
          format("it is not known yet what ModelAPI \"{}\" supports", spec_.model_api));
    if (model_.empty() && hosted_) model_ = api["hosted"].string();
    if (model_.empty() && concrete.size() == 1) model_ = concrete[0];
    if (model_.empty()) model_ = "smollm2:135m";
    if (!api["observed"].boolean())
      return plan_.condition(
          "ModelSupported", kube::ConditionStatus::Unknown, "NotYet",
          format("ModelAPI \"{}\" has not told yet what it supports", spec_.model_api));
    bool fits = hosted_ ? model_ == api["hosted"].string() : matchesModels(supported, model_);
    if (fits) return plan_.condition("ModelSupported", true, "Supported");
    plan_.condition("ModelSupported", false, "ModelNotSupported",
                    format("model \"{}\" not supported by ModelAPI \"{}\" (supported: {})", model_,
                           spec_.model_api, inBrackets(supported)));
  }

  void checkMcpServers() {
    for (const std::string& server : sorted(spec_.mcp_servers)) {
      const json::Value& found =
          world_.get(kMcpServers, {ns_, server}, {"dependency", dependencyView});
      if (found.isNull()) {
        depend("MCPServerNotFound", format("Failed to resolve MCPServer {}: mcpservers.kaos.tools "
                                           "\"{}\" not found",
                                           server, server));
      } else if (!found["ready"].boolean()) {
        depend("MCPServerNotReady",
               format("MCPServer {} is not ready: {}", server, found["message"].string()));
      }
    }
    if (!plan_.find("DependenciesReady")) plan_.condition("DependenciesReady", true, "AllReady");
  }

  // The first that is missing counts.
  void depend(std::string reason, std::string message) {
    if (!plan_.find("DependenciesReady"))
      plan_.condition("DependenciesReady", false, std::move(reason), std::move(message));
  }

  void checkPeers() {
    std::string first_reason, first_message;
    std::vector<std::string> ring;
    auto lacks = [&](std::string reason, std::string message) {
      if (first_reason.empty()) first_reason = reason, first_message = message;
    };
    for (const std::string& peer : sorted(spec_.agent_network.access)) {
      const json::Value& found = world_.get(kAgents, {ns_, peer}, {"peer", peerView});
      if (found.isNull()) {
        lacks("PeerNotFound", format("Peer agent {} not found", peer));
      } else if (!found["exposed"].boolean()) {
        hidden_.insert(peer);
        lacks("PeerNotExposed",
              format("Peer agent {} is not exposed (set agentNetwork.expose: true)", peer));
      } else if (auto way = wayBack(world_, ns_, peer, name_); !way.empty()) {
        // It waits for us, too: nobody would ever begin.
        if (ring.empty()) {
          ring = way;
          ring.insert(ring.begin(), name_);
        }
      } else if (!found["ready"].boolean()) {
        lacks("PeerNotReady",
              format("Peer agent {} is not ready: {}", peer, found["message"].string()));
      }
    }
    if (!first_reason.empty())
      return plan_.condition("PeersReady", false, first_reason, first_message);
    if (spec_.agent_network.access.empty()) return plan_.condition("PeersReady", true, "NoPeers");
    if (!ring.empty())
      return plan_.condition(
          "PeersReady", true, "CycleTolerated",
          format("these agents call each other: {}; none waits for another", join(ring, " -> ")));
    plan_.condition("PeersReady", true, "AllReady");
  }

  // ---- The pod

  Env userEnv() const {
    return mergedEnv(spec_.config.env, spec_.container ? spec_.container->env : Env{});
  }

  TelemetrySettled telemetry() const { return settled(settings_, spec_.config.telemetry); }

  int maxSteps() const {
    if (spec_.config.reasoning_loop_max_steps) return *spec_.config.reasoning_loop_max_steps;
    if (spec_.config.agentic_loop && spec_.config.agentic_loop->max_steps)
      return *spec_.config.agentic_loop->max_steps;
    return 5;
  }
  AgenticLoop loop() const { return spec_.config.agentic_loop.value_or(AgenticLoop{}); }

  std::vector<std::string> wiredPeers() const {
    std::vector<std::string> peers;
    for (const std::string& peer : sorted(spec_.agent_network.access))
      if (!hidden_.contains(peer)) peers.push_back(peer);
    return peers;
  }

  static std::string yesNo(bool value) { return value ? "true" : "false"; }

  // In the order of the spec.
  void fillEnv() {
    const AgentConfig& config = spec_.config;
    env_ = EnvList();
    env_.addWiring("AGENT_NAME", name_);
    // One that no variable could hold is in agent.json.
    if (!config.description.empty() && config.description.size() <= kMaxTextInEnv)
      env_.addText("AGENT_DESCRIPTION", config.description);
    if (config.instructions.size() > kMaxTextInEnv) {
      env_.add("AGENT_INSTRUCTIONS_FILE", format("{}/instructions", kConfigFolder));
    } else if (!config.instructions.empty()) {
      env_.addText("AGENT_INSTRUCTIONS", config.instructions);
    }
    env_.addUser(userEnv());
    env_.addWiring("MODEL_API_URL", model_api_.endpoint(settings_));
    if (!spec_.model.empty()) {
      env_.addWiring("MODEL_NAME", model_);
    } else if (!model_from_user_) {
      env_.add("MODEL_NAME", model_);
    }
    if (master_key_["generate"].boolean()) {
      env_.addFrom("MODEL_API_KEY", masterKeySource(model_api_));
    } else if (!master_key_["secretKeyRef"].isNull()) {
      env_.addFrom("MODEL_API_KEY", json::Object{{"secretKeyRef", master_key_["secretKeyRef"]}});
    }
    env_.add("AGENT_DEBUG_MEMORY_ENDPOINTS", "true");
    env_.add("AGENTIC_LOOP_MAX_STEPS", format("{}", maxSteps()));
    env_.add("AGENTIC_LOOP_ENABLE_TOOLS", yesNo(loop().enable_tools));
    env_.add("AGENTIC_LOOP_ENABLE_DELEGATION", yesNo(loop().enable_delegation));
    if (config.memory) {
      env_.add("MEMORY_ENABLED", yesNo(config.memory->enabled));
      env_.add("MEMORY_TYPE", config.memory->type);
      env_.add("MEMORY_CONTEXT_LIMIT", format("{}", config.memory->context_limit));
      env_.add("MEMORY_MAX_SESSIONS", format("{}", config.memory->max_sessions));
      env_.add("MEMORY_MAX_SESSION_EVENTS", format("{}", config.memory->max_session_events));
    }
    if (auto servers = sorted(spec_.mcp_servers); !servers.empty()) {
      env_.addWiring("MCP_SERVERS", join(servers, ","));
      for (const std::string& server : servers)
        env_.addWiring(format("MCP_SERVER_{}_URL", server),
                       mcpServerSubject(ns_, server).endpoint(settings_));
    }
    if (auto peers = wiredPeers(); !peers.empty()) {
      env_.addWiring("PEER_AGENTS", join(peers, ","));
      for (const std::string& peer : peers) {
        std::string upper = peer;
        for (char& c : upper) c = c == '-' ? '_' : static_cast<char>(std::toupper(c));
        env_.addWiring(format("PEER_AGENT_{}_CARD_URL", upper),
                       agentSubject(ns_, peer).endpoint(settings_));
      }
    }
    env_.add("AGENT_NAMESPACE", ns_);
    if (spec_.agent_network.expose) env_.add("AGENT_PUBLIC_URL", subject_.endpoint(settings_));
    if (spec_.wait_for_dependencies) env_.add("AGENT_READY_CHECK", "dependencies");
    addOtel(env_, telemetry(), name_, ns_, userEnv());
    env_.add("LOG_LEVEL", settings_.log_level);
  }

  PodParts podParts() {
    fillEnv();
    PodParts parts;
    auto get = [](std::string_view path, int period, int timeout, int failures) {
      return json::Object{{"httpGet", json::Object{{"path", path}, {"port", 8000}}},
                          {"periodSeconds", period},
                          {"timeoutSeconds", timeout},
                          {"failureThreshold", failures}};
    };
    parts.container = json::Object{
        {"name", "agent"},
        {"image", settings_.agent_image},
        {"ports",
         json::Array{json::Object{{"name", "http"}, {"containerPort", 8000}, {"protocol", "TCP"}}}},
        {"startupProbe", get("/health", 1, 3, 60)},
        {"readinessProbe", get("/ready", 5, 3, 3)},
        {"livenessProbe", get("/health", 10, 3, 3)}};
    parts.env = env_;
    parts.volumes.push_back(json::Object{
        {"name", "agent-config"}, {"configMap", json::Object{{"name", subject_.workload()}}}});
    parts.mounts.set(kConfigFolder, json::Object{{"name", "agent-config"}, {"readOnly", true}});
    return parts;
  }

  // What it reads of the ConfigMap at start: the pod follows when it changes.
  std::vector<std::string> configTexts() const { return {agentJson(), spec_.config.instructions}; }

  std::string agentJson() const {
    json::Value resolved = json::Object{
        {"name", name_},
        {"namespace", ns_},
        {"description", spec_.config.description},
        {"modelAPI",
         json::Object{{"name", spec_.model_api}, {"url", model_api_.endpoint(settings_)}}},
        {"model", model_},
        {"maxSteps", maxSteps()},
        {"enableTools", loop().enable_tools},
        {"enableDelegation", loop().enable_delegation}};
    json::Value& servers = resolved.make("mcpServers");
    servers = json::Object{};
    for (const std::string& server : sorted(spec_.mcp_servers))
      servers.make(server) = mcpServerSubject(ns_, server).endpoint(settings_);
    json::Value& peers = resolved.make("peers");
    peers = json::Object{};
    for (const std::string& peer : wiredPeers())
      peers.make(peer) = agentSubject(ns_, peer).endpoint(settings_);
    if (spec_.config.memory) resolved.make("memory") = kube::write(*spec_.config.memory);
    return json::write(resolved);
  }

  json::Value configMap() const {
    return json::Object{{"metadata", json::Object{{"name", subject_.workload()},
                                                  {"namespace", ns_},
                                                  {"labels", subject_.labels()}}},
                        {"data", json::Object{{"agent.json", agentJson()},
                                              {"instructions", spec_.config.instructions}}}};
  }

  json::Value linkedResources() {
    json::Object linked;
    auto add = [&](std::string_view role, const std::string& names) {
      if (!names.empty()) linked.set(role, names);
    };
    add("modelapi", spec_.model_api);
    add("mcpservers", join(sorted(spec_.mcp_servers), ","));
    add("peers", join(sorted(spec_.agent_network.access), ","));
    addChildren(linked, world_, subject_, kube::uid(object_),
                {kDeployments, kServices, kConfigMaps, kHttpRoutes});
    return linked;
  }

  const json::Value& object_;
  engine::World& world_;
  const Settings& settings_;
  const std::string ns_, name_;
  const Subject subject_;
  const AgentSpec spec_;
  engine::Plan plan_;
  Subject model_api_;
  json::Value master_key_;
  bool model_api_found_ = false, hosted_ = false, model_from_user_ = false;
  std::string model_;
  std::set<std::string> hidden_;  // peers that cannot be reached
  EnvList env_;
};

}  // namespace

engine::Plan planAgent(const json::Value& object, engine::World& world, const Settings& settings) {
  return AgentPlan(object, world, settings).make();
}

}  // namespace cadre::kaos
