#include "kinds/kaos/tools.h"

#include "base/format.h"
#include "net/http_client.h"
#include "wire/mcp_client.h"

namespace cadre::kaos {
namespace {

// One question, with everything that it needs until it is answered.
struct Question {
  std::unique_ptr<net::PooledHttpClient> http;
  std::unique_ptr<wire::McpClient> client;
  Pending pending;
};

}  // namespace

engine::ObservationClass toolsObservation(net::Loop& loop, Duration refresh) {
  return {.name = "mcp-tools",
          .refresh = refresh,
          .timeout = 20s,
          .limit = 8,
          .look = [&loop](const json::Value& input,
                          Function<void(Result<json::Value>)> done) -> Pending {
            auto question = std::make_shared<Question>();
            auto url = wire::mcpUrl(input["endpoint"].string());
            Error error;
            if (url) {
              auto http = net::makeHttpClient(loop, {.url = *url, .connect_timeout = 5s});
              if (http) {
                question->http = *std::move(http);
              } else {
                error = http.error();
              }
            } else {
              error = url.error();
            }
            if (!question->http) {
              question->pending = loop.after(0s, [done = std::move(done), error] { done(error); });
              return Pending([question]() mutable { question.reset(); });
            }
            question->client = std::make_unique<wire::McpClient>(
                loop, *question->http, wire::McpOptions{.url = *std::move(url)});
            question->pending = question->client->listTools(
                [done = std::move(done)](Result<wire::McpToolList> listed) {
                  if (!listed) {
                    Error error = listed.error();
                    error.message = format("{}: {}", error.reason, error.message);
                    return done(std::move(error));
                  }
                  json::Array names;
                  for (const wire::McpTool& tool : listed->tools) names.emplace_back(tool.name);
                  done(json::Value(std::move(names)));
                });
            return Pending([question]() mutable { question.reset(); });
          }};
}

}  // namespace cadre::kaos
