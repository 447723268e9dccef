#include "node/supervisor.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/format.h"
#include "base/strings.h"
#include "json/patch.h"
#include "json/texts.h"
#include "json/write.h"
#include "kube/quantity.h"
#include "kube/watch.h"
#include "node/images.h"
#include "node/last_words.h"
#include "node/network_policies.h"
#include "node/pod_data.h"
#include "node/pod_events.h"
#include "node/pods.h"
#include "node/probes.h"
#include "node/volumes.h"

namespace cadre::node {
namespace {

using json::Value;

const kube::Resource kSecrets{.version = "v1", .plural = "secrets", .kind = "Secret"};

constexpr Duration kFirstRetry = 2s, kLongestRetry = 5min, kWriteAgain = 1s;
constexpr Duration kShutDownGrace = 5s;
constexpr Duration kTokenAgain = 10s, kProtectAgain = 5s;
constexpr Duration kLongestHook = 1h;  // its container has ended long before
constexpr std::int64_t kTokenSeconds = 3600;

const Value* containerOf(const Value& pod, std::string_view name) {
  for (std::string_view list : {"containers", "initContainers"})
    for (const Value& one : pod["spec"][list].array())
      if (one["name"].string() == name) return &one;
  return nullptr;
}

// Of the container's security context; else of the pod's.
const Value& fieldOf(const Value& pod, const Value& container, std::string_view field) {
  const Value& own = container["securityContext"][field];
  return own.isNull() ? pod["spec"]["securityContext"][field] : own;
}

std::optional<std::int64_t> idOf(const Value& pod, const Value& container, std::string_view field) {
  const Value& id = fieldOf(pod, container, field);
  return id.isInteger() ? std::optional(id.integer()) : std::nullopt;
}

std::vector<std::int64_t> groupsOf(const Value& pod) {
  const Value& security = pod["spec"]["securityContext"];
  std::vector<std::int64_t> out;
  if (security["fsGroup"].isInteger()) out.push_back(security["fsGroup"].integer());
  for (const Value& group : security["supplementalGroups"].array()) out.push_back(group.integer());
  return out;
}

kube::Quantity limitOf(const Value& container, std::string_view resource) {
  auto limit = kube::Quantity::fromJson(container["resources"]["limits"][resource]);
  return limit ? *limit : kube::Quantity();
}

std::int64_t versionOf(const Value& object) {
  return parseInt(kube::resourceVersion(object)).value_or(0);
}

}  // namespace

struct Supervisor::Impl {
  // Of a service account, for one pod; asked for again before it ends.
  struct Token {
    Value value;  // {token}; null: not there yet
    bool is_asked_for = false;
    Pending asking, again;
  };

  // A pod, and what is under way for it.
  struct Pod {
    Value object;
    PodSeen seen;
    std::map<std::string, std::unique_ptr<Probes>> probes;
    std::map<std::string, Pending> starting;
    std::map<std::string, std::pair<Time, Duration>> retries;  // of what cannot be started
    std::map<std::string, Token> tokens;                       // by the source of a volume
    std::map<RunName, Pending> hooks;  // that run before an end, or after a start
    Pending timer, soon, binding, writing, removing, preparing;
    bool is_preparing = false;
    std::string policy_trouble;  // as it was told
    bool gone = false;           // from the API
  };

  Impl(net::Loop& loop, kube::Client& client, Random& random, Runtime& runtime,
       SupervisorOptions options)
      : loop(loop),
        client(client),
        runtime(runtime),
        options(std::move(options)),
        events(client, this->options.node),
        volumes(this->options.folder,
                [this](std::string_view ns) { return this->options.names(ns); }),
        policies(loop, client, random, [this] { protectAll(); }),
        config_maps(client, {.resource = kConfigMaps}, random,
                    [this](const kube::Mirror::Change& change) { dataChanged(change.object); }),
        secrets(client, {.resource = kSecrets}, random,
                [this](const kube::Mirror::Change& change) { dataChanged(change.object); }),
        claims(client, {.resource = kClaims}, random,
               [this](const kube::Mirror::Change& change) { dataChanged(change.object); }),
        pods_seen(client, {.resource = kPods}, random,
                  [this](const kube::Mirror::Change& change) { podChanged(change); }) {
    runtime.ended = [this](const RunName& name, const Run& run) { ended(name, run); };
    for (auto& [name, run] : runtime.find()) found[name.pod].emplace_back(name, run);
    adopt();
  }

  // ---- What was there before

