#include "node/docker_runtime.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "base/format.h"
#include "base/random.h"
#include "base/strings.h"
#include "net/http_client.h"
#include "node/docker_log.h"
#include "node/files.h"
#include "node/own_image.h"
#include "node/policy.h"
#include "node/service_table.h"
#include "wire/docker.h"

namespace cadre::node {
namespace {

namespace fs = std::filesystem;
using json::Value;
using wire::Docker;

constexpr std::string_view kData = "dev.cadre.data", kPod = "dev.cadre.pod";
constexpr std::string_view kContainer = "dev.cadre.container", kAttempt = "dev.cadre.attempt";
constexpr std::string_view kLog = "dev.cadre.log";
constexpr std::string_view kServicesFolder = "/services", kTableFile = "table.json",
                           kPolicies = "policies", kApiSocket = "api.sock",
                           kApiService = "default/kubernetes";
constexpr Duration kAgain = 500ms, kPullTimeout = 5min, kSettle = 15s, kStray = 10s, kReady = 10s;
constexpr Duration kWhy = 500ms;
constexpr int kTries = 5;
constexpr int kCloseTries = 10;  // who was just let go of, or starts, takes his time

Result<std::unique_ptr<net::PooledHttpClient>> connectTo(net::Loop& loop,
                                                         const std::string& socket) {
  CADRE_LET(net::Url url, net::Url::parse("http://localhost"));
  // Each log that is followed has one to itself.
  return net::makeHttpClient(loop, {.url = url,
                                    .unix_path = socket,
                                    .http2 = false,
                                    .max_connections = 8192,
                                    .connect_timeout = 5s});
}

json::Array texts(const std::vector<std::string>& words) {
  json::Array out;
  for (const std::string& word : words) out.emplace_back(word);
  return out;
}

// ---- What the Engine tells of a container

bool isRunning(const Value& container) { return container["State"]["Running"].boolean(); }

// Made, and then left: by somebody who was killed. One that could not be started says why.
bool wasNeverStarted(const Value& container) {
  return container["State"]["Status"].string() == "created" &&
         container["State"]["Error"].string().empty();
}

// Lists have it as a path.
std::string_view nameInList(const Value& container) {
  std::string_view name = container["Names"].at(0).string();
  return name.starts_with('/') ? name.substr(1) : name;
}

RunName nameOf(const Value& labels) {
  return {labels[kPod].string(), labels[kContainer].string(),
          static_cast<int>(parseInt(labels[kAttempt].string()).value_or(0))};
}

std::string idOf(const std::string& container) { return "docker://" + container; }

Run runOf(const RunName& name, const Value& container) {
  const Value& state = container["State"];
  Run run{.attempt = name.attempt,
          .state = Run::State::Running,
          .id = idOf(container["Id"].string()),
          .image_id = container["Image"].string(),
          .started = parseTime(state["StartedAt"].string()).value_or(Time())};
  if (run.started < Time(24h))  // it never was
    run.started = parseTime(container["Created"].string()).value_or(Time());
  return run;
}

// How it ended, as the kubelet tells it.
void tellEnd(Run& run, const Value& container, Time now) {
  const Value& state = container["State"];
  run.state = Run::State::Ended;
  run.code = static_cast<int>(state["ExitCode"].integer());
  run.ended = parseTime(state["FinishedAt"].string()).value_or(now);
  if (run.ended < run.started) run.ended = run.started;
  if (state["OOMKilled"].boolean()) run.reason = "OOMKilled";
  if (state["Status"].string() != "created") return;
  run.code = 128;
  run.reason = "StartError";
  run.message = state["Error"].string();
}

bool mayHaveBeenHungry(const Value& container) {
  const Value& state = container["State"];
  return state["ExitCode"].integer() == 137 && !state["OOMKilled"].boolean() &&
         container["HostConfig"]["Memory"].integer() > 0;
}

Value recordOf(const Run& run) {
  return json::Object{{"id", run.id},
                      {"image", run.image_id},
                      {"startedAt", formatTimeMicros(run.started)},
                      {"finishedAt", formatTimeMicros(run.ended)},
                      {"exitCode", run.code},
                      {"reason", run.reason},
                      {"message", run.message}};
}

Run runOfRecord(int attempt, const Value& record) {
  return {.attempt = attempt,
          .state = Run::State::Ended,
          .id = record["id"].string(),
          .image_id = record["image"].string(),
          .started = parseTime(record["startedAt"].string()).value_or(Time()),
          .ended = parseTime(record["finishedAt"].string()).value_or(Time()),
          .code = static_cast<int>(record["exitCode"].integer()),
          .reason = record["reason"].string(),
          .message = record["message"].string()};
}

// ---- What the Engine is told

Value logConfig(std::string_view size, std::string_view files) {
  return json::Object{{"Type", "json-file"},
                      {"Config", json::Object{{"max-size", size}, {"max-file", files}}}};
}

Value bindOf(const Mount& mount) {
  return json::Object{{"Type", "bind"},
                      {"Source", mount.source},
                      {"Target", mount.target},
                      {"ReadOnly", mount.read_only}};
}

// "1000:2000"; a group alone goes with the image's own user.
std::string userOf(const RunOrder& order, const Value& image) {
  std::string user(cut(image["Config"]["User"].string(), ":").first);
  if (order.user) user = format("{}", *order.user);
  if (!order.group) return order.user ? user : "";
  return format("{}:{}", user.empty() ? "0" : user, *order.group);
}

Value containerConfig(const RunOrder& order, const Value& image, const std::string& reference,
                      const std::string& data, const std::string& sandbox) {
  json::Array env, mounts;
  for (const auto& [key, value] : order.env) env.emplace_back(format("{}={}", key, value));
  for (const Mount& one : order.mounts) mounts.push_back(bindOf(one));
  json::Object host{{"Mounts", std::move(mounts)},
                    {"NetworkMode", "container:" + sandbox},
                    {"IpcMode", "container:" + sandbox},
                    {"ReadonlyRootfs", order.read_only},
                    {"RestartPolicy", json::Object{{"Name", "no"}}},
                    {"LogConfig", logConfig("10m", "3")}};
  if (order.is_privileged) host.set("Privileged", true);
  if (!order.may_gain) host.set("SecurityOpt", json::Array{"no-new-privileges"});
  if (!order.add_capabilities.empty()) host.set("CapAdd", texts(order.add_capabilities));
  if (!order.drop_capabilities.empty()) host.set("CapDrop", texts(order.drop_capabilities));
  if (!order.groups.empty()) {
    json::Array groups;
    for (std::int64_t group : order.groups) groups.emplace_back(format("{}", group));
    host.set("GroupAdd", std::move(groups));
  }
  if (order.limits.memory_bytes > 0) {
    host.set("Memory", order.limits.memory_bytes);
    host.set("MemorySwap", order.limits.memory_bytes);
  }
  if (order.limits.cpu_millis > 0) host.set("NanoCpus", order.limits.cpu_millis * 1'000'000);
  host.set("PidsLimit", order.limits.processes);
  json::Object config{{"Image", reference},
                      {"Env", std::move(env)},
                      {"WorkingDir", order.directory},
                      {"User", userOf(order, image)},
                      {"Labels", json::Object{{kData.data(), data},
                                              {kPod.data(), order.name.pod},
                                              {kContainer.data(), order.name.container},
                                              {kAttempt.data(), format("{}", order.name.attempt)},
                                              {kLog.data(), order.log}}},
                      {"HostConfig", std::move(host)}};
  if (!order.command.empty()) config.set("Entrypoint", texts(order.command));
  if (!order.args.empty()) config.set("Cmd", texts(order.args));
  return config;
}

// A row of requests, each when the one before it is answered. Whoever wanted it holds it: dropping
// that ends the row.
template <class Self>
class Row : public std::enable_shared_from_this<Self> {
  Row() = default;
  friend Self;

