#include "transcript/runner.h"

#include <cstdio>
#include <deque>
#include <map>

#include "base/format.h"
#include "base/strings.h"
#include "json/parse.h"
#include "json/write.h"
#include "net/http_server.h"
#include "net/tls.h"
#include "transcript/match.h"

namespace cadre::transcript {

namespace {

constexpr Duration kAnswerLimit = 30s;
constexpr Duration kEventsLimit = 20s;
constexpr Duration kRetryPause = 50ms;
constexpr std::size_t kAnswerBytes = 64u << 20;
constexpr std::size_t kShownBytes = 6000;

bool isJson(const net::Headers& headers) {
  return headers.get("content-type").find("json") != std::string_view::npos;
}

// What a body expectation is held against: JSON as a value, anything else as text.
json::Value bodyValue(const net::HttpResponse& response) {
  if (isJson(response.headers))
    if (auto value = json::parse(response.body, json::ParseOptions{})) return *std::move(value);
  return json::Value(response.body);
}

std::string describe(const net::HttpResponse& response) {
  std::string out = format("the answer was {}\n", response.status);
  for (const auto& [name, value] : response.headers) out += format("  {}: {}\n", name, value);
  json::Value body = bodyValue(response);
  out += body.isString() ? body.string() : json::writeYaml(body);
  return shorten(out, kShownBytes);
}

// Every value of a header as one text, or as a list where a list is expected.
std::optional<json::Value> headerValue(const net::Headers& headers, std::string_view name,
                                       bool as_list) {
  std::vector<std::string> values;
  for (const auto& [other, value] : headers)
    if (equalsIgnoreCase(other, name)) values.push_back(value);
  if (values.empty()) return std::nullopt;
  if (!as_list) return json::Value(join(values, ", "));
  return json::Value(json::Array(values.begin(), values.end()));
}

// A stream of watch events: what came and was not asked for yet, and how it ended.
struct Watch {
  std::optional<net::ResponseHead> head;
  std::deque<json::Value> events;
  std::string other_text;  // of an answer that is no stream of events
  std::optional<Result<>> end;
  json::StreamParser parser{[this](json::Value event) { events.push_back(std::move(event)); }};
  std::optional<Error> unreadable;
  Pending exchange;  // last: its callbacks reach the others

  net::ResponseHandler handler() {
    return {.head = [this](net::ResponseHead answer) { head = std::move(answer); },
            .data =
                [this](std::string_view piece) {
                  if (head && head->status != 200) {
                    other_text += piece;
                  } else if (auto fed = parser.feed(piece); !fed && !unreadable) {
                    unreadable = fed.error();
                  }
                },
            .end =
                [this](Result<> result) {
                  if (result && !unreadable)
                    if (auto finished = parser.finish(); !finished) result = finished.error();
                  end.emplace(std::move(result));
                }};
  }
};

// The webhooks of a case, on a port of their own: what they were asked, and what they say.
class Webhooks {
 public:
  static Result<std::unique_ptr<Webhooks>> open(net::Loop& loop, const json::Object& answers) {
    std::unique_ptr<Webhooks> out(new Webhooks(answers));
    CADRE_LET(auto authority, net::makeCertificate({.common_name = "cases", .authority = true}));
    CADRE_LET(auto serving, net::makeCertificate(
                                {.common_name = "webhooks", .names = {"127.0.0.1"}}, &authority));
    out->authority_ = authority.certificate;
    net::TlsServerOptions tls{.certificate = serving.certificate, .key = serving.key};
    CADRE_LET(out->server_, net::HttpServer::listen(loop, {.tls = std::move(tls)},
                                                    [raw = out.get()](auto request) {
                                                      raw->answer(std::move(request));
                                                    }));
    return out;
  }

  std::string url() const { return format("https://127.0.0.1:{}", server_->port()); }
  std::string bundle() const { return base64Encode(authority_); }
  // Nothing when it was not asked since.
  std::optional<json::Value> takeQuestion(const std::string& name) {
    return std::exchange(asked_[name], std::nullopt);
  }

 private:
  explicit Webhooks(json::Object answers) : answers_(std::move(answers)) {}