  // The newest run of a container is as the runtime says now.
  void update(Pod& pod, const std::string& name, const Run& run) {
    Seen& seen = pod.seen.containers[name];
    std::optional<Time> stopping = seen.run ? seen.run->stopping : std::nullopt;
    seen.run = run;
    seen.run->stopping = stopping;
    if (run.state != Run::State::Ended) return;
    seen.crashes = run.ended - run.started >= kLongRun ? 0 : seen.crashes + 1;
    if (const Value* container = containerOf(pod.object, name); container && run.message.empty())
      seen.run->message = lastWordsOf(
          *container, logOf(options.folder, pod.object, name, run.attempt), run.code != 0);
  }

  // When it is known which pods there are, what runs for none of them ends.
  void adopt() {
    if (!pods_seen.synced() || !policies.synced()) {
      adopting = loop.after(20ms, [this] { adopt(); });
      return;
    }
    std::set<std::string> known;
    for (const auto& [uid, pod] : pods) known.insert(uid);
    volumes.keepOnly(known);
    runtime.keepOnly(known);
    protectAll();
    for (const auto& [uid, runs] : std::exchange(found, {})) {
      for (const auto& [name, run] : runs)
        if (run.state != Run::State::Ended) orphans.insert(name);
      endOrphans(uid);
    }
  }

  // Until the last one of a pod has ended there is a trace of it, for whoever comes after us.
  void endOrphans(const std::string& uid) {
    auto first = orphans.lower_bound({uid, "", 0});
    if (first == orphans.end() || first->pod != uid) return runtime.forget(uid);
    for (auto one = first; one != orphans.end() && one->pod == uid; ++one) runtime.stop(*one, true);
  }

  // ---- What happens

  void podChanged(const kube::Mirror::Change& change) {
    std::string uid(kube::uid(change.object));
    if (change.type == kube::EventType::Deleted) {
      policies.forget(uid);
      if (auto known = pods.find(uid); known != pods.end()) {
        known->second->gone = true;
        lookSoon(uid);
      }
      return;
    }
    const std::string& node = change.object["spec"]["nodeName"].string();
    if (!node.empty() && node != options.node) return;
    policies.see(change.object);
    auto [place, is_new] = pods.try_emplace(uid);
    if (is_new) {
      place->second = std::make_unique<Pod>();
      Pod& pod = *place->second;
      pod.seen.host_address = options.host_address;
      pod.object = change.object;
      if (auto before = found.extract(uid); !before.empty())
        for (const auto& [name, run] : before.mapped()) {
          Seen& seen = pod.seen.containers[name.container];
          if (seen.run) seen.before = std::exchange(seen.run, std::nullopt);
          update(pod, name.container, run);
          if (run.state == Run::State::Running) beginProbes(uid, pod, name.container);
        }
    }
    Pod& pod = *place->second;
    if (is_new || versionOf(pod.object) <= versionOf(change.object)) {
      bool tells_others = kube::labels(pod.object) != kube::labels(change.object) ||
                          kube::annotations(pod.object) != kube::annotations(change.object);
      pod.object = change.object;
      if (tells_others) refreshVolumes(pod);
    }
    lookSoon(uid);
  }

  // Files in volumes follow; what waits for it is tried again.
  void dataChanged(const Value& object) {
    for (auto& [uid, pod] : pods) {
      if (kube::ns(pod->object) != kube::ns(object)) continue;
      pod->retries.clear();
      lookSoon(uid);
      refreshVolumes(*pod);
    }
  }

  void ended(const RunName& name, const Run& run) {
    if (orphans.erase(name) > 0) return endOrphans(name.pod);
    auto known = pods.find(name.pod);
    if (known == pods.end()) return;
    Pod& pod = *known->second;
    pod.probes.erase(name.container);
    pod.hooks.erase(name);
    Seen& seen = pod.seen.containers[name.container];
    if (!seen.run || seen.run->attempt != name.attempt) return;
    update(pod, name.container, run);
    lookSoon(name.pod);
  }

  // ---- What is to be done

  // Once for all that happens in one moment.
  void lookSoon(const std::string& uid) {
    auto known = pods.find(uid);
    if (known == pods.end()) return;
    known->second->soon = loop.after(0s, [this, uid] { look(uid); });
  }

  void lookLater(const std::string& uid, Duration after) {
    if (auto known = pods.find(uid); known != pods.end())
      known->second->timer = loop.after(after, [this, uid] { look(uid); });
  }

  Time now() const { return loop.clock().now(); }

