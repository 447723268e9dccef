#pragma once

#include <atomic>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "base/error.h"
#include "base/function.h"
#include "base/time.h"

namespace cadre {

enum class LogLevel { Debug, Info, Warn, Error, Off };
enum class LogFormat { Text, Json };

std::optional<LogLevel> parseLogLevel(std::string_view text);    // debug, info, warn, error, off
std::optional<LogFormat> parseLogFormat(std::string_view text);  // text, json

// One named fact beside a message.
struct LogField {
  template <std::integral T>
  LogField(std::string_view name, T value) : name(name), value(static_cast<std::int64_t>(value)) {}
  LogField(std::string_view name, bool value) : name(name), value(value) {}
  LogField(std::string_view name, double value) : name(name), value(value) {}
  LogField(std::string_view name, std::string_view value) : name(name), value(value) {}
  LogField(std::string_view name, const std::string& value)
      : LogField(name, std::string_view(value)) {}
  LogField(std::string_view name, const char* value) : LogField(name, std::string_view(value)) {}

  std::string_view name;
  std::variant<std::int64_t, bool, double, std::string_view> value;
};

// Writes one line per entry, as text for people or as JSON for machines, whole lines only, from any
// thread. Secrets stay out: a field whose name tells that it is one (token, password,
// authorization, ...) shows
// "[redacted]", and so do bearer tokens and URL passwords inside any text.
class Logger {
 public:
  using Sink =
      Function<void(std::string_view line)>;  // called under a lock, one line with its newline

  struct Options {
    LogLevel level = LogLevel::Info;
    LogFormat format = LogFormat::Text;
  };

  // The sink is where lines go; stderrSink() in programs.
  Logger(const Clock& clock, Options options, Sink sink);
  // A logger that says nothing, for tests and tools.
  static Logger& silent();

  bool enabled(LogLevel level) const { return level >= level_.load(std::memory_order_relaxed); }
  void setLevel(LogLevel level) { level_ = level; }

  void log(LogLevel level, std::string_view message, std::initializer_list<LogField> fields = {});
  void debug(std::string_view m, std::initializer_list<LogField> f = {}) {
    log(LogLevel::Debug, m, f);
  }
  void info(std::string_view m, std::initializer_list<LogField> f = {}) {
    log(LogLevel::Info, m, f);
  }
  void warn(std::string_view m, std::initializer_list<LogField> f = {}) {
    log(LogLevel::Warn, m, f);
  }
  void error(std::string_view m, std::initializer_list<LogField> f = {}) {
    log(LogLevel::Error, m, f);
  }

  static Sink stderrSink();

 private:
  const Clock& clock_;
  std::atomic<LogLevel> level_;
  const LogFormat format_;
  std::mutex mutex_;
  Sink sink_;
};

// The text with bearer tokens and URL passwords blotted out.
std::string redact(std::string_view text);

}  // namespace cadre
