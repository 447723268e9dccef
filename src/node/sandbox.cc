#include "node/sandbox.h"

#include <csignal>
#include <cstdio>

#include <sys/stat.h>

#include "base/log.h"
#include "net/loop.h"
#include "net/redirect.h"
#include "node/files.h"
#include "node/service_table.h"

namespace cadre::node {
namespace {

constexpr Duration kLook = 200ms;
constexpr std::uint16_t kPort = 15096;  // where connections to Services arrive
constexpr const char* kServices = "127.96.0.0";
constexpr unsigned kServicesBits = 12;

class Sandbox {
 public:
  Sandbox(net::Loop& loop, Logger& logger, std::string path)
      : loop_(loop), path_(std::move(path)), relays_(loop, &logger) {
    Result<> taken = relays_.listenAt({"127.0.0.1", kPort});
    if (taken) taken = net::redirectConnections(kServices, kServicesBits, kPort);
    redirected_ = taken.ok();
    if (!taken)
      logger.warn("Services take their ports away from this pod",
                  {{"error", taken.error().text()}});
    look();
  }

 private:
  void look() {
    struct stat found{};
    if (stat(path_.c_str(), &found) == 0 &&
        (found.st_ino != seen_.st_ino || found.st_mtim.tv_sec != seen_.st_mtim.tv_sec ||
         found.st_mtim.tv_nsec != seen_.st_mtim.tv_nsec)) {
      seen_ = found;
      read();
    }
    timer_ = loop_.after(kLook, [this] { look(); });
  }

  void read() {
    json::Value value = readJson(path_);
    if (value.isNull()) return;  // it is replaced as a whole: this one was never there
    if (redirected_)
      relays_.setTable(ServiceTable::parse(value));
    else
      relays_.listen(ServiceTable::parse(value));
  }

  net::Loop& loop_;
  const std::string path_;
  ServiceRelays relays_;
  bool redirected_ = false;
  struct stat seen_{};
  Pending timer_;
};

}  // namespace

int runSandbox(const std::string& table) {
  std::signal(SIGCHLD, SIG_IGN);  // whoever is left to us is buried
  net::Loop loop;
  Logger logger(loop.clock(), {.level = LogLevel::Warn}, Logger::stderrSink());
  Pending signals = net::onSignals(loop, {SIGINT, SIGTERM}, [&](int) { loop.stop(); });
  Sandbox sandbox(loop, logger, table);
  std::puts("ready");
  std::fflush(stdout);
  loop.run();
  return 0;
}

}  // namespace cadre::node
