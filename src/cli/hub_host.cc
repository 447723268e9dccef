#include "cli/hub_host.h"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>

#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/format.h"
#include "base/strings.h"
#include "cli/files.h"
#include "cli/hub_backup.h"
#include "json/yaml.h"
#include "kinds/kaos/types.h"
#include "net/http_client.h"
#include "net/signing.h"
#include "net/tls.h"

namespace cadre::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxBody = 5u << 20;  // more than an object may have: the hub says so itself
constexpr Duration kCompactionInterval = 60s;

Error ioError(const fs::path& path, std::string_view what, const std::error_code& code) {
  return {.code = Code::Unavailable,
          .message = format("{} {}: {}; choose another folder with --data", what, path.string(),
                            code.message())};
}

// For its owner alone.
Result<> writeFile(const fs::path& path, std::string_view text) {
  fs::path part = path.string() + ".part";
  {
    std::ofstream file(part, std::ios::binary | std::ios::trunc);
    std::error_code ignored;
    fs::permissions(part, fs::perms::owner_read | fs::perms::owner_write, ignored);
    file << text;
    if (!file.flush())
      return ioError(path, "cannot write", std::make_error_code(static_cast<std::errc>(errno)));
  }
  std::error_code code;
  fs::rename(part, path, code);
  if (code) return ioError(path, "cannot write", code);
  return {};
}

// A certificate and its key in two files; made when they are not there.
Result<net::CertificateAndKey> keep(const fs::path& folder, const std::string& name,
                                    const net::CertificateRequest& request,
                                    const net::CertificateAndKey* issuer) {
  fs::path certificate = folder / (name + ".crt"), key = folder / (name + ".key");
  if (fs::exists(certificate) && fs::exists(key)) {
    CADRE_LET(std::string one, readAll(certificate));
    CADRE_LET(std::string two, readAll(key));
    auto facts = net::readCertificate(one);
    Time now = SystemClock().now();
    bool names = facts && std::ranges::all_of(request.names, [&](const std::string& one) {
                   return std::ranges::find(facts->names, one) != facts->names.end();
                 });
    bool signs = !issuer || net::isSignedBy(one, issuer->certificate);
    if (names && signs && facts->not_after > now + 24h) return net::CertificateAndKey{one, two};
  }
  CADRE_LET(net::CertificateAndKey made, net::makeCertificate(request, issuer));
  CADRE_TRY(writeFile(key, made.key));
  CADRE_TRY(writeFile(certificate, made.certificate));
  return made;
}

bool mayListenAt(int port) {
  int first = 1024;
  std::ifstream("/proc/sys/net/ipv4/ip_unprivileged_port_start") >> first;
  return port >= first || geteuid() == 0;
}

// What signs the tokens of service accounts.
Result<net::SigningKey> keepSigningKey(const fs::path& path) {
  if (fs::exists(path)) {
    CADRE_LET(std::string pem, readAll(path));
    auto key = net::SigningKey::read(pem);
    if (!key) return key.error().context("reading " + path.string());
    return key;
  }
  CADRE_LET(auto key, net::SigningKey::generate(net::SigningKey::Algorithm::Es256));
  CADRE_TRY(writeFile(path, key.pem()));
  return key;
}

json::Value login(std::string_view server, const net::CertificateAndKey& authority,
                  const net::CertificateAndKey& admin) {
  return json::Object{
      {"apiVersion", "v1"},
      {"kind", "Config"},
      {"clusters",
       json::Array{json::Object{{"name", "cadre"},
                                {"cluster", json::Object{{"server", server},
                                                         {"certificate-authority-data",
                                                          base64Encode(authority.certificate)}}}}}},
      {"users",
       json::Array{json::Object{
           {"name", "cadre"},
           {"user", json::Object{{"client-certificate-data", base64Encode(admin.certificate)},
                                 {"client-key-data", base64Encode(admin.key)}}}}}},
      {"contexts",
       json::Array{json::Object{
           {"name", "cadre"}, {"context", json::Object{{"cluster", "cadre"}, {"user", "cadre"}}}}}},
      {"current-context", "cadre"}};
}

// What was there, and what happened lately, so that watches go on where they were.
Result<> recover(const store::Log& log, hub::Objects& objects) {
  CADRE_TRY(log.load(
      [&](const store::Change& change) { return objects.load(change.key, *change.value); }));
  CADRE_TRY(log.since(log.compacted(), [&](const store::Event& event) {
    return objects.recall(event.revision, event.key, event.before, event.value);
  }));
  objects.loaded(log.last(), log.compacted());
  return {};
}

// The log need not know more of the past than the hub does.
class Compaction {
 public:
  Compaction(Scheduler& scheduler, store::Log& log, hub::Objects& objects)
      : scheduler_(scheduler), log_(log), objects_(objects) {
    next(kCompactionInterval);
  }

 private:
  void next(Duration after) {
    pending_ = scheduler_.after(after, [this] {
      auto done = log_.compact(objects_.forgotten());
      next(done && !*done ? Duration(10ms) : kCompactionInterval);
    });
  }

  Scheduler& scheduler_;
  store::Log& log_;
  hub::Objects& objects_;
  Pending pending_;
};

}  // namespace

