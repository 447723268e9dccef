#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "json/value.h"

namespace cadre::node {

// One run of a container, as its runtime and its probes know it.
struct Run {
  enum class State { Starting, Running, Ended };

  int attempt = 0;  // how many there were before
  State state = State::Starting;
  std::string id = {};  // "process://..."
  std::string image_id = {};
  Time started = {}, ended = {};
  int code = 0;
  std::string reason = {}, message = {};       // of an end that needs more words than its code
  bool up = true, ready = true, alive = true;  // as the probes say: startup, readiness, liveness
  std::optional<Time> stopping = {};           // since when it is asked to end
};

// A container, as far as anybody has seen it.
struct Seen {
  std::optional<Run> run, before;         // the newest one, and the one before it
  int crashes = 0;                        // ends in a row, each soon after its start
  std::string reason = {}, message = {};  // what keeps it from being started
};

struct PodSeen {
  std::map<std::string, Seen, std::less<>> containers;
  std::string address, host_address;
};

// Why a container is not started whose volumes, or whose pod's network, cannot be made yet.
inline constexpr std::string_view kNotFurnished = "ContainerCreating";

// What is to be done for a pod, and what there is to say of it.
struct PodStep {
  struct Stop {
    std::string container;
    bool kill = false;  // else it is asked to end
  };

  std::vector<std::string> start;  // containers: their next run
  std::vector<Stop> stop;
  json::Value status;
  std::optional<Time> due;  // look again then, whatever happens
  bool over = false;        // it was deleted and nothing of it runs: it can go
};

// What the pod needs next. Pure: the same pod, seen in the same way at the same time, needs the
// same. Init containers come one after the other, sidecars among them stay; then all others, again
// and again as the restart policy says, ever later if they end soon.
PodStep stepOf(const json::Value& pod, const PodSeen& seen, Time now);

// An end counts as a crash unless the run lasted this long.
inline constexpr Duration kLongRun = 10min;

}  // namespace cadre::node
