#include "json/parse.h"

#include <algorithm>
#include <boost/json/basic_parser_impl.hpp>
#include <charconv>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cadre::json {

namespace {

using Member = Object::Member;

// Where we are in the text, for messages. Lines and columns count from one, columns in bytes.
struct Position {
  std::size_t line = 1;
  std::size_t column = 1;

  void advance(std::string_view text) {
    for (auto at = text.find('\n'); at != text.npos; at = text.find('\n')) {
      ++line;
      column = 1;
      text.remove_prefix(at + 1);
    }
    column += text.size();
  }
};

Error errorAt(const Position& at, Code code, std::string_view what) {
  std::string message =
      "line " + std::to_string(at.line) + ", column " + std::to_string(at.column) + ": ";
  return {.code = code, .message = message.append(what)};
}

// Builds values from the events of Boost's parser.
//
// Members and elements of all open containers lie on two stacks; when a container ends, its own are
// moved off into a vector of exactly their number. So nothing grows step by step, no matter how
// hostile the text, and the stacks are used again for the next document.
class Builder {
 public:
  static constexpr std::size_t max_object_size = -1;
  static constexpr std::size_t max_array_size = -1;
  static constexpr std::size_t max_key_size = -1;
  static constexpr std::size_t max_string_size = -1;

  enum class Failure { None, Bytes, Values, NumberRange, DuplicateKey, Stopped };

  // With on_item, the elements of the top-level "items" go there; it gives false to stop.
  explicit Builder(const ParseOptions& options, Function<bool(Value)> on_item = nullptr)
      : options_(options), on_item_(std::move(on_item)) {
    frames_.reserve(16);
    members_.reserve(64);
    elements_.reserve(16);
  }

  // The complete document; leaves the builder ready for the next one.
  Value take() {
    bytes_ = values_ = 0;
    if (members_.capacity() > kKeptCapacity) members_ = {};
    if (elements_.capacity() > kKeptCapacity) elements_ = {};
    return std::exchange(root_, Value());
  }
  Failure failure() const { return failure_; }
  const std::string& duplicateKey() const { return duplicate_key_; }

  // What follows is the interface that Boost calls; false with an error code ends the parsing.
  using ErrorCode = boost::json::error_code;
  using View = boost::json::string_view;

  bool on_document_begin(ErrorCode&) { return true; }
  bool on_document_end(ErrorCode&) { return true; }

  bool on_object_begin(ErrorCode& ec) {
    if (!charge(2, ec)) return false;
    if (skipping_) return ++skipped_depth_, true;
    if (isTooDeep()) return cut(ec);
    frames_.push_back({Kind::Object, members_.size()});
    return true;
  }
  bool on_object_end(std::size_t, ErrorCode& ec) {
    if (skipping_) return leaveSkipped();
    std::size_t start = frames_.back().start;
    frames_.pop_back();
    if (start == members_.size()) return add(Object(), ec);
    std::vector<Member> members;
    if (!takeMembers(start, members)) return fail(Failure::DuplicateKey, ec);
    return add(Object::fromSorted(std::move(members)), ec);
  }

  bool on_array_begin(ErrorCode& ec) {
    if (!charge(2, ec)) return false;
    if (skipping_) return ++skipped_depth_, true;
    if (isTooDeep()) return cut(ec);
    if (atItems()) {
      frames_.push_back({Kind::Items, elements_.size()});
      bytes_before_items_ = bytes_;
      values_before_items_ = values_;
    } else {
      frames_.push_back({Kind::Array, elements_.size()});
    }
    return true;
  }
  bool on_array_end(std::size_t, ErrorCode& ec) {
    if (skipping_) return leaveSkipped();
    Frame frame = frames_.back();
    frames_.pop_back();
    if (frame.kind == Kind::Items) {
      members_.pop_back();  // the envelope has no "items"
      return true;
    }
    auto first = elements_.begin() + static_cast<std::ptrdiff_t>(frame.start);
    Array array(std::make_move_iterator(first), std::make_move_iterator(elements_.end()));
    elements_.erase(first, elements_.end());
    return add(std::move(array), ec);
  }

