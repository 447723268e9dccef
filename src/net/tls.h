#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cadre::net {

// What a TLS client trusts and shows. Everything is PEM text; key material is held only as long as
// this is.
struct TlsClientOptions {
  std::string ca;           // empty: the system's own
  std::string certificate;  // with its chain; empty: none is shown
  std::string key;
  std::string server_name;  // empty: the host that is dialled
  bool verify = true;
};

struct TlsServerOptions {
  std::string certificate;  // with its chain
  std::string key;
  // When set, clients are asked for a certificate; one that is shown must be signed by this CA.
  std::string client_ca;
  std::vector<std::string> protocols = {"http/1.1"};  // by ALPN, the best first
};

// A ready-made OpenSSL context; connections that began with one keep it alive.
class TlsContext {
 public:
  static Result<std::shared_ptr<TlsContext>> client(const TlsClientOptions& options,
                                                    const std::vector<std::string>& protocols);
  static Result<std::shared_ptr<TlsContext>> server(const TlsServerOptions& options);
  ~TlsContext();

  const std::string& serverName() const { return server_name_; }
  bool verify() const { return verify_; }
  void* native() const { return context_; }  // SSL_CTX*, for this module

 private:
  TlsContext() = default;
  void* context_ = nullptr;
  std::string server_name_;
  std::string protocols_;  // in ALPN's wire form
  bool verify_ = true;
};

// Random bytes fit for keys and tokens.
std::string secureRandom(std::size_t bytes);
std::string sha256(std::string_view bytes);
std::string hmacSha256(std::string_view key, std::string_view bytes);

// A certificate and key of its own making: an issuing CA, or one signed by `issuer`.
struct CertificateRequest {
  std::string common_name;
  std::string organization = {};
  std::vector<std::string> names = {};  // DNS names and addresses
  bool authority = false;               // a CA, which may sign others
  int days = 365;
  std::optional<Time> now = std::nullopt;  // when it is made; else the system's clock says it
};
struct CertificateAndKey {
  std::string certificate;
  std::string key;
};
// A certificate is valid from a little before it is made, for peers whose clock is behind.
inline constexpr Duration kCertificateBegins = -1h;
Result<CertificateAndKey> makeCertificate(const CertificateRequest& request,
                                          const CertificateAndKey* issuer = nullptr);

// What the first certificate of a PEM text says.
struct CertificateFacts {
  Time not_before, not_after;
  std::vector<std::string> names;  // DNS names and addresses
};
Result<CertificateFacts> readCertificate(std::string_view pem);
// Whether the authority's key signed the certificate, by the first certificates of both texts. Its
// times are not looked at.
bool isSignedBy(std::string_view certificate, std::string_view authority);

}  // namespace cadre::net
