#include "wire/json_rpc.h"

#include <cmath>
#include <utility>

#include "base/format.h"
#include "base/strings.h"
#include "json/parse.h"
#include "json/write.h"

namespace cadre::wire {

namespace {

constexpr std::size_t kShownBytes = 500;  // of a peer's message in ours
constexpr std::string_view kCodeMark = "JSONRPC";

Error wrong(std::string what) {
  return Error{.code = Code::InvalidArgument,
               .message = format("not a JSON-RPC message: {}", what)};
}

json::Value take(json::Object& object, std::string_view key) {
  json::Value* found = object.find(key);
  return found ? std::move(*found) : json::Value();
}

Result<RpcId> readId(const json::Value& id) {
  if (id.isString()) return RpcId(id.string());
  constexpr double kExact = 9007199254740992.0;  // beyond it a double has no neighbours
  if (id.isInteger()) return RpcId(id.integer());
  if (id.isNumber() && std::trunc(id.number()) == id.number() && std::abs(id.number()) <= kExact)
    return RpcId(id.integer());
  return wrong(format("its id is of type {}", id.typeName()));
}

Result<> checkParams(const json::Object& message) {
  const json::Value* params = message.find("params");
  if (!params || params->isObject() || params->isArray() || params->isNull()) return {};
  return wrong(format("its params are of type {}", params->typeName()));
}

Result<RpcMessage> readCall(json::Object& message) {
  const json::Value* method = message.find("method");
  if (!method->isString()) return wrong(format("its method is of type {}", method->typeName()));
  if (message.contains("result") || message.contains("error"))
    return wrong("it has a method and an outcome");
  CADRE_TRY(checkParams(message));
  std::string name = method->string();
  if (!message.contains("id"))
    return RpcMessage(RpcNotification{std::move(name), take(message, "params")});
  CADRE_LET(RpcId id, readId(*message.find("id")));
  return RpcMessage(RpcRequest{std::move(id), std::move(name), take(message, "params")});
}

Result<RpcError> readError(json::Value value) {
  if (!value.isObject()) return wrong(format("its error is of type {}", value.typeName()));
  const json::Value& code = value["code"];
  if (!code.isNumber()) return wrong("its error has no code");
  if (!value["message"].isString()) return wrong("its error has no message");
  RpcError error{.code = code.integer(kRpcInternalError), .message = value["message"].string()};
  error.data = take(value.makeObject(), "data");
  return error;
}

Result<RpcMessage> readResponse(json::Object& message) {
  const json::Value* id = message.find("id");
  const json::Value* error = message.find("error");
  const json::Value* result = message.find("result");
  // Some write a null for the one that there is not.
  bool failed = error && !error->isNull();
  if (failed && result && !result->isNull()) return wrong("it has a result and an error");
  if (!failed && !result) return wrong("it has no method, result or error");
  RpcResponse response;
  if (id && !id->isNull()) {
    CADRE_LET(response.id, readId(*id));
  } else if (!failed) {
    return wrong("it has a result and no id");
  }
  if (failed) {
    CADRE_LET(response.outcome, readError(take(message, "error")));
  } else {
    response.outcome = take(message, "result");
  }
  return RpcMessage(std::move(response));
}

json::Value idValue(const RpcId& id) {
  return std::visit([](const auto& held) { return json::Value(held); }, id);
}

json::Value errorValue(const RpcError& error) {
  json::Object out{{"code", error.code}, {"message", error.message}};
  if (!error.data.isNull()) out.set("data", error.data);
  return out;
}

}  // namespace

Result<RpcMessage> readRpc(json::Value value) {
  if (!value.isObject()) return wrong(format("it is of type {}", value.typeName()));
  if (value["jsonrpc"] != "2.0") return wrong("it does not say \"jsonrpc\": \"2.0\"");
  json::Object& message = value.makeObject();
  return message.contains("method") ? readCall(message) : readResponse(message);
}

Result<std::vector<RpcMessage>> parseRpc(std::string_view text, const json::Limits& limits,
                                         std::size_t max_messages) {
  CADRE_LET(json::Value value, json::parse(text, limits));
  std::vector<RpcMessage> messages;
  if (!value.isArray()) {
    CADRE_LET(RpcMessage message, readRpc(std::move(value)));
    messages.push_back(std::move(message));
    return messages;
  }
  if (value.array().empty()) return wrong("it is an empty batch");
  if (value.array().size() > max_messages)
    return Error{.code = Code::ResourceExhausted,
                 .message = format("a batch of {} JSON-RPC messages, more than {}",
                                   value.array().size(), max_messages)};
  for (json::Value& element : value.makeArray()) {
    CADRE_LET(RpcMessage message, readRpc(std::move(element)));
    messages.push_back(std::move(message));
  }
  return messages;
}

json::Value toJson(const RpcMessage& message) {
  json::Object out{{"jsonrpc", "2.0"}};
  if (const auto* request = std::get_if<RpcRequest>(&message)) {
    out.set("id", idValue(request->id));
    out.set("method", request->method);
    if (!request->params.isNull()) out.set("params", request->params);
  } else if (const auto* notification = std::get_if<RpcNotification>(&message)) {
    out.set("method", notification->method);
    if (!notification->params.isNull()) out.set("params", notification->params);
  } else {
    const auto& response = std::get<RpcResponse>(message);
    out.set("id", response.id ? idValue(*response.id) : json::Value());
    if (const RpcError* error = response.error())
      out.set("error", errorValue(*error));
    else
      out.set("result", *response.result());
  }
  return out;
}

std::string writeRpc(const RpcMessage& message) { return json::write(toJson(message)); }

Error toError(const RpcError& error) {
  Code code = Code::Internal;
  if (error.code == kRpcMethodNotFound) code = Code::Unimplemented;
  if (error.code == kRpcInvalidParams || error.code == kRpcInvalidRequest ||
      error.code == kRpcParseError)
    code = Code::InvalidArgument;
  std::string message = shorten(error.message, kShownBytes);
  return Error{.code = code,
               .message = format("error {}: {}", error.code, message),
               .details = {{.reason = format("{}{}", kCodeMark, error.code), .message = message}}};
}

std::optional<std::int64_t> rpcCode(const Error& error) {
  for (const Detail& detail : error.details)
    if (detail.reason.starts_with(kCodeMark))
      return parseInt(std::string_view(detail.reason).substr(kCodeMark.size()));
  return std::nullopt;
}

}  // namespace cadre::wire
