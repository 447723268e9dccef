// The rules for Pods and for templates of Pods.
#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "base/format.h"
#include "base/strings.h"
#include "hub/builtin_rules.h"
#include "json/write.h"
#include "kube/quantity.h"

namespace cadre::hub {

namespace {

using json::Value;

constexpr std::int64_t kMaxId = 2147483647;

// --- handlers and probes

void checkHttpGet(const At& get) {
  get["path"].given();
  get["port"].portOrName();
  get["scheme"].oneOf({"HTTP", "HTTPS"});
  for (const At& header : get["httpHeaders"].items()) {
    const std::string& name = header["name"].text();
    bool good = !name.empty() && name.find_first_not_of(
                                     "-ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmn"
                                     "opqrstuvwxyz0123456789") == std::string::npos;
    if (!good)
      get["httpHeaders"].invalidText(
          name,
          "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. "
          "'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')");
  }
}

// Exactly one of the ways to ask or to tell a container.
void checkHandler(const At& handler) {
  struct Way {
    std::string_view name;
    void (*check)(const At&);
  };
  static const Way kWays[] = {
      {"exec", [](const At& exec) { exec["command"].given(); }},
      {"httpGet", checkHttpGet},
      {"tcpSocket", [](const At& socket) { socket["port"].portOrName(); }},
      {"grpc", [](const At& grpc) { grpc["port"].port(); }},
      {"sleep", [](const At&) {}},
  };
  int count = 0;
  for (const Way& way : kWays) {
    At one = handler[way.name];
    if (!one.isThere()) continue;
    if (++count > 1)
      one.forbidden("may not specify more than 1 handler type");
    else
      way.check(one);
  }
  if (count == 0) handler.required("must specify a handler type");
}

void checkProbe(const At& probe, bool once_is_enough) {
  if (!probe.isThere()) return;
  checkHandler(probe);
  for (std::string_view number : {"initialDelaySeconds", "timeoutSeconds", "periodSeconds",
                                  "successThreshold", "failureThreshold"})
    probe[number].notNegative();
  At grace = probe["terminationGracePeriodSeconds"];
  if (grace.isThere() && grace->integer() <= 0) grace.invalid("must be greater than 0");
  if (once_is_enough && probe["successThreshold"]->integer() != 1)
    probe["successThreshold"].invalid("must be 1");
}

// What is told to a container when it starts or stops has to end in time.
void checkLifecycle(const At& container, std::int64_t grace) {
  for (std::string_view when : {"postStart", "preStop"}) {
    At hook = container["lifecycle"][when], sleep = hook["sleep"];
    if (!hook.isThere()) continue;
    checkHandler(hook);
    std::int64_t seconds = sleep["seconds"]->integer();
    if (sleep.isThere() && (seconds < 0 || seconds > grace))
      sleep.invalidShown(
          format("{}", seconds),
          format("must be non-negative and less than terminationGracePeriodSeconds ({})", grace));
  }
}

void checkProbes(const At& container, std::int64_t grace) {
  checkProbe(container["livenessProbe"], true);
  checkProbe(container["readinessProbe"], false);
  checkProbe(container["startupProbe"], true);
  if (At own = container["readinessProbe"]["terminationGracePeriodSeconds"]; own.isThere())
    own.invalid("must not be set for readinessProbes");
  checkLifecycle(container, grace);
}

// --- environment

const std::vector<std::string_view> kEnvironmentFields = {"metadata.name",
                                                          "metadata.namespace",
                                                          "metadata.uid",
                                                          "spec.nodeName",
                                                          "spec.serviceAccountName",
                                                          "status.hostIP",
                                                          "status.hostIPs",
                                                          "status.podIP",
                                                          "status.podIPs"};
const std::vector<std::string_view> kVolumeFields = {"metadata.annotations", "metadata.labels",
                                                     "metadata.name", "metadata.namespace",
                                                     "metadata.uid"};
const std::vector<std::string_view> kResourceFields = {
    "limits.cpu",   "limits.ephemeral-storage",   "limits.memory",
    "requests.cpu", "requests.ephemeral-storage", "requests.memory"};

void checkFieldRef(const At& ref, const std::vector<std::string_view>& fields) {
  At path = ref["fieldPath"];
  if (!ref["apiVersion"].given() || !path.given()) return;
  auto unconvertible = [&](std::string_view why) {
    path.invalid(format("error converting fieldPath: {}", why));
  };
  const std::string& text = path.text();
  if (ref["apiVersion"].text() != "v1")
    return unconvertible(format("unsupported pod version: {}", ref["apiVersion"].text()));
  for (std::string_view map : {"metadata.annotations['", "metadata.labels['"})
    if (text.starts_with(map) && text.ends_with("']")) return;
  bool known = std::ranges::find(kEnvironmentFields, text) != kEnvironmentFields.end() ||
               std::ranges::find(kVolumeFields, text) != kVolumeFields.end();
  if (!known) return unconvertible(format("field label not supported: {}", text));
  path.oneOf(fields);
}

void checkDivisor(const At& divisor, std::string_view resource) {
  static const std::set<std::string_view> kCpu = {"1m", "1"};
  static const std::set<std::string_view> kBytes = {"1",   "1k",  "1M",  "1G",  "1T",  "1P", "1E",
                                                    "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"};
  auto amount = kube::Quantity::fromJson(*divisor);
  if (!divisor.isThere() || !amount || *amount == kube::Quantity()) return;
  const std::string text = amount->text();
  std::string_view called = resource.ends_with(".memory")              ? "memory"
                            : resource.ends_with(".ephemeral-storage") ? "local ephemeral storage"
                            : resource.find(".hugepages-") != std::string_view::npos ? "hugepages"
                                                                                     : "";
  if (resource.ends_with(".cpu") && !kCpu.contains(text))
    divisor.invalidText(resource,
                        "only divisor's values 1m and 1 are supported with the cpu resource");
  if (!called.empty() && !kBytes.contains(text))
    divisor.invalidText(resource,
                        format("only divisor's values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, "
                               "1Ti, 1Pi, 1Ei are supported with the {} resource",
                               called));
}

void checkResourceRef(const At& ref, bool in_volume) {
  if (in_volume) ref["containerName"].given();
  At resource = ref["resource"];
  if (!resource.given()) return;
  const std::string& name = resource.text();
  bool huge = name.starts_with("limits.hugepages-") || name.starts_with("requests.hugepages-");
  if (!huge) resource.oneOf(kResourceFields);
  checkDivisor(ref["divisor"], name);
}

void checkKeyRef(const At& ref) {
  ref["name"].all(subdomainProblems(ref["name"].text()));
  if (ref["key"].given()) ref["key"].all(configKeyProblems(ref["key"].text()));
}

void checkEnvironment(const At& container) {
  for (const At& one : container["env"].items()) {
    if (one["name"].given()) one["name"].all(envNameProblems(one["name"].text()));
    At from = one["valueFrom"];
    if (!from.isThere()) continue;
    if (!one["value"].isEmpty()) {
      from.invalidText("", "may not be specified when `value` is not empty");
      continue;
    }
    auto count = from->object().size();
    if (count == 0)
      from.invalidText("",
                       "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or "
                       "`secretKeyRef`");
    if (count > 1) from.invalidText("", "may not have more than one field specified at a time");
    if (from["fieldRef"].isThere()) checkFieldRef(from["fieldRef"], kEnvironmentFields);
    if (from["resourceFieldRef"].isThere()) checkResourceRef(from["resourceFieldRef"], false);
    for (std::string_view ref : {"configMapKeyRef", "secretKeyRef"})
      if (from[ref].isThere()) checkKeyRef(from[ref]);
  }
  At all = container["envFrom"];
  for (const At& one : all.items()) {
    if (!one["prefix"].isEmpty()) one["prefix"].all(envNameProblems(one["prefix"].text()));
    int count = 0;
    for (std::string_view ref : {"configMapRef", "secretRef"}) {
      if (!one[ref].isThere()) continue;
      ++count;
      At name = one[ref]["name"];
      if (name.given()) name.all(subdomainProblems(name.text()));
    }
    if (count == 0) all.invalidText("", "must specify one of: `configMapRef` or `secretRef`");
    if (count > 1) all.invalidText("", "may not have more than one field specified at a time");
  }
}

// --- amounts

bool isHugePages(std::string_view name) { return name.starts_with("hugepages-"); }
bool isNative(std::string_view name) {
  return name.find('/') == std::string_view::npos ||
         name.find("kubernetes.io/") != std::string_view::npos;
}
bool isOvercommitAllowed(std::string_view name) { return isNative(name) && !isHugePages(name); }

}  // namespace

bool isStandardResource(std::string_view name) {
  static const std::set<std::string_view> kNames = {"cpu",
                                                    "memory",
                                                    "ephemeral-storage",
                                                    "requests.cpu",
                                                    "requests.memory",
                                                    "requests.ephemeral-storage",
                                                    "limits.cpu",
                                                    "limits.memory",
                                                    "limits.ephemeral-storage",
                                                    "pods",
                                                    "resourcequotas",
                                                    "services",
                                                    "replicationcontrollers",
                                                    "secrets",
                                                    "configmaps",
                                                    "persistentvolumeclaims",
                                                    "storage",
                                                    "requests.storage",
                                                    "services.nodeports",
                                                    "services.loadbalancers"};
  return kNames.contains(name) || isHugePages(name) || name.starts_with("requests.hugepages-");
}

void checkAmountName(const At& amount, std::string_view name) {
  auto problems = qualifiedProblems(name);
  for (const std::string& problem : problems) amount.invalidText(name, problem);
  bool plain = name.find('/') == std::string_view::npos;
  if (problems.empty() && plain && !isStandardResource(name))
    amount.invalidText(name, "must be a standard resource type or fully qualified");
  bool for_containers =
      name == "cpu" || name == "memory" || name == "ephemeral-storage" || isHugePages(name);
  if (plain && !for_containers)
    amount.invalidText(name, "must be a standard resource for containers");
}

namespace {

void checkAmount(const At& amount, std::string_view name) {
  auto quantity = kube::Quantity::fromJson(*amount);
  if (!quantity) return;
  if (*quantity < kube::Quantity())
    amount.invalidText(quantity->text(), "must be greater than or equal to 0");
  if (!isNative(name) && quantity->milliValue() % 1000 != 0)
    amount.invalidText(quantity->text(), "must be an integer");
}

}  // namespace

void checkResources(const At& resources) {
  At limits = resources["limits"], requests = resources["requests"];
  bool huge = false, basic = false;
  for (const At& list : {limits, requests})
    for (const auto& [name, value] : list->object()) {
      checkAmountName(list.key(name), name);
      checkAmount(list.key(name), name);
      huge = huge || isHugePages(name);
      basic = basic || name == "cpu" || name == "memory";
    }
  for (const auto& [name, value] : requests->object()) {
    auto wanted = kube::Quantity::fromJson(value);
    auto limit = kube::Quantity::fromJson((*limits)[name]);
    if (!limits->object().contains(name)) {
      if (!isOvercommitAllowed(name))
        limits.required("Limit must be set for non overcommitable resources");
    } else if (wanted && limit && !isOvercommitAllowed(name) && *wanted != *limit) {
      requests.invalidText(wanted->text(),
                           format("must be equal to {} limit of {}", name, limit->text()));
    } else if (wanted && limit && *wanted > *limit) {
      requests.invalidText(wanted->text(), format("must be less than or equal to {} limit of {}",
                                                  name, limit->text()));
    }
  }
  if (huge && !basic) resources.forbidden("HugePages require cpu or memory");
}

void checkTokenLife(const At& seconds) {
  if (!seconds.isThere()) return;
  if (seconds->integer() < 600) seconds.invalid("may not specify a duration less than 10 minutes");
  if (seconds->integer() > std::int64_t{1} << 32)
    seconds.invalid("may not specify a duration larger than 2^32 seconds");
}

namespace {

// --- containers

// What containers of one pod have in common.
struct Pod {
  std::map<std::string, const Value*> volumes;
  std::set<std::string> claims;
  bool host_network = false;
  std::set<std::string> names;
  std::set<std::string> host_ports;
  std::int64_t grace = 0;
  bool in_template = false;
};

void checkPorts(const At& container, Pod& pod) {
  std::set<std::string> names;
  for (const At& port : container["ports"].items()) {
    if (At name = port["name"]; !name.isEmpty()) {
      auto problems = portNameProblems(name.text());
      name.all(problems);
      if (problems.empty() && !names.insert(name.text()).second) name.duplicate();
    }
    if (port["containerPort"].given()) port["containerPort"].port();
    At host = port["hostPort"];
    port["protocol"].oneOf({"SCTP", "TCP", "UDP"});
    if (host.isEmpty()) continue;
    host.port();
    if (pod.host_network && *host != *port["containerPort"])
      host.invalid("must match `containerPort` when `hostNetwork` is true");
    std::string key =
        format("{}/{}/{}", port["protocol"].text(), port["hostIP"].text(), host->integer());
    if (!pod.host_ports.insert(key).second) host.duplicateShown(json::write(key));
  }
}

// A mount that is read only in all that is below, too.
void checkRecursive(const At& how, const At& mount) {
  if (!how.isThere() || how.text() == "Disabled") return;
  if (how.text() != "Enabled" && how.text() != "IfPossible")
    return how.unsupported({"Disabled", "Enabled", "IfPossible"});
  if (!mount["readOnly"]->boolean()) how.forbidden("may only be specified when readOnly is true");
  if (mount["mountPropagation"].isThere() && mount["mountPropagation"].text() != "None")
    how.forbidden("may only be specified when mountPropagation is None or not specified");
}

// What a list of mounts or devices has of a field.
std::set<std::string> textsOf(const At& list, std::string_view field) {
  std::set<std::string> out;
  for (const Value& one : list->array()) out.insert(one[field].string());
  return out;
}

void checkMounts(const At& container, const Pod& pod) {
  At all = container["volumeMounts"], devices = container["volumeDevices"];
  const std::set<std::string> device_names = textsOf(devices, "name"),
                              device_paths = textsOf(devices, "devicePath");
  std::set<std::string> paths;
  for (const At& mount : all.items()) {
    At name = mount["name"], path = mount["mountPath"];
    name.given();
    if (!pod.volumes.contains(name.text())) name.notFound();
    if (path.given() && !paths.insert(path.text()).second) path.invalid("must be unique");
    if (device_names.contains(name.text())) name.invalid("must not already exist in volumeDevices");
    if (device_paths.contains(path.text()))
      path.invalid("must not already exist as a path in volumeDevices");
    for (std::string_view sub : {"subPath", "subPathExpr"}) {
      if (mount[sub].isEmpty()) continue;
      for (const std::string& problem : relativePathProblems(mount[sub].text()))
        all[sub].invalidText(mount[sub].text(), problem);
    }
    if (!mount["subPath"].isEmpty() && !mount["subPathExpr"].isEmpty())
      mount["subPathExpr"].invalid("subPathExpr and subPath are mutually exclusive");
    mount["mountPropagation"].oneOf({"Bidirectional", "HostToContainer", "None"});
    checkRecursive(all["recursiveReadOnly"].with(*mount["recursiveReadOnly"]), mount);
  }
}

void checkDevices(const At& container, const Pod& pod) {
  const std::set<std::string> mounted = textsOf(container["volumeMounts"], "name"),
                              mount_paths = textsOf(container["volumeMounts"], "mountPath");
  std::set<std::string> names, paths;
  for (const At& device : container["volumeDevices"].items()) {
    At name = device["name"], path = device["devicePath"];
    if (path.given()) {
      if (!paths.insert(path.text()).second) path.invalid("must be unique");
      if (path.text().find("..") != std::string::npos)
        path.invalid("can not contain backsteps ('..')");
      if (mount_paths.contains(path.text()))
        path.invalid("must not already exist as a path in volumeMounts");
    }
    if (!name.given()) continue;
    if (!names.insert(name.text()).second) name.invalid("must be unique");
    if (mounted.contains(name.text())) name.invalid("must not already exist in volumeMounts");
    auto found = pod.volumes.find(name.text());
    if (found == pod.volumes.end())
      name.notFound();
    else if ((*found->second)["persistentVolumeClaim"].isNull() &&
             (*found->second)["ephemeral"].isNull())
      name.invalid(
          "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode");
  }
}

void checkPodClaims(const At& claims, Pod& pod) {
  for (const At& claim : claims.items()) {
    At name = claim["name"];
    if (name.given()) {
      bool fresh = pod.claims.insert(name.text()).second;
      if (!fresh) name.duplicate();
      if (fresh) name.all(labelProblems(name.text()));
    }
    bool by_template = claim["resourceClaimTemplateName"].isThere();
    bool by_name = claim["resourceClaimName"].isThere();
    if (by_name && by_template)
      claim.invalid(
          "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified");
    if (!by_name && !by_template)
      claim.invalid("must specify one of: `resourceClaimName`, `resourceClaimTemplateName`");
    for (std::string_view ref : {"resourceClaimName", "resourceClaimTemplateName"})
      if (claim[ref].isThere()) claim[ref].all(subdomainProblems(claim[ref].text()));
  }
}

void checkUsedClaims(const At& claims, const Pod& pod) {
  std::set<std::string> seen;
  for (const At& claim : claims.items()) {
    At name = claim.with(*claim["name"]), request = claim["request"];
    if (!name.given()) continue;
    if (!request.isEmpty()) request.all(labelProblems(request.text()));
    std::string key = name.text() + (request.isEmpty() ? "" : "/" + request.text());
    if (seen.contains(name.text()) || !seen.insert(key).second)
      claim.duplicateShown(json::write(key));
    if (pod.claims.contains(name.text())) continue;
    claim.addFinding(
        {.path = claim.path(),
         .fault = kube::Fault::NotFound,
         .message = format("Not found: {}: must be one of the names in pod.spec.resourceClaims{}",
                           json::write(*name),
                           pod.claims.empty()
                               ? " which is empty"
                               : ": " + join({pod.claims.begin(), pod.claims.end()}, ", "))});
  }
}

void checkAppArmor(const At& context) {
  At profile = context["appArmorProfile"], local = profile["localhostProfile"];
  if (!profile.isThere()) return;
  const std::string& type = profile["type"].text();
  if (type.empty()) return profile["type"].required("type is required when appArmorProfile is set");
  profile["type"].oneOf({"Localhost", "RuntimeDefault", "Unconfined"});
  if (type == "Localhost" && local.isEmpty())
    local.required("must be set when AppArmor type is Localhost");
  else if (type == "Localhost" && trim(local.text()) != local.text())
    local.invalid("must not be padded with whitespace");
  else if ((type == "RuntimeDefault" || type == "Unconfined") && local.isThere())
    local.invalid("can only be set when AppArmor type is Localhost");
}

void checkSeccomp(const At& context) {
  At profile = context["seccompProfile"];
  if (!profile.isThere()) return;
  At local = profile["localhostProfile"];
  const std::string& type = profile["type"].text();
  if (type.empty())
    profile["type"].required("type is required when seccompProfile is set");
  else
    profile["type"].oneOf({"Localhost", "RuntimeDefault", "Unconfined"});
  if (type == "Localhost" && !local.isThere())
    local.required("must be set when seccomp type is Localhost");
  else if (type == "Localhost")
    local.all(relativePathProblems(local.text()));
  else if (local.isThere())
    local.invalid("can only be set when seccomp type is Localhost");
}

void checkContainerSecurity(const At& context) {
  if (!context.isThere()) return;
  for (std::string_view id : {"runAsUser", "runAsGroup"}) context[id].between(0, kMaxId);
  context["procMount"].oneOf({"Default", "Unmasked"});
  checkSeccomp(context);
  checkAppArmor(context);
  At escalate = context["allowPrivilegeEscalation"];
  if (!escalate.isThere() || escalate->boolean()) return;
  if (context["privileged"]->boolean())
    context.invalid("cannot set `allowPrivilegeEscalation` to false and `privileged` to true");
  for (const At& capability : context["capabilities"]["add"].items())
    if (capability.text() == "CAP_SYS_ADMIN")
      context.invalid(
          "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN");
}

void checkResizing(const At& policies) {
  std::set<std::string> seen;
  for (const At& policy : policies.items()) {
    // The server speaks of the list as a whole.
    At resource = policies.with(*policy["resourceName"]);
    At restart = policies.with(*policy["restartPolicy"]);
    if (!seen.insert(resource.text()).second) policy.with(*resource).duplicate();
    if (resource.given()) resource.oneOf({"cpu", "memory"});
    if (restart.given()) restart.oneOf({"NotRequired", "RestartContainer"});
  }
}

void checkContainer(const At& container, Pod& pod) {
  At name = container["name"], image = container["image"];
  if (name.given()) {
    auto problems = labelProblems(name.text());
    name.all(problems);
    if (problems.empty() && !pod.names.insert(name.text()).second) name.duplicate();
  }
  if (image.given() && !pod.in_template && trim(image.text()).size() != image.text().size())
    image.invalid("must not have leading or trailing whitespace");
  container["imagePullPolicy"].oneOf({"Always", "IfNotPresent", "Never"});
  container["terminationMessagePolicy"].oneOf({"File", "FallbackToLogsOnError"});
  checkPorts(container, pod);
  checkEnvironment(container);
  checkMounts(container, pod);
  checkDevices(container, pod);
  checkResources(container["resources"]);
  checkUsedClaims(container["resources"]["claims"], pod);
  checkContainerSecurity(container["securityContext"]);
  checkResizing(container["resizePolicy"]);
}

void checkInitContainer(const At& container, Pod& pod) {
  checkContainer(container, pod);
  if (container["restartPolicy"].text() == "Always") return checkProbes(container, pod.grace);
  for (std::string_view member : {"lifecycle", "livenessProbe", "readinessProbe", "startupProbe"})
    if (container[member].isThere())
      container[member].forbidden(
          "may not be set for init containers without restartPolicy=Always");
}

// --- volumes

void checkMode(const At& mode) {
  if (mode.isThere() && (mode->integer() < 0 || mode->integer() > 0777))
    mode.invalid("must be a number between 0 and 0777 (octal), both inclusive");
}

void checkNonLocalPath(const At& path) {
  auto problems = relativePathProblems(path.text());
  path.all(problems);
  if (problems.empty() && path.text().starts_with("..")) path.invalid("must not start with '..'");
}

void checkKeysToPaths(const At& source) {
  checkMode(source["defaultMode"]);
  for (const At& item : source["items"].items()) {
    item["key"].given();
    if (item["path"].given()) checkNonLocalPath(item["path"]);
    checkMode(item["mode"]);
  }
}

void checkSecretVolume(const At& secret) {
  secret["secretName"].given();
  checkKeysToPaths(secret);
}
void checkConfigMapVolume(const At& config) {
  config["name"].given();
  checkKeysToPaths(config);
}

void checkHostPath(const At& host) {
  At path = host["path"];
  if (!path.given()) return;
  for (std::string_view part : split(path.text(), '/'))
    if (part == "..") return path.invalid("must not contain '..'");
  host["type"].oneOf({"", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File",
                      "FileOrCreate", "Socket"});
}

void checkEmptyDir(const At& directory) {
  auto limit = kube::Quantity::fromJson(*directory["sizeLimit"]);
  if (directory["sizeLimit"].isThere() && limit && *limit < kube::Quantity())
    directory["sizeLimit"].forbidden("SizeLimit field must be a valid resource quantity");
}

void checkNfs(const At& nfs) {
  nfs["server"].given();
  if (nfs["path"].given() && !nfs["path"].text().starts_with('/'))
    nfs["path"].invalid("must be an absolute path");
}

void checkPartition(const At& disk) {
  At partition = disk["partition"];
  if (partition->integer() < 0 || partition->integer() > 255)
    partition.invalid("must be between 1 and 255, inclusive");
}

bool isDigit(char c) { return c >= '0' && c <= '9'; }
bool isAlnum(char c) { return isDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// The name of one side of iSCSI: iqn.2020-01.com.example:disk, or a number as eui or naa.
void checkIscsiName(const At& name) {
  std::string_view text = name.text();
  constexpr std::size_t kNumber = 4;  // where it begins
  bool by_number = text.starts_with("eui") || text.starts_with("naa");
  bool good = false;
  if (by_number) {
    std::size_t digits = text.starts_with("eui") ? 16 : 32;
    good = text.size() == kNumber + digits && std::ranges::all_of(text.substr(kNumber), isAlnum);
  } else if (text.starts_with("iqn")) {
    constexpr std::string_view kDate = "iqn.0000-00.";
    good = text.size() > kDate.size();
    for (std::size_t i = 0; good && i < kDate.size(); ++i)
      good = kDate[i] == '0' ? isDigit(text[i]) : text[i] == kDate[i];
    auto [authority, unique] = cut(good ? text.substr(kDate.size()) : text, ":");
    good =
        good && !authority.empty() && !unique.empty() &&
        std::ranges::all_of(authority, [](char c) { return isAlnum(c) || c == '-' || c == '.'; }) &&
        unique.find_first_of(",;*&$| \t\n\f\r") == std::string_view::npos;
  } else {
    return name.invalid("must be valid format starting with iqn, eui, or naa");
  }
  if (!good) name.invalid("must be valid format");
}

void checkIscsi(const At& iscsi) {
  At name = iscsi["iqn"], initiator = iscsi["initiatorName"];
  if (!name.isEmpty()) checkIscsiName(name);
  iscsi["lun"].between(0, 255);
  bool secret = iscsi["chapAuthDiscovery"]->boolean() || iscsi["chapAuthSession"]->boolean();
  if (secret && !iscsi["secretRef"].isThere()) iscsi["secretRef"].required();
  if (initiator.isThere()) checkIscsiName(iscsi["initiatorname"].with(*initiator));
}

void checkFibreChannel(const At& fc) {
  At targets = fc["targetWWNs"], lun = fc["lun"];
  if (targets.isEmpty() && fc["wwids"].isEmpty())
    targets.required("must specify either targetWWNs or wwids, but not both");
  if (targets.isEmpty()) return;
  if (!fc["wwids"].isEmpty())
    targets.invalid("targetWWNs and wwids can not be specified simultaneously");
  if (!lun.isThere()) lun.required("lun is required if targetWWNs is specified");
  lun.between(0, 255);
}

void checkRepository(const At& repository) {
  At directory = repository["directory"];
  directory.all(relativePathProblems(directory.text()));
}

void checkEphemeral(const At& ephemeral) {
  At claim = ephemeral["volumeClaimTemplate"], meta = claim["metadata"];
  if (!claim.isThere()) return claim.required();
  checkLabels(meta["labels"]);
  for (const auto& [name, value] : meta->object())
    if (name != "labels" && name != "annotations" && !meta[name].isEmpty())
      meta[name].forbidden("cannot be set");
  checkClaimSpec(claim["spec"]);
}

void checkDriver(const At& csi) {
  csi["driver"].fits(63);
  csi["driver"].all(subdomainProblems(lower(csi["driver"].text())));
}

// Of a volume that is the pod's own; the server names a part of it wrongly.
void checkInlineSecret(const At& csi) {
  At secret = csi["nodePublishSecretRef"];
  if (!secret.isThere() || !secret["name"].given()) return;
  csi["name"].with(*secret["name"]).all(subdomainProblems(secret["name"].text()));
}

void checkDownwardItems(const At& source) {
  checkMode(source["defaultMode"]);
  for (const At& item : source["items"].items()) {
    At path = source["path"].with(*item["path"]);
    if (path.given()) checkNonLocalPath(path);
    At field = source["fieldRef"].with(*item["fieldRef"]);
    At resource = source["resourceFieldRef"].with(*item["resourceFieldRef"]);
    if (field.isThere()) {
      checkFieldRef(field, kVolumeFields);
      if (resource.isThere())
        source.invalidText("resource",
                           "fieldRef and resourceFieldRef can not be specified simultaneously");
    } else if (resource.isThere()) {
      checkResourceRef(resource, true);
    } else {
      source.required("one of fieldRef and resourceFieldRef is required");
    }
    checkMode(source["mode"].with(*item["mode"]));
  }
}

void checkProjected(const At& projected) {
  checkMode(projected["defaultMode"]);
  std::set<std::string> paths;
  for (const At& source : projected["sources"].items()) {
    int count = 0;
    auto isOnly = [&](std::string_view name) {
      At one = source[name];
      if (!one.isThere()) return false;
      if (++count > 1) one.forbidden("may not specify more than 1 volume type per source");
      return count == 1;
    };
    auto note = [&](const At& item, const std::string& called) {
      if (!item["path"].isEmpty() && !paths.insert(item["path"].text()).second)
        projected.invalidText(called, "conflicting duplicate paths");
    };
    for (std::string_view name : {"secret", "configMap"})
      if (isOnly(name)) {
        source[name]["name"].given();
        for (const At& item : source[name]["items"].items()) {
          item["key"].given();
          if (item["path"].given()) checkNonLocalPath(item["path"]);
          checkMode(item["mode"]);
          note(item, source[name]["name"].text());
        }
      }
    if (isOnly("downwardAPI")) {
      checkDownwardItems(source["downwardAPI"]);
      for (const At& item : source["downwardAPI"]["items"].items()) note(item, item["path"].text());
    }
    if (!isOnly("serviceAccountToken")) continue;
    At token = source["serviceAccountToken"];
    At seconds = token["expirationSeconds"];
    checkTokenLife(seconds);
    At path = projected["path"].with(*token["path"]);
    if (path.given()) checkNonLocalPath(path);
  }
}

struct Source {
  std::string_view name;
  void (*check)(const At&) = nullptr;  // null: nothing that people meet
  std::array<std::string_view, 3> needed = {};
  std::string_view called = name;  // by the server
};

// In the order in which the server looks for them; of several the first is the one that counts.
constexpr Source kSources[] = {{"emptyDir", checkEmptyDir},
                               {"hostPath", checkHostPath},
                               {"gitRepo", checkRepository, {"repository"}},
                               {"gcePersistentDisk", checkPartition, {"pdName"}, "persistentDisk"},
                               {"awsElasticBlockStore", checkPartition, {"volumeID"}},
                               {"secret", checkSecretVolume},
                               {"nfs", checkNfs},
                               {"iscsi", checkIscsi, {"targetPortal", "iqn"}},
                               {"glusterfs", nullptr, {"endpoints", "path"}},
                               {"persistentVolumeClaim", nullptr, {"claimName"}},
                               {"rbd", nullptr, {"monitors", "image"}},
                               {"cinder", nullptr, {"volumeID"}},
                               {"cephfs", nullptr, {"monitors"}},
                               {"flocker"},
                               {"downwardAPI", checkDownwardItems},
                               {"fc", checkFibreChannel},
                               {"flexVolume", nullptr, {"driver"}},
                               {"configMap", checkConfigMapVolume},
                               {"azureFile", nullptr, {"secretName", "shareName"}},
                               {"vsphereVolume", nullptr, {"volumePath"}},
                               {"quobyte"},
                               {"azureDisk"},
                               {"portworxVolume", nullptr, {"volumeID"}},
                               {"storageos", nullptr, {"volumeName"}},
                               {"projected", checkProjected},
                               {"scaleIO", nullptr, {"gateway", "system", "volumeName"}},
                               {"csi", checkDriver, {"driver"}},
                               {"ephemeral", checkEphemeral},
                               {"image"}};

}  // namespace

void checkSource(const At& volume, std::string_view name) {
  for (const Source& row : kSources) {
    if (row.name != name || !volume[name].isThere()) continue;
    At source = volume[row.called].with(*volume[name]);
    for (std::string_view field : row.needed)
      if (!field.empty()) source[field].given();
    if (row.check) row.check(source);
  }
}

namespace {

void checkVolumes(const At& volumes, Pod& pod) {
  for (const At& volume : volumes.items()) {
    At name = volume["name"];
    bool counted = false;
    for (const Source& source : kSources) {
      At one = volume[source.name];
      if (!one.isThere()) continue;
      if (counted)
        one.forbidden("may not specify more than 1 volume type");
      else
        checkSource(volume, source.name);
      if (!counted && source.name == "csi") checkInlineSecret(one);
      counted = true;
    }
    if (!name.given()) continue;
    auto problems = labelProblems(name.text());
    name.all(problems);
    if (problems.empty() && !pod.volumes.emplace(name.text(), &*volume).second) name.duplicate();
  }
}

// --- where it runs

void checkDns(const At& spec) {
  At config = spec["dnsConfig"], servers = config["nameservers"];
  spec["dnsPolicy"].oneOf({"ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"});
  if (spec["dnsPolicy"].text() == "None") {
    if (!config.isThere())
      config.required("must provide `dnsConfig` when `dnsPolicy` is None");
    else if (servers.isEmpty())
      servers.required("must provide at least one DNS nameserver when `dnsPolicy` is None");
  }
  if (servers->array().size() > 3) servers.invalid("must not have more than 3 nameservers");
  for (const At& server : servers.items()) server.all(ipProblems(server.text()));
  if (config["searches"]->array().size() > 32)
    config["searches"].invalid("must not have more than 32 search paths");
  for (const At& search : config["searches"].items()) {
    std::string_view text = search.text();
    if (text == ".") continue;
    if (text.ends_with('.')) text.remove_suffix(1);
    for (const std::string& problem : searchDomainProblems(text)) search.invalidText(text, problem);
  }
  for (const At& option : config["options"].items())
    if (option["name"].isEmpty()) option.required("must not be empty");
}

}  // namespace

std::string withoutSeconds(Value toleration) {
  toleration.makeObject().erase("tolerationSeconds");
  return json::write(toleration);
}

void checkTolerations(const At& tolerations) {
  for (const At& one : tolerations.items()) {
    At key = one["key"], op = one["operator"], effect = one["effect"];
    if (!key.isEmpty()) key.all(qualifiedProblems(key.text()));
    if (key.isEmpty() && op.text() != "Exists")
      op.invalid(
          "operator must be Exists when `key` is empty, which means \"match all values and all "
          "keys\"");
    if (one["tolerationSeconds"].isThere() && effect.text() != "NoExecute")
      effect.invalid("effect must be 'NoExecute' when `tolerationSeconds` is set");
    const std::string& value = one["value"].text();
    if (op.text() == "Equal" || op.isEmpty()) {
      for (const std::string& problem : labelValueProblems(value)) op.invalidText(value, problem);
    } else if (op.text() == "Exists") {
      if (!value.empty()) op.invalidText(value, "value must be empty when `operator` is 'Exists'");
    } else {
      op.unsupported({"Equal", "Exists"});
    }
    if (!effect.isEmpty()) effect.oneOf({"NoSchedule", "PreferNoSchedule", "NoExecute"});
  }
}

namespace {

void checkNodeRequirement(const At& one) {
  const std::string& op = one["operator"].text();
  At values = one["values"];
  if (op == "In" || op == "NotIn") {
    if (values.isEmpty()) values.required("must be specified when `operator` is 'In' or 'NotIn'");
  } else if (op == "Exists" || op == "DoesNotExist") {
    if (!values.isEmpty())
      values.forbidden("may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
  } else if (op == "Gt" || op == "Lt") {
    if (values->array().size() != 1)
      values.required("must be specified single value when `operator` is 'Lt' or 'Gt'");
  } else {
    one["operator"].invalid("not a valid selector operator");
  }
  one["key"].all(qualifiedProblems(one["key"].text()));
}

void checkNodeField(const At& one) {
  At values = one["values"], op = one["operator"], key = one["key"];
  if (op.text() != "In" && op.text() != "NotIn")
    op.invalid("not a valid selector operator");
  else if (values->array().size() != 1)
    values.required(
        "must be only one value when `operator` is 'In' or 'NotIn' for node field selector");
  if (key.text() != "metadata.name") return key.invalid("not a valid field selector key");
  for (const At& value : values.items()) value.all(subdomainProblems(value.text()));
}

void checkNodeTerm(const At& term) {
  for (const At& one : term["matchExpressions"].items()) checkNodeRequirement(one);
  for (const At& one : term["matchFields"].items()) checkNodeField(one);
}

}  // namespace

void checkNodeSelector(const At& selector) {
  if (!selector.isThere()) return;
  At terms = selector["nodeSelectorTerms"];
  if (terms.isEmpty()) terms.required("must have at least one node selector term");
  for (const At& term : terms.items()) {
    checkNodeTerm(term);
    for (const At& one : term["matchExpressions"].items())
      for (const At& value : one["values"].items()) value.all(labelValueProblems(value.text()));
  }
}

namespace {

// Labels of the pod itself that others are to have as well.
void checkLabelKeys(const At& of, std::string_view list) {
  At keys = of[list];
  if (!keys.isEmpty() && !of["labelSelector"].isThere())
    return keys.forbidden("must not be specified when labelSelector is not set");
  for (const At& key : keys.items())
    for (const std::string& problem : qualifiedProblems(key.text()))
      key.invalidText(key.text(), problem);
}

void checkPodAffinityTerm(const At& term) {
  for (std::string_view list : {"matchLabelKeys", "mismatchLabelKeys"}) checkLabelKeys(term, list);
  std::set<std::string> others;
  for (const Value& key : term["mismatchLabelKeys"]->array()) others.insert(key.string());
  for (const At& key : term["matchLabelKeys"].items())
    if (others.contains(key.text()))
      key.invalid("exists in both matchLabelKeys and mismatchLabelKeys");
  checkSelector(term["labelSelector"]);
  checkSelector(term["namespaceSelector"]);
  for (const At& name : term["namespaces"].items())
    for (const std::string& problem : labelProblems(name.text()))
      term["namespace"].invalidText(name.text(), problem);
  At key = term["topologyKey"];
  if (key.isEmpty()) key.required("can not be empty");
  for (const std::string& problem : qualifiedProblems(key.text()))
    key.invalidText(key.text(), problem);
}

void checkWeight(const At& weight) {
  if (weight->integer() < 1 || weight->integer() > 100)
    weight.invalid("must be in the range 1-100");
}

void checkAffinity(const At& affinity) {
  constexpr std::string_view kRequired = "requiredDuringSchedulingIgnoredDuringExecution";
  constexpr std::string_view kPreferred = "preferredDuringSchedulingIgnoredDuringExecution";
  At node = affinity["nodeAffinity"];
  checkNodeSelector(node[kRequired]);
  for (const At& term : node[kPreferred].items()) {
    checkWeight(term["weight"]);
    checkNodeTerm(term["preference"]);
  }
  for (std::string_view name : {"podAffinity", "podAntiAffinity"}) {
    for (const At& term : affinity[name][kRequired].items()) checkPodAffinityTerm(term);
    for (const At& term : affinity[name][kPreferred].items()) {
      checkWeight(term["weight"]);
      checkPodAffinityTerm(term["podAffinityTerm"]);
    }
  }
}

void checkSpread(const At& constraints) {
  auto pairOf = [](const At& one) {
    return std::pair(one["topologyKey"].text(), one["whenUnsatisfiable"].text());
  };
  std::vector<At> all = constraints.items();
  std::map<std::pair<std::string, std::string>, std::size_t> left;
  for (const At& one : all) ++left[pairOf(one)];
  for (const At& one : all) {
    At unsatisfiable = one["whenUnsatisfiable"];
    if (one["maxSkew"]->integer() <= 0) one["maxSkew"].invalid("must be greater than zero");
    if (one["topologyKey"].isEmpty()) one["topologyKey"].required("can not be empty");
    unsatisfiable.oneOf({"DoNotSchedule", "ScheduleAnyway"});
    // The first of two is the one that is told.
    if (--left[pairOf(one)] > 0)
      one["{topologyKey, whenUnsatisfiable}"].duplicateShown(
          json::write(format("{{{}, {}}}", one["topologyKey"].text(), unsatisfiable.text())));
    if (At domains = one["minDomains"]; domains.isThere()) {
      if (domains->integer() <= 0) domains.invalid("must be greater than zero");
      if (unsatisfiable.text() != "DoNotSchedule")
        domains.invalid(format("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {}",
                               unsatisfiable.text()));
    }
    for (std::string_view policy : {"nodeAffinityPolicy", "nodeTaintsPolicy"})
      one[policy].oneOf({"Honor", "Ignore"});
    checkSelector(one["labelSelector"]);
    checkLabelKeys(one, "matchLabelKeys");
  }
}

// Parts of letters, digits, - and _ between dots and slashes.
bool isSysctl(std::string_view name) {
  if (name.empty() || name.size() > 253) return false;
  auto isPlain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  for (std::size_t begin = 0; begin <= name.size();) {
    std::size_t end = std::min(name.find_first_of("./", begin), name.size());
    std::string_view part = name.substr(begin, end - begin);
    if (part.empty() || !isPlain(part.front()) || !isPlain(part.back())) return false;
    for (char c : part)
      if (!isPlain(c) && c != '-' && c != '_') return false;
    begin = end + 1;
  }
  return true;
}

void checkPodSecurity(const At& spec) {
  At context = spec["securityContext"];
  for (std::string_view id : {"fsGroup", "runAsUser", "runAsGroup"}) context[id].between(0, kMaxId);
  for (const At& group : context["supplementalGroups"].items()) group.between(0, kMaxId);
  context["fsGroupChangePolicy"].oneOf({"Always", "OnRootMismatch"});
  context["supplementalGroupsPolicy"].oneOf({"Merge", "Strict"});
  checkSeccomp(context);
  checkAppArmor(context);
  std::set<std::string> sysctls;
  for (const At& sysctl : context["sysctls"].items()) {
    if (sysctl["name"].given() && !sysctls.insert(sysctl["name"].text()).second)
      sysctl["name"].duplicate();
    else if (!sysctl["name"].isEmpty() && !isSysctl(sysctl["name"].text()))
      sysctl["name"].invalid(
          "must have at most 253 characters and match regex "
          R"(^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$)");
    if (spec["hostNetwork"]->boolean() && sysctl["name"].text().starts_with("net."))
      sysctl["name"].invalid("may not be specified when 'hostNetwork' is true");
  }
  At shared = context["shareProcessNamespace"].with(*spec["shareProcessNamespace"]);
  if (spec["hostPID"]->boolean() && shared->boolean())
    shared.invalid("ShareProcessNamespace and HostPID cannot both be enabled");
}

// All containers, of whichever kind.
std::vector<At> containersOf(const At& spec) {
  std::vector<At> out;
  for (std::string_view list : {"initContainers", "containers", "ephemeralContainers"})
    for (const At& container : spec[list].items()) out.push_back(container);
  return out;
}

void checkHostUsers(const At& spec) {
  if (!spec["hostUsers"].isThere() || spec["hostUsers"]->boolean()) return;
  constexpr std::string_view kWhen = "when `hostUsers` is false";
  // The server writes two of them so.
  for (auto [field, called] : {std::pair("hostNetwork", "hostNetwork"),
                               std::pair("hostPID", "HostPID"), std::pair("hostIPC", "HostIPC")})
    if (spec[field]->boolean()) spec[called].forbidden(kWhen);
  for (const At& container : containersOf(spec))
    if (!container["volumeDevices"].isEmpty()) container["volumeDevices"].forbidden(kWhen);
}

void forbidAll(const At& context, std::initializer_list<std::string_view> fields,
               std::string_view why) {
  for (std::string_view field : fields)
    if (context[field].isThere()) context[field].forbidden(why);
}

// Of a pod for one system nothing is asked that only another one has.
void checkSystem(const At& spec) {
  At os = spec["os"], context = spec["securityContext"];
  if (!os.isThere() || !os["name"].given()) return;
  os.with(*os["name"]).oneOf({"linux", "windows"});
  if (os["name"].text() == "linux") {
    constexpr std::string_view kWhy = "windows options cannot be set for a linux pod";
    forbidAll(context, {"windowsOptions"}, kWhy);
    for (const At& container : containersOf(spec))
      forbidAll(container["securityContext"], {"windowsOptions"}, kWhy);
  }
  if (os["name"].text() != "windows") return;
  constexpr std::string_view kWhy = "cannot be set for a windows pod";
  forbidAll(spec, {"hostUsers", "hostPID", "hostIPC", "shareProcessNamespace"}, kWhy);
  forbidAll(context,
            {"appArmorProfile", "seLinuxOptions", "seccompProfile", "fsGroup",
             "fsGroupChangePolicy", "sysctls", "runAsUser", "runAsGroup", "supplementalGroups",
             "supplementalGroupsPolicy", "seLinuxChangePolicy"},
            kWhy);
  for (const At& container : containersOf(spec))
    forbidAll(container["securityContext"],
              {"appArmorProfile", "seLinuxOptions", "seccompProfile", "capabilities",
               "readOnlyRootFilesystem", "privileged", "allowPrivilegeEscalation", "procMount",
               "runAsUser", "runAsGroup"},
              kWhy);
}

void checkGates(const At& spec) {
  for (const At& gate : spec["readinessGates"].items())
    gate["conditionType"].all(qualifiedProblems(gate["conditionType"].text()));
  std::set<std::string> names;
  for (const At& gate : spec["schedulingGates"].items()) {
    At name = gate.with(*gate["name"]);
    name.all(qualifiedProblems(name.text()));
    if (!names.insert(name.text()).second) name.duplicate();
  }
}

}  // namespace

void checkPodSpec(const At& spec, bool in_template) {
  Pod pod{.host_network = spec["hostNetwork"]->boolean(),
          .grace = spec["terminationGracePeriodSeconds"]->integer(30),
          .in_template = in_template};
  checkVolumes(spec["volumes"], pod);
  checkPodClaims(spec["resourceClaims"], pod);
  if (spec["containers"].isEmpty()) spec["containers"].required();
  for (const At& container : spec["containers"].items()) {
    checkContainer(container, pod);
    checkProbes(container, pod.grace);
  }
  for (const At& container : spec["initContainers"].items()) checkInitContainer(container, pod);
  if (in_template && !spec["ephemeralContainers"].isEmpty())
    spec["ephemeralContainers"].forbidden("ephemeral containers not allowed in pod template");
  spec["restartPolicy"].oneOf({"Always", "OnFailure", "Never"});
  checkDns(spec);
  checkLabels(spec["nodeSelector"]);
  checkTolerations(spec["tolerations"]);
  checkAffinity(spec["affinity"]);
  checkSpread(spec["topologySpreadConstraints"]);
  checkPodSecurity(spec);
  checkGates(spec);
  checkHostUsers(spec);
  checkSystem(spec);
  for (std::string_view name : {"serviceAccountName", "nodeName", "priorityClassName"})
    if (!spec[name].isEmpty()) spec[name].all(subdomainProblems(spec[name].text()));
  for (std::string_view name : {"hostname", "subdomain"})
    if (!spec[name].isEmpty()) spec[name].all(labelProblems(spec[name].text()));
  if (spec["runtimeClassName"].isThere())
    spec["runtimeClassName"].all(subdomainProblems(spec["runtimeClassName"].text()));
  spec["activeDeadlineSeconds"].between(1, kMaxId);
  spec["preemptionPolicy"].oneOf({"PreemptLowerPriority", "Never"});
  for (const At& alias : spec["hostAliases"].items()) {
    alias["ip"].all(ipProblems(alias["ip"].text()));
    for (const At& host : alias["hostnames"].items()) host.all(subdomainProblems(host.text()));
  }
}

// The server leaves out a step where it names the labels of a template.
void checkPodTemplate(const At& pod_template) {
  const Value& meta = *pod_template["metadata"];
  checkLabels(pod_template["labels"].with(meta["labels"]));
  At annotations = pod_template["annotations"].with(meta["annotations"]);
  for (const auto& [key, value] : annotations->object())
    for (const std::string& problem : qualifiedProblems(lower(key)))
      annotations.invalidText(key, problem);
  checkPodSpec(pod_template["spec"], true);
}

void checkPodTemplateKind(const At& object, const Value&) { checkPodTemplate(object["template"]); }

namespace {

constexpr std::string_view kNeeded = "requiredDuringSchedulingIgnoredDuringExecution";

// Whether a list begins with what was there.
bool extends(const Value& now, const Value& before) {
  const json::Array &all = now.array(), &first = before.array();
  return all.size() >= first.size() && std::equal(first.begin(), first.end(), all.begin());
}

// While a pod is gated, where it may run can be narrowed.
void checkNarrowed(const At& spec, const Value& old) {
  for (const auto& [key, value] : old["nodeSelector"].object())
    if ((*spec["nodeSelector"])[key] != value) {
      spec["nodeSelector"].invalid(
          "only additions to spec.nodeSelector are allowed (no mutations or deletions)");
      break;
    }
  At terms = spec["affinity"]["nodeAffinity"][kNeeded]["nodeSelectorTerms"];
  const Value& before = old["affinity"]["nodeAffinity"][kNeeded]["nodeSelectorTerms"];
  if (before.array().empty()) return;
  if (terms->array().size() != before.array().size())
    return terms.invalid("no additions/deletions to non-empty NodeSelectorTerms list are allowed");
  for (std::size_t i = 0; i < before.array().size(); ++i) {
    const Value &now = *terms.item(i), &then = before.at(i);
    bool good = extends(now["matchExpressions"], then["matchExpressions"]) &&
                extends(now["matchFields"], then["matchFields"]);
    bool was_empty =
        then["matchExpressions"].array().empty() && then["matchFields"].array().empty();
    if (!good || (was_empty && now != then))
      terms.item(i).invalid("only additions are allowed (no mutations or deletions)");
  }
}

void checkGatesUpdate(const At& gates, const Value& old) {
  std::set<std::string> before;
  for (const Value& gate : old.array()) before.insert(json::write(gate));
  for (const At& gate : gates.items())
    if (!before.contains(json::write(*gate)))
      gate["name"].forbidden(format("only deletion is allowed, but found new scheduling gate '{}'",
                                    gate["name"].text()));
}

// Whether it may go on with other rules.
bool checkDeadlineUpdate(const At& deadline, const Value& old) {
  if (old.isNull()) return true;
  if (!deadline.isThere())
    deadline.invalid("must not update from a positive integer to nil value");
  else if (deadline->integer() > old.integer())
    deadline.invalid("must be less than or equal to previous value");
  return !deadline.isThere() || deadline->integer() <= old.integer();
}

void checkTolerationsUpdate(const At& tolerations, const Value& old) {
  std::set<std::string> now;
  for (const Value& toleration : tolerations->array()) now.insert(withoutSeconds(toleration));
  for (const Value& toleration : old.array()) {
    if (now.contains(withoutSeconds(toleration))) continue;
    return tolerations.forbidden(
        "existing toleration can not be modified except its tolerationSeconds");
  }
}

// What may change is taken out of both; all else has to be the same.
void takeOutChangeable(Value& spec, bool gated) {
  for (std::string_view list : {"containers", "initContainers"}) {
    if (!spec[list].isArray()) continue;
    for (Value& container : spec.make(list).makeArray()) container.makeObject().erase("image");
  }
  for (std::string_view name : {"activeDeadlineSeconds", "tolerations", "schedulingGates"})
    spec.makeObject().erase(name);
  if (!gated) return;
  spec.makeObject().erase("nodeSelector");
  spec.make("affinity").makeObject().erase("nodeAffinity");
}

void checkPodUpdate(const At& spec, const Value& old) {
  for (std::string_view list : {"containers", "initContainers"})
    if (spec[list]->array().size() != old[list].array().size())
      return spec[list].forbidden("pod updates may not add or remove containers");
  if (!checkDeadlineUpdate(spec["activeDeadlineSeconds"], old["activeDeadlineSeconds"])) return;
  checkTolerationsUpdate(spec["tolerations"], old["tolerations"]);
  checkGatesUpdate(spec["schedulingGates"], old["schedulingGates"]);
  bool gated = !old["schedulingGates"].array().empty();
  if (gated) checkNarrowed(spec, old);
  Value now = *spec, before = old;
  for (Value* one : {&now, &before}) takeOutChangeable(*one, gated);
  if (now["terminationGracePeriodSeconds"].integer() == 1 &&
      before["terminationGracePeriodSeconds"].integer() < 0)
    before.make("terminationGracePeriodSeconds") = 1;
  if (now != before)
    spec.forbidden(
        "pod updates may not change fields other than `spec.containers[*].image`,"
        "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only "
        "additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be "
        "set to 1 if it was previously negative)");
}

}  // namespace

void checkPod(const At& object, const Value& old) {
  At spec = object["spec"];
  checkPodSpec(spec, false);
  if (!old.isNull()) return checkPodUpdate(spec, old["spec"]);
  if (!spec["ephemeralContainers"].isEmpty())
    spec["ephemeralContainers"].forbidden("cannot be set on create");
  if (!spec["nodeName"].isEmpty() && !spec["schedulingGates"].isEmpty())
    spec["nodeName"].forbidden("cannot be set until all schedulingGates have been cleared");
}

}  // namespace cadre::hub
