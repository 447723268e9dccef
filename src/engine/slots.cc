#include "engine/slots.h"

#include <algorithm>

namespace cadre::engine {

bool Slots::admits(const Ref& who, const Turn& turn) const {
  auto found = pools_.find(turn.pool);
  if (turn.holds || (found != pools_.end() && found->second.holders.contains(who))) return true;
  if (!open_) return false;
  if (found == pools_.end()) return turn.limit > 0;
  const Pool& pool = found->second;
  auto place = std::find(pool.waiting.begin(), pool.waiting.end(), who) - pool.waiting.begin();
  return pool.holders.size() + static_cast<std::size_t>(place) < turn.limit;
}

std::vector<Ref> Slots::ask(const Ref& who, const std::vector<Turn>& turns) {
  auto before = asked_.find(who);
  if (turns.empty() && before == asked_.end()) return {};
  bool changed = false;
  std::set<std::string> asks;
  for (const Turn& turn : turns) {
    bool admitted = admits(who, turn);
    Pool& pool = pools_[turn.pool];
    changed |= pool.limit < turn.limit;
    pool.limit = turn.limit;
    asks.insert(turn.pool);
    auto place = std::find(pool.waiting.begin(), pool.waiting.end(), who);
    if (admitted) {
      pool.holders.insert(who);
      if (place != pool.waiting.end()) pool.waiting.erase(place);
    } else if (place == pool.waiting.end()) {
      pool.waiting.push_back(who);
    }
  }
  if (before != asked_.end()) {
    for (const std::string& name : before->second) {
      if (asks.contains(name)) continue;
      changed = true;
      Pool& pool = pools_.at(name);
      pool.holders.erase(who);
      std::erase(pool.waiting, who);
      if (pool.holders.empty() && pool.waiting.empty()) pools_.erase(name);
    }
  }
  if (asks.empty()) {
    asked_.erase(who);
  } else {
    asked_[who] = std::move(asks);
  }
  return changed ? ready() : std::vector<Ref>();
}

std::vector<Ref> Slots::ready() const {
  std::vector<Ref> ready;
  if (!open_) return ready;
  for (const auto& [name, pool] : pools_)
    for (std::size_t i = 0; i < pool.waiting.size() && pool.holders.size() + i < pool.limit; ++i)
      ready.push_back(pool.waiting[i]);
  return ready;
}

}  // namespace cadre::engine
