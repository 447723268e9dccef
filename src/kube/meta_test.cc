#include "kube/meta.h"

#include "json/parse.h"

namespace cadre::kube {
namespace {

json::Value read(std::string_view text) {
  auto value = json::parse(text);
  EXPECT_TRUE(value.ok()) << text;
  return value ? *value : json::Value();
}

TEST(Meta, GroupVersionKindParses) {
  struct Case {
    const char *api_version, *kind, *group, *version, *text;
  };
  for (const Case& c : {Case{"v1", "Pod", "", "v1", "v1 Pod"},
                        Case{"apps/v1", "Deployment", "apps", "v1", "apps/v1 Deployment"},
                        Case{"kaos.tools/v1alpha1", "Agent", "kaos.tools", "v1alpha1",
                             "kaos.tools/v1alpha1 Agent"}}) {
    auto gvk = GroupVersionKind::parse(c.api_version, c.kind);
    ASSERT_TRUE(gvk.ok()) << c.api_version;
    EXPECT_EQ(gvk->group, c.group);
    EXPECT_EQ(gvk->version, c.version);
    EXPECT_EQ(gvk->apiVersion(), c.api_version);
    EXPECT_EQ(gvk->text(), c.text);
  }
}

TEST(Meta, GroupVersionKindRefuses) {
  struct Case {
    const char *api_version, *kind, *says;
  };
  for (const Case& c : {Case{"", "Pod", "apiVersion is missing"}, Case{"v1", "", "kind is missing"},
                        Case{"a/b/c", "X", "\"a/b/c\""}, Case{"/v1", "X", "\"/v1\""},
                        Case{"apps/", "X", "\"apps/\""}, Case{"/", "X", "\"/\""}}) {
    auto gvk = GroupVersionKind::parse(c.api_version, c.kind);
    ASSERT_FALSE(gvk.ok()) << c.api_version;
    EXPECT_EQ(gvk.error().code, Code::InvalidArgument);
    EXPECT_THAT(gvk.error().message, testing::HasSubstr(c.says));
  }
  EXPECT_FALSE(GroupVersionKind::of(json::Value("text")).ok());
  EXPECT_FALSE(GroupVersionKind::of(read(R"({"apiVersion":1,"kind":[]})")).ok());
  EXPECT_EQ(GroupVersionKind::of(read(R"({"apiVersion":"v1","kind":"Pod"})"))->text(), "v1 Pod");
}

TEST(Meta, PathsOfResources) {
  const Resource deployments{"apps", "v1", "deployments", "Deployment", true};
  const Resource pods{"", "v1", "pods", "Pod", true};
  const Resource nodes{"", "v1", "nodes", "Node", false};
  struct Case {
    const Resource& resource;
    const char *ns, *name, *subresource, *path;
  };
  for (const Case& c : {
           Case{deployments, "x", "y", "status", "/apis/apps/v1/namespaces/x/deployments/y/status"},
           Case{deployments, "x", "y", "", "/apis/apps/v1/namespaces/x/deployments/y"},
           Case{deployments, "x", "", "", "/apis/apps/v1/namespaces/x/deployments"},
           Case{deployments, "", "", "", "/apis/apps/v1/deployments"},
           Case{pods, "x", "y", "log", "/api/v1/namespaces/x/pods/y/log"},
           Case{pods, "x", "y", "proxy/a b/c", "/api/v1/namespaces/x/pods/y/proxy/a%20b/c"},
           Case{nodes, "", "n", "", "/api/v1/nodes/n"},
           Case{nodes, "ignored", "n", "", "/api/v1/nodes/n"},
           Case{pods, "a/b", "c?d", "", "/api/v1/namespaces/a%2Fb/pods/c%3Fd"},
           Case{pods, "..", ".", "", "/api/v1/namespaces/%2E%2E/pods/%2E"},
           Case{nodes, "", "../secrets", "", "/api/v1/nodes/..%2Fsecrets"},
           Case{nodes, "", "ü\n", "", "/api/v1/nodes/%C3%BC%0A"},
       })
    EXPECT_EQ(c.resource.path(c.ns, c.name, c.subresource), c.path);
  EXPECT_EQ(deployments.apiVersion(), "apps/v1");
  EXPECT_EQ(pods.gvk().text(), "v1 Pod");
}

TEST(Meta, ReadersRead) {
  const json::Value object = read(R"({"apiVersion":"v1","kind":"Pod","metadata":{
    "name":"web","namespace":"shop","uid":"u-1","resourceVersion":"42","generation":7,
    "labels":{"app":"web"},"annotations":{"note":"hi"},
    "deletionTimestamp":"2026-01-01T00:00:00Z","finalizers":["a.b/c","d"],
    "ownerReferences":[
      {"apiVersion":"v1","kind":"Node","name":"n","uid":"u-2"},
      {"apiVersion":"apps/v1","kind":"ReplicaSet","name":"rs","uid":"u-3","controller":true,
       "blockOwnerDeletion":true}]}})");
  EXPECT_EQ(name(object), "web");
  EXPECT_EQ(ns(object), "shop");
  EXPECT_EQ(uid(object), "u-1");
  EXPECT_EQ(resourceVersion(object), "42");
  EXPECT_EQ(generation(object), 7);
  EXPECT_EQ(labels(object).size(), 1u);
  EXPECT_EQ(label(object, "app"), "web");
  EXPECT_EQ(label(object, "none"), "");
  EXPECT_EQ(annotations(object).size(), 1u);
  EXPECT_EQ(annotation(object, "note"), "hi");
  EXPECT_EQ(deletionTimestamp(object), "2026-01-01T00:00:00Z");
  EXPECT_TRUE(isDeleting(object));
  EXPECT_THAT(finalizers(object), testing::ElementsAre("a.b/c", "d"));
  EXPECT_TRUE(hasFinalizer(object, "d"));
  EXPECT_FALSE(hasFinalizer(object, "e"));
  ASSERT_EQ(ownerReferences(object).size(), 2u);
  EXPECT_EQ(ownerReferences(object)[0].kind, "Node");
  EXPECT_EQ(controllerOf(object),
            (OwnerReference{"apps/v1", "ReplicaSet", "rs", "u-3", true, true}));
  EXPECT_EQ(ObjectKey::of(object).text(), "shop/web");
  EXPECT_EQ((ObjectKey{"", "node-1"}).text(), "node-1");
  EXPECT_LT((ObjectKey{"a", "z"}), (ObjectKey{"b", "a"}));
}

