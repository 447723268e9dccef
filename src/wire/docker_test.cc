// The client against an Engine whose answers are written here.
#include "wire/docker.h"

#include <deque>

#include "base/format.h"
#include "base/strings.h"
#include "json/parse.h"
#include "json/write.h"

namespace cadre::wire {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Answers each request with the next of its answers, in pieces.
class Engine final : public net::HttpClient {
 public:
  struct Answer {
    int status = 200;
    std::vector<std::string> pieces;
    Result<> end = {};
  };

  Pending send(net::HttpRequest request, net::ResponseHandler handler) override {
    asked.push_back(request.method + " " + urlDecode(request.target));
    bodies.push_back(request.body);
    EXPECT_FALSE(answers.empty()) << "nobody expects " << asked.back();
    if (answers.empty()) return {};
    auto held = std::make_shared<net::ResponseHandler>(std::move(handler));
    scheduler.post([weak = std::weak_ptr(held), answer = answers.front()] {
      if (auto to = weak.lock(); to && to->head) to->head({.status = answer.status});
      for (const std::string& piece : answer.pieces)
        if (auto to = weak.lock()) to->data(piece);
      if (auto to = weak.lock()) to->end(answer.end);
    });
    answers.pop_front();
    return Pending([held]() mutable { held.reset(); });
  }

  FakeScheduler scheduler;
  std::deque<Answer> answers;
  std::vector<std::string> asked, bodies;
};

std::string frame(int stream, std::string_view text) {
  std::string head{static_cast<char>(stream), 0, 0, 0, 0, 0, 0, static_cast<char>(text.size())};
  return head + std::string(text);
}

class DockerTest : public testing::Test {
 protected:
  template <class T, class Start>
  Result<T> await(Start start) {
    std::optional<Result<T>> outcome;
    Pending pending = start([&](Result<T> result) { outcome.emplace(std::move(result)); });
    engine.scheduler.runReady();
    EXPECT_TRUE(outcome.has_value());
    if (!outcome) return Error{.message = "never told"};
    return *std::move(outcome);
  }