struct HubHost::Impl {
  Impl(store::Log log) : log(std::move(log)) {}

  store::Log log;
  Random random = Random::fromSystem();
  std::unique_ptr<hub::Hub> hub;
  std::unique_ptr<Compaction> compaction;
  std::unique_ptr<net::HttpServer> server;
  std::string kubeconfig, authority;
};

// Every connection is a file, and the usual limit is that of a shell.
static void raiseFileLimit() {
  constexpr rlim_t kFiles = 65536;
  struct rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= kFiles) return;
  files.rlim_cur = std::min(files.rlim_max, kFiles);
  setrlimit(RLIMIT_NOFILE, &files);
}

HubHost::HubHost(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HubHost::~HubHost() = default;
hub::Hub& HubHost::hub() { return *impl_->hub; }
const std::string& HubHost::kubeconfig() const { return impl_->kubeconfig; }
const std::string& HubHost::authority() const { return impl_->authority; }
std::uint16_t HubHost::port() const { return impl_->server->port(); }

Result<std::unique_ptr<HubHost>> HubHost::open(net::Loop& loop, const HubFlags& flags,
                                               decltype(hub::HubOptions::node) node) {
  const bool has_node = static_cast<bool>(node);
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is like a disk that is full
  // What a long list took goes back to the system at once: malloc would keep it from the second on.
  mallopt(M_MMAP_THRESHOLD, 256 << 10);
  mallopt(M_TRIM_THRESHOLD, 1 << 20);
  raiseFileLimit();
  fs::path data = flags.data;
  std::error_code code;
  fs::create_directories(data, code);
  if (code) return ioError(data, "cannot make the folder", code);
  fs::permissions(data, fs::perms::owner_all, code);

  CADRE_LET(
      auto authority,
      keep(data, "ca", {.common_name = "cadre-hub", .authority = true, .days = 3650}, nullptr));
  CADRE_LET(
      auto admin,
      keep(data, "admin", {.common_name = "admin", .organization = "system:masters"}, &authority));

  CADRE_LET(store::Log opened, store::Log::open(data / "hub.db", {.durable = !flags.fast}));
  auto impl = std::make_unique<Impl>(std::move(opened));
  store::Log& log = impl->log;
  CADRE_LET(net::SigningKey signing_key, keepSigningKey(data / "tokens.key"));
  impl->hub = std::make_unique<hub::Hub>(
      loop, impl->random,
      hub::HubOptions{
          .keep = [&log](const std::vector<hub::Line>& lines) -> Result<> {
            std::vector<store::Change> changes;
            changes.reserve(lines.size());
            for (const hub::Line& line : lines)
              changes.push_back({line.revision, line.key, line.value});
            return log.append(changes);
          },
          .natives = {&kaos::agentKind(), &kaos::modelApiKind(), &kaos::mcpServerKind()},
          .signing_key = std::move(signing_key),
          .connect = [&loop](const hub::Admission::Place& place)
              -> Result<std::unique_ptr<net::HttpClient>> {
            CADRE_LET(auto client, net::makeHttpClient(loop, {.url = place.url,
                                                              .tls = {.ca = place.authority,
                                                                      .server_name = place.name}}));
            return client;
          },
          .backup =
              [&loop, &log, data](std::shared_ptr<net::ServerRequest> request) {
                sendBackup(loop, log, data, std::move(request));
              },
          .has_node = has_node,
          .api_port = mayListenAt(443) ? 443 : 6443,
          .node = std::move(node)});
  hub::Hub& hub = *impl->hub;
  CADRE_TRY(recover(log, hub.objects()));
  hub.furnish();
  impl->authority = authority.certificate;
  std::vector<std::string> names{flags.address,
                                 "127.0.0.1",
                                 "localhost",
                                 "kubernetes",
                                 "kubernetes.default",
                                 "kubernetes.default.svc",
                                 "kubernetes.default.svc.cluster.local"};
  if (!hub.apiAddress().empty()) names.push_back(hub.apiAddress());
  CADRE_LET(
      auto serving,
      keep(data, "server", {.common_name = "cadre-hub", .names = std::move(names)}, &authority));
  impl->compaction = std::make_unique<Compaction>(loop, log, hub.objects());
  net::HttpServerOptions options{.address = flags.address,
                                 .port = flags.port,
                                 .tls = net::TlsServerOptions{.certificate = serving.certificate,
                                                              .key = serving.key,
                                                              .client_ca = authority.certificate},
                                 .max_body_bytes = kMaxBody};
  CADRE_LET(impl->server, net::HttpServer::listen(loop, std::move(options), [&hub](auto request) {
              hub.handle(std::move(request));
            }));
  std::string url = format("https://{}", net::authority(flags.address, impl->server->port()));
  fs::path config = data / "kubeconfig";
  std::string text = json::writeYaml(login(url, authority, admin));
  // A disk that is full is no reason not to serve what is there.
  if (auto before = readAll(config); !before || *before != text) CADRE_TRY(writeFile(config, text));
  impl->kubeconfig = config.string();
  return std::unique_ptr<HubHost>(new HubHost(std::move(impl)));
}

}  // namespace cadre::cli
