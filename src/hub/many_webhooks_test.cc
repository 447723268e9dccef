#include <gtest/gtest.h>

#include "base/format.h"
#include "base/scheduler.h"
#include "hub/hub.h"
#include "hub/transport.h"
#include "json/write.h"
#include "kube/client.h"

namespace cadre::hub {
namespace {

// Webhooks that cannot be called, and do not matter: as many as one likes.
class ManyWebhooks : public testing::Test {
 protected:
  ManyWebhooks() {
    hub_.furnish();
    scheduler_.runReady();
    client_ = directClient(scheduler_, [this] {
      return directTransport(scheduler_, hub_, "test", {"system:masters"});
    });
  }

  void send(const std::string& method, const std::string& target, const json::Value& body) {
    bool done = false;
    Pending sent = client_->request(method, target, body.isNull() ? "" : json::write(body),
                                    "application/json", [&](const Result<json::Value>& answer) {
                                      done = true;
                                      EXPECT_TRUE(answer.ok()) << answer.error().text();
                                    });
    scheduler_.advance(10s);
    EXPECT_TRUE(done) << method << " " << target;
  }

  static json::Value hooks(std::string_view kind, std::string_view operation, int count) {
    json::Array list;
    for (int i = 0; i < count; ++i)
      list.push_back(json::Object{
          {"name", format("h{}.example.com", i)},
          {"failurePolicy", "Ignore"},
          {"sideEffects", "None"},
          {"admissionReviewVersions", json::Array{"v1"}},
          {"clientConfig",
           json::Object{{"service", json::Object{{"name", "nobody"}, {"namespace", "default"}}}}},
          {"rules", json::Array{json::Object{{"operations", json::Array{operation}},
                                             {"apiGroups", json::Array{""}},
                                             {"apiVersions", json::Array{"v1"}},
                                             {"resources", json::Array{"configmaps"}}}}}});
    return json::Object{{"apiVersion", "admissionregistration.k8s.io/v1"},
                        {"kind", kind},
                        {"metadata", json::Object{{"name", "many"}}},
                        {"webhooks", std::move(list)}};
  }

  static json::Value configMap(int number) {
    return json::Object{{"metadata", json::Object{{"name", format("c{}", number)}}}};
  }

  const std::string configurations_ = "/apis/admissionregistration.k8s.io/v1/";
  const std::string maps_ = "/api/v1/namespaces/default/configmaps";
  FakeScheduler scheduler_;
  Random random_{1};
  Hub hub_{scheduler_, random_, {}};
  std::unique_ptr<kube::Client> client_;
};

TEST_F(ManyWebhooks, AreAskedAboutEachOfMany) {
  for (int i = 0; i < 5000; ++i) send("POST", maps_, configMap(i));
  send("POST", configurations_ + "validatingwebhookconfigurations",
       hooks("ValidatingWebhookConfiguration", "DELETE", 1));
  send("DELETE", maps_, json::Value());
  EXPECT_TRUE(hub_.objects().all("configmaps").empty());
}

TEST_F(ManyWebhooks, AreAskedOneAfterTheOther) {
  send("POST", configurations_ + "mutatingwebhookconfigurations",
       hooks("MutatingWebhookConfiguration", "CREATE", 4000));
  send("POST", maps_, configMap(1));
  EXPECT_EQ(hub_.objects().all("configmaps").size(), 1u);
}

}  // namespace
}  // namespace cadre::hub
