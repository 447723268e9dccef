#include "node/process_runtime.h"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/format.h"
#include "base/strings.h"
#include "json/write.h"
#include "net/process.h"
#include "node/images.h"
#include "node/overlay.h"
#include "node/shim.h"

namespace cadre::node {
namespace {

namespace fs = std::filesystem;

// Of this machine's /etc, what programs need to run at all and what is no secret.
constexpr std::string_view kShared[] = {
    "/etc/alternatives", "/etc/ca-certificates", "/etc/ld.so.cache", "/etc/ld.so.conf",
    "/etc/ld.so.conf.d", "/etc/localtime",       "/etc/mime.types",  "/etc/protocols",
    "/etc/resolv.conf",  "/etc/services",        "/etc/ssl"};
constexpr std::string_view kScratchBytes = "268435456";  // of /tmp and the like, in memory

Run runOf(const RunName& name, const ShimState& state) {
  Run run{.attempt = name.attempt,
          .state = state.alive ? Run::State::Running : Run::State::Ended,
          .id = format("process://{}/{}/{}", name.pod, name.container, name.attempt),
          .image_id = state.image,
          .started = state.started.value_or(state.finished.value_or(Time())),
          .ended = state.finished.value_or(Time()),
          .code = state.code,
          .message = state.error};
  if (!state.error.empty()) run.reason = state.started ? "ContainerStatusUnknown" : "StartError";
  if (state.code == 128 && !state.error.empty()) run.reason = "StartError";
  if (state.was_short && state.code == 137) run.reason = "OOMKilled";
  return run;
}

// A tree that cannot be written to, with room for what is mounted in it: a folder that lacks the
// place for it is made anew, and what is in it is put there one by one.
void addTree(std::vector<std::string>& out, const fs::path& source, const fs::path& target,
             const std::vector<Mount>& mounts) {
  auto add = [&](std::initializer_list<std::string> words) {
    out.insert(out.end(), words.begin(), words.end());
  };
  std::error_code ignored;
  if (fs::is_symlink(source, ignored))
    return add({"--symlink", fs::read_symlink(source, ignored).string(), target.string()});
  bool whole = target != "/" && std::ranges::none_of(mounts, [&](const Mount& one) {
                 fs::path below = fs::path(one.target).lexically_relative(target);
                 return !below.empty() && *below.begin() != ".." && below != "." &&
                        !fs::exists(source / below, ignored);
               });
  if (whole) return add({"--ro-bind", source.string(), target.string()});
  if (target != "/") add({"--dir", target.string()});
  for (const auto& entry : fs::directory_iterator(source, ignored)) {
    std::string name = entry.path().filename();
    if (target == "/" && (name == "proc" || name == "dev" || name == "sys" || name == "tmp"))
      continue;
    addTree(out, entry.path(), target / name, mounts);
  }
}

// Where a path of an image leads, in its tree: /var/run may be a link to /run.
fs::path resolvedIn(const fs::path& root, const fs::path& path) {
  constexpr int kMaxLinks = 40;
  fs::path out = "/";
  std::vector<std::string> left;  // the last one is next
  auto put = [&](const fs::path& more) {
    std::vector<std::string> parts;
    for (const fs::path& part : more.relative_path()) parts.push_back(part);
    left.insert(left.end(), parts.rbegin(), parts.rend());
  };
  put(path);
  std::error_code ignored;
  for (int links = 0; !left.empty();) {
    const std::string part = left.back();
    left.pop_back();
    if (part == "..") out = out.parent_path();
    if (part.empty() || part == "." || part == "..") continue;
    const fs::path here = root / (out / part).relative_path();
    if (!fs::is_symlink(here, ignored) || ++links > kMaxLinks) {
      out /= part;
      continue;
    }
    const fs::path to = fs::read_symlink(here, ignored);
    if (to.is_absolute()) out = "/";
    put(to);
  }
  return out;
}

// Places for what is mounted, in the layer that is written to: in folders of somebody else, whom
// the container's user does not know, nobody could make them.
void makeRoom(const fs::path& layer, const fs::path& tree, const std::vector<Mount>& mounts) {
  std::error_code ignored;
  for (const Mount& one : mounts) {
    const fs::path target = resolvedIn(tree, one.target).relative_path();
    if (fs::exists(tree / target, ignored)) continue;
    const bool is_folder = fs::is_directory(one.source, ignored);
    fs::path below;
    for (const fs::path& part : is_folder ? target : target.parent_path()) {
      below /= part;
      if (!fs::create_directories(layer / below, ignored)) continue;
      const auto like = fs::status(tree / below, ignored);
      if (fs::exists(like)) fs::permissions(layer / below, like.permissions(), ignored);
    }
    if (!is_folder) std::ofstream(layer / target).flush();
  }
}

// What bwrap is told. `merged`: where the image can be written to; empty: it cannot.
std::vector<std::string> sandboxOf(const RunOrder& order, const Image& image,
                                   const std::string& program, const std::string& merged) {
  std::vector<std::string> out{"--unshare-user",    "--unshare-pid",        "--unshare-ipc",
                               "--unshare-uts",     "--unshare-cgroup-try", "--as-pid-1",
                               "--die-with-parent", "--cap-drop",           "ALL"};
  auto add = [&](std::initializer_list<std::string_view> words) {
    out.insert(out.end(), words.begin(), words.end());
  };
  if (!order.hostname.empty()) add({"--hostname", order.hostname});
  if (order.user) add({"--uid", format("{}", *order.user)});
  if (order.group) add({"--gid", format("{}", *order.group)});
  std::vector<Mount> mounts = order.mounts;
  std::string directory = order.directory.empty() ? image.directory : order.directory;
  if (!image.root.empty())
    for (Mount& one : mounts) one.target = resolvedIn(image.root, one.target);
  if (!merged.empty()) {
    add({"--bind", merged, "/"});
  } else if (!image.root.empty()) {
    std::vector<Mount> rooms = mounts;
    if (!directory.empty()) rooms.push_back({"", resolvedIn(image.root, directory)});
    addTree(out, image.root, "/", rooms);
  } else {
    add({"--ro-bind", "/usr", "/usr"});
    for (std::string_view name : {"bin", "sbin", "lib", "lib32", "lib64", "libx32"}) {
      std::string path = format("/{}", name);
      std::error_code ignored;
      if (fs::is_symlink(path, ignored))
        add({"--symlink", fs::read_symlink(path, ignored).string(), path});
      else
        add({"--ro-bind-try", path, path});
    }
    for (std::string_view path : kShared) add({"--ro-bind-try", path, path});
    add({"--ro-bind", program, "/opt/cadre/bin/cadre"});
  }
  add({"--proc", "/proc", "--dev", "/dev"});
  for (std::string_view path : {"/tmp", "/run", "/var/tmp"})
    if (order.read_only)
      add({"--dir", path});
    else if (image.root.empty() || (merged.empty() && path == "/tmp"))
      add({"--size", kScratchBytes, "--tmpfs", path});
  std::ranges::stable_sort(mounts,  // those within others after them
                           std::less<>(), [](const Mount& one) { return one.target.size(); });
  for (const Mount& one : mounts)
    add({one.read_only ? "--ro-bind" : "--bind", one.source, one.target});
  if (!directory.empty()) add({"--dir", directory});  // made, unless it is there
  if (order.read_only) add({"--remount-ro", "/"});
  add({"--chdir", directory.empty() ? "/" : directory, "--clearenv"});
  std::map<std::string, std::string> env = image.env;
  for (const auto& [key, value] : order.env) env[key] = value;
  for (const auto& [key, value] : env) add({"--setenv", key, value});
  return out;
}

// As images have it: a command of the pod takes the place of both.
std::vector<std::string> commandOf(const RunOrder& order, const Image& image) {
  std::vector<std::string> out = order.command.empty() ? image.entrypoint : order.command;
  const auto& args = !order.args.empty() || !order.command.empty() ? order.args : image.command;
  out.insert(out.end(), args.begin(), args.end());
  return out;
}

class ProcessRuntime final : public Runtime {
 public:
  ProcessRuntime(net::Loop& loop, ProcessRuntimeOptions options)
      : loop_(loop), options_(std::move(options)), can_overlay_(canOverlay(options_.folder)) {}

