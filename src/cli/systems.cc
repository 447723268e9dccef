#include "cli/systems.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/format.h"
#include "base/strings.h"
#include "kinds/kaos/plans.h"

namespace cadre::cli {

std::optional<std::string> ownNamespace(const std::string& file) {
  std::ifstream in(file);
  std::string name;
  if (!(in >> name)) return std::nullopt;
  return name;
}

std::optional<std::string> clusterDomain(const std::string& resolver_file) {
  std::ifstream in(resolver_file);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string word;
    words >> word;
    if (word != "search") continue;
    while (words >> word)
      if (word.starts_with("svc.") && word.size() > 4)
        return word.substr(4, word.size() - (word.ends_with('.') ? 5 : 4));
  }
  return std::nullopt;
}

void Systems::addTo(CLI::App& command) {
  if (auto own = ownNamespace("/var/run/secrets/kubernetes.io/serviceaccount/namespace"))
    kaos.system_namespace = *own;
  if (auto domain = clusterDomain("/etc/resolv.conf")) kaos.cluster_domain = *domain;
  command.add_option("--systems", names, "Families of kinds that are served")
      ->delimiter(',')
      ->check(CLI::IsMember({"kaos"}));
  auto add = [&](std::string flag, std::string& into, std::string env, std::string what) {
    command.add_option("--kaos-" + flag, into, what)->envname(env)->capture_default_str();
  };
  add("agent-image", kaos.agent_image, "DEFAULT_AGENT_IMAGE", "Image of agents");
  add("litellm-image", kaos.litellm_image, "DEFAULT_LITELLM_IMAGE", "Image of proxies");
  add("ollama-image", kaos.ollama_image, "DEFAULT_OLLAMA_IMAGE", "Image of hosted models");
  bool older = !std::getenv("DEFAULT_MCP_PYTHON_IMAGE") && std::getenv("DEFAULT_MCP_SERVER_IMAGE");
  add("mcp-python-image", kaos.mcp_python_image,
      older ? "DEFAULT_MCP_SERVER_IMAGE" : "DEFAULT_MCP_PYTHON_IMAGE",
      "Image of tools from source");
  add("mcp-bridge-image", kaos.mcp_bridge_image, "DEFAULT_MCP_BRIDGE_IMAGE",
      "Image that the bridge is taken from; empty: the agents'");
  add("mcp-package-image", kaos.mcp_package_image, "DEFAULT_MCP_PACKAGE_IMAGE",
      "Image of packages from PyPI");
  add("mcp-node-image", kaos.mcp_node_image, "DEFAULT_MCP_NODE_IMAGE",
      "Image of packages from npm");
  add("system-namespace", kaos.system_namespace, "SYSTEM_NAMESPACE", "The operator's namespace");
  add("cluster-domain", kaos.cluster_domain, "KUBERNETES_CLUSTER_DOMAIN", "The cluster's domain");
  add("log-level", kaos.log_level, "DEFAULT_LOG_LEVEL", "Log level of what is run");
  add("telemetry-endpoint", kaos.telemetry_endpoint, "DEFAULT_TELEMETRY_ENDPOINT",
      "OTLP receiver where an object names none");
  add("gateway-name", kaos.gateway_name, "GATEWAY_NAME", "The Gateway that routes belong to");
  add("gateway-namespace", kaos.gateway_namespace, "GATEWAY_NAMESPACE",
      "Its namespace; empty: the system namespace");
  add("gateway-timeout-agent", kaos.gateway_timeout_agent, "GATEWAY_DEFAULT_AGENT_TIMEOUT",
      "Timeout of routes to agents");
  add("gateway-timeout-modelapi", kaos.gateway_timeout_modelapi, "GATEWAY_DEFAULT_MODELAPI_TIMEOUT",
      "Timeout of routes to models");
  add("gateway-timeout-mcp", kaos.gateway_timeout_mcp, "GATEWAY_DEFAULT_MCP_TIMEOUT",
      "Timeout of routes to tools");
  command
      .add_option_function<std::string>(
          "--kaos-tools-interval",
          [this](const std::string& text) {
            auto interval = parseDuration(text);
            if (!interval || *interval < 1s)
              throw CLI::ValidationError("--kaos-tools-interval",
                                         "is a time of a second or more, like 10m");
            kaos.tools_interval = *interval;
          },
          "How often servers are asked for their tools")
      ->envname("KAOS_TOOLS_INTERVAL")
      ->default_str(formatDuration(kaos.tools_interval));
  command.add_flag("--kaos-telemetry", kaos.telemetry, "Telemetry where an object does not say")
      ->envname("DEFAULT_TELEMETRY_ENABLED");
  command.add_flag("--kaos-gateway", kaos.gateway, "Make routes for the Gateway API")
      ->envname("GATEWAY_API_ENABLED");
  command
      .add_flag("--kaos-guard-service-accounts", kaos.guard_service_accounts,
                "Only who may create pods may give them another identity (=false: anybody)")
      ->envname("KAOS_GUARD_SERVICE_ACCOUNTS");
}

std::vector<const kube::Kind*> Systems::kinds() const {
  return {&kaos::agentKind(), &kaos::modelApiKind(), &kaos::mcpServerKind()};
}

void Systems::serve(engine::EngineOptions& options) const { kaos::serve(options, kaos); }

std::vector<engine::Validator> Systems::validators() const { return kaos::validators(kaos); }

const kube::Kind* findKind(const Systems& systems, const json::Value& object) {
  for (const kube::Kind* kind : systems.kinds())
    if (object["kind"].string() == kind->kind &&
        object["apiVersion"].string() == kind->resource().apiVersion())
      return kind;
  return nullptr;
}

Result<const kube::Kind*> findKind(const Systems& systems, const std::string& called) {
  std::string wanted = lower(called);
  std::vector<const kube::Kind*> found;
  std::vector<std::string> all;
  for (const kube::Kind* kind : systems.kinds()) {
    std::string full = format("{}.{}", kind->plural, kind->group);
    all.push_back(full);
    if (wanted == full) return kind;
    if (wanted == kind->plural || wanted == kind->singular ||
        std::find(kind->short_names.begin(), kind->short_names.end(), wanted) !=
            kind->short_names.end())
      found.push_back(kind);
  }
  if (found.size() == 1) return found[0];
  return Error{.code = Code::InvalidArgument,
               .message = format("\"{}\" is {}; there are {}", called,
                                 found.empty() ? "no kind that cadre serves" : "ambiguous",
                                 join(all, ", "))};
}

}  // namespace cadre::cli
