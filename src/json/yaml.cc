#include "json/yaml.h"

#include <algorithm>
#include <istream>
#include <optional>
#include <streambuf>
#include <utility>

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include "json/parse.h"
#include "json/pointer.h"
#include "json/utf8.h"
#include "json/write.h"
#include "json/yaml_scalar.h"

namespace cadre::json {

namespace {

using Member = Object::Member;

std::uint64_t mix(std::uint64_t bits) {
  bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9;
  bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB;
  return bits ^ (bits >> 31);
}

// Lines and columns count from one, columns in bytes.
struct Position {
  int line = 1;
  int column = 1;
};

Position positionOf(const YAML::Mark& mark) { return {mark.line + 1, mark.column + 1}; }

// What ends the reading of a text; caught at the end of this file.
struct Refused {
  Code code;
  Position at;
  std::string message;
};

// yaml-cpp makes single bytes of the escapes \N and \_ where U+0085 and U+00A0 are meant. The text
// itself is UTF-8, so any other byte out of place is an escape too.
std::string repairEscapes(const std::string& text) {
  std::string out;
  for (std::string_view rest = text; !rest.empty();) {
    std::size_t length = utf8Length(rest);
    if (length != 0) {
      out.append(rest.substr(0, length));
    } else {
      bool known = rest[0] == '\x85' || rest[0] == '\xA0';
      utf8Append(out, known ? static_cast<unsigned char>(rest[0]) : U'\uFFFD');
    }
    rest.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out;
}

// A value that an alias may stand for, with what its copies cost.
struct Anchored {
  Value value;
  std::size_t values = 0;
  std::size_t bytes = 0;
  std::size_t depth = 0;
};

void measure(const Value& value, std::size_t depth, Anchored& sum) {
  ++sum.values;
  sum.depth = std::max(sum.depth, depth);
  sum.bytes += value.string().size();
  for (const Value& element : value.array()) measure(element, depth + 1, sum);
  for (const auto& [key, member] : value.object()) {
    sum.bytes += key.size();
    measure(member, depth + 1, sum);
  }
}

// Knows where documents may begin: the first anywhere, a later one at a line "---" or after a line
// "...". yaml-cpp takes anything after the end of a document for the next one, and a stray comma
// for documents without end.
class DocumentStarts {
 public:
  explicit DocumentStarts(std::string_view text) : rest_(text) {}

  // Asked in the order of the text.
  bool mayBegin(const YAML::Mark& mark) {
    bool allowed = std::exchange(first_, false);
    for (; line_ < mark.line && !rest_.empty(); ++line_) {
      if (rest_.starts_with("...")) allowed = true;
      rest_.remove_prefix(std::min(rest_.find('\n'), rest_.size() - 1) + 1);
    }
    return allowed || (mark.column == 0 && rest_.starts_with("---"));
  }

 private:
  std::string_view rest_;  // from the start of the line
  int line_ = 0;
  bool first_ = true;
};

// Builds the value of one document from yaml-cpp's events.
class YamlBuilder final : public YAML::EventHandler {
 public:
  YamlBuilder(std::string_view text, DocumentStarts& starts, const Limits& limits)
      : text_(text), starts_(starts), limits_(limits) {}

  Document take() {
    document_.lines.finish();
    document_.line = document_.lines.find("");
    return std::move(document_);
  }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (!starts_.mayBegin(mark))
      throw Refused{Code::InvalidArgument, positionOf(mark),
                    "unexpected text after the end of the document"};
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    checkNull(mark);
    scalar(mark, Value(), anchor);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& text) override {
    if (tag == "?" && text == "<<" && expectsKey()) {
      startMember(mark, text);
      frames_.back().merging = true;
      return;
    }
    TaggedScalar resolved = resolveScalar(tag, repairEscapes(text));
    if (!resolved.error.empty())
      throw Refused{Code::InvalidArgument, positionOf(mark), resolved.error};
    scalar(mark, std::move(resolved.value), anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (anchor >= anchors_.size() || !anchors_[anchor])
      throw Refused{Code::InvalidArgument, positionOf(mark), "an anchor cannot contain itself"};
    const Anchored& anchored = *anchors_[anchor];
    if (frames_.size() + anchored.depth > limits_.depth) tooDeep(mark);
    charge(mark, anchored.values, anchored.bytes);
    if (expectsKey()) {
      startMember(mark, keyText(mark, anchored.value));
    } else {
      addLine(mark);
      add(mark, anchored.value);
    }
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value style) override {
    checkTag(mark, tag, "seq");
    open(mark, Kind::Sequence, style, anchor);
  }
  void OnSequenceEnd() override {
    Frame frame = close();
    finish(frame, Value(std::move(frame.elements)));
  }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value style) override {
    checkTag(mark, tag, "map");
    open(mark, Kind::Mapping, style, anchor);
  }
  void OnMapEnd() override {
    Frame frame = close();
    finish(frame, Value(takeMembers(frame)));
  }

 private:
  enum class Kind { Sequence, Mapping };

  struct Frame {
    Kind kind;
    bool block;  // by indentation, not in brackets
    YAML::Mark mark;
    YAML::anchor_t anchor;
    std::uint64_t path;
    Array elements = {};
    std::vector<Member> members = {};
    std::vector<Position> positions = {};  // of the members' keys
    bool in_member = false;                // the key is there, the value is not
    bool merging = false;                  // the value of << comes next
    std::optional<Position> merged_at = {};
    std::vector<Object> merged = {};  // what << brings, the most important first
  };

  [[noreturn]] void tooDeep(const YAML::Mark& mark) const {
    throw Refused{
        Code::ResourceExhausted, positionOf(mark),
        "the document is nested deeper than " + std::to_string(limits_.depth) + " levels"};
  }

  // Counts values, and the text of copies. What stands in the file itself is bounded by its size.
  void charge(const YAML::Mark& mark, std::size_t values, std::size_t copied_bytes) {
    values_ += values;
    copied_bytes_ += copied_bytes;
    if (values_ > limits_.values)
      throw Refused{Code::ResourceExhausted, positionOf(mark),
                    "the document has more than " + std::to_string(limits_.values) +
                        " values, aliases included"};
    if (copied_bytes_ > limits_.bytes)
      throw Refused{Code::ResourceExhausted, positionOf(mark),
                    "the aliases of the document stand for more than " +
                        std::to_string(limits_.bytes) + " bytes"};
  }

  static void checkTag(const YAML::Mark& mark, const std::string& tag, std::string_view own) {
    std::string_view rest = tag;
    constexpr std::string_view kPrefix = "tag:yaml.org,2002:";
    if (rest.empty() || rest == "?" || rest == "!") return;
    if (rest.starts_with(kPrefix)) {
      rest.remove_prefix(kPrefix.size());
      if (rest == own) return;
      throw Refused{Code::InvalidArgument, positionOf(mark),
                    "tag !!" + std::string(rest) + " does not fit here"};
    }
    throw Refused{Code::InvalidArgument, positionOf(mark), "unknown tag " + tag};
  }

  // yaml-cpp fills in a null where something is missing: a line without a colon at the end of a
  // mapping, which it then places on the key, and nothing between two commas.
  void checkNull(const YAML::Mark& mark) const {
    if (frames_.empty()) return;
    const Frame& frame = frames_.back();
    if (frame.kind == Kind::Mapping && frame.block && frame.in_member) {
      Position at = positionOf(mark);
      const Position& key = frame.positions.back();
      if (at.line == key.line && at.column == key.column)
        throw Refused{Code::InvalidArgument, at,
                      "\"" + frame.members.back().first.substr(0, 80) + "\" has no colon after it"};
    }
    auto pos = static_cast<std::size_t>(mark.pos);
    if (frame.kind == Kind::Sequence && !frame.block && pos < text_.size() && text_[pos] == ',')
      throw Refused{Code::InvalidArgument, positionOf(mark), "there is nothing before this comma"};
  }

  bool expectsKey() const {
    return !frames_.empty() && frames_.back().kind == Kind::Mapping && !frames_.back().in_member;
  }

  void startMember(const YAML::Mark& mark, std::string key) {
    Frame& frame = frames_.back();
    frame.in_member = true;
    frame.positions.push_back(positionOf(mark));
    frame.members.emplace_back(std::move(key), Value());
  }

  std::string keyText(const YAML::Mark& mark, const Value& key) const {
    if (key.isString()) return key.string();
    if (key.isBool() || key.isNumber()) return write(key);
    throw Refused{Code::InvalidArgument, positionOf(mark),
                  key.isNull() ? "a key cannot be null" : "a key must be a scalar"};
  }

  std::uint64_t pathOfNext() const {
    if (frames_.empty()) return LineIndex::kRoot;
    const Frame& frame = frames_.back();
    return frame.kind == Kind::Sequence ? LineIndex::step(frame.path, frame.elements.size())
                                        : LineIndex::step(frame.path, frame.members.back().first);
  }

  void addLine(const YAML::Mark& mark) {
    bool member = !frames_.empty() && frames_.back().kind == Kind::Mapping;
    document_.lines.add(pathOfNext(),
                        member ? frames_.back().positions.back().line : mark.line + 1);
  }

  void scalar(const YAML::Mark& mark, Value value, YAML::anchor_t anchor) {
    charge(mark, 1, 0);
    keep(mark, anchor, value);
    if (expectsKey()) {
      startMember(mark, keyText(mark, value));
    } else {
      addLine(mark);
      add(mark, std::move(value));
    }
  }

  void open(const YAML::Mark& mark, Kind kind, YAML::EmitterStyle::value style,
            YAML::anchor_t anchor) {
    if (frames_.size() >= limits_.depth) tooDeep(mark);
    charge(mark, 1, 0);
    std::uint64_t path = 0;
    if (!expectsKey()) {  // as a key it is refused when it ends: first yaml-cpp may find it broken
      addLine(mark);
      path = pathOfNext();
    }
    frames_.push_back({.kind = kind,
                       .block = style == YAML::EmitterStyle::Block,
                       .mark = mark,
                       .anchor = anchor,
                       .path = path});
  }

  Frame close() {
    Frame frame = std::move(frames_.back());
    frames_.pop_back();
    return frame;
  }

  void finish(const Frame& frame, Value value) {
    keep(frame.mark, frame.anchor, value);
    add(frame.mark, std::move(value));
  }

  // Remembers what an alias may stand for.
  void keep(const YAML::Mark& mark, YAML::anchor_t anchor, const Value& value) {
    if (anchor == 0) return;
    Anchored anchored;
    measure(value, 0, anchored);
    if (!value.isArray() && !value.isObject()) anchored.depth = 0;
    charge(mark, anchored.values, anchored.bytes);
    anchored.value = value;
    if (anchors_.size() <= anchor) anchors_.resize(anchor + 1);
    anchors_[anchor] = std::move(anchored);
  }

  void add(const YAML::Mark& mark, Value value) {
    if (frames_.empty()) {
      document_.value = std::move(value);
      return;
    }
    Frame& frame = frames_.back();
    if (frame.kind == Kind::Sequence) {
      frame.elements.push_back(std::move(value));
      return;
    }
    if (!std::exchange(frame.in_member, false))
      throw Refused{Code::InvalidArgument, positionOf(mark), "a key must be a scalar"};
    if (std::exchange(frame.merging, false)) {
      merge(mark, frame, std::move(value));
    } else {
      frame.members.back().second = std::move(value);
    }
  }

  static void merge(const YAML::Mark& mark, Frame& frame, Value value) {
    Position at = frame.positions.back();
    frame.members.pop_back();
    frame.positions.pop_back();
    if (frame.merged_at) duplicate("<<", *frame.merged_at, at);
    frame.merged_at = at;
    Array sources;
    if (value.isArray()) {
      sources = std::move(value.makeArray());
    } else {
      sources.push_back(std::move(value));
    }
    for (Value& source : sources) {
      if (!source.isObject())
        throw Refused{Code::InvalidArgument, positionOf(mark),
                      "a merge key (<<) takes a mapping or a list of mappings"};
      frame.merged.push_back(std::move(source.makeObject()));
    }
  }

  [[noreturn]] static void duplicate(std::string_view key, Position first, Position second) {
    std::string name(key.substr(0, 80));
    throw Refused{Code::InvalidArgument, second,
                  "duplicate key \"" + name + "\", already on line " + std::to_string(first.line)};
  }

  static Object takeMembers(Frame& frame) {
    std::vector<Member>& members = frame.members;
    std::vector<std::size_t> order(members.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      int compared = members[a].first.compare(members[b].first);
      return compared != 0 ? compared < 0 : a < b;
    });
    std::vector<Member> sorted;
    sorted.reserve(members.size());
    std::size_t previous = 0;
    for (std::size_t i : order) {
      if (!sorted.empty() && sorted.back().first == members[i].first)
        duplicate(members[i].first, frame.positions[previous], frame.positions[i]);
      sorted.push_back(std::move(members[i]));
      previous = i;
    }
    if (frame.merged.empty()) return Object::fromSorted(std::move(sorted));

    // From the least to the most important: Object keeps the last of equal keys.
    std::vector<Member> all;
    for (auto source = frame.merged.rbegin(); source != frame.merged.rend(); ++source)
      std::move(source->begin(), source->end(), std::back_inserter(all));
    std::move(sorted.begin(), sorted.end(), std::back_inserter(all));
    return Object(std::move(all));
  }

