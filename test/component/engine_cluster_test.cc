// The engine against a real kube-apiserver, with a kind of its own: a Lamp, whose children are
// ConfigMaps (one per bulb), a Deployment, and whatever else a test asks for.
#include <gmock/gmock.h>

#include "component/cluster_fixture.h"
#include "engine/engine.h"
#include "kube/discovery.h"

namespace cadre::engine {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const kube::Resource kLamps{
    .group = "test.cadre.dev", .version = "v1", .plural = "lamps", .kind = "Lamp"};
const kube::Resource kSecrets{.version = "v1", .plural = "secrets", .kind = "Secret"};
const kube::Resource kMissing{
    .group = "test.cadre.dev", .version = "v1", .plural = "sockets", .kind = "Socket"};

json::Value metadata(const json::Value& owner, std::string_view suffix) {
  return json::Object{{"name", format("{}-{}", kube::name(owner), suffix)},
                      {"namespace", kube::ns(owner)}};
}

json::Value dataView(const json::Value& object) { return object["data"]; }

struct Lamp {
  int runs = 0;

  Plan plan(const json::Value& lamp, World& world) {
    ++runs;
    Plan plan;
    const json::Value& spec = lamp["spec"];
    if (const std::string& from = spec["from"].string(); !from.empty()) {
      const json::Value& settings =
          world.get(kConfigMaps, {std::string(kube::ns(lamp)), from}, {"data", dataView});
      if (settings.isNull()) {
        plan.condition("Ready", false, "ConfigMapNotFound", from);
        plan.hold = true;
        return plan;
      }
      plan.status.set("from", settings["color"]);
    }
    if (const std::string& key = spec["key"].string(); !key.empty())
      plan.status.set("keyHash",
                      world.get(kSecrets, {std::string(kube::ns(lamp)), key})["data"]["key"]);
    for (std::int64_t i = 0; i < spec["bulbs"].integer(); ++i)
      plan.child(kConfigMaps, json::Object{{"metadata", metadata(lamp, format("bulb-{}", i))},
                                           {"data", json::Object{{"color", spec["color"]}}}});
    if (spec["stand"].isObject()) {
      std::string app(kube::name(lamp));
      json::Value stand = parsed(R"({"spec":{"selector":{"matchLabels":{}},"template":
        {"metadata":{"labels":{}},"spec":{"containers":[{"name":"main","image":"main:1"}]}}}})");
      stand.make("metadata") = metadata(lamp, "stand");
      stand.make("spec").make("selector").make("matchLabels").make("app") = app;
      stand.make("spec").make("template").make("metadata").make("labels").make("app") = app;
      json::Value& container =
          stand.make("spec").make("template").make("spec").make("containers").makeArray()[0];
      for (const auto& [field, value] : spec["stand"].object()) container.make(field) = value;
      if (!spec["size"].isNull()) stand.make("spec").make("replicas") = spec["size"];
      plan.child(kDeployments, stand);
    }
    for (const json::Value& extra : spec["extra"].array())
      plan.child(kConfigMaps, json::Object{{"metadata", metadata(lamp, extra.string())}});
    if (spec["finalizer"].boolean()) plan.finalizer = "test.cadre.dev/lamp";
    plan.foreign_finalizers = {"test.cadre.dev/old"};
    if (spec["socket"].boolean()) plan.status.set("sockets", world.serves(kMissing));
    if (const std::string& ask = spec["ask"].string(); !ask.empty()) {
      const Fact& fact = world.observe({"echo", ask});
      plan.status.set("answer", fact.known ? fact.value : json::Value("not yet"));
    }
    for (const Trouble& trouble : world.troubles())
      plan.condition("Accepted", false, trouble.reason, trouble.message);
    if (plan.conditions.empty()) plan.condition("Accepted", true, "Valid");
    plan.condition("Ready", plan.holds("Accepted"), "Lit");
    return plan;
  }
};

