#include "kube/protobuf.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/format.h"
#include "base/strings.h"
#include "json/utf8.h"
#include "kube/names.h"
#include "kube/types.h"

namespace cadre::kube {

namespace {

using json::Value;
using Member = json::Object::Member;

constexpr std::string_view kMagic("k8s\0", 4);
constexpr std::size_t kFrameHead = 4;  // of a watch: the length of the frame, big end first
constexpr std::size_t kKeptCapacity = 1u << 20;  // of a buffer that is empty; more is given back

// --- the wire: messages are fields, each a number, a wire type, and a varint or bytes

enum class Wire : std::uint8_t { Varint = 0, Fixed64 = 1, Bytes = 2, Fixed32 = 5 };

struct WireField {
  std::uint32_t number = 0;
  Wire wire = Wire::Bytes;
  std::uint64_t varint = 0;  // of a Varint
  std::uint64_t length = 0;  // of all others: what follows
  std::string_view bytes = {};
};

enum class Took { Yes, Cut, Bad };

Took takeVarint(std::string_view& rest, std::uint64_t& out) {
  out = 0;
  for (unsigned i = 0; i < 10; ++i) {
    if (i == rest.size()) return Took::Cut;
    auto byte = static_cast<unsigned char>(rest[i]);
    out |= static_cast<std::uint64_t>(byte & 0x7f) << (7 * i);
    if (byte & 0x80) continue;
    rest.remove_prefix(i + 1);
    return Took::Yes;
  }
  return Took::Bad;
}

// A field but for its bytes.
Took takeHead(std::string_view& rest, WireField& field) {
  std::uint64_t tag = 0;
  if (Took took = takeVarint(rest, tag); took != Took::Yes) return took;
  if (tag >> 3 == 0 || tag >> 3 > 0x1fff'ffff) return Took::Bad;
  field.number = static_cast<std::uint32_t>(tag >> 3);
  field.wire = static_cast<Wire>(tag & 7);
  field.length = 0;
  switch (field.wire) {
    case Wire::Varint:
      return takeVarint(rest, field.varint);
    case Wire::Bytes:
      return takeVarint(rest, field.length);
    case Wire::Fixed64:
      field.length = 8;
      return Took::Yes;
    case Wire::Fixed32:
      field.length = 4;
      return Took::Yes;
  }
  return Took::Bad;  // groups, which Kubernetes does not use, and what does not exist
}

Took takeField(std::string_view& rest, WireField& field) {
  if (Took took = takeHead(rest, field); took != Took::Yes) return took;
  if (field.length > rest.size()) return Took::Cut;
  field.bytes = rest.substr(0, field.length);
  rest.remove_prefix(field.length);
  return Took::Yes;
}

// How many fields of that number come next, one after the other.
std::size_t countNext(std::string_view rest, std::uint32_t number) {
  std::size_t count = 0;
  WireField field;
  while (!rest.empty() && takeField(rest, field) == Took::Yes && field.number == number) ++count;
  return count;
}

Error wrong(std::string message) {
  return {.code = Code::InvalidArgument, .message = std::move(message)};
}
Error tooLarge(std::uint64_t size, std::size_t limit) {
  return {.code = Code::ResourceExhausted,
          .message = format("an object has {} bytes, the limit is {}", size, limit)};
}
Error refused(Took took) {
  if (took == Took::Cut)
    return {.code = Code::DataLoss, .message = "the bytes end in the middle of a field"};
  return {
      .code = Code::DataLoss,
      .message = "the bytes are not protobuf: a field has no number, length or type that there is"};
}

// --- text

bool isAscii(std::string_view text) {
  unsigned char all = 0;  // one loop without a branch: compilers make it wide
  for (char c : text) all |= static_cast<unsigned char>(c);
  return all < 0x80;
}

// As Go writes JSON: what is not UTF-8 becomes U+FFFD.
std::string textOf(std::string_view bytes) {
  return isAscii(bytes) ? std::string(bytes) : json::utf8Repair(bytes);
}

// RFC 3339 in UTC, with microseconds where they are given. Unlike base's, of every year with four
// digits; nothing for all others.
std::optional<std::string> timeText(std::int64_t seconds, std::optional<std::int64_t> micros) {
  using namespace std::chrono;
  constexpr std::int64_t kFirst = -62'167'219'200, kLast = 253'402'300'799;
  if (seconds < kFirst || seconds > kLast) return std::nullopt;
  sys_seconds time{std::chrono::seconds(seconds)};
  auto day = floor<days>(time);
  year_month_day date(day);
  hh_mm_ss clock(time - day);
  std::string out = format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", static_cast<int>(date.year()),
                           static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                           clock.hours().count(), clock.minutes().count(), clock.seconds().count());
  return micros ? format("{}.{:06}Z", out, *micros) : out + 'Z';
}

// --- objects

// Reads messages that the table describes. Members of all open structs lie on one stack, each once,
// and are moved off into an object of exactly their number.
class Decoder {
 public:
  explicit Decoder(const json::ParseOptions& options) : options_(options) {}

