#include "wire/mcp_client.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "base/format.h"
#include "base/strings.h"
#include "wire/json_rpc.h"
#include "wire/mcp_exchange.h"
#include "wire/mcp_headers.h"

namespace cadre::wire {

namespace {

constexpr std::string_view kStatelessVersion = "2026-07-28";
// What initialize offers is the first; any of them may be the answer.
constexpr std::array<std::string_view, 4> kHandshakeVersions = {"2025-11-25", "2025-06-18",
                                                                "2025-03-26", "2024-11-05"};
constexpr std::string_view kMeta = "io.modelcontextprotocol/";
// Errors of the stateless era have these numbers.
constexpr std::int64_t kStatelessErrorsFirst = -32099, kStatelessErrorsLast = -32020;
constexpr std::int64_t kHeaderMismatch = -32020;
constexpr std::int64_t kUnsupportedVersion = -32022;

bool isHandshakeVersion(std::string_view version) {
  return std::find(kHandshakeVersions.begin(), kHandshakeVersions.end(), version) !=
         kHandshakeVersions.end();
}

bool listsVersion(const json::Value& list, auto wanted) {
  return std::any_of(list.array().begin(), list.array().end(),
                     [&](const json::Value& version) { return wanted(version.string()); });
}

bool speaksStateless(const json::Value& list) {
  return listsVersion(list, [](std::string_view version) { return version == kStatelessVersion; });
}

Error protocolError(const RpcError& error) {
  Error out = toError(error);
  out.reason = kMcpProtocolError;
  return out;
}

Error malformed(std::string what) { return mcpProtocolError(Code::DataLoss, std::move(what)); }

// An answer that speaks for a server which is not able now, whatever era it is of.
bool saysNothingOfEra(int status) {
  return status == 401 || status == 403 || status == 429 || status == 502 || status == 503 ||
         status == 504;
}

Result<McpTool> readTool(const json::Value& tool) {
  if (!tool["name"].isString() || tool["name"].string().empty())
    return malformed("its list has a tool without a name");
  return McpTool{.name = tool["name"].string(),
                 .title = tool["title"].string(),
                 .description = tool["description"].string(),
                 .input_schema = tool["inputSchema"],
                 .output_schema = tool["outputSchema"],
                 .annotations = tool["annotations"]};
}

Result<McpToolResult> readToolResult(const json::Value& result) {
  if (result["resultType"] == "input_required")
    return mcpProtocolError(Code::Unimplemented,
                            "the tool asks for input, and there is nobody to give it");
  const json::Value& content = result["content"];
  if (!content.isArray() && !content.isNull())
    return malformed(format("the tool's content is of type {}", content.typeName()));
  if (content.isNull() && result["structuredContent"].isNull())
    return malformed("the tool's result has no content");
  for (const json::Value& block : content.array())
    if (!block["type"].isString())
      return malformed("the tool's content has a block without a type");
  return McpToolResult{.is_error = result["isError"].boolean(),
                       .content = content.array(),
                       .structured = result["structuredContent"]};
}

std::string placeholder(const json::Value& block) {
  const std::string& type = block["type"].string();
  std::string what = shorten(type, 50);
  if (type == "resource_link") what += " " + shorten(block["uri"].string(), 200);
  if (type == "resource") what += " " + shorten(block["resource"]["uri"].string(), 200);
  if (const json::Value& mime = block["mimeType"]; mime.isString())
    what += " " + shorten(mime.string(), 100);
  if (const json::Value& data = block["data"]; data.isString())
    what += format(", {} bytes in base64", data.string().size());
  return format("[{}]", what);
}

}  // namespace

std::string McpToolResult::text() const {
  std::string out;
  for (const json::Value& block : content) {
    if (&block != &content.front()) out += '\n';
    out += block["type"] == "text" ? block["text"].string() : placeholder(block);
  }
  return out;
}

Result<net::Url> mcpUrl(std::string_view base) {
  CADRE_LET(net::Url url, net::Url::parse(base));
  auto [path, query] = cut(url.target, "?");
  while (path.ends_with('/')) path.remove_suffix(1);
  std::string target(path);
  if (!target.ends_with("/mcp")) target += "/mcp";
  // An endpoint that is written with a slash at its end stays so.
  else if (cut(url.target, "?").first.ends_with('/'))
    target += '/';
  url.target = query.empty() ? target : format("{}?{}", target, query);
  return url;
}

// ---------------------------------------------------------------------------------------------

// Handshakes, and requests that may need one. What is under way belongs to it; requests belong to
// whoever holds their Pending.
struct McpClient::Impl : std::enable_shared_from_this<Impl> {
  // A request through all its tries.
  struct Call {
    std::string method;
    json::Object params;
    bool repeatable = false;  // may be sent again when a connection was lost
    bool renewable = true;    // means the same in another session
    std::size_t answer_bytes = 0;
    Function<void(Result<McpAnswer>)> done;  // with a result in it

