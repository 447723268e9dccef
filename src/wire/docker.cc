#include "wire/docker.h"

#include <chrono>
#include <memory>

#include "base/format.h"
#include "base/strings.h"
#include "json/parse.h"
#include "json/write.h"
#include "net/socket.h"

namespace cadre::wire {
namespace {

using json::Value;

constexpr std::size_t kMaxHead = 64u << 10;
constexpr std::string_view kUnix = "unix://";
constexpr std::size_t kFrameHead = 8;
constexpr std::size_t kMaxFrame = 16u << 20;
constexpr std::size_t kMaxErrorBytes = 64u << 10;

Code codeOf(int status) {
  switch (status) {
    case 400:
      return Code::InvalidArgument;
    case 401:
    case 403:
      return Code::Forbidden;
    case 404:
      return Code::NotFound;
    case 409:
      return Code::Conflict;
    case 501:
      return Code::Unimplemented;
    case 503:
      return Code::Unavailable;
    default:
      return Code::Internal;
  }
}

bool isGood(int status) { return (status >= 200 && status < 300) || status == 304; }

Error refusal(int status, std::string_view body) {
  auto said = json::parse(body);
  std::string message = said ? (*said)["message"].string() : std::string(trim(body));
  if (message.empty()) message = format("it answers {}", status);
  return {.code = codeOf(status), .message = format("Docker: {}", shorten(message, 2000))};
}

std::string labelFilter(const Docker::Labels& labels, json::Object more = {}) {
  json::Array wanted;
  for (const auto& [key, value] : labels) wanted.emplace_back(format("{}={}", key, value));
  more.set("label", std::move(wanted));
  return urlEncode(json::write(more));
}

// "1767225600.000000001", as the Engine reads it.
std::string secondsOf(Time time) {
  auto nanos = std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch());
  return format("{}.{:09}", nanos.count() / 1'000'000'000, nanos.count() % 1'000'000'000);
}

// "registry:5000/team/web:1.0" is "registry:5000/team/web" and "1.0"; a digest is a tag, too.
std::pair<std::string_view, std::string_view> nameAndTag(std::string_view image) {
  if (std::size_t at = image.find('@'); at != std::string_view::npos)
    return {image.substr(0, at), image.substr(at + 1)};
  std::size_t colon = image.rfind(':');
  if (colon == std::string_view::npos || image.find('/', colon) != std::string_view::npos)
    return {image, "latest"};
  return {image.substr(0, colon), image.substr(colon + 1)};
}

void appendUpTo(std::string& text, std::string_view more, std::size_t limit, bool& truncated) {
  std::size_t room = limit - std::min(limit, text.size());
  truncated |= more.size() > room;
  text += more.substr(0, room);
}

}  // namespace

Result<std::string> dockerSocket(std::string_view docker_host) {
  if (docker_host.empty()) return "/var/run/docker.sock";
  if (docker_host.starts_with(kUnix) && docker_host.size() > kUnix.size())
    return std::string(docker_host.substr(kUnix.size()));
  return Error{.code = Code::InvalidArgument,
               .message = format("DOCKER_HOST is {}: only an Engine of this machine will do, as "
                                 "unix:///var/run/docker.sock",
                                 docker_host)};
}

// ---- Frames

Result<> DockerFrames::feed(std::string_view piece) {
  pending_ += piece;
  std::size_t done = 0;
  while (pending_.size() - done >= kFrameHead) {
    auto byte = [&](std::size_t i) { return static_cast<unsigned char>(pending_[done + i]); };
    std::size_t length = std::size_t{byte(4)} << 24 | std::size_t{byte(5)} << 16 |
                         std::size_t{byte(6)} << 8 | std::size_t{byte(7)};
    if (byte(0) > 2 || byte(1) != 0 || byte(2) != 0 || byte(3) != 0 || length > kMaxFrame)
      return Error{.code = Code::DataLoss, .message = "Docker: that is no output of a container"};
    if (pending_.size() - done - kFrameHead < length) break;
    on_frame_(static_cast<DockerStream>(byte(0)),
              std::string_view(pending_).substr(done + kFrameHead, length));
    done += kFrameHead + length;
  }
  pending_.erase(0, done);
  return {};
}

