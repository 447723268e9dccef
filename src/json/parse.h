#pragma once

#include <memory>
#include <string_view>

#include "base/function.h"
#include "base/result.h"
#include "json/value.h"

namespace cadre::json {

enum class DuplicateKeys {
  LastWins,  // as Go does
  Refuse,
};

struct ParseOptions {
  // Per document, and in a list per item. A stream counts bytes without the blank space between
  // tokens.
  Limits limits = {};
  // Leaves out metadata.managedFields of a document, of the object in a watch event and of the
  // items of a list, without building it: a large share of each object that few readers need.
  bool drop_managed_fields = false;
  // What is nested deeper than the limit is null instead of a failure: one of many objects that
  // others wrote must not keep the rest from being read. (Up to 10,000 levels, as Go takes them.)
  bool cut_deep = false;
  DuplicateKeys duplicate_keys = DuplicateKeys::LastWins;
  // Told of those that are not refused: "spec.containers[0].name". The first hundred.
  std::vector<std::string>* duplicates = nullptr;
};

// The value of a JSON text (RFC 8259, valid UTF-8, nothing after the document but blank space).
// An integer that fits into 64 bits with a sign becomes one, every other number a double.
//
// Fails with "line 3, column 7: ..." (columns count bytes): InvalidArgument where the text is
// wrong, DataLoss where it ends too early, ResourceExhausted where it is beyond a limit.
Result<Value> parse(std::string_view text, const ParseOptions& options = {});
Result<Value> parse(std::string_view text, const Limits& limits);

// Documents that arrive in pieces, one after the other with blank space or nothing between them: a
// watch. Each is handed on as soon as its last byte is there. Not thread-safe. The callback may
// destroy the parser.
//
// Fails as parse() does, with the position counted from the start of the stream. A failure is
// final: the documents before it were handed on, later calls give the same failure.
class StreamParser {
 public:
  using OnDocument = Function<void(Value document)>;

  explicit StreamParser(OnDocument on_document, const ParseOptions& options = {});
  ~StreamParser();
  StreamParser(StreamParser&&) noexcept;
  StreamParser& operator=(StreamParser&&) noexcept;

  Result<> feed(std::string_view piece);
  // The stream has ended: DataLoss when it did so in the middle of a document.
  Result<> finish();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// A Kubernetes list that arrives in pieces: hands on each element of the top-level "items" as soon
// as it is there and never holds the whole list. Thread-safety, callback and failures are those of
// StreamParser.
class ListParser {
 public:
  using OnItem = Function<void(Value item)>;

  explicit ListParser(OnItem on_item, const ParseOptions& options = {});
  ~ListParser();
  ListParser(ListParser&&) noexcept;
  ListParser& operator=(ListParser&&) noexcept;

  Result<> feed(std::string_view piece);
  // The end of the text. Gives what is not an item: kind, apiVersion and metadata of a list, or the
  // whole Status if that is what came. DataLoss when the document is not complete.
  Result<Value> finish();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace cadre::json
