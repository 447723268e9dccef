#include "engine/webhook.h"

#include <filesystem>
#include <fstream>

#include <unistd.h>

#include "base/format.h"
#include "json/parse.h"
#include "json/patch.h"
#include "json/write.h"
#include "kube/testing/fake_transport.h"
#include "net/http_client.h"

namespace cadre::engine {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const kube::Resource kLamps{
    .group = "test.cadre.dev", .version = "v1", .plural = "lamps", .kind = "Lamp"};

json::Value parsed(std::string_view text) { return *json::parse(text); }

// Lamps need bulbs, may not lose them, and those that are lit are not deleted.
std::vector<Validator> lampValidators() {
  std::vector<Validator> validators;
  validators.push_back(
      {kLamps, [](Operation operation, const json::Value& object, const json::Value& old_object) {
         Verdict verdict;
         std::int64_t bulbs = object["spec"]["bulbs"].integer();
         if (operation == Operation::Delete) {
           if (old_object["spec"]["lit"].boolean())
             verdict.causes.push_back({"", "Lit", "it is lit"});
           return verdict;
         }
         if (bulbs < 1)
           verdict.causes.push_back(
               {"spec.bulbs", "FieldValueInvalid", "Invalid value: 0: must be at least 1"});
         if (operation == Operation::Update && bulbs < old_object["spec"]["bulbs"].integer())
           verdict.causes.push_back({"spec.bulbs", "", "may not become fewer"});
         if (!object["spec"]["key"].isNull())
           verdict.demands.push_back(
               {"spec.key", "get", {"", "v1", "secrets", "Secret"}, "only who may read Secrets"});
         if (!object["spec"]["glass"].isNull())
           verdict.demands.push_back(
               {"spec.glass", "create", {"test.cadre.dev", "v1", "glasses", "Glass"}, "glaziers"});
         if (object["spec"]["lit"].string() == "throw") throw std::out_of_range("a defect");
         if (object["spec"]["color"].isNull()) verdict.warnings.push_back("spec.color is not set");
         return verdict;
       }});
  return validators;
}

json::Value review(std::string_view request) {
  return json::Object{
      {"apiVersion", "admission.k8s.io/v1"},
      {"kind", "AdmissionReview"},
      {"request", json::applyMergePatch(
                      parsed(R"({"uid":"r1","operation":"CREATE","name":"desk","namespace":"ns",
            "kind":{"group":"test.cadre.dev","version":"v1","kind":"Lamp"},
            "resource":{"group":"test.cadre.dev","version":"v1","resource":"lamps"}})"),
                      parsed(request))}};
}

Result<json::Value> answerReview(const json::Value& review,
                                 const std::vector<Validator>& validators) {
  CADRE_LET(Verdict verdict, judge(review, validators));
  return answerTo(review, verdict);
}

TEST(Admission, Verdicts) {
  struct Case {
    std::string_view what, request;
    bool allowed;
    std::string_view message = "";
  };
  for (
      const Case& c : std::vector<Case>{
          {"good", R"({"object":{"spec":{"bulbs":1,"color":"red"}}})", true},
          {"bad", R"({"object":{"spec":{"bulbs":0,"color":"red"}}})", false,
           R"(Lamp.test.cadre.dev "desk" is invalid: spec.bulbs: Invalid value: 0: must be at least 1)"},
          {"a dry run", R"({"dryRun":true,"object":{"spec":{"bulbs":0,"color":"red"}}})", false,
           "is invalid"},
          {"two causes",
           R"({"operation":"UPDATE","object":{"spec":{"bulbs":0}},"oldObject":{"spec":{"bulbs":2}}})",
           false,
           "is invalid: [spec.bulbs: Invalid value: 0: must be at least 1, spec.bulbs: may not "
           "become fewer]"},
          {"what is going may go",
           R"({"operation":"UPDATE","object":{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"}}})",
           true},
          {"deletion, refused",
           R"({"operation":"DELETE","object":null,"oldObject":{"spec":{"lit":true}}})", false,
           R"("desk" is invalid: it is lit)"},
          {"deletion", R"({"operation":"DELETE","object":null,"oldObject":{"spec":{}}})", true},
          {"a subresource", R"({"operation":"UPDATE","subResource":"status","object":{}})", true},
          {"an operation that says nothing of the object", R"({"operation":"CONNECT"})", true}}) {
    auto answer = answerReview(review(c.request), lampValidators());
    ASSERT_TRUE(answer) << c.what << ": " << answer.error().text();
    EXPECT_EQ((*answer)["apiVersion"].string(), "admission.k8s.io/v1");
    EXPECT_EQ((*answer)["kind"].string(), "AdmissionReview");
    const json::Value& response = (*answer)["response"];
    EXPECT_EQ(response["uid"].string(), "r1");
    EXPECT_EQ(response["allowed"], json::Value(c.allowed)) << c.what;
    EXPECT_THAT(response["status"]["message"].string(), HasSubstr(c.message)) << c.what;
  }
}