  // An object of that type; with apiVersion and kind if they are given.
  Result<Value> object(Type type, std::string_view bytes, std::string_view api_version = {},
                       std::string_view kind = {}) {
    if (bytes.size() > options_.limits.bytes) return tooLarge(bytes.size(), options_.limits.bytes);
    error_.reset();
    depth_ = 0;
    members_.clear();
    if (!api_version.empty()) members_.emplace_back("apiVersion", textOf(api_version));
    if (!kind.empty()) members_.emplace_back("kind", textOf(kind));
    values_ = members_.size();
    if (!enter() || !count() || !addMembers(type, bytes, 0)) return *error_;
    return takeObject(0);
  }

 private:
  bool fail(Error error) {
    error_ = std::move(error);
    return false;
  }
  bool enter() {
    if (++depth_ <= options_.limits.depth) return true;
    return fail(
        {.code = Code::ResourceExhausted,
         .message = format("an object is nested deeper than {} levels", options_.limits.depth)});
  }
  void leave() { --depth_; }
  // One value is about to be made; so many more come after it.
  bool count(std::size_t more = 0) {
    if (++values_ + more <= options_.limits.values) return true;
    return fail({.code = Code::ResourceExhausted,
                 .message = format("an object has more than {} values", options_.limits.values)});
  }

  // False at the end, and for what is no field: then there is an error.
  bool next(std::string_view& rest, WireField& field) {
    if (rest.empty()) return false;
    Took took = takeField(rest, field);
    return took == Took::Yes || fail(refused(took));
  }

  // The fields of a struct onto the stack, where those of its owner begin at `start`.
  bool addMembers(Type type, std::string_view bytes, std::size_t start) {
    WireField wire;
    while (next(bytes, wire)) {
      auto field = type.field(wire.number);
      if (!field) continue;  // of a newer server
      if (options_.drop_managed_fields && field->name() == "managedFields") continue;
      if (!addMember(*field, wire, bytes, start)) return false;
    }
    if (error_) return false;
    for (std::size_t i = 0; i < type.fieldCount(); ++i) {
      Field field = type.fieldAt(i);
      if (field.showsNull() && !findMember(field.name(), start)) push(field, Value());
    }
    return true;
  }

  bool addMember(const Field& field, const WireField& wire, std::string_view& rest,
                 std::size_t start) {
    Type type = field.type();
    if (field.isInline()) return expect(wire, Wire::Bytes) && addMembers(type, wire.bytes, start);
    Value value;
    Value* before = findMember(field.name(), start);
    if (type.form() == Form::List || type.form() == Form::Map) {
      // Servers write them in one go. Putting parts together would cost a hostile one little and us
      // much.
      if (before) return fail(wrong("a list or map comes in several parts"));
      bool good = type.form() == Form::List ? readList(type.element(), wire, rest, value)
                                            : readMap(type.element(), wire, rest, value);
      if (!good) return false;
    } else if (!readOne(type, wire, value)) {
      return false;
    } else if (isLeftOut(field, value)) {
      return true;
    }
    // By name again: the stack may have moved.
    if (before)
      *findMember(field.name(), start) = std::move(value);
    else
      push(field, std::move(value));
    return true;
  }

