#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "json/value.h"

namespace cadre::cli {

// ---- What there is to know of a machine before `cadre up` runs there. Each was tried, not
// guessed.

// Which limits of pods are kept, by whatever runs them.
struct Limits {
  bool memory = false, processors = false, processes = false;
};

struct Engine {  // Docker's
  std::string socket, version;
  std::string network;  // empty: there was no pod yet
  Limits limits;
};

struct Folder {
  std::string path;
  Result<> writable;
  unsigned user = 0, owner = 0;  // who asks, and whose it is
  unsigned mode = 0700;
  std::uint64_t free_bytes = 0, free_files = 0;
};

struct Machine {
  std::string kernel;
  Result<> pidfd, openat2;  // whether the kernel has them
  Result<> sandbox;         // a process in namespaces of its own; NotFound: without bubblewrap
  std::vector<std::string> closed_settings;  // of the kernel, that forbid it: NAME=VALUE allows it
  Result<Engine> docker = Error{};  // NotFound: no socket; Forbidden: it is not for this user
  std::string docker_socket;
  Limits process_limits;
  Result<> filters;                // of what a network namespace takes and sends, by the kernel
  Result<> any_address, low_port;  // of the loopback
  Folder folder;
  int up_process = 0;  // `cadre up` of that folder
  std::string server;  // its API
  Result<> answers;
  int held_by = 0;  // another program that has the folder's objects
  std::uint16_t port = 0;
  Result<> port_free;
  std::uint64_t open_files = 0, most_open_files = 0;
  std::optional<Time> certificates_from;  // in the folder
  Time now;
};

// ---- What that means

enum class Standing {
  Ok,
  Limited,  // `cadre up` works, with less
  Missing,  // it does not
};
std::string_view standingName(Standing standing);

struct Finding {
  std::string about;
  Standing standing = Standing::Ok;
  std::string meaning;
  std::string remedy = {};  // the command, or what else to do; empty: nothing needs doing, or can

  json::Value toJson() const;
};

// Pure. Always the same checks in the same order.
std::vector<Finding> examine(const Machine& machine);

// What `auto` would choose: "docker", "process", or "" where nothing runs pods.
std::string_view runtimeOf(const Machine& machine);

// Tries all of it. Takes as long as Docker takes to answer, at most some seconds.
Machine lookAround(const std::string& data, std::uint16_t port, const std::string& docker_host);

}  // namespace cadre::cli
