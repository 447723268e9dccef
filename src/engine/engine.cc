#include "engine/engine.h"

#include <algorithm>

#include "base/format.h"
#include "base/strings.h"
#include "json/write.h"
#include "kube/covers.h"
#include "kube/names.h"

namespace cadre::engine {
namespace {

constexpr std::size_t kMaxTelling = 100;  // events at a time; more are dropped, as everywhere
constexpr int kMostInVain = 16;
constexpr int kWorthTelling = 3;  // tries, of what may yet go well by itself
constexpr Duration kLookAgain = 100ms;
constexpr Duration kLived = 1min;  // a child that is there for so long has not gone at once
constexpr int kRepairs = 10;       // within that time, before they get slower
const kube::Resource kEvents{"", "v1", "events", "Event"};

bool isBefore(const Ref* a, const Ref& b) { return *a < b; }

// Of what a status write brings.
std::uint64_t toldHash(const json::Value& object) {
  return stableHash(json::write(object["status"]) + json::write(object["metadata"]["annotations"]));
}

// What the server will say again, however often it is asked.
bool isRefusal(const Error& error) {
  return error.code == Code::InvalidArgument || error.code == Code::Forbidden ||
         error.code == Code::NotFound || error.code == Code::Unimplemented;
}

}  // namespace

// One object that has plans.
struct Engine::Entry {
  struct Failure {
    Backoff backoff;
    Instant retry_at = {};
    int times = 0;
    std::string reason = {}, message = {};  // empty: not worth telling
  };
  struct Made {
    Backoff backoff;
    Instant at = {}, again_at = {};
    int times = 0;
    std::string wanted = {};  // of a repair: what it brings back
  };
  struct Accepted {
    std::string wanted;
    std::uint64_t content;
  };

