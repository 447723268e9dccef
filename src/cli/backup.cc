// All that `cadre up` or `cadre hub` keeps in its folder and cannot make again, as one file: a tar
// of
//   backup.json             what it is
//   objects.db              the objects, Secrets too, as the hub had them at one moment
//   *.crt *.key             so that logins and tokens stay good
//   node/claims, images     what pods keep in volumes, and the trees that they run from
// Not what is made again at the next start (kubeconfig), nor what ends with a pod (runs, logs).
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/format.h"
#include "base/strings.h"
#include "cli/archive.h"
#include "cli/commands.h"
#include "cli/descriptor.h"
#include "cli/files.h"
#include "cli/hub_backup.h"
#include "cli/up.h"
#include "cli/up_file.h"
#include "json/parse.h"
#include "json/write.h"

namespace cadre::cli {
namespace {

namespace fs = std::filesystem;
using wire::TarMember;

constexpr std::int64_t kVersion = 1;
const std::string kAbout = "backup.json", kObjects = "objects.db";
constexpr std::string_view kKeys[] = {"ca.crt",    "ca.key",    "server.crt", "server.key",
                                      "admin.crt", "admin.key", "tokens.key"};
constexpr std::string_view kTrees[] = {"node/claims", "images"};

struct BackupFlags {
  std::string file, data = defaultFolder();
  bool force = false;
};

Error conflict(std::string message) {
  return {.code = Code::Conflict, .message = std::move(message)};
}

// Removed in the end, whatever comes.
class Temporary {
 public:
  explicit Temporary(fs::path path) : path_(std::move(path)) {}
  ~Temporary() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

Result<> syncFolder(const fs::path& folder) {
  Descriptor opened(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened || fsync(opened.get()) != 0) return cannot("write", folder);
  return {};
}

fs::path folderOf(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

// ---- Backup

std::string megabytes(std::uint64_t bytes) { return format("{:.1f} MB", double(bytes) / 1e6); }

// What takes long says how far it is, now and then.
auto progressOf(const Surroundings& surroundings) {
  return [&surroundings, next = SystemClock().instant() +
                                surroundings.patience](const ArchiveWriter::Told& told) mutable {
    if (SystemClock().instant() < next) return;
    next = SystemClock().instant() + 5 * surroundings.patience;
    surroundings.err(format("cadre: {} files, {} so far\n", told.files, megabytes(told.bytes)));
  };
}

Result<> addAll(ArchiveWriter& archive, const fs::path& data, const fs::path& objects,
                const store::Counts& counts) {
  CADRE_TRY(archive.addText(
      kAbout, json::writePretty(json::Object{{"version", kVersion},
                                             {"made", formatTime(SystemClock().now())},
                                             {"objects", counts.keys},
                                             {"resourceVersion", counts.last}}) +
                  "\n"));
  CADRE_TRY(archive.addFile(kObjects, objects));
  std::error_code ignored;
  for (std::string_view key : kKeys)
    if (fs::exists(data / key, ignored)) CADRE_TRY(archive.addFile(std::string(key), data / key));
  for (std::string_view tree : kTrees)
    if (fs::is_directory(data / tree, ignored))
      CADRE_TRY(archive.addTree(std::string(tree), data / tree));
  return archive.finish();
}

Result<std::string> backUp(const BackupFlags& flags, const Surroundings& surroundings) {
  std::error_code ignored;
  fs::path file = flags.file;
  if (fs::exists(fs::symlink_status(file, ignored)))
    return conflict(format("{} is there: name a new file", flags.file));
  Temporary objects(flags.file + ".objects"), part(flags.file + ".part");
  CADRE_LET(store::Counts counts, copyObjects(flags.data, objects.path()));
  CADRE_LET(ArchiveWriter archive, ArchiveWriter::make(part.path()));
  archive.progress = progressOf(surroundings);
  CADRE_TRY(addAll(archive, flags.data, objects.path(), counts));
  if (renameat2(AT_FDCWD, part.path().c_str(), AT_FDCWD, file.c_str(), RENAME_NOREPLACE) != 0)
    return cannot("make", file);
  CADRE_TRY(syncFolder(folderOf(file)));
  const ArchiveWriter::Told& told = archive.told();
  if (told.changed > 0)
    surroundings.err(
        format("cadre: {} files got shorter while they were read: pods write them; "
               "`cadre down` first for a backup at rest\n",
               told.changed));
  if (told.devices > 0)
    surroundings.err(format("cadre: {} device files are left out\n", told.devices));
  return format("{}: {} objects, resourceVersion {}, {} files, {}", flags.file, counts.keys,
                counts.last, told.files, megabytes(told.bytes));
}

// ---- Restore

bool isPartOfBackup(const TarMember& member) {
  using Type = TarMember::Type;
  if (member.name == kObjects || std::ranges::find(kKeys, member.name) != std::end(kKeys))
    return member.type == Type::File;
  return std::ranges::any_of(kTrees, [&](std::string_view tree) {
    return member.name == tree ? member.type == Type::Folder
                               : member.name.starts_with(format("{}/", tree));
  });
}

Result<> checkAbout(const std::string& file, std::string_view text) {
  auto about = json::parse(text);
  if (!about || (*about)["version"].integer() < 1)
    return Error{.code = Code::InvalidArgument,
                 .message = format("{} is no backup: name a file that `cadre backup` made", file)};
  if ((*about)["version"].integer() > kVersion)
    return Error{.code = Code::InvalidArgument,
                 .message = format("{} is from a newer cadre (version {} of backups, this one "
                                   "reads {}): restore it with that one",
                                   file, (*about)["version"].integer(), kVersion)};
  return {};
}

// The objects alone, as `kubectl get --raw /backup` gives them.
bool isObjectsAlone(const std::string& file) {
  Descriptor opened(open(file.c_str(), O_RDONLY | O_CLOEXEC));
  char begin[15] = {};
  return opened && pread(opened.get(), begin, sizeof begin, 0) == sizeof begin &&
         std::string_view(begin, sizeof begin) == "SQLite format 3";
}

struct Restored {
  store::Counts counts;
  Unpacked unpacked;
};

// A whole data folder, in a place where nobody looks for one yet.
Result<Restored> makeFolder(const std::string& file, const fs::path& place) {
  fs::path database = place / "hub.db", copied = place / kObjects;
  Restored restored;
  if (isObjectsAlone(file)) {
    CADRE_LET(restored.counts, store::Log::restore(file, database));
    return restored;
  }
  std::error_code code;
  fs::create_directory(place / "node", code);
  fs::permissions(place / "node", fs::perms::owner_all, code);
  CADRE_LET(Beneath beneath, Beneath::open(place));
  CADRE_LET(restored.unpacked,
            unpackArchive(
                file, beneath, kAbout,
                [&](std::string_view text) { return checkAbout(file, text); }, isPartOfBackup));
  auto counts = store::Log::restore(copied, database);
  if (!counts) return counts.error().context(format("the objects in {}", file));
  restored.counts = *counts;
  fs::remove(copied, code);
  return restored;
}

// The folder that this process makes, as long as nobody else does.
Result<Descriptor> lockFolder(const fs::path& folder) {
  Descriptor locked(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!locked) return cannot("open", folder);
  if (flock(locked.get(), LOCK_EX | LOCK_NB) != 0)
    return conflict(format("{} is being restored by another process: let it end", folder.string()));
  return locked;
}

Result<> emptyFolder(const fs::path& folder) {
  std::error_code code;
  for (fs::directory_iterator it(folder, code), end; !code && it != end; it.increment(code))
    fs::remove_all(it->path(), code);
  if (!code) return {};
  errno = code.value();
  return cannot("empty", folder);
}

// What was there, held so that nobody else begins to use it.
struct Former {
  UpFile up;
  Descriptor folder;
};

Result<Former> takeFormer(const fs::path& data, bool force) {
  if (int process = holderOf(data / "hub.db.lock"); process != 0)
    return conflict(
        format("{} is in use by process {}: end it first (`cadre down`)", data.string(), process));
  std::error_code code;
  bool has_data = std::any_of(
      fs::directory_iterator(data, code), fs::directory_iterator(),
      [&](const fs::directory_entry& one) { return one.path() != UpFile::pathOf(data); });
  if (has_data && !force)
    return conflict(format("{} has data: name another folder, or lose what is there with --force",
                           data.string()));
  CADRE_LET(UpFile up, UpFile::take(data));
  CADRE_LET(Descriptor folder, lockFolder(data));
  return Former{std::move(up), std::move(folder)};
}

// At once: who is killed leaves the one or the other, never parts of both.
Result<> swapIn(const fs::path& place, const fs::path& data, bool replaces) {
  Descriptor made(open(place.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!made || syncfs(made.get()) != 0) return cannot("write", place);
  if (renameat2(AT_FDCWD, place.c_str(), AT_FDCWD, data.c_str(),
                replaces ? RENAME_EXCHANGE : RENAME_NOREPLACE) != 0) {
    Error error = cannot("put the new folder in the place of", data);
    error.message += "; move it away, and restore again";
    return error;
  }
  return syncFolder(folderOf(data));
}

Result<std::string> restore(const BackupFlags& flags, const Surroundings& surroundings) {
  std::error_code code;
  if (!fs::exists(flags.file, code))
    return Error{.code = Code::NotFound,
                 .message = format("{} is not there: check its name", flags.file)};
  fs::path data = fs::weakly_canonical(fs::absolute(flags.data), code);
  if (!data.has_filename()) data = data.parent_path();
  std::optional<Former> former;
  if (fs::exists(data, code)) {
    CADRE_LET(Former taken, takeFormer(data, flags.force));
    former.emplace(std::move(taken));
  }
  fs::create_directories(data.parent_path(), code);
  // Beside it: there one takes the place of the other. What a killed one left goes first.
  fs::path place = data.string() + ".restoring";
  if (mkdir(place.c_str(), 0700) != 0 && errno != EEXIST) return cannot("make", place);
  CADRE_LET(Descriptor mine, lockFolder(place));
  Temporary rest(place);
  CADRE_TRY(emptyFolder(place));
  fs::permissions(place, fs::perms::owner_all, code);
  CADRE_LET(Restored restored, makeFolder(flags.file, place));
  if (former) {
    net::Loop loop;
    CADRE_TRY(endLeftovers(loop, data));
  }
  CADRE_TRY(swapIn(place, data, former.has_value()));
  if (restored.unpacked.not_given > 0)
    surroundings.err(
        format("cadre: {} files could not be given to their former owners, they are "
               "yours; as root they can\n",
               restored.unpacked.not_given));
  return format("{}: {} objects, resourceVersion {}, {} files", flags.data, restored.counts.keys,
                restored.counts.last, restored.unpacked.files);
}

void add(CLI::App* command, const std::shared_ptr<BackupFlags>& flags,
         const Surroundings& surroundings, int& exit_code, auto act) {
  command->add_option("FILE", flags->file, "The backup")->required();
  command->add_option("--data", flags->data, "Folder of `cadre up`, or of a hub")
      ->capture_default_str();
  command->callback([flags, act, &surroundings, &exit_code] {
    Result<std::string> done = act(*flags, surroundings);
    if (done) surroundings.out(*done + "\n");
    exit_code = done ? 0 : fail(surroundings, done.error().text());
  });
}

}  // namespace

void addBackup(CLI::App& app, const Surroundings& surroundings, int& exit_code) {
  auto* command = app.add_subcommand(
      "backup", "Write all that `cadre up` keeps to one file, also while it is up");
  add(command, std::make_shared<BackupFlags>(), surroundings, exit_code, backUp);
}

void addRestore(CLI::App& app, const Surroundings& surroundings, int& exit_code) {
  auto flags = std::make_shared<BackupFlags>();
  auto* command = app.add_subcommand("restore", "Make the folder of `cadre up` from a backup");
  command->add_flag("--force", flags->force, "In the place of the data that are there");
  add(command, flags, surroundings, exit_code, restore);
}

}  // namespace cadre::cli
