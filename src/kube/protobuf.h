#pragma once

#include <memory>
#include <string_view>

#include "base/function.h"
#include "base/result.h"
#include "json/parse.h"
#include "json/value.h"
#include "kube/meta.h"

namespace cadre::kube {

// Kubernetes' protobuf, read into the values that the server's JSON would have given: it costs an
// API server half as much to write. Only for kinds of which inProtobuf() (kube/types.h) is true.
// Fields that the table does not know, because the server is newer, are left out: whoever must have
// an object whole asks for JSON.
//
// The limits are those of the JSON parsers: on the bytes, depth and values of one object. Failures
// too: InvalidArgument where the bytes are wrong, DataLoss where they end too early,
// ResourceExhausted beyond a limit. Duplicate keys do not occur.

constexpr std::string_view kProtobufType = "application/vnd.kubernetes.protobuf";
bool isProtobuf(std::string_view content_type);

// One object, with its apiVersion and kind.
Result<json::Value> parseProtobuf(std::string_view bytes, const json::ParseOptions& options = {});

// A list of that kind that arrives in pieces: hands on each item as soon as it is there and never
// holds the whole list. Items have no apiVersion and kind, as in JSON. Used as json::ListParser.
class ProtobufListParser {
 public:
  using OnItem = Function<void(json::Value item)>;

  ProtobufListParser(const GroupVersionKind& kind, OnItem on_item,
                     const json::ParseOptions& options = {});
  ~ProtobufListParser();
  ProtobufListParser(ProtobufListParser&&) noexcept;
  ProtobufListParser& operator=(ProtobufListParser&&) noexcept;

  Result<> feed(std::string_view piece);
  // The end of the text. Gives what is not an item: kind, apiVersion and metadata of the list.
  Result<json::Value> finish();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// The events of a watch that arrive in pieces: hands on each as {"type": ..., "object": {...}}.
// Used as json::StreamParser.
class ProtobufStreamParser {
 public:
  using OnDocument = Function<void(json::Value document)>;

  explicit ProtobufStreamParser(OnDocument on_document, const json::ParseOptions& options = {});
  ~ProtobufStreamParser();
  ProtobufStreamParser(ProtobufStreamParser&&) noexcept;
  ProtobufStreamParser& operator=(ProtobufStreamParser&&) noexcept;

  Result<> feed(std::string_view piece);
  Result<> finish();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace cadre::kube
