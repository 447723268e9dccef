// What a pod needs, as a table: the cases of test/node/pods. A case is
//   title, now      times are seconds since the pod began, or times
//   pod             its spec, or names of the file's `given`; `status` and `deleted` (a time)
//   beside seen            by container: {run: {...}, before: {...}, crashes, reason, message}
//   expect          start, stop ("web" asked, "web!" killed), due, over, status
#include "node/pod_step.h"

#include <gtest/gtest.h>

#include "base/format.h"
#include "engine/testing/plan_table.h"

namespace cadre::node {
namespace {

const Time kBegin = *parseTime("2026-01-01T00:00:00Z");

Time at(const json::Value& seconds) { return kBegin + std::chrono::seconds(seconds.integer()); }

std::optional<Run> runOf(const json::Value& said) {
  if (said.isNull()) return std::nullopt;
  Run run{.attempt = static_cast<int>(said["attempt"].integer()),
          .id = "process://1",
          .started = at(said["started"]),
          .ended = at(said["ended"]),
          .code = static_cast<int>(said["code"].integer()),
          .reason = said["reason"].string(),
          .up = said["up"].boolean(true),
          .ready = said["ready"].boolean(true),
          .alive = said["alive"].boolean(true)};
  run.state = !said["ended"].isNull()     ? Run::State::Ended
              : !said["started"].isNull() ? Run::State::Running
                                          : Run::State::Starting;
  if (!said["stopping"].isNull()) run.stopping = at(said["stopping"]);
  return run;
}

json::Value shown(const PodStep& step) {
  json::Value out = json::Object{{"status", step.status}, {"over", step.over}};
  json::Array start, stop;
  for (const std::string& one : step.start) start.emplace_back(one);
  for (const PodStep::Stop& one : step.stop)
    stop.emplace_back(one.container + (one.kill ? "!" : ""));
  out.make("start") = std::move(start);
  out.make("stop") = std::move(stop);
  if (step.due)
    out.make("due") = std::chrono::duration_cast<std::chrono::seconds>(*step.due - kBegin).count();
  return out;
}

TEST(PodStep, Tables) {
  for (const auto& path : engine::planTables(CADRE_POD_CASES)) {
    engine::PlanTable table(path);
    for (const json::Document& document : table.cases) {
      const json::Value& test = document.value;
      const json::Value& said = test["pod"];
      json::Value spec = said.isString() ? table.given[said.string()] : said;
      json::Value pod = json::Object{
          {"metadata", json::Object{{"name", "web"}, {"namespace", "ns"}, {"uid", "u"}}},
          {"spec", spec},
          {"status", test["status"]}};
      if (!test["deleted"].isNull())
        pod.make("metadata").make("deletionTimestamp") = formatTime(at(test["deleted"]));
      PodSeen seen{.containers = {}, .address = "127.1.2.3", .host_address = "127.0.0.1"};
      for (const auto& [name, one] : test["seen"].object())
        seen.containers[name] = {.run = runOf(one["run"]),
                                 .before = runOf(one["before"]),
                                 .crashes = static_cast<int>(one["crashes"].integer()),
                                 .reason = one["reason"].string(),
                                 .message = one["message"].string()};
      json::Value step = shown(stepOf(pod, seen, at(test["now"])));
      for (const std::string& difference : engine::differences(test["expect"], step, "step"))
        ADD_FAILURE() << path.filename().string() << ": " << test["title"].string() << ": "
                      << difference;
      // What it says of itself changes nothing: it would be written again and again.
      pod.make("status") = step["status"];
      EXPECT_EQ(shown(stepOf(pod, seen, at(test["now"])))["status"], step["status"])
          << test["title"].string();
    }
  }
}

}  // namespace
}  // namespace cadre::node
