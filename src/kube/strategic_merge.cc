#include "kube/strategic_merge.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/format.h"
#include "json/patch.h"
#include "json/write.h"
#include "kube/names.h"

namespace cadre::kube {

namespace {

using json::Array;
using json::Object;
using json::Value;

constexpr std::string_view kPatch = "$patch";
constexpr std::string_view kRetainKeys = "$retainKeys";
constexpr std::string_view kDeleteFromList = "$deleteFromPrimitiveList/";
constexpr std::string_view kSetOrder = "$setElementOrder/";

bool isDirective(std::string_view key) {
  return key == kPatch || key == kRetainKeys || key.starts_with(kDeleteFromList) ||
         key.starts_with(kSetOrder);
}

Error invalid(std::string message) {
  return Error{.code = Code::InvalidArgument, .message = std::move(message)};
}

Error badDirective(const Value& directive) {
  return invalid(
      format("$patch is {}, and can only be \"replace\" or \"delete\"",
             inQuotes(directive.isString() ? directive.string() : json::write(directive))));
}

// What becomes of an object with a $patch where there is nothing to patch.
enum class Directed { Drop, Keep };

// A part of a patch as a value of its own: with nothing to remove and nothing to direct. Nothing at
// all if it is dropped.
std::optional<Value> plain(const Value& patch, Directed directed) {
  if (patch.isArray()) {
    Array out;
    for (const Value& element : patch.array())
      if (auto kept = plain(element, directed)) out.push_back(*std::move(kept));
    return out;
  }
  if (!patch.isObject()) return patch;
  if (directed == Directed::Drop && patch.object().contains(kPatch)) return std::nullopt;
  std::vector<Object::Member> out;
  for (const auto& [key, value] : patch.object()) {
    if (value.isNull() || isDirective(key)) continue;
    if (auto kept = plain(value, directed)) out.emplace_back(key, *std::move(kept));
  }
  return Value(Object::fromSorted(std::move(out)));
}

// A part of a patch that takes the place of what was there.
Value replacement(const Value& patch) { return plain(patch, Directed::Keep).value_or(Value()); }

// --- lists

// What tells the elements of a merged list apart: their merge keys, or they themselves.
class Identity {
 public:
  explicit Identity(std::string_view merge_key) : merge_key_(merge_key) {}

  Result<std::string> of(const Value& element) const {
    if (element.isArray()) return invalid("lists of lists cannot be merged");
    if (!element.isObject()) return json::write(element);
    if (merge_key_.empty()) return invalid("a list of objects cannot be merged without a key");
    const Value* key = element.object().find(merge_key_);
    if (!key) return invalid(format("an element has no \"{}\"", merge_key_));
    return json::write(*key);
  }
  // Where each first stands.
  Result<std::map<std::string, std::size_t>> positions(const Array& list) const {
    std::map<std::string, std::size_t> out;
    for (std::size_t i = 0; i < list.size(); ++i) {
      CADRE_LET(std::string id, of(list[i]));
      out.emplace(std::move(id), i);
    }
    return out;
  }

