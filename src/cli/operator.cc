#include <CLI/CLI.hpp>
#include <csignal>
#include <fstream>

#include <unistd.h>

#include "base/format.h"
#include "base/strings.h"
#include "cli/cluster.h"
#include "cli/commands.h"
#include "cli/config_file.h"
#include "cli/files.h"
#include "cli/hash_key.h"
#include "cli/manifests.h"
#include "cli/systems.h"
#include "engine/election.h"
#include "engine/engine.h"
#include "engine/serve.h"
#include "kinds/kaos/tools.h"
#include "net/tls.h"

namespace cadre::cli {
namespace {

struct OperatorFlags {
  std::string config;
  ClusterFlags cluster;
  Systems systems;
  std::vector<std::string> namespaces;
  bool leader_elect = false;
  std::string metrics_address = ":8080", health_address = ":8081", webhook_address = "0";
  std::string webhook_certificates;
  std::string log_level;  // empty: that of what is run
  std::string log_format = "text";
  double qps = 0;
  int burst = 0;

  void addTo(CLI::App& command);
};

constexpr Duration kConfigInterval = 5s;
constexpr int kBeginAnew = -1;
constexpr std::string_view kWebhookKeys = "cadre-webhook-keys";

void OperatorFlags::addTo(CLI::App& command) {
  command.add_option("--config", config,
                     "File with settings by the names of these flags, in YAML; a change starts the "
                     "program anew. Flags and environment variables come first");
  cluster.addTo(command, Namespaces::None);
  systems.addTo(command);
  // Empty is refused: a variable that nobody has set must not widen it to all of them.
  command.add_option("--watch-namespaces", namespaces, "Only these; all when not given")
      ->delimiter(',')
      ->check(namespaceProblem);
  command.add_flag("--leader-elect", leader_elect, "Let one of several programs lead");
  command.add_option("--metrics-bind-address", metrics_address, "Where; 0 for nowhere")
      ->capture_default_str();
  command.add_option("--health-probe-bind-address", health_address, "Where; 0 for nowhere")
      ->capture_default_str();
  command
      .add_option("--webhook-bind-address", webhook_address,
                  "Where objects are judged before they are stored; 0 for nowhere")
      ->capture_default_str();
  command.add_option("--webhook-cert-path", webhook_certificates,
                     "Folder with tls.crt and tls.key for that; else keys of its own are kept in "
                     "the Secret cadre-webhook-keys");
  command.add_option("--log-level", log_level,
                     "debug, info, warn or error (default: that of --kaos-log-level)");
  command.add_option("--log-format", log_format, "text or json")->capture_default_str();
  command.add_option("--kube-api-qps", qps, "Requests per second; 0 for no limit")
      ->capture_default_str();
  command.add_option("--kube-api-burst", burst, "Requests at once beyond that");
}

// Also as the programs that are run call them.
std::optional<LogLevel> levelOf(std::string_view called) {
  std::string name = lower(called);
  if (name == "trace") name = "debug";
  if (name == "warning") name = "warn";
  return parseLogLevel(name);
}

// The file with settings, while the program runs by them.
class Config {
 public:
  Config(net::Loop& loop, Logger& logger, std::string path, Function<void()> changed)
      : loop_(loop), logger_(logger), path_(std::move(path)), changed_(std::move(changed)) {
    if (path_.empty()) return;
    if (auto text = readAll(path_)) seen_ = *text;
    lookLater();
  }

 private:
  void lookLater() {
    timer_ = loop_.after(kConfigInterval, [this] { look(); });
  }
  void look() {
    auto text = readAll(path_);
    if (!text || *text == seen_) return lookLater();
    seen_ = *text;
    OperatorFlags flags;
    CLI::App command;
    flags.addTo(command);
    auto applied = applySettings(command, seen_, path_);
    if (applied) return changed_();
    logger_.error("the new settings are passed over", {{"error", applied.error().text()}});
    lookLater();
  }

