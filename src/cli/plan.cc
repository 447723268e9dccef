#include <CLI/CLI.hpp>
#include <set>

#include "base/format.h"
#include "base/strings.h"
#include "cli/cluster.h"
#include "cli/commands.h"
#include "cli/files.h"
#include "cli/hash_key.h"
#include "cli/secrets.h"
#include "cli/systems.h"
#include "engine/draft.h"
#include "engine/engine.h"
#include "json/diff.h"
#include "json/parse.h"
#include "json/patch.h"
#include "kinds/kaos/plans.h"
#include "kinds/kaos/registry.h"
#include "kube/managed_fields.h"
#include "kube/strategic_merge.h"
#include "kube/validate.h"

namespace cadre::cli {
namespace {

constexpr Duration kPatience = 30s;

engine::Ref refOf(const kube::Kind& kind, const json::Value& object, const std::string& ns) {
  kube::ObjectKey key = kube::ObjectKey::of(object);
  if (key.ns.empty()) key.ns = ns;
  return {kind.resource(), key};
}

// The objects of the files, on paper; those that an engine knows, in the order of the files.
std::vector<engine::Ref> lay(const Systems& systems, const std::vector<FromFile>& files,
                             const std::string& ns, engine::Engine* engine, engine::Draft& draft) {
  engine::EngineOptions options;
  systems.serve(options);
  std::vector<engine::Ref> refs;
  for (const FromFile& one : files) {
    json::Value object = one.document.value;
    if (const kube::Kind* kind = findKind(systems, object)) {
      object = kube::withDefaults(*kind, std::move(object));
      engine::Ref ref = refOf(*kind, object, ns);
      json::Value& metadata = object.make("metadata");
      metadata.make("namespace") = ref.key.ns;
      metadata.make("uid") = "(not yet known)";
      if (auto there = engine ? engine->objectOf(ref) : std::nullopt) {
        metadata.make("uid") = (*there)["metadata"]["uid"];
        metadata.make("generation") =
            kube::generation(*there) + ((*there)["spec"] == object["spec"] ? 0 : 1);
        object.make("status") = (*there)["status"];
      }
      draft.put(ref, std::move(object));
      refs.push_back(ref);
    } else if (auto gvk = kube::GroupVersionKind::of(object)) {
      for (const engine::Scope& scope : options.scopes) {
        if (scope.resource.gvk() != *gvk) continue;
        if (scope.resource.namespaced && kube::ns(object).empty())
          object.make("metadata").make("namespace") = ns;
        for (const auto& [key, text] : json::Object(object["stringData"].object()))
          object.make("data").make(key) = base64Encode(text.string());
        object.makeObject().erase("stringData");
        refs.push_back({scope.resource, kube::ObjectKey::of(object)});
        draft.put(refs.back(), engine ? engine->shown(scope.resource, object) : object);
      }
    }
  }
  return refs;
}

std::string indented(const std::string& text, std::string_view by) {
  std::string out;
  for (std::string_view line : split(text, '\n'))
    if (!line.empty()) out += format("{}{}\n", by, line);
  return out;
}

// Lists whose elements have names as objects: what has moved has not changed.
json::Value byName(const json::Value& value) {
  json::Object object;
  if (value.isObject()) {
    for (const auto& [name, member] : value.object()) object.set(name, byName(member));
    return object;
  }
  if (!value.isArray()) return value;
  json::Array list;
  for (const json::Value& element : value.array()) {
    list.push_back(byName(element));
    if (const std::string& name = element["name"].string(); !name.empty())
      object.set(name, list.back());
  }
  return !list.empty() && object.size() == list.size() ? json::Value(object) : json::Value(list);
}

// A child that is new, as a person reads it.
std::string shown(const json::Value& object) {
  json::Value plain = withoutSecrets(object);
  plain.makeObject().erase("status");
  bool secret = object["kind"].string() == "Secret";
  for (std::string_view field : {"data", "stringData"})
    if (secret && !plain[field].isNull()) plain.make(field) = "(not shown)";
  return json::writeYaml(plain);
}

std::string conditionsOf(const engine::Plan& plan) {
  std::string text;
  for (const kube::Condition& condition : plan.conditions)
    if (condition.status != kube::ConditionStatus::True)
      text += format("  {} is {}: {}{}{}\n", condition.type,
                     kube::conditionStatusName(condition.status), condition.reason,
                     condition.message.empty() ? "" : ": ", condition.message);
  return text;
}

int planOffline(const Systems& systems, const std::vector<FromFile>& files, const std::string& ns,
                const Surroundings& surroundings) {
  engine::EngineOptions options;
  systems.serve(options);
  engine::Draft draft;
  auto refs = lay(systems, files, ns, nullptr, draft);
  auto planned = draft.settle(options.kinds, refs, SystemClock().now(), nullptr);
  for (const auto& [ref, plan, writes] : *planned) {
    surroundings.out(withoutControls(ref.text()) + "\n");
    surroundings.out(conditionsOf(plan));
    for (const engine::Write& write : writes) {
      surroundings.out(format("+ {}\n", write.ref.text()));
      surroundings.out(indented(shown(write.object), "    "));
    }
  }
  return planned->empty() ? 0 : 1;
}

// Where the server does not say, the watch itself will.
bool mayWatch(Cluster& cluster, const kube::Resource& resource, const kube::ObjectKey& which) {
  const kube::Resource reviews{"authorization.k8s.io", "v1", "selfsubjectaccessreviews",
                               "SelfSubjectAccessReview", false};
  json::Value review = json::Object{
      {"spec", json::Object{{"resourceAttributes", json::Object{{"verb", "watch"},
                                                                {"group", resource.group},
                                                                {"resource", resource.plural},
                                                                {"namespace", which.ns},
                                                                {"name", which.name}}}}}};
  auto said = cluster.await<json::Value>(
      [&](auto done) { return cluster.client->create(reviews, review, {}, std::move(done)); });
  return !said || (*said)["status"]["allowed"].boolean();
}

// What the user may not see, and most need not, is named and taken not to be there: routes where
// nobody wants any, and the registered runtimes. Without the rest the answer would be wrong.
Result<> leaveOutHidden(Systems& systems, Cluster& cluster, const Surroundings& surroundings,
                        engine::EngineOptions& options) {
  std::vector<std::string> hidden, needed, namespaces = options.namespaces;
  if (namespaces.empty()) namespaces = {""};
  auto sees = [&](const kube::Resource& resource, std::vector<std::string>& without) {
    std::size_t before = without.size();
    for (const std::string& ns : namespaces)
      if (!mayWatch(cluster, resource, {ns, ""}))
        without.push_back(
            format("{} in {}", resource.plural, ns.empty() ? "all namespaces" : "namespace " + ns));
    return without.size() == before;
  };
  for (const engine::Served& kind : options.kinds) sees(kind.resource, needed);
  std::erase_if(options.scopes, [&](const engine::Scope& scope) {
    bool spared = scope.resource == kaos::kHttpRoutes && !systems.kaos.gateway;
    return !sees(scope.resource, spared ? hidden : needed);
  });
  if (!needed.empty())
    return Error{.code = Code::Forbidden,
                 .message = format("you may not watch {}: ask for the right to get, list and watch "
                                   "them",
                                   join(needed, ", "))};
  kube::ObjectKey registry{systems.kaos.system_namespace, std::string(kaos::kRegistryName)};
  systems.kaos.reads_registry = mayWatch(cluster, kaos::kConfigMaps, registry);
  if (!systems.kaos.reads_registry)
    hidden.push_back(
        format("{}/{} in namespace {}", kaos::kConfigMaps.plural, registry.name, registry.ns));
  if (!hidden.empty())
    surroundings.err(format("cadre: you may not watch {}: this is told as if nothing were there\n",
                            join(hidden, ", ")));
  return {};
}

// An engine that only looks.
struct Onlooker {
  std::unique_ptr<Cluster> cluster;
  Random random = Random::fromSystem();
  std::unique_ptr<engine::Engine> engine;

