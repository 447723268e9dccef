#include "kube/typed.h"

#include <deque>
#include <map>
#include <set>

#include "base/format.h"
#include "base/strings.h"
#include "json/write.h"

namespace cadre::kube {

namespace {

using json::Array;
using json::Object;
using json::Value;
using As = Shape::As;

const Value kNull;

// What a value is taken for. Undecided: it could be anything, and the value does not tell.
enum class Taken { Scalar, List, Map, Undecided };

Taken take(const Shape& shape, const Value* value) {
  bool scalar = shape.allows(As::Scalar), list = shape.allows(As::List);
  if (!scalar || !list) return scalar ? Taken::Scalar : list ? Taken::List : Taken::Map;
  if (!value || value->isNull()) return Taken::Undecided;
  return value->isArray() ? Taken::List : value->isObject() ? Taken::Map : Taken::Scalar;
}

Shape memberOf(const Shape& map, std::string_view name) {
  return map.member(name).value_or(Shape());
}

bool has(const Value* value, As form) {
  return value && (form == As::List ? value->isArray() : value->isObject());
}

// Nothing in it; also when it is something else altogether.
bool isEmpty(const Value* value, As form) {
  if (!has(value, form)) return true;
  return form == As::List ? value->array().empty() : value->object().empty();
}

// --- list items

// What tells items of one list apart, looked up once for all of them.
class Items {
 public:
  explicit Items(const Shape& list) : keys_(list.keys()) {}

  Result<Step> step(const Value& item) const { return keys_.empty() ? ofSet(item) : ofKeys(item); }

 private:
  static Error refuse(std::string_view why) {
    return {.code = Code::Internal, .message = std::string(why)};
  }

  static Result<Step> ofSet(const Value& item) {
    if (item.isObject())
      return refuse("associative list without keys has an element that's a map type");
    if (item.isArray()) return refuse("not supported: associative list with lists as elements");
    if (item.isNull())
      return refuse("associative list without keys has an element that's an explicit null");
    return Step{Step::By::Value, item};
  }

  Result<Step> ofKeys(const Value& item) const {
    if (item.isNull()) return refuse("associative list with keys may not have a null element");
    if (!item.isObject()) return refuse("associative list with keys may not have non-map elements");
    Object out;
    for (const Shape::Key& key : keys_) {
      if (const Value* value = item.object().find(key.name))
        out.set(key.name, *value);
      else if (key.otherwise)
        out.set(key.name, *key.otherwise);
    }
    if (!out.empty()) return Step{Step::By::Key, std::move(out)};
    std::vector<std::string> names;
    names.reserve(keys_.size());
    for (const Shape::Key& key : keys_) names.push_back(format("\"{}\"", key.name));
    return refuse(
        format("associative list with keys has an element that omits all key fields [{}] (and "
               "doesn't have default values for any key fields)",
               join(names, " ")));
  }

  std::vector<Shape::Key> keys_;
};

// --- whether a value has its shape

class Checker {
 public:
  explicit Checker(Duplicates duplicates) : duplicates_(duplicates) {}

  void check(const Shape& shape, const Value& value) {
    if (problems_.size() >= kMaxProblems) return;
    switch (take(shape, &value)) {
      case Taken::Scalar:
        return scalar(shape.scalar(), value);
      case Taken::List:
        if (value.isArray()) return list(shape, value.array());
        break;
      case Taken::Map:
        if (value.isObject()) return map(shape, value.object());
        break;
      case Taken::Undecided:
        return;
    }
    if (!value.isNull())
      problem(format("expected {}, got &{{{}}}", shape.allows(As::List) ? "list" : "map",
                     goText(value)));
  }

  Result<> result() && {
    if (problems_.empty()) return {};
    std::string text = problems_.front();
    if (problems_.size() > 1) text = "errors:\n  " + join(problems_, "\n  ");
    return Error{.code = Code::Internal, .message = std::move(text)};
  }

 private:
  static constexpr std::size_t kMaxProblems = 100;

  void problem(std::string_view what) {
    problems_.push_back(path_.empty() ? std::string(what) : path_ + ": " + std::string(what));
  }

