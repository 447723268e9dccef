#include "hub/objects.h"

#include "base/format.h"
#include "json/parse.h"

namespace cadre::hub {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

json::Value object(std::string_view name, std::string_view more = "") {
  return *json::parse(
      format(R"({{"apiVersion":"v1","kind":"Lamp","metadata":{{"name":"{}","namespace":"ns"{}}}}})",
             name, more));
}

struct Fixture {
  FakeScheduler scheduler;
  bool disk_full = false;
  std::vector<std::string> log, told, answers;
  Objects objects{scheduler,
                  [this](const std::vector<Line>& lines) -> Result<> {
                    if (disk_full)
                      return Error{.code = Code::ResourceExhausted, .message = "no space"};
                    std::string batch;
                    for (const Line& line : lines)
                      batch += format("{}{} {}{}", batch.empty() ? "" : ", ", line.revision,
                                      line.key, line.value ? "" : " gone");
                    log.push_back(batch);
                    return {};
                  },
                  [this](const Change& change) {
                    told.push_back(format("{} {}", change.revision,
                                          change.after ? change.after->key.name : "gone"));
                  },
                  {.changes = 4}};

  void answer(std::string text) {
    objects.whenKept([this, text](Result<> kept) {
      answers.push_back(kept ? text : text + ": " + kept.error().text());
    });
  }
};

TEST(Objects, WhatIsTooLargeHarmsNobodyElse) {
  Fixture f;
  (void)f.objects.put("lamps", object("a"));
  std::string filler =
      format(R"(,"annotations":{{"a":"{}"}})", std::string(Objects::kMaxBytes, 'x'));
  auto large = f.objects.put("lamps", object("large", filler));
  EXPECT_THAT(large.error().text(), HasSubstr("bytes, and 3145728 is the limit"));
  auto named = f.objects.put("lamps", object(std::string(1100, 'n')));
  EXPECT_THAT(named.error().text(), HasSubstr("bytes, and 1024 is the limit"));
  (void)f.objects.put("lamps", object("b"));
  f.scheduler.runReady();
  EXPECT_THAT(f.log, ElementsAre("2 lamps ns/a, 3 lamps ns/b"));
}

TEST(Objects, WhatComesTogetherIsKeptTogetherAndAnsweredThen) {
  Fixture f;
  f.answer("nothing on its way");
  EXPECT_THAT(f.answers, ElementsAre("nothing on its way"));
  State a = *f.objects.put("lamps", object("a"));
  f.answer("a");
  (void)f.objects.put("lamps", object("b"));
  f.answer("b");
  EXPECT_EQ(f.objects.find("lamps", {"ns", "a"}), a) << "who asks here sees it at once";
  EXPECT_EQ(a->text.find("kind"), std::string::npos);
  EXPECT_EQ(kube::resourceVersion(a->value()), "2");
  EXPECT_THAT(f.told, IsEmpty());
  f.scheduler.runReady();
  EXPECT_THAT(f.log, ElementsAre("2 lamps ns/a, 3 lamps ns/b"));
  EXPECT_THAT(f.answers, ElementsAre("nothing on its way", "a", "b"));
  EXPECT_THAT(f.told, ElementsAre("2 a", "3 b"));
}

TEST(Objects, WhatCannotBeKeptIsUndoneAndNobodyHearsOfIt) {
  Fixture f;
  (void)f.objects.put("lamps", object("a"));
  f.scheduler.runReady();
  f.disk_full = true;
  (void)f.objects.put("lamps", object("a", R"(,"labels":{"x":"y"})"));
  (void)f.objects.put("lamps", object("b"));
  f.objects.remove("lamps", {"ns", "a"});
  f.answer("all of it");
  f.told.clear();
  f.scheduler.runReady();
  EXPECT_THAT(f.answers, ElementsAre("all of it: no space"));
  EXPECT_THAT(f.told, IsEmpty());
  EXPECT_EQ(f.objects.revision(), 2);
  ASSERT_TRUE(f.objects.find("lamps", {"ns", "a"}));
  EXPECT_EQ(f.objects.find("lamps", {"ns", "a"})->revision, 2);
  EXPECT_FALSE(f.objects.find("lamps", {"ns", "b"}));
  f.disk_full = false;
  (void)f.objects.put("lamps", object("c"));
  f.scheduler.runReady();
  EXPECT_THAT(f.told, ElementsAre("3 c")) << "and it goes on when there is space";
}

TEST(Objects, ThePastIsKnownForAWhile) {
  Fixture f;
  (void)f.objects.put("lamps", object("a"));                            // 2
  (void)f.objects.put("lamps", object("b"));                            // 3
  (void)f.objects.put("shades", object("s"));                           // 4
  (void)f.objects.put("lamps", object("a", R"(,"labels":{"x":"y"})"));  // 5
  f.objects.remove("lamps", {"ns", "b"});                               // 6
  f.scheduler.runReady();
  auto names = [](const Objects::Collection& collection) {
    std::vector<std::string> names;
    for (const auto& [key, state] : collection)
      names.push_back(format("{}@{}", key.name, state->revision));
    return names;
  };
  EXPECT_THAT(names(f.objects.all("lamps")), ElementsAre("a@5"));
  EXPECT_THAT(names(*f.objects.at("lamps", 5)), ElementsAre("a@5", "b@3"));
  EXPECT_THAT(names(*f.objects.at("lamps", 3)), ElementsAre("a@2", "b@3"));
  EXPECT_EQ(f.objects.at("lamps", 1).error().code, Code::Gone) << "four changes are remembered";
  auto since = f.objects.since("lamps", 4);
  ASSERT_TRUE(since);
  ASSERT_EQ(since->size(), 2u);
  EXPECT_EQ((*since)[0].revision, 5);
  EXPECT_EQ(kube::resourceVersion((*since)[1].gone()->value()), "6");
  f.objects.begin("lamps");
  EXPECT_EQ(f.objects.since("lamps", 5).error().code, Code::Gone) << "a kind that is new";
  EXPECT_TRUE(f.objects.since("shades", 3));
}

TEST(Objects, WhoHasMostForgetsFirst) {
  FakeScheduler scheduler;
  Objects objects(scheduler, {}, [](const Change&) {}, {.changes = 1000, .bytes = 10'000});
  (void)objects.put("lamps", object("a"));                            // 2
  (void)objects.put("lamps", object("a", R"(,"labels":{"x":"y"})"));  // 3
  std::string large = format(R"(,"annotations":{{"text":"{}"}})", std::string(2000, 'x'));
  for (int i = 0; i < 20; ++i) {
    (void)objects.put("shades", object("s", large));
    scheduler.runReady();
  }
  EXPECT_TRUE(objects.since("lamps", 1)) << "few and small ones are known from the beginning";
  EXPECT_FALSE(objects.since("shades", 10));
  EXPECT_TRUE(objects.since("shades", 20)) << "large ones for as long as there is room";
  EXPECT_GT(objects.forgotten(), 10);
  EXPECT_TRUE(objects.since("shades", objects.forgotten()));
}

TEST(Objects, GoOnWhereTheLogEnds) {
  Fixture f;
  ASSERT_TRUE(f.objects.load("lamps ns/a", R"({"metadata":{"name":"a","resourceVersion":"9"}})"));
  ASSERT_TRUE(f.objects.recall(8, "lamps ns/b",
                               R"({"metadata":{"name":"b","resourceVersion":"5"}})", std::nullopt));
  ASSERT_TRUE(f.objects.recall(9, "lamps ns/a", std::nullopt,
                               R"({"metadata":{"name":"a","resourceVersion":"9"}})"));
  f.objects.loaded(9, 7);
  EXPECT_EQ(f.objects.revision(), 9);
  EXPECT_EQ(f.objects.all("lamps").size(), 1u);
  EXPECT_EQ(f.objects.at("lamps", 7)->size(), 1u);
  EXPECT_EQ(f.objects.at("lamps", 7)->begin()->first.name, "b");
  EXPECT_EQ(f.objects.since("lamps", 6).error().code, Code::Gone);
  EXPECT_EQ((*f.objects.put("lamps", object("c")))->revision, 10);
  EXPECT_EQ(f.objects.load("nonsense", "{}").error().code, Code::DataLoss);
  EXPECT_EQ(f.objects.load("lamps ns/a", "{").error().code, Code::DataLoss);
}

}  // namespace
}  // namespace cadre::hub
