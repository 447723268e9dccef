// What the doctor tries on this machine. Nothing of it stays.
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/format.h"
#include "base/strings.h"
#include "cli/descriptor.h"
#include "cli/doctor.h"
#include "cli/files.h"
#include "cli/up_file.h"
#include "json/parse.h"
#include "kube/config.h"
#include "net/filter.h"
#include "net/http_client.h"
#include "net/loop.h"
#include "net/tls.h"
#include "node/cgroup.h"
#include "node/process_runtime.h"
#include "wire/docker.h"

namespace cadre::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSomeAddress = "127.111.255.254";  // where Services have theirs
constexpr Duration kPatience = 5s;

Result<> worked(const Descriptor& tried) {
  if (tried) return {};
  return Error{.code = Code::Unavailable, .message = std::strerror(errno)};
}

// 0 is any port.
Result<> tryListen(const char* address, std::uint16_t port) {
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  CADRE_TRY(worked(socket));
  int on = 1;
  setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_port = htons(port);
  inet_pton(AF_INET, address, &place.sin_addr);
  if (bind(socket.get(), reinterpret_cast<sockaddr*>(&place), sizeof place) == 0 &&
      listen(socket.get(), 1) == 0)
    return {};
  return Error{.code = errno == EADDRINUSE ? Code::Conflict : Code::Forbidden,
               .message = std::strerror(errno)};
}

// One that is taken says nothing of the others.
Result<> tryLowPort() {
  Result<> tried;
  for (std::uint16_t port : {1001, 1002, 1003, 1004}) {
    tried = tryListen(kSomeAddress, port);
    if (tried || tried.error().code != Code::Conflict) break;
  }
  return tried;
}

// Which limits of process pods are kept: groups with all of them are made, and taken away.
Limits processLimits() {
  const auto folders = node::controlFolders();
  const node::Limits some{.memory_bytes = 64 << 20, .cpu_millis = 1000, .processes = 100};
  auto made = node::makeGroups(folders, format("cadre-doctor-{}", getpid()), some);
  if (!made) return {};
  node::removeGroups(*made);
  return {.memory = folders.contains("memory"),
          .processors = folders.contains("cpu"),
          .processes = folders.contains("pids")};
}

// What forbids namespaces to an ordinary user, with the value that allows them.
std::vector<std::string> closedSettings() {
  std::vector<std::string> out;
  auto check = [&](std::string_view name, std::string_view closed, std::string_view open) {
    std::string path = format("/proc/sys/{}", name);
    std::ranges::replace(path, '.', '/');
    auto text = readAll(path);
    if (text && trim(*text) == closed) out.push_back(format("{}={}", name, open));
  };
  check("kernel.unprivileged_userns_clone", "0", "1");
  check("user.max_user_namespaces", "0", "10000");
  check("kernel.apparmor_restrict_unprivileged_userns", "1", "0");
  return out;
}

Result<Engine> askDocker(net::Loop& loop, const std::string& socket, const fs::path& data) {
  if (access(socket.c_str(), F_OK) != 0)
    return Error{.code = Code::NotFound, .message = std::strerror(errno)};
  if (access(socket.c_str(), R_OK | W_OK) != 0)
    return Error{.code = Code::Forbidden, .message = std::strerror(errno)};
  CADRE_LET(net::Url url, net::Url::parse("http://localhost"));
  CADRE_LET(
      auto http,
      net::makeHttpClient(
          loop, {.url = url, .unix_path = socket, .http2 = false, .connect_timeout = kPatience}));
  wire::Docker docker(*http, socket);
  CADRE_LET(json::Value info,
            net::await<json::Value>(loop, [&](auto done) { return docker.info(std::move(done)); }));
  Engine engine{.socket = socket,
                .version = info["ServerVersion"].string(),
                .network = {},
                .limits = {.memory = info["MemoryLimit"].boolean(),
                           .processors = info["CpuCfsQuota"].boolean(),
                           .processes = info["PidsLimit"].boolean()}};
  if (auto text = readAll(data / "docker/identity.json"))
    if (auto identity = json::parse(*text))
      engine.network = format("cadre-{}", (*identity)["id"].string());
  return engine;
}

