#include "hub/watches.h"

#include <algorithm>

#include "base/format.h"
#include "json/write.h"

namespace cadre::hub {

struct Watches::Watch {
  std::shared_ptr<net::ServerRequest> request;
  Wanted wanted;
  std::int64_t seen = 0;
  bool columns_named = false;
  bool cut = false;
  // What is left of the list that it began with: who reads that is not behind.
  std::size_t allowance = 0;
  Pending timeout = {};
};

bool Selection::matches(const Stored& state) const {
  if (!ns.empty() && state.key.ns != ns) return false;
  if (!labels.matches(state.labels)) return false;
  if (fields.matchesEverything()) return true;
  // What is asked for most needs no look into the object.
  bool by_key = std::all_of(fields.terms().begin(), fields.terms().end(), [](const auto& term) {
    return term.path == "metadata.name" || term.path == "metadata.namespace";
  });
  if (!by_key) return fields.matches(state.value());
  return std::all_of(fields.terms().begin(), fields.terms().end(), [&](const auto& term) {
    const std::string& there = term.path == "metadata.name" ? state.key.name : state.key.ns;
    return (there == term.value) == term.equal;
  });
}

Watches::Watches(Scheduler& scheduler, Limits limits) : scheduler_(scheduler), limits_(limits) {
  bookmarks_ = scheduler_.after(limits_.bookmarks, [this] { bookmarkAll(); });
}

Watches::~Watches() = default;

std::shared_ptr<Watches::Watch> Watches::add(std::shared_ptr<net::ServerRequest> request,
                                             Wanted wanted, std::int64_t revision) {
  auto watch = std::make_shared<Watch>();
  watch->request = std::move(request);
  watch->wanted = std::move(wanted);
  watch->seen = revision;
  watches_.push_back(watch);
  ++by_user_[watch->wanted.user];
  revision_ = std::max(revision_, revision);
  std::weak_ptr<Watch> weak = watch;
  watch->request->onGone([this, weak] {
    if (auto watch = weak.lock()) drop(watch);
  });
  watch->timeout = scheduler_.after(watch->wanted.timeout, [this, weak] {
    auto watch = weak.lock();
    if (!watch) return;
    if (watch->wanted.bookmarks) bookmark(*watch, false);
    watch->request->end();
    drop(watch);
  });
  watch->request->begin(
      200, {{"content-type", "application/json"}, {"cache-control", "no-cache, private"}});
  return watch;
}

void Watches::open(std::shared_ptr<net::ServerRequest> request, Wanted wanted,
                   const std::vector<State>& initial, std::int64_t revision,
                   bool initial_bookmark) {
  auto watch = add(std::move(request), std::move(wanted), revision);
  for (const State& state : initial) put(*watch, "ADDED", state);
  if (initial_bookmark) bookmark(*watch, true);
  watch->allowance = watch->request->backlog();
}

void Watches::resume(std::shared_ptr<net::ServerRequest> request, Wanted wanted,
                     const std::vector<Change>& changes, std::int64_t revision) {
  auto watch = add(std::move(request), std::move(wanted), revision);
  for (const Change& change : changes) {
    State gone;
    tell(*watch, change, gone);
  }
}

void Watches::refuse(net::ServerRequest& request, const Failure& failure) {
  request.begin(200, {{"content-type", "application/json"}});
  request.write(json::write(json::Object{{"type", "ERROR"}, {"object", failure.status()}}) + "\n");
  request.end();
}

void Watches::told(const Change& change) {
  State gone;  // made when the first is told
  revision_ = std::max(revision_, change.revision);
  for (auto next = watches_.begin(); next != watches_.end();) {
    std::shared_ptr<Watch> watch = *next++;
    if (change.revision <= watch->seen) continue;
    watch->seen = change.revision;
    if (watch->wanted.kind->storage == change.resource) tell(*watch, change, gone);
    if (watch->cut) drop(watch);
  }
}

// Who selects is told of coming and going as it looks from there.
void Watches::tell(Watch& watch, const Change& change, State& gone) {
  const Selection& selection = watch.wanted.selection;
  bool before = change.before && selection.matches(*change.before);
  bool after = change.after && selection.matches(*change.after);
  if (after) return send(watch, before ? "MODIFIED" : "ADDED", change.after);
  if (!before) return;
  if (!gone) gone = change.gone();
  send(watch, "DELETED", gone);
}

void Watches::put(Watch& watch, std::string_view type, const State& state) {
  const Wanted& wanted = watch.wanted;
  bool whole = wanted.form.as == Form::As::Object, table = wanted.form.as == Form::As::Table;
  // Many are told the same: what was written last is often what is written next.
  if (!whole || last_.state != state || last_.kind != wanted.kind || last_.type != type) {
    std::string object =
        renderAs(*wanted.kind, *state, wanted.form, wanted.include,
                 table && !std::exchange(watch.columns_named, true), scheduler_.clock().now());
    last_ = {whole ? state : nullptr, wanted.kind, std::string(type),
             format("{{\"type\":\"{}\",\"object\":{}}}\n", type, object)};
  }
  watch.request->write(last_.line);
}

void Watches::send(Watch& watch, std::string_view type, const State& state) {
  if (watch.cut) return;
  watch.allowance = std::min(watch.allowance, watch.request->backlog());
  put(watch, type, state);
  if (watch.request->backlog() <= limits_.backlog + watch.allowance) return;
  // It would have to be kept for a client that does not take it.
  Failure failure = expired("too many events wait for this watch to take them: list again");
  watch.request->write(json::write(json::Object{{"type", "ERROR"}, {"object", failure.status()}}) +
                       "\n");
  watch.request->end();
  watch.cut = true;
}

void Watches::bookmark(Watch& watch, bool initial_end) {
  if (watch.cut) return;
  const kube::Resource& resource = watch.wanted.kind->resource;
  json::Object metadata{{"resourceVersion", format("{}", std::max(watch.seen, revision_))}};
  if (initial_end) metadata.set("annotations", json::Object{{"k8s.io/initial-events-end", "true"}});
  bool whole = watch.wanted.form.as == Form::As::Object;
  json::Value object =
      json::Object{{"kind", whole ? resource.kind : "PartialObjectMetadata"},
                   {"apiVersion", whole ? resource.apiVersion() : "meta.k8s.io/v1"},
                   {"metadata", std::move(metadata)}};
  if (watch.wanted.form.as == Form::As::Table)
    object = json::Object{{"kind", "Table"},
                          {"apiVersion", "meta.k8s.io/v1"},
                          {"metadata", object["metadata"]},
                          {"columnDefinitions", nullptr},
                          {"rows", json::Array{}}};
  watch.request->write(
      json::write(json::Object{{"type", "BOOKMARK"}, {"object", std::move(object)}}) + "\n");
}

void Watches::bookmarkAll() {
  for (const auto& watch : watches_)
    if (watch->wanted.bookmarks) bookmark(*watch, false);
  bookmarks_ = scheduler_.after(limits_.bookmarks, [this] { bookmarkAll(); });
}

void Watches::end(std::string_view storage, const std::set<std::string>& versions) {
  for (auto next = watches_.begin(); next != watches_.end();) {
    std::shared_ptr<Watch> watch = *next++;
    const Kind& kind = *watch->wanted.kind;
    if (kind.storage != storage || versions.contains(kind.resource.version)) continue;
    watch->request->end();
    drop(watch);
  }
}

void Watches::drop(const std::shared_ptr<Watch>& watch) {
  watch->timeout.reset();
  if (std::erase(watches_, watch) == 0) return;
  auto counted = by_user_.find(watch->wanted.user);
  if (--counted->second == 0) by_user_.erase(counted);
}

}  // namespace cadre::hub