TEST(Admission, CausesAndWarningsAreData) {
  auto answer = answerReview(review(R"({"object":{"spec":{"bulbs":0}}})"), lampValidators());
  ASSERT_TRUE(answer);
  EXPECT_EQ(
      (*answer)["response"]["status"],
      parsed(
          R"({"status":"Failure","code":422,"reason":"Invalid","message":"Lamp.test.cadre.dev \"desk\" is invalid: spec.bulbs: Invalid value: 0: must be at least 1",
          "details":{"name":"desk","group":"test.cadre.dev","kind":"Lamp","causes":[
            {"field":"spec.bulbs","reason":"FieldValueInvalid","message":"Invalid value: 0: must be at least 1"}]}})"));
  EXPECT_EQ((*answer)["response"]["warnings"], parsed(R"(["spec.color is not set"])"));
}

TEST(Admission, WhatIsNoReviewIsNotAnswered) {
  struct Case {
    json::Value review;
    Code code;
  };
  json::Value old_version = review("{}");
  old_version.make("apiVersion") = "admission.k8s.io/v1beta1";
  for (const Case& c :
       std::vector<Case>{{json::Value(), Code::InvalidArgument},
                         {json::Array{}, Code::InvalidArgument},
                         {old_version, Code::InvalidArgument},
                         {review(R"({"uid":null})"), Code::InvalidArgument},
                         {review(R"({"resource":{"resource":"sockets"}})"), Code::NotFound}}) {
    auto answer = answerReview(c.review, lampValidators());
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().code, c.code);
  }
}

struct Folder {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / format("cadre-webhook-test-{}", ::getpid());
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
  void write(const net::CertificateAndKey& pair) const {
    std::ofstream(path / "tls.crt") << pair.certificate;
    std::ofstream(path / "tls.key") << pair.key;
  }
};

struct Server {
  net::Loop loop;
  kube::FakeApi api;  // not used with a folder
  Random random{1};
  Metrics metrics;
  Folder folder;
  net::CertificateAndKey authority =
      *net::makeCertificate({.common_name = "ca", .authority = true});
  std::unique_ptr<WebhookServer> webhook;

  net::CertificateAndKey certificate() {
    return *net::makeCertificate({.common_name = "web", .names = {"127.0.0.1"}}, &authority);
  }
  Result<> open() {
    CADRE_LET(webhook, WebhookServer::open(loop, *api.client, random,
                                           {.address = "127.0.0.1:0",
                                            .validators = lampValidators(),
                                            .certificate_directory = folder.path,
                                            .metrics = &metrics}));
    return {};
  }
  net::HttpResponse send(net::HttpRequest request) {
    auto client = *net::makeHttpClient(
        loop, {.url = *net::Url::parse(format("https://127.0.0.1:{}", webhook->port())),
               .tls = {.ca = authority.certificate}});
    auto answer = net::await<net::HttpResponse>(loop, [&](auto done) {
      return net::fetch(*client, std::move(request), 1 << 20, std::move(done));
    });
    EXPECT_TRUE(answer) << answer.error().text();
    return answer ? *answer : net::HttpResponse();
  }
};

