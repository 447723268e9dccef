// What is made from a description, against a real kube-apiserver: it takes the CRD, and answers to
// every object of the table in test/schemas as kube::validate and kube::withDefaults do.
//   CADRE_TEST_KUBECONFIG  its kubeconfig
//   CADRE_CLUSTER_TOOL     tools/cluster, which knows where kubectl is
#include <cstdlib>
#include <random>

#include <unistd.h>

#include "base/format.h"
#include "base/strings.h"
#include "json/random_value.h"
#include "json/write.h"
#include "kube/client.h"
#include "kube/explain.h"
#include "kube/testing/gadget.h"
#include "kube/testing/schema_table.h"
#include "net/process.h"

namespace cadre::kube {
namespace {

using testing::HasSubstr;

constexpr Duration kSoon = 60s;

const Resource kNamespaces{
    .version = "v1", .plural = "namespaces", .kind = "Namespace", .namespaced = false};
const Resource kCrds{.group = "apiextensions.k8s.io",
                     .version = "v1",
                     .plural = "customresourcedefinitions",
                     .kind = "CustomResourceDefinition",
                     .namespaced = false};

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  if (!value) {
    ADD_FAILURE()
        << name << " is not set: run this by tools/test, which starts the API server that it needs";
    return "";
  }
  return value;
}

class SchemaClusterTest : public testing::Test {
 protected:
  net::Loop loop;
  std::unique_ptr<Client> client;
  std::string ns;
  const Kind kind = Gadget::make(format("gadgets-{}.cadre.dev", ::getpid()));  // nobody else's

  static void TearDownTestSuite() {
    SchemaClusterTest last;
    last.connect();
    if (last.client)
      (void)last.run([&](auto done) {
        return last.client->remove(kCrds, {"", "gadgets." + last.kind.group}, {}, std::move(done));
      });
  }
  void TestBody() override {}

  void connect() {
    auto config = loadConfig({.kubeconfig = environment("CADRE_TEST_KUBECONFIG"), .env = {}});
    ASSERT_TRUE(config) << config.error().text();
    auto made = Client::connect(loop, *config);
    ASSERT_TRUE(made) << made.error().text();
    client = *std::move(made);
  }

  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(connect());
    static int count = 0;
    ns = format("schema-{}-{}", ::getpid(), ++count);
    ASSERT_TRUE(create(kNamespaces, json::Object{{"apiVersion", "v1"},
                                                 {"kind", "Namespace"},
                                                 {"metadata", json::Object{{"name", ns}}}}));
    install();
  }

  template <class Start>
  Result<json::Value> run(Start start) {
    return net::await<json::Value>(loop, std::move(start), kSoon);
  }
  Result<json::Value> create(const Resource& resource, const json::Value& object,
                             const WriteOptions& options = {}) {
    return run(
        [&](auto done) { return client->create(resource, object, options, std::move(done)); });
  }
  Result<json::Value> update(const json::Value& object, const WriteOptions& options = {}) {
    return run([&](auto done) {
      return client->update(kind.resource(), object, options, std::move(done));
    });
  }

  // The CRD, until its objects are served.
  void install() {
    auto made = create(kCrds, crd(kind));
    ASSERT_TRUE(made || made.error().code == Code::AlreadyExists) << made.error().text();
    Pending again;
    bool served = false;
    std::function<void()> ask = [&] {
      again = client->list(kind.resource(), {.select = {.ns = ns}}, [&](auto items) {
        served = items.ok();
        if (!served) again = client->scheduler().after(50ms, [&] { ask(); });
      });
    };
    ask();
    ASSERT_TRUE(loop.runUntil([&] { return served; }, kSoon));
  }

  // What the server says about a case.
  Result<json::Value> show(const SchemaCase& c, const std::string& validation) {
    json::Value object = c.object;
    object.make("metadata").make("namespace") = ns;
    const Resource resource = kind.resource();
    if (c.before.isNull() && !c.status)
      return create(resource, object, {.dry_run = true, .field_validation = validation});
    json::Value first = c.status ? object : c.before;
    first.make("metadata").make("namespace") = ns;
    first.make("metadata").make("generateName") = "case-";
    first.make("metadata").makeObject().erase("name");
    auto made = create(resource, first);
    if (!made) return made;
    object.make("metadata").make("resourceVersion") = std::string(resourceVersion(*made));
    object.make("metadata").make("name") = std::string(name(*made));
    return update(
        object,
        {.dry_run = true, .field_validation = validation, .subresource = c.status ? "status" : ""});
  }

