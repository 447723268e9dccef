#include "kube/selector.h"

#include "json/parse.h"

namespace cadre::kube {
namespace {

using testing::HasSubstr;

json::Value read(std::string_view text) {
  auto value = json::parse(text);
  EXPECT_TRUE(value.ok()) << text;
  return value ? *value : json::Value();
}

struct Forms {
  const char *text, *canonical;
};

// The canonical forms are those of labels.Parse in k8s.io/apimachinery 0.34, but for "==" and the
// order of requirements on one key.
TEST(LabelSelector, TextForms) {
  for (const Forms& c : {
           Forms{"", ""},
           {"a=b", "a=b"},
           {"a==b", "a=b"},
           {"a!=b", "a!=b"},
           {"a = b", "a=b"},
           {"a\t=\tb", "a=b"},
           {"a!= b", "a!=b"},
           {"a in (x,y)", "a in (x,y)"},
           {"a in (y,x)", "a in (x,y)"},
           {"a in ( x , y )", "a in (x,y)"},
           {"a in(x)", "a in (x)"},
           {"a in (x,x)", "a in (x)"},
           {"a in ()", "a in ()"},
           {"a in (,)", "a in ()"},
           {"a in (x,)", "a in (,x)"},
           {"x in (,a)", "x in (,a)"},
           {"x in (a,,b)", "x in (,a,b)"},
           {"a notin (x,y)", "a notin (x,y)"},
           {"a notin ()", "a notin ()"},
           {"a notin(x),b", "a notin (x),b"},
           {"a", "a"},
           {" a ", "a"},
           {"!a", "!a"},
           {"! a", "!a"},
           {"!a,b", "!a,b"},
           {"a,!b,c=d,e in (x),f notin (y),g!=h,i>1,j<2",
            "a,!b,c=d,e in (x),f notin (y),g!=h,i>1,j<2"},
           {"a>1", "a>1"},
           {"a > 01", "a>01"},
           {"a>1,a<3", "a>1,a<3"},
           {"a>9223372036854775807", "a>9223372036854775807"},
           {"a=", "a="},
           {"a==", "a="},
           {"a!=", "a!="},
           {"b=c,a=d", "a=d,b=c"},
           {"a,a", "a,a"},
           {"a=b,a=c", "a=b,a=c"},
           {"a=c,a=b", "a=b,a=c"},
           {"x=a,x in (b)", "x=a,x in (b)"},
           {"example.com/x=y", "example.com/x=y"},
           {"A.b_c-d=E.f_g-h", "A.b_c-d=E.f_g-h"},
           {"in in (in,notin)", "in in (in,notin)"},
           {"in", "in"},
           {"notin", "notin"},
           {"in=notin", "in=notin"},
           {"notin notin (in)", "notin notin (in)"},
       }) {
    auto selector = LabelSelector::parse(c.text);
    ASSERT_TRUE(selector.ok()) << selector.error().text();
    EXPECT_EQ(selector->text(), c.canonical) << c.text;
    EXPECT_EQ(*LabelSelector::parse(selector->text()), *selector) << c.text;
  }
}

// What labels.Parse refuses.
TEST(LabelSelector, RefusedTexts) {
  const std::string long_value = "a=" + std::string(64, 'a');
  struct Case {
    const char *text, *says;
  };
  for (const Case& c : {
           Case{"a b", "\"a b\", position 3: found \"b\" where =, ==, !=, in, notin, > or < is"},
           {",", "position 1: found \",\" where a label key or ! is expected"},
           {"a,", "position 3: found the end where a label key"},
           {",a", "position 1"},
           {"a=b,", "position 5"},
           {"a=b,,c=d", "position 5: found \",\""},
           {"a=b c", "position 5: found \"c\" where a comma or the end is expected"},
           {"a=b=c", "position 4: found \"=\""},
           {"a===b", "found \"=\" where a label value"},
           {"a=!b", "found \"!\" where a label value"},
           {"a in x", "found \"x\" where ( is expected"},
           {"a in", "found the end where ("},
           {"a in (x", "found the end where a comma or )"},
           {"a in x)", "found \"x\""},
           {"a in (a b)", "found \"b\" where a comma or )"},
           {"a in ((x))", "found \"(\""},
           {"a in (x)(y)", "found \"(\""},
           {"a (x)", "found \"(\""},
           {"(a)", "found \"(\""},
           {"a=b)", "found \")\""},
           {"a=(b)", "found \"(\""},
           {"!", "found the end where a label key is"},
           {"!!a", "found \"!\""},
           {"!a=b", "found \"=\" where a comma"},
           {"a!b", "found \"!\""},
           {"a!", "found \"!\""},
           {"=a", "found \"=\""},
           {"!=a", "found \"!=\""},
           {"a>=1", "found \"=\""},
           {"a=>1", "found \">\""},
           {"a<=2", "found \"=\""},
           {"x>1 y", "found \"y\""},
           {"a>", "\"\" is not a whole number"},
           {"a>x", "\"x\" is not a whole number, which > and < need"},
           {"a>1.5", "\"1.5\" is not a whole number"},
           {"a>-1", "\"-1\" is not a label value"},
           {"a>9223372036854775808", "not a whole number"},
           {"a/b/c=d", "\"a/b/c\" is not a label key: it has more than one '/'"},
           {"x,-a=b", "position 3: \"-a\" is not a label key"},
           {"a=-b", "\"-b\" is not a label value: it starts with '-'"},
           {long_value.c_str(), "64 characters"},
           {"\xC3\xA4=b", "is not a label key"},
           {"a=\xC3\xA4", "is not a label value"},
           {"\"a\"=b", "is not a label key"},
           {"a='b'", "is not a label value"},
       }) {
    auto selector = LabelSelector::parse(c.text);
    ASSERT_FALSE(selector.ok()) << c.text;
    EXPECT_EQ(selector.error().code, Code::InvalidArgument);
    EXPECT_THAT(selector.error().message, HasSubstr(c.says));
  }
}

TEST(LabelSelector, Matches) {
  const json::Value labels = read(R"({"app":"web","tier":"front","n":"5","empty":"","bad":7})");
  struct Case {
    const char* text;
    bool matches;
  };
  for (const Case& c : {Case{"", true},
                        {"app=web", true},
                        {"app=api", false},
                        {"app!=web", false},
                        {"app!=api", true},
                        {"none!=x", true},
                        {"none=x", false},
                        {"app in (api,web)", true},
                        {"app in (api)", false},
                        {"none in (x)", false},
                        {"app notin (api)", true},
                        {"app notin (web)", false},
                        {"none notin (x)", true},
                        {"app", true},
                        {"none", false},
                        {"!app", false},
                        {"!none", true},
                        {"n>4", true},
                        {"n>5", false},
                        {"n<6", true},
                        {"n<5", false},
                        {"app>1", false},
                        {"none>1", false},
                        {"empty=", true},
                        {"empty", true},
                        {"none=", false},
                        {"app=web,tier=front", true},
                        {"app=web,tier=back", false},
                        {"bad", false},
                        {"!bad", true},
                        {"bad!=7", true}})
    EXPECT_EQ(LabelSelector::parse(c.text)->matches(labels.object()), c.matches) << c.text;
}

TEST(LabelSelector, ObjectForms) {
  struct Case {
    const char *object, *text;
  };
  for (const Case& c : {Case{"{}", ""}, Case{R"({"matchLabels":{},"matchExpressions":[]})", ""},
                        Case{R"({"matchLabels":null,"matchExpressions":null})", ""},
                        Case{R"({"matchLabels":{"b":"c","a":""}})", "a=,b=c"},
                        Case{R"({"matchLabels":{"m":"x"},"matchExpressions":[
              {"key":"z","operator":"Exists"},{"key":"b","operator":"DoesNotExist","values":[]},
              {"key":"c","operator":"In","values":["y","x"]},
              {"key":"d","operator":"NotIn","values":[""]}]})",
                             "!b,c in (x,y),d notin (),m=x,z"}}) {
    auto selector = LabelSelector::fromObject(read(c.object));
    ASSERT_TRUE(selector.ok()) << selector.error().text();
    EXPECT_EQ(selector->text(), c.text);
  }
  EXPECT_TRUE(LabelSelector::fromObject(read("{}"))->matchesEverything());
  EXPECT_TRUE(LabelSelector().matches({}));
}

