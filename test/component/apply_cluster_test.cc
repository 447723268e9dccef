// Server-side apply and field ownership against a real kube-apiserver: random sequences of writes
// by several managers, and after each of them the object and its managedFields, times included,
// must be what kube/apply.h says. A sequence that fails prints its seed; CADRE_APPLY_SEEDS=7-9
// plays only those, CADRE_APPLY_SEEDS=1-500 many more.
#include <algorithm>
#include <cstdlib>

#include "base/strings.h"
#include "component/cluster_fixture.h"
#include "json/diff.h"
#include "json/patch.h"
#include "json/write.h"
#include "json/yaml.h"
#include "kube/apply.h"

namespace cadre::kube {
namespace {

using json::Array;
using json::Object;
using json::Value;

Value yaml(std::string_view text) {
  auto documents = json::parseYaml(text, "case");
  EXPECT_TRUE(documents.ok()) << text << ": " << documents.error().text();
  return documents && !documents->empty() ? (*documents)[0].value : Value();
}

const Resource kServices{.version = "v1", .plural = "services", .kind = "Service"};
const Resource kThings{
    .group = "apply.test.cadre", .version = "v1", .plural = "things", .kind = "Thing"};

const Value& thingSchema() {
  static const Value schema = yaml(R"(
type: object
properties:
  spec:
    type: object
    properties:
      text: {type: string}
      number: {type: integer}
      whole: {type: array, items: {type: string}}
      set: {type: array, x-kubernetes-list-type: set, items: {type: string}}
      numbers: {type: array, x-kubernetes-list-type: set, items: {type: integer}}
      items:
        type: array
        x-kubernetes-list-type: map
        x-kubernetes-list-map-keys: [name, zone]
        items:
          type: object
          required: [name]
          properties:
            name: {type: string}
            zone: {type: string, default: here}
            size: {type: integer}
            tags: {type: array, x-kubernetes-list-type: set, items: {type: string}}
            inner: {type: object, properties: {a: {type: string}, b: {type: string}}}
      map: {type: object, additionalProperties: {type: integer}}
      maps: {type: object, additionalProperties: {type: object, properties: {a: {type: string}, b: {type: string}}}}
      one: {type: object, x-kubernetes-map-type: atomic, properties: {a: {type: string}, b: {type: string}}}
      free: {type: object, x-kubernetes-preserve-unknown-fields: true}
      either: {x-kubernetes-int-or-string: true}
      maybe: {type: string, nullable: true}
      deep: {type: object, properties: {er: {type: object, properties: {x: {type: string}, z: {type: integer}}}}}
      other: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}
  status:
    type: object
    properties:
      phase: {type: string}
      conditions:
        type: array
        x-kubernetes-list-type: map
        x-kubernetes-list-map-keys: [type]
        items: {type: object, required: [type], properties: {type: {type: string}, status: {type: string}}}
)");
  return schema;
}

// What random objects of a kind are made of.
class Maker {
 public:
  Maker(const Resource& resource, Random& random) : resource_(resource), random_(random) {}

  bool chance(int percent) { return random_.below(100) < static_cast<unsigned>(percent); }
  std::string pick(std::initializer_list<std::string_view> choices) {
    return std::string(choices.begin()[random_.below(choices.size())]);
  }

  // As some(), but with nulls and faults now and then.
  Value applied() {
    Value out = some();
    for (const char* part : {"metadata", "data", "spec"}) {
      if (!out[part].isObject()) continue;
      for (auto& [name, member] : out.make(part).makeObject())
        if (chance(3)) member = Value();
    }
    if (!chance(10)) return out;
    const char* part = out["spec"].isObject() ? "spec" : "data";
    switch (random_.below(5)) {
      case 0:
        out.make("nonsense") = 1;
        break;
      case 1:
        out.make("metadata").make("finalizers") = Array{"test.cadre/a", "test.cadre/a"};
        break;
      case 2:
        out.make(part) = Array{1, "x"};
        break;
      case 3:
        out.make("metadata").make("labels") = Object{{"a", 1}};
        break;
      default:
        out.make("metadata").make("ownerReferences") = Array{nullptr};
    }
    return out;
  }

