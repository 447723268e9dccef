// Any bytes as a token: it is refused without a crash, unless it is one that we signed ourselves.
// The same bytes as claims of a signed token, to get behind the signature.

#include <cstdint>
#include <string>
#include <string_view>

#include "hub/jwt.h"
#include "hub/tokens.h"
#include "json/parse.h"
#include "json/write.h"
#include "require.h"

using namespace cadre;

namespace {

struct House {
  FakeClock clock;
  net::SigningKey key = *net::SigningKey::generate(net::SigningKey::Algorithm::Es256);
  hub::Tokens tokens{
      {.key = key}, clock, [](std::string_view, const kube::ObjectKey& at) -> json::Value {
        return json::Object{
            {"metadata", json::Object{{"name", at.name}, {"namespace", at.ns}, {"uid", "u"}}}};
      }};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static House house;
  std::string_view text(reinterpret_cast<const char*>(data), size);
  if (auto jwt = hub::parseJwt(text)) {
    require(size <= hub::kMaxJwtBytes);
    require(jwt->signed_text.size() < size);
    require(!hub::isSignedWith(*jwt, house.key));
  }
  require(!house.tokens.check(text, {}).ok());

  auto claims = json::parse(text, json::Limits{.bytes = 8u << 10, .depth = 8, .values = 1000});
  if (!claims.ok() || !claims->isObject()) return 0;
  std::string token = hub::writeJwt(house.key, claims->object());
  auto jwt = hub::parseJwt(token);
  require(jwt || token.size() > hub::kMaxJwtBytes);
  if (!jwt) return 0;
  require(hub::isSignedWith(*jwt, house.key));
  require(json::Value(jwt->claims) == *json::parse(json::write(*claims)));
  auto checked = house.tokens.check(token, {});
  require(!checked.ok() || checked->user.name == (*claims)["sub"].string());
  return 0;
}
