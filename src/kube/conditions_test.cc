#include "kube/conditions.h"

#include "json/parse.h"
#include "json/write.h"

namespace cadre::kube {
namespace {

using testing::HasSubstr;

json::Value read(std::string_view text) {
  auto value = json::parse(text);
  EXPECT_TRUE(value.ok()) << text;
  return value ? *value : json::Value();
}

const Time kStart = *parseTime("2026-01-01T00:00:00Z");

TEST(Conditions, AreFound) {
  const json::Value object = read(R"({"status":{"conditions":[1,{"type":"Other","status":"False"},
    {"type":"Ready","status":"True","reason":"AllGood","message":"fine","observedGeneration":3,
     "lastTransitionTime":"2026-01-01T00:00:00Z"},{"type":"Odd","status":"maybe"}]}})");
  EXPECT_EQ(findCondition(object, "Ready"),
            (Condition{"Ready", ConditionStatus::True, "AllGood", "fine", 3, kStart}));
  EXPECT_EQ(findCondition(object, "Other"), (Condition{"Other", ConditionStatus::False}));
  EXPECT_EQ(findCondition(object, "Odd")->status, ConditionStatus::Unknown);
  EXPECT_FALSE(findCondition(object, "None"));
  EXPECT_FALSE(findCondition(object, ""));
  EXPECT_TRUE(isConditionTrue(object, "Ready"));
  EXPECT_FALSE(isConditionTrue(object, "Other"));
  EXPECT_FALSE(isConditionTrue(object, "None"));
}

TEST(Conditions, HostileOnesReadAsEmpty) {
  for (const char* text :
       {"null", "[]", "5", R"({"status":1})", R"({"status":{"conditions":{}}})",
        R"({"status":{"conditions":["Ready",null,{"type":["Ready"]},{"type":{}}]}})"})
    EXPECT_FALSE(findCondition(read(text), "Ready")) << text;
  EXPECT_EQ(findCondition(read(R"({"status":{"conditions":[{"type":"Ready","status":true,
              "reason":1,"message":[],"observedGeneration":"x","lastTransitionTime":"soon"}]}})"),
                          "Ready"),
            (Condition{"Ready", ConditionStatus::Unknown}));
}

// One call after the other on the same list, a minute apart.
TEST(Conditions, AreSet) {
  struct Step {
    Condition condition;
    bool changed;
    const char* list;
  };
  const Step kSteps[] = {
      {{"Ready", ConditionStatus::False, "Waiting", "for a", 1},
       true,
       R"([{"lastTransitionTime":"2026-01-01T00:00:00Z","message":"for a","observedGeneration":1,"reason":"Waiting","status":"False","type":"Ready"}])"},
      {{"Ready", ConditionStatus::False, "Waiting", "for a", 1},
       false,
       R"([{"lastTransitionTime":"2026-01-01T00:00:00Z","message":"for a","observedGeneration":1,"reason":"Waiting","status":"False","type":"Ready"}])"},
      {{"Ready", ConditionStatus::False, "Waiting", "for b", 2},
       true,
       R"([{"lastTransitionTime":"2026-01-01T00:00:00Z","message":"for b","observedGeneration":2,"reason":"Waiting","status":"False","type":"Ready"}])"},
      {{"example.com/Synced", ConditionStatus::Unknown, "New"},
       true,
       R"([{"lastTransitionTime":"2026-01-01T00:00:00Z","message":"for b","observedGeneration":2,"reason":"Waiting","status":"False","type":"Ready"},{"lastTransitionTime":"2026-01-01T00:03:00Z","message":"","reason":"New","status":"Unknown","type":"example.com/Synced"}])"},
      {{"Ready", ConditionStatus::True, "AllGood", "", 0},
       true,
       R"([{"lastTransitionTime":"2026-01-01T00:04:00Z","message":"","reason":"AllGood","status":"True","type":"Ready"},{"lastTransitionTime":"2026-01-01T00:03:00Z","message":"","reason":"New","status":"Unknown","type":"example.com/Synced"}])"},
  };
  json::Array list;
  Time now = kStart;
  for (const Step& step : kSteps) {
    auto changed = setCondition(list, step.condition, now);
    ASSERT_TRUE(changed.ok()) << changed.error().text();
    EXPECT_EQ(*changed, step.changed) << json::write(list);
    EXPECT_EQ(json::write(list), step.list);
    now += 1min;
  }
}