  // As Go prints values, with %v and %#v.
  static std::string goText(const Value& value) {
    if (value.isString()) return value.string();
    if (value.isNull()) return "<nil>";
    std::string out;
    if (value.isArray()) {
      for (const Value& item : value.array()) out += (out.empty() ? "" : " ") + goText(item);
      return "[" + out + "]";
    }
    if (!value.isObject()) return json::write(value);
    for (const auto& [key, member] : value.object())
      out += (out.empty() ? "" : " ") + key + ":" + goText(member);
    return "map[" + out + "]";
  }
  static std::string goSyntax(const Value& value) {
    if (value.isNull()) return "interface {}(nil)";
    std::string out;
    if (value.isArray()) {
      for (const Value& item : value.array()) out += (out.empty() ? "" : ", ") + goSyntax(item);
      return "[]interface {}{" + out + "}";
    }
    if (!value.isObject()) return json::write(value);
    for (const auto& [key, member] : value.object())
      out += (out.empty() ? "" : ", ") + json::write(key) + ":" + goSyntax(member);
    return "map[string]interface {}{" + out + "}";
  }
  static std::string_view goType(const Value& value) {
    if (value.isString()) return "string";
    if (value.isBool()) return "bool";
    return value.isArray() ? "[]interface {}" : "map[string]interface {}";
  }

  void scalar(Shape::Scalar scalar, const Value& value) {
    if (value.isNull()) return;
    bool one = !value.isArray() && !value.isObject();
    if (scalar == Shape::Scalar::Text && !value.isString())
      problem(format("expected string, got &value.valueUnstructured{{Value:{}}}", goSyntax(value)));
    else if (scalar == Shape::Scalar::Number && !value.isNumber())
      problem(format("expected numeric (int or float), got {}", goType(value)));
    else if (scalar == Shape::Scalar::Boolean && !value.isBool())
      problem(format("expected boolean, got &{{{}}}", goText(value)));
    else if (!one)
      problem(format("expected any scalar, got &{{{}}}", goText(value)));
  }

  void list(const Shape& shape, const Array& items) {
    Shape item = shape.item();
    if (shape.isAtomic(As::List)) {
      for (std::size_t i = 0; i < items.size(); ++i)
        within(format("[{}]", i), [&] { check(item, items[i]); });
      return;
    }
    Items keys(shape);
    std::set<Step> seen;
    for (std::size_t i = 0; i < items.size(); ++i) {
      auto step = keys.step(items[i]);
      if (!step) return problem(format("element {}: {}", i, step.error().message));
      std::string path = step->pathText();
      if (!seen.insert(*std::move(step)).second && duplicates_ == Duplicates::Refuse)
        problem(format("duplicate entries for key {}", path));
      within(path, [&] { check(item, items[i]); });
    }
  }

  void map(const Shape& shape, const Object& members) {
    for (const auto& [name, value] : members)
      within(".", name, [&] {
        if (auto member = shape.member(name))
          check(*member, value);
        else
          problem("field not declared in schema");
      });
  }

  template <class Inside>
  void within(std::string_view step, Inside inside) {
    within(step, "", inside);
  }
  template <class Inside>
  void within(std::string_view step, std::string_view name, Inside inside) {
    std::size_t length = path_.size();
    path_.append(step).append(name);
    inside();
    path_.resize(length);
  }

