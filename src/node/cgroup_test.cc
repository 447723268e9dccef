#include "node/cgroup.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "base/format.h"

namespace cadre::node {
namespace {

namespace fs = std::filesystem;

class Cgroup : public testing::Test {
 protected:
  Cgroup() : root_(fs::temp_directory_path() / format("cadre-cgroup-{}", ::getpid())) {}
  ~Cgroup() override {
    std::error_code ignored;
    fs::remove_all(root_, ignored);
  }
  void put(const std::string& file, std::string_view text) {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }
  std::string at(const std::string& path) const { return (root_ / path).string(); }
  std::string mount(std::string_view root, const std::string& path, std::string_view rest) const {
    return format("31 23 0:28 {} {} rw,relatime shared:9 - {}\n", root, at(path), rest);
  }

  const fs::path root_;
};

TEST_F(Cgroup, Version1HasAFolderForEachController) {
  put("memory/ours/inner/x", "");
  put("cpu,cpuacct/x", "");
  put("pids/x", "");
  std::string mounts = mount("/", "memory", "cgroup cgroup rw,memory") +
                       mount("/", "cpu,cpuacct", "cgroup cgroup rw,cpu,cpuacct") +
                       mount("/docker/9", "pids", "cgroup cgroup rw,pids");
  EXPECT_EQ(
      controlFolders(mounts, "4:memory:/ours/inner\n3:pids:/docker/9\n2:cpu,cpuacct:/\n0::/\n"),
      (ControlFolders{{"memory", at("memory/ours/inner")},
                      {"cpu", at("cpu,cpuacct/")},
                      {"pids", at("pids/")}}));
  EXPECT_EQ(controlFolders(mounts, "3:pids:/elsewhere\n"), ControlFolders()) << "not to be seen";
}

TEST_F(Cgroup, Version2IsBelowWhoeverHandsControllersOn) {
  put("cgroup.subtree_control", "cpuset cpu io memory pids\n");
  put("user.slice/cgroup.subtree_control", "cpu memory pids\n");
  put("user.slice/app.slice/cgroup.subtree_control", "memory pids\n");
  put("user.slice/app.slice/term.scope/cgroup.subtree_control", "");
  const std::string mounts = mount("/", "", "cgroup2 cgroup2 rw,nsdelegate");
  const std::string own = "0::/user.slice/app.slice/term.scope\n";
  EXPECT_EQ(controlFolders(mounts, own), ControlFolders()) << "nobody lets us move there";
  put("user.slice/app.slice/cgroup.procs", "");
  // One is in one group only: what is handed on further up is no use.
  EXPECT_EQ(controlFolders(mounts, own), (ControlFolders{{"memory", at("user.slice/app.slice")},
                                                         {"pids", at("user.slice/app.slice")}}));
}

TEST_F(Cgroup, NothingIsLimitedWhereNothingIsHandedOn) {
  put("cgroup.subtree_control", "");
  EXPECT_EQ(controlFolders(mount("/", "", "cgroup2 cgroup2 rw"), "0::/\n"), ControlFolders());
  EXPECT_EQ(controlFolders("", ""), ControlFolders());
  EXPECT_TRUE(makeGroups({}, "one", {.memory_bytes = 1 << 20})->empty());
}

TEST_F(Cgroup, LimitsAreWrittenWhereAGroupKnowsThem) {
  for (const char* file : {"one/memory.max", "one/memory.swap.max", "one/pids.max"})
    put(file, "max");
  put("cpu/one/cpu.cfs_quota_us", "-1");
  auto groups = makeGroups({{"memory", at("")}, {"pids", at("")}, {"cpu", at("cpu")}}, "one",
                           {.memory_bytes = 1 << 20, .cpu_millis = 1500, .processes = 7});
  ASSERT_TRUE(groups);
  EXPECT_EQ(*groups, (ControlGroups{at("one"), at("cpu/one")}));
  auto read = [&](const std::string& file) {
    std::string text;
    std::getline(std::ifstream(root_ / file), text);
    return text;
  };
  EXPECT_EQ(read("one/memory.max"), "1048576");
  EXPECT_EQ(read("one/memory.swap.max"), "0");
  EXPECT_EQ(read("one/pids.max"), "7");
  EXPECT_EQ(read("cpu/one/cpu.cfs_quota_us"), "150000");
  EXPECT_FALSE(fs::exists(root_ / "one/memory.limit_in_bytes"));

  EXPECT_FALSE(wasShortOfMemory(*groups));
  put("one/memory.events", "low 0\noom 1\noom_kill 0\n");
  EXPECT_FALSE(wasShortOfMemory(*groups));
  put("one/memory.events", "low 0\noom 1\noom_kill 2\n");
  EXPECT_TRUE(wasShortOfMemory(*groups));
}

}  // namespace
}  // namespace cadre::node
