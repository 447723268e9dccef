// Who may do what, asked of the hub's code and of a real kube-apiserver with the same roles and
// bindings: the same verdicts, the same words. And tokens: those of one are read by the other.
#include <fstream>
#include <set>
#include <sstream>

#include "base/random.h"
#include "base/strings.h"
#include "component/cluster_fixture.h"
#include "hub/jwt.h"
#include "hub/rbac.h"
#include "hub/reviews.h"
#include "hub/tokens.h"
#include "json/write.h"

namespace cadre::hub {
namespace {

using Names = std::vector<std::string>;

constexpr std::string_view kGroup = "rbac.authorization.k8s.io";

kube::Resource rbacResource(std::string_view plural, std::string_view kind, bool namespaced) {
  return {std::string(kGroup), "v1", std::string(plural), std::string(kind), namespaced};
}
const kube::Resource kRoles = rbacResource("roles", "Role", true);
const kube::Resource kClusterRoles = rbacResource("clusterroles", "ClusterRole", false);
const kube::Resource kRoleBindings = rbacResource("rolebindings", "RoleBinding", true);
const kube::Resource kClusterRoleBindings =
    rbacResource("clusterrolebindings", "ClusterRoleBinding", false);
const kube::Resource kAccounts{
    .version = "v1", .plural = "serviceaccounts", .kind = "ServiceAccount"};

class RbacCluster : public ClusterTest {
 protected:
  json::Value post(std::string_view target, const json::Value& body) {
    return must([&](auto done) {
      return client->request("POST", std::string(target), json::write(body), "application/json",
                             std::move(done));
    });
  }
  json::Value review(std::string_view kind, std::string_view plural, json::Object spec) {
    return post(
        format("/apis/authorization.k8s.io/v1/{}", plural),
        json::Object{
            {"apiVersion", "authorization.k8s.io/v1"}, {"kind", kind}, {"spec", std::move(spec)}});
  }
  json::Value judged(json::Object spec) {
    return review("SubjectAccessReview", "subjectaccessreviews", std::move(spec))["status"];
  }
  void put(const kube::Resource& resource, std::string_view name, json::Object rest) {
    json::Object metadata{{"name", name}};
    if (resource.namespaced) metadata.set("namespace", ns);
    rest.set("apiVersion", resource.apiVersion());
    rest.set("kind", resource.kind);
    rest.set("metadata", std::move(metadata));
    create(resource, rest);
    if (!resource.namespaced) made_.emplace_back(resource, name);
  }
  void bind(const kube::Resource& resource, std::string_view name, std::string_view role_kind,
            std::string_view role, json::Array subjects) {
    put(resource, name,
        json::Object{
            {"roleRef", json::Object{{"apiGroup", kGroup}, {"kind", role_kind}, {"name", role}}},
            {"subjects", std::move(subjects)}});
  }
  static json::Value subject(std::string_view kind, std::string_view name) {
    return json::Object{{"apiGroup", kGroup}, {"kind", kind}, {"name", name}};
  }
  // All that the server has, once it goes by it itself.
  Rbac serversRbac() {
    std::string last = ns + "-last";
    put(kClusterRoles, last, json::Object{{"rules", json::Array{rule({"last"}, {""}, {"lasts"})}}});
    bind(kClusterRoleBindings, last, "ClusterRole", last, {subject("User", last)});
    put(kRoles, last, json::Object{{"rules", json::Array{rule({"last"}, {""}, {"seconds"})}}});
    bind(kRoleBindings, last, "Role", last, {subject("User", last)});
    for (std::string_view resource : {"lasts", "seconds"})
      EXPECT_TRUE(eventually([&] {
        return judged({{"user", last},
                       {"resourceAttributes", json::Object{{"verb", "last"},
                                                           {"resource", resource},
                                                           {"namespace", ns}}}})["allowed"]
            .boolean();
      }));
    return Rbac({.roles = list({}, kRoles),
                 .cluster_roles = list({}, kClusterRoles),
                 .role_bindings = list({}, kRoleBindings),
                 .cluster_role_bindings = list({}, kClusterRoleBindings)});
  }
  static json::Value rule(Names verbs, Names groups, Names resources, Names names = {}) {
    return Rule{.verbs = std::move(verbs),
                .groups = std::move(groups),
                .resources = std::move(resources),
                .names = std::move(names)}
        .value();
  }
  std::unique_ptr<kube::Client> connectAs(const User& user) {
    auto config = kube::loadConfig({.kubeconfig = environment("CADRE_TEST_KUBECONFIG"), .env = {}});
    config->impersonate = {
        .user = user.name, .uid = user.uid, .groups = user.groups, .extra = user.extra};
    return *kube::Client::connect(loop, *config);
  }
  void TearDown() override {
    for (const auto& [resource, name] : made_)
      run([&](auto done) {
        return client->remove(resource, {"", name}, {}, std::move(done));
      }).ok();
  }

