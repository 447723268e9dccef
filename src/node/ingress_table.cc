#include "node/ingress_table.h"

#include <algorithm>

#include "base/format.h"
#include "base/strings.h"

namespace cadre::node {
namespace {

using json::Value;

constexpr std::string_view kOldClass = "kubernetes.io/ingress.class";  // as an annotation

std::optional<IngressBackend> backendOf(const Value& ingress, const Value& backend) {
  if (!backend.isObject()) return std::nullopt;
  const Value& port = backend["service"]["port"];
  return IngressBackend{{std::string(kube::ns(ingress)), backend["service"]["name"].string()},
                        port["number"].isInteger() ? port["number"] : port["name"]};
}

// "web.example.com" of "Web.Example.com.:8080".
std::string hostName(std::string_view host) {
  if (!host.starts_with('[')) host = host.substr(0, host.rfind(':'));
  if (host.ends_with('.')) host.remove_suffix(1);
  return lower(host);
}

}  // namespace

bool isServed(const Value& ingress) {
  if (kube::isDeleting(ingress)) return false;
  const Value& name = ingress["spec"]["ingressClassName"];
  const Value& old = ingress["metadata"]["annotations"][kOldClass];
  const Value& asked = name.isString() ? name : old;
  return !asked.isString() || asked.string() == kIngressClass;
}

std::string IngressBackend::text() const {
  return port.isInteger() ? std::to_string(port.integer()) : port.string();
}

Result<std::vector<net::Place>> placesOf(const IngressBackend& backend, const Value& service,
                                         const kube::Slices& slices) {
  if (backend.service.name.empty())
    return Error{.code = Code::Unavailable,
                 .message = "the Ingress leads to something else than a Service"};
  return kube::placesOf(backend.service, service, backend.port, slices);
}

IngressTable::IngressTable(std::vector<Value> ingresses) {
  std::erase_if(ingresses, [](const Value& one) { return !isServed(one); });
  std::ranges::sort(ingresses, {}, [](const Value& one) {
    return std::tuple(one["metadata"]["creationTimestamp"].string(), kube::ObjectKey::of(one));
  });
  for (const Value& ingress : ingresses) add(ingress);
}

void IngressTable::add(const Value& ingress) {
  auto otherwise = backendOf(ingress, ingress["spec"]["defaultBackend"]);
  if (!otherwise_) otherwise_ = otherwise;
  for (const Value& rule : ingress["spec"]["rules"].array()) {
    Host& host = hosts_[lower(rule["host"].string())];
    if (!host.otherwise) host.otherwise = otherwise;
    for (const Value& path : rule["http"]["paths"].array()) {
      Path one{.exact = path["pathType"].string() == "Exact", .path = path["path"].string()};
      if (auto to = backendOf(ingress, path["backend"])) one.to = *std::move(to);
      while (!one.exact && one.path.ends_with('/')) one.path.pop_back();
      auto rank = [](const Path& of) { return std::pair(of.exact, of.path.size()); };
      auto place = std::ranges::upper_bound(host.paths, rank(one), std::greater(), rank);
      host.paths.insert(place, std::move(one));
    }
  }
}

bool IngressTable::Path::matches(std::string_view asked) const {
  if (exact || !asked.starts_with(path)) return asked == path;
  return asked.size() == path.size() || path.empty() || asked[path.size()] == '/';
}

const IngressTable::Host* IngressTable::hostFor(const std::string& name) const {
  auto dot = name.find('.');
  for (const std::string& one :
       {name, dot == name.npos || dot == 0 ? "" : "*" + name.substr(dot), std::string()})
    if (auto found = hosts_.find(one); found != hosts_.end()) return &found->second;
  return nullptr;
}

std::optional<IngressBackend> IngressTable::find(std::string_view host,
                                                 std::string_view path) const {
  if (const Host* found = hostFor(hostName(host))) {
    for (const Path& one : found->paths)
      if (one.matches(path)) return one.to;
    if (found->otherwise) return found->otherwise;
  }
  return otherwise_;
}

}  // namespace cadre::node
