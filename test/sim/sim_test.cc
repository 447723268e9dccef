// Many seeds of every system, or one of them again:
//   SEEDS=1000 build/dev/tests/sim_test          that many, from SEED on
//   SEED=17 SEEDS=1 build/dev/tests/sim_test     one
#include "sim/sim.h"

#include <cstdlib>

#include <gtest/gtest.h>

#include "base/format.h"
#include "base/strings.h"
#include "json/parse.h"
#include "kinds/kaos/plans.h"
#include "kinds/kaos/types.h"

namespace cadre::sim {
namespace {

std::uint64_t number(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? static_cast<std::uint64_t>(parseInt(text).value_or(0)) : otherwise;
}

json::Value drawKaos(Random& random) {
  auto pick = [&](std::initializer_list<const char*> choices) {
    return std::string(*(choices.begin() + random.below(choices.size())));
  };
  auto make = [](std::string_view kind, const std::string& name, std::string_view spec) {
    auto parsed = json::parse(spec);
    EXPECT_TRUE(parsed) << spec;
    return json::Value(json::Object{{"apiVersion", "kaos.tools/v1alpha1"},
                                    {"kind", kind},
                                    {"metadata", json::Object{{"name", name}}},
                                    {"spec", *parsed}});
  };
  switch (random.below(3)) {
    case 0:
      return make("ModelAPI", pick({"m", "n"}),
                  pick({R"({"mode":"Hosted","hostedConfig":{"model":"smollm2:135m"}})",
                        R"({"mode":"Hosted","hostedConfig":{"model":"other:1b"}})",
                        R"({"mode":"Proxy","proxyConfig":{"models":["*"]}})",
                        R"({"mode":"Proxy","proxyConfig":{"models":["smollm2:135m"],
                            "apiBase":"https://models.test","masterKey":{"generate":true}}})",
                        R"({"mode":"Proxy","proxyConfig":{"models":["a","b"],
                            "env":[{"name":"A","value":"1"}]}})"}));
    case 1:
      return make("MCPServer", pick({"s", "t"}),
                  pick({R"({"config":{"tools":{"fromString":"def a(): pass"}}})",
                        R"({"config":{"tools":{"fromString":"def b(): pass"}}})",
                        R"({"runtime":"custom","container":{"image":"x:1"}})",
                        R"({"runtime":"unknown"})", R"({"config":{"mcp":"some-package"}})"}));
    default:
      return make("Agent", pick({"a", "b", "c"}),
                  format(R"({{"modelAPI":"{}","model":"{}","mcpServers":{},"replicas":{},
                              "agentNetwork":{{"expose":{},"access":{}}},"config":{{"instructions":"{}"}}}})",
                         pick({"m", "n"}), pick({"smollm2:135m", "a"}),
                         pick({"[]", R"(["s"])", R"(["s","t"])"}), pick({"1", "2"}),
                         pick({"true", "true", "false"}), pick({"[]", R"(["a"])", R"(["b","c"])"}),
                         pick({"", "be nice", "be brief"})));
  }
}

System kaosSystem() {
  System system{
      .name = "kaos",
      .serve =
          [](Scheduler& scheduler, engine::EngineOptions& options) {
            kaos::serve(options, {});
            options.observations.push_back(
                {.name = "mcp-tools", .look = [&scheduler](const json::Value&, auto done) {
                   return scheduler.after(
                       30ms, [done = std::move(done)] { done(json::Value(json::Array{"echo"})); });
                 }});
          },
      .draw = drawKaos};
  for (const kube::Kind* kind : {&kaos::agentKind(), &kaos::modelApiKind(), &kaos::mcpServerKind()})
    system.crds.push_back(kube::crd(*kind));
  return system;
}

TEST(Simulation, AllComesToRestAsIfNothingHadGoneWrong) {
  System system = kaosSystem();
  std::uint64_t first = number("SEED", 1), count = number("SEEDS", 200);
  std::uint64_t writes = 0;
  int kills = 0;
  for (std::uint64_t seed = first; seed < first + count && !HasFailure(); ++seed) {
    Simulation simulation(system, seed);
    std::vector<std::string> troubles = simulation.run();
    EXPECT_TRUE(troubles.empty()) << format("SEED={} SEEDS=1: {}", seed, join(troubles, "\n"));
    writes += simulation.writes();
    kills += simulation.kills();
  }
  EXPECT_GT(writes, count * 5) << "there was hardly anything to do";
  std::printf("%s: %llu seeds from %llu on, %d kills, %llu writes of the operator\n",
              system.name.c_str(), static_cast<unsigned long long>(count),
              static_cast<unsigned long long>(first), kills,
              static_cast<unsigned long long>(writes));
}

TEST(Simulation, TheSameSeedIsTheSameRun) {
  System system = kaosSystem();
  Simulation one(system, 5), two(system, 5);
  one.run();
  two.run();
  EXPECT_EQ(one.digest(), two.digest());
  EXPECT_EQ(one.writes(), two.writes());
}

}  // namespace
}  // namespace cadre::sim
