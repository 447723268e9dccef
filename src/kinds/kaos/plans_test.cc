// Plans as tables: objects in, objects out. A case is a document of a file in test/kaos/plans:
//   title, settings, facts, troubles     what holds beside the objects
//   world, object                        what exists; names stand for objects of the file's `given`
//   expect                               what the plan must return, as `differences` compares
//   same, rolls, stays                   patches of the case that give the same children, other
//                                        pods, the same pods
#include "kinds/kaos/plans.h"

#include <filesystem>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/format.h"
#include "engine/draft.h"
#include "engine/reconcile.h"
#include "engine/testing/plan_table.h"
#include "json/diff.h"
#include "json/patch.h"
#include "json/random_value.h"
#include "json/write.h"
#include "json/yaml.h"
#include "kube/names.h"
#include "kube/testing/large.h"
#include "kube/testing/schema_table.h"
#include "kube/validate.h"

namespace cadre::kaos {
namespace {

namespace fs = std::filesystem;

// What is known beside the objects.
class Surroundings final : public engine::Source {
 public:
  std::map<std::string, engine::Fact> facts;
  json::Value asked;  // of what was observed last
  bool gateway_api = true;

  State state(const engine::Ref& ref) override { return state(ref.resource); }
  State state(const kube::Resource& resource) override {
    return resource == kHttpRoutes && !gateway_api ? State::NotServed : State::Known;
  }
  std::optional<json::Value> find(const engine::Ref&) override { return std::nullopt; }
  std::vector<kube::ObjectKey> keys(const kube::Resource&, const engine::Index&,
                                    const std::string&) override {
    return {};
  }
  engine::Fact observe(const engine::Observation& observation) override {
    asked = observation.input;
    return facts[observation.what];
  }
};

const kube::Resource& resourceOf(const json::Value& object) {
  for (const kube::Resource* resource : {&kAgents, &kModelApis, &kMcpServers, &kDeployments,
                                         &kServices, &kConfigMaps, &kSecrets, &kPods, &kHttpRoutes})
    if (resource->kind == object["kind"].string()) return *resource;
  ADD_FAILURE() << "no such kind: " << object["kind"].string();
  return kAgents;
}

engine::Plan planOf(const json::Value& object, engine::World& world, const Settings& settings) {
  const std::string& kind = object["kind"].string();
  if (kind == "Agent") return planAgent(object, world, settings);
  if (kind == "ModelAPI") return planModelApi(object, world, settings);
  return planMcpServer(object, world, settings);
}

const kube::Kind& kindOf(const json::Value& object) {
  const std::string& kind = object["kind"].string();
  return kind == "Agent" ? agentKind() : kind == "ModelAPI" ? modelApiKind() : mcpServerKind();
}

Settings settingsFrom(const json::Value& given) {
  Settings settings;
  settings.gateway = given["gateway"].boolean();
  settings.telemetry = given["telemetry"].boolean();
  settings.telemetry_endpoint = given["telemetryEndpoint"].string();
  if (!given["clusterDomain"].isNull()) settings.cluster_domain = given["clusterDomain"].string();
  if (!given["logLevel"].isNull()) settings.log_level = given["logLevel"].string();
  return settings;
}

// A case of a table, ready to be planned. `given`: objects that its world names.
struct Case {
  Case(const json::Value& test, const json::Value& given)
      : settings(settingsFrom(test["settings"])), owner(kube::name(test["object"])) {
    around.gateway_api = !test["settings"]["gatewayApiMissing"].boolean();
    for (const auto& [what, fact] : test["facts"].object())
      around.facts[what] = {.known = !fact["value"].isNull(),
                            .value = fact["value"],
                            .error = fact["error"].string()};
    for (const json::Value& one : test["world"].array())
      add(one.isString() ? given[one.string()] : one);
    add(test["object"]);
    for (const json::Value& trouble : test["troubles"].array())
      troubles.push_back({{}, trouble["reason"].string(), trouble["message"].string()});
  }

  const json::Value& object() const { return draft.at(self); }
  json::Value plan(Duration later = 0s) {
    engine::World world(draft, FakeClock().now() + later, troubles);
    json::Value plan = engine::shown(planOf(object(), world, settings));
    if (!around.asked.isNull()) plan.make("asks") = around.asked;
    return plan;
  }

