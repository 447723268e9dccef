// What is made from a description, against a real kube-apiserver: it takes the CRD, and answers to
// every object of the table in test/schemas, and to random ones, as kube::validate and
// kube::withDefaults do.
#include <random>

#include "component/schema_server.h"
#include "json/random_value.h"
#include "kube/explain.h"
#include "kube/testing/gadget.h"

namespace cadre::kube {
namespace {

using testing::HasSubstr;

class SchemaClusterTest : public testing::Test {
 protected:
  static inline std::unique_ptr<SchemaServer> server;

  static void SetUpTestSuite() {
    // A group that is nobody else's.
    server =
        std::make_unique<SchemaServer>(Gadget::make(format("gadgets-{}.cadre.dev", ::getpid())));
  }
  static void TearDownTestSuite() { server.reset(); }

  const Kind& kind = server->kind;

  json::Value gadget(std::string_view name, json::Object spec) const {
    return json::Object{{"apiVersion", kind.gvk().apiVersion()},
                        {"kind", kind.kind},
                        {"metadata", json::Object{{"name", name}, {"namespace", server->ns}}},
                        {"spec", std::move(spec)}};
  }

  // Checks; and formats, for which the server lets through lists, and what follows a time.
  static bool isOursAlone(const FieldError& error) {
    for (std::string_view path : {"spec.any", "spec.amounts[", "spec.since", "spec.bytes"})
      if (error.path.starts_with(path)) return true;
    return false;
  }
};

TEST_F(SchemaClusterTest, TheServerAgrees) {
  server->expectSameAnswers(loadSchemaCases(CADRE_SCHEMAS "/gadget.yaml", kind));
}

// Texts by the thousand, near to right and near to wrong, at once in one object.
TEST_F(SchemaClusterTest, PatternsMeanTheSame) {
  std::mt19937 engine(7);
  const std::vector<std::string> pieces = {
      "a", "b",  "z",    "A",        "0",  "9",  "-",  ".",  "_",    "/", ":",      "@", "h", "m",
      "s", "ms", "1h",   "é",        "😀", " ",  "\n", "==", ">=",   ",", "[",      "]", "<", "~=",
      "*", "!",  "http", "https://", "x",  "\t", "#",  "..", "10ms", "+", "\u2028", "ab"};
  json::Value texts = json::Object{};
  const Schema& schema = kind.spec.field("texts")->schema;
  for (const Property& field : schema.fields) {
    json::Array list;
    for (int i = 0; i < 100; ++i) {
      std::string text;
      for (std::size_t n = engine() % 7; n > 0; --n) text += pieces[engine() % pieces.size()];
      list.emplace_back(std::move(text));
    }
    for (std::size_t length : {62, 63, 64, 255, 256, 257})
      list.emplace_back(std::string(length, 'a'));
    texts.make(field.name) = std::move(list);
  }
  json::Value object = gadget("texts", {{"mode", "Proxy"}, {"texts", std::move(texts)}});
  auto answer = server->create(kind.resource(), object, {.dry_run = true});
  ASSERT_FALSE(answer);
  std::vector<std::string> ours;
  for (const FieldError& error : validate(kind, object).errors) ours.push_back(error.path);
  std::vector<std::string> theirs;
  for (const Detail& detail : answer.error().details) theirs.push_back(detail.field);
  EXPECT_GT(theirs.size(), 100u);
  EXPECT_LT(theirs.size(), 800u);
  EXPECT_EQ(differences(ours, theirs), "");
}

TEST_F(SchemaClusterTest, RandomObjectsAreJudgedAlike) {
  auto cases = loadSchemaCases(CADRE_SCHEMAS "/gadget.yaml", kind);
  ASSERT_GT(cases.size(), 1u);
  const json::Value good = cases[1].object;
  int refused = 0, accepted = 0, strict = 0;
  for (std::uint32_t seed = 1; seed <= 1000 && !HasFailure(); ++seed) {
    json::Mutations mutations(seed);
    SchemaCase c{.object = good};
    for (std::size_t n = 1 + mutations.below(3); n > 0; --n) {
      json::Value spec = c.object["spec"];
      mutations.apply(spec);
      c.object.make("spec") = std::move(spec);
    }
    SCOPED_TRACE(format("seed {}: {}", seed, json::write(c.object["spec"])));
    Validation ours = validate(kind, c.object);
    auto answer = server->show(c, "Ignore");
    std::multiset<std::string> found, expected;
    if (!answer)
      for (const Detail& cause : SchemaServer::causes(answer.error()))
        expected.insert(cause.field + " " + cause.reason);
    bool odd = false;
    for (const FieldError& error : ours.errors) {
      std::string one = error.path + " " + error.detail().reason;
      if (!isOursAlone(error) || expected.contains(one)) found.insert(one);
      // Fractions that are nearly whole, such as 1000000000.5, are integers to the server's types,
      // and then not to its rules.
      odd = odd || (error.message.find("must be of type integer") != std::string::npos &&
                    error.message.ends_with("\"number\"") && !expected.contains(one));
    }
    if (odd) continue;
    EXPECT_EQ(found, expected) << (answer ? "accepted" : answer.error().text());
    ++(answer ? accepted : refused);
    if (answer) {
      EXPECT_EQ(json::write((*answer)["spec"]), server->stored(c.object));
    }
    if (ours.unknown.empty()) continue;
    ++strict;
    auto refusal = server->show(c, "Strict");
    ASSERT_FALSE(refusal);
    for (const FieldError& unknown : ours.unknown)
      EXPECT_THAT(refusal.error().text(), HasSubstr("unknown field \"" + unknown.path + "\""));
  }
  EXPECT_GT(accepted, 50);
  EXPECT_GT(refused, 50);
  EXPECT_GT(strict, 10);
}

TEST_F(SchemaClusterTest, KubectlExplainsAndShowsIt) {
  std::string text =
      server->kubectl({"explain", "gadgets.spec.ports", "--api-version", kind.gvk().apiVersion()});
  EXPECT_THAT(text, HasSubstr("FIELD: ports <[]Object>"));
  EXPECT_THAT(text, HasSubstr("Where it listens."));
  // Each field has the line that ours has.
  auto ours = explain(kind, "spec.ports");
  ASSERT_TRUE(ours);
  for (std::string_view line : split(*ours, '\n')) {
    if (!line.starts_with("  ") || line.starts_with("   ")) continue;
    EXPECT_THAT(text, HasSubstr(line));
  }
  auto made = server->create(kind.resource(), gadget("one", {{"mode", "Proxy"}}));
  ASSERT_TRUE(made) << made.error().text();
  std::string table = server->kubectl({"get", "cadre", "-n", server->ns, "-o", "wide"});
  EXPECT_THAT(table, testing::ContainsRegex("NAME +MODE +READY +PHASE +AGE"));
  EXPECT_THAT(table, testing::ContainsRegex("one +Proxy"));
  std::string scaled = server->kubectl(
      {"scale", "gadgets." + kind.group + "/one", "-n", server->ns, "--replicas=2"});
  EXPECT_THAT(scaled, HasSubstr("scaled"));
}

}  // namespace
}  // namespace cadre::kube
