#include "hub/jwt.h"

#include "json/parse.h"
#include "json/write.h"

namespace cadre::hub {
namespace {

constexpr json::Limits kLimits{.bytes = kMaxJwtBytes, .depth = 8, .values = 1000};

std::optional<json::Object> part(std::string_view text) {
  auto bytes = net::base64UrlDecode(text);
  if (!bytes) return std::nullopt;
  // What is said twice would be read in two ways.
  auto value = json::parse(
      *bytes, json::ParseOptions{.limits = kLimits, .duplicate_keys = json::DuplicateKeys::Refuse});
  if (!value || !value->isObject()) return std::nullopt;
  return std::move(value->makeObject());
}

}  // namespace

std::optional<Jwt> parseJwt(std::string_view token) {
  if (token.size() > kMaxJwtBytes) return std::nullopt;
  std::size_t first = token.find('.');
  std::size_t last = token.rfind('.');
  if (first == last || token.find('.', first + 1) != last) return std::nullopt;
  auto header = part(token.substr(0, first));
  auto claims = part(token.substr(first + 1, last - first - 1));
  auto signature = net::base64UrlDecode(token.substr(last + 1));
  if (!header || !claims || !signature) return std::nullopt;
  return Jwt{.header = *std::move(header),
             .claims = *std::move(claims),
             .signed_text = token.substr(0, last),
             .signature = *std::move(signature)};
}

std::string writeJwt(const net::SigningKey& key, const json::Object& claims) {
  json::Object header{{"alg", key.name()}, {"kid", key.id()}};
  std::string text =
      net::base64UrlEncode(json::write(header)) + "." + net::base64UrlEncode(json::write(claims));
  return text + "." + net::base64UrlEncode(key.sign(text));
}

bool isSignedWith(const Jwt& jwt, const net::SigningKey& key) {
  const json::Value* algorithm = jwt.header.find("alg");
  // What a token says must be understood, nobody here understands (RFC 7515, "crit").
  return algorithm && algorithm->string() == key.name() && !jwt.header.contains("crit") &&
         key.verify(jwt.signed_text, jwt.signature);
}

}  // namespace cadre::hub