  bool on_key_part(View part, std::size_t, ErrorCode& ec) { return addPart(part, ec); }
  bool on_key(View last, std::size_t, ErrorCode& ec) {
    if (!charge(last.size() + 3, ec)) return false;
    if (skipping_) return true;
    std::string_view key = whole(last);
    if (isManagedFields(key)) {
      skipping_ = true;
    } else {
      members_.emplace_back(std::piecewise_construct, std::forward_as_tuple(key),
                            std::forward_as_tuple());
    }
    buffer_.clear();
    return true;
  }

  bool on_string_part(View part, std::size_t, ErrorCode& ec) { return addPart(part, ec); }
  bool on_string(View last, std::size_t, ErrorCode& ec) {
    if (!charge(last.size() + 2, ec)) return false;
    if (skipping_) return leaveScalar();
    bool good = add(whole(last), ec);
    buffer_.clear();
    return good;
  }

  bool on_number_part(View part, ErrorCode& ec) { return addPart(part, ec); }
  bool on_int64(std::int64_t number, View last, ErrorCode& ec) {
    return addNumber(number, last, ec);
  }
  bool on_uint64(std::uint64_t number, View last, ErrorCode& ec) {
    return addNumber(number, last, ec);
  }
  bool on_double(double approximate, View last, ErrorCode& ec) {
    if (skipping_) return addNumber(approximate, last, ec);
    // Boost's own number may be off in the last digits: read the text again, exactly.
    std::string_view text = whole(last);
    double number = 0;
    auto read = std::from_chars(text.data(), text.data() + text.size(), number);
    if (read.ec == std::errc::result_out_of_range) {
      if (!(std::abs(approximate) < 1)) return fail(Failure::NumberRange, ec);
      number = 0;  // too small to tell from zero
    }
    return addNumber(number, last, ec);
  }

  bool on_bool(bool value, ErrorCode& ec) {
    if (!charge(4, ec)) return false;
    return skipping_ ? leaveScalar() : add(value, ec);
  }
  bool on_null(ErrorCode& ec) {
    if (!charge(4, ec)) return false;
    return skipping_ ? leaveScalar() : add(nullptr, ec);
  }

  bool on_comment_part(View, ErrorCode&) { return true; }
  bool on_comment(View, ErrorCode&) { return true; }

 private:
  static constexpr std::size_t kKeptCapacity = 4096;  // entries; more is given back
  static constexpr std::size_t kMaxDuplicates = 100;

  enum class Kind { Object, Array, Items };
  struct Frame {
    Kind kind;
    std::size_t start;  // of its own entries on members_ or elements_
  };

  bool fail(Failure failure, ErrorCode& ec) {
    failure_ = failure;
    ec = boost::json::error::test_failure;  // any will do: failure_ tells
    return false;
  }

  bool isTooDeep() const { return options_.cut_deep && frames_.size() >= options_.limits.depth; }
  // The container that begins here is null, and what is in it is passed over.
  bool cut(ErrorCode& ec) {
    skipping_ = true;
    skipped_depth_ = 1;
    return add(nullptr, ec);
  }

  // Counts text that is taken in, never more than there really is.
  bool charge(std::size_t bytes, ErrorCode& ec) {
    bytes_ += bytes;
    return bytes_ <= options_.limits.bytes || fail(Failure::Bytes, ec);
  }

  bool addPart(View part, ErrorCode& ec) {
    if (!charge(part.size(), ec)) return false;
    if (!skipping_) buffer_.append(part.data(), part.size());
    return true;
  }

  // The whole token of which this is the last part. Valid until the buffer changes.
  std::string_view whole(View last) {
    if (buffer_.empty()) return {last.data(), last.size()};
    return buffer_.append(last.data(), last.size());
  }

  template <class Number>
  bool addNumber(Number number, View last, ErrorCode& ec) {
    buffer_.clear();
    if (!charge(last.size(), ec)) return false;
    return skipping_ ? leaveScalar() : add(number, ec);
  }

