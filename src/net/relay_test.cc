#include "net/relay.h"

#include <unistd.h>

#include "base/format.h"
#include "net/connect.h"
#include "net/http_client.h"
#include "net/http_server.h"

namespace cadre::net {
namespace {

using testing::HasSubstr;

Result<HttpResponse> get(Loop& loop, std::uint16_t port, std::string body = {}) {
  auto client = makeHttpClient(
      loop, {.url = {.scheme = "http", .host = "127.0.0.1", .port = port}, .http2 = false});
  return await<HttpResponse>(
      loop,
      [&](auto done) {
        return fetch(**client, {.method = "POST", .target = "/", .body = std::move(body)},
                     64u << 20, std::move(done));
      },
      20s);
}

TEST(Relay, PassesBothWaysOn) {
  Loop loop;
  auto server = HttpServer::listen(
      loop, {.port = 0, .max_body_bytes = 64u << 20},
      [](auto request) { request->respond(200, {}, "you said " + request->body); });
  ASSERT_TRUE(server) << server.error().text();
  auto relay = Relay::listen(loop, {"127.0.0.1", 0}, [&](auto&) {
    return std::optional(Place{"127.0.0.1", (*server)->port()});
  });
  ASSERT_TRUE(relay) << relay.error().text();
  auto answer = get(loop, (*relay)->port(), "hello");
  ASSERT_TRUE(answer) << answer.error().text();
  EXPECT_EQ(answer->body, "you said hello");
  std::string large(8u << 20, 'x');
  answer = get(loop, (*relay)->port(), large);
  ASSERT_TRUE(answer) << answer.error().text();
  EXPECT_TRUE(answer->body == "you said " + large);
  EXPECT_TRUE(loop.runUntil([&] { return (*relay)->connections() == 0; }, 20s))
      << "what has ended is gone";
}

TEST(Relay, UnixSockets) {
  Loop loop;
  auto server = HttpServer::listen(loop, {.port = 0},
                                   [](auto request) { request->respond(200, {}, "here"); });
  ASSERT_TRUE(server) << server.error().text();
  const std::string path = format("/tmp/cadre-relay-{}.sock", ::getpid());
  for (int i = 0; i < 2; ++i) {  // the second time, what the first has left is in nobody's way
    auto inner = Relay::listen(
        loop, {path}, [&](auto&) { return std::optional(Place{"127.0.0.1", (*server)->port()}); });
    ASSERT_TRUE(inner) << inner.error().text();
    auto outer =
        Relay::listen(loop, {"127.0.0.1", 0}, [&](auto&) { return std::optional(Place{path}); });
    ASSERT_TRUE(outer) << outer.error().text();
    auto answer = get(loop, (*outer)->port());
    ASSERT_TRUE(answer) << answer.error().text();
    EXPECT_EQ(answer->body, "here");
  }
  ::unlink(path.c_str());
  auto none = Relay::listen(loop, {std::string(200, '/')}, [](auto&) { return std::nullopt; });
  EXPECT_THAT(none.error().text(), HasSubstr("is too long a path"));
}

TEST(Relay, NobodyIsThere) {
  Loop loop;
  std::optional<Place> place;
  auto relay = Relay::listen(loop, {"127.0.0.1", 0}, [&](auto&) { return place; });
  ASSERT_TRUE(relay);
  EXPECT_FALSE(get(loop, (*relay)->port()).ok()) << "nothing is chosen";
  place = Place{"127.0.0.1", 1};
  EXPECT_FALSE(get(loop, (*relay)->port()).ok()) << "nobody listens";
  EXPECT_TRUE(loop.runUntil([&] { return (*relay)->connections() == 0; }, 20s));
  auto taken =
      Relay::listen(loop, {"127.0.0.1", (*relay)->port()}, [](auto&) { return std::nullopt; });
  EXPECT_THAT(taken.error().text(), HasSubstr("cannot listen on 127.0.0.1:"));
  EXPECT_EQ(taken.error().code, Code::Conflict);
}

TEST(Connect, SaysWhetherSomebodyListens) {
  Loop loop;
  auto relay = Relay::listen(loop, {"127.0.0.1", 0}, [](auto&) { return std::nullopt; });
  auto reached = [&](const std::string& host, std::uint16_t port) {
    auto result = await<bool>(
        loop,
        [&](auto done) {
          return tryConnect(loop, host, port, 10s, [done = std::move(done)](Result<> result) {
            done(result ? Result<bool>(true) : Result<bool>(result.error()));
          });
        },
        20s);
    return result ? std::string("yes") : result.error().text();
  };
  EXPECT_EQ(reached("127.0.0.1", (*relay)->port()), "yes");
  EXPECT_THAT(reached("127.0.0.1", 1), HasSubstr("dial tcp 127.0.0.1:1: Connection refused"));
  EXPECT_THAT(reached("nowhere", 1), HasSubstr("that is no address"));
}

}  // namespace
}  // namespace cadre::net
