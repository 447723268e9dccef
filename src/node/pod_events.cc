#include "node/pod_events.h"

#include "base/format.h"
#include "base/strings.h"
#include "kube/meta.h"
#include "kube/names.h"

namespace cadre::node {
namespace {

const kube::Resource kEvents{.version = "v1", .plural = "events", .kind = "Event"};
constexpr Duration kPause = 10s;  // between two writes of the same
constexpr std::size_t kMaxMessage = 1000;
constexpr std::size_t kMaxTold = 10'000;

std::string_view fieldOf(const json::Value& pod, std::string_view container) {
  for (std::string_view field : {"containers", "initContainers"})
    for (const json::Value& one : pod["spec"][field].array())
      if (one["name"].string() == container) return field;
  return {};
}

}  // namespace

void PodEvents::tell(const json::Value& pod, std::string_view container, Type type,
                     std::string_view reason, std::string_view message) {
  const std::string uid(kube::uid(pod)), text = shorten(message, kMaxMessage);
  std::string name = kube::boundedName(
      kube::name(pod), "." + shortHash(format("{} {} {} {}", uid, container, reason, text)), 253);
  if (told_.size() >= kMaxTold && !told_.contains(name)) return;
  Told& told = told_[name];
  const Time now = client_.scheduler().clock().now();
  told.pod = uid;
  if (++told.count > 1 && now - told.written < kPause) return;
  told.written = now;
  json::Object about{{"apiVersion", "v1"},
                     {"kind", "Pod"},
                     {"name", kube::name(pod)},
                     {"namespace", kube::ns(pod)},
                     {"uid", uid}};
  if (std::string_view field = fieldOf(pod, container); !field.empty())
    about.set("fieldPath", format("spec.{}{{{}}}", field, container));
  json::Object event{{"metadata", json::Object{{"name", name}, {"namespace", kube::ns(pod)}}},
                     {"involvedObject", std::move(about)},
                     {"type", type == Type::Warning ? "Warning" : "Normal"},
                     {"reason", reason},
                     {"message", text},
                     {"source", json::Object{{"component", "kubelet"}, {"host", node_}}},
                     {"reportingComponent", "kubelet"},
                     {"reportingInstance", node_},
                     {"lastTimestamp", formatTime(now)},
                     {"count", told.count}};
  if (told.count == 1) event.set("firstTimestamp", formatTime(now));
  event.set("apiVersion", "v1");
  event.set("kind", "Event");
  told.writing = client_.apply(kEvents, std::move(event), {.force = true, .retry = false},
                               [](const Result<json::Value>&) {});  // none is worth more than that
}

void PodEvents::forget(std::string_view pod) {
  std::erase_if(told_, [&](const auto& one) { return one.second.pod == pod; });
}

}  // namespace cadre::node