    bool over = false, repeated = false, renewed = false;
    Pending timer;
    std::uint64_t waiter = 0;
    std::uint64_t generation = 0;  // of the session that it was sent in
    McpEra era = McpEra::Unknown;
    bool in_session = false;
    RpcId id;
    std::weak_ptr<McpExchange> exchange;
  };
  using CallPtr = std::shared_ptr<Call>;
  enum class State { Idle, Connecting, Ready };

  Scheduler& scheduler;
  net::HttpClient& http;
  const McpOptions options;

  State state = State::Idle;
  McpServerInfo info;
  std::string session;
  std::uint64_t generation = 0;  // of sessions
  std::int64_t next_id = 1;
  std::uint64_t next_key = 1;
  std::map<std::uint64_t, std::shared_ptr<McpExchange>> exchanges;
  std::map<std::uint64_t, Function<void(Result<>)>> waiters;  // for the handshake
  std::uint64_t handshakes = 0;                               // ever begun
  bool probed = false, initialized = false;                   // in this handshake
  Instant handshake_began;
  std::weak_ptr<McpExchange> handshake;
  std::map<std::string, std::vector<McpParamHeader>, std::less<>> param_headers;  // by tool

  Impl(Scheduler& scheduler, net::HttpClient& http, McpOptions given)
      : scheduler(scheduler), http(http), options(std::move(given)) {
    info.era = options.era;
  }

  Error inContext(Error error) const {
    return std::move(error).context(
        format("MCP server {}{}", options.url.origin(), options.url.target));
  }

  // -------------------------------------------------------------------------------------------
  // Messages

  net::HttpRequest httpRequest(std::string method) const {
    net::HttpRequest request{.method = std::move(method),
                             .target = options.url.target.empty() ? "/" : options.url.target,
                             .headers = options.headers};
    request.headers.set("Accept", "application/json, text/event-stream");
    return request;
  }

  // With what a session adds to each request.
  net::HttpRequest sessionRequest(std::string method) const {
    net::HttpRequest request = httpRequest(std::move(method));
    request.headers.set("MCP-Protocol-Version", info.protocol_version);
    if (!session.empty()) request.headers.set("Mcp-Session-Id", session);
    return request;
  }

  json::Value clientInfo() const {
    return json::Object{{"name", options.client_name}, {"version", options.client_version}};
  }

  // A request of the stateless era tells who sends it and repeats in headers what it is.
  net::HttpRequest statelessRequest(const std::string& method, json::Object& params) const {
    json::Object meta;
    meta.set(format("{}protocolVersion", kMeta), kStatelessVersion);
    meta.set(format("{}clientInfo", kMeta), clientInfo());
    meta.set(format("{}clientCapabilities", kMeta), json::Object{});
    params.set("_meta", std::move(meta));
    net::HttpRequest request = httpRequest("POST");
    request.headers.set("MCP-Protocol-Version", std::string(kStatelessVersion));
    request.headers.set("Mcp-Method", method);
    const json::Value* name = params.find("name");
    if (name && name->isString()) request.headers.set("Mcp-Name", mcpHeaderValue(name->string()));
    if (name && method == "tools/call")
      if (auto found = param_headers.find(name->string()); found != param_headers.end())
        if (const json::Value* arguments = params.find("arguments"))
          addParamHeaders(request.headers, found->second, *arguments);
    return request;
  }

