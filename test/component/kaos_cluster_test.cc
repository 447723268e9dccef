// The KAOS kinds on a real kube-apiserver: what their spec calls done, as far as no pod has to run.
// Pods are made ready by hand, in the Deployments' status.
#include <algorithm>
#include <set>

#include <gmock/gmock.h>

#include "component/cluster_fixture.h"
#include "component/schema_server.h"
#include "engine/engine.h"
#include "kinds/kaos/plans.h"

namespace cadre::kaos {
namespace {

using testing::HasSubstr;

class KaosClusterTest : public ClusterTest {
 protected:
  void SetUp() override {
    ClusterTest::SetUp();
    for (const kube::Kind* kind : {&agentKind(), &modelApiKind(), &mcpServerKind()}) {
      auto made = run([&](auto done) {
        return client->apply(kCrds, kube::crd(*kind), {.force = true}, std::move(done));
      });
      ASSERT_TRUE(made) << made.error().text();
      ASSERT_TRUE(eventually([&] { return isServed(kind->resource()); }));
    }
    settings.system_namespace = ns;
    start();
  }

  // From nothing, as after a restart.
  void start() {
    engine::EngineOptions options;
    serve(options, settings);
    options.namespaces = {ns};
    options.hash_secret = [](std::string_view value) { return std::string(value); };
    options.observations.push_back(
        {.name = "mcp-tools", .look = [this](const json::Value&, auto done) {
           return loop.after(
               0s, [done = std::move(done)] { done(json::Value(json::Array{"reverse", "echo"})); });
         }});
    if (std::getenv("CADRE_TEST_LOG")) options.logger = &logger;
    engine = std::make_unique<engine::Engine>(*client, random, std::move(options));
    engine->lead(true);
    ASSERT_TRUE(loop.runUntil([&] { return engine->synced(); }, kSoon));
  }

