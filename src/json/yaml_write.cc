#include <algorithm>

#include "json/utf8.h"
#include "json/write.h"
#include "json/yaml.h"
#include "json/yaml_scalar.h"

namespace cadre::json {

namespace {

// Longer keys need the "? key" form: a reader may stop looking for the colon.
constexpr std::size_t kLongestSimpleKey = 128;

// True for characters that may stand as they are, in quotes or out of them.
bool isPrintable(char32_t c) {
  if (c < 0x20 || (c >= 0x7F && c <= 0x9F)) return false;
  if (c == 0x2028 || c == 0x2029 || c == 0xFEFF) return false;
  return (c & 0xFFFE) != 0xFFFE && (c < 0xD800 || c > 0xDFFF);
}

struct Shape {
  bool printable = true;  // but for line breaks and tabs
  bool breaks = false;
  bool tabs = false;
};

Shape shapeOf(std::string_view text) {
  Shape shape;
  for (std::size_t i = 0; i < text.size();) {
    std::size_t length = utf8Length(text.substr(i));
    if (text[i] == '\n') {
      shape.breaks = true;
    } else if (text[i] == '\t') {
      shape.tabs = true;
    } else if (length == 0 || !isPrintable(utf8Decode(text.substr(i), length))) {
      shape.printable = false;
    }
    i += std::max<std::size_t>(length, 1);
  }
  return shape;
}

// True where the marks of YAML's syntax keep a text of one line from standing without quotes.
bool needsQuotes(std::string_view text) {
  if (text.empty() || text.front() == ' ' || text.back() == ' ') return true;
  if (text.starts_with("---") || text.starts_with("...")) return true;
  if (text == "<<" || text == "=") return true;
  std::string_view leading = ",[]{}#&*!|>'\"%@`";
  if (leading.find(text[0]) != leading.npos) return true;
  if (text[0] == '-' || text[0] == '?' || text[0] == ':') {
    if (text.size() == 1 || text[1] == ' ') return true;
  }
  return text.back() == ':' || text.find(": ") != text.npos || text.find(" #") != text.npos;
}

void appendSingleQuoted(std::string& out, std::string_view text) {
  out += '\'';
  for (char c : text) {
    if (c == '\'') out += '\'';
    out += c;
  }
  out += '\'';
}

void appendHex(std::string& out, char32_t character, int digits) {
  static constexpr char kHex[] = "0123456789abcdef";
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) out += kHex[character >> shift & 15];
}

// True where text of several lines may stand as a | block.
bool fitsBlock(std::string_view text, const Shape& shape) {
  if (!shape.printable || !shape.breaks) return false;
  if (text[0] == '\t' || text.find_first_not_of(" \n") == text.npos) return false;
  if (text.back() == ' ' || text.back() == '\t') return false;
  return text.find(" \n") == text.npos && text.find("\t\n") == text.npos;
}

class YamlWriter {
 public:
  explicit YamlWriter(std::string& out) : out_(out) {}

  void document(const Value& value) {
    if (isBlock(value)) {
      block(value, 0, Start::OnNewLine);
    } else {
      inlineValue(value, 0);
      out_ += '\n';
    }
  }

 private:
  enum class Start { OnNewLine, OnThisLine };

  // What takes lines of its own.
  static bool isBlock(const Value& value) {
    return (value.isObject() && !value.object().empty()) ||
           (value.isArray() && !value.array().empty());
  }

  void indent(std::size_t columns) { out_.append(columns, ' '); }

  void block(const Value& value, std::size_t column, Start start) {
    if (value.isObject()) {
      mapping(value.object(), column, start);
    } else {
      sequence(value.array(), column, start);
    }
  }

  void mapping(const Object& object, std::size_t column, Start start) {
    for (const auto& [key, member] : object) {
      if (std::exchange(start, Start::OnNewLine) == Start::OnNewLine) indent(column);
      std::size_t before = out_.size();
      bool simple = key.size() <= kLongestSimpleKey;
      if (!simple) out_ += "? ";
      oneLine(key);
      if (out_.size() - before > 1000 && simple) {  // escapes made it long
        out_.insert(before, "? ");
        simple = false;
      }
      if (!simple) {
        out_ += '\n';
        indent(column);
      }
      out_ += ':';
      if (!isBlock(member)) {
        out_ += ' ';
        inlineValue(member, column);
        out_ += '\n';
        continue;
      }
      out_ += '\n';
      // As kubectl does: a list starts in the column of its key.
      bool list = member.isArray() && simple;
      block(member, list ? column : column + 2, Start::OnNewLine);
    }
  }

  void sequence(const Array& array, std::size_t column, Start start) {
    for (const Value& element : array) {
      if (std::exchange(start, Start::OnNewLine) == Start::OnNewLine) indent(column);
      out_ += "- ";
      if (isBlock(element)) {
        block(element, column + 2, Start::OnThisLine);
      } else {
        inlineValue(element, column);
        out_ += '\n';
      }
    }
  }

  // Without the line break at the end.
  void inlineValue(const Value& value, std::size_t column) {
    if (value.isString()) {
      Shape shape = shapeOf(value.string());
      if (fitsBlock(value.string(), shape)) {
        literal(value.string(), column + 2);
      } else {
        oneLine(value.string());
      }
    } else {
      append(out_, value);  // numbers, booleans, null, {} and [] are the same in JSON
    }
  }

  void oneLine(std::string_view text) {
    Shape shape = shapeOf(text);
    if (!shape.printable || shape.breaks || shape.tabs || looksTyped(text)) {
      appendYamlQuoted(out_, text);
    } else if (needsQuotes(text)) {
      appendSingleQuoted(out_, text);
    } else {
      out_ += text;
    }
  }

  void literal(std::string_view text, std::size_t column) {
    out_ += '|';
    // A first line that is blank or indented does not tell where the text starts.
    if (text[0] == ' ' || text[0] == '\n') out_ += '2';
    if (!text.ends_with('\n')) {
      out_ += '-';
    } else {
      text.remove_suffix(1);
      if (text.ends_with('\n')) out_ += '+';
    }
    while (true) {
      std::string_view line = text.substr(0, text.find('\n'));
      out_ += '\n';
      if (!line.empty()) indent(column);
      out_ += line;
      if (line.size() == text.size()) return;
      text.remove_prefix(line.size() + 1);
    }
  }

  std::string& out_;
};

}  // namespace

void appendYamlQuoted(std::string& out, std::string_view text) {
  out += '"';
  for (std::size_t i = 0; i < text.size();) {
    std::size_t length = utf8Length(text.substr(i));
    char32_t c = length == 0 ? 0xFFFD : utf8Decode(text.substr(i), length);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\r') {
      out += "\\r";
    } else if (isPrintable(c)) {
      utf8Append(out, c);
    } else if (c < 0x100) {
      appendHex(out += "\\x", c, 2);
    } else if (c < 0x10000) {
      appendHex(out += "\\u", c, 4);
    } else {
      appendHex(out += "\\U", c, 8);
    }
    i += std::max<std::size_t>(length, 1);
  }
  out += '"';
}

std::string writeYaml(const Value& value) {
  std::string out;
  YamlWriter(out).document(value);
  return out;
}

}  // namespace cadre::json
