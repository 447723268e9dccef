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

// A container that failed as the rule of a podFailurePolicy says; null where there is none.
const json::Value* failedAs(const json::Value& on_exit_codes, const json::Value& pod) {
  const std::string& name = on_exit_codes["containerName"].string();
  const json::Array& codes = on_exit_codes["values"].array();
  for (std::string_view list : {"containerStatuses", "initContainerStatuses"})
    for (const json::Value& container : pod["status"][list].array()) {
      const json::Value& code = container["state"]["terminated"]["exitCode"];
      if (code.integer() == 0 || (!name.empty() && container["name"].string() != name)) continue;
      bool is_in = std::ranges::find(codes, code) != codes.end();
      if (on_exit_codes["operator"].string() == (is_in ? "In" : "NotIn")) return &container;
    }
  return nullptr;
}
// A condition of the pod that the rule names; null where there is none.
const json::Value* meets(const json::Value& on_pod_conditions, const json::Value& pod) {
  for (const json::Value& has : pod["status"]["conditions"].array())
    for (const json::Value& wanted : on_pod_conditions.array()) {
      const json::Value status = wanted["status"].isNull() ? "True" : wanted["status"];
      if (has["type"] == wanted["type"] && has["status"] == status) return &has;
    }
  return nullptr;
}

