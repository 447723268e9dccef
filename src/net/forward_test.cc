#include "net/forward.h"

#include "base/format.h"
#include "net/socket.h"

namespace cadre::net {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
constexpr Duration kSoon = 10s;

// A client, the server that forwards, and the one behind it: bytes at both ends.
struct Way {
  struct End {
    std::unique_ptr<Socket> socket;
    std::string seen;
    bool ended = false, full = false;

    void take(std::unique_ptr<Socket> taken) {
      socket = std::move(taken);
      socket->listen({.data = [this](std::string_view piece) { seen += piece; },
                      .ended = [this] { ended = true; },
                      .full = [this] { return full; }});
    }
  };

  Way() {
    behind = *Acceptor::listen(loop, {"127.0.0.1", 0}, [this](std::unique_ptr<Socket> came) {
      server.take(std::move(came));
    });
    to.port = behind->port();
    front = *HttpServer::listenStreamed(loop, {}, [this](std::shared_ptr<StreamedRequest> request) {
      ForwardOptions options{.to = to,
                             .name = "the Service x",
                             .target = request->target,
                             .headers = endToEnd(request->headers),
                             .idle_timeout = idle};
      forwarding = forward(loop, std::move(request), std::move(options), [this] { ++done; });
    });
  }
  void ask(std::string_view bytes) {
    client = {};
    server = {};
    auto dialled = await<std::unique_ptr<Socket>>(loop, [&](auto then) {
      return dial(loop, {"127.0.0.1", front->port()}, kSoon, std::move(then));
    });
    client.take(*std::move(dialled));
    client.socket->send(bytes);
  }
  void until(const Function<bool()>& holds, std::string_view why) {
    EXPECT_TRUE(loop.runUntil(holds, kSoon))
        << why << "\nserver: " << server.seen << "\nclient: " << client.seen;
  }
  void serverHears(std::string_view text) {
    until([&] { return server.seen.ends_with(text); }, text);
  }
  void clientHears(std::string_view text) {
    until([&] { return client.seen.ends_with(text); }, text);
  }

