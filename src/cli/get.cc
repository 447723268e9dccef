#include <CLI/CLI.hpp>

#include "base/format.h"
#include "base/strings.h"
#include "cli/cluster.h"
#include "cli/commands.h"
#include "json/write.h"
#include "json/yaml.h"
#include "kube/discovery.h"

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
  std::string text = value.isString() ? value.string() : json::write(value);
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  return text;
}

std::string printTable(const json::Value& table, bool with_namespace) {
  std::vector<std::vector<std::string>> rows(1);
  if (with_namespace) rows[0].push_back("NAMESPACE");
  std::vector<std::size_t> shown;
  const json::Array& columns = table["columnDefinitions"].array();
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (columns[i]["priority"].integer() != 0) continue;  // only wide output shows those
    shown.push_back(i);
    std::string title = columns[i]["name"].string();
    for (char& c : title)
      if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    rows[0].push_back(std::move(title));
  }
  for (const json::Value& row : table["rows"].array()) {
    rows.emplace_back();
    if (with_namespace) rows.back().push_back(cell(row["object"]["metadata"]["namespace"]));
    for (std::size_t i : shown) rows.back().push_back(cell(row["cells"].at(i)));
  }
  std::vector<std::size_t> widths;
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (widths.size() <= i) widths.push_back(0);
      widths[i] = std::max(widths[i], row[i].size());
    }
  std::string out;
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i)
      out += i + 1 < row.size() ? row[i] + std::string(widths[i] - row[i].size() + 3, ' ') : row[i];
    out += '\n';
  }
  return out;
}

Result<std::string> get(const GetFlags& flags, const Surroundings& surroundings) {
  CADRE_LET(auto cluster, Cluster::connect(flags.cluster, surroundings));
  kube::Client& client = *cluster->client;
  CADRE_LET(auto discovery, cluster->await<kube::Discovery>([&](auto done) {
    return kube::Discovery::load(client, std::move(done));
  }));
  const kube::ServedResource* served = discovery.named(flags.kind);
  if (!served)
    return Error{.code = Code::NotFound,
                 .message = format(
                     "the cluster serves no \"{}\"; check the spelling, or install the CRD first",
                     shorten(flags.kind, 100))};
  const kube::Resource& resource = served->resource;
  if (flags.cluster.all_namespaces && !flags.names.empty())
    return Error{.code = Code::InvalidArgument,
                 .message = "a name needs one namespace: leave -A out"};

  for (const std::string& name : flags.names)
    if (name.empty()) return Error{.code = Code::InvalidArgument, .message = "a name is empty"};
  if (!flags.labels.empty() && !flags.names.empty())
    return Error{.code = Code::InvalidArgument,
                 .message = "names and a selector exclude each other: leave one of them out"};

  bool table = flags.output.empty();
  auto ask = [&](const std::string& name) {
    std::string target = resource.path(cluster->ns, name);
    if (name.empty() && !flags.labels.empty())
      target += "?labelSelector=" + urlEncode(flags.labels);
    return cluster->await<json::Value>([&](auto done) {
      return client.request("GET", target, "", "", std::move(done),
                            std::string(table ? kAsTable : "application/json"));
    });
  };

  json::Value answer;
  if (flags.names.empty()) {
    CADRE_LET(answer, ask(""));
  } else {
    // Several names make a list, as kubectl prints it.
    json::Array items, rows;
    for (const std::string& name : flags.names) {
      CADRE_LET(json::Value one, ask(name));
      for (const json::Value& row : one["rows"].array()) rows.push_back(row);
      if (items.empty()) answer = one;
      items.push_back(std::move(one));
    }
    if (table)
      answer.make("rows") = std::move(rows);
    else if (items.size() > 1)
      answer = json::Object{{"apiVersion", "v1"}, {"kind", "List"}, {"items", std::move(items)}};
  }

  if (flags.output == "json") return json::writePretty(answer) + "\n";
  if (flags.output == "yaml") return json::writeYaml(answer);
  if (flags.output == "name") {
    std::string out;
    std::string prefix =
        resource.plural + (resource.group.empty() ? "" : "." + resource.group) + "/";
    const json::Array& items = answer["items"].array();
    for (const json::Value& item : items) out += prefix + std::string(kube::name(item)) + "\n";
    if (!answer["items"].isArray()) out += prefix + std::string(kube::name(answer)) + "\n";
    return out;
  }
  if (answer["rows"].array().empty()) {
    surroundings.err(cluster->ns.empty() || !resource.namespaced
                         ? format("no {} found\n", resource.plural)
                         : format("no {} found in namespace {}\n", resource.plural, cluster->ns));
    return "";
  }
  return printTable(answer, flags.cluster.all_namespaces && resource.namespaced);
}

}  // namespace

void addGet(CLI::App& app, const Surroundings& surroundings, int& exit_code) {
  auto flags = std::make_shared<GetFlags>();
  CLI::App* command = app.add_subcommand("get", "Show objects of a kind");
  flags->cluster.addTo(*command, /*with_namespaces=*/true);
  command->add_option("kind", flags->kind, "What to show: pods, po, deployments.apps, ...")
      ->required();
  command->add_option("name", flags->names, "Only these");
  command->add_option("-l,--selector", flags->labels,
                      "Only those with these labels: app=web,tier!=test");
  command->add_option("-o,--output", flags->output, "json, yaml or name (default: a table)")
      ->check(CLI::IsMember({"json", "yaml", "name"}));
  command->callback([&surroundings, &exit_code, flags] {
    auto text = get(*flags, surroundings);
    if (text)
      surroundings.out(*text);
    else
      exit_code = fail(surroundings, text.error().text());
  });
}

}  // namespace cadre::cli
