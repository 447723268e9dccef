// Who may do what. What is expected here was seen at kube-apiserver; rbac_cluster_test asks it
// again.
#include "hub/rbac.h"

#include "base/format.h"
#include "json/write.h"
#include "json/yaml.h"

namespace cadre::hub {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

json::Value yaml(std::string_view text) {
  auto documents = json::parseYaml(text, "test");
  EXPECT_TRUE(documents) << documents.error().text();
  return documents ? documents->at(0).value : json::Value();
}

// Sorted into the lists by their kinds.
Rbac::Objects objectsOf(std::string_view list, Rbac::Objects objects = {}) {
  json::Value all = yaml(list);
  for (const json::Value& object : all.array()) {
    const std::string& kind = object["kind"].string();
    (kind == "Role"          ? objects.roles
     : kind == "ClusterRole" ? objects.cluster_roles
     : kind == "RoleBinding" ? objects.role_bindings
                             : objects.cluster_role_bindings)
        .push_back(object);
  }
  return objects;
}

constexpr std::string_view kHouse = R"(
- kind: Role
  metadata: {name: reader, namespace: x}
  rules:
  - {apiGroups: [""], resources: [pods, pods/log], verbs: [get, list]}
  - {apiGroups: [apps], resources: ["*/scale"], verbs: ["*"], resourceNames: [d]}
- kind: RoleBinding
  metadata: {name: readers, namespace: x}
  roleRef: {kind: Role, name: reader}
  subjects:
  - {kind: User, name: ann}
  - {kind: Group, name: devs}
  - {kind: ServiceAccount, name: here}
  - {kind: ServiceAccount, name: there, namespace: "y"}
- kind: RoleBinding
  metadata: {name: lost, namespace: x}
  roleRef: {kind: Role, name: missing}
  subjects: [{kind: User, name: bob}]
- kind: ClusterRoleBinding
  metadata: {name: lost}
  roleRef: {kind: ClusterRole, name: missing}
  subjects: [{kind: User, name: bob}]
- kind: ClusterRole
  metadata: {name: writer}
  rules:
  - {apiGroups: [rbac.authorization.k8s.io], resources: ["*"], verbs: [create, update, patch, get]}
  - {apiGroups: [""], resources: [pods], verbs: [get]}
  - {nonResourceURLs: ["/foo/*"], verbs: [get]}
- kind: ClusterRoleBinding
  metadata: {name: writers}
  roleRef: {kind: ClusterRole, name: writer}
  subjects: [{kind: User, name: mia}, {kind: User, name: bob}, {kind: ServiceAccount, name: nowhere}]
- kind: RoleBinding
  metadata: {name: writers-too, namespace: x}
  roleRef: {kind: ClusterRole, name: writer}
  subjects: [{kind: User, name: max}]
- kind: ClusterRole
  metadata: {name: escalator}
  rules:
  - {apiGroups: [rbac.authorization.k8s.io], resources: [roles, clusterroles], verbs: [escalate]}
  - {apiGroups: [rbac.authorization.k8s.io], resources: [clusterroles], verbs: [bind], resourceNames: [view]}
- kind: ClusterRoleBinding
  metadata: {name: escalators}
  roleRef: {kind: ClusterRole, name: escalator}
  subjects: [{kind: User, name: esc}]
- kind: ClusterRole
  metadata: {name: escalator-of-one}
  rules:
  - {apiGroups: [rbac.authorization.k8s.io], resources: [roles], verbs: [escalate], resourceNames: [t]}
- kind: ClusterRoleBinding
  metadata: {name: escalators-of-one}
  roleRef: {kind: ClusterRole, name: escalator-of-one}
  subjects: [{kind: User, name: named}]
)";

const Rbac& house() {
  static const Rbac rbac(objectsOf(kHouse, defaultRbac()));
  return rbac;
}

User user(std::string_view name, std::vector<std::string> groups = {}) {
  return completed({.name = std::string(name), .groups = std::move(groups)});
}

Attributes wanted(std::string_view method, std::string_view target) {
  return Attributes::of(*parseRequest(method, target), method);
}

