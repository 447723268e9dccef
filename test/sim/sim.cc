#include "sim/sim.h"

#include <algorithm>
#include <set>

#include "base/format.h"
#include "base/strings.h"
#include "hub/transport.h"
#include "json/diff.h"
#include "json/write.h"

namespace cadre::sim {
namespace {

constexpr std::string_view kNamespace = "sim";
constexpr Duration kTick = 500ms;
constexpr Duration kRestLimit = 30min;  // backoffs are of a minute
constexpr Duration kQuiet = 60s;

const kube::Resource kNamespaces{
    .version = "v1", .plural = "namespaces", .kind = "Namespace", .namespaced = false};
const kube::Resource kDeployments{
    .group = "apps", .version = "v1", .plural = "deployments", .kind = "Deployment"};
const kube::Resource kCrds{.group = "apiextensions.k8s.io",
                           .version = "v1",
                           .plural = "customresourcedefinitions",
                           .kind = "CustomResourceDefinition",
                           .namespaced = false};

class NoCredentials final : public kube::Credentials {
 public:
  Pending get(Function<void(Result<Identity>)> done) override {
    done(Identity{});
    return {};
  }
  bool refused(const Identity&) override { return false; }
};

std::unique_ptr<kube::Client> clientOf(Scheduler& scheduler,
                                       const Function<std::unique_ptr<net::HttpClient>()>& way) {
  kube::Config config{.server = *net::Url::parse("https://hub:6443"), .source = "a simulation"};
  kube::Client::Transport transport;
  transport.requests = way();
  transport.watches = way();
  return std::make_unique<kube::Client>(
      scheduler, config, std::move(transport),
      [](const auto&) -> Result<kube::Client::Transport> { return Error{.message = "not here"}; },
      std::make_unique<NoCredentials>(), kube::ClientOptions{});
}

// Plurals of our kinds are regular.
kube::Resource resourceOf(const json::Value& object) {
  auto gvk = *kube::GroupVersionKind::of(object);
  return {.group = gvk.group,
          .version = gvk.version,
          .plural = lower(gvk.kind) + "s",
          .kind = gvk.kind};
}

void mask(json::Value& value, std::string_view key = {}) {
  static const std::vector<std::string_view> kDiffers{"uid",
                                                      "resourceVersion",
                                                      "creationTimestamp",
                                                      "generation",
                                                      "managedFields",
                                                      "lastTransitionTime",
                                                      "lastUpdateTime",
                                                      "observedGeneration",
                                                      "cadre.dev/applied",
                                                      "cadre.dev/owner-uid",
                                                      "kaos.tools/pod-spec-hash"};
  if (std::ranges::find(kDiffers, key) != kDiffers.end() && !value.isNull()) {
    value = "*";
    return;
  }
  if (value.isArray())
    for (json::Value& item : value.makeArray()) mask(item);
  if (value.isObject())
    for (auto& [name, member] : value.makeObject()) mask(member, name);
}

}  // namespace

struct Simulation::Operator {
  Metrics metrics;
  std::unique_ptr<kube::Client> client;
  std::unique_ptr<engine::Engine> engine;
};

Simulation::Simulation(const System& system, std::uint64_t seed) : system_(system), random_(seed) {
  hub_ = std::make_unique<hub::Hub>(scheduler_, random_, hub::HubOptions{});
  hub_->furnish();
  scheduler_.runReady();
  admin_ = clientOf(scheduler_, [this] {
    return hub::directTransport(scheduler_, *hub_, "admin", {"system:masters"});
  });
  write("POST", kNamespaces, {"", ""},
        json::Object{{"metadata", json::Object{{"name", kNamespace}}}});
  for (const json::Value& crd : system_.crds) write("POST", kCrds, {"", ""}, crd);
  wait(1s);
}

Simulation::~Simulation() = default;

void Simulation::start() {
  operator_ = std::make_unique<Operator>();
  operator_->client = clientOf(scheduler_, [this] {
    return std::make_unique<FaultyTransport>(
        scheduler_, random_, faults_,
        hub::directTransport(scheduler_, *hub_, "operator", {"system:masters"}), writes_);
  });
  engine::EngineOptions options;
  system_.serve(scheduler_, options);
  options.namespaces = {std::string(kNamespace)};
  options.hash_secret = [](std::string_view value) { return format("{:016x}", stableHash(value)); };
  operator_->engine =
      std::make_unique<engine::Engine>(*operator_->client, random_, std::move(options));
  operator_->engine->lead(true);
}

void Simulation::kill() {
  if (operator_) ++kills_;
  operator_.reset();
}

void Simulation::wait(Duration time) {
  for (Duration passed = 0s; passed < time; passed += kTick) {
    scheduler_.advance(std::min<Duration>(kTick, time - passed));
    tendDeployments();
  }
}

// What users and nodes write never fails but for their own fault.
void Simulation::write(std::string_view method, const kube::Resource& resource,
                       const kube::ObjectKey& key, const json::Value& body,
                       std::string_view subresource) {
  std::string target = resource.path(key.ns, key.name, subresource);
  if (method == "POST") target = resource.path(resource.namespaced ? kNamespace : "");
  std::string type = method == "PATCH" ? "application/merge-patch+json" : "application/json";
  digest_ = stableHash(format("{} {} {}", digest_, target, json::write(body)));
  requests_.push_back(admin_->request(std::string(method), target,
                                      body.isNull() ? "" : json::write(body), type, [](auto) {}));
  scheduler_.runReady();
}

// There are pods as soon as a Deployment wants them.
void Simulation::tendDeployments() {
  for (const auto& [key, state] : hub_->objects().all("apps/deployments")) {
    std::int64_t& tended = tended_[key];
    if (tended == state->revision) continue;
    json::Value object = state->value();
    std::int64_t replicas = object["spec"]["replicas"].integer(1);
    json::Object status{{"observedGeneration", kube::generation(object)},
                        {"replicas", replicas},
                        {"updatedReplicas", replicas},
                        {"readyReplicas", replicas},
                        {"availableReplicas", replicas}};
    if (replicas == 0)
      for (std::string_view field :
           {"replicas", "updatedReplicas", "readyReplicas", "availableReplicas"})
        status.erase(field);
    bool same = std::ranges::all_of(
        status, [&](const auto& one) { return object["status"][one.first] == one.second; });
    if (same) tended = state->revision;
    if (!same && random_.below(4) == 0)
      write("PATCH", kDeployments, key, json::Object{{"status", status}}, "status");
  }
  requests_.clear();
}

void Simulation::want(json::Value object) {
  object.make("metadata").make("namespace") = kNamespace;
  std::string id = format("{}/{}", object["kind"].string(), kube::name(object));
  kube::Resource resource = resourceOf(object);
  kube::ObjectKey key = kube::ObjectKey::of(object);
  auto there = hub_->objects().find(resource.group + "/" + resource.plural, key);
  if (there && wanted_.contains(id)) {
    // As a person edits: the spec as a whole.
    json::Value changed = there->value();
    for (std::string_view field : {"apiVersion", "kind", "spec"})
      changed.make(field) = object[field];
    write("PUT", resource, key, changed);
  } else {
    write("POST", resource, key, object);
  }
  wanted_[id] = std::move(object);
}

void Simulation::drop(const std::string& id) {
  json::Value object = wanted_.at(id);
  wanted_.erase(id);
  write("DELETE", resourceOf(object), kube::ObjectKey::of(object), nullptr);
}

// One thing that a user or the world does.
void Simulation::act() {
  std::uint64_t what = random_.below(100);
  if (what < 55) {
    want(system_.draw(random_));
  } else if (what < 70 && !wanted_.empty()) {
    auto chosen = wanted_.begin();
    std::advance(chosen, random_.below(wanted_.size()));
    drop(chosen->first);
  } else if (what < 85) {
    // Somebody deletes or edits what is not theirs.
    std::vector<std::pair<std::string, kube::ObjectKey>> children;
    for (std::string_view resource : {"apps/deployments", "services", "configmaps"})
      for (const auto& [key, state] : hub_->objects().all(resource))
        if (key.ns == kNamespace) children.emplace_back(resource, key);
    if (children.empty()) return;
    auto [resource, key] = children[random_.below(children.size())];
    if (resource == "apps/deployments" && random_.below(2) == 0) {
      json::Value containers =
          hub_->objects().find(resource, key)->value()["spec"]["template"]["spec"]["containers"];
      containers.makeArray().at(0).make("image") = "evil:1";
      json::Object pod{{"spec", json::Object{{"containers", std::move(containers)}}}};
      return write("PATCH", kDeployments, key,
                   json::Object{{"spec", json::Object{{"template", std::move(pod)}}},
                                {"metadata", json::Object{{"labels", nullptr}}}});
    }
    auto [group, plural] = resource.find('/') == std::string::npos
                               ? std::pair<std::string_view, std::string_view>("", resource)
                               : cut(resource, "/");
    write("DELETE", {.group = std::string(group), .version = "v1", .plural = std::string(plural)},
          key, nullptr);
  } else if (what < 95) {
    kill();
    wait(std::chrono::milliseconds(random_.below(5000)));
    start();
  } else {
    faults_ = Faults::draw(random_);
  }
}

std::optional<std::string> Simulation::settle() {
  Instant begin = scheduler_.clock().instant();
  while (scheduler_.clock().instant() - begin < kRestLimit) {
    std::uint64_t writes = writes_;
    std::int64_t revision = hub_->objects().revision();
    wait(kQuiet);
    if (operator_->engine->idle() && writes == writes_ && revision == hub_->objects().revision())
      return std::nullopt;
  }
  return format("it does not come to rest within {}", formatDuration(kRestLimit));
}

std::map<std::string, json::Value> Simulation::picture() const {
  std::map<std::string, json::Value> all;
  hub_->objects().each([&](const std::string& resource, const hub::State& state) {
    if (state->key.ns != kNamespace || resource == "events") return;
    json::Value object = state->value();
    if (resource == "secrets" && !object["data"].isNull())
      for (auto& [key, value] : object.make("data").makeObject()) value = "*";
    mask(object);
    all[format("{} {}", resource, state->key.name)] = std::move(object);
  });
  return all;
}

std::vector<std::string> Simulation::run() {
  faults_ = Faults::draw(random_);
  start();
  std::uint64_t actions = 5 + random_.below(25);
  for (std::uint64_t i = 0; i < actions; ++i) {
    act();
    wait(std::chrono::milliseconds(random_.below(random_.below(4) == 0 ? 20'000 : 500)));
  }
  std::set<std::string> before;
  for (const auto& [id, object] : wanted_) before.insert(id);
  for (json::Value& object : system_.last(random_)) {
    before.erase(format("{}/{}", object["kind"].string(), kube::name(object)));
    want(std::move(object));
  }
  for (const std::string& id : before) drop(id);
  wait(std::chrono::milliseconds(random_.below(20'000)));
  faults_ = {};
  if (!operator_) start();
  std::vector<std::string> troubles;
  if (auto trouble = settle()) troubles.push_back(*trouble);

  // The same objects in a world where nothing ever happened.
  Simulation reference(system_, 1);
  reference.faults_ = {};
  for (const auto& [id, object] : wanted_) {
    reference.write("POST", resourceOf(object), {}, object);
    reference.wanted_[id] = object;
  }
  reference.start();
  if (auto trouble = reference.settle()) troubles.push_back("the reference: " + *trouble);
  auto ours = picture(), theirs = reference.picture();
  for (const auto& [name, object] : theirs) {
    auto found = ours.find(name);
    if (found == ours.end()) {
      troubles.push_back(format("{} is missing", name));
      continue;
    }
    auto changes = json::diff(object, found->second);
    if (!changes.empty()) troubles.push_back(format("{}:\n{}", name, json::formatDiff(changes)));
  }
  for (const auto& [name, object] : ours)
    if (!theirs.contains(name)) troubles.push_back(format("{} is left over", name));
  return troubles;
}

}  // namespace cadre::sim
