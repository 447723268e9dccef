#include "hub/testing/direct_hub.h"

namespace cadre::hub {
namespace {

const kube::Resource kEvents{.version = "v1", .plural = "events", .kind = "Event"};

class EventExpiryTest : public DirectHub {
 protected:
  void write(const std::string& name, int count) {
    json::Object object{{"apiVersion", "v1"},
                        {"kind", "Event"},
                        {"metadata", json::Object{{"name", name}, {"namespace", "default"}}},
                        {"involvedObject",
                         json::Object{{"kind", "Pod"}, {"name", "web"}, {"namespace", "default"}}},
                        {"reason", "Test"},
                        {"count", count}};
    Pending sent = client_->apply(
        kEvents, std::move(object), {.field_manager = "test", .force = true},
        [](const auto& answer) { EXPECT_TRUE(answer.ok()) << answer.error().text(); });
    scheduler_.runReady();
  }
  bool isThere(const std::string& name) {
    return static_cast<bool>(hub_.objects().find("events", {"default", name}));
  }
};

TEST_F(EventExpiryTest, AreTriedAgainWhereThatCannotBeKept) {
  write("once", 1);
  has_space_ = false;
  scheduler_.advance(70min);
  EXPECT_TRUE(isThere("once"));
  has_space_ = true;
  scheduler_.advance(2min);
  EXPECT_FALSE(isThere("once"));
}

TEST_F(EventExpiryTest, GoAnHourAfterTheyWereWrittenLast) {
  write("once", 1);
  write("again", 1);
  scheduler_.advance(40min);
  write("again", 2);
  scheduler_.advance(15min);
  EXPECT_TRUE(isThere("once"));
  scheduler_.advance(6min);
  EXPECT_FALSE(isThere("once"));
  EXPECT_TRUE(isThere("again"));
  scheduler_.advance(40min);
  EXPECT_FALSE(isThere("again"));
  write("once", 1);  // as if it had never been
  scheduler_.advance(30min);
  EXPECT_TRUE(isThere("once"));
}

}  // namespace
}  // namespace cadre::hub
