// The client over real sockets and TLS, against a server whose answers and faults are written here.
#include "kube/client.h"

#include <filesystem>
#include <fstream>

#include <unistd.h>

#include "base/format.h"
#include "json/write.h"
#include "kube/discovery.h"
#include "kube/watch.h"
#include "net/http_server.h"
#include "net/testing/wire_server.h"

namespace cadre::kube {
namespace {

using net::WireServer;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using Reply = std::shared_ptr<WireServer::Reply>;
constexpr Duration kSoon = 10s;

const Resource kDeployments{
    .group = "apps", .version = "v1", .plural = "deployments", .kind = "Deployment"};
const json::Value kWeb =
    json::Object{{"apiVersion", "apps/v1"},
                 {"kind", "Deployment"},
                 {"metadata", json::Object{{"name", "web"}, {"namespace", "shop"}}}};

std::string status(int code, std::string_view reason, std::string_view message) {
  return format(
      R"({{"kind":"Status","apiVersion":"v1","status":"Failure","code":{},"reason":"{}","message":"{}"}})",
      code, reason, message);
}

struct Folder {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / format("cadre-kube-test-{}-{}", ::getpid(), ++count);
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string write(const std::string& name, std::string_view text) const {
    std::ofstream(path / name) << text;
    return path / name;
  }
  static inline int count = 0;
};

struct Api {
  net::Loop loop;
  std::vector<WireServer::Request> requests;
  std::unique_ptr<WireServer> server;
  Config config;
  std::string log;
  SystemClock clock;
  Logger logger{clock, {}, [this](std::string_view line) { log += line; }};
  Metrics metrics;
  ClientOptions options{.logger = &logger, .metrics = &metrics};
  std::unique_ptr<Client> client_;

  Api(bool http2, WireServer::Script script, WireServer::Options wire = {}) {
    wire.http2 = http2;
    server = WireServer::start(
        loop, wire, [this, script = std::move(script)](WireServer::Request request, Reply reply) {
          requests.push_back(request);
          script(std::move(request), std::move(reply));
        });
    config = {.server = *net::Url::parse(server->url()),
              .tls = {.ca = server->ca()},
              .token = "hunter2",
              .source = "context dev in /home/me/.kube/config"};
  }
  Client& client() {
    if (!client_) client_ = *Client::connect(loop, config, options);
    return *client_;
  }
  Result<json::Value> run(Function<Pending(Client::Done)> start) {
    return net::await<json::Value>(loop, std::move(start), kSoon);
  }
  Result<json::Value> get() {
    return run(
        [&](auto done) { return client().get(kDeployments, {"shop", "web"}, std::move(done)); });
  }
};

class ClientTest : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Protocols, ClientTest, testing::Values(true, false),
                         [](const auto& info) { return info.param ? "Http2" : "Http1"; });

void echoRequest(WireServer::Request, Reply reply) { reply->json(200, R"({"kind":"Deployment"})"); }

TEST_P(ClientTest, SpeaksToTheRightPlaces) {
  Api api(GetParam(), echoRequest);
  Client& client = api.client();
  ObjectKey web{"shop", "web"};
  ASSERT_TRUE(api.get());
  ASSERT_TRUE(
      api.run([&](auto done) { return client.create(kDeployments, kWeb, {}, std::move(done)); }));
  ASSERT_TRUE(api.run([&](auto done) {
    return client.update(kDeployments, kWeb, {.subresource = "status"}, std::move(done));
  }));
  ASSERT_TRUE(api.run([&](auto done) {
    return client.apply(kDeployments, kWeb, {.force = true, .dry_run = true}, std::move(done));
  }));
  ASSERT_TRUE(api.run([&](auto done) {
    return client.patch(kDeployments, web, PatchType::Json, json::Array{}, {.field_manager = "me"},
                        std::move(done));
  }));
  ASSERT_TRUE(api.run([&](auto done) {
    return client.patch(kDeployments, web, PatchType::Merge, json::Object{}, {}, std::move(done));
  }));
  ASSERT_TRUE(api.run([&](auto done) {
    return client.patch(kDeployments, web, PatchType::Strategic, json::Object{}, {},
                        std::move(done));
  }));
  ASSERT_TRUE(api.run([&](auto done) {
    return client.remove(kDeployments, web, {.uid = "u1", .propagation = "Background"},
                         std::move(done));
  }));
  ASSERT_TRUE(api.run([&](auto done) {
    return client.removeAll(kDeployments, {.ns = "shop", .labels = "a in (b,c)"}, {},
                            std::move(done));
  }));

  std::vector<std::string> said;
  for (const auto& request : api.requests)
    said.push_back(format("{} {} {} {}", request.method, request.target,
                          request.headers.get("content-type"), request.body));
  const std::string body =
      R"({"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"shop"}})";
  const std::string place = "/apis/apps/v1/namespaces/shop/deployments";
  EXPECT_THAT(
      said,
      ElementsAre(
          "GET " + place + "/web  ",
          "POST " + place + "?fieldManager=cadre application/json " + body,
          "PUT " + place + "/web/status?fieldManager=cadre application/json " + body,
          "PATCH " + place +
              "/web?fieldManager=cadre&force=true&fieldValidation=Strict&dryRun=All "
              "application/apply-patch+yaml " +
              body,
          "PATCH " + place + "/web?fieldManager=me application/json-patch+json []",
          "PATCH " + place + "/web?fieldManager=cadre application/merge-patch+json {}",
          "PATCH " + place + "/web?fieldManager=cadre application/strategic-merge-patch+json {}",
          "DELETE " + place +
              R"(/web application/json {"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"uid":"u1"},"propagationPolicy":"Background"})",
          "DELETE " + place +
              R"(?labelSelector=a%20in%20%28b%2Cc%29 application/json {"apiVersion":"v1","kind":"DeleteOptions"})"));
  for (const auto& request : api.requests)
    EXPECT_EQ(request.headers.get("authorization"), "Bearer hunter2");
}