  const std::string_view text_;
  DocumentStarts& starts_;
  const Limits limits_;
  Document document_;
  std::vector<Frame> frames_;
  std::vector<std::optional<Anchored>> anchors_;  // by yaml-cpp's number
  std::size_t values_ = 0;
  std::size_t copied_bytes_ = 0;
};

// A text, and a tail after it, as the stream that yaml-cpp wants, without a copy.
class TextBuffer final : public std::streambuf {
 public:
  TextBuffer(std::string_view text, std::string_view tail) : tail_(tail) {
    // The first characters are looked at and put back: they must lie together.
    if (text.size() < 16) {
      start_.append(text).append(tail);
      text = start_;
      tail_ = {};
    }
    show(text);
  }

 private:
  void show(std::string_view text) {
    char* start = const_cast<char*>(text.data());  // only read
    setg(start, start, start + text.size());
  }
  int_type underflow() override {
    if (gptr() == egptr() && !tail_.empty()) show(std::exchange(tail_, {}));
    return gptr() == egptr() ? traits_type::eof() : traits_type::to_int_type(*gptr());
  }

  std::string start_;
  std::string_view tail_;
};

// The characters that YAML 1.1 allows.
bool isAllowed(char32_t c) {
  if (c < 0x20) return c == '\t' || c == '\n' || c == '\r';
  if (c >= 0x7F && c < 0xA0) return c == 0x85;
  return c != 0xFFFE && c != 0xFFFF;
}

// Throws Refused for what is no YAML text and would confuse yaml-cpp, which looks at bytes: text
// that is not UTF-8, control characters (it takes byte 4 for the end), and carriage returns alone,
// which it takes for text. Collections in brackets are limited here because it holds all their
// tokens, a hundred bytes each, before it tells of the first.
void checkCharacters(std::string_view text, const Limits& limits) {
  Position at;
  std::size_t brackets = 0;
  auto refuse = [&](Code code, std::string what) { throw Refused{code, at, std::move(what)}; };
  for (std::size_t i = 0; i < text.size();) {
    std::string_view rest = text.substr(i);
    std::size_t length = utf8Length(rest);
    if (length == 0) refuse(Code::InvalidArgument, "the text is not UTF-8");
    char32_t c = utf8Decode(rest, length);
    if (!isAllowed(c)) refuse(Code::InvalidArgument, "control characters are not allowed");
    if (c == '\r' && !rest.starts_with("\r\n"))
      refuse(Code::InvalidArgument, "a carriage return stands without a line feed");
    if ((c == '[' || c == '{' || c == ',') && ++brackets > limits.values)
      refuse(Code::ResourceExhausted,
             "the text has more than " + std::to_string(limits.values) + " brackets and commas");
    i += length;
    at.column += static_cast<int>(length);
    if (c == '\n') at = {at.line + 1, 1};
  }
}

std::vector<Document> readWithTail(std::string_view text, std::string_view tail,
                                   const Limits& limits) {
  std::vector<Document> documents;
  DocumentStarts starts(text);
  TextBuffer buffer(text, tail);
  std::istream stream(&buffer);
  YAML::Parser parser(stream);
  while (true) {
    YamlBuilder builder(text, starts, limits);
    if (!parser.HandleNextDocument(builder)) return documents;
    Document document = builder.take();
    if (!document.value.isNull()) documents.push_back(std::move(document));
  }
}

// yaml-cpp closes a quote by itself where the text ends after a line break. A mark for the end of
// the document makes it refuse that. Where the last line has no break the mark would add one, and
// could change a block of text: such a text is read twice, once for the check.
std::vector<Document> readYaml(std::string_view text, const Limits& limits) {
  checkCharacters(text, limits);
  if (text.empty() || text.back() == '\n') return readWithTail(text, "...\n", limits);
  if (text.find_first_of("'\"") != text.npos) readWithTail(text, "\n...\n", limits);
  return readWithTail(text, "", limits);
}

// Finds the lines of the values of a text that is known to be JSON.
class JsonLines {
 public:
  explicit JsonLines(std::string_view text) : text_(text) {}

