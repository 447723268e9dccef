#include "node/sandbox.h"

#include <CLI/CLI.hpp>

#include "cli/commands.h"

namespace cadre::cli {

void addSandbox(CLI::App& app, const Surroundings&, int& exit_code) {
  // Not among those that people are shown: the node runs it.
  auto* command = app.add_subcommand("sandbox", "Hold the network of one pod in Docker")->group("");
  command->callback([&exit_code] { exit_code = node::runSandbox(); });
}

}  // namespace cadre::cli