TEST_P(ClientTest, TellsTheServersOwnReason) {
  Api api(GetParam(), [](WireServer::Request, Reply reply) {
    reply->json(404, status(404, "NotFound", R"(deployments.apps \"web\" not found)"));
  });
  auto answer = api.get();
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::NotFound);
  EXPECT_EQ(answer.error().reason, "NotFound");
  EXPECT_EQ(answer.error().text(), R"(deployments.apps "web" not found)");
  EXPECT_THAT(api.metrics.text(), HasSubstr(R"(rest_client_requests_total{code="404",host=")"));
}

TEST_P(ClientTest, ConflictsAreData) {
  Api api(GetParam(), [](WireServer::Request, Reply reply) {
    reply->json(
        409,
        R"({"kind":"Status","apiVersion":"v1","code":409,"reason":"Conflict","message":"Apply failed with 1 conflict",
      "details":{"causes":[{"reason":"FieldManagerConflict","message":"conflict with \"helm\"","field":".spec.replicas"}]}})");
  });
  auto answer = api.run(
      [&](auto done) { return api.client().apply(kDeployments, kWeb, {}, std::move(done)); });
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::Conflict);
  EXPECT_THAT(answer.error().details, ElementsAre(Detail{".spec.replicas", "FieldManagerConflict",
                                                         "conflict with \"helm\""}));
}

TEST_P(ClientTest, RetriesWhenTheServerSaysSo) {
  int tries = 0;
  Api api(GetParam(), [&](WireServer::Request request, Reply reply) {
    EXPECT_THAT(request.body, HasSubstr("web"));
    if (++tries <= 3)
      return reply->json(429, status(429, "TooManyRequests", "later"), {{"Retry-After", "0"}});
    reply->json(201, "{}");
  });
  EXPECT_TRUE(api.run(
      [&](auto done) { return api.client().create(kDeployments, kWeb, {}, std::move(done)); }));
  EXPECT_EQ(tries, 4);
}

TEST_P(ClientTest, LeavesRetriesToWhoAsksForThat) {
  Api api(GetParam(), [&](WireServer::Request, Reply reply) {
    reply->json(429, status(429, "TooManyRequests", "later"), {{"Retry-After", "7"}});
  });
  auto created = api.run([&](auto done) {
    return api.client().create(kDeployments, kWeb, {.retry = false}, std::move(done));
  });
  auto removed = api.run([&](auto done) {
    return api.client().remove(kDeployments, {"shop", "web"}, {.retry = false}, std::move(done));
  });
  for (const auto& answer : {created, removed}) {
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().retry_after, 7s);
  }
  EXPECT_EQ(api.requests.size(), 2u);
}

TEST_P(ClientTest, DoesNotRetryOtherwise) {
  for (int code : {429, 500, 503}) {
    Api api(GetParam(), [&](WireServer::Request, Reply reply) {
      reply->json(code, status(code, "X", "broken"));
    });
    auto answer = api.get();
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().text(), "broken");
    EXPECT_EQ(api.requests.size(), 1u) << code;
  }
}

TEST_P(ClientTest, GivesUpAfterTenTries) {
  Api api(GetParam(), [&](WireServer::Request, Reply reply) {
    reply->json(503, status(503, "ServiceUnavailable", "down"), {{"Retry-After", "0"}});
  });
  auto answer = api.get();
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().text(), "after 10 tries: down");
  EXPECT_EQ(api.requests.size(), 10u);
}

TEST_P(ClientTest, AnAnswerThatIsNoStatusIsStillToldPlainly) {
  Api api(GetParam(), [&](WireServer::Request, Reply reply) {
    reply->head(502);
    reply->data("<html>bad gateway</html>");
    reply->end();
  });
  EXPECT_EQ(api.get().error().text(),
            "the API server answered 502 Bad Gateway: <html>bad gateway</html>");
}

