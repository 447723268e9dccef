#include "cli/up.h"

#include <CLI/CLI.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>

#include <sys/utsname.h>
#include <unistd.h>

#include "base/format.h"
#include "cli/apply.h"
#include "cli/cluster.h"
#include "cli/commands.h"
#include "cli/files.h"
#include "cli/hash_key.h"
#include "cli/hub_host.h"
#include "cli/manifests.h"
#include "cli/pod_requests.h"
#include "cli/systems.h"
#include "cli/up_file.h"
#include "cli/up_view.h"
#include "engine/engine.h"
#include "hub/transport.h"
#include "json/write.h"
#include "kinds/kaos/tools.h"
#include "kube/discovery.h"
#include "node/docker_runtime.h"
#include "node/ingress_server.h"
#include "node/pods.h"
#include "node/process_runtime.h"
#include "node/service_proxy.h"
#include "node/supervisor.h"
#include "node/workloads.h"
#include "wire/docker.h"

namespace cadre::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kNode = "cadre";
const kube::Resource kNodes{
    .version = "v1", .plural = "nodes", .kind = "Node", .namespaced = false};
const kube::Resource kDefinitions{.group = "apiextensions.k8s.io",
                                  .version = "v1",
                                  .plural = "customresourcedefinitions",
                                  .kind = "CustomResourceDefinition",
                                  .namespaced = false};

struct UpFlags {
  HubFlags hub;
  std::string runtime = "auto";
  std::uint16_t ingress_port = 8080;
  std::vector<std::string> files;
  Systems systems;
};

// ---- What runs containers

std::string ownProgram() {
  std::error_code ignored;
  return fs::read_symlink("/proc/self/exe", ignored).string();
}

bool hasProcesses(const fs::path& data) {
  std::error_code ignored;
  return fs::exists(data / "runs", ignored) && !fs::is_empty(data / "runs", ignored);
}

Result<std::unique_ptr<node::Runtime>> processRuntime(net::Loop& loop, const fs::path& data) {
  return node::makeProcessRuntime(
      loop, {.folder = data / "runs", .images = data / "images", .program = ownProgram()});
}

Result<std::unique_ptr<node::Runtime>> dockerRuntime(net::Loop& loop, const fs::path& data,
                                                     const std::string& socket, Logger* logger) {
  return node::makeDockerRuntime(
      loop,
      {.folder = data / "docker", .program = ownProgram(), .socket = socket, .logger = logger});
}

// Ends all that runs; how many there were.
Result<std::size_t> endAll(net::Loop& loop, node::Runtime& runtime) {
  std::size_t left = 0, ended = 0;
  runtime.ended = [&](const auto&, const auto&) { ++ended; };
  for (const auto& [name, run] : runtime.find()) {
    if (run.state == node::Run::State::Ended) continue;
    ++left;
    runtime.stop(name, true);
  }
  loop.runUntil([&] { return ended == left; }, 30s);
  runtime.ended = nullptr;
  CADRE_TRY(net::await<void>(loop, [&](auto done) { return runtime.close(std::move(done)); }));
  return left;
}

// What one that was killed has left, but in one runtime: the others are no longer used, and what
// they know of former runs goes, too.
Result<std::size_t> endRest(net::Loop& loop, const fs::path& data, std::string_view but) {
  std::size_t ended = 0;
  std::error_code ignored;
  if (but != "process" && hasProcesses(data)) {
    CADRE_LET(auto runtime, processRuntime(loop, data));
    CADRE_LET(ended, endAll(loop, *runtime));
    if (!but.empty()) fs::remove_all(data / "runs", ignored);
  }
  auto socket = node::dockerSocketOf(data / "docker");
  if (but == "docker" || !socket) return ended;
  CADRE_LET(auto runtime, dockerRuntime(loop, data, *socket, nullptr));
  CADRE_LET(std::size_t more, endAll(loop, *runtime));
  if (!but.empty()) fs::remove_all(data / "docker", ignored);
  return ended + more;
}

