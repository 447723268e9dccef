#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/webhook.h"
#include "kinds/kaos/settings.h"
#include "kube/schema.h"

namespace CLI {
class App;
}

namespace cadre::cli {

// The families of kinds that the program serves, and their settings.
struct Systems {
  std::vector<std::string> names = {"kaos"};
  kaos::Settings kaos;

  // --systems and the settings of each; what is not given comes from the environment.
  void addTo(CLI::App& command);
  std::vector<const kube::Kind*> kinds() const;
  // What a webhook server needs to judge them.
  std::vector<engine::Validator> validators() const;
  // What an engine needs to serve them. This must outlive the engine.
  void serve(engine::EngineOptions& options) const;
};

// What a pod is told by its files, for settings that nobody gives: its namespace, and the cluster's
// domain as the resolver has it ("svc.cluster.local" among the names to search).
std::optional<std::string> ownNamespace(const std::string& file);
std::optional<std::string> clusterDomain(const std::string& resolver_file);

// The kind of an object by its apiVersion and kind, or by what people call it ("agent", "mcp",
// "agents.kaos.tools"); null when it is none of ours.
const kube::Kind* findKind(const Systems& systems, const json::Value& object);
Result<const kube::Kind*> findKind(const Systems& systems, const std::string& called);

}  // namespace cadre::cli
