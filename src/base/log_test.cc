#include "base/log.h"

#include <algorithm>

#include "base/metrics.h"

namespace cadre {
namespace {

struct Lines {
  FakeClock clock;
  std::string text;
  Logger logger;
  explicit Lines(LogFormat format)
      : logger(clock, {.level = LogLevel::Info, .format = format},
               [this](std::string_view line) { text += line; }) {}
};

TEST(Log, WritesTextForPeople) {
  Lines lines(LogFormat::Text);
  lines.logger.debug("not shown");
  lines.logger.info("watching",
                    {{"kind", "Agent"}, {"count", 3}, {"why", "it was asked"}, {"ok", true}});
  EXPECT_EQ(lines.text,
            "2026-01-01T00:00:00.000000Z info  watching kind=Agent count=3 why=\"it was asked\" "
            "ok=true\n");
}

TEST(Log, WritesJsonForMachines) {
  Lines lines(LogFormat::Json);
  lines.logger.error("a \"b\"\n", {{"n", 1.5}, {"path", "a\\b"}});
  EXPECT_EQ(lines.text,
            "{\"time\":\"2026-01-01T00:00:00.000000Z\",\"level\":\"error\",\"message\":\"a "
            "\\\"b\\\"\\n\",\"n\":1.5,\"path\":\"a\\\\b\"}\n");
}

TEST(Log, ALineCannotBeForged) {
  Lines lines(LogFormat::Text);
  lines.logger.info("one\ntwo", {{"value", "x\nlevel=error"}});
  EXPECT_EQ(std::count(lines.text.begin(), lines.text.end(), '\n'), 1);
}

TEST(Log, SecretsStayOut) {
  for (LogFormat format : {LogFormat::Text, LogFormat::Json}) {
    Lines lines(format);
    lines.logger.info("sent Authorization: Bearer hunter2 to https://me:hunter2@host/x",
                      {{"token", "hunter2"},
                       {"dbPassword", "hunter2"},
                       {"header", "bearer hunter2"},
                       {"url", "redis://:hunter2@db:6379/0"}});
    EXPECT_EQ(lines.text.find("hunter2"), std::string::npos) << lines.text;
    EXPECT_NE(lines.text.find("[redacted]@host/x"), std::string::npos) << lines.text;
  }
}

TEST(Log, SecretsInTextsAreKnownByTheirNames) {
  for (auto [text, shown] : std::initializer_list<std::pair<std::string_view, std::string_view>>{
           {"login failed: token=hunter2", "login failed: token=[redacted]"},
           {"--password=hunter2 --user=me", "--password=[redacted] --user=me"},
           {"?access_token=hunter2&x=1", "?access_token=[redacted]&x=1"},
           {"CLIENT_SECRET='hunter2 hunter2', x", "CLIENT_SECRET=[redacted], x"},
           {R"({"id_token": "hunter2", "a": "b"})", R"({"id_token": [redacted], "a": "b"})"},
           {"a=b, reading the token: no such file", "a=b, reading the token: no such file"},
           {"got eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJtZSJ9.c2ln, sorry", "got [redacted], sorry"},
           {"eyJ is how they begin", "eyJ is how they begin"},
           {"token=", "token=[redacted]"}})
    EXPECT_EQ(redact(text), shown);
}

TEST(Log, NamesParse) {
  EXPECT_EQ(parseLogLevel("warn"), LogLevel::Warn);
  EXPECT_FALSE(parseLogLevel("loud"));
  EXPECT_EQ(parseLogFormat("json"), LogFormat::Json);
  EXPECT_FALSE(parseLogFormat("xml"));
}

TEST(Metrics, PrintsTheTextFormat) {
  Metrics metrics;
  metrics.counter("requests_total", "Requests.", {{"code", "200"}}).add(2);
  metrics.counter("requests_total", "Requests.", {{"code", "200"}}).add();
  metrics.gauge("depth", "Queue depth.", {{"name", "a\"b\n"}}).set(1.5);
  Histogram& histogram = metrics.histogram("seconds", "Durations.", {0.1, 1}, {{"verb", "GET"}});
  for (double value : {0.05, 0.1, 0.5, 7.0}) histogram.observe(value);
  EXPECT_EQ(metrics.text(),
            R"(# HELP depth Queue depth.
# TYPE depth gauge
depth{name="a\"b\n"} 1.5
# HELP requests_total Requests.
# TYPE requests_total counter
requests_total{code="200"} 3
# HELP seconds Durations.
# TYPE seconds histogram
seconds_bucket{verb="GET",le="0.1"} 2
seconds_bucket{verb="GET",le="1"} 3
seconds_bucket{verb="GET",le="+Inf"} 4
seconds_sum{verb="GET"} 7.65
seconds_count{verb="GET"} 4
)");
  metrics.remove("depth", {{"name", "a\"b\n"}});
  EXPECT_EQ(metrics.text().find("depth{"), std::string::npos);
}

TEST(Metrics, ManyLabelsShareOneSeries) {
  Metrics metrics;
  for (std::size_t i = 0; i < Metrics::kMaxSeries + 50; ++i)
    metrics.counter("c", "C.", {{"user", std::to_string(i)}}).add();
  EXPECT_EQ(metrics.counter("c", "C.", {{"overflow", "true"}}).value(), 50);
}

}  // namespace
}  // namespace cadre
