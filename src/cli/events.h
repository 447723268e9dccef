#pragma once

#include <string>
#include <vector>

#include "cli/cluster.h"
#include "kube/discovery.h"

namespace cadre::cli {

// Something that happened to an object, whichever of the two APIs of events told it.
struct Happened {
  Time last = {};   // the epoch when it is not told
  Time first = {};  // the same as `last` for what happened once
  std::int64_t count = 1;
  std::string ns, type, reason, message;
  std::string kind, name;  // of whom it tells
  std::string uid;         // of whom it tells; empty when it is not told

  static Happened of(const json::Value& event);
};

// Only what tells of one object; empty: all.
struct About {
  std::string kind, name;
  bool matches(const Happened& event) const;
};

// The kinds of events that a server has: two, of which some servers make one.
std::vector<kube::Resource> eventKinds(const kube::Discovery& discovery);

// What happened, the oldest first; each once.
Result<std::vector<Happened>> eventsOf(Cluster& cluster, const kube::Discovery& discovery,
                                       const std::string& ns, const About& about);

// "5m", "5m (x3 over 1h)"
std::string seenText(const Happened& event, Time now);

}  // namespace cadre::cli