// `auto` is Docker where it answers. Says which it is.
Result<std::unique_ptr<node::Runtime>> chooseRuntime(net::Loop& loop, const UpFlags& flags,
                                                     Logger* logger,
                                                     const Surroundings& surroundings) {
  fs::path data = flags.hub.data;
  const char* host = std::getenv("DOCKER_HOST");
  auto socket = wire::dockerSocket(host ? host : "");
  Result<> answers = socket ? Result<>() : Result<>(socket.error());
  if (flags.runtime != "process" && socket) answers = node::tryDocker(loop, *socket);
  if (flags.runtime == "docker" && !answers) return answers.error();
  if (flags.runtime != "process" && answers) {
    surroundings.err(format("cadre: pods run as containers, by Docker at {}\n", *socket));
    if (hasProcesses(data)) CADRE_TRY(endRest(loop, data, "docker"));
    return dockerRuntime(loop, data, *socket, logger);
  }
  surroundings.err(flags.runtime == "process"
                       ? "cadre: pods run as processes\n"
                       : "cadre: pods run as processes: Docker does not answer\n");
  if (auto ended = endRest(loop, data, "process"); !ended)
    surroundings.err(
        format("cadre: containers of former times may run on: {}\n", ended.error().text()));
  return processRuntime(loop, data);
}

// ---- What a cluster has from the start

Result<> apply(Cluster& cluster, const kube::Resource& resource, const json::Value& object,
               std::string subresource = {}) {
  kube::WriteOptions options{.field_manager = "cadre-up", .force = true};
  options.subresource = std::move(subresource);
  CADRE_TRY(cluster.await<json::Value>([&](auto done) {
    return cluster.client->apply(resource, object, options, std::move(done));
  }));
  return {};
}

Result<> furnish(Cluster& cluster, const UpFlags& flags, std::string_view runtime) {
  for (const json::Value& crd : crds(flags.systems)) CADRE_TRY(apply(cluster, kDefinitions, crd));
  CADRE_TRY(apply(
      cluster, node::kNamespaces,
      json::Object{{"apiVersion", "v1"},
                   {"kind", "Namespace"},
                   {"metadata", json::Object{{"name", flags.systems.kaos.system_namespace}}}}));
  json::Value node = json::Object{
      {"apiVersion", "v1"},
      {"kind", "Node"},
      {"metadata", json::Object{{"name", kNode},
                                {"labels", json::Object{{"kubernetes.io/hostname", kNode},
                                                        {"kubernetes.io/os", "linux"}}}}}};
  CADRE_TRY(apply(cluster, kNodes, node));
  struct utsname about{};
  uname(&about);
  std::string now = formatTime(cluster.loop.clock().now());
  node.make("status") = json::Object{
      {"addresses", json::Array{json::Object{{"type", "InternalIP"}, {"address", "127.0.0.1"}}}},
      {"conditions", json::Array{json::Object{{"type", "Ready"},
                                              {"status", "True"},
                                              {"reason", "NodeReady"},
                                              {"message", "this machine runs pods"},
                                              {"lastHeartbeatTime", now},
                                              {"lastTransitionTime", now}}}},
      {"nodeInfo", json::Object{{"machineID", ""},
                                {"systemUUID", ""},
                                {"bootID", ""},
                                {"kernelVersion", about.release},
                                {"osImage", about.sysname},
                                {"containerRuntimeVersion", format("{}://1", runtime)},
                                {"kubeletVersion", "cadre"},
                                {"kubeProxyVersion", ""},
                                {"operatingSystem", "linux"},
                                {"architecture", about.machine}}}};
  return apply(cluster, kNodes, node, "status");
}

// What is wrong with one of them is told, and keeps nothing else from running.
Result<> applyAtStart(Cluster& cluster, const std::vector<std::string>& files,
                      const Surroundings& surroundings) {
  if (files.empty()) return {};
  auto tell = [&](const Error& error) { fail(surroundings, error.text()); };
  auto objects = readObjects(files);
  if (!objects) {
    tell(objects.error());
    return {};
  }
  return applyObjects(cluster, *std::move(objects),
                      {.force = true, .applied = [](const auto&, auto) {}, .failed = tell});
}

