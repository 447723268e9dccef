#include "kube/pattern.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/format.h"
#include "json/utf8.h"

namespace cadre::kube {

namespace {

constexpr std::size_t kMaxSteps = 20'000;
constexpr int kMaxRepeat = 1000;  // Go's own
constexpr int kMaxDepth = 100;
constexpr char32_t kLastCharacter = 0x10FFFF;

char32_t take(std::string_view& text) {
  std::size_t length = json::utf8Length(text);
  char32_t character = length == 0 ? 0xFFFD : json::utf8Decode(text, length);
  text.remove_prefix(std::max<std::size_t>(length, 1));
  return character;
}

}  // namespace

// First a tree, because a repetition is compiled as often as it repeats; then steps, each part
// knowing what comes after it.
class PatternCompiler {
 public:
  explicit PatternCompiler(std::string_view text) : whole_(text), rest_(text) {}

  Result<Pattern> compile() {
    Node root = alternatives(0);
    if (problem_.empty() && !rest_.empty()) fail("there is a ) without its (");
    if (problem_.empty()) {
      pattern_.text_ = whole_;
      pattern_.start_ = emit(root, add({}));
    }
    if (!problem_.empty())
      return Error{.code = Code::InvalidArgument,
                   .message = format("the pattern {}: {} at position {}", whole_, problem_,
                                     whole_.size() - rest_.size())};
    return std::move(pattern_);
  }

 private:
  using Ranges = Pattern::Ranges;
  using Op = Pattern::Step::Op;
  struct Node {
    enum class Kind { Character, Begin, End, All, Any, Repeat } kind = Kind::All;
    Ranges ranges = {};
    std::vector<Node> parts = {};
    int least = 0;
    std::optional<int> most = {};
  };

  void fail(std::string problem) {
    if (problem_.empty()) problem_ = std::move(problem);
  }
  bool ahead(char c) const { return problem_.empty() && !rest_.empty() && rest_.front() == c; }
  bool accept(char c) {
    bool found = ahead(c);
    if (found) rest_.remove_prefix(1);
    return found;
  }

  Node alternatives(int depth) {
    Node any{.kind = Node::Kind::Any};
    if (depth > kMaxDepth) fail("groups are nested too deeply");
    do {
      any.parts.push_back(sequence(depth));
    } while (accept('|'));
    return any;
  }

  Node sequence(int depth) {
    Node all;
    while (problem_.empty() && !rest_.empty() && !ahead('|') && !ahead(')'))
      all.parts.push_back(repeated(depth));
    return all;
  }

  Node repeated(int depth) {
    Node one = single(depth);
    Node repeat{.kind = Node::Kind::Repeat};
    if (accept('?')) {
      repeat.most = 1;
    } else if (accept('+')) {
      repeat.least = 1;
    } else if (accept('{')) {
      counts(repeat);
    } else if (!accept('*')) {
      return one;
    }
    if (ahead('?') || ahead('*') || ahead('+') || ahead('{'))
      fail("a repetition of a repetition, or a lazy one, is not known here");
    repeat.parts.push_back(std::move(one));
    return repeat;
  }

  void counts(Node& repeat) {
    repeat.least = number();
    repeat.most = repeat.least;
    if (accept(',')) repeat.most = ahead('}') ? std::optional<int>() : number();
    if (!accept('}')) fail("{ begins a repetition such as {2,5}; the character itself is \\{");
    if (repeat.most && *repeat.most < repeat.least) fail("the repetition ends before it begins");
  }

  int number() {
    int value = -1;
    while (!rest_.empty() && rest_.front() >= '0' && rest_.front() <= '9' && value <= kMaxRepeat) {
      value = std::max(value, 0) * 10 + (rest_.front() - '0');
      rest_.remove_prefix(1);
    }
    if (value < 0) fail("a number is missing in a repetition");
    if (value > kMaxRepeat) fail(format("a repetition has a number above {}", kMaxRepeat));
    return std::max(value, 0);
  }

  Node single(int depth) {
    if (accept('(')) {
      if (accept('?') && !accept(':')) fail("of the groups with (? only (?: is known here");
      if (accept('?')) fail("there is a ? with nothing before it");
      Node group = alternatives(depth + 1);
      if (!accept(')')) fail("a ) is missing");
      return group;
    }
    if (accept('^')) return {.kind = Node::Kind::Begin};
    if (accept('$')) return {.kind = Node::Kind::End};
    if (accept('.')) return character({{0, '\n' - 1}, {'\n' + 1, kLastCharacter}});
    if (accept('[')) return character(characterClass());
    if (accept('\\')) return character(escaped());
    if (std::string_view("?*+{").find(rest_.front()) != std::string_view::npos)
      fail("there is nothing before the repetition");
    if (ahead(']') || ahead('}')) fail("a ] or } of its own is written \\] or \\}");
    char32_t one = take(rest_);
    return character({{one, one}});
  }

  static Node character(Ranges ranges) {
    return {.kind = Node::Kind::Character, .ranges = std::move(ranges)};
  }

  static Ranges complement(Ranges ranges) {
    std::ranges::sort(ranges);
    Ranges out;
    char32_t from = 0;
    for (auto [first, last] : ranges) {
      if (first > from) out.emplace_back(from, first - 1);
      from = std::max<char32_t>(from, last + 1);
    }
    if (from <= kLastCharacter) out.emplace_back(from, kLastCharacter);
    return out;
  }

