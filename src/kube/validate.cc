#include "kube/validate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "base/format.h"
#include "base/strings.h"
#include "base/time.h"
#include "json/utf8.h"
#include "json/write.h"
#include "kube/names.h"
#include "kube/object_meta.h"

namespace cadre::kube {

namespace {

using Type = Schema::Type;

constexpr std::size_t kMaxAnnotationBytes = 256u << 10;
constexpr std::size_t kMaxSteps = 4'000'000;    // of looking at one value with one schema
constexpr double kMaxWhole = 9007199254740991;  // beyond it a double is no integer to the server

struct FaultWords {
  std::string_view reason, words;
};

FaultWords wordsOf(Fault fault) {
  switch (fault) {
    case Fault::Required:
      return {"FieldValueRequired", "Required value"};
    case Fault::Invalid:
      return {"FieldValueInvalid", "Invalid value"};
    case Fault::NotSupported:
      return {"FieldValueNotSupported", "Unsupported value"};
    case Fault::TypeInvalid:
      return {"FieldValueTypeInvalid", "Invalid value"};
    case Fault::TooLong:
      return {"FieldValueTooLong", "Too long"};
    case Fault::TooMany:
      return {"FieldValueTooMany", "Too many"};
    case Fault::Duplicate:
      return {"FieldValueDuplicate", "Duplicate value"};
    case Fault::Forbidden:
      return {"FieldValueForbidden", "Forbidden"};
    case Fault::NotFound:
      return {"FieldValueNotFound", "Not found"};
    case Fault::Unknown:
      return {"FieldValueNotFound", "Unknown field"};
  }
  return {"FieldValueInvalid", "Invalid value"};
}

bool isWhole(const json::Value& value) {
  return value.isInteger() || (value.isNumber() && std::abs(value.number()) <= kMaxWhole &&
                               std::trunc(value.number()) == value.number());
}

std::string_view typeOf(const json::Value& value) { return value.typeName(); }

// What the server calls the type of a value that should be a text of some format.
std::string_view formatOf(const json::Value& value) {
  return value.isInteger() ? "int64" : value.isNumber() ? "float64" : "";
}

// As the server counts: what it could not count exactly is none.
bool isMultiple(double value, double of) {
  double times = of < 1 ? 1 / of * value : value / of;
  if (!(std::abs(times) <= kMaxWhole)) return false;
  double whole = std::trunc(times);
  return times == whole || (whole > 0 && times - whole < 1e-9 * (times + whole));
}

// Whose size is limited.
Type sizedType(const Schema& schema) {
  return schema.type == Type::Any ? schema.sized : schema.type;
}

bool hasType(const json::Value& value, const Schema& schema) {
  switch (schema.type) {
    case Type::Any:
      return true;
    case Type::Boolean:
      return value.isBool();
    case Type::Integer:
      return isWhole(value);
    case Type::Number:
      return value.isNumber();
    case Type::String:
      return value.isString();
    case Type::IntOrString:
      return value.isString() || isWhole(value);
    case Type::Array:
      return value.isArray();
    case Type::Object:
    case Type::Map:
      return value.isObject();
  }
  return false;
}

std::int64_t characters(std::string_view text) {
  std::int64_t count = 0;
  while (!text.empty()) {
    text.remove_prefix(std::max<std::size_t>(json::utf8Length(text), 1));
    ++count;
  }
  return count;
}

// A value for people. The server shows all of it; who reads a megabyte?
std::string shown(const json::Value& value, bool secret) {
  constexpr std::size_t kLimit = 1000;
  if (secret) return "\"<hidden>\"";
  if (value.isString()) return json::write(shorten(value.string(), kLimit));
  return shorten(json::write(value), kLimit);
}

std::string quotedList(const json::Array& list) {
  std::string out;
  for (const json::Value& one : list) {
    if (!out.empty()) out += ", ";
    json::appendQuoted(out, one.isString() ? one.string() : json::write(one));
  }
  return out;
}

// How many letters have to be changed, added or dropped to make one name of the other.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      std::size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

std::string nearest(std::string_view name, const std::vector<std::string_view>& known) {
  if (name.size() > 100) return {};
  std::size_t best = 1 + name.size() / 4;
  std::string found;
  for (std::string_view candidate : known) {
    if (equalsIgnoreCase(name, candidate)) return std::string(candidate);
    std::size_t far = distance(lower(name), lower(candidate));
    if (far > best || far >= candidate.size() || (far == best && !found.empty())) continue;
    best = far;
    found = candidate;
  }
  return found;
}

// A place in the object, told in the two ways in which the server tells it: the keys of maps as
// .key where it looks at types, and as [key] where it looks at rules.
class Path {
 public:
  enum class Keys { Dotted, Bracketed };

