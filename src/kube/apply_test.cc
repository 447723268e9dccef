#include "kube/apply.h"

#include "base/format.h"
#include "json/write.h"
#include "json/yaml.h"
#include "kube/typed.h"

// A real kube-apiserver judges this in test/component/apply_cluster_test.cc, by random sequences;
// here are the rules one by one.

namespace cadre::kube {
namespace {

using json::Value;
using testing::HasSubstr;
using testing::SizeIs;

Value yaml(std::string_view text) {
  auto documents = json::parseYaml(text, "case");
  EXPECT_TRUE(documents.ok()) << text << ": " << documents.error().text();
  return documents && !documents->empty() ? (*documents)[0].value : Value();
}

FieldSet fields(std::string_view text) {
  auto set = FieldSet::parse(yaml(text));
  EXPECT_TRUE(set) << text << ": " << set.error().text();
  return set ? *set : FieldSet();
}

const Value& schema() {
  static const Value value = yaml(R"(
type: object
properties:
  spec:
    type: object
    properties:
      a: {type: string}
      b: {type: integer}
      whole: {type: array, items: {type: string}}
      set: {type: array, x-kubernetes-list-type: set, items: {type: string}}
      items:
        type: array
        x-kubernetes-list-type: map
        x-kubernetes-list-map-keys: [name, zone]
        items:
          type: object
          properties: {name: {type: string}, zone: {type: string, default: here}, size: {type: integer}}
      map: {type: object, additionalProperties: {type: string}}
      one: {type: object, x-kubernetes-map-type: atomic, properties: {a: {type: string}, b: {type: string}}}
      free: {type: object, x-kubernetes-preserve-unknown-fields: true}
      other: {type: object, x-kubernetes-embedded-resource: true}
      either: {x-kubernetes-int-or-string: true}
)");
  return value;
}
Shape shape() { return Shape::ofResource(schema()); }

Value thing(std::string_view spec) {
  Value out = yaml("{apiVersion: x/v1, kind: Thing, metadata: {name: t}}");
  out.make("spec") = yaml(spec);
  return out;
}

// "manager (Apply|Update) fields" for each entry, in their order.
std::vector<std::string> owners(const Value& object) {
  std::vector<std::string> out;
  for (const Value& entry : object["metadata"]["managedFields"].array())
    out.push_back(format("{} {} {}", entry["manager"].string(), entry["operation"].string(),
                         json::write(entry["fieldsV1"])));
  return out;
}

class ApplyTest : public testing::Test {
 protected:
  FakeClock clock;
  Value live;

  Writer writer(std::string_view manager) {
    return {.manager = std::string(manager), .api_version = "x/v1", .now = clock.now()};
  }
  Result<Value> applied(std::string_view manager, std::string_view spec, Force force = Force::No) {
    return apply(shape(), live, thing(spec), writer(manager), force);
  }
  void apply_(std::string_view manager, std::string_view spec, Force force = Force::No) {
    auto out = applied(manager, spec, force);
    ASSERT_TRUE(out) << out.error().text();
    live = *std::move(out);
    live.make("metadata").make("uid") = "u";
  }
  void update_(std::string_view manager, std::string_view spec) {
    Value after = live.isNull() ? thing(spec) : live;
    after.make("spec") = yaml(spec);
    live = update(shape(), live, std::move(after), writer(manager));
    live.make("metadata").make("uid") = "u";
  }
};

TEST(FieldSet, IsReadAndWritten) {
  for (std::string_view text :
       {R"({})", R"({"f:a":{}})", R"({"f:a":{".":{},"f:b":{}}})",
        R"({"f:l":{"k:{\"name\":\"x\",\"port\":80}":{".":{},"f:name":{}}}})",
        R"({"f:l":{"v:\"x\"":{},"v:1":{},"v:true":{}}})", R"({"f:l":{"i:0":{}}})"})
    EXPECT_EQ(json::write(fields(text).fieldsV1()), text);
  // Of a later version, and passed over.
  EXPECT_EQ(json::write(fields(R"({"f:a":{},"x:a":{}})").fieldsV1()), R"({"f:a":{}})");
  EXPECT_EQ(json::write(fields(R"({"f:a":null})").fieldsV1()), R"({"f:a":{}})");
}