class EngineClusterTest : public ClusterTest {
 protected:
  void SetUp() override {
    ClusterTest::SetUp();
    auto made = run([&](auto done) {
      return client->create(kCrds, parsed(R"({"metadata":{"name":"lamps.test.cadre.dev"},"spec":
        {"group":"test.cadre.dev","scope":"Namespaced","names":{"plural":"lamps","kind":"Lamp"},
        "versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{}},"schema":
        {"openAPIV3Schema":{"type":"object","properties":{
         "spec":{"type":"object","x-kubernetes-preserve-unknown-fields":true},
         "status":{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{
           "conditions":{"type":"array","x-kubernetes-list-type":"map",
             "x-kubernetes-list-map-keys":["type"],"items":{"type":"object","required":["type"],
             "x-kubernetes-preserve-unknown-fields":true,
             "properties":{"type":{"type":"string"}}}}}}}}}}]}})"),
                            {}, std::move(done));
    });
    if (!made) {
      ASSERT_EQ(made.error().code, Code::AlreadyExists) << made.error().text();
    }
    ASSERT_TRUE(eventually([&] { return isServed(kLamps); }));
  }

  std::unique_ptr<Engine> start(bool leads = true) {
    EngineOptions options;
    options.namespaces = {ns};
    options.kinds.push_back({.resource = kLamps,
                             .plan = [this](const json::Value& object,
                                            World& world) { return lamp.plan(object, world); },
                             .conditions = {"Accepted", "Ready"}});
    options.scopes = {{.resource = kConfigMaps, .named = true},
                      {.resource = kDeployments},
                      {.resource = kSecrets, .which = Scope::Which::None, .named = true},
                      {.resource = kMissing}};
    if (std::getenv("CADRE_TEST_LOG")) options.logger = &logger;
    options.hash_secret = [](std::string_view value) { return format("hash of {}", value.size()); };
    options.observations.push_back(
        {.name = "echo", .look = [this](const json::Value& input, auto done) {
           return loop.after(0s, [input, done = std::move(done)] { done(input); });
         }});
    auto engine = std::make_unique<Engine>(*client, random, std::move(options));
    engine->lead(leads);
    EXPECT_TRUE(loop.runUntil([&] { return engine->synced(); }, kSoon));
    return engine;
  }

  json::Value makeLamp(std::string_view name, std::string_view spec) {
    return create(kLamps,
                  json::Object{{"apiVersion", "test.cadre.dev/v1"},
                               {"kind", "Lamp"},
                               {"metadata", json::Object{{"name", name}, {"namespace", ns}}},
                               {"spec", parsed(spec)}});
  }
  void patch(const kube::Resource& resource, std::string_view name, std::string_view merge) {
    must([&](auto done) {
      return client->patch(resource, {ns, std::string(name)}, kube::PatchType::Merge, parsed(merge),
                           {.field_manager = "somebody"}, std::move(done));
    });
  }
  void remove(const kube::Resource& resource, std::string_view name) {
    must([&](auto done) {
      return client->remove(resource, {ns, std::string(name)}, {}, std::move(done));
    });
  }
  std::vector<std::string> bulbs() {
    std::vector<std::string> names;
    for (const json::Value& object : list({.select = {.ns = ns, .labels = "cadre.dev/owner-uid"}}))
      names.push_back(format("{}={}", kube::name(object), object["data"]["color"].string()));
    return names;
  }
  // What it says, once it has been told of the newest spec.
  bool says(std::string_view name, std::string_view type, std::string_view reason) {
    auto object = get(kLamps, name);
    if (!object || (*object)["status"]["observedGeneration"].integer() != kube::generation(*object))
      return false;
    auto condition = kube::findCondition(*object, type);
    return condition && condition->reason == reason;
  }

  Lamp lamp;
  Logger logger{loop.clock(), {.level = LogLevel::Debug}, Logger::stderrSink()};
};

