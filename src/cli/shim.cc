#include "node/shim.h"

#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "node/enter.h"

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

void addEnter(CLI::App& app, const Surroundings&, int& exit_code) {
  struct Flags {
    std::string folder, with;
    std::vector<std::string> words;
  };
  auto flags = std::make_shared<Flags>();
  auto* command = app.add_subcommand("enter", "Run a command in a container")->group("");
  command->add_option("FOLDER", flags->folder)->required();
  command->add_option("WITH", flags->with)->required()->check(CLI::IsMember({"tty", "pipes"}));
  command->add_option("COMMAND", flags->words)->required();
  command->callback([flags, &exit_code] {
    exit_code = node::enterContainer(flags->folder, flags->with == "tty", flags->words);
  });
}

}  // namespace cadre::cli