TEST(FieldSet, RefusesWhatIsMalformed) {
  for (std::string_view text : {R"([])", R"({"a":{}})", R"({"ab":{}})", R"({"f:a":1})",
                                R"({"k:[]":{}})", R"({"k:{":{}})", R"({"v:":{}})", R"({"i:x":{}})"})
    EXPECT_FALSE(FieldSet::parse(yaml(text))) << text;
  Value deep = json::Object();
  for (int i = 0; i < 200; ++i) deep = json::Object{{"f:a", std::move(deep)}};
  auto refused = FieldSet::parse(deep);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::ResourceExhausted);
}

TEST(FieldSet, JoinsAndDivides) {
  struct Case {
    std::string_view a, b, either, both, difference, without;
  };
  for (const Case& c : std::vector<Case>{
           {"{f:a: {}}", "{f:b: {}}", "{f:a: {}, f:b: {}}", "{}", "{f:a: {}}", "{f:a: {}}"},
           {"{f:a: {}}", "{f:a: {}}", "{f:a: {}}", "{f:a: {}}", "{}", "{}"},
           {"{f:a: {f:b: {}}}", "{f:a: {}}", "{f:a: {.: {}, f:b: {}}}", "{}", "{f:a: {f:b: {}}}",
            "{}"},
           {"{f:a: {.: {}, f:b: {}, f:c: {}}}", "{f:a: {f:b: {}}}",
            "{f:a: {.: {}, f:b: {}, f:c: {}}}", "{f:a: {f:b: {}}}", "{f:a: {.: {}, f:c: {}}}",
            "{f:a: {.: {}, f:c: {}}}"},
           {"{f:l: {'v:1': {}, 'v:2': {}}}", "{f:l: {'v:1.0': {}}}",
            "{f:l: {'v:1': {}, 'v:2': {}}}", "{f:l: {'v:1': {}}}", "{f:l: {'v:2': {}}}",
            "{f:l: {'v:2': {}}}"}}) {
    FieldSet a = fields(c.a), b = fields(c.b);
    auto same = [&](const FieldSet& set, std::string_view text) {
      EXPECT_EQ(json::write(set.fieldsV1()), json::write(fields(text).fieldsV1())) << c.a << c.b;
    };
    same(a | b, c.either);
    same(b | a, c.either);
    same(a & b, c.both);
    same(a - b, c.difference);
    same(without(a, b), c.without);
  }
}

TEST(FieldSet, NamesItsPaths) {
  std::vector<std::string> paths;
  fields(R"({"f:a":{"f:b":{}},"f:c":{},"f:l":{"k:{\"name\":\"x\",\"port\":80}":{".":{},"f:n":{}}},)"
         R"("f:s":{"v:\"q\\\"\"":{}},"f:i":{"i:3":{}}})")
      .each([&](const FieldPath& path) { paths.push_back(pathText(path)); });
  EXPECT_THAT(paths, testing::ElementsAre(".c", ".a.b", ".i[3]", R"(.l[name="x",port=80])",
                                          R"(.l[name="x",port=80].n)", R"(.s[="q\""])"));
}

TEST(Shape, SaysWhatHasParts) {
  Shape pod = Type::of("", "v1", "Pod");
  Shape spec = *pod.member("spec");
  EXPECT_TRUE(pod.names("spec"));
  EXPECT_FALSE(pod.member("nonsense"));
  EXPECT_FALSE(spec.member("containers")->isAtomic(Shape::As::List));
  EXPECT_TRUE(spec.member("tolerations")->isAtomic(Shape::As::List));
  EXPECT_TRUE(spec.member("nodeSelector")->isAtomic(Shape::As::Map));
  Shape container = spec.member("containers")->item();
  EXPECT_EQ(spec.member("containers")->keys()[0].otherwise, Value(""));
  EXPECT_EQ(container.member("ports")->keys()[1].otherwise, Value("TCP"));
  // Whatever its schema says, metadata is what it always is.
  Shape metadata = *shape().member("metadata");
  EXPECT_EQ(metadata.member("ownerReferences")->keys()[0].name, "uid");
  EXPECT_FALSE(metadata.member("finalizers")->isAtomic(Shape::As::List));
  EXPECT_TRUE(shape().member("spec")->member("other")->member("metadata")->names("labels"));
  EXPECT_TRUE(shape().member("spec")->member("free")->member("x")->isAtomic(Shape::As::List));
  EXPECT_FALSE(shape().member("spec")->member("nonsense"));
  EXPECT_EQ(
      json::write(Shape(Type::of("apps", "v1", "Deployment")).emptyObject()["spec"]),
      R"({"selector":null,"strategy":{},"template":{"metadata":{},"spec":{"containers":null}}})");
}