  class Step {
   public:
    ~Step() { path_.steps_.pop_back(); }
    Step(const Step&) = delete;

   private:
    friend class Path;
    explicit Step(Path& path) : path_(path) {}
    Path& path_;
  };

  [[nodiscard]] Step field(std::string_view name) { return add(".", name); }
  [[nodiscard]] Step key(std::string_view name) { return add("{", name); }
  [[nodiscard]] Step index(std::size_t index) { return add("[", std::to_string(index)); }

  bool empty() const { return steps_.empty(); }
  std::string text(Keys keys) const {
    std::string out;
    for (const auto& [kind, name] : steps_) {
      bool dotted = kind == "." || (kind == "{" && keys == Keys::Dotted);
      if (!dotted)
        out += "[" + name + "]";
      else
        out += (out.empty() ? "" : ".") + name;
    }
    return out;
  }

 private:
  Step add(std::string_view kind, std::string_view name) {
    steps_.emplace_back(kind, name);
    return Step(*this);
  }
  std::vector<std::pair<std::string_view, std::string>> steps_;
};

}  // namespace

std::string_view reasonName(Fault fault) { return wordsOf(fault).reason; }

std::string FieldError::text() const { return path.empty() ? message : path + ": " + message; }
Detail FieldError::detail() const {
  return {.field = path, .reason = std::string(reasonName(fault)), .message = message};
}

// ------------------------------------------------------------------------------------------------

bool blocksRules(Fault fault) {
  return fault == Fault::TypeInvalid || fault == Fault::Required || fault == Fault::TooLong ||
         fault == Fault::TooMany || fault == Fault::NotSupported;
}

class Validator {
 public:
  explicit Validator(Validation& out, std::string_view root = {}, bool checks = true)
      : out_(out), root_(root), asks_checks_(checks) {}

  // Types, sizes and values: what the schema of a CRD says without its rules. What is as it was
  // before is passed over. How well it fits is told: where none of several schemas is met, the
  // server tells what is wrong by the one that had most to say, and counts like this.
  int shape(const json::Value& value, const Schema& schema, const json::Value* old = nullptr,
            bool secret = false) {
    steps_ += 1 + schema.one_of.size() / 16;
    if (full()) return 0;
    if (old && *old == value && !path_.empty()) return 0;
    secret = secret || schema.secret;
    int fit = 0;
    bool formatted = schema.type == Type::String && knownFormat(schema.format);
    if (value.isNull() ? schema.nullable || schema.type == Type::Any : hasType(value, schema))
      fit += 1;
    else if (formatted && !value.isNull() && !value.isArray())
      add(Fault::TypeInvalid, quoted(formatOf(value)),
          format("{} in body must be of type {}: {}", here(), schema.format,
                 quoted(formatOf(value))));
    else
      add(Fault::TypeInvalid, quoted(typeOf(value)),
          format("{} in body must be of type {}: {}", here(), expectedType(schema),
                 quoted(typeOf(value))));
    if (!schema.one_of.empty() &&
        (value.isNull() || std::ranges::find(schema.one_of, value) == schema.one_of.end()))
      add(Fault::NotSupported, shown(value, secret),
          "supported values: " + quotedList(schema.one_of));
    if (value.isNull()) return fit;
    fit += schema.type == Type::Any && schema.format.empty() ? 3 : 5;
    if (value.isNumber() || value.isArray()) fit += 2;
    if (value.isString()) fit += schema.format.empty() ? 1 : 2;
    if (value.isObject()) fit += 1;
    if (schema.combined) fit += combined(value, *schema.combined, secret);
    if (value.isNumber()) numberShape(value, schema, secret);
    if (value.isString()) textShape(value, schema, secret);
    if (value.isArray()) fit += listShape(value, schema, old, secret);
    if (value.isObject()) fit += objectShape(value.object(), schema, old, secret);
    return fit;
  }

  // Some schemas ask for more than an object is worth: every item against hundreds of others.
  bool isExhausted() const { return steps_ > kMaxSteps; }

  // What must be there once, in all lists below.
  void lists(const json::Value& value, const Schema& schema, bool secret = false) {
    secret = secret || schema.secret;
    if (value.isArray() && schema.type == Type::Array) uniqueness(value.array(), schema, secret);
    below(value, schema,
          [&](const json::Value& member, const Schema& inner) { lists(member, inner, secret); });
  }

  // What embedded objects must have.
  void embedded(const json::Value& value, const Schema& schema) {
    if (schema.embedded && value.isObject() && !path_.empty()) {
      std::string path = path_.text(Path::Keys::Bracketed);
      for (FieldError& error : validateEmbeddedObject(value, placed(path)))
        if (!full()) out_.errors.push_back(std::move(error));
    }
    below(value, schema,
          [&](const json::Value& member, const Schema& inner) { embedded(member, inner); });
  }

