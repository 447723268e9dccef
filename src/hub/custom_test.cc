#include "hub/custom.h"

#include "hub/definition.h"
#include "hub/objects.h"
#include "hub/testing/custom_table.h"
#include "json/parse.h"
#include "json/write.h"
#include "kube/structural.h"
#include "kube/testing/gadget.h"

namespace cadre::hub {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

const std::string kGroup = "test.cadre.dev";
// When the tables were written: ages in them are from then.
const Time kNow = *parseTime("2026-11-15T18:30:00Z");

json::Value yaml(std::string_view text) {
  auto documents = json::parseYaml(text, "test");
  EXPECT_TRUE(documents) << documents.error().text();
  return documents && !documents->empty() ? documents->front().value : json::Value();
}

KindRef kindOf(const json::Value& crd, Natives natives = {}) {
  auto kinds = kindsOf(defaulted(crd), natives);
  EXPECT_THAT(kinds, SizeIs(1));
  return kinds.empty() ? nullptr : kinds.front();
}

json::Value simple(std::string_view schema, std::string_view version = "{}") {
  json::Value spec = yaml("{scope: Cluster, names: {plural: gears, kind: Gear}}");
  spec.make("group") = kGroup;
  json::Value one = yaml("{name: v1, served: true, storage: true}");
  one.make("schema") = json::Object{{"openAPIV3Schema", yaml(schema)}};
  spec.make("versions") = json::Array{json::applyMergePatch(one, yaml(version))};
  return definitionOf(spec, "gears." + kGroup);
}

class CustomTables : public testing::TestWithParam<std::string> {};

TEST_P(CustomTables, AreAnsweredAsTheySay) {
  CustomTable table(format("{}/{}.yaml", CADRE_CUSTOM, GetParam()), kGroup);
  EXPECT_THAT(validateCrd(defaulted(table.crd)), IsEmpty());
  KindRef kind = kindOf(table.crd);
  ASSERT_TRUE(kind);
  EXPECT_FALSE(table.rows.empty());
  for (const CustomRow& row : table.rows) {
    SCOPED_TRACE(row.title);
    CustomAnswer answer = ask(*kind, row);
    EXPECT_EQ(answer.undecodable, row.undecodable);
    EXPECT_EQ(kube::differences(answer.texts(), row.errors), "");
    if (row.errors.empty()) {
      EXPECT_THAT(answer.unknown, testing::UnorderedElementsAreArray(row.unknown));
      EXPECT_THAT(answer.warnings, testing::UnorderedElementsAreArray(row.warnings));
    }
    if (!row.stored.isNull()) {
      EXPECT_EQ(json::write(withoutMetadata(answer.object)), json::write(row.stored));
    }
    if (row.cells.isNull()) continue;
    json::Array cells = kind->cells(answer.object, kNow);
    cells.pop_back();
    EXPECT_EQ(json::write(cells), json::write(row.cells));
  }
}

INSTANTIATE_TEST_SUITE_P(All, CustomTables, testing::Values("values", "objects", "columns"));

TEST(Definitions, AreAnsweredAsTheTableSays) {
  auto rows = loadDefinitions(CADRE_CUSTOM "/definitions.yaml", kGroup);
  EXPECT_FALSE(rows.empty());
  for (const DefinitionRow& row : rows) {
    SCOPED_TRACE(row.title);
    json::Value old;
    json::Value crd = row.crd;
    if (!row.before.isNull()) {
      old = defaulted(row.before);
      old.make("status") = acceptedStatus(old, {}, kNow);
      crd.make("metadata") = old["metadata"];
    }
    std::set<std::string> texts;
    for (const kube::FieldError& error : validateCrd(defaulted(crd, old), old))
      texts.insert(error.text());
    EXPECT_EQ(kube::differences({texts.begin(), texts.end()}, row.errors), "");
  }
}

// What is made from a description is judged by the native side of its rules, and a server says the
// same of this table. What only checks find is not for a server.
TEST(CustomKind, OfANativeKindSaysWhatItSays) {
  const kube::Kind& native = kube::Gadget::kind();
  const kube::Kind* natives[] = {&native};
  const json::Value crd = kube::crd(native);
  EXPECT_THAT(validateCrd(defaulted(crd)), IsEmpty());
  KindRef kind = kindOf(crd, natives);
  auto cases = kube::loadSchemaCases(CADRE_SCHEMAS "/gadget.yaml", native);
  EXPECT_FALSE(cases.empty());
  for (const kube::SchemaCase& c : cases) {
    SCOPED_TRACE(c.title);
    CustomRow row{.title = c.title, .object = c.object, .before = c.before, .status = c.status};
    if (c.status) {
      row.before = c.object;
      row.before.makeObject().erase("status");
    }
    for (json::Value* object : {&row.object, &row.before})
      if (!object->isNull()) object->make("metadata").make("namespace") = "default";
    CustomAnswer answer = ask(*kind, row);
    std::vector<std::string> texts;
    for (const std::string& text : answer.texts())
      if (!text.starts_with("<nil>") && !text.starts_with('.') &&
          text.find("must validate at least one schema") == std::string::npos)
        texts.push_back(text);
    // Where a server lets a wrong type through, the hub does not.
    std::vector<std::string> stricter = c.errors;
    stricter.insert(stricter.end(), c.native.begin(), c.native.end());
    if (kube::differences(texts, stricter) != "") {
      EXPECT_EQ(kube::differences(texts, c.errors), "");
    }
    EXPECT_THAT(answer.unknown, testing::UnorderedElementsAreArray(c.unknown));
    if (!c.stored.isNull()) {
      EXPECT_EQ(json::write(answer.object["spec"]), json::write(c.stored));
    }
  }
}

TEST(CustomKind, TakesItsNamesFromTheDefinition) {
  json::Value crd = yaml(R"({spec: {group: a.b, scope: Cluster,
    names: {plural: gears, kind: Gear, shortNames: [g, gr], categories: [all]}, versions: [
    {name: v1, served: true, storage: false, schema: {openAPIV3Schema: {type: object}}},
    {name: v2, served: true, storage: true, subresources: {status: {}, scale: {specReplicasPath: .spec.n, statusReplicasPath: .status.n}},
     selectableFields: [{jsonPath: .spec.a}], schema: {openAPIV3Schema: {type: object}}},
    {name: v3, served: false, storage: false, schema: {openAPIV3Schema: {type: object}}}]}})");
  auto kinds = kindsOf(crd);
  ASSERT_THAT(kinds, SizeIs(2));
  const Kind &one = *kinds[0], &two = *kinds[1];
  EXPECT_EQ(one.resource.apiVersion(), "a.b/v1");
  EXPECT_EQ(two.resource.apiVersion(), "a.b/v2");
  EXPECT_FALSE(two.resource.namespaced);
  EXPECT_EQ(two.singular, "gear");
  EXPECT_THAT(two.short_names, ElementsAre("g", "gr"));
  EXPECT_THAT(two.categories, ElementsAre("all"));
  EXPECT_EQ(one.storage, "a.b/gears");
  EXPECT_EQ(one.stored_version, "v2");
  EXPECT_FALSE(one.has_status || one.has_scale);
  EXPECT_TRUE(two.has_status && two.has_scale);
  EXPECT_EQ(two.scale().spec_path, "spec.n");
  EXPECT_EQ(two.scale().status_path, "status.n");
  ASSERT_EQ(two.selectable().size(), 1u);
  EXPECT_EQ(two.selectable()[0].path, "spec.a");
  ASSERT_TRUE(two.schema());
  EXPECT_EQ((*two.schema())["type"].string(), "object");
  ASSERT_THAT(two.columns(), SizeIs(2));
  EXPECT_EQ(two.columns()[0].name, "Name");
  EXPECT_EQ(two.columns()[1].name, "Age");
}

