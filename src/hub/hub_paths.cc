#include <algorithm>
#include <utility>

#include "base/format.h"
#include "base/strings.h"
#include "hub/builtin_types.h"
#include "hub/call.h"
#include "hub/discovery.h"
#include "hub/openapi.h"
#include "hub/reviews.h"
#include "json/write.h"

namespace cadre::hub {
namespace {

constexpr std::string_view kAggregated =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

// What asks for something that is kept nowhere, and is of the wrong type.
std::optional<Failure> unreadable(const kube::GroupVersionKind& kind, const json::Value& body) {
  if (body.isNull()) return std::nullopt;
  std::string cannot = format("{} in version \"{}\" cannot be handled as a {}: ", kind.kind,
                              kind.version, kind.kind);
  if (!body.isObject()) return badRequest(cannot + "it is no object");
  if (const std::string& said = body["kind"].string(); !said.empty() && said != kind.kind)
    return badRequest(cannot + format("it is a {}", said));
  if (auto why = misreading(kube::Type::of(kind), body)) return badRequest(cannot + *why);
  return std::nullopt;
}

}  // namespace

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
  if (first == "openapi" && path.size() == 2 && path[1] == "v2" &&
      call->request->headers.get("accept").find("protobuf") != std::string_view::npos)
    return answer(call, 200, "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
                  openApi2());
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
  DiscoveryOptions discovery{.has_node = static_cast<bool>(options_.node)};
  if (form->as == Form::As::Groups)
    return answerTagged(call, std::string(kAggregated),
                        json::write(aggregated(kinds_, core, discovery)));
  if (alone) return answer(call, 200, core ? coreVersions() : groupList(kinds_));
  for (const Kinds::Group& group : kinds_.groups()) {
    if (core ? !group.name.empty() : group.name != path[1]) continue;
    if (!core && path.size() == 2) return answer(call, 200, groupOf(group));
    for (const Kinds::Version& version : group.versions)
      if (version.name == path.back())
        return answer(call, 200, resourceList(group, version, discovery));
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
        if (kind->isKept() && kind->stored_version == version.name)
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

// None: there is no such kind.
std::optional<Answer> Hub::reviewed(const Call& call, const json::Value& review) {
  const std::string& plural = call.asked.plural;
  if (call.asked.group == "authentication.k8s.io") {
    if (plural == "tokenreviews") return reviewToken(review, options_.tokens, tokens_);
    if (plural == "selfsubjectreviews") return reviewSelf(call.user, scheduler_.clock().now());
    return std::nullopt;
  }
  if (plural == "subjectaccessreviews") return reviewAccess(review, rbac());
  if (plural == "localsubjectaccessreviews")
    return reviewLocalAccess(review, call.asked.ns, rbac());
  if (plural == "selfsubjectaccessreviews") return reviewSelfAccess(review, call.user, rbac());
  if (plural == "selfsubjectrulesreviews") return reviewSelfRules(review, call.user, rbac());
  return std::nullopt;
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
  KindRef kind = kinds_.find(asked.group, asked.version, asked.plural);
  if (!kind || asked.ns.empty() == kind->resource.namespaced) return refuse(call, noSuchResource());
  if (auto failure = unreadable(kind->resource.gvk(), *body)) return refuse(call, *failure);
  auto finish = [this](const CallRef& call, const Asking& asking) {
    auto answered = reviewed(*call, asking.object);
    if (!answered) return refuse(call, noSuchResource());
    if (auto* failure = std::get_if<Failure>(&*answered)) return refuse(call, *failure);
    answer(call, 201, std::get<json::Value>(*answered));
  };
  Asking asking{.operation = "CREATE",
                .kind = kind,
                .key = {asked.ns, ""},
                .object = *std::move(body),
                .options = writeOptions(*call, "CreateOptions"),
                .dry_run = asked.has("dryRun")};
  if (asking.object.isNull()) asking.object = json::Object{};
  if (!admission_.concerns(asking)) return finish(call, asking);
  asking.object.make("apiVersion") = kind->resource.apiVersion();
  asking.object.make("kind") = kind->resource.kind;
  if (!asked.ns.empty() && kube::ns(asking.object).empty())
    asking.object.make("metadata").make("namespace") = asked.ns;
  asking.settle = [this, call](Asking& asking) -> std::optional<Failure> {
    if (auto failure = unreadable(asking.kind->resource.gvk(), asking.object)) return failure;
    auto answered = reviewed(*call, asking.object);
    if (auto* failure = answered ? std::get_if<Failure>(&*answered) : nullptr) return *failure;
    return std::nullopt;
  };
  admit(call, std::move(asking), finish);
}

void Hub::requestToken(const CallRef& call) {
  static const kube::GroupVersionKind kTokenRequest{"authentication.k8s.io", "v1", "TokenRequest"};
  auto account = registry_.get(*call->kind, call->key());
  if (!account) return refuse(call, notFound(call->kind->resource, call->asked.name));
  Writing writing;
  if (auto failure = parseWriting(*call, "CreateOptions", writing)) return refuse(call, *failure);
  auto body = parseBody(*call, writing);
  if (!body) return refuse(call, body.failure());
  if (auto failure = unreadable(kTokenRequest, *body)) return refuse(call, *failure);
  Asking asking{.operation = "CREATE",
                .kind = call->kind,
                .key = call->key(),
                .subresource = "token",
                .sent = kTokenRequest,
                .object = tokens_.defaulted(*account, *std::move(body)),
                .options = writeOptions(*call, "CreateOptions"),
                .dry_run = writing.dry_run};
  asking.settle = [this, call](Asking& asking) -> std::optional<Failure> {
    if (auto failure = unreadable(*asking.sent, asking.object)) return failure;
    auto account = registry_.get(*call->kind, call->key());
    if (!account) return notFound(call->kind->resource, call->asked.name);
    auto completed = tokens_.completed(*account, std::move(asking.object));
    if (auto* failure = std::get_if<Failure>(&completed)) return *failure;
    asking.object = std::get<json::Value>(std::move(completed));
    return std::nullopt;
  };
  admit(call, std::move(asking), [this](const CallRef& call, const Asking& asked) {
    auto account = registry_.get(*call->kind, call->key());
    if (!account) return refuse(call, notFound(call->kind->resource, call->asked.name));
    auto made = tokens_.request(*account, asked.object);
    if (auto* failure = std::get_if<Failure>(&made)) return refuse(call, *failure);
    answer(call, 201, std::get<json::Value>(made));
  });
}

void Hub::askNode(const CallRef& call) {
  const Asked& asked = call->asked;
  bool connects = asked.subresource != "log";
  if (asked.verb != Verb::Get && !(connects && asked.verb == Verb::Create))
    return refuse(call, methodNotAllowed());
  auto pod = registry_.get(*call->kind, call->key());
  if (!pod) return refuse(call, notFound(call->kind->resource, asked.name));
  if (!connects) return options_.node(asked, *pod, call->request);
  // What it is asked with, as webhooks see it.
  std::string kind = asked.subresource == "exec"     ? "PodExecOptions"
                     : asked.subresource == "attach" ? "PodAttachOptions"
                                                     : "PodPortForwardOptions";
  json::Object options{{"apiVersion", "v1"}, {"kind", kind}};
  for (std::string_view flag : {"stdin", "stdout", "stderr", "tty"})
    if (asked.flag(flag)) options.set(flag, true);
  if (std::string container(asked.option("container")); !container.empty())
    options.set("container", container);
  json::Array command;
  for (const auto& [name, value] : asked.target.query)
    if (name == "command") command.push_back(value);
  if (!command.empty()) options.set("command", std::move(command));
  Asking asking{.operation = "CONNECT",
                .kind = call->kind,
                .key = call->key(),
                .subresource = asked.subresource,
                .sent = kube::GroupVersionKind{"", "v1", kind},
                .object = std::move(options)};
  admit(call, std::move(asking), [this](const CallRef& call, const Asking&) {
    auto pod = registry_.get(*call->kind, call->key());
    if (!pod) return refuse(call, notFound(call->kind->resource, call->asked.name));
    options_.node(call->asked, *pod, call->request);
  });
}

void Hub::bind(const CallRef& call) {
  Writing writing;
  if (auto failure = parseWriting(*call, "CreateOptions", writing)) return refuse(call, *failure);
  auto body = parseBody(*call, writing);
  if (!body) return refuse(call, body.failure());
  if (auto failure = unreadable({"", "v1", "Binding"}, *body)) return refuse(call, *failure);
  if (kube::name(*body) != call->asked.name)
    return refuse(call, badRequest("name in URL does not match name in Binding object"));
  if (!kube::ns(*body).empty() && kube::ns(*body) != call->asked.ns)
    return refuse(call, badRequest("the namespace of the provided object does not match the "
                                   "namespace sent on the request"));
  const json::Value& target = (*body)["target"];
  // A Binding is nobody's kind; what it points with is also in an Event.
  static const kube::Type kReference =
      kube::Type::of("", "v1", "Event").field("involvedObject")->type();
  if (auto why = misreading(kReference, target))
    return refuse(call,
                  badRequest("Binding in version \"v1\" cannot be handled as a Binding: " + *why));
  std::vector<kube::FieldError> errors;
  if (const std::string& kind = target["kind"].string(); !kind.empty() && kind != "Node")
    errors.push_back(
        wrong("target.kind", kube::Fault::NotSupported,
              format("Unsupported value: \"{}\": supported values: \"Node\", \"<empty>\"", kind)));
  if (target["name"].string().empty())
    errors.push_back(wrong("target.name", kube::Fault::Required, "Required value"));
  if (!errors.empty())
    return refuse(call, invalid({.version = "v1", .plural = "bindings", .kind = "Binding"},
                                call->asked.name, errors));
  body->make("apiVersion") = "v1";
  body->make("kind") = "Binding";
  body->make("metadata").make("namespace") = call->asked.ns;
  Asking asking{.operation = "CREATE",
                .kind = call->kind,
                .key = call->key(),
                .subresource = "binding",
                .sent = kube::GroupVersionKind{"", "v1", "Binding"},
                .object = *std::move(body),
                .options = writeOptions(*call, "CreateOptions"),
                .dry_run = writing.dry_run};
  admit(call, std::move(asking),
        [this, dry_run = writing.dry_run](const CallRef& call, const Asking& asked) {
          auto bound = registry_.bind(call->kind, call->key(), asked.object, dry_run);
          if (!bound) return refuse(call, bound.failure());
          answer(call, 201,
                 json::Object{{"kind", "Status"},
                              {"apiVersion", "v1"},
                              {"metadata", json::Object{}},
                              {"status", "Success"},
                              {"code", 201}});
        });
}

}  // namespace cadre::hub
