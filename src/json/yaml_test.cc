#include "json/yaml.h"

#include <string>

#include <gtest/gtest.h>

#include "json/parse.h"
#include "json/random_value.h"
#include "json/write.h"

namespace cadre::json {
namespace {

// The documents of a text as JSON lines, or its failure.
std::string read(std::string_view text, const Limits& limits = {}) {
  auto documents = parseYaml(text, "f.yaml", limits);
  if (!documents.ok()) return documents.error().text();
  std::string out;
  for (const Document& document : *documents) {
    if (!out.empty()) out += '\n';
    append(out, document.value);
  }
  return out;
}

Code codeOf(std::string_view text, const Limits& limits = {}) {
  auto documents = parseYaml(text, "f.yaml", limits);
  return documents.ok() ? Code::Internal : documents.error().code;
}

TEST(Yaml, ReadsDocuments) {
  struct Case {
    std::string_view text, json;
  };
  const Case cases[] = {
      {"", ""},
      {"# only a comment\n", ""},
      {"a", "\"a\""},
      {"-", "[null]"},
      {"7\n", "7"},
      {"---\n---\n# nothing\n---\na: 1\n...\n---\nb: 2\n", "{\"a\":1}\n{\"b\":2}"},
      {"a: 1\n...\nb: 2\n...\n---\nc: 3\n", "{\"a\":1}\n{\"b\":2}\n{\"c\":3}"},
      {"a: 1\n---\n~\n---\n- x", "{\"a\":1}\n[\"x\"]"},
      {"a:\n- 1\n- b: c\n  d: []\n-\n  - e\n", R"({"a":[1,{"b":"c","d":[]},["e"]]})"},
      {"a: {b: [1, two, \"3\"], c}\n", R"({"a":{"b":[1,"two","3"],"c":null}})"},
      {"a: |\n  x\n   y\n\nb: |-\n  z\nc: |+\n  w\n\nd: >\n  f\n  g\n",
       R"({"a":"x\n y\n","b":"z","c":"w\n\n","d":"f g\n"})"},
      {"a: |2\n   x\nb: |\n  1\n", R"({"a":" x\n","b":"1\n"})"},
      {"a: \"x\\n\\u00e9\\x41\"\nb: 'it''s'\n", R"({"a":"x\néA","b":"it's"})"},
      {R"(a: "\N\_\L\P\e\0\x80\u00ff")",
       "{\"a\":\"\u0085\u00a0\u2028\u2029\\u001b\\u0000\u0080\u00ff\"}"},
      {"? a\n: b\n", R"({"a":"b"})"},
      {"? a\n? b\n: c\n", R"({"a":null,"b":"c"})"},
      {"a:\nb: ~\nc:   # nothing\nd: null\n", R"({"a":null,"b":null,"c":null,"d":null})"},
      {"a: &x\nb: !!str\nc: {d, e: , f: ~}\n",
       R"({"a":null,"b":"","c":{"d":null,"e":null,"f":null}})"},
      {"- [~, null, a,]\n-\n- x:\n", R"([[null,null,"a"],null,{"x":null}])"},
      {"1: a\n1.5: b\ntrue: c\non: d\n", "f.yaml:4:1: duplicate key \"true\", already on line 3"},
      {"1: a\n1.5: b\ntrue: c\nno: d\n", R"({"1":"a","1.5":"b","false":"d","true":"c"})"},
      {"a: &x {p: [1]}\nb: *x\n", R"({"a":{"p":[1]},"b":{"p":[1]}})"},
      {"a: &x 1\nb: &x 2\nc: *x\n", R"({"a":1,"b":2,"c":2})"},
      {"&k a: *k\n", R"({"a":"a"})"},
      {"a: &k key\n*k : v\n", R"({"a":"key","key":"v"})"},
      {"a: &x {p: 1, q: 2}\nb:\n  <<: *x\n  p: 3\n", R"({"a":{"p":1,"q":2},"b":{"p":3,"q":2}})"},
      {"a: &x {p: 1, q: 2}\nb:\n  p: 3\n  <<: *x\n", R"({"a":{"p":1,"q":2},"b":{"p":3,"q":2}})"},
      {"a: &x {p: 1}\nb: &y {p: 2, r: 5}\nc:\n  <<: [*y, *x]\n",
       R"({"a":{"p":1},"b":{"p":2,"r":5},"c":{"p":2,"r":5}})"},
      {"c:\n  \"<<\": {p: 1}\n", R"({"c":{"<<":{"p":1}}})"},
      {"\xEF\xBB\xBF"
       "a: 1\n",
       R"({"a":1})"},
      {"\xEF\xBB\xBF{\"a\": 1}", R"({"a":1})"},
      {"a: 1\r\nb: 2\r\n", R"({"a":1,"b":2})"},
      // JSON, and what only starts like it
      {"{\"a\":\"\\ud83d\\ude00\",\"b\":[1e2]}", R"({"a":"😀","b":[100]})"},
      {"{a: 1}", R"({"a":1})"},
      {"{\"a\": 1}\n---\n{\"b\": 2}\n", "{\"a\":1}\n{\"b\":2}"},
      {"[1, 2,]", "[1,2]"},
  };
  for (const Case& c : cases) EXPECT_EQ(read(c.text), c.json) << c.text;
}

TEST(Yaml, SaysWhereAndWhy) {
  struct Case {
    std::string_view text, message;
  };
  const Case cases[] = {
      {"a: 1\nb:\n  c: 1\n  d: 2\n  c: 3\n", "f.yaml:5:3: duplicate key \"c\", already on line 3"},
      {"{\"a\": 1,\n \"a\": 2}", "f.yaml:2:2: duplicate key \"a\", already on line 1"},
      {"a: &x {p: 1}\nb:\n  <<: *x\n  <<: *x\n",
       "f.yaml:4:3: duplicate key \"<<\", already on line 3"},
      {"a:\n  [b]: c\n", "f.yaml:2:3: a key must be a scalar"},
      {"a:\n  ~: c\n", "f.yaml:2:3: a key cannot be null"},
      {"a: 1\nb: .inf\n",
       "f.yaml:2:4: cannot read \".inf\" as a number: JSON has no infinity and no NaN"},
      {"a: !foo x\n", "f.yaml:1:4: unknown tag !foo"},
      {"a: !!int x\n", "f.yaml:1:4: cannot read \"x\" as !!int"},
      {"a: !!seq {b: c}\n", "f.yaml:1:4: tag !!seq does not fit here"},
      {"a: &x [*x]\n", "f.yaml:1:8: an anchor cannot contain itself"},
      {"c:\n  <<: 3\n", "f.yaml:2:7: a merge key (<<) takes a mapping or a list of mappings"},
      {"a: 1\nreplicas 3\n", "f.yaml:2:1: \"replicas 3\" has no colon after it"},
      {"a: [é, 1,, 2]\n", "f.yaml:1:11: there is nothing before this comma"},
      {"a: [,]\n", "f.yaml:1:5: there is nothing before this comma"},
      {"a: 1\rb: 2\r", "f.yaml:1:5: a carriage return stands without a line feed"},
      {"a: \uffff\n", "f.yaml:1:4: control characters are not allowed"},
      {"{a: 1\n", "f.yaml:2:1: end of map flow not found"},
      {",", "f.yaml:1:1: unexpected text after the end of the document"},
      {"\"a\" \"b\"", "f.yaml:1:5: unexpected text after the end of the document"},
      {"- b\nc: d\n", "f.yaml:2:1: unexpected text after the end of the document"},
      {"{a: 1}\n{b: 2}\n", "f.yaml:2:1: unexpected text after the end of the document"},
      {"a: \x04\n", "f.yaml:1:4: control characters are not allowed"},
      {"a: 1\nb: \xff\n", "f.yaml:2:4: the text is not UTF-8"},
  };
  for (const Case& c : cases) EXPECT_EQ(read(c.text), c.message) << c.text;
  // yaml-cpp's own words, our position
  for (std::string_view text : {"a: b: c\n", "a: *nope\n", "a: [1\n", "a: \"x\n", "a: 'x\n\n",
                                "a: \"x\n  ", "\"", "a: '", "a: @x\n", "a: - b\n", "a: 1\n b: 2\n",
                                "\t- a\n", "a:\n\tb: 1\n", "a:\n  b: 1\n\tc: 2\n", "{a: 1]"}) {
    EXPECT_EQ(codeOf(text), Code::InvalidArgument) << text;
    EXPECT_TRUE(read(text).starts_with("f.yaml:")) << read(text);
  }
}

TEST(Yaml, KeepsToItsLimits) {
  std::string laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  std::string long_laughs = "a0: &a0 " + std::string(1000, 'x') + "\n";
  for (int i = 1; i < 10; ++i) {
    for (std::string* text : {&laughs, &long_laughs}) {
      std::string n = std::to_string(i), alias = "*a" + std::to_string(i - 1);
      *text += "a" + n + ": &a" + n + " [" + alias;
      for (int k = 1; k < 10; ++k) *text += ", " + alias;
      *text += "]\n";
    }
  }
  EXPECT_EQ(codeOf(laughs), Code::ResourceExhausted);
  EXPECT_EQ(codeOf(long_laughs, {.bytes = 1 << 16}), Code::ResourceExhausted);
  EXPECT_EQ(codeOf(std::string(200, '[') + std::string(200, ']')), Code::ResourceExhausted);
  EXPECT_EQ(codeOf(std::string(20000, '[')), Code::ResourceExhausted);
  EXPECT_EQ(codeOf("a: [,,,,,,,,", {.values = 8}), Code::ResourceExhausted);
  std::string steps;
  for (int i = 0; i < 200; ++i) steps += std::string(i, ' ') + "a:\n";
  EXPECT_EQ(codeOf(steps), Code::ResourceExhausted);
  std::string chain = "a0: &a0 [1]\n";  // each a little deeper than the one before
  for (int i = 1; i < 200; ++i) {
    std::string n = std::to_string(i);
    chain += "a" + n + ": &a" + n + " [*a" + std::to_string(i - 1) + "]\n";
  }
  EXPECT_EQ(codeOf(chain), Code::ResourceExhausted);
  EXPECT_EQ(codeOf("[1, 2, 3]\n", {.bytes = 9}), Code::ResourceExhausted);
  EXPECT_EQ(codeOf("a: [1, 2, 3]\n", {.values = 5}), Code::ResourceExhausted);
  EXPECT_EQ(read("a: [1, 2, 3]\n", {.values = 6}), "{\"a\":[1,2,3]}");
}

TEST(Yaml, KnowsTheLines) {
  const std::string_view yaml =
      "# agents\n"
      "---\n"
      "kind: Agent\n"
      "spec:\n"
      "  replicas: 3\n"
      "  list:\n"
      "  - name: a\n"
      "    value: &v\n"
      "      deep: 1\n"
      "  - name: b\n"
      "    value: *v\n"
      "  \"a/b~c\": x\n"
      "---\n"
      "kind: Other\n";
  auto documents = parseYaml(yaml, "f.yaml");
  ASSERT_TRUE(documents.ok());
  ASSERT_EQ(documents->size(), 2u);
  const Document& first = documents->front();
  EXPECT_EQ(first.line, 3);
  EXPECT_EQ(documents->back().lineOf("/kind"), 14);
  struct Case {
    std::string_view pointer;
    int line;
  };
  const Case cases[] = {{"/kind", 3},
                        {"/spec", 4},
                        {"/spec/replicas", 5},
                        {"/spec/list", 6},
                        {"/spec/list/0", 7},
                        {"/spec/list/0/name", 7},
                        {"/spec/list/0/value/deep", 9},
                        {"/spec/list/1", 10},
                        {"/spec/list/1/value/deep", 11},  // from the alias
                        {"/spec/a~1b~0c", 12},
                        {"/spec/missing/deeper", 4},
                        {"/missing", 3},
                        {"", 3}};
  for (const Case& c : cases) EXPECT_EQ(first.lineOf(c.pointer), c.line) << c.pointer;
}

TEST(Yaml, KnowsTheLinesOfJson) {
  auto documents = parseYaml(
      "\n{ \"a\" : [ 1,\n  {\"b\": \"}]\\\"\",\n   \"c\\u002f\": null} ],\n \"d\": {}, \"e\": "
      "-1.5\n}",
      "f.json");
  ASSERT_TRUE(documents.ok()) << documents.error().text();
  const Document& document = documents->front();
  EXPECT_EQ(document.line, 2);
  struct Case {
    std::string_view pointer;
    int line;
  };
  const Case cases[] = {{"/a", 2},       {"/a/0", 2}, {"/a/1", 3}, {"/a/1/b", 3},
                        {"/a/1/c~1", 4}, {"/d", 5},   {"/e", 5},   {"", 2}};
  for (const Case& c : cases) EXPECT_EQ(document.lineOf(c.pointer), c.line) << c.pointer;
}

TEST(WriteYaml, LooksLikeKubectl) {
  const Value value = *parse(R"({
    "apiVersion": "v1", "kind": "ConfigMap",
    "metadata": {"name": "x", "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {}},
    "data": {"one": "a\nb\n", "two": "a\nb", "three": "a\n\n\n", "four": " a\nb", "five": "a \nb",
             "number": "1", "bool": "yes", "empty": "", "colon": "a: b", "hash": "a #b", "star": "*",
             "time": "1:30", "address": "10.0.0.1:80", "quote": "it's", "tab": "a\tb", "null": null,
             "control": "\u0007\u0085\ufeff", "dash": "-", "flag": "--port=1"},
    "list": [1, 2.5, [], {}, [["x"], "y"], {"a": [true], "b": {"c": "d"}}]
  })");
  EXPECT_EQ(writeYaml(value), R"(apiVersion: v1
data:
  address: 10.0.0.1:80
  bool: "yes"
  colon: 'a: b'
  control: "\x07\x85\ufeff"
  dash: '-'
  empty: ""
  five: "a \nb"
  flag: --port=1
  four: |2-
     a
    b
  hash: 'a #b'
  "null": null
  number: "1"
  one: |
    a
    b
  quote: it's
  star: '*'
  tab: "a\tb"
  three: |+
    a


  time: "1:30"
  two: |-
    a
    b
kind: ConfigMap
list:
- 1
- 2.5
- []
- {}
- - - x
  - "y"
- a:
  - true
  b:
    c: d
metadata:
  creationTimestamp: "2026-01-01T00:00:00Z"
  labels: {}
  name: x
)");
}

TEST(WriteYaml, WritesScalarsAlone) {
  EXPECT_EQ(writeYaml("x"), "x\n");
  EXPECT_EQ(writeYaml(nullptr), "null\n");
  EXPECT_EQ(writeYaml(Object{}), "{}\n");
  EXPECT_EQ(writeYaml("a\nb\n"), "|\n  a\n  b\n");
}

TEST(WriteYaml, ReadsBackAsTheSameValue) {
  RandomValues random(2);
  for (int i = 0; i < 20000; ++i) {
    Value value = random.next();
    std::string text = writeYaml(value);
    auto documents = parseYaml(text, "f.yaml");
    ASSERT_TRUE(documents.ok()) << documents.error().text() << "\n" << text;
    if (value.isNull()) continue;
    ASSERT_EQ(documents->size(), 1u) << text;
    ASSERT_EQ(documents->front().value, value) << text << "\n"
                                               << write(value) << "\n"
                                               << write(documents->front().value);
  }
}

TEST(WriteYaml, TakesLongKeys) {
  Value value;
  value.make(std::string(5000, 'k')) =
      Array{1, Object{{std::string(200, 'x'), Object{{"a", "b"}}}}};
  value.make(std::string(120, '\x01')) = "escaped";
  auto documents = parseYaml(writeYaml(value), "f.yaml");
  ASSERT_TRUE(documents.ok()) << documents.error().text();
  EXPECT_EQ(documents->front().value, value);
}

}  // namespace
}  // namespace cadre::json
