#include "kube/endpoints.h"

#include <algorithm>
#include <optional>

#include "base/format.h"

namespace cadre::kube {

using json::Value;

bool isReadyEndpoint(const Value& endpoint) {
  return endpoint["conditions"]["ready"].boolean(true);
}

std::vector<net::Place> readyPlaces(const Slices& slices, const std::string& port) {
  std::vector<net::Place> out;
  for (const auto& [name, slice] : slices) {
    std::optional<std::uint16_t> number;
    for (const Value& one : slice["ports"].array())
      if (one["name"].string() == port) number = static_cast<std::uint16_t>(one["port"].integer());
    if (!number) continue;
    for (const Value& endpoint : slice["endpoints"].array())
      if (isReadyEndpoint(endpoint)) out.push_back({endpoint["addresses"].at(0).string(), *number});
  }
  return out;
}

Result<std::vector<net::Place>> placesOf(const ObjectKey& key, const Value& service,
                                         const Value& port, const Slices& slices) {
  auto missing = [](std::string message) {
    return Error{.code = Code::Unavailable, .message = std::move(message)};
  };
  if (service.isNull()) return missing(format("there is no Service {}", key.text()));
  const json::Array& ports = service["spec"]["ports"].array();
  auto found = std::ranges::find_if(
      ports, [&](const Value& one) { return one[port.isInteger() ? "port" : "name"] == port; });
  if (found == ports.end())
    return missing(format("the Service {} has no port {}", key.text(),
                          port.isInteger() ? format("{}", port.integer()) : port.string()));
  auto places = readyPlaces(slices, (*found)["name"].string());
  if (places.empty()) return missing(format("the Service {} has no ready pod", key.text()));
  return places;
}

}  // namespace cadre::kube
