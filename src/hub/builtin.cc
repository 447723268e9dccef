#include "hub/builtin.h"

#include <algorithm>
#include <tuple>

#include "hub/builtin_cells.h"

namespace cadre::hub {

namespace {

constexpr Subresource kStatus{"status", "get,patch,update"};
constexpr Subresource kScale{"scale", "get,patch,update", "Scale", "autoscaling", "v1"};

Column name() { return {.name = "Name", .format = "name", .path = "metadata.name"}; }
Column age() { return {.name = "Age", .show = Show::Since, .path = "metadata.creationTimestamp"}; }
// Kinds that nobody wrote columns for.
std::vector<Column> plainColumns() {
  return {name(), {.name = "Created At", .type = "date", .path = "metadata.creationTimestamp"}};
}

Column made(std::string_view name, json::Value (*cell)(const json::Value&, Time),
            int priority = 0) {
  return {.name = name, .priority = priority, .show = Show::Function, .cell = cell};
}
Column count(std::string_view name, std::string_view path, std::string_view type = "string") {
  return {.name = name, .type = type, .show = Show::Count, .path = path};
}
Column number(std::string_view name, std::string_view path, std::string_view type = "integer") {
  return {.name = name, .type = type, .path = path, .otherwise = 0};
}
Column flag(std::string_view name, std::string_view path, bool otherwise,
            std::string_view type = "boolean") {
  return {.name = name, .type = type, .path = path, .otherwise = otherwise};
}
Column text(std::string_view name, std::string_view path, std::string_view otherwise = "",
            int priority = 0) {
  return {
      .name = name, .priority = priority, .show = Show::Text, .path = path, .otherwise = otherwise};
}
Column since(std::string_view name, std::string_view path, std::string_view otherwise) {
  return {.name = name, .show = Show::Since, .path = path, .otherwise = otherwise};
}
Column containers(std::string_view path, int priority = 1) {
  return {.name = "Containers", .priority = priority, .show = Show::Containers, .path = path};
}
Column images(std::string_view path, int priority = 1) {
  return {.name = "Images", .priority = priority, .show = Show::Images, .path = path};
}
Column selector(std::string_view path, std::string_view name = "Selector", int priority = 1) {
  return {.name = name, .priority = priority, .show = Show::Selector, .path = path};
}
Column labels(std::string_view name, std::string_view path, int priority = 0) {
  return {.name = name, .priority = priority, .show = Show::Labels, .path = path};
}

constexpr std::string_view kTemplated = "spec.template.spec.containers";

std::vector<Column> eventColumns() {
  return {made("Last Seen", eventLastSeen),
          text("Type", "type"),
          text("Reason", "reason"),
          made("Object", eventObject),
          made("Subobject", eventSubobject, 1),
          made("Source", eventSource, 1),
          made("Message", eventMessage),
          made("First Seen", eventFirstSeen, 1),
          made("Count", eventCount, 1),
          {.name = "Name", .format = "name", .priority = 1, .path = "metadata.name"}};
}

std::vector<Column> autoscalerColumns() {
  return {name(),
          made("Reference", autoscalerReference),
          made("Targets", autoscalerTargets),
          made("MinPods", autoscalerMinimum),
          number("MaxPods", "spec.maxReplicas", "string"),
          number("Replicas", "status.currentReplicas", "string"),
          age()};
}

std::vector<Column> bindingColumns() {
  return {name(),
          made("Role", bindingRole),
          age(),
          made("Users", bindingUsers, 1),
          made("Groups", bindingGroups, 1),
          made("ServiceAccounts", bindingServiceAccounts, 1)};
}

std::vector<BuiltIn> coreKinds() {
  return {
      {.group = "",
       .version = "v1",
       .kind = "ConfigMap",
       .plural = "configmaps",
       .singular = "configmap",
       .short_names = {"cm"},
       .columns = {name(), made("Data", configMapData), age()}},
      {.group = "",
       .version = "v1",
       .kind = "Endpoints",
       .plural = "endpoints",
       .singular = "endpoints",
       .short_names = {"ep"},
       .columns = {name(), made("Endpoints", endpointsList), age()}},
      {.group = "",
       .version = "v1",
       .kind = "Event",
       .plural = "events",
       .singular = "event",
       .short_names = {"ev"},
       .columns = eventColumns()},
      {.group = "",
       .version = "v1",
       .kind = "LimitRange",
       .plural = "limitranges",
       .singular = "limitrange",
       .short_names = {"limits"},
       .columns = plainColumns()},
      {.group = "",
       .version = "v1",
       .kind = "Namespace",
       .plural = "namespaces",
       .singular = "namespace",
       .namespaced = false,
       .short_names = {"ns"},
       .subresources = {{"finalize", "update"}, kStatus},
       .columns = {name(), text("Status", "status.phase"), age()},
       .delete_collection = false},
      {.group = "",
       .version = "v1",
       .kind = "Node",
       .plural = "nodes",
       .singular = "node",
       .namespaced = false,
       .short_names = {"no"},
       .subresources = {{"proxy", "create,delete,get,patch,update", "NodeProxyOptions"}, kStatus},
       .columns = {name(), made("Status", nodeStatus), made("Roles", nodeRoles), age(),
                   text("Version", "status.nodeInfo.kubeletVersion"),
                   made("Internal-IP", nodeInternalIp, 1), made("External-IP", nodeExternalIp, 1),
                   text("OS-Image", "status.nodeInfo.osImage", "<unknown>", 1),
                   text("Kernel-Version", "status.nodeInfo.kernelVersion", "<unknown>", 1),
                   text("Container-Runtime", "status.nodeInfo.containerRuntimeVersion", "<unknown>",
                        1)},
       .status_on_create = true},
      {.group = "",
       .version = "v1",
       .kind = "PersistentVolumeClaim",
       .plural = "persistentvolumeclaims",
       .singular = "persistentvolumeclaim",
       .short_names = {"pvc"},
       .subresources = {kStatus},
       .columns = {name(),
                   made("Status", phaseOrTerminating),
                   text("Volume", "spec.volumeName"),
                   made("Capacity", claimCapacity),
                   made("Access Modes", claimAccessModes),
                   made("StorageClass", storageClassOf),
                   {.name = "VolumeAttributesClass",
                    .path = "spec.volumeAttributesClassName",
                    .otherwise = "<unset>"},
                   age(),
                   text("VolumeMode", "spec.volumeMode", "<unset>", 1)}},
      {.group = "",
       .version = "v1",
       .kind = "PersistentVolume",
       .plural = "persistentvolumes",
       .singular = "persistentvolume",
       .namespaced = false,
       .short_names = {"pv"},
       .subresources = {kStatus},
       .columns = {name(),
                   made("Capacity", volumeCapacity),
                   made("Access Modes", volumeAccessModes),
                   text("Reclaim Policy", "spec.persistentVolumeReclaimPolicy"),
                   made("Status", phaseOrTerminating),
                   made("Claim", volumeClaim),
                   made("StorageClass", storageClassOf),
                   {.name = "VolumeAttributesClass",
                    .path = "spec.volumeAttributesClassName",
                    .otherwise = "<unset>"},
                   text("Reason", "status.reason"),
                   age(),
                   text("VolumeMode", "spec.volumeMode", "<unset>", 1)}},
      {.group = "",
       .version = "v1",
       .kind = "Pod",
       .plural = "pods",
       .singular = "pod",
       .short_names = {"po"},
       .categories = {"all"},
       .subresources = {{"attach", "create,get", "PodAttachOptions"},
                        {"binding", "create", "Binding"},
                        {"ephemeralcontainers", "get,patch,update"},
                        {"eviction", "create", "Eviction", "policy", "v1"},
                        {"exec", "create,get", "PodExecOptions"},
                        {"log", "get"},
                        {"portforward", "create,get", "PodPortForwardOptions"},
                        {"proxy", "create,delete,get,patch,update", "PodProxyOptions"},
                        {"resize", "get,patch,update"},
                        kStatus},
       .generation = Generation::Spec,
       .columns = {name(), made("Ready", podReady), made("Status", podStatus),
                   made("Restarts", podRestarts), age(), made("IP", podIp, 1),
                   text("Node", "spec.nodeName", "<none>", 1),
                   text("Nominated Node", "status.nominatedNodeName", "<none>", 1),
                   made("Readiness Gates", podReadinessGates, 1)}},
      {.group = "",
       .version = "v1",
       .kind = "PodTemplate",
       .plural = "podtemplates",
       .singular = "podtemplate",
       .generation = Generation::AllButMetadata,
       .columns = {name(), containers("template.spec.containers", 0),
                   images("template.spec.containers", 0),
                   labels("Pod Labels", "template.metadata.labels")}},
      {.group = "",
       .version = "v1",
       .kind = "ReplicationController",
       .plural = "replicationcontrollers",
       .singular = "replicationcontroller",
       .short_names = {"rc"},
       .categories = {"all"},
       .subresources = {kScale, kStatus},
       .generation = Generation::Spec,
       .columns = {name(), number("Desired", "spec.replicas"), number("Current", "status.replicas"),
                   number("Ready", "status.readyReplicas"), age(), containers(kTemplated),
                   images(kTemplated), labels("Selector", "spec.selector", 1)}},
      {.group = "",
       .version = "v1",
       .kind = "ResourceQuota",
       .plural = "resourcequotas",
       .singular = "resourcequota",
       .short_names = {"quota"},
       .subresources = {kStatus},
       .columns = {name(), made("Request", quotaRequests), made("Limit", quotaLimits), age()}},
      {.group = "",
       .version = "v1",
       .kind = "Secret",
       .plural = "secrets",
       .singular = "secret",
       .columns = {name(), text("Type", "type"), count("Data", "data"), age()}},
      {.group = "",
       .version = "v1",
       .kind = "ServiceAccount",
       .plural = "serviceaccounts",
       .singular = "serviceaccount",
       .short_names = {"sa"},
       .subresources = {{"token", "create", "TokenRequest", "authentication.k8s.io", "v1"}},
       .columns = {name(), count("Secrets", "secrets"), age()}},
      {.group = "",
       .version = "v1",
       .kind = "Service",
       .plural = "services",
       .singular = "service",
       .short_names = {"svc"},
       .categories = {"all"},
       .subresources = {{"proxy", "create,delete,get,patch,update", "ServiceProxyOptions"},
                        kStatus},
       .columns = {name(), text("Type", "spec.type"), made("Cluster-IP", serviceClusterIp),
                   made("External-IP", serviceExternalIp), made("Port(s)", servicePorts), age(),
                   labels("Selector", "spec.selector", 1)}},
  };
}

std::vector<BuiltIn> workloadKinds() {
  return {
      {.group = "apps",
       .version = "v1",
       .kind = "ControllerRevision",
       .plural = "controllerrevisions",
       .singular = "controllerrevision",
       .columns = {name(), made("Controller", controllerName),
                   number("Revision", "revision", "string"), age()}},
      {.group = "apps",
       .version = "v1",
       .kind = "DaemonSet",
       .plural = "daemonsets",
       .singular = "daemonset",
       .short_names = {"ds"},
       .categories = {"all"},
       .subresources = {kStatus},
       .generation = Generation::Spec,
       .columns = {name(), number("Desired", "status.desiredNumberScheduled"),
                   number("Current", "status.currentNumberScheduled"),
                   number("Ready", "status.numberReady"),
                   number("Up-to-date", "status.updatedNumberScheduled"),
                   number("Available", "status.numberAvailable"),
                   labels("Node Selector", "spec.template.spec.nodeSelector"), age(),
                   containers(kTemplated), images(kTemplated), selector("spec.selector")}},
      {.group = "apps",
       .version = "v1",
       .kind = "Deployment",
       .plural = "deployments",
       .singular = "deployment",
       .short_names = {"deploy"},
       .categories = {"all"},
       .subresources = {kScale, kStatus},
       .generation = Generation::SpecOrAnnotations,
       .columns = {name(), made("Ready", replicasReady),
                   number("Up-to-date", "status.updatedReplicas", "string"),
                   number("Available", "status.availableReplicas", "string"), age(),
                   containers(kTemplated), images(kTemplated), made("Selector", plainSelector, 1)}},
      {.group = "apps",
       .version = "v1",
       .kind = "ReplicaSet",
       .plural = "replicasets",
       .singular = "replicaset",
       .short_names = {"rs"},
       .categories = {"all"},
       .subresources = {kScale, kStatus},
       .generation = Generation::Spec,
       .columns = {name(), number("Desired", "spec.replicas"), number("Current", "status.replicas"),
                   number("Ready", "status.readyReplicas"), age(), containers(kTemplated),
                   images(kTemplated), selector("spec.selector")}},
      {.group = "apps",
       .version = "v1",
       .kind = "StatefulSet",
       .plural = "statefulsets",
       .singular = "statefulset",
       .short_names = {"sts"},
       .categories = {"all"},
       .subresources = {kScale, kStatus},
       .generation = Generation::Spec,
       .columns = {name(), made("Ready", replicasReady), age(), containers(kTemplated),
                   images(kTemplated)}},
      {.group = "batch",
       .version = "v1",
       .kind = "CronJob",
       .plural = "cronjobs",
       .singular = "cronjob",
       .short_names = {"cj"},
       .categories = {"all"},
       .subresources = {kStatus},
       .generation = Generation::Spec,
       .columns = {name(),
                   text("Schedule", "spec.schedule"),
                   {.name = "Timezone", .path = "spec.timeZone", .otherwise = "<none>"},
                   {.name = "Suspend",
                    .type = "boolean",
                    .show = Show::Function,
                    .cell = cronJobSuspended},
                   count("Active", "status.active", "integer"),
                   since("Last Schedule", "status.lastScheduleTime", "<none>"),
                   age(),
                   containers("spec.jobTemplate.spec.template.spec.containers"),
                   images("spec.jobTemplate.spec.template.spec.containers"),
                   selector("spec.jobTemplate.spec.selector")}},
      {.group = "batch",
       .version = "v1",
       .kind = "Job",
       .plural = "jobs",
       .singular = "job",
       .categories = {"all"},
       .subresources = {kStatus},
       .generation = Generation::Spec,
       .columns = {name(), made("Status", jobStatus), made("Completions", jobCompletions),
                   made("Duration", jobDuration), age(), containers(kTemplated), images(kTemplated),
                   selector("spec.selector")}},
  };
}

std::vector<BuiltIn> otherKinds() {
  constexpr std::string_view kRbac = "rbac.authorization.k8s.io";
  constexpr std::string_view kStorage = "storage.k8s.io";
  constexpr std::string_view kAdmission = "admissionregistration.k8s.io";
  return {
      {.group = "networking.k8s.io",
       .version = "v1",
       .kind = "IngressClass",
       .plural = "ingressclasses",
       .singular = "ingressclass",
       .namespaced = false,
       .generation = Generation::Spec,
       .columns = {name(), text("Controller", "spec.controller"),
                   made("Parameters", ingressClassParameters), age()}},
      {.group = "networking.k8s.io",
       .version = "v1",
       .kind = "Ingress",
       .plural = "ingresses",
       .singular = "ingress",
       .short_names = {"ing"},
       .subresources = {kStatus},
       .generation = Generation::Spec,
       .columns = {name(),
                   {.name = "Class", .path = "spec.ingressClassName", .otherwise = "<none>"},
                   made("Hosts", ingressHosts),
                   made("Address", ingressAddress),
                   made("Ports", ingressPorts),
                   age()}},
      {.group = "networking.k8s.io",
       .version = "v1",
       .kind = "NetworkPolicy",
       .plural = "networkpolicies",
       .singular = "networkpolicy",
       .short_names = {"netpol"},
       .generation = Generation::Spec,
       .columns = {name(), selector("spec.podSelector", "Pod-Selector", 0), age()}},
      {.group = kRbac,
       .version = "v1",
       .kind = "ClusterRoleBinding",
       .plural = "clusterrolebindings",
       .singular = "clusterrolebinding",
       .namespaced = false,
       .columns = bindingColumns()},
      {.group = kRbac,
       .version = "v1",
       .kind = "ClusterRole",
       .plural = "clusterroles",
       .singular = "clusterrole",
       .namespaced = false,
       .columns = plainColumns()},
      {.group = kRbac,
       .version = "v1",
       .kind = "RoleBinding",
       .plural = "rolebindings",
       .singular = "rolebinding",
       .columns = bindingColumns()},
      {.group = kRbac,
       .version = "v1",
       .kind = "Role",
       .plural = "roles",
       .singular = "role",
       .columns = plainColumns()},
      {.group = "policy",
       .version = "v1",
       .kind = "PodDisruptionBudget",
       .plural = "poddisruptionbudgets",
       .singular = "poddisruptionbudget",
       .short_names = {"pdb"},
       .subresources = {kStatus},
       .generation = Generation::Spec,
       .columns = {name(), made("Min Available", budgetMinimum),
                   made("Max Unavailable", budgetMaximum),
                   number("Allowed Disruptions", "status.disruptionsAllowed"), age()}},
      {.group = "autoscaling",
       .version = "v1",
       .kind = "HorizontalPodAutoscaler",
       .plural = "horizontalpodautoscalers",
       .singular = "horizontalpodautoscaler",
       .short_names = {"hpa"},
       .categories = {"all"},
       .subresources = {kStatus},
       .columns = autoscalerColumns()},
      {.group = "autoscaling",
       .version = "v2",
       .kind = "HorizontalPodAutoscaler",
       .plural = "horizontalpodautoscalers",
       .singular = "horizontalpodautoscaler",
       .short_names = {"hpa"},
       .categories = {"all"},
       .subresources = {kStatus},
       .columns = autoscalerColumns()},
      {.group = "coordination.k8s.io",
       .version = "v1",
       .kind = "Lease",
       .plural = "leases",
       .singular = "lease",
       .columns = {name(), text("Holder", "spec.holderIdentity"), age()}},
      {.group = "discovery.k8s.io",
       .version = "v1",
       .kind = "EndpointSlice",
       .plural = "endpointslices",
       .singular = "endpointslice",
       .generation = Generation::AllButMetadataOrLabels,
       .columns = {name(), text("AddressType", "addressType"), made("Ports", slicePorts),
                   made("Endpoints", sliceEndpoints), age()}},
      {.group = "events.k8s.io",
       .version = "v1",
       .kind = "Event",
       .plural = "events",
       .singular = "event",
       .short_names = {"ev"},
       .columns = eventColumns()},
      {.group = kStorage,
       .version = "v1",
       .kind = "CSIDriver",
       .plural = "csidrivers",
       .singular = "csidriver",
       .namespaced = false,
       .generation = Generation::SpecFromNone,
       .columns = {name(), flag("AttachRequired", "spec.attachRequired", true),
                   flag("PodInfoOnMount", "spec.podInfoOnMount", false),
                   flag("StorageCapacity", "spec.storageCapacity", false),
                   made("TokenRequests", driverTokenRequests),
                   flag("RequiresRepublish", "spec.requiresRepublish", false),
                   made("Modes", driverModes), age()}},
      {.group = kStorage,
       .version = "v1",
       .kind = "CSINode",
       .plural = "csinodes",
       .singular = "csinode",
       .namespaced = false,
       .columns = {name(), count("Drivers", "spec.drivers", "integer"), age()}},
      {.group = kStorage,
       .version = "v1",
       .kind = "StorageClass",
       .plural = "storageclasses",
       .singular = "storageclass",
       .namespaced = false,
       .short_names = {"sc"},
       .columns =
           {{.name = "Name", .format = "name", .show = Show::Function, .cell = storageClassName},
            text("Provisioner", "provisioner"),
            text("ReclaimPolicy", "reclaimPolicy", "Delete"),
            text("VolumeBindingMode", "volumeBindingMode", "Immediate"),
            flag("AllowVolumeExpansion", "allowVolumeExpansion", false, "string"),
            age()}},
      {.group = kStorage,
       .version = "v1",
       .kind = "VolumeAttachment",
       .plural = "volumeattachments",
       .singular = "volumeattachment",
       .namespaced = false,
       .subresources = {kStatus},
       .columns = {name(),
                   {.name = "Attacher", .format = "name", .path = "spec.attacher"},
                   text("PV", "spec.source.persistentVolumeName"),
                   text("Node", "spec.nodeName"),
                   flag("Attached", "status.attached", false),
                   age()}},
      {.group = "scheduling.k8s.io",
       .version = "v1",
       .kind = "PriorityClass",
       .plural = "priorityclasses",
       .singular = "priorityclass",
       .namespaced = false,
       .short_names = {"pc"},
       .generation = Generation::First,
       .columns = {name(), number("Value", "value"), flag("Global-Default", "globalDefault", false),
                   age(), text("PreemptionPolicy", "preemptionPolicy")}},
      {.group = "node.k8s.io",
       .version = "v1",
       .kind = "RuntimeClass",
       .plural = "runtimeclasses",
       .singular = "runtimeclass",
       .namespaced = false,
       .columns = {name(), text("Handler", "handler"), age()}},
      {.group = kAdmission,
       .version = "v1",
       .kind = "MutatingWebhookConfiguration",
       .plural = "mutatingwebhookconfigurations",
       .singular = "mutatingwebhookconfiguration",
       .namespaced = false,
       .categories = {"api-extensions"},
       .generation = Generation::AllButMetadata,
       .columns = {name(), count("Webhooks", "webhooks", "integer"), age()}},
      {.group = kAdmission,
       .version = "v1",
       .kind = "ValidatingWebhookConfiguration",
       .plural = "validatingwebhookconfigurations",
       .singular = "validatingwebhookconfiguration",
       .namespaced = false,
       .categories = {"api-extensions"},
       .generation = Generation::AllButMetadata,
       .columns = {name(), count("Webhooks", "webhooks", "integer"), age()}},
      {.group = "apiextensions.k8s.io",
       .version = "v1",
       .kind = "CustomResourceDefinition",
       .plural = "customresourcedefinitions",
       .singular = "customresourcedefinition",
       .namespaced = false,
       .short_names = {"crd", "crds"},
       .categories = {"api-extensions"},
       .subresources = {kStatus},
       .generation = Generation::Spec,
       .columns = plainColumns()},
  };
}

std::vector<BuiltIn> questions() {
  auto question = [](std::string_view group, std::string_view kind, std::string_view plural,
                     bool namespaced = false) {
    return BuiltIn{.group = group,
                   .version = "v1",
                   .kind = kind,
                   .plural = plural,
                   .singular = plural.substr(0, plural.size() - 1),
                   .namespaced = namespaced,
                   .columns = plainColumns(),
                   .is_question = true};
  };
  return {question("authentication.k8s.io", "TokenReview", "tokenreviews"),
          question("authentication.k8s.io", "SelfSubjectReview", "selfsubjectreviews"),
          question("authorization.k8s.io", "SubjectAccessReview", "subjectaccessreviews"),
          question("authorization.k8s.io", "LocalSubjectAccessReview", "localsubjectaccessreviews",
                   true),
          question("authorization.k8s.io", "SelfSubjectAccessReview", "selfsubjectaccessreviews"),
          question("authorization.k8s.io", "SelfSubjectRulesReview", "selfsubjectrulesreviews")};
}

}  // namespace

kube::Resource BuiltIn::resource() const {
  return {.group = std::string(group),
          .version = std::string(version),
          .plural = std::string(plural),
          .kind = std::string(kind),
          .namespaced = namespaced};
}

const Subresource* BuiltIn::subresource(std::string_view name) const {
  auto found = std::ranges::find(subresources, name, &Subresource::name);
  return found == subresources.end() ? nullptr : &*found;
}

std::vector<std::string_view> BuiltIn::verbs() const {
  std::vector<std::string_view> all = {"create", "delete", "deletecollection", "get",
                                       "list",   "patch",  "update",           "watch"};
  if (is_question) all = {"create"};
  if (!delete_collection) std::erase(all, "deletecollection");
  return all;
}

const std::vector<BuiltIn>& builtIns() {
  static const std::vector<BuiltIn> kAll = [] {
    std::vector<BuiltIn> all = coreKinds();
    for (auto more : {workloadKinds(), otherKinds(), questions()})
      all.insert(all.end(), more.begin(), more.end());
    std::ranges::sort(all, {}, [](const BuiltIn& kind) {
      return std::tuple(kind.group, kind.version, kind.plural);
    });
    return all;
  }();
  return kAll;
}

const BuiltIn* findBuiltIn(std::string_view group, std::string_view version,
                           std::string_view kind) {
  for (const BuiltIn& row : builtIns())
    if (row.kind == kind && row.group == group && row.version == version) return &row;
  return nullptr;
}

}  // namespace cadre::hub