  // Looks at the command's namespace and these; of the operator's only at what plans name.
  static Result<std::unique_ptr<Onlooker>> start(Systems& systems, const ClusterFlags& flags,
                                                 const Surroundings& surroundings,
                                                 std::set<std::string> namespaces = {}) {
    auto made = std::make_unique<Onlooker>();
    auto cluster = Cluster::connect(flags, surroundings);
    if (!cluster) return cluster.error();
    made->cluster = *std::move(cluster);
    engine::EngineOptions options;
    systems.serve(options);
    if (!made->cluster->ns.empty()) {
      namespaces.insert(made->cluster->ns);
      options.namespaces = {namespaces.begin(), namespaces.end()};
    }
    CADRE_TRY(leaveOutHidden(systems, *made->cluster, surroundings, options));
    if (auto key = readHashKey(*made->cluster, systems.kaos.system_namespace))
      options.hash_secret = hashWith(*key);
    else
      surroundings.err(format("cadre: {}; pods that read Secrets may be shown as changed\n",
                              withoutControls(key.error().text())));
    made->engine =
        std::make_unique<engine::Engine>(*made->cluster->client, made->random, std::move(options));
    // All plans have been run: then it is known who looks at what.
    auto known = [&] { return made->engine->synced() && made->engine->idle(); };
    if (!made->cluster->loop.runUntil(known, kPatience)) {
      std::string why = "the cluster did not answer in time";
      for (const auto& [kind, trouble] : made->engine->troubles())
        why = format("watching {}: {}", kind, trouble);
      return Error{.code = Code::Unavailable, .message = why};
    }
    return made;
  }