 protected:
  template <class Answer>
  auto then(void (Self::*next)(const Answer&)) {
    return [weak = this->weak_from_this(), next](const Answer& answer) {
      if (auto self = weak.lock()) (self.get()->*next)(answer);
    };
  }
  Pending step_;
};

class DockerRuntime final : public Runtime {
 public:
  DockerRuntime(net::Loop& loop, DockerRuntimeOptions options,
                std::unique_ptr<net::PooledHttpClient> http)
      : loop_(loop),
        options_(std::move(options)),
        http_(std::move(http)),
        docker_(*http_, options_.socket) {}

  // ---- What was there before

  Result<> open() {
    CADRE_TRY(
        net::await<Value>(loop_, [&](auto done) { return docker_.version(std::move(done)); }));
    CADRE_TRY(identify());
    CADRE_LET(own_, describeOwnImage(options_.program));
    std::error_code ignored;
    if (!fs::exists(services() / kTableFile, ignored)) CADRE_TRY(writeTable({}));
    auto relay =
        net::Relay::listen(loop_, {services() / kApiSocket}, [this](const auto&) { return api_; });
    if (relay)
      api_relay_ = *std::move(relay);
    else if (options_.logger)
      options_.logger->warn("pods do not reach the API", {{"error", relay.error().text()}});
    CADRE_LET(Value list, net::await<Value>(loop_, [&](auto done) {
                return docker_.listContainers(mine(), std::move(done));
              }));
    for (const Value& one : list.array()) CADRE_TRY(take(one["Id"].string()));
    listen();
    loop_.runUntil(
        [&] {
          return std::ranges::none_of(containers_, [](auto& one) { return one.second.is_ending; });
        },
        kSettle);
    return {};
  }

  std::string_view name() const override { return "docker"; }

  std::vector<std::pair<RunName, Run>> find() override {
    std::vector<std::pair<RunName, Run>> out;
    std::error_code ignored;
    std::vector<fs::path> records, unused;
    for (const auto& entry : fs::recursive_directory_iterator(runs(), ignored))
      if (entry.is_regular_file(ignored)) records.push_back(entry.path());
    for (const fs::path& file : records)
      if (auto number = parseInt(file.filename().string())) {
        RunName name{file.parent_path().parent_path().filename(), file.parent_path().filename(),
                     static_cast<int>(*number)};
        out.emplace_back(name, runOfRecord(name.attempt, readJson(file)));
      }
    for (const auto& pod : fs::directory_iterator(runs(), ignored))  // half forgotten
      if (std::ranges::none_of(out,
                               [&](auto& one) { return one.first.pod == pod.path().filename(); }))
        unused.push_back(pod.path());
    for (const fs::path& folder : unused) fs::remove_all(folder, ignored);
    for (const auto& [name, container] : containers_) out.emplace_back(name, container.run);
    std::ranges::sort(out, std::less<>(), [](auto& one) { return one.first; });
    return out;
  }

