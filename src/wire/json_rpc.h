#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "json/value.h"

namespace cadre::wire {

// JSON-RPC 2.0 messages as values. Pure.

using RpcId = std::variant<std::int64_t, std::string>;  // 1 and "1" are two ids

// Codes that the standard reserves.
constexpr std::int64_t kRpcParseError = -32700;
constexpr std::int64_t kRpcInvalidRequest = -32600;
constexpr std::int64_t kRpcMethodNotFound = -32601;
constexpr std::int64_t kRpcInvalidParams = -32602;
constexpr std::int64_t kRpcInternalError = -32603;

// Asks for an answer.
struct RpcRequest {
  RpcId id;
  std::string method;
  json::Value params = {};  // an object or an array; null: none

  bool operator==(const RpcRequest&) const = default;
};

// Asks for none.
struct RpcNotification {
  std::string method;
  json::Value params = {};

  bool operator==(const RpcNotification&) const = default;
};

struct RpcError {
  std::int64_t code = kRpcInternalError;
  std::string message;
  json::Value data = {};

  bool operator==(const RpcError&) const = default;
};

struct RpcResponse {
  std::optional<RpcId> id;  // none: the peer could not read the request's
  std::variant<json::Value, RpcError> outcome;

  const json::Value* result() const { return std::get_if<json::Value>(&outcome); }
  const RpcError* error() const { return std::get_if<RpcError>(&outcome); }
  bool answers(const RpcId& request) const { return id == request; }

  bool operator==(const RpcResponse&) const = default;
};

using RpcMessage = std::variant<RpcRequest, RpcNotification, RpcResponse>;

// A message out of a JSON value. InvalidArgument says what is wrong with it: not an object, not
// version 2.0, an id that is neither text nor a whole number, params that are a scalar, a method
// and a result in one, neither or both of result and error.
Result<RpcMessage> readRpc(json::Value value);
// The messages of a text: one, or a batch of at least one. Fails as json::parse does, and with
// ResourceExhausted when there are more than `max_messages`.
Result<std::vector<RpcMessage>> parseRpc(std::string_view text, const json::Limits& limits = {},
                                         std::size_t max_messages = 1000);

json::Value toJson(const RpcMessage& message);
// As JSON text on one line.
std::string writeRpc(const RpcMessage& message);

// What an error answer means to us. Its number is in the message, and kept for rpcCode().
Error toError(const RpcError& error);
// The number of the error answer that a failure came from.
std::optional<std::int64_t> rpcCode(const Error& error);

}  // namespace cadre::wire
