#include "kinds/kaos/types.h"

#include <map>

#include "kinds/kaos/check.h"
#include "kube/validate.h"

namespace cadre::kaos {
namespace {

using kube::Fault;
using kube::Fields;

constexpr std::string_view kDuration = "^([0-9]+(h|m|s|ms)){1,4}$";
constexpr std::string_view kProvider = "^[A-Za-z0-9_.-]+$";
constexpr std::string_view kHostedModel = "^[A-Za-z0-9][A-Za-z0-9._/:@-]{0,255}$";
constexpr std::string_view kModel = "^[^\\s]+$";
// PyPI: name[extras]==1.2,<2; npm: @scope/name@1.2. No URL, path, option or white space.
constexpr std::string_view kPackage =
    "^(@[A-Za-z0-9._-]+/)?[A-Za-z0-9][A-Za-z0-9._-]*(\\[[A-Za-z0-9._,-]+\\])?"
    "((==|>=|<=|!=|~=|>|<)[A-Za-z0-9.*+!_-]+(,(==|>=|<=|!=|~=|>|<)[A-Za-z0-9.*+!_-]+)*"
    "|@[A-Za-z0-9.^~*+_-]+)?$";
constexpr const char* kImage = "^\\S+$";
constexpr const char* kAccount =
    "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$";

bool has(const json::Value& self, std::initializer_list<std::string_view> path) {
  const json::Value* at = &self;
  for (std::string_view step : path) at = &(*at)[step];
  return !at->isNull();
}

std::vector<kube::Column> columns(std::vector<kube::Column> first,
                                  std::vector<kube::Column> wide = {}) {
  first.push_back({"Ready", "boolean", ".status.ready"});
  first.push_back({"Phase", "string", ".status.phase"});
  for (kube::Column& column : wide) first.push_back(std::move(column));
  first.push_back({"Endpoint", "string", ".status.endpoint", true});
  first.push_back({"Message", "string", ".status.message", true});
  return first;
}

template <class T>
void describeCommon(Fields<T>& f) {
  f("phase", &T::phase, "Pending, Waiting, Ready or Failed.");
  f("ready", &T::ready, "Whether the phase is Ready.");
  f("message", &T::message, "What it waits for, or what is wrong.");
  f("endpoint", &T::endpoint, "Where it answers inside the cluster.");
  f("deployment", &T::deployment, "Its Deployment's counts and conditions.");
}

struct AgentStatus : CommonKaosStatus {
  std::string model, selector;
  std::map<std::string, std::string> linked_resources;
  std::int64_t observed_replicas = 0;
  static void describe(Fields<AgentStatus>& f) {
    describeCommon(f);
    f("model", &AgentStatus::model, "The model that it asks for.");
    f("linkedResources", &AgentStatus::linked_resources, "What belongs to it, by role.");
    f("observedReplicas", &AgentStatus::observed_replicas, "Pods that exist.");
    f("selector", &AgentStatus::selector, "Selects its pods.");
  }
};

struct ModelApiStatus : CommonKaosStatus {
  std::vector<std::string> supported_models;
  std::string selector;
  std::int64_t observed_replicas = 0;
  static void describe(Fields<ModelApiStatus>& f) {
    describeCommon(f);
    f("supportedModels", &ModelApiStatus::supported_models, "Models that Agents may ask for.");
    f("observedReplicas", &ModelApiStatus::observed_replicas, "Pods that exist.");
    f("selector", &ModelApiStatus::selector, "Selects its pods.");
  }
};

struct McpServerStatus : CommonKaosStatus {
  std::string runtime;
  std::vector<std::string> available_tools;
  std::int64_t tool_count = 0;
  static void describe(Fields<McpServerStatus>& f) {
    describeCommon(f);
    f("runtime", &McpServerStatus::runtime, "The runtime that was found, or package.");
    f("availableTools", &McpServerStatus::available_tools, "Names of its tools, at most 256.");
    f("toolCount", &McpServerStatus::tool_count, "How many tools there are.");
  }
};

}  // namespace

// ---- Shared

void EnvVar::describe(Fields<EnvVar>& f) {
  f("name", &EnvVar::name, "Name of the variable.").required().minLength(1);
  f("value", &EnvVar::value, "Its value.").secret();
  f("valueFrom", &EnvVar::value_from, "Where its value comes from, as in a Pod.");
  f.check(checkEnvVar);
}

void KeyRef::describe(Fields<KeyRef>& f) {
  f("name", &KeyRef::name, "Name of the object.").required().minLength(1).maxLength(253);
  f("key", &KeyRef::key, "The key in it.").required().minLength(1).maxLength(253);
  f("optional", &KeyRef::optional, "Whether it may be missing.");
}

void Container::describe(Fields<Container>& f) {
  f("image", &Container::image, "Image instead of the usual one.").pattern(kImage);
  f("command", &Container::command, "Replaces the entrypoint.");
  f("args", &Container::args, "Replaces the arguments.");
  f("resources", &Container::resources, "Requests and limits.").check(checkResources);
  f("env", &Container::env, "Variables; the last of a name counts.");
}

void GatewayRoute::describe(Fields<GatewayRoute>& f) {
  f("timeout", &GatewayRoute::timeout, "Of one request; 0s for none.").pattern(kDuration);
}

void Telemetry::describe(Fields<Telemetry>& f) {
  f("enabled", &Telemetry::enabled, "Whether traces and metrics are sent.").defaults();
  f("endpoint", &Telemetry::endpoint, "OTLP receiver; empty: the operator's.")
      .pattern(kube::kHttpUrl);
}

void DeploymentStatus::describe(Fields<DeploymentStatus>& f) {
  f("replicas", &DeploymentStatus::replicas, "Pods that exist.");
  f("readyReplicas", &DeploymentStatus::ready_replicas, "Pods that are ready.");
  f("availableReplicas", &DeploymentStatus::available_replicas, "Pods ready for long enough.");
  f("updatedReplicas", &DeploymentStatus::updated_replicas, "Pods of the newest template.");
  f("conditions", &DeploymentStatus::conditions, "As the Deployment has them.").keyedBy({"type"});
}

void CommonSpec::describe(Fields<CommonSpec>& f) {
  f("gatewayRoute", &CommonSpec::gateway_route, "The route, where the Gateway API is used.");
  f("container", &CommonSpec::container, "Replaces parts of the generated container.");
  f("podSpec", &CommonSpec::pod_spec, "Merged into the generated pod: any part of a PodSpec.")
      .nullable();
}

// ---- Agent

void AgentNetwork::describe(Fields<AgentNetwork>& f) {
  f("expose", &AgentNetwork::expose, "Whether it has a Service.").defaults();
  f("access", &AgentNetwork::access, "Agents that it may delegate to.")
      .set()
      .maxItems(64)
      .each()
      .dnsLabel();
}

void AgenticLoop::describe(Fields<AgenticLoop>& f) {
  f("maxSteps", &AgenticLoop::max_steps, "Steps of one answer; 5 when not set.")
      .min(1)
      .max(20)
      .deprecated("use config.reasoningLoopMaxSteps");
  f("enableTools", &AgenticLoop::enable_tools, "Whether it may call tools.").defaults();
  f("enableDelegation", &AgenticLoop::enable_delegation, "Whether it may ask peers.").defaults();
}

void Memory::describe(Fields<Memory>& f) {
  f("enabled", &Memory::enabled, "Whether it remembers sessions.").defaults();
  f("type", &Memory::type, "Where.").oneOf({"local"}).defaults();
  f("contextLimit", &Memory::context_limit, "Messages given to the model.")
      .min(1)
      .max(100)
      .defaults();
  f("maxSessions", &Memory::max_sessions, "Sessions kept.").min(1).max(100'000).defaults();
  f("maxSessionEvents", &Memory::max_session_events, "Events kept of a session.")
      .min(1)
      .max(10'000)
      .defaults();
}

void AgentConfig::describe(Fields<AgentConfig>& f) {
  f("description", &AgentConfig::description, "What it is for.");
  f("instructions", &AgentConfig::instructions, "What it is told first.")
      .maxLength(kMaxInstructions)
      .check(checkInstructions);
  f("reasoningLoopMaxSteps", &AgentConfig::reasoning_loop_max_steps,
    "Steps of one answer; 5 when not set.")
      .min(1)
      .max(20);
  f("agenticLoop", &AgentConfig::agentic_loop, "How it works on an answer.");
  f("memory", &AgentConfig::memory, "What it remembers.");
  f("telemetry", &AgentConfig::telemetry, "Traces and metrics.");
  f("env", &AgentConfig::env, "Variables; those of container.env win.");
}

void AgentSpec::describe(Fields<AgentSpec>& f) {
  f("modelAPI", &AgentSpec::model_api, "The ModelAPI that it uses, in its namespace.")
      .required()
      .dnsLabel();
  f("model", &AgentSpec::model, "The model; when not set it follows from the ModelAPI.")
      .minLength(1)
      .maxLength(256)
      .pattern(kModel);
  f("mcpServers", &AgentSpec::mcp_servers, "MCPServers whose tools it may call.")
      .set()
      .maxItems(64)
      .each()
      .dnsLabel();
  f("agentNetwork", &AgentSpec::agent_network, "Who may call it and whom it may call.");
  f("config", &AgentSpec::config, "How it behaves.");
  f("resources", &AgentSpec::resources, "Requests and limits; container.resources wins.")
      .check(checkResources);
  f("replicas", &AgentSpec::replicas, "Pods; when not set the Deployment's own count stays.")
      .min(0);
  f("waitForDependencies", &AgentSpec::wait_for_dependencies,
    "Whether pods are made only when all that it needs is ready.")
      .defaults();
  f.include<CommonSpec>();
}

kube::Kind makeAgentKind(std::string group) {
  return {
      .group = std::move(group),
      .version = "v1alpha1",
      .kind = "Agent",
      .plural = "agents",
      .singular = "agent",
      .names = kube::Kind::Names::DnsLabel,  // generated names are made of it
      .doc = "An agent: a model with instructions, tools and peers.",
      .columns =
          columns({{"ModelAPI", "string", ".spec.modelAPI"}, {"Model", "string", ".status.model"}},
                  {{"Replicas", "integer", ".status.observedReplicas", true}}),
      .spec = kube::specOf<AgentSpec>(),
      .status = kube::statusOf<AgentStatus>(),
      .scale = kube::Scale{".spec.replicas", ".status.observedReplicas", ".status.selector"},
      .rules = {{.cel = "!has(self.spec.agentNetwork) || !has(self.spec.agentNetwork.access) || "
                        "!(self.metadata.name in self.spec.agentNetwork.access)",
                 .message = "an agent cannot be its own peer: remove its own name from access",
                 .field_path = ".spec.agentNetwork.access",
                 .holds =
                     [](const json::Value& self) {
                       for (const json::Value& peer :
                            self["spec"]["agentNetwork"]["access"].array())
                         if (peer == self["metadata"]["name"]) return false;
                       return true;
                     }}},
      .checks = {warnOfTwins, checkPodSpec}};
}

const kube::Kind& agentKind() {
  static const kube::Kind kind = makeAgentKind("kaos.tools");
  return kind;
}

// ---- ModelAPI

void ValueSource::describe(Fields<ValueSource>& f) {
  f("secretKeyRef", &ValueSource::secret_key_ref, "A key of a Secret.");
  f("configMapKeyRef", &ValueSource::config_map_key_ref, "A key of a ConfigMap.");
  f.rule(kube::exactlyOneOf({"secretKeyRef", "configMapKeyRef"}));
}

void ApiKey::describe(Fields<ApiKey>& f) {
  f("value", &ApiKey::value, "The key itself; better in a Secret.").secret();
  f("valueFrom", &ApiKey::value_from, "Where it comes from.");
  f.rule(kube::exactlyOneOf({"value", "valueFrom"}));
  f.check([](const json::Value& self, kube::Report& report) {
    if (has(self, {"value"}))
      report.warn("value",
                  "a key in the manifest can be read by all who can read the ModelAPI; "
                  "use valueFrom.secretKeyRef");
  });
}

void MasterKey::describe(Fields<MasterKey>& f) {
  f("generate", &MasterKey::generate, "Whether one is made, once.");
  f("secretKeyRef", &MasterKey::secret_key_ref, "A key of a Secret.");
  f.rule({.cel = "(has(self.generate) && self.generate) != has(self.secretKeyRef)",
          .message = "exactly one of generate: true and secretKeyRef must be set",
          .holds = [](const json::Value& self) {
            return self["generate"].boolean() != has(self, {"secretKeyRef"});
          }});
}

void ProxyConfig::describe(Fields<ProxyConfig>& f) {
  f("models", &ProxyConfig::models, "Models served: * for all, x/* for a prefix, else exact.")
      .minItems(1)
      .maxItems(256)
      .each()
      .minLength(1)
      .maxLength(256);
  f("model", &ProxyConfig::model, "One model.").minLength(1).deprecated("use models");
  f("provider", &ProxyConfig::provider, "Prefix of every model for LiteLLM.").pattern(kProvider);
  f("apiBase", &ProxyConfig::api_base, "URL of the provider.").pattern(kube::kHttpUrl);
  f("apiKey", &ProxyConfig::api_key, "Key for the provider.");
  f("masterKey", &ProxyConfig::master_key, "Key that callers of this proxy need.");
  f("configYaml", &ProxyConfig::config_yaml,
    "LiteLLM's configuration: a text, {fromString} or {fromSecretKeyRef: {name, key}}.")
      .untyped();
  f("env", &ProxyConfig::env, "Variables; those of container.env win.");
  f.anyOf({"models", "model", "apiBase", "configYaml"});
  f.check(checkProxyConfig);
}

void HostedConfig::describe(Fields<HostedConfig>& f) {
  f("model", &HostedConfig::model, "The model that Ollama pulls and serves.").pattern(kHostedModel);
  f("env", &HostedConfig::env, "Variables; those of container.env win.");
  f("resources", &HostedConfig::resources, "Requests and limits; container.resources wins.")
      .check(checkResources);
}

void ModelApiSpec::describe(Fields<ModelApiSpec>& f) {
  f("mode", &ModelApiSpec::mode, "A proxy to models elsewhere, or a model served here.")
      .required()
      .oneOf({"Proxy", "Hosted"});
  f("proxyConfig", &ModelApiSpec::proxy_config, "Of mode Proxy.");
  f("hostedConfig", &ModelApiSpec::hosted_config, "Of mode Hosted.");
  f("serverConfig", &ModelApiSpec::server_config, "Of mode Hosted.").deprecated("use hostedConfig");
  f("replicas", &ModelApiSpec::replicas, "Pods; when not set the Deployment's own count stays.")
      .min(0);
  f("telemetry", &ModelApiSpec::telemetry, "Traces and metrics.");
  f.include<CommonSpec>();
  f.rule({.cel = "self.mode != 'Proxy' || has(self.proxyConfig)",
          .message = "mode Proxy needs proxyConfig with models, model, apiBase or configYaml",
          .field_path = ".proxyConfig",
          .reason = Fault::Required,
          .holds = [](const json::Value& self) {
            return self["mode"].string() != "Proxy" || has(self, {"proxyConfig"});
          }});
  f.rule({.cel = "self.mode != 'Hosted' || (has(self.hostedConfig) && has(self.hostedConfig.model))"
                 " || (has(self.serverConfig) && has(self.serverConfig.model))",
          .message = "mode Hosted needs hostedConfig.model",
          .field_path = ".hostedConfig",
          .reason = Fault::Required,
          .holds = [](const json::Value& self) {
            return self["mode"].string() != "Hosted" || has(self, {"hostedConfig", "model"}) ||
                   has(self, {"serverConfig", "model"});
          }});
}

kube::Kind makeModelApiKind(std::string group) {
  return {
      .group = std::move(group),
      .version = "v1alpha1",
      .kind = "ModelAPI",
      .plural = "modelapis",
      .singular = "modelapi",
      .short_names = {"api", "apis"},
      .names = kube::Kind::Names::DnsLabel,  // generated names are made of it
      .doc = "An OpenAI-compatible endpoint: a LiteLLM proxy, or an Ollama server with one model.",
      .columns = columns({{"Mode", "string", ".spec.mode"}}),
      .spec = kube::specOf<ModelApiSpec>(),
      .status = kube::statusOf<ModelApiStatus>(),
      .scale = kube::Scale{".spec.replicas", ".status.observedReplicas", ".status.selector"},
      .checks = {warnOfTwins, checkPodSpec}};
}

const kube::Kind& modelApiKind() {
  static const kube::Kind kind = makeModelApiKind("kaos.tools");
  return kind;
}

// ---- MCPServer

void Tools::describe(Fields<Tools>& f) {
  f("fromString", &Tools::from_string, "Python source of the tools.").check(checkSource);
  f("fromSecretKeyRef", &Tools::from_secret_key_ref, "A key of a Secret with the source.");
  f("fromPackage", &Tools::from_package, "A package from PyPI or npm.")
      .pattern(kPackage)
      .maxLength(256);
}

void McpConfig::describe(Fields<McpConfig>& f) {
  f("tools", &McpConfig::tools, "Where the tools come from.");
  f("toolsString", &McpConfig::tools_string, "Python source.")
      .deprecated("use tools.fromString")
      .check(checkSource);
  f("mcp", &McpConfig::mcp, "A package.")
      .deprecated("use tools.fromPackage")
      .pattern(kPackage)
      .maxLength(256);
  f("env", &McpConfig::env, "Variables; those of container.env win.");
}

void McpServerSpec::describe(Fields<McpServerSpec>& f) {
  f("runtime", &McpServerSpec::runtime, "A registered runtime, or custom.").minLength(1);
  f("params", &McpServerSpec::params, "Text for the runtime.");
  f("serviceAccountName", &McpServerSpec::service_account_name,
    "The pod's service account; its token is mounted.")
      .pattern(kAccount)
      .maxLength(253);
  f("type", &McpServerSpec::type, "What packages are made of.")
      .oneOf({"python-runtime", "node-runtime"})
      .defaults();
  f("config", &McpServerSpec::config, "Where the tools come from.");
  f("toolsString", &McpServerSpec::tools_string, "Python source.")
      .deprecated("use config.tools.fromString")
      .check(checkSource);
  f("mcp", &McpServerSpec::mcp, "A package.")
      .deprecated("use config.tools.fromPackage")
      .pattern(kPackage)
      .maxLength(256);
  f("resources", &McpServerSpec::resources, "Requests and limits; container.resources wins.")
      .check(checkResources);
  f("telemetry", &McpServerSpec::telemetry, "Traces and metrics.");
  f.include<CommonSpec>();
  f.rule({.cel = "has(self.runtime) || has(self.toolsString) || has(self.mcp) || "
                 "(has(self.config) && (has(self.config.toolsString) || has(self.config.mcp) || "
                 "(has(self.config.tools) && (has(self.config.tools.fromString) || "
                 "has(self.config.tools.fromSecretKeyRef) || "
                 "has(self.config.tools.fromPackage)))))",
          .message = "needs a source of tools: runtime, config.tools.fromString, "
                     "config.tools.fromSecretKeyRef or config.tools.fromPackage",
          .field_path = ".config",
          .reason = Fault::Required,
          .holds = [](const json::Value& self) {
            return has(self, {"runtime"}) || has(self, {"toolsString"}) || has(self, {"mcp"}) ||
                   has(self, {"config", "toolsString"}) || has(self, {"config", "mcp"}) ||
                   has(self, {"config", "tools", "fromString"}) ||
                   has(self, {"config", "tools", "fromSecretKeyRef"}) ||
                   has(self, {"config", "tools", "fromPackage"});
          }});
  f.rule({.cel = "!has(self.runtime) || self.runtime != 'custom' || "
                 "(has(self.container) && has(self.container.image))",
          .message = "custom runtime requires container.image to be set",
          .field_path = ".container.image",
          .reason = Fault::Required,
          .holds = [](const json::Value& self) {
            return self["runtime"].string() != "custom" || has(self, {"container", "image"});
          }});
  f.rule({.cel = "!has(self.type) || self.type != 'node-runtime' || has(self.runtime) || "
                 "has(self.mcp) || (has(self.config) && (has(self.config.mcp) || "
                 "(has(self.config.tools) && has(self.config.tools.fromPackage))))",
          .message = "node-runtime works with packages only: set config.tools.fromPackage",
          .field_path = ".type",
          .holds = [](const json::Value& self) {
            return self["type"].string() != "node-runtime" || has(self, {"runtime"}) ||
                   has(self, {"mcp"}) || has(self, {"config", "mcp"}) ||
                   has(self, {"config", "tools", "fromPackage"});
          }});
}

kube::Kind makeMcpServerKind(std::string group) {
  return {.group = std::move(group),
          .version = "v1alpha1",
          .kind = "MCPServer",
          .plural = "mcpservers",
          .singular = "mcpserver",
          .short_names = {"mcp", "mcps"},
          .names = kube::Kind::Names::DnsLabel,  // generated names are made of it
          .doc = "A server of tools that speaks MCP.",
          .columns = columns({{"Runtime", "string", ".status.runtime"}},
                             {{"Tools", "integer", ".status.toolCount", true}}),
          .spec = kube::specOf<McpServerSpec>(),
          .status = kube::statusOf<McpServerStatus>(),
          .checks = {warnOfTwins, checkPodSpec}};
}

const kube::Kind& mcpServerKind() {
  static const kube::Kind kind = makeMcpServerKind("kaos.tools");
  return kind;
}

}  // namespace cadre::kaos
