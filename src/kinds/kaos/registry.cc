#include "kinds/kaos/registry.h"

#include <cstdint>
#include <limits>

#include "base/format.h"
#include "json/yaml.h"

namespace cadre::kaos {
namespace {

constexpr std::int64_t kMaxUser = std::numeric_limits<std::int32_t>::max();

Result<std::vector<std::string>> words(const json::Value& entry, std::string_view field) {
  std::vector<std::string> list;
  if (!entry[field].isNull() && !entry[field].isArray())
    return Error{.code = Code::InvalidArgument, .message = format("{} must be a list", field)};
  for (const json::Value& word : entry[field].array()) {
    if (!word.isString())
      return Error{.code = Code::InvalidArgument,
                   .message = format("{} must be a list of texts", field)};
    list.push_back(word.string());
  }
  return list;
}

std::optional<Runtime> builtIn(const Settings& settings, const std::string& name) {
  if (name == "python-string")
    return Runtime{.image = settings.mcp_python_image,
                   .params_env = "MCP_TOOLS_STRING",
                   .read_only_root = true,
                   .built_in = true};
  if (name == "kubernetes")
    return Runtime{.image = settings.mcp_kubernetes_image,
                   .args = {"--port", "8000"},
                   .needs_token = true,
                   .built_in = true};
  if (name == "slack")
    return Runtime{.image = settings.mcp_slack_image,
                   .args = {"--transport", "http", "--port", "8000"},
                   .required_env = {"SLACK_BOT_TOKEN", "SLACK_TEAM_ID"},
                   .built_in = true};
  return std::nullopt;
}

Result<Runtime> parseEntry(const json::Value& entry, std::optional<Runtime> base) {
  auto invalid = [](std::string why) {
    return Error{.code = Code::InvalidArgument, .message = std::move(why)};
  };
  if (!entry.isObject()) return invalid("it is no object");
  for (std::string_view field : {"image", "paramsEnvVar", "transport"})
    if (!entry[field].isNull() && !entry[field].isString())
      return invalid(format("{} must be a text", field));
  const json::Value &user = entry["runAsUser"], &read_only = entry["readOnlyRootFilesystem"];
  if (!user.isNull() && (!user.isInteger() || user.integer() < 1 || user.integer() > kMaxUser))
    return invalid("runAsUser must be a number from 1 on");
  if (!read_only.isNull() && !read_only.isBool())
    return invalid("readOnlyRootFilesystem must be true or false");
  Runtime runtime = base.value_or(Runtime{});
  runtime.built_in = false;
  if (!entry["image"].isNull()) {
    runtime.image = entry["image"].string();
    runtime.read_only_root = false;  // it is not ours
  }
  if (runtime.image.empty()) return invalid("it has no image");
  auto command = words(entry, "command"), args = words(entry, "args"),
       required = words(entry, "requiredEnv");
  for (const auto* list : {&command, &args, &required})
    if (!*list) return list->error();
  if (!entry["command"].isNull()) runtime.command = *command;
  if (!entry["args"].isNull()) runtime.args = *args;
  // Flags written under `command` are arguments: nothing can be run by that name.
  if (!runtime.command.empty() && runtime.command[0].starts_with("-")) {
    runtime.args.insert(runtime.args.begin(), runtime.command.begin(), runtime.command.end());
    runtime.command.clear();
  }
  if (!entry["requiredEnv"].isNull()) runtime.required_env = *required;
  if (!entry["paramsEnvVar"].isNull()) runtime.params_env = entry["paramsEnvVar"].string();
  const std::string& transport = entry["transport"].string();
  if (!transport.empty() && transport != "stdio" && transport != "http" &&
      transport != "streamable-http")
    return invalid(format("transport is \"{}\", not http or stdio", transport));
  runtime.stdio = transport == "stdio";
  if (runtime.stdio && runtime.command.empty()) return invalid("transport stdio needs a command");
  if (!user.isNull()) runtime.run_as_user = static_cast<int>(user.integer());
  if (!read_only.isNull()) runtime.read_only_root = read_only.boolean();
  return runtime;
}

// All plans look at the same text.
const Result<std::vector<json::Document>>& parsedRegistry(const std::string& text) {
  struct Memory {
    std::string text;
    Result<std::vector<json::Document>> documents = std::vector<json::Document>();
  };
  thread_local Memory memory;
  if (memory.text != text) memory = {text, json::parseYaml(text, kRegistryKey)};
  return memory.documents;
}

}  // namespace

Result<Runtime> findRuntime(const Settings& settings, const std::string& registry_yaml,
                            const std::string& name) {
  std::optional<Runtime> base = builtIn(settings, name);
  const auto& documents = parsedRegistry(registry_yaml);
  if (!documents) {
    if (base) return *base;  // a broken text spoils only what is in it
    return Error{.code = Code::InvalidArgument,
                 .message = format("ConfigMap {}/{}: {}", settings.system_namespace, kRegistryName,
                                   documents.error().message)};
  }
  if (!documents->empty()) {
    const json::Value& entry = documents->front().value["runtimes"][name];
    if (!entry.isNull()) {
      auto runtime = parseEntry(entry, base);
      if (runtime) return runtime;
      return Error{
          .code = Code::InvalidArgument,
          .message = format("runtime \"{}\" in ConfigMap {}/{} cannot be used: {}", name,
                            settings.system_namespace, kRegistryName, runtime.error().message)};
    }
  }
  if (base) return *base;
  return Error{.code = Code::NotFound,
               .message = format("Failed to construct Deployment: unknown runtime: {} (not found "
                                 "in registry)",
                                 name)};
}

}  // namespace cadre::kaos
