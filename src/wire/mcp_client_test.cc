// The client against servers whose answers and faults are written here: most of them without
// sockets and under a virtual clock, some over a real HTTP server.
#include "wire/mcp_client.h"

#include <deque>

#include "base/format.h"
#include "base/strings.h"
#include "json/parse.h"
#include "json/write.h"
#include "net/http_client.h"
#include "net/http_server.h"
#include "net/loop.h"
#include "net/testing/wire_server.h"
#include "wire/json_rpc.h"
#include "wire/mcp_headers.h"
#include "wire/sse.h"

namespace cadre::wire {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// ---------------------------------------------------------------------------------------------
// A server without sockets

// One answer in the making; what is not said does not come.
class Reply {
 public:
  Reply(Scheduler& scheduler, net::ResponseHandler handler)
      : scheduler_(scheduler),
        handler_(std::make_shared<net::ResponseHandler>(std::move(handler))) {}

  void head(int status, net::Headers headers = {}) {
    later(
        [status, headers](auto& handler) { handler.head({.status = status, .headers = headers}); });
  }
  void data(std::string text) {
    later([text](auto& handler) { handler.data(text); });
  }
  void end(Result<> result = {}) {
    later([result](auto& handler) { handler.end(result); });
  }
  void json(int status, std::string text, net::Headers headers = {}) {
    headers.add("Content-Type", "application/json; charset=utf-8");
    head(status, headers);
    data(std::move(text));
    end();
  }
  void events(net::Headers headers = {}) {
    headers.add("Content-Type", "text/event-stream");
    head(200, headers);
  }
  void lost() { end(Error{.code = Code::Unavailable, .message = "connection lost"}); }

  void drop() { handler_ = nullptr; }
  bool dropped() const { return handler_ == nullptr; }

 private:
  void later(std::function<void(net::ResponseHandler&)> step) {
    // As net does: nothing after the exchange was dropped.
    scheduler_.post([weak = std::weak_ptr(handler_), step = std::move(step)] {
      if (auto handler = weak.lock()) step(*handler);
    });
  }
  Scheduler& scheduler_;
  std::shared_ptr<net::ResponseHandler> handler_;
};
using ReplyPtr = std::shared_ptr<Reply>;

struct Seen {
  net::HttpRequest http;
  json::Value body;
  ReplyPtr reply;

  std::string method() const { return body["method"].string(); }
  // "POST initialize", "POST #3" for an answer of ours, "DELETE"
  std::string line() const {
    if (http.method != "POST") return http.method;
    return "POST " + (method().empty() ? "#" + json::write(body["id"]) : method());
  }
  std::string header(std::string_view name) const { return std::string(http.headers.get(name)); }
  std::string result(std::string_view text) const {
    return format(R"({{"jsonrpc":"2.0","id":{},"result":{}}})", json::write(body["id"]), text);
  }
  std::string error(int code, std::string_view message, std::string_view data = "null") const {
    return format(R"({{"jsonrpc":"2.0","id":{},"error":{{"code":{},"message":"{}","data":{}}}}})",
                  json::write(body["id"]), code, message, data);
  }
};

class FakeServer final : public net::HttpClient {
 public:
  using Script = std::function<void(const Seen&)>;
  FakeServer(Scheduler& scheduler, Script script)
      : scheduler_(scheduler), script_(std::move(script)) {}

  Pending send(net::HttpRequest request, net::ResponseHandler handler) override {
    auto reply = std::make_shared<Reply>(scheduler_, std::move(handler));
    json::Value body;
    if (!request.body.empty()) body = *json::parse(request.body);
    seen.push_back({std::move(request), std::move(body), reply});
    script_(Seen(seen.back()));
    return Pending([reply] { reply->drop(); });
  }

  std::vector<std::string> lines() const {
    std::vector<std::string> out;
    for (const Seen& request : seen) out.push_back(request.line());
    return out;
  }

  std::vector<Seen> seen;

 private:
  Scheduler& scheduler_;
  Script script_;
};

constexpr std::string_view kInitialized =
    R"({"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"old","version":"1"},"instructions":"ask"})";
constexpr std::string_view kDiscovered =
    R"({"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"instructions":"ask","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"new","version":"2"}}})";

// What a server of the handshake era says to all but tools: a session with the id that is given.
bool handshakeEra(const Seen& seen, const std::string& session = "s1") {
  net::Headers headers;
  if (!session.empty()) headers.add("Mcp-Session-Id", session);
  if (seen.http.method == "DELETE") {
    seen.reply->head(200);
    seen.reply->end();
  } else if (seen.method() == "server/discover") {
    seen.reply->json(400, seen.error(-32600, "Bad Request: Missing session ID"));
  } else if (seen.method() == "initialize") {
    seen.reply->json(200, seen.result(kInitialized), headers);
  } else if (seen.method().empty() || seen.method().starts_with("notifications/")) {
    seen.reply->head(202);
    seen.reply->end();
  } else {
    return false;
  }
  return true;
}

bool statelessEra(const Seen& seen) {
  if (seen.method() != "server/discover") return false;
  seen.reply->json(200, seen.result(kDiscovered));
  return true;
}

struct Fixture {
  FakeScheduler scheduler;
  Instant began = scheduler.clock().instant();
  FakeServer server;
  std::unique_ptr<McpClient> client;

  explicit Fixture(FakeServer::Script script, McpOptions options = {})
      : server(scheduler, std::move(script)) {
    if (options.url.host.empty()) options.url = *net::Url::parse("http://tools.example:8000/mcp");
    client = std::make_unique<McpClient>(scheduler, server, std::move(options));
  }

  Duration spent() const { return scheduler.clock().instant() - began; }

  template <class T>
  Result<T> run(std::function<Pending(Function<void(Result<T>)>)> start, Duration patience = 5min) {
    std::optional<Result<T>> outcome;
    Pending pending = start([&](Result<T> result) { outcome.emplace(std::move(result)); });
    EXPECT_FALSE(outcome) << "never from inside the call";
    scheduler.runReady();
    Instant until = scheduler.clock().instant() + patience;
    while (!outcome && scheduler.clock().instant() < until && scheduler.runNext())
      scheduler.runReady();
    if (!outcome) return Error{.code = Code::Internal, .message = "it never ended"};
    return std::move(*outcome);
  }
  Result<McpServerInfo> connect() {
    return run<McpServerInfo>([&](auto done) { return client->connect(std::move(done)); });
  }
  Result<McpToolList> list() {
    return run<McpToolList>([&](auto done) { return client->listTools(std::move(done)); });
  }
  Result<McpToolResult> call(std::string name = "add", json::Value arguments = json::Object{}) {
    return run<McpToolResult>([&](auto done) {
      return client->callTool(std::move(name), std::move(arguments), std::move(done));
    });
  }
  Result<> close() {
    return run<void>([&](auto done) { return client->close(std::move(done)); });
  }
};

std::vector<std::string> names(const McpToolList& list) {
  std::vector<std::string> out;
  for (const McpTool& tool : list.tools) out.push_back(tool.name);
  return out;
}

constexpr std::string_view kTwoTools =
    R"({"tools":[{"name":"b","title":"B","description":"does b","inputSchema":{"type":"object"},"outputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}},{"name":"a","inputSchema":{"type":"object"}}]})";
constexpr std::string_view kText = R"({"content":[{"type":"text","text":"3"}],"isError":false})";

// ---------------------------------------------------------------------------------------------