  void look(const std::string& uid) {
    auto known = pods.find(uid);
    if (known == pods.end()) return;
    Pod& pod = *known->second;
    if (when_idle) return checkIdle();
    if (pod.gone) return finish(uid, pod);
    if (!config_maps.synced() || !secrets.synced() || !claims.synced() || !policies.synced())
      return lookLater(uid, 20ms);
    if (pod.object["spec"]["nodeName"].string().empty()) return schedule(uid, pod);
    if (pod.seen.address.empty()) giveAddress(pod);
    if (isAnyRunning(pod)) hasTokens(uid, pod, "");
    PodStep step = stepOf(pod.object, pod.seen, now());
    for (const std::string& name : step.start) start(uid, pod, name, step);
    for (const PodStep::Stop& one : step.stop) stop(pod, one);
    if (!step.start.empty()) {  // what could not be started says so
      auto due = step.due;
      step = stepOf(pod.object, pod.seen, now());
      if (due) step.due = step.due ? std::min(*step.due, *due) : due;
    }
    tell(uid, pod, step.status);
    if (isFinished(pod.object) && !isLive(pod)) runtime.release(uid);
    if (step.over) remove(uid, pod);
    pod.timer = {};
    if (step.due) lookLater(uid, std::max<Duration>(*step.due - now(), 10ms));
  }

  // There is one node; all that a pod may have to wait for is its claims.
  void schedule(const std::string& uid, Pod& pod) {
    if (kube::isDeleting(pod.object)) return;
    for (const Value& volume : pod.object["spec"]["volumes"].array()) {
      const std::string& claim = volume["persistentVolumeClaim"]["claimName"].string();
      if (claim.empty() || claims.find({std::string(kube::ns(pod.object)), claim})) continue;
      return tell(uid, pod,
                  unscheduled(pod.object["status"],
                              format("persistentvolumeclaim \"{}\" not found", claim)));
    }
    bind(uid, pod);
  }

  Value unscheduled(const Value& before, const std::string& why) const {
    Value status = before.isObject() ? before : Value(json::Object());
    const Value& old = status["conditions"].at(0);
    status.make("conditions") = json::Array{
        json::Object{{"type", "PodScheduled"},
                     {"status", "False"},
                     {"reason", "Unschedulable"},
                     {"message", why},
                     {"lastTransitionTime",
                      old.isNull() ? Value(formatTime(now())) : Value(old["lastTransitionTime"])}}};
    return status;
  }

  void bind(const std::string& uid, Pod& pod) {
    std::string target = format("/api/v1/namespaces/{}/pods/{}/binding", kube::ns(pod.object),
                                kube::name(pod.object));
    Value binding =
        json::Object{{"apiVersion", "v1"},
                     {"kind", "Binding"},
                     {"metadata", json::Object{{"name", kube::name(pod.object)}}},
                     {"target", json::Object{{"kind", "Node"}, {"name", options.node}}}};
    pod.binding = client.request("POST", target, json::write(binding), "application/json",
                                 [this, uid](const Result<Value>& answer) {
                                   if (answer) scheduled(uid);
                                   if (answer || answer.error().code == Code::Conflict ||
                                       answer.error().code == Code::NotFound)
                                     return;
                                   lookLater(uid, kWriteAgain);
                                 });
  }

  void scheduled(const std::string& uid) {
    if (auto known = pods.find(uid); known != pods.end())
      events.tell(known->second->object, "", PodEvents::Type::Normal, "Scheduled",
                  format("Successfully assigned {} to {}",
                         kube::ObjectKey::of(known->second->object).text(), options.node));
  }

  // Each pod has an address of its own: the runtime's, or one on the loopback, which is the one it
  // had, or one by its uid.
  void giveAddress(Pod& pod) {
    std::string address = pod.object["status"]["podIP"].string();
    if (auto own = runtime.addressOf(std::string(kube::uid(pod.object)))) {
      pod.seen.address = own->empty() ? address : *own;
      return;
    }
    std::set<std::string> taken;
    for (const auto& [uid, other] : pods) taken.insert(other->seen.address);
    for (int i = 0; address.empty() || taken.contains(address); ++i) {
      std::uint64_t hash = std::hash<std::string>()(format("{} {}", kube::uid(pod.object), i));
      address = format("127.{}.{}.{}", 64 + hash % 32, (hash >> 8) % 256, 1 + (hash >> 16) % 254);
    }
    pod.seen.address = address;
  }

