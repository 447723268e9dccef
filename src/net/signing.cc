#include "net/signing.h"

#include <utility>

#include <openssl/bn.h>
#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>

#include "base/format.h"
#include "base/strings.h"
#include "net/tls.h"

namespace cadre::net {

struct SigningKey::Native {
  EVP_PKEY* key = nullptr;

  explicit Native(EVP_PKEY* key) : key(key) {}
  ~Native() { EVP_PKEY_free(key); }
  Native(const Native&) = delete;
  Native& operator=(const Native&) = delete;
};

namespace {

constexpr int kHalf = 32;  // bytes of one of the two numbers of an ES256 signature
constexpr std::size_t kMaxPem = 64u << 10;

struct Free {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  void operator()(ECDSA_SIG* signature) const { ECDSA_SIG_free(signature); }
};
template <class T>
using Owned = std::unique_ptr<T, Free>;

Error sslError(std::string_view doing) {
  char text[256] = "unknown error";
  if (unsigned long code = ERR_get_error()) ERR_error_string_n(code, text, sizeof text);
  ERR_clear_error();
  return Error{.code = Code::InvalidArgument, .message = format("{}: {}", doing, text)};
}

const unsigned char* bytesOf(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

// OpenSSL gives the two numbers as DER; tokens have them as they are.
std::string fromDer(std::string_view der) {
  const unsigned char* at = bytesOf(der);
  Owned<ECDSA_SIG> signature(d2i_ECDSA_SIG(nullptr, &at, static_cast<long>(der.size())));
  std::string raw(kHalf * std::size_t{2}, '\0');
  auto* out = reinterpret_cast<unsigned char*>(raw.data());
  if (!signature || BN_bn2binpad(ECDSA_SIG_get0_r(signature.get()), out, kHalf) != kHalf ||
      BN_bn2binpad(ECDSA_SIG_get0_s(signature.get()), out + kHalf, kHalf) != kHalf)
    return {};
  return raw;
}

std::string toDer(std::string_view raw) {
  if (raw.size() != kHalf * std::size_t{2}) return {};
  Owned<ECDSA_SIG> signature(ECDSA_SIG_new());
  BIGNUM* r = BN_bin2bn(bytesOf(raw), kHalf, nullptr);
  BIGNUM* s = BN_bin2bn(bytesOf(raw) + kHalf, kHalf, nullptr);
  if (!signature || !r || !s || ECDSA_SIG_set0(signature.get(), r, s) != 1) {
    BN_free(r);
    BN_free(s);
    return {};
  }
  unsigned char* der = nullptr;
  int size = i2d_ECDSA_SIG(signature.get(), &der);
  if (size <= 0) return {};
  std::string text(reinterpret_cast<char*>(der), static_cast<std::size_t>(size));
  OPENSSL_free(der);
  return text;
}

bool isP256(EVP_PKEY* key) {
  char group[64] = "";
  std::size_t size = 0;
  return EVP_PKEY_get_group_name(key, group, sizeof group, &size) == 1 &&
         std::string_view(group, size) == "prime256v1";
}

}  // namespace

SigningKey::SigningKey(std::shared_ptr<const Native> native) : native_(std::move(native)) {}

Result<SigningKey> SigningKey::of(std::shared_ptr<const Native> native) {
  SigningKey made(std::move(native));
  EVP_PKEY* key = made.native_->key;
  if (EVP_PKEY_get_base_id(key) == EVP_PKEY_EC && isP256(key)) {
    made.algorithm_ = Algorithm::Es256;
  } else if (EVP_PKEY_get_base_id(key) == EVP_PKEY_RSA && EVP_PKEY_get_bits(key) >= 2048 &&
             EVP_PKEY_get_bits(key) <= 8192) {
    made.algorithm_ = Algorithm::Rs256;
  } else {
    return Error{.code = Code::InvalidArgument,
                 .message =
                     "a key for signing is on the curve P-256, or RSA of 2048 to 8192 bits; "
                     "this is another one"};
  }
  unsigned char* der = nullptr;
  int size = i2d_PUBKEY(key, &der);
  if (size <= 0) return sslError("writing the public key");
  made.id_ = base64UrlEncode(
      sha256(std::string_view(reinterpret_cast<char*>(der), static_cast<std::size_t>(size))));
  OPENSSL_free(der);
  return made;
}

Result<SigningKey> SigningKey::generate(Algorithm algorithm) {
  EVP_PKEY* key = algorithm == Algorithm::Es256 ? EVP_EC_gen("P-256") : EVP_RSA_gen(2048u);
  if (!key) return sslError("making a key");
  return of(std::make_shared<const Native>(key));
}

Result<SigningKey> SigningKey::read(std::string_view pem) {
  if (pem.size() > kMaxPem)
    return Error{.code = Code::InvalidArgument, .message = "the key is too long to be one"};
  Owned<BIO> bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  // No password is ever asked for: a prompt would hang a server.
  EVP_PKEY* key = PEM_read_bio_PrivateKey(
      bio.get(), nullptr, [](char*, int, int, void*) { return -1; }, nullptr);
  if (!key) return sslError("reading the private key");
  return of(std::make_shared<const Native>(key));
}

std::string SigningKey::pem() const {
  Owned<BIO> bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_PrivateKey(bio.get(), native_->key, nullptr, nullptr, 0, nullptr, nullptr);
  char* data = nullptr;
  long size = BIO_get_mem_data(bio.get(), &data);
  return {data, static_cast<std::size_t>(size)};
}

std::string_view SigningKey::name() const {
  return algorithm_ == Algorithm::Es256 ? "ES256" : "RS256";
}

std::string SigningKey::sign(std::string_view bytes) const {
  Owned<EVP_MD_CTX> context(EVP_MD_CTX_new());
  std::size_t size = 0;
  std::string signature;
  bool ok = EVP_DigestSignInit(context.get(), nullptr, EVP_sha256(), nullptr, native_->key) == 1 &&
            EVP_DigestSign(context.get(), nullptr, &size, bytesOf(bytes), bytes.size()) == 1;
  if (ok) {
    signature.resize(size);
    ok = EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &size,
                        bytesOf(bytes), bytes.size()) == 1;
    signature.resize(size);
  }
  if (!ok) detail::badResult("a key does not sign", nullptr);
  return algorithm_ == Algorithm::Es256 ? fromDer(signature) : signature;
}

bool SigningKey::verify(std::string_view bytes, std::string_view signature) const {
  std::string der;
  if (algorithm_ == Algorithm::Es256) {
    der = toDer(signature);
    signature = der;
  }
  Owned<EVP_MD_CTX> context(EVP_MD_CTX_new());
  bool right =
      !signature.empty() &&
      EVP_DigestVerifyInit(context.get(), nullptr, EVP_sha256(), nullptr, native_->key) == 1 &&
      EVP_DigestVerify(context.get(), bytesOf(signature), signature.size(), bytesOf(bytes),
                       bytes.size()) == 1;
  ERR_clear_error();
  return right;
}

std::string base64UrlEncode(std::string_view bytes) {
  std::string text = base64Encode(bytes);
  while (text.ends_with('=')) text.pop_back();
  for (char& c : text) c = c == '+' ? '-' : c == '/' ? '_' : c;
  return text;
}

std::optional<std::string> base64UrlDecode(std::string_view text) {
  std::string standard(text);
  for (char& c : standard) {
    if (c == '+' || c == '/' || c == '=') return std::nullopt;
    c = c == '-' ? '+' : c == '_' ? '/' : c;
  }
  auto bytes = base64Decode(standard);
  if (!bytes || base64UrlEncode(*bytes) != text) return std::nullopt;
  return bytes;
}

bool equalInConstantTime(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace cadre::net
