#include "hub/service_addresses.h"

#include <algorithm>

#include "base/format.h"
#include "json/write.h"

namespace cadre::hub {
namespace {

constexpr std::string_view kServices = "services";
constexpr std::int64_t kFirstPort = 30000, kPorts = 2768;

bool hasAddress(const json::Value& service, const std::string& address) {
  return service["spec"]["clusterIP"].string() == address;
}

bool hasPort(const json::Value& service, const std::int64_t& port) {
  const json::Value& spec = service["spec"];
  return spec["healthCheckNodePort"].integer() == port ||
         std::ranges::any_of(spec["ports"].array(), [&](const json::Value& one) {
           return one["nodePort"].integer() == port;
         });
}

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

void ServiceAddresses::know(const json::Value& service) {
  const json::Value& spec = service["spec"];
  Owner owner = Owner::of(service);
  if (const std::string& address = spec["clusterIP"].string(); !address.empty())
    addresses_[address] = owner;
  if (auto port = spec["healthCheckNodePort"].integer(); port > 0) ports_[port] = owner;
  for (const json::Value& one : spec["ports"].array())
    if (auto port = one["nodePort"].integer(); port > 0) ports_[port] = owner;
}

template <class Key>
bool ServiceAddresses::isTaken(const std::map<Key, Owner>& owners, const Key& key, const Owner& by,
                               bool (*has)(const json::Value& service, const Key& key)) const {
  auto owner = owners.find(key);
  if (owner == owners.end() || owner->second == by) return false;
  State there = objects_.find(kServices, owner->second);
  return there && has(there->value(), key);
}

std::optional<kube::FieldError> ServiceAddresses::giveAddress(json::Value& spec,
                                                              const Owner& owner) {
  std::string address = spec["clusterIP"].string();
  if (address == "None") return std::nullopt;
  if (!address.empty() && isTaken(addresses_, address, owner, hasAddress))
    return refused("spec.clusterIPs", json::write(spec["clusterIPs"]),
                   format("failed to allocate IP {}: provided IP is already allocated", address));
  while (address.empty() || isTaken(addresses_, address, owner, hasAddress))
    address = format("{}.{}.{}.{}", loopback_ ? 127 : 10, 96 + random_.below(16),
                     random_.below(256), 1 + random_.below(254));
  spec.make("clusterIP") = address;
  if (spec["clusterIPs"].array().empty()) spec.make("clusterIPs") = json::Array{address};
  return std::nullopt;
}

std::optional<kube::FieldError> ServiceAddresses::givePort(json::Value& place,
                                                           const std::string& path,
                                                           const Owner& owner) {
  std::int64_t port = place.integer();
  if (port != 0 && (port < kFirstPort || port >= kFirstPort + kPorts))
    return refused(path, format("{}", port),
                   format("provided port is not in the valid range. The range of valid ports is "
                          "{}-{}",
                          kFirstPort, kFirstPort + kPorts - 1));
  if (port != 0 && isTaken(ports_, port, owner, hasPort))
    return refused(path, format("{}", port), "provided port is already allocated");
  // All may be taken: then there is none to give.
  for (std::int64_t i = 0, first = static_cast<std::int64_t>(random_.below(kPorts));
       port == 0 && i < kPorts; ++i) {
    std::int64_t candidate = kFirstPort + (first + i) % kPorts;
    auto had = ports_.find(candidate);
    bool own = had != ports_.end() && had->second == owner;
    if (!own && !isTaken(ports_, candidate, owner, hasPort)) port = candidate;
  }
  if (port == 0) return refused(path, "0", "failed to allocate a nodePort: range is full");
  place = port;
  ports_[port] = owner;
  return std::nullopt;
}

std::vector<kube::FieldError> ServiceAddresses::give(json::Value& service) {
  if (!std::exchange(known_, true))
    for (const auto& [key, state] : objects_.all(kServices)) know(state->value());
  std::vector<kube::FieldError> errors;
  auto add = [&](std::optional<kube::FieldError> error) {
    if (error) errors.push_back(*std::move(error));
  };
  json::Value& spec = service.make("spec");
  Owner owner = Owner::of(service);
  if (spec["type"].string() == "ExternalName") return errors;
  add(giveAddress(spec, owner));
  if (needsPorts(spec)) {
    json::Array& ports = spec.make("ports").makeArray();
    for (std::size_t i = 0; i < ports.size(); ++i)
      add(givePort(ports[i].make("nodePort"), format("spec.ports[{}].nodePort", i), owner));
  }
  if (spec["type"].string() == "LoadBalancer" && spec["externalTrafficPolicy"].string() == "Local")
    add(givePort(spec.make("healthCheckNodePort"), "spec.healthCheckNodePort", owner));
  if (errors.empty()) know(service);
  return errors;
}

}  // namespace cadre::hub
