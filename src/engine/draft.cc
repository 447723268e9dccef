#include "engine/draft.h"

#include <algorithm>

namespace cadre::engine {
namespace {

constexpr int kMaxRounds = 100;  // objects may wait for each other in a circle

// What the server and its controllers would make of a child.
json::Value asIfRunning(json::Value child) {
  if (child["kind"].string() != "Deployment") return child;
  const json::Value given = child["spec"]["replicas"];
  std::int64_t replicas = given.isNull() ? 1 : given.integer();
  child.make("metadata").make("generation") = 1;
  json::Value& status = child.make("status");
  status.make("observedGeneration") = 1;
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
  if (auto found = objects_.find(ref); found != objects_.end()) return found->second;
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

std::optional<std::vector<Draft::Planned>> Draft::settle(
    const std::vector<Served>& kinds, std::vector<Ref> refs, Time now,
    const Function<std::vector<Ref>(const Ref&)>& readers) {
  std::map<Ref, Plan> plans;
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
        World world(*this, now, {}, ref);
        Plan& plan = plans[ref] = served->plan(*object, world);
        complete &= world.complete();
        json::Value status = wantedStatus(*object, plan, now);
        object->make("status") = std::move(status);
        differs |= lay(ref, *object);
        for (const Child& child : plan.children) {
          if (child.keep == Child::Keep::Once && find(child.ref())) continue;  // it stays as it is
          json::Value made = asIfRunning(finished(child, ref, *object));
          for (const auto& [key, prefix] : child.generate)
            made.make("data").make(key) = "made once";
          differs |= lay(child.ref(), std::move(made));
        }
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
      planned.push_back({ref, std::move(plan->second)});
  return planned;
}

}  // namespace cadre::engine
