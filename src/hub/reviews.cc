#include "hub/reviews.h"

#include "base/format.h"
#include "base/strings.h"
#include "json/texts.h"
#include "json/write.h"

namespace cadre::hub {
namespace {

constexpr std::string_view kAuthentication = "authentication.k8s.io/v1";
constexpr std::string_view kAuthorization = "authorization.k8s.io/v1";

json::Value answered(std::string_view api_version, std::string_view kind, json::Value spec,
                     json::Value status) {
  json::Object review{{"apiVersion", api_version},
                      {"kind", kind},
                      {"metadata", json::Object{}},
                      {"status", std::move(status)}};
  if (!spec.isNull()) review.set("spec", std::move(spec));
  return review;
}

// As the server writes it: by the names of its own fields.
json::Value pathAttributes(const json::Value& attributes) {
  return json::Object{{"Path", attributes["path"].string()}, {"Verb", attributes["verb"].string()}};
}

class Problems {
 public:
  void add(std::string_view path, const json::Value& value, std::string_view why) {
    errors_.push_back({.path = std::string(path),
                       .message = format("Invalid value: {}: {}", json::write(value), why)});
  }
  bool empty() const { return errors_.empty(); }
  Failure failure() const {
    Failure failure = invalid({.group = "authorization.k8s.io"}, "", errors_);
    failure.details.erase("kind");
    return failure;
  }

