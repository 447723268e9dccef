#include "node/ingress_table.h"

#include <set>

#include "base/format.h"
#include "base/strings.h"
#include "json/yaml.h"
#include "net/http.h"

namespace cadre::node {
namespace {

using json::Value;

// Ingresses, Services and slices; namespaces and times are filled in. Backends are as short as
// "web:80".
constexpr std::string_view kObjects = R"(
- kind: Ingress
  metadata: {name: b-first, creationTimestamp: "2026-01-01T00:00:00Z"}
  rules:
    - {host: web.test, paths: ["Prefix / web:80", "Prefix /api api:http", "Exact /api/exact web:80", "Prefix /api/deep/ web:http"]}
    - {host: "*.wild.test", paths: ["ImplementationSpecific /w web:80"]}
    - {host: named.wild.test, paths: ["Exact /only web:80"]}
    - {host: Upper.Test, paths: ["Prefix / web:80"]}
    - {host: bare.test, paths: []}
    - {host: spaced.test, paths: ["Prefix /a b web:80"]}
- kind: Ingress
  metadata: {name: a-second, creationTimestamp: "2026-01-02T00:00:00Z"}
  otherwise: api:http
  rules:
    - {host: web.test, paths: ["Prefix /api web:80", "Prefix /new api:80"]}
    - {host: own.test, paths: ["Prefix /x web:80"]}
- {kind: Ingress, metadata: {name: third, creationTimestamp: "2026-01-03T00:00:00Z"}, otherwise: "web:80"}
- {kind: Ingress, metadata: {name: foreign}, class: nginx, rules: [{host: foreign.test, paths: ["Prefix / web:80"]}]}
- {kind: Ingress, metadata: {name: old, annotations: {kubernetes.io/ingress.class: nginx}}, rules: [{host: foreign.test, paths: ["Prefix / web:80"]}]}
- kind: Ingress
  metadata: {name: wrong}
  class: cadre
  rules:
    - {host: wrong.test, paths: ["Prefix /none none:80", "Prefix /port web:81", "Prefix /name web:https", "Prefix /idle idle:80", "Prefix /other :80"]}
- {kind: Service, metadata: {name: web}, spec: {ports: [{name: http, port: 80}]}}
- {kind: Service, metadata: {name: api}, spec: {clusterIP: None, ports: [{name: more, port: 81}, {name: http, port: 80}]}}
- {kind: Service, metadata: {name: idle}, spec: {ports: [{port: 80}]}}
- {kind: EndpointSlice, of: web, ports: [{name: http, port: 8080}], endpoints: [{addresses: [10.0.0.1]}, {addresses: [10.0.0.2], conditions: {ready: false}}]}
- {kind: EndpointSlice, of: api, ports: [{name: more, port: 9091}, {name: http, port: 9090}], endpoints: [{addresses: [10.0.0.3], conditions: {ready: true}}]}
- {kind: EndpointSlice, of: idle, ports: [{name: "", port: 8080}], endpoints: [{addresses: [10.0.0.4], conditions: {ready: false}}]}
)";

constexpr std::string_view kWeb = "10.0.0.1:8080", kApi = "10.0.0.3:9090";

Value backend(std::string_view text) {
  auto [name, port] = cut(text, ":");
  auto number = parseInt(port);
  return json::Object{{"service", json::Object{{"name", name},
                                               {"port", number ? json::Object{{"number", *number}}
                                                               : json::Object{{"name", port}}}}}};
}

Value ingress(const Value& one) {
  Value out = json::Object{{"metadata", one["metadata"]}, {"spec", json::Object()}};
  out.make("metadata").make("namespace") = "ns";
  Value& spec = out.make("spec");
  if (one["class"].isString()) spec.make("ingressClassName") = one["class"];
  if (one["otherwise"].isString()) spec.make("defaultBackend") = backend(one["otherwise"].string());
  json::Array rules;
  for (const Value& rule : one["rules"].array()) {
    json::Array paths;
    for (const Value& path : rule["paths"].array()) {
      const std::string& text = path.string();
      auto [type, rest] = cut(text, " ");
      std::size_t space = rest.rfind(' ');
      paths.push_back(json::Object{{"pathType", type},
                                   {"path", rest.substr(0, space)},
                                   {"backend", backend(rest.substr(space + 1))}});
    }
    rules.push_back(
        json::Object{{"host", rule["host"]}, {"http", json::Object{{"paths", std::move(paths)}}}});
  }
  spec.make("rules") = std::move(rules);
  return out;
}

struct Cluster {
  IngressTable table;
  std::map<std::string, Value> services;
  std::map<std::string, kube::Slices> slices;