  // Some of the fields that such objects have, without what it cannot be without.
  Value some() {
    Object out{{"apiVersion", resource_.apiVersion()}, {"kind", resource_.kind}};
    out.set("metadata", metadata());
    if (resource_.kind == "ConfigMap") {
      if (chance(80)) out.set("data", texts(4));
      if (chance(20)) out.set("binaryData", Object{{"x", pick({"AAAA", "BBBB"})}});
    } else if (resource_.kind == "Service") {
      out.set("spec", service());
    } else if (resource_.kind == "Deployment") {
      out.set("spec", deployment());
    } else {
      out.set("spec", thing());
    }
    return out;
  }

  Value status() {
    Object out;
    if (chance(60)) out.set("phase", pick({"Up", "Down"}));
    if (chance(60)) {
      Array conditions;
      for (std::string_view type : {"A", "B", "C"})
        if (chance(50))
          conditions.push_back(Object{{"type", type}, {"status", pick({"True", "False"})}});
      out.set("conditions", shuffled(std::move(conditions)));
    }
    return out;
  }

  // With what the API asks for.
  Value complete(Value object) {
    if (resource_.kind == "Deployment") {
      Value& spec = object.make("spec");
      spec.make("selector") = yaml("{matchLabels: {app: it}}");
      Value& pod = spec.make("template");
      pod.make("metadata").make("labels").make("app") = "it";
      Array& containers = pod.make("spec").make("containers").makeArray();
      if (containers.empty()) containers.push_back(Object{{"name", "a"}, {"image", "i:1"}});
      for (Value& container : containers)
        if (container["image"].isNull()) container.make("image") = "i:1";
    }
    if (resource_.kind == "Service") {
      Array& ports = object.make("spec").make("ports").makeArray();
      if (ports.empty()) ports.push_back(yaml("{port: 80, name: web}"));
    }
    return object;
  }

  Array shuffled(Array list) {
    for (std::size_t i = list.size(); i > 1; --i) std::swap(list[i - 1], list[random_.below(i)]);
    return list;
  }

 private:
  Object texts(int most) {
    Object out;
    for (int i = 0; i < most; ++i)
      if (chance(50)) out.set(std::string(1, static_cast<char>('a' + i)), pick({"1", "2", "3"}));
    return out;
  }
  Array names(std::initializer_list<std::string_view> choices) {
    Array out;
    for (std::string_view one : choices)
      if (chance(50)) out.push_back(one);
    return shuffled(std::move(out));
  }

  Object metadata() {
    Object out;
    if (chance(40)) out.set("labels", texts(3));
    if (chance(30)) out.set("annotations", texts(2));
    if (chance(15)) {
      Array owners;
      for (std::string_view owner : {"one", "two"})
        if (chance(60))
          owners.push_back(Object{{"apiVersion", "v1"},
                                  {"kind", "Node"},
                                  {"name", pick({"x", "y"})},
                                  {"uid", format("{}", owner)}});
      out.set("ownerReferences", shuffled(std::move(owners)));
    }
    if (chance(15)) out.set("finalizers", names({"test.cadre/a", "test.cadre/b", "test.cadre/c"}));
    return out;
  }

  Value service() {
    Object out;
    if (chance(60)) out.set("selector", texts(2));
    if (chance(30)) out.set("sessionAffinity", pick({"None", "ClientIP"}));
    if (chance(70)) {
      Array ports;
      for (int port : {80, 81, 82}) {
        if (!chance(50)) continue;
        Object one{{"port", port}, {"name", format("p{}", port)}};
        if (chance(60)) one.set("targetPort", random_.below(2) ? Value(8080) : Value("web"));
        if (chance(30)) one.set("protocol", "TCP");
        if (chance(30)) one.set("appProtocol", pick({"http", "grpc"}));
        ports.push_back(std::move(one));
      }
      out.set("ports", shuffled(std::move(ports)));
    }
    return out;
  }

