#pragma once

#include <memory>
#include <string>

#include "json/value.h"

namespace cadre::json {

// A value in as few bytes as it can be held in, by the Packer that made it.
class Packed {
 public:
  Packed() = default;
  explicit operator bool() const { return bytes_ != nullptr; }
  std::size_t size() const;
  // Of one Packer: equal bytes are equal values, other bytes may be.
  friend bool operator==(const Packed& one, const Packed& other) {
    return one.view() == other.view();
  }

 private:
  friend class Packer;
  explicit Packed(std::string_view bytes);
  std::string_view view() const;

  std::unique_ptr<char[]> bytes_;  // the length, and then what it says
};

// Holds many values that are alike, such as the objects of one kind: the first few teach it what
// they have in common, the rest is kept as what is different about it. An object takes about a
// third of its text; packing it and taking it out again cost some microseconds each.
class Packer {
 public:
  Packer();
  ~Packer();
  Packer(const Packer&) = delete;
  Packer& operator=(const Packer&) = delete;

  Packed pack(const Value& value);
  Value unpack(const Packed& packed) const;

 private:
  struct Prepared;
  std::string common_;  // complete, and never changed again, when it has kCommon bytes
  std::unique_ptr<Prepared> prepared_;
};

}  // namespace cadre::json