TEST(Typed, MergesListsInTheOrderOfTheServer) {
  struct Case {
    std::string_view live, wanted, merged;
  };
  for (const Case& c : std::vector<Case>{{"[]", "[a]", "[a]"},
                                         {"[a, b]", "[]", "[a, b]"},
                                         {"[a, b]", "[b, a]", "[b, a]"},
                                         {"[a, b, c]", "[c, a]", "[b, c, a]"},
                                         {"[a, b, c]", "[x, b]", "[a, x, b, c]"},
                                         {"[a, b]", "[x, y]", "[a, b, x, y]"},
                                         {"[a, b, c, d]", "[d, x, a]", "[b, c, d, x, a]"}}) {
    Value merged = merge(shape(), thing(format("{{set: {}}}", c.live)),
                         thing(format("{{set: {}}}", c.wanted)));
    EXPECT_EQ(json::write(merged["spec"]["set"]), json::write(yaml(c.merged)))
        << c.live << " and " << c.wanted;
  }
}

TEST_F(ApplyTest, OwnsWhatItMentions) {
  apply_("one",
         "{a: x, whole: [p], set: [q], items: [{name: i}], map: {k: v}, one: {a: x}, "
         "free: {u: {v: 1}, l: [1]}, either: 5}");
  EXPECT_THAT(
      owners(live),
      testing::ElementsAre(
          R"(one Apply {"f:spec":{"f:a":{},"f:either":{},"f:free":{"f:l":{},"f:u":{".":{},"f:v":{}}},)"
          R"("f:items":{"k:{\"name\":\"i\",\"zone\":\"here\"}":{".":{},"f:name":{}}},)"
          R"("f:map":{"f:k":{}},"f:one":{},"f:set":{"v:\"q\"":{}},"f:whole":{}}})"));
  EXPECT_EQ(live["metadata"]["managedFields"].at(0)["time"].string(), "2026-01-01T00:00:00Z");
}

TEST_F(ApplyTest, DropsWhatNobodyElseOwns) {
  struct Case {
    std::string_view first, others, then, left;
  };
  for (const Case& c : std::vector<Case>{
           {"{a: x, b: 1}", "", "{b: 1}", "{b: 1}"},
           {"{a: x, b: 1}", "{a: x}", "{b: 1}", "{a: x, b: 1}"},
           {"{a: x, map: {k: v, l: w}}", "", "{a: x, map: {l: w}}", "{a: x, map: {l: w}}"},
           {"{a: x, map: {k: v}}", "", "{a: x}", "{a: x}"},
           {"{a: x, map: {k: v}}", "{map: {l: w}}", "{a: x}", "{a: x, map: {l: w}}"},
           {"{set: [a, b]}", "{set: [b, c]}", "{set: [a]}", "{set: [a, b, c]}"},
           {"{set: [a, b]}", "{set: [c]}", "{set: [b]}", "{set: [b, c]}"},
           {"{items: [{name: i, size: 1}, {name: m}]}", "{items: [{name: i}]}",
            "{items: [{name: m}]}", "{items: [{name: i}, {name: m}]}"},
           {"{whole: [a, b]}", "", "{whole: [b]}", "{whole: [b]}"},
           {"{one: {a: x, b: w}}", "", "{one: {b: w}}", "{one: {b: w}}"}}) {
    live = Value();
    apply_("one", c.first);
    if (!c.others.empty()) apply_("two", c.others);
    apply_("one", c.then);
    EXPECT_EQ(json::write(live["spec"]), json::write(yaml(c.left))) << c.first << ", " << c.then;
  }
}

