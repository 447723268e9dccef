#include "kube/managed_fields.h"

#include "base/format.h"
#include "json/write.h"
#include "json/yaml.h"

namespace cadre::kube {
namespace {

TEST(ManagedFields, WhatIsNoLongerAppliedIsDroppedUnlessOthersHoldIt) {
  struct Case {
    std::string_view what, object, ours, others, wanted, left;
  };
  for (const Case& c : std::vector<Case>{
           {"a field", "{a: 1, b: 2}", "{f:a: {}, f:b: {}}", "{}", "{a: 1}", "{a: 1}"},
           {"one that is wanted", "{a: 1}", "{f:a: {}}", "{}", "{a: 5}", "{a: 1}"},
           {"one that we do not hold", "{a: 1, b: 2}", "{f:a: {}}", "{}", "{}", "{b: 2}"},
           {"one that another holds", "{a: 1}", "{f:a: {}}", "{f:a: {}}", "{}", "{a: 1}"},
           {"with all that is in it", "{m: {a: 1, b: 2}}", "{f:m: {f:a: {}, f:b: {}}}", "{}", "{}",
            "{}"},
           {"but not with what is another's", "{m: {a: 1, b: 2}}", "{f:m: {f:a: {}}}",
            "{f:m: {f:b: {}}}", "{}", "{m: {b: 2}}"},
           {"an element by its key", "{l: [{port: 80, x: 1}, {port: 90}]}",
            "{f:l: {'k:{\"port\":80}': {.: {}, f:port: {}, f:x: {}}, 'k:{\"port\":90}': {.: {}}}}",
            "{}", "{l: [{port: 90}]}", "{l: [{port: 90}]}"},
           {"a field of an element", "{l: [{port: 80, x: 1}]}",
            "{f:l: {'k:{\"port\":80}': {.: {}, f:port: {}, f:x: {}}}}", "{}", "{l: [{port: 80}]}",
            "{l: [{port: 80}]}"},
           {"a value of a set", "{l: [a, b]}", "{f:l: {'v:\"a\"': {}, 'v:\"b\"': {}}}", "{}",
            "{l: [b]}", "{l: [b]}"},
           {"a whole list", "{l: [a, b]}", "{f:l: {}}", "{}", "{}", "{}"}}) {
    auto value = [&](std::string_view text) {
      auto documents = json::parseYaml(text, c.what);
      EXPECT_TRUE(documents) << documents.error().text();
      return documents->front().value;
    };
    json::Value object = value(c.object);
    object.make("metadata").make("managedFields") =
        json::Array{json::Object{{"manager", "us"}, {"fieldsV1", value(c.ours)}},
                    json::Object{{"manager", "them"}, {"fieldsV1", value(c.others)}}};
    json::Value left = withoutDropped(object, "us", value(c.wanted));
    left.makeObject().erase("metadata");
    EXPECT_EQ(json::write(left), json::write(value(c.left))) << c.what;
  }
}

TEST(ManagedFields, DefaultsOfWhoMadeItComeBack) {
  auto value = [](std::string_view text) { return json::parseYaml(text, "a case")->front().value; };
  json::Value object = value(
      "{policy: Always, ports: [{port: 80}, {port: 90}], metadata: {managedFields: [{manager: us, "
      "operation: Update, fieldsV1: {f:policy: {}, f:ports: {'k:{\"port\":80}': {.: {}}, "
      "'k:{\"port\":90}': {.: {}}}}}]}}");
  json::Value left = withoutDropped(object, "us", value("{ports: [{port: 90}]}"));
  EXPECT_EQ(left["policy"].string(), "Always");
  EXPECT_EQ(json::write(left["ports"]), R"([{"port":90}])");
}

}  // namespace
}  // namespace cadre::kube
