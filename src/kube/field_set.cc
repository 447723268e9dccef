#include "kube/field_set.h"

#include <algorithm>
#include <charconv>

#include "base/format.h"
#include "base/strings.h"
#include "json/parse.h"
#include "json/write.h"

namespace cadre::kube {

namespace {

using json::Value;

constexpr std::size_t kMaxDepth = 128;  // that of JSON
constexpr json::Limits kStepLimits{.bytes = 1u << 20, .depth = 16, .values = 1000};

Error malformed(std::string_view step, std::string_view what) {
  return {.code = Code::InvalidArgument,
          .message = format("{} is no step in FieldsV1: {}", shorten(step, 100), what)};
}

// Numbers, then texts, booleans, lists, maps, null.
int rank(const Value& value) {
  if (value.isNumber()) return 0;
  if (value.isString()) return 1;
  if (value.isBool()) return 2;
  if (value.isArray()) return 3;
  return value.isObject() ? 4 : 5;
}

std::weak_ordering compareNumbers(const Value& a, const Value& b) {
  if (a.isInteger() && b.isInteger()) return a.integer() <=> b.integer();
  // Exact for 64-bit integers too, where a double would not be.
  auto wide = [](const Value& value) {
    return value.isInteger() ? static_cast<long double>(value.integer())
                             : static_cast<long double>(value.number());
  };
  long double x = wide(a), y = wide(b);
  return x < y   ? std::weak_ordering::less
         : x > y ? std::weak_ordering::greater
                 : std::weak_ordering::equivalent;
}

std::weak_ordering compareValues(const Value& a, const Value& b) {
  if (auto order = rank(a) <=> rank(b); order != 0) return order;
  switch (rank(a)) {
    case 0:
      return compareNumbers(a, b);
    case 1:
      return a.string() <=> b.string();
    case 2:
      return a.boolean() <=> b.boolean();
    default:
      // Nothing that a key could be: any order will do.
      return json::write(a) <=> json::write(b);
  }
}

std::weak_ordering compareKeys(const json::Object& a, const json::Object& b) {
  auto x = a.begin(), y = b.begin();
  for (; x != a.end() && y != b.end(); ++x, ++y) {
    if (auto order = x->first <=> y->first; order != 0) return order;
    if (auto order = compareValues(x->second, y->second); order != 0) return order;
  }
  return a.size() <=> b.size();
}

// As Go quotes text.
std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    static constexpr std::string_view kNamed = "\a\b\f\n\r\t\v";
    if (auto at = kNamed.find(c); at != kNamed.npos) {
      out += {'\\', "abfnrtv"[at]};
    } else if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string shown(const Value& value) {
  return value.isString() ? quoted(value.string()) : json::write(value);
}

Result<FieldSet> parseFields(const Value& fields, std::size_t depth) {
  if (depth == 0)
    return Error{.code = Code::ResourceExhausted,
                 .message = format("FieldsV1 is deeper than {} steps", kMaxDepth)};
  FieldSet out;
  if (!fields.isObject() && !fields.isNull())
    return Error{.code = Code::InvalidArgument,
                 .message = format("FieldsV1 has {} where an object belongs", fields.typeName())};
  std::vector<FieldSet::Below> all;
  for (const auto& [key, value] : fields.object()) {
    if (key == ".") {
      out.own();
      continue;
    }
    CADRE_LET(auto step, Step::parse(key));
    if (!step) continue;
    CADRE_LET(FieldSet below, parseFields(value, depth - 1));
    all.emplace_back(*std::move(step), std::move(below));
  }
  if (all.empty()) out.own();
  // Not in the order of their texts: 10 comes after 9.
  std::ranges::sort(all, std::less<>(), &FieldSet::Below::first);
  for (auto& [step, below] : all) out.insert(std::move(step), std::move(below));
  return out;
}

}  // namespace

Result<std::optional<Step>> Step::parse(std::string_view text) {
  if (text.size() < 2) return malformed(text, "it is too short");
  if (text[1] != ':') return malformed(text, "it has no colon");
  std::string_view rest = text.substr(2);
  switch (text[0]) {
    case 'f':
      return std::optional(field(rest));
    case 'i':
      if (auto index = parseInt(rest)) return std::optional(Step{By::Index, *index});
      return malformed(text, "its position is no number");
    case 'k':
    case 'v': {
      auto value = json::parse(rest, kStepLimits);
      if (!value) return malformed(text, value.error().message);
      if (text[0] == 'v') return std::optional(Step{By::Value, *std::move(value)});
      if (!value->isObject()) return malformed(text, "its key is no object");
      return std::optional(Step{By::Key, *std::move(value)});
    }
    default:
      return std::optional<Step>();
  }
}

std::string Step::text() const {
  switch (by) {
    case By::Field:
      return "f:" + value.string();
    case By::Key:
      return "k:" + json::write(value);
    case By::Value:
      return "v:" + json::write(value);
    case By::Index:
      break;
  }
  return "i:" + json::write(value);
}

std::string Step::pathText() const {
  switch (by) {
    case By::Field:
      return "." + value.string();
    case By::Value:
      return "[=" + shown(value) + "]";
    case By::Index:
      return "[" + json::write(value) + "]";
    case By::Key:
      break;
  }
  std::string out;
  for (const auto& [name, key] : value.object())
    out += format("{}{}={}", out.empty() ? "[" : ",", name, shown(key));
  return out.empty() ? "[]" : out + "]";
}

std::weak_ordering Step::operator<=>(const Step& other) const {
  if (auto order = by <=> other.by; order != 0) return order;
  return by == By::Key ? compareKeys(value.object(), other.value.object())
                       : compareValues(value, other.value);
}

std::string pathText(const FieldPath& path) {
  std::string out;
  for (const Step& step : path) out += step.pathText();
  return out;
}

FieldSet::FieldSet() = default;
FieldSet::~FieldSet() = default;
FieldSet::FieldSet(const FieldSet&) = default;
FieldSet::FieldSet(FieldSet&&) noexcept = default;
FieldSet& FieldSet::operator=(const FieldSet&) = default;
FieldSet& FieldSet::operator=(FieldSet&&) noexcept = default;

FieldSet FieldSet::ofFields(std::initializer_list<std::string_view> paths) {
  FieldSet out;
  for (std::string_view path : paths) {
    FieldSet* at = &out;
    for (std::string_view name : split(path, '.')) at = &at->at(Step::field(name));
    at->own();
  }
  return out;
}

Result<FieldSet> FieldSet::parse(const Value& fields_v1) {
  CADRE_LET(FieldSet out, parseFields(fields_v1, kMaxDepth));
  out.own(false);
  return out;
}

Value FieldSet::fieldsV1() const {
  std::vector<json::Object::Member> members;
  members.reserve(below_.size() + 1);
  if (owned_ && !below_.empty()) members.emplace_back(".", json::Object());
  for (const auto& [step, set] : below_) members.emplace_back(step.text(), set.fieldsV1());
  return json::Object(std::move(members));
}

std::vector<FieldSet::Below>::const_iterator FieldSet::place(const Step& step) const {
  if (below_.empty() || below_.back().first < step) return below_.end();  // they come in order
  return std::ranges::lower_bound(below_, step, std::less<>(), &Below::first);
}

const FieldSet* FieldSet::find(const Step& step) const {
  auto found = place(step);
  return found != below_.end() && found->first == step ? &found->second : nullptr;
}

FieldSet& FieldSet::at(Step step) {
  auto found = below_.begin() + (place(step) - below_.begin());
  if (found == below_.end() || found->first != step)
    found = below_.emplace(found, std::move(step), FieldSet());
  return found->second;
}

void FieldSet::insert(Step step, FieldSet set) {
  if (set.empty()) return;
  FieldSet& there = at(std::move(step));
  if (there.empty())
    there = std::move(set);
  else
    there.add(set);
}

namespace {

// Goes through two sorted lists side by side, with null for what only the other has.
template <class Each>
void sideBySide(const std::vector<FieldSet::Below>& left, const std::vector<FieldSet::Below>& right,
                Each each) {
  auto l = left.begin(), r = right.begin();
  while (l != left.end() || r != right.end()) {
    std::weak_ordering order = l == left.end()    ? std::weak_ordering::greater
                               : r == right.end() ? std::weak_ordering::less
                                                  : l->first <=> r->first;
    const Step& step = order <= 0 ? l->first : r->first;
    each(step, order <= 0 ? &(l++)->second : nullptr, order >= 0 ? &(r++)->second : nullptr);
  }
}

}  // namespace

// Sets are as large as their makers like: each of these goes through both once.

void FieldSet::add(const FieldSet& other) {
  owned_ |= other.owned_;
  std::vector<Below> all;
  all.reserve(below_.size() + other.below_.size());
  auto ours = below_.begin();
  for (const auto& [step, theirs] : other.below_) {
    while (ours != below_.end() && ours->first < step) all.push_back(std::move(*ours++));
    if (ours == below_.end() || ours->first != step) {
      all.emplace_back(step, theirs);
    } else {
      ours->second.add(theirs);
      all.push_back(std::move(*ours++));
    }
  }
  std::move(ours, below_.end(), std::back_inserter(all));
  below_ = std::move(all);
}

void FieldSet::remove(const FieldSet& other, Take take) {
  if (other.owned_ && take == Take::Each) owned_ = false;
  auto theirs = other.below_.begin();
  auto kept = below_.begin();
  for (Below& ours : below_) {
    while (theirs != other.below_.end() && theirs->first < ours.first) ++theirs;
    if (theirs != other.below_.end() && theirs->first == ours.first) {
      if (theirs->second.owned_ && take == Take::WithAllBelow) continue;
      ours.second.remove(theirs->second, take);
      if (ours.second.empty()) continue;
    }
    if (&*kept != &ours) *kept = std::move(ours);
    ++kept;
  }
  below_.erase(kept, below_.end());
}

FieldSet operator|(FieldSet set, const FieldSet& other) {
  set.add(other);
  return set;
}

FieldSet FieldSet::operator&(const FieldSet& other) const {
  FieldSet out;
  out.owned_ = owned_ && other.owned_;
  sideBySide(below_, other.below_, [&](const Step& step, auto* ours, auto* theirs) {
    if (!ours || !theirs) return;
    if (FieldSet both = *ours & *theirs; !both.empty())
      out.below_.emplace_back(step, std::move(both));
  });
  return out;
}

FieldSet operator-(FieldSet set, const FieldSet& other) {
  set.remove(other, FieldSet::Take::Each);
  return set;
}

FieldSet without(FieldSet set, const FieldSet& other) {
  set.remove(other, FieldSet::Take::WithAllBelow);
  return set;
}

void FieldSet::each(FieldPath& path, const Function<void(const FieldPath&)>& visit) const {
  for (const auto& [step, set] : below_) {
    if (!set.owned_) continue;
    path.push_back(step);
    visit(path);
    path.pop_back();
  }
  for (const auto& [step, set] : below_) {
    path.push_back(step);
    set.each(path, visit);
    path.pop_back();
  }
}

void FieldSet::each(const Function<void(const FieldPath&)>& visit) const {
  FieldPath path;
  each(path, visit);
}

bool FieldSet::operator==(const FieldSet& other) const {
  return owned_ == other.owned_ && below_ == other.below_;
}

}  // namespace cadre::kube
