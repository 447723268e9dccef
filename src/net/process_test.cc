#include "net/process.h"

#include <boost/asio/posix/stream_descriptor.hpp>
#include <filesystem>
#include <fstream>

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/format.h"
#include "net/asio.h"

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

TEST(Process, WhatATimeoutLeavesBehindIsBuried) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // orphans come to us
  Loop loop;
  auto result = run(loop, {.argv = {"sh", "-c", "sleep 100 & wait"}, .timeout = 50ms});
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
  ASSERT_TRUE(result);
  EXPECT_TRUE(result->timed_out);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a child is left";
  EXPECT_EQ(errno, ECHILD);
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

TEST(Process, AnInteractiveOneKeepsOurTerminal) {
  Loop loop;
  // What it reads from, where it complains, and whose process group it is in.
  const std::vector<std::string> look{
      "sh", "-c", "readlink /proc/$$/fd/0 /proc/$$/fd/2; cut -d' ' -f5 /proc/$$/stat"};
  std::string ours =
      format("{}\n{}\n{}\n", std::filesystem::read_symlink("/proc/self/fd/0").string(),
             std::filesystem::read_symlink("/proc/self/fd/2").string(), ::getpgrp());
  auto interactive = run(loop, {.argv = look, .interactive = true});
  ASSERT_TRUE(interactive);
  EXPECT_EQ(interactive->output, ours);
  EXPECT_EQ(interactive->exit_code, 0);
  auto usual = run(loop, {.argv = look});
  ASSERT_TRUE(usual);
  EXPECT_THAT(usual->output, testing::MatchesRegex("pipe:.*\npipe:.*\n.*\n"));
  EXPECT_THAT(usual->output, testing::Not(testing::EndsWith(format("\n{}\n", ::getpgrp()))));
}

TEST(Process, AnInteractiveOneHasItsTimeToo) {
  Loop loop;
  auto result = run(loop, {.argv = {"sleep", "15"}, .interactive = true, .timeout = 20ms});
  ASSERT_TRUE(result);
  EXPECT_TRUE(result->timed_out);
  EXPECT_EQ(result->exit_code, 128 + 9);
}

TEST(Process, OneThatLeftItsGroupIsKilledToo) {
  Loop loop;
  std::filesystem::path folder =
      std::filesystem::temp_directory_path() / format("cadre-process-{}", ::getpid());
  std::filesystem::create_directory(folder);
  ASSERT_EQ(::mkfifo((folder / "left").c_str(), 0600), 0);
  asio::posix::stream_descriptor left(contextOf(loop),
                                      ::open((folder / "left").c_str(), O_RDWR | O_NONBLOCK));
  bool has_left = false;
  left.async_wait(left.wait_read, [&](ErrorCode error) { has_left = !error; });
  {
    Pending dropped = runProcess(
        loop,
        {.argv = {"perl", "-e",
                  "setpgrp(0, getpgrp(getppid())) or die; open(F, '>', 'left'); syswrite(F, 'x');"
                  "sleep 15; open(F, '>', 'survived')"},
         .env = {{"PATH", "/usr/bin:/bin"}},
         .directory = folder},
        [](auto) { ADD_FAILURE(); });
    ASSERT_TRUE(loop.runUntil([&] { return has_left; }, kSoon));
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "survived"));
  std::filesystem::remove_all(folder);
}