  // What the plan says now, once all that it looks at is there.
  engine::Engine::Preview preview(const engine::Ref& ref, const json::Value& object) {
    engine::Engine::Preview seen = engine->preview(ref, object);
    cluster->loop.runUntil(
        [&] {
          if (!seen.complete) seen = engine->preview(ref, object);
          return seen.complete;
        },
        kPatience);
    return seen;
  }
};

// As a person reads it. What is applied is merged into what is there, and what we applied before
// and no longer want goes.
std::string changesOf(Cluster& cluster, const engine::Write& write) {
  if (write.op == engine::Write::Op::Create) return shown(write.object);
  if (write.op != engine::Write::Op::Apply) return write.why;
  auto there = cluster.await<json::Value>([&](auto done) {
    return cluster.client->get(write.ref.resource, write.ref.key, std::move(done));
  });
  if (!there || write.ref.resource->kind == "Secret") return write.why;
  json::Value wanted = write.object;
  wanted.make("metadata").make("annotations").makeObject().erase(engine::kApplied);
  json::Value before = *there;
  before.make("metadata").makeObject().erase("managedFields");
  json::Value left = kube::withoutDropped(*std::move(there), engine::kManager, write.object);
  left.make("metadata").makeObject().erase("managedFields");
  auto merged = kube::strategicMerge(kube::Type::of(write.ref.resource->gvk()), left, wanted);
  if (!merged) return write.why;
  auto changes = json::diff(byName(before), byName(*merged));
  for (json::Change& change : changes)
    for (std::optional<json::Value>* side : {&change.from, &change.to})
      if (*side) **side = withoutSecrets(**side, change.path);
  return changes.empty() ? write.why : json::formatDiff(changes);
}

// What `kubectl apply` makes of a file: what it set before and the file leaves out goes, what
// others set stays.
json::Value asApplied(Cluster& cluster, const engine::Ref& ref, const json::Value& file) {
  auto there = cluster.await<json::Value>(
      [&](auto done) { return cluster.client->get(ref.resource, ref.key, std::move(done)); });
  if (!there) return file;
  json::Value left = kube::withoutDropped(*there, "kubectl", file);
  auto last =
      json::parse(kube::annotation(*there, "kubectl.kubernetes.io/last-applied-configuration"));
  if (last) left = json::applyMergePatch(std::move(left), json::makeMergePatch(*last, file));
  json::Value object = json::applyMergePatch(std::move(left), file);
  object.make("metadata").makeObject().erase("managedFields");
  return object;
}

int planOnline(Systems& systems, const std::vector<FromFile>& files, const ClusterFlags& flags,
               const Surroundings& surroundings) {
  std::set<std::string> namespaces;
  for (const FromFile& one : files)
    if (std::string_view ns = kube::ns(one.document.value); !ns.empty()) namespaces.emplace(ns);
  auto onlooker = Onlooker::start(systems, flags, surroundings, std::move(namespaces));
  if (!onlooker) {
    fail(surroundings, onlooker.error().text());
    return 2;
  }
  Cluster& cluster = *(*onlooker)->cluster;
  engine::Engine& engine = *(*onlooker)->engine;
  engine::EngineOptions options;
  systems.serve(options);
  std::vector<FromFile> applied = files;
  for (FromFile& one : applied)
    if (const kube::Kind* kind = findKind(systems, one.document.value))
      one.document.value =
          asApplied(cluster, refOf(*kind, one.document.value, cluster.ns), one.document.value);
  std::optional<std::vector<engine::Draft::Planned>> planned;
  std::set<engine::Ref> in_files;
  // What a plan looks at for the first time is known a moment later; and who has the names that it
  // wants.
  bool settled = cluster.loop.runUntil(
      [&] {
        engine::Draft draft(engine.source(), engine.observed());
        auto refs = lay(systems, applied, cluster.ns, &engine, draft);
        in_files = {refs.begin(), refs.end()};
        planned = draft.settle(options.kinds, refs, SystemClock().now(),
                               [&](const engine::Ref& ref) { return engine.readersOf(ref); });
        if (!planned) return false;
        bool known = true;
        for (const auto& one : *planned)
          for (const engine::Write& write : one.writes)
            known &= write.op != engine::Write::Op::Create ||
                     engine.lookFor(write.ref) != engine::Source::State::NotYet;
        return known;
      },
      kPatience);
  if (!settled) {
    fail(surroundings, "the cluster did not tell in time what the plans look at");
    return 2;
  }
  bool differs = false;
  for (const auto& [ref, plan, writes] : *planned) {
    if (writes.empty() && !in_files.contains(ref)) continue;
    surroundings.out(withoutControls(ref.text()) + "\n");
    surroundings.out(conditionsOf(plan));
    for (const engine::Write& write : writes) {
      char sign = write.op == engine::Write::Op::Create     ? '+'
                  : write.op == engine::Write::Op::Delete   ? '-'
                  : write.op == engine::Write::Op::Conflict ? '!'
                                                            : '~';
      surroundings.out(format("{} {}\n", sign, write.ref.text()));
      surroundings.out(indented(changesOf(cluster, write), "    "));
      differs = true;
    }
    if (writes.empty()) surroundings.out("  nothing changes\n");
  }
  return differs ? 1 : 0;
}

// ---- why

class Why {
 public:
  Why(const Systems& systems, Onlooker& onlooker, const Surroundings& surroundings)
      : systems_(systems), onlooker_(onlooker), surroundings_(surroundings) {}