  Lookup lookupFor(const Pod& pod) {
    held.clear();
    return [this, &pod, ns = std::string(kube::ns(pod.object))](
               std::string_view kind, std::string_view name) -> const Value* {
      if (kind == kServiceAccountToken) {
        auto token = pod.tokens.find(std::string(name));
        return token == pod.tokens.end() || token->second.value.isNull() ? nullptr
                                                                         : &token->second.value;
      }
      const kube::Mirror& mirror = kind == "Secret" ? secrets : config_maps;
      auto object = mirror.find({ns, std::string(name)});
      if (!object) return nullptr;
      object->make("kind") = kind;
      held.push_back(std::make_unique<Value>(*std::move(object)));
      return held.back().get();
    };
  }

  void start(const std::string& uid, Pod& pod, const std::string& name, PodStep& step) {
    Seen& seen = pod.seen.containers[name];
    if (auto wait = pod.retries.find(name);
        wait != pod.retries.end() && wait->second.first > now()) {
      step.due = step.due ? std::min(*step.due, wait->second.first) : wait->second.first;
      return;
    }
    const Value* container = containerOf(pod.object, name);
    if (!container || !isPrepared(uid, pod, name) || !hasTokens(uid, pod, name)) return;
    // What the pod says of itself is as it will be told.
    Value self = pod.object;
    self.make("status").make("podIP") = pod.seen.address;
    self.make("status").make("podIPs") = json::Array{json::Object{{"ip", pod.seen.address}}};
    self.make("status").make("hostIP") = pod.seen.host_address;
    int attempt = seen.run ? seen.run->attempt + 1 : 0;
    if (const std::string& image = (*container)["image"].string(); !isImageName(image))
      return cannot(uid, pod, name, "InvalidImageName",
                    {.code = Code::InvalidArgument,
                     .message = format("\"{}\" is no name of an image", image)});
    Lookup lookup = lookupFor(pod);
    auto places = volumes.make(self, hostnameOf(self), lookup);
    if (!places) return cannot(uid, pod, name, kNotFurnished, places.error());
    auto order = orderOf(self, *container, attempt, lookup, *places);
    if (!order) return cannot(uid, pod, name, "CreateContainerConfigError", order.error());
    if (attempt >= 2) forgetRun(pod, name, attempt - 2);
    std::optional<Run> before = seen.run;
    if (seen.run) seen.before = seen.run;
    seen.run = Run{.attempt = attempt};
    seen.reason.clear();
    seen.message.clear();
    const bool pull = order->pull;
    pod.starting[name] = runtime.start(
        *std::move(order), [this, uid, name, before, pull](const Result<Run>& result) {
          auto known = pods.find(uid);
          if (known == pods.end()) return;
          Pod& pod = *known->second;
          Seen& seen = pod.seen.containers[name];
          if (!result) {
            seen.run = before;
            cannotRun(uid, pod, name, pull, result.error());
          } else {
            update(pod, name, *result);
            pod.retries.erase(name);
            events.tell(pod.object, name, PodEvents::Type::Normal, "Started",
                        format("Started container {}", name));
            if (result->state == Run::State::Running) {
              beginProbes(uid, pod, name);
              afterStart(uid, pod, name);
            }
          }
          lookSoon(uid);
        });
  }

  // Those that its volumes have are asked for first; then it is looked at again. `container`: which
  // one waits for them, if any.
  bool hasTokens(const std::string& uid, Pod& pod, const std::string& container) {
    bool all = true;
    for (const Value& volume : pod.object["spec"]["volumes"].array())
      for (const Value& source : volume["projected"]["sources"].array()) {
        const Value& wanted = source["serviceAccountToken"];
        if (wanted.isNull()) continue;
        Token& token = pod.tokens[json::write(wanted)];
        if (token.value.isNull() && !token.is_asked_for) askForToken(uid, pod, wanted, container);
        all &= !token.value.isNull();
      }
    return all;
  }