  Value container(std::string_view name) {
    Object out{{"name", name}};
    if (chance(70)) out.set("image", pick({"i:1", "i:2"}));
    if (chance(40)) out.set("args", names({"x", "y"}));
    if (chance(50)) {
      Array env;
      for (std::string_view variable : {"A", "B", "C"})
        if (chance(50)) env.push_back(Object{{"name", variable}, {"value", pick({"1", "2"})}});
      if (chance(10)) env.push_back(Object{{"name", "A"}, {"value", "again"}});
      out.set("env", shuffled(std::move(env)));
    }
    if (chance(40)) {
      Array ports;
      for (int port : {80, 81})
        if (chance(60)) {
          Object one{{"containerPort", port}};
          if (chance(50)) one.set("protocol", "TCP");
          if (chance(50)) one.set("name", format("n{}", port));
          ports.push_back(std::move(one));
        }
      out.set("ports", shuffled(std::move(ports)));
    }
    if (chance(30))
      out.set("resources", Object{{"limits", Object{{"cpu", pick({"1", "1000m", "2"})}}}});
    return out;
  }

  Value deployment() {
    Value out = Object();
    if (chance(40)) out.make("replicas") = random_.below(3);
    if (chance(30)) out.make("minReadySeconds") = 1 + random_.below(3);
    if (chance(20)) out.make("paused") = true;
    Value pod = Object();
    if (chance(70)) {
      Array containers;
      for (std::string_view name : {"a", "b", "c"})
        if (chance(60)) containers.push_back(container(name));
      pod.make("containers") = shuffled(std::move(containers));
    }
    if (chance(30)) pod.make("nodeSelector") = texts(2);
    if (chance(30))
      pod.make("tolerations") = Array{Object{{"operator", "Exists"}, {"key", pick({"k", "l"})}}};
    if (chance(30))
      pod.make("securityContext") =
          Object{{"runAsUser", random_.below(2)}, {"runAsNonRoot", false}};
    if (!pod.object().empty()) out.make("template").make("spec") = std::move(pod);
    return out;
  }

  Value thing() {
    Object out;
    if (chance(40)) out.set("text", pick({"x", "y"}));
    if (chance(30)) out.set("number", random_.below(3));
    if (chance(30)) out.set("whole", names({"a", "b", "c"}));
    if (chance(50)) out.set("set", names({"a", "b", "c", "d", "e"}));
    if (chance(30)) {
      Array numbers;
      for (int i : {1, 2, 10})
        if (chance(50)) numbers.push_back(i);
      out.set("numbers", shuffled(std::move(numbers)));
    }
    if (chance(60)) {
      Array items;
      for (std::string_view name : {"n", "m"})
        for (std::string_view zone : {"", "here", "there"}) {
          if (!chance(40) || (zone == "here" && !items.empty())) continue;
          Object item{{"name", name}};
          if (!zone.empty()) item.set("zone", zone);
          if (chance(50)) item.set("size", random_.below(3));
          if (chance(30)) item.set("tags", names({"p", "q"}));
          if (chance(30)) item.set("inner", texts(2));
          items.push_back(std::move(item));
        }
      out.set("items", shuffled(std::move(items)));
    }
    if (chance(40)) {
      Object map;
      for (std::string_view key : {"a", "b.c/d", "e"})
        if (chance(50)) map.set(key, random_.below(3));
      out.set("map", std::move(map));
    }
    if (chance(30)) out.set("maps", Object{{pick({"k", "l"}), texts(2)}});
    if (chance(30)) out.set("one", texts(2));
    if (chance(40))
      out.set("free", Object{{pick({"u", "v"}), texts(2)}, {"list", names({"a", "b"})}});
    if (chance(30)) out.set("either", random_.below(2) ? Value("50%") : Value(5));
    if (chance(20)) out.set("maybe", random_.below(2) ? Value("x") : Value());
    if (chance(40))
      out.set("deep", Object{{"er", Object{{"x", pick({"1", "2"})}, {"z", random_.below(2)}}}});
    if (chance(20))
      out.set("other", Object{{"apiVersion", "v1"},
                              {"kind", "Secret"},
                              {"metadata", Object{{"name", "x"}, {"labels", texts(2)}}},
                              {"data", texts(2)}});
    return out;
  }

