// Tokens of service accounts: which are good, and what is said of the others; and the reviews.
#include "hub/tokens.h"

#include "base/format.h"
#include "base/strings.h"
#include "hub/jwt.h"
#include "hub/reviews.h"
#include "json/parse.h"
#include "json/write.h"

namespace cadre::hub {
namespace {

using testing::ElementsAre;
using testing::StartsWith;
using Algorithm = net::SigningKey::Algorithm;

const std::string kIssuer = "https://kubernetes.default.svc.cluster.local";

json::Value parsed(std::string_view text) { return *json::parse(text); }

class TokensTest : public testing::Test {
 protected:
  FakeClock clock;
  std::map<std::string, json::Value> objects;  // "pods x/p"
  net::SigningKey key = *net::SigningKey::generate(Algorithm::Es256);
  Tokens tokens{{.key = key}, clock, [this](std::string_view resource, const kube::ObjectKey& at) {
                  auto found = objects.find(format("{} {}", resource, at.text()));
                  return found == objects.end() ? json::Value() : found->second;
                }};

  static json::Value object(std::string_view ns, std::string_view name, std::string_view uid) {
    json::Object metadata{{"name", name}, {"uid", uid}};
    if (!ns.empty()) metadata.set("namespace", ns);
    return json::Object{{"metadata", std::move(metadata)}};
  }
  void SetUp() override {
    objects["serviceaccounts x/bot"] = object("x", "bot", "u1");
    objects["pods x/p"] = object("x", "p", "u2");
    objects["pods x/p"].make("spec") =
        json::Object{{"serviceAccountName", "bot"}, {"nodeName", "n"}};
    objects["pods x/other"] = object("x", "other", "u3");
    objects["nodes n"] = object("", "n", "u4");
    objects["secrets x/s"] = object("x", "s", "u5");
  }
  Answer request(std::string_view spec = "{}") {
    return tokens.request(objects["serviceaccounts x/bot"], json::Object{{"spec", parsed(spec)}});
  }
  std::string token(std::string_view spec = "{}") {
    return std::get<json::Value>(request(spec))["status"]["token"].string();
  }
  // What is said against it; "good" when nothing is.
  std::string verdict(std::string_view text, const std::vector<std::string>& audiences = {}) {
    auto checked = tokens.check(text, audiences);
    EXPECT_TRUE(checked || checked.error().code == Code::Unauthenticated);
    return checked ? "good" : checked.error().message;
  }
  json::Object claims() const {
    std::int64_t now =
        std::chrono::duration_cast<std::chrono::seconds>(clock.now().time_since_epoch()).count();
    return json::Object{
        {"aud", json::Array{kIssuer}},
        {"exp", now + 3600},
        {"iss", kIssuer},
        {"kubernetes.io",
         json::Object{{"namespace", "x"},
                      {"serviceaccount", json::Object{{"name", "bot"}, {"uid", "u1"}}}}},
        {"nbf", now},
        {"sub", "system:serviceaccount:x:bot"}};
  }
  std::string signedWith(std::string_view name, json::Value value) {
    json::Object changed = claims();
    if (value.isNull())
      changed.erase(name);
    else
      changed.set(name, std::move(value));
    return writeJwt(key, changed);
  }
};

TEST_F(TokensTest, ATokenSaysWhoseItIs) {
  json::Value answer = std::get<json::Value>(request());
  EXPECT_EQ(answer["kind"].string(), "TokenRequest");
  EXPECT_EQ(
      json::write(answer["metadata"]),
      R"({"creationTimestamp":"2026-01-01T00:00:00Z","name":"bot","namespace":"x","uid":"u1"})");
  EXPECT_EQ(
      json::write(answer["spec"]),
      R"({"audiences":["https://kubernetes.default.svc.cluster.local"],"boundObjectRef":null,"expirationSeconds":3600})");
  EXPECT_EQ(answer["status"]["expirationTimestamp"].string(), "2026-01-01T01:00:00Z");

  std::string text = answer["status"]["token"].string();
  auto jwt = parseJwt(text);
  ASSERT_TRUE(jwt);
  EXPECT_EQ(jwt->header.find("alg")->string(), "ES256");
  EXPECT_EQ(jwt->header.find("kid")->string(), key.id());
  jwt->claims.erase("jti");
  EXPECT_EQ(
      json::write(jwt->claims),
      R"({"aud":["https://kubernetes.default.svc.cluster.local"],"exp":1767229200,"iat":1767225600,)"
      R"("iss":"https://kubernetes.default.svc.cluster.local",)"
      R"("kubernetes.io":{"namespace":"x","serviceaccount":{"name":"bot","uid":"u1"}},)"
      R"("nbf":1767225600,"sub":"system:serviceaccount:x:bot"})");

  auto checked = tokens.check(text, {});
  ASSERT_TRUE(checked) << checked.error().text();
  EXPECT_EQ(checked->user.name, "system:serviceaccount:x:bot");
  EXPECT_EQ(checked->user.uid, "u1");
  EXPECT_THAT(checked->audiences, ElementsAre(kIssuer));
  EXPECT_THAT(checked->user.extra["authentication.kubernetes.io/credential-id"][0],
              testing::MatchesRegex(
                  "JTI=[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"));
}

TEST_F(TokensTest, BoundToAPod) {
  auto checked =
      tokens.check(token(R"({"boundObjectRef":{"kind":"Pod","apiVersion":"v1","name":"p"}})"), {});
  ASSERT_TRUE(checked) << checked.error().text();
  auto& extra = checked->user.extra;
  EXPECT_THAT(extra["authentication.kubernetes.io/pod-name"], ElementsAre("p"));
  EXPECT_THAT(extra["authentication.kubernetes.io/pod-uid"], ElementsAre("u2"));
  EXPECT_THAT(extra["authentication.kubernetes.io/node-name"], ElementsAre("n"));
  EXPECT_THAT(extra["authentication.kubernetes.io/node-uid"], ElementsAre("u4"));
}

TEST_F(TokensTest, EndsWithWhatItIsBoundTo) {
  std::string pods = token(R"({"boundObjectRef":{"kind":"Pod","apiVersion":"v1","name":"p"}})");
  std::string secrets =
      token(R"({"boundObjectRef":{"kind":"Secret","apiVersion":"v1","name":"s"}})");
  std::string nodes = token(R"({"boundObjectRef":{"kind":"Node","apiVersion":"v1","name":"n"}})");
  std::string own = token();
  for (const auto& text : {pods, secrets, nodes, own}) EXPECT_EQ(verdict(text), "good");
  objects.erase("nodes n");
  EXPECT_EQ(verdict(nodes), "service account token has been invalidated");
  EXPECT_EQ(verdict(pods), "good");
  objects["pods x/p"] = object("x", "p", "another");
  EXPECT_EQ(verdict(pods), "service account token has been invalidated");
  objects.erase("secrets x/s");
  EXPECT_EQ(verdict(secrets), "service account token has been invalidated");
  EXPECT_EQ(verdict(own), "good");
  objects["serviceaccounts x/bot"] = object("x", "bot", "another");
  EXPECT_EQ(verdict(own), "service account UID (another) does not match claim (u1)");
  objects.erase("serviceaccounts x/bot");
  EXPECT_EQ(verdict(own), "serviceaccounts \"bot\" not found");
}

TEST_F(TokensTest, Times) {
  std::string text = token(R"({"expirationSeconds":600})");
  clock.advance(600s);
  EXPECT_EQ(verdict(text), "good");
  clock.advance(60s);
  EXPECT_EQ(verdict(text), "good");  // for clocks that are not quite together
  clock.advance(1s);
  EXPECT_EQ(verdict(text), "service account token has expired");
}

TEST_F(TokensTest, AClockThatGoesBackDoesNoHarm) {
  std::string text = token();
  clock.jumpWall(-48h);
  EXPECT_EQ(verdict(text), "good");
  std::string later = token(R"({"expirationSeconds":600})");
  EXPECT_EQ(verdict(later), "good");
  clock.advance(700s);
  EXPECT_EQ(verdict(later), "service account token has expired");
  // One from a future that was never here.
  EXPECT_EQ(verdict(signedWith("nbf", 1967225600)), "service account token is not valid yet");
}

TEST_F(TokensTest, WrongTokens) {
  net::SigningKey other = *net::SigningKey::generate(Algorithm::Es256);
  net::SigningKey rsa = *net::SigningKey::generate(Algorithm::Rs256);
  std::string good = writeJwt(key, claims());
  ASSERT_EQ(verdict(good), "good");
  auto parts = split(good, '.');
  std::string claims_part(parts[1]);
  auto withHeader = [&](std::string_view header) {
    std::string text = net::base64UrlEncode(header) + "." + claims_part;
    return text + "." + net::base64UrlEncode(key.sign(text));
  };
  auto audience = [](std::string_view name) {
    return format("token audiences [\"{}\"] is invalid for the target audiences [\"{}\"]", name,
                  kIssuer);
  };
  const std::string not_signed = "the token is not signed with a key of this server";
  const std::string not_whose = "the token does not say which service account it is for";
  struct Case {
    std::string text, verdict;
  };
  for (const Case& c : std::vector<Case>{
           {"", ""},
           {".", ""},
           {"..", ""},
           {"a.b", ""},
           {"a.b.c", ""},
           {good + ".", ""},
           {good + "=", ""},
           {" " + good, ""},
           {std::string(20'000, 'a'), ""},
           {good.substr(0, good.size() - 6), not_signed},
           {format("{}.{}.", parts[0], parts[1]), not_signed},
           {writeJwt(other, claims()), not_signed},
           {writeJwt(rsa, claims()), not_signed},
           {withHeader(R"({"alg":"none"})"), not_signed},
           {net::base64UrlEncode(R"({"alg":"none"})") + "." + claims_part + ".", not_signed},
           {withHeader(R"({"alg":"HS256"})"), not_signed},
           {withHeader(R"({"alg":"RS256"})"), not_signed},
           {withHeader(R"({})"), not_signed},
           {withHeader(R"({"alg":"ES256","crit":["exp"]})"), not_signed},
           {withHeader(R"({"alg":"none","alg":"ES256"})"), ""},
           {withHeader(R"([1])"), ""},
           {withHeader(R"({"alg":"ES256"})"), "good"},  // the key is found by trying
           {signedWith("iss", "https://elsewhere"), ""},
           {signedWith("iss", nullptr), ""},
           {signedWith("aud", json::Array{"elsewhere"}), audience("elsewhere")},
           {signedWith("aud", "elsewhere"), audience("elsewhere")},
           {signedWith("aud", kIssuer), "good"},
           {signedWith("aud", nullptr),
            format("token audiences [] is invalid for the target audiences [\"{}\"]", kIssuer)},
           {signedWith("exp", nullptr), "the token does not say when it expires"},
           {signedWith("exp", "soon"), "the token does not say when it expires"},
           {signedWith("exp", 1e300), "service account token has expired"},
           {signedWith("exp", -1), "service account token has expired"},
           {signedWith("nbf", 1e300), "service account token is not valid yet"},
           {signedWith("nbf", "now"), "service account token is not valid yet"},
           {signedWith("nbf", nullptr), "good"},
           {signedWith("sub", "system:serviceaccount:x:root"), not_whose},
           {signedWith("kubernetes.io", nullptr), not_whose},
           {signedWith("kubernetes.io", json::Array{1}), not_whose},
       })
    EXPECT_EQ(verdict(c.text), c.verdict) << c.text.substr(0, 200);
  // Every bit of it counts.
  for (std::size_t at = 0; at < good.size(); ++at) {
    std::string changed = good;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    EXPECT_NE(verdict(changed), "good") << at;
  }
}

TEST_F(TokensTest, OlderKeys) {
  net::SigningKey now = *net::SigningKey::generate(Algorithm::Rs256);
  Tokens renewed({.key = now, .older = {key}}, clock,
                 [this](std::string_view, const kube::ObjectKey&) {
                   return objects["serviceaccounts x/bot"];
                 });
  EXPECT_TRUE(renewed.check(token(), {}));
  Answer fresh = renewed.request(objects["serviceaccounts x/bot"], nullptr);
  std::string text = std::get<json::Value>(fresh)["status"]["token"].string();
  EXPECT_TRUE(renewed.check(text, {}));
  EXPECT_EQ(verdict(text), "the token is not signed with a key of this server");
}

TEST_F(TokensTest, RequestsThatAreRefused) {
  struct Case {
    std::string_view body, answer;
  };
  for (
      const Case& c : std::vector<Case>{
          {R"({"spec":{"expirationSeconds":1}})",
           R"(422 TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: 1: may not specify a duration less than 10 minutes)"},
          {R"({"spec":{"expirationSeconds":4294967297}})",
           R"(422 TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: 4294967297: may not specify a duration larger than 2^32 seconds)"},
          {R"({"metadata":{"name":"other"}})",
           R"(422 TokenRequest.authentication.k8s.io "bot" is invalid: metadata.name: Invalid value: "other": must match the service account name if specified)"},
          {R"({"metadata":{"namespace":"y"}})",
           "400 the namespace of the provided object does not match the namespace sent on the "
           "request"},
          {R"({"spec":{"boundObjectRef":{"kind":"Foo","apiVersion":"v1","name":"p"}}})",
           "400 cannot bind token to object of type /v1, Kind=Foo"},
          {R"({"spec":{"boundObjectRef":{"kind":"Pod","apiVersion":"v1"}}})",
           "400 Name parameter required."},
          {R"({"spec":{"boundObjectRef":{"kind":"Pod","apiVersion":"v1","name":"nope"}}})",
           R"(404 pods "nope" not found)"},
          {R"({"spec":{"boundObjectRef":{"kind":"Pod","apiVersion":"v1","name":"p","uid":"zz"}}})",
           R"(409 Operation cannot be fulfilled on Pod "p": the UID in the bound object reference (zz) does not match the UID in record. The object might have been deleted and then recreated)"},
          {R"({"spec":{"boundObjectRef":{"kind":"Pod","apiVersion":"v1","name":"other"}}})",
           R"(400 cannot bind token for serviceaccount "bot" to pod running with different serviceaccount name.)"},
      }) {
    Answer answer = tokens.request(objects["serviceaccounts x/bot"], parsed(c.body));
    auto* failure = std::get_if<Failure>(&answer);
    ASSERT_TRUE(failure) << c.body;
    EXPECT_EQ(format("{} {}", failure->code, failure->message), c.answer);
  }
  json::Array many(1000, json::Value("a"));
  EXPECT_TRUE(
      std::holds_alternative<Failure>(request(json::write(json::Object{{"audiences", many}}))));
  EXPECT_TRUE(std::holds_alternative<Failure>(
      request(json::write(json::Object{{"audiences", json::Array{std::string(20'000, 'a')}}}))));
}

// ---------------------------------------------------------------------------------------------

class ReviewsTest : public TokensTest {
 protected:
  StaticTokens known;
  Rbac rbac{defaultRbac()};

  static std::string text(const Answer& answer) {
    if (auto* failure = std::get_if<Failure>(&answer))
      return format("{} {}", failure->code, failure->message);
    return json::write(std::get<json::Value>(answer)["status"]);
  }
  std::string ofToken(std::string_view token, json::Array audiences = {}) {
    json::Object spec{{"token", token}};
    if (!audiences.empty()) spec.set("audiences", std::move(audiences));
    return text(reviewToken(json::Object{{"spec", std::move(spec)}}, known, tokens));
  }
};

TEST_F(ReviewsTest, Tokens) {
  known.add("secret", {.name = "ann", .uid = "7", .groups = {"devs"}});
  EXPECT_EQ(ofToken("secret"),
            R"({"audiences":["https://kubernetes.default.svc.cluster.local"],"authenticated":true,)"
            R"("user":{"groups":["devs","system:authenticated"],"uid":"7","username":"ann"}})");
  const std::string invalid = R"({"error":"invalid bearer token","user":{}})";
  EXPECT_EQ(ofToken("secret", {"foo"}), invalid);
  EXPECT_EQ(ofToken("nonsense"), invalid);
  EXPECT_EQ(ofToken(""), "400 token is required for TokenReview in authentication");
  std::string ours = token(R"({"audiences":["foo","bar"]})");
  EXPECT_THAT(ofToken(ours, {"foo", "bar", "baz"}),
              StartsWith(R"({"audiences":["foo","bar"],"authenticated":true)"));
  EXPECT_EQ(
      ofToken(ours),
      R"({"error":"[invalid bearer token, token audiences [\"foo\" \"bar\"] is invalid for the target audiences [\"https://kubernetes.default.svc.cluster.local\"]]","user":{}})");
}

TEST_F(ReviewsTest, Access) {
  struct Case {
    std::string_view review, answer;
  };
  const std::string_view none =
      R"(422 .authorization.k8s.io "" is invalid: spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified)";
  for (
      const Case& c : std::vector<Case>{
          {R"({"spec":{"user":"a","groups":["system:masters"],"resourceAttributes":{"verb":"x"}}})",
           R"({"allowed":true})"},
          {R"({"spec":{"user":"a","resourceAttributes":{"verb":"x"}}})", R"({"allowed":false})"},
          {R"({"spec":{"user":"a","nonResourceAttributes":{}}})", R"({"allowed":false})"},
          {R"({"spec":{"groups":["system:authenticated"],"nonResourceAttributes":{"path":"/api","verb":"get"}}})",
           R"({"allowed":true,"reason":"RBAC: allowed by ClusterRoleBinding \"system:discovery\" of ClusterRole \"system:discovery\" to Group \"system:authenticated\""})"},
          {R"({"spec":{"user":"a"}})", none},
          {R"({"spec":{}})",
           R"(422 .authorization.k8s.io "" is invalid: [spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified, spec.user: Invalid value: "": at least one of user or group must be specified])"},
          {R"({"spec":{"user":"a","resourceAttributes":{},"nonResourceAttributes":{"path":"/"}}})",
           R"(422 .authorization.k8s.io "" is invalid: spec.nonResourceAttributes: Invalid value: {"Path":"/","Verb":""}: cannot be specified in combination with resourceAttributes)"},
          {R"({"metadata":{"name":"q"},"spec":{"user":"a","resourceAttributes":{}}})",
           R"(422 .authorization.k8s.io "" is invalid: metadata: Invalid value: {"name":"q"}: must be empty)"},
      })
    EXPECT_EQ(text(reviewAccess(parsed(c.review), rbac)), c.answer) << c.review;
  EXPECT_EQ(text(reviewSelfAccess(parsed(R"({"spec":{}})"), User::anonymous(), rbac)), none);
  EXPECT_THAT(text(reviewSelfAccess(
                  parsed(R"({"spec":{"nonResourceAttributes":{"path":"/version","verb":"get"}}})"),
                  User::anonymous(), rbac)),
              StartsWith(R"({"allowed":true)"));
}

TEST_F(ReviewsTest, LocalAccess) {
  auto ask = [&](std::string_view review) {
    return text(reviewLocalAccess(parsed(review), "x", rbac));
  };
  EXPECT_EQ(ask(R"({"spec":{"user":"a","resourceAttributes":{"namespace":"x"}}})"),
            R"({"allowed":false})");
  EXPECT_EQ(
      ask(R"({"spec":{"user":"a","resourceAttributes":{}}})"),
      R"(422 .authorization.k8s.io "" is invalid: spec.resourceAttributes.namespace: Invalid value: "": must match metadata.namespace)");
  EXPECT_EQ(
      ask(R"({"spec":{"user":"a","nonResourceAttributes":{"path":"/api","verb":"get"}}})"),
      R"(422 .authorization.k8s.io "" is invalid: spec.nonResourceAttributes: Invalid value: {"Path":"/api","Verb":"get"}: disallowed on this kind of request)");
  EXPECT_THAT(ask(R"({"metadata":{"namespace":"y"},"spec":{}})"), StartsWith("400 the namespace"));
  EXPECT_EQ(
      ask(R"({"metadata":{"name":"q"},"spec":{"user":"a","resourceAttributes":{"namespace":"x"}}})"),
      R"(422 .authorization.k8s.io "" is invalid: metadata: Invalid value: {"name":"q","namespace":"x"}: must be empty except for namespace)");
}

TEST_F(ReviewsTest, Self) {
  User ann = completed({.name = "ann"});
  EXPECT_EQ(json::write(std::get<json::Value>(reviewSelf(ann, clock.now()))),
            R"({"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview",)"
            R"("metadata":{"creationTimestamp":"2026-01-01T00:00:00Z"},)"
            R"("status":{"userInfo":{"groups":["system:authenticated"],"username":"ann"}}})");
  EXPECT_EQ(text(reviewSelfRules(parsed(R"({"spec":{}})"), ann, rbac)),
            "400 no namespace on request");
  EXPECT_EQ(
      text(reviewSelfRules(parsed(R"({"spec":{"namespace":"x"}})"), ann, rbac)),
      R"({"incomplete":false,"nonResourceRules":[{"nonResourceURLs":["/api","/api/*","/apis","/apis/*","/healthz","/livez","/openapi","/openapi/*","/readyz","/version","/version/"],"verbs":["get"]},)"
      R"({"nonResourceURLs":["/healthz","/livez","/readyz","/version","/version/"],"verbs":["get"]}],)"
      R"("resourceRules":[{"apiGroups":["authorization.k8s.io"],"resources":["selfsubjectaccessreviews","selfsubjectrulesreviews"],"verbs":["create"]},)"
      R"({"apiGroups":["authentication.k8s.io"],"resources":["selfsubjectreviews"],"verbs":["create"]}]})");
}

}  // namespace
}  // namespace cadre::hub
