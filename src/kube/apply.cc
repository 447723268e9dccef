#include "kube/apply.h"

#include <algorithm>
#include <map>
#include <vector>

#include "base/format.h"
#include "base/strings.h"
#include "json/write.h"
#include "kube/typed.h"

namespace cadre::kube {

namespace {

using json::Value;

constexpr std::size_t kMaxUpdaters = 10;

// An entry of managedFields.
struct Entry {
  std::string manager;
  std::string operation;
  std::string api_version;
  std::string subresource;
  std::optional<Time> time;
  FieldSet fields;

  bool applied() const { return operation == "Apply"; }
  std::int64_t seconds() const {
    using namespace std::chrono;
    return time ? floor<std::chrono::seconds>(*time).time_since_epoch().count() : 0;
  }

  // What tells entries apart, and the order of those of one time. An applier has one entry,
  // whatever its version.
  std::string identity() const {
    std::string out = "{";
    auto add = [&](std::string_view name, const std::string& text) {
      if (text.empty()) return;
      out += format("{}\"{}\":", out.size() > 1 ? "," : "", name);
      json::appendQuoted(out, text);
    };
    add("manager", manager);
    add("operation", operation);
    if (!applied()) add("apiVersion", api_version);
    add("subresource", subresource);
    return out + "}";
  }

  // As messages about conflicts have it.
  std::string text() const {
    std::string out = json::write(manager);
    if (!subresource.empty()) out += " with subresource " + json::write(subresource);
    if (!applied()) out += " using " + api_version;
    return out;
  }

  static Result<Entry> parse(const Value& value, std::size_t position) {
    auto refuse = [](std::string message) {
      return Error{.code = Code::Internal, .message = std::move(message)};
    };
    Entry out{.manager = value["manager"].string(),
              .operation = value["operation"].string(),
              .api_version = value["apiVersion"].string(),
              .subresource = value["subresource"].string(),
              .time = parseTime(value["time"].string()),
              .fields = {}};
    if (out.operation != "Apply" && out.operation != "Update")
      return refuse("operation must be `Apply` or `Update`");
    if (out.api_version.empty()) return refuse("apiVersion must not be empty");
    const std::string& type = value["fieldsType"].string();
    if (type.empty())
      return refuse(format("missing fieldsType in managed fields entry {}", position));
    if (type != "FieldsV1")
      return refuse(format("invalid fieldsType {} in managed fields entry {}",
                           json::write(shorten(type, 100)), position));
    auto fields = FieldSet::parse(value["fieldsV1"]);
    if (!fields) return refuse("error decoding versioned set: " + fields.error().text());
    out.fields = *std::move(fields);
    return out;
  }

