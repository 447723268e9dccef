#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "engine/object.h"
#include "engine/slots.h"

namespace cadre::engine {

// A slow fact outside of the objects: a rendered chart, a list of tools. The full input is the key:
// the same input is looked at once, whoever asks. It holds references and hashes, never secrets.
struct Observation {
  std::string what;  // the class, which says how to look and how often
  json::Value input;

  std::string key() const;
};

// What is known of it.
struct Fact {
  bool known = false;  // there is a value; it stays when a later look fails
  json::Value value = {};
  std::string error = {};  // of the last look; empty when it was good
  Time since = {};         // of the value, or of the first failure when there is none
};

// What went wrong with a child that a plan returned, until it goes well.
struct Trouble {
  Ref child;
  std::string reason;  // NameConflict, ChildRejected, ...
  std::string message;

  bool operator==(const Trouble&) const = default;
};

// Where a World finds things.
class Source {
 public:
  enum class State {
    NotYet,     // it is not known whether it exists
    NotServed,  // the cluster does not have this kind
    Known,
  };
  virtual ~Source() = default;

  virtual State state(const Ref& ref) = 0;
  virtual State state(const kube::Resource& resource) = 0;
  virtual std::optional<json::Value> find(const Ref& ref) = 0;
  virtual std::vector<kube::ObjectKey> keys(const kube::Resource& resource, const Index& index,
                                            const std::string& value) = 0;
  virtual Fact observe(const Observation& observation) = 0;
  virtual bool admits(const Ref&, const Turn&) { return true; }
  virtual Fact outcome(const Ref&, const std::string&) { return {}; }
};

// One look of a plan, and a hash of what it saw. The plan runs again when that would be different.
struct Read {
  enum class What { Object, List, Served, Fact };
  What what = What::Object;
  Ref ref = {};  // for a list the resource alone
  View view = kWhole;
  std::string_view index = {};  // of a list
  std::string value = {};       // of the index; or the key of the observation
  // What was seen: 0 where nothing is. In a list, per object.
  std::uint64_t seen = 0;
  std::map<kube::ObjectKey, std::uint64_t> members = {};
};

// The hash of what a view shows; never 0.
std::uint64_t hashOf(const View& view, const json::Value& object);

// What a plan may look at. Every look is recorded, also one that finds nothing: reading is
// subscribing. References stay valid as long as the World.
class World {
 public:
  World(Source& source, Time now, std::vector<Trouble> troubles = {}, Ref self = {})
      : source_(source), now_(now), troubles_(std::move(troubles)), self_(std::move(self)) {}

  // The object as the view shows it; null when it does not exist.
  const json::Value& get(const kube::Resource& resource, const kube::ObjectKey& key,
                         View view = kWhole);
  // Those found under this value of the index, in the order of their keys.
  std::vector<const json::Value*> list(const kube::Resource& resource, const Index& index,
                                       std::string_view value, View view = kWhole);
  // Whether the cluster has the kind at all.
  bool serves(const kube::Resource& resource);
  // A slow fact: not known at first, and this plan runs again when it is.
  const Fact& observe(Observation observation);
  // What became of this plan's own children.
  const std::vector<Trouble>& troubles() const { return troubles_; }

  // Whether it is this object's turn among all who ask for one of this pool. It has it as long as
  // its plan asks for it, and runs again when it comes. `holds`: it has begun, as its status says,
  // and keeps its turn after a restart.
  bool slot(std::string pool, std::size_t limit, bool holds = false);
  // What became of an act of this object; not known while it is being done.
  const Fact& outcome(const std::string& id);

  // Only to stamp what is empty: a plan that runs later must say the same.
  Time now() const { return now_; }
  // Runs the plan again then. The earliest counts.
  void due(Time time) { due_ = due_ ? std::min(*due_, time) : time; }

  // For the engine: what was looked at, and whether all of it could be answered.
  const std::vector<Read>& reads() const { return reads_; }
  std::vector<Read> takeReads() { return std::move(reads_); }
  bool complete() const { return complete_; }
  const std::vector<Turn>& turns() const { return turns_; }
  std::optional<Time> dueTime() const { return due_; }

 private:
  Source& source_;
  const Time now_;
  const std::vector<Trouble> troubles_;
  const Ref self_;
  std::vector<Turn> turns_;
  std::vector<Read> reads_;
  std::deque<json::Value> values_;
  std::map<std::pair<Ref, json::Value (*)(const json::Value&)>, const json::Value*> looked_;
  std::deque<Fact> facts_;
  std::optional<Time> due_;
  bool complete_ = true;
};

}  // namespace cadre::engine
