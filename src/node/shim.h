#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "json/value.h"
#include "node/cgroup.h"

namespace cadre::node {

// One run of a container, apart from the program that wanted it: a process of its own starts it,
// writes down what it prints, reaps it and keeps its exit code. It outlives a node that is killed,
// and the next one finds it by its folder:
//   lock         locked as long as it lives; its process id
//   state.json   what is known: {pid, startedAt}, in the end with {finishedAt, exitCode, ...}
// All in it dies with it. SIGTERM is passed on to the container; SIGUSR1 ends it at once.
struct ShimOrder {
  std::vector<std::string> sandbox;  // bwrap's options; not shown to other users
  std::vector<std::string> command;
  std::string log;      // "TIME stdout F text" by line, as container runtimes write it
  std::string address;  // of its pod, for what it binds; empty: none
  std::string image;    // which it was made of
  std::string tree;     // at FOLDER/merged it is to be written to; empty: none
  Limits limits;
  std::size_t max_log_bytes = 10u << 20;  // then it becomes LOG.1, and that is gone

  json::Value toJson() const;
  static Result<ShimOrder> parse(const json::Value& value);
};

struct ShimState {
  bool alive = false;
  int process = 0;  // of the shim, also when it has ended: another may have the number by then
  int inner = 0;    // the first one of the container
  std::string address, image;
  ControlGroups groups;
  bool was_short = false;  // of memory
  std::optional<Time> started, finished;
  int code = 0;
  std::string error;  // why it could not be started, or why nothing is known of its end
};

// The whole of `cadre shim FOLDER`: takes the order from stdin, begins, and returns when the
// container runs or cannot. What is left behind is not a child of the caller.
Result<> startShim(const std::string& folder);

// What became of it. Nothing was ever started in a folder without a state: this makes sure of it,
// also for a start that is still under way.
ShimState readShim(const std::string& folder);

}  // namespace cadre::node
