#include "engine/sender.h"

#include <memory>

#include "base/strings.h"
#include "net/tls.h"

namespace cadre::engine {
namespace {

constexpr std::string_view kReplicasManager = "cadre-replicas";
constexpr int kMostTries = 5;

}  // namespace

// One write. Each step goes on to the next, or ends it.
class Sender::Sending : public std::enable_shared_from_this<Sending> {
 public:
  Sending(Sender& sender, Write write, Function<void(Result<json::Value>)> done)
      : sender_(sender), write_(std::move(write)), done_(std::move(done)) {}

  void begin() {
    switch (write_.op) {
      case Write::Op::Create:
        return create();
      case Write::Op::Apply:
        return write_.leave_replicas ? leaveReplicas() : beginApply();
      case Write::Op::Delete:
        return remove();
      case Write::Op::Metadata:
        return setMetadata();
      case Write::Op::Status:
        return setStatus();
      case Write::Op::Conflict:
        return;
    }
  }
  void giveUp() { step_.reset(); }

 private:
  using Answer = Result<json::Value>;

  // The next step, unless it was given up meanwhile.
  auto then(void (Sending::*next)(Answer)) {
    return [weak = weak_from_this(), next](Answer answer) {
      if (auto sending = weak.lock()) (sending.get()->*next)(std::move(answer));
    };
  }
  void end(Answer answer) { done_(std::move(answer)); }
  // That it is gone is as good as an answer.
  void endOrGone(Answer answer) {
    if (!answer && answer.error().code == Code::NotFound) answer = json::Value();
    end(std::move(answer));
  }
  const kube::Resource& resource() const { return write_.ref.resource; }
  const kube::ObjectKey& key() const { return write_.ref.key; }
  kube::Client& client() { return sender_.client_; }
  bool mayWrite() const { return sender_.may_write_(); }

  void create() {
    json::Value body = write_.object;
    for (const auto& [key, prefix] : write_.generate)  // known to nobody before this moment
      body.make("stringData").make(key) = prefix + hexEncode(net::secureRandom(32));
    step_ =
        client().create(resource(), body, {.as = write_.as, .retry = false}, then(&Sending::end));
  }

  // What only we have set falls back to its default when we leave it out. So somebody else holds
  // it, until an autoscaler or a user sets it.
  void leaveReplicas() {
    json::Value body = json::Object{
        {"apiVersion", write_.object["apiVersion"]},
        {"kind", write_.object["kind"]},
        {"metadata",
         json::Object{{"name", key().name}, {"namespace", key().ns}, {"uid", write_.uid}}},
        {"spec", json::Object{{"replicas", *write_.leave_replicas}}}};
    step_ = client().apply(
        resource(), body,
        {.as = write_.as, .field_manager = std::string(kReplicasManager), .retry = false},
        then(&Sending::leftReplicas));
  }
  void leftReplicas(Answer left) {
    // Set by somebody else meanwhile: all the better.
    if (!left && left.error().code != Code::Conflict) return end(std::move(left));
    if (mayWrite()) beginApply();
  }

  void beginApply() {
    if (!write_.take_over) return apply();
    whose_ = *write_.take_over;
    step_ = client().get(resource(), key(), then(&Sending::takeOver));
  }
  void takeOver(Answer there) {
    if (!there) return endOrGone(std::move(there));
    if (!mayWrite()) return;
    auto fields = takenOver(resource(), *there, sender_.predecessors_, whose_);
    if (!fields) return apply();
    json::Value patch =
        json::Object{{"metadata", json::Object{{"resourceVersion", kube::resourceVersion(*there)},
                                               {"managedFields", *std::move(fields)}}}};
    step_ = client().patch(resource(), key(), kube::PatchType::Merge, std::move(patch),
                           {.as = write_.as, .retry = false}, then(&Sending::tookOver));
  }
  void tookOver(Answer taken) {
    // Controllers write its status all the time: then once more, as it is now.
    if (!taken && taken.error().code == Code::Conflict && mayWrite() && ++tries_ < kMostTries) {
      step_ = client().get(resource(), key(), then(&Sending::takeOver));
      return;
    }
    if (!taken) return endOrGone(std::move(taken));
    if (mayWrite()) apply();
  }

  void apply() {
    json::Value body = write_.object;
    body.make("metadata").make("uid") = write_.uid;
    step_ = client().apply(resource(), body, {.as = write_.as, .force = true, .retry = false},
                           then(&Sending::applied));
  }
  void applied(Answer applied) {
    // By the object's own rules: who stands before the server may think otherwise in a while.
    bool refused = !applied && applied.error().reason == "Invalid" &&
                   !applied.error().message.starts_with("admission webhook");
    if (!refused || !mayWrite()) return end(std::move(applied));
    // What others wrote stays beside ours, and the two may not go together: a port of the same
    // name, a second source of a volume. Ours is what is meant to be.
    if (std::exchange(whose_, Write::Whose::Everybodys) == Write::Whose::Ours) {
      step_ = client().get(resource(), key(), then(&Sending::takeOver));
    } else if (write_.replace) {
      remove();  // and then it is made anew
    } else {
      end(std::move(applied));
    }
  }

  void remove() {
    step_ = client().remove(resource(), key(),
                            {.uid = write_.uid, .propagation = "Background", .retry = false},
                            then(&Sending::removed));
  }
  void removed(Answer gone) {
    // With finalizers it is still there, as the answer says.
    if (gone && !kube::isDeleting(*gone)) gone = json::Value();
    endOrGone(std::move(gone));
  }

  void setMetadata() {
    json::Value patch = json::Object{{"metadata", write_.object}};
    patch.make("metadata").make("uid") = write_.uid;
    patch.make("metadata").make("resourceVersion") = write_.version;
    step_ = client().patch(resource(), key(), kube::PatchType::Merge, patch, {.retry = false},
                           then(&Sending::endOrGone));
  }

  void setStatus() {
    step_ = client().apply(resource(), write_.object,
                           {.force = true, .subresource = "status", .retry = false},
                           then(&Sending::end));
  }

  Sender& sender_;
  const Write write_;
  const Function<void(Answer)> done_;
  Write::Whose whose_ = Write::Whose::Ours;
  int tries_ = 0;
  Pending step_;
};

Pending Sender::send(Write write, Function<void(Result<json::Value>)> done) {
  auto sending = std::make_shared<Sending>(*this, std::move(write), std::move(done));
  sending->begin();
  return Pending([sending] { sending->giveUp(); });
}

}  // namespace cadre::engine
