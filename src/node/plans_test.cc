// Plans as tables. A case is a document of a file in test/node/plans:
//   title, now, troubles    what holds beside the objects
//   world, object           what exists; `owner` in metadata is the uid of its controller. Names
//   stand
//                           for objects of the file's `given`
//   expect                  what the plan must return, as engine::differences compares
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/draft.h"
#include "engine/testing/plan_table.h"
#include "json/random_value.h"
#include "node/pods.h"
#include "node/workloads.h"

namespace cadre::node {
namespace {

struct Planned {
  const kube::Resource& resource;
  engine::Plan (*plan)(const json::Value&, engine::World&);
};

const Planned* find(const std::string& kind) {
  static const Planned kAll[] = {
      {kPods, nullptr},
      {kReplicaSets, planReplicaSet},
      {kDeployments, planDeployment},
      {kStatefulSets, planStatefulSet},
      {kControllerRevisions, nullptr},
      {kJobs, planJob},
      {kCronJobs, planCronJob},
      {kClaims, planClaim},
      {kServices, planService},
      {kNamespaces, [](const json::Value& object,
                       engine::World& world) { return planNamespace(object, world, "AUTHORITY"); }},
      {kIngressClasses, nullptr},
      {kIngresses, planIngress}};
  for (const Planned& one : kAll)
    if (one.resource.kind == kind) return &one;
  ADD_FAILURE() << "no such kind: " << kind;
  return nullptr;
}

struct Case {
  Case(const json::Value& test, const json::Value& given) {
    for (const json::Value& one : test["world"].array())
      add(one.isString() ? given[one.string()] : one);
    add(test["object"].isString() ? given[test["object"].string()] : test["object"]);
    for (const json::Value& trouble : test["troubles"].array())
      troubles.push_back({{}, trouble["reason"].string(), trouble["message"].string()});
    now = test["now"].isNull() ? FakeClock().now() : *parseTime(test["now"].string());
  }

  json::Value plan() {
    engine::World world(draft, now, troubles);
    json::Value plan = engine::shown(kind->plan(draft.at(self), world));
    if (auto due = world.dueTime()) plan.make("due") = formatTime(*due);
    return plan;
  }

  engine::Draft draft;
  engine::Ref self;
  const Planned* kind = nullptr;
  std::vector<engine::Trouble> troubles;
  Time now;

 private:
  void add(json::Value object) {
    json::Value& metadata = object.make("metadata");
    for (auto [field, value] : {std::pair{"namespace", std::string("ns")},
                                {"uid", std::string(kube::name(object))},
                                {"creationTimestamp", std::string("2026-01-01T00:00:00Z")}})
      if (metadata[field].isNull()) metadata.make(field) = value;
    if (metadata["generation"].isNull()) metadata.make("generation") = 1;
    if (std::string owner = metadata["owner"].string(); !owner.empty()) {
      metadata.make("ownerReferences") =
          json::Array{json::Object{{"uid", owner}, {"controller", true}}};
      metadata.makeObject().erase("owner");
    }
    kind = find(object["kind"].string());
    if (!kind) return;
    self = {kind->resource, kube::ObjectKey::of(object)};
    draft.put(self, std::move(object));
  }
};

class NodePlan : public testing::TestWithParam<std::filesystem::path> {};

TEST_P(NodePlan, Holds) {
  engine::PlanTable table(GetParam());
  EXPECT_FALSE(table.cases.empty());
  for (const json::Document& one : table.cases) {
    SCOPED_TRACE(
        format("{}:{}: {}", GetParam().filename().string(), one.line, one.value["title"].string()));
    for (const auto& [key, value] : one.value.object())
      EXPECT_THAT(
          (std::vector<std::string>{"title", "now", "troubles", "world", "object", "expect"}),
          testing::Contains(key));
    Case c(one.value, table.given);
    EXPECT_THAT(engine::differences(one.value["expect"], c.plan(), "plan"), testing::IsEmpty());
    EXPECT_EQ(c.plan(), c.plan());
  }
}

INSTANTIATE_TEST_SUITE_P(Files, NodePlan, testing::ValuesIn(engine::planTables(CADRE_NODE_CASES)),
                         [](const auto& info) { return info.param.stem().string(); });

TEST(NodePlans, SharesOfPods) {
  struct Share {
    json::Value given;
    std::int64_t of, up, down;
  };
  for (const Share& c : {Share{"25%", 10, 3, 2},
                         {"25%", 1, 1, 0},
                         {"100%", 7, 7, 7},
                         {"0%", 9, 0, 0},
                         {3, 10, 3, 3},
                         {"3", 10, 3, 3},
                         {nullptr, 10, 0, 0},
                         {"x%", 10, 0, 0}}) {
    EXPECT_EQ(share(c.given, c.of, true), c.up) << json::write(c.given);
    EXPECT_EQ(share(c.given, c.of, false), c.down) << json::write(c.given);
  }
}

}  // namespace
}  // namespace cadre::node
