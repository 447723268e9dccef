// The MCP client against servers built with the official SDK: before and after 2026-07-28, with and
// without sessions, answering with JSON and with event streams.

#include <map>

#include "base/format.h"
#include "base/strings.h"
#include "json/parse.h"
#include "json/write.h"
#include "net/http_client.h"
#include "net/http_server.h"
#include "net/loop.h"
#include "net/process.h"
#include "wire/mcp_client.h"

namespace cadre::wire {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr Duration kSoon = 30s;

// One version of the SDK: its environment, and a process with a server of each kind.
class Sdk {
 public:
  Sdk(net::Loop& loop, const std::string& version) : loop_(loop) { start(version); }

  // Why there are no servers; empty when there are.
  const std::string& obstacle() const { return obstacle_; }
  std::uint16_t port(const std::string& way) const { return ports_.at(way); }
  // Waits until a tool tells that something happened to it.
  bool happened(const std::string& what) {
    return loop_.runUntil([&] { return std::exchange(told_, "") == what; }, kSoon);
  }

 private:
  void start(const std::string& version) {
    auto made = net::await<net::ProcessResult>(loop_, [&](auto done) {
      return net::runProcess(loop_,
                             {.argv = {CADRE_ROOT "/tools/python-env",
                                       CADRE_ROOT "/test/mcp/requirements-" + version + ".txt"},
                              .env = net::currentEnvironment(),
                              .timeout = 8min},
                             std::move(done));
    });
    if (!made || made->exit_code != 0) {
      obstacle_ = "the SDK cannot be installed: " + (made ? made->errors : made.error().text());
      return;
    }
    auto callback =
        net::HttpServer::listen(loop_, {}, [this](std::shared_ptr<net::ServerRequest> request) {
          take(*json::parse(request->body));
          request->respond(200, {}, "");
        });
    callback_ = *std::move(callback);
    process_ = net::runProcess(
        loop_,
        {.argv = {std::string(trim(made->output)), CADRE_ROOT "/test/mcp/server.py",
                  format("http://127.0.0.1:{}/", callback_->port())},
         .env = net::currentEnvironment(),
         .timeout = 1h},
        [this](Result<net::ProcessResult> ended) {
          obstacle_ = "the servers ended: " + (ended ? ended->errors : ended.error().text());
        });
    if (!loop_.runUntil([&] { return !ports_.empty() || !obstacle_.empty(); }, 2min))
      obstacle_ = "the servers do not start";
  }

  void take(const json::Value& told) {
    for (const auto& [way, port] : told.object())
      if (port.isInteger()) ports_[way] = static_cast<std::uint16_t>(port.integer());
    if (told["tool"].isString()) told_ = told["tool"].string();
  }

  net::Loop& loop_;
  std::unique_ptr<net::HttpServer> callback_;
  std::map<std::string, std::uint16_t> ports_;
  std::string told_, obstacle_;
  Pending process_;
};

struct Judges {
  net::Loop loop;
  std::map<std::string, std::unique_ptr<Sdk>> sdks;
};
std::unique_ptr<Judges> judges;

class Lifetime : public testing::Environment {
  void SetUp() override { judges = std::make_unique<Judges>(); }
  void TearDown() override { judges.reset(); }
};
const auto* const kLifetime = testing::AddGlobalTestEnvironment(new Lifetime);

// Sends on, and remembers the sessions.
class Recorder final : public net::HttpClient {
 public:
  explicit Recorder(std::unique_ptr<net::PooledHttpClient> inner) : inner_(std::move(inner)) {}
  Pending send(net::HttpRequest request, net::ResponseHandler handler) override {
    methods.push_back(request.method);
    if (request.headers.contains("Mcp-Session-Id")) session = request.headers.get("Mcp-Session-Id");
    return inner_->send(std::move(request), std::move(handler));
  }
  net::HttpClient& inner() { return *inner_; }

  std::string session;
  std::vector<std::string> methods;

 private:
  std::unique_ptr<net::PooledHttpClient> inner_;
};

struct Case {
  std::string sdk;
  std::string way;
  McpEra known;     // before the first request
  McpEra expected;  // after it

