// The client against a server whose every answer, and every fault, is written here. Each fault must
// give a clear error or heal; nothing may hang.
#include "net/http_client.h"

#include <boost/asio/write.hpp>
#include <list>
#include <map>

#include <sys/socket.h>
#include <unistd.h>

#include "base/strings.h"
#include "net/asio.h"
#include "net/stream.h"
#include "net/testing/wire_server.h"

namespace cadre::net {
namespace {

using testing::HasSubstr;
using Reply = std::shared_ptr<WireServer::Reply>;
constexpr Duration kSoon = 10s;  // longer than anything here takes: a test that waits so long fails

struct Wire {
  Loop loop;
  std::unique_ptr<WireServer> server;
  std::unique_ptr<PooledHttpClient> client;
  int requests = 0;

  Wire(bool http2, WireServer::Script script, HttpClientOptions options = {},
       WireServer::Options wire = {}) {
    wire.http2 = http2;
    server = WireServer::start(
        loop, wire, [this, script = std::move(script)](WireServer::Request request, Reply reply) {
          ++requests;
          script(std::move(request), std::move(reply));
        });
    options.url = *Url::parse(server->url());
    if (options.tls.ca.empty()) options.tls.ca = server->ca();
    client = *makeHttpClient(loop, std::move(options));
  }

  Result<HttpResponse> get(std::string target, std::size_t limit = 1 << 20) {
    return send({.target = std::move(target)}, limit);
  }
  Result<HttpResponse> send(HttpRequest request, std::size_t limit = 64 << 20) {
    return await<HttpResponse>(
        loop, [&](auto done) { return fetch(*client, std::move(request), limit, std::move(done)); },
        kSoon);
  }
};

class HttpClientTest : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Protocols, HttpClientTest, testing::Values(true, false),
                         [](const auto& info) { return info.param ? "Http2" : "Http1"; });

TEST_P(HttpClientTest, SendsAndReceives) {
  Wire wire(GetParam(), [](WireServer::Request request, Reply reply) {
    EXPECT_EQ(request.method, "POST");
    EXPECT_EQ(request.target, "/echo?x=1");
    EXPECT_EQ(request.headers.get("X-Test"), "yes");
    reply->head(201, {{"X-Answer", "42"}});
    reply->data(request.body);
    reply->end();
  });
  auto answer = wire.send(
      {.method = "POST", .target = "/echo?x=1", .headers = {{"X-Test", "yes"}}, .body = "hello"});
  ASSERT_TRUE(answer) << answer.error().text();
  EXPECT_EQ(answer->status, 201);
  EXPECT_EQ(answer->headers.get("x-answer"), "42");
  EXPECT_EQ(answer->body, "hello");
}

TEST_P(HttpClientTest, CarriesLargeBodiesBothWays) {
  std::string big(5 << 20, 'x');
  for (std::size_t i = 0; i < big.size(); ++i) big[i] = static_cast<char>(i * 31);
  Wire wire(GetParam(),
            [](WireServer::Request request, Reply reply) { reply->json(200, request.body); });
  // The server's own limit is below this over HTTP/1.1, so send less there and receive it repeated.
  std::string body = GetParam() ? big : big.substr(0, 2 << 20);
  auto answer = wire.send({.method = "PUT", .body = body});
  ASSERT_TRUE(answer) << answer.error().text();
  EXPECT_TRUE(answer->body == body);
}

TEST_P(HttpClientTest, ReusesConnections) {
  Wire wire(GetParam(), [](WireServer::Request, Reply reply) { reply->json(200, "{}"); });
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(wire.get("/"));
  EXPECT_EQ(wire.client->stats().dialled, 1u);
}

TEST_P(HttpClientTest, StreamsAnAnswerAsItComes) {
  Reply held;
  Wire wire(GetParam(), [&](WireServer::Request, Reply reply) {
    reply->head(200);
    held = std::move(reply);
  });
  std::string seen;
  bool ended = false;
  ResponseHandler handler;
  handler.head = [&](ResponseHead) { seen += "head "; };
  handler.data = [&](std::string_view data) { seen += data; };
  handler.end = [&](Result<> result) { ended = result.ok(); };
  Pending exchange = wire.client->send({}, std::move(handler));
  ASSERT_TRUE(wire.loop.runUntil([&] { return seen == "head "; }, kSoon));
  held->data("one ");
  ASSERT_TRUE(wire.loop.runUntil([&] { return seen == "head one "; }, kSoon));
  held->data("two");
  held->end();
  ASSERT_TRUE(wire.loop.runUntil([&] { return ended; }, kSoon));
  EXPECT_EQ(seen, "head one two");
}

TEST_P(HttpClientTest, DroppingCancelsAndLeavesTheClientUsable) {
  std::vector<Reply> held;
  Wire wire(GetParam(), [&](WireServer::Request request, Reply reply) {
    if (request.target == "/hang") return held.push_back(std::move(reply));
    reply->json(200, "{}");
  });
  bool called = false;
  {
    Pending dropped = fetch(*wire.client, {.target = "/hang"}, 10, [&](auto) { called = true; });
    ASSERT_TRUE(wire.loop.runUntil([&] { return !held.empty(); }, kSoon));
  }
  EXPECT_TRUE(wire.get("/"));
  EXPECT_FALSE(called);
  EXPECT_EQ(wire.client->stats().active, 0u);
}

TEST_P(HttpClientTest, AHandlerMayDestroyTheClient) {
  Wire wire(GetParam(), [](WireServer::Request, Reply reply) { reply->json(200, "{}"); });
  bool called = false;
  ResponseHandler handler;
  handler.data = [&](std::string_view) {
    called = true;
    wire.client.reset();
  };
  handler.end = [](Result<>) { ADD_FAILURE() << "after the client was destroyed"; };
  Pending exchange = wire.client->send({}, std::move(handler));
  ASSERT_TRUE(wire.loop.runUntil([&] { return called; }, kSoon));
  int turns = 0;
  wire.loop.runUntil([&] { return ++turns > 20; }, 50ms);
}

TEST_P(HttpClientTest, ResetMidBodyIsAnError) {
  Wire wire(GetParam(), [](WireServer::Request, Reply reply) {
    reply->head(200);
    reply->data("{\"half");
    reply->reset();
  });
  auto answer = wire.get("/");
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::Unavailable);
}

