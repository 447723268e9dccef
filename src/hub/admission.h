#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/scheduler.h"
#include "hub/failure.h"
#include "hub/kind.h"
#include "hub/objects.h"
#include "net/http.h"

namespace cadre::hub {

// A write that others are asked about before it happens.
struct Asking {
  std::string operation;  // CREATE, UPDATE, DELETE
  KindRef kind;
  kube::ObjectKey key;
  std::string subresource;
  // What is sent, where that is something else than the kind: a Binding to a Pod.
  std::optional<kube::GroupVersionKind> sent = {};
  json::Value object, old;            // null when there is none
  json::Value user = json::Object{};  // {username, uid, groups, extra}
  json::Value options = {};
  bool dry_run = false;
  bool changed = false;  // the object, by a webhook
  // When all have been asked who may change the object: what else becomes of it, or why it is
  // refused.
  Function<std::optional<Failure>(Asking& asking)> settle = {};
};

// Asks the webhooks that are configured (MutatingWebhookConfiguration and
// ValidatingWebhookConfiguration, admission.k8s.io/v1): first those that may change the object, one
// after the other in the order of their names, then those that may only refuse, all at once.
//
// A webhook that names one version of a resource is asked about its other versions too, in the one
// that it names, unless its matchPolicy is Exact.
//
// matchConditions, which are CEL, are not evaluated: such a webhook is asked about everything else
// that it matches, as if it had none.
class Admission {
 public:
  // Where a webhook is, and how it is known to be the one.
  struct Place {
    net::Url url;
    std::string authority;  // PEM; empty: the system's own
    std::string name;       // that its certificate is for; empty: the host of the URL
  };
  using Connect = Function<Result<std::unique_ptr<net::HttpClient>>(const Place& place)>;

  struct Answer {
    Asking asked;  // with the object as they left it
    std::vector<std::string> warnings;
  };

  Admission(Scheduler& scheduler, Random& random, const Objects& objects, const Kinds& kinds,
            Connect connect);
  ~Admission();

  void told(const Change& change);

  // Whether anybody wants to be asked: most writes go without.
  bool concerns(const Asking& asking) const;
  // Calls back once, unless it is dropped.
  Pending ask(Asking asking, Function<void(Outcome<Answer>)> done);

 private:
  struct Hook;
  class Round;

  using Hooks = std::vector<Hook>;

  Hooks configured(std::string_view configurations) const;
  KindRef askedAs(const Hook& hook, const Asking& asking) const;
  Hooks matching(const Hooks& hooks, const Asking& asking) const;
  // One of the ready pods, where it is a Service.
  Result<Place> placeOf(const json::Value& config);
  Result<std::shared_ptr<net::HttpClient>> wayTo(const Place& place);

  Scheduler& scheduler_;
  Random& random_;
  const Objects& objects_;
  const Kinds& kinds_;
  const Connect connect_;
  Hooks mutating_, validating_;  // as configured
  // By place. Who asks holds on to the way that he takes.
  std::map<std::string, std::shared_ptr<net::HttpClient>> ways_;
};

}  // namespace cadre::hub
