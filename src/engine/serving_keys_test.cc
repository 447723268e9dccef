#include "engine/serving_keys.h"

#include "base/format.h"
#include "base/strings.h"
#include "json/parse.h"
#include "json/patch.h"
#include "json/write.h"
#include "kube/testing/fake_transport.h"

namespace cadre::engine {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr Duration kDay = 24h;
const std::vector<std::string> kNames{"cadre.ns.svc", "127.0.0.1"};
const Time kStart = FakeClock().now();

ServingKeys made(Time now = kStart) { return *takeStep({}, KeyStep::MakeAll, kNames, now); }

bool isTrusted(const std::string& serving, const ServingKeys& by) {
  return net::isSignedBy(serving, by.authority.certificate) ||
         (by.next && net::isSignedBy(serving, by.next->certificate)) ||
         (!by.old.empty() && net::isSignedBy(serving, by.old));
}

// The keys after these steps, each on its day.
struct Taken {
  KeyStep step;
  int day;
};
ServingKeys after(const std::vector<Taken>& steps) {
  ServingKeys keys = made();
  for (const Taken& one : steps) keys = *takeStep(keys, one.step, kNames, kStart + one.day * kDay);
  return keys;
}

TEST(ServingKeys, WhichStepIsNextAndWhen) {
  struct Case {
    std::string_view what;
    std::vector<Taken> steps;
    int today;
    KeyStep next;
    int day;
  };
  const int authority_day = kAuthorityDays - kAuthorityDays / 3 - 1;  // when a third is left
  for (const Case& c :
       std::vector<Case>{{"new", {}, 0, KeyStep::RenewServing, 60},
                         {"a third is left", {}, 70, KeyStep::RenewServing, 60},
                         {"it has expired", {}, 95, KeyStep::RenewServing, 95},
                         {"renewed", {{KeyStep::RenewServing, 60}}, 60, KeyStep::RenewServing, 120},
                         {"the authority has a third left",
                          {{KeyStep::RenewServing, 240}},
                          240,
                          KeyStep::AddAuthority,
                          authority_day},
                         {"the next one is known",
                          {{KeyStep::AddAuthority, 20}},
                          20,
                          KeyStep::SwitchAuthority,
                          21},
                         {"it signs",
                          {{KeyStep::AddAuthority, 20}, {KeyStep::SwitchAuthority, 21}},
                          21,
                          KeyStep::DropAuthority,
                          22},
                         {"the old one is gone",
                          {{KeyStep::AddAuthority, 20},
                           {KeyStep::SwitchAuthority, 21},
                           {KeyStep::DropAuthority, 22}},
                          22,
                          KeyStep::RenewServing,
                          81},
                         {"what is served cannot wait for its authority",
                          {{KeyStep::AddAuthority, 60}},
                          60,
                          KeyStep::RenewServing,
                          60},
                         {"nobody was there for a year", {}, 400, KeyStep::MakeAll, 400}}) {
    NextStep next = nextStep(after(c.steps), kNames, kDay, kStart + c.today * kDay);
    EXPECT_EQ(next.step, c.next) << c.what;
    EXPECT_EQ(std::chrono::floor<std::chrono::days>(next.at - kStart).count(), c.day) << c.what;
  }
  EXPECT_EQ(nextStep(made(), {"another.ns.svc"}, kDay, kStart).step, KeyStep::RenewServing);
  EXPECT_EQ(nextStep(made(), {"another.ns.svc"}, kDay, kStart).at, kStart);
  EXPECT_EQ(nextStep({}, kNames, kDay, kStart).step, KeyStep::MakeAll);
  std::vector<std::string> long_form{"cadre.ns.svc", "0:0:0:0:0:0:0:1"};
  EXPECT_GT(
      nextStep(*takeStep({}, KeyStep::MakeAll, long_form, kStart), long_form, kDay, kStart).at,
      kStart);
}

TEST(ServingKeys, OverYearsWhatIsServedIsTrustedAlsoByThoseWhoLagBehind) {
  Time now = kStart;
  ServingKeys keys = made();
  int switches = 0;
  while (now < kStart + 800 * kDay) {
    NextStep next = nextStep(keys, kNames, kDay, now);
    now = std::max(now, next.at);
    ASSERT_NE(next.step, KeyStep::MakeAll);
    switches += next.step == KeyStep::SwitchAuthority;
    auto serving = net::readCertificate(keys.serving.certificate);
    ASSERT_GT(serving->not_after, now + 29 * kDay) << "well before its end";
    ASSERT_GE(net::readCertificate(keys.authority.certificate)->not_after, serving->not_after)
        << "what it signs does not outlive it";
    ServingKeys then = *takeStep(keys, next.step, kNames, now);
    // One has taken the step, another has not: in both directions.
    EXPECT_TRUE(isTrusted(keys.serving.certificate, then));
    EXPECT_TRUE(isTrusted(then.serving.certificate, keys));
    keys = std::move(then);
  }
  EXPECT_EQ(switches, 3);
}

TEST(ServingKeys, ASecretHoldsThem) {
  ServingKeys keys = made();
  keys = *takeStep(keys, KeyStep::AddAuthority, kNames, kStart);
  auto read = ServingKeys::read(json::Object{{"data", keys.data()}});
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(json::Value(read->data()), json::Value(keys.data()));
  EXPECT_EQ(read->trusted(), keys.authority.certificate + keys.next->certificate);
  keys = *takeStep(*read, KeyStep::SwitchAuthority, kNames, kStart);
  read = ServingKeys::read(json::Object{{"data", keys.data()}});
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_FALSE(read->next);
  EXPECT_EQ(read->trusted(), keys.authority.certificate + keys.old);
}

TEST(ServingKeys, WhatDoesNotFitIsRefused) {
  for (const char* key : {"ca.crt", "ca.key", "tls.crt", "tls.key", "ca-next.key", "ca-old.crt"}) {
    json::Value secret =
        json::Object{{"data", takeStep(made(), KeyStep::AddAuthority, kNames, kStart)->data()}};
    secret.make("data").make(key) = base64Encode("nonsense");
    auto read = ServingKeys::read(secret);
    EXPECT_FALSE(read) << key;
  }
  ServingKeys mixed = made();
  mixed.serving = made().serving;
  auto read = ServingKeys::read(json::Object{{"data", mixed.data()}});
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().text(), HasSubstr("ca.crt did not sign tls.crt"));
  EXPECT_FALSE(ServingKeys::read(json::Value()));
}

