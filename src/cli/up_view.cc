#include "cli/up_view.h"

#include <algorithm>

#include "base/format.h"
#include "base/strings.h"
#include "cli/commands.h"
#include "kube/health.h"
#include "kube/meta.h"
#include "kube/selector.h"
#include "net/terminal.h"

namespace cadre::cli {
namespace {

using json::Value;

constexpr Duration kLook = 500ms;
constexpr int kErrors = 2;  // stderr
const kube::Resource kPods{.version = "v1", .plural = "pods", .kind = "Pod"};

std::string titleOf(const Value& object) {
  std::string title = format("{}/{}", lower(object["kind"].string()), kube::name(object));
  if (kube::ns(object) != "default") title += format(" in {}", kube::ns(object));
  return title;
}

// What the container that holds a pod up says of itself.
std::string reasonOf(const Value& pod) {
  for (const char* list : {"initContainerStatuses", "containerStatuses"})
    for (const Value& status : pod["status"][list].array()) {
      if (const Value& waiting = status["state"]["waiting"]; waiting.isObject()) {
        const std::string& message = waiting["message"].string();
        return waiting["reason"].string() + (message.empty() ? "" : ": " + message);
      }
      const Value& ended = status["state"]["terminated"];
      if (ended.isObject() && ended["exitCode"].integer() != 0)
        return format("{} ended with {}", status["name"].string(), ended["exitCode"].integer());
    }
  for (const Value& status : pod["status"]["containerStatuses"].array())
    if (!status["ready"].boolean()) return format("{} is not ready yet", status["name"].string());
  return kube::healthOf(pod).why;
}

bool belongsTo(const Value& pod, const Value& workload) {
  if (kube::ns(pod) != kube::ns(workload) || !workload["spec"]["selector"].isObject()) return false;
  auto selector = kube::LabelSelector::fromObject(workload["spec"]["selector"]);
  return selector && selector->matches(pod["metadata"]["labels"].object());
}

// What keeps a workload: one of its pods, else what its own status says.
std::string whyNot(const Value& workload, const kube::Health& health,
                   const std::vector<Value>& pods) {
  const Value* worst = nullptr;
  for (const Value& pod : pods)
    if (belongsTo(pod, workload) && !kube::healthOf(pod).ok() &&
        (!worst || kube::name(pod) < kube::name(*worst)))
      worst = &pod;
  if (!worst) return health.why;
  std::string reason = reasonOf(*worst);
  return reason.empty() ? health.why : reason;
}

// "1/3 ready", of what counts.
std::string countOf(const Value& workload) {
  const Value &spec = workload["spec"], &status = workload["status"];
  const std::string& kind = workload["kind"].string();
  if (kind == "Job")
    return format("{}/{} done", status["succeeded"].integer(), spec["completions"].integer(1));
  if (kind == "Deployment" || kind == "StatefulSet")
    return format("{}/{} ready", status["readyReplicas"].integer(), spec["replicas"].integer(1));
  return "not ready";
}

}  // namespace

Progress progressOf(const std::vector<Value>& workloads, const std::vector<Value>& pods) {
  Progress progress;
  auto take = [&](const Value& object, const kube::Health& health, const std::string& why) {
    ++progress.all;
    if (health.ok()) {
      ++progress.ready;
      return;
    }
    std::string line = format("{}  {}  {}", titleOf(object), countOf(object), why);
    (health.state == kube::Health::State::Failed ? progress.failed : progress.waiting)
        .push_back(withoutControls(std::move(line)));
  };
  for (const Value& workload : workloads) {
    kube::Health health = kube::healthOf(workload);
    take(workload, health, health.ok() ? "" : whyNot(workload, health, pods));
  }
  for (const Value& pod : pods)
    if (pod["metadata"]["ownerReferences"].array().empty())
      take(pod, kube::healthOf(pod), reasonOf(pod));
  return progress;
}

std::vector<std::string> linesOf(const Progress& progress, std::size_t rows, std::size_t columns) {
  std::vector<std::string> lines{format("cadre: {} of {} ready", progress.ready, progress.all)};
  std::vector<std::string> rest = progress.waiting;
  rest.insert(rest.end(), progress.failed.begin(), progress.failed.end());
  // The last row is the cursor's.
  std::size_t room = std::max<std::size_t>(rows, 4) - 2;
  for (std::size_t i = 0; i < rest.size(); ++i) {
    if (i + 1 == room && rest.size() > room) {
      lines.push_back(format("  and {} more", rest.size() - i));
      break;
    }
    lines.push_back("  " + rest[i]);
  }
  for (std::string& line : lines) line = shorten(line, std::max<std::size_t>(columns, 20) - 1);
  return lines;
}

// ---- On a terminal

struct UpView::Impl {
  Impl(net::Loop& loop, kube::Client& client, std::vector<kube::Resource> kinds,
       const Surroundings& surroundings)
      : loop(loop), client(client), kinds(std::move(kinds)), surroundings(surroundings) {
    this->kinds.push_back(kPods);
    next(surroundings.patience);
  }

