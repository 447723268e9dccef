#pragma once

#include <memory>
#include <optional>

#include "base/function.h"
#include "net/loop.h"

namespace cadre::net {

// What a person, or another program, types into this one. Dropping it leaves stdin as it was.
class Typing {
 public:
  struct Handler {
    Function<void(std::string_view piece)> typed;
    Function<void()> ended;
    Function<bool()> full;  // whoever listens is behind: nothing is read meanwhile
  };
  // `raw`: every key as it is pressed, when it is a terminal.
  static std::unique_ptr<Typing> begin(Loop& loop, bool raw, Handler handler);
  virtual ~Typing() = default;
};

bool isTerminal(int descriptor);

struct TerminalSize {
  int rows = 0, columns = 0;
};
// None: it is no terminal.
std::optional<TerminalSize> terminalSize(int descriptor);

}  // namespace cadre::net