Result<> DockerFrames::finish() const {
  if (pending_.empty()) return {};
  return Error{.code = Code::DataLoss, .message = "Docker: output ends in the middle of a line"};
}

// ---- Requests

Error Docker::unreachable(const Error& error) const {
  if (error.code != Code::Unavailable) return error.context("Docker");
  return error.context(
      format("Docker does not answer at {}: start it, and be in its group or root", socket_));
}

net::HttpRequest Docker::request(std::string method, std::string target, const Value* body) const {
  net::HttpRequest out{.method = std::move(method),
                       .target = std::move(target),
                       .head_timeout = limits_.answer_timeout,
                       .timeout = limits_.answer_timeout};
  if (!body) return out;
  out.headers.add("content-type", "application/json");
  out.body = json::write(*body);
  return out;
}

Pending Docker::ask(net::HttpRequest request, Answered done) {
  return net::fetch(http_, std::move(request), limits_.answer_bytes,
                    [this, done = std::move(done)](const Result<net::HttpResponse>& answer) {
                      if (!answer) return done(unreachable(answer.error()));
                      if (!isGood(answer->status))
                        return done(refusal(answer->status, answer->body));
                      if (trim(answer->body).empty()) return done(Value());
                      auto value = json::parse(answer->body);
                      if (!value) return done(value.error().context("Docker"));
                      done(*std::move(value));
                    });
}

Pending Docker::tell(net::HttpRequest request, Done done) {
  return ask(std::move(request), [done = std::move(done)](const Result<Value>& answer) {
    done(answer ? Result<>() : Result<>(answer.error()));
  });
}

// One answer that comes in pieces.
struct Docker::Streaming {
  int status = 0;
  std::string refused;
  Result<> trouble;
  Function<Result<>(std::string_view)> data;
  Function<void(Result<>)> end;
  Pending exchange;
};

Pending Docker::stream(net::HttpRequest request, Function<void()> begun,
                       Function<Result<>(std::string_view)> data, Function<void(Result<>)> end) {
  auto state = std::make_shared<Streaming>();
  state->data = std::move(data);
  state->end = std::move(end);
  std::weak_ptr<Streaming> weak = state;
  net::ResponseHandler handler;
  handler.head = [weak, begun = std::move(begun)](const net::ResponseHead& head) {
    auto state = weak.lock();
    if (!state) return;
    state->status = head.status;
    if (isGood(head.status) && begun) begun();
  };
  handler.data = [weak](std::string_view piece) {
    auto state = weak.lock();
    if (!state) return;
    bool ignored = false;
    if (!isGood(state->status)) return appendUpTo(state->refused, piece, kMaxErrorBytes, ignored);
    if (state->trouble) state->trouble = state->data(piece);
  };
  handler.end = [this, weak](const Result<>& result) {
    auto state = weak.lock();
    if (!state) return;
    auto end = std::exchange(state->end, nullptr);
    if (!end) return;
    if (!state->trouble) return end(state->trouble);
    if (!result) return end(unreachable(result.error()));
    if (!isGood(state->status)) return end(refusal(state->status, state->refused));
    end({});
  };
  state->exchange = http_.send(std::move(request), std::move(handler));
  return Pending([state] {
    state->end = nullptr;
    state->exchange.reset();
  });
}

// Of what takes its time the Engine tells by the line; a failure is one of them.
Pending Docker::progress(net::HttpRequest request, Done done) {
  auto failure = std::make_shared<std::string>();
  auto parser = std::make_shared<json::StreamParser>([failure](const Value& line) {
    if (!line["error"].string().empty()) *failure = line["error"].string();
  });
  return stream(
      std::move(request), nullptr, [parser](std::string_view piece) { return parser->feed(piece); },
      [failure, done = std::move(done)](Result<> result) {
        if (result && !failure->empty())
          result = Error{.code = Code::Unavailable, .message = format("Docker: {}", *failure)};
        done(std::move(result));
      });
}

// ---- What it can do

Pending Docker::version(Answered done) {
  net::HttpRequest asked = request("GET", "/version");
  asked.head_timeout = asked.timeout = 5s;
  return ask(std::move(asked), std::move(done));
}

Pending Docker::info(Answered done) {
  net::HttpRequest asked = request("GET", "/info");
  asked.head_timeout = asked.timeout = 5s;
  return ask(std::move(asked), std::move(done));
}

