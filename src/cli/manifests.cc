#include "cli/manifests.h"

#include <CLI/CLI.hpp>
#include <map>

#include "base/format.h"
#include "cli/cluster.h"
#include "cli/commands.h"
#include "cli/systems.h"
#include "json/yaml.h"
#include "kube/explain.h"
#include "kube/schema.h"

namespace cadre::cli {
namespace {

constexpr std::string_view kName = "kaos-operator-controller-manager";
const json::Value kSelector =
    json::Object{{"control-plane", "controller-manager"}, {"app.kubernetes.io/name", "cadre"}};

json::Value words(std::initializer_list<std::string_view> list) {
  json::Array array;
  for (std::string_view word : list) array.emplace_back(word);
  return array;
}

json::Value rule(std::string_view group, json::Value resources, json::Value verbs) {
  return json::Object{{"apiGroups", json::Array{group}},
                      {"resources", std::move(resources)},
                      {"verbs", std::move(verbs)}};
}

json::Value object(std::string_view api_version, std::string_view kind, std::string_view name,
                   std::string_view ns) {
  json::Value made = json::Object{
      {"apiVersion", api_version}, {"kind", kind}, {"metadata", json::Object{{"name", name}}}};
  if (!ns.empty()) made.make("metadata").make("namespace") = ns;
  made.make("metadata").make("labels").make("app.kubernetes.io/name") = "cadre";
  return made;
}

json::Value binding(std::string_view kind, std::string_view name, std::string_view ns,
                    std::string_view role_kind, std::string_view account_ns) {
  json::Value made = object("rbac.authorization.k8s.io/v1", kind, name, ns);
  made.make("roleRef") =
      json::Object{{"apiGroup", "rbac.authorization.k8s.io"}, {"kind", role_kind}, {"name", name}};
  made.make("subjects") = json::Array{
      json::Object{{"kind", "ServiceAccount"}, {"name", kName}, {"namespace", account_ns}}};
  return made;
}

}  // namespace

// What the operator does, and nothing else.
std::vector<json::Value> rbac(const Systems& systems, const std::string& ns) {
  engine::EngineOptions options;
  systems.serve(options);
  json::Array rules;
  for (const engine::Served& kind : options.kinds) {
    const kube::Resource& resource = kind.resource;
    rules.push_back(rule(resource.group, json::Array{resource.plural},
                         words({"get", "list", "watch", "create", "update", "patch", "delete"})));
    rules.push_back(rule(resource.group,
                         json::Array{resource.plural + "/status", resource.plural + "/finalizers"},
                         words({"get", "update", "patch"})));
  }
  for (const engine::Scope& scope : options.scopes) {
    // Pods are only looked at.
    bool read = scope.resource.kind == "Pod" || scope.which != engine::Scope::Which::Ours;
    rules.push_back(
        rule(scope.resource.group, json::Array{scope.resource.plural},
             read ? words({"get", "list", "watch"})
                  : words({"get", "list", "watch", "create", "update", "patch", "delete"})));
  }
  rules.push_back(rule("", words({"events"}), words({"create", "patch"})));
  rules.push_back(rule("authorization.k8s.io", words({"subjectaccessreviews"}), words({"create"})));
  json::Value configuration =
      rule("admissionregistration.k8s.io", words({"validatingwebhookconfigurations"}),
           words({"get", "list", "watch", "patch"}));
  configuration.make("resourceNames") = words({kWebhookConfiguration});
  rules.push_back(std::move(configuration));
  json::Value cluster_role = object("rbac.authorization.k8s.io/v1", "ClusterRole", kName, "");
  cluster_role.make("rules") = std::move(rules);
  json::Value role = object("rbac.authorization.k8s.io/v1", "Role", kName, ns);
  role.make("rules") =
      json::Array{rule("coordination.k8s.io", words({"leases"}),
                       words({"get", "list", "watch", "create", "update", "patch", "delete"}))};
  return {object("v1", "ServiceAccount", kName, ns), std::move(cluster_role),
          binding("ClusterRoleBinding", kName, "", "ClusterRole", ns), std::move(role),
          binding("RoleBinding", kName, ns, "Role", ns)};
}

// Objects are taken while the webhook is away: the operator finds what is wrong with them as well.
// Not so where an identity is lent: only the webhook knows who asks for it.
std::vector<json::Value> webhook(const Systems& systems, const std::string& ns) {
  std::map<std::string, json::Array> by_group;
  for (const kube::Kind* kind : systems.kinds()) by_group[kind->group].emplace_back(kind->plural);
  json::Array rules;
  for (auto& [group, plurals] : by_group)
    rules.push_back(json::Object{{"apiGroups", json::Array{group}},
                                 {"apiVersions", words({"*"})},
                                 {"resources", std::move(plurals)},
                                 {"operations", words({"CREATE", "UPDATE"})}});
  json::Value always =
      json::Object{{"name", "validate.kaos.tools"},
                   {"admissionReviewVersions", words({"v1"})},
                   {"clientConfig", json::Object{{"service", json::Object{{"name", kWebhookService},
                                                                          {"namespace", ns},
                                                                          {"path", "/validate"},
                                                                          {"port", 443}}}}},
                   {"rules", std::move(rules)},
                   {"failurePolicy", "Ignore"},
                   {"matchPolicy", "Equivalent"},
                   {"sideEffects", "None"},
                   {"timeoutSeconds", 5}};
  json::Value guard = always;
  guard.make("name") = "guard.kaos.tools";
  guard.make("failurePolicy") = "Fail";
  guard.make("timeoutSeconds") = 10;
  // At least what the guard asks about (kinds/kaos/serve.cc); but what runs already can go.
  guard.make("matchConditions") = json::Array{
      json::Object{{"name", "changes-what-runs"},
                   {"expression",
                    "has(object.spec) && (oldObject == null || !has(oldObject.spec) || "
                    "object.spec != oldObject.spec)"}},
      json::Object{{"name", "lends-an-identity"},
                   {"expression",
                    "has(object.spec.serviceAccountName) || (has(object.spec.runtime) && "
                    "object.spec.runtime == 'kubernetes' && has(object.spec.container)) || "
                    "(has(object.spec.podSpec) && object.spec.podSpec != null && "
                    "['serviceAccountName', 'serviceAccount', 'automountServiceAccountToken', "
                    "'hostNetwork', 'hostPID', 'hostIPC', 'volumes', 'initContainers', "
                    "'containers'].exists(field, field in object.spec.podSpec))"}}};
  json::Value configuration = object("admissionregistration.k8s.io/v1",
                                     "ValidatingWebhookConfiguration", kWebhookConfiguration, "");
  configuration.make("webhooks") = json::Array{std::move(always), std::move(guard)};
  json::Value service = object("v1", "Service", kWebhookService, ns);
  service.make("spec") = json::Object{
      {"selector", kSelector},
      {"ports",
       json::Array{json::Object{{"name", "webhook"}, {"port", 443}, {"targetPort", "webhook"}}}}};
  return {std::move(service), std::move(configuration)};
}

std::vector<json::Value> crds(const Systems& systems) {
  std::vector<json::Value> made;
  for (const kube::Kind* kind : systems.kinds()) made.push_back(kube::crd(*kind));
  return made;
}

std::vector<json::Value> install(const Systems& systems, const std::string& ns,
                                 const std::string& image) {
  json::Value space = object("v1", "Namespace", ns, "");
  space.make("metadata").make("labels").make("pod-security.kubernetes.io/enforce") = "restricted";
  std::vector<json::Value> all{std::move(space)};
  for (json::Value& made : crds(systems)) all.push_back(std::move(made));
  for (json::Value& made : rbac(systems, ns)) all.push_back(std::move(made));
  auto probe = [](std::string_view path) {
    return json::Object{{"httpGet", json::Object{{"path", path}, {"port", "health"}}}};
  };
  json::Value deployment = object("apps/v1", "Deployment", kName, ns);
  deployment.make("spec") = json::Object{
      {"replicas", 1},
      {"selector", json::Object{{"matchLabels", kSelector}}},
      {"template",
       json::Object{
           {"metadata", json::Object{{"labels", kSelector}}},
           {"spec",
            json::Object{
                {"serviceAccountName", kName},
                {"securityContext",
                 json::Object{{"runAsNonRoot", true},
                              {"runAsUser", 65532},
                              {"seccompProfile", json::Object{{"type", "RuntimeDefault"}}}}},
                {"terminationGracePeriodSeconds", 30},
                {"containers",
                 json::Array{json::Object{
                     {"name", "manager"},
                     {"image", image},
                     {"imagePullPolicy", "IfNotPresent"},
                     {"args",
                      words({"operator", "--leader-elect", "--metrics-bind-address=:8080",
                             "--health-probe-bind-address=:8081", "--webhook-bind-address=:9443"})},
                     {"env",
                      json::Array{json::Object{
                          {"name", "SYSTEM_NAMESPACE"},
                          {"valueFrom",
                           json::Object{
                               {"fieldRef", json::Object{{"fieldPath", "metadata.namespace"}}}}}}}},
                     {"ports",
                      json::Array{json::Object{{"name", "metrics"}, {"containerPort", 8080}},
                                  json::Object{{"name", "health"}, {"containerPort", 8081}},
                                  json::Object{{"name", "webhook"}, {"containerPort", 9443}}}},
                     {"livenessProbe", probe("/healthz")},
                     {"readinessProbe", probe("/readyz")},
                     {"resources",
                      json::Object{{"requests", json::Object{{"cpu", "10m"}, {"memory", "32Mi"}}},
                                   {"limits", json::Object{{"memory", "256Mi"}}}}},
                     {"securityContext",
                      json::Object{
                          {"allowPrivilegeEscalation", false},
                          {"readOnlyRootFilesystem", true},
                          {"capabilities", json::Object{{"drop", words({"ALL"})}}}}}}}}}}}}};
  all.push_back(std::move(deployment));
  for (json::Value& made : webhook(systems, ns)) all.push_back(std::move(made));
  return all;
}

std::string asYaml(const std::vector<json::Value>& objects) {
  std::string text;
  for (const json::Value& one : objects) {
    if (!text.empty()) text += "---\n";
    text += json::writeYaml(one);
  }
  return text;
}

void addManifests(CLI::App& app, const Surroundings& surroundings, int& exit_code) {
  auto* command = app.add_subcommand("manifests", "Print what has to be applied to a cluster");
  command->require_subcommand(1);
  struct Flags {
    Systems systems;
    std::string ns = "kaos-system", image = "cadre:latest";
  };
  auto flags = std::make_shared<Flags>();
  auto* reference =
      command->add_subcommand("reference", "Documentation of every kind and field, in Markdown");
  reference->callback([flags, &surroundings, &exit_code] {
    std::string text;
    for (const kube::Kind* kind : flags->systems.kinds()) text += kube::reference(*kind) + "\n";
    text.pop_back();
    surroundings.out(text);
    exit_code = 0;
  });
  auto add = [&](const char* name, const char* what, auto make) {
    auto* sub = command->add_subcommand(name, what);
    sub->add_option("-n,--namespace", flags->ns, "The operator's namespace")
        ->capture_default_str()
        ->check(namespaceProblem);
    sub->add_option("--image", flags->image, "The operator's image")->capture_default_str();
    sub->callback([flags, make, &surroundings, &exit_code] {
      surroundings.out(asYaml(make(*flags)));
      exit_code = 0;
    });
  };
  add("crds", "CustomResourceDefinitions", [](const Flags& f) { return crds(f.systems); });
  add("rbac", "What the operator may do", [](const Flags& f) { return rbac(f.systems, f.ns); });
  add("install", "Everything, with the operator itself",
      [](const Flags& f) { return install(f.systems, f.ns, f.image); });
}

void addExplain(CLI::App& app, const Surroundings& surroundings, int& exit_code) {
  auto* command = app.add_subcommand("explain", "Tell what a kind and its fields mean");
  auto path = std::make_shared<std::string>();
  command->add_option("KIND[.FIELD...]", *path, "As agent.spec.config")->required();
  command->callback([path, &surroundings, &exit_code] {
    Systems systems;
    // A kind may be written with its group: the longest name that is one counts.
    std::string kind = *path, field;
    for (;;) {
      if (auto found = findKind(systems, kind)) {
        auto text = kube::explain(**found, field);
        if (!text) return void(exit_code = fail(surroundings, text.error().text()));
        surroundings.out(*text);
        return;
      }
      auto dot = kind.rfind('.');
      if (dot == kind.npos) break;
      field = format("{}{}{}", kind.substr(dot + 1), field.empty() ? "" : ".", field);
      kind.resize(dot);
    }
    exit_code = fail(surroundings, findKind(systems, *path).error().text());
  });
}

}  // namespace cadre::cli
