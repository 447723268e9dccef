#include "node/sandbox.h"

#include <csignal>
#include <cstdio>
#include <optional>
#include <sstream>

#include <arpa/inet.h>
#include <sys/stat.h>

#include "base/format.h"
#include "base/log.h"
#include "net/filter.h"
#include "net/loop.h"
#include "net/redirect.h"
#include "node/files.h"
#include "node/policy.h"
#include "node/service_table.h"

namespace cadre::node {
namespace {

using json::Value;

constexpr Duration kLook = 200ms;
constexpr std::uint16_t kPort = 15096;  // where connections to Services arrive
constexpr const char* kServices = "127.96.0.0";
constexpr unsigned kServicesBits = 12;

// A file that others replace as a whole.
class Replaced {
 public:
  explicit Replaced(std::string path) : path_(std::move(path)) {}

  // What is in it, if that is not what it was.
  std::optional<Value> changed() {
    struct stat found{};
    if (stat(path_.c_str(), &found) != 0 ||
        (found.st_ino == seen_.st_ino && found.st_mtim.tv_sec == seen_.st_mtim.tv_sec &&
         found.st_mtim.tv_nsec == seen_.st_mtim.tv_nsec))
      return std::nullopt;
    Value value = readJson(path_);
    if (value.isNull()) return std::nullopt;  // not yet for us: the next time
    seen_ = found;
    return value;
  }

 private:
  const std::string path_;
  struct stat seen_{};
};

// Where this network ends: its gateway, which is the node.
std::optional<std::uint32_t> nodeAddress() {
  std::istringstream routes(readText("/proc/net/route"));
  std::string line, interface;
  while (std::getline(routes, line)) {
    std::istringstream words(line);
    std::uint32_t to = 0, gateway = 0;  // as they are in memory
    if (words >> interface >> std::hex >> to >> gateway && to == 0 && gateway != 0)
      return ntohl(gateway);
  }
  return std::nullopt;
}

class Sandbox {
 public:
  Sandbox(net::Loop& loop, Logger& logger, std::string table, std::string policy)
      : loop_(loop),
        logger_(logger),
        table_(std::move(table)),
        policy_(std::move(policy)),
        relays_(loop, &logger) {}

  // Until the loop is stopped, or the policy cannot be kept.
  Result<> run() {
    auto policy = policy_.changed();
    if (!policy) return Error{.code = Code::NotFound, .message = "there is no policy for this pod"};
    CADRE_TRY(keep(*policy));
    redirect();
    look();
    std::puts("ready");
    std::fflush(stdout);
    loop_.run();
    return kept_;
  }

 private:
  Result<> keep(const Value& value) {
    Policy policy = Policy::parse(value);
    net::Filter filter{.in = policy.ingress, .out = policy.egress};
    if (auto node = nodeAddress(); node && filter.in)
      filter.in->insert(filter.in->begin(), {.first_address = *node, .last_address = *node});
    // Without policies it works on every kernel.
    if (!filter.in && !filter.out && !filters_) return {};
    CADRE_TRY(net::filterTraffic(filter));
    filters_ = filter.in || filter.out;
    return {};
  }

  void redirect() {
    Result<> taken = relays_.listenAt({"127.0.0.1", kPort});
    if (taken) taken = net::redirectConnections(kServices, kServicesBits, kPort);
    redirected_ = taken.ok();
    if (!taken)
      logger_.warn("Services take their ports away from this pod",
                   {{"error", taken.error().text()}});
  }

  void look() {
    if (auto policy = policy_.changed()) kept_ = keep(*policy);
    if (!kept_) return loop_.stop();
    if (auto table = table_.changed()) {
      if (redirected_)
        relays_.setTable(ServiceTable::parse(*table));
      else
        relays_.listen(ServiceTable::parse(*table));
    }
    timer_ = loop_.after(kLook, [this] { look(); });
  }

  net::Loop& loop_;
  Logger& logger_;
  Replaced table_, policy_;
  ServiceRelays relays_;
  bool redirected_ = false, filters_ = false;
  Result<> kept_;
  Pending timer_;
};

}  // namespace

int runSandbox(const std::string& table, const std::string& policy) {
  std::signal(SIGCHLD, SIG_IGN);  // whoever is left to us is buried
  net::Loop loop;
  Logger logger(loop.clock(), {.level = LogLevel::Warn}, Logger::stderrSink());
  Pending signals = net::onSignals(loop, {SIGINT, SIGTERM}, [&](int) { loop.stop(); });
  Result<> kept = Sandbox(loop, logger, table, policy).run();
  if (kept) return 0;
  std::fputs(format("{}\n", kept.error().text()).c_str(), stderr);
  return 1;
}

}  // namespace cadre::node
