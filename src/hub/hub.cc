#include "hub/hub.h"

#include <algorithm>
#include <utility>

#include "base/format.h"
#include "base/strings.h"
#include "hub/builtin_kind.h"
#include "hub/discovery.h"
#include "hub/openapi.h"
#include "hub/render.h"
#include "hub/reviews.h"
#include "json/parse.h"
#include "json/write.h"
#include "json/yaml.h"
#include "kube/protobuf.h"

namespace cadre::hub {
namespace {

constexpr std::size_t kMaxBody = 3u << 20;
constexpr std::string_view kJson = "application/json", kYaml = "application/yaml";
constexpr std::string_view kText = "text/plain; charset=utf-8";
constexpr std::string_view kNoPage = "404 page not found\n";
constexpr std::string_view kCanWrite = "application/json, application/yaml";
constexpr std::size_t kMaxManager = 128;
constexpr std::string_view kAggregated =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
constexpr Duration kTooFresh = 3s;
constexpr std::string_view kNeeded[] = {"default", "kube-system", "kube-public"};
constexpr Duration kWatchTimeout = 30min;

kube::FieldError wrong(std::string_view field, kube::Fault fault, std::string message) {
  return {.path = std::string(field), .fault = fault, .message = std::move(message)};
}

Failure wrongOptions(std::string_view kind, std::vector<kube::FieldError> errors) {
  return invalid(
      {.group = "meta.k8s.io", .version = "v1", .plural = lower(kind), .kind = std::string(kind)},
      "", errors);
}

// Where a list goes on: after a key, as of a revision.
struct Continue {
  std::int64_t revision = 0;
  kube::ObjectKey after;

  std::string text() const {
    return base64Encode(json::write(json::Object{
        {"v", "meta.k8s.io/v1"}, {"rv", revision}, {"ns", after.ns}, {"start", after.name}}));
  }
  static std::optional<Continue> parse(std::string_view token) {
    auto bytes = base64Decode(token);
    auto value = json::parse(bytes.value_or(""));
    if (!bytes || !value || (*value)["v"].string() != "meta.k8s.io/v1") return std::nullopt;
    return Continue{(*value)["rv"].integer(),
                    {(*value)["ns"].string(), (*value)["start"].string()}};
  }
};

Failure noNumber(std::string_view text) {
  return badRequest(format("strconv.ParseInt: parsing \"{}\": invalid syntax", text));
}

Failure noVersion(std::string_view text) {
  return {500, "",
          format("resourceVersion: Invalid value: \"{}\": strconv.ParseUint: parsing \"{}\": "
                 "invalid syntax",
                 text, text)};
}

// How resourceVersion, its match and sendInitialEvents go together.
std::vector<kube::FieldError> listErrors(const Asked& asked) {
  std::vector<kube::FieldError> errors;
  std::string_view match = asked.option("resourceVersionMatch"),
                   version = asked.option("resourceVersion");
  auto forbid = [&](std::string_view field, std::string_view why) {
    errors.push_back(wrong(field, kube::Fault::Forbidden, format("Forbidden: {}", why)));
  };
  if (!match.empty() && version.empty())
    forbid("resourceVersionMatch",
           "resourceVersionMatch is forbidden unless resourceVersion is provided");
  if (!match.empty() && !asked.option("continue").empty())
    forbid("resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided");
  if (!match.empty() && match != "Exact" && match != "NotOlderThan")
    errors.push_back(wrong("resourceVersionMatch", kube::Fault::NotSupported,
                           format("Unsupported value: \"{}\": supported values: \"Exact\", "
                                  "\"NotOlderThan\", \"\"",
                                  match)));
  if (match == "Exact" && version == "0")
    forbid("resourceVersionMatch",
           "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
  if (asked.has("sendInitialEvents"))
    forbid("sendInitialEvents", "sendInitialEvents is forbidden for list");
  return errors;
}

std::vector<kube::FieldError> watchErrors(const Asked& asked) {
  std::vector<kube::FieldError> errors;
  std::string_view match = asked.option("resourceVersionMatch");
  bool initial = asked.has("sendInitialEvents");
  if (initial && match != "NotOlderThan")
    errors.push_back(wrong("resourceVersionMatch", kube::Fault::Forbidden,
                           "Forbidden: sendInitialEvents requires setting resourceVersionMatch to "
                           "NotOlderThan"));
  if (!initial && !match.empty())
    errors.push_back(wrong("resourceVersionMatch", kube::Fault::Forbidden,
                           "Forbidden: resourceVersionMatch is forbidden for watch unless "
                           "sendInitialEvents is provided"));
  if (!match.empty() && match != "NotOlderThan")
    errors.push_back(wrong("resourceVersionMatch", kube::Fault::NotSupported,
                           format("Unsupported value: \"{}\": supported values: "
                                  "\"NotOlderThan\"",
                                  match)));
  return errors;
}

void checkDryRun(std::string_view value, std::vector<kube::FieldError>& errors) {
  if (value == "All") return;
  errors.push_back(wrong("dryRun", kube::Fault::NotSupported,
                         format("Unsupported value: [\"{}\"]: supported values: \"All\"", value)));
}

void checkManager(std::string_view manager, std::vector<kube::FieldError>& errors) {
  if (manager.size() > kMaxManager)
    errors.push_back(wrong("fieldManager", kube::Fault::TooLong,
                           format("Too long: may not be more than {} bytes", kMaxManager)));
  auto control = [](unsigned char c) { return c < 0x20 || c == 0x7f; };
  auto bad = std::ranges::find_if(manager, control);
  if (bad == manager.end()) return;
  std::string shown;
  for (char c : manager)
    shown += control(static_cast<unsigned char>(c)) ? format("\\x{:02x}", c) : std::string(1, c);
  errors.push_back(
      wrong("fieldManager", kube::Fault::Invalid,
            format("Invalid value: \"{}\": invalid character U+{:04X} (at position {})", shown,
                   *bad, bad - manager.begin())));
}

std::string warningText(std::string_view text) {
  std::string quoted;
  for (char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c == '\n' || c == '\r' ? ' ' : c;
  }
  return format("299 - \"{}\"", quoted);
}

}  // namespace

// A request on its way.
struct Hub::Call {
  std::shared_ptr<net::ServerRequest> request;
  Asked asked;
  Form form;
  KindRef kind;
  std::vector<std::string> warnings = {};
  User user = {};
  Pending waiting = {};  // for somebody's answer, or for a time