  // Starts an exchange, which stays here until it is over.
  std::shared_ptr<McpExchange> exchange(net::HttpRequest request, McpExchange::Options how,
                                        Function<void(Result<McpAnswer>)> done) {
    how.url = options.url;
    std::uint64_t key = next_key++;
    McpExchange::Handler handler;
    std::weak_ptr<Impl> weak = weak_from_this();
    handler.done = std::move(done);
    handler.over = [weak, key] {
      if (auto self = weak.lock()) self->exchanges.erase(key);
    };
    handler.request = [weak](RpcRequest asked) {
      if (auto self = weak.lock()) self->answer(asked);
    };
    handler.notification = [weak](const RpcNotification& told) {
      auto self = weak.lock();
      if (self && told.method == "notifications/tools/list_changed" && self->options.tools_changed)
        self->options.tools_changed();
    };
    auto started =
        std::make_shared<McpExchange>(scheduler, http, std::move(how), std::move(handler));
    exchanges[key] = started;
    started->start(std::move(request));
    return started;
  }

  std::shared_ptr<McpExchange> post(net::HttpRequest request, const RpcMessage& message,
                                    McpExchange::Options how,
                                    Function<void(Result<McpAnswer>)> done) {
    request.headers.set("Content-Type", "application/json");
    request.body = writeRpc(message);
    return exchange(std::move(request), std::move(how), std::move(done));
  }

  // Says something within the session that needs no answer.
  void tell(const RpcMessage& message, Function<void(Result<McpAnswer>)> done) {
    post(sessionRequest("POST"), message,
         {.limits = options.limits, .timeout = options.close_timeout}, std::move(done));
  }

  // The server asks us. In the stateless era it cannot.
  void answer(const RpcRequest& asked) {
    if (info.era != McpEra::Handshake) return;
    RpcResponse response{.id = asked.id};
    if (asked.method == "ping")
      response.outcome = json::Object{};
    else
      response.outcome =
          RpcError{.code = kRpcMethodNotFound, .message = "this client does not do that"};
    tell(response, nullptr);
  }

  // -------------------------------------------------------------------------------------------
  // The handshake

  std::uint64_t whenReady(Function<void(Result<>)> ready) {
    std::uint64_t key = next_key++;
    waiters[key] = std::move(ready);
    if (state == State::Idle) {
      state = State::Connecting;
      ++handshakes;
      probed = initialized = false;
      handshake_began = scheduler.clock().instant();
      if (info.era == McpEra::Handshake)
        initialize();
      else
        probe();
    }
    return key;
  }

  void handshakeOver(Result<> result) {
    state = result ? State::Ready : State::Idle;
    if (result) ++generation;
    auto keep = shared_from_this();
    // Those who wait now: one of them may start another handshake, or drop others.
    std::vector<std::uint64_t> keys;
    keys.reserve(waiters.size());
    for (const auto& [key, waiter] : waiters) keys.push_back(key);
    for (std::uint64_t key : keys) {
      auto waiter = waiters.extract(key);
      if (waiter) waiter.mapped()(result);
    }
  }

  void handshakeFailed(Error error) { handshakeOver(inContext(std::move(error))); }

  Duration handshakeTimeLeft() const {
    Duration spent = scheduler.clock().instant() - handshake_began;
    return std::max<Duration>(options.handshake_timeout - spent, 1ms);
  }

  template <class Step>
  void handshakeStep(net::HttpRequest request, const RpcRequest& message, Duration timeout,
                     Step step) {
    handshake = post(std::move(request), message,
                     {.limits = options.limits, .expects = message.id, .timeout = timeout},
                     [weak = weak_from_this(), step](Result<McpAnswer> answer) {
                       if (auto self = weak.lock()) (self.get()->*step)(std::move(answer));
                     });
  }

  void probe() {
    probed = true;
    json::Object params;
    net::HttpRequest request = statelessRequest("server/discover", params);
    Duration timeout = std::min(options.probe_timeout, handshakeTimeLeft());
    handshakeStep(std::move(request), RpcRequest{next_id++, "server/discover", std::move(params)},
                  timeout, &Impl::probeAnswered);
  }

