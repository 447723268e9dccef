#include "base/log.h"

#include <array>
#include <cctype>

#include <fmt/format.h>
#include <unistd.h>

#include "base/strings.h"

namespace cadre {

namespace {

constexpr std::string_view kRedacted = "[redacted]";
constexpr std::array<std::string_view, 5> kLevelNames{"debug", "info", "warn", "error", "off"};
constexpr std::array<std::string_view, 9> kSecretNames{"token",         "password",   "passwd",
                                                       "authorization", "secret",     "apikey",
                                                       "api_key",       "credential", "private"};

bool namesSecret(std::string_view name) {
  std::string small = lower(name);
  for (std::string_view word : kSecretNames)
    if (small.find(word) != std::string::npos) return true;
  return false;
}

// What the text at a place gives a value to, as in name=value and "name": value; else empty.
std::string_view nameBefore(std::string_view text, std::size_t at) {
  std::string_view before = text.substr(0, at);
  if (text[at] == ':' && before.ends_with('"'))
    before.remove_suffix(1);
  else if (text[at] != '=')
    return {};
  auto inName = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-';
  };
  std::size_t begin = before.size();
  while (begin > 0 && inName(before[begin - 1])) --begin;
  return before.substr(begin);
}

// Newlines and other control characters must not forge a second log line.
void appendJsonString(std::string& out, std::string_view text) {
  out += '"';
  for (char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
          fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned>(c));
        else
          out += c;
    }
  }
  out += '"';
}

bool plain(std::string_view text) {
  if (text.empty()) return false;
  for (char c : text)
    if (static_cast<unsigned char>(c) <= 0x20 || c == '"' || c == '=' || c == 0x7f) return false;
  return true;
}

void appendValue(std::string& out, const LogField& field, LogFormat format) {
  if (const auto* number = std::get_if<std::int64_t>(&field.value)) {
    out += std::to_string(*number);
  } else if (const auto* flag = std::get_if<bool>(&field.value)) {
    out += *flag ? "true" : "false";
  } else if (const auto* real = std::get_if<double>(&field.value)) {
    fmt::format_to(std::back_inserter(out), "{}", *real);
  } else {
    std::string text = namesSecret(field.name) ? std::string(kRedacted)
                                               : redact(std::get<std::string_view>(field.value));
    if (format == LogFormat::Text && plain(text))
      out += text;
    else
      appendJsonString(out, text);
  }
}

}  // namespace

std::optional<LogLevel> parseLogLevel(std::string_view text) {
  for (std::size_t i = 0; i < kLevelNames.size(); ++i)
    if (text == kLevelNames[i]) return static_cast<LogLevel>(i);
  return std::nullopt;
}

std::optional<LogFormat> parseLogFormat(std::string_view text) {
  if (text == "text") return LogFormat::Text;
  if (text == "json") return LogFormat::Json;
  return std::nullopt;
}

std::string redact(std::string_view text) {
  std::string out;
  std::size_t at = 0;
  while (at < text.size()) {
    constexpr std::string_view kBearer = "bearer ";
    if (equalsIgnoreCase(text.substr(at, kBearer.size()), kBearer)) {
      out += text.substr(at, kBearer.size());
      out += kRedacted;
      at += kBearer.size();
      while (at < text.size() && text[at] != ' ' && text[at] != '"' && text[at] != '\n') ++at;
      continue;
    }
    // A signed token, wherever it stands.
    if (text.substr(at).starts_with("eyJ")) {
      std::size_t end = at;
      while (end < text.size() && (std::isalnum(static_cast<unsigned char>(text[end])) != 0 ||
                                   text[end] == '-' || text[end] == '_' || text[end] == '.'))
        ++end;
      if (end - at >= 20) {
        out += kRedacted;
        at = end;
        continue;
      }
    }
    if (namesSecret(nameBefore(text, at))) {
      out += text[at++];
      for (; at < text.size() && text[at] == ' '; ++at) out += ' ';
      out += kRedacted;
      char quote = at < text.size() ? text[at] : '\0';
      bool quoted = quote == '"' || quote == '\'';
      at = text.find_first_of(quoted ? std::string_view(&quote, 1) : " \t\r\n,;&\"'", at + quoted);
      at = std::min(at, text.size());
      if (quoted && at < text.size()) ++at;
      continue;
    }
    if (text.substr(at).starts_with("://")) {
      out += "://";
      at += 3;
      std::size_t end = std::min(text.find_first_of("/ \"\n", at), text.size());
      std::string_view authority = text.substr(at, end - at);
      std::size_t user_end = authority.rfind('@');
      std::size_t colon = authority.find(':');
      if (user_end != std::string_view::npos && colon < user_end) {
        out += authority.substr(0, colon + 1);
        out += kRedacted;
        at += user_end;
      }
      continue;
    }
    out += text[at++];
  }
  return out;
}

Logger::Logger(const Clock& clock, Options options, Sink sink)
    : clock_(clock), level_(options.level), format_(options.format), sink_(std::move(sink)) {}

Logger& Logger::silent() {
  static SystemClock clock;
  static Logger logger(clock, {.level = LogLevel::Off}, [](std::string_view) {});
  return logger;
}

Logger::Sink Logger::stderrSink() {
  return [](std::string_view line) {
    while (!line.empty()) {
      ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
      if (written <= 0) return;  // nowhere left to complain to
      line.remove_prefix(static_cast<std::size_t>(written));
    }
  };
}

void Logger::log(LogLevel level, std::string_view message, std::initializer_list<LogField> fields) {
  if (!enabled(level) || level == LogLevel::Off) return;
  std::string line;
  std::string time = formatTimeMicros(clock_.now());
  std::string_view name = kLevelNames[static_cast<std::size_t>(level)];
  if (format_ == LogFormat::Json) {
    line = fmt::format(R"({{"time":"{}","level":"{}","message":)", time, name);
    appendJsonString(line, redact(message));
    for (const LogField& field : fields) {
      line += ',';
      appendJsonString(line, field.name);
      line += ':';
      appendValue(line, field, format_);
    }
    line += "}\n";
  } else {
    line = fmt::format("{} {:<5} ", time, name);
    std::string text = redact(message);
    for (char& c : text)
      if (static_cast<unsigned char>(c) < 0x20) c = ' ';
    line += text;
    for (const LogField& field : fields) {
      line += ' ';
      line += field.name;
      line += '=';
      appendValue(line, field, format_);
    }
    line += '\n';
  }
  std::lock_guard lock(mutex_);
  sink_(line);
}

}  // namespace cadre
