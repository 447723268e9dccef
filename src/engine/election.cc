#include "engine/election.h"

#include "base/format.h"

namespace cadre::engine {
namespace {

const kube::Resource kLeases{"coordination.k8s.io", "v1", "leases", "Lease"};
constexpr int kReleaseTries = 3;

const std::string& holder(const json::Value& lease) {
  return lease["spec"]["holderIdentity"].string();
}

}  // namespace

Election::Election(kube::Client& client, Random& random, ElectionOptions options,
                   Function<void(bool leads)> changed)
    : client_(client),
      random_(random),
      options_(std::move(options)),
      logger_(options_.logger ? *options_.logger : Logger::silent()),
      changed_(std::move(changed)) {
  show();
  tryLater(0s);
}

void Election::show() {
  if (options_.metrics)
    options_.metrics
        ->gauge("leader_election_master_status", "Whether this program leads.",
                {{"name", options_.lease.name}})
        .set(leads_);
}

bool Election::holds() const {
  return leads_ && client_.scheduler().clock().instant() - renewed_at_ < options_.deadline;
}

std::string Election::trouble() const {
  if (released_) return {};
  if (lost_) return "the lease is lost";
  if (!leads_ || holds()) return {};
  Duration age = client_.scheduler().clock().instant() - renewed_at_;
  return format("the lease was last renewed {} ago",
                formatDuration(std::chrono::duration_cast<std::chrono::seconds>(age)));
}

void Election::tryLater(Duration delay) {
  timer_ = client_.scheduler().after(delay, [this] { attempt(); });
}

void Election::attempt() {
  if (lost_) return;
  began_at_ = client_.scheduler().clock().instant();
  // A request that hangs must not take the time that others would need.
  timer_ = client_.scheduler().after(std::max<Duration>(1s, options_.deadline / 2), [this] {
    logger_.warn("the lease cannot be reached in time; trying again");
    pending_.reset();
    slow_ = true;
    attempt();
  });
  if (leads_ && !slow_) return write(record(lease_, false), false);
  look();
}

void Election::look() {
  pending_ = client_.get(kLeases, options_.lease,
                         [this](Result<json::Value> got) { looked(std::move(got)); });
}

void Election::looked(Result<json::Value> got) {
  Instant now = client_.scheduler().clock().instant();
  if (!got && got.error().code == Code::NotFound) {
    json::Value lease = json::Object{{"metadata", json::Object{{"name", options_.lease.name},
                                                               {"namespace", options_.lease.ns}}}};
    return write(record(std::move(lease), true), true);
  }
  if (!got) {
    logger_.warn("the lease cannot be read; trying again", {{"error", got.error().text()}});
    return tryLater(random_.jitter(options_.retry, 0.2));
  }
  if ((*got)["spec"] != lease_["spec"]) observed_at_ = now;
  lease_ = *std::move(got);
  bool ours = holder(lease_) == options_.identity;
  if (leads_ && !ours) return lose("another one has it now");
  bool free = ours || holder(lease_).empty() || now - observed_at_ >= options_.duration;
  if (!free) return tryLater(random_.jitter(options_.retry, 0.2));
  write(record(lease_, !ours), false);
}

json::Value Election::record(json::Value lease, bool new_holder) const {
  std::string now = formatTimeMicros(client_.scheduler().clock().now());
  json::Value& spec = lease.make("spec");
  spec.make("holderIdentity") = options_.identity;
  spec.make("leaseDurationSeconds") =
      std::chrono::duration_cast<std::chrono::seconds>(options_.duration).count();
  spec.make("renewTime") = now;
  if (new_holder) {
    spec.make("acquireTime") = now;
    spec.make("leaseTransitions") = spec["leaseTransitions"].integer() + 1;
  }
  return lease;
}

void Election::write(json::Value lease, bool is_new) {
  auto done = [this](Result<json::Value> result) { wrote(std::move(result)); };
  pending_ =
      is_new ? client_.create(kLeases, lease, {}, done) : client_.update(kLeases, lease, {}, done);
}

void Election::wrote(Result<json::Value> result) {
  if (!result) {
    // Somebody wrote or deleted it, or our own last write went through unheard: look first.
    bool raced = result.error().code == Code::Conflict ||
                 result.error().code == Code::AlreadyExists ||
                 result.error().code == Code::NotFound;
    slow_ = true;
    if (!raced)
      logger_.warn("the lease cannot be written; trying again", {{"error", result.error().text()}});
    return tryLater(random_.jitter(leads_ && raced ? options_.retry / 4 : options_.retry, 0.2));
  }
  // Whoever asked meanwhile was told that we do not hold it, and has stopped.
  if (leads_ && !holds()) return lose("it could not be renewed in time");
  lease_ = *std::move(result);
  renewed_at_ = observed_at_ = began_at_;
  slow_ = false;
  tryLater(options_.retry);
  Duration passed = client_.scheduler().clock().instant() - renewed_at_;
  deadline_ = client_.scheduler().after(options_.deadline - passed,
                                        [this] { lose("it could not be renewed in time"); });
  if (std::exchange(leads_, true)) return;
  logger_.info("this program leads", {{"lease", options_.lease.text()}});
  show();
  changed_(true);
}

void Election::lose(std::string why) {
  leads_ = false;
  lost_ = true;
  timer_.reset();
  deadline_.reset();
  pending_.reset();
  show();
  logger_.error("the lease is lost", {{"lease", options_.lease.text()}, {"why", why}});
  changed_(false);
}

void Election::release(Function<void()> done) {
  timer_.reset();
  deadline_.reset();
  pending_.reset();
  bool held = holds();
  leads_ = false;
  lost_ = true;
  released_ = std::move(done);
  show();
  if (held) return giveUp(kReleaseTries);
  timer_ = client_.scheduler().after(0s, [this] { released_(); });
}

// A renewal that was dropped may have gone through all the same: then the lease is another one.
void Election::giveUp(int tries) {
  json::Value lease = lease_;
  json::Value& spec = lease.make("spec");
  spec.make("holderIdentity") = "";
  spec.make("leaseDurationSeconds") = 1;
  spec.make("renewTime") = formatTimeMicros(client_.scheduler().clock().now());
  pending_ = client_.update(kLeases, lease, {}, [this, tries](Result<json::Value> result) {
    if (result || result.error().code != Code::Conflict || tries <= 1) return released_();
    pending_ = client_.get(kLeases, options_.lease, [this, tries](Result<json::Value> got) {
      if (!got || holder(*got) != options_.identity) return released_();
      lease_ = *std::move(got);
      giveUp(tries - 1);
    });
  });
}

}  // namespace cadre::engine