TEST_P(HttpClientTest, ResetBeforeTheAnswerIsAnError) {
  Wire wire(GetParam(), [&](WireServer::Request, Reply reply) { reply->reset(); });
  auto answer = wire.get("/");
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::Unavailable);
}

TEST_P(HttpClientTest, SlowHeadersRunIntoTheirTimeout) {
  std::vector<Reply> held;
  Wire wire(GetParam(),
            [&](WireServer::Request, Reply reply) { held.push_back(std::move(reply)); });
  auto answer = wire.send({.head_timeout = 50ms});
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::DeadlineExceeded);
  EXPECT_EQ(answer.error().text(), "no answer within 50ms");
}

TEST_P(HttpClientTest, AnEndlessBodyRunsIntoTheTotalTimeout) {
  std::vector<Reply> held;
  Wire wire(GetParam(), [&](WireServer::Request, Reply reply) {
    reply->head(200);
    held.push_back(std::move(reply));
  });
  auto answer = wire.send({.timeout = 50ms});
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().text(), "no complete answer within 50ms");
}

TEST_P(HttpClientTest, OversizedBodiesAreRefused) {
  Wire wire(GetParam(), [](WireServer::Request, Reply reply) {
    reply->head(200);
    reply->data(std::string(100'000, 'x'));
    reply->end();
  });
  auto answer = wire.get("/", 50'000);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::ResourceExhausted);
  EXPECT_TRUE(wire.get("/"));  // and the client still works
}

TEST_P(HttpClientTest, OversizedHeadsAreRefused) {
  // In HTTP/2 each field but the first is one byte on the wire: it is what they unpack to that
  // counts.
  Wire wire(GetParam(), [](WireServer::Request request, Reply reply) {
    Headers headers;
    if (request.target == "/bomb")
      for (int i = 0; i < 1000; ++i) headers.add("x", std::string(2'900, 'x'));
    reply->head(200, headers);
    reply->end();
  });
  auto answer = wire.get("/bomb");
  ASSERT_FALSE(answer);
  if (GetParam()) {
    EXPECT_EQ(answer.error().text(), "the answer's head is larger than 262144 bytes");
  }
  EXPECT_TRUE(wire.get("/"));
  EXPECT_EQ(wire.client->stats().dialled, GetParam() ? 1u : 2u);
}

TEST_P(HttpClientTest, ManySmallFieldsAreAnOversizedHeadToo) {
  Wire wire(GetParam(), [](WireServer::Request, Reply reply) {
    Headers headers;
    for (int i = 0; i < 20'000; ++i) headers.add("age", "");
    reply->head(200, headers);
    reply->end();
  });
  auto answer = wire.get("/");
  ASSERT_EQ(answer.ok(), !GetParam());  // 140 KB as HTTP/1.1 writes it, which is allowed
  if (!answer) {
    EXPECT_EQ(answer.error().text(), "the answer's head is larger than 262144 bytes");
  }
}

TEST_P(HttpClientTest, ServerGoneAndBackHeals) {
  Wire wire(GetParam(), [](WireServer::Request, Reply reply) { reply->json(200, "{}"); });
  ASSERT_TRUE(wire.get("/"));
  wire.server->cut();
  ASSERT_TRUE(wire.loop.runUntil([&] { return wire.client->stats().connections == 0; }, kSoon));
  ASSERT_TRUE(wire.get("/"));
  EXPECT_EQ(wire.client->stats().dialled, 2u);
}

TEST_P(HttpClientTest, AWrongCertificateIsRefused) {
  CertificateAndKey stranger = *makeCertificate({.common_name = "x", .names = {"127.0.0.1"}});
  Wire wire(GetParam(), [](WireServer::Request, Reply reply) { reply->json(200, "{}"); }, {},
            {.identity = &stranger});
  auto answer = wire.get("/");
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::Unauthenticated);
  EXPECT_THAT(answer.error().text(), HasSubstr("the server's certificate is not accepted"));
  EXPECT_EQ(wire.requests, 0);
}

TEST_P(HttpClientTest, ACertificateForAnotherNameIsRefused) {
  CertificateAndKey other = testCertificate("other", {"other.example"});
  Wire wire(GetParam(), [](WireServer::Request, Reply reply) { reply->json(200, "{}"); }, {},
            {.identity = &other});
  EXPECT_FALSE(wire.get("/"));
  Wire named(GetParam(), [](WireServer::Request, Reply reply) { reply->json(200, "{}"); },
             {.tls = {.server_name = "other.example"}}, {.identity = &other});
  EXPECT_TRUE(named.get("/"));
  Wire blind(GetParam(), [](WireServer::Request, Reply reply) { reply->json(200, "{}"); },
             {.tls = {.verify = false}}, {.identity = &other});
  EXPECT_TRUE(blind.get("/"));
}

TEST_P(HttpClientTest, ShowsItsCertificate) {
  CertificateAndKey me = testCertificate("me", {});
  Wire wire(GetParam(),
            [](WireServer::Request request, Reply reply) { reply->json(200, request.client_name); },
            {.tls = {.certificate = me.certificate, .key = me.key}},
            {.client_ca = testCa().certificate});
  auto answer = wire.get("/");
  ASSERT_TRUE(answer) << answer.error().text();
  EXPECT_EQ(answer->body, "me");
}

TEST_P(HttpClientTest, HeadersCannotBeForged) {
  Wire wire(GetParam(), [](WireServer::Request, Reply reply) { reply->json(200, "{}"); });
  EXPECT_EQ(wire.send({.headers = {{"X", "a\r\nEvil: yes"}}}).error().code, Code::InvalidArgument);
  EXPECT_EQ(wire.get("/a b").error().code, Code::InvalidArgument);
  EXPECT_EQ(wire.requests, 0);
}

TEST(Http2Test, OpensAnotherConnectionBeforeTheStreamLimit) {
  std::map<std::size_t, int> open;
  std::vector<Reply> held;
  Wire wire(true,
            [&](WireServer::Request request, Reply reply) {
              ++open[request.connection];
              reply->head(200);
              held.push_back(std::move(reply));
            },
            {}, {.max_streams = 10});
  std::vector<Pending> exchanges;
  for (int i = 0; i < 35; ++i) exchanges.push_back(wire.client->send({}, {}));
  ASSERT_TRUE(wire.loop.runUntil([&] { return held.size() == 35; }, kSoon));
  EXPECT_EQ(open.size(), 4u);
  for (auto [connection, count] : open) EXPECT_LE(count, 10);
}

TEST(Http2Test, AnAnswerIsCompleteOnlyAtItsEnd) {
  Wire wire(true, [](WireServer::Request request, Reply reply) {
    reply->head(200, {{"Content-Length", "5000"}});
    reply->data(request.target == "/part" ? "a part" : std::string(5000, 'x'));
    if (request.target != "/part") reply->end();
    reply->stop();
  });
  auto whole = wire.get("/whole");
  ASSERT_TRUE(whole) << whole.error().text();
  auto part = wire.get("/part");
  ASSERT_FALSE(part);
  EXPECT_THAT(part.error().text(), HasSubstr("the server broke off the answer"));
}

TEST(Http2Test, CredentialsStayOutOfTheCompressionTable) {
  std::vector<std::string> never_indexed;
  Wire wire(true, [&](WireServer::Request request, Reply reply) {
    never_indexed = request.never_indexed;
    reply->json(200, "{}");
  });
  ASSERT_TRUE(wire.send({.headers = {{"Authorization", "Bearer hunter2"}, {"X-Other", "x"}}}));
  EXPECT_THAT(never_indexed, testing::ElementsAre("authorization"));
}

TEST(Http2Test, ARefusedRequestGoesOutAgain) {
  int attempt = 0;
  Wire wire(true, [&](WireServer::Request request, Reply reply) {
    if (++attempt == 1) return reply->refuse();
    reply->json(200, request.body);
  });
  auto answer = wire.send({.method = "POST", .body = "once"});
  ASSERT_TRUE(answer) << answer.error().text();
  EXPECT_EQ(answer->body, "once");
}

TEST(Http2Test, AlwaysRefusedEndsInAnError) {
  Wire wire(true, [&](WireServer::Request, Reply reply) { reply->refuse(); });
  EXPECT_FALSE(wire.get("/"));
  EXPECT_EQ(wire.requests, 3);
}

TEST(Http2Test, GoAwayFinishesWhatIsOpenAndMovesOn) {
  std::vector<Reply> held;
  std::vector<std::size_t> connections;
  Wire wire(true, [&](WireServer::Request request, Reply reply) {
    connections.push_back(request.connection);
    if (request.target == "/held") return held.push_back(std::move(reply));
    reply->json(200, "{}");
  });
  std::optional<Result<HttpResponse>> first;
  Pending exchange = fetch(*wire.client, {.target = "/held"}, 100,
                           [&](auto result) { first = std::move(result); });
  ASSERT_TRUE(wire.loop.runUntil([&] { return held.size() == 1; }, kSoon));
  wire.server->goAway();
  int turns = 0;
  wire.loop.runUntil([&] { return ++turns > 5; }, 100ms);
  ASSERT_TRUE(wire.get("/next"));
  held[0]->json(200, "late");
  ASSERT_TRUE(wire.loop.runUntil([&] { return first.has_value(); }, kSoon));
  ASSERT_TRUE(*first);
  EXPECT_EQ((*first)->body, "late");
  EXPECT_EQ(connections, (std::vector<std::size_t>{1, 2}));
}

TEST(Http2Test, ADeadPeerIsNoticedByPing) {
  std::vector<Reply> held;
  Wire wire(true, [&](WireServer::Request, Reply reply) { held.push_back(std::move(reply)); },
            {.ping_after = 40ms, .ping_timeout = 40ms});
  std::optional<Result<HttpResponse>> answer;
  Pending exchange = fetch(*wire.client, {}, 100, [&](auto result) { answer = std::move(result); });
  ASSERT_TRUE(wire.loop.runUntil([&] { return held.size() == 1; }, kSoon));
  wire.server->freeze();
  ASSERT_TRUE(wire.loop.runUntil([&] { return answer.has_value(); }, kSoon));
  ASSERT_FALSE(*answer);
  EXPECT_THAT(answer->error().text(), HasSubstr("no answer to a PING within 40ms"));
}

TEST(Http2Test, ADeadPeerIsNoticedWithin45SecondsByDefault) {
  EXPECT_LE(HttpClientOptions().ping_after + HttpClientOptions().ping_timeout, 45s);
}

TEST(Http2Test, APeerThatNeverSpeaksIsNoticedByPing) {
  Wire wire(true, [](WireServer::Request, Reply) {}, {.ping_after = 40ms, .ping_timeout = 40ms},
            {.silent_connections = 1000});
  EXPECT_THAT(wire.get("/").error().text(), HasSubstr("no answer to a PING within 40ms"));
  EXPECT_EQ(wire.client->stats().connections, 0u);
}

TEST(Http2Test, APeerThatNeverSpokeIsNotWaitedFor) {
  Wire wire(true, [](WireServer::Request, Reply reply) { reply->json(200, "{}"); },
            {.ping_after = 10ms, .ping_timeout = 1h}, {.silent_connections = 1});
  std::optional<Result<HttpResponse>> first;
  Pending exchange = fetch(*wire.client, {}, 100, [&](auto result) { first = std::move(result); });
  wire.loop.runUntil([&] { return first.has_value(); }, 50ms);  // until it is asked for a PING
  EXPECT_FALSE(first);
  EXPECT_TRUE(wire.get("/"));
  ASSERT_TRUE(wire.loop.runUntil([&] { return first.has_value(); }, kSoon));
  EXPECT_TRUE(*first);
}

TEST(Http2Test, WhenNoOtherConnectionCanBeHadTheRestWaitTheirTurn) {
  std::vector<Reply> held;
  Wire wire(true, [&](WireServer::Request, Reply reply) { held.push_back(std::move(reply)); }, {},
            {.max_connections = 1, .max_streams = 2});
  int answered = 0;
  std::vector<Pending> exchanges;
  for (int i = 0; i < 4; ++i)
    exchanges.push_back(fetch(*wire.client, {}, 100,
                              [&](Result<HttpResponse> answer) { answered += answer.ok(); }));
  // The server takes no second connection: two are served, two wait.
  ASSERT_TRUE(wire.loop.runUntil(
      [&] { return held.size() == 2 && wire.client->stats().dialled >= 2; }, kSoon));
  wire.loop.runUntil([&] { return false; }, 200ms);
  EXPECT_LE(wire.client->stats().dialled, 3u) << "it must not dial in a hot loop";
  for (std::size_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(wire.loop.runUntil([&] { return held.size() > i; }, kSoon));
    held[i]->json(200, "{}");
  }
  EXPECT_TRUE(wire.loop.runUntil([&] { return answered == 4; }, kSoon));
}

TEST(Http2Test, ASilentButLivingPeerIsKept) {
  std::vector<Reply> held;
  Wire wire(true, [&](WireServer::Request, Reply reply) { held.push_back(std::move(reply)); },
            {.ping_after = 10ms, .ping_timeout = 2s});
  std::optional<Result<HttpResponse>> answer;
  Pending exchange = fetch(*wire.client, {}, 100, [&](auto result) { answer = std::move(result); });
  ASSERT_TRUE(wire.loop.runUntil([&] { return held.size() == 1; }, kSoon));
  wire.loop.runUntil([&] { return answer.has_value(); }, 100ms);  // several PINGs long
  held[0]->json(200, "still here");
  ASSERT_TRUE(wire.loop.runUntil([&] { return answer.has_value(); }, kSoon));
  EXPECT_TRUE(*answer);
}

TEST(Http2Test, IdleConnectionsAreClosed) {
  Wire wire(true, [](WireServer::Request, Reply reply) { reply->json(200, "{}"); },
            {.idle_timeout = 20ms, .ping_after = 20ms});
  ASSERT_TRUE(wire.get("/"));
  EXPECT_TRUE(wire.loop.runUntil([&] { return wire.client->stats().connections == 0; }, kSoon));
}

TEST(Http2Test, APeerThatTakesConnectionsAndNoRequestsIsNotHammered) {
  Wire wire(true, [](WireServer::Request, Reply reply) { reply->json(200, "{}"); }, {},
            {.hang_up = true});
  auto answer = wire.get("/");
  ASSERT_FALSE(answer);
  EXPECT_THAT(answer.error().text(), HasSubstr("lost"));
  EXPECT_EQ(wire.client->stats().dialled, 1u);
}

TEST(Http2Test, APeerThatAllowsNoStreamsGetsOneConnection) {
  Wire wire(true, [](WireServer::Request, Reply reply) { reply->json(200, "{}"); }, {},
            {.max_streams = 0});
  auto answer = wire.send({.head_timeout = 100ms});
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::DeadlineExceeded);
  EXPECT_EQ(wire.client->stats().dialled, 1u);
}

TEST_P(HttpClientTest, AClientThatIsDestroyedInAHandlerSaysNothingMore) {
  std::vector<Reply> held;
  Wire wire(GetParam(),
            [&](WireServer::Request, Reply reply) { held.push_back(std::move(reply)); });
  int ends = 0;
  std::vector<Pending> exchanges;
  for (int i = 0; i < 5; ++i) {
    ResponseHandler handler;
    handler.end = [&](Result<>) {
      ++ends;
      wire.client.reset();
    };
    exchanges.push_back(wire.client->send({}, std::move(handler)));
  }
  ASSERT_TRUE(wire.loop.runUntil([&] { return held.size() == 5; }, kSoon));
  wire.server->cut();
  ASSERT_TRUE(wire.loop.runUntil([&] { return ends > 0; }, kSoon));
  int turns = 0;
  wire.loop.runUntil([&] { return ++turns > 20; }, 50ms);
  EXPECT_EQ(ends, 1);
}

TEST_P(HttpClientTest, ARequestFromAnothersEndIsNotTakenForIdle) {
  Reply held;
  Wire wire(GetParam(),
            [&](WireServer::Request request, Reply reply) {
              if (request.target == "/second") {
                reply->head(200);
                held = std::move(reply);
                return;
              }
              reply->json(200, "{}");
            },
            {.idle_timeout = 30ms});
  Pending second;
  std::optional<Result<HttpResponse>> answer;
  Pending first = fetch(*wire.client, {}, 100, [&](auto) {
    second = fetch(*wire.client, {.target = "/second"}, 100,
                   [&](auto result) { answer = std::move(result); });
  });
  ASSERT_TRUE(wire.loop.runUntil([&] { return held != nullptr; }, kSoon));
  wire.loop.runUntil([&] { return answer.has_value(); }, 120ms);
  ASSERT_FALSE(answer.has_value());
  held->data("late");
  held->end();
  ASSERT_TRUE(wire.loop.runUntil([&] { return answer.has_value(); }, kSoon));
  ASSERT_TRUE(*answer) << answer->error().text();
}

TEST_P(HttpClientTest, NamesAreVerifiedLikeAddresses) {
  for (auto [name, accepted] : {std::pair{"localhost", true}, std::pair{"other.example", false}}) {
    CertificateAndKey identity = testCertificate("x", {name});
    Loop loop;
    auto server =
        WireServer::start(loop, {.http2 = GetParam(), .identity = &identity},
                          [](WireServer::Request, Reply reply) { reply->json(200, "{}"); });
    auto client = *makeHttpClient(
        loop, {.url = *Url::parse("https://localhost:" + std::to_string(server->port())),
               .tls = {.ca = server->ca()}});
    auto answer = await<HttpResponse>(
        loop, [&](auto done) { return fetch(*client, {}, 10, std::move(done)); }, kSoon);
    EXPECT_EQ(answer.ok(), accepted) << name;
  }
}

// A peer that says one thing, then another over and over if it is asked to, whatever it hears.
Result<HttpResponse> askRaw(std::string once, std::string over_and_over = {}) {
  Loop loop;
  asio::ip::tcp::acceptor acceptor(contextOf(loop), {asio::ip::make_address("127.0.0.1"), 0});
  asio::ip::tcp::socket socket(contextOf(loop));
  std::string sending = once;
  Function<void()> send = [&] {
    asio::async_write(socket, asio::buffer(sending), [&](ErrorCode error, std::size_t) {
      if (error || over_and_over.empty()) return;
      sending = over_and_over;
      send();
    });
  };
  acceptor.async_accept(socket, [&](ErrorCode) { send(); });
  auto client = *makeHttpClient(
      loop,
      {.url = *Url::parse("http://127.0.0.1:" + std::to_string(acceptor.local_endpoint().port()))});
  return await<HttpResponse>(
      loop, [&](auto done) { return fetch(*client, {}, 1000, std::move(done)); }, kSoon);
}

// A peer that answers over TLS and then ends the connection: with TLS's own goodbye, or as anyone
// on the way could end it.
Result<HttpResponse> askTls(std::string_view answer, bool goodbye) {
  Loop loop;
  CertificateAndKey identity = testCertificate("x", {"127.0.0.1"});
  auto tls = *TlsContext::server({.certificate = identity.certificate, .key = identity.key});
  asio::ip::tcp::acceptor acceptor(contextOf(loop), {asio::ip::make_address("127.0.0.1"), 0});
  std::unique_ptr<Stream> stream;
  int cable = -1;  // the same socket, behind TLS's back
  Function<void()> reply = [&] {
    char request[4096];
    bool ready = stream->handshake() == Stream::Status::Ok &&
                 stream->read(request).status == Stream::Status::Ok;
    if (!ready) return stream->waitReadable([&] { reply(); });
    stream->write(answer);
    goodbye ? stream->close() : (void)::shutdown(cable, SHUT_WR);
  };
  acceptor.async_accept([&](ErrorCode, asio::ip::tcp::socket socket) {
    cable = ::dup(socket.native_handle());
    stream = std::make_unique<Stream>(std::move(socket));
    stream->startServerTls(tls);
    reply();
  });
  auto client = *makeHttpClient(
      loop,
      {.url = *Url::parse("https://127.0.0.1:" + std::to_string(acceptor.local_endpoint().port())),
       .tls = {.ca = testCa().certificate}});
  auto result = await<HttpResponse>(
      loop, [&](auto done) { return fetch(*client, {}, 1000, std::move(done)); }, kSoon);
  ::close(cable);
  return result;
}

TEST(Http1Test, ABodyThatEndsWithTheConnectionEndsWithAGoodbye) {
  const std::string answer = "HTTP/1.1 200 OK\r\n\r\nall of it, or a part";
  auto whole = askTls(answer, /*goodbye=*/true);
  ASSERT_TRUE(whole) << whole.error().text();
  EXPECT_EQ(whole->body, "all of it, or a part");
  auto cut = askTls(answer, /*goodbye=*/false);
  ASSERT_FALSE(cut) << "anyone on the way could have cut it";
  EXPECT_THAT(cut.error().text(), HasSubstr("lost: reading: unexpected eof"));
}

TEST(Http1Test, InterimAnswersAreSteppedOverButNotForEver) {
  const std::string interim = "HTTP/1.1 102 Processing\r\n\r\n";
  // The answer comes before the question is complete, as far as this peer is concerned: it still
  // counts.
  auto answer = askRaw(interim + interim + "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  ASSERT_TRUE(answer) << answer.error().text();
  EXPECT_EQ(answer->status, 200);
  EXPECT_EQ(answer->body, "ok");
  EXPECT_THAT(askRaw(interim, interim).error().text(), HasSubstr("interim answers without an end"));
}

// After an answer that is longer than it says, or that came before its request was out, the next
// request would meet what is not meant for it.
TEST(Http1Test, OnlyACleanConnectionIsUsedAgain) {
  const std::string answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
  struct Case {
    std::string says, body;
    std::size_t dialled;
  };
  for (const Case& c : {Case{answer, "", 1}, Case{answer + answer, "", 2},
                        Case{answer, std::string(64 << 20, 'x'), 2}}) {
    Loop loop;
    asio::ip::tcp::acceptor acceptor(contextOf(loop), {asio::ip::make_address("127.0.0.1"), 0});
    std::list<asio::ip::tcp::socket> sockets;
    Function<void()> accept = [&] {
      acceptor.async_accept([&](ErrorCode error, asio::ip::tcp::socket socket) {
        if (error) return;
        sockets.push_back(std::move(socket));
        asio::write(sockets.back(), asio::buffer(c.says));
        accept();
      });
    };
    accept();
    auto client = *makeHttpClient(
        loop, {.url = *Url::parse("http://127.0.0.1:" +
                                  std::to_string(acceptor.local_endpoint().port()))});
    auto put = [&](std::string body) {
      return await<HttpResponse>(
          loop,
          [&](auto done) {
            return fetch(*client, {.method = "PUT", .body = std::move(body)}, 1000,
                         std::move(done));
          },
          kSoon);
    };
    ASSERT_TRUE(put(c.body));
    std::optional<Result<HttpResponse>> second;
    Pending next = fetch(*client, {}, 1000, [&](auto result) { second = std::move(result); });
    if (c.dialled == 1) asio::write(sockets.back(), asio::buffer(c.says));
    ASSERT_TRUE(loop.runUntil([&] { return second.has_value(); }, kSoon));
    EXPECT_TRUE(*second) << second->error().text();
    EXPECT_EQ(client->stats().dialled, c.dialled);
  }
}

TEST(Http1Test, AnAnswerInTlsIsTold) {
  std::string alert("\x15\x03\x01\x00\x02\x02\x46", 7);
  EXPECT_THAT(askRaw(alert).error().text(),
              HasSubstr("the server speaks TLS on this port, not plain HTTP"));
}

TEST(Http1Test, EndlessLinesAreCutOff) {
  const std::string head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
  std::string junk(10'000, 'x');
  EXPECT_THAT(askRaw(head + "5;a=", junk).error().text(), HasSubstr("a line without an end"));
  EXPECT_THAT(askRaw(head + "0\r\nTrailer: ", junk).error().text(), HasSubstr("lost"));
}

TEST(HttpClient, AProxysLoginIsDecoded) {
  EXPECT_EQ(proxyAuthorization(*Url::parse("http://me%40corp:p%3Aw+%25@proxy:3128")),
            "Basic " + base64Encode("me@corp:p:w+%"));
}

TEST(HttpClient, NobodyListensGivesTheAddress) {
  Loop loop;
  auto client = *makeHttpClient(loop, {.url = *Url::parse("https://127.0.0.1:1")});
  auto answer = await<HttpResponse>(
      loop, [&](auto done) { return fetch(*client, {}, 10, std::move(done)); }, kSoon);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().text(), "connecting to 127.0.0.1:1: connection refused");
}

TEST(HttpClient, AnUnknownNameGivesTheName) {
  Loop loop;
  auto client = *makeHttpClient(loop, {.url = *Url::parse("https://no-such-host.invalid")});
  auto answer = await<HttpResponse>(
      loop, [&](auto done) { return fetch(*client, {}, 10, std::move(done)); }, kSoon);
  ASSERT_FALSE(answer);
  EXPECT_THAT(answer.error().text(), HasSubstr("the name no-such-host.invalid does not resolve"));
}

TEST(HttpClient, APathThatIsTooLongForASocketIsAnError) {
  Loop loop;
  auto client =
      *makeHttpClient(loop, {.url = *Url::parse("http://x"), .unix_path = std::string(200, 'x')});
  auto answer = await<HttpResponse>(
      loop, [&](auto done) { return fetch(*client, {}, 10, std::move(done)); }, kSoon);
  ASSERT_FALSE(answer);
  EXPECT_THAT(answer.error().text(), HasSubstr("too long"));
}

TEST(HttpClient, BadTlsMaterialIsSaidAtOnce) {
  Loop loop;
  auto client =
      makeHttpClient(loop, {.url = *Url::parse("https://127.0.0.1"), .tls = {.ca = "not PEM"}});
  ASSERT_FALSE(client);
  EXPECT_EQ(client.error().text(), "the certificate authority holds no PEM certificate");
}

TEST(Url, TakesApart) {
  struct Case {
    std::string_view text, origin, target;
  };
  for (auto [text, origin, target] :
       std::initializer_list<Case>{{"https://a", "https://a:443", ""},
                                   {"http://a:8080/p?q=1#f", "http://a:8080", "/p?q=1"},
                                   {"HTTPS://me:pw@[::1]:6443/x", "https://[::1]:6443", "/x"},
                                   {"https://a?x", "https://a:443", "?x"}}) {
    auto url = Url::parse(text);
    ASSERT_TRUE(url) << text;
    EXPECT_EQ(url->origin(), origin);
    EXPECT_EQ(url->target, target);
  }
  for (std::string_view bad :
       {"", "a", "://a", "https://", "https://a:0", "https://a:70000", "https://a:x",
        "https://[::1", "https://::1", "https://a b", "https://a\n"})
    EXPECT_FALSE(Url::parse(bad)) << bad;
}

}  // namespace
}  // namespace cadre::net