  std::string_view option(std::string_view name) const { return asked.option(name); }
  kube::ObjectKey key() const { return {asked.ns, asked.name}; }
  Include include() const {
    std::string_view wanted = option("includeObject");
    return wanted == "None"     ? Include::None
           : wanted == "Object" ? Include::Object
                                : Include::Metadata;
  }
};

Hub::Hub(Scheduler& scheduler, Random& random, HubOptions options)
    : scheduler_(scheduler),
      random_(random),
      options_(std::move(options)),
      objects_(
          scheduler,
          [this](const auto& lines) -> Result<> {
            return options_.keep ? options_.keep(lines) : Result<>();
          },
          [this](const Change& change) { told(change); }, options_.history),
      registry_(objects_, scheduler.clock(), random),
      tokens_({.key = options_.signing_key
                          ? *std::move(options_.signing_key)
                          : *net::SigningKey::generate(net::SigningKey::Algorithm::Es256)},
              scheduler.clock(),
              [this](std::string_view resource, const kube::ObjectKey& key) {
                State state = objects_.find(resource, key);
                return state ? state->value() : json::Value();
              }),
      admission_(scheduler, random, objects_, std::move(options_.connect),
                 std::move(options_.locate)),
      watches_(scheduler, options_.watches),
      collector_(scheduler, objects_, kinds_, registry_),
      limits_(scheduler, objects_, kinds_, registry_),
      definitions_(scheduler, objects_, kinds_, registry_, watches_, options_.natives) {
  for (KindRef& kind : servedBuiltIns()) kinds_.add(std::move(kind));
}

Hub::~Hub() = default;

void Hub::furnish() {
  objects_.each([this](const std::string& resource, const State& state) {
    Change came{.revision = state->revision, .resource = resource, .after = state};
    admission_.told(came);
    definitions_.told(came);
    collector_.told(came);
  });
  auto make = [this](const KindRef& kind, json::Value object) {
    auto draft = registry_.create(kind, "", "", std::move(object), {.manager = "cadre-hub"});
    if (draft) (void)static_cast<bool>(registry_.finish(*std::move(draft)));
  };
  KindRef namespaces = kinds_.find("", "v1", "namespaces");
  for (std::string_view name : {"default", "kube-system", "kube-public", "kube-node-lease"}) {
    if (objects_.find("namespaces", {"", std::string(name)})) continue;
    make(namespaces, json::Object{{"metadata", json::Object{{"name", name}}}});
  }
  Rbac::Objects roles = defaultRbac();
  for (auto [plural, objects] : {std::pair("clusterroles", &roles.cluster_roles),
                                 std::pair("clusterrolebindings", &roles.cluster_role_bindings)}) {
    KindRef kind = kinds_.find("rbac.authorization.k8s.io", "v1", plural);
    for (json::Value& object : *objects)
      if (!objects_.find(kind->storage, kube::ObjectKey::of(object))) make(kind, std::move(object));
  }
}

void Hub::handle(std::shared_ptr<net::ServerRequest> request) {
  auto call = std::make_shared<Call>();
  call->request = std::move(request);
  auto asked = parseRequest(call->request->method, call->request->target);
  if (!asked) return refuse(call, noSuchResource());
  call->asked = *std::move(asked);
  if (auto failure = authorize(*call)) return refuse(call, *failure);
  if (call->request->body.size() > kMaxBody) return refuse(call, tooLarge(kMaxBody));
  serve(call);
}

// ---- Who asks

const Rbac& Hub::rbac() {
  if (std::exchange(rbac_outdated_, false)) {
    auto all = [this](std::string_view resource) {
      std::vector<json::Value> values;
      for (const auto& [key, state] : objects_.all(resource)) values.push_back(state->value());
      return values;
    };
    rbac_ = std::make_shared<Rbac>(Rbac::Objects{
        .roles = all("rbac.authorization.k8s.io/roles"),
        .cluster_roles = all("rbac.authorization.k8s.io/clusterroles"),
        .role_bindings = all("rbac.authorization.k8s.io/rolebindings"),
        .cluster_role_bindings = all("rbac.authorization.k8s.io/clusterrolebindings")});
  }
  return *rbac_;
}

std::optional<Failure> Hub::authorize(Call& call) {
  auto known = authenticate({.client_name = call.request->client_name,
                             .client_groups = call.request->client_groups,
                             .headers = call.request->headers},
                            options_.tokens, tokens_);
  if (auto* failure = std::get_if<Failure>(&known)) return *failure;
  auto acts = impersonated(std::get<User>(known), call.request->headers, rbac());
  if (auto* failure = std::get_if<Failure>(&acts)) return *failure;
  call.user = std::get<User>(std::move(acts));
  return rbac().refusal(call.user, Attributes::of(call.asked, call.request->method));
}

// ---- Answers

void Hub::answer(const CallRef& call, int code, std::string type, std::string text) {
  const Asked& asked = call->asked;
  // Of what there is: names that clients make up are not counted apart.
  if (call->kind)
    metrics_
        .counter("apiserver_request_total", "Requests that were answered.",
                 {{"verb", std::string(verbName(asked.verb))},
                  {"group", asked.group},
                  {"version", asked.version},
                  {"resource", asked.plural},
                  {"code", format("{}", code)}})
        .add();
  objects_.whenKept(
      [call, code, type = std::move(type), text = std::move(text)](Result<> kept) mutable {
        net::Headers headers{{"cache-control", "no-cache, private"}};
        if (!kept) {
          Failure failure = internal(kept.error().text());
          headers.add("content-type", std::string(kJson));
          return call->request->respond(failure.code, std::move(headers),
                                        json::write(failure.status()));
        }
        headers.add("content-type", std::move(type));
        for (const std::string& warning : call->warnings)
          headers.add("warning", warningText(warning));
        call->request->respond(code, std::move(headers), std::move(text));
      });
}

void Hub::answer(const CallRef& call, int code, const json::Value& body) {
  if (!call->form.yaml) return answer(call, code, std::string(kJson), json::write(body));
  answer(call, code, std::string(kYaml), json::writeYaml(body));
}

void Hub::refuse(const CallRef& call, const Failure& failure) {
  answer(call, failure.code, failure.status());
}

// ---- What is asked

void Hub::serve(const CallRef& call) {
  Asked& asked = call->asked;
  if (!asked.resource) return servePath(call);
  constexpr std::string_view kMethods[] = {"GET", "POST", "PUT", "PATCH", "DELETE"};
  if (std::ranges::find(kMethods, call->request->method) == std::end(kMethods))
    return refuse(call, methodNotAllowed());
  if (asked.group == "authentication.k8s.io" || asked.group == "authorization.k8s.io")
    return review(call);
  call->kind = kinds_.find(asked.group, asked.version, asked.plural);
  if (!call->kind) {
    bool known =
        std::any_of(kinds_.groups().begin(), kinds_.groups().end(), [&](const auto& group) {
          return group.name == asked.group &&
                 std::any_of(group.versions.begin(), group.versions.end(),
                             [&](const auto& version) {
                               return version.name == asked.version &&
                                      version.kinds.begin()->second->type();
                             });
        });
    if (known) return refuse(call, noSuchResource());
    return answer(call, 404, std::string(kText), std::string(kNoPage));
  }
  const Kind& kind = *call->kind;
  if (!kind.deprecation.empty()) call->warnings.push_back(kind.deprecation);
  bool collection = asked.name.empty();
  if (!asked.ns.empty() && !kind.resource.namespaced) return refuse(call, noSuchResource());
  bool reads_all = collection && (asked.verb == Verb::List || asked.verb == Verb::Watch);
  if (kind.resource.namespaced && asked.ns.empty() && !reads_all)
    return refuse(call, collection && kind.type() ? methodNotAllowed() : noSuchResource());
  if (kind.storage == "serviceaccounts" && asked.subresource == "token")
    return asked.verb == Verb::Create ? requestToken(call) : refuse(call, methodNotAllowed());
  if (asked.subresource == "status" ? !kind.has_status
      : asked.subresource == "scale"
          ? !kind.has_scale
          : !asked.subresource.empty() &&
                !(kind.storage == "namespaces" && asked.subresource == "finalize"))
    return refuse(call, noSuchResource());
  bool lists = asked.verb == Verb::List || asked.verb == Verb::DeleteCollection;
  auto form =
      parseAccept(call->request->headers.get("accept"), asked.verb == Verb::Watch ? Answered::Watch
                                                        : lists                   ? Answered::List
                                                                : Answered::Object);
  if (!form) return refuse(call, notAcceptable(kCanWrite));
  call->form = *form;
  if (std::string_view include = asked.option("includeObject");
      form->as == Form::As::Table && !include.empty() && include != "None" &&
      include != "Metadata" && include != "Object")
    return refuse(call,
                  badRequest(format("Unable to convert to Table as requested: includeObject: "
                                    "Invalid value: \"{}\": must be 'Metadata', 'Object', 'None', "
                                    "or empty",
                                    include)));
  if (asked.subresource.empty() && !kind.verbs.empty() &&
      std::ranges::find(kind.verbs, verbName(asked.verb)) == kind.verbs.end())
    return refuse(call, methodNotAllowed());
  switch (asked.verb) {
    case Verb::Get:
      return get(call);
    case Verb::List:
      return list(call);
    case Verb::Watch:
      return watch(call);
    case Verb::Create:
      return collection ? create(call) : refuse(call, methodNotAllowed());
    case Verb::Update:
      return collection ? refuse(call, methodNotAllowed()) : update(call);
    case Verb::Patch:
      return collection ? refuse(call, methodNotAllowed()) : patch(call);
    case Verb::Delete:
      return asked.subresource.empty() ? remove(call) : refuse(call, methodNotAllowed());
    case Verb::DeleteCollection:
      return removeAll(call);
  }
}

void Hub::servePath(const CallRef& call) {
  const std::vector<std::string>& path = call->asked.segments;
  const std::string& method = call->request->method;
  std::string first = path.empty() ? "" : path[0];
  bool alone = path.size() == 1;
  if ((method == "GET" || method == "HEAD") &&
      (first == "healthz" || first == "livez" || first == "readyz"))
    return serveHealth(call);
  if (method != "GET") return refuse(call, methodNotAllowed());
  if (path.empty()) return servePaths(call);
  if (alone && first == "version")
    return answer(call, 200,
                  json::Object{{"major", "1"},
                               {"minor", "34"},
                               {"emulationMajor", "1"},
                               {"emulationMinor", "34"},
                               {"minCompatibilityMajor", "1"},
                               {"minCompatibilityMinor", "33"},
                               {"gitVersion", "v1.34.4+cadre"},
                               {"gitCommit", ""},
                               {"gitTreeState", "clean"},
                               {"buildDate", "1970-01-01T00:00:00Z"},
                               {"goVersion", "none"},
                               {"compiler", "g++"},
                               {"platform", "linux/amd64"}});
  if (alone && first == "metrics") return serveMetrics(call);
  if (alone && first == "backup" && options_.backup) return options_.backup(call->request);
  if (first == "openapi" && path.size() > 1 && path[1] == "v3") return serveOpenApi(call);
  if (first == "api" || first == "apis") return serveDiscovery(call);
  answer(call, 404, std::string(kText), std::string(kNoPage));
}

// Who hears an answer knows all that there is to know.
void Hub::serveHealth(const CallRef& call) {
  const Asked& asked = call->asked;
  const std::vector<std::string>& path = asked.segments;
  bool one = path.size() == 2 && path[1] == "ping";
  if (path.size() > 1 && !one) return answer(call, 404, std::string(kText), std::string(kNoPage));
  bool verbose = !one && asked.flag("verbose");
  answer(call, 200, std::string(kText),
         verbose ? format("[+]ping ok\n{} check passed\n", path[0]) : "ok");
}

void Hub::servePaths(const CallRef& call) {
  std::vector<std::string> paths{"/api",     "/apis",       "/healthz", "/livez",
                                 "/metrics", "/openapi/v3", "/readyz",  "/version"};
  for (const Kinds::Group& group : kinds_.groups()) {
    std::string base = group.name.empty() ? "/api" : "/apis/" + group.name;
    if (!group.name.empty()) paths.push_back(base);
    for (const Kinds::Version& version : group.versions) paths.push_back(base + "/" + version.name);
  }
  std::ranges::sort(paths);
  answer(call, 200, json::Object{{"paths", json::Array(paths.begin(), paths.end())}});
}

void Hub::serveDiscovery(const CallRef& call) {
  const std::vector<std::string>& path = call->asked.segments;
  bool core = path[0] == "api", alone = path.size() == 1;
  auto form = parseAccept(call->request->headers.get("accept"),
                          alone ? Answered::Groups : Answered::Document);
  if (!form) return refuse(call, notAcceptable(kCanWrite));
  call->form = *form;
  if (form->as == Form::As::Groups)
    return answerTagged(call, std::string(kAggregated), json::write(aggregated(kinds_, core)));
  if (alone) return answer(call, 200, core ? coreVersions() : groupList(kinds_));
  for (const Kinds::Group& group : kinds_.groups()) {
    if (core ? !group.name.empty() : group.name != path[1]) continue;
    if (!core && path.size() == 2) return answer(call, 200, groupOf(group));
    for (const Kinds::Version& version : group.versions)
      if (version.name == path.back()) return answer(call, 200, resourceList(group, version));
    return refuse(call, noSuchResource());
  }
  answer(call, 404, std::string(kText), std::string(kNoPage));
}

// What clients keep, and ask again whether it still holds.
void Hub::answerTagged(const CallRef& call, std::string type, std::string text) {
  std::string etag = format("\"{:016x}\"", stableHash(text));
  if (call->request->headers.get("if-none-match") == etag)
    return call->request->respond(304, {{"etag", etag}, {"vary", "Accept"}}, "");
  call->request->respond(
      200, {{"content-type", std::move(type)}, {"etag", std::move(etag)}, {"vary", "Accept"}},
      std::move(text));
}

// Under the names that dashboards of API servers know.
void Hub::serveMetrics(const CallRef& call) {
  metrics_.gauge("apiserver_longrunning_requests", "Watches that are open.", {{"verb", "WATCH"}})
      .set(static_cast<double>(watches_.count()));
  for (const Kinds::Group& group : kinds_.groups())
    for (const Kinds::Version& version : group.versions)
      for (const auto& [plural, kind] : version.kinds)
        if (kind->stored_version == version.name)
          metrics_
              .gauge("apiserver_storage_objects", "Objects that are stored.",
                     {{"resource", group.name.empty() ? plural : plural + "." + group.name}})
              .set(static_cast<double>(objects_.all(kind->storage).size()));
  answer(call, 200, "text/plain; version=0.0.4; charset=utf-8", metrics_.text());
}

// Documents are large and asked for rarely: made when they are wanted.
void Hub::serveOpenApi(const CallRef& call) {
  const std::vector<std::string>& path = call->asked.segments;
  std::string wanted = join({path.begin() + 2, path.end()}, "/");
  json::Object index;
  for (const Kinds::Group& group : kinds_.groups())
    for (const Kinds::Version& version : group.versions) {
      std::string name = openApiName(group, version);
      if (wanted == name)
        return answerTagged(call, std::string(kJson), json::write(openApi(group, version)));
      index.set(name, json::Object{{"serverRelativeURL",
                                    format("/openapi/v3/{}?hash={}", name, kinds_.edition())}});
    }
  // It calls itself text everywhere.
  if (wanted.empty())
    return answer(call, 200, std::string(kText),
                  json::write(json::Object{{"paths", std::move(index)}}));
  answer(call, 404, std::string(kText), std::string(kNoPage));
}

// Kinds that are questions: what comes back is the answer, and nothing is kept.
void Hub::review(const CallRef& call) {
  Asked& asked = call->asked;
  if (asked.version != "v1") return refuse(call, noSuchResource());
  if (asked.verb != Verb::Create) return refuse(call, methodNotAllowed());
  Writing writing;
  // Who asks who they are says nothing more.
  auto body = asked.plural == "selfsubjectreviews" ? Outcome<json::Value>(json::Value())
                                                   : parseBody(*call, writing);
  if (!body) return refuse(call, body.failure());
  std::optional<Answer> answered;
  bool local = asked.plural == "localsubjectaccessreviews";
  if (asked.ns.empty() == local) return refuse(call, noSuchResource());
  if (asked.group == "authentication.k8s.io") {
    if (asked.plural == "tokenreviews") answered = reviewToken(*body, options_.tokens, tokens_);
    if (asked.plural == "selfsubjectreviews")
      answered = reviewSelf(call->user, scheduler_.clock().now());
  } else {
    if (asked.plural == "subjectaccessreviews") answered = reviewAccess(*body, rbac());
    if (local) answered = reviewLocalAccess(*body, asked.ns, rbac());
    if (asked.plural == "selfsubjectaccessreviews")
      answered = reviewSelfAccess(*body, call->user, rbac());
    if (asked.plural == "selfsubjectrulesreviews")
      answered = reviewSelfRules(*body, call->user, rbac());
  }
  if (!answered) return refuse(call, noSuchResource());
  if (auto* failure = std::get_if<Failure>(&*answered)) return refuse(call, *failure);
  answer(call, 201, std::get<json::Value>(*answered));
}

void Hub::requestToken(const CallRef& call) {
  auto account = registry_.get(*call->kind, call->key());
  if (!account) return refuse(call, notFound(call->kind->resource, call->asked.name));
  Writing writing;
  auto body = parseBody(*call, writing);
  if (!body) return refuse(call, body.failure());
  auto made = tokens_.request(*account, *body);
  if (auto* failure = std::get_if<Failure>(&made)) return refuse(call, *failure);
  answer(call, 201, std::get<json::Value>(made));
}

// ---- Reading

// Whoever knows of a version that is not there yet may know of it from another server.
bool Hub::waitsFor(const CallRef& call, std::int64_t wanted, void (Hub::*then)(const CallRef&)) {
  if (wanted <= objects_.revision()) return false;
  call->waiting = scheduler_.after(kTooFresh, [this, weak = std::weak_ptr(call), wanted, then] {
    auto call = resumed(weak);
    if (!call) return;
    if (wanted <= objects_.revision()) return (this->*then)(call);
    Failure failure{
        504, "Timeout",
        format("Too large resource version: {}, current: {}", wanted, objects_.revision())};
    failure.details = {
        {"retryAfterSeconds", 1},
        {"causes", json::Array{json::Object{{"reason", "ResourceVersionTooLarge"},
                                            {"message", "Too large resource version"}}}}};
    call->request->respond(504, {{"content-type", std::string(kJson)}, {"retry-after", "1"}},
                           json::write(failure.status()));
  });
  wait(call);
  return true;
}

void Hub::get(const CallRef& call) {
  std::string_view version = call->option("resourceVersion");
  std::optional<std::int64_t> wanted = version.empty() ? 0 : parseInt(version);
  if (!wanted || *wanted < 0) return refuse(call, noVersion(version));
  if (waitsFor(call, *wanted, &Hub::get)) return;
  State state = objects_.find(call->kind->storage, call->key());
  if (!state) return refuse(call, notFound(call->kind->resource, call->asked.name));
  show(call, 200, *state);
}

void Hub::show(const CallRef& call, int code, const Stored& state) {
  const Kind& kind = *call->kind;
  if (call->asked.subresource == "scale")
    return answer(call, code, registry_.scaleOf(kind, valueOf(kind, state)));
  if (call->form.yaml) return answer(call, code, valueOf(kind, state));
  answer(call, code, std::string(kJson),
         renderAs(kind, state, call->form, call->include(), true, scheduler_.clock().now()));
}

std::optional<Failure> Hub::parseSelection(Call& call, Selection& selection) const {
  for (std::string_view name : {"limit", "timeoutSeconds"})
    if (auto text = call.option(name); !text.empty() && !parseInt(text)) return noNumber(text);
  std::vector<kube::FieldError> errors =
      call.asked.verb == Verb::Watch ? watchErrors(call.asked) : listErrors(call.asked);
  if (!errors.empty()) return wrongOptions("ListOptions", errors);
  selection.ns = call.asked.ns;
  auto labels = kube::LabelSelector::parse(call.option("labelSelector"));
  if (!labels) return badRequest("unable to parse requirement: " + labels.error().text());
  selection.labels = *std::move(labels);
  auto parsed = kube::FieldSelector::parse(call.option("fieldSelector"));
  if (!parsed) return badRequest(parsed.error().text());
  std::vector<kube::FieldSelector::Term> terms = parsed->terms();
  std::vector<Kind::Selectable> own = call.kind->selectable();
  for (auto& term : terms) {
    if (term.path == "metadata.name" || term.path == "metadata.namespace") continue;
    auto field = std::ranges::find(own, term.path, &Kind::Selectable::path);
    if (field == own.end())
      return badRequest(own.empty() && call.kind->type()
                            ? format("\"{}\" is not a known field selector: only "
                                     "\"metadata.name\", \"metadata.namespace\"",
                                     term.path)
                            : "field label not supported: " + term.path);
    if (!field->place.empty()) term.path = field->place;
    if (!field->empty.empty() && term.value == field->empty) term.value.clear();
  }
  selection.fields = kube::FieldSelector(std::move(terms));
  return std::nullopt;
}

void Hub::list(const CallRef& call) {
  std::string_view version = call->option("resourceVersion");
  std::optional<std::int64_t> wanted = version.empty() ? 0 : parseInt(version);
  if (wanted && waitsFor(call, *wanted, &Hub::list)) return;
  auto page = pageOf(*call);
  if (!page) return refuse(call, page.failure());
  answer(call, *page);
}

void Hub::answer(const CallRef& call, const Page& page) {
  std::string text = renderList(*call->kind, page.items, call->form, call->include(), page.meta,
                                scheduler_.clock().now());
  if (!call->form.yaml) return answer(call, 200, std::string(kJson), std::move(text));
  answer(call, 200, *json::parse(text));
}

Outcome<Hub::Page> Hub::pageOf(Call& call) const {
  Selection selection;
  if (auto failure = parseSelection(call, selection)) return *std::move(failure);
  std::string_view version = call.option("resourceVersion"),
                   match = call.option("resourceVersionMatch"), token = call.option("continue");
  std::optional<std::int64_t> wanted = version.empty() ? 0 : parseInt(version);
  if (!wanted || *wanted < 0)
    return badRequest(format("invalid resource version: \"{}\"", version));
  if (!token.empty() && *wanted > 0)
    return badRequest("specifying resource version is not allowed when using continue");
  std::int64_t revision = objects_.revision();
  kube::ObjectKey after;
  Objects::Collection then;
  const Objects::Collection* collection = &objects_.all(call.kind->storage);
  if (!token.empty()) {
    auto parsed = Continue::parse(token);
    if (!parsed) return badRequest("continue key is not valid: it was not made by this server");
    revision = parsed->revision;
    after = parsed->after;
    if (!selection.ns.empty()) after.ns = selection.ns;
  } else if (match == "Exact") {
    revision = *wanted;
  }
  if (revision != objects_.revision()) {
    auto past = objects_.at(call.kind->storage, revision);
    if (!past)
      return token.empty()
                 ? failureOf(past.error())
                 : expired(
                       "The provided continue parameter is too old to display a consistent list "
                       "result. You can start a new list without the continue parameter.");
    then = *std::move(past);
    collection = &then;
  }
  auto limit = parseInt(call.option("limit")).value_or(0);
  if (version == "0" && match.empty()) limit = 0;  // whatever is at hand, at once

  Page page{.meta = {.revision = revision}};
  auto next =
      token.empty() ? collection->lower_bound({selection.ns, ""}) : collection->upper_bound(after);
  bool selects = !selection.labels.matchesEverything() || !selection.fields.matchesEverything();
  for (; next != collection->end(); ++next) {
    if (!selection.ns.empty() && next->first.ns != selection.ns) break;
    if (!selection.matches(*next->second)) continue;
    if (limit > 0 && std::cmp_equal(page.items.size(), limit)) {
      page.meta.next = Continue{revision, page.items.back()->key}.text();
      if (!selects)
        for (;
             next != collection->end() && (selection.ns.empty() || next->first.ns == selection.ns);
             ++next)
          ++page.meta.remaining;
      break;
    }
    page.items.push_back(next->second);
  }
  return page;
}

void Hub::watch(const CallRef& call) {
  Watches::Wanted wanted{.kind = call->kind, .form = call->form, .include = call->include()};
  if (auto failure = parseSelection(*call, wanted.selection)) return refuse(call, *failure);
  std::string_view version = call->option("resourceVersion");
  bool send_initial = call->asked.flag("sendInitialEvents");
  std::optional<std::int64_t> from = version.empty() ? 0 : parseInt(version);
  if (!from || *from < 0) return refuse(call, noVersion(version));
  if (watches_.count() >= options_.watches.count)
    return refuse(call, {429, "TooManyRequests", "too many watches are open: close some"});
  wanted.bookmarks = call->asked.flag("allowWatchBookmarks");
  auto seconds = parseInt(call->option("timeoutSeconds")).value_or(0);
  wanted.timeout = seconds > 0
                       ? Duration(std::chrono::seconds(std::min<std::int64_t>(seconds, 86'400)))
                       : random_.jitter(kWatchTimeout, 1);
  if (*from > 0 && !send_initial) {
    auto changes = objects_.since(call->kind->storage, *from);
    objects_.whenKept([this, call, wanted = std::move(wanted), changes = std::move(changes),
                       revision = objects_.revision()](Result<> kept) mutable {
      if (!kept) return Watches::refuse(*call->request, internal(kept.error().text()));
      if (!changes) return Watches::refuse(*call->request, failureOf(changes.error()));
      watches_.resume(call->request, std::move(wanted), *changes, revision);
    });
    return;
  }
  std::vector<State> initial;
  bool only_changes = call->asked.has("sendInitialEvents") && !send_initial;
  for (const auto& [key, state] : objects_.all(call->kind->storage))
    if (!only_changes && wanted.selection.matches(*state)) initial.push_back(state);
  bool bookmark = wanted.bookmarks && !only_changes;
  objects_.whenKept([this, call, wanted = std::move(wanted), initial = std::move(initial), bookmark,
                     revision = objects_.revision()](Result<> kept) mutable {
    if (!kept) return Watches::refuse(*call->request, internal(kept.error().text()));
    watches_.open(call->request, std::move(wanted), initial, revision, bookmark);
  });
}

// ---- Writing

Outcome<json::Value> Hub::parseBody(const Call& call, Writing& writing) const {
  std::string kind = call.kind ? call.kind->resource.kind : call.asked.plural;
  std::string type = lower(trim(cut(call.request->headers.get("content-type"), ";").first));
  const std::string& body = call.request->body;
  bool yaml = type == kYaml || type == "application/apply-patch+yaml";
  bool json = type.empty() || type == kJson || type.ends_with("+json");
  // Clients with built-in kinds write protobuf, whatever a server says that it speaks.
  if (type == kube::kProtobufType) {
    auto value = kube::parseProtobuf(body);
    if (!value)
      return unsupportedMediaType("application/json, application/yaml, and " +
                                  value.error().text());
    return *std::move(value);
  }
  if (!yaml && !json) return unsupportedMediaType("application/json, application/yaml");
  if (yaml) {
    auto documents = json::parseYaml(body, "the body");
    if (!documents || documents->size() != 1)
      return badRequest(
          format("the object provided is unrecognized (must be of type {}): {}", kind,
                 documents ? "it is not one YAML document" : documents.error().text()));
    return (*documents)[0].value;
  }
  std::vector<std::string> twice;
  auto value = json::parse(body, {.duplicates = &twice});
  if (!value)
    return badRequest(
        format("the object provided is unrecognized (must be of type {}): couldn't "
               "get version/kind; json parse error: {}",
               kind, value.error().text()));
  for (const std::string& field : twice)
    writing.duplicates.push_back(format("duplicate field \"{}\"", field));
  return *std::move(value);
}

std::optional<Failure> Hub::parseWriting(Call& call, std::string_view options,
                                         Writing& writing) const {
  std::vector<kube::FieldError> errors;
  writing.manager = call.option("fieldManager");
  checkManager(writing.manager, errors);
  if (writing.manager.empty()) {
    std::string agent(call.request->headers.get("user-agent"));
    writing.manager = shorten(agent.substr(0, agent.find('/')), kMaxManager);
    if (writing.manager.empty()) writing.manager = "unknown";
  }
  writing.subresource = call.asked.subresource;
  writing.force = call.asked.flag("force");
  writing.dry_run = call.asked.has("dryRun");
  if (writing.dry_run) checkDryRun(call.option("dryRun"), errors);
  std::string_view validation = call.option("fieldValidation");
  if (validation == "Strict") {
    writing.validation = FieldValidation::Strict;
  } else if (validation == "Ignore") {
    writing.validation = FieldValidation::Ignore;
  } else if (!validation.empty() && validation != "Warn") {
    errors.push_back(wrong("fieldValidation", kube::Fault::NotSupported,
                           format("Unsupported value: \"{}\": supported values: \"\", \"Ignore\", "
                                  "\"Strict\", \"Warn\"",
                                  validation)));
  }
  if (errors.empty()) return std::nullopt;
  return wrongOptions(options, errors);
}

void Hub::create(const CallRef& call) {
  Writing writing;
  if (auto failure = parseWriting(*call, "CreateOptions", writing)) return refuse(call, *failure);
  auto object = parseBody(*call, writing);
  if (!object) return refuse(call, object.failure());
  if (auto failure = checkKind(*call, *object)) return refuse(call, *failure);
  write(call, registry_.create(call->kind, call->asked.ns, "", *std::move(object), writing));
}

// A built-in kind may be left out, since the path says it.
std::optional<Failure> Hub::checkKind(const Call& call, json::Value& object) const {
  const kube::Resource& resource = call.kind->resource;
  if (!object.isObject())
    return badRequest(
        format("the object provided is unrecognized (must be of type {}): it is not "
               "an object",
               resource.kind));
  std::string version = object["apiVersion"].string(), kind = object["kind"].string();
  if (call.kind->type() && call.asked.subresource != "scale") {
    if (kind.empty()) kind = resource.kind;
    if (version.empty()) version = resource.apiVersion();
  } else if (call.asked.subresource == "scale") {
    return std::nullopt;
  } else if (kind.empty()) {
    return badRequest(
        format("Object 'Kind' is missing in '{}'", shorten(json::write(object), 200)));
  }
  if (!call.kind->type() && version != resource.apiVersion())
    return badRequest(
        format("the API version in the data ({}) does not match the expected API version ({})",
               version, resource.apiVersion()));
  if (!call.kind->type() && kind != resource.kind) {
    kube::Resource other = resource;
    other.kind = kind;
    return invalid(
        other, kube::name(object),
        {wrong("kind", kube::Fault::Invalid,
               format("Invalid value: {}: must be {}", json::write(kind), resource.kind))});
  }
  if (kind != resource.kind || version != resource.apiVersion()) {
    std::size_t slash = version.find('/');
    return badRequest(
        format("{} in version \"{}\" cannot be handled as a {}: no kind \"{}\" is "
               "registered for this path",
               kind, slash == std::string::npos ? version : version.substr(slash + 1),
               resource.kind, kind));
  }
  object.make("apiVersion") = version;
  object.make("kind") = kind;
  return std::nullopt;
}

void Hub::update(const CallRef& call) {
  Writing writing;
  if (auto failure = parseWriting(*call, "UpdateOptions", writing)) return refuse(call, *failure);
  auto object = parseBody(*call, writing);
  if (!object) return refuse(call, object.failure());
  if (auto failure = checkKind(*call, *object)) return refuse(call, *failure);
  write(call, registry_.update(call->kind, call->key(), *std::move(object), writing));
}

void Hub::patch(const CallRef& call) {
  Writing writing;
  if (auto failure = parseWriting(*call, "PatchOptions", writing)) return refuse(call, *failure);
  std::string type = lower(trim(cut(call->request->headers.get("content-type"), ";").first));
  std::optional<PatchType> patch;
  if (type == "application/json-patch+json") patch = PatchType::Json;
  if (type == "application/merge-patch+json") patch = PatchType::Merge;
  if (type == "application/strategic-merge-patch+json" && call->kind->type())
    patch = PatchType::Strategic;
  bool apply = type == "application/apply-patch+yaml";
  if (!patch && !apply)
    return refuse(call,
                  unsupportedMediaType("application/json-patch+json, application/merge-patch+json, "
                                       "application/apply-patch+yaml"));
  if (!apply && !call->option("force").empty())
    return refuse(
        call, wrongOptions("PatchOptions", {wrong("force", kube::Fault::Forbidden,
                                                  "Forbidden: may not be specified for non-apply "
                                                  "patch")}));
  auto body = parseBody(*call, writing);
  if (!body) return refuse(call, body.failure());
  if (!apply) return write(call, registry_.patch(call->kind, call->key(), *patch, *body, writing));
  if (call->option("fieldManager").empty())
    return refuse(
        call, wrongOptions("PatchOptions", {wrong("fieldManager", kube::Fault::Required,
                                                  "Required value: is required for apply patch")}));
  write(call, registry_.apply(call->kind, call->key(), *std::move(body), writing));
}

void Hub::write(const CallRef& call, Outcome<Draft> draft) {
  if (!draft) return refuse(call, draft.failure());
  call->warnings.insert(call->warnings.end(), draft->warnings.begin(), draft->warnings.end());
  if (!draft->before && call->asked.verb != Verb::Create) {
    Attributes wanted = Attributes::of(call->asked, call->request->method);
    wanted.verb = verbName(Verb::Create);
    if (auto failure = rbac().refusal(call->user, wanted)) return refuse(call, *failure);
  }
  if (draft->kind->resource.group == "rbac.authorization.k8s.io") {
    if (auto failure = escalation(rbac(), call->user,
                                  {.resource = draft->kind->resource,
                                   .object = draft->object,
                                   .before = draft->old,
                                   .asked_name = call->asked.name}))
      return refuse(call, *failure);
  }
  auto more = definitions_.warnings(*draft);
  call->warnings.insert(call->warnings.end(), more.begin(), more.end());
  limits_.complete(*draft);
  json::Object options{{"kind", draft->before ? "UpdateOptions" : "CreateOptions"},
                       {"apiVersion", "meta.k8s.io/v1"}};
  if (std::string manager(call->option("fieldManager")); !manager.empty())
    options.set("fieldManager", manager);
  if (draft->writing.dry_run) options.set("dryRun", json::Array{"All"});
  Asking asking{.operation = draft->before ? "UPDATE" : "CREATE",
                .kind = draft->kind,
                .key = draft->key,
                .subresource = draft->writing.subresource,
                .object = std::move(draft->object),
                .old = std::move(draft->old),
                .options = std::move(options),
                .dry_run = draft->writing.dry_run};
  admit(call, std::move(asking),
        [this, draft = *std::move(draft)](const CallRef& call, Asking asked) mutable {
          draft.object = std::move(asked.object);
          draft.old = std::move(asked.old);
          if (asked.changed) registry_.amended(draft);
          if (auto failure = limits_.check(draft)) return refuse(call, *failure);
          finish(call, registry_.finish(std::move(draft)));
        });
}

// Goes on at once when nobody wants to be asked.
void Hub::admit(const CallRef& call, Asking asking,
                Function<void(const CallRef& call, Asking asked)> then) {
  if (!admission_.concerns(asking)) return then(call, std::move(asking));
  asking.user = call->user.info();
  wait(call);
  call->waiting = admission_.ask(std::move(asking), [this, weak = std::weak_ptr(call),
                                                     then = std::move(then)](auto answer) {
    auto call = resumed(weak);
    if (!call) return;
    if (!answer) return refuse(call, answer.failure());
    call->warnings.insert(call->warnings.end(), answer->warnings.begin(), answer->warnings.end());
    then(call, std::move(answer->asked));
  });
}

// Somebody has to keep a call that waits; its client may leave meanwhile.
void Hub::wait(const CallRef& call) {
  waiting_.insert(call);
  call->request->onGone([this, weak = std::weak_ptr(call)] { resumed(weak); });
}

Hub::CallRef Hub::resumed(const std::weak_ptr<Call>& weak) {
  auto call = weak.lock();
  return call && waiting_.erase(call) > 0 ? call : nullptr;
}

void Hub::finish(const CallRef& call, Outcome<Written> written) {
  if (!written) return refuse(call, written.failure());
  int code = written->created ? 201 : 200;
  if (written->state) return show(call, code, *written->state);
  json::Value& object = written->object;
  if (call->asked.subresource == "scale")
    return answer(call, code, registry_.scaleOf(*call->kind, object));
  answer(call, code,
         shownAs(*call->kind, std::move(object), call->form, call->include(), true,
                 scheduler_.clock().now()));
}

Outcome<Deleting> Hub::parseDeleting(Call& call) const {
  json::Value options = json::Object{};
  if (!call.request->body.empty()) {
    Writing writing;
    auto body = parseBody(call, writing);
    if (!body && body.failure().code == 400) return Failure{500, "", body.failure().message};
    if (!body) return body.failure();
    if (!body->isObject()) return badRequest("DeleteOptions must be an object");
    options = *std::move(body);
    if (const std::string& kind = options["kind"].string();
        !kind.empty() && kind != "DeleteOptions")
      return Failure{500, "",
                     format("no kind \"{}\" is registered for version \"{}\" here: a DELETE takes "
                            "DeleteOptions",
                            kind, options["apiVersion"].string())};
  }
  Deleting deleting{.uid = options["preconditions"]["uid"].string(),
                    .resource_version = options["preconditions"]["resourceVersion"].string(),
                    .propagation = options["propagationPolicy"].string()};
  if (deleting.propagation.empty()) deleting.propagation = call.option("propagationPolicy");
  if (options["orphanDependents"].isBool() && deleting.propagation.empty())
    deleting.propagation = options["orphanDependents"].boolean() ? "Orphan" : "Background";
  if (options["gracePeriodSeconds"].isInteger())
    deleting.grace = options["gracePeriodSeconds"].integer();
  if (std::string_view grace = call.option("gracePeriodSeconds"); !grace.empty()) {
    deleting.grace = parseInt(grace);
    if (!deleting.grace) return noNumber(grace);
  }
  std::vector<kube::FieldError> errors;
  const json::Array& dry_run = options["dryRun"].array();
  deleting.dry_run = call.asked.has("dryRun") || !dry_run.empty();
  if (call.asked.has("dryRun")) checkDryRun(call.option("dryRun"), errors);
  for (const json::Value& value : dry_run) checkDryRun(value.string(), errors);
  const std::string& policy = deleting.propagation;
  if (!policy.empty() && policy != "Background" && policy != "Foreground" && policy != "Orphan")
    errors.push_back(wrong("propagationPolicy", kube::Fault::NotSupported,
                           format("Unsupported value: \"{}\": supported values: \"Foreground\", "
                                  "\"Background\", \"Orphan\", \"nil\"",
                                  policy)));
  if (options["orphanDependents"].isBool() && !options["propagationPolicy"].string().empty())
    errors.push_back(wrong("propagationPolicy", kube::Fault::Invalid,
                           format("Invalid value: \"{}\": orphanDependents and "
                                  "deletionPropagation cannot be both set",
                                  policy)));
  if (!errors.empty()) return wrongOptions("DeleteOptions", errors);
  return deleting;
}

void Hub::remove(const CallRef& call) {
  auto deleting = parseDeleting(*call);
  if (!deleting) return refuse(call, deleting.failure());
  State there = objects_.find(call->kind->storage, call->key());
  if (!there) return refuse(call, notFound(call->kind->resource, call->asked.name));
  if (call->kind->storage == "namespaces" &&
      std::ranges::find(kNeeded, call->asked.name) != std::end(kNeeded))
    return refuse(call, forbidden(call->kind->resource, call->asked.name,
                                  "this namespace may not be deleted"));
  admit(call, askingToRemove(call, *there, *deleting),
        [this, deleting = *deleting, there](const CallRef& call, const Asking&) {
          removeAdmitted(call, deleting, *there);
        });
}

Asking Hub::askingToRemove(const CallRef& call, const Stored& state,
                           const Deleting& deleting) const {
  json::Object options{{"kind", "DeleteOptions"}, {"apiVersion", "meta.k8s.io/v1"}};
  if (!deleting.propagation.empty()) options.set("propagationPolicy", deleting.propagation);
  if (deleting.grace) options.set("gracePeriodSeconds", *deleting.grace);
  if (deleting.dry_run) options.set("dryRun", json::Array{"All"});
  return {.operation = "DELETE",
          .kind = call->kind,
          .key = state.key,
          .old = valueOf(*call->kind, state),
          .options = std::move(options),
          .dry_run = deleting.dry_run};
}

void Hub::removeAdmitted(const CallRef& call, const Deleting& deleting, const Stored& there) {
  auto written = registry_.remove(call->kind, call->key(), deleting);
  if (!written) return refuse(call, written.failure());
  if (written->state) return show(call, 200, *written->state);
  if (written->object.isNull() && call->kind->shows_deleted) return show(call, 200, there);
  if (!written->object.isNull())
    return answer(call, 200,
                  shownAs(*call->kind, std::move(written->object), call->form, call->include(),
                          true, scheduler_.clock().now()));
  const kube::Resource& resource = call->kind->resource;
  json::Object details{{"name", call->asked.name}, {"kind", resource.plural}, {"uid", there.uid}};
  if (!resource.group.empty()) details.set("group", resource.group);
  answer(call, 200,
         json::Object{{"kind", "Status"},
                      {"apiVersion", "v1"},
                      {"metadata", json::Object{}},
                      {"status", "Success"},
                      {"details", std::move(details)}});
}

void Hub::removeAll(const CallRef& call) {
  auto deleting = parseDeleting(*call);
  if (!deleting) return refuse(call, deleting.failure());
  auto page = pageOf(*call);
  if (!page) return refuse(call, page.failure());
  removeEach(call, *deleting, *std::move(page), 0);
}

void Hub::removeEach(const CallRef& call, const Deleting& deleting, const Page& page,
                     std::size_t first) {
  for (std::size_t at = first; at < page.items.size(); ++at) {
    const State& state = page.items[at];
    Asking asking = askingToRemove(call, *state, deleting);
    asking.key.name.clear();  // nobody named it
    if (admission_.concerns(asking))
      return admit(call, std::move(asking),
                   [this, deleting, page, at](const CallRef& call, const Asking&) {
                     if (removeOne(call, deleting, *page.items[at]))
                       removeEach(call, deleting, page, at + 1);
                   });
    if (!removeOne(call, deleting, *state)) return;
  }
  answer(call, page);
}

// Whether it is gone or going; if not, the call is answered.
bool Hub::removeOne(const CallRef& call, const Deleting& deleting, const Stored& state) {
  auto gone = registry_.remove(call->kind, state.key, deleting);
  if (gone || gone.failure().code == 404) return true;
  refuse(call, gone.failure());
  return false;
}

// ---- What happens

void Hub::told(const Change& change) {
  if (change.resource.starts_with("rbac.authorization.k8s.io/")) rbac_outdated_ = true;
  watches_.told(change);
  admission_.told(change);
  definitions_.told(change);
  collector_.told(change);
  limits_.told(change);
}

}  // namespace cadre::hub
