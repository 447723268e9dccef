#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "json/value.h"
#include "net/relay.h"

namespace cadre::node {

// Where connections to Services go: for the address and port of each, where its ready pods are. A
// value, which travels as JSON to whoever relays.
struct ServiceTable {
  struct Entry {
    std::string service;  // "ns/name", for people
    std::vector<net::Place> places;

    bool operator==(const Entry&) const = default;
  };
  std::map<net::Place, Entry> entries;

  json::Value toJson() const;
  static ServiceTable parse(const json::Value& value);
  bool operator==(const ServiceTable&) const = default;
};

// Passes connections to Services on, each to the next of its places: to all that are asked for at
// one port, or at the addresses of the Services themselves. Belongs to its loop.
class ServiceRelays {
 public:
  ServiceRelays(net::Loop& loop, Logger* logger) : loop_(loop), logger_(logger) {}

  // Listens on the addresses of the table from now on. What cannot be listened to is tried again
  // and again, and told once.
  void listen(const ServiceTable& table);
  // Takes what is redirected to one port; the table is known by then and later.
  Result<> listenAt(const net::Place& place);
  void setTable(const ServiceTable& table);

 private:
  struct Listening {
    std::unique_ptr<net::Relay> relay;
    std::string trouble;
  };
  std::optional<net::Place> next(const net::Place& asked);
  void listenAgain();
  void listen(const net::Place& place, Listening& one);

  net::Loop& loop_;
  Logger* const logger_;
  ServiceTable table_;
  std::map<net::Place, std::size_t> turns_;
  std::map<net::Place, Listening> listening_;
  std::unique_ptr<net::Relay> all_;
  Pending again_;
};

}  // namespace cadre::node
