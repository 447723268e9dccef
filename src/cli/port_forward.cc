#include <CLI/CLI.hpp>
#include <csignal>
#include <set>

#include "base/format.h"
#include "base/strings.h"
#include "cli/commands.h"
#include "cli/target_pod.h"
#include "net/socket.h"

namespace cadre::cli {
namespace {

constexpr std::size_t kAhead = 1u << 20;  // of what a side has taken
constexpr std::size_t kMaxConnections = 1000;
constexpr std::size_t kPortBytes = 2;  // by which each channel begins
constexpr Duration kPause = 100ms;
constexpr Duration kRest = 10s;  // for what is still to be said

struct ForwardFlags {
  ClusterFlags cluster;
  std::string target, address = "127.0.0.1";
  std::vector<std::string> ports;
};

struct Ports {
  std::uint16_t local = 0, remote = 0;

  // "8080", "8080:80", ":80" for any that is free.
  static Result<Ports> parse(const std::string& text) {
    auto number = [](std::string_view word) {
      auto value = parseInt(word);
      return value && *value >= 1 && *value <= 65535 ? value : std::nullopt;
    };
    auto [first, second] = cut(text, ":");
    bool pair = text.find(':') != std::string::npos;
    auto local = pair && first.empty() ? std::optional<std::int64_t>(0) : number(first);
    auto remote = number(pair ? second : first);
    if (!local || !remote)
      return Error{.code = Code::InvalidArgument,
                   .message = format("\"{}\" is no port: write 8080, 8080:80, or :80 for any that "
                                     "is free",
                                     text)};
    return Ports{static_cast<std::uint16_t>(*local), static_cast<std::uint16_t>(*remote)};
  }
};

// One connection, and its WebSocket.
struct Passing {
  std::unique_ptr<net::Socket> local;
  std::unique_ptr<net::WebSocket> remote;
  std::string early;                         // what was said before there was one
  std::size_t begun[2] = {0, 0};             // of each channel
  bool said_all = false, heard_all = false;  // the client and the pod say no more
  Pending opening, leaving;
};

class Forwarding {
 public:
  Forwarding(Cluster& cluster, const Surroundings& surroundings, const json::Value& pod)
      : cluster_(cluster),
        surroundings_(surroundings),
        target_(format("/api/v1/namespaces/{}/pods/{}/portforward", urlEncode(kube::ns(pod)),
                       urlEncode(kube::name(pod)))) {}

  void came(std::unique_ptr<net::Socket> socket, std::uint16_t port) {
    if (passing_.size() >= kMaxConnections) return;
    auto one = std::make_shared<Passing>();
    passing_.insert(one);
    Passing* passing = one.get();
    auto withIt = [weak = std::weak_ptr(one)](auto then) {
      return [weak, then](auto... arguments) {
        if (auto self = weak.lock()) then(*self, arguments...);
      };
    };
    one->local = std::move(socket);
    one->local->listen({.data = withIt([](Passing& self, std::string_view piece) {
                          self.remote ? send(self, piece) : void(self.early += piece);
                        }),
                        .ended = withIt([this](Passing& self) {
                          self.said_all = true;
                          leaveSoon(self);
                        }),
                        .full = [passing] {
                          return (passing->remote ? passing->remote->backlog()
                                                  : passing->early.size()) > kAhead;
                        }});
    one->opening = cluster_.client->openWebSocket(
        format("{}?ports={}", target_, port), "v4.channel.k8s.io",
        [this, weak = std::weak_ptr(one)](Result<std::unique_ptr<net::WebSocket>> opened) {
          if (auto self = weak.lock()) this->opened(self, std::move(opened));
        });
  }

 private:
  static void send(Passing& one, std::string_view piece) {
    one.remote->send(false, std::string(1, '\0') + std::string(piece));
  }

