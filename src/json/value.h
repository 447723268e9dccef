#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cadre::json {

class Value;
using Array = std::vector<Value>;

// The members of a JSON object, sorted by key, each key once. Sorted so that equal objects compare,
// print and hash alike however they came about. Lookup is a binary search; taking many members at
// once costs one sort, while operator[] and set() of a new key move the members behind it.
class Object {
 public:
  using Member = std::pair<std::string, Value>;

  Object();
  // {{"b", 2}, {"a", 1}}; of equal keys the last wins.
  Object(std::initializer_list<Member> members);
  // Takes members in any order; of equal keys the last wins.
  explicit Object(std::vector<Member> members);
  // Takes members that are already sorted and without equal keys: for parsers and merges, linear.
  static Object fromSorted(std::vector<Member>&& members);
  ~Object();
  Object(const Object&);
  Object(Object&&) noexcept;
  Object& operator=(const Object&);
  Object& operator=(Object&&) noexcept;

  const Value* find(std::string_view key) const;  // null when there is none
  Value* find(std::string_view key);
  bool contains(std::string_view key) const { return find(key) != nullptr; }
  // Makes a null member when there is none.
  Value& operator[](std::string_view key);
  void set(std::string_view key, Value value);
  bool erase(std::string_view key);

  bool empty() const;
  std::size_t size() const;
  auto begin() const { return members_.begin(); }
  auto end() const { return members_.end(); }
  auto begin() { return members_.begin(); }  // keys must not be changed through it
  auto end() { return members_.end(); }

  bool operator==(const Object&) const;

 private:
  struct Sorted {};
  Object(Sorted, std::vector<Member>&& members);

  std::vector<Member> members_;
};

// A JSON value. Integers and fractions are told apart by type as Kubernetes does, but compare by
// meaning and are written as Go writes them: 1.0 is written 1. A plain value: copies are deep, not
// shared, not thread-safe while written.
//
// Reading never fails: a reader for the wrong type gives an empty answer, so that a plan can walk a
// hostile object without a check at every step. Whoever must know asks isString() and the like.
class Value {
 public:
  Value() : integer_(0) {}  // null
  Value(std::nullptr_t)
      : integer_(0) {}  // NOLINT: implicit, so that Object{{"a", 1}} reads like JSON
  template <std::same_as<bool> T>
  Value(T value) : type_(Type::Boolean), boolean_(value) {}  // NOLINT: a template: no pointers
  // What does not fit into 64 bits with a sign becomes a double.
  template <std::integral T>
    requires(!std::same_as<T, bool> && !std::same_as<T, char>)
  Value(T value) : type_(Type::Integer), integer_(static_cast<std::int64_t>(value)) {  // NOLINT
    if (std::cmp_greater(value, std::numeric_limits<std::int64_t>::max())) {
      type_ = Type::Number;
      number_ = static_cast<double>(value);
    }
  }
  // Infinity and not-a-number have no JSON: they are written as null.
  template <std::floating_point T>
  Value(T value) : type_(Type::Number), number_(static_cast<double>(value)) {}  // NOLINT
  Value(std::string value) : type_(Type::String), string_(std::move(value)) {}  // NOLINT
  Value(std::string_view value) : type_(Type::String), string_(value) {}        // NOLINT
  Value(const char* value) : type_(Type::String), string_(value) {}             // NOLINT
  Value(Array value) : type_(Type::Array), array_(std::move(value)) {}          // NOLINT
  Value(Object value) : type_(Type::Object), object_(std::move(value)) {}       // NOLINT

  ~Value() {
    if (type_ >= Type::String) destroy();
  }
  Value(const Value& other) : integer_(0) { copy(other); }
  Value(Value&& other) noexcept : integer_(0) { take(other); }  // leaves null behind
  Value& operator=(const Value& other);
  Value& operator=(Value&& other) noexcept;

