#include "net/tls.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/format.h"

namespace cadre::net {

namespace {

template <class T, void (*Free)(T*)>
struct Deleter {
  void operator()(T* pointer) const { Free(pointer); }
};
void freeBio(BIO* bio) { BIO_free(bio); }
using Bio = std::unique_ptr<BIO, Deleter<BIO, freeBio>>;
using X509Ptr = std::unique_ptr<X509, Deleter<X509, X509_free>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, Deleter<EVP_PKEY, EVP_PKEY_free>>;

Bio bioOf(std::string_view text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

Error sslError(std::string_view doing) {
  char text[256] = "unknown error";
  if (unsigned long code = ERR_get_error()) ERR_error_string_n(code, text, sizeof text);
  ERR_clear_error();
  return Error{.code = Code::InvalidArgument, .message = format("{}: {}", doing, text)};
}

Result<std::vector<X509Ptr>> readCertificates(std::string_view pem, std::string_view what) {
  Bio bio = bioOf(pem);
  std::vector<X509Ptr> certificates;
  while (X509* next = PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr))
    certificates.emplace_back(next);
  // The end of the text is reported as an error too.
  bool ended = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  if (!ended)
    return Error{
        .code = Code::InvalidArgument,
        .message = format("{} has a PEM block that cannot be decoded; copy it anew", what)};
  if (certificates.empty())
    return Error{.code = Code::InvalidArgument,
                 .message = format("{} holds no PEM certificate", what)};
  return certificates;
}

Result<KeyPtr> readKey(std::string_view pem) {
  Bio bio = bioOf(pem);
  // No password is ever asked for: a prompt would hang a server.
  KeyPtr key(PEM_read_bio_PrivateKey(
      bio.get(), nullptr, [](char*, int, int, void*) { return -1; }, nullptr));
  if (!key) return sslError("reading the private key");
  return key;
}

Result<> useIdentity(SSL_CTX* context, std::string_view certificate, std::string_view key_pem) {
  CADRE_LET(auto chain, readCertificates(certificate, "the certificate"));
  CADRE_LET(auto key, readKey(key_pem));
  if (SSL_CTX_use_certificate(context, chain[0].get()) != 1)
    return sslError("using the certificate");
  for (std::size_t i = 1; i < chain.size(); ++i)
    if (SSL_CTX_add1_chain_cert(context, chain[i].get()) != 1)
      return sslError("using the certificate's chain");
  if (SSL_CTX_use_PrivateKey(context, key.get()) != 1)
    return sslError("the private key does not belong to the certificate");
  return {};
}

Result<> trust(SSL_CTX* context, std::string_view ca) {
  CADRE_LET(auto certificates, readCertificates(ca, "the certificate authority"));
  X509_STORE* store = SSL_CTX_get_cert_store(context);
  for (auto& certificate : certificates)
    if (X509_STORE_add_cert(store, certificate.get()) != 1)
      return sslError("using the certificate authority");
  return {};
}

SSL_CTX* newContext(const SSL_METHOD* method) {
  SSL_CTX* context = SSL_CTX_new(method);
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION);
  return context;
}

std::string alpnWire(const std::vector<std::string>& protocols) {
  std::string wire;
  for (const std::string& protocol : protocols) {
    wire += static_cast<char>(protocol.size());
    wire += protocol;
  }
  return wire;
}

int chooseProtocol(SSL*, const unsigned char** out, unsigned char* out_length,
                   const unsigned char* offered, unsigned int offered_length, void* ours) {
  const auto& wire = *static_cast<const std::string*>(ours);
  unsigned char* chosen = nullptr;
  if (SSL_select_next_proto(
          &chosen, out_length, reinterpret_cast<const unsigned char*>(wire.data()),
          static_cast<unsigned>(wire.size()), offered, offered_length) != OPENSSL_NPN_NEGOTIATED)
    return SSL_TLSEXT_ERR_NOACK;
  *out = chosen;
  return SSL_TLSEXT_ERR_OK;
}

bool addExtension(X509* certificate, X509V3_CTX* context, int nid, const std::string& value) {
  std::unique_ptr<X509_EXTENSION, Deleter<X509_EXTENSION, X509_EXTENSION_free>> extension(
      X509V3_EXT_conf_nid(nullptr, context, nid, value.c_str()));
  return extension && X509_add_ext(certificate, extension.get(), -1) == 1;
}

bool isAddress(const std::string& text) {
  unsigned char buffer[16];
  return inet_pton(AF_INET, text.c_str(), buffer) == 1 ||
         inet_pton(AF_INET6, text.c_str(), buffer) == 1;
}

Result<Time> timeOf(const ASN1_TIME* time) {
  std::tm parts{};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return sslError("reading a certificate's times");
  return Time(std::chrono::seconds(timegm(&parts)));
}

std::string addressText(const ASN1_OCTET_STRING* bytes) {
  char text[INET6_ADDRSTRLEN] = "";
  int size = ASN1_STRING_length(bytes);
  inet_ntop(size == 4 ? AF_INET : AF_INET6, ASN1_STRING_get0_data(bytes), text, sizeof text);
  return size == 4 || size == 16 ? text : "";
}

}  // namespace