TEST_P(ClientTest, AnEndlessErrorIsNotHeld) {
  // What says why would come after more than a mebibyte: that much is not kept.
  Api api(GetParam(), [&](WireServer::Request, Reply reply) {
    reply->json(500, std::string(2 << 20, ' ') + status(500, "InternalError", "said after 2 MiB"));
  });
  EXPECT_EQ(api.get().error().text(), "the API server answered 500 Internal Server Error");
}

TEST_P(ClientTest, TruncatedJsonIsAnError) {
  Api api(GetParam(),
          [](WireServer::Request, Reply reply) { reply->json(200, R"({"kind":"Deploy)"); });
  auto answer = api.get();
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::DataLoss);
  EXPECT_THAT(answer.error().text(), HasSubstr("line 1, column"));
}

TEST_P(ClientTest, ResetMidBodyIsAnError) {
  Api api(GetParam(), [](WireServer::Request, Reply reply) {
    reply->head(200);
    reply->data(R"({"kind":)");
    reply->reset();
  });
  auto answer = api.get();
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::Unavailable);
  EXPECT_THAT(answer.error().text(),
              StartsWith("cannot reach the API server at https://127.0.0.1:"));
}

TEST_P(ClientTest, OversizedAnswersAreRefused) {
  Api api(GetParam(), [](WireServer::Request, Reply reply) {
    reply->json(200, "\"" + std::string(5000, 'x') + "\"");
  });
  api.options.max_answer_bytes = 1000;
  auto answer = api.get();
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().text(), "the answer of the API server at " + api.config.server.origin() +
                                       " is larger than 1000 bytes");
}