  bool isAlive(const RunName& run) const override { return containers_.contains(run); }

  // ---- Runs

  Pending start(RunOrder order, Function<void(Result<Run>)> done) override {
    auto row = std::make_shared<Starting>(*this, std::move(order), std::move(done));
    row->begin();
    return Pending([row]() mutable { row->drop(); });
  }

  void stop(const RunName& run, bool kill) override {
    auto known = containers_.find(run);
    if (known == containers_.end()) return;
    Container& container = known->second;
    std::string signal = kill ? "SIGKILL" : container.stop_signal;
    container.stopping =
        docker_.killContainer(container.id, signal, [this, run, kill](const Result<>& result) {
          auto known = containers_.find(run);
          if (result || known == containers_.end()) return;
          if (result.error().code == Code::NotFound || result.error().code == Code::Conflict)
            return look(run);
          known->second.stopping = loop_.after(kAgain, [this, run, kill] { stop(run, kill); });
        });
  }

  Pending runInside(const RunName& run, std::vector<std::string> command, Duration timeout,
                    Function<void(Result<net::ProcessResult>)> done) override {
    auto known = containers_.find(run);
    if (known == containers_.end())
      return loop_.after(0s, [done = std::move(done)] {
        done(Error{.code = Code::NotFound, .message = "the container does not run"});
      });
    return docker_.exec(known->second.id, command, timeout,
                        [done = std::move(done)](const Result<wire::DockerExecResult>& result) {
                          if (!result && result.error().code == Code::DeadlineExceeded)
                            return done(net::ProcessResult{.exit_code = 137, .timed_out = true});
                          if (!result) return done(result.error());
                          done(net::ProcessResult{.exit_code = result->exit_code,
                                                  .output = result->output,
                                                  .errors = result->errors,
                                                  .truncated = result->truncated});
                        });
  }

  std::unique_ptr<net::Conversation> talkInside(const RunName& run,
                                                net::ConversationOptions options) override {
    auto known = containers_.find(run);
    return docker_.talk(loop_, known == containers_.end() ? "" : known->second.id,
                        std::move(options));
  }

  void forget(const std::string& pod) override {
    if (pod.empty()) return;
    std::error_code ignored;
    fs::remove_all(runs() / pod, ignored);
    release(pod);
    policies_.erase(pod);
    fs::remove(policyFile(pod), ignored);
  }

  void forget(const RunName& run) override {
    std::error_code ignored;
    fs::remove(recordFile(run), ignored);
  }

  // ---- What the containers of a pod share

  std::optional<std::string> addressOf(const std::string& pod) const override {
    auto known = sandboxes_.find(pod);
    return known == sandboxes_.end() ? "" : known->second.address;
  }

  Pending prepare(const std::string& pod, const std::string& hostname,
                  Function<void(Result<>)> done) override {
    auto row = std::make_shared<Preparing>(*this, pod, hostname, std::move(done));
    row->begin();
    return Pending([row]() mutable { row->drop(); });
  }

  // Its sandbox looks at the file all the time.
  Result<> protect(const std::string& pod, const Policy& policy) override {
    if (auto known = policies_.find(pod); known != policies_.end() && known->second == policy)
      return {};
    CADRE_TRY(share(policyFile(pod), policy.toJson()));
    policies_.insert_or_assign(pod, policy);
    return {};
  }

  // The API listens where no pod can reach it: a socket in a folder that all have leads there.
  void serve(const ServiceTable& table) override {
    ServiceTable told = table;
    for (auto& [place, entry] : told.entries)
      if (entry.service == kApiService && !entry.places.empty())
        api_ = std::exchange(entry.places[0], {format("{}/{}", kServicesFolder, kApiSocket)});
    if (auto written = writeTable(told); !written && options_.logger)
      options_.logger->warn("pods do not hear of Services", {{"error", written.error().text()}});
  }

  void release(const std::string& pod) override {
    if (auto known = sandboxes_.extract(pod); !known.empty()) removeSoon(known.mapped().id);
  }

  void keepOnly(const std::set<std::string>& pods) override {
    for (auto one = sandboxes_.begin(); one != sandboxes_.end();) {
      std::string pod = (one++)->first;
      if (!pods.contains(pod)) release(pod);
    }
    std::error_code ignored;
    std::vector<fs::path> unused;
    for (const auto& file : fs::directory_iterator(services() / kPolicies, ignored))
      if (!pods.contains(file.path().stem())) unused.push_back(file.path());
    for (const fs::path& file : unused) fs::remove(file, ignored);
  }

  Pending close(Function<void(Result<>)> done) override {
    auto row = std::make_shared<Closing>(*this, std::move(done));
    row->begin();
    return Pending([row]() mutable { row->drop(); });
  }

