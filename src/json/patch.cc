#include "json/patch.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "json/pointer.h"

namespace cadre::json {

namespace {

using Member = Object::Member;

Error invalid(std::string_view what) {
  return {.code = Code::InvalidArgument, .message = std::string(what)};
}

// What a value is made of.
struct Size {
  std::size_t values = 0;
  std::size_t bytes = 0;
  std::size_t depth = 0;
};

void measure(const Value& value, std::size_t depth, Size& size) {
  ++size.values;
  size.bytes += value.string().size();
  if (value.isArray() || value.isObject()) size.depth = std::max(size.depth, ++depth);
  for (const Value& element : value.array()) measure(element, depth, size);
  for (const auto& [key, member] : value.object()) {
    size.bytes += key.size();
    measure(member, depth, size);
  }
}

Size sizeOf(const Value& value) {
  Size size;
  measure(value, 0, size);
  return size;
}

// Applies the operations one after the other to a document that it owns.
class JsonPatcher {
 public:
  JsonPatcher(Value document, const PatchLimits& limits)
      : document_(std::move(document)), limits_(limits) {}

  Value take() { return std::move(document_); }

  Result<> apply(const Value& operation) {
    std::string_view op = operation["op"].string();
    if (!operation.isObject()) return invalid("is not an object");
    if (op.empty()) return invalid("\"op\" is missing");
    if (!operation["path"].isString()) return invalid("\"path\" is missing");
    CADRE_LET(Pointer path, Pointer::parse(operation["path"].string()));
    if (op == "remove") return remove(path);
    if (op == "move" || op == "copy") {
      if (!operation["from"].isString()) return invalid("\"from\" is missing");
      CADRE_LET(Pointer from, Pointer::parse(operation["from"].string()));
      return op == "move" ? move(from, path) : copy(from, path);
    }
    if (op != "add" && op != "replace" && op != "test") return invalid("unknown operation");
    const Value* value = operation.object().find("value");
    if (!value) return invalid("\"value\" is missing");
    if (op == "test") return test(path, *value);
    CADRE_TRY(chargeCopy(path, sizeOf(*value)));
    return op == "add" ? add(path, *value) : replace(path, *value);
  }

 private:
  Result<Value*> find(const Pointer& path) {
    Value* value = path.find(document_);
    if (!value) return invalid("there is nothing at " + path.text());
    return value;
  }

  Result<> charge(std::size_t work) {
    work_ += work;
    if (work_ > limits_.work)
      return Error{.code = Code::ResourceExhausted, .message = "the patch does too much"};
    return {};
  }

  Result<> checkDepth(const Pointer& path, const Size& size) const {
    if (path.tokens().size() + size.depth <= limits_.depth) return {};
    return Error{.code = Code::ResourceExhausted,
                 .message = "the document would be nested deeper than " +
                            std::to_string(limits_.depth) + " levels"};
  }

  // A copy of a value of that size is about to be put at the path.
  Result<> chargeCopy(const Pointer& path, const Size& size) {
    CADRE_TRY(checkDepth(path, size));
    added_bytes_ += size.bytes;
    added_values_ += size.values;
    if (added_bytes_ > limits_.added_bytes || added_values_ > limits_.added_values)
      return Error{.code = Code::ResourceExhausted, .message = "the patch adds too much"};
    return charge(size.values);
  }

  Result<> add(const Pointer& path, Value value) {
    if (path.isRoot()) {
      document_ = std::move(value);
      return {};
    }
    const std::string& last = path.tokens().back();
    CADRE_LET(Value * parent, find(path.parent()));
    if (parent->isObject()) {
      if (!parent->object().contains(last)) CADRE_TRY(charge(parent->object().size()));
      parent->makeObject().set(last, std::move(value));
      return {};
    }
    if (!parent->isArray())
      return invalid("cannot add to a value of type " + std::string(parent->typeName()));
    Array& array = parent->makeArray();
    auto index = last == "-" ? array.size() : arrayIndex(last);
    if (!index || *index > array.size())
      return invalid("\"" + last + "\" is no position in an array of " +
                     std::to_string(array.size()));
    CADRE_TRY(charge(array.size() - *index));
    array.insert(array.begin() + static_cast<std::ptrdiff_t>(*index), std::move(value));
    return {};
  }

  Result<> replace(const Pointer& path, Value value) {
    if (limits_.replaces_missing && !path.isRoot())
      if (const Value* parent = path.parent().find(document_); parent && parent->isObject())
        return add(path, std::move(value));
    CADRE_LET(Value * target, find(path));
    *target = std::move(value);
    return {};
  }

  Result<> remove(const Pointer& path) {
    CADRE_TRY(find(path));
    if (path.isRoot()) {
      document_ = Value();
      return {};
    }
    const std::string& last = path.tokens().back();
    Value& parent = *path.parent().find(document_);
    if (parent.isObject()) {
      CADRE_TRY(charge(parent.object().size()));
      parent.makeObject().erase(last);
      return {};
    }
    Array& array = parent.makeArray();
    CADRE_TRY(charge(array.size()));
    array.erase(array.begin() + static_cast<std::ptrdiff_t>(*arrayIndex(last)));
    return {};
  }

