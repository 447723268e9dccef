#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <set>

#include "base/format.h"
#include "base/strings.h"
#include "cli/commands.h"
#include "cli/objects.h"
#include "cli/target_pod.h"
#include "kube/conditions.h"
#include "kube/selector.h"
#include "kube/watch.h"

namespace cadre::cli {
namespace {

const kube::Resource kPods{.group = "", .version = "v1", .plural = "pods", .kind = "Pod"};
constexpr std::size_t kLongestLine = 1u << 20;  // then it is shown in pieces

struct LogsFlags {
  ClusterFlags cluster;
  std::string what, labels, container, since;
  std::int64_t tail = -1;
  bool follow = false, previous = false, timestamps = false;
};

// Whose logs they are.
struct Source {
  kube::Selection pods;
  bool several = false;             // not one pod by its name
  std::optional<Found> owner = {};  // that the pods belong to
};

Error wrong(std::string message) {
  return Error{.code = Code::InvalidArgument, .message = std::move(message)};
}

Result<Source> sourceOf(Cluster& cluster, const LogsFlags& flags) {
  if (flags.what.empty() == flags.labels.empty())
    return wrong(
        "say whose: `cadre logs POD`, `cadre logs deploy/NAME` or `cadre logs -l app=web`");
  if (!flags.labels.empty())
    return Source{.pods = {.ns = cluster.ns, .labels = flags.labels}, .several = true};
  std::string word = flags.what.find('/') == flags.what.npos ? "pod/" + flags.what : flags.what;
  if (cluster.ns.empty()) return wrong("a name needs one namespace: leave -A out");
  CADRE_LET(auto discovery, cluster.discover());
  CADRE_LET(auto named, namedBy({word}, discovery));
  CADRE_LET(auto found, findObjects(cluster, named, {}));
  Found& one = found.front();
  if (one.object.isNull()) return notThere(one);
  if (one.resource == kPods)
    return Source{.pods = {.ns = cluster.ns, .fields = "metadata.name=" + one.key.name}};
  CADRE_LET(std::string labels, podSelector(one));
  return Source{
      .pods = {.ns = cluster.ns, .labels = labels}, .several = true, .owner = std::move(one)};
}

std::vector<std::string> containersOf(const json::Value& pod) {
  std::vector<std::string> names;
  for (const char* list : {"containers", "initContainers", "ephemeralContainers"})
    for (const json::Value& container : pod["spec"][list].array())
      names.push_back(container["name"].string());
  return names;
}

const json::Value& statusOf(const json::Value& pod, std::string_view container) {
  static const json::Value none;
  for (const char* list :
       {"containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"})
    for (const json::Value& status : pod["status"][list].array())
      if (status["name"].string() == container) return status;
  return none;
}

bool isOver(const json::Value& pod) {
  const std::string& phase = pod["status"]["phase"].string();
  return phase == "Succeeded" || phase == "Failed";
}

// Whether pods may still come of it.
bool wantsPods(const json::Value& owner) {
  bool job = owner["kind"].string() == "Job";
  return owner["spec"]["replicas"].integer() > 0 ||
         owner["status"]["desiredNumberScheduled"].integer() > 0 ||
         (job && !kube::isConditionTrue(owner, "Complete") &&
          !kube::isConditionTrue(owner, "Failed"));
}

// Reads logs, and shows them line by line where there are several.
class Reader {
 public:
  Reader(Cluster& cluster, const LogsFlags& flags, const Surroundings& surroundings)
      : cluster_(cluster), flags_(flags), surroundings_(surroundings) {}

  bool with_names = false;  // each line says whose it is

  // Which container is meant.
  Result<std::string> containerOf(const json::Value& pod) {
    std::vector<std::string> names = containersOf(pod);
    if (names.empty()) return wrong(format("pod/{} has no containers", kube::name(pod)));
    if (!flags_.container.empty()) {
      if (std::ranges::find(names, flags_.container) != names.end()) return flags_.container;
      return wrong(format("pod/{} has no container {}: choose one of {} with -c", kube::name(pod),
                          flags_.container, join(names, ", ")));
    }
    std::string chosen(kube::annotation(pod, "kubectl.kubernetes.io/default-container"));
    if (std::ranges::find(names, chosen) == names.end()) chosen = names[0];
    if (names.size() > 1)
      say(pod, format("container {} of {}; choose with -c", chosen, join(names, ", ")));
    return chosen;
  }

  // `whole`: what began after us is shown from its beginning.
  Pending read(const json::Value& pod, const std::string& container, bool whole,
               Function<void(Result<>)> done) {
    auto rest = std::make_shared<std::string>();
    std::string prefix = with_names ? format("[{}] ", kube::name(pod)) : "";
    return cluster_.client->stream(
        targetOf(pod, container, whole),
        [this, rest, prefix](std::string_view piece) { show(*rest, prefix, piece); },
        [this, rest, prefix, done = std::move(done)](Result<> result) {
          if (!rest->empty()) surroundings_.out(format("{}{}\n", prefix, *rest));
          done(std::move(result));
        });
  }

