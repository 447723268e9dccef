#include "json/write.h"

#include <charconv>
#include <cmath>
#include <cstdint>

#include "json/utf8.h"

namespace cadre::json {

namespace {

void appendInteger(std::string& out, std::int64_t number) {
  char text[24];
  auto end = std::to_chars(text, text + sizeof text, number).ptr;
  out.append(text, end);
}

// True for what goes into a JSON string as it is.
constexpr bool isPlain(unsigned char c) { return c >= 0x20 && c < 0x80 && c != '"' && c != '\\'; }

struct PlainTable {
  bool plain[256] = {};
  constexpr PlainTable() {
    for (int c = 0; c < 256; ++c) plain[c] = isPlain(static_cast<unsigned char>(c));
  }
};
constexpr PlainTable kPlain;

void appendEscape(std::string& out, unsigned char c) {
  static constexpr char kHex[] = "0123456789abcdef";
  switch (c) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      out += "\\u00";
      out += kHex[c >> 4];
      out += kHex[c & 15];
  }
}

// Writes one way or the other; the compact one leaves out all blank space.
template <bool kPretty>
class Writer {
 public:
  explicit Writer(std::string& out) : out_(out) {}

  void value(const Value& value) {
    if (value.isString()) return appendQuoted(out_, value.string());
    if (value.isObject()) return object(value.object());
    if (value.isArray()) return array(value.array());
    if (value.isInteger()) return appendInteger(out_, value.integer());
    if (value.isNumber()) return appendNumber(out_, value.number());
    out_ += value.isNull() ? "null" : value.boolean() ? "true" : "false";
  }

 private:
  void object(const Object& object) {
    if (object.empty()) {
      out_ += "{}";
      return;
    }
    open('{');
    bool first = true;
    for (const auto& [key, member] : object) {
      separate(first);
      appendQuoted(out_, key);
      out_ += kPretty ? ": " : ":";
      value(member);
    }
    close('}');
  }

  void array(const Array& array) {
    if (array.empty()) {
      out_ += "[]";
      return;
    }
    open('[');
    bool first = true;
    for (const Value& element : array) {
      separate(first);
      value(element);
    }
    close(']');
  }

  void open(char bracket) {
    out_ += bracket;
    ++depth_;
  }
  void close(char bracket) {
    --depth_;
    newLine();
    out_ += bracket;
  }
  void separate(bool& first) {
    if (!first) out_ += ',';
    first = false;
    newLine();
  }
  void newLine() {
    if constexpr (kPretty) {
      out_ += '\n';
      out_.append(2 * depth_, ' ');
    }
  }

  std::string& out_;
  std::size_t depth_ = 0;
};

}  // namespace

void appendQuoted(std::string& out, std::string_view text) {
  out += '"';
  std::size_t run = 0;  // start of what is not yet written and goes as it is
  std::size_t i = 0;
  while (i < text.size()) {
    auto c = static_cast<unsigned char>(text[i]);
    if (kPlain.plain[c]) {
      ++i;
      continue;
    }
    if (c >= 0x80) {
      if (std::size_t length = utf8Length(text.substr(i))) {
        i += length;
        continue;
      }
    }
    out.append(text.data() + run, i - run);
    if (c >= 0x80) {
      out += "\xEF\xBF\xBD";
    } else {
      appendEscape(out, c);
    }
    run = ++i;
  }
  out.append(text.data() + run, text.size() - run);
  out += '"';
}

void appendNumber(std::string& out, double number) {
  if (!std::isfinite(number)) {
    out += "null";
    return;
  }
  char text[40];
  double size = std::abs(number);
  // Go's rule: an exponent only where the plain form would be long. Where Go fills up with zeros
  // the digits here are exact, so that what reads as an integer is the same number.
  if (size == 0 || (size >= 1e-6 && size < 1e21)) {
    out.append(text, std::to_chars(text, text + sizeof text, number, std::chars_format::fixed).ptr);
    return;
  }
  char* end = std::to_chars(text, text + sizeof text, number, std::chars_format::scientific).ptr;
  std::string_view written(text, static_cast<std::size_t>(end - text));
  std::size_t digits = written.find('e') + 2;
  out.append(written.substr(0, digits));
  if (written[digits] != '0') out += written[digits];  // 1e-09 becomes 1e-9
  out.append(written.substr(digits + 1));
}

std::string write(const Value& value) {
  std::string out;
  append(out, value);
  return out;
}

void append(std::string& out, const Value& value) { Writer<false>(out).value(value); }

std::string writePretty(const Value& value) {
  std::string out;
  Writer<true>(out).value(value);
  return out;
}

}  // namespace cadre::json
