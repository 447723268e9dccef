#include "kube/selector.h"

#include <algorithm>

#include "base/format.h"
#include "base/strings.h"
#include "json/write.h"
#include "kube/names.h"

namespace cadre::kube {

namespace {

using Operator = LabelSelector::Operator;
using Requirement = LabelSelector::Requirement;

Error invalid(std::string message) {
  return Error{.code = Code::InvalidArgument, .message = std::move(message)};
}

void sortValues(std::vector<std::string>& values) {
  std::ranges::sort(values);
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

// What is wrong with a requirement of any origin; nothing when it is right.
NameProblem findProblem(const Requirement& requirement) {
  if (auto problem = checkLabelKey(requirement.key)) return problem;
  for (const std::string& value : requirement.values)
    if (auto problem = checkLabelValue(value)) return problem;
  bool compares = requirement.op == Operator::GreaterThan || requirement.op == Operator::LessThan;
  if (compares && !parseInt(requirement.values.front()))
    return format("{} is not a whole number, which > and < need",
                  inQuotes(requirement.values.front()));
  return std::nullopt;
}

enum class Token {
  End,
  Word,
  Equals,
  DoubleEquals,
  NotEquals,
  Not,
  Greater,
  Less,
  Open,
  Close,
  Comma
};

bool isBlank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }
bool isSymbol(char c) { return std::string_view("=!(),<>").find(c) != std::string_view::npos; }

// Reads the text form. One token is looked at ahead.
class LabelParser {
 public:
  explicit LabelParser(std::string_view text) : text_(text) { advance(); }

  Result<std::vector<Requirement>> parse() {
    std::vector<Requirement> out;
    if (token_ == Token::End) return out;
    for (;;) {
      CADRE_LET(Requirement requirement, parseRequirement());
      out.push_back(std::move(requirement));
      if (token_ == Token::End) return out;
      if (token_ != Token::Comma) return unexpected("a comma or the end");
      advance();
    }
  }

 private:
  Result<Requirement> parseRequirement() {
    Requirement requirement;
    bool negated = token_ == Token::Not;
    if (negated) advance();
    if (token_ != Token::Word) return unexpected(negated ? "a label key" : "a label key or !");
    std::size_t start = start_;
    requirement.key = word_;
    advance();
    if (negated) {
      requirement.op = Operator::DoesNotExist;
    } else if (token_ != Token::End && token_ != Token::Comma) {
      CADRE_TRY(parseComparison(requirement));
    }
    sortValues(requirement.values);
    if (auto problem = findProblem(requirement)) return at(start, *problem);
    return requirement;
  }

  Result<> parseComparison(Requirement& requirement) {
    bool is_set = token_ == Token::Word && (word_ == "in" || word_ == "notin");
    if (is_set) {
      requirement.op = word_ == "in" ? Operator::In : Operator::NotIn;
      advance();
      return parseSet(requirement.values);
    }
    switch (token_) {
      case Token::Equals:
      case Token::DoubleEquals:
        requirement.op = Operator::Equals;
        break;
      case Token::NotEquals:
        requirement.op = Operator::NotEquals;
        break;
      case Token::Greater:
        requirement.op = Operator::GreaterThan;
        break;
      case Token::Less:
        requirement.op = Operator::LessThan;
        break;
      default:
        return unexpected("=, ==, !=, in, notin, > or <");
    }
    advance();
    if (token_ == Token::End || token_ == Token::Comma) {
      requirement.values.emplace_back();
      return {};
    }
    if (token_ != Token::Word) return unexpected("a label value");
    requirement.values.emplace_back(word_);
    advance();
    return {};
  }

  // (a,b): between the commas there may be nothing, which is the empty value.
  Result<> parseSet(std::vector<std::string>& values) {
    if (token_ != Token::Open) return unexpected("(");
    do {
      advance();
      bool has_word = token_ == Token::Word;
      values.emplace_back(has_word ? word_ : std::string_view());
      if (has_word) advance();
    } while (token_ == Token::Comma);
    if (token_ != Token::Close) return unexpected("a comma or )");
    advance();
    return {};
  }

  void advance() {
    while (at_ < text_.size() && isBlank(text_[at_])) ++at_;
    start_ = at_;
    if (at_ == text_.size()) {
      token_ = Token::End;
    } else if (isSymbol(text_[at_])) {
      token_ = symbol();
    } else {
      while (at_ < text_.size() && !isBlank(text_[at_]) && !isSymbol(text_[at_])) ++at_;
      token_ = Token::Word;
    }
    word_ = text_.substr(start_, at_ - start_);
  }

  Token symbol() {
    char c = text_[at_++];
    bool then_equals = at_ < text_.size() && text_[at_] == '=';
    if (then_equals && (c == '=' || c == '!')) {
      ++at_;
      return c == '=' ? Token::DoubleEquals : Token::NotEquals;
    }
    switch (c) {
      case '=':
        return Token::Equals;
      case '!':
        return Token::Not;
      case '>':
        return Token::Greater;
      case '<':
        return Token::Less;
      case '(':
        return Token::Open;
      case ')':
        return Token::Close;
      default:
        return Token::Comma;
    }
  }

