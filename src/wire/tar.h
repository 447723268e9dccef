#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"

namespace cadre::wire {

// Archives in the form of POSIX (ustar, with pax records for what does not fit there), as tar(1)
// reads and writes it. The bytes of members are not held here: a head is written, then as many
// bytes as it says, filled up to whole blocks.

constexpr std::size_t kTarBlock = 512;

struct TarMember {
  enum class Type : char {
    File = '0',
    HardLink = '1',
    Symlink = '2',
    Folder = '5',
    Pipe = '6',
  };

  std::string name;  // without a slash at its end
  Type type = Type::File;
  std::uint32_t mode = 0644;
  std::uint32_t user = 0, group = 0;
  std::uint64_t bytes = 0;  // only a File has some
  Time changed{};           // to the second
  std::string target = {};  // of a link

  bool operator==(const TarMember&) const = default;
};

// The head of a member. Any name, target, size and time has one.
std::string tarHead(const TarMember& member);
// How many zeros follow so many bytes of a member.
constexpr std::size_t tarPadding(std::uint64_t bytes) {
  return static_cast<std::size_t>((kTarBlock - bytes % kTarBlock) % kTarBlock);
}
// What stands at the end of an archive.
std::string tarEnd();

// Reads heads. Not thread-safe.
class TarReader {
 public:
  // Takes the next block that is no member's bytes. The member, when this block was the last of its
  // head: then its bytes and their padding follow. Nothing: more blocks are needed.
  // DataLoss for what is no head, InvalidArgument for one of a kind that we do not take.
  Result<std::optional<TarMember>> take(std::string_view block);
  // A block of zeros came: the archive has ended.
  bool ended() const { return ended_; }

 private:
  Result<> readRecords();

  bool ended_ = false;
  std::uint64_t records_left_ = 0;  // bytes of pax records that are still to come
  std::string records_;
  std::optional<std::string> name_, target_;  // what they said
  std::optional<std::uint64_t> bytes_;
  std::optional<std::uint32_t> user_, group_;
};

}  // namespace cadre::wire
