#include "engine/reconcile.h"

#include "base/format.h"
#include "json/parse.h"
#include "json/patch.h"
#include "json/write.h"

namespace cadre::engine {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

const kube::Resource kLamps{.group = "test", .version = "v1", .plural = "lamps", .kind = "Lamp"};
const kube::Resource kDeployments{
    .group = "apps", .version = "v1", .plural = "deployments", .kind = "Deployment"};
const kube::Resource kConfigMaps{.version = "v1", .plural = "configmaps", .kind = "ConfigMap"};
const kube::Resource kSecrets{.version = "v1", .plural = "secrets", .kind = "Secret"};
const kube::Resource kPods{.version = "v1", .plural = "pods", .kind = "Pod"};
const kube::Resource kRoles{.group = "rbac.authorization.k8s.io",
                            .version = "v1",
                            .plural = "clusterroles",
                            .kind = "ClusterRole",
                            .namespaced = false};
const Ref kDesk{kLamps, {"ns", "desk"}};

json::Value parsed(std::string_view text) { return *json::parse(text); }

json::Value desk(std::string_view more = "{}") {
  return json::applyMergePatch(
      parsed(R"({"metadata":{"name":"desk","namespace":"ns","uid":"u1","generation":4}})"),
      parsed(more));
}

Child configMap(std::string_view name, std::string_view color = "red") {
  return {.resource = kConfigMaps,
          .object = json::Object{{"metadata", json::Object{{"name", name}, {"namespace", "ns"}}},
                                 {"data", json::Object{{"color", color}}}}};
}

// A cluster in which every write is what it says.
struct Cluster {
  json::Value object = desk();
  Plan plan;
  std::map<Ref, json::Value> there;
  std::set<Ref> accepted;