Pending Docker::inspectImage(const std::string& image, Answered done) {
  return ask(request("GET", format("/images/{}/json", urlEncode(image))), std::move(done));
}

Pending Docker::listImages(const std::string& name, Answered done) {
  Value filter = json::Object{{"reference", json::Array{name}}};
  return ask(request("GET", format("/images/json?filters={}", urlEncode(json::write(filter)))),
             std::move(done));
}

Pending Docker::removeImage(const std::string& image, Done done) {
  return tell(request("DELETE", format("/images/{}", urlEncode(image))), std::move(done));
}

Pending Docker::pullImage(const std::string& image, Duration timeout, Done done) {
  auto [name, tag] = nameAndTag(image);
  net::HttpRequest asked = request(
      "POST", format("/images/create?fromImage={}&tag={}", urlEncode(name), urlEncode(tag)));
  asked.head_timeout = asked.timeout = timeout;
  return progress(std::move(asked), std::move(done));
}

Pending Docker::importImage(const std::string& name, const std::string& tag, std::string tar,
                            const std::vector<std::string>& changes, Done done) {
  std::string target =
      format("/images/create?fromSrc=-&repo={}&tag={}", urlEncode(name), urlEncode(tag));
  for (const std::string& change : changes) target += format("&changes={}", urlEncode(change));
  net::HttpRequest asked = request("POST", std::move(target));
  asked.headers.add("content-type", "application/x-tar");
  asked.body = std::move(tar);
  return progress(std::move(asked), std::move(done));
}

Pending Docker::createContainer(const std::string& name, const Value& config,
                                Function<void(Result<std::string>)> done) {
  return ask(request("POST", format("/containers/create?name={}", urlEncode(name)), &config),
             [done = std::move(done)](const Result<Value>& answer) {
               if (!answer) return done(answer.error());
               done((*answer)["Id"].string());
             });
}

Pending Docker::startContainer(const std::string& container, Done done) {
  return tell(request("POST", format("/containers/{}/start", urlEncode(container))),
              std::move(done));
}

Pending Docker::killContainer(const std::string& container, const std::string& signal, Done done) {
  return tell(request("POST", format("/containers/{}/kill?signal={}", urlEncode(container),
                                     urlEncode(signal))),
              std::move(done));
}

Pending Docker::waitContainer(const std::string& container, Function<void(Result<int>)> done) {
  net::HttpRequest asked = request("POST", format("/containers/{}/wait", urlEncode(container)));
  asked.head_timeout = asked.timeout = 0s;
  return ask(std::move(asked), [done = std::move(done)](const Result<Value>& answer) {
    if (!answer) return done(answer.error());
    done(static_cast<int>((*answer)["StatusCode"].integer()));
  });
}

Pending Docker::inspectContainer(const std::string& container, Answered done) {
  return ask(request("GET", format("/containers/{}/json", urlEncode(container))), std::move(done));
}

Pending Docker::removeContainer(const std::string& container, Remove which, Done done) {
  return tell(request("DELETE", format("/containers/{}?v=1{}", urlEncode(container),
                                       which == Remove::Always ? "&force=1" : "")),
              std::move(done));
}

Pending Docker::listContainers(const Labels& labels, Answered done) {
  return ask(request("GET", format("/containers/json?all=1&filters={}", labelFilter(labels))),
             std::move(done));
}

Pending Docker::logs(const std::string& container, const DockerLogOptions& options,
                     DockerFrames::OnFrame line, Done end) {
  std::string target =
      format("/containers/{}/logs?stdout=1&stderr=1&timestamps=1", urlEncode(container));
  if (options.follow) target += "&follow=1";
  if (options.since) target += format("&since={}", secondsOf(*options.since));
  net::HttpRequest asked = request("GET", std::move(target));
  asked.timeout = 0s;
  auto frames = std::make_shared<DockerFrames>(std::move(line));
  return stream(
      std::move(asked), nullptr, [frames](std::string_view piece) { return frames->feed(piece); },
      [frames, end = std::move(end)](Result<> result) {
        end(result ? frames->finish() : std::move(result));
      });
}

