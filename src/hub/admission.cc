#include "hub/admission.h"

#include <algorithm>

#include "base/format.h"
#include "base/random.h"
#include "base/strings.h"
#include "json/parse.h"
#include "json/patch.h"
#include "json/write.h"
#include "kube/endpoints.h"
#include "kube/selector.h"

namespace cadre::hub {
namespace {

constexpr std::string_view kMutating = "admissionregistration.k8s.io/mutatingwebhookconfigurations";
constexpr std::string_view kValidating =
    "admissionregistration.k8s.io/validatingwebhookconfigurations";
constexpr std::string_view kReviewVersion = "admission.k8s.io/v1";
constexpr std::size_t kMaxAnswer = 8u << 20;
constexpr std::size_t kMaxWays = 200;

bool has(const json::Value& list, std::string_view text) {
  return std::ranges::any_of(list.array(), [&](const json::Value& one) {
    return one.string() == "*" || one.string() == text;
  });
}

bool matchesRule(const json::Value& rule, const Asking& asking, const kube::Resource& resource) {
  if (!has(rule["operations"], asking.operation) || !has(rule["apiGroups"], resource.group) ||
      !has(rule["apiVersions"], resource.version))
    return false;
  std::string scope = rule["scope"].string();
  if ((scope == "Namespaced" && !resource.namespaced) ||
      (scope == "Cluster" && resource.namespaced))
    return false;
  return std::ranges::any_of(rule["resources"].array(), [&](const json::Value& one) {
    auto [plural, part] = cut(one.string(), "/");
    return (plural == "*" || plural == resource.plural) &&
           (one.string() == "*/*" || part == "*" || part == asking.subresource);
  });
}

bool isNamespace(const Asking& asking) { return asking.kind->storage == "namespaces"; }

bool selects(const json::Value& selector, const json::Object& labels) {
  if (selector.isNull()) return true;
  auto parsed = kube::LabelSelector::fromObject(selector);
  return parsed && parsed->matches(labels);
}

}  // namespace

struct Admission::Hook {
  std::string name;
  json::Value webhook;
  KindRef as = {};  // what it is asked about, in its own version

