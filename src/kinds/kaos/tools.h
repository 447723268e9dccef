#pragma once

#include "engine/observe.h"
#include "net/loop.h"

namespace cadre::kaos {

// Asks MCP servers for their tools: "mcp-tools", by {endpoint}; the names as a list. Reaches them
// by their Services, so from inside the cluster. Errors begin with Unreachable or ProtocolError.
engine::ObservationClass toolsObservation(net::Loop& loop, Duration refresh);

}  // namespace cadre::kaos
