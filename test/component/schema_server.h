#pragma once

#include <cstdlib>
#include <set>

#include <unistd.h>

#include "base/format.h"
#include "base/strings.h"
#include "json/write.h"
#include "kube/client.h"
#include "kube/testing/schema_table.h"
#include "net/process.h"

namespace cadre::kube {

// For tests: a kind on a real kube-apiserver, which is to say of its objects what we say.
//   CADRE_TEST_KUBECONFIG  its kubeconfig
//   CADRE_CLUSTER_TOOL     tools/cluster, which knows where kubectl is
class SchemaServer {
 public:
  // Installs the CRD, and takes it away at the end.
  explicit SchemaServer(Kind described) : kind(std::move(described)) {
    if (auto installed = install(); !installed) fail(installed.error());
  }
  ~SchemaServer() {
    if (!client_) return;
    auto removed = run([&](auto done) {
      return client_->remove(kCrds, {"", kind.plural + "." + kind.group}, {}, std::move(done));
    });
    if (!removed) fail(removed.error());
  }
  SchemaServer(const SchemaServer&) = delete;

  const Kind kind;
  const std::string ns = format("schema-{}-{}", kind.plural, ::getpid());

  Result<json::Value> create(const Resource& resource, const json::Value& object,
                             const WriteOptions& options = {}) {
    return run(
        [&](auto done) { return client_->create(resource, object, options, std::move(done)); });
  }

  // What the server says about a case. Nothing is kept of it.
  Result<json::Value> show(const SchemaCase& c, const std::string& validation) {
    json::Value object = c.object;
    const Resource resource = kind.resource();
    if (resource.namespaced) object.make("metadata").make("namespace") = ns;
    if (c.before.isNull() && !c.status)
      return create(resource, object, {.dry_run = true, .field_validation = validation});
    json::Value first = c.status ? object : c.before;
    if (resource.namespaced) first.make("metadata").make("namespace") = ns;
    first.make("metadata").make("generateName") = "case-";
    first.make("metadata").makeObject().erase("name");
    auto made = create(resource, first);
    if (!made) return made;
    object.make("metadata").make("resourceVersion") = std::string(resourceVersion(*made));
    object.make("metadata").make("name") = std::string(name(*made));
    WriteOptions options{
        .dry_run = true, .field_validation = validation, .subresource = c.status ? "status" : ""};
    return run(
        [&](auto done) { return client_->update(resource, object, options, std::move(done)); });
  }

  // The spec that we expect the server to keep.
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

  // The half of a table that expectNativeAnswers() leaves open: that the server says the same.
  void expectSameAnswers(const std::vector<SchemaCase>& cases) {
    for (const SchemaCase& c : cases) {
      SCOPED_TRACE(c.title);
      auto answer = show(c, "Ignore");
      EXPECT_EQ(answer.ok(), c.errors.empty()) << (answer ? "accepted" : answer.error().text());
      if (!answer) {
        expectErrors(c, answer.error());
      } else if (!c.status) {
        EXPECT_EQ(json::write((*answer)["spec"]), stored(c.object));
      }
      if (!c.unknown.empty()) expectUnknown(c);
    }
  }

  std::string kubectl(std::vector<std::string> words) {
    std::string program(trim(output({environment("CADRE_CLUSTER_TOOL"), "which", "kubectl"})));
    // What it remembers of other servers must not be what it finds here.
    std::string cache = format("{}/schema-{}", testing::TempDir(), ::getpid());
    words.insert(words.begin(), {program, "--kubeconfig", environment("CADRE_TEST_KUBECONFIG"),
                                 "--cache-dir", cache});
    return output(words);
  }

 private:
  static constexpr Duration kSoon = 60s;
  static inline const Resource kNamespaces{
      .version = "v1", .plural = "namespaces", .kind = "Namespace", .namespaced = false};
  static inline const Resource kCrds{.group = "apiextensions.k8s.io",
                                     .version = "v1",
                                     .plural = "customresourcedefinitions",
                                     .kind = "CustomResourceDefinition",
                                     .namespaced = false};

  static void fail(const Error& error) { ADD_FAILURE() << error.text(); }
  static std::string environment(const char* name) {
    const char* value = std::getenv(name);
    if (value) return value;
    ADD_FAILURE()
        << name << " is not set: run this by tools/test, which starts the API server that it needs";
    return "";
  }

  template <class Start>
  Result<json::Value> run(Start start) {
    return net::await<json::Value>(loop_, std::move(start), kSoon);
  }

  Result<> install() {
    CADRE_LET(Config config,
              loadConfig({.kubeconfig = environment("CADRE_TEST_KUBECONFIG"), .env = {}}));
    CADRE_LET(client_, Client::connect(loop_, std::move(config)));
    CADRE_TRY(create(kNamespaces, json::Object{{"apiVersion", "v1"},
                                               {"kind", "Namespace"},
                                               {"metadata", json::Object{{"name", ns}}}}));
    CADRE_TRY(create(kCrds, crd(kind)));
    awaitServed();
    return {};
  }

  void awaitServed() {
    Pending again;
    bool served = false;
    std::function<void()> ask = [&] {
      again = client_->list(kind.resource(), {.select = {.ns = ns}}, [&](auto items) {
        served = items.ok();
        if (!served) again = client_->scheduler().after(50ms, [&] { ask(); });
      });
    };
    ask();
    EXPECT_TRUE(loop_.runUntil([&] { return served; }, kSoon)) << kind.kind << " is not served";
  }

  // The texts of the table, and the reasons that we give ourselves.
  void expectErrors(const SchemaCase& c, const Error& refused) {
    std::vector<std::string> texts;
    std::multiset<std::string> reasons, our_reasons;
    for (const Detail& cause : causes(refused)) {
      texts.push_back(cause.field.empty() ? cause.message : cause.field + ": " + cause.message);
      reasons.insert(cause.field + " " + cause.reason);
    }
    EXPECT_EQ(differences(texts, c.errors), "");
    for (const FieldError& error : validateCase(kind, c).errors)
      our_reasons.insert(error.path + " " + error.detail().reason);
    EXPECT_EQ(our_reasons, reasons);
  }

  void expectUnknown(const SchemaCase& c) {
    auto strict = show(c, "Strict");
    ASSERT_FALSE(strict);
    std::string text = strict.error().text();
    for (const std::string& path : c.unknown)
      EXPECT_THAT(text, testing::HasSubstr(format("unknown field \"{}\"", path)));
    std::size_t named = 0;
    for (std::size_t at = 0; (at = text.find("unknown field", at)) != std::string::npos; ++at)
      ++named;
    EXPECT_EQ(named, c.unknown.size()) << text;
  }

  std::string output(std::vector<std::string> argv) {
    auto result = net::await<net::ProcessResult>(
        loop_,
        [&](auto done) {
          return net::runProcess(loop_,
                                 {.argv = argv, .env = net::currentEnvironment(), .timeout = kSoon},
                                 std::move(done));
        },
        kSoon);
    EXPECT_TRUE(result) << result.error().text();
    return result ? result->output + result->errors : "";
  }

  net::Loop loop_;
  std::unique_ptr<Client> client_;
};

}  // namespace cadre::kube
