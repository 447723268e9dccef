#include "node/streams.h"

#include <algorithm>
#include <map>

#include "base/format.h"
#include "base/strings.h"
#include "json/parse.h"
#include "json/write.h"
#include "net/socket.h"
#include "node/logs.h"

namespace cadre::node {
namespace {

constexpr std::size_t kMaxSessions = 256;
constexpr std::size_t kAhead = 1u << 20;  // of what a side has taken
constexpr Duration kConnectTimeout = 10s;
constexpr unsigned char kStdin = 0, kStdout = 1, kStderr = 2, kError = 3, kResize = 4, kClose = 255;
constexpr std::string_view kProtocols[] = {"v5.channel.k8s.io", "v4.channel.k8s.io"};

json::Value succeeded() {
  return json::Object{{"metadata", json::Object{}}, {"status", "Success"}};
}

json::Value endedWith(int code) {
  json::Array causes{json::Object{{"reason", "ExitCode"}, {"message", format("{}", code)}}};
  return json::Object{
      {"metadata", json::Object{}},
      {"status", "Failure"},
      {"reason", "NonZeroExitCode"},
      {"message", format("command terminated with non-zero exit code: exit code {}", code)},
      {"details", json::Object{{"causes", std::move(causes)}}}};
}

json::Value failed(const std::string& message) {
  return json::Object{{"metadata", json::Object{}},
                      {"status", "Failure"},
                      {"reason", "InternalError"},
                      {"code", 500},
                      {"message", "Internal error occurred: " + message}};
}

}  // namespace

// One client, for as long as it is there.
class Streams::Session : public std::enable_shared_from_this<Session> {
 public:
  explicit Session(Streams& streams) : streams_(streams) {}
  virtual ~Session() = default;

  void accepted(std::unique_ptr<net::WebSocket> socket) {
    socket_ = std::move(socket);
    socket_->listen({.message =
                         [weak = weak_from_this()](bool, std::string_view message) {
                           auto self = weak.lock();
                           if (!self || message.empty() || self->over_) return;
                           self->received(static_cast<unsigned char>(message[0]),
                                          message.substr(1));
                         },
                     .closed =
                         [weak = weak_from_this()] {
                           if (auto self = weak.lock()) self->gone();
                         }});
    opened();
  }

  void send(unsigned char channel, std::string_view bytes) {
    if (over_ || !socket_) return;
    std::string message(1, static_cast<char>(channel));
    message += bytes;
    socket_->send(false, std::move(message));
  }
  bool isFull() const { return socket_ && socket_->backlog() > kAhead; }

 protected:
  virtual void opened() = 0;
  virtual void received(unsigned char channel, std::string_view bytes) = 0;

  // The last word; it is gone when the client has heard it.
  void finish(const json::Value& status) {
    if (over_) return;
    send(kError, json::write(status));
    close();
  }
  void close() {
    over_ = true;
    if (socket_) socket_->close(1000, "");
    leaving_ = loop().after(10s, [weak = weak_from_this()] {
      if (auto self = weak.lock()) self->gone();
    });
  }
  void gone() {
    over_ = true;
    // Not from inside of what it is told by.
    loop().post(
        [&streams = streams_, self = shared_from_this()] { streams.sessions_.erase(self); });
  }
  net::Loop& loop() { return streams_.loop_; }

  Streams& streams_;
  bool over_ = false;

 private:
  std::unique_ptr<net::WebSocket> socket_;
  Pending leaving_;
};

class Streams::ExecSession final : public Session {
 public:
  ExecSession(Streams& streams, RunName run, Exec wanted)
      : Session(streams), run_(std::move(run)), wanted_(std::move(wanted)) {}

 private:
  void opened() override {
    // Who waits for the connection to stand hears something at once.
    send(wanted_.output ? kStdout : wanted_.errors ? kStderr : kError, "");
    net::ConversationOptions options;
    options.process.argv = wanted_.command;
    options.terminal = wanted_.terminal;
    options.input = wanted_.input;
    options.said = [this](bool errors, std::string_view piece) {
      if (errors ? wanted_.errors : wanted_.output) send(errors ? kStderr : kStdout, piece);
    };
    options.full = [this] { return isFull(); };
    options.ended = [this](const Result<int>& code) {
      finish(!code        ? failed("error executing command in container: " + code.error().text())
             : *code == 0 ? succeeded()
                          : endedWith(*code));
    };
    conversation_ = streams_.runtime_.talkInside(run_, std::move(options));
  }

