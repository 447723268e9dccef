#include "json/patch.h"

#include <string>

#include <gtest/gtest.h>

#include "json/parse.h"
#include "json/random_value.h"
#include "json/write.h"

namespace cadre::json {
namespace {

// The patched document as text, or the failure.
std::string patched(std::string_view document, std::string_view patch,
                    const PatchLimits& limits = {}) {
  auto result = applyJsonPatch(*parse(document), *parse(patch), limits);
  return result.ok() ? write(*result) : result.error().text();
}

// RFC 6902, appendix A, with the answers in the order of keys.
TEST(JsonPatch, DoesWhatTheRfcShows) {
  struct Case {
    std::string_view document, patch, expected;
  };
  const Case cases[] = {
      {R"({"foo":"bar"})", R"([{"op":"add","path":"/baz","value":"qux"}])",
       R"({"baz":"qux","foo":"bar"})"},
      {R"({"foo":["bar","baz"]})", R"([{"op":"add","path":"/foo/1","value":"qux"}])",
       R"({"foo":["bar","qux","baz"]})"},
      {R"({"baz":"qux","foo":"bar"})", R"([{"op":"remove","path":"/baz"}])", R"({"foo":"bar"})"},
      {R"({"foo":["bar","qux","baz"]})", R"([{"op":"remove","path":"/foo/1"}])",
       R"({"foo":["bar","baz"]})"},
      {R"({"baz":"qux","foo":"bar"})", R"([{"op":"replace","path":"/baz","value":"boo"}])",
       R"({"baz":"boo","foo":"bar"})"},
      {R"({"foo":{"bar":"baz","waldo":"fred"},"qux":{"corge":"grault"}})",
       R"([{"op":"move","from":"/foo/waldo","path":"/qux/thud"}])",
       R"({"foo":{"bar":"baz"},"qux":{"corge":"grault","thud":"fred"}})"},
      {R"({"foo":["all","grass","cows","eat"]})",
       R"([{"op":"move","from":"/foo/1","path":"/foo/3"}])",
       R"({"foo":["all","cows","eat","grass"]})"},
      {R"({"baz":"qux","foo":["a",2,"c"]})",
       R"([{"op":"test","path":"/baz","value":"qux"},{"op":"test","path":"/foo/1","value":2}])",
       R"({"baz":"qux","foo":["a",2,"c"]})"},
      {R"({"baz":"qux"})", R"([{"op":"test","path":"/baz","value":"bar"}])",
       "operation 0 (test /baz): the value is another"},
      {R"({"foo":"bar"})", R"([{"op":"add","path":"/child","value":{"grandchild":{}}}])",
       R"({"child":{"grandchild":{}},"foo":"bar"})"},
      {R"({"foo":"bar"})", R"([{"op":"add","path":"/baz","value":"qux","xyz":123}])",
       R"({"baz":"qux","foo":"bar"})"},
      {R"({"foo":"bar"})", R"([{"op":"add","path":"/baz/bat","value":"qux"}])",
       "operation 0 (add /baz/bat): there is nothing at /baz"},
      {R"({"/":9,"~1":10})", R"([{"op":"test","path":"/~01","value":10}])", R"({"/":9,"~1":10})"},
      {R"({"/":9,"~1":10})", R"([{"op":"test","path":"/~01","value":"10"}])",
       "operation 0 (test /~01): the value is another"},
      {R"({"foo":["bar"]})", R"([{"op":"add","path":"/foo/-","value":["abc","def"]}])",
       R"({"foo":["bar",["abc","def"]]})"},
  };
  for (const Case& c : cases) EXPECT_EQ(patched(c.document, c.patch), c.expected) << c.patch;
}

TEST(JsonPatch, DoesTheRest) {
  struct Case {
    std::string_view document, patch, expected;
  };
  const Case cases[] = {
      {"1", "[]", "1"},
      {"1", R"([{"op":"add","path":"","value":[2]}])", "[2]"},
      {"1", R"([{"op":"replace","path":"","value":null}])", "null"},
      {R"({"a":1})", R"([{"op":"remove","path":""}])", "null"},
      {R"({"a":1})", R"([{"op":"add","path":"/a","value":2}])", R"({"a":2})"},
      {R"({"a":[1]})",
       R"([{"op":"copy","from":"/a","path":"/b"},{"op":"add","path":"/b/0","value":0}])",
       R"({"a":[1],"b":[0,1]})"},
      {R"({"a":{"b":1}})", R"([{"op":"copy","from":"","path":"/a/c"}])",
       R"({"a":{"b":1,"c":{"a":{"b":1}}}})"},
      {R"({"a":{"b":1}})", R"([{"op":"move","from":"/a/b","path":"/a"}])", R"({"a":1})"},
      {R"({"a":{"b":1}})", R"([{"op":"move","from":"/a/b","path":""}])", "1"},
      {R"({"a":1})", R"([{"op":"move","from":"/a","path":"/a"}])", R"({"a":1})"},
      {R"({"a":1})", R"([{"op":"test","path":"/a","value":1.0}])", R"({"a":1})"},
      {R"({"a":null})", R"([{"op":"test","path":"/a","value":null}])", R"({"a":null})"},
  };
  for (const Case& c : cases) EXPECT_EQ(patched(c.document, c.patch), c.expected) << c.patch;
}

TEST(JsonPatch, NamesTheOperationThatFails) {
  struct Case {
    std::string_view patch, message;
  };
  const Case cases[] = {
      {"{}", "a JSON patch is an array of operations"},
      {"[1]", "operation 0: is not an object"},
      {R"([{"op":"add"}])", R"(operation 0 (add): "path" is missing)"},
      {R"([{"path":"/a"}])", R"(operation 0 ( /a): "op" is missing)"},
      {R"([{"op":"add","path":"/x"}])", R"(operation 0 (add /x): "value" is missing)"},
      {R"([{"op":"move","path":"/x"}])", R"(operation 0 (move /x): "from" is missing)"},
      {R"([{"op":"spin","path":"/x"}])", "operation 0 (spin /x): unknown operation"},
      {R"([{"op":"add","path":"x","value":1}])",
       R"(operation 0 (add x): JSON pointer "x" does not start with a slash)"},
      {R"([{"op":"test","path":"/a","value":[1]},{"op":"remove","path":"/b"}])",
       "operation 1 (remove /b): there is nothing at /b"},
      {R"([{"op":"replace","path":"/b","value":1}])",
       "operation 0 (replace /b): there is nothing at /b"},
      {R"([{"op":"add","path":"/a/2","value":1}])",
       R"(operation 0 (add /a/2): "2" is no position in an array of 1)"},
      {R"([{"op":"add","path":"/a/01","value":1}])",
       R"(operation 0 (add /a/01): "01" is no position in an array of 1)"},
      {R"([{"op":"remove","path":"/a/-"}])", "operation 0 (remove /a/-): there is nothing at /a/-"},
      {R"([{"op":"add","path":"/a/0/x","value":1}])",
       "operation 0 (add /a/0/x): cannot add to a value of type integer"},
      {R"([{"op":"move","from":"/a","path":"/a/0"}])",
       "operation 0 (move /a/0): cannot move a value into itself"},
      {R"([{"op":"copy","from":"/z","path":"/y"}])",
       "operation 0 (copy /y): there is nothing at /z"},
  };
  for (const Case& c : cases) EXPECT_EQ(patched(R"({"a":[1]})", c.patch), c.message) << c.patch;
}

TEST(JsonPatch, KeepsToItsLimits) {
  auto code = [](std::string_view document, const Value& patch, const PatchLimits& limits = {}) {
    auto result = applyJsonPatch(*parse(document), patch, limits);
    return result.ok() ? "ok" : codeName(result.error().code);
  };
  const Value add = Object{{"op", "add"}, {"path", "/a/0"}, {"value", 1}};
  const Value twice = Object{{"op", "copy"}, {"from", "/a"}, {"path", "/a/-"}};
  EXPECT_EQ(code(R"({"a":[]})", Array(10001, add)), "ResourceExhausted");
  EXPECT_EQ(code(R"({"a":[]})", Array(1000, add)), "ok");
  EXPECT_EQ(code(R"({"a":[]})", Array(1000, add), {.work = 100000}), "ResourceExhausted");
  EXPECT_EQ(code(R"({"a":[]})", Array(1000, twice)), "ResourceExhausted");  // depth
  EXPECT_EQ(code(R"({"a":[]})", Array(1000, twice), {.depth = 10000}), "ResourceExhausted");
  const Value again = Object{{"op", "copy"}, {"from", "/a/0"}, {"path", "/a/-"}};
  EXPECT_EQ(code("{\"a\":[\"" + std::string(100000, 'x') + "\"]}", Array(1000, again)),
            "ResourceExhausted");
}

// RFC 7386, appendix A.
TEST(MergePatch, DoesWhatTheRfcShows) {
  struct Case {
    std::string_view original, patch, result;
  };
  const Case cases[] = {
      {R"({"a":"b"})", R"({"a":"c"})", R"({"a":"c"})"},
      {R"({"a":"b"})", R"({"b":"c"})", R"({"a":"b","b":"c"})"},
      {R"({"a":"b"})", R"({"a":null})", "{}"},
      {R"({"a":"b","b":"c"})", R"({"a":null})", R"({"b":"c"})"},
      {R"({"a":["b"]})", R"({"a":"c"})", R"({"a":"c"})"},
      {R"({"a":"c"})", R"({"a":["b"]})", R"({"a":["b"]})"},
      {R"({"a":{"b":"c"}})", R"({"a":{"b":"d","c":null}})", R"({"a":{"b":"d"}})"},
      {R"({"a":[{"b":"c"}]})", R"({"a":[1]})", R"({"a":[1]})"},
      {R"(["a","b"])", R"(["c","d"])", R"(["c","d"])"},
      {R"({"a":"b"})", R"(["c"])", R"(["c"])"},
      {R"({"a":"foo"})", "null", "null"},
      {R"({"a":"foo"})", R"("bar")", R"("bar")"},
      {R"({"e":null})", R"({"a":1})", R"({"a":1,"e":null})"},
      {"[1,2]", R"({"a":"b","c":null})", R"({"a":"b"})"},
      {"{}", R"({"a":{"bb":{"ccc":null}}})", R"({"a":{"bb":{}}})"},
  };
  for (const Case& c : cases)
    EXPECT_EQ(write(applyMergePatch(*parse(c.original), *parse(c.patch))), c.result) << c.patch;
}

TEST(MergePatch, MakesTheSmallestPatch) {
  struct Case {
    std::string_view from, to, patch;
  };
  const Case cases[] = {
      {R"({"a":1})", R"({"a":1})", "{}"},
      {R"({"a":1,"b":2,"c":3})", R"({"b":4,"c":3,"d":5})", R"({"a":null,"b":4,"d":5})"},
      {R"({"a":{"b":{"c":1},"d":2}})", R"({"a":{"b":{},"d":2}})", R"({"a":{"b":{"c":null}}})"},
      {R"({"a":[1,2]})", R"({"a":[1,3]})", R"({"a":[1,3]})"},
      {R"({"a":1})", "[1]", "[1]"},
      {"1", "1", "1"},
      {R"({"a":1})", R"({"a":1.0})", "{}"},
  };
  for (const Case& c : cases)
    EXPECT_EQ(write(makeMergePatch(*parse(c.from), *parse(c.to))), c.patch) << c.from;
}

// A merge patch cannot say null: leave such members out.
Value withoutNullMembers(Value value) {
  if (!value.isObject()) return value;
  Object kept;
  for (auto& [key, member] : value.makeObject())
    if (!member.isNull()) kept.set(key, withoutNullMembers(std::move(member)));
  return kept;
}

TEST(MergePatch, TurnsOneIntoTheOther) {
  RandomValues random(3);
  for (int i = 0; i < 3000; ++i) {
    Value from = withoutNullMembers(random.next());
    Value to = i % 2 ? withoutNullMembers(random.next())
                     : applyMergePatch(from, withoutNullMembers(random.next()));
    EXPECT_EQ(applyMergePatch(from, makeMergePatch(from, to)), to);
  }
}

TEST(MergePatch, IsLinearInTheMembers) {
  std::vector<Object::Member> even, odd;
  for (int i = 0; i < 100000; ++i) (i % 2 ? odd : even).emplace_back(std::to_string(i), i);
  Value from = Object(std::move(even)), to = Object(std::move(odd));
  Value both = applyMergePatch(from, to);
  EXPECT_EQ(both.object().size(), 100000u);
  EXPECT_EQ(applyMergePatch(both, makeMergePatch(both, from)), from);
}

}  // namespace
}  // namespace cadre::json
