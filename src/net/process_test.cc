#include "net/process.h"

namespace cadre::net {
namespace {

constexpr Duration kSoon = 20s;

Result<ProcessResult> run(Loop& loop, ProcessOptions options) {
  if (options.env.empty()) options.env = {{"PATH", "/usr/bin:/bin"}};
  return await<ProcessResult>(
      loop, [&](auto done) { return runProcess(loop, std::move(options), std::move(done)); },
      kSoon);
}

TEST(Process, HandsBackOutputErrorsAndCode) {
  Loop loop;
  auto result = run(loop, {.argv = {"sh", "-c", "cat; echo oops >&2; exit 3"}, .input = "hello"});
  ASSERT_TRUE(result) << result.error().text();
  EXPECT_EQ(result->output, "hello");
  EXPECT_EQ(result->errors, "oops\n");
  EXPECT_EQ(result->exit_code, 3);
}

TEST(Process, LargeInputAndOutputDoNotDeadlock) {
  Loop loop;
  std::string big(3 << 20, 'x');
  auto result = run(loop, {.argv = {"cat"}, .input = big, .max_output_bytes = 4 << 20});
  ASSERT_TRUE(result);
  EXPECT_TRUE(result->output == big);
}

TEST(Process, OutputIsBounded) {
  Loop loop;
  auto result =
      run(loop, {.argv = {"sh", "-c", "head -c 1000000 /dev/zero"}, .max_output_bytes = 1000});
  ASSERT_TRUE(result);
  EXPECT_EQ(result->output.size(), 1000u);
  EXPECT_TRUE(result->truncated);
  EXPECT_EQ(result->exit_code, 0);
}

TEST(Process, ATimeoutKillsTheWholeGroup) {
  Loop loop;
  auto result = run(loop, {.argv = {"sh", "-c", "sleep 1000 & sleep 1000"}, .timeout = 50ms});
  ASSERT_TRUE(result);
  EXPECT_TRUE(result->timed_out);
  EXPECT_EQ(result->exit_code, 128 + 9);
}

TEST(Process, ADescendantThatHoldsThePipesDoesNotHoldUs) {
  Loop loop;
  auto result = run(loop, {.argv = {"sh", "-c", "sleep 1000 & echo done"}});
  ASSERT_TRUE(result);
  EXPECT_EQ(result->output, "done\n");
  EXPECT_EQ(result->exit_code, 0);
}

TEST(Process, NothingIsInherited) {
  Loop loop;
  auto result = run(loop, {.argv = {"/usr/bin/env"}, .env = {{"ONLY", "this"}}});
  ASSERT_TRUE(result);
  EXPECT_EQ(result->output, "ONLY=this\n");
  auto files = run(loop, {.argv = {"sh", "-c", "ls /proc/self/fd | wc -l"}});
  ASSERT_TRUE(files);
  EXPECT_EQ(files->output, "4\n");  // its three, and the folder that ls reads
}

TEST(Process, AMissingProgramIsNamed) {
  Loop loop;
  auto result = run(loop, {.argv = {"no-such-program"}});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().text(), "cannot run no-such-program: no such file or directory");
}

TEST(Process, DroppingKills) {
  Loop loop;
  bool called = false;
  {
    Pending dropped =
        runProcess(loop, {.argv = {"sleep", "1000"}, .env = {{"PATH", "/usr/bin:/bin"}}},
                   [&](auto) { called = true; });
  }
  int turns = 0;
  loop.runUntil([&] { return ++turns > 10; }, 50ms);
  EXPECT_FALSE(called);
}

}  // namespace
}  // namespace cadre::net
