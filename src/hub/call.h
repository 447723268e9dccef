#pragma once

// Private to `hub`: what the parts of Hub share.

#include "hub/hub.h"
#include "hub/render.h"

namespace cadre::hub {

inline constexpr std::string_view kJson = "application/json", kYaml = "application/yaml";
inline constexpr std::string_view kText = "text/plain; charset=utf-8";
inline constexpr std::string_view kNoPage = "404 page not found\n";
inline constexpr std::string_view kCanWrite = "application/json, application/yaml";

// The priority classes that every cluster has.
struct SystemPriority {
  std::string_view name;
  std::int64_t value;
  std::string_view description;
};
inline constexpr SystemPriority kSystemPriorities[] = {
    {"system-cluster-critical", 2000000000,
     "Used for system critical pods that must run in the cluster, but can be moved to another node "
     "if necessary."},
    {"system-node-critical", 2000001000,
     "Used for system critical pods that must not be moved from their current node."},
};

// A request on its way.
struct Hub::Call {
  std::shared_ptr<net::ServerRequest> request;
  Asked asked;
  Form form;
  KindRef kind;
  Instant since = {};
  std::vector<std::string> warnings = {};
  User user = {};
  Pending waiting = {};  // for somebody's answer, or for a time

  std::string_view option(std::string_view name) const { return asked.option(name); }
  kube::ObjectKey key() const { return {asked.ns, asked.name}; }
  Include include() const {
    std::string_view wanted = option("includeObject");
    return wanted == "None"     ? Include::None
           : wanted == "Object" ? Include::Object
                                : Include::Metadata;
  }
};

kube::FieldError wrong(std::string_view field, kube::Fault fault, std::string message);
Failure noNumber(std::string_view text);
// Options in a query or a body that do not go together.
Failure wrongOptions(std::string_view kind, std::vector<kube::FieldError> errors);

}  // namespace cadre::hub
