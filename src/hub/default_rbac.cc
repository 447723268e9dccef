// The roles and bindings that a fresh API server has, as far as clients and people need them. Those
// of the controllers of a cluster are left out: here, the program itself does their work.
#include <array>

#include "base/strings.h"
#include "hub/rbac.h"

namespace cadre::hub {
namespace {

// Lists are texts with blanks between; "-" is the core group.
struct RuleRow {
  std::string_view verbs, groups, resources, paths = {};
};
struct RoleRow {
  std::string_view name;
  std::string_view aggregates_to = {};  // the role that its rules become a part of
  std::vector<RuleRow> rules = {};
  bool aggregates = false;  // it is such a role
};
struct BindingRow {
  std::string_view role, groups;
};

constexpr std::string_view kRead = "get list watch";
constexpr std::string_view kWrite = "create delete deletecollection patch update";
constexpr std::string_view kReadWrite =
    "create delete deletecollection get list patch update watch";

const std::vector<RoleRow>& roleRows() {
  static const std::vector<RoleRow> kRoles{
      {"cluster-admin", "", {{"*", "*", "*"}, {"*", "", "", "*"}}},
      {"admin", "", {}, true},
      {"edit", "admin", {}, true},
      {"view", "edit", {}, true},
      {"system:aggregate-to-admin",
       "admin",
       {{"create", "authorization.k8s.io", "localsubjectaccessreviews"},
        {kReadWrite, "rbac.authorization.k8s.io", "rolebindings roles"}}},
      {"system:aggregate-to-edit",
       "edit",
       {{kRead, "-", "pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy"},
        {"impersonate", "-", "serviceaccounts"},
        {kWrite, "-", "pods pods/attach pods/exec pods/portforward pods/proxy"},
        {"create", "-", "pods/eviction"},
        {kWrite, "-",
         "configmaps events persistentvolumeclaims replicationcontrollers "
         "replicationcontrollers/scale secrets serviceaccounts services services/proxy"},
        {"create", "-", "serviceaccounts/token"},
        {kWrite, "apps",
         "daemonsets deployments deployments/rollback deployments/scale replicasets "
         "replicasets/scale statefulsets statefulsets/scale"},
        {kWrite, "autoscaling", "horizontalpodautoscalers"},
        {kWrite, "batch", "cronjobs jobs"},
        {kWrite, "extensions",
         "daemonsets deployments deployments/rollback deployments/scale ingresses "
         "networkpolicies replicasets replicasets/scale replicationcontrollers/scale"},
        {kWrite, "policy", "poddisruptionbudgets"},
        {kWrite, "networking.k8s.io", "ingresses networkpolicies"},
        {kReadWrite, "coordination.k8s.io", "leases"},
        {kWrite, "resource.k8s.io", "resourceclaims resourceclaimtemplates"}}},
      {"system:aggregate-to-view",
       "view",
       {{kRead, "-",
         "configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods "
         "replicationcontrollers replicationcontrollers/scale serviceaccounts services "
         "services/status"},
        {kRead, "-",
         "bindings events limitranges namespaces/status pods/log pods/status "
         "replicationcontrollers/status resourcequotas resourcequotas/status"},
        {kRead, "-", "namespaces"},
        {kRead, "discovery.k8s.io", "endpointslices"},
        {kRead, "apps",
         "controllerrevisions daemonsets daemonsets/status deployments deployments/scale "
         "deployments/status replicasets replicasets/scale replicasets/status statefulsets "
         "statefulsets/scale statefulsets/status"},
        {kRead, "autoscaling", "horizontalpodautoscalers horizontalpodautoscalers/status"},
        {kRead, "batch", "cronjobs cronjobs/status jobs jobs/status"},
        {kRead, "extensions",
         "daemonsets daemonsets/status deployments deployments/scale deployments/status ingresses "
         "ingresses/status networkpolicies replicasets replicasets/scale replicasets/status "
         "replicationcontrollers/scale"},
        {kRead, "policy", "poddisruptionbudgets poddisruptionbudgets/status"},
        {kRead, "networking.k8s.io", "ingresses ingresses/status networkpolicies"},
        {kRead, "resource.k8s.io", "resourceclaims resourceclaims/status resourceclaimtemplates"}}},
      {"system:auth-delegator",
       "",
       {{"create", "authentication.k8s.io", "tokenreviews"},
        {"create", "authorization.k8s.io", "subjectaccessreviews"}}},
      {"system:basic-user",
       "",
       {{"create", "authorization.k8s.io", "selfsubjectaccessreviews selfsubjectrulesreviews"},
        {"create", "authentication.k8s.io", "selfsubjectreviews"}}},
      {"system:discovery",
       "",
       {{"get", "", "",
         "/api /api/* /apis /apis/* /healthz /livez /openapi /openapi/* /readyz /version "
         "/version/"}}},
      {"system:monitoring",
       "",
       {{"get", "", "",
         "/healthz /healthz/* /livez /livez/* /metrics /metrics/slis /readyz /readyz/*"},
        {"get", "-", "nodes/metrics"}}},
      {"system:public-info-viewer",
       "",
       {{"get", "", "", "/healthz /livez /readyz /version /version/"}}},
      {"system:service-account-issuer-discovery",
       "",
       {{"get", "", "",
         "/.well-known/openid-configuration /.well-known/openid-configuration/ /openid/v1/jwks "
         "/openid/v1/jwks/"}}},
  };
  return kRoles;
}

constexpr std::array<BindingRow, 6> kBindings{{
    {"cluster-admin", "system:masters"},
    {"system:basic-user", "system:authenticated"},
    {"system:discovery", "system:authenticated"},
    {"system:monitoring", "system:monitoring"},
    {"system:public-info-viewer", "system:authenticated system:unauthenticated"},
    {"system:service-account-issuer-discovery", "system:serviceaccounts"},
}};

constexpr std::string_view kGroup = "rbac.authorization.k8s.io";

json::Array listOf(std::string_view texts) {
  json::Array list;
  if (texts.empty()) return list;
  for (std::string_view text : split(texts, ' ')) list.emplace_back(text == "-" ? "" : text);
  return list;
}

json::Object object(std::string_view kind, std::string_view name) {
  return json::Object{
      {"apiVersion", "rbac.authorization.k8s.io/v1"},
      {"kind", kind},
      {"metadata",
       json::Object{
           {"name", name},
           {"annotations", json::Object{{"rbac.authorization.kubernetes.io/autoupdate", "true"}}},
           {"labels", json::Object{{"kubernetes.io/bootstrapping", "rbac-defaults"}}}}}};
}

std::string aggregationLabel(std::string_view role) {
  return "rbac.authorization.k8s.io/aggregate-to-" + std::string(role);
}

json::Value clusterRole(const RoleRow& row) {
  json::Value role = object("ClusterRole", row.name);
  if (!row.aggregates_to.empty())
    role.make("metadata").make("labels").make(aggregationLabel(row.aggregates_to)) = "true";
  if (row.aggregates) {
    json::Object labels{{aggregationLabel(row.name), "true"}};
    json::Array selectors{json::Object{{"matchLabels", std::move(labels)}}};
    role.make("aggregationRule").make("clusterRoleSelectors") = std::move(selectors);
    role.make("rules") = nullptr;
    return role;
  }
  json::Array rules;
  for (const RuleRow& rule : row.rules) {
    json::Object one{{"verbs", listOf(rule.verbs)}};
    if (!rule.paths.empty()) {
      one.set("nonResourceURLs", listOf(rule.paths));
    } else {
      one.set("apiGroups", listOf(rule.groups));
      one.set("resources", listOf(rule.resources));
    }
    rules.emplace_back(std::move(one));
  }
  role.make("rules") = std::move(rules);
  return role;
}

json::Value clusterRoleBinding(const BindingRow& row) {
  json::Object binding = object("ClusterRoleBinding", row.role);
  binding.set("roleRef",
              json::Object{{"apiGroup", kGroup}, {"kind", "ClusterRole"}, {"name", row.role}});
  json::Array subjects;
  for (std::string_view group : split(row.groups, ' '))
    subjects.emplace_back(json::Object{{"apiGroup", kGroup}, {"kind", "Group"}, {"name", group}});
  binding.set("subjects", std::move(subjects));
  return binding;
}

}  // namespace

Rbac::Objects defaultRbac() {
  Rbac::Objects objects;
  for (const RoleRow& row : roleRows()) objects.cluster_roles.push_back(clusterRole(row));
  for (const BindingRow& row : kBindings)
    objects.cluster_role_bindings.push_back(clusterRoleBinding(row));
  return objects;
}

}  // namespace cadre::hub
