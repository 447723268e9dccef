#pragma once

#include <map>
#include <set>

#include "hub/custom.h"
#include "hub/registry.h"
#include "hub/watches.h"

namespace cadre::hub {

// Makes kinds of the CustomResourceDefinitions that there are, and tells in their status what
// became of them.
class Definitions {
 public:
  Definitions(Scheduler& scheduler, Objects& objects, Kinds& kinds, Registry& registry,
              Watches& watches, std::vector<const kube::Kind*> natives);

  // A change that is kept; what was there before the first, as having come.
  void told(const Change& change);
  // What is not checked of the objects of such a definition: for whoever writes it.
  std::vector<std::string> warnings(const Draft& draft) const;

 private:
  // What there is to know of the others: as little as that, for there may be thousands, and large
  // ones.
  struct Others {
    std::map<kube::ObjectKey, json::Value> names;  // {metadata.name, spec.group, acceptedNames}
    std::set<kube::ObjectKey> waiting;             // for names that another one has
  };

  void look(const kube::ObjectKey& key);
  void know(const kube::ObjectKey& key, const json::Value& definition, const json::Value& status);

  Scheduler& scheduler_;
  Objects& objects_;
  Kinds& kinds_;
  Registry& registry_;
  Watches& watches_;
  const std::vector<const kube::Kind*> natives_;
  std::map<std::string, Others, std::less<>> groups_;
  std::map<kube::ObjectKey, Pending> again_;  // what could not be written
};

}  // namespace cadre::hub