TEST_P(ClientTest, AnOversizedHeadNamesTheServer) {
  Api api(GetParam(), [](WireServer::Request, Reply reply) {
    reply->head(200, {{"x", std::string(400'000, 'x')}});
    reply->end();
  });
  EXPECT_THAT(api.get().error().text(),
              HasSubstr("the API server at " + api.config.server.origin()));
}

TEST_P(ClientTest, ARedirectIsExplained) {
  Api api(GetParam(), [](WireServer::Request, Reply reply) {
    reply->head(302, {{"Location", "https://login.example/"}});
    reply->end();
  });
  auto answer = api.get();
  ASSERT_FALSE(answer);
  EXPECT_THAT(answer.error().text(),
              AllOf(HasSubstr("answered 302 Found"), HasSubstr(api.config.server.origin()),
                    HasSubstr("a proxy or a login page may stand before it")));
}

TEST_P(ClientTest, SlowAnswersRunIntoTheTimeout) {
  std::vector<Reply> held;
  Api api(GetParam(), [&](WireServer::Request, Reply reply) { held.push_back(reply); });
  api.options.timeout = 50ms;
  auto answer = api.get();
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::DeadlineExceeded);
  EXPECT_THAT(answer.error().text(), HasSubstr("within 50ms; check the network"));
}

TEST_P(ClientTest, AWrongCertificateNamesAddressSourceAndFix) {
  auto stranger = *net::makeCertificate({.common_name = "x", .names = {"127.0.0.1"}});
  Api api(GetParam(), echoRequest, {.identity = &stranger});
  auto answer = api.get();
  ASSERT_FALSE(answer);
  EXPECT_THAT(answer.error().text(),
              AllOf(StartsWith("cannot reach the API server at https://127.0.0.1:"),
                    HasSubstr("(context dev in /home/me/.kube/config)"),
                    HasSubstr("certificate is not accepted"),
                    HasSubstr("check the certificate authority")));
}

TEST_P(ClientTest, ATokenThatRotatesHeals) {
  Folder folder;
  std::string file = folder.write("token", "old-token\n");
  Api api(GetParam(), [&](WireServer::Request request, Reply reply) {
    if (request.headers.get("authorization") == "Bearer new-token") return reply->json(200, "{}");
    folder.write("token", "new-token");
    reply->json(401, status(401, "Unauthorized", "Unauthorized"));
  });
  api.config.token = "old-token";
  api.config.token_file = file;
  EXPECT_TRUE(api.get());
  EXPECT_EQ(api.requests.size(), 2u);
  EXPECT_TRUE(api.get());
  EXPECT_EQ(api.requests.size(), 3u);
  std::filesystem::remove(file);
  EXPECT_TRUE(api.get());  // the last good one stays in use
}

TEST_P(ClientTest, ATokenThatRotatesForEverIsTriedOnce) {
  Folder folder;
  int count = 0;
  std::string file = folder.write("token", "t0");
  Api api(GetParam(), [&](WireServer::Request, Reply reply) {
    folder.write("token", format("t{}", ++count));
    reply->json(401, status(401, "Unauthorized", "Unauthorized"));
  });
  api.config.token = "t0";
  api.config.token_file = file;
  EXPECT_FALSE(api.get());
  EXPECT_EQ(api.requests.size(), 2u);
}

TEST_P(ClientTest, AServerThatAsksForAnHourGetsNone) {
  Api api(GetParam(), [](WireServer::Request, Reply reply) {
    reply->json(503, status(503, "ServiceUnavailable", "down"), {{"Retry-After", "3600"}});
  });
  auto answer = api.get();
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().text(), "down");
  EXPECT_EQ(answer.error().retry_after, Duration(1h));
}

TEST_P(ClientTest, AnExpiredTokenThatDoesNotRotateSaysWhatToDo) {
  Api api(GetParam(), [](WireServer::Request, Reply reply) {
    reply->json(401, status(401, "Unauthorized", "Unauthorized"));
  });
  auto answer = api.get();
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::Unauthenticated);
  EXPECT_THAT(answer.error().text(), AllOf(HasSubstr("context dev in"), HasSubstr("log in again"),
                                           Not(HasSubstr("hunter2"))));
  EXPECT_EQ(api.requests.size(), 1u);
}

TEST_P(ClientTest, AnExecPluginIsAskedOnceAndAgainWhenRefused) {
  Folder folder;
  std::string plugin = folder.write(
      "plugin",
      "#!/bin/sh\necho x >> " + (folder.path / "runs").string() + "\nn=$(wc -l < " +
          (folder.path / "runs").string() + ")\n" +
          R"(case "$KUBERNETES_EXEC_INFO" in *'"server":"https://127.0.0.1:'*) ;; *) exit 9;; esac
echo "{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":{\"token\":\"t$n$EXTRA\"}}"
)");
  std::filesystem::permissions(plugin, std::filesystem::perms::owner_all);
  Api api(GetParam(), [&](WireServer::Request request, Reply reply) {
    if (request.headers.get("authorization") == "Bearer t1-x") {
      reply->json(401, status(401, "Unauthorized", "Unauthorized"));
    } else {
      reply->json(200, "{}");
    }
  });
  api.config.token.clear();
  api.config.exec = ExecPlugin{.command = plugin,
                               .env = {{"EXTRA", "-x"}},
                               .api_version = "client.authentication.k8s.io/v1",
                               .provide_cluster_info = true,
                               .interactive_mode = ExecPlugin::InteractiveMode::Never};
  auto first = api.get();
  ASSERT_TRUE(first) << first.error().text();
  EXPECT_TRUE(api.get());
  ASSERT_EQ(api.requests.size(), 3u);
  EXPECT_EQ(api.requests[2].headers.get("authorization"), "Bearer t2-x");
}

TEST_P(ClientTest, ABrokenExecPluginIsExplained) {
  Folder folder;
  std::string plugin = folder.write("plugin", "#!/bin/sh\necho please log in >&2\nexit 7\n");
  std::filesystem::permissions(plugin, std::filesystem::perms::owner_all);
  Api api(GetParam(), echoRequest);
  api.config.token.clear();
  api.config.exec = ExecPlugin{.command = plugin,
                               .api_version = "client.authentication.k8s.io/v1",
                               .install_hint = "install it"};
  api.config.exec->interactive_mode = ExecPlugin::InteractiveMode::Never;
  auto answer = api.get();
  ASSERT_FALSE(answer);
  EXPECT_THAT(answer.error().text(), AllOf(HasSubstr("ended with code 7: please log in"),
                                           HasSubstr("context dev in"), HasSubstr("; install it")));
  EXPECT_TRUE(api.requests.empty());
}

TEST_P(ClientTest, AnExecPluginMayBringACertificate) {
  auto me = net::testCertificate("from-plugin", {});
  Folder folder;
  folder.write("answer", json::write(json::Object{
                             {"apiVersion", "client.authentication.k8s.io/v1"},
                             {"kind", "ExecCredential"},
                             {"status", json::Object{{"clientCertificateData", me.certificate},
                                                     {"clientKeyData", me.key}}}}));
  std::string plugin =
      folder.write("plugin", "#!/bin/sh\ncat " + (folder.path / "answer").string() + "\n");
  std::filesystem::permissions(plugin, std::filesystem::perms::owner_all);
  Api api(GetParam(), echoRequest, {.client_ca = net::testCa().certificate});
  api.config.token.clear();
  api.config.exec = ExecPlugin{.command = plugin, .api_version = "client.authentication.k8s.io/v1"};
  api.config.exec->interactive_mode = ExecPlugin::InteractiveMode::Never;
  auto answer = api.get();
  ASSERT_TRUE(answer) << answer.error().text();
  EXPECT_EQ(api.requests[0].client_name, "from-plugin");
}

TEST_P(ClientTest, ImpersonatesWithEncodedExtras) {
  Api api(GetParam(), echoRequest);
  api.config.impersonate = {
      .user = "jane", .uid = "7", .groups = {"dev", "ops"}, .extra = {{"a/b", {"x"}}}};
  ASSERT_TRUE(api.get());
  const net::Headers& headers = api.requests[0].headers;
  EXPECT_EQ(headers.get("Impersonate-User"), "jane");
  EXPECT_EQ(headers.get("Impersonate-Uid"), "7");
  EXPECT_EQ(headers.get("Impersonate-Extra-a%2Fb"), "x");
  std::vector<std::string> groups;
  for (const auto& [name, value] : headers)
    if (name == "impersonate-group" || name == "Impersonate-Group") groups.push_back(value);
  EXPECT_THAT(groups, ElementsAre("dev", "ops"));
}

TEST_P(ClientTest, WarningsAreLoggedOnce) {
  Api api(GetParam(), [](WireServer::Request, Reply reply) {
    reply->json(200, "{}",
                {{"Warning", R"(299 - "batch/v1beta1 CronJob is deprecated, use \"v1\"")"}});
  });
  ASSERT_TRUE(api.get());
  ASSERT_TRUE(api.get());
  std::size_t first =
      api.log.find("the API server warns: batch/v1beta1 CronJob is deprecated, use \"v1\"");
  ASSERT_NE(first, std::string::npos) << api.log;
  EXPECT_EQ(api.log.find("deprecated", first + 60), std::string::npos);
}

TEST_P(ClientTest, ListsPageByPageAndStartsAgainWhenAPageExpired) {
  int pages = 0;
  Api api(GetParam(), [&](WireServer::Request request, Reply reply) {
    ++pages;
    bool first = request.target.find("continue=") == std::string::npos;
    bool whole = request.target.find("limit=") == std::string::npos;
    if (whole)
      return reply->json(
          200, R"({"metadata":{"resourceVersion":"9"},"items":[{"n":1},{"n":2},{"n":3}]})");
    if (first)
      return reply->json(
          200, R"({"items":[{"n":1}],"metadata":{"resourceVersion":"8","continue":"more"}})");
    reply->json(410, status(410, "Expired", "too old"));
  });
  auto items = net::await<std::vector<json::Value>>(
      api.loop,
      [&](auto done) {
        return api.client().list(kDeployments, {.select = {.ns = "shop"}}, std::move(done));
      },
      kSoon);
  ASSERT_TRUE(items) << items.error().text();
  EXPECT_EQ(items->size(), 3u);
  EXPECT_EQ(pages, 3);
}

TEST_P(ClientTest, StreamsWhatIsNoObject) {
  Reply open;
  Api api(GetParam(), [&](WireServer::Request request, Reply reply) {
    if (request.target != "/log") return reply->json(400, status(400, "BadRequest", "not yet"));
    reply->head(200, {{"Content-Type", "text/plain"}});
    reply->data("one\n");
    open = reply;
  });
  std::string came;
  std::optional<Result<>> ended;
  auto take = [&](std::string_view piece) { came += piece; };
  auto end = [&](Result<> result) { ended.emplace(std::move(result)); };
  Pending log = api.client().stream("/log", take, end);
  ASSERT_TRUE(api.loop.runUntil([&] { return came == "one\n"; }, kSoon));
  EXPECT_FALSE(ended) << "it is followed";
  open->data("two\n");
  open->end();
  ASSERT_TRUE(api.loop.runUntil([&] { return ended.has_value(); }, kSoon));
  EXPECT_TRUE(ended->ok());
  EXPECT_EQ(came, "one\ntwo\n");
  ended.reset();
  log = api.client().stream("/other", take, end);
  ASSERT_TRUE(api.loop.runUntil([&] { return ended.has_value(); }, kSoon));
  EXPECT_EQ(ended->error().text(), "not yet");
}

// A list and a watch of ConfigMaps, and a Status, as a server writes them in protobuf.
constexpr std::string_view kListBytes(
    "k8s\0\n\x13\n\x02v1\x12\x0d"
    "ConfigMapList\x12\x0d\n\x04\x12\x02"
    "42\x12\x05\n\x03\n\x01"
    "a",
    40);
constexpr std::string_view kEventBytes(
    "\0\0\0\x29\n\x05"
    "ADDED\x12\x20\n\x1ek8s\0\n\x0f\n\x02v1\x12\x09"
    "ConfigMap\x12\x07\n\x05\n\x03"
    "abc",
    45);
constexpr std::string_view kGoneBytes(
    "k8s\0\n\x0c\n\x02v1\x12\x06Status\x12\x11\x1a\x03"
    "old\"\x07"
    "Expired0\x9a\x03",
    37);

TEST_P(ClientTest, ReadsProtobufWhereTheServerHasIt) {
  Api api(GetParam(), [&](WireServer::Request request, Reply reply) {
    bool watch = request.target.find("watch=true") != std::string::npos;
    bool gone = request.target.find("resourceVersion=1&") != std::string::npos;
    if (request.headers.get("Accept") == "application/json")
      return reply->json(200, watch ? R"({"type":"ADDED","object":{"metadata":{"name":"json"}}})"
                                    : R"({"items":[{"metadata":{"name":"json"}}]})");
    EXPECT_EQ(request.headers.get("Accept"),
              "application/vnd.kubernetes.protobuf,application/json");
    reply->head(gone ? 410 : 200,
                {{"Content-Type", watch ? "application/vnd.kubernetes.protobuf;stream=watch"
                                        : "application/vnd.kubernetes.protobuf"}});
    reply->data(gone ? kGoneBytes : watch ? kEventBytes : kListBytes);
    reply->end();
  });
  const Resource configMaps{.version = "v1", .plural = "configmaps", .kind = "ConfigMap"};
  const Resource things{.group = "x.io", .version = "v1", .plural = "things", .kind = "Thing"};
  auto list = [&](const Resource& resource, bool json_only) {
    std::string out;
    auto page = net::await<ListPage>(
        api.loop,
        [&](auto done) {
          return api.client().listPage(
              resource, {.json_only = json_only},
              [&](json::Value item) { out += json::write(item); }, std::move(done));
        },
        kSoon);
    return page ? out + page->resource_version : page.error().text();
  };
  auto watch = [&](const Resource& resource, std::string version, bool json_only) {
    std::string out;
    bool ended = false;
    auto pending = api.client().watch(
        resource, {.resource_version = version, .json_only = json_only},
        [&](EventType, json::Value object) { out += json::write(object); },
        [&](Result<> end) {
          ended = true;
          if (!end) out += end.error().reason;
        });
    EXPECT_TRUE(api.loop.runUntil([&] { return ended; }, kSoon));
    return out;
  };
  EXPECT_EQ(list(configMaps, false), R"({"metadata":{"name":"a"}}42)");
  EXPECT_EQ(watch(configMaps, "", false),
            R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"abc"}})");
  EXPECT_EQ(watch(configMaps, "1", false), "Expired");
  for (auto& [resource, json_only] : {std::pair(configMaps, true), std::pair(things, false)}) {
    EXPECT_EQ(list(resource, json_only), R"({"metadata":{"name":"json"}})");
    EXPECT_EQ(watch(resource, "", json_only), R"({"metadata":{"name":"json"}})");
  }
}

TEST_P(ClientTest, WatchesAndRequestsDoNotShareAConnection) {
  std::set<std::size_t> watching, asking;
  std::vector<Reply> held;
  Api api(true, [&](WireServer::Request request, Reply reply) {
    if (request.target.find("watch=true") != std::string::npos) {
      watching.insert(request.connection);
      reply->head(200);
      held.push_back(reply);
      return;
    }
    asking.insert(request.connection);
    reply->json(200, "{}");
  });
  std::vector<Pending> watches;
  for (int i = 0; i < 250; ++i)
    watches.push_back(api.client().watch(kDeployments, {}, [](auto, auto) {}, [](auto) {}));
  ASSERT_TRUE(api.loop.runUntil([&] { return held.size() == 250; }, kSoon));
  ASSERT_TRUE(api.get());
  EXPECT_EQ(watching.size(), 3u);
  EXPECT_EQ(asking.size(), 1u);
  EXPECT_FALSE(watching.contains(*asking.begin()));
}

TEST_P(ClientTest, AHalfOpenWatchIsGivenUpAndResumed) {
  // The peer takes the watch, sends the picture and a change, then falls silent for good: the
  // server's own timeout passes without the end that it owes.
  int watches = 0;
  std::vector<Reply> held;
  Api api(GetParam(), [&](WireServer::Request request, Reply reply) {
    ++watches;
    reply->head(200);
    if (watches == 1) {
      reply->data(
          R"({"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"5","annotations":{"k8s.io/initial-events-end":"true"}}}})");
    } else {
      EXPECT_THAT(request.target, HasSubstr("resourceVersion=5&"));
    }
    held.push_back(reply);
  });
  Random random(1);
  bool failed = false;
  Watcher watcher(api.client(), {.resource = kDeployments, .backoff = {.first = 1ms, .limit = 1ms}},
                  random, {.failed = [&](const Error&) { failed = true; }});
  ASSERT_TRUE(api.loop.runUntil([&] { return watcher.synced(); }, kSoon));
  api.server->cut();
  ASSERT_TRUE(api.loop.runUntil([&] { return watches == 2; }, kSoon));
  EXPECT_TRUE(failed);
}