  LineIndex find() {
    skipBlanks();
    value(LineIndex::kRoot, line_);
    index_.finish();
    return std::move(index_);
  }

 private:
  void skipBlanks() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r')) {
      if (text_[at_++] == '\n') ++line_;
    }
  }

  // The string that starts here, with its quotes.
  std::string_view quoted() {
    std::size_t start = at_++;
    while (text_[at_] != '"') at_ += text_[at_] == '\\' ? 2 : 1;
    ++at_;
    return text_.substr(start, at_ - start);
  }

  static std::string keyOf(std::string_view quoted) {
    if (quoted.find('\\') == quoted.npos) return std::string(quoted.substr(1, quoted.size() - 2));
    auto key = parse(quoted);
    return key.ok() ? key->string() : "";
  }

  void value(std::uint64_t path, int line) {
    index_.add(path, line);
    switch (text_[at_]) {
      case '{':
        return container('}', [&](std::size_t) {
          int key_line = line_;
          std::string key = keyOf(quoted());
          skipBlanks();
          ++at_;  // the colon
          skipBlanks();
          value(LineIndex::step(path, key), key_line);
        });
      case '[':
        return container(']', [&](std::size_t i) { value(LineIndex::step(path, i), line_); });
      case '"':
        quoted();
        return;
      default:
        at_ = std::min(text_.find_first_of(",]} \t\r\n", at_), text_.size());
    }
  }

  template <class Entry>
  void container(char end, Entry entry) {
    ++at_;
    skipBlanks();
    for (std::size_t i = 0; text_[at_] != end; ++i) {
      entry(i);
      skipBlanks();
      if (text_[at_] == ',') ++at_;
      skipBlanks();
    }
    ++at_;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int line_ = 1;
  LineIndex index_;
};

