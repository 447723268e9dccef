// What the kernel takes; what it then lets through is seen by pods (test/node/docker_test.py).
#include "net/filter.h"

#include <netinet/in.h>
#include <unistd.h>

namespace cadre::net {
namespace {

TEST(Filter, TheKernelTakesIt) {
  if (auto able = tryFilter({}); !able && able.error().code == Code::Forbidden)
    GTEST_SKIP() << able.error().text();
  struct Row {
    std::string title;
    Filter filter;
  };
  // Only root may say so much at once.
  const std::uint32_t most = geteuid() == 0 ? 10'000 : 300;
  std::vector<Traffic> much;
  much.reserve(most);
  for (std::uint32_t i = 0; i < most; ++i)
    much.push_back({i, 0xffff0000 + i, IPPROTO_TCP, static_cast<std::uint16_t>(i), 0xffff});
  using List = std::vector<Traffic>;
  for (const Row& row : {
           Row{"nothing", {}},
           Row{"neither in nor out", {.in = List{}, .out = List{}}},
           Row{"all out", {.in = List{}, .out = List{Traffic{}}}},
           Row{"one address", {.in = List{{0x0a000001, 0x0a000001}}, .out = {}}},
           Row{"a protocol", {.in = List{{.protocol = IPPROTO_UDP}}, .out = {}}},
           Row{"ports", {.in = List{{0, 5, IPPROTO_SCTP, 80, 90}}, .out = {}}},
           Row{"as much as there may be", {.in = much, .out = much}},
       })
    EXPECT_TRUE(tryFilter(row.filter)) << row.title;
}

}  // namespace
}  // namespace cadre::net