  std::string_view name() const override { return "process"; }

  std::vector<std::pair<RunName, Run>> find() override {
    std::vector<std::pair<RunName, Run>> out;
    for (const fs::path& pod : below(options_.folder)) {
      const std::vector<RunName> names = runsOf(pod.filename());
      for (const RunName& name : names) out.emplace_back(name, found(name));
      if (names.empty()) forget(pod.filename());  // half forgotten, or hardly begun
    }
    std::ranges::sort(out, std::less<>(), [](auto& one) { return one.first; });
    return out;
  }

  bool isAlive(const RunName& run) const override { return readShim(folderOf(run)).alive; }

  Pending start(RunOrder order, Function<void(Result<Run>)> done) override {
    auto image = findImage(options_.images, order.image);
    auto fail = [&](Error error) {
      return loop_.after(0s, [done = std::move(done), error] { done(error); });
    };
    if (!image) return fail(image.error());
    if (auto may = checkUser(order, image->user); !may) return fail(may.error());
    std::vector<std::string> command = commandOf(order, *image);
    if (command.empty())
      return fail(
          {.code = Code::InvalidArgument,
           .message = format("the image {} has no command: give the container one", order.image)});
    std::string folder = folderOf(order.name);
    std::error_code code;
    fs::create_directories(fs::path(folder).parent_path(), code);
    fs::create_directories(fs::path(order.log).parent_path(), code);
    // Whoever makes it is the one who starts this run; of one that was begun before, it is told
    // what became of it.
    if (!fs::create_directory(folder, code)) {
      if (code)
        return fail({.code = Code::Unavailable,
                     .message = format("{} cannot be made: {}", folder, code.message())});
      return loop_.after(0s,
                         [this, name = order.name, done = std::move(done)] { done(found(name)); });
    }
    const bool writes = !image->root.empty() && !order.read_only && can_overlay_;
    if (writes) makeRoom(folder + "/upper", image->root, order.mounts);
    ShimOrder shim{.sandbox = sandboxOf(order, *image, options_.program,
                                        writes ? folder + "/merged" : std::string()),
                   .command = std::move(command),
                   .log = order.log,
                   .address = order.address,
                   .image = image->root.empty() ? "cadre" : image->root,
                   .tree = writes ? image->root : std::string(),
                   .limits = order.limits};
    return net::runProcess(
        loop_,
        {.argv = {options_.program, "shim", folder},
         .env = {{"PATH", "/usr/local/bin:/usr/bin:/bin"}},
         .directory = {},
         .input = json::write(shim.toJson())},
        [this, name = order.name, done = std::move(done)](Result<net::ProcessResult> result) {
          if (!result) return done(result.error());
          Run run = found(name);
          if (!listening_.contains(name)) bury(name);
          done(run);
        });
  }

