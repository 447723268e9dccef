#include "kube/meta.h"

#include <algorithm>

#include "base/format.h"
#include "base/strings.h"

namespace cadre::kube {

namespace {

std::string joinVersion(std::string_view group, std::string_view version) {
  return group.empty() ? std::string(version) : format("{}/{}", group, version);
}

void appendSegment(std::string& path, std::string_view segment) {
  path += '/';
  if (segment == ".")
    path += "%2E";
  else if (segment == "..")
    path += "%2E%2E";
  else
    path += urlEncode(segment);
}

const json::Value& metadata(const json::Value& object) { return object["metadata"]; }

bool isNumeric(std::string_view version) {
  return !version.empty() && version[0] != '0' &&
         std::ranges::all_of(version, [](char c) { return c >= '0' && c <= '9'; });
}

OwnerReference readOwner(const json::Value& reference) {
  return {.api_version = reference["apiVersion"].string(),
          .kind = reference["kind"].string(),
          .name = reference["name"].string(),
          .uid = reference["uid"].string(),
          .controller = reference["controller"].boolean(),
          .block_owner_deletion = reference["blockOwnerDeletion"].boolean()};
}

}  // namespace

Result<GroupVersionKind> GroupVersionKind::parse(std::string_view api_version,
                                                 std::string_view kind) {
  auto bad = [](std::string message) {
    return Error{.code = Code::InvalidArgument, .message = std::move(message)};
  };
  if (api_version.empty()) return bad("apiVersion is missing: write it as \"apps/v1\" or \"v1\"");
  if (kind.empty()) return bad("kind is missing");
  std::size_t slash = api_version.find('/');
  bool has_group = slash != std::string_view::npos;
  std::string_view group = has_group ? api_version.substr(0, slash) : std::string_view();
  std::string_view version = has_group ? api_version.substr(slash + 1) : api_version;
  if (version.empty() || version.find('/') != std::string_view::npos ||
      (has_group && group.empty()))
    return bad(
        format("apiVersion \"{}\" must be a version such as \"v1\" or a group and a version "
               "such as \"apps/v1\"",
               shorten(api_version, 100)));
  return GroupVersionKind{std::string(group), std::string(version), std::string(kind)};
}

Result<GroupVersionKind> GroupVersionKind::of(const json::Value& object) {
  return parse(object["apiVersion"].string(), object["kind"].string());
}

std::string GroupVersionKind::apiVersion() const { return joinVersion(group, version); }
std::string GroupVersionKind::text() const { return apiVersion() + " " + kind; }

std::string Resource::path(std::string_view ns, std::string_view name,
                           std::string_view subresource) const {
  std::string path = group.empty() ? "/api" : "/apis";
  if (!group.empty()) appendSegment(path, group);
  appendSegment(path, version);
  if (namespaced && !ns.empty()) {
    path += "/namespaces";
    appendSegment(path, ns);
  }
  appendSegment(path, plural);
  if (!name.empty()) appendSegment(path, name);
  if (!subresource.empty())
    for (std::string_view part : split(subresource, '/')) appendSegment(path, part);
  return path;
}

std::string Resource::apiVersion() const { return joinVersion(group, version); }

ObjectKey ObjectKey::of(const json::Value& object) {
  return {std::string(kube::ns(object)), std::string(kube::name(object))};
}

std::string ObjectKey::text() const { return ns.empty() ? name : ns + "/" + name; }

std::string_view name(const json::Value& object) { return metadata(object)["name"].string(); }
std::string_view ns(const json::Value& object) { return metadata(object)["namespace"].string(); }
std::string_view uid(const json::Value& object) { return metadata(object)["uid"].string(); }
std::string_view resourceVersion(const json::Value& object) {
  return metadata(object)["resourceVersion"].string();
}
std::int64_t generation(const json::Value& object) {
  return metadata(object)["generation"].integer();
}
const json::Object& labels(const json::Value& object) {
  return metadata(object)["labels"].object();
}
const json::Object& annotations(const json::Value& object) {
  return metadata(object)["annotations"].object();
}
std::string_view label(const json::Value& object, std::string_view key) {
  return metadata(object)["labels"][key].string();
}
std::string_view annotation(const json::Value& object, std::string_view key) {
  return metadata(object)["annotations"][key].string();
}
std::string_view deletionTimestamp(const json::Value& object) {
  return metadata(object)["deletionTimestamp"].string();
}
bool isDeleting(const json::Value& object) { return !deletionTimestamp(object).empty(); }

std::vector<std::string_view> finalizers(const json::Value& object) {
  std::vector<std::string_view> out;
  for (const json::Value& finalizer : metadata(object)["finalizers"].array())
    if (!finalizer.string().empty()) out.push_back(finalizer.string());
  return out;
}

bool hasFinalizer(const json::Value& object, std::string_view finalizer) {
  return std::ranges::any_of(metadata(object)["finalizers"].array(), [&](const json::Value& one) {
    return one.isString() && one.string() == finalizer;
  });
}

std::vector<OwnerReference> ownerReferences(const json::Value& object) {
  std::vector<OwnerReference> out;
  for (const json::Value& reference : metadata(object)["ownerReferences"].array())
    if (reference.isObject()) out.push_back(readOwner(reference));
  return out;
}

std::optional<OwnerReference> controllerOf(const json::Value& object) {
  for (const json::Value& reference : metadata(object)["ownerReferences"].array())
    if (reference["controller"].boolean()) return readOwner(reference);
  return std::nullopt;
}

std::optional<std::strong_ordering> compareResourceVersions(std::string_view a,
                                                            std::string_view b) {
  if (!isNumeric(a) || !isNumeric(b)) return std::nullopt;
  if (a.size() != b.size()) return a.size() <=> b.size();
  return a <=> b;
}

}  // namespace cadre::kube
