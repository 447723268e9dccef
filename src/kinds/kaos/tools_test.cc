#include "kinds/kaos/tools.h"

#include "base/format.h"
#include "json/parse.h"
#include "net/http_server.h"

namespace cadre::kaos {
namespace {

using testing::HasSubstr;

// An MCP server of the older era, whatever its path.
void speak(net::ServerRequest& request) {
  json::Value asked = *json::parse(request.body);
  std::string id = asked["id"].isString() ? format("\"{}\"", asked["id"].string())
                                          : format("{}", asked["id"].integer());
  auto say = [&](std::string_view result) {
    request.respond(200, {{"Content-Type", "application/json"}},
                    format(R"({{"jsonrpc":"2.0","id":{},{}}})", id, result));
  };
  const std::string& method = asked["method"].string();
  if (method == "initialize")
    return say(R"("result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},
                  "serverInfo":{"name":"t","version":"1"}})");
  if (method == "tools/list")
    return say(R"("result":{"tools":[{"name":"reverse","inputSchema":{"type":"object"}},
                                     {"name":"echo","inputSchema":{"type":"object"}}]})");
  if (asked["id"].isNull()) return request.respond(202, {}, "");
  say(R"("error":{"code":-32601,"message":"no such method"})");
}

struct Asked {
  net::Loop loop;
  std::vector<std::string> targets;
  bool refuses = false;
  std::string says;  // with 404: what an API server says of a Service
  std::unique_ptr<net::HttpServer> server =
      *net::HttpServer::listen(loop, {}, [this](std::shared_ptr<net::ServerRequest> request) {
        targets.push_back(request->target);
        if (refuses) return request->respond(403, {}, "no");
        if (!says.empty())
          return request->respond(404, {{"Content-Type", "application/json"}}, says);
        speak(*request);
      });
  std::string url() const { return format("http://127.0.0.1:{}", server->port()); }

  Result<json::Value> ask(bool in_cluster, const std::string& endpoint) {
    auto client = *kube::Client::connect(
        loop, {.server = *net::Url::parse(url()), .in_cluster = in_cluster, .source = "t"});
    auto tools = toolsObservation(loop, *client, 10min);
    return net::await<json::Value>(loop, [&](auto done) {
      return tools.look(json::Object{{"endpoint", endpoint},
                                     {"namespace", "shop"},
                                     {"service", "mcpserver-x"},
                                     {"port", 8000}},
                        std::move(done));
    });
  }
};

TEST(Tools, OfAServerBesideUsAreAskedDirectly) {
  Asked a;
  auto names = a.ask(true, a.url());
  ASSERT_TRUE(names) << names.error().text();
  EXPECT_EQ(*names, json::Value(json::Array{"reverse", "echo"}));
  EXPECT_THAT(a.targets, testing::Each("/mcp"));
}

TEST(Tools, FromOutsideAreAskedThroughTheApiServer) {
  Asked a;
  auto names = a.ask(false, "http://mcpserver-x.shop.svc.cluster.local:8000");
  ASSERT_TRUE(names) << names.error().text();
  EXPECT_EQ(*names, json::Value(json::Array{"reverse", "echo"}));
  EXPECT_THAT(a.targets,
              testing::Each("/api/v1/namespaces/shop/services/http:mcpserver-x:8000/proxy/mcp"));
}

TEST(Tools, WhoMayNotPassTheApiServerDoesNotReachThem) {
  for (bool in_cluster : {true, false}) {
    Asked a;
    a.refuses = true;
    auto names = a.ask(in_cluster, a.url());
    ASSERT_FALSE(names);
    EXPECT_THAT(names.error().text(), HasSubstr(in_cluster ? "ProtocolError: " : "Unreachable: "));
  }
}

TEST(Tools, AServiceThatTheApiServerDoesNotKnowYetIsToldAsOneWithoutPods) {
  for (const char* says :
       {R"({"kind":"Status","status":"Failure","message":"services \"mcpserver-x\" not found",
            "details":{"name":"mcpserver-x","kind":"services"},"code":404})",
        R"({"kind":"Status","status":"Failure","code":503,
            "message":"no endpoints available for service \"http:mcpserver-x:8000\""})"}) {
    Asked a;
    a.says = says;
    auto names = a.ask(false, a.url());
    ASSERT_FALSE(names);
    EXPECT_EQ(names.error().text(),
              "Unreachable: the API server finds no pod of Service \"mcpserver-x\"");
  }
}

TEST(Tools, ErrorsBeginWithTheirReason) {
  Asked a;
  for (auto [endpoint, text] :
       {std::pair{"http://127.0.0.1:1", "Unreachable: "}, {"nonsense", "nonsense"}}) {
    auto names = a.ask(true, endpoint);
    ASSERT_FALSE(names);
    EXPECT_THAT(names.error().text(), HasSubstr(text));
  }
}

}  // namespace
}  // namespace cadre::kaos