TEST(Client, AnUnreachableServerIsOneSentence) {
  net::Loop loop;
  Config config{.server = *net::Url::parse("https://127.0.0.1:1"),
                .source = "context dev in /home/me/.kube/config"};
  auto client = *Client::connect(loop, config);
  auto answer = net::await<json::Value>(
      loop, [&](auto done) { return serverVersion(*client, std::move(done)); }, kSoon);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().text(),
            "cannot reach the API server at https://127.0.0.1:1 (context dev in "
            "/home/me/.kube/config): connecting to "
            "127.0.0.1:1: connection refused; check that the API server is running and that the "
            "address there is right");
}

// What a server that expects TLS does with plain HTTP: it says so, it complains in its own
// protocol, or it hangs up.
TEST(Client, AnHttpAddressOfATlsPortIsExplained) {
  net::Loop loop;
  std::string answer;
  auto plain = *net::HttpServer::listen(loop, {}, [&](std::shared_ptr<net::ServerRequest> request) {
    request->respond(400, {}, answer);
  });
  auto ask = [&](std::uint16_t port) {
    Config config{.server = *net::Url::parse(format("http://127.0.0.1:{}", port)),
                  .source = "context dev in /home/me/.kube/config"};
    auto client = *Client::connect(loop, config);
    auto version = net::await<json::Value>(
        loop, [&](auto done) { return serverVersion(*client, std::move(done)); }, kSoon);
    return version ? "" : version.error().text();
  };
  for (const char* said : {"Client sent an HTTP request to an HTTPS server.\n",
                           "<center>The plain HTTP request was sent to HTTPS port</center>",
                           "You're speaking plain HTTP to an SSL-enabled server port."}) {
    answer = said;
    EXPECT_EQ(ask(plain->port()),
              format("cannot reach the API server at http://127.0.0.1:{} (context dev in "
                     "/home/me/.kube/config): the server speaks TLS on this port, not plain HTTP; "
                     "write https:// instead of http:// in the address there",
                     plain->port()));
  }
  answer = "another complaint";
  EXPECT_THAT(ask(plain->port()), HasSubstr("answered 400 Bad Request: another complaint"));

  net::CertificateAndKey identity = net::testCertificate("x", {});
  auto secure = *net::HttpServer::listen(
      loop,
      {.tls = net::TlsServerOptions{.certificate = identity.certificate, .key = identity.key}},
      [](std::shared_ptr<net::ServerRequest>) {});
  EXPECT_THAT(ask(secure->port()), HasSubstr("write https:// instead of http:// in the address"));
}

