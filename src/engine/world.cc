#include "engine/world.h"

#include "base/strings.h"
#include "json/write.h"

namespace cadre::engine {
namespace {

const json::Value kNothing;

std::uint64_t hashOfFact(const Fact& fact) {
  return stableHash(json::write(json::Array{fact.known, fact.value, fact.error})) | 1;
}

}  // namespace

std::string Observation::key() const { return what + " " + json::write(input); }

std::uint64_t hashOf(const View& view, const json::Value& object) {
  // A whole object is what its version says; a new one of the same name has another version.
  return (view.of ? stableHash(json::write(view.of(object)))
                  : stableHash(kube::resourceVersion(object))) |
         1;
}

const json::Value& World::get(const kube::Resource& resource, const kube::ObjectKey& key,
                              View view) {
  Read read{.what = Read::What::Object, .ref = {resource, key}, .view = view};
  // A plan may look again and again: at each peer of each peer.
  auto [looked, is_new] = looked_.try_emplace({read.ref, view.of}, &kNothing);
  if (!is_new) return *looked->second;
  complete_ &= source_.state(read.ref) != Source::State::NotYet;
  auto object = source_.find(read.ref);
  if (object) read.seen = hashOf(view, *object);
  reads_.push_back(std::move(read));
  if (object)
    looked->second = &values_.emplace_back(view.of ? view.of(*object) : *std::move(object));
  return *looked->second;
}

std::vector<const json::Value*> World::list(const kube::Resource& resource, const Index& index,
                                            std::string_view value, View view) {
  Read read{.what = Read::What::List,
            .ref = {resource, {}},
            .view = view,
            .index = index.name,
            .value = std::string(value)};
  complete_ &= source_.state(resource) != Source::State::NotYet;
  std::vector<const json::Value*> found;
  for (const kube::ObjectKey& key : source_.keys(resource, index, read.value)) {
    auto object = source_.find({resource, key});
    if (!object) continue;
    read.members[key] = hashOf(view, *object);
    found.push_back(&values_.emplace_back(view.of ? view.of(*object) : *std::move(object)));
  }
  reads_.push_back(std::move(read));
  return found;
}

bool World::serves(const kube::Resource& resource) {
  auto state = source_.state(resource);
  complete_ &= state != Source::State::NotYet;
  bool served = state == Source::State::Known;
  reads_.push_back({.what = Read::What::Served, .ref = {resource, {}}, .seen = served});
  return served;
}

const Fact& World::observe(Observation observation) {
  const Fact& fact = facts_.emplace_back(source_.observe(observation));
  reads_.push_back(
      {.what = Read::What::Fact, .value = observation.key(), .seen = hashOfFact(fact)});
  return fact;
}

bool World::slot(std::string pool, std::size_t limit, bool holds) {
  turns_.push_back({.pool = std::move(pool), .limit = limit, .holds = holds});
  return source_.admits(self_, turns_.back());
}

const Fact& World::outcome(const std::string& id) {
  return facts_.emplace_back(source_.outcome(self_, id));
}

}  // namespace cadre::engine
