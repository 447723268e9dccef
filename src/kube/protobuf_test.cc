#include "kube/protobuf.h"

#include "base/format.h"
#include "base/strings.h"
#include "json/write.h"

namespace cadre::kube {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const GroupVersionKind kService{"", "v1", "Service"};
const GroupVersionKind kConfigMap{"", "v1", "ConfigMap"};

// What kube-apiserver 1.34 sent: a list of Services, a Status, and a watch of two events.
constexpr std::string_view kList =
    "azhzAAoRCgJ2MRILU2VydmljZUxpc3QS9gQKCQoAEgM5MjgaABLoBArxAwoKa3ViZXJuZXRlcxIAGgdkZWZhdWx0IgAqJD"
    "Q1"
    "YjMyOGUxLTE5NTUtNDhkOS05MGFlLWI1ZDJlYjNhOWMzMTIDMTk4OABCCAjqu+"
    "bXBhAAWhYKCWNvbXBvbmVudBIJYXBpc2Vy"
    "dmVyWhYKCHByb3ZpZGVyEgprdWJlcm5ldGVzigHtAgoOa3ViZS1hcGlzZXJ2ZXISBlVwZGF0ZRoCdjEiCAjqu+"
    "bXBhAAMghG"
    "aWVsZHNWMTq4Agq1AnsiZjptZXRhZGF0YSI6eyJmOmxhYmVscyI6eyIuIjp7fSwiZjpjb21wb25lbnQiOnt9LCJmOnByb3"
    "Zp"
    "ZGVyIjp7fX19LCJmOnNwZWMiOnsiZjpjbHVzdGVySVAiOnt9LCJmOmludGVybmFsVHJhZmZpY1BvbGljeSI6e30sImY6aX"
    "BG"
    "YW1pbHlQb2xpY3kiOnt9LCJmOnBvcnRzIjp7Ii4iOnt9LCJrOntcInBvcnRcIjo0NDMsXCJwcm90b2NvbFwiOlwiVENQXC"
    "J9"
    "Ijp7Ii4iOnt9LCJmOm5hbWUiOnt9LCJmOnBvcnQiOnt9LCJmOnByb3RvY29sIjp7fSwiZjp0YXJnZXRQb3J0Ijp7fX19LC"
    "Jm"
    "OnNlc3Npb25BZmZpbml0eSI6e30sImY6dHlwZSI6e319fUIAEm4KGwoFaHR0cHMSA1RDUBi7AyIICAAQ8rIBGgAoABoJMT"
    "Au"
    "ODkuMC4xIglDbHVzdGVySVA6BE5vbmVCAFIAWgBgAGgAigELU2luZ2xlU3RhY2uSAQkxMC44OS4wLjGaAQRJUHY0sgEHQ2"
    "x1"
    "c3RlchoCCgAaACIA";
constexpr std::string_view kStatus =
    "azhzAAoMCgJ2MRIGU3RhdHVzEngKBgoAEgAaABIHRmFpbHVyZRpWaW52YWxpZCBjb250aW51ZSB0b2tlbjogY29udGludW"
    "Ug"
    "a2V5IGlzIG5vdCB2YWxpZDogaWxsZWdhbCBiYXNlNjQgZGF0YSBhdCBpbnB1dCBieXRlIDAiCkJhZFJlcXVlc3QwkAMaAC"
    "IA";
constexpr std::string_view kWatch =
    "AAACjwoFQURERUQShQUKggVrOHMACg0KAnYxEgdTZXJ2aWNlEugECvEDCgprdWJlcm5ldGVzEgAaB2RlZmF1bHQiACokND"
    "Vi"
    "MzI4ZTEtMTk1NS00OGQ5LTkwYWUtYjVkMmViM2E5YzMxMgMxOTg4AEIICOq75tcGEABaFgoJY29tcG9uZW50EglhcGlzZX"
    "J2"
    "ZXJaFgoIcHJvdmlkZXISCmt1YmVybmV0ZXOKAe0CCg5rdWJlLWFwaXNlcnZlchIGVXBkYXRlGgJ2MSIICOq75tcGEAAyCE"
    "Zp"
    "ZWxkc1YxOrgCCrUCeyJmOm1ldGFkYXRhIjp7ImY6bGFiZWxzIjp7Ii4iOnt9LCJmOmNvbXBvbmVudCI6e30sImY6cHJvdm"
    "lk"
    "ZXIiOnt9fX0sImY6c3BlYyI6eyJmOmNsdXN0ZXJJUCI6e30sImY6aW50ZXJuYWxUcmFmZmljUG9saWN5Ijp7fSwiZjppcE"
    "Zh"
    "bWlseVBvbGljeSI6e30sImY6cG9ydHMiOnsiLiI6e30sIms6e1wicG9ydFwiOjQ0MyxcInByb3RvY29sXCI6XCJUQ1BcIn"
    "0i"
    "OnsiLiI6e30sImY6bmFtZSI6e30sImY6cG9ydCI6e30sImY6cHJvdG9jb2wiOnt9LCJmOnRhcmdldFBvcnQiOnt9fX0sIm"
    "Y6"
    "c2Vzc2lvbkFmZmluaXR5Ijp7fSwiZjp0eXBlIjp7fX19QgASbgobCgVodHRwcxIDVENQGLsDIggIABDysgEaACgAGgkxMC"
    "44"
    "OS4wLjEiCUNsdXN0ZXJJUDoETm9uZUIAUgBaAGAAaACKAQtTaW5nbGVTdGFja5IBCTEwLjg5LjAuMZoBBElQdjSyAQdDbH"
    "Vz"
    "dGVyGgIKABoAIgAAAAB1CghCT09LTUFSSxJpCmdrOHMACg0KAnYxEgdTZXJ2aWNlEk4KNgoAEgAaACIAKgAyAzkyODgAQg"
    "Bi"
    "IQoZazhzLmlvL2luaXRpYWwtZXZlbnRzLWVuZBIEdHJ1ZRIQGgAiADoAQgBSAFoAYABoABoCCgAaACIA";
constexpr std::string_view kServiceSpec =
    R"("spec":{"clusterIP":"10.89.0.1","clusterIPs":["10.89.0.1"],"internalTrafficPolicy":"Cluster",)"
    R"("ipFamilies":["IPv4"],"ipFamilyPolicy":"SingleStack","ports":[{"name":"https","port":443,"protocol":"TCP",)"
    R"("targetPort":22898}],"sessionAffinity":"None","type":"ClusterIP"},"status":{"loadBalancer":{}}})";
constexpr std::string_view kServiceMeta =
    R"("metadata":{"creationTimestamp":"2026-11-15T11:56:26Z","labels":{"component":"apiserver","provider":"kubernetes"},)"
    R"("name":"kubernetes","namespace":"default","resourceVersion":"198","uid":"45b328e1-1955-48d9-90ae-b5d2eb3a9c31"},)";

// --- the wire, for what no server sends

std::string varint(std::uint64_t number) {
  std::string out;
  for (; number >= 0x80; number >>= 7) out += static_cast<char>(number | 0x80);
  return out + static_cast<char>(number);
}
std::string field(unsigned number, std::string_view bytes) {
  return varint(number << 3 | 2) + varint(bytes.size()) + std::string(bytes);
}
std::string number(unsigned number, std::uint64_t value) {
  return varint(number << 3) + varint(value);
}
std::string envelope(std::string_view api_version, std::string_view kind, std::string_view object) {
  return std::string("k8s\0", 4) + field(1, field(1, api_version) + field(2, kind)) +
         field(2, object);
}
std::string frame(std::string_view type, std::string_view object) {
  std::string event = field(1, type) + field(2, field(1, object));
  std::string head;
  for (int shift = 24; shift >= 0; shift -= 8) head += static_cast<char>(event.size() >> shift);
  return head + event;
}

std::string readObject(std::string_view bytes, const json::ParseOptions& options = {}) {
  auto value = parseProtobuf(bytes, options);
  return value ? json::write(*value) : value.error().text();
}
std::string configMap(std::string_view fields) {
  return readObject(envelope("v1", "ConfigMap", fields));
}

struct ListRead {
  std::vector<std::string> items;
  std::string end;  // the envelope, or the failure
};
ListRead readList(const GroupVersionKind& kind, std::string_view bytes, std::size_t piece,
                  const json::ParseOptions& options = {.drop_managed_fields = true}) {
  ListRead out;
  ProtobufListParser parser(
      kind, [&](json::Value item) { out.items.push_back(json::write(item)); }, options);
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    // A copy of its own each, so that a sanitizer sees who looks beyond it.
    auto fed = parser.feed(std::string(bytes.substr(at, piece)));
    if (!fed) break;
  }
  auto end = parser.finish();
  out.end = end ? json::write(*end) : end.error().text();
  return out;
}
ListRead readStream(std::string_view bytes, std::size_t piece,
                    const json::ParseOptions& options = {.drop_managed_fields = true}) {
  ListRead out;
  ProtobufStreamParser parser([&](json::Value event) { out.items.push_back(json::write(event)); },
                              options);
  for (std::size_t at = 0; at < bytes.size(); at += piece)
    if (!parser.feed(std::string(bytes.substr(at, piece)))) break;
  auto end = parser.finish();
  out.end = end ? "" : end.error().text();
  return out;
}