TEST(LabelSelector, RefusedObjects) {
  struct Case {
    const char *object, *says;
  };
  for (const Case& c : {
           Case{"null", "the selector must be an object with matchLabels or matchExpressions"},
           {"[]", "not array"},
           {R"("a=b")", "not string"},
           {R"({"matchLabel":{}})", "the unknown field \"matchLabel\""},
           {R"({"matchLabels":[]})", "matchLabels must be an object with strings, not array"},
           {R"({"matchLabels":{"a":1}})", "matchLabels[\"a\"] must be a string, not integer"},
           {R"({"matchLabels":{"a b":"x"}})", "matchLabels[\"a b\"]: \"a b\" is not a label key"},
           {R"({"matchLabels":{"a":"x y"}})", "\"x y\" is not a label value"},
           {R"({"matchExpressions":{}})", "matchExpressions must be a list, not object"},
           {R"({"matchExpressions":[1]})", "matchExpressions[0] must be an object"},
           {R"({"matchExpressions":[{"key":"a","operator":"Exists"},{"key":"a"}]})",
            "matchExpressions[1].operator must be a string, not null"},
           {R"({"matchExpressions":[{"operator":"In"}]})", "[0].key must be a string, not null"},
           {R"({"matchExpressions":[{"key":"a","operator":"Gt","values":["1"]}]})",
            "operator is \"Gt\", but it must be In, NotIn, Exists or DoesNotExist"},
           {R"({"matchExpressions":[{"key":"a","operator":"In"}]})",
            "values must be given for the operator In"},
           {R"({"matchExpressions":[{"key":"a","operator":"Exists","values":["x"]}]})",
            "values must be left out for the operator Exists"},
           {R"({"matchExpressions":[{"key":"a","operator":"In","values":"x"}]})",
            "values must be a list of strings, not string"},
           {R"({"matchExpressions":[{"key":"a","operator":"In","values":["x",1]}]})",
            "matchExpressions[0].values[1] must be a string"},
           {R"({"matchExpressions":[{"key":"-","operator":"In","values":["x"]}]})",
            "matchExpressions[0]: \"-\" is not a label key"},
           {R"({"matchExpressions":[{"key":"a","operator":"Exists","value":[]}]})",
            "the unknown field \"value\""},
       }) {
    auto selector = LabelSelector::fromObject(read(c.object));
    ASSERT_FALSE(selector.ok()) << c.object;
    EXPECT_THAT(selector.error().message, HasSubstr(c.says));
  }
}

