#include <CLI/CLI.hpp>

#include "base/format.h"
#include "base/strings.h"
#include "cli/cluster.h"
#include "cli/commands.h"
#include "cli/objects.h"
#include "cli/table.h"
#include "json/write.h"
#include "json/yaml.h"

namespace cadre::cli {

namespace {

struct GetFlags {
  ClusterFlags cluster;
  std::string kind;
  std::vector<std::string> names;
  std::string labels, output;
};

// What the API server itself would show as columns; plain lists where it cannot.
constexpr std::string_view kAsTable =
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

// No cell may move the cursor or colour what follows.
std::string cell(const json::Value& value) {
  return withoutControls(value.isString() ? value.string() : json::write(value));
}

struct TableStyle {
  bool wide = false;            // with the columns that the server holds for less important
  bool with_namespace = false;  // as the first column
  std::string name_prefix = {};
};

std::string printTable(const json::Value& table, const TableStyle& style) {
  Rows rows(1);
  if (style.with_namespace) rows[0].push_back("NAMESPACE");
  std::vector<std::size_t> shown;
  const json::Array& columns = table["columnDefinitions"].array();
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (columns[i]["priority"].integer() != 0 && !style.wide) continue;
    shown.push_back(i);
    std::string title = columns[i]["name"].string();
    for (char& c : title)
      if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    rows[0].push_back(std::move(title));
  }
  for (const json::Value& row : table["rows"].array()) {
    rows.emplace_back();
    if (style.with_namespace) rows.back().push_back(cell(row["object"]["metadata"]["namespace"]));
    for (std::size_t i : shown) {
      bool name = equalsIgnoreCase(columns[i]["name"].string(), "name");
      rows.back().push_back((name ? style.name_prefix : "") + cell(row["cells"].at(i)));
    }
  }
  return tableOf(rows);
}

Error wrong(std::string message) {
  return Error{.code = Code::InvalidArgument, .message = std::move(message)};
}

// One kind that is asked for, and what came.
struct Part : Named {
  std::vector<json::Value> answers = {};

  // "pods/", "deployments.apps/"
  std::string prefix() const {
    return resource.plural + (resource.group.empty() ? "" : "." + resource.group) + "/";
  }
};

// Everything that came as one object, or as one list, whose items then say what they are.
json::Value asOne(std::vector<Part>& parts) {
  if (parts.size() == 1 && parts[0].answers.size() == 1) return std::move(parts[0].answers[0]);
  json::Array items;
  for (Part& part : parts) {
    auto put = [&](const json::Value& item) {
      json::Object typed{{"apiVersion", part.resource.apiVersion()}, {"kind", part.resource.kind}};
      for (const auto& [key, value] : item.object()) typed.set(key, value);
      items.push_back(std::move(typed));
    };
    for (const json::Value& answer : part.answers) {
      if (!part.names.empty())
        put(answer);
      else
        for (const json::Value& item : answer["items"].array()) put(item);
    }
  }
  return json::Object{{"apiVersion", "v1"}, {"kind", "List"}, {"items", std::move(items)}};
}

std::string asNames(const std::vector<Part>& parts) {
  std::string out;
  for (const Part& part : parts)
    for (const json::Value& answer : part.answers) {
      if (!part.names.empty()) out += part.prefix() + cell(answer["metadata"]["name"]) + "\n";
      for (const json::Value& item : answer["items"].array())
        out += part.prefix() + cell(item["metadata"]["name"]) + "\n";
    }
  return out;
}

// One table per kind; where there are several, each name says its kind.
std::string asTables(const std::vector<Part>& parts, bool wide, bool all_namespaces) {
  std::string out;
  for (const Part& part : parts) {
    json::Value table = part.answers.front();
    json::Array rows;
    for (const json::Value& answer : part.answers)
      for (const json::Value& row : answer["rows"].array()) rows.push_back(row);
    if (rows.empty()) continue;
    table.make("rows") = std::move(rows);
    if (!out.empty()) out += "\n";
    out += printTable(table, {.wide = wide,
                              .with_namespace = all_namespaces && part.resource.namespaced,
                              .name_prefix = parts.size() > 1 ? part.prefix() : ""});
  }
  return out;
}

Result<std::string> get(const GetFlags& flags, const Surroundings& surroundings) {
  CADRE_LET(auto cluster, Cluster::connect(flags.cluster, surroundings));
  kube::Client& client = *cluster->client;
  CADRE_LET(auto discovery, cluster->discover());
  std::vector<std::string> words{flags.kind};
  words.insert(words.end(), flags.names.begin(), flags.names.end());
  CADRE_LET(auto named, namedBy(words, discovery));
  std::vector<Part> parts;
  parts.reserve(named.size());
  for (const Named& one : named) parts.push_back({one});
  bool table = flags.output.empty() || flags.output == "wide";
  for (Part& part : parts) {
    if (flags.cluster.all_namespaces && !part.names.empty())
      return wrong("a name needs one namespace: leave -A out");
    if (!flags.labels.empty() && !part.names.empty())
      return wrong("names and a selector exclude each other: leave one of them out");
    for (const std::string& name : part.names.empty() ? std::vector<std::string>{""} : part.names) {
      std::string target = part.resource.path(cluster->ns, name);
      if (!flags.labels.empty()) target += "?labelSelector=" + urlEncode(flags.labels);
      CADRE_LET(json::Value answer, cluster->await<json::Value>([&](auto done) {
        return client.request("GET", target, "", "", std::move(done),
                              std::string(table ? kAsTable : "application/json"));
      }));
      part.answers.push_back(std::move(answer));
    }
  }
  if (flags.output == "json") return json::writePretty(asOne(parts)) + "\n";
  if (flags.output == "yaml") return json::writeYaml(asOne(parts));
  if (flags.output == "name") return asNames(parts);
  std::string tables = asTables(parts, flags.output == "wide", flags.cluster.all_namespaces);
  if (tables.empty()) surroundings.err(nothingFound(named, cluster->ns));
  return tables;
}

}  // namespace

void addGet(CLI::App& app, const Surroundings& surroundings, int& exit_code) {
  auto flags = std::make_shared<GetFlags>();
  CLI::App* command = app.add_subcommand("get", "Show objects of a kind");
  flags->cluster.addTo(*command, Namespaces::Any);
  command
      ->add_option("kind", flags->kind,
                   "What to show: pods, po, deployments.apps, pods,services, pods/web, ...")
      ->required();
  command->add_option("name", flags->names, "Only these; or more of kind/name");
  command->add_option("-l,--selector", flags->labels,
                      "Only those with these labels: app=web,tier!=test");
  command
      ->add_option("-o,--output", flags->output,
                   "wide (a table with more columns), json, yaml or name (default: a table)")
      ->check(CLI::IsMember({"wide", "json", "yaml", "name"}));
  command->callback([&surroundings, &exit_code, flags] {
    auto text = get(*flags, surroundings);
    if (text)
      surroundings.out(*text);
    else
      exit_code = fail(surroundings, text.error().text());
  });
}

}  // namespace cadre::cli
