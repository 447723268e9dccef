#pragma once

// A client under a virtual clock, whose server's answers a test writes.
#include <memory>
#include <string>
#include <vector>

#include "base/scheduler.h"
#include "kube/client.h"

namespace cadre::kube {

// Records what is sent, and answers when the test says so.
class FakeTransport final : public net::HttpClient {
 public:
  struct Sent {
    net::HttpRequest request;
    net::ResponseHandler handler;
    bool dropped = false;

    void head(int status, net::Headers headers = {}) { handler.head({status, std::move(headers)}); }
    void data(std::string_view text) {
      if (!dropped) handler.data(text);
    }
    // Not inline: g++ 12 with AddressSanitizer takes the empty Result for an uninitialized one.
    [[gnu::noinline]] void end(Result<> result = {}) {
      if (!dropped) handler.end(std::move(result));
    }
    void answer(int status, std::string_view body, net::Headers headers = {}) {
      head(status, std::move(headers));
      data(body);
      end();
    }
  };
  std::vector<std::shared_ptr<Sent>> sent;

  Pending send(net::HttpRequest request, net::ResponseHandler handler) override {
    auto exchange = std::make_shared<Sent>(Sent{std::move(request), std::move(handler)});
    sent.push_back(exchange);
    return Pending([exchange] { exchange->dropped = true; });
  }
};

class NoCredentials final : public Credentials {
 public:
  Pending get(Function<void(Result<Identity>)> done) override {
    done(Identity{});
    return {};
  }
  bool refused(const Identity&) override { return false; }
};

// All of it together.
struct FakeApi {
  FakeScheduler scheduler;
  FakeTransport* requests = new FakeTransport;  // the client's
  FakeTransport* watches = new FakeTransport;
  std::unique_ptr<Client> client;

  explicit FakeApi(ClientOptions options = {}) {
    Config config{.server = *net::Url::parse("https://api:6443"), .source = "a test"};
    Client::Transport transport;
    transport.requests.reset(requests);
    transport.watches.reset(watches);
    client = std::make_unique<Client>(
        scheduler, config, std::move(transport),
        [](const auto&) -> Result<Client::Transport> { return Error{.message = "not here"}; },
        std::make_unique<NoCredentials>(), std::move(options));
  }
};

}  // namespace cadre::kube