TEST_F(EngineClusterTest, MakesWhatAPlanSaysAndIsThenQuiet) {
  makeLamp("desk", R"({"bulbs":2,"color":"red","stand":{}})");
  auto engine = start();
  ASSERT_TRUE(eventually([&] { return says("desk", "Ready", "Lit") && engine->idle(); }));
  EXPECT_THAT(bulbs(), ElementsAre("desk-bulb-0=red", "desk-bulb-1=red"));
  json::Value stand = *get(kDeployments, "desk-stand");
  EXPECT_EQ(kube::label(stand, kManagedBy), "cadre");
  EXPECT_EQ(kube::controllerOf(stand)->name, "desk");
  EXPECT_EQ(stand["spec"]["template"]["metadata"]["labels"][kManagedBy].string(), "cadre");

  std::string version(kube::resourceVersion(*get(kLamps, "desk")));
  int runs = lamp.runs;
  engine = start();  // once more, from nothing
  ASSERT_TRUE(eventually([&] { return engine->idle() && lamp.runs > runs; }));
  EXPECT_EQ(kube::resourceVersion(*get(kLamps, "desk")), version);
  EXPECT_EQ(kube::resourceVersion(*get(kDeployments, "desk-stand")), kube::resourceVersion(stand));
}

TEST_F(EngineClusterTest, RepairsWhatOthersDo) {
  makeLamp("desk", R"({"bulbs":2,"color":"red","stand":{}})");
  auto engine = start();
  ASSERT_TRUE(eventually([&] { return says("desk", "Ready", "Lit"); }));
  patch(kConfigMaps, "desk-bulb-0", R"({"data":{"color":"blue"}})");
  EXPECT_TRUE(eventually([&] { return bulbs()[0] == "desk-bulb-0=red"; }));
  remove(kConfigMaps, "desk-bulb-1");
  EXPECT_TRUE(eventually([&] { return bulbs().size() == 2; }));
  // Without our label it is out of sight, but still ours: its owner says so.
  patch(kConfigMaps, "desk-bulb-1", R"({"metadata":{"labels":null}})");
  EXPECT_TRUE(eventually([&] { return bulbs().size() == 2; }));
  // A field that we do not mean is nobody's business of ours.
  patch(kDeployments, "desk-stand", R"({"spec":{"replicas":3}})");
  patch(kDeployments, "desk-stand",
        R"({"spec":{"template":{"spec":{"containers":[{"name":"main","image":"main:2"}]}}}})");
  EXPECT_TRUE(eventually([&] {
    return get(kDeployments, "desk-stand")
               ->operator[]("spec")["template"]["spec"]["containers"]
               .at(0)["image"]
               .string() == "main:1";
  }));
  EXPECT_EQ((*get(kDeployments, "desk-stand"))["spec"]["replicas"].integer(), 3);
}

TEST_F(EngineClusterTest, ReplicasThatAreNoLongerSetAreLeftAsTheyAre) {
  makeLamp("desk", R"({"stand":{},"size":3})");
  auto engine = start();
  ASSERT_TRUE(eventually([&] { return says("desk", "Ready", "Lit"); }));
  auto replicas = [&] { return (*get(kDeployments, "desk-stand"))["spec"]["replicas"].integer(); };
  auto image = [&] {
    return (*get(kDeployments, "desk-stand"))["spec"]["template"]["spec"]["containers"]
        .at(0)["image"]
        .string();
  };
  EXPECT_EQ(replicas(), 3);
  // As it was made, and as it was applied.
  for (std::string_view next : {"main:2", "main:3"}) {
    patch(kLamps, "desk", format(R"({{"spec":{{"size":null,"stand":{{"image":"{}"}}}}}})", next));
    ASSERT_TRUE(eventually([&] { return image() == next; }));
    EXPECT_EQ(replicas(), 3);
    patch(kDeployments, "desk-stand", R"({"spec":{"replicas":5}})");
    patch(kLamps, "desk", R"({"spec":{"size":3}})");
    ASSERT_TRUE(eventually([&] { return replicas() == 3; })) << "ours again";
  }
}

