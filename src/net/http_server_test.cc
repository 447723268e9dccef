#include "net/http_server.h"

#include <boost/asio/read.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/websocket/stream.hpp>

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/format.h"
#include "net/asio.h"
#include "net/http_client.h"

namespace cadre::net {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
constexpr Duration kSoon = 10s;

struct Served {
  Loop loop;
  std::unique_ptr<HttpServer> server;
  std::vector<std::shared_ptr<ServerRequest>> held;

  explicit Served(HttpServer::Handler handler, HttpServerOptions options = {}) {
    server = *HttpServer::listen(loop, std::move(options), std::move(handler));
  }
  // Sends raw bytes and returns everything that comes back until the server closes.
  std::string raw(std::string_view bytes) {
    asio::ip::tcp::socket socket(contextOf(loop));
    socket.connect({asio::ip::make_address("127.0.0.1"), server->port()});
    asio::write(socket, asio::buffer(bytes.data(), bytes.size()));
    std::string out;
    bool over = false;
    char buffer[4096];
    Function<void()> read = [&] {
      socket.async_read_some(asio::buffer(buffer), [&](ErrorCode error, std::size_t count) {
        out.append(buffer, count);
        if (error)
          over = true;
        else
          read();
      });
    };
    read();
    EXPECT_TRUE(loop.runUntil([&] { return over; }, kSoon)) << out;
    return out;
  }
  std::unique_ptr<PooledHttpClient> client() {
    return *makeHttpClient(
        loop, {.url = *Url::parse("http://127.0.0.1:" + std::to_string(server->port()))});
  }
};

HttpServer::Handler echo() {
  return [](std::shared_ptr<ServerRequest> request) {
    request->respond(200, {{"X-Method", request->method}}, request->target + " " + request->body);
  };
}

TEST(HttpServer, AnswersPipelinedRequestsInOrder) {
  Served served(echo());
  std::string out = served.raw(
      "GET /a HTTP/1.1\r\nHost: x\r\n\r\n"
      "POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody"
      "HEAD /c HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(out,
            "HTTP/1.1 200 OK\r\nX-Method: GET\r\nContent-Length: 3\r\n\r\n/a "
            "HTTP/1.1 200 OK\r\nX-Method: POST\r\nContent-Length: 7\r\n\r\n/b body"
            "HTTP/1.1 200 OK\r\nX-Method: HEAD\r\nContent-Length: 3\r\nConnection: close\r\n\r\n");
}

TEST(HttpServer, ReadsChunkedBodies) {
  Served served(echo());
  EXPECT_THAT(
      served.raw(
          "PUT / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
          "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"),
      HasSubstr("/ abcde"));
}

// Whoever looks at headers on the way has not seen these.
TEST(HttpServer, WhatComesAfterABodyIsNoHeader) {
  Served served([](const std::shared_ptr<ServerRequest>& request) {
    request->respond(200, {}, format("[{}]", request->headers.get("authorization")));
  });
  EXPECT_THAT(
      served.raw(
          "PUT / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
          "3\r\nabc\r\n0\r\nAuthorization: Bearer x\r\n\r\n"),
      HasSubstr("[]"));
}

TEST(HttpServer, AnAnswerMayBeLargerThanWhatMayWait) {
  Served served(
      [](const std::shared_ptr<ServerRequest>& request) {
        request->respond(200, {}, std::string(8 << 20, 'x'));
      },
      {.max_backlog_bytes = 1 << 20});
  auto client = served.client();
  auto answer = await<HttpResponse>(
      served.loop, [&](auto done) { return fetch(*client, {}, 16 << 20, std::move(done)); }, kSoon);
  ASSERT_TRUE(answer) << answer.error().text();
  EXPECT_EQ(answer->body.size(), std::size_t{8 << 20});
}

TEST(HttpServer, RefusesWhatIsNotHttpOrTooLarge) {
  Served served(echo(), {.max_header_bytes = 1000, .max_body_bytes = 10});
  EXPECT_THAT(served.raw("\x16\x03\x01 nonsense\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(served.raw("GET / HTTP/1.1\r\nX: " + std::string(2000, 'x') + "\r\n\r\n"),
              StartsWith("HTTP/1.1 431 "));
  EXPECT_THAT(served.raw("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\n\r\n"),
              StartsWith("HTTP/1.1 413 "));
  EXPECT_THAT(served.raw("PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: "
                         "chunked\r\n\r\n6\r\nabcdef\r\n6\r\nabcdef\r\n"),
              StartsWith("HTTP/1.1 413 "));
}

// A client that hears nothing before it has said everything, as most do.
TEST(HttpServer, ARefusalReachesAClientThatIsStillSending) {
  CertificateAndKey identity = *makeCertificate({.common_name = "x", .names = {"127.0.0.1"}});
  for (const auto& tls : {std::optional<TlsServerOptions>(),
                          std::optional(TlsServerOptions{.certificate = identity.certificate,
                                                         .key = identity.key})}) {
    Served served(echo(), {.tls = tls, .max_body_bytes = 10});
    auto client = *makeHttpClient(
        served.loop, {.url = *Url::parse(format("{}://127.0.0.1:{}", tls ? "https" : "http",
                                                served.server->port())),
                      .tls = {.verify = false},
                      .http2 = false});
    auto answer = await<HttpResponse>(
        served.loop,
        [&](auto done) {
          return fetch(*client, {.method = "PUT", .body = std::string(8 << 20, 'x')}, 1000,
                       std::move(done));
        },
        kSoon);
    ASSERT_TRUE(answer) << answer.error().text();
    EXPECT_EQ(answer->status, 413);
  }
}

TEST(HttpServer, AllThatIsSentAfterARefusalIsTaken) {
  Served served(echo(), {.max_header_bytes = 1000, .max_body_bytes = 10, .linger_timeout = 1h});
  for (auto [head, status] :
       {std::pair("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999\r\n\r\n", "HTTP/1.1 413 "),
        std::pair("GET / HTTP/1.1\r\nX: ", "HTTP/1.1 431 ")}) {
    asio::ip::tcp::socket socket(contextOf(served.loop));
    socket.connect({asio::ip::make_address("127.0.0.1"), served.server->port()});
    const std::string all = head + std::string(8 << 20, 'x');
    std::optional<ErrorCode> sent;
    asio::async_write(socket, asio::buffer(all),
                      [&](ErrorCode error, std::size_t) { sent = error; });
    ASSERT_TRUE(served.loop.runUntil([&] { return sent.has_value(); }, kSoon));
    EXPECT_FALSE(sent->failed()) << sent->message();
    char answer[13] = "";
    asio::read(socket, asio::buffer(answer, 12));
    EXPECT_THAT(status, StartsWith(answer));
    socket.close();
    EXPECT_TRUE(served.loop.runUntil([&] { return served.server->connections() == 0; }, kSoon));
  }
}

TEST(HttpServer, ARefusedClientIsNotHeardForEver) {
  const std::string refused = "PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\n\r\n";
  for (std::string junk : {std::string(), std::string(1 << 20, 'x')}) {
    Served served(echo(), {.max_body_bytes = 10,
                           .body_timeout = 1h,
                           .linger_timeout = junk.empty() ? Duration(20ms) : Duration(1h)});
    asio::ip::tcp::socket socket(contextOf(served.loop));
    socket.connect({asio::ip::make_address("127.0.0.1"), served.server->port()});
    asio::write(socket, asio::buffer(refused));
    Function<void()> send = [&] {
      asio::async_write(socket, asio::buffer(junk), [&](ErrorCode error, std::size_t) {
        if (!error) send();
      });
    };
    ASSERT_TRUE(served.loop.runUntil([&] { return served.server->connections() == 1; }, kSoon));
    if (!junk.empty()) send();
    EXPECT_TRUE(served.loop.runUntil([&] { return served.server->connections() == 0; }, kSoon));
  }
}

TEST(HttpServer, RefusesHeaderLinesThatGoOnInTheNext) {
  Served served(echo());
  for (std::string folded : {"X: a\r\n b\r\n", "X: a\r\n\tb\r\n", "X:\r\n a\r\n"})
    EXPECT_THAT(served.raw("GET / HTTP/1.1\r\nHost: x\r\n" + folded + "Connection: close\r\n\r\n"),
                StartsWith("HTTP/1.1 400 "))
        << folded;
  // Only the head has lines.
  EXPECT_THAT(served.raw("PUT / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                         "Content-Length: 9\r\n\r\na\r\n b\r\n c"),
              StartsWith("HTTP/1.1 200 "));
}

TEST(HttpServer, RefusesRequestsThatCouldHideAnother) {
  Served served(echo());
  const std::string hidden = "GET /hidden HTTP/1.1\r\nHost: x\r\n\r\n";
  for (std::string headers :
       {"Host: x\r\nTransfer-Encoding: gzip\r\n", "Host: x\r\nTransfer-Encoding: xchunked\r\n",
        "Host: x\r\nTransfer-Encoding: chunked, gzip\r\n",
        "Host: x\r\nTransfer-Encoding: identity\r\nContent-Length: 3\r\n",
        "Host: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n",
        "Host: x\r\nContent-Length: 3, 3\r\n", "", "Host: x\r\nHost: y\r\n"}) {
    std::string out = served.raw("POST / HTTP/1.1\r\n" + headers + "\r\n" + hidden);
    EXPECT_THAT(out, StartsWith("HTTP/1.1 400 ")) << headers;
    EXPECT_EQ(out.find("/hidden"), std::string::npos) << headers;
  }
}

TEST(HttpServer, OldClientsGetStreamsWithoutChunks) {
  Served served([](std::shared_ptr<ServerRequest> request) {
    request->begin(200, {});
    request->write("plain");
    request->end();
  });
  EXPECT_EQ(served.raw("GET / HTTP/1.0\r\n\r\n"),
            "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nplain");
}

TEST(HttpServer, MayBeDestroyedWhenItIsDrained) {
  Served served(echo());
  auto client = served.client();
  ASSERT_TRUE(await<HttpResponse>(
      served.loop, [&](auto done) { return fetch(*client, {}, 100, std::move(done)); }, kSoon));
  ASSERT_EQ(served.server->connections(), 1u);
  served.server->drain([&] { served.server.reset(); });
  EXPECT_TRUE(served.loop.runUntil([&] { return served.server == nullptr; }, kSoon));
}

TEST(HttpServer, SlowAndSilentClientsAreCutOff) {
  Served served(echo(), {.head_timeout = 20ms, .body_timeout = 20ms, .idle_timeout = 20ms});
  EXPECT_EQ(served.raw(""), "");
  EXPECT_EQ(served.raw("GET / HT"), "");
  EXPECT_EQ(served.raw("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc"), "");
}

// Each limit alone: the others are too long to help.
TEST(HttpServer, EachTimeoutHoldsByItself) {
  const HttpServerOptions patient{.head_timeout = 1h, .body_timeout = 1h, .idle_timeout = 1h};
  const std::string request = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";

  HttpServerOptions head = patient;
  head.head_timeout = 20ms;
  EXPECT_EQ(Served(echo(), head).raw(""), "");
  EXPECT_EQ(Served(echo(), head).raw("GET / HT"), "");
  // A second request that stops halfway, long after the first byte of the first.
  EXPECT_THAT(Served(echo(), head).raw(request + "GET / HT"), StartsWith("HTTP/1.1 200 "));
  CertificateAndKey identity = *makeCertificate({.common_name = "x"});
  head.tls = {.certificate = identity.certificate, .key = identity.key};
  EXPECT_EQ(Served(echo(), head).raw(""), "");  // in the middle of the handshake

  HttpServerOptions body = patient;
  body.body_timeout = 20ms;
  EXPECT_EQ(Served(echo(), body).raw("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc"),
            "");

  HttpServerOptions idle = patient;
  idle.idle_timeout = 20ms;
  EXPECT_THAT(Served(echo(), idle).raw(request), StartsWith("HTTP/1.1 200 "));
}

TEST(HttpServer, PipelinedRequestsAreLeftInTheNetworkWhileOneIsAnswered) {
  std::shared_ptr<ServerRequest> held;
  Served served([&](std::shared_ptr<ServerRequest> request) { held = std::move(request); });
  asio::ip::tcp::socket socket(contextOf(served.loop));
  socket.connect({asio::ip::make_address("127.0.0.1"), served.server->port()});
  socket.non_blocking(true);
  std::string requests;
  for (int i = 0; i < 2000; ++i) requests += "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
  std::size_t taken = 0;
  // Until nothing more is taken, however often the server gets its turn.
  for (int idle_turns = 0; idle_turns < 50; ++idle_turns) {
    ErrorCode error;
    for (;;) {
      std::size_t count = socket.write_some(asio::buffer(requests), error);
      if (error) break;
      taken += count;
      idle_turns = 0;
      if (taken > 64u << 20) FAIL() << "it takes everything";
    }
    ASSERT_EQ(error, asio::error::would_block);
    bool turned = false;
    served.loop.post([&] { turned = true; });
    ASSERT_TRUE(served.loop.runUntil([&] { return turned; }, kSoon));
  }
  EXPECT_TRUE(held);
  held->respond(200, {}, "");
  held = nullptr;
  EXPECT_TRUE(served.loop.runUntil([&] { return held != nullptr; }, kSoon));  // and it goes on
}

TEST(HttpServer, AClientThatIsGoneWhenItsBodyIsAskedForIsForgotten) {
  int handled = 0;
  Served served([&](std::shared_ptr<ServerRequest> request) {
    ++handled;
    request->respond(200, {}, "");
  });
  asio::ip::tcp::socket socket(contextOf(served.loop));
  socket.connect({asio::ip::make_address("127.0.0.1"), served.server->port()});
  asio::write(socket, asio::buffer(std::string("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2"
                                               "\r\nExpect: 100-continue\r\n\r\nab")));
  socket.set_option(asio::socket_base::linger(true, 0));  // closing it is a reset
  socket.close();
  auto client = served.client();
  ASSERT_TRUE(await<HttpResponse>(
      served.loop, [&](auto done) { return fetch(*client, {}, 100, std::move(done)); }, kSoon));
  EXPECT_EQ(handled, 1);
  EXPECT_EQ(served.server->connections(), 1u);
}

TEST(HttpServer, WhoeverHearsThatTheClientLeftMayDropTheRequestAndTheServer) {
  std::shared_ptr<ServerRequest> held;
  Served served([&](std::shared_ptr<ServerRequest> request) { held = std::move(request); },
                {.max_backlog_bytes = 1 << 10});
  asio::ip::tcp::socket socket(contextOf(served.loop));
  socket.connect({asio::ip::make_address("127.0.0.1"), served.server->port()});
  asio::write(socket, asio::buffer(std::string("GET / HTTP/1.1\r\nHost: x\r\n\r\n")));
  ASSERT_TRUE(served.loop.runUntil([&] { return held != nullptr; }, kSoon));
  held->onGone([&] {
    held.reset();
    served.server.reset();
  });
  held->begin(200, {});
  held->write(std::string(16 << 20, 'x'));
  held->write("x");  // more than it lets wait: it is cut off
  EXPECT_FALSE(held);
  EXPECT_FALSE(served.server);
}

constexpr std::size_t kRoom = 2;

// A client that keeps its connection to a server with that much room.
struct Visitor {
  Served& served;
  asio::ip::tcp::socket socket{contextOf(served.loop)};
  std::string got = {};
  bool over = false;
  char buffer[4096];

  explicit Visitor(Served& where, std::string_view says = "") : served(where) {
    std::size_t there = std::min(served.server->connections() + 1, kRoom);
    socket.connect({asio::ip::make_address("127.0.0.1"), served.server->port()});
    say(says);
    read();
    // Who is made later is to come later.
    EXPECT_TRUE(served.loop.runUntil([&] { return served.server->connections() == there; }, kSoon));
  }
  void say(std::string_view bytes) {
    asio::write(socket, asio::buffer(bytes.data(), bytes.size()));
  }
  void read() {
    socket.async_read_some(asio::buffer(buffer), [this](ErrorCode error, std::size_t count) {
      got.append(buffer, count);
      over = error.failed();
      if (!over) read();
    });
  }
  bool answered() {
    return served.loop.runUntil([&] { return got.starts_with("HTTP/1.1 200 "); }, kSoon);
  }
};
constexpr std::string_view kRequest = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";

HttpServerOptions patientWithTwo() {
  return {.max_connections = kRoom, .head_timeout = 1h, .body_timeout = 1h, .idle_timeout = 1h};
}

TEST(HttpServer, AFullServerLetsGoOfTheOneThatIsIdleLongest) {
  Served served(echo(), patientWithTwo());
  Visitor slow(served, "GET / HT"), idle(served, kRequest);
  ASSERT_TRUE(idle.answered());
  Visitor next(served, kRequest);
  ASSERT_TRUE(next.answered());
  EXPECT_TRUE(idle.over) << "though another one is slower";
  EXPECT_FALSE(slow.over);
  slow.say("TP/1.1\r\nHost: x\r\n\r\n");
  ASSERT_TRUE(slow.answered());
  Visitor last(served, kRequest);
  ASSERT_TRUE(last.answered());
  EXPECT_TRUE(next.over);
  EXPECT_FALSE(slow.over) << "it was idle for less long";
}

TEST(HttpServer, AFullServerLetsGoOfTheOneThatIsLongestInItsHead) {
  Served served(echo(), patientWithTwo());
  Visitor silent(served), slow(served, "GET / HT");
  Visitor next(served, kRequest);
  ASSERT_TRUE(next.answered());
  EXPECT_TRUE(silent.over);
  EXPECT_FALSE(slow.over);
}

TEST(HttpServer, AFullServerLetsGoOfTheOneThatIsLongestInItsBody) {
  Served served(echo(), patientWithTwo());
  constexpr std::string_view kSlow = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n1";
  Visitor first(served, kSlow), second(served, kSlow);
  Visitor next(served, kRequest);
  ASSERT_TRUE(next.answered());
  EXPECT_TRUE(first.over);
  EXPECT_FALSE(second.over);
}

TEST(HttpServer, AFullServerFinishesWhatItHasBegun) {
  std::vector<std::shared_ptr<ServerRequest>> held;
  Served served([&](std::shared_ptr<ServerRequest> request) { held.push_back(std::move(request)); },
                patientWithTwo());
  Visitor first(served, kRequest), second(served, kRequest), next(served, kRequest);
  ASSERT_TRUE(served.loop.runUntil([&] { return held.size() == 2; }, kSoon));
  EXPECT_EQ(served.server->connections(), 2u);
  held[0]->respond(200, {}, "");
  ASSERT_TRUE(served.loop.runUntil([&] { return held.size() == 3; }, kSoon));
  EXPECT_THAT(first.got, StartsWith("HTTP/1.1 200 "));
  EXPECT_TRUE(first.over);
  EXPECT_FALSE(second.over);
}

TEST(HttpServer, AnUnansweredRequestIsA500) {
  Served served([](std::shared_ptr<ServerRequest>) {});
  EXPECT_THAT(served.raw("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), StartsWith("HTTP/1.1 500 "));
}

TEST(HttpServer, StreamsAndNoticesThatTheClientLeft) {
  std::shared_ptr<ServerRequest> held;
  bool gone = false;
  Served served([&](std::shared_ptr<ServerRequest> request) {
    request->begin(200, {});
    request->write("first");
    request->onGone([&] { gone = true; });
    held = std::move(request);
  });
  auto client = served.client();
  std::string seen;
  ResponseHandler handler;
  handler.data = [&](std::string_view data) { seen += data; };
  Pending exchange = client->send({}, std::move(handler));
  ASSERT_TRUE(served.loop.runUntil([&] { return seen == "first"; }, kSoon));
  exchange.reset();
  ASSERT_TRUE(served.loop.runUntil([&] { return gone; }, kSoon));
  held->write("into the void");
  held->end();
  EXPECT_EQ(served.server->connections(), 0u);
}

TEST(HttpServer, AClientThatTakesNothingIsCutOff) {
  std::shared_ptr<ServerRequest> held;
  Served served(
      [&](std::shared_ptr<ServerRequest> request) {
        request->begin(200, {});
        held = std::move(request);
      },
      {.max_backlog_bytes = 1 << 20});
  asio::ip::tcp::socket socket(contextOf(served.loop));
  socket.connect({asio::ip::make_address("127.0.0.1"), served.server->port()});
  asio::write(socket, asio::buffer(std::string("GET / HTTP/1.1\r\nHost: x\r\n\r\n")));
  ASSERT_TRUE(served.loop.runUntil([&] { return held != nullptr; }, kSoon));
  std::string piece(1 << 16, 'x');
  for (int i = 0; i < 1000 && served.server->connections(); ++i) held->write(piece);
  EXPECT_EQ(served.server->connections(), 0u);
}

TEST(HttpServer, ClientsThatTakeTooLittleTogetherAreCutOffTheSlowestFirst) {
  std::vector<std::shared_ptr<ServerRequest>> held;
  Served served(
      [&](std::shared_ptr<ServerRequest> request) {
        request->begin(200, {});
        held.push_back(std::move(request));
      },
      {.max_backlog_bytes = 64 << 20, .max_backlog_together = 32 << 20});
  std::vector<asio::ip::tcp::socket> sockets;
  for (int i = 0; i < 8; ++i) {
    auto& socket = sockets.emplace_back(contextOf(served.loop));
    socket.connect({asio::ip::make_address("127.0.0.1"), served.server->port()});
    asio::write(socket, asio::buffer(std::string("GET / HTTP/1.1\r\nHost: x\r\n\r\n")));
  }
  ASSERT_TRUE(served.loop.runUntil([&] { return held.size() == 8; }, kSoon));
  auto together = [&] {
    std::size_t bytes = 0;
    for (const auto& request : held) bytes += request->backlog();
    return bytes;
  };
  std::string piece(1 << 20, 'x');
  // The last has little to take; the others get more than all of them may have.
  for (int round = 0; round < 16; ++round) {
    for (int i = 0; i < 7; ++i) held[static_cast<std::size_t>(i)]->write(piece);
    EXPECT_LE(together(), std::size_t{33 << 20});
  }
  for (int i = 0; i < 6; ++i) held[7]->write(piece);  // more than the system takes
  ASSERT_TRUE(served.loop.runUntil([&] { return together() <= (32 << 20); }, kSoon));
  EXPECT_LT(served.server->connections(), 8u);
  EXPECT_GT(held[7]->backlog(), 0u) << "who is not behind stays";
}

TEST(HttpServer, BodiesThatDoNotEndAreBoundedTogetherTheOldestGoFirst) {
  Served served(
      [&](std::shared_ptr<ServerRequest> request) { request->respond(200, {}, "served"); },
      {.max_bodies_together = 1 << 20});
  std::vector<asio::ip::tcp::socket> sockets;
  for (int i = 0; i < 8; ++i) {
    auto& socket = sockets.emplace_back(contextOf(served.loop));
    socket.connect({asio::ip::make_address("127.0.0.1"), served.server->port()});
    asio::write(
        socket,
        asio::buffer(std::string("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n") +
                     std::string(300'000, 'x')));
    std::size_t so_far = std::min<std::size_t>(static_cast<std::size_t>(i) + 1, 3);
    ASSERT_TRUE(
        served.loop.runUntil([&] { return served.server->connections() >= so_far; }, kSoon));
    served.loop.runUntil([] { return false; }, 20ms);
  }
  ASSERT_TRUE(served.loop.runUntil([&] { return served.server->connections() <= 3; }, kSoon));
  // Who has something to say is heard.
  auto client = served.client();
  auto answer = await<HttpResponse>(served.loop, [&](auto done) {
    return fetch(*client, {.method = "POST", .body = std::string(500'000, 'y')}, 100,
                 std::move(done));
  });
  ASSERT_TRUE(answer.ok()) << answer.error().text();
  EXPECT_EQ(answer->body, "served");
}

TEST(HttpServer, DrainFinishesWhatIsUnderWay) {
  std::shared_ptr<ServerRequest> held;
  Served served([&](std::shared_ptr<ServerRequest> request) { held = std::move(request); });
  auto client = served.client();
  std::optional<Result<HttpResponse>> answer;
  Pending exchange = fetch(*client, {}, 100, [&](auto result) { answer = std::move(result); });
  ASSERT_TRUE(served.loop.runUntil([&] { return held != nullptr; }, kSoon));
  bool drained = false;
  served.server->drain([&] { drained = true; });
  EXPECT_FALSE(drained);
  held->respond(200, {}, "done");
  ASSERT_TRUE(served.loop.runUntil([&] { return drained && answer; }, kSoon));
  ASSERT_TRUE(*answer);
  EXPECT_EQ((*answer)->body, "done");
}

TEST(HttpServer, APortInUseIsSaid) {
  Served served(echo());
  Loop loop;
  auto second = HttpServer::listen(loop, {.port = served.server->port()}, echo());
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().text(), HasSubstr("cannot listen on 127.0.0.1:"));
  EXPECT_THAT(second.error().text(), HasSubstr("address already in use"));
}

TEST(WebSocket, APeerThatTakesNothingIsCutOff) {
  std::unique_ptr<WebSocket> socket;
  bool closed = false;
  Served served([&](std::shared_ptr<ServerRequest> request) {
    request->acceptWebSocket("", [&](std::unique_ptr<WebSocket> accepted) {
      socket = std::move(accepted);
      socket->listen({.message = nullptr, .closed = [&] { closed = true; }});
    });
  });
  asio::ip::tcp::socket client(contextOf(served.loop));
  client.connect({asio::ip::make_address("127.0.0.1"), served.server->port()});
  asio::write(client, asio::buffer(std::string(
                          "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket"
                          "\r\nSec-WebSocket-Version: 13\r\n"
                          "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")));
  ASSERT_TRUE(served.loop.runUntil([&] { return socket != nullptr; }, kSoon));
  constexpr std::size_t kLimit = 64u << 20;
  const std::string piece(1 << 20, 'x');
  while (socket->backlog() + piece.size() <= kLimit) socket->send(false, piece);
  bool turned = false;
  served.loop.post([&] { turned = true; });
  ASSERT_TRUE(served.loop.runUntil([&] { return turned; }, kSoon));
  EXPECT_FALSE(closed) << "up to there it is patient";
  for (int i = 0; i < 200 && !closed; ++i) {
    socket->send(false, piece);
    turned = false;
    served.loop.post([&] { turned = true; });
    ASSERT_TRUE(served.loop.runUntil([&] { return turned; }, kSoon));
  }
  EXPECT_TRUE(closed);
  socket.reset();  // before its loop
}

TEST(WebSocket, OpensFromHereOrSaysWhyNot) {
  std::unique_ptr<WebSocket> there;
  Served served([&](std::shared_ptr<ServerRequest> request) {
    if (request->target == "/no") return request->respond(403, {}, "you may not");
    EXPECT_EQ(request->headers.get("authorization"), "Bearer me");
    EXPECT_EQ(request->headers.get("sec-websocket-protocol"), "v5.channel.k8s.io");
    request->acceptWebSocket("v5.channel.k8s.io", [&](std::unique_ptr<WebSocket> accepted) {
      there = std::move(accepted);
      there->listen({.message =
                         [&](bool, std::string_view message) {
                           there->send(false, "not " + std::string(message));
                           there->close(1000, "");
                         },
                     .closed = nullptr});
    });
  });
  auto open = [&](const std::string& target, std::uint16_t port) {
    return await<std::unique_ptr<WebSocket>>(
        served.loop,
        [&](auto done) {
          WebSocketRequest request{.url = *Url::parse(format("http://127.0.0.1:{}", port)),
                                   .target = target,
                                   .headers = {{"Authorization", "Bearer me"}},
                                   .subprotocol = "v5.channel.k8s.io"};
          request.refused = [](int status, std::string_view body) {
            return Error{.code = Code::Forbidden, .message = format("{}: {}", status, body)};
          };
          return openWebSocket(served.loop, std::move(request), std::move(done));
        },
        kSoon);
  };
  auto here = open("/yes", served.server->port());
  ASSERT_TRUE(here) << here.error().text();
  std::string heard;
  bool closed = false;
  (*here)->listen({.message = [&](bool, std::string_view message) { heard = message; },
                   .closed = [&] { closed = true; }});
  (*here)->send(false, "so");
  EXPECT_TRUE(served.loop.runUntil([&] { return closed; }, kSoon));
  EXPECT_EQ(heard, "not so");
  EXPECT_EQ(open("/no", served.server->port()).error().text(), "403: you may not");
  std::uint16_t port = served.server->port();
  there.reset();
  served.server.reset();
  EXPECT_THAT(open("/yes", port).error().text(), HasSubstr("refused"));
}

TEST(WebSocket, EchoesTextAndBinaryAndSaysGoodbye) {
  std::unique_ptr<WebSocket> socket;
  bool closed = false;
  Served served([&](std::shared_ptr<ServerRequest> request) {
    ASSERT_TRUE(request->wantsWebSocket());
    request->acceptWebSocket("v5.channel.k8s.io", [&](std::unique_ptr<WebSocket> accepted) {
      socket = std::move(accepted);
      socket->listen(
          {.message = [&](bool text,
                          std::string_view message) { socket->send(text, std::string(message)); },
           .closed = [&] { closed = true; }});
    });
  });

  namespace websocket = boost::beast::websocket;
  websocket::stream<asio::ip::tcp::socket> client(contextOf(served.loop));
  client.next_layer().connect({asio::ip::make_address("127.0.0.1"), served.server->port()});
  client.set_option(websocket::stream_base::decorator([](websocket::request_type& request) {
    request.set(boost::beast::http::field::sec_websocket_protocol, "v5.channel.k8s.io");
  }));
  websocket::response_type response;
  bool ready = false;
  client.async_handshake(response, "127.0.0.1", "/ws", [&](ErrorCode error) { ready = !error; });
  ASSERT_TRUE(served.loop.runUntil([&] { return ready; }, kSoon));
  EXPECT_EQ(response["Sec-WebSocket-Protocol"], "v5.channel.k8s.io");

  std::string big(300'000, 'b');
  for (auto& [text, message] :
       std::vector<std::pair<bool, std::string>>{{true, "hello"}, {false, big}}) {
    boost::beast::flat_buffer buffer;
    bool got = false;
    client.text(text);
    client.async_write(asio::buffer(message), [](ErrorCode, std::size_t) {});
    client.async_read(buffer, [&](ErrorCode error, std::size_t) { got = !error; });
    ASSERT_TRUE(served.loop.runUntil([&] { return got; }, kSoon));
    EXPECT_EQ(client.got_text(), text);
    EXPECT_TRUE(boost::beast::buffers_to_string(buffer.data()) == message);
  }
  bool over = false;
  client.async_close(websocket::close_code::normal, [&](ErrorCode) { over = true; });
  EXPECT_TRUE(served.loop.runUntil([&] { return over && closed; }, kSoon));
  socket.reset();  // before its loop
}

// ---- Requests that are handed over with their head

struct Streaming : Served {
  std::shared_ptr<StreamedRequest> request;
  std::string body;
  int gone = 0;
  bool over = false;

  explicit Streaming(Function<void(Streaming&)> handle, HttpServerOptions options = {})
      : Served(echo()) {
    server = *HttpServer::listenStreamed(
        loop, std::move(options),
        [this, handle = std::move(handle)](std::shared_ptr<StreamedRequest> streamed) {
          request = std::move(streamed);
          body.clear();
          over = false;
          request->onGone([this] { ++gone; });
          handle(*this);
        });
  }
  void readAll(Function<void()> then) {
    request->readBody([this, then = std::move(then)](std::string_view piece) mutable {
      body += piece;
      over = piece.empty();
      over ? then() : readAll(std::move(then));
    });
  }
};

TEST(HttpServer, StreamsBodiesIn) {
  Streaming served([](Streaming& self) {
    self.readAll([&self] { self.request->respond(200, {}, self.body); });
  });
  EXPECT_EQ(served.raw("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\none"
                       "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                       "1\r\nt\r\n2;ext=1\r\nwo\r\n0\r\nTrailer: x\r\n\r\n"
                       "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\none"
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\ntwo"
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(served.gone, 0);
  EXPECT_THAT(served.raw("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n"
                         "Expect: 100-continue\r\nConnection: close\r\n\r\none"),
              StartsWith("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n"));
}

TEST(HttpServer, AStreamedBodyThatNobodyReadsStaysInTheNetwork) {
  Streaming served([](Streaming&) {});
  asio::ip::tcp::socket socket(contextOf(served.loop));
  socket.connect({asio::ip::make_address("127.0.0.1"), served.server->port()});
  asio::write(socket, asio::buffer(std::string(
                          "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n")));
  socket.non_blocking(true);
  std::string piece(1 << 16, 'x');
  std::size_t sent = 0;
  auto push = [&] {
    for (int idle_turns = 0; idle_turns < 50 && sent < 64u << 20; ++idle_turns) {
      ErrorCode error;
      while (std::size_t count = socket.write_some(asio::buffer(piece), error)) {
        sent += count;
        idle_turns = 0;
        if (error || sent >= 64u << 20) break;
      }
      served.loop.runUntil([] { return false; }, 1ms);
    }
  };
  push();
  EXPECT_LT(sent, 64u << 20);
  EXPECT_EQ(served.request->body, "");
  served.readAll([] {});
  push();
  EXPECT_GE(sent, 64u << 20) << "it goes on when somebody reads";
}

TEST(HttpServer, ABrokenStreamedBodyIsRefusedAndItsRequestGone) {
  Streaming served([](Streaming& self) { self.readAll([] {}); });
  const std::string head = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (const std::string bad : {"zz\r\n", "2\r\nabc\r\n", "-1\r\n\r\n"}) {
    served.gone = 0;
    EXPECT_THAT(served.raw(head + bad + "GET /hidden HTTP/1.1\r\nHost: x\r\n\r\n"),
                StartsWith("HTTP/1.1 400 "))
        << bad;
    EXPECT_EQ(served.gone, 1) << bad;
    EXPECT_EQ(served.request->target, "/");
    EXPECT_FALSE(served.over);
  }
  Streaming begun([](Streaming& self) {
    self.request->begin(200, {});
    self.readAll([] {});
  });
  EXPECT_EQ(begun.raw(head + "zz\r\n"), "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
  EXPECT_EQ(begun.gone, 1);
}

TEST(HttpServer, WhoAnswersWithoutReadingTheBodyIsHeard) {
  Streaming served([](Streaming& self) { self.request->respond(403, {}, "no"); });
  EXPECT_EQ(served.raw("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 40\r\n\r\n"
                       "GET /hidden HTTP/1.1\r\nHost: x\r\n\r\n"),
            "HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno");
}

TEST(HttpServer, StreamedClientsThatSendNothingAreCutOff) {
  Streaming served([](Streaming& self) { self.readAll([] {}); }, {.body_timeout = 20ms});
  EXPECT_EQ(served.raw("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc"), "");
  EXPECT_EQ(served.gone, 1);
  EXPECT_EQ(served.body, "abc");
}

TEST(HttpServer, AnAnswerWhoseLengthWasToldHasIt) {
  auto answer = [](std::string body) {
    return [body](Streaming& self) {
      self.request->begin(200, {{"Content-Length", "4"}});
      self.request->write(body);
      self.request->end();
    };
  };
  const std::string request = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
  const std::string last = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
  const std::string head = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n";
  EXPECT_EQ(Streaming(answer("four")).raw(request + last),
            head + "\r\nfour" + head + "Connection: close\r\n\r\nfour");
  EXPECT_EQ(Streaming(answer("toolong")).raw(last), head + "Connection: close\r\n\r\ntool");
  EXPECT_EQ(Streaming(answer("few")).raw(request + last), head + "\r\nfew") << "cut";
  EXPECT_EQ(Streaming(answer("four")).raw("HEAD / HTTP/1.1\r\nHost: x\r\n\r\n" + last),
            head + "\r\n" + head + "Connection: close\r\n\r\nfour");
}

TEST(HttpServer, GoesOnInAnotherProtocol) {
  Streaming served(
      [](Streaming& self) {
        self.request->switchProtocol({{"Upgrade", "echo"}, {"Connection", "Upgrade"}});
        self.request->readBody([&self](std::string_view piece) {
          self.request->write(piece);
          self.request->onTaken([&self] { self.request->end(); });
        });
      },
      {.body_timeout = 20ms});
  EXPECT_EQ(served.raw("GET / HTTP/1.1\r\nHost: x\r\n\r\n\1\2 as it is"),
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n"
            "\1\2 as it is");
}

}  // namespace
}  // namespace cadre::net
