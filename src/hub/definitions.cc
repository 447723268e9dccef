#include "hub/definitions.h"

#include <set>

#include "base/format.h"
#include "hub/definition.h"
#include "kube/conditions.h"

namespace cadre::hub {
namespace {

constexpr std::string_view kDefinitions = "apiextensions.k8s.io/customresourcedefinitions";

std::string storageOf(const json::Value& definition) {
  return format("{}/{}", definition["spec"]["group"].string(),
                definition["spec"]["names"]["plural"].string());
}

// Whether there is nothing more to say of it: at a start that is so of nearly all.
bool isSettled(const json::Value& definition) {
  return !kube::isDeleting(definition) && isEstablished(definition) &&
         kube::isConditionTrue(definition, "NamesAccepted") &&
         definition["status"]["acceptedNames"] == definition["spec"]["names"];
}

}  // namespace

Definitions::Definitions(Scheduler& scheduler, Objects& objects, Kinds& kinds, Registry& registry,
                         Watches& watches, std::vector<const kube::Kind*> natives)
    : scheduler_(scheduler),
      objects_(objects),
      kinds_(kinds),
      registry_(registry),
      watches_(watches),
      natives_(std::move(natives)) {}

void Definitions::told(const Change& change) {
  if (change.resource != kDefinitions) return;
  if (!change.after) {
    json::Value definition = change.before->value();
    std::string storage = storageOf(definition);
    kinds_.remove(storage);
    watches_.end(storage);
    Others& others = groups_[definition["spec"]["group"].string()];
    others.names.erase(change.before->key);
    others.waiting.erase(change.before->key);
    for (const kube::ObjectKey& key : others.waiting) scheduler_.post([this, key] { look(key); });
    return;
  }
  json::Value definition = change.after->value();
  know(change.after->key, definition, definition["status"]);
  std::string storage = storageOf(definition);
  bool served = kinds_.stored(storage) != nullptr;
  if (isEstablished(definition)) {
    if (!served) objects_.begin(storage);
    kinds_.remove(storage);
    std::set<std::string> versions;
    for (KindRef& kind : kindsOf(definition, natives_)) {
      if (kind->served) versions.insert(kind->resource.version);
      kinds_.add(std::move(kind));
    }
    watches_.end(storage, versions);
  }
  // Not from inside of what tells.
  if (!isSettled(definition)) scheduler_.post([this, key = change.after->key] { look(key); });
}

void Definitions::know(const kube::ObjectKey& key, const json::Value& definition,
                       const json::Value& status) {
  const json::Value& group = definition["spec"]["group"];
  Others& others = groups_[group.string()];
  others.names[key] =
      json::Object{{"metadata", json::Object{{"name", key.name}}},
                   {"spec", json::Object{{"group", group}}},
                   {"status", json::Object{{"acceptedNames", status["acceptedNames"]}}}};
  if (kube::isConditionTrue(json::Object{{"status", status}}, "NamesAccepted")) {
    others.waiting.erase(key);
  } else {
    others.waiting.insert(key);
  }
}

void Definitions::look(const kube::ObjectKey& key) {
  KindRef kind = kinds_.stored(kDefinitions);
  auto definition = registry_.get(*kind, key);
  if (!definition) return;
  std::vector<json::Value> others;
  for (const auto& [other, names] : groups_[(*definition)["spec"]["group"].string()].names)
    if (other != key) others.push_back(names);
  Time now = scheduler_.clock().now();
  json::Value status = kube::isDeleting(*definition) ? terminatingStatus(*definition, now)
                                                     : acceptedStatus(*definition, others, now);
  know(key, *definition, status);  // at once: the next one is looked at before this is told
  if (status == (*definition)["status"]) return;
  definition->make("status") = std::move(status);
  auto draft = registry_.update(kind, key, *std::move(definition),
                                {.manager = "cadre-hub", .subresource = "status"});
  bool written = draft && registry_.finish(*std::move(draft));
  objects_.whenKept([this, key, written](const Result<>& kept) {
    if (written && kept) return;
    again_[key] = scheduler_.after(1s, [this, key] { look(key); });
  });
}

std::vector<std::string> Definitions::warnings(const Draft& draft) const {
  if (draft.kind->storage != kDefinitions || !draft.writing.subresource.empty()) return {};
  return uncheckedOf(draft.object, natives_);
}

}  // namespace cadre::hub
