#include "json/pack.h"

#include <gtest/gtest.h>

#include "base/format.h"
#include "json/parse.h"
#include "json/random_value.h"
#include "json/write.h"

namespace cadre::json {
namespace {

Value pod(int number, std::size_t padding = 0) {
  return Object{{"apiVersion", "v1"},
                {"kind", "Pod"},
                {"metadata", Object{{"name", format("web-{}", number)}, {"namespace", "shop"}}},
                {"spec", Object{{"restartPolicy", "Always"},
                                {"serviceAccountName", "web"},
                                {"terminationGracePeriodSeconds", 30},
                                {"padding", std::string(padding, 'x')}}}};
}

TEST(Pack, GivesBackWhatItWasGiven) {
  Packer packer;
  RandomValues values(1);
  std::vector<std::pair<Value, Packed>> held;
  for (int i = 0; i < 2000; ++i) {
    Value value = *parse(write(values.next()));
    held.emplace_back(value, packer.pack(value));
  }
  for (const auto& [value, packed] : held) EXPECT_EQ(packer.unpack(packed), value);
}

TEST(Pack, WhatIsAlikeTakesLittle) {
  Packer packer;
  for (int i = 0; i < 100; ++i) packer.pack(pod(i));
  EXPECT_LT(packer.pack(pod(4711)).size(), write(pod(4711)).size() / 3);
}

TEST(Pack, EqualValuesAreEqualWhenPacked) {
  Packer packer;
  EXPECT_EQ(packer.pack(pod(1)), packer.pack(pod(1)));
  for (int i = 0; i < 100; ++i) packer.pack(pod(i));
  EXPECT_EQ(packer.pack(pod(1)), packer.pack(pod(1)));
  EXPECT_NE(packer.pack(pod(1)), packer.pack(pod(2)));
}

TEST(Pack, LargeAndTinyOnes) {
  Packer packer;
  for (std::size_t size : {0, 1, 5000, 8 << 20, 3}) {
    Packed packed = packer.pack(pod(1, size));
    EXPECT_EQ(packer.unpack(packed), pod(1, size)) << size;
  }
  EXPECT_EQ(packer.unpack(packer.pack(nullptr)), Value());
}

TEST(Pack, NothingIsNull) {
  EXPECT_FALSE(Packed());
  EXPECT_TRUE(Packer().unpack(Packed()).isNull());
  EXPECT_TRUE(Packer().pack(nullptr));
}

}  // namespace
}  // namespace cadre::json