  Observed observed() {
    Observed observed;
    observed.find = [this](const Ref& ref) -> std::optional<json::Value> {
      auto found = there.find(ref);
      if (found == there.end()) return std::nullopt;
      return found->second;
    };
    observed.owned = [this](std::string_view uid) {
      std::vector<Ref> owned;
      for (const auto& [ref, value] : there)
        for (const std::string& owner : kByOwner.of(value))
          if (owner == uid) owned.push_back(ref);
      return owned;
    };
    observed.is_owner = [](std::string_view uid) { return uid == "u1" || uid == "another"; };
    observed.accepted = [this](const Write& write, const json::Value&) {
      return accepted.contains(write.ref);
    };
    observed.admitted = [](const Ref& ref, json::Value value) {
      if (ref.resource == kSecrets)
        for (auto& [key, text] : value.make("data").makeObject())
          text = format("hash of {}", text.string());
      return value;
    };
    return observed;
  }
  std::vector<Write> reconcile() { return reconcileChildren(kDesk, object, plan, observed()); }
  std::vector<std::string> texts() {
    std::vector<std::string> texts;
    for (const Write& write : reconcile()) texts.push_back(write.text());
    return texts;
  }
  json::Value& at(const kube::Resource& resource, std::string_view name) {
    return there.at({resource, {"ns", std::string(name)}});
  }
  // Does what is to be done, as a server would.
  void settle() {
    for (Write& write : reconcile()) {
      switch (write.op) {
        case Write::Op::Create:
          write.object.make("metadata").make("uid") = format("uid-{}", write.ref.key.name);
          there[write.ref] = observed().admitted(write.ref, write.object);
          break;
        case Write::Op::Apply:
          there[write.ref] =
              json::applyMergePatch(there[write.ref], observed().admitted(write.ref, write.object));
          break;
        case Write::Op::Delete:
          there.erase(write.ref);
          break;
        case Write::Op::Metadata: {
          json::Value& metadata = (write.ref == kDesk ? object : there[write.ref]).make("metadata");
          metadata = json::applyMergePatch(metadata, write.object);
          break;
        }
        default:
          break;
      }
    }
  }
};

TEST(Reconcile, MakesWhatIsNotThereAndIsThenQuiet) {
  Cluster c;
  c.plan.children = {configMap("a"), configMap("b")};
  EXPECT_THAT(c.texts(), ElementsAre("create ConfigMap ns/a", "create ConfigMap ns/b"));
  c.settle();
  EXPECT_THAT(c.texts(), IsEmpty());
  const json::Value& a = c.at(kConfigMaps, "a");
  EXPECT_EQ(kube::label(a, kManagedBy), "cadre");
  EXPECT_EQ(kube::label(a, kOwnerUid), "u1");
  EXPECT_EQ(kube::controllerOf(a)->uid, "u1");
  EXPECT_THAT(std::string(kube::annotation(a, kApplied)), testing::StartsWith("c:"));
}

TEST(Reconcile, AnOwnerIsNamedOnlyWhereItCollectsGarbage) {
  struct Case {
    kube::Resource resource;
    std::string ns;
    Ref owner;
    bool owned;
  };
  kube::Resource global = kLamps;
  global.namespaced = false;
  for (const Case& c :
       {Case{kConfigMaps, "ns", kDesk, true}, Case{kConfigMaps, "other", kDesk, false},
        Case{kRoles, "", kDesk, false}, Case{kConfigMaps, "ns", {global, {"", "desk"}}, false}}) {
    json::Value object =
        json::Object{{"metadata", json::Object{{"name", "x"}, {"namespace", c.ns}}}};
    json::Value made = finished({.resource = c.resource, .object = object}, c.owner, desk());
    EXPECT_EQ(kube::controllerOf(made).has_value(), c.owned) << c.resource.kind << " " << c.ns;
    EXPECT_TRUE(belongsTo(made, "u1"));
  }
}

TEST(Reconcile, AppliesWhatDiffersAndSaysWhy) {
  struct Case {
    std::string_view what;
    std::string_view drift;  // a merge patch of what is there
    std::string_view why;
  };
  for (const Case& c :
       {Case{"a field", R"({"data":{"color":"blue"}})", "data.color differs"},
        Case{"a missing field", R"({"data":null})", "data.color differs"},
        Case{"a label", R"({"metadata":{"labels":{"app.kubernetes.io/managed-by":"x"}}})",
             "managed-by"},
        Case{"the mark of what was wanted", R"({"metadata":{"annotations":null}})",
             "something is no longer wanted"}}) {
    Cluster cluster;
    cluster.plan.children = {configMap("a")};
    cluster.settle();
    json::Value& there = cluster.at(kConfigMaps, "a");
    there = json::applyMergePatch(there, parsed(c.drift));
    auto writes = cluster.reconcile();
    ASSERT_EQ(writes.size(), 1u) << c.what;
    EXPECT_EQ(writes[0].op, Write::Op::Apply) << c.what;
    EXPECT_EQ(writes[0].uid, "uid-a");
    EXPECT_THAT(writes[0].why, HasSubstr(c.why));
    EXPECT_THAT(std::string(kube::annotation(writes[0].object, kApplied)),
                testing::StartsWith("a:"));
    cluster.settle();
    EXPECT_THAT(cluster.texts(), IsEmpty()) << c.what;
  }
}

TEST(Reconcile, WhatOthersAddIsTheirs) {
  Cluster c;
  c.plan.children = {configMap("a")};
  c.settle();
  json::Value& there = c.at(kConfigMaps, "a");
  there.make("metadata").make("annotations").make("theirs") = "yes";
  there.make("metadata").make("labels").make("theirs") = "yes";
  there.make("status") = json::Object{{"phase", "fine"}};
  EXPECT_THAT(c.texts(), IsEmpty());
}

TEST(Reconcile, WhatIsAddedToTheSpecOfAWorkloadIsTakenAway) {
  Cluster c;
  c.plan.children = {{.resource = {.group = "apps",
                                   .version = "v1",
                                   .plural = "deployments",
                                   .kind = "Deployment"},
                      .object = parsed(R"({"metadata":{"name":"web","namespace":"ns"},"spec":{
    "template":{"spec":{"containers":[{"name":"main","image":"a"}]}}}})")}};
  c.settle();
  json::Value& there = c.there.begin()->second;
  there.make("spec").make("replicas") = 7;
  json::Value& pods = there.make("spec").make("template");
  pods.make("spec").make("restartPolicy") = "Always";
  pods.make("metadata").make("annotations").make("kubectl.kubernetes.io/restartedAt") = "now";
  EXPECT_THAT(c.texts(), IsEmpty()) << "scalers, the server and a restart";
  pods.make("spec").make("hostNetwork") = true;
  auto writes = c.reconcile();
  ASSERT_EQ(writes.size(), 1u);
  EXPECT_EQ(writes[0].why, "spec.template.spec.hostNetwork was added");
  EXPECT_EQ(writes[0].take_over, Write::Whose::Everybodys);
  json::Value answer = json::applyMergePatch(there, writes[0].object);
  EXPECT_TRUE(isOtherwise(writes[0], answer)) << "a server that insists";
  json::Value raced = answer;
  raced.make("metadata").make("managedFields") = parsed(
      R"([{"manager":"kubectl","operation":"Update","fieldsV1":{"f:spec":{"f:paused":{}}}}])");
  EXPECT_FALSE(isOtherwise(writes[0], raced)) << "somebody was as fast";
  Write plain = writes[0];
  plain.take_over.reset();
  EXPECT_FALSE(isOtherwise(plain, answer)) << "nobody has tried to take it away";
  c.accepted.insert(writes[0].ref);
  EXPECT_THAT(c.texts(), IsEmpty()) << "is not fought with";
}

TEST(Reconcile, AFieldThatIsDroppedIsNoticed) {
  Cluster c;
  c.plan.children = {configMap("a")};
  c.settle();
  c.plan.children[0].object.make("data").makeObject().erase("color");
  auto writes = c.reconcile();
  ASSERT_EQ(writes.size(), 1u);
  EXPECT_EQ(writes[0].why, "something is no longer wanted");
  EXPECT_TRUE(writes[0].take_over) << "the POST owns the field";
  c.settle();
  c.plan.children = {configMap("a", "blue")};
  EXPECT_FALSE(c.reconcile().at(0).take_over) << "an apply of ours owns it";
}

TEST(Reconcile, ChildrenOfThoseBeforeUsAreTakenOver) {
  Cluster c;
  c.plan.children = {configMap("a")};
  c.there[{kConfigMaps, {"ns", "a"}}] = parsed(R"({"metadata":{"name":"a","namespace":"ns",
    "uid":"x","ownerReferences":[{"kind":"Lamp","name":"desk","uid":"u1","controller":true}]},
    "data":{"color":"red"}})");
  auto writes = c.reconcile();
  ASSERT_EQ(writes.size(), 1u);
  EXPECT_EQ(writes[0].op, Write::Op::Apply);
  EXPECT_TRUE(writes[0].take_over);
}