 private:
  struct Container {
    std::string id, stop_signal;
    Run run;
    std::unique_ptr<DockerLog> log;
    bool is_ending = false;
    bool asked_why = false;  // it was killed, and perhaps for what it took
    Pending looking, stopping;
  };
  struct Sandbox {
    std::string id, address;
  };

  // One container, from its image to its first moment.
  class Starting : public Row<Starting> {
   public:
    Starting(DockerRuntime& runtime, RunOrder order, Function<void(Result<Run>)> done)
        : runtime_(runtime),
          docker_(runtime.docker_),
          order_(std::move(order)),
          name_(runtime.nameOf(order_.name)),
          reference_(order_.image),
          done_(std::move(done)) {}

    void begin() {
      runtime_.busy_.insert(name_);
      if (Value record = readJson(runtime_.recordFile(order_.name)); record.isObject())
        step_ = runtime_.loop_.after(
            0s, [this, run = runOfRecord(order_.name.attempt, record)] { finish(run); });
      else
        step_ = docker_.inspectImage(reference_, then(&Starting::imageSeen));
    }

    void drop() {
      if (std::exchange(done_, nullptr)) runtime_.busy_.erase(name_);
      step_ = {};
    }

   private:
    void finish(Result<Run> result) {
      runtime_.busy_.erase(name_);
      if (auto done = std::exchange(done_, nullptr)) done(std::move(result));
    }

    void imageSeen(const Result<Value>& image) {
      if (image) {
        image_ = *image;
        if (auto may = checkUser(order_, image_["Config"]["User"].string()); !may)
          return finish(may.error());
        return create();
      }
      if (image.error().code != Code::NotFound) return finish(image.error());
      // The image of this program need not be anywhere else.
      if (std::string own = runtime_.own_.reference();
          cut(order_.image, ":").first == "cadre" && reference_ != own) {
        reference_ = own;
        step_ = docker_.inspectImage(reference_, then(&Starting::imageSeen));
        return;
      }
      if (!order_.pull || pulled_) return imageMissing("its imagePullPolicy is Never");
      pulled_ = true;
      step_ = docker_.pullImage(order_.image, kPullTimeout, then(&Starting::imagePulled));
    }

    void imagePulled(const Result<>& result) {
      if (!result) return imageMissing(result.error().text());
      step_ = docker_.inspectImage(reference_, then(&Starting::imageSeen));
    }

    void imageMissing(const std::string& why) {
      finish(Error{.code = Code::NotFound,
                   .message = format("Docker has no image {}, and cannot pull it ({}): build it "
                                     "or load it with `docker build` or `docker load`",
                                     order_.image, why)});
    }

    void create() {
      auto sandbox = runtime_.sandboxes_.find(order_.name.pod);
      if (sandbox == runtime_.sandboxes_.end())
        return finish(Error{.code = Code::Unavailable, .message = "the pod has lost its network"});
      sandbox_ = sandbox->second.id;
      step_ = docker_.createContainer(
          name_, containerConfig(order_, image_, reference_, runtime_.identity_, sandbox_),
          then(&Starting::created));
    }

    void created(const Result<std::string>& id) {
      if (!id && id.error().code == Code::Conflict) {
        step_ = docker_.inspectContainer(name_, then(&Starting::foundThere));
        return;
      }
      if (!id) return finish(id.error());
      id_ = *id;
      step_ = docker_.startContainer(id_, then(&Starting::started));
    }

    // Somebody has begun this run: a former process of ours. One that ran is this run; one that
    // never did is in the way.
    void foundThere(const Result<Value>& container) {
      if (!container && container.error().code != Code::NotFound) return finish(container.error());
      if (++tries_ > kTries)
        return finish(
            Error{.code = Code::Conflict,
                  .message = format("Docker has another container {}: remove it", name_)});
      if (!container) {  // it is still in the making
        step_ = runtime_.loop_.after(kAgain, [this] { create(); });
        return;
      }
      if ((*container)["Config"]["Labels"][kData].string() != runtime_.identity_) {
        tries_ = kTries;
        return foundThere(container);
      }
      if (!wasNeverStarted(*container)) return seen(container);
      step_ = docker_.removeContainer((*container)["Id"].string(), Docker::Remove::IfEnded,
                                      then(&Starting::removed));
    }

    void removed(const Result<>&) { create(); }  // if it could not be, that says why

    void started(const Result<>& result) {
      if (result) {
        step_ = docker_.inspectContainer(id_, then(&Starting::seen));
        return;
      }
      Code code = result.error().code;
      why_ = result.error();
      if (code == Code::Conflict) {  // whose network it was to be in is gone
        runtime_.sandboxEnded(order_.name.pod, sandbox_);
        step_ = docker_.removeContainer(id_, Docker::Remove::Always, then(&Starting::givenUp));
      } else if (code == Code::Unavailable || code == Code::DeadlineExceeded) {
        finish(why_);  // nobody knows: the next try finds out
      } else {
        step_ = docker_.inspectContainer(id_, then(&Starting::seen));
      }
    }

    void givenUp(const Result<>&) { finish(why_); }

