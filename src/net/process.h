#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/function.h"
#include "base/result.h"
#include "net/loop.h"

namespace cadre::net {

struct ProcessOptions {
  std::vector<std::string> argv;           // the program is looked up in PATH; no shell is involved
  std::map<std::string, std::string> env;  // the whole environment: nothing is inherited
  std::string directory;                   // empty: ours
  std::string input;                       // written to its stdin, which is then closed
  // It may talk with the person at the terminal: it keeps our stdin, stderr and process group.
  bool interactive = false;
  std::size_t max_output_bytes =
      1 << 20;             // of stdout and of stderr each; what is more is thrown away
  Duration timeout = 60s;  // then it is killed with all its descendants in its group
};

struct ProcessResult {
  int exit_code = 0;   // 128 + signal when a signal ended it
  std::string output;  // stdout
  std::string errors;  // stderr
  bool truncated = false;
  bool timed_out = false;
};

// Runs a program and hands back how it ended. Fails only when it cannot be started. It gets its own
// process group; dropping the Pending kills the group. The child holds no file of ours but its
// three pipes, and is killed when the thread that started it ends, be it with the whole process.
Pending runProcess(Loop& loop, ProcessOptions options, Function<void(Result<ProcessResult>)> done);

// A program that is talked with while it runs. Dropping it kills it.
class Conversation {
 public:
  virtual ~Conversation() = default;
  virtual void write(std::string_view piece) = 0;  // to its stdin
  virtual std::size_t backlog() const = 0;         // what it has not read of that yet
  virtual void closeInput() = 0;
  virtual void resize(int rows, int columns) = 0;  // of its terminal
};

struct ConversationOptions {
  ProcessOptions process;  // without a timeout, and with output as it comes
  bool terminal = false;   // it gets one; all that it says is then output
  bool input = false;      // it is open until closeInput()
  Function<void(bool errors, std::string_view piece)> said;
  Function<bool()> full;  // whoever listens is behind: nothing is read meanwhile
  Function<void(Result<int> exit_code)> ended;
};
std::unique_ptr<Conversation> talk(Loop& loop, ConversationOptions options);

// Calls back once when a process that need not be our child has ended, or if there is none of that
// id.
Pending onProcessEnd(Loop& loop, int process, Function<void()> ended);

// This process's environment, for programs that need it (exec plugins).
std::map<std::string, std::string> currentEnvironment();

}  // namespace cadre::net
