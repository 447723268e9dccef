#include "cli/target_pod.h"

#include "base/format.h"
#include "base/strings.h"
#include "kube/selector.h"

namespace cadre::cli {
namespace {

const kube::Resource kPods{.version = "v1", .plural = "pods", .kind = "Pod"};

}  // namespace

Result<std::string> podSelector(const Found& owner) {
  const json::Value& selector = owner.object["spec"]["selector"];
  if (!selector["matchLabels"].isNull() || !selector["matchExpressions"].isNull()) {
    CADRE_LET(auto parsed, kube::LabelSelector::fromObject(selector));
    return parsed.text();
  }
  std::vector<std::string> labels;
  for (const auto& [key, value] : selector.object())
    labels.push_back(format("{}={}", key, value.string()));
  if (labels.empty())
    return Error{.code = Code::InvalidArgument,
                 .message = format("{} selects no pods: name a pod, or give their labels with -l",
                                   owner.title())};
  return join(labels, ",");
}

Result<json::Value> findPod(Cluster& cluster, const std::string& target) {
  CADRE_LET(auto discovery, cluster.discover());
  CADRE_LET(auto named,
            namedBy({target.find('/') == target.npos ? "pod/" + target : target}, discovery));
  CADRE_LET(auto found, findObjects(cluster, named, {}));
  Found& one = found.front();
  if (one.object.isNull()) return notThere(one);
  if (one.resource == kPods) return std::move(one.object);
  CADRE_LET(std::string selector, podSelector(one));
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