// The Engine gives up the connection for it: what follows its answer is what both say.
class Docker::Talk final : public net::Conversation {
 public:
  Talk(Docker& docker, net::Loop& loop, net::ConversationOptions options)
      : docker_(docker),
        loop_(loop),
        options_(std::move(options)),
        frames_([this](DockerStream from, std::string_view bytes) {
          if (options_.said) options_.said(from == DockerStream::Stderr, bytes);
        }) {}

  void begin(const std::string& container) {
    json::Array command;
    for (const std::string& word : options_.process.argv) command.push_back(word);
    Value config = json::Object{{"AttachStdin", options_.input},
                                {"AttachStdout", true},
                                {"AttachStderr", !options_.terminal},
                                {"Tty", options_.terminal},
                                {"Cmd", std::move(command)}};
    step_ = docker_.ask(
        docker_.request("POST", format("/containers/{}/exec", urlEncode(container)), &config),
        [this](const Result<Value>& made) {
          if (!made) return end(made.error());
          id_ = (*made)["Id"].string();
          step_ = net::dial(loop_, {docker_.socket_}, docker_.limits_.answer_timeout,
                            [this](Result<std::unique_ptr<net::Socket>> socket) {
                              if (!socket) return end(docker_.unreachable(socket.error()));
                              connected(*std::move(socket));
                            });
        });
  }

  void write(std::string_view piece) override {
    begun_ ? socket_->send(piece) : void(early_ += piece);
  }
  std::size_t backlog() const override {
    return early_.size() + (socket_ ? socket_->backlog() : 0);
  }
  void closeInput() override {
    closed_ = true;
    if (begun_) socket_->finish();
  }
  void resize(int rows, int columns) override {
    rows_ = rows;
    columns_ = columns;
    if (begun_) tellSize();
  }

 private:
  void connected(std::unique_ptr<net::Socket> socket) {
    socket_ = std::move(socket);
    socket_->listen({.data = [this](std::string_view piece) { heard(piece); },
                     .ended = [this] { ended(); },
                     .full = options_.full ? Function<bool()>([this] { return options_.full(); })
                                           : Function<bool()>()});
    std::string body = json::write(json::Object{{"Detach", false}, {"Tty", options_.terminal}});
    socket_->send(
        format("POST /exec/{}/start HTTP/1.1\r\nHost: docker\r\nConnection: Upgrade\r\nUpgrade: "
               "tcp\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{}",
               urlEncode(id_), body.size(), body));
  }

  void heard(std::string_view piece) {
    if (begun_) return output(piece);
    head_ += piece;
    auto end_of_head = head_.find("\r\n\r\n");
    if (end_of_head == std::string::npos) {
      if (head_.size() > kMaxHead)
        end(Error{.code = Code::DataLoss, .message = "Docker: that is no answer"});
      return;
    }
    std::string head = std::exchange(head_, {});
    if (!head.starts_with("HTTP/1.1 101") && !head.starts_with("HTTP/1.1 200"))
      return end(Error{.code = Code::Unavailable,
                       .message = format("Docker: {}", head.substr(end_of_head + 4))});
    begun_ = true;
    socket_->send(std::exchange(early_, {}));
    if (closed_) socket_->finish();
    if (rows_ > 0) tellSize();
    if (head.size() > end_of_head + 4) output(std::string_view(head).substr(end_of_head + 4));
  }

  void output(std::string_view piece) {
    if (options_.terminal) {
      if (options_.said) options_.said(false, piece);
    } else if (auto fed = frames_.feed(piece); !fed) {
      end(fed.error());
    }
  }

  void tellSize() {
    resizing_ = docker_.tell(docker_.request("POST", format("/exec/{}/resize?h={}&w={}",
                                                            urlEncode(id_), rows_, columns_)),
                             [](const Result<>&) {});
  }

  void ended() {
    step_ = docker_.ask(docker_.request("GET", format("/exec/{}/json", urlEncode(id_))),
                        [this](const Result<Value>& answer) {
                          if (!answer) return end(answer.error());
                          end(static_cast<int>((*answer)["ExitCode"].integer()));
                        });
  }
  void end(Result<int> code) {
    if (auto told = std::exchange(options_.ended, nullptr)) told(std::move(code));
  }

  Docker& docker_;
  net::Loop& loop_;
  net::ConversationOptions options_;
  DockerFrames frames_;
  std::string id_, head_, early_;
  bool begun_ = false, closed_ = false;
  int rows_ = 0, columns_ = 0;
  std::unique_ptr<net::Socket> socket_;
  Pending step_, resizing_;
};

