#include "net/sha256.h"

#include <openssl/evp.h>

namespace cadre::net {

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  EVP_DigestInit_ex(static_cast<EVP_MD_CTX*>(context_), EVP_sha256(), nullptr);
}

Sha256::~Sha256() { EVP_MD_CTX_free(static_cast<EVP_MD_CTX*>(context_)); }

void Sha256::add(std::string_view piece) {
  EVP_DigestUpdate(static_cast<EVP_MD_CTX*>(context_), piece.data(), piece.size());
}

std::string Sha256::finish() {
  std::string out(32, '\0');
  EVP_DigestFinal_ex(static_cast<EVP_MD_CTX*>(context_),
                     reinterpret_cast<unsigned char*>(out.data()), nullptr);
  return out;
}

}  // namespace cadre::net