  bool session() const { return expected == McpEra::Handshake && way.starts_with("stateful"); }
};

class McpSdk : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    auto& sdk = judges->sdks[GetParam().sdk];
    if (!sdk) sdk = std::make_unique<Sdk>(loop, GetParam().sdk);
    ASSERT_EQ(sdk->obstacle(), "");
    sdk_ = sdk.get();
    url = *mcpUrl(format("http://127.0.0.1:{}", sdk->port(GetParam().way)));
    http =
        std::make_unique<Recorder>(*net::makeHttpClient(loop, {.url = url, .connect_timeout = 5s}));
    client =
        std::make_unique<McpClient>(loop, *http, McpOptions{.url = url, .era = GetParam().known});
  }

  Result<McpToolList> list() {
    return net::await<McpToolList>(
        loop, [&](auto done) { return client->listTools(std::move(done)); }, kSoon);
  }
  Result<McpToolResult> call(std::string name, json::Value arguments = {}) {
    return net::await<McpToolResult>(
        loop,
        [&](auto done) {
          return client->callTool(std::move(name), std::move(arguments), std::move(done));
        },
        kSoon);
  }
  // The status of a request that someone else sends into the session.
  int foreign(std::string method) {
    net::HttpRequest request{.method = std::move(method),
                             .target = url.target,
                             .headers = {{"Mcp-Session-Id", http->session},
                                         {"Accept", "application/json, text/event-stream"},
                                         {"Content-Type", "application/json"}},
                             .body = R"({"jsonrpc":"2.0","id":1,"method":"ping"})"};
    if (request.method == "DELETE") request.body = "";
    auto answer = net::await<net::HttpResponse>(
        loop,
        [&](auto done) {
          return net::fetch(http->inner(), std::move(request), 1 << 20, std::move(done));
        },
        kSoon);
    return answer ? answer->status : 0;
  }

  net::Loop& loop = judges->loop;
  Sdk* sdk_ = nullptr;
  net::Url url;
  std::unique_ptr<Recorder> http;
  std::unique_ptr<McpClient> client;
};

template <class Wanted>
std::vector<Case> casesWhere(Wanted wanted) {
  std::vector<Case> out;
  for (const char* way : {"stateful-sse", "stateful-json", "stateless-sse", "stateless-json"})
    for (const Case& one : {Case{"v1", way, McpEra::Unknown, McpEra::Handshake},
                            Case{"v2", way, McpEra::Unknown, McpEra::Stateless},
                            Case{"v2", way, McpEra::Handshake, McpEra::Handshake}})
      if (std::invoke(wanted, one)) out.push_back(one);
  return out;
}

std::string caseName(const testing::TestParamInfo<Case>& info) {
  std::string era = info.param.expected == McpEra::Handshake ? "handshake" : "stateless";
  std::string name = info.param.sdk + "_" + info.param.way + "_" + era;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.sdk << ' ' << c.way; }

INSTANTIATE_TEST_SUITE_P(Servers, McpSdk,
                         testing::ValuesIn(casesWhere([](const Case&) { return true; })), caseName);

// Servers that keep sessions.
class McpSdkSession : public McpSdk {};
INSTANTIATE_TEST_SUITE_P(Servers, McpSdkSession, testing::ValuesIn(casesWhere(&Case::session)),
                         caseName);

// Servers that notice when a call is given up. Without a session the handshake era has no way to
// name the call, and with JSON answers the stateless one does not look whether anybody listens.
class McpSdkCancel : public McpSdk {};
INSTANTIATE_TEST_SUITE_P(Servers, McpSdkCancel, testing::ValuesIn(casesWhere([](const Case& c) {
                           return c.session() ||
                                  (c.expected == McpEra::Stateless && c.way.ends_with("sse"));
                         })),
                         caseName);

// Servers whose tools can ask the client. Those of the first SDK hang where they have no way to.
class McpSdkAsk : public McpSdk {};
INSTANTIATE_TEST_SUITE_P(Servers, McpSdkAsk, testing::ValuesIn(casesWhere([](const Case& c) {
                           return c.sdk == "v2" || c.way == "stateful-sse";
                         })),
                         caseName);

TEST_P(McpSdk, Handshake) {
  auto info = net::await<McpServerInfo>(
      loop, [&](auto done) { return client->connect(std::move(done)); }, kSoon);
  ASSERT_TRUE(info) << info.error().text();
  EXPECT_EQ(info->era, GetParam().expected);
  EXPECT_EQ(info->protocol_version, info->era == McpEra::Handshake ? "2025-11-25" : "2026-07-28");
  EXPECT_EQ(info->name, "judge");
  EXPECT_EQ(info->instructions, "Use add.");
  EXPECT_TRUE(info->capabilities["tools"].isObject());
}

