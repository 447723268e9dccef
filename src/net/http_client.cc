#include "net/http_client.h"

#include <algorithm>
#include <deque>
#include <map>

#include "base/format.h"
#include "net/connection.h"

namespace cadre::net {

void Exchange::armTimers(Loop& loop) {
  auto expire = [this, &loop](Duration after, std::string_view what) {
    return loop.after(after, [weak = weak_from_this(), after, what] {
      if (auto self = weak.lock())
        self->fail(Error{.code = Code::DeadlineExceeded,
                         .message = format("no {} within {}", what, formatDuration(after))});
    });
  };
  if (request.head_timeout > 0s) head_timer_ = expire(request.head_timeout, "answer");
  if (request.timeout > 0s) timer_ = expire(request.timeout, "complete answer");
}

void Exchange::head(ResponseHead head) {
  if (over_) return;
  answered = true;
  head_timer_.reset();
  if (handler_.head) handler_.head(std::move(head));
}

void Exchange::data(std::string_view data) {
  if (!over_ && handler_.data) handler_.data(data);
}

void Exchange::end(Result<> result) {
  if (over_) return;
  auto keep = shared_from_this();
  over_ = true;
  head_timer_.reset();
  timer_.reset();
  abandon = nullptr;
  auto handler = std::exchange(handler_, {});
  if (handler.end) handler.end(std::move(result));
}

void Exchange::cancel() {
  if (over_) return;
  over_ = true;
  head_timer_.reset();
  timer_.reset();
  if (auto let_go = std::exchange(abandon, nullptr)) let_go();
  // The handler stays until the exchange goes: this may be running inside it.
}

void Exchange::fail(Error error) {
  auto keep = shared_from_this();
  if (auto let_go = std::exchange(abandon, nullptr)) let_go();
  end(std::move(error));
}

namespace {

constexpr int kMaxAttempts = 3;
constexpr Duration kRedialAfter = 1s;
// What kube-apiserver, nginx and most others allow on a connection; the true number comes with its
// first frame.
constexpr std::size_t kUsualStreams = 100;

bool safeText(std::string_view text) {
  return std::none_of(text.begin(), text.end(),
                      [](char c) { return c == '\r' || c == '\n' || c == '\0'; });
}

Result<> checkRequest(const HttpRequest& request) {
  auto refuse = [](std::string message) {
    return Error{.code = Code::InvalidArgument, .message = std::move(message)};
  };
  for (std::string_view text : {std::string_view(request.method), std::string_view(request.target)})
    for (char c : text)
      if (static_cast<unsigned char>(c) <= 0x20 || c == 0x7f)
        return refuse("the request's method or path has a space or a control character in it");
  for (const auto& [name, value] : request.headers)
    if (!safeText(name) || !safeText(value))
      return refuse(format("the header {} has a line break in it", name));
  return {};
}

class Pool final : public PooledHttpClient, public ConnectionOwner {
 public:
  Pool(Loop& loop, HttpClientOptions options, std::shared_ptr<TlsContext> tls)
      : loop_(loop), options_(std::move(options)), tls_(std::move(tls)) {
    if ((options_.url.scheme != "https" || !options_.http2) && !options_.only_http2)
      usual_room_ = 1;
  }

  ~Pool() override {
    alive_.reset();
    dials_.clear();
    for (auto& exchange : std::exchange(waiting_, {})) exchange->cancel();
    for (auto& connection : std::exchange(connections_, {})) connection->shutdown();
  }

  Pending send(HttpRequest request, ResponseHandler handler) override {
    auto exchange = std::make_shared<Exchange>(std::move(request), std::move(handler));
    if (auto check = checkRequest(exchange->request); !check) {
      // Never from inside send(): the caller does not hold its Pending yet.
      loop_.post(
          [exchange, check = std::move(check)]() mutable { exchange->end(std::move(check)); });
    } else {
      exchange->armTimers(loop_);
      place(exchange);
    }
    return Pending([exchange] { exchange->cancel(); });
  }

  HttpClientStats stats() const override {
    HttpClientStats stats{
        .connections = connections_.size(), .waiting = waiting_.size(), .dialled = dialled_};
    for (const auto& connection : connections_) stats.active += connection->active();
    return stats;
  }

  void roomMade() override { serveWaiting(); }

  void retry(std::shared_ptr<Exchange> exchange, Error error) override {
    if (exchange->over()) return;
    if (++exchange->attempts >= kMaxAttempts) return exchange->end(std::move(error));
    place(std::move(exchange));
  }