TEST(Reconcile, AForeignObjectIsLeftAloneAndNamed) {
  struct Case {
    std::string_view metadata, says;
  };
  for (const Case& c :
       {Case{R"({"name":"a","namespace":"ns"})", "was not made by cadre"},
        Case{R"({"name":"a","namespace":"ns","labels":{"cadre.dev/owner-uid":"u2"}})",
             "was not made by cadre"},
        Case{R"({"name":"a","namespace":"ns","labels":{"cadre.dev/owner-uid":"u1"},
             "ownerReferences":[{"kind":"Chart","name":"web","uid":"u9","controller":true}]})",
             "belongs to Chart web"}}) {
    Cluster cluster;
    cluster.plan.children = {configMap("a"), configMap("b")};
    cluster.there[{kConfigMaps, {"ns", "a"}}] =
        json::Object{{"metadata", parsed(c.metadata)}, {"data", json::Object{{"color", "blue"}}}};
    auto writes = cluster.reconcile();
    ASSERT_EQ(writes.size(), 2u);
    EXPECT_EQ(writes[0].op, Write::Op::Conflict);
    EXPECT_THAT(writes[0].why, AllOf(HasSubstr("ConfigMap ns/a exists already"), HasSubstr(c.says),
                                     HasSubstr("choose another name")));
    EXPECT_EQ(writes[1].op, Write::Op::Create) << "the others are made all the same";
  }
}

// `kubectl delete --cascade=orphan`, and the object is made anew: with another uid.
TEST(Reconcile, WhatAnOwnerLeftBehindIsForTheNextOfThatName) {
  struct Case {
    std::string_view what, change;  // a merge patch of what is there
    Write::Op op;
  };
  for (Child::Keep keep : {Child::Keep::InStep, Child::Keep::Once})
    for (const Case& c :
         {Case{"left behind", R"({"metadata":{"ownerReferences":null}})", Write::Op::Apply},
          Case{"its owner is there", R"({"metadata":{"ownerReferences":null,
               "labels":{"cadre.dev/owner-uid":"another"}}})",
               Write::Op::Conflict},
          Case{"the garbage collector will see to it", "{}", Write::Op::Conflict},
          Case{"not made by us", R"({"metadata":{"ownerReferences":null,"annotations":null}})",
               Write::Op::Conflict}}) {
      Cluster cluster;
      Child child = configMap("a");
      child.keep = keep;
      cluster.plan.children = {child};
      cluster.there[child.ref()] = json::applyMergePatch(
          finished(child, kDesk, desk(R"({"metadata":{"uid":"old"}})")), parsed(c.change));
      auto writes = cluster.reconcile();
      ASSERT_EQ(writes.size(), 1u) << c.what;
      EXPECT_EQ(writes[0].op, c.op) << c.what;
      if (c.op != Write::Op::Apply) continue;
      EXPECT_EQ(writes[0].take_over.has_value(), keep == Child::Keep::InStep)
          << "what was made once is kept";
      cluster.settle();
      EXPECT_THAT(cluster.texts(), IsEmpty());
      EXPECT_TRUE(belongsTo(cluster.at(kConfigMaps, "a"), "u1"));
    }
}

TEST(Reconcile, PrunesOnlyWhatIsOurs) {
  struct Case {
    std::string_view what, metadata;
    bool pruned;
  };
  for (const Case& c :
       {Case{"made by us", R"({"labels":{"cadre.dev/owner-uid":"u1"},
             "annotations":{"cadre.dev/applied":"c:1"}})",
             true},
        Case{"applied by us", R"({"labels":{"cadre.dev/owner-uid":"u1"},
             "annotations":{"cadre.dev/applied":"a:1"}})",
             true},
        Case{"made once", R"({"labels":{"cadre.dev/owner-uid":"u1"},
             "annotations":{"cadre.dev/applied":"once"}})",
             false},
        Case{"made by a controller of ours", R"({"labels":{"cadre.dev/owner-uid":"u1"},
             "ownerReferences":[{"kind":"ReplicaSet","uid":"u7","controller":true}]})",
             false},
        Case{"made by a user, for our object",
             R"({"ownerReferences":[{"kind":"Lamp","uid":"u1","controller":true}]})", false},
        Case{"a copy by a user, with our mark but not our label",
             R"({"annotations":{"cadre.dev/applied":"c:1"},
             "ownerReferences":[{"kind":"Lamp","uid":"u1","controller":true}]})",
             false},
        Case{"of another object of ours", R"({"labels":{"cadre.dev/owner-uid":"u2"},
             "annotations":{"cadre.dev/applied":"c:1"}})",
             false},
        Case{"going already", R"({"labels":{"cadre.dev/owner-uid":"u1"},"deletionTimestamp":"x",
             "annotations":{"cadre.dev/applied":"c:1"}})",
             false}}) {
    Cluster cluster;
    json::Value object = json::Object{{"metadata", parsed(c.metadata)}};
    object.make("metadata").make("name") = "old";
    object.make("metadata").make("namespace") = "ns";
    object.make("metadata").make("uid") = "x";
    cluster.there[{kConfigMaps, {"ns", "old"}}] = object;
    auto writes = cluster.reconcile();
    EXPECT_EQ(writes.size(), c.pruned ? 1u : 0u) << c.what;
    if (!writes.empty()) {
      EXPECT_EQ(writes[0].text(), "delete ConfigMap ns/old: it is no longer wanted");
      EXPECT_EQ(writes[0].uid, "x");
    }
    cluster.plan.hold = true;
    EXPECT_THAT(cluster.texts(), IsEmpty()) << c.what << ", on hold";
  }
}

