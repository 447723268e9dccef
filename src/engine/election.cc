#include "engine/election.h"

#include "base/format.h"

namespace cadre::engine {
namespace {

const kube::Resource kLeases{"coordination.k8s.io", "v1", "leases", "Lease"};

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
  if (options_.metrics)
    options_.metrics
        ->gauge("leader_election_master_status", "Whether this program leads.",
                {{"name", options_.lease.name}})
        .set(0);
  tryLater(0s);
}

bool Election::holds() const {
  return leads_ && client_.scheduler().clock().instant() - renewed_at_ < options_.deadline;
}

void Election::tryLater(Duration delay) {
  timer_ = client_.scheduler().after(delay, [this] { attempt(); });
}

void Election::attempt() {
  if (lost_) return;
  Instant now = client_.scheduler().clock().instant();
  if (leads_ && now - renewed_at_ >= options_.deadline)
    return lose("it could not be renewed in time");
  began_at_ = now;
  if (leads_) return write(record(lease_, false), false);
  look();
}

void Election::look() {
  pending_ = client_.get(kLeases, options_.lease, [this](Result<json::Value> got) {
    Instant now = client_.scheduler().clock().instant();
    if (!got && got.error().code == Code::NotFound) {
      json::Value lease = json::Object{
          {"metadata",
           json::Object{{"name", options_.lease.name}, {"namespace", options_.lease.ns}}}};
      return write(record(std::move(lease), true), true);
    }
    if (!got) {
      logger_.warn("the lease cannot be read; trying again", {{"error", got.error().text()}});
      return tryLater(random_.jitter(options_.retry, 0.2));
    }
    if ((*got)["spec"] != lease_["spec"]) observed_at_ = now;
    lease_ = *std::move(got);
    bool free = holder(lease_).empty() || holder(lease_) == options_.identity ||
                now - observed_at_ >= options_.duration;
    if (!free) return tryLater(random_.jitter(options_.retry, 0.2));
    write(record(lease_, holder(lease_) != options_.identity), false);
  });
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
  pending_ = is_new ? client_.create(kLeases, lease, {}, done)
                    : client_.update(kLeases, lease, {}, done);
}

void Election::wrote(Result<json::Value> result) {
  if (!result) {
    if (leads_ && result.error().code == Code::Conflict) {
      // Somebody wrote it. If it is still ours, it was no other leader.
      pending_ = client_.get(kLeases, options_.lease, [this](Result<json::Value> got) {
        if (got && holder(*got) != options_.identity) return lose("another one has it now");
        if (got) lease_ = *std::move(got);
        tryLater(random_.jitter(options_.retry / 4, 0.2));
      });
      return;
    }
    if (result.error().code != Code::Conflict && result.error().code != Code::AlreadyExists)
      logger_.warn("the lease cannot be written; trying again", {{"error", result.error().text()}});
    return tryLater(random_.jitter(options_.retry, 0.2));
  }
  lease_ = *std::move(result);
  renewed_at_ = observed_at_ = began_at_;
  tryLater(options_.retry);
  if (std::exchange(leads_, true)) return;
  logger_.info("this program leads", {{"lease", options_.lease.text()}});
  if (options_.metrics)
    options_.metrics->gauge("leader_election_master_status", "", {{"name", options_.lease.name}})
        .set(1);
  changed_(true);
}

void Election::lose(std::string why) {
  leads_ = false;
  lost_ = true;
  timer_.reset();
  if (options_.metrics)
    options_.metrics->gauge("leader_election_master_status", "", {{"name", options_.lease.name}})
        .set(0);
  changed_(false);
  logger_.error("the lease is lost", {{"lease", options_.lease.text()}, {"why", why}});
}

void Election::release(Function<void()> done) {
  timer_.reset();
  bool held = holds();
  leads_ = false;
  lost_ = true;
  if (!held) return client_.scheduler().post(std::move(done));
  json::Value lease = lease_;
  json::Value& spec = lease.make("spec");
  spec.make("holderIdentity") = "";
  spec.make("leaseDurationSeconds") = 1;
  spec.make("renewTime") = formatTimeMicros(client_.scheduler().clock().now());
  pending_ = client_.update(kLeases, lease, {},
                            [done = std::move(done)](Result<json::Value>) { done(); });
}

}  // namespace cadre::engine