  json::Value make(const kube::Resource& resource, std::string_view name, std::string_view spec) {
    return create(resource,
                  json::Object{{"apiVersion", resource.apiVersion()},
                               {"kind", resource.kind},
                               {"metadata", json::Object{{"name", name}, {"namespace", ns}}},
                               {"spec", parsed(spec)}});
  }
  void makeAll() {
    make(kModelApis, "llm", R"({"mode":"Proxy","proxyConfig":{"models":["a","b/*"]}})");
    make(kMcpServers, "echo", R"({"config":{"tools":{"fromString":"def echo(): pass"}}})");
    make(kAgents, "helper", R"({"modelAPI":"llm","model":"a","mcpServers":["echo"]})");
  }
  json::Value status(const kube::Resource& resource, std::string_view name) {
    auto object = get(resource, name);
    if (!object || (*object)["status"]["observedGeneration"].integer() != kube::generation(*object))
      return {};
    return (*object)["status"];
  }
  void patch(const kube::Resource& resource, std::string_view name, std::string_view merge,
             std::string subresource = {}) {
    must([&](auto done) {
      return client->patch(resource, {ns, std::string(name)}, kube::PatchType::Merge, parsed(merge),
                           {.field_manager = "somebody", .subresource = std::move(subresource)},
                           std::move(done));
    });
  }
  void remove(const kube::Resource& resource, std::string_view name) {
    must([&](auto done) {
      return client->remove(resource, {ns, std::string(name)}, {}, std::move(done));
    });
  }
  // What the Deployment controller and the kubelet would do.
  void runPods() {
    for (const json::Value& deployment : list({.select = {.ns = ns}}, kDeployments)) {
      std::int64_t generation = kube::generation(deployment),
                   wanted = deployment["spec"]["replicas"].integer();
      const json::Value& is = deployment["status"];
      if (is["observedGeneration"].integer() == generation &&
          is["availableReplicas"].integer() == wanted)
        continue;
      patch(kDeployments, kube::name(deployment),
            format(R"({{"status":{{"observedGeneration":{},"replicas":{},"updatedReplicas":{},)"
                   R"("readyReplicas":{},"availableReplicas":{}}}}})",
                   generation, wanted, wanted, wanted, wanted),
            "status");
    }
  }
  bool becomes(const kube::Resource& resource, std::string_view name, std::string_view phase) {
    return eventually([&] {
      runPods();
      return status(resource, name)["phase"].string() == phase;
    });
  }

  Settings settings;
  Logger logger{loop.clock(), {.level = LogLevel::Debug}, Logger::stderrSink()};
  std::unique_ptr<engine::Engine> engine;
};

TEST_F(KaosClusterTest, EveryOrderEndsReadyWithOneRevision) {
  std::vector<int> order{0, 1, 2};
  do {
    SCOPED_TRACE(format("{}{}{}", order[0], order[1], order[2]));
    for (int which : order) {
      if (which == 0) make(kModelApis, "llm", R"({"mode":"Proxy","proxyConfig":{"models":["a"]}})");
      if (which == 1) make(kMcpServers, "echo", R"({"mcp":"mcp-echo"})");
      if (which == 2) make(kAgents, "helper", R"({"modelAPI":"llm","mcpServers":["echo"]})");
    }
    ASSERT_TRUE(becomes(kAgents, "helper", "Ready"));
    for (std::string_view name : {"modelapi-llm", "mcpserver-echo", "agent-helper"})
      EXPECT_EQ(kube::generation(*get(kDeployments, name)), 1) << name;
    remove(kAgents, "helper");
    remove(kModelApis, "llm");
    remove(kMcpServers, "echo");
    // There is no garbage collector here.
    for (const kube::Resource& kind : {kDeployments, kServices, kConfigMaps})
      must([&](auto done) {
        return client->removeAll(kind, {.ns = ns, .labels = "app.kubernetes.io/part-of=kaos"}, {},
                                 std::move(done));
      });
    ASSERT_TRUE(eventually([&] { return engine->idle(); }));
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_F(KaosClusterTest, AModelApiThatGoesAndComesBack) {
  makeAll();
  ASSERT_TRUE(becomes(kAgents, "helper", "Ready"));
  std::string before(kube::resourceVersion(*get(kDeployments, "agent-helper")));
  remove(kModelApis, "llm");
  ASSERT_TRUE(becomes(kAgents, "helper", "Waiting"));
  EXPECT_THAT(status(kAgents, "helper")["message"].string(), HasSubstr("\"llm\" not found"));
  EXPECT_FALSE(status(kAgents, "helper")["ready"].boolean()) << "trap 1";
  EXPECT_EQ(kube::resourceVersion(*get(kDeployments, "agent-helper")), before);
  // Where nobody collects them.
  for (const kube::Resource& kind : {kDeployments, kServices})
    if (get(kind, "modelapi-llm")) remove(kind, "modelapi-llm");
  if (get(kConfigMaps, "litellm-config-llm")) remove(kConfigMaps, "litellm-config-llm");
  make(kModelApis, "llm", R"({"mode":"Proxy","proxyConfig":{"models":["a"]}})");
  EXPECT_TRUE(becomes(kAgents, "helper", "Ready"));
}

TEST_F(KaosClusterTest, AModelThatIsNotSupportedHealsByTheListAlone) {
  make(kModelApis, "llm", R"({"mode":"Proxy","proxyConfig":{"models":["a"]}})");
  make(kAgents, "helper", R"({"modelAPI":"llm","model":"z"})");
  ASSERT_TRUE(becomes(kAgents, "helper", "Failed"));
  EXPECT_THAT(status(kAgents, "helper")["message"].string(),
              HasSubstr("model \"z\" not supported by ModelAPI \"llm\" (supported: [a])"));
  patch(kModelApis, "llm", R"({"spec":{"proxyConfig":{"models":["a","z"]}}})");
  EXPECT_TRUE(becomes(kAgents, "helper", "Ready"));
}

TEST_F(KaosClusterTest, ChildrenAreRepairedAndPruned) {
  makeAll();
  ASSERT_TRUE(becomes(kAgents, "helper", "Ready"));
  patch(kServices, "agent-helper", R"({"spec":{"ports":[{"name":"x","port":1}]}})");  // trap 5
  EXPECT_TRUE(eventually([&] {
    std::set<std::int64_t> ports;
    json::Value service = *get(kServices, "agent-helper");
    for (const json::Value& port : service["spec"]["ports"].array())
      ports.insert(port["port"].integer());
    return ports == std::set<std::int64_t>{80, 8000};
  }));
  remove(kServices, "agent-helper");
  EXPECT_TRUE(eventually([&] { return get(kServices, "agent-helper").has_value(); }));
  patch(kAgents, "helper", R"({"spec":{"agentNetwork":{"expose":false}}})");  // trap 7
  EXPECT_TRUE(eventually([&] { return !get(kServices, "agent-helper"); }));
  EXPECT_TRUE(eventually([&] {
    json::Value is = status(kAgents, "helper");
    return !is.isNull() && is["endpoint"].isNull();
  }));
  patch(kModelApis, "llm",
        R"({"spec":{"mode":"Hosted","proxyConfig":null,"hostedConfig":{"model":"a"}}})");
  EXPECT_TRUE(eventually([&] { return !get(kConfigMaps, "litellm-config-llm"); }));
  EXPECT_TRUE(eventually([&] {
    return (*get(kServices, "modelapi-llm"))["spec"]["ports"].at(0)["port"].integer() == 11434;
  }));
}

TEST_F(KaosClusterTest, Trap5WhatIsEditedByHandIsRestored) {
  makeAll();
  ASSERT_TRUE(becomes(kAgents, "helper", "Ready"));
  for (std::string_view name : {"agent-helper", "modelapi-llm", "mcpserver-echo"}) {
    SCOPED_TRACE(name);
    auto wanted = [&] {
      json::Value deployment = *get(kDeployments, name), service = *get(kServices, name);
      return json::Value(json::Array{deployment["metadata"]["labels"],
                                     deployment["spec"]["template"], service["metadata"]["labels"],
                                     service["spec"]["selector"], service["spec"]["ports"]});
    };
    const json::Value before = wanted();
    patch(kDeployments, name,
          R"({"metadata":{"labels":{"app":"x","app.kubernetes.io/part-of":null}}})");
    patch(kServices, name,
          R"({"metadata":{"labels":{"app":"x"}},"spec":{"selector":{"app":"x"}}})");
    ASSERT_TRUE(eventually([&] { return wanted() == before; })) << json::write(wanted());
    patch(kDeployments, name,
          R"({"spec":{"template":{"metadata":{"annotations":{"kaos.tools/pod-spec-hash":"x"}},
              "spec":{"automountServiceAccountToken":true}}}})");
    ASSERT_TRUE(eventually([&] { return wanted() == before; })) << json::write(wanted());
    patch(kServices, name,
          format(R"({{"spec":{{"ports":[{{"name":"http","port":{},"targetPort":9}}]}}}})",
                 before.at(4).at(0)["port"].integer()));
    ASSERT_TRUE(eventually([&] { return wanted() == before; })) << json::write(wanted());
  }
}

TEST_F(KaosClusterTest, WhatIsAddedByHandGoesAndMetadataAndReplicasStay) {
  makeAll();
  ASSERT_TRUE(becomes(kMcpServers, "echo", "Ready"));
  auto spec = [&](const kube::Resource& resource) {
    json::Value spec = (*get(resource, "mcpserver-echo"))["spec"];
    if (spec["template"].isObject())
      spec.make("template").make("metadata").makeObject().erase("annotations");
    spec.makeObject().erase("replicas");
    return spec;
  };
  const json::Value deployment = spec(kDeployments), service = spec(kServices);
  patch(kDeployments, "mcpserver-echo", R"({"spec":{"replicas":2,"template":{"metadata":
    {"annotations":{"kubectl.kubernetes.io/restartedAt":"now"}}}}})");
  // A list as a whole, as an editor would write it.
  auto withMore = [&](std::string_view list, std::string_view element) {
    json::Array all = deployment["template"]["spec"][list].array();
    all.push_back(*json::parse(element));
    return format(R"({{"spec":{{"template":{{"spec":{{"{}":{}}}}}}}}})", list, json::write(all));
  };
  for (const std::string& edit :
       {std::string(R"({"spec":{"paused":true}})"),
        std::string(R"({"spec":{"template":{"spec":{"hostNetwork":true,"hostPID":true}}}})"),
        std::string(R"({"spec":{"template":{"spec":{"serviceAccountName":"x"}}}})"),
        std::string(R"({"spec":{"template":{"spec":{"terminationGracePeriodSeconds":0}}}})"),
        withMore("volumes", R"({"name":"x","hostPath":{"path":"/"}})"),
        withMore("initContainers", R"({"name":"x","image":"y"})"),
        withMore("containers", R"({"name":"x","image":"y"})")}) {
    SCOPED_TRACE(edit);
    patch(kDeployments, "mcpserver-echo", edit);
    EXPECT_TRUE(eventually([&] { return spec(kDeployments) == deployment; }))
        << json::write(spec(kDeployments));
  }
  patch(kServices, "mcpserver-echo", R"({"spec":{"externalIPs":["1.2.3.4"],"type":"NodePort",
    "internalTrafficPolicy":"Local"}})");
  EXPECT_TRUE(eventually([&] { return spec(kServices) == service; }))
      << json::write(spec(kServices));
  json::Value after = (*get(kDeployments, "mcpserver-echo"))["spec"];
  EXPECT_EQ(after["replicas"].integer(), 2);
  EXPECT_EQ(
      after["template"]["metadata"]["annotations"]["kubectl.kubernetes.io/restartedAt"].string(),
      "now");
}

TEST_F(KaosClusterTest, OneThatWaitsForSomebodyElsesFinalizerIsNotReady) {
  makeAll();
  ASSERT_TRUE(becomes(kMcpServers, "echo", "Ready"));
  patch(kMcpServers, "echo", R"({"metadata":{"finalizers":["example.com/backup"]}})");
  remove(kMcpServers, "echo");
  ASSERT_TRUE(becomes(kMcpServers, "echo", "Pending"));
  EXPECT_TRUE(becomes(kAgents, "helper", "Waiting")) << "and who uses it knows";
  patch(kMcpServers, "echo", R"({"metadata":{"finalizers":null}})");
  EXPECT_TRUE(eventually([&] { return !get(kMcpServers, "echo"); }));
}

TEST_F(KaosClusterTest, AForeignDeploymentIsLeftAloneAndNamed) {
  create(kDeployments, parsed(format(
                           R"({{"metadata":{{"name":"mcpserver-echo","namespace":"{}"}},"spec":
    {{"selector":{{"matchLabels":{{"a":"b"}}}},"template":{{"metadata":{{"labels":{{"a":"b"}}}},
    "spec":{{"containers":[{{"name":"x","image":"x"}}]}}}}}}}})",
                           ns)));
  make(kMcpServers, "echo", R"({"mcp":"mcp-echo"})");
  ASSERT_TRUE(becomes(kMcpServers, "echo", "Failed"));
  json::Value is = status(kMcpServers, "echo");
  EXPECT_THAT(is["message"].string(), HasSubstr("mcpserver-echo exists already"));  // trap 6
  EXPECT_EQ((*get(kDeployments, "mcpserver-echo"))["spec"]["template"]["spec"]["containers"]
                .at(0)["image"]
                .string(),
            "x");
  remove(kDeployments, "mcpserver-echo");
  EXPECT_TRUE(becomes(kMcpServers, "echo", "Ready"));
}

TEST_F(KaosClusterTest, ARotatedSecretRollsThePodsAndAnAnnotationDoesNot) {
  make(kModelApis, "llm",
       R"({"mode":"Proxy","proxyConfig":{"models":["a"],"apiKey":{"valueFrom":
          {"secretKeyRef":{"name":"keys","key":"k"}}}}})");
  ASSERT_TRUE(becomes(kModelApis, "llm", "Waiting"));
  EXPECT_THAT(status(kModelApis, "llm")["message"].string(),
              HasSubstr("Secret \"keys\" not found"));
  create(kSecrets, json::Object{{"metadata", json::Object{{"name", "keys"}, {"namespace", ns}}},
                                {"stringData", json::Object{{"k", "one"}}}});
  ASSERT_TRUE(becomes(kModelApis, "llm", "Ready"));  // trap 10
  EXPECT_EQ(kube::generation(*get(kDeployments, "modelapi-llm")), 1);
  patch(kModelApis, "llm", R"({"metadata":{"annotations":{"note":"touched"}}})");
  patch(kSecrets, "keys", R"({"data":{"k":"dHdv"}})");  // trap 4
  EXPECT_TRUE(
      eventually([&] { return kube::generation(*get(kDeployments, "modelapi-llm")) == 2; }));
}

TEST_F(KaosClusterTest, ASecretOfAnImpossibleNameIsNotThere) {
  make(kModelApis, "llm",
       R"({"mode":"Proxy","proxyConfig":{"models":["a"],"apiKey":{"valueFrom":
          {"secretKeyRef":{"name":"a=b,c","key":"k"}}}}})");
  ASSERT_TRUE(becomes(kModelApis, "llm", "Waiting"));
  EXPECT_THAT(status(kModelApis, "llm")["message"].string(),
              HasSubstr("Secret \"a=b,c\" not found"));
}

TEST_F(KaosClusterTest, AnAgentIsNotToldToMakeTheKeyThatItsModelApiMakes) {
  make(kModelApis, "llm",
       R"({"mode":"Proxy","proxyConfig":{"models":["a"],"masterKey":{"generate":true},
          "apiKey":{"valueFrom":{"secretKeyRef":{"name":"nope","key":"k"}}}}})");
  make(kAgents, "helper", R"({"modelAPI":"llm","model":"a"})");
  ASSERT_TRUE(becomes(kAgents, "helper", "Waiting"));
  auto condition = kube::findCondition(*get(kAgents, "helper"), "ConfigReady");
  ASSERT_TRUE(condition);
  EXPECT_EQ(condition->reason, "KeyNotFound");
  EXPECT_THAT(condition->message, HasSubstr("ModelAPI \"llm\" has not made its key"));
}

TEST_F(KaosClusterTest, ToolsAreListedAndALostFinalizerOfTheOriginalGoes) {
  make(kMcpServers, "echo", R"({"mcp":"mcp-echo"})");
  patch(kMcpServers, "echo", R"({"metadata":{"finalizers":["kaos.tools/mcpserver-finalizer"]}})");
  ASSERT_TRUE(becomes(kMcpServers, "echo", "Ready"));
  EXPECT_TRUE(eventually([&] {  // trap 12
    return status(kMcpServers, "echo")["availableTools"] ==
           json::Value(json::Array{"echo", "reverse"});
  }));
  EXPECT_TRUE(eventually([&] { return kube::finalizers(*get(kMcpServers, "echo")).empty(); }));
}

TEST_F(KaosClusterTest, AMasterKeyIsMadeOnceAndStays) {
  make(kModelApis, "llm",
       R"({"mode":"Proxy","proxyConfig":{"models":["a"],"masterKey":{"generate":true}}})");
  ASSERT_TRUE(becomes(kModelApis, "llm", "Ready"));
  std::string key = (*get(kSecrets, "modelapi-llm-key"))["data"]["master-key"].string();
  EXPECT_GT(key.size(), 60u);
  EXPECT_EQ(kube::generation(*get(kDeployments, "modelapi-llm")), 1) << "the key comes first";
  patch(kModelApis, "llm", R"({"spec":{"proxyConfig":{"models":["a","b"]}}})");
  ASSERT_TRUE(
      eventually([&] { return kube::generation(*get(kDeployments, "modelapi-llm")) == 2; }));
  EXPECT_EQ((*get(kSecrets, "modelapi-llm-key"))["data"]["master-key"].string(), key);
  // Who deletes it gets another one, and the pods learn of it once.
  remove(kSecrets, "modelapi-llm-key");
  ASSERT_TRUE(
      eventually([&] { return kube::generation(*get(kDeployments, "modelapi-llm")) == 3; }));
  EXPECT_NE((*get(kSecrets, "modelapi-llm-key"))["data"]["master-key"].string(), key);
  ASSERT_TRUE(becomes(kModelApis, "llm", "Ready"));
  EXPECT_EQ(kube::generation(*get(kDeployments, "modelapi-llm")), 3);
  // So does who empties it.
  patch(kSecrets, "modelapi-llm-key", R"({"data":null})");
  EXPECT_TRUE(eventually([&] {
    auto secret = get(kSecrets, "modelapi-llm-key");
    return secret && (*secret)["data"]["master-key"].string().size() > 60;
  }));
}

TEST_F(KaosClusterTest, QuietWhenConverged) {
  makeAll();
  ASSERT_TRUE(becomes(kAgents, "helper", "Ready"));
  ASSERT_TRUE(eventually([&] {
    auto server = get(kMcpServers, "echo");
    return kube::isConditionTrue(*server, "ToolsDiscovered") && engine->idle();
  }));
  auto versions = [&] {
    std::vector<std::string> all;
    for (const kube::Resource& kind :
         {kAgents, kModelApis, kMcpServers, kDeployments, kServices, kConfigMaps})
      for (const json::Value& object : list({.select = {.ns = ns}}, kind))
        all.push_back(format("{}@{}", kube::name(object), kube::resourceVersion(object)));
    return all;
  };
  std::vector<std::string> before = versions();
  // Once more from nothing: it finds all as it should be.
  start();
  ASSERT_TRUE(loop.runUntil([&] { return engine->synced() && engine->idle(); }, kSoon));
  bool passed = false;
  Pending timer = loop.after(1s, [&] { passed = true; });
  loop.runUntil([&] { return passed && engine->idle(); }, kSoon);
  EXPECT_EQ(versions(), before);
}

// ---- Admission

class KaosAdmissionTest : public ClusterTest {
 protected:
  // A webhook server of its own for one kind.
  void judge(const kube::Resource& resource, std::vector<engine::Validator> validators) {
    name = format("cadre-{}-{}", ns, resource.plural);
    auto opened = engine::WebhookServer::open(
        loop, *client, random,
        {.address = "127.0.0.1:0",
         .validators = std::move(validators),
         .keys = {.secret = {ns, "keys"}, .configuration = name, .names = {"127.0.0.1"}}});
    ASSERT_TRUE(opened) << opened.error().text();
    webhook = *std::move(opened);
    create(kWebhooks, webhookFor(name, resource, webhook->port(), ns));
  }
  void TearDown() override {
    (void)run([&](auto done) { return client->remove(kWebhooks, {"", name}, {}, done); });
  }
  void install(const kube::Kind& kind) {
    must([&](auto done) {
      return client->apply(kCrds, kube::crd(kind), {.force = true}, std::move(done));
    });
    ASSERT_TRUE(eventually([&] { return isServed(kind.resource()); }));
  }

  std::string name;
  std::unique_ptr<engine::WebhookServer> webhook;
};

// What schema and CEL let through, and we do not.
TEST_F(KaosAdmissionTest, TheWebhookRefusesWhatOnlyWeSee) {
  int refused = 0;
  for (auto [kind, file] : {std::pair{&agentKind(), "agent"},
                            {&modelApiKind(), "modelapi"},
                            {&mcpServerKind(), "mcpserver"}}) {
    install(*kind);
    judge(kind->resource(), validators({}));
    bool judged = false;
    for (const kube::SchemaCase& c :
         kube::loadSchemaCases(format("{}/kaos-{}.yaml", CADRE_SCHEMAS, file), *kind)) {
      if (c.native.empty() || !c.errors.empty() || !c.before.isNull()) continue;
      SCOPED_TRACE(c.title);
      json::Value object = c.object;
      object.make("metadata").make("namespace") = ns;
      auto show = [&] {
        return run([&](auto done) {
          return client->create(kind->resource(), object,
                                {.dry_run = true, .field_validation = "Ignore"}, std::move(done));
        });
      };
      // The API server learns of the webhook and its authority a moment later.
      auto known = [&] {
        auto answer = show();
        return !answer && answer.error().code == Code::InvalidArgument;
      };
      ASSERT_TRUE(std::exchange(judged, true) || eventually(known));
      auto answer = show();
      ASSERT_FALSE(answer);
      std::vector<std::string> found;
      for (const Detail& cause : answer.error().details)
        found.push_back(cause.field.empty() ? cause.message : cause.field + ": " + cause.message);
      EXPECT_EQ(kube::differences(found, c.native), "") << answer.error().text();
      ++refused;
    }
    EXPECT_TRUE(judged);
    TearDown();
  }
  EXPECT_GE(refused, 14) << "the tables have lost some";
}

// Trap 41, of the operator's half: who may write these objects cannot borrow a service account.
TEST_F(KaosAdmissionTest, Trap41AServiceAccountNeedsARequesterWhoMayCreatePods) {
  install(mcpServerKind());
  judge(kMcpServers, validators({}));
  const kube::Resource roles{"rbac.authorization.k8s.io", "v1", "roles", "Role"};
  const kube::Resource bindings{"rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding"};
  auto allow = [&](std::string_view user, std::string_view role, std::string_view rules) {
    create(roles, json::Object{{"metadata", json::Object{{"name", role}, {"namespace", ns}}},
                               {"rules", parsed(rules)}});
    create(bindings,
           json::Object{
               {"metadata", json::Object{{"name", role}, {"namespace", ns}}},
               {"roleRef",
                json::Object{
                    {"apiGroup", "rbac.authorization.k8s.io"}, {"kind", "Role"}, {"name", role}}},
               {"subjects", json::Array{json::Object{{"apiGroup", "rbac.authorization.k8s.io"},
                                                     {"kind", "User"},
                                                     {"name", user}}}}});
  };
  const std::string_view writer =
      R"([{"apiGroups":["kaos.tools"],"resources":["*"],"verbs":["*"]}])";
  allow("ann", "ann", writer);
  allow("bob", "bob", writer);
  allow("bob", "pods", R"([{"apiGroups":[""],"resources":["pods"],"verbs":["create"]}])");
  auto as = [&](std::string user) {
    auto config = kube::loadConfig({.kubeconfig = environment("CADRE_TEST_KUBECONFIG"), .env = {}});
    config->impersonate.user = std::move(user);
    return *kube::Client::connect(loop, *config);
  };
  auto ann = as("ann"), bob = as("bob");
  auto make = [&](kube::Client& who, std::string_view name, std::string_view spec) {
    return run([&](auto done) {
      return who.create(kMcpServers,
                        json::Object{{"apiVersion", kMcpServers.apiVersion()},
                                     {"kind", "MCPServer"},
                                     {"metadata", json::Object{{"name", name}, {"namespace", ns}}},
                                     {"spec", parsed(spec)}},
                        {}, std::move(done));
    });
  };
  auto patch = [&](kube::Client& who, std::string_view name, std::string_view body) {
    return run([&](auto done) {
      return who.patch(kMcpServers, {ns, std::string(name)}, kube::PatchType::Merge, parsed(body),
                       {}, std::move(done));
    });
  };
  const std::string_view lent = R"({"runtime":"kubernetes","serviceAccountName":"admin"})";
  ASSERT_TRUE(eventually([&] {
    auto made = make(*ann, "a", lent);
    return !made && made.error().code == Code::InvalidArgument;
  }));
  for (std::string_view spec :
       {lent,
        std::string_view(R"({"runtime":"kubernetes","podSpec":{"serviceAccountName":"admin"}})"),
        std::string_view(R"({"runtime":"kubernetes","podSpec":{"serviceAccount":"admin"}})"),
        std::string_view(
            R"({"mcp":"a","podSpec":{"volumes":[{"name":"v","secret":{"secretName":"s"}}]}})")}) {
    auto made = make(*ann, "a", spec);
    ASSERT_FALSE(made) << spec;
    EXPECT_THAT(made.error().text(), HasSubstr("only who may create pods in this namespace"));
  }
  EXPECT_TRUE(make(*ann, "plain", R"({"runtime":"kubernetes"})"));
  auto made = make(*bob, "b", lent);
  ASSERT_TRUE(made) << made.error().text();
  EXPECT_FALSE(patch(*ann, "b", R"({"spec":{"params":"do as I say"}})"));
  EXPECT_TRUE(patch(*ann, "b", R"({"metadata":{"labels":{"a":"b"}}})")) << "nothing that runs";
  EXPECT_TRUE(patch(*bob, "b", R"({"spec":{"params":"x"}})"));
}

TEST(KaosSchemas, TheServerAgrees) {
  std::string group = format("kaos-{}.cadre.dev", ::getpid());  // nobody else's
  auto expect = [](kube::Kind kind, std::string_view file) {
    SCOPED_TRACE(file);
    kube::SchemaServer server(std::move(kind));
    server.expectSameAnswers(
        kube::loadSchemaCases(format("{}/kaos-{}.yaml", CADRE_SCHEMAS, file), server.kind));
  };
  expect(makeAgentKind(group), "agent");
  expect(makeModelApiKind(group), "modelapi");
  expect(makeMcpServerKind(group), "mcpserver");
}

}  // namespace
}  // namespace cadre::kaos
