#include "kube/pattern.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>

#include <re2/re2.h>

#include "base/format.h"
#include "json/utf8.h"

namespace cadre::kube {
namespace {

constexpr std::int64_t kMaxMemory = 1 << 20;  // of one pattern, compiled and at work

// As Go says it.
std::string_view problemOf(re2::RE2::ErrorCode code) {
  switch (code) {
    case re2::RE2::ErrorBadEscape:
      return "invalid escape sequence";
    case re2::RE2::ErrorBadCharClass:
    case re2::RE2::ErrorBadCharRange:
      return "invalid character class range";
    case re2::RE2::ErrorMissingBracket:
      return "missing closing ]";
    case re2::RE2::ErrorMissingParen:
      return "missing closing )";
    case re2::RE2::ErrorUnexpectedParen:
      return "unexpected )";
    case re2::RE2::ErrorTrailingBackslash:
      return "trailing backslash at end of expression";
    case re2::RE2::ErrorRepeatArgument:
      return "missing argument to repetition operator";
    case re2::RE2::ErrorRepeatSize:
      return "invalid repeat count";
    case re2::RE2::ErrorRepeatOp:
      return "invalid nested repetition operator";
    case re2::RE2::ErrorBadPerlOp:
      return "invalid or unsupported Perl syntax";
    case re2::RE2::ErrorBadUTF8:
      return "invalid UTF-8";
    case re2::RE2::ErrorBadNamedCapture:
      return "invalid named capture";
    default:
      return "expression too large";
  }
}

// Compiling takes long, and definitions have the same pattern in many places.
std::shared_ptr<const re2::RE2> compiled(const std::string& text) {
  static std::mutex mutex;
  static std::unordered_map<std::string, std::weak_ptr<const re2::RE2>> known;
  static std::size_t clean_at = 1024;
  std::lock_guard lock(mutex);
  if (auto found = known.find(text); found != known.end())
    if (auto there = found->second.lock()) return there;
  re2::RE2::Options options;
  options.set_log_errors(false);
  options.set_never_capture(true);
  options.set_max_mem(kMaxMemory);
  auto made = std::make_shared<const re2::RE2>(text, options);
  if (known.size() >= clean_at) {
    std::erase_if(known, [](const auto& one) { return one.second.expired(); });
    clean_at = std::max<std::size_t>(1024, known.size() * 2);
  }
  known[text] = made;
  return made;
}

}  // namespace

Result<Pattern> Pattern::parse(std::string_view text) {
  Pattern pattern;
  pattern.text_ = text;
  pattern.compiled_ = compiled(pattern.text_);
  if (!pattern.compiled_->ok())
    return Error{.code = Code::InvalidArgument,
                 .message = format("{}: `{}`", problemOf(pattern.compiled_->error_code()),
                                   pattern.compiled_->error_arg())};
  return pattern;
}

bool Pattern::matches(std::string_view text) const {
  if (!compiled_) return true;
  return re2::RE2::PartialMatch(json::utf8Repair(text), *compiled_);
}

}  // namespace cadre::kube
