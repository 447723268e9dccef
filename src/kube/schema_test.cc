#include "kube/schema.h"

#include "json/parse.h"
#include "json/write.h"
#include "json/yaml.h"
#include "kube/describe.h"
#include "kube/explain.h"
#include "kube/testing/gadget.h"
#include "kube/testing/schema_table.h"
#include "kube/validate.h"

namespace cadre::kube {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

json::Value yaml(std::string_view text) {
  auto documents = json::parseYaml(text, "test");
  EXPECT_TRUE(documents) << documents.error().text();
  return documents && !documents->empty() ? documents->front().value : json::Value();
}

std::vector<std::string> textsOf(const std::vector<FieldError>& errors) {
  std::vector<std::string> out;
  for (const FieldError& error : errors) out.push_back(error.text());
  return out;
}

json::Value gadget(std::string_view spec) {
  return json::Object{{"apiVersion", "test.cadre.dev/v1alpha1"},
                      {"kind", "Gadget"},
                      {"metadata", json::Object{{"name", "x"}}},
                      {"spec", yaml(spec)}};
}

// ------------------------------------------------------------------------------------------------
// The table that also holds for a real API server

TEST(Schema, Table) {
  expectNativeAnswers(Gadget::kind(),
                      loadSchemaCases(CADRE_SCHEMAS "/gadget.yaml", Gadget::kind()));
}

TEST(Schema, NamesWhatIsWrongOutsideTheSpec) {
  struct Case {
    std::string object;
    std::vector<std::string> errors;
  };
  const Case cases[] = {
      {"[]", {"Invalid value: \"array\": must be an object"}},
      {"{}",
       {"apiVersion: Required value", "kind: Required value", "metadata: Required value",
        "spec: Required value"}},
      {"{apiVersion: v1, kind: gadget, metadata: [], spec: {mode: Proxy}}",
       {"apiVersion: Unsupported value: \"v1\": supported values: \"test.cadre.dev/v1alpha1\"",
        "kind: Unsupported value: \"gadget\": supported values: \"Gadget\"",
        "metadata: Invalid value: \"array\": must be an object"}},
      {"{apiVersion: test.cadre.dev/v1alpha1, kind: Gadget, metadata: {labels: {a: 1}}, "
       "spec: {mode: Proxy}}",
       {"metadata.name: Required value: name or generateName is required",
        "metadata.labels: Invalid value: \"integer\": the value of \"a\" must be a string"}},
      {"{apiVersion: test.cadre.dev/v1alpha1, kind: Gadget, metadata: {generateName: web-}, "
       "spec: {mode: Proxy}}",
       {}},
  };
  for (const Case& c : cases)
    EXPECT_EQ(textsOf(validate(Gadget::kind(), yaml(c.object)).errors), c.errors) << c.object;
}

TEST(Schema, UnknownFieldsComeWithTheNearestName) {
  struct Case {
    std::string spec, message;
  };
  const Case cases[] = {
      {"{mode: Proxy, titel: x}", "unknown field \"spec.titel\", did you mean \"title\"?"},
      {"{mode: Proxy, Size: 1}", "unknown field \"spec.Size\", did you mean \"size\"?"},
      {"{mode: Proxy, replica: 1}", "unknown field \"spec.replica\", did you mean \"replicas\"?"},
      {"{mode: Proxy, zzz: 1}", "unknown field \"spec.zzz\""},
      {"{mode: Proxy, source: {ref: a, refs: b}}",
       "unknown field \"spec.source.refs\", did you mean \"ref\"?"},
  };
  for (const Case& c : cases) {
    Validation found = validate(Gadget::kind(), gadget(c.spec));
    EXPECT_THAT(found.errors, IsEmpty()) << c.spec;
    ASSERT_THAT(found.unknown, testing::SizeIs(1)) << c.spec;
    EXPECT_EQ(found.unknown[0].message, c.message);
  }
  json::Value object = gadget("{mode: Proxy}");
  object.make("metadata").make("lables") = json::Object{};
  object.make("specs") = 1;
  EXPECT_THAT(validate(Gadget::kind(), object).unknown,
              ElementsAre(testing::Field(&FieldError::message,
                                         "unknown field \"metadata.lables\", did you mean "
                                         "\"labels\"?"),
                          testing::Field(&FieldError::message,
                                         "unknown field \"specs\", did you mean \"spec\"?")));
}

TEST(Schema, SecretsAreNeverShown) {
  for (std::string_view spec :
       {"{mode: Proxy, password: HUSH}", "{mode: Proxy, password: HUSHHUSHHUSH}",
        "{mode: Proxy, keys: [HUSH]}", "{mode: Proxy, keys: [HUSH, HUSH]}",
        "{mode: Proxy, password: [HUSH]}", "{mode: Proxy, source: {value: HUSH, ref: a}}",
        "{mode: Proxy, keys: {HUSH: 1}}"}) {
    Validation found = validate(Gadget::kind(), gadget(spec));
    EXPECT_THAT(found.errors, Not(IsEmpty())) << spec;
    for (const FieldError& error : found.errors) EXPECT_THAT(error.text(), Not(HasSubstr("HUSH")));
  }
  EXPECT_THAT(
      textsOf(validate(Gadget::kind(), gadget("{mode: Proxy, password: HUSH}")).errors),
      ElementsAre("spec.password: Invalid value: \"<hidden>\": spec.password in body should "
                  "match '^[a-z]*$'"));
}

TEST(Schema, AnObjectThatWasWrongMayStayWrong) {
  json::Value old = gadget("{mode: Hosted, size: 0, title: '!!'}");
  json::Value same = old;
  same.make("metadata").make("finalizers") = json::Array{};
  EXPECT_TRUE(validate(Gadget::kind(), same, {.old = &old}).ok());
  json::Value worse = gadget("{mode: Hosted, size: 0, title: '!!!'}");
  EXPECT_THAT(textsOf(validate(Gadget::kind(), worse, {.old = &old}).errors),
              ElementsAre(HasSubstr("spec.title: Invalid value: \"!!!\"")));
}

TEST(Schema, ErrorsHaveALimit) {
  json::Array numbers;
  for (int i = 0; i < 5000; ++i) numbers.emplace_back("x");
  json::Value object = gadget("{mode: Proxy}");
  object.make("spec").make("matrix") = json::Array{numbers};
  EXPECT_EQ(validate(Gadget::kind(), object).errors.size(), kMaxFieldErrors);
}

TEST(Schema, RefusalsReadAsTheServers) {
  json::Value object = gadget("{mode: x, size: 0}");
  Error error = refusal(Gadget::kind(), object, validate(Gadget::kind(), object).errors);
  EXPECT_EQ(
      error.message,
      "Gadget.test.cadre.dev \"x\" is invalid: [spec.mode: Unsupported value: \"x\": supported "
      "values: \"Proxy\", \"Hosted\", spec.size: Invalid value: 0: spec.size in body should be "
      "greater than or equal to 1]");
  EXPECT_EQ(error.code, Code::InvalidArgument);
  ASSERT_EQ(error.details.size(), 2u);
  EXPECT_EQ(error.details[0].field, "spec.mode");
  EXPECT_EQ(error.details[0].reason, "FieldValueNotSupported");
}

// ------------------------------------------------------------------------------------------------
// Reading and writing

TEST(Describe, ReadsWhatIsThereAndNothingElse) {
  GadgetSpec empty = read<GadgetSpec>(json::Value());
  EXPECT_EQ(empty.size, 3);
  EXPECT_TRUE(empty.on);
  EXPECT_TRUE(empty.network.expose);
  EXPECT_FALSE(empty.source);

  GadgetSpec spec = read<GadgetSpec>(yaml(R"(
mode: Hosted
size: 7
"on": false
tags: [a, b]
ports: [{name: web, port: 80}, {protocol: UDP}]
matrix: [[1], [2, 3]]
words: {a: b}
amounts: {cpu: 500m, count: 3}
limits: {x: {from: 1}}
free: {a: [1]}
percent: 5
ratio: 1
big: 5000000000
since: "2026-01-01T00:00:10Z"
network: {access: [x]}
source: {ref: there}
)"));
  EXPECT_EQ(spec.mode, "Hosted");
  EXPECT_EQ(spec.size, 7);
  EXPECT_FALSE(spec.on);
  EXPECT_THAT(spec.tags, ElementsAre("a", "b"));
  ASSERT_EQ(spec.ports.size(), 2u);
  EXPECT_EQ(spec.ports[0].protocol, "TCP");
  EXPECT_EQ(spec.ports[1].protocol, "UDP");
  EXPECT_THAT(spec.matrix, ElementsAre(ElementsAre(1), ElementsAre(2, 3)));
  EXPECT_EQ(spec.words["a"], "b");
  EXPECT_EQ(spec.amounts["count"], json::Value(3));
  EXPECT_EQ(spec.limits["x"].from, 1);
  EXPECT_FALSE(spec.limits["x"].to);
  EXPECT_EQ(spec.free["a"].at(0).integer(), 1);
  EXPECT_EQ(spec.percent.integer(), 5);
  EXPECT_EQ(spec.ratio, 1.0);
  EXPECT_EQ(spec.big, 5'000'000'000);
  EXPECT_EQ(formatTime(spec.since), "2026-01-01T00:00:10Z");
  EXPECT_THAT(spec.network.access, ElementsAre("x"));
  EXPECT_TRUE(spec.network.expose);
  EXPECT_EQ(spec.source->ref, "there");
}

TEST(Describe, WhatHasTheWrongTypeStaysAsItBegan) {
  GadgetSpec spec = read<GadgetSpec>(yaml(R"(
mode: [Hosted]
size: "7"
replicas: 5000000000
big: 1.5
"on": 1
tags: [a, 5, c]
ports: {}
words: [a]
since: yesterday
network: text
source: 5
maybe: null
)"));
  EXPECT_EQ(spec.mode, "");
  EXPECT_EQ(spec.size, 3);
  EXPECT_FALSE(spec.replicas);
  EXPECT_FALSE(spec.big);
  EXPECT_TRUE(spec.on);
  EXPECT_THAT(spec.tags, ElementsAre("a", "", "c"));  // positions stay
  EXPECT_THAT(spec.ports, IsEmpty());
  EXPECT_THAT(spec.words, IsEmpty());
  EXPECT_EQ(spec.since, Time{});
  EXPECT_TRUE(spec.network.expose);
  EXPECT_FALSE(spec.source);
  EXPECT_FALSE(spec.maybe);
}

TEST(Describe, WritesWhatReadingWouldNotMakeOfNothing) {
  EXPECT_EQ(json::write(write(GadgetSpec())), R"({"mode":"","on":true,"size":3})");
  GadgetSpec spec;
  spec.mode = "Proxy";
  spec.maybe = "";
  spec.network.expose = false;
  spec.ports.push_back({.name = "web", .port = 80});
  spec.source = GadgetSource{};
  spec.limits["a"] = {};
  EXPECT_EQ(json::write(write(spec)),
            R"({"limits":{"a":{}},"maybe":"","mode":"Proxy","network":{"expose":false},"on":true,)"
            R"("ports":[{"name":"web","port":80,"protocol":"TCP"}],"size":3,"source":{}})");
}

TEST(Describe, WhatIsWrittenReadsAsTheSame) {
  for (const SchemaCase& c : loadSchemaCases(CADRE_SCHEMAS "/gadget.yaml", Gadget::kind())) {
    json::Value once = write(read<GadgetSpec>(c.object["spec"]));
    EXPECT_EQ(json::write(write(read<GadgetSpec>(once))), json::write(once)) << c.title;
  }
}

TEST(Describe, EveryStatusHasTheCommonPart) {
  GadgetStatus status;
  EXPECT_EQ(json::write(write(status)), R"({"observedGeneration":0,"ready":false,"replicas":0})");
  status.observed_generation = 4;
  status.conditions.push_back({.type = "Ready",
                               .status = ConditionStatus::True,
                               .reason = "Ready",
                               .message = "all is well",
                               .observed_generation = 4,
                               .last_transition_time = *parseTime("2026-01-01T00:00:00Z")});
  json::Value written = write(status);
  EXPECT_EQ(json::write(written["conditions"]),
            R"([{"lastTransitionTime":"2026-01-01T00:00:00Z","message":"all is well",)"
            R"("observedGeneration":4,"reason":"Ready","status":"True","type":"Ready"}])");
  GadgetStatus again = read<GadgetStatus>(written);
  EXPECT_EQ(again.conditions, status.conditions);
  EXPECT_EQ(again.observed_generation, 4);
  EXPECT_THAT(read<GadgetStatus>(yaml("{conditions: [5]}")).conditions, testing::SizeIs(1));
}

// ------------------------------------------------------------------------------------------------
// The CRD

TEST(Schema, Crd) {
  json::Value made = crd(Gadget::kind());
  EXPECT_EQ(made["metadata"]["name"].string(), "gadgets.test.cadre.dev");
  EXPECT_EQ(json::write(made["spec"]["names"]),
            R"({"categories":["cadre","testing"],"kind":"Gadget","listKind":"GadgetList",)"
            R"("plural":"gadgets","shortNames":["gg"],"singular":"gadget"})");
  EXPECT_EQ(made["spec"]["scope"].string(), "Namespaced");
  const json::Value& version = made["spec"]["versions"].at(0);
  EXPECT_EQ(
      json::write(version["subresources"]),
      R"({"scale":{"labelSelectorPath":".status.selector","specReplicasPath":".spec.replicas",)"
      R"("statusReplicasPath":".status.replicas"},"status":{}})");
  EXPECT_EQ(json::write(version["additionalPrinterColumns"]),
            R"([{"jsonPath":".spec.mode","name":"Mode","type":"string"},)"
            R"({"jsonPath":".status.ready","name":"Ready","type":"boolean"},)"
            R"({"jsonPath":".status.phase","name":"Phase","priority":1,"type":"string"},)"
            R"({"jsonPath":".metadata.creationTimestamp","name":"Age","type":"date"}])");
  const json::Value& root = version["schema"]["openAPIV3Schema"];
  EXPECT_EQ(json::write(root["required"]), R"(["spec"])");
  EXPECT_EQ(json::write(root["properties"]["status"]["default"]), R"({"observedGeneration":-1})");
  const json::Value& spec = root["properties"]["spec"]["properties"];
  struct Case {
    std::string field, schema;
  };
  const Case cases[] = {
      {"mode", "{description: How it works., type: string, enum: [Proxy, Hosted]}"},
      {"size",
       "{description: How large it is., type: integer, default: 3, minimum: 1, "
       "maximum: 100}"},
      {"tags",
       "{description: Words about it., type: array, x-kubernetes-list-type: set, minItems: 1, "
       "maxItems: 4, items: {type: string, maxLength: 10}}"},
      {"words",
       "{description: Words by name., type: object, minProperties: 1, maxProperties: 3, "
       "additionalProperties: {type: string, maxLength: 5}}"},
      {"free",
       "{description: An object of any shape., type: object, x-kubernetes-preserve-unknown-fields: "
       "true}"},
      {"any",
       "{description: 'A text, or an object with a text.', x-kubernetes-preserve-unknown-fields: "
       "true}"},
      {"percent",
       "{description: A number or a share., pattern: '^[0-9]+%$', x-kubernetes-int-or-string: "
       "true}"},
      {"maybe",
       "{description: A text or null., type: string, nullable: true, default: 'yes', maxLength: "
       "5}"},
      {"oldTitle", "{description: 'What people read. Deprecated: use title', type: string}"},
      {"source", R"(
description: Where something comes from.
type: object
properties:
  value: {description: The text itself., type: string, maxLength: 100}
  ref: {description: Where it is found., type: string, maxLength: 63, pattern: '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'}
  package: {description: 'What brings it: a word of CEL too.', type: string, maxLength: 63, pattern: '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'}
x-kubernetes-validations:
  - rule: '[has(self.value), has(self.ref), has(self.__package__)].filter(x, x).size() == 1'
    message: exactly one of value, ref, package must be set
    reason: FieldValueForbidden
)"},
  };
  for (const Case& c : cases)
    EXPECT_EQ(json::write(spec[c.field]), json::write(yaml(c.schema))) << c.field;
  EXPECT_LT(json::write(made).size(), 60'000u);
}

// ------------------------------------------------------------------------------------------------
// Descriptions that are wrong

struct Flawed {
  std::string text = "!";
  int number = 5;
  std::vector<GadgetPort> ports;
  std::string twice;

  static void describe(Fields<Flawed>& f) {
    f("text", &Flawed::text, "Text.").defaults().pattern("^[a-z]$").required();
    f("number", &Flawed::number, "").pattern("^(").maxLength(5);
    f("ports", &Flawed::ports, "Ports.").keyedBy({"host", "x"});
    f("twice", &Flawed::twice, "Once.").format("zip").min(5).set().each();
    f("twice", &Flawed::twice, "Again.");
    f.anyOf({"text", "nothing"});
    f.rule({.cel = "self == oldSelf", .message = "", .field_path = "x", .holds = [](auto&) {
              return true;
            }});
    f.rule({.cel = "true", .message = "m", .reason = Fault::TooLong});
  }
};

TEST(Schema, DescriptionsHaveNoProblems) { EXPECT_THAT(problems(Gadget::kind()), IsEmpty()); }

TEST(Schema, ProblemsOfDescriptions) {
  Kind kind{.group = "g", .version = "v1", .kind = "K", .plural = "ks", .singular = "k"};
  kind.spec = specOf<Flawed>();
  kind.columns = {{"Age", "date", ".metadata.creationTimestamp"}};
  EXPECT_THAT(
      problems(kind),
      testing::UnorderedElementsAre(
          "spec: the rule self == oldSelf has no message",
          "spec: the rule self == oldSelf is about a change on one of its sides only",
          "spec: the rule self == oldSelf has a field path that does not begin with a dot",
          "spec: the rule true has no native side",
          "spec: the rule true has a reason that a CRD cannot give",
          "spec.text: is required and has a default: that is never used",
          "the default is wrong: spec.text: Invalid value: \"!\": spec.text in body should match "
          "'^[a-z]$'",
          "spec.number: missing closing ): `^(`", "spec.number: has no documentation",
          "spec.number: has a size, but is no text, list or map",
          "spec.ports: the key host must be a field that is required or has a default",
          "spec.ports: the key x must be a field that is required or has a default",
          "spec.twice: has the format zip, which is not checked here",
          "spec.twice: has a range, but is no number", "spec.twice: each() is for lists and maps",
          "spec.twice: is a set or has keys, but is no list", "spec: has two fields twice",
          "status: has no documentation",
          "status: conditions are missing: derive it from CommonStatus",
          "spec: one of its fields is to be nothing, which is none",
          "the column Age comes by itself"));
}

// ------------------------------------------------------------------------------------------------
// Documentation

TEST(Explain, Fields) {
  auto text = explain(Gadget::kind(), "spec.ports");
  ASSERT_TRUE(text) << text.error().text();
  EXPECT_EQ(*text, R"(GROUP:      test.cadre.dev
KIND:       Gadget
VERSION:    v1alpha1

FIELD: ports <[]Object>

DESCRIPTION:
    Where it listens.
    at most 8 items; One per name, protocol

FIELDS:
  name	<string> -required-
    What it is called.
    at most 63 characters; Matches ^[a-z0-9]([-a-z0-9]*[a-z0-9])?$

  protocol	<string>
    What it speaks.
    Default: "TCP"; One of: TCP, UDP

  port	<integer> -required-
    Its number.
    1 to 65535

  host	<string>
    Its address, for good.
    at most 64 characters

)");
  EXPECT_THAT(*explain(Gadget::kind(), ""), HasSubstr("  spec\t<Object> -required-\n"));
  EXPECT_THAT(*explain(Gadget::kind(), "spec.ports.port"), HasSubstr("FIELD: port <integer> -req"));
  EXPECT_THAT(*explain(Gadget::kind(), "spec.limits.from"), HasSubstr("The least."));
  EXPECT_THAT(*explain(Gadget::kind(), "spec.oldTitle"), HasSubstr("Deprecated: use title"));
  EXPECT_THAT(*explain(Gadget::kind(), "status.conditions"), HasSubstr("lastTransitionTime"));
}

TEST(Explain, PathsThatDoNotExist) {
  struct Case {
    std::string path, message;
  };
  const Case cases[] = {
      {"spek", "Gadget has no field \"spek\"; it has apiVersion, kind, metadata, spec, status"},
      {"spec.source.x", "spec.source has no field \"x\"; it has value, ref, package"},
      {"spec.title.x", "spec.title has no field \"x\"; it has none that are described"},
      {"spec.", "spec has no field \"\"; it has mode, hosted, "},
  };
  for (const Case& c : cases) {
    auto text = explain(Gadget::kind(), c.path);
    ASSERT_FALSE(text) << c.path;
    EXPECT_EQ(text.error().code, Code::NotFound);
    EXPECT_THAT(text.error().message, testing::StartsWith(c.message));
  }
}

TEST(Explain, Reference) {
  std::string page = reference(Gadget::kind());
  for (std::string_view line :
       {"# Gadget\n\nA thing that has everything.\n\n`apiVersion: test.cadre.dev/v1alpha1`",
        ", `kind: Gadget`, in a namespace. `kubectl get gadgets`, short: `gg`.\n",
        "| `mode` | string, required | One of: Proxy, Hosted | How it works. |\n",
        "| `ports[].port` | integer, required | 1 to 65535 | Its number. |\n",
        "| `limits{}.to` | integer | Default: 10 | The most. |\n",
        "| `texts.duration` | []string | each: Matches `^([0-9]+(h\\|m\\|s\\|ms)){1,4}$` |",
        "| `oldTitle` | string |  | What people read. **Deprecated**: use title |\n",
        "- `spec.hosted`: hosted is needed when mode is Hosted\n",
        "- `spec.limits{}.from`: from must not be above to\n",
        "- `the object`: the name must not be longer than 20\n",
        "| Phase | `.status.phase` | with `-o wide` |\n| Age |"})
    EXPECT_THAT(page, HasSubstr(line));
}

}  // namespace
}  // namespace cadre::kube
