#include "cli/doctor.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/format.h"
#include "base/strings.h"
#include "cli/commands.h"
#include "cli/table.h"
#include "cli/up_file.h"
#include "json/write.h"

namespace cadre::cli {
namespace {

constexpr std::uint64_t kMebibyte = 1u << 20;
constexpr std::uint64_t kLittleSpace = 1024 * kMebibyte, kNoSpace = 32 * kMebibyte;
constexpr std::uint64_t kFewFiles = 10'000, kNoFiles = 100;
// `cadre up` has some twenty open, two more for each pod and one for each port of a Service.
constexpr std::uint64_t kFewOpenFiles = 1024;

std::string sizeOf(std::uint64_t bytes) {
  if (bytes < 1024 * kMebibyte) return format("{} MiB", bytes / kMebibyte);
  return format("{:.1f} GiB", static_cast<double>(bytes) / (1024.0 * kMebibyte));
}

Finding kernel(const Machine& machine) {
  std::string is = format("Linux {}", machine.kernel);
  if (!machine.pidfd)
    return {"kernel", Standing::Missing, is + " has no pidfd_open: no process can be followed",
            "use Linux 5.6 or later"};
  if (!machine.openat2)
    return {"kernel", Standing::Limited, is + " has no openat2: `cadre restore` does not work",
            "use Linux 5.6 or later"};
  return {"kernel", Standing::Ok, is};
}

Finding docker(const Machine& machine) {
  if (machine.docker) {
    const Engine& engine = *machine.docker;
    return {"docker", Standing::Ok,
            format("version {} answers at {}; {}", engine.version, engine.socket,
                   engine.network.empty() ? "the first pod makes a network of its own"
                                          : "its pods are in the network " + engine.network)};
  }
  bool alone = !machine.sandbox;
  Standing standing = alone ? Standing::Missing : Standing::Limited;
  std::string means = alone ? "nothing else runs pods" : "no images from registries";
  const Error& error = machine.docker.error();
  switch (error.code) {
    case Code::NotFound:
      return {"docker", standing, format("there is no {}; {}", machine.docker_socket, means),
              "sudo apt-get install docker.io"};
    case Code::Forbidden:
      return {"docker", standing,
              format("{} is not open to this user; {}", machine.docker_socket, means),
              "sudo usermod -aG docker $USER, then log in again"};
    case Code::InvalidArgument:
      return {"docker", standing, format("{}; {}", error.text(), means), "unset DOCKER_HOST"};
    default:
      return {"docker", standing, format("{}; {}", error.text(), means),
              "sudo systemctl restart docker"};
  }
}

Finding processes(const Machine& machine) {
  if (machine.sandbox)
    return {"processes", Standing::Ok, "bubblewrap makes user, mount and pid namespaces"};
  Standing standing = machine.docker ? Standing::Limited : Standing::Missing;
  std::string means =
      machine.docker ? "`--runtime process` does not work" : "pods cannot run as processes";
  if (machine.sandbox.error().code == Code::NotFound)
    return {"processes", standing, "there is no bubblewrap; " + means,
            "sudo apt-get install bubblewrap"};
  return {"processes", standing, format("{}; {}", machine.sandbox.error().text(), means),
          machine.closed_settings.empty()
              ? "let whoever runs this machine or container allow user namespaces"
              : "sudo sysctl -w " + join(machine.closed_settings, " ")};
}

Finding runtime(const Machine& machine) {
  std::string_view chosen = runtimeOf(machine);
  if (chosen == "docker")
    return {"runtime", Standing::Ok, "auto is docker: pods run as containers"};
  if (chosen == "process")
    return {"runtime", Standing::Ok,
            "auto is process: pods run as processes of this machine, in its network"};
  return {"runtime", Standing::Missing, "nothing here can run a pod",
          "put docker or processes right, as said above"};
}

std::string namesOf(const Limits& limits, bool kept) {
  std::vector<std::string> names;
  if (limits.memory == kept) names.emplace_back("memory");
  if (limits.processors == kept) names.emplace_back("processors");
  if (limits.processes == kept) names.emplace_back("the number of processes");
  return join(names, ", ");
}

Finding limits(const Machine& machine) {
  const bool docker = runtimeOf(machine) == "docker";
  const Limits& kept = docker ? machine.docker->limits : machine.process_limits;
  std::string of = docker ? "of containers" : "of processes";
  if (namesOf(kept, false).empty())
    return {"limits", Standing::Ok, format("{}: {} are limited", of, namesOf(kept, true))};
  std::string remedy;
  if (!docker && machine.docker && machine.docker->limits.memory)
    remedy = "cadre up --runtime docker";
  if (namesOf(kept, true).empty())
    return {"limits", Standing::Limited,
            format("{}: nothing is limited, one pod can take the whole machine", of), remedy};
  return {"limits", Standing::Limited,
          format("{}: {} limited, {} not", of, namesOf(kept, true), namesOf(kept, false)), remedy};
}

Finding policies(const Machine& machine) {
  if (runtimeOf(machine) != "docker")
    return {
        "policies", Standing::Limited,
        "of processes: a NetworkPolicy is taken and not enforced, every pod reaches every other",
        "for what must be kept apart use Docker or a cluster"};
  if (machine.filters)
    return {"policies", Standing::Ok,
            "of containers: a NetworkPolicy is enforced; the node and the API are always reached"};
  if (machine.filters.error().code == Code::Forbidden)
    return {
        "policies", Standing::Limited,
        format("of containers: nobody knows whether a NetworkPolicy can be enforced ({}); where "
               "it cannot, pods that one selects do not start",
               machine.filters.error().text()),
        "sudo cadre doctor"};
  return {"policies", Standing::Limited,
          format("of containers: a NetworkPolicy cannot be enforced ({}), pods that one selects do "
                 "not start",
                 machine.filters.error().text()),
          "use a kernel with nf_tables and nft_ct"};
}

Finding addresses(const Machine& machine) {
  if (machine.any_address)
    return {"addresses", Standing::Ok, "pods and Services can have addresses of the loopback"};
  return {"addresses", Standing::Missing,
          format("no other address of the loopback than 127.0.0.1 can be used ({})",
                 machine.any_address.error().text()),
          "sudo ip address add 127.0.0.1/8 dev lo; sudo ip link set lo up"};
}

Finding lowPorts(const Machine& machine) {
  if (machine.low_port) return {"low ports", Standing::Ok, "ports below 1024 can be served"};
  return {"low ports", Standing::Limited,
          format("ports below 1024 cannot be served ({}): Services need higher ones",
                 machine.low_port.error().text()),
          "sudo sysctl -w net.ipv4.ip_unprivileged_port_start=0"};
}

Finding up(const Machine& machine) {
  if (machine.up_process != 0 && !machine.answers)
    return {"up", Standing::Missing,
            format("process {} has it up, and does not answer ({})", machine.up_process,
                   machine.answers.error().text()),
            "cadre down, then cadre up"};
  if (machine.up_process != 0)
    return {"up", Standing::Ok,
            format("it is up, as process {}, its API at {}", machine.up_process, machine.server)};
  if (machine.held_by != 0)
    return {"up", Standing::Missing,
            format("process {} has the objects of {}, and is not `cadre up`", machine.held_by,
                   machine.folder.path),
            format("kill {}", machine.held_by)};
  return {"up", Standing::Ok, "it is not up"};
}

Finding port(const Machine& machine) {
  if (machine.up_process != 0) return {"port", Standing::Ok, "the API has its port"};
  if (!machine.port_free)
    return {"port", Standing::Missing,
            format("port {} is not to be had ({})", machine.port, machine.port_free.error().text()),
            machine.port == 0 ? "sudo ip link set lo up" : "cadre up --port 0"};
  return {"port", Standing::Ok,
          machine.port == 0 ? "the API takes any that is free"
                            : format("port {} is free", machine.port)};
}

Finding folder(const Machine& machine) {
  const Folder& folder = machine.folder;
  if (!folder.writable)
    return {"folder", Standing::Missing, folder.writable.error().text(),
            folder.user == folder.owner ? "name another one with --data"
                                        : format("sudo chown -R {} {}", folder.user, folder.path)};
  if (folder.user != folder.owner)
    return {"folder", Standing::Limited,
            format("{} belongs to user {}, not to {}: its keys are not yours alone", folder.path,
                   folder.owner, folder.user),
            format("sudo chown -R {} {}", folder.user, folder.path)};
  if ((folder.mode & 077) != 0)
    return {"folder", Standing::Limited,
            format("{} is open to others (mode {:04o}) until `cadre up` closes it: keys and "
                   "Secrets are in it",
                   folder.path, folder.mode),
            format("chmod 700 {}", folder.path)};
  return {"folder", Standing::Ok, format("{} can be written to, by its owner alone", folder.path)};
}

Finding space(const Machine& machine) {
  const Folder& folder = machine.folder;
  std::string is = format("{} free", sizeOf(folder.free_bytes));
  std::string remedy = "free some space, or name a folder on another disk with --data";
  // Some file systems have no such number.
  bool counted = folder.free_files != 0;
  if (folder.free_bytes < kNoSpace || (counted && folder.free_files < kNoFiles))
    return {"space", Standing::Missing,
            format("{} and {} files: nothing new can be kept", is, folder.free_files), remedy};
  if (folder.free_bytes < kLittleSpace || (counted && folder.free_files < kFewFiles))
    return {"space", Standing::Limited,
            format("{} and {} files: little for logs and volumes", is, folder.free_files), remedy};
  return {"space", Standing::Ok, is};
}

Finding openFiles(const Machine& machine) {
  std::string is = format("{} may be open", machine.open_files);
  if (machine.open_files >= kFewOpenFiles) return {"open files", Standing::Ok, is};
  return {"open files", Standing::Limited, is + ": enough for few pods",
          machine.most_open_files >= kFewOpenFiles
              ? format("ulimit -n {}", machine.most_open_files)
              : "raise the limit in /etc/security/limits.conf"};
}

Finding clock(const Machine& machine) {
  std::string now = formatTime(machine.now);
  if (machine.certificates_from && *machine.certificates_from > machine.now)
    return {"clock", Standing::Limited,
            format("it is {} here, and the certificates in the folder are from {}: nobody takes "
                   "them",
                   now, formatTime(*machine.certificates_from)),
            "sudo timedatectl set-ntp true"};
  return {"clock", Standing::Ok, now};
}

constexpr Finding (*kChecks[])(const Machine&) = {kernel,   docker,    processes, runtime, limits,
                                                  policies, addresses, lowPorts,  up,      port,
                                                  folder,   space,     openFiles, clock};

bool works(const std::vector<Finding>& findings) {
  return std::ranges::none_of(findings,
                              [](const Finding& one) { return one.standing == Standing::Missing; });
}

std::string tableFor(const std::vector<Finding>& findings) {
  Rows rows;
  for (const Finding& one : findings)
    rows.push_back(
        {std::string(standingName(one.standing)), one.about,
         one.remedy.empty() ? one.meaning : format("{}; do: {}", one.meaning, one.remedy)});
  return tableOf(rows);
}

std::string jsonFor(const Machine& machine, const std::vector<Finding>& findings) {
  json::Array list;
  for (const Finding& one : findings) list.push_back(one.toJson());
  return json::writePretty(json::Object{{"works", works(findings)},
                                        {"runtime", runtimeOf(machine)},
                                        {"findings", std::move(list)}}) +
         "\n";
}

}  // namespace

std::string_view standingName(Standing standing) {
  switch (standing) {
    case Standing::Ok:
      return "ok";
    case Standing::Limited:
      return "limited";
    case Standing::Missing:
      return "missing";
  }
  return "";
}

json::Value Finding::toJson() const {
  json::Object out{{"check", about}, {"state", standingName(standing)}, {"meaning", meaning}};
  if (!remedy.empty()) out.set("remedy", remedy);
  return out;
}

std::vector<Finding> examine(const Machine& machine) {
  std::vector<Finding> findings;
  for (const auto& check : kChecks) findings.push_back(check(machine));
  return findings;
}

std::string_view runtimeOf(const Machine& machine) {
  return machine.docker ? "docker" : machine.sandbox ? "process" : "";
}

void addDoctor(CLI::App& app, const Surroundings& surroundings, int& exit_code) {
  struct Flags {
    std::string data = defaultFolder(), output;
    std::uint16_t port = 0;
  };
  auto flags = std::make_shared<Flags>();
  auto* command =
      app.add_subcommand("doctor", "Tell what works on this machine, for `cadre up`, and what not");
  command->add_option("--data", flags->data, "Folder of `cadre up`")->capture_default_str();
  command->add_option("--port", flags->port, "Of the API; 0: any free one")->capture_default_str();
  command->add_option("-o,--output", flags->output, "json (default: a line for each finding)")
      ->check(CLI::IsMember({"json"}));
  command->callback([flags, &surroundings, &exit_code] {
    auto host = surroundings.env.find("DOCKER_HOST");
    Machine machine =
        lookAround(flags->data, flags->port, host == surroundings.env.end() ? "" : host->second);
    std::vector<Finding> findings = examine(machine);
    surroundings.out(flags->output == "json" ? jsonFor(machine, findings) : tableFor(findings));
    exit_code = works(findings) ? 0 : 1;
  });
}

}  // namespace cadre::cli
