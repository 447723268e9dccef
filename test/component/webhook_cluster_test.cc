// The webhook server under a real kube-apiserver, which calls it on loopback.
#include <gmock/gmock.h>

#include "base/strings.h"
#include "component/cluster_fixture.h"
#include "engine/webhook.h"
#include "net/http_client.h"

namespace cadre::engine {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const kube::Resource kLamps{
    .group = "webhook.cadre.dev", .version = "v1", .plural = "lamps", .kind = "Lamp"};
const kube::Resource kSecrets{.version = "v1", .plural = "secrets", .kind = "Secret"};
class WebhookClusterTest : public ClusterTest {
 protected:
  void SetUp() override {
    ClusterTest::SetUp();
    name = format("cadre-{}", ns);
    auto made = run([&](auto done) {
      return client->create(kCrds, parsed(R"({"metadata":{"name":"lamps.webhook.cadre.dev"},"spec":
        {"group":"webhook.cadre.dev","scope":"Namespaced","names":{"plural":"lamps","kind":"Lamp"},
        "versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":
        {"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}})"),
                            {}, std::move(done));
    });
    if (!made) {
      ASSERT_EQ(made.error().code, Code::AlreadyExists) << made.error().text();
    }
    ASSERT_TRUE(eventually([&] {
      return run([&](auto done) {
               return client->get(kLamps, {"default", "none"}, std::move(done));
             })
                 .error()
                 .message.find("not found") != std::string::npos;
    }));
  }
  void TearDown() override {
    (void)run([&](auto done) { return client->remove(kWebhooks, {"", name}, {}, done); });
  }

  std::unique_ptr<WebhookServer> open(Duration spread = 24h) {
    std::vector<Validator> validators;
    validators.push_back({kLamps, [](Operation, const json::Value& object, const json::Value&) {
                            Verdict verdict;
                            if (object["spec"]["bulbs"].integer() < 1)
                              verdict.causes.push_back(
                                  {"spec.bulbs", "FieldValueInvalid", "must be at least 1"});
                            return verdict;
                          }});
    auto opened = WebhookServer::open(loop, *client, random,
                                      {.address = "127.0.0.1:0",
                                       .validators = std::move(validators),
                                       .keys = {.secret = {ns, "keys"},
                                                .configuration = name,
                                                .names = {"127.0.0.1"},
                                                .spread = spread}});
    EXPECT_TRUE(opened) << opened.error().text();
    return opened ? *std::move(opened) : nullptr;
  }
  void install(const WebhookServer& server) {
    create(kWebhooks, webhookFor(name, kLamps, server.port(), ns));
  }
  Result<json::Value> makeLamp(int bulbs, bool dry_run = false) {
    json::Value lamp =
        json::Object{{"apiVersion", "webhook.cadre.dev/v1"},
                     {"kind", "Lamp"},
                     {"metadata", json::Object{{"generateName", "lamp-"}, {"namespace", ns}}},
                     {"spec", json::Object{{"bulbs", bulbs}}}};
    return run([&](auto done) {
      return client->create(kLamps, lamp, {.dry_run = dry_run}, std::move(done));
    });
  }
  bool isRefused(int bulbs) {
    auto made = makeLamp(bulbs, /*dry_run=*/true);
    return !made && made.error().code == Code::InvalidArgument;
  }
  ServingKeys keys() {
    return *ServingKeys::read(
        must([&](auto done) { return client->get(kSecrets, {ns, "keys"}, std::move(done)); }));
  }
  std::string bundle() {
    json::Value configuration =
        must([&](auto done) { return client->get(kWebhooks, {"", name}, std::move(done)); });
    return *base64Decode(configuration["webhooks"].at(0)["clientConfig"]["caBundle"].string());
  }
  void pause(Duration time) {
    bool passed = false;
    Pending timer = loop.after(time, [&] { passed = true; });
    loop.runUntil([&] { return passed; }, kSoon);
  }
  std::string name;
};

TEST_F(WebhookClusterTest, ADeniedObjectIsRefusedWithTheFieldsPath) {
  auto server = open();
  ASSERT_TRUE(server);
  EXPECT_THAT(server->trouble(), HasSubstr("is not there yet"));
  install(*server);
  ASSERT_TRUE(eventually([&] { return isRefused(0); }));
  EXPECT_EQ(server->trouble(), "");
  auto refused = makeLamp(0);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().reason, "Invalid");
  EXPECT_THAT(refused.error().text(),
              AllOf(HasSubstr("lamps.webhook.cadre.dev"), HasSubstr("denied the request"),
                    HasSubstr("spec.bulbs: must be at least 1")));
  ASSERT_EQ(refused.error().details.size(), 1u);
  EXPECT_EQ(refused.error().details[0],
            (Detail{"spec.bulbs", "FieldValueInvalid", "must be at least 1"}));
  auto made = makeLamp(1);
  ASSERT_TRUE(made) << made.error().text();
  auto changed = run([&](auto done) {
    return client->patch(kLamps, kube::ObjectKey::of(*made), kube::PatchType::Merge,
                         parsed(R"({"spec":{"bulbs":0}})"), {}, std::move(done));
  });
  EXPECT_FALSE(changed);
}

TEST_F(WebhookClusterTest, SeveralServersShareOneSetOfKeys) {
  auto one = open();
  auto two = open();
  install(*one);
  ASSERT_TRUE(eventually([&] { return one->trouble().empty() && two->trouble().empty(); }));
  std::string trusted = keys().trusted();
  for (const WebhookServer* server : {one.get(), two.get()}) {
    auto http = *net::makeHttpClient(
        loop, {.url = *net::Url::parse(format("https://127.0.0.1:{}", server->port())),
               .tls = {.ca = trusted}});
    auto answer = net::await<net::HttpResponse>(loop, [&](auto done) {
      return net::fetch(*http, {.target = "/validate"}, 1 << 20, std::move(done));
    });
    EXPECT_TRUE(answer) << answer.error().text();
  }
}

TEST_F(WebhookClusterTest, KeysChangeWithoutAFailedAdmission) {
  // In five seconds a third of the authority's life is left; then a step every four seconds.
  Time now = loop.clock().now();
  ServingKeys first =
      *takeStep({}, KeyStep::MakeAll, {"127.0.0.1"}, now + 5s - kAuthorityDays * 24h * 2 / 3);
  first = *takeStep(first, KeyStep::RenewServing, {"127.0.0.1"}, now - 24h);
  create(kSecrets, json::Object{{"metadata", json::Object{{"name", "keys"}, {"namespace", ns}}},
                                {"data", first.data()}});
  auto server = open(/*spread=*/4s);
  install(*server);
  ASSERT_TRUE(eventually([&] { return isRefused(0); }));

  int admissions = 0, handshakes = 0;
  std::set<std::string> bundles;
  bool changed = false;
  Instant begin = loop.clock().instant();
  while (!changed && loop.clock().instant() - begin < 60s) {
    auto good = makeLamp(1, /*dry_run=*/true);
    ASSERT_TRUE(good) << good.error().text();
    ASSERT_TRUE(isRefused(0));
    admissions += 2;
    // The API server keeps its connection: who connects now, and trusts what the configuration
    // says, must be answered as well.
    bundles.insert(bundle());
    auto http = *net::makeHttpClient(
        loop, {.url = *net::Url::parse(format("https://127.0.0.1:{}", server->port())),
               .tls = {.ca = bundle()}});
    auto answer = net::await<net::HttpResponse>(loop, [&](auto done) {
      return net::fetch(*http, {.target = "/validate"}, 1 << 20, std::move(done));
    });
    ASSERT_TRUE(answer) << answer.error().text();
    ++handshakes;
    ServingKeys present = keys();
    changed = present.authority.certificate != first.authority.certificate && !present.next &&
              present.old.empty() && bundle() == present.authority.certificate;
    pause(20ms);
  }
  EXPECT_TRUE(changed);
  EXPECT_GE(bundles.size(), 3u) << "with the next, with the old, alone";
  RecordProperty("admissions", admissions);  // how many depends on the machine
  RecordProperty("handshakes", handshakes);
}

}  // namespace
}  // namespace cadre::engine