TEST(CustomKind, CountsGenerationsByWhatIsWanted) {
  KindRef plain = kindOf(simple("{type: object, x-kubernetes-preserve-unknown-fields: true}"));
  KindRef with_status = kindOf(simple("{type: object, x-kubernetes-preserve-unknown-fields: true}",
                                      "{subresources: {status: {}}}"));
  const json::Value before = yaml("{metadata: {name: x}, spec: {a: 1}, status: {b: 1}}");
  EXPECT_FALSE(plain->isNewGeneration(before, yaml("{metadata: {name: x, labels: {a: b}}, "
                                                   "spec: {a: 1}, status: {b: 1}}")));
  const json::Value status = yaml("{metadata: {name: x}, spec: {a: 1}, status: {b: 2}}");
  EXPECT_TRUE(plain->isNewGeneration(before, status));
  EXPECT_FALSE(with_status->isNewGeneration(before, status));
  const json::Value other = yaml("{metadata: {name: x}, spec: {a: 1}, status: {b: 1}, more: 1}");
  EXPECT_TRUE(with_status->isNewGeneration(before, other));
}

TEST(CustomKind, AgesReadAsKubectlShowsThem) {
  struct Case {
    Duration age;
    std::string text;
  };
  const Case cases[] = {{-5s, "<invalid>"},
                        {-1s, "0s"},
                        {0s, "0s"},
                        {119s, "119s"},
                        {120s, "2m"},
                        {5min + 3s, "5m3s"},
                        {10min + 59s, "10m"},
                        {179min, "179m"},
                        {180min, "3h"},
                        {7h + 59min, "7h59m"},
                        {8h + 30min, "8h"},
                        {47h, "47h"},
                        {48h, "2d"},
                        {191h, "7d23h"},
                        {192h, "8d"},
                        {24h * 729, "729d"},
                        {24h * 730, "2y"},
                        {24h * 800, "2y70d"},
                        {24h * 365 * 8, "8y"},
                        {24h * 365 * 9 + 24h, "9y"}};
  KindRef kind = kindOf(simple("{type: object}"));
  for (const Case& c : cases) {
    json::Value object = yaml("{metadata: {name: x}}");
    object.make("metadata").make("creationTimestamp") = formatTime(kNow - c.age);
    EXPECT_EQ(json::write(kind->cells(object, kNow)), format("[\"x\",\"{}\"]", c.text));
  }
}

