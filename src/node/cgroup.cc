#include "node/cgroup.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <sstream>

#include <sys/stat.h>
#include <unistd.h>

#include "base/format.h"
#include "base/strings.h"
#include "node/files.h"

namespace cadre::node {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kControllers[] = {"memory", "cpu", "pids"};
constexpr std::int64_t kPeriodMicros = 100'000, kShortestMicros = 1000;

std::set<std::string> words(std::string_view text, char between) {
  std::set<std::string> out;
  for (std::string_view one : split(text, between)) out.emplace(trim(one));
  return out;
}

bool put(const fs::path& file, std::string_view text) {
  std::ofstream out(file, std::ios::binary);
  out << text;
  out.flush();
  return bool(out);
}

bool isOurs(const fs::path& path) { return access(path.c_str(), W_OK) == 0; }

bool isThere(const fs::path& file) {
  std::error_code ignored;
  return fs::exists(file, ignored);
}

// Version 2: below the nearest that hands controllers on to others and lets us move there, which is
// not the one we are in: a group with processes has no groups with limits.
void addHandedOn(ControlFolders& out, const fs::path& mount, const fs::path& own) {
  for (fs::path at = own;; at = at.parent_path()) {
    const fs::path folder = (mount / at.relative_path()).lexically_normal();
    const auto handed_on = words(readText(folder / "cgroup.subtree_control"), ' ');
    if (handed_on.contains("memory") && isOurs(folder) && isOurs(folder / "cgroup.procs")) {
      for (std::string_view one : kControllers)
        if (handed_on.contains(std::string(one))) out.try_emplace(std::string(one), folder);
      return;
    }
    if (!at.has_relative_path()) return;
  }
}

}  // namespace

ControlFolders controlFolders(std::string_view mounts, std::string_view own) {
  std::map<std::string, fs::path> groups;  // by controller; of version 2: by none
  for (std::string_view line : split(own, '\n')) {
    auto [controllers, path] = cut(cut(line, ":").second, ":");
    if (path.empty()) continue;
    for (const std::string& one : words(controllers, ',')) groups[one] = path;
  }
  ControlFolders out;
  for (std::string_view line : split(mounts, '\n')) {
    auto [before, after] = cut(line, " - ");
    std::istringstream first{std::string(before)}, second{std::string(after)};
    std::string skip, root, mount, type, source, options;
    first >> skip >> skip >> skip >> root >> mount;
    second >> type >> source >> options;
    // A mount may show only a part, and that without us.
    auto below = [&](const std::string& controller) -> std::optional<fs::path> {
      auto group = groups.find(controller);
      if (group == groups.end()) return std::nullopt;
      fs::path path = group->second.lexically_relative(root);
      if (path.empty() || *path.begin() == "..") return std::nullopt;
      return path == "." ? fs::path("/") : fs::path("/") / path;
    };
    if (auto path = type == "cgroup2" ? below("") : std::nullopt) addHandedOn(out, mount, *path);
    if (type != "cgroup") continue;
    for (const std::string& one : words(options, ',')) {
      auto path = std::ranges::find(kControllers, one) != std::end(kControllers) ? below(one)
                                                                                 : std::nullopt;
      if (!path) continue;
      const fs::path folder = (mount / path->relative_path()).lexically_normal();
      if (isOurs(folder)) out.try_emplace(one, folder);
    }
  }
  return out;
}

ControlFolders controlFolders() {
  return controlFolders(readText("/proc/self/mountinfo"), readText("/proc/self/cgroup"));
}

Result<ControlGroups> makeGroups(const ControlFolders& folders, const std::string& name,
                                 const Limits& limits) {
  const std::string memory = format("{}", limits.memory_bytes);
  const std::string quota =
      format("{}", std::max(limits.cpu_millis * kPeriodMicros / 1000, kShortestMicros));
  struct Control {
    std::string_view controller;
    bool wanted;
    std::vector<std::pair<std::string_view, std::string>> files;  // a group has those it knows
  };
  const Control controls[] = {
      {"memory",  // none on a disk, and who is short of it dies as a whole
       limits.memory_bytes > 0,
       {{"memory.max", memory},
        {"memory.swap.max", "0"},
        {"memory.oom.group", "1"},
        {"memory.limit_in_bytes", memory},
        {"memory.memsw.limit_in_bytes", memory}}},
      {"cpu",
       limits.cpu_millis > 0,
       {{"cpu.max", format("{} {}", quota, kPeriodMicros)}, {"cpu.cfs_quota_us", quota}}},
      {"pids", limits.processes > 0, {{"pids.max", format("{}", limits.processes)}}}};
  ControlGroups out;
  for (const Control& control : controls) {
    auto folder = folders.find(control.controller);
    if (!control.wanted || folder == folders.end()) continue;
    fs::path group = fs::path(folder->second) / name;
    if (mkdir(group.c_str(), 0755) != 0 && errno != EEXIST)
      return Error{.code = Code::Unavailable,
                   .message = format("cannot make {}: {}", group.string(), std::strerror(errno))};
    if (std::ranges::find(out, group.string()) == out.end()) out.push_back(group);
    for (const auto& [file, text] : control.files)
      if (isThere(group / file) && !put(group / file, text)) {
        removeGroups(out);
        return Error{.code = Code::InvalidArgument,
                     .message = format("this system does not take {} as {}", text, file)};
      }
  }
  return out;
}

bool enterGroups(const ControlGroups& groups) {
  return std::ranges::all_of(
      groups, [](const fs::path& group) { return put(group / "cgroup.procs", "0"); });
}

bool wasShortOfMemory(const ControlGroups& groups) {
  for (const fs::path group : groups)
    for (const char* file : {"memory.events", "memory.oom_control"}) {
      const std::string text = readText(group / file);
      for (std::string_view line : split(text, '\n'))
        if (auto [key, value] = cut(line, " "); key == "oom_kill" && value != "0") return true;
    }
  return false;
}

void removeGroups(const ControlGroups& groups) {
  for (const std::string& group : groups) rmdir(group.c_str());
}

}  // namespace cadre::node