  void say(const json::Value& pod, const std::string& text) {
    surroundings_.err(withoutControls(format("pod/{}: {}", kube::name(pod), text)) + "\n");
  }

 private:
  std::string targetOf(const json::Value& pod, const std::string& container, bool whole) const {
    std::string target =
        kPods.path(kube::ns(pod), kube::name(pod), "log") + "?container=" + urlEncode(container);
    if (flags_.follow) target += "&follow=true";
    if (flags_.previous) target += "&previous=true";
    if (flags_.timestamps) target += "&timestamps=true";
    if (whole) return target;
    if (flags_.tail >= 0) target += format("&tailLines={}", flags_.tail);
    if (auto since = parseDuration(flags_.since))
      target += format(
          "&sinceSeconds={}",
          std::max<std::int64_t>(1, std::chrono::ceil<std::chrono::seconds>(*since).count()));
    return target;
  }

  // What a program printed is data: it is passed on as it is.
  void show(std::string& rest, const std::string& prefix, std::string_view piece) {
    if (prefix.empty()) return surroundings_.out(piece);
    rest += piece;
    std::string lines;
    std::size_t from = 0, end;
    while ((end = rest.find('\n', from)) != rest.npos || rest.size() - from > kLongestLine) {
      if (end == rest.npos) end = rest.size() - 1;
      lines += prefix + rest.substr(from, end + 1 - from);
      from = end + 1;
    }
    rest.erase(0, from);
    if (!lines.empty()) surroundings_.out(lines);
  }

  Cluster& cluster_;
  const LogsFlags& flags_;
  const Surroundings& surroundings_;
};

// ---- What is there

std::string adviceFor(const Error& error) {
  bool waits = error.text().find("waiting to start") != std::string::npos;
  return waits ? "; follow it with -f, or see why with `cadre describe`" : "";
}

Result<int> readAllOf(Cluster& cluster, const Source& source, Reader& reader,
                      const Surroundings& surroundings) {
  CADRE_LET(auto pods, cluster.await<std::vector<json::Value>>([&](auto done) {
    return cluster.client->list(kPods, {.select = source.pods}, std::move(done));
  }));
  if (pods.empty()) {
    surroundings.err(nothingFound({{kPods}}, cluster.ns));
    return 1;
  }
  reader.with_names = pods.size() > 1;
  int code = 0;
  for (const json::Value& pod : pods) {
    auto container = reader.containerOf(pod);
    Result<> read = container ? cluster.await<void>([&](auto done) {
      return reader.read(pod, *container, /*whole=*/false, std::move(done));
    })
                              : Result<>(container.error());
    if (!read)
      code = std::max(
          code, failWith(surroundings,
                         Error{.code = read.error().code,
                               .message = format("pod/{}: {}{}", kube::name(pod),
                                                 read.error().text(), adviceFor(read.error())),
                               .reason = read.error().reason}));
  }
  return code;
}

// ---- What comes

// Follows pods as they come and go: each run of the container that is meant, once.
class Following {
 public:
  Following(Cluster& cluster, const Source& source, Reader& reader,
            const Surroundings& surroundings)
      : reader_(reader),
        surroundings_(surroundings),
        watcher_(*cluster.client, {.resource = kPods, .select = source.pods}, random_, handler()) {}

  // All that was there has ended, and nothing of it is still to be shown.
  bool ended() const {
    return synced_ && seen_any_ && streams_.empty() &&
           std::ranges::all_of(pods_, [](const auto& pod) { return isOver(pod.second); });
  }
  bool isSynced() const { return synced_; }
  bool isEmpty() const { return synced_ && pods_.empty() && !seen_any_; }
  const std::optional<Error>& refused() const { return refused_; }
  int code() const { return code_; }
  // Of the first one that has not begun to run: why.
  std::string waitsFor() const {
    for (const auto& [uid, pod] : pods_)
      for (const json::Value& status : pod["status"]["containerStatuses"].array())
        if (const json::Value& waiting = status["state"]["waiting"]; !waiting.isNull())
          return format("pod/{} waits: {} {}", kube::name(pod), waiting["reason"].string(),
                        waiting["message"].string());
    return {};
  }

 private:
  kube::WatchHandler handler() {
    return {.begin = [this] { drawn_.clear(); },
            .item =
                [this](json::Value pod) {
                  std::string uid(kube::uid(pod));
                  drawn_[uid] = std::move(pod);
                },
            .synced =
                [this] {
                  pods_ = std::move(drawn_);
                  for (const auto& [uid, pod] : pods_) look(pod);
                  synced_ = true;
                },
            .changed =
                [this](kube::EventType type, json::Value pod) {
                  std::string uid(kube::uid(pod));
                  if (type == kube::EventType::Deleted) {
                    drawn_.erase(uid);
                    pods_.erase(uid);
                    return;
                  }
                  json::Value& kept = pods_[uid] = std::move(pod);
                  look(kept);
                },
            .failed =
                [this](const Error& error) {
                  if (error.code == Code::Forbidden || error.code == Code::Unauthenticated)
                    refused_ = error;
                }};
  }

