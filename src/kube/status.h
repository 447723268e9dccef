#pragma once

#include <optional>
#include <string_view>

#include "base/error.h"
#include "json/value.h"
#include "net/http.h"

namespace cadre::kube {

// The failure that an answer of the API tells: from its Status body where there is one, else from
// its code alone. Conflicts and invalid fields are in Error::details, one for each cause.
Error errorFromStatus(const json::Value& status);
Error errorFromAnswer(int http_status, const net::Headers& headers, std::string_view body);

// Retry-After in seconds, if the server gave one.
std::optional<Duration> retryAfter(const net::Headers& headers);

}  // namespace cadre::kube
