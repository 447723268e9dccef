#include "engine/webhook.h"

#include <fstream>
#include <sstream>

#include "base/format.h"
#include "base/strings.h"
#include "json/parse.h"
#include "json/write.h"
#include "kube/validate.h"

namespace cadre::engine {
namespace {

constexpr std::string_view kPath = "/validate";
// An object and the one before it, of 3 MiB at most each, and room for the rest.
constexpr std::size_t kMaxBody = 8 << 20;
constexpr Duration kBodyTimeout = 10s;  // the API server itself waits no longer
constexpr Duration kLookAgain = 10s;
const kube::Resource kAccessReviews{"authorization.k8s.io", "v1", "subjectaccessreviews",
                                    "SubjectAccessReview", false};

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

Verdict verdictOf(const kube::Kind& kind, Operation operation, const json::Value& object,
                  const json::Value& old_object) {
  Verdict verdict;
  if (operation == Operation::Delete) return verdict;
  kube::Validation found =
      kube::validate(kind, object, {.old = operation == Operation::Update ? &old_object : nullptr});
  for (const kube::FieldError& error : found.errors) verdict.causes.push_back(error.detail());
  verdict.warnings = std::move(found.warnings);
  return verdict;
}

Result<Verdict> judge(const json::Value& review, const std::vector<Validator>& validators) {
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
  bool goes = operation == Operation::Update && kube::isDeleting(request["object"]);
  if (!operation || !request["subResource"].string().empty() || goes) return Verdict{};
  try {
    return validator->validate(*operation, request["object"], request["oldObject"]);
  } catch (const std::exception& error) {
    return Error{.code = Code::Internal,
                 .message = format("this validator has a defect: {}", error.what())};
  }
}

json::Value answerTo(const json::Value& review, const Verdict& verdict) {
  const json::Value& request = review["request"];
  json::Value response = json::Object{{"uid", request["uid"]}, {"allowed", verdict.causes.empty()}};
  if (!verdict.causes.empty()) response.make("status") = refusal(request, verdict.causes);
  json::Array& warnings = response.make("warnings").makeArray();
  for (const std::string& warning : verdict.warnings) warnings.emplace_back(warning);
  return json::Object{{"apiVersion", "admission.k8s.io/v1"},
                      {"kind", "AdmissionReview"},
                      {"response", std::move(response)}};
}

// A review that is being answered.
struct WebhookServer::Asked {
  std::shared_ptr<net::ServerRequest> request;
  Instant begin;
  json::Value review = {};
  Verdict verdict = {};
  Pending pending = {};
};

WebhookServer::WebhookServer(net::Loop& loop, kube::Client& client, WebhookOptions options)
    : loop_(loop),
      client_(client),
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
  std::unique_ptr<WebhookServer> webhook(new WebhookServer(loop, client, std::move(options)));
  WebhookServer* self = webhook.get();
  // Until the real one is there; nobody trusts it.
  CADRE_LET(net::CertificateAndKey none,
            net::makeCertificate({.common_name = "not yet", .days = 1, .now = loop.clock().now()}));
  net::HttpServerOptions http{
      .tls = net::TlsServerOptions{.certificate = none.certificate, .key = none.key},
      .max_body_bytes = kMaxBody,
      .body_timeout = kBodyTimeout};
  CADRE_LET(webhook->server_, listenOn(loop, *address, std::move(http),
                                       [self](auto request) { self->answer(std::move(request)); }));
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

void WebhookServer::answer(std::shared_ptr<net::ServerRequest> request) {
  auto asked = std::make_shared<Asked>(std::move(request), loop_.clock().instant());
  auto refuse = [&](int status, std::string_view why) {
    logger_.warn("an admission request could not be answered", {{"why", why}});
    count(status, loop_.clock().instant() - asked->begin);
    asked->request->respond(status, {{"Content-Type", "text/plain; charset=utf-8"}},
                            format("{}\n", why));
  };
  if (net::Target::parse(asked->request->target).path != kPath)
    return refuse(404, format("only {} is here", kPath));
  if (asked->request->method != "POST") return refuse(405, "only POST is answered here");
  std::string_view type = cut(asked->request->headers.get("content-type"), ";").first;
  if (!equalsIgnoreCase(trim(type), "application/json"))
    return refuse(415, "a review is application/json");
  auto review = json::parse(asked->request->body, json::Limits{.bytes = kMaxBody});
  if (!review) return refuse(400, review.error().text());
  auto verdict = judge(*review, options_.validators);
  if (!verdict) {
    Code code = verdict.error().code;
    return refuse(code == Code::NotFound   ? 404
                  : code == Code::Internal ? 500
                                           : 400,
                  verdict.error().text());
  }
  asked->review = *std::move(review);
  asked->verdict = *std::move(verdict);
  if (!asked->verdict.causes.empty()) asked->verdict.demands.clear();  // refused anyway
  if (asked->verdict.demands.empty()) return finish(asked);
  asked_.insert(asked);
  asked->request->onGone([this, weak = std::weak_ptr(asked)] {
    if (auto asked = weak.lock()) asked_.erase(asked);
  });
  ask(asked);
}

// The last of the demands; and then the others.
void WebhookServer::ask(const std::shared_ptr<Asked>& asked) {
  const Demand& demand = asked->verdict.demands.back();
  const json::Value& request = asked->review["request"];
  const json::Value& user = request["userInfo"];
  json::Value body = json::Object{
      {"spec",
       json::Object{{"user", user["username"]},
                    {"groups", user["groups"]},
                    {"uid", user["uid"]},
                    {"extra", user["extra"]},
                    {"resourceAttributes", json::Object{{"namespace", request["namespace"]},
                                                        {"verb", demand.verb},
                                                        {"group", demand.resource.group},
                                                        {"version", demand.resource.version},
                                                        {"resource", demand.resource.plural}}}}}};
  asked->pending = client_.create(
      kAccessReviews, body, {}, [this, weak = std::weak_ptr(asked)](Result<json::Value> said) {
        auto asked = weak.lock();
        if (!asked) return;
        std::vector<Demand>& demands = asked->verdict.demands;
        if (!said || !(*said)["status"]["allowed"].boolean()) {
          asked->verdict.causes.push_back(
              {demands.back().field, "FieldValueForbidden",
               format("Forbidden: {}{}", demands.back().why,
                      said ? "" : "; that could not be asked: " + said.error().text())});
          demands.clear();
        } else {
          demands.pop_back();
        }
        if (!demands.empty()) return ask(asked);
        asked_.erase(asked);
        finish(asked);
      });
}

void WebhookServer::finish(const std::shared_ptr<Asked>& asked) {
  count(200, loop_.clock().instant() - asked->begin);
  asked->request->respond(200, {{"Content-Type", "application/json"}},
                          json::write(answerTo(asked->review, asked->verdict)));
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
