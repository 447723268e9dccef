// What the doctor says, as a table: a machine in, words out.
#include "cli/doctor.h"

#include "base/function.h"

namespace cadre::cli {
namespace {

Error refused(Code code, std::string why) { return {.code = code, .message = std::move(why)}; }

// One on which nothing is wanting.
Machine good() {
  Machine machine;
  machine.kernel = "6.1.0";
  machine.docker = Engine{.socket = "/run/docker.sock",
                          .version = "27.1",
                          .network = "cadre-1a",
                          .limits = {.memory = true, .processors = true, .processes = true}};
  machine.docker_socket = "/run/docker.sock";
  machine.process_limits = {.memory = true, .processors = true, .processes = true};
  machine.folder = {.path = "/data",
                    .writable = {},
                    .user = 1000,
                    .owner = 1000,
                    .free_bytes = 5ull << 30,
                    .free_files = 1'000'000};
  machine.open_files = machine.most_open_files = 4096;
  machine.now = *parseTime("2026-01-01T00:00:00Z");
  return machine;
}

struct Case {
  std::string title;
  Function<void(Machine&)> change;
  Finding expect;
};

void noDocker(Machine& machine) { machine.docker = refused(Code::NotFound, "no such file"); }

const Case kCases[] = {
    {"a good kernel", [](Machine&) {}, {"kernel", Standing::Ok, "Linux 6.1.0"}},
    {"a kernel without pidfd",
     [](Machine& m) { m.pidfd = refused(Code::Unavailable, "ENOSYS"); },
     {"kernel", Standing::Missing, "Linux 6.1.0 has no pidfd_open: no process can be followed",
      "use Linux 5.6 or later"}},
    {"a kernel without openat2",
     [](Machine& m) { m.openat2 = refused(Code::Unavailable, "ENOSYS"); },
     {"kernel", Standing::Limited, "Linux 6.1.0 has no openat2: `cadre restore` does not work",
      "use Linux 5.6 or later"}},

    {"Docker with pods",
     [](Machine&) {},
     {"docker", Standing::Ok,
      "version 27.1 answers at /run/docker.sock; its pods are in the network cadre-1a"}},
    {"Docker without pods",
     [](Machine& m) { m.docker->network.clear(); },
     {"docker", Standing::Ok,
      "version 27.1 answers at /run/docker.sock; the first pod makes a network of its own"}},
    {"no Docker",
     noDocker,
     {"docker", Standing::Limited, "there is no /run/docker.sock; no images from registries",
      "sudo apt-get install docker.io"}},
    {"no Docker, and nothing else",
     [](Machine& m) {
       noDocker(m);
       m.sandbox = refused(Code::NotFound, "bwrap");
     },
     {"docker", Standing::Missing, "there is no /run/docker.sock; nothing else runs pods",
      "sudo apt-get install docker.io"}},
    {"a Docker of others",
     [](Machine& m) { m.docker = refused(Code::Forbidden, "denied"); },
     {"docker", Standing::Limited,
      "/run/docker.sock is not open to this user; no images from registries",
      "sudo usermod -aG docker $USER, then log in again"}},
    {"a Docker elsewhere",
     [](Machine& m) { m.docker = refused(Code::InvalidArgument, "tcp://x is no socket"); },
     {"docker", Standing::Limited, "tcp://x is no socket; no images from registries",
      "unset DOCKER_HOST"}},
    {"a Docker that hangs",
     [](Machine& m) { m.docker = refused(Code::DeadlineExceeded, "no answer within 5s"); },
     {"docker", Standing::Limited, "no answer within 5s; no images from registries",
      "sudo systemctl restart docker"}},

    {"a sandbox",
     [](Machine&) {},
     {"processes", Standing::Ok, "bubblewrap makes user, mount and pid namespaces"}},
    {"no bubblewrap beside Docker",
     [](Machine& m) { m.sandbox = refused(Code::NotFound, "bwrap"); },
     {"processes", Standing::Limited, "there is no bubblewrap; `--runtime process` does not work",
      "sudo apt-get install bubblewrap"}},
    {"no bubblewrap and no Docker",
     [](Machine& m) {
       noDocker(m);
       m.sandbox = refused(Code::NotFound, "bwrap");
     },
     {"processes", Standing::Missing, "there is no bubblewrap; pods cannot run as processes",
      "sudo apt-get install bubblewrap"}},
    {"namespaces that a setting forbids",
     [](Machine& m) {
       noDocker(m);
       m.sandbox = refused(Code::Unavailable, "no namespaces");
       m.closed_settings = {"a.b=1", "c.d=2"};
     },
     {"processes", Standing::Missing, "no namespaces; pods cannot run as processes",
      "sudo sysctl -w a.b=1 c.d=2"}},
    {"namespaces that something else forbids",
     [](Machine& m) { m.sandbox = refused(Code::Unavailable, "no namespaces"); },
     {"processes", Standing::Limited, "no namespaces; `--runtime process` does not work",
      "let whoever runs this machine or container allow user namespaces"}},

    {"containers",
     [](Machine&) {},
     {"runtime", Standing::Ok, "auto is docker: pods run as containers"}},
    {"processes",
     noDocker,
     {"runtime", Standing::Ok,
      "auto is process: pods run as processes of this machine, in its network"}},
    {"nothing",
     [](Machine& m) {
       noDocker(m);
       m.sandbox = refused(Code::NotFound, "bwrap");
     },
     {"runtime", Standing::Missing, "nothing here can run a pod",
      "put docker or processes right, as said above"}},

    {"all limits",
     [](Machine&) {},
     {"limits", Standing::Ok,
      "of containers: memory, processors, the number of processes are limited"}},
    {"limits of memory and processors",
     [](Machine& m) { m.docker->limits.processes = false; },
     {"limits", Standing::Limited,
      "of containers: memory, processors limited, the number of processes not"}},
    {"no limits",
     [](Machine& m) {
       noDocker(m);
       m.process_limits = {};
     },
     {"limits", Standing::Limited,
      "of processes: nothing is limited, one pod can take the whole machine"}},

    {"policies of containers",
     [](Machine&) {},
     {"policies", Standing::Ok,
      "of containers: a NetworkPolicy is enforced; the node and the API are always reached"}},
    {"policies of processes",
     noDocker,
     {"policies", Standing::Limited,
      "of processes: a NetworkPolicy is taken and not enforced, every pod reaches every other",
      "for what must be kept apart use Docker or a cluster"}},
    {"a kernel without filters",
     [](Machine& m) { m.filters = refused(Code::Unavailable, "no nftables"); },
     {"policies", Standing::Limited,
      "of containers: a NetworkPolicy cannot be enforced (no nftables), pods that one selects do "
      "not start",
      "use a kernel with nf_tables and nft_ct"}},
    {"filters that nobody may try",
     [](Machine& m) { m.filters = refused(Code::Forbidden, "no namespaces"); },
     {"policies", Standing::Limited,
      "of containers: nobody knows whether a NetworkPolicy can be enforced (no namespaces); where "
      "it cannot, pods that one selects do not start",
      "sudo cadre doctor"}},

    {"addresses",
     [](Machine&) {},
     {"addresses", Standing::Ok, "pods and Services can have addresses of the loopback"}},
    {"one address",
     [](Machine& m) { m.any_address = refused(Code::Forbidden, "not here"); },
     {"addresses", Standing::Missing,
      "no other address of the loopback than 127.0.0.1 can be used (not here)",
      "sudo ip address add 127.0.0.1/8 dev lo; sudo ip link set lo up"}},
    {"low ports", [](Machine&) {}, {"low ports", Standing::Ok, "ports below 1024 can be served"}},
    {"no low ports",
     [](Machine& m) { m.low_port = refused(Code::Forbidden, "Permission denied"); },
     {"low ports", Standing::Limited,
      "ports below 1024 cannot be served (Permission denied): Services need higher ones",
      "sudo sysctl -w net.ipv4.ip_unprivileged_port_start=0"}},

    {"down", [](Machine&) {}, {"up", Standing::Ok, "it is not up"}},
    {"up",
     [](Machine& m) { m.up_process = 7, m.server = "https://127.0.0.1:1234"; },
     {"up", Standing::Ok, "it is up, as process 7, its API at https://127.0.0.1:1234"}},
    {"up, and hanging",
     [](Machine& m) {
       m.up_process = 7;
       m.answers = refused(Code::DeadlineExceeded, "no answer within 5s");
     },
     {"up", Standing::Missing, "process 7 has it up, and does not answer (no answer within 5s)",
      "cadre down, then cadre up"}},
    {"a hub of others",
     [](Machine& m) { m.held_by = 8; },
     {"up", Standing::Missing, "process 8 has the objects of /data, and is not `cadre up`",
      "kill 8"}},

    {"any port", [](Machine&) {}, {"port", Standing::Ok, "the API takes any that is free"}},
    {"a port", [](Machine& m) { m.port = 6443; }, {"port", Standing::Ok, "port 6443 is free"}},
    {"the port of one that is up",
     [](Machine& m) { m.up_process = 7; },
     {"port", Standing::Ok, "the API has its port"}},
    {"a port that is taken",
     [](Machine& m) {
       m.port = 6443;
       m.port_free = refused(Code::Conflict, "Address already in use");
     },
     {"port", Standing::Missing, "port 6443 is not to be had (Address already in use)",
      "cadre up --port 0"}},

    {"a folder",
     [](Machine&) {},
     {"folder", Standing::Ok, "/data can be written to, by its owner alone"}},
    {"a folder for reading",
     [](Machine& m) { m.folder.writable = refused(Code::Forbidden, "/data: read-only"); },
     {"folder", Standing::Missing, "/data: read-only", "name another one with --data"}},
    {"a folder of somebody who lets nobody in",
     [](Machine& m) {
       m.folder.writable = refused(Code::Forbidden, "/data: denied");
       m.folder.owner = 0;
     },
     {"folder", Standing::Missing, "/data: denied", "sudo chown -R 1000 /data"}},
    {"a folder of somebody else",
     [](Machine& m) { m.folder.owner = 0; },
     {"folder", Standing::Limited,
      "/data belongs to user 0, not to 1000: its keys are not yours alone",
      "sudo chown -R 1000 /data"}},
    {"an open folder",
     [](Machine& m) { m.folder.mode = 0755; },
     {"folder", Standing::Limited,
      "/data is open to others (mode 0755) until `cadre up` closes it: keys and Secrets are in it",
      "chmod 700 /data"}},

    {"space", [](Machine&) {}, {"space", Standing::Ok, "5.0 GiB free"}},
    {"a file system that counts no files",
     [](Machine& m) { m.folder.free_files = 0; },
     {"space", Standing::Ok, "5.0 GiB free"}},
    {"little space",
     [](Machine& m) { m.folder.free_bytes = 500u << 20; },
     {"space", Standing::Limited, "500 MiB free and 1000000 files: little for logs and volumes",
      "free some space, or name a folder on another disk with --data"}},
    {"no files",
     [](Machine& m) { m.folder.free_files = 5; },
     {"space", Standing::Missing, "5.0 GiB free and 5 files: nothing new can be kept",
      "free some space, or name a folder on another disk with --data"}},

    {"open files", [](Machine&) {}, {"open files", Standing::Ok, "4096 may be open"}},
    {"few open files",
     [](Machine& m) { m.open_files = 256; },
     {"open files", Standing::Limited, "256 may be open: enough for few pods", "ulimit -n 4096"}},
    {"few open files for ever",
     [](Machine& m) { m.open_files = m.most_open_files = 256; },
     {"open files", Standing::Limited, "256 may be open: enough for few pods",
      "raise the limit in /etc/security/limits.conf"}},

    {"a clock", [](Machine&) {}, {"clock", Standing::Ok, "2026-01-01T00:00:00Z"}},
    {"a clock that was set back",
     [](Machine& m) { m.certificates_from = m.now + 1h; },
     {"clock", Standing::Limited,
      "it is 2026-01-01T00:00:00Z here, and the certificates in the folder are from "
      "2026-01-01T01:00:00Z: nobody takes them",
      "sudo timedatectl set-ntp true"}},
};

TEST(Doctor, SaysWhatHoldsAndWhatToDo) {
  for (const Case& one : kCases) {
    SCOPED_TRACE(one.title);
    Machine machine = good();
    one.change(machine);
    int found = 0;
    for (const Finding& finding : examine(machine)) {
      if (finding.about != one.expect.about) continue;
      ++found;
      EXPECT_EQ(standingName(finding.standing), standingName(one.expect.standing));
      EXPECT_EQ(finding.meaning, one.expect.meaning);
      EXPECT_EQ(finding.remedy, one.expect.remedy);
    }
    EXPECT_EQ(found, 1);
  }
}

TEST(Doctor, OfAGoodMachineNothingIsToBeDone) {
  for (const Finding& finding : examine(good())) {
    EXPECT_EQ(standingName(finding.standing), "ok") << finding.about;
    EXPECT_EQ(finding.remedy, "");
  }
}

}  // namespace
}  // namespace cadre::cli