TEST(Mcp, UrlOfAnEndpoint) {
  struct {
    const char* base;
    const char* target;
  } cases[] = {
      {"http://a:8000", "/mcp"},
      {"http://a:8000/", "/mcp"},
      {"http://a/mcp", "/mcp"},
      {"http://a/mcp/", "/mcp/"},
      {"http://a/x", "/x/mcp"},
      {"http://a/x/", "/x/mcp"},
      {"http://a/x/mcp?k=1", "/x/mcp?k=1"},
      {"http://a/?k=1", "/mcp?k=1"},
      {"http://a/notmcp", "/notmcp/mcp"},
  };
  for (auto [base, target] : cases) EXPECT_EQ(mcpUrl(base)->target, target) << base;
  EXPECT_FALSE(mcpUrl("tools"));
}

TEST(Mcp, HandshakeEra) {
  Fixture f(
      [](const Seen& seen) {
        if (handshakeEra(seen)) return;
        seen.reply->json(200, seen.result(seen.method() == "tools/list" ? kTwoTools : kText));
      },
      {.headers = {{"Authorization", "Bearer t"}}});
  auto list = f.list();
  ASSERT_TRUE(list) << list.error().text();
  EXPECT_THAT(names(*list), ElementsAre("b", "a"));
  EXPECT_EQ(list->tools[0].title, "B");
  EXPECT_EQ(list->tools[0].description, "does b");
  EXPECT_EQ(list->tools[0].annotations["readOnlyHint"], true);
  EXPECT_EQ(list->fresh_for, std::nullopt);
  auto result = f.call("add", json::Object{{"a", 1}});
  ASSERT_TRUE(result) << result.error().text();
  EXPECT_EQ(result->text(), "3");
  EXPECT_FALSE(result->is_error);
  EXPECT_TRUE(f.close());
  EXPECT_THAT(f.server.lines(), ElementsAre("POST server/discover", "POST initialize",
                                            "POST notifications/initialized", "POST tools/list",
                                            "POST tools/call", "DELETE"));
  EXPECT_EQ(f.client->server().name, "old");
  EXPECT_EQ(f.client->server().era, McpEra::Handshake);
  EXPECT_EQ(f.client->server().instructions, "ask");

  const Seen& initialize = f.server.seen[1];
  EXPECT_EQ(initialize.body["params"]["protocolVersion"], "2025-11-25");
  EXPECT_EQ(initialize.header("MCP-Protocol-Version"), "");
  EXPECT_EQ(initialize.header("Mcp-Session-Id"), "");
  for (std::size_t i : {2, 3, 4, 5}) {
    EXPECT_EQ(f.server.seen[i].header("MCP-Protocol-Version"), "2025-11-25") << i;
    EXPECT_EQ(f.server.seen[i].header("Mcp-Session-Id"), "s1") << i;
    EXPECT_EQ(f.server.seen[i].header("Mcp-Method"), "") << i;
  }
  for (const Seen& seen : f.server.seen) {
    EXPECT_EQ(seen.header("Accept"), "application/json, text/event-stream");
    EXPECT_EQ(seen.header("Authorization"), "Bearer t");
    EXPECT_EQ(seen.http.target, "/mcp");
    EXPECT_EQ(seen.header("Content-Type"), seen.http.method == "POST" ? "application/json" : "");
  }
}

