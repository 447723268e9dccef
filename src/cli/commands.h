#pragma once

// Private to `cli`: one function per command that adds it to the command line. What runs is set by
// the callback, which leaves its exit code in `exit_code`.

#include "cli/cli.h"

namespace CLI {
class App;
}

namespace cadre::cli {

void addVersion(CLI::App& app, const Surroundings& surroundings, int& exit_code);
void addGet(CLI::App& app, const Surroundings& surroundings, int& exit_code);
void addHub(CLI::App& app, const Surroundings& surroundings, int& exit_code);
void addSandbox(CLI::App& app, const Surroundings& surroundings, int& exit_code);
void addShim(CLI::App& app, const Surroundings& surroundings, int& exit_code);
void addUp(CLI::App& app, const Surroundings& surroundings, int& exit_code);
void addDown(CLI::App& app, const Surroundings& surroundings, int& exit_code);
void addOperator(CLI::App& app, const Surroundings& surroundings, int& exit_code);
void addManifests(CLI::App& app, const Surroundings& surroundings, int& exit_code);
void addValidate(CLI::App& app, const Surroundings& surroundings, int& exit_code);
void addPlan(CLI::App& app, const Surroundings& surroundings, int& exit_code);
void addWhy(CLI::App& app, const Surroundings& surroundings, int& exit_code);
void addExplain(CLI::App& app, const Surroundings& surroundings, int& exit_code);

// For a terminal: nothing that a server said may move the cursor or colour what follows.
std::string withoutControls(std::string text);

// Tells a failure in one sentence and gives the exit code for it.
int fail(const Surroundings& surroundings, const std::string& text);

}  // namespace cadre::cli
