#include "base/strings.h"
#include "node/ingress_table.h"
#include "node/pods.h"
#include "node/workloads.h"

namespace cadre::node {
namespace {

using json::Value;

constexpr std::string_view kAddress = "127.0.0.1";

}  // namespace

Value ingressClass(std::uint16_t port) {
  json::Object annotations{{"ingressclass.kubernetes.io/is-default-class", "true"}};
  if (port != 0) annotations.set(kIngressPort, std::to_string(port));
  return json::Object{
      {"apiVersion", kIngressClasses.apiVersion()},
      {"kind", kIngressClasses.kind},
      {"metadata", json::Object{{"name", kIngressClass}, {"annotations", std::move(annotations)}}},
      {"spec", json::Object{{"controller", "cadre.dev/ingress"}}}};
}

// Its address is told when somebody listens there; of those that others serve nothing is said.
engine::Plan planIngress(const Value& ingress, engine::World& world) {
  engine::Plan plan;
  plan.status = ingress["status"].object();
  if (kube::isDeleting(ingress)) return plan;
  if (!isServed(ingress)) {
    if (ingress["status"]["loadBalancer"]["ingress"].at(0)["ip"].string() == kAddress)
      plan.status = {{"loadBalancer", json::Object()}};
    return plan;
  }
  const Value& cls = world.get(kIngressClasses, {"", std::string(kIngressClass)});
  auto port = parseInt(cls["metadata"]["annotations"][kIngressPort].string());
  if (!port) return plan;
  json::Object at{{"ip", kAddress},
                  {"ports", json::Array{json::Object{{"port", *port}, {"protocol", "TCP"}}}}};
  plan.status = {{"loadBalancer", json::Object{{"ingress", json::Array{std::move(at)}}}}};
  return plan;
}

}  // namespace cadre::node
