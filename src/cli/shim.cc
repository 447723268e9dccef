#include "node/shim.h"

#include <CLI/CLI.hpp>

#include "cli/commands.h"

namespace cadre::cli {

void addShim(CLI::App& app, const Surroundings& surroundings, int& exit_code) {
  auto folder = std::make_shared<std::string>();
  // Not among those that people are shown: the node runs it.
  auto* command = app.add_subcommand("shim", "Run one container for the node")->group("");
  command->add_option("FOLDER", *folder)->required();
  command->callback([folder, &surroundings, &exit_code] {
    auto started = node::startShim(*folder);
    exit_code = started ? 0 : fail(surroundings, started.error().text());
  });
}

}  // namespace cadre::cli
