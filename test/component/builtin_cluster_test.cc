// What the hub knows of the built-in kinds, against a real kube-apiserver: the same names in
// discovery, the same columns and cells in tables, and the same answers to every row of the tables
// in test/hub/builtin.
#include <set>

#include "base/strings.h"
#include "component/cluster_fixture.h"
#include "hub/testing/builtin_table.h"

namespace cadre::hub {
namespace {

constexpr const char* kTable = "application/json;as=Table;v=v1;g=meta.k8s.io";

class BuiltInClusterTest : public ClusterTest {
 protected:
  static constexpr const char* kRows = "rows";  // the namespace that the tables name

  void SetUp() override {
    ClusterTest::SetUp();
    ASSERT_TRUE(client);
    makeUnlessThere(kNamespaces, json::Object{{"apiVersion", "v1"},
                                              {"kind", "Namespace"},
                                              {"metadata", json::Object{{"name", kRows}}}});
    // Pods are not taken without one.
    makeUnlessThere(
        findBuiltIn("", "v1", "ServiceAccount")->resource(),
        json::Object{{"apiVersion", "v1"},
                     {"kind", "ServiceAccount"},
                     {"metadata", json::Object{{"name", "default"}, {"namespace", kRows}}},
                     {"automountServiceAccountToken", false}});
  }

  void makeUnlessThere(const kube::Resource& resource, const json::Value& object) {
    auto made =
        run([&](auto done) { return client->create(resource, object, {}, std::move(done)); });
    if (!made && made.error().code != Code::AlreadyExists) ADD_FAILURE() << made.error().text();
  }

  json::Value ask(const std::string& path, const std::string& accept = "application/json") {
    return must(
        [&](auto done) { return client->request("GET", path, "", "", std::move(done), accept); });
  }

  Result<json::Value> create(const BuiltInCase& c, const kube::WriteOptions& options) {
    json::Value object = c.object;
    if (c.kind->namespaced) object.make("metadata").make("namespace") = kRows;
    return run([&](auto done) {
      return client->create(c.kind->resource(), object, options, std::move(done));
    });
  }
  void remove(const BuiltInCase& c, std::string_view name) {
    kube::ObjectKey key{c.kind->namespaced ? kRows : "", std::string(name)};
    kube::DeleteOptions options;
    options.grace_seconds = 0;
    options.propagation = "Background";
    // Nobody is there to take it off.
    if (c.kind->kind.starts_with("PersistentVolume"))
      must([&](auto done) {
        return client->patch(c.kind->resource(), key, kube::PatchType::Merge,
                             parsed(R"({"metadata":{"finalizers":null}})"), {}, std::move(done));
      });
    auto gone = run([&](auto done) {
      return client->remove(c.kind->resource(), key, options, std::move(done));
    });
    if (!gone) ADD_FAILURE() << gone.error().text();
  }

  static std::vector<std::string> causes(const Error& error) {
    std::vector<std::string> out;
    for (const Detail& detail : error.details) {
      bool named = !detail.field.empty() && detail.field != "<nil>";
      out.push_back(named ? detail.field + ": " + detail.message : detail.message);
    }
    return out;
  }

  // The refusal that the row tells; the reasons are ours.
  static void expectRefusal(const BuiltInCase& c, const Error& error,
                            const std::vector<kube::FieldError>& ours) {
    if (!c.decode.empty()) {
      EXPECT_THAT(error.message, testing::EndsWith(": " + c.decode));
      return;
    }
    EXPECT_EQ(unexpected(causes(error), c.errors), "") << error.text();
    std::multiset<std::string> reasons, our_reasons;
    for (const Detail& detail : error.details) reasons.insert(detail.field + " " + detail.reason);
    for (const kube::FieldError& one : ours)
      our_reasons.insert(one.path + " " + one.detail().reason);
    EXPECT_EQ(our_reasons, reasons);
  }

