#include "hub/json_path.h"

#include <algorithm>

#include "base/format.h"
#include "base/strings.h"
#include "json/parse.h"

namespace cadre::hub {

namespace {

constexpr std::size_t kMaxSteps = 64;

Error problem(std::string_view text, std::string_view what) {
  return {.code = Code::InvalidArgument, .message = format("the path {} {}", text, what)};
}

}  // namespace

class JsonPath::Parser {
 public:
  explicit Parser(std::string_view text) : whole_(text), rest_(text) {}

  Result<JsonPath> parse() {
    JsonPath path;
    while (!rest_.empty()) {
      if (path.steps_.size() >= kMaxSteps) return problem(whole_, "has too many steps");
      if (accept('.')) {
        if (rest_.empty()) break;  // "." is the object itself
        if (rest_.front() == '.') return problem(whole_, "looks for a field at any depth");
        if (rest_.front() == '[') continue;
        std::string name = field();
        if (name == "*")
          path.steps_.emplace_back(All{});
        else
          path.steps_.emplace_back(Field{std::move(name)});
        continue;
      }
      if (!accept('[')) return problem(whole_, "has something between its steps");
      CADRE_LET(Step step, bracket());
      path.steps_.push_back(std::move(step));
    }
    return path;
  }

 private:
  bool accept(char c) {
    bool found = !rest_.empty() && rest_.front() == c;
    if (found) rest_.remove_prefix(1);
    return found;
  }

  // Up to a character that ends it; \ keeps the next one as it is.
  std::string until(std::string_view ends) {
    std::string out;
    while (!rest_.empty() && ends.find(rest_.front()) == std::string_view::npos) {
      if (rest_.front() == '\\' && rest_.size() > 1) rest_.remove_prefix(1);
      out += rest_.front();
      rest_.remove_prefix(1);
    }
    return out;
  }
  std::string field() { return until(".["); }

  Result<Step> bracket() {
    if (accept('?')) return filter();
    for (char quote : {'\'', '"'})
      if (accept(quote)) {
        std::string name = until(std::string_view(&quote, 1));
        if (!accept(quote) || !accept(']')) return problem(whole_, "has a key without its end");
        return Step(Field{std::move(name)});
      }
    std::string inner = until("]");
    if (!accept(']')) return problem(whole_, "has a [ without its ]");
    if (inner == "*") return Step(All{});
    auto [from, to] = cut(inner, ":");
    bool single = inner.find(':') == std::string::npos;
    Range range{.single = single};
    if (!from.empty() || single) {
      auto number = parseInt(from);
      if (!number) return problem(whole_, "has a position that is no number");
      range.from = *number;
    }
    if (!to.empty()) {
      range.to = parseInt(to);
      if (!range.to) return problem(whole_, "has a position that is no number");
    }
    return Step(range);
  }

  Result<Step> filter() {
    std::size_t end = rest_.find(")]");
    if (!accept('(') || end == std::string_view::npos)
      return problem(whole_, "has a filter without its end");
    std::string_view inner = trim(rest_.substr(0, end - 1));
    rest_.remove_prefix(end + 1);
    Filter filter;
    std::size_t at = inner.find_first_of("=!<>");
    std::string_view left = trim(inner.substr(0, at));
    if (!left.starts_with("@.")) return problem(whole_, "has a filter that does not begin with @.");
    for (std::string_view name : split(left.substr(2), '.')) filter.path.emplace_back(name);
    if (at == std::string_view::npos) return Step(std::move(filter));
    std::size_t after = inner.find_first_not_of("=!<>", at);
    if (after == std::string_view::npos) return problem(whole_, "compares with nothing");
    filter.compare = inner.substr(at, after - at);
    static constexpr std::string_view kCompare[] = {"==", "!=", "<", ">", "<=", ">="};
    if (std::ranges::find(kCompare, filter.compare) == std::end(kCompare))
      return problem(whole_, "compares in a way that is not known here");
    std::string literal(trim(inner.substr(after)));
    if (literal.size() > 1 && literal.front() == '\'' && literal.back() == '\'') {
      filter.with = literal.substr(1, literal.size() - 2);
      return Step(std::move(filter));
    }
    auto value = json::parse(literal);
    if (!value) return problem(whole_, "compares with something that is not known here");
    filter.with = *std::move(value);
    return Step(std::move(filter));
  }

  std::string_view whole_, rest_;
};

Result<JsonPath> JsonPath::parse(std::string_view text) { return Parser(text).parse(); }

bool JsonPath::matches(const Filter& filter, const json::Value& value) {
  const json::Value* at = &value;
  for (const std::string& name : filter.path) {
    at = at->object().find(name);
    if (!at) return false;
  }
  if (filter.compare.empty()) return true;
  if (filter.compare == "==") return *at == filter.with;
  if (filter.compare == "!=") return !(*at == filter.with);
  int order = 0;
  if (at->isNumber() && filter.with.isNumber())
    order = at->number() < filter.with.number() ? -1 : at->number() > filter.with.number();
  else if (at->isString() && filter.with.isString())
    order = at->string().compare(filter.with.string());
  else
    return false;
  if (filter.compare.starts_with('<')) return order < 0 || (order == 0 && filter.compare == "<=");
  return order > 0 || (order == 0 && filter.compare == ">=");
}

std::vector<const json::Value*> JsonPath::find(const json::Value& object) const {
  std::vector<const json::Value*> now{&object}, then;
  for (const Step& step : steps_) {
    then.clear();
    for (const json::Value* value : now) {
      const json::Array& list = value->array();
      if (const auto* field = std::get_if<Field>(&step)) {
        if (const json::Value* member = value->object().find(field->name)) then.push_back(member);
      } else if (const auto* range = std::get_if<Range>(&step)) {
        auto size = static_cast<std::int64_t>(list.size());
        auto place = [&](std::int64_t at) { return at < 0 ? at + size : at; };
        std::int64_t from = place(range->from);
        std::int64_t to = range->single ? from + 1 : range->to ? place(*range->to) : size;
        if (from < 0 || to > size) continue;
        for (std::int64_t i = from; i < to; ++i) then.push_back(&list[static_cast<std::size_t>(i)]);
      } else if (std::holds_alternative<All>(step)) {
        for (const json::Value& item : list) then.push_back(&item);
        for (const auto& [key, member] : value->object()) then.push_back(&member);
      } else {
        for (const json::Value& item : list)
          if (matches(std::get<Filter>(step), item)) then.push_back(&item);
      }
    }
    now.swap(then);
  }
  return now;
}

}  // namespace cadre::hub
