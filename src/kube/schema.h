#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "json/value.h"
#include "kube/meta.h"
#include "kube/pattern.h"

namespace cadre::kube {

// What a kind of object is, described once. From it come the CRD, defaults, validation
// (kube/validate.h), documentation (kube/explain.h), and with kube/describe.h the reading and
// writing of C++ structs. Descriptions are made once, at start; afterwards they are immutable and
// may be shared between threads. Everything here is pure.

class Report;  // kube/validate.h

// What is wrong at a field: Kubernetes's own words for it.
enum class Fault {
  Required,
  Invalid,
  NotSupported,
  TypeInvalid,
  TooLong,
  TooMany,
  Duplicate,
  Forbidden,
  NotFound,
  Unknown,  // a field that the kind does not have
};

// The native side of a rule: a callable of (self), or of (self, old) for a rule about a change,
// which is asked only where there was a value before.
class Holds {
 public:
  using Self = const json::Value&;

  Holds() = default;
  template <std::predicate<Self> F>
  Holds(F holds) : self_(std::move(holds)) {}  // NOLINT: a lambda is written where this is expected
  template <std::predicate<Self, Self> F>
  Holds(F holds) : change_(std::move(holds)) {}  // NOLINT

  bool ofChange() const { return change_ != nullptr; }
  explicit operator bool() const { return self_ || change_; }
  bool operator()(Self self, Self old) const { return change_ ? change_(self, old) : self_(self); }

 private:
  std::function<bool(Self)> self_;
  std::function<bool(Self, Self)> change_;
};

// A rule that the API server checks in CEL and we check natively: both say the same, and a table in
// test/schemas shows it. `self` has its defaults. As in CEL, a rule at the root sees of the
// metadata what self.metadata.name is, and a value that is absent or null has no rules.
struct Rule {
  std::string cel;
  std::string message;
  std::string field_path = {};    // what is to blame, from self on: ".hostedConfig.model"
  Fault reason = Fault::Invalid;  // or Required, Forbidden, Duplicate
  Holds holds = {};
};

// Rules that many structs have, with both sides from one list of fields.
Rule exactlyOneOf(std::vector<std::string> fields, Fault reason = Fault::Invalid);
Rule atMostOneOf(std::vector<std::string> fields, Fault reason = Fault::Invalid);

// What only we check, in `cadre validate`, the webhook and the operator: it adds errors and
// warnings about `self` or what is in it. Like rules it is asked only about what has the right
// shape.
using Check = std::function<void(const json::Value& self, Report& report)>;

struct Property;

// What is known about a value. A tree, without references.
struct Schema {
  enum class Type {
    Any,  // anything at all, kept as it is: no type in the CRD
    Boolean,
    Integer,
    Number,
    String,
    IntOrString,
    Array,
    Object,  // has fields
    Map,     // from names to values of one kind
  };
  enum class List { Atomic, Set, Map };  // how lists are merged, and what must be unique in them

  Type type = Type::Any;
  std::string doc = {};
  std::string deprecated = {};  // what to use instead
  bool required = false;
  bool nullable = false;
  bool secret = false;                       // its value is never shown
  bool preserve_unknown = false;             // an object that may have other fields, which are kept
  bool embedded = false;                     // an object with a kind and metadata of its own
  bool closed = false;                       // a map that may have no entries
  std::optional<json::Value> fallback = {};  // the default that the server sets
  json::Value initial = {};                  // what C++ begins with
  json::Array one_of = {};
  Pattern pattern = {};
  std::string bad_pattern = {};                                 // why there is none; see problems()
  std::string format = {};                                      // see knownFormat()
  std::optional<std::int64_t> least_size = {}, most_size = {};  // characters, items or entries
  Type sized = Type::Any;                                       // whose, where any type is allowed
  std::optional<double> least = {}, most = {};                  // of numbers
  bool above_least = false, below_most = false;                 // these themselves are not allowed
  std::optional<double> multiple_of = {};
  List list = List::Atomic;
  std::vector<std::string> keys = {};    // of a list that is a map
  std::vector<std::string> any_of = {};  // of these fields at least one must be there
  std::vector<std::string> needs = {};   // fields that must be there, though not described here
  std::vector<Rule> rules = {};
  std::vector<Check> checks = {};
  std::vector<Property> fields;             // of an object, in the order of their description
  bool is_sorted = false;                   // they are, by name
  std::vector<std::size_t> awaited = {};    // then: which matter where they are missing
  std::unique_ptr<Schema> items = nullptr;  // of an array or a map
  struct Combined;
  std::shared_ptr<const Combined> combined = nullptr;

