#include <CLI/CLI.hpp>
#include <set>

#include "base/format.h"
#include "base/strings.h"
#include "cli/cluster.h"
#include "cli/commands.h"
#include "cli/files.h"
#include "cli/systems.h"
#include "engine/engine.h"
#include "json/diff.h"
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

// Only what the files say exists.
class FileSource final : public engine::Source {
 public:
  std::map<engine::Ref, json::Value> objects;

  State state(const engine::Ref&) override { return State::Known; }
  State state(const kube::Resource&) override { return State::Known; }
  std::optional<json::Value> find(const engine::Ref& ref) override {
    auto found = objects.find(ref);
    if (found == objects.end()) return std::nullopt;
    return found->second;
  }
  std::vector<kube::ObjectKey> keys(const kube::Resource& resource, const engine::Index& index,
                                    const std::string& value) override {
    std::vector<kube::ObjectKey> found;
    for (const auto& [ref, object] : objects) {
      auto values = index.of(object);
      if (ref.resource == resource &&
          std::find(values.begin(), values.end(), value) != values.end())
        found.push_back(ref.key);
    }
    return found;
  }
  engine::Fact observe(const engine::Observation&) override { return {}; }
};

std::string indented(const std::string& text, std::string_view by) {
  std::string out;
  for (std::string_view line : split(text, '\n'))
    if (!line.empty()) out += format("{}{}\n", by, line);
  return out;
}

