#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kube/endpoints.h"

namespace cadre::node {

// The class of those Ingresses that are served, beside those that have none.
inline constexpr std::string_view kIngressClass = "cadre";

bool isServed(const json::Value& ingress);

// Where an Ingress sends a request.
struct IngressBackend {
  kube::ObjectKey service;
  json::Value port;  // by number or by name

  auto operator<=>(const IngressBackend& other) const {
    return std::tuple(service, text()) <=> std::tuple(other.service, other.text());
  }
  bool operator==(const IngressBackend&) const = default;
  std::string text() const;  // of the port
};

// Where its ready pods are; else what is missing, in words. The Service is null where there is
// none.
Result<std::vector<net::Place>> placesOf(const IngressBackend& backend, const json::Value& service,
                                         const kube::Slices& slices);

// The rules of all Ingresses that are served, as one. The name of the host decides first, the most
// exact one: web.example.com, then *.example.com (for one label), then rules without a host. Of its
// paths Exact ones come first, then the longest prefix; then the default backend of an Ingress that
// has this host, then any. Where two say the same, the oldest Ingress has it.
class IngressTable {
 public:
  IngressTable() = default;
  explicit IngressTable(std::vector<json::Value> ingresses);

  // The path is decoded.
  std::optional<IngressBackend> find(std::string_view host, std::string_view path) const;
  bool empty() const { return hosts_.empty() && !otherwise_; }

 private:
  struct Path {
    bool exact;
    std::string path;  // of a prefix without the last slash
    IngressBackend to;

    bool matches(std::string_view asked) const;
  };
  struct Host {
    std::vector<Path> paths;
    std::optional<IngressBackend> otherwise;
  };
  void add(const json::Value& ingress);
  const Host* hostFor(const std::string& name) const;

  std::map<std::string, Host> hosts_;  // empty: any
  std::optional<IngressBackend> otherwise_;
};

}  // namespace cadre::node
