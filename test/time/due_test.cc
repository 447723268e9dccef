// Schedules around the days on which clocks change, in many zones, as another program calculates
// them.
#include <cstdio>

#include "base/cron.h"
#include "base/format.h"
#include "base/strings.h"

namespace cadre {
namespace {

TEST(Due, AsCalculatedMinuteByMinute) {
  FILE* cases = ::popen("python3 " CADRE_DUE, "r");
  ASSERT_TRUE(cases);
  std::string text;
  for (int c = std::fgetc(cases); c != EOF; c = std::fgetc(cases)) text += static_cast<char>(c);
  ASSERT_EQ(::pclose(cases), 0);
  std::map<std::string, TimeZone, std::less<>> zones;
  int lines = 0, times = 0;
  for (std::string_view line : split(trim(text), '\n')) {
    auto fields = split(line, '|');
    ASSERT_EQ(fields.size(), 4u) << line;
    auto zone = TimeZone::load(fields[0]);
    ASSERT_TRUE(zone.ok()) << zone.error().text();
    auto cron = Cron::parse(fields[1]);
    ASSERT_TRUE(cron.ok()) << cron.error().text();
    const Time begin{std::chrono::seconds(*parseInt(fields[2]))};
    std::vector<std::string> found;
    for (auto at = cron->next(begin, *zone); at && *at < begin + 48h; at = cron->next(*at, *zone))
      found.push_back(
          format("{}", std::chrono::floor<std::chrono::seconds>(at->time_since_epoch()).count()));
    EXPECT_EQ(join(found, ","), fields[3]) << line.substr(0, 60);
    ++lines;
    times += static_cast<int>(found.size());
  }
  EXPECT_GT(lines, 500);
  EXPECT_GT(times, 10'000);
  std::printf("%d cases, %d times\n", lines, times);
}

}  // namespace
}  // namespace cadre
