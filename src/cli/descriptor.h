#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace cadre::cli {

// A file descriptor that is closed in the end; below 0: none.
class Descriptor {
 public:
  explicit Descriptor(long descriptor) : descriptor_(static_cast<int>(descriptor)) {}
  Descriptor(Descriptor&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Descriptor();

  explicit operator bool() const { return descriptor_ >= 0; }
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

// "cannot read /x: Permission denied; become its owner first, or root": by errno.
Error cannot(std::string_view what, const std::string& path);

// Who has locked a file (flock) that says who it is; 0: nobody. Makes no file.
int holderOf(const std::string& path);

}  // namespace cadre::cli
