// What our TLS contexts agree to, with OpenSSL itself on the other side, in memory; and
// certificates of our own making.
#include "net/tls.h"

#include <openssl/ssl.h>

#include "net/testing/wire_server.h"

namespace cadre::net {
namespace {

using testing::ElementsAre;

struct SslDeleter {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  void operator()(SSL_SESSION* session) const { SSL_SESSION_free(session); }
};
using SslPtr = std::unique_ptr<SSL, SslDeleter>;

SSL_CTX* native(const TlsContext& context) { return static_cast<SSL_CTX*>(context.native()); }

TEST(Tls, NothingOlderThan12IsSpoken) {
  CertificateAndKey identity = testCertificate("x", {});
  auto server = *TlsContext::server({.certificate = identity.certificate, .key = identity.key});
  auto client = *TlsContext::client({.verify = false}, {"h2"});
  EXPECT_EQ(SSL_CTX_get_min_proto_version(native(*server)), TLS1_2_VERSION);
  EXPECT_EQ(SSL_CTX_get_min_proto_version(native(*client)), TLS1_2_VERSION);
}

// Each connection shows its certificate: what a client was once let in with opens nothing later.
TEST(Tls, NoSessionIsResumed) {
  CertificateAndKey identity = testCertificate("server", {}), me = testCertificate("me", {});
  auto server = *TlsContext::server({.certificate = identity.certificate,
                                     .key = identity.key,
                                     .client_ca = testCa().certificate});
  for (int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    auto ours = *TlsContext::client({.certificate = me.certificate, .key = me.key, .verify = false},
                                    {"http/1.1"});
    SSL_CTX* client = native(*ours);
    SSL_CTX_set_min_proto_version(client, version);
    SSL_CTX_set_max_proto_version(client, version);
    SSL_CTX_set_session_cache_mode(client, SSL_SESS_CACHE_CLIENT);
    std::unique_ptr<SSL_SESSION, SslDeleter> session;
    for (int round = 0; round < 2; ++round) {
      SslPtr there(SSL_new(native(*server))), here(SSL_new(client));
      BIO *near = nullptr, *far = nullptr;
      BIO_new_bio_pair(&near, 0, &far, 0);
      SSL_set_bio(here.get(), near, near);
      SSL_set_bio(there.get(), far, far);
      SSL_set_accept_state(there.get());
      SSL_set_connect_state(here.get());
      if (session) SSL_set_session(here.get(), session.get());
      for (int step = 0; step < 20; ++step) {
        SSL_do_handshake(here.get());
        SSL_do_handshake(there.get());
      }
      ASSERT_TRUE(SSL_is_init_finished(here.get()) && SSL_is_init_finished(there.get()));
      EXPECT_FALSE(SSL_session_reused(there.get())) << SSL_get_version(there.get());
      char byte;
      SSL_read(here.get(), &byte, 1);  // takes the tickets that came, if any
      session.reset(SSL_get1_session(here.get()));
      SSL_shutdown(here.get());  // a session that ends without a goodbye is forgotten anyway
      SSL_shutdown(there.get());
    }
  }
}

TEST(Certificate, SaysWhatItWasMadeWith) {
  FakeClock clock;
  auto authority = makeCertificate({.common_name = "ca", .authority = true, .now = clock.now()});
  ASSERT_TRUE(authority) << authority.error().text();
  auto other = makeCertificate({.common_name = "ca", .authority = true, .now = clock.now()});
  auto made = makeCertificate({.common_name = "web",
                               .names = {"web.shop.svc", "127.0.0.1", "::1"},
                               .days = 90,
                               .now = clock.now() + 500ms},
                              &*authority);
  ASSERT_TRUE(made) << made.error().text();
  auto facts = readCertificate(made->certificate);
  ASSERT_TRUE(facts) << facts.error().text();
  EXPECT_EQ(facts->not_before, clock.now() - 1h);
  EXPECT_EQ(facts->not_after, clock.now() + 90 * 24h);
  EXPECT_THAT(facts->names, ElementsAre("web.shop.svc", "127.0.0.1", "::1"));
  EXPECT_TRUE(readCertificate(authority->certificate)->names.empty());

  EXPECT_TRUE(isSignedBy(made->certificate, authority->certificate));
  EXPECT_TRUE(isSignedBy(authority->certificate, authority->certificate));
  EXPECT_FALSE(isSignedBy(made->certificate, other->certificate)) << "the name alone is not enough";
  EXPECT_FALSE(isSignedBy(made->certificate, "nonsense"));
  EXPECT_FALSE(isSignedBy("", authority->certificate));
}

TEST(Certificate, ABlockThatCannotBeDecodedIsToldFromNone) {
  auto made = makeCertificate({.common_name = "web"});
  ASSERT_TRUE(made);
  std::string text = "a comment\n" + made->certificate + "another\n";
  EXPECT_TRUE(readCertificate(text));
  text.insert(text.find("MII"), "!");
  EXPECT_THAT(readCertificate(text).error().text(),
              testing::HasSubstr("has a PEM block that cannot be decoded"));
  EXPECT_THAT(readCertificate("nonsense").error().text(), testing::HasSubstr("holds no PEM"));
}

TEST(Certificate, NonsenseIsNone) {
  for (std::string_view text :
       {"", "nonsense", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"})
    EXPECT_FALSE(readCertificate(text)) << text;
}

}  // namespace
}  // namespace cadre::net
