#include <algorithm>

#include "base/format.h"
#include "base/strings.h"
#include "json/write.h"
#include "kube/conditions.h"
#include "node/pods.h"
#include "node/workloads.h"

namespace cadre::node {
namespace {

constexpr std::string_view kHash = "pod-template-hash";
constexpr std::string_view kRevision = "deployment.kubernetes.io/revision";
constexpr std::string_view kHistory = "deployment.kubernetes.io/revision-history";
constexpr std::string_view kDesired = "deployment.kubernetes.io/desired-replicas";
constexpr std::string_view kMost = "deployment.kubernetes.io/max-replicas";
constexpr std::size_t kLongestHistory = 2000;
// Annotations of a Deployment that its sets do not get.
constexpr std::string_view kNotPassedOn[] = {
    kRevision, kHistory,         kDesired,
    kMost,     engine::kApplied, "kubectl.kubernetes.io/last-applied-configuration"};

std::int64_t revisionOf(const json::Value& set) {
  return parseInt(kube::annotation(set, kRevision)).value_or(0);
}
std::int64_t wantedOf(const json::Value& set) { return set["spec"]["replicas"].integer(1); }
std::int64_t availableOf(const json::Value& set) {
  return set["status"]["availableReplicas"].integer();
}

// "1,3" and 5 is "1,3,5". The oldest are forgotten where it gets too long.
std::string withRevision(std::string_view history, std::int64_t revision) {
  std::string all = format("{}{}{}", history, history.empty() ? "" : ",", revision);
  while (all.size() > kLongestHistory) all.erase(0, all.find(',') + 1);
  return all;
}

// A ReplicaSet for every template that there was; the pods move from the old ones to the newest.
class DeploymentPlan {
 public:
  DeploymentPlan(const json::Value& deployment, engine::World& world)
      : deployment_(deployment),
        spec_(deployment["spec"]),
        world_(world),
        wanted_(spec_["replicas"].integer(1)),
        hash_(shortHash(json::write(spec_["template"]))),
        newest_name_(format("{}-{}", kube::name(deployment), hash_)) {
    const json::Value& rolling = spec_["strategy"]["rollingUpdate"];
    surge_ = share(rolling["maxSurge"], wanted_, true);
    unavailable_ = std::min(share(rolling["maxUnavailable"], wanted_, false), wanted_);
    if (surge_ == 0 && unavailable_ == 0) unavailable_ = 1;
    if (recreates()) surge_ = 0, unavailable_ = wanted_;
    for (const json::Value* set :
         world.list(kReplicaSets, engine::kByOwner, kube::uid(deployment))) {
      auto owner = kube::controllerOf(*set);
      if (!owner || owner->uid != kube::uid(deployment)) continue;
      if (kube::name(*set) == newest_name_)
        newest_ = set;
      else
        old_.push_back(set);
    }
    std::ranges::stable_sort(old_, {}, [](const json::Value* set) {
      return (*set)["metadata"]["creationTimestamp"].string();
    });
  }

  engine::Plan make() {
    if (kube::isDeleting(deployment_)) return std::move(plan_);
    std::int64_t newest = scaleNewest();
    std::vector<std::int64_t> old = scaleOld();
    if (newest_ || (!isPaused() && !(recreates() && oldPodsAreLeft()))) {
      plan_.children.push_back({.resource = kReplicaSets, .object = newestSet(newest)});
      plan_.annotations[std::string(kRevision)] = format("{}", revision());
    }
    forgetHistory();
    for (std::size_t i = 0; i < old_.size(); ++i)
      if (!isForgotten(*old_[i]))
        plan_.children.push_back({.resource = kReplicaSets, .object = oldSet(*old_[i], old[i])});
    tell();
    return std::move(plan_);
  }

 private:
  bool recreates() const { return spec_["strategy"]["type"].string() == "Recreate"; }
  bool isPaused() const { return spec_["paused"].boolean(); }
  std::int64_t newestWanted() const { return newest_ ? wantedOf(*newest_) : 0; }
  std::int64_t total() const {
    std::int64_t sum = newestWanted();
    for (const json::Value* set : old_) sum += wantedOf(*set);
    return sum;
  }

  // ---- How many each has

  bool oldPodsAreLeft() {
    return std::ranges::any_of(old_, [&](const json::Value* set) {
      auto pods = podsOf(world_, kube::uid(*set));
      return std::ranges::any_of(pods, [](const auto* pod) { return !isFinished(*pod); });
    });
  }

