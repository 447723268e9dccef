#include "cli/objects.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/format.h"
#include "base/strings.h"
#include "cli/commands.h"
#include "kube/watch.h"

namespace cadre::cli {
namespace {

Error wrong(std::string message) {
  return Error{.code = Code::InvalidArgument, .message = std::move(message)};
}

Result<> add(std::vector<Named>& all, const kube::Discovery& discovery, std::string_view kind,
             const std::vector<std::string>& names) {
  if (kind.empty()) return wrong("a kind is empty");
  for (const std::string& name : names)
    if (name.empty()) return wrong("a name is empty");
  const kube::ServedResource* served = discovery.named(kind);
  if (!served)
    return Error{.code = Code::NotFound,
                 .message = format(
                     "the cluster serves no \"{}\"; check the spelling, or install the CRD first",
                     shorten(kind, 100))};
  for (Named& named : all)
    if (named.resource.gvk() == served->resource.gvk()) {
      named.names.insert(named.names.end(), names.begin(), names.end());
      return {};
    }
  all.push_back({.resource = served->resource, .names = names});
  return {};
}

}  // namespace

Result<std::vector<Named>> namedBy(const std::vector<std::string>& words,
                                   const kube::Discovery& discovery) {
  std::vector<Named> all;
  if (words.empty()) return all;
  auto slashes = std::count_if(words.begin(), words.end(), [](const std::string& word) {
    return word.find('/') != std::string::npos;
  });
  if (slashes == 0) {
    std::vector<std::string> names(words.begin() + 1, words.end());
    for (std::string_view kind : split(words[0], ',')) CADRE_TRY(add(all, discovery, kind, names));
    return all;
  }
  if (static_cast<std::size_t>(slashes) != words.size())
    return wrong("kind/name stands alone or beside others like it, as in pods/web services/db");
  for (const std::string& word : words) {
    auto [kind, name] = cut(word, "/");
    CADRE_TRY(add(all, discovery, kind, {std::string(name)}));
  }
  return all;
}

std::string titleOf(const kube::Resource& resource, std::string_view name) {
  return format("{}{}{}/{}", lower(resource.kind), resource.group.empty() ? "" : ".",
                resource.group, name);
}

void ObjectFlags::addTo(CLI::App& command, Words words_are) {
  command.add_option("KIND/NAME", words, "As pods web, deploy/web, pods,services, ...")
      ->required(words_are == Words::Needed);
  auto* selector = command.add_option("-l,--selector", labels,
                                      "Only those with these labels: app=web,tier!=test");
  command.add_flag("--all", all, "All of that kind")->excludes(selector);
}

Result<> ObjectFlags::sayWhich(const std::vector<Named>& named) const {
  for (const Named& one : named)
    if (one.names.empty() && labels.empty() && !all)
      return wrong(
          format("say which {}: give names, a selector with -l, or --all", one.resource.plural));
  return {};
}

Result<std::vector<Found>> findObjects(Cluster& cluster, const std::vector<Named>& named,
                                       const ObjectFlags& flags) {
  std::vector<Found> found;
  for (const Named& one : named) {
    if (!one.names.empty() && cluster.ns.empty() && one.resource.namespaced)
      return wrong("a name needs one namespace: leave -A out");
    if (!one.names.empty() && (!flags.labels.empty() || flags.all))
      return wrong("names exclude a selector and --all: leave one of them out");
    std::string ns = one.resource.namespaced ? cluster.ns : "";
    for (const std::string& name : one.names) {
      auto object = cluster.await<json::Value>([&](auto done) {
        return cluster.client->get(one.resource, {ns, name}, std::move(done));
      });
      if (!object && object.error().reason != "NotFound") return object.error();
      found.push_back({one.resource, {ns, name}, object ? *std::move(object) : json::Value()});
    }
    if (!one.names.empty()) continue;
    CADRE_LET(auto items, cluster.await<std::vector<json::Value>>([&](auto done) {
      return cluster.client->list(one.resource,
                                  {.select = {.ns = ns, .labels = flags.labels}, .json_only = true},
                                  std::move(done));
    }));
    for (json::Value& item : items) {
      kube::ObjectKey key = kube::ObjectKey::of(item);
      found.push_back({one.resource, std::move(key), std::move(item)});
    }
  }
  return found;
}

Error notThere(const Found& found) {
  return Error{.code = Code::NotFound,
               .message = format("{} is not there{}; `cadre get {}` shows what is", found.title(),
                                 found.key.ns.empty() ? "" : " in namespace " + found.key.ns,
                                 found.resource.plural.empty() ? lower(found.resource.kind)
                                                               : found.resource.plural),
               .reason = "NotFound"};
}

std::string nothingFound(const std::vector<Named>& named, const std::string& ns) {
  std::vector<std::string> kinds;
  bool namespaced = false;
  for (const Named& one : named) {
    kinds.push_back(one.resource.plural);
    namespaced = namespaced || one.resource.namespaced;
  }
  return format("no {} found{}\n", join(kinds, ", "),
                namespaced && !ns.empty() ? " in namespace " + ns : "");
}

// ---- Waiting for one object

namespace {

// Enough for one look, also when the time of several is over.
constexpr Duration kShortest = 100ms;

// One object as it changes.
class Sight {
 public:
  Sight(Cluster& cluster, const Waiting& waiting)
      : watcher_(*cluster.client,
                 {.resource = waiting.resource,
                  .select = {.ns = waiting.key.ns, .fields = "metadata.name=" + waiting.key.name},
                  .json_only = true},
                 random_, handler()) {}

