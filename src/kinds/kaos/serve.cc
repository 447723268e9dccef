#include "base/format.h"
#include "kinds/kaos/plans.h"

namespace cadre::kaos {
namespace {

// Who may write these objects but not make pods gets no other identity by the pods that we make for
// them: not of an account or by its token, not of the node, and no Secret by a podSpec, for a token
// may be in it. Returns the field that would lend one, or nothing. Secrets that fields of ours name
// are what these are for; whether one holds a token is not known here.
std::string lender(const json::Value& spec) {
  const json::Value &pod = spec["podSpec"], &container = spec["container"];
  if (!spec["serviceAccountName"].string().empty()) return "spec.serviceAccountName";
  for (std::string_view field : {"serviceAccountName", "serviceAccount"})
    if (!pod[field].string().empty()) return format("spec.podSpec.{}", field);
  for (std::string_view field :
       {"automountServiceAccountToken", "hostNetwork", "hostPID", "hostIPC"})
    if (pod[field].boolean()) return format("spec.podSpec.{}", field);
  for (std::size_t i = 0; i < pod["volumes"].array().size(); ++i)
    for (const auto& [source, value] : pod["volumes"].at(i).object())
      if (!value.isNull() && source != "name" && source != "emptyDir" && source != "configMap" &&
          source != "downwardAPI" && source != "persistentVolumeClaim" && source != "ephemeral")
        return format("spec.podSpec.volumes[{}].{}", i, source);
  for (std::string_view list : {"initContainers", "containers"})
    for (std::size_t i = 0; i < pod[list].array().size(); ++i) {
      const json::Value& one = pod[list].at(i);
      std::string at = format("spec.podSpec.{}[{}]", list, i);
      if (one["securityContext"]["privileged"].boolean()) return at + ".securityContext.privileged";
      for (std::size_t j = 0; j < one["env"].array().size(); ++j)
        if (!one["env"].at(j)["valueFrom"]["secretKeyRef"].isNull())
          return format("{}.env[{}].valueFrom.secretKeyRef", at, j);
      for (std::size_t j = 0; j < one["envFrom"].array().size(); ++j)
        if (!one["envFrom"].at(j)["secretRef"].isNull())
          return format("{}.envFrom[{}].secretRef", at, j);
    }
  if (spec["runtime"].string() != "kubernetes") return "";
  // It has the token of the namespace's account, which no program of theirs may see.
  for (std::string_view field : {"image", "command", "args", "env"})
    if (!container[field].isNull()) return format("spec.container.{}", field);
  if (!spec["config"]["env"].isNull()) return "spec.config.env";
  for (std::string_view list : {"initContainers", "containers"})
    if (!pod[list].array().empty()) return format("spec.podSpec.{}", list);
  return "";
}

// Who changes anything about an object with another identity could make it do what they want, so
// they are asked as well.
void guardIdentity(const json::Value& object, const json::Value& old_object,
                   engine::Verdict& verdict) {
  if (object["spec"] == old_object["spec"]) return;
  if (std::string field = lender(object["spec"]); !field.empty())
    verdict.demands.push_back({field, "create", kPods,
                               "only who may create pods in this namespace may give them an "
                               "account, its token, the node or a Secret"});
}

}  // namespace

std::vector<engine::Validator> validators(const Settings& settings) {
  std::vector<engine::Validator> all;
  for (const kube::Kind* kind : {&agentKind(), &modelApiKind(), &mcpServerKind()})
    all.push_back({kind->resource(), [kind, guards = settings.guard_service_accounts](
                                         engine::Operation operation, const json::Value& object,
                                         const json::Value& old_object) {
                     auto verdict = engine::verdictOf(*kind, operation, object, old_object);
                     if (guards) guardIdentity(object, old_object, verdict);
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
