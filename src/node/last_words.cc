#include "node/last_words.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <sys/stat.h>

#include "base/strings.h"
#include "json/utf8.h"
#include "node/log_file.h"

namespace cadre::node {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxMessage = 4096, kMaxOfLog = 2048, kMaxLines = 80;
constexpr std::size_t kTail = 64u << 10;  // of a log, with all that stands beside the text

std::string_view endOf(std::string_view text, std::size_t bytes) {
  return text.substr(text.size() - std::min(text.size(), bytes));
}

std::string readEnd(const std::string& path, std::size_t bytes) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return {};
  auto size = static_cast<std::size_t>(std::max<std::streamoff>(file.tellg(), 0));
  std::string text(std::min(size, bytes), '\0');
  file.seekg(static_cast<std::streamoff>(size - text.size()));
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

// "TIME stdout F text" says "text" and a newline; with P, no newline.
std::string printed(std::string_view line) {
  std::string_view rest = cut(cut(line, " ").second, " ").second;
  auto [whole, text] = cut(rest, " ");
  return std::string(text) + (whole == "P" ? "" : "\n");
}

std::string endOfLog(const std::string& log) {
  LogTail tail = readLogTail(log, kTail);
  std::size_t first = tail.lines.size() - std::min(tail.lines.size(), kMaxLines);
  std::string out;
  for (std::size_t i = first; i < tail.lines.size(); ++i) out += printed(tail.lines[i]);
  return std::string(endOf(out, kMaxOfLog));
}

}  // namespace

std::string lastWordsFile(const std::string& log) { return log + ".message"; }

void makeLastWordsFile(const std::string& log) {
  fs::path path = lastWordsFile(log);
  std::error_code ignored;
  fs::create_directories(path.parent_path(), ignored);
  std::ofstream(path, std::ios::binary | std::ios::app).flush();
  (void)chmod(path.c_str(), 0666);
}

std::string lastWordsOf(const json::Value& container, const std::string& log, bool failed) {
  std::string text = readEnd(lastWordsFile(log), kMaxMessage);
  if (text.empty() && failed &&
      container["terminationMessagePolicy"].string() == "FallbackToLogsOnError")
    text = endOfLog(log);
  return json::utf8Repair(text);
}

}  // namespace cadre::node