TEST(Process, ItDoesNotOutliveUs) {
  std::filesystem::path folder =
      std::filesystem::temp_directory_path() / format("cadre-process-{}", ::getpid());
  std::filesystem::create_directory(folder);
  ASSERT_EQ(::mkfifo((folder / "number").c_str(), 0600), 0);
  int number = ::open((folder / "number").c_str(), O_RDWR);
  pid_t us = ::fork();
  if (us == 0) {
    Loop loop;
    Pending running = runProcess(loop,
                                 {.argv = {"sh", "-c", "echo $$ > number; exec sleep 1000"},
                                  .env = {{"PATH", "/usr/bin:/bin"}},
                                  .directory = folder},
                                 [](auto) {});
    loop.run();
    ::_exit(0);
  }
  char text[32] = "";
  ASSERT_GT(::read(number, text, sizeof text - 1), 0);
  Loop loop;
  asio::posix::stream_descriptor child(
      contextOf(loop), static_cast<int>(::syscall(SYS_pidfd_open, ::atoi(text), 0)));
  bool ended = false;
  child.async_wait(child.wait_read, [&](ErrorCode error) { ended = !error; });
  ::kill(us, SIGKILL);  // no handler of ours gets a turn
  ::waitpid(us, nullptr, 0);
  EXPECT_TRUE(loop.runUntil([&] { return ended; }, kSoon)) << "it runs on";
  ::syscall(SYS_pidfd_send_signal, child.native_handle(), SIGKILL, nullptr, 0);
  ::close(number);
  std::filesystem::remove_all(folder);
}

TEST(Process, WhatIsNoProgramIsNotGivenToAShell) {
  Loop loop;
  std::filesystem::path script =
      std::filesystem::temp_directory_path() / format("cadre-script-{}", ::getpid());
  std::ofstream(script) << "echo ran\n";
  auto denied = run(loop, {.argv = {script}});
  EXPECT_THAT(denied.error().text(), testing::HasSubstr("permission denied"));
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  auto result = run(loop, {.argv = {script}});
  EXPECT_THAT(result.error().text(), testing::HasSubstr("exec format error"));
  std::filesystem::remove(script);
}

struct Talked {
  std::string output, errors;
  std::optional<int> code;

  std::unique_ptr<Conversation> begin(Loop& loop, std::string script, bool terminal) {
    ConversationOptions options{.terminal = terminal, .input = true};
    options.process.argv = {"sh", "-c", std::move(script)};
    options.process.env = {{"PATH", "/usr/bin:/bin"}};
    options.said = [this](bool is_error, std::string_view piece) {
      (is_error ? errors : output) += piece;
    };
    options.ended = [this](Result<int> ended) { code = ended ? *ended : -1; };
    return talk(loop, std::move(options));
  }
};

TEST(Conversation, IsTalkedWithWhileItRuns) {
  Loop loop;
  Talked talked;
  auto talk = talked.begin(loop, "read a; echo got $a; echo wrong >&2; cat; exit 7", false);
  talk->write("first\n");
  ASSERT_TRUE(loop.runUntil([&] { return talked.output == "got first\n"; }, kSoon));
  std::string much(3 << 20, 'x');
  talk->write(much);
  talk->closeInput();
  ASSERT_TRUE(loop.runUntil([&] { return talked.code.has_value(); }, kSoon));
  EXPECT_EQ(talked.output.size(), much.size() + 10);
  EXPECT_EQ(talked.errors, "wrong\n");
  EXPECT_EQ(talked.code, 7);
}

TEST(Conversation, HasATerminalOfItsOwn) {
  Loop loop;
  Talked talked;
  auto talk = talked.begin(loop, "test -t 0 && test -t 2 && read a && stty size", true);
  talk->resize(12, 34);
  talk->write("go\n");
  ASSERT_TRUE(loop.runUntil([&] { return talked.code.has_value(); }, kSoon));
  EXPECT_EQ(talked.output, "go\r\n12 34\r\n");
  EXPECT_EQ(talked.code, 0);
}

TEST(Conversation, WaitsForWhoeverListensAndEndsWithIt) {
  Loop loop;
  bool full = true;
  std::size_t heard = 0;
  ConversationOptions options;
  options.process.argv = {"cat", "/dev/zero"};
  options.process.env = {{"PATH", "/usr/bin:/bin"}};
  options.said = [&](bool, std::string_view piece) { heard += piece.size(); };
  options.full = [&] { return full; };
  options.ended = [](Result<int>) { FAIL() << "it was dropped"; };
  auto talk = net::talk(loop, std::move(options));
  loop.runUntil([] { return false; }, 50ms);
  EXPECT_EQ(heard, 0u);
  full = false;
  EXPECT_TRUE(loop.runUntil([&] { return heard > 1'000'000; }, kSoon));
  talk.reset();
  loop.runUntil([] { return false; }, 10ms);
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