TEST(Rbac, WhatARequestWants) {
  struct Case {
    std::string_view method, target, text, name;
  };
  for (
      const Case& c : std::vector<Case>{
          {"GET", "/api/v1/namespaces/x/pods/p/log",
           R"(cannot get resource "pods/log" in API group "" in the namespace "x")", "p"},
          {"GET", "/api/v1/nodes/n",
           R"(cannot get resource "nodes" in API group "" at the cluster scope)", "n"},
          {"DELETE", "/apis/apps/v1/namespaces/x/deployments",
           R"(cannot deletecollection resource "deployments" in API group "apps" in the namespace "x")",
           ""},
          {"GET", "/api/v1/namespaces/x",
           R"(cannot get resource "namespaces" in API group "" in the namespace "x")", "x"},
          {"PUT", "/api/v1/namespaces/x/status",
           R"(cannot update resource "namespaces/status" in API group "" in the namespace "x")",
           "x"},
          {"GET", "/api/v1/namespaces",
           R"(cannot list resource "namespaces" in API group "" at the cluster scope)", ""},
          {"POST", "/foo", R"(cannot post path "/foo")", ""},
          {"GET", "/api", R"(cannot get path "/api")", ""},
          {"GET", "/api/v1/namespaces/x/configmaps?fieldSelector=metadata.name%3Da",
           R"(cannot list resource "configmaps" in API group "" in the namespace "x")", "a"},
          {"GET", "/api/v1/namespaces/x/configmaps?watch=1&fieldSelector=metadata.name%3Da",
           R"(cannot watch resource "configmaps" in API group "" in the namespace "x")", "a"},
          {"GET", "/api/v1/namespaces/x/configmaps?fieldSelector=metadata.name!%3Da",
           R"(cannot list resource "configmaps" in API group "" in the namespace "x")", ""},
          {"DELETE", "/api/v1/namespaces/x/configmaps?fieldSelector=metadata.name%3Da",
           R"(cannot deletecollection resource "configmaps" in API group "" in the namespace "x")",
           ""},
      }) {
    Attributes asked = wanted(c.method, c.target);
    EXPECT_EQ(asked.text(), c.text);
    EXPECT_EQ(asked.name, c.name) << c.target;
  }
}

TEST(Rbac, Rules) {
  struct Case {
    std::string_view rule;
    Attributes wanted;
    bool allowed;
  };
  const Attributes get_pod{.verb = "get", .resource = "pods", .name = "p", .ns = "x"};
  const Attributes get_log{.verb = "get", .resource = "pods", .subresource = "log", .name = "p"};
  const Attributes list_pods{.verb = "list", .resource = "pods"};
  const Attributes healthz{.verb = "get", .path = "/healthz/etcd"};
  for (const Case& c : std::vector<Case>{
           {R"({apiGroups: [""], resources: [pods], verbs: [get]})", get_pod, true},
           {R"({apiGroups: [""], resources: [pods], verbs: [list]})", get_pod, false},
           {R"({apiGroups: [apps], resources: [pods], verbs: [get]})", get_pod, false},
           {R"({apiGroups: ["*"], resources: [pods], verbs: ["*"]})", get_pod, true},
           {R"({resources: [pods], verbs: [get]})", get_pod, false},
           {R"({apiGroups: [""], resources: [pods], verbs: [get]})", get_log, false},
           {R"({apiGroups: [""], resources: [pods/log], verbs: [get]})", get_log, true},
           {R"({apiGroups: [""], resources: ["*"], verbs: [get]})", get_log, true},
           {R"({apiGroups: [""], resources: ["*/log"], verbs: [get]})", get_log, true},
           {R"({apiGroups: [""], resources: ["*/status"], verbs: [get]})", get_log, false},
           {R"({apiGroups: [""], resources: ["*/log"], verbs: [get]})", get_pod, false},
           {R"({apiGroups: [""], resources: ["pods/*"], verbs: [get]})", get_log, false},
           {R"({apiGroups: [""], resources: [pods], verbs: [get], resourceNames: [p]})", get_pod,
            true},
           {R"({apiGroups: [""], resources: [pods], verbs: [get], resourceNames: [q]})", get_pod,
            false},
           {R"({apiGroups: [""], resources: [pods], verbs: [get], resourceNames: ["*"]})", get_pod,
            false},
           {R"({apiGroups: [""], resources: [pods], verbs: [list], resourceNames: [p]})", list_pods,
            false},
           {R"({nonResourceURLs: ["/healthz/*"], verbs: [get]})", healthz, true},
           {R"({nonResourceURLs: ["/healthz"], verbs: [get]})", healthz, false},
           {R"({nonResourceURLs: ["*"], verbs: ["*"]})", healthz, true},
           {R"({nonResourceURLs: ["*/etcd"], verbs: ["*"]})", healthz, false},
           {R"({nonResourceURLs: ["*"], verbs: ["*"]})", get_pod, false},
           {R"({apiGroups: ["*"], resources: ["*"], verbs: ["*"]})", healthz, false},
           {R"({apiGroups: ["*"], resources: ["*"], verbs: ["*"]})", {.path = ""}, false},
           {R"({apiGroups: 3, resources: [pods, {}], verbs: {get: 1}})", get_pod, false},
           {R"("nonsense")", get_pod, false},
       })
    EXPECT_EQ(Rule::of(yaml(c.rule)).allows(c.wanted), c.allowed) << c.rule << c.wanted.text();
}