  // True when it is ready.
  bool tell(const engine::Ref& ref, int depth = 0) {
    std::string indent(static_cast<std::size_t>(depth) * 2, ' ');
    auto say = [&](const std::string& text) {
      surroundings_.out(indent + withoutControls(text) + "\n");
    };
    auto object = onlooker_.engine->objectOf(ref);
    bool again = object && !told_.insert(ref).second;
    if (!object) say(format("{} does not exist: create it", ref.text()));
    if (again) say(format("{}: see above", ref.text()));
    if (!object || again) return false;
    auto preview = onlooker_.preview(ref, *object);
    const kube::Condition* ready = preview.plan.find("Ready");
    // The operator knows more: what became of the children that it wanted to make.
    auto told = kube::findCondition(*object, "Ready");
    if (told && told->status == kube::ConditionStatus::False &&
        told->observed_generation == kube::generation(*object))
      ready = &*told;
    if (ready && ready->status == kube::ConditionStatus::True) {
      say(format("{} is ready", ref.text()));
      return true;
    }
    say(format("{} is not ready: {}: {}", ref.text(), ready ? ready->reason : "NotYet",
               ready ? ready->message : "it has not been looked at"));
    std::set<engine::Ref> seen;
    for (const engine::Read& read : preview.reads) {
      if (read.what != engine::Read::What::Object || !seen.insert(read.ref).second) continue;
      bool own = false;
      for (const kube::Kind* kind : systems_.kinds()) own |= kind->resource() == read.ref.resource;
      if (own && read.ref != ref) {
        auto other = onlooker_.engine->objectOf(read.ref);
        if (!other || !kube::isConditionTrue(*other, "Ready")) tell(read.ref, depth + 1);
      } else if (std::string named =
                     format("{} \"{}\"", read.ref.resource->kind, read.ref.key.name);
                 read.seen == 0 && ready && ready->message.find(named) != std::string::npos) {
        say(format("  {} does not exist: create it", read.ref.text()));
      }
    }
    return false;
  }

