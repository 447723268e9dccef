#include "node/pod_step.h"

#include <algorithm>
#include <set>

#include "base/format.h"
#include "base/strings.h"
#include "kube/conditions.h"
#include "kube/meta.h"

namespace cadre::node {
namespace {

using json::Array;
using json::Object;
using json::Value;

constexpr Duration kFirstPause = 10s, kLongestPause = 5min;
constexpr std::int64_t kGraceSeconds = 30;

enum class Restart { Always, OnFailure, Never };

Restart policyOf(const Value& text) {
  if (text.string() == "Never") return Restart::Never;
  return text.string() == "OnFailure" ? Restart::OnFailure : Restart::Always;
}

// After the first end it starts again at once, then ever later.
Duration pauseAfter(int crashes) {
  if (crashes <= 1) return 0s;
  return std::min<Duration>(kLongestPause, kFirstPause * (1 << std::min(crashes - 2, 10)));
}

bool isSidecar(const Value& container) { return container["restartPolicy"].string() == "Always"; }

bool isRunning(const Run* run) { return run && run->state == Run::State::Running; }
bool isEnded(const Run* run) { return run && run->state == Run::State::Ended; }

class Stepper {
 public:
  Stepper(const Value& pod, const PodSeen& seen, Time now)
      : pod_(pod),
        seen_(seen),
        now_(now),
        inits_(pod["spec"]["initContainers"].array()),
        mains_(pod["spec"]["containers"].array()),
        policy_(policyOf(pod["spec"]["restartPolicy"])),
        grace_(pod["spec"]["terminationGracePeriodSeconds"].integer(kGraceSeconds)) {}

  PodStep take() && {
    initialized_ = areInitsOver();
    const std::string& phase = pod_["status"]["phase"].string();
    if (phase == "Succeeded" || phase == "Failed") {
      phase_ = phase;
      reason_ = pod_["status"]["reason"].string();
      message_ = pod_["status"]["message"].string();
      stopAll(now_ + grace_);
    } else if (auto deadline = deadlineOf(); deadline && *deadline <= now_) {
      phase_ = "Failed";
      reason_ = "DeadlineExceeded";
      message_ = "Pod was active on the node longer than the specified deadline";
      stopAll(now_ + grace_);
    } else if (kube::isDeleting(pod_)) {
      stopAll(parseTime(pod_["metadata"]["deletionTimestamp"].string()).value_or(now_));
    } else {
      if (deadline) dueAt(*deadline);
      advance();
    }
    step_.over = kube::isDeleting(pod_) && std::ranges::none_of(seen_.containers, [](auto& one) {
                   return one.second.run && one.second.run->state != Run::State::Ended;
                 });
    writeStatus();
    return std::move(step_);
  }

 private:
  const Seen& seenOf(const Value& container) const {
    static const Seen kNothing;
    auto found = seen_.containers.find(container["name"].string());
    return found == seen_.containers.end() ? kNothing : found->second;
  }
  const Run* runOf(const Value& container) const {
    const Seen& seen = seenOf(container);
    return seen.run ? &*seen.run : nullptr;
  }

  void dueAt(Time time) { step_.due = step_.due ? std::min(*step_.due, time) : time; }

  std::optional<Time> deadlineOf() const {
    auto since = parseTime(pod_["status"]["startTime"].string());
    const Value& seconds = pod_["spec"]["activeDeadlineSeconds"];
    if (!since || !seconds.isInteger()) return std::nullopt;
    return *since + std::chrono::seconds(seconds.integer());
  }

  // ---- What is to be done

  // Once a main container has run, init containers had their time, whatever became of their traces.
  bool areInitsOver() const {
    if (std::ranges::any_of(mains_, [&](auto& one) { return runOf(one) != nullptr; })) return true;
    return std::ranges::all_of(inits_, [&](const Value& init) { return isPassed(init); });
  }
  bool isPassed(const Value& init) const {
    const Run* run = runOf(init);
    if (isSidecar(init)) return isRunning(run) && run->up;
    return isEnded(run) && run->code == 0;
  }

  void advance() {
    for (const Value& init : inits_) {
      if (isSidecar(init)) {
        keep(init, Restart::Always);
      } else if (!initialized_) {
        keep(init, policy_ == Restart::Never ? Restart::Never : Restart::OnFailure);
        if (const Run* run = runOf(init);
            isEnded(run) && run->code != 0 && policy_ == Restart::Never)
          return fail();
      }
      if (!initialized_ && !isPassed(init)) return;
    }
    for (const Value& main : mains_) keep(main, policy_);
    bool over = std::ranges::all_of(mains_, [&](const Value& main) {
      return isEnded(runOf(main)) && !isToRunAgain(*runOf(main), policy_);
    });
    if (!over) return;
    bool well = std::ranges::all_of(mains_, [&](auto& main) { return runOf(main)->code == 0; });
    if (!well) return fail();
    phase_ = "Succeeded";
    stopAll(now_ + grace_);
  }

  void fail() {
    phase_ = "Failed";
    stopAll(now_ + grace_);
  }