  bool fails() const { return webhook["failurePolicy"].string() != "Ignore"; }
  std::int64_t seconds() const {
    return std::clamp<std::int64_t>(webhook["timeoutSeconds"].integer(10), 1, 30);
  }
};

Admission::Admission(Scheduler& scheduler, Random& random, const Objects& objects,
                     const Kinds& kinds, Connect connect)
    : scheduler_(scheduler),
      random_(random),
      objects_(objects),
      kinds_(kinds),
      connect_(std::move(connect)) {}

Admission::~Admission() = default;

Admission::Hooks Admission::configured(std::string_view configurations) const {
  Hooks hooks;
  for (const auto& [key, state] : objects_.all(configurations)) {
    json::Value configuration = state->value();
    for (const json::Value& webhook : configuration["webhooks"].array())
      hooks.push_back({webhook["name"].string(), webhook});
  }
  return hooks;
}

void Admission::told(const Change& change) {
  if (change.resource == kMutating) mutating_ = configured(kMutating);
  if (change.resource == kValidating) validating_ = configured(kValidating);
}

// None: it does not want to be asked.
KindRef Admission::askedAs(const Hook& hook, const Asking& asking) const {
  auto wants = [&](const kube::Resource& resource) {
    return std::ranges::any_of(hook.webhook["rules"].array(), [&](const json::Value& rule) {
      return matchesRule(rule, asking, resource);
    });
  };
  if (wants(asking.kind->resource)) return asking.kind;
  if (hook.webhook["matchPolicy"].string() == "Exact") return nullptr;
  for (const KindRef& other : kinds_.versionsOf(asking.kind->storage))
    if (wants(other->resource)) return other;
  return nullptr;
}

Admission::Hooks Admission::matching(const Hooks& hooks, const Asking& asking) const {
  Hooks found;
  // They could make themselves impossible to remove.
  if (asking.kind->resource.group == "admissionregistration.k8s.io") return found;
  for (const Hook& hook : hooks) {
    const json::Value& webhook = hook.webhook;
    KindRef as = askedAs(hook, asking);
    if (!as) continue;
    if (!webhook["namespaceSelector"].isNull()) {
      // A namespace is taken as it would be.
      bool itself = isNamespace(asking);
      json::Object labels;
      if (itself && asking.subresource.empty() && !asking.object.isNull()) {
        labels = kube::labels(asking.object);
      } else if (State ns =
                     objects_.find("namespaces", {"", itself ? asking.key.name : asking.key.ns})) {
        labels = ns->labels;
      }
      bool is_in_one = itself || asking.kind->resource.namespaced;
      if (is_in_one && !selects(webhook["namespaceSelector"], labels)) continue;
    }
    auto isMeant = [&](const json::Value& object) {
      return !object.isNull() && selects(webhook["objectSelector"], kube::labels(object));
    };
    if (!isMeant(asking.object) && !isMeant(asking.old)) continue;
    found.push_back(hook);
    found.back().as = std::move(as);
  }
  return found;
}

bool Admission::concerns(const Asking& asking) const {
  return !matching(mutating_, asking).empty() || !matching(validating_, asking).empty();
}

Result<Admission::Place> Admission::placeOf(const json::Value& config) {
  Place place{.authority = base64Decode(config["caBundle"].string()).value_or("")};
  std::string address = config["url"].string();
  if (address.empty()) {
    const json::Value& service = config["service"];
    kube::ObjectKey key{service["namespace"].string(), service["name"].string()};
    kube::Slices slices;
    const auto& all = objects_.all("discovery.k8s.io/endpointslices");
    for (auto one = all.lower_bound({key.ns, ""}); one != all.end() && one->first.ns == key.ns;
         ++one)
      if (const json::Value* of = one->second->labels.find(kube::kServiceName);
          of && of->string() == key.name)
        slices[one->first.name] = one->second->value();
    State state = objects_.find("services", key);
    CADRE_LET(auto places, kube::placesOf(key, state ? state->value() : json::Value(),
                                          json::Value(service["port"].integer(443)), slices));
    const net::Place& one = places[random_.next() % places.size()];
    address =
        format("https://{}{}", net::authority(one.address, one.port), service["path"].string());
    place.name = format("{}.{}.svc", key.name, key.ns);
  }
  CADRE_LET(place.url, net::Url::parse(address));
  return place;
}

Result<std::shared_ptr<net::HttpClient>> Admission::wayTo(const Place& place) {
  std::string key = join({place.url.origin(), place.name, place.authority}, " ");
  if (auto found = ways_.find(key); found != ways_.end()) return found->second;
  if (!connect_)
    return Error{.code = Code::Unavailable, .message = "no webhook can be reached from here"};
  if (ways_.size() >= kMaxWays) ways_.clear();
  CADRE_LET(auto client, connect_(place));
  return ways_[key] = std::move(client);
}

// All the asking about one write.
class Admission::Round : public std::enable_shared_from_this<Round> {
 public:
  Round(Admission& admission, Asking asking, Function<void(Outcome<Answer>)> done)
      : admission_(admission), asking_(std::move(asking)), done_(std::move(done)) {}

  // Nobody is answered before he has what he can give the asking up with.
  void beginSoon() {
    later([](Round& self) { self.begin(); });
  }
  void giveUp() { pending_.clear(); }

 private:
  void later(Function<void(Round&)> what) {
    pending_.push_back(
        admission_.scheduler_.after(0s, [weak = weak_from_this(), what = std::move(what)] {
          if (auto self = weak.lock(); self && !self->ended_) what(*self);
        }));
  }

  void begin() {
    mutating_ = admission_.matching(admission_.mutating_, asking_);
    next();
  }

  void next() {
    if (at_ < mutating_.size()) return call(mutating_[at_], true);
    // Who asked for it looks once more at what others made of it.
    if (asking_.changed && !again_) {
      again_ = true;
      std::erase_if(mutating_, [](const Hook& hook) {
        return hook.webhook["reinvocationPolicy"].string() != "IfNeeded";
      });
      at_ = 0;
      if (!mutating_.empty()) return next();
    }
    if (asking_.settle)
      if (auto failure = asking_.settle(asking_)) return end(*std::move(failure));
    validating_ = admission_.matching(admission_.validating_, asking_);
    open_ = validating_.size();
    if (open_ == 0) return finish();
    auto self = shared_from_this();
    for (const Hook& hook : validating_) {
      if (ended_) return;
      call(hook, false);
    }
  }

