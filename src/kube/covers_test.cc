#include "kube/covers.h"

#include "base/format.h"
#include "base/strings.h"
#include "json/write.h"
#include "json/yaml.h"

namespace cadre::kube {
namespace {

json::Value yaml(std::string_view text) {
  auto documents = json::parseYaml(text, "case");
  EXPECT_TRUE(documents.ok()) << text << ": " << documents.error().text();
  return documents && !documents->empty() ? (*documents)[0].value : json::Value();
}

// "spec.replicas: 1 -> 3"; "-" for what is not there; empty where nothing differs.
std::string inWords(const std::optional<json::Change>& change) {
  if (!change) return "";
  auto text = [](const std::optional<json::Value>& value) {
    return value ? json::write(*value) : "-";
  };
  return format("{}: {} -> {}", change->path, text(change->from), text(change->to));
}
std::string difference(Type type, const json::Value& observed, const json::Value& desired) {
  return inWords(covers(type, observed, desired));
}

struct Case {
  std::string_view what, kind, observed, desired, difference;
};

// Kinds as "group/version Kind"; observed and desired are YAML.
constexpr Case kCases[] = {
    // Values.
    {"the same", "apps/v1 Deployment", "{spec: {replicas: 3}}", "{spec: {replicas: 3}}", ""},
    {"another value", "apps/v1 Deployment", "{spec: {replicas: 3}}", "{spec: {replicas: 1}}",
     "spec.replicas: 3 -> 1"},
    {"not there", "apps/v1 Deployment", "{}", "{spec: {paused: true}}", "spec.paused: - -> true"},
    {"more than desired", "v1 Pod", "{spec: {nodeName: a, hostname: b}}", "{spec: {hostname: b}}",
     ""},
    {"another type of value", "v1 Pod", "{spec: {hostname: b}}", "{spec: {hostname: [b]}}",
     "spec.hostname: \"b\" -> [\"b\"]"},
    {"a struct where none belongs", "v1 Pod", "{spec: {hostname: b}}", "{spec: none}",
     "spec: {\"hostname\":\"b\"} -> \"none\""},
    {"quantities by amount", "v1 PersistentVolumeClaim",
     "{spec: {resources: {requests: {storage: 1Gi, x: '1'}}}}",
     "{spec: {resources: {requests: {storage: 1024Mi, x: 1000m}}}}", ""},
    {"a quantity as a number", "v1 PersistentVolumeClaim",
     "{spec: {resources: {requests: {storage: '1'}}}}",
     "{spec: {resources: {requests: {storage: 1}}}}", ""},
    {"another amount", "v1 PersistentVolumeClaim", "{spec: {resources: {requests: {storage: 1G}}}}",
     "{spec: {resources: {requests: {storage: 1Gi}}}}",
     "spec.resources.requests.storage: \"1G\" -> \"1Gi\""},
    {"no quantity at all", "v1 PersistentVolumeClaim",
     "{spec: {resources: {requests: {storage: 1G}}}}",
     "{spec: {resources: {requests: {storage: much}}}}",
     "spec.resources.requests.storage: \"1G\" -> \"much\""},
    {"ports by text", "v1 Service", "{spec: {ports: [{port: 1, targetPort: 80}]}}",
     "{spec: {ports: [{port: 1, targetPort: '80'}]}}", ""},
    {"another port", "v1 Service", "{spec: {ports: [{port: 1, targetPort: 80}]}}",
     "{spec: {ports: [{port: 1, targetPort: http}]}}",
     "spec.ports[port=1,protocol=\"TCP\"].targetPort: 80 -> \"http\""},
    {"times by instant, in seconds", "v1 Pod", "{status: {startTime: '2026-01-01T10:00:00Z'}}",
     "{status: {startTime: '2026-01-01T12:00:00.5+02:00'}}", ""},
    {"lease times in microseconds", "coordination.k8s.io/v1 Lease",
     "{spec: {renewTime: '2026-01-01T10:00:00.500000Z'}}",
     "{spec: {renewTime: '2026-01-01T10:00:00.5Z'}}", ""},
    {"another lease time", "coordination.k8s.io/v1 Lease",
     "{spec: {renewTime: '2026-01-01T10:00:00.500000Z'}}",
     "{spec: {renewTime: '2026-01-01T10:00:00.6Z'}}",
     "spec.renewTime: \"2026-01-01T10:00:00.500000Z\" -> \"2026-01-01T10:00:00.6Z\""},
    {"bytes", "v1 Secret", "{data: {a: QQ==}}", "{data: {a: QQ}}", ""},
    {"text of a secret", "v1 Secret", "{data: {a: QQ==}}", "{stringData: {a: A}}", ""},
    {"other text of a secret", "v1 Secret", "{data: {a: QQ==}}", "{stringData: {a: B}}",
     "data.a: \"QQ==\" -> \"Qg==\""},

    // What is empty and what is not there.
    {"empties are left out", "v1 Pod", "{spec: {}}",
     "{spec: {hostname: '', hostNetwork: false, priority: null, tolerations: [], nodeSelector: {}, "
     "containers: []}}",
     ""},
    {"an empty value where another is", "v1 Pod", "{spec: {hostNetwork: true}}",
     "{spec: {hostNetwork: false}}", "spec.hostNetwork: true -> false"},
    {"pointers tell empty from absent", "apps/v1 Deployment", "{spec: {}}", "{spec: {replicas: 0}}",
     "spec.replicas: - -> 0"},
    {"an empty struct behind a pointer", "v1 Pod", "{spec: {volumes: [{name: a}]}}",
     "{spec: {volumes: [{name: a, emptyDir: {}}]}}", "spec.volumes[name=\"a\"].emptyDir: - -> {}"},
    {"an empty struct", "apps/v1 Deployment", "{}", "{spec: {strategy: {}}, status: {}}", ""},
    {"null asks for nothing", "v1 Pod", "{metadata: {creationTimestamp: '2026-01-01T10:00:00Z'}}",
     "{metadata: {creationTimestamp: null}}", ""},
    {"entries of a map are never left out", "v1 Pod", "{metadata: {labels: {}}}",
     "{metadata: {labels: {a: ''}}}", "metadata.labels.a: - -> \"\""},
    {"lists have no kind in their items", "v1 Pod", "{metadata: {name: a}}",
     "{apiVersion: v1, kind: Pod, metadata: {name: a}}", ""},

    // Maps.
    {"others have labels too", "v1 Pod", "{metadata: {labels: {a: b, c: d}}}",
     "{metadata: {labels: {a: b}}}", ""},
    {"a label with a long name", "v1 Pod", "{metadata: {labels: {a.b/c: d}}}",
     "{metadata: {labels: {a.b/c: e}}}", "metadata.labels[\"a.b/c\"]: \"d\" -> \"e\""},
    {"atomic maps are exact", "v1 Service", "{spec: {selector: {a: b, c: d}}}",
     "{spec: {selector: {a: b}}}", "spec.selector.c: \"d\" -> -"},
    {"atomic structs get defaults", "v1 Pod",
     "{spec: {containers: [{name: a, env: [{name: b, valueFrom: {fieldRef: {apiVersion: v1, "
     "fieldPath: c}}}]}]}}",
     "{spec: {containers: [{name: a, env: [{name: b, valueFrom: {fieldRef: {fieldPath: c}}}]}]}}",
     ""},
    {"atomic structs have no more lists", "apps/v1 Deployment",
     "{spec: {selector: {matchLabels: {a: b}, matchExpressions: [{key: c, operator: Exists}]}}}",
     "{spec: {selector: {matchLabels: {a: b}}}}",
     "spec.selector.matchExpressions: [{\"key\":\"c\",\"operator\":\"Exists\"}] -> -"},

    // Lists.
    {"containers by name", "v1 Pod",
     "{spec: {containers: [{name: side, image: s}, {name: main, image: 'm:1', imagePullPolicy: "
     "Always}]}}",
     "{spec: {containers: [{name: main, image: 'm:1'}]}}", ""},
    {"another image", "v1 Pod", "{spec: {containers: [{name: side}, {name: main, image: 'm:1'}]}}",
     "{spec: {containers: [{name: main, image: 'm:2'}]}}",
     "spec.containers[name=\"main\"].image: \"m:1\" -> \"m:2\""},
    {"a container that is not there", "v1 Pod", "{spec: {containers: [{name: side}]}}",
     "{spec: {containers: [{name: main}]}}",
     "spec.containers[name=\"main\"]: - -> {\"name\":\"main\"}"},
    {"keys with defaults", "v1 Pod",
     "{spec: {containers: [{name: a, ports: [{containerPort: 53, protocol: UDP}, {containerPort: "
     "53, "
     "protocol: TCP, name: dns}]}]}}",
     "{spec: {containers: [{name: a, ports: [{containerPort: 53, name: dns}]}]}}", ""},
    {"of several with the same key one is enough", "v1 Pod",
     "{spec: {containers: [{name: a, env: [{name: b, value: '1'}, {name: b, value: '2'}]}]}}",
     "{spec: {containers: [{name: a, env: [{name: b, value: '2'}]}]}}", ""},
    {"sets", "v1 Pod", "{metadata: {finalizers: [c/d, a/b]}}", "{metadata: {finalizers: [a/b]}}",
     ""},
    {"not in the set", "v1 Pod", "{metadata: {finalizers: [c/d]}}",
     "{metadata: {finalizers: [a/b]}}", "metadata.finalizers[\"a/b\"]: - -> \"a/b\""},
    {"atomic lists in order", "v1 Pod", "{spec: {containers: [{name: a, args: [b, c]}]}}",
     "{spec: {containers: [{name: a, args: [c, b]}]}}",
     "spec.containers[name=\"a\"].args[0]: \"b\" -> \"c\""},
    {"atomic lists of one length", "v1 Pod", "{spec: {containers: [{name: a, args: [b, c]}]}}",
     "{spec: {containers: [{name: a, args: [b]}]}}",
     "spec.containers[name=\"a\"].args: [\"b\",\"c\"] -> [\"b\"]"},
    {"atomic lists of structs get defaults", "v1 Pod",
     "{spec: {tolerations: [{key: a, operator: Exists, effect: NoExecute}]}}",
     "{spec: {tolerations: [{key: a, operator: Exists}]}}", ""},
    {"an empty atomic list", "v1 Pod", "{spec: {tolerations: [{key: a}]}}",
     "{spec: {tolerations: []}}", "spec.tolerations: [{\"key\":\"a\"}] -> []"},

    // Without a type.
    {"custom: more than desired", "example.com/v1 Thing", "{spec: {a: 1, b: 2}}", "{spec: {a: 1}}",
     ""},
    {"custom: lists element by element", "example.com/v1 Thing", "{spec: [{a: 1, b: 2}]}",
     "{spec: [{a: 1}]}", ""},
    {"custom: lists of one length", "example.com/v1 Thing", "{spec: [1, 2]}", "{spec: [1]}",
     "spec: [1,2] -> [1]"},
    {"custom: another element", "example.com/v1 Thing", "{spec: [1, {a: 2}]}",
     "{spec: [1, {a: 3}]}", "spec[1].a: 2 -> 3"},
    {"custom: numbers by meaning", "example.com/v1 Thing", "{spec: 1}", "{spec: 1.0}", ""},
    {"custom: empty is not absent", "example.com/v1 Thing", "{}", "{spec: {}}", "spec: - -> {}"},
    {"custom: null asks for nothing", "example.com/v1 Thing", "{}", "{spec: null}", ""},
};

TEST(Covers, Table) {
  for (const Case& c : kCases) {
    auto [api_version, kind] = cut(c.kind, " ");
    Type type = Type::of(*GroupVersionKind::parse(api_version, kind));
    EXPECT_EQ(bool(type), !c.what.starts_with("custom")) << c.what;
    EXPECT_EQ(difference(type, yaml(c.observed), yaml(c.desired)), c.difference) << c.what;
  }
}

TEST(Added, Table) {
  constexpr std::string_view kPods =
      "{spec: {template: {spec: {containers: [{name: a, image: i}]}}}}";
  constexpr std::string_view kService = "{spec: {ports: [{port: 80}], selector: {app: a}}}";
  constexpr Case kAdded[] = {
      {"what a server makes of it", "apps/v1 Deployment",
       "{spec: {replicas: 3, revisionHistoryLimit: 10, progressDeadlineSeconds: 600, strategy: "
       "{type: RollingUpdate, rollingUpdate: {maxSurge: 25%, maxUnavailable: 25%}}, template: "
       "{metadata: {annotations: {x: y}}, spec: {restartPolicy: Always, securityContext: {}, "
       "dnsPolicy: ClusterFirst, containers: [{name: a, image: i, imagePullPolicy: Always, "
       "resources: {}}]}}}, status: {replicas: 1}}",
       kPods, ""},
      {"a container", "apps/v1 Deployment",
       "{spec: {template: {spec: {containers: [{name: a, image: i}, {name: b}]}}}}", kPods,
       R"(spec.template.spec.containers[name="b"]: {"name":"b"} -> -)"},
      {"a variable", "apps/v1 Deployment",
       "{spec: {template: {spec: {containers: [{name: a, image: i, env: [{name: X}]}]}}}}", kPods,
       R"(spec.template.spec.containers[name="a"].env: [{"name":"X"}] -> -)"},
      {"a right", "apps/v1 Deployment",
       "{spec: {template: {spec: {containers: [{name: a, securityContext: {privileged: true}}]}}}}",
       kPods, R"(spec.template.spec.containers[name="a"].securityContext.privileged: true -> -)"},
      {"the node's network", "apps/v1 Deployment",
       "{spec: {template: {spec: {hostNetwork: true}}}}", kPods,
       "spec.template.spec.hostNetwork: true -> -"},
      {"another value than the server's", "apps/v1 Deployment",
       "{spec: {template: {spec: {dnsPolicy: None}}}}", kPods,
       "spec.template.spec.dnsPolicy: \"None\" -> -"},
      {"another strategy", "apps/v1 Deployment", "{spec: {strategy: {type: Recreate}}}", kPods,
       "spec.strategy.type: \"Recreate\" -> -"},
      {"another account", "apps/v1 Deployment",
       "{spec: {template: {spec: {serviceAccount: b, serviceAccountName: b}}}}", kPods,
       "spec.template.spec.serviceAccountName: \"b\" -> -"},
      {"a node", "apps/v1 Deployment", "{spec: {template: {spec: {nodeSelector: {a: b}}}}}", kPods,
       "spec.template.spec.nodeSelector.a: \"b\" -> -"},
      {"nothing is something behind a pointer", "apps/v1 Deployment",
       "{spec: {template: {spec: {containers: [{name: a, securityContext: {runAsUser: 0}}]}}}}",
       kPods, R"(spec.template.spec.containers[name="a"].securityContext.runAsUser: 0 -> -)"},
      {"no is something behind a pointer", "apps/v1 Deployment",
       "{spec: {template: {spec: {enableServiceLinks: false}}}}", kPods,
       "spec.template.spec.enableServiceLinks: false -> -"},
      {"and nothing where there is none", "apps/v1 Deployment",
       "{spec: {paused: false, template: {spec: {hostNetwork: false, volumes: []}}}}", kPods, ""},
      {"the same key twice", "apps/v1 Deployment",
       "{spec: {template: {spec: {containers: [{name: a, env: [{name: X}, {name: X, value: "
       "z}]}]}}}}",
       "{spec: {template: {spec: {containers: [{name: a, env: [{name: X}]}]}}}}",
       R"(spec.template.spec.containers[name="a"].env[name="X"]: {"name":"X","value":"z"} -> -)"},
      {"another order", "apps/v1 Deployment",
       "{spec: {template: {spec: {initContainers: [{name: b}, {name: a}]}}}}",
       "{spec: {template: {spec: {initContainers: [{name: a}, {name: b}]}}}}",
       R"(spec.template.spec.initContainers[name="b"]: {"name":"b"} -> -)"},
      {"in an element of an atomic list", "apps/v1 Deployment",
       "{spec: {template: {spec: {tolerations: [{key: a, tolerationSeconds: 1}]}}}}",
       "{spec: {template: {spec: {tolerations: [{key: a}]}}}}",
       "spec.template.spec.tolerations[0].tolerationSeconds: 1 -> -"},
      {"in an atomic struct", "apps/v1 Deployment",
       "{spec: {template: {spec: {containers: [{name: a, env: [{name: X, valueFrom: {secretKeyRef: "
       "{name: s, key: k, optional: true}}}]}]}}}}",
       "{spec: {template: {spec: {containers: [{name: a, env: [{name: X, valueFrom: {secretKeyRef: "
       "{name: s, key: k}}}]}]}}}}",
       R"(spec.template.spec.containers[name="a"].env[name="X"].valueFrom.secretKeyRef.optional: true -> -)"},
      {"a Service for one node", "v1 Service", "{spec: {internalTrafficPolicy: Local}}", kService,
       "spec.internalTrafficPolicy: \"Local\" -> -"},
      {"a key of a ConfigMap", "v1 ConfigMap",
       "{apiVersion: v1, kind: ConfigMap, metadata: {name: x}, data: {a: b, c: d}}",
       "{data: {a: b}}", "data.c: \"d\" -> -"},
      {"a Service as a server has it", "v1 Service",
       "{spec: {type: ClusterIP, clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1], ipFamilies: [IPv4], "
       "sessionAffinity: None, selector: {app: a}, ports: [{port: 80, protocol: TCP, targetPort: "
       "80}]}}",
       kService, ""},
      {"a port", "v1 Service",
       "{spec: {selector: {app: a}, ports: [{port: 80, protocol: TCP}, {port: 81}]}}", kService,
       R"(spec.ports[port=81,protocol="TCP"]: {"port":81} -> -)"},
      {"an address", "v1 Service", "{spec: {externalIPs: [1.2.3.4]}}", kService,
       R"(spec.externalIPs: ["1.2.3.4"] -> -)"},
      {"another way in", "v1 Service", "{spec: {type: NodePort}}", kService,
       "spec.type: \"NodePort\" -> -"},
      {"a kind that is not known", "x/v1 Route", "{spec: {more: true}}", "{spec: {}}", ""},
  };
  for (const Case& c : kAdded) {
    auto [api_version, kind] = cut(c.kind, " ");
    Type type = Type::of(*GroupVersionKind::parse(api_version, kind));
    EXPECT_EQ(inWords(added(type, yaml(c.observed), yaml(c.desired))), c.difference) << c.what;
  }
}

TEST(Covers, AsLongAsTheObjectsAre) {
  json::Array have, want;
  for (int i = 0; i < 50'000; ++i) {
    have.push_back(json::Object{{"name", format("c{}", i)}});
    want.push_back(json::Object{{"name", format("c{}", 49'999 - i)}});
  }
  json::Value observed = json::Object{{"spec", json::Object{{"containers", std::move(have)}}}};
  json::Value desired = json::Object{{"spec", json::Object{{"containers", std::move(want)}}}};
  EXPECT_EQ(difference(Type::of("", "v1", "Pod"), observed, desired), "");
}

}  // namespace
}  // namespace cadre::kube