  net::Loop& loop_;
  Logger& logger_;
  const std::string path_;
  const Function<void()> changed_;
  std::string seen_;
  Pending timer_;
};

// The same program with the same arguments takes this one's place.
int beginAnew(const Surroundings& surroundings) {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::execv("/proc/self/exe", argv.data());
  return fail(surroundings, "the program cannot be started anew with its new settings");
}

// The cluster has our own kinds: without them there is nothing to serve.
engine::Check served(const Systems& systems, engine::Engine& engine) {
  return {"kinds", [&]() -> std::string {
            for (const kube::Kind* kind : systems.kinds())
              if (engine.source().state(kind->resource()) == engine::Source::State::NotServed)
                return format(
                    "the cluster does not serve {}.{}: apply what `cadre manifests crds` prints",
                    kind->plural, kind->group);
            return {};
          }};
}

int runOperator(const OperatorFlags& flags, const Surroundings& surroundings) {
  auto level = levelOf(flags.log_level.empty() ? flags.systems.kaos.log_level : flags.log_level);
  auto log_format = parseLogFormat(flags.log_format);
  if (!level || !log_format)
    return fail(surroundings,
                "--log-level is debug, info, warn or error; --log-format text or json");
  if (flags.webhook_address != "0" && !flags.webhook_certificates.empty())
    for (std::string_view file : {"tls.crt", "tls.key"})
      if (auto text = readAll(format("{}/{}", flags.webhook_certificates, file)); !text)
        return fail(surroundings, text.error().context("--webhook-cert-path").text());
  SystemClock clock;
  Logger logger(clock, {.level = *level, .format = *log_format}, Logger::stderrSink());
  Metrics metrics;
  auto cluster = Cluster::connect(flags.cluster, surroundings,
                                  {.user_agent = "cadre-operator",
                                   .qps = flags.qps,
                                   .burst = flags.burst,
                                   .logger = &logger,
                                   .metrics = &metrics});
  if (!cluster) return fail(surroundings, cluster.error().text());
  net::Loop& loop = (*cluster)->loop;
  kube::Client& client = *(*cluster)->client;
  const std::string& ns = flags.systems.kaos.system_namespace;
  auto key = makeHashKey(**cluster, ns);
  if (!key) return fail(surroundings, key.error().text());

  Random random = Random::fromSystem();
  std::unique_ptr<engine::Election> election;
  engine::EngineOptions options;
  flags.systems.serve(options);
  options.observations.push_back(
      kaos::toolsObservation(loop, client, flags.systems.kaos.tools_interval));
  options.namespaces = flags.namespaces;
  options.predecessors = {"manager", "kaos-operator", "controller"};
  options.controller = "cadre-operator";
  options.logger = &logger;
  options.metrics = &metrics;
  options.hash_secret = hashWith(*key);
  if (flags.leader_elect) options.still_leads = [&] { return election && election->holds(); };
  engine::Engine engine(client, random, std::move(options));

  int exit_code = 0;
  if (flags.leader_elect) {
    std::string host(256, '\0');
    ::gethostname(host.data(), host.size());
    host.resize(host.find('\0'));
    election = std::make_unique<engine::Election>(
        client, random,
        engine::ElectionOptions{.lease = {ns, "cadre-operator"},
                                .identity = format("{}_{}", host, hexEncode(net::secureRandom(8))),
                                .logger = &logger,
                                .metrics = &metrics},
        [&](bool leads) {
          engine.lead(leads);
          if (leads) return;
          exit_code = 1;  // it was taken from us
          loop.stop();
        });
  } else {
    engine.lead(true);
  }
  std::unique_ptr<engine::WebhookServer> webhook;
  if (flags.webhook_address != "0") {
    auto opened =
        engine::WebhookServer::open(loop, client, random,
                                    {.address = flags.webhook_address,
                                     .validators = flags.systems.validators(),
                                     .certificate_directory = flags.webhook_certificates,
                                     .keys = {.secret = {ns, std::string(kWebhookKeys)},
                                              .configuration = std::string(kWebhookConfiguration),
                                              .names = {format("{}.{}.svc", kWebhookService, ns)}},
                                     .logger = &logger,
                                     .metrics = &metrics});
    if (!opened) return fail(surroundings, opened.error().text());
    webhook = *std::move(opened);
  }
  engine::EndpointsOptions shown{.metrics_address = flags.metrics_address,
                                 .health_address = flags.health_address,
                                 .metrics = &metrics,
                                 .measure = [&] { engine.measure(); }};
  if (election) shown.healthy.push_back(engine::leased(*election));
  shown.ready.push_back(engine::synced(engine));
  shown.ready.push_back(served(flags.systems, engine));
  if (webhook) shown.ready.push_back(engine::answering(*webhook));
  auto endpoints = engine::Endpoints::open(loop, std::move(shown));
  if (!endpoints) return fail(surroundings, endpoints.error().text());

  bool stopping = false;
  auto stop = [&] {
    if (std::exchange(stopping, true)) return loop.stop();  // the second time: now
    engine.lead(false);
    auto release = [&] {
      if (!election) return loop.stop();
      election->release([&] { loop.stop(); });
    };
    if (!webhook) return release();
    webhook->drain(release);
  };
  Pending signals = net::onSignals(loop, {SIGINT, SIGTERM}, [&](int) {
    logger.info("stopping");
    stop();
  });
  Config config(loop, logger, flags.config, [&] {
    logger.info("the settings have changed; starting anew", {{"file", flags.config}});
    exit_code = kBeginAnew;
    stop();
  });
  logger.info("serving", {{"systems", join(flags.systems.names, ",")}});
  loop.run();
  return exit_code;
}

}  // namespace

void addOperator(CLI::App& app, const Surroundings& surroundings, int& exit_code) {
  auto flags = std::make_shared<OperatorFlags>();
  auto* command = app.add_subcommand("operator", "Serve the kinds, in a cluster or against one");
  flags->addTo(*command);
  command->callback([flags, command, &surroundings, &exit_code] {
    if (!flags->config.empty()) {
      auto text = readAll(flags->config);
      auto applied = text ? applySettings(*command, *text, flags->config) : text.error();
      if (!applied) return void(exit_code = fail(surroundings, applied.error().text()));
    }
    exit_code = runOperator(*flags, surroundings);
    if (exit_code == kBeginAnew) exit_code = beginAnew(surroundings);
  });
}

}  // namespace cadre::cli
