// Logs of containers, brought into files: with an Engine that is played, and breaks off.
#include "node/docker_log.h"

#include <filesystem>
#include <fstream>

#include "base/format.h"
#include "base/strings.h"

namespace cadre::node {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

struct Line {
  std::string time;  // of 2026-01-01, "00:00:01.000000000"
  int stream = 1;
  std::string text;
};

// Has a container's log, and sends what is asked for; who follows is cut off after some lines.
class Engine final : public net::HttpClient {
 public:
  explicit Engine(net::Loop& loop) : loop_(loop) {}

  Pending send(net::HttpRequest request, net::ResponseHandler handler) override {
    net::Target target = net::Target::parse(request.target);
    ++asked;
    std::string out;
    std::size_t sent = 0;
    bool follows = !target.parameter("follow").empty();
    for (const Line& line : lines) {
      if (follows && sent == cut_after) break;
      std::string stamp = format("2026-01-01T{}Z", line.time);
      if (seconds(*parseTime(stamp)) < target.parameter("since")) continue;
      std::string text = format("{} {}", stamp, line.text);
      out += std::string{static_cast<char>(line.stream), 0, 0, 0, 0, 0, 0,
                         static_cast<char>(text.size())};
      out += text;
      ++sent;
    }
    auto held = std::make_shared<net::ResponseHandler>(std::move(handler));
    loop_.post([weak = std::weak_ptr(held), out] {
      if (auto to = weak.lock()) to->head({.status = 200});
      if (auto to = weak.lock()) to->data(out);
      if (auto to = weak.lock()) to->end({});
    });
    return Pending([held]() mutable { held.reset(); });
  }

  std::vector<Line> lines;
  std::size_t cut_after = 1000;
  int asked = 0;

 private:
  // Of the same length for all times here: texts compare as they do.
  static std::string seconds(Time time) {
    auto nanos = time.time_since_epoch().count();
    return format("{}.{:09}", nanos / 1'000'000'000, nanos % 1'000'000'000);
  }
  net::Loop& loop_;
};

class DockerLogTest : public testing::Test {
 protected:
  DockerLogTest() {
    folder_ = testing::TempDir() + "/docker_log_XXXXXX";
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
    path = folder_ + "/below/0.log";
  }
  ~DockerLogTest() override { std::filesystem::remove_all(folder_); }

  // One life of ours: as far as the Engine lets us, then to the end if it is one.
  void follow(bool to_the_end) {
    bool stopped = false, finished = false;
    DockerLog log(loop, docker, "abc", path, [&] { stopped = true; });
    log.follow();
    EXPECT_TRUE(loop.runUntil([&] { return stopped; }, 10s));
    if (!to_the_end) return;
    log.finish([&] { finished = true; });
    EXPECT_TRUE(loop.runUntil([&] { return finished; }, 10s));
  }

  // Without the date.
  std::vector<std::string> written(const std::string& file) {
    std::ifstream in(file);
    std::vector<std::string> out;
    for (std::string line; std::getline(in, line);)
      out.push_back(line.substr(std::min<std::size_t>(20, line.size())));
    return out;
  }

  net::Loop loop;
  Engine engine{loop};
  wire::Docker docker{engine, "/run/engine"};
  std::string path;

 private:
  std::string folder_;
};

TEST_F(DockerLogTest, EachLineIsThereOnceHoweverOftenItBreaksOff) {
  for (int i = 0; i < 9; ++i)
    engine.lines.push_back({format("00:00:0{}.000000000", i / 3), 1 + i % 2, format("{}\n", i)});
  for (engine.cut_after = 0; engine.cut_after < 9; ++engine.cut_after) follow(false);
  follow(true);
  EXPECT_THAT(
      written(path),
      ElementsAre("000000000Z stdout F 0", "000000000Z stderr F 1", "000000000Z stdout F 2",
                  "000000000Z stderr F 3", "000000000Z stdout F 4", "000000000Z stderr F 5",
                  "000000000Z stdout F 6", "000000000Z stderr F 7", "000000000Z stdout F 8"));
}

TEST_F(DockerLogTest, LinesThatAreAlikeAreCounted) {
  engine.lines = {{"00:00:01.000000001", 1, "a\n"},
                  {"00:00:01.000000001", 1, "a\n"},
                  {"00:00:01.000000001", 1, "a\n"},
                  {"00:00:01.000000001", 1, "part"}};
  engine.cut_after = 2;
  follow(false);
  EXPECT_THAT(written(path), ElementsAre("000000001Z stdout F a", "000000001Z stdout F a"));
  follow(true);
  EXPECT_THAT(written(path), ElementsAre("000000001Z stdout F a", "000000001Z stdout F a",
                                         "000000001Z stdout F a", "000000001Z stdout P part"));
}

TEST_F(DockerLogTest, ALineMayComeAfterANewerOne) {
  engine.lines = {{"00:00:01.000000003", 1, "newer\n"}, {"00:00:01.000000001", 2, "older\n"}};
  engine.cut_after = 1;
  follow(false);
  follow(true);
  EXPECT_THAT(written(path), ElementsAre("000000003Z stdout F newer", "000000001Z stderr F older"));
}

TEST_F(DockerLogTest, HalfALineIsWrittenAgain) {
  engine.lines = {{"00:00:01.000000001", 1, "one\n"}, {"00:00:02.000000001", 1, "two\n"}};
  follow(false);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 3);
  follow(true);
  EXPECT_THAT(written(path), ElementsAre("000000001Z stdout F one", "000000001Z stdout F two"));
}

TEST_F(DockerLogTest, TheEndIsReadOnceMore) {
  engine.lines = {{"00:00:01.000000001", 1, "one\n"}, {"00:00:02.000000001", 1, "last\n"}};
  engine.cut_after = 1;
  bool finished = false;
  DockerLog log(loop, docker, "abc", path, [] {});
  log.finish([&] { finished = true; });  // it had ended before anybody listened
  EXPECT_TRUE(loop.runUntil([&] { return finished; }, 10s));
  EXPECT_THAT(written(path), ElementsAre("000000001Z stdout F one", "000000001Z stdout F last"));
  EXPECT_EQ(engine.asked, 1);
}

TEST_F(DockerLogTest, TailsOfLogs) {
  follow(true);
  EXPECT_THAT(readLogTail(path, 100).lines, IsEmpty());
  std::ofstream(path + ".1") << "old\n";
  EXPECT_THAT(readLogTail(path, 100).lines, ElementsAre("old"));
  std::ofstream(path) << "one\ntwo\nthree\n";
  EXPECT_THAT(readLogTail(path, 100).lines, ElementsAre("old", "one", "two", "three"));
  EXPECT_TRUE(readLogTail(path, 100).is_all);
  EXPECT_THAT(readLogTail(path, 8).lines, ElementsAre("three")) << "only what is whole";
  EXPECT_FALSE(readLogTail(path, 8).is_all);
  EXPECT_FALSE(readLogTail(path, 16).is_all) << "not all of the older one";
  {
    LogFile file(path, 20);
    file.add("four");
    file.add("five");
  }
  EXPECT_THAT(written(path), testing::SizeIs(1));
  EXPECT_THAT(readLogTail(path, 100).lines, ElementsAre("one", "two", "three", "four", "five"));
}

}  // namespace
}  // namespace cadre::node