Result<std::shared_ptr<TlsContext>> TlsContext::client(const TlsClientOptions& options,
                                                       const std::vector<std::string>& protocols) {
  std::shared_ptr<TlsContext> result(new TlsContext);
  SSL_CTX* context = newContext(TLS_client_method());
  result->context_ = context;
  result->server_name_ = options.server_name;
  result->verify_ = options.verify;
  if (!options.certificate.empty())
    CADRE_TRY(useIdentity(context, options.certificate, options.key));
  if (options.verify) {
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
    if (options.ca.empty())
      SSL_CTX_set_default_verify_paths(context);
    else
      CADRE_TRY(trust(context, options.ca));
  }
  result->protocols_ = alpnWire(protocols);
  SSL_CTX_set_alpn_protos(context,
                          reinterpret_cast<const unsigned char*>(result->protocols_.data()),
                          static_cast<unsigned>(result->protocols_.size()));
  return result;
}

Result<std::shared_ptr<TlsContext>> TlsContext::server(const TlsServerOptions& options) {
  std::shared_ptr<TlsContext> result(new TlsContext);
  SSL_CTX* context = newContext(TLS_server_method());
  result->context_ = context;
  CADRE_TRY(useIdentity(context, options.certificate, options.key));
  // Each connection shows who it is: a resumed session would carry a client past a CA that has
  // changed since.
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
  SSL_CTX_set_num_tickets(context, 0);
  SSL_CTX_set_session_id_context(context, reinterpret_cast<const unsigned char*>("cadre"), 5);
  if (!options.client_ca.empty()) {
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
    CADRE_TRY(trust(context, options.client_ca));
  }
  result->protocols_ = alpnWire(options.protocols);
  SSL_CTX_set_alpn_select_cb(context, chooseProtocol, &result->protocols_);
  return result;
}

TlsContext::~TlsContext() { SSL_CTX_free(static_cast<SSL_CTX*>(context_)); }

std::string secureRandom(std::size_t bytes) {
  std::string out(bytes, '\0');
  if (RAND_bytes(reinterpret_cast<unsigned char*>(out.data()), static_cast<int>(bytes)) != 1)
    detail::badResult("the system gives no random bytes", nullptr);
  return out;
}

std::string sha256(std::string_view bytes) {
  std::string out(32, '\0');
  unsigned length = 0;
  EVP_Digest(bytes.data(), bytes.size(), reinterpret_cast<unsigned char*>(out.data()), &length,
             EVP_sha256(), nullptr);
  return out;
}

std::string hmacSha256(std::string_view key, std::string_view bytes) {
  std::string out(32, '\0');
  unsigned length = 0;
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
       reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
       reinterpret_cast<unsigned char*>(out.data()), &length);
  return out;
}