TEST(Rbac, VerdictsTellWhy) {
  struct Case {
    User user;
    std::string_view method, target;
    bool allowed;
    std::string_view reason;
  };
  const User here = User::serviceAccount({"x", "here"}, ""),
             there = User::serviceAccount({"y", "there"}, "");
  for (
      const Case& c : std::vector<Case>{
          {user("ann"), "GET", "/api/v1/namespaces/x/pods/p", true,
           R"(RBAC: allowed by RoleBinding "readers/x" of Role "reader" to User "ann")"},
          {user("zed", {"devs"}), "GET", "/api/v1/namespaces/x/pods", true,
           R"(RBAC: allowed by RoleBinding "readers/x" of Role "reader" to Group "devs")"},
          {here, "GET", "/api/v1/namespaces/x/pods", true,
           R"(RBAC: allowed by RoleBinding "readers/x" of Role "reader" to ServiceAccount "here/x")"},
          {there, "GET", "/api/v1/namespaces/x/pods", true,
           R"(RBAC: allowed by RoleBinding "readers/x" of Role "reader" to ServiceAccount "there/y")"},
          {there, "GET", "/api/v1/namespaces/y/pods", false, ""},
          {user("ann"), "GET", "/api/v1/pods", false, ""},
          {user("ann"), "DELETE", "/api/v1/namespaces/x/pods/p", false, ""},
          {user("ann"), "PUT", "/apis/apps/v1/namespaces/x/deployments/d/scale", true,
           R"(RBAC: allowed by RoleBinding "readers/x" of Role "reader" to User "ann")"},
          {user("ann"), "PUT", "/apis/apps/v1/namespaces/x/deployments/e/scale", false, ""},
          {user("bob"), "DELETE", "/api/v1/namespaces/x/pods/p", false,
           R"(RBAC: [clusterrole.rbac.authorization.k8s.io "missing" not found, )"
           R"(role.rbac.authorization.k8s.io "missing" not found])"},
          {user("bob"), "DELETE", "/api/v1/pods", false,
           R"(RBAC: clusterrole.rbac.authorization.k8s.io "missing" not found)"},
          {user("root", {"system:masters"}), "DELETE", "/api/v1/nodes/n", true, ""},
          {user("mia"), "GET", "/foo/bar", true,
           R"(RBAC: allowed by ClusterRoleBinding "writers" of ClusterRole "writer" to User "mia")"},
          // In a namespace, paths cannot be given.
          {user("max"), "GET", "/foo/bar", false, ""},
          {user("ann"), "GET", "/api", true,
           R"(RBAC: allowed by ClusterRoleBinding "system:discovery" of ClusterRole "system:discovery" to Group "system:authenticated")"},
          {User::anonymous(), "GET", "/api", false, ""},
          {User::anonymous(), "GET", "/version", true,
           R"(RBAC: allowed by ClusterRoleBinding "system:public-info-viewer" of ClusterRole "system:public-info-viewer" to Group "system:unauthenticated")"},
      }) {
    Verdict verdict = house().check(c.user, wanted(c.method, c.target));
    EXPECT_EQ(verdict.allowed, c.allowed) << c.user.name << " " << c.target;
    EXPECT_EQ(verdict.reason, c.reason) << c.user.name << " " << c.target;
  }
}