  void finish() { end(Answer{std::move(asking_), std::move(warnings_)}); }
  void end(Outcome<Answer> outcome) {
    if (std::exchange(ended_, true)) return;
    done_(std::move(outcome));
  }

  json::Value asSeenBy(const Hook& hook, json::Value object) const {
    if (hook.as != asking_.kind && !object.isNull())
      object.make("apiVersion") = hook.as->resource.apiVersion();
    return object;
  }

  json::Value review(const Hook& hook) {
    auto kindOf = [this](const kube::Resource& resource) {
      kube::GroupVersionKind kind = asking_.sent.value_or(resource.gvk());
      return json::Object{{"group", kind.group}, {"version", kind.version}, {"kind", kind.kind}};
    };
    auto pluralOf = [](const kube::Resource& resource) {
      return json::Object{
          {"group", resource.group}, {"version", resource.version}, {"resource", resource.plural}};
    };
    const kube::Resource &asked = asking_.kind->resource, &as = hook.as->resource;
    uid_ = format("{:016x}{:016x}", admission_.random_.next(), admission_.random_.next());
    json::Object request{{"uid", uid_},
                         {"kind", kindOf(as)},
                         {"resource", pluralOf(as)},
                         {"requestKind", kindOf(asked)},
                         {"requestResource", pluralOf(asked)},
                         {"operation", asking_.operation},
                         {"userInfo", asking_.user},
                         {"object", asSeenBy(hook, asking_.object)},
                         {"oldObject", asSeenBy(hook, asking_.old)},
                         {"dryRun", asking_.dry_run},
                         {"options", asking_.options}};
    if (!asking_.key.name.empty()) request.set("name", asking_.key.name);
    // What is done to a namespace is done in it.
    const std::string& ns = isNamespace(asking_) ? asking_.key.name : asking_.key.ns;
    if (!ns.empty()) request.set("namespace", ns);
    if (!asking_.subresource.empty()) {
      request.set("subResource", asking_.subresource);
      request.set("requestSubResource", asking_.subresource);
    }
    return json::Object{{"apiVersion", kReviewVersion},
                        {"kind", "AdmissionReview"},
                        {"request", std::move(request)}};
  }

  void call(const Hook& hook, bool mutating) {
    std::string effects = hook.webhook["sideEffects"].string();
    if (asking_.dry_run && effects != "None" && effects != "NoneOnDryRun")
      return end(
          badRequest(format("admission webhook \"{}\" does not support dry run", hook.name)));
    auto place = admission_.placeOf(hook.webhook["clientConfig"]);
    // Not at once: many of them would be one within the other.
    auto cannot = [&](const Error& error) {
      later([hook, mutating, error](Round& self) { self.unreachable(hook, mutating, error); });
    };
    if (!place) return cannot(place.error());
    auto way = admission_.wayTo(*place);
    if (!way) return cannot(way.error());
    std::int64_t seconds = hook.seconds();
    const std::string& target = place->url.target;
    net::HttpRequest request{
        .method = "POST",
        .target = format("{}{}timeout={}s", target.empty() ? "/" : target,
                         target.find('?') == std::string::npos ? "?" : "&", seconds),
        .headers = {{"content-type", "application/json"}, {"accept", "application/json"}},
        .body = json::write(review(hook)),
        .timeout = std::chrono::seconds(seconds)};
    if (!place->name.empty()) request.headers.add("host", place->name);
    ways_.push_back(*way);
    pending_.push_back(net::fetch(
        **way, std::move(request), kMaxAnswer,
        [weak = weak_from_this(), hook, mutating, uid = uid_](Result<net::HttpResponse> response) {
          auto self = weak.lock();
          if (!self || self->ended_) return;
          if (!response) return self->unreachable(hook, mutating, response.error());
          self->answered(hook, mutating, uid, *response);
        }));
  }