  void look(const json::Value& pod) {
    seen_any_ = true;
    std::string uid(kube::uid(pod));
    if (!containers_.contains(uid)) {
      auto container = reader_.containerOf(pod);
      if (!container) code_ = failWith(surroundings_, container.error());
      containers_[uid] = container ? *container : "";
    }
    const std::string& container = containers_[uid];
    const json::Value& status = statusOf(pod, container);
    const json::Value& state = status["state"];
    bool runs = !state["running"].isNull() || !state["terminated"].isNull();
    if (container.empty() || !runs || streams_.contains(uid)) return;
    std::string run = format("{} {}", uid, status["restartCount"].integer());
    if (!begun_.insert(run).second) return;
    streams_[uid] = reader_.read(pod, container, /*whole=*/synced_, [this, uid, run](Result<> end) {
      ended(uid, run, std::move(end));
    });
  }

  void ended(const std::string& uid, const std::string& run, Result<> end) {
    Pending over = std::move(streams_[uid]);
    streams_.erase(uid);
    auto pod = pods_.find(uid);
    if (!end && pod != pods_.end()) {
      reader_.say(pod->second, end.error().text());
      bool waits = !adviceFor(end.error()).empty();
      if (waits) begun_.erase(run);  // its next state tells when it can be read
      if (!waits) code_ = 2;
    }
    // It may have been started again meanwhile.
    if (end && pod != pods_.end()) look(pod->second);
  }

  Reader& reader_;
  const Surroundings& surroundings_;
  Random random_ = Random::fromSystem();
  std::map<std::string, json::Value> pods_, drawn_;  // by uid
  std::map<std::string, std::string> containers_;    // by the pod's uid: which one is meant
  std::map<std::string, Pending> streams_;           // by the pod's uid
  std::set<std::string> begun_;                      // runs: the pod's uid and how often it began
  bool synced_ = false, seen_any_ = false;
  int code_ = 0;
  std::optional<Error> refused_;
  kube::Watcher watcher_;
};

// Whether what owns the pods will have others in the place of those that have ended.
bool moreMayCome(Cluster& cluster, const Source& source) {
  if (!source.owner) return false;
  auto owner = cluster.await<json::Value>([&](auto done) {
    return cluster.client->get(source.owner->resource, source.owner->key, std::move(done));
  });
  return owner && wantsPods(*owner);
}

Result<int> followAllOf(Cluster& cluster, const Source& source, Reader& reader,
                        const Surroundings& surroundings) {
  reader.with_names = source.several;
  Following following(cluster, source, reader, surroundings);
  auto over = [&] { return following.refused() || following.ended(); };
  if (!cluster.loop.runUntil(over, surroundings.patience)) {
    cluster.loop.runUntil([&] { return over() || following.isSynced(); }, kForEver);
    if (following.isEmpty()) surroundings.err("no pods are there yet; waiting for them\n");
    if (std::string waits = following.waitsFor(); !waits.empty())
      surroundings.err(withoutControls(waits) + "\n");
  }
  for (;;) {
    cluster.loop.runUntil(over, kForEver);
    if (following.refused()) return *following.refused();
    if (!moreMayCome(cluster, source)) return following.code();
    cluster.loop.runUntil([&] { return !over(); }, 500ms);
  }
}

Result<int> runLogs(const LogsFlags& flags, const Surroundings& surroundings) {
  if (flags.follow && flags.previous)
    return wrong("what has ended cannot be followed: leave -f or --previous out");
  CADRE_LET(auto cluster, Cluster::connect(flags.cluster, surroundings));
  CADRE_LET(Source source, sourceOf(*cluster, flags));
  Reader reader(*cluster, flags, surroundings);
  return flags.follow ? followAllOf(*cluster, source, reader, surroundings)
                      : readAllOf(*cluster, source, reader, surroundings);
}

}  // namespace

void addLogs(CLI::App& app, const Surroundings& surroundings, int& exit_code) {
  auto flags = std::make_shared<LogsFlags>();
  auto* command = app.add_subcommand("logs", "Show what pods print");
  flags->cluster.addTo(*command, Namespaces::Any);
  command->add_option("POD", flags->what, "A pod, or what has pods: web-1, deploy/web, job/once");
  command->add_option("-l,--selector", flags->labels, "All pods with these labels: app=web");
  command->add_option("-c,--container", flags->container,
                      "Which container (default: the pod's default one, or its first)");
  command->add_flag("-f,--follow", flags->follow,
                    "Go on until all have ended; of several also with pods that come later");
  command->add_flag("--previous", flags->previous, "Of the run before the present one");
  command->add_option("--tail", flags->tail, "Only so many of the last lines; -1: all")
      ->capture_default_str();
  command->add_option("--since", flags->since, "Only what is not older, as 30s or 5m")
      ->check(durationProblem);
  command->add_flag("--timestamps", flags->timestamps, "Each line with its time");
  command->callback([flags, &surroundings, &exit_code] {
    auto ran = runLogs(*flags, surroundings);
    exit_code = ran ? *ran : failWith(surroundings, ran.error());
  });
}

}  // namespace cadre::cli