  const Resource& resource_;
  Random& random_;
};

// As a server shows an object of the custom kind: metadata without what is empty, and the key that
// has a default.
Value asShown(Value object) {
  auto tidy = [](Value& metadata) {
    for (std::string_view name : {"labels", "annotations", "finalizers", "ownerReferences"})
      if (metadata[name].array().empty() && metadata[name].object().empty())
        metadata.makeObject().erase(name);
  };
  tidy(object.make("metadata"));
  if (object["spec"]["other"].isObject()) tidy(object.make("spec").make("other").make("metadata"));
  if (object["spec"]["items"].isArray())
    for (Value& item : object.make("spec").make("items").makeArray())
      if (item["zone"].isNull()) item.make("zone") = "here";
  return object;
}

// Of a built-in kind, what is left without what is empty and what the server puts into one by
// itself.
Value withoutDefaults(Value value) {
  static const Value kDefaults = yaml(
      "{terminationMessagePath: 0, terminationMessagePolicy: 0, imagePullPolicy: 0, protocol: 0, "
      "clusterIP: 0, clusterIPs: 0, targetPort: 0, sessionAffinityConfig: 0, cpu: 0, "
      "progressDeadlineSeconds: 0, revisionHistoryLimit: 0, strategy: 0, dnsPolicy: 0, "
      "restartPolicy: 0, schedulerName: 0, terminationGracePeriodSeconds: 0, "
      "internalTrafficPolicy: 0, ipFamilies: 0, ipFamilyPolicy: 0, type: 0}");
  if (value.isArray())
    for (Value& item : value.makeArray()) item = withoutDefaults(std::move(item));
  if (!value.isObject()) return value;
  Object out;
  for (auto& [key, member] : value.makeObject()) {
    bool by_default = kDefaults.object().contains(key) ||
                      (key == "replicas" && member == Value(1)) ||
                      (key == "sessionAffinity" && member == Value("None"));
    Value left = withoutDefaults(std::move(member));
    bool empty = left.isNull() || left == Value(false) || left == Value("") ||
                 left == Value(Object()) || left == Value(Array());
    if (!empty && !by_default) out.set(key, std::move(left));
  }
  return out;
}

// What of an object is compared.
Value compared(Value object, bool builtin) {
  object.make("metadata") = Object{{"labels", object["metadata"]["labels"]},
                                   {"annotations", object["metadata"]["annotations"]},
                                   {"finalizers", object["metadata"]["finalizers"]},
                                   {"ownerReferences", object["metadata"]["ownerReferences"]}};
  if (!builtin) return object;
  object.makeObject().erase("status");
  return withoutDefaults(std::move(object));
}

class ApplyClusterTest : public ClusterTest {
 protected:
  // One random sequence on one object.
  struct Play {
    const Resource& resource;
    Shape shape;
    bool builtin;
    Random random;
    Maker maker;
    ObjectKey key;
    Value live = {};  // as the server has it
    std::string log = {};

    Play(const Resource& resource, Shape shape, std::uint64_t seed, const std::string& ns)
        : resource(resource),
          shape(shape),
          builtin(resource.group != kThings.group),
          random(seed),
          maker(resource, random),
          key{ns, format("{}-{}", lower(resource.kind), seed)} {}
  };