  void answer(const std::shared_ptr<net::ServerRequest>& request) {
    std::string name(cut(std::string_view(request->target).substr(1), "?").first);
    auto parsed = json::parse(request->body);
    json::Value question = parsed ? *std::move(parsed) : json::Value();
    asked_[name] = question;
    const json::Value* answer = answers_.find(name);
    if (!answer || answer->isNull()) return silent_.push_back(request);
    json::Value response = *answer;
    response.make("uid") = question["request"]["uid"];
    if (response["patch"].isArray()) {
      response.make("patch") = base64Encode(json::write(response["patch"]));
      response.make("patchType") = "JSONPatch";
    }
    request->respond(200, {{"content-type", "application/json"}},
                     json::write(json::Object{{"apiVersion", "admission.k8s.io/v1"},
                                              {"kind", "AdmissionReview"},
                                              {"response", std::move(response)}}));
  }

  const json::Object answers_;
  std::string authority_;
  std::map<std::string, std::optional<json::Value>> asked_;
  std::vector<std::shared_ptr<net::ServerRequest>> silent_;
  std::unique_ptr<net::HttpServer> server_;
};

class Run {
 public:
  Run(Server& server, const Case& transcript, const RunOptions& options)
      : server_(server), case_(transcript), options_(options) {}

  std::optional<Failure> all(Random& random) {
    std::string ns = format("case-{}", shortHash(format("{}/{}", case_.source, random.next())));
    names_["ns"] = ns;
    names_["megabyte"] = std::string(1u << 20, 'x');
    if (!case_.webhooks.empty()) {
      auto opened = Webhooks::open(server_.loop(), case_.webhooks);
      if (!opened) return Failure{1, "opening webhooks: " + opened.error().text()};
      webhooks_ = *std::move(opened);
      names_["webhooks"] = webhooks_->url();
      names_["webhooks_ca"] = webhooks_->bundle();
    }
    if (auto failure = makeNamespace(ns)) return failure;
    std::optional<Failure> failure;
    for (std::size_t i = 0; i < case_.steps.size() && !failure; ++i) failure = step(case_.steps[i]);
    watches_.clear();
    for (const Step& step : case_.cleanup)
      if (auto request = makeRequest(step))
        (void)server_.fetch(*std::move(request), step.anonymous);
    (void)server_.fetch({.method = "DELETE", .target = "/api/v1/namespaces/" + ns}, false);
    return failure;
  }

 private:
  std::optional<Failure> makeNamespace(const std::string& ns) {
    net::HttpRequest request{.method = "POST", .target = "/api/v1/namespaces"};
    request.headers.set("content-type", "application/json");
    request.body = json::write(json::Object{
        {"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", json::Object{{"name", ns}}}});
    auto response = server_.fetch(std::move(request), false);
    if (!response) return Failure{1, "making a namespace: " + response.error().text()};
    if (response->status != 201) return Failure{1, "making a namespace: " + describe(*response)};
    return std::nullopt;
  }

  std::optional<Failure> step(const Step& step) {
    switch (step.kind) {
      case Step::Kind::Request:
        return request(step);
      case Step::Kind::Watch:
        return openWatch(step);
      case Step::Kind::Events:
        return events(step);
      case Step::Kind::Asked:
        return asked(step);
    }
    return std::nullopt;
  }

  std::optional<Failure> asked(const Step& step) {
    auto question = webhooks_->takeQuestion(step.webhook);
    std::string shown = question ? json::writeYaml(*question) : "it was not asked";
    if (options_.show) std::printf("%s\n%s\n", step.label().c_str(), shown.c_str());
    Match result = match(*step.expected_body, question ? &*question : nullptr, names_);
    for (Mismatch& mismatch : result.mismatches)
      mismatch.pointer = step.pointer + "/expect" + mismatch.pointer;
    if (!result.ok()) return fail(step, result, shorten(shown, kShownBytes));
    keep(std::move(result.saved));
    return std::nullopt;
  }

  std::optional<Failure> request(const Step& step) {
    Instant until = server_.loop().clock().instant() + step.retry.value_or(0s);
    while (true) {
      auto request = makeRequest(step);
      if (!request) return fail(step, request.error().message);
      auto response = server_.fetch(*std::move(request), step.anonymous);
      if (!response) return fail(step, response.error().text());
      if (options_.show) std::printf("%s\n%s\n", step.label().c_str(), describe(*response).c_str());
      Match result = judge(step, *response);
      if (result.ok()) {
        keep(std::move(result.saved));
        return std::nullopt;
      }
      if (server_.loop().clock().instant() >= until) return fail(step, result, describe(*response));
      pause();
    }
  }

