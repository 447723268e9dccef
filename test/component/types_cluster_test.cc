// The table of built-in types against a real kube-apiserver: what is said of its fields, and what
// is made of it. tools/test starts the server and says where it is: CADRE_TEST_KUBECONFIG.
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include <unistd.h>

#include "base/format.h"
#include "json/diff.h"
#include "json/write.h"
#include "json/yaml.h"
#include "kube/client.h"
#include "kube/covers.h"
#include "kube/discovery.h"
#include "kube/strategic_merge.h"
#include "kube/watch.h"

namespace cadre::kube {
namespace {

constexpr Duration kSoon = 60s;
const Resource kNamespaces{
    .version = "v1", .plural = "namespaces", .kind = "Namespace", .namespaced = false};

json::Value yaml(std::string_view text) {
  auto documents = json::parseYaml(text, "case");
  EXPECT_TRUE(documents.ok()) << text << ": " << documents.error().text();
  return documents && !documents->empty() ? (*documents)[0].value : json::Value();
}

// One server, one namespace, and the objects of objects.yaml in it, for all tests.
class TypesClusterTest : public testing::Test {
 protected:
  struct Sample {
    Resource resource;
    json::Value desired;
    ObjectKey key() const { return ObjectKey::of(desired); }
    Type type() const { return Type::of(resource.gvk()); }
    std::string text() const { return resource.gvk().text() + " " + key().name; }
  };
  static inline std::unique_ptr<net::Loop> loop;
  static inline std::unique_ptr<Client> client;
  static inline std::string ns;
  static inline std::vector<Sample> samples;

  template <class Start>
  static Result<json::Value> run(Start start) {
    return net::await<json::Value>(*loop, std::move(start), kSoon);
  }
  template <class Start>
  static json::Value must(Start start) {
    auto result = run(std::move(start));
    EXPECT_TRUE(result) << result.error().text();
    return result ? *std::move(result) : json::Value();
  }
  static json::Value get(const Sample& sample) {
    return must(
        [&](auto done) { return client->get(sample.resource, sample.key(), std::move(done)); });
  }

  // The objects of a kind by name, as a list gives them, in pages, and as a watch does.
  struct Both {
    std::map<std::string, json::Value> listed, watched;
  };
  static Both read(const Resource& resource, bool json_only, bool managed_fields) {
    Both out;
    auto page = net::await<ListPage>(
        *loop,
        [&](auto done) {
          return client->listPage(
              resource, {.page = 0, .drop_managed_fields = !managed_fields, .json_only = json_only},
              [&](json::Value item) { out.listed[std::string(name(item))] = std::move(item); },
              std::move(done));
        },
        kSoon);
    EXPECT_TRUE(page) << page.error().text();
    EXPECT_FALSE(page && page->resource_version.empty());
    bool complete = false;
    auto watch = client->watch(
        resource,
        {.initial_events = true, .drop_managed_fields = !managed_fields, .json_only = json_only},
        [&](EventType type, json::Value object) {
          complete = type == EventType::Bookmark;
          std::string key = complete ? "the bookmark" : std::string(name(object));
          if (complete) object.make("metadata").makeObject().erase("resourceVersion");
          out.watched[key] = std::move(object);
        },
        [](Result<> end) { ADD_FAILURE() << (end ? "ended" : end.error().text()); });
    EXPECT_TRUE(loop->runUntil([&] { return complete; }, kSoon)) << resource.kind;
    return out;
  }

  static void SetUpTestSuite() {
    const char* kubeconfig = std::getenv("CADRE_TEST_KUBECONFIG");
    ASSERT_TRUE(kubeconfig) << "run this by tools/test, which starts the API server that it needs";
    loop = std::make_unique<net::Loop>();
    auto config = loadConfig({.kubeconfig = kubeconfig, .env = {}});
    ASSERT_TRUE(config) << config.error().text();
    client = *Client::connect(*loop, *config);
    ns = format("types-{}", ::getpid());
    must([&](auto done) {
      return client->create(kNamespaces, yaml(format("{{metadata: {{name: {}}}}}", ns)), {},
                            std::move(done));
    });
    readSamples();
    for (Sample& sample : samples) {
      json::Value made = must([&](auto done) {
        return client->create(sample.resource, sample.desired, {}, std::move(done));
      });
      EXPECT_FALSE(uid(made).empty()) << sample.text();
      const json::Value* status = sample.desired.object().find("status");
      if (!status) continue;
      must([&](auto done) {
        return client->patch(sample.resource, sample.key(), PatchType::Merge,
                             json::Object{{"status", *status}}, {.subresource = "status"},
                             std::move(done));
      });
    }
  }
  static void TearDownTestSuite() {
    for (const Sample& sample : samples) {
      (void)run([&](auto done) {  // lets go of what has finalizers
        return client->patch(sample.resource, sample.key(), PatchType::Merge,
                             yaml("{metadata: {finalizers: null}}"), {}, std::move(done));
      });
      (void)run([&](auto done) {
        return client->remove(sample.resource, sample.key(), {.grace_seconds = 0}, std::move(done));
      });
    }
    samples.clear();
    client.reset();
    loop.reset();
  }

