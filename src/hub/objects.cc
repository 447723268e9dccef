#include "hub/objects.h"

#include <algorithm>

#include "base/format.h"
#include "base/strings.h"
#include "json/parse.h"
#include "json/write.h"
#include "kube/names.h"

namespace cadre::hub {
namespace {

// Names have no slashes; namespaces of what has none are empty.
std::string keyOf(std::string_view resource, const kube::ObjectKey& key) {
  return format("{} {}/{}", resource, key.ns, key.name);
}

// What it became is there, or is what a later change began with.
std::size_t sizeOf(const Change& change) {
  return 200 + (change.before ? change.before->text.size() : 0);
}

State stateOf(kube::ObjectKey key, std::int64_t revision, std::string_view text,
              const json::Value& object) {
  Stored stored{.key = std::move(key),
                .revision = revision,
                .text = std::string(text),  // no larger than it must be
                .labels = kube::labels(object),
                .uid = std::string(kube::uid(object)),
                .owners = {},
                .deleting = kube::isDeleting(object)};
  for (const kube::OwnerReference& owner : kube::ownerReferences(object))
    stored.owners.emplace_back(owner.uid);
  return std::make_shared<const Stored>(std::move(stored));
}

State store(json::Value object, std::int64_t revision) {
  object.make("metadata").make("resourceVersion") = format("{}", revision);
  for (std::string_view field : {"apiVersion", "kind"}) object.makeObject().erase(field);
  return stateOf(kube::ObjectKey::of(object), revision, json::write(object), object);
}

struct Name {
  std::string resource;
  kube::ObjectKey key;
};

Error damaged(std::string_view key, std::string_view what) {
  return {.code = Code::DataLoss,
          .message = format("the log has something that was not written by a hub: {}: {}",
                            kube::inQuotes(key), what)};
}

Result<Name> parseKey(std::string_view key) {
  auto [resource, rest] = cut(key, " ");
  std::size_t slash = rest.find('/');
  if (resource.empty() || slash == std::string_view::npos)
    return damaged(key, "this is no name of an object");
  return Name{std::string(resource),
              {std::string(rest.substr(0, slash)), std::string(rest.substr(slash + 1))}};
}

Result<State> parseState(const Name& name, std::string_view text) {
  auto object = json::parse(text);
  if (!object) return damaged(name.key.text(), object.error().text());
  return stateOf(name.key, parseInt(kube::resourceVersion(*object)).value_or(0), text, *object);
}

Error gone(std::int64_t revision, std::int64_t forgotten) {
  return {.code = Code::Gone,
          .message = format("too old resource version: {} ({})", revision, forgotten),
          .reason = "Expired"};
}

}  // namespace

json::Value Stored::value() const {
  auto value = json::parse(text);
  return value ? *std::move(value) : json::Value();  // it was written by us
}

State Change::gone() const { return store(before->value(), revision); }

Objects::Objects(Scheduler& scheduler, Keep keep, Function<void(const Change& change)> told,
                 Limits limits)
    : scheduler_(scheduler), keep_(std::move(keep)), told_(std::move(told)), limits_(limits) {}

const Objects::Collection& Objects::all(std::string_view resource) const {
  static const Collection kNone;
  auto found = objects_.find(resource);
  return found == objects_.end() ? kNone : found->second;
}

State Objects::find(std::string_view resource, const kube::ObjectKey& key) const {
  const Collection& collection = all(resource);
  auto found = collection.find(key);
  return found == collection.end() ? nullptr : found->second;
}

void Objects::each(
    const Function<void(const std::string& resource, const State& state)>& callback) const {
  for (const auto& [resource, collection] : objects_)
    for (const auto& [key, state] : collection) callback(resource, state);
}

Result<State> Objects::put(std::string_view resource, json::Value object) {
  State state = store(std::move(object), revision_ + 1);
  auto tooLarge = [](std::string_view what, std::size_t bytes, std::size_t limit) {
    return Error{
        .code = Code::ResourceExhausted,
        .message = format("{} would have {} bytes, and {} is the limit", what, bytes, limit)};
  };
  if (state->text.size() > kMaxBytes) return tooLarge("the object", state->text.size(), kMaxBytes);
  if (std::size_t bytes = keyOf(resource, state->key).size(); bytes > kMaxKeyBytes)
    return tooLarge("the object's name with its namespace and kind", bytes, kMaxKeyBytes);
  return change(resource, state->key, state);
}

State Objects::remove(std::string_view resource, const kube::ObjectKey& key) {
  change(resource, key, nullptr);
  return staged_.back().gone();
}

State Objects::change(std::string_view resource, const kube::ObjectKey& key, State after) {
  Change change{.revision = ++revision_,
                .resource = std::string(resource),
                .before = find(resource, key),
                .after = after};
  place(resource, key, after);
  staged_.push_back(std::move(change));
  if (staged_.size() == 1) keeping_ = scheduler_.after(0s, [this] { keep(); });
  return after;
}

void Objects::place(std::string_view resource, const kube::ObjectKey& key, const State& state) {
  Collection& collection = objects_[std::string(resource)];
  if (state) {
    collection[key] = state;
  } else {
    collection.erase(key);
  }
}

void Objects::whenKept(Function<void(Result<>)> then) {
  if (staged_.empty()) return then({});
  waiting_.push_back(std::move(then));
}

void Objects::keep() {
  std::vector<Change> changes = std::exchange(staged_, {});
  auto waiting = std::exchange(waiting_, {});
  Result<> kept;
  if (keep_) {
    std::vector<Line> lines;
    lines.reserve(changes.size());
    for (const Change& change : changes) {
      const State& state = change.after ? change.after : change.before;
      lines.push_back({change.revision, keyOf(change.resource, state->key),
                       change.after ? std::optional(change.after->text) : std::nullopt});
    }
    kept = keep_(lines);
  }
  if (!kept) {  // as if nobody had asked
    for (auto change = changes.rbegin(); change != changes.rend(); ++change)
      place(change->resource, (change->before ? change->before : change->after)->key,
            change->before);
    revision_ = changes.front().revision - 1;
    changes.clear();
  }
  for (const Change& change : changes) remember(change);
  for (const auto& then : waiting) then(kept);
  for (const Change& change : changes) told_(change);
}

void Objects::remember(Change change) {
  Past& past = past_[change.resource];
  std::size_t size = sizeOf(change);
  past.bytes += size;
  past_bytes_ += size;
  ++past_changes_;
  past.changes.push_back(std::move(change));
  while (past_changes_ > limits_.changes || past_bytes_ > limits_.bytes) {
    bool many = past_changes_ > limits_.changes;
    auto share = [&](const auto& one) {
      return many ? one.second.changes.size() : one.second.bytes;
    };
    Past& most = std::ranges::max_element(past_, {}, share)->second;
    size = sizeOf(most.changes.front());
    most.bytes -= size;
    past_bytes_ -= size;
    --past_changes_;
    most.forgotten = most.changes.front().revision;
    most.changes.pop_front();
  }
}

std::int64_t Objects::forgotten() const {
  std::int64_t most = forgotten_;
  for (const auto& [resource, past] : past_) most = std::max(most, past.forgotten);
  return most;
}

void Objects::begin(std::string_view resource) { begun_[std::string(resource)] = revision_; }

Result<std::vector<Change>> Objects::since(std::string_view resource, std::int64_t revision) const {
  static const Past kNone;
  auto found = past_.find(resource);
  const Past& past = found == past_.end() ? kNone : found->second;
  std::int64_t forgotten = std::max(forgotten_, past.forgotten);
  if (auto begun = begun_.find(resource); begun != begun_.end())
    forgotten = std::max(forgotten, begun->second);
  if (revision < forgotten) return gone(revision, forgotten);
  auto first = std::ranges::upper_bound(past.changes, revision, {}, &Change::revision);
  std::vector<Change> changes(first, past.changes.end());
  std::copy_if(staged_.begin(), staged_.end(), std::back_inserter(changes),
               [&](const Change& change) {
                 return change.resource == resource && change.revision > revision;
               });
  return changes;
}

Result<Objects::Collection> Objects::at(std::string_view resource, std::int64_t revision) const {
  CADRE_LET(std::vector<Change> changes, since(resource, revision));
  Collection collection = all(resource);
  for (auto change = changes.rbegin(); change != changes.rend(); ++change) {
    if (change->before) {
      collection[change->before->key] = change->before;
    } else {
      collection.erase(change->after->key);
    }
  }
  return collection;
}

Result<> Objects::load(std::string_view key, std::string_view value) {
  CADRE_LET(Name name, parseKey(key));
  CADRE_LET(State state, parseState(name, value));
  place(name.resource, name.key, state);
  return {};
}

Result<> Objects::recall(std::int64_t revision, std::string_view key,
                         std::optional<std::string_view> before,
                         std::optional<std::string_view> after) {
  CADRE_LET(Name name, parseKey(key));
  Change change{.revision = revision, .resource = name.resource};
  if (before) {
    CADRE_LET(change.before, parseState(name, *before));
  }
  if (after) {
    change.after = find(name.resource, name.key);  // most often it is still as it became then
    if (!change.after || change.after->revision != revision) {
      CADRE_LET(change.after, parseState(name, *after));
    }
  }
  remember(std::move(change));
  return {};
}

void Objects::loaded(std::int64_t revision, std::int64_t forgotten) {
  revision_ = std::max(revision_, revision);
  forgotten_ = std::max(forgotten_, forgotten);
}

}  // namespace cadre::hub
