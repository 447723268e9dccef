#include "engine/serve.h"

#include "base/format.h"
#include "net/http_client.h"

namespace cadre::engine {
namespace {

using testing::HasSubstr;

TEST(BindAddress, AsFlagsWriteIt) {
  struct Case {
    std::string_view text, is;
  };
  for (const Case& c :
       {Case{":8080", "'' 8080"}, Case{"127.0.0.1:0", "'127.0.0.1' 0"},
        Case{"0.0.0.0:9443", "'0.0.0.0' 9443"}, Case{"[::1]:80", "'::1' 80"}, Case{"0", "off"},
        Case{"", "off"}, Case{"8080", "wrong"}, Case{":x", "wrong"}, Case{":70000", "wrong"},
        Case{":-1", "wrong"}, Case{"::1:80", "wrong"}, Case{"a:", "wrong"}}) {
    auto parsed = BindAddress::parse(c.text);
    std::string is = !parsed    ? "wrong"
                     : !*parsed ? "off"
                                : format("'{}' {}", (*parsed)->host, (*parsed)->port);
    EXPECT_EQ(is, c.is) << c.text;
  }
}

struct Served {
  net::Loop loop;
  Metrics metrics;
  std::string trouble;
  int measured = 0;
  std::unique_ptr<Endpoints> endpoints;

  Served() {
    EndpointsOptions options{.metrics_address = "127.0.0.1:0", .health_address = ":0"};
    options.metrics = &metrics;
    options.measure = [this] { ++measured; };
    options.healthy.push_back({"lease", [] { return ""; }});
    options.ready.push_back({"lease", [] { return ""; }});
    options.ready.push_back({"synced", [this] { return trouble; }});
    auto opened = Endpoints::open(loop, std::move(options));
    EXPECT_TRUE(opened) << opened.error().text();
    endpoints = *std::move(opened);
  }
  net::HttpResponse send(std::uint16_t port, std::string method, std::string target) {
    auto client =
        *net::makeHttpClient(loop, {.url = *net::Url::parse(format("http://127.0.0.1:{}", port))});
    auto answer = net::await<net::HttpResponse>(loop, [&](auto done) {
      return net::fetch(*client, {.method = std::move(method), .target = std::move(target)},
                        1 << 20, std::move(done));
    });
    EXPECT_TRUE(answer) << answer.error().text();
    return answer ? *answer : net::HttpResponse();
  }
};

TEST(Endpoints, ProbesAreAnswered) {
  Served s;
  struct Case {
    std::string_view trouble, method, target;
    int status;
    std::string_view text;
  };
  const std::string_view failed =
      "[+]lease ok\n[-]synced failed: Deployments are not there yet\nreadyz check failed\n";
  const std::string_view not_yet = "Deployments are not there yet";
  for (const Case& c :
       {Case{"", "GET", "/healthz", 200, "ok"}, Case{"", "GET", "/readyz", 200, "ok"},
        Case{"", "GET", "/readyz?verbose", 200, "[+]lease ok\n[+]synced ok\nreadyz check passed\n"},
        Case{not_yet, "GET", "/healthz", 200, "ok"}, Case{not_yet, "GET", "/readyz", 500, failed},
        Case{not_yet, "GET", "/readyz?verbose=1", 500, failed},
        Case{"", "GET", "/", 404, "only /healthz and /readyz are here\n"},
        Case{"", "POST", "/healthz", 405, "only GET is answered here\n"},
        Case{"", "HEAD", "/healthz", 200, ""}}) {
    s.trouble = c.trouble;
    auto answer = s.send(s.endpoints->healthPort(), std::string(c.method), std::string(c.target));
    EXPECT_EQ(answer.status, c.status) << c.method << " " << c.target;
    EXPECT_EQ(answer.body, c.text) << c.method << " " << c.target;
  }
}

TEST(Endpoints, MetricsAreShown) {
  Served s;
  s.metrics.counter("lamps_total", "Lamps.").add(2);
  auto answer = s.send(s.endpoints->metricsPort(), "GET", "/metrics");
  EXPECT_EQ(answer.status, 200);
  EXPECT_THAT(answer.body, HasSubstr("lamps_total 2\n"));
  EXPECT_THAT(std::string(answer.headers.get("content-type")), HasSubstr("version=0.0.4"));
  EXPECT_EQ(s.measured, 1);
  EXPECT_EQ(s.send(s.endpoints->metricsPort(), "GET", "/healthz").status, 404);
}

TEST(Endpoints, MayBeOffAndSayWhatIsInTheWay) {
  net::Loop loop;
  auto off = Endpoints::open(loop, {});
  ASSERT_TRUE(off);
  EXPECT_EQ((*off)->metricsPort(), 0);
  EXPECT_EQ((*off)->healthPort(), 0);
  auto one = Endpoints::open(loop, {.health_address = "127.0.0.1:0"});
  ASSERT_TRUE(one);
  auto two =
      Endpoints::open(loop, {.health_address = format("127.0.0.1:{}", (*one)->healthPort())});
  ASSERT_FALSE(two);
  EXPECT_THAT(two.error().text(), HasSubstr("cannot listen on 127.0.0.1:"));
}

}  // namespace
}  // namespace cadre::engine
