#include <algorithm>

#include "base/cron.h"
#include "base/format.h"
#include "base/strings.h"
#include "kube/conditions.h"
#include "node/pods.h"
#include "node/workloads.h"

namespace cadre::node {
namespace {

constexpr std::string_view kScheduledAt = "batch.kubernetes.io/cronjob-scheduled-timestamp";

enum class End { None, Good, Bad };

End endOf(const json::Value& job) {
  if (kube::isConditionTrue(job, "Complete")) return End::Good;
  return kube::isConditionTrue(job, "Failed") ? End::Bad : End::None;
}

// A Job for every time that is due. Its name says which, so it is made once.
class CronJobPlan {
 public:
  CronJobPlan(const json::Value& cron_job, engine::World& world)
      : cron_job_(cron_job), spec_(cron_job["spec"]), before_(cron_job["status"]), world_(world) {
    for (const json::Value* job : world.list(kJobs, engine::kByOwner, kube::uid(cron_job)))
      if (auto owner = kube::controllerOf(*job); owner && owner->uid == kube::uid(cron_job))
        jobs_.push_back(job);
    std::ranges::stable_sort(jobs_, {}, [](const json::Value* job) {
      return (*job)["metadata"]["creationTimestamp"].string();
    });
  }

  engine::Plan make() {
    if (kube::isDeleting(cron_job_)) return std::move(plan_);
    forget(End::Good, spec_["successfulJobsHistoryLimit"].integer(3));
    forget(End::Bad, spec_["failedJobsHistoryLimit"].integer(1));
    last_ = before_["lastScheduleTime"].string();
    if (!spec_["suspend"].boolean()) schedule();
    tell();
    return std::move(plan_);
  }

 private:
  void forget(End end, std::int64_t limit) {
    std::vector<const json::Value*> over;
    for (const json::Value* job : jobs_)
      if (endOf(*job) == end && !kube::isDeleting(*job)) over.push_back(job);
    for (std::size_t i = 0;
         i + static_cast<std::size_t>(std::max<std::int64_t>(limit, 0)) < over.size(); ++i)
      plan_.removals.push_back({kJobs, kube::ObjectKey::of(*over[i])});
  }

  void warn(std::string reason, std::string message) {
    plan_.events.push_back(
        {.id = reason + message, .warning = true, .reason = std::move(reason), .message = message});
  }

  void schedule() {
    auto cron = Cron::parse(spec_["schedule"].string());
    if (!cron) return warn("InvalidSchedule", cron.error().text());
    auto zone = spec_["timeZone"].isNull() ? Result<TimeZone>(TimeZone())
                                           : TimeZone::load(spec_["timeZone"].string());
    if (!zone) return warn("UnknownTimeZone", zone.error().text());

    Time from = parseTime(last_).value_or(
        parseTime(cron_job_["metadata"]["creationTimestamp"].string()).value_or(world_.now()));
    const json::Value& deadline = spec_["startingDeadlineSeconds"];
    if (!deadline.isNull())
      from = std::max(from, world_.now() - std::chrono::seconds(deadline.integer()));
    if (auto next = cron->next(world_.now(), *zone)) world_.due(*next);
    // Those before the last one were missed.
    auto due = cron->last(from, world_.now(), *zone);
    if (due) start(*due, *zone);
  }

  void start(Time due, const TimeZone& zone) {
    std::vector<const json::Value*> active;
    for (const json::Value* job : jobs_)
      if (endOf(*job) == End::None && !kube::isDeleting(*job)) active.push_back(job);
    const std::string& policy = spec_["concurrencyPolicy"].string();
    std::string name = nameAt(due);
    bool runs =
        std::ranges::any_of(active, [&](const auto* job) { return kube::name(*job) == name; });
    if (!runs && !active.empty() && policy == "Forbid") return;  // looked at again when it ends
    if (policy == "Replace")
      for (const json::Value* job : active)
        if (kube::name(*job) != name) plan_.removals.push_back({kJobs, kube::ObjectKey::of(*job)});
    json::Value job =
        json::Object{{"metadata", json::Object{{"name", name}, {"namespace", kube::ns(cron_job_)}}},
                     {"spec", spec_["jobTemplate"]["spec"]}};
    for (std::string_view field : {"labels", "annotations"})
      if (const json::Value& given = spec_["jobTemplate"]["metadata"][field]; !given.isNull())
        job.make("metadata").make(field) = given;
    job.make("metadata").make("annotations").make(kScheduledAt) = formatTime(due, zone);
    plan_.children.push_back(
        {.resource = kJobs, .object = std::move(job), .keep = engine::Child::Keep::Once});
    last_ = formatTime(due);
  }

  std::string nameAt(Time due) const {
    return format("{}-{}", kube::name(cron_job_),
                  std::chrono::floor<std::chrono::minutes>(due.time_since_epoch()).count());
  }

  void tell() {
    if (!last_.empty()) plan_.status.set("lastScheduleTime", last_);
    std::string good = before_["lastSuccessfulTime"].string();
    json::Array active;
    for (const json::Value* job : jobs_) {
      if (endOf(*job) == End::Good)
        good = std::max(good, (*job)["status"]["completionTime"].string());
      if (endOf(*job) == End::None)
        active.push_back(json::Object{{"apiVersion", kJobs.apiVersion()},
                                      {"kind", kJobs.kind},
                                      {"name", kube::name(*job)},
                                      {"namespace", kube::ns(*job)},
                                      {"uid", kube::uid(*job)}});
    }
    if (!good.empty()) plan_.status.set("lastSuccessfulTime", good);
    if (!active.empty()) plan_.status.set("active", std::move(active));
  }

  const json::Value& cron_job_;
  const json::Value& spec_;
  const json::Value& before_;
  engine::World& world_;
  std::vector<const json::Value*> jobs_;  // the oldest first
  std::string last_;
  engine::Plan plan_;
};

}  // namespace

engine::Plan planCronJob(const json::Value& cron_job, engine::World& world) {
  return CronJobPlan(cron_job, world).make();
}

}  // namespace cadre::node
