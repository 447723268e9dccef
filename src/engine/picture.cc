#include "engine/picture.h"

#include <algorithm>
#include <utility>

#include "base/format.h"
#include "kube/selector.h"

namespace cadre::engine {
namespace {

struct Counted {
  Write::Op op;
  const char* name;
  bool of_children;  // else of the object itself
};
constexpr Counted kCounted[] = {{Write::Op::Create, "create", true},
                                {Write::Op::Apply, "apply", true},
                                {Write::Op::Delete, "delete", true},
                                {Write::Op::Metadata, "metadata", false},
                                {Write::Op::Status, "status", false}};

bool isSecret(const kube::Resource& resource) {
  return resource.group.empty() && resource.kind == "Secret";
}

}  // namespace

// A table, and the watches that fill it.
struct Picture::Known {
  struct Feed {
    std::string ns;
    std::uint32_t picture = 0;
    bool synced = false;
    bool served = true;
    bool anew = false;  // it was known, and is being drawn once more
    std::string trouble = {};
    std::unique_ptr<kube::Watcher> watcher = {};
  };

  Known(Picture& picture, Scope scope)
      : scope(std::move(scope)),
        table(this->scope.indexes, [this, &picture](const Table::Change& change) {
          picture.changed_(this->scope.resource, table, change);
        }) {}

  const Scope scope;
  Table table;
  std::vector<std::unique_ptr<Feed>> feeds;
  std::map<kube::ObjectKey, std::unique_ptr<Known>> named;  // single objects, each by itself
  std::map<Write::Op, Counter*> writes;
  Counter* differences_accepted = nullptr;