TEST(Client, AnHttpsAddressOfAPlainPortIsExplained) {
  net::Loop loop;
  auto plain = *net::HttpServer::listen(loop, {}, [](std::shared_ptr<net::ServerRequest>) {});
  Config config{.server = *net::Url::parse(format("https://127.0.0.1:{}", plain->port()))};
  auto client = *Client::connect(loop, config);
  auto version = net::await<json::Value>(
      loop, [&](auto done) { return serverVersion(*client, std::move(done)); }, kSoon);
  ASSERT_FALSE(version);
  EXPECT_THAT(version.error().text(), HasSubstr("the server does not speak TLS on this port"));
}

TEST(Client, GoesThroughAProxy) {
  Api api(true, echoRequest);
  std::string asked;
  // A proxy that only notes what it is asked for and says no.
  auto proxy =
      *net::HttpServer::listen(api.loop, {}, [&](std::shared_ptr<net::ServerRequest> request) {
        asked = request->method + " " + request->target + " " +
                std::string(request->headers.get("proxy-authorization"));
        request->respond(407, {}, "no");
      });
  api.config.proxy = *net::Url::parse(format("http://me:pw@127.0.0.1:{}", proxy->port()));
  auto answer = api.get();
  ASSERT_FALSE(answer);
  EXPECT_EQ(asked, format("CONNECT 127.0.0.1:{} Basic bWU6cHc=", api.server->port()));
  EXPECT_THAT(answer.error().text(),
              AllOf(HasSubstr("the proxy 127.0.0.1:"), HasSubstr("refused: HTTP/1.1 407"),
                    Not(HasSubstr("pw"))));
}