  // Rules and checks.
  void meaning(const json::Value& value, const json::Value* old, const Schema& schema,
               bool secret = false) {
    if (value.isNull() || full()) return;
    secret = secret || schema.secret;
    rules(value, old, schema.rules, typeName(schema));
    checks(value, schema.checks, secret);
    if (value.isArray() && schema.items) {
      auto before = byKeys(old, schema);
      for (std::size_t i = 0; i < value.array().size(); ++i) {
        auto step = path_.index(i);
        const json::Value& item = value.at(i);
        auto found = before.empty() ? before.end() : before.find(json::write(keysOf(item, schema)));
        meaning(item, found == before.end() ? nullptr : found->second, *schema.items, secret);
      }
    } else if (value.isObject() && schema.type == Type::Map && schema.items) {
      for (const auto& [key, item] : value.object()) {
        auto step = path_.key(key);
        meaning(item, old ? old->object().find(key) : nullptr, *schema.items, secret);
      }
    } else if (value.isObject()) {
      for (const Property* field : schema.fieldsFor(value.object())) {
        const json::Value* member = value.object().find(field->name);
        if (!member) continue;
        auto step = path_.field(field->name);
        if (!field->schema.deprecated.empty() && !member->isNull())
          out_.warnings.push_back(format("{} is deprecated: {}", path_.text(Path::Keys::Bracketed),
                                         field->schema.deprecated));
        meaning(*member, old ? old->object().find(field->name) : nullptr, field->schema, secret);
      }
    }
  }

  void rules(const json::Value& self, const json::Value* old, const std::vector<Rule>& rules,
             std::string_view type) {
    static const json::Value kNothing;
    if (old && old->isNull()) old = nullptr;
    for (const Rule& rule : rules) {
      if (!rule.holds || (rule.holds.ofChange() && !old)) continue;
      if (rule.holds(self, old ? *old : kNothing)) continue;
      std::string path = path_.text(Path::Keys::Bracketed) + rule.field_path;
      if (path.starts_with('.')) path.erase(0, 1);
      bool valued = rule.reason != Fault::Required && rule.reason != Fault::Forbidden;
      bool typed = type != "integer or string";
      addAt(std::move(path), rule.reason, valued ? quoted(typed ? type : "") : "",
            rule.reason == Fault::Duplicate ? "" : rule.message);
    }
  }

  void checks(const json::Value& self, const std::vector<Check>& checks, bool secret) {
    if (!asks_checks_) return;
    for (const Check& check : checks) {
      Report report(self, path_.text(Path::Keys::Bracketed), secret, out_.errors, out_.warnings);
      check(self, report);
    }
  }

  // Tells the fields that the schema does not have, and takes them away. Without a schema there is
  // nothing that it has.
  void prune(json::Value& value, const Schema* schema) {
    bool keeps = schema && (schema->preserve_unknown || schema->type == Type::Any);
    if (value.isArray()) {
      const Schema* items = schema && schema->type == Type::Array ? schema->items.get() : nullptr;
      if (keeps && !items) return;
      for (std::size_t i = 0; i < value.array().size(); ++i) {
        auto step = path_.index(i);
        prune(value.makeArray()[i], items);
      }
    }
    if (!value.isObject()) return;
    std::vector<json::Object::Member> kept;
    for (auto& [key, member] : value.makeObject()) {
      if (schema && schema->embedded && (key == "apiVersion" || key == "kind")) {
        kept.emplace_back(key, std::move(member));
        continue;
      }
      if (schema && schema->embedded && key == "metadata") {
        auto step = path_.field(key);
        for (const std::string& name : pruneMetadata(member)) addUnknown(name, metadataFields());
        kept.emplace_back(key, std::move(member));
        continue;
      }
      if (const Property* field = schema ? schema->field(key) : nullptr) {
        auto step = path_.field(key);
        prune(member, &field->schema);
      } else if (schema && schema->type == Type::Map) {
        auto step = path_.key(key);
        prune(member, schema->items.get());
      } else if (!keeps && out_.unknown.size() >= kMaxFieldErrors) {
        continue;
      } else if (!keeps) {
        std::vector<std::string_view> known;
        if (schema)
          for (const Property& one : schema->fields) known.push_back(one.name);
        addUnknown(key, known);
        continue;
      }
      kept.emplace_back(key, std::move(member));
    }
    value = json::Object::fromSorted(std::move(kept));
  }

