#include "cli/archive.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <map>
#include <vector>

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/format.h"
#include "base/strings.h"
#include "cli/descriptor.h"
#include "net/sha256.h"

namespace cadre::cli {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kPiece = 256u << 10;
using wire::TarMember;
using Type = TarMember::Type;

TarMember memberOf(std::string name, Type type, const struct stat& about) {
  return {.name = std::move(name),
          .type = type,
          .mode = about.st_mode & 07777,
          .user = about.st_uid,
          .group = about.st_gid,
          .bytes = type == Type::File ? static_cast<std::uint64_t>(about.st_size) : 0,
          .changed = Time(std::chrono::seconds(std::max<std::int64_t>(about.st_mtim.tv_sec, 0)))};
}

}  // namespace

// ---- A folder that nothing leads out of

Result<Beneath> Beneath::open(const fs::path& folder) {
  Descriptor descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!descriptor) return cannot("open", folder);
  return Beneath(std::move(descriptor));
}

int Beneath::open(const std::string& path, int flags) const {
  open_how how{.flags = static_cast<std::uint64_t>(flags | O_CLOEXEC | O_NOFOLLOW),
               .mode = 0,
               .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
  return static_cast<int>(syscall(SYS_openat2, folder_.get(), path.c_str(), &how, sizeof how));
}

// ---- Writing

struct ArchiveWriter::Impl {
  explicit Impl(std::string path, int descriptor) : path(std::move(path)), file(descriptor) {}

  std::string path;
  Descriptor file;
  net::Sha256 sum;
  Told told;
  std::string piece = std::string(kPiece, '\0');
  // Files with several names: the first of them that was added.
  std::map<std::pair<dev_t, ino_t>, std::string> names;

  Result<> write(std::string_view bytes) {
    sum.add(bytes);
    return writeAll(bytes);
  }

  Result<> writeAll(std::string_view bytes) {
    while (!bytes.empty()) {
      ssize_t wrote = ::write(file.get(), bytes.data(), bytes.size());
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote < 0) return cannot("write", path);
      bytes.remove_prefix(static_cast<std::size_t>(wrote));
      told.bytes += static_cast<std::uint64_t>(wrote);
    }
    return {};
  }

  // As many bytes as its head says, whatever becomes of it meanwhile.
  Result<> writeBytes(int from, std::uint64_t bytes, const std::string& shown,
                      const Function<void(const Told&)>& progress) {
    std::uint64_t left = bytes;
    bool shorter = false;
    while (left > 0) {
      std::size_t wanted = static_cast<std::size_t>(std::min<std::uint64_t>(left, piece.size()));
      ssize_t got = shorter ? 0 : ::read(from, piece.data(), wanted);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return cannot("read", shown);
      if (got == 0) {
        shorter = true;
        std::fill_n(piece.begin(), wanted, '\0');
        got = static_cast<ssize_t>(wanted);
      }
      CADRE_TRY(write({piece.data(), static_cast<std::size_t>(got)}));
      left -= static_cast<std::uint64_t>(got);
      if (progress) progress(told);
    }
    told.changed += shorter ? 1 : 0;
    return write(std::string(wire::tarPadding(bytes), '\0'));
  }

  Result<> addOpen(int from, const std::string& name, const std::string& shown,
                   const Function<void(const Told&)>& progress) {
    struct stat about{};
    if (fstat(from, &about) != 0) return cannot("read", shown);
    if (!S_ISREG(about.st_mode)) return {};  // it was, a moment ago
    if (about.st_dev == own.st_dev && about.st_ino == own.st_ino) return {};
    TarMember member = memberOf(name, Type::File, about);
    ++told.files;
    if (about.st_nlink > 1) {
      auto [first, is_first] = names.try_emplace({about.st_dev, about.st_ino}, name);
      if (!is_first) {
        member.type = Type::HardLink;
        member.bytes = 0;
        member.target = first->second;
        return write(wire::tarHead(member));
      }
    }
    CADRE_TRY(write(wire::tarHead(member)));
    return writeBytes(from, member.bytes, shown, progress);
  }

  struct stat own{};  // this archive, which is no part of itself
};

