#include "hub/builtin_cells.h"

#include <algorithm>
#include <set>

#include "base/format.h"
#include "base/strings.h"
#include "hub/builtin.h"
#include "kube/quantity.h"
#include "kube/selector.h"

namespace cadre::hub {

namespace {

using json::Value;

const Value& at(const Value& object, std::string_view path) {
  const Value* here = &object;
  for (std::string_view step : split(path, '.')) here = &(*here)[step];
  return *here;
}

// How long ago a time is; "<unknown>" where there is none.
std::string agoText(const Value& time, Time now, std::string_view otherwise = "<unknown>") {
  auto then = parseTime(time.string());
  return then ? ageText(now - *then) : std::string(otherwise);
}

std::string joined(const json::Array& list, std::string_view member, std::string_view separator) {
  std::string out;
  for (const Value& one : list) {
    if (&one != &list.front()) out += separator;
    out += member.empty() ? one.string() : one[member].string();
  }
  return out;
}

std::string labelsText(const Value& labels) {
  std::string out;
  for (const auto& [key, value] : labels.object())
    out += (out.empty() ? "" : ",") + key + "=" + value.string();
  return out.empty() ? "<none>" : out;
}

// Of a selector in an object. One that is not there selects nothing, and is shown as nothing.
std::string selectorText(const Value& selector) {
  if (selector.isNull()) return "<none>";
  auto parsed = kube::LabelSelector::fromObject(selector);
  if (!parsed) return "<error>";
  std::string text = parsed->text();
  return text.empty() ? "<none>" : text;
}

// The first few, and how many more there are.
std::string listText(const std::vector<std::string>& shown, std::size_t count, std::size_t limit,
                     std::string_view empty) {
  if (count > limit) return format("{} + {} more...", join(shown, ","), count - limit);
  return shown.empty() ? std::string(empty) : join(shown, ",");
}

std::string quantityText(const Value& value) {
  auto quantity = kube::Quantity::fromJson(value);
  return quantity ? quantity->text() : "0";
}

std::string numberOrText(const Value& value) {
  return value.isString() ? value.string() : std::to_string(value.integer());
}

const Value& conditionOf(const Value& object, std::string_view type) {
  static const Value kNone;
  for (const Value& condition : object["status"]["conditions"].array())
    if (condition["type"].string() == type) return condition;
  return kNone;
}
bool conditionHolds(const Value& object, std::string_view type) {
  return conditionOf(object, type)["status"].string() == "True";
}

bool isDeleting(const Value& object) { return object["metadata"]["deletionTimestamp"].isString(); }

Value cellAt(const Column& column, const Value& object, Time now) {
  const Value& found = at(object, column.path);
  switch (column.show) {
    case Show::Value:
      return found.isNull() ? column.otherwise : found;
    case Show::Text:
      return found.string().empty() ? column.otherwise : found;
    case Show::Count:
      return found.isArray() ? found.array().size() : found.object().size();
    case Show::Since:
      return agoText(found, now,
                     column.otherwise.string().empty() ? "<unknown>" : column.otherwise.string());
    case Show::Labels:
      return labelsText(found);
    case Show::Selector:
      return selectorText(found);
    case Show::Containers:
      return joined(found.array(), "name", ",");
    case Show::Images:
      return joined(found.array(), "image", ",");
    case Show::Function:
      return column.cell(object, now);
  }
  return {};
}

}  // namespace

json::Array columnDefinitions(const BuiltIn& kind) {
  json::Array out;
  for (const Column& column : kind.columns)
    out.push_back(json::Object{{"name", column.name},
                               {"type", column.type},
                               {"format", column.format},
                               {"description", ""},
                               {"priority", column.priority}});
  return out;
}

json::Array cells(const BuiltIn& kind, const Value& object, Time now) {
  json::Array out;
  out.reserve(kind.columns.size());
  for (const Column& column : kind.columns) out.push_back(cellAt(column, object, now));
  return out;
}

json::Array rowConditions(const BuiltIn& kind, const Value& object) {
  if (kind.kind != "Pod" || !kind.group.empty()) return {};
  const std::string& phase = object["status"]["phase"].string();
  if (phase != "Succeeded" && phase != "Failed") return {};
  return {json::Object{
      {"type", "Completed"},
      {"status", "True"},
      {"reason", phase},
      {"message", phase == "Failed" ? "The pod failed." : "The pod has completed successfully."}}};
}

std::string ageText(Duration age) {
  using namespace std::chrono;
  auto seconds = duration_cast<std::chrono::seconds>(age).count();
  if (seconds < -1) return "<invalid>";
  if (seconds < 120) return format("{}s", std::max<std::int64_t>(seconds, 0));
  // A number of one unit, and what is left over in the next smaller one.
  auto two = [](std::int64_t whole, char unit, std::int64_t rest, char smaller) {
    return rest == 0 ? format("{}{}", whole, unit) : format("{}{}{}{}", whole, unit, rest, smaller);
  };
  auto minutes = seconds / 60, hours = minutes / 60, days = hours / 24;
  if (minutes < 10) return two(minutes, 'm', seconds % 60, 's');
  if (minutes < 180) return format("{}m", minutes);
  if (hours < 8) return two(hours, 'h', minutes % 60, 'm');
  if (hours < 48) return format("{}h", hours);
  if (days < 8) return two(days, 'd', hours % 24, 'h');
  if (days < 730) return format("{}d", days);
  if (days < 2920) return two(days / 365, 'y', days % 365, 'd');
  return format("{}y", days / 365);
}

// --- core

Value configMapData(const Value& object, Time) {
  return object["data"].object().size() + object["binaryData"].object().size();
}

namespace {

std::string hostPort(const std::string& host, std::int64_t port) {
  bool v6 = host.find(':') != std::string::npos;
  return v6 ? format("[{}]:{}", host, port) : format("{}:{}", host, port);
}

}  // namespace

Value endpointsList(const Value& object, Time) {
  constexpr std::size_t kShown = 3;
  if (object["subsets"].array().empty()) return "<none>";
  std::vector<std::string> shown;
  std::size_t count = 0;
  auto add = [&](std::string one) {
    if (++count <= kShown) shown.push_back(std::move(one));
  };
  for (const Value& subset : object["subsets"].array()) {
    const json::Array& addresses = subset["addresses"].array();
    if (subset["ports"].array().empty())
      for (const Value& address : addresses) add(address["ip"].string());
    for (const Value& port : subset["ports"].array())
      for (const Value& address : addresses)
        add(hostPort(address["ip"].string(), port["port"].integer()));
  }
  return listText(shown, count, kShown, "");
}

namespace {

// Of two names for the same field, in the two groups that have events, the one that is there.
const Value& either(const Value& object, std::string_view core, std::string_view events) {
  const Value& found = object[core];
  return found.isNull() ? object[events] : found;
}

std::string firstSeen(const Value& event, Time now) {
  const Value& first = either(event, "firstTimestamp", "deprecatedFirstTimestamp");
  return agoText(first.isString() ? first : event["eventTime"], now);
}

}  // namespace

Value eventFirstSeen(const Value& event, Time now) { return firstSeen(event, now); }

Value eventLastSeen(const Value& event, Time now) {
  if (event["series"].isObject()) return agoText(event["series"]["lastObservedTime"], now);
  const Value& last = either(event, "lastTimestamp", "deprecatedLastTimestamp");
  return last.isString() ? agoText(last, now) : firstSeen(event, now);
}

Value eventObject(const Value& event, Time) {
  const Value& object = either(event, "involvedObject", "regarding");
  std::string kind = lower(object["kind"].string());
  const std::string& name = object["name"].string();
  return name.empty() ? kind : kind + "/" + name;
}

Value eventSubobject(const Value& event, Time) {
  return either(event, "involvedObject", "regarding")["fieldPath"].string();
}

Value eventSource(const Value& event, Time) {
  const Value& source = either(event, "source", "deprecatedSource");
  auto or_else = [](const std::string& first, const std::string& second) {
    return first.empty() ? second : first;
  };
  std::string component =
      or_else(source["component"].string(),
              either(event, "reportingComponent", "reportingController").string());
  std::string instance = or_else(source["host"].string(), event["reportingInstance"].string());
  return instance.empty() ? component : component + ", " + instance;
}

Value eventMessage(const Value& event, Time) {
  return trim(either(event, "message", "note").string());
}

Value eventCount(const Value& event, Time) {
  if (event["series"].isObject()) return event["series"]["count"].integer();
  return std::max<std::int64_t>(either(event, "count", "deprecatedCount").integer(), 1);
}

Value nodeStatus(const Value& node, Time) {
  const Value& ready = conditionOf(node, "Ready");
  std::string out = "Unknown";
  if (ready.isObject()) out = ready["status"].string() == "True" ? "Ready" : "NotReady";
  if (node["spec"]["unschedulable"].boolean()) out += ",SchedulingDisabled";
  return out;
}

Value nodeRoles(const Value& node, Time) {
  constexpr std::string_view kPrefix = "node-role.kubernetes.io/";
  std::set<std::string> roles;
  for (const auto& [key, value] : node["metadata"]["labels"].object()) {
    if (key.starts_with(kPrefix) && key.size() > kPrefix.size())
      roles.insert(key.substr(kPrefix.size()));
    if (key == "kubernetes.io/role" && !value.string().empty()) roles.insert(value.string());
  }
  return roles.empty() ? "<none>" : join({roles.begin(), roles.end()}, ",");
}

namespace {

std::string nodeAddress(const Value& node, std::string_view type) {
  for (const Value& address : node["status"]["addresses"].array())
    if (address["type"].string() == type) return address["address"].string();
  return "<none>";
}

std::string accessModes(const Value& modes) {
  constexpr std::pair<std::string_view, std::string_view> kShort[] = {{"ReadWriteOnce", "RWO"},
                                                                      {"ReadOnlyMany", "ROX"},
                                                                      {"ReadWriteMany", "RWX"},
                                                                      {"ReadWriteOncePod", "RWOP"}};
  std::vector<std::string> out;
  for (auto [mode, brief] : kShort)
    for (const Value& one : modes.array())
      if (one.string() == mode) {
        out.emplace_back(brief);
        break;
      }
  return join(out, ",");
}

}  // namespace

Value nodeInternalIp(const Value& node, Time) { return nodeAddress(node, "InternalIP"); }
Value nodeExternalIp(const Value& node, Time) { return nodeAddress(node, "ExternalIP"); }

Value phaseOrTerminating(const Value& object, Time) {
  return isDeleting(object) ? "Terminating" : object["status"]["phase"].string();
}

// An annotation was there before the field was.
Value storageClassOf(const Value& object, Time) {
  const Value& annotation =
      object["metadata"]["annotations"]["volume.beta.kubernetes.io/storage-class"];
  return annotation.isString() ? annotation.string() : object["spec"]["storageClassName"].string();
}

Value claimCapacity(const Value& claim, Time) {
  if (claim["spec"]["volumeName"].string().empty()) return "";
  return quantityText(claim["status"]["capacity"]["storage"]);
}
Value claimAccessModes(const Value& claim, Time) {
  if (claim["spec"]["volumeName"].string().empty()) return "";
  return accessModes(claim["status"]["accessModes"]);
}
Value volumeCapacity(const Value& volume, Time) {
  return quantityText(volume["spec"]["capacity"]["storage"]);
}
Value volumeAccessModes(const Value& volume, Time) {
  return accessModes(volume["spec"]["accessModes"]);
}
Value volumeClaim(const Value& volume, Time) {
  const Value& claim = volume["spec"]["claimRef"];
  if (!claim.isObject()) return "";
  return claim["namespace"].string() + "/" + claim["name"].string();
}

namespace {

// What the columns of a Pod say, which follow from one another.
class PodSummary {
 public:
  explicit PodSummary(const Value& pod) : pod_(pod), status_(pod["status"]) {
    total_ = pod["spec"]["containers"].array().size();
    reason_ =
        status_["reason"].string().empty() ? status_["phase"].string() : status_["reason"].string();
    if (conditionOf(pod, "PodScheduled")["reason"].string() == "SchedulingGated")
      reason_ = "SchedulingGated";
    for (const Value& container : pod["spec"]["initContainers"].array())
      if (isSidecar(container)) ++total_;
    bool initializing = lookAtInitContainers();
    if (!initializing || conditionHolds(pod, "Initialized")) lookAtContainers();
    if (!isDeleting(pod)) return;
    const std::string& phase = status_["phase"].string();
    if (status_["reason"].string() == "NodeLost")
      reason_ = "Unknown";
    else if (phase != "Failed" && phase != "Succeeded")
      reason_ = "Terminating";
  }