  // Only what a server of the stateless era says keeps us from the handshake of the older ones; a
  // server that does not answer says nothing.
  void probeAnswered(Result<McpAnswer> answer) {
    if (!answer) {
      bool absent =
          answer.error().reason == kMcpUnreachable && answer.error().code != Code::DeadlineExceeded;
      return absent ? handshakeFailed(answer.error()) : initializeAfterProbe();
    }
    const RpcError* error = answer->response ? answer->response->error() : nullptr;
    if (answer->response && !error) {
      const json::Value& result = *answer->response->result();
      return speaksStateless(result["supportedVersions"]) ? adopt(result) : initializeAfterProbe();
    }
    if (error && error->code >= kStatelessErrorsFirst && error->code <= kStatelessErrorsLast) {
      bool older = error->code == kUnsupportedVersion &&
                   listsVersion(error->data["supported"], isHandshakeVersion);
      return older ? initializeAfterProbe() : handshakeFailed(protocolError(*error));
    }
    if (saysNothingOfEra(answer->status)) return handshakeFailed(answer->httpError());
    // Some older servers open a session for everything that has none.
    if (std::string offered(answer->headers.get("Mcp-Session-Id")); isSessionId(offered))
      endSession(std::move(offered), nullptr);
    initializeAfterProbe();
  }

  void initializeAfterProbe() {
    if (initialized)
      return handshakeFailed(
          mcpProtocolError(Code::Unimplemented, "it speaks no version of MCP that is known here"));
    initialize();
  }

  void adopt(const json::Value& result) {
    const json::Value& server = result["_meta"][format("{}serverInfo", kMeta)];
    session.clear();
    info = {.era = McpEra::Stateless,
            .protocol_version = std::string(kStatelessVersion),
            .name = server["name"].string(),
            .version = server["version"].string(),
            .instructions = result["instructions"].string(),
            .capabilities = result["capabilities"]};
    handshakeOver({});
  }

  void initialize() {
    initialized = true;
    json::Object params{{"protocolVersion", kHandshakeVersions.front()},
                        {"capabilities", json::Object{}},
                        {"clientInfo", clientInfo()}};
    handshakeStep(httpRequest("POST"), RpcRequest{next_id++, "initialize", std::move(params)},
                  handshakeTimeLeft(), &Impl::initializeAnswered);
  }

  void initializeAnswered(Result<McpAnswer> answer) {
    if (!answer) return handshakeFailed(answer.error());
    if (!answer->response) return handshakeFailed(answer->httpError());
    if (const RpcError* error = answer->response->error()) {
      bool newer = error->code == kUnsupportedVersion && speaksStateless(error->data["supported"]);
      return newer && !probed ? probe() : handshakeFailed(protocolError(*error));
    }
    const json::Value& result = *answer->response->result();
    const std::string& version = result["protocolVersion"].string();
    if (!isHandshakeVersion(version))
      return handshakeFailed(mcpProtocolError(
          Code::Unimplemented,
          format("it wants to speak version \"{}\" of MCP, which is not known here",
                 shorten(version, 100))));
    std::string offered(answer->headers.get("Mcp-Session-Id"));
    if (!offered.empty() && !isSessionId(offered))
      return handshakeFailed(malformed("its session id is not one"));
    session = std::move(offered);
    info = {.era = McpEra::Handshake,
            .protocol_version = version,
            .name = result["serverInfo"]["name"].string(),
            .version = result["serverInfo"]["version"].string(),
            .instructions = result["instructions"].string(),
            .capabilities = result["capabilities"]};
    // Before anything else in the session; what the server says to it does not matter.
    tell(RpcNotification{"notifications/initialized"},
         [weak = weak_from_this(), number = handshakes](Result<McpAnswer> answer) {
           auto self = weak.lock();
           if (!self || self->state != State::Connecting || self->handshakes != number) return;
           answer ? self->handshakeOver({}) : self->handshakeFailed(answer.error());
         });
  }

