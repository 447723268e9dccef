#include "wire/tar.h"

#include <algorithm>
#include <array>

#include "base/format.h"
#include "base/strings.h"

namespace cadre::wire {
namespace {

// Where each field of a head is, and how long.
struct Field {
  std::size_t at, size;
};
constexpr Field kName{0, 100}, kMode{100, 8}, kUser{108, 8}, kGroup{116, 8}, kBytes{124, 12},
    kTime{136, 12}, kSum{148, 8}, kTarget{157, 100}, kMagic{257, 8}, kPrefix{345, 155};
constexpr std::size_t kType = 156;
constexpr char kRecords = 'x';                     // pax, for the next member
constexpr std::size_t kMaxRecords = 1u << 20;      // of one member
constexpr std::uint64_t kMaxOctal = 077777777777;  // in 11 digits
constexpr std::uint32_t kMaxId = 07777777;         // in 7 digits

using Block = std::array<char, kTarBlock>;

void put(Block& block, Field field, std::string_view text) {
  std::copy_n(text.data(), std::min(field.size, text.size()), block.data() + field.at);
}

void putOctal(Block& block, Field field, std::uint64_t number) {
  put(block, field, format("{:0{}o}", number, field.size - 1));
}

unsigned sumOf(std::string_view block) {
  unsigned sum = 0;
  for (std::size_t i = 0; i < block.size(); ++i)
    sum += i >= kSum.at && i < kSum.at + kSum.size ? ' ' : static_cast<unsigned char>(block[i]);
  return sum;
}

std::string_view get(std::string_view block, Field field) {
  std::string_view text = block.substr(field.at, field.size);
  return text.substr(0, text.find('\0'));
}

// Nothing if it is no number, or larger than any that we write.
std::optional<std::uint64_t> getOctal(std::string_view block, Field field) {
  std::string_view text = trim(get(block, field));
  std::uint64_t number = 0;
  if (text.empty() || text.size() > 11) return std::nullopt;
  for (char digit : text) {
    if (digit < '0' || digit > '7') return std::nullopt;
    number = number * 8 + static_cast<std::uint64_t>(digit - '0');
  }
  return number;
}

// "LENGTH key=value\n", where LENGTH counts its own digits, too.
std::string record(std::string_view key, std::string_view value) {
  std::size_t rest = key.size() + value.size() + 3, length = rest + 1;
  while (format("{}", length).size() + rest != length) ++length;
  return format("{} {}={}\n", length, key, value);
}

Error damaged(std::string why) { return {.code = Code::DataLoss, .message = std::move(why)}; }

Block headOf(const TarMember& member, char type) {
  Block block{};
  put(block, kName, member.name);
  putOctal(block, kMode, member.mode & 07777);
  putOctal(block, kUser, std::min(member.user, kMaxId));
  putOctal(block, kGroup, std::min(member.group, kMaxId));
  putOctal(block, kBytes, std::min(member.bytes, kMaxOctal));
  auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>(member.changed.time_since_epoch()).count();
  putOctal(
      block, kTime,
      std::min<std::uint64_t>(seconds < 0 ? 0 : static_cast<std::uint64_t>(seconds), kMaxOctal));
  block[kType] = type;
  put(block, kTarget, member.target);
  put(block, kMagic, std::string_view("ustar\00000", 8));
  put(block, kSum, format("{:06o}", sumOf({block.data(), block.size()})) + std::string("\0 ", 2));
  return block;
}

}  // namespace

std::string tarHead(const TarMember& member) {
  std::string name = member.name;
  if (member.type == TarMember::Type::Folder) name += '/';
  std::string records;
  if (name.size() > kName.size) records += record("path", name);
  if (member.target.size() > kTarget.size) records += record("linkpath", member.target);
  if (member.user > kMaxId) records += record("uid", format("{}", member.user));
  if (member.group > kMaxId) records += record("gid", format("{}", member.group));
  if (member.bytes > kMaxOctal) records += record("size", format("{}", member.bytes));
  std::string out;
  if (!records.empty()) {
    Block head = headOf({.name = "PaxHeader", .bytes = records.size()}, kRecords);
    out.append(head.data(), head.size());
    out += records;
    out.append(tarPadding(records.size()), '\0');
  }
  TarMember named = member;
  named.name = std::move(name);
  Block head = headOf(named, static_cast<char>(member.type));
  out.append(head.data(), head.size());
  return out;
}

std::string tarEnd() { return std::string(2 * kTarBlock, '\0'); }

Result<> TarReader::readRecords() {
  std::string_view left = records_;
  while (!left.empty()) {
    auto length = parseInt(cut(left, " ").first);
    if (!length || *length < 5 || static_cast<std::uint64_t>(*length) > left.size() ||
        left[static_cast<std::size_t>(*length) - 1] != '\n')
      return damaged("a record about a member makes no sense");
    std::string_view text = left.substr(0, static_cast<std::size_t>(*length) - 1);
    left.remove_prefix(static_cast<std::size_t>(*length));
    auto [key, value] = cut(cut(text, " ").second, "=");
    if (key == "path") name_ = value;
    if (key == "linkpath") target_ = value;
    auto number = parseInt(value);
    if (!number || *number < 0) continue;
    if (key == "size") bytes_ = static_cast<std::uint64_t>(*number);
    if (key == "uid") user_ = static_cast<std::uint32_t>(*number);
    if (key == "gid") group_ = static_cast<std::uint32_t>(*number);
  }
  records_.clear();
  return {};
}

Result<std::optional<TarMember>> TarReader::take(std::string_view block) {
  const std::optional<TarMember> more;
  if (block.size() != kTarBlock) return damaged("it is cut off");
  if (records_left_ > 0) {
    std::uint64_t mine = std::min<std::uint64_t>(records_left_, kTarBlock);
    records_ += block.substr(0, static_cast<std::size_t>(mine));
    records_left_ -= mine;
    if (records_left_ == 0) CADRE_TRY(readRecords());
    return more;
  }
  if (block.find_first_not_of('\0') == std::string_view::npos) {
    ended_ = true;
    return more;
  }
  if (getOctal(block, kSum) != sumOf(block)) return damaged("what should be a member is none");
  auto bytes = getOctal(block, kBytes), mode = getOctal(block, kMode),
       user = getOctal(block, kUser), group = getOctal(block, kGroup),
       changed = getOctal(block, kTime);
  if (!bytes || !mode || !user || !group || !changed)
    return damaged("a member has a number that is none");
  if (block[kType] == kRecords) {
    if (*bytes > kMaxRecords) return damaged("a member has too long a name");
    records_left_ = *bytes;
    return more;
  }
  std::string name(get(block, kName));
  if (std::string_view prefix = get(block, kPrefix); !prefix.empty())
    name = format("{}/{}", prefix, name);
  TarMember member{.name = name_.value_or(name),
                   .type = static_cast<TarMember::Type>(block[kType]),
                   .mode = static_cast<std::uint32_t>(*mode & 07777),
                   .user = user_.value_or(static_cast<std::uint32_t>(*user)),
                   .group = group_.value_or(static_cast<std::uint32_t>(*group)),
                   .bytes = bytes_.value_or(*bytes),
                   .changed = Time(std::chrono::seconds(*changed)),
                   .target = target_.value_or(std::string(get(block, kTarget)))};
  name_.reset(), target_.reset(), bytes_.reset(), user_.reset(), group_.reset();
  if (block[kType] == '\0') member.type = TarMember::Type::File;
  if (std::string_view("01256").find(static_cast<char>(member.type)) == std::string_view::npos)
    return Error{.code = Code::InvalidArgument,
                 .message = format("{} is of a kind that is not taken", member.name)};
  if (member.type != TarMember::Type::File && member.bytes != 0)
    return damaged(format("{} is no file and has bytes", member.name));
  while (member.name.ends_with('/')) member.name.pop_back();
  return std::optional(std::move(member));
}

}  // namespace cadre::wire
