#include "kube/client.h"

#include <algorithm>
#include <cmath>
#include <variant>

#include "base/format.h"
#include "base/strings.h"
#include "json/write.h"
#include "kube/files.h"
#include "kube/protobuf.h"
#include "kube/status.h"
#include "kube/types.h"
#include "net/http_client.h"
#include "net/process.h"

namespace cadre::kube {

namespace {

// To a server without HTTP/2 each watch is a connection of its own.
constexpr std::size_t kMaxWatchConnections = 2000;

void impersonate(net::HttpRequest& request, const Impersonation& as) {
  if (as.empty()) return;
  request.headers.add("Impersonate-User", as.user);
  if (!as.uid.empty()) request.headers.add("Impersonate-Uid", as.uid);
  for (const std::string& group : as.groups) request.headers.add("Impersonate-Group", group);
  for (const auto& [name, values] : as.extra)
    for (const std::string& value : values)
      request.headers.add("Impersonate-Extra-" + urlEncode(name), value);
}

constexpr int kMaxTries = 10;
// Who asks for more patience than this gets the error, with retry_after in it.
constexpr Duration kMaxRetryTime = 2min;
constexpr Duration kCertificateFileAge = 5min;
constexpr std::size_t kMaxErrorBytes = 1 << 20;
constexpr std::size_t kMaxWarnings = 1000;

class Query {
 public:
  void add(std::string_view name, std::string_view value) {
    if (value.empty()) return;
    text_ += text_.empty() ? '?' : '&';
    text_ += format("{}={}", name, urlEncode(value));
  }
  void addFlag(std::string_view name, bool value) {
    if (value) add(name, "true");
  }
  void addSelection(const Selection& select) {
    add("labelSelector", select.labels);
    add("fieldSelector", select.fields);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

std::string_view contentType(PatchType type) {
  switch (type) {
    case PatchType::Json:
      return "application/json-patch+json";
    case PatchType::Merge:
      return "application/merge-patch+json";
    case PatchType::Strategic:
      return "application/strategic-merge-patch+json";
    case PatchType::Apply:
      return "application/apply-patch+yaml";
  }
  return "";
}

// What lists and watches are asked for: protobuf where it can be read.
std::string acceptFor(const Resource& resource, bool json_only) {
  bool protobuf = !json_only && inProtobuf(resource.group, resource.version, resource.kind);
  return protobuf ? format("{},application/json", kProtobufType) : "application/json";
}

// Reads an answer as it comes, as what it says that it is: JSON or protobuf.
template <class Json, class Protobuf>
class EitherParser {
 public:
  EitherParser(Function<Json()> json, Function<Protobuf()> protobuf)
      : json_(std::move(json)), protobuf_(std::move(protobuf)) {}

  Result<> feed(const net::Headers& headers, std::string_view data) {
    return std::visit([&](auto& parser) { return parser.feed(data); }, parserFor(headers));
  }
  auto finish(const net::Headers& headers) {
    return std::visit([](auto& parser) { return parser.finish(); }, parserFor(headers));
  }

 private:
  using Parser = std::variant<Json, Protobuf>;
  Parser& parserFor(const net::Headers& headers) {
    if (!parser_)
      parser_ = isProtobuf(headers.get("Content-Type")) ? Parser(protobuf_()) : Parser(json_());
    return *parser_;
  }

  Function<Json()> json_;
  Function<Protobuf()> protobuf_;
  std::optional<Parser> parser_;
};

bool isHeaderSafe(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7f; });
}

// The texts in `Warning: 299 - "text"` headers.
std::optional<std::string> warningText(std::string_view header) {
  std::size_t open = header.find('"');
  if (!header.starts_with("299 ") || open == std::string_view::npos) return std::nullopt;
  std::string text;
  for (std::size_t i = open + 1; i < header.size() && header[i] != '"'; ++i) {
    if (header[i] == '\\' && i + 1 < header.size()) ++i;
    text += header[i];
  }
  return text;
}

// What Go's servers (kube-apiserver among them), nginx and Apache answer to plain HTTP on a port of
// theirs that speaks TLS.
bool wantsTls(int status, std::string_view body) {
  return status == 400 &&
         (body.find("HTTP request to an HTTPS server") != std::string_view::npos ||
          body.find("plain HTTP request was sent to HTTPS port") != std::string_view::npos ||
          body.find("speaking plain HTTP to an SSL-enabled server") != std::string_view::npos);
}

std::string whatToDo(const Error& error, const Config& config) {
  bool tls = config.server.scheme == "https";
  std::string text = error.text();
  auto says = [&](std::string_view word) { return text.find(word) != std::string::npos; };
  if (error.reason == "CertificateRefused")
    return "check the certificate authority and the server name there, or ask who runs the cluster "
           "for the present CA";
  if (says("speaks TLS")) return "write https:// instead of http:// in the address there";
  if (tls && says("wrong version number"))
    return "the server does not speak TLS on this port: check the port, and whether the address "
           "there should be an http:// one";
  if (says("proxy") && !config.proxy_variable.empty())
    return format("check the proxy that {} names, or add the server to NO_PROXY",
                  config.proxy_variable);
  if (says("proxy")) return "check the proxy there";
  if (says("does not resolve"))
    return "check the address there, and that this machine can resolve it";
  if (says("connection refused"))
    return "check that the API server is running and that the address there is right";
  if (says("unreachable") || error.code == Code::DeadlineExceeded)
    return "check the network, a VPN or a firewall on the way, and the address there";
  if (says("certificate required") || says("bad certificate") || says("unknown ca"))
    return "check the client certificate there: the server does not accept it";
  if (!tls && says("lost"))
    return "if the server speaks TLS, as API servers do, write https:// instead of http:// in the "
           "address there";
  return "try again; if it stays so, look at the API server's log";
}

}  // namespace

// One request through all its tries: waiting for its turn, for credentials, for an answer.
struct Client::Call : std::enable_shared_from_this<Client::Call> {
  net::HttpRequest request;
  bool watch = false;
  bool retry = true;  // where the server asks to
  // What a good answer's body is fed to; a bad one is collected for its Status.
  Function<Result<>(std::string_view)> data;
  Function<void(Result<>)> end;
  // Called before another try: what was fed so far did not count.
  Function<void()> restart;