TEST(Protobuf, TellsItsContentType) {
  EXPECT_TRUE(isProtobuf("application/vnd.kubernetes.protobuf"));
  EXPECT_TRUE(isProtobuf("Application/Vnd.Kubernetes.Protobuf ; stream=watch"));
  EXPECT_FALSE(isProtobuf("application/json"));
  EXPECT_FALSE(isProtobuf(""));
}

TEST(Protobuf, ReadsAList) {
  std::string bytes = *base64Decode(kList);
  for (std::size_t piece : {1, 2, 7, 100, 660}) {
    ListRead read = readList(kService, bytes, piece);
    EXPECT_THAT(read.items,
                ElementsAre("{" + std::string(kServiceMeta) + std::string(kServiceSpec)));
    EXPECT_EQ(read.end,
              R"({"apiVersion":"v1","kind":"ServiceList","metadata":{"resourceVersion":"928"}})");
  }
}

TEST(Protobuf, ReadsAWatch) {
  std::string bytes = *base64Decode(kWatch);
  for (std::size_t piece : {1, 3, 8, 200, 780}) {
    ListRead read = readStream(bytes, piece);
    EXPECT_THAT(
        read.items,
        ElementsAre(
            R"({"object":{"apiVersion":"v1","kind":"Service",)" + std::string(kServiceMeta) +
                std::string(kServiceSpec) + R"(,"type":"ADDED"})",
            R"({"object":{"apiVersion":"v1","kind":"Service","metadata":{"annotations":{"k8s.io/initial-events-end":"true"},)"
            R"("resourceVersion":"928"},"spec":{},"status":{"loadBalancer":{}}},"type":"BOOKMARK"})"));
    EXPECT_EQ(read.end, "");
  }
}

