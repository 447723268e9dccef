#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/function.h"
#include "base/result.h"
#include "base/time.h"
#include "hub/failure.h"
#include "hub/users.h"
#include "json/value.h"
#include "kube/meta.h"
#include "net/signing.h"

namespace cadre::hub {

// What is answered to a review or a request for a token: the object with its status, or why not.
using Answer = std::variant<json::Value, Failure>;

// The tokens of service accounts: signed texts (JWT) that say whose they are and until when. One is
// good as long as the account is there with the same uid, and likewise the pod, secret or node that
// it is bound to. Belongs to one thread.
//
// A clock that goes back does no harm: a token that was made before it did is good at once. Only
// "not before" is asked of the latest time that was ever seen here; whether a token has expired, of
// the clock as it is, so that one moment in a wrong future ends no token for good.
class Tokens {
 public:
  struct Options {
    std::string issuer = "https://kubernetes.default.svc.cluster.local";
    std::vector<std::string> audiences = {};  // what the API itself goes by; empty: the issuer
    net::SigningKey key;                      // makes new ones
    std::vector<net::SigningKey> older = {};  // whose tokens are still good
  };
  // An object of a core resource ("serviceaccounts", "pods", ...); null when there is none.
  using Find = Function<json::Value(std::string_view resource, const kube::ObjectKey& key)>;

  Tokens(Options options, const Clock& clock, Find find);

  struct Checked {
    User user;
    std::vector<std::string> audiences;  // those of the asked ones that it is for
  };
  // Whose token it is. Unauthenticated with words otherwise; with none where it does not even claim
  // to be one of ours. Audiences: one of these must be meant; empty: the API itself.
  Result<Checked> check(std::string_view token, const std::vector<std::string>& audiences);

  // A TokenRequest for an account as it is read, and then with all that it leaves open.
  json::Value defaulted(const json::Value& account, json::Value request) const;
  Answer completed(const json::Value& account, json::Value request);
  // POST of a TokenRequest to an account's subresource: the same with spec and status filled in.
  Answer request(const json::Value& account, const json::Value& body);

  const std::vector<std::string>& audiences() const { return options_.audiences; }

 private:
  Time latest();
  Result<> checkTimes(const json::Object& claims);
  Result<> checkObjects(const json::Value& claims);
  // The claim of what a token is bound to; nothing when that is not asked for.
  std::variant<json::Object, Failure> bindingOf(const json::Value& account, const json::Value& ref);

  const Options options_;
  const Clock& clock_;
  const Find find_;
  Time latest_{};
};

}  // namespace cadre::hub
