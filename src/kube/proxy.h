#pragma once

// Private to `kube`: the proxy that the environment names.

#include <map>
#include <optional>
#include <string>

#include "base/result.h"
#include "net/http.h"

namespace cadre::kube {

struct EnvironmentProxy {
  net::Url url;
  std::string variable;  // that names it: "HTTPS_PROXY"
};

// What HTTPS_PROXY or HTTP_PROXY (by the server's scheme) and NO_PROXY say, in large letters or
// small ones, as Go's net/http understands them: a value without a scheme is an http:// one; this
// machine is never proxied; NO_PROXY lists, with commas, "*" for all, addresses, networks
// (10.0.0.0/8), names that stand for themselves and all below them, and ".name" or "*.name" for
// those below alone; all but networks may end in ":port". A proxy that is no http:// one is an
// error. Pure.
Result<std::optional<EnvironmentProxy>> proxyFromEnvironment(
    const net::Url& server, const std::map<std::string, std::string>& env);

}  // namespace cadre::kube
