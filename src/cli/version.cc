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

Result<json::Value> serverVersion(const ClusterFlags& flags, const Surroundings& surroundings) {
  CADRE_LET(auto cluster, Cluster::connect(flags, surroundings));
  CADRE_LET(json::Value server, cluster->await<json::Value>([&](auto done) {
    return kube::serverVersion(*cluster->client, std::move(done));
  }));
  return server["gitVersion"];
}

// cadre's own is known whatever the cluster says.
int version(const VersionFlags& flags, const Surroundings& surroundings) {
  json::Object versions{{"cadre", CADRE_VERSION}};
  std::optional<Error> failed;
  if (!flags.client_only) {
    auto server = serverVersion(flags.cluster, surroundings);
    if (server)
      versions.set("server", *std::move(server));
    else
      failed = std::move(server).error();
  }
  if (flags.output == "json")
    surroundings.out(json::writePretty(versions) + "\n");
  else
    for (const auto& [name, text] : versions)
      surroundings.out(format("{:<8}{}\n", name, text.string()));
  return failed ? fail(surroundings, failed->text()) : 0;
}

}  // namespace

void addVersion(CLI::App& app, const Surroundings& surroundings, int& exit_code) {
  auto flags = std::make_shared<VersionFlags>();
  CLI::App* command =
      app.add_subcommand("version", "Show the versions of cadre and of the cluster's API server");
  flags->cluster.addTo(*command, Namespaces::None);
  command->add_flag("--client", flags->client_only, "Only cadre's own, without asking a cluster");
  command->add_option("-o,--output", flags->output, "json")->check(CLI::IsMember({"json"}));
  command->callback(
      [&surroundings, &exit_code, flags] { exit_code = version(*flags, surroundings); });
}

}  // namespace cadre::cli
