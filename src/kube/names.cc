#include "kube/names.h"

#include "base/format.h"
#include "base/strings.h"
#include "json/write.h"

namespace cadre::kube {

namespace {

constexpr std::size_t kLabelLimit = 63;
constexpr std::size_t kSubdomainLimit = 253;

bool isLower(char c) { return c >= 'a' && c <= 'z'; }
bool isUpper(char c) { return c >= 'A' && c <= 'Z'; }
bool isDigit(char c) { return c >= '0' && c <= '9'; }
bool isLowerAlnum(char c) { return isLower(c) || isDigit(c); }
bool isAlnum(char c) { return isLowerAlnum(c) || isUpper(c); }

// A kind of name: which characters it has and how a sentence describes it.
struct Rule {
  std::string_view called;
  std::string_view allows;
  std::string_view example;
  std::size_t limit;
  bool (*edge)(char);  // the first and the last character
  std::string_view inner;
};

constexpr std::string_view kLowerAllows =
    "lower case letters, digits and '-', with a letter or digit at both ends";
constexpr std::string_view kSubdomainAllows =
    "lower case letters, digits, '-' and '.', with a letter or digit at both ends of each part";
constexpr std::string_view kLetterAllows =
    "lower case letters, digits and '-', with a letter first and a letter or digit last";
constexpr std::string_view kMixedAllows =
    "letters, digits, '-', '_' and '.', with a letter or digit at both ends";

constexpr Rule kDnsLabel{"a DNS label", kLowerAllows, "my-name", kLabelLimit, isLowerAlnum, "-"};
constexpr Rule kDnsSubdomain{"a DNS subdomain", kSubdomainAllows, "my-name.example.com",
                             kSubdomainLimit,   isLowerAlnum,     "-."};
constexpr Rule kDns1035{"a DNS-1035 label", kLetterAllows, "my-name",
                        kLabelLimit,        isLowerAlnum,  "-"};
constexpr Rule kQualified{"a qualified name", kMixedAllows, "example.com/MyName",
                          kLabelLimit,        isAlnum,      "-_."};
constexpr Rule kLabelKey{"a label key", kMixedAllows, "example.com/my-name",
                         kLabelLimit,   isAlnum,      "-_."};
constexpr Rule kLabelValue{"a label value", kMixedAllows, "my-value", kLabelLimit, isAlnum, "-_."};

std::string shown(char c) {
  auto byte = static_cast<unsigned char>(c);
  if (byte < 0x20 || byte >= 0x7f) return format("the byte 0x{:02x}", byte);
  return format("'{}'", c);
}

// What is wrong with one part of a text, as the rest of a sentence about the whole.
std::optional<std::string> findProblem(std::string_view part, const Rule& rule) {
  if (part.empty()) return "is empty";
  if (part.size() > rule.limit)
    return format("has {} characters, at most {} are allowed", part.size(), rule.limit);
  for (std::size_t i = 0; i < part.size(); ++i)
    if (!rule.edge(part[i]) && rule.inner.find(part[i]) == std::string_view::npos)
      return format("has {} at position {}", shown(part[i]), i + 1);
  if (!rule.edge(part.front())) return format("starts with {}", shown(part.front()));
  if (!rule.edge(part.back())) return format("ends with {}", shown(part.back()));
  return std::nullopt;
}

std::optional<std::string> findSubdomainProblem(std::string_view text) {
  if (auto problem = findProblem(text, kDnsSubdomain)) return problem;
  Rule part_rule = kDnsSubdomain;  // its parts have no limit of their own
  part_rule.inner = "-";
  for (std::string_view part : split(text, '.')) {
    if (part.empty()) return "has two dots with nothing between them";
    if (auto problem = findProblem(part, part_rule))
      return format("has the part {}, which {}", inQuotes(part), *problem);
  }
  return std::nullopt;
}

NameProblem sentence(std::string_view text, const Rule& rule, std::string_view subject,
                     const std::optional<std::string>& problem) {
  if (!problem) return std::nullopt;
  return format("{} is not {}: {} {}; use up to {} {}, such as \"{}\"", inQuotes(text), rule.called,
                subject, *problem, rule.limit, rule.allows, rule.example);
}

NameProblem checkQualified(std::string_view text, const Rule& rule) {
  std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) return sentence(text, rule, "it", findProblem(text, rule));
  std::string_view name = text.substr(slash + 1);
  if (name.find('/') != std::string_view::npos)
    return sentence(text, rule, "it", "has more than one '/'");
  if (auto problem = findSubdomainProblem(text.substr(0, slash))) {
    Rule prefix_rule = rule;
    prefix_rule.limit = kDnsSubdomain.limit;
    prefix_rule.allows = kDnsSubdomain.allows;
    return sentence(text, prefix_rule, "the part before '/'", problem);
  }
  return sentence(text, rule, "the part after '/'", findProblem(name, rule));
}

// The nearest text that is a DNS subdomain, of any length; may be empty.
std::string mend(std::string_view text) {
  std::string out;
  for (char c : lower(text)) {
    if (!isLowerAlnum(c) && c != '.') c = '-';
    bool joins = c == '-' || c == '.';
    if (joins && out.empty()) continue;
    if (c == '.') {  // nothing but a letter or digit stands beside a dot
      while (!out.empty() && out.back() == '-') out.pop_back();
      if (out.empty() || out.back() == '.') continue;
    }
    if (c == '-' && out.back() == '.') continue;
    out += c;
  }
  return out;
}

}  // namespace

std::string inQuotes(std::string_view text) {
  std::string out;
  json::appendQuoted(out, shorten(text, 100));
  return out;
}

NameProblem checkDnsLabel(std::string_view text) {
  return sentence(text, kDnsLabel, "it", findProblem(text, kDnsLabel));
}

NameProblem checkDnsSubdomain(std::string_view text) {
  return sentence(text, kDnsSubdomain, "it", findSubdomainProblem(text));
}

NameProblem checkDns1035Label(std::string_view text) {
  auto problem = findProblem(text, kDns1035);
  if (!problem && !isLower(text.front())) problem = format("starts with {}", shown(text.front()));
  return sentence(text, kDns1035, "it", problem);
}

NameProblem checkQualifiedName(std::string_view text) { return checkQualified(text, kQualified); }
NameProblem checkLabelKey(std::string_view text) { return checkQualified(text, kLabelKey); }

NameProblem checkLabelValue(std::string_view text) {
  if (text.empty()) return std::nullopt;
  return sentence(text, kLabelValue, "it", findProblem(text, kLabelValue));
}

std::string boundedName(std::string_view base, std::string_view suffix, std::size_t limit) {
  std::string whole = std::string(base) + std::string(suffix);
  if (whole.size() <= limit && !findSubdomainProblem(whole)) return whole;
  std::string hash = shortHash(whole);
  if (limit < hash.size() + 2) return hash.substr(0, limit);
  std::string name = mend(whole).substr(0, limit - hash.size() - 1);
  while (!name.empty() && !isLowerAlnum(name.back())) name.pop_back();
  return (name.empty() ? "x" : name) + "-" + hash;
}

}  // namespace cadre::kube