    void seen(const Result<Value>& container) {
      if (!container) return finish(container.error());
      if (wasNeverStarted(*container)) return finish(why_);
      finish(runtime_.track(order_.name, *container));
    }

    DockerRuntime& runtime_;
    Docker& docker_;
    const RunOrder order_;
    const std::string name_;
    std::string reference_, id_, sandbox_;
    Value image_;
    Error why_{.code = Code::Unavailable, .message = "Docker does not start it"};
    Function<void(Result<Run>)> done_;
    bool pulled_ = false;
    int tries_ = 0;
  };

  // The container that holds a pod's network, and all that it needs.
  class Preparing : public Row<Preparing> {
   public:
    Preparing(DockerRuntime& runtime, std::string pod, std::string hostname,
              Function<void(Result<>)> done)
        : runtime_(runtime),
          docker_(runtime.docker_),
          pod_(std::move(pod)),
          name_(runtime.sandboxName(pod_)),
          hostname_(std::move(hostname)),
          done_(std::move(done)) {}

    void begin() {
      runtime_.busy_.insert(name_);
      runtime_.furnish(then(&Preparing::furnished));
    }

    void drop() {
      if (std::exchange(done_, nullptr)) runtime_.busy_.erase(name_);
      step_ = {};
      later_ = {};
    }

   private:
    void finish(const Result<>& result) {
      runtime_.busy_.erase(name_);
      if (auto done = std::exchange(done_, nullptr)) done(result);
    }

    void furnished(const Result<>& result) {
      if (!result) return finish(result);
      create();
    }

    void create() {
      step_ = docker_.createContainer(name_, runtime_.sandboxConfig(pod_, hostname_),
                                      then(&Preparing::created));
    }

    void created(const Result<std::string>& id) {
      if (!id && id.error().code == Code::Conflict) {
        step_ = docker_.inspectContainer(name_, then(&Preparing::foundThere));
        return;
      }
      if (!id) return finish(id.error());
      id_ = *id;
      step_ = docker_.startContainer(id_, then(&Preparing::started));
    }

    void foundThere(const Result<Value>& container) {
      if (container && isRunning(*container)) return seen(container);
      if (!container && container.error().code != Code::NotFound) return finish(container.error());
      if (++tries_ > kTries)
        return finish(
            Error{.code = Code::Conflict,
                  .message = format("Docker has another container {}: remove it", name_)});
      if (container)
        step_ = docker_.removeContainer((*container)["Id"].string(), Docker::Remove::Always,
                                        then(&Preparing::removed));
      else
        step_ = runtime_.loop_.after(kAgain, [this] { create(); });
    }

    void removed(const Result<>&) { create(); }

    // What the pod says to a Service must not come before the sandbox listens.
    void started(const Result<>& result) {
      if (!result) {
        runtime_.removeSoon(id_);
        return finish(result);
      }
      later_ = runtime_.loop_.after(kReady, [this] { inspect(); });
      step_ = docker_.logs(
          id_, {.follow = true},
          [this](wire::DockerStream, std::string_view line) {
            said_ = trim(cut(line, " ").second);  // after the time
            if (said_ == "ready") later_ = runtime_.loop_.after(0s, [this] { inspect(); });
          },
          then(&Preparing::silent));
    }

    void silent(const Result<>&) { inspect(); }  // it has ended, or nobody knows

    void inspect() {
      later_ = {};
      step_ = docker_.inspectContainer(id_, then(&Preparing::seen));
    }

    void seen(const Result<Value>& container) {
      if (!container) return finish(container.error());
      if (runtime_.keepSandbox(pod_, *container)) return finish({});
      finish(Error{.code = Code::Unavailable,
                   .message = isRunning(*container)
                                  ? "Docker gives the pod no address"
                                  : format("what holds the pod's network has ended: {}", said_)});
    }

    DockerRuntime& runtime_;
    Docker& docker_;
    const std::string pod_, name_, hostname_;
    std::string id_, said_;
    Function<void(Result<>)> done_;
    Pending later_;
    int tries_ = 0;
  };

  // The network and the image of our own, for all pods that wait for them.
  class Furnishing : public Row<Furnishing> {
   public:
    explicit Furnishing(DockerRuntime& runtime) : runtime_(runtime), docker_(runtime.docker_) {}

    void begin() {
      Value config = json::Object{{"Name", runtime_.networkName()},
                                  {"CheckDuplicate", true},
                                  {"Driver", "bridge"},
                                  {"Labels", json::Object{{kData.data(), runtime_.identity_}}}};
      step_ = docker_.createNetwork(config, then(&Furnishing::networkMade));
    }

   private:
    void networkMade(const Result<>& result) {
      if (!result && result.error().code != Code::Conflict)
        return runtime_.furnished(result.error().context("making the pods' network"));
      step_ = docker_.inspectImage(runtime_.own_.reference(), then(&Furnishing::imageSeen));
    }