TEST_F(ApplyTest, ConflictsAreNamedAndForced) {
  apply_("one", "{a: x, items: [{name: i, size: 1}], whole: [p]}");
  auto refused = applied("two", "{a: w, items: [{name: i, size: 2}], whole: [q]}");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::Conflict);
  EXPECT_EQ(refused.error().message,
            "Apply failed with 3 conflicts: conflicts with \"one\":\n- .spec.a\n- .spec.whole\n- "
            ".spec.items[name=\"i\",zone=\"here\"].size");
  ASSERT_THAT(refused.error().details, SizeIs(3));
  EXPECT_EQ(refused.error().details[0],
            (Detail{".spec.a", "FieldManagerConflict", "conflict with \"one\""}));
  update_("three", "{a: z, items: [{name: i, size: 1, zone: here}], whole: [p]}");
  refused = applied("two", "{a: w}");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            "Apply failed with 1 conflict: conflict with \"three\" using x/v1: .spec.a");
  apply_("two", "{a: w}", Force::Yes);
  EXPECT_EQ(live["spec"]["a"].string(), "w");
  EXPECT_THAT(owners(live), testing::Contains(R"(two Apply {"f:spec":{"f:a":{}}})"));
  EXPECT_THAT(owners(live),
              testing::Not(testing::Contains(HasSubstr("three Update {\"f:spec\":{\"f:a\""))));
  // The same value is shared.
  EXPECT_TRUE(applied("four", "{a: w}"));
}

TEST_F(ApplyTest, TimesAreThoseOfChanges) {
  auto time = [&](std::size_t entry) {
    return live["metadata"]["managedFields"].at(entry)["time"].string();
  };
  apply_("one", "{a: x}");
  clock.advance(60s);
  apply_("one", "{a: x}");
  EXPECT_EQ(time(0), "2026-01-01T00:00:00Z");
  // Who only shares has changed nothing, and has no time: such an entry comes first.
  apply_("two", "{a: x}");
  EXPECT_THAT(owners(live), testing::ElementsAre(HasSubstr("two"), HasSubstr("one")));
  EXPECT_EQ(time(0), "");
  apply_("one", "{a: x, b: 1}");
  EXPECT_EQ(time(1), "2026-01-01T00:01:00Z");
  clock.advance(60s);
  Value before = live;
  update_("three", "{a: x, b: 1}");
  EXPECT_EQ(live, before);
  // What a kind makes of it may be what was there before, as with 1000m and 1.
  Value after = live;
  after.make("metadata").make("managedFields").makeArray()[1].make("time") = "2026-01-01T09:00:00Z";
  EXPECT_EQ(withoutNewTimes(live, after), live);
  after.make("spec").make("b") = 2;
  EXPECT_EQ(withoutNewTimes(live, after), after);
}

TEST_F(ApplyTest, RefusesWhatHasNotItsShape) {
  struct Case {
    std::string_view spec, words;
  };
  for (const Case& c : std::vector<Case>{
           {"{a: 1}", ".spec.a: expected string, got &value.valueUnstructured{Value:1}"},
           {"{b: x}", ".spec.b: expected numeric (int or float), got string"},
           {"{map: [x]}", ".spec.map: expected map, got &{[x]}"},
           {"{whole: {x: 1}}", ".spec.whole: expected list, got &{map[x:1]}"},
           {"{nonsense: 1}", ".spec.nonsense: field not declared in schema"},
           {"{set: [a, a]}", R"(.spec.set: duplicate entries for key [="a"])"},
           {"{set: [null]}",
            ".spec.set: element 0: associative list without keys has an element that's an explicit "
            "null"},
           {"{items: [{name: i}, {name: i, zone: here}]}",
            R"(.spec.items: duplicate entries for key [name="i",zone="here"])"},
           {"{items: [1]}",
            ".spec.items: element 0: associative list with keys may not have non-map elements"}}) {
    auto refused = applied("one", c.spec);
    ASSERT_FALSE(refused) << c.spec;
    EXPECT_EQ(
        refused.error().text(),
        "failed to create typed patch object (/t; x/v1, Kind=Thing): " + std::string(c.words));
    EXPECT_EQ(refused.error().code, Code::Internal);
  }
  Value config = thing("{a: x}");
  config.make("metadata").make("managedFields") = json::Array();
  auto refused = apply(shape(), Value(), config, writer("one"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::InvalidArgument);
  EXPECT_EQ(refused.error().message, "metadata.managedFields must be nil");
}

TEST_F(ApplyTest, WhoWritesOwns) {
  update_("one", "{a: x, set: [p, q], map: {k: v}}");
  EXPECT_THAT(
      owners(live),
      testing::ElementsAre(R"(one Update {"f:spec":{".":{},"f:a":{},"f:map":{".":{},"f:k":{}},)"
                           R"("f:set":{".":{},"v:\"p\"":{},"v:\"q\"":{}}}})"));
  apply_("two", "{b: 1, map: {k: v}}");
  update_("three", "{a: w, set: [q], map: {k: w}, b: 1}");
  EXPECT_THAT(owners(live),
              testing::ElementsAre(
                  R"(two Apply {"f:spec":{"f:b":{}}})",
                  R"(one Update {"f:spec":{".":{},"f:map":{},"f:set":{".":{},"v:\"q\"":{}}}})",
                  R"(three Update {"f:spec":{"f:a":{},"f:map":{"f:k":{}}}})"));
  // What is gone is nobody's.
  update_("one", "{set: [q]}");
  EXPECT_THAT(owners(live), testing::ElementsAre(
                                R"(one Update {"f:spec":{".":{},"f:set":{".":{},"v:\"q\"":{}}}})"));
}