// What the first rule that fits says of a pod that failed.
struct Verdict {
  std::string action = "Count";
  std::string message = {};
};
Verdict judge(const json::Value& policy, const json::Value& pod) {
  std::string at = format("{}/{}", kube::ns(pod), kube::name(pod));
  for (std::size_t i = 0; i < policy["rules"].array().size(); ++i) {
    const json::Value& rule = policy["rules"].at(i);
    const std::string& action = rule["action"].string();
    std::string which = format("matching {} rule at index {}", action, i);
    if (const json::Value* container = failedAs(rule["onExitCodes"], pod))
      return {action, format("Container {} for pod {} failed with exit code {} {}",
                             (*container)["name"].string(), at,
                             (*container)["state"]["terminated"]["exitCode"].integer(), which)};
    if (const json::Value* condition = meets(rule["onPodConditions"], pod))
      return {action,
              format("Pod {} has condition {} {}", at, (*condition)["type"].string(), which)};
  }
  return {};
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
    if (auto how = told()) return over(*how);
    if (auto how = ended()) return alive_.empty() ? over(*how) : end(*how);
    if (spec_["suspend"].boolean()) return suspend();
    begin();
    makePods();
    tell();
    return std::move(plan_);
  }

 private:
  struct End {
    bool good;
    std::string reason, message;

    std::string_view target() const { return good ? "SuccessCriteriaMet" : "FailureTarget"; }
    std::string_view type() const { return good ? "Complete" : "Failed"; }
  };
  // How it ends, as it was written down.
  std::optional<End> told() const {
    for (bool good : {true, false})
      for (std::string_view type : {End{good}.target(), End{good}.type()})
        if (auto one = kube::findCondition(job_, type);
            one && one->status == kube::ConditionStatus::True)
          return End{good, one->reason, one->message};
    return std::nullopt;
  }

  void count() {
    if (indexed_)
      done_ = numbers(before_["completedIndexes"].string(), spec_["completions"].integer(1));
    std::int64_t good = 0, bad = 0;
    for (const json::Value* pod : pods_) {
      if (isAlive(*pod)) {
        alive_.push_back(pod);
        ready_ += isReady(*pod);
        restarts_ += restarts(*pod);
      }
      terminating_ += kube::isDeleting(*pod) && !isFinished(*pod);
      good += succeeded(*pod);
      if (failed(*pod)) {
        last_failure_ = std::max(last_failure_, finishedAt(*pod));
        Verdict verdict = judge(spec_["podFailurePolicy"], *pod);
        (verdict.action == "Ignore" ? ignored_ : bad) += 1;
        if (verdict.action == "FailJob" && fatal_.empty()) fatal_ = verdict.message;
      }
      if (indexed_ && succeeded(*pod))
        if (auto index = parseInt(kube::annotation(*pod, kIndex))) done_.insert(*index);
    }
    // What was counted stays so when somebody deletes the pod.
    succeeded_ = indexed_ ? static_cast<std::int64_t>(done_.size())
                          : std::max(good, before_["succeeded"].integer());
    failed_ = std::max(bad, before_["failed"].integer());
  }

  // Restarts count by themselves, those of pods that are still tried.
  bool isPastLimit() const {
    const std::int64_t limit = spec_["backoffLimit"].integer(6);
    bool restarted = spec_["template"]["spec"]["restartPolicy"].string() == "OnFailure" &&
                     restarts_ >= std::max<std::int64_t>(limit, 1);
    return failed_ > limit || restarted;
  }

  std::optional<End> ended() {
    if (!fatal_.empty()) return End{false, "PodFailurePolicy", fatal_};
    bool enough = spec_["completions"].isNull() ? succeeded_ > 0 && alive_.empty()
                                                : succeeded_ >= spec_["completions"].integer();
    if (enough) return End{true, "CompletionsReached", "Reached expected number of succeeded pods"};
    if (isPastLimit())
      return End{false, "BackoffLimitExceeded", "Job has reached the specified backoff limit"};
    auto started = parseTime(before_["startTime"].string());
    const json::Value& deadline = spec_["activeDeadlineSeconds"];
    if (started && !deadline.isNull() && !spec_["suspend"].boolean()) {
      Time late = *started + std::chrono::seconds(deadline.integer());
      if (late <= world_.now())
        return End{false, "DeadlineExceeded", "Job was active longer than specified deadline"};
      world_.due(late);
    }
    return std::nullopt;
  }

  // How it ends is written down before anything is done about it. With a Job that fails, all pods
  // that still run have failed: once they are gone nobody could count them.
  engine::Plan end(const End& how) {
    begin();
    if (!how.good) failed_ += static_cast<std::int64_t>(alive_.size());
    tellSuspended();
    plan_.condition(std::string(how.target()), true, how.reason, how.message);
    counts();
    world_.get(kJobs, kube::ObjectKey::of(job_));  // looked at again once it is written
    return std::move(plan_);
  }

  // Nothing runs any more. When all pods have ended, so has the Job; and after a while it is
  // forgotten, where it says so.
  engine::Plan over(const End& how) {
    stop();
    begin();
    tellSuspended();
    plan_.condition(std::string(how.target()), true, how.reason, how.message);
    auto before = kube::findCondition(job_, how.type());
    if (before || terminating_ == 0) {
      Time then = before ? before->last_transition_time : world_.now();
      plan_.condition(std::string(how.type()), true, how.reason, how.message);
      if (how.good) {
        std::string at = before_["completionTime"].string();
        plan_.status.set("completionTime", at.empty() ? formatTime(then) : at);
      }
      forget(then);
    }
    counts();
    return std::move(plan_);
  }
  void forget(Time ended) {
    const json::Value& keep = spec_["ttlSecondsAfterFinished"];
    if (keep.isNull()) return;
    Time forgotten = ended + std::chrono::seconds(keep.integer());
    if (forgotten <= world_.now())
      plan_.removals.push_back({kJobs, kube::ObjectKey::of(job_)});
    else
      world_.due(forgotten);
  }

  engine::Plan suspend() {
    stop();
    counts();
    plan_.condition("Suspended", true, "JobSuspended", "Job suspended");
    return std::move(plan_);
  }
  // As it was when it ended.
  void tellSuspended() {
    if (auto before = kube::findCondition(job_, "Suspended"))
      plan_.condition("Suspended", before->status, before->reason, before->message);
  }

  void stop() {
    for (const json::Value* pod : alive_)
      plan_.removals.push_back({kPods, kube::ObjectKey::of(*pod)});
    terminating_ += static_cast<std::int64_t>(alive_.size());
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
    // Those that go have their place until they are gone, where it says so.
    bool keeps_place = spec_["podReplacementPolicy"].string() == "Failed";
    if (keeps_place) running += terminating_;
    if (running >= wanted || isPausing()) return;
    std::set<std::int64_t> taken = done_;
    for (const json::Value* pod : pods_) {
      bool has_place = keeps_place ? !isFinished(*pod) : isAlive(*pod);
      auto index = parseInt(kube::annotation(*pod, kIndex));
      if (has_place && index) taken.insert(*index);
    }
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
    const std::int64_t failures = failed_ + ignored_;
    if (failures == 0) return false;
    Duration pause = kFirstPause;
    for (std::int64_t i = 1; i < failures && pause < kLongestPause; ++i) pause *= 2;
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
    plan_.status.set("terminating", terminating_);
    plan_.status.set("uncountedTerminatedPods", json::Object());  // all are counted
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
  std::int64_t succeeded_ = 0, failed_ = 0, ignored_ = 0, restarts_ = 0;
  std::int64_t ready_ = 0, terminating_ = 0;
  std::string fatal_;  // the failure that no other pod can make up for
  Time last_failure_ = {};
  engine::Plan plan_;
};

}  // namespace

engine::Plan planJob(const json::Value& job, engine::World& world) {
  return JobPlan(job, world).make();
}

}  // namespace cadre::node