TEST(Reconcile, RemovesWhatAPlanSaysOnceAndOnlyOurs) {
  Cluster c;
  c.plan.children = {configMap("a"), configMap("b")};
  c.plan.children[0].keep = Child::Keep::Once;
  c.settle();
  c.there[{kConfigMaps, {"ns", "foreign"}}] =
      parsed(R"({"metadata":{"name":"foreign","namespace":"ns","uid":"y"}})");
  c.plan.children.clear();
  for (const char* name : {"a", "b", "foreign", "missing"})
    c.plan.removals.push_back({kConfigMaps, {"ns", name}});
  EXPECT_THAT(c.texts(), ElementsAre("delete ConfigMap ns/b: it is no longer wanted",
                                     "delete ConfigMap ns/a: its time is over"));
}

TEST(Reconcile, WhatIsMadeOnceIsNeverChanged) {
  Cluster c;
  c.plan.children = {configMap("a")};
  c.plan.children[0].keep = Child::Keep::Once;
  c.settle();
  EXPECT_EQ(kube::annotation(c.at(kConfigMaps, "a"), kApplied), "once");
  c.plan.children[0] = configMap("a", "blue");
  c.plan.children[0].keep = Child::Keep::Once;
  EXPECT_THAT(c.texts(), IsEmpty());
  c.plan.children.clear();
  EXPECT_THAT(c.texts(), IsEmpty());
}

TEST(Reconcile, OnHoldNothingIsTouched) {
  Cluster c;
  c.plan.children = {configMap("a"), configMap("b")};
  c.settle();
  c.plan.children = {configMap("a", "blue"), configMap("c")};
  c.plan.removals = {{kConfigMaps, {"ns", "a"}}};
  c.plan.hold = true;
  EXPECT_THAT(c.texts(), IsEmpty());
}

TEST(Reconcile, WhatIsGoingHasToBeGoneFirst) {
  Cluster c;
  c.plan.children = {configMap("a")};
  c.settle();
  c.at(kConfigMaps, "a").make("metadata").make("deletionTimestamp") = "2026-01-01T00:00:00Z";
  c.at(kConfigMaps, "a").make("data").make("color") = "blue";
  EXPECT_THAT(c.texts(), IsEmpty());
}

TEST(Reconcile, WhatTheServerWantsOtherwiseIsAccepted) {
  Cluster c;
  c.plan.children = {configMap("a")};
  c.settle();
  c.at(kConfigMaps, "a").make("data").make("color") = "blue";
  c.accepted.insert({kConfigMaps, {"ns", "a"}});
  EXPECT_THAT(c.texts(), IsEmpty());
}

TEST(Reconcile, AWaveWaitsForTheOneBefore) {
  Cluster c;
  Child web{
      .resource = kDeployments,
      .object = parsed(R"({"metadata":{"name":"web","namespace":"ns"},"spec":{"replicas":1}})"),
      .wave = 1};
  Child late = configMap("late");
  late.wave = 2;
  c.plan.children = {late, web, configMap("early")};
  EXPECT_THAT(c.texts(), ElementsAre("create ConfigMap ns/early"));
  c.settle();
  EXPECT_THAT(c.texts(), ElementsAre("create Deployment ns/web"));
  c.settle();
  EXPECT_THAT(c.texts(), IsEmpty()) << "its pods do not run yet";
  c.at(kDeployments, "web").make("status") =
      parsed(R"({"observedGeneration":1,"replicas":1,"updatedReplicas":1,"availableReplicas":1})");
  EXPECT_THAT(c.texts(), ElementsAre("create ConfigMap ns/late"));
  c.settle();
  EXPECT_THAT(c.texts(), IsEmpty());

  // What is there stays while an earlier one is repaired, and what is no longer wanted goes.
  c.plan.children[0].object.make("data").make("color") = "blue";
  c.at(kConfigMaps, "early").make("data").make("color") = "green";
  EXPECT_THAT(c.texts(), ElementsAre(HasSubstr("apply ConfigMap ns/early")));
  c.accepted.insert({kConfigMaps, {"ns", "early"}});
  EXPECT_THAT(c.texts(), ElementsAre(HasSubstr("apply ConfigMap ns/late")))
      << "what the server wants otherwise holds up nothing";
  c.plan.children.erase(c.plan.children.begin());
  EXPECT_THAT(c.texts(), ElementsAre(HasSubstr("delete ConfigMap ns/late")));
}

TEST(Reconcile, AChildIsWrittenAsWhoItSays) {
  Cluster c;
  Child map = configMap("a");
  map.as.user = "ann";
  c.plan.children = {map, configMap("b")};
  std::vector<std::string> users;
  for (const Write& write : c.reconcile()) users.push_back(write.as.user);
  EXPECT_THAT(users, ElementsAre("ann", ""));
}

TEST(Reconcile, ReplicasThatAreNoLongerSetAreLeftAsTheyAre) {
  Cluster c;
  Child web{
      .resource = kDeployments,
      .object = parsed(R"({"metadata":{"name":"web","namespace":"ns"},"spec":{"replicas":3}})")};
  c.plan.children = {web};
  c.settle();
  c.plan.children[0].object =
      parsed(R"({"metadata":{"name":"web","namespace":"ns"},"spec":{"paused":true}})");
  auto writes = c.reconcile();
  ASSERT_EQ(writes.size(), 1u);
  EXPECT_EQ(writes[0].leave_replicas, 3);
  c.settle();
  c.plan.children[0].object.make("spec").make("paused") = false;
  writes = c.reconcile();
  ASSERT_EQ(writes.size(), 1u);
  EXPECT_FALSE(writes[0].leave_replicas) << "once";
  c.settle();
  c.plan.children[0] = web;
  writes = c.reconcile();
  ASSERT_EQ(writes.size(), 1u);
  EXPECT_FALSE(writes[0].leave_replicas) << "we set them again";
}