  Surroundings around;
  engine::Draft draft{&around};
  engine::Ref self;  // what is planned
  Settings settings;
  std::string owner;  // of what is there
  std::vector<engine::Trouble> troubles;

 private:
  void add(json::Value object) {
    json::Value& metadata = object.make("metadata");
    if (metadata["namespace"].isNull()) metadata.make("namespace") = "ns";
    if (metadata["uid"].isNull()) metadata.make("uid") = std::string(kube::name(object));
    if (metadata["generation"].isNull()) metadata.make("generation") = 1;
    metadata.make("resourceVersion") = "1";
    const kube::Resource& resource = resourceOf(object);
    // Ours, unless it says whose it is.
    if ((resource == kDeployments || resource == kHttpRoutes) && metadata["labels"].isNull())
      metadata.make("labels").make(engine::kOwnerUid) = owner;
    object.make("apiVersion") = resource.apiVersion();
    if (resource.group == "kaos.tools") object = kube::withDefaults(kindOf(object), object);
    self = {resource, kube::ObjectKey::of(object)};
    draft.put(self, std::move(object));
  }
};

const json::Value& podHash(const json::Value& plan) {
  static const json::Value kNone;
  for (const json::Value& child : plan["children"].array())
    if (child["kind"].string() == "Deployment")
      return child["spec"]["template"]["metadata"]["annotations"]["kaos.tools/pod-spec-hash"];
  return kNone;
}

void runCase(const json::Value& test, const json::Value& given) {
  for (const auto& [key, value] : test.object())
    EXPECT_THAT((std::vector<std::string>{"title", "settings", "facts", "troubles", "world",
                                          "object", "expect", "same", "rolls", "stays"}),
                testing::Contains(key));
  Case one(test, given);
  json::Value plan = one.plan();
  EXPECT_THAT(engine::differences(test["expect"], plan, "plan"), testing::IsEmpty());

  // The same input gives the same output, whenever it is.
  EXPECT_EQ(one.plan(1000h), plan) << json::formatDiff(json::diff(plan, one.plan(1000h)));

  // The case with something else in it: the same children, other pods, or the same pods.
  auto children = [&](const json::Value& change) {
    json::Value all = Case(json::applyMergePatch(test, change), given).plan();
    EXPECT_FALSE(podHash(all).isNull()) << json::write(change) << json::writeYaml(all);
    return all;
  };
  for (const json::Value& change : test["same"].array())
    EXPECT_EQ(children(change)["children"], plan["children"])
        << json::write(change)
        << json::formatDiff(json::diff(plan["children"], children(change)["children"]));
  for (const json::Value& change : test["rolls"].array())
    EXPECT_NE(podHash(children(change)), podHash(plan)) << json::write(change);
  for (const json::Value& change : test["stays"].array())
    EXPECT_EQ(podHash(children(change)), podHash(plan)) << json::write(change);
}

// What the server would not take, or nobody could mean.
void expectSound(const json::Value& child) {
  EXPECT_EQ(kube::checkDnsLabel(child["metadata"]["name"].string()), std::nullopt);
  const json::Value& pod = child["spec"]["template"]["spec"];
  for (std::string_view list : {"initContainers", "containers"})
    for (const json::Value& container : pod[list].array()) {
      EXPECT_FALSE(container["image"].string().empty()) << json::write(container);
      std::set<std::string> names;
      for (const json::Value& variable : container["env"].array())
        EXPECT_TRUE(names.insert(variable["name"].string()).second) << json::write(container);
    }
}

class KaosPlan : public testing::TestWithParam<fs::path> {};

TEST_P(KaosPlan, Holds) {
  engine::PlanTable table(GetParam());
  EXPECT_FALSE(table.cases.empty());
  for (const json::Document& one : table.cases) {
    SCOPED_TRACE(
        format("{}:{}: {}", GetParam().filename().string(), one.line, one.value["title"].string()));
    runCase(kube::enlarged(one.value), table.given);
  }
}

// Whatever got past admission, into the object or into those beside it, is told in a condition:
// nothing breaks, nothing is made of what is not valid, and what the status says fits together.
TEST_P(KaosPlan, OfHostileObjectsTellsWhatIsWrong) {
  engine::PlanTable table(GetParam());
  int refused = 0, accepted = 0;
  for (std::uint32_t seed = 1; seed <= 30 && !HasFailure(); ++seed)
    for (const json::Document& one : table.cases) {
      json::Mutations mutations(seed * 10'000 + static_cast<std::uint32_t>(one.line));
      json::Value test = one.value;
      json::Array& world = test.make("world").makeArray();
      for (json::Value& other : world)
        if (other.isString()) other = table.given[other.string()];
      for (std::size_t n = 1 + mutations.below(3); n > 0; --n) {
        json::Value& target = mutations.below(4) == 0 && !world.empty()
                                  ? world[mutations.below(world.size())]
                                  : test.make("object");
        std::string_view parts[] = {"spec", "spec", "spec", "status", "data"};
        if (std::string_view part = parts[mutations.below(5)]; !target[part].isNull())
          mutations.apply(target.make(part));
      }
      SCOPED_TRACE(format("{}:{}, seed {}: {}", GetParam().filename().string(), one.line, seed,
                          json::write(test)));
      Case hostile(test, table.given);
      json::Value plan = hostile.plan();
      EXPECT_EQ(hostile.plan(1000h), plan);
      if (kube::isDeleting(hostile.object())) continue;
      const json::Value &conditions = plan["conditions"], &status = plan["status"];
      bool valid = kube::validate(kindOf(hostile.object()), hostile.object()).ok();
      if (!valid) {
        EXPECT_THAT(conditions["Accepted"].string(), testing::StartsWith("False Invalid"));
        EXPECT_EQ(status["phase"].string(), "Failed");
        EXPECT_TRUE(plan["hold"].boolean() && plan["children"].isNull());
      }
      ++(valid ? accepted : refused);
      EXPECT_TRUE(conditions["Accepted"].isString() && conditions["WorkloadReady"].isString());
      EXPECT_EQ(status["ready"].boolean(), status["phase"].string() == "Ready");
      EXPECT_EQ(status["ready"].boolean(), conditions["Ready"].string().starts_with("True"));
      EXPECT_EQ(plan["hold"].boolean(), plan["children"].isNull());
      for (const json::Value& child : plan["children"].array()) expectSound(child);
    }
  EXPECT_GT(accepted, 100);
  EXPECT_GT(refused, 100);
}

INSTANTIATE_TEST_SUITE_P(Files, KaosPlan, testing::ValuesIn(engine::planTables(CADRE_KAOS_CASES)),
                         [](const auto& info) {
                           std::string name = info.param.stem().string();
                           for (char& c : name)
                             if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
                           return name;
                         });

TEST(KaosKinds, AnswerAsTheirTablesTell) {
  kube::expectNativeAnswers(agentKind(),
                            kube::loadSchemaCases(CADRE_SCHEMAS "/kaos-agent.yaml", agentKind()));
  kube::expectNativeAnswers(
      modelApiKind(), kube::loadSchemaCases(CADRE_SCHEMAS "/kaos-modelapi.yaml", modelApiKind()));
  kube::expectNativeAnswers(
      mcpServerKind(),
      kube::loadSchemaCases(CADRE_SCHEMAS "/kaos-mcpserver.yaml", mcpServerKind()));
}

// What a user writes may be wrong in more places than a status can hold.
TEST(KaosKinds, TellInShortWhatIsWrongInManyPlaces) {
  json::Value wrong = json::Object{
      {"kind", "MCPServer"},
      {"metadata", json::Object{{"name", "m"}}},
      {"spec", json::Object{{"mcp", "echo"},
                            {"podSpec", json::Object{{"tolerations", json::Array(30'000, 1)}}}}}};
  json::Value long_key = wrong;
  long_key.make("spec").make("podSpec") =
      json::Object{{"nodeSelector", json::Object{{std::string(600'000, 'k'), 1}}}};
  for (const json::Value& object : {wrong, long_key}) {
    Case c(json::Object{{"object", object}}, {});
    json::Value plan = c.plan();
    EXPECT_THAT(plan["conditions"]["Accepted"].string(),
                testing::HasSubstr("False InvalidPodSpec"));
    EXPECT_LT(json::write(plan["status"]).size(), 32'000u);
  }
  Case c(json::Object{{"object", wrong}}, {});
  EXPECT_THAT(c.plan()["status"]["message"].string(), testing::HasSubstr("and 980 more"));
}

TEST(KaosKinds, AreDescribedWell) {
  for (const kube::Kind* kind : {&agentKind(), &modelApiKind(), &mcpServerKind()}) {
    EXPECT_THAT(kube::problems(*kind), testing::IsEmpty()) << kind->kind;
    EXPECT_LT(json::writeYaml(kube::crd(*kind)).size(), 60'000u) << kind->kind;
  }
}

// Trap 41: what would lend an identity to who may not make pods, and where it stands.
TEST(KaosKinds, Trap41WhoeverGetsAnotherIdentityMustBeAllowedToMakePods) {
  struct Row {
    std::string spec, field;  // no field: anybody may
  };
  const auto all = validators({});
  const engine::Validator& validator = all.back();
  ASSERT_EQ(validator.resource, kMcpServers);
  auto asked = [&](const std::string& spec, const json::Value& before = {}) {
    json::Value object = json::Object{{"spec", json::parseYaml(spec, "spec")->front().value}};
    auto verdict = validator.validate(engine::Operation::Create, object, before);
    std::vector<std::string> fields;
    for (const engine::Demand& demand : verdict.demands) {
      EXPECT_EQ(demand.verb, "create");
      EXPECT_EQ(demand.resource, kPods);
      fields.push_back(demand.field);
    }
    return fields;
  };
  for (const auto& [spec, field] : std::vector<Row>{
           {"{mcp: a, container: {image: x, env: [{name: A, valueFrom: {secretKeyRef: {name: s, "
            "key: k}}}]}}",
            ""},
           {"{mcp: a, podSpec: null}", ""},
           {"{mcp: a, podSpec: {nodeSelector: {a: b}, automountServiceAccountToken: false, "
            "volumes: "
            "[{name: a, emptyDir: {}}, {name: b, configMap: {name: c}, secret: null}], containers: "
            "[{name: side, image: x, env: [{name: A, value: b}], envFrom: [{configMapRef: {name: "
            "c}}]}]}}",
            ""},
           {"{runtime: kubernetes}", ""},
           {"{runtime: kubernetes, container: {resources: {}}, podSpec: {nodeSelector: {a: b}}}",
            ""},
           {"{mcp: a, serviceAccountName: admin}", "spec.serviceAccountName"},
           {"{mcp: a, podSpec: {serviceAccountName: admin}}", "spec.podSpec.serviceAccountName"},
           {"{mcp: a, podSpec: {serviceAccount: admin}}", "spec.podSpec.serviceAccount"},
           {"{mcp: a, podSpec: {automountServiceAccountToken: true}}",
            "spec.podSpec.automountServiceAccountToken"},
           {"{mcp: a, podSpec: {volumes: [{name: a, emptyDir: {}}, {name: b, secret: {secretName: "
            "s}}]}}",
            "spec.podSpec.volumes[1].secret"},
           {"{mcp: a, podSpec: {volumes: [{name: a, projected: {sources: []}}]}}",
            "spec.podSpec.volumes[0].projected"},
           {"{mcp: a, podSpec: {volumes: [{name: a, csi: {driver: d}}]}}",
            "spec.podSpec.volumes[0].csi"},
           {"{mcp: a, podSpec: {volumes: [{name: a, hostPath: {path: /}}]}}",
            "spec.podSpec.volumes[0].hostPath"},
           {"{mcp: a, podSpec: {hostNetwork: true}}", "spec.podSpec.hostNetwork"},
           {"{mcp: a, podSpec: {hostPID: true}}", "spec.podSpec.hostPID"},
           {"{mcp: a, podSpec: {hostIPC: true}}", "spec.podSpec.hostIPC"},
           {"{mcp: a, podSpec: {containers: [{name: a, securityContext: {privileged: true}}]}}",
            "spec.podSpec.containers[0].securityContext.privileged"},
           {"{mcp: a, podSpec: {initContainers: [{name: a, envFrom: [{secretRef: {name: s}}]}]}}",
            "spec.podSpec.initContainers[0].envFrom[0].secretRef"},
           {"{mcp: a, podSpec: {containers: [{name: a}, {name: b, env: [{name: A}, {name: B, "
            "valueFrom: {secretKeyRef: {name: s, key: token}}}]}]}}",
            "spec.podSpec.containers[1].env[1].valueFrom.secretKeyRef"},
           {"{runtime: kubernetes, container: {image: x}}", "spec.container.image"},
           {"{runtime: kubernetes, container: {command: [x]}}", "spec.container.command"},
           {"{runtime: kubernetes, container: {args: [x]}}", "spec.container.args"},
           {"{runtime: kubernetes, container: {env: [{name: A, value: x}]}}", "spec.container.env"},
           {"{runtime: kubernetes, config: {env: [{name: A, value: x}]}}", "spec.config.env"},
           {"{runtime: kubernetes, podSpec: {containers: [{name: side, image: x}]}}",
            "spec.podSpec.containers"},
           {"{runtime: kubernetes, podSpec: {initContainers: [{name: side, image: x}]}}",
            "spec.podSpec.initContainers"},
       }) {
    SCOPED_TRACE(spec);
    EXPECT_EQ(asked(spec), field.empty() ? std::vector<std::string>() : std::vector{field});
    json::Value same = json::Object{{"spec", json::parseYaml(spec, "spec")->front().value}};
    EXPECT_THAT(asked(spec, same), testing::IsEmpty()) << "nothing that runs changes";
  }
}

// Spec §2: what they are called, and what `kubectl get` shows of them; in brackets only when wide.
TEST(KaosKinds, AreCalledAndShownAsTheSpecSays) {
  struct Shown {
    const kube::Kind& kind;
    std::vector<std::string> names, columns;
    bool scales;
  };
  for (const auto& [kind, names, columns, scales] :
       {Shown{agentKind(),
              {"Agent", "agents", "agent"},
              {"ModelAPI .spec.modelAPI", "Model .status.model", "Ready .status.ready",
               "Phase .status.phase", "(Replicas .status.observedReplicas)",
               "(Endpoint .status.endpoint)", "(Message .status.message)",
               "Age .metadata.creationTimestamp"},
              true},
        Shown{modelApiKind(),
              {"ModelAPI", "modelapis", "modelapi", "api", "apis"},
              {"Mode .spec.mode", "Ready .status.ready", "Phase .status.phase",
               "(Endpoint .status.endpoint)", "(Message .status.message)",
               "Age .metadata.creationTimestamp"},
              true},
        Shown{mcpServerKind(),
              {"MCPServer", "mcpservers", "mcpserver", "mcp", "mcps"},
              {"Runtime .status.runtime", "Ready .status.ready", "Phase .status.phase",
               "(Tools .status.toolCount)", "(Endpoint .status.endpoint)",
               "(Message .status.message)", "Age .metadata.creationTimestamp"},
              false}}) {
    SCOPED_TRACE(kind.kind);
    const json::Value crd = kube::crd(kind), &version = crd["spec"]["versions"].at(0),
                      &called = crd["spec"]["names"];
    std::vector<std::string> found{called["kind"].string(), called["plural"].string(),
                                   called["singular"].string()};
    for (const json::Value& name : called["shortNames"].array()) found.push_back(name.string());
    EXPECT_EQ(found, names);
    EXPECT_EQ(called["categories"], json::Value(json::Array{"cadre"}));
    EXPECT_EQ(crd["spec"]["scope"].string(), "Namespaced");
    EXPECT_EQ(version["name"].string(), "v1alpha1");
    found.clear();
    for (const json::Value& column : version["additionalPrinterColumns"].array()) {
      std::string text = format("{} {}", column["name"].string(), column["jsonPath"].string());
      found.push_back(column["priority"].integer() > 0 ? format("({})", text) : text);
    }
    EXPECT_EQ(found, columns);
    const json::Value& scale = version["subresources"]["scale"];
    EXPECT_EQ(scale["specReplicasPath"].string(), scales ? ".spec.replicas" : "");
    EXPECT_EQ(scale["statusReplicasPath"].string(), scales ? ".status.observedReplicas" : "");
    EXPECT_EQ(scale["labelSelectorPath"].string(), scales ? ".status.selector" : "");
    EXPECT_FALSE(version["subresources"]["status"].isNull());
  }
}

}  // namespace
}  // namespace cadre::kaos