TEST(Protobuf, ReadsAStatus) {
  std::string bytes = *base64Decode(kStatus);
  std::string status =
      R"({"apiVersion":"v1","code":400,"kind":"Status","message":"invalid continue token: continue key is not valid: )"
      R"(illegal base64 data at input byte 0","metadata":{},"reason":"BadRequest","status":"Failure"})";
  EXPECT_EQ(readObject(bytes), status);
  EXPECT_THAT(readStream(frame("ERROR", bytes), 9).items,
              ElementsAre(R"({"object":)" + status + R"(,"type":"ERROR"})"));
}

TEST(Protobuf, KeepsManagedFieldsWhenAsked) {
  std::string item = readList(kService, *base64Decode(kList), 50, {}).items.at(0);
  EXPECT_THAT(item, HasSubstr(R"("managedFields":[{"apiVersion":"v1","fieldsType":"FieldsV1",)"
                              R"("fieldsV1":{"f:metadata":{"f:labels":{".":{})"));
}

TEST(Protobuf, ReadsWhatServersRarelySend) {
  std::string empty = R"({"apiVersion":"v1","kind":"ConfigMap")";
  EXPECT_EQ(configMap(""), empty + "}");
  // Fields of a newer server, of every wire type.
  EXPECT_EQ(configMap(field(99, "x") + number(98, 7) + varint(97 << 3 | 1) + "12345678" +
                      varint(96 << 3 | 5) + "1234"),
            empty + "}");
  // A map out of order, with a key twice, without key and without value.
  EXPECT_EQ(configMap(field(2, field(1, "b") + field(2, "1")) + field(2, field(1, "a")) +
                      field(2, field(1, "b") + field(2, "2")) + field(2, field(2, "3"))),
            R"({"apiVersion":"v1","data":{"":"3","a":"","b":"2"},"kind":"ConfigMap"})");
  // A single field twice: the last counts.
  EXPECT_EQ(configMap(number(4, 0) + number(4, 1)),
            R"({"apiVersion":"v1","immutable":true,"kind":"ConfigMap"})");
  EXPECT_EQ(configMap(field(2, field(1, "a") + field(2, "\xff\xfe ok \xc3\xbc"))),
            "{\"apiVersion\":\"v1\",\"data\":{\"a\":\"\xef\xbf\xbd\xef\xbf\xbd ok "
            "\xc3\xbc\"},\"kind\":\"ConfigMap\"}");
  EXPECT_EQ(configMap(field(3, field(1, "a") + field(2, std::string("\0\xff", 2)))),
            R"({"apiVersion":"v1","binaryData":{"a":"AP8="},"kind":"ConfigMap"})");
  // Numbers in one packed field.
  std::string groups = field(2, field(14, field(4, varint(3) + varint(300))));
  EXPECT_THAT(readObject(envelope("v1", "Pod", groups)),
              HasSubstr(R"("securityContext":{"supplementalGroups":[3,300]})"));
  // Objects within objects have no kind, but for this one.
  EXPECT_THAT(
      readObject(envelope("apps/v1", "StatefulSet", field(2, field(4, "")))),
      HasSubstr(R"("volumeClaimTemplates":[{"apiVersion":"v1","kind":"PersistentVolumeClaim"}])"));
}

