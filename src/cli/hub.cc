#include <CLI/CLI.hpp>
#include <csignal>

#include "base/format.h"
#include "cli/commands.h"
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
  command->callback([flags, &surroundings, &exit_code] {
    auto ran = runHub(*flags, surroundings);
    exit_code = ran ? *ran : fail(surroundings, ran.error().text());
  });
}

}  // namespace cadre::cli
