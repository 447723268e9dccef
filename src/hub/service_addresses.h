#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/random.h"
#include "hub/objects.h"
#include "kube/validate.h"

namespace cadre::hub {

// Which Service has which cluster IP and which node ports: each has its own. It is found out when
// the first one is given, and follows from the objects that there are: what a Service no longer has
// is free, whatever became of it.
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

  void know(const json::Value& service);
  template <class Key>
  bool isTaken(const std::map<Key, Owner>& owners, const Key& key, const Owner& by,
               bool (*has)(const json::Value& service, const Key& key)) const;
  std::optional<kube::FieldError> giveAddress(json::Value& spec, const Owner& owner);
  std::optional<kube::FieldError> givePort(json::Value& place, const std::string& path,
                                           const Owner& owner);

  const Objects& objects_;
  Random& random_;
  bool loopback_ = false, known_ = false;
  // Who had it last, and may still have it.
  std::map<std::string, Owner> addresses_;
  std::map<std::int64_t, Owner> ports_;
};

}  // namespace cadre::hub