  Cluster(const std::set<std::string>& without = {}) {
    std::vector<Value> ingresses;
    auto parsed = json::parseYaml(kObjects, "objects", {});
    for (const Value& one : parsed->at(0).value.array()) {
      std::string name(kube::name(one));
      if (without.contains(name)) continue;
      if (one["kind"].string() == "Ingress") ingresses.push_back(ingress(one));
      if (one["kind"].string() == "Service") services[name] = one;
      if (one["kind"].string() == "EndpointSlice") slices[one["of"].string()]["one"] = one;
    }
    table = IngressTable(std::move(ingresses));
  }

  std::string route(std::string_view host, std::string_view path) {
    auto found = table.find(host, path);
    if (!found) return "none";
    auto places = placesOf(*found, services[found->service.name], slices[found->service.name]);
    if (!places) return places.error().message;
    std::string out;
    for (const net::Place& place : *places)
      out += format("{}{}", out.empty() ? "" : " ", net::authority(place.address, place.port));
    return out;
  }
};

TEST(IngressTable, Routes) {
  struct Row {
    std::string_view host, path, to;
  };
  Cluster all;
  for (const Row& row : std::initializer_list<Row>{
           {"web.test", "/", kWeb},
           {"web.test:8080", "/anything", kWeb},
           {"WEB.test.", "/", kWeb},
           {"upper.test", "/", kWeb},
           // By path element, the longest first, Exact before all; the older Ingress has it.
           {"web.test", "/api", kApi},
           {"web.test", "/api/", kApi},
           {"web.test", "/api/x", kApi},
           {"web.test", "/apis", kWeb},
           {"web.test", "/api/exact", kWeb},
           {"web.test", "/api/exact/", kApi},
           {"web.test", "/api/deep", kWeb},
           {"web.test", "/api/deeper", kApi},
           {"web.test", "/new", kApi},
           {"spaced.test", "/a b/c", kWeb},
           // One label, not none and not two; and a name comes before it.
           {"a.wild.test", "/w", kWeb},
           {"a.b.wild.test", "/w", kApi},
           {"wild.test", "/w", kApi},
           {".wild.test", "/w", kApi},
           {"named.wild.test", "/w", kApi},
           {"named.wild.test", "/only", kWeb},
           // The default backend: of an Ingress with that host, else of the oldest.
           {"own.test", "/y", kApi},
           {"bare.test", "/", kApi},
           {"else.test", "/", kApi},
           {"", "/", kApi},
           {"foreign.test", "/", kApi},
           {"wrong.test", "/none/x", "there is no Service ns/none"},
           {"wrong.test", "/port", "the Service ns/web has no port 81"},
           {"wrong.test", "/name", "the Service ns/web has no port https"},
           {"wrong.test", "/idle", "the Service ns/idle has no ready pod"},
           {"wrong.test", "/other", "the Ingress leads to something else than a Service"},
       })
    EXPECT_EQ(all.route(row.host, row.path), row.to) << row.host << " " << row.path;

  Cluster no_default({"a-second", "third"});
  for (const Row& row : std::initializer_list<Row>{{"web.test", "/new", kWeb},
                                                   {"a.wild.test", "/v", "none"},
                                                   {"named.wild.test", "/w", "none"},
                                                   {"bare.test", "/", "none"},
                                                   {"else.test", "/", "none"},
                                                   {"foreign.test", "/", "none"}})
    EXPECT_EQ(no_default.route(row.host, row.path), row.to) << row.host << " " << row.path;
  EXPECT_EQ(Cluster({"a-second"}).route("else.test", "/"), kWeb);
  EXPECT_TRUE(IngressTable().empty());
  EXPECT_FALSE(all.table.empty());
}

}  // namespace
}  // namespace cadre::node
