// Creates Deployments and Services and patches statuses, so many at a time, and tells how long that
// took and what it cost.
//
//   --client kube   through kube::Client: objects are built, written, and the answers parsed
//   --client raw    the limit: bodies made in advance, sent through net::HttpClient, and answers
//                   thrown away once their status is known
#include "json/write.h"

#include <algorithm>

#include "base/format.h"
#include "net/http_client.h"
#include "support.h"

namespace cadre::bench {
namespace {

struct Work {
  std::string ns;
  std::size_t count;  // of each kind
  std::size_t in_flight;
};

std::string nameOf(std::size_t number) { return format("web-{}", number); }
std::string groupOf(std::size_t number) { return format("g{}", number % 10); }

void writeThroughClient(net::Loop& loop, kube::Client& client, const Work& work) {
  auto finish = [](Function<void()> done) {
    return [done = std::move(done)](Result<json::Value> answer) {
      if (!answer) fail(answer.error().text());
      done();
    };
  };
  runInLanes(loop, work.count, work.in_flight, [&](std::size_t number, Function<void()> done) {
    return client.create(deployments(), deploymentObject(work.ns, nameOf(number), groupOf(number)),
                         {}, finish(std::move(done)));
  });
  runInLanes(loop, work.count, work.in_flight, [&](std::size_t number, Function<void()> done) {
    return client.create(services(), serviceObject(work.ns, nameOf(number), groupOf(number)), {},
                         finish(std::move(done)));
  });
  runInLanes(loop, work.count, work.in_flight, [&](std::size_t number, Function<void()> done) {
    return client.patch(deployments(), {work.ns, nameOf(number)}, kube::PatchType::Merge,
                        deploymentStatusPatch(), {.subresource = "status"},
                        finish(std::move(done)));
  });
}

std::vector<net::HttpRequest> requestsInAdvance(const kube::Config& config, const Work& work) {
  std::vector<net::HttpRequest> requests;
  auto add = [&](std::string method, std::string path, std::string type, const json::Value& body) {
    net::HttpRequest& request = requests.emplace_back();
    request = {.method = std::move(method),
               .target = std::move(path) + "?fieldManager=cadre",
               .headers = rawHeaders(config),
               .body = json::write(body)};
    request.headers.add("Content-Type", std::move(type));
  };
  for (std::size_t i = 0; i < work.count; ++i)
    add("POST", deployments().path(work.ns), "application/json",
        deploymentObject(work.ns, nameOf(i), groupOf(i)));
  for (std::size_t i = 0; i < work.count; ++i)
    add("POST", services().path(work.ns), "application/json",
        serviceObject(work.ns, nameOf(i), groupOf(i)));
  for (std::size_t i = 0; i < work.count; ++i)
    add("PATCH", deployments().path(work.ns, nameOf(i), "status"), "application/merge-patch+json",
        deploymentStatusPatch());
  return requests;
}

// Tells how long each answer took.
std::vector<double> writeRaw(net::Loop& loop, net::HttpClient& http,
                             std::vector<net::HttpRequest>& requests, const Work& work) {
  std::vector<double> seconds;
  seconds.reserve(requests.size());
  // In the same order as the client writes, one kind after the other.
  for (std::size_t first = 0; first < requests.size(); first += work.count)
    runInLanes(loop, work.count, work.in_flight, [&](std::size_t number, Function<void()> done) {
      net::ResponseHandler handler;
      handler.head = [](net::ResponseHead head) {
        if (head.status >= 300) fail(format("the server answered {}", head.status));
      };
      handler.end = [done = std::move(done), &seconds, section = Section()](Result<> result) {
        check(result, "sending");
        seconds.push_back(section.cost().seconds);
        done();
      };
      return http.send(std::move(requests[first + number]), std::move(handler));
    });
  return seconds;
}

void run(Flags& flags) {
  kube::Config config = configFrom(flags);
  Work work{.ns = flags.text("ns", "bench"),
            .count = flags.number("count", 1000),
            .in_flight = flags.number("in-flight", 16)};
  std::string how = flags.text("client", "kube");
  flags.end();

  net::Loop loop;
  auto client = check(kube::Client::connect(loop, config), "connecting");
  createNamespace(loop, *client, work.ns);

  Cost cost{};
  std::vector<double> answers;
  if (how == "kube") {
    Section section;
    writeThroughClient(loop, *client, work);
    cost = section.cost();
  } else if (how == "raw") {
    client.reset();
    auto http =
        check(net::makeHttpClient(loop, {.url = config.server, .tls = config.tls}), "connecting");
    auto requests = requestsInAdvance(config, work);
    Section section;
    answers = writeRaw(loop, *http, requests, work);
    cost = section.cost();
  } else {
    fail(format("there is no client \"{}\"", how));
  }
  json::Object said{{"writes", 3 * work.count},
                    {"seconds", cost.seconds},
                    {"cpu_seconds", cost.cpu_seconds},
                    {"peak_bytes", readMemory().peak}};
  if (!answers.empty()) {
    std::ranges::sort(answers);
    said["p99_seconds"] = answers[answers.size() * 99 / 100];
  }
  print(said);
}

}  // namespace
}  // namespace cadre::bench

int main(int argc, char** argv) {
  cadre::bench::Flags flags(argc, argv);
  cadre::bench::run(flags);
}
