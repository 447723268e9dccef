#include "hub/builtin_validate.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/format.h"
#include "base/strings.h"
#include "hub/builtin_defaults.h"
#include "hub/builtin_rules.h"
#include "hub/builtin_types.h"
#include "hub/definition.h"
#include "json/write.h"

namespace cadre::hub {

namespace {

using json::Value;

// What the name of an object may be, and what else is asked of it.
struct KindRules {
  std::string_view group;
  std::string_view kind;
  ObjectCheck* check = nullptr;
  Problems (*name)(std::string_view) = subdomainProblems;
};

// Kinds that are not here have no rules but those for metadata.
constexpr std::string_view kRbac = "rbac.authorization.k8s.io";
constexpr std::string_view kAdmission = "admissionregistration.k8s.io";
constexpr KindRules kRules[] = {
    {"", "ConfigMap", checkConfigMap},
    {"", "Secret", checkSecret},
    {"", "Namespace", checkNamespace, labelProblems},
    {"", "Node", checkNode},
    {"", "Service", checkService, dns1035Problems},
    {"", "Endpoints", checkEndpoints},
    {"", "Event", checkEvent, pathSegmentProblems},
    {"", "ResourceQuota", checkQuota},
    {"", "LimitRange", checkLimitRange},
    {"", "PersistentVolumeClaim", checkClaim},
    {"", "PersistentVolume", checkVolume},
    {"", "Pod", checkPod},
    {"", "PodTemplate", checkPodTemplateKind},
    {"", "ReplicationController", checkReplicationController},
    {"apps", "Deployment", checkDeployment},
    {"apps", "ReplicaSet", checkReplicaSet},
    {"apps", "StatefulSet", checkStatefulSet, labelProblems},
    {"apps", "DaemonSet", checkDaemonSet},
    {"apps", "ControllerRevision", checkControllerRevision},
    {"batch", "Job", checkJob},
    {"batch", "CronJob", checkCronJob},
    {"autoscaling", "HorizontalPodAutoscaler", checkAutoscaler},
    {"policy", "PodDisruptionBudget", checkBudget, pathSegmentProblems},
    {"networking.k8s.io", "Ingress", checkIngress},
    {"networking.k8s.io", "IngressClass", checkIngressClass},
    {"networking.k8s.io", "NetworkPolicy", checkNetworkPolicy},
    {"discovery.k8s.io", "EndpointSlice", checkEndpointSlice},
    {"events.k8s.io", "Event", checkNewEvent},
    {kRbac, "Role", checkRole, pathSegmentProblems},
    {kRbac, "ClusterRole", checkClusterRole, pathSegmentProblems},
    {kRbac, "RoleBinding", checkBinding, pathSegmentProblems},
    {kRbac, "ClusterRoleBinding", checkClusterBinding, pathSegmentProblems},
    {"storage.k8s.io", "StorageClass", checkStorageClass},
    {"storage.k8s.io", "CSIDriver", checkStorageDriver},
    {"storage.k8s.io", "VolumeAttachment", checkAttachment},
    {"scheduling.k8s.io", "PriorityClass", checkPriorityClass},
    {"node.k8s.io", "RuntimeClass", checkRuntimeClass},
    {"coordination.k8s.io", "Lease", checkLease},
    {kAdmission, "MutatingWebhookConfiguration", checkWebhooks},
    {kAdmission, "ValidatingWebhookConfiguration", checkWebhooks},
};

const KindRules& rulesOf(const BuiltIn& kind) {
  static constexpr KindRules kNone{};
  for (const KindRules& rules : kRules)
    if (rules.kind == kind.kind && rules.group == kind.group) return rules;
  return kNone;
}

// --- metadata

void checkOwners(const At& owners) {
  std::string controller;
  for (const At& owner : owners.items()) {
    auto [first, second] = cut(owner["apiVersion"].text(), "/");
    bool grouped = owner["apiVersion"].text().find('/') != std::string::npos;
    std::string_view version = grouped ? second : first;
    bool no_version = version.empty() || version.find('/') != std::string_view::npos;
    if (no_version)
      owners["apiVersion"].invalidText(owner["apiVersion"].text(), "version must not be empty");
    for (std::string_view name : {"kind", "name", "uid"})
      if (owner[name].isEmpty()) owners[name].invalidText("", "must not be empty");
    if (!grouped && first == "v1" && owner["kind"].text() == "Event")
      owners.invalidShown(orderedJson(*owner, {"apiVersion", "kind", "name", "uid", "controller"}),
                          "/v1, Kind=Event is disallowed from being an owner");
    if (!owner["controller"]->boolean()) continue;
    std::string called = owner["kind"].text() + "/" + owner["name"].text();
    if (controller.empty())
      controller = std::move(called);
    else
      owners.invalidShown(
          orderedJson(*owners, {"apiVersion", "kind", "name", "uid", "controller"}),
          format("Only one reference can have Controller set to true. Found \"true\" in references "
                 "for {} and {}",
                 controller, called));
  }
}

void checkFinalizers(const At& finalizers) {
  bool orphan = false, foreground = false;
  for (const At& one : finalizers.items()) {
    for (const std::string& problem : qualifiedProblems(one.text()))
      finalizers.invalidText(one.text(), problem);
    orphan = orphan || one.text() == "orphan";
    foreground = foreground || one.text() == "foregroundDeletion";
    bool standard =
        one.text() == "orphan" || one.text() == "foregroundDeletion" || one.text() == "kubernetes";
    if (one.text().find('/') == std::string::npos && !standard)
      one.invalid("name is neither a standard finalizer name nor is it fully qualified");
  }
  if (orphan && foreground)
    finalizers.invalid("finalizer orphan and foregroundDeletion cannot be both set");
}

void checkAnnotations(const At& annotations) {
  constexpr std::size_t kMaxBytes = 256u << 10;
  std::size_t size = 0;
  for (const auto& [key, value] : annotations->object()) {
    // Capital letters before the slash were taken once, and are so still.
    for (const std::string& problem : qualifiedProblems(lower(key)))
      annotations.invalidText(key, problem);
    size += key.size() + value.string().size();
  }
  if (size > kMaxBytes)
    annotations.addFinding(
        {.path = annotations.path(),
         .fault = kube::Fault::TooLong,
         .message = format("Too long: may not be more than {} bytes", kMaxBytes)});
}

void checkMetadata(const At& meta, const KindRules& rules, const Value& old) {
  At name = meta["name"], generate = meta["generateName"];
  if (!generate.isEmpty()) {
    // Something comes behind it, so that it may end as a name may not.
    std::string_view text = generate.text();
    std::string masked(text);
    if (masked.ends_with('-')) masked.back() = 'a';
    generate.all(rules.name(masked));
  }
  if (name.isEmpty())
    name.required("name or generateName is required");
  else if (old.isNull())
    name.all(rules.name(name.text()));
  checkLabels(meta["labels"]);
  checkAnnotations(meta["annotations"]);
  checkOwners(meta["ownerReferences"]);
  checkFinalizers(meta["finalizers"]);
}

// Nobody may add a finalizer to what is being deleted, and what the server sets stays.
void checkMetadataUpdate(const At& meta, const Value& old) {
  for (std::string_view field : {"name", "namespace", "uid", "creationTimestamp"})
    if (!old[field].isNull() && *meta[field] != old[field])
      meta[field].invalid("field is immutable");
  if (old["deletionTimestamp"].isNull()) return;
  std::vector<std::string> added;
  std::set<std::string_view> before;
  for (const Value& one : old["finalizers"].array()) before.insert(one.string());
  for (const Value& one : meta["finalizers"]->array())
    if (!before.contains(one.string())) added.push_back(one.string());
  if (!added.empty())
    meta["finalizers"].forbidden(
        format("no new finalizers can be added if the object is being deleted, found new "
               "finalizers []string{{\"{}\"}}",
               join(added, "\", \"")));
}

}  // namespace

std::vector<kube::FieldError> validateBuiltIn(const BuiltIn& kind, const Value& object,
                                              const Value* old) {
  if (kind.kind == "CustomResourceDefinition")
    return validateCrd(object, old ? *old : json::Value());
  static const Value kNothing;
  const Value& before = old ? *old : kNothing;
  const KindRules& rules = rulesOf(kind);
  auto check = [&](const At& whole) {
    checkMetadata(whole["metadata"], rules, before);
    if (old) checkMetadataUpdate(whole["metadata"], before["metadata"]);
    if (rules.check) rules.check(whole, before);
  };
  Findings findings;
  check(At::unnamed(object, findings));
  if (findings.empty()) return findings;
  findings.clear();
  check(At(object, "", findings));
  return findings;
}

std::vector<kube::FieldError> validatePods(Value pod_spec) {
  static const BuiltIn& kKind = *findBuiltIn("apps", "v1", "Deployment");
  const Value labels = json::Object{{"app", "x"}};
  Value object = json::Object{
      {"apiVersion", "apps/v1"},
      {"kind", "Deployment"},
      {"metadata", json::Object{{"name", "x"}, {"namespace", "x"}}},
      {"spec",
       json::Object{{"selector", json::Object{{"matchLabels", labels}}},
                    {"template", json::Object{{"metadata", json::Object{{"labels", labels}}},
                                              {"spec", std::move(pod_spec)}}}}}};
  if (auto readable = decodable(kKind, object); !readable)
    return {{.path = "", .fault = kube::Fault::Invalid, .message = readable.error().message}};
  object = typed(kKind, std::move(object));
  setDefaults(kKind, object);
  std::vector<kube::FieldError> errors = validateBuiltIn(kKind, typed(kKind, std::move(object)));
  for (kube::FieldError& error : errors) {
    constexpr std::string_view kAbove = "spec.template.spec.";
    if (error.path.starts_with(kAbove)) error.path.erase(0, kAbove.size());
  }
  return errors;
}

}  // namespace cadre::hub