  template <class T>
  bool add(T&& value, ErrorCode& ec) {
    if (++values_ > options_.limits.values) return fail(Failure::Values, ec);
    if (frames_.empty()) {
      root_ = Value(std::forward<T>(value));
      return true;
    }
    switch (frames_.back().kind) {
      case Kind::Object: {
        Value* pending = &members_.back().second;  // made null by on_key
        std::destroy_at(pending);
        std::construct_at(pending, std::forward<T>(value));
        return true;
      }
      case Kind::Array:
        elements_.emplace_back(std::forward<T>(value));
        return true;
      case Kind::Items:
        bytes_ = bytes_before_items_;
        values_ = values_before_items_;
        return on_item_(Value(std::forward<T>(value))) || fail(Failure::Stopped, ec);
    }
    return true;
  }

  // Moves the members of the object that ends off the stack, sorted. Of equal keys the last wins,
  // unless they are refused: then false.
  bool takeMembers(std::size_t start, std::vector<Member>& members) {
    auto first = members_.begin() + static_cast<std::ptrdiff_t>(start);
    auto unordered = [](const Member& a, const Member& b) { return a.first >= b.first; };
    if (std::adjacent_find(first, members_.end(), unordered) == members_.end()) {
      members.assign(std::make_move_iterator(first), std::make_move_iterator(members_.end()));
    } else {
      members.reserve(members_.size() - start);
      order_.clear();
      for (auto member = first; member != members_.end(); ++member) order_.push_back(&*member);
      std::sort(order_.begin(), order_.end(), [](const Member* a, const Member* b) {
        int compared = a->first.compare(b->first);
        return compared != 0 ? compared < 0 : a < b;
      });
      for (std::size_t i = 0; i < order_.size(); ++i) {
        if (i + 1 < order_.size() && order_[i]->first == order_[i + 1]->first) {
          duplicate_key_ = order_[i]->first;
          if (options_.duplicate_keys == DuplicateKeys::Refuse) return false;
          if (options_.duplicates && options_.duplicates->size() < kMaxDuplicates)
            options_.duplicates->push_back(pathOf(start, duplicate_key_));
          continue;
        }
        members.push_back(std::move(*order_[i]));
      }
    }
    members_.erase(first, members_.end());
    return true;
  }

  // "spec.containers[0].name": a member of the object that ends, whose members begin there.
  std::string pathOf(std::size_t start, const std::string& key) const {
    std::string path;
    for (std::size_t i = 0; i < frames_.size(); ++i) {
      if (frames_[i].kind == Kind::Object) {
        std::size_t inner = start;
        for (std::size_t j = frames_.size(); j-- > i + 1;)
          if (frames_[j].kind == Kind::Object) inner = frames_[j].start;
        path += (path.empty() ? "" : ".") + members_[inner - 1].first;
      } else {
        std::size_t end = elements_.size();
        for (std::size_t j = frames_.size(); j-- > i + 1;)
          if (frames_[j].kind != Kind::Object) end = frames_[j].start;
        path += "[" + std::to_string(end - frames_[i].start) + "]";
      }
    }
    return path + (path.empty() ? "" : ".") + key;
  }

  // The key under which the container of that frame is a member; only for a frame whose parent is
  // an object.
  const std::string& keyOf(std::size_t frame) const {
    return members_[frames_[frame].start - 1].first;
  }
  bool isObject(std::size_t frame) const { return frames_[frame].kind == Kind::Object; }

  bool atItems() const {
    return on_item_ && frames_.size() == 1 && isObject(0) && members_.back().first == "items";
  }

  // A key that begins metadata.managedFields of the document itself, of the "object" of a watch
  // event, or of an element of a list's "items".
  bool isManagedFields(std::string_view key) const {
    if (!options_.drop_managed_fields || key != "managedFields") return false;
    std::size_t depth = frames_.size();
    if (depth < 2 || depth > 4 || !isObject(depth - 2) || keyOf(depth - 1) != "metadata")
      return false;
    if (depth == 2) return true;
    if (depth == 3) return isObject(0) && keyOf(1) == "object";
    return isObject(0) && !isObject(1) && itemsKey() == "items";
  }
  // The key of the array at frame 1: the last member of the root, just below those of frame 2.
  const std::string& itemsKey() const { return members_[frames_[2].start - 1].first; }

  bool leaveSkipped() {
    skipping_ = --skipped_depth_ != 0;
    return true;
  }
  bool leaveScalar() {
    skipping_ = skipped_depth_ != 0;
    return true;
  }