TEST(Mcp, StatelessEra) {
  Fixture f([](const Seen& seen) {
    if (statelessEra(seen)) return;
    seen.reply->json(200, seen.method() == "tools/list"
                              ? seen.result(R"({"tools":[{"name":"größe"}],"ttlMs":60000})")
                              : seen.result(kText));
  });
  auto list = f.list();
  ASSERT_TRUE(list) << list.error().text();
  EXPECT_EQ(list->fresh_for, 60s);
  ASSERT_TRUE(f.call("größe"));
  EXPECT_TRUE(f.close());
  EXPECT_THAT(f.server.lines(),
              ElementsAre("POST server/discover", "POST tools/list", "POST tools/call"));
  EXPECT_EQ(f.client->server().name, "new");
  EXPECT_EQ(f.client->server().protocol_version, "2026-07-28");
  for (const Seen& seen : f.server.seen) {
    const json::Value& meta = seen.body["params"]["_meta"];
    EXPECT_EQ(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
    EXPECT_EQ(meta["io.modelcontextprotocol/clientInfo"]["name"], "cadre");
    EXPECT_TRUE(meta["io.modelcontextprotocol/clientCapabilities"].isObject());
    EXPECT_EQ(seen.header("MCP-Protocol-Version"), "2026-07-28");
    EXPECT_EQ(seen.header("Mcp-Method"), seen.method());
    EXPECT_EQ(seen.header("Mcp-Session-Id"), "");
  }
  EXPECT_EQ(f.server.seen[2].header("Mcp-Name"), "=?base64?Z3LDtsOfZQ==?=");
}

TEST(Mcp, WhatAProbeMeans) {
  enum Means { Old, New, Unreachable, Fault };
  struct {
    const char* what;
    std::function<void(const Seen&)> answer;
    Means means;
  } cases[] = {
      {"a stateless server", [](const Seen& s) { statelessEra(s); }, New},
      {"method not found", [](const Seen& s) { s.reply->json(200, s.error(-32601, "no")); }, Old},
      {"bad request", [](const Seen& s) { s.reply->json(400, s.error(-32600, "no")); }, Old},
      {"only older versions",
       [](const Seen& s) {
         s.reply->json(200, s.result(R"({"supportedVersions":["2025-11-25"]})"));
       },
       Old},
      {"a result of something else", [](const Seen& s) { s.reply->json(200, s.result("{}")); },
       Old},
      {"refused, with older versions",
       [](const Seen& s) {
         s.reply->json(400, s.error(-32022, "no", R"({"supported":["2025-06-18"]})"));
       },
       Old},
      {"refused, with newer versions",
       [](const Seen& s) {
         s.reply->json(400, s.error(-32022, "no", R"({"supported":["2027-01-01"]})"));
       },
       Fault},
      {"wants more of the client", [](const Seen& s) { s.reply->json(400, s.error(-32021, "no")); },
       Fault},
      {"accepted",
       [](const Seen& s) {
         s.reply->head(202);
         s.reply->end();
       },
       Old},
      {"a page",
       [](const Seen& s) {
         s.reply->head(404, {{"Content-Type", "text/html"}});
         s.reply->data("<p>");
         s.reply->end();
       },
       Old},
      {"a good page",
       [](const Seen& s) {
         s.reply->head(200, {{"Content-Type", "text/html"}});
         s.reply->end();
       },
       Old},
      {"an empty stream",
       [](const Seen& s) {
         s.reply->events();
         s.reply->end();
       },
       Old},
      {"a crash",
       [](const Seen& s) {
         s.reply->head(500);
         s.reply->end();
       },
       Old},
      {"silence", [](const Seen&) {}, Old},
      {"no connection", [](const Seen& s) { s.reply->lost(); }, Unreachable},
      {"no endpoint behind the gateway",
       [](const Seen& s) {
         s.reply->head(503);
         s.reply->end();
       },
       Unreachable},
      {"no login",
       [](const Seen& s) {
         s.reply->head(401);
         s.reply->end();
       },
       Fault},
  };
  for (const auto& [what, answer, means] : cases) {
    SCOPED_TRACE(what);
    Fixture f([&](const Seen& seen) {
      if (seen.method() == "server/discover")
        answer(seen);
      else
        handshakeEra(seen);
    });
    auto info = f.connect();
    if (means == Old || means == New) {
      ASSERT_TRUE(info) << info.error().text();
      EXPECT_EQ(info->era, means == Old ? McpEra::Handshake : McpEra::Stateless);
    } else {
      ASSERT_FALSE(info);
      EXPECT_EQ(info.error().reason, means == Unreachable ? "Unreachable" : "ProtocolError");
    }
  }
}

TEST(Mcp, AnOlderServersSessionForTheProbeIsEnded) {
  Fixture f([](const Seen& seen) {
    if (seen.method() == "server/discover")
      seen.reply->json(400, seen.error(-32600, "no"), {{"Mcp-Session-Id", "stray"}});
    else
      handshakeEra(seen);
  });
  ASSERT_TRUE(f.connect());
  EXPECT_EQ(f.server.seen[1].http.method, "DELETE");
  EXPECT_EQ(f.server.seen[1].header("Mcp-Session-Id"), "stray");
}

TEST(Mcp, TheEraIsRemembered) {
  Fixture known([](const Seen& seen) { handshakeEra(seen); }, {.era = McpEra::Handshake});
  ASSERT_TRUE(known.connect());
  ASSERT_TRUE(known.close());
  ASSERT_TRUE(known.connect());
  EXPECT_THAT(known.server.lines(),
              ElementsAre("POST initialize", "POST notifications/initialized", "DELETE",
                          "POST initialize", "POST notifications/initialized"));
  // A server that has become another one.
  Fixture newer(
      [](const Seen& seen) {
        if (!statelessEra(seen))
          seen.reply->json(400, seen.error(-32022, "no", R"({"supported":["2026-07-28"]})"));
      },
      {.era = McpEra::Handshake});
  auto info = newer.connect();
  ASSERT_TRUE(info) << info.error().text();
  EXPECT_EQ(info->era, McpEra::Stateless);
  Fixture older([](const Seen& seen) { handshakeEra(seen); }, {.era = McpEra::Stateless});
  EXPECT_EQ(older.connect()->era, McpEra::Handshake);
}

TEST(Mcp, VersionsThatAreSpoken) {
  for (std::string version :
       {"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05", "2023-01-01", "", "zzz"}) {
    SCOPED_TRACE(version);
    Fixture f([&](const Seen& seen) {
      if (seen.method() == "initialize")
        seen.reply->json(
            200, seen.result(format(R"({{"protocolVersion":"{}","capabilities":{{}}}})", version)));
      else if (!handshakeEra(seen))
        seen.reply->json(200, seen.result(R"({"tools":[]})"));
    });
    auto list = f.list();
    bool known = version.starts_with("2024") || version.starts_with("2025");
    ASSERT_EQ(list.ok(), known);
    if (known) {
      EXPECT_EQ(f.server.seen.back().header("MCP-Protocol-Version"), version);
      EXPECT_EQ(f.server.seen.back().header("Mcp-Session-Id"), "");
    } else {
      EXPECT_EQ(list.error().code, Code::Unimplemented);
      EXPECT_EQ(list.error().reason, "ProtocolError");
    }
  }
}

TEST(Mcp, OneHandshakeForAllWhoWait) {
  Fixture f([](const Seen& seen) {
    if (!handshakeEra(seen)) seen.reply->json(200, seen.result(kText));
  });
  int done = 0;
  std::vector<Pending> pending;
  for (int i = 0; i < 3; ++i)
    pending.push_back(
        f.client->callTool("add", {}, [&](Result<McpToolResult> result) { done += result.ok(); }));
  Pending dropped = f.client->callTool("never", {}, [&](auto) { FAIL(); });
  dropped.reset();
  f.scheduler.runReady();
  EXPECT_EQ(done, 3);
  EXPECT_THAT(f.server.lines(), ElementsAre("POST server/discover", "POST initialize",
                                            "POST notifications/initialized", "POST tools/call",
                                            "POST tools/call", "POST tools/call"));
}

// ---------------------------------------------------------------------------------------------
// Answers

TEST(Mcp, EventStreams) {
  std::vector<std::string> pieces;
  int changed = 0;
  Fixture f(
      [&](const Seen& seen) {
        if (handshakeEra(seen)) return;
        seen.reply->events();
        std::string text =
            writeSseComment("hello") +
            writeSse({.data = R"({"jsonrpc":"2.0","method":"notifications/progress"})"}) +
            writeSse({.type = "other", .data = "nonsense"}) + writeSse({.data = ""}) +
            writeSse({.data = R"({"jsonrpc":"2.0","method":"notifications/tools/list_changed"})"}) +
            writeSse({.data = R"({"jsonrpc":"2.0","id":77,"method":"ping"})"}) +
            writeSse({.data = R"({"jsonrpc":"2.0","id":"q","method":"elicitation/create"})"}) +
            writeSse({.data = "[" + seen.result(kText) + "]"}) +
            writeSse({.data = "late nonsense"});
        for (char c : text) seen.reply->data(std::string(1, c));
        seen.reply->end();
      },
      {.tools_changed = [&] { ++changed; }});
  auto result = f.call();
  ASSERT_TRUE(result) << result.error().text();
  EXPECT_EQ(result->text(), "3");
  EXPECT_EQ(changed, 1);
  ASSERT_EQ(f.server.seen.size(), 6u);
  const Seen& ping = f.server.seen[4];
  EXPECT_EQ(json::write(ping.body), R"({"id":77,"jsonrpc":"2.0","result":{}})");
  EXPECT_EQ(ping.header("Mcp-Session-Id"), "s1");
  EXPECT_EQ(f.server.seen[5].body["error"]["code"], -32601);
  EXPECT_EQ(f.server.seen[5].body["id"], "q");
}

TEST(Mcp, AStreamThatStaysOpenIsLetGoAfterItsAnswer) {
  Fixture f([](const Seen& seen) {
    if (handshakeEra(seen)) return;
    seen.reply->events();
    seen.reply->data(writeSse({.data = seen.result(kText)}));
  });
  ASSERT_TRUE(f.call());
  EXPECT_FALSE(f.server.seen.back().reply->dropped());
  f.scheduler.advance(1s);
  EXPECT_TRUE(f.server.seen.back().reply->dropped());
  EXPECT_EQ(f.scheduler.timers(), 0u);
}

TEST(Mcp, ToolResults) {
  struct {
    const char* what;
    const char* result;
    bool is_error;
    const char* text;
    const char* structured;
  } cases[] = {
      {"text", R"({"content":[{"type":"text","text":"a"}]})", false, "a", "null"},
      {"blocks",
       R"({"content":[{"type":"text","text":"a"},{"type":"image","data":"AAAA","mimeType":"image/png"},{"type":"text","text":"b"}]})",
       false, "a\n[image image/png, 4 bytes in base64]\nb", "null"},
      {"links",
       R"({"content":[{"type":"resource_link","uri":"file:///x"},{"type":"resource","resource":{"uri":"file:///y","text":"t"}},{"type":"new"}]})",
       false, "[resource_link file:///x]\n[resource file:///y]\n[new]", "null"},
      {"structured", R"({"content":[],"structuredContent":{"result":3}})", false, "",
       R"({"result":3})"},
      {"structured alone", R"({"structuredContent":[1]})", false, "", "[1]"},
      {"failed", R"({"content":[{"type":"text","text":"ValueError: no"}],"isError":true})", true,
       "ValueError: no", "null"},
      {"nothing", R"({"content":[]})", false, "", "null"},
  };
  for (const auto& [what, text, is_error, shown, structured] : cases) {
    SCOPED_TRACE(what);
    Fixture f([&](const Seen& seen) {
      if (!handshakeEra(seen)) seen.reply->json(200, seen.result(text));
    });
    auto result = f.call();
    ASSERT_TRUE(result) << result.error().text();
    EXPECT_EQ(result->is_error, is_error);
    EXPECT_EQ(result->text(), shown);
    EXPECT_EQ(json::write(result->structured), structured);
  }
}

TEST(Mcp, BadAnswers) {
  struct {
    const char* what;
    std::function<void(const Seen&)> answer;
    Code code;
    const char* reason;
    const char* text;
  } cases[] = {
      {"no JSON", [](const Seen& s) { s.reply->json(200, "<html>"); }, Code::DataLoss,
       "ProtocolError", "line 1"},
      {"cut off", [](const Seen& s) { s.reply->json(200, R"({"jsonrpc":"2.0",)"); }, Code::DataLoss,
       "ProtocolError", ""},
      {"no JSON-RPC", [](const Seen& s) { s.reply->json(200, "{}"); }, Code::DataLoss,
       "ProtocolError", "not a JSON-RPC message"},
      {"another answer",
       [](const Seen& s) { s.reply->json(200, R"({"jsonrpc":"2.0","id":999,"result":{}})"); },
       Code::DataLoss, "ProtocolError", "was not sent"},
      {"another answer in a stream",
       [](const Seen& s) {
         s.reply->events();
         s.reply->data(writeSse({.data = R"({"jsonrpc":"2.0","id":999,"result":{}})"}));
       },
       Code::DataLoss, "ProtocolError", "was not sent"},
      {"nonsense in a stream",
       [](const Seen& s) {
         s.reply->events();
         s.reply->data("data: {\n\n");
       },
       Code::DataLoss, "ProtocolError", ""},
      {"only a notification",
       [](const Seen& s) { s.reply->json(200, R"({"jsonrpc":"2.0","method":"m"})"); },
       Code::DataLoss, "ProtocolError", "no answer"},
      {"a page",
       [](const Seen& s) {
         s.reply->head(200, {{"Content-Type", "text/html"}});
         s.reply->end();
       },
       Code::DataLoss, "ProtocolError", "text/html"},
      {"no type",
       [](const Seen& s) {
         s.reply->head(200);
         s.reply->end();
       },
       Code::DataLoss, "ProtocolError", "no Content-Type"},
      {"accepted",
       [](const Seen& s) {
         s.reply->head(202);
         s.reply->end();
       },
       Code::DataLoss, "ProtocolError", "without answering"},
      {"an ended stream",
       [](const Seen& s) {
         s.reply->events();
         s.reply->end();
       },
       Code::DataLoss, "ProtocolError", "without an answer"},
      {"a broken stream",
       [](const Seen& s) {
         s.reply->events();
         s.reply->lost();
       },
       Code::Unavailable, "Unreachable", "lost"},
      {"a lost connection", [](const Seen& s) { s.reply->lost(); }, Code::Unavailable,
       "Unreachable", "connection lost"},
      {"401",
       [](const Seen& s) {
         s.reply->head(401);
         s.reply->end();
       },
       Code::Unauthenticated, "ProtocolError", "401"},
      {"403", [](const Seen& s) { s.reply->json(403, R"({"error":"no origin"})"); },
       Code::Forbidden, "ProtocolError", "no origin"},
      {"500",
       [](const Seen& s) {
         s.reply->head(500, {{"Content-Type", "text/html"}});
         s.reply->data("<p>");
         s.reply->end();
       },
       Code::Internal, "ProtocolError", "status 500"},
      {"503",
       [](const Seen& s) {
         s.reply->head(503, {{"Retry-After", "7"}});
         s.reply->end();
       },
       Code::Unavailable, "Unreachable", "503"},
      {"an error", [](const Seen& s) { s.reply->json(200, s.error(-32602, "Unknown tool: add")); },
       Code::InvalidArgument, "ProtocolError", "Unknown tool"},
      {"an error with a status", [](const Seen& s) { s.reply->json(500, s.error(-32603, "boom")); },
       Code::Internal, "ProtocolError", "boom"},
      {"an error for nobody",
       [](const Seen& s) {
         s.reply->json(200,
                       R"({"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?"}})");
       },
       Code::InvalidArgument, "ProtocolError", "what?"},
      {"wants input",
       [](const Seen& s) {
         s.reply->json(200, s.result(R"({"resultType":"input_required","inputRequests":{}})"));
       },
       Code::Unimplemented, "ProtocolError", "asks for input"},
      {"no content", [](const Seen& s) { s.reply->json(200, s.result("{}")); }, Code::DataLoss,
       "ProtocolError", "no content"},
      {"a scalar", [](const Seen& s) { s.reply->json(200, s.result("3")); }, Code::DataLoss,
       "ProtocolError", "no content"},
      {"odd content", [](const Seen& s) { s.reply->json(200, s.result(R"({"content":"x"})")); },
       Code::DataLoss, "ProtocolError", "type string"},
      {"odd blocks", [](const Seen& s) { s.reply->json(200, s.result(R"({"content":["x"]})")); },
       Code::DataLoss, "ProtocolError", "without a type"},
      {"silence", [](const Seen&) {}, Code::DeadlineExceeded, "Unreachable", "within 1m0s"},
      {"silence in a stream",
       [](const Seen& s) {
         s.reply->events();
         s.reply->data(": ping\n\n");
       },
       Code::DeadlineExceeded, "Unreachable", "within"},
      {"deep",
       [](const Seen& s) {
         s.reply->json(200, s.result(std::string(200, '[') + std::string(200, ']')));
       },
       Code::ResourceExhausted, "ProtocolError", ""},
      {"large",
       [](const Seen& s) {
         s.reply->head(200, {{"Content-Type", "application/json"}});
         for (int i = 0; i < 20; ++i) s.reply->data(std::string(1000, ' '));
       },
       Code::ResourceExhausted, "ProtocolError", "larger than 10000"},
      {"large stream",
       [](const Seen& s) {
         s.reply->events();
         for (int i = 0; i < 20; ++i) s.reply->data(":" + std::string(1000, ' ') + "\n");
       },
       Code::ResourceExhausted, "ProtocolError", "larger than 10000"},
      {"large error",
       [](const Seen& s) {
         s.reply->head(500);
         for (int i = 0; i < 20; ++i) s.reply->data(std::string(1000, ' '));
       },
       Code::Internal, "ProtocolError", "500"},
      {"asks too often",
       [](const Seen& s) {
         s.reply->events();
         for (int i = 0; i < 4; ++i)
           s.reply->data(writeSse({.data = R"({"jsonrpc":"2.0","id":1,"method":"ping"})"}));
       },
       Code::ResourceExhausted, "ProtocolError", "more than 3 times"},
  };
  for (const auto& [what, answer, code, reason, text] : cases) {
    SCOPED_TRACE(what);
    Fixture f(
        [&](const Seen& seen) {
          if (!handshakeEra(seen)) answer(seen);
        },
        {.limits = {.answer_bytes = 10000, .server_requests = 3}});
    auto result = f.call();
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, code) << result.error().text();
    EXPECT_EQ(result.error().reason, reason);
    EXPECT_THAT(result.error().text(),
                AllOf(HasSubstr(text), HasSubstr("MCP server http://tools.example:8000/mcp")));
    EXPECT_EQ(std::count_if(f.server.seen.begin(), f.server.seen.end(),
                            [](const Seen& seen) { return seen.method() == "tools/call"; }),
              1)
        << "a tool is not called twice";
  }
}