TEST_F(EngineClusterTest, DropsWhatIsNoLongerWanted) {
  makeLamp("desk", R"({"bulbs":3,"color":"red","stand":{"workingDir":"/tmp","args":["a"]}})");
  auto engine = start();
  ASSERT_TRUE(eventually([&] { return says("desk", "Ready", "Lit"); }));
  patch(kLamps, "desk", R"({"spec":{"bulbs":1,"stand":{"workingDir":null,"args":null}}})");
  ASSERT_TRUE(eventually([&] { return says("desk", "Ready", "Lit") && engine->idle(); }));
  EXPECT_THAT(bulbs(), ElementsAre("desk-bulb-0=red"));
  json::Value container =
      (*get(kDeployments, "desk-stand"))["spec"]["template"]["spec"]["containers"].at(0);
  EXPECT_TRUE(container["workingDir"].isNull()) << "a field that a POST wrote is dropped, too";
  EXPECT_TRUE(container["args"].isNull());
  // And a second time, now that it was applied.
  patch(kLamps, "desk", R"({"spec":{"stand":{"workingDir":"/srv"}}})");
  ASSERT_TRUE(eventually([&] { return says("desk", "Ready", "Lit") && engine->idle(); }));
  patch(kLamps, "desk", R"({"spec":{"stand":{"workingDir":null}}})");
  ASSERT_TRUE(eventually([&] { return says("desk", "Ready", "Lit") && engine->idle(); }));
  EXPECT_TRUE((*get(kDeployments, "desk-stand"))["spec"]["template"]["spec"]["containers"]
                  .at(0)["workingDir"]
                  .isNull());
}

TEST_F(EngineClusterTest, LeavesWhatBelongsToOthersAlone) {
  json::Value foreign =
      create(kConfigMaps,
             json::Object{{"metadata", json::Object{{"name", "desk-bulb-0"}, {"namespace", ns}}},
                          {"data", json::Object{{"color", "green"}}}});
  makeLamp("desk", R"({"bulbs":2,"color":"red"})");
  auto engine = start();
  ASSERT_TRUE(eventually([&] { return says("desk", "Accepted", "NameConflict"); }));
  EXPECT_THAT(kube::findCondition(*get(kLamps, "desk"), "Accepted")->message,
              HasSubstr("desk-bulb-0 exists already and was not made by cadre"));
  EXPECT_THAT(bulbs(), ElementsAre("desk-bulb-1=red"));
  EXPECT_EQ(kube::resourceVersion(*get(kConfigMaps, "desk-bulb-0")),
            kube::resourceVersion(foreign));
  remove(kConfigMaps, "desk-bulb-0");
  EXPECT_TRUE(eventually([&] { return says("desk", "Accepted", "Valid"); }));
  EXPECT_THAT(bulbs(), ElementsAre("desk-bulb-0=red", "desk-bulb-1=red"));
}

TEST_F(EngineClusterTest, HoldsUntilWhatItReadsIsThere) {
  makeLamp("desk", R"({"bulbs":1,"color":"red","from":"settings"})");
  auto engine = start();
  ASSERT_TRUE(eventually([&] { return says("desk", "Ready", "ConfigMapNotFound"); }));
  EXPECT_THAT(bulbs(), IsEmpty());
  create(kConfigMaps,
         json::Object{{"metadata", json::Object{{"name", "settings"}, {"namespace", ns}}},
                      {"data", json::Object{{"color", "warm"}}}});
  ASSERT_TRUE(eventually([&] { return says("desk", "Ready", "Lit") && engine->idle(); }));
  EXPECT_EQ((*get(kLamps, "desk"))["status"]["from"].string(), "warm");

  int runs = lamp.runs;
  patch(kConfigMaps, "settings", R"({"metadata":{"labels":{"nobody":"reads"}}})");
  patch(kConfigMaps, "settings", R"({"data":{"color":"cold"}})");
  ASSERT_TRUE(
      eventually([&] { return (*get(kLamps, "desk"))["status"]["from"].string() == "cold"; }));
  EXPECT_EQ(lamp.runs, runs + 1) << "a change that the view does not show wakes nobody";

  remove(kConfigMaps, "settings");
  ASSERT_TRUE(eventually([&] { return says("desk", "Ready", "ConfigMapNotFound"); }));
  EXPECT_THAT(bulbs(), ElementsAre("desk-bulb-0=red")) << "what runs stays";
}

