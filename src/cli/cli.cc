#include "cli/cli.h"

#include <CLI/CLI.hpp>

#include "cli/commands.h"

namespace cadre::cli {

int fail(const Surroundings& surroundings, const std::string& text) {
  surroundings.err("cadre: " + text + "\n");
  return 1;
}

int run(const std::vector<std::string>& arguments, const Surroundings& surroundings) {
  CLI::App app("Cadre: a control plane for agents, on any Kubernetes cluster", "cadre");
  app.require_subcommand(1);
  int exit_code = 0;
  addVersion(app, surroundings, exit_code);
  addGet(app, surroundings, exit_code);
  try {
    // CLI11 takes them from the back.
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::CallForHelp&) {
    // Of the command that was asked about, which is the innermost.
    const CLI::App* about = &app;
    while (!about->get_subcommands().empty()) about = about->get_subcommands().front();
    surroundings.out(about->help());
    return 0;
  } catch (const CLI::ParseError& error) {
    surroundings.err(std::string("cadre: ") + error.what() + "; see `cadre --help`\n");
    return 2;
  }
  return exit_code;
}

}  // namespace cadre::cli
