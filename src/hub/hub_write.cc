#include <algorithm>
#include <utility>

#include "base/format.h"
#include "base/strings.h"
#include "hub/builtin_types.h"
#include "hub/call.h"
#include "hub/pod_account.h"
#include "hub/pod_priority.h"
#include "json/parse.h"
#include "json/write.h"
#include "json/yaml.h"
#include "kube/protobuf.h"

namespace cadre::hub {
namespace {

constexpr std::size_t kMaxManager = 128;
// A write that others are always ahead of is given up, after as long as kube-apiserver takes.
constexpr Duration kRedone = 34s;
constexpr std::string_view kNeeded[] = {"default", "kube-system", "kube-public"};

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

std::optional<Failure> needed(const Kind& kind, const std::string& name) {
  if (kind.storage == "namespaces" && std::ranges::find(kNeeded, name) != std::end(kNeeded))
    return forbidden(kind.resource, name, "this namespace may not be deleted");
  if (kind.storage == "scheduling.k8s.io/priorityclasses" &&
      std::ranges::find(kSystemPriorities, name, &SystemPriority::name) !=
          std::end(kSystemPriorities))
    return forbidden(kind.resource, name, "this is a system priority class and cannot be deleted");
  return std::nullopt;
}

// What the server gives to a new object comes after those who may change it: they see it without.
json::Object takeIdentity(Draft& draft) {
  json::Object& metadata = draft.object.make("metadata").makeObject();
  json::Object own;
  for (std::string_view field : {"uid", "creationTimestamp", "name"}) {
    if (field == "name" && !draft.is_named) continue;
    own.set(field, draft.object["metadata"][field]);
    metadata.erase(field);
  }
  return own;
}

// But for what is of a wrong type, which is refused later.
void giveIdentity(json::Value& object, const json::Object& own) {
  if (!object["metadata"].isNull() && !object["metadata"].isObject()) return;
  for (const auto& [field, value] : own) {
    json::Value& place = object.make("metadata").make(field);
    if (place.isNull() || (place.isString() && (field != "name" || place.string().empty())))
      place = value;
  }
}

}  // namespace

json::Value Hub::writeOptions(const Call& call, std::string_view kind) {
  json::Object options{{"kind", kind}, {"apiVersion", "meta.k8s.io/v1"}};
  for (std::string_view field : {"fieldManager", "fieldValidation"})
    if (std::string value(call.option(field)); !value.empty()) options.set(field, value);
  if (call.asked.has("dryRun")) options.set("dryRun", json::Array{"All"});
  return options;
}

Outcome<json::Value> Hub::parseBody(const Call& call, Writing& writing) const {
  std::string kind = call.kind ? call.kind->resource.kind : call.asked.plural;
  std::string type = lower(trim(cut(call.request->headers.get("content-type"), ";").first));
  const std::string& body = call.request->body;
  bool yaml = type == kYaml || type == "application/apply-patch+yaml";
  bool json = type.empty() || type == kJson || type.ends_with("+json");
  // Clients with built-in kinds write protobuf, whatever a server says that it speaks.
  if (type == kube::kProtobufType) {
    auto value = kube::parseProtobuf(body);
    if (!value && value.error().code == Code::DataLoss) return badRequest(value.error().text());
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
    if ((kind.empty() || kind == "Scale") && (version.empty() || version == "autoscaling/v1"))
      return std::nullopt;
    return badRequest(format("the object provided is {} {}, and a scale takes autoscaling/v1 Scale",
                             version, kind));
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
  if (auto failure = escalated(*call, *draft)) return refuse(call, *failure);
  auto doubts = draft->kind->warnings(draft->object);
  call->warnings.insert(call->warnings.end(), doubts.begin(), doubts.end());
  auto more = definitions_.warnings(*draft);
  call->warnings.insert(call->warnings.end(), more.begin(), more.end());
  if (auto failure = completed(*draft)) return refuse(call, *failure);
  json::Object own;
  std::string name = draft->key.name;
  if (!draft->before) {
    own = takeIdentity(*draft);
    if (draft->is_named) name.clear();
  }
  Asking asking{.operation = draft->before ? "UPDATE" : "CREATE",
                .kind = draft->kind,
                .key = {draft->key.ns, name},
                .subresource = draft->writing.subresource,
                .object = std::move(draft->object),
                .old = std::move(draft->old),
                .options = writeOptions(*call, draft->before ? "UpdateOptions" : "CreateOptions"),
                .dry_run = draft->writing.dry_run};
  auto shared = std::make_shared<Draft>(*std::move(draft));
  asking.settle = [this, shared, own = std::move(own)](Asking& asking) {
    shared->object = std::move(asking.object);
    giveIdentity(shared->object, own);
    if (asking.key.name.empty()) asking.key.name = kube::name(shared->object);
    shared->old = std::move(asking.old);
    auto failure = settled(*shared, asking.changed);
    asking.object = std::move(shared->object);
    asking.old = std::move(shared->old);
    return failure;
  };
  admit(call, std::move(asking), [this, shared](const CallRef& call, Asking asked) {
    Draft& draft = *shared;
    draft.object = std::move(asked.object);
    draft.old = std::move(asked.old);
    if (redone(call, draft)) return;
    if (asked.changed)
      if (auto failure = escalated(*call, draft)) return refuse(call, *failure);
    if (auto failure = limits_.check(draft)) return refuse(call, *failure);
    const kube::Resource& resource = draft.kind->resource;
    draft.kind = kinds_.find(resource.group, resource.version, resource.plural);
    if (!draft.kind) return refuse(call, notFound(call->kind->resource, draft.key.name));
    finish(call, registry_.finish(std::move(draft)));
  });
}

// When nobody changes the object any more, and before those are asked who may only refuse it.
std::optional<Failure> Hub::settled(Draft& draft, bool changed) {
  if (changed) {
    if (auto failure = registry_.amended(draft)) return failure;
    if (auto failure = completed(draft)) return failure;
  }
  return registry_.validate(draft);
}

// With what a new object has of its surroundings.
std::optional<Failure> Hub::completed(Draft& draft) {
  bool changed = limits_.complete(draft);
  auto prioritized = givePriority(draft, objects_);
  if (!prioritized) return prioritized.failure();
  changed |= *prioritized;
  if (options_.has_node) {
    auto given = giveAccount(draft, objects_);
    if (!given) return given.failure();
    changed |= *given;
  }
  return changed ? registry_.amended(draft) : std::nullopt;
}

// Nobody gives what he does not have, whoever wrote it into the object.
std::optional<Failure> Hub::escalated(const Call& call, const Draft& draft) {
  if (draft.kind->resource.group != "rbac.authorization.k8s.io") return std::nullopt;
  return escalation(rbac(), call.user,
                    {.resource = draft.kind->resource,
                     .object = draft.object,
                     .before = draft.old,
                     .asked_name = call.asked.name});
}

// Others may write while webhooks think. What was asked for is then done to what they left, with a
// resourceVersion in the request as a reason to refuse it. A create has nothing to begin again
// with.
bool Hub::redone(const CallRef& call, const Draft& draft) {
  if (call->asked.verb == Verb::Create || !registry_.isOutdated(draft)) return false;
  if (scheduler_.clock().instant() - call->since >= kRedone) return false;
  call->warnings.clear();
  if (!call->kind->deprecation.empty()) call->warnings.push_back(call->kind->deprecation);
  call->asked.verb == Verb::Update ? update(call) : patch(call);
  return true;
}

// Goes on at once when nobody wants to be asked.
void Hub::admit(const CallRef& call, Asking asking,
                Function<void(const CallRef& call, Asking asked)> then) {
  if (!admission_.concerns(asking)) {
    if (asking.settle)
      if (auto failure = asking.settle(asking)) return refuse(call, *failure);
    return then(call, std::move(asking));
  }
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
  show(call, code, std::move(written->object));
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
    // What was meant to keep something from happening never goes unread.
    static const kube::Type kType = kube::Type::of("", "v1", "DeleteOptions");
    if (auto why = misreading(kType, options))
      return Failure{
          500, "",
          format("DeleteOptions in version \"v1\" cannot be handled as a DeleteOptions: {}", *why)};
  } else {
    options.make("propagationPolicy") = call.option("propagationPolicy");
    if (call.asked.has("orphanDependents"))
      options.make("orphanDependents") = call.asked.flag("orphanDependents");
    if (std::string_view grace = call.option("gracePeriodSeconds"); !grace.empty()) {
      auto seconds = parseInt(grace);
      if (!seconds) return noNumber(grace);
      options.make("gracePeriodSeconds") = *seconds;
    }
    for (std::string_view field : {"uid", "resourceVersion"})
      if (std::string_view value = call.option(field); !value.empty() && !call.asked.name.empty())
        options.make("preconditions").make(field) = value;
  }
  auto condition = [&](std::string_view field) -> std::optional<std::string> {
    const json::Value& value = options["preconditions"][field];
    if (value.isNull()) return std::nullopt;
    return value.string();
  };
  Deleting deleting{.uid = condition("uid"),
                    .resource_version = condition("resourceVersion"),
                    .propagation = options["propagationPolicy"].string()};
  if (options["orphanDependents"].isBool() && deleting.propagation.empty())
    deleting.propagation = options["orphanDependents"].boolean() ? "Orphan" : "Background";
  if (options["gracePeriodSeconds"].isInteger())
    deleting.grace = options["gracePeriodSeconds"].integer();
  std::vector<kube::FieldError> errors;
  const json::Array& dry_run = options["dryRun"].array();
  // Beside a body nothing of the query counts but this: what was meant to change nothing never
  // does.
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
  if (auto failure = needed(*call->kind, call->asked.name)) return refuse(call, *failure);
  admit(call, askingToRemove(call->kind, *there, *deleting),
        [this, deleting = *deleting, there](const CallRef& call, const Asking&) {
          State now = objects_.find(call->kind->storage, call->key());
          // Webhooks were asked about another one: that is not what they let go.
          if (now && now != there) {
            if (scheduler_.clock().instant() - call->since < kRedone) return remove(call);
            return refuse(call, conflict(call->kind->resource, call->asked.name,
                                         "the object is changed all the time; please try again"));
          }
          removeAdmitted(call, deleting, *there);
        });
}

Asking Hub::askingToRemove(const KindRef& kind, const Stored& state, const Deleting& deleting) {
  json::Object options{{"kind", "DeleteOptions"}, {"apiVersion", "meta.k8s.io/v1"}};
  if (!deleting.propagation.empty()) options.set("propagationPolicy", deleting.propagation);
  if (deleting.grace) options.set("gracePeriodSeconds", *deleting.grace);
  if (deleting.dry_run) options.set("dryRun", json::Array{"All"});
  return {.operation = "DELETE",
          .kind = kind,
          .key = state.key,
          .old = valueOf(*kind, state),
          .options = std::move(options),
          .dry_run = deleting.dry_run};
}

// What goes because something else went is asked about in the name of who does that elsewhere.
void Hub::admitCollected(const KindRef& kind, const Stored& state, const Deleting& deleting,
                         Function<void(bool admitted)> then) {
  Asking asking = askingToRemove(kind, state, deleting);
  if (!admission_.concerns(asking)) return then(true);
  State ns = objects_.find("namespaces", {"", state.key.ns});
  bool whole = ns && ns->deleting;
  asking.user =
      User::serviceAccount(
          {"kube-system", whole ? "namespace-controller" : "generic-garbage-collector"}, "")
          .info();
  std::uint64_t number = ++collected_;
  collecting_[number] =
      admission_.ask(std::move(asking), [this, number, then = std::move(then)](const auto& answer) {
        scheduler_.post([this, number] { collecting_.erase(number); });
        then(static_cast<bool>(answer));
      });
}

void Hub::removeAdmitted(const CallRef& call, const Deleting& deleting, const Stored& there) {
  auto written = registry_.remove(call->kind, call->key(), deleting);
  if (!written) return refuse(call, written.failure());
  if (written->state) return show(call, 200, *written->state);
  if (written->object.isNull() && call->kind->shows_deleted) return show(call, 200, there);
  if (!written->object.isNull()) return show(call, 200, std::move(written->object));
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
  if (auto wanted = parseInt(call->option("resourceVersion"));
      wanted && waitsFor(call, *wanted, &Hub::removeAll))
    return;
  auto page = pageOf(*call);
  if (!page) return refuse(call, page.failure());
  removeEach(call, *deleting, *std::move(page), 0);
}

void Hub::removeEach(const CallRef& call, const Deleting& deleting, const Page& page,
                     std::size_t first) {
  for (std::size_t at = first; at < page.items.size(); ++at) {
    const State& state = page.items[at];
    Asking asking = askingToRemove(call->kind, *state, deleting);
    asking.key.name.clear();  // nobody named it
    if (admission_.concerns(asking))
      return admit(
          call, std::move(asking),
          [this, deleting, page = Page(page), at](const CallRef& call, const Asking&) mutable {
            State now = objects_.find(call->kind->storage, page.items[at]->key);
            if (now && now != page.items[at] && now->uid == page.items[at]->uid &&
                scheduler_.clock().instant() - call->since < kRedone) {
              page.items[at] = now;  // webhooks were asked about another one
              return removeEach(call, deleting, page, at);
            }
            if (now != page.items[at] || removeOne(call, deleting, *page.items[at]))
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

}  // namespace cadre::hub
