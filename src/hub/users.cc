#include "hub/users.h"

#include <algorithm>

#include "base/strings.h"
#include "hub/rbac.h"
#include "hub/tokens.h"
#include "kube/names.h"
#include "net/signing.h"
#include "net/tls.h"

namespace cadre::hub {
namespace {

constexpr std::string_view kAccountPrefix = "system:serviceaccount:";
constexpr std::string_view kExtraPrefix = "impersonate-extra-";
constexpr std::string_view kAuthenticationGroup = "authentication.k8s.io";
constexpr std::size_t kMaxImpersonated = 1000;  // groups and extra values in one request

json::Array texts(const std::vector<std::string>& all) { return {all.begin(), all.end()}; }

// The token of `Authorization: Bearer <token>`; empty when there is none.
std::string_view bearer(const net::Headers& headers) {
  auto [scheme, rest] = cut(trim(headers.get("Authorization")), " ");
  return equalsIgnoreCase(scheme, "bearer") ? cut(rest, " ").first : std::string_view();
}

// What the headers ask for.
struct Wanted {
  std::string user, uid;
  std::vector<std::string> groups;
  std::map<std::string, std::vector<std::string>> extra;
  std::size_t count = 0;

  bool nothing() const { return user.empty() && uid.empty() && groups.empty() && extra.empty(); }
};

// Encoded as in a path, where '+' is no space.
std::string extraKey(std::string_view text) {
  std::string encoded;
  for (char c : text) encoded += c == '+' ? "%2B" : std::string(1, c);
  return urlDecode(encoded);
}

Wanted wantedBy(const net::Headers& headers) {
  Wanted wanted;
  for (const auto& [name, value] : headers) {
    if (!name.empty() && name[0] != 'I' && name[0] != 'i') continue;
    std::string header = lower(name);
    if (header == "impersonate-user" && wanted.user.empty()) {
      wanted.user = value;
    } else if (header == "impersonate-uid" && wanted.uid.empty()) {
      wanted.uid = value;
    } else if (header == "impersonate-group") {
      wanted.groups.push_back(value);
      ++wanted.count;
    } else if (header.starts_with(kExtraPrefix)) {
      wanted.extra[extraKey(std::string_view(header).substr(kExtraPrefix.size()))].push_back(value);
      ++wanted.count;
    }
  }
  return wanted;
}

}  // namespace

User User::anonymous() {
  return {.name = std::string(kAnonymous), .groups = {std::string(kUnauthenticated)}};
}

User User::fromCertificate(std::string_view name, std::vector<std::string> groups) {
  return completed({.name = std::string(name), .groups = std::move(groups)});
}

User User::serviceAccount(const kube::ObjectKey& account, std::string_view uid) {
  return completed({.name = serviceAccountName(account),
                    .uid = std::string(uid),
                    .groups = {"system:serviceaccounts", "system:serviceaccounts:" + account.ns}});
}

bool User::isIn(std::string_view group) const {
  return std::find(groups.begin(), groups.end(), group) != groups.end();
}

json::Value User::info() const {
  json::Object info;
  if (!name.empty()) info.set("username", name);
  if (!uid.empty()) info.set("uid", uid);
  if (!groups.empty()) info.set("groups", texts(groups));
  json::Object more;
  for (const auto& [key, values] : extra) more.set(key, texts(values));
  if (!more.empty()) info.set("extra", std::move(more));
  return info;
}

std::string serviceAccountName(const kube::ObjectKey& account) {
  return std::string(kAccountPrefix) + account.ns + ":" + account.name;
}

std::optional<kube::ObjectKey> serviceAccountOf(std::string_view user) {
  if (!user.starts_with(kAccountPrefix)) return std::nullopt;
  auto [ns, name] = cut(user.substr(kAccountPrefix.size()), ":");
  if (kube::checkDnsLabel(ns) || kube::checkDnsSubdomain(name)) return std::nullopt;
  return kube::ObjectKey{std::string(ns), std::string(name)};
}

User completed(User user) {
  if (user.name == kAnonymous) {
    if (!user.isIn(kUnauthenticated)) user.groups.emplace_back(kUnauthenticated);
  } else if (!user.isIn(kAuthenticated) && !user.isIn(kUnauthenticated)) {
    user.groups.emplace_back(kAuthenticated);
  }
  return user;
}

void StaticTokens::add(std::string_view token, User user) {
  known_.push_back({net::sha256(token), completed(std::move(user))});
}

const User* StaticTokens::find(std::string_view token) const {
  std::string hash = net::sha256(token);
  const User* found = nullptr;
  for (const Known& known : known_)  // all of them: how long it takes tells nothing
    if (net::equalInConstantTime(known.hash, hash)) found = &known.user;
  return found;
}

std::variant<User, Failure> authenticate(const Credentials& credentials,
                                         const StaticTokens& static_tokens, Tokens& tokens) {
  if (!credentials.client_name.empty())
    return User::fromCertificate(credentials.client_name, credentials.client_groups);
  std::string_view token = bearer(credentials.headers);
  if (token.empty()) return User::anonymous();
  if (const User* user = static_tokens.find(token)) return *user;
  auto checked = tokens.check(token, {});
  if (!checked) return unauthorized();
  return checked->user;
}

std::variant<User, Failure> impersonated(const User& user, const net::Headers& headers,
                                         const Rbac& rbac) {
  Wanted wanted = wantedBy(headers);
  if (wanted.nothing()) return user;
  if (wanted.user.empty())
    return internal("requested a group, uid or extra without impersonating a user");
  if (wanted.count > kMaxImpersonated)
    return badRequest("too many impersonated groups and extra values in one request");

  std::optional<Failure> refused;
  auto ask = [&](Attributes attributes) {
    attributes.verb = "impersonate";
    if (!refused) refused = rbac.refusal(user, attributes);
  };
  std::optional<kube::ObjectKey> account = serviceAccountOf(wanted.user);
  if (account)
    ask({.resource = "serviceaccounts", .name = account->name, .ns = account->ns});
  else
    ask({.resource = "users", .name = wanted.user});
  for (const std::string& group : wanted.groups) ask({.resource = "groups", .name = group});
  for (const auto& [key, values] : wanted.extra)
    for (const std::string& value : values)
      ask({.group = std::string(kAuthenticationGroup),
           .resource = "userextras",
           .subresource = key,
           .name = value});
  if (!wanted.uid.empty())
    ask({.group = std::string(kAuthenticationGroup), .resource = "uids", .name = wanted.uid});
  if (refused) return *std::move(refused);

  User other{.name = wanted.user,
             .uid = wanted.uid,
             .groups = std::move(wanted.groups),
             .extra = std::move(wanted.extra)};
  if (account && other.groups.empty()) other.groups = User::serviceAccount(*account, "").groups;
  return completed(std::move(other));
}

}  // namespace cadre::hub
