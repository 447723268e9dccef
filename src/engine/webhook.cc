#include "engine/webhook.h"

#include <fstream>
#include <sstream>

#include "base/format.h"
#include "base/strings.h"
#include "json/parse.h"
#include "json/write.h"

namespace cadre::engine {
namespace {

constexpr std::string_view kPath = "/validate";
// An object and the one before it, of 3 MiB at most each, and room for the rest.
constexpr std::size_t kMaxBody = 8 << 20;
constexpr Duration kBodyTimeout = 10s;  // the API server itself waits no longer
constexpr Duration kLookAgain = 10s;

Error invalid(std::string message) {
  return Error{.code = Code::InvalidArgument, .message = std::move(message)};
}

std::optional<Operation> operationOf(std::string_view name) {
  if (name == "CREATE") return Operation::Create;
  if (name == "UPDATE") return Operation::Update;
  if (name == "DELETE") return Operation::Delete;
  return std::nullopt;
}

// As the API server words it for its own kinds.
std::string inWords(const json::Value& request, const std::vector<Detail>& causes) {
  std::string text;
  for (const Detail& cause : causes) {
    if (!text.empty()) text += ", ";
    text += cause.field.empty() ? cause.message : cause.field + ": " + cause.message;
  }
  const std::string& group = request["kind"]["group"].string();
  return format("{}{}{} \"{}\" is invalid: {}{}{}", request["kind"]["kind"].string(),
                group.empty() ? "" : ".", group, request["name"].string(),
                causes.size() > 1 ? "[" : "", text, causes.size() > 1 ? "]" : "");
}

json::Value refusal(const json::Value& request, const std::vector<Detail>& causes) {
  json::Array list;
  for (const Detail& cause : causes)
    list.push_back(
        json::Object{{"field", cause.field},
                     {"reason", cause.reason.empty() ? "FieldValueInvalid" : cause.reason},
                     {"message", cause.message}});
  return json::Object{{"status", "Failure"},
                      {"code", 422},
                      {"reason", "Invalid"},
                      {"message", inWords(request, causes)},
                      {"details", json::Object{{"name", request["name"]},
                                               {"group", request["kind"]["group"]},
                                               {"kind", request["kind"]["kind"]},
                                               {"causes", std::move(list)}}}};
}

std::string readFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

Result<json::Value> answerReview(const json::Value& review,
                                 const std::vector<Validator>& validators) {
  if (review["apiVersion"].string() != "admission.k8s.io/v1" ||
      review["kind"].string() != "AdmissionReview")
    return invalid("this is no AdmissionReview of admission.k8s.io/v1");
  const json::Value& request = review["request"];
  if (request["uid"].string().empty()) return invalid("the review has no request with a uid");
  auto operation = operationOf(request["operation"].string());
  const json::Value& of = request["resource"];
  const Validator* validator = nullptr;
  for (const Validator& one : validators)
    if (one.resource.group == of["group"].string() &&
        one.resource.plural == of["resource"].string())
      validator = &one;
  if (!validator)
    return Error{.code = Code::NotFound,
                 .message = format("nobody here validates {} of group \"{}\"",
                                   of["resource"].string(), of["group"].string())};

  Verdict verdict;
  bool goes = operation == Operation::Update && kube::isDeleting(request["object"]);
  if (operation && request["subResource"].string().empty() && !goes)
    verdict = validator->validate(*operation, request["object"], request["oldObject"]);
  json::Value response = json::Object{{"uid", request["uid"]}, {"allowed", verdict.causes.empty()}};
  if (!verdict.causes.empty()) response.make("status") = refusal(request, verdict.causes);
  json::Array& warnings = response.make("warnings").makeArray();
  for (std::string& warning : verdict.warnings) warnings.emplace_back(std::move(warning));
  return json::Value(json::Object{{"apiVersion", "admission.k8s.io/v1"},
                                  {"kind", "AdmissionReview"},
                                  {"response", std::move(response)}});
}

WebhookServer::WebhookServer(net::Loop& loop, WebhookOptions options)
    : loop_(loop),
      options_(std::move(options)),
      logger_(options_.logger ? *options_.logger : Logger::silent()) {
  if (!options_.metrics) return;
  for (const char* code : {"200", "400", "404", "500"})  // from 0
    options_.metrics->counter("controller_runtime_webhook_requests_total",
                              "Admission requests, by the code of the answer.",
                              {{"code", code}, {"webhook", std::string(kPath)}});
}

Result<std::unique_ptr<WebhookServer>> WebhookServer::open(net::Loop& loop, kube::Client& client,
                                                           Random& random, WebhookOptions options) {
  CADRE_LET(auto address, BindAddress::parse(options.address));
  if (!address) return invalid("a webhook server needs an address to listen on");
  std::unique_ptr<WebhookServer> webhook(new WebhookServer(loop, std::move(options)));
  WebhookServer* self = webhook.get();
  // Until the real one is there; nobody trusts it.
  CADRE_LET(net::CertificateAndKey none,
            net::makeCertificate({.common_name = "not yet", .days = 1, .now = loop.clock().now()}));
  net::HttpServerOptions http{
      .tls = net::TlsServerOptions{.certificate = none.certificate, .key = none.key},
      .max_body_bytes = kMaxBody,
      .body_timeout = kBodyTimeout};
  CADRE_LET(webhook->server_, listenOn(loop, *address, std::move(http),
                                       [self](auto request) { self->answer(*request); }));
  if (!self->options_.certificate_directory.empty()) {
    CADRE_TRY(self->reload());
    self->watchDirectory();
    return webhook;
  }
  KeyKeeperOptions keys = self->options_.keys;
  if (!keys.logger) keys.logger = self->options_.logger;
  self->keeper_ = std::make_unique<KeyKeeper>(
      client, random, std::move(keys), [self](const net::CertificateAndKey& pair) {
        if (auto served = self->serve(pair); !served)
          self->logger_.error("the webhook's certificate cannot be served",
                              {{"error", served.error().text()}});
      });
  return webhook;
}

std::string WebhookServer::trouble() const { return keeper_ ? keeper_->trouble() : ""; }

Check answering(const WebhookServer& server) {
  return {"webhook", [&server] { return server.trouble(); }};
}

Result<> WebhookServer::serve(const net::CertificateAndKey& pair) {
  CADRE_TRY(server_->setTls({.certificate = pair.certificate, .key = pair.key}));
  if (!served_.certificate.empty()) logger_.info("the webhook serves a new certificate");
  served_ = pair;
  return {};
}

Result<> WebhookServer::reload() {
  const std::string& folder = options_.certificate_directory;
  if (folder.empty()) return {};
  net::CertificateAndKey pair{readFile(folder + "/tls.crt"), readFile(folder + "/tls.key")};
  bool is_new = pair.certificate != served_.certificate || pair.key != served_.key;
  if (!is_new && !served_.certificate.empty()) return {};
  auto served = serve(pair);
  if (!served) return std::move(served).error().context(folder + "/tls.crt and tls.key");
  return {};
}

// What is there but cannot be used may be half of a change: the old one is served until it is
// whole.
void WebhookServer::watchDirectory() {
  timer_ = loop_.after(kLookAgain, [this] {
    if (auto read = reload(); !read)
      logger_.warn("the webhook's new certificate cannot be used yet",
                   {{"error", read.error().text()}});
    watchDirectory();
  });
}

void WebhookServer::answer(net::ServerRequest& request) {
  Instant begin = loop_.clock().instant();
  auto respond = [&](int status, std::string_view type, std::string text) {
    count(status, loop_.clock().instant() - begin);
    request.respond(status, {{"Content-Type", std::string(type)}}, std::move(text));
  };
  auto refuse = [&](int status, std::string_view why) {
    logger_.warn("an admission request could not be answered", {{"why", why}});
    respond(status, "text/plain; charset=utf-8", format("{}\n", why));
  };
  if (net::Target::parse(request.target).path != kPath)
    return refuse(404, format("only {} is here", kPath));
  if (request.method != "POST") return refuse(405, "only POST is answered here");
  std::string_view type = cut(request.headers.get("content-type"), ";").first;
  if (!equalsIgnoreCase(trim(type), "application/json"))
    return refuse(415, "a review is application/json");
  auto review = json::parse(request.body, json::Limits{.bytes = kMaxBody});
  if (!review) return refuse(400, review.error().text());
  auto answer = answerReview(*review, options_.validators);
  if (!answer)
    return refuse(answer.error().code == Code::NotFound ? 404 : 400, answer.error().text());
  respond(200, "application/json", json::write(*answer));
}

void WebhookServer::count(int status, Duration took) {
  if (!options_.metrics) return;
  std::string webhook(kPath);
  options_.metrics
      ->counter("controller_runtime_webhook_requests_total",
                "Admission requests, by the code of the answer.",
                {{"code", std::to_string(status)}, {"webhook", webhook}})
      .add();
  options_.metrics
      ->histogram("controller_runtime_webhook_latency_seconds",
                  "How long admission requests take to be answered.",
                  {0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10},
                  {{"webhook", webhook}})
      .observe(std::chrono::duration<double>(took).count());
}

}  // namespace cadre::engine
