#include "engine/acts.h"

#include "base/format.h"

namespace cadre::engine {
namespace {

constexpr Backoff::Options kCancelAgain{.first = 1s, .limit = 5min, .factor = 2, .jitter = 0.2};

}  // namespace

Acts::Acts(Scheduler& scheduler, Random& random, std::vector<ActClass> classes,
           Function<void(const Ref& who)> wake)
    : scheduler_(scheduler), random_(random), wake_(std::move(wake)) {
  for (ActClass& one : classes) {
    std::string name = one.name;
    classes_.emplace(std::move(name), std::move(one));
  }
}

Fact Acts::outcome(const Ref& who, const std::string& id) const {
  auto of = of_.find(who);
  if (of == of_.end()) return {};
  auto doing = of->second.doing.find(id);
  return doing == of->second.doing.end() ? Fact{} : doing->second.fact;
}

json::Array Acts::wanted(const Ref& who, const json::Value& written, const std::vector<Act>& acts) {
  Of& of = of_[who];
  json::Array list;
  std::set<std::string> ids, named;
  for (const Act& act : acts)
    if (ids.insert(act.id).second)
      list.push_back(json::Object{{"id", act.id}, {"what", act.what}, {"intent", act.intent}});
  for (const json::Value& act : written.array()) {
    const std::string& id = act["id"].string();
    named.insert(id);
    auto cancelling = of.cancelling.find(id);
    if (ids.contains(id)) {  // wanted again after all: once it has ended
      if (cancelling != of.cancelling.end() && cancelling->second->done)
        of.cancelling.erase(cancelling);
      continue;
    }
    auto doing = of.doing.find(id);
    if (doing != of.doing.end() && doing->second.over) continue;  // and the plan has seen it
    if (doing != of.doing.end()) of.doing.erase(doing);           // which ends it here
    if (cancelling == of.cancelling.end()) {
      cancelling = of.cancelling.emplace(id, newCancelling()).first;
      cancel(who, act["what"].string(), act["intent"], cancelling->second);
    }
    if (!cancelling->second->done) list.push_back(act);
  }
  // What neither the plan nor the status speaks of is done with.
  auto isDone = [&](const std::string& id) { return !ids.contains(id) && !named.contains(id); };
  std::erase_if(of.doing, [&](const auto& one) { return isDone(one.first); });
  std::erase_if(of.cancelling, [&](const auto& one) { return isDone(one.first); });
  std::erase_if(of.ours, isDone);
  if (of.doing.empty() && of.cancelling.empty() && of.ours.empty()) of_.erase(who);
  return list;
}

std::shared_ptr<Acts::Cancelling> Acts::newCancelling() {
  return std::make_shared<Cancelling>(Pending(), false, Backoff(kCancelAgain, random_));
}

void Acts::cancel(const Ref& who, const std::string& what, const json::Value& intent,
                  const std::shared_ptr<Cancelling>& state) {
  auto found = classes_.find(what);
  if (found == classes_.end() || !found->second.cancel) {
    state->done = true;
    return;
  }
  std::weak_ptr<Cancelling> weak = state;
  Pending pending = found->second.cancel(intent, [this, who, what, intent, weak](Result<> done) {
    auto state = weak.lock();
    if (!state) return;
    if (!done) {
      state->again = scheduler_.after(state->backoff.next(), [this, who, what, intent, weak] {
        if (auto state = weak.lock()) cancel(who, what, intent, state);
      });
      return;
    }
    state->done = true;
    if (orphans_.erase(state) == 0) wake_(who);
  });
  if (!state->done) state->pending = std::move(pending);
}

void Acts::wrote(const Ref& who, const std::vector<std::string>& ids) {
  if (!ids.empty()) of_[who].ours.insert(ids.begin(), ids.end());
}

void Acts::begin(const Ref& who, const std::vector<Act>& acts) {
  for (const Act& act : acts) {
    Of& of = of_[who];
    if (of.doing.contains(act.id) || of.cancelling.contains(act.id)) continue;
    of.doing[act.id] = {.what = act.what, .intent = act.intent};
    auto finish = [this, who, id = act.id](Result<json::Value> result) {
      auto found = of_.find(who);
      if (found == of_.end()) return;
      auto at = found->second.doing.find(id);
      if (at == found->second.doing.end()) return;
      Doing& doing = at->second;
      doing.over = true;
      doing.fact.since = scheduler_.clock().now();
      if (result) {
        doing.fact.known = true;
        doing.fact.value = *std::move(result);
      } else {
        doing.fact.error = result.error().text();
      }
      wake_(who);
    };
    auto found = classes_.find(act.what);
    if (found == classes_.end()) {
      finish(Error{.code = Code::Unimplemented, .message = format("nobody does \"{}\"", act.what)});
      continue;
    }
    bool resumed = !of.ours.contains(act.id);
    Pending pending = found->second.perform(act.intent, resumed, std::move(finish));
    // The outcome may have come at once: then there is nothing to wait for.
    Doing& doing = of_.at(who).doing.at(act.id);
    if (!doing.over) doing.pending = std::move(pending);
  }
}

void Acts::forget(const Ref& who) {
  auto found = of_.find(who);
  if (found == of_.end()) return;
  Of of = std::move(found->second);
  of_.erase(found);
  for (auto& [id, doing] : of.doing) {
    if (doing.over) continue;
    doing.pending.reset();
    of.cancelling.emplace(id, newCancelling());
    orphans_.insert(of.cancelling[id]);
    cancel(who, doing.what, doing.intent, of.cancelling[id]);
  }
  for (auto& [id, state] : of.cancelling) {
    if (state->done) {
      orphans_.erase(state);
    } else {
      orphans_.insert(state);
    }
  }
}

void Acts::giveUp() {
  of_.clear();
  orphans_.clear();
}

}  // namespace cadre::engine
