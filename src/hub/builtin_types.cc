#include "hub/builtin_types.h"

#include <limits>
#include <optional>

#include "base/format.h"
#include "base/strings.h"
#include "base/time.h"
#include "json/write.h"
#include "kube/quantity.h"

namespace cadre::hub {

namespace {

using json::Value;
using kube::Field;
using kube::Form;
using kube::Type;

Error badRequest(const BuiltIn& kind, std::string_view why) {
  return {.code = Code::InvalidArgument,
          .message = format("{} in version \"{}\" cannot be handled as a {}: {}", kind.kind,
                            kind.version, kind.kind, why),
          .reason = "BadRequest"};
}

// --- what Go's readers say

// "core/v1 PodSpec" as Go says it: "v1.PodSpec".
std::string goStruct(Type type) {
  auto [package, name] = cut(type.name(), " ");
  return std::string(package.substr(package.find('/') + 1)) + "." + std::string(name);
}

std::string goType(Type type) {
  switch (type.form()) {
    case Form::String:
    case Form::Time:
    case Form::MicroTime:
      return "string";
    case Form::Integer:
    case Form::IntOrString:
      return "int32";
    case Form::Number:
      return "float64";
    case Form::Boolean:
      return "bool";
    case Form::Bytes:
      return "[]uint8";
    case Form::Struct:
      return goStruct(type);
    case Form::List:
      return "[]" + goType(type.element());
    case Form::Map:
      return "map[string]" + goType(type.element());
    case Form::Quantity:
    case Form::Any:
      break;
  }
  return "interface {}";
}

// The element's part of "[]v1.Capability" or "map[string]v1.Thing"; empty where it follows from its
// form, or where Go has a name for the whole that hides it.
std::string_view elementName(std::string_view go_name) {
  if (go_name.starts_with("[]")) return go_name.substr(2);
  if (go_name.starts_with("map[")) return go_name.substr(go_name.find(']') + 1);
  return {};
}

std::string_view jsonWord(const Value& value) {
  if (value.isBool()) return "bool";
  if (value.isNumber()) return "number";
  return value.typeName();
}

std::optional<std::string> quantityProblem(const Value& value) {
  if (kube::Quantity::fromJson(value)) return std::nullopt;
  std::string text = value.isString() ? value.string() : json::write(value);
  constexpr std::string_view kWrong =
      "quantities must match the regular expression "
      "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
  std::string_view rest = text;
  if (rest.starts_with('+') || rest.starts_with('-')) rest.remove_prefix(1);
  auto end = std::min(rest.find_first_not_of("0123456789."), rest.size());
  std::string_view number = rest.substr(0, end), suffix = rest.substr(end);
  auto letters = std::min(suffix.find_first_not_of("eEinumkKMGTP"), suffix.size());
  std::string_view exponent = suffix.substr(letters);
  if (exponent.starts_with('+') || exponent.starts_with('-')) exponent.remove_prefix(1);
  if (number.empty() || exponent.find_first_not_of("0123456789") != std::string_view::npos)
    return std::string(kWrong);
  if (number.find('.') != number.rfind('.') || number == ".")
    return "unable to parse numeric part of quantity";
  // A plain number, or one with a suffix that there is: it is too large.
  if (number.size() > 20 || suffix.starts_with('e') || suffix.starts_with('E') ||
      kube::Quantity::parse(format("1{}", suffix)))
    return "the quantity is beyond 1e29, which is the most that this server knows";
  return "unable to parse quantity's suffix";
}

// A point and six digits: times with microseconds always have them.
bool isMicros(std::string_view fraction) {
  return fraction.size() == 7 && fraction.front() == '.' &&
         fraction.find_first_not_of("0123456789", 1) == std::string_view::npos;
}

// As Go's time.Parse complains with the layout of RFC 3339: about the first part that is not there.
std::string timeProblem(std::string_view text, bool micro) {
  struct Part {
    std::string_view layout;
    int digits;  // 0: the layout itself
  };
  constexpr Part kParts[] = {{"2006", 4}, {"-", 0}, {"01", 2}, {"-", 0}, {"02", 2}, {"T", 0},
                             {"15", 2},   {":", 0}, {"04", 2}, {":", 0}, {"05", 2}};
  std::string layout = micro ? "2006-01-02T15:04:05.000000Z07:00" : "2006-01-02T15:04:05Z07:00";
  std::string quoted;
  json::appendQuoted(quoted, text);
  auto cannot = [&](std::string_view rest, std::string_view part) {
    std::string left;
    json::appendQuoted(left, rest);
    return format("parsing time {} as \"{}\": cannot parse {} as \"{}\"", quoted, layout, left,
                  part);
  };
  std::string_view rest = text;
  std::int64_t month = 0, day = 0, hour = 0, minute = 0, second = 0;
  for (const Part& part : kParts) {
    std::size_t length = part.digits == 0 ? 1 : static_cast<std::size_t>(part.digits);
    std::string_view piece = rest.substr(0, length);
    bool good =
        piece.size() == length &&
        (part.digits == 0 ? piece == part.layout
                          : piece.find_first_not_of("0123456789") == std::string_view::npos);
    if (!good) return cannot(rest, part.layout);
    auto number = parseInt(piece).value_or(0);
    if (part.layout == "01") month = number;
    if (part.layout == "02") day = number;
    if (part.layout == "15") hour = number;
    if (part.layout == "04") minute = number;
    if (part.layout == "05") second = number;
    rest.remove_prefix(length);
  }
  auto range = [&](std::string_view what) {
    return format("parsing time {}: {} out of range", quoted, what);
  };
  if (month < 1 || month > 12) return range("month");
  if (hour > 23) return range("hour");
  if (minute > 59) return range("minute");
  if (second > 59) return range("second");
  if (day < 1 || day > 31) return range("day");
  constexpr std::string_view kMicros = ".000000";
  if (micro) {
    std::string_view fraction = rest.substr(0, kMicros.size());
    if (!isMicros(fraction)) return cannot(rest, kMicros);
    rest.remove_prefix(kMicros.size());
  }
  if (!micro && rest.starts_with('.'))
    rest = rest.substr(std::min(rest.find_first_not_of("0123456789", 1), rest.size()));
  if (!rest.starts_with('Z') && !rest.starts_with('+') && !rest.starts_with('-'))
    return cannot(rest, "Z07:00");
  if (rest.starts_with('Z') && rest.size() > 1) {
    std::string left;
    json::appendQuoted(left, rest.substr(1));
    return format("parsing time {}: extra text: {}", quoted, left);
  }
  return range("day");
}

struct Base64 {
  std::string bytes;
  std::optional<std::size_t> wrong_at;
};

// Standard alphabet with padding; line breaks are passed over. Where it goes wrong is told as Go
// does: at the character, or where the group of four that is cut off begins.
Base64 readBase64(std::string_view text) {
  auto valueOf = [](char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    if (c == '+') return 62;
    return c == '/' ? 63 : -1;
  };
  Base64 out;
  std::size_t i = 0;
  auto skipBreaks = [&] {
    while (i < text.size() && (text[i] == '\n' || text[i] == '\r')) ++i;
  };
  while (true) {
    std::uint32_t group = 0;
    std::size_t read = 0;
    while (read < 4) {
      skipBreaks();
      if (i == text.size()) {
        if (read > 0) out.wrong_at = i - read;
        return out;
      }
      char c = text[i++];
      if (int value = valueOf(c); value >= 0) {
        group = group << 6 | static_cast<std::uint32_t>(value);
        ++read;
        continue;
      }
      if (c != '=' || read < 2) {
        out.wrong_at = i - 1;
        return out;
      }
      if (read == 2) {
        skipBreaks();
        if (i == text.size() || text[i] != '=') {
          out.wrong_at = i == text.size() ? i : i - 1;
          return out;
        }
        ++i;
      }
      skipBreaks();
      if (i < text.size()) out.wrong_at = i;
      group <<= 6 * (4 - read);
      for (std::size_t n = 0; n + 1 < read; ++n)
        out.bytes += static_cast<char>(group >> (16 - 8 * n) & 0xff);
      return out;
    }
    for (int shift : {16, 8, 0}) out.bytes += static_cast<char>(group >> shift & 0xff);
  }
}

// --- decodable

// Reads an object as Go would, and keeps the complaint that Go would come back with.
class Reader {
 public:
  void structOf(Type type, const Value& value) {
    std::string_view outer = std::exchange(struct_, cut(type.name(), " ").second);
    for (const auto& [name, member] : value.object()) {
      auto field = type.field(name);
      if (!field || fatal_) continue;
      std::size_t length = path_.size();
      path_.append(path_.empty() ? "" : ".").append(name);
      read(field->type(), member, field->goName());
      path_.resize(length);
    }
    struct_ = outer;
  }