  static void readSamples() {
    std::ifstream file(CADRE_OBJECTS);
    std::stringstream text;
    text << file.rdbuf();
    std::string objects = text.str();
    for (std::size_t at = 0; (at = objects.find("$NS")) != objects.npos;)
      objects.replace(at, 3, ns);
    auto documents = json::parseYaml(objects, CADRE_OBJECTS);
    ASSERT_TRUE(documents) << documents.error().text();
    auto discovery = net::await<Discovery>(
        *loop, [&](auto done) { return Discovery::load(*client, std::move(done)); }, kSoon);
    ASSERT_TRUE(discovery) << discovery.error().text();
    for (const json::Document& document : *documents) {
      const ServedResource* served = discovery->find(*GroupVersionKind::of(document.value));
      ASSERT_TRUE(served) << json::write(document.value);
      Sample sample{.resource = served->resource, .desired = document.value};
      if (sample.resource.namespaced) sample.desired.make("metadata").make("namespace") = ns;
      samples.push_back(std::move(sample));
    }
  }
};

TEST_F(TypesClusterTest, CoversWhatWasCreated) {
  ASSERT_FALSE(samples.empty());
  for (const Sample& sample : samples) {
    EXPECT_TRUE(sample.type()) << sample.text();
    auto difference = covers(sample.type(), get(sample), sample.desired);
    EXPECT_FALSE(difference) << sample.text() << ": " << json::formatDiff({*difference});
  }
}

// What a server fills in is not taken for what somebody added: not in what others make whole, nor
// in the pods of a Deployment, whatever a user says of them.
TEST_F(TypesClusterTest, NothingWasAddedToWhatWasCreated) {
  auto nothingAdded = [](Type type, const json::Value& there, const json::Value& desired,
                         const std::string& what) {
    auto more = added(type, there, desired);
    EXPECT_FALSE(more) << what << ": " << json::formatDiff({*more});
  };
  const std::set<std::string> kWhole{"Deployment", "StatefulSet", "DaemonSet", "Service",
                                     "ConfigMap"};
  auto deployments = std::ranges::find(samples, "Deployment", [](auto& one) {
                       return one.resource.kind;
                     })->resource;
  int pods = 0;
  for (const Sample& sample : samples) {
    if (kWhole.contains(sample.resource.kind))
      nothingAdded(sample.type(), get(sample), sample.desired, sample.text());
    if (sample.resource.kind != "Pod") continue;
    json::Value spec = sample.desired["spec"];
    for (std::string_view field : {"restartPolicy", "ephemeralContainers", "activeDeadlineSeconds"})
      spec.makeObject().erase(field);
    json::Value labels = json::Object{{"a", "b"}};
    json::Value desired = json::Object{
        {"apiVersion", "apps/v1"},
        {"kind", "Deployment"},
        {"metadata", json::Object{{"name", format("pods-{}", ++pods)}, {"namespace", ns}}},
        {"spec",
         json::Object{{"selector", json::Object{{"matchLabels", labels}}},
                      {"template", json::Object{{"metadata", json::Object{{"labels", labels}}},
                                                {"spec", spec}}}}}};
    json::Value made = must([&](auto done) {
      return client->create(deployments, desired, {.dry_run = true}, std::move(done));
    });
    nothingAdded(Type::of(deployments.gvk()), made, desired, sample.text());
  }
  EXPECT_GT(pods, 0);
}

// Every member that a server shows is known, so nothing falls to comparison without a type.
void findUnknown(Type type, const json::Value& value, const std::string& path) {
  if (type.form() == Form::List || type.form() == Form::Map) {
    for (const json::Value& element : value.array()) findUnknown(type.element(), element, path);
    for (const auto& [key, member] : value.object()) findUnknown(type.element(), member, path);
  } else if (type.form() == Form::Struct) {
    for (const auto& [key, member] : value.object()) {
      auto field = type.field(key);
      EXPECT_TRUE(field) << path << json::pathStep(key) << " is not in the table";
      if (field) findUnknown(field->type(), member, path + json::pathStep(key));
    }
  }
}

TEST_F(TypesClusterTest, KnowsEveryField) {
  for (const Sample& sample : samples) findUnknown(sample.type(), get(sample), sample.text());
}

TEST_F(TypesClusterTest, MergesStrategicallyAsTheServer) {
  struct Case {
    std::string_view kind, patch;
  };
  const Case cases[] = {
      {"Deployment",
       "{spec: {replicas: 2, template: {spec: {containers: [{name: side, image: 's:2'}]}}}}"},
      {"Deployment",
       "{spec: {template: {spec: {containers: [{name: new, image: nn, env: [{name: A, value: b}]}, "
       "{name: main, $patch: delete}]}}}}"},
      {"Deployment",
       "{spec: {template: {spec: {containers: [{$patch: replace}, {name: only, image: o}]}}}}"},
      {"Deployment",
       "{spec: {template: {spec: {$setElementOrder/containers: [{name: side}, {name: main}]}}}}"},
      {"Deployment", "{spec: {strategy: {$retainKeys: [type], type: Recreate}}}"},
      {"Deployment",
       "{spec: {strategy: {type: Recreate, rollingUpdate: null}, template: {metadata: "
       "{annotations: null, "
       "labels: {extra: x}}}}}"},
      {"Deployment",
       "{spec: {template: {spec: {containers: [{name: main, ports: [{containerPort: 81}, "
       "{containerPort: 80, name: web}], resources: {$patch: replace, limits: {cpu: 2}}}]}}}}"},
      {"Deployment",
       "{spec: {template: {spec: {tolerations: [{key: a, operator: Exists}], "
       "volumes: [{name: v, emptyDir: {}}]}}}}"},
      {"ConfigMap", "{metadata: {finalizers: [example.com/b], labels: {empty: null}}}"},
      {"ConfigMap",
       "{metadata: {$deleteFromPrimitiveList/finalizers: [example.com/a], "
       "$setElementOrder/finalizers: [example.com/c], finalizers: [example.com/c]}}"},
      {"Service", "{spec: {ports: [{port: 80, targetPort: 8080}, {port: 99, name: c}]}}"},
      {"Service",
       "{spec: {ports: [{port: 53, $patch: delete}], selector: {$patch: replace, c: d}}}"},
      {"ServiceAccount", "{imagePullSecrets: [{name: c}, {name: a, $patch: delete}]}"},
      {"NetworkPolicy", "{spec: {egress: [], policyTypes: [Ingress]}}"},
  };
  auto comparable = [](json::Value object) {
    for (std::string_view field : {"managedFields", "resourceVersion", "generation"})
      object.make("metadata").makeObject().erase(field);
    return json::writePretty(object);
  };
  for (const Case& c : cases) {
    auto sample = std::ranges::find(samples, c.kind, [](auto& one) { return one.resource.kind; });
    ASSERT_NE(sample, samples.end());
    json::Value theirs = must([&](auto done) {
      return client->patch(sample->resource, sample->key(), PatchType::Strategic, yaml(c.patch),
                           {.dry_run = true}, std::move(done));
    });
    auto merged = strategicMerge(sample->type(), get(*sample), yaml(c.patch));
    ASSERT_TRUE(merged) << c.patch << ": " << merged.error().text();
    json::Value ours = must([&](auto done) {
      return client->update(sample->resource, *merged, {.dry_run = true}, std::move(done));
    });
    EXPECT_EQ(comparable(ours), comparable(theirs)) << c.patch;
  }
}

void expectSame(const std::map<std::string, json::Value>& json,
                const std::map<std::string, json::Value>& protobuf, const std::string& what) {
  EXPECT_EQ(json.size(), protobuf.size()) << what;
  for (const auto& [name, object] : json) {
    auto other = protobuf.find(name);
    ASSERT_NE(other, protobuf.end()) << what << " " << name;
    // The server writes some of its own all the time: a Lease may be another one a moment later.
    if (kube::resourceVersion(object) != kube::resourceVersion(other->second)) continue;
    // As text, so that 1 and 1.0 are two things, and null is not left out.
    EXPECT_EQ(json::write(object), json::write(other->second))
        << what << " " << name << "\n"
        << json::formatDiff(json::diff(object, other->second));
  }
}

TEST_F(TypesClusterTest, ProtobufIsReadAsWhatJsonSays) {
  std::set<Resource> resources;
  for (const Sample& sample : samples) resources.insert(sample.resource);
  EXPECT_EQ(resources.size(), 40u);
  for (const Resource& resource : resources)
    for (bool managed_fields : {false, true}) {
      Both json = read(resource, true, managed_fields);
      Both protobuf = read(resource, false, managed_fields);
      EXPECT_FALSE(json.listed.empty()) << resource.kind;
      expectSame(json.listed, protobuf.listed, resource.gvk().text() + " in a list:");
      expectSame(json.watched, protobuf.watched, resource.gvk().text() + " in a watch:");
      // Others may have objects here without them.
      bool some = std::ranges::any_of(protobuf.listed, [](const auto& one) {
        return !one.second["metadata"]["managedFields"].isNull();
      });
      EXPECT_EQ(some, managed_fields) << resource.kind;
    }
}

TEST_F(TypesClusterTest, FailuresAreReadFromProtobufToo) {
  auto page = net::await<ListPage>(
      *loop,
      [&](auto done) {
        return client->listPage(
            samples[0].resource, {.continue_token = "wrong"}, [](auto) {}, std::move(done));
      },
      kSoon);
  ASSERT_FALSE(page);
  EXPECT_EQ(page.error().code, Code::InvalidArgument);
  EXPECT_EQ(page.error().reason, "BadRequest");
  EXPECT_THAT(page.error().message, testing::StartsWith("invalid continue token"));
}

}  // namespace
}  // namespace cadre::kube
