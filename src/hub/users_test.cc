// Who somebody is, and as whom he may act.
#include "hub/users.h"

#include "hub/rbac.h"
#include "hub/tokens.h"
#include "json/write.h"

namespace cadre::hub {
namespace {

using testing::ElementsAre;

TEST(Users, Groups) {
  EXPECT_THAT(User::anonymous().groups, ElementsAre("system:unauthenticated"));
  EXPECT_THAT(User::fromCertificate("ann", {"devs"}).groups,
              ElementsAre("devs", "system:authenticated"));
  EXPECT_THAT(
      User::serviceAccount({"x", "bot"}, "1").groups,
      ElementsAre("system:serviceaccounts", "system:serviceaccounts:x", "system:authenticated"));
  EXPECT_EQ(
      json::write(User::serviceAccount({"x", "bot"}, "1").info()),
      R"({"groups":["system:serviceaccounts","system:serviceaccounts:x","system:authenticated"],)"
      R"("uid":"1","username":"system:serviceaccount:x:bot"})");
}

TEST(Users, NamesOfServiceAccounts) {
  EXPECT_EQ(serviceAccountOf("system:serviceaccount:x:bot"), (kube::ObjectKey{"x", "bot"}));
  for (std::string_view none :
       {"ann", "system:serviceaccount", "system:serviceaccount:", "system:serviceaccount:x",
        "system:serviceaccount:x:", "system:serviceaccount::bot", "system:serviceaccount:BAD_:bot",
        "system:serviceaccount:x:a:b", "system:serviceaccount:x:a/b"})
    EXPECT_FALSE(serviceAccountOf(none)) << none;
}

struct World {
  FakeClock clock;
  Tokens tokens{
      {.key = *net::SigningKey::generate(net::SigningKey::Algorithm::Es256)},
      clock,
      [](std::string_view resource, const kube::ObjectKey& key) -> json::Value {
        if (resource != "serviceaccounts" || key.name != "bot") return nullptr;
        return json::Object{
            {"metadata", json::Object{{"name", key.name}, {"namespace", key.ns}, {"uid", "1"}}}};
      }};
  StaticTokens known;

  World() { known.add("secret", {.name = "ann", .uid = "7", .groups = {"devs"}}); }