TEST(Reconcile, ValuesOfVariablesAreNotShown) {
  Cluster c;
  c.plan.children = {{.resource = kDeployments, .object = parsed(R"({"metadata":{"name":"web",
      "namespace":"ns"},"spec":{"template":{"spec":{"containers":[{"name":"main","env":[
      {"name":"KEY","value":"sesame"}]}]}}}})")}};
  c.settle();
  c.at(kDeployments, "web") = json::applyMergePatch(c.at(kDeployments, "web"), parsed(R"({"spec":
      {"template":{"spec":{"containers":[{"name":"main","env":[{"name":"KEY","value":"x"}]}]}}}})"));
  ASSERT_EQ(c.texts().size(), 1u);
  EXPECT_THAT(c.texts()[0], AllOf(HasSubstr("differs"), Not(HasSubstr("sesame"))));
}

TEST(Reconcile, OfPodsOnlyLabelsCount) {
  Cluster c;
  c.plan.children = {
      {.resource = kPods, .object = parsed(R"({"metadata":{"name":"p","namespace":"ns",
                        "labels":{"app":"x"}},"spec":{"containers":[{"name":"a"}]}})")}};
  c.settle();
  c.plan.children[0].object.make("spec").make("priority") = 3;
  EXPECT_THAT(c.texts(), IsEmpty());
  c.at(kPods, "p").make("metadata").make("labels").makeObject().erase("app");
  auto writes = c.reconcile();
  ASSERT_EQ(writes.size(), 1u);
  EXPECT_EQ(writes[0].why, "metadata.labels.app differs");
  EXPECT_TRUE(writes[0].object["spec"].isNull()) << "most of it cannot change, and is not sent";
  EXPECT_FALSE(writes[0].take_over);
  c.settle();
  EXPECT_THAT(c.texts(), IsEmpty());
}

TEST(Reconcile, ValuesOfSecretsAreComparedButNotShown) {
  for (const char* field : {"data", "stringData"}) {
    Cluster c;
    Child secret{.resource = kSecrets,
                 .object = parsed(R"({"metadata":{"name":"s","namespace":"ns"}})")};
    secret.object.make("data").make("key") = "c2VzYW1l";
    c.plan.children = {secret};
    c.settle();
    EXPECT_EQ(c.at(kSecrets, "s")["data"]["key"].string(), "hash of c2VzYW1l");
    c.plan.children[0].object.makeObject().erase("data");
    c.plan.children[0].object.make(field).make("key") =
        std::string_view(field) == "data" ? "c2VzYW1l" : "sesame";
    c.settle();
    EXPECT_THAT(c.texts(), IsEmpty()) << field;
    c.at(kSecrets, "s").make("data").make("key") = "hash of another";
    auto texts = c.texts();
    ASSERT_EQ(texts.size(), 1u) << field;
    EXPECT_THAT(texts[0], AllOf(HasSubstr("key differs"), Not(HasSubstr("c2VzYW1l")),
                                Not(HasSubstr("sesame")), Not(HasSubstr("hash"))));
  }
}

TEST(Reconcile, Finalizers) {
  struct Case {
    std::string_view what;
    std::string object;          // a merge patch
    std::string_view finalizer;  // of the plan
    bool child_wanted = false;
    std::string_view child = "";  // what is there, by its mark: "c:1", "once", "unmarked", ""
    std::vector<std::string> then = {};
  };
  const std::string_view deleting = R"("deletionTimestamp":"2026-01-01T00:00:00Z")";
  std::string going = format(R"({{"metadata":{{{},"finalizers":["x","ours"]}}}})", deleting);
  for (const Case& c :
       std::vector<Case>{{"it comes before anything is made",
                          "{}",
                          "ours",
                          true,
                          "",
                          {R"(set the metadata of Lamp ns/desk {"finalizers":["ours"]})"}},
                         {"what others have set stays",
                          R"({"metadata":{"finalizers":["x"]}})",
                          "ours",
                          true,
                          "",
                          {R"(set the metadata of Lamp ns/desk {"finalizers":["x","ours"]})"}},
                         {"it is there",
                          R"({"metadata":{"finalizers":["ours"]}})",
                          "ours",
                          true,
                          "",
                          {"create ConfigMap ns/a"}},
                         {"none is wanted any more",
                          R"({"metadata":{"finalizers":["ours"]}})",
                          "",
                          false,
                          "",
                          {}},
                         {"of those before us",
                          R"({"metadata":{"finalizers":["old","x"]}})",
                          "",
                          true,
                          "",
                          {R"(set the metadata of Lamp ns/desk {"finalizers":["x"]})"}},
                         {"going, and a child is left",
                          going,
                          "ours",
                          false,
                          "c:1",
                          {"delete ConfigMap ns/a: it is no longer wanted"}},
                         {"going, and a child is still wanted",
                          going,
                          "ours",
                          true,
                          "",
                          {"create ConfigMap ns/a"}},
                         {"going, and nothing is left",
                          going,
                          "ours",
                          false,
                          "",
                          {R"(set the metadata of Lamp ns/desk {"finalizers":["x"]})"}},
                         {"going, and what was made once goes with it",
                          going,
                          "ours",
                          false,
                          "once",
                          {R"(set the metadata of Lamp ns/desk {"finalizers":["x"]})"}},
                         {"going, and what others made for it goes with it",
                          going,
                          "ours",
                          false,
                          "unmarked",
                          {R"(set the metadata of Lamp ns/desk {"finalizers":["x"]})"}},
                         {"going without ours, and children are the garbage collector's",
                          format(R"({{"metadata":{{{},"finalizers":["orphan"]}}}})", deleting),
                          "",
                          false,
                          "c:1",
                          {}},
                         {"going without one",
                          format(R"({{"metadata":{{{},"finalizers":["x"]}}}})", deleting),
                          "ours",
                          false,
                          "",
                          {}}}) {
    Cluster cluster;
    cluster.object = desk(c.object);
    cluster.plan.finalizer = c.finalizer;
    cluster.plan.foreign_finalizers = {"old"};
    if (c.child_wanted) cluster.plan.children = {configMap("a")};
    if (!c.child.empty()) {
      json::Value child = finished(configMap("a"), kDesk, desk());
      json::Object& metadata = child.make("metadata").makeObject();
      if (c.child == "unmarked") {
        metadata.erase("annotations");
        metadata.erase("labels");
      } else {
        child.make("metadata").make("annotations").make(kApplied) = c.child;
      }
      cluster.there[{kConfigMaps, {"ns", "a"}}] = child;
    }
    std::vector<std::string> texts;
    for (const Write& write : cluster.reconcile())
      texts.push_back(write.op == Write::Op::Metadata
                          ? write.text() + " " + json::write(write.object)
                          : write.text());
    EXPECT_EQ(texts, c.then) << c.what;
  }
}

