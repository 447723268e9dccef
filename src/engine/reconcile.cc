#include "engine/reconcile.h"

#include <algorithm>
#include <set>

#include "base/format.h"
#include "base/strings.h"
#include "json/patch.h"
#include "json/write.h"
#include "kube/covers.h"
#include "kube/health.h"
#include "kube/typed.h"

namespace cadre::engine {
namespace {

constexpr std::string_view kCreated = "c:", kAppliedMark = "a:", kOnce = "once";
constexpr std::string_view kWithReplicas = "+replicas";  // at the end of a mark

std::string_view opName(Write::Op op) {
  switch (op) {
    case Write::Op::Create:
      return "create";
    case Write::Op::Apply:
      return "apply";
    case Write::Op::Conflict:
      return "leave alone";
    case Write::Op::Delete:
      return "delete";
    case Write::Op::Metadata:
      return "set the metadata of";
    case Write::Op::Status:
      return "set the status of";
  }
  return "";
}

// Of those only names and labels count: what the system fills in is theirs, and most cannot change.
bool isLeftAlone(const kube::Resource& resource) {
  return (resource.group.empty() && resource.kind == "Pod") ||
         (resource.group == "batch" && resource.kind == "Job");
}

bool isSecret(const kube::Resource& resource) {
  return resource.group.empty() && resource.kind == "Secret";
}

void setMark(json::Value& object, std::string_view mark) {
  object.make("metadata").make("annotations").make(kApplied) = mark;
}

// "spec.replicas is 3, not 1". Texts, and what may have some inside, may be nobody's business.
std::string inWords(const json::Change& change) {
  auto isPlain = [](const std::optional<json::Value>& side) {
    return !side || side->isNumber() || side->isBool();
  };
  if (!isPlain(change.from) || !isPlain(change.to)) return change.path + " differs";
  auto value = [](const std::optional<json::Value>& side) {
    return side ? json::write(*side) : "missing";
  };
  return format("{} is {}, not {}", change.path, value(change.from), value(change.to));
}

// Of what is left alone: enough to bring back its labels.
json::Value labelsAlone(const json::Value& wanted) {
  json::Value object = json::Object{{"apiVersion", wanted["apiVersion"]}, {"kind", wanted["kind"]}};
  for (std::string_view field : {"name", "namespace", "labels"})
    object.make("metadata").make(field) = wanted["metadata"][field];
  return object;
}

// As the server will have it: texts of a Secret become data.
json::Value stored(const Child& child, json::Value wanted) {
  if (!isSecret(child.resource) || !wanted["stringData"].isObject()) return wanted;
  for (const auto& [key, text] : json::Object(wanted["stringData"].object()))
    wanted.make("data").make(key) = base64Encode(text.string());
  wanted.makeObject().erase("stringData");
  return wanted;
}

// Kinds that nobody but their maker writes, scalers and metadata aside. In those what is not wanted
// has no place; in others it may be what a controller needs there.
bool isWhole(const kube::Resource& resource) {
  return (resource.group == "apps" &&
          (resource.kind == "Deployment" || resource.kind == "StatefulSet" ||
           resource.kind == "DaemonSet")) ||
         (resource.group.empty() && (resource.kind == "Service" || resource.kind == "ConfigMap"));
}

std::optional<json::Change> added(const kube::Resource& resource, const json::Value& wanted,
                                  const json::Value& there) {
  if (!isWhole(resource)) return std::nullopt;
  return kube::added(kube::Type::of(resource.gvk()), there, wanted);
}

std::optional<std::string> difference(const Child& child, const json::Value& wanted,
                                      const json::Value& there, const Observed& observed) {
  if (isLeftAlone(child.resource)) {
    auto differs = kube::covers({}, there, labelsAlone(wanted));
    if (!differs) return std::nullopt;
    return inWords(*differs);
  }
  json::Value plain = observed.admitted(child.ref(), stored(child, wanted));
  plain.make("metadata").make("annotations").makeObject().erase(kApplied);
  if (auto differs = kube::covers(kube::Type::of(child.resource.gvk()), there, plain))
    return inWords(*differs);
  if (wantedHash(there) != wantedHash(wanted)) return "something is no longer wanted";
  if (auto more = added(child.resource, wanted, there)) return more->path + " was added";
  return std::nullopt;
}

// Whose it is and what to do, for the user.
std::string conflict(const Ref& child, const json::Value& there) {
  std::string whose = "was not made by cadre";
  if (auto owner = kube::controllerOf(there))
    whose = format("belongs to {} {}", owner->kind, owner->name);
  return format("{} exists already and {}; delete or rename it, or choose another name",
                child.text(), whose);
}

// What we do not prune but garbage collection does, once the owner is gone: waiting for it to go
// would be waiting for ever.
bool goesWithOwner(const json::Value& there, std::string_view owner_uid) {
  std::string_view mark = kube::annotation(there, kApplied);
  if (mark == kOnce) return true;
  auto owner = kube::controllerOf(there);
  return mark.empty() && owner && owner->uid == owner_uid;
}

// Made by us, and left behind by an owner that is no more (`kubectl delete --cascade=orphan`): it
// is for the next one of that name.
bool isOrphan(const json::Value& there, const json::Value& wanted, const Observed& observed) {
  return kube::label(there, kManagedBy) == kManager && !kube::annotation(there, kApplied).empty() &&
         kube::controllerOf(wanted) && !kube::controllerOf(there) &&
         !observed.is_owner(kube::label(there, kOwnerUid));
}

std::optional<Write> reconcileChild(const Ref& ref, const json::Value& object, const Child& child,
                                    const std::optional<json::Value>& there,
                                    const Observed& observed) {
  Write write{.op = Write::Op::Create,
              .ref = child.ref(),
              .object = finished(child, ref, object, observed.labelled),
              .generate = child.generate,
              .as = child.as};
  if (!there) return write;
  if (!child.owned) return std::nullopt;
  bool is_ours = belongsTo(*there, kube::uid(object));
  if (!is_ours && !isOrphan(*there, write.object, observed)) {
    write.op = Write::Op::Conflict;
    write.why = conflict(write.ref, *there);
    return write;
  }
  // One that is going has to be gone first.
  if (kube::isDeleting(*there)) return std::nullopt;
  if (child.keep == Child::Keep::Once) {
    // What was made with it comes back with another one.
    for (const auto& [key, prefix] : child.generate)
      if (!(*there)["data"].object().contains(key)) {
        write.op = Write::Op::Delete;
        write.uid = kube::uid(*there);
        write.why = format("its key \"{}\" is gone", key);
        return write;
      }
    if (is_ours) return std::nullopt;
    write.op = Write::Op::Apply;
    write.uid = kube::uid(*there);
    write.why = "it has no owner";
    return write;
  }
  auto why = difference(child, write.object, *there, observed);
  if (!why) return std::nullopt;
  write.op = Write::Op::Apply;
  write.uid = kube::uid(*there);
  write.why = *std::move(why);
  if (isLeftAlone(child.resource)) {
    write.object = labelsAlone(write.object);
    return write;
  }
  if (!kube::annotation(*there, kApplied).starts_with(kAppliedMark))
    write.take_over = Write::Whose::Ours;
  if (added(child.resource, write.object, *there)) write.take_over = Write::Whose::Everybodys;
  if (wantedHash(*there).ends_with(kWithReplicas) &&
      !wantedHash(write.object).ends_with(kWithReplicas))
    write.leave_replicas = (*there)["spec"]["replicas"].integer();
  write.replace = child.immutable == Child::Immutable::Replace;
  setMark(write.object, format("{}{}", kAppliedMark, wantedHash(write.object)));
  if (observed.accepted(write, *there)) return std::nullopt;
  return write;
}

Write amend(const Ref& ref, const json::Value& there, json::Value metadata) {
  return {.op = Write::Op::Metadata,
          .ref = ref,
          .object = std::move(metadata),
          .uid = std::string(kube::uid(there)),
          .version = std::string(kube::resourceVersion(there))};
}

void reconcileFinalizers(const Ref& ref, const json::Value& object, const Plan& plan,
                         bool children_left, std::vector<Write>& writes) {
  std::vector<std::string_view> has = kube::finalizers(object);
  std::vector<std::string_view> wants;
  bool ours_wanted = !plan.finalizer.empty() &&
                     (!kube::isDeleting(object) || children_left || !plan.children.empty() ||
                      !plan.acts.empty() || !object["status"]["acts"].array().empty());
  for (std::string_view finalizer : has) {
    bool foreign = std::find(plan.foreign_finalizers.begin(), plan.foreign_finalizers.end(),
                             finalizer) != plan.foreign_finalizers.end();
    if (foreign || (finalizer == plan.finalizer && !ours_wanted)) continue;
    wants.push_back(finalizer);
  }
  if (ours_wanted && !kube::isDeleting(object) && !kube::hasFinalizer(object, plan.finalizer))
    wants.push_back(plan.finalizer);
  if (wants == has) return;
  json::Array list;
  for (std::string_view finalizer : wants) list.emplace_back(finalizer);
  writes.push_back(amend(ref, object, json::Object{{"finalizers", std::move(list)}}));
}

}  // namespace

Observed Observed::nothing() {
  return {.find = [](const Ref&) { return std::nullopt; },
          .owned = [](std::string_view) { return std::vector<Ref>(); },
          .is_owner = [](std::string_view) { return false; },
          .admitted = [](const Ref&, json::Value object) { return object; },
          .accepted = [](const Write&, const json::Value&) { return false; }};
}

std::string Write::text() const {
  return format("{} {}{}{}", opName(op), ref.text(), why.empty() ? "" : ": ", why);
}

std::string_view wantedHash(const json::Value& finished) {
  std::string_view mark = kube::annotation(finished, kApplied);
  return mark.size() > 2 ? mark.substr(2) : mark;
}

std::uint64_t contentHash(const json::Value& object) {
  json::Value content = object;
  content.makeObject().erase("status");
  json::Object& metadata = content.make("metadata").makeObject();
  for (std::string_view field : {"resourceVersion", "generation", "managedFields"})
    metadata.erase(field);
  return stableHash(json::write(content));
}

json::Value finished(const Child& child, const Ref& owner_ref, const json::Value& owner,
                     bool labelled) {
  json::Value object = child.object;
  object.make("apiVersion") = child.resource.apiVersion();
  object.make("kind") = child.resource.kind;
  auto label = [&](json::Value& metadata) {
    json::Value& labels = metadata.make("labels");
    labels.make(kManagedBy) = kManager;
    labels.make(kOwnerUid) = kube::uid(owner);
  };
  if (labelled && child.owned) {
    label(object.make("metadata"));
    if (object["spec"]["template"].isObject())
      label(object.make("spec").make("template").make("metadata"));
  }
  // Garbage collection follows owners inside a namespace only.
  if (child.owned && child.resource.namespaced && kube::ns(object) == owner_ref.key.ns &&
      owner_ref.resource->namespaced)
    object.make("metadata").make("ownerReferences") =
        json::Array{json::Object{{"apiVersion", owner_ref.resource->apiVersion()},
                                 {"kind", owner_ref.resource->kind},
                                 {"name", owner_ref.key.name},
                                 {"uid", kube::uid(owner)},
                                 {"controller", true},
                                 {"blockOwnerDeletion", true}}};
  if (child.keep == Child::Keep::Once) {
    setMark(object, kOnce);
  } else {
    setMark(object, format("{}{:016x}{}", kCreated, stableHash(json::write(object)),
                           object["spec"]["replicas"].isNull() ? "" : kWithReplicas));
  }
  return object;
}

std::vector<Write> reconcileChildren(const Ref& ref, const json::Value& object, const Plan& plan,
                                     const Observed& observed) {
  std::vector<Write> writes;
  std::vector<Ref> owned = observed.owned(kube::uid(object));
  bool deleting = kube::isDeleting(object);
  bool left = std::any_of(owned.begin(), owned.end(), [&](const Ref& mine) {
    auto there = observed.find(mine);
    return there && !goesWithOwner(*there, kube::uid(object));
  });
  reconcileFinalizers(ref, object, plan, left, writes);
  if (!writes.empty() && !deleting) return writes;  // before anything is made
  if (plan.hold) return writes;
  // What becomes of the children of one that goes is up to the user, who said so to the garbage
  // collector; unless it is we that it waits for.
  if (deleting && !kube::hasFinalizer(object, plan.finalizer)) return writes;

  std::set<Ref> wanted;
  std::map<int, std::vector<const Child*>> waves;
  for (const Child& child : plan.children) {
    wanted.insert(child.ref());
    waves[child.wave].push_back(&child);
  }
  for (const auto& [wave, children] : waves) {
    bool settled = true, is_last = wave == waves.rbegin()->first;
    for (const Child* child : children) {
      auto there = observed.find(child->ref());
      auto write = reconcileChild(ref, object, *child, there, observed);
      if (!is_last && (write || !there || !kube::healthOf(*there).ok())) settled = false;
      if (write) writes.push_back(*std::move(write));
    }
    if (!settled) break;
  }
  std::set<Ref> removed;
  auto remove = [&](const Ref& what, const json::Value& there, std::string why) {
    if (kube::isDeleting(there) || !removed.insert(what).second) return;
    writes.push_back({.op = Write::Op::Delete,
                      .ref = what,
                      .uid = std::string(kube::uid(there)),
                      .why = std::move(why)});
  };
  for (const Ref& mine : owned) {
    if (wanted.contains(mine)) continue;
    auto there = observed.find(mine);
    if (!there || !belongsTo(*there, kube::uid(object))) continue;
    if (observed.labelled && kube::label(*there, kOwnerUid).empty()) continue;  // somebody's copy
    std::string_view mark = kube::annotation(*there, kApplied);
    if (mark.starts_with(kCreated) || mark.starts_with(kAppliedMark))
      remove(mine, *there, "it is no longer wanted");
  }
  for (const Ref& what : plan.removals)
    if (auto there = observed.find(what);
        there && (what == ref || belongsTo(*there, kube::uid(object))))
      remove(what, *there, "its time is over");
  for (const Amendment& one : plan.amendments) {
    auto there = observed.find(one.ref);
    if (!there || removed.contains(one.ref)) continue;
    if (kube::controllerOf(*there) && !belongsTo(*there, kube::uid(object))) continue;
    if (json::applyMergePatch((*there)["metadata"], one.metadata) != (*there)["metadata"])
      writes.push_back(amend(one.ref, *there, one.metadata));
  }
  return writes;
}

namespace {

// Whether statuses of that kind have this field: custom ones do, of built-in ones some.
bool tells(kube::Type status, std::initializer_list<std::string_view> path) {
  kube::Type type = status;
  for (std::string_view step : path) {
    if (type.form() == kube::Form::List) type = type.element();
    auto field = type.field(step);
    if (!field) return !status;
    type = field->type();
  }
  return true;
}

}  // namespace

json::Value wantedStatus(const Ref& ref, const json::Value& object, const Plan& plan, Time now) {
  kube::Type type = kube::Type::of(ref.resource->gvk());
  auto field = type.field("status");
  kube::Type of_status = field ? field->type() : kube::Type();
  json::Value status = plan.status;
  if (tells(of_status, {"observedGeneration"}))
    status.make("observedGeneration") = kube::generation(object);
  if (plan.conditions.empty() && !tells(of_status, {"conditions"})) return status;
  json::Array conditions;
  for (const kube::Condition& wanted : plan.conditions) {
    if (plan.find(wanted.type) != &wanted) continue;  // said twice: a server would refuse it
    kube::Condition condition = wanted;
    if (tells(of_status, {"conditions", "observedGeneration"}))
      condition.observed_generation = kube::generation(object);
    json::Array one;
    // What is there already lends its time, unless the condition has changed its mind.
    for (const json::Value& there : object["status"]["conditions"].array())
      if (there["type"].string() == condition.type) one = {there};
    if (!one.empty())
      one = {json::Object{{"type", one[0]["type"]},
                          {"status", one[0]["status"]},
                          {"lastTransitionTime", one[0]["lastTransitionTime"]}}};
    if (kube::setCondition(one, condition, now)) conditions.push_back(std::move(one.at(0)));
  }
  status.make("conditions") = std::move(conditions);
  return status;
}

std::optional<Write> reconcileStatus(const Ref& ref, const json::Value& object, const Plan& plan,
                                     const std::vector<std::string>& types, Time now) {
  json::Value wanted = wantedStatus(ref, object, plan, now);
  json::Value there = object["status"].isObject() ? object["status"] : json::Object{};
  json::Array ours;
  for (const json::Value& condition : there["conditions"].array())
    if (std::find(types.begin(), types.end(), condition["type"].string()) != types.end())
      ours.push_back(condition);
  std::sort(ours.begin(), ours.end(), [&](const json::Value& a, const json::Value& b) {
    auto place = [&](const json::Value& one) {
      const json::Array& list = wanted["conditions"].array();
      return std::find_if(list.begin(), list.end(),
                          [&](const json::Value& w) { return w["type"] == one["type"]; }) -
             list.begin();
    };
    return place(a) < place(b);
  });
  if (wanted["conditions"].isArray()) there.make("conditions") = std::move(ours);
  json::Value annotations;
  for (const auto& [key, value] : plan.annotations) annotations.make(key) = value;
  bool told = std::all_of(plan.annotations.begin(), plan.annotations.end(), [&](const auto& one) {
    return kube::annotation(object, one.first) == one.second;
  });
  if (there == wanted && told) return std::nullopt;
  json::Value body =
      json::Object{{"apiVersion", ref.resource->apiVersion()},
                   {"kind", ref.resource->kind},
                   {"metadata", json::Object{{"name", ref.key.name}, {"uid", kube::uid(object)}}},
                   {"status", std::move(wanted)}};
  if (!ref.key.ns.empty()) body.make("metadata").make("namespace") = ref.key.ns;
  if (!annotations.isNull()) body.make("metadata").make("annotations") = std::move(annotations);
  return Write{.op = Write::Op::Status,
               .ref = ref,
               .object = std::move(body),
               .uid = std::string(kube::uid(object))};
}

std::vector<Event> transitions(const json::Value& object, const json::Value& status) {
  std::vector<Event> events;
  for (const json::Value& condition : status["conditions"].array()) {
    auto before = kube::findCondition(object, condition["type"].string());
    if (!before || kube::conditionStatusName(before->status) == condition["status"].string())
      continue;
    events.push_back(
        {.id = format("{} {} {}", condition["type"].string(), condition["status"].string(),
                      condition["lastTransitionTime"].string()),
         .warning = condition["status"].string() == "False",
         .reason = condition["reason"].string(),
         .message = condition["message"].string()});
  }
  return events;
}

namespace {

// What others say in metadata, also in that of pods, never stands in the way: it stays theirs. So
// does the number of pods: scalers set it.
json::Value leftToOthers(json::Value& entry) {
  json::Value left;
  for (const std::vector<std::string_view>& place :
       std::initializer_list<std::vector<std::string_view>>{
           {"f:metadata"}, {"f:spec", "f:replicas"}, {"f:spec", "f:template", "f:metadata"}}) {
    std::vector<json::Value*> from{&entry.make("fieldsV1")};  // each step of the way
    for (std::size_t i = 0; from.back() && i < place.size(); ++i)
      from.push_back(from.back()->makeObject().find(place[i]));
    if (!from.back()) continue;
    json::Value* to = &left;
    for (std::string_view step : place) to = &to->make(step);
    *to = *from.back();
    // Who has nothing left in them does not own the steps either.
    for (std::size_t i = place.size(); i > 0; --i) {
      from[i - 1]->makeObject().erase(place[i - 1]);
      if (!from[i - 1]->object().empty()) break;
    }
  }
  return left;
}

// Whether others hold more of an object than what is left to them.
bool isHeldByOthers(const json::Value& live) {
  const json::Array& entries = live["metadata"]["managedFields"].array();
  return std::any_of(entries.begin(), entries.end(), [](const json::Value& entry) {
    if (entry["manager"].string() == kManager || !entry["subresource"].string().empty())
      return false;
    json::Value taken = entry;
    leftToOthers(taken);
    return !taken["fieldsV1"].object().empty();
  });
}

// What nobody owns, as after a webhook or where managedFields were wiped, could not be dropped. So
// the entry has all there is, but for what is left to others. Whether that makes a difference.
bool takeUnowned(const kube::Resource& resource, const json::Value& live, json::Value& own) {
  kube::Type type = kube::Type::of(resource.gvk());
  if (!type) return false;
  json::Value all = live;
  for (std::string_view field : {"apiVersion", "kind", "metadata", "status"})
    all.makeObject().erase(field);
  if (all["spec"].isObject()) all.make("spec").makeObject().erase("replicas");
  if (all["spec"]["template"].isObject())
    all.make("spec").make("template").makeObject().erase("metadata");
  Result<kube::FieldSet> owned =
      own.isNull() ? kube::FieldSet() : kube::FieldSet::parse(own["fieldsV1"]);
  if (!owned) return false;
  kube::FieldSet more = *owned | kube::fieldsOf(type, all);
  if (more == *owned) return false;
  if (own.isNull())
    own = json::Object{{"manager", kManager},
                       {"operation", "Apply"},
                       {"apiVersion", resource.apiVersion()},
                       {"fieldsType", "FieldsV1"}};
  own.make("fieldsV1") = more.fieldsV1();
  return true;
}

}  // namespace

bool isOtherwise(const Write& apply, const json::Value& answer) {
  const kube::Resource& resource = apply.ref.resource;
  if (kube::covers(kube::Type::of(resource.gvk()), answer, apply.object)) return true;
  // Somebody may have added it at the same time: the next look takes it away.
  bool could_have_gone = apply.take_over == Write::Whose::Everybodys && !isHeldByOthers(answer);
  return could_have_gone && added(resource, apply.object, answer);
}

std::optional<json::Value> takenOver(const ResourceRef& resource, const json::Value& live,
                                     const std::vector<std::string>& predecessors,
                                     Write::Whose whose) {
  using Whose = Write::Whose;
  auto isOurs = [&](const json::Value& entry) {
    const std::string& manager = entry["manager"].string();
    if (!entry["subresource"].string().empty()) return false;
    if (whose == Whose::Everybodys)
      return manager != kManager || entry["operation"].string() != "Apply";
    if (entry["operation"].string() != "Update") return false;
    return manager == kManager ||
           std::find(predecessors.begin(), predecessors.end(), manager) != predecessors.end();
  };
  const json::Array& entries = live["metadata"]["managedFields"].array();
  // All of ours in one entry of Apply: fields that the next apply leaves out are then dropped.
  // The names of fields are those of a version, so it is one for each of these.
  json::Array kept;
  bool changes = false;
  std::map<std::string, json::Value> ours;
  auto add = [&](const json::Value& entry) {
    json::Value& own = ours[entry["apiVersion"].string()];
    if (own.isNull()) {
      own = entry;
      own.make("manager") = kManager;
      own.make("operation") = "Apply";
    } else {
      own.make("fieldsV1") = json::applyMergePatch(own["fieldsV1"], entry["fieldsV1"]);
    }
  };
  for (const json::Value& entry : entries) {
    bool applied = entry["manager"].string() == kManager &&
                   entry["operation"].string() == "Apply" && entry["subresource"].string().empty();
    bool others = whose == Whose::Everybodys && entry["manager"].string() != kManager;
    if (others && isOurs(entry)) {
      json::Value taken = entry, stays = entry;
      json::Value left = leftToOthers(taken);
      if (!taken["fieldsV1"].object().empty()) {
        add(taken);
        changes = true;
      }
      if (left.isNull()) continue;
      stays.make("fieldsV1") = std::move(left);
      kept.push_back(std::move(stays));
    } else if (applied || isOurs(entry)) {
      add(entry);
      changes |= !applied;
    } else {
      kept.push_back(entry);
    }
  }
  if (whose == Whose::Everybodys) {
    json::Value& own = ours[resource->apiVersion()];
    changes |= takeUnowned(resource, live, own);
    if (own.isNull()) ours.erase(resource->apiVersion());
  }
  if (!changes) return std::nullopt;
  for (auto& [version, own] : ours) kept.insert(kept.begin(), std::move(own));
  return kept;
}

}  // namespace cadre::engine
