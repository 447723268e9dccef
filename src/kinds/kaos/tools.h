#pragma once

#include "engine/observe.h"
#include "kube/client.h"
#include "net/loop.h"

namespace cadre::kaos {

// Asks MCP servers for their tools: "mcp-tools", by {endpoint, namespace, service, port}; the names
// as a list. A pod reaches the endpoint itself; who is outside of the cluster goes through the API
// server. Errors begin with Unreachable or ProtocolError.
engine::ObservationClass toolsObservation(net::Loop& loop, kube::Client& client, Duration refresh);

}  // namespace cadre::kaos
