#include "hub/service_addresses.h"

#include <algorithm>

#include "base/format.h"
#include "json/write.h"

namespace cadre::hub {
namespace {

constexpr std::string_view kServices = "services";
constexpr std::int64_t kFirstPort = 30000, kPorts = 2768;

kube::FieldError refused(std::string path, const std::string& value, const std::string& why) {
  return {.path = std::move(path),
          .fault = kube::Fault::Invalid,
          .message = format("Invalid value: {}: {}", value, why)};
}

bool needsPorts(const json::Value& spec) {
  const std::string& type = spec["type"].string();
  return type == "NodePort" ||
         (type == "LoadBalancer" && spec["allocateLoadBalancerNodePorts"].boolean(true));
}

}  // namespace

ServiceAddresses::Held ServiceAddresses::heldBy(const json::Value& service) {
  const json::Value& spec = service["spec"];
  Held held{.address = spec["clusterIP"].string()};
  if (auto port = spec["healthCheckNodePort"].integer(); port > 0) held.ports.push_back(port);
  for (const json::Value& one : spec["ports"].array())
    if (auto port = one["nodePort"].integer(); port > 0) held.ports.push_back(port);
  return held;
}

void ServiceAddresses::look() {
  const auto& services = objects_.all(kServices);
  std::erase_if(held_, [&](const auto& one) { return !services.contains(one.first); });
  for (const auto& [key, state] : services) {
    Held& held = held_[key];
    if (held.revision == state->revision) continue;
    held = heldBy(state->value());
    held.revision = state->revision;
  }
}

bool ServiceAddresses::isTaken(const std::string& address, const Owner& by) const {
  return std::ranges::any_of(
      held_, [&](const auto& one) { return one.first != by && one.second.address == address; });
}

std::optional<kube::FieldError> ServiceAddresses::giveAddress(json::Value& spec,
                                                              const Owner& owner) {
  std::string address = spec["clusterIP"].string();
  if (address == "None") return std::nullopt;
  if (!address.empty() && isTaken(address, owner))
    return refused("spec.clusterIPs", json::write(spec["clusterIPs"]),
                   format("failed to allocate IP {}: provided IP is already allocated", address));
  while (address.empty() || isTaken(address, owner))
    address = format("{}.{}.{}.{}", loopback_ ? 127 : 10, 96 + random_.below(16),
                     random_.below(256), 1 + random_.below(254));
  spec.make("clusterIP") = address;
  if (spec["clusterIPs"].array().empty()) spec.make("clusterIPs") = json::Array{address};
  return std::nullopt;
}

std::optional<kube::FieldError> ServiceAddresses::givePort(json::Value& place,
                                                           const std::string& path,
                                                           std::set<std::int64_t>& taken,
                                                           const std::set<std::int64_t>& others) {
  std::int64_t port = place.integer();
  if (port != 0 && (port < kFirstPort || port >= kFirstPort + kPorts))
    return refused(path, format("{}", port),
                   format("provided port is not in the valid range. The range of valid ports is "
                          "{}-{}",
                          kFirstPort, kFirstPort + kPorts - 1));
  if (port != 0 && others.contains(port))
    return refused(path, format("{}", port), "provided port is already allocated");
  // All may be taken: then there is none to give.
  for (std::int64_t i = 0, first = static_cast<std::int64_t>(random_.below(kPorts));
       port == 0 && i < kPorts; ++i)
    if (std::int64_t one = kFirstPort + (first + i) % kPorts; !taken.contains(one)) port = one;
  if (port == 0) return refused(path, "0", "failed to allocate a nodePort: range is full");
  place = port;
  taken.insert(port);
  return std::nullopt;
}

std::vector<kube::FieldError> ServiceAddresses::give(json::Value& service) {
  std::vector<kube::FieldError> errors;
  auto add = [&](std::optional<kube::FieldError> error) {
    if (error) errors.push_back(*std::move(error));
  };
  json::Value& spec = service.make("spec");
  Owner owner = Owner::of(service);
  if (spec["type"].string() == "ExternalName") return errors;
  look();
  add(giveAddress(spec, owner));
  bool is_checked =
      spec["type"].string() == "LoadBalancer" && spec["externalTrafficPolicy"].string() == "Local";
  if (!needsPorts(spec) && !is_checked) return errors;
  std::set<std::int64_t> others;
  for (const auto& [key, held] : held_)
    if (key != owner) others.insert(held.ports.begin(), held.ports.end());
  std::set<std::int64_t> taken = others;
  for (std::int64_t port : heldBy(service).ports) taken.insert(port);
  if (needsPorts(spec)) {
    json::Array& ports = spec.make("ports").makeArray();
    for (std::size_t i = 0; i < ports.size() && errors.empty(); ++i)
      add(givePort(ports[i].make("nodePort"), format("spec.ports[{}].nodePort", i), taken, others));
  }
  if (is_checked)
    add(givePort(spec.make("healthCheckNodePort"), "spec.healthCheckNodePort", taken, others));
  return errors;
}

}  // namespace cadre::hub