  Ranges escaped() {
    if (rest_.empty()) {
      fail("it ends in a \\");
      return {};
    }
    char c = rest_.front();
    rest_.remove_prefix(1);
    static const Ranges kDigits = {{'0', '9'}};
    static const Ranges kWords = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
    static const Ranges kSpaces = {{'\t', '\n'}, {'\f', '\r'}, {' ', ' '}};
    switch (c) {
      case 'd':
        return kDigits;
      case 'D':
        return complement(kDigits);
      case 'w':
        return kWords;
      case 'W':
        return complement(kWords);
      case 's':
        return kSpaces;
      case 'S':
        return complement(kSpaces);
      case 't':
        return {{'\t', '\t'}};
      case 'n':
        return {{'\n', '\n'}};
      case 'r':
        return {{'\r', '\r'}};
      default:
        break;
    }
    bool punctuation =
        c > ' ' && c < 0x7f && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z');
    if (!punctuation) fail(format("\\ before that character is not known here"));
    char32_t one = static_cast<unsigned char>(c);
    return {{one, one}};
  }

  Ranges characterClass() {
    bool negated = accept('^');
    Ranges ranges;
    if (ahead(']')) fail("a class is empty; the character itself is \\]");
    while (problem_.empty() && !rest_.empty() && !ahead(']')) {
      Ranges from = classCharacter();
      bool range = rest_.size() > 1 && rest_[0] == '-' && rest_[1] != ']';
      if (!range) {
        ranges.insert(ranges.end(), from.begin(), from.end());
        continue;
      }
      rest_.remove_prefix(1);
      Ranges to = classCharacter();
      bool ends = from.size() == 1 && to.size() == 1 && from[0].first == from[0].second &&
                  to[0].first == to[0].second && from[0].first <= to[0].first;
      if (!ends) {
        fail("a range needs a character at both ends, the smaller first");
        break;
      }
      ranges.emplace_back(from[0].first, to[0].first);
    }
    if (!accept(']')) fail("a ] is missing");
    return negated ? complement(std::move(ranges)) : ranges;
  }

  Ranges classCharacter() {
    if (accept('\\')) return escaped();
    if (rest_.starts_with("[:")) fail("classes with a name are not known here");
    char32_t one = take(rest_);
    return {{one, one}};
  }

  std::size_t add(Pattern::Step step) {
    if (pattern_.steps_.size() >= kMaxSteps) {
      fail("it repeats too much");
      return 0;
    }
    pattern_.steps_.push_back(std::move(step));
    return pattern_.steps_.size() - 1;
  }

  std::size_t emit(const Node& node, std::size_t next) {
    if (!problem_.empty()) return 0;
    switch (node.kind) {
      case Node::Kind::Character:
        return add({.op = Op::Character, .ranges = node.ranges, .next = next});
      case Node::Kind::Begin:
        return add({.op = Op::Begin, .next = next});
      case Node::Kind::End:
        return add({.op = Op::End, .next = next});
      case Node::Kind::All:
        for (auto part = node.parts.rbegin(); part != node.parts.rend(); ++part)
          next = emit(*part, next);
        return next;
      case Node::Kind::Any: {
        std::size_t entry = emit(node.parts.back(), next);
        for (auto part = node.parts.rbegin() + 1; part != node.parts.rend(); ++part) {
          std::size_t one = emit(*part, next);
          entry = add({.op = Op::Fork, .next = one, .other = entry});
        }
        return entry;
      }
      case Node::Kind::Repeat:
        return emitRepeat(node, next);
    }
    return next;
  }

  std::size_t emitRepeat(const Node& node, std::size_t next) {
    const Node& part = node.parts.front();
    std::size_t entry = next;
    if (!node.most) {
      entry = add({.op = Op::Fork, .other = next});
      std::size_t body = emit(part, entry);
      pattern_.steps_[entry].next = body;
    } else {
      for (int i = node.least; i < *node.most && problem_.empty(); ++i) {
        std::size_t body = emit(part, entry);
        entry = add({.op = Op::Fork, .next = body, .other = next});
      }
    }
    for (int i = 0; i < node.least && problem_.empty(); ++i) entry = emit(part, entry);
    return entry;
  }

  std::string_view whole_, rest_;
  std::string problem_;
  Pattern pattern_;
};

Result<Pattern> Pattern::parse(std::string_view text) { return PatternCompiler(text).compile(); }

// All ways through the pattern at once, a set of steps for each character of the text.
bool Pattern::matches(std::string_view text) const {
  if (steps_.empty()) return true;
  const std::size_t size = text.size();
  std::vector<std::size_t> now, then, open;
  std::vector<std::uint32_t> seen(steps_.size(), 0);  // in which round a step was reached
  std::uint32_t round = 0;
  bool found = false;
  auto reach = [&](std::vector<std::size_t>& set, std::size_t step, std::size_t position) {
    open.push_back(step);
    while (!open.empty()) {
      step = open.back();
      open.pop_back();
      if (std::exchange(seen[step], round) == round) continue;
      const Step& at = steps_[step];
      if (at.op == Step::Op::Character) set.push_back(step);
      if (at.op == Step::Op::Found) found = true;
      if (at.op == Step::Op::Fork) {
        open.push_back(at.other);
        open.push_back(at.next);
      }
      if ((at.op == Step::Op::Begin && position == 0) ||
          (at.op == Step::Op::End && position == size))
        open.push_back(at.next);
    }
  };
  ++round;
  reach(now, start_, 0);
  while (!text.empty() && !found) {
    char32_t character = take(text);
    std::size_t position = size - text.size();
    ++round;
    then.clear();
    for (std::size_t step : now)
      if (std::ranges::any_of(steps_[step].ranges, [&](const auto& range) {
            return range.first <= character && character <= range.second;
          }))
        reach(then, steps_[step].next, position);
    reach(then, start_, position);
    now.swap(then);
  }
  return found;
}

}  // namespace cadre::kube
