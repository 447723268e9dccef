#include "node/sandbox.h"

#include <CLI/CLI.hpp>

#include "cli/commands.h"

namespace cadre::cli {

void addSandbox(CLI::App& app, const Surroundings&, int& exit_code) {
  struct Files {
    std::string table, policy;
  };
  auto files = std::make_shared<Files>();
  // Not among those that people are shown: the node runs it.
  auto* command = app.add_subcommand("sandbox", "Hold the network of one pod in Docker")->group("");
  command->add_option("TABLE", files->table)->required();
  command->add_option("POLICY", files->policy)->required();
  command->callback(
      [files, &exit_code] { exit_code = node::runSandbox(files->table, files->policy); });
}

}  // namespace cadre::cli
