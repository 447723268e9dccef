#include "json/pack.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include <zstd.h>

#include "json/parse.h"
#include "json/write.h"

namespace cadre::json {
namespace {

// What values of a kind have in common is in the first of them. More than this finds no more in
// objects of some kilobytes (measured), and is gone through for each value.
constexpr std::size_t kCommon = 4096;
constexpr int kLevel = -1;  // level 1 takes half as long again for a tenth less
constexpr char kPlain = 'p', kZstd = 'z';

// What only damaged memory can bring about.
void require(bool holds) {
  if (!holds) std::abort();
}

struct Free {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
  void operator()(ZSTD_CDict* dictionary) const { ZSTD_freeCDict(dictionary); }
};

ZSTD_CCtx* compressor() {
  thread_local std::unique_ptr<ZSTD_CCtx, Free> context;
  if (!context) {
    context.reset(ZSTD_createCCtx());
    require(context != nullptr);
  }
  return context.get();
}

ZSTD_DCtx* decompressor() {
  thread_local std::unique_ptr<ZSTD_DCtx, Free> context;
  if (!context) context.reset(ZSTD_createDCtx());
  require(context != nullptr);
  return context.get();
}

}  // namespace

// What is known beforehand about all that will be packed.
struct Packer::Prepared {
  std::unique_ptr<ZSTD_CDict, Free> common;
};

Packer::Packer() = default;
Packer::~Packer() = default;

Packed::Packed(std::string_view bytes) {
  auto size = static_cast<std::uint32_t>(bytes.size());
  require(size == bytes.size());
  bytes_.reset(new char[sizeof size + bytes.size()]);
  std::memcpy(bytes_.get(), &size, sizeof size);
  std::memcpy(bytes_.get() + sizeof size, bytes.data(), bytes.size());
}

std::string_view Packed::view() const {
  std::uint32_t size = 0;
  if (!bytes_) return {};
  std::memcpy(&size, bytes_.get(), sizeof size);
  return {bytes_.get() + sizeof size, size};
}

std::size_t Packed::size() const { return view().size(); }

Packed Packer::pack(const Value& value) {
  std::string text(1, kPlain);
  append(text, value);
  std::string_view plain = std::string_view(text).substr(1);
  if (common_.size() < kCommon) {
    common_ += plain.substr(0, kCommon - common_.size());
    return Packed(text);
  }
  if (!prepared_) {
    prepared_ = std::make_unique<Prepared>();
    prepared_->common.reset(ZSTD_createCDict(common_.data(), common_.size(), kLevel));
    require(prepared_->common != nullptr);
  }
  std::size_t room = ZSTD_compressBound(plain.size());
  std::unique_ptr<char[]> small(new char[1 + room]);
  small[0] = kZstd;
  std::size_t size = ZSTD_compress_usingCDict(compressor(), small.get() + 1, room, plain.data(),
                                              plain.size(), prepared_->common.get());
  require(!ZSTD_isError(size));
  return size < plain.size() ? Packed(std::string_view(small.get(), 1 + size)) : Packed(text);
}

Value Packer::unpack(const Packed& packed) const {
  std::string_view bytes = packed.view();
  if (bytes.empty()) return {};
  std::string text;
  std::string_view plain = bytes.substr(1);
  if (bytes[0] == kZstd) {
    text.resize(ZSTD_getFrameContentSize(plain.data(), plain.size()));
    ZSTD_DCtx_refPrefix(decompressor(), common_.data(), common_.size());
    require(ZSTD_decompressDCtx(decompressor(), text.data(), text.size(), plain.data(),
                                plain.size()) == text.size());
    plain = text;
  }
  // It was a value in this process: no limit can be in its way that was not in its way then.
  constexpr std::size_t kAny = SIZE_MAX;
  Result<Value> value = parse(plain, Limits{.bytes = kAny, .depth = kAny, .values = kAny});
  require(value.ok());
  return *std::move(value);
}

}  // namespace cadre::json
