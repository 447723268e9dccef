#include "hub/builtin_kind.h"

#include <algorithm>
#include <map>

#include "hub/builtin_defaults.h"
#include "hub/builtin_types.h"
#include "hub/builtin_validate.h"
#include "hub/definition.h"

namespace cadre::hub {
namespace {

constexpr std::string_view kUpdateCreates[] = {"endpoints",
                                               "events",
                                               "limitranges",
                                               "services",
                                               "coordination.k8s.io/leases",
                                               "events.k8s.io/events",
                                               "node.k8s.io/runtimeclasses",
                                               "rbac.authorization.k8s.io/clusterrolebindings",
                                               "rbac.authorization.k8s.io/clusterroles",
                                               "rbac.authorization.k8s.io/rolebindings",
                                               "rbac.authorization.k8s.io/roles"};

constexpr std::string_view kNeedVersion[] = {
    "admissionregistration.k8s.io/mutatingwebhookconfigurations",
    "admissionregistration.k8s.io/validatingwebhookconfigurations",
    "apiextensions.k8s.io/customresourcedefinitions",
    "coordination.k8s.io/leases",
    "node.k8s.io/runtimeclasses",
    "policy/poddisruptionbudgets",
    "storage.k8s.io/csidrivers",
    "storage.k8s.io/csinodes",
    "storage.k8s.io/volumeattachments"};
constexpr std::string_view kShowDeleted[] = {"persistentvolumeclaims",
                                             "persistentvolumes",
                                             "pods",
                                             "podtemplates",
                                             "resourcequotas",
                                             "serviceaccounts",
                                             "services",
                                             "storage.k8s.io/csidrivers",
                                             "storage.k8s.io/csinodes",
                                             "storage.k8s.io/storageclasses",
                                             "storage.k8s.io/volumeattachments"};
constexpr std::string_view kOrphan[] = {"batch/jobs", "replicationcontrollers"};

class BuiltInKind : public Kind {
 public:
  explicit BuiltInKind(const BuiltIn& row) : row_(row) {
    resource = row.resource();
    singular = row.singular;
    short_names.assign(row.short_names.begin(), row.short_names.end());
    categories.assign(row.categories.begin(), row.categories.end());
    storage = row.group.empty() ? resource.plural : resource.group + "/" + resource.plural;
    stored_version = resource.version;
    has_status = row.hasStatus();
    has_scale = row.hasScale();
    for (std::string_view verb : row.verbs()) verbs.emplace_back(verb);
    auto isOneOf = [this](const auto& list) {
      return std::ranges::find(list, storage) != std::end(list);
    };
    update_creates = isOneOf(kUpdateCreates);
    needs_version = isOneOf(kNeedVersion);
    shows_deleted = isOneOf(kShowDeleted);
    orphans = isOneOf(kOrphan);
    if (storage == "endpoints")
      deprecation = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice";
  }

