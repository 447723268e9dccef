#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/format.h"
#include "base/strings.h"
#include "cli/apply.h"
#include "cli/commands.h"
#include "cli/objects.h"
#include "kube/conditions.h"

namespace cadre::cli {
namespace {

struct DeleteFlags {
  ClusterFlags cluster;
  ObjectFlags objects;
  std::vector<std::string> files;
  std::string cascade = "background", timeout;
  bool wait = true, ignore_not_found = false;
};

// What the API calls it.
std::string propagationOf(std::string cascade) {
  cascade[0] = static_cast<char>(cascade[0] - 'a' + 'A');
  return cascade;
}

// Why something that was told to go is still there.
std::string heldBy(const json::Value& object) {
  if (object.isNull()) return "it could not be looked at";
  std::vector<std::string> reasons;
  for (std::string_view finalizer : kube::finalizers(object))
    reasons.push_back(format("the finalizer {}", finalizer));
  // Of a namespace: what has to empty it, and what is still in it.
  for (const json::Value& finalizer : object["spec"]["finalizers"].array())
    if (object["kind"].string() == "Namespace")
      reasons.push_back(format("the finalizer {}", finalizer.string()));
  for (const json::Value& condition : object["status"]["conditions"].array())
    if (condition["type"].string().starts_with("Namespace") &&
        condition["status"].string() == "True")
      reasons.push_back(condition["message"].string());
  if (!reasons.empty()) return "still held by " + join(reasons, ", ");
  if (object["kind"].string() == "Pod")
    return format("its containers are ending, they have time until {}",
                  kube::deletionTimestamp(object));
  return "still there, though nothing holds it";
}

// One that a file names. A kind that is not served has no objects.
Result<Found> foundInFile(Cluster& cluster, const kube::Discovery& discovery,
                          const json::Value& object) {
  auto gvk = kube::GroupVersionKind::of(object);
  if (!gvk || kube::name(object).empty())
    return Error{.code = Code::InvalidArgument,
                 .message = "this is no object: it needs an apiVersion, a kind and a name"};
  Found found{{.group = gvk->group, .kind = gvk->kind}, kube::ObjectKey::of(object)};
  const kube::ServedResource* served = discovery.find(*gvk);
  if (!served) return found;
  found.resource = served->resource;
  if (!found.resource.namespaced) found.key.ns.clear();
  if (found.resource.namespaced && found.key.ns.empty()) found.key.ns = cluster.ns;
  auto there = cluster.await<json::Value>(
      [&](auto done) { return cluster.client->get(found.resource, found.key, std::move(done)); });
  if (!there && there.error().reason != "NotFound") return there.error();
  if (there) found.object = *std::move(there);
  return found;
}

// All that files name, the last that apply would make first.
Result<std::vector<Found>> foundInFiles(Cluster& cluster, const kube::Discovery& discovery,
                                        const std::vector<std::string>& files) {
  CADRE_LET(auto objects, readObjects(files));
  sortForApply(objects);
  std::reverse(objects.begin(), objects.end());
  std::vector<Found> all;
  for (const FromFile& one : objects) {
    auto found = foundInFile(cluster, discovery, one.document.value);
    if (!found) return found.error().context(format("{}:{}", one.file, one.document.line));
    all.push_back(*std::move(found));
  }
  return all;
}

class Deletion {
 public:
  Deletion(Cluster& cluster, const DeleteFlags& flags, Duration timeout,
           const Surroundings& surroundings)
      : cluster_(cluster),
        flags_(flags),
        end_(cluster.loop.clock().instant() + timeout),
        surroundings_(surroundings) {}

  // All are told to go before any is waited for: one may hold another.
  Result<int> remove(const std::vector<Found>& all) {
    int code = 0;
    std::vector<const Found*> going;
    for (const Found& one : all) {
      if (one.object.isNull()) {
        if (!flags_.ignore_not_found) code = std::max(code, failWith(surroundings_, notThere(one)));
        continue;
      }
      auto asked = ask(one);
      if (!asked)
        code = std::max(code, failWith(surroundings_, asked.error().context(one.title())));
      else if (*asked && flags_.wait)
        going.push_back(&one);
      else
        say(one, *asked ? "is going" : "deleted");
    }
    for (const Found* one : going) {
      CADRE_LET(int waited, wait(*one));
      code = std::max(code, waited);
    }
    return code;
  }

