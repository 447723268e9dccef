#pragma once

#include <utility>

#include <unistd.h>

namespace cadre {

// A file descriptor that is closed in the end; below 0: none.
class Descriptor {
 public:
  explicit Descriptor(long descriptor = -1) : descriptor_(static_cast<int>(descriptor)) {}
  Descriptor(Descriptor&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Descriptor() { close(); }
  void close() {
    if (int old = std::exchange(descriptor_, -1); old >= 0) ::close(old);
  }
  int get() const { return descriptor_; }
  explicit operator bool() const { return descriptor_ >= 0; }

 private:
  int descriptor_;
};

}  // namespace cadre