  // The spec that we expect a server to keep.
  std::string stored(const json::Value& object) const {
    return json::write(withDefaults(kind, pruned(kind, object))["spec"]);
  }

  // What was found wrong with the object. Left out: that rules were not asked, that one of several
  // schemas is not met (the field follows), and what the scale subresource finds wrong with fields
  // for a second time.
  static std::vector<Detail> causes(const Error& error) {
    std::vector<Detail> out;
    for (Detail detail : error.details) {
      if (detail.field == "<nil>") detail.field.clear();
      if (!detail.message.ends_with("correct the existing errors to complete validation") &&
          !detail.message.ends_with("must validate at least one schema (anyOf)") &&
          !detail.field.starts_with('.'))
        out.push_back(std::move(detail));
    }
    return out;
  }

  // Checks; and formats, for which the server lets through lists, and what follows a time.
  static bool isOursAlone(const FieldError& error) {
    for (std::string_view path : {"spec.any", "spec.amounts[", "spec.since", "spec.bytes"})
      if (error.path.starts_with(path)) return true;
    return false;
  }

  std::string kubectl(std::vector<std::string> words) {
    auto output = [&](std::vector<std::string> argv) {
      auto result = net::await<net::ProcessResult>(
          loop,
          [&](auto done) {
            return net::runProcess(
                loop, {.argv = argv, .env = net::currentEnvironment(), .timeout = kSoon},
                std::move(done));
          },
          kSoon);
      EXPECT_TRUE(result) << result.error().text();
      return result ? result->output + result->errors : "";
    };
    std::string program(trim(output({environment("CADRE_CLUSTER_TOOL"), "which", "kubectl"})));
    // What it remembers of other servers must not be what it finds here.
    std::string cache = format("{}/schema-{}", testing::TempDir(), ::getpid());
    words.insert(words.begin(), {program, "--kubeconfig", environment("CADRE_TEST_KUBECONFIG"),
                                 "--cache-dir", cache});
    return output(words);
  }
};