    void imageSeen(const Result<Value>& image) {
      if (image) return runtime_.furnished({});
      if (image.error().code != Code::NotFound) return runtime_.furnished(image.error());
      auto tar = packOwnImage(runtime_.own_, runtime_.options_.program);
      if (!tar) return runtime_.furnished(tar.error());
      step_ = docker_.importImage(std::string(OwnImage::kName), runtime_.own_.tag, *std::move(tar),
                                  {format("ENTRYPOINT [\"{}\"]", runtime_.own_.program)},
                                  then(&Furnishing::imported));
    }

    void imported(const Result<>& result) {
      if (!result) return runtime_.furnished(result);
      step_ = docker_.listImages(std::string(OwnImage::kName), then(&Furnishing::listed));
    }

    // Those of former builds go, unless somebody still uses them.
    void listed(const Result<Value>& images) {
      if (images)
        for (const Value& one : images->array())
          for (const Value& reference : one["RepoTags"].array())
            if (reference.string() != runtime_.own_.reference())
              runtime_.inBackground([&](auto done) {
                return docker_.removeImage(reference.string(), std::move(done));
              });
      runtime_.furnished({});
    }

    DockerRuntime& runtime_;
    Docker& docker_;
  };

  // Everything that carries our label goes, then the network.
  class Closing : public Row<Closing> {
   public:
    Closing(DockerRuntime& runtime, Function<void(Result<>)> done)
        : runtime_(runtime), docker_(runtime.docker_), done_(std::move(done)) {}

    void begin() {
      runtime_.events_ = {};
      step_ = docker_.listContainers(runtime_.mine(), then(&Closing::listed));
    }

    void drop() {
      done_ = nullptr;
      step_ = {};
      removing_.clear();
    }

   private:
    void finish(const Result<>& result) {
      if (auto done = std::exchange(done_, nullptr)) done(result);
    }

    void listed(const Result<Value>& list) {
      if (!list) return finish(list.error());
      left_ = list->array().size();
      if (left_ == 0) return removeNetwork();
      for (const Value& one : list->array())
        removing_.push_back(docker_.removeContainer(one["Id"].string(), Docker::Remove::Always,
                                                    then(&Closing::removed)));
    }

    void removed(const Result<>&) {
      if (--left_ == 0) removeNetwork();
    }

    void removeNetwork() {
      step_ = docker_.removeNetwork(runtime_.networkName(), then(&Closing::networkRemoved));
    }

    // One that was just being started may have come in between; somebody may have put a container
    // of his own into it; and Docker may hold a place for one that is gone.
    void networkRemoved(const Result<>& result) {
      if (result || result.error().code == Code::NotFound) return finish(Result<>());
      if (++tries_ == kCloseTries) return finish(result);
      step_ = docker_.inspectNetwork(runtime_.networkName(), then(&Closing::inspected));
    }

    void inspected(const Result<Value>& network) {
      removing_.clear();
      if (network)
        for (const auto& [id, one] : (*network)["Containers"].object())
          removing_.push_back(docker_.disconnect(runtime_.networkName(), one["Name"].string(),
                                                 [](const Result<>&) {}));
      step_ = runtime_.loop_.after(kAgain, [this] { begin(); });
    }

    DockerRuntime& runtime_;
    Docker& docker_;
    Function<void(Result<>)> done_;
    std::size_t left_ = 0;
    int tries_ = 0;
    std::vector<Pending> removing_;
  };

  // ---- Names and files

  Docker::Labels mine() const { return {{std::string(kData), identity_}}; }
  std::string networkName() const { return format("cadre-{}", identity_); }
  std::string sandboxName(const std::string& pod) const {
    return format("cadre-{}-{}", identity_, pod);
  }
  // The same run has the same name whoever starts it: Docker sees to it that there is one.
  std::string nameOf(const RunName& run) const {
    return format("cadre-{}-{}-{}-{}", identity_, run.pod, run.container, run.attempt);
  }
  fs::path services() const { return fs::path(options_.folder) / "services"; }
  fs::path runs() const { return fs::path(options_.folder) / "runs"; }
  fs::path recordFile(const RunName& run) const {
    return runs() / run.pod / run.container / format("{:06}", run.attempt);
  }

  Result<> identify() {
    fs::path path = fs::path(options_.folder) / "identity.json";
    Value known = readJson(path);
    identity_ = known["id"].string();
    if (identity_.empty()) identity_ = format("{:016x}", Random::fromSystem().next());
    Value wanted = json::Object{{"id", identity_}, {"socket", options_.socket}};
    if (known == wanted) return {};
    return writeJson(path, wanted);
  }

  Result<> writeTable(const ServiceTable& table) const {
    return share(services() / kTableFile, table.toJson());
  }
  fs::path policyFile(const std::string& pod) const {
    return services() / kPolicies / (pod + ".json");
  }

  // For sandboxes: whoever is root in a container need not be the one who owns these.
  static Result<> share(const fs::path& file, const Value& value) {
    CADRE_TRY(writeJson(file, value));
    std::error_code ignored;
    using enum fs::perms;
    const fs::perms may_read = owner_read | group_read | others_read;
    const fs::perms may_enter = owner_exec | group_exec | others_exec;
    fs::permissions(file.parent_path(), may_read | may_enter, fs::perm_options::add, ignored);
    fs::permissions(file, may_read, fs::perm_options::add, ignored);
    return {};
  }

  // ---- Sandboxes