 private:
  std::vector<std::pair<kube::Resource, std::string>> made_;
};

// Few names, so that much of it meets; stars and subresources among them.
struct Dice {
  Random random{20260101};
  const Names verbs{"get", "list", "create", "*", "escalate"},
      groups{"", "apps", "*", "example.com"},
      resources{"pods", "pods/log", "*/log", "*", "deployments", "deployments/scale", "*/scale"},
      names{"a", "b"}, paths{"/foo", "/foo/*", "/bar/baz", "*", "/ba*"};

  const std::string& one(const Names& from) { return from[random.below(from.size())]; }
  Names some(const Names& from) {
    Names chosen;
    for (std::size_t i = 0, count = 1 + random.below(2); i < count; ++i)
      chosen.push_back(one(from));
    return chosen;
  }
  json::Value rule(bool paths_too) {
    if (paths_too && random.below(4) == 0)
      return Rule{.verbs = some(verbs), .paths = some(paths)}.value();
    return Rule{.verbs = some(verbs),
                .groups = some(groups),
                .resources = some(resources),
                .names = random.below(3) == 0 ? some(names) : Names{}}
        .value();
  }
};

TEST_F(RbacCluster, TheSameVerdicts) {
  Dice dice;
  Names users, groups, accounts{"s0", "s1"};
  for (int i = 0; i < 6; ++i) users.push_back(format("{}-u{}", ns, i));
  for (int i = 0; i < 3; ++i) groups.push_back(format("{}-g{}", ns, i));
  auto subjects = [&] {
    json::Array list;
    for (std::size_t i = 0, count = 1 + dice.random.below(2); i < count; ++i) {
      auto kind = dice.random.below(4);
      if (kind == 0)
        list.push_back(subject("Group", dice.one(groups)));
      else if (kind == 1)
        list.push_back(json::Object{
            {"kind", "ServiceAccount"}, {"name", dice.one(accounts)}, {"namespace", ns}});
      else
        list.push_back(subject("User", dice.one(users)));
    }
    return list;
  };
  for (int i = 0; i < 8; ++i) {
    json::Array rules{dice.rule(false)}, cluster_rules{dice.rule(true), dice.rule(true)};
    put(kRoles, format("r{}", i), json::Object{{"rules", std::move(rules)}});
    put(kClusterRoles, format("{}-c{}", ns, i), json::Object{{"rules", std::move(cluster_rules)}});
    // One in eight is bound though it does not exist.
    bind(kRoleBindings, format("r{}", i), "Role", format("r{}", i + 1), subjects());
    bind(kRoleBindings, format("c{}", i), "ClusterRole", format("{}-c{}", ns, i), subjects());
    if (i % 2 == 0)
      bind(kClusterRoleBindings, format("{}-b{}", ns, i), "ClusterRole",
           format("{}-c{}", ns, i + 2), subjects());
  }
  Rbac ours = serversRbac();

  int allowed = 0;
  for (int i = 0; i < 400; ++i) {
    std::string who =
        dice.random.below(5) == 0 ? serviceAccountName({ns, dice.one(accounts)}) : dice.one(users);
    json::Object spec{{"user", who}};
    if (dice.random.below(3) == 0) spec.set("groups", json::Array{dice.one(groups)});
    if (dice.random.below(6) == 0) {
      spec.set(
          "nonResourceAttributes",
          json::Object{{"verb", dice.one(dice.verbs)},
                       {"path", dice.one({"/foo", "/foo/x", "/bar", "/bar/baz", "/", "/fo"})}});
    } else {
      auto [resource, subresource] = cut(dice.one(dice.resources), "/");
      spec.set("resourceAttributes",
               json::Object{{"verb", dice.one(dice.verbs)},
                            {"group", dice.one(dice.groups)},
                            {"resource", resource},
                            {"subresource", subresource},
                            {"name", dice.one({"", "a", "b", "c"})},
                            {"namespace", dice.one({ns, ns, "elsewhere", ""})}});
    }
    json::Value theirs = judged(spec);
    json::Value mine =
        std::get<json::Value>(reviewAccess(json::Object{{"spec", spec}}, ours))["status"];
    EXPECT_EQ(mine["allowed"], theirs["allowed"]) << json::write(spec) << json::write(theirs);
    // Which of several bindings it was is the server's mood.
    EXPECT_EQ(mine["reason"].string().starts_with("RBAC: allowed by"),
              theirs["reason"].string().starts_with("RBAC: allowed by"))
        << json::write(mine) << json::write(theirs);
    allowed += mine["allowed"].boolean() ? 1 : 0;
  }
  EXPECT_GT(allowed, 20);
  EXPECT_LT(allowed, 350);

  for (const std::string& name : users) {
    User user = completed({.name = name});
    auto as = connectAs(user);
    json::Value asked = json::Object{{"apiVersion", "authorization.k8s.io/v1"},
                                     {"kind", "SelfSubjectRulesReview"},
                                     {"spec", json::Object{{"namespace", ns}}}};
    json::Value theirs = must([&](auto done) {
      return as->request("POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
                         json::write(asked), "application/json", std::move(done));
    })["status"];
    json::Value mine = std::get<json::Value>(reviewSelfRules(asked, user, ours))["status"];
    for (std::string_view part : {"resourceRules", "nonResourceRules"}) {
      std::multiset<std::string> a, b;
      for (const json::Value& one : mine[part].array()) a.insert(json::write(one));
      for (const json::Value& one : theirs[part].array()) b.insert(json::write(one));
      EXPECT_EQ(a, b) << name;
    }
    EXPECT_EQ(mine["evaluationError"].isNull(), theirs["evaluationError"].isNull());
  }
}

TEST_F(RbacCluster, TheSameWords) {
  User mia = completed({.name = ns + "-mia", .groups = {"g1"}});
  put(kClusterRoles, ns + "-writer",
      json::Object{{"rules", json::Array{rule({"create", "get"}, {std::string(kGroup)}, {"*"}),
                                         rule({"get"}, {""}, {"pods"}),
                                         rule({"bind"}, {std::string(kGroup)}, {"clusterroles"},
                                              {"view"})}}});
  bind(kClusterRoleBindings, ns + "-writers", "ClusterRole", ns + "-writer",
       {subject("User", mia.name)});
  bind(kRoleBindings, "lost", "Role", "missing", {subject("User", mia.name)});
  Rbac ours = serversRbac();
  auto as = connectAs(mia);
  auto answer = [&](std::string_view method, std::string_view target, const json::Value& body) {
    auto got = run([&](auto done) {
      return as->request(std::string(method), std::string(target),
                         body.isNull() ? "" : json::write(body), "application/json",
                         std::move(done));
    });
    return got ? "good" : got.error().message;
  };

  for (auto [method, target] : std::vector<std::pair<std::string, std::string>>{
           {"GET", "/api/v1/nodes/n"},
           {"GET", "/api/v1/pods"},
           {"GET", format("/api/v1/namespaces/{}", ns)},
           {"GET", format("/api/v1/namespaces/{}/pods/p/log", ns)},
           {"GET", format("/api/v1/namespaces/{}/secrets?fieldSelector=metadata.name%3Da", ns)},
           {"DELETE", format("/apis/apps/v1/namespaces/{}/deployments", ns)},
           {"GET", "/apis/example.com/v1/things"},
           {"GET", "/metrics"},
           {"DELETE", "/foo/bar"}}) {
    auto refused = ours.refusal(mia, Attributes::of(*parseRequest(method, target), method));
    ASSERT_TRUE(refused) << target;
    EXPECT_THAT(answer(method, target, nullptr), testing::HasSubstr(refused->message)) << target;
  }

  auto write = [&](const kube::Resource& resource, json::Object rest) {
    json::Object metadata{{"name", "t"}};
    if (resource.namespaced) metadata.set("namespace", ns);
    rest.set("apiVersion", resource.apiVersion());
    rest.set("kind", resource.kind);
    rest.set("metadata", std::move(metadata));
    json::Value object = std::move(rest), none;
    auto refused = escalation(ours, mia, {resource, object, none, ""});
    std::string theirs = answer("POST", resource.path(ns) + "?dryRun=All", object);
    EXPECT_THAT(theirs, testing::HasSubstr(refused ? refused->message : "good"))
        << json::write(object);
  };
  auto rules = [](std::vector<json::Value> all) {
    return json::Object{{"rules", json::Array(all.begin(), all.end())}};
  };
  auto ref = [](std::string_view kind, std::string_view name) {
    return json::Object{
        {"roleRef", json::Object{{"apiGroup", kGroup}, {"kind", kind}, {"name", name}}}};
  };
  write(kRoles, rules({rule({"get"}, {""}, {"pods"})}));
  write(kRoles, rules({rule({"list", "get"}, {"", "apps"}, {"pods", "nodes"}, {"b", "a"})}));
  write(kRoles, rules({rule({"*"}, {"*"}, {"*"}), rule({"get"}, {""}, {"pods/log"})}));
  write(kClusterRoles, rules({Rule{.verbs = {"get", "post"}, .paths = {"/x", "/a/*"}}.value()}));
  json::Object collecting = rules({});
  collecting.set(
      "aggregationRule",
      json::Object{{"clusterRoleSelectors",
                    json::Array{json::Object{{"matchLabels", json::Object{{"a", "b"}}}}}}});
  write(kClusterRoles, collecting);
  write(kRoleBindings, ref("ClusterRole", ns + "-writer"));
  write(kRoleBindings, ref("ClusterRole", "view"));
  write(kRoleBindings, ref("ClusterRole", "cluster-admin"));
  write(kClusterRoleBindings, ref("ClusterRole", "cluster-admin"));
  write(kRoleBindings, ref("Role", "missing"));
  write(kClusterRoleBindings, ref("ClusterRole", ns + "-missing"));
}

TEST_F(RbacCluster, TheSameDefaults) {
  auto same = [&](const kube::Resource& resource, const std::vector<json::Value>& all) {
    for (const json::Value& mine : all) {
      json::Value theirs = must([&](auto done) {
        return client->get(resource, {"", std::string(kube::name(mine))}, std::move(done));
      });
      Names fields{"aggregationRule", "subjects", "roleRef"};
      // A controller writes those of the others.
      if (mine["aggregationRule"].isNull()) fields.emplace_back("rules");
      for (const std::string& field : fields)
        EXPECT_EQ(mine[field], theirs[field]) << kube::name(mine) << json::write(theirs[field]);
      EXPECT_EQ(kube::labels(mine), kube::labels(theirs)) << kube::name(mine);
      EXPECT_EQ(kube::annotations(mine), kube::annotations(theirs)) << kube::name(mine);
    }
  };
  same(kClusterRoles, defaultRbac().cluster_roles);
  same(kClusterRoleBindings, defaultRbac().cluster_role_bindings);
}

// With the server's own key: what it says of our tokens, and we of its.
TEST_F(RbacCluster, TheSameTokens) {
  std::string folder = environment("CADRE_TEST_KUBECONFIG");
  folder.resize(folder.rfind('/'));
  std::ifstream file(folder + "/certs/service-account.key");
  std::stringstream pem;
  pem << file.rdbuf();
  auto key = net::SigningKey::read(pem.str());
  ASSERT_TRUE(key) << key.error().text();
  json::Value account = create(
      kAccounts, json::Object{{"apiVersion", "v1"},
                              {"kind", "ServiceAccount"},
                              {"metadata", json::Object{{"name", "bot"}, {"namespace", ns}}}});
  SystemClock clock;
  Tokens tokens({.key = *key}, clock, [&](std::string_view resource, const kube::ObjectKey& at) {
    auto got = run([&](auto done) {
      return client->get({.version = "v1", .plural = std::string(resource)}, at, std::move(done));
    });
    return got ? *got : json::Value();
  });
  StaticTokens none;
  auto both = [&](std::string_view token, json::Array audiences = {}) {
    json::Object spec{{"token", token}};
    if (!audiences.empty()) spec.set("audiences", std::move(audiences));
    json::Value asked = json::Object{{"apiVersion", "authentication.k8s.io/v1"},
                                     {"kind", "TokenReview"},
                                     {"spec", std::move(spec)}};
    json::Value theirs = post("/apis/authentication.k8s.io/v1/tokenreviews", asked)["status"];
    json::Value mine = std::get<json::Value>(reviewToken(asked, none, tokens))["status"];
    EXPECT_EQ(json::write(mine), json::write(theirs));
    return theirs["authenticated"].boolean();
  };

  json::Value issued = post(kAccounts.path(ns, "bot", "token"), json::Object{});
  const std::string& theirs = issued["status"]["token"].string();
  EXPECT_EQ(parseJwt(theirs)->header.find("kid")->string(), key->id());
  EXPECT_TRUE(both(theirs));
  std::string ours =
      std::get<json::Value>(tokens.request(account, nullptr))["status"]["token"].string();
  EXPECT_TRUE(both(ours));
  EXPECT_FALSE(both(ours, {"elsewhere"}));
  json::Value two = json::Object{{"spec", json::Object{{"audiences", json::Array{"a", "b"}}}}};
  std::string for_two =
      std::get<json::Value>(tokens.request(account, two))["status"]["token"].string();
  EXPECT_TRUE(both(for_two, {"b", "c", "a"}));
  EXPECT_FALSE(both(for_two));

  json::Object claims = parseJwt(ours)->claims;
  std::int64_t now = claims.find("iat")->integer();
  auto changed = [&](std::string_view name, json::Value value) {
    json::Object other = claims;
    other.set(name, std::move(value));
    return writeJwt(*key, other);
  };
  EXPECT_TRUE(both(changed("exp", now - 30)));
  EXPECT_FALSE(both(changed("exp", now - 120)));
  EXPECT_TRUE(both(changed("nbf", now + 30)));
  EXPECT_FALSE(both(changed("nbf", now + 300)));
  EXPECT_FALSE(both(changed("iss", "https://elsewhere")));
  EXPECT_FALSE(both(changed("aud", json::Array{"elsewhere"})));
  auto about = [&](std::string_view account_name, std::string_view uid, std::string_view pod) {
    json::Object other = claims;
    json::Object claim{{"namespace", ns},
                       {"serviceaccount", json::Object{{"name", account_name}, {"uid", uid}}}};
    if (!pod.empty()) claim.set("pod", json::Object{{"name", pod}, {"uid", "u"}});
    other.set("kubernetes.io", std::move(claim));
    other.set("sub", serviceAccountName({ns, std::string(account_name)}));
    return writeJwt(*key, other);
  };
  std::string uid(kube::uid(account));
  EXPECT_TRUE(both(about("bot", uid, "")));
  EXPECT_FALSE(both(about("bot", "another", "")));
  EXPECT_FALSE(both(about("nobody", uid, "")));
  EXPECT_FALSE(both(about("bot", uid, "no-pod")));
  EXPECT_FALSE(both("nonsense"));
  EXPECT_FALSE(both("a.b.c"));
}

}  // namespace
}  // namespace cadre::hub
