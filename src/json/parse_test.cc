#include "json/parse.h"

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "json/write.h"

namespace cadre::json {
namespace {

std::string repeat(std::string_view text, std::size_t times) {
  std::string out;
  for (std::size_t i = 0; i < times; ++i) out += text;
  return out;
}

TEST(Parse, ReadsValues) {
  struct Case {
    std::string_view text;
    Value value;
    std::string_view type;
  };
  const Case cases[] = {
      {"null", nullptr, "null"},
      {" true ", true, "boolean"},
      {"0", 0, "integer"},
      {"-0", 0, "integer"},
      {"9223372036854775807", INT64_MAX, "integer"},
      {"-9223372036854775808", INT64_MIN, "integer"},
      {"9223372036854775808", 0x1p63, "number"},
      {"18446744073709551615", 18446744073709551615.0, "number"},
      {"-9223372036854775809", -0x1p63, "number"},
      {"123456789012345678901234567890", 123456789012345678901234567890.0, "number"},
      {"1.0", 1.0, "number"},
      {"1e3", 1000, "number"},
      {"0.1", 0.1, "number"},
      {"2.2250738585072014e-308", 2.2250738585072014e-308, "number"},
      {"1.7976931348623157e308", 1.7976931348623157e308, "number"},
      {"5e-324", 5e-324, "number"},
      {"1e-400", 0, "number"},
      {"9007199254740993.0", 9007199254740992.0, "number"},
      {R"("a\nb\u00e9\ud83d\ude00")", "a\nbé😀", "string"},
      {"\"\"", "", "string"},
      {R"("a\u0000b")", std::string_view("a\0b", 3), "string"},
      {"[]", Array{}, "array"},
      {"[1,[2,[]],{}]", Array{1, Array{2, Array{}}, Object{}}, "array"},
      {R"({"b":1,"a":{"c":[true,null]}})",
       Object{{"a", Object{{"c", Array{true, nullptr}}}}, {"b", 1}}, "object"},
      {R"({"a":1,"b":2,"a":3})", Object{{"a", 3}, {"b", 2}}, "object"},
      {R"({"":1})", Object{{"", 1}}, "object"},
  };
  for (const Case& c : cases) {
    auto value = parse(c.text);
    ASSERT_TRUE(value.ok()) << c.text << ": " << value.error().text();
    EXPECT_EQ(*value, c.value) << c.text;
    EXPECT_EQ(value->typeName(), c.type) << c.text;
  }
}

TEST(Parse, SaysWhereAndWhy) {
  struct Case {
    std::string_view text;
    Code code;
    std::string_view message;
  };
  const Case cases[] = {
      {"", Code::DataLoss, "line 1, column 1: the text ends in the middle of a document"},
      {"{\"a\":1", Code::DataLoss, "line 1, column 7: the text ends in the middle of a document"},
      {"\"abc", Code::DataLoss, "line 1, column 5: the text ends in the middle of a document"},
      {"{\n  \"a\": 1,\n  \"b\": x\n}", Code::InvalidArgument, "line 3, column 8: unexpected 'x'"},
      {"[1,]", Code::InvalidArgument, "line 1, column 4: unexpected ']'"},
      {"{} x", Code::InvalidArgument,
       "line 1, column 4: unexpected 'x' after the end of the document"},
      {"[01]", Code::InvalidArgument, "line 1, column 3: unexpected '1'"},
      {"NaN", Code::InvalidArgument, "line 1, column 1: unexpected 'N'"},
      {"[1e400]", Code::InvalidArgument, "line 1, column 7: the number is too large"},
      {"[\"\xff\"]", Code::InvalidArgument, "line 1, column 3: unexpected byte 0xff"},
      {"[\"\xed\xa0\x80\"]", Code::InvalidArgument, ""},
      {R"(["\ud800"])", Code::InvalidArgument, ""},
      {"[\"a\nb\"]", Code::InvalidArgument, ""},
      {"[1e99999999999999]", Code::InvalidArgument, ""},
      {"// no\n1", Code::InvalidArgument, "line 1, column 1: unexpected '/'"},
      {std::string_view("\0", 1), Code::InvalidArgument, "line 1, column 1: unexpected byte 0x00"},
  };
  for (const Case& c : cases) {
    auto value = parse(c.text);
    ASSERT_FALSE(value.ok()) << c.text;
    EXPECT_EQ(value.error().code, c.code) << c.text << ": " << value.error().text();
    if (!c.message.empty()) {
      EXPECT_EQ(value.error().text(), c.message) << c.text;
    }
  }
}

TEST(Parse, CutsWhatIsTooDeepWhereItShall) {
  auto cut = [](const std::string& text) {
    auto value = parse(text, {.limits = {.depth = 3}, .cut_deep = true});
    return value ? write(*value) : value.error().text();
  };
  EXPECT_EQ(cut(R"([[[1]]])"), R"([[[1]]])");
  EXPECT_EQ(cut(R"([[[[1,{"a":[2]}],3]],4])"), R"([[[null,3]],4])");
  EXPECT_EQ(cut(R"({"a":{"b":{"c":{"d":1},"e":[],"f":2}},"g":3})"),
            R"({"a":{"b":{"c":null,"e":null,"f":2}},"g":3})");
  std::string deep = repeat("{\"a\":", 10'000) + "1" + repeat("}", 10'000);
  EXPECT_EQ(cut(deep), R"({"a":{"a":{"a":null}}})");
  EXPECT_FALSE(parse(repeat("[", 1'000'000), {.cut_deep = true}));
  // In pieces, and the next one is read as if nothing had been.
  std::vector<std::string> documents;
  StreamParser stream([&](Value document) { documents.push_back(write(document)); },
                      {.limits = {.depth = 2}, .cut_deep = true});
  for (char c : std::string(R"([[[1]],2] [3])")) ASSERT_TRUE(stream.feed({&c, 1}));
  EXPECT_THAT(documents, testing::ElementsAre("[[null],2]", "[3]"));
}

TEST(Parse, KeepsToItsLimits) {
  auto code = [](std::string_view text, const Limits& limits) {
    auto value = parse(text, limits);
    return value.ok() ? "ok" : codeName(value.error().code);
  };
  EXPECT_EQ(code("[[[]]]", {.depth = 3}), "ok");
  EXPECT_EQ(code("[[[]]]", {.depth = 2}), "ResourceExhausted");
  EXPECT_EQ(code("[1,2,3]", {.bytes = 7}), "ok");
  EXPECT_EQ(code("[1,2,3]", {.bytes = 6}), "ResourceExhausted");
  EXPECT_EQ(code("[1,2,3]", {.values = 4}), "ok");
  EXPECT_EQ(code("[1,2,3]", {.values = 3}), "ResourceExhausted");
  EXPECT_EQ(code(repeat("[", 1000000), {}), "ResourceExhausted");
  EXPECT_EQ(code(repeat("{\"a\":", 1000000), {}), "ResourceExhausted");
}

TEST(Parse, RefusesDuplicateKeysWhenAsked) {
  auto value = parse(R"({"a":1,"b":{"x":1,"x":1}})", {.duplicate_keys = DuplicateKeys::Refuse});
  ASSERT_FALSE(value.ok());
  EXPECT_EQ(value.error().text(), "line 1, column 24: duplicate key \"x\"");
}

TEST(Parse, TakesManyKeysInAnyOrder) {
  std::string text = "{";
  for (int i = 0; i < 100000; ++i)
    text += "\"k" + std::to_string(i * 7919 % 100003) + "\":" + std::to_string(i) + ",";
  text += "\"k0\":-1}";
  auto value = parse(text);
  ASSERT_TRUE(value.ok());
  EXPECT_EQ(value->object().size(), 100000u);
  EXPECT_EQ((*value)["k0"].integer(), -1);
  EXPECT_EQ((*value)["k7919"].integer(), 1);
}

TEST(Parse, DropsManagedFieldsOfObjectsOnly) {
  struct Case {
    std::string_view text, expected;
  };
  const Case cases[] = {
      {R"({"metadata":{"managedFields":[{"a":{"b":[1,"x"]}}],"name":"x"}})",
       R"({"metadata":{"name":"x"}})"},
      {R"({"metadata":{"managedFields":null,"name":"x"}})", R"({"metadata":{"name":"x"}})"},
      {R"({"metadata":{"managedFields":1.5}})", R"({"metadata":{}})"},
      {R"({"object":{"metadata":{"managedFields":[]}},"type":"ADDED"})",
       R"({"object":{"metadata":{}},"type":"ADDED"})"},
      {R"({"items":[{"metadata":{"managedFields":[[]],"a":"b"},"z":1}]})",
       R"({"items":[{"metadata":{"a":"b"},"z":1}]})"},
      // elsewhere it is data like any other
      {R"({"managedFields":1})", R"({"managedFields":1})"},
      {R"({"spec":{"metadata":{"managedFields":1}}})",
       R"({"spec":{"metadata":{"managedFields":1}}})"},
      {R"({"spec":{"managedFields":1}})", R"({"spec":{"managedFields":1}})"},
      {R"({"other":[{"metadata":{"managedFields":1}}]})",
       R"({"other":[{"metadata":{"managedFields":1}}]})"},
      {R"([{"metadata":{"managedFields":1}}])", R"([{"metadata":{"managedFields":1}}])"},
      {R"({"metadata":[{"managedFields":1}]})", R"({"metadata":[{"managedFields":1}]})"},
  };
  for (const Case& c : cases) {
    auto value = parse(c.text, {.drop_managed_fields = true});
    ASSERT_TRUE(value.ok()) << c.text;
    EXPECT_EQ(write(*value), c.expected);
  }
}

struct Stream {
  explicit Stream(const ParseOptions& options = {})
      : parser([this](Value document) { documents.push_back(write(document)); }, options) {}

