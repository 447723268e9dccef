#include "kinds/kaos/env.h"

#include <algorithm>
#include <map>

namespace cadre::kaos {
namespace {

json::Value entryOf(const EnvVar& variable) {
  json::Value entry = json::Object{{"name", variable.name}};
  if (!variable.value_from.isNull()) {
    entry.make("valueFrom") = variable.value_from;
  } else if (variable.value) {
    entry.make("value") = *variable.value;
  }
  return entry;
}

}  // namespace

void EnvList::add(std::string_view name, std::string_view value) {
  generated_.push_back({std::string(name), json::Object{{"name", name}, {"value", value}}});
}

void EnvList::addFrom(std::string_view name, json::Value source) {
  generated_.push_back(
      {std::string(name), json::Object{{"name", name}, {"valueFrom", std::move(source)}}});
}

void EnvList::addText(std::string_view name, std::string_view text) { add(name, unexpanded(text)); }

void EnvList::addWiring(std::string_view name, std::string_view value) {
  add(name, value);
  generated_.back().against = Against::Wiring;
}

void EnvList::addJoined(std::string_view name, std::string_view value) {
  add(name, value);
  generated_.back().against = Against::Joined;
}

void EnvList::addUser(const Env& user) {
  user_ = user;
  user_at_ = generated_.size();
}

bool EnvList::generates(std::string_view name) const {
  return std::any_of(generated_.begin(), generated_.end(),
                     [&](const Entry& entry) { return entry.name == name; });
}

json::Value EnvList::finish() const {
  json::Array list;
  auto addOwn = [&] {
    for (const EnvVar& variable : user_)
      if (std::none_of(generated_.begin(), generated_.end(),
                       [&](const Entry& entry) { return entry.name == variable.name; }))
        list.push_back(entryOf(variable));
  };
  for (std::size_t i = 0; i <= generated_.size(); ++i) {
    if (i == user_at_) addOwn();
    if (i == generated_.size()) break;
    const Entry& entry = generated_[i];
    auto users = std::find_if(user_.begin(), user_.end(),
                              [&](const EnvVar& one) { return one.name == entry.name; });
    list.push_back(users == user_.end() || entry.against != Against::User ? entry.entry
                                                                          : entryOf(*users));
  }
  return list;
}

std::vector<std::string> EnvList::ignored() const {
  std::vector<std::string> names;
  for (const EnvVar& variable : user_)
    if (std::any_of(generated_.begin(), generated_.end(), [&](const Entry& entry) {
          return entry.against == Against::Wiring && entry.name == variable.name;
        }))
      names.push_back(variable.name);
  return names;
}

Env mergedEnv(const Env& base, const Env& over) {
  Env merged;
  std::map<std::string_view, std::size_t> places;  // a list may be as long as an object
  for (const Env* list : {&base, &over})
    for (const EnvVar& variable : *list) {
      auto [place, is_new] = places.try_emplace(variable.name, merged.size());
      if (is_new) {
        merged.push_back(variable);
      } else {
        merged[place->second] = variable;
      }
    }
  return merged;
}

std::string unexpanded(std::string_view text) {
  // The kubelet takes "$$" for "$"; older ones take the byte after any other "$" for a character.
  auto changes = [](char next) { return next == '(' || next == '$' || (next & 0x80) != 0; };
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '$' && i + 1 < text.size() && changes(text[i + 1])) out += '$';
    out += text[i];
  }
  return out;
}

}  // namespace cadre::kaos