 private:
  std::vector<kube::FieldError> errors_;
};

void checkAttributes(const json::Value& spec, Problems& problems) {
  const json::Value& path = spec["nonResourceAttributes"];
  const json::Value& resource = spec["resourceAttributes"];
  if (!path.isNull() && !resource.isNull())
    problems.add("spec.nonResourceAttributes", pathAttributes(path),
                 "cannot be specified in combination with resourceAttributes");
  if (path.isNull() && resource.isNull())
    problems.add("spec.resourceAttributes", nullptr,
                 "exactly one of nonResourceAttributes or resourceAttributes must be specified");
}

void checkUser(const json::Value& spec, Problems& problems) {
  if (spec["user"].string().empty() && spec["groups"].array().empty())
    problems.add("spec.user", "", "at least one of user or group must be specified");
}

// `ns`: what it may have.
void checkMetadata(const json::Value& review, std::string_view ns, Problems& problems) {
  json::Object metadata = review["metadata"].object();
  metadata.erase("managedFields");
  metadata.erase("creationTimestamp");
  if (!ns.empty()) metadata.set("namespace", ns);
  if (metadata.size() > (ns.empty() ? 0 : 1))
    problems.add("metadata", std::move(metadata),
                 ns.empty() ? "must be empty" : "must be empty except for namespace");
}

Attributes attributesOf(const json::Value& spec) {
  if (const json::Value& path = spec["nonResourceAttributes"]; !path.isNull())
    return {.verb = path["verb"].string(), .path = path["path"].string()};
  const json::Value& wanted = spec["resourceAttributes"];
  return {.verb = wanted["verb"].string(),
          .group = wanted["group"].string(),
          .resource = wanted["resource"].string(),
          .subresource = wanted["subresource"].string(),
          .name = wanted["name"].string(),
          .ns = wanted["namespace"].string()};
}

// The user that a review asks about: just what it says.
User userOf(const json::Value& spec) {
  User user{.name = spec["user"].string(),
            .uid = spec["uid"].string(),
            .groups = textsOf(spec["groups"])};
  for (const auto& [key, values] : spec["extra"].object()) user.extra[key] = textsOf(values);
  return user;
}

json::Value statusOf(const Verdict& verdict) {
  json::Object status{{"allowed", verdict.allowed}};
  if (!verdict.reason.empty()) status.set("reason", verdict.reason);
  return status;
}

}  // namespace

Answer reviewToken(const json::Value& review, const StaticTokens& static_tokens, Tokens& tokens) {
  const json::Value& spec = review["spec"];
  const std::string& token = spec["token"].string();
  if (token.empty()) return badRequest("token is required for TokenReview in authentication");
  std::vector<std::string> wanted = textsOf(spec["audiences"]);
  auto known = [&](const User& user, const std::vector<std::string>& audiences) {
    return answered(kAuthentication, "TokenReview", spec,
                    json::Object{{"authenticated", true},
                                 {"user", user.info()},
                                 {"audiences", json::Array(audiences.begin(), audiences.end())}});
  };
  // A static token is for the API itself.
  if (const User* user = static_tokens.find(token)) {
    std::vector<std::string> both;
    for (const std::string& audience : wanted.empty() ? tokens.audiences() : wanted)
      for (const std::string& own : tokens.audiences())
        if (audience == own) both.push_back(audience);
    if (!both.empty()) return known(*user, both);
  }
  auto checked = tokens.check(token, wanted);
  if (checked) return known(checked->user, checked->audiences);
  std::string why = "invalid bearer token";
  if (!checked.error().message.empty()) why = format("[{}, {}]", why, checked.error().message);
  return answered(kAuthentication, "TokenReview", spec,
                  json::Object{{"user", json::Object{}}, {"error", why}});
}

Answer reviewSelf(const User& user, Time now) {
  json::Value review = answered(kAuthentication, "SelfSubjectReview", nullptr,
                                json::Object{{"userInfo", user.info()}});
  review.make("metadata").make("creationTimestamp") = formatTime(now);
  return review;
}

Answer reviewAccess(const json::Value& review, const Rbac& rbac) {
  const json::Value& spec = review["spec"];
  Problems problems;
  checkAttributes(spec, problems);
  checkUser(spec, problems);
  checkMetadata(review, "", problems);
  if (!problems.empty()) return problems.failure();
  return answered(kAuthorization, "SubjectAccessReview", spec,
                  statusOf(rbac.check(userOf(spec), attributesOf(spec))));
}

Answer reviewLocalAccess(const json::Value& review, std::string_view ns, const Rbac& rbac) {
  const json::Value& spec = review["spec"];
  const json::Value& resource = spec["resourceAttributes"];
  if (std::string_view own = kube::ns(review); !own.empty() && own != ns)
    return badRequest(
        "the namespace of the provided object does not match the namespace sent on the request");
  Problems problems;
  checkAttributes(spec, problems);
  checkUser(spec, problems);
  checkMetadata(review, ns, problems);
  if (!resource.isNull() && resource["namespace"].string() != ns)
    problems.add("spec.resourceAttributes.namespace", resource["namespace"].string(),
                 "must match metadata.namespace");
  if (!spec["nonResourceAttributes"].isNull())
    problems.add("spec.nonResourceAttributes", pathAttributes(spec["nonResourceAttributes"]),
                 "disallowed on this kind of request");
  if (!problems.empty()) return problems.failure();
  json::Value answer = answered(kAuthorization, "LocalSubjectAccessReview", spec,
                                statusOf(rbac.check(userOf(spec), attributesOf(spec))));
  answer.make("metadata").make("namespace") = ns;
  return answer;
}

Answer reviewSelfAccess(const json::Value& review, const User& user, const Rbac& rbac) {
  const json::Value& spec = review["spec"];
  Problems problems;
  checkAttributes(spec, problems);
  checkMetadata(review, "", problems);
  if (!problems.empty()) return problems.failure();
  return answered(kAuthorization, "SelfSubjectAccessReview", spec,
                  statusOf(rbac.check(user, attributesOf(spec))));
}

Answer reviewSelfRules(const json::Value& review, const User& user, const Rbac& rbac) {
  const std::string& ns = review["spec"]["namespace"].string();
  if (ns.empty()) return badRequest("no namespace on request");
  Rbac::Held held = rbac.rulesFor(user, ns);
  json::Array resources, paths;
  for (const Rule& rule : held.rules)
    (rule.paths.empty() ? resources : paths).push_back(rule.value());
  json::Object status{{"resourceRules", std::move(resources)},
                      {"nonResourceRules", std::move(paths)},
                      {"incomplete", false}};
  if (!held.missing.empty()) status.set("evaluationError", together(held.missing));
  return answered(kAuthorization, "SelfSubjectRulesReview", json::Object{}, std::move(status));
}

}  // namespace cadre::hub
