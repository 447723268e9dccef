#include <algorithm>
#include <set>

#include "base/format.h"
#include "base/strings.h"
#include "kube/conditions.h"
#include "node/pods.h"
#include "node/workloads.h"

namespace cadre::node {
namespace {

constexpr Duration kFirstPause = 10s, kLongestPause = 6min;  // after pods that failed
constexpr std::string_view kIndex = "batch.kubernetes.io/job-completion-index";

bool succeeded(const json::Value& pod) { return pod["status"]["phase"].string() == "Succeeded"; }
bool failed(const json::Value& pod) { return pod["status"]["phase"].string() == "Failed"; }

// When the last of its containers ended.
Time finishedAt(const json::Value& pod) {
  Time last = parseTime(pod["metadata"]["creationTimestamp"].string()).value_or(Time());
  for (const json::Value& container : pod["status"]["containerStatuses"].array())
    if (auto at = parseTime(container["state"]["terminated"]["finishedAt"].string()))
      last = std::max(last, *at);
  return last;
}

std::int64_t restarts(const json::Value& pod) {
  std::int64_t count = 0;
  for (std::string_view list : {"initContainerStatuses", "containerStatuses"})
    for (const json::Value& container : pod["status"][list].array())
      count += container["restartCount"].integer();
  return count;
}

// {0, 1, 2, 5} as "0-2,5", and back.
std::string ranges(const std::set<std::int64_t>& numbers) {
  std::string text;
  for (auto at = numbers.begin(); at != numbers.end();) {
    std::int64_t first = *at, last = first;
    while (++at != numbers.end() && *at == last + 1) ++last;
    text +=
        format("{}{}{}", text.empty() ? "" : ",", first, last > first ? format("-{}", last) : "");
  }
  return text;
}
std::set<std::int64_t> numbers(std::string_view ranges, std::int64_t limit) {
  std::set<std::int64_t> all;
  for (std::string_view range : split(ranges, ',')) {
    auto [first, last] = cut(range, "-");
    auto from = parseInt(first), to = last.empty() ? from : parseInt(last);
    if (!from || !to || *from < 0) continue;
    for (std::int64_t number = *from; number <= *to && number < limit; ++number) all.insert(number);
  }
  return all;
}

// Pods until enough of them have succeeded, or too many failed.
class JobPlan {
 public:
  JobPlan(const json::Value& job, engine::World& world)
      : job_(job),
        spec_(job["spec"]),
        before_(job["status"]),
        world_(world),
        pods_(podsOf(world, kube::uid(job))),
        indexed_(spec_["completionMode"].string() == "Indexed"),
        parallelism_(spec_["parallelism"].integer(1)) {}

  engine::Plan make() {
    if (kube::isDeleting(job_)) return std::move(plan_);
    count();
    for (std::string_view end : {"Complete", "Failed"})
      if (auto told = kube::findCondition(job_, end);
          told && told->status == kube::ConditionStatus::True)
        return over(*told);
    if (auto how = ended()) return over(*how);
    if (spec_["suspend"].boolean()) return suspend();
    begin();
    makePods();
    tell();
    return std::move(plan_);
  }

 private:
  void count() {
    if (indexed_)
      done_ = numbers(before_["completedIndexes"].string(), spec_["completions"].integer(1));
    std::int64_t good = 0, bad = 0;
    for (const json::Value* pod : pods_) {
      if (isAlive(*pod)) {
        alive_.push_back(pod);
        ready_ += isReady(*pod);
        tries_ += restarts(*pod);
      }
      good += succeeded(*pod);
      bad += failed(*pod);
      if (failed(*pod)) last_failure_ = std::max(last_failure_, finishedAt(*pod));
      if (indexed_ && succeeded(*pod))
        if (auto index = parseInt(kube::annotation(*pod, kIndex))) done_.insert(*index);
    }
    // What was counted stays so when somebody deletes the pod.
    succeeded_ = indexed_ ? static_cast<std::int64_t>(done_.size())
                          : std::max(good, before_["succeeded"].integer());
    failed_ = std::max(bad, before_["failed"].integer());
    tries_ += failed_;
  }

  std::optional<kube::Condition> ended() {
    auto end = [](std::string type, std::string reason, std::string message) {
      return kube::Condition{.type = std::move(type),
                             .status = kube::ConditionStatus::True,
                             .reason = std::move(reason),
                             .message = std::move(message)};
    };
    bool enough = spec_["completions"].isNull() ? succeeded_ > 0 && alive_.empty()
                                                : succeeded_ >= spec_["completions"].integer();
    if (enough)
      return end("Complete", "CompletionsReached", "Reached expected number of succeeded pods");
    if (tries_ > spec_["backoffLimit"].integer(6))
      return end("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit");
    auto started = parseTime(before_["startTime"].string());
    const json::Value& deadline = spec_["activeDeadlineSeconds"];
    if (started && !deadline.isNull() && !spec_["suspend"].boolean()) {
      Time late = *started + std::chrono::seconds(deadline.integer());
      if (late <= world_.now())
        return end("Failed", "DeadlineExceeded", "Job was active longer than specified deadline");
      world_.due(late);
    }
    return std::nullopt;
  }

