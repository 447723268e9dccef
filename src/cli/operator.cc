#include <CLI/CLI.hpp>
#include <csignal>

#include <unistd.h>

#include "base/format.h"
#include "base/strings.h"
#include "cli/cluster.h"
#include "cli/commands.h"
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
  ClusterFlags cluster;
  Systems systems;
  std::vector<std::string> namespaces;
  bool leader_elect = false;
  std::string metrics_address = ":8080", health_address = ":8081", webhook_address = "0";
  std::string webhook_certificates;
  std::string log_level = "info", log_format = "text";
  double qps = 0;
  int burst = 0;
};

// The key that hashes of Secrets are made with: the same for all who come after.
constexpr std::string_view kHashKeySecret = "cadre-hash-key";
constexpr std::string_view kWebhookKeys = "cadre-webhook-keys";
const kube::Resource kSecrets{"", "v1", "secrets", "Secret"};

Result<std::string> hashKey(Cluster& cluster, const std::string& ns) {
  kube::ObjectKey key{ns, std::string(kHashKeySecret)};
  auto get = [&] {
    return cluster.await<json::Value>(
        [&](auto done) { return cluster.client->get(kSecrets, key, std::move(done)); });
  };
  auto found = get();
  if (!found && found.error().code == Code::NotFound) {
    json::Value made =
        json::Object{{"metadata", json::Object{{"name", key.name}, {"namespace", key.ns}}},
                     {"data", json::Object{{"key", base64Encode(net::secureRandom(32))}}}};
    auto created = cluster.await<json::Value>(
        [&](auto done) { return cluster.client->create(kSecrets, made, {}, std::move(done)); });
    if (!created && created.error().code != Code::AlreadyExists)
      return std::move(created).error().context("making the Secret cadre-hash-key");
    found = get();
  }
  if (!found) return std::move(found).error().context("reading the Secret cadre-hash-key");
  auto bytes = base64Decode((*found)["data"]["key"].string());
  if (!bytes || bytes->size() < 16)
    return Error{.code = Code::DataLoss,
                 .message = format("Secret {} has no key of 16 bytes or more; delete it, and a new "
                                   "one is made",
                                   key.text())};
  return *std::move(bytes);
}

int runOperator(const OperatorFlags& flags, const Surroundings& surroundings) {
  auto level = parseLogLevel(lower(flags.log_level));
  auto log_format = parseLogFormat(flags.log_format);
  if (!level || !log_format)
    return fail(surroundings,
                "--log-level is debug, info, warn or error; --log-format text or json");
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
  auto key = hashKey(**cluster, ns);
  if (!key) return fail(surroundings, key.error().text());

  Random random = Random::fromSystem();
  std::unique_ptr<engine::Election> election;
  engine::EngineOptions options;
  flags.systems.serve(options);
  options.observations.push_back(kaos::toolsObservation(loop, client, flags.systems.kaos.tools_interval));
  options.namespaces = flags.namespaces;
  options.predecessors = {"manager", "kaos-operator", "controller"};
  options.controller = "cadre-operator";
  options.logger = &logger;
  options.metrics = &metrics;
  options.hash_secret = [key = *key](std::string_view value) {
    return hexEncode(net::hmacSha256(key, value));
  };
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
          exit_code = 1;  // who has lost the lease starts anew
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
  if (webhook) shown.ready.push_back(engine::answering(*webhook));
  auto endpoints = engine::Endpoints::open(loop, std::move(shown));
  if (!endpoints) return fail(surroundings, endpoints.error().text());

  bool stopping = false;
  Pending signals = net::onSignals(loop, {SIGINT, SIGTERM}, [&](int) {
    if (std::exchange(stopping, true)) return loop.stop();  // the second time: now
    logger.info("stopping");
    engine.lead(false);
    auto release = [&] {
      if (!election) return loop.stop();
      election->release([&] { loop.stop(); });
    };
    if (!webhook) return release();
    webhook->drain(release);
  });
  logger.info("serving", {{"systems", join(flags.systems.names, ",")}});
  loop.run();
  return exit_code;
}

}  // namespace

void addOperator(CLI::App& app, const Surroundings& surroundings, int& exit_code) {
  auto flags = std::make_shared<OperatorFlags>();
  auto* command = app.add_subcommand("operator", "Serve the kinds, in a cluster or against one");
  flags->cluster.addTo(*command, /*with_namespaces=*/false);
  flags->systems.addTo(*command);
  command->add_option("--watch-namespaces", flags->namespaces, "Only these; all when not given")
      ->delimiter(',');
  command->add_flag("--leader-elect", flags->leader_elect, "Let one of several programs lead");
  command->add_option("--metrics-bind-address", flags->metrics_address, "Where; 0 for nowhere")
      ->capture_default_str();
  command->add_option("--health-probe-bind-address", flags->health_address, "Where; 0 for nowhere")
      ->capture_default_str();
  command
      ->add_option("--webhook-bind-address", flags->webhook_address,
                   "Where objects are judged before they are stored; 0 for nowhere")
      ->capture_default_str();
  command->add_option("--webhook-cert-path", flags->webhook_certificates,
                      "Folder with tls.crt and tls.key for that; else keys of its own are kept in "
                      "the Secret cadre-webhook-keys");
  command->add_option("--log-level", flags->log_level, "debug, info, warn or error")
      ->capture_default_str();
  command->add_option("--log-format", flags->log_format, "text or json")->capture_default_str();
  command->add_option("--kube-api-qps", flags->qps, "Requests per second; 0 for no limit")
      ->capture_default_str();
  command->add_option("--kube-api-burst", flags->burst, "Requests at once beyond that");
  command->callback(
      [flags, &surroundings, &exit_code] { exit_code = runOperator(*flags, surroundings); });
}

}  // namespace cadre::cli
