#include "node/probes.h"

#include <algorithm>

#include "base/format.h"
#include "base/strings.h"
#include "json/texts.h"
#include "net/connect.h"
#include "net/http_client.h"

namespace cadre::node {
namespace {

using json::Value;

constexpr std::size_t kMaxAnswer = 1u << 20;
constexpr std::size_t kMaxService = 120;

// A number, or the name of one of the container's ports.
std::uint16_t portOf(const Value& port, const Value& container) {
  if (port.isInteger()) return static_cast<std::uint16_t>(port.integer());
  for (const Value& one : container["ports"].array())
    if (one["name"] == port) return static_cast<std::uint16_t>(one["containerPort"].integer());
  return static_cast<std::uint16_t>(parseInt(port.string()).value_or(0));
}

Pending askHttp(const Asked& asked, const Value& get, Duration timeout,
                Function<void(Result<>)> done) {
  std::string host = get["host"].string().empty() ? asked.address : get["host"].string();
  bool tls = get["scheme"].string() == "HTTPS";
  net::Url url{.scheme = tls ? "https" : "http",
               .user_info = {},
               .host = host,
               .port = portOf(get["port"], asked.container)};
  auto client = net::makeHttpClient(
      asked.loop,
      {.url = url, .tls = {.verify = false}, .http2 = false, .connect_timeout = timeout});
  if (!client)
    return asked.loop.after(0s, [done = std::move(done), error = client.error()] { done(error); });
  net::Headers headers{
      {"user-agent", "kube-probe/1.34"}, {"accept", "*/*"}, {"connection", "close"}};
  for (const Value& one : get["httpHeaders"].array())
    headers.set(one["name"].string(), one["value"].string());
  std::string path = get["path"].string();
  if (!path.starts_with('/')) path.insert(0, "/");
  Pending asking = net::fetch(
      **client, {.target = path, .headers = std::move(headers), .timeout = timeout}, kMaxAnswer,
      [done = std::move(done)](Result<net::HttpResponse> answer) {
        if (!answer) return done(answer.error());
        if (answer->status >= 200 && answer->status < 400) return done(Result<>());
        done(Error{.code = Code::Unavailable,
                   .message = format("HTTP probe failed with statuscode: {}", answer->status)});
      });
  return Pending([asking = std::move(asking), client = *std::move(client)]() mutable {
    asking = {};
    client.reset();
  });
}

// What gRPC's health service says: one message of one number, as protobuf has it.
Result<> healthOf(const net::HttpResponse& answer) {
  constexpr std::string_view kServing("\0\0\0\0\2\10\1", 7);
  if (answer.status == 200 && answer.body == kServing) return {};
  constexpr std::size_t kHead = 5;  // of a message: whether it is compressed, and its length
  std::string why = format("HTTP status {}", answer.status);
  if (std::string_view code = answer.headers.get("grpc-status"); !code.empty() && code != "0")
    why = format("gRPC status {}", code);
  if (answer.body.size() >= kHead)  // a number that is 0 is not said
    why = format("service unhealthy (responded with \"{}\")",
                 answer.body.size() == kHead                        ? "UNKNOWN"
                 : answer.body.ends_with(std::string_view("\10\2")) ? "NOT_SERVING"
                                                                    : "SERVICE_UNKNOWN");
  return Error{.code = Code::Unavailable, .message = std::move(why)};
}

Pending askGrpc(const Asked& asked, const Value& grpc, Duration timeout,
                Function<void(Result<>)> done) {
  auto client = net::makeHttpClient(
      asked.loop, {.url = {.scheme = "http",
                           .user_info = {},
                           .host = asked.address,
                           .port = static_cast<std::uint16_t>(grpc["port"].integer())},
                   .only_http2 = true,
                   .connect_timeout = timeout});
  if (!client)
    return asked.loop.after(0s, [done = std::move(done), error = client.error()] { done(error); });
  // HealthCheckRequest{service}: its name is short, so one byte says how long each part is.
  std::string service = grpc["service"].string().substr(0, kMaxService), message;
  if (!service.empty()) message = format("\n{}{}", static_cast<char>(service.size()), service);
  std::string body(4, '\0');
  body += static_cast<char>(message.size());
  net::Headers headers{
      {"content-type", "application/grpc"}, {"te", "trailers"}, {"user-agent", "kube-probe/1.34"}};
  Pending asking =
      net::fetch(**client,
                 {.method = "POST",
                  .target = "/grpc.health.v1.Health/Check",
                  .headers = std::move(headers),
                  .body = body + message,
                  .timeout = timeout},
                 kMaxAnswer, [done = std::move(done)](const Result<net::HttpResponse>& answer) {
                   done(answer ? healthOf(*answer) : Result<>(answer.error()));
                 });
  return Pending([asking = std::move(asking), client = *std::move(client)]() mutable {
    asking = {};
    client.reset();
  });
}

}  // namespace

Pending askContainer(const Asked& asked, const Value& how, Duration timeout,
                     Function<void(Result<>)> done) {
  if (const Value& get = how["httpGet"]; get.isObject())
    return askHttp(asked, get, timeout, std::move(done));
  if (const Value& tcp = how["tcpSocket"]; tcp.isObject()) {
    std::string host = tcp["host"].string().empty() ? asked.address : tcp["host"].string();
    return net::tryConnect(asked.loop, host, portOf(tcp["port"], asked.container), timeout,
                           std::move(done));
  }
  if (const Value& grpc = how["grpc"]; grpc.isObject())
    return askGrpc(asked, grpc, timeout, std::move(done));
  if (const Value& exec = how["exec"]; exec.isObject())
    return asked.run_inside(textsOf(exec["command"]), timeout, std::move(done));
  if (const Value& sleep = how["sleep"]; sleep.isObject())
    return asked.loop.after(
        std::min<Duration>(std::chrono::seconds(sleep["seconds"].integer()), timeout),
        [done = std::move(done)] { done(Result<>()); });
  return asked.loop.after(0s, [done = std::move(done)] {
    done(Error{.code = Code::InvalidArgument, .message = "this kind of probe is not known here"});
  });
}

struct Probes::Impl : std::enable_shared_from_this<Probes::Impl> {
  enum Which { Startup, Readiness, Liveness };

