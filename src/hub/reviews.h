#pragma once

#include "base/time.h"
#include "hub/rbac.h"
#include "hub/tokens.h"
#include "hub/users.h"

namespace cadre::hub {

// The kinds that are questions: each is POSTed, and comes back with the answer in its status. None
// is kept. Whether the user may ask at all is not looked at here.

// Whose token is this? (authentication.k8s.io)
Answer reviewToken(const json::Value& review, const StaticTokens& static_tokens, Tokens& tokens);
// Who am I?
Answer reviewSelf(const User& user, Time now);

// May somebody do that? (authorization.k8s.io)
Answer reviewAccess(const json::Value& review, const Rbac& rbac);
// The same in the one namespace of the request.
Answer reviewLocalAccess(const json::Value& review, std::string_view ns, const Rbac& rbac);
// May I?
Answer reviewSelfAccess(const json::Value& review, const User& user, const Rbac& rbac);
// What may I, in a namespace?
Answer reviewSelfRules(const json::Value& review, const User& user, const Rbac& rbac);

}  // namespace cadre::hub
