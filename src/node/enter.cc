#include "node/enter.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string_view>

#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/format.h"
#include "node/own_address.h"
#include "node/shim.h"

namespace cadre::node {
namespace {

constexpr int kCannot = 126, kNoSuchCommand = 127;
constexpr int kTries = 2000, kPauseMicros = 1000;

std::string programOf(const std::string& process) {
  char text[4096];
  ssize_t length = ::readlink(format("/proc/{}/exe", process).c_str(), text, sizeof text);
  return length > 0 ? std::string(text, static_cast<std::size_t>(length)) : std::string();
}

// A container is not furnished before its own program has taken over from the one that makes it,
// which is its parent's.
void awaitFurnished(int process) {
  std::ifstream file(format("/proc/{}/stat", process));
  std::string stat;
  std::getline(file, stat);
  std::istringstream rest(stat.substr(std::min(stat.rfind(')') + 1, stat.size())));
  std::string state, parent;
  rest >> state >> parent;
  const std::string maker = programOf(parent);
  for (int i = 0; i < kTries && !maker.empty(); ++i) {
    std::string own = programOf(format("{}", process));
    if (own != maker) return;
    ::usleep(kPauseMicros);
  }
}

int cannot(std::string_view what) {
  std::string text = format("cannot {}: {}\n", what, std::strerror(errno));
  (void)!::write(STDERR_FILENO, text.data(), text.size());
  return kCannot;
}

// Whoever enters a user's namespace may do everything in it, and what runs there may not.
bool dropRights() {
  for (int right = 0; ::prctl(PR_CAPBSET_READ, right) >= 0; ++right)
    if (::prctl(PR_CAPBSET_DROP, right) != 0) return false;
  if (::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0) return false;
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct none[2] = {};
  return ::syscall(SYS_capset, &header, none) == 0 && ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
}

[[noreturn]] void become(const std::vector<std::string>& command, bool terminal, int folder,
                         OwnAddress& network) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (terminal) {
    ::setsid();
    ::ioctl(STDIN_FILENO, TIOCSCTTY, 0);
  }
  (void)!::fchdir(folder);
  if (!dropRights()) ::_exit(cannot("give up rights"));
  ::signal(SIGHUP, SIG_DFL);
  network.begin();
  std::vector<char*> words;
  words.reserve(command.size() + 1);
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  ::execvp(words[0], words.data());
  int code = errno == ENOENT ? kNoSuchCommand : kCannot;
  cannot(format("run {}", command[0]));
  ::_exit(code);
}

}  // namespace

int enterContainer(const std::string& run, bool terminal, const std::vector<std::string>& command) {
  const ShimState state = readShim(run);
  const int process = state.alive ? state.inner : 0;
  awaitFurnished(process);
  OwnAddress network(state.address);
  int target = static_cast<int>(::syscall(SYS_pidfd_open, process, 0));
  int folder = ::open(format("/proc/{}/cwd", process).c_str(), O_PATH | O_CLOEXEC);
  if (target < 0 || folder < 0) return cannot("find the container");
  if (!enterGroups(state.groups)) return cannot("take on the container's limits");
  if (::setns(target, CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS) !=
      0)
    return cannot("enter the container");
  if (terminal) {  // it is for the command
    ::signal(SIGHUP, SIG_IGN);
    ::ioctl(STDIN_FILENO, TIOCNOTTY);
  }
  pid_t child = ::fork();
  if (child < 0) return cannot("start a process");
  if (child == 0) become(command, terminal, folder, network);
  network.listen();
  for (int file : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    ::close(file);  // its own from now on
  Descriptor end(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  for (pollfd all[2] = {{end.get(), POLLIN, 0}, {}}; all[0].revents == 0;) {
    all[1] = {network.descriptor(), POLLIN, 0};
    if (::poll(all, 2, -1) > 0 && all[1].revents != 0) network.answer(all[1].revents);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace cadre::node