std::string_view withoutByteOrderMark(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  return text;
}

// Nothing where the text is no JSON of one document: YAML decides then.
std::optional<Document> readJson(std::string_view text, const Limits& limits) {
  std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == text.npos || (text[first] != '{' && text[first] != '[')) return std::nullopt;
  auto value = parse(text, {.limits = limits, .duplicate_keys = DuplicateKeys::Refuse});
  if (!value.ok()) return std::nullopt;
  Document document{.value = *std::move(value), .line = 1, .lines = JsonLines(text).find()};
  document.line = document.lines.find("");
  return document;
}

Error errorAt(std::string_view source_name, Code code, Position at, std::string_view what) {
  std::string message(source_name);
  message += ':' + std::to_string(at.line) + ':' + std::to_string(at.column) + ": ";
  return {.code = code, .message = message.append(what)};
}

}  // namespace

std::uint64_t LineIndex::step(std::uint64_t parent, std::string_view key) {
  std::uint64_t hash = 0xCBF29CE484222325;
  for (char c : key) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  return mix(parent ^ mix(hash));
}

std::uint64_t LineIndex::step(std::uint64_t parent, std::size_t index) {
  return step(parent, std::string_view(std::to_string(index)));
}

void LineIndex::finish() { std::sort(lines_.begin(), lines_.end()); }

