#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <set>

#include "base/format.h"
#include "base/strings.h"
#include "cli/commands.h"
#include "cli/objects.h"

namespace cadre::cli {
namespace {

// How long a person who pressed the key may wait for the cluster.
constexpr Duration kPatience = 2s;
// Tells the shell's script to offer files.
constexpr std::string_view kFiles = ":files";

// What each shell needs to ask `cadre complete` for what it may offer. The program knows its own
// commands and flags, so that none of these is ever out of date.
constexpr std::string_view kBash = R"(# cadre completions bash: source <(cadre completions bash)
_cadre() {
  local lines line
  COMPREPLY=()
  mapfile -t lines < <(cadre complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
  if [[ ${lines[0]} == ":files" ]]; then
    compopt -o default
    return
  fi
  for line in "${lines[@]}"; do
    COMPREPLY+=("${line%%$'\t'*}")
  done
}
complete -F _cadre cadre
)";
constexpr std::string_view kZsh = R"(#compdef cadre
# cadre completions zsh: source <(cadre completions zsh)
_cadre() {
  local -a lines shown
  local line
  lines=("${(@f)$(cadre complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ $lines[1] == ":files" ]]; then
    _files
    return
  fi
  for line in $lines; do
    shown+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
  done
  _describe cadre shown
}
compdef _cadre cadre
)";
constexpr std::string_view kFish = R"(# cadre completions fish: cadre completions fish | source
function __cadre_complete
  set -l words (commandline -opc) (commandline -ct)
  set -l lines (cadre complete $words[2..-1] 2>/dev/null)
  if test "$lines[1]" = ":files"
    __fish_complete_path (commandline -ct)
  else
    printf '%s\n' $lines
  end
end
complete -c cadre -f -a '(__cadre_complete)'
)";

bool isHidden(const CLI::App& command) { return command.get_group().empty(); }

const CLI::Option* flagOf(const CLI::App& command, std::string_view word) {
  std::string name(cut(word, "=").first);
  for (const CLI::Option* option : command.get_options())
    if (!option->get_positional() || option->nonpositional())
      if (option->check_name(name)) return option;
  return nullptr;
}

// A command line up to the word that is being written.
struct Line {
  const CLI::App* command;
  const CLI::Option* awaited = nullptr;       // the flag whose value is being written
  std::vector<std::string> positional;        // words that are no flags, after the command
  std::map<std::string, std::string> values;  // of flags, by their longest name

  static std::string longName(const CLI::Option& option) {
    return option.get_lnames().empty() ? option.get_snames().at(0) : option.get_lnames()[0];
  }

  static Line read(const CLI::App& app, const std::vector<std::string>& words) {
    Line line{.command = &app};
    for (const std::string& word : words) {
      if (line.awaited) {
        line.values[longName(*line.awaited)] = word;
        line.awaited = nullptr;
      } else if (word.starts_with("-")) {
        line.takeFlag(word);
      } else {
        line.takeWord(word);
      }
    }
    return line;
  }

 private:
  void takeFlag(const std::string& word) {
    const CLI::Option* option = flagOf(*command, word);
    if (!option || option->get_expected_max() == 0) return;
    if (word.find('=') == word.npos)
      awaited = option;
    else
      values[longName(*option)] = cut(word, "=").second;
  }

  void takeWord(const std::string& word) {
    for (const CLI::App* below : command->get_subcommands({}))
      if (positional.empty() && below->get_name() == word) {
        command = below;
        return;
      }
    positional.push_back(word);
  }
};

using Offers = std::vector<std::pair<std::string, std::string>>;  // and what each is

// The words of "TEXT:{wide,json,yaml}": what a flag's value may be.
Offers choicesOf(const CLI::Option& option) {
  Offers offers;
  std::string type = option.get_type_name();
  std::string_view inside = cut(cut(type, "{").second, "}").first;
  for (std::string_view word : split(inside, ','))
    if (!word.empty()) offers.emplace_back(word, "");
  return offers;
}

Offers flagsOf(const CLI::App& command) {
  Offers offers;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_group().empty()) continue;
    for (const std::string& name : option->get_lnames())
      offers.emplace_back("--" + name, option->get_description());
    for (const std::string& name : option->get_snames())
      offers.emplace_back("-" + name, option->get_description());
  }
  return offers;
}

Offers commandsOf(const CLI::App& command) {
  Offers offers;
  for (const CLI::App* below : command.get_subcommands({}))
    if (!isHidden(*below)) offers.emplace_back(below->get_name(), below->get_description());
  return offers;
}