  // The same for a whole object. What it does not know in metadata is told by metadata().
  void prune(json::Value& object, const Kind& kind) {
    std::vector<json::Object::Member> kept;
    for (auto& [key, value] : object.makeObject()) {
      const Schema* schema = key == "spec" ? &kind.spec : key == "status" ? &kind.status : nullptr;
      if (schema) {
        auto step = path_.field(key);
        prune(value, schema);
      } else if (key != "apiVersion" && key != "kind" && key != "metadata") {
        addUnknown(key, {"apiVersion", "kind", "metadata", "spec", "status"});
        continue;
      }
      kept.emplace_back(key, std::move(value));
    }
    object = json::Object::fromSorted(std::move(kept));
  }

  void addUnknown(std::string_view key, const std::vector<std::string_view>& known) {
    if (out_.unknown.size() >= kMaxFieldErrors) return;
    auto step = path_.field(key);
    std::string path = here();
    std::string message = format("unknown field \"{}\"", path);
    if (std::string near = nearest(key, known); !near.empty())
      message += format(", did you mean \"{}\"?", near);
    out_.unknown.push_back({.path = std::move(path), .fault = Fault::Unknown, .message = message});
  }

  void metadata(const json::Value& value, const Kind& kind) {
    auto step = path_.field("metadata");
    if (!value.isObject()) {
      if (value.isNull())
        add(Fault::Required, "", "");
      else
        add(Fault::TypeInvalid, quoted(typeOf(value)), "must be an object");
      return;
    }
    for (const auto& [key, member] : value.object())
      if (std::ranges::find(metadataFields(), key) == metadataFields().end())
        addUnknown(key, metadataFields());
    metadataName(value, kind);
    metadataNamespace(value["namespace"], kind);
    namesAndValues(value, "labels", checkLabelKey, checkLabelValue);
    namesAndValues(
        value, "annotations", [](std::string_view key) { return checkQualifiedName(lower(key)); },
        [](std::string_view) { return NameProblem(); });
    std::size_t bytes = 0;
    for (const auto& [key, text] : value["annotations"].object())
      bytes += key.size() + text.string().size();
    auto annotations = path_.field("annotations");
    if (bytes > kMaxAnnotationBytes)
      add(Fault::TooLong, "", format("may not be more than {} bytes", kMaxAnnotationBytes));
  }

  void only(std::string_view name, const json::Value& value, const std::string& wanted) {
    auto step = path_.field(name);
    if (value.isNull())
      add(Fault::Required, "", "");
    else if (!value.isString() || value.string() != wanted)
      add(Fault::NotSupported, shown(value, false), "supported values: " + quotedList({wanted}));
  }

  void missing(std::string_view name) {
    auto step = path_.field(name);
    add(Fault::Required, "", "");
  }

  Path& path() { return path_; }

 private:
  // Looks at what a value has that its schema describes.
  template <class Look>
  void below(const json::Value& value, const Schema& schema, Look look) {
    if (full()) return;
    if (value.isArray() && schema.type == Type::Array && schema.items)
      for (std::size_t i = 0; i < value.array().size(); ++i) {
        auto step = path_.index(i);
        look(value.at(i), *schema.items);
      }
    if (!value.isObject()) return;
    for (const auto& [key, member] : value.object()) {
      if (const Property* field = schema.field(key)) {
        auto step = path_.field(key);
        look(member, field->schema);
      } else if (schema.type == Type::Map && schema.items) {
        auto step = path_.key(key);
        look(member, *schema.items);
      }
    }
  }

  // What a schema finds wrong, apart from the rest.
  struct Found {
    int fit = 0;
    std::vector<FieldError> errors;
  };
  Found apart(const json::Value& value, const Schema& schema, bool secret) {
    std::vector<FieldError> kept = std::exchange(out_.errors, {});
    int fit = shape(value, schema, nullptr, secret);
    return {fit, std::exchange(out_.errors, std::move(kept))};
  }
  void take(Found found) {
    for (FieldError& error : found.errors)
      if (!full()) out_.errors.push_back(std::move(error));
  }
  // About several schemas at once, for which the server names no field.
  void addCombined(std::string_view what) {
    if (full()) return;
    out_.errors.push_back({.path = root_.empty() ? "<nil>" : root_,
                           .fault = Fault::Invalid,
                           .message = format("Invalid value: \"\": {} {}", quoted(here()), what)});
  }