  std::string ready() const { return format("{}/{}", ready_, total_); }
  std::string reason() const { return reason_; }
  std::string restarts(Time now) const {
    if (all_.count == 0 || !all_.last) return std::to_string(all_.count);
    return format("{} ({} ago)", all_.count, ageText(now - *all_.last));
  }

 private:
  struct Restarts {
    std::int64_t count = 0;
    std::optional<Time> last;

    void add(const Value& status) {
      count += status["restartCount"].integer();
      auto finished = parseTime(status["lastState"]["terminated"]["finishedAt"].string());
      if (finished && (!last || *last < *finished)) last = finished;
    }
  };

  // An init container that keeps running beside the others.
  static bool isSidecar(const Value& container) {
    return container["restartPolicy"].string() == "Always";
  }
  bool isSidecarNamed(const std::string& name) const {
    for (const Value& container : pod_["spec"]["initContainers"].array())
      if (container["name"].string() == name) return isSidecar(container);
    return false;
  }

  static std::string ending(const Value& terminated) {
    if (!terminated["reason"].string().empty()) return terminated["reason"].string();
    if (auto signal = terminated["signal"].integer()) return format("Signal:{}", signal);
    return format("ExitCode:{}", terminated["exitCode"].integer());
  }

  // Whether one of them is still to be waited for.
  bool lookAtInitContainers() {
    const json::Array& statuses = status_["initContainerStatuses"].array();
    for (std::size_t i = 0; i < statuses.size(); ++i) {
      const Value& one = statuses[i];
      bool sidecar = isSidecarNamed(one["name"].string());
      all_.add(one);
      if (sidecar) sidecars_.add(one);
      const Value& terminated = one["state"]["terminated"];
      if (terminated.isObject() && terminated["exitCode"].integer() == 0) continue;
      if (sidecar && one["started"].boolean()) {
        if (one["ready"].boolean()) ++ready_;
        continue;
      }
      const std::string& waiting = one["state"]["waiting"]["reason"].string();
      if (terminated.isObject())
        reason_ = "Init:" + ending(terminated);
      else if (!waiting.empty() && waiting != "PodInitializing")
        reason_ = "Init:" + waiting;
      else
        reason_ = format("Init:{}/{}", i, pod_["spec"]["initContainers"].array().size());
      return true;
    }
    return false;
  }