  // Whether Go would not write it into JSON.
  static bool isLeftOut(const Field& field, const Value& value) {
    if (field.isPointer()) return false;
    switch (field.type().form()) {
      case Form::String:
      case Form::Bytes:
        return field.omitsEmpty() && value.string().empty();
      case Form::Integer:
        return field.omitsEmpty() && value.integer() == 0;
      case Form::Boolean:
        return field.omitsEmpty() && !value.boolean();
      default:
        return field.omitsZero() && value.isNull();
    }
  }

  void push(const Field& field, Value value) {
    members_.emplace_back(std::string(field.name()), std::move(value));
  }
  Value* findMember(std::string_view name, std::size_t start) {
    auto found = std::find_if(members_.begin() + static_cast<std::ptrdiff_t>(start), members_.end(),
                              [&](const Member& member) { return member.first == name; });
    return found == members_.end() ? nullptr : &found->second;
  }

  json::Object takeObject(std::size_t start) {
    auto first = members_.begin() + static_cast<std::ptrdiff_t>(start);
    std::vector<Member> members;
    members.reserve(members_.size() - start);
    order_.clear();
    for (auto member = first; member != members_.end(); ++member) order_.push_back(&*member);
    std::ranges::sort(order_, {}, [](const Member* member) -> auto& { return member->first; });
    for (Member* member : order_) members.push_back(std::move(*member));
    members_.erase(first, members_.end());
    return json::Object::fromSorted(std::move(members));
  }

  // A list: this field, and those of the same number behind it.
  bool readList(Type element, WireField wire, std::string_view& rest, Value& list) {
    json::Array& out = list.makeArray();
    std::size_t more = countNext(rest, wire.number);
    if (!enter() || !count(more + 1)) return false;
    out.reserve(more + 1);
    bool numbers = element.form() == Form::Integer || element.form() == Form::Boolean;
    for (std::size_t left = more;; --left) {
      if (numbers && wire.wire == Wire::Bytes) {
        if (!readPacked(element, wire, out)) return false;
      } else if (!readOne(element, wire, out.emplace_back())) {
        return false;
      }
      if (left == 0) break;
      if (!next(rest, wire)) return false;
    }
    leave();
    return true;
  }

  bool readPacked(Type element, const WireField& wire, json::Array& out) {
    WireField one{.number = wire.number, .wire = Wire::Varint};
    for (std::string_view rest = wire.bytes; !rest.empty();) {
      Took took = takeVarint(rest, one.varint);
      if (took != Took::Yes) return fail(refused(took));
      if (!readOne(element, one, out.emplace_back())) return false;
    }
    return true;
  }

  bool readMap(Type element, WireField wire, std::string_view& rest, Value& map) {
    std::size_t more = countNext(rest, wire.number);
    if (!enter() || !count(more + 1)) return false;
    std::vector<Member> entries;
    entries.reserve(more + 1);
    for (std::size_t left = more;; --left) {
      if (!expect(wire, Wire::Bytes) || !readEntry(element, wire.bytes, entries)) return false;
      if (left == 0) break;
      if (!next(rest, wire)) return false;
    }
    auto unordered = [](const Member& a, const Member& b) { return a.first >= b.first; };
    bool sorted = std::ranges::adjacent_find(entries, unordered) == entries.end();
    map = sorted ? json::Object::fromSorted(std::move(entries)) : json::Object(std::move(entries));
    leave();
    return true;
  }

  // An entry of a map is a message: 1 is its key, 2 its value. Either may be missing: empty.
  bool readEntry(Type element, std::string_view bytes, std::vector<Member>& entries) {
    WireField key, value, wire;
    bool numbers = element.form() == Form::Integer || element.form() == Form::Boolean;
    value.wire = numbers ? Wire::Varint : Wire::Bytes;
    while (next(bytes, wire)) {
      if (wire.number == 1) key = wire;
      if (wire.number == 2) value = wire;
    }
    if (error_ || !expect(key, Wire::Bytes)) return false;
    Member& entry = entries.emplace_back(textOf(key.bytes), Value());
    return readOne(element, value, entry.second);
  }

