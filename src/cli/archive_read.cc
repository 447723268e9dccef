#include <algorithm>
#include <cerrno>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/format.h"
#include "base/strings.h"
#include "cli/archive.h"
#include "cli/descriptor.h"
#include "net/sha256.h"

namespace cadre::cli {
namespace {

using wire::kTarBlock;
using wire::TarMember;
using Type = TarMember::Type;

constexpr std::size_t kPiece = 256u << 10;
constexpr std::uint64_t kMaxFirst = 64u << 10;

Error damaged(const std::string& path, std::string_view why) {
  return {.code = Code::DataLoss,
          .message = format("{} is damaged ({}): use another backup", path, why)};
}

// The bytes of a file in order, and a sum over those that were counted.
class Source {
 public:
  Source(const std::string& path, Descriptor file) : path_(path), file_(std::move(file)) {}

  // DataLoss when there are not as many.
  Result<std::string> take(std::size_t bytes) {
    while (ready_.size() - at_ < bytes) CADRE_TRY(more());
    std::string out = ready_.substr(at_, bytes);
    at_ += bytes;
    return out;
  }
  // Hands out so many bytes in pieces, counted.
  Result<> pass(std::uint64_t bytes, const Function<Result<>(std::string_view)>& to) {
    while (bytes > 0) {
      if (at_ == ready_.size()) CADRE_TRY(more());
      std::size_t mine = static_cast<std::size_t>(
          std::min<std::uint64_t>(bytes, static_cast<std::uint64_t>(ready_.size() - at_)));
      std::string_view piece = std::string_view(ready_).substr(at_, mine);
      sum_.add(piece);
      CADRE_TRY(to(piece));
      at_ += mine;
      bytes -= mine;
    }
    return {};
  }
  void count(std::string_view bytes) { sum_.add(bytes); }
  std::string sum() { return hexEncode(sum_.finish()); }
  // Whether nothing is left.
  Result<bool> ended() {
    if (at_ < ready_.size()) return false;
    Result<> got = more();
    if (!got && got.error().code == Code::DataLoss) return true;
    if (!got) return got.error();
    return false;
  }

 private:
  Result<> more() {
    ready_.erase(0, at_);
    at_ = 0;
    std::size_t before = ready_.size();
    ready_.resize(before + kPiece);
    ssize_t got = ::read(file_.get(), ready_.data() + before, kPiece);
    ready_.resize(before + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0) return cannot("read", path_);
    if (got == 0) return damaged(path_, "it is cut off");
    return {};
  }

  const std::string& path_;
  Descriptor file_;
  std::string ready_;
  std::size_t at_ = 0;
  net::Sha256 sum_;
};

// "a/b/c": its folder "a/b" and its own name. A name by which nothing could be meant but a place
// below has no empty part and no dots.
struct Place {
  std::string folder, name;

  static std::optional<Place> of(const std::string& path) {
    if (path.find('\0') != path.npos) return std::nullopt;
    for (std::string_view part : split(path, '/'))
      if (part.empty() || part == "." || part == "..") return std::nullopt;
    std::size_t slash = path.rfind('/');
    if (slash == path.npos) return Place{".", path};
    return Place{path.substr(0, slash), path.substr(slash + 1)};
  }
};

class Unpacking {
 public:
  Unpacking(const std::string& path, const Beneath& folder, Source& source)
      : path_(path), folder_(folder), source_(source) {}

  Unpacked done;

  Result<> take(const TarMember& member) {
    auto place = Place::of(member.name);
    if (!place) return refused(member);
    Descriptor parent(folder_.open(place->folder, O_RDONLY | O_DIRECTORY));
    if (!parent) return refused(member);
    switch (member.type) {
      case Type::File:
        return file(member, parent, place->name);
      case Type::HardLink:
        return hardLink(member, parent, place->name);
      case Type::Folder:
        if (mkdirat(parent.get(), place->name.c_str(), 0700) != 0) return failed(member);
        folders_.push_back(member);
        return {};
      case Type::Symlink:
        if (symlinkat(member.target.c_str(), parent.get(), place->name.c_str()) != 0)
          return failed(member);
        return giveLink(member, parent, place->name);
      case Type::Pipe:
        if (mknodat(parent.get(), place->name.c_str(), S_IFIFO | (member.mode & 0777), 0) != 0)
          return failed(member);
        return giveLink(member, parent, place->name);
    }
    return refused(member);
  }

  // What would have been in the way until now: those below first.
  Result<> finishFolders() {
    for (auto member = folders_.rbegin(); member != folders_.rend(); ++member) {
      Descriptor folder(folder_.open(member->name, O_RDONLY | O_DIRECTORY));
      if (!folder) return failed(*member);
      CADRE_TRY(give(*member, folder.get()));
    }
    return {};
  }

 private:
  Error refused(const TarMember& member) const {
    return {.code = Code::InvalidArgument,
            .message = format("{} is no backup that can be trusted: it has {}, which leads out of "
                              "its folder or into nothing",
                              path_, shorten(member.name, 200))};
  }
  Error failed(const TarMember& member) const { return cannot("make", shorten(member.name, 200)); }
  static timespec timeOf(const TarMember& member) {
    auto since =
        std::chrono::duration_cast<std::chrono::seconds>(member.changed.time_since_epoch());
    return {.tv_sec = since.count(), .tv_nsec = 0};
  }
  // Whoever is not allowed to gives nothing away: then it stays with whom restores it.
  bool owns(const TarMember& member) {
    return (member.user == geteuid() && member.group == getegid());
  }