  std::vector<std::string> documents;
  StreamParser parser;
};

TEST(StreamParser, TakesTextInAnyPieces) {
  const std::string text =
      "{\"type\":\"ADDED\",\"n\":[1,-2.5e3,12345678901234567890,true,null]}\n"
      "{\"s\":\"h\\u00e9\\n\xC3\xA9\\ud83d\\ude00\"}{}\n\n [1] \"x\" 17\n12.25";
  const std::vector<std::string> expected = {
      "{\"n\":[1,-2500,12345678901234567168,true,null],\"type\":\"ADDED\"}",
      "{\"s\":\"hé\\né😀\"}",
      "{}",
      "[1]",
      "\"x\"",
      "17",
      "12.25"};
  for (std::size_t size = 1; size <= text.size(); ++size) {
    Stream stream;
    for (std::size_t at = 0; at < text.size(); at += size)
      ASSERT_TRUE(stream.parser.feed(std::string(text.substr(at, size))).ok());
    ASSERT_TRUE(stream.parser.finish().ok());
    EXPECT_EQ(stream.documents, expected) << "pieces of " << size;
  }
}

TEST(StreamParser, HandsADocumentOnWithItsLastByte) {
  Stream stream;
  ASSERT_TRUE(stream.parser.feed("{\"a\":1").ok());
  EXPECT_TRUE(stream.documents.empty());
  ASSERT_TRUE(stream.parser.feed("}").ok());
  EXPECT_EQ(stream.documents.size(), 1u);
}

TEST(StreamParser, TellsTheCutFromTheEnd) {
  Stream between;
  ASSERT_TRUE(between.parser.feed("{}\n ").ok());
  EXPECT_TRUE(between.parser.finish().ok());

  Stream within;
  ASSERT_TRUE(within.parser.feed("{}\n{\"a\"").ok());
  auto cut = within.parser.finish();
  ASSERT_FALSE(cut.ok());
  EXPECT_EQ(cut.error().code, Code::DataLoss);
  EXPECT_EQ(cut.error().text(), "line 2, column 5: the text ends in the middle of a document");
}

TEST(StreamParser, FailsForGood) {
  Stream stream;
  auto bad = stream.parser.feed("{}\n{}\n  x{}");
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.error().text(), "line 3, column 3: unexpected 'x'");
  EXPECT_EQ(stream.documents.size(), 2u);
  EXPECT_EQ(stream.parser.feed("{}").error().text(), bad.error().text());
  EXPECT_EQ(stream.parser.finish().error().text(), bad.error().text());
}

TEST(StreamParser, LimitsEachDocument) {
  Stream stream({.limits = {.bytes = 12}});
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(stream.parser.feed("{\"a\":\"bcde\"}\n").ok());
  auto big = stream.parser.feed("{\"a\":\"bcdef");
  ASSERT_TRUE(big.ok());
  big = stream.parser.feed("g\"}");
  ASSERT_FALSE(big.ok());
  EXPECT_EQ(big.error().code, Code::ResourceExhausted);
}

TEST(StreamParser, MayBeDestroyedByItsCallback) {
  std::unique_ptr<StreamParser> parser;
  int seen = 0;
  parser = std::make_unique<StreamParser>([&](Value) {
    ++seen;
    parser.reset();
  });
  EXPECT_TRUE(parser->feed("{}{}{}").ok());
  EXPECT_EQ(seen, 1);
}

struct List {
  explicit List(const ParseOptions& options = {})
      : parser([this](Value item) { items.push_back(write(item)); }, options) {}