TEST(Rbac, RefusalsHaveTheServersWords) {
  struct Case {
    std::string_view user, method, target, message, details;
  };
  for (
      const Case& c : std::vector<Case>{
          {"ann", "GET", "/api/v1/namespaces/y/pods/p",
           R"(pods "p" is forbidden: User "ann" cannot get resource "pods" in API group "" in the namespace "y")",
           R"({"kind":"pods","name":"p"})"},
          {"ann", "DELETE", "/apis/apps/v1/namespaces/x/deployments",
           R"(deployments.apps is forbidden: User "ann" cannot deletecollection resource "deployments" in API group "apps" in the namespace "x")",
           R"({"group":"apps","kind":"deployments"})"},
          {"ann", "GET", "/metrics", R"(forbidden: User "ann" cannot get path "/metrics")", "{}"},
          {"bob", "GET", "/metrics",
           R"(forbidden: User "bob" cannot get path "/metrics": RBAC: clusterrole.rbac.authorization.k8s.io "missing" not found)",
           "{}"},
          {"q\\\"", "POST", "/api/v1/namespaces",
           R"(namespaces is forbidden: User "q\\\"" cannot create resource "namespaces" in API group "" at the cluster scope)",
           R"({"kind":"namespaces"})"},
      }) {
    auto refused = house().refusal(user(c.user), wanted(c.method, c.target));
    ASSERT_TRUE(refused) << c.target;
    json::Value status = refused->status();
    EXPECT_EQ(status["code"].integer(), 403);
    EXPECT_EQ(status["reason"].string(), "Forbidden");
    EXPECT_EQ(status["message"].string(), c.message);
    EXPECT_EQ(json::write(status["details"]), c.details);
  }
  EXPECT_FALSE(house().refusal(user("ann"), wanted("GET", "/api/v1/namespaces/x/pods")));
}

TEST(Rbac, WithoutAnythingOnlyMastersMay) {
  Rbac none;
  EXPECT_FALSE(none.check(user("ann"), {.verb = "get", .path = "/version"}).allowed);
  EXPECT_TRUE(none.check(user("ann", {"system:masters"}), {.verb = "get", .path = "/x"}).allowed);
}

TEST(Rbac, RulesOfAUser) {
  Rbac::Held held = house().rulesFor(user("bob"), "x");
  EXPECT_THAT(held.missing,
              ElementsAre(R"(clusterrole.rbac.authorization.k8s.io "missing" not found)",
                          R"(role.rbac.authorization.k8s.io "missing" not found)"));
  EXPECT_EQ(held.rules.size(), 7u);  // basic-user 2, discovery, public-info-viewer, writer 3
  EXPECT_EQ(house().rulesFor(user("ann"), "x").rules.size(), 6u);
  EXPECT_EQ(house().rulesFor(user("ann"), "").rules.size(), 4u);
  EXPECT_EQ(house().rulesFor(user("ann"), "y").rules.size(), 4u);
}

TEST(Rbac, AggregatedRolesHaveTheRulesOfOthers) {
  auto may = [](std::string_view role, std::string_view verb, std::string_view resource,
                std::string_view group = "") {
    Rbac::Objects objects = defaultRbac();
    objects.role_bindings.push_back(
        json::Object{{"metadata", json::Object{{"name", "b"}, {"namespace", "x"}}},
                     {"roleRef", json::Object{{"kind", "ClusterRole"}, {"name", role}}},
                     {"subjects", json::Array{json::Object{{"kind", "User"}, {"name", "ann"}}}}});
    return Rbac(objects)
        .check(user("ann"), {.verb = std::string(verb),
                             .group = std::string(group),
                             .resource = std::string(resource),
                             .ns = "x"})
        .allowed;
  };
  EXPECT_TRUE(may("view", "get", "pods"));
  EXPECT_FALSE(may("view", "get", "secrets"));
  EXPECT_FALSE(may("view", "create", "pods"));
  EXPECT_TRUE(may("edit", "get", "pods"));
  EXPECT_TRUE(may("edit", "create", "deployments", "apps"));
  EXPECT_FALSE(may("edit", "create", "roles", "rbac.authorization.k8s.io"));
  EXPECT_TRUE(may("admin", "create", "roles", "rbac.authorization.k8s.io"));
  EXPECT_TRUE(may("admin", "watch", "endpointslices", "discovery.k8s.io"));
  EXPECT_FALSE(may("admin", "create", "nodes"));
  EXPECT_TRUE(may("cluster-admin", "create", "nodes"));
}

