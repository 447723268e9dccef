#include "cli/cli.h"

#include <CLI/CLI.hpp>

#include "cli/commands.h"

namespace cadre::cli {

std::string withoutControls(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  return text;
}

int fail(const Surroundings& surroundings, const std::string& text) {
  surroundings.err("cadre: " + withoutControls(text) + "\n");
  return 1;
}

int failWith(const Surroundings& surroundings, const Error& error) {
  fail(surroundings, error.text());
  return error.reason == "NotFound" || error.code == Code::DeadlineExceeded ? 1 : 2;
}

int run(std::vector<std::string> arguments, const Surroundings& surroundings) {
  if (!arguments.empty() && arguments[0] == "--version") arguments[0] = "version";
  CLI::App app("Cadre: a control plane for agents, on any Kubernetes cluster", "cadre");
  app.require_subcommand(1);
  app.add_flag("--version")->description("The same as the command version");
  int exit_code = 0;
  addVersion(app, surroundings, exit_code);
  addGet(app, surroundings, exit_code);
  addApply(app, surroundings, exit_code);
  addDelete(app, surroundings, exit_code);
  addWait(app, surroundings, exit_code);
  addEvents(app, surroundings, exit_code);
  addLogs(app, surroundings, exit_code);
  addDescribe(app, surroundings, exit_code);
  addCompletions(app, surroundings, exit_code);
  addOperator(app, surroundings, exit_code);
  addHub(app, surroundings, exit_code);
  addEnter(app, surroundings, exit_code);
  addShim(app, surroundings, exit_code);
  addExec(app, surroundings, exit_code);
  addPortForward(app, surroundings, exit_code);
  addSandbox(app, surroundings, exit_code);
  addUp(app, surroundings, exit_code);
  addDown(app, surroundings, exit_code);
  addDoctor(app, surroundings, exit_code);
  addBackup(app, surroundings, exit_code);
  addRestore(app, surroundings, exit_code);
  addManifests(app, surroundings, exit_code);
  addValidate(app, surroundings, exit_code);
  addPlan(app, surroundings, exit_code);
  addWhy(app, surroundings, exit_code);
  addExplain(app, surroundings, exit_code);
  // Before anything is parsed: the words are those of another command line.
  if (!arguments.empty() && arguments[0] == "complete")
    return complete(app, {arguments.begin() + 1, arguments.end()}, surroundings);
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
