#include "cli/cluster.h"

#include <CLI/CLI.hpp>
#include <csignal>

#include "base/format.h"
#include "base/strings.h"
#include "cli/files.h"
#include "kube/names.h"

namespace cadre::cli {

void ClusterFlags::addTo(CLI::App& command, Namespaces namespaces) {
  command.add_option(
      "--kubeconfig", kubeconfig,
      "Path to the kubeconfig file (default: $KUBECONFIG, a pod's own login, ~/.kube/config, what "
      "`cadre up` runs)");
  command.add_option("--context", context,
                     "Context of the kubeconfig to use (default: its current one)");
  if (namespaces == Namespaces::None) return;
  auto* one = command.add_option("-n,--namespace", ns, "Namespace (default: the context's)");
  if (namespaces == Namespaces::One) return;
  command.add_flag("-A,--all-namespaces", all_namespaces, "All namespaces")->excludes(one);
}

std::string namespaceProblem(const std::string& name) {
  return kube::checkDnsLabel(name).value_or("");
}

std::string durationProblem(const std::string& text) {
  auto parsed = parseDuration(text);
  if (parsed && *parsed >= 0s) return "";
  return format("\"{}\" is no length of time, as 30s, 5m or 1h are", shorten(text, 50));
}

namespace {

// The login to what `cadre up` runs for this user; empty when nothing does.
std::string upKubeconfig(const Surroundings& surroundings) {
  auto home = surroundings.env.find("HOME");
  if (home == surroundings.env.end() || home->second.empty()) return {};
  std::string folder = home->second + "/.cadre";
  auto text = readAll(folder + "/up.pid");
  auto process = text ? parseInt(trim(*text)) : std::nullopt;
  // Asking for its lock would get into the way of one that starts.
  if (process.value_or(0) <= 1 || kill(static_cast<pid_t>(*process), 0) != 0) return {};
  return folder + "/kubeconfig";
}

Result<kube::Config> findCluster(const ClusterFlags& flags, const Surroundings& surroundings) {
  kube::ConfigOptions options{.kubeconfig = flags.kubeconfig,
                              .context = flags.context,
                              .ns = flags.ns,
                              .env = surroundings.env};
  auto config = kube::loadConfig(options);
  bool nothing = !config && config.error().code == Code::NotFound;
  if (!nothing || !flags.kubeconfig.empty() || !flags.context.empty() ||
      surroundings.env.contains("KUBECONFIG"))
    return config;
  options.kubeconfig = upKubeconfig(surroundings);
  return options.kubeconfig.empty() ? std::move(config) : kube::loadConfig(options);
}

}  // namespace

Result<std::unique_ptr<Cluster>> Cluster::connect(const ClusterFlags& flags,
                                                  const Surroundings& surroundings,
                                                  kube::ClientOptions options) {
  CADRE_LET(kube::Config config, findCluster(flags, surroundings));
  auto cluster = std::make_unique<Cluster>();
  if (!flags.all_namespaces) cluster->ns = config.default_namespace;
  CADRE_LET(cluster->client,
            kube::Client::connect(cluster->loop, std::move(config), std::move(options)));
  return cluster;
}

Result<kube::Discovery> Cluster::discover() {
  return await<kube::Discovery>(
      [&](auto done) { return kube::Discovery::load(*client, std::move(done)); });
}

}  // namespace cadre::cli
