#include "engine/serving_keys.h"

#include <algorithm>

#include "base/format.h"
#include "base/strings.h"

namespace cadre::engine {
namespace {

const kube::Resource kSecrets{"", "v1", "secrets", "Secret"};
const kube::Resource kConfigurations{"admissionregistration.k8s.io", "v1",
                                     "validatingwebhookconfigurations",
                                     "ValidatingWebhookConfiguration", false};
constexpr Duration kLookAgain = 1h;

struct Life {
  Time made, ends;

  Time nearItsEnd() const { return ends - (ends - made) / 3; }
};

Result<Life> lifeOf(const net::CertificateAndKey& pair) {
  CADRE_LET(net::CertificateFacts facts, net::readCertificate(pair.certificate));
  return Life{.made = facts.not_before - net::kCertificateBegins, .ends = facts.not_after};
}

Result<net::CertificateAndKey> makeAuthority(Time now) {
  // Each under its own name: they are trusted side by side.
  return net::makeCertificate({.common_name = "cadre webhooks " + formatTime(now),
                               .organization = "cadre",
                               .authority = true,
                               .days = kAuthorityDays,
                               .now = now});
}

Result<net::CertificateAndKey> makeServing(const net::CertificateAndKey& authority,
                                           const std::vector<std::string>& names, Time now) {
  return net::makeCertificate({.common_name = "cadre webhooks",
                               .organization = "cadre",
                               .names = names,
                               .days = kServingDays,
                               .now = now},
                              &authority);
}

// IPv6 addresses can be written in several ways: they are not compared.
bool hasNames(const net::CertificateFacts& facts, std::vector<std::string> names) {
  std::vector<std::string> has = facts.names;
  for (std::vector<std::string>* list : {&has, &names})
    std::erase_if(*list, [](const std::string& name) { return name.find(':') != name.npos; });
  return has == names;
}

}  // namespace

Result<ServingKeys> ServingKeys::read(const json::Value& secret) {
  auto text = [&](std::string_view key) {
    return base64Decode(secret["data"][key].string()).value_or("");
  };
  ServingKeys keys{.authority = {text("ca.crt"), text("ca.key")},
                   .next = std::nullopt,
                   .old = text("ca-old.crt"),
                   .serving = {text("tls.crt"), text("tls.key")}};
  if (!secret["data"]["ca-next.crt"].isNull())
    keys.next = net::CertificateAndKey{text("ca-next.crt"), text("ca-next.key")};
  // A context is what takes a certificate and its key together.
  auto check = [](std::string_view what, const net::CertificateAndKey& pair) -> Result<> {
    auto usable = net::TlsContext::server({.certificate = pair.certificate, .key = pair.key});
    if (!usable) return std::move(usable).error().context(what);
    return {};
  };
  CADRE_TRY(check("ca.crt and ca.key", keys.authority));
  CADRE_TRY(check("tls.crt and tls.key", keys.serving));
  if (keys.next) CADRE_TRY(check("ca-next.crt and ca-next.key", *keys.next));
  if (!keys.old.empty()) CADRE_TRY(net::readCertificate(keys.old));
  if (!net::isSignedBy(keys.serving.certificate, keys.authority.certificate))
    return Error{.code = Code::InvalidArgument, .message = "ca.crt did not sign tls.crt"};
  return keys;
}

json::Object ServingKeys::data() const {
  json::Object data{{"ca.crt", base64Encode(authority.certificate)},
                    {"ca.key", base64Encode(authority.key)},
                    {"tls.crt", base64Encode(serving.certificate)},
                    {"tls.key", base64Encode(serving.key)}};
  if (next) {
    data.set("ca-next.crt", base64Encode(next->certificate));
    data.set("ca-next.key", base64Encode(next->key));
  }
  if (!old.empty()) data.set("ca-old.crt", base64Encode(old));
  return data;
}

std::string ServingKeys::trusted() const {
  return authority.certificate + (next ? next->certificate : "") + old;
}

NextStep nextStep(const ServingKeys& keys, const std::vector<std::string>& names, Duration spread,
                  Time now) {
  auto authority = lifeOf(keys.authority), serving = lifeOf(keys.serving);
  auto facts = net::readCertificate(keys.serving.certificate);
  if (!authority || !serving || !facts || now >= authority->ends) return {KeyStep::MakeAll, now};
  if (now >= serving->ends || !hasNames(*facts, names)) return {KeyStep::RenewServing, now};
  NextStep change{KeyStep::AddAuthority, authority->nearItsEnd()};
  if (keys.next) {
    auto next = lifeOf(*keys.next);
    change = {KeyStep::SwitchAuthority, next ? next->made + spread : now};
  } else if (!keys.old.empty()) {
    change = {KeyStep::DropAuthority, serving->made + spread};
  }
  NextStep renewal{KeyStep::RenewServing, serving->nearItsEnd()};
  return change.at <= renewal.at ? change : renewal;
}

Result<ServingKeys> takeStep(ServingKeys keys, KeyStep step, const std::vector<std::string>& names,
                             Time now) {
  switch (step) {
    case KeyStep::MakeAll: {
      keys = {};
      CADRE_LET(keys.authority, makeAuthority(now));
      CADRE_LET(keys.serving, makeServing(keys.authority, names, now));
      break;
    }
    case KeyStep::AddAuthority: {
      CADRE_LET(keys.next, makeAuthority(now));
      break;
    }
    case KeyStep::SwitchAuthority: {
      keys.old = keys.authority.certificate;
      keys.authority = *std::exchange(keys.next, std::nullopt);
      CADRE_LET(keys.serving, makeServing(keys.authority, names, now));
      break;
    }
    case KeyStep::DropAuthority:
      keys.old.clear();
      break;
    case KeyStep::RenewServing: {
      CADRE_LET(keys.serving, makeServing(keys.authority, names, now));
      break;
    }
  }
  return keys;
}

KeyKeeper::KeyKeeper(kube::Client& client, Random& random, KeyKeeperOptions options,
                     Function<void(const net::CertificateAndKey& serving)> changed)
    : client_(client),
      random_(random),
      options_(std::move(options)),
      logger_(options_.logger ? *options_.logger : Logger::silent()),
      changed_(std::move(changed)),
      backoff_({.first = 1s, .limit = 1min, .factor = 2, .jitter = 0.3}, random) {
  follow(kSecrets, options_.secret, secret_watcher_, secret_);
  follow(kConfigurations, {"", options_.configuration}, configuration_watcher_, configuration_);
}

std::string KeyKeeper::trouble() const {
  std::string why = last_failure_.empty() ? "" : ": " + last_failure_;
  if (!keys_) return format("the Secret {} is not there yet{}", options_.secret.text(), why);
  if (!bundle_current_) return format("the caBundle is not current yet{}", why);
  return {};
}

// One object, by itself.
void KeyKeeper::follow(const kube::Resource& resource, const kube::ObjectKey& key,
                       std::unique_ptr<kube::Watcher>& watcher, std::optional<json::Value>& seen) {
  kube::WatchHandler handler;
  // What we wrote ourselves may be newer than what the watch tells.
  auto put = [&seen](json::Value object) {
    auto order = seen ? kube::compareResourceVersions(kube::resourceVersion(object),
                                                      kube::resourceVersion(*seen))
                      : std::nullopt;
    if (order && *order < 0) return;
    seen = std::move(object);
  };
  auto found = std::make_shared<bool>(false);
  handler.begin = [found] { *found = false; };
  handler.item = [found, put](json::Value object) {
    *found = true;
    put(std::move(object));
  };
  handler.synced = [this, found, &seen] {
    if (!*found) seen = json::Value();
    work();
  };
  handler.changed = [this, put, &seen](kube::EventType type, json::Value object) {
    if (type == kube::EventType::Deleted) {
      seen = json::Value();
    } else {
      put(std::move(object));
    }
    work();
  };
  handler.failed = [this, kind = resource.kind](const Error& error) {
    last_failure_ = error.context("watching the " + kind).text();
    logger_.warn("the webhook's keys cannot be watched; trying again", {{"error", last_failure_}});
  };
  watcher = std::make_unique<kube::Watcher>(
      client_,
      kube::WatcherOptions{.resource = resource,
                           .select = {.ns = key.ns, .fields = "metadata.name=" + key.name}},
      random_, std::move(handler));
}

void KeyKeeper::work() {
  last_failure_.clear();
  keepSecret();
  if (keys_ && keys_->serving.certificate != served_) {
    served_ = keys_->serving.certificate;
    changed_(keys_->serving);
  }
  keepConfiguration();
}

void KeyKeeper::keepSecret() {
  if (!secret_ || saves_) return;
  Time now = client_.scheduler().clock().now();
  if (secret_->isNull()) {
    // Somebody deleted it: what is trusted already goes on.
    if (keys_) return save(*keys_, true);
  } else if (version_ != kube::resourceVersion(*secret_)) {
    version_ = kube::resourceVersion(*secret_);
    auto read = ServingKeys::read(*secret_);
    if (read) {
      keys_ = *std::move(read);
      next_ = nextStep(*keys_, options_.names, options_.spread, now);
    } else {
      next_ = {KeyStep::MakeAll, now};
      logger_.warn("the webhook's keys cannot be used and are made anew",
                   {{"secret", options_.secret.text()}, {"error", read.error().text()}});
    }
  }
  if (next_.at > now) {
    // Not in one go: the wall clock may jump.
    timer_ = client_.scheduler().after(std::min(kLookAgain, next_.at - now), [this] { work(); });
    return;
  }
  auto stepped = takeStep(keys_ ? *keys_ : ServingKeys{}, next_.step, options_.names, now);
  if (!stepped) return failed("making keys", stepped.error());
  save(*stepped, secret_->isNull());
}

void KeyKeeper::save(const ServingKeys& keys, bool is_new) {
  json::Value secret =
      is_new ? json::Object{{"metadata", json::Object{{"name", options_.secret.name},
                                                      {"namespace", options_.secret.ns}}}}
             : *secret_;
  secret.make("data") = keys.data();
  saves_ = true;
  auto done = [this,
               before = std::string(kube::resourceVersion(*secret_))](Result<json::Value> saved) {
    saves_ = false;
    if (saved) {
      backoff_.reset();
      secret_ = *std::move(saved);
      return work();
    }
    if (saved.error().code != Code::Conflict && saved.error().code != Code::AlreadyExists)
      return failed("writing the Secret", saved.error());
    // Another one was faster: its keys come by the watch, or have come already.
    if (kube::resourceVersion(*secret_) != before) work();
  };
  saving_ = is_new ? client_.create(kSecrets, secret, {}, done)
                   : client_.update(kSecrets, secret, {}, done);
}

void KeyKeeper::keepConfiguration() {
  if (!keys_ || !configuration_ || patches_) return;
  std::string bundle = base64Encode(keys_->trusted());
  json::Array patch{json::Object{{"op", "test"},
                                 {"path", "/metadata/resourceVersion"},
                                 {"value", kube::resourceVersion(*configuration_)}}};
  const json::Array& webhooks = (*configuration_)["webhooks"].array();
  for (std::size_t i = 0; i < webhooks.size(); ++i)
    if (webhooks[i]["clientConfig"]["caBundle"].string() != bundle)
      patch.push_back(json::Object{{"op", "add"},
                                   {"path", format("/webhooks/{}/clientConfig/caBundle", i)},
                                   {"value", bundle}});
  bundle_current_ = patch.size() == 1;  // also where there is no configuration: nobody calls us
  if (bundle_current_) return;
  patches_ = true;
  patching_ = client_.patch(kConfigurations, {"", options_.configuration}, kube::PatchType::Json,
                            std::move(patch), {}, [this](Result<json::Value> patched) {
                              patches_ = false;
                              if (!patched) return failed("writing the caBundle", patched.error());
                              backoff_.reset();
                              configuration_ = *std::move(patched);
                              work();
                            });
}

void KeyKeeper::failed(std::string_view doing, const Error& error) {
  Duration wait = backoff_.next();
  timer_ = client_.scheduler().after(wait, [this] { work(); });
  last_failure_ = error.context(doing).text();
  logger_.warn("the webhook's keys are not current; trying again",
               {{"error", last_failure_}, {"after", formatDuration(wait)}});
}

}  // namespace cadre::engine