  Duplicates duplicates_;
  std::string path_;
  std::vector<std::string> problems_;
};

// --- the fields of a value

void collect(const Shape& shape, const Value& value, FieldSet& out) {
  Taken taken = take(shape, &value);
  As form = taken == Taken::Scalar ? As::Scalar : taken == Taken::List ? As::List : As::Map;
  if (form == As::Scalar || shape.isAtomic(form)) return out.own();
  if (form == As::Map) {
    for (const auto& [name, member] : value.object()) {
      FieldSet below;
      collect(memberOf(shape, name), member, below);
      bool bare = member.isNull() || (member.isObject() && member.object().empty());
      if (bare || !shape.names(name)) below.own();
      out.insert(Step::field(name), std::move(below));
    }
    return;
  }
  Items items(shape);
  std::map<Step, const Value*> once;  // null: it is there several times, and owned as one
  for (const Value& item : value.array()) {
    auto step = items.step(item);
    if (!step) continue;
    auto [place, is_new] = once.emplace(*std::move(step), &item);
    if (!is_new) place->second = nullptr;
  }
  for (const auto& [step, item] : once) {
    FieldSet below;
    if (item) collect(shape.item(), *item, below);
    below.own();
    out.insert(step, std::move(below));
  }
}

// --- the difference between two values, of which one may be absent

class Comparer {
 public:
  // Null: absent.
  static Comparison compare(const Shape& shape, const Value* before, const Value* after) {
    if (before && after && *before == *after) return {};
    Comparer one{before, after, {}};
    bool leaf = false;
    Taken was = take(shape, before), is = take(shape, after);
    if (!after) {
      leaf = one.as(was, shape);
    } else {
      // What has become something else is compared as both: its old members go, its new ones come.
      if (before && was != is) one.as(was, shape);
      leaf = one.as(is, shape);
    }
    if (!leaf && !before) one.out_.added.own();
    if (!leaf && !after) one.out_.removed.own();
    return std::move(one.out_);
  }

 private:
  Comparer(const Value* before, const Value* after, Comparison out)
      : before_(before), after_(after), out_(std::move(out)) {}

  // Whether it is one thing, without members.
  bool as(Taken taken, const Shape& shape) {
    As form = taken == Taken::List ? As::List : As::Map;
    // Two that are empty are one thing too, so that {} and null are told apart.
    if (taken == Taken::Scalar || shape.isAtomic(form) ||
        (isEmpty(before_, form) && isEmpty(after_, form))) {
      if (!before_)
        out_.added.own();
      else if (!after_)
        out_.removed.own();
      else if (*before_ != *after_)
        out_.modified.own();
      return true;
    }
    if (form == As::List)
      lists(shape);
    else
      maps(shape);
    return false;
  }

  void inside(const Step& step, const Shape& shape, const Value* before, const Value* after) {
    Comparison below = compare(shape, before, after);
    out_.removed.insert(step, std::move(below.removed));
    out_.modified.insert(step, std::move(below.modified));
    out_.added.insert(step, std::move(below.added));
  }

  void maps(const Shape& shape) {
    const Object& before = before_ ? before_->object() : kNull.object();
    const Object& after = after_ ? after_->object() : kNull.object();
    for (const auto& [name, value] : before)
      inside(Step::field(name), memberOf(shape, name), &value, after.find(name));
    for (const auto& [name, value] : after)
      if (!before.contains(name)) inside(Step::field(name), memberOf(shape, name), nullptr, &value);
  }

  void lists(const Shape& shape) {
    struct Both {
      std::vector<const Value*> before, after;
    };
    Items items(shape);
    std::map<Step, Both> all;
    auto gather = [&](const Value* list, std::vector<const Value*> Both::* side) {
      if (!list) return;
      for (const Value& item : list->array())
        if (auto step = items.step(item)) (all[*std::move(step)].*side).push_back(&item);
    };
    gather(before_, &Both::before);
    gather(after_, &Both::after);
    for (const auto& [step, both] : all) {
      const auto& [before, after] = both;
      if (before.size() <= 1 && after.size() <= 1) {
        inside(step, shape.item(), before.empty() ? nullptr : before[0],
               after.empty() ? nullptr : after[0]);
      } else if (before.size() > 1 && after.size() > 1) {
        // Duplicates are one thing.
        bool same = std::ranges::equal(before, after, [](auto* a, auto* b) { return *a == *b; });
        if (!same) mark(out_.modified, step);
      } else if (before.size() > 1) {
        if (!after.empty()) inside(step, shape.item(), nullptr, after[0]);
        mark(out_.removed, step);
      } else {
        if (!before.empty()) inside(step, shape.item(), before[0], nullptr);
        mark(out_.added, step);
      }
    }
  }

  static void mark(FieldSet& set, const Step& step) { set.at(step).own(); }