  Result<> give(const TarMember& member, int descriptor) {
    std::uint32_t mode = member.mode;
    if (!owns(member) && fchown(descriptor, member.user, member.group) != 0) {
      ++done.not_given;
      mode &= 0777;
    }
    timespec times[] = {timeOf(member), timeOf(member)};
    if (fchmod(descriptor, mode) != 0 || futimens(descriptor, times) != 0) return failed(member);
    return {};
  }

  Result<> giveLink(const TarMember& member, const Descriptor& parent, const std::string& name) {
    if (!owns(member) &&
        fchownat(parent.get(), name.c_str(), member.user, member.group, AT_SYMLINK_NOFOLLOW) != 0)
      ++done.not_given;
    timespec times[] = {timeOf(member), timeOf(member)};
    utimensat(parent.get(), name.c_str(), times, AT_SYMLINK_NOFOLLOW);
    return {};
  }

  Result<> file(const TarMember& member, const Descriptor& parent, const std::string& name) {
    Descriptor out(openat(parent.get(), name.c_str(),
                          O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!out) return failed(member);
    CADRE_TRY(source_.pass(member.bytes, [&](std::string_view piece) -> Result<> {
      while (!piece.empty()) {
        ssize_t wrote = ::write(out.get(), piece.data(), piece.size());
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote < 0) return cannot("write", shorten(member.name, 200));
        piece.remove_prefix(static_cast<std::size_t>(wrote));
      }
      return {};
    }));
    ++done.files;
    return give(member, out.get());
  }

  // Of a file that came before, and of nothing else.
  Result<> hardLink(const TarMember& member, const Descriptor& parent, const std::string& name) {
    auto target = Place::of(member.target);
    if (!target) return refused(member);
    Descriptor from(folder_.open(target->folder, O_RDONLY | O_DIRECTORY));
    struct stat about{};
    if (!from || fstatat(from.get(), target->name.c_str(), &about, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(about.st_mode))
      return refused(member);
    if (linkat(from.get(), target->name.c_str(), parent.get(), name.c_str(), 0) != 0)
      return failed(member);
    ++done.files;
    return {};
  }

  const std::string& path_;
  const Beneath& folder_;
  Source& source_;
  std::vector<TarMember> folders_;
};

// The next member, with its head: not counted yet.
struct Head {
  std::string bytes;
  TarMember member;
};

Result<Head> nextHead(const std::string& path, Source& source) {
  wire::TarReader reader;
  Head head;
  while (true) {
    CADRE_LET(std::string block, source.take(kTarBlock));
    head.bytes += block;
    auto member = reader.take(block);
    if (!member) return damaged(path, member.error().text());
    if (reader.ended()) return damaged(path, "its sum is missing");
    if (!*member) continue;
    head.member = **std::move(member);
    return head;
  }
}

Result<> checkEnd(const std::string& path, const Head& head, Source& source) {
  std::string sum = source.sum();
  if (head.member.bytes != sum.size() + 1) return damaged(path, "its sum is none");
  CADRE_LET(std::string text, source.take(kTarBlock));
  if (text != sum + "\n" + std::string(wire::tarPadding(sum.size() + 1), '\0'))
    return damaged(path, "its sum is another one");
  CADRE_LET(std::string end, source.take(wire::tarEnd().size()));
  CADRE_LET(bool ended, source.ended());
  if (end != wire::tarEnd() || !ended) return damaged(path, "something follows its end");
  return {};
}

}  // namespace

Result<Unpacked> unpackArchive(const std::string& path, const Beneath& folder,
                               const std::string& first,
                               const Function<Result<>(std::string_view)>& begin,
                               const Function<bool(const TarMember&)>& allow) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return cannot("read", path);
  Source source(path, std::move(file));
  auto ignore = [](std::string_view) -> Result<> { return {}; };
  Unpacking unpacking(path, folder, source);
  for (bool is_first = true;; is_first = false) {
    auto head = nextHead(path, source);
    if (is_first && (!head || head->member.name != first || head->member.bytes > kMaxFirst))
      return Error{
          .code = Code::InvalidArgument,
          .message = format("{} is no backup: name a file that `cadre backup` made", path)};
    if (!head) return head.error();
    const TarMember& member = head->member;
    if (member.name == kArchiveSum) {
      CADRE_TRY(checkEnd(path, *head, source));
      break;
    }
    source.count(head->bytes);
    if (is_first) {
      std::string text;
      CADRE_TRY(source.pass(member.bytes, [&](std::string_view piece) -> Result<> {
        text += piece;
        return {};
      }));
      CADRE_TRY(begin(text));
    } else {
      if (!allow(member))
        return Error{.code = Code::InvalidArgument,
                     .message = format("{} has {}, which belongs to no backup", path,
                                       shorten(member.name, 200))};
      CADRE_TRY(unpacking.take(member));
    }
    CADRE_TRY(source.pass(wire::tarPadding(member.bytes), ignore));
  }
  CADRE_TRY(unpacking.finishFolders());
  return unpacking.done;
}

}  // namespace cadre::cli