TEST(Mcp, BadHandshakes) {
  struct {
    const char* what;
    std::function<void(const Seen&)> answer;
    Code code;
    const char* reason;
  } cases[] = {
      {"not there",
       [](const Seen& s) {
         s.reply->head(404);
         s.reply->end();
       },
       Code::NotFound, "ProtocolError"},
      {"an error", [](const Seen& s) { s.reply->json(200, s.error(-32603, "no")); }, Code::Internal,
       "ProtocolError"},
      {"no session id",
       [](const Seen& s) {
         s.reply->json(200, s.result(kInitialized), {{"Mcp-Session-Id", "a b"}});
       },
       Code::DataLoss, "ProtocolError"},
      {"a long session id",
       [](const Seen& s) {
         s.reply->json(200, s.result(kInitialized), {{"Mcp-Session-Id", std::string(2000, 'x')}});
       },
       Code::DataLoss, "ProtocolError"},
      {"silence", [](const Seen&) {}, Code::DeadlineExceeded, "Unreachable"},
      {"lost", [](const Seen& s) { s.reply->lost(); }, Code::Unavailable, "Unreachable"},
  };
  for (const auto& [what, answer, code, reason] : cases) {
    SCOPED_TRACE(what);
    Fixture f([&](const Seen& seen) {
      if (seen.method() == "initialize")
        answer(seen);
      else
        handshakeEra(seen);
    });
    auto info = f.connect();
    ASSERT_FALSE(info);
    EXPECT_EQ(info.error().code, code) << info.error().text();
    EXPECT_EQ(info.error().reason, reason);
    EXPECT_LE(f.spent(), 10s);
    EXPECT_FALSE(f.connect()) << "and tries again";
  }
}