  const Value *before_, *after_;
  Comparison out_;
};

// --- merging two values, of which one may be absent

std::optional<Value> mergeValues(const Shape& shape, const Value* live, const Value* wanted);

std::optional<Value> mergeMaps(const Shape& shape, const Value* live, const Value* wanted) {
  const Object& old = live ? live->object() : kNull.object();
  const Object& add = wanted ? wanted->object() : kNull.object();
  std::vector<Object::Member> out;
  out.reserve(old.size() + add.size());
  auto put = [&](const std::string& name, const Value* one, const Value* other) {
    if (auto merged = mergeValues(memberOf(shape, name), one, other))
      out.emplace_back(name, *std::move(merged));
  };
  auto left = old.begin();
  auto right = add.begin();
  while (left != old.end() || right != add.end()) {
    bool takes_left = left != old.end() && (right == add.end() || left->first <= right->first);
    bool takes_right = right != add.end() && (left == old.end() || right->first <= left->first);
    const std::string& name = takes_left ? left->first : right->first;
    put(name, takes_left ? &left->second : nullptr, takes_right ? &right->second : nullptr);
    if (takes_left) ++left;
    if (takes_right) ++right;
  }
  if (out.empty()) return std::nullopt;
  return Value(Object::fromSorted(std::move(out)));
}

// Merges two lists whose items have keys, or are theirs.
class ListMerge {
 public:
  ListMerge(const Shape& shape, const Array& live, const Array& wanted)
      : item_(shape.item()), live_(live) {
    Items items(shape);
    for (const Value& item : wanted)
      if (auto step = items.step(item)) add(wanted_steps_, wanted_items_, *step, item);
    for (const Value& item : live) {
      auto step = items.step(item);
      // Never for an object that was checked before.
      add(live_steps_, live_items_, step ? *step : Step{Step::By::Index, live_steps_.size()}, item);
    }
    for (const Step& step : wanted_steps_)
      if (live_items_.contains(step)) shared_.push_back(&step);
  }

  // Both lists are gone through from their starts. Items that only the live one has stay where they
  // are; those that both have come in the wanted order, and carry new ones along.
  std::optional<Value> run() {
    while (l_ < live_steps_.size() || w_ < wanted_steps_.size()) {
      if (l_ < live_steps_.size() && w_ < wanted_steps_.size()) {
        if (live_steps_[l_] == wanted_steps_[w_]) {
          ++l_;
          takeWanted();
          continue;
        }
        if (isWanted(l_) && !shared_.empty() && *shared_.front() != live_steps_[l_]) {
          ++l_;  // its turn is not now
          continue;
        }
      }
      if (l_ < live_steps_.size()) {
        if (!isWanted(l_)) {
          put(&live_[l_], nullptr);
          ++l_;
          continue;
        }
        if (done_.contains(live_steps_[l_])) ++l_;
      }
      if (w_ < wanted_steps_.size()) takeWanted();
    }
    if (out_.empty()) return std::nullopt;
    return Value(std::move(out_));
  }

 private:
  using Index = std::map<Step, const Value*>;

  // Items of which there are several are not merged with a wanted one, but replaced by it.
  static void add(std::vector<Step>& steps, Index& items, const Step& step, const Value& item) {
    auto [place, is_new] = items.emplace(step, &item);
    if (!is_new) place->second = &kNull;
    steps.push_back(step);
  }
  bool isWanted(std::size_t live) const { return wanted_items_.contains(live_steps_[live]); }
  void takeWanted() {
    const Step& step = wanted_steps_[w_++];
    done_.insert(step);
    auto live = live_items_.find(step);
    put(live == live_items_.end() ? nullptr : live->second, wanted_items_.find(step)->second);
    if (!shared_.empty() && *shared_.front() == step) shared_.pop_front();
  }
  void put(const Value* live, const Value* wanted) {
    if (auto merged = mergeValues(item_, live, wanted)) out_.push_back(*std::move(merged));
  }

