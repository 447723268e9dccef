#include "kinds/kaos/tools.h"

#include "base/format.h"
#include "base/strings.h"
#include "net/http_client.h"
#include "wire/mcp_client.h"

namespace cadre::kaos {
namespace {

// One question, with everything that it needs until it is answered.
struct Question {
  std::unique_ptr<net::HttpClient> http;
  std::unique_ptr<wire::McpClient> client;
  Pending pending;
};

Result<std::unique_ptr<net::HttpClient>> reach(net::Loop& loop, kube::Client& client,
                                               const json::Value& input, const net::Url& url) {
  if (!client.config().in_cluster)
    return client.toService({input["namespace"].string(), input["service"].string()},
                            static_cast<int>(input["port"].integer()));
  CADRE_LET(std::unique_ptr<net::HttpClient> http,
            net::makeHttpClient(loop, {.url = url, .connect_timeout = 5s}));
  return http;
}

Result<> ask(net::Loop& loop, kube::Client& client, const json::Value& input, Question& question,
             Function<void(Result<json::Value>)>& done) {
  CADRE_LET(net::Url url, wire::mcpUrl(input["endpoint"].string()));
  CADRE_LET(question.http, reach(loop, client, input, url));
  question.client = std::make_unique<wire::McpClient>(loop, *question.http,
                                                      wire::McpOptions{.url = std::move(url)});
  question.pending = question.client->listTools(
      [done = std::move(done), through = !client.config().in_cluster,
       service = input["service"].string()](Result<wire::McpToolList> listed) {
        if (!listed) {
          Error error = listed.error();
          // It is the API server that answers, and passes nothing on. What it knows of Services and
          // their pods comes a moment later than what we know: the two are one.
          std::string text = error.text();
          bool finds_none = text.find("no endpoints available for") != std::string::npos ||
                            text.find(R"("kind":"services")") != std::string::npos;
          if (through && finds_none)
            error = {.code = Code::Unavailable,
                     .message = format("the API server finds no pod of Service \"{}\"", service)};
          if (through &&
              (finds_none || error.code == Code::Forbidden || error.code == Code::Unauthenticated))
            error.reason = wire::kMcpUnreachable;
          error.message = format("{}: {}", error.reason, error.message);
          return done(std::move(error));
        }
        json::Array names;
        for (const wire::McpTool& tool : listed->tools) names.emplace_back(tool.name);
        // Tools that we could not call are tools all the same.
        for (const std::string& left_out : listed->left_out)
          names.emplace_back(cut(left_out, ": ").first);
        done(json::Value(std::move(names)));
      });
  return {};
}

}  // namespace

engine::ObservationClass toolsObservation(net::Loop& loop, kube::Client& client, Duration refresh) {
  return {.name = "mcp-tools",
          .refresh = refresh,
          .timeout = 20s,
          .limit = 8,
          .look = [&loop, &client](const json::Value& input,
                                   Function<void(Result<json::Value>)> done) -> Pending {
            auto question = std::make_shared<Question>();
            if (auto asked = ask(loop, client, input, *question, done); !asked)
              question->pending =
                  loop.after(0s, [done = std::move(done), error = asked.error()] { done(error); });
            return Pending([question]() mutable { question.reset(); });
          }};
}

}  // namespace cadre::kaos
