#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/scheduler.h"
#include "hub/objects.h"
#include "net/http.h"

namespace cadre::sim {

// What an oracle says is wrong: "O2 configmaps/a: ...". Each once.
class Alarms {
 public:
  void raise(std::string_view oracle, std::string what) {
    raised_.insert(std::string(oracle) + " " + std::move(what));
  }
  const std::set<std::string>& raised() const { return raised_; }

 private:
  std::set<std::string> raised_;
};

// Everything that the hub keeps, in its order. Judges by itself that revisions have no gaps (O11),
// that leases change hands properly (S7), and that no value of a Secret is anywhere else (O10).
class History {
 public:
  struct Event {
    std::int64_t revision = 0;
    std::string type;  // as a watch tells it
  };
  struct Counts {
    int created = 0, deleted = 0;
    bool operator==(const Counts&) const = default;
  };

  History(std::string ns, Alarms& alarms) : ns_(std::move(ns)), alarms_(alarms) {}

  void add(const std::vector<hub::Line>& lines);
  // Whether what came out somewhere has a value of a Secret in it.
  void look(std::string_view where, std::string_view text);

  // Only of the namespace.
  const std::vector<Event>& of(const std::string& resource) const;
  const std::map<std::string, Counts>& counts() const { return counts_; }  // "configmaps a"
  void countAnew() { counts_.clear(); }
  std::uint64_t changes() const { return changes_; }  // but for leases
  std::uint64_t digest() const { return digest_; }    // of what happened to whom

 private:
  void count(const hub::Line& line);
  void learnSecrets(const std::string& text);
  void lookAtLease(const std::string& text);

  const std::string ns_;
  Alarms& alarms_;
  std::int64_t revision_ = 0;
  std::set<std::string> there_;
  std::map<std::string, std::vector<Event>> events_;
  std::map<std::string, Counts> counts_;
  std::set<std::string> secrets_;
  std::string holder_;
  std::int64_t transitions_ = 0;
  std::uint64_t changes_ = 0, digest_ = 0;
};

// Somebody who watches a collection, goes away now and then, and comes back to where he was. Hears
// exactly what happened, in its order (O11).
class Listener {
 public:
  // `path`: of the collection. Listens to what happens from now on.
  Listener(Scheduler& scheduler, Random& random, std::unique_ptr<net::HttpClient> way,
           std::string path, std::string resource, std::int64_t revision, const History& history,
           Alarms& alarms);
  // All that happened has been heard, if there was time to.
  void finish();

 private:
  void listen();
  void hear(std::string_view line);

  Scheduler& scheduler_;
  Random& random_;
  const std::unique_ptr<net::HttpClient> way_;
  const std::string path_, resource_;
  const History& history_;
  Alarms& alarms_;
  std::int64_t revision_;
  std::size_t heard_;
  std::string buffer_;
  Pending watch_, coming_back_;
};

}  // namespace cadre::sim