  void stop(const RunName& run, bool kill) override {
    if (ShimState state = readShim(folderOf(run)); state.alive && state.process > 1)
      ::kill(state.process, kill ? SIGUSR1 : SIGTERM);
  }

  Pending runInside(const RunName& run, std::vector<std::string> command, Duration timeout,
                    Function<void(Result<net::ProcessResult>)> done) override {
    net::ProcessOptions options = inside(run, std::move(command), false);
    options.timeout = timeout;
    return net::runProcess(loop_, std::move(options), std::move(done));
  }

  std::unique_ptr<net::Conversation> talkInside(const RunName& run,
                                                net::ConversationOptions options) override {
    options.process = inside(run, std::move(options.process.argv), options.terminal);
    if (options.terminal) options.process.env.try_emplace("TERM", "xterm");
    return net::talk(loop_, std::move(options));
  }

  void forget(const std::string& pod) override {
    if (pod.empty()) return;
    std::error_code ignored;
    for (const RunName& name : runsOf(pod)) forget(name);
    fs::remove_all(fs::path(options_.folder) / pod, ignored);
  }

  void forget(const RunName& run) override {
    std::error_code ignored;
    removeGroups(readShim(folderOf(run)).groups);
    openOverlay(folderOf(run));
    fs::remove_all(folderOf(run), ignored);
  }

  Pending close(Function<void(Result<>)> done) override {
    for (const fs::path& pod : below(options_.folder))
      for (const RunName& name : runsOf(pod.filename()))
        removeGroups(readShim(folderOf(name)).groups);  // of shims that were killed
    return loop_.after(0s, [done = std::move(done)] { done(Result<>()); });
  }