  Value write() const {
    json::Object out{{"manager", manager},
                     {"operation", operation},
                     {"apiVersion", api_version},
                     {"fieldsType", "FieldsV1"},
                     {"fieldsV1", fields.fieldsV1()}};
    if (time) out.set("time", formatTime(*time));
    if (!subresource.empty()) out.set("subresource", subresource);
    return out;
  }
};

using Entries = std::map<std::string, Entry>;  // by identity

Result<Entries> readEntries(const Value& managed_fields) {
  Entries out;
  const json::Array& all = managed_fields.array();
  for (std::size_t i = 0; i < all.size(); ++i) {
    CADRE_LET(Entry entry, Entry::parse(all[i], i));
    std::string identity = entry.identity();
    out.insert_or_assign(std::move(identity), std::move(entry));
  }
  return out;
}

Value writeEntries(Entries entries) {
  std::vector<Entry> sorted;
  for (auto& [identity, entry] : entries) sorted.push_back(std::move(entry));
  std::ranges::sort(sorted, {}, [](const Entry& entry) {
    return std::tuple(std::string_view(entry.operation), entry.seconds(),
                      std::string_view(entry.manager), std::string_view(entry.api_version),
                      std::string_view(entry.subresource));
  });
  json::Array out;
  for (const Entry& entry : sorted) out.push_back(entry.write());
  return out;
}

const Value& managedFields(const Value& object) { return object["metadata"]["managedFields"]; }

Value withManagedFields(Value object, Entries entries) {
  if (!entries.empty())
    object.make("metadata").make("managedFields") = writeEntries(std::move(entries));
  else if (!managedFields(object).isNull() || object["metadata"].object().contains("managedFields"))
    object.make("metadata").makeObject().erase("managedFields");
  return object;
}

const FieldSet& neverTracked() {
  static const FieldSet set = FieldSet::ofFields(
      {"apiVersion", "kind", "metadata", "metadata.name", "metadata.namespace",
       "metadata.creationTimestamp", "metadata.selfLink", "metadata.uid", "metadata.clusterName",
       "metadata.generation", "metadata.managedFields", "metadata.resourceVersion"});
  return set;
}

// Two by two: one after the other, many small ones would each be put into a large one.
FieldSet unionOf(std::vector<FieldSet> sets) {
  while (sets.size() > 1) {
    std::size_t half = (sets.size() + 1) / 2;
    for (std::size_t i = half; i < sets.size(); ++i)
      sets[i - half] = std::move(sets[i - half]) | sets[i];
    sets.resize(half);
  }
  return sets.empty() ? FieldSet() : std::move(sets.front());
}

Entry entryOf(const Writer& writer, std::string_view operation) {
  return {.manager = writer.manager.empty() ? "unknown" : writer.manager,
          .operation = std::string(operation),
          .api_version = writer.api_version,
          .subresource = writer.subresource,
          .time = std::nullopt,
          .fields = {}};
}

// What one write does to the entries of an object.
class Ownership {
 public:
  Ownership(const Shape& shape, const Writer& writer, Entries entries)
      : shape_(shape), writer_(writer), entries_(std::move(entries)) {}

  Entries& entries() { return entries_; }

  // An object in a version; nothing when there is no such version.
  std::optional<Writer::Versioned> in(std::string_view version, const Value& object) const {
    bool as_it_is =
        version == writer_.api_version && object["apiVersion"].string() == writer_.api_version;
    if (as_it_is || !writer_.convert) return Writer::Versioned{shape_, object};
    return writer_.convert(object, version);
  }
  std::optional<Writer::Versioned> inOwnVersion(const Value& object) const {
    return in(writer_.api_version, object);
  }

  // What all entries own, by version; that one first.
  std::vector<std::pair<std::string, FieldSet>> byVersion(const std::string& first) const {
    std::vector<std::pair<std::string, std::vector<FieldSet>>> all{{first, {}}};
    for (const auto& [identity, entry] : entries_) {
      const std::string& version = writer_.convert ? entry.api_version : first;
      auto place = std::ranges::find(all, version, [](auto& one) -> auto& { return one.first; });
      if (place == all.end()) place = all.emplace(all.end(), version, std::vector<FieldSet>());
      place->second.push_back(entry.fields);
    }
    std::vector<std::pair<std::string, FieldSet>> out;
    for (auto& [version, sets] : all) out.emplace_back(version, unionOf(std::move(sets)));
    return out;
  }

  // What became coarser since is owned as a whole; what is of a version that is gone, goes.
  void reconcile(const Value& live) {
    if (shape_.isBuiltIn() && !writer_.convert) return;  // its types never change
    for (auto it = entries_.begin(); it != entries_.end();) {
      Entry& entry = it->second;
      bool same = entry.api_version == writer_.api_version || !writer_.convert;
      auto versioned = same ? std::nullopt : in(entry.api_version, live);
      if (!same && !versioned) {
        it = entries_.erase(it);
        continue;
      }
      entry.fields = reconciled(same ? shape_ : versioned->shape, std::move(entry.fields));
      ++it;
    }
  }

  // What others own of the difference between two objects, by identity.
  using Shares = std::vector<std::pair<std::string, FieldSet>>;