  Engine engine;
  Docker docker{engine, "/run/engine"};
};

TEST(DockerSocketTest, IsOfThisMachine) {
  EXPECT_EQ(*dockerSocket(""), "/var/run/docker.sock");
  EXPECT_EQ(*dockerSocket("unix:///run/user/1000/docker.sock"), "/run/user/1000/docker.sock");
  EXPECT_THAT(dockerSocket("tcp://far:2375").error().message, HasSubstr("unix://"));
  EXPECT_FALSE(dockerSocket("unix://").ok());
}

TEST(DockerFramesTest, ComeInPiecesOfAnySize) {
  std::string all = frame(1, "one\n") + frame(2, "") + frame(2, "two");
  for (std::size_t size = 1; size <= all.size(); ++size) {
    std::vector<std::string> seen;
    DockerFrames frames([&](DockerStream stream, std::string_view text) {
      seen.push_back(format("{} {}", static_cast<int>(stream), text));
    });
    for (std::size_t i = 0; i < all.size(); i += size)
      ASSERT_TRUE(frames.feed(std::string_view(all).substr(i, size)).ok());
    EXPECT_THAT(seen, ElementsAre("1 one\n", "2 ", "2 two")) << size;
    EXPECT_TRUE(frames.finish().ok());
  }
}

TEST(DockerFramesTest, NonsenseIsRefused) {
  DockerFrames frames([](DockerStream, std::string_view) {});
  EXPECT_EQ(frames.feed("HTTP/1.1 200").error().code, Code::DataLoss);
  DockerFrames large([](DockerStream, std::string_view) {});
  EXPECT_EQ(large.feed(std::string("\1\0\0\0\xff\xff\xff\xff", 8)).error().code, Code::DataLoss);
  DockerFrames cut([](DockerStream, std::string_view) {});
  EXPECT_TRUE(cut.feed(frame(1, "text").substr(0, 10)).ok());
  EXPECT_EQ(cut.finish().error().code, Code::DataLoss);
}

TEST_F(DockerTest, FailuresSayWhatTheEngineSays) {
  struct Case {
    int status;
    std::string body;
    Code code;
    std::string message;
  } cases[] = {{404, R"({"message":"No such image: none:1"})", Code::NotFound, "none:1"},
               {409, R"({"message":"name is in use"})", Code::Conflict, "in use"},
               {400, R"({"message":"bad"})", Code::InvalidArgument, "bad"},
               {500, "not JSON", Code::Internal, "not JSON"},
               {500, "", Code::Internal, "it answers 500"},
               {503, "{}", Code::Unavailable, "it answers 503"}};
  for (const Case& one : cases) {
    engine.answers = {{one.status, {one.body}}};
    auto answer = await<json::Value>(
        [&](auto done) { return docker.inspectImage("none:1", std::move(done)); });
    ASSERT_FALSE(answer.ok());
    EXPECT_EQ(answer.error().code, one.code) << one.body;
    EXPECT_THAT(answer.error().text(), HasSubstr(one.message));
  }
  engine.answers = {{0, {}, Error{.code = Code::Unavailable, .message = "connection refused"}}};
  auto answer = await<json::Value>([&](auto done) { return docker.version(std::move(done)); });
  EXPECT_EQ(answer.error().code, Code::Unavailable);
  EXPECT_THAT(answer.error().text(), HasSubstr("at /run/engine: start it"));
}

TEST_F(DockerTest, ContainersComeAndGo) {
  engine.answers = {{201, {R"({"Id":"abc",)", R"("Warnings":[]})"}},
                    {304, {}},
                    {204, {}},
                    {204, {}},
                    {200, {R"([{"Id":"abc"}])"}},
                    {200, {R"({"StatusCode":3})"}}};
  EXPECT_EQ(*await<std::string>([&](auto done) {
    return docker.createContainer("a name", json::Object{{"Image", "web"}}, std::move(done));
  }),
            "abc");
  EXPECT_TRUE(
      await<void>([&](auto done) { return docker.startContainer("abc", std::move(done)); }).ok());
  EXPECT_TRUE(await<void>([&](auto done) {
                return docker.killContainer("abc", "SIGTERM", std::move(done));
              }).ok());
  EXPECT_TRUE(await<void>([&](auto done) {
                return docker.removeContainer("abc", Docker::Remove::Always, std::move(done));
              }).ok());
  auto list = await<json::Value>(
      [&](auto done) { return docker.listContainers({{"a", "1"}, {"b", "2"}}, std::move(done)); });
  EXPECT_EQ(json::write(*list), R"([{"Id":"abc"}])");
  EXPECT_EQ(*await<int>([&](auto done) { return docker.waitContainer("abc", std::move(done)); }),
            3);
  EXPECT_THAT(
      engine.asked,
      ElementsAre("POST /containers/create?name=a name", "POST /containers/abc/start",
                  "POST /containers/abc/kill?signal=SIGTERM", "DELETE /containers/abc?v=1&force=1",
                  R"(GET /containers/json?all=1&filters={"label":["a=1","b=2"]})",
                  "POST /containers/abc/wait"));
  EXPECT_EQ(engine.bodies.front(), R"({"Image":"web"})");
}

TEST_F(DockerTest, LogsAreReadByLine) {
  engine.answers = {{200, {frame(1, "T1 a\n"), frame(2, "T2 b")}},
                    {200, {"nonsense, long enough"}}};
  std::vector<std::string> lines;
  auto read = [&](auto done) {
    return docker.logs(
        "abc", {.since = Time(1'500'000'000'000'000'001ns), .follow = true},
        [&](DockerStream stream, std::string_view line) {
          lines.push_back(format("{} {}", static_cast<int>(stream), line));
        },
        std::move(done));
  };
  EXPECT_TRUE(await<void>(read).ok());
  EXPECT_THAT(lines, ElementsAre("1 T1 a\n", "2 T2 b"));
  EXPECT_EQ(engine.asked.front(),
            "GET /containers/abc/logs?stdout=1&stderr=1&timestamps=1&follow=1"
            "&since=1500000000.000000001");
  EXPECT_EQ(await<void>(read).error().code, Code::DataLoss);
}

TEST_F(DockerTest, CommandsRunInside) {
  engine.answers = {{201, {R"({"Id":"e1"})"}},
                    {200, {frame(1, "out"), frame(2, "err"), frame(1, "put")}},
                    {200, {R"({"ExitCode":7})"}}};
  auto ran = await<DockerExecResult>(
      [&](auto done) { return docker.exec("abc", {"sh", "-c", "x"}, 1s, std::move(done)); });
  ASSERT_TRUE(ran.ok());
  EXPECT_EQ(ran->exit_code, 7);
  EXPECT_EQ(ran->output, "output");
  EXPECT_EQ(ran->errors, "err");
  EXPECT_THAT(engine.asked,
              ElementsAre("POST /containers/abc/exec", "POST /exec/e1/start", "GET /exec/e1/json"));
  engine.answers = {{409, {R"({"message":"Container abc is not running"})"}}};
  EXPECT_EQ(await<DockerExecResult>(
                [&](auto done) { return docker.exec("abc", {"true"}, 1s, std::move(done)); })
                .error()
                .code,
            Code::Conflict);
}

TEST_F(DockerTest, OutputOfCommandsIsBounded) {
  Docker small(engine, "/run/engine", {.output_bytes = 4});
  engine.answers = {
      {201, {R"({"Id":"e1"})"}}, {200, {frame(1, "123"), frame(1, "456")}}, {200, {"{}"}}};
  auto ran = await<DockerExecResult>(
      [&](auto done) { return small.exec("abc", {"true"}, 1s, std::move(done)); });
  EXPECT_EQ(ran->output, "1234");
  EXPECT_TRUE(ran->truncated);
}

TEST_F(DockerTest, EventsComeOneByOne) {
  engine.answers = {{200, {"{\"Action\":\"start\"}\n{\"Act", "ion\":\"die\"}\n"}}};
  std::vector<std::string> seen;
  auto end = await<void>([&](auto done) {
    return docker.events(
        {{"a", "1"}}, [&] { seen.emplace_back("begun"); },
        [&](const json::Value& event) { seen.push_back(event["Action"].string()); },
        std::move(done));
  });
  EXPECT_TRUE(end.ok());
  EXPECT_THAT(seen, ElementsAre("begun", "start", "die"));
  EXPECT_EQ(engine.asked.front(), R"(GET /events?filters={"label":["a=1"],"type":["container"]})");
}

TEST_F(DockerTest, ImagesFailInTheMiddleOfTheirProgress) {
  engine.answers = {{200, {R"({"status":"Pulling"})", R"({"error":"no such host"})"}},
                    {404, {R"({"message":"pull access denied"})"}},
                    {200, {R"({"status":"sha256:1"})"}}};
  auto pull = [&](auto done) {
    return docker.pullImage("here:5000/team/web:1", 1s, std::move(done));
  };
  EXPECT_THAT(await<void>(pull).error().text(), HasSubstr("no such host"));
  EXPECT_EQ(await<void>(pull).error().code, Code::NotFound);
  EXPECT_TRUE(await<void>([&](auto done) {
                return docker.importImage("own", "1", "tar", {"CMD [\"a\"]"}, std::move(done));
              }).ok());
  EXPECT_THAT(engine.asked,
              ElementsAre("POST /images/create?fromImage=here:5000/team/web&tag=1",
                          "POST /images/create?fromImage=here:5000/team/web&tag=1",
                          "POST /images/create?fromSrc=-&repo=own&tag=1&changes=CMD [\"a\"]"));
  EXPECT_EQ(engine.bodies.back(), "tar");
}

TEST_F(DockerTest, ImagesAreListedAndRemoved) {
  engine.answers = {{200, {R"([{"RepoTags":["own:1"]}])"}}, {200, {R"([{"Untagged":"own:1"}])"}}};
  auto list =
      await<json::Value>([&](auto done) { return docker.listImages("own", std::move(done)); });
  EXPECT_EQ(json::write(*list), R"([{"RepoTags":["own:1"]}])");
  EXPECT_TRUE(
      await<void>([&](auto done) { return docker.removeImage("own:1", std::move(done)); }).ok());
  EXPECT_THAT(engine.asked, ElementsAre(R"(GET /images/json?filters={"reference":["own"]})",
                                        "DELETE /images/own:1"));
}

TEST_F(DockerTest, WhatIsDroppedTellsNothing) {
  engine.answers = {{200, {"{}"}}, {200, {frame(1, "a")}}};
  bool told = false;
  {
    Pending dropped = docker.version([&](const auto&) { told = true; });
  }
  {
    Pending dropped = docker.logs(
        "abc", {}, [&](DockerStream, std::string_view) { told = true; },
        [&](const auto&) { told = true; });
  }
  engine.scheduler.runReady();
  EXPECT_FALSE(told);
}

}  // namespace
}  // namespace cadre::wire
