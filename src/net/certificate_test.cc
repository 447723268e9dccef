#include "net/tls.h"

namespace cadre::net {
namespace {

using testing::ElementsAre;

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

TEST(Certificate, NonsenseIsNone) {
  for (std::string_view text :
       {"", "nonsense", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"})
    EXPECT_FALSE(readCertificate(text)) << text;
}

}  // namespace
}  // namespace cadre::net
