#include <CLI/CLI.hpp>
#include <algorithm>
#include <set>

#include "base/format.h"
#include "base/strings.h"
#include "cli/commands.h"
#include "cli/events.h"
#include "cli/objects.h"
#include "cli/secrets.h"
#include "cli/table.h"
#include "hub/builtin.h"
#include "json/write.h"
#include "kube/conditions.h"
#include "kube/health.h"

namespace cadre::cli {
namespace {

constexpr std::size_t kMaxChildren = 100;
constexpr std::string_view kMetadataOnly =
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json";
// Says the same as the spec once more, secrets and all.
constexpr std::string_view kLastApplied = "kubectl.kubernetes.io/last-applied-configuration";

using Lines = std::vector<std::string>;

// ---- Values as text that looks like YAML, with what belongs together in one column

std::string scalarText(const json::Value& value) {
  if (!value.isString()) return json::write(value);
  return value.string().empty() ? "\"\"" : withoutControls(value.string());
}

bool isScalar(const json::Value& value) {
  if (value.isString()) return value.string().find('\n') == std::string::npos;
  return value.isArray() ? value.array().empty() : !value.isObject() || value.object().empty();
}

Lines linesOf(const json::Value& value);

void appendIndented(Lines& lines, const Lines& more, std::string_view first,
                    std::string_view others) {
  for (std::size_t i = 0; i < more.size(); ++i)
    lines.push_back(std::string(i == 0 ? first : others) + more[i]);
}

Lines linesOfObject(const json::Object& object) {
  std::size_t width = 0;
  for (const auto& [key, value] : object)
    if (isScalar(value)) width = std::max(width, key.size());
  Lines lines;
  for (const auto& [key, value] : object) {
    std::string name = withoutControls(key);
    if (isScalar(value)) {
      lines.push_back(
          format("{}:{} {}", name, std::string(width - key.size(), ' '), scalarText(value)));
      continue;
    }
    lines.push_back(format("{}:{}", name, value.isString() ? " |" : ""));
    appendIndented(lines, linesOf(value), "  ", "  ");
  }
  return lines;
}

Lines linesOf(const json::Value& value) {
  if (isScalar(value)) return {scalarText(value)};
  if (value.isObject()) return linesOfObject(value.object());
  Lines lines;
  if (value.isString())
    for (std::string_view line : split(value.string(), '\n'))
      lines.push_back(withoutControls(std::string(line)));
  if (value.isString() && lines.back().empty()) lines.pop_back();
  for (const json::Value& element : value.array())
    appendIndented(lines, linesOf(element), "- ", "  ");
  return lines;
}

// ---- The parts of a description

// A title and what stands below it, or nothing.
void appendSection(std::string& out, std::string_view title, const Lines& lines) {
  if (lines.empty()) return;
  out += format("\n{}:\n", title);
  for (const std::string& line : lines) out += "  " + line + "\n";
}

void appendTable(std::string& out, std::string_view title, const Rows& rows) {
  if (rows.size() < 2) return;
  std::string table = tableOf(rows);
  table.pop_back();
  Lines lines;
  for (std::string_view line : split(table, '\n')) lines.emplace_back(line);
  appendSection(out, title, lines);
}

std::string ageOf(std::string_view timestamp, Time now) {
  auto time = parseTime(timestamp);
  return time ? hub::ageText(now - *time) : "<unknown>";
}

Lines pairsOf(const json::Object& object) {
  Lines lines;
  for (const auto& [key, value] : object)
    if (key != kLastApplied) lines.push_back(format("{}={}", key, shorten(scalarText(value), 200)));
  return lines;
}

std::string stateOf(const json::Value& object) {
  kube::Health health = kube::healthOf(object);
  if (health.ok()) return "ready";
  return (health.state == kube::Health::State::Failed ? "failed: " : "not ready: ") + health.why;
}

// What is told of every object: a name, and its lines beside it.
std::string headOf(const Found& one, Time now) {
  const json::Value& object = one.object;
  std::vector<std::pair<std::string, Lines>> facts{
      {"Name", {one.key.name}},
      {"Namespace", {one.key.ns}},
      {"Kind", {format("{} ({})", one.resource.kind, one.resource.apiVersion())}},
      {"Created",
       {format("{} ({} ago)", object["metadata"]["creationTimestamp"].string(),
               ageOf(object["metadata"]["creationTimestamp"].string(), now))}},
      {"Labels", pairsOf(kube::labels(object))},
      {"Annotations", pairsOf(kube::annotations(object))}};
  Lines owners, finalizers;
  for (const kube::OwnerReference& owner : kube::ownerReferences(object))
    owners.push_back(
        format("{}/{}{}", owner.kind, owner.name, owner.controller ? " (controller)" : ""));
  for (std::string_view finalizer : kube::finalizers(object)) finalizers.emplace_back(finalizer);
  facts.push_back({"Owner", owners});
  facts.push_back({"Finalizers", finalizers});
  if (kube::isDeleting(object))
    facts.push_back({"Deleted", {format("{}, and still there", kube::deletionTimestamp(object))}});
  if (!object["status"].object().empty()) facts.push_back({"State", {stateOf(object)}});
  std::string out;
  for (const auto& [name, lines] : facts) {
    for (std::size_t i = 0; i < lines.size(); ++i)
      if (!lines[i].empty())
        out += format("{:<14}{}\n", i == 0 ? name + ":" : "", withoutControls(lines[i]));
  }
  return out;
}

Rows conditionRows(const json::Value& object, Time now) {
  Rows rows{{"TYPE", "STATUS", "SINCE", "REASON", "MESSAGE"}};
  for (const json::Value& condition : object["status"]["conditions"].array())
    rows.push_back({condition["type"].string(), condition["status"].string(),
                    ageOf(condition["lastTransitionTime"].string(), now),
                    condition["reason"].string(), condition["message"].string()});
  return rows;
}

// How long each value is, in the place of what it is.
json::Value byteCounts(const json::Value& values, bool encoded) {
  json::Object counts;
  for (const auto& [key, value] : values.object()) {
    auto decoded = encoded ? base64Decode(value.string()) : std::nullopt;
    counts.set(key, format("{} bytes", decoded ? decoded->size() : value.string().size()));
  }
  return counts;
}

// The object as it may be shown: no secrets, and nothing that is told elsewhere.
json::Value shownOf(const Found& one) {
  json::Value shown = withoutSecrets(one.object);
  for (std::string_view field : {"apiVersion", "kind", "metadata"}) shown.makeObject().erase(field);
  if (!shown["status"].isNull()) shown.make("status").makeObject().erase("conditions");
  if (one.resource.kind == "Secret" && one.resource.group.empty())
    for (std::string_view field : {"data", "stringData"})
      if (!shown[field].isNull())
        shown.make(field) = byteCounts(one.object[field], field == "data");
  return shown;
}

// ---- Children

// What has this owner, among all that can be listed where it may live.
class Children {
 public:
  Children(Cluster& cluster, const kube::Discovery& discovery)
      : cluster_(cluster), discovery_(discovery) {}