 private:
  std::string_view merge_key_;
};

// The elements of the first list in the order of the second, interleaved with all others in the
// order that the live list had.
Result<Array> inOrder(Array list, const Array& order, const Array& live, const Identity& identity) {
  CADRE_LET(auto wanted, identity.positions(order));
  CADRE_LET(auto before, identity.positions(live));
  struct Element {
    std::pair<std::size_t, std::size_t> place;  // in its order, then in the list
    std::optional<std::size_t> live;            // in the live list
    Value value;
  };
  std::vector<Element> ordered, others;
  for (std::size_t i = 0; i < list.size(); ++i) {
    CADRE_LET(std::string id, identity.of(list[i]));
    auto lived = before.find(id);
    std::optional<std::size_t> live_place;
    if (lived != before.end()) live_place = lived->second;
    if (auto found = wanted.find(id); found != wanted.end())
      ordered.push_back({{found->second, i}, live_place, std::move(list[i])});
    else
      others.push_back({{live_place.value_or(live.size()), i}, live_place, std::move(list[i])});
  }
  std::ranges::sort(ordered, {}, &Element::place);
  std::ranges::sort(others, {}, &Element::place);
  Array out;
  auto other = others.begin();
  for (Element& element : ordered) {
    for (; other != others.end() && other->live && element.live && *other->live < *element.live;
         ++other)
      out.push_back(std::move(other->value));
    out.push_back(std::move(element.value));
  }
  for (; other != others.end(); ++other) out.push_back(std::move(other->value));
  return out;
}

Result<Value> mergeObject(Type type, Value current, const Value& patch);

// Takes the elements with directives out of a patch: deletes what they say from the list, or
// empties it. Gives the others.
Result<Array> followDirectives(Array& list, const Array& patch, const Identity& identity) {
  Array rest;
  std::set<std::string> gone;
  bool replace = false;
  for (const Value& element : patch) {
    const Value* directive = element.object().find(kPatch);
    if (!directive) {
      rest.push_back(element);
    } else if (*directive == Value("replace")) {
      replace = true;
    } else if (*directive == Value("delete")) {
      CADRE_LET(std::string id, identity.of(element));
      gone.insert(std::move(id));
    } else {
      return badDirective(*directive);
    }
  }
  if (replace) list.clear();
  if (!gone.empty())
    std::erase_if(list, [&](const Value& one) {
      auto id = identity.of(one);
      return id && gone.contains(*id);
    });
  return rest;
}

Result<> requireSameKind(const Array& list, const Array& patch) {
  const Value& first = list.empty() ? patch.front() : list.front();
  auto differs = [&](const Value& one) { return one.isObject() != first.isObject(); };
  if (std::ranges::any_of(list, differs) || std::ranges::any_of(patch, differs))
    return invalid("the elements of the list are not all objects");
  return {};
}

Result<Array> mergeList(const Field& field, Array list, const Array& patch) {
  if (patch.empty()) return list;
  CADRE_TRY(requireSameKind(list, patch));
  Identity identity(field.patchMergeKey());
  CADRE_LET(Array changes, followDirectives(list, patch, identity));
  Array live = list;
  CADRE_LET(auto known, identity.positions(list));
  for (const Value& change : changes) {
    CADRE_LET(std::string id, identity.of(change));
    auto [place, is_new] = known.emplace(std::move(id), list.size());
    if (is_new) {
      list.push_back(replacement(change));
    } else if (change.isObject()) {
      Value& element = list[place->second];
      CADRE_LET(element, mergeObject(field.type().element(), std::move(element), change));
    }
  }
  return inOrder(std::move(list), changes, live, identity);
}

// Whether the changes come in the order that is asked for, and none is left out of it.
Result<> checkOrder(const Array& patch, const Array& order, const Identity& identity) {
  if (order.empty()) return {};
  std::size_t at = 0;
  for (const Value& change : patch) {
    if (change.object().contains(kPatch)) continue;
    CADRE_LET(std::string id, identity.of(change));
    for (bool found = false; !found; ++at) {
      if (at == order.size()) return invalid(format("{} is not where $setElementOrder has it", id));
      CADRE_LET(std::string other, identity.of(order[at]));
      found = id == other;
    }
  }
  return {};
}

Result<> deleteFromList(Value* list, const Value& unwanted) {
  if (!unwanted.isArray()) return invalid("it is not a list");
  if (!list || !list->isArray()) return {};
  Identity identity("");
  CADRE_LET(auto gone, identity.positions(unwanted.array()));
  std::erase_if(list->makeArray(), [&](const Value& one) {
    return !one.isObject() && !one.isArray() && gone.contains(json::write(one));
  });
  return {};
}

// --- objects

Result<> retainKeys(Object& object, const Object& patch) {
  const Value* names = patch.find(kRetainKeys);
  if (!names) return {};
  if (!names->isArray()) return invalid("$retainKeys is not a list");
  std::vector<std::string_view> kept;
  for (const Value& name : names->array()) kept.push_back(name.string());
  std::ranges::sort(kept);
  auto isKept = [&](std::string_view key) { return std::ranges::binary_search(kept, key); };
  for (const auto& [key, value] : patch)
    if (!value.isNull() && !isDirective(key) && !isKept(key))
      return invalid(format("the patch has {}, which is not in its $retainKeys", inQuotes(key)));
  std::vector<Object::Member> rest;
  for (auto& [key, value] : object)
    if (isKept(key)) rest.emplace_back(key, std::move(value));
  object = Object::fromSorted(std::move(rest));
  return {};
}

// What a member was and what the patch has for it, where both are objects or both are lists.
Result<Value> mergeInto(const std::optional<Field>& field, Value current, const Value& change) {
  if (current.isArray()) {
    if (!field || !field->patchMerges()) return replacement(change);
    CADRE_LET(Array merged, mergeList(*field, std::move(current.makeArray()), change.array()));
    return Value(std::move(merged));
  }
  if (!field) return json::applyMergePatch(std::move(current), change);
  if (field->patchReplaces()) return replacement(change);
  return mergeObject(field->type(), std::move(current), change);
}

// What comes of a member and what the patch has for it; nothing where it goes.
Result<std::optional<Value>> mergeMember(const std::optional<Field>& field, Value* current,
                                         const Value& change) {
  bool both = current && ((current->isObject() && change.isObject()) ||
                          (current->isArray() && change.isArray()));
  if (!both) return change.isNull() ? std::nullopt : plain(change, Directed::Drop);
  CADRE_LET(Value merged, mergeInto(field, std::move(*current), change));
  return std::optional(std::move(merged));
}

// The same for a list with an order.
Result<std::optional<Value>> mergeOrdered(const std::optional<Field>& field, Value* current,
                                          const Value& change, const Value& order) {
  if (!order.isArray()) return invalid("its $setElementOrder is not a list");
  Array live = current ? current->array() : Array();
  CADRE_LET(auto merged, mergeMember(field, current, change));
  if (!merged || !merged->isArray() || !field || !field->patchMerges()) return merged;
  Identity identity(field->patchMergeKey());
  CADRE_TRY(checkOrder(change.array(), order.array(), identity));
  CADRE_LET(*merged, inOrder(std::move(merged->makeArray()), order.array(), live, identity));
  return merged;
}

// The members of a patch that direct what becomes of lists which it does not change otherwise.
Result<> followDirectives(Type type, Object& object, const Object& patch) {
  for (const auto& [key, value] : patch) {
    std::string_view name = std::string_view(key).substr(key.find('/') + 1);
    Value* list = object.find(name);
    Result<> done;
    if (key.starts_with(kDeleteFromList)) {
      done = deleteFromList(list, value);
    } else if (key.starts_with(kSetOrder) && !patch.contains(name)) {
      auto ordered = mergeOrdered(type.field(name), list, Array(), value);
      if (!ordered)
        done = std::move(ordered).error();
      else if (list && *ordered)
        *list = **std::move(ordered);
    }
    if (!done) return std::move(done).error().context(key);
  }
  return {};
}

// In the order of the keys on both sides, so that it takes no longer than both are.
Result<> mergeMembers(Type type, Object& object, const Object& patch) {
  CADRE_TRY(retainKeys(object, patch));
  CADRE_TRY(followDirectives(type, object, patch));
  std::vector<Object::Member> merged;
  auto kept = object.begin();
  for (const auto& [key, change] : patch) {
    if (isDirective(key)) continue;
    for (; kept != object.end() && kept->first < key; ++kept) merged.push_back(std::move(*kept));
    Value* current = kept != object.end() && kept->first == key ? &(kept++)->second : nullptr;
    const Value* order = patch.find(std::string(kSetOrder) + key);
    auto field = type.field(key);
    auto value =
        order ? mergeOrdered(field, current, change, *order) : mergeMember(field, current, change);
    if (!value) return std::move(value).error().context(key);
    if (*value) merged.emplace_back(key, **std::move(value));
  }
  for (; kept != object.end(); ++kept) merged.push_back(std::move(*kept));
  object = Object::fromSorted(std::move(merged));
  return {};
}

Result<Value> mergeObject(Type type, Value current, const Value& patch) {
  if (const Value* directive = patch.object().find(kPatch)) {
    if (*directive == Value("replace")) return replacement(patch);
    if (*directive == Value("delete")) return Value(Object());
    return badDirective(*directive);
  }
  CADRE_TRY(mergeMembers(type, current.makeObject(), patch.object()));
  return current;
}

}  // namespace

Result<Value> strategicMerge(Type type, Value current, const Value& patch) {
  if (!type) return json::applyMergePatch(std::move(current), patch);
  if (!patch.isObject()) return invalid("a strategic merge patch is an object");
  return mergeObject(type, std::move(current), patch);
}

}  // namespace cadre::kube
