#pragma once

#include <memory>
#include <string>

#include "base/log.h"
#include "base/random.h"
#include "kube/client.h"
#include "net/loop.h"
#include "node/ingress_table.h"
#include "node/service_table.h"

namespace cadre::node {

// Serves the addresses of Services on this machine: a connection to one goes to one of its ready
// pods, in turn. And tells their names, for the hosts files of pods. TCP only.
class ServiceProxy {
 public:
  // `api`: where it listens, for the Service by which pods find it. `changed`: names are others
  // than before. `served`: connections go elsewhere than before.
  ServiceProxy(net::Loop& loop, kube::Client& client, Random& random, Logger* logger,
               net::Place api, Function<void()> changed,
               Function<void(const ServiceTable&)> served);
  ~ServiceProxy();

  // "ADDRESS\tweb.ns.svc.cluster.local web.ns.svc web.ns web" by line, as seen from a namespace.
  std::string namesFor(std::string_view ns) const;
  // The Services that a pod there is told of in its environment: the API, and all of its namespace.
  std::map<std::string, std::string> linksFor(std::string_view ns, bool all) const;

  // As placesOf() in ingress_table.h, of what there is now.
  Result<std::vector<net::Place>> placesOf(const IngressBackend& backend) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cadre::node