  int combined(const json::Value& value, const Schema::Combined& schemas, bool secret) {
    int fit = 0;
    auto judge = [&](const std::vector<Schema>& list, bool only_one, std::string_view words) {
      if (list.empty()) return;
      std::size_t met = 0;
      std::optional<Found> best;
      for (const Schema& one : list) {
        Found found = apart(value, one, secret);
        if (found.errors.empty()) {
          if (met++ == 0) best = std::move(found);
          if (!only_one) break;
        } else if (met == 0 && (!best || found.fit > best->fit)) {
          best = std::move(found);
        }
      }
      if (met == 0 || (only_one && met > 1))
        addCombined(only_one
                        ? format("{}. Found {}", words,
                                 met == 0 ? "none valid" : format("{} valid alternatives", met))
                        : std::string(words));
      fit += best->fit;
      take(*std::move(best));
    };
    judge(schemas.any, false, "must validate at least one schema (anyOf)");
    judge(schemas.one, true, "must validate one and only one schema (oneOf)");
    std::size_t met = 0;
    for (const Schema& one : schemas.all) {
      Found found = apart(value, one, secret);
      if (found.errors.empty()) ++met;
      fit += found.fit;
      take(std::move(found));
    }
    if (met < schemas.all.size())
      addCombined(format("must validate all the schemas (allOf){}", met ? "" : ". None validated"));
    if (schemas.none && apart(value, *schemas.none, secret).errors.empty())
      addCombined("must not validate the schema (not)");
    return fit;
  }

  // From the root that the server looks at.
  std::string placed(std::string path) const {
    if (root_.empty() || path.empty()) return root_ + path;
    return root_ + (path.starts_with('[') ? "" : ".") + path;
  }
  bool full() const { return out_.errors.size() >= kMaxFieldErrors || isExhausted(); }
  std::string here() const { return path_.text(Path::Keys::Dotted); }
  static std::string quoted(std::string_view text) {
    std::string out;
    json::appendQuoted(out, text);
    return out;
  }
  static std::string expectedType(const Schema& schema) {
    return schema.type == Type::IntOrString ? "integer,string" : std::string(typeName(schema));
  }

  void add(Fault fault, std::string_view value, std::string_view detail,
           Path::Keys keys = Path::Keys::Dotted) {
    addAt(path_.text(keys), fault, value, detail);
  }
  void addAt(std::string path, Fault fault, std::string_view value, std::string_view detail) {
    if (full()) return;
    path = placed(std::move(path));
    std::string message(wordsOf(fault).words);
    for (std::string_view part : {value, detail})
      if (!part.empty()) message += format(": {}", part);
    out_.errors.push_back({.path = std::move(path), .fault = fault, .message = std::move(message)});
  }

  void numberShape(const json::Value& value, const Schema& schema, bool secret) {
    auto tell = [&](double limit, std::string_view words) {
      std::string text;
      json::appendNumber(text, limit);
      add(Fault::Invalid, shown(value, secret),
          format("{} in body should be {} {}", here(), words, text));
    };
    double number = value.number();
    if (schema.multiple_of) {
      // Of whole numbers the server takes the whole part of it.
      double of = value.isInteger() ? std::trunc(*schema.multiple_of) : *schema.multiple_of;
      if (of <= 0) {
        std::string text;
        json::appendNumber(text, of);
        add(Fault::Invalid, text,
            format("factor MultipleOf declared for {} must be positive: {}", here(), text));
      } else if (value.isInteger() ? value.integer() % static_cast<std::int64_t>(of) != 0
                                   : !isMultiple(number, of)) {
        tell(of, "a multiple of");
      }
    }
    if (schema.least && (schema.above_least ? number <= *schema.least : number < *schema.least))
      tell(*schema.least, schema.above_least ? "greater than" : "greater than or equal to");
    if (schema.most && (schema.below_most ? number >= *schema.most : number > *schema.most))
      tell(*schema.most, schema.below_most ? "less than" : "less than or equal to");
  }

  void textShape(const json::Value& value, const Schema& schema, bool secret) {
    const std::string& text = value.string();
    Type type = sizedType(schema);
    bool sized = type == Type::String || type == Type::IntOrString;
    std::int64_t length = schema.least_size || schema.most_size ? characters(text) : 0;
    if (sized && schema.most_size && length > *schema.most_size)
      add(Fault::TooLong, "",
          format("may not be more than {} byte{}", *schema.most_size,
                 *schema.most_size == 1 ? "" : "s"));
    else if (sized && schema.least_size && length < *schema.least_size)
      add(Fault::Invalid, shown(value, secret),
          format("{} in body should be at least {} chars long", here(), *schema.least_size));
    else if (!schema.pattern.matches(text))
      add(Fault::Invalid, shown(value, secret),
          format("{} in body should match '{}'", here(), schema.pattern.text()));
    if ((schema.type == Type::String || schema.type == Type::Any) && !schema.format.empty() &&
        !hasFormat(schema.format, text))
      add(Fault::TypeInvalid, shown(value, secret),
          format("{} in body must be of type {}: {}", here(), schema.format, shown(value, secret)));
  }

