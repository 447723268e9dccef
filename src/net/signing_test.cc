#include "net/signing.h"

#include <openssl/evp.h>
#include <openssl/pem.h>

#include "base/strings.h"

namespace cadre::net {
namespace {

using Algorithm = SigningKey::Algorithm;

class Signing : public testing::TestWithParam<Algorithm> {};

TEST_P(Signing, WhatIsSignedIsVerifiedAndNothingElse) {
  SigningKey key = *SigningKey::generate(GetParam());
  SigningKey other = *SigningKey::generate(GetParam());
  std::string signature = key.sign("words");
  EXPECT_EQ(signature.size(), key.algorithm() == Algorithm::Es256 ? 64u : 256u);
  EXPECT_TRUE(key.verify("words", signature));
  EXPECT_FALSE(key.verify("word", signature));
  EXPECT_FALSE(other.verify("words", signature));
  EXPECT_NE(key.id(), other.id());
  for (std::size_t at : {std::size_t{0}, signature.size() / 2, signature.size() - 1}) {
    std::string changed = signature;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    EXPECT_FALSE(key.verify("words", changed)) << at;
  }
  for (const std::string& wrong :
       {std::string(), std::string("x"), std::string(64, '\0'), std::string(64, '\xff'),
        std::string(256, '\0'), std::string(256, '\xff'), signature + "x"})
    EXPECT_FALSE(key.verify("words", wrong)) << hexEncode(wrong);
}

TEST_P(Signing, AKeyIsWrittenAndReadBack) {
  SigningKey key = *SigningKey::generate(GetParam());
  auto again = SigningKey::read(key.pem());
  ASSERT_TRUE(again) << again.error().text();
  EXPECT_EQ(again->id(), key.id());
  EXPECT_EQ(again->name(), GetParam() == Algorithm::Es256 ? "ES256" : "RS256");
  EXPECT_TRUE(again->verify("words", key.sign("words")));
}

INSTANTIATE_TEST_SUITE_P(Both, Signing, testing::Values(Algorithm::Es256, Algorithm::Rs256));

// A good key, but none that tokens of ours are signed with.
std::string p384() {
  EVP_PKEY* key = EVP_EC_gen("P-384");
  BIO* bio = BIO_new(BIO_s_mem());
  PEM_write_bio_PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr);
  char* data = nullptr;
  long size = BIO_get_mem_data(bio, &data);
  std::string text(data, static_cast<std::size_t>(size));
  BIO_free(bio);
  EVP_PKEY_free(key);
  return text;
}

TEST(SigningKeys, OtherKeysAreRefused) {
  for (const std::string& text :
       {std::string(), std::string("nonsense"), p384(), std::string(100'000, 'x')})
    EXPECT_FALSE(SigningKey::read(text)) << text.substr(0, 40);
}

TEST(Base64Url, OnlyItsOwnForm) {
  for (const std::string& bytes : {std::string(), std::string("f"), std::string("fo"),
                                   std::string("foo"), std::string("\xff\xfe\xfd\x00\x3e", 5)}) {
    EXPECT_EQ(base64UrlDecode(base64UrlEncode(bytes)), bytes);
  }
  EXPECT_EQ(base64UrlEncode("\xff\xfe\xfd"), "__79");
  for (std::string_view wrong : {"__79=", "Zg==", "Zh", "//79", "__7 9", "Z", "Zm9v\n", "é"})
    EXPECT_EQ(base64UrlDecode(wrong), std::nullopt) << wrong;
}

TEST(ConstantTime, ComparesAll) {
  EXPECT_TRUE(equalInConstantTime("", ""));
  EXPECT_TRUE(equalInConstantTime("abc", "abc"));
  EXPECT_FALSE(equalInConstantTime("abc", "abd"));
  EXPECT_FALSE(equalInConstantTime("abc", "ab"));
}

}  // namespace
}  // namespace cadre::net
