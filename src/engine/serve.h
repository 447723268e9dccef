#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/metrics.h"
#include "net/http_server.h"

namespace cadre::engine {

class Election;
class Engine;

// Where to listen, as flags write it.
struct BindAddress {
  std::string host;  // empty: every address of the machine
  std::uint16_t port = 0;

  // ":8080", "127.0.0.1:0" (any free port), "[::1]:8080". Nothing for "0" and "": not at all.
  static Result<std::optional<BindAddress>> parse(std::string_view text);
};

Result<std::unique_ptr<net::HttpServer>> listenOn(net::Loop& loop, const BindAddress& address,
                                                  net::HttpServerOptions options,
                                                  net::HttpServer::Handler handler);

// One thing that must be well.
struct Check {
  std::string name;
  Function<std::string()> trouble;  // empty: all is well
};

// The first pictures of all that is watched are there; else which are not, and why.
Check synced(const Engine& engine);
// The lease is not lost and not overdue.
Check leased(const Election& election);

// What a probe is answered: 200 "ok", or 500 and a line for each check. Pure but for the checks.
struct HealthAnswer {
  int status;
  std::string text;
};
HealthAnswer answerHealth(std::string_view name, const std::vector<Check>& checks, bool verbose);

struct EndpointsOptions {
  std::string metrics_address = "0";  // GET /metrics
  std::string health_address = "0";   // GET /healthz, /readyz; ?verbose names each check
  const Metrics* metrics = nullptr;
  Function<void()> measure = {};  // called before metrics are shown
  std::vector<Check> healthy = {}, ready = {};
};

// What an operator shows to its cluster. Answers come on the loop that does the work: when that is
// stuck there are none, and probes fail as they should. Dropping it ends it.
class Endpoints {
 public:
  static Result<std::unique_ptr<Endpoints>> open(net::Loop& loop, EndpointsOptions options);

  // 0 where nothing listens.
  std::uint16_t metricsPort() const { return metrics_ ? metrics_->port() : 0; }
  std::uint16_t healthPort() const { return health_ ? health_->port() : 0; }

 private:
  explicit Endpoints(EndpointsOptions options) : options_(std::move(options)) {}
  void answerMetrics(net::ServerRequest& request);
  void answerProbe(net::ServerRequest& request);

  const EndpointsOptions options_;
  std::unique_ptr<net::HttpServer> metrics_, health_;
};

}  // namespace cadre::engine