  void SetUp() override {
    ClusterTest::SetUp();
    static bool made = false;
    if (made) return;
    made = true;
    Value crd = yaml(
        "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: "
        "things.apply.test.cadre}, spec: {group: apply.test.cadre, scope: Namespaced, names: "
        "{plural: things, singular: thing, kind: Thing}, versions: [{name: v1, served: true, "
        "storage: true, subresources: {status: {}}}]}}");
    Value& version = crd.make("spec").make("versions").makeArray()[0];
    version.make("schema") = Object{{"openAPIV3Schema", thingSchema()}};
    must([&](auto done) {
      return client->apply(kCrds, crd, {.field_manager = "test", .force = true}, std::move(done));
    });
    ASSERT_TRUE(eventually([&] { return isServed(kThings); }));
  }

  // What differs between what was expected and what came; nothing when it is the same.
  static std::string mismatch(const Play& play, const Value& expected, const Value& came) {
    auto managed =
        json::diff(expected["metadata"]["managedFields"], came["metadata"]["managedFields"]);
    if (!managed.empty())
      return "managedFields, expected to what came:\n" + json::formatDiff(managed) + "expected " +
             json::write(expected["metadata"]["managedFields"]) + "\ncame     " +
             json::write(came["metadata"]["managedFields"]);
    auto rest = json::diff(compared(expected, play.builtin), compared(came, play.builtin));
    if (!rest.empty()) return "object, expected to what came:\n" + json::formatDiff(rest);
    return "";
  }

  void judge(Play& play, Result<Value> came, Time before, Time after,
             const Function<Result<Value>(Time now)>& expect) {
    std::string first;
    // The server's clock is ours, but a request may take its time.
    for (Time now = std::chrono::floor<std::chrono::seconds>(before); now <= after; now += 1s) {
      Result<Value> expected = expect(now);
      std::string difference;
      if (came && expected) {
        difference = mismatch(play, *expected, *came);
      } else if (came) {
        difference = "expected a failure: " + expected.error().text();
      } else if (expected) {
        // Rules of the kind, such as what is required, are not ours.
        bool ours = came.error().code == Code::Conflict || came.error().code == Code::Internal;
        if (ours) difference = "no failure expected, but: " + came.error().text();
      } else if (expected.error().code == Code::Conflict) {
        auto sorted = [](std::vector<Detail> details) {
          std::ranges::sort(details, {}, [](const Detail& one) { return one.message + one.field; });
          return details;
        };
        if (expected.error().message != came.error().message ||
            sorted(expected.error().details) != sorted(came.error().details))
          difference = "expected " + expected.error().text() + "\ncame " + came.error().text();
      } else if (expected.error().text() != came.error().text() &&
                 expected.error().text().find('\n') == std::string::npos) {
        // Several faults come in any order.
        difference = "expected " + expected.error().text() + "\ncame " + came.error().text();
      }
      if (difference.empty()) {
        if (came) play.live = *std::move(came);
        return;
      }
      if (first.empty()) first = std::move(difference);
    }
    ADD_FAILURE() << play.key.name << "\n"
                  << play.log << first << "\nlive was " << json::write(play.live);
    if (came) play.live = *std::move(came);
  }

  Writer writer(const Play& play, const std::string& manager, Time now,
                const std::string& subresource = {}) {
    return {.manager = manager,
            .api_version = play.resource.apiVersion(),
            .subresource = subresource,
            .now = now,
            .reset = play.resource.kind == "ConfigMap"
                         ? FieldSet()
                         : resetFields(play.resource.gvk(), subresource)};
  }

  template <class Start>
  Result<Value> timed(Start start, Time& before, Time& after) {
    SystemClock clock;
    before = clock.now();
    auto result = run(std::move(start));
    after = clock.now();
    return result;
  }