ArchiveWriter::ArchiveWriter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ArchiveWriter::ArchiveWriter(ArchiveWriter&&) noexcept = default;
ArchiveWriter::~ArchiveWriter() = default;
const ArchiveWriter::Told& ArchiveWriter::told() const { return impl_->told; }

Result<ArchiveWriter> ArchiveWriter::make(const std::string& path) {
  int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0) return cannot("make", path);
  auto impl = std::make_unique<Impl>(path, file);
  if (fstat(file, &impl->own) != 0 || fchmod(file, 0600) != 0) return cannot("make", path);
  return ArchiveWriter(std::move(impl));
}

Result<> ArchiveWriter::addText(const std::string& name, std::string_view text) {
  CADRE_TRY(impl_->write(wire::tarHead({.name = name, .mode = 0600, .bytes = text.size()})));
  CADRE_TRY(impl_->write(text));
  return impl_->write(std::string(wire::tarPadding(text.size()), '\0'));
}

Result<> ArchiveWriter::addFile(const std::string& name, const fs::path& file) {
  Descriptor from(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!from) return cannot("read", file);
  return impl_->addOpen(from.get(), name, file, progress);
}

Result<> ArchiveWriter::addTree(const std::string& name, const fs::path& folder) {
  CADRE_LET(Beneath root, Beneath::open(folder));
  std::vector<std::string> folders{"."};  // still to be looked at, relative to the first
  while (!folders.empty()) {
    std::string below = std::move(folders.back());
    folders.pop_back();
    std::string shown = (folder / below).lexically_normal().string();
    std::string within = below == "." ? name : format("{}/{}", name, below);
    Descriptor here(root.open(below, O_RDONLY | O_DIRECTORY));
    if (!here && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP)) continue;
    struct stat about{};
    if (!here || fstat(here.get(), &about) != 0) return cannot("read", shown);
    CADRE_TRY(impl_->write(wire::tarHead(memberOf(within, Type::Folder, about))));
    std::vector<std::string> entries;
    std::error_code code;
    for (fs::directory_iterator it(format("/proc/self/fd/{}", here.get()), code), end;
         !code && it != end; it.increment(code))
      entries.push_back(it->path().filename());
    if (code) return cannot("read", shown);
    std::ranges::sort(entries);
    for (const std::string& entry : entries) {
      std::string inside = format("{}/{}", within, entry), path = format("{}/{}", shown, entry);
      if (fstatat(here.get(), entry.c_str(), &about, AT_SYMLINK_NOFOLLOW) != 0) continue;
      if (S_ISDIR(about.st_mode)) {
        folders.push_back(below == "." ? entry : format("{}/{}", below, entry));
      } else if (S_ISREG(about.st_mode)) {
        Descriptor from(
            openat(here.get(), entry.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
        if (!from && (errno == ENOENT || errno == ELOOP)) continue;
        if (!from) return cannot("read", path);
        CADRE_TRY(impl_->addOpen(from.get(), inside, path, progress));
      } else if (S_ISLNK(about.st_mode)) {
        std::string target(PATH_MAX, '\0');
        ssize_t size = readlinkat(here.get(), entry.c_str(), target.data(), target.size());
        if (size < 0) continue;
        TarMember member = memberOf(inside, Type::Symlink, about);
        member.target = target.substr(0, static_cast<std::size_t>(size));
        CADRE_TRY(impl_->write(wire::tarHead(member)));
      } else if (S_ISFIFO(about.st_mode)) {
        CADRE_TRY(impl_->write(wire::tarHead(memberOf(inside, Type::Pipe, about))));
      } else if (!S_ISSOCK(about.st_mode)) {
        ++impl_->told.devices;
      }
    }
  }
  return {};
}

Result<> ArchiveWriter::finish() {
  std::string text = hexEncode(impl_->sum.finish()) + "\n";
  CADRE_TRY(impl_->writeAll(
      wire::tarHead({.name = std::string(kArchiveSum), .mode = 0600, .bytes = text.size()})));
  CADRE_TRY(impl_->writeAll(text + std::string(wire::tarPadding(text.size()), '\0')));
  CADRE_TRY(impl_->writeAll(wire::tarEnd()));
  if (fsync(impl_->file.get()) != 0) return cannot("write", impl_->path);
  return {};
}

}  // namespace cadre::cli