  std::vector<std::string> items;
  ListParser parser;
};

TEST(ListParser, HandsOnItemsAndGivesTheEnvelope) {
  struct Case {
    std::string_view text;
    std::vector<std::string> items;
    std::string_view envelope;
  };
  const Case cases[] = {
      {R"({"kind":"PodList","metadata":{"resourceVersion":"7","continue":"x"},)"
       R"("items":[{"a":[1,{"items":[2]}]},{},3,[4]],"z":[{"items":[5]}]})",
       {R"({"a":[1,{"items":[2]}]})", "{}", "3", "[4]"},
       R"({"kind":"PodList","metadata":{"continue":"x","resourceVersion":"7"},"z":[{"items":[5]}]})"},
      {R"({"items":[],"kind":"L"})", {}, R"({"kind":"L"})"},
      {R"({"items":null,"kind":"L"})", {}, R"({"items":null,"kind":"L"})"},
      {R"({"kind":"Status","code":410})", {}, R"({"code":410,"kind":"Status"})"},
      {R"({"spec":{"items":[1]}})", {}, R"({"spec":{"items":[1]}})"},
      {R"([{"items":[1]}])", {}, R"([{"items":[1]}])"},
      {"17", {}, "17"},
  };
  for (const Case& c : cases) {
    for (std::size_t size : {1u, 2u, 3u, 7u, 1000u}) {
      List list;
      for (std::size_t at = 0; at < c.text.size(); at += size)
        ASSERT_TRUE(list.parser.feed(c.text.substr(at, size)).ok()) << c.text;
      auto envelope = list.parser.finish();
      ASSERT_TRUE(envelope.ok()) << envelope.error().text();
      EXPECT_EQ(list.items, c.items);
      EXPECT_EQ(write(*envelope), c.envelope);
    }
  }
}

TEST(ListParser, LimitsEachItemAndTheEnvelope) {
  List list({.limits = {.bytes = 40, .depth = 2, .values = 3}});
  ASSERT_TRUE(list.parser.feed("{\"items\":[").ok());
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(list.parser.feed("{\"a\":[1]},").ok());
  List deep = List({.limits = {.depth = 2}});
  EXPECT_EQ(deep.parser.feed("{\"items\":[{\"a\":[[").error().code, Code::ResourceExhausted);
  EXPECT_EQ(list.parser.feed("[1,2,3]").error().code, Code::ResourceExhausted);
  EXPECT_EQ(list.items.size(), 100u);
}

TEST(ListParser, DropsManagedFieldsOfItems) {
  List list({.drop_managed_fields = true});
  ASSERT_TRUE(
      list.parser.feed(R"({"items":[{"metadata":{"managedFields":[{"f":{}}],"name":"x"}}]})").ok());
  ASSERT_TRUE(list.parser.finish().ok());
  EXPECT_EQ(list.items, std::vector<std::string>{R"({"metadata":{"name":"x"}})"});
}

TEST(ListParser, TellsTheCutAndWhatFollows) {
  List cut;
  ASSERT_TRUE(cut.parser.feed("{\"items\":[{},").ok());
  EXPECT_EQ(cut.parser.finish().error().code, Code::DataLoss);

  List more;
  EXPECT_EQ(more.parser.feed("{} {}").error().code, Code::InvalidArgument);
  List later;
  ASSERT_TRUE(later.parser.feed("{} ").ok());
  EXPECT_EQ(later.parser.feed(" {}").error().code, Code::InvalidArgument);
}

TEST(ListParser, MayBeDestroyedByItsCallback) {
  std::unique_ptr<ListParser> parser;
  int seen = 0;
  parser = std::make_unique<ListParser>([&](Value) {
    ++seen;
    parser.reset();
  });
  EXPECT_TRUE(parser->feed("{\"items\":[1,2,3]}").ok());
  EXPECT_EQ(seen, 1);
}

}  // namespace
}  // namespace cadre::json