  bool expect(const WireField& wire, Wire expected) {
    if (wire.wire == expected) return true;
    return fail(wrong(
        format("field {} of a message is not of the wire type that it should be", wire.number)));
  }

  // A value that is no list or map.
  bool readOne(Type type, const WireField& wire, Value& out) {
    Form form = type.form();
    bool number = form == Form::Integer || form == Form::Boolean;
    if (!count() || !expect(wire, number ? Wire::Varint : Wire::Bytes)) return false;
    switch (form) {
      case Form::Integer:
        out = static_cast<std::int64_t>(wire.varint);
        return true;
      case Form::Boolean:
        out = wire.varint != 0;
        return true;
      case Form::String:
        out = textOf(wire.bytes);
        return true;
      case Form::Bytes:
        out = base64Encode(wire.bytes);
        return true;
      case Form::Quantity:
        return readQuantity(wire.bytes, out);
      case Form::IntOrString:
        return readIntOrString(wire.bytes, out);
      case Form::Time:
      case Form::MicroTime:
        return readTime(form, wire.bytes, out);
      case Form::Any:
        return readRaw(wire.bytes, out);
      case Form::Struct:
        return readStruct(type, wire.bytes, out);
      case Form::Number:
      case Form::Map:
      case Form::List:
        break;
    }
    return fail({.code = Code::Internal, .message = "the table has a type that is not read"});
  }

  bool readStruct(Type type, std::string_view bytes, Value& out) {
    std::size_t start = members_.size();
    // The one kind that stands inside another (in a StatefulSet): the server tells which it is, but
    // only in JSON.
    if (type == claim_) {
      members_.emplace_back("apiVersion", "v1");
      members_.emplace_back("kind", "PersistentVolumeClaim");
    }
    if (!enter() || !addMembers(type, bytes, start)) return false;
    out = takeObject(start);
    leave();
    return true;
  }

  bool readQuantity(std::string_view bytes, Value& out) {
    WireField text, wire;
    while (next(bytes, wire))
      if (wire.number == 1) text = wire;
    if (error_ || !expect(text, Wire::Bytes)) return false;
    out = text.bytes.empty() ? std::string("0") : textOf(text.bytes);
    return true;
  }

  bool readIntOrString(std::string_view bytes, Value& out) {
    WireField is_text{.wire = Wire::Varint}, number{.wire = Wire::Varint}, text, wire;
    while (next(bytes, wire)) {
      if (wire.number == 1) is_text = wire;
      if (wire.number == 2) number = wire;
      if (wire.number == 3) text = wire;
    }
    if (error_ || !expect(is_text, Wire::Varint) || !expect(number, Wire::Varint) ||
        !expect(text, Wire::Bytes))
      return false;
    if (is_text.varint != 0)
      out = textOf(text.bytes);
    else
      out = static_cast<std::int64_t>(number.varint);
    return true;
  }

  bool readTime(Form form, std::string_view bytes, Value& out) {
    if (bytes.empty()) return true;  // no time: null
    WireField seconds{.wire = Wire::Varint}, nanos{.wire = Wire::Varint}, wire;
    while (next(bytes, wire)) {
      if (wire.number == 1) seconds = wire;
      if (wire.number == 2) nanos = wire;
    }
    if (error_ || !expect(seconds, Wire::Varint) || !expect(nanos, Wire::Varint)) return false;
    std::optional<std::int64_t> micros;
    if (form == Form::MicroTime) micros = static_cast<std::int64_t>(nanos.varint / 1000);
    auto text = timeText(static_cast<std::int64_t>(seconds.varint), micros);
    if (!text || nanos.varint > 999'999'999) return fail(wrong("a time is beyond all years"));
    out = *std::move(text);
    return true;
  }

