#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/metrics.h"
#include "engine/serve.h"
#include "engine/serving_keys.h"
#include "kube/meta.h"
#include "kube/schema.h"

namespace cadre::engine {

enum class Operation { Create, Update, Delete };

// What the requester must be allowed to do in the object's namespace: a field lends them more.
struct Demand {
  std::string field;
  std::string verb;
  kube::Resource resource;
  std::string why;  // "only who may create pods may choose their service account"
};

// What is wrong with an object. Nothing: it is allowed.
struct Verdict {
  std::vector<Detail> causes = {};  // {"spec.bulbs", "FieldValueInvalid", "must be at least 1"}
  std::vector<Demand> demands = {};
  std::vector<std::string> warnings = {};  // shown to the user in either case
};

// Says whether objects of a kind may be so. Pure: the API server also asks in dry runs, and for
// objects that are then not stored. On deletion `object` is null, on creation `old_object`.
struct Validator {
  kube::Resource resource;
  Function<Verdict(Operation operation, const json::Value& object, const json::Value& old_object)>
      validate;
};

// What the kind's description alone says. A change is not blamed for what was wrong before.
Verdict verdictOf(const kube::Kind& kind, Operation operation, const json::Value& object,
                  const json::Value& old_object);

// What is to be said to an AdmissionReview (admission.k8s.io/v1). Subresources are allowed unseen,
// and so are changes of what is being deleted: it must be able to go. InvalidArgument for what is
// no review, NotFound for a kind that no validator knows.
Result<Verdict> judge(const json::Value& review, const std::vector<Validator>& validators);
// Saying it: the review with its response. Demands are not looked at: they are met, or causes.
json::Value answerTo(const json::Value& review, const Verdict& verdict);

struct WebhookOptions {
  std::string address = ":9443";
  std::vector<Validator> validators;
  // Where the certificate comes from: a folder with tls.crt and tls.key, which is looked at again
  // and again; or else keys of our own.
  std::string certificate_directory;
  KeyKeeperOptions keys;
  Logger* logger = nullptr;
  Metrics* metrics = nullptr;
};

// Answers POST /validate for the API server, with TLS. Whether a requester may do what a validator
// demands is asked of the API server; where it does not say, the object is refused. A new
// certificate is served to those who connect from then on; who is connected is not disturbed.
// Belongs to the loop's thread.
class WebhookServer {
 public:
  static Result<std::unique_ptr<WebhookServer>> open(net::Loop& loop, kube::Client& client,
                                                     Random& random, WebhookOptions options);

  std::uint16_t port() const { return server_->port(); }
  // What keeps the API server from being answered; empty when all is well.
  std::string trouble() const;
  // Looks at the certificate folder now.
  Result<> reload();
  // Takes no new connections; calls back when the last answer is out.
  void drain(Function<void()> drained) { server_->drain(std::move(drained)); }

 private:
  WebhookServer(net::Loop& loop, kube::Client& client, WebhookOptions options);
  void answer(std::shared_ptr<net::ServerRequest> request);
  struct Asked;
  void ask(const std::shared_ptr<Asked>& asked);
  void finish(const std::shared_ptr<Asked>& asked);
  void watchDirectory();
  Result<> serve(const net::CertificateAndKey& pair);
  void count(int status, Duration took);

  net::Loop& loop_;
  kube::Client& client_;
  const WebhookOptions options_;
  Logger& logger_;
  std::unique_ptr<net::HttpServer> server_;
  std::unique_ptr<KeyKeeper> keeper_;
  net::CertificateAndKey served_;
  Pending timer_;
  std::set<std::shared_ptr<Asked>> asked_;  // reviews that wait for the API server's word
};

// The API server can be answered.
Check answering(const WebhookServer& server);

}  // namespace cadre::engine