  // Takes from all entries but that one what the difference between two objects takes away.
  // Without force, gives what others own of what changes, and takes nothing then.
  Shares change(const Value& before, const Value& after, std::string_view but, Force force) {
    Shares shares, removed;
    for (auto it = entries_.begin(); it != entries_.end();) {
      const auto& [identity, entry] = *it;
      if (identity == but) {
        ++it;
        continue;
      }
      const Comparison* comparison = difference(entry.api_version, before, after);
      if (!comparison) {
        it = entries_.erase(it);
        continue;
      }
      FieldSet share = entry.fields & (comparison->modified | comparison->added);
      if (!share.empty()) shares.emplace_back(identity, std::move(share));
      if (!comparison->removed.empty()) removed.emplace_back(identity, comparison->removed);
      ++it;
    }
    if (force == Force::No && !shares.empty()) return shares;
    auto take = [&](const Shares& all) {
      for (const auto& [identity, share] : all) {
        FieldSet& fields = entries_[identity].fields;
        fields = std::move(fields) - share;
      }
    };
    take(shares);
    take(removed);
    std::erase_if(entries_, [](const auto& one) { return one.second.fields.empty(); });
    return {};
  }

  // The difference in a version, without what the endpoint resets; null: there is no such version.
  const Comparison* difference(const std::string& version, const Value& before,
                               const Value& after) {
    std::string key = writer_.convert ? version : writer_.api_version;
    auto found = differences_.find(key);
    if (found != differences_.end()) return found->second ? &*found->second : nullptr;
    std::optional<Comparison> out;
    if (key == writer_.api_version) {
      out = compare(shape_, before, after);
    } else if (auto old = in(key, before)) {
      if (auto young = in(key, after)) out = compare(young->shape, old->object, young->object);
    }
    if (out) {
      for (FieldSet* set : {&out->removed, &out->modified, &out->added})
        *set = without(std::move(*set), writer_.reset);
    }
    auto& kept = differences_[key] = std::move(out);
    return kept ? &*kept : nullptr;
  }

  // The oldest entries of updates, where there are too many of them, become one per version.
  void limitUpdaters() {
    std::vector<std::string> updaters;
    for (const auto& [identity, entry] : entries_)
      if (!entry.applied()) updaters.push_back(identity);
    std::size_t left = updaters.size();
    if (left <= kMaxUpdaters) return;
    std::ranges::sort(updaters, {}, [&](const std::string& one) {
      return std::pair(entries_[one].seconds(), one);
    });
    std::map<std::string, std::string> first_of_version;
    std::map<std::string, std::vector<FieldSet>> parts;  // of what they become
    for (const std::string& identity : updaters) {
      if (left <= kMaxUpdaters) break;
      Entry entry = entries_[identity];
      auto [first, is_first] = first_of_version.emplace(entry.api_version, identity);
      if (is_first) continue;
      Entry joint = {.manager = "ancient-changes",
                     .operation = "Update",
                     .api_version = entry.api_version,
                     .subresource = {},
                     .time = entry.time,
                     .fields = {}};
      std::string joined = joint.identity();
      auto there = entries_.find(joined);
      if (there == entries_.end()) there = entries_.find(first->second);
      auto& sets = parts[joined];
      sets.push_back(std::move(there->second.fields));
      sets.push_back(std::move(entry.fields));
      entries_.erase(there);
      entries_.erase(identity);
      entries_[joined] = std::move(joint);
      --left;
    }
    for (auto& [identity, sets] : parts) entries_[identity].fields = unionOf(std::move(sets));
  }

