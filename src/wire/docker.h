#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/function.h"
#include "base/result.h"
#include "base/scheduler.h"
#include "json/value.h"
#include "net/http.h"
#include "net/process.h"

namespace cadre::wire {

// The socket that the Engine listens on: what DOCKER_HOST says when that is unix://PATH, else
// /var/run/docker.sock. InvalidArgument for an Engine that is reached in another way.
Result<std::string> dockerSocket(std::string_view docker_host);

enum class DockerStream { Stdin = 0, Stdout = 1, Stderr = 2 };

// Output of containers as the Engine sends it: frames of {stream, 0, 0, 0, length, bytes}, one for
// each line of a log. Takes pieces of any size. Not thread-safe.
class DockerFrames {
 public:
  using OnFrame = Function<void(DockerStream stream, std::string_view bytes)>;
  explicit DockerFrames(OnFrame on_frame) : on_frame_(std::move(on_frame)) {}

  // DataLoss for what are no frames, also later on.
  Result<> feed(std::string_view piece);
  // The stream has ended: DataLoss when it did so within a frame.
  Result<> finish() const;

 private:
  const OnFrame on_frame_;
  std::string pending_;
};

struct DockerLogOptions {
  std::optional<Time> since;  // and what was at that very moment
  bool follow = false;        // until the container ends
};

struct DockerExecResult {
  int exit_code = 0;
  std::string output, errors;
  bool truncated = false;  // one of the two is longer
};

struct DockerLimits {
  std::size_t answer_bytes = 16u << 20;
  std::size_t output_bytes = 1u << 20;  // of a command, of stdout and of stderr each
  Duration answer_timeout = 60s;
};

// A client of Docker's Engine API (1.40 and later). Containers, images and networks are meant by
// name or by id. Everything happens on the loop of the HttpClient, which must send to the Engine;
// dropping a Pending gives an exchange up, and what was asked for may happen all the same.
//
// Failures: what the Engine says, with NotFound, Conflict, InvalidArgument and Internal for its
// 404, 409, 400 and 500; Unavailable, and what to do, when it does not answer at all.
class Docker {
 public:
  using Answered = Function<void(Result<json::Value>)>;
  using Done = Function<void(Result<>)>;
  using Labels = std::map<std::string, std::string>;

  Docker(net::HttpClient& http, std::string socket, DockerLimits limits = {})
      : http_(http), socket_(std::move(socket)), limits_(limits) {}

  Pending version(Answered done);
  // What it is and what it can do: ServerVersion, MemoryLimit, ...
  Pending info(Answered done);

  Pending inspectImage(const std::string& image, Answered done);
  // All that have that name, whatever their tags.
  Pending listImages(const std::string& name, Answered done);
  Pending removeImage(const std::string& image, Done done);
  // From its registry; Unavailable with the registry's words when that does not have it.
  Pending pullImage(const std::string& image, Duration timeout, Done done);
  // Makes an image of a tree: a tar of all its files. `changes` are lines of a Dockerfile.
  Pending importImage(const std::string& name, const std::string& tag, std::string tar,
                      const std::vector<std::string>& changes, Done done);

  // The container's id. Conflict: there is one of that name. NotFound: there is no such image.
  Pending createContainer(const std::string& name, const json::Value& config,
                          Function<void(Result<std::string>)> done);
  // One that runs already is no failure.
  Pending startContainer(const std::string& container, Done done);
  // Conflict when it does not run.
  Pending killContainer(const std::string& container, const std::string& signal, Done done);
  // Its exit code, when it has ended.
  Pending waitContainer(const std::string& container, Function<void(Result<int>)> done);
  Pending inspectContainer(const std::string& container, Answered done);
  enum class Remove { IfEnded, Always };  // Conflict: it runs
  Pending removeContainer(const std::string& container, Remove which, Done done);
  // Those with all of these labels, whether they run or not.
  Pending listContainers(const Labels& labels, Answered done);

  // "TIME text\n" by frame, TIME with nine digits of a second; without its end where a line is cut
  // in parts. `end` is told once.
  Pending logs(const std::string& container, const DockerLogOptions& options,
               DockerFrames::OnFrame line, Done end);
  // Runs a command in a container. The Engine cannot end one that takes too long: it is left.
  Pending exec(const std::string& container, const std::vector<std::string>& command,
               Duration timeout, Function<void(Result<DockerExecResult>)> done);
  // Runs a command in a container, and talks with it meanwhile: the options' argv.
  std::unique_ptr<net::Conversation> talk(net::Loop& loop, const std::string& container,
                                          net::ConversationOptions options);
  // What happens to containers with these labels from now on: `begun` when none is missed any more.
  Pending events(const Labels& labels, Function<void()> begun,
                 Function<void(const json::Value&)> event, Done end);

  // Conflict: there is one of that name.
  Pending createNetwork(const json::Value& config, Done done);
  Pending inspectNetwork(const std::string& network, Answered done);
  Pending removeNetwork(const std::string& network, Done done);
  // Also one that Docker itself has forgotten, by the name that the network has for it.
  Pending disconnect(const std::string& network, const std::string& container, Done done);

 private:
  class Talk;
  struct Streaming;
  net::HttpRequest request(std::string method, std::string target,
                           const json::Value* body = nullptr) const;
  Pending ask(net::HttpRequest request, Answered done);
  Pending tell(net::HttpRequest request, Done done);
  Pending stream(net::HttpRequest request, Function<void()> begun,
                 Function<Result<>(std::string_view)> data, Function<void(Result<>)> end);
  Pending progress(net::HttpRequest request, Done done);
  Error unreachable(const Error& error) const;

  net::HttpClient& http_;
  const std::string socket_;
  const DockerLimits limits_;
};

}  // namespace cadre::wire