  // Nothing runs any more; and after a while it is forgotten, where it says so.
  engine::Plan over(const kube::Condition& how) {
    stop();
    begin();
    std::string at = before_["completionTime"].string();
    Time then = kube::findCondition(job_, how.type)
                    ? kube::findCondition(job_, how.type)->last_transition_time
                    : world_.now();
    if (how.type == "Complete")
      plan_.status.set("completionTime", at.empty() ? formatTime(then) : at);
    plan_.condition(how.type, true, how.reason, how.message);
    counts();
    if (const json::Value& keep = spec_["ttlSecondsAfterFinished"]; !keep.isNull()) {
      Time forgotten = then + std::chrono::seconds(keep.integer());
      if (forgotten <= world_.now())
        plan_.removals.push_back({kJobs, kube::ObjectKey::of(job_)});
      else
        world_.due(forgotten);
    }
    return std::move(plan_);
  }

  engine::Plan suspend() {
    stop();
    counts();
    plan_.condition("Suspended", true, "JobSuspended", "Job suspended");
    return std::move(plan_);
  }

  void stop() {
    for (const json::Value* pod : alive_)
      plan_.removals.push_back({kPods, kube::ObjectKey::of(*pod)});
    alive_.clear();
    ready_ = 0;
  }

  void begin() {
    std::string started = before_["startTime"].string();
    plan_.status.set("startTime", started.empty() ? formatTime(world_.now()) : started);
  }

  void makePods() {
    auto running = static_cast<std::int64_t>(alive_.size());
    std::int64_t wanted = parallelism_;
    if (!spec_["completions"].isNull())
      wanted = std::min(wanted, spec_["completions"].integer() - succeeded_);
    else if (succeeded_ > 0)
      wanted = std::min(wanted, running);  // they empty the queue; nobody new comes
    auto least = byWorth(alive_);
    for (std::int64_t i = 0; i < running - wanted; ++i)
      plan_.removals.push_back({kPods, kube::ObjectKey::of(*least[static_cast<std::size_t>(i)])});
    if (running >= wanted || isPausing()) return;
    std::set<std::int64_t> taken = done_;
    for (const json::Value* pod : alive_)
      if (auto index = parseInt(kube::annotation(*pod, kIndex))) taken.insert(*index);
    std::int64_t index = 0;
    int tried = 0;
    for (std::int64_t i = running; i < wanted; ++i) {
      while (indexed_ && taken.contains(index)) ++index;
      plan_.children.push_back(
          {.resource = kPods,
           .object = pod(indexed_ ? std::optional(index) : std::nullopt, tried),
           .keep = engine::Child::Keep::Once});
      taken.insert(index);
    }
  }

  // After failures the next pods wait, longer each time.
  bool isPausing() {
    if (failed_ == 0) return false;
    Duration pause = kFirstPause;
    for (std::int64_t i = 1; i < failed_ && pause < kLongestPause; ++i) pause *= 2;
    Time then = last_failure_ + std::min(pause, kLongestPause);
    if (then <= world_.now()) return false;
    world_.due(then);
    return true;
  }

  json::Value pod(std::optional<std::int64_t> index, int& tried) {
    std::string prefix = format("{}-", kube::name(job_));
    if (index) prefix += format("{}-", *index);
    json::Value pod =
        podFrom(spec_["template"], kube::ns(job_), freeName(prefix, job_, world_, tried), prefix);
    if (!index) return pod;
    std::string text = format("{}", *index);
    pod.make("metadata").make("annotations").make(kIndex) = text;
    pod.make("metadata").make("labels").make(kIndex) = text;
    if (pod["spec"]["hostname"].isNull())
      pod.make("spec").make("hostname") = format("{}-{}", kube::name(job_), *index);
    for (std::string_view list : {"initContainers", "containers"}) {
      if (!pod["spec"][list].isArray()) continue;
      for (json::Value& container : pod.make("spec").make(list).makeArray())
        container.make("env").makeArray().push_back(
            json::Object{{"name", "JOB_COMPLETION_INDEX"}, {"value", text}});
    }
    return pod;
  }

  void counts() {
    setCount(plan_.status, "active", static_cast<std::int64_t>(alive_.size()));
    setCount(plan_.status, "succeeded", succeeded_);
    setCount(plan_.status, "failed", failed_);
    plan_.status.set("ready", ready_);
    if (indexed_ && !done_.empty()) plan_.status.set("completedIndexes", ranges(done_));
  }

  void tell() {
    counts();
    if (kube::findCondition(job_, "Suspended"))
      plan_.condition("Suspended", false, "JobResumed", "Job resumed");
    if (!world_.troubles().empty())
      plan_.events.push_back({.id = "FailedCreate " + world_.troubles()[0].message,
                              .warning = true,
                              .reason = "FailedCreate",
                              .message = world_.troubles()[0].message});
  }

  const json::Value& job_;
  const json::Value& spec_;
  const json::Value& before_;
  engine::World& world_;
  const std::vector<const json::Value*> pods_;
  const bool indexed_;
  const std::int64_t parallelism_;
  std::vector<const json::Value*> alive_;
  std::set<std::int64_t> done_;  // indexes
  std::int64_t succeeded_ = 0, failed_ = 0, tries_ = 0, ready_ = 0;
  Time last_failure_ = {};
  engine::Plan plan_;
};

}  // namespace

engine::Plan planJob(const json::Value& job, engine::World& world) {
  return JobPlan(job, world).make();
}

}  // namespace cadre::node
