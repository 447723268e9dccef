// Plans as tables: objects in, objects out. Each case is a file in testdata: the world, the
// object's name, and what the plan must return.
#include "kinds/kaos/plans.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/format.h"
#include "engine/reconcile.h"
#include "json/diff.h"
#include "json/yaml.h"
#include "kube/testing/schema_table.h"
#include "kube/validate.h"

namespace cadre::kaos {
namespace {

namespace fs = std::filesystem;

// Everything that exists is in a list.
class ListSource final : public engine::Source {
 public:
  std::vector<std::pair<engine::Ref, json::Value>> objects;
  std::map<std::string, engine::Fact> facts;
  bool gateway_api = true;

  State state(const engine::Ref& ref) override { return state(ref.resource); }
  State state(const kube::Resource& resource) override {
    return resource == kHttpRoutes && !gateway_api ? State::NotServed : State::Known;
  }
  std::optional<json::Value> find(const engine::Ref& ref) override {
    for (const auto& [at, object] : objects)
      if (at == ref) return object;
    return std::nullopt;
  }
  std::vector<kube::ObjectKey> keys(const kube::Resource& resource, const engine::Index& index,
                                    const std::string& value) override {
    std::vector<kube::ObjectKey> found;
    for (const auto& [at, object] : objects) {
      auto values = index.of(object);
      if (at.resource == resource && std::find(values.begin(), values.end(), value) != values.end())
        found.push_back(at.key);
    }
    return found;
  }
  engine::Fact observe(const engine::Observation& observation) override {
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

// The plan in a form that a person would recognise.
json::Value shown(const engine::Plan& plan) {
  json::Value result = json::Object{};
  json::Array children;
  for (const engine::Child& child : plan.children) {
    json::Value object = child.object;
    object.make("kind") = child.resource.kind;
    children.push_back(std::move(object));
  }
  if (!children.empty()) result.make("children") = std::move(children);
  if (plan.hold) result.make("hold") = true;
  result.make("status") = plan.status;
  json::Value& conditions = result.make("conditions");
  for (const kube::Condition& condition : plan.conditions)
    conditions.make(condition.type) =
        format("{} {}{}{}", kube::conditionStatusName(condition.status), condition.reason,
               condition.message.empty() ? "" : ": ", condition.message);
  for (const engine::Event& event : plan.events)
    result.make("events").makeArray().push_back(format("{}: {}", event.reason, event.message));
  return result;
}

// Whether everything that is expected is there: maps may have more, lists are the same, and a text
// that ends in "..." is the beginning of what is there.
void compare(const json::Value& expected, const json::Value& actual, const std::string& path) {
  if (expected.isObject()) {
    for (const auto& [key, value] : expected.object()) {
      if (value.isString() && value.string() == "$absent") {
        EXPECT_TRUE(actual[key].isNull()) << path << "." << key << " is there";
      } else {
        compare(value, actual[key], format("{}.{}", path, key));
      }
    }
  } else if (expected.isArray()) {
    ASSERT_EQ(expected.array().size(), actual.array().size())
        << path << ": " << json::writeYaml(actual);
    for (std::size_t i = 0; i < expected.array().size(); ++i)
      compare(expected.at(i), actual.at(i), format("{}[{}]", path, i));
  } else if (expected.isString() && expected.string().ends_with("...")) {
    std::string begin = expected.string().substr(0, expected.string().size() - 3);
    EXPECT_TRUE(actual.string().starts_with(begin)) << path << ": " << json::writeYaml(actual);
  } else {
    EXPECT_EQ(expected, actual) << path << ": " << json::writeYaml(actual);
  }
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

void runCase(const json::Value& test) {
  ListSource source;
  source.gateway_api = !test["settings"]["gatewayApiMissing"].boolean();
  Settings settings = settingsFrom(test["settings"]);
  for (const auto& [what, fact] : test["facts"].object())
    source.facts[what] = {
        .known = !fact["value"].isNull(), .value = fact["value"], .error = fact["error"].string()};
  std::vector<json::Value> objects = test["world"].array();
  objects.push_back(test["object"]);
  for (json::Value& object : objects) {
    if (object["metadata"]["namespace"].isNull()) object.make("metadata").make("namespace") = "ns";
    if (object["metadata"]["uid"].isNull())
      object.make("metadata").make("uid") = std::string(kube::name(object));
    object.make("metadata").make("generation") = 1;
    object.make("metadata").make("resourceVersion") = "1";
    if (object["apiVersion"].isNull()) object.make("apiVersion") = resourceOf(object).apiVersion();
    if (resourceOf(object).group == "kaos.tools")
      object = kube::withDefaults(kindOf(object), object);
    source.objects.emplace_back(engine::Ref{resourceOf(object), kube::ObjectKey::of(object)},
                                object);
  }
  const json::Value& object = objects.back();
  std::vector<engine::Trouble> troubles;
  for (const json::Value& trouble : test["troubles"].array())
    troubles.push_back({{}, trouble["reason"].string(), trouble["message"].string()});
  FakeClock clock;
  engine::World world(source, clock.now(), troubles);
  json::Value plan = shown(planOf(object, world, settings));
  compare(test["expect"], plan, "plan");

  // The same input gives the same output, whenever it is.
  engine::World later(source, clock.now() + 1000h, troubles);
  EXPECT_EQ(shown(planOf(object, later, settings)), plan)
      << json::formatDiff(json::diff(plan, shown(planOf(object, later, settings))));
}

class KaosPlan : public testing::TestWithParam<fs::path> {};

TEST_P(KaosPlan, Holds) {
  std::ifstream file(GetParam());
  std::stringstream text;
  text << file.rdbuf();
  auto cases = json::parseYaml(text.str(), GetParam().filename().string());
  ASSERT_TRUE(cases) << cases.error().text();
  ASSERT_FALSE(cases->empty());
  for (const json::Document& one : *cases) {
    SCOPED_TRACE(
        format("{}:{}: {}", GetParam().filename().string(), one.line, one.value["title"].string()));
    runCase(one.value);
  }
}

std::vector<fs::path> files() {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(CADRE_KAOS_CASES)) found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  return found;
}

INSTANTIATE_TEST_SUITE_P(Files, KaosPlan, testing::ValuesIn(files()), [](const auto& info) {
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

TEST(KaosKinds, AreDescribedWell) {
  for (const kube::Kind* kind : {&agentKind(), &modelApiKind(), &mcpServerKind()}) {
    EXPECT_THAT(kube::problems(*kind), testing::IsEmpty()) << kind->kind;
    EXPECT_LT(json::writeYaml(kube::crd(*kind)).size(), 60'000u) << kind->kind;
  }
}

}  // namespace
}  // namespace cadre::kaos
