#include "cli/archive.h"

#include <cstdlib>
#include <fstream>

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/format.h"
#include "base/strings.h"
#include "net/sha256.h"

namespace cadre::cli {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using wire::TarMember;
using Type = TarMember::Type;

class ArchiveTest : public testing::Test {
 protected:
  ArchiveTest() {
    std::string name = fs::temp_directory_path() / "cadre-archive-XXXXXX";
    folder_ = mkdtemp(name.data());
    fs::create_directory(folder_ / "out");
  }
  ~ArchiveTest() override { fs::remove_all(folder_); }

  void write(const fs::path& path, std::string_view text) {
    fs::create_directories((folder_ / path).parent_path());
    std::ofstream(folder_ / path, std::ios::binary) << text;
  }
  std::string read(const fs::path& path) {
    std::ifstream file(folder_ / path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::string archive() const { return folder_ / "archive"; }

  // An archive with any members, and a sum that is right.
  void pack(const std::vector<std::pair<TarMember, std::string>>& members) {
    std::string bytes;
    auto add = [&](TarMember member, std::string_view text) {
      member.bytes = text.size();
      bytes += wire::tarHead(member) + std::string(text);
      bytes.append(wire::tarPadding(text.size()), '\0');
    };
    add({.name = "about"}, "hello");
    for (const auto& [member, text] : members) add(member, text);
    net::Sha256 sum;
    sum.add(bytes);
    add({.name = std::string(kArchiveSum)}, hexEncode(sum.finish()) + "\n");
    write("archive", bytes + wire::tarEnd());
  }

  Result<Unpacked> unpack() {
    auto beneath = Beneath::open(folder_ / "out");
    EXPECT_TRUE(beneath.ok());
    return unpackArchive(
        archive(), *beneath, "about",
        [&](std::string_view text) -> Result<> {
          about_ = text;
          return {};
        },
        [](const TarMember& member) { return member.name != "forbidden"; });
  }
  std::string refusal() {
    auto unpacked = unpack();
    return unpacked ? std::string("it is taken") : unpacked.error().text();
  }

  fs::path folder_;
  std::string about_;
};

TEST_F(ArchiveTest, ATreeComesBackAsItWas) {
  std::string large(3'000'001, 'x');
  write("in/a", "text");
  write("in/deep/er/large", large);
  write("in/empty", "");
  write("in/" + std::string(200, 'n'), "a long name");
  fs::create_directory(folder_ / "in/hollow");
  fs::create_symlink("/etc/passwd", folder_ / "in/link");
  fs::create_hard_link(folder_ / "in/deep/er/large", folder_ / "in/zz-again");
  mkfifo((folder_ / "in/pipe").c_str(), 0640);
  chmod((folder_ / "in/a").c_str(), 04751);
  chmod((folder_ / "in/hollow").c_str(), 01777);
  int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un place{};
  place.sun_family = AF_UNIX;
  std::string path = folder_ / "in/socket";
  path.copy(place.sun_path, sizeof place.sun_path - 1);
  bind(socket, reinterpret_cast<sockaddr*>(&place), sizeof place);
  close(socket);
  chmod((folder_ / "in/deep").c_str(), 0500);

  auto archive_made = ArchiveWriter::make(archive());
  ASSERT_TRUE(archive_made.ok());
  ASSERT_TRUE(archive_made->addText("about", "what it is").ok());
  ASSERT_TRUE(archive_made->addTree("in", folder_ / "in").ok());
  ASSERT_TRUE(archive_made->finish().ok());
  EXPECT_EQ(archive_made->told().bytes, fs::file_size(archive()));
  EXPECT_LT(fs::file_size(archive()), 2 * large.size()) << "both names have the same bytes";

  auto unpacked = unpack();
  ASSERT_TRUE(unpacked.ok()) << unpacked.error().text();
  EXPECT_EQ(about_, "what it is");
  EXPECT_EQ(read("out/in/a"), "text");
  EXPECT_EQ(read("out/in/deep/er/large"), large);
  EXPECT_EQ(read("out/in/" + std::string(200, 'n')), "a long name");
  EXPECT_TRUE(fs::is_empty(folder_ / "out/in/empty"));
  EXPECT_EQ(fs::read_symlink(folder_ / "out/in/link"), "/etc/passwd");
  EXPECT_TRUE(fs::equivalent(folder_ / "out/in/deep/er/large", folder_ / "out/in/zz-again"));
  EXPECT_FALSE(fs::exists(folder_ / "out/in/socket"));
  for (const char* name : {"a", "hollow", "pipe", "deep"}) {
    struct stat before{}, after{};
    stat((folder_ / "in" / name).c_str(), &before);
    stat((folder_ / "out/in" / name).c_str(), &after);
    EXPECT_EQ(before.st_mode, after.st_mode) << name;
    EXPECT_EQ(before.st_mtim.tv_sec, after.st_mtim.tv_sec) << name;
  }
  for (const char* tree : {"in", "out/in"}) chmod((folder_ / tree / "deep").c_str(), 0700);
}

TEST_F(ArchiveTest, EveryCutAndEveryFlippedByteIsNoticed) {
  pack({{{.name = "file"}, std::string(1000, 'x')}, {{.name = "d", .type = Type::Folder}, ""}});
  std::string whole = read("archive");
  ASSERT_EQ(refusal(), "it is taken");
  auto again = [&](const std::string& bytes) {
    fs::remove_all(folder_ / "out");
    fs::create_directory(folder_ / "out");
    write("archive", bytes);
    return refusal();
  };
  for (std::size_t at = 0; at < whole.size(); at += 37) {
    EXPECT_NE(again(whole.substr(0, at)), "it is taken") << at;
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ 4);
    EXPECT_NE(again(flipped), "it is taken") << at;
  }
  EXPECT_THAT(again(whole.substr(0, whole.size() - 1)), HasSubstr("is damaged (it is cut off)"));
  EXPECT_THAT(again(whole + "x"), HasSubstr("something follows its end"));
  EXPECT_THAT(again("no archive"), HasSubstr("is no backup"));
  EXPECT_THAT(again(""), HasSubstr("is no backup"));
}

TEST_F(ArchiveTest, NothingLeadsOutOfTheFolder) {
  write("victim", "untouched");
  std::string outside = folder_ / "victim";
  struct Case {
    std::vector<std::pair<TarMember, std::string>> members;
    std::string why;
  };
  const TarMember link{.name = "link", .type = Type::Symlink, .target = ".."};
  const Case cases[] = {
      {{{{.name = "../victim"}, "x"}}, "leads out of its folder"},
      {{{{.name = outside}, "x"}}, "leads out of its folder"},
      {{{{.name = "a/../../victim"}, "x"}}, "leads out of its folder"},
      {{{{.name = "./a"}, "x"}}, "leads out of its folder"},
      {{{{.name = "a//b"}, "x"}}, "leads out of its folder"},
      {{{{.name = ""}, "x"}}, "leads out of its folder"},
      {{{link, ""}, {{.name = "link/victim"}, "x"}}, "leads out of its folder"},
      {{{link, ""}, {{.name = "link", .type = Type::Folder}, ""}}, "cannot make link"},
      {{{{.name = "link", .type = Type::Symlink, .target = outside}, ""}, {{.name = "link"}, "x"}},
       "cannot make link"},
      {{{{.name = "hard", .type = Type::HardLink, .target = outside}, ""}},
       "leads out of its folder"},
      {{{{.name = "hard", .type = Type::HardLink, .target = "../victim"}, ""}},
       "leads out of its folder"},
      {{{link, ""}, {{.name = "hard", .type = Type::HardLink, .target = "link/victim"}, ""}},
       "leads out of its folder"},
      {{{link, ""}, {{.name = "hard", .type = Type::HardLink, .target = "link"}, ""}},
       "leads out of its folder"},
      {{{{.name = "none/file"}, "x"}}, "leads out of its folder or into nothing"},
      {{{{.name = "twice"}, "x"}, {{.name = "twice"}, "y"}}, "cannot make twice"},
      {{{{.name = "forbidden"}, "x"}}, "which belongs to no backup"},
      {{{{.name = "device", .type = static_cast<Type>('3')}, ""}}, "is damaged"},
  };
  for (const Case& one : cases) {
    fs::remove_all(folder_ / "out");
    fs::create_directory(folder_ / "out");
    pack(one.members);
    EXPECT_THAT(refusal(), HasSubstr(one.why)) << one.members.back().first.name;
    EXPECT_EQ(read("victim"), "untouched");
  }
}

}  // namespace
}  // namespace cadre::cli
