#include "cli/pod_requests.h"

#include <algorithm>

#include "base/format.h"
#include "base/strings.h"
#include "hub/failure.h"
#include "json/write.h"
#include "kube/meta.h"
#include "node/logs.h"
#include "node/supervisor.h"

namespace cadre::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxPorts = 64;

// Which container is meant, and what is known of it.
struct Meant {
  std::string name;
  const json::Value* status = nullptr;  // none: nothing yet
};

hub::Outcome<Meant> containerFor(const hub::Asked& asked, const json::Value& pod) {
  Meant meant{std::string(asked.option("container"))};
  std::vector<std::string> names;
  // The first one is meant where kubectl says so, the only one in any case.
  if (meant.name.empty())
    meant.name = kube::annotation(pod, "kubectl.kubernetes.io/default-container");
  if (meant.name.empty() && pod["spec"]["containers"].array().size() == 1)
    meant.name = pod["spec"]["containers"].at(0)["name"].string();
  for (auto [list, statuses] : {std::pair("containers", "containerStatuses"),
                                std::pair("initContainers", "initContainerStatuses")})
    for (const json::Value& one : pod["spec"][list].array()) {
      names.push_back(one["name"].string());
      if (names.back() != meant.name) continue;
      for (const json::Value& status : pod["status"][statuses].array())
        if (status["name"].string() == meant.name) meant.status = &status;
    }
  if (meant.name.empty())
    return hub::badRequest(
        format("a container name must be specified for pod {}, choose one of: [{}]",
               kube::name(pod), join(names, " ")));
  if (std::ranges::find(names, meant.name) == names.end())
    return hub::badRequest(
        format("container {} is not valid for pod {}", meant.name, kube::name(pod)));
  return meant;
}

// A run of it, and where its output is kept.
struct Kept {
  node::RunName run;
  std::string log;

  static Kept of(const PodServer& server, const json::Value& pod, const Meant& meant,
                 std::int64_t attempt) {
    return {{std::string(kube::uid(pod)), meant.name, static_cast<int>(attempt)},
            node::Supervisor::logOf((server.data / "node").string(), pod, meant.name, attempt)};
  }
};

std::optional<hub::Failure> sendLog(const PodServer& server, const hub::Asked& asked,
                                    const json::Value& pod, const Meant& meant,
                                    const std::shared_ptr<net::ServerRequest>& request) {
  bool previous = asked.flag("previous");
  std::int64_t attempt =
      meant.status ? (*meant.status)["restartCount"].integer() - (previous ? 1 : 0) : -1;
  Kept kept = Kept::of(server, pod, meant, attempt);
  std::error_code ignored;
  if (attempt < 0 || !fs::exists(kept.log, ignored)) {
    if (previous)
      return hub::badRequest(format("previous terminated container \"{}\" in pod \"{}\" not found",
                                    meant.name, kube::name(pod)));
    std::string reason =
        meant.status ? (*meant.status)["state"]["waiting"]["reason"].string() : std::string();
    return hub::badRequest(format("container \"{}\" in pod \"{}\" is waiting to start: {}",
                                  meant.name, kube::name(pod),
                                  reason.empty() ? "ContainerCreating" : reason));
  }
  auto number = [&](std::string_view option) { return parseInt(asked.option(option)); };
  node::LogOptions options{.follow = asked.flag("follow"),
                           .timestamps = asked.flag("timestamps"),
                           .tail_lines = number("tailLines"),
                           .limit_bytes = number("limitBytes")};
  if (auto seconds = number("sinceSeconds"))
    options.since = server.loop.clock().now() - std::chrono::seconds(*seconds);
  if (auto since = parseTime(asked.option("sinceTime"))) options.since = *since;
  node::sendLog(
      server.loop, kept.log, options,
      [&runtime = server.runtime, run = kept.run] { return runtime.isAlive(run); }, request);
  return std::nullopt;
}

std::optional<hub::Failure> forward(const PodServer& server, const hub::Asked& asked,
                                    const json::Value& pod,
                                    const std::shared_ptr<net::ServerRequest>& request) {
  const std::string& address = pod["status"]["podIP"].string();
  if (address.empty() || pod["status"]["phase"].string() != "Running")
    return hub::badRequest(
        format("unable to forward port because pod is not running. Current "
               "status={}",
               pod["status"]["phase"].string()));
  std::vector<std::uint16_t> ports;
  for (const auto& [name, value] : asked.target.query) {
    if (name != "ports") continue;
    for (std::string_view text : split(value, ',')) {
      auto port = parseInt(text);
      if (!port || *port < 1 || *port > 65535)
        return hub::badRequest(format("unable to parse \"{}\" as a port", text));
      ports.push_back(static_cast<std::uint16_t>(*port));
    }
  }
  if (ports.empty() || ports.size() > kMaxPorts)
    return hub::badRequest(format("query parameter \"ports\": name 1 to {} of them", kMaxPorts));
  server.streams.forward(address, ports, request);
  return std::nullopt;
}

std::optional<hub::Failure> talk(const PodServer& server, const hub::Asked& asked,
                                 const json::Value& pod, const Meant& meant,
                                 const std::shared_ptr<net::ServerRequest>& request) {
  Kept kept =
      Kept::of(server, pod, meant, meant.status ? (*meant.status)["restartCount"].integer() : 0);
  if (!server.runtime.isAlive(kept.run))
    return hub::internal(
        format("unable to upgrade connection: container not found (\"{}\")", meant.name));
  if (asked.subresource == "attach") {
    server.streams.attach(
        kept.log, [&runtime = server.runtime, run = kept.run] { return runtime.isAlive(run); },
        request);
    return std::nullopt;
  }
  node::Streams::Exec wanted{.command = {},
                             .input = asked.flag("stdin"),
                             .output = asked.flag("stdout"),
                             .errors = asked.flag("stderr"),
                             .terminal = asked.flag("tty")};
  for (const auto& [name, value] : asked.target.query)
    if (name == "command") wanted.command.push_back(value);
  if (wanted.command.empty()) return hub::badRequest("you must specify at least one command");
  if (!wanted.input && !wanted.output && !wanted.errors)
    return hub::badRequest("you must specify at least 1 of stdin, stdout, stderr");
  server.streams.exec(kept.run, wanted, request);
  return std::nullopt;
}

}  // namespace

void answerForPod(const PodServer& server, const hub::Asked& asked, const json::Value& pod,
                  std::shared_ptr<net::ServerRequest> request) {
  std::optional<hub::Failure> failure;
  if (asked.subresource == "portforward") {
    failure = forward(server, asked, pod, request);
  } else if (auto meant = containerFor(asked, pod); !meant) {
    failure = meant.failure();
  } else {
    failure = asked.subresource == "log" ? sendLog(server, asked, pod, *meant, request)
                                         : talk(server, asked, pod, *meant, request);
  }
  if (failure)
    request->respond(failure->code, {{"content-type", "application/json"}},
                     json::write(failure->status()));
}

}  // namespace cadre::cli
