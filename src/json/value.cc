#include "json/value.h"

#include <algorithm>
#include <cmath>

namespace cadre::json {

namespace {

using Member = Object::Member;

// Sorts by key and keeps the last of equal keys.
void normalize(std::vector<Member>& members) {
  // Strictly ascending already: what most writers of Kubernetes objects send.
  auto unordered = [](const Member& a, const Member& b) { return a.first >= b.first; };
  if (std::adjacent_find(members.begin(), members.end(), unordered) == members.end()) return;
  std::vector<Member*> order;
  order.reserve(members.size());
  for (Member& member : members) order.push_back(&member);
  std::sort(order.begin(), order.end(), [](const Member* a, const Member* b) {
    int compared = a->first.compare(b->first);
    return compared != 0 ? compared < 0 : a < b;
  });
  std::vector<Member> sorted;
  sorted.reserve(members.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    if (i + 1 == order.size() || order[i]->first != order[i + 1]->first)
      sorted.push_back(std::move(*order[i]));
  members = std::move(sorted);
}

// True where the double is a whole number in the range of 64 bits, which it then gives exactly.
bool wholeNumber(double number, std::int64_t* whole) {
  if (!(number >= -0x1p63 && number < 0x1p63) || number != std::trunc(number)) return false;
  *whole = static_cast<std::int64_t>(number);
  return true;
}

const Value& nullValue() {
  static const Value value;
  return value;
}

template <class Members>
auto lowerBound(Members& members, std::string_view key) {
  return std::lower_bound(members.begin(), members.end(), key,
                          [](const Member& m, std::string_view k) { return m.first < k; });
}

}  // namespace

Object::Object(std::initializer_list<Member> members) : members_(members) { normalize(members_); }
Object::Object(std::vector<Member> members) : members_(std::move(members)) { normalize(members_); }
Object::Object(const Object&) = default;
Object& Object::operator=(const Object&) = default;

const Value* Object::find(std::string_view key) const {
  auto at = lowerBound(members_, key);
  return at != members_.end() && at->first == key ? &at->second : nullptr;
}

Value* Object::find(std::string_view key) {
  return const_cast<Value*>(static_cast<const Object*>(this)->find(key));
}

Value& Object::operator[](std::string_view key) {
  auto at = lowerBound(members_, key);
  if (at == members_.end() || at->first != key)
    at = members_.insert(at, Member(std::string(key), Value()));
  return at->second;
}

void Object::set(std::string_view key, Value value) { (*this)[key] = std::move(value); }

bool Object::erase(std::string_view key) {
  auto at = lowerBound(members_, key);
  if (at == members_.end() || at->first != key) return false;
  members_.erase(at);
  return true;
}

bool Object::operator==(const Object& other) const { return members_ == other.members_; }

void Value::copy(const Value& other) {
  switch (other.type_) {
    case Type::String:
      new (&string_) std::string(other.string_);
      break;
    case Type::Array:
      new (&array_) Array(other.array_);
      break;
    case Type::Object:
      new (&object_) Object(other.object_);
      break;
    case Type::Null:
      break;
    case Type::Boolean:
      boolean_ = other.boolean_;
      break;
    case Type::Integer:
      integer_ = other.integer_;
      break;
    case Type::Number:
      number_ = other.number_;
      break;
  }
  type_ = other.type_;
}

void Value::takeOwned(Value& other) {
  if (other.type_ == Type::String) {
    new (&string_) std::string(std::move(other.string_));
  } else if (other.type_ == Type::Array) {
    new (&array_) Array(std::move(other.array_));
  } else {
    new (&object_) Object(std::move(other.object_));
  }
  type_ = other.type_;
  other.destroy();
}

Value& Value::operator=(const Value& other) { return *this = Value(other); }

std::string_view Value::typeName() const {
  static constexpr std::string_view kNames[] = {"null",   "boolean", "integer", "number",
                                                "string", "array",   "object"};
  return kNames[static_cast<std::size_t>(type_)];
}

bool Value::boolean(bool fallback) const { return isBool() ? boolean_ : fallback; }

std::int64_t Value::integer(std::int64_t fallback) const {
  if (isInteger()) return integer_;
  std::int64_t whole = 0;
  return type_ == Type::Number && wholeNumber(number_, &whole) ? whole : fallback;
}

double Value::number(double fallback) const {
  if (type_ == Type::Number) return number_;
  return isInteger() ? static_cast<double>(integer_) : fallback;
}

const std::string& Value::string() const {
  static const std::string empty;
  return isString() ? string_ : empty;
}

const Array& Value::array() const {
  static const Array empty;
  return isArray() ? array_ : empty;
}

const Object& Value::object() const {
  static const Object empty;
  return isObject() ? object_ : empty;
}

Array& Value::makeArray() {
  if (!isArray()) *this = Array();
  return array_;
}

Object& Value::makeObject() {
  if (!isObject()) *this = Object();
  return object_;
}

std::string* Value::stringPtr() { return isString() ? &string_ : nullptr; }

const Value& Value::operator[](std::string_view key) const {
  const Value* member = object().find(key);
  return member ? *member : nullValue();
}

const Value& Value::at(std::size_t index) const {
  const Array& elements = array();
  return index < elements.size() ? elements[index] : nullValue();
}

Value& Value::make(std::string_view key) { return makeObject()[key]; }

bool Value::operator==(const Value& other) const {
  if (type_ != other.type_) {
    if (!isNumber() || !other.isNumber()) return false;
    std::int64_t whole = 0;
    return isInteger() ? wholeNumber(other.number_, &whole) && whole == integer_
                       : wholeNumber(number_, &whole) && whole == other.integer_;
  }
  switch (type_) {
    case Type::Null:
      return true;
    case Type::Boolean:
      return boolean_ == other.boolean_;
    case Type::Integer:
      return integer_ == other.integer_;
    case Type::Number:
      return number_ == other.number_;
    case Type::String:
      return string_ == other.string_;
    case Type::Array:
      return array_ == other.array_;
    case Type::Object:
      return object_ == other.object_;
  }
  return false;
}

}  // namespace cadre::json