  std::optional<Failure> openWatch(const Step& step) {
    auto request = makeRequest(step);
    if (!request) return fail(step, request.error().message);
    auto& watch = watches_[step.watch] = std::make_unique<Watch>();
    watch->exchange = server_.send(*std::move(request), step.anonymous, watch->handler());
    server_.loop().runUntil(
        [&] { return watch->end || (watch->head && watch->head->status == 200); }, kAnswerLimit);
    if (!watch->head)
      return fail(step, watch->end && !*watch->end ? watch->end->error().text() : "no answer");
    net::HttpResponse response{watch->head->status, watch->head->headers, watch->other_text};
    Match result = judge(step, response);
    if (!result.ok()) return fail(step, result, describe(response));
    keep(std::move(result.saved));
    return std::nullopt;
  }

  std::optional<Failure> events(const Step& step) {
    auto found = watches_.find(step.watch);
    if (found == watches_.end()) return fail(step, "no watch of that name is open");
    Watch& watch = *found->second;
    Instant until = server_.loop().clock().instant() + kEventsLimit;
    for (std::size_t i = 0; i < step.events.size(); ++i) {
      const json::Value& expected = step.events[i];
      auto event = nextEvent(watch, expected["type"] == json::Value("BOOKMARK"), until);
      std::string pointer = format("{}/expect/{}", step.pointer, i);
      if (!event)
        return fail(step, pointer,
                    format("event {} did not come: {}\n{}", i + 1, ending(watch),
                           json::writeYaml(expected)));
      if (options_.show)
        std::printf("%s\n%s\n", step.label().c_str(), json::writeYaml(*event).c_str());
      Match result = match(expected, &*event, names_);
      for (Mismatch& mismatch : result.mismatches) mismatch.pointer = pointer + mismatch.pointer;
      if (!result.ok())
        return fail(
            step, result,
            shorten(format("event {} was\n{}", i + 1, json::writeYaml(*event)), kShownBytes));
      keep(std::move(result.saved));
    }
    return step.ends ? ends(step, watch, until) : std::nullopt;
  }

  std::optional<Failure> ends(const Step& step, Watch& watch, Instant until) {
    if (auto event = nextEvent(watch, false, until))
      return fail(step, step.pointer + "/ends",
                  "expected the end of the stream, but this came:\n" + json::writeYaml(*event));
    if (!watch.end || !*watch.end || watch.unreadable)
      return fail(step, step.pointer + "/ends", "expected a clean end: " + ending(watch));
    return std::nullopt;
  }

  // The next event, as soon as it is there. A server sends bookmarks when it likes: they are passed
  // over unless one is expected.
  std::optional<json::Value> nextEvent(Watch& watch, bool bookmark, Instant until) {
    while (true) {
      server_.loop().runUntil([&] { return !watch.events.empty() || watch.end; },
                              until - server_.loop().clock().instant());
      if (watch.events.empty()) return std::nullopt;
      json::Value event = std::move(watch.events.front());
      watch.events.pop_front();
      if (bookmark || event["type"] != json::Value("BOOKMARK")) return event;
    }
  }

  static std::string ending(const Watch& watch) {
    if (watch.unreadable) return "the stream cannot be read: " + watch.unreadable->text();
    if (!watch.end) return "the stream is still open after " + formatDuration(kEventsLimit);
    return *watch.end ? "the stream has ended" : "the stream broke: " + watch.end->error().text();
  }

  Result<net::HttpRequest> makeRequest(const Step& step) const {
    net::HttpRequest request{.method = step.method};
    CADRE_LET(request.target, fillTarget(step.target, names_));
    if (step.body) {
      CADRE_LET(json::Value body, fill(*step.body, names_));
      request.body = body.isString() ? body.string() : json::write(body);
      request.headers.set("content-type", "application/json");
    }
    for (const auto& [name, text] : step.headers) {
      CADRE_LET(std::string value, fillText(text, names_));
      request.headers.set(name, std::move(value));
    }
    return request;
  }

