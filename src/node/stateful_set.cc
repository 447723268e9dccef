#include <algorithm>
#include <map>

#include "base/format.h"
#include "base/strings.h"
#include "json/write.h"
#include "node/pods.h"
#include "node/workloads.h"

namespace cadre::node {
namespace {

constexpr std::string_view kRevision = "controller-revision-hash";
constexpr std::string_view kPodName = "statefulset.kubernetes.io/pod-name";
constexpr std::string_view kPodIndex = "apps.kubernetes.io/pod-index";

// Pods with names and claims of their own, one after the other: made from the first, changed and
// ended from the last.
class StatefulSetPlan {
 public:
  StatefulSetPlan(const json::Value& set, engine::World& world)
      : set_(set),
        spec_(set["spec"]),
        world_(world),
        name_(kube::name(set)),
        wanted_(spec_["replicas"].integer(1)),
        first_(spec_["ordinals"]["start"].integer()),
        newest_(format("{}-{}", name_, shortHash(json::write(spec_["template"])))) {
    for (const json::Value* pod : podsOf(world, kube::uid(set)))
      if (auto ordinal = ordinalOf(*pod)) pods_[*ordinal] = pod;
    for (const json::Value* one :
         world.list(kControllerRevisions, engine::kByOwner, kube::uid(set)))
      if (auto owner = kube::controllerOf(*one); owner && owner->uid == kube::uid(set))
        revisions_[std::string(kube::name(*one))] = one;
    current_ = set["status"]["currentRevision"].string();
    if (!revisions_.contains(current_)) current_ = newest_;
  }

  engine::Plan make() {
    if (kube::isDeleting(set_)) return std::move(plan_);
    keepRevisions();
    if (!scale()) update();
    tell();
    return std::move(plan_);
  }

 private:
  std::int64_t end() const { return first_ + wanted_; }
  bool parallel() const { return spec_["podManagementPolicy"].string() == "Parallel"; }

  std::optional<std::int64_t> ordinalOf(const json::Value& pod) const {
    std::string_view name = kube::name(pod);
    if (!name.starts_with(name_ + "-")) return std::nullopt;
    auto ordinal = parseInt(name.substr(name_.size() + 1));
    if (!ordinal || *ordinal < 0) return std::nullopt;
    return ordinal;
  }
  bool isWell(const json::Value& pod) {
    return isAlive(pod) && isAvailable(pod, spec_["minReadySeconds"].integer(), world_);
  }
  void remove(const json::Value& pod) {
    if (!kube::isDeleting(pod)) plan_.removals.push_back({kPods, kube::ObjectKey::of(pod)});
  }

  // ---- Revisions: the templates that its pods may have

  void keepRevisions() {
    std::int64_t last = 0;
    for (const auto& [name, one] : revisions_)
      if (name != newest_) last = std::max(last, (*one)["revision"].integer());
    auto there = revisions_.find(newest_);
    std::int64_t number = there == revisions_.end() ? 0 : (*there->second)["revision"].integer();
    if (number <= last) number = last + 1;
    json::Value pods = spec_["template"];
    pods.make("$patch") = "replace";
    plan_.children.push_back(
        {.resource = kControllerRevisions,
         .object = json::Object{
             {"metadata", json::Object{{"name", newest_},
                                       {"namespace", kube::ns(set_)},
                                       {"labels", spec_["selector"]["matchLabels"]}}},
             {"data", json::Object{{"spec", json::Object{{"template", std::move(pods)}}}}},
             {"revision", number}}});
    // Of those that no pod has, some are history.
    std::vector<const json::Value*> idle;
    for (const auto& [name, one] : revisions_) {
      bool used = name == current_ || std::ranges::any_of(pods_, [&](const auto& pod) {
                    return kube::label(*pod.second, kRevision) == name;
                  });
      if (name != newest_ && !used) idle.push_back(one);
    }
    std::ranges::stable_sort(idle, {},
                             [](const auto* one) { return (*one)["revision"].integer(); });
    auto limit = static_cast<std::size_t>(
        std::max<std::int64_t>(spec_["revisionHistoryLimit"].integer(10), 0));
    std::size_t forgotten = idle.size() > limit ? idle.size() - limit : 0;
    for (std::size_t i = 0; i < forgotten; ++i)
      plan_.removals.push_back({kControllerRevisions, kube::ObjectKey::of(*idle[i])});
    for (const auto& [name, one] : revisions_)
      if (name != newest_ &&
          std::ranges::find(idle.begin(), idle.begin() + static_cast<std::ptrdiff_t>(forgotten),
                            one) == idle.begin() + static_cast<std::ptrdiff_t>(forgotten))
        plan_.children.push_back({.resource = kControllerRevisions, .object = asItIs(*one)});
  }
  static json::Value asItIs(const json::Value& one) {
    return json::Object{{"metadata", json::Object{{"name", kube::name(one)},
                                                  {"namespace", kube::ns(one)},
                                                  {"labels", one["metadata"]["labels"]}}},
                        {"data", one["data"]},
                        {"revision", one["revision"]}};
  }
  json::Value templateOf(const std::string& revision) const {
    if (revision == newest_) return spec_["template"];
    json::Value pods = (*revisions_.at(revision))["data"]["spec"]["template"];
    pods.makeObject().erase("$patch");
    return pods;
  }