  int tries = 0;
  bool refreshed = false;
  int status = 0;
  net::Headers headers;
  std::string error_body;
  Credentials::Identity identity;
  Pending step;  // what it waits for now
  Instant started;
  Instant sent_at;  // the present try
  bool over = false;

  void finish(Result<> result) {
    if (std::exchange(over, true)) return;
    auto keep = shared_from_this();
    auto callback = std::exchange(end, nullptr);
    if (callback) callback(std::move(result));
  }
};

Result<std::unique_ptr<Client>> Client::connect(net::Loop& loop, Config config,
                                                ClientOptions options) {
  if (config.proxy && config.proxy->scheme != "http")
    return Error{
        .code = Code::Unimplemented,
        .message = format("{}: the proxy {} is not an http:// one, and only those are spoken to",
                          config.source, config.proxy->origin())};
  auto make = [&loop, server = config.server, proxy = config.proxy,
               source = config.source](const net::TlsClientOptions& tls) -> Result<Transport> {
    net::HttpClientOptions http{.url = server, .proxy = proxy, .tls = tls};
    auto requests = net::makeHttpClient(loop, http);
    if (!requests) return std::move(requests).error().context(source);
    http.max_connections = kMaxWatchConnections;
    auto watches = net::makeHttpClient(loop, http);
    if (!watches) return std::move(watches).error().context(source);
    auto* counted = requests->get();
    auto* counted_too = watches->get();
    Transport transport;
    transport.idle = [counted, counted_too] {
      auto quiet = [](const net::HttpClientStats& stats) {
        return stats.active + stats.waiting == 0;
      };
      return quiet(counted->stats()) && quiet(counted_too->stats());
    };
    transport.requests = *std::move(requests);
    transport.watches = *std::move(watches);
    transport.upgrade = [&loop, server, proxy, tls](net::WebSocketRequest request,
                                                    OpenedSocket done) {
      request.url = server;
      request.proxy = proxy;
      request.tls = tls;
      return net::openWebSocket(loop, std::move(request), std::move(done));
    };
    return transport;
  };
  CADRE_LET(Transport transport, make(config.tls));
  Logger& logger = options.logger ? *options.logger : Logger::silent();
  auto credentials = makeCredentials(loop, loop.clock(), config, net::currentEnvironment(), logger);
  return std::make_unique<Client>(loop, std::move(config), std::move(transport), std::move(make),
                                  std::move(credentials), std::move(options));
}

Client::Client(Scheduler& scheduler, Config config, Transport transport,
               MakeTransport make_transport, std::unique_ptr<Credentials> credentials,
               ClientOptions options)
    : scheduler_(scheduler),
      config_(std::move(config)),
      transport_(std::move(transport)),
      make_transport_(std::move(make_transport)),
      credentials_(std::move(credentials)),
      options_(std::move(options)),
      certificate_(config_.tls.certificate),
      key_(config_.tls.key),
      files_read_at_(scheduler.clock().instant()),
      tokens_(std::max(options_.burst, 1)),
      tokens_at_(files_read_at_) {}

Client::~Client() = default;

// To our server.
void Client::address(net::HttpRequest& request) const {
  request.target = config_.server.target + request.target;
  request.headers.add("User-Agent", options_.user_agent);
  if (request.headers.get("Impersonate-User").empty()) impersonate(request, config_.impersonate);
}

Pending Client::send(std::shared_ptr<Call> call) {
  address(call->request);
  call->started = scheduler_.clock().instant();
  // Never from inside the call: the caller does not hold its Pending yet.
  beginAfter(call, reserve());
  return Pending([call] {
    call->over = true;
    call->end = nullptr;
    call->step.reset();
  });
}

void Client::beginAfter(const std::shared_ptr<Call>& call, Duration delay) {
  call->step =
      scheduler_.after(delay, [this, alive = std::weak_ptr(alive_), weak = std::weak_ptr(call)] {
        if (auto call = weak.lock(); call && !alive.expired()) begin(call);
      });
}

void Client::begin(const std::shared_ptr<Call>& call) {
  ++call->tries;
  call->status = 0;
  call->headers = {};
  call->error_body.clear();
  auto at_hand = std::make_shared<bool>(false);
  auto pending = credentials_->get(
      [this, at_hand, weak = std::weak_ptr(call)](Result<Credentials::Identity> identity) {
        *at_hand = true;
        auto call = weak.lock();
        if (!call || call->over) return;
        if (!identity) return call->finish(std::move(identity).error());
        if (auto ready = refreshTransport(*identity); !ready)
          return call->finish(std::move(ready).error());
        dispatch(call, *std::move(identity));
      });
  // Where they were at hand, the call has moved on to its next step already.
  if (!*at_hand) call->step = std::move(pending);
}

Result<> Client::authorize(net::HttpRequest& request, const Credentials::Identity& identity) const {
  if (identity.authorization.empty()) return {};
  if (!isHeaderSafe(identity.authorization))
    return Error{.code = Code::Unauthenticated,
                 .message = format("the token ({}) has characters that no token has: is it the "
                                   "right file?",
                                   config_.source)};
  request.headers.add("Authorization", identity.authorization);
  return {};
}

void Client::dispatch(const std::shared_ptr<Call>& call, Credentials::Identity identity) {
  net::HttpRequest request = call->request;
  if (auto authorized = authorize(request, identity); !authorized)
    return call->finish(std::move(authorized).error());
  call->identity = std::move(identity);
  net::ResponseHandler handler;
  std::weak_ptr<Call> weak = call;
  handler.head = [this, weak](net::ResponseHead head) {
    if (auto call = weak.lock(); call && !call->over) answered(call, std::move(head));
  };
  handler.data = [weak](std::string_view data) {
    auto call = weak.lock();
    if (!call || call->over) return;
    if (call->status >= 300) {
      if (call->error_body.size() < kMaxErrorBytes) call->error_body += data;
      return;
    }
    if (auto taken = call->data(data); !taken) {
      call->step.reset();
      call->finish(std::move(taken).error());
    }
  };
  handler.end = [this, weak](Result<> result) {
    if (auto call = weak.lock(); call && !call->over) ended(call, std::move(result));
  };
  call->sent_at = scheduler_.clock().instant();
  net::HttpClient& http = call->watch ? *transport_.watches : *transport_.requests;
  call->step = http.send(std::move(request), std::move(handler));
}

void Client::answered(const std::shared_ptr<Call>& call, net::ResponseHead head) {
  call->status = head.status;
  call->headers = std::move(head.headers);
  surfaceWarnings(call->headers);
  count(*call);
}

// A watch counts when it begins: it ends long after.
void Client::count(const Call& call) {
  if (!options_.metrics) return;
  options_.metrics
      ->counter("rest_client_requests_total",
                "Requests to the API server, by status code, method and host.",
                {{"code", call.status ? std::to_string(call.status) : "<error>"},
                 {"host", config_.server.authority()},
                 {"method", call.request.method}})
      .add();
}

void Client::ended(const std::shared_ptr<Call>& call, Result<> result) {
  if (call->status == 0) count(*call);
  if (options_.metrics && !call->watch)
    options_.metrics
        ->histogram("rest_client_request_duration_seconds",
                    "How long requests to the API server take.",
                    {0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60},
                    {{"host", config_.server.authority()}, {"verb", call->request.method}})
        .observe(
            std::chrono::duration<double>(scheduler_.clock().instant() - call->sent_at).count());
  if (!result) return call->finish(unreachable(std::move(result).error()));
  if (call->status < 300) return call->finish({});
  if (config_.server.scheme == "http" && wantsTls(call->status, call->error_body))
    return call->finish(
        unreachable(Error{.code = Code::Unavailable,
                          .message = "the server speaks TLS on this port, not plain HTTP"}));

  Error error = errorFromAnswer(call->status, call->headers, call->error_body);
  if (call->status < 400)
    error.message +=
        format(" ({} at {}: a proxy or a login page may stand before it; correct the address)",
               config_.source, config_.server.origin());
  if (call->status == 401) {
    if (!std::exchange(call->refreshed, true) && credentials_->refused(call->identity)) {
      if (call->restart) call->restart();
      return begin(call);
    }
    error.message += format(" ({}: the credentials are not accepted; log in again or renew them)",
                            config_.source);
  }
  bool may_retry = call->status == 429 || call->status >= 500;
  // A watch has its own backoff, and whoever watches wants to know.
  auto wait = retryAfter(call->headers);
  Duration spent = scheduler_.clock().instant() - call->started;
  if (may_retry && wait && call->tries < kMaxTries && spent + *wait <= kMaxRetryTime &&
      !call->watch && call->retry) {
    if (call->restart) call->restart();
    return beginAfter(call, *wait);
  }
  if (call->tries > 1) error = std::move(error).context(format("after {} tries", call->tries));
  call->finish(std::move(error));
}

Error Client::unreachable(Error error) const {
  if (error.code == Code::InvalidArgument) return error;
  if (error.code == Code::ResourceExhausted)
    return std::move(error).context("the API server at " + config_.server.origin());
  std::string advice = whatToDo(error, config_);
  std::string reason = error.reason;
  Code code = error.code;
  return Error{.code = code,
               .message = format("cannot reach the API server at {} ({}): {}; {}",
                                 config_.server.origin(), config_.source, error.text(), advice),
               .reason = reason};
}

Result<> Client::refreshTransport(const Credentials::Identity& identity) {
  std::erase_if(retired_, [](const Transport& transport) { return transport.idle(); });
  net::TlsClientOptions tls = config_.tls;
  Instant now = scheduler_.clock().instant();
  if (now - files_read_at_ >= kCertificateFileAge) {
    files_read_at_ = now;
    auto reread = [](const std::string& path, std::string& into) {
      std::string text;
      if (!path.empty() && !readFile(path, text) && !text.empty()) into = std::move(text);
    };
    reread(config_.ca_file, tls.ca);
    reread(config_.certificate_file, tls.certificate);
    reread(config_.key_file, tls.key);
  }
  if (!identity.certificate.empty()) {
    tls.certificate = identity.certificate;
    tls.key = identity.key;
  }
  if (tls.certificate == certificate_ && tls.key == key_ && tls.ca == config_.tls.ca) return {};
  auto made = make_transport_(tls);
  if (!made) {
    // Half-written files are no reason to stop working: the next look finds them whole.
    if (identity.certificate.empty()) return {};
    return std::move(made).error();
  }
  // Everything that is under way ends where it began; what is new uses the new certificate.
  retired_.push_back(std::exchange(transport_, *std::move(made)));
  certificate_ = tls.certificate;
  key_ = tls.key;
  config_.tls = std::move(tls);
  return {};
}

void Client::surfaceWarnings(const net::Headers& headers) {
  if (!options_.logger) return;
  for (const auto& [name, value] : headers) {
    if (!equalsIgnoreCase(name, "warning")) continue;
    auto text = warningText(value);
    if (text && warned_.size() < kMaxWarnings && warned_.insert(*text).second)
      options_.logger->warn("the API server warns: " + *text);
  }
}

Duration Client::reserve() {
  if (options_.qps <= 0) return 0s;
  Instant now = scheduler_.clock().instant();
  double elapsed = std::chrono::duration<double>(now - tokens_at_).count();
  tokens_ =
      std::min(tokens_ + elapsed * options_.qps, static_cast<double>(std::max(options_.burst, 1))) -
      1;
  tokens_at_ = now;
  if (tokens_ >= 0) return 0s;
  return Duration(static_cast<std::int64_t>(-tokens_ / options_.qps * 1e9));
}

class Client::ToService final : public net::HttpClient {
 public:
  ToService(Client& client, std::string prefix) : client_(client), prefix_(std::move(prefix)) {}