// What the cluster of the command line has.
class Asking {
 public:
  static Result<Asking> connect(const Line& line, const Surroundings& surroundings) {
    auto value = [&](const char* name) {
      auto found = line.values.find(name);
      return found == line.values.end() ? std::string() : found->second;
    };
    ClusterFlags flags{
        .kubeconfig = value("kubeconfig"), .context = value("context"), .ns = value("namespace")};
    Asking asking;
    CADRE_LET(asking.cluster_, Cluster::connect(flags, surroundings, {.timeout = kPatience}));
    CADRE_LET(asking.discovery_, asking.cluster_->discover());
    return asking;
  }

  Offers kinds() const {
    Offers offers;
    std::set<std::string> seen;
    for (const kube::ServedResource& served : discovery_.resources()) {
      if (std::ranges::find(served.verbs, "list") == served.verbs.end()) continue;
      const kube::Resource& resource = served.resource;
      std::string name = resource.plural;
      // Of two groups that have the same name, the second needs to be told.
      if (discovery_.named(name)->resource.group != resource.group) name += "." + resource.group;
      if (seen.insert(name).second) offers.emplace_back(name, resource.kind);
    }
    return offers;
  }

  Offers names(std::string_view kind, const std::string& prefix) {
    Offers offers;
    const kube::ServedResource* served = discovery_.named(kind);
    if (!served) return offers;
    std::string ns = served->resource.namespaced ? cluster_->ns : "";
    auto items = cluster_->await<std::vector<json::Value>>([&](auto done) {
      return cluster_->client->list(served->resource, {.select = {.ns = ns}}, std::move(done));
    });
    if (!items) return offers;
    for (const json::Value& item : *items)
      offers.emplace_back(prefix + std::string(kube::name(item)), served->resource.kind);
    return offers;
  }

 private:
  std::unique_ptr<Cluster> cluster_;
  kube::Discovery discovery_;
};

void append(Offers& offers, Offers more) {
  offers.insert(offers.end(), std::make_move_iterator(more.begin()),
                std::make_move_iterator(more.end()));
}

// Kinds, then names of the kind; or kind/name.
Offers objectsFor(const Line& line, const std::string& word, bool pods,
                  const Surroundings& surroundings) {
  auto asking = Asking::connect(line, surroundings);
  if (!asking) return {};
  if (auto [kind, name] = cut(word, "/"); kind.size() < word.size())
    return asking->names(kind, std::string(kind) + "/");
  if (!line.positional.empty()) return asking->names(line.positional[0], "");
  Offers offers = pods ? asking->names("pods", "") : Offers();
  append(offers, asking->kinds());
  return offers;
}

Offers valuesOf(const CLI::Option& option, const Line& line, const Surroundings& surroundings) {
  std::string name = Line::longName(option);
  if (name == "filename" || name == "kubeconfig" || name == "data" || name == "config")
    return {{std::string(kFiles), ""}};
  if (name == "namespace") {
    auto asking = Asking::connect(line, surroundings);
    return asking ? asking->names("namespaces", "") : Offers();
  }
  return choicesOf(option);
}

Offers offersFor(const Line& line, const std::string& word, const Surroundings& surroundings) {
  if (line.awaited) return valuesOf(*line.awaited, line, surroundings);
  if (word.starts_with("-")) return flagsOf(*line.command);
  if (Offers below = commandsOf(*line.command); !below.empty() && line.positional.empty())
    return below;
  for (const CLI::Option* option : line.command->get_options()) {
    if (!option->get_positional()) continue;
    std::string name = option->get_name(/*positional=*/true);
    if (name == "SHELL") return choicesOf(*option);
    if (name == "FILE") return {{std::string(kFiles), ""}};
    if (name == "kind" || name == "name" || name.starts_with("KIND") || name == "POD")
      return objectsFor(line, word, name == "POD", surroundings);
  }
  return {};
}

}  // namespace

int complete(const CLI::App& app, const std::vector<std::string>& words,
             const Surroundings& surroundings) {
  std::string last = words.empty() ? "" : words.back();
  std::vector<std::string> before(words.begin(), words.end() - (words.empty() ? 0 : 1));
  Line line = Line::read(app, before);
  for (const auto& [offer, what] : offersFor(line, last, surroundings))
    if (offer.starts_with(last) || offer == kFiles)
      surroundings.out(withoutControls(offer) + (what.empty() ? "" : "\t" + withoutControls(what)) +
                       "\n");
  return 0;
}

void addCompletions(CLI::App& app, const Surroundings& surroundings, int& exit_code) {
  auto shell = std::make_shared<std::string>();
  auto* command = app.add_subcommand(
      "completions", "Print what makes a shell complete commands, flags, kinds and names");
  command->add_option("SHELL", *shell, "bash, zsh or fish; put its output where the shell reads it")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command->callback([shell, &surroundings, &exit_code] {
    surroundings.out(*shell == "bash" ? kBash : *shell == "zsh" ? kZsh : kFish);
    exit_code = 0;
  });
}

}  // namespace cadre::cli
