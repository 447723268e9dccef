#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kube/client.h"

namespace cadre::kube {

// A kind that a server has, with what people call it.
struct ServedResource {
  Resource resource;
  std::string singular;
  std::vector<std::string> short_names, categories, verbs, subresources;
};

// What a server serves. A plain value; groups are in the server's order of preference.
class Discovery {
 public:
  // One request per half of the API where the server aggregates, else one per group.
  static Pending load(Client& client, Function<void(Result<Discovery>)> done);

  const std::vector<ServedResource>& resources() const { return resources_; }
  const ServedResource* find(const GroupVersionKind& kind) const;
  // As people write it: "pods", "po", "Pod", "deployments.apps", "agents.v1alpha1.kaos.dev". The
  // first group that has it wins. Null when there is none.
  const ServedResource* named(std::string_view name) const;
  std::vector<const ServedResource*> inCategory(std::string_view category) const;

 private:
  std::vector<ServedResource> resources_;
  friend struct DiscoveryLoad;
};

}  // namespace cadre::kube
