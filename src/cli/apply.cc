#include "cli/apply.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <set>

#include "base/format.h"
#include "base/strings.h"
#include "cli/commands.h"
#include "cli/objects.h"

namespace cadre::cli {
namespace {

// How long the kind of a definition that was just applied may take to be served.
constexpr Duration kPatienceForKinds = 20s;
constexpr Duration kLookEvery = 100ms;
constexpr std::size_t kMaxConflicts = 5;  // told by name

int rank(const json::Value& object) {
  const std::string& kind = object["kind"].string();
  if (kind == "Namespace" && object["apiVersion"].string() == "v1") return 0;
  if (kind == "CustomResourceDefinition") return 1;
  return 2;
}

// `conflict with "kubectl" using apps/v1` names the manager in quotes.
std::string_view managerIn(std::string_view message) {
  return cut(cut(message, "\"").second, "\"").first;
}

Error explained(Error error, const std::string& title) {
  std::vector<std::string> fields;
  for (const Detail& detail : error.details)
    if (detail.reason == "FieldManagerConflict")
      fields.push_back(format("{} ({})", detail.field, managerIn(detail.message)));
  if (fields.empty()) return std::move(error).context(title);
  std::size_t more = fields.size() - std::min(fields.size(), kMaxConflicts);
  fields.resize(fields.size() - more);
  error.message = format(
      "{} is not applied, others own fields of it: {}{}; leave them out of the file, or take "
      "them over with --force-conflicts",
      title, join(fields, ", "), more == 0 ? "" : format(" and {} more", more));
  error.cause = nullptr;
  return error;
}

// Without what changes though nothing that a person wrote does.
json::Value withoutBookkeeping(json::Value object) {
  for (std::string_view field : {"managedFields", "resourceVersion", "generation"})
    object.make("metadata").makeObject().erase(field);
  return object;
}

class Applier {
 public:
  Applier(Cluster& cluster, const Applying& applying) : cluster_(cluster), applying_(applying) {}

  Result<> applyAll(std::vector<FromFile> objects) {
    sortForApply(objects);
    CADRE_TRY(discover());
    for (FromFile& one : objects) {
      if (auto applied = applyOne(one.document.value); !applied)
        applying_.failed(applied.error().context(format("{}:{}", one.file, one.document.line)));
    }
    return {};
  }

 private:
  Result<> discover() {
    CADRE_LET(discovery_, cluster_.discover());
    return {};
  }

  Result<> applyOne(json::Value& object) {
    auto gvk = kube::GroupVersionKind::of(object);
    if (!gvk)
      return Error{.code = Code::InvalidArgument,
                   .message = "this is no object: give it an apiVersion and a kind"};
    if (kube::name(object).empty())
      return Error{.code = Code::InvalidArgument,
                   .message = format("this {} has no name: give it one, apply finds objects by it",
                                     gvk->kind)};
    if (applying_.dry_run && comesAfter(*gvk, object)) {
      applying_.applied(titleOf({.group = gvk->group, .kind = gvk->kind}, kube::name(object)),
                        "not checked: what it needs would come with these files");
      return {};
    }
    CADRE_LET(kube::Resource resource, resourceOf(*gvk));
    CADRE_TRY(placeInNamespace(resource, object));
    CADRE_LET(std::string_view what, send(resource, object));
    applying_.applied(titleOf(resource, kube::name(object)), what);
    note(object, what);
    return {};
  }

  // Whether its kind or its namespace would have been made by now.
  bool comesAfter(const kube::GroupVersionKind& kind, const json::Value& object) const {
    return (coming_.contains({kind.group, kind.kind}) && !discovery_.find(kind)) ||
           new_namespaces_.contains(std::string(kube::ns(object)));
  }

  Result<kube::Resource> resourceOf(const kube::GroupVersionKind& kind) {
    bool comes = coming_.contains({kind.group, kind.kind});
    Instant until = cluster_.loop.clock().instant() + kPatienceForKinds;
    for (;;) {
      if (const kube::ServedResource* served = discovery_.find(kind)) return served->resource;
      if (!comes || cluster_.loop.clock().instant() > until) break;
      cluster_.loop.runUntil([] { return false; }, kLookEvery);
      CADRE_TRY(discover());
    }
    return Error{.code = Code::NotFound,
                 .message = format("there is no kind {} here: apply its definition first, or check "
                                   "its apiVersion",
                                   kind.text())};
  }

  Result<> placeInNamespace(const kube::Resource& resource, json::Value& object) {
    if (!resource.namespaced) return {};
    std::string named(kube::ns(object));
    if (applying_.only_ns && !named.empty() && named != applying_.ns)
      return Error{.code = Code::InvalidArgument,
                   .message = format("{} names the namespace {}, and -n says {}: leave one of them "
                                     "out",
                                     titleOf(resource, kube::name(object)), named, applying_.ns)};
    if (named.empty()) object.make("metadata").make("namespace") = applying_.ns;
    return {};
  }