  Rows rowsOf(const Found& owner, Time now) {
    std::vector<Found> children = childrenOf(owner);
    std::size_t more = children.size() - std::min(children.size(), kMaxChildren);
    children.resize(children.size() - more);
    look(children);
    Rows rows{{"OBJECT", "AGE", "STATE"}};
    for (const Found& child : children)
      rows.push_back({child.title(),
                      ageOf(child.object["metadata"]["creationTimestamp"].string(), now),
                      stateOf(child.object)});
    if (more > 0) rows.push_back({format("and {} more", more), "", ""});
    return rows;
  }

 private:
  // Each kind once, in the version that the server prefers.
  std::vector<kube::Resource> kindsBeside(const Found& owner) const {
    std::vector<kube::Resource> kinds;
    std::set<std::pair<std::string, std::string>> seen;
    for (const kube::ServedResource& served : discovery_.resources()) {
      const kube::Resource& resource = served.resource;
      bool listed = std::ranges::find(served.verbs, "list") != served.verbs.end();
      if (!listed || resource.kind == "Event" ||
          (!resource.namespaced && owner.resource.namespaced))
        continue;
      if (seen.insert({resource.group, resource.plural}).second) kinds.push_back(resource);
    }
    return kinds;
  }

  // All at once: there are dozens of kinds. What may not be listed is passed over.
  std::vector<Found> childrenOf(const Found& owner) {
    std::vector<kube::Resource> kinds = kindsBeside(owner);
    std::vector<Found> children;
    std::set<std::string> seen;  // some are served in two groups
    std::vector<Pending> pending;
    pending.reserve(kinds.size());
    std::size_t answered = 0;
    for (const kube::Resource& kind : kinds)
      pending.push_back(cluster_.client->request(
          "GET", kind.path(owner.key.ns), "", "",
          [&](Result<json::Value> list) {
            ++answered;
            if (!list) return;
            for (const json::Value& item : (*list)["items"].array())
              if (isOwned(item, kube::uid(owner.object)) &&
                  seen.insert(std::string(kube::uid(item))).second)
                children.push_back({kind, kube::ObjectKey::of(item)});
          },
          std::string(kMetadataOnly)));
    cluster_.loop.runUntil([&] { return answered == kinds.size(); }, 60s);
    std::ranges::sort(children, {}, &Found::title);
    return children;
  }

