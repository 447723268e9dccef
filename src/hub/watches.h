#pragma once

#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "base/random.h"
#include "hub/failure.h"
#include "hub/kind.h"
#include "hub/objects.h"
#include "hub/render.h"
#include "kube/selector.h"
#include "net/http_server.h"

namespace cadre::hub {

// Which objects of a kind are meant.
struct Selection {
  std::string ns;  // empty: all
  kube::LabelSelector labels;
  kube::FieldSelector fields;

  bool matches(const Stored& state) const;
};

// The watches that are open, and what they are told. One that does not take what it is told is
// ended, and nothing is kept for it; the list that it begins with may wait to be read.
class Watches {
 public:
  struct Limits {
    // Fewer than there are connections (net::HttpServerOptions): one is left for everybody else.
    std::size_t count = 3'000, of_one_user = 1'500;
    std::size_t backlog = 8u << 20;
    Duration bookmarks = 60s;
  };
  struct Wanted {
    KindRef kind;
    Selection selection;
    Form form;
    Include include = Include::Metadata;
    bool bookmarks = false;
    Duration timeout = 0s;
    std::string user = {};  // whose it is; empty: of somebody who may have any number
  };

  Watches(Scheduler& scheduler, Limits limits);
  ~Watches();

  std::size_t count() const { return watches_.size(); }
  std::size_t count(const std::string& user) const {
    auto found = by_user_.find(user);
    return found == by_user_.end() ? 0 : found->second;
  }
  // Begins with what there is (ADDED, and a bookmark that says so), or with what happened since a
  // revision. `revision`: what is told from now on comes after it.
  void open(std::shared_ptr<net::ServerRequest> request, Wanted wanted,
            const std::vector<State>& initial, std::int64_t revision, bool initial_bookmark);
  void resume(std::shared_ptr<net::ServerRequest> request, Wanted wanted,
              const std::vector<Change>& changes, std::int64_t revision);
  // A stream that says nothing but why there is none.
  static void refuse(net::ServerRequest& request, const Failure& failure);

  void told(const Change& change);
  // The kind is served no more, but in these versions.
  void end(std::string_view storage, const std::set<std::string>& versions = {});

 private:
  struct Watch;

  std::shared_ptr<Watch> add(std::shared_ptr<net::ServerRequest> request, Wanted wanted,
                             std::int64_t revision);
  void tell(Watch& watch, const Change& change, State& gone);
  // The line that was written last.
  struct Line {
    State state = {};
    KindRef kind = {};
    std::string type = {}, line = {};
  };
  void put(Watch& watch, std::string_view type, const State& state);
  void send(Watch& watch, std::string_view type, const State& state);
  void bookmark(Watch& watch, bool initial_end);
  void bookmarkAll();
  void drop(const std::shared_ptr<Watch>& watch);

  Scheduler& scheduler_;
  const Limits limits_;
  std::int64_t revision_ = 0;  // the newest that was told
  std::list<std::shared_ptr<Watch>> watches_;
  std::map<std::string, std::size_t> by_user_;
  Line last_;
  Pending bookmarks_;
};

}  // namespace cadre::hub