  // What cannot be read ends it; of wrong types the first is remembered.
  const std::optional<std::string>& problem() const { return fatal_ ? fatal_ : first_; }

 private:
  void read(Type type, const Value& value, std::string_view go_name) {
    if (value.isNull() || fatal_) return;
    switch (type.form()) {
      case Form::String:
        return wrongUnless(value.isString(), type, value, go_name);
      case Form::Boolean:
        return wrongUnless(value.isBool(), type, value, go_name);
      case Form::Number:
        return wrongUnless(value.isNumber(), type, value, go_name);
      case Form::Integer:
        return integer(type, value, go_name);
      case Form::Bytes:
        return bytes(type, value, go_name);
      case Form::Quantity:
        if (auto problem = quantityProblem(value)) fatal_ = std::move(problem);
        return;
      case Form::IntOrString:
        if (value.isString() || fits(value, 32)) return;
        fatal_ = mismatch(value, "int32", true);
        return;
      case Form::Time:
      case Form::MicroTime:
        return time(type.form() == Form::MicroTime, value);
      case Form::Struct:
        if (value.isObject()) return structOf(type, value);
        return wrongUnless(false, type, value, go_name);
      case Form::Map:
        if (!value.isObject()) return wrongUnless(false, type, value, go_name);
        for (const auto& [key, member] : value.object())
          read(type.element(), member, elementName(go_name));
        return;
      case Form::List:
        if (!value.isArray()) return wrongUnless(false, type, value, go_name);
        for (const Value& element : value.array())
          read(type.element(), element, elementName(go_name));
        return;
      case Form::Any:
        return;
    }
  }

