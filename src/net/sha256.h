#pragma once

#include <string>
#include <string_view>

namespace cadre::net {

// A SHA-256 of what comes in pieces. Not thread-safe.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void add(std::string_view piece);
  std::string finish();  // 32 bytes; once, and nothing after it

 private:
  void* context_;  // EVP_MD_CTX*
};

}  // namespace cadre::net
