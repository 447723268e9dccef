#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/backoff.h"
#include "base/log.h"
#include "base/metrics.h"
#include "engine/acts.h"
#include "engine/observe.h"
#include "engine/picture.h"
#include "engine/plan.h"
#include "engine/queue.h"
#include "engine/reconcile.h"
#include "engine/sender.h"
#include "engine/slots.h"
#include "engine/world.h"
#include "kube/client.h"

namespace cadre::engine {

// A kind that has plans.
struct Served {
  kube::Resource resource;
  Function<Plan(const json::Value& object, World& world)> plan;
  std::vector<std::string> conditions = {};  // the types that its plans speak of
  std::vector<Index> indexes = {};
  // Its plans may return children of kinds that nobody declared: those of a user's chart. They are
  // watched from then on.
  bool any_kind = false;
};

struct EngineOptions {
  std::vector<Served> kinds;
  std::vector<Scope> scopes;
  std::vector<ObservationClass> observations = {};
  std::vector<ActClass> acts = {};
  std::vector<std::string> namespaces = {};  // empty: everywhere
  // Children carry no labels of ours: all of every kind is watched, and they are known by their
  // owners.
  bool whole = false;
  // Field managers of operators that were here before us: their fields of our children become ours.
  std::vector<std::string> predecessors = {};
  std::size_t writes_in_flight = 32;
  Backoff::Options backoff = {.first = 200ms, .limit = 1min, .factor = 2, .jitter = 0.3};
  // Stands for the values of Secrets, which never enter: a keyed hash.
  Function<std::string(std::string_view value)> hash_secret = {};
  // Asked before every write while the engine leads; when it says no, the engine stops leading.
  Function<bool()> still_leads = {};
  std::string controller = "cadre";  // who says so in events
  Logger* logger = nullptr;
  Metrics* metrics = nullptr;
};

// Makes reality match what plans say, for ever: keeps what they read current, runs a plan again
// when anything that it read has changed, sends what differs, and writes the status. Everything
// happens on the client's thread. Writes nothing unless it leads.
class Engine final : private Source {
 public:
  Engine(kube::Client& client, Random& random, EngineOptions options);
  ~Engine() override;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Whether writes are allowed. Set to false, none is sent any more, and those under way are given
  // up before this returns.
  void lead(bool leads);
  bool leads() const { return leads_; }
  // The first pictures of all that is watched for its own sake are there.
  bool synced() const { return picture_.synced(); }
  // Nothing waits, runs or is under way.
  bool idle() const { return queue_.depth() == 0 && running_ == 0; }
  // Brings the metrics that grow with time up to date. Before they are read.
  void measure() const { queue_.measure(); }
  // What is in the way of watching, per kind; empty when all is well.
  std::map<std::string, std::string> troubles() const { return picture_.troubles(); }

  // What its plan says of this object if it were so, by what is known now.
  struct Preview {
    bool complete = false;  // else something that the plan looks at is not there yet: ask again
    Plan plan;
    std::vector<Read> reads;
  };
  Preview preview(const Ref& ref, const json::Value& object);
  // What is known of the cluster, for who asks what would have to be done. What is not marked as
  // ours is among it once it has been looked for.
  Observed observed() { return observed(nullptr); }
  State lookFor(const Ref& ref) { return picture_.watchAlone(ref); }
  // Whose plans looked at it when they last ran.
  std::vector<Ref> readersOf(const Ref& ref) const;
  // What plans look at; and an object as it would be there.
  Source& source() { return *this; }
  json::Value shown(const kube::Resource& resource, json::Value object) const {
    return picture_.admitted(resource, std::move(object));
  }
  // What the last run of an object's plan looked at; null when there was none.
  const std::vector<Read>* readsOf(const Ref& ref) const;
  std::optional<json::Value> objectOf(const Ref& ref) const { return picture_.find(ref); }

 private:
  struct Entry;
  struct Trial;

