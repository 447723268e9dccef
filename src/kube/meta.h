#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "json/value.h"

namespace cadre::kube {

// What an object is, where it lives, and what its metadata says. Plain values and pure functions.

struct GroupVersionKind {
  std::string group;  // empty for the core group
  std::string version;
  std::string kind;

  // From the two fields of an object: ("apps/v1", "Deployment"). InvalidArgument when the version
  // or the kind is missing, or when there is more than one slash.
  static Result<GroupVersionKind> parse(std::string_view api_version, std::string_view kind);
  // The same from the object itself.
  static Result<GroupVersionKind> of(const json::Value& object);

  std::string apiVersion() const;  // "apps/v1", "v1"
  std::string text() const;        // "apps/v1 Deployment"

  auto operator<=>(const GroupVersionKind&) const = default;
};

// A kind as the API serves it: the part of a URL that it stands behind.
struct Resource {
  std::string group;  // empty for the core group
  std::string version;
  std::string plural;  // "deployments"
  std::string kind;
  bool namespaced = true;

  // "/apis/apps/v1/namespaces/x/deployments/y/status", "/api/v1/nodes/y". Without a namespace all
  // of them, without a name the collection. The namespace of what is not namespaced is passed over.
  // Every segment is encoded, also "." and "..", so that no name reaches another path; a
  // subresource may have several ("proxy/metrics").
  std::string path(std::string_view ns = {}, std::string_view name = {},
                   std::string_view subresource = {}) const;
  std::string apiVersion() const;
  GroupVersionKind gvk() const { return {group, version, kind}; }

  auto operator<=>(const Resource&) const = default;
};

struct ObjectKey {
  std::string ns;  // empty for what is not namespaced
  std::string name;

  static ObjectKey of(const json::Value& object);
  std::string text() const;  // "ns/name", "name"

  auto operator<=>(const ObjectKey&) const = default;
};

// Readers over an object. They never fail: what is missing or of the wrong type reads as empty.
// Views and references point into the object and last as long as it stays unchanged.
std::string_view name(const json::Value& object);
std::string_view ns(const json::Value& object);
std::string_view uid(const json::Value& object);
std::string_view resourceVersion(const json::Value& object);
std::int64_t generation(const json::Value& object);  // 0 when there is none
const json::Object& labels(const json::Value& object);
const json::Object& annotations(const json::Value& object);
// The value of one; empty when there is none.
std::string_view label(const json::Value& object, std::string_view key);
std::string_view annotation(const json::Value& object, std::string_view key);
std::string_view deletionTimestamp(const json::Value& object);
bool isDeleting(const json::Value& object);  // it has a deletion timestamp
std::vector<std::string_view> finalizers(const json::Value& object);
bool hasFinalizer(const json::Value& object, std::string_view finalizer);

struct OwnerReference {
  std::string_view api_version;
  std::string_view kind;
  std::string_view name;
  std::string_view uid;
  bool controller = false;
  bool block_owner_deletion = false;

  bool operator==(const OwnerReference&) const = default;
};

std::vector<OwnerReference> ownerReferences(const json::Value& object);
// The owner that is marked as the controller; the first if there are several.
std::optional<OwnerReference> controllerOf(const json::Value& object);

// Which of two resource versions of the same resource is newer. They are opaque, but servers of
// today write decimal numbers of any length, and Kubernetes has promised their order; nothing for
// all others ("", "0", leading zeros), of which only equality may be asked.
std::optional<std::strong_ordering> compareResourceVersions(std::string_view a, std::string_view b);

}  // namespace cadre::kube