  Error at(std::size_t position, std::string_view message) const {
    return invalid(
        format("label selector {}, position {}: {}", inQuotes(text_), position + 1, message));
  }
  Error unexpected(std::string_view expected) const {
    std::string found = token_ == Token::End ? "the end" : inQuotes(word_);
    return at(start_, format("found {} where {} is expected", found, expected));
  }

  std::string_view text_;
  std::size_t at_ = 0;
  Token token_ = Token::End;
  std::size_t start_ = 0;  // of the token
  std::string_view word_;  // its text
};

Error wrongType(std::string_view place, std::string_view wanted, const json::Value& value) {
  return invalid(format("{} must be {}, not {}", place, wanted, value.typeName()));
}

Result<Requirement> readExpression(const json::Value& expression, const std::string& place) {
  if (!expression.isObject())
    return wrongType(place, "an object with key, operator and values", expression);
  for (const auto& [field, value] : expression.object())
    if (field != "key" && field != "operator" && field != "values")
      return invalid(format("{} has the unknown field {}; it may have key, operator and values",
                            place, inQuotes(field)));
  for (const char* field : {"key", "operator"})
    if (!expression[field].isString())
      return wrongType(format("{}.{}", place, field), "a string", expression[field]);
  Requirement out;
  out.key = expression["key"].string();
  const std::string& op = expression["operator"].string();
  bool takes_values = op == "In" || op == "NotIn";
  if (takes_values)
    out.op = op == "In" ? Operator::In : Operator::NotIn;
  else if (op == "Exists" || op == "DoesNotExist")
    out.op = op == "Exists" ? Operator::Exists : Operator::DoesNotExist;
  else
    return invalid(format("{}.operator is {}, but it must be In, NotIn, Exists or DoesNotExist",
                          place, inQuotes(op)));
  const json::Value& values = expression["values"];
  if (!values.isNull() && !values.isArray())
    return wrongType(place + ".values", "a list of strings", values);
  if (takes_values == values.array().empty())
    return invalid(format("{}.values must be {} for the operator {}", place,
                          takes_values ? "given" : "left out", op));
  for (const json::Value& value : values.array()) {
    if (!value.isString())
      return wrongType(format("{}.values[{}]", place, out.values.size()), "a string", value);
    out.values.push_back(value.string());
  }
  sortValues(out.values);
  if (auto problem = findProblem(out)) return invalid(format("{}: {}", place, *problem));
  return out;
}

void appendText(std::string& out, const Requirement& requirement) {
  auto one = [&](std::string_view op) {
    out += requirement.key;
    out += op;
    out += requirement.values.front();
  };
  switch (requirement.op) {
    case Operator::Equals:
      return one("=");
    case Operator::NotEquals:
      return one("!=");
    case Operator::GreaterThan:
      return one(">");
    case Operator::LessThan:
      return one("<");
    case Operator::In:
    case Operator::NotIn:
      out += requirement.key;
      out += requirement.op == Operator::In ? " in (" : " notin (";
      out += join(requirement.values, ",");
      out += ')';
      return;
    case Operator::DoesNotExist:
      out += '!';
      [[fallthrough]];
    case Operator::Exists:
      out += requirement.key;
  }
}

// --- Fields.

bool isPathCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("._-/").find(c) != std::string_view::npos;
}

// Cuts at the first comma that has no backslash before it.
std::string_view nextTerm(std::string_view& rest) {
  std::size_t end = 0;
  while (end < rest.size() && rest[end] != ',') end += rest[end] == '\\' ? 2 : 1;
  end = std::min(end, rest.size());
  std::string_view term = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return term;
}

Result<std::string> unescape(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '=') return invalid("the value has a '=' in it, which is written \\=");
    if (text[i] == '\\') {
      ++i;
      if (i == text.size() || std::string_view("\\,=").find(text[i]) == std::string_view::npos)
        return invalid("after \\ comes one of \\ , =");
    }
    out += text[i];
  }
  return out;
}

std::string escape(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '\\' || c == ',' || c == '=') out += '\\';
    out += c;
  }
  return out;
}

Result<FieldSelector::Term> readTerm(std::string_view text) {
  FieldSelector::Term term;
  std::size_t end = text.find('=');
  if (end == std::string_view::npos)
    return invalid("it must be a field, = or !=, and a value, such as metadata.name=web");
  std::string_view value = text.substr(end + 1);
  term.equal = end == 0 || text[end - 1] != '!';
  if (!term.equal)
    --end;
  else if (value.starts_with('='))
    value.remove_prefix(1);
  term.path = text.substr(0, end);
  if (term.path.empty()) return invalid("the field before = is missing");
  if (!std::ranges::all_of(term.path, isPathCharacter))
    return invalid(
        format("{} is not the path of a field, such as metadata.name", inQuotes(term.path)));
  CADRE_LET(term.value, unescape(value));
  return term;
}

