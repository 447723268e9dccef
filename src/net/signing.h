#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace cadre::net {

// A key that signs, and its public half that verifies: what tokens are made with. Immutable;
// copies share the key. Nothing here blocks, but a new RSA key takes a tenth of a second or more.
class SigningKey {
 public:
  enum class Algorithm {
    Es256,  // ECDSA on P-256
    Rs256,  // RSA with PKCS #1 v1.5 padding, 2048 bits
  };

  static Result<SigningKey> generate(Algorithm algorithm);
  // A private key: on P-256, or RSA of 2048 to 8192 bits. InvalidArgument for all others.
  static Result<SigningKey> read(std::string_view pem);

  std::string pem() const;  // with the private half: a secret
  Algorithm algorithm() const { return algorithm_; }
  std::string_view name() const;  // "ES256", as tokens name it
  // Tells keys apart: a hash of the public half, as API servers make it.
  const std::string& id() const { return id_; }

  // In the form of RFC 7515: for ES256 both numbers one after the other, 64 bytes.
  std::string sign(std::string_view bytes) const;
  bool verify(std::string_view bytes, std::string_view signature) const;

 private:
  struct Native;
  explicit SigningKey(std::shared_ptr<const Native> native);
  static Result<SigningKey> of(std::shared_ptr<const Native> native);

  std::shared_ptr<const Native> native_;
  Algorithm algorithm_ = Algorithm::Es256;
  std::string id_;
};

// The base64 of tokens (RFC 4648, section 5): without padding.
std::string base64UrlEncode(std::string_view bytes);
// Only what base64UrlEncode gives: no padding, no blank space, no bits to spare. So a text cannot
// be changed without changing what it says.
std::optional<std::string> base64UrlDecode(std::string_view text);

// Whether both are the same, in a time that tells nothing about where they differ.
bool equalInConstantTime(std::string_view a, std::string_view b);

}  // namespace cadre::net