TEST(Reconcile, Amendments) {
  struct Case {
    std::string_view what;
    std::string_view there;     // metadata
    std::string_view metadata;  // wanted
    std::vector<std::string> then = {};
  };
  const Ref other{kConfigMaps, {"ns", "other"}};
  std::string_view ours = R"({"ownerReferences":[{"controller":true,"uid":"u1"}]})";
  for (const Case& c : std::vector<Case>{
           {"of what is nobody's",
            "{}",
            ours,
            {format("set the metadata of ConfigMap ns/other {}", ours)}},
           {"of its own",
            ours,
            R"({"ownerReferences":null})",
            {R"(set the metadata of ConfigMap ns/other {"ownerReferences":null})"}},
           {"of another's", R"({"ownerReferences":[{"uid":"u2","controller":true}]})", ours, {}},
           {"it is so", ours, ours, {}},
           {"of what is not there", "", ours, {}}}) {
    Cluster cluster;
    if (!c.there.empty()) cluster.there[other] = json::Object{{"metadata", *json::parse(c.there)}};
    cluster.plan.amendments = {{other, *json::parse(c.metadata)}};
    std::vector<std::string> texts;
    for (const Write& write : cluster.reconcile())
      texts.push_back(write.text() + " " + json::write(write.object));
    EXPECT_EQ(texts, c.then) << c.what;
    cluster.settle();
    EXPECT_THAT(cluster.texts(), IsEmpty()) << c.what;
  }
}

// ---- Status

const std::vector<std::string> kTypes{"Accepted", "Ready"};
const Time kNow = *parseTime("2026-01-01T00:00:00Z");

Plan lit(bool ready = true) {
  Plan plan;
  plan.status.set("bulbs", 2);
  plan.condition("Accepted", true, "Valid");
  plan.condition("Ready", ready, ready ? "Lit" : "Dark");
  return plan;
}

// The object as it is when the plan's status has been written.
json::Value withStatus(const Plan& plan, Time at) {
  json::Value object = desk();
  object.make("status") = wantedStatus(kDesk, object, plan, at);
  return object;
}

TEST(Status, IsWrittenOnceAndThenQuiet) {
  auto write = reconcileStatus(kDesk, desk(), lit(), kTypes, kNow);
  ASSERT_TRUE(write);
  EXPECT_EQ(write->uid, "u1");
  EXPECT_EQ(json::write(write->object["status"]),
            R"({"bulbs":2,"conditions":[)"
            R"({"lastTransitionTime":"2026-01-01T00:00:00Z","message":"","observedGeneration":4,)"
            R"("reason":"Valid","status":"True","type":"Accepted"},)"
            R"({"lastTransitionTime":"2026-01-01T00:00:00Z","message":"","observedGeneration":4,)"
            R"("reason":"Lit","status":"True","type":"Ready"}],"observedGeneration":4})");
  EXPECT_TRUE(write->object["metadata"]["annotations"].isNull());
  EXPECT_FALSE(reconcileStatus(kDesk, withStatus(lit(), kNow), lit(), kTypes, kNow + 1h));
}

TEST(Status, BringsAnnotationsAlong) {
  Plan plan = lit();
  plan.annotations["a"] = "b";
  auto write = reconcileStatus(kDesk, desk(), plan, kTypes, kNow);
  ASSERT_TRUE(write);
  EXPECT_EQ(json::write(write->object["metadata"]["annotations"]), R"({"a":"b"})");
}