TEST(Meta, HostileObjectsReadAsEmpty) {
  for (const char* text :
       {"null", "1", R"("metadata")", "[]", "{}", R"({"metadata":null})", R"({"metadata":"x"})",
        R"({"metadata":[1]})",
        R"({"metadata":{"name":1,"namespace":{},"uid":[],"resourceVersion":5,"generation":"x",
           "labels":[],"annotations":"x","deletionTimestamp":1,"finalizers":{"a":1},
           "ownerReferences":"x"}})",
        R"({"metadata":{"finalizers":[1,null,{}],"ownerReferences":[1,"x",null]}})"}) {
    const json::Value object = read(text);
    EXPECT_EQ(name(object), "") << text;
    EXPECT_EQ(ns(object), "") << text;
    EXPECT_EQ(uid(object), "") << text;
    EXPECT_EQ(resourceVersion(object), "") << text;
    EXPECT_EQ(generation(object), 0) << text;
    EXPECT_TRUE(labels(object).empty()) << text;
    EXPECT_TRUE(annotations(object).empty()) << text;
    EXPECT_EQ(label(object, "a"), "") << text;
    EXPECT_FALSE(isDeleting(object)) << text;
    EXPECT_TRUE(finalizers(object).empty()) << text;
    EXPECT_FALSE(hasFinalizer(object, "")) << text;
    EXPECT_TRUE(ownerReferences(object).empty()) << text;
    EXPECT_FALSE(controllerOf(object)) << text;
  }
}

TEST(Meta, NumericResourceVersionsCompare) {
  using Ordering = std::strong_ordering;
  EXPECT_EQ(compareResourceVersions("9", "10"), Ordering::less);
  EXPECT_EQ(compareResourceVersions("10", "9"), Ordering::greater);
  EXPECT_EQ(compareResourceVersions("12", "12"), Ordering::equal);
  EXPECT_EQ(compareResourceVersions("99999999999999999999999", "100000000000000000000000"),
            Ordering::less);
  for (auto [a, b] : {std::pair{"", "1"},
                      {"1", ""},
                      {"0", "1"},
                      {"01", "1"},
                      {"a", "1"},
                      {"1", "-1"},
                      {"1 ", "1"},
                      {"x", "x"}})
    EXPECT_FALSE(compareResourceVersions(a, b)) << a << " " << b;
}

}  // namespace
}  // namespace cadre::kube
