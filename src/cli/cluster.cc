#include "cli/cluster.h"

#include <CLI/CLI.hpp>

#include "kube/names.h"

namespace cadre::cli {

void ClusterFlags::addTo(CLI::App& command, bool with_namespaces) {
  command.add_option(
      "--kubeconfig", kubeconfig,
      "Path to the kubeconfig file (default: $KUBECONFIG, a pod's own login, ~/.kube/config)");
  command.add_option("--context", context,
                     "Context of the kubeconfig to use (default: its current one)");
  if (!with_namespaces) return;
  auto* one = command.add_option("-n,--namespace", ns, "Namespace (default: the context's)");
  command.add_flag("-A,--all-namespaces", all_namespaces, "All namespaces")->excludes(one);
}

std::string namespaceProblem(const std::string& name) {
  return kube::checkDnsLabel(name).value_or("");
}

Result<std::unique_ptr<Cluster>> Cluster::connect(const ClusterFlags& flags,
                                                  const Surroundings& surroundings,
                                                  kube::ClientOptions options) {
  CADRE_LET(kube::Config config, kube::loadConfig({.kubeconfig = flags.kubeconfig,
                                                   .context = flags.context,
                                                   .ns = flags.ns,
                                                   .env = surroundings.env}));
  auto cluster = std::make_unique<Cluster>();
  if (!flags.all_namespaces) cluster->ns = config.default_namespace;
  CADRE_LET(cluster->client,
            kube::Client::connect(cluster->loop, std::move(config), std::move(options)));
  return cluster;
}

}  // namespace cadre::cli
