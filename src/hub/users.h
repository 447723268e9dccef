#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "hub/failure.h"
#include "json/value.h"
#include "kube/meta.h"
#include "net/http.h"

namespace cadre::hub {

class Rbac;
class Tokens;

inline constexpr std::string_view kAnonymous = "system:anonymous";
inline constexpr std::string_view kAuthenticated = "system:authenticated";
inline constexpr std::string_view kUnauthenticated = "system:unauthenticated";
inline constexpr std::string_view kMasters = "system:masters";  // may do everything

// Who does something. A value.
struct User {
  std::string name;
  std::string uid = {};
  std::vector<std::string> groups = {};
  std::map<std::string, std::vector<std::string>> extra = {};

  static User anonymous();
  // As the common name and the organizations of a client's certificate say.
  static User fromCertificate(std::string_view name, std::vector<std::string> groups);
  static User serviceAccount(const kube::ObjectKey& account, std::string_view uid);

  bool isIn(std::string_view group) const;
  json::Value info() const;  // {username, uid, groups, extra}, as reviews show it

  bool operator==(const User&) const = default;
};

// "system:serviceaccount:<namespace>:<name>"
std::string serviceAccountName(const kube::ObjectKey& account);
// Its reverse; nothing when it is another name.
std::optional<kube::ObjectKey> serviceAccountOf(std::string_view user);
// With one of the two groups that tell whether somebody has shown who he is.
User completed(User user);

// Bearer tokens that a file or a flag gave. Only hashes of them are held, and each check takes the
// same time wherever a token differs.
class StaticTokens {
 public:
  void add(std::string_view token, User user);
  const User* find(std::string_view token) const;  // null: no such token

 private:
  struct Known {
    std::string hash;
    User user;
  };
  std::vector<Known> known_;
};

// Who sends a request: the client's certificate if it showed one that is trusted, else the bearer
// token, else nobody in particular. A token that is wrong is refused (401), also where anonymous
// users may do what is asked.
struct Credentials {
  std::string_view client_name;  // of the certificate, which TLS has verified; empty: none
  const std::vector<std::string>& client_groups;
  const net::Headers& headers;
};
std::variant<User, Failure> authenticate(const Credentials& credentials,
                                         const StaticTokens& static_tokens, Tokens& tokens);

// Whoever may, acts as another user (Impersonate-User, -Group, -Uid, -Extra-*): gives that one, or
// the user as he is where no header asks for it. Each header wants the verb "impersonate": on
// "users" or "serviceaccounts", on "groups", and in authentication.k8s.io on "uids" and
// "userextras/<key>".
std::variant<User, Failure> impersonated(const User& user, const net::Headers& headers,
                                         const Rbac& rbac);

}  // namespace cadre::hub