 private:
  const Systems& systems_;
  Onlooker& onlooker_;
  const Surroundings& surroundings_;
  std::set<engine::Ref> told_;
};

int why(Systems& systems, const ClusterFlags& flags, const std::string& what,
        const Surroundings& surroundings) {
  auto [called, name] = cut(what, "/");
  auto kind = findKind(systems, std::string(called));
  if (!kind || name.empty()) {
    fail(surroundings, kind ? "say which: `cadre why agent/NAME`" : kind.error().text());
    return 2;
  }
  auto onlooker = Onlooker::start(systems, flags, surroundings);
  if (!onlooker) return fail(surroundings, onlooker.error().text());
  bool ready = Why(systems, **onlooker, surroundings)
                   .tell({(*kind)->resource(), {(*onlooker)->cluster->ns, std::string(name)}});
  return ready ? 0 : 1;
}

}  // namespace

void addPlan(CLI::App& app, const Surroundings& surroundings, int& exit_code) {
  struct Flags {
    ClusterFlags cluster;
    Systems systems;
    std::vector<std::string> paths;
    bool offline = false;
  };
  auto flags = std::make_shared<Flags>();
  auto* command = app.add_subcommand(
      "plan", "Show what the operator would make of manifests; exit 0 nothing, 1 something");
  flags->cluster.addTo(*command, Namespaces::Any);
  flags->systems.addTo(*command);
  command->add_option("-f,--filename", flags->paths, "File, folder, or - for the standard input")
      ->required();
  command->add_flag("--offline", flags->offline, "By the files alone, without a cluster");
  command->callback([flags, &surroundings, &exit_code] {
    auto files = readObjects(flags->paths);
    if (!files) {
      fail(surroundings, files.error().text());
      exit_code = 2;
    } else if (flags->offline) {
      std::string ns = flags->cluster.ns.empty() ? "default" : flags->cluster.ns;
      exit_code = planOffline(flags->systems, *files, ns, surroundings);
    } else {
      exit_code = planOnline(flags->systems, *files, flags->cluster, surroundings);
    }
  });
}

void addWhy(CLI::App& app, const Surroundings& surroundings, int& exit_code) {
  struct Flags {
    ClusterFlags cluster;
    Systems systems;
    std::string what;
  };
  auto flags = std::make_shared<Flags>();
  auto* command = app.add_subcommand(
      "why", "Tell why an object is not ready, and what to do; exit 0 when it is");
  flags->cluster.addTo(*command, Namespaces::Any);
  flags->systems.addTo(*command);
  command->add_option("KIND/NAME", flags->what, "As agent/helper")->required();
  command->callback([flags, &surroundings, &exit_code] {
    exit_code = why(flags->systems, flags->cluster, flags->what, surroundings);
  });
}

}  // namespace cadre::cli