  std::vector<std::string> unknownFields(const json::Value& object) const override {
    return hub::unknownFields(row_, object);
  }
  json::Value pruned(json::Value object) const override { return typed(row_, std::move(object)); }
  std::optional<std::string> undecodable(const json::Value& object) const override {
    auto result = decodable(row_, object);
    if (result) return std::nullopt;
    return result.error().text();
  }
  void setDefaults(json::Value& object) const override {
    hub::setDefaults(row_, object);
    object = typed(row_, std::move(object));
  }
  void prepareForCreate(json::Value& object) const override {
    hub::prepareForCreate(row_, object);
    object = typed(row_, std::move(object));
  }
  void prepareForUpdate(json::Value& object, const json::Value& old) const override {
    hub::prepareForUpdate(row_, object, old);
    object = typed(row_, std::move(object));
  }
  void prepareForStatusUpdate(json::Value& object, const json::Value& old) const override {
    hub::prepareForStatusUpdate(row_, object, old);
    object = typed(row_, std::move(object));
  }
  std::vector<kube::FieldError> validate(const json::Value& object, const json::Value& old,
                                         bool) const override {
    return validateBuiltIn(row_, object, old.isNull() ? nullptr : &old);
  }
  std::vector<std::string> warnings(const json::Value& object) const override {
    const json::Value& spec = object["spec"];
    if (storage == "services" && spec["type"].string() != "ExternalName" &&
        !spec["externalName"].string().empty())
      return {"spec.externalName is ignored when spec.type is not \"ExternalName\""};
    return {};
  }
  kube::Type type() const override { return row_.type(); }
  std::vector<Selectable> selectable() const override {
    static const std::map<std::string_view, std::vector<Selectable>> kFields{
        {"pods",
         {{"spec.nodeName"},
          {"spec.restartPolicy"},
          {"spec.schedulerName"},
          {"spec.serviceAccountName"},
          {.path = "spec.hostNetwork", .empty = "false"},
          {"status.phase"},
          {"status.podIP"},
          {"status.nominatedNodeName"}}},
        {"events",
         {{"involvedObject.kind"},
          {"involvedObject.namespace"},
          {"involvedObject.name"},
          {"involvedObject.uid"},
          {"involvedObject.apiVersion"},
          {"involvedObject.resourceVersion"},
          {"involvedObject.fieldPath"},
          {"reason"},
          {"reportingComponent"},
          {.path = "source", .place = "source.component"},
          {"type"}}},
        {"events.k8s.io/events",
         {{"regarding.kind"},
          {"regarding.namespace"},
          {"regarding.name"},
          {"regarding.uid"},
          {"regarding.apiVersion"},
          {"regarding.resourceVersion"},
          {"regarding.fieldPath"},
          {"reason"},
          {"reportingController"},
          {"type"}}},
        {"secrets", {{"type"}}},
        {"namespaces", {{"status.phase"}}},
        {"nodes", {{.path = "spec.unschedulable", .empty = "false"}}},
        {"services", {{"spec.clusterIP"}, {"spec.type"}}},
        {"replicationcontrollers", {{"status.replicas"}}},
        {"apps/replicasets", {{"status.replicas"}}},
        {"batch/jobs", {{.path = "status.successful", .place = "status.succeeded", .empty = "0"}}}};
    auto found = kFields.find(storage);
    return found == kFields.end() ? std::vector<Selectable>() : found->second;
  }

  std::vector<Column> columns() const override {
    std::vector<Column> columns;
    columns.reserve(row_.columns.size());
    for (const hub::Column& column : row_.columns)
      columns.push_back({.name = std::string(column.name),
                         .type = std::string(column.type),
                         .format = std::string(column.format),
                         .description = std::string(column.name),
                         .priority = column.priority});
    return columns;
  }
  json::Array cells(const json::Value& object, Time now) const override {
    return hub::cells(row_, object, now);
  }
  json::Array rowConditions(const json::Value& object) const override {
    return hub::rowConditions(row_, object);
  }

 private:
  const BuiltIn& row_;
};

// A definition of other kinds has more to it than its types.
class DefinitionKind final : public BuiltInKind {
 public:
  using BuiltInKind::BuiltInKind;

  void prepareForCreate(json::Value& object) const override {
    BuiltInKind::prepareForCreate(object);
    object = defaulted(std::move(object));
  }
  void prepareForUpdate(json::Value& object, const json::Value& old) const override {
    BuiltInKind::prepareForUpdate(object, old);
    object = defaulted(std::move(object), old);
  }
};

}  // namespace

std::vector<KindRef> servedBuiltIns() {
  std::vector<KindRef> kinds;
  for (const BuiltIn& row : builtIns())
    if (row.kind == "CustomResourceDefinition") {
      kinds.push_back(std::make_shared<DefinitionKind>(row));
    } else {
      kinds.push_back(std::make_shared<BuiltInKind>(row));
    }
  return kinds;
}

}  // namespace cadre::hub