  ParseOptions options_;
  Function<bool(Value)> on_item_;
  std::vector<Frame> frames_;
  std::vector<Member> members_;
  std::vector<Value> elements_;
  std::vector<Member*> order_;  // scratch of takeMembers
  std::string buffer_;          // the parts of a token that comes in several
  Value root_;
  bool skipping_ = false;
  std::size_t skipped_depth_ = 0;
  std::size_t bytes_ = 0;
  std::size_t values_ = 0;
  std::size_t bytes_before_items_ = 0;
  std::size_t values_before_items_ = 0;
  Failure failure_ = Failure::None;
  std::string duplicate_key_;
};

constexpr std::size_t kDeepest = 10'100;  // a little more than any API server takes

boost::json::parse_options boostOptions(std::size_t depth) {
  boost::json::parse_options options;
  options.max_depth = depth;
  return options;
}

// Boost's parser around a Builder, with the position and our words for its failures.
class Driver {
 public:
  Driver(const ParseOptions& options, std::size_t extra_depth, Function<bool(Value)> on_item)
      : limits_(options.limits),
        parser_(boostOptions(options.cut_deep ? kDeepest : options.limits.depth + extra_depth),
                options, std::move(on_item)) {}

  // Takes text up to the end of the document and gives how much that was.
  Result<std::size_t> write(std::string_view text, bool more) {
    boost::json::error_code ec;
    std::size_t used = parser_.write_some(more, text.data(), text.size(), ec);
    position_.advance(text.substr(0, used));
    if (ec) return describe(ec, text.substr(used));
    return used;
  }
  bool done() const { return parser_.done(); }
  bool stopped() const { return parser_.handler().failure() == Builder::Failure::Stopped; }
  void skip(std::string_view text) { position_.advance(text); }
  Error unexpected(std::string_view rest) const {
    return errorAt(position_, Code::InvalidArgument,
                   "unexpected " + firstOf(rest) + " after the end of the document");
  }
  // The complete document; the next one may follow.
  Value take() {
    parser_.reset();
    return parser_.handler().take();
  }

 private:
  static std::string firstOf(std::string_view text) {
    if (text.empty()) return "end of the text";
    unsigned char c = static_cast<unsigned char>(text[0]);
    if (c >= 0x20 && c < 0x7f) return std::string("'") + text[0] + "'";
    static constexpr char kHex[] = "0123456789abcdef";
    return std::string("byte 0x") + kHex[c >> 4] + kHex[c & 15];
  }

  Error describe(const boost::json::error_code& ec, std::string_view rest) const {
    const Builder& builder = parser_.handler();
    auto beyond = [&](std::string_view what, std::size_t limit, std::string_view unit) {
      std::string text(what);
      return errorAt(position_, Code::ResourceExhausted,
                     text.append(std::to_string(limit)).append(unit));
    };
    switch (builder.failure()) {
      case Builder::Failure::Bytes:
        return beyond("the document is larger than ", limits_.bytes, " bytes");
      case Builder::Failure::Values:
        return beyond("the document has more than ", limits_.values, " values");
      case Builder::Failure::NumberRange:
        return errorAt(position_, Code::InvalidArgument, "the number is too large");
      case Builder::Failure::DuplicateKey:
        return errorAt(position_, Code::InvalidArgument,
                       "duplicate key \"" + builder.duplicateKey() + "\"");
      case Builder::Failure::Stopped:
        return errorAt(position_, Code::Cancelled, "stopped by the reader");
      case Builder::Failure::None:
        break;
    }
    if (ec == boost::json::error::incomplete)
      return errorAt(position_, Code::DataLoss, "the text ends in the middle of a document");
    if (ec == boost::json::error::too_deep)
      return beyond("the document is nested deeper than ", limits_.depth, " levels");
    if (ec == boost::json::error::syntax)
      return errorAt(position_, Code::InvalidArgument, "unexpected " + firstOf(rest));
    return errorAt(position_, Code::InvalidArgument, ec.message());
  }

  Limits limits_;
  Position position_;
  boost::json::basic_parser<Builder> parser_;
};

bool isBlank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// The blank space that a text starts with.
std::string_view leadingBlanks(std::string_view text) {
  auto end = std::find_if_not(text.begin(), text.end(), isBlank);
  return text.substr(0, static_cast<std::size_t>(end - text.begin()));
}

}  // namespace