std::unique_ptr<net::Conversation> Docker::talk(net::Loop& loop, const std::string& container,
                                                net::ConversationOptions options) {
  auto talk = std::make_unique<Talk>(*this, loop, std::move(options));
  talk->begin(container);
  return talk;
}

Pending Docker::exec(const std::string& container, const std::vector<std::string>& command,
                     Duration timeout, Function<void(Result<DockerExecResult>)> done) {
  struct Running {
    DockerExecResult result;
    Function<void(Result<DockerExecResult>)> done;
    Pending step;
    std::string id;
  };
  auto state = std::make_shared<Running>();
  state->done = std::move(done);
  std::weak_ptr<Running> weak = state;
  auto finish = [weak](Result<DockerExecResult> result) {
    if (auto state = weak.lock())
      if (auto told = std::exchange(state->done, nullptr)) told(std::move(result));
  };
  auto inspect = [this, weak, finish] {
    auto state = weak.lock();
    if (!state) return;
    state->step = ask(request("GET", format("/exec/{}/json", urlEncode(state->id))),
                      [weak, finish](const Result<Value>& answer) {
                        auto state = weak.lock();
                        if (!state) return;
                        if (!answer) return finish(answer.error());
                        state->result.exit_code = static_cast<int>((*answer)["ExitCode"].integer());
                        finish(std::move(state->result));
                      });
  };
  auto begin = [this, weak, finish, inspect, timeout](const Result<Value>& made) {
    auto state = weak.lock();
    if (!state) return;
    if (!made) return finish(made.error());
    state->id = (*made)["Id"].string();
    Value attached = json::Object{{"Detach", false}, {"Tty", false}};
    net::HttpRequest asked =
        request("POST", format("/exec/{}/start", urlEncode(state->id)), &attached);
    asked.head_timeout = asked.timeout = timeout;
    auto frames = std::make_shared<DockerFrames>(
        [weak, limit = limits_.output_bytes](DockerStream from, std::string_view bytes) {
          auto state = weak.lock();
          if (!state) return;
          DockerExecResult& result = state->result;
          appendUpTo(from == DockerStream::Stderr ? result.errors : result.output, bytes, limit,
                     result.truncated);
        });
    state->step = stream(
        std::move(asked), nullptr, [frames](std::string_view piece) { return frames->feed(piece); },
        [finish, inspect](const Result<>& result) {
          if (!result) return finish(result.error());
          inspect();
        });
  };
  json::Array words;
  for (const std::string& word : command) words.emplace_back(word);
  Value config =
      json::Object{{"AttachStdout", true}, {"AttachStderr", true}, {"Cmd", std::move(words)}};
  state->step = ask(request("POST", format("/containers/{}/exec", urlEncode(container)), &config),
                    std::move(begin));
  return Pending([state] {
    state->done = nullptr;
    state->step.reset();
  });
}

Pending Docker::events(const Labels& labels, Function<void()> begun,
                       Function<void(const Value&)> event, Done end) {
  net::HttpRequest asked = request(
      "GET",
      format("/events?filters={}", labelFilter(labels, {{"type", json::Array{"container"}}})));
  asked.timeout = 0s;
  auto parser = std::make_shared<json::StreamParser>(std::move(event));
  return stream(
      std::move(asked), std::move(begun),
      [parser](std::string_view piece) { return parser->feed(piece); }, std::move(end));
}

Pending Docker::createNetwork(const Value& config, Done done) {
  return tell(request("POST", "/networks/create", &config), std::move(done));
}

Pending Docker::inspectNetwork(const std::string& network, Answered done) {
  return ask(request("GET", format("/networks/{}", urlEncode(network))), std::move(done));
}

Pending Docker::removeNetwork(const std::string& network, Done done) {
  return tell(request("DELETE", format("/networks/{}", urlEncode(network))), std::move(done));
}

Pending Docker::disconnect(const std::string& network, const std::string& container, Done done) {
  Value body = json::Object{{"Container", container}, {"Force", true}};
  return tell(request("POST", format("/networks/{}/disconnect", urlEncode(network)), &body),
              std::move(done));
}

}  // namespace cadre::wire