  bool isNull() const { return type_ == Type::Null; }
  bool isBool() const { return type_ == Type::Boolean; }
  bool isInteger() const { return type_ == Type::Integer; }
  bool isNumber() const { return isInteger() || type_ == Type::Number; }
  bool isString() const { return type_ == Type::String; }
  bool isArray() const { return type_ == Type::Array; }
  bool isObject() const { return type_ == Type::Object; }
  // "null", "boolean", "integer", "number", "string", "array", "object": for messages.
  std::string_view typeName() const;

  // The value of that type, or the fallback.
  bool boolean(bool fallback = false) const;
  std::int64_t integer(std::int64_t fallback = 0) const;  // a whole double counts as an integer
  double number(double fallback = 0) const;
  const std::string& string() const;  // "" when it is no string
  const Array& array() const;         // empty when it is no array
  const Object& object() const;       // empty when it is no object

  // For writing: turns the value into that type first if it is another.
  Array& makeArray();
  Object& makeObject();
  // The text itself, to take it out by moving; null when it is no string.
  std::string* stringPtr();

  // Member or element by key or position; null (the value) when there is none. Chains:
  // v["spec"]["replicas"].
  const Value& operator[](std::string_view key) const;
  const Value& operator[](const char* key) const { return (*this)[std::string_view(key)]; }
  const Value& at(std::size_t index) const;
  // The member to write to: made where there is none, and objects on the way. Reading never does
  // that, also on a value that may be written: v.make("spec").make("replicas") = 3.
  Value& make(std::string_view key);
  // Positions go through at(): v[0] would otherwise be a null pointer for a key.
  template <std::integral T>
  const Value& operator[](T) const = delete;

  // By meaning and exactly: 1 == 1.0, but 2^53 + 1 is not equal to the double next to it.
  bool operator==(const Value& other) const;

 private:
  // From String on, a type has something to destroy.
  enum class Type : std::uint8_t { Null, Boolean, Integer, Number, String, Array, Object };

  void destroy();                 // of a value with something to destroy; it is null afterwards
  void copy(const Value& other);  // into a null
  void take(Value& other);        // into a null; the other is null afterwards
  void takeOwned(Value& other);   // take() of a type with something to destroy

  // A union of our own: values are moved for every one that is parsed, which std::variant does
  // through tables. takeOwned() is not inline because g++ 12 warns about uninitialized members of
  // the types that a moved value does not have.
  Type type_ = Type::Null;
  union {
    bool boolean_;
    std::int64_t integer_;
    double number_;
    std::string string_;
    Array array_;
    Object object_;
  };
};

inline void Value::take(Value& other) {
  if (other.type_ >= Type::String) return takeOwned(other);
  if (other.type_ == Type::Number) {
    number_ = other.number_;
  } else if (other.type_ == Type::Boolean) {
    boolean_ = other.boolean_;
  } else {
    integer_ = other.integer_;
  }
  type_ = std::exchange(other.type_, Type::Null);
}

inline Value& Value::operator=(Value&& other) noexcept {
  // Through a third one: the other may be a part of what is destroyed here.
  Value taken(std::move(other));
  if (type_ >= Type::String) destroy();
  take(taken);
  return *this;
}

inline void Value::destroy() {
  if (type_ == Type::String) {
    string_.~basic_string();
  } else if (type_ == Type::Array) {
    array_.~vector();
  } else {
    object_.~Object();
  }
  type_ = Type::Null;
}

inline Object::Object() = default;
inline Object::~Object() = default;
inline Object::Object(Object&&) noexcept = default;
inline Object& Object::operator=(Object&&) noexcept = default;
inline Object::Object(Sorted, std::vector<Member>&& members) : members_(std::move(members)) {}
inline Object Object::fromSorted(std::vector<Member>&& members) {
  return Object(Sorted{}, std::move(members));
}
inline bool Object::empty() const { return members_.empty(); }
inline std::size_t Object::size() const { return members_.size(); }

// How much of a document is accepted. The defaults are generous for Kubernetes objects and safe for
// this process: a value takes 40 bytes and a member 72, so text of 16 MiB cannot become gigabytes.
struct Limits {
  std::size_t bytes = 16u << 20;
  std::size_t depth = 128;
  // How many values a document may have; in YAML after its aliases are expanded.
  std::size_t values = 1u << 20;
};

}  // namespace cadre::json
