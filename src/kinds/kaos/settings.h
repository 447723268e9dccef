#pragma once

#include <string>

#include "base/time.h"

namespace cadre::kaos {

// What the operator is told for all objects: by flags, else by environment variables.
struct Settings {
  std::string agent_image = "cadre-agent:latest";
  std::string litellm_image = "litellm/litellm:latest";
  std::string ollama_image = "ollama/ollama:latest";
  std::string mcp_python_image = "cadre-mcp-python:latest";
  std::string mcp_bridge_image;  // empty: the agent image
  std::string mcp_package_image = "python:3.12-slim";
  std::string mcp_node_image = "node:22-slim";
  std::string mcp_kubernetes_image = "ghcr.io/manusa/kubernetes-mcp-server:latest";
  std::string mcp_slack_image = "zencoderai/slack-mcp:latest";
  std::string system_namespace = "kaos-system";
  std::string cluster_domain = "cluster.local";
  std::string log_level = "INFO";
  bool telemetry = false;
  std::string telemetry_endpoint;
  bool gateway = false;
  std::string gateway_name = "kaos-gateway";
  std::string gateway_namespace;  // empty: the system namespace
  std::string gateway_timeout_agent = "300s", gateway_timeout_modelapi = "120s",
              gateway_timeout_mcp = "60s";
  Duration tools_interval = 10min;
  // Whoever gives pods another identity must be allowed to create pods.
  bool guard_service_accounts = true;
  bool reads_registry = true;  // false: who looks may not see it, and knows the built-in runtimes
};

}  // namespace cadre::kaos