  void lookAtContainers() {
    all_ = sidecars_;
    bool running = false;
    const json::Array& statuses = status_["containerStatuses"].array();
    for (auto one = statuses.rbegin(); one != statuses.rend(); ++one) {
      all_.add(*one);
      const Value& state = (*one)["state"];
      if (!state["waiting"]["reason"].string().empty()) {
        reason_ = state["waiting"]["reason"].string();
      } else if (state["terminated"].isObject()) {
        reason_ = ending(state["terminated"]);
      } else if ((*one)["ready"].boolean() && state["running"].isObject()) {
        running = true;
        ++ready_;
      }
    }
    if (reason_ == "Completed" && running)
      reason_ = conditionHolds(pod_, "Ready") ? "Running" : "NotReady";
  }

  const Value& pod_;
  const Value& status_;
  std::size_t ready_ = 0, total_ = 0;
  std::string reason_;
  Restarts all_, sidecars_;
};

}  // namespace

Value podReady(const Value& pod, Time) { return PodSummary(pod).ready(); }
Value podStatus(const Value& pod, Time) { return PodSummary(pod).reason(); }
Value podRestarts(const Value& pod, Time now) { return PodSummary(pod).restarts(now); }

Value podIp(const Value& pod, Time) {
  const std::string& ip = pod["status"]["podIPs"].at(0)["ip"].string();
  return ip.empty() ? "<none>" : ip;
}

Value podReadinessGates(const Value& pod, Time) {
  const json::Array& gates = pod["spec"]["readinessGates"].array();
  if (gates.empty()) return "<none>";
  auto open = std::ranges::count_if(gates, [&](const Value& gate) {
    return conditionHolds(pod, gate["conditionType"].string());
  });
  return format("{}/{}", open, gates.size());
}

namespace {

std::string quotaText(const Value& quota, bool limits) {
  const Value& status = quota["status"];
  std::vector<std::string> out;
  for (const auto& [resource, hard] : status["hard"].object())
    if (resource.starts_with("limits.") == limits)
      out.push_back(format("{}: {}/{}", resource, quantityText(status["used"][resource]),
                           quantityText(hard)));
  return join(out, ", ");
}

// Addresses or names of load balancers, each once.
std::string balancersText(const Value& ingress) {
  std::set<std::string> out;
  for (const Value& one : ingress.array())
    for (std::string_view member : {"ip", "hostname"})
      if (const std::string& text = one[member].string(); !text.empty()) {
        out.insert(text);
        break;
      }
  return join({out.begin(), out.end()}, ",");
}

}  // namespace

Value quotaRequests(const Value& quota, Time) { return quotaText(quota, false); }
Value quotaLimits(const Value& quota, Time) { return quotaText(quota, true); }

Value serviceClusterIp(const Value& service, Time) {
  const json::Array& ips = service["spec"]["clusterIPs"].array();
  return ips.empty() ? "<none>" : ips.front().string();
}

Value serviceExternalIp(const Value& service, Time) {
  const Value& spec = service["spec"];
  const std::string& type = spec["type"].string();
  if (type == "ExternalName") return spec["externalName"].string();
  std::string external = joined(spec["externalIPs"].array(), "", ",");
  if (type == "LoadBalancer") {
    std::string balancers = balancersText(service["status"]["loadBalancer"]["ingress"]);
    if (!balancers.empty() && !external.empty()) return balancers + "," + external;
    if (!balancers.empty()) return balancers;
    return external.empty() ? "<pending>" : external;
  }
  if (type != "ClusterIP" && type != "NodePort") return "<unknown>";
  return external.empty() ? "<none>" : external;
}

Value servicePorts(const Value& service, Time) {
  std::vector<std::string> out;
  for (const Value& port : service["spec"]["ports"].array()) {
    auto node = port["nodePort"].integer();
    out.push_back(node > 0
                      ? format("{}:{}/{}", port["port"].integer(), node, port["protocol"].string())
                      : format("{}/{}", port["port"].integer(), port["protocol"].string()));
  }
  return out.empty() ? "<none>" : join(out, ",");
}

// --- workloads

Value controllerName(const Value& object, Time) {
  for (const Value& owner : object["metadata"]["ownerReferences"].array()) {
    if (!owner["controller"].boolean()) continue;
    auto [first, second] = cut(owner["apiVersion"].string(), "/");
    std::string kind = owner["kind"].string();
    if (!second.empty()) kind += "." + std::string(first);
    return lower(kind) + "/" + owner["name"].string();
  }
  return "<none>";
}

Value replicasReady(const Value& object, Time) {
  return format("{}/{}", object["status"]["readyReplicas"].integer(),
                object["spec"]["replicas"].integer());
}

Value plainSelector(const Value& object, Time) {
  auto parsed = kube::LabelSelector::fromObject(object["spec"]["selector"]);
  return parsed ? parsed->text() : "<invalid>";
}

Value cronJobSuspended(const Value& object, Time) {
  const Value& suspend = object["spec"]["suspend"];
  if (!suspend.isBool()) return "<unset>";
  return suspend.boolean() ? "True" : "False";
}

Value jobStatus(const Value& job, Time) {
  for (std::string_view ended : {"Complete", "Failed"})
    if (conditionHolds(job, ended)) return ended;
  if (isDeleting(job)) return "Terminating";
  for (std::string_view other : {"Suspended", "FailureTarget", "SuccessCriteriaMet"})
    if (conditionHolds(job, other)) return other;
  return "Running";
}

Value jobCompletions(const Value& job, Time) {
  auto succeeded = job["status"]["succeeded"].integer();
  const Value& wanted = job["spec"]["completions"];
  if (!wanted.isNull()) return format("{}/{}", succeeded, wanted.integer());
  auto parallelism = job["spec"]["parallelism"].integer();
  return parallelism > 1 ? format("{}/1 of {}", succeeded, parallelism) : format("{}/1", succeeded);
}

Value jobDuration(const Value& job, Time now) {
  auto started = parseTime(job["status"]["startTime"].string());
  if (!started) return "";
  auto ended = parseTime(job["status"]["completionTime"].string());
  return ageText(ended.value_or(now) - *started);
}

// --- networking

Value ingressClassParameters(const Value& object, Time) {
  const Value& parameters = object["spec"]["parameters"];
  if (!parameters.isObject()) return "<none>";
  std::string out = parameters["kind"].string();
  if (parameters["apiGroup"].isString()) out += "." + parameters["apiGroup"].string();
  return out + "/" + parameters["name"].string();
}

Value ingressHosts(const Value& ingress, Time) {
  constexpr std::size_t kShown = 3;
  const json::Array& rules = ingress["spec"]["rules"].array();
  std::vector<std::string> shown;
  bool more = false;
  for (const Value& rule : rules) {
    more = more || shown.size() == kShown;
    const std::string& host = rule["host"].string();
    if (!more && !host.empty()) shown.push_back(host);
  }
  if (shown.empty()) return "*";
  std::string out = join(shown, ",");
  return more ? format("{} + {} more...", out, rules.size() - kShown) : out;
}

Value ingressAddress(const Value& ingress, Time) {
  return balancersText(ingress["status"]["loadBalancer"]["ingress"]);
}

Value ingressPorts(const Value& ingress, Time) {
  return ingress["spec"]["tls"].array().empty() ? "80" : "80, 443";
}

namespace {

// What a port or an endpoint is shown as, for the first few, and how many more there are.
std::string sliceText(const std::vector<std::string>& all) {
  constexpr std::size_t kShown = 3;
  std::vector<std::string> shown(all.begin(), all.begin() + std::min(all.size(), kShown));
  std::string out = listText(shown, all.size(), kShown, "<unset>");
  return out.empty() ? "<unset>" : out;
}

}  // namespace

Value slicePorts(const Value& slice, Time) {
  std::vector<std::string> all;
  for (const Value& port : slice["ports"].array()) {
    if (!port["port"].isNull())
      all.push_back(std::to_string(port["port"].integer()));
    else
      all.push_back(port["name"].isString() ? port["name"].string() : "*");
  }
  return sliceText(all);
}

Value sliceEndpoints(const Value& slice, Time) {
  std::vector<std::string> all;
  for (const Value& endpoint : slice["endpoints"].array())
    for (const Value& address : endpoint["addresses"].array()) all.push_back(address.string());
  return sliceText(all);
}

// --- permissions

Value bindingRole(const Value& binding, Time) {
  return binding["roleRef"]["kind"].string() + "/" + binding["roleRef"]["name"].string();
}

namespace {

std::string subjects(const Value& binding, std::string_view kind) {
  std::vector<std::string> out;
  for (const Value& subject : binding["subjects"].array())
    if (subject["kind"].string() == kind)
      out.push_back(kind == "ServiceAccount"
                        ? subject["namespace"].string() + "/" + subject["name"].string()
                        : subject["name"].string());
  return join(out, ", ");
}

}  // namespace

Value bindingUsers(const Value& binding, Time) { return subjects(binding, "User"); }
Value bindingGroups(const Value& binding, Time) { return subjects(binding, "Group"); }
Value bindingServiceAccounts(const Value& binding, Time) {
  return subjects(binding, "ServiceAccount");
}

// --- budgets and autoscalers

Value budgetMinimum(const Value& budget, Time) {
  const Value& value = budget["spec"]["minAvailable"];
  return value.isNull() ? "N/A" : numberOrText(value);
}
Value budgetMaximum(const Value& budget, Time) {
  const Value& value = budget["spec"]["maxUnavailable"];
  return value.isNull() ? "N/A" : numberOrText(value);
}

Value autoscalerReference(const Value& object, Time) {
  const Value& target = object["spec"]["scaleTargetRef"];
  return target["kind"].string() + "/" + target["name"].string();
}

Value autoscalerMinimum(const Value& object, Time) {
  const Value& minimum = object["spec"]["minReplicas"];
  return minimum.isNull() ? "<unset>" : std::to_string(minimum.integer());
}

namespace {

std::string percent(const Value& value, std::string_view otherwise) {
  return value.isNull() ? std::string(otherwise) : format("{}%", value.integer());
}

// One metric of an autoscaler: what it is now and what it should be.
std::string metricText(const Value& spec, const Value& status) {
  constexpr std::string_view kUnknown = "<unknown>";
  const std::string& type = spec["type"].string();
  std::string member = type;
  if (member.empty()) return "<unknown type>";
  member[0] = static_cast<char>(member[0] + ('a' - 'A'));
  const Value& wanted = spec[member];
  if (!wanted.isObject()) return "<unknown type>";
  const Value& target = wanted["target"];
  const Value& current = status[member]["current"];
  bool known = status[member].isObject();
  bool by_average = target["averageValue"].isString() || target["averageValue"].isNumber();
  auto quantity = [&](std::string_view of, bool there) {
    return there ? quantityText(current[of]) : std::string(kUnknown);
  };
  if (type == "Resource" || type == "ContainerResource") {
    const std::string& name = wanted["name"].string();
    if (by_average)
      return format("{}: {}/{}", name, quantity("averageValue", known),
                    quantityText(target["averageValue"]));
    return format("{}: {}/{}", name, percent(current["averageUtilization"], kUnknown),
                  percent(target["averageUtilization"], "<auto>"));
  }
  if (type == "Pods")
    return format("{}/{}", quantity("averageValue", known), quantityText(target["averageValue"]));
  if (by_average)
    return format("{}/{} (avg)", quantity("averageValue", !current["averageValue"].isNull()),
                  quantityText(target["averageValue"]));
  return format("{}/{}", quantity("value", known), quantityText(target["value"]));
}

}  // namespace

Value autoscalerTargets(const Value& object, Time) {
  constexpr std::size_t kShown = 2;
  const Value& spec = object["spec"];
  // The first version knows the processor alone.
  if (const Value& wanted = spec["targetCPUUtilizationPercentage"]; !wanted.isNull())
    return format("cpu: {}/{}",
                  percent(object["status"]["currentCPUUtilizationPercentage"], "<unknown>"),
                  percent(wanted, "<auto>"));
  const json::Array& metrics = spec["metrics"].array();
  if (metrics.empty()) return "<none>";
  std::vector<std::string> shown;
  for (std::size_t i = 0; i < std::min(metrics.size(), kShown); ++i)
    shown.push_back(metricText(metrics[i], object["status"]["currentMetrics"].at(i)));
  std::string out = join(shown, ", ");
  return metrics.size() > kShown ? format("{} + {} more...", out, metrics.size() - kShown) : out;
}

// --- storage

Value driverTokenRequests(const Value& driver, Time) {
  const Value& requests = driver["spec"]["tokenRequests"];
  return requests.isArray() ? joined(requests.array(), "audience", ",") : "<unset>";
}

Value driverModes(const Value& driver, Time) {
  std::string out = joined(driver["spec"]["volumeLifecycleModes"].array(), "", ",");
  return out.empty() ? "<none>" : out;
}

Value storageClassName(const Value& object, Time) {
  const Value& annotations = object["metadata"]["annotations"];
  std::string name = object["metadata"]["name"].string();
  for (std::string_view key : {"storageclass.kubernetes.io/is-default-class",
                               "storageclass.beta.kubernetes.io/is-default-class"})
    if (annotations[key].string() == "true") return name + " (default)";
  return name;
}

}  // namespace cadre::hub
