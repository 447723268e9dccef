#include "hub/builtin.h"

#include <set>

#include "base/strings.h"
#include "hub/testing/builtin_table.h"
#include "json/parse.h"

namespace cadre::hub {
namespace {

json::Value parsed(std::string_view text) {
  auto value = json::parse(text);
  EXPECT_TRUE(value) << text;
  return value ? *value : json::Value();
}

TEST(BuiltIns, EachKindIsOneThatTheTableOfTypesHas) {
  std::set<std::string> seen;
  for (const BuiltIn& kind : builtIns()) {
    SCOPED_TRACE(kind.kind);
    EXPECT_TRUE(kind.type());
    EXPECT_TRUE(seen.insert(kind.resource().path()).second);
    EXPECT_FALSE(kind.columns.empty());
    EXPECT_EQ(findBuiltIn(kind.group, kind.version, kind.kind), &kind);
    // Nothing is read outside of an object, whatever it is.
    for (std::string_view text : {"{}", "null", "[]", R"({"spec":5,"status":"x","metadata":[]})"})
      EXPECT_EQ(cells(kind, parsed(text), Time()).size(), kind.columns.size());
  }
  EXPECT_EQ(findBuiltIn("", "v1", "Nothing"), nullptr);
}

TEST(BuiltIns, AgesAreShownAsByKubectl) {
  const std::pair<Duration, std::string_view> kAges[] = {
      {-5s, "<invalid>"},     {-1s, "0s"},       {0s, "0s"},           {119s, "119s"},
      {120s, "2m"},           {125s, "2m5s"},    {599s, "9m59s"},      {600s, "10m"},
      {179min + 59s, "179m"}, {180min, "3h"},    {185min, "3h5m"},     {8h, "8h"},
      {47h + 59min, "47h"},   {48h, "2d"},       {50h, "2d2h"},        {8 * 24h, "8d"},
      {729 * 24h, "729d"},    {730 * 24h, "2y"}, {800 * 24h, "2y70d"}, {8 * 365 * 24h, "8y"}};
  for (auto [age, text] : kAges) EXPECT_EQ(ageText(age), text);
}

struct Shown {
  std::string_view kind;  // "apps/v1 Deployment"
  std::string_view object;
  std::string_view cells;  // joined by " | "
};

// Each seen in an answer of an API server.
constexpr Shown kShown[] = {
    {"v1 Pod",
     R"({"metadata":{"name":"p"},"spec":{"containers":[{},{}],"nodeName":"n"},
         "status":{"phase":"Running","podIPs":[{"ip":"1.2.3.4"}],"containerStatuses":[
           {"ready":true,"state":{"running":{}},"restartCount":2,
            "lastState":{"terminated":{"finishedAt":"2025-12-31T23:55:00Z"}}},
           {"state":{"waiting":{"reason":"CrashLoopBackOff"}},"restartCount":1}]}})",
     "p | 1/2 | CrashLoopBackOff | 3 (5m ago) | <unknown> | 1.2.3.4 | n | <none> | <none>"},
    {"v1 Pod",
     R"({"metadata":{"name":"p"},"spec":{"containers":[{}],"initContainers":[{"name":"a"},{"name":"b"}],
         "readinessGates":[{"conditionType":"x"}]},
         "status":{"phase":"Pending","initContainerStatuses":[
           {"name":"a","state":{"terminated":{"exitCode":0}}},{"name":"b","state":{"running":{}}}]}})",
     "p | 0/1 | Init:1/2 | 0 | <unknown> | <none> | <none> | <none> | 0/1"},
    {"v1 Pod",
     R"({"metadata":{"name":"p","deletionTimestamp":"2026-01-01T00:00:00Z"},"spec":{"containers":[{}]},
         "status":{"phase":"Running"}})",
     "p | 0/1 | Terminating | 0 | <unknown> | <none> | <none> | <none> | <none>"},
    {"v1 Pod",
     R"({"metadata":{"name":"p"},"spec":{"containers":[{}]},"status":{"phase":"Failed",
         "containerStatuses":[{"state":{"terminated":{"exitCode":3}}}]}})",
     "p | 0/1 | ExitCode:3 | 0 | <unknown> | <none> | <none> | <none> | <none>"},
    {"apps/v1 Deployment",
     R"({"metadata":{"name":"d","creationTimestamp":"2025-12-31T23:50:00Z"},
         "spec":{"replicas":3,"selector":{"matchLabels":{"a":"b"}},
           "template":{"spec":{"containers":[{"name":"x","image":"i"},{"name":"y","image":"j"}]}}},
         "status":{"readyReplicas":2,"updatedReplicas":3,"availableReplicas":2}})",
     "d | 2/3 | 3 | 2 | 10m | x,y | i,j | a=b"},
    {"batch/v1 Job",
     R"({"metadata":{"name":"j"},"spec":{"parallelism":3},"status":{"succeeded":1,
         "startTime":"2025-12-31T23:59:00Z","completionTime":"2025-12-31T23:59:30Z",
         "conditions":[{"type":"Complete","status":"True"}]}})",
     "j | Complete | 1/1 of 3 | 30s | <unknown> |  |  | <none>"},
    {"batch/v1 CronJob",
     R"({"metadata":{"name":"c"},"spec":{"schedule":"* * * * *","suspend":false},
         "status":{"lastScheduleTime":"2025-12-31T23:59:00Z","active":[{}]}})",
     "c | * * * * * | <none> | False | 1 | 60s | <unknown> |  |  | <none>"},
    {"v1 Service",
     R"({"metadata":{"name":"s"},"spec":{"type":"LoadBalancer","clusterIPs":["10.0.0.1"],
         "ports":[{"port":80,"nodePort":30080,"protocol":"TCP"},{"port":53,"protocol":"UDP"}],
         "selector":{"a":"b","c":"d"}},"status":{"loadBalancer":{"ingress":[{"ip":"1.2.3.4"}]}}})",
     "s | LoadBalancer | 10.0.0.1 | 1.2.3.4 | 80:30080/TCP,53/UDP | <unknown> | a=b,c=d"},
    {"v1 Service", R"({"metadata":{"name":"s"},"spec":{"type":"LoadBalancer"}})",
     "s | LoadBalancer | <none> | <pending> | <none> | <unknown> | <none>"},
    {"v1 Node",
     R"({"metadata":{"name":"n","labels":{"node-role.kubernetes.io/worker":""}},
         "spec":{"unschedulable":true},"status":{"conditions":[{"type":"Ready","status":"True"}],
         "addresses":[{"type":"InternalIP","address":"10.0.0.1"}],
         "nodeInfo":{"kubeletVersion":"v1.34.4"}}})",
     "n | Ready,SchedulingDisabled | worker | <unknown> | v1.34.4 | 10.0.0.1 | <none> | <unknown> "
     "| <unknown> | <unknown>"},
    {"v1 PersistentVolumeClaim",
     R"({"metadata":{"name":"c"},"spec":{"volumeName":"v","storageClassName":"fast","volumeMode":"Filesystem"},
         "status":{"phase":"Bound","capacity":{"storage":"1Gi"},"accessModes":["ReadWriteMany","ReadWriteOnce"]}})",
     "c | Bound | v | 1Gi | RWO,RWX | fast | <unset> | <unknown> | Filesystem"},
    {"autoscaling/v2 HorizontalPodAutoscaler",
     R"({"metadata":{"name":"h"},"spec":{"minReplicas":1,"maxReplicas":5,
         "scaleTargetRef":{"kind":"Deployment","name":"d"},"metrics":[
         {"type":"Resource","resource":{"name":"cpu","target":{"averageUtilization":80}}},
         {"type":"Pods","pods":{"target":{"averageValue":"5"}}},
         {"type":"External","external":{"target":{"value":"1"}}}]},
         "status":{"currentReplicas":2,"currentMetrics":[{"type":"Resource","resource":{"current":{"averageUtilization":50}}}]}})",
     "h | Deployment/d | cpu: 50%/80%, <unknown>/5 + 1 more... | 1 | 5 | 2 | <unknown>"},
    {"networking.k8s.io/v1 Ingress",
     R"({"metadata":{"name":"i"},"spec":{"tls":[{}],"rules":[{"host":"a"},{"host":"b"},{"host":"c"},{"host":"d"}]}})",
     "i | <none> | a,b,c + 1 more... |  | 80, 443 | <unknown>"},
    {"v1 Event",
     R"({"metadata":{"name":"e"},"type":"Normal","reason":"Made","message":" text\n","count":3,
         "firstTimestamp":"2025-12-31T23:00:00Z","lastTimestamp":"2025-12-31T23:59:00Z",
         "involvedObject":{"kind":"Pod","name":"p"},"source":{"component":"me","host":"h"}})",
     "60s | Normal | Made | pod/p |  | me, h | text | 60m | 3 | e"},
    {"v1 ResourceQuota",
     R"({"metadata":{"name":"q"},"status":{"hard":{"pods":"5","limits.cpu":"2"},"used":{"pods":"1"}}})",
     "q | pods: 1/5 | limits.cpu: 0/2 | <unknown>"},
    {"rbac.authorization.k8s.io/v1 RoleBinding",
     R"({"metadata":{"name":"b"},"roleRef":{"kind":"Role","name":"r"},"subjects":[
         {"kind":"User","name":"u"},{"kind":"ServiceAccount","namespace":"n","name":"a"}]})",
     "b | Role/r | <unknown> | u |  | n/a"},
};