  void askForToken(const std::string& uid, Pod& pod, const Value& wanted,
                   const std::string& container) {
    const Value& object = pod.object;
    std::string account = object["spec"]["serviceAccountName"].string();
    if (account.empty()) account = "default";
    json::Object spec{
        {"expirationSeconds", wanted["expirationSeconds"].integer(kTokenSeconds)},
        {"boundObjectRef",
         json::Object{
             {"apiVersion", "v1"}, {"kind", "Pod"}, {"name", kube::name(object)}, {"uid", uid}}}};
    if (const std::string& audience = wanted["audience"].string(); !audience.empty())
      spec.set("audiences", json::Array{audience});
    Value body = json::Object{{"apiVersion", "authentication.k8s.io/v1"},
                              {"kind", "TokenRequest"},
                              {"spec", std::move(spec)}};
    Token& token = pod.tokens[json::write(wanted)];
    token.is_asked_for = true;
    token.asking = client.request(
        "POST",
        format("/api/v1/namespaces/{}/serviceaccounts/{}/token", urlEncode(kube::ns(object)),
               urlEncode(account)),
        json::write(body), "application/json",
        [this, uid, wanted, container](const Result<Value>& answer) {
          auto known = pods.find(uid);
          if (known == pods.end()) return;
          Pod& pod = *known->second;
          Token& token = pod.tokens[json::write(wanted)];
          token.is_asked_for = false;
          if (!answer && token.value.isNull() && !container.empty())
            cannot(uid, pod, container, kNotFurnished, answer.error());
          Duration left = kTokenAgain;
          if (answer) {
            token.value = json::Object{{"token", (*answer)["status"]["token"]}};
            auto ends = parseTime((*answer)["status"]["expirationTimestamp"].string());
            left = std::max<Duration>((ends.value_or(now()) - now()) * 4 / 5, kTokenAgain);
            refreshVolumes(pod);
            lookSoon(uid);
          }
          token.again = loop.after(left, [this, uid, wanted] {
            auto known = pods.find(uid);
            if (known != pods.end() && !known->second->tokens[json::write(wanted)].is_asked_for)
              askForToken(uid, *known->second, wanted, "");
          });
        });
  }

  // What its containers share comes first; then it is looked at again.
  bool isPrepared(const std::string& uid, Pod& pod, const std::string& name) {
    auto address = runtime.addressOf(uid);
    if (!address) return true;
    if (!address->empty()) {
      pod.seen.address = *address;
      return true;
    }
    if (pod.is_preparing) return false;
    if (auto written = protect(uid, pod); !written) {
      cannot(uid, pod, name, kNotFurnished, written.error());
      return false;
    }
    pod.is_preparing = true;
    pod.preparing =
        runtime.prepare(uid, hostnameOf(pod.object), [this, uid, name](const Result<>& result) {
          auto known = pods.find(uid);
          if (known == pods.end()) return;
          known->second->is_preparing = false;
          if (!result) return cannot(uid, *known->second, name, kNotFurnished, result.error());
          lookSoon(uid);
        });
    return false;
  }

  // What it may take and send is known before there is a network that it could do that in.
  Result<> protect(const std::string& uid, Pod& pod) {
    Policy policy = policies.of(uid);
    if (std::exchange(pod.policy_trouble, policy.trouble) != policy.trouble &&
        !policy.trouble.empty()) {
      events.tell(pod.object, "", PodEvents::Type::Warning, "PolicyTooLarge", policy.trouble);
      if (options.logger)
        options.logger->warn(
            "the NetworkPolicies of a pod are too large",
            {{"pod", kube::ObjectKey::of(pod.object).text()}, {"error", policy.trouble}});
    }
    return runtime.protect(uid, policy);
  }

  // Until all is known, what a former one has said holds.
  void protectAll() {
    protecting = {};
    if (!pods_seen.synced() || !policies.synced()) return;
    for (auto& [uid, pod] : pods) {
      auto address = runtime.addressOf(uid);
      if (!address || (address->empty() && !pod->is_preparing)) continue;
      auto written = protect(uid, *pod);
      if (written) continue;
      protecting = loop.after(kProtectAgain, [this] { protectAll(); });
      if (options.logger)
        options.logger->warn(
            "a pod does not hear of NetworkPolicies",
            {{"pod", kube::ObjectKey::of(pod->object).text()}, {"error", written.error().text()}});
    }
  }

  // The last one and the one before it are told of; what was earlier is of no use to anybody.
  void forgetRun(const Pod& pod, const std::string& name, int attempt) {
    runtime.forget(RunName{std::string(kube::uid(pod.object)), name, attempt});
    std::string log = logOf(options.folder, pod.object, name, attempt);
    std::error_code ignored;
    for (const std::string& part : {log, log + ".1", lastWordsFile(log)})
      std::filesystem::remove(part, ignored);
  }

