#include "hub/transport.h"

#include <utility>

namespace cadre::hub {
namespace {

// An exchange that the client may drop at any time: then it is as if the connection was cut.
struct Exchange {
  Scheduler& scheduler;
  net::ResponseHandler handler;
  bool dropped = false;
  bool begun = false, ended = false;
  Function<void()> gone = {};

  explicit Exchange(Scheduler& scheduler, net::ResponseHandler handler)
      : scheduler(scheduler), handler(std::move(handler)) {}
};

template <class F>
void later(const std::shared_ptr<Exchange>& exchange, F task) {
  exchange->scheduler.post([exchange, task = std::move(task)]() mutable {
    if (!exchange->dropped) task(*exchange);
  });
}

class DirectRequest final : public net::ServerRequest {
 public:
  explicit DirectRequest(std::shared_ptr<Exchange> exchange) : exchange_(std::move(exchange)) {}
  ~DirectRequest() override {
    if (exchange_->ended) return;
    if (!exchange_->begun) {
      respond(500, {}, "");
      return;
    }
    finish(true);
  }

  void respond(int status, net::Headers headers, std::string body) override {
    begin(status, std::move(headers));
    write(body);
    end();
  }
  void begin(int status, net::Headers headers) override {
    exchange_->begun = true;
    later(exchange_, [status, headers = std::move(headers)](Exchange& exchange) mutable {
      exchange.handler.head({status, std::move(headers)});
    });
  }
  void write(std::string_view piece) override {
    if (piece.empty()) return;
    later(exchange_,
          [piece = std::string(piece)](Exchange& exchange) { exchange.handler.data(piece); });
  }
  std::size_t backlog() const override { return 0; }
  void end() override { finish(false); }
  void onGone(Function<void()> gone) override { exchange_->gone = std::move(gone); }
  bool wantsWebSocket() const override { return false; }
  void acceptWebSocket(std::string, Function<void(std::unique_ptr<net::WebSocket>)>) override {}

 private:
  void finish(bool cut) {
    exchange_->ended = true;
    later(exchange_, [cut](Exchange& exchange) {
      exchange.dropped = true;
      if (!cut) return exchange.handler.end({});
      exchange.handler.end(
          Error{.code = Code::Unavailable, .message = "the hub cut the connection"});
    });
  }

  std::shared_ptr<Exchange> exchange_;
};

class DirectTransport final : public net::HttpClient {
 public:
  DirectTransport(Scheduler& scheduler, Hub& hub, std::string user, std::vector<std::string> groups)
      : scheduler_(scheduler), hub_(hub), user_(std::move(user)), groups_(std::move(groups)) {}

  Pending send(net::HttpRequest request, net::ResponseHandler handler) override {
    auto exchange = std::make_shared<Exchange>(scheduler_, std::move(handler));
    auto asked = std::make_shared<DirectRequest>(exchange);
    asked->method = std::move(request.method);
    asked->target = std::move(request.target);
    asked->headers = std::move(request.headers);
    asked->body = std::move(request.body);
    asked->client_name = user_;
    asked->client_groups = groups_;
    scheduler_.post([this, exchange, asked = std::move(asked)]() mutable {
      if (!exchange->dropped) hub_.handle(std::move(asked));
    });
    return Pending([exchange] {
      if (std::exchange(exchange->dropped, true)) return;
      if (auto gone = std::exchange(exchange->gone, nullptr)) gone();
    });
  }

 private:
  Scheduler& scheduler_;
  Hub& hub_;
  const std::string user_;
  const std::vector<std::string> groups_;
};

}  // namespace

std::unique_ptr<net::HttpClient> directTransport(Scheduler& scheduler, Hub& hub, std::string user,
                                                 std::vector<std::string> groups) {
  return std::make_unique<DirectTransport>(scheduler, hub, std::move(user), std::move(groups));
}

namespace {

// Who asks is known by the way.
class NoCredentials final : public kube::Credentials {
 public:
  Pending get(Function<void(Result<Identity>)> done) override {
    done(Identity{});
    return {};
  }
  bool refused(const Identity&) override { return false; }
};

}  // namespace

std::unique_ptr<kube::Client> directClient(Scheduler& scheduler,
                                           const Function<std::unique_ptr<net::HttpClient>()>& way,
                                           kube::ClientOptions options) {
  kube::Config config{.server = *net::Url::parse("https://hub:6443"), .source = "this process"};
  kube::Client::Transport transport;
  transport.requests = way();
  transport.watches = way();
  return std::make_unique<kube::Client>(
      scheduler, config, std::move(transport),
      [](const auto&) -> Result<kube::Client::Transport> { return Error{.message = "not here"}; },
      std::make_unique<NoCredentials>(), std::move(options));
}

}  // namespace cadre::hub