// Of one that runs: where its API is, and whether it answers.
Result<> askServer(net::Loop& loop, const fs::path& data, std::string& server) {
  CADRE_LET(kube::Config config, kube::loadConfig({.kubeconfig = data / "kubeconfig"}));
  server = config.server.origin();
  CADRE_LET(auto http,
            net::makeHttpClient(
                loop, {.url = config.server, .tls = config.tls, .connect_timeout = kPatience}));
  CADRE_LET(auto answer, net::await<net::HttpResponse>(loop, [&](auto done) {
              return net::fetch(*http, {.target = "/readyz", .timeout = kPatience}, 1u << 16,
                                std::move(done));
            }));
  if (answer.status == 200) return {};
  return Error{.code = Code::Unavailable, .message = format("it answers {}", answer.status)};
}

// The folder, or what it would be made in.
fs::path standingFolder(const fs::path& data) {
  std::error_code ignored;
  fs::path path = fs::absolute(data, ignored);
  while (!fs::exists(path, ignored) && path.has_relative_path()) path = path.parent_path();
  return path;
}

Folder lookAt(const fs::path& data) {
  Folder folder{.path = data.string(), .writable = {}, .user = geteuid(), .owner = geteuid()};
  fs::path there = standingFolder(data);
  struct stat about{};
  if (stat(there.c_str(), &about) == 0 && !S_ISDIR(about.st_mode)) {
    folder.writable =
        Error{.code = Code::InvalidArgument, .message = format("{} is no folder", there.string())};
    return folder;
  }
  bool made = there == fs::absolute(data);
  if (made) folder.owner = about.st_uid, folder.mode = about.st_mode & 07777;
  struct statvfs disk{};
  if (statvfs(there.c_str(), &disk) == 0) {
    folder.free_bytes = std::uint64_t{disk.f_bavail} * disk.f_frsize;
    folder.free_files = disk.f_favail;
  }
  std::string name = (there / ".cadre-doctor-XXXXXX").string();
  int file = mkostemp(name.data(), O_CLOEXEC);
  if (file < 0) {
    std::string what = made ? "be written to" : format("be made in {}", there.string());
    folder.writable =
        Error{.code = Code::Forbidden,
              .message = format("{} cannot {}: {}", data.string(), what, std::strerror(errno))};
    return folder;
  }
  close(file);
  unlink(name.c_str());
  return folder;
}

std::optional<Time> certificatesFrom(const fs::path& data) {
  auto text = readAll(data / "ca.crt");
  if (!text) return std::nullopt;
  auto facts = net::readCertificate(*text);
  return facts ? std::optional(facts->not_before) : std::nullopt;
}

}  // namespace

Machine lookAround(const std::string& data, std::uint16_t port, const std::string& docker_host) {
  net::Loop loop;
  Machine machine;
  struct utsname about{};
  uname(&about);
  machine.kernel = about.release;
  machine.pidfd = worked(Descriptor(syscall(SYS_pidfd_open, getpid(), 0)));
  open_how how{.flags = O_PATH | O_CLOEXEC, .mode = 0, .resolve = RESOLVE_BENEATH};
  machine.openat2 = worked(Descriptor(syscall(SYS_openat2, AT_FDCWD, ".", &how, sizeof how)));
  machine.sandbox = node::tryProcesses(loop);
  if (!machine.sandbox) machine.closed_settings = closedSettings();
  auto socket = wire::dockerSocket(docker_host);
  machine.docker_socket = socket ? *socket : docker_host;
  machine.docker = socket ? askDocker(loop, *socket, data) : Result<Engine>(socket.error());
  machine.process_limits = processLimits();
  const std::vector<net::Traffic> none;
  machine.filters = net::tryFilter({.in = none, .out = none});
  machine.any_address = tryListen(kSomeAddress, 0);
  machine.low_port = tryLowPort();
  machine.folder = lookAt(data);
  machine.up_process = holderOf(UpFile::pathOf(data));
  if (machine.up_process != 0) {
    machine.answers = askServer(loop, data, machine.server);
  } else {
    machine.held_by = holderOf(fs::path(data) / "hub.db.lock");
    machine.port_free = tryListen("127.0.0.1", port);
  }
  machine.port = port;
  struct rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  machine.open_files = files.rlim_cur;
  machine.most_open_files = files.rlim_max;
  machine.certificates_from = certificatesFrom(data);
  machine.now = loop.clock().now();
  return machine;
}

}  // namespace cadre::cli