// A child that is new, as a person reads it.
std::string shown(const json::Value& object) {
  json::Value plain = object;
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

// What the server and its controllers would make of a child, if all goes well.
json::Value asIfRunning(json::Value child) {
  if (child["kind"].string() != "Deployment") return child;
  const json::Value given = child["spec"]["replicas"];
  std::int64_t replicas = given.isNull() ? 1 : given.integer();
  child.make("metadata").make("generation") = 1;
  json::Value& status = child.make("status");
  status.make("observedGeneration") = 1;
  for (std::string_view count :
       {"replicas", "readyReplicas", "availableReplicas", "updatedReplicas"})
    status.make(count) = replicas;
  return child;
}

int planOffline(const Systems& systems, const std::vector<FromFile>& files, const std::string& ns,
                const Surroundings& surroundings) {
  FileSource source;
  std::vector<std::pair<const kube::Kind*, engine::Ref>> ours;
  for (const FromFile& one : files) {
    json::Value object = one.document.value;
    if (object["metadata"]["namespace"].isNull()) object.make("metadata").make("namespace") = ns;
    const kube::Kind* kind = findKind(systems, object);
    if (kind) {
      object = kube::withDefaults(*kind, std::move(object));
      object.make("metadata").make("uid") = "(not yet known)";
      ours.emplace_back(kind, refOf(*kind, object, ns));
      source.objects[ours.back().second] = object;
    } else if (auto gvk = kube::GroupVersionKind::of(object)) {
      engine::EngineOptions options;
      systems.serve(options);
      for (const engine::Scope& scope : options.scopes)
        if (scope.resource.gvk() == *gvk)
          source.objects[{scope.resource, kube::ObjectKey::of(object)}] = object;
    }
  }
  engine::EngineOptions options;
  systems.serve(options);
  std::map<kube::Resource, const engine::Served*> served;
  for (const engine::Served& kind : options.kinds) served[kind.resource] = &kind;
  const Time now = SystemClock().now();
  std::map<engine::Ref, engine::Plan> plans;
  // Objects wait for each other: until nothing changes any more, or they go round in circles.
  constexpr int kMaxRounds = 100;
  bool changed = true;
  for (int round = 0; changed && round < kMaxRounds; ++round) {
    changed = false;
    for (const auto& [kind, ref] : ours) {
      json::Value object = source.objects[ref];
      engine::World world(source, now);
      engine::Plan& plan = plans[ref] = served[ref.resource]->plan(object, world);
      json::Value status = engine::wantedStatus(object, plan, now);
      changed |= status != object["status"];
      object.make("status") = std::move(status);
      source.objects[ref] = std::move(object);
      for (const engine::Child& child : plan.children)
        changed |=
            source.objects
                .insert_or_assign(child.ref(),
                                  asIfRunning(engine::finished(child, ref, source.objects[ref])))
                .second;
    }
  }
  for (const auto& [kind, ref] : ours) {
    surroundings.out(withoutControls(ref.text()) + "\n");
    surroundings.out(conditionsOf(plans[ref]));
    for (const engine::Child& child : plans[ref].children) {
      surroundings.out(format("+ {}\n", child.ref().text()));
      surroundings.out(indented(shown(engine::finished(child, ref, source.objects[ref])), "    "));
    }
  }
  return ours.empty() ? 0 : 1;
}

// An engine that only looks.
struct Onlooker {
  std::unique_ptr<Cluster> cluster;
  Random random = Random::fromSystem();
  std::unique_ptr<engine::Engine> engine;

  static Result<std::unique_ptr<Onlooker>> start(const Systems& systems, const ClusterFlags& flags,
                                                 const Surroundings& surroundings) {
    auto made = std::make_unique<Onlooker>();
    auto cluster = Cluster::connect(flags, surroundings);
    if (!cluster) return cluster.error();
    made->cluster = *std::move(cluster);
    engine::EngineOptions options;
    systems.serve(options);
    if (!made->cluster->ns.empty()) {
      options.namespaces = {made->cluster->ns};
      if (systems.kaos.system_namespace != made->cluster->ns)
        options.namespaces.push_back(systems.kaos.system_namespace);
    }
    made->engine =
        std::make_unique<engine::Engine>(*made->cluster->client, made->random, std::move(options));
    if (!made->cluster->loop.runUntil([&] { return made->engine->synced(); }, kPatience)) {
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

std::string changesOf(engine::Engine& engine, const engine::Write& write) {
  if (write.op == engine::Write::Op::Create) return indented(shown(write.object), "    ");
  if (write.op != engine::Write::Op::Apply) return "";
  auto there = engine.objectOf(write.ref);
  if (!there || write.ref.resource.kind == "Secret") return "    " + write.why + "\n";
  json::Value wanted = write.object;
  wanted.make("metadata").make("annotations").makeObject().erase(engine::kApplied);
  auto merged = kube::strategicMerge(kube::Type::of(write.ref.resource.gvk()), *there, wanted);
  std::string changes = merged ? json::formatDiff(json::diff(*there, *merged)) : "";
  return indented(changes.empty() ? write.why : changes, "    ");
}

int planOnline(const Systems& systems, const std::vector<FromFile>& files,
               const ClusterFlags& flags, const Surroundings& surroundings) {
  auto onlooker = Onlooker::start(systems, flags, surroundings);
  if (!onlooker) {
    fail(surroundings, onlooker.error().text());
    return 2;
  }
  engine::Engine& engine = *(*onlooker)->engine;
  bool differs = false;
  for (const FromFile& one : files) {
    const kube::Kind* kind = findKind(systems, one.document.value);
    if (!kind) continue;
    json::Value object = kube::withDefaults(*kind, one.document.value);
    engine::Ref ref = refOf(*kind, object, (*onlooker)->cluster->ns);
    object.make("metadata").make("namespace") = ref.key.ns;
    auto there = engine.objectOf(ref);
    if (there) {
      object.make("metadata").make("uid") = (*there)["metadata"]["uid"];
      object.make("metadata").make("generation") =
          kube::generation(*there) + ((*there)["spec"] == object["spec"] ? 0 : 1);
      object.make("status") = (*there)["status"];
    } else {
      object.make("metadata").make("uid") = "(not yet known)";
    }
    auto preview = (*onlooker)->preview(ref, object);
    surroundings.out(withoutControls(ref.text()) + "\n");
    surroundings.out(conditionsOf(preview.plan));
    for (const engine::Write& write : preview.writes) {
      char sign = write.op == engine::Write::Op::Create     ? '+'
                  : write.op == engine::Write::Op::Delete   ? '-'
                  : write.op == engine::Write::Op::Conflict ? '!'
                                                            : '~';
      surroundings.out(format("{} {}\n", sign, write.ref.text()));
      surroundings.out(changesOf(engine, write));
      differs = true;
    }
    if (preview.writes.empty()) surroundings.out("  nothing changes\n");
  }
  return differs ? 1 : 0;
}

// ---- why

class Why {
 public:
  Why(const Systems& systems, Onlooker& onlooker, const Surroundings& surroundings)
      : systems_(systems), onlooker_(onlooker), surroundings_(surroundings) {}

  void tell(const engine::Ref& ref, int depth = 0) {
    std::string indent(static_cast<std::size_t>(depth) * 2, ' ');
    auto say = [&](const std::string& text) {
      surroundings_.out(indent + withoutControls(text) + "\n");
    };
    auto object = onlooker_.engine->objectOf(ref);
    if (!object) return say(format("{} does not exist: create it", ref.text()));
    if (!told_.insert(ref).second) return say(format("{}: see above", ref.text()));
    auto preview = onlooker_.preview(ref, *object);
    const kube::Condition* ready = preview.plan.find("Ready");
    if (ready && ready->status == kube::ConditionStatus::True)
      return say(format("{} is ready", ref.text()));
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
      } else if (read.seen == 0 && !isChild(preview, read.ref) &&
                 (!ready || ready->message.find(read.ref.key.name) != std::string::npos)) {
        say(format("  {} does not exist: create it", read.ref.text()));
      }
    }
  }

 private:
  static bool isChild(const engine::Engine::Preview& preview, const engine::Ref& ref) {
    for (const engine::Child& child : preview.plan.children)
      if (child.ref() == ref) return true;
    return false;
  }

  const Systems& systems_;
  Onlooker& onlooker_;
  const Surroundings& surroundings_;
  std::set<engine::Ref> told_;
};

int why(const Systems& systems, const ClusterFlags& flags, const std::string& what,
        const Surroundings& surroundings) {
  auto [called, name] = cut(what, "/");
  auto kind = findKind(systems, std::string(called));
  if (!kind) return fail(surroundings, kind.error().text());
  if (name.empty()) return fail(surroundings, "say which: `cadre why agent/NAME`");
  auto onlooker = Onlooker::start(systems, flags, surroundings);
  if (!onlooker) return fail(surroundings, onlooker.error().text());
  Why(systems, **onlooker, surroundings)
      .tell({(*kind)->resource(), {(*onlooker)->cluster->ns, std::string(name)}});
  return 0;
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
  flags->cluster.addTo(*command, /*with_namespaces=*/true);
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
  auto* command = app.add_subcommand("why", "Tell why an object is not ready, and what to do");
  flags->cluster.addTo(*command, /*with_namespaces=*/true);
  flags->systems.addTo(*command);
  command->add_option("KIND/NAME", flags->what, "As agent/helper")->required();
  command->callback([flags, &surroundings, &exit_code] {
    exit_code = why(flags->systems, flags->cluster, flags->what, surroundings);
  });
}

}  // namespace cadre::cli