 private:
  const Shape& shape_;
  const Writer& writer_;
  Entries entries_;
  std::map<std::string, std::optional<Comparison>> differences_;
};

Entries updated(const Shape& shape, const Value& before, const Value& after, const Writer& writer,
                Entries entries) {
  Ownership ownership(shape, writer, std::move(entries));
  ownership.reconcile(before);
  ownership.change(before, after, {}, Force::Yes);
  const Comparison* changed = ownership.difference(writer.api_version, before, after);
  FieldSet fields = (changed->modified | changed->added) - neverTracked();
  if (!fields.empty()) {
    Entry entry = entryOf(writer, "Update");
    auto [place, is_new] = ownership.entries().try_emplace(entry.identity(), entry);
    place->second.fields = std::move(place->second.fields) | fields;
    place->second.time = writer.now;
  }
  ownership.limitUpdaters();
  return std::move(ownership.entries());
}

bool isReset(const Shape& shape, const Value& managed_fields) {
  const json::Array& all = managed_fields.array();
  if (all.empty()) return managed_fields.isArray() && shape.isBuiltIn();
  return all.size() == 1 && all[0].isObject() && all[0].object().empty();
}

// The entries that an update begins with.
Entries entriesBefore(const Shape& shape, const Value& before, const Value& after,
                      const Writer& writer) {
  if (writer.subresource.empty()) {
    if (isReset(shape, managedFields(after))) return {};
    auto given = readEntries(managedFields(after));
    if (given && !given->empty()) return *std::move(given);
  }
  auto live = readEntries(managedFields(before));
  return live ? *std::move(live) : Entries();
}

// --- apply

// "default/web; apps/v1, Kind=Deployment"
std::string nameOf(const Value& object) {
  auto [group, version] = cut(object["apiVersion"].string(), "/");
  if (version.empty()) std::swap(group, version);
  return format("{}/{}; {}/{}, Kind={}", ns(object), name(object), group, version,
                object["kind"].string());
}

Error conflictError(const Ownership::Shares& shares, const Entries& entries) {
  Error out{.code = Code::Conflict, .message = {}, .reason = "Conflict"};
  std::string lines;
  for (const auto& [identity, fields] : shares) {
    std::string owner = entries.at(identity).text();
    lines += format("{}conflicts with {}:", lines.empty() ? "" : "\n", owner);
    fields.each([&](const FieldPath& path) {
      std::string field = pathText(path);
      lines += "\n- " + field;
      out.details.push_back({.field = std::move(field),
                             .reason = "FieldManagerConflict",
                             .message = "conflict with " + owner});
    });
  }
  if (out.details.size() == 1)
    out.message = format("Apply failed with 1 conflict: {}: {}", out.details[0].message,
                         out.details[0].field);
  else
    out.message = format("Apply failed with {} conflicts: {}", out.details.size(), lines);
  return out;
}

// A merged object without what the manager applied before (`last`) and does not any more, as far as
// nobody else owns it. In steps, as the API server does it, for each has a say in what comes of it:
// all that the manager had is taken out; what anybody owns now is put back; and what is missing
// then, and was the manager's own, is what goes from the merged object.
Value pruned(const Ownership& ownership, const Entry& last, Value merged) {
  if (last.fields.empty()) return merged;
  auto whole = ownership.in(last.api_version, merged);
  if (!whole) return merged;
  const Shape& shape = whole->shape;
  FieldSet had = withFieldsOnTheWay(shape, last.fields);
  Value rest = without(shape, whole->object, had);
  Value full = whole->object;
  for (const auto& [version, owned] : ownership.byVersion(last.api_version)) {
    auto one = ownership.in(version, full), other = ownership.in(version, rest);
    if (!one || !other) continue;
    FieldSet all = withFieldsOnTheWay(one->shape, fieldsOf(one->shape, one->object));
    FieldSet kept = withFieldsOnTheWay(one->shape, fieldsOf(one->shape, other->object)) |
                    withFieldsOnTheWay(one->shape, owned);
    rest = without(one->shape, one->object, all - kept);
    full = std::move(one->object);
  }
  auto left = ownership.in(last.api_version, rest);
  if (!left) return merged;
  FieldSet all = withFieldsOnTheWay(shape, fieldsOf(shape, whole->object));
  FieldSet kept = withFieldsOnTheWay(shape, fieldsOf(shape, left->object));
  auto out = ownership.inOwnVersion(without(shape, whole->object, (all - kept) & had));
  return out ? std::move(out->object) : merged;
}

}  // namespace

Result<Value> apply(const Shape& shape, const Value& live, Value config, const Writer& writer,
                    Force force) {
  if (!managedFields(config).isNull())
    return Error{.code = Code::InvalidArgument,
                 .message = "metadata.managedFields must be nil",
                 .reason = "BadRequest"};
  if (auto right = conforms(shape, config, Duplicates::Refuse); !right)
    return std::move(right).error().context(
        format("failed to create typed patch object ({})", nameOf(config)));
  auto entries = readEntries(managedFields(live));
  if (!entries) return std::move(entries).error().context("failed to decode managed fields");
  if (auto right = conforms(shape, live, Duplicates::Allow); !right)
    return std::move(right).error().context(
        format("failed to create typed live object ({})", nameOf(live)));
  Value before = live.isNull() ? shape.emptyObject() : withManagedFields(live, {});
  if (entries->empty() && !live.isNull()) {
    Writer first{.manager = "before-first-apply",
                 .api_version = writer.api_version,
                 .subresource = writer.subresource,
                 .now = writer.now,
                 .reset = writer.reset};
    *entries = updated(shape, shape.emptyObject(), before, first, {});
  }

  Ownership ownership(shape, writer, *std::move(entries));
  ownership.reconcile(before);
  Entry entry = entryOf(writer, "Apply");
  std::string identity = entry.identity();
  Entry last = std::exchange(ownership.entries()[identity], entry);
  Entry& own = ownership.entries()[identity];
  own.time = last.time;
  own.fields = without(fieldsOf(shape, config), writer.reset);
  Value after = live.isNull() ? std::move(config) : merge(shape, before, config);
  after = pruned(ownership, last, std::move(after));
  auto conflicts = ownership.change(before, after, identity, force);
  if (!conflicts.empty()) return conflictError(conflicts, ownership.entries());
  if (auto place = ownership.entries().find(identity); place != ownership.entries().end()) {
    place->second.fields = place->second.fields - neverTracked();
    if (before != after) place->second.time = writer.now;
    if (place->second.fields.empty()) ownership.entries().erase(place);
  }
  return withManagedFields(before == after ? std::move(before) : std::move(after),
                           std::move(ownership.entries()));
}

Value update(const Shape& shape, const Value& before, Value after, const Writer& writer) {
  Entries entries = entriesBefore(shape, before, after, writer);
  after = withManagedFields(std::move(after), {});
  if (entries.empty() && !uid(before).empty()) return after;
  Value nothing = before.isNull() ? shape.emptyObject() : Value();
  const Value& old = before.isNull() ? nothing : before;
  // What is of a built-in kind was read by its types, and they never change.
  if (!shape.isBuiltIn() &&
      (!conforms(shape, old, Duplicates::Allow) || !conforms(shape, after, Duplicates::Allow)))
    return after;
  entries = updated(shape, old, after, writer, std::move(entries));
  return withManagedFields(std::move(after), std::move(entries));
}

Value withoutNewTimes(const Value& before, Value after) {
  const json::Array& old = managedFields(before).array();
  json::Array entries = managedFields(after).array();
  if (entries.empty() || entries.size() != old.size()) return after;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const Value* time = old[i].object().find("time");
    if (time)
      entries[i].makeObject().set("time", *time);
    else
      entries[i].makeObject().erase("time");
    if (entries[i] != old[i]) return after;
  }
  json::Value& place = after.make("metadata").make("managedFields");
  Value timed = std::exchange(place, std::move(entries));
  if (after != before) place = std::move(timed);
  return after;
}

FieldSet resetFields(const GroupVersionKind& kind, std::string_view subresource) {
  if (subresource != "status") return FieldSet::ofFields({"status"});
  FieldSet out = FieldSet::ofFields({"spec"});
  if (kind.group == "apps" && kind.kind == "Deployment")
    return out | FieldSet::ofFields({"metadata.labels"});
  if (kind.group.empty() && kind.kind == "Pod")
    return out | FieldSet::ofFields({"metadata.deletionTimestamp", "metadata.ownerReferences"});
  for (std::string_view whole : {"CustomResourceDefinition", "VolumeAttachment", "FlowSchema",
                                 "PriorityLevelConfiguration", "ValidatingAdmissionPolicy"})
    if (kind.kind == whole && kind.group.ends_with(".k8s.io"))
      return out | FieldSet::ofFields({"metadata"});
  return out;
}

}  // namespace cadre::kube
