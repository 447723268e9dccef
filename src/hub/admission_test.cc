// Writes that wait for a webhook, while others write the same object. Under a virtual clock.
#include "hub/admission.h"

#include <algorithm>

#include "base/format.h"
#include "hub/hub.h"
#include "hub/transport.h"
#include "json/parse.h"
#include "json/write.h"
#include "json/yaml.h"

namespace cadre::hub {
namespace {

using testing::Each;
using testing::UnorderedElementsAre;

constexpr std::string_view kMaps = "/api/v1/namespaces/default/configmaps";

// Allows everything, or nothing, after 50 ms.
class SlowWebhook final : public net::HttpClient {
 public:
  SlowWebhook(Scheduler& scheduler, int& asked, const std::string& version, const bool& allows)
      : scheduler_(scheduler), asked_(asked), version_(version), allows_(allows) {}

  Pending send(net::HttpRequest request, net::ResponseHandler handler) override {
    ++asked_;
    auto review = json::parse(request.body);
    std::string answer = format(
        R"({{"apiVersion":"{}","kind":"AdmissionReview","response":{{"uid":"{}","allowed":{},"warnings":["slow"]}}}})",
        version_, (*review)["request"]["uid"].string(), allows_);
    return scheduler_.after(50ms, [answer, handler = std::move(handler)] {
      handler.head({.status = 200});
      handler.data(answer);
      Result<> fine;  // g++ 12 warns of a temporary one
      handler.end(std::move(fine));
    });
  }

 private:
  Scheduler& scheduler_;
  int& asked_;
  const std::string& version_;
  const bool& allows_;
};

class SlowWrites : public testing::Test {
 protected:
  struct Sent {
    int status = 0;  // 0: not answered yet
    net::Headers headers = {};
    json::Value body = {};
    Pending pending = {};
  };