  int listShape(const json::Value& value, const Schema& schema, const json::Value* old,
                bool secret) {
    const json::Array& list = value.array();
    auto size = static_cast<std::int64_t>(list.size());
    if (sizedType(schema) == Type::Array) {
      if (schema.least_size && size < *schema.least_size)
        add(Fault::Invalid, std::to_string(size),
            format("{} in body should have at least {} items", here(), *schema.least_size));
      tooMany(size, schema);
    }
    if (schema.type == Type::Map || !schema.items) return 0;
    int fit = 0;
    auto before = byKeys(old, schema);
    for (std::size_t i = 0; i < list.size() && !full(); ++i) {
      auto step = path_.index(i);
      auto found =
          before.empty() ? before.end() : before.find(json::write(keysOf(list[i], schema)));
      fit += shape(list[i], *schema.items, found == before.end() ? nullptr : found->second, secret);
    }
    return fit;
  }

  void tooMany(std::int64_t size, const Schema& schema) {
    if (schema.most_size && size > *schema.most_size)
      add(Fault::TooMany, std::to_string(size),
          format("must have at most {} item{}", *schema.most_size,
                 *schema.most_size == 1 ? "" : "s"));
  }

  // Each second one is told, further ones are not.
  void uniqueness(const json::Array& list, const Schema& schema, bool secret) {
    if (schema.list == Schema::List::Atomic) return;
    if (schema.list == Schema::List::Map)
      for (std::size_t i = 0; i < list.size(); ++i)
        if (!list[i].isObject() && !list[i].isNull()) {
          auto step = path_.index(i);
          return add(Fault::Invalid, shown(list[i], secret),
                     "must be an object for an array of list-type map", Path::Keys::Bracketed);
        }
    std::map<std::string, int> seen;
    for (std::size_t i = 0; i < list.size(); ++i) {
      json::Value key = list[i];
      bool hidden = secret || (schema.items && schema.items->secret);
      if (schema.list == Schema::List::Map) {
        key = keysOf(list[i], schema);
        for (const std::string& name : schema.keys)
          if (const Property* field = schema.items ? schema.items->field(name) : nullptr)
            hidden = hidden || field->schema.secret;
      }
      if (++seen[json::write(key)] != 2) continue;
      auto step = path_.index(i);
      add(Fault::Duplicate, shown(key, hidden), "", Path::Keys::Bracketed);
    }
  }

  static json::Value keysOf(const json::Value& item, const Schema& schema) {
    json::Object key;
    for (const std::string& name : schema.keys)
      if (const json::Value* member = item.object().find(name)) key.set(name, *member);
    return key;
  }

  // What the items of a list were before: that is known where they have keys.
  static std::map<std::string, const json::Value*> byKeys(const json::Value* old,
                                                          const Schema& schema) {
    std::map<std::string, const json::Value*> out;
    if (old && schema.list == Schema::List::Map)
      for (const json::Value& item : old->array())
        out.emplace(json::write(keysOf(item, schema)), &item);
    return out;
  }

  int objectShape(const json::Object& object, const Schema& schema, const json::Value* old,
                  bool secret) {
    auto before = [&](std::string_view name) { return old ? old->object().find(name) : nullptr; };
    auto size = static_cast<std::int64_t>(object.size());
    Type type = sizedType(schema);
    if (type == Type::Map || type == Type::Object) {
      if (schema.least_size && size < *schema.least_size)
        add(Fault::Invalid, std::to_string(size),
            format("{} in body should have at least {} properties", here(), *schema.least_size));
      tooMany(size, schema);
    }
    int fit = 0;
    if (schema.type == Type::Map && (schema.items || schema.closed))
      for (const auto& [key, item] : object) {
        if (full() || schema.field(key)) continue;
        if (schema.closed) {
          add(Fault::Invalid, quoted(key),
              format("{}.{} in body is a forbidden property", here(), key));
          continue;
        }
        auto step = path_.key(key);
        fit += shape(item, *schema.items, before(key), secret);
      }
    for (const Property* field : schema.fieldsFor(object)) {
      const json::Value* member = object.find(field->name);
      if (!member && !field->schema.required) continue;
      auto step = path_.field(field->name);
      if (member)
        fit += shape(*member, field->schema, before(field->name), secret);
      else
        add(Fault::Required, "", "");
    }
    for (const std::string& name : schema.needs)
      if (!object.contains(name)) missing(name);
    auto is_there = [&](const std::string& name) { return object.contains(name); };
    if (schema.any_of.empty() || std::ranges::any_of(schema.any_of, is_there)) return fit;
    auto step = path_.field(schema.any_of.front());  // as the server, which tells no more
    add(Fault::Required, "", "at least one of " + join(schema.any_of, ", ") + " must be set");
    return fit;
  }

