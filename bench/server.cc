// What an API server does for many at once. Answers are thrown away, so that it is the server that
// is measured.
//
//   --do fanout   so many watch a namespace while ConfigMaps are made in it: the time from the
//                 first write until everybody has been told of every one
//   --do list     the objects of a namespace in one answer, as JSON
#include <algorithm>

#include "base/format.h"
#include "json/write.h"
#include "net/http_client.h"
#include "support.h"

namespace cadre::bench {
namespace {

struct Server {
  net::Loop& loop;
  net::HttpClient& http;
  const kube::Config& config;

  // Calls `data` with what comes, and `end` with how it ended.
  Pending send(net::HttpRequest request, Function<void(std::string_view)> data,
               Function<void(Result<>)> end) {
    request.headers = rawHeaders(config);
    request.headers.add("Content-Type", "application/json");
    net::ResponseHandler handler;
    handler.head = [](net::ResponseHead head) {
      if (head.status >= 300) fail(format("the server answered {}", head.status));
    };
    handler.data = std::move(data);
    handler.end = std::move(end);
    return http.send(std::move(request), std::move(handler));
  }
};

void fanOut(Server server, const std::string& ns, std::size_t watches, std::size_t count,
            std::size_t in_flight) {
  std::size_t told = 0, opened = 0;
  std::vector<Pending> open;
  open.reserve(watches);
  for (std::size_t i = 0; i < watches; ++i)
    open.push_back(server.send(
        {.target = configMaps().path(ns) +
                   "?watch=true&sendInitialEvents=true&allowWatchBookmarks=true"
                   "&resourceVersionMatch=NotOlderThan"},
        [&, begun = false](std::string_view piece) mutable {
          auto lines = static_cast<std::size_t>(std::count(piece.begin(), piece.end(), '\n'));
          if (!begun && lines > 0)
            begun = true, ++opened, --lines;  // the bookmark: nothing is there
          told += lines;
        },
        [](const Result<>&) { fail("a watch ended"); }));
  if (!server.loop.runUntil([&] { return opened == watches; }, 1min))
    fail("not all watches opened");

  Section section;
  runInLanes(server.loop, count, in_flight, [&](std::size_t number, Function<void()> done) {
    json::Object object{{"metadata", json::Object{{"name", format("settings-{}", number)}}},
                        {"data", json::Object{{"text", std::string(256, 'x')}}}};
    return server.send(
        {.method = "POST", .target = configMaps().path(ns), .body = json::write(object)},
        [](std::string_view) {},
        [done = std::move(done)](Result<> result) {
          check(result, "writing");
          done();
        });
  });
  if (!server.loop.runUntil([&] { return told >= watches * count; }, 5min))
    fail(format("{} of {} events came", told, watches * count));
  Cost cost = section.cost();
  print({{"events", told}, {"seconds", cost.seconds}, {"cpu_seconds", cost.cpu_seconds}});
}

void list(Server server, const std::string& ns) {
  std::size_t bytes = 0;
  Section section;
  auto done = net::await<bool>(server.loop, [&](auto finish) {
    return server.send(
        {.target = configMaps().path(ns)}, [&](std::string_view piece) { bytes += piece.size(); },
        [finish = std::move(finish)](Result<> result) {
          check(result, "listing");
          finish(true);
        });
  });
  check(std::move(done), "listing");
  Cost cost = section.cost();
  print({{"bytes", bytes}, {"seconds", cost.seconds}, {"cpu_seconds", cost.cpu_seconds}});
}

void run(Flags& flags) {
  kube::Config config = configFrom(flags);
  std::string what = flags.text("do", "");
  std::string ns = flags.text("ns", "bench");
  std::size_t watches = flags.number("watches", 100);
  std::size_t count = flags.number("count", 1000);
  std::size_t in_flight = flags.number("in-flight", 16);
  flags.end();

  net::Loop loop;
  auto http = check(
      net::makeHttpClient(
          loop, {.url = config.server, .tls = config.tls, .max_connections = watches + in_flight}),
      "connecting");
  Server server{loop, *http, config};
  if (what == "list") return list(server, ns);
  if (what != "fanout") fail(format("there is no \"{}\" to do", what));
  {
    auto client = check(kube::Client::connect(loop, config), "connecting");
    createNamespace(loop, *client, ns);
  }
  fanOut(server, ns, watches, count, in_flight);
}

}  // namespace
}  // namespace cadre::bench

int main(int argc, char** argv) {
  cadre::bench::Flags flags(argc, argv);
  cadre::bench::run(flags);
}