// ---- The keeper, against an API server with one Secret and one configuration

struct Kept : kube::FakeApi {
  Random random{1};
  json::Value secret, configuration;
  int version = 10;
  std::size_t seen = 0;
  std::vector<std::string> said;
  std::vector<std::string> served;
  std::unique_ptr<KeyKeeper> keeper;
  bool refuses = false;

  Kept() {
    configuration = *json::parse(
        R"({"metadata":{"name":"cadre","resourceVersion":"5"},
            "webhooks":[{"clientConfig":{}},{"clientConfig":{"caBundle":"b2xk"}}]})");
  }
  void start() {
    begin();
    settle();
  }
  void begin() {
    keeper = std::make_unique<KeyKeeper>(
        *client, random,
        KeyKeeperOptions{.secret = {"ns", "keys"}, .configuration = "cadre", .names = kNames},
        [this](const net::CertificateAndKey& pair) { served.push_back(pair.certificate); });
    scheduler.runReady();
    for (bool of_secret : {true, false}) {
      watch(of_secret).head(200);
      const json::Value& object = of_secret ? secret : configuration;
      if (!object.isNull()) tell(of_secret, "ADDED", object);
      tell(of_secret, "BOOKMARK", *json::parse(R"({"metadata":{"resourceVersion":"9",
        "annotations":{"k8s.io/initial-events-end":"true"}}})"));
    }
  }
  kube::FakeTransport::Sent& watch(bool of_secret) {
    for (auto& sent : watches->sent)
      if (!sent->dropped &&
          (sent->request.target.find("/secrets?") != std::string::npos) == of_secret)
        return *sent;
    ADD_FAILURE();
    return *watches->sent.at(0);
  }
  void tell(bool of_secret, std::string_view type, const json::Value& object) {
    watch(of_secret).data(json::write(json::Object{{"type", type}, {"object", object}}) + "\n");
  }
  void put(bool of_secret, json::Value object) {
    object.make("metadata").make("resourceVersion") = format("{}", ++version);
    json::Value& held = of_secret ? secret : configuration;
    std::string_view type = held.isNull() ? "ADDED" : "MODIFIED";
    held = std::move(object);
    tell(of_secret, type, held);
  }
  void serve(kube::FakeTransport::Sent& sent) {
    if (sent.dropped) return;
    bool of_secret = sent.request.target.find("/secrets") != std::string::npos;
    json::Value body = *json::parse(sent.request.body);
    said.push_back(format("{} {}", sent.request.method, of_secret ? "secret" : "configuration"));
    auto refuse = [&](int code, std::string_view reason) {
      sent.answer(
          code,
          format(R"({{"kind":"Status","apiVersion":"v1","reason":"{}","code":{},"message":"no"}})",
                 reason, code));
    };
    if (refuses) return refuse(403, "Forbidden");
    if (sent.request.method == "POST" && !secret.isNull()) return refuse(409, "AlreadyExists");
    if (sent.request.method == "PUT" &&
        kube::resourceVersion(body) != kube::resourceVersion(secret))
      return refuse(409, "Conflict");
    if (sent.request.method == "PATCH") {
      auto patched = json::applyJsonPatch(configuration, body);
      if (!patched) return refuse(422, "Invalid");
      body = *std::move(patched);
    }
    put(of_secret, body);
    sent.answer(200, json::write(of_secret ? secret : configuration));
  }
  void settle() {
    do {
      scheduler.runReady();
      for (; seen < requests->sent.size(); ++seen) serve(*requests->sent[seen]);
      scheduler.runReady();
    } while (seen < requests->sent.size());
  }
  void advance(Duration by) {
    scheduler.advance(by);
    settle();
  }
  ServingKeys keys() { return *ServingKeys::read(secret); }
  bool bundleIsCurrent() {
    for (const json::Value& webhook : configuration["webhooks"].array())
      if (base64Decode(webhook["clientConfig"]["caBundle"].string()) != keys().trusted())
        return false;
    return true;
  }
};