std::string termText(const FieldSelector::Term& term) {
  return term.path + (term.equal ? "=" : "!=") + escape(term.value);
}

std::string fieldText(const json::Value& object, std::string_view path) {
  const json::Value* value = &object;
  for (std::string_view part : split(path, '.')) value = &(*value)[part];
  if (value->isString()) return value->string();
  if (value->isBool() || value->isNumber()) return json::write(*value);
  return {};
}

}  // namespace

bool LabelSelector::Requirement::matches(const json::Object& labels) const {
  const json::Value* label = labels.find(key);
  bool exists = label && label->isString();
  auto is_listed = [&] { return std::ranges::binary_search(values, label->string()); };
  switch (op) {
    case Operator::Equals:
    case Operator::In:
      return exists && is_listed();
    case Operator::NotEquals:
    case Operator::NotIn:
      return !exists || !is_listed();
    case Operator::Exists:
      return exists;
    case Operator::DoesNotExist:
      return !exists;
    case Operator::GreaterThan:
    case Operator::LessThan:
      break;
  }
  if (!exists || values.empty()) return false;
  auto have = parseInt(label->string()), bound = parseInt(values.front());
  if (!have || !bound) return false;
  return op == Operator::GreaterThan ? *have > *bound : *have < *bound;
}

LabelSelector::LabelSelector(std::vector<Requirement> requirements)
    : requirements_(std::move(requirements)) {
  std::ranges::sort(requirements_);
}

Result<LabelSelector> LabelSelector::parse(std::string_view text) {
  CADRE_LET(auto requirements, LabelParser(text).parse());
  return LabelSelector(std::move(requirements));
}

Result<LabelSelector> LabelSelector::fromObject(const json::Value& selector) {
  if (!selector.isObject())
    return wrongType("the selector", "an object with matchLabels or matchExpressions", selector);
  for (const auto& [field, value] : selector.object())
    if (field != "matchLabels" && field != "matchExpressions")
      return invalid(
          format("the selector has the unknown field {}; it may have matchLabels and "
                 "matchExpressions",
                 inQuotes(field)));
  std::vector<Requirement> requirements;
  const json::Value& labels = selector["matchLabels"];
  if (!labels.isNull() && !labels.isObject())
    return wrongType("matchLabels", "an object with strings", labels);
  for (const auto& [key, value] : labels.object()) {
    std::string place = format("matchLabels[{}]", inQuotes(key));
    if (!value.isString()) return wrongType(place, "a string", value);
    Requirement requirement{key, Operator::Equals, {value.string()}};
    if (auto problem = findProblem(requirement)) return invalid(format("{}: {}", place, *problem));
    requirements.push_back(std::move(requirement));
  }
  const json::Value& expressions = selector["matchExpressions"];
  if (!expressions.isNull() && !expressions.isArray())
    return wrongType("matchExpressions", "a list", expressions);
  std::size_t index = 0;
  for (const json::Value& expression : expressions.array()) {
    CADRE_LET(Requirement requirement,
              readExpression(expression, format("matchExpressions[{}]", index++)));
    requirements.push_back(std::move(requirement));
  }
  return LabelSelector(std::move(requirements));
}

bool LabelSelector::matches(const json::Object& labels) const {
  return std::ranges::all_of(
      requirements_, [&](const Requirement& requirement) { return requirement.matches(labels); });
}

std::string LabelSelector::text() const {
  std::string out;
  for (const Requirement& requirement : requirements_) {
    if (!out.empty()) out += ',';
    appendText(out, requirement);
  }
  return out;
}

FieldSelector::FieldSelector(std::vector<Term> terms) : terms_(std::move(terms)) {
  std::ranges::sort(terms_, {}, termText);
}

Result<FieldSelector> FieldSelector::parse(std::string_view text) {
  std::vector<Term> terms;
  std::string_view rest = text;
  while (!rest.empty()) {
    std::string_view part = nextTerm(rest);
    if (part.empty()) continue;
    auto term = readTerm(part);
    if (!term)
      return invalid(format("field selector {}, at {}: {}", inQuotes(text), inQuotes(part),
                            term.error().message));
    terms.push_back(*std::move(term));
  }
  return FieldSelector(std::move(terms));
}

bool FieldSelector::matches(const json::Value& object) const {
  return std::ranges::all_of(terms_, [&](const Term& term) {
    return (fieldText(object, term.path) == term.value) == term.equal;
  });
}

std::string FieldSelector::text() const {
  std::string out;
  for (const Term& term : terms_) {
    if (!out.empty()) out += ',';
    out += termText(term);
  }
  return out;
}

const std::string* FieldSelector::required(std::string_view path) const {
  for (const Term& term : terms_)
    if (term.equal && term.path == path) return &term.value;
  return nullptr;
}

}  // namespace cadre::kube
