#include "node/sandbox.h"

#include <CLI/CLI.hpp>

#include "cli/commands.h"

namespace cadre::cli {

void addSandbox(CLI::App& app, const Surroundings&, int& exit_code) {
  auto table = std::make_shared<std::string>();
  // Not among those that people are shown: the node runs it.
  auto* command = app.add_subcommand("sandbox", "Hold the network of one pod in Docker")->group("");
  command->add_option("FILE", *table)->required();
  command->callback([table, &exit_code] { exit_code = node::runSandbox(*table); });
}

}  // namespace cadre::cli
