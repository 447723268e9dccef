#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/backoff.h"
#include "base/log.h"
#include "kube/watch.h"
#include "net/tls.h"

namespace cadre::engine {

// The keys of a server that the API server calls, as a Secret holds them. An authority of our own
// signs what is served, and is what the API server trusts. It changes in three steps, so that
// whatever is served is trusted by whoever has seen the step before: the next one is trusted; it
// signs what is served; the old one is trusted no longer.
struct ServingKeys {
  net::CertificateAndKey authority;
  std::optional<net::CertificateAndKey> next;  // trusted, signs nothing yet
  std::string old;                             // trusted, signs nothing any more; or empty
  net::CertificateAndKey serving;

  // InvalidArgument when a part is missing, cannot be read or does not fit the others.
  static Result<ServingKeys> read(const json::Value& secret);
  json::Object data() const;    // of the Secret
  std::string trusted() const;  // every authority that is, as PEM
};

enum class KeyStep {
  MakeAll,
  AddAuthority,     // the next one is trusted
  SwitchAuthority,  // it signs
  DropAuthority,    // the old one is trusted no longer
  RenewServing,     // by the same authority
};

// What to do next, and when. `spread`: how long a step takes to reach every server and every API
// server. Pure.
struct NextStep {
  KeyStep step;
  Time at;
};
NextStep nextStep(const ServingKeys& keys, const std::vector<std::string>& names, Duration spread,
                  Time now);
// The keys after that step.
Result<ServingKeys> takeStep(ServingKeys keys, KeyStep step, const std::vector<std::string>& names,
                             Time now);

// Certificates of what is served live for 90 days, authorities for a year; both are renewed when a
// third of that is left.
inline constexpr int kServingDays = 90, kAuthorityDays = 365;

struct KeyKeeperOptions {
  kube::ObjectKey secret;
  std::string configuration;       // the ValidatingWebhookConfiguration whose caBundle is kept
  std::vector<std::string> names;  // what the API server calls us by
  Duration spread = 24h;
  Logger* logger = nullptr;
};

// Keeps serving keys in a Secret: makes them where there are none, renews them, and keeps the
// caBundle current. Several programs may do so at once: one writes, the others read. Belongs to the
// client's thread.
class KeyKeeper {
 public:
  // `changed` is told what is to be served from now on.
  KeyKeeper(kube::Client& client, Random& random, KeyKeeperOptions options,
            Function<void(const net::CertificateAndKey& serving)> changed);

  // What is in the way; empty when keys are served and trusted.
  std::string trouble() const;

 private:
  void follow(const kube::Resource& resource, const kube::ObjectKey& key,
              std::unique_ptr<kube::Watcher>& watcher, std::optional<json::Value>& seen);
  void work();
  void keepSecret();
  void keepConfiguration();
  void save(const ServingKeys& keys, bool is_new);
  void failed(std::string_view doing, const Error& error);

  kube::Client& client_;
  Random& random_;
  const KeyKeeperOptions options_;
  Logger& logger_;
  const Function<void(const net::CertificateAndKey&)> changed_;
  // As last seen: null when they do not exist, nothing when that is not known.
  std::optional<json::Value> secret_, configuration_;
  std::unique_ptr<kube::Watcher> secret_watcher_, configuration_watcher_;
  std::optional<ServingKeys> keys_;
  std::string version_;  // of the Secret that they were read from
  NextStep next_{KeyStep::MakeAll, {}};
  std::string served_;  // the certificate
  std::string last_failure_;
  Backoff backoff_;
  Pending saving_, patching_, timer_;
  bool saves_ = false, patches_ = false;
  bool bundle_current_ = false;
};

}  // namespace cadre::engine
