#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace cadre::node {

inline constexpr std::size_t kMaxLogBytes = 10u << 20;

// "TIME stdout F text", as container runtimes write it; P instead of F where a line goes on.
std::string logLine(std::string_view time, std::string_view stream, std::string_view text,
                    bool whole);

// False: not all of it could be written.
bool writeAll(int descriptor, std::string_view text);

// What a container prints, line by line. When it is full it becomes PATH.1, and that is gone. Never
// holds anybody up: what a full disk does not take is lost.
class LogFile {
 public:
  explicit LogFile(std::string path, std::size_t max_bytes = kMaxLogBytes);
  ~LogFile();
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;

  void add(std::string_view line);  // without its end

 private:
  void open();
  void close();

  const std::string path_;
  const std::size_t limit_;
  std::size_t size_ = 0;
  int file_ = -1;
};

// The last lines of a log, for whoever goes on with it: of PATH.1 and PATH.
struct LogTail {
  std::vector<std::string> lines;
  bool is_all = true;  // there are no others
};

// A line without its end, which a kill has left, is taken out of the file.
LogTail readLogTail(const std::string& path, std::size_t max_bytes);

}  // namespace cadre::node