  Value sandboxConfig(const std::string& pod, const std::string& hostname) const {
    json::Object host{{"NetworkMode", networkName()},
                      {"IpcMode", "shareable"},
                      {"ReadonlyRootfs", true},
                      {"Mounts", json::Array{bindOf({services(), kServicesFolder.data(), true})}},
                      {"CapDrop", json::Array{"ALL"}},
                      {"CapAdd", json::Array{"NET_ADMIN"}},
                      {"SecurityOpt", json::Array{"no-new-privileges"}},
                      {"RestartPolicy", json::Object{{"Name", "no"}}},
                      {"LogConfig", logConfig("1m", "1")}};
    return json::Object{
        {"Image", own_.reference()},
        {"Cmd", json::Array{"sandbox", format("{}/{}", kServicesFolder, kTableFile),
                            format("{}/{}/{}.json", kServicesFolder, kPolicies, pod)}},
        {"Hostname", hostname},
        {"Labels", json::Object{{kData.data(), identity_}, {kPod.data(), pod}}},
        {"HostConfig", std::move(host)}};
  }

  bool keepSandbox(const std::string& pod, const Value& container) {
    const std::string& address =
        container["NetworkSettings"]["Networks"][networkName()]["IPAddress"].string();
    if (!isRunning(container) || address.empty()) return false;
    sandboxes_[pod] = {container["Id"].string(), address};
    return true;
  }

  // Who was in its network is cut off: all of them begin anew in another one.
  void sandboxEnded(const std::string& pod, const std::string& id) {
    auto known = sandboxes_.find(pod);
    if (known == sandboxes_.end() || known->second.id != id) return;
    release(pod);
    for (const auto& [name, container] : containers_)
      if (name.pod == pod) stop(name, true);
  }

  void furnish(Function<void(Result<>)> done) {
    waiting_.push_back(std::move(done));
    if (furnishing_) return;
    furnishing_ = std::make_shared<Furnishing>(*this);
    furnishing_->begin();
  }

  void furnished(const Result<>& result) {
    auto keep = std::move(furnishing_);
    for (auto& done : std::exchange(waiting_, {})) done(result);
  }

  // ---- Containers

  // What a former process has left.
  Result<> take(const std::string& id) {
    auto inspect = [&] {
      return net::await<Value>(
          loop_, [&](auto done) { return docker_.inspectContainer(id, std::move(done)); });
    };
    auto remove = [&](Docker::Remove which) {
      return net::await<void>(
          loop_, [&](auto done) { return docker_.removeContainer(id, which, std::move(done)); });
    };
    auto container = inspect();
    if (!container)
      return container.error().code == Code::NotFound ? Result<>() : Result<>(container.error());
    const Value& labels = (*container)["Config"]["Labels"];
    if (labels[kContainer].string().empty()) {
      if (!keepSandbox(labels[kPod].string(), *container)) (void)remove(Docker::Remove::Always);
      return {};
    }
    RunName name = node::nameOf(labels);
    std::error_code ignored;
    if (fs::exists(recordFile(name), ignored)) {
      (void)remove(Docker::Remove::Always);
      return {};
    }
    if (wasNeverStarted(*container)) {
      if (remove(Docker::Remove::IfEnded)) return {};
      container = inspect();  // it was being started
      if (!container || wasNeverStarted(*container)) return {};
    }
    (void)track(name, *container);
    return {};
  }

  // From now on it is listened to; one that has ended already tells so soon.
  Run track(const RunName& name, const Value& inspected) {
    Container& container = containers_[name];
    if (!container.id.empty()) return container.run;
    container.id = inspected["Id"].string();
    container.stop_signal = inspected["Config"]["StopSignal"].string();
    if (container.stop_signal.empty()) container.stop_signal = "SIGTERM";
    container.run = runOf(name, inspected);
    container.log = std::make_unique<DockerLog>(loop_, docker_, container.id,
                                                inspected["Config"]["Labels"][kLog].string(),
                                                [this, name] { look(name); });
    if (isRunning(inspected))
      container.log->follow();
    else
      end(name, inspected);
    return container.run;
  }

  void look(const RunName& name) {
    auto known = containers_.find(name);
    if (known == containers_.end() || known->second.is_ending) return;
    known->second.looking =
        docker_.inspectContainer(known->second.id, [this, name](const Result<Value>& container) {
          auto known = containers_.find(name);
          if (known == containers_.end()) return;
          if (container) {
            if (isRunning(*container)) return;
            // Docker hears of the end before it hears why.
            if (mayHaveBeenHungry(*container) && !std::exchange(known->second.asked_why, true)) {
              known->second.looking = loop_.after(kWhy, [this, name] { look(name); });
              return;
            }
            end(name, *container);
          } else if (container.error().code == Code::NotFound) {
            end(name, Value());
          } else {
            known->second.looking = loop_.after(kAgain, [this, name] { look(name); });
          }
        });
  }

