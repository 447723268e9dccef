#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "net/http_server.h"
#include "node/runtime.h"

namespace cadre::node {

// What clients and pods say to each other while both are there: exec, attach and port-forward, as
// kubelets serve them on WebSockets. A message begins with the number of its channel: stdin,
// stdout, stderr, how it ended, the size of the terminal (v5.channel.k8s.io, and v4, in which no
// channel can be closed).
class Streams {
 public:
  Streams(net::Loop& loop, Runtime& runtime);
  ~Streams();

  struct Exec {
    std::vector<std::string> command;
    bool input = false, output = false, errors = false, terminal = false;
  };
  void exec(const RunName& run, const Exec& wanted, std::shared_ptr<net::ServerRequest> request);
  // What it prints from now on, by its log.
  void attach(const std::string& log, Function<bool()> alive,
              std::shared_ptr<net::ServerRequest> request);
  // A pair of channels for each port: bytes, and what went wrong.
  void forward(const std::string& address, const std::vector<std::uint16_t>& ports,
               std::shared_ptr<net::ServerRequest> request);

 private:
  class Session;
  class ExecSession;
  class AttachSession;
  class ForwardSession;

  void begin(std::shared_ptr<Session> session, std::shared_ptr<net::ServerRequest> request);

  net::Loop& loop_;
  Runtime& runtime_;
  std::set<std::shared_ptr<Session>> sessions_;
};

}  // namespace cadre::node
