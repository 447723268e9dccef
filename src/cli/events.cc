#include "cli/events.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>

#include "base/format.h"
#include "base/strings.h"
#include "cli/commands.h"
#include "cli/objects.h"
#include "cli/table.h"
#include "hub/builtin.h"
#include "kube/watch.h"

namespace cadre::cli {
namespace {

// The first of these that is told.
Time firstTime(std::initializer_list<const json::Value*> told) {
  for (const json::Value* one : told)
    if (auto time = parseTime(one->string())) return *time;
  return {};
}

std::string firstText(std::initializer_list<const json::Value*> told) {
  for (const json::Value* one : told)
    if (!one->string().empty()) return one->string();
  return {};
}

std::int64_t firstCount(std::initializer_list<const json::Value*> told) {
  for (const json::Value* one : told)
    if (one->integer() > 0) return one->integer();
  return 1;
}

}  // namespace

Happened Happened::of(const json::Value& event) {
  const json::Value& series = event["series"];
  const json::Value& made = event["metadata"]["creationTimestamp"];
  const json::Value& about =
      event["involvedObject"].isNull() ? event["regarding"] : event["involvedObject"];
  return {.last = firstTime({&series["lastObservedTime"], &event["lastTimestamp"],
                             &event["deprecatedLastTimestamp"], &event["eventTime"],
                             &event["firstTimestamp"], &made}),
          .first = firstTime({&event["firstTimestamp"], &event["deprecatedFirstTimestamp"],
                              &event["eventTime"], &made}),
          .count = firstCount({&series["count"], &event["count"], &event["deprecatedCount"]}),
          .ns = std::string(kube::ns(event)),
          .type = event["type"].string(),
          .reason = event["reason"].string(),
          .message = firstText({&event["message"], &event["note"]}),
          .kind = about["kind"].string(),
          .name = about["name"].string(),
          .uid = about["uid"].string()};
}

bool About::matches(const Happened& event) const {
  return name.empty() || (event.name == name && event.kind == kind);
}

std::vector<kube::Resource> eventKinds(const kube::Discovery& discovery) {
  std::vector<kube::Resource> kinds;
  for (const char* group : {"", "events.k8s.io"})
    if (auto* served = discovery.find({.group = group, .version = "v1", .kind = "Event"}))
      kinds.push_back(served->resource);
  return kinds;
}

Result<std::vector<Happened>> eventsOf(Cluster& cluster, const kube::Discovery& discovery,
                                       const std::string& ns, const About& about) {
  std::map<std::string, Happened> by_uid;
  for (const kube::Resource& resource : eventKinds(discovery)) {
    CADRE_LET(auto items, cluster.await<std::vector<json::Value>>([&](auto done) {
      return cluster.client->list(resource, {.select = {.ns = ns}}, std::move(done));
    }));
    for (const json::Value& item : items)
      if (Happened event = Happened::of(item); about.matches(event))
        by_uid.emplace(kube::uid(item), std::move(event));
  }
  std::vector<Happened> events;
  events.reserve(by_uid.size());
  for (auto& [uid, event] : by_uid) events.push_back(std::move(event));
  std::ranges::sort(events, {}, &Happened::last);
  return events;
}

std::string seenText(const Happened& event, Time now) {
  if (event.last == Time()) return "<unknown>";
  std::string last = hub::ageText(now - event.last);
  if (event.count < 2) return last;
  return format("{} (x{} over {})", last, event.count, hub::ageText(now - event.first));
}

namespace {

struct EventsFlags {
  ClusterFlags cluster;
  std::string about;
  bool watch = false;
};

std::vector<std::string> rowOf(const Happened& event, Time now, bool with_namespace) {
  std::vector<std::string> row{seenText(event, now), event.type, event.reason,
                               format("{}/{}", lower(event.kind), event.name), event.message};
  if (with_namespace) row.insert(row.begin(), event.ns);
  return row;
}

std::vector<std::string> titles(bool with_namespace) {
  std::vector<std::string> row{"LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"};
  if (with_namespace) row.insert(row.begin(), "NAMESPACE");
  return row;
}

// What is there, then what comes, line by line: each event once for each time that it happens.
class Follower {
 public:
  Follower(Cluster& cluster, const kube::Discovery& discovery, About about, bool with_namespace,
           const Surroundings& surroundings)
      : cluster_(cluster),
        about_(std::move(about)),
        with_namespace_(with_namespace),
        surroundings_(surroundings) {
    auto kinds = eventKinds(discovery);
    unsynced_ = kinds.size();
    for (const kube::Resource& resource : kinds)
      watchers_.push_back(std::make_unique<kube::Watcher>(
          *cluster.client, kube::WatcherOptions{.resource = resource, .select = {.ns = cluster.ns}},
          random_, handler()));
  }

