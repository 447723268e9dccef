// Private to wire: what the stateless era of MCP repeats in HTTP headers, so that proxies can route
// by it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "json/value.h"
#include "net/http.h"

namespace cadre::wire {

// An argument that a tool wants repeated as the header Mcp-Param-<token>.
struct McpParamHeader {
  std::vector<std::string> path;  // through the arguments
  std::string token;
};

// Those that a tool's input schema asks for (x-mcp-header). InvalidArgument where it does so in a
// way that the protocol forbids: such a tool must not be offered.
Result<std::vector<McpParamHeader>> mcpParamHeaders(const json::Value& input_schema);

// Adds the headers for the arguments that are there.
void addParamHeaders(net::Headers& headers, const std::vector<McpParamHeader>& wanted,
                     const json::Value& arguments);

// A text as the value of a header: itself, or =?base64?...?= where it would not survive the way.
std::string mcpHeaderValue(std::string_view text);

}  // namespace cadre::wire