  void metadataName(const json::Value& value, const Kind& kind) {
    const json::Value &name = value["name"], &prefix = value["generateName"];
    auto step = path_.field(name.isNull() && !prefix.isNull() ? "generateName" : "name");
    const json::Value& given = name.isNull() ? prefix : name;
    if (given.isNull() || (given.isString() && given.string().empty()))
      return add(Fault::Required, "", "name or generateName is required");
    if (!given.isString())
      return add(Fault::TypeInvalid, quoted(typeOf(given)), "must be a string");
    // A prefix may end in what stands between it and the rest.
    std::string text = given.string() + (name.isNull() ? "x" : "");
    if (auto problem = checkDnsSubdomain(text)) add(Fault::Invalid, shown(given, false), *problem);
    if (!name.isNull()) shape(name, kind.nameSchema());
  }

  void metadataNamespace(const json::Value& value, const Kind& kind) {
    if (value.isNull() || (value.isString() && value.string().empty())) return;
    auto step = path_.field("namespace");
    if (kind.scope == Kind::Scope::Cluster)
      add(Fault::Forbidden, "", "not allowed on this type");
    else if (!value.isString())
      add(Fault::TypeInvalid, quoted(typeOf(value)), "must be a string");
    else if (auto problem = checkDnsLabel(value.string()))
      add(Fault::Invalid, shown(value, false), *problem);
  }

  template <class CheckKey, class CheckValue>
  void namesAndValues(const json::Value& metadata, std::string_view name, CheckKey check_key,
                      CheckValue check_value) {
    auto step = path_.field(name);
    const json::Value& map = metadata[name];
    if (map.isNull()) return;
    if (!map.isObject())
      return add(Fault::TypeInvalid, quoted(typeOf(map)), "must be an object of strings");
    for (const auto& [key, value] : map.object()) {
      if (auto problem = check_key(key)) add(Fault::Invalid, quoted(key), *problem);
      if (!value.isString())
        add(Fault::TypeInvalid, quoted(typeOf(value)),
            format("the value of {} must be a string", inQuotes(key)));
      else if (auto problem = check_value(value.string()))
        add(Fault::Invalid, quoted(value.string()), *problem);
    }
  }

