#include "cli/hub_backup.h"

#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/format.h"
#include "kube/config.h"
#include "net/http_client.h"

namespace cadre::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPiece = 256u << 10;
constexpr std::size_t kAhead = 1u << 20;  // of what the client has taken
constexpr Duration kPause = 5ms;
constexpr Duration kPatience = 60s;  // with a hub that says nothing

Error cannotWrite(const std::string& file) {
  return {.code = Code::Unavailable,
          .message = format("cannot write {}: {}", file, std::strerror(errno))};
}

void sendFile(net::Loop& loop, std::shared_ptr<std::ifstream> file,
              const std::shared_ptr<net::ServerRequest>& request) {
  std::string piece(kPiece, '\0');
  while (request->backlog() < kAhead) {
    file->read(piece.data(), static_cast<std::streamsize>(piece.size()));
    request->write(std::string_view(piece).substr(0, static_cast<std::size_t>(file->gcount())));
    if (file->eof()) return request->end();
    if (!*file) return;  // dropped in mid-stream: the client can tell
  }
  auto later = std::make_shared<Pending>();
  request->onGone([later] { *later = {}; });
  *later = loop.after(kPause, [&loop, file, request, later] { sendFile(loop, file, request); });
}

Result<> fetchInto(const std::string& kubeconfig, const std::string& file) {
  CADRE_LET(kube::Config config, kube::loadConfig({.kubeconfig = kubeconfig}));
  net::Loop loop;
  CADRE_LET(auto http, net::makeHttpClient(loop, {.url = config.server, .tls = config.tls}));
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  if (!out) return cannotWrite(file);
  std::error_code ignored;
  fs::permissions(file, fs::perms::owner_read | fs::perms::owner_write, ignored);
  int status = 0;
  auto came = net::await<bool>(loop, [&](auto done) {
    net::ResponseHandler handler;
    handler.head = [&](const net::ResponseHead& head) { status = head.status; };
    handler.data = [&](std::string_view piece) {
      out.write(piece.data(), static_cast<std::streamsize>(piece.size()));
    };
    handler.end = [done = std::move(done)](Result<> result) {
      if (!result) return done(result.error());
      done(true);
    };
    return http->send({.target = "/backup", .timeout = kPatience}, std::move(handler));
  });
  if (!came) return came.error();
  if (status != 200)
    return Error{.code = Code::Unavailable, .message = format("the hub answered {}", status)};
  if (!out.flush()) return cannotWrite(file);
  return {};
}

}  // namespace

void sendBackup(net::Loop& loop, const store::Log& log, const std::string& data,
                std::shared_ptr<net::ServerRequest> request) {
  auto file = std::make_shared<std::ifstream>();
  auto make = [&](const std::string& temporary) {
    Result<> made = log.backup(temporary);
    file->open(temporary, std::ios::binary);
    std::error_code ignored;
    fs::remove(temporary, ignored);
    return made;
  };
  Result<> made = make(fs::path(data) / "backup.part");
  // A full disk is a reason to want one: there may be another.
  std::string elsewhere = fs::temp_directory_path() / "cadre-backup-XXXXXX";
  if (!made && made.error().code == Code::ResourceExhausted && mkdtemp(elsewhere.data())) {
    made = make(fs::path(elsewhere) / "hub.db");
    std::error_code ignored;
    fs::remove_all(elsewhere, ignored);
  }
  if (made && *file) {
    request->begin(200, {{"content-type", "application/vnd.sqlite3"}});
    return sendFile(loop, std::move(file), request);
  }
  std::string why = made ? "the backup cannot be read again" : made.error().text();
  request->respond(500, {{"content-type", "text/plain; charset=utf-8"}}, why + "\n");
}

Result<store::Counts> copyObjects(const std::string& data, const std::string& file) {
  std::string path = fs::path(data) / "hub.db";
  if (!fs::exists(path))
    return Error{.code = Code::NotFound,
                 .message = format("{} has no hub.db: name the folder of `cadre up`, or of a hub, "
                                   "with --data",
                                   data)};
  auto log = store::Log::open(path);
  if (log) {
    CADRE_TRY(log->backup(file));
    return store::Log::verify(file);
  }
  if (log.error().code != Code::Conflict) return log.error();
  // Somebody has it: that is the hub itself.
  std::string part = file + ".part";
  Result<> fetched = fetchInto(fs::path(data) / "kubeconfig", part);
  Result<store::Counts> counts = fetched ? store::Log::accept(part, file) : fetched.error();
  std::error_code ignored;
  fs::remove(part, ignored);
  return counts;
}

}  // namespace cadre::cli
