#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "json/value.h"
#include "kube/describe.h"

namespace cadre::kaos {

// The kinds of kaos.tools/v1alpha1: Agent, ModelAPI, MCPServer. Three generations of field names
// are served; where two say the same, the newer wins (new beats rel beats seed). The structs have
// all of them; the plans work out what holds.

struct EnvVar {
  std::string name;
  std::optional<std::string> value;
  json::Value value_from;
  static void describe(kube::Fields<EnvVar>& f);
};
using Env = std::vector<EnvVar>;

struct KeyRef {
  std::string name, key;
  bool optional = false;
  static void describe(kube::Fields<KeyRef>& f);
};

struct Container {
  std::string image;
  std::vector<std::string> command, args;
  json::Value resources;
  Env env;
  static void describe(kube::Fields<Container>& f);
};

struct GatewayRoute {
  std::string timeout;
  static void describe(kube::Fields<GatewayRoute>& f);
};

struct Telemetry {
  bool enabled = false;
  std::string endpoint;
  static void describe(kube::Fields<Telemetry>& f);
};

struct DeploymentStatus {
  std::int64_t replicas = 0, ready_replicas = 0, available_replicas = 0, updated_replicas = 0;
  std::vector<kube::Condition> conditions;
  static void describe(kube::Fields<DeploymentStatus>& f);
};

// What the three have in common.
struct CommonSpec {
  std::optional<GatewayRoute> gateway_route;
  std::optional<Container> container;
  json::Value pod_spec;
  static void describe(kube::Fields<CommonSpec>& f);
};

struct CommonKaosStatus : kube::CommonStatus {
  std::string phase;
  bool ready = false;
  std::string message, endpoint;
  std::optional<DeploymentStatus> deployment;
};

// ---- Agent

struct AgentNetwork {
  bool expose = true;
  std::vector<std::string> access;
  static void describe(kube::Fields<AgentNetwork>& f);
};

struct AgenticLoop {
  std::optional<int> max_steps;
  bool enable_tools = true, enable_delegation = true;
  static void describe(kube::Fields<AgenticLoop>& f);
};

struct Memory {
  bool enabled = true;
  std::string type = "local";
  int context_limit = 6, max_sessions = 1000, max_session_events = 500;
  static void describe(kube::Fields<Memory>& f);
};

struct AgentConfig {
  std::string description, instructions;
  std::optional<int> reasoning_loop_max_steps;
  std::optional<AgenticLoop> agentic_loop;
  std::optional<Memory> memory;
  std::optional<Telemetry> telemetry;
  Env env;
  static void describe(kube::Fields<AgentConfig>& f);
};

struct AgentSpec : CommonSpec {
  std::string model_api, model;
  std::vector<std::string> mcp_servers;
  AgentNetwork agent_network;
  AgentConfig config;
  json::Value resources;
  std::optional<int> replicas;
  bool wait_for_dependencies = true;
  static void describe(kube::Fields<AgentSpec>& f);
};

// ---- ModelAPI

struct ValueSource {
  std::optional<KeyRef> secret_key_ref, config_map_key_ref;
  static void describe(kube::Fields<ValueSource>& f);
};

struct ApiKey {
  std::optional<std::string> value;
  std::optional<ValueSource> value_from;
  static void describe(kube::Fields<ApiKey>& f);
};

struct MasterKey {
  bool generate = false;
  std::optional<KeyRef> secret_key_ref;
  static void describe(kube::Fields<MasterKey>& f);
};

struct ProxyConfig {
  std::vector<std::string> models;
  std::string model, provider, api_base;
  std::optional<ApiKey> api_key;
  std::optional<MasterKey> master_key;
  json::Value config_yaml;  // a text, {fromString} or {fromSecretKeyRef}
  Env env;
  static void describe(kube::Fields<ProxyConfig>& f);
};

struct HostedConfig {
  std::string model;
  Env env;
  json::Value resources;  // of serverConfig
  static void describe(kube::Fields<HostedConfig>& f);
};

struct ModelApiSpec : CommonSpec {
  std::string mode;
  std::optional<ProxyConfig> proxy_config;
  std::optional<HostedConfig> hosted_config, server_config;
  std::optional<int> replicas;
  std::optional<Telemetry> telemetry;
  static void describe(kube::Fields<ModelApiSpec>& f);
};

// ---- MCPServer

struct Tools {
  std::optional<std::string> from_string;
  std::optional<KeyRef> from_secret_key_ref;
  std::string from_package;
  static void describe(kube::Fields<Tools>& f);
};

struct McpConfig {
  std::optional<Tools> tools;
  std::optional<std::string> tools_string;
  std::string mcp;
  Env env;
  static void describe(kube::Fields<McpConfig>& f);
};

struct McpServerSpec : CommonSpec {
  std::string runtime, params, service_account_name;
  std::string type = "python-runtime";
  McpConfig config;
  std::optional<std::string> tools_string;
  std::string mcp;
  json::Value resources;
  std::optional<Telemetry> telemetry;
  static void describe(kube::Fields<McpServerSpec>& f);
};

// The kinds; for tests under another group.
kube::Kind makeAgentKind(std::string group);
kube::Kind makeModelApiKind(std::string group);
kube::Kind makeMcpServerKind(std::string group);
const kube::Kind& agentKind();
const kube::Kind& modelApiKind();
const kube::Kind& mcpServerKind();

}  // namespace cadre::kaos
