#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/backoff.h"
#include "base/log.h"
#include "json/pack.h"
#include "kube/client.h"

namespace cadre::kube {

// Who is told what exists. Every time the picture has to be drawn anew (at the start, and when the
// server no longer knows where we were), it comes between `begin` and `synced`: what was known
// before and did not come again is gone.
struct WatchHandler {
  Function<void()> begin;
  Function<void(json::Value object)> item;
  Function<void()> synced;
  // After that, change by change; before it only what was deleted while the picture was drawn.
  Function<void(EventType type, json::Value object)> changed;
  // Something went wrong and is being tried again. For conditions and logs; nothing has to be done.
  Function<void(const Error& error)> failed;
};

struct WatcherOptions {
  Resource resource;
  Selection select = {};
  bool drop_managed_fields = true;
  bool json_only = false;    // see Client
  bool stream_lists = true;  // where the server can; else, and when false, in pages
  std::size_t page = 500;
  // A server that takes a streaming list but never ends it (it does not know the option) is found
  // out by this.
  Duration quiet_limit = 10s;
  Duration shortest_watch =
      5min;  // the server ends each watch after a random time between one and two of these
  Backoff::Options backoff = {.first = 800ms, .limit = 30s, .factor = 2, .jitter = 1};
  Duration healthy_after = 2min;  // a watch that lasted so long starts the backoff again
};

// Keeps a picture of one kind of objects current: lists it (streaming where the server can, else in
// pages), then watches from there, and goes on for ever: resumes where it was after a lost
// connection, starts again when the server has forgotten that place (410, as an answer or inside
// the stream), and backs off when it cannot be reached. Nothing is lost or told twice while the
// server keeps its history. Dropping it ends it. Belongs to the client's thread; the handler may
// drop it.
class Watcher {
 public:
  Watcher(Client& client, WatcherOptions options, Random& random, WatchHandler handler);
  ~Watcher();
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  bool synced() const;
  // The version that the picture is at.
  const std::string& version() const;
  // Draws it once more, as it is at the server from now on. Not from inside the handler.
  void drawAnew();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// The objects that a Watcher told of, and what became of each: draws the difference where the
// picture is drawn anew, so that its listener sees each change once, also those that happened while
// nobody could watch. The listener must not drop it.
class Mirror {
 public:
  struct Change {
    EventType type;             // Added, Modified or Deleted
    const json::Value& object;  // for Deleted the last state that is known
  };

  Mirror(Client& client, WatcherOptions options, Random& random,
         Function<void(const Change&)> changed = {});

  bool synced() const { return synced_; }
  std::size_t size() const { return objects_.size(); }
  bool contains(const ObjectKey& key) const { return objects_.contains(key); }
  // Objects are held packed: looking at one takes it out of its packing.
  std::optional<json::Value> find(const ObjectKey& key) const;
  void forEach(const Function<void(const ObjectKey& key, const json::Value& object)>& see) const;
  // The last failure since all was well; empty when all is well.
  const std::string& trouble() const { return trouble_; }

 private:
  WatchHandler handler();
  void put(const json::Value& object);
  void tell(EventType type, const json::Value& object);

  struct Held {
    json::Packed object;
    std::uint32_t picture = 0;  // the last one that it was in
  };
  json::Packer packer_;
  std::map<ObjectKey, Held> objects_;
  // Pictures begun. The old one is shown until the new one is complete.
  std::uint32_t picture_ = 0;
  Function<void(const Change&)> changed_;
  std::string trouble_;
  bool synced_ = false;
  Watcher watcher_;
};

}  // namespace cadre::kube