TEST(WebhookServer, AnswersReviewsAndNothingElse) {
  Server s;
  s.folder.write(s.certificate());
  auto opened = s.open();
  ASSERT_TRUE(opened) << opened.error().text();
  EXPECT_EQ(s.webhook->trouble(), "");
  std::string good = json::write(review(R"({"object":{"spec":{"bulbs":1}}})"));
  net::Headers type{{"Content-Type", "application/json"}};
  struct Case {
    std::string_view what;
    net::HttpRequest request;
    int status;
    std::string_view text;
  };
  for (const Case& c : std::vector<Case>{
           {"a review", {"POST", "/validate?timeout=10s", type, good}, 200, R"("allowed":true)"},
           {"with a character set",
            {"POST", "/validate", {{"Content-Type", "application/json; charset=utf-8"}}, good},
            200,
            R"("uid":"r1")"},
           {"elsewhere", {"POST", "/mutate", type, good}, 404, "only /validate is here"},
           {"a GET", {"GET", "/validate", {}, ""}, 405, "only POST"},
           {"no JSON", {"POST", "/validate", type, "nonsense"}, 400, "line 1, column 1"},
           {"another type",
            {"POST", "/validate", {{"Content-Type", "text/plain"}}, good},
            415,
            "application/json"},
           {"another kind",
            {"POST", "/validate", type,
             json::write(review(R"({"resource":{"resource":"sockets"}})"))},
            404,
            "nobody here validates sockets"},
           {"too much",
            {"POST", "/validate", type, std::string((8 << 20) + 1, ' ')},
            413,
            "larger than"}}) {
    auto answer = s.send(c.request);
    EXPECT_EQ(answer.status, c.status) << c.what;
    EXPECT_THAT(answer.body, HasSubstr(c.text)) << c.what;
  }
  EXPECT_THAT(
      s.metrics.text(),
      AllOf(HasSubstr(
                R"(controller_runtime_webhook_requests_total{code="200",webhook="/validate"} 2)"),
            HasSubstr(
                R"(controller_runtime_webhook_requests_total{code="500",webhook="/validate"} 0)")));
}

TEST(WebhookServer, AValidatorThatThrowsIsAnsweredWith500) {
  Server s;
  s.folder.write(s.certificate());
  ASSERT_TRUE(s.open());
  auto answer = s.send({"POST",
                        "/validate",
                        {{"Content-Type", "application/json"}},
                        json::write(review(R"({"object":{"spec":{"bulbs":1,"lit":"throw"}}})"))});
  EXPECT_EQ(answer.status, 500);
  EXPECT_THAT(answer.body, HasSubstr("a defect"));
}

