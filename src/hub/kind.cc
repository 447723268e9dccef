#include "hub/kind.h"

#include <algorithm>
#include <tuple>

#include "base/strings.h"

namespace cadre::hub {
namespace {

std::tuple<int, std::int64_t, std::int64_t> rank(std::string_view version) {
  auto number = [&](std::size_t& at) {
    std::size_t begin = at;
    while (at < version.size() && version[at] >= '0' && version[at] <= '9') ++at;
    return parseInt(version.substr(begin, at - begin)).value_or(-1);
  };
  if (!version.starts_with('v')) return {0, 0, 0};
  std::size_t at = 1;
  std::int64_t major = number(at);
  if (major < 0) return {0, 0, 0};
  if (at == version.size()) return {3, major, 0};
  int stage = 0;
  for (auto [word, worth] : {std::pair("beta", 2), std::pair("alpha", 1)})
    if (version.substr(at).starts_with(word)) {
      stage = worth;
      at += std::string_view(word).size();
    }
  return {stage, major, number(at)};
}

}  // namespace

bool isPreferred(std::string_view version, std::string_view other) {
  return rank(version) > rank(other);
}

void Kind::prepareForCreate(json::Value& object) const {
  if (has_status) object.makeObject().erase("status");
  if (hasGeneration()) object.make("metadata").make("generation") = 1;
}

void Kind::prepareForUpdate(json::Value& object, const json::Value& old) const {
  if (has_status) {
    if (old["status"].isNull()) {
      object.makeObject().erase("status");
    } else {
      object.make("status") = old["status"];
    }
  }
  if (hasGeneration() && isNewGeneration(old, object))
    object.make("metadata").make("generation") = kube::generation(old) + 1;
}

void Kind::prepareForStatusUpdate(json::Value& object, const json::Value& old) const {
  json::Value status = object["status"], fields = object["metadata"]["managedFields"];
  object = old;
  if (status.isNull()) {
    object.makeObject().erase("status");
  } else {
    object.make("status") = std::move(status);
  }
  object.make("metadata").make("managedFields") = std::move(fields);
}

void Kinds::add(KindRef kind) {
  ++edition_;
  const kube::Resource& resource = kind->resource;
  if (kind->stored_version == resource.version) stored_[kind->storage] = kind;
  if (!kind->served) return;
  auto group = std::find_if(groups_.begin(), groups_.end(),
                            [&](const Group& one) { return one.name == resource.group; });
  if (group == groups_.end()) group = groups_.insert(groups_.end(), Group{resource.group, {}});
  auto& versions = group->versions;
  auto version = std::find_if(versions.begin(), versions.end(),
                              [&](const Version& one) { return one.name == resource.version; });
  if (version == versions.end()) {
    auto place = std::find_if(versions.begin(), versions.end(), [&](const Version& one) {
      return isPreferred(resource.version, one.name);
    });
    version = versions.insert(place, Version{resource.version, {}});
  }
  version->kinds[resource.plural] = std::move(kind);
}

void Kinds::remove(const std::string& storage) {
  ++edition_;
  stored_.erase(storage);
  for (Group& group : groups_) {
    for (Version& version : group.versions)
      std::erase_if(version.kinds, [&](const auto& one) { return one.second->storage == storage; });
    std::erase_if(group.versions, [](const Version& one) { return one.kinds.empty(); });
  }
  std::erase_if(groups_, [](const Group& one) { return one.versions.empty(); });
}

KindRef Kinds::find(std::string_view group, std::string_view version,
                    std::string_view plural) const {
  for (const Group& one : groups_)
    if (one.name == group)
      for (const Version& each : one.versions)
        if (each.name == version)
          if (auto found = each.kinds.find(std::string(plural)); found != each.kinds.end())
            return found->second;
  return nullptr;
}

KindRef Kinds::ofKind(std::string_view group, std::string_view version,
                      std::string_view kind) const {
  for (const Group& one : groups_)
    for (const Version& of : one.versions)
      if (one.name == group && of.name == version)
        for (const auto& [plural, found] : of.kinds)
          if (found->resource.kind == kind) return found;
  return nullptr;
}

KindRef Kinds::stored(std::string_view storage) const {
  auto found = stored_.find(storage);
  return found == stored_.end() ? nullptr : found->second;
}

std::vector<KindRef> Kinds::versionsOf(std::string_view storage) const {
  std::vector<KindRef> found;
  for (const Group& group : groups_)
    for (const Version& version : group.versions)
      for (const auto& [plural, kind] : version.kinds)
        if (kind->storage == storage) found.push_back(kind);
  return found;
}

}  // namespace cadre::hub