  // The name, or the code of the refusal.
  std::string who(std::string_view client, std::string authorization) {
    net::Headers headers;
    if (!authorization.empty()) headers.add("authorization", std::move(authorization));
    auto answer = authenticate({client, {}, headers}, known, tokens);
    if (auto* failure = std::get_if<Failure>(&answer)) return json::write(failure->status());
    return std::get<User>(answer).name;
  }
};

constexpr std::string_view k401 =
    R"({"apiVersion":"v1","code":401,"kind":"Status","message":"Unauthorized","metadata":{},"reason":"Unauthorized","status":"Failure"})";

TEST(Authentication, WhoSends) {
  World world;
  json::Value account =
      json::Object{{"metadata", json::Object{{"name", "bot"}, {"namespace", "x"}, {"uid", "1"}}}};
  std::string token =
      std::get<json::Value>(world.tokens.request(account, nullptr))["status"]["token"].string();
  struct Case {
    std::string_view client;
    std::string authorization;
    std::string_view who;
  };
  for (const Case& c : std::vector<Case>{
           {"", "", "system:anonymous"},
           {"kim", "", "kim"},
           {"kim", "Bearer nonsense", "kim"},  // the certificate is enough
           {"", "Bearer secret", "ann"},
           {"", "bearer secret", "ann"},
           {"", "Bearer secret and more", "ann"},
           {"", "Bearer Secret", k401},
           {"", "Bearer secretsecret", k401},
           {"", "Bearer nonsense", k401},
           {"", "Bearer ", "system:anonymous"},
           {"", "Bearer", "system:anonymous"},
           {"", "Basic nonsense", "system:anonymous"},
           {"", "Bearer " + token, "system:serviceaccount:x:bot"},
           {"", "Bearer " + token + "A", k401},
           {"", "Bearer " + std::string(1'000'000, 'a'), k401},
       })
    EXPECT_EQ(world.who(c.client, c.authorization), c.who) << c.authorization.substr(0, 100);
}

// ---------------------------------------------------------------------------------------------

json::Value clusterRole(std::string_view name, json::Array rules) {
  return json::Object{{"metadata", json::Object{{"name", name}}}, {"rules", std::move(rules)}};
}
json::Value impersonate(std::string_view group, std::string_view resource, json::Array names) {
  return json::Object{{"verbs", json::Array{"impersonate"}},
                      {"apiGroups", json::Array{group}},
                      {"resources", json::Array{resource}},
                      {"resourceNames", std::move(names)}};
}

// mia may be ann, in the group g1, with the uid u, scope s; and the account bot.
const Rbac& house() {
  static const Rbac rbac(
      {.cluster_roles = {clusterRole(
           "actor", {impersonate("", "users", {"ann", "system:anonymous"}),
                     impersonate("", "serviceaccounts", {"bot"}),
                     impersonate("", "groups", {"g1", "system:masters"}),
                     impersonate("authentication.k8s.io", "uids", {"u"}),
                     impersonate("authentication.k8s.io", "userextras/scope", {"s", "t"})})},
       .cluster_role_bindings = {json::Object{
           {"metadata", json::Object{{"name", "b"}}},
           {"roleRef", json::Object{{"kind", "ClusterRole"}, {"name", "actor"}}},
           {"subjects", json::Array{json::Object{{"kind", "User"}, {"name", "mia"}}}}}}});
  return rbac;
}

std::string acting(const net::Headers& headers, const User& user = completed({.name = "mia"})) {
  auto answer = impersonated(user, headers, house());
  if (auto* failure = std::get_if<Failure>(&answer))
    return std::to_string(failure->code) + " " + failure->message;
  return json::write(std::get<User>(answer).info());
}

TEST(Impersonation, WhoItIsThen) {
  struct Case {
    net::Headers headers;
    std::string_view answer;
  };
  for (
      const Case& c : std::vector<Case>{
          {{}, R"({"groups":["system:authenticated"],"username":"mia"})"},
          {{{"Impersonate-User", ""}}, R"({"groups":["system:authenticated"],"username":"mia"})"},
          {{{"Impersonate-User", "ann"}},
           R"({"groups":["system:authenticated"],"username":"ann"})"},
          {{{"impersonate-user", "ann"},
            {"impersonate-group", "g1"},
            {"IMPERSONATE-UID", "u"},
            {"Impersonate-Extra-Scope", "s"},
            {"Impersonate-Extra-%73cope", "t"}},
           R"({"extra":{"scope":["s","t"]},"groups":["g1","system:authenticated"],"uid":"u","username":"ann"})"},
          {{{"Impersonate-User", "ann"}, {"Impersonate-Group", "system:masters"}},
           R"({"groups":["system:masters","system:authenticated"],"username":"ann"})"},
          {{{"Impersonate-User", "system:anonymous"}},
           R"({"groups":["system:unauthenticated"],"username":"system:anonymous"})"},
          {{{"Impersonate-User", "system:serviceaccount:x:bot"}},
           R"({"groups":["system:serviceaccounts","system:serviceaccounts:x","system:authenticated"],"username":"system:serviceaccount:x:bot"})"},
          {{{"Impersonate-User", "system:serviceaccount:x:bot"}, {"Impersonate-Group", "g1"}},
           R"({"groups":["g1","system:authenticated"],"username":"system:serviceaccount:x:bot"})"},
      })
    EXPECT_EQ(acting(c.headers), c.answer);
}

TEST(Impersonation, Refusals) {
  struct Case {
    net::Headers headers;
    std::string_view answer;
  };
  for (
      const Case& c : std::vector<Case>{
          {{{"Impersonate-User", "eve"}},
           R"(403 users "eve" is forbidden: User "mia" cannot impersonate resource "users" in API group "" at the cluster scope)"},
          {{{"Impersonate-User", "system:serviceaccount:x:eve"}},
           R"(403 serviceaccounts "eve" is forbidden: User "mia" cannot impersonate resource "serviceaccounts" in API group "" in the namespace "x")"},
          {{{"Impersonate-User", "system:serviceaccount:X:bot"}},
           R"(403 users "system:serviceaccount:X:bot" is forbidden: User "mia" cannot impersonate resource "users" in API group "" at the cluster scope)"},
          {{{"Impersonate-User", "ann"},
            {"Impersonate-Uid", "v"},
            {"Impersonate-Group", "g1"},
            {"Impersonate-Group", "g2"}},
           R"(403 groups "g2" is forbidden: User "mia" cannot impersonate resource "groups" in API group "" at the cluster scope)"},
          {{{"Impersonate-User", "ann"}, {"Impersonate-Uid", "v"}},
           R"(403 uids.authentication.k8s.io "v" is forbidden: User "mia" cannot impersonate resource "uids" in API group "authentication.k8s.io" at the cluster scope)"},
          {{{"Impersonate-User", "ann"}, {"Impersonate-Extra-Scope", "z"}},
           R"(403 userextras.authentication.k8s.io "z" is forbidden: User "mia" cannot impersonate resource "userextras/scope" in API group "authentication.k8s.io" at the cluster scope)"},
          {{{"Impersonate-Group", "g1"}},
           "500 Internal error occurred: requested a group, uid or extra without impersonating a "
           "user"},
      })
    EXPECT_EQ(acting(c.headers), c.answer);
  EXPECT_EQ(
      acting({{"Impersonate-User", "ann"}}, User::anonymous()),
      R"(403 users "ann" is forbidden: User "system:anonymous" cannot impersonate resource "users" in API group "" at the cluster scope)");
  net::Headers many{{"Impersonate-User", "ann"}};
  for (int i = 0; i < 2000; ++i) many.add("Impersonate-Group", "g1");
  EXPECT_THAT(acting(many), testing::StartsWith("400 "));
}

}  // namespace
}  // namespace cadre::hub