  // In the words of the kubelet, as far as it has any.
  void cannotRun(const std::string& uid, Pod& pod, const std::string& name, bool pull,
                 const Error& error) {
    const std::string image = (*containerOf(pod.object, name))["image"].string();
    if (error.code == Code::Forbidden)
      return cannot(uid, pod, name, "CreateContainerConfigError", error);
    if (error.code != Code::NotFound) return cannot(uid, pod, name, "CreateContainerError", error);
    if (!pull)
      return cannot(
          uid, pod, name, "ErrImageNeverPull",
          {.code = error.code,
           .message =
               format("Container image \"{}\" is not present with pull policy of Never", image)});
    if (!pod.retries.contains(name)) return cannot(uid, pod, name, "ErrImagePull", error);
    cannot(uid, pod, name, "ImagePullBackOff",
           {.code = error.code,
            .message = format("Back-off pulling image \"{}\": {}", image, error.message)});
  }

  // It is tried again later, and when something changes that it may have waited for.
  void cannot(const std::string& uid, Pod& pod, const std::string& name, std::string_view reason,
              const Error& error) {
    Seen& seen = pod.seen.containers[name];
    seen.reason = reason;
    seen.message = error.message;
    events.tell(pod.object, name, PodEvents::Type::Warning, "Failed",
                format("{}: {}", seen.reason, seen.message));
    auto [place, is_new] = pod.retries.try_emplace(name, now(), kFirstRetry);
    Duration pause =
        is_new ? kFirstRetry : std::min<Duration>(place->second.second * 2, kLongestRetry);
    place->second = {now() + pause, pause};
    if (options.logger)
      options.logger->warn("a container cannot be started",
                           {{"pod", kube::ObjectKey::of(pod.object).text()},
                            {"container", name},
                            {"reason", seen.reason},
                            {"error", seen.message}});
    lookSoon(uid);
  }

  static std::string hostnameOf(const Value& pod) {
    const std::string& given = pod["spec"]["hostname"].string();
    return (given.empty() ? std::string(kube::name(pod)) : given).substr(0, 63);
  }

  void refreshNames() {
    for (const auto& [uid, pod] : pods)
      if (isAnyRunning(*pod)) (void)volumes.writeHosts(pod->object, hostnameOf(pod->object));
  }

  static bool isAnyRunning(const Pod& pod) {
    return std::ranges::any_of(pod.seen.containers, [](auto& one) {
      return one.second.run && one.second.run->state == Run::State::Running;
    });
  }

  Result<RunOrder> orderOf(const Value& pod, const Value& container, int attempt,
                           const Lookup& lookup, const Volumes::Places& places) {
    CADRE_LET(auto env,
              environmentOf(
                  pod, container, lookup,
                  options.links(kube::ns(pod), pod["spec"]["enableServiceLinks"].boolean(true))));
    std::string hostname = hostnameOf(pod);
    env.try_emplace("HOSTNAME", hostname);
    const Value& security = container["securityContext"];
    RunOrder order{.name = {std::string(kube::uid(pod)), container["name"].string(), attempt},
                   .image = container["image"].string(),
                   .command = expanded(container["command"], env),
                   .args = expanded(container["args"], env),
                   .env = env,
                   .directory = container["workingDir"].string(),
                   .hostname = hostname,
                   .address = pod["spec"]["hostNetwork"].boolean()
                                  ? std::string()
                                  : pod["status"]["podIP"].string(),
                   .mounts = {},
                   .user = idOf(pod, container, "runAsUser"),
                   .group = idOf(pod, container, "runAsGroup"),
                   .groups = groupsOf(pod),
                   .is_never_root = fieldOf(pod, container, "runAsNonRoot").boolean(),
                   .read_only = security["readOnlyRootFilesystem"].boolean(),
                   .is_privileged = security["privileged"].boolean(),
                   .may_gain = security["allowPrivilegeEscalation"].boolean(true),
                   .add_capabilities = textsOf(security["capabilities"]["add"]),
                   .drop_capabilities = textsOf(security["capabilities"]["drop"]),
                   .log = logOf(options.folder, pod, container["name"].string(), attempt),
                   .limits = {.memory_bytes = limitOf(container, "memory").value(),
                              .cpu_millis = limitOf(container, "cpu").milliValue()},
                   .pull = container["imagePullPolicy"].string() != "Never"};
    CADRE_LET(order.mounts, volumes.mount(pod, container, places, env));
    if (const std::string& path = container["terminationMessagePath"].string(); !path.empty()) {
      makeLastWordsFile(order.log);
      order.mounts.push_back({lastWordsFile(order.log), path});
    }
    return order;
  }