TEST(Protobuf, ReadsTimesOfEveryYear) {
  auto time = [](std::int64_t seconds, std::uint64_t nanos) {
    std::string stamp = number(1, static_cast<std::uint64_t>(seconds)) + number(2, nanos);
    std::string text =
        readObject(envelope("coordination.k8s.io/v1", "Lease", field(2, field(4, stamp))));
    auto at = text.find("\"renewTime\":");
    return at == text.npos ? text : text.substr(at + 12, text.find('}') - at - 12);
  };
  EXPECT_EQ(time(0, 0), R"("1970-01-01T00:00:00.000000Z")");
  EXPECT_EQ(time(951'782'400, 1'999), R"("2000-02-29T00:00:00.000001Z")");
  EXPECT_EQ(time(-62'135'510'400, 1000), R"("0001-01-02T00:00:00.000001Z")");
  EXPECT_EQ(time(253'402'300'799, 999'999'999), R"("9999-12-31T23:59:59.999999Z")");
  for (auto [seconds, nanos] : {std::pair<std::int64_t, std::uint64_t>{253'402'300'800, 0},
                                {-62'167'219'201, 0},
                                {INT64_MAX, 0},
                                {INT64_MIN, 0},
                                {0, 1'000'000'000},
                                {0, UINT64_MAX}})
    EXPECT_EQ(time(seconds, nanos), "a time is beyond all years") << seconds;
}

TEST(Protobuf, RefusesWhatIsWrong) {
  const std::string endless(11, '\xff');
  const std::string no_field = "a field has no number, length or type that there is";
  struct Case {
    std::string bytes, error;
  };
  const Case cases[] = {
      {"", "they do not begin so"},
      {"{\"kind\":\"ConfigMap\"}", "they do not begin so"},
      {std::string("k8s\0", 4), "the object is \"\" \"\""},
      {envelope("example.com/v1", "Thing", ""), "\"Thing\", which is not read from protobuf"},
      {envelope("apiextensions.k8s.io/v1", "CustomResourceDefinition", ""),
       "not read from protobuf"},
      {envelope("v1", "ConfigMap", endless), no_field},
      {envelope("v1", "ConfigMap", varint(2 << 3) + endless), no_field},
      {envelope("v1", "ConfigMap", varint(2)), no_field},           // number 0
      {envelope("v1", "ConfigMap", varint(2 << 3 | 3)), no_field},  // a group
      {envelope("v1", "ConfigMap", varint(2 << 3 | 6)), no_field},  // no wire type
      {envelope("v1", "ConfigMap", varint(1ull << 40)), no_field},  // number too large
      {envelope("v1", "ConfigMap", varint(2 << 3 | 2) + varint(UINT64_MAX)),
       "in the middle of a field"},
      {envelope("v1", "ConfigMap", varint(2 << 3 | 2) + varint(5) + "abc"),
       "in the middle of a field"},
      {envelope("v1", "ConfigMap", varint(2 << 3 | 1) + "abc"), "in the middle of a field"},
      {envelope("v1", "ConfigMap", number(2, 1)), "field 2 of a message is not of the wire type"},
      {envelope("v1", "ConfigMap", field(4, "x")), "field 4 of a message is not of the wire type"},
      {envelope("v1", "ConfigMap", field(2, number(1, 1))),
       "field 1 of a message is not of the wire type"},
      {envelope("v1", "ConfigMap", field(1, number(1, 1))),
       "field 1 of a message is not of the wire type"},
      {envelope("v1", "ConfigMap", field(2, "") + number(4, 0) + field(2, "")),
       "a list or map comes in several parts"},
      {envelope("apps/v1", "ControllerRevision", field(2, field(1, "{"))),
       "reading JSON inside of protobuf"},
      {envelope("apps/v1", "ControllerRevision", field(2, field(1, std::string(300, '[')))),
       "nested deeper than"},
  };
  for (const Case& c : cases) {
    auto value = parseProtobuf(c.bytes);
    ASSERT_FALSE(value) << json::write(*value);
    EXPECT_THAT(value.error().text(), HasSubstr(c.error)) << testing::PrintToString(c.bytes);
  }
}

TEST(Protobuf, RefusesWhatIsBeyondALimit) {
  auto error = [](std::string_view bytes, json::Limits limits) {
    auto value = parseProtobuf(bytes, {.limits = limits});
    EXPECT_FALSE(value);
    return value ? Error() : value.error();
  };
  std::string pod = envelope("v1", "Pod", field(2, field(2, field(1, "main"))));
  EXPECT_EQ(readObject(pod, {.limits = {.bytes = 10, .depth = 4, .values = 7}}),
            R"({"apiVersion":"v1","kind":"Pod","spec":{"containers":[{"name":"main"}]}})");
  for (json::Limits limits :
       {json::Limits{.bytes = 9}, json::Limits{.depth = 3}, json::Limits{.values = 6}})
    EXPECT_EQ(error(pod, limits).code, Code::ResourceExhausted);
  // Nothing is made in advance of so many elements.
  std::string many;
  for (int i = 0; i < 1'000'000; ++i) many += field(2, "");
  EXPECT_THAT(error(envelope("v1", "Pod", field(2, many)), {.values = 1000}).text(),
              HasSubstr("more than 1000 values"));
  // The same field over and over costs no more than once each.
  std::string again;
  for (int i = 0; i < 300'000; ++i) again += number(4, 1);
  EXPECT_EQ(configMap(again), R"({"apiVersion":"v1","immutable":true,"kind":"ConfigMap"})");
}

TEST(Protobuf, RefusesListsThatAreWrong) {
  std::string item = field(2, field(1, field(1, "a")));
  std::string good =
      envelope("v1", "ConfigMapList", item + item + field(1, field(2, "7")) + field(9, "x"));
  EXPECT_EQ(readList(kConfigMap, good, 3).items.size(), 2u);
  EXPECT_THAT(readList(kConfigMap, good, 3).end, HasSubstr(R"("resourceVersion":"7")"));
  EXPECT_EQ(readList(kConfigMap, good + field(3, "gzip") + field(4, ""), 3).items.size(), 2u);
  // Cut anywhere, it says so.
  for (std::size_t size = 0; size < good.size(); ++size)
    EXPECT_EQ(readList(kConfigMap, good.substr(0, size), 5).end,
              "the bytes end in the middle of the list");
  struct Case {
    std::string bytes, error;
  };
  const Case cases[] = {
      {"{\"items\":[]}", "they do not begin so"},
      {envelope("v1", "SecretList", item), "the answer is \"SecretList\", not ConfigMapList"},
      {envelope("v1", "Status", ""), "the answer is \"Status\", not ConfigMapList"},
      {std::string("k8s\0", 4) + field(2, item), "the answer is \"\", not ConfigMapList"},
      {good + field(2, item), "there are two lists in one answer"},
      {envelope("v1", "ConfigMapList", item + varint(2 << 3 | 2) + varint(3)) + "abc",
       "an item goes beyond the end of its list"},
      {envelope("v1", "ConfigMapList", field(2, number(1, 1))), "not of the wire type"},
      {envelope("v1", "ConfigMapList", varint(2 << 3 | 2) + varint(1ull << 60)), "the limit is"},
      {std::string("k8s\0", 4) + varint(1 << 3 | 2) + varint(1ull << 60), "the limit is"},
      {std::string("k8s\0", 4) + std::string(20, '\xff'), "the bytes are not protobuf"},
  };
  for (const Case& c : cases)
    for (std::size_t piece : {1, 1000})
      EXPECT_THAT(readList(kConfigMap, c.bytes, piece).end, HasSubstr(c.error));
}

TEST(Protobuf, RefusesWatchesThatAreWrong) {
  std::string good = frame("ADDED", envelope("v1", "ConfigMap", field(1, field(1, "a"))));
  EXPECT_EQ(readStream(good + good, 4).items.size(), 2u);
  for (std::size_t size = 1; size < good.size(); ++size)
    EXPECT_EQ(readStream(good.substr(0, size), 5).end, "the bytes end in the middle of an event");
  EXPECT_THAT(readStream("\xff\xff\xff\xff", 4).end, HasSubstr("the limit is"));
  EXPECT_THAT(readStream(frame("ADDED", "{}"), 4).end, HasSubstr("they do not begin so"));
  EXPECT_THAT(readStream(std::string(4, '\0'), 4).end, HasSubstr("they do not begin so"));
  // A failure is final.
  ListRead read = readStream(good + frame("ADDED", "") + good, 1000);
  EXPECT_EQ(read.items.size(), 1u);
  EXPECT_THAT(read.end, HasSubstr("they do not begin so"));
}

TEST(Protobuf, TheCallbackMayDestroyTheParser) {
  std::string list = envelope("v1", "ConfigMapList", field(2, "") + field(2, ""));
  int items = 0;
  std::optional<ProtobufListParser> parser;
  parser.emplace(kConfigMap, [&](json::Value) {
    ++items;
    parser.reset();
  });
  EXPECT_TRUE(parser->feed(list));
  std::string event = frame("ADDED", envelope("v1", "ConfigMap", ""));
  std::optional<ProtobufStreamParser> stream;
  stream.emplace([&](json::Value) {
    ++items;
    stream.reset();
  });
  EXPECT_TRUE(stream->feed(event + event));
  EXPECT_EQ(items, 2);
}

}  // namespace
}  // namespace cadre::kube