int LineIndex::find(std::string_view pointer) const {
  auto lineAt = [&](std::uint64_t path) {
    auto at = std::lower_bound(lines_.begin(), lines_.end(), std::pair(path, 0));
    return at != lines_.end() && at->first == path ? at->second : 0;
  };
  std::uint64_t path = kRoot;
  int line = lineAt(path);
  while (!pointer.empty()) {
    pointer.remove_prefix(1);  // the slash
    std::string_view token = pointer.substr(0, pointer.find('/'));
    pointer.remove_prefix(token.size());
    path = step(path, unescapeToken(token));
    int deeper = lineAt(path);
    if (deeper == 0) break;
    line = deeper;
  }
  return line;
}

int Document::lineOf(std::string_view pointer) const {
  int known = lines.find(pointer);
  return known != 0 ? known : line;
}

Result<std::vector<Document>> parseYaml(std::string_view text, std::string_view source_name,
                                        const Limits& limits) {
  if (text.size() > limits.bytes)
    return errorAt(source_name, Code::ResourceExhausted, {},
                   "the text has " + std::to_string(text.size()) + " bytes, the limit is " +
                       std::to_string(limits.bytes));
  text = withoutByteOrderMark(text);
  if (auto document = readJson(text, limits)) {
    std::vector<Document> documents;
    documents.push_back(*std::move(document));
    return documents;
  }
  try {
    return readYaml(text, limits);
  } catch (const Refused& refused) {
    return errorAt(source_name, refused.code, refused.at, refused.message);
  } catch (const YAML::Exception& exception) {
    return errorAt(source_name, Code::InvalidArgument, positionOf(exception.mark), exception.msg);
  }
}

}  // namespace cadre::json