  void received(unsigned char channel, std::string_view bytes) override {
    if (!conversation_) return;
    if (channel == kStdin) {
      conversation_->write(bytes);
      // Whoever writes more than is read has to wait, and there is no way to say so.
      if (conversation_->backlog() > 64 * kAhead)
        finish(failed("the command does not read what it is sent"));
    }
    if (channel == kClose && bytes.size() == 1 && bytes[0] == static_cast<char>(kStdin))
      conversation_->closeInput();
    if (channel == kResize)
      if (auto size = json::parse(bytes))
        conversation_->resize(
            static_cast<int>(std::clamp<std::int64_t>((*size)["Height"].integer(), 0, 10'000)),
            static_cast<int>(std::clamp<std::int64_t>((*size)["Width"].integer(), 0, 10'000)));
  }

  const RunName run_;
  const Exec wanted_;
  std::unique_ptr<net::Conversation> conversation_;
};

// A log is sent as an answer to a request: here what would be its body is one channel.
class Streams::AttachSession final : public Session {
 public:
  AttachSession(Streams& streams, std::string log, Function<bool()> alive)
      : Session(streams), log_(std::move(log)), alive_(std::move(alive)) {}

 private:
  class Channel final : public net::ServerRequest {
   public:
    explicit Channel(std::weak_ptr<AttachSession> session) : session_(std::move(session)) {}

    void respond(int, net::Headers, std::string) override {}
    void begin(int, net::Headers) override {}
    void write(std::string_view piece) override {
      if (auto session = session_.lock()) session->send(kStdout, piece);
    }
    std::size_t backlog() const override {
      auto session = session_.lock();
      return session && session->isFull() ? 2 * kAhead : 0;
    }
    void end() override {
      if (auto session = session_.lock()) session->finish(succeeded());
    }
    void onGone(Function<void()> gone) override {
      if (auto session = session_.lock()) session->when_gone_ = std::move(gone);
    }
    bool wantsWebSocket() const override { return false; }
    void acceptWebSocket(std::string, Function<void(std::unique_ptr<net::WebSocket>)>) override {}

   private:
    const std::weak_ptr<AttachSession> session_;
  };

 public:
  ~AttachSession() override {
    if (when_gone_) when_gone_();
  }

 private:
  void opened() override {
    send(kStdout, "");
    auto self = std::static_pointer_cast<AttachSession>(shared_from_this());
    sendLog(loop(), log_, {.follow = true, .tail_lines = 0}, std::move(alive_),
            std::make_shared<Channel>(self));
  }
  void received(unsigned char, std::string_view) override {}

  const std::string log_;
  Function<bool()> alive_;
  Function<void()> when_gone_;
};

class Streams::ForwardSession final : public Session {
 public:
  ForwardSession(Streams& streams, std::string address, std::vector<std::uint16_t> ports)
      : Session(streams), address_(std::move(address)), ports_(std::move(ports)) {}

 private:
  void opened() override {
    for (std::size_t i = 0; i < ports_.size(); ++i) {
      auto channel = static_cast<unsigned char>(2 * i);
      const char port[] = {static_cast<char>(ports_[i] & 0xff), static_cast<char>(ports_[i] >> 8)};
      for (unsigned char one : {channel, static_cast<unsigned char>(channel + 1)})
        send(one, {port, sizeof port});
      dialling_[channel] = net::dial(loop(), {address_, ports_[i]}, kConnectTimeout,
                                     [this, channel](Result<std::unique_ptr<net::Socket>> socket) {
                                       connected(channel, std::move(socket));
                                     });
    }
  }

  void connected(unsigned char channel, Result<std::unique_ptr<net::Socket>> socket) {
    if (!socket) {
      send(static_cast<unsigned char>(channel + 1), socket.error().text());
      return ended();
    }
    auto& place = sockets_[channel] = *std::move(socket);
    place->listen({.data = [this, channel](std::string_view piece) { send(channel, piece); },
                   .ended = [this] { ended(); },
                   .full = [this] { return isFull(); }});
    place->send(std::exchange(early_[channel], {}));
  }

  // There is no way to tell of one channel that it has ended.
  void ended() {
    if (++ended_ == ports_.size()) close();
  }

  void received(unsigned char channel, std::string_view bytes) override {
    if (channel % 2 != 0 || channel / 2u >= ports_.size()) return;
    auto socket = sockets_.find(channel);
    std::size_t backlog =
        socket == sockets_.end() ? early_[channel].size() : socket->second->backlog();
    if (backlog > 64 * kAhead) return close();
    if (socket == sockets_.end()) {
      early_[channel] += bytes;
    } else {
      socket->second->send(bytes);
    }
  }

  const std::string address_;
  const std::vector<std::uint16_t> ports_;
  std::map<unsigned char, Pending> dialling_;
  std::map<unsigned char, std::string> early_;  // what came before the connection stood
  std::map<unsigned char, std::unique_ptr<net::Socket>> sockets_;
  std::size_t ended_ = 0;
};

Streams::Streams(net::Loop& loop, Runtime& runtime) : loop_(loop), runtime_(runtime) {}
Streams::~Streams() = default;

void Streams::begin(std::shared_ptr<Session> session, std::shared_ptr<net::ServerRequest> request) {
  auto refuse = [&](int code, std::string text) {
    request->respond(code, {{"content-type", "text/plain"}}, std::move(text) + "\n");
  };
  if (!request->wantsWebSocket())
    return refuse(400, "Upgrade request required: only WebSockets are spoken here");
  if (sessions_.size() >= kMaxSessions) return refuse(429, "too many streams are open: close some");
  std::string protocol;
  for (std::string_view offered : split(request->headers.get("sec-websocket-protocol"), ','))
    for (std::string_view known : kProtocols)
      if (protocol.empty() && trim(offered) == known) protocol = known;
  if (protocol.empty())
    return refuse(400, format("unable to upgrade: offer {} or {}", kProtocols[0], kProtocols[1]));
  sessions_.insert(session);
  request->acceptWebSocket(protocol, [session](std::unique_ptr<net::WebSocket> socket) {
    session->accepted(std::move(socket));
  });
}

void Streams::exec(const RunName& run, const Exec& wanted,
                   std::shared_ptr<net::ServerRequest> request) {
  begin(std::make_shared<ExecSession>(*this, run, wanted), std::move(request));
}

void Streams::attach(const std::string& log, Function<bool()> alive,
                     std::shared_ptr<net::ServerRequest> request) {
  begin(std::make_shared<AttachSession>(*this, log, std::move(alive)), std::move(request));
}

void Streams::forward(const std::string& address, const std::vector<std::uint16_t>& ports,
                      std::shared_ptr<net::ServerRequest> request) {
  begin(std::make_shared<ForwardSession>(*this, address, ports), std::move(request));
}

}  // namespace cadre::node