  Loop loop;
  End client, server;
  std::unique_ptr<Acceptor> behind;
  std::unique_ptr<HttpServer> front;
  Place to{"127.0.0.1", 0};
  Duration idle = 1h;
  Pending forwarding;
  int done = 0;
};

const std::string kGet = "GET /a?b=%20 HTTP/1.1\r\nHost: x\r\n\r\n";

TEST(Forward, PassesHeadsOnWithoutWhatIsOfOneConnection) {
  Way way;
  way.ask(
      "POST /a?b=%20 HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, X-Mine, Host\r\nX-Mine: 1\r\n"
      "Keep-Alive: 5\r\nTE: trailers\r\nUpgrade: h2c\r\nProxy-Authorization: secret\r\n"
      "Accept: a\r\nAccept: b\r\nContent-Length: 4\r\n\r\nbody");
  way.serverHears("body");
  EXPECT_EQ(way.server.seen,
            "POST /a?b=%20 HTTP/1.1\r\nHost: x\r\nAccept: a\r\nAccept: b\r\nContent-Length: 4\r\n"
            "Connection: close\r\n\r\nbody");
  way.server.socket->send(
      "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 201 Made\r\nConnection: close, x-own\r\n"
      "X-Own: 1\r\nSet-Cookie: a\r\nSet-Cookie: b\r\nContent-Length: 2\r\n\r\nok");
  way.clientHears("ok");
  EXPECT_EQ(
      way.client.seen,
      "HTTP/1.1 201 Created\r\nSet-Cookie: a\r\nSet-Cookie: b\r\nContent-Length: 2\r\n\r\nok");
  way.until([&] { return way.done == 1 && way.server.ended; }, "it is over");
  EXPECT_FALSE(way.client.ended) << "the client's connection is kept";
}

TEST(Forward, BodiesAsTheyCome) {
  Way way;
  way.ask("PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n");
  way.serverHears("Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n3\r\none\r\n");
  way.server.socket->send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nfour\r\n");
  way.clientHears("\r\n\r\n4\r\nfour\r\n");  // long before the request has ended
  way.client.socket->send("3\r\ntwo\r\n");
  way.serverHears("3\r\ntwo\r\n");
  way.client.socket->send("0\r\n\r\n");
  way.serverHears("0\r\n\r\n");
  way.server.socket->send("0\r\n\r\n");
  way.clientHears("0\r\n\r\n");
}

TEST(Forward, ABodyWithoutALengthEndsWithItsConnection) {
  Way way;
  way.ask(kGet);
  way.serverHears("\r\n\r\n");
  way.server.socket->send("HTTP/1.0 200 OK\r\n\r\nall");
  way.clientHears("3\r\nall\r\n");
  way.server.socket->finish();
  way.clientHears("0\r\n\r\n");
}

TEST(Forward, WhatBreaksOffIsCutOff) {
  for (std::string_view half :
       {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"}) {
    Way way;
    way.ask(kGet);
    way.serverHears("\r\n\r\n");
    way.server.socket->send(half);
    way.until([&] { return way.client.seen.find("half") != std::string::npos; }, half);
    way.server.socket.reset();
    way.until([&] { return way.client.ended && way.done == 1; }, "cut");
    EXPECT_FALSE(way.client.seen.ends_with("0\r\n\r\n"));
  }
}

TEST(Forward, SaysWhyThereIsNoAnswer) {
  Way way;
  for (auto [said, why] :
       {std::pair<std::string_view, std::string_view>{"", "it was closed"},
        {"HTTP/1.1 200", "it was closed"},
        {"nonsense\r\n\r\n", "not an HTTP answer"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "not an HTTP answer"},
        {"HTTP/1.1 101 No\r\nUpgrade: h2c\r\n\r\n", "was not asked for"}}) {
    way.ask(kGet);
    way.serverHears("\r\n\r\n");
    way.server.socket->send(said);
    way.server.socket->finish();
    way.until([&] { return way.client.seen.ends_with("\n") && !way.client.seen.ends_with("\r\n"); },
              why);
    EXPECT_THAT(way.client.seen, StartsWith("HTTP/1.1 502 "));
    EXPECT_THAT(way.client.seen, HasSubstr("the Service x: the connection to "));
    EXPECT_THAT(way.client.seen, HasSubstr(why));
  }
  way.behind.reset();
  way.ask(kGet);
  way.until([&] { return !way.client.seen.empty(); }, "refused");
  EXPECT_THAT(way.client.seen, HasSubstr(format("the Service x: connecting to 127.0.0.1:{}: "
                                                "connection refused\n",
                                                way.to.port)));
}

TEST(Forward, WaitsOnlySoLong) {
  Way way;
  way.idle = 50ms;
  way.ask(kGet);
  way.until([&] { return !way.client.seen.empty(); }, "no answer");
  EXPECT_THAT(way.client.seen, StartsWith("HTTP/1.1 504 "));
  way.until([&] { return way.server.ended; }, "given up");
}

TEST(Forward, WhenTheClientGoesSoDoesTheRequest) {
  Way way;
  way.ask(kGet);
  way.serverHears("\r\n\r\n");
  way.client.socket.reset();
  way.until([&] { return way.server.ended && way.done == 1; }, "gone");
  way.ask("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf");
  way.serverHears("half");
  way.client.socket.reset();
  way.until([&] { return way.server.ended && way.done == 2; }, "gone in its body");
  way.ask(kGet);
  way.serverHears("\r\n\r\n");
  way.forwarding.reset();
  way.until([&] { return way.server.ended && way.client.ended; }, "dropped");
  EXPECT_EQ(way.done, 2);
}

TEST(Forward, AnAnswerBeforeTheEndOfTheRequestIsHeard) {
  Way way;
  way.ask("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 90\r\n\r\nhalf");
  way.serverHears("half");
  way.server.socket->send("HTTP/1.1 413 No\r\nContent-Length: 3\r\n\r\nno\n");
  way.until([&] { return way.client.ended; }, "closed");
  EXPECT_THAT(way.client.seen, StartsWith("HTTP/1.1 413 "));
  EXPECT_TRUE(way.client.seen.ends_with("no\n"));
}

// At each end somebody who takes nothing: what is on the way stays small.
TEST(Forward, AtThePaceOfTheSlowerSide) {
  constexpr std::size_t kMuch = 64 << 20;
  std::string piece(1 << 20, 'x');
  auto stalls = [&](Way& way, Way::End& from) {
    std::size_t sent = 0;
    for (int idle_turns = 0; idle_turns < 50 && sent < kMuch; ++idle_turns)
      if (!way.loop.runUntil([&] { return from.socket->backlog() == 0; }, 2ms))
        continue;
      else {
        from.socket->send(piece);
        sent += piece.size();
        idle_turns = 0;
      }
    return sent < kMuch;
  };
  Way up;
  up.ask(format("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", kMuch * 2));
  up.serverHears("\r\n\r\n");
  up.server.full = true;
  EXPECT_TRUE(stalls(up, up.client)) << "everything is taken";
  Way down;
  down.ask(kGet);
  down.serverHears("\r\n\r\n");
  down.client.full = true;
  down.server.socket->send(format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", kMuch * 2));
  EXPECT_TRUE(stalls(down, down.server)) << "everything is taken";
}

TEST(Forward, WebSocketsAndNoOtherProtocol) {
  const std::string ask =
      "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nSec-WebSocket-Key: k\r\nUpgrade: ";
  Way way;
  way.ask(ask + "WebSocket\r\n\r\n");
  way.serverHears("Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
  EXPECT_THAT(way.server.seen, HasSubstr("Sec-WebSocket-Key: k\r\n"));
  way.server.socket->send(
      "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
      "Sec-WebSocket-Accept: a\r\n\r\n\1hi");
  way.clientHears("\1hi");
  EXPECT_EQ(way.client.seen,
            "HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: a\r\nConnection: Upgrade\r\n"
            "Upgrade: websocket\r\n\r\n\1hi");
  way.client.socket->send("GET / HTTP/1.1\r\n\r\n\2");
  way.serverHears("\r\n\r\nGET / HTTP/1.1\r\n\r\n\2");
  way.client.socket->send("last");
  way.client.socket->finish();
  way.serverHears("last");
  way.until([&] { return way.server.ended && way.client.ended && way.done == 1; }, "both end");

  way.ask(ask + "websocket\r\n\r\n");
  way.serverHears("\r\n\r\n");
  way.server.socket->send("HTTP/1.1 101 OK\r\nUpgrade: websocket\r\n\r\nbye");
  way.server.socket->finish();
  way.clientHears("bye");
  way.until([&] { return way.client.ended; }, "ended by the server");

  way.ask(ask + "h2c\r\n\r\n");
  way.serverHears("\r\n\r\n");
  EXPECT_THAT(way.server.seen, Not(HasSubstr("Upgrade")));
}

}  // namespace
}  // namespace cadre::net
