// What is shown while things start, as a table: objects in, lines out.
#include "cli/up_view.h"

#include "base/strings.h"
#include "json/yaml.h"

namespace cadre::cli {
namespace {

using json::Value;

std::vector<Value> objects(std::string_view yaml) {
  std::vector<Value> out;
  auto documents = json::parseYaml(yaml, "test");
  EXPECT_TRUE(documents.ok());
  for (json::Document& document : *documents)
    if (document.value.isObject()) out.push_back(std::move(document.value));
  return out;
}

struct Case {
  std::string title, workloads, pods;
  Progress expect;
};

constexpr std::string_view kWeb = R"(
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default, generation: 1}
spec: {replicas: 3, selector: {matchLabels: {app: web}}}
status: {observedGeneration: 1, replicas: 3, updatedReplicas: 3, readyReplicas: 1, availableReplicas: 1}
)";
constexpr std::string_view kReadyWeb = R"(
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default, generation: 1}
spec: {selector: {matchLabels: {app: web}}}
status: {observedGeneration: 1, replicas: 1, updatedReplicas: 1, readyReplicas: 1, availableReplicas: 1}
)";

// A pod of web, or of another, with one container in that state.
std::string pod(std::string_view name, std::string_view state, std::string_view app = "web") {
  std::string text = R"(
---
apiVersion: v1
kind: Pod
metadata: {name: NAME, namespace: default, labels: {app: APP}, ownerReferences: [{name: x}]}
status: {phase: Pending, containerStatuses: [{name: main, ready: false, state: STATE}]}
)";
  auto put = [&](std::string_view what, std::string_view by) {
    text.replace(text.find(what), what.size(), by);
  };
  put("NAME", name), put("APP", app), put("STATE", state);
  return text;
}

TEST(UpView, SaysWhatIsWaitingForWhat) {
  const Case cases[] = {
      {"nothing", "", "", {}},
      {"one that is ready", std::string(kReadyWeb), "", {.all = 1, .ready = 1}},
      {"no pods yet",
       std::string(kWeb),
       "",
       {.all = 1, .waiting = {"deployment/web  1/3 ready  availableReplicas is 1 of 3"}}},
      {"the first pod that waits says why, of its own workload alone",
       std::string(kWeb),
       pod("web-2", "{waiting: {reason: ContainerCreating}}") +
           pod("web-1", "{waiting: {reason: ErrImagePull, message: there is no image none:1}}") +
           pod("a", "{waiting: {reason: Other}}", "other"),
       {.all = 1,
        .waiting = {"deployment/web  1/3 ready  ErrImagePull: there is no image none:1"}}},
      {"one that runs and is not ready",
       std::string(kWeb),
       pod("web-1", "{running: {}}"),
       {.all = 1, .waiting = {"deployment/web  1/3 ready  main is not ready yet"}}},
      {"one that ended",
       std::string(kWeb),
       pod("web-1", "{terminated: {exitCode: 3}}"),
       {.all = 1, .waiting = {"deployment/web  1/3 ready  main ended with 3"}}},
      {"text of others moves no cursor",
       std::string(kWeb),
       pod("web-1", R"({waiting: {reason: Bad, message: "a\nb\x1b[2J"}})"),
       {.all = 1, .waiting = {"deployment/web  1/3 ready  Bad: a b [2J"}}},
      {"jobs, and another namespace",
       R"(
apiVersion: batch/v1
kind: Job
metadata: {name: load, namespace: shop}
spec: {completions: 2}
status: {succeeded: 1}
---
apiVersion: batch/v1
kind: Job
metadata: {name: bad, namespace: default}
status: {conditions: [{type: Failed, status: "True", message: it failed too often}]}
)",
       "",
       {.all = 2,
        .waiting = {"job/load in shop  1/2 done  it is not Complete yet"},
        .failed = {"job/bad  0/1 done  it failed too often"}}},
      {"our own kinds",
       R"(
apiVersion: kaos.tools/v1alpha1
kind: Agent
metadata: {name: helper, namespace: default}
status: {conditions: [{type: Ready, status: "False", reason: No, message: its model is not ready}]}
)",
       "",
       {.all = 1, .waiting = {"agent/helper  not ready  Ready is False: its model is not ready"}}},
      {"pods on their own",
       "",
       R"(
apiVersion: v1
kind: Pod
metadata: {name: alone, namespace: default}
status: {phase: Pending}
---
apiVersion: v1
kind: Pod
metadata: {name: over, namespace: default}
status: {phase: Succeeded}
)",
       {.all = 2, .ready = 1, .waiting = {"pod/alone  not ready  it is not Ready yet"}}},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.title);
    Progress progress = progressOf(objects(one.workloads), objects(one.pods));
    EXPECT_EQ(progress.all, one.expect.all);
    EXPECT_EQ(progress.ready, one.expect.ready);
    EXPECT_EQ(progress.waiting, one.expect.waiting);
    EXPECT_EQ(progress.failed, one.expect.failed);
  }
}

TEST(UpView, FitsTheTerminal) {
  Progress progress{.all = 6, .ready = 2, .waiting = {"a", "b", "c"}, .failed = {"d"}};
  using Lines = std::vector<std::string>;
  EXPECT_EQ(linesOf(progress, 24, 80), (Lines{"cadre: 2 of 6 ready", "  a", "  b", "  c", "  d"}));
  EXPECT_EQ(linesOf(progress, 6, 80), (Lines{"cadre: 2 of 6 ready", "  a", "  b", "  c", "  d"}));
  EXPECT_EQ(linesOf(progress, 5, 80), (Lines{"cadre: 2 of 6 ready", "  a", "  b", "  and 2 more"}));
  EXPECT_EQ(linesOf(progress, 0, 80), (Lines{"cadre: 2 of 6 ready", "  a", "  and 3 more"}));
  progress.waiting = {"deployment/web  1/3 ready  something long"};
  progress.failed = {};
  EXPECT_EQ(linesOf(progress, 24, 30),
            (Lines{"cadre: 2 of 6 ready", "  deployment/web  1/3 read..."}));
}

}  // namespace
}  // namespace cadre::cli
