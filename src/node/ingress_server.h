#pragma once

#include <memory>

#include "base/log.h"
#include "base/random.h"
#include "kube/client.h"
#include "node/service_proxy.h"

namespace cadre::node {

struct IngressServerOptions {
  // Of this machine alone. 0, and where it is taken: any free one.
  std::uint16_t port = 8080;
  Logger* logger = nullptr;
  Function<void(const std::string& line)> tell;  // where it listens, once
};

// Serves Ingresses on one port of this machine: passes each request on to a ready pod of the
// Service that their rules name, in turn. HTTP only: TLS is not spoken, whatever they say of it.
// Listens when there is a first one to serve, and then says in the IngressClass where. Belongs to
// its loop.
class IngressServer {
 public:
  IngressServer(net::Loop& loop, kube::Client& client, Random& random, const ServiceProxy& services,
                IngressServerOptions options);
  ~IngressServer();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cadre::node