  const Property* field(std::string_view name) const;
  // Those that an object has, or that matter where they are missing, in their order. Of a large
  // description, a small object has few.
  std::vector<const Property*> fieldsFor(const json::Object& object) const;
};

struct Property {
  std::string name;
  Schema schema;
};

// What else must hold for a value, in terms of other schemas.
struct Schema::Combined {
  std::vector<Schema> all, any, one;  // each of them, at least one, exactly one
  std::unique_ptr<Schema> none;
};

// The value of a field is described in a chain: f("port", &Server::port, "...").required().min(1).
// Points into the description that it is about: not to be kept.
class Described {
 public:
  explicit Described(Schema& schema) : schema_(&schema) {}

  Described required();
  // Declares the C++ initial value, or this one, as default in the CRD.
  Described defaults();
  Described defaults(json::Value value);
  Described oneOf(std::vector<std::string> values);
  Described pattern(std::string_view text);  // Go's syntax; see kube/pattern.h
  Described dnsLabel();                      // the name of most things: pattern and length
  Described minLength(std::int64_t characters);
  Described maxLength(std::int64_t characters);
  Described min(double value);
  Described max(double value);
  Described minItems(std::int64_t count);  // of lists and maps
  Described maxItems(std::int64_t count);
  Described set();                                   // a list that has each value once
  Described keyedBy(std::vector<std::string> keys);  // a list that has each combination once
  Described format(std::string_view name);
  Described nullable();
  Described secret();
  Described deprecated(std::string_view instead);
  // Of a struct: other fields are kept.
  Described preserveUnknown();
  // Of a json::Value: anything, not just an object; a number or a text; a kube::Quantity.
  Described untyped();
  Described intOrString();
  Described quantity();
  // Of a struct: one of these fields at least. For CEL, fields that are untyped do not exist: a
  // rule cannot ask for one of them, and this can.
  Described anyOf(std::vector<std::string> fields);
  Described immutable();  // once it is there; it may be added and removed
  Described rule(Rule rule);
  Described check(Check check);
  Described each();  // what the list or map holds

 private:
  Schema* schema_;
};

// Printed by `kubectl get`.
struct Column {
  std::string name;
  std::string type;  // string, integer, number, boolean, date
  std::string path;  // ".status.phase"
  bool wide = false;
};

struct Scale {
  std::string replicas, status_replicas, selector;  // ".spec.replicas"; the selector may be empty
};

// A kind of object. Always there without being said: the status subresource, a column Age at the
// end, the category cadre.
struct Kind {
  enum class Scope { Namespaced, Cluster };
  // What metadata.name may be. Children of the object often have its name in theirs, and a Service
  // takes less than most kinds.
  enum class Names { DnsSubdomain, DnsLabel, Dns1035Label };

  std::string group, version, kind, plural, singular;
  std::vector<std::string> short_names = {};
  std::vector<std::string> categories = {};
  Scope scope = Scope::Namespaced;
  Names names = Names::DnsSubdomain;
  std::string doc = {};
  std::vector<Column> columns = {};
  Schema spec = {}, status = {};  // specOf<T>(), statusOf<T>() of kube/describe.h
  std::optional<Scale> scale = {};
  std::vector<Rule> rules = {};  // about the whole object
  std::vector<Check> checks = {};

  Resource resource() const;
  GroupVersionKind gvk() const { return {group, version, kind}; }
  // An object without a spec would have no rules: so it has one when anything is asked of it.
  bool needsSpec() const;
  Schema nameSchema() const;  // of metadata.name
};

// The CustomResourceDefinition (apiextensions.k8s.io/v1).
json::Value crd(const Kind& kind);

// The object as the API server makes it before it looks at it: absent fields with defaults are set,
// nulls that are not allowed are gone. Unknown fields stay.
json::Value withDefaults(const Kind& kind, json::Value object);
// The same for one value. A short list can ask for long defaults in each of its items: what is
// beyond this many bytes is left out, and the object is too large for any server then.
void setDefaults(const Schema& schema, json::Value& value);
inline constexpr std::size_t kMaxDefaults = 4u << 20;

// What is wrong with a description itself, as sentences: for the test of each kind.
std::vector<std::string> problems(const Kind& kind);

// The formats of texts that are checked here as the API server does; others mean nothing to it.
bool knownFormat(std::string_view format);
bool hasFormat(std::string_view format, std::string_view text);

std::string_view typeName(const Schema& schema);  // "string", "object"; "" for anything

// The range of an int, which is that of its field if no other is given.
inline constexpr double kLeastInt = -2147483648, kMostInt = 2147483647;

// Patterns that many kinds need.
inline constexpr std::string_view kDnsLabel = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
inline constexpr std::string_view kDns1035Label = "^[a-z]([-a-z0-9]*[a-z0-9])?$";
inline constexpr std::string_view kDnsSubdomain =
    "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
inline constexpr std::string_view kHttpUrl = "^https?://[^\\s/?#]+[^\\s]*$";

}  // namespace cadre::kube