TEST(BuiltIns, CellsSayWhatAnApiServerSays) {
  const Time now = *parseTime("2026-01-01T00:00:00Z");
  for (const Shown& row : kShown) {
    auto [version, name] = cut(row.kind, " ");
    auto gvk = kube::GroupVersionKind::parse(version, name);
    ASSERT_TRUE(gvk);
    const BuiltIn* kind = findBuiltIn(gvk->group, gvk->version, gvk->kind);
    ASSERT_TRUE(kind) << row.kind;
    std::vector<std::string> texts;
    for (const json::Value& cell : cells(*kind, parsed(row.object), now))
      texts.push_back(cell.isString() ? cell.string() : json::write(cell));
    EXPECT_EQ(join(texts, " | "), row.cells) << row.kind;
  }
}

TEST(BuiltIns, PodsThatHaveEndedAreMarked) {
  const BuiltIn& pods = *findBuiltIn("", "v1", "Pod");
  EXPECT_TRUE(rowConditions(pods, parsed(R"({"status":{"phase":"Running"}})")).empty());
  auto ended = rowConditions(pods, parsed(R"({"status":{"phase":"Succeeded"}})"));
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0]["reason"].string(), "Succeeded");
}

TEST(BuiltInTables, AreJudgedAsExpected) {
  std::size_t rows = 0;
  for (const std::string& name : builtInTables()) {
    for (const BuiltInCase& c : loadBuiltInCases(CADRE_BUILTIN_CASES "/" + name + ".yaml")) {
      SCOPED_TRACE(c.title);
      ++rows;
      Outcome outcome = created(*c.kind, c.object);
      EXPECT_EQ(unexpected(outcome.unknown, c.unknown), "");
      if (!c.change.isNull()) {
        ASSERT_EQ(outcome.decode, "");
        EXPECT_EQ(textsOf(outcome.errors), std::vector<std::string>());
        // The hub gives Services an address.
        if (c.kind->kind == "Service" && outcome.object["spec"]["clusterIP"].string() != "None") {
          outcome.object.make("spec").make("clusterIP") = "10.0.0.1";
          outcome.object.make("spec").make("clusterIPs") = json::Array{"10.0.0.1"};
        }
        outcome = updated(*c.kind, outcome.object, c.change);
      }
      EXPECT_TRUE(isExpected(outcome.decode, c.decode)) << outcome.decode;
      EXPECT_EQ(unexpected(textsOf(outcome.errors), c.errors), "");
      // What comes back from the store is taken as it is.
      if (!outcome.decode.empty()) continue;
      json::Value again = typed(*c.kind, outcome.object);
      setDefaults(*c.kind, again);
      EXPECT_EQ(json::write(typed(*c.kind, again)), json::write(outcome.object));
    }
  }
  EXPECT_GT(rows, 350u);
}

TEST(BuiltInTables, HostileObjectsAreSurvived) {
  for (const BuiltIn& kind : builtIns())
    for (std::string_view text :
         {"{}", R"({"metadata":{}})", R"({"metadata":{"name":""},"spec":null})",
          R"({"spec":{},"data":{},"rules":[{}],"webhooks":[{}],"subsets":[{}],"template":{}})",
          R"({"spec":{"template":{"spec":{"containers":[null]}},"containers":[null,{}],
              "ports":[null],"versions":[null],"limits":[null],"rules":[null],"metrics":[null]}})"})
      created(kind, parsed(text));
}

}  // namespace
}  // namespace cadre::hub