  bool isSessionId(std::string_view text) const {
    return !text.empty() && text.size() <= options.limits.session_id_bytes &&
           std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7f; });
  }

  void endSession(std::string ended, Function<void(Result<McpAnswer>)> done) {
    net::HttpRequest request = sessionRequest("DELETE");
    request.headers.set("Mcp-Session-Id", std::move(ended));
    if (info.protocol_version.empty())
      request.headers.set("MCP-Protocol-Version", std::string(kHandshakeVersions.front()));
    exchange(std::move(request), {.limits = options.limits, .timeout = options.close_timeout},
             std::move(done));
  }

  // -------------------------------------------------------------------------------------------
  // Calls

  Pending start(const CallPtr& call, Duration timeout) {
    std::weak_ptr<Impl> weak = weak_from_this();
    call->timer = scheduler.after(timeout, [weak, weak_call = std::weak_ptr(call), timeout] {
      auto self = weak.lock();
      auto call = weak_call.lock();
      if (!self || !call || call->over) return;
      self->giveUp(*call);
      self->finish(call, mcpUnreachable(
                             {.code = Code::DeadlineExceeded,
                              .message = format("no answer within {}", formatDuration(timeout))}));
    });
    advance(call);
    return Pending([weak, call] {
      if (std::exchange(call->over, true)) return;
      call->timer.reset();
      call->done = nullptr;
      if (auto self = weak.lock()) self->giveUp(*call);
    });
  }

  void advance(const CallPtr& call) {
    if (state == State::Ready) return transmit(call);
    call->waiter =
        whenReady([weak = weak_from_this(), weak_call = std::weak_ptr(call)](Result<> ready) {
          auto self = weak.lock();
          auto call = weak_call.lock();
          if (!self || !call || call->over) return;
          if (ready)
            self->transmit(call);
          else
            self->finishAsIs(call, std::move(ready).error());
        });
  }

  void transmit(const CallPtr& call) {
    call->generation = generation;
    call->era = info.era;
    call->in_session = !session.empty();
    call->id = next_id++;
    json::Object params = call->params;
    bool stateless = info.era == McpEra::Stateless;
    net::HttpRequest request =
        stateless ? statelessRequest(call->method, params) : sessionRequest("POST");
    McpExchange::Options how{
        .limits = options.limits, .expects = call->id, .resumable = !stateless};
    how.limits.answer_bytes = call->answer_bytes;
    call->exchange = post(
        std::move(request), RpcRequest{call->id, call->method, std::move(params)}, std::move(how),
        [weak = weak_from_this(), weak_call = std::weak_ptr(call)](Result<McpAnswer> answer) {
          auto self = weak.lock();
          auto call = weak_call.lock();
          if (self && call && !call->over) self->answered(call, std::move(answer));
        });
  }

  void answered(const CallPtr& call, Result<McpAnswer> answer) {
    call->exchange.reset();
    if (!answer) {
      bool lost =
          answer.error().reason == kMcpUnreachable && answer.error().code == Code::Unavailable;
      if (lost && call->repeatable && !std::exchange(call->repeated, true)) return advance(call);
      return finish(call, std::move(answer));
    }
    if (refusedUnseen(*call, *answer) && !std::exchange(call->renewed, true)) {
      if (call->generation == generation) forgetSession();
      if (call->renewable) return advance(call);
      return finish(call, mcpProtocolError(Code::Gone, "the session is over"));
    }
    if (!answer->response) return finish(call, answer->httpError());
    if (const RpcError* error = answer->response->error())
      return finish(call, protocolError(*error));
    finish(call, std::move(answer));
  }

  // The server does not know the session, or no longer speaks as it did: it was started anew, or is
  // another one. Either way it has not looked at the request.
  static bool refusedUnseen(const Call& call, const McpAnswer& answer) {
    const RpcError* error = answer.response ? answer.response->error() : nullptr;
    if (error && error->code == kUnsupportedVersion) return true;
    if (call.era == McpEra::Stateless)
      return (answer.status == 400 || answer.status == 404) &&
             (!error || error->code == kRpcInvalidRequest);
    if (!call.in_session) return false;
    // 404 is what the protocol says; servers made from a widespread example say 400.
    bool of_arguments = error && error->code == kRpcInvalidParams;
    return answer.status == 404 || (answer.status == 400 && !of_arguments &&
                                    lower(answer.body).find("session") != std::string::npos);
  }

  void forgetSession() {
    if (state != State::Ready) return;
    state = State::Idle;
    session.clear();
    if (info.era == McpEra::Stateless) info.era = McpEra::Unknown;
  }

  // Nobody waits for it any more.
  void giveUp(Call& call) {
    waiters.erase(call.waiter);
    auto exchange = call.exchange.lock();
    if (!exchange) return;
    exchange->drop();
    // In the stateless era the closed stream says so; before, a lost connection meant nothing.
    if (info.era == McpEra::Handshake && state == State::Ready && call.generation == generation) {
      json::Value id = std::visit([](const auto& held) { return json::Value(held); }, call.id);
      tell(RpcNotification{"notifications/cancelled", json::Object{{"requestId", std::move(id)}}},
           nullptr);
    }
  }

  void finish(const CallPtr& call, Result<McpAnswer> result) {
    if (result) return finishAsIs(call, std::move(result));
    finishAsIs(call, inContext(std::move(result).error()));
  }

  void finishAsIs(CallPtr call, Result<McpAnswer> result) {  // by value: kept while it calls back
    if (std::exchange(call->over, true)) return;
    call->timer.reset();
    auto done = std::exchange(call->done, nullptr);
    if (done) done(std::move(result));
  }

  // -------------------------------------------------------------------------------------------
  // Lists

  // All pages of a list.
  struct Listing {
    Function<void(Result<McpToolList>)> done;
    McpToolList list;
    std::map<std::string, std::vector<McpParamHeader>, std::less<>> param_headers;
    std::string cursor;
    std::set<std::string> cursors;
    std::size_t pages = 0, bytes = 0;
    Instant deadline;
    bool restarted = false, over = false;
    Pending page;
  };
  using ListingPtr = std::shared_ptr<Listing>;

  Pending startListing(Function<void(Result<McpToolList>)> done, Duration timeout) {
    auto listing = std::make_shared<Listing>();
    listing->done = std::move(done);
    listing->deadline = scheduler.clock().instant() + timeout;
    nextPage(listing);
    return Pending([listing] {
      listing->over = true;
      listing->done = nullptr;
      listing->page.reset();
    });
  }

  void nextPage(const ListingPtr& listing) {
    auto call = std::make_shared<Call>();
    call->method = "tools/list";
    if (!listing->cursor.empty()) call->params.set("cursor", listing->cursor);
    call->repeatable = true;
    call->renewable = listing->cursor.empty();  // a cursor is of its session
    call->answer_bytes = options.limits.answer_bytes - listing->bytes;
    // Held by the page's Pending, which the listing holds.
    call->done = [weak = weak_from_this(),
                  weak_listing = std::weak_ptr(listing)](Result<McpAnswer> answer) {
      auto self = weak.lock();
      auto listing = weak_listing.lock();
      if (self && listing && !listing->over) self->pageAnswered(listing, std::move(answer));
    };
    Duration left = listing->deadline - scheduler.clock().instant();
    listing->page = start(call, std::max<Duration>(left, 0s));
  }

  void pageAnswered(const ListingPtr& listing, Result<McpAnswer> answer) {
    if (!answer) {
      if (answer.error().code != Code::Gone || std::exchange(listing->restarted, true))
        return finishListing(listing, std::move(answer).error());
      listing->list = {};
      listing->param_headers.clear();
      listing->cursor.clear();
      listing->cursors.clear();
      listing->pages = 0;
      return nextPage(listing);
    }
    listing->bytes += answer->bytes;
    if (auto taken = takePage(*listing, *answer->response->result()); !taken)
      return finishListing(listing, inContext(std::move(taken).error()));
    if (!listing->cursor.empty()) return nextPage(listing);
    param_headers = std::move(listing->param_headers);
    finishListing(listing, std::move(listing->list));
  }

  Result<> takePage(Listing& listing, const json::Value& page) {
    const McpLimits& limits = options.limits;
    if (!page["tools"].isArray()) return malformed("its list of tools is none");
    if (listing.list.tools.size() + page["tools"].array().size() > limits.tools)
      return mcpProtocolError(Code::ResourceExhausted,
                              format("it offers more than {} tools", limits.tools));
    for (const json::Value& entry : page["tools"].array()) CADRE_TRY(takeTool(listing, entry));
    if (page["ttlMs"].isNumber()) {
      Duration ttl =
          std::chrono::milliseconds(std::clamp<std::int64_t>(page["ttlMs"].integer(), 0, 86400000));
      listing.list.fresh_for = std::min(listing.list.fresh_for.value_or(ttl), ttl);
    }
    listing.cursor = page["nextCursor"].string();
    if (listing.cursor.empty()) return {};
    if (++listing.pages >= limits.pages)
      return mcpProtocolError(Code::ResourceExhausted,
                              format("its list of tools has more than {} pages", limits.pages));
    if (!listing.cursors.insert(listing.cursor).second)
      return malformed("its list of tools comes back to a page that was there before");
    return {};
  }

  Result<> takeTool(Listing& listing, const json::Value& entry) {
    CADRE_LET(McpTool tool, readTool(entry));
    if (info.era == McpEra::Stateless) {
      auto headers = mcpParamHeaders(tool.input_schema);
      if (!headers) {
        listing.list.left_out.push_back(format("{}: {}", tool.name, headers.error().text()));
        return {};
      }
      if (!headers->empty()) listing.param_headers[tool.name] = *std::move(headers);
    }
    listing.list.tools.push_back(std::move(tool));
    return {};
  }

  void finishListing(ListingPtr listing, Result<McpToolList> result) {
    if (std::exchange(listing->over, true)) return;
    auto done = std::exchange(listing->done, nullptr);
    if (done) done(std::move(result));
  }

  // -------------------------------------------------------------------------------------------
  // Tools

  struct ToolCall {
    std::string name;
    json::Value arguments;
    Function<void(Result<McpToolResult>)> done;
    Instant deadline;
    bool listed = false, over = false;
    Pending step;
  };
  using ToolCallPtr = std::shared_ptr<ToolCall>;

  void transmitTool(const ToolCallPtr& tool) {
    auto call = std::make_shared<Call>();
    call->method = "tools/call";
    call->params.set("name", tool->name);
    if (!tool->arguments.isNull()) call->params.set("arguments", tool->arguments);
    call->answer_bytes = options.limits.answer_bytes;
    call->done = [weak = weak_from_this(),
                  weak_tool = std::weak_ptr(tool)](Result<McpAnswer> answer) {
      auto self = weak.lock();
      auto tool = weak_tool.lock();
      if (self && tool && !tool->over) self->toolAnswered(tool, std::move(answer));
    };
    Duration left = tool->deadline - scheduler.clock().instant();
    tool->step = start(call, std::max<Duration>(left, 0s));
  }

  void toolAnswered(const ToolCallPtr& tool, Result<McpAnswer> answer) {
    // The tool wants headers that only its listing tells of.
    if (!answer && rpcCode(answer.error()) == kHeaderMismatch &&
        !std::exchange(tool->listed, true)) {
      Duration left = tool->deadline - scheduler.clock().instant();
      tool->step = startListing(
          [weak = weak_from_this(), weak_tool = std::weak_ptr(tool)](Result<McpToolList> list) {
            auto self = weak.lock();
            auto tool = weak_tool.lock();
            if (!self || !tool || tool->over) return;
            list ? self->transmitTool(tool) : self->finishTool(tool, std::move(list).error());
          },
          std::max<Duration>(left, 0s));
      return;
    }
    if (!answer) return finishTool(tool, std::move(answer).error());
    auto result = readToolResult(*answer->response->result());
    if (!result) return finishTool(tool, inContext(std::move(result).error()));
    finishTool(tool, std::move(result));
  }

  void finishTool(ToolCallPtr tool, Result<McpToolResult> result) {
    if (std::exchange(tool->over, true)) return;
    auto done = std::exchange(tool->done, nullptr);
    if (done) done(std::move(result));
  }
};