TEST(WebhookServer, WhatIsDemandedOfTheRequesterIsAskedOfTheApiServer) {
  struct Case {
    std::string_view what, spec;
    std::vector<std::string> said;  // by the API server, in turn
    std::string_view answer;
  };
  const std::string yes = R"({"status":{"allowed":true}})", no = R"({"status":{"allowed":false}})";
  for (const Case& c : std::vector<Case>{
           {"allowed", R"({"bulbs":1,"key":"k"})", {yes}, R"("allowed":true)"},
           {"not allowed",
            R"({"bulbs":1,"key":"k"})",
            {no},
            "spec.key: Forbidden: only who may read Secrets"},
           {"both", R"({"bulbs":1,"key":"k","glass":1})", {yes, yes}, R"("allowed":true)"},
           {"the second is not",
            R"({"bulbs":1,"key":"k","glass":1})",
            {yes, no},
            "spec.key: Forbidden"},
           {"no word", R"({"bulbs":1,"key":"k"})", {"nonsense"}, "that could not be asked"},
           {"refused anyway", R"({"bulbs":0,"key":"k"})", {}, "must be at least 1"}}) {
    SCOPED_TRACE(c.what);
    Server s;
    s.folder.write(s.certificate());
    ASSERT_TRUE(s.open());
    auto client = *net::makeHttpClient(
        s.loop, {.url = *net::Url::parse(format("https://127.0.0.1:{}", s.webhook->port())),
                 .tls = {.ca = s.authority.certificate}});
    std::optional<net::HttpResponse> answer;
    json::Value asked = review(format(R"({{"object":{{"spec":{}}},"userInfo":{{"username":"ann",
        "groups":["crew"],"extra":{{"scope":["a"]}}}}}})",
                                      c.spec));
    Pending pending = net::fetch(
        *client, {"POST", "/validate", {{"Content-Type", "application/json"}}, json::write(asked)},
        1 << 20, [&](Result<net::HttpResponse> got) {
          if (got) answer = *got;
        });
    for (std::size_t i = 0; i < c.said.size(); ++i) {
      ASSERT_TRUE(s.loop.runUntil(
          [&] {
            s.api.scheduler.runReady();
            return s.api.requests->sent.size() > i;
          },
          10s));
      kube::FakeTransport::Sent& sent = *s.api.requests->sent[i];
      json::Value spec = parsed(sent.request.body)["spec"];
      EXPECT_EQ(spec["user"].string(), "ann");
      EXPECT_EQ(json::write(spec["groups"]), R"(["crew"])");
      EXPECT_EQ(json::write(spec["extra"]), R"({"scope":["a"]})");
      const json::Value& what = spec["resourceAttributes"];
      EXPECT_EQ(what["namespace"].string(), "ns");
      bool last = i + 1 == c.said.size();
      EXPECT_EQ(what["verb"].string() + " " + what["resource"].string(),
                last ? "get secrets" : "create glasses");
      sent.answer(201, c.said[i]);
      s.api.scheduler.runReady();
    }
    ASSERT_TRUE(s.loop.runUntil([&] { return answer.has_value(); }, 10s));
    EXPECT_EQ(answer->status, 200);
    EXPECT_THAT(answer->body, HasSubstr(c.answer));
    EXPECT_EQ(s.api.requests->sent.size(), c.said.size());
  }
}

TEST(WebhookServer, ANewCertificateIsServedToWhoConnectsThen) {
  Server s;
  s.folder.write(s.certificate());
  ASSERT_TRUE(s.open());
  auto connected = *net::makeHttpClient(
      s.loop, {.url = *net::Url::parse(format("https://127.0.0.1:{}", s.webhook->port())),
               .tls = {.ca = s.authority.certificate}});
  auto ask = [&] {
    return net::await<net::HttpResponse>(s.loop, [&](auto done) {
      return net::fetch(*connected, {.method = "GET", .target = "/validate"}, 1 << 20,
                        std::move(done));
    });
  };
  ASSERT_TRUE(ask());
  net::CertificateAndKey second = s.certificate();
  s.folder.write({second.certificate, "half a change"});
  EXPECT_FALSE(s.webhook->reload());
  EXPECT_EQ(s.send({.target = "/validate"}).status, 405) << "the old one goes on";
  s.authority = *net::makeCertificate({.common_name = "another", .authority = true});
  s.folder.write(s.certificate());
  EXPECT_TRUE(s.webhook->reload());
  EXPECT_EQ(s.send({.target = "/validate"}).status, 405) << "only the new one is trusted here";
  EXPECT_TRUE(ask()) << "who is connected is not disturbed";
  EXPECT_EQ(connected->stats().dialled, 1u);
}

TEST(WebhookServer, SaysWhichFileIsWrong) {
  Server s;
  auto opened = s.open();
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().text(), AllOf(HasSubstr(s.folder.path.string() + "/tls.crt"),
                                           HasSubstr("holds no PEM certificate")));
}

}  // namespace
}  // namespace cadre::engine
