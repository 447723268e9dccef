#include "hub/builtin_rules.h"

#include <algorithm>

#include <arpa/inet.h>

#include "base/format.h"
#include "base/strings.h"
#include "json/write.h"

namespace cadre::hub {

namespace {

using json::Value;
using kube::Fault;

std::string quoted(std::string_view text) {
  std::string out;
  json::appendQuoted(out, text);
  return out;
}

std::string shown(const Value& value) {
  return value.isString() ? quoted(value.string()) : json::write(value);
}

std::string listed(const std::vector<std::string_view>& supported) {
  std::string out;
  for (std::string_view one : supported) out += (out.empty() ? "" : ", ") + quoted(one);
  return out;
}

bool isLower(char c) { return c >= 'a' && c <= 'z'; }
bool isDigit(char c) { return c >= '0' && c <= '9'; }
bool isLowerAlnum(char c) { return isLower(c) || isDigit(c); }
bool isAlnum(char c) { return isLowerAlnum(c) || (c >= 'A' && c <= 'Z'); }

bool hasForm(std::string_view text, bool (*edge)(char), std::string_view inner) {
  if (text.empty() || !edge(text.front()) || !edge(text.back())) return false;
  return std::ranges::all_of(
      text, [&](char c) { return edge(c) || inner.find(c) != std::string_view::npos; });
}
bool isLabel(std::string_view text) { return hasForm(text, isLowerAlnum, "-"); }
bool isSubdomain(std::string_view text) {
  return !text.empty() && std::ranges::all_of(split(text, '.'), isLabel);
}
bool isName(std::string_view text) { return hasForm(text, isAlnum, "-_."); }

std::string tooLong(std::size_t limit) {
  return format("must be no more than {} characters", limit);
}

constexpr std::string_view kSubdomain =
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
constexpr std::string_view kSearchDomain =
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' "
    "or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    "for validation is "
    "'_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')";
constexpr std::string_view kLabel =
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
constexpr std::string_view kDns1035 =
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
    "alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', "
    "regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
constexpr std::string_view kQualified =
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
constexpr std::string_view kLabelValue =
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  "
    "or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
constexpr std::string_view kConfigKey =
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. "
    "'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is "
    "'[-._a-zA-Z0-9]+')";
constexpr std::string_view kEnvName =
    "a valid environment variable name must consist only of printable ASCII characters other than "
    "'='";
constexpr std::string_view kPercent =
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or "
    "'93%', regex used for validation is '[0-9]+%')";

}  // namespace

// --- At

At At::operator[](std::string_view field) const {
  const Value& member = (*value_)[field];
  if (!named_) return at(member, "");
  return at(member, path_.empty() ? std::string(field) : path_ + "." + std::string(field));
}
At At::item(std::size_t index) const {
  return at(value_->at(index), named_ ? format("{}[{}]", path_, index) : "");
}
At At::key(std::string_view key) const {
  return at((*value_)[key], named_ ? format("{}[{}]", path_, key) : "");
}
std::vector<At> At::items() const {
  std::vector<At> out;
  out.reserve(value_->array().size());
  for (std::size_t i = 0; i < value_->array().size(); ++i) out.push_back(item(i));
  return out;
}

bool At::isEmpty() const {
  const Value& value = *value_;
  return value.isNull() || (value.isString() && value.string().empty()) ||
         (value.isArray() && value.array().empty()) ||
         (value.isObject() && value.object().empty()) || (value.isNumber() && value.number() == 0);
}

void At::add(Fault fault, std::string message) const {
  if (findings_->size() >= kube::kMaxFieldErrors) return;
  findings_->push_back({.path = path_, .fault = fault, .message = std::move(message)});
}

void At::addFinding(kube::FieldError error) const {
  if (findings_->size() < kube::kMaxFieldErrors) findings_->push_back(std::move(error));
}

void At::required(std::string_view why) const {
  add(Fault::Required, why.empty() ? "Required value" : format("Required value: {}", why));
}
void At::invalid(std::string_view why) const { invalidShown(shown(*value_), why); }
void At::invalidText(std::string_view text, std::string_view why) const {
  invalidShown(quoted(text), why);
}
void At::invalidShown(std::string_view text, std::string_view why) const {
  add(Fault::Invalid, format("Invalid value: {}: {}", text, why));
}
void At::forbidden(std::string_view why) const {
  add(Fault::Forbidden, format("Forbidden: {}", why));
}
void At::unsupported(const std::vector<std::string_view>& supported) const {
  unsupportedShown(shown(*value_), supported);
}
void At::unsupportedShown(std::string_view text,
                          const std::vector<std::string_view>& supported) const {
  add(Fault::NotSupported,
      format("Unsupported value: {}: supported values: {}", text, listed(supported)));
}
void At::duplicate() const { duplicateShown(shown(*value_)); }
void At::duplicateShown(std::string_view text) const {
  add(Fault::Duplicate, format("Duplicate value: {}", text));
}
void At::notFound() const { add(Fault::NotFound, format("Not found: {}", shown(*value_))); }
void At::all(const Problems& problems) const {
  for (const std::string& problem : problems) invalidText(text(), problem);
}

bool At::given() const {
  if (isEmpty()) required();
  return !isEmpty();
}
void At::notNegative() const {
  if (value_->integer() < 0) invalid("must be greater than or equal to 0");
}
void At::between(std::int64_t low, std::int64_t high) const {
  if (isThere() && (value_->integer() < low || value_->integer() > high))
    invalid(format("must be between {} and {}, inclusive", low, high));
}
void At::oneOf(const std::vector<std::string_view>& supported) const {
  if (isThere() && std::ranges::find(supported, text()) == supported.end()) unsupported(supported);
}
bool At::atMost(std::size_t items) const {
  if (value_->array().size() <= items) return true;
  add(Fault::TooMany,
      format("Too many: {}: must have at most {} items", value_->array().size(), items));
  return false;
}
bool At::fits(std::size_t bytes) const {
  if (text().size() <= bytes) return true;
  add(Fault::TooLong, format("Too long: may not be more than {} bytes", bytes));
  return false;
}
void At::port() const { between(1, 65535); }
void At::portOrName() const {
  if (value_->isString())
    all(portNameProblems(text()));
  else
    port();
}
void At::countOrPercent() const {
  if (value_->isNumber()) return notNegative();
  if (!value_->isString()) return;
  std::string_view number = text();
  bool good = number.size() > 1 && number.ends_with('%');
  if (good) number.remove_suffix(1);
  if (!good || !std::ranges::all_of(number, isDigit))
    invalid(kPercent);
  else if (parseInt(number).value_or(101) > 100)
    invalid("must not be greater than 100%");
}
void At::immutable(const Value& old) const {
  if (*value_ != old) invalid("field is immutable");
}

// --- names

Problems subdomainProblems(std::string_view text) {
  Problems out;
  if (text.size() > 253) out.push_back(tooLong(253));
  if (!isSubdomain(text)) out.emplace_back(kSubdomain);
  return out;
}

Problems searchDomainProblems(std::string_view text) {
  bool good = !text.empty() && std::ranges::all_of(split(text, '.'), [](std::string_view part) {
    if (part.starts_with('_')) part.remove_prefix(1);
    return hasForm(part, isLowerAlnum, "-_");
  });
  Problems out;
  if (text.size() > 253) out.push_back(tooLong(253));
  if (!good) out.emplace_back(kSearchDomain);
  return out;
}

Problems labelProblems(std::string_view text) {
  Problems out;
  if (text.size() > 63) out.push_back(tooLong(63));
  if (!isLabel(text)) out.emplace_back(isSubdomain(text) ? "must not contain dots" : kLabel);
  return out;
}

Problems dns1035Problems(std::string_view text) {
  Problems out;
  if (text.size() > 63) out.push_back(tooLong(63));
  if (!isLabel(text) || !isLower(text.front())) out.emplace_back(kDns1035);
  return out;
}

Problems qualifiedProblems(std::string_view text) {
  auto parts = split(text, '/');
  if (parts.size() > 2)
    return {
        format("a qualified name {} with an optional DNS subdomain prefix and '/' (e.g. "
               "'example.com/MyName')",
               kQualified)};
  Problems out;
  if (parts.size() == 2) {
    if (parts[0].empty())
      out.emplace_back("prefix part must be non-empty");
    else
      for (const std::string& problem : subdomainProblems(parts[0]))
        out.push_back("prefix part " + problem);
  }
  std::string_view name = parts.empty() ? std::string_view() : parts.back();
  if (name.empty()) out.emplace_back("name part must be non-empty");
  if (name.size() > 63) out.push_back("name part " + tooLong(63));
  if (!isName(name)) out.push_back(format("name part {}", kQualified));
  return out;
}

Problems labelValueProblems(std::string_view text) {
  Problems out;
  if (text.size() > 63) out.push_back(tooLong(63));
  if (!text.empty() && !isName(text)) out.emplace_back(kLabelValue);
  return out;
}

Problems portNameProblems(std::string_view text) {
  Problems out;
  if (text.size() > 15) out.push_back(tooLong(15));
  if (text.empty() ||
      !std::ranges::all_of(text, [](char c) { return isLowerAlnum(c) || c == '-'; }))
    out.emplace_back("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)");
  if (std::ranges::none_of(text, isLower))
    out.emplace_back("must contain at least one letter (a-z)");
  if (text.find("--") != std::string_view::npos)
    out.emplace_back("must not contain consecutive hyphens");
  if (text.starts_with('-') || text.ends_with('-'))
    out.emplace_back("must not begin or end with a hyphen");
  return out;
}

Problems configKeyProblems(std::string_view text) {
  Problems out;
  if (text.size() > 253) out.push_back(tooLong(253));
  bool good = !text.empty() && std::ranges::all_of(text, [](char c) {
    return isAlnum(c) || c == '-' || c == '_' || c == '.';
  });
  if (!good) out.emplace_back(kConfigKey);
  if (text == ".")
    out.emplace_back("must not be '.'");
  else if (text == "..")
    out.emplace_back("must not be '..'");
  else if (text.starts_with(".."))
    out.emplace_back("must not start with '..'");
  return out;
}

Problems envNameProblems(std::string_view text) {
  bool good = !text.empty() &&
              std::ranges::all_of(text, [](char c) { return c >= 0x20 && c < 0x7f && c != '='; });
  return good ? Problems{} : Problems{std::string(kEnvName)};
}

Problems pathSegmentProblems(std::string_view text) {
  if (text == "." || text == "..") return {format("may not be '{}'", text)};
  Problems out;
  for (std::string_view bad : {"/", "%"})
    if (text.find(bad) != std::string_view::npos)
      out.push_back(format("may not contain '{}'", bad));
  return out;
}

Problems domainPathProblems(std::string_view text) {
  auto slash = text.find('/');
  if (slash == std::string_view::npos || slash == 0 || slash + 1 == text.size())
    return {"must be a domain-prefixed path (such as \"acme.io/foo\")"};
  Problems out = subdomainProblems(text.substr(0, slash));
  constexpr std::string_view kAllowed = "/-._~%!$&'()*+,;=:";
  bool good = std::ranges::all_of(text.substr(slash + 1), [&](char c) {
    return isAlnum(c) || kAllowed.find(c) != std::string_view::npos;
  });
  if (!good)
    out.emplace_back(
        "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')");
  return out;
}

Problems relativePathProblems(std::string_view text) {
  if (text.starts_with('/')) return {"must be a relative path"};
  return backstepProblems(text);
}

Problems backstepProblems(std::string_view text) {
  for (std::string_view part : split(text, '/'))
    if (part == "..") return {"must not contain '..'"};
  return {};
}

int ipFamily(std::string_view text) {
  std::string copy(text);
  in6_addr buffer{};
  if (copy.size() != std::char_traits<char>::length(copy.c_str())) return 0;
  if (inet_pton(AF_INET, copy.c_str(), &buffer) == 1) return 4;
  return inet_pton(AF_INET6, copy.c_str(), &buffer) == 1 ? 6 : 0;
}

Problems ipProblems(std::string_view text) {
  if (ipFamily(text) != 0) return {};
  return {"must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"};
}

Problems cidrProblems(std::string_view text) {
  auto [address, bits] = cut(text, "/");
  int family = ipFamily(address);
  auto length = parseInt(bits);
  if (family != 0 && length && *length >= 0 && *length <= (family == 4 ? 32 : 128)) return {};
  return {"must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"};
}

// --- labels

void checkLabels(const At& labels) {
  for (const auto& [key, value] : labels->object()) {
    for (const std::string& problem : qualifiedProblems(key)) labels.invalidText(key, problem);
    for (const std::string& problem : labelValueProblems(value.string()))
      labels.invalidText(value.string(), problem);
  }
}

bool checkSelector(const At& selector) {
  Findings mine;
  At here(*selector, selector.path(), mine);
  checkLabels(here["matchLabels"]);
  for (const At& one : here["matchExpressions"].items()) {
    const std::string& op = one["operator"].text();
    bool any = !one["values"].isEmpty();
    if (op == "In" || op == "NotIn") {
      if (!any) one["values"].required("must be specified when `operator` is 'In' or 'NotIn'");
    } else if (op == "Exists" || op == "DoesNotExist") {
      if (any)
        one["values"].forbidden(
            "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
    } else {
      one["operator"].invalid("not a valid selector operator");
    }
    one["key"].all(qualifiedProblems(one["key"].text()));
    for (const At& value : one["values"].items()) value.all(labelValueProblems(value.text()));
  }
  for (kube::FieldError& error : mine) selector.addFinding(std::move(error));
  return mine.empty();
}

std::string orderedJson(const Value& value, std::initializer_list<std::string_view> first) {
  if (value.isArray()) {
    std::string out;
    for (const Value& one : value.array())
      out += (out.empty() ? "[" : ",") + orderedJson(one, first);
    return out.empty() ? "[]" : out + "]";
  }
  if (!value.isObject()) return json::write(value);
  std::string out;
  auto add = [&](std::string_view name, const Value& member) {
    out += (out.empty() ? "{" : ",") + quoted(name) + ":" + json::write(member);
  };
  for (std::string_view name : first)
    if (const Value* member = value.object().find(name)) add(name, *member);
  for (const auto& [name, member] : value.object())
    if (std::ranges::find(first, name) == first.end()) add(name, member);
  return out.empty() ? "{}" : out + "}";
}

std::string selectorJson(const Value& selector) {
  return orderedJson(selector, {"matchLabels", "matchExpressions"});
}

}  // namespace cadre::hub