  void applies(Play& play, const std::string& manager, Value config, Force force,
               const std::string& subresource = {}) {
    config.make("metadata").make("name") = play.key.name;
    config.make("metadata").make("namespace") = play.key.ns;
    play.log += format("{} applies{}{} {}\n", manager, subresource.empty() ? "" : " to status",
                       force == Force::Yes ? " with force" : "", json::write(config));
    Time before, after;
    auto came = timed(
        [&](auto done) {
          return client->apply(play.resource, config,
                               {.field_manager = manager,
                                .force = force == Force::Yes,
                                .field_validation = "Ignore",
                                .subresource = subresource},
                               std::move(done));
        },
        before, after);
    judge(play, came, before, after, [&](Time now) -> Result<Value> {
      auto out =
          apply(play.shape, play.live, config, writer(play, manager, now, subresource), force);
      if (!out || !came) return out;
      if (!play.builtin) {
        Value shown = asShown(*std::move(out));
        keepStatus(play, shown, subresource);
        return withoutNewTimes(play.live, std::move(shown));
      }
      // What a built-in kind makes of an object is not our matter here.
      Value whole = *came;
      whole.make("metadata").make("managedFields") = (*out)["metadata"]["managedFields"];
      whole = withoutNewTimes(play.live, std::move(whole));
      out->make("metadata").make("managedFields") = whole["metadata"]["managedFields"];
      return out;
    });
  }

  // One endpoint changes the status, the other the rest.
  static void keepStatus(const Play& play, Value& object, std::string_view subresource) {
    if (play.live.isNull() || play.builtin) return;
    const char* kept = subresource.empty() ? "status" : "spec";
    if (play.live.object().contains(kept))
      object.make(kept) = play.live[kept];
    else
      object.makeObject().erase(kept);
  }

  // A create, an update or a merge patch. `sent` is the whole object of it.
  template <class Start>
  void updates(Play& play, const std::string& manager, const Value& sent,
               const std::string& subresource, Start start) {
    Time before, after;
    auto came = timed(std::move(start), before, after);
    judge(play, came, before, after, [&](Time now) -> Result<Value> {
      Value whole = sent;
      if (play.builtin && came) {
        // With its defaults, but without what the server adds to a new one.
        whole = *came;
        whole.make("metadata").make("managedFields") = sent["metadata"]["managedFields"];
        if (play.live.isNull() && play.resource.kind == "Service")
          for (std::string_view added : {"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"})
            whole.make("spec").makeObject().erase(added);
      }
      whole =
          update(play.shape, play.live, std::move(whole), writer(play, manager, now, subresource));
      if (play.live.isNull()) return whole;
      keepStatus(play, whole, subresource);
      return withoutNewTimes(play.live, std::move(whole));
    });
  }

  void creates(Play& play, const std::string& manager) {
    Value object = play.maker.complete(play.maker.some());
    object.make("metadata").make("name") = play.key.name;
    object.make("metadata").make("namespace") = play.key.ns;
    play.log += format("{} creates {}\n", manager, json::write(object));
    updates(play, manager, asShown(object), {}, [&](auto done) {
      return client->create(play.resource, object, {.field_manager = manager}, std::move(done));
    });
  }

  void puts(Play& play, const std::string& manager) {
    Value object = play.live;
    Value change = play.maker.complete(play.maker.some());
    for (const auto& [name, member] : change["metadata"].object())
      object.make("metadata").make(name) = member;
    for (const auto& part : {"data", "spec"})
      for (const auto& [name, member] : change[part].object())
        if (name != "selector" || play.resource.kind != "Deployment")
          object.make(part).make(name) = member;
    switch (play.random.below(6)) {
      case 0:
        object.make("metadata").makeObject().erase("managedFields");
        break;
      case 1:
        if (play.random.below(4) == 0) object.make("metadata").make("managedFields") = Array();
        break;
      default:
        break;
    }
    Value told = object;
    if (!told["metadata"]["managedFields"].array().empty())
      told.make("metadata").make("managedFields") = "as they are";
    play.log += format("{} puts {}\n", manager, json::write(told));
    updates(play, manager, asShown(object), {}, [&](auto done) {
      return client->update(play.resource, object, {.field_manager = manager}, std::move(done));
    });
  }

