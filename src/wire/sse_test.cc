#include "wire/sse.h"

#include "base/random.h"
#include "base/strings.h"

namespace cadre::wire {
namespace {

using testing::ElementsAre;

std::vector<SseEvent> parseIn(std::string_view text, std::size_t piece) {
  std::vector<SseEvent> events;
  SseParser parser([&](SseEvent event) { events.push_back(std::move(event)); });
  for (std::size_t at = 0; at < text.size(); at += piece)
    EXPECT_TRUE(parser.feed(std::string(text.substr(at, piece))));
  return events;
}

TEST(Sse, ReadsWhatTheStandardSays) {
  struct {
    const char* what;
    std::string text;
    std::vector<SseEvent> events;
  } cases[] = {
      {"one line", "data: hello\n\n", {{.data = "hello"}}},
      {"only one space goes", "data:  a \n\n", {{.data = " a "}}},
      {"no space", "data:a\n\n", {{.data = "a"}}},
      {"several lines", "data: a\ndata: b\ndata\ndata: c\n\n", {{.data = "a\nb\n\nc"}}},
      {"CR", "data: a\r\rdata: b\r\r", {{.data = "a"}, {.data = "b"}}},
      {"CRLF", "data: a\r\n\r\ndata: b\r\n\r\n", {{.data = "a"}, {.data = "b"}}},
      {"mixed ends", "data: a\r\ndata: b\rdata: c\n\r\n", {{.data = "a\nb\nc"}}},
      {"byte order mark",
       "\xEF\xBB\xBF"
       "data: a\n\n",
       {{.data = "a"}}},
      {"a second mark is text",
       "\xEF\xBB\xBF\xEF\xBB\xBF"
       "data: a\n\ndata: b\n\n",
       {{.data = "b"}}},
      {"a later mark is text",
       "data: a\n\n\xEF\xBB\xBF"
       "data: b\n\n",
       {{.data = "a"}}},
      {"comments", ": hello\n:\ndata: a\n: more\ndata: b\n\n", {{.data = "a\nb"}}},
      {"names",
       "event: add\ndata: 1\n\ndata: 2\n\n",
       {{.type = "add", .data = "1"}, {.data = "2"}}},
      {"empty name", "event: add\nevent\ndata: 1\n\n", {{.data = "1"}}},
      {"ids stay",
       "id: 7\ndata: a\n\ndata: b\n\nid\ndata: c\n\n",
       {{.data = "a", .id = "7"}, {.data = "b", .id = "7"}, {.data = "c"}}},
      {"an id alone counts", "id: 7\n\ndata: a\n\n", {{.data = "a", .id = "7"}}},
      {"an id with a NUL does not",
       std::string("id: 7\nid: 8\0\ndata: a\n\n", 22),
       {{.data = "a", .id = "7"}}},
      {"no data, no event", "event: add\n\n\n\ndata: a\n\n", {{.data = "a"}}},
      {"empty data", "data\n\ndata:\n\ndata: \n\n", {{}, {}, {}}},
      {"two empty lines of data", "data\ndata\n\n", {{.data = "\n"}}},
      {"unknown fields", "foo: bar\nDATA: x\n data: y\ndata: a\n\n", {{.data = "a"}}},
      {"colons in values", "data: a: b\n\n", {{.data = "a: b"}}},
      {"cut off", "data: a\n\ndata: b\n", {{.data = "a"}}},
      {"not UTF-8", "data: a\xFFz\n\n", {{.data = "a\xEF\xBF\xBDz"}}},
      {"nothing", "", {}},
      {"only a mark", "\xEF\xBB\xBF", {}},
  };
  for (const auto& [what, text, events] : cases) {
    SCOPED_TRACE(what);
    for (std::size_t piece : {1, 2, 3, 5, 1000}) EXPECT_EQ(parseIn(text, piece), events) << piece;
  }
}

TEST(Sse, HandsOnAtTheEmptyLine) {
  std::vector<std::string> seen;
  SseParser parser([&](SseEvent event) { seen.push_back(event.data); });
  EXPECT_TRUE(parser.feed("data: a\r"));
  EXPECT_THAT(seen, ElementsAre());
  EXPECT_TRUE(parser.feed("\r"));
  EXPECT_THAT(seen, ElementsAre("a"));
  EXPECT_TRUE(parser.feed("\ndata: b\n\n"));
  EXPECT_THAT(seen, ElementsAre("a", "b"));
}

TEST(Sse, RememberWhereAndWhen) {
  SseParser parser([](SseEvent) {});
  EXPECT_EQ(parser.retry(), std::nullopt);
  ASSERT_TRUE(parser.feed("retry: 1500\nid: x\n"));
  EXPECT_EQ(parser.retry(), 1500ms);
  EXPECT_EQ(parser.lastId(), "");
  ASSERT_TRUE(parser.feed("\n"));
  EXPECT_EQ(parser.lastId(), "x");
  for (const char* wrong : {"retry: -1\n", "retry: 1.5\n", "retry: 1s\n", "retry\n", "retry: +2\n",
                            "retry: 99999999999999999999\n"})
    ASSERT_TRUE(parser.feed(wrong));
  EXPECT_EQ(parser.retry(), 1500ms);
  ASSERT_TRUE(parser.feed("retry: 999999999999\n"));
  EXPECT_EQ(parser.retry(), 24h);
}

TEST(Sse, HasLimits) {
  struct {
    const char* what;
    std::string text;
  } cases[] = {
      {"a line of data", "data: " + std::string(200, 'x')},
      {"a comment without an end", ":" + std::string(200, 'x')},
      {"an event", std::string("data: 1234567890123456789012345678901234567890\n") +
                       "data: 1234567890123456789012345678901234567890\n" +
                       "data: 1234567890123456789012345678901234567890\n"},
      {"many empty lines",
       [] {
         std::string text;
         for (int i = 0; i < 200; ++i) text += "data\n";
         return text;
       }()},
  };
  for (const auto& [what, text] : cases) {
    SCOPED_TRACE(what);
    std::vector<SseEvent> events;
    SseParser parser([&](SseEvent event) { events.push_back(std::move(event)); },
                     {.line_bytes = 60, .event_bytes = 100});
    ASSERT_TRUE(parser.feed("data: fine\n\n"));
    auto failed = parser.feed(text);
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().code, Code::ResourceExhausted);
    EXPECT_THAT(events, ElementsAre(SseEvent{.data = "fine"}));
    EXPECT_FALSE(parser.feed("\n\ndata: later\n\n"));
    EXPECT_EQ(events.size(), 1u);
  }
}

TEST(Sse, MayBeDestroyedByItsCallback) {
  std::unique_ptr<SseParser> parser;
  int seen = 0;
  parser = std::make_unique<SseParser>([&](SseEvent) {
    ++seen;
    parser.reset();
  });
  EXPECT_TRUE(parser->feed("data: a\n\ndata: b\n\n"));
  EXPECT_EQ(seen, 1);
}

TEST(Sse, WritesWhatItReads) {
  EXPECT_EQ(writeSse({.data = "a\nb"}), "data: a\ndata: b\n\n");
  EXPECT_EQ(writeSse({.type = "add", .data = "", .id = "7"}), "event: add\nid: 7\ndata: \n\n");
  EXPECT_EQ(writeSse({.type = "a\ndata: x", .data = "b", .id = "1\r2"}),
            "event: a\nid: 1\ndata: b\n\n");
  EXPECT_EQ(writeSseComment("still\nhere"), ": still\n\n");
  EXPECT_EQ(writeSseRetry(2s), "retry: 2000\n\n");
  EXPECT_EQ(parseIn(writeSse({.data = "a\r\nb\rc\n"}), 1000),
            (std::vector<SseEvent>{{.data = "a\nb\nc\n"}}));

  Random random(7);
  for (int round = 0; round < 300; ++round) {
    SseEvent event;
    for (std::uint64_t i = random.below(20); i > 0; --i) event.data += "ab: \n\n"[random.below(6)];
    if (random.below(2)) event.type = "kind";
    if (random.below(2)) event.id = "12";
    EXPECT_EQ(parseIn(writeSseComment("x") + writeSse(event), 1 + random.below(9)),
              std::vector<SseEvent>{event});
  }
}

}  // namespace
}  // namespace cadre::wire