Result<Value> parse(std::string_view text, const ParseOptions& options) {
  if (text.size() > options.limits.bytes)
    return Error{.code = Code::ResourceExhausted,
                 .message = "the document has " + std::to_string(text.size()) +
                            " bytes, the limit is " + std::to_string(options.limits.bytes)};
  Driver driver(options, 0, nullptr);
  CADRE_LET(std::size_t used, driver.write(text, false));
  if (used != text.size()) return driver.unexpected(text.substr(used));
  return driver.take();
}

Result<Value> parse(std::string_view text, const Limits& limits) {
  return parse(text, ParseOptions{.limits = limits});
}

struct StreamParser::State {
  State(OnDocument on_document, const ParseOptions& options)
      : on_document(std::move(on_document)), driver(options, 0, nullptr) {}

  Error fail(Error error) { return *(failure = std::move(error)); }

  OnDocument on_document;
  Driver driver;
  bool in_document = false;
  bool abandoned = false;  // the parser is gone while we are in its callback
  std::optional<Error> failure;
};

StreamParser::StreamParser(OnDocument on_document, const ParseOptions& options)
    : state_(std::make_shared<State>(std::move(on_document), options)) {}
StreamParser::~StreamParser() {
  if (state_) state_->abandoned = true;
}
StreamParser::StreamParser(StreamParser&&) noexcept = default;
StreamParser& StreamParser::operator=(StreamParser&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}

Result<> StreamParser::feed(std::string_view piece) {
  std::shared_ptr<State> state = state_;  // the callback may destroy this parser
  if (state->failure) return *state->failure;
  while (true) {
    if (!state->in_document) {
      std::string_view blanks = leadingBlanks(piece);
      state->driver.skip(blanks);
      piece.remove_prefix(blanks.size());
    }
    if (piece.empty()) return {};
    auto used = state->driver.write(piece, true);
    if (!used.ok()) return state->fail(std::move(used).error());
    piece.remove_prefix(*used);
    state->in_document = !state->driver.done();
    if (state->in_document) return {};
    state->on_document(state->driver.take());
    if (state->abandoned) return {};
  }
}

Result<> StreamParser::finish() {
  std::shared_ptr<State> state = state_;
  if (state->failure) return *state->failure;
  if (!state->in_document) return {};
  auto used = state->driver.write("", false);  // a number is complete only now
  if (!used.ok()) return state->fail(std::move(used).error());
  state->in_document = false;
  state->on_document(state->driver.take());
  return {};
}

struct ListParser::State {
  State(OnItem on_item, const ParseOptions& options)
      : on_item(std::move(on_item)), driver(options, 2, [this](Value item) {
          this->on_item(std::move(item));
          return !abandoned;
        }) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  Error fail(Error error) { return *(failure = std::move(error)); }

  OnItem on_item;
  bool abandoned = false;  // the parser is gone while we are in its callback
  Driver driver;
  std::optional<Error> failure;
};

ListParser::ListParser(OnItem on_item, const ParseOptions& options)
    : state_(std::make_shared<State>(std::move(on_item), options)) {}
ListParser::~ListParser() {
  if (state_) state_->abandoned = true;
}
ListParser::ListParser(ListParser&&) noexcept = default;
ListParser& ListParser::operator=(ListParser&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}

Result<> ListParser::feed(std::string_view piece) {
  std::shared_ptr<State> state = state_;  // the callback may destroy this parser
  if (state->failure) return *state->failure;
  if (piece.empty()) return {};
  auto used = state->driver.write(piece, true);
  if (!used.ok()) {
    if (state->driver.stopped()) return {};
    return state->fail(std::move(used).error());
  }
  if (*used != piece.size()) return state->fail(state->driver.unexpected(piece.substr(*used)));
  return {};
}

Result<Value> ListParser::finish() {
  State& state = *state_;
  if (state.failure) return *state.failure;
  auto used = state.driver.write("", false);
  if (!used.ok()) return state.fail(std::move(used).error());
  return state.driver.take();
}

}  // namespace cadre::json