TEST(Status, DifferencesAreSeen) {
  struct Case {
    std::string_view what;
    Function<void(json::Value& object, Plan& plan)> change;
    bool written;
  };
  std::vector<Case> cases;
  cases.push_back({"nothing", [](json::Value&, Plan&) {}, false});
  cases.push_back({"a field", [](json::Value&, Plan& p) { p.status.set("bulbs", 3); }, true});
  cases.push_back({"a field less", [](json::Value&, Plan& p) { p.status.erase("bulbs"); }, true});
  cases.push_back({"a generation",
                   [](json::Value& o, Plan&) { o.make("metadata").make("generation") = 5; }, true});
  cases.push_back({"an annotation", [](json::Value&, Plan& p) { p.annotations["a"] = "b"; }, true});
  cases.push_back({"an annotation that is there",
                   [](json::Value& o, Plan& p) {
                     p.annotations["a"] = "b";
                     o.make("metadata").make("annotations") = parsed(R"({"a":"b","c":"d"})");
                   },
                   false});
  cases.push_back({"a condition's mind", [](json::Value&, Plan& p) { p = lit(false); }, true});
  cases.push_back(
      {"a message", [](json::Value&, Plan& p) { p.conditions[0].message = "well"; }, true});
  cases.push_back(
      {"a condition of ours less", [](json::Value&, Plan& p) { p.conditions.pop_back(); }, true});
  cases.push_back({"a foreign condition",
                   [](json::Value& o, Plan&) {
                     json::Array& list = o.make("status").make("conditions").makeArray();
                     list.insert(list.begin(), parsed(R"({"type":"Theirs","status":"True"})"));
                   },
                   false});
  cases.push_back({"another order",
                   [](json::Value& o, Plan&) {
                     json::Array& list = o.make("status").make("conditions").makeArray();
                     std::swap(list[0], list[1]);
                   },
                   false});
  for (const Case& c : cases) {
    Plan plan = lit();
    json::Value object = withStatus(plan, kNow);
    c.change(object, plan);
    auto write = reconcileStatus(kDesk, object, plan, kTypes, kNow + 1h);
    EXPECT_EQ(write.has_value(), c.written) << c.what;
    if (!write) continue;
    for (const json::Value& condition : write->object["status"]["conditions"].array())
      EXPECT_NE(condition["type"].string(), "Theirs");
  }
}

TEST(Status, ATimeStaysUntilTheConditionChangesItsMind) {
  json::Value object = withStatus(lit(), kNow);
  Plan plan = lit(false);
  plan.conditions[0].reason = "StillValid";
  json::Value conditions = wantedStatus(kDesk, object, plan, kNow + 1h)["conditions"];
  EXPECT_EQ(conditions.at(0)["lastTransitionTime"].string(), "2026-01-01T00:00:00Z");
  EXPECT_EQ(conditions.at(0)["reason"].string(), "StillValid");
  EXPECT_EQ(conditions.at(1)["lastTransitionTime"].string(), "2026-01-01T01:00:00Z");
}

TEST(Status, EachConditionOnce) {
  Plan plan;
  plan.condition("Accepted", false, "NameConflict", "one");
  plan.condition("Accepted", false, "ChildRejected", "two");
  json::Value conditions = wantedStatus(kDesk, desk(), plan, kNow)["conditions"];
  ASSERT_EQ(conditions.array().size(), 1u) << "a server refuses a second one";
  EXPECT_EQ(conditions.at(0)["reason"].string(), "NameConflict");
}

TEST(Status, TransitionsAreTold) {
  json::Value object = withStatus(lit(), kNow);
  EXPECT_THAT(transitions(desk(), object["status"]), IsEmpty()) << "the first says nothing new";
  EXPECT_THAT(transitions(object, wantedStatus(kDesk, object, lit(), kNow + 1h)), IsEmpty());
  Plan dark = lit(false);
  dark.conditions[1].message = "no bulbs";
  auto events = transitions(object, wantedStatus(kDesk, object, dark, kNow + 1h));
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].id, "Ready False 2026-01-01T01:00:00Z");
  EXPECT_TRUE(events[0].warning);
  EXPECT_EQ(events[0].reason, "Dark");
  EXPECT_EQ(events[0].message, "no bulbs");
  object = withStatus(dark, kNow);
  EXPECT_FALSE(transitions(object, wantedStatus(kDesk, object, lit(), kNow + 1h)).at(0).warning);
}

// ---- Field ownership

// A kind that no table describes, and an object with these managedFields.
const kube::Resource kWidgets{
    .group = "test", .version = "v1", .plural = "widgets", .kind = "Widget"};
json::Value withFields(json::Value fields) {
  json::Value object;
  object.make("metadata").make("managedFields") = std::move(fields);
  return object;
}
json::Value withText(std::string_view fields) { return withFields(parsed(fields)); }