  Pending send(net::HttpRequest request, net::ResponseHandler handler) override {
    request.target = prefix_ + request.target;
    client_.address(request);
    auto passed = std::make_shared<Passed>(std::move(request), std::move(handler));
    passed->step = client_.scheduler_.after(0s, [this, passed = passed.get()] { begin(*passed); });
    return Pending([passed]() mutable { passed.reset(); });
  }

 private:
  struct Passed {
    net::HttpRequest request;
    net::ResponseHandler handler;
    Pending step = {};
  };

  // Each step is dropped with the one who waits for it.
  void begin(Passed& passed) {
    auto at_hand = std::make_shared<bool>(false);
    auto pending =
        client_.credentials_->get([this, &passed, at_hand](Result<Credentials::Identity> identity) {
          *at_hand = true;
          Result<> ready;
          if (!identity) {
            ready = std::move(identity).error();
          } else if (ready = client_.refreshTransport(*identity); ready) {
            ready = client_.authorize(passed.request, *identity);
          }
          if (!ready) return passed.handler.end(std::move(ready));
          passed.step = client_.transport_.requests->send(std::move(passed.request),
                                                          std::move(passed.handler));
        });
    if (!*at_hand) passed.step = std::move(pending);
  }

  Client& client_;
  const std::string prefix_;
};

std::unique_ptr<net::HttpClient> Client::toService(const ObjectKey& service, int port) {
  return std::make_unique<ToService>(
      *this, format("/api/v1/namespaces/{}/services/http:{}:{}/proxy", urlEncode(service.ns),
                    urlEncode(service.name), port));
}

Pending Client::openWebSocket(std::string target, std::string subprotocol, OpenedSocket done) {
  struct Opening {
    OpenedSocket done;
    Pending step;
  };
  auto opening = std::make_shared<Opening>();
  opening->done = std::move(done);
  net::HttpRequest request{.target = std::move(target)};
  address(request);
  auto begin = [this, opening = opening.get(), request = std::move(request),
                subprotocol = std::move(subprotocol)](
                   Result<Credentials::Identity> identity) mutable -> Result<> {
    if (!identity) return std::move(identity).error();
    CADRE_TRY(refreshTransport(*identity));
    CADRE_TRY(authorize(request, *identity));
    if (!transport_.upgrade)
      return Error{.code = Code::Unimplemented, .message = "there is no way for a WebSocket here"};
    net::WebSocketRequest wanted{.target = std::move(request.target),
                                 .headers = std::move(request.headers),
                                 .subprotocol = std::move(subprotocol),
                                 .refused = [](int status, std::string_view body) {
                                   return errorFromAnswer(status, {}, body);
                                 }};
    opening->step = transport_.upgrade(std::move(wanted), std::move(opening->done));
    return {};
  };
  // Never from inside the call.
  opening->step =
      scheduler_.after(0s, [this, opening = opening.get(), begin = std::move(begin)]() mutable {
        auto at_hand = std::make_shared<bool>(false);
        auto pending = credentials_->get([opening, at_hand, begin = std::move(begin)](
                                             Result<Credentials::Identity> identity) mutable {
          *at_hand = true;
          if (auto begun = begin(std::move(identity)); !begun) opening->done(begun.error());
        });
        if (!*at_hand) opening->step = std::move(pending);
      });
  return Pending([opening]() mutable { opening.reset(); });
}

Pending Client::sendForObject(net::HttpRequest request, Done done, bool retry) {
  auto call = std::make_shared<Call>();
  call->retry = retry;
  call->request = std::move(request);
  call->request.timeout = options_.timeout;
  struct Answer {
    std::string body;
    Done done;
  };
  auto answer = std::make_shared<Answer>();
  answer->done = std::move(done);
  call->data = [this, answer,
                limit = options_.max_answer_bytes](std::string_view data) -> Result<> {
    if (answer->body.size() + data.size() > limit)
      return Error{.code = Code::ResourceExhausted,
                   .message = format("the answer of the API server at {} is larger than {} bytes",
                                     config_.server.origin(), limit)};
    answer->body += data;
    return {};
  };
  call->restart = [answer] { answer->body.clear(); };
  call->end = [answer, limit = options_.max_answer_bytes](Result<> result) {
    if (!result) return answer->done(std::move(result).error());
    auto value = json::parse(answer->body, {.limits = {.bytes = limit}, .cut_deep = true});
    if (!value)
      return answer->done(std::move(value).error().context(
          "the API server's answer is not the JSON that it should be"));
    answer->done(std::move(value));
  };
  return send(std::move(call));
}

Pending Client::request(std::string method, std::string target, std::string body,
                        std::string content_type, Done done, std::string accept) {
  net::HttpRequest request{
      .method = std::move(method), .target = std::move(target), .body = std::move(body)};
  request.headers.add("Accept", std::move(accept));
  if (!content_type.empty()) request.headers.add("Content-Type", std::move(content_type));
  return sendForObject(std::move(request), std::move(done));
}

Pending Client::stream(std::string target, Function<void(std::string_view)> data,
                       Function<void(Result<>)> end) {
  auto call = std::make_shared<Call>();
  call->watch = true;
  call->request.target = std::move(target);
  call->request.headers.add("Accept", "*/*");
  call->data = [data = std::move(data)](std::string_view piece) -> Result<> {
    data(piece);
    return {};
  };
  call->end = std::move(end);
  return send(std::move(call));
}

Pending Client::get(const Resource& resource, const ObjectKey& key, Done done,
                    std::string_view subresource) {
  return request("GET", resource.path(key.ns, key.name, subresource), "", "", std::move(done));
}

std::string Client::writeQuery(const WriteOptions& options, bool apply) const {
  Query query;
  query.add("fieldManager",
            options.field_manager.empty() ? options_.field_manager : options.field_manager);
  if (apply) query.add("force", options.force ? "true" : "false");
  query.add("fieldValidation",
            options.field_validation.empty() && apply ? "Strict" : options.field_validation);
  if (options.dry_run) query.add("dryRun", "All");
  return query.text();
}

Pending Client::write(std::string method, std::string target, std::string body,
                      std::string_view content_type, const Impersonation& as, bool retry,
                      Done done) {
  net::HttpRequest request{
      .method = std::move(method), .target = std::move(target), .body = std::move(body)};
  request.headers.add("Accept", "application/json");
  request.headers.add("Content-Type", std::string(content_type));
  impersonate(request, as);
  return sendForObject(std::move(request), std::move(done), retry);
}

Pending Client::create(const Resource& resource, const json::Value& object,
                       const WriteOptions& options, Done done) {
  // A subresource (a binding, a token) is created below its named object.
  std::string_view below = options.subresource.empty() ? std::string_view() : name(object);
  return write("POST",
               resource.path(ns(object), below, options.subresource) + writeQuery(options, false),
               json::write(object), "application/json", options.as, options.retry, std::move(done));
}

Pending Client::update(const Resource& resource, const json::Value& object,
                       const WriteOptions& options, Done done) {
  return write(
      "PUT",
      resource.path(ns(object), name(object), options.subresource) + writeQuery(options, false),
      json::write(object), "application/json", options.as, options.retry, std::move(done));
}

Pending Client::patch(const Resource& resource, const ObjectKey& key, PatchType type,
                      const json::Value& patch, const WriteOptions& options, Done done) {
  return write("PATCH",
               resource.path(key.ns, key.name, options.subresource) +
                   writeQuery(options, type == PatchType::Apply),
               json::write(patch), contentType(type), options.as, options.retry, std::move(done));
}

Pending Client::apply(const Resource& resource, const json::Value& object,
                      const WriteOptions& options, Done done) {
  return patch(resource, ObjectKey::of(object), PatchType::Apply, object, options, std::move(done));
}

namespace {
std::string deleteBody(const DeleteOptions& options) {
  json::Object body{{"apiVersion", "v1"}, {"kind", "DeleteOptions"}};
  json::Object preconditions;
  if (!options.uid.empty()) preconditions.set("uid", options.uid);
  if (!options.resource_version.empty())
    preconditions.set("resourceVersion", options.resource_version);
  if (!preconditions.empty()) body.set("preconditions", std::move(preconditions));
  if (!options.propagation.empty()) body.set("propagationPolicy", options.propagation);
  if (options.grace_seconds) body.set("gracePeriodSeconds", *options.grace_seconds);
  if (options.dry_run) body.set("dryRun", json::Array{"All"});
  return json::write(body);
}
}  // namespace

Pending Client::remove(const Resource& resource, const ObjectKey& key, const DeleteOptions& options,
                       Done done) {
  return write("DELETE", resource.path(key.ns, key.name), deleteBody(options), "application/json",
               options.as, options.retry, std::move(done));
}

Pending Client::removeAll(const Resource& resource, const Selection& select,
                          const DeleteOptions& options, Done done) {
  Query query;
  query.addSelection(select);
  return write("DELETE", resource.path(select.ns) + query.text(), deleteBody(options),
               "application/json", options.as, options.retry, std::move(done));
}

Pending Client::listPage(const Resource& resource, const ListOptions& options,
                         Function<void(json::Value)> item, Function<void(Result<ListPage>)> done) {
  Query query;
  query.addSelection(options.select);
  if (options.page) query.add("limit", std::to_string(options.page));
  query.add("continue", options.continue_token);
  query.add("resourceVersion", options.resource_version);

  auto call = std::make_shared<Call>();
  call->request.target = resource.path(options.select.ns) + query.text();
  call->request.timeout = options_.timeout;
  call->request.headers.add("Accept", acceptFor(resource, options.json_only));
  json::ParseOptions parse{.limits = {.bytes = options_.max_answer_bytes},
                           .drop_managed_fields = options.drop_managed_fields,
                           .cut_deep = true};
  auto each = std::make_shared<Function<void(json::Value)>>(std::move(item));
  auto on_item = [each](json::Value value) { (*each)(std::move(value)); };
  using Parser = EitherParser<json::ListParser, ProtobufListParser>;
  auto parser = std::make_shared<Parser>(
      [=] { return json::ListParser(on_item, parse); },
      [=, kind = resource.gvk()] { return ProtobufListParser(kind, on_item, parse); });
  // The call holds these, so they may not hold it.
  call->data = [parser, raw = call.get()](std::string_view data) {
    auto fed = parser->feed(raw->headers, data);
    return fed ? Result<>() : Result<>(std::move(fed).error().context("reading the list"));
  };
  call->end = [parser, raw = call.get(), done = std::move(done)](Result<> result) {
    if (!result) return done(std::move(result).error());
    auto envelope = parser->finish(raw->headers);
    if (!envelope) return done(std::move(envelope).error().context("reading the list"));
    const json::Value& metadata = (*envelope)["metadata"];
    done(ListPage{.resource_version = metadata["resourceVersion"].string(),
                  .continue_token = metadata["continue"].string()});
  };
  return send(std::move(call));
}

Pending Client::list(const Resource& resource, ListOptions options,
                     Function<void(Result<std::vector<json::Value>>)> done) {
  struct Listing : std::enable_shared_from_this<Listing> {
    Client& client;
    Resource resource;
    ListOptions options;
    Function<void(Result<std::vector<json::Value>>)> done;
    std::vector<json::Value> items = {};
    Pending page = {};

    Listing(Client& client, Resource resource, ListOptions options,
            Function<void(Result<std::vector<json::Value>>)> done)
        : client(client),
          resource(std::move(resource)),
          options(std::move(options)),
          done(std::move(done)) {}

    void next() {
      auto weak = weak_from_this();
      page = client.listPage(
          resource, options,
          [weak](json::Value item) {
            if (auto self = weak.lock()) self->items.push_back(std::move(item));
          },
          [weak](Result<ListPage> page) {
            if (auto self = weak.lock()) self->took(std::move(page));
          });
    }
    void took(Result<ListPage> page) {
      if (!page && page.error().code == Code::Gone && !options.continue_token.empty()) {
        // It took too long between two pages. Once more, in one piece, which cannot expire.
        items.clear();
        options.continue_token.clear();
        options.page = 0;
        return next();
      }
      if (!page) return std::exchange(done, nullptr)(std::move(page).error());
      options.continue_token = page->continue_token;
      if (!options.continue_token.empty()) return next();
      std::exchange(done, nullptr)(std::move(items));
    }
  };
  auto listing = std::make_shared<Listing>(*this, resource, std::move(options), std::move(done));
  listing->next();
  return Pending([listing] { listing->page.reset(); });
}

Pending Client::watch(const Resource& resource, const WatchOptions& options,
                      Function<void(EventType, json::Value)> event, Function<void(Result<>)> end) {
  Query query;
  query.add("watch", "true");
  query.add("allowWatchBookmarks", "true");
  query.addSelection(options.select);
  query.add("resourceVersion", options.resource_version);
  if (options.initial_events) {
    query.add("sendInitialEvents", "true");
    query.add("resourceVersionMatch", "NotOlderThan");
  }
  auto seconds = std::chrono::duration_cast<std::chrono::seconds>(options.timeout);
  query.add("timeoutSeconds", std::to_string(seconds.count()));

  auto call = std::make_shared<Call>();
  call->watch = true;
  call->request.target = resource.path(options.select.ns) + query.text();
  call->request.headers.add("Accept", acceptFor(resource, options.json_only));
  // The server should have ended it by then; a peer that does not is not to be trusted with more
  // time.
  call->request.timeout = options.timeout + 10s;

  struct Stream {
    Function<void(EventType, json::Value)> event;
    std::optional<Error> failed;
  };
  auto stream = std::make_shared<Stream>();
  stream->event = std::move(event);
  json::ParseOptions parse{.limits = {.bytes = options_.max_answer_bytes},
                           .drop_managed_fields = options.drop_managed_fields,
                           .cut_deep = true};
  auto on_event = [stream, weak = std::weak_ptr(call), kind = resource.kind](json::Value document) {
    auto call = weak.lock();
    if (!call || call->over || stream->failed) return;
    std::string type = document["type"].string();
    json::Value object = std::move(document.make("object"));
    auto wrong = [&](std::string message) {
      stream->failed = Error{.code = Code::DataLoss, .message = std::move(message)};
    };
    if (!object.isObject())
      return wrong(
          format("the watch sent an event of type \"{}\" without an object", shorten(type, 50)));
    // What is of another kind must not be taken for one of these.
    if (const std::string& sent = object["kind"].string();
        type != "ERROR" && !sent.empty() && sent != kind)
      return wrong(format("the watch of {} sent a {}", kind, shorten(sent, 50)));
    if (type == "ADDED") return stream->event(EventType::Added, std::move(object));
    if (type == "MODIFIED") return stream->event(EventType::Modified, std::move(object));
    if (type == "DELETED") return stream->event(EventType::Deleted, std::move(object));
    if (type == "BOOKMARK") return stream->event(EventType::Bookmark, std::move(object));
    if (type != "ERROR")
      return wrong(format("the watch sent an event of type \"{}\"", shorten(type, 50)));
    stream->failed = errorFromStatus(object);
  };
  using Parser = EitherParser<json::StreamParser, ProtobufStreamParser>;
  auto parser = std::make_shared<Parser>([=] { return json::StreamParser(on_event, parse); },
                                         [=] { return ProtobufStreamParser(on_event, parse); });
  // The call holds these, so they may not hold it.
  call->data = [parser, stream, raw = call.get()](std::string_view data) -> Result<> {
    auto fed = parser->feed(raw->headers, data);
    if (stream->failed) return *stream->failed;
    if (!fed) return std::move(fed).error().context("reading the watch");
    return {};
  };
  call->end = [parser, raw = call.get(), end = std::move(end)](Result<> result) {
    if (result) result = parser->finish(raw->headers);
    end(std::move(result));
  };
  return send(std::move(call));
}

Pending serverVersion(Client& client, Client::Done done) {
  return client.request("GET", "/version", "", "", std::move(done));
}

}  // namespace cadre::kube