TEST(Mcp, ArgumentsAreAnObject) {
  Fixture f([](const Seen&) {});
  EXPECT_EQ(f.call("add", json::Array{}).error().code, Code::InvalidArgument);
  EXPECT_THAT(f.server.lines(), IsEmpty());
}

// ---------------------------------------------------------------------------------------------
// Lists

TEST(Mcp, AllPages) {
  Fixture f([](const Seen& seen) {
    if (handshakeEra(seen)) return;
    std::string cursor = seen.body["params"]["cursor"].string();
    seen.reply->json(
        200, seen.result(cursor.empty()  ? R"({"tools":[{"name":"a"}],"nextCursor":"2"})"
                         : cursor == "2" ? R"({"tools":[],"nextCursor":"3"})"
                                         : R"({"tools":[{"name":"b"}],"nextCursor":null})"));
  });
  auto list = f.list();
  ASSERT_TRUE(list) << list.error().text();
  EXPECT_THAT(names(*list), ElementsAre("a", "b"));
}

TEST(Mcp, BadLists) {
  struct {
    const char* what;
    std::function<std::string(int page)> page;
    Code code;
    const char* text;
  } cases[] = {
      {"no list", [](int) { return "{}"; }, Code::DataLoss, "is none"},
      {"no object", [](int) { return "[]"; }, Code::DataLoss, "is none"},
      {"no name", [](int) { return R"({"tools":[{"name":"a"},{}]})"; }, Code::DataLoss,
       "without a name"},
      {"an odd name", [](int) { return R"({"tools":[{"name":7}]})"; }, Code::DataLoss,
       "without a name"},
      {"a circle",
       [](int page) {
         return page % 2 ? R"({"tools":[],"nextCursor":"a"})" : R"({"tools":[],"nextCursor":"b"})";
       },
       Code::DataLoss, "was there before"},
      {"no end", [](int page) { return format(R"({{"tools":[],"nextCursor":"{}"}})", page); },
       Code::ResourceExhausted, "more than 10 pages"},
      {"many tools",
       [](int page) {
         return format(
             R"({{"tools":[{{"name":"a"}},{{"name":"b"}},{{"name":"c"}},{{"name":"d"}}],"nextCursor":"{}"}})",
             page);
       },
       Code::ResourceExhausted, "more than 9 tools"},
      {"large pages",
       [](int page) {
         return format(R"({{"tools":[],"nextCursor":"{}","x":"{}"}})", page,
                       std::string(3000, 'x'));
       },
       Code::ResourceExhausted, "larger than"},
  };
  for (const auto& [what, page, code, text] : cases) {
    SCOPED_TRACE(what);
    int pages = 0;
    Fixture f(
        [&](const Seen& seen) {
          if (!handshakeEra(seen)) seen.reply->json(200, seen.result(page(++pages)));
        },
        {.limits = {.answer_bytes = 10000, .tools = 9, .pages = 10}});
    auto list = f.list();
    ASSERT_FALSE(list);
    EXPECT_EQ(list.error().code, code);
    EXPECT_EQ(list.error().reason, "ProtocolError");
    EXPECT_THAT(list.error().text(), HasSubstr(text));
  }
}

TEST(Mcp, AListHasOneTimeLimit) {
  Fixture slow([&](const Seen& seen) {
    if (handshakeEra(seen)) return;
    // Each page takes three seconds.
    auto timer = std::make_shared<Pending>();
    *timer = slow.scheduler.after(3s, [seen, timer] {
      seen.reply->json(200, seen.result(format(R"({{"tools":[],"nextCursor":"{}"}})",
                                               json::write(seen.body["id"]))));
    });
  });
  auto list = slow.list();
  ASSERT_FALSE(list);
  EXPECT_EQ(list.error().code, Code::DeadlineExceeded);
  EXPECT_EQ(slow.spent(), 10s);
}

TEST(Mcp, ALostConnectionIsNoReasonToFailAList) {
  int lists = 0;
  Fixture f([&](const Seen& seen) {
    if (handshakeEra(seen)) return;
    ++lists < 2 ? seen.reply->lost() : seen.reply->json(200, seen.result(kTwoTools));
  });
  EXPECT_TRUE(f.list());
  lists = -10;
  auto failed = f.list();
  ASSERT_FALSE(failed);
  EXPECT_EQ(lists, -8) << "once more, not for ever";
  EXPECT_EQ(failed.error().reason, "Unreachable");
}

// ---------------------------------------------------------------------------------------------
// Sessions

TEST(Mcp, ALostSessionIsMadeAnew) {
  struct {
    const char* what;
    std::function<void(const Seen&)> refuse;
  } cases[] = {
      {"404",
       [](const Seen& s) {
         s.reply->json(
             404,
             R"({"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Session not found"}})");
       }},
      {"a bare 404",
       [](const Seen& s) {
         s.reply->head(404);
         s.reply->end();
       }},
      {"400",
       [](const Seen& s) {
         s.reply->json(
             400,
             R"({"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: No valid session ID provided"}})");
       }},
  };
  for (const auto& [what, refuse] : cases) {
    SCOPED_TRACE(what);
    int session = 1;
    Fixture f([&](const Seen& seen) {
      std::string current = format("s{}", session);
      if (handshakeEra(seen, current)) return;
      seen.header("Mcp-Session-Id") == current ? seen.reply->json(200, seen.result(kText))
                                               : refuse(seen);
    });
    ASSERT_TRUE(f.call());
    ++session;  // as after a restart
    f.server.seen.clear();
    int done = 0;
    auto count = [&](Result<McpToolResult> result) { done += result.ok(); };
    Pending first = f.client->callTool("add", {}, count),
            second = f.client->callTool("add", {}, count);
    f.scheduler.runReady();
    EXPECT_EQ(done, 2);
    EXPECT_THAT(f.server.lines(),
                ElementsAre("POST tools/call", "POST tools/call", "POST initialize",
                            "POST notifications/initialized", "POST tools/call", "POST tools/call"))
        << "one new session for both, and no probe";
  }
}

TEST(Mcp, ASessionThatIsAlwaysLostIsAFailure) {
  Fixture f([&](const Seen& seen) {
    if (!handshakeEra(seen)) seen.reply->head(404), seen.reply->end();
  });
  auto result = f.call();
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::NotFound);
  EXPECT_EQ(result.error().reason, "ProtocolError");
  EXPECT_EQ(f.server.seen.size(), 1u + 3 + 3) << "the probe, and twice a handshake and a call";
}

TEST(Mcp, WithoutASessionA404IsWhatItSays) {
  Fixture f([&](const Seen& seen) {
    if (!handshakeEra(seen, "")) seen.reply->head(404), seen.reply->end();
  });
  EXPECT_EQ(f.call().error().code, Code::NotFound);
  EXPECT_EQ(f.server.seen.size(), 4u);
  EXPECT_TRUE(f.close());
  EXPECT_EQ(f.server.seen.size(), 4u) << "nothing to end";
}

