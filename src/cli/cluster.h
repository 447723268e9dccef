#pragma once

#include <memory>
#include <string>

#include "cli/cli.h"
#include "kube/client.h"
#include "net/loop.h"

namespace CLI {
class App;
}

namespace cadre::cli {

// The flags by which every command that speaks to a cluster finds it, and the connection that they
// lead to.
struct ClusterFlags {
  std::string kubeconfig, context, ns;
  bool all_namespaces = false;

  // --kubeconfig and --context; with namespaces also -n and -A.
  void addTo(CLI::App& command, bool with_namespaces);
};

// What keeps a text from being the name of a namespace; empty: nothing.
std::string namespaceProblem(const std::string& name);

// A command's connection: its own loop and client. Made, used and dropped within one command.
struct Cluster {
  net::Loop loop;
  std::unique_ptr<kube::Client> client;

  // The namespace that the command is about; empty: all of them.
  std::string ns;

  static Result<std::unique_ptr<Cluster>> connect(const ClusterFlags& flags,
                                                  const Surroundings& surroundings,
                                                  kube::ClientOptions options = {});

  template <class T, class Start>
  Result<T> await(Start start) {
    return net::await<T>(loop, std::move(start));
  }
};

}  // namespace cadre::cli
