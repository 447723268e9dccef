#include "node/service_proxy.h"

#include <map>
#include <set>

#include "base/format.h"
#include "kube/watch.h"
#include "node/pod_data.h"
#include "node/pods.h"

namespace cadre::node {
namespace {

using json::Value;

constexpr std::string_view kDomain = "svc.cluster.local";
const kube::ObjectKey kApi{"default", "kubernetes"};

bool isHeadless(const Value& service) { return service["spec"]["clusterIP"].string() == "None"; }

}  // namespace

struct ServiceProxy::Impl {
  Impl(net::Loop& loop, kube::Client& client, Random& random, Logger* logger, net::Place api,
       Function<void()> changed, Function<void(const ServiceTable&)> served)
      : loop(loop),
        api(std::move(api)),
        changed(std::move(changed)),
        served(std::move(served)),
        relays(loop, logger),
        services(client, {.resource = kServices}, random, [this](const auto&) { lookSoon(); }),
        slices(client, {.resource = kSlices}, random,
               [this](const kube::Mirror::Change& change) { sliceChanged(change); }) {}

  const kube::Slices& slicesOf(const kube::ObjectKey& service) const {
    static const kube::Slices kNone;
    auto found = endpoints.find(service);
    return found == endpoints.end() ? kNone : found->second;
  }

  void sliceChanged(const kube::Mirror::Change& change) {
    const std::string& name = change.object["metadata"]["labels"][kube::kServiceName].string();
    auto& of_service = endpoints[{std::string(kube::ns(change.object)), name}];
    std::string slice(kube::name(change.object));
    if (change.type == kube::EventType::Deleted)
      of_service.erase(slice);
    else
      of_service[slice] = change.object;
    lookSoon();
  }

  void lookSoon() {
    soon = loop.after(0s, [this] { look(); });
  }

  void look() {
    ServiceTable table;
    services.forEach([&](const kube::ObjectKey& key, const Value& service) {
      const std::string& address = service["spec"]["clusterIP"].string();
      if (!address.starts_with("127.")) return;
      for (const Value& port : service["spec"]["ports"].array())
        if (const std::string& protocol = port["protocol"].string();
            protocol.empty() || protocol == "TCP")
          table.entries[{address, static_cast<std::uint16_t>(port["port"].integer())}] = {
              key.text(), key == kApi ? std::vector{api}
                                      : kube::readyPlaces(slicesOf(key), port["name"].string())};
    });
    relays.listen(table);
    if (std::exchange(told_table, table) != table) served(table);
    std::string now = names("");
    if (std::exchange(told, now) != now) changed();
  }

  std::string names(std::string_view from) const {
    std::string out;
    auto add = [&](const std::string& address, const std::string& name, const std::string& ns,
                   bool near) {
      out += format("{}\t{}.{}.{} {}.{}.svc {}.{}{}\n", address, name, ns, kDomain, name, ns, name,
                    ns, near ? " " + name : "");
    };
    services.forEach([&](const kube::ObjectKey& key, const Value& service) {
      const std::string& address = service["spec"]["clusterIP"].string();
      bool near = key.ns == from;
      if (!isHeadless(service)) {
        if (!address.empty()) add(address, key.name, key.ns, near);
        return;
      }
      for (const auto& [slice, object] : slicesOf(key))
        for (const Value& endpoint : object["endpoints"].array()) {
          if (!kube::isReadyEndpoint(endpoint)) continue;
          const std::string& place = endpoint["addresses"].at(0).string();
          add(place, key.name, key.ns, near);
          if (const std::string& host = endpoint["hostname"].string(); !host.empty())
            add(place, format("{}.{}", host, key.name), key.ns, near);
        }
    });
    return out;
  }

  net::Loop& loop;
  const net::Place api;
  const Function<void()> changed;
  const Function<void(const ServiceTable&)> served;
  ServiceRelays relays;
  std::map<kube::ObjectKey, kube::Slices> endpoints;  // by Service
  ServiceTable told_table;
  std::string told;  // the names
  Pending soon;
  kube::Mirror services, slices;
};

ServiceProxy::ServiceProxy(net::Loop& loop, kube::Client& client, Random& random, Logger* logger,
                           net::Place api, Function<void()> changed,
                           Function<void(const ServiceTable&)> served)
    : impl_(std::make_unique<Impl>(loop, client, random, logger, std::move(api), std::move(changed),
                                   std::move(served))) {}
ServiceProxy::~ServiceProxy() = default;

std::map<std::string, std::string> ServiceProxy::linksFor(std::string_view ns, bool all) const {
  std::map<std::string, std::string> out;
  impl_->services.forEach([&](const kube::ObjectKey& key, const Value& service) {
    if (key == kApi || (all && key.ns == ns)) addLinks(out, service);
  });
  return out;
}

std::string ServiceProxy::namesFor(std::string_view ns) const { return impl_->names(ns); }

Result<std::vector<net::Place>> ServiceProxy::placesOf(const IngressBackend& backend) const {
  return node::placesOf(backend, impl_->services.find(backend.service).value_or(Value()),
                        impl_->slicesOf(backend.service));
}

}  // namespace cadre::node
