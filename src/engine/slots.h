#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/object.h"

namespace cadre::engine {

// One of the turns that an object asks for.
struct Turn {
  std::string pool;
  std::size_t limit = 1;
  bool holds =
      false;  // by what its status says it has begun: it keeps its turn, whatever the limit
};

// Turns that many objects share, so many at a time. Who asked first comes first. Nobody has to look
// at the others.
class Slots {
 public:
  // Until it opens, only those have their turn who have begun.
  void open(bool open) { open_ = open; }
  // Whether it would have its turn if it asked now.
  bool admits(const Ref& who, const Turn& turn) const;
  // Asks for these, and for no others any more. Returns those whose turn may have come by that.
  std::vector<Ref> ask(const Ref& who, const std::vector<Turn>& turns);
  // Those who wait and could have their turn.
  std::vector<Ref> ready() const;

 private:
  struct Pool {
    std::size_t limit = 1;
    std::set<Ref> holders = {};
    std::vector<Ref> waiting = {};  // in the order in which they asked
  };
  bool open_ = true;
  std::map<std::string, Pool> pools_;
  std::map<Ref, std::set<std::string>> asked_;
};

}  // namespace cadre::engine