  // JSON inside of protobuf.
  bool readRaw(std::string_view bytes, Value& out) {
    WireField raw, wire;
    while (next(bytes, wire))
      if (wire.number == 1) raw = wire;
    if (error_ || !expect(raw, Wire::Bytes)) return false;
    if (raw.bytes.empty()) return true;  // null
    json::Limits limits{.bytes = options_.limits.bytes,
                        .depth = options_.limits.depth - depth_,
                        .values = options_.limits.values - values_};
    auto value = json::parse(raw.bytes, {.limits = limits, .cut_deep = options_.cut_deep});
    if (!value) return fail(std::move(value).error().context("reading JSON inside of protobuf"));
    out = *std::move(value);
    return true;
  }

  const json::ParseOptions options_;
  const Type claim_ = Type::of("", "v1", "PersistentVolumeClaim");
  std::vector<Member> members_;
  std::vector<Member*> order_;  // scratch of takeObject
  std::size_t depth_ = 0;
  std::size_t values_ = 0;
  std::optional<Error> error_;
};

// --- the envelope around an object or list: 1 is what it is, 2 the object itself

struct TypeMeta {
  std::string_view api_version, kind;
};

Result<TypeMeta> readTypeMeta(std::string_view bytes) {
  TypeMeta out;
  WireField field;
  while (!bytes.empty()) {
    if (Took took = takeField(bytes, field); took != Took::Yes) return refused(took);
    if (field.number == 1) out.api_version = field.bytes;
    if (field.number == 2) out.kind = field.bytes;
  }
  return out;
}

Error notMagic() { return wrong("the bytes are not Kubernetes' protobuf: they do not begin so"); }

// The bytes of the object in an envelope, and what it is.
Result<std::pair<TypeMeta, std::string_view>> openEnvelope(std::string_view bytes) {
  if (!bytes.starts_with(kMagic)) return notMagic();
  bytes.remove_prefix(kMagic.size());
  std::string_view type, raw;
  WireField field;
  while (!bytes.empty()) {
    if (Took took = takeField(bytes, field); took != Took::Yes) return refused(took);
    if (field.number == 1) type = field.bytes;
    if (field.number == 2) raw = field.bytes;
  }
  CADRE_LET(TypeMeta meta, readTypeMeta(type));
  return std::pair(meta, raw);
}

Result<Value> readObject(Decoder& decoder, std::string_view bytes) {
  CADRE_LET(auto opened, openEnvelope(bytes));
  auto& [meta, raw] = opened;
  auto [group, version] = cut(meta.api_version, "/");
  if (version.empty()) std::swap(group, version);
  if (meta.kind == "DeleteOptions") group = "", version = "v1";  // the same in every group
  if (!inProtobuf(group, version, meta.kind))
    return wrong(format("the object is {} {}, which is not read from protobuf",
                        inQuotes(meta.api_version), inQuotes(meta.kind)));
  return decoder.object(Type::of(group, version, meta.kind), raw, meta.api_version, meta.kind);
}

// Bytes that were fed and not taken yet: a view of the present piece, with what was left of those
// before it in front.
class Backlog {
 public:
  void add(std::string_view piece) {
    view_ = held_.empty() ? piece : std::string_view(held_.append(piece));
  }
  std::string_view view() const { return view_; }
  void take(std::size_t bytes) { view_.remove_prefix(bytes); }
  // The piece is about to go: keeps what is left of it.
  void keep() {
    if (held_.empty())
      held_ = view_;
    else
      held_.erase(0, held_.size() - view_.size());
    if (held_.empty() && held_.capacity() > kKeptCapacity) held_ = {};
    view_ = held_;
  }
  bool empty() const { return view_.empty(); }

 private:
  std::string held_;
  std::string_view view_;
};

// What both parsers below do with a piece. Holds their state: a callback may destroy the parser.
template <class State>
Result<> feedTo(std::shared_ptr<State> state, std::string_view piece) {
  if (state->failure) return *state->failure;
  state->backlog.add(piece);
  for (Took took = Took::Yes; took != Took::Cut;) {
    auto stepped = state->step();
    if (!stepped) return *(state->failure = std::move(stepped).error());
    if (state->abandoned) return {};
    took = *stepped;
  }
  state->backlog.keep();
  return {};
}

}  // namespace

bool isProtobuf(std::string_view content_type) {
  return equalsIgnoreCase(trim(cut(content_type, ";").first), kProtobufType);
}

Result<Value> parseProtobuf(std::string_view bytes, const json::ParseOptions& options) {
  Decoder decoder(options);
  return readObject(decoder, bytes);
}

// --- a list

struct ProtobufListParser::State {
  State(const GroupVersionKind& kind, OnItem on_item, const json::ParseOptions& options)
      : on_item(std::move(on_item)),
        limit(options.limits.bytes),
        expected_kind(kind.kind + "List"),
        item_type(Type::of(kind)),
        decoder(options) {}

