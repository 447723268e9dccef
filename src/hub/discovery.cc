#include "hub/discovery.h"

#include "base/format.h"

namespace cadre::hub {
namespace {

const json::Array kVerbs{"create", "delete", "deletecollection", "get",
                         "list",   "patch",  "update",           "watch"};
const json::Array kPartVerbs{"get", "patch", "update"};

std::string versionName(const Kinds::Group& group, const Kinds::Version& version) {
  return group.name.empty() ? version.name : group.name + "/" + version.name;
}

json::Array texts(const std::vector<std::string>& list) {
  json::Array array;
  for (const std::string& text : list) array.emplace_back(text);
  return array;
}

// A part of an object that has a path of its own.
struct Part {
  std::string name, group, version, kind;
  json::Array verbs;
};

std::vector<Part> partsOf(const Kind& kind, const DiscoveryOptions& options) {
  std::vector<Part> parts;
  if (kind.has_scale) parts.push_back({"scale", "autoscaling", "v1", "Scale", kPartVerbs});
  if (kind.storage == "namespaces")
    parts.push_back({"finalize", "", "", kind.resource.kind, {"update"}});
  if (kind.storage == "serviceaccounts")
    parts.push_back({"token", "authentication.k8s.io", "v1", "TokenRequest", {"create"}});
  if (kind.storage == "pods") {
    if (options.has_node)
      parts.push_back({"attach", "", "", "PodAttachOptions", {"create", "get"}});
    parts.push_back({"binding", "", "", "Binding", {"create"}});
    if (options.has_node) {
      parts.push_back({"exec", "", "", "PodExecOptions", {"create", "get"}});
      parts.push_back({"log", "", "", kind.resource.kind, {"get"}});
      parts.push_back({"portforward", "", "", "PodPortForwardOptions", {"create", "get"}});
    }
  }
  if (kind.has_status) parts.push_back({"status", "", "", kind.resource.kind, kPartVerbs});
  return parts;
}

}  // namespace

json::Value coreVersions() {
  return json::Object{{"kind", "APIVersions"},
                      {"versions", json::Array{"v1"}},
                      {"serverAddressByClientCIDRs", json::Array{}}};
}

json::Value groupOf(const Kinds::Group& group) {
  json::Array versions;
  for (const Kinds::Version& version : group.versions)
    versions.push_back(
        json::Object{{"groupVersion", versionName(group, version)}, {"version", version.name}});
  json::Value preferred = versions.at(0);
  return json::Object{{"kind", "APIGroup"},
                      {"apiVersion", "v1"},
                      {"name", group.name},
                      {"versions", std::move(versions)},
                      {"preferredVersion", std::move(preferred)}};
}

json::Value groupList(const Kinds& kinds) {
  json::Array groups;
  for (const Kinds::Group& group : kinds.groups()) {
    if (group.name.empty()) continue;
    json::Value one = groupOf(group);
    for (std::string_view field : {"kind", "apiVersion"}) one.makeObject().erase(field);
    groups.push_back(std::move(one));
  }
  return json::Object{
      {"kind", "APIGroupList"}, {"apiVersion", "v1"}, {"groups", std::move(groups)}};
}

json::Value resourceList(const Kinds::Group& group, const Kinds::Version& version,
                         const DiscoveryOptions& options) {
  json::Array resources;
  for (const auto& [plural, kind] : version.kinds) {
    json::Object one{{"name", plural},
                     {"singularName", kind->singular},
                     {"namespaced", kind->resource.namespaced},
                     {"kind", kind->resource.kind},
                     {"verbs", kind->verbs.empty() ? kVerbs : texts(kind->verbs)}};
    if (!kind->short_names.empty()) one.set("shortNames", texts(kind->short_names));
    if (!kind->categories.empty()) one.set("categories", texts(kind->categories));
    resources.push_back(std::move(one));
    for (const Part& part : partsOf(*kind, options)) {
      json::Object sub{{"name", plural + "/" + part.name},
                       {"singularName", ""},
                       {"namespaced", kind->resource.namespaced},
                       {"kind", part.kind},
                       {"verbs", part.verbs}};
      if (!part.group.empty()) {
        sub.set("group", part.group);
        sub.set("version", part.version);
      }
      resources.push_back(std::move(sub));
    }
  }
  return json::Object{{"kind", "APIResourceList"},
                      {"apiVersion", "v1"},
                      {"groupVersion", versionName(group, version)},
                      {"resources", std::move(resources)}};
}

json::Value aggregated(const Kinds& kinds, bool core, const DiscoveryOptions& options) {
  json::Array items;
  for (const Kinds::Group& group : kinds.groups()) {
    if (group.name.empty() != core) continue;
    json::Array versions;
    for (const Kinds::Version& version : group.versions) {
      json::Array resources;
      for (const auto& [plural, kind] : version.kinds) {
        json::Array parts;
        for (const Part& part : partsOf(*kind, options))
          parts.push_back(json::Object{
              {"subresource", part.name},
              {"responseKind",
               json::Object{{"group", part.group}, {"version", part.version}, {"kind", part.kind}}},
              {"verbs", part.verbs}});
        json::Object one{
            {"resource", plural},
            {"responseKind",
             json::Object{{"group", ""}, {"version", ""}, {"kind", kind->resource.kind}}},
            {"scope", kind->resource.namespaced ? "Namespaced" : "Cluster"},
            {"singularResource", kind->singular},
            {"verbs", kind->verbs.empty() ? kVerbs : texts(kind->verbs)}};
        if (!kind->short_names.empty()) one.set("shortNames", texts(kind->short_names));
        if (!kind->categories.empty()) one.set("categories", texts(kind->categories));
        if (!parts.empty()) one.set("subresources", std::move(parts));
        resources.push_back(std::move(one));
      }
      versions.push_back(json::Object{{"version", version.name},
                                      {"resources", std::move(resources)},
                                      {"freshness", "Current"}});
    }
    json::Object metadata;
    if (!core) metadata.set("name", group.name);
    items.push_back(
        json::Object{{"metadata", std::move(metadata)}, {"versions", std::move(versions)}});
  }
  return json::Object{{"kind", "APIGroupDiscoveryList"},
                      {"apiVersion", "apidiscovery.k8s.io/v2"},
                      {"metadata", json::Object{}},
                      {"items", std::move(items)}};
}

}  // namespace cadre::hub
