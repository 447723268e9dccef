#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/scheduler.h"
#include "json/value.h"
#include "kube/meta.h"

namespace cadre::hub {

// One state of one object. The text is what clients are sent, but for apiVersion and kind: they
// depend on who asks.
struct Stored {
  kube::ObjectKey key;
  std::int64_t revision = 0;  // its resourceVersion
  std::string text;           // JSON
  // What is looked at often stands here as well, since parsing takes long.
  json::Object labels;
  std::string uid;
  std::vector<std::string> owners;  // uids
  bool deleting = false;

  json::Value value() const;
};
using State = std::shared_ptr<const Stored>;

// A change of one object: it came, became another, or went.
struct Change {
  std::int64_t revision = 0;
  std::string resource;  // "configmaps", "apps/deployments": one for all versions
  State before, after;   // one of them may be missing

  // As DELETED shows it: the last state, with the revision at which it went.
  State gone() const;
};

// A line of the log that outlives the process.
struct Line {
  std::int64_t revision = 0;
  std::string key;                   // resource and name
  std::optional<std::string> value;  // none: deleted
};

// All objects, and what happened to them lately. What is written is seen at once by whoever asks
// here, but is neither told to watches nor answered to clients before the log has it: so nobody
// outside ever sees what a power cut could take back. Writes that come together are kept together.
//
// Belongs to the scheduler's thread.
class Objects {
 public:
  using Collection = std::map<kube::ObjectKey, State>;
  // Keeps lines, all or none. None: nothing outlives the process.
  using Keep = Function<Result<>(const std::vector<Line>& lines)>;
  static constexpr std::size_t kMaxBytes = 3u << 20, kMaxKeyBytes = 1024;  // of an object

  struct Limits {
    std::size_t changes = 20'000;  // remembered
    std::size_t bytes = 16u << 20;
  };  // of all kinds together: who has most forgets first

  Objects(Scheduler& scheduler, Keep keep, Function<void(const Change& change)> told,
          Limits limits);

  // The newest, also what is not kept yet.
  std::int64_t revision() const { return revision_; }
  const Collection& all(std::string_view resource) const;
  State find(std::string_view resource, const kube::ObjectKey& key) const;
  void each(const Function<void(const std::string& resource, const State& state)>& callback) const;

  // Gives the object its resourceVersion. ResourceExhausted: it, or its name, is too large for one.
  Result<State> put(std::string_view resource, json::Value object);
  State remove(std::string_view resource, const kube::ObjectKey& key);
  // When everything that was written so far is kept, or could not be: then it is undone. At once
  // when nothing is on its way.
  void whenKept(Function<void(Result<>)> then);

  // What happened to a resource after that revision, oldest first. Gone when that is forgotten.
  Result<std::vector<Change>> since(std::string_view resource, std::int64_t revision) const;
  // The collection as it was then. Gone likewise.
  Result<Collection> at(std::string_view resource, std::int64_t revision) const;
  // What happened before now to the resource is forgotten: it is new.
  void begin(std::string_view resource);

  // What a log has, before anything else is done: all that there is, then what happened lately and
  // where that begins and ends.
  Result<> load(std::string_view key, std::string_view value);
  Result<> recall(std::int64_t revision, std::string_view key,
                  std::optional<std::string_view> before, std::optional<std::string_view> after);
  void loaded(std::int64_t revision, std::int64_t forgotten);
  // After it, nothing of what happened is forgotten.
  std::int64_t forgotten() const;

 private:
  // What is remembered of a kind: what is kept.
  struct Past {
    std::deque<Change> changes;
    std::size_t bytes = 0;
    std::int64_t forgotten = 0;  // it begins after this
  };

  State change(std::string_view resource, const kube::ObjectKey& key, State after);
  void keep();
  void remember(Change change);
  void place(std::string_view resource, const kube::ObjectKey& key, const State& state);

  Scheduler& scheduler_;
  const Keep keep_;
  const Function<void(const Change& change)> told_;
  const Limits limits_;
  std::int64_t revision_ = 1;
  std::map<std::string, Collection, std::less<>> objects_;
  std::map<std::string, Past, std::less<>> past_;
  std::size_t past_changes_ = 0, past_bytes_ = 0;
  std::int64_t forgotten_ = 0;  // by the log
  std::map<std::string, std::int64_t, std::less<>> begun_;
  std::vector<Change> staged_;  // not kept yet
  std::vector<Function<void(Result<>)>> waiting_;
  Pending keeping_;
};

}  // namespace cadre::hub