  static bool isToRunAgain(const Run& run, Restart policy) {
    return policy == Restart::Always || (policy == Restart::OnFailure && run.code != 0);
  }

  void keep(const Value& container, Restart policy) {
    const Run* run = runOf(container);
    if (!run) return start(container);
    if (isRunning(run) && !run->alive) {
      std::chrono::seconds grace = graceOf(container);
      return stop(container, *run, now_ + grace, grace);
    }
    if (!isEnded(run) || !isToRunAgain(*run, policy)) return;
    Time again = run->ended + pauseAfter(seenOf(container).crashes);
    if (again <= now_) return start(container);
    waits_.insert(container["name"].string());
    dueAt(again);
  }

  void start(const Value& container) { step_.start.push_back(container["name"].string()); }

  // The probe that failed may give it another time to end than the pod does.
  std::chrono::seconds graceOf(const Value& container) const {
    const char* failed = runOf(container)->up ? "livenessProbe" : "startupProbe";
    return std::chrono::seconds(
        container[failed]["terminationGracePeriodSeconds"].integer(grace_.count()));
  }

  void stop(const Value& container, const Run& run, Time latest, std::chrono::seconds grace) {
    std::string name = container["name"].string();
    if (latest <= now_) return step_.stop.push_back({std::move(name), true});
    if (!run.stopping) return step_.stop.push_back({std::move(name), false});
    Time kill = std::min(latest, *run.stopping + grace);
    if (kill <= now_) return step_.stop.push_back({std::move(name), true});
    dueAt(kill);
  }

  // Sidecars last: the others may still need them.
  void stopAll(Time latest) {
    bool busy = false;
    auto stopThese = [&](const Array& containers, bool sidecars) {
      for (const Value& one : containers) {
        const Run* run = runOf(one);
        if (!run || run->state == Run::State::Ended || isSidecar(one) != sidecars) continue;
        busy = true;
        stop(one, *run, latest, grace_);
      }
    };
    stopThese(mains_, false);
    stopThese(inits_, false);
    if (!busy || latest <= now_) stopThese(inits_, true);
  }

  // ---- What there is to say

  // It has its volumes and its network: somebody got as far as to start a container, or could.
  bool isFurnished() const {
    return std::ranges::any_of(seen_.containers, [](auto& one) {
      const Seen& seen = one.second;
      return seen.run || (!seen.reason.empty() && seen.reason != kNotFurnished);
    });
  }

  bool isReady(const Value& container) const {
    const Run* run = runOf(container);
    return isRunning(run) && run->up && run->ready;
  }

  Value terminated(const Run& run) const {
    std::string reason = !run.reason.empty() ? run.reason : run.code == 0 ? "Completed" : "Error";
    Object out{{"exitCode", run.code},
               {"reason", reason},
               {"startedAt", formatTime(run.started)},
               {"finishedAt", formatTime(run.ended)},
               {"containerID", run.id}};
    if (run.code > 128 && run.code < 193) out.set("signal", run.code - 128);
    if (!run.message.empty()) out.set("message", run.message);
    return Object{{"terminated", std::move(out)}};
  }

  Value waiting(const Value& container, bool init) const {
    const Seen& seen = seenOf(container);
    const std::string& name = container["name"].string();
    if (!seen.reason.empty())
      return Object{{"waiting", Object{{"reason", seen.reason}, {"message", seen.message}}}};
    if (waits_.contains(name))
      return Object{
          {"waiting",
           Object{{"reason", "CrashLoopBackOff"},
                  {"message", format("back-off {} restarting failed container={} pod={}_{}({})",
                                     formatDuration(pauseAfter(seen.crashes)), name,
                                     kube::name(pod_), kube::ns(pod_), kube::uid(pod_))}}}};
    bool initializing = init || !initialized_;
    return Object{
        {"waiting", Object{{"reason", initializing ? "PodInitializing" : "ContainerCreating"}}}};
  }

  Value statusOf(const Value& container, bool init) const {
    const Seen& seen = seenOf(container);
    const Run* run = runOf(container);
    bool blocked = !seen.reason.empty() || waits_.contains(container["name"].string());
    Value state, last;
    if (isRunning(run)) {
      state = Object{{"running", Object{{"startedAt", formatTime(run->started)}}}};
    } else if (isEnded(run) && !blocked) {
      state = terminated(*run);
    } else {
      state = waiting(container, init);
    }
    if (isEnded(run) && blocked) {
      last = terminated(*run);
    } else if (seen.before && isEnded(&*seen.before)) {
      last = terminated(*seen.before);
    }
    // An init container is ready when it is over.
    bool ready = init && !isSidecar(container) ? isPassed(container) : isReady(container);
    Object out{{"name", container["name"]},
               {"image", container["image"]},
               {"imageID", run ? run->image_id : ""},
               {"ready", ready},
               {"started", isRunning(run) && run->up},
               {"restartCount", run ? run->attempt : 0},
               {"state", std::move(state)},
               {"lastState", last.isNull() ? Value(Object()) : std::move(last)}};
    if (run && !run->id.empty()) out.set("containerID", run->id);
    return out;
  }

