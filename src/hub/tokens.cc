#include "hub/tokens.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/format.h"
#include "base/strings.h"
#include "hub/jwt.h"
#include "json/texts.h"
#include "json/write.h"
#include "net/tls.h"

namespace cadre::hub {
namespace {

constexpr std::string_view kClaims = "kubernetes.io";
constexpr std::int64_t kDefaultSeconds = 3600;
constexpr std::int64_t kMinSeconds = 600;
constexpr std::int64_t kMaxSeconds = std::int64_t{1} << 32;
constexpr Duration kLeeway = 60s;  // for clocks that are not quite together
constexpr std::size_t kMaxAudiences = 100;

const kube::Resource kTokenRequests{.group = "authentication.k8s.io",
                                    .version = "v1",
                                    .plural = "tokenrequests",
                                    .kind = "TokenRequest"};

// What a token may be bound to beside its account, and where.
struct Bound {
  std::string_view kind, claim, resource;
  bool namespaced;
};
constexpr std::array<Bound, 3> kBound{{{"Pod", "pod", "pods", true},
                                       {"Secret", "secret", "secrets", true},
                                       {"Node", "node", "nodes", false}}};

Error refused(std::string message) {
  return {.code = Code::Unauthenticated, .message = std::move(message)};
}

// One audience may stand by itself.
std::vector<std::string> audiencesOf(const json::Value& claim) {
  if (claim.isString()) return {claim.string()};
  return textsOf(claim);
}

std::string quotedList(const std::vector<std::string>& texts) {
  std::string out = "[";
  for (const std::string& text : texts) {
    if (out.size() > 1) out += ' ';
    json::appendQuoted(out, text);
  }
  return out + "]";
}

std::int64_t secondsOf(Time time) {
  return std::chrono::floor<std::chrono::seconds>(time).time_since_epoch().count();
}

// A random one (RFC 9562, version 4).
std::string newUuid() {
  std::string bytes = net::secureRandom(16);
  bytes[6] = static_cast<char>((bytes[6] & 0x0f) | 0x40);
  bytes[8] = static_cast<char>((bytes[8] & 0x3f) | 0x80);
  std::string hex = hexEncode(bytes);
  for (std::size_t at : {20, 16, 12, 8}) hex.insert(at, "-");
  return hex;
}

Failure invalidRequest(std::string_view name, std::string_view path, const json::Value& value,
                       std::string_view why) {
  return invalid(kTokenRequests, name,
                 {{.path = std::string(path),
                   .message = format("Invalid value: {}: {}", json::write(value), why)}});
}

}  // namespace

Tokens::Tokens(Options options, const Clock& clock, Find find)
    : options_([&] {
        if (options.audiences.empty()) options.audiences = {options.issuer};
        return std::move(options);
      }()),
      clock_(clock),
      find_(std::move(find)) {}

Time Tokens::latest() { return latest_ = std::max(latest_, clock_.now()); }

Result<Tokens::Checked> Tokens::check(std::string_view token,
                                      const std::vector<std::string>& audiences) {
  auto jwt = parseJwt(token);
  if (!jwt) return refused("");
  json::Value claims = std::move(jwt->claims);
  if (claims["iss"].string() != options_.issuer) return refused("");
  bool is_signed = isSignedWith(*jwt, options_.key) ||
                   std::any_of(options_.older.begin(), options_.older.end(),
                               [&](const auto& key) { return isSignedWith(*jwt, key); });
  if (!is_signed) return refused("the token is not signed with a key of this server");

  const auto& wanted = audiences.empty() ? options_.audiences : audiences;
  std::vector<std::string> meant = audiencesOf(claims["aud"]), both;
  for (const std::string& audience : wanted)
    if (std::find(meant.begin(), meant.end(), audience) != meant.end()) both.push_back(audience);
  if (both.empty())
    return refused(format("token audiences {} is invalid for the target audiences {}",
                          quotedList(meant), quotedList(wanted)));

  const json::Value& about = claims[kClaims];
  kube::ObjectKey account{about["namespace"].string(), about["serviceaccount"]["name"].string()};
  if (account.ns.empty() || account.name.empty() ||
      claims["sub"].string() != serviceAccountName(account))
    return refused("the token does not say which service account it is for");
  CADRE_TRY(checkTimes(claims.object()));
  CADRE_TRY(checkObjects(about));

  Checked checked{.user = User::serviceAccount(account, about["serviceaccount"]["uid"].string()),
                  .audiences = std::move(both)};
  auto extra = [&](std::string_view key, std::string value) {
    checked.user.extra["authentication.kubernetes.io/" + std::string(key)] = {std::move(value)};
  };
  if (claims["jti"].isString()) extra("credential-id", "JTI=" + claims["jti"].string());
  for (std::string_view what : {"pod", "node"}) {
    if (!about[what].isObject()) continue;
    extra(format("{}-name", what), about[what]["name"].string());
    if (about[what]["uid"].isString()) extra(format("{}-uid", what), about[what]["uid"].string());
  }
  return checked;
}

Result<> Tokens::checkTimes(const json::Object& claims) {
  const json::Value* expires = claims.find("exp");
  if (!expires || !expires->isNumber()) return refused("the token does not say when it expires");
  std::int64_t leeway = std::chrono::duration_cast<std::chrono::seconds>(kLeeway).count();
  if (expires->integer() < secondsOf(clock_.now()) - leeway)
    return refused("service account token has expired");
  const json::Value* begins = claims.find("nbf");
  constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
  if (begins && begins->integer(kNever) > secondsOf(latest()) + leeway)
    return refused("service account token is not valid yet");
  return {};
}

Result<> Tokens::checkObjects(const json::Value& claims) {
  const json::Value& about = claims["serviceaccount"];
  const std::string& ns = claims["namespace"].string();
  json::Value account = find_("serviceaccounts", {ns, about["name"].string()});
  if (account.isNull())
    return refused(format("serviceaccounts \"{}\" not found", about["name"].string()));
  if (kube::isDeleting(account)) return refused("service account token has been invalidated");
  if (kube::uid(account) != about["uid"].string())
    return refused(format("service account UID ({}) does not match claim ({})", kube::uid(account),
                          about["uid"].string()));
  for (const Bound& bound : kBound) {
    const json::Value& claim = claims[bound.claim];
    // The node of a token that is bound to a pod only tells where that is.
    if (!claim.isObject() || (bound.claim == "node" && claims["pod"].isObject())) continue;
    json::Value object =
        find_(bound.resource, {bound.namespaced ? ns : "", claim["name"].string()});
    if (object.isNull() || kube::uid(object) != claim["uid"].string())
      return refused("service account token has been invalidated");
  }
  return {};
}

std::variant<json::Object, Failure> Tokens::bindingOf(const json::Value& account,
                                                      const json::Value& ref) {
  if (!ref.isObject()) return json::Object{};
  const std::string& kind = ref["kind"].string();
  const std::string& version = ref["apiVersion"].string();
  auto bound = std::find_if(kBound.begin(), kBound.end(),
                            [&](const Bound& one) { return one.kind == kind; });
  if (bound == kBound.end() || (version != "v1" && !version.empty())) {
    auto [group, rest] = cut(version, "/");
    std::string both = rest.empty() ? "/" + version : version;
    return badRequest(format("cannot bind token to object of type {}, Kind={}", both, kind));
  }
  const std::string& name = ref["name"].string();
  if (name.empty()) return badRequest("Name parameter required.");
  json::Value object =
      find_(bound->resource, {std::string(bound->namespaced ? kube::ns(account) : ""), name});
  if (object.isNull()) return notFound({.plural = std::string(bound->resource)}, name);
  const std::string& uid = ref["uid"].string();
  if (!uid.empty() && uid != kube::uid(object))
    return conflict({.plural = std::string(bound->kind)}, name,
                    format("the UID in the bound object reference ({}) does not match the UID in "
                           "record. The object might have been deleted and then recreated",
                           uid));
  if (bound->claim == "pod" && object["spec"]["serviceAccountName"].string() != kube::name(account))
    return badRequest(
        format("cannot bind token for serviceaccount \"{}\" to pod running with "
               "different serviceaccount name.",
               kube::name(account)));
  json::Object claims;
  claims.set(bound->claim, json::Object{{"name", name}, {"uid", kube::uid(object)}});
  const std::string& node_name = object["spec"]["nodeName"].string();
  if (bound->claim == "pod" && !node_name.empty()) {
    json::Object on{{"name", node_name}};
    json::Value node = find_("nodes", {"", node_name});
    if (!node.isNull()) on.set("uid", kube::uid(node));
    claims.set("node", std::move(on));
  }
  return claims;
}

json::Value Tokens::defaulted(const json::Value& account, json::Value request) const {
  request.make("apiVersion") = kTokenRequests.apiVersion();
  request.make("kind") = kTokenRequests.kind;
  json::Value& ns = request.make("metadata").make("namespace");
  if (ns.string().empty()) ns = kube::ns(account);
  json::Value& spec = request.make("spec");
  if (spec["expirationSeconds"].isNull()) spec.make("expirationSeconds") = kDefaultSeconds;
  return request;
}

Answer Tokens::completed(const json::Value& account, json::Value request) {
  request = defaulted(account, std::move(request));
  std::string_view name = kube::name(account), ns = kube::ns(account);
  std::string_view own_name = kube::name(request);
  if (kube::ns(request) != ns)
    return badRequest(
        "the namespace of the provided object does not match the namespace sent on the request");
  json::Value& spec = request.make("spec");
  std::int64_t seconds = spec["expirationSeconds"].integer(-1);
  if (seconds < kMinSeconds)
    return invalidRequest("", "spec.expirationSeconds", spec["expirationSeconds"],
                          "may not specify a duration less than 10 minutes");
  if (seconds > kMaxSeconds)
    return invalidRequest("", "spec.expirationSeconds", spec["expirationSeconds"],
                          "may not specify a duration larger than 2^32 seconds");
  if (!own_name.empty() && own_name != name)
    return invalidRequest(name, "metadata.name", own_name,
                          "must match the service account name if specified");
  std::vector<std::string> audiences = textsOf(spec["audiences"]);
  if (audiences.empty()) audiences = options_.audiences;
  if (audiences.size() > kMaxAudiences)
    return badRequest(format("a token may have at most {} audiences", kMaxAudiences));
  return json::Object{
      {"apiVersion", kTokenRequests.apiVersion()},
      {"kind", kTokenRequests.kind},
      {"metadata", json::Object{{"name", name},
                                {"namespace", ns},
                                {"uid", kube::uid(account)},
                                {"creationTimestamp", formatTime(clock_.now())}}},
      {"spec", json::Object{{"audiences", json::Array(audiences.begin(), audiences.end())},
                            {"expirationSeconds", seconds},
                            {"boundObjectRef", spec["boundObjectRef"]}}},
      {"status", json::Object{{"token", ""}, {"expirationTimestamp", nullptr}}}};
}

Answer Tokens::request(const json::Value& account, const json::Value& body) {
  auto complete = completed(account, body);
  if (std::holds_alternative<Failure>(complete)) return complete;
  json::Value& request = std::get<json::Value>(complete);
  const json::Value& spec = request["spec"];
  std::int64_t seconds = spec["expirationSeconds"].integer();
  auto bound = bindingOf(account, spec["boundObjectRef"]);
  if (auto* failure = std::get_if<Failure>(&bound)) return std::move(*failure);

  latest();
  Time now = clock_.now();
  json::Object about = std::get<json::Object>(std::move(bound));
  kube::ObjectKey key = kube::ObjectKey::of(account);
  about.set("namespace", key.ns);
  about.set("serviceaccount", json::Object{{"name", key.name}, {"uid", kube::uid(account)}});
  json::Object claims{{"aud", spec["audiences"]}, {"exp", secondsOf(now) + seconds},
                      {"iat", secondsOf(now)},    {"iss", options_.issuer},
                      {"jti", newUuid()},         {std::string(kClaims), std::move(about)},
                      {"nbf", secondsOf(now)},    {"sub", serviceAccountName(key)}};
  std::string token = writeJwt(options_.key, claims);
  if (token.size() > kMaxJwtBytes)
    return badRequest(
        format("the token would have more than {} bytes: ask for fewer or shorter "
               "audiences",
               kMaxJwtBytes));
  request.make("status") =
      json::Object{{"token", std::move(token)},
                   {"expirationTimestamp", formatTime(now + std::chrono::seconds(seconds))}};
  return complete;
}

}  // namespace cadre::hub
