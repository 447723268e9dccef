#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "node/pod_data.h"
#include "node/runtime.h"

namespace cadre::node {

// The files of pods, below one folder: FOLDER/pods/<uid>/volumes/<name>, and FOLDER/claims/<ns>/
// <name> for what outlives them.
class Volumes {
 public:
  // `names`: what goes into the hosts files of a namespace's pods.
  Volumes(std::string folder, Function<std::string(std::string_view ns)> names)
      : folder_(std::move(folder)), names_(std::move(names)) {}

  using Places = std::map<std::string, std::string>;  // on this machine, by volume
  // Makes all that the containers of a pod mount.
  Result<Places> make(const json::Value& pod, const std::string& hostname,
                      const Lookup& lookup) const;
  // What one of them mounts, and where. An error is about the pod's own words.
  Result<std::vector<Mount>> mount(const json::Value& pod, const json::Value& container,
                                   const Places& places,
                                   const std::map<std::string, std::string>& env) const;
  // Names have changed: those who run are told, too.
  Result<> writeHosts(const json::Value& pod, const std::string& hostname) const;
  // Brings the files that come from the API up to date, each volume at once.
  Result<> refresh(const json::Value& pod, const Lookup& lookup) const;
  // Nothing of a pod stays but its claims.
  void forget(const json::Value& pod) const;
  // The same for all but these, by their uids.
  void keepOnly(const std::set<std::string>& pods) const;

 private:
  Result<std::string> make(const json::Value& pod, const json::Value& volume,
                           const Lookup& lookup) const;
  std::string folderOf(const json::Value& pod) const;

  const std::string folder_;
  const Function<std::string(std::string_view ns)> names_;
};

// What the containers of a pod print is kept there.
std::string logFolder(const std::string& folder, const json::Value& pod);

}  // namespace cadre::node