  // Source
  State state(const Ref& ref) override { return picture_.state(ref); }
  State state(const kube::Resource& resource) override { return picture_.state(resource); }
  std::optional<json::Value> find(const Ref& ref) override { return picture_.find(ref); }
  std::vector<kube::ObjectKey> keys(const kube::Resource& resource, const Index& index,
                                    const std::string& value) override {
    return picture_.keys(resource, index.name, value);
  }
  // One of several programs is enough to look.
  Fact observe(const Observation& observation) override {
    return leads_ ? observer_.ask(observation) : Fact{};
  }
  bool admits(const Ref& who, const Turn& turn) override { return slots_.admits(who, turn); }
  Fact outcome(const Ref& who, const std::string& id) override { return acts_.outcome(who, id); }

  Queue::Meters makeMeters();
  void changed(const kube::Resource& resource, const Table& table, const Table::Change& change);
  void planChanged(const Ref& ref, const json::Value* object);
  void stateChanged(const kube::Resource& resource);

  void subscribe(const Ref& ref, std::vector<Read> reads);
  void subscribe(const Ref& ref, const Read& read);
  void unsubscribe(const Ref& ref, const Read& read);
  void forget(const Ref& ref);

  void wakeUp(Duration after = 0s);
  void work();
  void run(const Ref& ref);
  Result<Plan> planOf(const Ref& ref, const json::Value& object, World& world);
  void defective(const Ref& ref, const json::Value& object, const Error& error);
  void looked(Entry& entry);
  void wake(const std::vector<Ref>& refs);
  void settle(const Ref& ref, const json::Value& object, Plan& plan,
              const std::vector<Trouble>& troubles);
  std::vector<Trouble> troublesOf(const Entry& entry) const;
  Observed observed(const Entry* entry);

  void done(const Ref& ref, Meter::Outcome outcome = Meter::Outcome::Success);
  bool mayWrite();
  void send(const Ref& ref, const json::Value& object, Write write);
  void noteMade(Entry& entry, const Ref& child);
  void noteRepaired(Entry& entry, const Ref& child, std::string_view wanted);
  void taken(const std::shared_ptr<Trial>& trial);
  void statusWritten(const Trial& trial, const json::Value& answer);
  void succeeded(const std::shared_ptr<Trial>& trial, const json::Value& answer);
  void failed(const std::shared_ptr<Trial>& trial, const Error& error);
  void ended(const std::shared_ptr<Trial>& trial);
  void tell(const Ref& ref, const json::Value& object, const Event& event);

  kube::Client& client_;
  Random& random_;
  EngineOptions options_;
  Logger& logger_;
  std::map<kube::Resource, const Served*> served_;
  std::map<Ref, Entry> entries_;
  std::map<std::string, const Ref*, std::less<>> by_uid_;  // to keys of entries_
  std::set<Ref> waiting_;                                  // for something that is not known yet

  // Who reads what. They are keys of entries_, in their order: most things have one reader, and
  // there are many.
  using Readers = std::vector<const Ref*>;
  std::map<Ref, Readers> object_readers_;
  std::map<std::tuple<kube::Resource, std::string, std::string>, Readers> list_readers_;
  std::map<kube::Resource, Readers> kind_readers_;
  std::map<std::string, Readers> fact_readers_;

  Picture picture_;
  Observer observer_;
  Slots slots_;
  std::size_t unplanned_ = 0;  // entries that have not been looked at since we lead
  Acts acts_;
  Sender sender_;
  std::map<std::string, std::unique_ptr<Meter>> meters_;  // by controller
  Queue queue_;
  Pending working_;
  bool work_queued_ = false;
  int in_vain_ = 0;  // runs one after the other that looked at something not known yet
  bool leads_ = false;
  std::size_t running_ = 0;                                 // entries with writes under way
  std::size_t in_flight_ = 0;                               // writes
  std::vector<std::pair<std::uint64_t, Pending>> telling_;  // events under way
  std::uint64_t told_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace cadre::engine