  // Without what the server gives by looking at other objects, or by the clock.
  static json::Value comparable(const BuiltIn& kind, json::Value object) {
    json::Object& meta = object.make("metadata").makeObject();
    for (std::string_view name :
         {"uid", "creationTimestamp", "managedFields", "namespace", "resourceVersion"})
      meta.erase(name);
    if (kind.kind == "PersistentVolumeClaim" || kind.kind == "PersistentVolume")
      meta.erase("finalizers");
    object.make("status");
    json::Value& spec = object.make("spec");
    if (kind.kind == "Pod")
      for (std::string_view name :
           {"serviceAccount", "serviceAccountName", "priority", "preemptionPolicy", "tolerations"})
        spec.makeObject().erase(name);
    if (kind.kind == "Service") {
      if (spec["clusterIP"].string() != "None")
        for (std::string_view name : {"clusterIP", "clusterIPs"}) spec.makeObject().erase(name);
      if (spec["ports"].isArray())
        for (json::Value& port : spec.make("ports").makeArray())
          port.makeObject().erase("nodePort");
    }
    // When it was found that it is gated.
    if (kind.kind == "Pod" && object["status"]["conditions"].isArray())
      for (json::Value& condition : object.make("status").make("conditions").makeArray())
        condition.makeObject().erase("lastTransitionTime");
    if (kind.kind == "Node") spec.makeObject().erase("taints");
    if (kind.kind == "PersistentVolume")
      object.make("status").makeObject().erase("lastPhaseTransitionTime");
    return object;
  }
};

// A list of names, each once.
std::set<std::string> setOf(const json::Value& list) {
  std::set<std::string> out;
  for (const json::Value& one : list.array()) out.insert(one.string());
  return out;
}
template <class Range>
std::set<std::string> setOf(const Range& range) {
  return {range.begin(), range.end()};
}

TEST_F(BuiltInClusterTest, NamesAreThoseOfDiscovery) {
  for (const BuiltIn& kind : builtIns()) {
    SCOPED_TRACE(kind.plural);
    std::string path =
        kind.group.empty() ? "/api/v1" : format("/apis/{}/{}", kind.group, kind.version);
    std::set<std::string> subresources;
    bool found = false;
    const json::Value served = ask(path);
    for (const json::Value& row : served["resources"].array()) {
      auto [plural, subresource] = cut(row["name"].string(), "/");
      if (plural != kind.plural) continue;
      if (!subresource.empty()) {
        subresources.insert(std::string(subresource));
        const Subresource* ours = kind.subresource(subresource);
        ASSERT_TRUE(ours) << subresource;
        EXPECT_EQ(row["kind"].string(), ours->kind.empty() ? kind.kind : ours->kind) << subresource;
        EXPECT_EQ(row["group"].string(), ours->group) << subresource;
        EXPECT_EQ(row["version"].string(), ours->version) << subresource;
        EXPECT_EQ(setOf(row["verbs"]), setOf(split(ours->verbs, ','))) << subresource;
        continue;
      }
      found = true;
      EXPECT_EQ(row["kind"].string(), kind.kind);
      EXPECT_EQ(row["singularName"].string(), kind.singular);
      EXPECT_EQ(row["namespaced"].boolean(), kind.namespaced);
      EXPECT_EQ(setOf(row["shortNames"]), setOf(kind.short_names));
      EXPECT_EQ(setOf(row["categories"]), setOf(kind.categories));
      EXPECT_EQ(setOf(row["verbs"]), setOf(kind.verbs()));
    }
    EXPECT_TRUE(found);
    EXPECT_EQ(subresources.size(), kind.subresources.size());
  }
}

TEST_F(BuiltInClusterTest, ColumnsAreThoseOfTables) {
  for (const BuiltIn& kind : builtIns()) {
    if (kind.is_question) continue;  // nobody can list those
    SCOPED_TRACE(kind.plural);
    json::Value table = ask(kind.resource().path(), kTable);
    json::Array theirs = table["columnDefinitions"].array();
    for (json::Value& column : theirs) column.make("description") = "";
    EXPECT_EQ(json::write(theirs), json::write(columnDefinitions(kind)));
  }
}

TEST_F(BuiltInClusterTest, TheServerAgreesAboutEveryRow) {
  std::size_t rows = 0;
  for (const std::string& name : builtInTables()) {
    for (const BuiltInCase& c : loadBuiltInCases(CADRE_BUILTIN_CASES "/" + name + ".yaml")) {
      SCOPED_TRACE(name + ": " + c.title);
      ++rows;
      if (!c.unknown.empty()) {
        auto strict = create(c, {.dry_run = true, .field_validation = "Strict"});
        ASSERT_FALSE(strict);
        for (const std::string& path : c.unknown)
          EXPECT_THAT(strict.error().message,
                      testing::HasSubstr(format("unknown field \"{}\"", path)));
      }
      if (!c.change.isNull()) continue;
      auto answer = create(c, {.dry_run = true, .field_validation = "Ignore"});
      EXPECT_EQ(answer.ok(), c.errors.empty() && c.decode.empty())
          << (answer ? "accepted" : answer.error().text());
      std::string uid = answer ? std::string(kube::uid(*answer)) : "";
      Outcome ours = created(*c.kind, c.object, kRows, uid);
      if (!answer) {
        expectRefusal(c, answer.error(), ours.errors);
        continue;
      }
      EXPECT_EQ(json::writePretty(comparable(*c.kind, ours.object)),
                json::writePretty(comparable(*c.kind, *answer)));
    }
  }
  EXPECT_GT(rows, 350u);
}

TEST_F(BuiltInClusterTest, TheServerAgreesAboutChangesAndCells) {
  for (const std::string& name : builtInTables()) {
    for (const BuiltInCase& c : loadBuiltInCases(CADRE_BUILTIN_CASES "/" + name + ".yaml")) {
      // A namespace would take a while to go.
      bool least = c.title.ends_with(": the least") && c.kind->kind != "Namespace";
      if (c.change.isNull() && !least) continue;
      SCOPED_TRACE(name + ": " + c.title);
      auto made = create(c, {});
      ASSERT_TRUE(made) << made.error().text();
      if (least) {
        kube::ObjectKey key = kube::ObjectKey::of(*made);
        json::Value table = ask(c.kind->resource().path(key.ns, key.name), kTable);
        // At the second at which it was made, which is its age for the server too, nearly.
        Time then = parseTime((*made)["metadata"]["creationTimestamp"].string()).value_or(Time());
        json::Array theirs = table["rows"].at(0)["cells"].array();
        json::Array ours = cells(*c.kind, *made, then);
        ASSERT_EQ(theirs.size(), ours.size());
        for (std::size_t i = 0; i < ours.size(); ++i) {
          if (c.kind->columns[i].show == Show::Since) continue;
          EXPECT_EQ(json::write(ours[i]), json::write(theirs[i])) << c.kind->columns[i].name;
        }
      } else {
        made->make("metadata").makeObject().erase("managedFields");
        json::Value changed = json::applyMergePatch(*made, c.change);
        auto answer = run([&](auto done) {
          return client->update(c.kind->resource(), changed,
                                {.dry_run = true, .field_validation = "Ignore"}, std::move(done));
        });
        EXPECT_EQ(answer.ok(), c.errors.empty()) << (answer ? "accepted" : answer.error().text());
        Outcome ours = updated(*c.kind, *made, c.change);
        if (!answer) {
          expectRefusal(c, answer.error(), ours.errors);
        } else {
          EXPECT_EQ(json::writePretty(comparable(*c.kind, ours.object)),
                    json::writePretty(comparable(*c.kind, *answer)));
        }
      }
      remove(c, kube::name(*made));
    }
  }
}

}  // namespace
}  // namespace cadre::hub
