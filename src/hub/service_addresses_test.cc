#include "hub/service_addresses.h"

#include <gtest/gtest.h>

#include "base/format.h"
#include "base/scheduler.h"

namespace cadre::hub {
namespace {

class Addresses : public testing::Test {
 protected:
  static json::Value service(std::string_view name, int ports) {
    json::Array list;
    for (int i = 0; i < ports; ++i)
      list.push_back(json::Object{{"name", format("p{}", i)}, {"port", i + 1}});
    return json::Object{{"metadata", json::Object{{"name", name}, {"namespace", "ns"}}},
                        {"spec", json::Object{{"type", "NodePort"}, {"ports", std::move(list)}}}};
  }
  // What is wrong with it, if it is; else it is written.
  std::size_t make(std::string_view name, int ports) {
    json::Value object = service(name, ports);
    auto errors = addresses_.give(object);
    if (errors.empty()) {
      EXPECT_TRUE(objects_.put("services", object));
    }
    return errors.size();
  }
  void remove(std::string_view name) { objects_.remove("services", {"ns", std::string(name)}); }

  FakeScheduler scheduler_;
  Random random_{1};
  Objects objects_{scheduler_, {}, [](const Change&) {}, {}};
  ServiceAddresses addresses_{objects_, random_};
};

TEST_F(Addresses, WhatIsGoneIsFree) {
  for (int i = 0; i < 40; ++i) {
    ASSERT_EQ(make("web", 300), 0u) << i;
    remove("web");
  }
}

TEST_F(Addresses, WhatIsOnlyTriedTakesNothing) {
  for (int i = 0; i < 40; ++i) {
    json::Value object = service("web", 300);
    ASSERT_TRUE(addresses_.give(object).empty()) << i;
  }
}

TEST_F(Addresses, AreSaidToBeGoneOnce) {
  ASSERT_EQ(make("large", 2700), 0u);
  ASSERT_EQ(make("small", 60), 0u);
  EXPECT_EQ(make("more", 500), 1u);
  remove("small");
  EXPECT_EQ(make("more", 60), 0u);
}

}  // namespace
}  // namespace cadre::hub