  void patches(Play& play, const std::string& manager) {
    Value patch = play.maker.some();
    // Some of it goes instead.
    for (const auto& part : {"metadata", "data", "spec"}) {
      if (!patch[part].isObject()) continue;
      for (auto& [name, member] : patch.make(part).makeObject())
        if (play.maker.chance(20)) member = Value();
    }
    if (play.random.below(20) == 0) patch.make("metadata").make("managedFields") = Array{Object()};
    play.log += format("{} patches {}\n", manager, json::write(patch));
    Value sent = json::applyMergePatch(play.live, patch);
    updates(play, manager, asShown(std::move(sent)), {}, [&](auto done) {
      return client->patch(play.resource, play.key, PatchType::Merge, patch,
                           {.field_manager = manager}, std::move(done));
    });
  }

  void writesStatus(Play& play, const std::string& manager) {
    Value status = play.maker.status();
    if (play.random.below(2)) {
      Value config = Object{{"apiVersion", play.resource.apiVersion()},
                            {"kind", play.resource.kind},
                            {"status", status}};
      if (play.random.below(4) == 0) config.make("spec").make("text") = "not mine";
      return applies(play, manager, std::move(config),
                     play.random.below(2) ? Force::Yes : Force::No, "status");
    }
    Value object = play.live;
    object.make("status") = status;
    play.log += format("{} puts status {}\n", manager, json::write(status));
    updates(play, manager, object, "status", [&](auto done) {
      return client->update(play.resource, object,
                            {.field_manager = manager, .subresource = "status"}, std::move(done));
    });
  }

  void plays(const Resource& resource, Shape shape, std::uint64_t seed) {
    Play play(resource, shape, seed, ns);
    auto someone = [&] {
      return play.random.below(6) == 0 ? format("rare-{}", play.random.below(14))
                                       : format("m{}", play.random.below(4));
    };
    int count = 0;
    for (int step = 0; step < 30 && !HasFailure(); ++step) {
      std::string manager = someone();
      if (play.live.isNull()) {
        if (play.random.below(2))
          creates(play, manager);
        else
          applies(play, manager, play.maker.complete(play.maker.some()), Force::No);
        continue;
      }
      switch (play.random.below(play.builtin ? 8 : 10)) {
        case 0:
        case 1:
          puts(play, manager);
          break;
        case 2:
        case 3:
          patches(play, manager);
          break;
        case 8:
        case 9:
          writesStatus(play, manager);
          break;
        default: {
          Value config = play.maker.applied();
          if (play.random.below(3)) config = play.maker.complete(std::move(config));
          applies(play, manager, std::move(config), play.random.below(2) ? Force::Yes : Force::No);
        }
      }
      ++count;
    }
    EXPECT_GT(count, 0);
  }

  void playsAll(const Resource& resource, Shape shape) {
    std::uint64_t from = 1, to = 8;
    if (const char* seeds = std::getenv("CADRE_APPLY_SEEDS")) {
      auto [first, last] = cut(seeds, "-");
      from = static_cast<std::uint64_t>(parseInt(first).value_or(1));
      to = static_cast<std::uint64_t>(parseInt(last).value_or(static_cast<std::int64_t>(from)));
    }
    for (std::uint64_t seed = from; seed <= to && !HasFailure(); ++seed) {
      SCOPED_TRACE(format("CADRE_APPLY_SEEDS={}", seed));
      plays(resource, shape, seed);
    }
  }
};

TEST_F(ApplyClusterTest, ConfigMaps) { playsAll(kConfigMaps, Type::of(kConfigMaps.gvk())); }
TEST_F(ApplyClusterTest, Services) { playsAll(kServices, Type::of(kServices.gvk())); }
TEST_F(ApplyClusterTest, Deployments) { playsAll(kDeployments, Type::of(kDeployments.gvk())); }
TEST_F(ApplyClusterTest, CustomResources) { playsAll(kThings, Shape::ofResource(thingSchema())); }

}  // namespace
}  // namespace cadre::kube