  // One of the three.
  struct Probe {
    const Value* spec = nullptr;
    bool holds = false;
    std::int64_t successes = 0, failures = 0;  // in a row
    Pending timer, asking;
  };

  Impl(net::Loop& loop, Value container, std::string address, RunInside run_inside,
       Function<void(const Said&)> changed,
       Function<void(std::string_view, const std::string&)> failed)
      : loop(loop),
        container(std::move(container)),
        address(std::move(address)),
        run_inside(std::move(run_inside)),
        changed(std::move(changed)),
        failed(std::move(failed)) {
    const char* names[] = {"startupProbe", "readinessProbe", "livenessProbe"};
    for (int which = 0; which < 3; ++which)
      if (const Value& spec = this->container[names[which]]; spec.isObject())
        probes[which].spec = &spec;
    said = before(this->container);
    probes[Liveness].holds = true;
  }

  void begin() {
    if (probes[Startup].spec) return later(Startup, true);
    later(Readiness, true);
    later(Liveness, true);
  }

  void later(Which which, bool first) {
    Probe& probe = probes[which];
    if (!probe.spec) return;
    std::int64_t seconds =
        first ? (*probe.spec)["initialDelaySeconds"].integer()
              : std::max<std::int64_t>(1, (*probe.spec)["periodSeconds"].integer(10));
    probe.timer = loop.after(std::chrono::seconds(seconds), [this, which] { ask(which); });
  }

  void ask(Which which) {
    Probe& probe = probes[which];
    const Value& spec = *probe.spec;
    Duration timeout =
        std::chrono::seconds(std::max<std::int64_t>(1, spec["timeoutSeconds"].integer(1)));
    probe.asking = askContainer({loop, container, address, run_inside}, spec, timeout,
                                [weak = weak_from_this(), which](const Result<>& result) {
                                  if (auto self = weak.lock()) self->answered(which, result);
                                });
  }

  void answered(Which which, const Result<>& result) {
    Probe& probe = probes[which];
    const Value& spec = *probe.spec;
    Said now = said;
    if (result) {
      probe.failures = 0;
      if (++probe.successes >= spec["successThreshold"].integer(1)) probe.holds = true;
    } else {
      probe.successes = 0;
      constexpr std::string_view kNames[] = {"Startup", "Readiness", "Liveness"};
      failed(kNames[which], result.error().message);
      if (++probe.failures >= spec["failureThreshold"].integer(3)) {
        probe.holds = false;
        if (which != Readiness) now.alive = false;
      }
    }
    bool came_up = which == Startup && probe.holds;
    if (came_up) now.up = true;
    if (which == Readiness) now.ready = probe.holds;
    if (came_up) {
      later(Readiness, true);
      later(Liveness, true);
    } else {
      later(which, false);
    }
    if (std::exchange(said, now) != now) changed(said);
  }

  net::Loop& loop;
  const Value container;
  const std::string address;
  const RunInside run_inside;
  const Function<void(const Said&)> changed;
  const Function<void(std::string_view, const std::string&)> failed;
  Said said;
  Probe probes[3];
};

Probes::Probes(net::Loop& loop, const Value& container, const std::string& address,
               RunInside run_inside, Function<void(const Said&)> changed,
               Function<void(std::string_view, const std::string&)> failed)
    : impl_(std::make_shared<Impl>(loop, container, address, std::move(run_inside),
                                   std::move(changed), std::move(failed))) {
  impl_->begin();
}
Probes::~Probes() = default;

bool Probes::areWanted(const Value& container) {
  return container["startupProbe"].isObject() || container["readinessProbe"].isObject() ||
         container["livenessProbe"].isObject();
}

Probes::Said Probes::before(const Value& container) {
  return {.up = !container["startupProbe"].isObject(),
          .ready = !container["readinessProbe"].isObject()};
}

}  // namespace cadre::node
