// Tables for the small things: errors, results, functions, times, strings.
#include "base/backoff.h"
#include "base/function.h"
#include "base/random.h"
#include "base/result.h"
#include "base/scheduler.h"
#include "base/strings.h"
#include "base/time.h"

namespace cadre {
namespace {

Result<int> half(int value) {
  if (value % 2) return Error{.code = Code::InvalidArgument, .message = "odd"};
  return value / 2;
}
Result<int> quarter(int value) {
  CADRE_LET(int halved, half(value));
  CADRE_TRY(half(halved));
  return half(halved);
}

TEST(Result, PassesValuesAndErrorsOn) {
  EXPECT_EQ(*quarter(8), 2);
  EXPECT_EQ(quarter(6).error().message, "odd");
  EXPECT_EQ(quarter(7).error().code, Code::InvalidArgument);
}

TEST(ResultDeathTest, ReadingTheWrongSideStopsWithTheReason) {
  EXPECT_DEATH((void)*half(1), "value of a failed Result: odd");
}

TEST(Error, ContextKeepsWhatProgramsCompare) {
  Error inner{.code = Code::Conflict, .message = "changed meanwhile", .reason = "Conflict"};
  inner.retry_after = 2s;
  Error outer = inner.context("updating agents/a").context("reconciling");
  EXPECT_EQ(outer.text(), "reconciling: updating agents/a: changed meanwhile");
  EXPECT_EQ(outer.code, Code::Conflict);
  EXPECT_EQ(outer.reason, "Conflict");
  EXPECT_EQ(outer.retry_after, Duration(2s));
}

TEST(Function, HoldsMoveOnlyCaptures) {
  auto owned = std::make_unique<int>(7);
  Function<int(int)> add = [owned = std::move(owned)](int more) { return *owned + more; };
  Function<int(int)> moved = std::move(add);
  EXPECT_FALSE(add);
  EXPECT_EQ(moved(1), 8);
}

TEST(Time, ReadsAndWritesRfc3339) {
  struct Case {
    std::string_view in, out;
  };
  for (auto [in, out] : std::initializer_list<Case>{
           {"2026-01-01T00:00:00Z", "2026-01-01T00:00:00.000000Z"},
           {"2026-03-29T03:30:00.5+02:00", "2026-03-29T01:30:00.500000Z"},
           {"1969-12-31T23:59:59.999999999Z", "1969-12-31T23:59:59.999999Z"},
           {"2024-02-29t12:00:00z", "2024-02-29T12:00:00.000000Z"}}) {
    auto time = parseTime(in);
    ASSERT_TRUE(time) << in;
    EXPECT_EQ(formatTimeMicros(*time), out);
  }
  for (std::string_view bad :
       {"", "2026-01-01", "2026-13-01T00:00:00Z", "2025-02-29T00:00:00Z", "2026-01-01T24:00:00Z",
        "2026-01-01T00:00:00", "2026-01-01T00:00:00.Z", "2026-01-01T00:00:00Z ",
        "9999-01-01T00:00:00Z"})
    EXPECT_FALSE(parseTime(bad)) << bad;
  EXPECT_EQ(formatTime(FakeClock().now()), "2026-01-01T00:00:00Z");
}

TEST(Time, ReadsAndWritesDurationsAsGoDoes) {
  struct Case {
    std::string_view in, out;
  };
  for (auto [in, out] : std::initializer_list<Case>{{"1h30m", "1h30m0s"},
                                                    {"90s", "1m30s"},
                                                    {"1.5s", "1.5s"},
                                                    {"-250ms", "-250ms"},
                                                    {"0", "0s"},
                                                    {"15us", "15µs"},
                                                    {"2540400h10m10s", "2540400h10m10s"}}) {
    auto duration = parseDuration(in);
    ASSERT_TRUE(duration) << in;
    EXPECT_EQ(formatDuration(*duration), out);
  }
  for (std::string_view bad : {"", "1", "s", "1x", ".s", "3000000h", "99999999999999999999s", "-"})
    EXPECT_FALSE(parseDuration(bad)) << bad;
}

TEST(Scheduler, RunsTimersInOrderAndDropsCancelledOnes) {
  FakeScheduler scheduler;
  std::string trace;
  Pending late = scheduler.after(2s, [&] { trace += "late "; });
  Pending early = scheduler.after(1s, [&] { trace += "early "; });
  Pending dropped = scheduler.after(1500ms, [&] { trace += "dropped "; });
  scheduler.post([&] { trace += "posted "; });
  dropped.reset();
  scheduler.advance(1s);
  EXPECT_EQ(trace, "posted early ");
  scheduler.advance(1s);
  EXPECT_EQ(trace, "posted early late ");
  EXPECT_EQ(scheduler.timers(), 0u);
}

TEST(Scheduler, ATimerMayDropItself) {
  FakeScheduler scheduler;
  Pending self;
  int runs = 0;
  self = scheduler.after(1s, [&] {
    ++runs;
    self.reset();
  });
  scheduler.advance(5s);
  EXPECT_EQ(runs, 1);
}

TEST(Backoff, GrowsToTheLimitAndStartsAgain) {
  Random random(1);
  Backoff backoff({.first = 1s, .limit = 4s, .factor = 2, .jitter = 0}, random);
  std::vector<Duration> waits;
  for (int i = 0; i < 4; ++i) waits.push_back(backoff.next());
  EXPECT_EQ(waits, (std::vector<Duration>{1s, 2s, 4s, 4s}));
  backoff.reset();
  EXPECT_EQ(backoff.next(), 1s);
}

TEST(Strings, Base64RoundTrips) {
  std::string bytes;
  for (int i = 0; i < 60; ++i) {
    EXPECT_EQ(base64Decode(base64Encode(bytes)), bytes);
    bytes += static_cast<char>(i * 37);
  }
  EXPECT_EQ(base64Encode("hello"), "aGVsbG8=");
  EXPECT_EQ(base64Decode("aGVs\nbG8"), "hello");
  for (std::string_view bad : {"a", "aGVs!", "aG=Vs"}) EXPECT_FALSE(base64Decode(bad)) << bad;
}

TEST(Strings, SmallOnes) {
  EXPECT_EQ(split("a,,b", ','), (std::vector<std::string_view>{"a", "", "b"}));
  EXPECT_EQ(split("", ','), (std::vector<std::string_view>{""}));
  EXPECT_EQ(cut("a=b=c", "="), (std::pair<std::string_view, std::string_view>{"a", "b=c"}));
  EXPECT_EQ(trim(" \t a b\n"), "a b");
  EXPECT_EQ(parseInt("-12"), -12);
  for (std::string_view bad : {"", "1 ", "0x1", "99999999999999999999", "+1"})
    EXPECT_FALSE(parseInt(bad)) << bad;
  EXPECT_EQ(urlEncode("a b/c=é"), "a%20b%2Fc%3D%C3%A9");
  EXPECT_EQ(urlDecode("a%20b%2Fc+%C3%A9%zz%4"), "a b/c é%zz%4");
  EXPECT_EQ(shorten("abcdef", 5), "ab...");
  EXPECT_EQ(shorten("éééé", 6), "é...");
  EXPECT_EQ(shorten("abc", 3), "abc");
  EXPECT_EQ(shortHash("agents").size(), 8u);
  EXPECT_NE(shortHash("a"), shortHash("b"));
}

}  // namespace
}  // namespace cadre
