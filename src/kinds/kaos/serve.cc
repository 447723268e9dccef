#include "kinds/kaos/plans.h"

namespace cadre::kaos {
namespace {

// The pods of who may not make pods run under no account of their choice. Who changes anything
// about an object with such an account could make it do what they want, so they are asked as well.
void guardServiceAccount(const json::Value& object, const json::Value& old_object,
                         engine::Verdict& verdict) {
  const json::Value &spec = object["spec"], &pod = spec["podSpec"];
  if (spec == old_object["spec"]) return;
  for (const auto& [field, account] :
       {std::pair{"spec.serviceAccountName", &spec["serviceAccountName"]},
        {"spec.podSpec.serviceAccountName", &pod["serviceAccountName"]},
        {"spec.podSpec.serviceAccount", &pod["serviceAccount"]}})
    if (!account->string().empty())
      verdict.demands.push_back(
          {field, "create", kPods,
           "only who may create pods in this namespace may choose their service account"});
}

}  // namespace

std::vector<engine::Validator> validators(const Settings& settings) {
  std::vector<engine::Validator> all;
  for (const kube::Kind* kind : {&agentKind(), &modelApiKind(), &mcpServerKind()})
    all.push_back({kind->resource(), [kind, guards = settings.guard_service_accounts](
                                         engine::Operation operation, const json::Value& object,
                                         const json::Value& old_object) {
                     auto verdict = engine::verdictOf(*kind, operation, object, old_object);
                     if (guards) guardServiceAccount(object, old_object, verdict);
                     return verdict;
                   }});
  return all;
}

void serve(engine::EngineOptions& options, const Settings& settings) {
  const std::vector<std::string> common{"Accepted", "ConfigReady", "WorkloadReady",
                                        "Ready",    "RouteReady",  "TelemetryReady"};
  auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), common.begin(), common.end());
    return more;
  };
  options.kinds.push_back(
      {.resource = kAgents,
       .plan = [&settings](const json::Value& object,
                           engine::World& world) { return planAgent(object, world, settings); },
       .conditions = with({"DependenciesReady", "ModelSupported", "PeersReady"})});
  options.kinds.push_back(
      {.resource = kModelApis,
       .plan = [&settings](const json::Value& object,
                           engine::World& world) { return planModelApi(object, world, settings); },
       .conditions = with({"Secured"})});
  options.kinds.push_back(
      {.resource = kMcpServers,
       .plan = [&settings](const json::Value& object,
                           engine::World& world) { return planMcpServer(object, world, settings); },
       .conditions = with({"RuntimeResolved", "ToolsDiscovered"})});
  options.scopes.push_back({.resource = kDeployments});
  options.scopes.push_back({.resource = kServices});
  options.scopes.push_back({.resource = kPods});
  options.scopes.push_back({.resource = kHttpRoutes});
  options.scopes.push_back({.resource = kConfigMaps, .named = true});
  options.scopes.push_back({.resource = kSecrets, .named = true});
}

}  // namespace cadre::kaos