Result<CertificateAndKey> makeCertificate(const CertificateRequest& request,
                                          const CertificateAndKey* issuer) {
  KeyPtr key(EVP_EC_gen("P-256"));
  X509Ptr certificate(X509_new());
  if (!key || !certificate) return sslError("making a key");

  X509Ptr issuer_certificate;
  KeyPtr issuer_key;
  if (issuer) {
    CADRE_LET(auto chain, readCertificates(issuer->certificate, "the issuer"));
    issuer_certificate = std::move(chain[0]);
    CADRE_LET(issuer_key, readKey(issuer->key));
  }

  X509_set_version(certificate.get(), X509_VERSION_3);
  std::string serial = secureRandom(16);
  serial[0] = static_cast<char>(serial[0] & 0x7f);  // positive
  std::unique_ptr<BIGNUM, Deleter<BIGNUM, BN_free>> number(
      BN_bin2bn(reinterpret_cast<unsigned char*>(serial.data()), 16, nullptr));
  BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate.get()));
  Time now = request.now.value_or(SystemClock().now());
  auto setTime = [](ASN1_TIME* field, Time time) {
    return ASN1_TIME_set(field, std::chrono::system_clock::to_time_t(
                                    std::chrono::floor<std::chrono::seconds>(time))) != nullptr;
  };
  if (!setTime(X509_getm_notBefore(certificate.get()), now + kCertificateBegins) ||
      !setTime(X509_getm_notAfter(certificate.get()), now + request.days * 24h))
    return sslError("setting the certificate's times");
  X509_NAME* subject = X509_get_subject_name(certificate.get());
  auto add = [&](const char* field, const std::string& value) {
    if (!value.empty())
      X509_NAME_add_entry_by_txt(subject, field, MBSTRING_UTF8,
                                 reinterpret_cast<const unsigned char*>(value.data()),
                                 static_cast<int>(value.size()), -1, 0);
  };
  add("O", request.organization);
  add("CN", request.common_name);
  X509_set_issuer_name(certificate.get(), issuer_certificate
                                              ? X509_get_subject_name(issuer_certificate.get())
                                              : subject);
  X509_set_pubkey(certificate.get(), key.get());

  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer_certificate ? issuer_certificate.get() : certificate.get(),
                 certificate.get(), nullptr, nullptr, 0);
  bool ok = addExtension(certificate.get(), &context, NID_basic_constraints,
                         request.authority ? "critical,CA:TRUE" : "critical,CA:FALSE") &&
            addExtension(certificate.get(), &context, NID_key_usage,
                         request.authority ? "critical,keyCertSign,cRLSign,digitalSignature"
                                           : "critical,digitalSignature") &&
            addExtension(certificate.get(), &context, NID_subject_key_identifier, "hash");
  if (!request.authority)
    ok =
        ok && addExtension(certificate.get(), &context, NID_ext_key_usage, "serverAuth,clientAuth");
  if (issuer_certificate)
    ok = ok && addExtension(certificate.get(), &context, NID_authority_key_identifier, "keyid");
  std::string names;
  for (const std::string& name : request.names) {
    if (name.find_first_of(",:\n") != std::string::npos && !isAddress(name))
      return Error{.code = Code::InvalidArgument,
                   .message = format("\"{}\" is no name for a certificate", name)};
    names += format("{}{}:{}", names.empty() ? "" : ",", isAddress(name) ? "IP" : "DNS", name);
  }
  if (!names.empty())
    ok = ok && addExtension(certificate.get(), &context, NID_subject_alt_name, names);
  if (!ok ||
      X509_sign(certificate.get(), issuer_key ? issuer_key.get() : key.get(), EVP_sha256()) == 0)
    return sslError("signing the certificate");

  auto text = [](auto write) {
    Bio bio(BIO_new(BIO_s_mem()));
    write(bio.get());
    char* data = nullptr;
    long size = BIO_get_mem_data(bio.get(), &data);
    return std::string(data, static_cast<std::size_t>(size));
  };
  return CertificateAndKey{
      .certificate = text([&](BIO* bio) { PEM_write_bio_X509(bio, certificate.get()); }),
      .key = text([&](BIO* bio) {
        PEM_write_bio_PrivateKey(bio, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
      })};
}

Result<CertificateFacts> readCertificate(std::string_view pem) {
  CADRE_LET(auto chain, readCertificates(pem, "the text"));
  CertificateFacts facts;
  CADRE_LET(facts.not_before, timeOf(X509_get0_notBefore(chain[0].get())));
  CADRE_LET(facts.not_after, timeOf(X509_get0_notAfter(chain[0].get())));
  std::unique_ptr<GENERAL_NAMES, Deleter<GENERAL_NAMES, GENERAL_NAMES_free>> names(
      static_cast<GENERAL_NAMES*>(
          X509_get_ext_d2i(chain[0].get(), NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; names && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type == GEN_DNS)
      facts.names.emplace_back(
          reinterpret_cast<const char*>(ASN1_STRING_get0_data(name->d.dNSName)),
          static_cast<std::size_t>(ASN1_STRING_length(name->d.dNSName)));
    if (name->type == GEN_IPADD) facts.names.push_back(addressText(name->d.iPAddress));
  }
  return facts;
}

bool isSignedBy(std::string_view certificate, std::string_view authority) {
  auto signed_one = readCertificates(certificate, "the certificate");
  auto issuer = readCertificates(authority, "the certificate authority");
  bool is = signed_one && issuer &&
            X509_verify((*signed_one)[0].get(), X509_get0_pubkey((*issuer)[0].get())) == 1;
  ERR_clear_error();
  return is;
}

}  // namespace cadre::net
