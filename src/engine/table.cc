#include "engine/table.h"

#include <algorithm>

namespace cadre::engine {
namespace {

constexpr std::string_view kEverywhere = "*";

bool isNewer(std::string_view version, std::string_view than) {
  auto order = kube::compareResourceVersions(version, than);
  return order && *order > 0;
}

}  // namespace

Table::Table(std::vector<Index> indexes, Function<void(const Change&)> changed)
    : indexes_(std::move(indexes)), changed_(std::move(changed)), found_(indexes_.size()) {}

std::uint32_t Table::begin() { return ++pictures_; }

void Table::end(std::uint32_t picture, std::string_view version, std::string_view ns) {
  if (!version.empty()) told(ns.empty() ? kEverywhere : ns, version);
  for (auto next = objects_.begin(); next != objects_.end();) {
    auto held = next++;
    if (held->second.picture == picture || (!ns.empty() && held->first.ns != ns)) continue;
    if (!isNewer(held->second.version, version)) erase(held);
  }
}

void Table::put(const json::Value& object, std::uint32_t picture) {
  std::string_view version = kube::resourceVersion(object);
  auto at = objects_.find(kube::ObjectKey::of(object));
  if (picture) {
    told(kube::ns(object), version);
  } else if (at == objects_.end()) {
    // The watch was faster than the answer to our write, and knows its end already; or a picture of
    // later is without it.
    for (std::string_view ns : {kube::ns(object), kEverywhere}) {
      auto newest = told_.find(ns);
      if (newest != told_.end() && (newest->second == version || isNewer(newest->second, version)))
        return;
    }
  }
  if (at == objects_.end()) at = objects_.try_emplace(kube::ObjectKey::of(object)).first;
  const kube::ObjectKey& key = at->first;
  Held& held = at->second;
  if (picture) held.picture = picture;
  if (held.object && (held.version == version || isNewer(held.version, version))) return;

  held.object = packer_.pack(object);
  held.version = version;
  Change change{.key = key, .object = &object};
  leave(key, held, change);
  held.at.resize(indexes_.size());
  for (std::size_t i = 0; i < indexes_.size(); ++i) {
    held.at[i] = indexes_[i].of(object);
    std::sort(held.at[i].begin(), held.at[i].end());
    held.at[i].erase(std::unique(held.at[i].begin(), held.at[i].end()), held.at[i].end());
    for (const std::string& value : held.at[i]) {
      found_[i][value].insert(key);
      change.at.emplace_back(indexes_[i].name, value);
    }
  }
  if (changed_) changed_(change);
}

// Watches tell the changes of a namespace in their order.
void Table::told(std::string_view ns, std::string_view version) {
  auto newest = told_.find(ns);
  if (newest == told_.end()) {
    told_.emplace(ns, version);
  } else if (isNewer(version, newest->second)) {
    newest->second = version;
  }
}

void Table::drop(const json::Value& object) {
  told(kube::ns(object), kube::resourceVersion(object));
  auto held = objects_.find(kube::ObjectKey::of(object));
  if (held == objects_.end() || isNewer(held->second.version, kube::resourceVersion(object)))
    return;
  erase(held);
}

void Table::drop(const kube::ObjectKey& key) {
  if (auto held = objects_.find(key); held != objects_.end()) erase(held);
}

void Table::erase(Objects::iterator held) {
  kube::ObjectKey key = held->first;
  Change change{.key = key, .object = nullptr};
  leave(key, held->second, change);
  objects_.erase(held);
  if (changed_) changed_(change);
}

// Takes it out of the indexes, and notes where it was.
void Table::leave(const kube::ObjectKey& key, Held& held, Change& change) {
  for (std::size_t i = 0; i < held.at.size(); ++i)
    for (std::string& value : held.at[i]) {
      auto found = found_[i].find(value);
      found->second.erase(key);
      if (found->second.empty()) found_[i].erase(found);
      change.at.emplace_back(indexes_[i].name, std::move(value));
    }
  held.at.clear();
}

std::optional<json::Value> Table::find(const kube::ObjectKey& key) const {
  auto held = objects_.find(key);
  if (held == objects_.end()) return std::nullopt;
  return packer_.unpack(held->second.object);
}

const std::set<kube::ObjectKey>& Table::at(std::string_view index, const std::string& value) const {
  static const std::set<kube::ObjectKey> kNone;
  for (std::size_t i = 0; i < indexes_.size(); ++i) {
    if (indexes_[i].name != index) continue;
    auto found = found_[i].find(value);
    return found == found_[i].end() ? kNone : found->second;
  }
  return kNone;
}

std::vector<kube::ObjectKey> Table::keys(std::string_view index, const std::string& value) const {
  const std::set<kube::ObjectKey>& found = at(index, value);
  return {found.begin(), found.end()};
}

bool Table::contains(const kube::ObjectKey& key, std::string_view index,
                     const std::string& value) const {
  return at(index, value).contains(key);
}

std::vector<kube::ObjectKey> Table::keys() const {
  std::vector<kube::ObjectKey> all;
  for (const auto& [key, held] : objects_) all.push_back(key);
  return all;
}

}  // namespace cadre::engine