  void refreshVolumes(Pod& pod) {
    if (!isAnyRunning(pod) || !hasTokens(std::string(kube::uid(pod.object)), pod, "")) return;
    Lookup lookup = lookupFor(pod);
    if (auto written = volumes.refresh(pod.object, lookup); !written && options.logger)
      options.logger->warn(
          "volumes keep their old files",
          {{"pod", kube::ObjectKey::of(pod.object).text()}, {"error", written.error().text()}});
  }

  void stop(Pod& pod, const PodStep::Stop& what) {
    Run& run = *pod.seen.containers[what.container].run;
    RunName name{std::string(kube::uid(pod.object)), what.container, run.attempt};
    bool first = !run.stopping;
    if (first) {
      run.stopping = now();
      const bool well = run.alive || kube::isDeleting(pod.object);
      events.tell(
          pod.object, what.container, PodEvents::Type::Normal, "Killing",
          well ? format("Stopping container {}", what.container)
               : format("Container {} failed its probes, will be restarted", what.container));
    }
    // What is to happen before has its part of the time that there is for the end.
    const Value* container = containerOf(pod.object, what.container);
    const Value& hook = (*container)["lifecycle"]["preStop"];
    if (what.kill || !first || hook.isNull()) {
      runtime.stop(name, what.kill);
    } else {
      pod.hooks[name] =
          askContainer({loop, *container, pod.seen.address, insideOf(name)}, hook, kLongestHook,
                       [this, name](const Result<>&) { runtime.stop(name, false); });
    }
    if (!what.kill) lookSoon(std::string(kube::uid(pod.object)));  // when it will be killed
  }

  RunInside insideOf(const RunName& run) {
    return [this, run](const std::vector<std::string>& command, Duration timeout,
                       Function<void(Result<>)> done) {
      return runtime.runInside(
          run, command, timeout,
          [done = std::move(done)](const Result<net::ProcessResult>& result) {
            if (!result) return done(result.error());
            if (result->exit_code == 0) return done({});
            done(Error{.code = Code::Unavailable,
                       .message = format("command ended with {}: {}", result->exit_code,
                                         shorten(result->output + result->errors, 200))});
          });
    };
  }

  // What is to happen when it has started; where that fails, it ends.
  void afterStart(const std::string& uid, Pod& pod, const std::string& name) {
    const Value* container = containerOf(pod.object, name);
    if (!container || (*container)["lifecycle"]["postStart"].isNull()) return;
    if (pod.seen.address.empty()) giveAddress(pod);
    RunName run{uid, name, pod.seen.containers[name].run->attempt};
    pod.hooks[run] = askContainer(
        {loop, *container, pod.seen.address, insideOf(run)}, (*container)["lifecycle"]["postStart"],
        kLongestHook, [this, run](const Result<>& done) {
          if (done) return;
          if (options.logger)
            options.logger->warn("what is to happen after a start has failed",
                                 {{"container", run.container}, {"error", done.error().text()}});
          if (auto known = pods.find(run.pod); known != pods.end())
            events.tell(known->second->object, run.container, PodEvents::Type::Warning,
                        "FailedPostStartHook", done.error().message);
          runtime.stop(run, true);
        });
  }

  void beginProbes(const std::string& uid, Pod& pod, const std::string& name) {
    const Value* container = containerOf(pod.object, name);
    if (!container || !Probes::areWanted(*container)) return;
    if (pod.seen.address.empty()) giveAddress(pod);
    auto apply = [this, uid, name](const Probes::Said& said) {
      auto known = pods.find(uid);
      if (known == pods.end()) return;
      Seen& seen = known->second->seen.containers[name];
      if (!seen.run) return;
      seen.run->up = said.up;
      seen.run->ready = said.ready;
      seen.run->alive = said.alive;
      lookSoon(uid);
    };
    RunName run{uid, name, pod.seen.containers[name].run->attempt};
    apply(Probes::before(*container));
    auto failed = [this, uid, name](std::string_view which, const std::string& why) {
      auto known = pods.find(uid);
      if (known == pods.end() || kube::isDeleting(known->second->object)) return;
      events.tell(known->second->object, name, PodEvents::Type::Warning, "Unhealthy",
                  format("{} probe failed: {}", which, why));
    };
    pod.probes[name] =
        std::make_unique<Probes>(loop, *container, pod.seen.address, insideOf(run), apply, failed);
  }

  // ---- The end

  void shutDown(Function<void()> done) {
    when_idle = std::move(done);
    for (auto& [uid, pod] : pods) {
      pod->timer = {};
      endAll(uid, *pod, false);
    }
    killing = loop.after(kShutDownGrace, [this] {
      for (auto& [uid, pod] : pods) endAll(uid, *pod, true);
    });
    checkIdle();
  }