TEST_F(ApplyTest, ManagedFieldsMayBeSent) {
  update_("one", "{a: x}");
  Value sent = live;
  auto after = [&](Value managed_fields, std::string_view subresource = {}) {
    sent.make("metadata").make("managedFields") = std::move(managed_fields);
    Writer two = writer("two");
    two.subresource = std::string(subresource);
    return update(shape(), live, sent, two)["metadata"]["managedFields"];
  };
  const Value& was = live["metadata"]["managedFields"];
  EXPECT_EQ(after(was), was);
  EXPECT_EQ(after(Value()), was);
  EXPECT_EQ(after(json::Array()), was);  // of a custom resource
  EXPECT_EQ(after(json::Array{json::Object{{"manager", "x"}}}), was);
  EXPECT_TRUE(after(json::Array{json::Object()}).isNull());
  EXPECT_EQ(after(json::Array{json::Object()}, "status"), was);
  Value map = yaml("{apiVersion: v1, kind: ConfigMap, metadata: {uid: u, managedFields: []}}");
  Value before = map;
  before.make("metadata").make("managedFields") = was;
  EXPECT_TRUE(update(Type::of("", "v1", "ConfigMap"), before, map,
                     writer("two"))["metadata"]["managedFields"]
                  .isNull());
}

TEST_F(ApplyTest, BeforeTheFirstApply) {
  live = thing("{a: x, b: 1}");
  live.make("metadata").make("uid") = "u";
  update_("one", "{a: w, b: 1}");
  EXPECT_TRUE(owners(live).empty());
  apply_("two", "{b: 1}");
  EXPECT_THAT(
      owners(live),
      testing::ElementsAre(R"(two Apply {"f:spec":{"f:b":{}}})",
                           R"(before-first-apply Update {"f:spec":{".":{},"f:a":{},"f:b":{}}})"));
}

TEST_F(ApplyTest, OldUpdatesBecomeOne) {
  for (int i = 0; i < 12; ++i) {
    Value after = live.isNull() ? thing("{}") : live;
    after.make("spec").make("map").make(format("k{}", i)) = "v";
    live = update(shape(), live, std::move(after), writer(format("m{}", i)));
    live.make("metadata").make("uid") = "u";
    clock.advance(1s);
  }
  auto all = owners(live);
  ASSERT_THAT(all, SizeIs(10));
  EXPECT_EQ(
      all[0],
      R"(ancient-changes Update {"f:spec":{".":{},"f:map":{".":{},"f:k0":{},"f:k1":{},"f:k2":{}}}})");
  EXPECT_EQ(live["metadata"]["managedFields"].at(0)["time"].string(), "2026-01-01T00:00:02Z");
}