// The canonical forms are those of fields.ParseSelector in k8s.io/apimachinery 0.34.
TEST(FieldSelector, TextForms) {
  for (const Forms& c : {Forms{"", ""},
                         {"metadata.name=x", "metadata.name=x"},
                         {"metadata.name==x", "metadata.name=x"},
                         {"spec.nodeName!=y", "spec.nodeName!=y"},
                         {"metadata.name=x,spec.nodeName!=y", "metadata.name=x,spec.nodeName!=y"},
                         {"a=", "a="},
                         {"a=b,", "a=b"},
                         {",a=b", "a=b"},
                         {"a=b,,c=d", "a=b,c=d"},
                         {"a=b\\,c", "a=b\\,c"},
                         {"a=b\\=c", "a=b\\=c"},
                         {"a=b\\\\c", "a=b\\\\c"},
                         {"b=c,a=d", "a=d,b=c"},
                         {"a=b,a=c", "a=b,a=c"}}) {
    auto selector = FieldSelector::parse(c.text);
    ASSERT_TRUE(selector.ok()) << selector.error().text();
    EXPECT_EQ(selector->text(), c.canonical) << c.text;
    EXPECT_EQ(*FieldSelector::parse(selector->text()), *selector) << c.text;
  }
}

TEST(FieldSelector, RefusedTexts) {
  struct Case {
    const char *text, *says;
  };
  for (const Case& c : {Case{"a", "field selector \"a\", at \"a\": it must be a field, = or !="},
                        {"x=y,a=b=c", "at \"a=b=c\": the value has a '=' in it"},
                        {"a!==b", "has a '='"},
                        {"a=b\\d", "after \\ comes one of"},
                        {"a=b\\", "after \\ comes one of"},
                        {"=b", "the field before = is missing"},
                        {"!=b", "the field before = is missing"},
                        {" a =b", "\" a \" is not the path of a field"},
                        {"a\\=b=c", "is not the path"}}) {
    auto selector = FieldSelector::parse(c.text);
    ASSERT_FALSE(selector.ok()) << c.text;
    EXPECT_THAT(selector.error().message, HasSubstr(c.says));
  }
}

TEST(FieldSelector, Matches) {
  const json::Value pod = read(
      R"({"metadata":{"name":"web","n":5},"spec":{"nodeName":"a,b","hostNetwork":true,"list":[]}})");
  struct Case {
    const char* text;
    bool matches;
  };
  for (const Case& c : {Case{"", true},
                        {"metadata.name=web", true},
                        {"metadata.name!=web", false},
                        {"metadata.name=x", false},
                        {"metadata.name=web,spec.nodeName!=x", true},
                        {"spec.nodeName=a\\,b", true},
                        {"spec.hostNetwork=true", true},
                        {"metadata.n=5", true},
                        {"spec.none=", true},
                        {"spec.none!=x", true},
                        {"spec.none=x", false},
                        {"spec.list=", true},
                        {"metadata.name.deeper=", true},
                        {"spec..x=", true}})
    EXPECT_EQ(FieldSelector::parse(c.text)->matches(pod), c.matches) << c.text;
  EXPECT_FALSE(FieldSelector::parse("a=b")->matches(json::Value(5)));
  auto selector = FieldSelector::parse("metadata.name=web,a!=b");
  EXPECT_EQ(*selector->required("metadata.name"), "web");
  EXPECT_EQ(selector->required("a"), nullptr);
}

}  // namespace
}  // namespace cadre::kube