TEST_P(McpSdk, ListsAllPages) {
  auto tools = list();
  ASSERT_TRUE(tools) << tools.error().text();
  std::vector<std::string> names;
  for (const McpTool& tool : tools->tools) names.push_back(tool.name);
  EXPECT_THAT(names, ElementsAre("add", "blocks", "fail", "talk", "ask", "slow", "region"));
  EXPECT_THAT(tools->left_out, ElementsAre());
  EXPECT_EQ(tools->tools[0].description, "Adds two numbers.");
  EXPECT_EQ(tools->tools[0].input_schema["properties"]["a"]["type"], "integer");
}

TEST_P(McpSdk, CallsTools) {
  auto sum = call("add", json::Object{{"a", 1}, {"b", 2}});
  ASSERT_TRUE(sum) << sum.error().text();
  EXPECT_FALSE(sum->is_error);
  EXPECT_EQ(sum->text(), "3");
  EXPECT_EQ(json::write(sum->structured), R"({"result":3})");

  auto blocks = call("blocks");
  ASSERT_TRUE(blocks) << blocks.error().text();
  EXPECT_EQ(blocks->text(), "one\n[image image/png, 4 bytes in base64]\nzwei: ü");

  auto failed = call("fail");
  ASSERT_TRUE(failed) << failed.error().text();
  EXPECT_TRUE(failed->is_error);
  EXPECT_THAT(failed->text(), HasSubstr("fail"));

  auto wrong = call("add", json::Object{{"a", "x"}});
  EXPECT_TRUE(wrong ? wrong->is_error : wrong.error().reason == kMcpProtocolError);

  auto unknown = call("nothing");
  EXPECT_TRUE(unknown ? unknown->is_error : unknown.error().reason == kMcpProtocolError);

  auto talked = call("talk");
  ASSERT_TRUE(talked) << talked.error().text();
  EXPECT_EQ(talked->text(), "done");
}

TEST_P(McpSdk, RepeatsArgumentsAsHeadersWhereThatIsAsked) {
  auto result = call("region", json::Object{{"region", "eu-west ü"}});
  ASSERT_TRUE(result) << result.error().text();
  EXPECT_FALSE(result->is_error) << result->text();
  EXPECT_EQ(result->text(), "eu-west ü");
}

TEST_P(McpSdkAsk, AToolThatAsksIsRefusedAndDoesNotHang) {
  auto result = call("ask");
  EXPECT_TRUE(result ? result->is_error : result.error().reason == kMcpProtocolError)
      << (result ? result->text() : result.error().text());
  ASSERT_TRUE(call("add", json::Object{{"a", 1}, {"b", 2}}));
}

TEST_P(McpSdk, EndsWhatItBegan) {
  ASSERT_TRUE(call("add", json::Object{{"a", 1}, {"b", 2}}));
  ASSERT_TRUE(
      net::await<void>(loop, [&](auto done) { return client->close(std::move(done)); }, kSoon));
  EXPECT_EQ(http->methods.back(), GetParam().session() ? "DELETE" : "POST");
  EXPECT_EQ(http->session.empty(), !GetParam().session());
}

TEST_P(McpSdkSession, IsGoneAfterTheEnd) {
  ASSERT_TRUE(call("add", json::Object{{"a", 1}, {"b", 2}}));
  EXPECT_EQ(foreign("POST"), 200);
  ASSERT_TRUE(
      net::await<void>(loop, [&](auto done) { return client->close(std::move(done)); }, kSoon));
  EXPECT_EQ(foreign("POST"), 404);
}

TEST_P(McpSdkSession, IsMadeAnewWhenLost) {
  ASSERT_TRUE(call("add", json::Object{{"a", 1}, {"b", 2}}));
  std::string before = http->session;
  EXPECT_EQ(foreign("DELETE"), 200);
  auto sum = call("add", json::Object{{"a", 1}, {"b", 2}});
  ASSERT_TRUE(sum) << sum.error().text();
  EXPECT_NE(http->session, before);
}

TEST_P(McpSdkCancel, ADroppedCallEndsAtTheServer) {
  Pending slow = client->callTool("slow", {}, [](auto) { FAIL(); });
  ASSERT_TRUE(sdk_->happened("started"));
  slow.reset();
  EXPECT_TRUE(sdk_->happened("ended"));
}

}  // namespace
}  // namespace cadre::wire