TEST(Conditions, WhatIsNotOursStays) {
  json::Array list =
      read(R"(["odd",{"type":"Ready","status":"True","reason":"R","message":"","extra":[1],
          "lastTransitionTime":"2025-05-05T05:05:05Z"},null,{"type":"Ready","status":"False"},
          {"type":"Other","strange":true}])")
          .array();
  auto changed = setCondition(list, {"Ready", ConditionStatus::True, "R"}, kStart);
  ASSERT_TRUE(changed.ok());
  EXPECT_TRUE(*changed);  // the second one is gone
  EXPECT_EQ(
      json::write(list),
      R"(["odd",{"extra":[1],"lastTransitionTime":"2025-05-05T05:05:05Z","message":"",)"
      R"("reason":"R","status":"True","type":"Ready"},null,{"strange":true,"type":"Other"}])");
  EXPECT_FALSE(*setCondition(list, {"Ready", ConditionStatus::True, "R"}, kStart));
}

TEST(Conditions, AMissingTimeIsMended) {
  json::Array list = read(R"([{"type":"Ready","status":"True","reason":"R","message":"",
      "lastTransitionTime":null}])")
                         .array();
  EXPECT_TRUE(*setCondition(list, {"Ready", ConditionStatus::True, "R"}, kStart));
  EXPECT_EQ(list.front()["lastTransitionTime"].string(), "2026-01-01T00:00:00Z");
}

TEST(Conditions, LongMessagesAreCut) {
  json::Array list;
  Condition condition{"Ready", ConditionStatus::False, "Failed", std::string(40000, 'x')};
  EXPECT_TRUE(*setCondition(list, condition, kStart));
  EXPECT_EQ(list.front()["message"].string().size(), kMaxConditionMessage);
  EXPECT_FALSE(*setCondition(list, condition, kStart));
  std::string wide;
  while (wide.size() < 40000) wide += "é";
  condition.message = wide;
  EXPECT_TRUE(*setCondition(list, condition, kStart));
  const std::string& cut = list.front()["message"].string();
  EXPECT_LE(cut.size(), kMaxConditionMessage);
  EXPECT_TRUE(cut.ends_with("é..."));
}

TEST(Conditions, BadOnesAreRefused) {
  struct Case {
    const char *type, *reason, *says;
  };
  const std::string long_reason(1025, 'R');
  for (const Case& c : {Case{"", "R", "the condition type \"\" is not a qualified name"},
                        {"Not Ready", "R", "has ' ' at position 4"},
                        {"Ready", "", "the reason \"\", which is not CamelCase"},
                        {"Ready", "waiting", "such as WaitingForModel"},
                        {"Ready", "Not Ready", "not CamelCase"},
                        {"Ready", "Not-Ready", "not CamelCase"},
                        {"Ready", "9Lives", "not CamelCase"},
                        {"Ready", "Ends:", "not CamelCase"},
                        {"Ready", long_reason.c_str(), "at most 1024"}}) {
    json::Array list{json::Value("kept")};
    auto result = setCondition(list, {c.type, ConditionStatus::True, c.reason}, kStart);
    ASSERT_FALSE(result.ok()) << c.type << " " << c.reason;
    EXPECT_EQ(result.error().code, Code::InvalidArgument);
    EXPECT_THAT(result.error().message, HasSubstr(c.says));
    EXPECT_EQ(list.size(), 1u);
  }
}

}  // namespace
}  // namespace cadre::kube