  void closed(Connection* connection, const Error& why) override {
    bool useless = connection->carried() == 0;
    std::erase_if(connections_, [&](const auto& held) { return held.get() == connection; });
    // A peer that takes connections and no requests is as good as one that takes no connections.
    if (useless)
      failWaiting(why);
    else
      serveWaiting();
  }

 private:
  void place(std::shared_ptr<Exchange> exchange) {
    if (waiting_.empty())
      for (auto& connection : connections_)
        if (connection->hasRoom()) return connection->carry(std::move(exchange));
    // While it waits, giving up only means to be passed over later.
    exchange->abandon = nullptr;
    waiting_.push_back(std::move(exchange));
    serveWaiting();
  }

  void serveWaiting() {
    for (std::size_t i = 0; i < connections_.size(); ++i) {
      auto connection = connections_[i];
      while (!waiting_.empty() && connection->hasRoom()) {
        auto exchange = std::move(waiting_.front());
        waiting_.pop_front();
        if (!exchange->over()) connection->carry(std::move(exchange));
      }
    }
    while (!waiting_.empty() && waiting_.front()->over()) waiting_.pop_front();
    auto opening =
        static_cast<std::size_t>(std::count_if(connections_.begin(), connections_.end(),
                                               [](const auto& held) { return held->opening(); }));
    while (!redial_ && waiting_.size() > (dials_.size() + opening) * usual_room_ &&
           connections_.size() + dials_.size() < options_.max_connections)
      dial();
  }

  void dial() {
    ++dialled_;
    std::uint64_t id = next_dial_++;
    ConnectOptions options{.url = options_.url,
                           .unix_path = options_.unix_path,
                           .proxy = options_.proxy,
                           .tls = tls_,
                           .timeout = options_.connect_timeout};
    dials_[id] =
        connect(loop_, std::move(options), [this, id](Result<std::unique_ptr<Stream>> stream) {
          auto keep = std::move(dials_[id]);
          dials_.erase(id);
          if (stream)
            connected(*std::move(stream));
          else
            failWaiting(stream.error());
        });
  }

  void connected(std::unique_ptr<Stream> stream) {
    bool http2 = stream->protocol() == "h2" || options_.only_http2;
    usual_room_ = http2 ? kUsualStreams : 1;
    auto connection = http2 ? makeHttp2Connection(loop_, std::move(stream), options_, *this)
                            : makeHttp1Connection(loop_, std::move(stream), options_, *this);
    connections_.push_back(connection);
    connection->start();
    serveWaiting();
  }

  void failWaiting(const Error& error) {
    if (connections_.empty() && dials_.empty()) {
      // A handler may destroy the client, which must then hear nothing more.
      std::weak_ptr<bool> alive = alive_;
      for (auto& exchange : std::exchange(waiting_, {}))
        alive.expired() ? exchange->cancel() : exchange->end(error);
      return;
    }
    // The connections that are there serve them in turn; another one is tried for, but not in a hot
    // loop.
    redial_.emplace(loop_.after(kRedialAfter, [this] {
      redial_.reset();
      serveWaiting();
    }));
  }

  Loop& loop_;
  const HttpClientOptions options_;
  const std::shared_ptr<TlsContext> tls_;
  std::size_t usual_room_ = kUsualStreams;
  std::vector<std::shared_ptr<Connection>> connections_;
  std::deque<std::shared_ptr<Exchange>> waiting_;
  std::map<std::uint64_t, Pending> dials_;
  std::optional<Pending> redial_;  // set while no other connection is dialled
  std::uint64_t next_dial_ = 0;
  std::size_t dialled_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace

Result<std::unique_ptr<PooledHttpClient>> makeHttpClient(Loop& loop, HttpClientOptions options) {
  std::shared_ptr<TlsContext> tls;
  if (options.url.scheme == "https") {
    std::vector<std::string> protocols;
    if (options.http2) protocols.push_back("h2");
    protocols.push_back("http/1.1");
    CADRE_LET(tls, TlsContext::client(options.tls, protocols));
  } else if (options.url.scheme != "http" && options.unix_path.empty()) {
    return Error{.code = Code::InvalidArgument,
                 .message = format("{}: only https and http are spoken", options.url.origin())};
  }
  return std::make_unique<Pool>(loop, std::move(options), std::move(tls));
}

}  // namespace cadre::net
