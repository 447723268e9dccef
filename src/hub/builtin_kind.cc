#include "hub/builtin_kind.h"

#include <algorithm>

#include "hub/builtin_types.h"

namespace cadre::hub {
namespace {

class BuiltInKind final : public Kind {
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
  }

  std::vector<std::string> unknownFields(const json::Value& object) const override {
    return hub::unknownFields(row_, object);
  }
  json::Value pruned(json::Value object) const override { return typed(row_, object); }
  std::optional<std::string> undecodable(const json::Value& object) const override {
    auto result = decodable(row_, object);
    if (result) return std::nullopt;
    return result.error().text();
  }
  void setDefaults(json::Value&) const override {}
  std::vector<kube::FieldError> validate(const json::Value&, const json::Value&,
                                         bool) const override {
    return {};
  }
  bool hasGeneration() const override { return row_.generation != Generation::Never; }
  bool isNewGeneration(const json::Value& before, const json::Value& after) const override {
    auto differs = [&](std::string_view field) { return before[field] != after[field]; };
    const json::Value &old = before["metadata"], &now = after["metadata"];
    switch (row_.generation) {
      case Generation::Never:
      case Generation::First:
        return false;
      case Generation::Spec:
        return differs("spec");
      case Generation::SpecOrAnnotations:
        return differs("spec") || old["annotations"] != now["annotations"];
      case Generation::AllButMetadata:
        return others(before) != others(after);
      case Generation::AllButMetadataOrLabels:
        return others(before) != others(after) || old["labels"] != now["labels"];
    }
    return false;
  }
  kube::Type type() const override { return row_.type(); }
  bool selectable(std::string_view path) const override {
    struct Selectable {
      std::string_view storage, path;
    };
    static constexpr Selectable kPaths[] = {{"pods", "spec.nodeName"},
                                            {"pods", "status.phase"},
                                            {"pods", "spec.restartPolicy"},
                                            {"pods", "spec.serviceAccountName"},
                                            {"pods", "spec.schedulerName"},
                                            {"pods", "status.podIP"},
                                            {"pods", "spec.hostNetwork"},
                                            {"pods", "status.nominatedNodeName"},
                                            {"secrets", "type"},
                                            {"namespaces", "status.phase"},
                                            {"nodes", "spec.unschedulable"},
                                            {"services", "spec.clusterIP"},
                                            {"services", "spec.type"},
                                            {"batch/jobs", "status.successful"},
                                            {"apps/replicasets", "status.replicas"}};
    if (storage == "events" || storage == "events.k8s.io/events")
      return path.starts_with("involvedObject.") || path == "reason" || path == "type" ||
             path == "reportingComponent" || path == "source" || path.starts_with("regarding.");
    return std::ranges::any_of(
        kPaths, [&](const auto& one) { return one.storage == storage && one.path == path; });
  }

  std::vector<Column> columns() const override {
    std::vector<Column> columns;
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

 private:
  static json::Value others(json::Value object) {
    for (std::string_view field : {"metadata", "status"}) object.makeObject().erase(field);
    return object;
  }

  const BuiltIn& row_;
};

}  // namespace

std::vector<KindRef> servedBuiltIns() {
  std::vector<KindRef> kinds;
  for (const BuiltIn& row : builtIns()) kinds.push_back(std::make_shared<BuiltInKind>(row));
  return kinds;
}

}  // namespace cadre::hub
