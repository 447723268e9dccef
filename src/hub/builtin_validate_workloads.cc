// The rules for what makes Pods, and for what scales and protects them.
#include <algorithm>
#include <cctype>
#include <set>

#include "base/format.h"
#include "base/strings.h"
#include "base/time.h"
#include "hub/builtin_rules.h"
#include "kube/quantity.h"
#include "kube/selector.h"

namespace cadre::hub {

namespace {

using json::Value;

constexpr std::string_view kMismatch = "`selector` does not match template `labels`";

// That the pods that it makes are those that it looks for.
void checkMatches(const At& spec) {
  At labels = spec["template"]["metadata"]["labels"];
  auto selector = kube::LabelSelector::fromObject(*spec["selector"]);
  if (spec["selector"].isThere() && !selector) return;
  if (!selector || !selector->matches(labels->object())) labels.invalid(kMismatch);
}

void checkOwnSelector(const At& spec, std::string_view of, bool shows_invalid) {
  At selector = spec["selector"];
  if (!selector.isThere()) {
    selector.required();
  } else {
    bool good = checkSelector(selector);
    if (selector.isEmpty())
      selector.invalidShown("{}", format("empty selector is invalid for {}", of));
    if (!good) {
      if (shows_invalid) selector.invalidShown(selectorJson(*selector), "invalid label selector");
      return;
    }
    if (selector.isEmpty()) return;
  }
  checkMatches(spec);
}

// Pods that are to be there for good are restarted always.
void checkAlwaysRestarted(const At& spec, std::string_view of) {
  At pod = spec["template"]["spec"];
  if (pod["restartPolicy"].text() != "Always") pod["restartPolicy"].unsupported({"Always"});
  if (pod["activeDeadlineSeconds"].isThere())
    pod["activeDeadlineSeconds"].forbidden(
        format("activeDeadlineSeconds in {} is not Supported", of));
}

bool isZero(const Value& count) {
  if (count.isString()) {
    // A text that is no percentage counts as none.
    std::string_view text = count.string();
    bool percent = text.ends_with('%');
    if (percent) text.remove_suffix(1);
    auto number = parseInt(text);
    return !percent || !number || *number <= 0;
  }
  return count.integer() == 0;
}

void checkImmutableSelector(const At& object, const Value& old) {
  At selector = object["spec"]["selector"];
  if (!old.isNull() && *selector != old["spec"]["selector"])
    selector.invalidShown(selectorJson(*selector), "field is immutable");
}

// Each claim is a volume of the pods, in place of one that has its name.
Value withClaims(Value pods, const Value& claims) {
  if (!pods["spec"].isObject()) return pods;
  json::Array volumes;
  std::set<std::string> names;
  for (const Value& claim : claims.array())
    if (const Value& name = claim["metadata"]["name"]; names.insert(name.string()).second)
      volumes.push_back(json::Object{{"name", name},
                                     {"persistentVolumeClaim", json::Object{{"claimName", name}}}});
  if (volumes.empty()) return pods;
  for (const Value& volume : pods["spec"]["volumes"].array())
    if (!names.contains(volume["name"].string())) volumes.push_back(volume);
  pods.make("spec").make("volumes") = std::move(volumes);
  return pods;
}

}  // namespace

void checkDeployment(const At& object, const Value& old) {
  At spec = object["spec"];
  for (std::string_view number : {"replicas", "minReadySeconds", "revisionHistoryLimit"})
    spec[number].notNegative();
  checkOwnSelector(spec, "deployment", true);
  checkPodTemplate(spec["template"]);
  checkAlwaysRestarted(spec, "ReplicaSet");
  At deadline = spec["progressDeadlineSeconds"];
  deadline.notNegative();
  if (deadline.isThere() && deadline->integer() <= spec["minReadySeconds"]->integer())
    deadline.invalid("must be greater than minReadySeconds");
  At strategy = spec["strategy"], rolling = strategy["rollingUpdate"];
  const std::string& type = strategy["type"].text();
  if (type == "Recreate") {
    if (rolling.isThere())
      rolling.forbidden("may not be specified when strategy `type` is 'Recreate'");
  } else if (type == "RollingUpdate") {
    At most = rolling["maxUnavailable"], surge = rolling["maxSurge"];
    most.countOrPercent();
    surge.countOrPercent();
    if (isZero(*most) && isZero(*surge)) most.invalid("may not be 0 when `maxSurge` is 0");
  } else {
    strategy.unsupported({"Recreate", "RollingUpdate"});
  }
  checkImmutableSelector(object, old);
}

void checkReplicaSet(const At& object, const Value& old) {
  At spec = object["spec"];
  for (std::string_view number : {"replicas", "minReadySeconds"}) spec[number].notNegative();
  checkOwnSelector(spec, "deployment", true);
  checkPodTemplate(spec["template"]);
  checkAlwaysRestarted(spec, "ReplicaSet");
  checkImmutableSelector(object, old);
}

void checkReplicationController(const At& object, const Value&) {
  At spec = object["spec"];
  for (std::string_view number : {"replicas", "minReadySeconds"}) spec[number].notNegative();
  if (spec["selector"].isEmpty()) spec["selector"].required();
  At pod = spec["template"];
  if (!pod.isThere()) return pod.required();
  At labels = pod["metadata"]["labels"];
  for (const auto& [key, value] : spec["selector"]->object())
    if ((*labels)[key] != value) {
      labels.invalid(kMismatch);
      break;
    }
  checkPodTemplate(pod);
  checkAlwaysRestarted(spec, "ReplicationController");
}

void checkStatefulSet(const At& object, const Value& old) {
  At spec = object["spec"];
  if (spec["podManagementPolicy"].text() != "OrderedReady" &&
      spec["podManagementPolicy"].text() != "Parallel")
    spec["podManagementPolicy"].invalid("must be 'OrderedReady' or 'Parallel'");
  At strategy = spec["updateStrategy"], rolling = strategy["rollingUpdate"];
  const std::string& type = strategy["type"].text();
  if (type == "OnDelete") {
    if (rolling.isThere()) rolling.invalid("only allowed for updateStrategy 'RollingUpdate'");
  } else if (type == "RollingUpdate") {
    rolling["partition"].notNegative();
    rolling["maxUnavailable"].countOrPercent();
  } else {
    strategy.invalid("must be 'RollingUpdate' or 'OnDelete'");
  }
  for (std::string_view when : {"whenDeleted", "whenScaled"})
    spec["persistentVolumeClaimRetentionPolicy"][when].oneOf({"Retain", "Delete"});
  for (std::string_view number : {"replicas", "minReadySeconds"}) spec[number].notNegative();
  spec["ordinals"]["start"].notNegative();
  checkOwnSelector(spec, "statefulset", true);
  Value pods = withClaims(*spec["template"], *spec["volumeClaimTemplates"]);
  checkPodTemplate(spec["template"].with(pods));
  checkAlwaysRestarted(spec, "StatefulSet");
  if (old.isNull()) {
    for (const At& claim : spec["volumeClaimTemplates"].items()) checkClaimSpec(claim["spec"]);
    At service = spec["serviceName"];
    if (!service.isEmpty()) service.all(labelProblems(service.text()));
    return;
  }
  Value now = *spec, before = old["spec"];
  for (std::string_view name :
       {"replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy", "minReadySeconds"}) {
    now.makeObject().erase(name);
    before.makeObject().erase(name);
  }
  if (now != before)
    spec.forbidden(
        "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
        "'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and "
        "'minReadySeconds' are forbidden");
}

void checkDaemonSet(const At& object, const Value& old) {
  At spec = object["spec"];
  checkSelector(spec["selector"]);
  checkMatches(spec);
  if (spec["selector"].isThere() && spec["selector"].isEmpty())
    spec["selector"].invalidShown("{}", "empty selector is invalid for daemonset");
  checkPodTemplate(spec["template"]);
  checkAlwaysRestarted(spec, "DaemonSet");
  for (std::string_view number : {"minReadySeconds", "revisionHistoryLimit"})
    spec[number].notNegative();
  At strategy = spec["updateStrategy"], rolling = strategy["rollingUpdate"];
  const std::string& type = strategy["type"].text();
  if (type == "RollingUpdate") {
    At most = rolling["maxUnavailable"], surge = rolling["maxSurge"];
    most.countOrPercent();
    surge.countOrPercent();
    bool no_most = isZero(*most), no_surge = isZero(*surge);
    if (!no_most && !no_surge) surge.invalid("may not be set when maxUnavailable is non-zero");
    if (no_most && no_surge) most.required("cannot be 0 when maxSurge is 0");
  } else if (type != "OnDelete") {
    strategy.unsupported({"RollingUpdate", "OnDelete"});
  }
  checkImmutableSelector(object, old);
}

void checkControllerRevision(const At& object, const Value& old) {
  At data = object["data"];
  object["revision"].notNegative();
  if (!old.isNull()) return data.immutable(old["data"]);
  if (!data.isThere())
    data.required("data is mandatory");
  else if (!data->isObject())
    data.required("data must be a valid JSON object");
}

// --- jobs

namespace {

void checkExitCodes(const At& values, bool in) {
  if (values.isEmpty()) values.invalidShown("[]", "at least one value is required");
  values.atMost(255);
  std::set<std::int64_t> seen;
  std::int64_t before = 0;
  bool ordered = true;
  for (const At& value : values.items()) {
    if (in && value->integer() == 0) value.invalid("must not be 0 for the In operator");
    if (!seen.insert(value->integer()).second) value.duplicate();
    ordered = ordered && (seen.size() == 1 || value->integer() >= before);
    before = value->integer();
  }
  if (!ordered) values.invalid("must be ordered");
}

void checkFailurePolicy(const At& spec) {
  At policy = spec["podFailurePolicy"], pod = spec["template"]["spec"];
  if (!policy.isThere()) return;
  if (pod["restartPolicy"].text() != "Never")
    pod["restartPolicy"].invalid("only \"Never\" is supported when podFailurePolicy is specified");
  std::set<std::string> containers;
  for (std::string_view list : {"containers", "initContainers"})
    for (const Value& container : pod[list]->array()) containers.insert(container["name"].string());
  policy["rules"].atMost(20);
  for (const At& rule : policy["rules"].items()) {
    if (rule["action"].isEmpty())
      rule["action"].required("valid values: \"Count\", \"FailIndex\", \"FailJob\", \"Ignore\"");
    else
      rule["action"].oneOf({"Count", "FailIndex", "FailJob", "Ignore"});
    if (rule["action"].text() == "FailIndex" && !spec["backoffLimitPerIndex"].isThere())
      rule["action"].invalid("requires the backoffLimitPerIndex to be set");
    At codes = rule["onExitCodes"], conditions = rule["onPodConditions"];
    if (codes.isThere()) {
      if (codes["operator"].isEmpty())
        codes["operator"].required("valid values: \"In\", \"NotIn\"");
      else
        codes["operator"].oneOf({"In", "NotIn"});
      checkExitCodes(codes["values"], codes["operator"].text() == "In");
      At name = codes["containerName"];
      if (name.isThere() && !containers.contains(name.text()))
        name.invalid("must be one of the container or initContainer names in the pod template");
    }
    for (const At& condition : conditions.items()) {
      condition["type"].all(qualifiedProblems(condition["type"].text()));
      condition["status"].oneOf({"False", "True", "Unknown"});
    }
    bool by_condition = !conditions.isEmpty();
    if (codes.isThere() && by_condition)
      rule.addFinding({.path = rule.path(),
                       .fault = kube::Fault::Invalid,
                       .message = "Invalid value: specifying both OnExitCodes and OnPodConditions "
                                  "is not supported"});
    if (!codes.isThere() && !by_condition)
      rule.addFinding({.path = rule.path(),
                       .fault = kube::Fault::Invalid,
                       .message = "Invalid value: specifying one of OnExitCodes and "
                                  "OnPodConditions is required"});
  }
}

// Indexes as "0,3-5": how many they are, or what is wrong with them.
struct Indexes {
  std::int64_t count = 0;
  std::string problem = {};
};

Indexes indexesOf(std::string_view text, std::int64_t completions) {
  Indexes out;
  std::int64_t last = -1;
  if (text.empty()) return out;
  for (std::string_view interval : split(text, ',')) {
    auto ends = split(interval, '-');
    if (ends.size() > 2)
      return {.problem = format("the fragment \"{}\" violates the requirement that an index "
                                "interval can have at most two parts separated by '-'",
                                interval)};
    for (std::size_t i = 0; i < ends.size(); ++i) {
      auto index = parseInt(ends[i]);
      if (!index)
        return {.problem = format("cannot convert string to integer for index: \"{}\"", ends[i])};
      if (*index >= completions) return {.problem = format("too large index: \"{}\"", ends[i])};
      if (*index <= last)
        return {.problem = format("non-increasing order, previous: {}, current: {}", last, *index)};
      out.count += i == 0 ? 1 : *index - last;
      last = *index;
    }
  }
  return out;
}

void checkSuccessPolicy(const At& spec) {
  At policy = spec["successPolicy"], rules = policy["rules"];
  if (!policy.isThere()) return;
  if (spec["completionMode"].text() != "Indexed")
    return policy.invalid("requires indexed completion mode");
  if (rules.isEmpty())
    rules.required("at least one rules must be specified when the successPolicy is specified");
  rules.atMost(20);
  std::int64_t completions = spec["completions"]->integer();
  for (const At& rule : rules.items()) {
    At count = rule["succeededCount"], chosen = rule["succeededIndexes"];
    if (!count.isThere() && !chosen.isThere())
      rule.required("at least one of succeededCount or succeededIndexes must be specified");
    Indexes indexes = indexesOf(chosen.text(), completions);
    if (!indexes.problem.empty())
      chosen.invalid(format("error parsing succeededIndexes: {}", indexes.problem));
    if (!count.isThere()) continue;
    count.notNegative();
    if (count->integer() > completions)
      count.invalid(format("must be less than or equal to {} (the number of specified completions)",
                           completions));
    if (chosen.isThere() && count->integer() > indexes.count)
      count.invalid(
          format("must be less than or equal to {} (the number of indexes in the "
                 "specified succeededIndexes field)",
                 indexes.count));
  }
}

// Of so many indexes not all can be told one by one.
void checkManyIndexes(const At& spec) {
  constexpr std::int64_t kMany = 100000, kFew = 10000;
  At most = spec["maxFailedIndexes"], parallel = spec["parallelism"];
  const Value& completions = *spec["completions"];
  auto limit = [](const At& number, std::int64_t high, std::string_view when) {
    if (number->integer() > high)
      number.invalid(format("must be less than or equal to {}{}", high, when));
  };
  if (spec["completionMode"].text() == "Indexed")
    limit(parallel, kMany, " when completion mode is Indexed");
  if (most.isThere() && !completions.isNull() && most->integer() > completions.integer())
    most.invalid("must be less than or equal to completions");
  limit(most, kMany, "");
  if (completions.integer() <= kMany || !spec["backoffLimitPerIndex"].isThere()) return;
  constexpr std::string_view kWhen =
      " when completions are above 100000 and used with backoff limit per index";
  if (!most.isThere()) most.required("must be specified when completions is above 100000");
  limit(parallel, kFew, kWhen);
  limit(most, kFew, kWhen);
}

// What a Job and the template of a CronJob have in common.
void checkJobSpec(const At& spec) {
  for (std::string_view number :
       {"parallelism", "completions", "activeDeadlineSeconds", "backoffLimit",
        "ttlSecondsAfterFinished", "backoffLimitPerIndex", "maxFailedIndexes"})
    spec[number].notNegative();
  bool indexed = spec["completionMode"].text() == "Indexed";
  spec["completionMode"].oneOf({"NonIndexed", "Indexed"});
  if (indexed && !spec["completions"].isThere())
    spec["completions"].required("when completion mode is Indexed");
  for (std::string_view number : {"backoffLimitPerIndex", "maxFailedIndexes"})
    if (spec[number].isThere() && !indexed)
      spec[number].invalid("requires indexed completion mode");
  if (!spec["backoffLimitPerIndex"].isThere() && spec["maxFailedIndexes"].isThere() && indexed)
    spec["backoffLimitPerIndex"].required("when maxFailedIndexes is specified");
  At managed = spec["managedBy"];
  if (managed.isThere()) managed.all(domainPathProblems(managed.text()));
  if (spec["podFailurePolicy"].isThere())
    spec["podReplacementPolicy"].oneOf({"Failed"});
  else
    spec["podReplacementPolicy"].oneOf({"Failed", "TerminatingOrFailed"});
  checkManyIndexes(spec);
  checkFailurePolicy(spec);
  checkSuccessPolicy(spec);
  checkPodTemplate(spec["template"]);
  At restart = spec["template"]["spec"]["restartPolicy"];
  if (restart.text() == "Always")
    restart.required("valid values: \"OnFailure\", \"Never\"");
  else if (restart.text() != "OnFailure" && restart.text() != "Never")
    restart.unsupported({"OnFailure", "Never"});
}

// Without one by hand, the selector is the one that is made from the uid, and the pods have what it
// asks for. Of old ones not all labels are asked.
void checkGeneratedSelector(const At& object, const Value& old) {
  constexpr std::string_view kPrefix = "batch.kubernetes.io/";
  At spec = object["spec"], labels = spec["template"]["metadata"]["labels"];
  if (spec["manualSelector"]->boolean() || !spec["selector"].isThere()) return;
  const std::string &name = object["metadata"]["name"].text(),
                    &uid = object["metadata"]["uid"].text();
  const Value& before = old["spec"]["template"]["metadata"]["labels"];
  json::Object made;
  for (auto [key, value] : {std::pair("controller-uid", &uid), std::pair("job-name", &name)}) {
    made.set(key, *value);
    const std::string prefixed = format("{}{}", kPrefix, key);
    if (old.isNull() || !before[prefixed].isNull()) made.set(prefixed, *value);
  }
  for (const auto& [key, value] : made) {
    const std::string must = format("must be '{}'", value.string());
    if (!labels->object().contains(key))
      labels.key(key).required(must);
    else if ((*labels)[key].string() != value.string())
      labels.key(key).with(*labels).invalid(must);
  }
  auto selector = kube::LabelSelector::fromObject(*spec["selector"]);
  if (selector && !selector->matches(made))
    spec["selector"].invalid("`selector` not auto-generated");
}

}  // namespace

void checkJob(const At& object, const Value& old) {
  At spec = object["spec"], selector = spec["selector"];
  checkJobSpec(spec);
  if (!selector.isThere())
    selector.required();
  else
    checkSelector(selector);
  checkGeneratedSelector(object, old);
  checkMatches(spec);
  // Its pods have its name and their index, the last one the longest.
  if (std::int64_t count = spec["completions"]->integer();
      old.isNull() && spec["completionMode"].text() == "Indexed" && count > 0) {
    At name = object["metadata"]["name"];
    std::string host = format("{}-{}", name.text(), count - 1);
    if (!labelProblems(host).empty())
      name.invalid(format("will not able to create pod with invalid DNS label: {}", host));
  }
  if (old.isNull()) return;
  const Value& before = old["spec"];
  bool elastic = spec["completionMode"].text() == "Indexed" &&
                 before["completions"] == before["parallelism"] &&
                 *spec["completions"] == *spec["parallelism"];
  if (!elastic) spec["completions"].immutable(before["completions"]);
  for (std::string_view name : {"selector", "completionMode", "podFailurePolicy",
                                "backoffLimitPerIndex", "managedBy", "successPolicy"})
    spec[name].immutable(before[name]);
  // A job that was never started may be placed elsewhere; of the template that is all.
  Value now = *spec["template"], then = before["template"];
  if (before["suspend"].boolean() && old["status"]["startTime"].isNull())
    for (Value* one : {&now, &then}) {
      for (std::string_view name : {"nodeSelector", "tolerations", "schedulingGates", "affinity"})
        one->make("spec").makeObject().erase(name);
      for (std::string_view name : {"labels", "annotations"})
        one->make("metadata").makeObject().erase(name);
    }
  if (now != then) spec["template"].invalid("field is immutable");
}

// --- cron jobs

namespace {

struct CronField {
  int low, high;
  std::string_view names;  // of the numbers from low on, in the order of the calendar
};

constexpr CronField kCronFields[] = {{0, 59, ""},
                                     {0, 23, ""},
                                     {1, 31, ""},
                                     {1, 12, "jan feb mar apr may jun jul aug sep oct nov dec"},
                                     {0, 6, "sun mon tue wed thu fri sat"}};

std::string cronNumberProblem(std::string_view text, const CronField& field, int& number) {
  auto names = split(field.names, ' ');
  for (std::size_t i = 0; i < names.size(); ++i)
    if (!names[i].empty() && equalsIgnoreCase(names[i], text)) {
      number = field.low + static_cast<int>(i);
      return {};
    }
  bool sign = text.starts_with('-') || text.starts_with('+');
  auto parsed = parseInt(text.starts_with('+') ? text.substr(1) : text);
  if (!parsed || text.empty() || (sign && text.size() == 1))
    return format("failed to parse int from {}: strconv.Atoi: parsing \"{}\": invalid syntax", text,
                  text);
  if (*parsed < 0) return format("negative number ({}) not allowed: {}", *parsed, text);
  number = static_cast<int>(std::min<std::int64_t>(*parsed, 1000000));
  return {};
}

// One part of one field: a number or a range, and a step.
std::string cronRangeProblem(std::string_view text, const CronField& field) {
  auto parts = split(text, '/');
  auto ends = split(parts[0], '-');
  int low = field.low, high = field.high, step = 1;
  bool single = false;
  if (ends[0] == "*" || ends[0] == "?") {
  } else {
    if (auto problem = cronNumberProblem(ends[0], field, low); !problem.empty()) return problem;
    high = low;
    single = ends.size() == 1;
    if (ends.size() > 2) return format("too many hyphens: {}", text);
    if (ends.size() == 2)
      if (auto problem = cronNumberProblem(ends[1], field, high); !problem.empty()) return problem;
  }
  if (parts.size() > 2) return format("too many slashes: {}", text);
  if (parts.size() == 2) {
    if (auto problem = cronNumberProblem(parts[1], {0, 0, ""}, step); !problem.empty())
      return problem;
    if (single) high = field.high;
  }
  if (low < field.low)
    return format("beginning of range ({}) below minimum ({}): {}", low, field.low, text);
  if (high > field.high)
    return format("end of range ({}) above maximum ({}): {}", high, field.high, text);
  if (low > high)
    return format("beginning of range ({}) beyond end of range ({}): {}", low, high, text);
  if (step == 0) return format("step of range should be a positive number: {}", text);
  return {};
}

// What is wrong with a schedule; empty when nothing is.
std::string scheduleProblem(std::string_view schedule) {
  if (schedule.starts_with('@')) {
    for (std::string_view known :
         {"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"})
      if (schedule == known) return {};
    constexpr std::string_view kEvery = "@every ";
    if (!schedule.starts_with(kEvery)) return format("unrecognized descriptor: {}", schedule);
    std::string_view duration = schedule.substr(kEvery.size());
    if (parseDuration(duration)) return {};
    return format("failed to parse duration {}: time: invalid duration \"{}\"", schedule, duration);
  }
  std::vector<std::string> fields;
  for (std::string_view field : split(schedule, ' '))
    if (!trim(field).empty()) fields.emplace_back(trim(field));
  if (fields.size() != std::size(kCronFields))
    return format("expected exactly 5 fields, found {}: [{}]", fields.size(), join(fields, " "));
  for (std::size_t i = 0; i < fields.size(); ++i)
    for (std::string_view part : split(fields[i], ','))
      if (!part.empty())
        if (auto problem = cronRangeProblem(part, kCronFields[i]); !problem.empty()) return problem;
  return {};
}

// Whether a text could be a zone's name: which zones there are is for whoever has their table.
bool isZoneName(std::string_view zone) {
  if (zone == "UTC" || zone == "GMT" || zone == "EST" || zone == "MST" || zone == "HST" ||
      zone == "CET" || zone == "EET" || zone == "MET" || zone == "WET")
    return true;
  constexpr std::string_view kAreas[] = {
      "Africa", "America", "Antarctica", "Arctic", "Asia",   "Atlantic", "Australia", "Etc",
      "Europe", "Indian",  "Pacific",    "US",     "Canada", "Brazil",   "Chile",     "Mexico"};
  auto [area, rest] = cut(zone, "/");
  return !rest.empty() && std::ranges::find(kAreas, area) != std::end(kAreas);
}

}  // namespace

void checkCronJob(const At& object, const Value& old) {
  At spec = object["spec"], schedule = spec["schedule"], zone = spec["timeZone"];
  if (schedule.given()) {
    bool with_zone = schedule.text().find("TZ") != std::string::npos;
    if (with_zone && zone.isThere())
      schedule.invalid("cannot use both timeZone field and TZ or CRON_TZ in schedule");
    else if (with_zone && (old.isNull() || *schedule != old["spec"]["schedule"]))
      schedule.invalid("cannot use TZ or CRON_TZ in schedule, use timeZone field instead");
    else if (auto problem = scheduleProblem(schedule.text()); !problem.empty())
      schedule.invalid(problem);
  }
  if (zone.isThere()) {
    if (zone.text().empty()) {
      zone.invalid("timeZone must be nil or non-empty string");
    } else {
      if (equalsIgnoreCase(zone.text(), "local"))
        zone.invalid(
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones");
      if (!isZoneName(zone.text())) zone.invalid(format("unknown time zone {}", zone.text()));
    }
  }
  spec["concurrencyPolicy"].oneOf({"Allow", "Forbid", "Replace"});
  for (std::string_view number :
       {"startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"})
    spec[number].notNegative();
  At job = spec["jobTemplate"]["spec"];
  checkJobSpec(job);
  if (job["selector"].isThere())
    job["selector"].invalidShown(selectorJson(*job["selector"]),
                                 "`selector` will be auto-generated");
  if (job["manualSelector"]->boolean()) job["manualSelector"].unsupported({"nil", "false"});
  // Its jobs have its name and eleven characters more.
  if (At name = object["metadata"]["name"]; old.isNull() && name.text().size() > 52)
    name.invalid("must be no more than 52 characters");
}

// --- autoscalers and budgets

namespace {

void checkPositive(const At& amount) {
  auto quantity = kube::Quantity::fromJson(*amount);
  if (amount.isThere() && quantity && *quantity <= kube::Quantity())
    amount.invalidText(quantity->text(), "must be positive");
}

void checkMetricTarget(const At& target) {
  At type = target["type"], utilization = target["averageUtilization"];
  if (type.isEmpty()) type.required("must specify a metric target type");
  if (type.text() != "Utilization" && type.text() != "Value" && type.text() != "AverageValue")
    type.invalidText(type.text(), "must be either Utilization, Value, or AverageValue");
  checkPositive(target["value"]);
  checkPositive(target["averageValue"]);
  if (utilization.isThere() && utilization->integer() < 1)
    utilization.invalid("must be greater than 0");
}

// What is measured, as a part of a path.
void checkSegment(const At& name, std::string_view why) {
  if (name.isEmpty())
    name.required(why);
  else
    name.all(pathSegmentProblems(name.text()));
}

// An object of any version.
void checkReference(const At& ref) {
  for (std::string_view name : {"kind", "name"}) checkSegment(ref[name], "");
  At version = ref["apiVersion"];
  if (std::ranges::count(version.text(), '/') > 1)
    version.invalid(format("unexpected GroupVersion string: {}", version.text()));
}

void checkResourceMetric(const At& source) {
  At target = source["target"], average = target["averageValue"];
  if (source["name"].isEmpty()) source["name"].required("must specify a resource name");
  checkMetricTarget(target);
  bool relative = target["averageUtilization"].isThere();
  if (!relative && !average.isThere())
    target["averageUtilization"].required(
        "must set either a target raw value or a target utilization");
  if (relative && average.isThere())
    average.forbidden("may not set both a target raw value and a target utilization");
}

void checkNamedMetric(const At& source, const std::string& type) {
  At target = source["target"], average = target["averageValue"], value = target["value"];
  if (type == "Object") checkReference(source["describedObject"]);
  checkSegment(source["metric"]["name"], "must specify a metric name");
  checkMetricTarget(target);
  if (type == "Pods" && !average.isThere())
    average.required("must specify a positive target averageValue");
  if (type != "Pods" && !average.isThere() && !value.isThere())
    value.required("must set either a target value for metric or a per-pod target");
  if (type == "External" && average.isThere() && value.isThere())
    value.forbidden("may not set both a target value for metric and a per-pod target");
}

void checkMetric(const At& metric) {
  static const std::vector<std::string_view> kTypes = {"ContainerResource", "External", "Object",
                                                       "Pods", "Resource"};
  const std::string& type = metric["type"].text();
  if (type.empty()) return metric["type"].required("must specify a metric source type");
  if (std::ranges::find(kTypes, type) == kTypes.end()) {
    // It is said twice: that it is no type, and that there is no source of that type.
    metric["type"].unsupported(kTypes);
    metric["type"].unsupported(kTypes);
    return;
  }
  auto nameOf = [](std::string_view type) {
    std::string name(type);
    name[0] = static_cast<char>(std::tolower(name[0]));
    return name;
  };
  for (std::string_view other : kTypes)
    if (At one = metric[nameOf(other)]; other != type && one.isThere())
      one.forbidden("must populate the given metric source only");
  At source = metric[nameOf(type)];
  if (!source.isThere())
    return source.required("must populate information for the given metric source");
  if (type != "Resource" && type != "ContainerResource") return checkNamedMetric(source, type);
  checkResourceMetric(source);
  if (type == "Resource") return;
  At container = source["container"];
  if (container.isEmpty())
    container.required("must specify a container");
  else
    container.all(labelProblems(container.text()));
}

void checkScaling(const At& rules) {
  if (!rules.isThere()) return;
  At window = rules["stabilizationWindowSeconds"];
  if (window->integer() < 0) window.invalid("must be greater than or equal to zero");
  if (window->integer() > 3600) window.invalid("must be less than or equal to 3600");
  rules["selectPolicy"].oneOf({"Disabled", "Max", "Min"});
  if (rules["policies"].isEmpty()) rules["policies"].required("must specify at least one Policy");
  for (const At& policy : rules["policies"].items()) {
    policy["type"].oneOf({"Percent", "Pods"});
    for (std::string_view number : {"value", "periodSeconds"})
      if (policy[number]->integer() <= 0) policy[number].invalid("must be greater than zero");
    if (policy["periodSeconds"]->integer() > 1800)
      policy["periodSeconds"].invalid("must be less than or equal to 1800");
  }
}

}  // namespace

void checkAutoscaler(const At& object, const Value&) {
  At spec = object["spec"], least = spec["minReplicas"], most = spec["maxReplicas"];
  if (least.isThere() && least->integer() < 1) least.invalid("must be greater than or equal to 1");
  if (most->integer() < 1) most.invalid("must be greater than 0");
  if (least.isThere() && most->integer() < least->integer())
    most.invalid("must be greater than or equal to `minReplicas`");
  At target = spec["scaleTargetRef"];
  checkReference(target);
  const std::string& version = target["apiVersion"].text();
  bool grouped = version.find('/') != std::string::npos && !version.starts_with('/');
  if (!grouped && target["kind"].text() != "ReplicationController")
    target["apiVersion"].invalidText(version, "apiVersion must specify API group");
  At metrics = spec["metrics"];
  bool may_be_none = false;
  for (const At& metric : metrics.items()) {
    checkMetric(metric);
    may_be_none =
        may_be_none || metric["type"].text() == "Object" || metric["type"].text() == "External";
  }
  if (least.isThere() && least->integer() == 0 && !may_be_none)
    metrics.forbidden(
        "must specify at least one Object or External metric to support scaling to zero replicas");
  checkScaling(spec["behavior"]["scaleUp"]);
  checkScaling(spec["behavior"]["scaleDown"]);
}

void checkBudget(const At& object, const Value&) {
  At spec = object["spec"], least = spec["minAvailable"], most = spec["maxUnavailable"];
  if (least.isThere() && most.isThere())
    spec.invalid("minAvailable and maxUnavailable cannot be both set");
  least.countOrPercent();
  most.countOrPercent();
  checkSelector(spec["selector"]);
  spec["unhealthyPodEvictionPolicy"].oneOf({"AlwaysAllow", "IfHealthyBudget"});
}

}  // namespace cadre::hub