  void answered(const Hook& hook, bool mutating, const std::string& uid,
                const net::HttpResponse& response) {
    auto wrong = [&](std::string_view why) {
      failed(hook, mutating, Error{.code = Code::Internal, .message = std::string(why)});
    };
    if (response.status != 200) return wrong(format("it answered {}", response.status));
    auto review = json::parse(response.body);
    if (!review) return wrong("its answer is no JSON: " + review.error().text());
    if ((*review)["apiVersion"].string() != kReviewVersion)
      return wrong(format("failed to call webhook: its answer is of {}, not of {}",
                          (*review)["apiVersion"].string(), kReviewVersion));
    const json::Value& said = (*review)["response"];
    if (said["uid"].string() != uid) return wrong("its answer is to another request");
    if (!mutating && !said["patch"].isNull())
      return wrong(
          "received invalid webhook response: validating webhook may not return response.patch");
    for (const json::Value& warning : said["warnings"].array())
      warnings_.push_back(warning.string());
    if (!said["allowed"].boolean()) {
      const json::Value& status = said["status"];
      std::string message = status["message"].string();
      Failure failure{static_cast<int>(status["code"].integer(400)), status["reason"].string(),
                      format("admission webhook \"{}\" denied the request{}", hook.name,
                             message.empty() ? " without explanation" : ": " + message)};
      if (failure.code < 400 || failure.code > 599) failure.code = 403;
      if (status["details"].isObject()) failure.details = status["details"].object();
      return end(std::move(failure));
    }
    if (mutating && !said["patch"].isNull()) {
      auto text = base64Decode(said["patch"].string());
      auto patch = json::parse(text.value_or(""));
      if (!text || !patch || said["patchType"].string() != "JSONPatch")
        return wrong("its patch is no JSONPatch");
      auto patched =
          json::applyJsonPatch(asSeenBy(hook, asking_.object), *patch, {.replaces_missing = true});
      // It was reached and it answered: its failurePolicy does not cover what it says.
      if (!patched || !patched->isObject())
        return end(internal(format("the patch of webhook \"{}\" does not fit: {}", hook.name,
                                   patched ? "it leaves no object" : patched.error().text())));
      if ((*patched)["apiVersion"].string() == hook.as->resource.apiVersion())
        patched->make("apiVersion") = asking_.kind->resource.apiVersion();
      asking_.changed |= *patched != asking_.object;
      asking_.object = *std::move(patched);
    }
    goOn(mutating);
  }

  void goOn(bool mutating) {
    if (mutating) {
      ++at_;
      return next();
    }
    if (--open_ == 0) finish();
  }

  void unreachable(const Hook& hook, bool mutating, Error error) {
    const json::Value &config = hook.webhook["clientConfig"], &service = config["service"];
    std::string url = config["url"].string();
    if (url.empty())
      url = format("https://{}.{}.svc:{}{}", service["name"].string(),
                   service["namespace"].string(), service["port"].integer(443),
                   service["path"].string().empty() ? "/" : service["path"].string());
    error.message = format("failed to call webhook: Post \"{}?timeout={}s\": {}", url,
                           hook.seconds(), error.message);
    failed(hook, mutating, error);
  }

  void failed(const Hook& hook, bool mutating, const Error& error) {
    if (!hook.fails()) return goOn(mutating);
    end(internal(format("failed calling webhook \"{}\": {}", hook.name, error.text())));
  }

  Admission& admission_;
  Asking asking_;
  const Function<void(Outcome<Answer>)> done_;
  std::vector<Hook> mutating_, validating_;
  std::size_t at_ = 0, open_ = 0;
  bool again_ = false, ended_ = false;
  std::string uid_;
  std::vector<std::string> warnings_;
  std::vector<std::shared_ptr<net::HttpClient>> ways_;  // outlive what is sent on them
  std::vector<Pending> pending_;
};

Pending Admission::ask(Asking asking, Function<void(Outcome<Answer>)> done) {
  auto round = std::make_shared<Round>(*this, std::move(asking), std::move(done));
  round->beginSoon();
  return Pending([round] { round->giveUp(); });
}

}  // namespace cadre::hub
