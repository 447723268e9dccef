#include "node/service_table.h"

#include <utility>

namespace cadre::node {
namespace {

using json::Value;

constexpr Duration kAgain = 5s;

Value placeJson(const net::Place& place) {
  return json::Object{{"address", place.address}, {"port", place.port}};
}

net::Place placeOf(const Value& value) {
  return {value["address"].string(), static_cast<std::uint16_t>(value["port"].integer())};
}

}  // namespace

Value ServiceTable::toJson() const {
  json::Array list;
  for (const auto& [place, entry] : entries) {
    json::Array places;
    for (const net::Place& one : entry.places) places.push_back(placeJson(one));
    Value out = placeJson(place);
    out.make("service") = entry.service;
    out.make("places") = std::move(places);
    list.push_back(std::move(out));
  }
  return json::Object{{"services", std::move(list)}};
}

ServiceTable ServiceTable::parse(const Value& value) {
  ServiceTable out;
  for (const Value& one : value["services"].array()) {
    Entry& entry = out.entries[placeOf(one)];
    entry.service = one["service"].string();
    for (const Value& place : one["places"].array()) entry.places.push_back(placeOf(place));
  }
  return out;
}

std::optional<net::Place> ServiceRelays::next(const net::Place& asked) {
  auto found = table_.entries.find(asked);
  if (found == table_.entries.end() || found->second.places.empty()) return std::nullopt;
  const auto& places = found->second.places;
  return places[turns_[asked]++ % places.size()];
}

Result<> ServiceRelays::listenAt(const net::Place& place) {
  CADRE_LET(all_, net::Relay::listen(loop_, place,
                                     [this](const net::Place& asked) { return next(asked); }));
  return {};
}

void ServiceRelays::listen(const ServiceTable& table) {
  std::erase_if(listening_, [&](const auto& one) {
    auto before = table_.entries.find(one.first);
    auto now = table.entries.find(one.first);
    // Connections to a Service that is another one now end.
    return now == table.entries.end() || before == table_.entries.end() ||
           before->second.service != now->second.service;
  });
  setTable(table);
  listenAgain();
}

void ServiceRelays::setTable(const ServiceTable& table) {
  table_ = table;
  std::erase_if(turns_, [&](const auto& one) { return !table_.entries.contains(one.first); });
}

void ServiceRelays::listenAgain() {
  bool trouble = false;
  for (const auto& [place, entry] : table_.entries) {
    Listening& one = listening_[place];
    if (entry.places.empty()) {
      if (one.relay) one.relay->refuse();
      continue;
    }
    if (!one.relay) listen(place, one);
    trouble |= !one.relay || !one.relay->accept();
  }
  again_ = trouble ? loop_.after(kAgain, [this] { listenAgain(); }) : Pending();
}

void ServiceRelays::listen(const net::Place& place, Listening& one) {
  auto relay = net::Relay::listen(loop_, place, [this, place](const auto&) { return next(place); });
  if (relay) {
    one.relay = *std::move(relay);
    return;
  }
  std::string why = relay.error().message;
  if (relay.error().code == Code::Forbidden)
    why += "; ports below 1024 are for root, or allowed by net.ipv4.ip_unprivileged_port_start";
  if (std::exchange(one.trouble, why) != why && logger_)
    logger_->warn("a Service cannot be served",
                  {{"service", table_.entries[place].service}, {"error", why}});
}

}  // namespace cadre::node