  Result<> move(const Pointer& from, const Pointer& path) {
    CADRE_LET(Value * source, find(from));
    if (from == path) return {};
    if (path.isWithin(from)) return invalid("cannot move a value into itself");
    Size size = sizeOf(*source);
    CADRE_TRY(checkDepth(path, size));
    CADRE_TRY(charge(size.values));
    Value value = std::move(*source);
    CADRE_TRY(remove(from));
    return add(path, std::move(value));
  }

  Result<> copy(const Pointer& from, const Pointer& path) {
    CADRE_LET(const Value* source, find(from));
    CADRE_TRY(chargeCopy(path, sizeOf(*source)));
    return add(path, *source);
  }

  Result<> test(const Pointer& path, const Value& expected) {
    CADRE_LET(const Value* actual, find(path));
    CADRE_TRY(charge(sizeOf(expected).values));
    if (*actual == expected) return {};
    // Not what is there: it may be a secret.
    return Error{.code = Code::Conflict, .message = "the value is another"};
  }

  Value document_;
  const PatchLimits limits_;
  std::size_t work_ = 0;
  std::size_t added_values_ = 0;
  std::size_t added_bytes_ = 0;
};

// "operation 3 (replace /spec/replicas)".
std::string nameOf(std::size_t index, const Value& operation) {
  std::string name = "operation " + std::to_string(index);
  const std::string& op = operation["op"].string();
  const std::string& path = operation["path"].string();
  if (op.empty() && path.empty()) return name;
  name += " (" + op.substr(0, 20);
  if (!path.empty()) name += ' ' + path.substr(0, 200);
  return name + ")";
}

// A merge patch as a value of its own: what it says of removal has nothing to remove.
Value withoutNulls(const Value& patch) {
  if (!patch.isObject()) return patch;
  std::vector<Member> members;
  for (const auto& [key, member] : patch.object())
    if (!member.isNull()) members.emplace_back(key, withoutNulls(member));
  return Object::fromSorted(std::move(members));
}

// The merge patch from one to the other, nothing where they are equal.
std::optional<Value> mergeChanges(const Value& from, const Value& to) {
  if (!from.isObject() || !to.isObject()) {
    if (from == to) return std::nullopt;
    return to;
  }
  std::vector<Member> changes;
  auto old = from.object().begin();
  auto old_end = from.object().end();
  for (const auto& [key, value] : to.object()) {
    for (; old != old_end && old->first < key; ++old) changes.emplace_back(old->first, Value());
    if (old == old_end || old->first != key) {
      changes.emplace_back(key, value);
    } else if (auto change = mergeChanges((old++)->second, value)) {
      changes.emplace_back(key, *std::move(change));
    }
  }
  for (; old != old_end; ++old) changes.emplace_back(old->first, Value());
  if (changes.empty()) return std::nullopt;
  return Object::fromSorted(std::move(changes));
}

}  // namespace

Result<Value> applyJsonPatch(Value target, const Value& patch, const PatchLimits& limits) {
  if (!patch.isArray()) return invalid("a JSON patch is an array of operations");
  const Array& operations = patch.array();
  if (operations.size() > limits.operations)
    return Error{.code = Code::ResourceExhausted,
                 .message = "the patch has " + std::to_string(operations.size()) +
                            " operations, the limit is " + std::to_string(limits.operations)};
  JsonPatcher patcher(std::move(target), limits);
  for (std::size_t i = 0; i < operations.size(); ++i) {
    auto done = patcher.apply(operations[i]);
    if (!done.ok()) return std::move(done).error().context(nameOf(i, operations[i]));
  }
  return patcher.take();
}

Value applyMergePatch(Value target, const Value& patch) {
  if (!patch.isObject()) return patch;
  if (!target.isObject()) return withoutNulls(patch);
  Object& old = target.makeObject();
  std::vector<Member> merged;
  merged.reserve(old.size() + patch.object().size());
  auto kept = old.begin();
  for (const auto& [key, change] : patch.object()) {
    for (; kept != old.end() && kept->first < key; ++kept) merged.push_back(std::move(*kept));
    bool known = kept != old.end() && kept->first == key;
    if (!change.isNull())
      merged.emplace_back(
          key, known ? applyMergePatch(std::move(kept->second), change) : withoutNulls(change));
    if (known) ++kept;
  }
  for (; kept != old.end(); ++kept) merged.push_back(std::move(*kept));
  return Object::fromSorted(std::move(merged));
}

Value makeMergePatch(const Value& from, const Value& to) {
  auto changes = mergeChanges(from, to);
  return changes ? *std::move(changes) : to.isObject() ? Value(Object()) : to;
}

}  // namespace cadre::json