TEST(KeyKeeper, MakesKeysWhereThereAreNone) {
  Kept k;
  k.start();
  EXPECT_THAT(k.said, ElementsAre("POST secret", "PATCH configuration"));
  EXPECT_THAT(k.served, ElementsAre(k.keys().serving.certificate));
  EXPECT_TRUE(k.bundleIsCurrent());
  EXPECT_EQ(k.keeper->trouble(), "");
  k.said.clear();
  k.advance(10 * kDay);
  EXPECT_THAT(k.said, IsEmpty());
}

TEST(KeyKeeper, ReadsTheKeysThatAreThere) {
  Kept k;
  k.secret = json::Object{{"metadata", json::Object{{"name", "keys"}, {"resourceVersion", "7"}}},
                          {"data", made().data()}};
  k.start();
  EXPECT_THAT(k.said, ElementsAre("PATCH configuration"));
  EXPECT_THAT(k.served, ElementsAre(k.keys().serving.certificate));
}

TEST(KeyKeeper, WhoeverComesFirstMakesThem) {
  Kept k;
  k.begin();
  k.scheduler.runReady();  // there was none, so it makes its own
  k.secret = json::Object{{"metadata", json::Object{{"name", "keys"}, {"resourceVersion", "11"}}},
                          {"data", made().data()}};
  k.settle();
  EXPECT_THAT(k.said, ElementsAre("POST secret"));
  EXPECT_THAT(k.served, IsEmpty());
  k.tell(true, "ADDED", k.secret);
  k.settle();
  EXPECT_THAT(k.said, ElementsAre("POST secret", "PATCH configuration"));
  EXPECT_THAT(k.served, ElementsAre(k.keys().serving.certificate));
  EXPECT_TRUE(k.bundleIsCurrent());
}

TEST(KeyKeeper, TheOthersKeysMayBeSeenBeforeOursAreRefused) {
  Kept k;
  k.begin();
  k.scheduler.runReady();
  k.secret = json::Object{{"metadata", json::Object{{"name", "keys"}, {"resourceVersion", "11"}}},
                          {"data", made().data()}};
  k.tell(true, "ADDED", k.secret);
  k.settle();
  EXPECT_THAT(k.said, ElementsAre("POST secret", "PATCH configuration"));
  EXPECT_THAT(k.served, ElementsAre(k.keys().serving.certificate));
  EXPECT_EQ(k.keeper->trouble(), "");
}

TEST(KeyKeeper, RotatesOverYears) {
  Kept k;
  k.start();
  for (int day = 0, version = 0; day < 800; ++day) {
    k.advance(kDay);
    if (std::exchange(version, k.version) == k.version) continue;  // nothing was written
    ASSERT_EQ(k.served.back(), k.keys().serving.certificate) << day;
    ASSERT_TRUE(k.bundleIsCurrent()) << day;
    ASSERT_EQ(k.keeper->trouble(), "");
  }
  EXPECT_GT(k.served.size(), 10u);
}

TEST(KeyKeeper, ASecretThatIsDeletedComesBackAsItWas) {
  Kept k;
  k.start();
  json::Value before = k.secret["data"];
  k.said.clear();
  json::Value gone = std::exchange(k.secret, {});
  k.tell(true, "DELETED", gone);
  k.settle();
  EXPECT_THAT(k.said, ElementsAre("POST secret"));
  EXPECT_EQ(k.secret["data"], before);
  EXPECT_EQ(k.served.size(), 1u);
}

TEST(KeyKeeper, NonsenseInTheSecretIsReplaced) {
  Kept k;
  k.start();
  json::Value broken = k.secret;
  broken.make("data").make("tls.key") = "bm9uc2Vuc2U=";
  k.put(true, broken);
  k.settle();
  EXPECT_EQ(k.served.size(), 2u);
  EXPECT_EQ(k.served.back(), k.keys().serving.certificate);
  EXPECT_TRUE(k.bundleIsCurrent());
}

TEST(KeyKeeper, ABundleThatSomebodyChangesIsRepaired) {
  Kept k;
  k.start();
  json::Value changed = k.configuration;
  changed.make("webhooks").makeArray()[0].make("clientConfig").makeObject().erase("caBundle");
  k.put(false, changed);
  k.settle();
  EXPECT_TRUE(k.bundleIsCurrent());
}

TEST(KeyKeeper, SaysWhatIsInTheWayAndTriesAgain) {
  Kept k;
  k.refuses = true;
  k.start();
  EXPECT_THAT(k.keeper->trouble(), HasSubstr("the Secret ns/keys is not there yet: writing the "
                                             "Secret: no"));
  k.refuses = false;
  k.advance(5s);
  EXPECT_EQ(k.keeper->trouble(), "");
  EXPECT_EQ(k.served.size(), 1u);
}

}  // namespace
}  // namespace cadre::engine
