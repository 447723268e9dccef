#include "sim/sim.h"

#include <algorithm>
#include <set>

#include "base/format.h"
#include "base/strings.h"
#include "engine/election.h"
#include "hub/transport.h"
#include "json/diff.h"
#include "json/write.h"
#include "kube/conditions.h"

namespace cadre::sim {
namespace {

constexpr std::string_view kNamespace = "sim";
constexpr Duration kTick = 500ms;
constexpr Duration kRestLimit = 30min;  // backoffs are of a minute
constexpr Duration kQuiet = 60s;
constexpr std::uint64_t kMostWrites = 2000;  // some 200 are usual
constexpr std::string_view kRole = "sim-operator", kOperators = "sim-operators";
constexpr std::string_view kRules = "sim-rules";  // name of what forbids for a while
constexpr std::string_view kLeases = "coordination.k8s.io/leases";
const kube::ObjectKey kLease{"default", "sim"};

const kube::Resource kNamespaces{
    .version = "v1", .plural = "namespaces", .kind = "Namespace", .namespaced = false};
const kube::Resource kDeployments{
    .group = "apps", .version = "v1", .plural = "deployments", .kind = "Deployment"};
const kube::Resource kServices{.version = "v1", .plural = "services", .kind = "Service"};
const kube::Resource kConfigMaps{.version = "v1", .plural = "configmaps", .kind = "ConfigMap"};
const kube::Resource kSecrets{.version = "v1", .plural = "secrets", .kind = "Secret"};
const kube::Resource kQuotas{.version = "v1", .plural = "resourcequotas", .kind = "ResourceQuota"};
const kube::Resource kRoles{.group = "rbac.authorization.k8s.io",
                            .version = "v1",
                            .plural = "clusterroles",
                            .kind = "ClusterRole",
                            .namespaced = false};
const kube::Resource kBindings{.group = "rbac.authorization.k8s.io",
                               .version = "v1",
                               .plural = "clusterrolebindings",
                               .kind = "ClusterRoleBinding",
                               .namespaced = false};
const kube::Resource kWebhooks{.group = "admissionregistration.k8s.io",
                               .version = "v1",
                               .plural = "validatingwebhookconfigurations",
                               .kind = "ValidatingWebhookConfiguration",
                               .namespaced = false};
const kube::Resource kCrds{.group = "apiextensions.k8s.io",
                           .version = "v1",
                           .plural = "customresourcedefinitions",
                           .kind = "CustomResourceDefinition",
                           .namespaced = false};

// Plurals of our kinds are regular.
kube::Resource resourceOf(const json::Value& object) {
  auto gvk = *kube::GroupVersionKind::of(object);
  return {.group = gvk.group,
          .version = gvk.version,
          .plural = lower(gvk.kind) + "s",
          .kind = gvk.kind};
}

std::string storageOf(const kube::Resource& resource) {
  return resource.group.empty() ? resource.plural : resource.group + "/" + resource.plural;
}

// What operators may do: everything, but for one verb.
json::Value roleWithout(std::string_view missing) {
  json::Array verbs;
  for (std::string_view verb : {"get", "list", "watch", "create", "update", "patch", "delete"})
    if (verb != missing) verbs.emplace_back(verb);
  return json::Object{{"metadata", json::Object{{"name", kRole}}},
                      {"rules", json::Array{json::Object{{"apiGroups", json::Array{"*"}},
                                                         {"resources", json::Array{"*"}},
                                                         {"verbs", std::move(verbs)}}}}};
}

json::Value badWebhook() {
  return json::Object{
      {"metadata", json::Object{{"name", kRules}}},
      {"webhooks",
       json::Array{json::Object{
           {"name", "rules.sim.test"},
           {"clientConfig", json::Object{{"url", "https://webhook.test/"}}},
           {"rules",
            json::Array{json::Object{
                {"apiGroups", json::Array{"", "apps"}},
                {"apiVersions", json::Array{"v1"}},
                {"operations", json::Array{"CREATE", "UPDATE"}},
                {"resources", json::Array{"deployments", "services", "configmaps", "secrets"}}}}},
           {"sideEffects", "None"},
           {"admissionReviewVersions", json::Array{"v1"}},
           {"timeoutSeconds", 5}}}}};
}

json::Value quota() {
  return json::Object{{"metadata", json::Object{{"name", kRules}}},
                      {"spec", json::Object{{"hard", json::Object{{"count/deployments.apps", "1"},
                                                                  {"services", "1"},
                                                                  {"configmaps", "0"},
                                                                  {"secrets", "1"}}}}}};
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
                                                      "clusterIP",
                                                      "clusterIPs",
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

// Processes come and go; each has an identity of its own.
struct Simulation::Operator {
  Operator(Scheduler& world, std::string name, Logger::Sink sink)
      : name(std::move(name)),
        process(world),
        logger(world.clock(), {.level = LogLevel::Debug}, std::move(sink)) {}

  const std::string name;
  Process process;
  Instant goes_on_at = {};
  bool ended = false;  // by itself: it has lost its lease
  Metrics metrics;
  Logger logger;
  std::unique_ptr<kube::Client> client;
  std::unique_ptr<engine::Election> election;
  std::unique_ptr<engine::Engine> engine;
};

Simulation::Simulation(const System& system, std::uint64_t seed)
    : system_(system), random_(seed), history_(std::string(kNamespace), alarms_) {
  hub::HubOptions options;
  options.keep = [this](const std::vector<hub::Line>& lines) -> Result<> {
    for (const hub::Line& line : lines)
      system_.trace(format("{} {} {}\n", line.revision, line.key, line.value.value_or("deleted")));
    history_.add(lines);
    return {};
  };
  options.connect = [this](const auto&) -> Result<std::unique_ptr<net::HttpClient>> {
    return std::make_unique<BadWebhook>(scheduler_, random_);
  };
  hub_ = std::make_unique<hub::Hub>(scheduler_, random_, std::move(options));
  hub_->furnish();
  scheduler_.runReady();
  auto way = [this] {
    return hub::directTransport(scheduler_, *hub_, "admin", {"system:masters"});
  };
  admin_ = hub::directClient(scheduler_, way, {.user_agent = "user", .field_manager = "user"});
  write("POST", kNamespaces, {"", ""},
        json::Object{{"metadata", json::Object{{"name", kNamespace}}}});
  for (const json::Value& crd : system_.crds) write("POST", kCrds, {"", ""}, crd);
  write("POST", kSecrets, {"", ""},
        json::Object{{"metadata", json::Object{{"name", kSecretName}}},
                     {"stringData", json::Object{{"key", kSecretValue}}}});
  write("POST", kRoles, {"", ""}, roleWithout(""));
  write(
      "POST", kBindings, {"", ""},
      json::Object{
          {"metadata", json::Object{{"name", kRole}}},
          {"roleRef",
           json::Object{{"apiGroup", kRoles.group}, {"kind", kRoles.kind}, {"name", kRole}}},
          {"subjects", json::Array{json::Object{
                           {"apiGroup", kRoles.group}, {"kind", "Group"}, {"name", kOperators}}}}});
  wait(1s);
  furnished_ = hub_->objects().revision();
  listener_ = std::make_unique<Listener>(scheduler_, random_, system_.before_listener(way()),
                                         kDeployments.path(kNamespace), "apps/deployments",
                                         furnished_, history_, alarms_);
}

Simulation::~Simulation() { network_.strays.clear(); }

// ---- Operators

void Simulation::start(std::size_t place) {
  operators_.resize(std::max(operators_.size(), place + 1));
  std::string name = format("operator-{}", ++started_);
  operators_[place] =
      std::make_unique<Operator>(scheduler_, name, [this, name](std::string_view line) {
        history_.look("a log", line);
        system_.trace(format("{} {}", name, line));
      });
  Operator& one = *operators_[place];
  one.client = hub::directClient(
      one.process,
      [&] {
        return std::make_unique<FaultyTransport>(
            network_, one.process,
            hub::directTransport(scheduler_, *hub_, one.name, {std::string(kOperators)}),
            [this, name](const net::HttpRequest& request) { arrived(name, request); });
      },
      {.logger = &one.logger, .metrics = &one.metrics});
  engine::EngineOptions options;
  if (replicas_ > 1) options.still_leads = [&one] { return one.election->holds(); };
  options.namespaces = {std::string(kNamespace)};
  options.hash_secret = [](std::string_view value) { return format("{:016x}", stableHash(value)); };
  options.logger = &one.logger;
  options.metrics = &one.metrics;
  system_.serve(one.process, options);
  one.engine = std::make_unique<engine::Engine>(*one.client, random_, std::move(options));
  if (replicas_ == 1) return one.engine->lead(true);
  one.election = std::make_unique<engine::Election>(
      *one.client, random_,
      engine::ElectionOptions{
          .lease = kLease, .identity = one.name, .logger = &one.logger, .metrics = &one.metrics},
      [&one](bool leads) {
        one.engine->lead(leads);
        one.ended = !leads;
      });
}

void Simulation::kill(std::size_t place) {
  if (!operators_[place]) return;
  ++kills_;
  history_.look("metrics", operators_[place]->metrics.text());
  operators_[place].reset();
}

// Who does not have the lease writes nothing (S7).
void Simulation::arrived(const std::string& who, const net::HttpRequest& request) {
  if (request.method == "GET" || request.target.find("/leases") != std::string::npos) return;
  if (++writes_ == kMostWrites) alarms_.raise("O8", "operators write on and on");
  if (replicas_ == 1) return;
  auto lease = hub_->objects().find(kLeases, kLease);
  std::string holder = lease ? lease->value()["spec"]["holderIdentity"].string() : "";
  if (holder != who)
    alarms_.raise("S7", format("{} sends {} {}, but the lease is {}'s", who, request.method,
                               request.target, holder));
}

// ---- Time

void Simulation::wait(Duration time) {
  for (Duration passed = 0s; passed < time; passed += kTick) {
    scheduler_.advance(std::min<Duration>(kTick, time - passed));
    Instant now = scheduler_.clock().instant();
    for (std::size_t i = 0; i < operators_.size(); ++i) {
      auto& one = operators_[i];
      if (one && one->process.stopped() && now >= one->goes_on_at) one->process.goOn(random_);
      if (one && one->ended) {
        kill(i);
        start(i);
      }
    }
    if (mend_at_ && now >= *mend_at_) mendRules();
    tendDeployments();
  }
}

void Simulation::waitUpTo(std::uint64_t milliseconds) {
  wait(std::chrono::milliseconds(random_.below(milliseconds)));
}

void Simulation::settle() {
  Instant begin = scheduler_.clock().instant();
  while (scheduler_.clock().instant() - begin < kRestLimit) {
    std::uint64_t writes = writes_, changes = history_.changes();
    wait(kQuiet);
    if (writes == writes_ && changes == history_.changes() &&
        std::ranges::all_of(operators_, [](const auto& one) { return one->engine->idle(); }))
      return;
  }
  alarms_.raise("O8", format("it does not come to rest within {}", formatDuration(kRestLimit)));
}

// ---- Users and nodes

// What users and nodes write never fails but for their own fault.
void Simulation::write(std::string_view method, const kube::Resource& resource,
                       const kube::ObjectKey& key, const json::Value& body,
                       std::string_view subresource) {
  std::string target = resource.path(key.ns, key.name, subresource);
  if (method == "POST") target = resource.path(resource.namespaced ? kNamespace : "");
  std::string type = method == "PATCH" ? "application/merge-patch+json" : "application/json";
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
  auto there = hub_->objects().find(storageOf(resource), key);
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

// ---- What happens

void Simulation::userActs() {
  std::uint64_t what = random_.below(100);
  if (what < 65) return want(system_.draw(random_));
  if (what < 80) return meddle();
  if (wanted_.empty()) return;
  auto chosen = wanted_.begin();
  std::advance(chosen, random_.below(wanted_.size()));
  drop(std::string(chosen->first));
}

// Somebody deletes or edits what is not theirs.
void Simulation::meddle() {
  std::vector<std::pair<const kube::Resource*, kube::ObjectKey>> children;
  for (const kube::Resource* resource : {&kDeployments, &kServices, &kConfigMaps})
    for (const auto& [key, state] : hub_->objects().all(storageOf(*resource)))
      if (key.ns == kNamespace) children.emplace_back(resource, key);
  if (children.empty()) return;
  auto [resource, key] = children[random_.below(children.size())];
  if (resource == &kConfigMaps || random_.below(2) == 0)
    return write("DELETE", *resource, key, nullptr);
  if (resource == &kServices)
    return write("PATCH", *resource, key,
                 json::Object{{"spec", json::Object{{"externalIPs", json::Array{"1.2.3.4"}}}}});
  json::Value containers = hub_->objects()
                               .find(storageOf(*resource), key)
                               ->value()["spec"]["template"]["spec"]["containers"];
  bool adds = random_.below(2) == 0;
  if (adds)
    containers.makeArray().push_back(json::Object{{"name", "evil"}, {"image", "evil:1"}});
  else
    containers.makeArray().at(0).make("image") = "evil:1";
  json::Object pod{
      {"spec", json::Object{{"containers", std::move(containers)}, {"hostNetwork", adds}}}};
  write("PATCH", *resource, key,
        json::Object{{"spec", json::Object{{"template", std::move(pod)}}},
                     {"metadata", json::Object{{"labels", nullptr}}}});
}

void Simulation::worldActs() {
  std::uint64_t what = random_.below(100);
  if (what < 35) return restart();
  if (what < 50) return stop();
  if (what < 60) return moveClock();
  if (what < 80) return breakRules();
  network_.faults = Faults::draw(random_);
}

// The new one may be shown a kind as it was a while ago (S4).
void Simulation::restart() {
  std::size_t place = random_.below(replicas_);
  kill(place);
  waitUpTo(5000);
  if (random_.below(2) == 0) {
    std::vector<std::string> plurals{"deployments", "services", "configmaps", "secrets"};
    for (const json::Value& crd : system_.crds)
      plurals.push_back(crd["spec"]["names"]["plural"].string());
    auto ago = static_cast<std::int64_t>(random_.below(40));
    was_stale_ = true;
    network_.stale = {
        .plural = plurals[random_.below(plurals.size())],
        .revision = std::max(furnished_, hub_->objects().revision() - ago),
        .until = scheduler_.clock().instant() + std::chrono::milliseconds(random_.below(20'000))};
  }
  start(place);
}

// Who leads is stopped in the middle of what it does, maybe for longer than its lease (S7).
void Simulation::stop() {
  waitUpTo(500);
  auto leader = std::ranges::find_if(
      operators_, [](const auto& one) { return !one->process.stopped() && one->engine->leads(); });
  if (leader == operators_.end()) return;
  (*leader)->process.stop();
  (*leader)->goes_on_at =
      scheduler_.clock().instant() + std::chrono::milliseconds(random_.below(60'000));
}

// It is set, or the machine sleeps (S8).
void Simulation::moveClock() {
  switch (random_.below(3)) {
    case 0:
      return scheduler_.jumpWall(1h);
    case 1:
      return scheduler_.jumpWall(-1h);
    default:
      return scheduler_.stall(std::chrono::seconds(random_.below(3600)));
  }
}

// For a while, operators may not do what they have to (S9).
void Simulation::breakRules() {
  if (mend_at_) return;
  mend_at_ = scheduler_.clock().instant() + std::chrono::milliseconds(random_.below(60'000));
  switch (random_.below(3)) {
    case 0:
      return write("POST", kWebhooks, {"", ""}, badWebhook());
    case 1:
      return write("POST", kQuotas, {"", ""}, quota());
    default:
      constexpr std::string_view kVerbs[] = {"get",    "list",  "watch", "create",
                                             "update", "patch", "delete"};
      return write("PUT", kRoles, {"", std::string(kRole)}, roleWithout(kVerbs[random_.below(7)]));
  }
}

void Simulation::mendRules() {
  mend_at_.reset();
  write("DELETE", kWebhooks, {"", std::string(kRules)}, nullptr);
  write("DELETE", kQuotas, {std::string(kNamespace), std::string(kRules)}, nullptr);
  write("PUT", kRoles, {"", std::string(kRole)}, roleWithout(""));
}

// From now on nothing goes wrong any more.
void Simulation::calm() {
  network_.faults = {};
  network_.stale.reset();
  mendRules();
  for (auto& one : operators_)
    if (one->process.stopped()) one->process.goOn(random_);
}

// ---- Oracles

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

// The same objects in a world where nothing ever happened (O1, O4).
void Simulation::compareWith(Simulation& reference) {
  auto ours = picture(), theirs = reference.picture();
  for (const auto& [name, object] : theirs) {
    auto found = ours.find(name);
    if (found == ours.end()) {
      alarms_.raise("O1", format("{} is missing", name));
      continue;
    }
    auto changes = json::diff(object, found->second);
    if (!changes.empty()) alarms_.raise("O1", format("{}:\n{}", name, json::formatDiff(changes)));
  }
  for (const auto& [name, object] : ours)
    if (!theirs.contains(name)) alarms_.raise("O1", format("{} is left over", name));
}

// Who was shown the past may undo what came after it, and do it again: that explains more (O2).
void Simulation::compareCounts(const Simulation& reference) {
  if (was_stale_) return;
  auto ours = history_.counts(), theirs = reference.history_.counts();
  for (const auto& [name, counts] : theirs) ours.try_emplace(name);
  for (const auto& [name, counts] : ours) {
    History::Counts expected = theirs[name];
    if (counts != expected)
      alarms_.raise(
          "O2", format("{} is created {} and deleted {} times, not {} and {}", name, counts.created,
                       counts.deleted, expected.created, expected.deleted));
  }
}

// All that users want in the end can be served, whatever they wanted before (O5).
void Simulation::checkReady() {
  for (const auto& [id, object] : wanted_) {
    auto there = hub_->objects().find(storageOf(resourceOf(object)), kube::ObjectKey::of(object));
    auto ready = kube::findCondition(there ? there->value() : json::Value(), "Ready");
    if (!ready || ready->status != kube::ConditionStatus::True)
      alarms_.raise("O5", format("{} is not Ready: {}", id, ready ? ready->message : "missing"));
  }
}

void Simulation::lookForSecrets() {
  for (const auto& one : operators_) history_.look("metrics", one->metrics.text());
  auto way = hub::directTransport(scheduler_, *hub_, "admin", {"system:masters"});
  Pending asked = net::fetch(*way, {.target = "/metrics"}, 1u << 20, [this](const auto& answer) {
    if (answer) history_.look("the hub's metrics", answer->body);
  });
  scheduler_.runReady();
}

std::vector<std::string> Simulation::run() {
  replicas_ = random_.below(4) == 0 ? 2 : 1;
  network_.faults = Faults::draw(random_);
  for (std::size_t i = 0; i < replicas_; ++i) start(i);
  for (std::uint64_t left = 5 + random_.below(25); left > 0; --left) {
    random_.below(100) < 75 ? userActs() : worldActs();
    waitUpTo(random_.below(4) == 0 ? 20'000 : 500);
  }
  std::set<std::string> before;
  for (const auto& [id, object] : wanted_) before.insert(id);
  for (json::Value& object : system_.last(random_)) {
    before.erase(format("{}/{}", object["kind"].string(), kube::name(object)));
    want(std::move(object));
  }
  for (const std::string& id : before) drop(id);
  waitUpTo(20'000);
  calm();
  settle();

  Simulation reference(system_, 1);
  for (const auto& [id, object] : wanted_) reference.want(object);
  reference.start(0);
  reference.settle();
  compareWith(reference);
  checkReady();

  // Everybody edits, nobody meddles: what is created and deleted is known.
  was_stale_ = false;
  history_.countAnew();
  reference.history_.countAnew();
  network_.faults = Faults::draw(random_);
  for (const json::Value& object : system_.last(random_)) {
    want(object);
    reference.want(object);
    if (random_.below(3) == 0) worldActs();
    waitUpTo(3000);
  }
  calm();
  settle();
  reference.settle();
  compareWith(reference);
  compareCounts(reference);
  checkReady();
  lookForSecrets();
  listener_->finish();
  for (const std::string& alarm : reference.alarms_.raised())
    alarms_.raise("the reference:", alarm);
  return {alarms_.raised().begin(), alarms_.raised().end()};
}

}  // namespace cadre::sim