  static bool fits(const Value& value, int bits) {
    if (!value.isInteger()) return false;
    return bits == 64 || (value.integer() >= std::numeric_limits<std::int32_t>::min() &&
                          value.integer() <= std::numeric_limits<std::int32_t>::max());
  }

  void integer(Type type, const Value& value, std::string_view go_name) {
    if (fits(value, go_name == "int64" ? 64 : 32)) return;
    std::string name = go_name.empty() ? goType(type) : std::string(go_name);
    remember(mismatch(value, name, true));
  }

  void bytes(Type type, const Value& value, std::string_view go_name) {
    if (!value.isString()) return wrongUnless(false, type, value, go_name);
    if (auto wrong_at = readBase64(value.string()).wrong_at)
      remember(format("illegal base64 data at input byte {}", *wrong_at));
  }

  void time(bool micro, const Value& value) {
    if (!value.isString())
      fatal_ = mismatch(value, "string", false);
    else if (!parseTime(value.string()) || (micro && !hasMicros(value.string())))
      fatal_ = timeProblem(value.string(), micro);
  }

  static bool hasMicros(std::string_view text) {
    auto zone = text.find_first_of("Z+-", std::min<std::size_t>(text.size(), 19));
    return text.size() > 19 && zone != std::string_view::npos &&
           isMicros(text.substr(19, zone - 19));
  }

  void wrongUnless(bool good, Type type, const Value& value, std::string_view go_name) {
    if (!good)
      remember(mismatch(value, go_name.empty() ? goType(type) : std::string(go_name), false));
  }

  void remember(std::string problem) {
    if (!first_) first_ = std::move(problem);
  }

  // A number that is of the right kind but does not fit is shown.
  std::string mismatch(const Value& value, std::string_view into, bool show_number) const {
    std::string number = show_number && value.isNumber() ? " " + json::write(value) : "";
    return format("json: cannot unmarshal {}{} into Go struct field {}.{} of type {}",
                  jsonWord(value), number, struct_, path_, into);
  }

