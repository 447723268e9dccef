#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>

#include <unistd.h>

#include "base/format.h"
#include "base/strings.h"
#include "cli/commands.h"
#include "cli/target_pod.h"
#include "json/parse.h"
#include "json/write.h"
#include "net/terminal.h"

namespace cadre::cli {
namespace {

constexpr unsigned char kStdin = 0, kStdout = 1, kStderr = 2, kError = 3, kResize = 4, kClose = 255;
constexpr std::size_t kAhead = 1u << 20;  // of what the server has taken

struct ExecFlags {
  ClusterFlags cluster;
  std::string target, container;
  std::vector<std::string> command;
  bool input = false, terminal = false;
};

std::string targetOf(const ExecFlags& flags, const json::Value& pod, bool terminal) {
  std::string target = format("/api/v1/namespaces/{}/pods/{}/exec?stdout=true",
                              urlEncode(kube::ns(pod)), urlEncode(kube::name(pod)));
  if (flags.input) target += "&stdin=true";
  target += terminal ? "&tty=true" : "&stderr=true";
  // Without a word the first one is meant.
  std::string container = flags.container;
  if (container.empty())
    container = kube::annotation(pod, "kubectl.kubernetes.io/default-container");
  if (container.empty()) container = pod["spec"]["containers"].at(0)["name"].string();
  target += "&container=" + urlEncode(container);
  for (const std::string& word : flags.command) target += "&command=" + urlEncode(word);
  return target;
}

// How it ended: its exit code, or why there is none.
Result<int> endOf(std::string_view text) {
  auto status = json::parse(text);
  if (status && (*status)["status"].string() == "Success") return 0;
  if (status && (*status)["reason"].string() == "NonZeroExitCode")
    for (const json::Value& cause : (*status)["details"]["causes"].array())
      if (cause["reason"].string() == "ExitCode")
        return static_cast<int>(parseInt(cause["message"].string()).value_or(1));
  return Error{.code = Code::Internal,
               .message = status ? (*status)["message"].string() : std::string(text)};
}

Result<int> runExec(const ExecFlags& flags, const Surroundings& surroundings) {
  CADRE_LET(auto cluster, Cluster::connect(flags.cluster, surroundings));
  CADRE_LET(json::Value pod, findPod(*cluster, flags.target));
  const bool terminal = flags.terminal && net::isTerminal(STDIN_FILENO);
  if (flags.terminal && !terminal)
    surroundings.err("cadre: the input is no terminal, so the command gets none either\n");
  CADRE_LET(auto socket, cluster->await<std::unique_ptr<net::WebSocket>>([&](auto done) {
    return cluster->client->openWebSocket(targetOf(flags, pod, terminal), "v5.channel.k8s.io",
                                          std::move(done));
  }));
  auto send = [&](unsigned char channel, std::string_view bytes) {
    std::string message(1, static_cast<char>(channel));
    message += bytes;
    socket->send(false, std::move(message));
  };
  std::optional<Result<int>> ended;
  socket->listen({.message =
                      [&](bool, std::string_view message) {
                        if (message.size() < 2) return;
                        std::string_view bytes = message.substr(1);
                        switch (static_cast<unsigned char>(message[0])) {
                          case kStdout:
                            return surroundings.out(bytes);
                          case kStderr:
                            return surroundings.err(bytes);
                          case kError:
                            ended = endOf(bytes);
                            return cluster->loop.stop();
                          default:
                            return;
                        }
                      },
                  .closed = [&] { cluster->loop.stop(); }});
  auto tellSize = [&] {
    if (auto size = net::terminalSize(STDOUT_FILENO))
      send(kResize, json::write(json::Object{{"Width", size->columns}, {"Height", size->rows}}));
  };
  Pending resized;
  if (terminal) {
    tellSize();
    resized = net::onSignals(cluster->loop, {SIGWINCH}, [&](int) { tellSize(); });
  }
  std::unique_ptr<net::Typing> typing;
  if (flags.input)
    typing = net::Typing::begin(cluster->loop, terminal,
                                {.typed = [&](std::string_view piece) { send(kStdin, piece); },
                                 .ended = [&] { send(kClose, std::string_view("\0", 1)); },
                                 .full = [&] { return socket->backlog() > kAhead; }});
  cluster->loop.run();
  if (ended) return *std::move(ended);
  return Error{.code = Code::Unavailable,
               .message = "the connection ended before the command did: is the pod still there?"};
}

}  // namespace

void addExec(CLI::App& app, const Surroundings& surroundings, int& exit_code) {
  auto flags = std::make_shared<ExecFlags>();
  auto* command = app.add_subcommand("exec", "Run a command in a container, and talk with it");
  command->add_option("target", flags->target, "A pod, or deploy/NAME and the like")->required();
  command->add_option("command", flags->command, "What to run, after --")->required();
  command->add_option("-c,--container", flags->container, "Which one of the pod");
  command->add_flag("-i,--stdin", flags->input, "It gets what is typed here");
  command->add_flag("-t,--tty", flags->terminal, "It gets a terminal");
  flags->cluster.addTo(*command, Namespaces::One);
  command->callback([flags, &surroundings, &exit_code] {
    auto ran = runExec(*flags, surroundings);
    exit_code = ran ? *ran : fail(surroundings, ran.error().text());
  });
}

}  // namespace cadre::cli
