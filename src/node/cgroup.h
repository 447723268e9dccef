#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cadre::node {

// What a container may use at most; 0: as much as there is.
struct Limits {
  std::int64_t memory_bytes = 0, cpu_millis = 0;
  std::int64_t processes = 4096;  // more are a mistake, and would take the machine with them
};

// Where this process may make control groups, by what they limit: "memory", "cpu", "pids". What is
// missing the system does not let us limit. Both versions of control groups, and both at once.
using ControlFolders = std::map<std::string, std::string, std::less<>>;
ControlFolders controlFolders();
// `mounts`, `own`: /proc/self/mountinfo and /proc/self/cgroup.
ControlFolders controlFolders(std::string_view mounts, std::string_view own);

// The groups of one container, by their folders. An error is of a limit that the system knows and
// does not take.
using ControlGroups = std::vector<std::string>;
Result<ControlGroups> makeGroups(const ControlFolders& folders, const std::string& name,
                                 const Limits& limits);
// This process, and all that come of it.
bool enterGroups(const ControlGroups& groups);
// Whether somebody in them was killed for using too much memory.
bool wasShortOfMemory(const ControlGroups& groups);
// Those that nobody is in any more.
void removeGroups(const ControlGroups& groups);

}  // namespace cadre::node