  Source::State state() const {
    Source::State state = Source::State::Known;
    for (const auto& feed : feeds) {
      if (!feed->served) return Source::State::NotServed;
      if (!feed->synced) state = Source::State::NotYet;
    }
    return state;
  }
};

Picture::Picture(kube::Client& client, Random& random, Options options, Changed changed,
                 StateChanged state_changed)
    : client_(client),
      random_(random),
      options_(std::move(options)),
      logger_(options_.logger ? *options_.logger : Logger::silent()),
      changed_(std::move(changed)),
      state_changed_(std::move(state_changed)) {}

Picture::~Picture() = default;

void Picture::know(Scope scope, bool served) {
  if (known_.contains(scope.resource)) return;
  scope.indexes.push_back(kByOwner);
  Known& known = *(known_[scope.resource] = std::make_unique<Known>(*this, scope));
  if (options_.metrics) {
    const std::string& kind = scope.resource.kind;
    for (const auto& [op, name, of_children] : kCounted)
      if (served || of_children)
        known.writes[op] = &options_.metrics->counter(
            "cadre_writes_total", "Writes that were sent.", {{"kind", kind}, {"op", name}});
    known.differences_accepted = &options_.metrics->counter(
        "cadre_differences_accepted_total",
        "How often the server made something else of what was applied.", {{"kind", kind}});
  }
  if (scope.which == Scope::Which::None) return;
  std::string labels =
      scope.which == Scope::Which::Ours ? format("{}={}", kManagedBy, kManager) : "";
  std::vector<std::string> namespaces = options_.namespaces;
  if (namespaces.empty() || !scope.resource.namespaced) namespaces = {""};
  for (const std::string& ns : namespaces) feed(known, {.ns = ns, .labels = labels});
}

void Picture::feed(Known& known, kube::Selection select) {
  Known::Feed& feed =
      *known.feeds.emplace_back(std::make_unique<Known::Feed>(Known::Feed{.ns = select.ns}));
  kube::WatchHandler handler;
  handler.begin = [&known, &feed] { feed.picture = known.table.begin(); };
  handler.item = [this, &known, &feed](json::Value object) {
    known.table.put(admitted(known.scope.resource, std::move(object)), feed.picture);
  };
  handler.synced = [this, &known, &feed] {
    known.table.end(feed.picture, feed.watcher->version(), feed.ns);
    bool was_known = feed.synced && feed.served;
    if (std::exchange(feed.anew, false)) was_known = false;
    feed.synced = feed.served = true;
    feed.trouble.clear();
    if (!was_known) state_changed_(known.scope.resource);
  };
  handler.changed = [this, &known, &feed](kube::EventType type, json::Value object) {
    feed.trouble.clear();
    if (type == kube::EventType::Deleted) return known.table.drop(object);
    known.table.put(admitted(known.scope.resource, std::move(object)), feed.picture);
  };
  handler.failed = [this, &known, &feed](const Error& error) {
    feed.trouble = error.text();
    const std::string& kind = known.scope.resource.kind;
    if (error.code != Code::NotFound)
      return logger_.warn("watching failed; trying again",
                          {{"kind", kind}, {"error", feed.trouble}});
    // The cluster does not have the kind, which may be fine and is told once. The watcher goes on
    // asking.
    if (!feed.served) return;
    logger_.info("the cluster does not have this kind", {{"kind", kind}});
    feed.served = feed.anew = false;
    known.table.end(known.table.begin(), "", feed.ns);
    state_changed_(known.scope.resource);
  };
  feed.watcher = std::make_unique<kube::Watcher>(
      client_, kube::WatcherOptions{.resource = known.scope.resource, .select = std::move(select)},
      random_, std::move(handler));
}

Picture::Known& Picture::alone(Known& known, const kube::ObjectKey& key) {
  std::unique_ptr<Known>& one = known.named[key];
  if (!one) {
    one = std::make_unique<Known>(*this, Scope{.resource = known.scope.resource});
    // Whoever names what no object can be called is told that it is not there.
    feed(*one, {.ns = key.ns, .fields = kube::FieldSelector({{"metadata.name", key.name}}).text()});
  }
  return *one;
}

json::Value Picture::admitted(const kube::Resource& resource, json::Value object) const {
  if (!isSecret(resource)) return object;
  for (auto& [key, value] : object.make("data").makeObject())
    value = options_.hash_secret ? options_.hash_secret(value.string()) : "";
  return object;
}

void Picture::fold(const Ref& ref, json::Value answer) {
  auto found = known_.find(ref.resource);
  if (found == known_.end()) return;
  Known& known = *found->second;
  answer.make("metadata").makeObject().erase("managedFields");
  answer = admitted(ref.resource, std::move(answer));
  if (auto one = known.named.find(ref.key); one != known.named.end())
    one->second->table.put(answer);
  if (known.scope.which == Scope::Which::All ||
      (known.scope.which == Scope::Which::Ours && kube::label(answer, kManagedBy) == kManager))
    known.table.put(answer);
}

void Picture::drop(const Ref& ref) {
  if (auto known = known_.find(ref.resource); known != known_.end())
    known->second->table.drop(ref.key);
}

Source::State Picture::state(const kube::Resource& resource) const {
  auto known = known_.find(resource);
  return known == known_.end() ? Source::State::NotServed : known->second->state();
}

Source::State Picture::state(const Ref& ref) {
  auto found = known_.find(ref.resource);
  if (found == known_.end()) return Source::State::NotServed;
  Known& known = *found->second;
  if (known.table.contains(ref.key)) return Source::State::Known;
  if (known.state() == Source::State::Known && known.scope.named)
    return alone(known, ref.key).state();
  return known.state();
}

Source::State Picture::watchAlone(const Ref& ref) {
  return alone(*known_.at(ref.resource), ref.key).state();
}

void Picture::forgetAlone(const Ref& ref) {
  if (auto known = known_.find(ref.resource); known != known_.end())
    known->second->named.erase(ref.key);
}

std::optional<json::Value> Picture::find(const Ref& ref) const {
  auto found = known_.find(ref.resource);
  if (found == known_.end()) return std::nullopt;
  const Known& known = *found->second;
  auto object = known.table.find(ref.key);
  if (auto one = known.named.find(ref.key); !object && one != known.named.end())
    object = one->second->table.find(ref.key);
  return object;
}

bool Picture::holds(const Ref& ref) const {
  auto found = known_.find(ref.resource);
  return found != known_.end() && found->second->table.find(ref.key);
}

std::vector<kube::ObjectKey> Picture::keys(const kube::Resource& resource, std::string_view index,
                                           const std::string& value) const {
  auto known = known_.find(resource);
  if (known == known_.end()) return {};
  return known->second->table.keys(index, value);
}

std::vector<Ref> Picture::owned(std::string_view owner_uid) const {
  std::vector<Ref> owned;
  for (const auto& [resource, known] : known_)
    if (known->scope.which == Scope::Which::Ours || options_.whole)
      for (kube::ObjectKey& key : known->table.keys(kByOwner.name, std::string(owner_uid)))
        owned.push_back({resource, std::move(key)});
  return owned;
}

bool Picture::synced() const {
  return std::all_of(known_.begin(), known_.end(), [](const auto& known) {
    return known.second->state() != Source::State::NotYet;
  });
}

std::map<std::string, std::string> Picture::troubles() const {
  std::map<std::string, std::string> troubles;
  for (const auto& [resource, known] : known_)
    for (const auto& feed : known->feeds)
      if (!feed->trouble.empty()) troubles[resource.kind] = feed->trouble;
  return troubles;
}

void Picture::drawAnew() {
  for (auto& [resource, known] : known_)
    for (auto& feed : known->feeds) {
      if (!feed->synced || !feed->served) continue;
      feed->anew = true;
      feed->watcher->drawAnew();
    }
}

bool Picture::current() const {
  return std::none_of(known_.begin(), known_.end(), [](const auto& known) {
    return std::any_of(known.second->feeds.begin(), known.second->feeds.end(),
                       [](const auto& feed) { return feed->anew; });
  });
}

bool Picture::childrenKnown() const {
  if (options_.whole) return synced();
  return std::all_of(known_.begin(), known_.end(), [](const auto& known) {
    return known.second->scope.which != Scope::Which::Ours ||
           known.second->state() != Source::State::NotYet;
  });
}

void Picture::countWrite(const Write& write) {
  auto known = known_.find(write.ref.resource);
  if (known == known_.end()) return;
  if (auto counter = known->second->writes.find(write.op); counter != known->second->writes.end())
    counter->second->add();
}

void Picture::countAccepted(const kube::Resource& resource) {
  if (Counter* counter = known_.at(resource)->differences_accepted) counter->add();
}

}  // namespace cadre::engine
