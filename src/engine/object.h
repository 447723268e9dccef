#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "json/value.h"
#include "kube/meta.h"

namespace cadre::engine {

// A resource by a pointer: there are few of them, and many references to their objects. Kept for
// ever. Compared as the resources are.
class ResourceRef {
 public:
  ResourceRef() : ResourceRef(kube::Resource()) {}
  ResourceRef(const kube::Resource& resource);             // NOLINT(google-explicit-constructor)
  operator const kube::Resource&() const { return *at_; }  // NOLINT(google-explicit-constructor)
  const kube::Resource* operator->() const { return at_; }

  bool operator==(const ResourceRef& other) const { return at_ == other.at_; }
  bool operator==(const kube::Resource& other) const { return *at_ == other; }
  auto operator<=>(const ResourceRef& other) const {
    return at_ == other.at_ ? std::strong_ordering::equal : *at_ <=> *other.at_;
  }

 private:
  const kube::Resource* at_;
};

// One object of the cluster: what kind, and which.
struct Ref {
  ResourceRef resource;
  kube::ObjectKey key;

  std::string text() const;  // "Deployment shop/web"
  auto operator<=>(const Ref&) const = default;
};

// What a reader wants of an object. It is woken only when this changes. Pure.
struct View {
  std::string_view name;                       // for people: "spec"
  json::Value (*of)(const json::Value&) = {};  // none: the whole object, every change
};

inline constexpr View kWhole{"whole"};

// A way to find objects of a kind: the values that an object is found under. Pure.
struct Index {
  std::string_view name;
  std::vector<std::string> (*of)(const json::Value& object);
};

// The marks that every child carries.
inline constexpr std::string_view kManagedBy = "app.kubernetes.io/managed-by";
inline constexpr std::string_view kOwnerUid = "cadre.dev/owner-uid";
// What was last wanted: "c:HASH" when made by a POST, "a:HASH" when applied.
inline constexpr std::string_view kApplied = "cadre.dev/applied";
inline constexpr std::string_view kManager = "cadre";

// Objects by the uid of who owns them: by our mark, or by their controller.
extern const Index kByOwner;

// Whether the object was made for the owner, by us or by who was here before us.
bool belongsTo(const json::Value& object, std::string_view owner_uid);

}  // namespace cadre::engine
