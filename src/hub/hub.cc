#include <algorithm>
#include <set>
#include <utility>

#include "base/format.h"
#include "base/strings.h"
#include "hub/builtin_kind.h"
#include "hub/call.h"
#include "json/write.h"
#include "json/yaml.h"

namespace cadre::hub {
namespace {

constexpr std::size_t kMaxBody = 3u << 20;
// Characters of all warnings of an answer, and of each where they are more.
constexpr std::size_t kMaxWarnings = 4096, kMaxWarning = 256;

std::string warningText(std::string_view text) {
  std::string quoted;
  for (char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (c == '\n' || c == '\r') {
      quoted += ' ';
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      quoted += format("\\\\x{:02x}", static_cast<int>(c));  // a header has none of these
    } else {
      quoted += c;
    }
  }
  return format("299 - \"{}\"", quoted);
}

bool begins(char c) { return (c & 0xc0) != 0x80; }  // a character of UTF-8
std::size_t characters(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, begins));
}
std::string_view firstCharacters(std::string_view text, std::size_t count) {
  std::size_t end = 0;
  while (end < text.size() && (!begins(text[end]) || count-- > 0)) ++end;
  return text.substr(0, end);
}

// Each once. What does not fit into the head of an answer is cut, then left out.
std::vector<std::string> warningTexts(const std::vector<std::string>& warnings) {
  std::vector<std::string_view> each;
  std::set<std::string_view> seen;
  std::size_t size = 0;
  for (const std::string& warning : warnings) {
    if (!seen.insert(warning).second) continue;
    each.push_back(warning);
    size += characters(warning);
  }
  bool cuts = size > kMaxWarnings;
  std::vector<std::string> texts;
  std::size_t written = 0;
  for (std::string_view warning : each) {
    if (written >= kMaxWarnings) break;
    if (cuts) warning = firstCharacters(warning, kMaxWarning);
    written += characters(warning);
    texts.push_back(warningText(warning));
  }
  return texts;
}

}  // namespace

kube::FieldError wrong(std::string_view field, kube::Fault fault, std::string message) {
  return {.path = std::string(field), .fault = fault, .message = std::move(message)};
}

Failure noNumber(std::string_view text) {
  return badRequest(format("strconv.ParseInt: parsing \"{}\": invalid syntax", text));
}

Failure wrongOptions(std::string_view kind, std::vector<kube::FieldError> errors) {
  return invalid(
      {.group = "meta.k8s.io", .version = "v1", .plural = lower(kind), .kind = std::string(kind)},
      "", errors);
}

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
      admission_(scheduler, random, objects_, kinds_, std::move(options_.connect)),
      watches_(scheduler, options_.watches),
      collector_(scheduler, objects_, kinds_, registry_,
                 [this](const KindRef& kind, const Stored& state, const Deleting& deleting,
                        Function<void(bool)> then) {
                   admitCollected(kind, state, deleting, std::move(then));
                 }),
      limits_(scheduler, objects_, kinds_, registry_),
      expiry_(scheduler, kinds_, registry_),
      definitions_(scheduler, objects_, kinds_, registry_, watches_, options_.natives) {
  for (KindRef& kind : servedBuiltIns()) kinds_.add(std::move(kind));
  if (options_.has_node) registry_.addresses().beOnLoopback();
}

Hub::~Hub() = default;

void Hub::furnish() {
  objects_.each([this](const std::string& resource, const State& state) {
    Change came{.revision = state->revision, .resource = resource, .after = state};
    admission_.told(came);
    definitions_.told(came);
    collector_.told(came);
    limits_.told(came);
    expiry_.told(came);
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
  KindRef priorities = kinds_.find("scheduling.k8s.io", "v1", "priorityclasses");
  for (const SystemPriority& one : kSystemPriorities)
    if (!objects_.find(priorities->storage, {"", std::string(one.name)}))
      make(priorities, json::Object{{"metadata", json::Object{{"name", one.name}}},
                                    {"value", one.value},
                                    {"description", one.description}});
  Rbac::Objects roles = defaultRbac();
  for (auto [plural, objects] : {std::pair("clusterroles", &roles.cluster_roles),
                                 std::pair("clusterrolebindings", &roles.cluster_role_bindings)}) {
    KindRef kind = kinds_.find("rbac.authorization.k8s.io", "v1", plural);
    for (json::Value& object : *objects)
      if (!objects_.find(kind->storage, kube::ObjectKey::of(object))) make(kind, std::move(object));
  }
  if (options_.has_node) furnishApi();
}

// The Service by which pods find this API. It has no pods: the node knows where it leads.
void Hub::furnishApi() {
  const kube::ObjectKey key{"default", "kubernetes"};
  KindRef kind = kinds_.find("", "v1", "services");
  json::Value ports = json::Array{json::Object{
      {"name", "https"}, {"port", options_.api_port}, {"protocol", "TCP"}, {"targetPort", 6443}}};
  State there = objects_.find(kind->storage, key);
  if (there) api_address_ = there->value()["spec"]["clusterIP"].string();
  if (there && there->value()["spec"]["ports"] == ports) return;
  json::Object labels{{"component", "apiserver"}, {"provider", "kubernetes"}};
  json::Value object =
      json::Object{{"metadata", json::Object{{"name", key.name}, {"labels", std::move(labels)}}},
                   {"spec", json::Object{{"ports", std::move(ports)}}}};
  const Writing writing{.manager = "cadre-hub"};
  auto draft = there ? registry_.patch(kind, key, PatchType::Merge, object, writing)
                     : registry_.create(kind, key.ns, "", std::move(object), writing);
  if (!draft) return;
  auto written = registry_.finish(*std::move(draft));
  if (written && written->state)
    api_address_ = written->state->value()["spec"]["clusterIP"].string();
}

void Hub::handle(std::shared_ptr<net::ServerRequest> request) {
  auto call = std::make_shared<Call>();
  call->request = std::move(request);
  call->since = scheduler_.clock().instant();
  if (!isEscaped(call->request->target))
    return call->request->respond(400, {{"content-type", std::string(kText)}}, "400 Bad Request");
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
        for (std::string& warning : warningTexts(call->warnings))
          headers.add("warning", std::move(warning));
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
  if (kind.storage == "pods" && asked.subresource == "binding")
    return asked.verb == Verb::Create ? bind(call) : refuse(call, methodNotAllowed());
  if (kind.storage == "pods" && options_.node && isOfNode(asked.subresource)) return askNode(call);
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

// ---- What happens

void Hub::told(const Change& change) {
  if (change.resource.starts_with("rbac.authorization.k8s.io/")) rbac_outdated_ = true;
  watches_.told(change);
  admission_.told(change);
  definitions_.told(change);
  collector_.told(change);
  limits_.told(change);
  expiry_.told(change);
}

}  // namespace cadre::hub
