#include "hub/collector.h"

#include <algorithm>

#include "base/format.h"
#include "base/strings.h"
#include "kube/conditions.h"

namespace cadre::hub {
namespace {

constexpr int kAtOnce = 100;
constexpr std::size_t kMany = 50;
constexpr Duration kPause = 200ms, kFirstRetry = 1s, kLastRetry = 60s;
constexpr std::string_view kManager = "cadre-hub";
constexpr std::string_view kOrphan = "orphan", kForeground = "foregroundDeletion";
constexpr std::string_view kKinds = "apiextensions.k8s.io/customresourcedefinitions";

json::Value withoutFinalizer(json::Value object, std::string_view finalizer) {
  json::Array left;
  for (std::string_view one : kube::finalizers(object))
    if (one != finalizer) left.emplace_back(one);
  json::Object& metadata = object.make("metadata").makeObject();
  if (left.empty()) {
    metadata.erase("finalizers");
  } else {
    metadata.set("finalizers", std::move(left));
  }
  return object;
}

// Whether there is something to be done about it where everything goes: nothing there waits for its
// dependents, which may be elsewhere.
bool isLeft(const Stored& state) {
  if (!state.deleting) return true;
  json::Value object = state.value();
  return kube::hasFinalizer(object, kForeground) || kube::hasFinalizer(object, kOrphan);
}

}  // namespace

Collector::Collector(Scheduler& scheduler, Objects& objects, const Kinds& kinds, Registry& registry,
                     Admit admit)
    : scheduler_(scheduler),
      objects_(objects),
      kinds_(kinds),
      registry_(registry),
      admit_(std::move(admit)) {}

void Collector::told(const Change& change) {
  const State& state = change.after ? change.after : change.before;
  Name name{change.resource, state->key};
  failures_.erase(name);
  // Who waits for many is not looked at for each of them.
  auto oneIsGone = [this](const Name& waits, std::size_t left) {
    left > kMany ? lookIn(waits, kPause) : lookLater(waits);
  };
  if (change.before) {
    for (const std::string& owner : change.before->owners)
      if (auto found = dependents_.find(owner); found != dependents_.end()) {
        found->second.erase(name);
        std::size_t left = found->second.size();
        if (left == 0) {
          dependents_.erase(found);
          gone_.erase(owner);
        }
        // Its owner may wait for it to go.
        if (auto waits = by_uid_.find(owner); waits != by_uid_.end())
          oneIsGone(waits->second, left);
      }
    if (!change.after) {
      by_uid_.erase(state->uid);
      if (auto dependents = dependents_.find(state->uid); dependents != dependents_.end()) {
        gone_[state->uid] = identityOf(name);
        for (const Name& dependent : dependents->second) lookLater(dependent);
      }
      if (!state->key.ns.empty()) {
        auto& contents = by_namespace_[state->key.ns];
        contents.erase(name);
        oneIsGone({"namespaces", {"", state->key.ns}}, contents.size());
      }
      if (std::size_t slash = change.resource.find('/'); slash != std::string::npos)
        lookLater(
            {std::string(kKinds),
             {"", change.resource.substr(slash + 1) + "." + change.resource.substr(0, slash)}});
    }
  }
  if (!change.after) return;
  by_uid_[state->uid] = name;
  if (change.resource == kKinds)  // owners of a new kind can be judged now
    for (const auto& [uid, dependents] : dependents_)
      if (!by_uid_.contains(uid))
        for (const Name& dependent : dependents) lookLater(dependent);
  for (const std::string& owner : state->owners) dependents_[owner].insert(name);
  if (!state->key.ns.empty()) by_namespace_[state->key.ns].insert(name);
  if (state->deleting || !state->owners.empty()) lookLater(name);
  // What comes into a namespace that goes, goes.
  if (!state->key.ns.empty() && !change.before) {
    State ns = objects_.find("namespaces", {"", state->key.ns});
    if (ns && ns->deleting) lookLater({"namespaces", {"", state->key.ns}});
  }
}

void Collector::lookLater(const Name& name) {
  if (!queued_.insert(name).second) return;
  waiting_.push_back(name);
  if (waiting_.size() == 1) working_ = scheduler_.after(0s, [this] { work(); });
}

void Collector::lookIn(const Name& name, Duration pause) {
  auto [place, is_new] = delayed_.try_emplace(name);
  if (!is_new) return;
  place->second = scheduler_.after(pause, [this, name] {
    lookLater(name);
    delayed_.erase(name);
  });
}

void Collector::lookAgain(const Name& name) {
  lookIn(name,
         std::min<Duration>(kFirstRetry * (1 << std::min(failures_[name]++, 10)), kLastRetry));
}

void Collector::mayFail(const Name& name) {
  unsure_.insert(name);
  if (unsure_.size() > 1) return;
  objects_.whenKept([this](const Result<>& kept) {
    for (const Name& one : std::exchange(unsure_, {}))
      if (!kept) lookAgain(one);
  });
}

void Collector::work() {
  for (int i = 0; i < kAtOnce && !waiting_.empty(); ++i) {
    Name name = waiting_.front();
    waiting_.pop_front();
    queued_.erase(name);
    look(name);
  }
  if (!waiting_.empty()) working_ = scheduler_.after(0s, [this] { work(); });
}

void Collector::look(const Name& name) {
  State state = objects_.find(name.first, name.second);
  if (!state) {
    failures_.erase(name);
    return;
  }
  json::Value object = state->value();
  if (kube::isDeleting(object)) {
    if (kube::hasFinalizer(object, kOrphan)) return releaseDependents(name, object);
    if (kube::hasFinalizer(object, kForeground)) return deleteDependents(name, object);
    if (name.first == "namespaces") return finishNamespace(name, object);
    if (name.first == kKinds) return finishKind(name, object);
    return;
  }
  checkOwners(name, object);
}

Collector::Identity Collector::identityOf(const Name& name) const {
  KindRef kind = kinds_.stored(name.first);
  if (!kind) return {.group = {}, .kind = {}, .key = name.second};
  return {.group = kind->resource.group, .kind = kind->resource.kind, .key = name.second};
}

bool Collector::isMeant(const Identity& owner, const kube::OwnerReference& reference,
                        const Name& dependent) {
  auto [group, version] = cut(reference.api_version, "/");
  if (version.empty()) group = {};
  return owner.group == group && owner.kind == reference.kind && owner.key.name == reference.name &&
         (owner.key.ns.empty() || owner.key.ns == dependent.second.ns);
}

bool Collector::isThere(const Name& dependent, const kube::OwnerReference& owner) const {
  auto gone = gone_.find(std::string(owner.uid));
  if (gone != gone_.end() && isMeant(gone->second, owner, dependent)) return false;
  auto [group, version] = cut(owner.api_version, "/");
  if (version.empty()) std::swap(group, version);
  KindRef kind = kinds_.ofKind(group, version, owner.kind);
  // Owners are in the same namespace, or in none; what has none itself is not judged by others.
  const std::string& ns = dependent.second.ns;
  if (!kind || (kind->resource.namespaced && ns.empty())) return true;
  State there = objects_.find(
      kind->storage, {kind->resource.namespaced ? ns : std::string(), std::string(owner.name)});
  return there && there->uid == owner.uid;
}

// Deleted in the foreground, and not gone before its dependents are.
bool Collector::waitsForDependents(const Name& name) const {
  State state = objects_.find(name.first, name.second);
  return state && state->deleting && kube::hasFinalizer(state->value(), kForeground);
}

// What no owner is left of goes; an owner that is gone beside others is forgotten.
void Collector::checkOwners(const Name& name, const json::Value& object) {
  auto owners = kube::ownerReferences(object);
  json::Array left;
  std::size_t going = 0;
  for (std::size_t i = 0; i < owners.size(); ++i) {
    if (!isThere(name, owners[i])) continue;
    left.push_back(object["metadata"]["ownerReferences"].at(i));
    auto found = by_uid_.find(std::string(owners[i].uid));
    if (found != by_uid_.end() && isMeant(identityOf(found->second), owners[i], name) &&
        waitsForDependents(found->second))
      ++going;
  }
  if (owners.empty() || (left.size() == owners.size() && going < left.size())) return;
  if (left.size() == going) {
    if (going > 0) unblockOwners(name, object);
    return remove(name, going > 0 ? "Foreground" : "Background", name);
  }
  if (left.size() == owners.size()) return;
  json::Value changed = object;
  changed.make("metadata").make("ownerReferences") = std::move(left);
  write(name, std::move(changed));
}

// Two that own each other would wait for each other.
void Collector::unblockOwners(const Name& name, json::Value object) {
  auto found = dependents_.find(std::string(kube::uid(object)));
  if (found == dependents_.end() || std::ranges::none_of(found->second, [this](const Name& one) {
        return waitsForDependents(one);
      }))
    return;
  for (json::Value& owner : object.make("metadata").make("ownerReferences").makeArray())
    owner.make("blockOwnerDeletion") = false;
  write(name, std::move(object));
}

void Collector::releaseDependents(const Name& name, const json::Value& object) {
  std::string uid(kube::uid(object));
  auto found = dependents_.find(uid);
  std::set<Name> dependents = found == dependents_.end() ? std::set<Name>() : found->second;
  bool left = false, failed = false;
  for (const Name& dependent : dependents) {
    State state = objects_.find(dependent.first, dependent.second);
    if (!state) continue;
    json::Value changed = state->value();
    json::Array owners;
    for (const json::Value& owner : changed["metadata"]["ownerReferences"].array())
      if (owner["uid"].string() != uid) owners.push_back(owner);
    if (owners.size() == changed["metadata"]["ownerReferences"].array().size()) continue;
    left = true;
    json::Object& metadata = changed.make("metadata").makeObject();
    if (owners.empty()) {
      metadata.erase("ownerReferences");
    } else {
      metadata.set("ownerReferences", std::move(owners));
    }
    failed |= !write(dependent, std::move(changed));
  }
  if (failed) return lookAgain(name);
  if (left) return lookLater(name);  // until each of them has let go
  write(name, withoutFinalizer(object, kOrphan));
}

void Collector::deleteDependents(const Name& name, const json::Value& object) {
  std::string uid(kube::uid(object));
  auto found = dependents_.find(uid);
  std::set<Name> dependents = found == dependents_.end() ? std::set<Name>() : found->second;
  bool blocked = false;
  for (const Name& dependent : dependents) {
    State state = objects_.find(dependent.first, dependent.second);
    if (!state) continue;
    json::Value value = state->value();
    for (const kube::OwnerReference& owner : kube::ownerReferences(value))
      blocked |= owner.uid == uid && owner.block_owner_deletion;
    if (!kube::isDeleting(value)) lookLater(dependent);
  }
  if (!blocked) write(name, withoutFinalizer(object, kForeground));
}

void Collector::finishNamespace(const Name& name, const json::Value& object) {
  const std::string& ns = name.second.name;
  auto found = by_namespace_.find(ns);
  if (found != by_namespace_.end() && !found->second.empty()) {
    const std::set<Name> contents = found->second;
    for (const Name& content : contents) {
      State state = objects_.find(content.first, content.second);
      if (state && isLeft(*state)) remove(content, "Background", name);
    }
    tellRemains(name, object, contents);
    return;  // looked at again when the last of them has gone
  }
  by_namespace_.erase(ns);
  json::Array left = object["spec"]["finalizers"].array();
  if (std::erase(left, json::Value("kubernetes")) == 0) return;  // others hold it
  json::Value changed = object;
  changed.make("spec").make("finalizers") = std::move(left);
  write(name, std::move(changed), "finalize");
}

void Collector::tellRemains(const Name& name, json::Value object, const std::set<Name>& contents) {
  std::map<std::string, int> resources, finalizers;
  for (const Name& content : contents) {
    State state = objects_.find(content.first, content.second);
    if (!state) continue;
    auto [group, plural] = cut(content.first, "/");
    ++resources[plural.empty() ? format("{}.", group) : format("{}.{}", plural, group)];
    json::Value value = state->value();
    for (std::string_view finalizer : kube::finalizers(value)) ++finalizers[std::string(finalizer)];
  }
  if (resources.empty()) return;
  auto listed = [](const std::map<std::string, int>& counts, std::string_view verb) {
    std::vector<std::string> parts;
    parts.reserve(counts.size());
    for (const auto& [what, count] : counts)
      parts.push_back(format("{} {} {} resource instances", what, verb, count));
    return join(parts, ", ");
  };
  auto status = [](bool is) {
    return is ? kube::ConditionStatus::True : kube::ConditionStatus::False;
  };
  const bool held = !finalizers.empty();
  json::Array& conditions = object.make("status").make("conditions").makeArray();
  auto set = [&](const kube::Condition& condition) {
    auto changed = kube::setCondition(conditions, condition, scheduler_.clock().now());
    return changed && *changed;
  };
  bool changed = set({.type = "NamespaceContentRemaining",
                      .status = status(true),
                      .reason = "SomeResourcesRemain",
                      .message = "Some resources are remaining: " + listed(resources, "has")});
  changed |= set({.type = "NamespaceFinalizersRemaining",
                  .status = status(held),
                  .reason = held ? "SomeFinalizersRemain" : "ContentHasNoFinalizers",
                  .message = held ? "Some content in the namespace has finalizers remaining: " +
                                        listed(finalizers, "in")
                                  : "All content-preserving finalizers finished"});
  if (changed) write(name, std::move(object), "status");
}

void Collector::finishKind(const Name& name, const json::Value& object) {
  if (!kube::hasFinalizer(object, kDefinitionCleanUp)) return;
  std::string resource =
      format("{}/{}", object["spec"]["group"].string(), object["spec"]["names"]["plural"].string());
  Objects::Collection all = objects_.all(resource);
  for (const auto& [key, state] : all)
    if (isLeft(*state)) remove({resource, key}, "Background", name);
  if (objects_.all(resource).empty()) write(name, withoutFinalizer(object, kDefinitionCleanUp));
}

bool Collector::write(const Name& name, json::Value object, std::string_view subresource) {
  KindRef kind = kinds_.stored(name.first);
  if (!kind) {
    lookAgain(name);
    return false;
  }
  object.make("apiVersion") = kind->resource.apiVersion();
  object.make("kind") = kind->resource.kind;
  auto draft = registry_.update(kind, name.second, std::move(object),
                                {.manager = std::string(kManager),
                                 .subresource = std::string(subresource),
                                 .validation = FieldValidation::Ignore});
  bool written = draft && registry_.finish(*std::move(draft));
  written ? mayFail(name) : lookAgain(name);
  return written;
}

void Collector::remove(const Name& name, std::string_view propagation, const Name& because) {
  KindRef kind = kinds_.stored(name.first);
  if (!kind) return lookAgain(because);
  State state = objects_.find(name.first, name.second);
  if (!state || !asking_.insert(name).second) return;
  // As it is now: who changes it meanwhile may have saved it.
  Deleting deleting{.uid = state->uid,
                    .resource_version = format("{}", state->revision),
                    .propagation = std::string(propagation),
                    .grace = std::nullopt};
  admit_(kind, *state, deleting, [this, name, because, kind, deleting](bool admitted) {
    asking_.erase(name);
    bool removed = admitted && registry_.remove(kind, name.second, deleting);
    removed ? mayFail(because) : lookAgain(because);
  });
}

}  // namespace cadre::hub
