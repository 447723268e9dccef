#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "kinds/kaos/settings.h"

namespace cadre::kaos {

// How a kind of MCP server is run.
struct Runtime {
  std::string image;
  std::vector<std::string> command, args;
  std::string params_env;  // the variable that `params` goes into
  bool stdio = false;      // speaks over its standard streams: runs behind the bridge
  std::vector<std::string> required_env;
  std::optional<int> run_as_user;
  bool read_only_root = false;
  bool needs_token = false;
  bool built_in = false;
};

inline constexpr std::string_view kRegistryName = "kaos-mcp-runtimes";
inline constexpr std::string_view kRegistryKey = "runtimes.yaml";

// The runtime of that name: registered in the ConfigMap's text, else built in. NotFound when there
// is none; InvalidArgument when its entry, or the whole text, cannot be used.
Result<Runtime> findRuntime(const Settings& settings, const std::string& registry_yaml,
                            const std::string& name);

}  // namespace cadre::kaos
