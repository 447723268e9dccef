#include "engine/object.h"

#include <mutex>
#include <set>

namespace cadre::engine {

ResourceRef::ResourceRef(const kube::Resource& resource) {
  static std::mutex mutex;
  static std::set<kube::Resource> all;
  std::scoped_lock lock(mutex);
  at_ = &*all.insert(resource).first;
}

namespace {

std::vector<std::string> owners(const json::Value& object) {
  std::vector<std::string> found;
  if (auto marked = kube::label(object, kOwnerUid); !marked.empty()) found.emplace_back(marked);
  if (auto owner = kube::controllerOf(object); owner && (found.empty() || found[0] != owner->uid))
    found.emplace_back(owner->uid);
  return found;
}

}  // namespace

const Index kByOwner{"owner", owners};

std::string Ref::text() const { return resource->kind + " " + key.text(); }

bool belongsTo(const json::Value& object, std::string_view owner_uid) {
  if (owner_uid.empty()) return false;
  if (auto owner = kube::controllerOf(object)) return owner->uid == owner_uid;
  return kube::label(object, kOwnerUid) == owner_uid;
}

}  // namespace cadre::engine
