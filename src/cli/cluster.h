#pragma once

#include <memory>
#include <string>

#include "cli/cli.h"
#include "kube/discovery.h"
#include "net/loop.h"

namespace CLI {
class App;
}

namespace cadre::cli {

// Which namespaces a command may be told to look at, beside the context's own.
enum class Namespaces { None, One, Any };

// The flags by which every command that speaks to a cluster finds it, and the connection that they
// lead to.
struct ClusterFlags {
  std::string kubeconfig, context, ns;
  bool all_namespaces = false;

  // --kubeconfig and --context; for One namespace also -n, for Any also -A.
  void addTo(CLI::App& command, Namespaces namespaces);
};

// What keeps a text from being the name of a namespace; empty: nothing.
std::string namespaceProblem(const std::string& name);
// What keeps a text from being a length of time that is not negative; empty: nothing.
std::string durationProblem(const std::string& text);

// A command's connection: its own loop and client. Made, used and dropped within one command.
struct Cluster {
  net::Loop loop;
  std::unique_ptr<kube::Client> client;

  // The namespace that the command is about; empty: all of them.
  std::string ns;

  // Where nothing is configured and `cadre up` runs, that is what is meant.
  static Result<std::unique_ptr<Cluster>> connect(const ClusterFlags& flags,
                                                  const Surroundings& surroundings,
                                                  kube::ClientOptions options = {});

  // What the server has now.
  Result<kube::Discovery> discover();

  template <class T, class Start>
  Result<T> await(Start start) {
    return net::await<T>(loop, std::move(start));
  }
};

}  // namespace cadre::cli