  void next(Duration after) {
    pending = loop.after(after, [this] {
      workloads.clear();
      pods.clear();
      look(0);
    });
  }

  // One kind after the other.
  void look(std::size_t index) {
    if (index == kinds.size()) return show();
    pending = client.list(kinds[index], {}, [this, index](Result<std::vector<Value>> list) {
      const kube::Resource& resource = kinds[index];
      for (Value& object : list ? *list : std::vector<Value>()) {
        object.make("apiVersion") = resource.apiVersion();
        object.make("kind") = resource.kind;
        (index + 1 == kinds.size() ? pods : workloads).push_back(std::move(object));
      }
      look(index + 1);
    });
  }

  void show() {
    Progress progress = progressOf(workloads, pods);
    if (!progress.waiting.empty()) {
      auto size = net::terminalSize(kErrors);
      if (!size || size->columns == 0) size = net::TerminalSize{24, 80};  // it does not say
      draw(linesOf(progress, static_cast<std::size_t>(size->rows),
                   static_cast<std::size_t>(size->columns)));
      return next(kLook);
    }
    // Nobody who did not have to wait is told.
    if (lines.empty()) return;
    draw({});
    surroundings.err(format("cadre: {} of {} ready\n", progress.ready, progress.all));
    for (const std::string& failed : progress.failed)
      surroundings.err(format("cadre: {}\n", failed));
  }

  void draw(std::vector<std::string> wanted) {
    if (wanted == lines) return;
    std::string text = takenBack();
    lines = std::move(wanted);
    for (const std::string& line : lines) text += line + "\n";
    surroundings.err(text);
  }

  // Up to the first line, and all from there is empty.
  std::string takenBack() const {
    return lines.empty() ? "" : format("\x1b[{}A\r\x1b[J", lines.size());
  }

  net::Loop& loop;
  kube::Client& client;
  std::vector<kube::Resource> kinds;
  const Surroundings& surroundings;
  std::vector<Value> workloads, pods;
  std::vector<std::string> lines;  // that are on the terminal
  Pending pending;
};

bool UpView::isPossible(const Surroundings& surroundings) {
  auto kind = surroundings.env.find("TERM");
  return net::isTerminal(kErrors) && kind != surroundings.env.end() && kind->second != "dumb";
}

UpView::UpView(net::Loop& loop, kube::Client& client, std::vector<kube::Resource> kinds,
               const Surroundings& surroundings)
    : impl_(std::make_unique<Impl>(loop, client, std::move(kinds), surroundings)) {}

UpView::~UpView() { impl_->draw({}); }

void UpView::say(std::string_view line) {
  std::string text = impl_->takenBack() + std::string(line);
  for (const std::string& shown : impl_->lines) text += shown + "\n";
  impl_->surroundings.err(text);
}

}  // namespace cadre::cli
