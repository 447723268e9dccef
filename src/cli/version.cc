#include <CLI/CLI.hpp>

#include "base/format.h"
#include "cli/cluster.h"
#include "cli/commands.h"
#include "json/write.h"

namespace cadre::cli {

namespace {

struct VersionFlags {
  ClusterFlags cluster;
  bool client_only = false;
  std::string output;
};

int version(const VersionFlags& flags, const Surroundings& surroundings) {
  json::Object versions{{"cadre", CADRE_VERSION}};
  if (!flags.client_only) {
    auto cluster = Cluster::connect(flags.cluster, surroundings);
    if (!cluster) return fail(surroundings, cluster.error().text());
    auto server = (*cluster)->await<json::Value>(
        [&](auto done) { return kube::serverVersion(*(*cluster)->client, std::move(done)); });
    if (!server) return fail(surroundings, server.error().text());
    versions.set("server", (*server)["gitVersion"]);
  }
  if (flags.output == "json") {
    surroundings.out(json::writePretty(versions) + "\n");
    return 0;
  }
  for (const auto& [name, text] : versions)
    surroundings.out(format("{:<8}{}\n", name, text.string()));
  return 0;
}

}  // namespace

void addVersion(CLI::App& app, const Surroundings& surroundings, int& exit_code) {
  auto flags = std::make_shared<VersionFlags>();
  CLI::App* command =
      app.add_subcommand("version", "Show the versions of cadre and of the cluster's API server");
  flags->cluster.addTo(*command, /*with_namespaces=*/false);
  command->add_flag("--client", flags->client_only, "Only cadre's own, without asking a cluster");
  command->add_option("-o,--output", flags->output, "json")->check(CLI::IsMember({"json"}));
  command->callback(
      [&surroundings, &exit_code, flags] { exit_code = version(*flags, surroundings); });
}

}  // namespace cadre::cli