TEST(Rbac, AggregationTellsWhatIsToBeWritten) {
  // In a circle, and with what is written in it by hand.
  Rbac rbac(objectsOf(R"(
- kind: ClusterRole
  metadata: {name: a, labels: {to-b: "1"}}
  aggregationRule: {clusterRoleSelectors: [{matchLabels: {to-a: "1"}}, {matchLabels: {to-a: "1"}}]}
  rules: [{apiGroups: [by], resources: [hand], verbs: [get]}]
- kind: ClusterRole
  metadata: {name: b, labels: {to-a: "1"}}
  aggregationRule: {clusterRoleSelectors: [{matchLabels: {to-b: "1"}}]}
- kind: ClusterRole
  metadata: {name: c, labels: {to-b: "1"}}
  rules: [{apiGroups: [""], resources: [pods], verbs: [get]}, {apiGroups: [""], resources: [pods], verbs: [get]}]
- kind: ClusterRole
  metadata: {name: d}
  aggregationRule: {clusterRoleSelectors: [{matchLabels: {"not a label": "1"}}, "nonsense"]}
  rules: []
- kind: ClusterRole
  metadata: {name: e, labels: {to-a: "1", to-b: "1"}}
  aggregationRule: {clusterRoleSelectors: []}
)"));
  ASSERT_EQ(rbac.outdated().size(), 2u);
  for (const json::Value& role : rbac.outdated())
    EXPECT_EQ(json::write(role["rules"]),
              R"([{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}])");
  EXPECT_EQ(rbac.role("", "a")->size(), 1u);
  EXPECT_THAT(*rbac.role("", "d"), IsEmpty());
  EXPECT_EQ(rbac.role("", "nobody"), nullptr);
  EXPECT_EQ(rbac.role("x", "a"), nullptr);
}

TEST(Rbac, HostileObjectsAllowNothing) {
  Rbac rbac(objectsOf(R"(
- kind: ClusterRoleBinding
  metadata: {name: a}
  roleRef: {kind: Role, name: cluster-admin}
  subjects: [{kind: User, name: eve}]
- kind: ClusterRoleBinding
  metadata: {name: b}
  roleRef: {kind: ClusterRole, name: cluster-admin}
  subjects: [{kind: Robot, name: eve}, 3, null, {kind: User}, {kind: ServiceAccount, name: eve}]
- kind: ClusterRoleBinding
  metadata: {name: c}
  subjects: {kind: User, name: eve}
- kind: RoleBinding
  metadata: 7
  roleRef: [ClusterRole, cluster-admin]
  subjects: [{kind: User, name: eve}]
)",
                      defaultRbac()));
  for (std::string_view name : {"eve", "system:serviceaccount::eve"})
    EXPECT_FALSE(rbac.check(user(name), {.verb = "get", .resource = "pods", .ns = "x"}).allowed);
}

// ---------------------------------------------------------------------------------------------

const kube::Resource kRoles{"rbac.authorization.k8s.io", "v1", "roles", "Role"};
const kube::Resource kClusterRoles{"rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole",
                                   false};
const kube::Resource kRoleBindings{"rbac.authorization.k8s.io", "v1", "rolebindings",
                                   "RoleBinding"};
const kube::Resource kClusterRoleBindings{"rbac.authorization.k8s.io", "v1", "clusterrolebindings",
                                          "ClusterRoleBinding", false};

// What is said against it; "" when nothing is.
std::string against(const User& user, const kube::Resource& resource, std::string_view rest,
                    const json::Value& before = nullptr, std::string_view asked_name = "") {
  json::Value object = yaml(rest);
  json::Object metadata{{"name", "t"}};
  if (resource.namespaced) metadata.set("namespace", "x");
  object.make("metadata") = std::move(metadata);
  auto failure = escalation(house(), user, {resource, object, before, asked_name});
  return failure ? format("{} {}", failure->code, failure->message) : "";
}