TEST(CustomKind, TellsWhatIsNotChecked) {
  json::Value crd = simple(R"y({type: object, x-kubernetes-validations: [{rule: "has(self.spec)"}],
    properties: {spec: {type: object, properties: {a: {type: array, items: {type: string,
    x-kubernetes-validations: [{rule: "self != 'x'"}]}}, b: {type: string, pattern: "(?i)x"}}}}})y");
  EXPECT_THAT(uncheckedOf(crd), ElementsAre("gears/v1: the object: the rule `has(self.spec)` is "
                                            "not evaluated",
                                            "gears/v1: spec.a[]: the rule `self != 'x'` is not "
                                            "evaluated"));
  const kube::Kind* natives[] = {&kube::Gadget::kind()};
  EXPECT_THAT(uncheckedOf(kube::crd(kube::Gadget::kind()), natives), IsEmpty());
  // As the server, which does not ask rules of what is wrong already.
  KindRef kind = kindOf(crd);
  CustomRow row{.object = yaml("{apiVersion: test.cadre.dev/v1, kind: Gear, metadata: {name: x}, "
                               "spec: {b: 5}}")};
  EXPECT_THAT(ask(*kind, row).texts(),
              ElementsAre(HasSubstr("<nil>: Invalid value: null: some validation rules were not"),
                          HasSubstr("spec.b: Invalid value: \"integer\"")));
}

TEST(CustomKind, HostileSchemasAreRefused) {
  json::Value deep = yaml("{type: object}");
  for (std::size_t i = 0; i <= kube::kMaxSchemaDepth; ++i)
    deep = json::Object{{"type", "object"}, {"properties", json::Object{{"a", deep}}}};
  json::Value crd = simple("{type: object}");
  crd.make("spec").make("versions").makeArray()[0].make("schema").make("openAPIV3Schema") = deep;
  auto errors = validateCrd(defaulted(crd));
  ASSERT_THAT(errors, SizeIs(1));
  EXPECT_THAT(errors[0].text(), HasSubstr("the schema is nested more than 64 deep"));
  EXPECT_THAT(kindsOf(crd), IsEmpty());

  json::Array many;
  for (std::size_t i = 0; i <= kube::kMaxSchemaParts; ++i) many.emplace_back(json::Object{});
  crd.make("spec").make("versions").makeArray()[0].make("schema").make("openAPIV3Schema") =
      json::Object{{"type", "object"}, {"anyOf", many}};
  errors = validateCrd(defaulted(crd));
  ASSERT_THAT(errors, SizeIs(1));
  EXPECT_THAT(errors[0].text(), HasSubstr("has more than 100000 parts"));
}

