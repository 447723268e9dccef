#include "support.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <vector>

#include <sys/resource.h>
#include <time.h>

#include "base/format.h"
#include "base/strings.h"
#include "json/write.h"

namespace cadre::bench {

namespace {

double processorTime() {
  rusage use{};
  ::getrusage(RUSAGE_SELF, &use);
  auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(use.ru_utime) + seconds(use.ru_stime);
}

double wallTime() {
  auto now = SystemClock().instant().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

// A line "Name:   123 kB" of a file below /proc/self, in bytes.
std::int64_t readSize(const char* path, std::string_view name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    auto [key, rest] = cut(line, ":");
    if (key == name) return parseInt(cut(trim(rest), " ").first).value_or(0) * 1024;
  }
  fail(format("{} has no {}", path, name));
}

json::Object metadata(const std::string& ns, const std::string& name, const std::string& group) {
  return {{"name", name},
          {"namespace", ns},
          {"labels", json::Object{{"app.kubernetes.io/name", name},
                                  {"app.kubernetes.io/managed-by", "bench"},
                                  {"group", group}}}};
}

}  // namespace

Flags::Flags(int argc, char** argv) {
  for (int i = 1; i < argc; i += 2) {
    std::string_view name = argv[i];
    if (!name.starts_with("--") || i + 1 == argc) fail(format("\"{}\" is no flag and value", name));
    given_[std::string(name.substr(2))] = argv[i + 1];
  }
}

void Flags::end() const {
  if (!given_.empty()) fail(format("there is no flag --{}", given_.begin()->first));
}

std::string Flags::text(const std::string& name, const std::string& fallback) {
  auto found = given_.extract(name);
  return found.empty() ? fallback : found.mapped();
}

std::size_t Flags::number(const std::string& name, std::size_t fallback) {
  std::string given = text(name, std::to_string(fallback));
  auto number = parseInt(given);
  if (!number || *number < 0) fail(format("--{} wants a number, not \"{}\"", name, given));
  return static_cast<std::size_t>(*number);
}

void fail(std::string_view why) {
  std::fprintf(stderr, "bench: %.*s\n", static_cast<int>(why.size()), why.data());
  std::_Exit(1);
}

void check(const Result<>& result, std::string_view doing) {
  if (!result) fail(format("{}: {}", doing, result.error().text()));
}

kube::Config configFrom(Flags& flags) {
  kube::ConfigOptions options;
  options.kubeconfig = flags.text("kubeconfig", "");
  options.context = flags.text("context", "admin");
  return check(kube::loadConfig(options), "reading the kubeconfig");
}

net::Headers rawHeaders(const kube::Config& config) {
  net::Headers headers{{"Accept", "application/json"}, {"User-Agent", "cadre"}};
  if (!config.token.empty()) headers.add("Authorization", "Bearer " + config.token);
  return headers;
}

Section::Section() : wall_(wallTime()), cpu_(processorTime()) {}
Cost Section::cost() const { return {wallTime() - wall_, processorTime() - cpu_}; }

Memory readMemory() {
  return {.resident = readSize("/proc/self/status", "VmRSS"),
          .peak = readSize("/proc/self/status", "VmHWM"),
          .private_dirty = readSize("/proc/self/smaps_rollup", "Private_Dirty")};
}

void print(const json::Object& figures) {
  std::puts(json::write(figures).c_str());
  std::fflush(stdout);
}

void runInLanes(net::Loop& loop, std::size_t total, std::size_t lanes, const StartOne& start) {
  std::vector<Pending> under_way(lanes);
  std::size_t begun = 0, finished = 0;
  Function<void(std::size_t)> next = [&](std::size_t lane) {
    if (begun == total) return;
    std::size_t number = begun++;
    under_way[lane] = start(number, [&, lane] {
      if (++finished == total) return loop.stop();
      next(lane);
    });
  };
  for (std::size_t lane = 0; lane < lanes; ++lane) next(lane);
  if (total > 0) loop.run();
}

kube::Resource configMaps() {
  return {.group = "", .version = "v1", .plural = "configmaps", .kind = "ConfigMap"};
}
kube::Resource deployments() {
  return {.group = "apps", .version = "v1", .plural = "deployments", .kind = "Deployment"};
}
kube::Resource services() {
  return {.group = "", .version = "v1", .plural = "services", .kind = "Service"};
}

json::Value deploymentObject(const std::string& ns, const std::string& name,
                             const std::string& group) {
  json::Object labels{{"app.kubernetes.io/name", name}};
  json::Object container{
      {"name", "web"},
      {"image", "registry.example/web:1.2.3"},
      {"args", json::Array{"--port=8080", "--log-level=info"}},
      {"env", json::Array{json::Object{{"name", "MODE"}, {"value", "production"}},
                          json::Object{{"name", "REGION"}, {"value", "north"}}}},
      {"ports", json::Array{json::Object{{"name", "http"}, {"containerPort", 8080}}}},
      {"resources", json::Object{{"requests", json::Object{{"cpu", "100m"}, {"memory", "64Mi"}}},
                                 {"limits", json::Object{{"memory", "128Mi"}}}}},
      {"readinessProbe",
       json::Object{{"httpGet", json::Object{{"path", "/ready"}, {"port", "http"}}},
                    {"periodSeconds", 5}}}};
  json::Object pod{
      {"metadata", json::Object{{"labels", labels}}},
      {"spec", json::Object{{"containers", json::Array{std::move(container)}},
                            {"securityContext", json::Object{{"runAsNonRoot", true}}}}}};
  return json::Object{
      {"apiVersion", "apps/v1"},
      {"kind", "Deployment"},
      {"metadata", metadata(ns, name, group)},
      {"spec", json::Object{{"replicas", 3},
                            {"selector", json::Object{{"matchLabels", std::move(labels)}}},
                            {"template", std::move(pod)}}}};
}

json::Value serviceObject(const std::string& ns, const std::string& name,
                          const std::string& group) {
  // Headless: the addresses of a test cluster are few, and handing them out is the server's work.
  return json::Object{
      {"apiVersion", "v1"},
      {"kind", "Service"},
      {"metadata", metadata(ns, name, group)},
      {"spec",
       json::Object{{"clusterIP", "None"},
                    {"selector", json::Object{{"app.kubernetes.io/name", name}}},
                    {"ports", json::Array{json::Object{
                                  {"name", "http"}, {"port", 80}, {"targetPort", "http"}}}}}}};
}

json::Value deploymentStatusPatch() {
  auto condition = [](const char* type, const char* reason, const char* message) {
    return json::Object{{"type", type},
                        {"status", "True"},
                        {"reason", reason},
                        {"message", message},
                        {"lastTransitionTime", "2026-01-01T00:00:00Z"},
                        {"lastUpdateTime", "2026-01-01T00:00:00Z"}};
  };
  return json::Object{
      {"status",
       json::Object{{"observedGeneration", 1},
                    {"replicas", 3},
                    {"updatedReplicas", 3},
                    {"readyReplicas", 3},
                    {"availableReplicas", 3},
                    {"conditions",
                     json::Array{condition("Available", "MinimumReplicasAvailable",
                                           "Deployment has minimum availability."),
                                 condition("Progressing", "NewReplicaSetAvailable",
                                           "The new replica set has successfully progressed.")}}}}};
}

void createNamespace(net::Loop& loop, kube::Client& client, const std::string& ns) {
  kube::Resource namespaces{.group = "",
                            .version = "v1",
                            .plural = "namespaces",
                            .kind = "Namespace",
                            .namespaced = false};
  json::Value object = json::Object{
      {"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", json::Object{{"name", ns}}}};
  auto made = net::await<json::Value>(
      loop, [&](auto done) { return client.create(namespaces, object, {}, std::move(done)); });
  check(std::move(made), "making the namespace " + ns);
}

}  // namespace cadre::bench
