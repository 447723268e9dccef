#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/cli.h"
#include "json/value.h"
#include "kube/client.h"
#include "net/loop.h"

namespace cadre::cli {

// ---- What is waiting for what

// What there is to say of workloads while they start.
struct Progress {
  std::size_t all = 0, ready = 0;
  std::vector<std::string> waiting;  // "deployment/web  1/3 ready  ErrImagePull: there is no ..."
  std::vector<std::string> failed;   // the same, of those that will not get ready by themselves

  bool operator==(const Progress&) const = default;
};

// Pure. Of objects with a status of any kind, and of pods: theirs, or on their own.
Progress progressOf(const std::vector<json::Value>& workloads,
                    const std::vector<json::Value>& pods);

// As many lines as there are rows for, none wider than the terminal.
std::vector<std::string> linesOf(const Progress& progress, std::size_t rows, std::size_t columns);

// ---- On a terminal

// Shows the progress below all else that is said on stderr, from when it takes longer than
// Surroundings::patience until nothing is waited for any more. It only moves the cursor: there are
// no colours to turn off. Belongs to the loop; dropping it takes away what is shown.
class UpView {
 public:
  // Whether stderr is a terminal on which lines can be taken back.
  static bool isPossible(const Surroundings& surroundings);

  // `kinds`: of the workloads, without pods.
  UpView(net::Loop& loop, kube::Client& client, std::vector<kube::Resource> kinds,
         const Surroundings& surroundings);
  ~UpView();

  // A whole line that somebody else has to say.
  void say(std::string_view line);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cadre::cli