  // ---- Pods

  // Those below it keep the revision that they have.
  std::int64_t partition() const {
    return first_ + spec_["updateStrategy"]["rollingUpdate"]["partition"].integer();
  }
  std::string revisionFor(std::int64_t ordinal) const {
    bool rolls = spec_["updateStrategy"]["type"].string() != "OnDelete";
    bool held = rolls && ordinal < partition();
    return held || isBeforeUpdate(ordinal) ? current_ : newest_;
  }
  // The update comes from the last pod down: one that is missing below it comes back as it was.
  bool isBeforeUpdate(std::int64_t ordinal) const {
    return std::any_of(pods_.begin(), pods_.end(), [&](const auto& pod) {
      return pod.first > ordinal && pod.first < end() &&
             kube::label(*pod.second, kRevision) != newest_;
    });
  }

  // True when there is more to do before anything is updated.
  bool scale() {
    bool busy = false;
    for (std::int64_t ordinal = first_; ordinal < end(); ++ordinal) {
      auto there = pods_.find(ordinal);
      bool well = there != pods_.end() && isWell(*there->second);
      if (there == pods_.end()) {
        makePod(ordinal);
      } else if (isFinished(*there->second)) {
        remove(*there->second);  // and then it is made anew
      }
      busy |= !well;
      if (!well && !parallel()) return true;
    }
    for (auto pod = pods_.rbegin(); pod != pods_.rend(); ++pod) {
      if (pod->first >= first_ && pod->first < end()) continue;
      remove(*pod->second);
      busy = true;
      if (!parallel()) break;
    }
    return busy;
  }

  void update() {
    if (spec_["updateStrategy"]["type"].string() == "OnDelete") return;
    for (auto pod = pods_.rbegin(); pod != pods_.rend() && pod->first >= partition(); ++pod)
      if (kube::label(*pod->second, kRevision) != newest_) return remove(*pod->second);
  }

  void makePod(std::int64_t ordinal) {
    std::string name = format("{}-{}", name_, ordinal), revision = revisionFor(ordinal);
    json::Value pod = podFrom(templateOf(revision), kube::ns(set_), name, format("{}-", name_));
    json::Value& labels = pod.make("metadata").make("labels");
    labels.make(kRevision) = revision;
    labels.make(kPodName) = name;
    labels.make(kPodIndex) = format("{}", ordinal);
    json::Value& spec = pod.make("spec");
    spec.make("hostname") = name;
    if (!spec_["serviceName"].string().empty()) spec.make("subdomain") = spec_["serviceName"];
    for (const json::Value& claim : spec_["volumeClaimTemplates"].array()) {
      std::string_view volume = kube::name(claim);
      std::string claimed = format("{}-{}", volume, name);
      json::Array& volumes = spec.make("volumes").makeArray();
      std::erase_if(volumes,
                    [&](const json::Value& one) { return one["name"].string() == volume; });
      volumes.push_back(json::Object{
          {"name", volume}, {"persistentVolumeClaim", json::Object{{"claimName", claimed}}}});
      json::Value metadata = json::Object{{"name", claimed}, {"namespace", kube::ns(set_)}};
      for (std::string_view field : {"labels", "annotations"})
        if (!claim["metadata"][field].isNull()) metadata.make(field) = claim["metadata"][field];
      for (const auto& [key, value] : spec_["selector"]["matchLabels"].object())
        metadata.make("labels").make(key) = value;
      plan_.children.push_back(
          {.resource = kClaims,
           .object = json::Object{{"metadata", std::move(metadata)}, {"spec", claim["spec"]}},
           .keep = engine::Child::Keep::Once,
           .owned = false});
    }
    plan_.children.push_back(
        {.resource = kPods, .object = std::move(pod), .keep = engine::Child::Keep::Once});
  }

  // ---- The status

  void tell() {
    std::int64_t all = 0, ready = 0, available = 0, current = 0, updated = 0;
    for (const auto& [ordinal, pod] : pods_) {
      if (!isAlive(*pod)) continue;
      ++all;
      ready += isReady(*pod);
      available += isWell(*pod);
      current += kube::label(*pod, kRevision) == current_;
      updated += kube::label(*pod, kRevision) == newest_;
    }
    if (updated == wanted_ && all == wanted_ && ready == wanted_) {
      current_ = newest_;
      current = updated;
    }
    plan_.status.set("replicas", all);
    plan_.status.set("availableReplicas", available);
    setCount(plan_.status, "readyReplicas", ready);
    setCount(plan_.status, "currentReplicas", current);
    setCount(plan_.status, "updatedReplicas", updated);
    plan_.status.set("currentRevision", current_);
    plan_.status.set("updateRevision", newest_);
    plan_.status.set("collisionCount", 0);
  }

  const json::Value& set_;
  const json::Value& spec_;
  engine::World& world_;
  const std::string name_;
  const std::int64_t wanted_, first_;
  const std::string newest_;
  std::string current_;
  std::map<std::int64_t, const json::Value*> pods_;  // by ordinal
  std::map<std::string, const json::Value*> revisions_;
  engine::Plan plan_;
};

}  // namespace

engine::Plan planStatefulSet(const json::Value& set, engine::World& world) {
  return StatefulSetPlan(set, world).make();
}

}  // namespace cadre::node