  std::string uid;
  std::vector<Read> reads;
  // Objects whose names we want, looked at until that is settled; whether by a watch of their own.
  std::map<Ref, bool> strangers;
  std::map<Ref, Failure> failures;
  std::map<Ref, Made> made;      // lately, or found to be there
  std::map<Ref, Made> repaired;  // lately
  std::map<Ref, Accepted> accepted;
  std::vector<std::shared_ptr<Trial>> trials;
  bool again = false;          // as soon as the trials of this run are over
  bool writes_status = false;  // so does one of the trials
  std::string own_version;     // what our own status write made of it
  std::string seen_version;    // what came while it was under way
  std::set<std::string> told;
  std::optional<Backoff> defects;  // of its plan
  bool planned = false;            // since we lead
  // What was sent as its status, and what the server then had: the rest is somebody else's.
  std::uint64_t status_sent = 0, status_answered = 0;
  bool running = false;
  bool failed = false;  // one of the trials of this run
  bool due = false;     // it runs again at a time
};

// A write under way.
struct Engine::Trial {
  Ref owner;
  Write write;
  std::vector<Event> events = {};          // told when it has succeeded
  std::uint64_t content = 0;               // of the object that a status is about
  std::int64_t generation = 0;             // of it; it may be edited to and fro
  bool changes_acts = false;               // a status does so
  std::vector<std::string> new_acts = {};  // whose intents it brings
  Pending pending = {};
};

Engine::Engine(kube::Client& client, Random& random, EngineOptions options)
    : client_(client),
      random_(random),
      options_(std::move(options)),
      logger_(options_.logger ? *options_.logger : Logger::silent()),
      picture_(
          client, random,
          {.namespaces = options_.namespaces,
           .whole = options_.whole,
           .hash_secret = std::move(options_.hash_secret),
           .logger = options_.logger,
           .metrics = options_.metrics},
          [this](const kube::Resource& resource, const Table& table, const Table::Change& change) {
            changed(resource, table, change);
          },
          [this](const kube::Resource& resource) { stateChanged(resource); }),
      observer_(client.scheduler(), random, std::move(options_.observations),
                [this](const std::string& key) {
                  auto readers = fact_readers_.find(key);
                  if (readers == fact_readers_.end()) return;
                  for (const Ref* reader : readers->second) queue_.add(*reader);
                }),
      acts_(client.scheduler(), random, std::move(options_.acts),
            [this](const Ref& who) { queue_.add(who); }),
      sender_(client, std::move(options_.predecessors), [this] { return mayWrite(); }),
      queue_(client.scheduler(), [this] { wakeUp(); }, makeMeters()) {
  for (const Served& kind : options_.kinds) {
    served_[kind.resource] = &kind;
    picture_.know({.resource = kind.resource, .which = Scope::Which::All, .indexes = kind.indexes},
                  true);
  }
  for (const Scope& scope : options_.scopes) picture_.know(scope, false);
}

Engine::~Engine() = default;

// Kinds of the same name in different groups are counted together.
Queue::Meters Engine::makeMeters() {
  Queue::Meters meters;
  if (!options_.metrics) return meters;
  for (const Served& kind : options_.kinds) {
    std::string controller = lower(kind.resource.kind);
    std::unique_ptr<Meter>& meter = meters_[controller];
    if (!meter)
      meter = std::make_unique<Meter>(*options_.metrics, controller, options_.writes_in_flight);
    meters[kind.resource] = meter.get();
  }
  return meters;
}

// ---- Who has to look again

void Engine::changed(const kube::Resource& resource, const Table& table,
                     const Table::Change& change) {
  Ref ref{resource, change.key};
  if (served_.contains(resource)) planChanged(ref, change.object);

  // Children wake their owner: it may have to repair them.
  for (const auto& [index, value] : change.at)
    if (index == kByOwner.name)
      if (auto owner = by_uid_.find(value); owner != by_uid_.end()) queue_.add(*owner->second);

  auto wake = [&](const Readers& readers, auto concerns) {
    for (const Ref* reader : readers) {
      const Entry& entry = entries_.at(*reader);
      if (entry.strangers.contains(ref) ||
          std::any_of(entry.reads.begin(), entry.reads.end(), concerns))
        queue_.add(*reader);
    }
  };
  if (auto readers = object_readers_.find(ref); readers != object_readers_.end())
    wake(readers->second, [&](const Read& read) {
      return read.what == Read::What::Object && read.ref == ref &&
             read.seen != (change.object ? hashOf(read.view, *change.object) : 0);
    });
  for (const auto& [index, value] : change.at) {
    auto readers = list_readers_.find({ref.resource, std::string(index), value});
    if (readers == list_readers_.end()) continue;
    bool is_member = table.contains(ref.key, index, value);
    wake(readers->second, [&](const Read& read) {
      if (read.what != Read::What::List || read.ref.resource != ref.resource ||
          read.index != index || read.value != value)
        return false;
      auto member = read.members.find(ref.key);
      std::uint64_t before = member == read.members.end() ? 0 : member->second;
      return before != (is_member ? hashOf(read.view, *change.object) : 0);
    });
  }
}

// An object that has plans of its own came, changed or went.
void Engine::planChanged(const Ref& ref, const json::Value* object) {
  if (!object) return forget(ref);
  auto [found, is_new] = entries_.try_emplace(ref);
  Entry& entry = found->second;
  if (is_new) slots_.open(++unplanned_ == 0);
  std::string uid(kube::uid(*object));
  if (entry.uid != uid) {  // another one under the same name
    by_uid_.erase(entry.uid);
    entry.uid = uid;
    entry.failures.clear();
    entry.made.clear();
    entry.accepted.clear();
    entry.told.clear();
  }
  by_uid_.insert_or_assign(uid, &found->first);
  std::string_view version = kube::resourceVersion(*object);
  if (version == entry.own_version) return;
  // It may be what our own write makes of it, told before the answer.
  if (entry.writes_status) {
    entry.seen_version = version;
    return;
  }
  queue_.add(ref, is_new ? Queue::Rank::First : Queue::Rank::Live);
}

void Engine::forget(const Ref& ref) {
  auto found = entries_.find(ref);
  if (found == entries_.end()) return;
  subscribe(ref, std::vector<Read>());
  Entry& entry = found->second;
  for (const auto& [stranger, alone] : entry.strangers)
    unsubscribe(ref, {.what = Read::What::Object, .ref = stranger});
  in_flight_ -= entry.trials.size();
  if (entry.running) --running_;
  acts_.forget(ref);
  wake(slots_.ask(ref, {}));
  looked(entry);
  by_uid_.erase(entry.uid);
  waiting_.erase(ref);
  queue_.forget(ref);
  queue_.done(ref);
  entries_.erase(found);
}

// A kind came or went, or is known for the first time.
void Engine::stateChanged(const kube::Resource& resource) {
  for (const Ref& ref : std::exchange(waiting_, {})) queue_.add(ref, Queue::Rank::First);
  if (auto readers = kind_readers_.find(resource); readers != kind_readers_.end())
    for (const Ref* reader : readers->second) queue_.add(*reader);
  in_vain_ = 0;
  if (queue_.depth() > 0) wakeUp();
}

// Not from inside of what calls.
void Engine::wakeUp(Duration after) {
  if (std::exchange(work_queued_, true)) return;
  working_ = client_.scheduler().after(after, [this] {
    work_queued_ = false;
    work();
  });
}

void Engine::subscribe(const Ref& ref, std::vector<Read> reads) {
  Entry& entry = entries_[ref];
  reads.shrink_to_fit();  // it is kept as long as the object
  for (const Read& read : reads) subscribe(ref, read);
  std::vector<Read> before = std::exchange(entry.reads, std::move(reads));
  auto same = [](const Read& a, const Read& b) {
    return a.what == b.what && a.ref == b.ref && a.index == b.index && a.value == b.value;
  };
  for (const Read& read : before)
    if (std::none_of(entry.reads.begin(), entry.reads.end(),
                     [&](const Read& still) { return same(still, read); }) &&
        !(read.what == Read::What::Object && entry.strangers.contains(read.ref)))
      unsubscribe(ref, read);
}

void Engine::subscribe(const Ref& ref, const Read& read) {
  auto join = [&](Readers& readers) {
    auto place = std::lower_bound(readers.begin(), readers.end(), ref, isBefore);
    if (place == readers.end() || **place != ref) readers.insert(place, &entries_.find(ref)->first);
  };
  switch (read.what) {
    case Read::What::Object:
      return join(object_readers_[read.ref]);
    case Read::What::List:
      return join(list_readers_[{read.ref.resource, std::string(read.index), read.value}]);
    case Read::What::Served:
      return join(kind_readers_[read.ref.resource]);
    case Read::What::Fact:
      return join(fact_readers_[read.value]);
  }
}

void Engine::unsubscribe(const Ref& ref, const Read& read) {
  // True when nobody is left.
  auto leave = [&](auto& readers, const auto& key) {
    auto found = readers.find(key);
    if (found == readers.end()) return false;
    Readers& all = found->second;
    auto place = std::lower_bound(all.begin(), all.end(), ref, isBefore);
    if (place == all.end() || **place != ref) return false;
    all.erase(place);
    if (!all.empty()) return false;
    readers.erase(found);
    return true;
  };
  switch (read.what) {
    case Read::What::Object:
      if (leave(object_readers_, read.ref))
        // Not now: it may be its own watch that we are called from.
        client_.scheduler().post([this, alive = std::weak_ptr(alive_), ref = read.ref] {
          if (!alive.expired() && !object_readers_.contains(ref)) picture_.forgetAlone(ref);
        });
      break;
    case Read::What::List:
      leave(list_readers_, std::tuple(read.ref.resource, std::string(read.index), read.value));
      break;
    case Read::What::Served:
      leave(kind_readers_, read.ref.resource);
      break;
    case Read::What::Fact:
      if (leave(fact_readers_, read.value)) observer_.forget(read.value);
      break;
  }
}

// ---- Plans

void Engine::work() {
  if (!picture_.childrenKnown() || !picture_.current()) return;  // nothing could be done
  while (in_flight_ < options_.writes_in_flight) {
    // All of them look at the same, and it is not known yet: the rest would look in vain.
    if (in_vain_ >= kMostInVain) {
      in_vain_ = 0;
      return wakeUp(kLookAgain);
    }
    auto ref = queue_.take();
    if (!ref) return;
    run(*ref);
  }
}

void Engine::run(const Ref& ref) {
  auto object = picture_.find(ref);
  // What is going and asks nothing of us is left to go.
  if (!object) return done(ref);
  Entry& entry = entries_[ref];
  if (kube::isDeleting(*object) && kube::finalizers(*object).empty()) {
    looked(entry);
    return done(ref);
  }
  World world(*this, client_.scheduler().clock().now(), troublesOf(entry), ref);
  auto plan = planOf(ref, *object, world);
  subscribe(ref, world.takeReads());
  if (!plan) return defective(ref, *object, plan.error());
  entry.defects.reset();
  entry.due = world.dueTime().has_value();
  if (entry.due) queue_.addAfter(ref, *world.dueTime() - client_.scheduler().clock().now());
  if (!world.complete() || !picture_.childrenKnown()) {
    waiting_.insert(ref);
    ++in_vain_;
    return done(ref, Meter::Outcome::Requeue);
  }
  in_vain_ = 0;
  waiting_.erase(ref);
  if (!leads_) return done(ref);
  wake(slots_.ask(ref, world.turns()));
  looked(entry);
  settle(ref, *object, *plan, world.troubles());
}

// When all have been looked at, it is known who had their turn before we came.
void Engine::looked(Entry& entry) {
  if (std::exchange(entry.planned, true)) return;
  slots_.open(--unplanned_ == 0);
  wake(slots_.ready());
}

void Engine::wake(const std::vector<Ref>& refs) {
  for (const Ref& ref : refs) queue_.add(ref);
}

// A plan that has a defect costs its own object, not the others.
Result<Plan> Engine::planOf(const Ref& ref, const json::Value& object, World& world) {
  auto defect = [](std::string text) {
    return Error{.code = Code::Internal, .message = std::move(text)};
  };
  try {
    const Served& served = *served_.at(ref.resource);
    Plan plan = served.plan(object, world);
    for (const Child& child : plan.children) {
      if (picture_.knows(child.resource)) continue;
      if (!served.any_kind)
        return defect(
            format("it returned a {}, a kind that it has not declared", child.resource.kind));
      picture_.know({.resource = child.resource}, false);
    }
    return plan;
  } catch (const std::exception& error) {
    return defect(format("it threw: {}", error.what()));
  }
}

void Engine::defective(const Ref& ref, const json::Value& object, const Error& error) {
  Entry& entry = entries_.at(ref);
  if (!entry.defects) entry.defects.emplace(options_.backoff, random_);
  Duration wait = entry.defects->next();
  logger_.error("a plan has a defect; trying again",
                {{"object", ref.text()}, {"error", error.text()}, {"after", formatDuration(wait)}});
  Event event{.id = "defect " + error.text(),
              .warning = true,
              .reason = "PlanFailed",
              .message = error.text()};
  looked(entry);
  if (mayWrite() && entry.told.insert(event.id).second) tell(ref, object, event);
  entry.failed = true;
  queue_.addAfter(ref, wait);
  done(ref);
}

void Engine::done(const Ref& ref, Meter::Outcome outcome) {
  if (options_.metrics) {
    if (auto entry = entries_.find(ref); entry != entries_.end()) {
      if (std::exchange(entry->second.failed, false)) {
        outcome = Meter::Outcome::Error;
      } else if (entry->second.due && outcome == Meter::Outcome::Success) {
        outcome = Meter::Outcome::RequeueAfter;
      }
    }
    meters_.at(lower(ref.resource->kind))->reconciled(outcome);
  }
  queue_.done(ref);
}

// Sends what has to be sent; when there is nothing for the children, the status.
void Engine::settle(const Ref& ref, const json::Value& object, Plan& plan,
                    const std::vector<Trouble>& troubles) {
  Entry& entry = entries_[ref];
  Instant now = client_.scheduler().clock().instant();
  std::vector<Write> writes = reconcileChildren(ref, object, plan, observed(&entry));

  std::set<Ref> concerned;
  for (const Write& write : writes) concerned.insert(write.ref);
  std::erase_if(entry.failures, [&](const auto& failure) {
    return failure.first != ref && !concerned.contains(failure.first);
  });
  std::set<Ref> wanted;
  for (const Child& child : plan.children) wanted.insert(child.ref());
  std::erase_if(entry.strangers, [&](const auto& stranger) {
    const auto& [child, alone] = stranger;
    // As long as only its own watch tells that all is well, only that one will tell when it is not.
    bool settled =
        !concerned.contains(child) && (!alone || picture_.holds(child) || !wanted.contains(child));
    if (settled) unsubscribe(ref, {.what = Read::What::Object, .ref = child});
    return settled;
  });

  for (auto* lately : {&entry.made, &entry.repaired})
    std::erase_if(*lately, [&](const auto& made) { return now - made.second.at > kLived; });

  std::vector<Write> sent;
  bool untold = false;  // something waits that the plan does not know of
  for (Write& write : writes) {
    auto failure = entry.failures.find(write.ref);
    auto made = entry.made.find(write.ref);
    auto repaired = entry.repaired.find(write.ref);
    if (write.op == Write::Op::Conflict) {
      Entry::Failure& seen =
          entry.failures.try_emplace(write.ref, Backoff(options_.backoff, random_)).first->second;
      seen.reason = "NameConflict";
      seen.message = write.why;
      // Nothing else tells when it goes: it may be among what we see, with an owner that is gone.
      if (entry.strangers.try_emplace(write.ref, false).second)
        subscribe(ref, Read{.what = Read::What::Object, .ref = write.ref});
    } else if (auto stranger = entry.strangers.find(write.ref);
               write.op == Write::Op::Create && stranger != entry.strangers.end() &&
               stranger->second && picture_.watchAlone(write.ref) == State::NotYet) {
      waiting_.insert(ref);
    } else if (failure != entry.failures.end() && failure->second.retry_at > now) {
      queue_.addAfter(ref, failure->second.retry_at - now);  // another run may have taken its timer
      untold |= failure->second.reason.empty();
    } else if (write.op == Write::Op::Create && made != entry.made.end() &&
               made->second.again_at > now) {
      queue_.addAfter(ref, made->second.again_at - now);
      untold = true;
    } else if (write.op == Write::Op::Apply && repaired != entry.repaired.end() &&
               repaired->second.wanted == wantedHash(write.object) &&
               repaired->second.again_at > now) {
      queue_.addAfter(ref, repaired->second.again_at - now);
      Entry::Failure& seen =
          entry.failures.try_emplace(write.ref, Backoff(options_.backoff, random_)).first->second;
      seen.reason = "ChildContested";
      seen.message = format("somebody changes {} again and again", write.ref.text());
    } else {
      sent.push_back(std::move(write));
    }
  }
  if (troublesOf(entry) != troubles) {  // the plan has seen others
    queue_.add(ref);
    return done(ref);
  }
  // The status would be that of what was there before.
  if (sent.empty() && untold) return done(ref);
  if (sent.empty()) {
    auto failure = entry.failures.find(ref);
    const json::Value& acts = object["status"]["acts"];
    if (!plan.acts.empty() || !acts.array().empty() || acts_.has(ref))
      plan.status.set("acts", acts_.wanted(ref, acts, plan.acts));
    auto status = reconcileStatus(ref, object, plan, served_.at(ref.resource)->conditions,
                                  client_.scheduler().clock().now());
    for (const Event& event : plan.events)
      if (entry.told.insert(event.id).second) tell(ref, object, event);
    if (status && toldHash(status->object) == entry.status_sent &&
        toldHash(object) == entry.status_answered)
      status.reset();
    if (!status && mayWrite()) acts_.begin(ref, plan.acts);
    // Of what goes and waits for nothing of ours, there may be nothing to say.
    bool goes = kube::isDeleting(object) && !kube::hasFinalizer(object, plan.finalizer);
    if (!status || (goes && plan.conditions.empty())) return done(ref);
    // An intent must not be written over what another has written.
    if (status->object["status"]["acts"] != acts)
      status->object.make("metadata").make("resourceVersion") = kube::resourceVersion(object);
    if (failure != entry.failures.end() && failure->second.retry_at > now) {
      queue_.addAfter(ref, failure->second.retry_at - now);
      return done(ref);
    }
    sent.push_back(*std::move(status));
    entry.writes_status = true;
    entry.seen_version.clear();
  }
  if (!mayWrite()) return done(ref);
  ++running_;
  entry.running = true;
  for (Write& write : sent) {
    if (!mayWrite()) return;  // time passes while we send
    send(ref, object, std::move(write));
  }
}

std::vector<Trouble> Engine::troublesOf(const Entry& entry) const {
  std::vector<Trouble> troubles;
  for (const auto& [child, failure] : entry.failures)
    if (!failure.reason.empty()) troubles.push_back({child, failure.reason, failure.message});
  return troubles;
}

Observed Engine::observed(const Entry* entry) {
  Observed observed;
  observed.labelled = !options_.whole;
  observed.find = [this](const Ref& ref) { return picture_.find(ref); };
  observed.owned = [this](std::string_view uid) { return picture_.owned(uid); };
  observed.is_owner = [this](std::string_view uid) { return by_uid_.contains(uid); };
  observed.admitted = [this](const Ref& ref, json::Value object) {
    return picture_.admitted(ref.resource, std::move(object));
  };
  observed.accepted = [entry](const Write& write, const json::Value& there) {
    if (!entry) return false;
    auto accepted = entry->accepted.find(write.ref);
    return accepted != entry->accepted.end() &&
           accepted->second.wanted == wantedHash(write.object) &&
           accepted->second.content == contentHash(there);
  };
  return observed;
}

Engine::Preview Engine::preview(const Ref& ref, const json::Value& object) {
  World world(*this, client_.scheduler().clock().now());
  Preview preview;
  preview.plan = served_.at(ref.resource)->plan(object, world);
  preview.complete = world.complete() && picture_.childrenKnown();
  preview.reads = world.takeReads();
  return preview;
}

std::vector<Ref> Engine::readersOf(const Ref& ref) const {
  std::set<Ref> all;
  auto add = [&](const Readers& readers) {
    for (const Ref* reader : readers) all.insert(*reader);
  };
  if (auto readers = object_readers_.find(ref); readers != object_readers_.end())
    add(readers->second);
  for (const auto& [list, readers] : list_readers_)
    if (std::get<0>(list) == ref.resource) add(readers);
  return {all.begin(), all.end()};
}

const std::vector<Read>* Engine::readsOf(const Ref& ref) const {
  auto entry = entries_.find(ref);
  return entry == entries_.end() ? nullptr : &entry->second.reads;
}

void Engine::lead(bool leads) {
  if (std::exchange(leads_, leads) == leads) return;
  // Another one may have written until just now, and our watches may be behind what it knew: what
  // it did must not be undone.
  if (leads) picture_.drawAnew();
  slots_ = {};
  acts_.giveUp();
  unplanned_ = entries_.size();
  slots_.open(unplanned_ == 0);
  for (auto& [ref, entry] : entries_) {
    entry.planned = false;
    if (leads) {
      queue_.add(ref, Queue::Rank::First);
    } else if (entry.running) {
      entry.trials.clear();
      entry.running = entry.writes_status = false;
      queue_.done(ref);
    }
  }
  if (leads) return;
  running_ = in_flight_ = 0;
  telling_.clear();
}

// ---- Writes

// A process that was stopped for a while finds out here, before it does harm.
bool Engine::mayWrite() {
  if (leads_ && options_.still_leads && !options_.still_leads()) lead(false);
  return leads_;
}

void Engine::send(const Ref& ref, const json::Value& object, Write write) {
  logger_.debug("writing", {{"for", ref.text()}, {"what", write.text()}});
  auto trial = std::make_shared<Trial>(ref, std::move(write));
  if (trial->write.op == Write::Op::Status) {
    const json::Value& status = trial->write.object["status"];
    trial->events = transitions(object, status);
    trial->content = contentHash(object);
    trial->generation = kube::generation(object);
    trial->changes_acts = status["acts"] != object["status"]["acts"];
    std::set<std::string> known;
    for (const json::Value& act : object["status"]["acts"].array())
      known.insert(act["id"].string());
    for (const json::Value& act : status["acts"].array())
      if (!known.contains(act["id"].string())) trial->new_acts.push_back(act["id"].string());
  }
  entries_.at(ref).trials.push_back(trial);
  ++in_flight_;
  picture_.countWrite(trial->write);
  // Calls back only as long as the trial is not given up: its Pending is dropped with it.
  std::weak_ptr<Trial> weak = trial;
  trial->pending = sender_.send(trial->write, [this, weak](Result<json::Value> answer) {
    auto trial = weak.lock();
    if (!trial) return;
    if (answer) return succeeded(trial, *answer);
    if (trial->write.op == Write::Op::Create && answer.error().code == Code::AlreadyExists)
      return taken(trial);
    failed(trial, answer.error());
  });
}

// Somebody may delete it as often as we make it, or we may not see that it is there: once it is
// made again at once, then with patience.
void Engine::noteMade(Entry& entry, const Ref& child) {
  Entry::Made& made =
      entry.made.try_emplace(child, Backoff(options_.backoff, random_)).first->second;
  made.at = client_.scheduler().clock().instant();
  if (++made.times > 1) made.again_at = made.at + made.backoff.next();
}

// Somebody may undo it as often: ten times it is set back at once.
void Engine::noteRepaired(Entry& entry, const Ref& child, std::string_view wanted) {
  auto before = entry.repaired.find(child);
  if (before != entry.repaired.end() && before->second.wanted != wanted)
    entry.repaired.erase(before);  // that was a change of ours
  Entry::Made& made =
      entry.repaired.try_emplace(child, Backoff(options_.backoff, random_)).first->second;
  made.wanted = wanted;
  made.at = client_.scheduler().clock().instant();
  if (++made.times > kRepairs) made.again_at = made.at + made.backoff.next();
}

// It is there, but not among what we see: it lost our label, is someone else's, or is newer than
// our watch. To be looked at by itself.
void Engine::taken(const std::shared_ptr<Trial>& trial) {
  const Ref& child = trial->write.ref;
  Entry& entry = entries_.at(trial->owner);
  noteMade(entry, child);
  entry.strangers[child] = true;
  subscribe(trial->owner, Read{.what = Read::What::Object, .ref = child});
  entry.again = true;
  ended(trial);
}

void Engine::statusWritten(const Trial& trial, const json::Value& answer) {
  Entry& entry = entries_.at(trial.owner);
  // An edit that came just before is in the answer, whenever the watch tells of it.
  if (contentHash(answer) != trial.content || kube::generation(answer) != trial.generation)
    entry.again = true;
  entry.own_version = kube::resourceVersion(answer);
  entry.status_sent = toldHash(trial.write.object);
  entry.status_answered = toldHash(answer);
  acts_.wrote(trial.owner, trial.new_acts);
  if (trial.changes_acts) entry.again = true;  // to begin them, or to be done with them
  for (const Event& event : trial.events) tell(trial.owner, answer, event);
}

void Engine::succeeded(const std::shared_ptr<Trial>& trial, const json::Value& answer) {
  Entry& entry = entries_.at(trial->owner);
  const Write& write = trial->write;
  entry.failures.erase(write.ref);
  if (write.op == Write::Op::Create) noteMade(entry, write.ref);
  bool gone = answer.isNull();
  if (write.op == Write::Op::Apply) {
    noteRepaired(entry, write.ref, wantedHash(write.object));
    entry.accepted.erase(write.ref);
    // It may have been deleted, to be made anew.
    if (!gone && !kube::isDeleting(answer) && isOtherwise(write, answer)) {  // not fought over
      entry.accepted[write.ref] = {std::string(wantedHash(write.object)),
                                   contentHash(picture_.admitted(write.ref.resource, answer))};
      picture_.countAccepted(write.ref.resource);
      logger_.warn("the server changed what was applied",
                   {{"object", write.ref.text()}, {"for", trial->owner.text()}});
    }
  }
  if (write.op == Write::Op::Status) {
    statusWritten(*trial, answer);
  } else {
    entry.again = true;
  }
  if (!gone) {
    picture_.fold(write.ref, answer);
  } else if (write.ref != trial->owner) {
    picture_.drop(write.ref);
  }
  ended(trial);
}

void Engine::failed(const std::shared_ptr<Trial>& trial, const Error& error) {
  Entry& entry = entries_.at(trial->owner);
  const Write& write = trial->write;
  Entry::Failure& failure =
      entry.failures.try_emplace(write.ref, Backoff(options_.backoff, random_)).first->second;
  Duration wait = std::max(failure.backoff.next(), error.retry_after.value_or(0s));
  failure.retry_at = client_.scheduler().clock().instant() + wait;
  bool own = write.ref == trial->owner;
  ++failure.times;
  if (!own && (isRefusal(error) || failure.times >= kWorthTelling)) {
    failure.reason = "ChildRejected";
    failure.message = error.text();
  }
  // The plan looks again before the next try, and tells.
  if (!own) entry.again = true;
  entry.failed = true;
  if (options_.metrics) meters_.at(lower(trial->owner.resource->kind))->retried();
  logger_.warn("writing failed; trying again", {{"what", write.text()},
                                                {"for", trial->owner.text()},
                                                {"error", error.text()},
                                                {"after", formatDuration(wait)}});
  queue_.addAfter(trial->owner, wait);
  ended(trial);
}

void Engine::ended(const std::shared_ptr<Trial>& trial) {
  auto found = entries_.find(trial->owner);
  if (found == entries_.end()) return;
  Entry& entry = found->second;
  if (std::erase(entry.trials, trial) == 0) return;
  --in_flight_;
  if (entry.trials.empty()) {
    entry.running = false;
    --running_;
    Ref ref = trial->owner;
    bool again = std::exchange(entry.again, false);
    if (std::exchange(entry.writes_status, false))
      again |= !entry.seen_version.empty() && entry.seen_version != entry.own_version;
    if (again) queue_.add(ref);
    done(ref);
  }
  if (queue_.depth() > 0) work();
}

// Events are told as well as can be: nobody waits for them.
void Engine::tell(const Ref& ref, const json::Value& object, const Event& event) {
  if (telling_.size() >= kMaxTelling || !mayWrite()) return;
  std::string ns = ref.key.ns.empty() ? "default" : ref.key.ns;
  std::string uid(kube::uid(object));
  std::string now = formatTime(client_.scheduler().clock().now());
  json::Value body = json::Object{
      {"metadata",
       json::Object{
           {"name", kube::boundedName(ref.key.name, "." + shortHash(uid + " " + event.id), 253)},
           {"namespace", ns}}},
      {"involvedObject", json::Object{{"apiVersion", ref.resource->apiVersion()},
                                      {"kind", ref.resource->kind},
                                      {"name", ref.key.name},
                                      {"namespace", ref.key.ns},
                                      {"uid", uid}}},
      {"type", event.warning ? "Warning" : "Normal"},
      {"reason", event.reason},
      {"message", shorten(event.message, 1000)},
      {"source", json::Object{{"component", options_.controller}}},
      {"reportingComponent", options_.controller},
      {"firstTimestamp", now},
      {"lastTimestamp", now},
      {"count", 1}};
  std::uint64_t id = ++told_;
  telling_.emplace_back(
      id, client_.create(kEvents, body, {.retry = false}, [this, id](Result<json::Value> told) {
        if (!told && told.error().code != Code::AlreadyExists)
          logger_.warn("an event was lost", {{"error", told.error().text()}});
        std::erase_if(telling_, [&](const auto& one) { return one.first == id; });
      }));
}

}  // namespace cadre::engine