TEST(CustomKind, DefaultsHaveAnEnd) {
  json::Value item = json::Object{{"type", "string"}, {"default", std::string(100'000, 'x')}};
  json::Value crd = simple("{type: array, items: {type: object, properties: {}}}");
  json::Value& spec = crd.make("spec")
                          .make("versions")
                          .makeArray()[0]
                          .make("schema")
                          .make("openAPIV3Schema")
                          .make("properties")
                          .make("spec");
  spec.make("items").make("properties").make("long") = item;
  ASSERT_THAT(kindsOf(crd), SizeIs(1));
  json::Value object = json::Object{{"spec", json::Array(3000, json::Object())}};  // 300 MB of them
  kindsOf(crd)[0]->setDefaults(object);
  std::size_t bytes = json::write(object).size();
  EXPECT_GT(bytes, Objects::kMaxBytes) << "it is refused, not kept in part";
  EXPECT_LT(bytes, 2 * kube::kMaxDefaults);
}

TEST(CustomKind, TheDefinitionsThatAreDeployedAreServed) {
  std::ifstream in(CADRE_DEPLOY "/crds.yaml");
  std::string text((std::istreambuf_iterator<char>(in)), {});
  auto documents = json::parseYaml(text, "crds.yaml");
  ASSERT_TRUE(documents) << documents.error().text();
  EXPECT_FALSE(documents->empty());
  for (const json::Document& document : *documents) {
    SCOPED_TRACE(document.value["metadata"]["name"].string());
    EXPECT_THAT(validateCrd(defaulted(document.value)), IsEmpty());
    KindRef kind = kindOf(document.value);
    ASSERT_TRUE(kind);
    EXPECT_TRUE(kind->has_status);
    for (const Kind::Column& column : kind->columns()) EXPECT_FALSE(column.name.empty());
    EXPECT_EQ(kind->columns().back().name, "Age");
  }
}

TEST(Definitions, GetTheirDefaults) {
  json::Value crd = defaulted(simple("{type: object}"));
  EXPECT_EQ(json::write(crd["spec"]["names"]),
            R"({"kind":"Gear","listKind":"GearList","plural":"gears","singular":"gear"})");
  EXPECT_EQ(json::write(crd["spec"]["conversion"]), R"({"strategy":"None"})");
  EXPECT_EQ(json::write(crd["status"]), R"({"acceptedNames":{"kind":"","plural":""},)"
                                        R"("conditions":null,"storedVersions":["v1"]})");
  json::Value next = simple("{type: object}", "{name: v2}");
  EXPECT_EQ(json::write(defaulted(next, crd)["status"]["storedVersions"]), R"(["v1","v2"])");
}

TEST(Definitions, GetTheirNames) {
  json::Value crd = defaulted(simple("{type: object}"));
  EXPECT_FALSE(isEstablished(crd));
  crd.make("status") = acceptedStatus(crd, {}, kNow);
  EXPECT_TRUE(isEstablished(crd));
  EXPECT_EQ(
      json::write(crd["status"]),
      R"({"acceptedNames":{"kind":"Gear","listKind":"GearList","plural":"gears","singular":"gear"},)"
      R"("conditions":[{"lastTransitionTime":"2026-11-15T18:30:00Z","message":"no conflicts found",)"
      R"("reason":"NoConflicts","status":"True","type":"NamesAccepted"},)"
      R"({"lastTransitionTime":"2026-11-15T18:30:00Z",)"
      R"("message":"the initial names have been accepted","reason":"InitialNamesAccepted",)"
      R"("status":"True","type":"Established"}],"storedVersions":["v1"]})");

  json::Value other = simple("{type: object}");
  other.make("metadata").make("name") = "wheels." + kGroup;
  other.make("spec").make("names") =
      yaml("{plural: wheels, kind: Wheel, singular: gear, listKind: GearList, categories: [all]}");
  other = defaulted(other);
  other.make("status") = acceptedStatus(other, {crd}, kNow);
  EXPECT_FALSE(isEstablished(other));
  const json::Value& status = other["status"];
  EXPECT_EQ(json::write(status["acceptedNames"]),
            R"({"categories":["all"],"kind":"Wheel","plural":"wheels"})");
  EXPECT_EQ(status["conditions"].at(0)["reason"].string(), "ListKindConflict");
  EXPECT_EQ(status["conditions"].at(0)["message"].string(), "\"GearList\" is already in use");
  EXPECT_EQ(status["conditions"].at(1)["reason"].string(), "NotAccepted");
  // The first goes: its names are free.
  json::Value later = acceptedStatus(other, {}, kNow + 1min);
  EXPECT_EQ(later["conditions"].at(1)["reason"].string(), "InitialNamesAccepted");
  EXPECT_EQ(later["conditions"].at(1)["lastTransitionTime"].string(), "2026-11-15T18:31:00Z");
  EXPECT_EQ(later["acceptedNames"]["singular"].string(), "gear");
}

}  // namespace
}  // namespace cadre::hub