  static bool isOwned(const json::Value& item, std::string_view uid) {
    return std::ranges::any_of(kube::ownerReferences(item),
                               [&](const auto& owner) { return owner.uid == uid; });
  }

  // Fills in what they are now; what has gone meanwhile is left out.
  void look(std::vector<Found>& children) {
    std::vector<Pending> pending;
    pending.reserve(children.size());
    std::size_t answered = 0;
    for (Found& child : children)
      pending.push_back(
          cluster_.client->get(child.resource, child.key, [&](Result<json::Value> object) {
            ++answered;
            if (object) child.object = *std::move(object);
          }));
    cluster_.loop.runUntil([&] { return answered == children.size(); }, 60s);
    std::erase_if(children, [](const Found& child) { return child.object.isNull(); });
  }

  Cluster& cluster_;
  const kube::Discovery& discovery_;
};

// ----

struct DescribeFlags {
  ClusterFlags cluster;
  ObjectFlags objects;
};

Rows eventRows(const std::vector<Happened>& events, std::string_view uid, Time now) {
  Rows rows{{"LAST SEEN", "TYPE", "REASON", "MESSAGE"}};
  for (const Happened& event : events)
    if (event.uid.empty() || event.uid == uid)
      rows.push_back({seenText(event, now), event.type, event.reason, event.message});
  return rows;
}

Result<std::string> describe(Cluster& cluster, const kube::Discovery& discovery, const Found& one) {
  Time now = cluster.loop.clock().now();
  std::string out = headOf(one, now);
  json::Value shown = shownOf(one);
  for (const auto& [name, value] : shown.object()) {
    std::string title = name;
    if (title[0] >= 'a' && title[0] <= 'z') title[0] = static_cast<char>(title[0] - 'a' + 'A');
    if (isScalar(value))
      out += value.isObject() ? "" : format("\n{}: {}\n", title, scalarText(value));
    else
      appendSection(out, title, linesOf(value));
  }
  appendTable(out, "Conditions", conditionRows(one.object, now));
  appendTable(out, "Children", Children(cluster, discovery).rowsOf(one, now));
  // Events of what has no namespace are kept in this one.
  std::string ns = one.key.ns.empty() ? "default" : one.key.ns;
  CADRE_LET(auto events, eventsOf(cluster, discovery, ns, {one.resource.kind, one.key.name}));
  appendTable(out, "Events", eventRows(events, kube::uid(one.object), now));
  return out;
}

Result<int> runDescribe(const DescribeFlags& flags, const Surroundings& surroundings) {
  CADRE_LET(auto cluster, Cluster::connect(flags.cluster, surroundings));
  CADRE_LET(auto discovery, cluster->discover());
  CADRE_LET(auto named, namedBy(flags.objects.words, discovery));
  CADRE_LET(auto found, findObjects(*cluster, named, flags.objects));
  if (found.empty()) {
    surroundings.err(nothingFound(named, cluster->ns));
    return 1;
  }
  int code = 0;
  bool first = true;
  for (const Found& one : found) {
    if (one.object.isNull()) {
      code = std::max(code, failWith(surroundings, notThere(one)));
      continue;
    }
    CADRE_LET(std::string text, describe(*cluster, discovery, one));
    surroundings.out((std::exchange(first, false) ? "" : "\n---\n\n") + text);
  }
  return code;
}

}  // namespace

void addDescribe(CLI::App& app, const Surroundings& surroundings, int& exit_code) {
  auto flags = std::make_shared<DescribeFlags>();
  auto* command = app.add_subcommand(
      "describe", "Tell all about objects: what they say, what they own, what happened to them");
  flags->cluster.addTo(*command, Namespaces::Any);
  flags->objects.addTo(*command, ObjectFlags::Words::Needed);
  command->callback([flags, &surroundings, &exit_code] {
    auto ran = runDescribe(*flags, surroundings);
    exit_code = ran ? *ran : failWith(surroundings, ran.error());
  });
}

}  // namespace cadre::cli
