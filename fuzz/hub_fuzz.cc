// Requests to a hub that has a few objects, one after the other: a line "METHOD /target type", the
// lines of its body, and an empty line. Each is answered once, in whole, with a status and JSON
// that says so, and the hub still serves everybody else afterwards.

#include <cstdint>
#include <string>
#include <string_view>

#include "base/strings.h"
#include "hub/transport.h"
#include "json/parse.h"
#include "require.h"

using namespace cadre;

namespace {

constexpr std::size_t kMaxRequests = 12;

struct House {
  FakeScheduler scheduler;
  Random random{1};
  hub::Hub hub{scheduler, random, {}};
  std::unique_ptr<net::HttpClient> http;

  House() {
    // Not furnished: the default roles take a hundred times as long as a request.
    http = hub::directTransport(scheduler, hub, "admin", {"system:masters"});
    require(ask("POST", "/api/v1/namespaces", "application/json",
                R"({"metadata":{"name":"default"}})") == 201);
  }

  // 0: it streams, and has not ended.
  int ask(std::string_view method, std::string_view target, std::string_view type,
          std::string_view body) {
    int status = 0;
    bool json = false, ended = false;
    std::string text;
    net::ResponseHandler handler;
    handler.head = [&](const net::ResponseHead& head) {
      require(status == 0);
      status = head.status;
      json = head.headers.get("content-type") == "application/json";
    };
    handler.data = [&](std::string_view piece) { text += piece; };
    handler.end = [&](const Result<>& result) {
      require(!ended && result.ok());
      ended = true;
    };
    Pending pending = http->send(
        {.method = std::string(method),
         .target = std::string(target),
         .headers = {{"content-type", std::string(type)}, {"accept", "application/json"}},
         .body = std::string(body)},
        std::move(handler));
    scheduler.runReady();
    for (int i = 0; i < 20 && !ended; ++i) scheduler.advance(1s);
    if (!ended) return 0;
    require(status >= 200 && status < 600);
    // What a watch that has ended said is many values, or none.
    bool whole = status >= 400 || target.find("watch") == std::string_view::npos;
    if (!json || !whole) return status;
    auto said = json::parse(text);
    require(said.ok());
    if (status >= 400)
      require((*said)["code"].integer() == status && !(*said)["message"].string().empty());
    return status;
  }
};

std::string_view typeOf(std::string_view word) {
  if (word == "json-patch") return "application/json-patch+json";
  if (word == "merge") return "application/merge-patch+json";
  if (word == "strategic") return "application/strategic-merge-patch+json";
  if (word == "apply") return "application/apply-patch+yaml";
  if (word == "yaml") return "application/yaml";
  if (word == "protobuf") return "application/vnd.kubernetes.protobuf";
  return "application/json";
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  House house;
  for (std::size_t i = 0; i < kMaxRequests && !rest.empty(); ++i) {
    auto [request, more] = cut(rest, "\n\n");
    rest = more;
    auto [line, body] = cut(request, "\n");
    auto [method, where] = cut(line, " ");
    auto [target, type] = cut(where, " ");
    if (!target.starts_with("/")) continue;
    house.ask(method, target, typeOf(type), body);
  }
  require(house.ask("GET", "/api/v1/namespaces/default", "", "") != 0);
  require(house.ask("GET", "/readyz", "", "") == 200);
  return 0;
}