TEST(Mcp, AnErrorAboutArgumentsIsNoLostSession) {
  Fixture f([&](const Seen& seen) {
    if (!handshakeEra(seen))
      seen.reply->json(400, seen.error(-32602, "no such session in arguments"));
  });
  EXPECT_EQ(f.call().error().code, Code::InvalidArgument);
  EXPECT_EQ(f.server.seen.size(), 4u);
}

TEST(Mcp, AListWhosePagesAreOfALostSessionStartsAgain) {
  int session = 1;
  Fixture f([&](const Seen& seen) {
    std::string current = format("s{}", session);
    if (handshakeEra(seen, current)) return;
    std::string cursor = seen.body["params"]["cursor"].string();
    if (seen.header("Mcp-Session-Id") != current) {
      seen.reply->head(404);
      seen.reply->end();
    } else if (cursor.empty()) {
      seen.reply->json(200, seen.result(format(R"({{"tools":[{{"name":"{}"}}],"nextCursor":"{}"}})",
                                               current, current)));
      if (session == 1) ++session;
    } else {
      EXPECT_EQ(cursor, current);
      seen.reply->json(200, seen.result(R"({"tools":[{"name":"last"}]})"));
    }
  });
  auto list = f.list();
  ASSERT_TRUE(list) << list.error().text();
  EXPECT_THAT(names(*list), ElementsAre("s2", "last"));
}

TEST(Mcp, AStatelessServerThatBecomesAnOlderOne) {
  bool old = false;
  Fixture f([&](const Seen& seen) {
    if (!old && statelessEra(seen)) return;
    if (old && handshakeEra(seen)) return;
    if (old && seen.header("Mcp-Session-Id").empty())
      return seen.reply->json(400, seen.error(-32600, "Bad Request: Missing session ID"));
    seen.reply->json(200, seen.result(kText));
  });
  ASSERT_TRUE(f.call());
  old = true;
  auto result = f.call();
  ASSERT_TRUE(result) << result.error().text();
  EXPECT_EQ(f.client->server().era, McpEra::Handshake);
}

TEST(Mcp, CloseEndsTheSession) {
  int status = 200;
  Fixture f([&](const Seen& seen) {
    if (seen.http.method != "DELETE") return void(handshakeEra(seen));
    if (status == 0) return seen.reply->lost();
    if (status > 0) seen.reply->head(status), seen.reply->end();
  });
  for (int now : {200, 204, 405, 404}) {
    status = now;
    ASSERT_TRUE(f.connect());
    EXPECT_TRUE(f.close()) << now;
    EXPECT_EQ(f.server.seen.back().http.method, "DELETE");
    EXPECT_EQ(f.server.seen.back().header("Mcp-Session-Id"), "s1");
  }
  for (auto [now, code] : {std::pair{0, Code::Unavailable}, {-1, Code::DeadlineExceeded}}) {
    status = now;
    ASSERT_TRUE(f.connect());
    auto closed = f.close();
    ASSERT_FALSE(closed);
    EXPECT_EQ(closed.error().code, code);
  }
  EXPECT_TRUE(f.close()) << "twice";
}

TEST(Mcp, CloseWhileConnecting) {
  Fixture f([](const Seen&) {});
  std::optional<Result<McpServerInfo>> connected;
  Pending connecting =
      f.client->connect([&](auto result) { connected.emplace(std::move(result)); });
  f.scheduler.runReady();
  EXPECT_TRUE(f.close());
  ASSERT_TRUE(connected);
  EXPECT_EQ(connected->error().code, Code::Cancelled);
  EXPECT_EQ(f.scheduler.timers(), 0u);
}

// ---------------------------------------------------------------------------------------------
// Giving up

TEST(Mcp, ACallThatIsGivenUpIsCancelledAtTheServer) {
  Fixture f([](const Seen& seen) { handshakeEra(seen); });
  Pending dropped = f.client->callTool("slow", {}, [](auto) { FAIL(); });
  f.scheduler.runReady();
  ASSERT_EQ(f.server.seen.size(), 4u);
  dropped.reset();
  f.scheduler.runReady();
  EXPECT_TRUE(f.server.seen[3].reply->dropped());
  ASSERT_EQ(f.server.seen.size(), 5u);
  EXPECT_EQ(f.server.seen[4].method(), "notifications/cancelled");
  EXPECT_EQ(f.server.seen[4].body["params"]["requestId"], f.server.seen[3].body["id"]);
  EXPECT_EQ(f.server.seen[4].header("Mcp-Session-Id"), "s1");

  auto timed_out = f.call("slow");
  EXPECT_EQ(timed_out.error().code, Code::DeadlineExceeded);
  f.scheduler.runReady();
  EXPECT_EQ(f.server.seen.back().method(), "notifications/cancelled");
  f.scheduler.advance(1min);
  EXPECT_EQ(f.scheduler.timers(), 0u);
}

TEST(Mcp, InTheStatelessEraTheClosedStreamSaysIt) {
  Fixture f([](const Seen& seen) { statelessEra(seen); });
  Pending dropped = f.client->callTool("slow", {}, [](auto) { FAIL(); });
  f.scheduler.runReady();
  dropped.reset();
  f.scheduler.runReady();
  EXPECT_TRUE(f.server.seen[1].reply->dropped());
  EXPECT_EQ(f.server.seen.size(), 2u);
  EXPECT_EQ(f.scheduler.timers(), 0u);
}

TEST(Mcp, AHandshakeGoesOnForTheNext) {
  Fixture f([](const Seen& seen) {
    if (!handshakeEra(seen)) seen.reply->json(200, seen.result(kText));
  });
  Pending dropped = f.client->callTool("add", {}, [](auto) { FAIL(); });
  dropped.reset();
  f.scheduler.runReady();
  EXPECT_EQ(f.server.seen.size(), 3u);
  EXPECT_TRUE(f.call());
  EXPECT_EQ(f.server.seen.size(), 4u);
}

TEST(Mcp, MayBeDestroyedAtAnyTime) {
  // In each callback, and between any two steps.
  for (int steps = 0; steps < 40; ++steps) {
    Fixture f([](const Seen& seen) {
      if (handshakeEra(seen)) return;
      seen.reply->events();
      seen.reply->data(writeSse({.data = R"({"jsonrpc":"2.0","id":1,"method":"ping"})"}));
      seen.reply->data(writeSse({.data = seen.result(kText)}));
    });
    int left = steps;
    bool gone = false;
    f.scheduler.post([&] {});
    Pending call = f.client->callTool("add", {}, [&](auto) { EXPECT_FALSE(gone); });
    Pending list = f.client->listTools([&](auto) { EXPECT_FALSE(gone); });
    Pending connect = f.client->connect([&](auto) { EXPECT_FALSE(gone); });
    std::function<void()> tick = [&] {
      if (left-- > 0) return f.scheduler.post([&] { tick(); });
      gone = true;
      f.client.reset();
    };
    tick();
    f.scheduler.runReady();
    f.scheduler.advance(2min);
    EXPECT_TRUE(gone);
  }
  for (std::string when : {"connect", "list", "call", "changed"}) {
    std::function<void(std::string_view)> reached;
    Fixture f(
        [](const Seen& seen) {
          if (handshakeEra(seen)) return;
          seen.reply->events();
          seen.reply->data(
              writeSse(
                  {.data = R"({"jsonrpc":"2.0","method":"notifications/tools/list_changed"})"}) +
              writeSse({.data = seen.result(kText)}) + writeSse({.data = "x"}));
        },
        {.tools_changed = [&] { reached("changed"); }});
    int calls = 0;
    reached = [&](std::string_view what) {
      ++calls;
      if (what == when) f.client.reset();
    };
    Pending connect = f.client->connect([&](auto) { reached("connect"); });
    Pending list = f.client->listTools([&](auto) { reached("list"); });
    Pending call = f.client->callTool("add", {}, [&](auto) { reached("call"); });
    f.scheduler.runReady();
    f.scheduler.advance(2min);
    EXPECT_FALSE(f.client) << when;
    EXPECT_GE(calls, 1);
  }
}

