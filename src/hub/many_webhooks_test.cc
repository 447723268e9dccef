#include "base/format.h"
#include "hub/testing/direct_hub.h"

namespace cadre::hub {
namespace {

// Webhooks that cannot be called, and do not matter: as many as one likes.
class ManyWebhooks : public DirectHub {
 protected:
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
};

TEST_F(ManyWebhooks, AreAskedAboutEachOfMany) {
  for (int i = 0; i < 5000; ++i) EXPECT_EQ(send("POST", maps_, configMap(i)), "");
  EXPECT_EQ(send("POST", configurations_ + "validatingwebhookconfigurations",
                 hooks("ValidatingWebhookConfiguration", "DELETE", 1)),
            "");
  EXPECT_EQ(send("DELETE", maps_, json::Value()), "");
  EXPECT_TRUE(hub_.objects().all("configmaps").empty());
}

TEST_F(ManyWebhooks, AreAskedOneAfterTheOther) {
  EXPECT_EQ(send("POST", configurations_ + "mutatingwebhookconfigurations",
                 hooks("MutatingWebhookConfiguration", "CREATE", 4000)),
            "");
  EXPECT_EQ(send("POST", maps_, configMap(1)), "");
  EXPECT_EQ(hub_.objects().all("configmaps").size(), 1u);
}

}  // namespace
}  // namespace cadre::hub