  // Takes the next part of the answer, if it is there as a whole.
  Result<Took> step() {
    if (where == Where::List && left == 0) where = Where::Envelope;
    switch (where) {
      case Where::Magic:
        return takeMagic();
      case Where::Envelope:
        return takeEnvelope();
      case Where::List:
        return takePart();
    }
    return Took::Cut;
  }

  Result<Took> takeMagic() {
    std::string_view begin = backlog.view().substr(0, kMagic.size());
    if (!kMagic.starts_with(begin)) return notMagic();
    if (begin.size() < kMagic.size()) return Took::Cut;
    backlog.take(kMagic.size());
    where = Where::Envelope;
    return Took::Yes;
  }

  Result<Took> takeEnvelope() {
    std::string_view rest = backlog.view();
    WireField field;
    CADRE_LET(Took took, peekHead(rest, field));
    if (took == Took::Cut) return took;
    if (field.number == 2 && field.wire == Wire::Bytes) {  // the list, whose parts follow
      backlog.take(backlog.view().size() - rest.size());
      CADRE_TRY(beginList(field.length));
      return Took::Yes;
    }
    if (field.length > rest.size()) return Took::Cut;
    if (field.number == 1) CADRE_TRY(takeType(rest.substr(0, field.length)));
    backlog.take(backlog.view().size() - rest.size() + field.length);
    return Took::Yes;
  }

  Result<Took> takePart() {
    std::string_view rest = backlog.view();
    WireField field;
    CADRE_LET(Took took, peekHead(rest, field));
    if (took == Took::Cut || field.length > rest.size()) return Took::Cut;
    std::size_t size = backlog.view().size() - rest.size() + field.length;
    if (size > left) return wrong("an item goes beyond the end of its list");
    left -= size;
    backlog.take(size);  // the bytes themselves stay until the piece goes
    if (field.wire != Wire::Bytes) return Took::Yes;
    field.bytes = rest.substr(0, field.length);
    if (field.number == 1) {
      CADRE_LET(metadata, decoder.object(list_meta, field.bytes));
    }
    if (field.number != 2) return Took::Yes;
    CADRE_LET(Value item, decoder.object(item_type, field.bytes));
    on_item(std::move(item));
    return Took::Yes;
  }

  // What comes next, if that much is there. Only the list itself may be larger than the limit.
  Result<Took> peekHead(std::string_view& rest, WireField& field) const {
    if (rest.empty()) return Took::Cut;
    Took took = takeHead(rest, field);
    if (took == Took::Bad) return refused(took);
    bool is_list = where == Where::Envelope && field.number == 2;
    if (took == Took::Yes && !is_list && field.length > limit) return tooLarge(field.length, limit);
    return took;
  }

  Result<> takeType(std::string_view bytes) {
    CADRE_LET(TypeMeta meta, readTypeMeta(bytes));
    api_version = textOf(meta.api_version);
    kind = textOf(meta.kind);
    return {};
  }
  Result<> beginList(std::uint64_t length) {
    if (std::exchange(begun, true)) return wrong("there are two lists in one answer");
    if (kind != expected_kind)
      return wrong(format("the answer is {}, not {}", inQuotes(kind), expected_kind));
    where = Where::List;
    left = length;
    return {};
  }

  enum class Where { Magic, Envelope, List };

