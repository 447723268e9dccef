#include "kube/validate.h"

#include <CLI/CLI.hpp>

#include "base/format.h"
#include "base/strings.h"
#include "cli/commands.h"
#include "cli/files.h"
#include "cli/systems.h"

namespace cadre::cli {
namespace {

// "spec.a[0].b" as a JSON pointer, to find its line.
std::string pointerOf(std::string_view path) {
  std::string pointer;
  for (std::string_view part : split(path, '.')) {
    auto [name, index] = cut(part, "[");
    pointer += format("/{}", name);
    while (!index.empty()) {
      auto [number, rest] = cut(index, "]");
      pointer += format("/{}", number);
      index = rest.starts_with("[") ? rest.substr(1) : std::string_view();
    }
  }
  return pointer;
}

bool isOurs(const Systems& systems, const json::Value& object) {
  std::string_view group = cut(object["apiVersion"].string(), "/").first;
  for (const kube::Kind* kind : systems.kinds())
    if (kind->resource().group == group) return true;
  return false;
}

int validateFiles(const std::vector<std::string>& paths, const Surroundings& surroundings) {
  Systems systems;
  auto objects = readObjects(paths);
  if (!objects) {
    fail(surroundings, objects.error().text());
    return 2;
  }
  int wrong = 0, checked = 0, passed_over = 0;
  for (const FromFile& one : *objects) {
    const json::Value& object = one.document.value;
    if (object["apiVersion"].string().empty() || object["kind"].string().empty()) {
      surroundings.out(
          withoutControls(format("{}:{}: this is no object: give it an apiVersion and a kind",
                                 one.file, one.document.line)) +
          "\n");
      ++checked, ++wrong;
      continue;
    }
    const kube::Kind* kind = findKind(systems, object);
    if (!kind && isOurs(systems, object)) {
      surroundings.out(
          withoutControls(format("{}:{}: there is no kind {} in {}", one.file, one.document.line,
                                 object["kind"].string(), object["apiVersion"].string())) +
          "\n");
      ++checked, ++wrong;
    } else if (!kind) {  // the API server's business
      ++passed_over;
    }
    if (!kind) continue;
    ++checked;
    kube::Validation validation = kube::validate(*kind, object);
    auto say = [&](std::string_view path, std::string_view how, const std::string& text) {
      surroundings.out(withoutControls(format("{}:{}: {} {}: {}{}", one.file,
                                              one.document.lineOf(pointerOf(path)), kind->kind,
                                              kube::name(object), how, text)) +
                       "\n");
    };
    for (const auto& error : validation.errors) say(error.path, "", error.text());
    for (const auto& error : validation.unknown) say(error.path, "", error.text());
    for (const std::string& warning : validation.warnings)
      say(cut(warning, ":").first, "warning: ", warning);
    wrong += !validation.errors.empty() || !validation.unknown.empty();
  }
  surroundings.err(format("{} of {} objects are right", checked - wrong, checked));
  if (passed_over > 0)
    surroundings.err(format("; {} of other kinds were not looked at", passed_over));
  surroundings.err("\n");
  return wrong || checked == 0 ? 1 : 0;
}

}  // namespace

void addValidate(CLI::App& app, const Surroundings& surroundings, int& exit_code) {
  auto paths = std::make_shared<std::vector<std::string>>();
  auto* command = app.add_subcommand("validate", "Check manifests before they are applied");
  command->add_option("-f,--filename", *paths, "File, folder, or - for the standard input")
      ->required();
  command->callback(
      [paths, &surroundings, &exit_code] { exit_code = validateFiles(*paths, surroundings); });
}

}  // namespace cadre::cli
