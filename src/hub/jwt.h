#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "json/value.h"
#include "net/signing.h"

namespace cadre::hub {

// JSON Web Tokens (RFC 7519) that are signed: three texts with dots between them. Pure.

inline constexpr std::size_t kMaxJwtBytes = 16u << 10;  // a longer one is none

struct Jwt {
  json::Object header;
  json::Object claims;
  std::string_view signed_text;  // the first two texts, within the token
  std::string signature;
};

// What a token says of itself; nothing when it is none. Nothing in it is verified.
std::optional<Jwt> parseJwt(std::string_view token);
std::string writeJwt(const net::SigningKey& key, const json::Object& claims);
// Whether the key signed it, by the algorithm of the key: what the token says about that must be
// the same, so "none" is never right.
bool isSignedWith(const Jwt& jwt, const net::SigningKey& key);

}  // namespace cadre::hub