 private:
  // Whether it is still there afterwards.
  Result<bool> ask(const Found& one) {
    kube::DeleteOptions options;
    options.uid = kube::uid(one.object);
    options.propagation = propagationOf(flags_.cascade);
    auto answer = cluster_.await<json::Value>([&](auto done) {
      return cluster_.client->remove(one.resource, one.key, options, std::move(done));
    });
    if (!answer && answer.error().reason == "NotFound") return false;
    if (!answer) return answer.error();
    return (*answer)["kind"].string() != "Status";
  }

  Result<int> wait(const Found& one) {
    auto gone = [uid = std::string(kube::uid(one.object))](const json::Value& object) {
      return object.isNull() || kube::uid(object) != uid;
    };
    Duration left = std::max<Duration>(end_ - cluster_.loop.clock().instant(), 0s);
    json::Value last;
    CADRE_LET(bool done, waitUntil(cluster_,
                                   {.resource = one.resource,
                                    .key = one.key,
                                    .timeout = left,
                                    .holds =
                                        [&](const json::Value& object) {
                                          last = object;
                                          return gone(object);
                                        },
                                    .missing = heldBy},
                                   surroundings_));
    if (done) {
      say(one, "deleted");
      return 0;
    }
    return failWith(surroundings_,
                    Error{.code = Code::DeadlineExceeded,
                          .message = format("{} is not gone after {}: {}; see what its controller "
                                            "says, or give it more time with --timeout",
                                            one.title(), flags_.timeout, heldBy(last))});
  }

  void say(const Found& one, std::string_view what) {
    surroundings_.out(withoutControls(format("{} {}", one.title(), what)) + "\n");
  }

  Cluster& cluster_;
  const DeleteFlags& flags_;
  const Instant end_;
  const Surroundings& surroundings_;
};

Result<int> runDelete(const DeleteFlags& flags, const Surroundings& surroundings) {
  if (flags.objects.words.empty() == flags.files.empty())
    return Error{.code = Code::InvalidArgument,
                 .message =
                     "say what: `cadre delete KIND NAME`, `cadre delete KIND -l a=b`, or "
                     "`cadre delete -f FILE`"};
  CADRE_LET(auto cluster, Cluster::connect(flags.cluster, surroundings));
  CADRE_LET(auto discovery, cluster->discover());
  CADRE_LET(auto named, namedBy(flags.objects.words, discovery));
  CADRE_TRY(flags.objects.sayWhich(named));
  CADRE_LET(auto found, flags.files.empty() ? findObjects(*cluster, named, flags.objects)
                                            : foundInFiles(*cluster, discovery, flags.files));
  if (found.empty()) {
    surroundings.err(nothingFound(named, cluster->ns));
    return flags.ignore_not_found ? 0 : 1;
  }
  Duration timeout = parseDuration(flags.timeout).value_or(kForEver);
  return Deletion(*cluster, flags, timeout, surroundings).remove(found);
}

}  // namespace

void addDelete(CLI::App& app, const Surroundings& surroundings, int& exit_code) {
  auto flags = std::make_shared<DeleteFlags>();
  auto* command = app.add_subcommand("delete", "Delete objects, and wait until they are gone");
  flags->cluster.addTo(*command, Namespaces::Any);
  flags->objects.addTo(*command, ObjectFlags::Words::Optional);
  command->add_option("-f,--filename", flags->files,
                      "What these files name: file, folder, or - for the standard input");
  command->add_flag("--wait", flags->wait, "Wait until they are gone (--wait=false does not)");
  command->add_flag("--ignore-not-found", flags->ignore_not_found,
                    "What is not there is no failure");
  command
      ->add_option("--cascade", flags->cascade,
                   "What becomes of what they own: it goes after them (background), before them "
                   "(foreground), or stays (orphan)")
      ->capture_default_str()
      ->check(CLI::IsMember({"background", "foreground", "orphan"}));
  command
      ->add_option("--timeout", flags->timeout,
                   "How long to wait, as 30s or 5m (default: for ever)")
      ->check(durationProblem);
  command->callback([flags, &surroundings, &exit_code] {
    auto ran = runDelete(*flags, surroundings);
    exit_code = ran ? *ran : failWith(surroundings, ran.error());
  });
}

}  // namespace cadre::cli