  std::int64_t scaleNewest() {
    std::int64_t now = newestWanted();
    if (recreates()) return oldPodsAreLeft() ? now : wanted_;
    if (isPaused()) return total() == now ? wanted_ : now;
    if (now >= wanted_) return wanted_;
    std::int64_t room = wanted_ + surge_ - total();
    return now + std::clamp<std::int64_t>(room, 0, wanted_ - now);
  }

  // Those that do not work go first. Never more than leaves enough that do.
  std::vector<std::int64_t> scaleOld() {
    std::vector<std::int64_t> counts;
    for (const json::Value* set : old_) counts.push_back(wantedOf(*set));
    if (isPaused()) return counts;
    if (recreates()) return std::vector<std::int64_t>(old_.size(), 0);
    const std::int64_t least = wanted_ - unavailable_;
    std::int64_t newest_available = newest_ ? availableOf(*newest_) : 0;
    std::int64_t may_go = total() - least - (newestWanted() - newest_available);
    std::int64_t available = newest_available;
    for (std::size_t i = 0; i < old_.size(); ++i) {
      std::int64_t works = std::min(availableOf(*old_[i]), counts[i]);
      available += works;
      std::int64_t goes =
          std::clamp<std::int64_t>(counts[i] - works, 0, std::max<std::int64_t>(may_go, 0));
      counts[i] -= goes;
      may_go -= goes;
    }
    std::int64_t spare = std::min(available - least, may_go);
    for (std::int64_t& count : counts) {
      std::int64_t goes = std::clamp<std::int64_t>(spare, 0, count);
      count -= goes;
      spare -= goes;
    }
    return counts;
  }

  // ---- The sets

  // One more than every old set has.
  std::int64_t revision() const {
    std::int64_t last = 0;
    for (const json::Value* set : old_) last = std::max(last, revisionOf(*set));
    return std::max(newest_ ? revisionOf(*newest_) : 0, last + 1);
  }

  json::Object annotations(std::int64_t count) const {
    json::Object all;
    for (const auto& [key, value] : deployment_["metadata"]["annotations"].object())
      if (std::ranges::find(kNotPassedOn, key) == std::end(kNotPassedOn)) all.set(key, value);
    all.set(kRevision, format("{}", revision()));
    if (!newest_) return withCounts(std::move(all));
    for (std::string_view key : {kHistory, kDesired, kMost})
      if (const json::Value& kept = (*newest_)["metadata"]["annotations"][key]; !kept.isNull())
        all.set(key, kept);
    // It was the newest before.
    if (std::int64_t before = revisionOf(*newest_); before > 0 && before < revision())
      all.set(kHistory, withRevision(kube::annotation(*newest_, kHistory), before));
    return count > 0 || count != newestWanted() ? withCounts(std::move(all)) : all;
  }
  // How many there should be of all sets together. One without pods is not told of it any more.
  json::Object withCounts(json::Object annotations) const {
    annotations.set(kDesired, format("{}", wanted_));
    annotations.set(kMost, format("{}", wanted_ + surge_));
    return annotations;
  }

  json::Value newestSet(std::int64_t count) const {
    json::Value pods = spec_["template"], selector = spec_["selector"];
    pods.make("metadata").make("labels").make(kHash) = hash_;
    selector.make("matchLabels").make(kHash) = hash_;
    json::Value set = json::Object{
        {"metadata", json::Object{{"name", newest_name_},
                                  {"namespace", kube::ns(deployment_)},
                                  {"labels", pods["metadata"]["labels"]},
                                  {"annotations", annotations(count)}}},
        {"spec", json::Object{{"replicas", count}, {"selector", selector}, {"template", pods}}}};
    if (std::int64_t seconds = spec_["minReadySeconds"].integer(); seconds > 0)
      set.make("spec").make("minReadySeconds") = seconds;
    return set;
  }

  // As it is, but for its pods.
  json::Value oldSet(const json::Value& there, std::int64_t count) const {
    json::Value set =
        json::Object{{"metadata", json::Object{{"name", kube::name(there)},
                                               {"namespace", kube::ns(there)},
                                               {"labels", there["metadata"]["labels"]}}},
                     {"spec", there["spec"]}};
    json::Object kept;
    for (const auto& [key, value] : there["metadata"]["annotations"].object())
      if (key != engine::kApplied) kept.set(key, value);
    if (count > 0 || count != wantedOf(there)) kept = withCounts(std::move(kept));
    set.make("metadata").make("annotations") = std::move(kept);
    set.make("spec").make("replicas") = count;
    return set;
  }