  // When all that it printed is here, it is written down and taken out of Docker; then it is told.
  void end(const RunName& name, const Value& inspected) {
    Container& container = containers_[name];
    if (std::exchange(container.is_ending, true)) return;
    Run run = container.run;
    if (inspected.isNull()) {
      run.state = Run::State::Ended;
      run.ended = loop_.clock().now();
      run.code = 137;
      run.reason = "ContainerStatusUnknown";
      run.message = "somebody has removed it from Docker";
    } else {
      tellEnd(run, inspected, loop_.clock().now());
    }
    container.log->finish([this, name, run] { settle(name, run); });
  }

  void settle(const RunName& name, const Run& run) {
    auto gone = containers_.extract(name);
    auto written = writeJson(recordFile(name), recordOf(run));
    if (written)
      removeSoon(gone.mapped().id);
    else if (options_.logger)  // Docker alone knows of it, and keeps it
      options_.logger->warn("the end of a container cannot be written down",
                            {{"container", nameOf(name)}, {"error", written.error().text()}});
    if (ended) ended(name, run);
  }

  void removeSoon(const std::string& id) {
    inBackground([&](auto done) {
      return docker_.removeContainer(id, Docker::Remove::Always, std::move(done));
    });
  }

  // If it comes to nothing, somebody will come across it later.
  template <class Begin>
  void inBackground(Begin begin) {
    std::uint64_t number = next_in_background_++;
    background_[number] = begin([this, number](const Result<>&) { background_.erase(number); });
  }

  // ---- What happens

  void listen() {
    events_ = docker_.events(
        mine(), [this] { compare(); }, [this](const Value& event) { happened(event); },
        [this](const Result<>&) { events_ = loop_.after(kAgain, [this] { listen(); }); });
  }

  void happened(const Value& event) {
    const std::string &action = event["Action"].string(), &id = event["Actor"]["ID"].string();
    const Value& about = event["Actor"]["Attributes"];
    if (action == "create" || action == "start") return watchStray(id, about["name"].string());
    if (action != "die") return;
    if (about[kContainer].string().empty())
      sandboxEnded(about[kPod].string(), id);
    else
      look(node::nameOf(about));
  }

  // What a process asked for before it was killed may come about when the next one has looked
  // already, and what could not be removed is still there. Nobody knows of it, so it goes.
  void watchStray(const std::string& id, const std::string& name) {
    strays_[id] = loop_.after(kStray, [this, id, name] {
      auto is_it = [&](const auto& one) { return one.second.id == id; };
      if (!busy_.contains(name) && std::ranges::none_of(containers_, is_it) &&
          std::ranges::none_of(sandboxes_, is_it))
        removeSoon(id);
      strays_.erase(id);
    });
  }

  // Whatever has happened while nobody listened.
  void compare() {
    comparing_ = docker_.listContainers(mine(), [this](const Result<Value>& list) {
      if (!list) return;  // the events end, too
      std::set<std::string> running;
      for (const Value& one : list->array()) {
        if (one["State"].string() == "running") running.insert(one["Id"].string());
        watchStray(one["Id"].string(), std::string(nameInList(one)));
      }
      for (const auto& [name, container] : containers_)
        if (!running.contains(container.id)) look(name);
      std::vector<std::pair<std::string, std::string>> lost;
      for (const auto& [pod, sandbox] : sandboxes_)
        if (!running.contains(sandbox.id)) lost.emplace_back(pod, sandbox.id);
      for (const auto& [pod, id] : lost) sandboxEnded(pod, id);
    });
  }

  net::Loop& loop_;
  const DockerRuntimeOptions options_;
  const std::unique_ptr<net::PooledHttpClient> http_;
  Docker docker_;
  std::string identity_;
  OwnImage own_;
  std::map<RunName, Container> containers_;
  std::map<std::string, Sandbox> sandboxes_;  // by pod
  std::map<std::string, Policy> policies_;    // by pod, as they are written
  std::optional<net::Place> api_;
  std::unique_ptr<net::Relay> api_relay_;
  std::vector<Function<void(Result<>)>> waiting_;
  std::shared_ptr<Furnishing> furnishing_;
  std::set<std::string, std::less<>> busy_;  // names of what is in the making
  std::map<std::string, Pending> strays_;    // by id
  std::map<std::uint64_t, Pending> background_;
  std::uint64_t next_in_background_ = 0;
  Pending events_, comparing_;
};

}  // namespace

Result<std::unique_ptr<Runtime>> makeDockerRuntime(net::Loop& loop, DockerRuntimeOptions options) {
  CADRE_LET(auto http, connectTo(loop, options.socket));
  auto runtime = std::make_unique<DockerRuntime>(loop, std::move(options), std::move(http));
  CADRE_TRY(runtime->open());
  return std::unique_ptr<Runtime>(std::move(runtime));
}

Result<std::string> dockerSocketOf(const std::string& folder) {
  std::string socket = readJson(fs::path(folder) / "identity.json")["socket"].string();
  if (!socket.empty()) return socket;
  return Error{.code = Code::NotFound, .message = "nothing of it was ever in Docker"};
}

Result<> tryDocker(net::Loop& loop, const std::string& socket) {
  CADRE_LET(auto http, connectTo(loop, socket));
  Docker docker(*http, socket);
  CADRE_TRY(net::await<Value>(loop, [&](auto done) { return docker.version(std::move(done)); }));
  return {};
}

}  // namespace cadre::node
