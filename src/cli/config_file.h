#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace CLI {
class App;
}

namespace cadre::cli {

// Settings from a YAML file, for a command that is being run. Its keys are the names of flags; maps
// may be nested, so that {kaos: {agent-image: x}} is --kaos-agent-image x. What a flag or its
// environment variable says beats the file. The error names the file, the line and the key.
Result<> applySettings(CLI::App& command, std::string_view text, const std::string& file);

}  // namespace cadre::cli