  SlowWrites() {
    HubOptions options;
    options.connect =
        [this](const Admission::Place& place) -> Result<std::unique_ptr<net::HttpClient>> {
      reached_.push_back(format("{} as {}", place.url.origin(), place.name));
      return std::make_unique<SlowWebhook>(scheduler_, asked_, version_, allows_);
    };
    options.keep = [this](const auto&) -> Result<> {
      if (space_-- <= 0) return Error{.code = Code::ResourceExhausted, .message = "no space"};
      return {};
    };
    hub_ = std::make_unique<Hub>(scheduler_, random_, std::move(options));
    hub_->furnish();
    scheduler_.runReady();
    client_ = directTransport(scheduler_, *hub_, "admin", {"system:masters"});
    EXPECT_EQ(201, done("POST", kMaps, "metadata: {name: colors}"));
    EXPECT_EQ(201,
              done("POST", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
                   R"(
metadata: {name: slow}
webhooks:
- name: slow.cases.cadre.dev
  clientConfig: {url: "https://127.0.0.1:1/slow"}
  rules: [{operations: [CREATE, UPDATE], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]
  sideEffects: None
  admissionReviewVersions: [v1]
)"));
  }

  std::shared_ptr<Sent> send(std::string method, std::string_view target, std::string_view yaml,
                             std::string type = "application/json") {
    net::HttpRequest request{.method = std::move(method), .target = std::string(target)};
    if (!yaml.empty()) {
      request.headers.set("content-type", std::move(type));
      request.body = json::write(json::parseYaml(yaml, "test")->at(0).value);
    }
    auto sent = std::make_shared<Sent>();
    sent->pending = net::fetch(*client_, std::move(request), 1u << 20,
                               [sent = sent.get()](Result<net::HttpResponse> answer) {
                                 ASSERT_TRUE(answer.ok()) << answer.error().text();
                                 sent->status = answer->status;
                                 sent->headers = answer->headers;
                                 if (auto body = json::parse(answer->body))
                                   sent->body = *std::move(body);
                               });
    return sent;
  }
  int done(std::string method, std::string_view target, std::string_view yaml) {
    auto sent = send(std::move(method), target, yaml);
    scheduler_.advance(1s);
    return sent->status;
  }
  json::Value colors() {
    State state = hub_->objects().find("configmaps", {"default", "colors"});
    return state ? state->value() : json::Value();
  }
  std::string url() const { return format("{}/colors", kMaps); }

  // Three clients that write ten times each, as fast as they are answered.
  std::vector<int> race(const Function<std::shared_ptr<Sent>(int client, int round)>& write) {
    std::vector<std::shared_ptr<Sent>> open(3);
    std::vector<int> begun(3), answers;
    while (answers.size() < 30) {
      for (int client = 0; client < 3; ++client) {
        if (open[client] && open[client]->status == 0) continue;
        if (open[client]) answers.push_back(open[client]->status);
        open[client] = begun[client] < 10 ? write(client, begun[client]) : nullptr;
        ++begun[client];
      }
      scheduler_.advance(10ms);
    }
    return answers;
  }

  FakeScheduler scheduler_;
  Random random_{1};
  int asked_ = 0;
  bool allows_ = true;
  int space_ = 1'000'000;                        // for so many writes
  std::string version_ = "admission.k8s.io/v1";  // that the webhook answers in
  std::vector<std::string> reached_;             // where they were sought, as whom
  std::unique_ptr<Hub> hub_;
  std::unique_ptr<net::HttpClient> client_;
};

TEST_F(SlowWrites, PatchesAreDoneAgainOnWhatOthersLeft) {
  EXPECT_THAT(race([&](int client, int round) {
                return send("PATCH", url(), format("data: {{k{}-{}: x}}", client, round),
                            "application/merge-patch+json");
              }),
              Each(200));
  EXPECT_EQ(30u, colors()["data"].object().size());
  EXPECT_GT(asked_, 30);
}

// One of the pods is asked, and must have the name of its Service.
TEST_F(SlowWrites, AskAService) {
  EXPECT_EQ(201,
            done("POST", "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations", R"(
metadata: {name: guard}
webhooks:
- name: guard.cases.cadre.dev
  clientConfig: {service: {name: guard, namespace: default, path: /ask}}
  rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]
  sideEffects: None
  admissionReviewVersions: [v1]
)"));
  auto refused = [this] {
    auto sent = send("POST", kMaps, "metadata: {name: one}");
    scheduler_.advance(1s);
    EXPECT_EQ(sent->status, 500);
    return sent->body["message"].string();
  };
  auto because = [](std::string_view why) {
    return format(
        "Internal error occurred: failed calling webhook \"guard.cases.cadre.dev\": failed to call "
        "webhook: Post \"https://guard.default.svc:443/ask?timeout=10s\": {}",
        why);
  };
  EXPECT_EQ(refused(), because("there is no Service default/guard"));
  constexpr std::string_view kServices = "/api/v1/namespaces/default/services";
  constexpr std::string_view kSlices =
      "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
  EXPECT_EQ(201, done("POST", kServices,
                      "{metadata: {name: guard}, spec: {ports: [{name: other, port: 80}]}}"));
  EXPECT_EQ(refused(), because("the Service default/guard has no port 443"));
  EXPECT_EQ(200, done("PUT", format("{}/guard", kServices), R"(
metadata: {name: guard}
spec: {ports: [{name: other, port: 80}, {name: ask, port: 443}]}
)"));
  EXPECT_EQ(201, done("POST", kSlices, R"(
metadata: {name: another, labels: {kubernetes.io/service-name: another}}
addressType: IPv4
ports: [{name: ask, port: 1}]
endpoints: [{addresses: [10.0.0.1]}]
)"));
  EXPECT_EQ(refused(), because("the Service default/guard has no ready pod"));
  EXPECT_EQ(201, done("POST", kSlices, R"(
metadata: {name: guard-1, labels: {kubernetes.io/service-name: guard}}
addressType: IPv4
ports: [{name: ask, port: 8443}]
endpoints:
- {addresses: [10.0.0.2], conditions: {ready: false}}
- {addresses: [10.0.0.3], conditions: {ready: true}}
)"));
  EXPECT_EQ(201, done("POST", kMaps, "metadata: {name: one}"));
  EXPECT_THAT(reached_, UnorderedElementsAre("https://127.0.0.1:1 as ",
                                             "https://10.0.0.3:8443 as guard.default.svc"));
}

TEST_F(SlowWrites, JsonPatchesAreDoneAgain) {
  EXPECT_THAT(race([&](int client, int round) {
                return send(
                    "PATCH", url(),
                    format("[{{op: add, path: /data, value: {{k{}: '{}'}}}}]", client, round),
                    "application/json-patch+json");
              }),
              Each(200));
}

TEST_F(SlowWrites, AppliesAreDoneAgain) {
  EXPECT_THAT(race([&](int client, int round) {
                return send("PATCH", format("{}?fieldManager=m{}", url(), client),
                            format("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: colors}}, "
                                   "data: {{k{}: '{}'}}}}",
                                   client, round),
                            "application/apply-patch+yaml");
              }),
              Each(200));
  EXPECT_EQ(3u, colors()["data"].object().size());
}

TEST_F(SlowWrites, UpdatesThatNameNoVersionAreDoneAgain) {
  EXPECT_THAT(race([&](int client, int round) {
                return send(
                    "PUT", url(),
                    format("{{metadata: {{name: colors}}, data: {{k{}: '{}'}}}}", client, round));
              }),
              Each(200));
}

TEST_F(SlowWrites, WhatIsMadeTwiceByApplyIsMadeOnce) {
  constexpr std::string_view body =
      "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: new}}, data: {{{}: x}}}}";
  auto first = send("PATCH", format("{}/new?fieldManager=a", kMaps), format(body, "a"),
                    "application/apply-patch+yaml");
  auto second = send("PATCH", format("{}/new?fieldManager=b", kMaps), format(body, "b"),
                     "application/apply-patch+yaml");
  scheduler_.advance(1s);
  EXPECT_EQ(201, first->status);
  EXPECT_EQ(200, second->status);
  EXPECT_EQ(2u, second->body["data"].object().size());
  // What was said about the first try is not said twice.
  EXPECT_EQ(1, std::ranges::count_if(second->headers,
                                     [](const auto& one) { return one.first == "warning"; }));
}

TEST_F(SlowWrites, AVersionInTheRequestIsAConflict) {
  std::string version(kube::resourceVersion(colors()));
  std::string body =
      format("{{metadata: {{name: colors, resourceVersion: '{}'}}, data: {{a: x}}}}", version);
  auto first = send("PATCH", url(), "data: {b: x}", "application/merge-patch+json");
  auto update = send("PUT", url(), body);
  auto patch = send("PATCH", url(), body, "application/merge-patch+json");
  scheduler_.advance(1s);
  EXPECT_EQ(200, first->status);
  EXPECT_EQ(409, update->status);
  EXPECT_EQ(409, patch->status);
  EXPECT_EQ(2, asked_ - 1);  // what cannot fit is not asked about again
}

TEST_F(SlowWrites, WhatWasDeletedMeanwhileIsNotFound) {
  auto patch = send("PATCH", url(), "data: {b: x}", "application/merge-patch+json");
  auto update = send("PUT", url(), "{metadata: {name: colors}, data: {a: x}}");
  scheduler_.advance(10ms);
  auto removed = send("DELETE", url(), "");
  scheduler_.advance(1s);
  EXPECT_EQ(200, removed->status);
  EXPECT_EQ(404, patch->status);
  EXPECT_EQ(404, update->status);
}

TEST_F(SlowWrites, AnAnswerOfAnotherVersionIsNone) {
  version_ = "admission.k8s.io/v1beta1";
  EXPECT_EQ(500, done("PUT", url(), "metadata: {name: colors}"));
}

TEST_F(SlowWrites, WhoNeverGetsThroughIsToldSo) {
  auto patch = send("PATCH", url(), "data: {b: x}", "application/merge-patch+json");
  scheduler_.advance(10ms);
  for (int i = 0; i < 2000 && patch->status == 0; ++i) {
    json::Value other = colors();
    other.make("data").make("other") = std::to_string(i);
    (void)hub_->objects().put("configmaps", other);
    scheduler_.advance(20ms);
  }
  EXPECT_EQ(409, patch->status);
}

// ---- What goes because something else went

class Collected : public SlowWrites {
 protected:
  Collected() {
    EXPECT_EQ(201, done("POST", "/api/v1/namespaces", "metadata: {name: box}"));
    EXPECT_EQ(201, done("POST", "/api/v1/namespaces/box/secrets", "metadata: {name: owner}"));
    std::string uid = hub_->objects().find("secrets", {"box", "owner"})->uid;
    EXPECT_EQ(201, done("POST", kBox,
                        format("metadata: {{name: owned, ownerReferences: [{{apiVersion: "
                               "v1, kind: Secret, name: owner, uid: {}}}]}}",
                               uid)));
    EXPECT_EQ(201, done("POST", kBox, "metadata: {name: other}"));
  }
  std::string there() {
    std::string out;
    for (std::string_view name : {"owned", "other"})
      if (hub_->objects().find("configmaps", {"box", std::string(name)}))
        out += format("{} ", name);
    return out + (hub_->objects().find("namespaces", {"", "box"}) ? "box" : "");
  }
  void askAboutDeletions() {
    EXPECT_EQ(201,
              done("POST", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
                   R"(
metadata: {name: keeper}
webhooks:
- name: keeper.cases.cadre.dev
  clientConfig: {url: "https://127.0.0.1:1/keeper"}
  rules: [{operations: [DELETE], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]
  sideEffects: None
  admissionReviewVersions: [v1]
)"));
  }

  void defineLamps() {
    EXPECT_EQ(201, done("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", R"(
metadata: {name: lamps.test.dev}
spec:
  group: test.dev
  scope: Namespaced
  names: {plural: lamps, kind: Lamp}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
)"));
  }

  static constexpr std::string_view kBox = "/api/v1/namespaces/box/configmaps";
};

TEST_F(Collected, WebhooksAreAskedAboutWhatAnOwnerLeaves) {
  askAboutDeletions();
  allows_ = false;
  asked_ = 0;
  EXPECT_EQ(200, done("DELETE", "/api/v1/namespaces/box/secrets/owner", ""));
  scheduler_.advance(5min);
  EXPECT_EQ(there(), "owned other box");
  EXPECT_GT(asked_, 3) << "now and then";
  EXPECT_LT(asked_, 20) << "not all the time";
  allows_ = true;
  scheduler_.advance(2min);
  EXPECT_EQ(there(), "other box");
}

TEST_F(Collected, WebhooksAreAskedAboutWhatIsInANamespace) {
  askAboutDeletions();
  allows_ = false;
  EXPECT_EQ(200, done("DELETE", "/api/v1/namespaces/box", ""));
  scheduler_.advance(5min);
  EXPECT_EQ(there(), "owned other box");
  allows_ = true;
  scheduler_.advance(2min);
  EXPECT_EQ(there(), "");
}

TEST_F(Collected, AFullDiskIsNoEndOfIt) {
  space_ = 1;
  EXPECT_EQ(200, done("DELETE", "/api/v1/namespaces/box", ""));
  scheduler_.advance(10s);
  EXPECT_EQ(there(), "owned other box");
  space_ = 1'000'000;
  scheduler_.advance(2min);
  EXPECT_EQ(there(), "");
}

TEST_F(Collected, WhatIsStoredInAVersionThatNobodyServesGoesToo) {
  defineLamps();
  EXPECT_EQ(201, done("POST", "/apis/test.dev/v1/namespaces/box/lamps",
                      "{apiVersion: test.dev/v1, kind: Lamp, metadata: {name: a}}"));
  auto sent =
      send("PATCH", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/lamps.test.dev",
           "[{op: replace, path: /spec/versions/0/served, value: false}]",
           "application/json-patch+json");
  scheduler_.advance(1s);
  EXPECT_EQ(sent->status, 200);
  EXPECT_EQ(404, done("GET", "/apis/test.dev/v1/namespaces/box/lamps", ""));
  EXPECT_EQ(200, done("DELETE", "/api/v1/namespaces/box", ""));
  scheduler_.advance(1s);
  EXPECT_EQ(there(), "");
  EXPECT_TRUE(hub_->objects().all("test.dev/lamps").empty());
}

// A namespace does not wait for what is owned from elsewhere.
TEST_F(Collected, WhoWaitsForDependentsElsewhereIsNoEndOfItEither) {
  EXPECT_EQ(201, done("POST", kBox, "metadata: {name: owner}"));
  std::string uid = hub_->objects().find("configmaps", {"box", "owner"})->uid;
  EXPECT_EQ(201, done("POST", "/api/v1/namespaces/default/configmaps",
                      format(R"(
metadata:
  name: dependent
  finalizers: [test.dev/holds]
  ownerReferences: [{{apiVersion: v1, kind: ConfigMap, name: owner, uid: {}, blockOwnerDeletion: true}}]
)",
                             uid)));
  EXPECT_EQ(200, done("DELETE", format("{}/owner?propagationPolicy=Foreground", kBox), ""));
  scheduler_.advance(1s);
  EXPECT_TRUE(hub_->objects().find("configmaps", {"box", "owner"}));
  EXPECT_EQ(200, done("DELETE", "/api/v1/namespaces/box", ""));
  scheduler_.advance(1s);
  EXPECT_EQ(there(), "");
}

// What was asked for before its definition went does not come after it.
TEST_F(Collected, NothingComesOfAKindThatHasGone) {
  defineLamps();
  EXPECT_EQ(
      201, done("POST", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", R"(
metadata: {name: lamps}
webhooks:
  - name: lamps.test.dev
    clientConfig: {url: https://127.0.0.1/}
    rules: [{operations: [CREATE], apiGroups: [test.dev], apiVersions: [v1], resources: [lamps]}]
    sideEffects: None
    admissionReviewVersions: [v1]
)"));
  auto lamp = send("POST", "/apis/test.dev/v1/namespaces/box/lamps",
                   "{apiVersion: test.dev/v1, kind: Lamp, metadata: {name: a}}");
  scheduler_.advance(1ms);
  EXPECT_EQ(lamp->status, 0) << "it waits for the webhook";
  EXPECT_EQ(
      200,
      done("DELETE", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/lamps.test.dev", ""));
  scheduler_.advance(1min);
  EXPECT_EQ(lamp->status, 404);
  EXPECT_TRUE(hub_->objects().all("test.dev/lamps").empty());
  EXPECT_EQ(200, done("DELETE", "/api/v1/namespaces/box", ""));
  scheduler_.advance(1s);
  EXPECT_EQ(there(), "");
}

// A list whose beginning is forgotten can be read to its end all the same.
TEST_F(Collected, APageThatIsForgottenHasAWayOn) {
  auto list = [&](std::string_view token) {
    auto sent = send("GET", format("{}?limit=1&continue={}", kBox, token), "");
    scheduler_.advance(1s);
    return sent;
  };
  auto first = list("");
  ASSERT_EQ(first->status, 200);
  EXPECT_EQ(201, done("POST", kBox, "metadata: {name: later}"));
  hub_->objects().loaded(hub_->objects().revision(), hub_->objects().revision());
  auto expired = list(first->body["metadata"]["continue"].string());
  EXPECT_EQ(expired->status, 410);
  EXPECT_EQ(expired->body["reason"].string(), "Expired");
  auto second = list(expired->body["metadata"]["continue"].string());
  ASSERT_EQ(second->status, 200);
  EXPECT_EQ(kube::name(first->body["items"].at(0)), "other");
  EXPECT_EQ(kube::name(second->body["items"].at(0)), "owned");
}

// What webhooks were asked about is what goes, and nothing else.
TEST_F(Collected, WhatChangesMeanwhileIsAskedAboutAgain) {
  askAboutDeletions();
  asked_ = 0;
  auto deleted = send("DELETE", format("{}/other", kBox), "");
  scheduler_.advance(20ms);
  auto changed =
      send("PATCH", format("{}/other", kBox), "{data: {a: b}}", "application/merge-patch+json");
  scheduler_.advance(1ms);
  EXPECT_EQ(changed->status, 0) << "it waits for the other webhook";
  // Written past all webhooks: in the middle of the question.
  json::Value other = hub_->objects().find("configmaps", {"box", "other"})->value();
  other.make("data") = json::Object{{"kept", "yes"}};
  (void)hub_->objects().put("configmaps", other);
  scheduler_.advance(1s);
  EXPECT_EQ(deleted->status, 200);
  EXPECT_GE(asked_, 3) << "about the new one, too";
}

TEST_F(Collected, WhoIsLetGoMeanwhileStays) {
  askAboutDeletions();
  auto deleted = send("DELETE", "/api/v1/namespaces/box/secrets/owner", "");
  scheduler_.advance(20ms);
  json::Value owned = hub_->objects().find("configmaps", {"box", "owned"})->value();
  owned.make("metadata").makeObject().erase("ownerReferences");
  (void)hub_->objects().put("configmaps", owned);
  scheduler_.advance(5min);
  EXPECT_EQ(deleted->status, 200);
  EXPECT_EQ(there(), "owned other box");
}

TEST_F(Collected, ManyWebhooksDoNotCutOffOneThatThinks) {
  std::string hooks = "metadata: {name: many}\nwebhooks:\n";
  for (int i = 0; i < 250; ++i)
    hooks += format(
        "- {{name: h{}.cases.cadre.dev, clientConfig: {{url: \"https://127.0.0.1:{}/x\"}}, rules: "
        "[{{operations: [CREATE], apiGroups: [\"\"], apiVersions: [v1], resources: "
        "[secrets]}}], sideEffects: None, admissionReviewVersions: [v1]}}\n",
        i, i + 1);
  EXPECT_EQ(
      201,
      done("POST", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", hooks));
  EXPECT_EQ(201, done("POST", "/api/v1/namespaces/box/secrets", "metadata: {name: new}"));
}

}  // namespace
}  // namespace cadre::hub