  // What no patience helps against.
  const std::optional<Error>& refused() const { return refused_; }

 private:
  kube::WatchHandler handler() {
    return {.begin = [] {},
            .item = [this](json::Value object) { see(object); },
            .synced =
                [this] {
                  if (unsynced_ > 0 && --unsynced_ == 0) sayFirst();
                },
            .changed =
                [this](kube::EventType type, json::Value object) {
                  if (type != kube::EventType::Deleted) return see(object);
                  told_.erase(std::string(kube::uid(object)));
                },
            .failed =
                [this](const Error& error) {
                  if (error.code == Code::Forbidden || error.code == Code::Unauthenticated)
                    refused_ = error;
                }};
  }

  void see(const json::Value& object) {
    Happened event = Happened::of(object);
    if (!about_.matches(event)) return;
    std::string time = format("{} {}", formatTimeMicros(event.last), event.count);
    if (std::exchange(told_[std::string(kube::uid(object))], time) == time) return;
    if (unsynced_ > 0)
      first_.push_back(std::move(event));
    else
      say(event);
  }

  void sayFirst() {
    std::ranges::sort(first_, {}, &Happened::last);
    for (const Happened& event : first_) say(event);
    first_.clear();
  }

  void say(const Happened& event) {
    std::string line;
    for (const std::string& cell : rowOf(event, cluster_.loop.clock().now(), with_namespace_))
      line += line.empty() ? cell : "   " + cell;
    surroundings_.out(withoutControls(line) + "\n");
  }

  Cluster& cluster_;
  const About about_;
  const bool with_namespace_;
  const Surroundings& surroundings_;
  Random random_ = Random::fromSystem();
  std::size_t unsynced_ = 0;  // of the kinds of events
  std::vector<Happened> first_;
  std::map<std::string, std::string> told_;  // by uid: when it happened the last time that is told
  std::optional<Error> refused_;
  std::vector<std::unique_ptr<kube::Watcher>> watchers_;
};

Result<int> runEvents(const EventsFlags& flags, const Surroundings& surroundings) {
  CADRE_LET(auto cluster, Cluster::connect(flags.cluster, surroundings));
  CADRE_LET(auto discovery, cluster->discover());
  About about;
  if (!flags.about.empty()) {
    CADRE_LET(auto named, namedBy({flags.about}, discovery));
    if (named.size() != 1 || named[0].names.size() != 1)
      return Error{.code = Code::InvalidArgument,
                   .message = "--for names one object, as in --for deploy/web"};
    about = {named[0].resource.kind, named[0].names[0]};
  }
  bool with_namespace = flags.cluster.all_namespaces;
  if (flags.watch) {
    Follower follower(*cluster, discovery, about, with_namespace, surroundings);
    cluster->loop.runUntil([&] { return follower.refused().has_value(); }, kForEver);
    if (follower.refused()) return *follower.refused();
    return 0;
  }
  CADRE_LET(auto events, eventsOf(*cluster, discovery, cluster->ns, about));
  if (events.empty()) {
    surroundings.err(
        format("no events found{}\n", cluster->ns.empty() ? "" : " in namespace " + cluster->ns));
    return 0;
  }
  Rows rows{titles(with_namespace)};
  for (const Happened& event : events)
    rows.push_back(rowOf(event, cluster->loop.clock().now(), with_namespace));
  surroundings.out(tableOf(rows));
  return 0;
}

}  // namespace

void addEvents(CLI::App& app, const Surroundings& surroundings, int& exit_code) {
  auto flags = std::make_shared<EventsFlags>();
  auto* command = app.add_subcommand("events", "Show what happened, the latest last");
  flags->cluster.addTo(*command, Namespaces::Any);
  command->add_option("--for", flags->about, "Only what happened to this one, as deploy/web");
  command->add_flag("-w,--watch", flags->watch, "Then go on with what comes");
  command->callback([flags, &surroundings, &exit_code] {
    auto ran = runEvents(*flags, surroundings);
    exit_code = ran ? *ran : failWith(surroundings, ran.error());
  });
}

}  // namespace cadre::cli
