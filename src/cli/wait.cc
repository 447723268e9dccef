#include <CLI/CLI.hpp>
#include <algorithm>
#include <variant>

#include "base/format.h"
#include "base/strings.h"
#include "cli/commands.h"
#include "cli/objects.h"
#include "hub/json_path.h"
#include "json/write.h"
#include "kube/conditions.h"

namespace cadre::cli {
namespace {

struct WaitFlags {
  ClusterFlags cluster;
  ObjectFlags objects;
  std::string what, timeout = "30s";
};

// What is waited for, of any object. Knows by itself what of it is missing.
class Goal {
 public:
  // "condition=Ready", "condition=Ready=false", "delete", "create", "jsonpath={.spec.x}=3".
  static Result<Goal> parse(std::string_view text) {
    Goal goal;
    auto [what, rest] = cut(text, "=");
    auto [first, second] = cut(rest, "=");
    if (text == "delete" || text == "create") {
      goal.kind_ = text == "delete" ? Kind::Deleted : Kind::Created;
    } else if (what == "condition" && !first.empty()) {
      goal.kind_ = Kind::Condition;
      goal.name_ = first;
      goal.value_ = second.empty() ? "True" : std::string(second);
    } else if (what == "jsonpath" && !rest.empty()) {
      CADRE_TRY(goal.takePath(rest));
    } else {
      return Error{.code = Code::InvalidArgument,
                   .message = format("--for {}: it is condition=NAME, condition=NAME=VALUE, "
                                     "jsonpath={{.PATH}}=VALUE, create or delete",
                                     shorten(text, 100))};
    }
    return goal;
  }

  bool holds(const json::Value& object) const {
    switch (kind_) {
      case Kind::Deleted:
        return object.isNull();
      case Kind::Created:
        return !object.isNull();
      case Kind::Condition:
        return conditionHolds(object);
      case Kind::Path:
        return std::ranges::any_of(path_.find(object), [&](const json::Value* found) {
          return !value_ || text(*found) == *value_;
        });
    }
    return false;
  }

  std::string missing(const json::Value& object) const {
    if (object.isNull()) return "it is not there";
    if (kind_ == Kind::Deleted) return "it is still there";
    if (kind_ == Kind::Path) return missingAtPath(object);
    auto condition = kube::findCondition(object, name_);
    if (!condition) return format("it has no condition {} yet", name_);
    return format("{} is {}{}{}{}", name_, kube::conditionStatusName(condition->status),
                  isOld(object, *condition) ? ", but of an older generation" : "",
                  condition->reason.empty() ? "" : ": " + condition->reason,
                  condition->message.empty() ? "" : ": " + condition->message);
  }

  // Something that is not there can still come, or is what is waited for.
  bool mayBeAbsent() const { return kind_ == Kind::Deleted || kind_ == Kind::Created; }
  bool isDeletion() const { return kind_ == Kind::Deleted; }

 private:
  enum class Kind { Deleted, Created, Condition, Path };

  // "{.status.phase}=Running", or without a value: it is there.
  Result<> takePath(std::string_view given) {
    kind_ = Kind::Path;
    std::string_view path = given;
    if (given.starts_with("{")) {
      std::size_t close = given.rfind('}');
      if (close == given.npos)
        return Error{.code = Code::InvalidArgument,
                     .message = format("--for jsonpath={}: a brace is not closed", given)};
      path = given.substr(1, close - 1);
      std::string_view rest = given.substr(close + 1);
      if (rest.starts_with("=")) value_ = std::string(rest.substr(1));
    } else if (std::size_t equals = given.rfind('='); equals != given.npos) {
      path = given.substr(0, equals);
      value_ = std::string(given.substr(equals + 1));
    }
    name_ = path;
    CADRE_LET(path_, hub::JsonPath::parse(path));
    return {};
  }

  static std::string text(const json::Value& value) {
    return value.isString() ? value.string() : json::write(value);
  }

  // What a controller said before it saw the newest spec does not count.
  static bool isOld(const json::Value& object, const kube::Condition& condition) {
    std::int64_t observed = condition.observed_generation;
    if (observed == 0) observed = object["status"]["observedGeneration"].integer();
    return observed != 0 && observed < kube::generation(object);
  }

  bool conditionHolds(const json::Value& object) const {
    auto condition = kube::findCondition(object, name_);
    return condition && equalsIgnoreCase(kube::conditionStatusName(condition->status), *value_) &&
           !isOld(object, *condition);
  }