McpClient::McpClient(Scheduler& scheduler, net::HttpClient& http, McpOptions options)
    : impl_(std::make_shared<Impl>(scheduler, http, std::move(options))) {}

McpClient::~McpClient() {
  // One of their callbacks may be what destroys this.
  for (auto& [key, exchange] : std::exchange(impl_->exchanges, {})) exchange->drop();
  impl_->waiters.clear();
}

Pending McpClient::connect(Function<void(Result<McpServerInfo>)> done) {
  struct Connect {
    Function<void(Result<McpServerInfo>)> done;
  };
  auto connect = std::make_shared<Connect>();
  connect->done = std::move(done);
  std::weak_ptr<Impl> weak = impl_;
  auto ready = [weak, weak_connect = std::weak_ptr(connect)](Result<> result) {
    auto self = weak.lock();
    auto connect = weak_connect.lock();
    if (!self || !connect || !connect->done) return;
    auto callback = std::exchange(connect->done, nullptr);
    if (result)
      callback(self->info);
    else
      callback(std::move(result).error());
  };
  if (impl_->state == Impl::State::Ready)
    impl_->scheduler.post([ready] { ready({}); });
  else
    impl_->whenReady(ready);
  return Pending([connect] { connect->done = nullptr; });
}

Pending McpClient::listTools(Function<void(Result<McpToolList>)> done) {
  return impl_->startListing(std::move(done), impl_->options.list_timeout);
}

