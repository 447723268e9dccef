#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "hub/objects.h"
#include "kube/validate.h"

namespace cadre::hub {

// Which Service has which cluster IP and which node ports: each has its own. It follows from the
// Services that there are, each read once for each of its versions.
class ServiceAddresses {
 public:
  ServiceAddresses(const Objects& objects, Random& random) : objects_(objects), random_(random) {}

  // From now on addresses are on the loopback, where somebody serves them, and not in a range that
  // leads nowhere.
  void beOnLoopback() { loopback_ = true; }
  // Gives a Service what it lacks, or says what another one has of that which it asks for.
  std::vector<kube::FieldError> give(json::Value& service);

 private:
  using Owner = kube::ObjectKey;

  struct Held {
    std::int64_t revision = 0;  // that it was read at
    std::string address;
    std::vector<std::int64_t> ports;
  };

  static Held heldBy(const json::Value& service);
  void look();
  bool isTaken(const std::string& address, const Owner& by) const;
  std::optional<kube::FieldError> giveAddress(json::Value& spec, const Owner& owner);
  // `taken`: no new one is one of these; `others`: those that no Service may ask for.
  std::optional<kube::FieldError> givePort(json::Value& place, const std::string& path,
                                           std::set<std::int64_t>& taken,
                                           const std::set<std::int64_t>& others);

  const Objects& objects_;
  Random& random_;
  bool loopback_ = false;
  std::map<Owner, Held> held_;
};

}  // namespace cadre::hub
