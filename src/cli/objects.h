#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/cluster.h"
#include "kube/discovery.h"

namespace cadre::cli {

// One kind that a command line names, and which objects of it.
struct Named {
  kube::Resource resource;
  std::vector<std::string> names = {};  // empty: all of them
};

// As kubectl takes them: "pods", "pods web", "pods,services" or "pods/web services/db".
Result<std::vector<Named>> namedBy(const std::vector<std::string>& words,
                                   const kube::Discovery& discovery);

// "deployment.apps/web": how an object is told of, and how it may be named again.
std::string titleOf(const kube::Resource& resource, std::string_view name);

// The objects that a command is about: by name, by their labels, or all of a kind.
struct ObjectFlags {
  std::vector<std::string> words;
  std::string labels;
  bool all = false;

  // Optional where the command has another way to say what it is about.
  enum class Words { Needed, Optional };
  void addTo(CLI::App& command, Words words_are);
  // Where a kind alone could be a slip: InvalidArgument unless names, labels or --all are given.
  Result<> sayWhich(const std::vector<Named>& named) const;
};

// One that was asked for.
struct Found {
  kube::Resource resource;
  kube::ObjectKey key;
  json::Value object = {};  // null: it was asked for by name and is not there

  std::string title() const { return titleOf(resource, key.name); }
};

// What is there of what is named, by kind and in the order of the names.
Result<std::vector<Found>> findObjects(Cluster& cluster, const std::vector<Named>& named,
                                       const ObjectFlags& flags);

// Nothing has that name: what the server would say.
Error notThere(const Found& found);
// No object of these kinds is there: "no pods, services found in namespace shop".
std::string nothingFound(const std::vector<Named>& named, const std::string& ns);

// ---- Waiting for one object

struct Waiting {
  kube::Resource resource;
  kube::ObjectKey key;
  Duration timeout;
  // Looks at it as it is now; null: it is not there.
  Function<bool(const json::Value& object)> holds;
  // What is still missing, in words. Told whenever it has changed, once it takes long.
  Function<std::string(const json::Value& object)> missing;
};

inline constexpr Duration kForEver = 24h * 365;

// Follows an object until something holds of it; false: it did not in time. Fails where it may not
// be watched; a server that is away for a while is waited for.
Result<bool> waitUntil(Cluster& cluster, const Waiting& waiting, const Surroundings& surroundings);

}  // namespace cadre::cli
