#include "node/log_file.h"

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/format.h"
#include "base/strings.h"

namespace cadre::node {
namespace {

// Whole lines at the end of a file.
std::string readEnd(const std::string& path, std::size_t max_bytes, bool& is_all) {
  std::error_code code;
  std::uintmax_t size = std::filesystem::file_size(path, code);
  if (code) return {};
  std::uintmax_t from = size > max_bytes ? size - max_bytes : 0;
  std::ifstream file(path, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(from));
  std::string text(static_cast<std::size_t>(size - from), '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  std::size_t end = text.rfind('\n') + 1;  // 0 when there is none
  if (end < text.size()) std::filesystem::resize_file(path, from + end, code);
  text.resize(end);
  if (from == 0) return text;
  is_all = false;
  return text.substr(text.find('\n') + 1);
}

}  // namespace

bool writeAll(int descriptor, std::string_view text) {
  while (!text.empty()) {
    ssize_t wrote = ::write(descriptor, text.data(), text.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(wrote));
  }
  return true;
}

std::string logLine(std::string_view time, std::string_view stream, std::string_view text,
                    bool whole) {
  return format("{} {} {} {}", time, stream, whole ? 'F' : 'P', text);
}

LogFile::LogFile(std::string path, std::size_t max_bytes)
    : path_(std::move(path)), limit_(max_bytes) {
  open();
}

LogFile::~LogFile() { close(); }

void LogFile::add(std::string_view line) {
  std::string whole = format("{}\n", line);
  if (size_ + whole.size() > limit_) {
    (void)rename(path_.c_str(), (path_ + ".1").c_str());
    open();
  }
  if (file_ >= 0 && writeAll(file_, whole)) size_ += whole.size();
}

void LogFile::open() {
  close();
  file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
  struct stat about{};
  size_ = file_ >= 0 && fstat(file_, &about) == 0 ? static_cast<std::size_t>(about.st_size) : 0;
}

void LogFile::close() {
  if (int old = std::exchange(file_, -1); old >= 0) ::close(old);
}

LogTail readLogTail(const std::string& path, std::size_t max_bytes) {
  LogTail tail;
  std::string newer = readEnd(path, max_bytes, tail.is_all);
  if (std::size_t room = max_bytes - newer.size(); tail.is_all && room > 0)
    newer = readEnd(path + ".1", room, tail.is_all) + newer;
  for (std::string_view line : split(newer, '\n'))
    if (!line.empty()) tail.lines.emplace_back(line);
  return tail;
}

}  // namespace cadre::node