TEST(Client, MayGoBeforeItsCalls) {
  Api api(true, [](WireServer::Request, Reply) {});
  Pending call = api.client().get(kDeployments, {"a", "b"}, [](auto) { ADD_FAILURE(); });
  api.client_.reset();
  int turns = 0;
  api.loop.runUntil([&] { return ++turns > 5; }, 20ms);
}

TEST_P(ClientTest, DiscoversInBothForms) {
  for (bool aggregated : {true, false}) {
    Api api(GetParam(), [&](WireServer::Request request, Reply reply) {
      const std::string& at = request.target;
      if (aggregated && at == "/api")
        return reply->json(
            200,
            R"({"kind":"APIGroupDiscoveryList","items":[{"metadata":{},"versions":[{"version":"v1","resources":[
          {"resource":"pods","responseKind":{"kind":"Pod"},"scope":"Namespaced","singularResource":"pod","shortNames":["po"],"categories":["all"],"verbs":["get"],"subresources":[{"subresource":"log"}]}]}]}]})");
      if (aggregated && at == "/apis")
        return reply->json(
            200,
            R"({"kind":"APIGroupDiscoveryList","items":[{"metadata":{"name":"kaos.dev"},"versions":[{"version":"v1alpha1","resources":[
          {"resource":"agents","responseKind":{"kind":"Agent"},"scope":"Namespaced","singularResource":"agent","categories":["cadre"],"verbs":["get"],"subresources":[{"subresource":"status"}]}]}]}]})");
      if (at == "/api") return reply->json(200, R"({"kind":"APIVersions","versions":["v1"]})");
      if (at == "/api/v1")
        return reply->json(
            200,
            R"({"resources":[{"name":"pods","singularName":"pod","namespaced":true,"kind":"Pod","shortNames":["po"],"categories":["all"],"verbs":["get"]},{"name":"pods/log","kind":"Pod"}]})");
      if (at == "/apis")
        return reply->json(
            200,
            R"({"kind":"APIGroupList","groups":[{"name":"kaos.dev","preferredVersion":{"version":"v1alpha1"},"versions":[{"version":"v1alpha1"}]},
          {"name":"down.dev","preferredVersion":{"version":"v1"},"versions":[{"version":"v1"}]}]})");
      if (at == "/apis/kaos.dev/v1alpha1")
        return reply->json(
            200,
            R"({"resources":[{"name":"agents","singularName":"agent","namespaced":true,"kind":"Agent","categories":["cadre"],"verbs":["get"]},{"name":"agents/status","kind":"Agent"}]})");
      reply->json(503, status(503, "ServiceUnavailable", "down"));
    });
    auto discovery = net::await<Discovery>(
        api.loop, [&](auto done) { return Discovery::load(api.client(), std::move(done)); }, kSoon);
    ASSERT_TRUE(discovery) << discovery.error().text();
    ASSERT_EQ(discovery->resources().size(), 2u);
    for (std::string_view name :
         {"pods", "po", "pod", "Pod", "agents.kaos.dev", "agents.v1alpha1.kaos.dev"})
      EXPECT_TRUE(discovery->named(name)) << name;
    EXPECT_FALSE(discovery->named("agents.other.dev"));
    EXPECT_EQ(discovery->find({"kaos.dev", "v1alpha1", "Agent"})->subresources,
              std::vector<std::string>{"status"});
    EXPECT_EQ(discovery->inCategory("cadre").size(), 1u);
  }
}