  std::string phase() const {
    if (!phase_.empty()) return phase_;
    if (!initialized_) return "Pending";
    bool all = std::ranges::all_of(mains_, [&](const Value& main) {
      const Seen& seen = seenOf(main);
      return seen.before || isRunning(runOf(main)) || isEnded(runOf(main));
    });
    return all ? "Running" : "Pending";
  }

  void writeStatus() {
    Value status = pod_["status"].isObject() ? pod_["status"] : Value(Object());
    std::string phase = this->phase();
    status.make("phase") = phase;
    auto set = [&](std::string_view name, const std::string& text) {
      if (text.empty())
        status.makeObject().erase(name);
      else
        status.make(name) = text;
    };
    set("reason", reason_);
    set("message", message_);
    const Value& generation = pod_["metadata"]["generation"];
    if (generation.isInteger()) status.make("observedGeneration") = generation;
    if (status["startTime"].isNull()) status.make("startTime") = formatTime(now_);
    auto setAddress = [&](const char* one, const char* all, const std::string& address) {
      if (address.empty()) return;
      status.make(one) = address;
      status.make(all) = Array{Object{{"ip", address}}};
    };
    setAddress("podIP", "podIPs", seen_.address);
    setAddress("hostIP", "hostIPs", seen_.host_address);
    auto list = [&](std::string_view name, const Array& containers, bool init) {
      Array all;
      for (const Value& one : containers) all.push_back(statusOf(one, init));
      if (!all.empty()) status.make(name) = std::move(all);
    };
    list("initContainerStatuses", inits_, true);
    list("containerStatuses", mains_, false);
    writeConditions(status, phase);
    step_.status = std::move(status);
  }

  void writeConditions(Value& status, const std::string& phase) {
    Array conditions = status["conditions"].array();
    const Value& generation = pod_["metadata"]["generation"];
    // Unlike those of other kinds, conditions of pods need no reason.
    auto set = [&](std::string_view type, bool holds, std::string_view reason = {},
                   std::string_view message = {}) {
      auto place = std::ranges::find_if(
          conditions, [&](const Value& one) { return one["type"].string() == type; });
      if (place == conditions.end()) place = conditions.insert(place, Object{{"type", type}});
      std::string_view status_text = holds ? "True" : "False";
      if ((*place)["status"].string() != status_text) {
        place->make("status") = status_text;
        place->make("lastTransitionTime") = formatTime(now_);
      }
      if (generation.isInteger()) place->make("observedGeneration") = generation;
      for (auto [name, text] : {std::pair("reason", reason), std::pair("message", message)}) {
        if (text.empty())
          place->makeObject().erase(name);
        else
          place->make(name) = text;
      }
    };
    bool over = phase == "Succeeded" || phase == "Failed";
    std::string ended = phase == "Succeeded" ? "PodCompleted" : "PodFailed";
    set("PodScheduled", true);
    set("PodReadyToStartContainers", !over && isFurnished());
    if (initialized_) {
      set("Initialized", true, phase == "Succeeded" ? ended : "");
    } else {
      set("Initialized", false, "ContainersNotInitialized",
          "containers with incomplete status: " +
              names(inits_, [&](auto& init) { return !isPassed(init); }));
    }
    std::string unready = names(mains_, [&](auto& main) { return !isReady(main); });
    std::string message = "containers with unready status: " + unready;
    if (over) {
      set("ContainersReady", false, ended);
      set("Ready", false, ended);
    } else if (unready != "[]") {
      set("ContainersReady", false, "ContainersNotReady", message);
      set("Ready", false, "ContainersNotReady", message);
    } else {
      set("ContainersReady", true);
      std::string missing;
      for (const Value& gate : pod_["spec"]["readinessGates"].array())
        if (!kube::isConditionTrue(pod_, gate["conditionType"].string()))
          missing = gate["conditionType"].string();
      if (missing.empty()) {
        set("Ready", true);
      } else {
        set("Ready", false, "ReadinessGatesNotReady",
            format("the status of pod readiness gate \"{}\" is not \"True\", but False", missing));
      }
    }
    status.make("conditions") = std::move(conditions);
  }

  template <class Which>
  static std::string names(const Array& containers, Which which) {
    std::vector<std::string> found;
    for (const Value& one : containers)
      if (which(one)) found.push_back(one["name"].string());
    return "[" + join(found, " ") + "]";
  }

  const Value& pod_;
  const PodSeen& seen_;
  const Time now_;
  const Array &inits_, &mains_;
  const Restart policy_;
  const std::chrono::seconds grace_;
  bool initialized_ = false;
  std::string phase_, reason_, message_;
  std::set<std::string, std::less<>> waits_;  // containers that are started again later
  PodStep step_;
};

}  // namespace

PodStep stepOf(const Value& pod, const PodSeen& seen, Time now) {
  return Stepper(pod, seen, now).take();
}

}  // namespace cadre::node
