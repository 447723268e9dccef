#include "hub/definitions.h"

#include <set>

#include "base/format.h"
#include "hub/definition.h"

namespace cadre::hub {
namespace {

constexpr std::string_view kDefinitions = "apiextensions.k8s.io/customresourcedefinitions";

std::string storageOf(const json::Value& definition) {
  return format("{}/{}", definition["spec"]["group"].string(),
                definition["spec"]["names"]["plural"].string());
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
    std::string storage = storageOf(change.before->value());
    kinds_.remove(storage);
    watches_.end(storage);
    // Another one may have waited for its names.
    for (const auto& [key, state] : objects_.all(kDefinitions))
      scheduler_.post([this, key = key] { look(key); });
    return;
  }
  json::Value definition = change.after->value();
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
  scheduler_.post([this, key = change.after->key] { look(key); });
}

void Definitions::look(const kube::ObjectKey& key) {
  KindRef kind = kinds_.stored(kDefinitions);
  auto definition = registry_.get(*kind, key);
  if (!definition) return;
  std::vector<json::Value> others;
  for (const auto& [other, state] : objects_.all(kDefinitions))
    if (other != key) others.push_back(state->value());
  Time now = scheduler_.clock().now();
  json::Value status = kube::isDeleting(*definition) ? terminatingStatus(*definition, now)
                                                     : acceptedStatus(*definition, others, now);
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