Pending McpClient::callTool(std::string name, json::Value arguments,
                            Function<void(Result<McpToolResult>)> done) {
  auto tool = std::make_shared<Impl::ToolCall>();
  tool->name = std::move(name);
  tool->arguments = std::move(arguments);
  tool->done = std::move(done);
  tool->deadline = impl_->scheduler.clock().instant() + impl_->options.call_timeout;
  if (tool->arguments.isNull() || tool->arguments.isObject()) {
    impl_->transmitTool(tool);
  } else {
    impl_->scheduler.post([weak = std::weak_ptr(impl_), weak_tool = std::weak_ptr(tool)] {
      auto self = weak.lock();
      auto tool = weak_tool.lock();
      if (self && tool)
        self->finishTool(tool,
                         Error{.code = Code::InvalidArgument,
                               .message = format("the arguments of a tool are an object, not {}",
                                                 tool->arguments.typeName())});
    });
  }
  return Pending([tool] {
    tool->over = true;
    tool->done = nullptr;
    tool->step.reset();
  });
}

Pending McpClient::close(Function<void(Result<>)> done) {
  struct Close {
    Function<void(Result<>)> done;
    void finish(Result<> result) {
      if (auto callback = std::exchange(done, nullptr)) callback(std::move(result));
    }
  };
  auto close = std::make_shared<Close>();
  close->done = std::move(done);
  std::weak_ptr<Impl> weak = impl_;
  std::weak_ptr<Close> weak_close = close;
  Pending pending([close] { close->done = nullptr; });

  std::string session = std::exchange(impl_->session, {});
  bool connecting = impl_->state == Impl::State::Connecting;
  impl_->state = Impl::State::Idle;
  if (session.empty()) {
    impl_->scheduler.post([weak, weak_close] {
      auto self = weak.lock();
      auto close = weak_close.lock();
      if (self && close) close->finish({});
    });
  } else {
    impl_->endSession(std::move(session), [weak, weak_close](Result<McpAnswer> answer) {
      auto self = weak.lock();
      auto close = weak_close.lock();
      if (!self || !close) return;
      if (answer)
        close->finish({});
      else
        close->finish(self->inContext(std::move(answer).error()));
    });
  }
  if (connecting) {
    if (auto handshake = impl_->handshake.lock()) handshake->drop();
    impl_->scheduler.post([weak] {
      auto self = weak.lock();
      if (self && self->state == Impl::State::Idle)
        self->handshakeOver(Error{.code = Code::Cancelled,
                                  .message = "the client was closed",
                                  .reason = std::string(kMcpUnreachable)});
    });
  }
  return pending;
}

const McpServerInfo& McpClient::server() const { return impl_->info; }

}  // namespace cadre::wire
