#include "node/ingress_server.h"

#include <map>

#include "base/format.h"
#include "base/strings.h"
#include "kube/watch.h"
#include "net/forward.h"
#include "node/ingress_table.h"
#include "node/pods.h"
#include "node/workloads.h"

namespace cadre::node {
namespace {

using Request = std::shared_ptr<net::StreamedRequest>;

constexpr std::size_t kMaxConnections = 1024;

void answer(const Request& request, int status, const std::string& text) {
  request->respond(status, {{"Content-Type", "text/plain"}}, text + "\n");
}

// What the client asks for. It may name the host in the target, which then counts (RFC
// 9112, 3.2.2).
struct Asked {
  std::string host, target;

  static std::optional<Asked> of(const net::StreamedRequest& request) {
    if (request.target.starts_with('/'))
      return Asked{std::string(request.headers.get("host")), request.target};
    auto url = net::Url::parse(request.target);
    if (!url || url->scheme != "http") return std::nullopt;
    return Asked{url->authority(), url->target.starts_with('/') ? url->target : "/" + url->target};
  }
};

// What the client says of others that it speaks for is not believed.
net::Headers headersFor(const net::StreamedRequest& request, const std::string& host) {
  net::Headers out;
  for (const auto& [name, value] : net::endToEnd(request.headers))
    if (!equalsIgnoreCase(name, "forwarded")) out.add(name, value);
  out.set("Host", host);
  out.set("X-Forwarded-For", request.peer.substr(0, request.peer.rfind(':')));
  out.set("X-Forwarded-Host", host);
  out.set("X-Forwarded-Proto", "http");
  return out;
}

}  // namespace

struct IngressServer::Impl {
  Impl(net::Loop& loop, kube::Client& client, Random& random, const ServiceProxy& services,
       IngressServerOptions options)
      : loop(loop),
        client(client),
        services(services),
        options(std::move(options)),
        ingresses(client, {.resource = kIngresses}, random, [this](const auto&) { lookSoon(); }) {
    publish(0);
  }

  void lookSoon() {
    soon = loop.after(0s, [this] { look(); });
  }

  void look() {
    std::vector<json::Value> all;
    ingresses.forEach([&](const auto&, const json::Value& one) { all.push_back(one); });
    table = IngressTable(std::move(all));
    turns.clear();
    if (!table.empty() && !server) listen();
  }

  void listen() {
    auto listening = listenAt(options.port);
    if (!listening && options.port != 0) {
      options.tell(format("{}: another port is taken for Ingresses", listening.error().message));
      listening = listenAt(0);
    }
    if (!listening) return options.tell(listening.error().message);
    server = *std::move(listening);
    options.tell(format("Ingresses are served at http://127.0.0.1:{}", server->port()));
    publish(server->port());
  }

  Result<std::unique_ptr<net::HttpServer>> listenAt(std::uint16_t port) {
    return net::HttpServer::listenStreamed(loop, {.port = port, .max_connections = kMaxConnections},
                                           [this](Request request) { handle(std::move(request)); });
  }

  void publish(std::uint16_t port) {
    publishing = client.apply(kIngressClasses, ingressClass(port), {.force = true},
                              [this](const auto& applied) {
                                if (!applied && options.logger)
                                  options.logger->warn("the class of Ingresses cannot be written",
                                                       {{"error", applied.error().text()}});
                              });
  }

  void handle(Request request) {
    auto asked = Asked::of(*request);
    if (!asked) return answer(request, 400, "the target of a request is a path");
    std::string path = net::Target::parse(asked->target).path;
    auto backend = table.find(asked->host, path);
    if (!backend)
      return answer(request, 404, format("no Ingress has a rule for {} {}", asked->host, path));
    auto places = services.placesOf(*backend);
    if (!places) return answer(request, 503, places.error().message);
    net::Place to = (*places)[turns[*backend]++ % places->size()];
    if (asked->host.empty()) asked->host = net::authority(to.address, to.port);
    net::ForwardOptions forward{.to = to,
                                .name = format("the Service {}", backend->service.text()),
                                .target = asked->target,
                                .headers = headersFor(*request, asked->host)};
    std::uint64_t id = next_id++;
    under_way[id] = net::forward(loop, std::move(request), std::move(forward),
                                 [this, id] { under_way.erase(id); });
  }

  net::Loop& loop;
  kube::Client& client;
  const ServiceProxy& services;
  const IngressServerOptions options;
  IngressTable table;
  std::map<IngressBackend, std::size_t> turns;
  std::unique_ptr<net::HttpServer> server;
  std::map<std::uint64_t, Pending> under_way;
  std::uint64_t next_id = 0;
  Pending soon, publishing;
  kube::Mirror ingresses;
};

IngressServer::IngressServer(net::Loop& loop, kube::Client& client, Random& random,
                             const ServiceProxy& services, IngressServerOptions options)
    : impl_(std::make_unique<Impl>(loop, client, random, services, std::move(options))) {}
IngressServer::~IngressServer() = default;

}  // namespace cadre::node