  // Whether there is something new to look at since it was asked last.
  bool changed() { return known_ && std::exchange(changed_, false); }
  const json::Value& object() const { return object_; }
  bool known() const { return known_; }
  // What no patience helps against.
  const std::optional<Error>& refused() const { return refused_; }
  const std::string& trouble() const { return trouble_; }

 private:
  kube::WatchHandler handler() {
    return {.begin = [this] { drawn_ = {}; },
            .item = [this](json::Value object) { drawn_ = std::move(object); },
            .synced =
                [this] {
                  see(std::move(drawn_));
                  known_ = true;
                  trouble_.clear();
                },
            .changed =
                [this](kube::EventType type, json::Value object) {
                  bool gone = type == kube::EventType::Deleted;
                  see(gone ? json::Value() : std::move(object));
                  if (gone) drawn_ = {};
                },
            .failed =
                [this](const Error& error) {
                  trouble_ = error.text();
                  // The kind itself is gone, and all of it.
                  if (error.code == Code::NotFound) {
                    see({});
                    known_ = true;
                  }
                  if (error.code == Code::Forbidden || error.code == Code::Unauthenticated)
                    refused_ = error;
                }};
  }
  void see(json::Value object) {
    object_ = std::move(object);
    changed_ = true;
  }

  Random random_ = Random::fromSystem();
  json::Value object_, drawn_;
  bool known_ = false, changed_ = false;
  std::optional<Error> refused_;
  std::string trouble_;
  kube::Watcher watcher_;
};

}  // namespace

Result<bool> waitUntil(Cluster& cluster, const Waiting& waiting, const Surroundings& surroundings) {
  Sight sight(cluster, waiting);
  bool holds = false;
  auto settled = [&] {
    if (sight.changed()) holds = waiting.holds(sight.object());
    return holds || sight.refused();
  };
  const Clock& clock = cluster.loop.clock();
  Instant end = clock.instant() + std::max<Duration>(waiting.timeout, kShortest);
  Duration slice = surroundings.patience;
  std::string told;
  for (;;) {
    Duration left = end - clock.instant();
    if (cluster.loop.runUntil(settled, std::min(left, slice))) break;
    if (left <= slice) break;
    slice = std::min<Duration>(surroundings.patience, 500ms);
    std::string missing = sight.known() ? waiting.missing(sight.object()) : sight.trouble();
    if (!missing.empty() && missing != told)
      surroundings.err(
          withoutControls(format("{}: {}", titleOf(waiting.resource, waiting.key.name), missing)) +
          "\n");
    told = missing;
  }
  if (sight.refused()) return *sight.refused();
  return holds;
}

}  // namespace cadre::cli