  Result<std::string_view> send(const kube::Resource& resource, const json::Value& object) {
    auto before = cluster_.await<json::Value>([&](auto done) {
      return cluster_.client->get(resource, kube::ObjectKey::of(object), std::move(done));
    });
    if (!before && before.error().code != Code::NotFound) return before.error();
    auto after = applyPatiently(resource, object);
    if (!after) return explained(after.error(), titleOf(resource, kube::name(object)));
    if (!before) return "created";
    bool same = withoutBookkeeping(*before) == withoutBookkeeping(*after);
    return same ? "unchanged" : "configured";
  }

  // A kind that has just come is not served everywhere at once.
  Result<json::Value> applyPatiently(const kube::Resource& resource, const json::Value& object) {
    bool came = coming_.contains({resource.group, resource.kind});
    Instant until = cluster_.loop.clock().instant() + kPatienceForKinds;
    for (;;) {
      auto applied = apply(resource, object);
      if (applied || !came || applied.error().code != Code::NotFound ||
          cluster_.loop.clock().instant() > until)
        return applied;
      cluster_.loop.runUntil([] { return false; }, kLookEvery);
    }
  }

  Result<json::Value> apply(const kube::Resource& resource, const json::Value& object) {
    kube::WriteOptions options;
    options.field_manager = applying_.field_manager;
    options.force = applying_.force;
    options.dry_run = applying_.dry_run;
    return cluster_.await<json::Value>([&](auto done) {
      return cluster_.client->apply(resource, object, options, std::move(done));
    });
  }

  // What others may wait for.
  void note(const json::Value& object, std::string_view what) {
    const json::Value& spec = object["spec"];
    if (rank(object) == 0 && what == "created")
      new_namespaces_.insert(std::string(kube::name(object)));
    if (rank(object) == 1) coming_.insert({spec["group"].string(), spec["names"]["kind"].string()});
  }

  Cluster& cluster_;
  const Applying& applying_;
  kube::Discovery discovery_;
  std::set<std::pair<std::string, std::string>> coming_;  // group and kind
  std::set<std::string> new_namespaces_;
};

struct ApplyFlags {
  ClusterFlags cluster;
  std::vector<std::string> files;
  std::string field_manager = "cadre";
  bool force = false, dry_run = false;
};

Result<int> runApply(const ApplyFlags& flags, const Surroundings& surroundings) {
  CADRE_LET(auto objects, readObjects(flags.files));
  if (objects.empty())
    return Error{.code = Code::NotFound,
                 .message = format("there is no object in {}: give files, or folders with *.yaml, "
                                   "*.yml or *.json",
                                   join(flags.files, ", ")),
                 .reason = "NotFound"};
  CADRE_LET(auto cluster, Cluster::connect(flags.cluster, surroundings));
  int code = 0;
  CADRE_TRY(applyObjects(*cluster, std::move(objects),
                         {.field_manager = flags.field_manager,
                          .ns = cluster->ns,
                          .only_ns = !flags.cluster.ns.empty(),
                          .force = flags.force,
                          .dry_run = flags.dry_run,
                          .applied =
                              [&](const std::string& title, std::string_view what) {
                                surroundings.out(
                                    withoutControls(format("{} {}{}", title, what,
                                                           flags.dry_run ? " (dry run)" : "")) +
                                    "\n");
                              },
                          .failed =
                              [&](const Error& error) {
                                code = std::max(code, fail(surroundings, error.text()) + 1);
                              }}));
  return code;
}

}  // namespace

void sortForApply(std::vector<FromFile>& objects) {
  std::multimap<int, FromFile> by_rank;  // of one rank in the order of the files
  for (FromFile& one : objects) {
    int order = rank(one.document.value);
    by_rank.emplace(order, std::move(one));
  }
  objects.clear();
  for (auto& [order, one] : by_rank) objects.push_back(std::move(one));
}

Result<> applyObjects(Cluster& cluster, std::vector<FromFile> objects, const Applying& applying) {
  return Applier(cluster, applying).applyAll(std::move(objects));
}

void addApply(CLI::App& app, const Surroundings& surroundings, int& exit_code) {
  auto flags = std::make_shared<ApplyFlags>();
  auto* command = app.add_subcommand("apply", "Make objects as files say");
  flags->cluster.addTo(*command, Namespaces::One);
  command->add_option("-f,--filename", flags->files, "File, folder, or - for the standard input")
      ->required();
  command->add_flag("--force-conflicts", flags->force,
                    "Take over fields that others have set to something else");
  command->add_option("--field-manager", flags->field_manager, "Whose fields these become")
      ->capture_default_str();
  command->add_flag("--dry-run", flags->dry_run, "Let the server check it, and change nothing");
  command->callback([flags, &surroundings, &exit_code] {
    auto ran = runApply(*flags, surroundings);
    exit_code = ran ? *ran : failWith(surroundings, ran.error());
  });
}

}  // namespace cadre::cli
