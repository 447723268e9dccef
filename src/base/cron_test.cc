#include "base/cron.h"

#include "base/format.h"
#include "base/random.h"
#include "base/strings.h"

namespace cadre {
namespace {

using testing::HasSubstr;

TEST(Cron, WhenItIsDueNext) {
  struct Case {
    std::string_view schedule, after, next;
  };
  for (const Case& c : {
           Case{"* * * * *", "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"},
           {"* * * * *", "2026-01-01T00:00:59.9Z", "2026-01-01T00:01:00Z"},
           {"*/20 * * * *", "2026-01-01T00:40:00Z", "2026-01-01T01:00:00Z"},
           {"7/20 * * * *", "2026-01-01T00:07:00Z", "2026-01-01T00:27:00Z"},
           {"0-30/15,50 * * * *", "2026-01-01T00:30:00Z", "2026-01-01T00:50:00Z"},
           {"5 4 * * *", "2026-12-31T04:05:00Z", "2027-01-01T04:05:00Z"},
           {"0 0 29 2 *", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z"},
           {"0 0 31 * *", "2026-01-31T00:00:00Z", "2026-03-31T00:00:00Z"},
           {"0 0 * FEB Mon", "2026-01-01T00:00:00Z", "2026-02-02T00:00:00Z"},
           {"0 0 13 * 5", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"},    // Friday or the 13th
           {"0 0 */31 * 5", "2026-01-02T00:00:00Z", "2026-01-09T00:00:00Z"},  // a step restricts
           {"0 0 13 * *", "2026-01-01T00:00:00Z", "2026-01-13T00:00:00Z"},
           {"0 0 ? * 1", "2026-01-01T00:00:00Z", "2026-01-05T00:00:00Z"},
           {" 0  12 1 1 * ", "2026-01-01T12:00:00Z", "2027-01-01T12:00:00Z"},
           {"@yearly", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"},
           {"@monthly", "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"},
           {"@weekly", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z"},
           {"@daily", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"},
           {"@hourly", "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"},
           {"@every 90s", "2026-01-01T00:00:00.5Z", "2026-01-01T00:01:30Z"},
           {"0 0 30 2 *", "2026-01-01T00:00:00Z", "never"},
       }) {
    auto cron = Cron::parse(c.schedule);
    ASSERT_TRUE(cron.ok()) << c.schedule << ": " << cron.error().text();
    auto next = cron->next(*parseTime(c.after));
    EXPECT_EQ(next ? formatTime(*next) : "never", c.next) << c.schedule;
  }
}

TEST(Cron, WhenItWasDueLast) {
  struct Case {
    std::string_view schedule, after, until, last;
  };
  for (const Case& c : {
           Case{"*/10 * * * *", "2026-01-01T00:00:00Z", "2026-01-01T00:09:59Z", "never"},
           {"*/10 * * * *", "2026-01-01T00:00:00Z", "2026-01-01T00:10:00Z", "2026-01-01T00:10:00Z"},
           {"*/10 * * * *", "2026-01-01T00:10:00Z", "2026-01-01T00:10:00Z", "never"},
           {"* * * * *", "2020-01-01T00:00:00Z", "2026-01-01T00:10:30Z", "2026-01-01T00:10:00Z"},
           {"* 3 * * *", "2020-01-01T00:00:00Z", "2026-01-01T02:00:00Z", "2025-12-31T03:59:00Z"},
           {"0 0 1 1 *", "2020-01-01T00:00:00Z", "2025-12-31T00:00:00Z", "2025-01-01T00:00:00Z"},
           {"0 0 29 2 *", "2020-01-01T00:00:00Z", "2026-01-01T00:00:00Z", "2024-02-29T00:00:00Z"},
           {"0 0 30 2 *", "2020-01-01T00:00:00Z", "2026-01-01T00:00:00Z", "never"},
           {"@every 90s", "2026-01-01T00:00:00Z", "2026-01-01T00:01:29Z", "never"},
           {"@every 90s", "2020-01-01T00:00:00Z", "2020-01-01T00:05:00Z", "2020-01-01T00:04:30Z"},
       }) {
    auto last = Cron::parse(c.schedule)->last(*parseTime(c.after), *parseTime(c.until));
    EXPECT_EQ(last ? formatTime(*last) : "never", c.last) << c.schedule << " " << c.until;
  }
}

TEST(Cron, WhatIsWrongIsNamed) {
  struct Case {
    std::string_view schedule, says;
  };
  for (const Case& c : {Case{"", "has 0 fields, not 5"},
                        {"* * * *", "has 4 fields"},
                        {"* * * * * *", "has 6 fields"},
                        {"60 * * * *", "\"60\" is no minute"},
                        {"-1 * * * *", "is no minute"},
                        {"+5 * * * *", "is no minute"},
                        {"* 24 * * *", "is no hour"},
                        {"* * 0 * *", "is no day of the month"},
                        {"* * * 13 *", "is no month"},
                        {"* * * * 7", "is no day of the week"},
                        {"* * * * sunday", "is no day of the week"},
                        {"5-1 * * * *", "is no minute"},
                        {"1- * * * *", "is no minute"},
                        {"*/0 * * * *", "is no minute"},
                        {"*/ * * * *", "is no minute"},
                        {"1,,2 * * * *", "is no minute"},
                        {"99999999999999999999 * * * *", "is no minute"},
                        {"@never", "there is no \"@never\""},
                        {"@every", "there is no \"@every\""},
                        {"@every soon", "is no duration"},
                        {"@every 10ms", "is no duration of at least a second"},
                        {"TZ=UTC * * * * *", "has 6 fields"}}) {
    auto cron = Cron::parse(c.schedule);
    ASSERT_FALSE(cron.ok()) << c.schedule;
    EXPECT_THAT(cron.error().text(), HasSubstr(c.says));
  }
}

std::string zoneFile(const std::string& name) {
  std::string bytes;
  FILE* file = std::fopen(("/usr/share/zoneinfo/" + name).c_str(), "rb");
  if (!file) return bytes;
  for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) bytes += static_cast<char>(c);
  std::fclose(file);
  return bytes;
}

TEST(TimeZone, NamesStayInTheirFolder) {
  for (std::string_view name : {"", "/etc/localtime", "../../../etc/passwd", "Europe/../UTC",
                                "No/Where", "Europe", "a b", "Europe/Berlin\n"})
    EXPECT_FALSE(TimeZone::load(name).ok()) << name;
  EXPECT_THAT(TimeZone::load("Mars/Base").error().text(), HasSubstr("no time zone \"Mars/Base\""));
  EXPECT_TRUE(TimeZone::load("UTC", "/nowhere").ok());
}

TEST(TimeZone, TimesAsTheyAreToldThere) {
  Time time = *parseTime("2026-01-01T00:00:00Z");
  EXPECT_EQ(formatTime(time, {}), "2026-01-01T00:00:00Z");
  EXPECT_EQ(formatTime(time, *TimeZone::load("Asia/Kathmandu")), "2026-01-01T05:45:00+05:45");
  EXPECT_EQ(formatTime(time, *TimeZone::load("America/St_Johns")), "2025-12-31T20:30:00-03:30");
}

TEST(TimeZone, HostileFilesAreSurvived) {
  std::string good = zoneFile("Europe/Dublin");
  ASSERT_GT(good.size(), 100u);
  ASSERT_TRUE(TimeZone::parse(good).ok());
  for (std::size_t size = 0; size < good.size(); ++size)
    EXPECT_FALSE(TimeZone::parse(std::string_view(good).substr(0, size)).ok()) << size;
  Random random(1);
  const Time now = *parseTime("2026-06-01T00:00:00Z");
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes = good;
    for (std::uint64_t flips = 1 + random.below(3); flips > 0; --flips)
      bytes[random.below(bytes.size())] = static_cast<char>(random.below(256));
    auto zone = TimeZone::parse(bytes);
    if (!zone) continue;
    Cron::parse("30 1 * * *")->next(now, *zone);
    zone->offsetAt(now + 24h * 40000);
  }
}

TEST(TimeZone, RulesOfAllShapes) {
  struct Case {
    std::string_view rule, at;
    int offset;  // minutes; -1: it is no rule
  };
  for (const Case& c : {Case{"<+0330>-3:30", "2026-01-01T00:00:00Z", 210},
                        {"UTC0", "2026-01-01T00:00:00Z", 0},
                        {"EST5EDT,M3.2.0,M11.1.0", "2026-07-01T00:00:00Z", -240},
                        {"EST5EDT,M3.2.0,M11.1.0", "2026-11-01T05:59:59Z", -240},
                        {"EST5EDT,M3.2.0,M11.1.0", "2026-11-01T06:00:00Z", -300},
                        {"NZST-12NZDT,M9.5.0,M4.1.0/3", "2026-01-01T00:00:00Z", 780},
                        {"IST-1GMT0,M10.5.0,M3.5.0/1", "2026-01-01T00:00:00Z", 0},
                        {"AAA3BBB,J60/0,J300", "2028-03-01T02:59:59Z", -180},  // a leap year
                        {"AAA3BBB,J60/0,J300", "2028-03-01T03:00:00Z", -120},
                        {"AAA3BBB,59/0,300", "2028-02-29T03:00:00Z", -120},
                        {"<-02>2<-01>,M3.5.0/-1,M10.5.0/0", "2026-03-29T00:59:59Z", -120},
                        {"<-02>2<-01>,M3.5.0/-1,M10.5.0/0", "2026-03-29T01:00:00Z", -60},
                        {"XX1", "", -1},
                        {"EST", "", -1},
                        {"EST5EDT", "", -1},
                        {"EST5EDT,M13.1.0,M11.1.0", "", -1},
                        {"EST5EDT,M3.2.0,M11.1.0x", "", -1},
                        {"EST25", "", -1}}) {
    // The smallest file: no changes, one offset, a rule.
    std::string part(44, '\0');
    part.replace(0, 5, "TZif2");
    part[39] = 1;  // types
    part[43] = 4;  // characters
    std::string body(6, '\0');
    std::string file = part + body + std::string("abc\0", 4) + part + body +
                       std::string("abc\0", 4) + "\n" + std::string(c.rule) + "\n";
    auto zone = TimeZone::parse(file);
    EXPECT_EQ(zone.ok(), c.offset != -1) << c.rule;
    if (!zone || c.offset == -1) continue;
    EXPECT_EQ(zone->offsetAt(*parseTime(c.at)), std::chrono::minutes(c.offset))
        << c.rule << " " << c.at;
  }
}

}  // namespace
}  // namespace cadre
