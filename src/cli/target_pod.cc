#include "cli/target_pod.h"

#include "base/format.h"
#include "base/strings.h"
#include "kube/discovery.h"
#include "kube/selector.h"

namespace cadre::cli {
namespace {

const kube::Resource kPods{.version = "v1", .plural = "pods", .kind = "Pod"};

// As text, of a kind that has one: labels alone in a Service, an object elsewhere.
Result<std::string> selectorOf(const json::Value& object) {
  json::Value selector = object["spec"]["selector"];
  if (selector["matchLabels"].isNull() && selector["matchExpressions"].isNull())
    selector = json::Object{{"matchLabels", selector}};
  auto parsed = kube::LabelSelector::fromObject(selector);
  if (!parsed || parsed->matchesEverything())
    return Error{.code = Code::InvalidArgument,
                 .message = format("{} {} selects no pods: name a pod", object["kind"].string(),
                                   kube::name(object))};
  return parsed->text();
}

}  // namespace

Result<json::Value> findPod(Cluster& cluster, const std::string& target) {
  auto [kind, name] = cut(target, "/");
  if (name.empty()) std::swap(kind, name);
  auto get = [&](const kube::Resource& resource) {
    return cluster.await<json::Value>([&](auto done) {
      return cluster.client->get(resource, {cluster.ns, std::string(name)}, std::move(done));
    });
  };
  if (kind.empty() || kind == "pod" || kind == "pods" || kind == "po") return get(kPods);
  CADRE_LET(auto discovery, cluster.await<kube::Discovery>([&](auto done) {
    return kube::Discovery::load(*cluster.client, std::move(done));
  }));
  const kube::ServedResource* served = discovery.named(kind);
  if (!served)
    return Error{.code = Code::NotFound,
                 .message = format("there is no kind {} here: see `cadre get --help`", kind)};
  CADRE_LET(json::Value object, get(served->resource));
  CADRE_LET(std::string selector, selectorOf(object));
  CADRE_LET(auto pods, cluster.await<std::vector<json::Value>>([&](auto done) {
    return cluster.client->list(kPods, {.select = {.ns = cluster.ns, .labels = selector}},
                                std::move(done));
  }));
  for (json::Value& pod : pods)
    if (pod["status"]["phase"].string() == "Running" && !kube::isDeleting(pod))
      return std::move(pod);
  return Error{.code = Code::NotFound,
               .message = format("no pod of {} runs now ({} in all): `cadre get pods -l {}` shows "
                                 "them",
                                 target, pods.size(), selector)};
}

}  // namespace cadre::cli