// Whose progress is shown: what makes pods, and our own kinds.
std::vector<kube::Resource> viewedKinds(const Systems& systems) {
  std::vector<kube::Resource> kinds{
      {.group = "apps", .version = "v1", .plural = "deployments", .kind = "Deployment"},
      {.group = "apps", .version = "v1", .plural = "statefulsets", .kind = "StatefulSet"},
      {.group = "batch", .version = "v1", .plural = "jobs", .kind = "Job"}};
  for (const json::Value& crd : crds(systems)) {
    const json::Value& spec = crd["spec"];
    kinds.push_back({.group = spec["group"].string(),
                     .version = spec["versions"].at(0)["name"].string(),
                     .plural = spec["names"]["plural"].string(),
                     .kind = spec["names"]["kind"].string(),
                     .namespaced = spec["scope"].string() == "Namespaced"});
  }
  return kinds;
}

// ----

Result<int> runUp(const UpFlags& flags, const Surroundings& surroundings) {
  fs::path data = flags.hub.data;
  std::error_code code;
  fs::create_directories(data, code);
  fs::permissions(data, fs::perms::owner_all, code);
  CADRE_LET(UpFile up, UpFile::take(data));
  SystemClock clock;
  std::unique_ptr<UpView> view;
  Logger logger(clock, {.level = LogLevel::Warn},
                [&view, plain = Logger::stderrSink()](std::string_view line) {
                  view ? view->say(line) : plain(line);
                });
  Random random = Random::fromSystem();
  Cluster cluster;
  net::Loop& loop = cluster.loop;
  CADRE_LET(auto runtime, chooseRuntime(loop, flags, &logger, surroundings));
  node::Streams streams(loop, *runtime);
  CADRE_LET(auto host, HubHost::open(loop, flags.hub,
                                     [&, data](const hub::Asked& asked, const json::Value& pod,
                                               std::shared_ptr<net::ServerRequest> request) {
                                       answerForPod({loop, data, *runtime, streams}, asked, pod,
                                                    std::move(request));
                                     }));
  auto clientFor = [&](const std::string& name) {
    return hub::directClient(
        loop,
        [&, name] { return hub::directTransport(loop, host->hub(), name, {"system:masters"}); },
        {.user_agent = name, .field_manager = name, .logger = &logger});
  };
  cluster.client = clientFor("cadre-up");
  CADRE_TRY(furnish(cluster, flags, runtime->name()));
  CADRE_LET(std::string key, makeHashKey(cluster, flags.systems.kaos.system_namespace));

  // Two engines on one hub: what runs workloads, and what serves our own kinds.
  auto node_client = clientFor("cadre-node"), operator_client = clientFor("cadre-operator");
  engine::Engine workloads(*node_client, random,
                           {.kinds = node::workloadKinds(host->authority()),
                            .scopes = node::workloadScopes(),
                            .whole = true,
                            .controller = "cadre-node",
                            .logger = &logger});
  workloads.lead(true);
  engine::EngineOptions options;
  flags.systems.serve(options);
  options.observations.push_back(
      kaos::toolsObservation(loop, *operator_client, flags.systems.kaos.tools_interval));
  options.controller = "cadre-operator";
  options.logger = &logger;
  options.hash_secret = hashWith(key);
  engine::Engine systems(*operator_client, random, std::move(options));
  systems.lead(true);
  std::unique_ptr<node::Supervisor> supervisor;
  node::ServiceProxy proxy(
      loop, *node_client, random, &logger, {"127.0.0.1", host->port()},
      [&] {
        if (supervisor) supervisor->refreshNames();
      },
      [&](const node::ServiceTable& table) { runtime->serve(table); });
  supervisor = std::make_unique<node::Supervisor>(
      loop, *node_client, random, *runtime,
      node::SupervisorOptions{
          .node = std::string(kNode),
          .folder = data / "node",
          .logger = &logger,
          .names = [&](std::string_view ns) { return proxy.namesFor(ns); },
          .links = [&](std::string_view ns, bool all) { return proxy.linksFor(ns, all); }});
  node::IngressServer ingresses(
      loop, *node_client, random, proxy,
      {.port = flags.ingress_port, .logger = &logger, .tell = [&](const std::string& line) {
         surroundings.err(format("cadre: {}\n", line));
       }});

  CADRE_TRY(applyAtStart(cluster, flags.files, surroundings));
  surroundings.out(host->kubeconfig() + "\n");
  surroundings.err(format("cadre: up; try `kubectl --kubeconfig {} get pods -A`; Ctrl-C ends it\n",
                          host->kubeconfig()));
  if (UpView::isPossible(surroundings))
    view =
        std::make_unique<UpView>(loop, *cluster.client, viewedKinds(flags.systems), surroundings);
  bool stopping = false;
  Pending closing;
  Pending signals = net::onSignals(loop, {SIGINT, SIGTERM}, [&](int) {
    if (std::exchange(stopping, true)) return loop.stop();  // the second time: now
    view.reset();
    workloads.lead(false);
    systems.lead(false);
    supervisor->shutDown([&] {
      closing = runtime->close([&](const Result<>& closed) {
        if (!closed) surroundings.err(format("cadre: {}\n", closed.error().text()));
        loop.stop();
      });
    });
  });
  loop.run();
  view.reset();
  return 0;
}