  OnItem on_item;
  const std::size_t limit;
  const std::string expected_kind;
  const Type item_type;
  const Type list_meta = Type::of("", "v1", "Status").field("metadata")->type();
  Decoder decoder;
  Backlog backlog;
  Where where = Where::Magic;
  std::uint64_t left = 0;  // of the list
  bool begun = false;
  std::string api_version, kind;
  Value metadata;
  bool abandoned = false;  // the parser is gone while we are in its callback
  std::optional<Error> failure;
};

ProtobufListParser::ProtobufListParser(const GroupVersionKind& kind, OnItem on_item,
                                       const json::ParseOptions& options)
    : state_(std::make_shared<State>(kind, std::move(on_item), options)) {}
ProtobufListParser::~ProtobufListParser() {
  if (state_) state_->abandoned = true;
}
ProtobufListParser::ProtobufListParser(ProtobufListParser&&) noexcept = default;
ProtobufListParser& ProtobufListParser::operator=(ProtobufListParser&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}

Result<> ProtobufListParser::feed(std::string_view piece) { return feedTo(state_, piece); }

Result<Value> ProtobufListParser::finish() {
  State& state = *state_;
  if (state.failure) return *state.failure;
  if (!state.begun || state.left > 0 || !state.backlog.empty())
    return *(state.failure = Error{.code = Code::DataLoss,
                                   .message = "the bytes end in the middle of the list"});
  return Value(json::Object{
      {"apiVersion", state.api_version}, {"kind", state.kind}, {"metadata", state.metadata}});
}

// --- a watch

struct ProtobufStreamParser::State {
  State(OnDocument on_document, const json::ParseOptions& options)
      : on_document(std::move(on_document)), limit(options.limits.bytes), decoder(options) {}

  // Takes the next frame, if it is there as a whole.
  Result<Took> step() {
    std::string_view view = backlog.view();
    if (view.size() < kFrameHead) return Took::Cut;
    std::size_t length = 0;
    for (char c : view.substr(0, kFrameHead)) length = length << 8 | static_cast<unsigned char>(c);
    if (length > limit) return tooLarge(length, limit);
    view.remove_prefix(kFrameHead);
    if (view.size() < length) return Took::Cut;
    backlog.take(kFrameHead + length);
    CADRE_LET(Value document, readEvent(view.substr(0, length)));
    on_document(std::move(document));
    return Took::Yes;
  }

  // 1 is the event's type, 2 the object, whose 1 are its bytes.
  Result<Value> readEvent(std::string_view bytes) {
    std::string_view type, object;
    WireField field;
    while (!bytes.empty()) {
      if (Took took = takeField(bytes, field); took != Took::Yes) return refused(took);
      if (field.number == 1) type = field.bytes;
      if (field.number == 2) object = field.bytes;
    }
    field.bytes = {};
    while (!object.empty()) {
      if (Took took = takeField(object, field); took != Took::Yes) return refused(took);
      if (field.number == 1) break;
    }
    CADRE_LET(Value value, readObject(decoder, field.bytes));
    std::vector<Member> members;
    members.reserve(2);
    members.emplace_back("object", std::move(value));
    members.emplace_back("type", textOf(type));
    return Value(json::Object::fromSorted(std::move(members)));
  }

  OnDocument on_document;
  const std::size_t limit;
  Decoder decoder;
  Backlog backlog;
  bool abandoned = false;  // the parser is gone while we are in its callback
  std::optional<Error> failure;
};

ProtobufStreamParser::ProtobufStreamParser(OnDocument on_document,
                                           const json::ParseOptions& options)
    : state_(std::make_shared<State>(std::move(on_document), options)) {}
ProtobufStreamParser::~ProtobufStreamParser() {
  if (state_) state_->abandoned = true;
}
ProtobufStreamParser::ProtobufStreamParser(ProtobufStreamParser&&) noexcept = default;
ProtobufStreamParser& ProtobufStreamParser::operator=(ProtobufStreamParser&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}

Result<> ProtobufStreamParser::feed(std::string_view piece) { return feedTo(state_, piece); }

Result<> ProtobufStreamParser::finish() {
  State& state = *state_;
  if (state.failure) return *state.failure;
  if (state.backlog.empty()) return {};
  return *(state.failure =
               Error{.code = Code::DataLoss, .message = "the bytes end in the middle of an event"});
}

}  // namespace cadre::kube
