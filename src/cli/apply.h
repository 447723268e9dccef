#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/cluster.h"
#include "cli/files.h"

namespace cadre::cli {

struct Applying {
  // `cadre up -f` is the same as `cadre apply`, so that what it began with can be applied again
  // without a conflict.
  std::string field_manager = "cadre";
  std::string ns = "default";  // of objects that name none
  bool only_ns = false;        // an object that names another one is refused
  bool force = false;          // takes fields over from other managers
  bool dry_run = false;
  // "deployment.apps/web", and what became of it: created, configured or unchanged.
  Function<void(const std::string& title, std::string_view what)> applied;
  // One object that was not applied, and why. The others are.
  Function<void(const Error& error)> failed;
};

// In which order objects are made: what others live in or are made of comes first.
void sortForApply(std::vector<FromFile>& objects);

// Server-side apply of all of them. A kind that a definition among them brings is waited for.
// Fails only where the server cannot be asked at all.
Result<> applyObjects(Cluster& cluster, std::vector<FromFile> objects, const Applying& applying);

}  // namespace cadre::cli
