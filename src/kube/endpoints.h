#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "kube/meta.h"
#include "net/relay.h"

namespace cadre::kube {

// The label by which a slice says whose it is.
inline constexpr std::string_view kServiceName = "kubernetes.io/service-name";

// The slices of one Service, by their names.
using Slices = std::map<std::string, json::Value>;

// Slices say nothing when they mean yes.
bool isReadyEndpoint(const json::Value& endpoint);
// Where ready pods offer the port of that name.
std::vector<net::Place> readyPlaces(const Slices& slices, const std::string& port);

// Where the ready pods behind a port of a Service are, which is meant by its number or by its name;
// else what is missing, in words. The Service is null where there is none.
Result<std::vector<net::Place>> placesOf(const ObjectKey& key, const json::Value& service,
                                         const json::Value& port, const Slices& slices);

}  // namespace cadre::kube