  std::string path_;
  std::string_view struct_;
  std::optional<std::string> first_, fatal_;
};

// --- unknown fields

// `path` is where the value stands, and is left as it was.
void findUnknown(Type type, const Value& value, std::string& path, std::vector<std::string>& out) {
  std::size_t length = path.size();
  if (type.form() == Form::List) {
    for (std::size_t i = 0; i < value.array().size(); ++i) {
      path += format("[{}]", i);
      findUnknown(type.element(), value.at(i), path, out);
      path.resize(length);
    }
    return;
  }
  if (type.form() != Form::Struct && type.form() != Form::Map) return;
  for (const auto& [name, member] : value.object()) {
    if (!path.empty()) path += '.';
    path += name;
    if (type.form() == Form::Map) {
      findUnknown(type.element(), member, path, out);
    } else if (auto field = type.field(name)) {
      findUnknown(field->type(), member, path, out);
    } else {
      out.push_back(path);
    }
    path.resize(length);
  }
}

// --- typed

Value zeroOf(Type type);
void makeTyped(Type type, Value& value);

bool isEmpty(Form form, const Value& value) {
  switch (form) {
    case Form::String:
    case Form::Bytes:
      return value.string().empty();
    case Form::Integer:
    case Form::Number:
      return value.number() == 0;
    case Form::Boolean:
      return !value.boolean();
    case Form::List:
      return value.array().empty();
    case Form::Map:
      return value.object().empty();
    default:
      return false;  // structs and what has a form of its own are never empty to Go
  }
}

bool isGoStruct(Form form) {
  return form == Form::Struct || form == Form::Time || form == Form::MicroTime ||
         form == Form::Quantity || form == Form::IntOrString;
}

// Every field of a struct with its member, null where there is none. Both are sorted by name, but
// for those of inline structs, which come first.
template <class Each>
void eachField(Type type, json::Object& members, const Each& each) {
  auto member = members.begin();
  for (std::size_t i = 0; i < type.fieldCount(); ++i) {
    Field field = type.fieldAt(i);
    if (field.isInline()) {
      eachField(field.type(), members, each);
      continue;
    }
    while (member != members.end() && member->first < field.name()) ++member;
    bool given = member != members.end() && member->first == field.name();
    each(field, given ? &*member : nullptr);
  }
}

enum class Presence { AsGiven, Null, Zero, Absent };

// How a field is shown. To Go what is a struct is never empty, also where its JSON is a text or a
// number.
Presence presenceOf(Field field, const json::Object::Member* given) {
  Form form = field.type().form();
  if (given && !given->second.isNull()) {
    bool dropped = !field.isPointer() && field.omitsEmpty() && isEmpty(form, given->second);
    return dropped ? Presence::Absent : Presence::AsGiven;
  }
  if (field.showsNull()) return Presence::Null;
  bool leave_out = field.isPointer() || form == Form::Any || field.omitsZero() ||
                   (field.omitsEmpty() && !isGoStruct(form));
  return leave_out ? Presence::Absent : Presence::Zero;
}

// Most are typed already: then nothing is moved.
void makeStructTyped(Type type, Value& value) {
  json::Object& members = value.makeObject();
  std::size_t stay = 0;
  bool complete = true;
  eachField(type, members, [&](Field field, json::Object::Member* given) {
    if (given && !given->second.isNull()) makeTyped(field.type(), given->second);
    Presence presence = presenceOf(field, given);
    bool stays = given && (presence == Presence::AsGiven || presence == Presence::Null);
    if (stays)
      ++stay;
    else if (presence != Presence::Absent)
      complete = false;
  });
  if (complete && stay == members.size()) return;

  std::vector<json::Object::Member> out;
  out.reserve(members.size() + 4);
  eachField(type, members, [&](Field field, json::Object::Member* given) {
    switch (presenceOf(field, given)) {
      case Presence::AsGiven:
        out.push_back(std::move(*given));
        break;
      case Presence::Null:
        out.emplace_back(field.name(), nullptr);
        break;
      case Presence::Zero:
        out.emplace_back(field.name(), zeroOf(field.type()));
        break;
      case Presence::Absent:
        break;
    }
  });
  value = json::Object(std::move(out));
}

Value zeroOf(Type type) {
  switch (type.form()) {
    case Form::String:
    case Form::Bytes:
      return "";
    case Form::Integer:
    case Form::Number:
    case Form::IntOrString:
      return 0;
    case Form::Boolean:
      return false;
    case Form::Quantity:
      return "0";
    case Form::Struct: {
      Value empty = json::Object{};
      makeStructTyped(type, empty);
      return empty;
    }
    default:
      return nullptr;
  }
}

void makeTyped(Type type, Value& value) {
  if (value.isNull()) {
    value = zeroOf(type);
    return;
  }
  switch (type.form()) {
    case Form::Quantity:
      if (auto quantity = kube::Quantity::fromJson(value)) value = quantity->text();
      return;
    case Form::Time:
      if (auto time = parseTime(value.string())) value = formatTime(*time);
      return;
    case Form::MicroTime:
      if (auto time = parseTime(value.string())) value = formatTimeMicros(*time);
      return;
    case Form::Bytes:
      value = base64Encode(readBase64(value.string()).bytes);
      return;
    case Form::Struct:
      return makeStructTyped(type, value);
    case Form::Map:
      for (auto& [key, member] : value.makeObject()) makeTyped(type.element(), member);
      return;
    case Form::List:
      for (Value& element : value.makeArray()) makeTyped(type.element(), element);
      return;
    default:
      return;
  }
}

}  // namespace

Result<> decodable(const BuiltIn& kind, const Value& object) {
  Reader reader;
  reader.structOf(kind.type(), object);
  if (reader.problem()) return badRequest(kind, *reader.problem());
  // To the server it is a number, which older clients have here.
  const Value& generation = object["metadata"]["annotations"][kTemplateGeneration];
  if (kind.kind == "DaemonSet" && !generation.isNull() && !parseInt(generation.string()))
    return badRequest(
        kind, format("strconv.ParseInt: parsing \"{}\": invalid syntax", generation.string()));
  return {};
}

std::optional<std::string> misreading(Type type, const Value& value) {
  Reader reader;
  reader.structOf(type, value);
  return reader.problem();
}

std::vector<std::string> unknownFields(const BuiltIn& kind, const Value& object) {
  std::vector<std::string> out;
  std::string path;
  findUnknown(kind.type(), object, path, out);
  return out;
}

Value typed(const BuiltIn& kind, Value object) {
  makeStructTyped(kind.type(), object);
  return object;
}

}  // namespace cadre::hub
