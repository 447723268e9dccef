#include "node/sandbox.h"

#include <csignal>

#include "net/loop.h"

namespace cadre::node {

int runSandbox() {
  std::signal(SIGCHLD, SIG_IGN);  // whoever is left to us is buried
  net::Loop loop;
  Pending signals = net::onSignals(loop, {SIGINT, SIGTERM}, [&](int) { loop.stop(); });
  loop.run();
  return 0;
}

}  // namespace cadre::node
