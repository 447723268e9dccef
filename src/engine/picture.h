#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/metrics.h"
#include "engine/reconcile.h"
#include "engine/table.h"
#include "engine/world.h"
#include "kube/watch.h"

namespace cadre::engine {

// Which objects of a kind are watched.
struct Scope {
  enum class Which {
    Ours,  // those with our label: children, and what they make
    All,   // in the watched namespaces
    None,
  };
  kube::Resource resource;
  Which which = Which::Ours;
  bool named = false;  // beyond those, each by itself as long as a plan reads it
  std::vector<Index> indexes = {};
};

// What is known of the cluster: a table per kind, kept current by watches. Values of Secrets stay
// outside; a keyed hash stands for each. Belongs to the client's thread.
class Picture {
 public:
  struct Options {
    std::vector<std::string> namespaces = {};  // empty: everywhere
    bool whole = false;                        // children are in kinds that are watched whole, too
    Function<std::string(std::string_view value)> hash_secret = {};
    Logger* logger = nullptr;
    Metrics* metrics = nullptr;
  };
  // Told of every change, while it is already in the table; and when a kind came, went, or is known
  // for the first time.
  using Changed = Function<void(const kube::Resource& resource, const Table& table,
                                const Table::Change& change)>;
  using StateChanged = Function<void(const kube::Resource& resource)>;

  Picture(kube::Client& client, Random& random, Options options, Changed changed,
          StateChanged state_changed);
  ~Picture();
  Picture(const Picture&) = delete;

  // Begins to watch. `served`: it has plans of its own. The first word on a kind counts.
  void know(Scope scope, bool served);

  Source::State state(const kube::Resource& resource) const;
  // Where single objects may be read, this begins to watch it.
  Source::State state(const Ref& ref);
  std::optional<json::Value> find(const Ref& ref) const;
  // Whether it is among those that are watched together, and not only by itself.
  bool holds(const Ref& ref) const;
  std::vector<kube::ObjectKey> keys(const kube::Resource& resource, std::string_view index,
                                    const std::string& value) const;
  // Everything that carries the owner's mark.
  std::vector<Ref> owned(std::string_view owner_uid) const;
  bool knows(const kube::Resource& resource) const { return known_.contains(resource); }

  // The object by itself, whatever its labels are; until it is forgotten.
  Source::State watchAlone(const Ref& ref);
  void forgetAlone(const Ref& ref);

  // The answer to a write of ours, which is newer than what the watch has told.
  void fold(const Ref& ref, json::Value answer);
  void drop(const Ref& ref);
  // The object as it is shown here.
  json::Value admitted(const kube::Resource& resource, json::Value object) const;

  // The first pictures of all that is watched for its own sake are there; or of all children.
  bool synced() const;
  bool childrenKnown() const;
  // All that was known before is listed once more: nothing of it is older than this call, but for
  // objects that are watched by themselves. Until then, `current` says no.
  void drawAnew();
  bool current() const;
  // What is in the way of watching, per kind; empty when all is well.
  std::map<std::string, std::string> troubles() const;

  void countWrite(const Write& write);
  void countAccepted(const kube::Resource& resource);

 private:
  struct Known;
  void feed(Known& known, kube::Selection select);
  Known& alone(Known& known, const kube::ObjectKey& key);

  kube::Client& client_;
  Random& random_;
  const Options options_;
  Logger& logger_;
  const Changed changed_;
  const StateChanged state_changed_;
  std::map<kube::Resource, std::unique_ptr<Known>> known_;
};

}  // namespace cadre::engine
