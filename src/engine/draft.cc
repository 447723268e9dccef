#include "engine/draft.h"

#include <algorithm>
#include <limits>

#include "json/patch.h"

namespace cadre::engine {
namespace {

constexpr int kMaxRounds = 100;  // objects may wait for each other in a circle

// What the server and its controllers would make of a child.
json::Value asIfRunning(json::Value child) {
  if (child["kind"].string() != "Deployment") return child;
  const std::int64_t replicas = child["spec"]["replicas"].integer(1);
  child.make("metadata").make("generation") = 1;
  json::Value& status = child.make("status");
  status = json::Object{{"observedGeneration", 1}};
  for (std::string_view count :
       {"replicas", "readyReplicas", "availableReplicas", "updatedReplicas"})
    status.make(count) = replicas;
  return child;
}

}  // namespace

Source::State Draft::state(const Ref& ref) {
  if (objects_.contains(ref)) return State::Known;
  return below_ ? below_->state(ref) : State::Known;
}

Source::State Draft::state(const kube::Resource& resource) {
  return below_ ? below_->state(resource) : State::Known;
}

std::optional<json::Value> Draft::find(const Ref& ref) {
  if (auto found = objects_.find(ref); found != objects_.end())
    return found->second.isNull() ? std::nullopt : std::optional(found->second);
  return below_ ? below_->find(ref) : std::nullopt;
}

std::vector<kube::ObjectKey> Draft::keys(const kube::Resource& resource, const Index& index,
                                         const std::string& value) {
  std::vector<kube::ObjectKey> keys;
  if (below_) keys = below_->keys(resource, index, value);
  std::erase_if(keys, [&](const auto& key) { return objects_.contains({resource, key}); });
  for (const auto& [ref, object] : objects_) {
    if (ref.resource != resource) continue;
    auto values = index.of(object);
    if (std::find(values.begin(), values.end(), value) != values.end()) keys.push_back(ref.key);
  }
  std::sort(keys.begin(), keys.end());
  return keys;
}

Fact Draft::observe(const Observation& observation) {
  return below_ ? below_->observe(observation) : Fact{};
}

bool Draft::lay(const Ref& ref, json::Value object) {
  auto [at, is_new] = objects_.try_emplace(ref);
  if (!is_new && at->second == object) return false;
  at->second = std::move(object);
  return true;
}

bool Draft::lay(const Write& write) {
  switch (write.op) {
    case Write::Op::Create: {
      json::Value made = asIfRunning(write.object);
      for (const auto& [key, prefix] : write.generate) made.make("data").make(key) = "made once";
      return lay(write.ref, std::move(made));
    }
    case Write::Op::Apply:
      return lay(write.ref,
                 asIfRunning(json::applyMergePatch(*there_.find(write.ref), write.object)));
    case Write::Op::Delete:
      return lay(write.ref, json::Value());
    default:
      return false;
  }
}

// All waves at once; but what cannot be made keeps later ones from being made.
std::vector<Write> Draft::changes(const Ref& ref, json::Value object, Plan plan) {
  std::map<Ref, int> waves;
  for (Child& child : plan.children) waves[child.ref()] = std::exchange(child.wave, 0);
  std::vector<Write> writes = reconcileChildren(ref, object, plan, there_);
  if (writes.size() == 1 && writes[0].op == Write::Op::Metadata &&
      writes[0].ref == ref) {  // the rest comes after it
    object.make("metadata") = json::applyMergePatch(object["metadata"], writes[0].object);
    for (Write& write : reconcileChildren(ref, object, plan, there_))
      writes.push_back(std::move(write));
  }
  int stuck = std::numeric_limits<int>::max();
  for (const Write& write : writes)
    if (write.op == Write::Op::Conflict) stuck = std::min(stuck, waves.at(write.ref));
  std::erase_if(writes, [&](const Write& write) {
    auto wave = waves.find(write.ref);
    return wave != waves.end() && wave->second > stuck;
  });
  return writes;
}

std::optional<std::vector<Draft::Planned>> Draft::settle(
    const std::vector<Served>& kinds, std::vector<Ref> refs, Time now,
    const Function<std::vector<Ref>(const Ref&)>& readers) {
  std::map<Ref, Planned> plans;
  std::map<Ref, std::vector<Trouble>> troubles;
  bool changed = true, complete = true;
  for (int round = 0; changed && round < kMaxRounds; ++round) {
    changed = false;
    for (std::size_t i = 0; i < refs.size(); ++i) {  // it may grow
      const Ref ref = refs[i];
      auto served = std::find_if(kinds.begin(), kinds.end(),
                                 [&](const Served& kind) { return kind.resource == ref.resource; });
      auto object = find(ref);
      bool differs = round == 0;  // also of what has no plans
      if (served != kinds.end() && object) {
        World world(*this, now, troubles[ref], ref);
        Plan plan = served->plan(*object, world);
        complete &= world.complete();
        std::vector<Write> writes = changes(ref, *object, plan);
        json::Value status = wantedStatus(ref, *object, plan, now);
        object->make("status") = std::move(status);
        differs |= lay(ref, *object);
        std::vector<Trouble> met;
        for (const Write& write : writes) {
          differs |= lay(write);
          if (write.op == Write::Op::Conflict)
            met.push_back({write.ref, "NameConflict", write.why});
        }
        if (troubles[ref] != met) {
          troubles[ref] = std::move(met);
          differs = true;
        }
        plans.insert_or_assign(ref, Planned{ref, std::move(plan), std::move(writes)});
      }
      changed |= differs;
      if (!differs || !readers) continue;
      for (const Ref& reader : readers(ref))
        if (std::find(refs.begin(), refs.end(), reader) == refs.end()) refs.push_back(reader);
    }
  }
  if (!complete) return std::nullopt;
  std::vector<Planned> planned;
  for (const Ref& ref : refs)
    if (auto plan = plans.find(ref); plan != plans.end())
      planned.push_back(std::move(plan->second));
  return planned;
}

}  // namespace cadre::engine
