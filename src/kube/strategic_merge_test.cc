#include "kube/strategic_merge.h"

#include "base/format.h"
#include "json/write.h"
#include "json/yaml.h"

namespace cadre::kube {
namespace {

json::Value yaml(std::string_view text) {
  auto documents = json::parseYaml(text, "case");
  EXPECT_TRUE(documents.ok()) << text << ": " << documents.error().text();
  return documents && !documents->empty() ? (*documents)[0].value : json::Value();
}

struct Case {
  std::string_view what, current, patch, result;
};

// What k8s.io/apimachinery's strategicpatch gives for a Pod; where it leaves nulls and directives
// behind, which a server then passes over, ours are gone.
constexpr Case kPodCases[] = {
    {"members", "{metadata: {name: a, labels: {a: b, c: d}}}",
     "{metadata: {labels: {a: null, e: f}}}", "{metadata: {name: a, labels: {c: d, e: f}}}"},
    {"a null with nothing to remove", "{}", "{metadata: {labels: {a: null, b: c}}}",
     "{metadata: {labels: {b: c}}}"},
    {"another type of value", "{spec: {hostname: a}}", "{spec: {hostname: [b]}}",
     "{spec: {hostname: [b]}}"},
    {"lists by their key", "{spec: {containers: [{name: a, image: x}, {name: b, image: y}]}}",
     "{spec: {containers: [{name: b, image: z}]}}",
     "{spec: {containers: [{name: a, image: x}, {name: b, image: z}]}}"},
    {"new elements", "{spec: {containers: [{name: a}, {name: b}]}}",
     "{spec: {containers: [{name: c, image: null}, {name: b, tty: true}]}}",
     "{spec: {containers: [{name: c}, {name: a}, {name: b, tty: true}]}}"},
    {"lists in lists", "{spec: {containers: [{name: a, env: [{name: x, value: '1'}], args: [b]}]}}",
     "{spec: {containers: [{name: a, env: [{name: y, value: '2'}], args: [c]}]}}",
     "{spec: {containers: [{name: a, env: [{name: y, value: '2'}, {name: x, value: '1'}], args: "
     "[c]}]}}"},
    {"other lists are replaced", "{spec: {tolerations: [{key: a}, {key: b}]}}",
     "{spec: {tolerations: [{key: c}]}}", "{spec: {tolerations: [{key: c}]}}"},
    {"sets", "{metadata: {finalizers: [a/a, b/b]}}", "{metadata: {finalizers: [c/c, b/b]}}",
     "{metadata: {finalizers: [c/c, a/a, b/b]}}"},
    {"an empty list changes nothing", "{spec: {containers: [{name: a}]}}",
     "{spec: {containers: []}}", "{spec: {containers: [{name: a}]}}"},
    {"no directives in a list that is replaced", "{spec: {tolerations: [{key: a}]}}",
     "{spec: {tolerations: [{key: b, $patch: delete}]}}", "{spec: {tolerations: [{key: b}]}}"},
    {"an empty list that is replaced", "{spec: {tolerations: [{key: a}]}}",
     "{spec: {tolerations: []}}", "{spec: {tolerations: []}}"},

    {"delete from a list", "{spec: {containers: [{name: a}, {name: b}, {name: a}]}}",
     "{spec: {containers: [{$patch: delete, name: a}]}}", "{spec: {containers: [{name: b}]}}"},
    {"delete what is not there", "{spec: {containers: [{name: a}]}}",
     "{spec: {containers: [{$patch: delete, name: z}]}}", "{spec: {containers: [{name: a}]}}"},
    {"delete from no list", "{spec: {}}",
     "{spec: {containers: [{$patch: delete, name: z}, {name: a}]}}",
     "{spec: {containers: [{name: a}]}}"},
    {"replace a list", "{spec: {containers: [{name: a}, {name: b}]}}",
     "{spec: {containers: [{name: c}, {$patch: replace}]}}", "{spec: {containers: [{name: c}]}}"},
    {"delete an object", "{spec: {securityContext: {runAsUser: 1}}}",
     "{spec: {securityContext: {$patch: delete}}}", "{spec: {securityContext: {}}}"},
    {"delete no object", "{spec: {}}", "{spec: {securityContext: {$patch: delete}}}", "{spec: {}}"},
    {"replace an object", "{spec: {securityContext: {runAsUser: 1, fsGroup: 2}}}",
     "{spec: {securityContext: {$patch: replace, fsGroup: 3, runAsUser: null}}}",
     "{spec: {securityContext: {fsGroup: 3}}}"},
    {"replace everything", "{spec: {hostname: a}}", "{$patch: replace, metadata: {name: b}}",
     "{metadata: {name: b}}"},
    {"retain keys", "{spec: {volumes: [{name: a, emptyDir: {}}, {name: b, emptyDir: {}}]}}",
     "{spec: {volumes: [{$retainKeys: [name, hostPath], name: a, hostPath: {path: /x}}]}}",
     "{spec: {volumes: [{name: a, hostPath: {path: /x}}, {name: b, emptyDir: {}}]}}"},
    {"delete from a set", "{metadata: {finalizers: [a/a, b/b, c/c]}}",
     "{metadata: {$deleteFromPrimitiveList/finalizers: [b/b, z/z]}}",
     "{metadata: {finalizers: [a/a, c/c]}}"},
    {"delete from a set and add", "{metadata: {finalizers: [a/a, b/b]}}",
     "{metadata: {$deleteFromPrimitiveList/finalizers: [b/b], finalizers: [c/c]}}",
     "{metadata: {finalizers: [c/c, a/a]}}"},
    {"an order alone", "{spec: {containers: [{name: a}, {name: b}, {name: c}]}}",
     "{spec: {$setElementOrder/containers: [{name: c}, {name: a}]}}",
     "{spec: {containers: [{name: b}, {name: c}, {name: a}]}}"},
    {"an order with changes", "{spec: {containers: [{name: a}, {name: b}]}}",
     "{spec: {$setElementOrder/containers: [{name: b}, {name: n}, {name: a}], containers: [{name: "
     "n}]}}",
     "{spec: {containers: [{name: b}, {name: n}, {name: a}]}}"},
    {"an order with a deletion", "{spec: {containers: [{name: a}, {name: b}]}}",
     "{spec: {$setElementOrder/containers: [{name: b}], containers: [{name: a, $patch: delete}]}}",
     "{spec: {containers: [{name: b}]}}"},
    {"an order in a new list", "{spec: {}}",
     "{spec: {$setElementOrder/containers: [{name: a}], containers: [{name: a, "
     "$setElementOrder/env: [{name: x}], env: [{name: x}]}]}}",
     "{spec: {containers: [{name: a, env: [{name: x}]}]}}"},
    {"an order of a set", "{metadata: {finalizers: [a/a, b/b]}}",
     "{metadata: {$setElementOrder/finalizers: [b/b, a/a]}}",
     "{metadata: {finalizers: [b/b, a/a]}}"},
    {"what the table does not know", "{new: {list: [1, 2], a: 1}}", "{new: {list: [3], a: null}}",
     "{new: {list: [3]}}"},
};

TEST(StrategicMerge, AsTheServer) {
  for (const Case& c : kPodCases) {
    auto merged = strategicMerge(Type::of("", "v1", "Pod"), yaml(c.current), yaml(c.patch));
    ASSERT_TRUE(merged.ok()) << c.what << ": " << merged.error().text();
    EXPECT_EQ(json::write(*merged), json::write(yaml(c.result))) << c.what;
  }
}

struct Wrong {
  std::string_view what, current, patch, error;
};

constexpr Wrong kWrong[] = {
    {"no object", "{}", "[]", "a strategic merge patch is an object"},
    {"an element without its key", "{spec: {containers: [{name: a}]}}",
     "{spec: {containers: [{image: b}]}}", "spec: containers: an element has no \"name\""},
    {"a deletion without its key", "{spec: {containers: [{name: a}]}}",
     "{spec: {containers: [{$patch: delete}]}}", "spec: containers: an element has no \"name\""},
    {"merge is no directive", "{spec: {containers: [{name: a}]}}",
     "{spec: {containers: [{$patch: merge, name: a}]}}",
     "spec: containers: $patch is \"merge\", and can only be \"replace\" or \"delete\""},
    {"nor is a number", "{}", "{$patch: 1}",
     "$patch is \"1\", and can only be \"replace\" or \"delete\""},
    {"mixed elements", "{spec: {containers: [{name: a}]}}", "{spec: {containers: [a]}}",
     "spec: containers: the elements of the list are not all objects"},
    {"a list of lists", "{metadata: {finalizers: [a/a]}}", "{metadata: {finalizers: [[a]]}}",
     "metadata: finalizers: lists of lists cannot be merged"},
    {"objects in a set", "{metadata: {finalizers: [{}]}}", "{metadata: {finalizers: [{}]}}",
     "metadata: finalizers: a list of objects cannot be merged without a key"},
    {"keys that are not retained", "{spec: {volumes: [{name: a}]}}",
     "{spec: {volumes: [{$retainKeys: [name], name: a, emptyDir: {}}]}}",
     "spec: volumes: the patch has \"emptyDir\", which is not in its $retainKeys"},
    {"retain keys", "{spec: {}}", "{spec: {$retainKeys: a}}", "spec: $retainKeys is not a list"},
    {"an order", "{spec: {}}", "{spec: {$setElementOrder/containers: a}}",
     "spec: $setElementOrder/containers: its $setElementOrder is not a list"},
    {"a list to delete", "{spec: {}}", "{spec: {$deleteFromPrimitiveList/containers: a}}",
     "spec: $deleteFromPrimitiveList/containers: it is not a list"},
    {"an order that the changes do not have", "{spec: {}}",
     "{spec: {$setElementOrder/containers: [{name: a}, {name: b}], containers: [{name: b}, {name: "
     "a}]}}",
     "spec: containers: \"a\" is not where $setElementOrder has it"},
};

TEST(StrategicMerge, RefusesWhatIsWrong) {
  for (const Wrong& c : kWrong) {
    auto merged = strategicMerge(Type::of("", "v1", "Pod"), yaml(c.current), yaml(c.patch));
    ASSERT_FALSE(merged.ok()) << c.what << ": " << json::write(*merged);
    EXPECT_EQ(merged.error().code, Code::InvalidArgument) << c.what;
    EXPECT_EQ(merged.error().text(), c.error) << c.what;
  }
}

TEST(StrategicMerge, TakesNoLongerThanThePatchIs) {
  json::Object labels, changes;
  json::Array containers, deletions;
  for (int i = 0; i < 30'000; ++i) {
    labels.set(format("a{:06}", i), "x");
    changes.set(format("b{:06}", i), "y");
    containers.push_back(json::Object{{"name", format("c{}", i)}});
    deletions.push_back(json::Object{{"name", format("c{}", i)}, {"$patch", "delete"}});
  }
  auto pod = [](json::Object labels, json::Array containers) {
    return json::Value(json::Object{{"metadata", json::Object{{"labels", std::move(labels)}}},
                                    {"spec", json::Object{{"containers", std::move(containers)}}}});
  };
  auto merged =
      strategicMerge(Type::of("", "v1", "Pod"), pod(labels, containers), pod(changes, deletions));
  ASSERT_TRUE(merged.ok());
  EXPECT_EQ((*merged)["metadata"]["labels"].object().size(), 60'000u);
  EXPECT_TRUE((*merged)["spec"]["containers"].array().empty());
}

TEST(StrategicMerge, IsAMergePatchWithoutAType) {
  auto merged = strategicMerge(Type(), yaml("{spec: {list: [{name: a}], b: 1}}"),
                               yaml("{spec: {list: [{name: c}], b: null}}"));
  ASSERT_TRUE(merged.ok());
  EXPECT_EQ(json::write(*merged), R"({"spec":{"list":[{"name":"c"}]}})");
}

}  // namespace
}  // namespace cadre::kube