  std::string missingAtPath(const json::Value& object) const {
    std::vector<std::string> found;
    for (const json::Value* value : path_.find(object)) found.push_back(shorten(text(*value), 100));
    if (found.empty()) return format("there is no {} yet", name_);
    return format("{} is {}", name_, join(found, ", "));
  }

  Kind kind_ = Kind::Created;
  std::string name_;  // of the condition; the path
  std::optional<std::string> value_;
  hub::JsonPath path_;
};

class Wait {
 public:
  Wait(Cluster& cluster, const Goal& goal, const WaitFlags& flags, const Surroundings& surroundings)
      : cluster_(cluster),
        goal_(goal),
        flags_(flags),
        surroundings_(surroundings),
        end_(cluster.loop.clock().instant() + parseDuration(flags.timeout).value_or(30s)) {}

  Result<int> waitFor(const Found& one) {
    if (one.object.isNull() && !goal_.mayBeAbsent()) return failWith(surroundings_, notThere(one));
    std::string uid(kube::uid(one.object)), last = goal_.missing(one.object);
    bool lost = false;
    auto look = [&](const json::Value& object) {
      // Another one of the same name is not the one that was there.
      bool same = uid.empty() || kube::uid(object) == uid;
      lost = !same && !goal_.mayBeAbsent();
      last = goal_.missing(object);
      return lost || goal_.holds(goal_.isDeletion() && !same ? json::Value() : object);
    };
    Duration left = std::max<Duration>(end_ - cluster_.loop.clock().instant(), 0s);
    bool done = look(one.object);
    if (!done) {
      CADRE_LET(done,
                waitUntil(cluster_,
                          {.resource = one.resource,
                           .key = one.key,
                           .timeout = left,
                           .holds = look,
                           .missing = [&](const auto& object) { return goal_.missing(object); }},
                          surroundings_));
    }
    if (lost)
      return failWith(surroundings_, Error{.code = Code::NotFound,
                                           .message = one.title() + " was deleted meanwhile",
                                           .reason = "NotFound"});
    if (!done)
      return failWith(surroundings_,
                      Error{.code = Code::DeadlineExceeded,
                            .message = format("{} after {}: {}; look at `cadre describe {}`",
                                              one.title(), flags_.timeout, last, one.title())});
    surroundings_.out(withoutControls(format("{} {}", one.title(),
                                             goal_.isDeletion() ? "deleted" : "condition met")) +
                      "\n");
    return 0;
  }

 private:
  Cluster& cluster_;
  const Goal& goal_;
  const WaitFlags& flags_;
  const Surroundings& surroundings_;
  const Instant end_;
};

Result<int> runWait(const WaitFlags& flags, const Surroundings& surroundings) {
  CADRE_LET(Goal goal, Goal::parse(flags.what));
  CADRE_LET(auto cluster, Cluster::connect(flags.cluster, surroundings));
  CADRE_LET(auto discovery, cluster->discover());
  CADRE_LET(auto named, namedBy(flags.objects.words, discovery));
  CADRE_TRY(flags.objects.sayWhich(named));
  CADRE_LET(auto found, findObjects(*cluster, named, flags.objects));
  if (found.empty()) {
    surroundings.err(nothingFound(named, cluster->ns));
    return goal.isDeletion() ? 0 : 1;
  }
  Wait wait(*cluster, goal, flags, surroundings);
  int code = 0;
  for (const Found& one : found) {
    CADRE_LET(int waited, wait.waitFor(one));
    code = std::max(code, waited);
  }
  return code;
}

}  // namespace

void addWait(CLI::App& app, const Surroundings& surroundings, int& exit_code) {
  auto flags = std::make_shared<WaitFlags>();
  auto* command = app.add_subcommand(
      "wait", "Wait until something holds of objects; exit 1 when it does not in time");
  flags->cluster.addTo(*command, Namespaces::Any);
  flags->objects.addTo(*command, ObjectFlags::Words::Needed);
  command
      ->add_option("--for", flags->what,
                   "condition=NAME, condition=NAME=VALUE, jsonpath={.PATH}=VALUE, create or delete")
      ->required();
  command->add_option("--timeout", flags->timeout, "For all of them together, as 30s or 5m")
      ->capture_default_str()
      ->check(durationProblem);
  command->callback([flags, &surroundings, &exit_code] {
    auto ran = runWait(*flags, surroundings);
    exit_code = ran ? *ran : failWith(surroundings, ran.error());
  });
}

}  // namespace cadre::cli
