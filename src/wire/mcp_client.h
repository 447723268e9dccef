#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/function.h"
#include "base/result.h"
#include "base/scheduler.h"
#include "json/value.h"
#include "net/http.h"

namespace cadre::wire {

// How a server is spoken to.
enum class McpEra {
  Unknown,    // ask it
  Handshake,  // up to 2025-11-25: initialize, then a session if the server wants one
  Stateless,  // from 2026-07-28: every request tells all about itself
};

// Why an MCP exchange failed, as Error::reason. Error::code tells more: among others Unavailable
// and DeadlineExceeded of what is unreachable; Unauthenticated, Forbidden and NotFound for the
// server's 401, 403 and 404, Unimplemented for a version or method that one side does not have,
// DataLoss for nonsense and ResourceExhausted beyond a limit of what breaks the protocol.
constexpr std::string_view kMcpUnreachable = "Unreachable";      // no answer of an MCP server came
constexpr std::string_view kMcpProtocolError = "ProtocolError";  // one came, and it does not help

struct McpServerInfo {
  McpEra era = McpEra::Unknown;
  std::string protocol_version;
  std::string name, version, instructions;  // as it says, empty where it does not
  json::Value capabilities;
};

struct McpTool {
  std::string name;
  std::string title, description;           // empty where there is none
  json::Value input_schema, output_schema;  // null where there is none
  json::Value annotations;

  bool operator==(const McpTool&) const = default;
};

struct McpToolList {
  std::vector<McpTool> tools;         // in the server's order
  std::optional<Duration> fresh_for;  // how long the server says that this list may be kept
  std::vector<std::string> left_out;  // "name: why", tools whose headers cannot be sent as asked
};

struct McpToolResult {
  bool is_error = false;   // the tool failed, and the content says how
  json::Array content;     // blocks, each an object with a type
  json::Value structured;  // structuredContent; null where there is none

  // The text blocks, joined by newlines; other blocks as a short placeholder.
  std::string text() const;
};

struct McpLimits {
  std::size_t answer_bytes =
      16u << 20;  // of one answer, of one event stream, of all pages of a list
  std::size_t error_bytes = 64u << 10;  // of the body of an HTTP error
  std::size_t values = 1u << 20;        // in one JSON document
  std::size_t depth = 64;
  std::size_t tools = 10000;
  std::size_t pages = 100;
  std::size_t session_id_bytes = 1024;
  std::size_t server_requests = 100;  // in one event stream
  std::size_t resumptions = 20;       // of one event stream
};

struct McpOptions {
  net::Url url;               // of the endpoint: see mcpUrl()
  net::Headers headers = {};  // sent with every request; credentials belong here
  std::string client_name = "cadre";
  std::string client_version = "0";
  McpEra era = McpEra::Unknown;      // what is known of the server from before
  Duration probe_timeout = 4s;       // for the question which era it is
  Duration handshake_timeout = 10s;  // for that and the handshake together
  Duration list_timeout = 10s;       // for all pages, and a handshake before them
  Duration call_timeout = 60s;       // for a call, and a handshake before it
  Duration close_timeout = 5s;       // for the end of a session, and for notifications
  McpLimits limits = {};
  Function<void()> tools_changed = nullptr;  // the server says that its list is another now
};

// The URL of the MCP endpoint of a server: its base with "/mcp", unless it ends so already.
Result<net::Url> mcpUrl(std::string_view base);

// A client of one MCP server over Streamable HTTP. The handshake is made when it is first needed,
// once for all who wait, and its session is used for everything after. A session that the server no
// longer knows is made anew, once for each call; a list is also asked for again after a lost
// connection, a tool is not called twice unless the server refused the first call unseen. An event
// stream that breaks off is resumed where the server numbers its events.
//
// The HTTP client is one that sends to the URL's origin, and must outlive this. Its callbacks never
// come from inside send(). Connecting is timed by it, everything else here.
//
// Callbacks come on the scheduler's thread, once, never from inside the call and never after the
// Pending was dropped. Dropping one gives up the call and lets the server know; a handshake that is
// under way goes on, for the next call. Destroying the client drops everything; close() first ends
// the session at the server. Belongs to the scheduler's thread. Errors are as above.
class McpClient {
 public:
  McpClient(Scheduler& scheduler, net::HttpClient& http, McpOptions options);
  ~McpClient();
  McpClient(const McpClient&) = delete;
  McpClient& operator=(const McpClient&) = delete;

  // Only the handshake, if there was none yet.
  Pending connect(Function<void(Result<McpServerInfo>)> done);
  // All pages of tools/list.
  Pending listTools(Function<void(Result<McpToolList>)> done);
  // tools/call; the arguments are an object, or null. A tool that fails is no Error.
  Pending callTool(std::string name, json::Value arguments,
                   Function<void(Result<McpToolResult>)> done);
  // Ends the session. A server that does not take that counts as done. Later calls start another.
  Pending close(Function<void(Result<>)> done);

  // What the last handshake said.
  const McpServerInfo& server() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace cadre::wire