// Also ends what a killed one has left behind.
Result<int> runDown(const std::string& folder, const Surroundings& surroundings) {
  fs::path data = folder;
  if (std::error_code ignored; !fs::exists(UpFile::pathOf(data), ignored))
    return Error{.code = Code::NotFound,
                 .message = format("{} was never up: name its folder with --data", folder)};
  UpFile up(data);
  bool was_up = up.isHeld();
  if (was_up && up.process() > 1) kill(up.process(), SIGTERM);
  net::Loop loop;
  bool ended_well = false;
  for (int i = 0; i < 1200 && !ended_well; ++i)  // nothing wakes us
    ended_well = loop.runUntil([&] { return !up.isHeld(); }, 50ms);
  if (!ended_well)
    return Error{.code = Code::DeadlineExceeded,
                 .message = format("process {} does not end: kill it", up.process())};
  CADRE_LET(std::size_t left, endRest(loop, data, ""));
  surroundings.out(was_up ? "down\n" : format("it was not up; {} containers ended\n", left));
  return 0;
}

}  // namespace

Result<std::size_t> endLeftovers(net::Loop& loop, const std::string& data) {
  return endRest(loop, data, "");
}

void addUp(CLI::App& app, const Surroundings& surroundings, int& exit_code) {
  auto flags = std::make_shared<UpFlags>();
  flags->hub.data = defaultFolder();
  auto* command = app.add_subcommand("up", "Run a whole system on this machine, without a cluster");
  command->add_option("-f,--filename", flags->files,
                      "Files and folders with objects to begin with");
  command->add_option("--data", flags->hub.data, "Folder for all that it keeps")
      ->capture_default_str();
  command->add_option("--port", flags->hub.port, "Of the API; 0: any free one")
      ->capture_default_str();
  command
      ->add_option("--ingress-port", flags->ingress_port,
                   "Where Ingresses are served, when there are some; 0: any free one")
      ->capture_default_str();
  command
      ->add_option("--runtime", flags->runtime,
                   "What runs containers; auto: Docker where it answers, else processes")
      ->check(CLI::IsMember({"auto", "docker", "process"}))
      ->capture_default_str();
  command->callback([flags, &surroundings, &exit_code] {
    auto ran = runUp(*flags, surroundings);
    exit_code = ran ? *ran : fail(surroundings, ran.error().text());
  });
}

void addDown(CLI::App& app, const Surroundings& surroundings, int& exit_code) {
  auto folder = std::make_shared<std::string>(defaultFolder());
  auto* command = app.add_subcommand("down", "End what `cadre up` runs");
  command->add_option("--data", *folder, "Its folder")->capture_default_str();
  command->callback([folder, &surroundings, &exit_code] {
    auto ran = runDown(*folder, surroundings);
    exit_code = ran ? *ran : fail(surroundings, ran.error().text());
  });
}

}  // namespace cadre::cli
