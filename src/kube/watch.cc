#include "kube/watch.h"

#include "base/format.h"

namespace cadre::kube {

namespace {

constexpr Duration kGoneAgain = 30s;
constexpr std::string_view kInitialEventsEnd = "k8s.io/initial-events-end";
}  // namespace

struct Watcher::State : std::enable_shared_from_this<Watcher::State> {
  State(Client& client, WatcherOptions options, Random& random, WatchHandler handler)
      : client(client),
        options(std::move(options)),
        random(random),
        handler(std::move(handler)),
        backoff(this->options.backoff, random),
        streaming_lists(this->options.stream_lists) {}

  Client& client;
  const WatcherOptions options;
  Random& random;
  WatchHandler handler;
  Backoff backoff;

  bool streaming_lists;  // until the server shows that it has none
  bool synced = false;
  std::string version;  // where to resume; empty: from the beginning
  std::string continue_token;
  Pending request, timer, quiet_timer;
  Instant began;
  std::size_t events = 0;  // in the present stream

  Instant now() const { return client.scheduler().clock().instant(); }

  // Wraps a callback so that it does nothing once the Watcher is gone.
  template <class F>
  auto guard(F function) {
    return [weak = weak_from_this(), function](auto&&... args) mutable {
      if (auto self = weak.lock()) function(*self, std::forward<decltype(args)>(args)...);
    };
  }

  Duration watchTimeout() {
    auto whole = std::chrono::duration_cast<std::chrono::seconds>(options.shortest_watch);
    return whole + std::chrono::seconds(random.below(
                       static_cast<std::uint64_t>(std::max<std::int64_t>(whole.count(), 1))));
  }

  void start() {
    if (!version.empty()) return watch();
    synced = false;
    if (streaming_lists)
      streamInitialList();
    else
      listPages();
  }

  void retry(const Error& error) {
    quiet_timer.reset();
    // As a watch that lived long enough shows, the trouble before it is over.
    if (events > 0 && now() - began >= options.healthy_after) backoff.reset();
    Duration wait = std::max(backoff.next(), error.retry_after.value_or(0s));
    timer = client.scheduler().after(wait, guard([](State& self) { self.start(); }));
    auto keep = shared_from_this();
    if (handler.failed) handler.failed(error);
  }

  // The server's place in history is gone: draw the picture anew, at once.
  void startAgain() {
    version.clear();
    continue_token.clear();
    start();
  }

  // --- the picture, as a stream

  void streamInitialList() {
    opened();
    tellBegin();
    armQuietTimer();
    openStream(/*initial_events=*/true);
  }

  void armQuietTimer() {
    quiet_timer = client.scheduler().after(options.quiet_limit, guard([](State& self) {
                                             self.streaming_lists = false;
                                             self.request.reset();
                                             self.startAgain();
                                           }));
  }

  // --- the picture, page by page

  void listPages() {
    opened();
    if (continue_token.empty()) tellBegin();
    ListOptions list{.select = options.select,
                     .page = options.page,
                     .continue_token = continue_token,
                     .drop_managed_fields = options.drop_managed_fields,
                     .json_only = options.json_only};
    request = client.listPage(
        options.resource, list, guard([](State& self, json::Value object) {
          if (self.handler.item) self.handler.item(std::move(object));
        }),
        guard([](State& self, Result<ListPage> page) { self.listed(std::move(page)); }));
  }

  void listed(Result<ListPage> page) {
    if (!page && page.error().code == Code::Gone && !continue_token.empty()) return startAgain();
    if (!page) {
      continue_token.clear();  // a part of a page may have been told: begin again
      return retry(page.error());
    }
    continue_token = page->continue_token;
    if (!continue_token.empty()) return listPages();
    version = page->resource_version;
    auto keep = shared_from_this();
    tellSynced();
    watch();
  }

  // --- the changes

  void watch() {
    opened();
    openStream(/*initial_events=*/false);
  }

  void openStream(bool initial_events) {
    WatchOptions watch{.select = options.select,
                       .resource_version = version,
                       .initial_events = initial_events,
                       .timeout = watchTimeout(),
                       .drop_managed_fields = options.drop_managed_fields,
                       .json_only = options.json_only};
    request = client.watch(
        options.resource, watch, guard([](State& self, EventType type, json::Value object) {
          self.event(type, std::move(object));
        }),
        guard([](State& self, Result<> result) { self.ended(std::move(result)); }));
  }

  void event(EventType type, json::Value object) {
    ++events;
    auto keep = shared_from_this();
    if (!synced) {
      armQuietTimer();
      if (type == EventType::Bookmark) {
        // Without its mark it is an ordinary one, and what it says holds only for what came before
        // it.
        if (annotation(object, kInitialEventsEnd) != "true") return;
        version = std::string(resourceVersion(object));
        quiet_timer.reset();
        return tellSynced();
      }
      // A change in the middle of the picture is a part of it, and so is an end.
      if (type == EventType::Deleted) {
        if (handler.changed) handler.changed(type, std::move(object));
        return;
      }
      if (handler.item) handler.item(std::move(object));
      return;
    }
    if (auto at = resourceVersion(object); !at.empty()) version = std::string(at);
    if (type != EventType::Bookmark && handler.changed) handler.changed(type, std::move(object));
  }

