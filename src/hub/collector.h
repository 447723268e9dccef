#pragma once

#include <deque>
#include <map>
#include <set>
#include <string>

#include "hub/registry.h"

namespace cadre::hub {

// Deletes what has to go because something else went: what belongs to an owner that is gone, what
// is in a namespace that goes, and the objects of a kind that goes. It sees every change, and does
// a little at a time, and again later where it could not. Whether a request may delete is not its
// business; webhooks are asked, as of anybody else.
class Collector {
 public:
  // Says whether webhooks let it go, at once or later.
  using Admit = Function<void(const KindRef& kind, const Stored& state, const Deleting& deleting,
                              Function<void(bool admitted)> then)>;

  Collector(Scheduler& scheduler, Objects& objects, const Kinds& kinds, Registry& registry,
            Admit admit);

  // A change that is kept. What was there before the first is told as having come.
  void told(const Change& change);

 private:
  using Name = std::pair<std::string, kube::ObjectKey>;  // resource and key

  void look(const Name& name);
  void lookLater(const Name& name);
  void lookIn(const Name& name, Duration pause);  // unless that is on its way
  void lookAgain(const Name& name);               // something of it failed
  // What was written just now because of that one may not be kept.
  void mayFail(const Name& name);
  void work();

  void finishNamespace(const Name& name, const json::Value& object);
  // The conditions of a namespace that waits say for what.
  void tellRemains(const Name& name, json::Value object, const std::set<Name>& contents);
  void finishKind(const Name& name, const json::Value& object);
  void releaseDependents(const Name& name, const json::Value& object);
  void deleteDependents(const Name& name, const json::Value& object);
  void checkOwners(const Name& name, const json::Value& object);
  // Writes the object as it is then; nothing when it has changed meanwhile, which is told, too.
  bool write(const Name& name, json::Value object, std::string_view subresource = "");
  // `because` is looked at again where it cannot be done.
  void remove(const Name& name, std::string_view propagation, const Name& because);
  // What an owner is called by those that refer to it.
  struct Identity {
    std::string group, kind;
    kube::ObjectKey key;
  };
  Identity identityOf(const Name& name) const;
  // A uid alone says nothing: whoever names another kind or name, or is elsewhere, means another.
  static bool isMeant(const Identity& owner, const kube::OwnerReference& reference,
                      const Name& dependent);
  // Whether an owner is there, or may be: what is of a kind that nobody knows here is not gone.
  bool isThere(const Name& dependent, const kube::OwnerReference& owner) const;
  bool waitsForDependents(const Name& name) const;
  void unblockOwners(const Name& name, json::Value object);

  Scheduler& scheduler_;
  Objects& objects_;
  const Kinds& kinds_;
  Registry& registry_;
  std::map<std::string, Name> by_uid_;
  std::map<std::string, std::set<Name>> dependents_;  // by the owner's uid
  std::map<std::string, Identity> gone_;              // of those, the owners that were there once
  std::map<std::string, std::set<Name>> by_namespace_;
  std::deque<Name> waiting_;
  std::set<Name> queued_;
  Pending working_;
  const Admit admit_;
  std::set<Name> asking_;         // whose deletion webhooks are asked about
  std::set<Name> unsure_;         // because of which something was written, and is not kept yet
  std::map<Name, int> failures_;  // in a row
  std::map<Name, Pending> delayed_;
};

}  // namespace cadre::hub