TEST_F(EngineClusterTest, TellsWhatTheServerRefuses) {
  makeLamp("desk", R"({"bulbs":1,"color":"red","extra":["Not_A_Name"]})");
  auto engine = start();
  ASSERT_TRUE(eventually([&] { return says("desk", "Accepted", "ChildRejected"); }));
  EXPECT_THAT(kube::findCondition(*get(kLamps, "desk"), "Accepted")->message,
              HasSubstr("metadata.name"));
  EXPECT_THAT(bulbs(), ElementsAre("desk-bulb-0=red")) << "the others are made all the same";
  patch(kLamps, "desk", R"({"spec":{"extra":null}})");
  EXPECT_TRUE(eventually([&] { return says("desk", "Accepted", "Valid"); }));
  EXPECT_TRUE(eventually([&] {  // one for each condition that changed its mind
    std::set<std::string> reasons;
    for (const json::Value& event :
         list({.select = {.ns = ns, .fields = "involvedObject.name=desk"}},
              {.version = "v1", .plural = "events", .kind = "Event"}))
      reasons.insert(event["reason"].string());
    return reasons == std::set<std::string>{"Valid", "Lit"};
  }));
}

TEST_F(EngineClusterTest, SecretsAreKnownByTheirHash) {
  create(kSecrets, json::Object{{"metadata", json::Object{{"name", "door"}, {"namespace", ns}}},
                                {"stringData", json::Object{{"key", "sesame"}}}});
  makeLamp("desk", R"({"key":"door"})");
  auto engine = start();
  EXPECT_TRUE(eventually([&] {
    return (*get(kLamps, "desk"))["status"]["keyHash"].string() == "hash of 8";  // in base64
  }));
}

TEST_F(EngineClusterTest, WritesNothingUnlessItLeads) {
  makeLamp("desk", R"({"bulbs":1,"color":"red"})");
  auto engine = start(/*leads=*/false);
  ASSERT_TRUE(eventually([&] { return lamp.runs > 0 && engine->idle(); }));
  EXPECT_THAT(bulbs(), IsEmpty());
  EXPECT_TRUE((*get(kLamps, "desk"))["status"].isNull());
  engine->lead(true);
  EXPECT_TRUE(eventually([&] { return says("desk", "Ready", "Lit"); }));
}

TEST_F(EngineClusterTest, FinalizersComeFirstAndGoLast) {
  json::Value made = makeLamp("desk", R"({"bulbs":1,"color":"red","finalizer":true})");
  patch(kLamps, "desk", R"({"metadata":{"finalizers":["test.cadre.dev/old"]}})");
  auto engine = start();
  ASSERT_TRUE(eventually([&] { return says("desk", "Ready", "Lit"); }));
  EXPECT_THAT(kube::finalizers(*get(kLamps, "desk")), ElementsAre("test.cadre.dev/lamp"));
}

TEST_F(EngineClusterTest, KindsThatAreNotServedAndSlowFacts) {
  makeLamp("desk", R"({"socket":true,"ask":"the time"})");
  auto engine = start();
  EXPECT_TRUE(eventually([&] {
    json::Value status = (*get(kLamps, "desk"))["status"];
    return status["answer"].string() == "the time" && status["sockets"] == json::Value(false);
  }));
}

}  // namespace
}  // namespace cadre::engine
