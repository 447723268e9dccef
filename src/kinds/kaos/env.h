#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "json/value.h"
#include "kinds/kaos/types.h"

namespace cadre::kaos {

// A container's variables, one entry per name, always in the same order.
class EnvList {
 public:
  // Generated: a user's entry of that name takes its place.
  void add(std::string_view name, std::string_view value);
  // By reference: {"secretKeyRef": ...}.
  void addFrom(std::string_view name, json::Value source);
  // Text of a user that we put there: the kubelet must not expand anything in it.
  void addText(std::string_view name, std::string_view text);
  // What holds the parts together: a user's entry of that name is passed over.
  void addWiring(std::string_view name, std::string_view value);
  // Generated, with the user's value in it already.
  void addJoined(std::string_view name, std::string_view value);
  // Here stand those of the user's that are not generated.
  void addUser(const Env& user);
  // The list as a Pod has it.
  json::Value finish() const;

  // Names of a user that lost against the wiring.
  std::vector<std::string> ignored() const;
  bool generates(std::string_view name) const;

 private:
  enum class Against { User, Joined, Wiring };  // what becomes of a user's entry of that name
  struct Entry {
    std::string name;
    json::Value entry;
    Against against = Against::User;
  };
  std::vector<Entry> generated_;
  Env user_;
  std::size_t user_at_ = 0;
};

// Both lists as one, of each name the last: entries of `over` take the place of their namesakes.
Env mergedEnv(const Env& base, const Env& over);
// Every "$(" as "$$(", and what else the kubelet would not pass on as it stands.
std::string unexpanded(std::string_view text);

}  // namespace cadre::kaos