  Shape item_;
  const Array& live_;
  std::vector<Step> live_steps_, wanted_steps_;
  Index live_items_, wanted_items_;
  std::deque<const Step*> shared_;  // items of both that are still to come, in the wanted order
  std::set<Step> done_;
  std::size_t l_ = 0, w_ = 0;
  Array out_;
};

std::optional<Value> mergeValues(const Shape& shape, const Value* live, const Value* wanted) {
  Taken taken = take(shape, wanted ? wanted : live);
  As form = taken == Taken::List ? As::List : As::Map;
  if (taken == Taken::Scalar || shape.isAtomic(form) ||
      (isEmpty(live, form) && isEmpty(wanted, form)))
    return wanted ? *wanted : *live;
  if (form == As::Map) return mergeMaps(shape, live, wanted);
  return ListMerge(shape, live ? live->array() : kNull.array(),
                   wanted ? wanted->array() : kNull.array())
      .run();
}

}  // namespace

Result<> conforms(const Shape& shape, const Value& value, Duplicates duplicates) {
  Checker checker(duplicates);
  checker.check(shape, value);
  return std::move(checker).result();
}

FieldSet fieldsOf(const Shape& shape, const Value& object) {
  FieldSet out;
  collect(shape, object, out);
  out.own(false);
  return out;
}

Comparison compare(const Shape& shape, const Value& before, const Value& after) {
  Comparison out = Comparer::compare(shape, &before, &after);
  out.removed.own(false);
  out.modified.own(false);
  out.added.own(false);
  return out;
}

Value merge(const Shape& shape, const Value& live, const Value& wanted) {
  return mergeValues(shape, &live, &wanted).value_or(Value());
}

Value without(const Shape& shape, const Value& value, const FieldSet& gone) {
  Taken taken = take(shape, &value);
  if (taken == Taken::Scalar) return value;
  As form = taken == Taken::List ? As::List : As::Map;
  if (shape.isAtomic(form) || isEmpty(&value, form)) return {};
  if (form == As::List) {
    Items items(shape);
    Array out;
    for (const Value& item : value.array()) {
      auto step = items.step(item);
      const FieldSet* below = step ? gone.find(*step) : nullptr;
      if (below && below->owned()) continue;
      out.push_back(below ? without(shape.item(), item, *below) : item);
    }
    return out.empty() ? Value() : Value(std::move(out));
  }
  std::vector<Object::Member> out;
  for (const auto& [name, member] : value.object()) {
    const FieldSet* below = gone.find(Step::field(name));
    if (below && below->owned()) continue;
    out.emplace_back(name, below ? without(memberOf(shape, name), member, *below) : member);
  }
  return out.empty() ? Value() : Value(Object::fromSorted(std::move(out)));
}

FieldSet withFieldsOnTheWay(const Shape& shape, const FieldSet& set) {
  FieldSet out;
  out.own(set.owned());
  bool map = shape.allows(As::Map);
  for (const auto& [step, below] : set.below()) {
    bool field = step.by == Step::By::Field && map;
    Shape inner;
    if (field) inner = memberOf(shape, step.value.string());
    if (step.by == Step::By::Key && shape.allows(As::List)) inner = shape.item();
    FieldSet more = withFieldsOnTheWay(inner, below);
    if (field && shape.names(step.value.string()) && !below.below().empty()) more.own();
    out.insert(step, std::move(more));
  }
  return out;
}

FieldSet reconciled(const Shape& shape, FieldSet set) {
  if (set.below().empty()) return set;
  Taken taken = take(shape, nullptr);
  if (taken == Taken::Scalar || (taken != Taken::List && shape.isUndescribedMap())) return set;
  if (shape.isAtomic(taken == Taken::List ? As::List : As::Map)) {
    FieldSet whole;
    whole.own();
    return whole;
  }
  FieldSet out;
  out.own(set.owned());
  for (const auto& [step, below] : set.below()) {
    std::optional<Shape> inner;
    if (taken == Taken::List)
      inner = shape.item();
    else if (step.by == Step::By::Field)
      inner = shape.member(step.value.string());
    out.insert(step, inner ? reconciled(*inner, below) : below);
  }
  return out;
}

}  // namespace cadre::kube
