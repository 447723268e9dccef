#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/function.h"
#include "base/time.h"

namespace cadre::cli {

// What a command sees of the world outside. Data goes to `out`, talk to `err`.
struct Surroundings {
  std::map<std::string, std::string> env;
  Function<void(std::string_view)> out;
  Function<void(std::string_view)> err;
  // How long something may take before it is told what it waits for.
  Duration patience = 2s;
};

// Runs one command line (without the program's name) and returns its exit code: 0 done, 1 it
// failed, 2 the command line is wrong. Never throws; every failure is told on `err` in one sentence
// that says what to do.
int run(std::vector<std::string> arguments, const Surroundings& surroundings);

}  // namespace cadre::cli