  void opened(const std::shared_ptr<Passing>& one, Result<std::unique_ptr<net::WebSocket>> opened) {
    if (!opened) {
      surroundings_.err(format("cadre: {}\n", withoutControls(opened.error().text())));
      return heardAll(*one);
    }
    one->remote = *std::move(opened);
    std::weak_ptr weak = one;
    one->remote->listen({.message =
                             [this, weak](bool, std::string_view message) {
                               if (auto self = weak.lock()) heard(*self, message);
                             },
                         .closed =
                             [this, weak] {
                               if (auto self = weak.lock()) heardAll(*self);
                             }});
    if (!one->early.empty()) send(*one, std::exchange(one->early, {}));
  }

  void heard(Passing& one, std::string_view message) {
    if (message.empty() || message[0] < 0 || message[0] > 1) return;
    std::size_t& begun = one.begun[static_cast<int>(message[0])];
    std::string_view bytes = message.substr(1);
    std::size_t skip = std::min(kPortBytes - begun, bytes.size());
    begun += skip;
    bytes.remove_prefix(skip);
    if (bytes.empty()) return;
    if (message[0] == 0) return one.local->send(bytes);
    surroundings_.err(format("cadre: {}\n", withoutControls(std::string(bytes))));
  }

  // The client hears the rest, and leaves then.
  void heardAll(Passing& one) {
    one.heard_all = true;
    one.local->finish();
    leaveSoon(one);
  }

  // One side has said all. The client gets what is left for it; the pod, which there is no way to
  // tell, has a while for the rest.
  void leaveSoon(Passing& one) {
    bool last = one.heard_all && (one.said_all || one.local->backlog() == 0);
    Duration pause = last ? 0s : one.heard_all ? kPause : kRest;
    one.leaving = cluster_.loop.after(pause, [this, passing = &one, last] {
      if (!last && passing->heard_all) return leaveSoon(*passing);
      std::erase_if(passing_, [&](const auto& each) { return each.get() == passing; });
    });
  }

  Cluster& cluster_;
  const Surroundings& surroundings_;
  const std::string target_;
  std::set<std::shared_ptr<Passing>> passing_;
};

Result<int> runForward(const ForwardFlags& flags, const Surroundings& surroundings) {
  std::vector<Ports> all;
  for (const std::string& text : flags.ports) {
    CADRE_LET(Ports ports, Ports::parse(text));
    all.push_back(ports);
  }
  CADRE_LET(auto cluster, Cluster::connect(flags.cluster, surroundings));
  CADRE_LET(json::Value pod, findPod(*cluster, flags.target));
  Forwarding forwarding(*cluster, surroundings, pod);
  std::vector<std::unique_ptr<net::Acceptor>> acceptors;
  for (const Ports& ports : all) {
    CADRE_LET(auto acceptor, net::Acceptor::listen(cluster->loop, {flags.address, ports.local},
                                                   [&forwarding, port = ports.remote](auto socket) {
                                                     forwarding.came(std::move(socket), port);
                                                   }));
    surroundings.out(format("{} -> {}:{}\n", net::authority(flags.address, acceptor->port()),
                            kube::name(pod), ports.remote));
    acceptors.push_back(std::move(acceptor));
  }
  Pending signals =
      net::onSignals(cluster->loop, {SIGINT, SIGTERM}, [&](int) { cluster->loop.stop(); });
  cluster->loop.run();
  return 0;
}

}  // namespace

void addPortForward(CLI::App& app, const Surroundings& surroundings, int& exit_code) {
  auto flags = std::make_shared<ForwardFlags>();
  auto* command = app.add_subcommand("port-forward", "Reach the ports of a pod on this machine");
  command->add_option("target", flags->target, "A pod, or deploy/NAME, svc/NAME and the like")
      ->required();
  command->add_option("ports", flags->ports, "LOCAL:REMOTE, one for both, or :REMOTE")->required();
  command->add_option("--address", flags->address, "Where to listen")->capture_default_str();
  flags->cluster.addTo(*command, Namespaces::One);
  command->callback([flags, &surroundings, &exit_code] {
    auto ran = runForward(*flags, surroundings);
    exit_code = ran ? *ran : fail(surroundings, ran.error().text());
  });
}

}  // namespace cadre::cli