 private:
  static std::vector<fs::path> below(const fs::path& folder) {
    std::vector<fs::path> found;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(folder, ignored)) found.push_back(entry.path());
    std::ranges::sort(found);
    return found;
  }

  std::vector<RunName> runsOf(const std::string& pod) const {
    std::vector<RunName> out;
    for (const fs::path& container : below(fs::path(options_.folder) / pod))
      for (const fs::path& attempt : below(container))
        if (auto number = parseInt(attempt.filename().string()))
          out.push_back({pod, container.filename(), static_cast<int>(*number)});
    return out;
  }

  // A command in a container, with its environment. Where that does not run, the command says so.
  net::ProcessOptions inside(const RunName& run, std::vector<std::string> command,
                             bool terminal) const {
    ShimState state = readShim(folderOf(run));
    int target = state.alive && state.inner > 0 ? state.inner : 0;
    net::ProcessOptions options{
        .argv = {options_.program, "enter", folderOf(run), terminal ? "tty" : "pipes", "--"}};
    options.argv.insert(options.argv.end(), command.begin(), command.end());
    std::ifstream file(format("/proc/{}/environ", target), std::ios::binary);
    for (std::string entry; target > 0 && std::getline(file, entry, '\0');) {
      auto [key, value] = cut(entry, "=");
      options.env[std::string(key)] = value;
    }
    return options;
  }

  std::string folderOf(const RunName& run) const {
    return fs::path(options_.folder) / run.pod / run.container / format("{:06}", run.attempt);
  }

  // One that was begun; if it still runs, its end is listened to.
  Run found(const RunName& name) {
    ShimState state = readShim(folderOf(name));
    if (state.alive) listen(name, state.process);
    return runOf(name, state);
  }

  // Of a run that was over before anybody listened to it: it has just become our child.
  void bury(const RunName& name) {
    ShimState state = readShim(folderOf(name));
    if (state.process <= 1) return;
    if (::waitpid(state.process, nullptr, WNOHANG) == 0)  // it is about to end
      burying_[name] =
          net::onProcessEnd(loop_, state.process, [this, name] { burying_.erase(name); });
  }

  void listen(const RunName& name, int process) {
    listening_[name] = net::onProcessEnd(loop_, process, [this, name] {
      listening_.erase(name);
      Run run = runOf(name, readShim(folderOf(name)));
      if (ended) ended(name, run);
    });
  }

  net::Loop& loop_;
  const ProcessRuntimeOptions options_;
  const bool can_overlay_;
  std::map<RunName, Pending> listening_, burying_;
};

}  // namespace

Result<> tryProcesses(net::Loop& loop) {
  const std::string path = "/usr/local/bin:/usr/bin:/bin";
  // As containers are, and not with the whole of this machine in it: there mounts come and go.
  std::vector<std::string> words = sandboxOf({.env = {{"PATH", path}}}, {}, "/dev/null", "");
  words.insert(words.begin(), "bwrap");
  words.insert(words.end(), {"--", "true"});
  auto tried = net::await<net::ProcessResult>(loop, [&](auto done) {
    return net::runProcess(loop, {.argv = words, .env = {{"PATH", path}}}, std::move(done));
  });
  if (!tried)
    return Error{.code = Code::NotFound,
                 .message = "processes need bubblewrap: install the package bubblewrap"};
  if (tried->exit_code != 0)
    return Error{.code = Code::Unavailable,
                 .message = format("this system lets nobody make namespaces ({}): allow it "
                                   "(kernel.unprivileged_userns_clone, user.max_user_namespaces)",
                                   trim(tried->errors))};
  return {};
}

Result<std::unique_ptr<Runtime>> makeProcessRuntime(net::Loop& loop,
                                                    ProcessRuntimeOptions options) {
  CADRE_TRY(tryProcesses(loop));
  prctl(PR_SET_CHILD_SUBREAPER, 1);  // who watches over containers is ours to bury
  return std::unique_ptr<Runtime>(std::make_unique<ProcessRuntime>(loop, std::move(options)));
}

}  // namespace cadre::node