  void ended(Result<> result) {
    quiet_timer.reset();
    if (result) {
      // The usual end is after its time. A server that ends it at once, with nothing said, is not
      // well.
      if (events == 0 && now() - began < 1s)
        return retry(
            Error{.code = Code::Unavailable, .message = "the server ended the watch at once"});
      if (!synced)
        return retry(
            Error{.code = Code::Unavailable, .message = "the server ended the list early"});
      backoff.reset();
      return start();
    }
    const Error& error = result.error();
    if (error.code == Code::Gone) {
      // Once at once; a server that says it again and again is given time.
      bool repeated = gone_at && now() - *gone_at < kGoneAgain;
      gone_at = now();
      version.clear();
      return repeated || !synced ? retry(error) : startAgain();
    }
    if (!synced && streaming_lists &&
        (error.code == Code::InvalidArgument || error.code == Code::Unimplemented) &&
        !error.reason.empty()) {
      streaming_lists = false;  // "sendInitialEvents is forbidden for watch unless the WatchList
                                // feature gate is enabled"
      return startAgain();
    }
    retry(error);
  }
  std::optional<Instant> gone_at = {};

  void opened() {
    began = now();
    events = 0;
  }
  void tellBegin() {
    if (handler.begin) handler.begin();
  }
  void tellSynced() {
    synced = true;
    if (handler.synced) handler.synced();
  }
};

Watcher::Watcher(Client& client, WatcherOptions options, Random& random, WatchHandler handler)
    : state_(std::make_shared<State>(client, std::move(options), random, std::move(handler))) {
  // Not from inside the constructor: the handler may want to know the Watcher.
  state_->timer = client.scheduler().after(0s, state_->guard([](State& self) { self.start(); }));
}

Watcher::~Watcher() {
  // A callback may be running: its frame still holds the state, but nothing new may start.
  state_->request.reset();
  state_->timer.reset();
  state_->quiet_timer.reset();
}

bool Watcher::synced() const { return state_->synced; }
const std::string& Watcher::version() const { return state_->version; }

void Watcher::drawAnew() {
  for (Pending* pending : {&state_->request, &state_->timer, &state_->quiet_timer})
    pending->reset();
  state_->startAgain();
}

Mirror::Mirror(Client& client, WatcherOptions options, Random& random,
               Function<void(const Change&)> changed)
    : changed_(std::move(changed)), watcher_(client, std::move(options), random, handler()) {}

WatchHandler Mirror::handler() {
  WatchHandler handler;
  handler.begin = [this] { ++picture_; };
  handler.item = [this](const json::Value& object) { put(object); };
  handler.synced = [this] {
    synced_ = true;
    trouble_.clear();
    for (auto next = objects_.begin(); next != objects_.end();) {
      if (next->second.picture == picture_) {
        ++next;
        continue;
      }
      json::Value last = packer_.unpack(next->second.object);
      next = objects_.erase(next);
      tell(EventType::Deleted, last);
    }
  };
  handler.changed = [this](EventType type, const json::Value& object) {
    trouble_.clear();
    if (type != EventType::Deleted) return put(object);
    if (objects_.erase(ObjectKey::of(object)) > 0) tell(EventType::Deleted, object);
  };
  handler.failed = [this](const Error& error) { trouble_ = error.text(); };
  return handler;
}

std::optional<json::Value> Mirror::find(const ObjectKey& key) const {
  auto found = objects_.find(key);
  if (found == objects_.end()) return std::nullopt;
  return packer_.unpack(found->second.object);
}

void Mirror::forEach(
    const Function<void(const ObjectKey& key, const json::Value& object)>& see) const {
  for (const auto& [key, held] : objects_) see(key, packer_.unpack(held.object));
}

void Mirror::put(const json::Value& object) {
  Held& held = objects_[ObjectKey::of(object)];
  held.picture = picture_;
  json::Packed packed = packer_.pack(object);
  if (held.object == packed) return;
  json::Value old = packer_.unpack(std::exchange(held.object, std::move(packed)));
  bool known = !old.isNull();
  if (known && resourceVersion(old) == resourceVersion(object)) return;
  // A new uid under an old name is another object: the first one went unseen.
  if (known && uid(old) != uid(object)) {
    tell(EventType::Deleted, old);
    known = false;
  }
  tell(known ? EventType::Modified : EventType::Added, object);
}

void Mirror::tell(EventType type, const json::Value& object) {
  if (changed_) changed_({type, object});
}

}  // namespace cadre::kube