TEST(TakenOver, OnlyWhatIsOursOrOfThoseBeforeUs) {
  auto entry = [](std::string_view manager, std::string_view operation, std::string_view fields,
                  std::string_view subresource = "") {
    json::Value entry = json::Object{{"manager", manager},
                                     {"operation", operation},
                                     {"apiVersion", "v1"},
                                     {"fieldsType", "FieldsV1"},
                                     {"fieldsV1", parsed(fields)}};
    if (!subresource.empty()) entry.make("subresource") = subresource;
    return entry;
  };
  struct Case {
    std::string_view what;
    json::Array before;
    std::vector<std::string> after;  // empty: they are as they must be
  };
  for (const Case& c : std::vector<Case>{
           {"nothing of ours", {entry("kubectl", "Update", R"({"f:a":{}})")}, {}},
           {"applied already",
            {entry("cadre", "Apply", R"({"f:a":{}})"), entry("kubectl", "Update", "{}")},
            {}},
           {"a POST of ours",
            {entry("cadre", "Update", R"({"f:a":{}})"),
             entry("kubectl", "Update", R"({"f:b":{}})")},
            {R"(cadre Apply {"f:a":{}})", R"(kubectl Update {"f:b":{}})"}},
           {"both, and who was here before us",
            {entry("old", "Update", R"({"f:d":{"f:x":{},"k:{}":{".":{}}}})"),
             entry("cadre", "Apply", R"({"f:d":{"f:y":{}}})"),
             entry("cadre", "Update", R"({"f:a":{}})")},
            {R"(cadre Apply {"f:a":{},"f:d":{"f:x":{},"f:y":{},"k:{}":{".":{}}}})"}},
           {"the status is another matter",
            {entry("old", "Update", R"({"f:status":{}})", "status"),
             entry("cadre", "Update", R"({"f:a":{}})")},
            {R"(cadre Apply {"f:a":{}})", R"(old Update {"f:status":{}})"}}}) {
    auto fields = takenOver(kConfigMaps, withFields(c.before), {"old"});
    std::vector<std::string> after;
    if (fields)
      for (const json::Value& one : fields->array())
        after.push_back(format("{} {} {}", one["manager"].string(), one["operation"].string(),
                               json::write(one["fieldsV1"])));
    EXPECT_EQ(after, c.after) << c.what;
  }
}

TEST(TakenOver, WhatEverybodyWroteBecomesOursButForMetadataAndReplicas) {
  auto taken = takenOver(kWidgets, withText(R"([
    {"manager":"kubectl-edit","operation":"Update","fieldsV1":{"f:metadata":{"f:labels":{"f:team":{}}},
     "f:spec":{"f:paused":{},"f:replicas":{},"f:template":{"f:metadata":{"f:annotations":{"f:restartedAt":{}}},
                                           "f:spec":{"f:hostNetwork":{}}}}}},
    {"manager":"other","operation":"Apply","fieldsV1":{"f:spec":{"f:a":{}}}},
    {"manager":"kubectl","operation":"Update","subresource":"scale","fieldsV1":{"f:spec":{"f:replicas":{}}}},
    {"manager":"kube-controller-manager","operation":"Update","fieldsV1":{"f:metadata":{}}},
    {"manager":"cadre","operation":"Apply","fieldsV1":{"f:spec":{"f:b":{}}}}])"),
                         {}, Write::Whose::Everybodys);
  ASSERT_TRUE(taken);
  EXPECT_EQ(*taken, parsed(R"([
    {"manager":"cadre","operation":"Apply","fieldsV1":{"f:spec":{"f:a":{},"f:b":{},"f:paused":{},
     "f:template":{"f:spec":{"f:hostNetwork":{}}}}}},
    {"manager":"kubectl-edit","operation":"Update","fieldsV1":{"f:metadata":{"f:labels":{"f:team":{}}},
     "f:spec":{"f:replicas":{},"f:template":{"f:metadata":{"f:annotations":{"f:restartedAt":{}}}}}}},
    {"manager":"kubectl","operation":"Update","subresource":"scale","fieldsV1":{"f:spec":{"f:replicas":{}}}},
    {"manager":"kube-controller-manager","operation":"Update","fieldsV1":{"f:metadata":{}}}])"));
  EXPECT_FALSE(takenOver(kWidgets,
                         withText(R"([{"manager":"cadre","operation":"Apply","fieldsV1":{}}])"), {},
                         Write::Whose::Everybodys));
}

// As after a webhook, or where somebody wiped managedFields: else nothing could drop it.
TEST(TakenOver, WhatNobodyOwnsBecomesOursToo) {
  json::Value live =
      parsed(R"({"metadata":{"name":"web","labels":{"a":"b"}},"status":{"replicas":1},
    "spec":{"replicas":2,"paused":true,"template":{"metadata":{"labels":{"a":"b"}},
            "spec":{"containers":[{"name":"evil"}]}}}})");
  const kube::Resource deployments{
      .group = "apps", .version = "v1", .plural = "deployments", .kind = "Deployment"};
  auto taken = takenOver(deployments, live, {}, Write::Whose::Everybodys);
  ASSERT_TRUE(taken);
  EXPECT_EQ(*taken, parsed(R"([{"manager":"cadre","operation":"Apply","apiVersion":"apps/v1",
    "fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:paused":{},"f:template":{"f:spec":{
      "f:containers":{"k:{\"name\":\"evil\"}":{".":{},"f:name":{}}}}}}}}])"));
  live.make("metadata").make("managedFields") = *taken;
  EXPECT_FALSE(takenOver(deployments, live, {}, Write::Whose::Everybodys));
}

TEST(TakenOver, FieldsOfDifferentVersionsAreKeptApart) {
  auto taken = takenOver(kWidgets, withText(R"([
    {"manager":"old","operation":"Update","apiVersion":"v1beta1","fieldsV1":{"f:spec":{"f:a":{}}}},
    {"manager":"old","operation":"Update","apiVersion":"v1","fieldsV1":{"f:spec":{"f:b":{}}}},
    {"manager":"cadre","operation":"Apply","apiVersion":"v1","fieldsV1":{"f:spec":{"f:c":{}}}}])"),
                         {"old"});
  ASSERT_TRUE(taken);
  EXPECT_EQ(*taken, parsed(R"([
    {"manager":"cadre","operation":"Apply","apiVersion":"v1beta1","fieldsV1":{"f:spec":{"f:a":{}}}},
    {"manager":"cadre","operation":"Apply","apiVersion":"v1",
     "fieldsV1":{"f:spec":{"f:b":{},"f:c":{}}}}])"));
}

}  // namespace
}  // namespace cadre::engine
