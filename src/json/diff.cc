#include "json/diff.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "json/write.h"

namespace cadre::json {

namespace {

// Longer values are cut in a line for people.
constexpr std::size_t kLongestValue = 500;
// A path stands in each of its changes: these bounds keep hostile objects from growing by it.
constexpr std::size_t kLongestKey = 400;
constexpr std::size_t kLongestPath = 2000;

bool isName(std::string_view key) {
  return !key.empty() && std::all_of(key.begin(), key.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  });
}

// Cuts a text at the start of a character.
std::string_view cutTo(std::string_view text, std::size_t limit) {
  if (text.size() <= limit) return text;
  while (limit > 0 && (static_cast<unsigned char>(text[limit]) & 0xC0) == 0x80) --limit;
  return text.substr(0, limit);
}

// A path that grows and shrinks with the walk.
class Path {
 public:
  Path() = default;
  explicit Path(std::string text) : text_(std::move(text)) {}

  const std::string& text() const { return text_; }
  template <class Body>
  void at(std::string_view key, Body body) {
    extend(body, [&] {
      std::string step = pathStep(key);
      text_ += text_.empty() && step[0] == '.' ? step.substr(1) : step;
    });
  }
  template <class Body>
  void at(std::size_t index, Body body) {
    extend(body, [&] { text_ += '[' + std::to_string(index) + ']'; });
  }

 private:
  template <class Body, class Step>
  void extend(Body& body, Step step) {
    std::size_t before = text_.size();
    if (before < kLongestPath) {
      step();
      if (text_.size() >= kLongestPath) text_ += "...";
    }
    body();
    text_.resize(before);
  }

  std::string text_;
};

class Differ {
 public:
  void compare(const Value& from, const Value& to) {
    if (from.isObject() && to.isObject()) return objects(from.object(), to.object());
    if (from.isArray() && to.isArray()) return arrays(from.array(), to.array());
    if (from != to) changes_.push_back({path_.text(), from, to});
  }
  std::vector<Change> take() { return std::move(changes_); }

 private:
  void gone(const Value& value) { changes_.push_back({path_.text(), value, std::nullopt}); }
  void added(const Value& value) { changes_.push_back({path_.text(), std::nullopt, value}); }

  void objects(const Object& from, const Object& to) {
    auto old = from.begin();
    auto now = to.begin();
    while (old != from.end() || now != to.end()) {
      int order = old == from.end() ? 1 : now == to.end() ? -1 : old->first.compare(now->first);
      if (order < 0) {
        path_.at(old->first, [&] { gone(old->second); });
        ++old;
      } else if (order > 0) {
        path_.at(now->first, [&] { added(now->second); });
        ++now;
      } else {
        path_.at(old->first, [&] { compare(old->second, now->second); });
        ++old, ++now;
      }
    }
  }

  void arrays(const Array& from, const Array& to) {
    for (std::size_t i = 0; i < std::max(from.size(), to.size()); ++i) {
      path_.at(i, [&] {
        if (i >= to.size()) {
          gone(from[i]);
        } else if (i >= from.size()) {
          added(to[i]);
        } else {
          compare(from[i], to[i]);
        }
      });
    }
  }

  Path path_;
  std::vector<Change> changes_;
};

bool isLeaf(const Value& value) { return value.array().empty() && value.object().empty(); }

void appendShort(std::string& out, const Value& value) {
  std::string text = write(value);
  if (text.size() > kLongestValue) {
    std::size_t size = text.size();
    text.resize(cutTo(text, kLongestValue).size());
    text += "... (" + std::to_string(size) + " bytes)";
  }
  out += text;
}

// "+ path: value", a line for each leaf below.
void appendLeaves(std::string& out, char sign, Path& path, const Value& value) {
  if (isLeaf(value)) {
    out += sign;
    out.append(" ").append(path.text()).append(path.text().empty() ? "" : ": ");
    appendShort(out, value);
    out += '\n';
    return;
  }
  for (std::size_t i = 0; i < value.array().size(); ++i)
    path.at(i, [&] { appendLeaves(out, sign, path, value.array()[i]); });
  for (const auto& [key, member] : value.object())
    path.at(key, [&] { appendLeaves(out, sign, path, member); });
}

}  // namespace

std::string pathStep(std::string_view key) {
  std::string step;
  if (isName(key) && key.size() <= kLongestKey) return (step += '.') += key;
  step += '[';
  appendQuoted(step, cutTo(key, kLongestKey));
  return step += key.size() > kLongestKey ? "...]" : "]";
}

std::vector<Change> diff(const Value& from, const Value& to) {
  Differ differ;
  differ.compare(from, to);
  return differ.take();
}

std::string formatDiff(const std::vector<Change>& changes) {
  std::string out;
  for (const Change& change : changes) {
    Path path(change.path);
    if (change.from && change.to && isLeaf(*change.from) && isLeaf(*change.to)) {
      out.append("~ ").append(change.path).append(change.path.empty() ? "" : ": ");
      appendShort(out, *change.from);
      out += " -> ";
      appendShort(out, *change.to);
      out += '\n';
      continue;
    }
    if (change.from) appendLeaves(out, '-', path, *change.from);
    if (change.to) appendLeaves(out, '+', path, *change.to);
  }
  return out;
}

}  // namespace cadre::json