  Validation& out_;
  std::size_t steps_ = 0;
  const std::string root_;
  const bool asks_checks_;
  Path path_;
};

// ------------------------------------------------------------------------------------------------

std::string Report::pathOf(std::string_view field) const {
  if (field.empty()) return path_;
  bool joined = path_.empty() || field.starts_with('[');
  return format("{}{}{}", path_, joined ? "" : ".", field);
}

void Report::put(FieldError error) {
  if (errors_.size() < kMaxFieldErrors) errors_.push_back(std::move(error));
}
void Report::invalid(std::string_view field, std::string_view why) {
  // The value is shown only where it is short and plain: the field itself.
  bool plain = field.empty() && !self_.isObject() && !self_.isArray();
  put({.path = pathOf(field),
       .fault = Fault::Invalid,
       .message = plain ? format("Invalid value: {}: {}", shown(self_, secret_), why)
                        : format("Invalid value: {}", why)});
}
void Report::required(std::string_view field, std::string_view why) {
  put({.path = pathOf(field),
       .fault = Fault::Required,
       .message = format("Required value: {}", why)});
}
void Report::forbidden(std::string_view field, std::string_view why) {
  put({.path = pathOf(field), .fault = Fault::Forbidden, .message = format("Forbidden: {}", why)});
}
void Report::add(std::string_view field, FieldError error) {
  error.path = pathOf(field);
  put(std::move(error));
}
void Report::warn(std::string_view field, std::string_view what) {
  std::string path = pathOf(field);
  warnings_.push_back(path.empty() ? std::string(what) : format("{}: {}", path, what));
}

// ------------------------------------------------------------------------------------------------

std::vector<FieldError> validateValue(const Schema& schema, const json::Value& value,
                                      std::string_view path) {
  Validation out;
  Validator validator(out);
  auto step = validator.path().field(path);
  validator.shape(value, schema);
  validator.lists(value, schema);
  return std::move(out.errors);
}

std::vector<FieldError> validateShape(const Schema& schema, const json::Value& value,
                                      const ShapeOptions& options) {
  Validation out;
  Validator validator(out, options.root);
  validator.shape(value, schema, options.old);
  if (validator.isExhausted())
    out.errors = {{.path = options.root.empty() ? "<nil>" : std::string(options.root),
                   .fault = Fault::TooLong,
                   .message = "Too long: with this schema it takes too long to check: fewer items, "
                              "or fewer alternatives (anyOf, enum) for them"}};
  return std::move(out.errors);
}

std::vector<FieldError> validateLists(const Schema& schema, const json::Value& value,
                                      std::string_view root) {
  Validation out;
  Validator(out, root).lists(value, schema);
  return std::move(out.errors);
}

std::vector<FieldError> validateEmbedded(const Schema& schema, const json::Value& value,
                                         std::string_view root) {
  Validation out;
  Validator(out, root).embedded(value, schema);
  return std::move(out.errors);
}

std::vector<std::string> prune(const Schema& schema, json::Value& value) {
  Validation out;
  Validator(out).prune(value, &schema);
  std::vector<std::string> paths;
  paths.reserve(out.unknown.size());
  for (FieldError& error : out.unknown) paths.push_back(std::move(error.path));
  return paths;
}

namespace {

struct Part {
  std::string_view name;
  const Schema& schema;
};

std::vector<Part> partsOf(const Kind& kind, bool status) {
  std::vector<Part> parts{{"spec", kind.spec}};
  if (status) parts.push_back({"status", kind.status});
  return parts;
}

void rulesOfParts(Validator& validator, const Kind& kind, const json::Value& object,
                  const json::Value& old, const std::vector<Part>& parts) {
  validator.rules(object, old.isNull() ? nullptr : &old, kind.rules, "object");
  validator.checks(object, kind.checks, false);
  for (const Part& part : parts) {
    const json::Value* value = object.object().find(part.name);
    auto step = validator.path().field(part.name);
    if (value) validator.meaning(*value, old.object().find(part.name), part.schema);
  }
}

void validateParts(Validator& validator, Validation& out, const Kind& kind,
                   const json::Value& object, const json::Value& old, bool status) {
  const std::vector<Part> parts = partsOf(kind, status);
  for (const Part& part : parts) {
    const json::Value* value = object.object().find(part.name);
    auto step = validator.path().field(part.name);
    if (!value) continue;
    validator.shape(*value, part.schema);
    validator.lists(*value, part.schema);
  }
  if (!object.object().contains("spec") && kind.needsSpec()) validator.missing("spec");
  if (std::ranges::any_of(out.errors, [](const FieldError& e) { return blocksRules(e.fault); }))
    return;
  rulesOfParts(validator, kind, object, old, parts);
}

Validation validateAlone(const Kind& kind, const json::Value& given, const json::Value& old_given,
                         bool status) {
  Validation out;
  Validator validator(out);
  if (!given.isObject()) {
    out.errors.push_back(
        {.path = "",
         .fault = Fault::TypeInvalid,
         .message = format("Invalid value: \"{}\": must be an object", given.typeName())});
    return out;
  }
  validator.only("apiVersion", given["apiVersion"], kind.gvk().apiVersion());
  validator.only("kind", given["kind"], kind.kind);
  validator.metadata(given["metadata"], kind);
  json::Value object = given;
  validator.prune(object, kind);
  object = withDefaults(kind, std::move(object));
  json::Value old = withDefaults(kind, old_given);
  if (!status) object.makeObject().erase("status");
  validateParts(validator, out, kind, object, old, status);
  return out;
}

}  // namespace

Validation validate(const Kind& kind, const json::Value& object, const ValidateOptions& options) {
  static const json::Value kNothing;
  Validation out =
      validateAlone(kind, object, options.old ? *options.old : kNothing, options.status);
  if (options.old && !out.errors.empty()) {
    Validation before = validateAlone(kind, *options.old, kNothing, options.status);
    std::erase_if(out.errors, [&](const FieldError& error) {
      return std::ranges::find(before.errors, error) != before.errors.end();
    });
  }
  return out;
}

std::vector<FieldError> validateRules(const Kind& kind, const json::Value& object,
                                      const json::Value& old, bool status) {
  Validation out;
  Validator validator(out, {}, /*checks=*/false);
  rulesOfParts(validator, kind, object, old, partsOf(kind, status));
  return std::move(out.errors);
}

json::Value pruned(const Kind& kind, json::Value object) {
  Validation out;
  if (object.isObject()) Validator(out).prune(object, kind);
  return object;
}

Error refusal(const Kind& kind, const json::Value& object, const std::vector<FieldError>& errors) {
  std::string list;
  std::vector<Detail> details;
  for (const FieldError& error : errors) {
    if (!list.empty()) list += ", ";
    list += error.text();
    details.push_back(error.detail());
  }
  if (errors.size() > 1) list = "[" + list + "]";
  return Error{.code = Code::InvalidArgument,
               .message = format("{}.{} {} is invalid: {}", kind.kind, kind.group,
                                 inQuotes(name(object)), list),
               .reason = "Invalid",
               .details = std::move(details)};
}

}  // namespace cadre::kube