TEST_P(ClientTest, AWriteMayBeForSomebodyElse) {
  Api api(GetParam(), echoRequest);
  api.config.impersonate.user = "ann";
  Client& client = api.client();
  Impersonation bob{.user = "bob", .groups = {"crew"}};
  ASSERT_TRUE(api.run(
      [&](auto done) { return client.create(kDeployments, kWeb, {.as = bob}, std::move(done)); }));
  ASSERT_TRUE(api.run(
      [&](auto done) { return client.apply(kDeployments, kWeb, {.as = bob}, std::move(done)); }));
  ASSERT_TRUE(api.run([&](auto done) {
    return client.remove(kDeployments, {"shop", "web"}, {.as = bob}, std::move(done));
  }));
  ASSERT_TRUE(api.get());
  std::vector<std::string> who;
  for (const auto& request : api.requests)
    who.push_back(format("{} {}", request.headers.get("impersonate-user"),
                         request.headers.get("impersonate-group")));
  EXPECT_THAT(who, ElementsAre("bob crew", "bob crew", "bob crew", "ann "));
}

TEST_P(ClientTest, ReachesServicesThroughTheServer) {
  Api api(GetParam(), [](WireServer::Request, Reply reply) { reply->json(404, "no such page"); });
  api.config.impersonate.user = "ann";
  auto service = api.client().toService({"shop", "web"}, 8000);
  auto answer = net::await<net::HttpResponse>(
      api.loop,
      [&](auto done) {
        return net::fetch(*service, {.method = "POST", .target = "/mcp?a=b", .body = "{}"}, 1000,
                          std::move(done));
      },
      kSoon);
  ASSERT_TRUE(answer) << answer.error().text();
  EXPECT_EQ(answer->status, 404);
  EXPECT_EQ(answer->body, "no such page");
  ASSERT_EQ(api.requests.size(), 1u);
  EXPECT_EQ(api.requests[0].method + " " + api.requests[0].target,
            "POST /api/v1/namespaces/shop/services/http:web:8000/proxy/mcp?a=b");
  EXPECT_EQ(api.requests[0].headers.get("authorization"), "Bearer hunter2");
  EXPECT_EQ(api.requests[0].headers.get("impersonate-user"), "ann");

  bool called = false;
  Pending dropped = net::fetch(*service, {}, 1000, [&](auto) { called = true; });
  dropped.reset();
  ASSERT_TRUE(api.get().error().code == Code::NotFound);
  EXPECT_FALSE(called);
}

TEST_P(ClientTest, WithoutAUsableTokenServicesAreNotReached) {
  Api api(GetParam(), echoRequest);
  api.config.token = "two\nlines";
  auto service = api.client().toService({"shop", "web"}, 8000);
  auto answer = net::await<net::HttpResponse>(
      api.loop, [&](auto done) { return net::fetch(*service, {}, 1000, std::move(done)); }, kSoon);
  ASSERT_FALSE(answer);
  EXPECT_THAT(answer.error().text(), HasSubstr("characters that no token has"));
  EXPECT_TRUE(api.requests.empty());
}

}  // namespace
}  // namespace cadre::kube
