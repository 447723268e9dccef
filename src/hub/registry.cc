#include "hub/registry.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/format.h"
#include "base/strings.h"
#include "hub/builtin_types.h"
#include "hub/render.h"
#include "json/parse.h"
#include "json/patch.h"
#include "json/write.h"
#include "kube/names.h"
#include "kube/selector.h"
#include "kube/strategic_merge.h"
#include "kube/typed.h"

namespace cadre::hub {
namespace {

const kube::Resource kNamespaces{
    .version = "v1", .plural = "namespaces", .kind = "Namespace", .namespaced = false};
const kube::Resource kScale{
    .group = "autoscaling", .version = "v1", .plural = "scales", .kind = "Scale"};
constexpr std::string_view kOrphan = "orphan", kForeground = "foregroundDeletion";
constexpr std::string_view kNameLetters = "bcdfghjklmnpqrstvwxz2456789";
constexpr std::size_t kMaxGeneratedPrefix = 58;
constexpr std::size_t kMaxUnknown = 100;  // fields that are told
constexpr std::string_view kLastApplied = "kubectl.kubernetes.io/last-applied-configuration";
constexpr std::string_view kDefinitions = "apiextensions.k8s.io/customresourcedefinitions";

bool isNamespace(const Kind& kind) { return kind.storage == "namespaces"; }
bool isPod(const Kind& kind) { return kind.storage == "pods"; }

void dress(json::Value& object, const Kind& kind) {
  object.make("apiVersion") = kind.resource.apiVersion();
  object.make("kind") = kind.resource.kind;
}

void set(json::Value& metadata, std::string_view field, const json::Value& value) {
  if (value.isNull()) {
    metadata.makeObject().erase(field);
  } else {
    metadata.make(field) = value;
  }
}

json::Value& at(json::Value& object, std::string_view path) {
  json::Value* place = &object;
  for (std::string_view field : split(path, '.'))
    if (!field.empty()) place = &place->make(field);
  return *place;
}

const json::Value& at(const json::Value& object, std::string_view path) {
  const json::Value* place = &object;
  for (std::string_view field : split(path, '.'))
    if (!field.empty()) place = &(*place)[field];
  return *place;
}

std::string cannotBeHandled(const json::Value& object, const Kind& kind, std::string_view why) {
  auto gvk = kube::GroupVersionKind::of(object);
  return format("{} in version \"{}\" cannot be handled as a {}: {}",
                gvk ? gvk->kind : kind.resource.kind, gvk ? gvk->version : kind.resource.version,
                kind.resource.kind, why);
}

// Why it cannot be read, without what it cannot be read as.
std::string plainly(const std::string& why) {
  auto at = why.find(" cannot be handled as a ");
  return at == std::string::npos ? why : std::string(cut(why.substr(at), ": ").second);
}

// A patch that makes something of an object that cannot be read as it.
Failure wrongPatch(const json::Value& result, std::string_view why) {
  Failure failure = invalid(
      {}, "",
      {{.path = "patch",
        .fault = kube::Fault::Invalid,
        .message = format("Invalid value: {}: {}", kube::inQuotes(json::write(result)), why)}});
  failure.details.erase("kind");
  return failure;
}

// What holds it after it is deleted, beside its finalizers.
bool isHeld(const Kind& kind, const json::Value& object) {
  return !kube::finalizers(object).empty() ||
         (isNamespace(kind) && !object["spec"]["finalizers"].array().empty()) ||
         object["metadata"]["deletionGracePeriodSeconds"].integer() > 0;
}

// Times far away do not fit.
std::int64_t positive(std::int64_t grace) {
  constexpr std::int64_t kLongest = 100LL * 366 * 24 * 3600;
  return grace < 0 ? 1 : std::min(grace, kLongest);
}

// How long what runs a pod has to end it.
std::int64_t graceOf(const json::Value& pod, const Deleting& deleting) {
  const std::string& phase = pod["status"]["phase"].string();
  if (pod["spec"]["nodeName"].string().empty() || phase == "Succeeded" || phase == "Failed")
    return 0;
  return positive(
      deleting.grace.value_or(pod["spec"]["terminationGracePeriodSeconds"].integer(30)));
}

// kubectl may go from client-side to server-side apply and back: what it applied at the client,
// which is in an annotation, is its own; and the annotation follows what it applies at the server.
std::string_view lastApplied(const json::Value& object) {
  return kube::annotation(object, kLastApplied);
}

bool mayTakeOver(const Kind& kind, const json::Value& live, const Error& error) {
  auto config = json::parse(lastApplied(live));
  if (error.code != Code::Conflict || !config ||
      !kube::conforms(kind.shape(), *config, kube::Duplicates::Allow))
    return false;
  // What somebody has changed since is no longer its own.
  kube::Comparison since = kube::compare(kind.shape(), *config, live);
  kube::FieldSet fields =
      kube::fieldsOf(kind.shape(), *config) - since.modified - since.added - since.removed;
  std::set<std::string> own;
  fields.each([&](const kube::FieldPath& path) { own.insert(kube::pathText(path)); });
  return std::ranges::all_of(error.details,
                             [&](const Detail& one) { return own.contains(one.field); });
}

void setLastApplied(json::Value& object, json::Value config) {
  if (lastApplied(object).empty()) return;
  if (!config["metadata"]["annotations"].isNull())
    config.make("metadata").make("annotations").makeObject().erase(kLastApplied);
  object.make("metadata").make("annotations").make(kLastApplied) = json::write(config) + "\n";
}

// Defaults, and what is the server's own.
void prepare(const Kind& kind, json::Value& object, const json::Value& old,
             std::string_view subresource) {
  json::Value left = object["spec"]["finalizers"];
  kind.setDefaults(object);
  if (old.isNull()) return kind.prepareForCreate(object);
  if (subresource == "status") return kind.prepareForStatusUpdate(object, old);
  kind.prepareForUpdate(object, old);
  if (subresource == "finalize") set(object.make("spec"), "finalizers", left);
}

// An owner that is there again is left out. What is said of it; empty when there is none.
std::string dropSameOwners(json::Value& object) {
  std::set<std::string> seen;
  std::vector<std::string> again;
  json::Array left;
  for (const json::Value& owner : object["metadata"]["ownerReferences"].array()) {
    if (seen.insert(json::write(owner)).second)
      left.push_back(owner);
    else
      again.push_back(owner["uid"].string());
  }
  if (again.empty()) return {};
  object.make("metadata").make("ownerReferences") = std::move(left);
  return format(
      ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in "
      "1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate "
      "UID(s) observed: {}",
      join(again, ", "));
}

Failure otherNamespace() {
  return badRequest(
      "the namespace of the provided object does not match the namespace sent on the request");
}

Failure versionOfNew() {
  return {500, "", "resourceVersion should not be set on objects to be created"};
}

Failure definitionGoes(const Kind& kind, std::string_view name) {
  return forbidden(kind.resource, name,
                   "create not allowed while custom resource definition is terminating");
}

Failure fixedUid(const Kind& kind, const json::Value& object) {
  return invalid(
      kind.resource, kube::name(object),
      {{.path = "metadata.uid",
        .fault = kube::Fault::Invalid,
        .message = format("Invalid value: \"{}\": field is immutable", kube::uid(object))}});
}

}  // namespace

Registry::Registry(Objects& objects, const Clock& clock, Random& random)
    : objects_(objects), clock_(clock), random_(random), addresses_(objects, random) {}

std::optional<json::Value> Registry::get(const Kind& kind, const kube::ObjectKey& key) const {
  State state = objects_.find(kind.storage, key);
  if (!state) return std::nullopt;
  return valueOf(kind, *state);
}

std::string Registry::newUid() {
  std::string hex = format("{:016x}{:016x}", random_.next(), random_.next());
  hex[12] = '4';
  hex[16] = "89ab"[random_.below(4)];
  return format("{}-{}-{}-{}-{}", hex.substr(0, 8), hex.substr(8, 4), hex.substr(12, 4),
                hex.substr(16, 4), hex.substr(20));
}

std::string Registry::newName(const std::string& prefix) {
  std::string name = prefix.substr(0, kMaxGeneratedPrefix);
  for (int i = 0; i < 5; ++i) name += kNameLetters[random_.below(kNameLetters.size())];
  return name;
}

std::optional<Failure> Registry::checkNamespace(const Kind& kind,
                                                const kube::ObjectKey& key) const {
  if (!kind.resource.namespaced) return std::nullopt;
  State ns = objects_.find("namespaces", {"", key.ns});
  if (!ns) return notFound(kNamespaces, key.ns);
  if (!ns->deleting) return std::nullopt;
  Failure failure = forbidden(
      kind.resource, key.name,
      format("unable to create new content in namespace {} because it is being terminated",
             key.ns));
  failure.details.set("causes", json::Array{json::Object{
                                    {"reason", "NamespaceTerminating"},
                                    {"message", format("namespace {} is being terminated", key.ns)},
                                    {"field", "metadata.namespace"}}});
  return failure;
}

// Fields that the kind does not have go, with the words that were asked for.
std::optional<Failure> Registry::checkFields(const Kind& kind, json::Value& object, Draft& draft,
                                             bool patched) const {
  if (auto why = kind.undecodable(object)) {
    if (!patched) return badRequest(*why);
    return wrongPatch(object, plainly(*why));
  }
  std::vector<std::string> unknown = draft.writing.duplicates;
  for (const std::string& field : kind.unknownFields(object))
    unknown.push_back(format("unknown field \"{}\"", field));
  if (unknown.size() > kMaxUnknown) unknown.resize(kMaxUnknown);
  if (!unknown.empty()) {
    if (draft.writing.validation == FieldValidation::Strict) {
      std::string why = "strict decoding error: " + join(unknown, ", ");
      if (patched) return wrongPatch(object, why);
      return badRequest(cannotBeHandled(object, kind, why));
    }
    if (draft.writing.validation == FieldValidation::Warn)
      draft.warnings.insert(draft.warnings.end(), unknown.begin(), unknown.end());
  }
  object = kind.pruned(std::move(object));
  dress(object, kind);
  if (std::string said = dropSameOwners(object); !said.empty())
    draft.warnings.push_back(std::move(said));
  return std::nullopt;
}

Outcome<Draft> Registry::create(KindRef kind, std::string_view ns, std::string_view name,
                                json::Value object, Writing writing) {
  return withFieldsSettled(make(std::move(kind), ns, name, std::move(object), std::move(writing)));
}

Outcome<Draft> Registry::make(KindRef kind, std::string_view ns, std::string_view name,
                              json::Value object, Writing writing) {
  json::Value& metadata = object.make("metadata");
  if (!metadata["resourceVersion"].string().empty()) return versionOfNew();
  if (kind->resource.namespaced) {
    std::string_view own = kube::ns(object);
    if (!own.empty() && own != ns) return otherNamespace();
    metadata.make("namespace") = ns;
  } else {
    metadata.makeObject().erase("namespace");
  }
  if (!name.empty() && kube::name(object).empty()) metadata.make("name") = name;
  std::string prefix = metadata["generateName"].string();
  bool is_named = kube::name(object).empty() && !prefix.empty();
  if (is_named) {
    metadata.make("name") = newName(prefix);
    for (int i = 0; i < 7 && objects_.find(kind->storage, kube::ObjectKey::of(object)); ++i)
      metadata.make("name") = newName(prefix);
  }
  if (kind->going) return definitionGoes(*kind, kube::name(object));
  Draft draft{.kind = kind,
              .key = kube::ObjectKey::of(object),
              .writing = std::move(writing),
              .is_named = is_named};
  if (auto failure = checkFields(*kind, object, draft, false)) return *std::move(failure);
  if (auto failure = checkNamespace(*kind, draft.key)) return *std::move(failure);

  json::Value& system = object.make("metadata");
  for (std::string_view field : {"selfLink", "deletionTimestamp", "deletionGracePeriodSeconds",
                                 "resourceVersion", "generation"})
    system.makeObject().erase(field);
  system.make("uid") = newUid();
  system.make("creationTimestamp") = formatTime(clock_.now());
  if (isNamespace(*kind))
    system.make("labels").make("kubernetes.io/metadata.name") = draft.key.name;
  if (kind->storage == kDefinitions) {  // its objects go before it does
    json::Array& finalizers = system.make("finalizers").makeArray();
    finalizers.emplace_back(kDefinitionCleanUp);
  }
  prepare(*kind, object, {}, "");
  draft.object = std::move(object);
  return draft;
}

Outcome<Draft> Registry::update(KindRef kind, const kube::ObjectKey& key, json::Value object,
                                Writing writing) {
  State before = objects_.find(kind->storage, key);
  if (kube::name(object).empty()) return badRequest("name must be provided");
  if (kube::name(object) != key.name)
    return badRequest(format("the name of the object ({}) does not match the name on the URL ({})",
                             kube::name(object), key.name));
  if (!kube::ns(object).empty() && kube::ns(object) != key.ns) return otherNamespace();
  if (!before && kind->update_creates && writing.subresource.empty())
    return create(std::move(kind), key.ns, key.name, std::move(object), std::move(writing));
  if (!before) return notFound(kind->resource, key.name);
  json::Value old = valueOf(*kind, *before);
  if (writing.subresource == "scale") {
    json::Value whole = old;
    static const kube::Type kType = kube::Type::of(kScale.gvk());
    if (auto why = misreading(kType, object))
      return badRequest(format("Scale in version \"v1\" cannot be handled as a Scale: {}", *why));
    std::int64_t replicas = object["spec"]["replicas"].integer();
    if (replicas < 0 && kind->type())  // a custom kind checks its own field
      return invalid(
          kScale, key.name,
          {{.path = "spec.replicas",
            .fault = kube::Fault::Invalid,
            .message = format("Invalid value: {}: must be greater than or equal to 0", replicas)}});
    at(whole, kind->scale().spec_path) = replicas;
    set(whole.make("metadata"), "resourceVersion", object["metadata"]["resourceVersion"]);
    if (!kube::uid(object).empty()) whole.make("metadata").make("uid") = kube::uid(object);
    return withFieldsSettled(
        replace(std::move(kind), before, std::move(old), std::move(whole), std::move(writing)));
  }
  if (kind->needs_version && kube::resourceVersion(object).empty()) {
    Failure failure = invalid(kind->resource, key.name,
                              {{.path = "metadata.resourceVersion",
                                .fault = kube::Fault::Invalid,
                                .message = "Invalid value: 0: must be specified for an update"}});
    failure.details.set("kind", kind->resource.plural);
    return failure;
  }
  Draft draft{.writing = writing};
  if (auto failure = checkFields(*kind, object, draft, false)) return *std::move(failure);
  auto result = withFieldsSettled(
      replace(std::move(kind), before, std::move(old), std::move(object), std::move(writing)));
  if (result) result->warnings = std::move(draft.warnings);
  return result;
}

Outcome<json::Value> Registry::patched(const Kind& kind, const json::Value& current, PatchType type,
                                       const json::Value& patch) const {
  switch (type) {
    case PatchType::Json: {
      if (!patch.isArray())
        return badRequest(
            "error decoding patch: json: cannot unmarshal object into Go value of "
            "type jsonpatch.Patch");
      auto result = json::applyJsonPatch(current, patch, {.replaces_missing = true});
      if (result) return *std::move(result);
      if (result.error().code == Code::ResourceExhausted) return failureOf(result.error());
      Failure failure{422, "Invalid",
                      "the server rejected our request due to an error in our request"};
      failure.details_shown = true;
      return failure;
    }
    case PatchType::Merge:
      if (!patch.isObject()) return badRequest("error decoding patch: it is not an object");
      return json::applyMergePatch(current, patch);
    case PatchType::Strategic: {
      auto result = kube::strategicMerge(kind.type(), current, patch);
      if (!result) return badRequest(result.error().text());
      return *std::move(result);
    }
  }
  return internal("unknown patch");
}

Outcome<Draft> Registry::patch(KindRef kind, const kube::ObjectKey& key, PatchType type,
                               const json::Value& patch, Writing writing) {
  State before = objects_.find(kind->storage, key);
  if (!before) return notFound(kind->resource, key.name);
  json::Value current = valueOf(*kind, *before);
  if (writing.subresource == "scale") {
    json::Value scale = scaleOf(*kind, current);
    auto result = patched(*kind, scale, type, patch);
    if (!result) return result.failure();
    return update(std::move(kind), key, *std::move(result), std::move(writing));
  }
  auto result = patched(*kind, current, type, patch);
  if (!result) return result.failure();
  auto gvk = kube::GroupVersionKind::of(*result);
  if (!gvk || *gvk != kind->resource.gvk())
    return wrongPatch(*result, format("it is no longer a {}", kind->resource.kind));
  Draft draft{.writing = writing};
  if (auto failure = checkFields(*kind, *result, draft, true)) return *std::move(failure);
  if (kube::uid(*result) != kube::uid(current)) return fixedUid(*kind, *result);
  if (kube::ns(*result) != key.ns) return otherNamespace();
  if (kube::name(*result) != key.name)
    return badRequest(format("the name of the object ({}) does not match the name on the URL ({})",
                             kube::name(*result), key.name));
  auto done = withFieldsSettled(
      replace(std::move(kind), before, std::move(current), *std::move(result), std::move(writing)));
  if (done) done->warnings = std::move(draft.warnings);
  return done;
}

Outcome<Draft> Registry::replace(KindRef kind, State before, json::Value old, json::Value object,
                                 Writing writing) {
  const json::Value& old_metadata = old["metadata"];
  std::string_view version = kube::resourceVersion(object), uid = kube::uid(object);
  if (!uid.empty() && uid != kube::uid(old))
    return conflict(kind->resource, before->key.name,
                    format("Precondition failed: UID in precondition: {}, UID in object meta: {}",
                           uid, kube::uid(old)));
  if (!version.empty() && version != "0" && version != kube::resourceVersion(old))
    return conflict(kind->resource, before->key.name,
                    "the object has been modified; please apply your changes to the latest version "
                    "and try again");
  json::Value& metadata = object.make("metadata");
  for (std::string_view field :
       {"uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds",
        "resourceVersion", "generation", "selfLink", "name", "namespace"})
    set(metadata, field, old_metadata[field]);
  if (isNamespace(*kind))
    metadata.make("labels").make("kubernetes.io/metadata.name") = before->key.name;
  prepare(*kind, object, old, writing.subresource);
  return Draft{.kind = std::move(kind),
               .key = before->key,
               .object = std::move(object),
               .before = std::move(before),
               .old = std::move(old),
               .writing = std::move(writing)};
}

kube::Writer Registry::writerOf(const Kind& kind, const Writing& writing) const {
  kube::Writer writer{.manager = writing.manager,
                      .api_version = kind.resource.apiVersion(),
                      .subresource = writing.subresource,
                      .now = clock_.now()};
  if (kind.has_status && writing.subresource != "scale")
    writer.reset = kube::resetFields(kind.resource.gvk(), writing.subresource);
  return writer;
}

Outcome<Draft> Registry::apply(KindRef kind, const kube::ObjectKey& key, json::Value config,
                               Writing writing) {
  State before = objects_.find(kind->storage, key);
  if (writing.subresource == "scale")
    return Failure{415, "UnsupportedMediaType", "a scale is not applied: patch it"};
  const kube::Resource& resource = kind->resource;
  auto gvk = kube::GroupVersionKind::of(config);
  if (!gvk || *gvk != resource.gvk())
    return badRequest(
        gvk ? format("invalid object type: {}/{}, Kind={}", gvk->group, gvk->version, gvk->kind)
            : "invalid object type: /, Kind=");
  std::string uid(kube::uid(config)), version(kube::resourceVersion(config));
  if (kube::name(config).empty())
    return badRequest(
        format("the name of the object ({} based on URL) was undeterminable: name must be provided",
               key.name));
  if (kube::name(config) != key.name)
    return badRequest(format("the name of the object ({}) does not match the name on the URL ({})",
                             kube::name(config), key.name));
  if (!before && !uid.empty())
    return conflict(resource, key.name,
                    format("uid mismatch: the provided object specified uid {}, and no existing "
                           "object was found",
                           uid));
  if (!before && !writing.subresource.empty()) return notFound(resource, key.name);
  json::Value live;
  if (before) {
    live = valueOf(*kind, *before);
    if (!version.empty() && version != kube::resourceVersion(live))
      return conflict(resource, key.name,
                      "the object has been modified; please apply your changes to the latest "
                      "version and try again");
    if (!uid.empty() && uid != kube::uid(live)) return fixedUid(*kind, config);
  }
  bool takes_over = writing.manager == "kubectl" && !lastApplied(live).empty();
  json::Value applied = takes_over ? config : json::Value();
  kube::Writer writer = writerOf(*kind, writing);
  auto merged = kube::apply(kind->shape(), live, std::move(config), writer,
                            writing.force ? kube::Force::Yes : kube::Force::No);
  if (takes_over && !merged && mayTakeOver(*kind, live, merged.error()))
    merged = kube::apply(kind->shape(), live, applied, writer, kube::Force::Yes);
  if (takes_over && merged) setLastApplied(*merged, std::move(applied));
  if (!merged) {
    const Error& error = merged.error();
    if (error.code == Code::InvalidArgument) return badRequest(error.message);
    Failure failure{error.code == Code::Conflict ? 409 : 500,
                    error.code == Code::Conflict ? "Conflict" : "", error.text()};
    json::Array causes;
    for (const Detail& cause : error.details)
      causes.push_back(json::Object{
          {"reason", cause.reason}, {"message", cause.message}, {"field", cause.field}});
    if (!causes.empty()) failure.details.set("causes", std::move(causes));
    return failure;
  }
  json::Value fields = (*merged)["metadata"]["managedFields"];
  if (!before) {
    (*merged).make("metadata").makeObject().erase("resourceVersion");
    auto draft = make(std::move(kind), key.ns, key.name, *std::move(merged), std::move(writing));
    if (draft) set(draft->object.make("metadata"), "managedFields", fields);
    return draft;
  }
  Draft checked{.writing = writing};
  if (auto failure = checkFields(*kind, *merged, checked, true)) return *std::move(failure);
  auto draft =
      replace(std::move(kind), before, std::move(live), *std::move(merged), std::move(writing));
  if (draft) draft->warnings = std::move(checked.warnings);
  return draft;
}

// Who set which field: settled before admission, so that what it adds belongs to nobody.
Outcome<Draft> Registry::withFieldsSettled(Outcome<Draft> draft) const {
  if (!draft) return draft;
  const json::Value& before = draft->old;
  // Who scales takes the count from whoever has it, but does not begin to have it.
  if (draft->writing.subresource == "scale") {
    std::string path = draft->kind->scale().spec_path;
    auto owns = [&](const json::Value& entry) {
      const json::Value* place = &entry["fieldsV1"];
      for (std::string_view field : split(path, '.'))
        if (!field.empty()) place = &(*place)[format("f:{}", field)];
      return place->isObject();
    };
    if (std::ranges::none_of(before["metadata"]["managedFields"].array(), owns)) return draft;
  }
  draft->object = kube::update(draft->kind->shape(), before, std::move(draft->object),
                               writerOf(*draft->kind, draft->writing));
  return draft;
}

bool Registry::isOutdated(const Draft& draft) const {
  return objects_.find(draft.kind->storage, draft.key) != draft.before;
}

// It may have become anything: it is held to what a request is held to.
std::optional<Failure> Registry::amended(Draft& draft) {
  const Kind& kind = *draft.kind;
  json::Value& object = draft.object;
  const std::string &version = object["apiVersion"].string(), &name = object["kind"].string();
  if ((!version.empty() && version != kind.resource.apiVersion()) ||
      (!name.empty() && name != kind.resource.kind))
    return Failure{500, "",
                   format("converting ({}.{}) to ({}.{}): unknown conversion", version, name,
                          kind.resource.apiVersion(), kind.resource.kind)};
  if (auto why = kind.undecodable(object)) return internal(plainly(*why));
  object = kind.pruned(std::move(object));
  dress(object, kind);
  json::Value& metadata = object.make("metadata");
  if (kube::ns(object).empty() && kind.resource.namespaced)
    metadata.make("namespace") = draft.key.ns;
  if (kube::ns(object) != draft.key.ns) return otherNamespace();
  if (draft.before) {
    for (std::string_view field :
         {"generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"})
      set(metadata, field, draft.old["metadata"][field]);
  } else {
    if (!kube::resourceVersion(object).empty()) return versionOfNew();
    for (std::string_view field : {"deletionTimestamp", "deletionGracePeriodSeconds"})
      metadata.makeObject().erase(field);
    if (kube::uid(object).empty()) metadata.make("uid") = newUid();
    if (metadata["creationTimestamp"].isNull())
      metadata.make("creationTimestamp") = formatTime(clock_.now());
    draft.key.name = kube::name(object);
  }
  prepare(kind, object, draft.old, draft.writing.subresource);
  return std::nullopt;
}

std::optional<Failure> Registry::validate(const Draft& draft) const {
  auto errors =
      draft.kind->validate(draft.object, draft.old, draft.writing.subresource == "status");
  if (errors.empty()) return std::nullopt;
  return invalid(draft.kind->resource, draft.key.name, errors);
}

Outcome<Written> Registry::finish(Draft draft) {
  const Kind& kind = *draft.kind;
  // Both may have been deleted while webhooks thought.
  if (!draft.before) {
    if (kind.going) return definitionGoes(kind, draft.key.name);
    if (auto failure = checkNamespace(kind, draft.key)) return *std::move(failure);
  }
  if (State there = objects_.find(kind.storage, draft.key); there != draft.before) {
    if (!draft.before) {
      Failure failure = alreadyExists(kind.resource, draft.key.name);
      if (there->deleting) failure.message = "object is being deleted: " + failure.message;
      return failure;
    }
    return conflict(kind.resource, draft.key.name,
                    "the object has been modified; please apply your changes to the latest version "
                    "and try again");
  }
  json::Value& object = draft.object;
  const bool creates = !draft.before;
  if (kind.storage == "services" && draft.writing.subresource.empty())
    if (auto errors = addresses_.give(object); !errors.empty())
      return invalid(kind.resource, draft.key.name, errors);
  kind.asStored(object);
  bool is_put = !draft.writing.dry_run;
  if (!creates) {
    json::Value old = std::move(draft.old);
    if (kind.differs(draft.before->revision)) {
      old = draft.before->value();
      dress(old, kind);
    }
    object = kube::withoutNewTimes(old, std::move(object));
    if (object == old) return Written{.state = draft.before};
    if (draft.before->deleting && !isHeld(kind, object)) {
      if (is_put) objects_.remove(kind.storage, draft.key);
      is_put = false;
    }
  }
  if (is_put) return put(kind, std::move(object), creates);
  kind.asShown(object);
  return Written{.object = std::move(object), .created = creates};
}

Outcome<Written> Registry::put(const Kind& kind, json::Value object, bool created) {
  auto state = objects_.put(kind.storage, std::move(object));
  if (!state) return failureOf(state.error());
  return Written{.state = *std::move(state), .created = created};
}

Outcome<Written> Registry::remove(KindRef kind, const kube::ObjectKey& key,
                                  const Deleting& deleting) {
  auto found = get(*kind, key);
  if (!found) return notFound(kind->resource, key.name);
  json::Value& object = *found;
  auto differs = [&](std::string_view what, std::string_view wanted, std::string_view there) {
    Failure failure = conflict(
        kind->resource, key.name,
        format("the {} in the precondition ({}) does not match the {} in record ({}). The object "
               "might have been {}",
               what, wanted, what, there,
               what == "UID" ? "deleted and then recreated" : "modified"));
    failure.message = format("Operation cannot be fulfilled on {} \"{}\": {}", kind->resource.kind,
                             key.name, failure.message.substr(failure.message.find("\": ") + 3));
    failure.details.set("kind", kind->resource.kind);
    return failure;
  };
  if (deleting.uid && *deleting.uid != kube::uid(object))
    return differs("UID", *deleting.uid, kube::uid(object));
  if (deleting.resource_version && *deleting.resource_version != kube::resourceVersion(object))
    return differs("ResourceVersion", *deleting.resource_version, kube::resourceVersion(object));

  // Who deletes with orphans or in the foreground leaves that to the garbage collector.
  json::Array finalizers;
  bool chosen = !deleting.propagation.empty();
  for (std::string_view finalizer : kube::finalizers(object)) {
    if ((finalizer == kOrphan || finalizer == kForeground) && chosen) continue;
    finalizers.emplace_back(finalizer);
  }
  bool by_kind = !chosen && kind->orphans && !kube::hasFinalizer(object, kForeground) &&
                 !kube::hasFinalizer(object, kOrphan);
  if (deleting.propagation == "Orphan" || by_kind) finalizers.emplace_back(kOrphan);
  if (deleting.propagation == "Foreground") finalizers.emplace_back(kForeground);
  json::Value wanted = object;
  set(wanted.make("metadata"), "finalizers",
      finalizers.empty() ? json::Value() : json::Value(finalizers));

  json::Value& metadata = wanted.make("metadata");
  bool was_deleting = kube::isDeleting(object);
  Time now = clock_.now(), end = now;
  std::int64_t grace = 0;
  std::int64_t left = object["metadata"]["deletionGracePeriodSeconds"].integer();
  if (isPod(*kind) && !was_deleting) {
    grace = graceOf(object, deleting);
    end = now + std::chrono::seconds(grace);
  } else if (isPod(*kind) && left > 0) {
    // It may only become shorter, and is counted from when it began.
    grace = deleting.grace ? positive(*deleting.grace) : left;
    if (grace >= left) return Written{.object = std::move(object)};
    Time ends = parseTime(object["metadata"]["deletionTimestamp"].string()).value_or(now);
    end = std::max(now, ends - std::chrono::seconds(left - grace));
    if (end == now) grace = std::min<std::int64_t>(grace, 1);
  }
  if (!was_deleting || grace < left) {
    metadata.make("deletionTimestamp") = formatTime(end);
    metadata.make("deletionGracePeriodSeconds") = grace;
  }
  if (!was_deleting && kube::generation(object) > 0)
    metadata.make("generation") = kube::generation(object) + 1;
  if (isNamespace(*kind)) wanted.make("status").make("phase") = "Terminating";
  if (!isHeld(*kind, wanted)) {
    // Who runs a pod is told that it goes, also where it goes at once.
    bool is_shown = isPod(*kind) && wanted != object;
    if (deleting.dry_run) return is_shown ? Written{.object = std::move(wanted)} : Written{};
    if (is_shown)
      if (auto shown = put(*kind, std::move(wanted), false); !shown) return shown;
    State gone = objects_.remove(kind->storage, key);
    return is_shown ? Written{.object = valueOf(*kind, *gone)} : Written{};
  }
  if (wanted == object || deleting.dry_run) return Written{.object = std::move(wanted)};
  return put(*kind, std::move(wanted), false);
}

Outcome<Written> Registry::bind(KindRef pods, const kube::ObjectKey& key,
                                const json::Value& binding, bool dry_run) {
  auto found = get(*pods, key);
  if (!found) return notFound(pods->resource, key.name);
  json::Value& pod = *found;
  auto refuse = [&](std::string why) {
    return conflict({.version = "v1", .plural = "pods/binding", .kind = "Binding"}, key.name,
                    std::move(why));
  };
  auto differs = [&](std::string_view what, std::string_view wanted, std::string_view there) {
    return refuse(format("Precondition failed: {} in precondition: {}, {} in object meta: {}", what,
                         wanted, what, there));
  };
  std::string_view uid = kube::uid(binding), version = kube::resourceVersion(binding);
  if (!uid.empty() && uid != kube::uid(pod)) return differs("UID", uid, kube::uid(pod));
  if (!version.empty() && version != kube::resourceVersion(pod))
    return differs("ResourceVersion", version, kube::resourceVersion(pod));
  const std::string& there = pod["spec"]["nodeName"].string();
  if (!pod["spec"]["schedulingGates"].array().empty())
    return refuse(format("pod {} has non-empty .spec.schedulingGates", key.name));
  if (kube::isDeleting(pod))
    return refuse(format("pod {} is being deleted, cannot be assigned to a host", key.name));
  if (!there.empty())
    return refuse(format("pod {} is already assigned to node \"{}\"", key.name, there));
  pod.make("spec").make("nodeName") = binding["target"]["name"];
  for (const auto& [name, value] : binding["metadata"]["annotations"].object())
    pod.make("metadata").make("annotations").make(name) = value;
  json::Array& conditions = pod.make("status").make("conditions").makeArray();
  std::erase_if(conditions, [](auto& one) { return one["type"].string() == "PodScheduled"; });
  conditions.push_back(json::Object{{"type", "PodScheduled"},
                                    {"status", "True"},
                                    {"lastProbeTime", json::Value()},
                                    {"lastTransitionTime", formatTime(clock_.now())}});
  if (dry_run) return Written{.object = std::move(pod)};
  return put(*pods, std::move(pod), false);
}

json::Value Registry::scaleOf(const Kind& kind, const json::Value& object) const {
  Kind::Scale paths = kind.scale();
  json::Object metadata;
  for (std::string_view field :
       {"name", "namespace", "uid", "resourceVersion", "creationTimestamp"})
    if (!object["metadata"][field].isNull()) metadata.set(field, object["metadata"][field]);
  json::Object spec, status{{"replicas", at(object, paths.status_path).integer()}};
  if (std::int64_t replicas = at(object, paths.spec_path).integer(); replicas != 0)
    spec.set("replicas", replicas);
  std::string selector = at(object, paths.selector_path).string();
  if (paths.selector_path.empty() && object["spec"]["selector"].isObject()) {
    json::Value labels = object["spec"]["selector"];
    if (kind.storage == "replicationcontrollers")  // which has labels alone
      labels = json::Object{{"matchLabels", std::move(labels)}};
    if (auto parsed = kube::LabelSelector::fromObject(labels)) selector = parsed->text();
  }
  if (!selector.empty()) status.set("selector", selector);
  return json::Object{{"apiVersion", "autoscaling/v1"},
                      {"kind", "Scale"},
                      {"metadata", std::move(metadata)},
                      {"spec", std::move(spec)},
                      {"status", std::move(status)}};
}

}  // namespace cadre::hub
