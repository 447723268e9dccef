#include "engine/serve.h"

#include "base/format.h"
#include "base/strings.h"
#include "engine/election.h"
#include "engine/engine.h"

namespace cadre::engine {
namespace {

void answerText(net::ServerRequest& request, int status, std::string text) {
  request.respond(status,
                  {{"Content-Type", "text/plain; charset=utf-8"},
                   {"X-Content-Type-Options", "nosniff"},
                   {"Cache-Control", "no-store"}},
                  std::move(text));
}

bool isRead(net::ServerRequest& request) {
  if (request.method == "GET" || request.method == "HEAD") return true;
  answerText(request, 405, "only GET is answered here\n");
  return false;
}

}  // namespace

Result<std::optional<BindAddress>> BindAddress::parse(std::string_view text) {
  if (text.empty() || text == "0") return std::optional<BindAddress>();
  auto fail = [&] {
    return Error{.code = Code::InvalidArgument,
                 .message = format("\"{}\" is no address to listen on: write \":8080\", "
                                   "\"127.0.0.1:8080\", or \"0\" to switch it off",
                                   text)};
  };
  std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return fail();
  std::string_view host = text.substr(0, colon);
  auto port = parseInt(text.substr(colon + 1));
  if (!port || *port < 0 || *port > 65535) return fail();
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return fail();
  }
  return std::optional(
      BindAddress{.host = std::string(host), .port = static_cast<std::uint16_t>(*port)});
}

Result<std::unique_ptr<net::HttpServer>> listenOn(net::Loop& loop, const BindAddress& address,
                                                  net::HttpServerOptions options,
                                                  net::HttpServer::Handler handler) {
  options.port = address.port;
  options.address = address.host;
  if (!address.host.empty())
    return net::HttpServer::listen(loop, std::move(options), std::move(handler));
  // Both families; where the machine has no IPv6, the other one.
  auto shared = std::make_shared<net::HttpServer::Handler>(std::move(handler));
  auto handle = [shared](auto request) { (*shared)(std::move(request)); };
  options.address = "::";
  auto server = net::HttpServer::listen(loop, options, handle);
  if (server) return server;
  options.address = "0.0.0.0";
  return net::HttpServer::listen(loop, std::move(options), handle);
}

Check synced(const Engine& engine) {
  return {"synced", [&engine]() -> std::string {
            if (engine.synced()) return {};
            std::string text = "not everything that is watched has been seen yet";
            for (const auto& [kind, trouble] : engine.troubles())
              text += format("; {}: {}", kind, trouble);
            return text;
          }};
}

Check leased(const Election& election) {
  return {"leader-election", [&election] { return election.trouble(); }};
}

HealthAnswer answerHealth(std::string_view name, const std::vector<Check>& checks, bool verbose) {
  std::string text;
  bool well = true;
  for (const Check& check : checks) {
    std::string trouble = check.trouble();
    well &= trouble.empty();
    text += trouble.empty() ? format("[+]{} ok\n", check.name)
                            : format("[-]{} failed: {}\n", check.name, trouble);
  }
  if (!well) return {500, text + format("{} check failed\n", name)};
  return {200, verbose ? text + format("{} check passed\n", name) : "ok"};
}

Result<std::unique_ptr<Endpoints>> Endpoints::open(net::Loop& loop, EndpointsOptions options) {
  CADRE_LET(auto metrics, BindAddress::parse(options.metrics_address));
  CADRE_LET(auto health, BindAddress::parse(options.health_address));
  std::unique_ptr<Endpoints> endpoints(new Endpoints(std::move(options)));
  Endpoints* self = endpoints.get();
  net::HttpServerOptions limits{.max_connections = 64, .max_body_bytes = 64 << 10};
  if (metrics) {
    CADRE_LET(endpoints->metrics_, listenOn(loop, *metrics, limits, [self](auto request) {
                self->answerMetrics(*request);
              }));
  }
  if (health) {
    CADRE_LET(endpoints->health_, listenOn(loop, *health, limits,
                                           [self](auto request) { self->answerProbe(*request); }));
  }
  return endpoints;
}

void Endpoints::answerMetrics(net::ServerRequest& request) {
  if (!isRead(request)) return;
  if (net::Target::parse(request.target).path != "/metrics" || !options_.metrics)
    return answerText(request, 404, "only /metrics is here\n");
  if (options_.measure) options_.measure();
  request.respond(200, {{"Content-Type", "text/plain; version=0.0.4; charset=utf-8"}},
                  options_.metrics->text());
}

void Endpoints::answerProbe(net::ServerRequest& request) {
  if (!isRead(request)) return;
  net::Target target = net::Target::parse(request.target);
  bool verbose = false;
  for (const auto& [name, value] : target.query) verbose |= name == "verbose";
  bool health = target.path == "/healthz";
  if (!health && target.path != "/readyz")
    return answerText(request, 404, "only /healthz and /readyz are here\n");
  HealthAnswer answer =
      answerHealth(target.path.substr(1), health ? options_.healthy : options_.ready, verbose);
  answerText(request, answer.status, std::move(answer.text));
}

}  // namespace cadre::engine