  void forgetHistory() {
    std::vector<const json::Value*> idle;
    for (const json::Value* set : old_)
      if (wantedOf(*set) == 0 && (*set)["status"]["replicas"].integer() == 0 &&
          !kube::isDeleting(*set))
        idle.push_back(set);
    std::ranges::stable_sort(idle, {}, [](const json::Value* set) { return revisionOf(*set); });
    auto limit = static_cast<std::size_t>(
        std::max<std::int64_t>(spec_["revisionHistoryLimit"].integer(10), 0));
    for (std::size_t i = 0; i + limit < idle.size(); ++i)
      plan_.removals.push_back({kReplicaSets, kube::ObjectKey::of(*idle[i])});
  }
  bool isForgotten(const json::Value& set) const {
    return std::ranges::find(plan_.removals, engine::Ref{kReplicaSets, kube::ObjectKey::of(set)}) !=
           plan_.removals.end();
  }

  // ---- The status

  void tell() {
    std::int64_t pods = 0, ready = 0, available = 0;
    auto count = [&](const json::Value& set) {
      pods += set["status"]["replicas"].integer();
      ready += set["status"]["readyReplicas"].integer();
      available += availableOf(set);
    };
    if (newest_) count(*newest_);
    for (const json::Value* set : old_) count(*set);
    std::int64_t updated = newest_ ? (*newest_)["status"]["replicas"].integer() : 0;
    setCount(plan_.status, "replicas", pods);
    setCount(plan_.status, "updatedReplicas", updated);
    setCount(plan_.status, "readyReplicas", ready);
    setCount(plan_.status, "availableReplicas", available);
    setCount(plan_.status, "unavailableReplicas", std::max<std::int64_t>(total() - available, 0));

    bool enough = available >= wanted_ - unavailable_;
    plan_.condition("Available", enough,
                    enough ? "MinimumReplicasAvailable" : "MinimumReplicasUnavailable",
                    enough ? "Deployment has minimum availability."
                           : "Deployment does not have minimum availability.");
    bool complete = newest_ && updated == wanted_ && pods == wanted_ && available == wanted_ &&
                    newestWanted() == wanted_;
    tellProgress(complete);
    if (newest_)
      if (auto failure = kube::findCondition(*newest_, "ReplicaFailure");
          failure && failure->status == kube::ConditionStatus::True)
        plan_.condition("ReplicaFailure", true, failure->reason, failure->message);
  }

  void tellProgress(bool complete) {
    std::string set = format("ReplicaSet \"{}\"", newest_name_);
    std::string done = format("{} has successfully progressed.", set);
    auto before = kube::findCondition(deployment_, "Progressing");
    // A rollout that was complete is not begun again by a pod that fails.
    complete |= before && before->reason == "NewReplicaSetAvailable" && before->message == done;
    if (isPaused())
      return plan_.condition("Progressing", kube::ConditionStatus::Unknown, "DeploymentPaused",
                             "Deployment is paused");
    if (complete) return plan_.condition("Progressing", true, "NewReplicaSetAvailable", done);
    if (!newest_)
      return plan_.condition("Progressing", true, "NewReplicaSetCreated",
                             format("Created new replica set \"{}\"", newest_name_));
    Time late =
        lastProgress() + std::chrono::seconds(spec_["progressDeadlineSeconds"].integer(600));
    if (late <= world_.now())
      return plan_.condition("Progressing", false, "ProgressDeadlineExceeded",
                             format("{} has timed out progressing.", set));
    world_.due(late);
    plan_.condition("Progressing", true, "ReplicaSetUpdated", format("{} is progressing.", set));
  }

  // When the newest set was made, or got a pod ready.
  Time lastProgress() {
    Time last =
        parseTime((*newest_)["metadata"]["creationTimestamp"].string()).value_or(world_.now());
    for (const json::Value* pod : podsOf(world_, kube::uid(*newest_)))
      last = std::max(last, readySince(*pod));
    return last;
  }

  const json::Value& deployment_;
  const json::Value& spec_;
  engine::World& world_;
  const std::int64_t wanted_;
  const std::string hash_, newest_name_;
  std::int64_t surge_ = 0, unavailable_ = 0;
  const json::Value* newest_ = nullptr;
  std::vector<const json::Value*> old_;  // the oldest first
  engine::Plan plan_;
};

}  // namespace

engine::Plan planDeployment(const json::Value& deployment, engine::World& world) {
  return DeploymentPlan(deployment, world).make();
}

}  // namespace cadre::node
