#pragma once

// Private to `cli`: one function per command that adds it to the command line. What runs is set by
// the callback, which leaves its exit code in `exit_code`.

#include "base/error.h"
#include "cli/cli.h"

namespace CLI {
class App;
}

namespace cadre::cli {

void addVersion(CLI::App& app, const Surroundings& surroundings, int& exit_code);
void addGet(CLI::App& app, const Surroundings& surroundings, int& exit_code);
void addApply(CLI::App& app, const Surroundings& surroundings, int& exit_code);
void addDelete(CLI::App& app, const Surroundings& surroundings, int& exit_code);
void addWait(CLI::App& app, const Surroundings& surroundings, int& exit_code);
void addEvents(CLI::App& app, const Surroundings& surroundings, int& exit_code);
void addLogs(CLI::App& app, const Surroundings& surroundings, int& exit_code);
void addDescribe(CLI::App& app, const Surroundings& surroundings, int& exit_code);
void addCompletions(CLI::App& app, const Surroundings& surroundings, int& exit_code);
void addHub(CLI::App& app, const Surroundings& surroundings, int& exit_code);
void addEnter(CLI::App& app, const Surroundings& surroundings, int& exit_code);
void addSandbox(CLI::App& app, const Surroundings& surroundings, int& exit_code);
void addShim(CLI::App& app, const Surroundings& surroundings, int& exit_code);
void addExec(CLI::App& app, const Surroundings& surroundings, int& exit_code);
void addPortForward(CLI::App& app, const Surroundings& surroundings, int& exit_code);
void addUp(CLI::App& app, const Surroundings& surroundings, int& exit_code);
void addDown(CLI::App& app, const Surroundings& surroundings, int& exit_code);
void addDoctor(CLI::App& app, const Surroundings& surroundings, int& exit_code);
void addBackup(CLI::App& app, const Surroundings& surroundings, int& exit_code);
void addRestore(CLI::App& app, const Surroundings& surroundings, int& exit_code);
void addOperator(CLI::App& app, const Surroundings& surroundings, int& exit_code);
void addManifests(CLI::App& app, const Surroundings& surroundings, int& exit_code);
void addValidate(CLI::App& app, const Surroundings& surroundings, int& exit_code);
void addPlan(CLI::App& app, const Surroundings& surroundings, int& exit_code);
void addWhy(CLI::App& app, const Surroundings& surroundings, int& exit_code);
void addExplain(CLI::App& app, const Surroundings& surroundings, int& exit_code);

// What a shell may offer after these words, of which the last is being written: one per line, and
// what it is after a tab. Never fails: what cannot be found out is left out.
int complete(const CLI::App& app, const std::vector<std::string>& words,
             const Surroundings& surroundings);

// For a terminal: nothing that a server said may move the cursor or colour what follows.
std::string withoutControls(std::string text);

// Tells a failure in one sentence and gives the exit code for it.
int fail(const Surroundings& surroundings, const std::string& text);
// The same for the everyday verbs, whose code tells two failures apart: 1 where something is not
// there or did not come in time, 2 for all else.
int failWith(const Surroundings& surroundings, const Error& error);

}  // namespace cadre::cli
