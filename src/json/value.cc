#include "json/value.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace cadre::json {

namespace {

using Member = Object::Member;

bool keyLess(const Member& a, const Member& b) { return a.first < b.first; }
bool keyEqual(const Member& a, const Member& b) { return a.first == b.first; }

// Sorts by key and keeps the last of equal keys.
void normalize(std::vector<Member>& members) {
  // Strictly ascending already: what most writers of Kubernetes objects send.
  auto unordered = [](const Member& a, const Member& b) { return !keyLess(a, b); };
  if (std::adjacent_find(members.begin(), members.end(), unordered) == members.end()) return;
  std::stable_sort(members.begin(), members.end(), keyLess);
  auto kept = members.begin();
  for (auto next = members.begin() + 1; next != members.end(); ++next) {
    if (!keyEqual(*kept, *next)) ++kept;
    if (kept != next) *kept = std::move(*next);
  }
  members.erase(kept + 1, members.end());
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

Object::Object() = default;
Object::Object(std::initializer_list<Member> members) : members_(members) { normalize(members_); }
Object::Object(std::vector<Member> members) : members_(std::move(members)) { normalize(members_); }
Object::~Object() = default;
Object::Object(const Object&) = default;
Object::Object(Object&&) noexcept = default;
Object& Object::operator=(const Object&) = default;
Object& Object::operator=(Object&&) noexcept = default;

Object Object::fromSorted(std::vector<Member> members) {
  assert(std::is_sorted(members.begin(), members.end(), keyLess));
  Object object;
  object.members_ = std::move(members);
  return object;
}

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

Value::~Value() = default;
Value::Value(const Value&) = default;
Value::Value(Value&&) noexcept = default;
Value& Value::operator=(const Value&) = default;
Value& Value::operator=(Value&&) noexcept = default;

std::string_view Value::typeName() const {
  static constexpr std::string_view kNames[] = {"null",   "boolean", "integer", "number",
                                                "string", "array",   "object"};
  return kNames[state_.index()];
}

bool Value::boolean(bool fallback) const {
  const bool* value = std::get_if<bool>(&state_);
  return value ? *value : fallback;
}

std::int64_t Value::integer(std::int64_t fallback) const {
  if (const auto* value = std::get_if<std::int64_t>(&state_)) return *value;
  std::int64_t whole = 0;
  const auto* value = std::get_if<double>(&state_);
  return value && wholeNumber(*value, &whole) ? whole : fallback;
}

double Value::number(double fallback) const {
  if (const auto* value = std::get_if<double>(&state_)) return *value;
  const auto* value = std::get_if<std::int64_t>(&state_);
  return value ? static_cast<double>(*value) : fallback;
}

const std::string& Value::string() const {
  static const std::string empty;
  const auto* value = std::get_if<std::string>(&state_);
  return value ? *value : empty;
}

const Array& Value::array() const {
  static const Array empty;
  const auto* value = std::get_if<Array>(&state_);
  return value ? *value : empty;
}

const Object& Value::object() const {
  static const Object empty;
  const auto* value = std::get_if<Object>(&state_);
  return value ? *value : empty;
}

Array& Value::makeArray() {
  auto* value = std::get_if<Array>(&state_);
  return value ? *value : state_.emplace<Array>();
}

Object& Value::makeObject() {
  auto* value = std::get_if<Object>(&state_);
  return value ? *value : state_.emplace<Object>();
}

std::string* Value::stringPtr() { return std::get_if<std::string>(&state_); }

const Value& Value::operator[](std::string_view key) const {
  const Value* member = object().find(key);
  return member ? *member : nullValue();
}

const Value& Value::at(std::size_t index) const {
  const Array& elements = array();
  return index < elements.size() ? elements[index] : nullValue();
}

Value& Value::operator[](std::string_view key) { return makeObject()[key]; }

bool Value::operator==(const Value& other) const {
  if (state_.index() == other.state_.index()) return state_ == other.state_;
  if (!isNumber() || !other.isNumber()) return false;
  std::int64_t whole = 0;
  const Value& fraction = isInteger() ? other : *this;
  const Value& integer = isInteger() ? *this : other;
  return wholeNumber(*std::get_if<double>(&fraction.state_), &whole) &&
         whole == *std::get_if<std::int64_t>(&integer.state_);
}

}  // namespace cadre::json
