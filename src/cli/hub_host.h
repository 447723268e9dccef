#pragma once

#include <memory>
#include <string>

#include "base/random.h"
#include "hub/hub.h"
#include "net/http_server.h"
#include "store/log.h"

namespace cadre::cli {

struct HubFlags {
  std::string data;
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;
  bool fast = false;
};

// A hub with all that it needs on this machine: its log, its keys and certificates, the server that
// it answers through, and the kubeconfig that leads there. Belongs to the loop.
class HubHost {
 public:
  // Where the logs of pods come from, if there is a node: then Services get addresses, too.
  static Result<std::unique_ptr<HubHost>> open(net::Loop& loop, const HubFlags& flags,
                                               decltype(hub::HubOptions::node) node = {});
  ~HubHost();

  hub::Hub& hub();
  const std::string& kubeconfig() const;  // its path
  const std::string& authority() const;   // the certificate that its own is signed by
  std::uint16_t port() const;

 private:
  struct Impl;
  explicit HubHost(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace cadre::cli