// ---------------------------------------------------------------------------------------------
// Redirects, resumption, headers

TEST(Mcp, RedirectsWithinTheOrigin) {
  struct {
    const char* location;
    bool followed;
  } cases[] = {
      {"/mcp/", true},
      {"http://tools.example:8000/mcp/", true},
      {"HTTP://TOOLS.example:8000/mcp/#x", true},
      {"https://tools.example:8000/mcp/", false},
      {"http://tools.example/mcp/", false},
      {"http://evil.example:8000/mcp/", false},
      {"http://tools.example:8000@evil.example/mcp/", false},
      {"//evil.example/mcp/", false},
      {"mcp/", false},
      {"", false},
  };
  for (auto [location, followed] : cases)
    for (int status : {307, 308}) {
      SCOPED_TRACE(location);
      Fixture f(
          [&](const Seen& seen) {
            if (seen.http.target == "/mcp") {
              seen.reply->head(status, {{"Location", location}});
              return seen.reply->end();
            }
            EXPECT_EQ(seen.http.target, "/mcp/");
            if (!handshakeEra(seen)) seen.reply->json(200, seen.result(kText));
          },
          {.era = McpEra::Handshake});
      auto result = f.call();
      EXPECT_EQ(result.ok(), followed);
      EXPECT_THAT(result ? "redirects" : result.error().text(), HasSubstr("redirects"));
    }
  Fixture endless(
      [](const Seen& seen) {
        seen.reply->head(307, {{"Location", "/mcp"}});
        seen.reply->end();
      },
      {.era = McpEra::Handshake});
  EXPECT_FALSE(endless.call());
  EXPECT_EQ(endless.server.seen.size(), 2u);
}

TEST(Mcp, AStreamIsResumedWhereItsEventsHaveNumbers) {
  Fixture f([](const Seen& seen) {
    static json::Value id;
    if (seen.http.method == "GET") {
      EXPECT_EQ(seen.header("Mcp-Session-Id"), "s1");
      EXPECT_EQ(seen.header("Accept"), "text/event-stream");
      seen.reply->events();
      if (seen.header("Last-Event-ID") == "e1") {
        seen.reply->data(
            "id: e2\n" +
            writeSse({.data = R"({"jsonrpc":"2.0","method":"notifications/progress"})"}));
        return seen.reply->lost();
      }
      EXPECT_EQ(seen.header("Last-Event-ID"), "e2");
      seen.reply->data(writeSse(
          {.data = format(R"({{"jsonrpc":"2.0","id":{},"result":{}}})", json::write(id), kText)}));
      return seen.reply->end();
    }
    if (handshakeEra(seen)) return;
    id = seen.body["id"];
    seen.reply->events();
    seen.reply->data("retry: 500\nid: e1\ndata:\n\n");
    seen.reply->end();
  });
  auto result = f.call();
  ASSERT_TRUE(result) << result.error().text();
  EXPECT_EQ(result->text(), "3");
  EXPECT_EQ(f.spent(), 1s) << "twice as long as the server asked";
  EXPECT_EQ(f.server.seen.size(), 6u);
}

TEST(Mcp, AStreamIsNotResumedForEver) {
  struct {
    const char* what;
    std::function<void(const Seen&)> get;
    std::size_t times;
  } cases[] = {
      {"refused",
       [](const Seen& s) {
         s.reply->head(405);
         s.reply->end();
       },
       2},
      {"lost", [](const Seen& s) { s.reply->lost(); }, 2},
      {"never the answer",
       [](const Seen& s) {
         s.reply->events();
         s.reply->data("id: e\ndata:\n\n");
         s.reply->end();
       },
       5},
  };
  for (const auto& [what, get, times] : cases) {
    SCOPED_TRACE(what);
    Fixture f(
        [&](const Seen& seen) {
          if (seen.http.method == "GET") return get(seen);
          if (handshakeEra(seen)) return;
          seen.reply->events();
          seen.reply->data("id: e\ndata:\n\n");
          seen.reply->end();
        },
        {.limits = {.resumptions = 5}});
    EXPECT_FALSE(f.call());
    EXPECT_EQ(f.server.seen.size(), 4u + times);
  }
}

TEST(Mcp, ParameterHeaders) {
  struct {
    const char* what;
    const char* schema;
    const char* headers;  // of the arguments below; null: the schema is wrong
  } cases[] = {
      {"none", R"({"properties":{"region":{"type":"string"}}})", ""},
      {"a string", R"({"properties":{"region":{"type":"string","x-mcp-header":"Region"}}})",
       "Mcp-Param-Region: eu west\n"},
      {"nested",
       R"({"properties":{"deep":{"properties":{"n":{"type":"integer","x-mcp-header":"N"}}}}})",
       "Mcp-Param-N: 7\n"},
      {"a boolean", R"({"properties":{"dry":{"type":"boolean","x-mcp-header":"Dry"}}})",
       "Mcp-Param-Dry: true\n"},
      {"absent and null",
       R"({"properties":{"x":{"type":"string","x-mcp-header":"X"},"nil":{"type":"string","x-mcp-header":"Nil"}}})",
       ""},
      {"an object", R"({"properties":{"deep":{"type":"string","x-mcp-header":"X"}}})", ""},
      {"needs coding", R"({"properties":{"odd":{"type":"string","x-mcp-header":"Odd"}}})",
       "Mcp-Param-Odd: =?base64?YQ1i?=\n"},
      {"a number", R"({"properties":{"f":{"type":"number","x-mcp-header":"F"}}})", nullptr},
      {"no type", R"({"properties":{"f":{"x-mcp-header":"F"}}})", nullptr},
      {"no token", R"({"properties":{"f":{"type":"string","x-mcp-header":"a b"}}})", nullptr},
      {"empty", R"({"properties":{"f":{"type":"string","x-mcp-header":""}}})", nullptr},
      {"no text", R"({"properties":{"f":{"type":"string","x-mcp-header":1}}})", nullptr},
      {"twice",
       R"({"properties":{"f":{"type":"string","x-mcp-header":"A"},"g":{"type":"string","x-mcp-header":"a"}}})",
       nullptr},
      {"at the root", R"({"type":"string","x-mcp-header":"A"})", nullptr},
      {"in items", R"({"properties":{"l":{"items":{"type":"string","x-mcp-header":"A"}}}})",
       nullptr},
      {"in a choice", R"({"anyOf":[{"properties":{"f":{"type":"string","x-mcp-header":"A"}}}]})",
       nullptr},
      {"in a definition", R"({"$defs":{"f":{"type":"string","x-mcp-header":"A"}}})", nullptr},
      {"as data",
       R"({"properties":{"f":{"default":{"x-mcp-header":1},"enum":[{"x-mcp-header":1}]}}})", ""},
      {"no schema", "null", ""},
  };
  json::Value arguments =
      *json::parse(R"({"region":"eu west","deep":{"n":7},"dry":true,"nil":null,"odd":"a\rb"})");
  for (auto [what, schema, expected] : cases) {
    SCOPED_TRACE(what);
    auto wanted = mcpParamHeaders(*json::parse(schema));
    ASSERT_EQ(wanted.ok(), expected != nullptr);
    if (!wanted) continue;
    net::Headers headers;
    addParamHeaders(headers, *wanted, arguments);
    std::string text;
    for (const auto& [name, value] : headers) text += name + ": " + value + "\n";
    EXPECT_EQ(text, expected);
  }
  for (auto [text, value] : {std::pair{"plain text", "plain text"},
                             {" x", "=?base64?IHg=?="},
                             {"=?base64?eA==?=", "=?base64?PT9iYXNlNjQ/ZUE9PT89?="},
                             {"", ""}})
    EXPECT_EQ(mcpHeaderValue(text), value);
}

