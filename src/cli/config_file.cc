#include "cli/config_file.h"

#include <CLI/CLI.hpp>

#include "base/format.h"
#include "base/strings.h"
#include "json/write.h"
#include "json/yaml.h"

namespace cadre::cli {
namespace {

class Settings {
 public:
  Settings(CLI::App& command, const json::Document& document, const std::string& file)
      : command_(command), document_(document), file_(file) {}

  Result<> apply(const json::Value& value, const std::string& name, const std::string& pointer) {
    if (value.isObject()) {
      for (const auto& [key, member] : value.object())
        CADRE_TRY(apply(member, name.empty() ? key : format("{}-{}", name, key),
                        format("{}/{}", pointer, key)));
      return {};
    }
    CLI::Option* option =
        name == "config" || name == "help" ? nullptr : command_.get_option_no_throw("--" + name);
    if (!option) return wrong(pointer, format("there is no setting \"{}\"", name));
    if (option->count() > 0 || value.isNull()) return {};
    try {
      if (value.isArray()) {
        for (const json::Value& element : value.array()) option->add_result(textOf(element));
      } else {
        option->add_result(textOf(value));
      }
      option->run_callback();
    } catch (const CLI::Error& error) {
      return wrong(pointer, error.what());
    }
    return {};
  }

 private:
  static std::string textOf(const json::Value& value) {
    return value.isString() ? value.string() : json::write(value);
  }
  Error wrong(const std::string& pointer, std::string_view why) const {
    return {.code = Code::InvalidArgument,
            .message = format("{}:{}: {}", file_, document_.lineOf(pointer), why)};
  }

  CLI::App& command_;
  const json::Document& document_;
  const std::string& file_;
};

}  // namespace

Result<> applySettings(CLI::App& command, std::string_view text, const std::string& file) {
  CADRE_LET(auto documents, json::parseYaml(text, file));
  if (documents.empty()) return {};
  if (documents.size() > 1 || !(documents[0].value.isObject() || documents[0].value.isNull()))
    return Error{.code = Code::InvalidArgument,
                 .message = format("{}: settings are one map, of names and values", file)};
  if (documents[0].value.isNull()) return {};
  return Settings(command, documents[0], file).apply(documents[0].value, "", "");
}

}  // namespace cadre::cli
