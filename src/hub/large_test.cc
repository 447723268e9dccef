// Objects that are as large as they may be: what is done to each item must not depend on all
// others, or one request would hold up everybody. Nothing is timed here; what is quadratic takes
// minutes.
#include <algorithm>

#include "base/format.h"
#include "hub/testing/direct_hub.h"

namespace cadre::hub {
namespace {

class Large : public DirectHub {
 protected:
  template <class Item>
  static json::Array list(int count, Item item) {
    json::Array out;
    for (int i = 0; i < count; ++i) out.push_back(item(i));
    return out;
  }

  static json::Value pod(std::string_view field, json::Array items) {
    json::Value container = json::Object{{"name", "web"}, {"image", "web"}};
    json::Value out =
        json::Object{{"metadata", json::Object{{"name", "web"}}},
                     {"spec", json::Object{{"containers", json::Array{std::move(container)}}}}};
    out.make("spec").make(field) = std::move(items);
    return out;
  }

  // A kind whose spec is a list.
  void define(json::Value item) {
    json::Value spec = json::Object{{"type", "array"}, {"items", std::move(item)}};
    json::Value schema =
        json::Object{{"type", "object"}, {"properties", json::Object{{"spec", std::move(spec)}}}};
    json::Value version = json::Object{{"name", "v1"},
                                       {"served", true},
                                       {"storage", true},
                                       {"schema", json::Object{{"openAPIV3Schema", schema}}}};
    json::Value definition = json::Object{
        {"metadata", json::Object{{"name", "boxes.test.dev"}}},
        {"spec", json::Object{{"group", "test.dev"},
                              {"scope", "Cluster"},
                              {"names", json::Object{{"plural", "boxes"}, {"kind", "Box"}}},
                              {"versions", json::Array{version}}}}};
    EXPECT_EQ(send("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition),
              "");
  }
  std::string box(json::Array items) {
    return send("POST", "/apis/test.dev/v1/boxes",
                json::Object{{"apiVersion", "test.dev/v1"},
                             {"kind", "Box"},
                             {"metadata", json::Object{{"name", "one"}}},
                             {"spec", std::move(items)}});
  }

  const std::string pods_ = "/api/v1/namespaces/default/pods";
};

TEST_F(Large, SpreadConstraints) {
  EXPECT_EQ(send("POST", pods_,
                 pod("topologySpreadConstraints",
                     list(10'000,
                          [](int i) {
                            return json::Object{{"maxSkew", 1},
                                                {"topologyKey", format("k{}", i)},
                                                {"whenUnsatisfiable", "DoNotSchedule"}};
                          }))),
            "");
}

TEST_F(Large, TolerationsThatChange) {
  auto toleration = [](int i) {
    return json::Object{{"key", format("k{}", i)}, {"operator", "Exists"}};
  };
  EXPECT_EQ(send("POST", pods_, pod("tolerations", list(20'000, toleration))), "");
  json::Array more = list(30'000, toleration);
  std::ranges::reverse(more);
  EXPECT_EQ(send("PUT", pods_ + "/web", pod("tolerations", std::move(more))), "");
}

TEST_F(Large, GatesThatChange) {
  auto gate = [](int i) { return json::Object{{"name", format("test.dev/g{}", i)}}; };
  EXPECT_EQ(send("POST", pods_, pod("schedulingGates", list(20'000, gate))), "");
  json::Array fewer = list(19'990, gate);
  std::ranges::reverse(fewer);
  EXPECT_EQ(send("PUT", pods_ + "/web", pod("schedulingGates", std::move(fewer))), "");
}

TEST_F(Large, ItemsOfAWideSchema) {
  json::Object properties;
  for (int i = 0; i < 3000; ++i) properties.set(format("p{}", i), json::Object{{"type", "string"}});
  define(json::Object{{"type", "object"}, {"properties", std::move(properties)}});
  EXPECT_EQ(box(list(100'000, [](int) { return json::Object{{"p2999", "x"}}; })), "");
}

TEST_F(Large, ManyAlternativesAreTooMuchForManyItems) {
  json::Value item =
      json::Object{{"type", "integer"},
                   {"anyOf", list(300, [](int i) { return json::Object{{"maximum", -i - 1}}; })}};
  item.make("anyOf").makeArray().push_back(json::Object{{"minimum", 0}});
  define(std::move(item));
  EXPECT_EQ(box(list(1000, [](int i) { return i; })), "");
  EXPECT_NE(box(list(200'000, [](int i) { return i; })).find("it takes too long to check"),
            std::string::npos);
}

TEST_F(Large, ManagersOfFields) {
  const std::string maps = "/api/v1/namespaces/default/configmaps";
  json::Value map = json::Object{{"metadata", json::Object{{"name", "one"}}}};
  EXPECT_EQ(send("POST", maps, map), "");
  map.make("metadata").make("managedFields") = list(15'000, [](int i) {
    json::Value fields =
        json::Object{{"f:data", json::Object{{format("f:k{}", i), json::Object()}}}};
    return json::Object{{"manager", format("m{}", i)},
                        {"operation", "Update"},
                        {"apiVersion", "v1"},
                        {"fieldsType", "FieldsV1"},
                        {"time", "2026-01-01T00:00:00Z"},
                        {"fieldsV1", std::move(fields)}};
  });
  EXPECT_EQ(send("PUT", maps + "/one", map), "");
}

}  // namespace
}  // namespace cadre::hub