TEST_F(ApplyTest, VersionsHaveTheirOwnEntries) {
  update_("one", "{a: x}");
  Writer later = writer("one");
  later.api_version = "x/v2";
  Value after = live;
  after.make("spec").make("b") = 1;
  Value kept = update(shape(), live, after, later);
  EXPECT_THAT(owners(kept), SizeIs(2));
  // A version that is no longer served goes with its entries.
  later.convert = [&](const Value& object, std::string_view version) {
    return version == "x/v2" ? std::optional(Writer::Versioned{shape(), object}) : std::nullopt;
  };
  EXPECT_THAT(owners(update(shape(), live, after, later)),
              testing::ElementsAre(R"(one Update {"f:spec":{"f:b":{}}})"));
  // An applier has one entry, of its last version.
  apply_("two", "{a: x}");
  later.manager = "two";
  later.convert = nullptr;
  auto applied = apply(shape(), live, thing("{b: 2}"), later);
  ASSERT_TRUE(applied) << applied.error().text();
  EXPECT_THAT(owners(*applied), testing::ElementsAre(HasSubstr("two Apply"), HasSubstr("one")));
  EXPECT_EQ((*applied)["metadata"]["managedFields"].at(0)["apiVersion"].string(), "x/v2");
}

TEST_F(ApplyTest, EndpointsKeepWhatIsNotTheirs) {
  Value object = yaml(
      "{apiVersion: apps/v1, kind: Deployment, metadata: {name: d, labels: {a: b}}, spec: "
      "{replicas: 3}, status: {replicas: 2}}");
  GroupVersionKind kind{"apps", "v1", "Deployment"};
  for (std::string subresource : {"", "status"}) {
    Writer one{.manager = "one",
               .api_version = "apps/v1",
               .subresource = subresource,
               .reset = resetFields(kind, subresource)};
    Value out = update(Type::of(kind), Value(), object, one);
    EXPECT_EQ(
        owners(out)[0],
        subresource.empty()
            ? R"(one Update {"f:metadata":{"f:labels":{".":{},"f:a":{}}},"f:spec":{"f:replicas":{}}})"
            : R"(one Update {"f:status":{"f:replicas":{}}})");
    EXPECT_EQ(out["metadata"]["managedFields"].at(0)["subresource"].string(), subresource);
  }
}

TEST_F(ApplyTest, WhatBecameAtomicIsOwnedAsOne) {
  update_("one", "{free: {a: x}, map: {k: v}}");
  Value coarser = schema();
  coarser.make("properties")
      .make("spec")
      .make("properties")
      .make("map")
      .make("x-kubernetes-map-type") = "atomic";
  Value after = live;
  after.make("spec").make("a") = "x";
  EXPECT_THAT(owners(update(Shape::ofResource(coarser), live, after, writer("two")))[0],
              HasSubstr(R"("f:map":{}})"));
}

TEST_F(ApplyTest, DuplicatesThatAreThereAreOneThing) {
  Shape pod = Type::of("", "v1", "Pod");
  auto made = [](std::string_view env) {
    return yaml(
        format("{{apiVersion: v1, kind: Pod, metadata: {{name: p}}, spec: {{containers: "
               "[{{name: c, env: {}}}]}}}}",
               env));
  };
  Writer one{.manager = "one", .api_version = "v1"};
  live = update(pod, Value(), made("[{name: A, value: x}, {name: B}, {name: A, value: w}]"), one);
  EXPECT_THAT(owners(live)[0],
              HasSubstr(R"("k:{\"name\":\"A\"}":{},"k:{\"name\":\"B\"}":{".":{},)"));
  Writer two{.manager = "two", .api_version = "v1"};
  auto conflict = apply(pod, live, made("[{name: A, value: z}]"), two);
  ASSERT_FALSE(conflict);
  auto forced = apply(pod, live, made("[{name: A, value: z}]"), two, Force::Yes);
  ASSERT_TRUE(forced) << forced.error().text();
  EXPECT_EQ(json::write((*forced)["spec"]["containers"].at(0)["env"]),
            R"([{"name":"A","value":"z"},{"name":"B"}])");
}

TEST_F(ApplyTest, MalformedManagedFields) {
  live = thing("{a: x}");
  live.make("metadata").make("managedFields") = yaml(
      "[{manager: m, operation: Apply, apiVersion: v1, fieldsType: FieldsV1, fieldsV1: {x: {}}}]");
  auto refused = applied("one", "{a: x}");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::Internal);
  EXPECT_THAT(refused.error().text(), HasSubstr("failed to decode managed fields"));
}

}  // namespace
}  // namespace cadre::kube
