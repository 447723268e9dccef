#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
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
  static Object fromSorted(std::vector<Member> members);
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
  Value() = default;        // null
  Value(std::nullptr_t) {}  // NOLINT: implicit, so that Object{{"a", 1}} reads like JSON
  template <std::same_as<bool> T>
  Value(T value) : state_(value) {}  // NOLINT: a template, so that no pointer becomes a bool
  // What does not fit into 64 bits with a sign becomes a double.
  template <std::integral T>
    requires(!std::same_as<T, bool> && !std::same_as<T, char>)
  Value(T value) : state_(static_cast<std::int64_t>(value)) {  // NOLINT
    if (std::cmp_greater(value, std::numeric_limits<std::int64_t>::max()))
      state_ = static_cast<double>(value);
  }
  // Infinity and not-a-number have no JSON: they are written as null.
  template <std::floating_point T>
  Value(T value) : state_(static_cast<double>(value)) {}         // NOLINT
  Value(std::string value) : state_(std::move(value)) {}         // NOLINT
  Value(std::string_view value) : state_(std::string(value)) {}  // NOLINT
  Value(const char* value) : state_(std::string(value)) {}       // NOLINT
  Value(Array value) : state_(std::move(value)) {}               // NOLINT
  Value(Object value) : state_(std::move(value)) {}              // NOLINT

  // Not inline: g++ 12 takes a moved variant for uninitialized and warns in every user.
  ~Value();
  Value(const Value&);
  Value(Value&&) noexcept;
  Value& operator=(const Value&);
  Value& operator=(Value&&) noexcept;

  bool isNull() const { return state_.index() == 0; }
  bool isBool() const { return std::holds_alternative<bool>(state_); }
  bool isInteger() const { return std::holds_alternative<std::int64_t>(state_); }
  bool isNumber() const { return isInteger() || std::holds_alternative<double>(state_); }
  bool isString() const { return std::holds_alternative<std::string>(state_); }
  bool isArray() const { return std::holds_alternative<Array>(state_); }
  bool isObject() const { return std::holds_alternative<Object>(state_); }
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
  // As above for writing: makes objects on the way.
  Value& operator[](std::string_view key);
  Value& operator[](const char* key) { return (*this)[std::string_view(key)]; }
  // Positions go through at(): v[0] would otherwise be a null pointer for a key.
  template <std::integral T>
  const Value& operator[](T) const = delete;

  // By meaning and exactly: 1 == 1.0, but 2^53 + 1 is not equal to the double next to it.
  bool operator==(const Value& other) const;

 private:
  std::variant<std::monostate, bool, std::int64_t, double, std::string, Array, Object> state_;
};

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
