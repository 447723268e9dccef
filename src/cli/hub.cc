#include <CLI/CLI.hpp>
#include <csignal>

#include "base/format.h"
#include "cli/commands.h"
#include "cli/hub_backup.h"
#include "cli/hub_host.h"

namespace cadre::cli {
namespace {

Result<int> runHub(const HubFlags& flags, const Surroundings& surroundings) {
  net::Loop loop;
  CADRE_LET(auto host, HubHost::open(loop, flags));
  surroundings.out(host->kubeconfig() + "\n");
  Pending signals = net::onSignals(loop, {SIGINT, SIGTERM}, [&](int) { loop.stop(); });
  loop.run();
  return 0;
}

}  // namespace

void addHub(CLI::App& app, const Surroundings& surroundings, int& exit_code) {
  auto flags = std::make_shared<HubFlags>();
  auto* command =
      app.add_subcommand("hub", "Serve a Kubernetes API on this machine, without a cluster");
  command->add_option("--data", flags->data, "Folder for its objects, keys and kubeconfig")
      ->required();
  command->add_option("--address", flags->address, "Where to listen")->capture_default_str();
  command->add_option("--port", flags->port, "0: any free one")->capture_default_str();
  command->add_flag("--fast", flags->fast,
                    "Answer before the disk has it: a power cut may take the last seconds");
  auto file = std::make_shared<std::string>();
  auto add = [&](const char* name, const char* what, auto act) {
    auto* sub = command->add_subcommand(name, what)->fallthrough();
    sub->add_option("FILE", *file, "The backup")->required();
    sub->callback([flags, file, act, &surroundings, &exit_code] {
      Result<std::string> done = act(flags->data, *file);
      if (done) surroundings.out(*done + "\n");
      exit_code = done ? 0 : fail(surroundings, done.error().text());
    });
  };
  add("backup", "Write all objects of a hub, also of one that runs, to one file", backUp);
  add("restore", "Make the data of a new hub from a backup", restore);
  command->require_subcommand(0, 1);
  command->callback([command, flags, &surroundings, &exit_code] {
    if (!command->get_subcommands().empty()) return;
    auto ran = runHub(*flags, surroundings);
    exit_code = ran ? *ran : fail(surroundings, ran.error().text());
  });
}

}  // namespace cadre::cli
