#pragma once

// A test against a real kube-apiserver, in a namespace of its own. tools/test starts the server and
// says where it is:
//   CADRE_TEST_KUBECONFIG  its kubeconfig
//   CADRE_TEST_CLUSTER     its name for tools/cluster, to stop and start its parts
//   CADRE_CLUSTER_TOOL     tools/cluster itself
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/format.h"
#include "json/parse.h"
#include "kube/client.h"
#include "net/process.h"

namespace cadre {

inline constexpr Duration kSoon = 60s;

inline const kube::Resource kConfigMaps{
    .version = "v1", .plural = "configmaps", .kind = "ConfigMap"};
inline const kube::Resource kNamespaces{
    .version = "v1", .plural = "namespaces", .kind = "Namespace", .namespaced = false};
inline const kube::Resource kDeployments{
    .group = "apps", .version = "v1", .plural = "deployments", .kind = "Deployment"};

inline const kube::Resource kCrds{.group = "apiextensions.k8s.io",
                                  .version = "v1",
                                  .plural = "customresourcedefinitions",
                                  .kind = "CustomResourceDefinition",
                                  .namespaced = false};

inline json::Value parsed(std::string_view text) { return *json::parse(text); }

inline std::string environment(const char* name) {
  const char* value = std::getenv(name);
  if (!value) {
    ADD_FAILURE()
        << name << " is not set: run this by tools/test, which starts the API server that it needs";
    return "";
  }
  return value;
}

inline const kube::Resource kWebhooks{.group = "admissionregistration.k8s.io",
                                      .version = "v1",
                                      .plural = "validatingwebhookconfigurations",
                                      .kind = "ValidatingWebhookConfiguration",
                                      .namespaced = false};

// Has objects of a kind in a namespace judged by a server on loopback.
inline json::Value webhookFor(const std::string& name, const kube::Resource& resource,
                              std::uint16_t port, const std::string& ns) {
  return json::Object{
      {"apiVersion", "admissionregistration.k8s.io/v1"},
      {"kind", "ValidatingWebhookConfiguration"},
      {"metadata", json::Object{{"name", name}}},
      {"webhooks",
       json::Array{json::Object{
           {"name", format("{}.{}", resource.plural, resource.group)},
           {"failurePolicy", "Fail"},
           {"sideEffects", "None"},
           {"admissionReviewVersions", json::Array{"v1"}},
           {"timeoutSeconds", 10},
           {"clientConfig", json::Object{{"url", format("https://127.0.0.1:{}/validate", port)}}},
           {"rules", json::Array{json::Object{{"apiGroups", json::Array{resource.group}},
                                              {"apiVersions", json::Array{resource.version}},
                                              {"resources", json::Array{resource.plural}},
                                              {"operations", json::Array{"CREATE", "UPDATE"}}}}},
           {"namespaceSelector",
            json::Object{{"matchLabels", json::Object{{"kubernetes.io/metadata.name", ns}}}}}}}}};
}

class ClusterTest : public testing::Test {
 protected:
  net::Loop loop;
  Random random{7};
  std::unique_ptr<kube::Client> client;
  std::string ns;

  std::unique_ptr<kube::Client> connect(const std::string& context = {}) {
    auto config = kube::loadConfig(
        {.kubeconfig = environment("CADRE_TEST_KUBECONFIG"), .context = context, .env = {}});
    if (!config) {
      ADD_FAILURE() << config.error().text();
      return nullptr;
    }
    auto made = kube::Client::connect(loop, *config);
    EXPECT_TRUE(made) << made.error().text();
    return made ? *std::move(made) : nullptr;
  }

  void SetUp() override {
    client = connect();
    ASSERT_TRUE(client);
    static int count = 0;
    ns = format("test-{}-{}", ::getpid(), ++count);
    must([&](auto done) {
      return client->create(kNamespaces,
                            json::Object{{"apiVersion", "v1"},
                                         {"kind", "Namespace"},
                                         {"metadata", json::Object{{"name", ns}}}},
                            {}, std::move(done));
    });
  }

  template <class Start>
  Result<json::Value> run(Start start) {
    return net::await<json::Value>(loop, std::move(start), kSoon);
  }
  template <class Start>
  json::Value must(Start start) {
    auto result = run(std::move(start));
    EXPECT_TRUE(result) << result.error().text();
    return result ? *std::move(result) : json::Value();
  }
  json::Value create(const kube::Resource& resource, const json::Value& object) {
    return must([&](auto done) { return client->create(resource, object, {}, std::move(done)); });
  }
  std::vector<json::Value> list(kube::ListOptions options,
                                const kube::Resource& resource = kConfigMaps) {
    auto items = net::await<std::vector<json::Value>>(
        loop,
        [&](auto done) { return client->list(resource, std::move(options), std::move(done)); },
        kSoon);
    EXPECT_TRUE(items) << items.error().text();
    return items ? *std::move(items) : std::vector<json::Value>();
  }
  // In the test's own namespace.
  std::optional<json::Value> get(const kube::Resource& resource, std::string_view name) {
    auto got = run(
        [&](auto done) { return client->get(resource, {ns, std::string(name)}, std::move(done)); });
    if (got) return *got;
    EXPECT_EQ(got.error().code, Code::NotFound) << got.error().text();
    return std::nullopt;
  }
  // Looks again and again, while the loop goes on.
  bool eventually(const Function<bool()>& holds) {
    for (int i = 0; i < 600; ++i) {
      if (holds()) return true;
      bool passed = false;
      Pending timer = loop.after(50ms, [&] { passed = true; });
      loop.runUntil([&] { return passed; }, kSoon);
    }
    return false;
  }
  // A kind that was just made is served a moment later; until then not even its names are known.
  bool isServed(const kube::Resource& resource) {
    auto got =
        run([&](auto done) { return client->get(resource, {ns, "nobody"}, std::move(done)); });
    return !got && got.error().reason == "NotFound";
  }
  // tools/cluster, while the loop goes on.
  void cluster(std::vector<std::string> words, bool& done) {
    words.insert(words.begin(), environment("CADRE_CLUSTER_TOOL"));
    words.insert(words.end(), {"--name", environment("CADRE_TEST_CLUSTER")});
    running_ =
        net::runProcess(loop, {.argv = words, .env = net::currentEnvironment(), .timeout = 120s},
                        [&done, words](Result<net::ProcessResult> result) {
                          done = true;
                          ASSERT_TRUE(result) << result.error().text();
                          EXPECT_EQ(result->exit_code, 0) << words[1] << ": " << result->errors;
                        });
  }

 private:
  Pending running_;
};

}  // namespace cadre