TEST_F(SchemaClusterTest, TheServerAgrees) {
  for (const SchemaCase& c : loadSchemaCases(CADRE_SCHEMAS "/gadget.yaml", kind)) {
    SCOPED_TRACE(c.title);
    auto answer = show(c, "Ignore");
    EXPECT_EQ(answer.ok(), c.errors.empty()) << (answer ? "accepted" : answer.error().text());
    if (!answer) {
      std::vector<std::string> texts;
      std::multiset<std::string> reasons, our_reasons;
      for (const Detail& cause : causes(answer.error())) {
        texts.push_back(cause.field.empty() ? cause.message : cause.field + ": " + cause.message);
        reasons.insert(cause.field + " " + cause.reason);
      }
      EXPECT_EQ(differences(texts, c.errors), "");
      Validation ours = validate(
          kind, c.object, {.old = c.before.isNull() ? nullptr : &c.before, .status = c.status});
      for (const FieldError& error : ours.errors)
        our_reasons.insert(error.path + " " + error.detail().reason);
      EXPECT_EQ(our_reasons, reasons);
    } else if (!c.status) {
      EXPECT_EQ(json::write((*answer)["spec"]), stored(c.object));
    }
    if (c.unknown.empty()) continue;
    auto strict = show(c, "Strict");
    ASSERT_FALSE(strict);
    for (const std::string& path : c.unknown)
      EXPECT_THAT(strict.error().text(), HasSubstr(format("unknown field \"{}\"", path)));
    std::size_t named = 0;
    for (std::size_t at = 0;
         (at = strict.error().text().find("unknown field", at)) != std::string::npos; ++at)
      ++named;
    EXPECT_EQ(named, c.unknown.size()) << strict.error().text();
  }
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
  for (const Field& field : schema.fields) {
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
  json::Value object =
      json::Object{{"apiVersion", kind.gvk().apiVersion()},
                   {"kind", kind.kind},
                   {"metadata", json::Object{{"name", "texts"}, {"namespace", ns}}},
                   {"spec", json::Object{{"mode", "Proxy"}, {"texts", std::move(texts)}}}};
  auto answer = create(kind.resource(), object, {.dry_run = true});
  ASSERT_FALSE(answer);
  std::vector<std::string> ours;
  for (const FieldError& error : validate(kind, object).errors) ours.push_back(error.path);
  std::vector<std::string> theirs;
  for (const Detail& detail : answer.error().details) theirs.push_back(detail.field);
  EXPECT_GT(theirs.size(), 100u);
  EXPECT_LT(theirs.size(), 800u);
  EXPECT_EQ(differences(ours, theirs), "");
}

// A good object with something changed at random: gone, doubled, null, or something else.
class Mutations {
 public:
  explicit Mutations(std::uint32_t seed) : engine_(seed), values_(seed) {}

  void apply(json::Value& value) {
    if (value.isObject() && !value.object().empty() && below(5) > 0) {
      json::Object& object = value.makeObject();
      auto member = object.begin() + static_cast<std::ptrdiff_t>(below(object.size()));
      std::string key = member->first;
      switch (below(9)) {
        case 0:
          object.erase(key);
          return;
        case 1:
          object.set(key + "x", json::Value(member->second));
          return;
        case 2:
          member->second = nullptr;
          return;
        default:
          return apply(member->second);
      }
    }
    if (value.isArray() && !value.array().empty() && below(4) > 0) {
      json::Array& array = value.makeArray();
      std::size_t at = below(array.size());
      if (below(3) > 0) return apply(array[at]);
      array.push_back(json::Value(array[at]));
      return;
    }
    switch (below(4)) {
      case 0:
        value = values_.next(2);
        return;
      case 1:
        if (value.isNumber()) {
          value = value.integer() - 50 + static_cast<std::int64_t>(below(200));
          return;
        }
        [[fallthrough]];
      default:
        if (value.isString()) {
          value = value.string() + values_.string();
        } else if (value.isBool()) {
          value = nullptr;
        } else {
          value = values_.next(1);
        }
    }
  }
  std::size_t below(std::size_t limit) { return engine_() % limit; }

 private:
  std::mt19937 engine_;
  json::RandomValues values_;
};

TEST_F(SchemaClusterTest, RandomObjectsAreJudgedAlike) {
  auto cases = loadSchemaCases(CADRE_SCHEMAS "/gadget.yaml", kind);
  ASSERT_GT(cases.size(), 1u);
  const json::Value good = cases[1].object;
  int refused = 0, accepted = 0, strict = 0;
  for (std::uint32_t seed = 1; seed <= 1000 && !HasFailure(); ++seed) {
    Mutations mutations(seed);
    SchemaCase c{.object = good};
    for (std::size_t n = 1 + mutations.below(3); n > 0; --n) {
      json::Value spec = c.object["spec"];
      mutations.apply(spec);
      c.object.make("spec") = std::move(spec);
    }
    SCOPED_TRACE(format("seed {}: {}", seed, json::write(c.object["spec"])));
    Validation ours = validate(kind, c.object);
    auto answer = show(c, "Ignore");
    std::multiset<std::string> found, expected;
    if (!answer)
      for (const Detail& cause : causes(answer.error()))
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
      EXPECT_EQ(json::write((*answer)["spec"]), stored(c.object));
    }
    if (ours.unknown.empty()) continue;
    ++strict;
    auto refusal = show(c, "Strict");
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
      kubectl({"explain", "gadgets.spec.ports", "--api-version", kind.gvk().apiVersion()});
  EXPECT_THAT(text, HasSubstr("FIELD: ports <[]Object>"));
  EXPECT_THAT(text, HasSubstr("Where it listens."));
  // Each field has the line that ours has.
  auto ours = explain(kind, "spec.ports");
  ASSERT_TRUE(ours);
  for (std::string_view line : split(*ours, '\n')) {
    if (!line.starts_with("  ") || line.starts_with("   ")) continue;
    EXPECT_THAT(text, HasSubstr(line));
  }
  auto made = create(kind.resource(),
                     json::Object{{"apiVersion", kind.gvk().apiVersion()},
                                  {"kind", kind.kind},
                                  {"metadata", json::Object{{"name", "one"}, {"namespace", ns}}},
                                  {"spec", json::Object{{"mode", "Proxy"}}}});
  ASSERT_TRUE(made) << made.error().text();
  std::string table = kubectl({"get", "cadre", "-n", ns, "-o", "wide"});
  EXPECT_THAT(table, testing::ContainsRegex("NAME +MODE +READY +PHASE +AGE"));
  EXPECT_THAT(table, testing::ContainsRegex("one +Proxy"));
  std::string scaled =
      kubectl({"scale", "gadgets." + kind.group + "/one", "-n", ns, "--replicas=2"});
  EXPECT_THAT(scaled, HasSubstr("scaled"));
}

}  // namespace
}  // namespace cadre::kube
