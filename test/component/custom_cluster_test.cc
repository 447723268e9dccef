// Custom kinds of the hub against a real kube-apiserver: it answers to every row of the tables in
// test/hub/custom as hub::Kind and hub::validateCrd do.
#include "base/strings.h"
#include "component/cluster_fixture.h"
#include "hub/custom.h"
#include "hub/definition.h"
#include "hub/testing/custom_table.h"
#include "json/write.h"

namespace cadre::hub {
namespace {

class CustomClusterTest : public ClusterTest {
 protected:
  Result<json::Value> send(const kube::Resource& resource, const json::Value& object,
                           const kube::WriteOptions& options, bool update = false) {
    return run([&](auto done) {
      return update ? client->update(resource, object, options, std::move(done))
                    : client->create(resource, object, options, std::move(done));
    });
  }

  // Each once: the server tells some of them several times.
  static std::vector<std::string> textsOf(const Error& error) {
    std::set<std::string> out;
    for (const Detail& detail : error.details)
      out.insert(detail.field.empty() ? detail.message : detail.field + ": " + detail.message);
    return {out.begin(), out.end()};
  }
  static std::set<std::string> reasonsOf(const Error& error) {
    std::set<std::string> out;
    for (const Detail& detail : error.details) out.insert(detail.field + " " + detail.reason);
    return out;
  }
  static std::set<std::string> reasonsOf(const std::vector<kube::FieldError>& errors) {
    std::set<std::string> out;
    for (const kube::FieldError& error : errors)
      out.insert(error.path + " " + error.detail().reason);
    return out;
  }

  // The definition without its schema, so that what was there before may be wrong.
  static json::Value loose(json::Value crd) {
    for (json::Value& version : crd.make("spec").make("versions").makeArray()) {
      version.make("schema").make("openAPIV3Schema") =
          json::Object{{"type", "object"}, {"x-kubernetes-preserve-unknown-fields", true}};
      if (version["subresources"].isObject())
        version.make("subresources").makeObject().erase("scale");
    }
    return crd;
  }

  void remove(const json::Value& crd) {
    must([&](auto done) {
      return client->remove(kCrds, {"", crd["metadata"]["name"].string()}, {}, std::move(done));
    });
  }

  void expectSameAnswers(const std::string& name) {
    CustomTable table(format("{}/{}.yaml", CADRE_CUSTOM, name),
                      format("{}-{}.cadre.dev", name, ::getpid()));
    auto kinds = kindsOf(defaulted(table.crd));
    ASSERT_EQ(kinds.size(), 1u);
    const Kind& kind = *kinds.front();
    create(kCrds, loose(table.crd));
    ASSERT_TRUE(eventually([&] { return isServed(kind.resource); }));
    std::vector<json::Value> before;
    for (const CustomRow& row : table.rows)
      before.push_back(row.before.isNull() ? json::Value() : create(kind.resource, row.before));
    tighten(table.crd, kind);
    for (std::size_t i = 0; i < table.rows.size(); ++i) {
      SCOPED_TRACE(table.rows[i].title);
      expectSameAnswer(kind, table.rows[i], before[i]);
    }
    remove(table.crd);
  }

  void tighten(const json::Value& crd, const Kind& kind) {
    json::Value now = *get(kCrds, crd["metadata"]["name"].string());
    now.make("spec").make("versions") = crd["spec"]["versions"];
    must([&](auto done) { return client->update(kCrds, now, {}, std::move(done)); });
    if (kind.schema()->object().contains("x-kubernetes-preserve-unknown-fields")) return;
    json::Value probe = json::Object{{"apiVersion", kind.resource.apiVersion()},
                                     {"kind", kind.resource.kind},
                                     {"metadata", json::Object{{"name", "probe"}}},
                                     {"spec", json::Object{{"probe", 1}}}};
    if (kind.resource.namespaced) probe.make("metadata").make("namespace") = kTableNamespace;
    ASSERT_TRUE(eventually([&] {
      return !send(kind.resource, probe, {.dry_run = true, .field_validation = "Strict"});
    }));
  }

  void expectSameAnswer(const Kind& kind, const CustomRow& row, const json::Value& before) {
    // The client takes the namespace from there, and could not even send it.
    if (!row.object["metadata"].isObject()) return;
    const bool update = !before.isNull();
    json::Value object = row.object;
    if (update)
      object.make("metadata") = json::applyMergePatch(before["metadata"], object["metadata"]);
    kube::WriteOptions options{.dry_run = true, .subresource = row.status ? "status" : ""};
    options.field_validation = "Ignore";
    auto answer = send(kind.resource, object, options, update);
    CustomAnswer ours = ask(kind, row);
    if (!row.undecodable.empty()) {
      ASSERT_FALSE(answer);
      EXPECT_EQ(answer.error().message, row.undecodable);
      return;
    }
    EXPECT_EQ(answer.ok(), row.errors.empty()) << (answer ? "accepted" : answer.error().text());
    if (!answer) {
      EXPECT_EQ(kube::differences(textsOf(answer.error()), row.errors), "");
      EXPECT_EQ(reasonsOf(ours.errors), reasonsOf(answer.error()));
      return;
    }
    EXPECT_EQ(json::write(withoutMetadata(ours.object)), json::write(withoutMetadata(*answer)));
    options.field_validation = "Strict";
    auto strict = send(kind.resource, object, options, update);
    EXPECT_EQ(strict.ok(), row.unknown.empty());
    for (const std::string& path : row.unknown)
      EXPECT_THAT(strict ? "" : strict.error().text(),
                  testing::HasSubstr(format("unknown field \"{}\"", path)));
  }
};

TEST_F(CustomClusterTest, Values) { expectSameAnswers("values"); }
TEST_F(CustomClusterTest, Objects) { expectSameAnswers("objects"); }
TEST_F(CustomClusterTest, Columns) { expectSameAnswers("columns"); }

TEST_F(CustomClusterTest, Definitions) {
  auto rows = loadDefinitions(CADRE_CUSTOM "/definitions.yaml", format("{}.cadre.dev", ::getpid()));
  for (const DefinitionRow& row : rows) {
    SCOPED_TRACE(row.title);
    json::Value crd = row.crd, old;
    if (!row.before.isNull()) {
      create(kCrds, row.before);
      const std::string name = row.before["metadata"]["name"].string();
      ASSERT_TRUE(eventually([&] {
        old = *get(kCrds, name);
        return isEstablished(old);
      }));
      // What our own would be is what the server made of it.
      json::Value ours = defaulted(row.before);
      ours.make("status") = acceptedStatus(ours, {}, {});
      for (const char* field : {"acceptedNames", "storedVersions"})
        EXPECT_EQ(json::write(ours["status"][field]), json::write(old["status"][field]));
      EXPECT_EQ(json::write(ours["spec"]), json::write(old["spec"]));
      crd.make("metadata") = old["metadata"];
    }
    auto answer = send(kCrds, crd, {.dry_run = true}, !old.isNull());
    EXPECT_EQ(answer.ok(), row.errors.empty()) << (answer ? "accepted" : answer.error().text());
    if (!answer) {
      EXPECT_EQ(kube::differences(textsOf(answer.error()), row.errors), "");
      EXPECT_EQ(reasonsOf(validateCrd(defaulted(crd, old), old)), reasonsOf(answer.error()));
    }
    if (!old.isNull()) remove(row.before);
  }
}

}  // namespace
}  // namespace cadre::hub