constexpr std::string_view kMia =
    R"( is forbidden: user "mia" (groups=["g1" "system:authenticated"]) is attempting to grant RBAC permissions not currently held:)";

TEST(Escalation, Roles) {
  const User mia = user("mia", {"g1"});
  auto refused = [&](std::string_view resource, std::string_view rights) {
    return format("403 {}.rbac.authorization.k8s.io \"t\"{}\n{}", resource, kMia, rights);
  };
  struct Case {
    const kube::Resource& resource;
    std::string_view rest;
    std::string answer;
  };
  for (
      const Case& c : std::vector<Case>{
          {kRoles, R"(rules: [{apiGroups: [""], resources: [pods], verbs: [get]}])", ""},
          {kRoles,
           R"(rules: [{apiGroups: [""], resources: [pods], verbs: [get], resourceNames: [a]}])",
           ""},
          {kRoles, R"(rules: [{apiGroups: [""], resources: [pods], verbs: [list]}])",
           refused("roles", R"({APIGroups:[""], Resources:["pods"], Verbs:["list"]})")},
          {kRoles, R"(rules: [{apiGroups: [""], resources: [pods, nodes], verbs: [list, get]}])",
           refused("roles", R"({APIGroups:[""], Resources:["nodes"], Verbs:["list" "get"]})"
                            "\n"
                            R"({APIGroups:[""], Resources:["pods"], Verbs:["list"]})")},
          {kRoles,
           R"(rules: [{apiGroups: ["", apps], resources: [pods], verbs: [get], resourceNames: [a, b]}])",
           refused(
               "roles",
               R"({APIGroups:["apps"], Resources:["pods"], ResourceNames:["a"], Verbs:["get"]})"
               "\n"
               R"({APIGroups:["apps"], Resources:["pods"], ResourceNames:["b"], Verbs:["get"]})")},
          {kRoles, R"(rules: [{apiGroups: ["*"], resources: ["*"], verbs: ["*"]}])",
           refused("roles", R"({APIGroups:["*"], Resources:["*"], Verbs:["*"]})")},
          {kClusterRoles, R"(rules: [{nonResourceURLs: ["/foo/bar"], verbs: [get]}])", ""},
          {kClusterRoles, R"(rules: [{nonResourceURLs: ["/foo", "/bar/*"], verbs: [get, post]}])",
           refused("clusterroles", R"({NonResourceURLs:["/bar/*"], Verbs:["get"]})"
                                   "\n"
                                   R"({NonResourceURLs:["/bar/*"], Verbs:["post"]})"
                                   "\n"
                                   R"({NonResourceURLs:["/foo"], Verbs:["get"]})"
                                   "\n"
                                   R"({NonResourceURLs:["/foo"], Verbs:["post"]})")},
          {kClusterRoles, R"({rules: [], aggregationRule: {clusterRoleSelectors: []}})",
           R"(403 clusterroles.rbac.authorization.k8s.io "t" is forbidden: must have cluster-admin privileges to use the aggregationRule)"},
      })
    EXPECT_EQ(against(mia, c.resource, c.rest), c.answer) << c.rest;
}

constexpr std::string_view kEverything =
    R"(rules: [{apiGroups: ["*"], resources: ["*"], verbs: ["*"]}])";

TEST(Escalation, WhoMayEscalate) {
  EXPECT_EQ(against(user("esc"), kRoles, kEverything), "");
  EXPECT_EQ(against(user("esc"), kClusterRoles, "{aggregationRule: {}, rules: []}"), "");
  EXPECT_EQ(against(user("m", {"system:masters"}), kRoles, kEverything), "");
  // By name only where the request has one.
  EXPECT_EQ(against(user("named"), kRoles, kEverything, nullptr, "t"), "");
  EXPECT_NE(against(user("named"), kRoles, kEverything), "");
  EXPECT_NE(against(user("named"), kClusterRoles, kEverything, nullptr, "t"), "");
}

TEST(Escalation, OnlyOwnersChange) {
  json::Value before = yaml(kEverything);
  before.make("metadata") =
      json::Object{{"name", "t"}, {"namespace", "x"}, {"finalizers", json::Array{"a"}}};
  EXPECT_EQ(against(user("mia"), kRoles, kEverything, before, "t"), "");
  before.make("metadata").make("labels") = json::Object{{"a", "b"}};
  EXPECT_NE(against(user("mia"), kRoles, kEverything, before, "t"), "");
}

TEST(Escalation, MissingRolesAreTold) {
  EXPECT_THAT(against(user("bob"), kRoles, kEverything),
              HasSubstr("; resolution errors: [[roles.rbac.authorization.k8s.io \"missing\" not "
                        "found, roles.rbac.authorization.k8s.io \"missing\" not found]]"));
  EXPECT_THAT(
      against(user("bob"), kClusterRoles, kEverything),
      HasSubstr(
          "; resolution errors: [clusterroles.rbac.authorization.k8s.io \"missing\" not found]"));
}

TEST(Escalation, Bindings) {
  const User mia = user("mia", {"g1"});
  auto ref = [](std::string_view kind, std::string_view name) {
    return format("roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: {}, name: '{}'}}", kind,
                  name);
  };
  EXPECT_EQ(against(mia, kRoleBindings, ref("ClusterRole", "writer")), "");
  EXPECT_EQ(against(mia, kRoleBindings, ref("ClusterRole", "system:discovery")), "");
  EXPECT_EQ(
      against(mia, kRoleBindings, ref("Role", "reader")),
      format("403 rolebindings.rbac.authorization.k8s.io \"t\"{}\n{}\n{}\n{}", kMia,
             R"({APIGroups:[""], Resources:["pods"], Verbs:["list"]})",
             R"({APIGroups:[""], Resources:["pods/log"], Verbs:["get" "list"]})",
             R"({APIGroups:["apps"], Resources:["*/scale"], ResourceNames:["d"], Verbs:["*"]})"));
  EXPECT_THAT(against(mia, kClusterRoleBindings, ref("ClusterRole", "cluster-admin")),
              HasSubstr("clusterrolebindings.rbac.authorization.k8s.io \"t\" is forbidden"));
  EXPECT_EQ(against(mia, kRoleBindings, ref("ClusterRole", "nope")),
            R"(404 rolebindings.rbac.authorization.k8s.io "nope" not found)");
  EXPECT_EQ(against(mia, kRoleBindings, ref("Role", "nope")),
            R"(404 rolebindings.rbac.authorization.k8s.io "nope" not found)");
  EXPECT_EQ(against(user("esc"), kRoleBindings, ref("ClusterRole", "view")), "");
  EXPECT_EQ(against(user("esc"), kClusterRoleBindings, ref("ClusterRole", "view")), "");
  EXPECT_NE(against(user("esc"), kClusterRoleBindings, ref("ClusterRole", "edit")), "");
  EXPECT_EQ(against(user("m", {"system:masters"}), kRoleBindings, ref("ClusterRole", "nope")), "");
}

// Three short lists would give a billion rights: they are not taken apart.
TEST(Escalation, TooMuchAtOnce) {
  json::Array many;
  for (int i = 0; i < 1000; ++i) many.push_back(format("a{}", i));
  json::Value role = json::Object{
      {"metadata", json::Object{{"name", "t"}, {"namespace", "x"}}},
      {"rules",
       json::Array{json::Object{{"apiGroups", many}, {"resources", many}, {"verbs", many}}}}};
  json::Value none;
  auto failure = escalation(house(), user("mia"), {kRoles, role, none, ""});
  ASSERT_TRUE(failure);
  EXPECT_THAT(failure->message, HasSubstr("make several roles of it"));
}

TEST(Rbac, ManyBindingsOfOthersCostNothing) {
  Rbac::Objects objects = defaultRbac();
  for (int i = 0; i < 5000; ++i)
    objects.role_bindings.push_back(json::Object{
        {"metadata", json::Object{{"name", format("b{}", i)}, {"namespace", "x"}}},
        {"roleRef", json::Object{{"kind", "ClusterRole"}, {"name", "view"}}},
        {"subjects", json::Array{json::Object{{"kind", "User"}, {"name", format("u{}", i)}}}}});
  Rbac rbac(objects);
  EXPECT_TRUE(rbac.check(user("u4999"), {.verb = "get", .resource = "pods", .ns = "x"}).allowed);
  EXPECT_EQ(rbac.rulesFor(user("u17"), "x").rules.size(), 15u);
}

}  // namespace
}  // namespace cadre::hub
