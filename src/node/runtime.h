#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/function.h"
#include "base/result.h"
#include "base/scheduler.h"
#include "net/process.h"
#include "node/cgroup.h"
#include "node/pod_step.h"

namespace cadre::node {

struct Policy;
struct ServiceTable;

struct Mount {
  std::string source, target;
  bool read_only = false;
};

// Which run of which container.
struct RunName {
  std::string pod;  // its uid
  std::string container;
  int attempt = 0;

  auto operator<=>(const RunName&) const = default;
};

// A container as it is to run: all that the pod says about it, and what that stands for.
struct RunOrder {
  RunName name;
  std::string image;
  std::vector<std::string> command, args;  // empty: the image's
  std::map<std::string, std::string> env;
  std::string directory;  // empty: the image's
  std::string hostname;
  std::string address;  // of its pod; empty: it uses this machine's network as it is
  std::vector<Mount> mounts;
  std::optional<std::int64_t> user, group;
  std::vector<std::int64_t> groups;             // beside it
  bool is_never_root = false;                   // rather not at all
  bool read_only = false;                       // also where nothing is mounted
  bool is_privileged = false, may_gain = true;  // rights
  std::vector<std::string> add_capabilities, drop_capabilities;
  std::string log;
  Limits limits;
  bool pull = true;  // an image that is missing may be fetched
};

// Whether it may run, where nothing but the image says as whom ("", "1000", "web:web").
Result<> checkUser(const RunOrder& order, std::string_view image_user);

// What runs containers. One run of a container happens once, whatever becomes of this process: it
// is found again by find(), also when its start was under way. All callbacks come on the loop.
class Runtime {
 public:
  virtual ~Runtime() = default;

  // For people: "process", "docker".
  virtual std::string_view name() const = 0;
  // What there is of former times, by pod and container, oldest first; those that run are listened
  // to from now on.
  virtual std::vector<std::pair<RunName, Run>> find() = 0;
  virtual bool isAlive(const RunName& run) const = 0;
  // An error is of the order, or of this machine, and says what to do; its code NotFound is of the
  // image, Forbidden of what the order rules out. What was started is told by `ended` in the end,
  // once.
  virtual Pending start(RunOrder order, Function<void(Result<Run>)> done) = 0;
  virtual void stop(const RunName& run, bool kill) = 0;
  // Runs a command in a container that runs, with its environment.
  virtual Pending runInside(const RunName& run, std::vector<std::string> command, Duration timeout,
                            Function<void(Result<net::ProcessResult>)> done) = 0;
  // The same, and talks with it meanwhile: what it is to run is the options' argv.
  virtual std::unique_ptr<net::Conversation> talkInside(const RunName& run,
                                                        net::ConversationOptions options) = 0;
  // Forgets all ended runs of a pod, or one of them.
  virtual void forget(const std::string& pod) = 0;
  virtual void forget(const RunName& run) = 0;

  // Where the containers of a pod share something, a network, that comes before them all: prepare()
  // makes it, and the pod's address is known from then on, empty before. It may be lost, and is
  // then made again. Nothing: pods share nothing here, and others give them addresses.
  virtual std::optional<std::string> addressOf(const std::string& /*pod*/) const {
    return std::nullopt;
  }
  virtual Pending prepare(const std::string& /*pod*/, const std::string& /*hostname*/,
                          Function<void(Result<>)> /*done*/) {
    return {};
  }
  // What a pod may take and send: before prepare(), and whenever it is something else. Where it has
  // no network of its own, nothing of that is enforced.
  virtual Result<> protect(const std::string& /*pod*/, const Policy& /*policy*/) { return {}; }
  // Where connections to Services go, for pods that have a network of their own.
  virtual void serve(const ServiceTable& /*table*/) {}
  // No container of it runs any more, nor will: what they share goes.
  virtual void release(const std::string& /*pod*/) {}
  // The same for all pods but these.
  virtual void keepOnly(const std::set<std::string>& /*pods*/) {}
  // When nothing runs any more: takes everything away that is not for the next time.
  virtual Pending close(Function<void(Result<>)> done) = 0;

  Function<void(const RunName& name, const Run& run)> ended;
};

}  // namespace cadre::node
