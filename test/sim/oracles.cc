#include "sim/oracles.h"

#include "base/format.h"
#include "base/strings.h"
#include "json/parse.h"
#include "kube/meta.h"

namespace cadre::sim {
namespace {

constexpr std::size_t kShortestSecret = 8;  // what is shorter may be anything

}  // namespace

// ---- History

void History::add(const std::vector<hub::Line>& lines) {
  for (const hub::Line& line : lines) {
    if (line.revision != revision_ + 1 && revision_ != 0)
      alarms_.raise("O11", format("revision {} comes after {}", line.revision, revision_));
    revision_ = line.revision;
    digest_ = stableHash(format("{} {} {}", digest_, line.revision, line.key));
    count(line);
    if (!line.value) continue;
    if (line.key.starts_with("secrets ")) {
      learnSecrets(*line.value);
    } else {
      look(line.key, *line.value);
    }
  }
}

void History::count(const hub::Line& line) {
  auto [resource, name] = cut(line.key, " ");
  if (resource == "coordination.k8s.io/leases") {
    if (line.value) lookAtLease(*line.value);
    return;
  }
  ++changes_;
  if (!name.starts_with(ns_ + "/") || resource == "events" || resource == "resourcequotas") return;
  Counts& counts = counts_[format("{} {}", resource, name.substr(ns_.size() + 1))];
  std::string type = "MODIFIED";
  if (!line.value) {
    there_.erase(line.key);
    ++counts.deleted;
    type = "DELETED";
  } else if (there_.insert(line.key).second) {
    ++counts.created;
    type = "ADDED";
  }
  events_[std::string(resource)].push_back({line.revision, std::move(type)});
}

void History::learnSecrets(const std::string& text) {
  auto secret = json::parse(text);
  if (!secret) return;
  for (const auto& [key, value] : (*secret)["data"].object()) {
    std::string plain = base64Decode(value.string()).value_or("");
    if (plain.size() < kShortestSecret) continue;
    secrets_.insert(plain);
    secrets_.insert(value.string());
  }
}

void History::look(std::string_view where, std::string_view text) {
  for (const std::string& secret : secrets_)
    if (text.find(secret) != std::string_view::npos)
      alarms_.raise("O10", format("a value of a Secret is in {}", where));
}

void History::lookAtLease(const std::string& text) {
  auto lease = json::parse(text);
  if (!lease) return;
  const std::string& holder = (*lease)["spec"]["holderIdentity"].string();
  std::int64_t transitions = (*lease)["spec"]["leaseTransitions"].integer();
  if (transitions != transitions_ + (holder == holder_ ? 0 : 1))
    alarms_.raise("S7", format("the lease went from {} to {} with transitions from {} to {}",
                               holder_, holder, transitions_, transitions));
  holder_ = holder;
  transitions_ = transitions;
}

const std::vector<History::Event>& History::of(const std::string& resource) const {
  static const std::vector<Event> kNone;
  auto found = events_.find(resource);
  return found == events_.end() ? kNone : found->second;
}

// ---- Listener

Listener::Listener(Scheduler& scheduler, Random& random, std::unique_ptr<net::HttpClient> way,
                   std::string path, std::string resource, std::int64_t revision,
                   const History& history, Alarms& alarms)
    : scheduler_(scheduler),
      random_(random),
      way_(std::move(way)),
      path_(std::move(path)),
      resource_(std::move(resource)),
      history_(history),
      alarms_(alarms),
      revision_(revision),
      heard_(history.of(resource_).size()) {
  listen();
}

void Listener::listen() {
  buffer_.clear();
  auto come_back = [this] {
    watch_.reset();
    coming_back_ =
        scheduler_.after(std::chrono::milliseconds(random_.below(3000)), [this] { listen(); });
  };
  watch_ =
      way_->send({.target = format("{}?watch=1&allowWatchBookmarks=true&resourceVersion={}", path_,
                                   revision_)},
                 {.head = [](auto) {},
                  .data =
                      [this, come_back](std::string_view data) {
                        buffer_ += data;
                        for (std::size_t end = 0; (end = buffer_.find('\n')) != std::string::npos;
                             buffer_.erase(0, end + 1))
                          hear(std::string_view(buffer_).substr(0, end));
                        if (random_.below(16) == 0) come_back();
                      },
                  .end = [come_back](const Result<>&) { come_back(); }});
}

void Listener::hear(std::string_view line) {
  auto wrong = [&](std::string what) {
    alarms_.raise("O11", format("a watch of {} after {}: {}", resource_, revision_, what));
  };
  auto event = json::parse(line);
  if (!event) return wrong("no JSON: " + event.error().text());
  const std::string& type = (*event)["type"].string();
  if (type == "ERROR") return wrong((*event)["object"]["message"].string());
  std::int64_t revision = parseInt(kube::resourceVersion((*event)["object"])).value_or(0);
  if (revision < revision_) wrong(format("it goes back to {}", revision));
  revision_ = revision;
  if (type == "BOOKMARK") return;
  const auto& events = history_.of(resource_);
  if (heard_ == events.size()) return wrong(format("{} {} did not happen", type, revision));
  const History::Event& expected = events[heard_++];
  if (expected.revision != revision || expected.type != type)
    wrong(format("{} {} is told, not {} {}", type, revision, expected.type, expected.revision));
}

void Listener::finish() {
  if (std::size_t all = history_.of(resource_).size(); heard_ != all)
    alarms_.raise("O11", format("a watch of {} has told {} of {} changes", resource_, heard_, all));
}

}  // namespace cadre::sim
