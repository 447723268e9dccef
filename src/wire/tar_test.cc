#include "wire/tar.h"

#include "base/format.h"

namespace cadre::wire {
namespace {

using testing::HasSubstr;
using Type = TarMember::Type;

Result<std::optional<TarMember>> readHead(std::string_view head) {
  TarReader reader;
  while (!head.empty()) {
    auto member = reader.take(head.substr(0, kTarBlock));
    head.remove_prefix(std::min(head.size(), kTarBlock));
    if (!member || *member) return member;
  }
  return std::optional<TarMember>();
}

TEST(Tar, WhatIsWrittenIsRead) {
  const TarMember members[] = {
      {.name = "file", .bytes = 1234, .changed = Time(std::chrono::seconds(1767225600))},
      {.name = "folder/below", .type = Type::Folder, .mode = 01777},
      {.name = std::string(99, 'f'), .type = Type::Folder},
      {.name = std::string(100, 'f'), .type = Type::Folder},
      {.name = std::string(100, 'n')},
      {.name = std::string(4000, 'n'), .mode = 04755, .user = 1000, .group = 7},
      {.name = "link", .type = Type::Symlink, .target = "../../" + std::string(300, 't')},
      {.name = "again", .type = Type::HardLink, .target = "file"},
      {.name = "pipe", .type = Type::Pipe, .mode = 0600},
      {.name = "large", .bytes = 1ull << 40},
      {.name = "whose", .user = 0xfffffffe, .group = 100'000'000},
      {.name = "words with spaces = and\nlines " + std::string(200, '=')},
      {.name = ""},
  };
  for (const TarMember& member : members) {
    std::string head = tarHead(member);
    EXPECT_EQ(head.size() % kTarBlock, 0u);
    auto read = readHead(head);
    ASSERT_TRUE(read.ok()) << read.error().text();
    ASSERT_TRUE(*read) << member.name;
    EXPECT_TRUE(**read == member) << member.name;
  }
  EXPECT_EQ(tarPadding(0), 0u);
  EXPECT_EQ(tarPadding(1), 511u);
  EXPECT_EQ(tarPadding(512), 0u);
}

TEST(Tar, AnArchiveEndsWithZeros) {
  TarReader reader;
  EXPECT_TRUE(reader.take(tarEnd().substr(0, kTarBlock)).ok());
  EXPECT_TRUE(reader.ended());
}

TEST(Tar, WhatIsNoHeadIsRefused) {
  std::string head = tarHead({.name = "file", .bytes = 5});
  auto refusal = [](std::string_view bytes) {
    auto read = readHead(bytes);
    return read ? std::string("it is taken") : read.error().text();
  };
  EXPECT_EQ(refusal(head.substr(0, 100)), "it is cut off");
  for (std::size_t at : {0, 100, 130, 150, 156, 300}) {
    std::string other = head;
    other[at] = static_cast<char>(other[at] ^ 0x11);
    EXPECT_NE(refusal(other), "it is taken") << at;
  }
  // A device, with a sum that is right.
  std::string device = tarHead({.name = "null", .type = static_cast<Type>('3')});
  EXPECT_EQ(refusal(device), "null is of a kind that is not taken");
  EXPECT_EQ(refusal(tarHead({.name = "link", .type = Type::Symlink, .bytes = 3, .target = "x"})),
            "link is no file and has bytes");
  // Records that lie about their own length.
  std::string records = tarHead({.name = std::string(200, 'n')});
  for (std::string_view lie : {"999 path=", "4 path=nn", "x path=nn", "   path=nn"}) {
    std::string other = records;
    other.replace(kTarBlock, lie.size(), lie);
    EXPECT_EQ(refusal(other), "a record about a member makes no sense") << lie;
  }
}

}  // namespace
}  // namespace cadre::wire