  Match judge(const Step& step, const net::HttpResponse& response) const {
    Match out;
    std::string pointer = step.pointer + "/expect";
    bool right = step.status ? response.status == *step.status : response.status / 100 == 2;
    if (!right)
      out.mismatches.push_back(
          {pointer + "/status",
           format("status: expected {}, is {}",
                  step.status ? std::to_string(*step.status) : "success", response.status)});
    auto add = [&](Match part, const std::string& where, std::string_view what) {
      for (Mismatch& mismatch : part.mismatches)
        out.mismatches.push_back(
            {pointer + where + mismatch.pointer, format("{}{}", what, mismatch.text)});
      out.saved.merge(part.saved);
    };
    if (step.expected_headers)
      for (const auto& [name, expected] : step.expected_headers->object()) {
        auto actual = headerValue(response.headers, name, expected.isArray());
        add(match(expected, actual ? &*actual : nullptr, names_), "/headers/" + name,
            "header " + name + ": ");
      }
    if (step.expected_body) {
      json::Value actual = bodyValue(response);
      add(match(*step.expected_body, &actual, names_), "/body", "body: ");
    }
    return out;
  }

  void keep(Names saved) {
    for (auto& [name, value] : saved) names_.insert_or_assign(name, std::move(value));
  }

  void pause() {
    bool over = false;
    Pending timer = server_.loop().after(kRetryPause, [&] { over = true; });
    server_.loop().runUntil([&] { return over; }, kAnswerLimit);
  }

  Failure fail(const Step& step, std::string_view what) const {
    return fail(step, step.pointer, what);
  }
  Failure fail(const Step& step, const std::string& pointer, std::string_view what) const {
    int line = case_.lineOf(pointer);
    return {line, format("{}\n{}:{}: {}", step.label(), case_.source, line, what)};
  }
  Failure fail(const Step& step, const Match& result, std::string_view answer) const {
    Failure out{case_.lineOf(result.mismatches.front().pointer), step.label() + "\n"};
    for (const Mismatch& mismatch : result.mismatches)
      out.text +=
          format("{}:{}: {}\n", case_.source, case_.lineOf(mismatch.pointer), mismatch.text);
    out.text += answer;
    return out;
  }

  Server& server_;
  const Case& case_;
  const RunOptions options_;
  Names names_;
  std::map<std::string, std::unique_ptr<Watch>> watches_;
  std::unique_ptr<Webhooks> webhooks_;
};

}  // namespace

Result<std::unique_ptr<Server>> Server::connect(net::Loop& loop, kube::Config config) {
  std::unique_ptr<Server> out(new Server(loop, std::move(config)));
  auto credentials = kube::makeCredentials(loop, loop.clock(), out->config_, {}, Logger::silent());
  CADRE_LET(out->identity_, net::await<kube::Credentials::Identity>(loop, [&](auto done) {
              return credentials->get(std::move(done));
            }));
  net::HttpClientOptions options{
      .url = out->config_.server, .proxy = out->config_.proxy, .tls = out->config_.tls};
  if (!out->identity_.certificate.empty()) {
    options.tls.certificate = out->identity_.certificate;
    options.tls.key = out->identity_.key;
  }
  CADRE_LET(out->known_, net::makeHttpClient(loop, options));
  options.tls.certificate.clear();
  options.tls.key.clear();
  CADRE_LET(out->anonymous_, net::makeHttpClient(loop, options));
  return out;
}

net::HttpRequest Server::complete(net::HttpRequest request, bool anonymous) const {
  request.target = config_.server.target + request.target;
  if (!anonymous && !identity_.authorization.empty())
    request.headers.set("authorization", identity_.authorization);
  if (!request.headers.contains("user-agent")) request.headers.set("user-agent", "transcript");
  return request;
}

Pending Server::send(net::HttpRequest request, bool anonymous, net::ResponseHandler handler) {
  net::HttpClient& client = anonymous ? *anonymous_ : *known_;
  return client.send(complete(std::move(request), anonymous), std::move(handler));
}

Result<net::HttpResponse> Server::fetch(net::HttpRequest request, bool anonymous) {
  net::HttpClient& client = anonymous ? *anonymous_ : *known_;
  request.timeout = kAnswerLimit;
  return net::await<net::HttpResponse>(loop_, [&](auto done) {
    return net::fetch(client, complete(std::move(request), anonymous), kAnswerBytes,
                      std::move(done));
  });
}

std::optional<Failure> run(Server& server, const Case& transcript, Random& random,
                           const RunOptions& options) {
  return Run(server, transcript, options).all(random);
}

}  // namespace cadre::transcript