TEST(Mcp, AToolThatWantsHeadersIsListedFirst) {
  Fixture f([](const Seen& seen) {
    if (statelessEra(seen)) return;
    if (seen.method() == "tools/list")
      return seen.reply->json(200, seen.result(R"({"tools":[
          {"name":"add","inputSchema":{"properties":{"region":{"type":"string","x-mcp-header":"Region"}}}},
          {"name":"bad","inputSchema":{"x-mcp-header":"R"}}]})"));
    if (seen.header("Mcp-Param-Region") != "eu")
      return seen.reply->json(400, seen.error(-32020, "header missing"));
    seen.reply->json(200, seen.result(kText));
  });
  auto result = f.call("add", json::Object{{"region", "eu"}});
  ASSERT_TRUE(result) << result.error().text();
  EXPECT_THAT(f.server.lines(), ElementsAre("POST server/discover", "POST tools/call",
                                            "POST tools/list", "POST tools/call"));
  ASSERT_TRUE(f.call("add", json::Object{{"region", "eu"}}));
  EXPECT_EQ(f.server.seen.size(), 5u) << "known by now";
  auto refused = f.call("add", json::Object{{"region", "us"}});
  EXPECT_EQ(rpcCode(refused.error()), -32020);
  EXPECT_EQ(f.server.seen.size(), 8u) << "and not for ever";
  auto list = f.list();
  EXPECT_THAT(names(*list), ElementsAre("add"));
  EXPECT_THAT(list->left_out, ElementsAre(HasSubstr("bad: x-mcp-header")));
}

// ---------------------------------------------------------------------------------------------
// Over sockets

// Plays a script of Seen over a real connection.
struct Socket {
  net::Loop loop;
  std::unique_ptr<net::HttpServer> server;
  std::unique_ptr<net::PooledHttpClient> http;
  std::unique_ptr<McpClient> client;
  std::vector<std::string> lines;
  std::vector<std::shared_ptr<net::ServerRequest>> open;

  Socket() {
    server = *net::HttpServer::listen(
        loop, {},
        [this](std::shared_ptr<net::ServerRequest> request) { serve(std::move(request)); });
    auto url = *mcpUrl(format("http://127.0.0.1:{}", server->port()));
    http = *net::makeHttpClient(loop, {.url = url, .connect_timeout = 5s});
    client = std::make_unique<McpClient>(loop, *http, McpOptions{.url = url});
  }

  void serve(std::shared_ptr<net::ServerRequest> request) {
    json::Value body = request->body.empty() ? json::Value() : *json::parse(request->body);
    std::string method = body["method"].string();
    lines.push_back(request->method + " " + method);
    auto answer = [&](std::string_view result) {
      return format(R"({{"jsonrpc":"2.0","id":{},"result":{}}})", json::write(body["id"]), result);
    };
    if (method == "initialize") {
      request->respond(200, {{"Content-Type", "application/json"}, {"Mcp-Session-Id", "s"}},
                       answer(kInitialized));
    } else if (method == "tools/list") {
      request->begin(200, {{"Content-Type", "text/event-stream"}});
      request->write(": hello\r\n\r\nevent: message\r\ndata: ");
      request->write(answer(kTwoTools) + "\r\n\r\n");
      request->end();
    } else if (method == "tools/call") {
      open.push_back(request);
      if (body["params"]["name"] == "slow") return;
      request->respond(200, {{"Content-Type", "application/json"}}, answer(kText));
    } else {
      request->respond(body["id"].isNull() ? 202 : 400, {}, "");
    }
  }
};

TEST(McpOverSockets, ListsCallsAndCloses) {
  Socket s;
  auto list = net::await<McpToolList>(
      s.loop, [&](auto done) { return s.client->listTools(std::move(done)); }, 10s);
  ASSERT_TRUE(list) << list.error().text();
  EXPECT_THAT(names(*list), ElementsAre("b", "a"));
  auto call = net::await<McpToolResult>(
      s.loop, [&](auto done) { return s.client->callTool("add", {}, std::move(done)); }, 10s);
  ASSERT_TRUE(call) << call.error().text();
  EXPECT_TRUE(
      net::await<void>(s.loop, [&](auto done) { return s.client->close(std::move(done)); }, 10s));
  EXPECT_THAT(s.lines, ElementsAre("POST server/discover", "POST initialize",
                                   "POST notifications/initialized", "POST tools/list",
                                   "POST tools/call", "DELETE "));
  EXPECT_EQ(s.http->stats().dialled, 1u)
      << "an event stream that ends leaves its connection usable";
}

TEST(McpOverSockets, DroppingACallTellsTheServer) {
  Socket s;
  Pending call = s.client->callTool("slow", {}, [](auto) { FAIL(); });
  ASSERT_TRUE(s.loop.runUntil([&] { return !s.open.empty(); }, 10s));
  bool gone = false;
  s.open[0]->onGone([&] { gone = true; });
  call.reset();
  ASSERT_TRUE(s.loop.runUntil(
      [&] { return gone && s.lines.back() == "POST notifications/cancelled"; }, 10s));
}

TEST(McpOverSockets, NobodyThere) {
  Socket s;
  s.server.reset();
  auto list = net::await<McpToolList>(
      s.loop, [&](auto done) { return s.client->listTools(std::move(done)); }, 10s);
  ASSERT_FALSE(list);
  EXPECT_EQ(list.error().reason, "Unreachable");
  EXPECT_EQ(list.error().code, Code::Unavailable);
  EXPECT_THAT(list.error().text(), HasSubstr("refused"));
}

TEST(McpOverSockets, NoMcpThere) {
  net::Loop loop;
  auto server = *net::HttpServer::listen(loop, {}, [](std::shared_ptr<net::ServerRequest> request) {
    request->respond(404, {{"Content-Type", "text/plain"}}, "404 page not found\n");
  });
  auto url = *mcpUrl(format("http://127.0.0.1:{}", server->port()));
  auto http = *net::makeHttpClient(loop, {.url = url});
  McpClient client(loop, *http, {.url = url});
  auto list = net::await<McpToolList>(
      loop, [&](auto done) { return client.listTools(std::move(done)); }, 10s);
  ASSERT_FALSE(list);
  EXPECT_EQ(list.error().reason, "ProtocolError");
  EXPECT_THAT(list.error().text(), HasSubstr("404 page not found"));
}

TEST(McpOverSockets, TlsAndHttp2) {
  net::Loop loop;
  auto server = net::WireServer::start(loop, {}, [](net::WireServer::Request request, auto reply) {
    json::Value body = *json::parse(request.body);
    std::string_view result = body["method"] == "tools/list" ? kTwoTools : kDiscovered;
    reply->json(
        200, format(R"({{"jsonrpc":"2.0","id":{},"result":{}}})", json::write(body["id"]), result));
  });
  auto url = *mcpUrl(server->url());
  auto http = *net::makeHttpClient(loop, {.url = url, .tls = {.ca = server->ca()}});
  McpClient client(loop, *http, {.url = url});
  auto list = net::await<McpToolList>(
      loop, [&](auto done) { return client.listTools(std::move(done)); }, 10s);
  ASSERT_TRUE(list) << list.error().text();
  EXPECT_THAT(names(*list), ElementsAre("b", "a"));
  // A certificate that is not trusted: nobody to speak to.
  auto other = *net::makeHttpClient(loop, {.url = url});
  McpClient careful(loop, *other, {.url = url});
  auto refused = net::await<McpToolList>(
      loop, [&](auto done) { return careful.listTools(std::move(done)); }, 10s);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().reason, "Unreachable");
  EXPECT_THAT(refused.error().text(), HasSubstr("certificate"));
}

}  // namespace
}  // namespace cadre::wire
