#include <algorithm>

#include "base/format.h"
#include "base/strings.h"
#include "kube/endpoints.h"
#include "node/pods.h"
#include "node/workloads.h"

namespace cadre::node {
namespace {

using json::Value;

bool matches(const Value& pod, const Value& selector) {
  return std::ranges::all_of(selector.object(), [&](const auto& one) {
    return pod["metadata"]["labels"][one.first] == one.second;
  });
}

// The number of a port that is given by number or by name; none: this pod has no such port.
std::optional<std::int64_t> portOf(const Value& pod, const Value& service_port) {
  const Value& target = service_port["targetPort"];
  if (target.isNull()) return service_port["port"].integer();
  if (target.isInteger()) return target.integer();
  for (const Value& container : pod["spec"]["containers"].array())
    for (const Value& port : container["ports"].array())
      if (port["name"] == target && port["protocol"].string() == service_port["protocol"].string())
        return port["containerPort"].integer();
  return std::nullopt;
}

// As a slice has it: those of one pod.
json::Array portsOf(const Value& pod, const Value& service) {
  json::Array out;
  for (const Value& port : service["spec"]["ports"].array()) {
    auto number = portOf(pod, port);
    if (!number) continue;
    json::Object one{
        {"name", port["name"].string()},
        {"port", *number},
        {"protocol", port["protocol"].string().empty() ? "TCP" : port["protocol"].string()}};
    if (port["appProtocol"].isString()) one.set("appProtocol", port["appProtocol"]);
    out.emplace_back(std::move(one));
  }
  return out;
}

Value endpointOf(const Value& pod, const Value& service) {
  bool going = kube::isDeleting(pod);
  bool ready = isReady(pod);
  bool all = service["spec"]["publishNotReadyAddresses"].boolean();
  json::Object out{{"addresses", json::Array{pod["status"]["podIP"]}},
                   {"conditions", json::Object{{"ready", all || (ready && !going)},
                                               {"serving", ready},
                                               {"terminating", going}}},
                   {"nodeName", pod["spec"]["nodeName"]},
                   {"targetRef", json::Object{{"kind", "Pod"},
                                              {"namespace", kube::ns(pod)},
                                              {"name", kube::name(pod)},
                                              {"uid", kube::uid(pod)}}}};
  if (const Value& host = pod["spec"]["hostname"];
      host.isString() && pod["spec"]["subdomain"].string() == kube::name(service))
    out.set("hostname", host);
  return out;
}

}  // namespace

// A slice for all pods that offer the same ports: most often that is one.
engine::Plan planService(const Value& service, engine::World& world) {
  engine::Plan plan;
  const Value& spec = service["spec"];
  if (kube::isDeleting(service) || spec["selector"].object().empty()) return plan;
  std::vector<std::pair<json::Array, json::Array>> slices;  // ports and endpoints
  for (const Value* pod : world.list(kPods, kByNamespace, kube::ns(service))) {
    if (!matches(*pod, spec["selector"]) || isFinished(*pod) ||
        (*pod)["status"]["podIP"].string().empty())
      continue;
    json::Array ports = portsOf(*pod, service);
    auto slice = std::ranges::find(slices, ports, &std::pair<json::Array, json::Array>::first);
    if (slice == slices.end()) slice = slices.emplace(slice, std::move(ports), json::Array());
    slice->second.push_back(endpointOf(*pod, service));
  }
  if (slices.empty()) slices.emplace_back();
  json::Value labels = service["metadata"]["labels"];
  labels.make(kube::kServiceName) = kube::name(service);
  labels.make("endpointslice.kubernetes.io/managed-by") = "cadre-node";
  if (spec["clusterIP"].string() == "None") labels.make("service.kubernetes.io/headless") = "";
  for (auto& [ports, endpoints] : slices) {
    std::string text = std::string(kube::uid(service));
    for (const Value& port : ports) text += format(" {}", port["port"].integer());
    json::Object slice{
        {"metadata",
         json::Object{{"name", format("{}-{}", kube::name(service), shortHash(text).substr(0, 5))},
                      {"namespace", kube::ns(service)},
                      {"labels", labels}}},
        {"addressType", "IPv4"},
        {"endpoints", std::move(endpoints)},
        {"ports", std::move(ports)}};
    plan.children.push_back({.resource = kSlices, .object = std::move(slice)});
  }
  return plan;
}

}  // namespace cadre::node