  static bool isLive(const Seen& seen) { return seen.run && seen.run->state != Run::State::Ended; }
  static bool isLive(const Pod& pod) {
    return std::ranges::any_of(pod.seen.containers, [](auto& one) { return isLive(one.second); });
  }

  void endAll(const std::string& uid, const Pod& pod, bool kill) {
    for (const auto& [name, seen] : pod.seen.containers)
      if (isLive(seen)) runtime.stop({uid, name, seen.run->attempt}, kill);
  }

  void checkIdle() {
    if (when_idle && std::ranges::none_of(pods, [](auto& one) { return isLive(*one.second); }))
      ending = loop.after(0s, [this] { std::exchange(when_idle, nullptr)(); });
  }

  // ---- What is told

  void tell(const std::string& uid, Pod& pod, const Value& status) {
    if (status == pod.object["status"]) return;
    for (const Value& one : status["containerStatuses"].array())
      if (const Value& waiting = one["state"]["waiting"];
          waiting["reason"].string() == "CrashLoopBackOff")
        events.tell(pod.object, one["name"].string(), PodEvents::Type::Warning, "BackOff",
                    format("Back-off restarting failed container {}", one["name"].string()));
    Value patch = json::Object{{"metadata", json::Object{{"uid", kube::uid(pod.object)}}},
                               {"status", json::makeMergePatch(pod.object["status"], status)}};
    pod.object.make("status") = status;
    pod.writing =
        client.patch(kPods, kube::ObjectKey::of(pod.object), kube::PatchType::Merge, patch,
                     {.field_manager = "cadre-node", .subresource = "status"},
                     [this, uid](const Result<Value>& answer) {
                       auto known = pods.find(uid);
                       if (known == pods.end()) return;
                       Pod& pod = *known->second;
                       if (answer) {
                         if (versionOf(*answer) >= versionOf(pod.object)) pod.object = *answer;
                       } else if (answer.error().code != Code::NotFound) {
                         // Begun anew from what is there.
                         if (auto there = pods_seen.find(kube::ObjectKey::of(pod.object)); there)
                           pod.object = *std::move(there);
                         lookLater(uid, kWriteAgain);
                       }
                     });
  }

  void remove(const std::string& uid, Pod& pod) {
    pod.removing =
        client.remove(kPods, kube::ObjectKey::of(pod.object), {.uid = uid, .grace_seconds = 0},
                      [this, uid](const Result<Value>& answer) {
                        if (answer || answer.error().code == Code::NotFound ||
                            answer.error().code == Code::Conflict)
                          return;
                        lookLater(uid, kWriteAgain);
                      });
  }

  // The API no longer has it: nothing of it stays.
  void finish(const std::string& uid, Pod& pod) {
    if (isLive(pod)) return endAll(uid, pod, true);  // its end brings us here again
    runtime.forget(uid);
    events.forget(uid);
    volumes.forget(pod.object);
    pods.erase(uid);
  }

  net::Loop& loop;
  kube::Client& client;
  Runtime& runtime;
  const SupervisorOptions options;
  PodEvents events;
  Volumes volumes;
  std::map<std::string, std::unique_ptr<Pod>> pods;                   // by uid
  std::map<std::string, std::vector<std::pair<RunName, Run>>> found;  // of former times
  std::set<RunName> orphans;                                          // that were killed
  std::vector<std::unique_ptr<Value>> held;  // what a lookup hands out, until the next one
  Function<void()> when_idle;                // set: it is the end
  Pending adopting, killing, ending, protecting;
  NetworkPolicies policies;
  kube::Mirror config_maps, secrets, claims, pods_seen;
};

Supervisor::Supervisor(net::Loop& loop, kube::Client& client, Random& random, Runtime& runtime,
                       SupervisorOptions options)
    : impl_(std::make_unique<Impl>(loop, client, random, runtime, std::move(options))) {}
Supervisor::~Supervisor() = default;

void Supervisor::refreshNames() { impl_->refreshNames(); }

void Supervisor::shutDown(Function<void()> done) { impl_->shutDown(std::move(done)); }

std::string Supervisor::logOf(const std::string& folder, const Value& pod,
                              const std::string& container, std::int64_t attempt) {
  return format("{}/{}/{}.log", logFolder(folder, pod), container, attempt);
}

}  // namespace cadre::node
